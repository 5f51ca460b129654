//! The lanes' part of signing.

use core::marker::PhantomData;

use zeroize::Zeroize;

use super::super::isa::Vectors;
use super::super::room::Room;
use super::curve::Curve;
use super::field::{Field, POWERS};
use super::isa::{CurveIsa, Task};
use super::numbers::{Number, Numbers, slots};
use super::points::{Prime, is_on_curve, scaled};
use super::scalar::{multiply_generator, odd_form};
use super::table::Table;
use crate::declassify::declassify;

/// The order of a curve's group.
pub(super) type Order<I, C, const L: usize> = Field<I, <C as Curve<L>>::Order, L>;

/// What a signature is made of: a nonce from one to the order less one, the private key and the digest.
pub(super) struct Nonce<'a, const L: usize> {
    pub(super) scalar: [u64; L],
    pub(super) secret: &'a [u64; L],
    pub(super) digest: [u64; L],
}

impl<const L: usize> Drop for Nonce<'_, L> {
    fn drop(&mut self) {
        self.scalar.zeroize();
    }
}

/// What became of a signature.
pub(super) enum Signed<const L: usize> {
    /// `r` and `s`.
    Done([[u64; L]; 2]),
    /// One of them is zero.
    Again,
    /// The nonce's point is not on the curve.
    Fault,
}

/// Signs a few groups of operations.
pub(super) struct Sign<'a, C, const L: usize> {
    pub(super) room: &'a mut Room,
    pub(super) nonces: &'a [Nonce<'a, L>],
    pub(super) table: &'a Table,
    pub(super) curve: PhantomData<C>,
}

/// The numbers of the groups, one a group.
struct Signing<I: Vectors, const L: usize> {
    secrets: Numbers<I, L>,
    digests: Numbers<I, L>,
    /// The nonces in Montgomery's form, then their inverses.
    inverses: Numbers<I, L>,
    /// The nonces' points; `r` and `s` in the end.
    xs: Numbers<I, L>,
    ys: Numbers<I, L>,
    zs: Numbers<I, L>,
}

/// Numbers of a group.
const NUMBERS: usize = 7;

impl<C: Curve<L>, const L: usize> Task for Sign<'_, C, L> {
    type Out = Vec<Signed<L>>;

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) -> Vec<Signed<L>> {
        let groups = self.nonces.len().div_ceil(I::LANES);
        let mut room = self.room.open::<I>(L * ((NUMBERS + 1) * groups + POWERS));
        let [scalars, secrets, digests, inverses, xs, ys, zs] =
            core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, groups));
        let signing = Signing { secrets, digests, inverses, xs, ys, zs };
        let products = Numbers::take(&mut room, groups);
        let powers = Numbers::take(&mut room, POWERS);
        for (group, lane, nonce) in slots::<I, _>(self.nonces) {
            scalars.set_lane(group, lane, &nonce.scalar);
            secrets.set_lane(group, lane, nonce.secret);
            digests.set_lane(group, lane, &nonce.digest);
        }
        let order = Order::<I, C, L>::new(isa);
        for group in 0..groups {
            let scalar = scalars.get(isa, group);
            inverses.set(isa, group, &order.enter(&scalar));
            // The point of a scalar that was turned has the same x.
            scalars.set(isa, group, &odd_form::<I, C::Order, L>(isa, &scalar));
            let point = multiply_generator::<I, C, L>(isa, scalars.part(group, 1), self.table);
            xs.set(isa, group, &point.x);
            ys.set(isa, group, &point.y);
            zs.set(isa, group, &point.z);
        }
        // A zero, which only a fault can lead to, makes all of its lane zero. No such point is on the curve.
        Prime::<I, C, L>::new(isa).invert_all(zs, groups, products, powers);
        order.invert_all(inverses, groups, products, powers);
        let mut marks = Vec::with_capacity(groups);
        for group in 0..groups {
            marks.push(signing.close::<C>(isa, group));
        }
        let signed = |(op, _)| {
            let (group, lane): (usize, usize) = (op / I::LANES, op % I::LANES);
            let [is_on_curve, is_zero] = marks[group].map(|bits: u32| bits >> lane & 1 != 0);
            match (is_on_curve, is_zero) {
                (false, _) => Signed::Fault,
                (true, true) => Signed::Again,
                (true, false) => Signed::Done([xs.lane(group, lane), ys.lane(group, lane)]),
            }
        };
        self.nonces.iter().enumerate().map(signed).collect()
    }
}

impl<I: CurveIsa, const L: usize> Signing<I, L> {
    /// Makes `r` and `s` of a group's points, where `zs` and `inverses` have been inverted. Returns where the points are on the
    /// curve, and where `r` or `s` is zero.
    #[inline(always)]
    fn close<C: Curve<L>>(&self, isa: I, group: usize) -> [u32; 2] {
        let [x, y, z] = [self.xs, self.ys, self.zs].map(|numbers| numbers.get(isa, group));
        let [x, y] = scaled::<I, C, L>(isa, &x, &y, &z);
        let is_good = is_on_curve::<I, C, L>(isa, &x, &y);
        let order = Order::<I, C, L>::new(isa);
        // Coordinates are below twice the order.
        let r = order.reduce_once(&Prime::<I, C, L>::new(isa).leave(&x));
        // (z + r d) / k, of which the sum is below 2.2 times the order and the inverse below 1.1.
        let product = order.multiply(&order.enter(&r), &self.secrets.get(isa, group));
        let sum: Number<I, L> = order.carry(order.add(&product, &self.digests.get(isa, group)));
        let s = order.reduce_once(&order.multiply(&sum, &self.inverses.get(isa, group)));
        self.xs.set(isa, group, &r);
        self.ys.set(isa, group, &s);
        declassify([isa.bits(is_good), isa.bits(order.is_zero(&r)) | isa.bits(order.is_zero(&s))])
    }
}
