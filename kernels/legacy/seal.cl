/*
 * SEAL 3.0 (Rogaway and Coppersmith, Journal of Cryptology 11, 1998): a key stretches a position index, which is the IV,
 * to 64 KB of key stream in iterations of 1 KB that do not depend on each other. A work item takes a message, or a part of
 * one that begins with an iteration; the number of its first word stands behind the IV. A prepared key is the tables T, S
 * and R. Where they are read depends on the key, so that this is for legacy use only.
 */
#define SEAL_S 512
#define SEAL_R 768
#define SEAL_ITERATION_WORDS 256
#define SEAL_OFFSET 0x7fcu

#define ROTATE_RIGHT_9(word) ROTATE_LEFT_32(word, 23)

/* The word of T at a byte offset. */
#define SEAL_T(offset) (key[((offset) & SEAL_OFFSET) >> 2])

/* Each register chooses a word that is added to the next (section 4, Initialize). */
DEVICE void seal_mix(GLOBAL const u32 *key, u32 *x)
{
    UNROLL
    for (int i = 0; i < 4; i++) {
        x[(i + 1) % 4] += SEAL_T(x[i]);
        x[i] = ROTATE_RIGHT_9(x[i]);
    }
}

/* One step: stirs the registers and adds four words of key stream to `data`, as far as there are words left. */
DEVICE void seal_step(GLOBAL const u32 *key, u32 *x, u32 step, GLOBAL u32 *data, u32 left)
{
    u32 a = x[0], b = x[1], c = x[2], d = x[3];
    u32 p = a & SEAL_OFFSET;
    b += SEAL_T(p);
    a = ROTATE_RIGHT_9(a);
    b ^= a;
    u32 q = b & SEAL_OFFSET;
    c ^= SEAL_T(q);
    b = ROTATE_RIGHT_9(b);
    c += b;
    p += c;
    d += SEAL_T(p);
    c = ROTATE_RIGHT_9(c);
    d ^= c;
    q += d;
    a ^= SEAL_T(q);
    d = ROTATE_RIGHT_9(d);
    a += d;
    p = (p & SEAL_OFFSET) + a;
    b ^= SEAL_T(p);
    a = ROTATE_RIGHT_9(a);
    q = (q & SEAL_OFFSET) + b;
    c += SEAL_T(q);
    b = ROTATE_RIGHT_9(b);
    p = (p & SEAL_OFFSET) + c;
    d ^= SEAL_T(p);
    c = ROTATE_RIGHT_9(c);
    q = (q & SEAL_OFFSET) + d;
    a += SEAL_T(q);
    d = ROTATE_RIGHT_9(d);
    GLOBAL const u32 *s = key + SEAL_S + 4 * step;
    u32 stream[4];
    stream[0] = b + s[0];
    stream[1] = c ^ s[1];
    stream[2] = d + s[2];
    stream[3] = a ^ s[3];
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        if (i < left) {
            data[i] ^= swap_32(stream[i]);
        }
    }
    x[0] = a;
    x[1] = b;
    x[2] = c;
    x[3] = d;
}

/* What a step ends with. */
DEVICE void seal_feed_back(u32 *x, u32 first, u32 second)
{
    x[0] += first;
    x[1] += second;
    x[2] ^= first;
    x[3] ^= second;
}

KERNEL stream(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    GLOBAL const u32 *key = key_of(buffer, keys, number);
    GLOBAL const u32 *iv = iv_of(buffer, number);
    GLOBAL u32 *data = buffer + message.at;
    u32 position = swap_32(iv[0]);
    u32 iteration = iv[1] / SEAL_ITERATION_WORDS;
    u32 words = (message.len + 3) / 4;
    u32 x[4], saved[4];
    ROLLED
    for (u32 at = 0; at < words; at += 8) {
        if (at % SEAL_ITERATION_WORDS == 0) {
            GLOBAL const u32 *start = key + SEAL_R + 4 * iteration;
            x[0] = position ^ start[0];
            x[1] = ROTATE_LEFT_32(position, 24) ^ start[1];
            x[2] = ROTATE_LEFT_32(position, 16) ^ start[2];
            x[3] = ROTATE_LEFT_32(position, 8) ^ start[3];
            seal_mix(key, x);
            seal_mix(key, x);
            saved[0] = x[3];
            saved[1] = x[1];
            saved[2] = x[0];
            saved[3] = x[2];
            seal_mix(key, x);
            iteration++;
        }
        u32 step = at / 4 % 64;
        seal_step(key, x, step, data + at, words - at);
        seal_feed_back(x, saved[0], saved[1]);
        seal_step(key, x, step + 1, data + at + 4, words > at + 4 ? words - at - 4 : 0);
        seal_feed_back(x, saved[2], saved[3]);
    }
}
