/*
 * Blowfish (Schneier 1993), 16 rounds: a round adds a round key to the left half, looks its four bytes up in four S-boxes,
 * and adds what comes of it to the right half. A prepared key is the 18 round keys and the four S-boxes of 256 words.
 */
#define BLOWFISH_ROUND_KEYS 18

/* What a round makes of a half. */
DEVICE u32 blowfish_f(GLOBAL const u32 *sboxes, u32 value)
{
    u32 sum = sboxes[value >> 24] + sboxes[256 + ((value >> 16) & 0xff)];
    return (sum ^ sboxes[512 + ((value >> 8) & 0xff)]) + sboxes[768 + (value & 0xff)];
}

/* All rounds, two a turn so that the halves need not change places; deciphering takes the round keys the other way. */
DEVICE void blowfish(GLOBAL const u32 *key, u32 *left, u32 *right, bool decrypts)
{
    GLOBAL const u32 *sboxes = key + BLOWFISH_ROUND_KEYS;
    u32 last = decrypts ? BLOWFISH_ROUND_KEYS - 1 : 0;
    u32 l = *left ^ key[last], r = *right;
    UNROLL
    for (u32 round = 1; round <= 16; round += 2) {
        r ^= key[decrypts ? last - round : round] ^ blowfish_f(sboxes, l);
        l ^= key[decrypts ? last - round - 1 : round + 1] ^ blowfish_f(sboxes, r);
    }
    /* The last exchange of halves is none. */
    *left = r ^ key[decrypts ? 0 : BLOWFISH_ROUND_KEYS - 1];
    *right = l;
}

#define ENCRYPT_HALVES(key, left, right) blowfish(key, left, right, false)
#define DECRYPT_HALVES(key, left, right) blowfish(key, left, right, true)
