/*
 * SHA-1 (FIPS 180-4, 6.1): eighty steps over a state of five words; the schedule is kept as the last sixteen words.
 */
#define STATE_WORDS 5
#define TO_WORD(memory) swap_32(memory)
#define FIRST_BIT 0x80000000u
#define LENGTH_LOW 15

DEVICE void sha1_compress(u32 *state, const u32 *block)
{
    u32 w[16];
    u32 a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    UNROLL
    for (int i = 0; i < 16; i++) {
        w[i] = block[i];
    }
    UNROLL
    for (int i = 0; i < 80; i++) {
        if (i >= 16) {
            u32 next = w[(i + 13) % 16] ^ w[(i + 8) % 16] ^ w[(i + 2) % 16] ^ w[i % 16];
            w[i % 16] = ROTATE_LEFT_32(next, 1);
        }
        u32 f = i < 20   ? d ^ (b & (c ^ d))
                : i < 40 ? b ^ c ^ d
                : i < 60 ? (b & c) | (d & (b | c))
                         : b ^ c ^ d;
        u32 sum = ROTATE_LEFT_32(a, 5) + f + e + sha1_constants[i / 20] + w[i % 16];
        e = d;
        d = c;
        c = ROTATE_LEFT_32(b, 30);
        b = a;
        a = sum;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

#define COMPRESS sha1_compress
