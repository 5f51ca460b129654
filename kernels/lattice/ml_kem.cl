/*
 * ML-KEM (FIPS 203), an operation a group of 64 work items.
 *
 * Polynomials lie in local memory as words below q; an item has four coefficients of each in its hands, so that a
 * transform takes two of its layers between two barriers. SHAKE streams are an item's each. A work item for each
 * operation would keep every lane of the hash busy, but takes ten thousand operations before a device is, and its
 * polynomials would go through the device's memory; a group has them at hand and fills a device with a thousand.
 *
 * The matrix is part of the resident key: it depends on the public key alone, and working it out anew would be most of
 * the hashing. So nothing here samples by rejection: every loop and every address depends on the parameter set alone.
 *
 * A key, in words: k, three of no meaning, then polynomials in the transform's domain, two coefficients a word: the
 * transposed matrix (k * k) and t (k); the hash of the encapsulation key (8); with a decapsulation key also s (k
 * polynomials) and z (8). The way back from the transform ends with a division by 128: the polynomials are divided
 * beforehand.
 */

#define KEM_K_MAX 4
#define KEM_POLY_WORDS 128
#define KEM_KEY_HEAD 4

/* Words of the longest stream of noise, of 192 bytes. */
#define KEM_NOISE_WORDS 48

/* What a parameter set says (FIPS 203, table 2); the second noise is always the binomial of 2. */
typedef struct {
    u32 k;
    u32 eta1;
    u32 du;
    u32 dv;
} KemSet;

/* A group's memory. */
typedef struct {
    u32 zetas[128];
    u32 y[256 * KEM_K_MAX];
    u32 w[256 * (KEM_K_MAX + 1)];
    /* Noise: k streams for y, k for the first errors, one for the second; one word more, that may be read past them. */
    u32 noise[KEM_NOISE_WORDS * (2 * KEM_K_MAX + 1) + 1];
    u32 message[8];
    /* The shared secret and the coins, then the secret that an unfit ciphertext gets instead. */
    u32 secret[16];
    u32 rejected[8];
    u32 parts[64];
} KemSpace;

DEVICE KemSet kem_set(u32 k)
{
    KemSet set;
    set.k = k;
    set.eta1 = k == 2 ? 3 : 2;
    set.du = k == 4 ? 11 : 10;
    set.dv = k == 4 ? 5 : 4;
    return set;
}

/* All ones if a < b, else zero; both below 2^31. */
DEVICE u32 kem_below(u32 a, u32 b)
{
    return 0u - ((a - b) >> 31);
}

/* From below 2q to below q. */
DEVICE u32 kem_once(u32 number)
{
    u32 less = number - ML_KEM_Q;
    return less + (ML_KEM_Q & (0u - (less >> 31)));
}

/* Any word modulo q: the estimated quotient is right or one too small. */
DEVICE u32 kem_reduce(u32 number)
{
    return kem_once(number - HIGH_32(number, ML_KEM_Q_INVERSE) * ML_KEM_Q);
}

DEVICE u32 kem_sub(u32 a, u32 b)
{
    return kem_once(a + ML_KEM_Q - b);
}

/* The nearest whole number to `number * 2^bits / q`, modulo 2^bits (FIPS 203, 4.7). */
DEVICE u32 kem_compress(u32 number, u32 bits)
{
    u32 scaled = (number << bits) + ML_KEM_Q / 2;
    u32 quotient = HIGH_32(scaled, ML_KEM_Q_INVERSE);
    quotient -= ~kem_below(scaled - quotient * ML_KEM_Q, ML_KEM_Q);
    return quotient & ((1u << bits) - 1);
}

DEVICE u32 kem_decompress(u32 number, u32 bits)
{
    return (number * ML_KEM_Q + (1u << (bits - 1))) >> bits;
}

/* A layer of the transform on two coefficients (FIPS 203, algorithm 9), and its inverse (algorithm 10). */
#define KEM_FORTH(a, b, zeta)                                                                                         \
    {                                                                                                                 \
        u32 turned = kem_reduce((zeta) * (b));                                                                        \
        b = kem_sub(a, turned);                                                                                       \
        a = kem_once(a + turned);                                                                                     \
    }
#define KEM_BACK(a, b, zeta)                                                                                          \
    {                                                                                                                 \
        u32 difference = kem_sub(b, a);                                                                               \
        a = kem_once(a + b);                                                                                          \
        b = kem_reduce((zeta) * difference);                                                                          \
    }

/* Transforms `count` polynomials in place. What other items wrote may be read; on return an item's own four
 * neighbouring coefficients may be, the others behind a barrier. */
DEVICE void kem_transform(LOCAL_POINTER u32 *polys, u32 count, LOCAL_POINTER const u32 *zetas)
{
    u32 item = ITEM_IN_GROUP;
    ROLLED
    for (u32 step = 0; step < 6; step += 2) {
        u32 shift = 6 - step, stride = 1u << shift, block = item >> shift;
        u32 outer = zetas[(1u << step) + block];
        u32 low = zetas[(2u << step) + 2 * block], high = zetas[(2u << step) + 2 * block + 1];
        LOCAL_POINTER u32 *own = polys + 4 * stride * block + (item & (stride - 1));
        BARRIER;
        ROLLED
        for (u32 poly = 0; poly < count; poly++, own += 256) {
            u32 a = own[0], b = own[stride], c = own[2 * stride], d = own[3 * stride];
            KEM_FORTH(a, c, outer)
            KEM_FORTH(b, d, outer)
            KEM_FORTH(a, b, low)
            KEM_FORTH(c, d, high)
            own[0] = a;
            own[stride] = b;
            own[2 * stride] = c;
            own[3 * stride] = d;
        }
    }
    BARRIER;
    LOCAL_POINTER u32 *own = polys + 4 * item;
    u32 zeta = zetas[64 + item];
    ROLLED
    for (u32 poly = 0; poly < count; poly++, own += 256) {
        u32 a = own[0], b = own[1], c = own[2], d = own[3];
        KEM_FORTH(a, c, zeta)
        KEM_FORTH(b, d, zeta)
        own[0] = a;
        own[1] = b;
        own[2] = c;
        own[3] = d;
    }
}

/* The way back, of products with a key's polynomials. An item's own four coefficients must be there; on return
 * everything may be read. */
DEVICE void kem_transform_back(LOCAL_POINTER u32 *polys, u32 count, LOCAL_POINTER const u32 *zetas)
{
    u32 item = ITEM_IN_GROUP;
    LOCAL_POINTER u32 *near = polys + 4 * item;
    u32 zeta = zetas[127 - item];
    ROLLED
    for (u32 poly = 0; poly < count; poly++, near += 256) {
        u32 a = near[0], b = near[1], c = near[2], d = near[3];
        KEM_BACK(a, c, zeta)
        KEM_BACK(b, d, zeta)
        near[0] = a;
        near[1] = b;
        near[2] = c;
        near[3] = d;
    }
    ROLLED
    for (u32 shift = 2; shift <= 6; shift += 2) {
        u32 stride = 1u << shift, block = item >> shift;
        u32 low = zetas[(256u >> shift) - 1 - 2 * block], high = zetas[(256u >> shift) - 2 - 2 * block];
        u32 outer = zetas[(128u >> shift) - 1 - block];
        LOCAL_POINTER u32 *own = polys + 4 * stride * block + (item & (stride - 1));
        BARRIER;
        ROLLED
        for (u32 poly = 0; poly < count; poly++, own += 256) {
            u32 a = own[0], b = own[stride], c = own[2 * stride], d = own[3 * stride];
            KEM_BACK(a, b, low)
            KEM_BACK(c, d, high)
            KEM_BACK(a, c, outer)
            KEM_BACK(b, d, outer)
            own[0] = a;
            own[stride] = b;
            own[2 * stride] = c;
            own[3 * stride] = d;
        }
    }
    BARRIER;
}

/* The item's four coefficients of the product of a row of the key with the vector `y`, both transformed (FIPS 203,
 * algorithms 11 and 12). Eight products below q^2 fit a word. */
DEVICE void kem_row(LOCAL_POINTER u32 *to, GLOBAL const u32 *row, u32 k, LOCAL_POINTER const u32 *y, u32 zeta)
{
    u32 item = ITEM_IN_GROUP;
    u32 even[2] = {0, 0}, both[2] = {0, 0}, odd[2] = {0, 0};
    ROLLED
    for (u32 column = 0; column < k; column++) {
        UNROLL
        for (int pair = 0; pair < 2; pair++) {
            u32 word = row[KEM_POLY_WORDS * column + 2 * item + pair];
            u32 a = word & 0xffff, b = word >> 16;
            u32 c = y[256 * column + 4 * item + 2 * pair], d = y[256 * column + 4 * item + 2 * pair + 1];
            even[pair] += a * c;
            odd[pair] += b * d;
            both[pair] += a * d + b * c;
        }
    }
    UNROLL
    for (int pair = 0; pair < 2; pair++) {
        u32 turned = pair == 0 ? zeta : ML_KEM_Q - zeta;
        to[4 * item + 2 * pair] = kem_reduce(even[pair] + turned * kem_reduce(odd[pair]));
        to[4 * item + 2 * pair + 1] = kem_reduce(both[pair]);
    }
}

/* A coefficient of noise of a stream: the difference of two sums of eta bits (FIPS 203, algorithm 8). */
DEVICE u32 kem_noise(LOCAL_POINTER const u32 *stream, u32 eta, u32 coefficient)
{
    u32 at = 2 * eta * coefficient, shift = at & 31;
    LOCAL_POINTER const u32 *words = stream + (at >> 5);
    u32 bits = words[0] >> shift | words[1] << (31 - shift) << 1;
    u32 third = eta == 3 ? 1 : 0;
    u32 first = (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & third);
    bits >>= eta;
    u32 second = (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & third);
    return kem_once(first + ML_KEM_Q - second);
}

/* Word number `at` of a polynomial whose coefficients are compressed to as many bits (FIPS 203, algorithm 5). */
DEVICE u32 kem_packed(LOCAL_POINTER const u32 *poly, u32 bits, u32 at)
{
    u32 first = 32 * at / bits, count = bits < 8 ? 8 : 5;
    u64 packed = 0;
    ROLLED
    for (u32 number = 0; number < count; number++) {
        if (first + number < 256) {
            packed |= (u64)kem_compress(poly[first + number], bits) << (number * bits);
        }
    }
    return (u32)(packed >> (32 * at - first * bits));
}

/* Reads compressed coefficients. */
DEVICE u32 kem_unpacked(GLOBAL const u32 *packed, u32 bits, u32 coefficient)
{
    u32 at = bits * coefficient, shift = at & 31, word = at >> 5;
    u32 number = packed[word] >> shift;
    if (shift + bits > 32) {
        number |= packed[word + 1] << (32 - shift);
    }
    return kem_decompress(number & ((1u << bits) - 1), bits);
}

/* SHA3-512 of the message and the key's hash (FIPS 203, 4.1, G): the shared secret and the coins. */
DEVICE void kem_coins(LOCAL_POINTER KemSpace *space, GLOBAL const u32 *key_hash)
{
    u64 state[25];
    keccak_clear(state);
    UNROLL
    for (int lane = 0; lane < 4; lane++) {
        state[lane] = local_lane(space->message, lane);
        state[lane + 4] = global_lane(key_hash, lane);
    }
    state[SHA3_512_RATE - 1] = SHA3_SUFFIX | KECCAK_LAST;
    keccak_permute(state);
    keccak_squeeze(space->secret, state, 8);
}

/* SHAKE256 of z and the ciphertext (FIPS 203, 4.1, J): what an unfit ciphertext yields. */
DEVICE void kem_rejection(LOCAL_POINTER KemSpace *space, GLOBAL const u32 *z, GLOBAL const u32 *ciphertext, u32 lanes)
{
    u64 state[25];
    keccak_clear(state);
    u32 end = 4 + lanes;
    ROLLED
    for (u32 from = 0; from <= end; from += SHAKE256_RATE) {
        UNROLL
        for (u32 lane = 0; lane < SHAKE256_RATE; lane++) {
            u32 at = from + lane;
            if (at < 4) {
                state[lane] ^= global_lane(z, at);
            } else if (at < end) {
                state[lane] ^= global_lane(ciphertext, at - 4);
            } else if (at == end) {
                state[lane] ^= SHAKE_SUFFIX;
            }
        }
        if (from + SHAKE256_RATE > end) {
            state[SHAKE256_RATE - 1] ^= KECCAK_LAST;
        }
        keccak_permute(state);
    }
    keccak_squeeze(space->rejected, state, 4);
}

/* SHAKE256 of the coins and the stream's number (FIPS 203, 4.1, PRF): 128 bytes, for the larger noise 192. */
DEVICE void kem_noise_stream(LOCAL_POINTER KemSpace *space, u32 number, u32 eta1)
{
    u64 state[25];
    keccak_clear(state);
    UNROLL
    for (int lane = 0; lane < 4; lane++) {
        state[lane] = local_lane(space->secret + 8, lane);
    }
    state[4] = number | SHAKE_SUFFIX << 8;
    state[SHAKE256_RATE - 1] = KECCAK_LAST;
    LOCAL_POINTER u32 *to = space->noise + KEM_NOISE_WORDS * number;
    ROLLED
    for (u32 from = 0; from < 8 * eta1; from += SHAKE256_RATE) {
        keccak_permute(state);
        keccak_squeeze(to + 2 * from, state, (int)(KEM_NOISE_WORDS / 2 - from));
    }
}

/* K-PKE.Encrypt (FIPS 203, algorithm 14) of the message under the coins, both in the group's memory, up to the
 * compression: u and v are left in `w`. */
DEVICE void kem_encrypt(LOCAL_POINTER KemSpace *space, GLOBAL const u32 *key, KemSet set)
{
    u32 item = ITEM_IN_GROUP, k = set.k;
    if (item < 2 * k + 1) {
        kem_noise_stream(space, item, set.eta1);
    }
    BARRIER;
    ROLLED
    for (u32 at = item; at < 256 * k; at += 64) {
        space->y[at] = kem_noise(space->noise + KEM_NOISE_WORDS * (at >> 8), set.eta1, at & 255);
    }
    kem_transform(space->y, k, space->zetas);
    u32 zeta = space->zetas[64 + item];
    /* The rows of the transposed matrix, and t behind them. */
    ROLLED
    for (u32 row = 0; row <= k; row++) {
        kem_row(space->w + 256 * row, key + KEM_POLY_WORDS * k * row, k, space->y, zeta);
    }
    kem_transform_back(space->w, k + 1, space->zetas);
    ROLLED
    for (u32 at = item; at < 256 * (k + 1); at += 64) {
        u32 number = at & 255;
        u32 noise = kem_noise(space->noise + KEM_NOISE_WORDS * (k + (at >> 8)), 2, number);
        u32 bit = space->message[number >> 5] >> (number & 31) & (at >> 8 == k ? 1 : 0);
        u32 sum = kem_once(space->w[at] + noise);
        space->w[at] = kem_once(sum + ((ML_KEM_Q + 1) / 2 & (0u - bit)));
    }
    BARRIER;
}

/* K-PKE.Decrypt (FIPS 203, algorithm 15): the message is left in the group's memory. */
DEVICE void kem_decrypt(LOCAL_POINTER KemSpace *space, GLOBAL const u32 *s, GLOBAL const u32 *ciphertext, KemSet set)
{
    u32 item = ITEM_IN_GROUP, k = set.k;
    ROLLED
    for (u32 at = item; at < 256 * k; at += 64) {
        space->y[at] = kem_unpacked(ciphertext, set.du, at);
    }
    kem_transform(space->y, k, space->zetas);
    kem_row(space->w, s, k, space->y, space->zetas[64 + item]);
    kem_transform_back(space->w, 1, space->zetas);
    u32 bits = 0;
    UNROLL
    for (u32 own = 0; own < 4; own++) {
        u32 number = 4 * item + own;
        u32 v = kem_unpacked(ciphertext + 8 * set.du * k, set.dv, number);
        bits |= kem_compress(kem_sub(v, space->w[number]), 1) << own;
    }
    space->parts[item] = bits;
    BARRIER;
    if (item < 8) {
        u32 word = 0;
        UNROLL
        for (u32 part = 0; part < 8; part++) {
            word |= space->parts[8 * item + part] << (4 * part);
        }
        space->message[item] = word;
    }
    BARRIER;
}

/* Word number `at` of the ciphertext that `w` is compressed to. */
DEVICE u32 kem_ciphertext_word(LOCAL_POINTER const KemSpace *space, KemSet set, u32 at)
{
    u32 first = 8 * set.du * set.k;
    u32 bits = at < first ? set.du : set.dv;
    u32 poly = at < first ? at / (8 * set.du) : set.k;
    u32 word = at < first ? at % (8 * set.du) : at - first;
    return kem_packed(space->w + 256 * poly, bits, word);
}

/* The powers go where items may read each another one. */
DEVICE void kem_enter(LOCAL_POINTER KemSpace *space)
{
    space->zetas[ITEM_IN_GROUP] = ml_kem_zetas[ITEM_IN_GROUP];
    space->zetas[64 + ITEM_IN_GROUP] = ml_kem_zetas[64 + ITEM_IN_GROUP];
}

/* What a group leaves in local memory the next one on the same processor could read. */
DEVICE void kem_leave(LOCAL_POINTER KemSpace *space)
{
    BARRIER;
    LOCAL_POINTER volatile u32 *words = (LOCAL_POINTER volatile u32 *)space;
    ROLLED
    for (u32 at = ITEM_IN_GROUP; at < sizeof(KemSpace) / 4; at += 64) {
        words[at] = 0;
    }
}

/* ML-KEM.Encaps_internal (FIPS 203, algorithm 17): the random message becomes the secret and, behind it, the
 * ciphertext. */
DEVICE void kem_encapsulate(LOCAL_POINTER KemSpace *space, GLOBAL const u32 *key, GLOBAL const u32 *message,
                            GLOBAL u32 *output)
{
    u32 item = ITEM_IN_GROUP, k = key[0];
    KemSet set = kem_set(k);
    key += KEM_KEY_HEAD;
    kem_enter(space);
    if (item < 8) {
        space->message[item] = message[item];
    }
    BARRIER;
    if (item == 0) {
        kem_coins(space, key + KEM_POLY_WORDS * k * (k + 1));
    }
    BARRIER;
    kem_encrypt(space, key, set);
    u32 words = 8 * (set.du * k + set.dv);
    ROLLED
    for (u32 at = item; at < words; at += 64) {
        output[8 + at] = kem_ciphertext_word(space, set, at);
    }
    if (item < 8) {
        output[item] = space->secret[item];
    }
    kem_leave(space);
}

/* ML-KEM.Decaps_internal (FIPS 203, algorithm 18). Whether the ciphertext is fit decides no branch and no address. */
DEVICE void kem_decapsulate(LOCAL_POINTER KemSpace *space, GLOBAL const u32 *key, GLOBAL const u32 *ciphertext,
                            GLOBAL u32 *output)
{
    u32 item = ITEM_IN_GROUP, k = key[0];
    KemSet set = kem_set(k);
    key += KEM_KEY_HEAD;
    GLOBAL const u32 *hash = key + KEM_POLY_WORDS * k * (k + 1);
    GLOBAL const u32 *s = hash + 8;
    u32 words = 8 * (set.du * k + set.dv);
    kem_enter(space);
    BARRIER;
    kem_decrypt(space, s, ciphertext, set);
    /* Items of different warps, so that one hash does not wait for the other. */
    if (item == 0) {
        kem_coins(space, hash);
    }
    if (item == 32) {
        kem_rejection(space, s + KEM_POLY_WORDS * k, ciphertext, words / 2);
    }
    BARRIER;
    kem_encrypt(space, key, set);
    u32 differs = 0;
    ROLLED
    for (u32 at = item; at < words; at += 64) {
        differs |= kem_ciphertext_word(space, set, at) ^ ciphertext[at];
    }
    space->parts[item] = differs;
    BARRIER;
    if (item < 8) {
        differs = 0;
        ROLLED
        for (u32 part = 0; part < 64; part++) {
            differs |= space->parts[part];
        }
        /* All ones if any bit is set. */
        u32 unfit = 0u - ((differs | (0u - differs)) >> 31);
        output[item] = (space->secret[item] & ~unfit) | (space->rejected[item] & unfit);
    }
    kem_leave(space);
}

/* An operation a group: what it is given and what it gives lie in the same place. */
KERNEL encapsulate(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    LOCAL KemSpace space;
    GLOBAL u32 *own = buffer + message_of(buffer, GROUP).at;
    kem_encapsulate(&space, key_of(buffer, keys, GROUP), own, own);
}

KERNEL decapsulate(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    LOCAL KemSpace space;
    GLOBAL u32 *own = buffer + message_of(buffer, GROUP).at;
    kem_decapsulate(&space, key_of(buffer, keys, GROUP), own, own);
}
