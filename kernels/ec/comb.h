/*
 * A secret multiple of P-256's base point: a sum of entries of a table, one a window of five bits.
 *
 * An odd number k = 2 K + 1 below 2^256 is 2^255 plus 51 digits: the digit of 32^i is 2 b - 31 for the five bits b of K from
 * 5 i on. No digit is zero: the table has the sixteen odd multiples up to 31 of every 32^i G, and a digit's sign is the
 * point's. All sixteen are read, and the one that is wanted is kept by a mask. The host gives n - k for an even k.
 *
 * The sum, in Jacobian coordinates, begins with 2^255 G. A step adds an affine point (eight products and three squares)
 * by formulas that do not hold for the sum itself or its negative. What was added so far differs from 2^255 by less than
 * 32^i, and no entry is that large, so that they are equal modulo n for no k but n - 31 * 2^251, and there the result is
 * zero, which is not on the curve, as the host will find.
 */
#define COMB_WINDOWS 51
#define COMB_ENTRIES 16
#define POINT_LIMBS (2 * FIELD_LIMBS)

typedef struct {
    Field x, y, z;
} Jacobian;

/* Adds an affine point. Sizes of the sum: X 1, Y 1, Z 1 before and behind. */
DEVICE void jacobian_add(Jacobian *sum, const Field *x, const Field *y)
{
    Field t, u, h, r, h_squared, h_cubed, v;
    Columns columns;
    field_square(&t, &sum->z);
    field_multiply(&u, x, &t);
    field_subtract(&h, &u, &sum->x); /* 2 */
    field_multiply(&t, &t, &sum->z);
    field_multiply(&u, y, &t);
    field_subtract(&r, &u, &sum->y); /* 2 */
    field_multiply(&sum->z, &sum->z, &h);
    field_square(&h_squared, &h);
    field_multiply(&h_cubed, &h, &h_squared);
    field_multiply(&v, &sum->x, &h_squared);

    /* X = r^2 - h^3 - 2 v */
    field_scale(&t, &v, -2);
    field_subtract(&t, &t, &h_cubed);
    columns_clear(&columns);
    columns_add(&columns, &t);
    columns_square(&columns, &r);
    columns_reduce(&sum->x, &columns);

    /* Y = r (v - X) - Y h^3 */
    field_subtract(&t, &v, &sum->x); /* 2 */
    columns_clear(&columns);
    columns_multiply(&columns, &r, &t);
    field_scale(&t, &sum->y, -1);
    columns_multiply(&columns, &t, &h_cubed);
    columns_reduce(&sum->y, &columns);
}

/* The entry of the table that a window of an odd k, eight words, asks for, with its sign. */
DEVICE void comb_entry(Field *x, Field *y, GLOBAL const u32 *k, int window)
{
    int bit = 5 * window + 1;
    u32 bits = k[bit / 32] >> (bit % 32);
    if (bit % 32 > 27) {
        bits |= k[(bit / 32 + 1) & 7] << (32 - bit % 32);
    }
    u32 positive = bits >> 4 & 1;
    u32 wanted = (bits & 15) ^ (15 & (positive - 1));
    CONSTANT_POINTER s32 *entries = p256_comb + COMB_ENTRIES * POINT_LIMBS * window;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        x->limb[i] = 0;
        y->limb[i] = 0;
    }
    ROLLED
    for (u32 entry = 0; entry < COMB_ENTRIES; entry++) {
        /* All ones for the one that is wanted: both are below 16. */
        s32 mask = (s32)((entry ^ wanted) - 1) >> 31;
        UNROLL
        for (int i = 0; i < FIELD_LIMBS; i++) {
            x->limb[i] |= entries[POINT_LIMBS * entry + i] & mask;
            y->limb[i] |= entries[POINT_LIMBS * entry + FIELD_LIMBS + i] & mask;
        }
    }
    /* The negative of y is its complement plus one, limb by limb. */
    s32 sign = (s32)positive - 1;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        y->limb[i] = (y->limb[i] ^ sign) - sign;
    }
}

/*
 * Adds k G for an odd k, all of it from window -1 on, and without its 2^255 G, with which a sum may begin, from window 0 on.
 */
DEVICE void comb_add(Jacobian *sum, GLOBAL const u32 *k, int first)
{
    ROLLED
    for (int window = first; window < COMB_WINDOWS; window++) {
        Field x, y;
        if (window < 0) {
            field_constant(&x, p256_comb_begin);
            field_constant(&y, p256_comb_begin + FIELD_LIMBS);
        } else {
            comb_entry(&x, &y, k, window);
        }
        jacobian_add(sum, &x, &y);
    }
}

/* Writes a sum as sixteen words, x and y; zeros for the point at infinity. */
DEVICE void jacobian_store(GLOBAL u32 *words, const Jacobian *sum)
{
    Field inverse, t;
    field_invert(&inverse, &sum->z);
    field_square(&t, &inverse);
    field_multiply(&inverse, &inverse, &t);
    field_multiply(&t, &sum->x, &t);
    field_store(words, &t);
    field_multiply(&t, &sum->y, &inverse);
    field_store(words + 8, &t);
}
