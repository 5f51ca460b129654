//! ECDH (NIST SP 800-56A, 5.7.1.2): a peer's point by a secret scalar.
//!
//! The floor of an operation with P-256: 256 doublings and 64 additions, and seven odd multiples to choose from, which share
//! one inversion with those of other groups, are 200,000 multiply-adds for eight operations: 25,000 cycles each with one
//! of 512 bits a cycle, half of that with two.

use core::marker::PhantomData;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{KeyMaterial, OpStatus, PreparedKey, Reason, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::super::isa::PublicKernel;
use super::super::room::Room;
use super::curve::Curve;
use super::field::POWERS;
use super::isa::{CurveIsa, Task, with_vectors};
use super::modulus::{LEN_MAX, Modulus, from_bytes, is_below, to_bytes};
use super::numbers::{GROUPS_MAX, Numbers, slots};
use super::points::{Affine, Prime, is_on_curve, odd_multiples, scale_multiples};
use super::scalar::{MULTIPLES, multiply, odd_form};
use crate::work::{Scratch, Work};

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// The peer's value is not an uncompressed point on the curve.
const BAD_PUBLIC_VALUE: OpStatus = OpStatus::BadInput(Reason::BadPublicValue);

/// A private key: its scalar.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Secret<const L: usize>([u64; L]);

/// Prepares a private key.
///
/// # Errors
/// As [`Curve::secret`].
pub(super) fn prepare<C: Curve<L>, const L: usize>(
    key: &KeyMaterial<'_>,
    suite: Suite,
) -> Result<PreparedKey, KeyProblem> {
    Ok(PreparedKey::for_suite(suite, Secret::<L>(from_bytes(&C::secret(key)?))))
}

/// Runs a batch.
pub(super) fn run<C: Curve<L>, const L: usize>(kernel: PublicKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    let lanes = usize::from(kernel.lanes());
    super::super::groups::<Secret<L>>(work, lanes * GROUPS_MAX, |work, ops| {
        let mut jobs = Vec::with_capacity(ops.len());
        for (index, key) in ops {
            match point::<C, L>(work.input(*index)) {
                Some(peer) => jobs.push(Job { op: *index, scalar: &key.0, peer }),
                None => work.fail(*index, BAD_PUBLIC_VALUE),
            }
        }
        if jobs.is_empty() {
            return;
        }
        super::super::count_lanes(kernel, &mut scratch.occupancy, jobs.len());
        let task = Agree { room: &mut scratch.room, jobs: &jobs, curve: PhantomData::<C> };
        for (job, shared) in jobs.iter().zip(with_vectors(kernel, task).0.iter()) {
            match shared {
                Some(x) => {
                    let mut output = Zeroizing::new([0; LEN_MAX]);
                    to_bytes(x, &mut output[..C::FIELD_LEN]);
                    work.finish(job.op, &output[..C::FIELD_LEN], &[]);
                }
                None => work.fail(job.op, BAD_PUBLIC_VALUE),
            }
        }
    });
}

/// The coordinates of an uncompressed point, each below the prime. Whether it is on the curve is not looked at.
pub(super) fn point<C: Curve<L>, const L: usize>(bytes: &[u8]) -> Option<[[u64; L]; 2]> {
    let [UNCOMPRESSED, coordinates @ ..] = bytes else { return None };
    if coordinates.len() != 2 * C::FIELD_LEN {
        return None;
    }
    let (x, y) = coordinates.split_at(C::FIELD_LEN);
    let point = [from_bytes(x), from_bytes(y)];
    point.iter().all(|limbs| is_below(limbs, &C::Prime::LIMBS)).then_some(point)
}

/// An operation.
pub(super) struct Job<'a, const L: usize> {
    /// Its index in the batch.
    pub(super) op: usize,
    pub(super) scalar: &'a [u64; L],
    pub(super) peer: [[u64; L]; 2],
}

/// The shared secrets of a few groups of operations; none where the peer's point is not on the curve.
pub(super) struct Agreed<const L: usize>(pub(super) Vec<Option<[u64; L]>>);

impl<const L: usize> Drop for Agreed<L> {
    fn drop(&mut self) {
        self.0.iter_mut().flatten().for_each(Zeroize::zeroize);
    }
}

/// Agrees for a few groups of operations.
pub(super) struct Agree<'a, C, const L: usize> {
    pub(super) room: &'a mut Room,
    pub(super) jobs: &'a [Job<'a, L>],
    pub(super) curve: PhantomData<C>,
}

impl<C: Curve<L>, const L: usize> Task for Agree<'_, C, L> {
    type Out = Agreed<L>;

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) -> Agreed<L> {
        let groups = self.jobs.len().div_ceil(I::LANES);
        let scales_len = groups * (MULTIPLES - 1);
        let mut room = self.room.open::<I>(L * (groups * (4 + 2 * MULTIPLES) + 2 * scales_len + POWERS));
        let [scalars, xs, ys, zs] = core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, groups));
        let tables = Numbers::<I, L>::take(&mut room, groups * 2 * MULTIPLES);
        let [scales, products] = core::array::from_fn(|_| Numbers::<I, L>::take(&mut room, scales_len));
        let powers = Numbers::take(&mut room, POWERS);
        for (group, lane, job) in slots::<I, _>(self.jobs) {
            scalars.set_lane(group, lane, job.scalar);
            xs.set_lane(group, lane, &job.peer[0]);
            ys.set_lane(group, lane, &job.peer[1]);
        }
        let field = Prime::<I, C, L>::new(isa);
        let table = |group| tables.part(group * 2 * MULTIPLES, 2 * MULTIPLES);
        let scale = |group| scales.part(group * (MULTIPLES - 1), MULTIPLES - 1);
        let mut good = [0; GROUPS_MAX];
        for group in 0..groups {
            let (x, y) = (field.enter(&xs.get(isa, group)), field.enter(&ys.get(isa, group)));
            let is_good = is_on_curve::<I, C, L>(isa, &x, &y);
            good[group] = isa.bits(is_good);
            // Another point instead, so that nothing is computed outside the group.
            let [instead_x, instead_y] = C::GENERATOR_FORM.map(|limbs| field.splat(&limbs));
            let (x, y) = (field.select(is_good, &x, &instead_x), field.select(is_good, &y, &instead_y));
            odd_multiples::<I, C, L>(isa, &Affine::new(isa, x, y), table(group), scale(group), MULTIPLES);
        }
        field.invert_all(scales, scales_len, products, powers);
        for group in 0..groups {
            scale_multiples::<I, C, L>(isa, table(group), scale(group), MULTIPLES);
            // The result of a scalar that was turned has the same x.
            let scalar = odd_form::<I, C::Order, L>(isa, &scalars.get(isa, group));
            scalars.set(isa, group, &scalar);
            let shared = multiply::<I, C, L>(isa, scalars.part(group, 1), table(group));
            xs.set(isa, group, &shared.x);
            zs.set(isa, group, &shared.z);
        }
        field.invert_all(zs, groups, products, powers);
        for group in 0..groups {
            let inverse = zs.get(isa, group);
            let x = field.leave(&field.multiply(&xs.get(isa, group), &field.square(&inverse)));
            xs.set(isa, group, &x);
        }
        let shared = |(op, _)| {
            let (group, lane) = (op / I::LANES, op % I::LANES);
            (good[group] >> lane & 1 != 0).then(|| xs.lane(group, lane))
        };
        Agreed(self.jobs.iter().enumerate().map(shared).collect())
    }
}
