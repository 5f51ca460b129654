/*
 * The field of P-256 (NIST SP 800-186, 3.2.1.3): numbers modulo p = 2^256 - 2^224 + 2^192 + 2^96 - 1, times R = 2^261
 * (Montgomery's form). p is -1 modulo a limb, so that Montgomery's factor is the lowest limb itself, and the product with p
 * is four shifts. A reduction leaves the product divided by R, and p more at most; R is 32 p, so that numbers stay small: of
 * those that the ladder and the comb keep none is beyond 7 p in size.
 *
 * The floor: 81 products of limbs a product, 45 a square, and four shifts and two carries for each of nine limbs.
 */
/* Adds a number that stands beside products, which are to be divided by R. */
DEVICE void columns_add(Columns *columns, const Field *a)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        columns->column[FIELD_LIMBS + i] += a->limb[i];
    }
}

DEVICE void columns_reduce(Field *out, Columns *columns)
{
    s64 *column = columns->column;
    s32 shift_9 = OPAQUE(1 << 9), shift_18 = OPAQUE(1 << 18), shift_21 = OPAQUE(-(1 << 21)), shift_24 = OPAQUE(1 << 24);
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        s32 factor = (s32)((u32)column[i] & FIELD_MASK);
        column[i + 1] += carry_of(column[i]);
        column[i + 3] += (s64)factor * shift_9;
        column[i + 6] += (s64)factor * shift_18;
        column[i + 7] += (s64)factor * shift_21;
        column[i + 8] += (s64)factor * shift_24;
    }
    UNROLL
    for (int i = 0; i < FIELD_LIMBS - 1; i++) {
        out->limb[i] = limb_of(column[FIELD_LIMBS + i]);
        column[FIELD_LIMBS + i + 1] += carry_of(column[FIELD_LIMBS + i]);
    }
    out->limb[FIELD_LIMBS - 1] = (s32)column[2 * FIELD_LIMBS - 1];
}

DEVICE void field_constant(Field *out, CONSTANT_POINTER s32 *limbs)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        out->limb[i] = limbs[i];
    }
}

/* Takes eight little-endian words into Montgomery's form. */
DEVICE void field_load(Field *out, GLOBAL const u32 *words)
{
    Field plain, square;
    limbs_load(&plain, words);
    field_constant(&square, p256_r_squared);
    field_multiply(out, &plain, &square);
}

/* Writes a number out of Montgomery's form, below p, as eight little-endian words. */
DEVICE void field_store(GLOBAL u32 *words, const Field *a)
{
    Columns columns;
    Field plain;
    columns_clear(&columns);
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        columns.column[i] = a->limb[i];
    }
    /* Now it is from 0 to p, both included; p is taken away, and added again where that leads below zero. */
    columns_reduce(&plain, &columns);
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        plain.limb[i] -= p256_prime[i];
    }
    limbs_settle(&plain);
    s32 below = plain.limb[FIELD_LIMBS - 1] >> 31;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        plain.limb[i] += p256_prime[i] & below;
    }
    limbs_settle(&plain);
    limbs_store(words, &plain);
}

/*
 * The inverse: a to the power of p - 2 (Fermat), zero for zero. The exponent is public; its ones are put together in runs,
 * a step of squarings and a product each. One copy of either in the code.
 */
#define INVERSE_STEPS 12
#define TIMES_ITSELF 0
#define TIMES_1 1
#define TIMES_2 2
#define TIMES_3 3
#define TIMES_30 4
#define TIMES_32 5

CONSTANT u8 inverse_squarings[INVERSE_STEPS] = {1, 1, 3, 6, 3, 15, 2, 32, 128, 32, 30, 2};
CONSTANT u8 inverse_factors[INVERSE_STEPS] = {
    TIMES_1, TIMES_1, TIMES_ITSELF, TIMES_ITSELF, TIMES_3, TIMES_ITSELF,
    TIMES_2, TIMES_1, TIMES_32, TIMES_32, TIMES_30, TIMES_1,
};

DEVICE void field_invert(Field *out, const Field *a)
{
    /* a to the power of as many ones as the name says. */
    Field ones_2 = *a, ones_3 = *a, ones_30 = *a, ones_32 = *a, power = *a;
    ROLLED
    for (int step = 0; step < INVERSE_STEPS; step++) {
        u32 which = inverse_factors[step];
        Field factor = power;
        if (which == TIMES_1) {
            factor = *a;
        } else if (which == TIMES_2) {
            factor = ones_2;
        } else if (which == TIMES_3) {
            factor = ones_3;
        } else if (which == TIMES_30) {
            factor = ones_30;
        } else if (which == TIMES_32) {
            factor = ones_32;
        }
        ROLLED
        for (u32 squarings = inverse_squarings[step]; squarings != 0; squarings--) {
            field_square(&power, &power);
        }
        field_multiply(&power, &power, &factor);
        if (step == 0) {
            ones_2 = power;
        } else if (step == 1) {
            ones_3 = power;
        } else if (step == 5) {
            ones_30 = power;
        } else if (step == 6) {
            ones_32 = power;
        }
    }
    *out = power;
}
