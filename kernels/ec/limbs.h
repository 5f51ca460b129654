/*
 * Numbers of about 256 bits modulo a prime, one a work item: nine signed limbs of 29 bits.
 *
 * 29 bits leave room in a 64-bit column for all products of a row and for sums of several: sums, differences and what they
 * become in a product need no carries, and no flag of the processor. What leaves a reduction is "tight": its limbs are at
 * most 2^28 in size (but for a few thousands). The comments count sizes in tight numbers: a difference of two is 2. A
 * column holds the products of sizes up to 12, and sums of such products (9 * 12 * 2^56 < 2^63 - 2^59).
 *
 * How a product is reduced is the prime's matter: `columns_reduce` comes with the field.
 *
 * Everything is constant in time: no branch, index or address depends on a number.
 */
#define FIELD_LIMBS 9
#define FIELD_BITS 29
#define FIELD_MASK 0x1fffffff
#define FIELD_HALF 0x10000000

typedef struct {
    s32 limb[FIELD_LIMBS];
} Field;

/* Columns of a product: those of the limbs that reduction removes, then those of the result. */
typedef struct {
    s64 column[2 * FIELD_LIMBS];
} Columns;

/* Begins a product. Half a limb in a column makes its carry round (`limb_of`); the uppermost is not carried. */
DEVICE void columns_clear(Columns *columns)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        columns->column[i] = 0;
        columns->column[FIELD_LIMBS + i] = i < FIELD_LIMBS - 1 ? FIELD_HALF : 0;
    }
}

DEVICE void columns_multiply(Columns *columns, const Field *a, const Field *b)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        UNROLL
        for (int j = 0; j < FIELD_LIMBS; j++) {
            columns->column[i + j] += (s64)a->limb[i] * b->limb[j];
        }
    }
}

DEVICE void columns_square(Columns *columns, const Field *a)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        s32 twice = 2 * a->limb[i];
        columns->column[2 * i] += (s64)a->limb[i] * a->limb[i];
        UNROLL
        for (int j = i + 1; j < FIELD_LIMBS; j++) {
            columns->column[i + j] += (s64)twice * a->limb[j];
        }
    }
}

/* The limb nearest to zero that a column with half a limb in it leaves when the rest is carried. */
DEVICE s32 limb_of(s64 column)
{
    return (s32)((u32)column & FIELD_MASK) - FIELD_HALF;
}

DEVICE s64 carry_of(s64 column)
{
    return column >> FIELD_BITS;
}

/* Takes a product and what stands beside it modulo the prime; tight. */
DEVICE void columns_reduce(Field *out, Columns *columns);

DEVICE void field_multiply(Field *out, const Field *a, const Field *b)
{
    Columns columns;
    columns_clear(&columns);
    columns_multiply(&columns, a, b);
    columns_reduce(out, &columns);
}

DEVICE void field_square(Field *out, const Field *a)
{
    Columns columns;
    columns_clear(&columns);
    columns_square(&columns, a);
    columns_reduce(out, &columns);
}

DEVICE void field_add(Field *out, const Field *a, const Field *b)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        out->limb[i] = a->limb[i] + b->limb[i];
    }
}

DEVICE void field_subtract(Field *out, const Field *a, const Field *b)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        out->limb[i] = a->limb[i] - b->limb[i];
    }
}

/* A number times a small one; times -1 it is its negative. */
DEVICE void field_scale(Field *out, const Field *a, s32 by)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        out->limb[i] = a->limb[i] * by;
    }
}

/* Makes the limbs tight; the value stays. */
DEVICE void field_carry(Field *a)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS - 1; i++) {
        s32 carry = (a->limb[i] + FIELD_HALF) >> FIELD_BITS;
        a->limb[i] -= carry * (1 << FIELD_BITS);
        a->limb[i + 1] += carry;
    }
}

/* The first where the mask is all ones, the second where it is zero. */
DEVICE void field_select(Field *out, u32 mask, const Field *first, const Field *second)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        out->limb[i] = (s32)(((u32)first->limb[i] & mask) | ((u32)second->limb[i] & ~mask));
    }
}

/* Exchanges two where the mask is all ones. */
DEVICE void field_swap(u32 mask, Field *a, Field *b)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        u32 difference = ((u32)a->limb[i] ^ (u32)b->limb[i]) & mask;
        a->limb[i] = (s32)((u32)a->limb[i] ^ difference);
        b->limb[i] = (s32)((u32)b->limb[i] ^ difference);
    }
}

/* Eight little-endian words as limbs from 0 to 2^29. */
DEVICE void limbs_load(Field *out, GLOBAL const u32 *words)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS; i++) {
        int bit = FIELD_BITS * i;
        u32 limb = words[bit / 32] >> (bit % 32);
        if (bit % 32 > 32 - FIELD_BITS && bit / 32 < 7) {
            limb |= words[bit / 32 + 1] << (32 - bit % 32);
        }
        out->limb[i] = (s32)(limb & FIELD_MASK);
    }
}

/* Carries so that all limbs but the uppermost are from 0 to 2^29; that one has the sign. */
DEVICE void limbs_settle(Field *a)
{
    UNROLL
    for (int i = 0; i < FIELD_LIMBS - 1; i++) {
        a->limb[i + 1] += a->limb[i] >> FIELD_BITS;
        a->limb[i] &= FIELD_MASK;
    }
}

/* Settled limbs of a number below 2^256 as eight little-endian words. */
DEVICE void limbs_store(GLOBAL u32 *words, const Field *a)
{
    UNROLL
    for (int i = 0; i < 8; i++) {
        int at = 32 * i / FIELD_BITS, shift = 32 * i % FIELD_BITS;
        u32 word = (u32)a->limb[at] >> shift | (u32)a->limb[at + 1] << (FIELD_BITS - shift);
        /* Three limbs where a word begins near the end of one. */
        if (2 * FIELD_BITS - shift < 32 && at + 2 < FIELD_LIMBS) {
            word |= (u32)a->limb[at + 2] << (2 * FIELD_BITS - shift);
        }
        words[i] = word;
    }
}
