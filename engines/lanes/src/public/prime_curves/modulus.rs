//! Moduli: the primes of the fields and the orders of the groups, in limbs of 52 bits, and what Montgomery's reduction
//! needs of each. All of it is computed when the crate is built.

use super::super::isa::{LIMB_BITS, LIMB_MAX, Vectors};

/// The most limbs of a number: 521 bits.
pub(super) const LIMBS_MAX: usize = 11;

/// The most bytes of a coordinate or scalar.
pub(super) const LEN_MAX: usize = 66;

/// A modulus `m` of `L` limbs; `R` is `2^(52 L)`.
pub(super) trait Modulus<const L: usize>: 'static {
    /// Its limbs, the least significant first.
    const LIMBS: [u64; L];
    /// `-1 / m` modulo `2^52`.
    const INVERSE: u64 = inverse(Self::LIMBS[0]);
    /// What a reduction adds multiples of: `m`, but `m + 1` where `INVERSE` is one. The multiple is then the limb itself,
    /// and taking it away once clears it, so that the zero limbs of `m + 1` cost nothing.
    const ADDED: [u64; L] = if Self::INVERSE == 1 { incremented(Self::LIMBS) } else { Self::LIMBS };
    /// `R` modulo `m`: one, in Montgomery's form.
    const ONE: [u64; L] = shifted(unit(), LIMB_BITS * L as u32, Self::LIMBS);
    /// `R²` modulo `m`, which a number is multiplied by to get its Montgomery form.
    const RADIX_SQUARED: [u64; L] = shifted(unit(), 2 * LIMB_BITS * L as u32, Self::LIMBS);
    /// `m - 2`, the exponent of Fermat's inversion.
    const EXPONENT: [u64; L] = less_two(Self::LIMBS);
}

/// The prime of a field.
pub(super) trait FieldPrime<const L: usize>: Modulus<L> {
    /// Brings a sum of a few numbers and negatives of numbers to a number that is not negative and below `4.1 p`, for P-256 and P-384
    /// below `2.01 p`, by taking a multiple `q p` away. Limbs are signed, below `2^54`, and remain to be carried.
    ///
    /// What `q` is read from is the last limb, before others are carried into it: one less than the bits from that of
    /// the prime on. The others carry less than `2^3`, of 48 bits that remain below `q` for P-256, and 20 for P-384, so that
    /// what is left lies between nearly once and little more than twice the prime. P-521 has one bit below, and takes two off.
    /// secp160r1 has four, so that half the prime may be carried: what is left is below `2.6 p`.
    fn settle<I: Vectors>(isa: I, sum: [I::V; L]) -> [I::V; L];
}

/// The prime of secp160r1: `2^160 - 2^31 - 1`.
pub(super) struct P160Prime;

/// The order of secp160r1, of 161 bits.
pub(super) struct P160Order;

/// The prime of P-256: `2^256 - 2^224 + 2^192 + 2^96 - 1`.
pub(super) struct P256Prime;

/// The order of P-256.
pub(super) struct P256Order;

/// The prime of P-384: `2^384 - 2^128 - 2^96 + 2^32 - 1`.
pub(super) struct P384Prime;

/// The order of P-384.
pub(super) struct P384Order;

/// The prime of P-521: `2^521 - 1`.
pub(super) struct P521Prime;

/// The order of P-521.
pub(super) struct P521Order;

impl Modulus<4> for P160Prime {
    const LIMBS: [u64; 4] = limbs("ffffffffffffffffffffffffffffffff7fffffff");
}

impl FieldPrime<4> for P160Prime {
    #[inline(always)]
    fn settle<I: Vectors>(isa: I, sum: [I::V; 4]) -> [I::V; 4] {
        let q = isa.sub(isa.sar::<4>(sum[3]), isa.splat(1));
        [isa.add(isa.add(sum[0], q), isa.shl::<31>(q)), sum[1], sum[2], isa.sub(sum[3], isa.shl::<4>(q))]
    }
}

impl Modulus<4> for P160Order {
    const LIMBS: [u64; 4] = limbs("0100000000000000000001f4c8f927aed3ca752257");
}

impl Modulus<5> for P256Prime {
    const LIMBS: [u64; 5] = limbs("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff");
}

impl FieldPrime<5> for P256Prime {
    #[inline(always)]
    fn settle<I: Vectors>(isa: I, sum: [I::V; 5]) -> [I::V; 5] {
        let q = isa.sub(isa.sar::<48>(sum[4]), isa.splat(1));
        [
            isa.add(sum[0], q),
            isa.sub(sum[1], isa.shl::<44>(q)),
            sum[2],
            isa.sub(sum[3], isa.shl::<36>(q)),
            isa.add(isa.sub(sum[4], isa.shl::<48>(q)), isa.shl::<16>(q)),
        ]
    }
}

impl Modulus<5> for P256Order {
    const LIMBS: [u64; 5] = limbs("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
}

impl Modulus<8> for P384Prime {
    const LIMBS: [u64; 8] = limbs(concat!(
        "fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe",
        "ffffffff0000000000000000ffffffff"
    ));
}

impl FieldPrime<8> for P384Prime {
    #[inline(always)]
    fn settle<I: Vectors>(isa: I, mut sum: [I::V; 8]) -> [I::V; 8] {
        let q = isa.sub(isa.sar::<20>(sum[7]), isa.splat(1));
        sum[0] = isa.sub(isa.add(sum[0], q), isa.shl::<32>(q));
        sum[1] = isa.add(sum[1], isa.shl::<44>(q));
        sum[2] = isa.add(sum[2], isa.shl::<24>(q));
        sum[7] = isa.sub(sum[7], isa.shl::<20>(q));
        sum
    }
}

impl Modulus<8> for P384Order {
    const LIMBS: [u64; 8] = limbs(concat!(
        "ffffffffffffffffffffffffffffffffffffffffffffffffc7634d81f4372ddf",
        "581a0db248b0a77aecec196accc52973"
    ));
}

impl Modulus<11> for P521Prime {
    const LIMBS: [u64; 11] = limbs(concat!(
        "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
        "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    ));
}

impl FieldPrime<11> for P521Prime {
    #[inline(always)]
    fn settle<I: Vectors>(isa: I, mut sum: [I::V; 11]) -> [I::V; 11] {
        let q = isa.sub(isa.sar::<1>(sum[10]), isa.splat(2));
        sum[0] = isa.add(sum[0], q);
        sum[10] = isa.sub(sum[10], isa.shl::<1>(q));
        sum
    }
}

impl Modulus<11> for P521Order {
    const LIMBS: [u64; 11] = limbs(concat!(
        "01fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffa",
        "51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409"
    ));
}

/// The limbs of a number in hexadecimal.
pub(super) const fn limbs<const L: usize>(hex: &str) -> [u64; L] {
    let digits = hex.as_bytes();
    let mut limbs = [0; L];
    let mut at = 0;
    while at < digits.len() {
        let digit = digits[digits.len() - 1 - at];
        let value = if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 };
        // 13 digits are a limb.
        limbs[at / 13] |= (value as u64) << (4 * (at % 13));
        at += 1;
    }
    limbs
}

/// `-1 / m` modulo `2^52`, for the low limb of an odd `m`, by Newton's iteration.
const fn inverse(m: u64) -> u64 {
    let mut inverse = 1u64;
    let mut round = 0;
    while round < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(m.wrapping_mul(inverse)));
        round += 1;
    }
    inverse.wrapping_neg() & LIMB_MAX
}

/// One.
pub(super) const fn unit<const L: usize>() -> [u64; L] {
    let mut one = [0; L];
    one[0] = 1;
    one
}

const fn incremented<const L: usize>(mut m: [u64; L]) -> [u64; L] {
    let mut i = 0;
    while m[i] == LIMB_MAX {
        m[i] = 0;
        i += 1;
    }
    m[i] += 1;
    m
}

/// Odd moduli alone: nothing is borrowed where the low limb is above one.
const fn less_two<const L: usize>(mut m: [u64; L]) -> [u64; L] {
    assert!(m[0] > 2);
    m[0] -= 2;
    m
}

/// Twice a number; the last limb keeps what is above its 52 bits.
const fn doubled<const L: usize>(mut number: [u64; L]) -> [u64; L] {
    let mut carry = 0;
    let mut i = 0;
    while i < L {
        let sum = 2 * number[i] + carry;
        carry = if i < L - 1 { sum >> LIMB_BITS } else { 0 };
        number[i] = sum - (carry << LIMB_BITS);
        i += 1;
    }
    number
}

/// `a - b`, and whether that is not negative, without a branch.
const fn difference<const L: usize>(mut a: [u64; L], b: [u64; L]) -> ([u64; L], bool) {
    let mut borrow = 0;
    let mut i = 0;
    while i < L {
        let limb = a[i].wrapping_sub(b[i] + borrow);
        borrow = limb >> 63;
        a[i] = limb.wrapping_add(borrow << LIMB_BITS);
        i += 1;
    }
    (a, borrow == 0)
}

/// `number 2^bits` modulo `m`.
pub(super) const fn shifted<const L: usize>(number: [u64; L], bits: u32, m: [u64; L]) -> [u64; L] {
    let mut out = number;
    let mut round = 0;
    while round < bits {
        out = doubled(out);
        let (less, is_good) = difference(out, m);
        if is_good {
            out = less;
        }
        round += 1;
    }
    out
}

/// Whether `a` is below `m`.
pub(super) fn is_below<const L: usize>(a: &[u64; L], m: &[u64; L]) -> bool {
    !difference(*a, *m).1
}

/// Whether `a` is from one to `m` less one.
pub(super) fn is_within<const L: usize>(a: &[u64; L], m: &[u64; L]) -> bool {
    // Both are looked at, so that the time tells the answer and nothing more.
    is_below(a, m) & (a.iter().fold(0, |any, limb| any | limb) != 0)
}

/// A number below twice `m`, modulo it. For public numbers.
pub(super) fn reduced<const L: usize>(a: &[u64; L], m: &[u64; L]) -> [u64; L] {
    let (less, is_good) = difference(*a, *m);
    if is_good { less } else { *a }
}

/// The limbs of a number in bytes, the most significant first.
pub(super) fn from_bytes<const L: usize>(bytes: &[u8]) -> [u64; L] {
    let mut limbs = [0; L];
    for (index, byte) in bytes.iter().rev().enumerate() {
        let (limb, bit) = (8 * index / LIMB_BITS as usize, 8 * index as u32 % LIMB_BITS);
        limbs[limb] |= u64::from(*byte) << bit & LIMB_MAX;
        if bit > LIMB_BITS - 8 && limb + 1 < L {
            limbs[limb + 1] |= u64::from(*byte) >> (LIMB_BITS - bit);
        }
    }
    limbs
}

/// A number in bytes, the most significant first.
pub(super) fn to_bytes<const L: usize>(limbs: &[u64; L], bytes: &mut [u8]) {
    for (index, byte) in bytes.iter_mut().rev().enumerate() {
        let (limb, bit) = (8 * index / LIMB_BITS as usize, 8 * index as u32 % LIMB_BITS);
        let above = if limb + 1 < L { limbs[limb + 1] } else { 0 };
        *byte = (u128::from(limbs[limb]) | u128::from(above) << LIMB_BITS).wrapping_shr(bit) as u8;
    }
}
