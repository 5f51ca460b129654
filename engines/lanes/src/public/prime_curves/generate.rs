//! Key pairs: random scalars and the generator's multiples by them, a pair a lane.
//!
//! The floor is that of a signature's point (see [`super::sign`]), and an inversion that a few groups share.

use core::marker::PhantomData;

use ciphermill_contract::OpStatus;
use ciphermill_contract::suite::Curve as Name;
use ciphermill_pairs::der;
use zeroize::Zeroizing;

use super::super::isa::PublicKernel;
use super::super::room::Room;
use super::curve::Curve;
use super::field::POWERS;
use super::generator;
use super::isa::{CurveIsa, Task, with_vectors};
use super::modulus::{LEN_MAX, Modulus, from_bytes, is_within, to_bytes};
use super::numbers::{GROUPS_MAX, Numbers, slots};
use super::points::{Prime, is_on_curve, scaled};
use super::scalar::{multiply_generator, odd_form};
use super::table::Table;
use crate::work::{NoKey, Scratch, Work};

/// Runs a batch.
pub(super) fn run<C: Curve<L>, const L: usize>(
    kernel: PublicKernel,
    work: &mut Work<'_>,
    scratch: &mut Scratch,
    name: Name,
) {
    let lanes = usize::from(kernel.lanes());
    super::super::groups::<NoKey>(work, lanes * GROUPS_MAX, |work, ops| {
        super::super::count_lanes(kernel, &mut scratch.occupancy, ops.len());
        let Some(scalars) = draw::<C, L>(ops.len()) else {
            return ops.iter().for_each(|(op, _)| work.fail(*op, OpStatus::EngineFault));
        };
        let table = generator::table::<C, L>(kernel);
        let task = Multiply { room: &mut scratch.room, scalars: &scalars, table, curve: PhantomData::<C> };
        for (((op, _), scalar), point) in ops.iter().zip(scalars.iter()).zip(with_vectors(kernel, task)) {
            let Some(point) = point else {
                work.fail(*op, OpStatus::EngineFault);
                continue;
            };
            let (mut bytes, mut coordinates) = (Zeroizing::new([0; LEN_MAX]), [0; 2 * LEN_MAX]);
            to_bytes(scalar, &mut bytes[..C::LEN]);
            let (x, y) = coordinates[..2 * C::LEN].split_at_mut(C::LEN);
            to_bytes(&point[0], x);
            to_bytes(&point[1], y);
            let pair = der::ec(name, &bytes[..C::LEN], &coordinates[..2 * C::LEN]);
            work.finish(*op, &pair.private, &pair.public);
        }
    });
}

/// Random scalars from one to the order less one, by rejection (FIPS 186-5, A.2.2). None when the system has no random bytes.
fn draw<C: Curve<L>, const L: usize>(count: usize) -> Option<Zeroizing<Vec<[u64; L]>>> {
    let mut scalars = Zeroizing::new(Vec::with_capacity(count));
    let mut bytes = Zeroizing::new([0; LEN_MAX]);
    let bytes = &mut bytes[..C::LEN];
    while scalars.len() < count {
        getrandom::fill(bytes).ok()?;
        bytes[0] &= 0xff >> (8 * C::LEN - C::BITS);
        let scalar = from_bytes(bytes);
        // Whether a number is thrown away says nothing of those that are kept.
        if is_within(&scalar, &C::Order::LIMBS) {
            scalars.push(scalar);
        }
    }
    Some(scalars)
}

/// The generator's multiples of a few groups, none where it is not on the curve, which only a fault can lead to.
struct Multiply<'a, C, const L: usize> {
    room: &'a mut Room,
    scalars: &'a [[u64; L]],
    table: &'a Table,
    curve: PhantomData<C>,
}

impl<C: Curve<L>, const L: usize> Task for Multiply<'_, C, L> {
    type Out = Vec<Option<[[u64; L]; 2]>>;

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) -> Self::Out {
        let groups = self.scalars.len().div_ceil(I::LANES);
        let mut room = self.room.open::<I>(L * (6 * groups + POWERS));
        let [scalars, odd, xs, ys, zs, products] = core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, groups));
        let powers = Numbers::take(&mut room, POWERS);
        for (group, lane, scalar) in slots::<I, _>(self.scalars) {
            scalars.set_lane(group, lane, scalar);
        }
        for group in 0..groups {
            odd.set(isa, group, &odd_form::<I, C::Order, L>(isa, &scalars.get(isa, group)));
            let point = multiply_generator::<I, C, L>(isa, odd.part(group, 1), self.table);
            xs.set(isa, group, &point.x);
            ys.set(isa, group, &point.y);
            zs.set(isa, group, &point.z);
        }
        let field = Prime::<I, C, L>::new(isa);
        field.invert_all(zs, groups, products, powers);
        let mut good = [0; GROUPS_MAX];
        for group in 0..groups {
            let [x, y, z] = [xs, ys, zs].map(|numbers| numbers.get(isa, group));
            let [x, y] = scaled::<I, C, L>(isa, &x, &y, &z);
            good[group] = isa.bits(is_on_curve::<I, C, L>(isa, &x, &y));
            let (x, y) = (field.leave(&x), field.leave(&y));
            // The point of a scalar that was turned is the negative one. No point of these curves has a y of zero.
            let turned = field.carry(field.subtract(&field.splat(&C::Prime::LIMBS), &y));
            let is_odd = isa.equal(isa.and(scalars.limb(isa, group, 0), isa.splat(1)), isa.splat(1));
            xs.set(isa, group, &x);
            ys.set(isa, group, &field.select(is_odd, &y, &turned));
        }
        let point = |op: usize| {
            let (group, lane) = (op / I::LANES, op % I::LANES);
            (good[group] >> lane & 1 != 0).then(|| [xs.lane(group, lane), ys.lane(group, lane)])
        };
        (0..self.scalars.len()).map(point).collect()
    }
}
