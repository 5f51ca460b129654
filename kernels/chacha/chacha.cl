/*
 * ChaCha20, Poly1305 and ChaCha20-Poly1305 (RFC 8439), a message a work item. A prepared key is the key's eight words; an
 * IV is the four words of the state's last row, counter first.
 */
#define QUARTER(a, b, c, d)                                                                                           \
    x[a] += x[b];                                                                                                     \
    x[d] = ROTATE_LEFT_32(x[d] ^ x[a], 16);                                                                           \
    x[c] += x[d];                                                                                                     \
    x[b] = ROTATE_LEFT_32(x[b] ^ x[c], 12);                                                                           \
    x[a] += x[b];                                                                                                     \
    x[d] = ROTATE_LEFT_32(x[d] ^ x[a], 8);                                                                            \
    x[c] += x[d];                                                                                                     \
    x[b] = ROTATE_LEFT_32(x[b] ^ x[c], 7);

/* One block of key stream from a state (RFC 8439, 2.3). */
DEVICE void chacha_block(u32 *x, const u32 *state)
{
    UNROLL
    for (int i = 0; i < 16; i++) {
        x[i] = state[i];
    }
    ROLLED
    for (int round = 0; round < 10; round++) {
        QUARTER(0, 4, 8, 12)
        QUARTER(1, 5, 9, 13)
        QUARTER(2, 6, 10, 14)
        QUARTER(3, 7, 11, 15)
        QUARTER(0, 5, 10, 15)
        QUARTER(1, 6, 11, 12)
        QUARTER(2, 7, 8, 13)
        QUARTER(3, 4, 9, 14)
    }
    UNROLL
    for (int i = 0; i < 16; i++) {
        x[i] += state[i];
    }
}

DEVICE void chacha_begin(u32 *state, GLOBAL const u32 *key, GLOBAL const u32 *iv)
{
    state[0] = 0x61707865u;
    state[1] = 0x3320646eu;
    state[2] = 0x79622d32u;
    state[3] = 0x6b206574u;
    UNROLL
    for (int i = 0; i < 8; i++) {
        state[4 + i] = key[i];
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        state[12 + i] = iv[i];
    }
}

/* Adds the key stream from the state's counter on. What is behind the message's end stays zero. */
DEVICE void chacha_apply(u32 *state, GLOBAL u32 *data, u32 len)
{
    ROLLED
    for (u32 block = 0; block < (len + 63) / 64; block++) {
        u32 x[16];
        chacha_block(x, state);
        state[12] += 1;
        UNROLL
        for (u32 i = 0; i < 16; i++) {
            u32 word = 16 * block + i;
            if (4 * word < len) {
                data[word] = bytes_below(data[word] ^ x[i], 4 * word, len);
            }
        }
    }
}

KERNEL stream(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    u32 state[16];
    chacha_begin(state, key_of(buffer, keys, number), iv_of(buffer, number));
    chacha_apply(state, buffer + message.at, message.len);
}

/* The tag over additional data and ciphertext, each padded, and their lengths (RFC 8439, 2.8). */
DEVICE void chacha_tag(GLOBAL u32 *buffer, u32 number, const Message *message, const u32 *once)
{
    Poly poly;
    poly_begin(&poly, once);
    poly_padded(&poly, buffer + message->aad_at, message->aad_len);
    poly_padded(&poly, buffer + message->at, message->len);
    u32 lens[4];
    lens[0] = message->aad_len;
    lens[1] = 0;
    lens[2] = message->len;
    lens[3] = 0;
    poly_block(&poly, lens, 1);
    poly_end(&poly, once, tag_of(buffer, number));
}

/* The IV's counter is zero: the first block gives the one-time key (RFC 8439, 2.6). */
KERNEL aead_seal(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    u32 state[16], once[16];
    chacha_begin(state, key_of(buffer, keys, number), iv_of(buffer, number));
    chacha_block(once, state);
    state[12] += 1;
    chacha_apply(state, buffer + message.at, message.len);
    chacha_tag(buffer, number, &message, once);
}

KERNEL aead_open(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    u32 state[16], once[16];
    chacha_begin(state, key_of(buffer, keys, number), iv_of(buffer, number));
    chacha_block(once, state);
    state[12] += 1;
    chacha_tag(buffer, number, &message, once);
    chacha_apply(state, buffer + message.at, message.len);
}

/* A tag alone, under a one-time key. */
KERNEL poly1305(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    Message message = message_of(buffer, number);
    GLOBAL const u32 *key = key_of(buffer, keys, number);
    GLOBAL const u32 *data = buffer + message.at;
    u32 once[8];
    UNROLL
    for (int i = 0; i < 8; i++) {
        once[i] = key[i];
    }
    Poly poly;
    poly_begin(&poly, once);
    u32 whole = message.len / 16;
    poly_padded(&poly, data, 16 * whole);
    u32 rest = message.len % 16;
    if (rest != 0) {
        u32 words[4];
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            words[i] = data[4 * whole + i] | (i == rest / 4 ? 1u << (8 * (rest % 4)) : 0u);
        }
        poly_block(&poly, words, 0);
    }
    poly_end(&poly, once, tag_of(buffer, number));
}
