//! The curves: `y² + x y = x³ + a x² + b`, and their fields. What depends on the field's words alone is compiled once a field.

use core::marker::PhantomData;

use ciphermill_contract::suite::Curve as Name;
use ciphermill_pairs::curves::{self, Parameters, words};

use super::field::Polynomial;

/// A curve over a field `F` of `W` words.
pub(super) struct Curve<F, const W: usize> {
    pub(super) name: Name,
    field: PhantomData<F>,
    pub(super) a: [u64; W],
    pub(super) b: [u64; W],
    /// The generator's coordinates.
    pub(super) generator: [[u64; W]; 2],
    /// The generator's order.
    pub(super) order: [u64; W],
    /// Bits of the order.
    pub(super) order_bits: usize,
    /// Points of the curve for each of the generator's multiples: two or four.
    pub(super) cofactor: u32,
}

impl<F, const W: usize> Curve<F, W> {
    const fn new(name: Name, parameters: &Parameters) -> Curve<F, W> {
        let order: [u64; W] = words(parameters.order);
        let mut top = W - 1;
        while order[top] == 0 {
            top -= 1;
        }
        Curve {
            name,
            field: PhantomData,
            a: words(parameters.a),
            b: words(parameters.b),
            generator: [words(parameters.x), words(parameters.y)],
            order,
            order_bits: 64 * (top + 1) - order[top].leading_zeros() as usize,
            cofactor: parameters.cofactor,
        }
    }

    /// Whether `b` is one, as it is of the curves of Koblitz.
    #[inline(always)]
    pub(super) fn is_koblitz(&self) -> bool {
        self.b[0] == 1 && self.b[1..].iter().all(|word| *word == 0)
    }
}

macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident, $words:literal, $degree:literal, $middle:expr, [$($curve:ident = $name:ident),+];)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy)]
            pub(super) struct $field;

            impl Polynomial<$words> for $field {
                const DEGREE: usize = $degree;
                const MIDDLE: &'static [usize] = &$middle;
            }

            $(
                pub(super) static $curve: Curve<$field, $words> = Curve::new(Name::$name, &curves::$curve);
                // What is compiled for a field is for the polynomial of its curves.
                const _: () = assert!(matches!(curves::$curve.field, curves::Field::Binary { degree: $degree, .. }));
            )+
        )+
    };
}

fields! {
    /// `t^163 + t^7 + t^6 + t^3 + 1`.
    Field163, 3, 163, [3, 6, 7], [SECT163K1 = Sect163k1, SECT163R1 = Sect163r1, SECT163R2 = Sect163r2];
    /// `t^233 + t^74 + 1`.
    Field233, 4, 233, [74], [SECT233K1 = Sect233k1, SECT233R1 = Sect233r1];
    /// `t^283 + t^12 + t^7 + t^5 + 1`.
    Field283, 5, 283, [5, 7, 12], [SECT283K1 = Sect283k1, SECT283R1 = Sect283r1];
    /// `t^409 + t^87 + 1`.
    Field409, 7, 409, [87], [SECT409K1 = Sect409k1, SECT409R1 = Sect409r1];
    /// `t^571 + t^10 + t^5 + t^2 + 1`.
    Field571, 9, 571, [2, 5, 10], [SECT571K1 = Sect571k1, SECT571R1 = Sect571r1];
}

/// A big-endian number of at most `8 W` bytes.
pub(super) fn from_bytes<const W: usize>(bytes: &[u8]) -> [u64; W] {
    let mut words = [0; W];
    for (index, byte) in bytes.iter().rev().enumerate() {
        words[index / 8] |= u64::from(*byte) << (8 * (index % 8));
    }
    words
}

/// The last bytes of a number, big-endian.
pub(super) fn to_bytes<const W: usize>(words: &[u64; W], bytes: &mut [u8]) {
    for (index, byte) in bytes.iter_mut().rev().enumerate() {
        *byte = (words[index / 8] >> (8 * (index % 8))) as u8;
    }
}

/// The two coordinates of an uncompressed point, or an `x` alone, in as many bytes each as an element has; `None` where one has bits
/// from the degree on (SEC 1, 2.3.6).
pub(super) fn coordinates<F: Polynomial<W>, const W: usize, const COUNT: usize>(
    bytes: &[u8],
) -> Option<[[u64; W]; COUNT]> {
    let len = F::DEGREE.div_ceil(8);
    if bytes.len() != COUNT * len {
        return None;
    }
    let all: [[u64; W]; COUNT] = core::array::from_fn(|index| from_bytes(&bytes[index * len..(index + 1) * len]));
    all.iter().all(|words| words[W - 1] >> (F::DEGREE % 64) == 0).then_some(all)
}

/// Whether a number is from one to the order less one. Takes the same steps for all numbers.
pub(super) fn is_within<const W: usize>(number: &[u64; W], order: &[u64; W]) -> bool {
    let mut borrow = 0;
    let mut any = 0;
    for (word, bound) in number.iter().zip(order) {
        let difference = u128::from(*word).wrapping_sub(u128::from(*bound)).wrapping_sub(borrow);
        borrow = difference >> 127;
        any |= word;
    }
    (borrow == 1) & (any != 0)
}
