/*
 * The sum of two multiples that verifies an ECDSA signature over P-256 (FIPS 186-5, 6.4.2), a signature a work item. All of
 * it is public.
 *
 * u1 G + u2 Q for a public key Q, whose x and y are the key. The data are u1 or its negative, which is odd (eight words),
 * u2 (nine words), and a word that is one where u2 Q takes the other sign; x and y of the sum take their place. Zeros where
 * an addition met a case that its formulas do not hold for, which the host then does itself.
 */
KERNEL verify(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    GLOBAL u32 *data = buffer + message_of(buffer, number).at;
    GLOBAL const u32 *key = key_of(buffer, keys, number);
    Field x, y, numerator, denominator, y_cubed, t;
    Ladder ladder;
    field_load(&x, key);
    field_load(&y, key + 8);
    ladder_climb(&ladder, &x, &y, data + 8);
    ladder_end(&ladder, &x, is_zero(key), &numerator, &denominator, &y_cubed);
    /* One inverse for both: x(Q) = x(P) + B / Z^2 as above, y(Q) = -G y(P) / (2 y(P) Z^3). */
    Jacobian sum;
    field_multiply(&t, &denominator, &y_cubed);
    field_invert(&t, &t);
    field_multiply(&numerator, &numerator, &y_cubed);
    field_multiply(&numerator, &numerator, &t);
    field_multiply(&numerator, &numerator, &ladder.b);
    field_add(&sum.x, &x, &numerator);
    field_multiply(&t, &t, &denominator);
    field_multiply(&y, &y, &t);
    field_multiply(&y, &y, &ladder.g);
    /* The sign is turned already where it is to be. */
    field_scale(&t, &y, -1);
    field_select(&sum.y, 0u - data[17], &y, &t);
    field_constant(&sum.z, p256_one);
    comb_add(&sum, data, -1);
    jacobian_store(data, &sum);
}
