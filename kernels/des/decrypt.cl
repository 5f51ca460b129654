/*
 * Decryption with DES and triple DES, 32 messages a work item.
 */

/* Decrypts from the last block to the first, so that the block before is still there when it is to be added. */
DEVICE void des_decrypt_all(GLOBAL u32 *buffer, LOCAL_POINTER const u32 *column, u32 blocks, u32 passes, bool chained)
{
    ROLLED
    for (u32 left_over = blocks; left_over > 0; left_over--) {
        u32 block = left_over - 1;
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
        des_passes(left, right, column, passes, true);
        des_final_low(x, left, right);
        des_store(x, buffer, block, 0, chained);
        des_final_high(x, left, right);
        des_store(x, buffer, block, 1, chained);
    }
}

KERNEL ecb_decrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    DES_COLUMN
    des_decrypt_all(buffer, column, blocks, passes, false);
}

KERNEL cbc_decrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    DES_COLUMN
    des_decrypt_all(buffer, column, blocks, passes, true);
}
