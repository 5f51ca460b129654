/*
 * DES (FIPS 46-3) and triple DES (NIST SP 800-67) in ECB and CBC, bit-sliced: a work item takes 32 messages side by side,
 * each with its own key. A word holds one bit of the 32 blocks; permutations are names of words, and the S-boxes are
 * networks of gates, so that nothing depends on keys or data. The key schedule is wiring as well: a round picks its 48 of
 * the key's 56 words. Those lie in local memory, a column an item, since they do not fit into registers.
 *
 * Neighbouring items take neighbouring messages: lane k of an item is k group sizes behind its first message.
 * The wiring (`des_initial`, `des_final`, `des_round`, `des_key_bits`) and the S-boxes are generated.
 *
 * A prepared key is two words a pass: the 28 bits of C and the 28 bits of D (FIPS 46-3, permuted choice 1), the first bit
 * of each in the lowest place.
 */
/* Transposes 32 by 32 bits: bit j of word i becomes bit i of word j. */
DEVICE void des_transpose(u32 *x)
{
#define SWAP_STAGE(by, mask)                                                                                          \
    UNROLL                                                                                                            \
    for (int i = 0; i < 32; i++) {                                                                                    \
        if ((i & (by)) == 0) {                                                                                        \
            u32 change = ((x[i] >> (by)) ^ x[i + (by)]) & (mask);                                                     \
            x[i + (by)] ^= change;                                                                                    \
            x[i] ^= change << (by);                                                                                   \
        }                                                                                                             \
    }
    SWAP_STAGE(16, 0x0000ffffu)
    SWAP_STAGE(8, 0x00ff00ffu)
    SWAP_STAGE(4, 0x0f0f0f0fu)
    SWAP_STAGE(2, 0x33333333u)
    SWAP_STAGE(1, 0x55555555u)
}

/* The number of the message in lane `lane`. */
DEVICE u32 des_message(u32 lane)
{
    return (GROUP * 32 + lane) * GROUP_SIZE + ITEM_IN_GROUP;
}

/* Blocks of the item's longest message. */
DEVICE u32 des_blocks_max(GLOBAL const u32 *buffer)
{
    u32 most = 0;
    if (buffer[HEAD_STRIDE] != 0) {
        return buffer[HEAD_LEN] / 8;
    }
    ROLLED
    for (u32 lane = 0; lane < 32; lane++) {
        u32 number = des_message(lane);
        if (number < buffer[HEAD_COUNT]) {
            u32 blocks = message_of(buffer, number).len / 8;
            most = blocks > most ? blocks : most;
        }
    }
    return most;
}

/* Puts the lanes' keys into the item's column of local memory, bit by bit. */
DEVICE void des_load_keys(LOCAL_POINTER u32 *column, GLOBAL const u32 *buffer, GLOBAL const u32 *keys, u32 passes)
{
    ROLLED
    for (u32 part = 0; part < 2 * passes; part++) {
        u32 x[32];
        UNROLL
        for (int lane = 0; lane < 32; lane++) {
            u32 number = des_message(lane);
            x[lane] = number < buffer[HEAD_COUNT] ? key_of(buffer, keys, number)[part] : 0u;
        }
        des_transpose(x);
        UNROLL
        for (int bit = 0; bit < 28; bit++) {
            column[(28 * part + bit) * DES_GROUP_MAX] = x[bit];
        }
    }
}

/* Half a block of each lane, its bits in words of their own; lanes that have no such block give zeros. */
DEVICE void des_load(u32 *x, GLOBAL const u32 *buffer, u32 block, u32 part)
{
    UNROLL
    for (int lane = 0; lane < 32; lane++) {
        u32 number = des_message(lane);
        u32 word = 0;
        if (number < buffer[HEAD_COUNT]) {
            Message message = message_of(buffer, number);
            if (8 * block < message.len) {
                word = buffer[message.at + 2 * block + part];
            }
        }
        x[lane] = word;
    }
    des_transpose(x);
}

DEVICE void des_load_iv(u32 *x, GLOBAL const u32 *buffer, u32 part)
{
    UNROLL
    for (int lane = 0; lane < 32; lane++) {
        u32 number = des_message(lane);
        x[lane] = number < buffer[HEAD_COUNT] ? iv_of(buffer, number)[part] : 0u;
    }
    des_transpose(x);
}

/* The other way. With `chained`, what was the block before, or the IV, is added: CBC decryption. */
DEVICE void des_store(u32 *x, GLOBAL u32 *buffer, u32 block, u32 part, bool chained)
{
    des_transpose(x);
    UNROLL
    for (int lane = 0; lane < 32; lane++) {
        u32 number = des_message(lane);
        if (number < buffer[HEAD_COUNT]) {
            Message message = message_of(buffer, number);
            if (8 * block < message.len) {
                u32 word = x[lane];
                if (chained) {
                    word ^= block == 0 ? iv_of(buffer, number)[part] : buffer[message.at + 2 * block - 2 + part];
                }
                buffer[message.at + 2 * block + part] = word;
            }
        }
    }
}

/*
 * The rounds of one or three passes, and the swap of halves after each. Between passes final and initial permutation
 * cancel. A pass backwards takes the round keys from the last to the first; with three passes the middle one goes the
 * other way.
 */
DEVICE void des_passes(u32 *left, u32 *right, LOCAL_POINTER const u32 *column, u32 passes, bool backwards)
{
    ROLLED
    for (u32 pass = 0; pass < passes; pass++) {
        u32 key = backwards ? passes - 1 - pass : pass;
        bool reverse = backwards != (pass == 1);
        LOCAL_POINTER const u32 *own = column + key * DES_KEY_WORDS * DES_GROUP_MAX;
        ROLLED
        for (u32 round = 0; round < 16; round += 2) {
            des_round(left, right, own, reverse ? 15 - round : round);
            des_round(right, left, own, reverse ? 14 - round : round + 1);
        }
        UNROLL
        for (int i = 0; i < 32; i++) {
            u32 other = left[i];
            left[i] = right[i];
            right[i] = other;
        }
    }
}

/* How every kernel begins. Items without messages end here; the others load their keys. */
#define DES_COLUMN                                                                                                    \
    LOCAL u32 columns[DES_PASSES_MAX * DES_KEY_WORDS * DES_GROUP_MAX];                                                \
    LOCAL_POINTER u32 *column = columns + ITEM_IN_GROUP;                                                              \
    if (des_message(0) >= buffer[HEAD_COUNT]) {                                                                       \
        return;                                                                                                       \
    }                                                                                                                 \
    u32 passes = buffer[HEAD_ROUNDS];                                                                                 \
    u32 blocks = des_blocks_max(buffer);                                                                              \
    des_load_keys(column, buffer, keys, passes);
