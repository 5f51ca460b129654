/*
 * AES in ECB, CBC and CTR (NIST SP 800-38A), two messages a work item.
 */

KERNEL ecb_encrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    ROLLED
    for (u32 block = 0; block < pair.blocks_max; block++) {
        u32 x[8];
        load_blocks(x, &pair, block);
        aes_encrypt(x, pair.key[0], pair.key[1], rounds);
        store_blocks(x, &pair, block);
    }
}

KERNEL ecb_decrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    ROLLED
    for (u32 block = 0; block < pair.blocks_max; block++) {
        u32 x[8];
        load_blocks(x, &pair, block);
        aes_decrypt(x, pair.key[0], pair.key[1], rounds);
        store_blocks(x, &pair, block);
    }
}

KERNEL cbc_encrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    u32 chain[8];
    load_ivs(chain, &pair);
    ROLLED
    for (u32 block = 0; block < pair.blocks_max; block++) {
        u32 x[8];
        load_blocks(x, &pair, block);
        UNROLL
        for (int i = 0; i < 8; i++) {
            chain[i] ^= x[i];
        }
        aes_encrypt(chain, pair.key[0], pair.key[1], rounds);
        store_blocks(chain, &pair, block);
    }
}

KERNEL cbc_decrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    u32 chain[8];
    load_ivs(chain, &pair);
    ROLLED
    for (u32 block = 0; block < pair.blocks_max; block++) {
        u32 x[8], next[8];
        load_blocks(x, &pair, block);
        UNROLL
        for (int i = 0; i < 8; i++) {
            next[i] = x[i];
        }
        aes_decrypt(x, pair.key[0], pair.key[1], rounds);
        UNROLL
        for (int i = 0; i < 8; i++) {
            x[i] ^= chain[i];
            chain[i] = next[i];
        }
        store_blocks(x, &pair, block);
    }
}

KERNEL ctr(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    u32 counter[8];
    load_ivs(counter, &pair);
    ROLLED
    for (u32 block = 0; block < pair.blocks_max; block++) {
        u32 x[8], stream[8];
        UNROLL
        for (int i = 0; i < 8; i++) {
            stream[i] = counter[i];
        }
        aes_encrypt(stream, pair.key[0], pair.key[1], rounds);
        load_blocks(x, &pair, block);
        UNROLL
        for (int i = 0; i < 8; i++) {
            x[i] ^= stream[i];
        }
        store_blocks(x, &pair, block);
        count_on(counter);
    }
}
