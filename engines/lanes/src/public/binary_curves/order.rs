//! Numbers modulo the orders of the curves, one after the other: a few products a signature, and an inverse for a few groups.

use std::sync::OnceLock;

use ciphermill_contract::suite::{Curve as Name, Digest};
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, U576};
use zeroize::{Zeroize, Zeroizing};

use super::curve::{Curve, from_bytes, to_bytes};
use super::field::WORDS_MAX;

/// A number modulo an order.
pub(super) type Scalar = FixedMontyForm<{ U576::LIMBS }>;

/// What is computed once for a curve's order.
pub(super) struct Order {
    params: FixedMontyParams<{ U576::LIMBS }>,
    bits: usize,
}

impl Order {
    /// That of a curve.
    #[expect(clippy::expect_used, reason = "orders are odd")]
    pub(super) fn of<F, const W: usize>(curve: &Curve<F, W>) -> &'static Order {
        static ORDERS: [OnceLock<Order>; Name::ALL.len()] = [const { OnceLock::new() }; Name::ALL.len()];
        ORDERS[curve.name as usize].get_or_init(|| {
            let order = Odd::new(widened(&curve.order)).into_option().expect("a prime above two");
            Order { params: FixedMontyParams::new_vartime(order), bits: curve.order_bits }
        })
    }

    /// A number modulo the order.
    pub(super) fn scalar<const W: usize>(&self, words: &[u64; W]) -> Scalar {
        Scalar::new(&*Zeroizing::new(widened(words)), &self.params)
    }

    /// As many of the leftmost bits of a digest as the order has, modulo the order (FIPS 186-4, 6.4).
    pub(super) fn digest(&self, digest: Digest, tag: &[u8]) -> Scalar {
        let bytes = &tag[..digest.len()];
        let number = widened::<WORDS_MAX>(&from_bytes(bytes));
        let spare = (8 * bytes.len()).saturating_sub(self.bits);
        Scalar::new(&number.wrapping_shr(spare as u32), &self.params)
    }

    /// Inverts numbers none of which is zero, for the price of one inversion and three products each (Montgomery's trick).
    pub(super) fn invert_all(&self, all: &mut [Scalar]) {
        let mut products = Zeroizing::new(Vec::with_capacity(all.len()));
        let mut product = Zeroizing::new(Scalar::one(&self.params));
        for scalar in all.iter() {
            products.push(*product);
            *product *= scalar;
        }
        let mut inverse = Zeroizing::new(product.invert().unwrap_or(Scalar::zero(&self.params)));
        for (scalar, before) in all.iter_mut().zip(products.iter()).rev() {
            let own = *inverse * before;
            *inverse *= *scalar;
            *scalar = own;
        }
    }
}

/// The words of a number modulo the order.
pub(super) fn words_of<const W: usize>(scalar: &Scalar) -> [u64; W] {
    let mut words = scalar.retrieve().to_words();
    let low = core::array::from_fn(|index| words[index]);
    words.zeroize();
    low
}

/// Writes a number modulo the order, big-endian.
pub(super) fn put(scalar: &Scalar, bytes: &mut [u8]) {
    to_bytes(&words_of::<WORDS_MAX>(scalar), bytes);
}

fn widened<const W: usize>(words: &[u64; W]) -> U576 {
    let mut wide = [0; U576::LIMBS];
    wide[..W].copy_from_slice(words);
    U576::from_words(wide)
}
