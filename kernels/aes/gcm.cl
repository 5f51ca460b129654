/*
 * AES-GCM and GMAC (NIST SP 800-38D) on the same pairs of messages, or parts of long ones.
 *
 * Behind a prepared key's rounds lies the hash key H, divided by x (field.h), as four numbers, the first of which holds
 * the first bytes. An IV is the whole first counter block; behind it lie the number of the part's first block within its
 * message and the bytes of the whole message. What a part gives for a tag is its share: the sum of all shares is the
 * message's tag. A share is GHASH of the part alone, times H to the power of the message's blocks behind it; lengths and
 * the first counter block's key stream belong to the first part, as do additional data.
 */

/* A message's place behind the IV. */
#define FIRST_BLOCK 4
#define WHOLE_LEN 5

/* GHASH of a part, the lengths included, so far that nothing but the first counter block's key stream is missing. */
DEVICE void gcm_hash(u32 *y, GLOBAL const u32 *buffer, GLOBAL const u32 *hash_key, GLOBAL const u32 *iv,
                     const Message *part, bool data_alone)
{
    u32 h[4], power[4];
    u32 aad_blocks = data_alone ? 0 : (part->aad_len + 15) / 16;
    u32 blocks = aad_blocks + (part->len + 15) / 16;
    u32 whole_len = iv[WHOLE_LEN];
    u32 behind = (whole_len + 15) / 16 - iv[FIRST_BLOCK] - (part->len + 15) / 16;
    u32 bits_len = iv[FIRST_BLOCK] == 0 ? whole_len : 0;
    u32 aad_len = data_alone ? bits_len : part->aad_len;
    bits_len = data_alone ? 0 : bits_len;
    UNROLL
    for (int i = 0; i < 4; i++) {
        h[i] = hash_key[i];
        y[i] = 0;
    }
    if (behind != 0) {
        field_power(power, h, behind);
    }
    ROLLED
    for (u32 block = 0; block < blocks + 2; block++) {
        bool last = block == blocks + 1;
        if (block == blocks && behind == 0) {
            continue;
        }
        if (block < blocks) {
            u32 at = block < aad_blocks ? part->aad_at + 4 * block : part->at + 4 * (block - aad_blocks);
            UNROLL
            for (int i = 0; i < 4; i++) {
                y[i] ^= swap_32(buffer[at + i]);
            }
        }
        y[0] ^= last ? aad_len >> 29 : 0;
        y[1] ^= last ? aad_len << 3 : 0;
        y[2] ^= last ? bits_len >> 29 : 0;
        y[3] ^= last ? bits_len << 3 : 0;
        u32 factor[4];
        UNROLL
        for (int i = 0; i < 4; i++) {
            factor[i] = block == blocks ? power[i] : h[i];
        }
        field_multiply(y, factor);
    }
}

/* Both messages' tags over what lies in memory now; with `data_alone` the data count as additional data (GMAC). */
DEVICE void gcm_tags(GLOBAL u32 *buffer, const Pair *pair, u32 rounds, bool data_alone)
{
    u32 mask[8];
    load_ivs(mask, pair);
    aes_encrypt(mask, pair->key[0], pair->key[1], rounds);
    ROLLED
    for (u32 m = 0; m < 2; m++) {
        u32 number = 2 * ITEM + m;
        if (number < buffer[HEAD_COUNT]) {
            Message part = message_of(buffer, number);
            GLOBAL const u32 *iv = m == 0 ? pair->iv[0] : pair->iv[1];
            GLOBAL const u32 *key = m == 0 ? pair->key[0] : pair->key[1];
            GLOBAL u32 *tag = tag_of(buffer, number);
            u32 y[4];
            gcm_hash(y, buffer, key + 8 * (rounds + 1), iv, &part, data_alone);
            u32 masked = iv[FIRST_BLOCK] == 0 ? 0xffffffffu : 0;
            UNROLL
            for (int i = 0; i < 4; i++) {
                tag[i] = swap_32(y[i]) ^ ((m == 0 ? mask[2 * i] : mask[2 * i + 1]) & masked);
            }
        }
    }
}

/* Counter mode from the block behind the first; what is behind a message's end stays zero. */
DEVICE void gcm_apply(GLOBAL u32 *buffer, const Pair *pair, u32 rounds)
{
    u32 counter[8];
    load_ivs(counter, pair);
    UNROLL
    for (int m = 0; m < 2; m++) {
        /* It starts at one, and no message is so long that it would go round. */
        counter[6 + m] = swap_32(swap_32(counter[6 + m]) + pair->iv[m][FIRST_BLOCK]);
    }
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
