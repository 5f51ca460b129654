/*
 * SHA-384 and SHA-512 (FIPS 180-4, 6.4) and HMAC over them, a message a work item: eighty steps over a state of eight
 * words of 64 bits. In the head and among the keys a number of 64 bits lies lower half first.
 */
#define ROTATE_RIGHT_64(word, by) ROTATE_LEFT_64(word, 64 - (by))

DEVICE void sha512_compress(u64 *state, const u64 *block)
{
    u64 w[16];
    u64 a = state[0], b = state[1], c = state[2], d = state[3];
    u64 e = state[4], f = state[5], g = state[6], h = state[7];
    UNROLL
    for (int i = 0; i < 16; i++) {
        w[i] = block[i];
    }
    UNROLL
    for (int i = 0; i < 80; i++) {
        if (i >= 16) {
            u64 early = w[(i + 1) % 16], late = w[(i + 14) % 16];
            u64 sigma0 = ROTATE_RIGHT_64(early, 1) ^ ROTATE_RIGHT_64(early, 8) ^ (early >> 7);
            u64 sigma1 = ROTATE_RIGHT_64(late, 19) ^ ROTATE_RIGHT_64(late, 61) ^ (late >> 6);
            w[i % 16] += sigma0 + w[(i + 9) % 16] + sigma1;
        }
        u64 sum1 = ROTATE_RIGHT_64(e, 14) ^ ROTATE_RIGHT_64(e, 18) ^ ROTATE_RIGHT_64(e, 41);
        u64 first = h + sum1 + (g ^ (e & (f ^ g))) + sha512_constants[i] + w[i % 16];
        u64 sum0 = ROTATE_RIGHT_64(a, 28) ^ ROTATE_RIGHT_64(a, 34) ^ ROTATE_RIGHT_64(a, 39);
        u64 second = sum0 + ((a & b) | (c & (a | b)));
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

/* Two words of memory as a big-endian number. */
DEVICE u64 big_endian(u32 first, u32 second)
{
    return (u64)swap_32(first) << 32 | swap_32(second);
}

DEVICE void read_state(u64 *state, GLOBAL const u32 *from)
{
    UNROLL
    for (u32 at = 0; at < 8; at++) {
        state[at] = (u64)from[2 * at + 1] << 32 | from[2 * at];
    }
}

DEVICE void absorb(u64 *state, GLOBAL const u32 *data, u32 len, u32 len_before)
{
    u32 blocks = padded_blocks(len, 128, 16);
    ROLLED
    for (u32 number = 0; number < blocks; number++) {
        u64 block[16];
        UNROLL
        for (u32 at = 0; at < 16; at++) {
            u32 word = 32 * number + 2 * at;
            block[at] = big_endian(padded_word(data, len, word), padded_word(data, len, word + 1));
        }
        if (number == blocks - 1) {
            block[15] = ((u64)len + len_before) << 3;
        }
        sha512_compress(state, block);
    }
}

DEVICE void write_digest(GLOBAL u32 *tag, const u64 *state, u32 words)
{
    UNROLL
    for (u32 at = 0; at < 8; at++) {
        if (2 * at < words) {
            tag[2 * at] = swap_32((u32)(state[at] >> 32));
            tag[2 * at + 1] = swap_32((u32)state[at]);
        }
    }
}

KERNEL digest(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    u64 state[8];
    read_state(state, buffer + HEAD_STATE);
    absorb(state, buffer + message.at, message.len, 0);
    write_digest(tag_of(buffer, number), state, buffer[HEAD_TAG_WORDS]);
}

KERNEL hmac(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    GLOBAL const u32 *key = key_of(buffer, keys, number);
    u32 words = buffer[HEAD_TAG_WORDS];
    u64 state[8];
    read_state(state, key);
    absorb(state, buffer + message.at, message.len, 128);
    /* The outer message: the key's block, which its midstate stands for, and the inner digest. */
    u64 block[16];
    UNROLL
    for (u32 at = 0; at < 16; at++) {
        block[at] = at < 8 && 2 * at < words ? state[at < 8 ? at : 0]
                    : 2 * at == words        ? LITERAL_64(0x8000000000000000)
                                             : 0;
    }
    block[15] = (u64)(128 + 4 * words) << 3;
    read_state(state, key + 16);
    sha512_compress(state, block);
    write_digest(tag_of(buffer, number), state, words);
}
