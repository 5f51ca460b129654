/*
 * RSA private operations by the Chinese remainder theorem (RFC 8017, 5.1.2 and 5.2.1, 2.b): two work items an operation, one
 * raises the number to the exponent modulo the first prime, its neighbour modulo the second. The host has blinded the number,
 * puts the halves together and checks the result.
 *
 * Numbers are LIMBS limbs of 28 bits. A product of two limbs has 56 bits, so that 64 bits hold the sum of all that fall into
 * a column, 2 * LIMBS products at the most (148 for the longest prime, under 2^8): one multiply-add for each product of
 * limbs, carries only at the end. With R = 2^(28 * LIMBS) above 16 times the prime no product needs a final subtraction
 * (Walter, Montgomery exponentiation needs no final subtractions, 1999): below four primes goes in, below two comes out.
 *
 * The exponent is worked through four bits at a time, always with a multiplication, whose factor is selected from the table
 * by masks over all of it. Times, branches and addresses depend on the sizes alone.
 *
 * LIMBS, PRIME_WORDS (of 32 bits) and PRIME_IN_MEMORY (whether there are not enough registers for the prime) come before
 * this.
 */
#define LIMB_BITS 28
#define LIMB_MASK 0x0fffffffu
#define WINDOW_BITS 4
#define ENTRIES 16

/* What a key has for each prime, in words; the host writes it (engines/gpu/src/public/rsa/key.rs). */
#define KEY_INVERSE 0 /* -1 / prime modulo 2^28 */
#define KEY_PRIME 1
#define KEY_ONE (1 + LIMBS)         /* R modulo the prime */
#define KEY_SQUARE (1 + 2 * LIMBS)  /* R^2 */
#define KEY_CUBE (1 + 3 * LIMBS)    /* R^3 */
#define KEY_EXPONENT (1 + 4 * LIMBS)
#define KEY_HALF (1 + 4 * LIMBS + PRIME_WORDS)

/* What a work item has to itself, in words: the table, a factor, the prime. */
#define OWN_TABLE 0
#define OWN_FACTOR (ENTRIES * LIMBS)
#define OWN_PRIME (OWN_FACTOR + LIMBS)
/* The number's limbs, which are needed before there is more than one entry. */
#define OWN_NUMBER (2 * LIMBS)

/* The prime: its limbs, and where they are when they are in memory. */
typedef struct {
    u32 inverse;
#if PRIME_IN_MEMORY
    GLOBAL const u32 *limbs;
#else
    u32 limbs[LIMBS];
#endif
    /*
     * Zero, which compilers cannot know: what is a multiple of it away they cannot load ahead of a loop, all at once, for
     * which there are not enough registers.
     */
    u32 still;
} Prime;

/*
 * a * b + sum comes in two ways: left to itself, the compiler for CUDA adds as it multiplies, but takes more registers for
 * it than the longest prime leaves.
 */
#if PRIME_IN_MEMORY
#define PRIME_LIMB(prime, j, at) (at)[(j) * SCRATCH_STRIDE]
#define SUM_OF(a, b, sum) MULTIPLY_ADD(a, b, sum)
#else
#define PRIME_LIMB(prime, j, at) (prime)->limbs[j]
#define SUM_OF(a, b, sum) (PRODUCT_64(a, b) + (sum))
#endif

/*
 * a * b / R modulo the prime, into a. The limbs of b are `stride` words apart.
 *
 * Column j of t moves to j - 1 as the products of the next limb of b come in, so that nothing is moved for itself.
 */
DEVICE void multiply(u32 *a, GLOBAL const u32 *b, u32 stride, const Prime *prime)
{
    u64 t[LIMBS - 1];
    UNROLL
    for (u32 j = 0; j < LIMBS - 1; j++)
        t[j] = 0;
    ROLLED
    for (u32 i = 0; i < LIMBS; i++) {
        u32 factor = b[i * stride];
#if PRIME_IN_MEMORY
        GLOBAL const u32 *limbs = prime->limbs + i * prime->still;
#endif
        u64 low = SUM_OF(a[0], factor, t[0]);
        u32 multiple = ((u32)low * prime->inverse) & LIMB_MASK;
        u64 carry = SUM_OF(multiple, PRIME_LIMB(prime, 0, limbs), low) >> LIMB_BITS;
        UNROLL
        for (u32 j = 1; j < LIMBS; j++) {
            t[j - 1] = SUM_OF(a[j], factor, j < LIMBS - 1 ? t[j] : 0);
            t[j - 1] = SUM_OF(multiple, PRIME_LIMB(prime, j, limbs), t[j - 1]);
        }
        t[0] += carry;
    }
    u64 carry = 0;
    UNROLL
    for (u32 j = 0; j < LIMBS; j++) {
        carry += j < LIMBS - 1 ? t[j] : 0;
        a[j] = (u32)carry & LIMB_MASK;
        carry >>= LIMB_BITS;
    }
}

DEVICE void store(GLOBAL u32 *to, const u32 *a)
{
    UNROLL
    for (u32 j = 0; j < LIMBS; j++)
        to[j * SCRATCH_STRIDE] = a[j];
}

DEVICE void load(u32 *a, GLOBAL const u32 *from)
{
    UNROLL
    for (u32 j = 0; j < LIMBS; j++)
        a[j] = from[j * SCRATCH_STRIDE];
}

/* The operation's number, taken apart into twice as many limbs as a prime has. */
DEVICE void take_apart(GLOBAL u32 *limbs, GLOBAL const u32 *number)
{
    ROLLED
    for (u32 j = 0; j < 2 * LIMBS; j++) {
        u32 at = LIMB_BITS * j >> 5;
        u32 low = at < 2 * PRIME_WORDS ? number[at] : 0;
        u32 high = at + 1 < 2 * PRIME_WORDS ? number[at + 1] : 0;
        limbs[j * SCRATCH_STRIDE] = (u32)((((u64)high << 32) | low) >> (LIMB_BITS * j & 31)) & LIMB_MASK;
    }
}

/* The number in Montgomery's form and its powers, from the first on. */
DEVICE void build_table(GLOBAL u32 *own, GLOBAL const u32 *key, u32 *a, const Prime *prime)
{
    GLOBAL u32 *first = own + (OWN_TABLE + LIMBS) * SCRATCH_STRIDE;
    ROLLED
    for (u32 k = 0; k < ENTRIES; k++) {
        /* The number has twice the prime's length: high * R + low, and high * R^3 / R is high * R in that form. */
        GLOBAL const u32 *factor = k == 0 ? key + KEY_CUBE : key + KEY_SQUARE;
        if (k < 2)
            load(a, own + (OWN_NUMBER + (k == 0 ? LIMBS : 0)) * SCRATCH_STRIDE);
        else
            factor = first;
        multiply(a, factor, k < 2 ? 1 : SCRATCH_STRIDE, prime);
        if (k == 1) {
            u32 carry = 0;
            UNROLL
            for (u32 j = 0; j < LIMBS; j++) {
                carry += a[j] + first[j * SCRATCH_STRIDE];
                a[j] = carry & LIMB_MASK;
                carry >>= LIMB_BITS;
            }
        }
        if (k < 2)
            store(first, a);
        else
            store(own + (OWN_TABLE + k * LIMBS) * SCRATCH_STRIDE, a);
    }
    ROLLED
    for (u32 j = 0; j < LIMBS; j++)
        own[(OWN_TABLE + j) * SCRATCH_STRIDE] = key[KEY_ONE + j];
}

/* Copies an entry of the table to where factors are; every entry is read. */
DEVICE void select_entry(GLOBAL u32 *own, u32 digit)
{
    ROLLED
    for (u32 j = 0; j < LIMBS; j++) {
        u32 limb = 0;
        UNROLL
        for (u32 entry = 0; entry < ENTRIES; entry++) {
            u32 mask = 0u - (((digit ^ entry) - 1) >> 31);
            limb |= own[(OWN_TABLE + entry * LIMBS + j) * SCRATCH_STRIDE] & mask;
        }
        own[(OWN_FACTOR + j) * SCRATCH_STRIDE] = limb;
    }
}

/* Raises what is in the table to the exponent and takes it out of Montgomery's form. */
DEVICE void raise(GLOBAL u32 *own, GLOBAL const u32 *exponent, u32 *a, const Prime *prime)
{
    GLOBAL u32 *factor = own + OWN_FACTOR * SCRATCH_STRIDE;
    u32 digits = PRIME_WORDS * (32 / WINDOW_BITS);
    /* For every digit four squarings and a multiplication, and at last a multiplication by one. */
    u32 digit = digits, step = WINDOW_BITS;
    load(a, own + OWN_TABLE * SCRATCH_STRIDE);
    ROLLED
    for (u32 round = 0; round <= (WINDOW_BITS + 1) * digits; round++) {
        step = step == WINDOW_BITS ? 0 : step + 1;
        digit -= step == 0 && round != (WINDOW_BITS + 1) * digits;
        if (round == (WINDOW_BITS + 1) * digits) {
            ROLLED
            for (u32 j = 0; j < LIMBS; j++)
                factor[j * SCRATCH_STRIDE] = j == 0;
        } else if (step == WINDOW_BITS) {
            select_entry(own, (exponent[digit >> 3] >> (WINDOW_BITS * (digit & 7))) & (ENTRIES - 1));
        } else {
            store(factor, a);
        }
        multiply(a, factor, SCRATCH_STRIDE, prime);
    }
}

/* The operation's number, twice as long as a prime, becomes the two results, each as long as a prime. */
KERNEL private_operation(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    u32 number = ITEM >> 1, side = ITEM & 1;
    u32 is_there = number < buffer[HEAD_COUNT];
    GLOBAL u32 *data = buffer + buffer[HEAD_DATA_AT] + number * buffer[HEAD_STRIDE];
    GLOBAL u32 *own = scratch_of(buffer);
    if (is_there)
        take_apart(own + OWN_NUMBER * SCRATCH_STRIDE, data);
    /* Results take the number's place: both items have read it by now. */
    BARRIER;
    if (!is_there)
        return;
    GLOBAL const u32 *key = key_of(buffer, keys, number) + side * KEY_HALF;
    Prime prime;
    prime.inverse = key[KEY_INVERSE];
    prime.still = buffer[HEAD_IVS_AT];
#if PRIME_IN_MEMORY
    prime.limbs = own + OWN_PRIME * SCRATCH_STRIDE;
    ROLLED
    for (u32 j = 0; j < LIMBS; j++)
        own[(OWN_PRIME + j) * SCRATCH_STRIDE] = key[KEY_PRIME + j];
#else
    UNROLL
    for (u32 j = 0; j < LIMBS; j++)
        prime.limbs[j] = key[KEY_PRIME + j];
#endif
    u32 a[LIMBS];
    build_table(own, key, a, &prime);
    raise(own, key + KEY_EXPONENT, a, &prime);
    UNROLL
    for (u32 j = 0; j < PRIME_WORDS; j++) {
        u32 limb = 32 * j / LIMB_BITS, shift = 32 * j % LIMB_BITS;
        u32 word = a[limb] >> shift | a[limb + 1] << (LIMB_BITS - shift);
        if (shift > 2 * LIMB_BITS - 32)
            word |= a[limb + 2] << (2 * LIMB_BITS - shift);
        data[side * PRIME_WORDS + j] = word;
    }
}
