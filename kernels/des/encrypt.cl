/*
 * Encryption with DES and triple DES, 32 messages a work item. A program of its own: a compiler takes long over these.
 */

KERNEL ecb_encrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    DES_COLUMN
    ROLLED
    for (u32 block = 0; block < blocks; block++) {
        u32 left[32], right[32], x[32];
        UNROLL
        for (int i = 0; i < 32; i++) {
            left[i] = 0;
            right[i] = 0;
        }
        des_load(x, buffer, block, 0);
        des_initial_low(left, right, x);
        des_load(x, buffer, block, 1);
        des_initial_high(left, right, x);
        des_passes(left, right, column, passes, false);
        des_final_low(x, left, right);
        des_store(x, buffer, block, 0, false);
        des_final_high(x, left, right);
        des_store(x, buffer, block, 1, false);
    }
}

/* The chain stays in bit-sliced form: what comes out of one block's passes is what the next block is added to. */
KERNEL cbc_encrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    DES_COLUMN
    u32 left[32], right[32], x[32];
    UNROLL
    for (int i = 0; i < 32; i++) {
        left[i] = 0;
        right[i] = 0;
    }
    des_load_iv(x, buffer, 0);
    des_initial_low(left, right, x);
    des_load_iv(x, buffer, 1);
    des_initial_high(left, right, x);
    ROLLED
    for (u32 block = 0; block < blocks; block++) {
        des_load(x, buffer, block, 0);
        des_initial_low(left, right, x);
        des_load(x, buffer, block, 1);
        des_initial_high(left, right, x);
        des_passes(left, right, column, passes, false);
        des_final_low(x, left, right);
        des_store(x, buffer, block, 0, false);
        des_final_high(x, left, right);
        des_store(x, buffer, block, 1, false);
    }
}
