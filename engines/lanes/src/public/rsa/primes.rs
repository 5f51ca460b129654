//! Primes for keys (FIPS 186-5, A.1.3): random candidates that are tested side by side, a candidate a lane, for all keys of a batch.
//!
//! A candidate is an odd random number with its two highest bits set, so that the product of two has all bits of the modulus (A.1.3, 4.3).
//! What a small prime divides goes first ([`Sieve`]); the rest is tested by Miller and Rabin's test with random bases (B.3.1). A
//! lane whose candidate has failed takes the next one at once, and one whose candidate has passed goes on with another base, so
//! that all lanes are full until the last primes are found.
//!
//! *The floor.* Of odd numbers of 1,024 bits one in 355 is prime, and one in 7 has no divisor in the sieve: 50 tests a prime, each the power of
//! half a private operation (see [`lanes`](super::lanes)), and what the sieve takes for 355 candidates.
//!
//! *What timing tells:* how many candidates were tested, and how far the sieve came with those that failed. All of them are
//! independent of those that are kept, for which every step takes the same time but for two: divisions of a number's residues by
//! small primes, and squares for as many bits as the number less one ends in zeros, one or two mostly.

use std::sync::OnceLock;

use zeroize::{Zeroize, Zeroizing};

use super::super::isa::{Vectors, public_kernels};
use super::super::long::{OddModuli, OddModulus};
use super::super::montgomery;
use super::super::powers::{Digits, Powers, power};
use super::super::room::Room;
use super::super::{count_lanes, isa::PublicKernel};
use super::key::words;
use crate::work::Occupancy;
use ciphermill_pairs::rsa::EXPONENT;

/// A prime, little-endian.
pub(super) type Prime = Zeroizing<Vec<u8>>;

/// Small primes below this are looked for in candidates.
const SMALL_MAX: usize = 4096;

/// Products of small primes are below this, so that a sum of [`WORDS_MAX`] of their residues times words of 32 bits is below `2^64`.
const PRODUCT_BITS: u32 = 26;

/// Words of 32 bits of the longest candidate.
const WORDS_MAX: usize = 64;

/// Bytes of random numbers that are drawn at a time.
const DRAWN_LEN: usize = 4096;

/// Rounds of Miller and Rabin's test for primes of so many bits: at least as many as FIPS 186-5, table B.1, wants for an error of
/// `2^-112` with 1,024 bits and less with more of them; more than its predecessor wanted with 512, which are legacy.
const fn rounds(bits: usize) -> u32 {
    if bits < 1024 { 8 } else { 5 }
}

/// The operating system's random bytes, some thousands at a time.
struct Random {
    bytes: Zeroizing<Vec<u8>>,
    used: usize,
}

impl Random {
    fn new() -> Random {
        Random { bytes: Zeroizing::new(vec![0; DRAWN_LEN]), used: DRAWN_LEN }
    }

    /// `len` bytes, fewer than [`DRAWN_LEN`]. None when the system has none.
    fn draw(&mut self, len: usize) -> Option<Prime> {
        if self.used + len > self.bytes.len() {
            getrandom::fill(&mut self.bytes).ok()?;
            self.used = 0;
        }
        let drawn = Zeroizing::new(self.bytes[self.used..self.used + len].to_vec());
        // What was given away is not kept here.
        self.bytes[self.used..self.used + len].zeroize();
        self.used += len;
        Some(drawn)
    }
}

/// The residues of words at their places, modulo products of a few small primes: a candidate's residue is one sum of products.
struct Sieve(Vec<Divisor>);

struct Divisor {
    product: u32,
    primes: Vec<u32>,
    /// `2^(32 i)` modulo the product.
    residues: [u32; WORDS_MAX],
}

impl Sieve {
    fn get() -> &'static Sieve {
        static SIEVE: OnceLock<Sieve> = OnceLock::new();
        SIEVE.get_or_init(|| {
            let mut divisors: Vec<Divisor> = Vec::new();
            for prime in odd_primes() {
                match divisors.last_mut() {
                    Some(last) if u64::from(last.product) * u64::from(prime) < 1 << PRODUCT_BITS => {
                        last.product *= prime;
                        last.primes.push(prime);
                    }
                    _ => divisors.push(Divisor { product: prime, primes: vec![prime], residues: [0; WORDS_MAX] }),
                }
            }
            for divisor in &mut divisors {
                let mut residue = 1u64;
                for place in &mut divisor.residues {
                    *place = residue as u32;
                    residue = (residue << 32) % u64::from(divisor.product);
                }
            }
            Sieve(divisors)
        })
    }

    /// Whether no small prime divides a number, little-endian, of at most [`WORDS_MAX`] words.
    fn lets_through(&self, number: &[u8]) -> bool {
        let mut words = Zeroizing::new([0u32; WORDS_MAX]);
        for (word, bytes) in words.iter_mut().zip(number.chunks_exact(4)) {
            *word = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        }
        self.0.iter().all(|divisor| {
            let sum: u64 =
                words.iter().zip(&divisor.residues).map(|(word, place)| u64::from(*word) * u64::from(*place)).sum();
            let residue = (sum % u64::from(divisor.product)) as u32;
            divisor.primes.iter().all(|prime| !residue.is_multiple_of(*prime))
        })
    }
}

/// The odd primes below [`SMALL_MAX`], by the sieve of Eratosthenes.
fn odd_primes() -> Vec<u32> {
    let mut is_composite = [false; SMALL_MAX];
    for factor in (3..).step_by(2).take_while(|factor| factor * factor < SMALL_MAX) {
        (factor * factor..SMALL_MAX).step_by(factor).for_each(|multiple| is_composite[multiple] = true);
    }
    (3..SMALL_MAX).step_by(2).filter(|number| !is_composite[*number]).map(|prime| prime as u32).collect()
}

/// Whether a number, little-endian, is one more than a multiple of the public exponent, which then has no inverse.
fn spoils_exponent(number: &[u8]) -> bool {
    let residue =
        number.iter().rev().fold(0u64, |residue, byte| (residue << 8 | u64::from(*byte)) % u64::from(EXPONENT));
    residue == 1
}

/// A number that may be prime, in a lane until it fails.
struct Candidate {
    number: Prime,
    field: OddModulus,
    /// `(n - 1) / 2^twos`, odd, in words of 64 bits.
    odd: Zeroizing<Vec<u64>>,
    twos: u32,
    /// Rounds that it has passed.
    passed: u32,
}

impl Candidate {
    /// The next one that no small prime divides. None when the system has no random bytes.
    fn next(random: &mut Random, bits: usize, limbs: usize) -> Option<Candidate> {
        loop {
            let mut number = random.draw(bits / 8)?;
            number[0] |= 1;
            number[bits / 8 - 1] |= 0xc0;
            if !Sieve::get().lets_through(&number) || spoils_exponent(&number) {
                continue;
            }
            // Odd, so that it is a modulus.
            let field = OddModulus::new(&number, limbs)?;
            let (odd, twos) = without_twos(&number);
            return Some(Candidate { number, field, odd, twos, passed: 0 });
        }
    }

    /// A random base from two to the candidate less two.
    fn base(&self, random: &mut Random) -> Option<Prime> {
        loop {
            let mut base = random.draw(self.number.len())?;
            base.reverse();
            let is_small =
                base[..base.len() - 1].iter().all(|byte| *byte == 0) && base.last().is_some_and(|low| *low < 2);
            let mut top = Zeroizing::new(self.number.to_vec());
            // Less one: the candidate is odd.
            top[0] -= 1;
            if !is_small && base.iter().lt(top.iter().rev()) {
                return Some(base);
            }
        }
    }
}

/// A number less one without its factors two, and their number.
fn without_twos(number: &[u8]) -> (Zeroizing<Vec<u64>>, u32) {
    let mut odd = words(number);
    odd[0] -= 1;
    let mut twos = 0;
    // As few as there are heads before the first tail.
    while odd[0] & 1 == 0 {
        let mut above = 0;
        for word in odd.iter_mut().rev() {
            (*word, above) = (*word >> 1 | above << 63, *word & 1);
        }
        twos += 1;
    }
    (odd, twos)
}

/// A round of a candidate's test with a base, big-endian.
struct Round<'c> {
    candidate: &'c Candidate,
    base: Prime,
}

/// So many primes of `bits` bits. None when the system has no random bytes.
pub(super) fn find(
    kernel: PublicKernel,
    room: &mut Room,
    occupancy: &mut Occupancy,
    (bits, limbs): (usize, usize),
    count: usize,
) -> Option<Vec<Prime>> {
    let lanes = usize::from(kernel.lanes());
    let mut random = Random::new();
    let mut found = Vec::with_capacity(count + lanes);
    let mut candidates: Vec<Candidate> = Vec::with_capacity(lanes);
    while found.len() < count {
        while candidates.len() < lanes {
            candidates.push(Candidate::next(&mut random, bits, limbs)?);
        }
        let rounds_of: Vec<Round<'_>> = candidates
            .iter()
            .map(|candidate| Some(Round { candidate, base: candidate.base(&mut random)? }))
            .collect::<Option<_>>()?;
        count_lanes(kernel, occupancy, lanes);
        let mut passes = test(kernel, room, &rounds_of).into_iter();
        drop(rounds_of);
        candidates.retain_mut(|candidate| {
            candidate.passed += 1;
            passes.next() == Some(true)
        });
        let done = candidates.extract_if(.., |candidate| candidate.passed == rounds(bits));
        found.extend(done.map(|candidate| candidate.number));
    }
    Some(found)
}

public_kernels! {
    /// Whether candidates pass a round each, as many as there are lanes at most, of one size.
    fn test(room: &mut Room, rounds: &[Round<'_>]) -> Vec<bool> = test_in
}

#[inline(always)]
fn test_in<I: Vectors>(isa: I, room: &mut Room, rounds: &[Round<'_>]) -> Vec<bool> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let round = |lane: usize| rounds.get(lane).unwrap_or(first);
    let limbs = first.candidate.field.limbs.len();
    let exponent_bits = 64 * first.candidate.odd.len() as u32;
    let numbers = OddModuli::<I>::NUMBERS + Powers::<I>::NUMBERS + 3;
    let mut open = room.open::<I>(numbers * limbs + Digits::<I>::count(exponent_bits));
    let fields = OddModuli::load(isa, &mut open, limbs, |lane| &round(lane).candidate.field);
    let digits = Digits::open(&mut open, exponent_bits);
    let powers = Powers::open(&mut open, limbs);
    let [base, raised, plain] = core::array::from_fn(|_| open.number(limbs));
    for lane in 0..I::LANES {
        digits.set(lane, &round(lane).candidate.odd);
        plain.set_be(lane, &round(lane).base);
    }
    fields.enter(isa, base, plain);
    power(isa, raised, base, digits, powers, &fields);
    // One at first, or one less than the candidate before the power is that of n - 1.
    let mut passes = vec![false; rounds.len()];
    let most = rounds.iter().map(|round| round.candidate.twos).max().unwrap_or(0);
    for step in 0..most {
        fields.leave(isa, plain, raised);
        for (lane, passes) in passes.iter_mut().enumerate() {
            let Candidate { field, twos, .. } = round(lane).candidate;
            let is = |sought: &dyn Fn(usize) -> u64| {
                (0..limbs).fold(0, |differ, index| differ | (plain.lane(lane, index) ^ sought(index))) == 0
            };
            let is_one = step == 0 && is(&|index| u64::from(index == 0));
            let is_last = step < *twos && is(&|index| field.limbs[index] - u64::from(index == 0));
            *passes |= is_one | is_last;
        }
        if step + 1 < most {
            montgomery::square(isa, raised, raised, &fields.modulus);
        }
    }
    passes
}

#[cfg(test)]
mod tests {
    use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
    use crypto_bigint::{BoxedUint, Odd};

    use super::super::tests::kernels;
    use super::*;

    fn candidate(number: &[u8], limbs: usize) -> Candidate {
        let number = Zeroizing::new(number.to_vec());
        let (odd, twos) = without_twos(&number);
        Candidate { field: OddModulus::new(&number, limbs).expect("odd"), number, odd, twos, passed: 0 }
    }

    /// Whether `base^(n - 1)` is one, by the big integers of a crate.
    fn is_fermat(number: &[u8], base: u32) -> bool {
        let number = BoxedUint::from_le_slice(number, 512).expect("fits");
        let params = BoxedMontyParams::new(Option::from(Odd::new(number.clone())).expect("odd"));
        let base = BoxedUint::from_le_slice(&[&base.to_le_bytes()[..], &[0; 60]].concat(), 512).expect("fits");
        let power = BoxedMontyForm::new(base, &params).pow(&number.wrapping_sub(BoxedUint::one()));
        power.retrieve() == BoxedUint::one_with_precision(512)
    }

    #[test]
    fn small_primes_are_those_below_the_bound() {
        let primes = odd_primes();
        // There are 564 primes below 4,096.
        assert_eq!((primes.len(), primes[..5].to_vec(), primes[562]), (563, vec![3, 5, 7, 11, 13], 4093));
        let all: Vec<u32> = Sieve::get().0.iter().flat_map(|divisor| divisor.primes.clone()).collect();
        assert_eq!(all, primes);
        let sound = |divisor: &Divisor| {
            divisor.product < 1 << PRODUCT_BITS && divisor.primes.iter().product::<u32>() == divisor.product
        };
        assert!(Sieve::get().0.iter().all(sound));
    }

    #[test]
    fn the_sieve_agrees_with_division() {
        let mut random = Random::new();
        let primes = odd_primes();
        let mut passed = 0;
        for _ in 0..2000 {
            let number = random.draw(128).expect("random bytes");
            let residue = |prime: u32| {
                number.iter().rev().fold(0u64, |residue, byte| (residue << 8 | u64::from(*byte)) % u64::from(prime))
            };
            let expected = primes.iter().all(|prime| residue(*prime) != 0);
            assert_eq!(Sieve::get().lets_through(&number), expected);
            passed += usize::from(expected);
        }
        // An eighth, and odd and even ones alike.
        assert!((150..400).contains(&passed), "{passed}");
        assert!(!Sieve::get().lets_through(&[0xff; 256]), "2^2048 - 1 is a multiple of three");
    }

    /// `2^bits - 1`, little-endian, in as many bytes as all numbers of a test have.
    fn mersenne(bits: usize) -> Vec<u8> {
        let mut number = vec![0; NUMBER_LEN];
        (0..bits).for_each(|bit| number[bit / 8] |= 1 << (bit % 8));
        number
    }

    /// Bytes of a test's numbers.
    const NUMBER_LEN: usize = 80;

    #[test]
    fn tests_tell_primes_from_composites_in_every_lane() {
        let small = |number: u64| [&number.to_le_bytes()[..], &[0; NUMBER_LEN - 8]].concat();
        // Mersenne's primes have one factor two in n - 1; the others have 2, 5, 12 and 16 of them.
        let primes = [mersenne(521), mersenne(607), small(29), small(97), small(12_289), small(65_537)];
        // Fermat's fifth number has 32 factors of two and passes with base two, 3,215,031,751 with 2, 3, 5 and 7.
        let composites = [mersenne(523), small((1 << 32) + 1), small(341), small(561), small(3_215_031_751)];
        let numbers: Vec<(Candidate, bool)> = primes
            .iter()
            .map(|number| (candidate(number, 20), true))
            .chain(composites.iter().map(|number| (candidate(number, 20), false)))
            .collect();
        for kernel in kernels() {
            let mut room = Room::default();
            for chunk in numbers.chunks(kernel.lanes().into()) {
                let mut passes = vec![true; chunk.len()];
                for base in [2u8, 3, 5, 7, 11, 13, 17, 19, 23] {
                    let base = Zeroizing::new([&[0; NUMBER_LEN - 1][..], &[base]].concat());
                    let rounds: Vec<Round<'_>> =
                        chunk.iter().map(|(candidate, _)| Round { candidate, base: base.clone() }).collect();
                    let passed = test(kernel, &mut room, &rounds);
                    passes.iter_mut().zip(passed).for_each(|(all, passes)| *all &= passes);
                }
                let expected: Vec<bool> = chunk.iter().map(|(_, is_prime)| *is_prime).collect();
                assert_eq!(passes, expected, "{}", kernel.name());
            }
        }
    }

    #[test]
    fn bases_are_from_two_to_the_number_less_two() {
        let mut random = Random::new();
        let mut number = vec![0xff; 64];
        number[63] = 0xc0;
        let candidate = candidate(&number, 10);
        let mut highest = 0;
        for _ in 0..200 {
            let base = candidate.base(&mut random).expect("random bytes");
            assert!(base.iter().lt(number.iter().rev()));
            highest = highest.max(base[0]);
        }
        assert!(highest > 0x80, "bases have as many bits as the number: {highest:#x}");
    }

    #[test]
    fn what_is_found_is_prime_by_another_test_and_has_its_bits() {
        let mut room = Room::default();
        for kernel in kernels() {
            let found = find(kernel, &mut room, &mut Occupancy::default(), (512, 10), 3).expect("random bytes");
            assert!(found.len() >= 3);
            for prime in &found {
                assert_eq!((prime.len(), prime[63] >> 6, prime[0] & 1), (64, 3, 1));
                for base in [2u32, 3, 5, 7, 11, 13] {
                    assert!(is_fermat(prime, base), "no prime for base {base}");
                }
                assert!(!spoils_exponent(prime));
            }
        }
    }

    #[test]
    fn exponents_need_an_inverse() {
        for (number, spoils) in
            [(1u32, true), (65_538, true), (131_075, true), (2, false), (65_537, false), (65_539, false)]
        {
            assert_eq!(spoils_exponent(&number.to_le_bytes()), spoils, "{number}");
        }
    }
}
