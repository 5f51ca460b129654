/*
 * Counter mode of the same ciphers: the IV is the whole first counter block, one big-endian number. What is behind a
 * message's end is of no meaning.
 */
KERNEL ctr(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    Blocks own = blocks_of(buffer, keys);
    Block counter = block_at(own.iv);
    ROLLED
    for (u32 number = 0; number < own.blocks; number++) {
        Block block = block_at(own.data + 2 * number);
        Block stream = counter;
        ENCRYPT_HALVES(own.key, &stream.left, &stream.right);
        block.left ^= stream.left;
        block.right ^= stream.right;
        put_block(own.data + 2 * number, &block);
        counter.right++;
        counter.left += counter.right == 0;
    }
}
