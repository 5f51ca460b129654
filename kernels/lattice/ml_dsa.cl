/*
 * ML-DSA (FIPS 204), an operation a group of 64 work items, for the same reasons as ML-KEM.
 *
 * Polynomials lie in local memory as words below q; an item has four coefficients of each in its hands. The host hashes
 * the message, takes hints apart and puts them together. Signing is a loop of attempts, each of which goes through all
 * of its steps whatever becomes of it: what an attempt is rejected for shows neither in time nor in addresses, only how
 * many there were, as the standard allows (FIPS 204, 3.6.3 and 5.2).
 *
 * A key, in words: k, three of no meaning, then polynomials in the transform's domain, a word a coefficient: the matrix
 * (k * l) and -t1 * 2^13 (k); with a private key also s1 (l), s2 (k) and t0 (k). All of them are multiplied by 2^32,
 * which a product divides by, and divided by 256, which the way back from the transform wants.
 */

#define DSA_K_MAX 8
#define DSA_L_MAX 7
#define DSA_KEY_HEAD 4

/* Words of the hash of the message, mu, and of a challenge at most. */
#define DSA_MU_WORDS 16
#define DSA_CHALLENGE_WORDS 16

/* Words of a stream that the mask is taken from: five blocks of SHAKE256. */
#define DSA_MASK_WORDS (2 * 5 * SHAKE256_RATE)

/* Attempts at a signature; fewer than one in 2^256 needs more (FIPS 204, appendix C). */
#define DSA_ATTEMPTS_MAX 814

/* What a parameter set says (FIPS 204, table 1). */
typedef struct {
    u32 k;
    u32 l;
    u32 tau;
    u32 beta;
    u32 gamma1;
    u32 gamma2;
    u32 omega;
    /* Bits of a coefficient of z, words of the challenge, bytes of four high parts. */
    u32 z_bits;
    u32 challenge;
    u32 high_bytes;
} DsaSet;

/* A group's memory; the mask's streams and the hints are for signing alone. */
typedef struct {
    u32 zetas[256];
    u32 c[256];
    u32 y[256 * DSA_L_MAX];
    u32 w[256 * DSA_K_MAX];
    /* What the challenge is the hash of: mu and the high parts. */
    u32 hashed[DSA_MU_WORDS + 256];
    u32 challenge[DSA_CHALLENGE_WORDS];
    u32 parts[64];
} DsaSpace;

typedef struct {
    DsaSpace space;
    u32 mask[DSA_MASK_WORDS * DSA_L_MAX];
    u32 product[256];
    u8 hints[64 * DSA_K_MAX];
} DsaSignSpace;

DEVICE DsaSet dsa_set(u32 k)
{
    DsaSet set;
    set.k = k;
    set.l = k == 4 ? 4 : k == 6 ? 5 : 7;
    set.tau = k == 4 ? 39 : k == 6 ? 49 : 60;
    set.beta = k == 4 ? 78 : k == 6 ? 196 : 120;
    set.gamma1 = k == 4 ? 1u << 17 : 1u << 19;
    set.gamma2 = (ML_DSA_Q - 1) / (k == 4 ? 88 : 32);
    set.omega = k == 4 ? 80 : k == 6 ? 55 : 75;
    set.z_bits = k == 4 ? 18 : 20;
    set.challenge = k == 4 ? 8 : k == 6 ? 12 : 16;
    set.high_bytes = k == 4 ? 3 : 2;
    return set;
}

/* All ones if a < b, else zero; both below 2^31. */
DEVICE u32 dsa_below(u32 a, u32 b)
{
    return 0u - ((a - b) >> 31);
}

/* From below 2q to below q. */
DEVICE u32 dsa_once(u32 number)
{
    u32 less = number - ML_DSA_Q;
    return less + (ML_DSA_Q & (0u - (less >> 31)));
}

DEVICE u32 dsa_sub(u32 a, u32 b)
{
    return dsa_once(a + ML_DSA_Q - b);
}

/* Divided by 2^32 modulo q; the number is below 2^32 * q. */
DEVICE u32 dsa_reduce(u64 number)
{
    u32 factor = (u32)number * ML_DSA_Q_NEGATED_INVERSE;
    return dsa_once((u32)((number + (u64)factor * ML_DSA_Q) >> 32));
}

DEVICE u32 dsa_multiply(u32 a, u32 b)
{
    return dsa_reduce((u64)a * b);
}

/* How far a number modulo q is from zero. */
DEVICE u32 dsa_distance(u32 number)
{
    u32 other = ML_DSA_Q - number;
    return other ^ ((other ^ number) & dsa_below(number, other));
}

/* A layer of the transform on two coefficients (FIPS 204, algorithm 41), and its inverse (algorithm 42). */
#define DSA_FORTH(a, b, zeta)                                                                                         \
    {                                                                                                                 \
        u32 turned = dsa_multiply(zeta, b);                                                                           \
        b = dsa_sub(a, turned);                                                                                       \
        a = dsa_once(a + turned);                                                                                     \
    }
#define DSA_BACK(a, b, zeta)                                                                                          \
    {                                                                                                                 \
        u32 difference = dsa_sub(b, a);                                                                               \
        a = dsa_once(a + b);                                                                                          \
        b = dsa_multiply(zeta, difference);                                                                           \
    }

/* Transforms `count` polynomials in place. What other items wrote may be read; on return an item's own four
 * neighbouring coefficients may be, the others behind a barrier. */
DEVICE void dsa_transform(LOCAL_POINTER u32 *polys, u32 count, LOCAL_POINTER const u32 *zetas)
{
    u32 item = ITEM_IN_GROUP;
    ROLLED
    for (u32 step = 0; step < 8; step += 2) {
        u32 shift = 6 - step, stride = 1u << shift, block = item >> shift;
        u32 outer = zetas[(1u << step) + block];
        u32 low = zetas[(2u << step) + 2 * block], high = zetas[(2u << step) + 2 * block + 1];
        LOCAL_POINTER u32 *own = polys + 4 * stride * block + (item & (stride - 1));
        BARRIER;
        ROLLED
        for (u32 poly = 0; poly < count; poly++, own += 256) {
            u32 a = own[0], b = own[stride], c = own[2 * stride], d = own[3 * stride];
            DSA_FORTH(a, c, outer)
            DSA_FORTH(b, d, outer)
            DSA_FORTH(a, b, low)
            DSA_FORTH(c, d, high)
            own[0] = a;
            own[stride] = b;
            own[2 * stride] = c;
            own[3 * stride] = d;
        }
    }
}

/* The way back, of products with a key's polynomials. An item's own four coefficients must be there; on return
 * everything may be read. */
DEVICE void dsa_transform_back(LOCAL_POINTER u32 *polys, u32 count, LOCAL_POINTER const u32 *zetas)
{
    u32 item = ITEM_IN_GROUP;
    ROLLED
    for (u32 shift = 0; shift <= 6; shift += 2) {
        u32 stride = 1u << shift, block = item >> shift;
        u32 low = zetas[(256u >> shift) - 1 - 2 * block], high = zetas[(256u >> shift) - 2 - 2 * block];
        u32 outer = zetas[(128u >> shift) - 1 - block];
        LOCAL_POINTER u32 *own = polys + 4 * stride * block + (item & (stride - 1));
        ROLLED
        for (u32 poly = 0; poly < count; poly++, own += 256) {
            u32 a = own[0], b = own[stride], c = own[2 * stride], d = own[3 * stride];
            DSA_BACK(a, b, low)
            DSA_BACK(c, d, high)
            DSA_BACK(a, c, outer)
            DSA_BACK(b, d, outer)
            own[0] = a;
            own[stride] = b;
            own[2 * stride] = c;
            own[3 * stride] = d;
        }
        BARRIER;
    }
}

/* The item's four coefficients of the products of the matrix with the vector `y`, both transformed, go to `w`. */
DEVICE void dsa_rows(LOCAL_POINTER DsaSpace *space, GLOBAL const u32 *matrix, DsaSet set)
{
    u32 own = 4 * ITEM_IN_GROUP;
    ROLLED
    for (u32 row = 0; row < set.k; row++) {
        /* Seven products below q^2. */
        u64 sum[4] = {0, 0, 0, 0};
        ROLLED
        for (u32 column = 0; column < set.l; column++, matrix += 256) {
            UNROLL
            for (u32 i = 0; i < 4; i++) {
                sum[i] += (u64)matrix[own + i] * space->y[256 * column + own + i];
            }
        }
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            space->w[256 * row + own + i] = dsa_reduce(sum[i]);
        }
    }
}

/* The item's four coefficients of the product of the challenge with a polynomial of the key. */
DEVICE void dsa_product(LOCAL_POINTER u32 *to, LOCAL_POINTER const u32 *c, GLOBAL const u32 *poly)
{
    u32 own = 4 * ITEM_IN_GROUP;
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        to[own + i] = dsa_multiply(c[own + i], poly[own + i]);
    }
}

/* The high part of a number, below `(q - 1) / (2 * gamma2)`, and the low part as a number with a sign (FIPS 204,
 * algorithm 36). */
DEVICE u32 dsa_split(u32 number, u32 gamma2, int *low)
{
    u32 width = 2 * gamma2, inverse = gamma2 == (ML_DSA_Q - 1) / 88 ? 22550 : 8200;
    u32 raised = number + gamma2 - 1;
    /* The estimate is right or one too small: the inverse is 2^32 / width rounded down, and the number far smaller. */
    u32 high = HIGH_32(raised, inverse);
    high -= ~dsa_below(raised - high * width, width);
    u32 is_top = ~dsa_below(high * width, ML_DSA_Q - 1);
    *low = (int)(number - high * width + is_top);
    return high & ~is_top;
}

/* An item's four high parts of a row go to what the challenge is the hash of (FIPS 204, algorithm 28). */
DEVICE void dsa_put_high(LOCAL_POINTER DsaSpace *space, DsaSet set, u32 row, const u32 *high)
{
    LOCAL_POINTER u8 *bytes = (LOCAL_POINTER u8 *)(space->hashed + DSA_MU_WORDS);
    bytes += set.high_bytes * (64 * row + ITEM_IN_GROUP);
    if (set.high_bytes == 3) {
        u32 packed = high[0] | high[1] << 6 | high[2] << 12 | high[3] << 18;
        bytes[0] = (u8)packed;
        bytes[1] = (u8)(packed >> 8);
        bytes[2] = (u8)(packed >> 16);
    } else {
        bytes[0] = (u8)(high[0] | high[1] << 4);
        bytes[1] = (u8)(high[2] | high[3] << 4);
    }
}

/* SHAKE256 of mu and the high parts, for one item. */
DEVICE void dsa_challenge(LOCAL_POINTER DsaSpace *space, DsaSet set)
{
    u64 state[25];
    keccak_clear(state);
    u32 end = DSA_MU_WORDS / 2 + 8 * set.high_bytes * set.k;
    ROLLED
    for (u32 from = 0; from <= end; from += SHAKE256_RATE) {
        UNROLL
        for (u32 lane = 0; lane < SHAKE256_RATE; lane++) {
            u32 at = from + lane;
            if (at < end) {
                state[lane] ^= local_lane(space->hashed, at);
            } else if (at == end) {
                state[lane] ^= SHAKE_SUFFIX;
            }
        }
        if (from + SHAKE256_RATE > end) {
            state[SHAKE256_RATE - 1] ^= KECCAK_LAST;
        }
        keccak_permute(state);
    }
    keccak_squeeze(space->challenge, state, DSA_CHALLENGE_WORDS / 2);
}

/* The polynomial that a challenge stands for (FIPS 204, algorithm 29), for one item; zeros must be there. The challenge
 * is no secret, so the stream may say how long this takes. */
DEVICE void dsa_sample_in_ball(LOCAL_POINTER DsaSpace *space, DsaSet set)
{
    u64 state[25];
    keccak_clear(state);
    u32 end = set.challenge / 2;
    UNROLL
    for (u32 lane = 0; lane <= DSA_CHALLENGE_WORDS / 2; lane++) {
        if (lane < end) {
            state[lane] = local_lane(space->challenge, lane);
        } else if (lane == end) {
            state[lane] = SHAKE_SUFFIX;
        }
    }
    state[SHAKE256_RATE - 1] = KECCAK_LAST;
    u64 signs = 0;
    u32 at = 8 * SHAKE256_RATE, is_first = 1;
    u32 number = 256 - set.tau;
    ROLLED
    while (number < 256) {
        if (at == 8 * SHAKE256_RATE) {
            keccak_permute(state);
            keccak_squeeze(space->parts, state, SHAKE256_RATE);
            at = 0;
            if (is_first) {
                signs = state[0];
                is_first = 0;
                at = 8;
            }
        }
        u32 place = space->parts[at >> 2] >> (8 * (at & 3)) & 0xff;
        at++;
        if (place <= number) {
            space->c[number] = space->c[place];
            space->c[place] = (u32)signs & 1 ? ML_DSA_Q - 1 : 1;
            signs >>= 1;
            number++;
        }
    }
}

/* The challenge in local memory becomes a transformed polynomial. */
DEVICE void dsa_open_challenge(LOCAL_POINTER DsaSpace *space, DsaSet set)
{
    u32 item = ITEM_IN_GROUP;
    UNROLL
    for (u32 at = 0; at < 256; at += 64) {
        space->c[at + item] = 0;
    }
    BARRIER;
    if (item == 0) {
        dsa_sample_in_ball(space, set);
    }
    dsa_transform(space->c, 1, space->zetas);
}

DEVICE void dsa_enter(LOCAL_POINTER DsaSpace *space, GLOBAL const u32 *mu)
{
    UNROLL
    for (u32 at = 0; at < 256; at += 64) {
        space->zetas[at + ITEM_IN_GROUP] = ml_dsa_zetas[at + ITEM_IN_GROUP];
    }
    if (ITEM_IN_GROUP < DSA_MU_WORDS) {
        space->hashed[ITEM_IN_GROUP] = mu[ITEM_IN_GROUP];
    }
}

/* A number of up to 32 bits that begins at a bit of a word, and may end in the next. */
DEVICE u32 dsa_bits(u32 word, u32 next, u32 shift, u32 bits)
{
    return (word >> shift | next << (31 - shift) << 1) & ((1u << bits) - 1);
}

/*
 * ML-DSA.Verify_internal (FIPS 204, algorithm 8). Nothing here is secret. The input is mu, the challenge, z as it is in
 * the signature, and the hints, a bit a coefficient; the output is a word that is one if the signature is good.
 */
KERNEL dsa_verify(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    LOCAL DsaSpace space;
    GLOBAL u32 *input = buffer + message_of(buffer, GROUP).at;
    GLOBAL const u32 *key = key_of(buffer, keys, GROUP);
    DsaSet set = dsa_set(key[0]);
    key += DSA_KEY_HEAD;
    u32 item = ITEM_IN_GROUP;
    GLOBAL const u32 *challenge = input + DSA_MU_WORDS;
    GLOBAL const u32 *z = challenge + set.challenge;
    GLOBAL const u32 *hints = z + 8 * set.z_bits * set.l;
    dsa_enter(&space, input);
    if (item < set.challenge) {
        space.challenge[item] = challenge[item];
    }
    u32 bad = 0;
    ROLLED
    for (u32 at = item; at < 256 * set.l; at += 64) {
        u32 bit = set.z_bits * at, shift = bit & 31;
        u32 next = shift + set.z_bits > 32 ? z[(bit >> 5) + 1] : 0;
        u32 number = dsa_sub(set.gamma1, dsa_bits(z[bit >> 5], next, shift, set.z_bits));
        bad |= ~dsa_below(dsa_distance(number), set.gamma1 - set.beta);
        space.y[at] = number;
    }
    BARRIER;
    dsa_open_challenge(&space, set);
    dsa_transform(space.y, set.l, space.zetas);
    dsa_rows(&space, key, set);
    key += 256 * set.k * set.l;
    ROLLED
    for (u32 row = 0; row < set.k; row++, key += 256) {
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            u32 at = 4 * item + i;
            u32 product = dsa_multiply(space.c[at], key[at]);
            space.w[256 * row + at] = dsa_once(space.w[256 * row + at] + product);
        }
    }
    dsa_transform_back(space.w, set.k, space.zetas);
    u32 highs = (ML_DSA_Q - 1) / (2 * set.gamma2);
    ROLLED
    for (u32 row = 0; row < set.k; row++) {
        u32 high[4];
        u32 hint = hints[8 * row + (item >> 3)] >> (4 * (item & 7));
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            int low;
            high[i] = dsa_split(space.w[256 * row + 4 * item + i], set.gamma2, &low);
            /* One up or down, around the circle (FIPS 204, algorithm 40). */
            u32 moved = low > 0 ? high[i] + 1 : high[i] + highs - 1;
            moved = moved >= highs ? moved - highs : moved;
            high[i] = hint >> i & 1 ? moved : high[i];
        }
        dsa_put_high(&space, set, row, high);
    }
    space.parts[item] = bad;
    BARRIER;
    if (item == 0) {
        ROLLED
        for (u32 part = 0; part < 64; part++) {
            bad |= space.parts[part];
        }
        dsa_challenge(&space, set);
        ROLLED
        for (u32 at = 0; at < set.challenge; at++) {
            bad |= space.challenge[at] ^ challenge[at];
        }
        input[0] = bad == 0 ? 1 : 0;
    }
}

/* SHAKE256 of a seed and a number: the stream of a polynomial of the mask (FIPS 204, algorithm 34), for one item. */
DEVICE void dsa_mask_stream(LOCAL_POINTER u32 *to, GLOBAL const u32 *seed, u32 number)
{
    u64 state[25];
    keccak_clear(state);
    UNROLL
    for (u32 lane = 0; lane < 8; lane++) {
        state[lane] = global_lane(seed, lane);
    }
    state[8] = number | SHAKE_SUFFIX << 16;
    state[SHAKE256_RATE - 1] = KECCAK_LAST;
    ROLLED
    for (u32 block = 0; block < 5; block++) {
        keccak_permute(state);
        keccak_squeeze(to + 2 * SHAKE256_RATE * block, state, SHAKE256_RATE);
    }
}

/* A coefficient of the mask; `at` counts through its polynomials. */
DEVICE u32 dsa_mask(LOCAL_POINTER const u32 *mask, DsaSet set, u32 at)
{
    u32 bit = set.z_bits * (at & 255);
    LOCAL_POINTER const u32 *words = mask + DSA_MASK_WORDS * (at >> 8) + (bit >> 5);
    return dsa_sub(set.gamma1, dsa_bits(words[0], words[1], bit & 31, set.z_bits));
}

/* Word number `at` of z as the signature has it (FIPS 204, algorithm 26). */
DEVICE u32 dsa_packed(LOCAL_POINTER const u32 *z, DsaSet set, u32 at)
{
    u32 first = 32 * at / set.z_bits;
    u64 packed = 0;
    ROLLED
    for (u32 number = 0; number < 3; number++) {
        if (first + number < 256 * set.l) {
            packed |= (u64)dsa_sub(set.gamma1, z[first + number]) << (number * set.z_bits);
        }
    }
    return (u32)(packed >> (32 * at - first * set.z_bits));
}

/* From the mask in `y`, transformed, to the challenge, and w. */
DEVICE void dsa_commit(LOCAL_POINTER DsaSpace *space, GLOBAL const u32 *matrix, DsaSet set)
{
    u32 own = 4 * ITEM_IN_GROUP;
    dsa_rows(space, matrix, set);
    dsa_transform_back(space->w, set.k, space->zetas);
    ROLLED
    for (u32 row = 0; row < set.k; row++) {
        u32 high[4];
        UNROLL
        for (u32 i = 0; i < 4; i++) {
            int low;
            high[i] = dsa_split(space->w[256 * row + own + i], set.gamma2, &low);
        }
        dsa_put_high(space, set, row, high);
    }
    BARRIER;
    if (ITEM_IN_GROUP == 0) {
        dsa_challenge(space, set);
    }
    BARRIER;
}

/* The answer z to the challenge, in `y`; all ones if a coefficient of this item is too far from zero. */
DEVICE u32 dsa_answer(LOCAL_POINTER DsaSignSpace *signing, GLOBAL const u32 *s1, DsaSet set)
{
    LOCAL_POINTER DsaSpace *space = &signing->space;
    u32 rejected = 0;
    ROLLED
    for (u32 row = 0; row < set.l; row++) {
        dsa_product(space->y + 256 * row, space->c, s1 + 256 * row);
    }
    dsa_transform_back(space->y, set.l, space->zetas);
    ROLLED
    for (u32 at = ITEM_IN_GROUP; at < 256 * set.l; at += 64) {
        u32 number = dsa_once(space->y[at] + dsa_mask(signing->mask, set, at));
        rejected |= ~dsa_below(dsa_distance(number), set.gamma1 - set.beta);
        space->y[at] = number;
    }
    return rejected;
}

/* A row of hints, four bits an item. Adds their number; all ones if a coefficient is too far from zero. */
DEVICE u32 dsa_hint(LOCAL_POINTER DsaSignSpace *signing, GLOBAL const u32 *s2, GLOBAL const u32 *t0, DsaSet set,
                    u32 row, u32 *count)
{
    LOCAL_POINTER DsaSpace *space = &signing->space;
    u32 own = 4 * ITEM_IN_GROUP, rejected = 0, bits = 0;
    u32 rest[4], high[4];
    dsa_product(signing->product, space->c, s2);
    dsa_transform_back(signing->product, 1, space->zetas);
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        int low;
        rest[i] = dsa_sub(space->w[256 * row + own + i], signing->product[own + i]);
        high[i] = dsa_split(rest[i], set.gamma2, &low);
        u32 sign_bits = 0u - ((u32)low >> 31);
        rejected |= ~dsa_below(((u32)low ^ sign_bits) - sign_bits, set.gamma2 - set.beta);
    }
    dsa_product(signing->product, space->c, t0);
    dsa_transform_back(signing->product, 1, space->zetas);
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        int low;
        u32 moved = signing->product[own + i];
        rejected |= ~dsa_below(dsa_distance(moved), set.gamma2);
        u32 differs = dsa_split(dsa_once(rest[i] + moved), set.gamma2, &low) ^ high[i];
        u32 bit = (differs | (0u - differs)) >> 31;
        bits |= bit << i;
        *count += bit;
    }
    signing->hints[64 * row + ITEM_IN_GROUP] = (u8)bits;
    return rejected;
}

/*
 * ML-DSA.Sign_internal (FIPS 204, algorithm 7). The input is mu and the seed rho''; the output is a word that is one if
 * an attempt succeeded, then the challenge, z as it is in the signature, and the hints, a bit a coefficient. (Not named
 * `sign` alone: that is a function of OpenCL's.)
 */
KERNEL dsa_sign(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    LOCAL DsaSignSpace signing;
    LOCAL_POINTER DsaSpace *space = &signing.space;
    GLOBAL u32 *output = buffer + message_of(buffer, GROUP).at;
    GLOBAL const u32 *matrix = key_of(buffer, keys, GROUP);
    DsaSet set = dsa_set(matrix[0]);
    matrix += DSA_KEY_HEAD;
    GLOBAL const u32 *s1 = matrix + 256 * set.k * (set.l + 1);
    GLOBAL const u32 *s2 = s1 + 256 * set.l;
    GLOBAL const u32 *t0 = s2 + 256 * set.k;
    u32 item = ITEM_IN_GROUP, is_done = 0;
    dsa_enter(space, output);
    ROLLED
    for (u32 attempt = 0; attempt < DSA_ATTEMPTS_MAX && is_done == 0; attempt++) {
        if (item < set.l) {
            dsa_mask_stream(signing.mask + DSA_MASK_WORDS * item, output + DSA_MU_WORDS, set.l * attempt + item);
        }
        BARRIER;
        ROLLED
        for (u32 at = item; at < 256 * set.l; at += 64) {
            space->y[at] = dsa_mask(signing.mask, set, at);
        }
        dsa_transform(space->y, set.l, space->zetas);
        dsa_commit(space, matrix, set);
        dsa_open_challenge(space, set);
        u32 rejected = dsa_answer(&signing, s1, set), count = 0;
        ROLLED
        for (u32 row = 0; row < set.k; row++) {
            rejected |= dsa_hint(&signing, s2 + 256 * row, t0 + 256 * row, set, row, &count);
        }
        /* More than there are hints. */
        space->parts[item] = count + (rejected & 0x1000);
        BARRIER;
        count = 0;
        ROLLED
        for (u32 part = 0; part < 64; part++) {
            count += space->parts[part];
        }
        is_done = count <= set.omega ? 1 : 0;
        BARRIER;
    }
    /* What was rejected says something of the key, and stays here. */
    u32 mask = 0u - is_done;
    if (item == 0) {
        output[0] = is_done;
    }
    output += 1;
    if (item < set.challenge) {
        output[item] = space->challenge[item] & mask;
    }
    output += set.challenge;
    ROLLED
    for (u32 at = item; at < 8 * set.z_bits * set.l; at += 64) {
        output[at] = dsa_packed(space->y, set, at) & mask;
    }
    output += 8 * set.z_bits * set.l;
    if (item < 8 * set.k) {
        u32 word = 0;
        UNROLL
        for (u32 part = 0; part < 8; part++) {
            word |= (u32)signing.hints[8 * item + part] << (4 * part);
        }
        output[item] = word & mask;
    }
    BARRIER;
    LOCAL_POINTER volatile u32 *words = (LOCAL_POINTER volatile u32 *)&signing;
    ROLLED
    for (u32 at = item; at < sizeof(DsaSignSpace) / 4; at += 64) {
        words[at] = 0;
    }
}
