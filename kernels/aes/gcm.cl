/*
 * AES-GCM and GMAC (NIST SP 800-38D) on the same pairs of messages, with GHASH in constant time: a product is a sum over the bits
 * of one factor, each taken by a mask, never by a branch or an address.
 *
 * Behind a prepared key's rounds lies the hash key H, as four numbers, the first of which holds the first bytes. An IV
 * is the whole first counter block.
 */

/* y = y times H in GF(2^128); bit 0 is the highest of the first number (NIST SP 800-38D, 6.3). */
DEVICE void ghash_multiply(u32 *y, const u32 *h)
{
    u32 v[4], z[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        v[i] = h[i];
        z[i] = 0;
    }
    UNROLL
    for (int word = 0; word < 4; word++) {
        u32 bits = y[word];
        ROLLED
        for (int bit = 0; bit < 32; bit++) {
            u32 taken = 0u - (bits >> 31);
            u32 reduced = (0u - (v[3] & 1)) & 0xe1000000u;
            bits <<= 1;
            UNROLL
            for (int i = 0; i < 4; i++) {
                z[i] ^= v[i] & taken;
            }
            v[3] = (v[3] >> 1) | (v[2] << 31);
            v[2] = (v[2] >> 1) | (v[1] << 31);
            v[1] = (v[1] >> 1) | (v[0] << 31);
            v[0] = (v[0] >> 1) ^ reduced;
        }
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        y[i] = z[i];
    }
}

DEVICE void ghash_block(u32 *y, const u32 *h, u32 w0, u32 w1, u32 w2, u32 w3)
{
    y[0] ^= w0;
    y[1] ^= w1;
    y[2] ^= w2;
    y[3] ^= w3;
    ghash_multiply(y, h);
}

/* Whole blocks of memory, the last one padded with zeros. */
DEVICE void ghash_padded(u32 *y, const u32 *h, GLOBAL const u32 *data, u32 len)
{
    ROLLED
    for (u32 block = 0; block < (len + 15) / 16; block++) {
        GLOBAL const u32 *own = data + 4 * block;
        ghash_block(y, h, swap_32(own[0]), swap_32(own[1]), swap_32(own[2]), swap_32(own[3]));
    }
}

/*
 * One message's tag: GHASH of additional data, ciphertext and both lengths, and the first counter block's key stream. What
 * lies at `aad_at` and `at` is padded with zeros.
 */
DEVICE void gcm_tag(GLOBAL u32 *buffer, GLOBAL const u32 *hash_key, u32 number, const Message *message,
                    const u32 *mask, int m)
{
    u32 h[4], y[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        h[i] = hash_key[i];
        y[i] = 0;
    }
    ghash_padded(y, h, buffer + message->aad_at, message->aad_len);
    ghash_padded(y, h, buffer + message->at, message->len);
    ghash_block(y, h, message->aad_len >> 29, message->aad_len << 3, message->len >> 29, message->len << 3);
    GLOBAL u32 *tag = tag_of(buffer, number);
    UNROLL
    for (int i = 0; i < 4; i++) {
        tag[i] = swap_32(y[i]) ^ mask[2 * i + m];
    }
}

/* Both messages' tags over what lies in memory now; with `data_alone` the data count as additional data (GMAC). */
DEVICE void gcm_tags(GLOBAL u32 *buffer, const Pair *pair, u32 rounds, bool data_alone)
{
    u32 mask[8];
    load_ivs(mask, pair);
    aes_encrypt(mask, pair->key[0], pair->key[1], rounds);
    UNROLL
    for (int m = 0; m < 2; m++) {
        u32 number = 2 * ITEM + m;
        if (number < buffer[HEAD_COUNT]) {
            Message message = message_of(buffer, number);
            if (data_alone) {
                message.aad_at = message.at;
                message.aad_len = message.len;
                message.len = 0;
            }
            gcm_tag(buffer, pair->key[m] + 8 * (rounds + 1), number, &message, mask, m);
        }
    }
}

/* Counter mode from the block behind the first; what is behind a message's end stays zero. */
DEVICE void gcm_apply(GLOBAL u32 *buffer, const Pair *pair, u32 rounds)
{
    u32 counter[8];
    load_ivs(counter, pair);
    ROLLED
    for (u32 block = 0; block < pair->blocks_max; block++) {
        u32 x[8], stream[8];
        count_on(counter);
        UNROLL
        for (int i = 0; i < 8; i++) {
            stream[i] = counter[i];
        }
        aes_encrypt(stream, pair->key[0], pair->key[1], rounds);
        load_blocks(x, pair, block);
        UNROLL
        for (int m = 0; m < 2; m++) {
            UNROLL
            for (int c = 0; c < 4; c++) {
                u32 at = 16 * block + 4 * c;
                x[2 * c + m] = bytes_below(x[2 * c + m] ^ stream[2 * c + m], at, pair->len[m]);
            }
        }
        store_blocks(x, pair, block);
    }
}

KERNEL gcm_seal(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    gcm_apply(buffer, &pair, rounds);
    gcm_tags(buffer, &pair, rounds, false);
}

KERNEL gcm_open(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    gcm_tags(buffer, &pair, rounds, false);
    gcm_apply(buffer, &pair, rounds);
}

KERNEL gmac(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    gcm_tags(buffer, &pair, buffer[HEAD_ROUNDS], true);
}
