/*
 * A secret multiple of any point of P-256: a Montgomery ladder over x coordinates and the two y that go with them.
 *
 * With the point P, the ladder holds Q = aP and R = (a + 1)P. Its state is what they are relative to P, over a common Z
 * that is never written down: A = (x(R) - x(P)) Z^2, B = (x(Q) - x(P)) Z^2, F = 2 y(R) Z^3, G = -2 y(Q) Z^3. In these the
 * line through P, Q and -R has the slope M / Z with 2M = (G - F) / (A - B), and M^2 = A + B + 3 x(P) Z^2.
 *
 * A step makes of (Q, R) the points S = Q + R and T = R + R, whose difference is P again. With D = A - B, the line through Q
 * and R has the slope (F^2 + F G) / (2 D F Z), and Z becomes 2 D F Z:
 *
 *     H = 2 A D^2                      W = F^2 + F G                   U = 4 (A + B) D^2 F^2
 *     B' = 4 F^3 G                     A' = U + H (H - 2 W)            M' = H - W
 *     G' = W (2 B' - U) - D^3 (B' - 4 F^4)                             F' = G' - 2 M' (A' - B')
 *
 * Nine products and three squares a bit. To have Q + Q and Q + R instead, Q and R change places, and P its sign; with Z's
 * sign turned as well that is A for B and F for G. So a bit of the scalar decides over a masked exchange and nothing else.
 *
 * The state cannot hold the point at infinity: no a of the way may be 0 or -1 modulo the order n, and no S may be either.
 * The host adds a multiple of n to the scalar, so that it has 258 bits whatever it is; then this holds for every scalar but
 * n - 1, for which it gives 1, with the same x (engines/gpu/src/public/ec.rs). There are no points of order two, so that F is
 * never zero.
 */
#define SCALAR_BITS 257 /* below the uppermost, which is one */

typedef struct {
    Field a, b, f, g, m;
} Ladder;

/* Q = P, R = 2P, Z = 2 y(P). Sizes: A 1, B 0, F 3, G 1. */
DEVICE void ladder_begin(Ladder *ladder, const Field *x, const Field *y)
{
    Field one, t, z_squared;
    field_constant(&one, p256_one);
    /* M = 3 x^2 - 3: the tangent's slope times Z. */
    field_square(&t, x);
    field_subtract(&t, &t, &one);
    field_scale(&ladder->m, &t, 3);
    field_carry(&ladder->m);
    field_scale(&t, y, 2);
    field_square(&z_squared, &t);
    /* A = M^2 - 3 x Z^2, and 2 y(P) Z^3 = Z^4. */
    field_multiply(&t, x, &z_squared);
    field_scale(&t, &t, -3);
    Columns columns;
    columns_clear(&columns);
    columns_add(&columns, &t);
    columns_square(&columns, &ladder->m);
    columns_reduce(&ladder->a, &columns);
    field_scale(&ladder->b, x, 0);
    field_square(&t, &z_squared);
    field_scale(&ladder->g, &t, -1);
    field_multiply(&t, &ladder->m, &ladder->a);
    field_scale(&t, &t, -2);
    field_add(&ladder->f, &ladder->g, &t);
}

/* A step, from sizes A 1, B 1, F 3, G 3 to the like. */
DEVICE void ladder_step(Ladder *ladder)
{
    Field fg, ff, d, d_squared, d_cubed, sum, h, u, w, t;
    Columns columns;
    field_multiply(&fg, &ladder->f, &ladder->g);
    field_square(&ff, &ladder->f);
    field_subtract(&d, &ladder->a, &ladder->b);
    field_add(&sum, &ladder->a, &ladder->b);
    field_square(&d_squared, &d);
    field_multiply(&d_cubed, &d, &d_squared);
    field_multiply(&t, &sum, &d_squared);
    field_add(&h, &t, &d_cubed); /* 2 */
    field_add(&w, &ff, &fg);     /* 2 */
    field_scale(&ff, &ff, 2);    /* 2 */
    field_scale(&fg, &fg, 2);    /* 2 */
    field_multiply(&ladder->b, &ff, &fg);
    field_scale(&u, &ff, 2); /* 4 */
    field_multiply(&u, &t, &u);
    field_square(&ff, &ff); /* 4 F^4 */

    /* G, of two products. */
    field_subtract(&t, &ff, &ladder->b); /* 2 */
    columns_clear(&columns);
    columns_multiply(&columns, &d_cubed, &t);
    field_scale(&t, &ladder->b, 2);
    field_subtract(&t, &t, &u); /* 3 */
    columns_multiply(&columns, &w, &t);
    columns_reduce(&ladder->g, &columns);

    /* A, with U beside the product. */
    field_subtract(&ladder->m, &h, &w);
    field_subtract(&t, &ladder->m, &w); /* 6 */
    columns_clear(&columns);
    columns_add(&columns, &u);
    columns_multiply(&columns, &h, &t);
    columns_reduce(&ladder->a, &columns);

    field_subtract(&t, &ladder->b, &ladder->a); /* 2 */
    field_multiply(&t, &ladder->m, &t);         /* M is 4 */
    field_scale(&t, &t, 2);
    field_add(&ladder->f, &ladder->g, &t); /* 3 */
}

/* From P and a scalar in the host's form, nine words, to Q and R of the scalar. */
DEVICE void ladder_climb(Ladder *ladder, const Field *x, const Field *y, GLOBAL const u32 *scalar)
{
    ladder_begin(ladder, x, y);
    u32 exchanged = 0;
    ROLLED
    for (int bit = SCALAR_BITS - 1; bit >= 0; bit--) {
        u32 exchange = (scalar[bit / 32] >> (bit % 32) & 1) ^ 1;
        u32 mask = 0u - (exchange ^ exchanged);
        exchanged = exchange;
        field_swap(mask, &ladder->a, &ladder->b);
        field_swap(mask, &ladder->f, &ladder->g);
        ladder_step(ladder);
    }
    field_swap(0u - exchanged, &ladder->a, &ladder->b);
    field_swap(0u - exchanged, &ladder->f, &ladder->g);
    field_carry(&ladder->m);
}

/* All ones where a number of eight words is zero. It is public. */
DEVICE u32 is_zero(GLOBAL const u32 *words)
{
    u32 any = 0;
    UNROLL
    for (int i = 0; i < 8; i++) {
        any |= words[i];
    }
    return any == 0 ? 0xffffffffu : 0;
}

/*
 * Takes a ladder's end apart: 1 / Z^2 = numerator / denominator, and 2 y(P) Z^3, all tight. 3 x(P) Z^2 = M^2 - A - B says it,
 * unless x(P) is zero, which `x_is_zero` has as a mask; then -3 Z^4 = A B + 2 y(P) M Z^3 and (2 y(P) Z^3)^2 = 4 b Z^6.
 */
DEVICE void ladder_end(const Ladder *ladder, const Field *x, u32 x_is_zero, Field *numerator, Field *denominator,
                       Field *y_cubed)
{
    Field t, other;
    Columns columns;
    field_multiply(&t, &ladder->m, &ladder->a);
    field_scale(&t, &t, -2);
    field_subtract(y_cubed, &t, &ladder->f);
    field_carry(y_cubed);

    field_add(&t, &ladder->a, &ladder->b);
    field_scale(&t, &t, -1);
    columns_clear(&columns);
    columns_add(&columns, &t);
    columns_square(&columns, &ladder->m);
    columns_reduce(&t, &columns);
    field_square(&other, y_cubed);
    field_scale(&other, &other, -3);
    field_select(denominator, x_is_zero, &other, &t);
    field_carry(denominator);

    columns_clear(&columns);
    columns_multiply(&columns, &ladder->a, &ladder->b);
    columns_multiply(&columns, y_cubed, &ladder->m);
    columns_reduce(&t, &columns);
    field_constant(&other, p256_four_b);
    field_multiply(&other, &t, &other);
    field_scale(&t, x, 3);
    field_select(numerator, x_is_zero, &other, &t);
    field_carry(numerator);
}
