//! The lanes' part of verifying. All of it is public.

use core::marker::PhantomData;

use super::super::room::Room;
use super::curve::Curve;
use super::field::POWERS;
use super::isa::{CurveIsa, Task};
use super::modulus::Modulus;
use super::numbers::{Number, Numbers, slots};
use super::points::{Affine, Point, Prime, odd_multiples, scale_multiples};
use super::scalar::{MULTIPLES, add_generator, multiply, odd_form};
use super::signature::Order;
use super::table::Table;

/// What a signature claims: `r` and `s`, from one to the order less one, of this digest, by the holder of this point.
pub(super) struct Claim<'a, const L: usize> {
    pub(super) signature: [[u64; L]; 2],
    pub(super) digest: [u64; L],
    pub(super) point: &'a [[u64; L]; 2],
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    Bad,
    /// The sum met an exception, or is infinity: to be verified without lanes.
    Alone,
}

/// Verifies a few groups of signatures.
pub(super) struct Verify<'a, C, const L: usize> {
    pub(super) room: &'a mut Room,
    pub(super) claims: &'a [Claim<'a, L>],
    pub(super) table: &'a Table,
    pub(super) curve: PhantomData<C>,
}

impl<C: Curve<L>, const L: usize> Task for Verify<'_, C, L> {
    type Out = Vec<Verdict>;

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) -> Vec<Verdict> {
        let groups = self.claims.len().div_ceil(I::LANES);
        let scales_len = groups * (MULTIPLES - 1);
        let mut room = self.room.open::<I>(L * (groups * (6 + 2 * MULTIPLES) + 2 * scales_len + POWERS));
        let [rs, inverses, digests, firsts, xs, ys] =
            core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, groups));
        let tables = Numbers::<I, L>::take(&mut room, groups * 2 * MULTIPLES);
        let [scales, products] = core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, scales_len));
        let powers = Numbers::take(&mut room, POWERS);
        for (group, lane, claim) in slots::<I, _>(self.claims) {
            rs.set_lane(group, lane, &claim.signature[0]);
            inverses.set_lane(group, lane, &claim.signature[1]);
            digests.set_lane(group, lane, &claim.digest);
            xs.set_lane(group, lane, &claim.point[0]);
            ys.set_lane(group, lane, &claim.point[1]);
        }
        let field = Prime::<I, C, L>::new(isa);
        let order = Order::<I, C, L>::new(isa);
        let table = |group| tables.part(group * 2 * MULTIPLES, 2 * MULTIPLES);
        let scale = |group| scales.part(group * (MULTIPLES - 1), MULTIPLES - 1);
        for group in 0..groups {
            inverses.set(isa, group, &order.enter(&inverses.get(isa, group)));
            let (x, y) = (field.enter(&xs.get(isa, group)), field.enter(&ys.get(isa, group)));
            odd_multiples::<I, C, L>(isa, &Affine::new(isa, x, y), table(group), scale(group), MULTIPLES);
        }
        order.invert_all(inverses, groups, products, powers);
        field.invert_all(scales, scales_len, products, powers);
        let mut verdicts = Vec::with_capacity(groups * I::LANES);
        for group in 0..groups {
            scale_multiples::<I, C, L>(isa, table(group), scale(group), MULTIPLES);
            let inverse = inverses.get(isa, group);
            let r = rs.get(isa, group);
            // Digest and r over s. Where one is turned, so is the other point; where both are, neither.
            let first = order.reduce_once(&order.multiply(&digests.get(isa, group), &inverse));
            let second = order.reduce_once(&order.multiply(&r, &inverse));
            let differ = isa.and(isa.add(first[0], second[0]), isa.splat(1));
            let first = odd_form::<I, C::Order, L>(isa, &first);
            let second = odd_form::<I, C::Order, L>(isa, &second);
            firsts.set(isa, group, &first);
            inverses.set(isa, group, &second);
            let mut sum = multiply::<I, C, L>(isa, inverses.part(group, 1), table(group));
            let is_turned = isa.equal(differ, isa.splat(1));
            add_generator::<I, C, L>(isa, &mut sum, firsts.part(group, 1), is_turned, self.table);
            verdicts.extend(compare::<I, C, L>(isa, &sum, &r));
        }
        verdicts.truncate(self.claims.len());
        verdicts
    }
}

/// Whether `x` of a point is `r` modulo the order: `r`, or that and the order where it is below the prime. Without an
/// inversion: both times `Z²`.
#[inline(always)]
fn compare<I: CurveIsa, C: Curve<L>, const L: usize>(
    isa: I,
    sum: &Point<I, L>,
    r: &Number<I, L>,
) -> impl Iterator<Item = Verdict> + use<I, C, L> {
    let field = Prime::<I, C, L>::new(isa);
    let z_2 = field.square(&sum.z);
    let other = field.carry(field.add(r, &field.splat(&C::Order::LIMBS)));
    let less = field.carry(field.subtract(&other, &field.splat(&C::Prime::LIMBS)));
    let other_is_below = isa.bits(isa.equal(isa.shr::<63>(less[L - 1]), isa.splat(1)));
    // An order above the prime has numbers that no coordinate is.
    let less = field.carry(field.subtract(r, &field.splat(&C::Prime::LIMBS)));
    let r_is_below = isa.bits(isa.equal(isa.shr::<63>(less[L - 1]), isa.splat(1)));
    let product = field.multiply(&field.enter(r), &z_2);
    let is_r = isa.bits(field.is_zero(&field.leave(&field.settle(field.subtract(&sum.x, &product)))));
    let product = field.multiply(&field.enter(&other), &z_2);
    let is_other = isa.bits(field.is_zero(&field.leave(&field.settle(field.subtract(&sum.x, &product)))));
    let good = (is_r & r_is_below) | (is_other & other_is_below);
    let alone = isa.bits(field.is_zero(&field.leave(&sum.z)));
    (0..I::LANES).map(move |lane| match (alone >> lane & 1, good >> lane & 1) {
        (1, _) => Verdict::Alone,
        (_, 1) => Verdict::Good,
        _ => Verdict::Bad,
    })
}
