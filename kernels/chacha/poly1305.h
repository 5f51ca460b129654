/*
 * Poly1305 (RFC 8439, 2.5): a polynomial in the key's number r, modulo 2^130 - 5, in five limbs of 26 bits.
 */
typedef struct {
    u32 h[5];
    u32 r[5];
} Poly;

#define LIMB 0x03ffffffu

/* Four little-endian words as limbs; what stands above bit 127 comes with `above`. */
DEVICE void poly_limbs(u32 *limbs, const u32 *words, u32 above)
{
    limbs[0] = words[0] & LIMB;
    limbs[1] = ((words[0] >> 26) | (words[1] << 6)) & LIMB;
    limbs[2] = ((words[1] >> 20) | (words[2] << 12)) & LIMB;
    limbs[3] = ((words[2] >> 14) | (words[3] << 18)) & LIMB;
    limbs[4] = (words[3] >> 8) | (above << 24);
}

/* Begins with the first four words of a one-time key (RFC 8439, 2.5: r is clamped). */
DEVICE void poly_begin(Poly *poly, const u32 *key)
{
    u32 clamped[4];
    clamped[0] = key[0] & 0x0fffffffu;
    clamped[1] = key[1] & 0x0ffffffcu;
    clamped[2] = key[2] & 0x0ffffffcu;
    clamped[3] = key[3] & 0x0ffffffcu;
    poly_limbs(poly->r, clamped, 0);
    UNROLL
    for (int i = 0; i < 5; i++) {
        poly->h[i] = 0;
    }
}

/* Adds a block and multiplies by r. `above` is one for whole blocks; a shorter one has its one bit within its words. */
DEVICE void poly_block(Poly *poly, const u32 *words, u32 above)
{
    u32 block[5];
    poly_limbs(block, words, above);
    UNROLL
    for (int i = 0; i < 5; i++) {
        block[i] += poly->h[i];
    }
    /* Limb i times limb j counts for limb i + j; past the top it comes back five times at the bottom. */
    u64 sums[5];
    UNROLL
    for (int to = 0; to < 5; to++) {
        u64 sum = 0;
        UNROLL
        for (int from = 0; from < 5; from++) {
            u32 factor = from <= to ? poly->r[(to - from + 5) % 5] : 5 * poly->r[(to - from + 5) % 5];
            sum += (u64)block[from] * factor;
        }
        sums[to] = sum;
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        sums[i + 1] += sums[i] >> 26;
    }
    u64 low = (sums[0] & LIMB) + 5 * (sums[4] >> 26);
    poly->h[0] = (u32)low & LIMB;
    poly->h[1] = ((u32)sums[1] & LIMB) + (u32)(low >> 26);
    poly->h[2] = (u32)sums[2] & LIMB;
    poly->h[3] = (u32)sums[3] & LIMB;
    poly->h[4] = (u32)sums[4] & LIMB;
}

/* Reduces fully, adds the key's second half, and writes the tag. */
DEVICE void poly_end(Poly *poly, const u32 *key, GLOBAL u32 *tag)
{
    u32 *h = poly->h;
    /* Carries go round twice, so that every limb has 26 bits. */
    UNROLL
    for (int turn = 0; turn < 2; turn++) {
        UNROLL
        for (int i = 0; i < 4; i++) {
            h[i + 1] += h[i] >> 26;
            h[i] &= LIMB;
        }
        h[0] += 5 * (h[4] >> 26);
        h[4] &= LIMB;
    }
    h[1] += h[0] >> 26;
    h[0] &= LIMB;
    /* h + 5 - 2^130 is taken where it is not negative. */
    u32 less[5];
    u32 carry = 5;
    UNROLL
    for (int i = 0; i < 5; i++) {
        u32 sum = h[i] + carry;
        less[i] = sum & LIMB;
        carry = sum >> 26;
    }
    u32 take = 0u - carry;
    UNROLL
    for (int i = 0; i < 5; i++) {
        h[i] = (less[i] & take) | (h[i] & ~take);
    }
    u32 words[4];
    words[0] = h[0] | (h[1] << 26);
    words[1] = (h[1] >> 6) | (h[2] << 20);
    words[2] = (h[2] >> 12) | (h[3] << 14);
    words[3] = (h[3] >> 18) | (h[4] << 8);
    u64 sum = 0;
    UNROLL
    for (int i = 0; i < 4; i++) {
        sum += (u64)words[i] + key[4 + i];
        tag[i] = (u32)sum;
        sum >>= 32;
    }
}

/* Whole blocks of data, the last one padded with zeros by the host (RFC 8439, 2.8). */
DEVICE void poly_padded(Poly *poly, GLOBAL const u32 *data, u32 len)
{
    ROLLED
    for (u32 block = 0; block < (len + 15) / 16; block++) {
        u32 words[4];
        UNROLL
        for (int i = 0; i < 4; i++) {
            words[i] = data[4 * block + i];
        }
        poly_block(poly, words, 1);
    }
}
