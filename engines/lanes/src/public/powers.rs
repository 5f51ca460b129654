//! Powers of long numbers: by secret exponents, all alike, and by public ones.

use super::isa::Vectors;
use super::long::OddModuli;
use super::montgomery::{self, BLOCK};
use super::room::{Open, Place};
use super::unrolled::unrolled;
use crate::instruction_set::Step;

/// Bits of the exponent that a step of [`power`] takes. With four, the table of numbers of twenty limbs stays in the first-level cache;
/// with five, reading it took as long as the products that are saved.
const WINDOW: u32 = 4;

/// Digits of a word.
const DIGITS: usize = (u64::BITS / WINDOW) as usize;

/// Powers in its table.
const POWERS: usize = 1 << WINDOW;

/// Exponents of all lanes as digits of [`WINDOW`] bits, the lowest first.
#[derive(Clone, Copy)]
pub(super) struct Digits<I: Vectors>(Place<I>);

impl<I: Vectors> Digits<I> {
    /// Digits of exponents of so many bits.
    pub(super) const fn count(bits: u32) -> usize {
        bits.div_ceil(WINDOW) as usize
    }

    /// Room for exponents of so many bits.
    pub(super) fn open(open: &mut Open<'_, I>, bits: u32) -> Digits<I> {
        Digits(open.number(Self::count(bits)))
    }

    /// Sets one lane's exponent, of words of 64 bits.
    pub(super) fn set(&self, lane: usize, words: &[u64]) {
        for index in 0..self.0.limbs() {
            let word = words.get(index / DIGITS).copied().unwrap_or(0);
            self.0.set_lane(lane, index, word >> (index % DIGITS * WINDOW as usize) & (POWERS as u64 - 1));
        }
    }
}

/// What [`power`] works in.
#[derive(Clone, Copy)]
pub(super) struct Powers<I: Vectors> {
    table: Place<I>,
    factor: Place<I>,
}

impl<I: Vectors> Powers<I> {
    /// How many numbers it takes of a room.
    pub(super) const NUMBERS: usize = POWERS + 1;

    pub(super) fn open(open: &mut Open<'_, I>, limbs: usize) -> Powers<I> {
        Powers { table: open.number(POWERS * limbs), factor: open.number(limbs) }
    }

    /// The table's blocks of some limbs: of all powers next to each other, so that reading them is reading on.
    #[inline(always)]
    fn blocks(self, first: usize) -> Place<I> {
        self.table.part(first * POWERS, BLOCK * POWERS)
    }

    /// Makes a number the `index`th power.
    #[inline(always)]
    fn put(self, isa: I, index: usize, number: Place<I>) {
        for first in (0..number.limbs()).step_by(BLOCK) {
            self.blocks(first).part(index * BLOCK, BLOCK).copy_from(isa, number.part(first, BLOCK));
        }
    }
}

/// Some limbs, of whole blocks, of the power that each lane's number names, become those of the factor. All powers are read, so that no
/// address depends on what is chosen. Compilers make loads under masks of it: they bring a line whatever the mask (Zen 5, by timing lines
/// that were flushed before).
struct Choice<I: Vectors> {
    powers: Powers<I>,
    /// The first limb, and how many.
    limbs: (usize, usize),
    /// Each lane's number.
    which: I::V,
}

impl<I: Vectors> Step<I> for Choice<I> {
    type Out = ();

    #[inline(always)]
    fn run(self, isa: I) {
        let Choice { powers, limbs: (first, count), which } = self;
        for first in (first..first + count).step_by(BLOCK) {
            let blocks = powers.blocks(first);
            let mut chosen = [isa.splat(0); BLOCK];
            for entry in 0..POWERS {
                let is_it = isa.equal(which, isa.splat(entry as u64));
                let block = blocks.part(entry * BLOCK, BLOCK);
                unrolled!(i < BLOCK => {
                    chosen[i] = isa.select(is_it, block.get(isa, i), chosen[i]);
                });
            }
            unrolled!(i < BLOCK => {
                powers.factor.set(isa, first + i, chosen[i]);
            });
        }
    }
}

/// `out = base^exponent` in Montgomery's form, `base` below `2^4` times the modulus. Every exponent of as many digits takes the same
/// steps, and reads the same places. `out` may be `base`.
#[inline(always)]
pub(super) fn power<I: Vectors>(
    isa: I,
    out: Place<I>,
    base: Place<I>,
    exponent: Digits<I>,
    powers: Powers<I>,
    fields: &OddModuli<I>,
) {
    let (factor, modulus, limbs) = (powers.factor, &fields.modulus, out.limbs());
    fields.enter(isa, factor, fields.one);
    powers.put(isa, 0, factor);
    factor.copy_from(isa, base);
    for index in 1..POWERS {
        if index != 1 {
            montgomery::product(isa, factor, factor, base, modulus);
        }
        powers.put(isa, index, factor);
    }
    let digits = exponent.0;
    isa.call(Choice { powers, limbs: (0, limbs), which: digits.get(isa, digits.limbs() - 1) });
    out.copy_from(isa, factor);
    // Reading the table and squaring want different parts of the processor: a part of the factor is chosen before each square, so that both
    // go on at the same time.
    let part = limbs.div_ceil(WINDOW as usize).next_multiple_of(BLOCK);
    for digit in (0..digits.limbs() - 1).rev() {
        let which = digits.get(isa, digit);
        for step in 0..WINDOW as usize {
            let first = limbs.min(step * part);
            isa.call(Choice { powers, limbs: (first, part.min(limbs - first)), which });
            montgomery::square(isa, out, out, modulus);
        }
        montgomery::product(isa, out, out, factor, modulus);
    }
}

/// `out = base^exponent` in Montgomery's form for exponents that everybody knows: their bits decide what is done. `out` is not
/// `base`.
#[inline(always)]
pub(super) fn public_power<I: Vectors>(
    isa: I,
    out: Place<I>,
    base: Place<I>,
    exponent: impl Fn(usize) -> u64,
    factor: Place<I>,
    fields: &OddModuli<I>,
) {
    let mut exponents = [0; 8];
    (0..I::LANES).for_each(|lane| exponents[lane] = exponent(lane));
    let all = exponents.iter().fold(0, |all, exponent| all | exponent);
    let Some(top) = all.checked_ilog2() else { return fields.enter(isa, out, fields.one) };
    // Lanes with shorter exponents begin with one.
    if !(0..I::LANES).all(|lane| exponents[lane] >> top & 1 == 1) {
        fields.enter(isa, out, fields.one);
    }
    for bit in (0..=top).rev() {
        let has_bit = |lane: usize| exponents[lane] >> bit & 1;
        if bit != top {
            montgomery::square(isa, out, out, &fields.modulus);
        }
        if all >> bit & 1 == 0 {
            continue;
        }
        if bit != top {
            montgomery::product(isa, factor, out, base, &fields.modulus);
        } else {
            factor.copy_from(isa, base);
        }
        if (0..I::LANES).all(|lane| has_bit(lane) == 1) {
            out.copy_from(isa, factor);
            continue;
        }
        for lane in (0..I::LANES).filter(|lane| has_bit(*lane) == 1) {
            (0..out.limbs()).for_each(|index| out.set_lane(lane, index, factor.lane(lane, index)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
    use crypto_bigint::{BoxedUint, Odd};

    use super::super::isa::{PublicKernel, Vectors, public_kernels};
    use super::super::long::{OddModuli, OddModulus};
    use super::super::room::Room;
    use super::super::samples::{self, Random};
    use super::super::vectors::{LIMB_BITS, LIMB_MAX};
    use super::*;

    /// Bases of each lane, their modulus, and powers of them against a library of big integers.
    struct Sample {
        limbs: usize,
        field: OddModulus,
        params: BoxedMontyParams,
        bases: Vec<Vec<u64>>,
    }

    impl Sample {
        fn new(random: &mut Random, limbs: usize, lanes: usize) -> Sample {
            let mut modulus = random.limbs(limbs, LIMB_MAX);
            modulus[0] |= 1;
            modulus[limbs - 1] = modulus[limbs - 1] >> 8 | 1;
            let modulus = number(&modulus);
            let field = OddModulus::new(&modulus.to_le_bytes(), limbs).expect("odd");
            let params = BoxedMontyParams::new_vartime(Odd::new(modulus).expect("odd"));
            // As large as limbs can hold: what enters Montgomery's form.
            let bases = (0..lanes).map(|_| random.limbs(limbs, LIMB_MAX)).collect();
            Sample { limbs, field, params, bases }
        }

        /// Whether a lane's number is its base's power.
        fn check<I: Vectors>(&self, place: Place<I>, lane: usize, exponent: &[u64]) {
            let modulus = self.params.modulus().clone().to_nz().expect("not zero");
            let base = BoxedMontyForm::new(number(&self.bases[lane]).rem_vartime(&modulus), &self.params);
            let wanted = base.pow(&BoxedUint::from_words(exponent.iter().copied())).retrieve();
            let got: Vec<u64> = (0..self.limbs).map(|index| place.lane(lane, index)).collect();
            assert_eq!(number(&got), wanted, "lane {lane} of {} limbs, exponent {exponent:x?}", self.limbs);
        }
    }

    fn number(limbs: &[u64]) -> BoxedUint {
        samples::number(limbs, LIMB_BITS, (limbs.len() as u32 * LIMB_BITS).next_multiple_of(64))
    }

    /// Powers by exponents of so many bits, one a lane.
    #[inline(always)]
    fn compare<I: Vectors>(isa: I, limbs: usize, bits: u32) {
        let mut random = Random(0x3c6e_f372_fe94_f82b ^ limbs as u64 ^ u64::from(bits) << 32);
        let sample = Sample::new(&mut random, limbs, I::LANES);
        let numbers = OddModuli::<I>::NUMBERS + Powers::<I>::NUMBERS + 1;
        let mut room = Room::default();
        let mut open = room.open::<I>(numbers * limbs + Digits::<I>::count(bits));
        let fields = OddModuli::load(isa, &mut open, limbs, |_| &sample.field);
        let digits = Digits::open(&mut open, bits);
        let powers = Powers::open(&mut open, limbs);
        let place = open.number(limbs);
        let mut exponents = Vec::new();
        for lane in 0..I::LANES {
            let mut exponent: Vec<u64> = (0..bits.div_ceil(64)).map(|_| random.next()).collect();
            if let (Some(last), false) = (exponent.last_mut(), bits.is_multiple_of(64)) {
                *last &= (1 << (bits % 64)) - 1;
            }
            place.set_number(lane, &sample.bases[lane]);
            digits.set(lane, &exponent);
            exponents.push(exponent);
        }
        fields.enter(isa, place, place);
        power(isa, place, place, digits, powers, &fields);
        fields.leave(isa, place, place);
        exponents.iter().enumerate().for_each(|(lane, exponent)| sample.check(place, lane, exponent));
    }

    /// Powers by exponents that everybody knows, lane by lane.
    #[inline(always)]
    fn compare_public<I: Vectors>(isa: I, exponents: &[u64; 8]) {
        let limbs = 10;
        let sample = Sample::new(&mut Random(0xa54f_f53a_5f1d_36f1), limbs, I::LANES);
        let mut room = Room::default();
        let mut open = room.open::<I>((OddModuli::<I>::NUMBERS + 3) * limbs);
        let fields = OddModuli::load(isa, &mut open, limbs, |_| &sample.field);
        let [base, raised, factor] = core::array::from_fn(|_| open.number(limbs));
        (0..I::LANES).for_each(|lane| base.set_number(lane, &sample.bases[lane]));
        fields.enter(isa, base, base);
        public_power(isa, raised, base, |lane| exponents[lane], factor, &fields);
        fields.leave(isa, raised, raised);
        (0..I::LANES).for_each(|lane| sample.check(raised, lane, &exponents[lane..=lane]));
    }

    public_kernels! {
        fn compare_with(limbs: usize, bits: u32) = compare
    }

    public_kernels! {
        fn compare_public_with(exponents: &[u64; 8]) = compare_public
    }

    /// Of one block and of several, with parts of the table for each square and for some; digits that end within a word and with it.
    #[test]
    fn powers_are_those_of_big_integers() {
        for name in PublicKernel::NAMES {
            let Some(kernel) = PublicKernel::detect(name) else { continue };
            for (limbs, bits) in [(10, 64), (20, 65), (30, 131), (40, 3), (60, 66)] {
                compare_with(kernel, limbs, bits);
            }
        }
    }

    #[test]
    fn lanes_may_have_different_public_exponents() {
        for name in PublicKernel::NAMES {
            let Some(kernel) = PublicKernel::detect(name) else { continue };
            for exponents in [[65_537; 8], [3, 65_537, 17, 3, 65_539, 5, 1, 0], [0; 8]] {
                compare_public_with(kernel, &exponents);
            }
        }
    }
}
