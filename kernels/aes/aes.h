/*
 * AES (FIPS 197), bit-sliced: no table, no branch and no address depends on a key or on data.
 *
 * A work item takes two messages side by side, each with its own key, through one block of each at a time. The two blocks
 * lie in eight words. Word i holds bit i of all their bytes: that of the byte in row r and column c of message m (0 or
 * 1) at place 8 r + 2 c + m. So rows are bytes of a word: ShiftRows turns bytes within themselves, MixColumns turns
 * whole words by eight places, and words as they come from memory, a column each with row r in byte r, need but a
 * transposition of eight by eight bits in each byte. `aes_sub_bytes` and its inverse are generated from the field.
 *
 * A prepared key is eight words a round, for message 0; for message 1 they are shifted by one place.
 */

/* Transposes eight by eight bits in each of the four bytes: bit j of word i becomes bit i of word j. Its own inverse. */
#define SWAP_BITS(low, high, by, mask)                                                                                \
    {                                                                                                                 \
        u32 change = ((x[low] >> (by)) ^ x[high]) & (mask);                                                           \
        x[high] ^= change;                                                                                            \
        x[low] ^= change << (by);                                                                                     \
    }

DEVICE void aes_transpose(u32 *x)
{
    SWAP_BITS(0, 1, 1, 0x55555555u)
    SWAP_BITS(2, 3, 1, 0x55555555u)
    SWAP_BITS(4, 5, 1, 0x55555555u)
    SWAP_BITS(6, 7, 1, 0x55555555u)
    SWAP_BITS(0, 2, 2, 0x33333333u)
    SWAP_BITS(1, 3, 2, 0x33333333u)
    SWAP_BITS(4, 6, 2, 0x33333333u)
    SWAP_BITS(5, 7, 2, 0x33333333u)
    SWAP_BITS(0, 4, 4, 0x0f0f0f0fu)
    SWAP_BITS(1, 5, 4, 0x0f0f0f0fu)
    SWAP_BITS(2, 6, 4, 0x0f0f0f0fu)
    SWAP_BITS(3, 7, 4, 0x0f0f0f0fu)
}

/* ShiftRows: row r goes r columns to the left, which is 2 r places to the right within its byte. */
DEVICE void aes_shift_rows(u32 *x)
{
    UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] = (x[i] & 0x000000ffu) | ((x[i] >> 2) & 0x00003f00u) | ((x[i] << 6) & 0x0000c000u) |
               ((x[i] >> 4) & 0x000f0000u) | ((x[i] << 4) & 0x00f00000u) | ((x[i] >> 6) & 0x03000000u) |
               ((x[i] << 2) & 0xfc000000u);
    }
}

DEVICE void aes_shift_rows_back(u32 *x)
{
    UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] = (x[i] & 0x000000ffu) | ((x[i] << 2) & 0x0000fc00u) | ((x[i] >> 6) & 0x00000300u) |
               ((x[i] << 4) & 0x00f00000u) | ((x[i] >> 4) & 0x000f0000u) | ((x[i] << 6) & 0xc0000000u) |
               ((x[i] >> 2) & 0x3f000000u);
    }
}

/* The row below, by columns: row r + 1 comes to where row r is. */
#define ROW_BELOW(word) ROTATE_LEFT_32((word), 24)
#define TWO_ROWS_BELOW(word) ROTATE_LEFT_32((word), 16)

/* MixColumns (FIPS 197, 5.1.3): 2 a + 3 b + c + d with the rows below as b, c, d, which is 2 (a + b) + b + (c + d). */
DEVICE void aes_mix_columns(u32 *x)
{
    u32 pair[8], mixed[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        pair[i] = x[i] ^ ROW_BELOW(x[i]);
    }
    UNROLL
    for (int i = 0; i < 8; i++) {
        /* Doubling moves each bit up by one; the highest comes back as 0x1b. */
        u32 doubled = i == 0 ? pair[7] : (i == 1 || i == 3 || i == 4) ? pair[i - 1] ^ pair[7] : pair[i - 1];
        mixed[i] = doubled ^ ROW_BELOW(x[i]) ^ TWO_ROWS_BELOW(pair[i]);
    }
    UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] = mixed[i];
    }
}

/* InvMixColumns (FIPS 197, 5.3.3) is MixColumns after adding 4 (a + c) to both a and c. */
DEVICE void aes_mix_columns_back(u32 *x)
{
    u32 pair[8], quadrupled[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        pair[i] = x[i] ^ TWO_ROWS_BELOW(x[i]);
    }
    /* Bits 6 and 7 come back as 0x1b and 0x36. */
    quadrupled[0] = pair[6];
    quadrupled[1] = pair[6] ^ pair[7];
    quadrupled[2] = pair[0] ^ pair[7];
    quadrupled[3] = pair[1] ^ pair[6];
    quadrupled[4] = pair[2] ^ pair[6] ^ pair[7];
    quadrupled[5] = pair[3] ^ pair[7];
    quadrupled[6] = pair[4];
    quadrupled[7] = pair[5];
    UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] ^= quadrupled[i];
    }
    aes_mix_columns(x);
}

DEVICE void aes_add_round_key(u32 *x, GLOBAL const u32 *key0, GLOBAL const u32 *key1, u32 round)
{
    UNROLL
    for (int i = 0; i < 8; i++) {
        x[i] ^= key0[8 * round + i] | (key1[8 * round + i] << 1);
    }
}

DEVICE void aes_encrypt(u32 *x, GLOBAL const u32 *key0, GLOBAL const u32 *key1, u32 rounds)
{
    aes_transpose(x);
    aes_add_round_key(x, key0, key1, 0);
    ROLLED
    for (u32 round = 1; round < rounds; round++) {
        aes_sub_bytes(x);
        aes_shift_rows(x);
        aes_mix_columns(x);
        aes_add_round_key(x, key0, key1, round);
    }
    aes_sub_bytes(x);
    aes_shift_rows(x);
    aes_add_round_key(x, key0, key1, rounds);
    aes_transpose(x);
}

DEVICE void aes_decrypt(u32 *x, GLOBAL const u32 *key0, GLOBAL const u32 *key1, u32 rounds)
{
    aes_transpose(x);
    aes_add_round_key(x, key0, key1, rounds);
    ROLLED
    for (u32 round = rounds - 1; round > 0; round--) {
        aes_shift_rows_back(x);
        aes_sub_bytes_back(x);
        aes_add_round_key(x, key0, key1, round);
        aes_mix_columns_back(x);
    }
    aes_shift_rows_back(x);
    aes_sub_bytes_back(x);
    aes_add_round_key(x, key0, key1, 0);
    aes_transpose(x);
}

/* The two messages of a work item. A missing second one has no blocks and the first one's key. */
typedef struct {
    GLOBAL u32 *data[2];
    GLOBAL const u32 *key[2];
    GLOBAL const u32 *iv[2];
    u32 len[2];
    u32 blocks[2];
    u32 blocks_max;
} Pair;

DEVICE Pair pair_of(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    Pair pair;
    pair.blocks_max = 0;
    UNROLL
    for (int m = 0; m < 2; m++) {
        u32 wanted = 2 * ITEM + m;
        bool there = wanted < buffer[HEAD_COUNT];
        u32 number = there ? wanted : 0;
        Message message = message_of(buffer, number);
        pair.data[m] = buffer + message.at;
        pair.key[m] = key_of(buffer, keys, number);
        pair.iv[m] = iv_of(buffer, number);
        pair.len[m] = there ? message.len : 0;
        pair.blocks[m] = (pair.len[m] + 15) / 16;
        pair.blocks_max = pair.blocks[m] > pair.blocks_max ? pair.blocks[m] : pair.blocks_max;
    }
    return pair;
}

/* Column c of message m lies in word 2 c + m. */
DEVICE void load_blocks(u32 *x, const Pair *pair, u32 block)
{
    UNROLL
    for (int m = 0; m < 2; m++) {
        UNROLL
        for (int c = 0; c < 4; c++) {
            x[2 * c + m] = block < pair->blocks[m] ? pair->data[m][4 * block + c] : 0u;
        }
    }
}

DEVICE void store_blocks(const u32 *x, const Pair *pair, u32 block)
{
    UNROLL
    for (int m = 0; m < 2; m++) {
        if (block < pair->blocks[m]) {
            UNROLL
            for (int c = 0; c < 4; c++) {
                pair->data[m][4 * block + c] = x[2 * c + m];
            }
        }
    }
}

DEVICE void load_ivs(u32 *x, const Pair *pair)
{
    UNROLL
    for (int m = 0; m < 2; m++) {
        UNROLL
        for (int c = 0; c < 4; c++) {
            x[2 * c + m] = pair->iv[m][c];
        }
    }
}

/* The counter block as one big-endian number, moved on by one. */
DEVICE void count_on(u32 *counter)
{
    UNROLL
    for (int m = 0; m < 2; m++) {
        u32 carry = 1;
        UNROLL
        for (int c = 3; c >= 0; c--) {
            u32 sum = swap_32(counter[2 * c + m]) + carry;
            carry = carry & (sum == 0);
            counter[2 * c + m] = swap_32(sum);
        }
    }
}
