/*
 * P-256, an operation a work item: ECDH (NIST SP 800-56A, 5.7.1.2) and the nonce's point of an ECDSA signature (FIPS 186-5,
 * 6.4.1). The host does everything modulo the order, and has seen to it that points are on the curve. Numbers are eight
 * little-endian words, scalars in the form of ladder.h or comb.h.
 */

/* The key is a scalar, the data the peer's x and y; x of the product takes their place. */
KERNEL agree(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    GLOBAL u32 *data = buffer + message_of(buffer, number).at;
    Field x, y, numerator, denominator;
    Ladder ladder;
    field_load(&x, data);
    field_load(&y, data + 8);
    ladder_climb(&ladder, &x, &y, key_of(buffer, keys, number));
    ladder_end(&ladder, &x, is_zero(data), &numerator, &denominator, &y);
    field_invert(&denominator, &denominator);
    field_multiply(&numerator, &numerator, &denominator);
    /* x(Q) = x(P) + B / Z^2 */
    field_multiply(&numerator, &numerator, &ladder.b);
    field_add(&x, &x, &numerator);
    field_store(data, &x);
}

/* The data are an odd scalar; x and y of as many base points take its place. */
KERNEL base(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    GLOBAL u32 *data = buffer + message_of(buffer, number).at;
    Jacobian sum;
    field_constant(&sum.x, p256_comb_begin);
    field_constant(&sum.y, p256_comb_begin + FIELD_LIMBS);
    field_constant(&sum.z, p256_one);
    comb_add(&sum, data, 0);
    jacobian_store(data, &sum);
}
