/*
 * Khufu and Khafre (Merkle, CRYPTO '90; US patent 5,003,597), 16 rounds: the lowest byte of the left half is looked up,
 * the word found is added to the right half, the left half is rotated, and the halves change places. Eight rounds share
 * an S-box. A prepared key is three pairs of words, which are added before, between and after the octets of rounds,
 * and two S-boxes of 256 words; those of Khafre, which are the same for all keys, come along with each.
 */
#define MERKLE_SBOXES 6

/* How far the left half turns left in a round of an octet; the paper has it turn right by 16, 16, 8, 8, 16, 16, 24, 24. */
#define MERKLE_TURN(round) (((round) & 2) == 0 ? 16 : (round) < 4 ? 24 : 8)

DEVICE void merkle_encrypt(GLOBAL const u32 *key, u32 *left, u32 *right)
{
    u32 l = *left, r = *right;
    UNROLL
    for (u32 octet = 0; octet < 2; octet++) {
        GLOBAL const u32 *sbox = key + MERKLE_SBOXES + 256 * octet;
        l ^= key[2 * octet];
        r ^= key[2 * octet + 1];
        UNROLL
        for (u32 round = 0; round < 8; round++) {
            u32 next = r ^ sbox[l & 0xff];
            r = ROTATE_LEFT_32(l, MERKLE_TURN(round));
            l = next;
        }
    }
    *left = l ^ key[4];
    *right = r ^ key[5];
}

DEVICE void merkle_decrypt(GLOBAL const u32 *key, u32 *left, u32 *right)
{
    u32 l = *left, r = *right;
    UNROLL
    for (u32 octets_left = 2; octets_left > 0; octets_left--) {
        GLOBAL const u32 *sbox = key + MERKLE_SBOXES + 256 * (octets_left - 1);
        l ^= key[2 * octets_left];
        r ^= key[2 * octets_left + 1];
        UNROLL
        for (u32 rounds_left = 8; rounds_left > 0; rounds_left--) {
            u32 turned = ROTATE_LEFT_32(r, 32 - MERKLE_TURN(rounds_left - 1));
            r = l ^ sbox[turned & 0xff];
            l = turned;
        }
    }
    *left = l ^ key[0];
    *right = r ^ key[1];
}

#define ENCRYPT_HALVES(key, left, right) merkle_encrypt(key, left, right)
#define DECRYPT_HALVES(key, left, right) merkle_decrypt(key, left, right)
