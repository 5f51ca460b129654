/*
 * X25519 (RFC 7748, 5), an agreement a work item: a Montgomery ladder over the bits of the scalar, which the host has
 * clamped. The key is the scalar, the data the peer's coordinate; the product's takes its place. The host refuses zero.
 *
 * The floor: 255 steps of five products, four squares and a product with a small number, and an inverse of 254 squares and
 * 13 products.
 */
KERNEL agree(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM;
    if (number >= buffer[HEAD_COUNT]) {
        return;
    }
    GLOBAL u32 *data = buffer + message_of(buffer, number).at;
    GLOBAL const u32 *scalar = key_of(buffer, keys, number);
    Field x1, x2, z2, x3, z3;
    field_load(&x1, data);
    x3 = x1;
    field_scale(&x2, &x1, 0);
    z2 = x2;
    z3 = x2;
    x2.limb[0] = 1;
    z3.limb[0] = 1;
    u32 exchanged = 0;
    ROLLED
    for (int bit = 254; bit >= 0; bit--) {
        u32 exchange = scalar[bit / 32] >> (bit % 32) & 1;
        u32 mask = 0u - (exchange ^ exchanged);
        exchanged = exchange;
        field_swap(mask, &x2, &x3);
        field_swap(mask, &z2, &z3);
        /* The names are the RFC's. */
        Field a, b, c, d, e, aa, bb;
        field_add(&a, &x2, &z2);
        field_subtract(&b, &x2, &z2);
        field_add(&c, &x3, &z3);
        field_subtract(&d, &x3, &z3);
        field_multiply(&d, &d, &a); /* DA */
        field_multiply(&c, &c, &b); /* CB */
        field_add(&x3, &d, &c);
        field_square(&x3, &x3);
        field_subtract(&z3, &d, &c);
        field_square(&z3, &z3);
        field_multiply(&z3, &z3, &x1);
        field_square(&aa, &a);
        field_square(&bb, &b);
        field_multiply(&x2, &aa, &bb);
        field_subtract(&e, &aa, &bb);
        field_add_scaled(&aa, &aa, &e, 121665);
        field_multiply(&z2, &e, &aa);
    }
    field_swap(0u - exchanged, &x2, &x3);
    field_swap(0u - exchanged, &z2, &z3);
    field_invert(&z2, &z2);
    field_multiply(&x2, &x2, &z2);
    field_store(data, &x2);
}
