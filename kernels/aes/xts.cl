/*
 * AES-XTS (IEEE 1619-2018, NIST SP 800-38E), two data units a work item, or two parts of long ones.
 *
 * A prepared key is the data's key, then the tweak's. Behind an IV, the unit's number, lies the part's first block within
 * its unit: the tweak of block j is the first one times alpha to the power of j. Only a unit's last part may end in a
 * rest of a block, and has a whole block before it.
 */

/* A tweak times alpha (IEEE 1619, 5.2): a shift of the little-endian number, reduced without a branch. */
DEVICE void xts_double(u32 *tweak)
{
    u32 over = 0u - (tweak[3] >> 31);
    tweak[3] = (tweak[3] << 1) | (tweak[2] >> 31);
    tweak[2] = (tweak[2] << 1) | (tweak[1] >> 31);
    tweak[1] = (tweak[1] << 1) | (tweak[0] >> 31);
    tweak[0] = (tweak[0] << 1) ^ (over & 0x87u);
}

/* Alpha to a power below 2^20. How far a part is into its unit is no secret; what follows from it alone is none either. */
DEVICE void xts_power(u32 *power, u32 exponent)
{
    power[0] = 1;
    power[1] = power[2] = power[3] = 0;
    ROLLED
    for (u32 at = 0; at < 20; at++) {
        u32 square[8];
        UNROLL
        for (int i = 0; i < 4; i++) {
            square[2 * i] = field_spread(power[i] & 0xffffu);
            square[2 * i + 1] = field_spread(power[i] >> 16);
        }
        /* What is above comes back times 0x87; the highest word, whose upper bits come back twice, goes first. */
        UNROLL
        for (int i = 3; i >= 0; i--) {
            u32 above = square[4 + i];
            square[i] ^= above ^ (above << 1) ^ (above << 2) ^ (above << 7);
            square[i + 1] ^= (above >> 31) ^ (above >> 30) ^ (above >> 25);
        }
        UNROLL
        for (int i = 0; i < 4; i++) {
            power[i] = square[i];
        }
        if ((exponent >> (19 - at)) & 1) {
            xts_double(power);
        }
    }
}

/* The tweak times a power that is no secret: for each of its bits from the highest the sum is doubled. */
DEVICE void xts_multiply(u32 *tweak, const u32 *power)
{
    u32 sum[4];
    UNROLL
    for (int i = 0; i < 4; i++) {
        sum[i] = 0;
    }
    UNROLL
    for (int word = 3; word >= 0; word--) {
        u32 bits = power[word];
        ROLLED
        for (u32 bit = 0; bit < 32; bit++) {
            u32 taken = 0u - (bits >> 31);
            bits <<= 1;
            xts_double(sum);
            UNROLL
            for (int i = 0; i < 4; i++) {
                sum[i] ^= tweak[i] & taken;
            }
        }
    }
    UNROLL
    for (int i = 0; i < 4; i++) {
        tweak[i] = sum[i];
    }
}

/* Both messages' first tweaks, message 0's in the first four words. */
DEVICE void xts_first_tweaks(u32 *tweaks, const Pair *pair, u32 rounds)
{
    u32 x[8];
    u32 to_tweak_key = 8 * (rounds + 1);
    load_ivs(x, pair);
    aes_encrypt(x, pair->key[0] + to_tweak_key, pair->key[1] + to_tweak_key, rounds);
    UNROLL
    for (int m = 0; m < 2; m++) {
        UNROLL
        for (int c = 0; c < 4; c++) {
            tweaks[4 * m + c] = x[2 * c + m];
        }
        u32 first_block = pair->iv[m][4];
        if (first_block != 0) {
            u32 power[4];
            xts_power(power, first_block);
            xts_multiply(tweaks + 4 * m, power);
        }
    }
}

/*
 * One message's next block and the tweak for it. The last turn of a unit with a rest goes to its last whole block again
 * (IEEE 1619, 5.3.2): its first bytes, a rest's worth, go to the rest's place, and the rest comes to theirs. Deciphering,
 * the two last tweaks change places (5.4.2).
 */
DEVICE void xts_take(u32 *x, u32 *used, u32 *tweak, const Pair *pair, int m, u32 turn, bool decrypts)
{
    u32 rest = pair->len[m] & 15;
    bool steals = rest != 0 && turn + 1 == pair->blocks[m];
    bool early = decrypts && rest != 0 && turn + 2 == pair->blocks[m];
    GLOBAL u32 *own = pair->data[m] + 4 * turn;
    u32 next[4];
    UNROLL
    for (int c = 0; c < 4; c++) {
        x[2 * c + m] = turn < pair->blocks[m] ? own[c] : 0u;
        next[c] = tweak[c];
    }
    if (steals) {
        UNROLL
        for (int c = 0; c < 4; c++) {
            u32 before = own[c - 4];
            u32 stolen = bytes_below(before, 4 * c, rest);
            x[2 * c + m] = x[2 * c + m] | (before ^ stolen);
            own[c] = stolen;
        }
    }
    xts_double(next);
    UNROLL
    for (int c = 0; c < 4; c++) {
        used[2 * c + m] = early ? next[c] : tweak[c];
        tweak[c] = early ? tweak[c] : next[c];
        x[2 * c + m] ^= used[2 * c + m];
    }
}

/* Puts a message's block back to where it came from, or before it after stealing. */
DEVICE void xts_put(const u32 *x, const u32 *used, const Pair *pair, int m, u32 turn)
{
    if (turn < pair->blocks[m]) {
        bool steals = (pair->len[m] & 15) != 0 && turn + 1 == pair->blocks[m];
        GLOBAL u32 *own = pair->data[m] + 4 * (steals ? turn - 1 : turn);
        UNROLL
        for (int c = 0; c < 4; c++) {
            own[c] = x[2 * c + m] ^ used[2 * c + m];
        }
    }
}

DEVICE void xts_run(GLOBAL u32 *buffer, GLOBAL const u32 *keys, bool decrypts)
{
    if (2 * ITEM >= buffer[HEAD_COUNT]) {
        return;
    }
    Pair pair = pair_of(buffer, keys);
    u32 rounds = buffer[HEAD_ROUNDS];
    u32 tweaks[8];
    xts_first_tweaks(tweaks, &pair, rounds);
    ROLLED
    for (u32 turn = 0; turn < pair.blocks_max; turn++) {
        u32 x[8], used[8];
        xts_take(x, used, tweaks, &pair, 0, turn, decrypts);
        xts_take(x, used, tweaks + 4, &pair, 1, turn, decrypts);
        if (decrypts) {
            aes_decrypt(x, pair.key[0], pair.key[1], rounds);
        } else {
            aes_encrypt(x, pair.key[0], pair.key[1], rounds);
        }
        xts_put(x, used, &pair, 0, turn);
        xts_put(x, used, &pair, 1, turn);
    }
}

KERNEL xts_encrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    xts_run(buffer, keys, false);
}

KERNEL xts_decrypt(GLOBAL u32 *buffer, GLOBAL const u32 *keys)
{
    xts_run(buffer, keys, true);
}
