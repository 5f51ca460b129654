/*
 * GF(2^128) as GHASH has it (NIST SP 800-38D, 6.3): a number is four words, and the highest bit of the first is the
 * coefficient of x^0.
 *
 * A product without carries is made of whole multiplications, which take the same time whatever they multiply: of each
 * factor every fourth bit is taken, so that no more than eight ones meet in a place and their sum does not reach the
 * place of the next bit. The lowest bit of each such sum is the bit that is wanted; the others are cut off.
 *
 * In this order of bits a product comes out one place off, as if divided by x. Factors that stay are kept divided by x
 * themselves, which puts this right: y times (h / x) times x is y times h. The same holds for products and squares of
 * two such factors, which come out divided by x once.
 */

/* Sums of products whose bits lie in the same places, put together: `h` gives one half of a product. */
#define FIELD_GATHER(h)                                                                                               \
    choose_32(0x33333333u,                                                                                            \
              choose_32(0x11111111u, xor_3(h(p00), h(p13), h(p22)) ^ h(p31), xor_3(h(p01), h(p10), h(p23)) ^ h(p32)), \
              choose_32(0x44444444u, xor_3(h(p02), h(p11), h(p20)) ^ h(p33), xor_3(h(p03), h(p12), h(p21)) ^ h(p30)))
#define FIELD_LOW(product) ((u32)(product))
#define FIELD_HIGH(product) ((u32)((product) >> 32))

/* One word by one, without carries, to two, the higher first. */
DEVICE void field_product_32(u32 *to, u32 a, u32 b)
{
    u32 a0 = a & 0x11111111u, a1 = a & 0x22222222u, a2 = a & 0x44444444u, a3 = a & 0x88888888u;
    u32 b0 = b & 0x11111111u, b1 = b & 0x22222222u, b2 = b & 0x44444444u, b3 = b & 0x88888888u;
    u64 p00 = PRODUCT_64(a0, b0), p01 = PRODUCT_64(a0, b1), p02 = PRODUCT_64(a0, b2), p03 = PRODUCT_64(a0, b3);
    u64 p10 = PRODUCT_64(a1, b0), p11 = PRODUCT_64(a1, b1), p12 = PRODUCT_64(a1, b2), p13 = PRODUCT_64(a1, b3);
    u64 p20 = PRODUCT_64(a2, b0), p21 = PRODUCT_64(a2, b1), p22 = PRODUCT_64(a2, b2), p23 = PRODUCT_64(a2, b3);
    u64 p30 = PRODUCT_64(a3, b0), p31 = PRODUCT_64(a3, b1), p32 = PRODUCT_64(a3, b2), p33 = PRODUCT_64(a3, b3);
    to[0] = FIELD_GATHER(FIELD_HIGH);
    to[1] = FIELD_GATHER(FIELD_LOW);
}

/* Two words by two, the higher first, to four: three products instead of four (Karatsuba). */
DEVICE void field_product_64(u32 *to, u32 a0, u32 a1, u32 b0, u32 b1)
{
    u32 high[2], low[2], middle[2];
    field_product_32(high, a0, b0);
    field_product_32(low, a1, b1);
    field_product_32(middle, a0 ^ a1, b0 ^ b1);
    to[0] = high[0];
    to[1] = high[1] ^ xor_3(middle[0], high[0], low[0]);
    to[2] = low[0] ^ xor_3(middle[1], high[1], low[1]);
    to[3] = low[1];
}

/* Four words of eight: x^128 is x^7 + x^2 + x + 1, and higher powers lie in lower bits. */
DEVICE void field_reduce(u32 *to, const u32 *from)
{
    u32 last = from[7];
    u32 over[5];
    over[0] = 0;
    UNROLL
    for (int i = 0; i < 4; i++) {
        over[i + 1] = from[4 + i];
    }
    /* What these powers push past the end comes back once more. */
    over[1] ^= (last << 31) ^ (last << 30) ^ (last << 25);
    UNROLL
    for (int i = 0; i < 4; i++) {
        u32 before = over[i], own = over[i + 1];
        to[i] = from[i] ^ own ^ ((own >> 1) | (before << 31)) ^ ((own >> 2) | (before << 30)) ^
                ((own >> 7) | (before << 25));
    }
}

/* y = y times h, which is divided by x. */
DEVICE void field_multiply(u32 *y, const u32 *h)
{
    u32 high[4], low[4], middle[4], product[8];
    field_product_64(high, y[0], y[1], h[0], h[1]);
    field_product_64(low, y[2], y[3], h[2], h[3]);
    field_product_64(middle, y[0] ^ y[2], y[1] ^ y[3], h[0] ^ h[2], h[1] ^ h[3]);
    UNROLL
    for (int i = 0; i < 4; i++) {
        product[i] = high[i];
        product[4 + i] = low[i];
        middle[i] ^= high[i] ^ low[i];
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        product[2 + i] ^= middle[i];
    }
    field_reduce(y, product);
}

/* The lower sixteen bits with a zero between each two: squaring, without carries. */
DEVICE u32 field_spread(u32 low)
{
    low = (low | (low << 8)) & 0x00ff00ffu;
    low = (low | (low << 4)) & 0x0f0f0f0fu;
    low = (low | (low << 2)) & 0x33333333u;
    return (low | (low << 1)) & 0x55555555u;
}

DEVICE void field_square(u32 *h)
{
    u32 square[8];
    UNROLL
    for (int i = 0; i < 4; i++) {
        square[2 * i] = field_spread(h[i] >> 16);
        square[2 * i + 1] = field_spread(h[i] & 0xffffu);
    }
    field_reduce(h, square);
}

/* h to a power below 2^20, both divided by x. The exponent is no secret. */
DEVICE void field_power(u32 *power, const u32 *h, u32 exponent)
{
    /* One, divided by x. */
    power[0] = 0xc2000000u;
    power[1] = 0;
    power[2] = 0;
    power[3] = 1;
    ROLLED
    for (u32 at = 0; at < 20; at++) {
        field_square(power);
        if ((exponent >> (19 - at)) & 1) {
            field_multiply(power, h);
        }
    }
}
