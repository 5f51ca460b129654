/*
 * ECB and CBC (NIST SP 800-38A) of ciphers with blocks of 64 bits that look tables up, a message a work item. Before this
 * text stand ENCRYPT_HALVES and DECRYPT_HALVES (key, left, right), which work on pointers to a block's halves, the first
 * byte of each the highest. The tables are a prepared key and lie among the resident keys; where they are read depends on
 * keys and data, so that this is for legacy use only.
 */
typedef struct {
    u32 left;
    u32 right;
} Block;

/* A message, or a part of one. */
typedef struct {
    GLOBAL u32 *data;
    GLOBAL const u32 *key;
    GLOBAL const u32 *iv;
    u32 blocks;
} Blocks;

DEVICE Block block_at(GLOBAL const u32 *words)
{
    Block block;
    block.left = swap_32(words[0]);
    block.right = swap_32(words[1]);
    return block;
}

DEVICE void put_block(GLOBAL u32 *words, const Block *block)
{
    words[0] = swap_32(block->left);
    words[1] = swap_32(block->right);
}

/* A work item's message; one that is not there has no blocks. */
DEVICE Blocks blocks_of(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    Blocks blocks;
    bool there = ITEM < buffer[HEAD_COUNT];
    u32 number = there ? ITEM : 0;
    Message message = message_of(buffer, number);
    blocks.data = buffer + message.at;
    blocks.key = key_of(buffer, keys, number);
    blocks.iv = iv_of(buffer, number);
    blocks.blocks = there ? (message.len + 7) / 8 : 0;
    return blocks;
}

KERNEL ecb_encrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    Blocks own = blocks_of(buffer, keys);
    ROLLED
    for (u32 number = 0; number < own.blocks; number++) {
        Block block = block_at(own.data + 2 * number);
        ENCRYPT_HALVES(own.key, &block.left, &block.right);
        put_block(own.data + 2 * number, &block);
    }
}

KERNEL ecb_decrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    Blocks own = blocks_of(buffer, keys);
    ROLLED
    for (u32 number = 0; number < own.blocks; number++) {
        Block block = block_at(own.data + 2 * number);
        DECRYPT_HALVES(own.key, &block.left, &block.right);
        put_block(own.data + 2 * number, &block);
    }
}

KERNEL cbc_encrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    Blocks own = blocks_of(buffer, keys);
    Block chain = block_at(own.iv);
    ROLLED
    for (u32 number = 0; number < own.blocks; number++) {
        Block block = block_at(own.data + 2 * number);
        chain.left ^= block.left;
        chain.right ^= block.right;
        ENCRYPT_HALVES(own.key, &chain.left, &chain.right);
        put_block(own.data + 2 * number, &chain);
    }
}

KERNEL cbc_decrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    Blocks own = blocks_of(buffer, keys);
    Block chain = block_at(own.iv);
    ROLLED
    for (u32 number = 0; number < own.blocks; number++) {
        Block block = block_at(own.data + 2 * number);
        Block next = block;
        DECRYPT_HALVES(own.key, &block.left, &block.right);
        block.left ^= chain.left;
        block.right ^= chain.right;
        put_block(own.data + 2 * number, &block);
        chain = next;
    }
}
