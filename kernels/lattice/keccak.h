/*
 * Keccak-f[1600] (FIPS 202) for streams of which a work item has one to itself: 25 lanes of 64 bits in registers. Lanes
 * lie in memory as two words, lower half first, which is the order of SHA-3's bytes.
 */

/* Rates in lanes: SHA3-512 and SHAKE256. */
#define SHA3_512_RATE 9
#define SHAKE256_RATE 17

/* The bits behind a message that tell SHA3 and SHAKE apart, with the first bit of the padding (FIPS 202, B.2). */
#define SHA3_SUFFIX 0x06
#define SHAKE_SUFFIX 0x1f

/* The padding's last bit, in the last lane of a block. */
#define KECCAK_LAST LITERAL_64(0x8000000000000000)

#define KECCAK_STEP(lane, by)                                                                                         \
    {                                                                                                                 \
        u64 next = state[lane];                                                                                       \
        state[lane] = ROTATE_LEFT_64(held, by);                                                                       \
        held = next;                                                                                                  \
    }

DEVICE void keccak_permute(u64 *state)
{
    ROLLED
    for (int round = 0; round < 24; round++) {
        u64 column[5];
        UNROLL
        for (int x = 0; x < 5; x++) {
            column[x] = state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];
        }
        UNROLL
        for (int x = 0; x < 5; x++) {
            u64 parity = column[(x + 4) % 5] ^ ROTATE_LEFT_64(column[(x + 1) % 5], 1);
            UNROLL
            for (int y = 0; y < 25; y += 5) {
                state[x + y] ^= parity;
            }
        }
        u64 held = state[1];
        KECCAK_WAY(KECCAK_STEP)
        UNROLL
        for (int y = 0; y < 25; y += 5) {
            u64 row[5];
            UNROLL
            for (int x = 0; x < 5; x++) {
                row[x] = state[x + y];
            }
            UNROLL
            for (int x = 0; x < 5; x++) {
                state[x + y] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
            }
        }
        state[0] ^= keccak_rounds[round];
    }
}

DEVICE void keccak_clear(u64 *state)
{
    UNROLL
    for (int lane = 0; lane < 25; lane++) {
        state[lane] = 0;
    }
}

/* Lane number `at` of something that lies in memory. */
DEVICE u64 global_lane(GLOBAL const u32 *from, u32 at)
{
    return (u64)from[2 * at + 1] << 32 | from[2 * at];
}

DEVICE u64 local_lane(LOCAL_POINTER const u32 *from, u32 at)
{
    return (u64)from[2 * at + 1] << 32 | from[2 * at];
}

/* The first `count` lanes of the state go to local memory. */
DEVICE void keccak_squeeze(LOCAL_POINTER u32 *to, const u64 *state, int count)
{
    UNROLL
    for (int lane = 0; lane < SHAKE256_RATE; lane++) {
        if (lane < count) {
            to[2 * lane] = (u32)state[lane];
            to[2 * lane + 1] = (u32)(state[lane] >> 32);
        }
    }
}
