/*
 * The field of Curve25519 (RFC 7748, 4.1): numbers modulo p = 2^255 - 19. Limbs from the ninth on count for 2^261, which is
 * 64 * 19 = 1216 modulo p.
 *
 * The floor: 81 products of limbs a product, 45 a square, nine more and two carries for each of seventeen columns.
 */
#define FOLD 1216

/* The lower half alone, once nothing is left above it. */
DEVICE void columns_wrap(Field *out, Columns *columns)
{
    s64 *column = columns->column;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        out->limb[i] = limb_of(column[i]);
        column[i + 1] += carry_of(column[i]);
    }
    /* What the uppermost carries comes back at the bottom, at most 2^45; a few thousands reach the second limb. */
    s64 bottom = out->limb[0] + column[FIELD_LIMBS] * FOLD + FIELD_HALF;
    out->limb[0] = limb_of(bottom);
    out->limb[1] += (s32)carry_of(bottom);
}

DEVICE void columns_reduce(Field *out, Columns *columns)
{
    s64 *column = columns->column;
    UNROLL
    for (int i = FIELD_LIMBS; i < 2 * FIELD_LIMBS; i++) {
        s64 limb = column[i];
        if (i < 2 * FIELD_LIMBS - 1) {
            limb = limb_of(column[i]);
            column[i + 1] += carry_of(column[i]);
        }
        /* The lower columns begin with zero: the halves that make their carries round are added here. */
        column[i - FIELD_LIMBS] += limb * FOLD + FIELD_HALF;
    }
    column[FIELD_LIMBS] = 0;
    columns_wrap(out, columns);
}

/* a + b times a number below 2^18. */
DEVICE void field_add_scaled(Field *out, const Field *a, const Field *b, s32 by)
{
    Columns columns;
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        columns.column[i] = (s64)b->limb[i] * by + a->limb[i] + FIELD_HALF;
    }
    columns.column[FIELD_LIMBS] = 0;
    columns_wrap(out, &columns);
}

/* Takes eight little-endian words without their uppermost bit (RFC 7748, 5). */
DEVICE void field_load(Field *out, GLOBAL const u32 *words)
{
    limbs_load(out, words);
    out->limb[FIELD_LIMBS - 1] &= 0x7fffff;
}

/* Takes what stands above bit 254 modulo p, once. */
DEVICE void field_fold(Field *a)
{
    limbs_settle(a);
    a->limb[0] += 19 * (a->limb[FIELD_LIMBS - 1] >> 23);
    a->limb[FIELD_LIMBS - 1] &= 0x7fffff;
}

/* Writes a number, below p, as eight little-endian words. */
DEVICE void field_store(GLOBAL u32 *words, const Field *a)
{
    Field plain = *a;
    /* Within 2^255 and a few thousands, then from 0 to 2^255. */
    field_fold(&plain);
    field_fold(&plain);
    limbs_settle(&plain);
    /* It is p or above when 19 more reach bit 255, which then goes, and the 19 stay. */
    Field above = plain;
    above.limb[0] += 19;
    limbs_settle(&above);
    plain.limb[0] += 19 & -(above.limb[FIELD_LIMBS - 1] >> 23);
    limbs_settle(&plain);
    plain.limb[FIELD_LIMBS - 1] &= 0x7fffff;
    limbs_store(words, &plain);
}

/*
 * The inverse: a to the power of p - 2 (Fermat), zero for zero. The exponent is public; its ones are put together in runs,
 * a step of squarings and a product each. One copy of either in the code.
 */
#define INVERSE_STEPS 13
#define TIMES_ITSELF 0
#define TIMES_1 1
#define TIMES_10 2
#define TIMES_50 3

CONSTANT u8 inverse_squarings[INVERSE_STEPS] = {1, 2, 1, 5, 10, 20, 10, 50, 100, 50, 2, 2, 1};
CONSTANT u8 inverse_factors[INVERSE_STEPS] = {
    TIMES_1,      TIMES_ITSELF, TIMES_1,  TIMES_ITSELF, TIMES_ITSELF, TIMES_ITSELF, TIMES_10,
    TIMES_ITSELF, TIMES_ITSELF, TIMES_50, TIMES_1,      TIMES_1,      TIMES_1,
};

DEVICE void field_invert(Field *out, const Field *a)
{
    /* a to the power of as many ones as the name says. */
    Field ones_10 = *a, ones_50 = *a, power = *a;
    ROLLED
    for (int step = 0; step < INVERSE_STEPS; step++) {
        u32 which = inverse_factors[step];
        Field factor = power;
        if (which == TIMES_1) {
            factor = *a;
        } else if (which == TIMES_10) {
            factor = ones_10;
        } else if (which == TIMES_50) {
            factor = ones_50;
        }
        ROLLED
        for (u32 squarings = inverse_squarings[step]; squarings != 0; squarings--) {
            field_square(&power, &power);
        }
        field_multiply(&power, &power, &factor);
        if (step == 3) {
            ones_10 = power;
        } else if (step == 6) {
            ones_50 = power;
        }
    }
    *out = power;
}
