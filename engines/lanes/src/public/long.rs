//! Long numbers around the multiplication: bytes and limbs, carries.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};
use zeroize::Zeroizing;

use super::isa::{LIMB_BITS, LIMB_MAX, Modulus, Vectors, low_limb};
use super::montgomery::{self, scaled};
use super::room::{Open, Place};

/// A number's limbs, wiped when dropped.
pub(super) type Limbs = Zeroizing<Vec<u64>>;

/// Little-endian bytes as `count` limbs.
pub(super) fn limbs(bytes: &[u8], count: usize) -> Limbs {
    let mut limbs = Zeroizing::new(vec![0; count]);
    for (index, limb) in limbs.iter_mut().enumerate() {
        *limb = limb_at(bytes, index);
    }
    limbs
}

/// Limb `index` of little-endian bytes, zeros behind them.
#[inline(always)]
fn limb_at(bytes: &[u8], index: usize) -> u64 {
    let bit = index * LIMB_BITS as usize;
    let rest = bytes.get(bit / 8..).unwrap_or_default();
    let word = match rest.first_chunk() {
        Some(word) => u64::from_le_bytes(*word),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    // The bits of a limb begin at a byte or in its middle.
    word >> (bit % 8) & LIMB_MAX
}

impl<I: Vectors> Place<I> {
    /// Sets one lane's number from big-endian bytes.
    pub(super) fn set_be(self, lane: usize, bytes: &[u8]) {
        for index in 0..self.limbs() {
            let bit = index * LIMB_BITS as usize;
            let rest = &bytes[..bytes.len().saturating_sub(bit / 8)];
            let word = match rest.last_chunk() {
                Some(word) => u64::from_be_bytes(*word),
                None => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
            self.set_lane(lane, index, word >> (bit % 8) & LIMB_MAX);
        }
    }

    /// One lane's number as big-endian bytes. What does not fit is left out: numbers are below `256^len` by then.
    pub(super) fn be(self, lane: usize, len: usize) -> Zeroizing<Vec<u8>> {
        let mut bytes = Zeroizing::new(vec![0; len]);
        let (mut waiting, mut bits, mut index) = (0, 0, 0);
        for byte in bytes.iter_mut().rev() {
            if bits < 8 && index < self.limbs() {
                waiting |= self.lane(lane, index) << bits;
                (bits, index) = (bits + LIMB_BITS, index + 1);
            }
            *byte = waiting as u8;
            waiting >>= 8;
            bits = bits.saturating_sub(8);
        }
        bytes
    }
}

/// A modulus of one key, with what Montgomery's multiplication wants of it.
pub(super) struct OddModulus {
    /// The modulus.
    pub(super) limbs: Limbs,
    /// `-1 / m` modulo `2^52`.
    pub(super) inverse: u64,
    /// What [`scaled`] gives of it.
    scaled: Limbs,
    /// `2^(2 · 52 limbs)` modulo the modulus: what brings numbers into Montgomery's form.
    pub(super) square: Limbs,
    /// The modulus for a library.
    params: BoxedMontyParams,
}

impl OddModulus {
    /// Of a modulus, little-endian, of `count` limbs. `None` for even ones.
    pub(super) fn new(bytes: &[u8], count: usize) -> Option<OddModulus> {
        let modulus = Zeroizing::new(BoxedUint::from_le_slice(bytes, 8 * bytes.len() as u32).ok()?);
        let params = BoxedMontyParams::new(Option::from(Odd::new((*modulus).clone()))?);
        let limbs = limbs(bytes, count);
        let inverse = minus_inverse(*limbs.first()?);
        let scaled = scaled(&limbs, inverse);
        let mut field = OddModulus { limbs, inverse, scaled, square: Limbs::default(), params };
        field.square = field.shifted(&[1], 2)?;
        Some(field)
    }

    /// A number, little-endian and below the modulus, times `2^(52 limbs · by)`, modulo the modulus.
    pub(super) fn shifted(&self, bytes: &[u8], by: u32) -> Option<Limbs> {
        let bits = self.params.bits_precision();
        let count = self.limbs.len();
        let form = |bytes: &[u8]| {
            let number = Zeroizing::new(BoxedUint::from_le_slice(bytes, bits).ok()?);
            Some(BoxedMontyForm::new((*number).clone(), &self.params))
        };
        let exponent = BoxedUint::from(u64::from(by * LIMB_BITS * count as u32));
        let radix = form(&[2])?.pow(&exponent);
        let product = Zeroizing::new(form(bytes)?.mul(&radix).retrieve());
        Some(self::limbs(&Zeroizing::new(product.to_le_bytes()), count))
    }
}

/// `-1 / m` modulo `2^52` of an odd number, by Newton's iteration: each step doubles the bits that are right, from three on.
const fn minus_inverse(m: u64) -> u64 {
    let mut inverse = m;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(m.wrapping_mul(inverse)));
        step += 1;
    }
    inverse.wrapping_neg() & LIMB_MAX
}

/// A modulus of each lane, and its radix's square.
#[derive(Clone, Copy)]
pub(super) struct OddModuli<I: Vectors> {
    pub(super) modulus: Modulus<I>,
    /// Room of the modulus.
    room: Place<I>,
    square: Place<I>,
    /// The number one.
    pub(super) one: Place<I>,
}

impl<I: Vectors> OddModuli<I> {
    /// How many numbers it takes of a room.
    pub(super) const NUMBERS: usize = 3 + Modulus::<I>::NUMBERS;

    /// Loads the fields of all lanes, each of `limbs` limbs.
    #[inline(always)]
    pub(super) fn load<'f>(
        isa: I,
        open: &mut Open<'_, I>,
        limbs: usize,
        of: impl Fn(usize) -> &'f OddModulus,
    ) -> OddModuli<I> {
        let [modulus, square, one] = core::array::from_fn(|_| open.number(limbs));
        let room = open.number(Modulus::<I>::NUMBERS * limbs);
        let mut fields = OddModuli { modulus: Modulus::new(isa, modulus, isa.splat(0), room), room, square, one };
        fields.reload(isa, of);
        fields
    }

    /// Takes the place of other fields of as many limbs.
    #[inline(always)]
    pub(super) fn reload<'f>(&mut self, isa: I, of: impl Fn(usize) -> &'f OddModulus) {
        let modulus = self.modulus.limbs();
        for lane in 0..I::LANES {
            let field = of(lane);
            modulus.set_number(lane, &field.limbs);
            self.room.part(0, modulus.limbs()).set_number(lane, &field.scaled);
            self.square.set_number(lane, &field.square);
            self.one.set_lane(lane, 0, field.inverse);
        }
        self.modulus = Modulus::new(isa, modulus, self.one.get(isa, 0), self.room);
        self.one.set(isa, 0, isa.splat(1));
    }

    /// Brings a number into Montgomery's form. It may be as large as its limbs can hold; the result is below three times
    /// the modulus.
    #[inline(always)]
    pub(super) fn enter(&self, isa: I, out: Place<I>, number: Place<I>) {
        montgomery::product(isa, out, number, self.square, &self.modulus);
    }

    /// Takes a number out of Montgomery's form, fully reduced.
    #[inline(always)]
    pub(super) fn leave(&self, isa: I, out: Place<I>, number: Place<I>) {
        // The product with one is not above twice the modulus, whatever the number.
        montgomery::product(isa, out, number, self.one, &self.modulus);
        self.reduce(isa, out, 2);
    }

    /// Subtracts the modulus `times` times at most, from numbers that are not below it.
    #[inline(always)]
    pub(super) fn reduce(&self, isa: I, number: Place<I>, times: usize) {
        for _ in 0..times {
            self.reduce_once(isa, number);
        }
    }

    /// Subtracts the modulus from numbers that are not below it.
    #[inline(always)]
    fn reduce_once(&self, isa: I, number: Place<I>) {
        let limbs = self.modulus.limbs();
        let mut borrow = isa.splat(0);
        for index in 0..limbs.limbs() {
            let difference = isa.sub(number.get(isa, index), limbs.get(isa, index));
            borrow = isa.sar::<LIMB_BITS>(isa.add(difference, borrow));
        }
        let subtracts = isa.equal(borrow, isa.splat(0));
        for index in 0..limbs.limbs() {
            let limb = isa.select(subtracts, limbs.get(isa, index), isa.splat(0));
            number.set(isa, index, isa.sub(number.get(isa, index), limb));
        }
        carry(isa, number);
    }
}

/// Makes limbs of sums: each is a signed number far below `2^63` in size, and the whole not below zero.
#[inline(always)]
pub(super) fn carry<I: Vectors>(isa: I, number: Place<I>) {
    let mut carried = isa.splat(0);
    for index in 0..number.limbs() {
        let sum = isa.add(number.get(isa, index), carried);
        number.set(isa, index, low_limb(isa, sum));
        carried = isa.sar::<LIMB_BITS>(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::super::portable::Portable;
    use super::super::room::Room;
    use super::*;

    #[test]
    fn bytes_become_limbs_and_bytes_again() {
        let bytes: Vec<u8> = (0..70).map(|index| 0x91u8.wrapping_mul(index) ^ 0xc5).collect();
        let mut room = Room::default();
        for len in 0..bytes.len() {
            let bytes = &bytes[..len];
            let own = BoxedUint::from_be_slice(bytes, 1024).expect("it fits");
            let limbs = len.div_ceil(6).max(1);
            let mut open = room.open::<Portable>(limbs);
            let number = open.number(limbs);
            number.set_be(1, bytes);
            let got = (0..limbs).rev().fold(BoxedUint::zero_with_precision(1024), |sum, index| {
                sum.wrapping_shl(LIMB_BITS).wrapping_add(BoxedUint::from(number.lane(1, index)))
            });
            assert_eq!(got, own, "{len} bytes");
            assert_eq!(*number.be(1, len), bytes);
            // Longer, with zeros in front.
            let mut longer = vec![0; 9];
            longer.extend_from_slice(bytes);
            assert_eq!(*number.be(1, len + 9), longer);
        }
    }
}
