//! Binary fields: polynomials over two elements modulo an irreducible one (SEC 1, 2.1.2), in words of 64 coefficients.

use crypto_bigint::U576;
use zeroize::Zeroize;

use super::group::{bytes, from_bytes};

/// Words of the longest element: 571 bits.
const WORDS: usize = U576::LIMBS;

/// An element: bit `i` is the coefficient of `t^i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Zeroize)]
pub(super) struct Element(pub(super) [u64; WORDS]);

impl Element {
    pub(super) const ZERO: Element = Element([0; WORDS]);
    pub(super) const ONE: Element = {
        let mut words = [0; WORDS];
        words[0] = 1;
        Element(words)
    };

    /// A sum, which is a difference too.
    pub(super) fn add(&self, other: &Element) -> Element {
        Element(core::array::from_fn(|i| self.0[i] ^ other.0[i]))
    }

    /// All ones for zero, else zero, without a branch.
    pub(super) fn zero_mask(&self) -> u64 {
        let any = self.0.iter().fold(0, |any, word| any | word);
        ((any | any.wrapping_neg()) >> 63).wrapping_sub(1)
    }

    /// This element where the mask is all ones, zero where it is zero.
    pub(super) fn masked(&self, mask: u64) -> Element {
        Element(self.0.map(|word| word & mask))
    }

    pub(super) fn is_zero(&self) -> bool {
        *self == Element::ZERO
    }

    pub(super) fn is_odd(&self) -> bool {
        self.0[0] & 1 == 1
    }
}

/// Exchanges two elements where the mask is all ones, without a branch.
pub(super) fn swap(mask: u64, left: &mut Element, right: &mut Element) {
    let difference = left.add(right).masked(mask);
    (*left, *right) = (left.add(&difference), right.add(&difference));
}

/// A field by its polynomial `t^degree + t^middle… + 1`.
#[derive(Clone, Copy)]
pub(super) struct BinaryField {
    degree: usize,
    middle: &'static [usize],
}

impl BinaryField {
    pub(super) fn new(degree: usize, middle: &'static [usize]) -> BinaryField {
        BinaryField { degree, middle }
    }

    fn words(&self) -> usize {
        self.degree.div_ceil(64)
    }

    /// Bytes of an element.
    pub(super) fn len(&self) -> usize {
        self.degree.div_ceil(8)
    }

    /// A big-endian element of [`BinaryField::len`] bytes; `None` for one with bits from the degree on (SEC 1, 2.3.6).
    pub(super) fn decode(&self, bytes: &[u8]) -> Option<Element> {
        let number = from_bytes(bytes).filter(|_| bytes.len() == self.len())?;
        (number.bits() as usize <= self.degree).then(|| Element(number.to_words()))
    }

    pub(super) fn encode(&self, element: &Element) -> zeroize::Zeroizing<Vec<u8>> {
        bytes(&U576::from_words(element.0), self.len())
    }

    pub(super) fn multiply(&self, left: &Element, right: &Element) -> Element {
        let mut product = [0; 2 * WORDS];
        for i in 0..self.words() {
            for j in 0..self.words() {
                let part = carryless(left.0[i], right.0[j]);
                product[i + j] ^= part as u64;
                product[i + j + 1] ^= (part >> 64) as u64;
            }
        }
        self.reduce(product)
    }

    pub(super) fn square(&self, element: &Element) -> Element {
        self.multiply(element, element)
    }

    /// The element squared so many times.
    fn square_times(&self, element: &Element, times: usize) -> Element {
        (0..times).fold(*element, |square, _| self.square(&square))
    }

    /// The inverse, `a^(2^degree - 2)` (Fermat); zero for zero. Keeps `power = a^(2^bits - 1)` for the leading bits of the degree
    /// less one (Itoh and Tsujii 1988).
    pub(super) fn invert(&self, element: &Element) -> Element {
        let wanted = self.degree - 1;
        let (mut power, mut bits) = (*element, 1);
        for at in (0..wanted.ilog2()).rev() {
            power = self.multiply(&self.square_times(&power, bits), &power);
            bits *= 2;
            if wanted >> at & 1 == 1 {
                power = self.multiply(&self.square(&power), element);
                bits += 1;
            }
        }
        self.square(&power)
    }

    /// An element whose square this is, `a^(2^(degree - 1))`.
    pub(super) fn root(&self, element: &Element) -> Element {
        self.square_times(element, self.degree - 1)
    }

    /// A `z` with `z² + z = a`; `None` where there is none. The degree is odd: the half-trace, the sum of `a^(2^2i)`, is one if any is
    /// (ANSI X9.62, D.1.6).
    pub(super) fn solve_quadratic(&self, element: &Element) -> Option<Element> {
        let (mut sum, mut power) = (*element, *element);
        for _ in 0..self.degree / 2 {
            power = self.square_times(&power, 2);
            sum = sum.add(&power);
        }
        (self.square(&sum).add(&sum) == *element).then_some(sum)
    }

    /// Takes multiples of the polynomial away, from the highest word down: `t^degree = t^middle… + 1`.
    fn reduce(&self, mut product: [u64; 2 * WORDS]) -> Element {
        let (words, top) = (self.words(), self.degree % 64);
        for at in (words..2 * words).rev() {
            let word = core::mem::take(&mut product[at]);
            self.add_at(&mut product, word, 64 * at - self.degree);
        }
        let above = product[words - 1] >> top;
        product[words - 1] ^= above << top;
        self.add_at(&mut product, above, 0);
        Element(core::array::from_fn(|i| product[i]))
    }

    /// Adds `word (t^middle… + 1) t^shift`.
    fn add_at(&self, product: &mut [u64; 2 * WORDS], word: u64, shift: usize) {
        for exponent in self.middle.iter().chain(&[0]) {
            let (at, by) = ((shift + exponent) / 64, (shift + exponent) % 64);
            let moved = u128::from(word) << by;
            product[at] ^= moved as u64;
            product[at + 1] ^= (moved >> 64) as u64;
        }
    }
}

/// The product of two polynomials of 64 coefficients, by products of integers: with every fifth bit of each factor, at most thirteen
/// bits are summed in a place of the product, whose lowest of five bits is their sum modulo two.
fn carryless(left: u64, right: u64) -> u128 {
    /// The bits 0, 5, 10 and so on.
    const FIFTH: u128 = ((u128::MAX / 31) >> 3) | (1 << 125);
    let mut product = 0;
    for class in 0..5 {
        let mut sum = 0;
        for i in 0..5 {
            let mask = |class: u32| (FIFTH << class) as u64;
            sum ^= u128::from(left & mask(i)) * u128::from(right & mask((5 + class - i) % 5));
        }
        product |= sum & FIFTH << class;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_sums_of_shifts() {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200 {
            let left = word;
            word = word.wrapping_mul(0xd129_0d3b_3c1a_7f2d).rotate_left(23) ^ 0x5bd1;
            for (left, right) in [(left, word), (u64::MAX, word), (u64::MAX, u64::MAX), (1 << 63, word), (left, 0)] {
                let bits = (0..64).filter(|bit| right >> bit & 1 == 1);
                let expected = bits.fold(0, |sum, bit| sum ^ u128::from(left) << bit);
                assert_eq!(carryless(left, right), expected, "{left:x} {right:x}");
            }
        }
    }
}
