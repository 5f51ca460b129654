/*
 * MD5 (RFC 1321): four rounds of sixteen steps over a state of four words.
 */
#define STATE_WORDS 4
#define TO_WORD(memory) (memory)
#define FIRST_BIT 0x80u
#define LENGTH_LOW 14

/* One step (RFC 1321, 3.4): the state moves on by one word; `f` is the round's function of b, c and d. */
#define STEP(f, word, step, by)                                                                                       \
    {                                                                                                                 \
        u32 sum = a + (f) + (word) + md5_sines[step];                                                                 \
        a = d;                                                                                                        \
        d = c;                                                                                                        \
        c = b;                                                                                                        \
        b += ROTATE_LEFT_32(sum, (by));                                                                               \
    }

DEVICE void md5_compress(u32 *state, const u32 *block)
{
    u32 a = state[0], b = state[1], c = state[2], d = state[3];
    UNROLL
    for (int i = 0; i < 16; i++) {
        STEP(d ^ (b & (c ^ d)), block[i], i, i % 4 == 0 ? 7 : i % 4 == 1 ? 12 : i % 4 == 2 ? 17 : 22)
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        STEP(c ^ (d & (b ^ c)), block[(5 * i + 1) % 16], 16 + i, i % 4 == 0 ? 5 : i % 4 == 1 ? 9 : i % 4 == 2 ? 14 : 20)
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        STEP(b ^ c ^ d, block[(3 * i + 5) % 16], 32 + i, i % 4 == 0 ? 4 : i % 4 == 1 ? 11 : i % 4 == 2 ? 16 : 23)
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        STEP(c ^ (b | ~d), block[(7 * i) % 16], 48 + i, i % 4 == 0 ? 6 : i % 4 == 1 ? 10 : i % 4 == 2 ? 15 : 21)
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

#define COMPRESS md5_compress
