/*
 * SHA-224 and SHA-256 (FIPS 180-4, 6.2): sixty-four steps over a state of eight words; the schedule is kept as the last
 * sixteen words. The two differ in the initial state and the length of the digest, which the host says.
 */
#define STATE_WORDS 8
#define TO_WORD(memory) swap_32(memory)
#define FIRST_BIT 0x80000000u
#define LENGTH_LOW 15

#define ROTATE_RIGHT_32(word, by) ROTATE_LEFT_32(word, 32 - (by))

DEVICE void sha256_compress(u32 *state, const u32 *block)
{
    u32 w[16];
    u32 a = state[0], b = state[1], c = state[2], d = state[3];
    u32 e = state[4], f = state[5], g = state[6], h = state[7];
    UNROLL
    for (int i = 0; i < 16; i++) {
        w[i] = block[i];
    }
    UNROLL
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            u32 early = w[(i + 1) % 16], late = w[(i + 14) % 16];
            u32 sigma0 = ROTATE_RIGHT_32(early, 7) ^ ROTATE_RIGHT_32(early, 18) ^ (early >> 3);
            u32 sigma1 = ROTATE_RIGHT_32(late, 17) ^ ROTATE_RIGHT_32(late, 19) ^ (late >> 10);
            w[i % 16] += sigma0 + w[(i + 9) % 16] + sigma1;
        }
        u32 sum1 = ROTATE_RIGHT_32(e, 6) ^ ROTATE_RIGHT_32(e, 11) ^ ROTATE_RIGHT_32(e, 25);
        u32 first = h + sum1 + (g ^ (e & (f ^ g))) + sha256_constants[i] + w[i % 16];
        u32 sum0 = ROTATE_RIGHT_32(a, 2) ^ ROTATE_RIGHT_32(a, 13) ^ ROTATE_RIGHT_32(a, 22);
        u32 second = sum0 + ((a & b) | (c & (a | b)));
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + second;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

#define COMPRESS sha256_compress
