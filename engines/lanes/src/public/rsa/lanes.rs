//! RSA's arithmetic, a key and a number a lane.
//!
//! *The floor.* With windows of four bits and masks of 32, a private operation of 2,048 bits takes 1,052 squares and 280 products modulo each
//! prime (`n = 20` limbs), of 980 and 1,250 multiply-adds. 2 · (1,052 · 980 + 280 · 1,250) = 2.8 M for eight operations, and 0.1 M for the check with
//! the public exponent. At two of them a cycle and 4.2 GHz that is 23,500 operations a second and core, half as many where a
//! cycle has one. 16,400 to 17,200 were measured on Zen 5.
//!
//! *Bounds.* `2^(52 n)` is at least `2^8` times a prime and `2^12` times a modulus, so that sums of a few residues are factors without
//! being reduced (see [`montgomery`](super::super::montgomery)).

use super::super::fault::spoil;
use super::super::isa::{Vectors, public_kernels};
use super::super::long::{OddModuli, carry};
use super::super::montgomery;
use super::super::powers::{Digits, Powers, power, public_power};
use super::super::room::{Open, Place, Room};
use super::key::{MASK_BITS, Private, RsaKey};
use crate::declassify::declassify;
use ciphermill_pairs::padding::Block;
use zeroize::Zeroizing;

/// A key, and a number below its modulus, big-endian.
pub(super) struct Job<'k> {
    pub(super) key: &'k RsaKey,
    pub(super) number: &'k [u8],
}

/// A private operation: its key, its private half, its number and a random mask for each of the exponents.
pub(super) struct PrivateJob<'k> {
    pub(super) job: Job<'k>,
    pub(super) private: &'k Private,
    pub(super) masks: [u32; 2],
}

public_kernels! {
    /// Raises numbers to their keys' public exponents: at least one job and at most as many as there are lanes, of one size.
    pub(super) fn raise_public(room: &mut Room, jobs: &[Job<'_>]) -> Vec<Block> = public
}

public_kernels! {
    /// Raises numbers to their keys' private exponents, as many as [`raise_public`]. `None` for a result that the public exponent
    /// does not take back to the number: one of its halves has a fault, which would give the primes away (Boneh, DeMillo
    /// and Lipton 1997).
    pub(super) fn raise_private(room: &mut Room, jobs: &[PrivateJob<'_>]) -> Vec<Option<Block>> = private
}

/// Loads the number of each lane's job.
fn load<'j, I: Vectors>(open: &mut Open<'_, I>, limbs: usize, job: impl Fn(usize) -> &'j Job<'j>) -> Place<I> {
    let numbers = open.number(limbs);
    (0..I::LANES).for_each(|lane| numbers.set_be(lane, job(lane).number));
    numbers
}

#[inline(always)]
fn public<I: Vectors>(isa: I, room: &mut Room, jobs: &[Job<'_>]) -> Vec<Block> {
    let Some(first) = jobs.first() else { return Vec::new() };
    let limbs = first.key.field.limbs.len();
    let job = |lane: usize| jobs.get(lane).unwrap_or(first);
    let mut open = room.open::<I>((OddModuli::<I>::NUMBERS + 4) * limbs);
    let fields = OddModuli::load(isa, &mut open, limbs, |lane| &job(lane).key.field);
    let numbers = load(&mut open, limbs, job);
    let [base, raised, factor] = core::array::from_fn(|_| open.number(limbs));
    fields.enter(isa, base, numbers);
    public_power(isa, raised, base, |lane| job(lane).key.exponent, factor, &fields);
    fields.leave(isa, raised, raised);
    jobs.iter().enumerate().map(|(lane, job)| raised.be(lane, job.number.len())).collect()
}

#[inline(always)]
fn private<I: Vectors>(isa: I, room: &mut Room, jobs: &[PrivateJob<'_>]) -> Vec<Option<Block>> {
    let Some(first) = jobs.first() else { return Vec::new() };
    let limbs = first.job.key.field.limbs.len();
    let half = limbs / 2;
    let job = |lane: usize| jobs.get(lane).unwrap_or(first);
    let prime = |lane: usize, which: usize| &job(lane).private.primes[which];
    let exponent_bits = 64 * (first.private.primes[0].masked_len() as u32 - 1) + MASK_BITS;

    let short = OddModuli::<I>::NUMBERS + Powers::<I>::NUMBERS + 4;
    let long = OddModuli::<I>::NUMBERS + 5;
    let mut open = room.open::<I>(short * half + Digits::<I>::count(exponent_bits) + long * limbs);
    let numbers = load(&mut open, limbs, |lane| &job(lane).job);
    let mut fields = OddModuli::load(isa, &mut open, half, |lane| &prime(lane, 1).field);
    let digits = Digits::open(&mut open, exponent_bits);
    let powers = Powers::open(&mut open, half);
    let [of_p, of_q, factor, base] = core::array::from_fn(|_| open.number(half));
    // `q` first, so that the fields of `p` are those that put the halves together.
    for (which, out) in [(1, of_q), (0, of_p)] {
        fields.reload(isa, |lane| &prime(lane, which).field);
        for lane in 0..I::LANES {
            digits.set(lane, &prime(lane, which).masked(job(lane).masks[which]));
            factor.set_number(lane, &prime(lane, which).cube);
        }
        // The number is `low + high · 2^(52 half)`: both enter Montgomery's form, the latter by the cube of the radix.
        montgomery::product(isa, base, numbers.part(half, half), factor, &fields.modulus);
        fields.enter(isa, out, numbers.part(0, half));
        for index in 0..half {
            base.set(isa, index, isa.add(base.get(isa, index), out.get(isa, index)));
        }
        carry(isa, base);
        power(isa, out, base, digits, powers, &fields);
        if which == 1 {
            fields.leave(isa, out, out);
        }
        spoil(out);
    }
    // Garner's way (RFC 8017, 5.1.2, 2.b): `h = (s_p - s_q) / q mod p`.
    let modulus = fields.modulus.limbs();
    fields.enter(isa, base, of_q);
    for index in 0..half {
        // Both are below three times the prime.
        let once = modulus.get(isa, index);
        let thrice = isa.add(isa.shl::<1>(once), once);
        let difference = isa.sub(of_p.get(isa, index), base.get(isa, index));
        base.set(isa, index, isa.add(difference, thrice));
    }
    carry(isa, base);
    (0..I::LANES).for_each(|lane| factor.set_number(lane, &job(lane).private.q_inverse));
    montgomery::product(isa, base, base, factor, &fields.modulus);
    fields.reduce(isa, base, 2);
    spoil(base);
    finish(isa, &mut open, jobs, numbers, (of_q, base))
}

/// Puts the halves together, `s_q + q h`, and gives the results that the public exponent takes back to the numbers.
#[inline(always)]
fn finish<I: Vectors>(
    isa: I,
    open: &mut Open<'_, I>,
    jobs: &[PrivateJob<'_>],
    numbers: Place<I>,
    (of_q, quotient): (Place<I>, Place<I>),
) -> Vec<Option<Block>> {
    let Some(first) = jobs.first() else { return Vec::new() };
    let job = |lane: usize| jobs.get(lane).unwrap_or(first);
    let (limbs, half) = (numbers.limbs(), of_q.limbs());
    let fields = OddModuli::load(isa, open, limbs, |lane| &job(lane).job.key.field);
    let [root, base, raised, factor] = core::array::from_fn(|_| open.number(limbs));
    base.part(0, half).copy_from(isa, quotient);
    (0..I::LANES).for_each(|lane| factor.set_number(lane, &job(lane).private.q_entered));
    montgomery::product(isa, root, base, factor, &fields.modulus);
    // Below `3 n`, and with `s_q` below `4 n`.
    for index in 0..half {
        root.set(isa, index, isa.add(root.get(isa, index), of_q.get(isa, index)));
    }
    carry(isa, root);
    fields.reduce(isa, root, 3);
    spoil(root);
    fields.enter(isa, base, root);
    public_power(isa, raised, base, |lane| job(lane).job.key.exponent, factor, &fields);
    fields.leave(isa, raised, raised);
    let mut differ = isa.splat(0);
    for index in 0..limbs {
        let (own, wanted) = (raised.get(isa, index), numbers.get(isa, index));
        differ = isa.or(differ, isa.or(isa.sub(own, wanted), isa.sub(wanted, own)));
    }
    let good = declassify(isa.bits(isa.equal(differ, isa.splat(0))));
    let block = |(lane, job): (usize, &PrivateJob<'_>)| {
        (good >> lane & 1 == 1).then(|| Zeroizing::new(root.be(lane, job.job.number.len()).to_vec()))
    };
    jobs.iter().enumerate().map(block).collect()
}
