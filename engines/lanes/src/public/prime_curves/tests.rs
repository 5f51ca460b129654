//! Numbers against a library of big integers, points and nonces against the crates that have the curves, with every kernel
//! that this processor can run.

use core::marker::PhantomData;

use crypto_bigint::{BoxedUint, Resize};
use p256::elliptic_curve::Group as _;
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{ProjectivePoint, Scalar};

use super::super::isa::{LIMB_BITS, LIMB_MAX};
use super::super::room::Room;
use super::super::samples::{self, Random};
use super::agree::{Agree, Job};
use super::curve::Curve;
use super::field::{Field, POWERS};
use super::generator;
use super::isa::{CurveIsa, Task, with_vectors};
use super::modulus::*;
use super::nonce::{Seed, draw};
use super::numbers::{Numbers, slots};
use super::points::{Affine, Point, is_on_curve, scaled};
use super::signature::{Nonce, Sign, Signed};
use super::table::Table;
use super::*;
use crate::hash::HashKernel;

fn kernels() -> impl Iterator<Item = PublicKernel> {
    PublicKernel::NAMES.iter().filter_map(|name| PublicKernel::detect(name))
}

/// Limbs of a number below `2^bits`.
fn limbs_below<const L: usize>(random: &mut Random, bits: u32) -> [u64; L] {
    let mut limbs: [u64; L] = random.limbs(L, LIMB_MAX).try_into().expect("as many");
    limbs[L - 1] &= (1 << (bits - LIMB_BITS * (L as u32 - 1))) - 1;
    limbs
}

/// Bits that products of tests fit in.
const BITS: u32 = 2048;

fn number(limbs: &[u64]) -> BoxedUint {
    samples::number(limbs, LIMB_BITS, BITS)
}

/// Compares every operation modulo `M`, whose bits are given.
struct Compare<M, const L: usize>(PhantomData<M>, u32);

impl<M: Modulus<L>, const L: usize> Task for Compare<M, L> {
    type Out = ();

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) {
        let field = Field::<I, M, L>::new(isa);
        let m = number(&M::LIMBS).to_nz().expect("not zero");
        let radix = BoxedUint::from(1u64).resize(BITS).wrapping_shl(LIMB_BITS * L as u32);
        let of = |a: &BoxedUint| a.rem_vartime(&m).resize(BITS);
        let mut random = Random(0x1357_9bdf_2468_ace1);
        let mut room = Room::default();
        let mut room = room.open::<I>(L * (12 + POWERS));
        let numbers = Numbers::<I, L>::take(&mut room, 12);
        let powers = Numbers::take(&mut room, POWERS);
        for _ in 0..200 {
            // Products of two such numbers are below 16 times the modulus.
            let factors: Vec<[[u64; L]; 4]> =
                (0..I::LANES).map(|_| [(); 4].map(|()| limbs_below(&mut random, self.1 + 1))).collect();
            for (lane, factors) in factors.iter().enumerate() {
                factors.iter().enumerate().for_each(|(index, limbs)| numbers.set_lane(index, lane, limbs));
            }
            let [a, b, c, d] = core::array::from_fn(|index| numbers.get(isa, index));
            numbers.set(isa, 4, &field.multiply(&a, &b));
            numbers.set(isa, 5, &field.square(&a));
            numbers.set(isa, 6, &field.multiply_add([&a, &b], [&c, &d]));
            numbers.set(isa, 7, &field.leave(&field.enter(&a)));
            numbers.set(isa, 8, &field.invert(&a, powers));
            for (lane, [a, b, c, d]) in
                factors.iter().map(|factors| factors.each_ref().map(|limbs| number(limbs))).enumerate()
            {
                let got: [BoxedUint; 5] = core::array::from_fn(|index| {
                    let limbs = numbers.lane(4 + index, lane);
                    assert!(limbs.iter().all(|limb| *limb <= LIMB_MAX));
                    number(&limbs)
                });
                let product = a.wrapping_mul(&b);
                assert_eq!(of(&got[0].wrapping_mul(&radix)), of(&product));
                assert_eq!(of(&got[1].wrapping_mul(&radix)), of(&a.wrapping_mul(&a)));
                assert_eq!(of(&got[2].wrapping_mul(&radix)), of(&product.wrapping_add(c.wrapping_mul(&d))));
                assert!(got[..2].iter().all(|got| *got < m.as_ref().wrapping_mul(BoxedUint::from(2u64).resize(BITS))));
                assert_eq!(got[3], of(&a));
                // The inverse of zero is zero.
                let one = of(&of(&radix).wrapping_mul(of(&radix)));
                let expected = if of(&a) == of(&number(&[0])) { number(&[0]) } else { one };
                assert_eq!(of(&of(&got[4]).wrapping_mul(of(&a))), expected);
            }
        }
    }
}

#[test]
fn numbers_are_those_of_big_integers() {
    for kernel in kernels() {
        with_vectors(kernel, Compare::<P160Prime, 4>(PhantomData, 160));
        with_vectors(kernel, Compare::<P160Order, 4>(PhantomData, 160));
        with_vectors(kernel, Compare::<P256Prime, 5>(PhantomData, 256));
        with_vectors(kernel, Compare::<P256Order, 5>(PhantomData, 256));
        with_vectors(kernel, Compare::<P384Prime, 8>(PhantomData, 384));
        with_vectors(kernel, Compare::<P384Order, 8>(PhantomData, 384));
        with_vectors(kernel, Compare::<P521Prime, 11>(PhantomData, 521));
        with_vectors(kernel, Compare::<P521Order, 11>(PhantomData, 521));
    }
}

/// Sums and differences at the bounds that [`super::points`] states, settled.
struct Settle<P, const L: usize>(PhantomData<P>, u32);

impl<P: FieldPrime<L>, const L: usize> Task for Settle<P, L> {
    type Out = ();

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) {
        let field = Field::<I, P, L>::new(isa);
        let m = number(&P::LIMBS).to_nz().expect("not zero");
        let times = |factor: u64| m.as_ref().wrapping_mul(BoxedUint::from(factor).resize(BITS));
        let of = |a: &BoxedUint| a.rem_vartime(&m).resize(BITS);
        let mut random = Random(0xfeed_beef_0123_4567);
        let mut room = Room::default();
        let mut room = room.open::<I>(L * 3);
        let numbers = Numbers::<I, L>::take(&mut room, 3);
        for _ in 0..500 {
            for lane in 0..I::LANES {
                numbers.set_lane(0, lane, &limbs_below(&mut random, self.1 + 1));
                numbers.set_lane(1, lane, &limbs_below(&mut random, self.1 + 1));
            }
            let [a, b] = core::array::from_fn(|index| numbers.get(isa, index));
            numbers.set(isa, 2, &field.settle(field.subtract(&a, &field.add(&b, &field.shift::<1>(&b)))));
            for lane in 0..I::LANES {
                let [a, b, got] = core::array::from_fn(|index| numbers.lane(index, lane));
                assert!(got.iter().all(|limb| *limb <= LIMB_MAX));
                let got = number(&got);
                let most = match L {
                    4 => 260,
                    11 => 500,
                    _ => 201,
                };
                assert!(got.wrapping_mul(number(&[100])) < times(most));
                let taken = number(&b).wrapping_mul(number(&[3]));
                assert_eq!(of(&got), of(&number(&a).wrapping_add(times(8)).wrapping_sub(&taken)));
            }
        }
    }
}

#[test]
fn settled_numbers_keep_their_bounds() {
    for kernel in kernels() {
        with_vectors(kernel, Settle::<P160Prime, 4>(PhantomData, 160));
        with_vectors(kernel, Settle::<P256Prime, 5>(PhantomData, 256));
        with_vectors(kernel, Settle::<P384Prime, 8>(PhantomData, 384));
        with_vectors(kernel, Settle::<P521Prime, 11>(PhantomData, 521));
    }
}

#[test]
fn bytes_and_limbs_tell_the_same_number() {
    let mut random = Random(77);
    for _ in 0..200 {
        let limbs: [u64; 11] = limbs_below(&mut random, 521);
        let mut bytes = [0; 66];
        to_bytes(&limbs, &mut bytes);
        assert_eq!(from_bytes::<11>(&bytes), limbs);
        assert_eq!(number(&limbs), BoxedUint::from_be_slice(&bytes, BITS).expect("short"));
    }
}

/// Those of a point of P-256.
type Coordinates = [[u64; 5]; 2];

fn limbs_of(point: &ProjectivePoint) -> Option<Coordinates> {
    agree::point::<P256, 5>(point.to_affine().to_sec1_point(false).as_bytes())
}

/// Doubles and adds points of P-256: `P`, `Q` and whether the latter's negative is meant. Gives `2 P`, `P + Q`, the same by
/// [`Point::add_last`], and infinity and `Q`, each with a `Z` that is not one; none where `Z` is zero.
struct Sums<'a>(&'a [(Coordinates, Coordinates, bool)]);

impl Task for Sums<'_> {
    type Out = Vec<[Option<Coordinates>; 4]>;

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) -> Self::Out {
        let field = Field::<I, P256Prime, 5>::new(isa);
        let mut room = Room::default();
        let mut room = room.open::<I>(5 * (17 + POWERS));
        let numbers = Numbers::<I, 5>::take(&mut room, 17);
        let powers = Numbers::take(&mut room, POWERS);
        let mut out = Vec::new();
        for cases in self.0.chunks(I::LANES) {
            for (_, lane, (p, q, is_negative)) in slots::<I, _>(cases) {
                for (index, limbs) in p.iter().chain(q).chain([&[u64::from(*is_negative), 0, 0, 0, 0]]).enumerate() {
                    numbers.set_lane(index, lane, limbs);
                }
            }
            let [px, py, qx, qy] = core::array::from_fn(|index| field.enter(&numbers.get(isa, index)));
            let is_negative = isa.equal(numbers.limb(isa, 4, 0), isa.splat(1));
            let q = Affine { x: qx, y: qy, is_negative };
            // The same point with Z = 5.
            let z = field.enter(&field.splat(&[5, 0, 0, 0, 0]));
            let z_2 = field.square(&z);
            let p = Point { x: field.multiply(&px, &z_2), y: field.multiply(&py, &field.multiply(&z, &z_2)), z };
            let mut sums = [p, p, p, Point { z: [isa.splat(0); 5], ..p }];
            sums[0].double::<P256>(isa);
            sums[1].add::<P256>(isa, &q);
            sums[2].add_last::<P256>(isa, &q);
            sums[3].add::<P256>(isa, &q);
            sums[3].double::<P256>(isa);
            for (index, sum) in sums.iter().enumerate() {
                let [x, y] = scaled::<I, P256, 5>(isa, &sum.x, &sum.y, &field.invert(&sum.z, powers));
                let on_curve = isa.bits(is_on_curve::<I, P256, 5>(isa, &x, &y));
                let mark = core::array::from_fn(|i| isa.splat(if i == 0 { u64::from(on_curve) } else { 0 }));
                numbers.set(isa, 5 + 3 * index, &field.leave(&x));
                numbers.set(isa, 6 + 3 * index, &field.leave(&y));
                numbers.set(isa, 7 + 3 * index, &mark);
            }
            out.extend((0..cases.len()).map(|lane| {
                core::array::from_fn(|index| {
                    let [x, y, mark] = core::array::from_fn(|part| numbers.lane(5 + 3 * index + part, lane));
                    (mark[0] >> lane & 1 != 0).then_some([x, y])
                })
            }));
        }
        out
    }
}

#[test]
fn sums_of_points_are_those_of_the_crate() {
    let g = ProjectivePoint::GENERATOR;
    let points: Vec<ProjectivePoint> = [1u64, 2, 3, 7, 1000, 1 << 60].map(|k| g * Scalar::from(k)).into();
    let mut cases = Vec::new();
    for p in points.iter().flat_map(|p| [*p, -*p]) {
        cases.extend(points.iter().flat_map(|q| [(p, *q, false), (p, *q, true)]));
    }
    let limbs: Vec<_> = cases
        .iter()
        .map(|(p, q, is_negative)| (limbs_of(p).expect("finite"), limbs_of(q).expect("finite"), *is_negative))
        .collect();
    for kernel in kernels() {
        for ((p, q, is_negative), got) in cases.iter().zip(with_vectors(kernel, Sums(&limbs))) {
            let q = if *is_negative { -*q } else { *q };
            let sum = *p + q;
            // Adding a point to itself is left to `add_last`; infinity stays where it has come up.
            let added = if *p == q { None } else { limbs_of(&sum) };
            assert_eq!(got, [limbs_of(&p.double()), added, limbs_of(&sum), None]);
        }
    }
}

/// Scalars at both ends, those whose last digit meets its own point, and the one whose last window of the generator does.
fn scalars() -> Vec<Scalar> {
    let mut all: Vec<Scalar> = (1..40u64).flat_map(|k| [Scalar::from(k), -Scalar::from(k)]).collect();
    let fifteenth = (0..252).fold(Scalar::from(15u64), |sum, _| sum.double());
    all.extend([fifteenth.double(), -fifteenth.double()]);
    let mut random = Scalar::from(0x0123_4567_89ab_cdefu64);
    for _ in 0..40 {
        random = random * random + Scalar::ONE;
        all.push(random);
    }
    all
}

#[test]
fn multiples_are_those_of_the_crate_at_the_ends_of_the_range_too() {
    let scalars = scalars();
    let numbers: Vec<[u64; 5]> = scalars.iter().map(|scalar| from_bytes(&scalar.to_bytes())).collect();
    let peer = ProjectivePoint::GENERATOR * Scalar::from(0xdead_beefu64);
    for kernel in kernels() {
        let secret = [3, 0, 0, 0, 0];
        for (scalars, numbers) in scalars.chunks(8).zip(numbers.chunks(8)) {
            let peer_limbs = limbs_of(&peer).expect("finite");
            let jobs: Vec<Job<'_, 5>> = numbers.iter().map(|scalar| Job { op: 0, scalar, peer: peer_limbs }).collect();
            let mut room = Room::default();
            let of_peer = with_vectors(kernel, Agree { room: &mut room, jobs: &jobs, curve: PhantomData::<P256> });
            let nonces: Vec<Nonce<'_, 5>> =
                numbers.iter().map(|scalar| Nonce { scalar: *scalar, secret: &secret, digest: [9; 5] }).collect();
            let table = generator::table::<P256, 5>(kernel);
            let mut room = Room::default();
            let signed =
                with_vectors(kernel, Sign { room: &mut room, nonces: &nonces, table, curve: PhantomData::<P256> });
            for ((scalar, of_peer), signed) in scalars.iter().zip(&of_peer.0).zip(signed) {
                let expected = limbs_of(&(peer * scalar)).expect("finite");
                assert_eq!(*of_peer, Some(expected[0]), "{}", kernel.name());
                let x = limbs_of(&(ProjectivePoint::GENERATOR * scalar)).expect("finite")[0];
                let Signed::Done([r, _]) = signed else { panic!("{}: no signature", kernel.name()) };
                assert_eq!(r, reduced(&x, &P256Order::LIMBS), "{}", kernel.name());
            }
        }
    }
}

/// A table with one word that is wrong gives points off the curve in the lanes that look it up, and no signature there.
#[test]
fn a_fault_in_a_lane_is_no_signature() {
    for kernel in kernels() {
        let mut words = generator::table::<P256, 5>(kernel).0.clone();
        // The last multiple of the first window, 63: what the first nonce takes, whose digit there is -63, and no other.
        words[0][31] ^= 1;
        let table = Table(words);
        let secret = [3, 0, 0, 0, 0];
        let nonces: Vec<Nonce<'_, 5>> =
            (0..16u64).map(|k| Nonce { scalar: [2 * k + 1, 7, 7, 7, 7], secret: &secret, digest: [9; 5] }).collect();
        let mut room = Room::default();
        let task = Sign { room: &mut room, nonces: &nonces, table: &table, curve: PhantomData::<P256> };
        let signed = with_vectors(kernel, task);
        let faults: Vec<bool> = signed.iter().map(|signed| matches!(signed, Signed::Fault)).collect();
        let expected: Vec<bool> = (0..16).map(|index| index == 0).collect();
        assert_eq!(faults, expected, "{}", kernel.name());
    }
}

fn nonces_agree<C: Curve<L>, U, D, const L: usize>(order: &U)
where
    U: crypto_bigint::Unsigned + crypto_bigint::Encoding,
    D: sha2::Digest + sha2::digest::block_api::BlockSizeUser,
{
    let mut random = Random(5);
    let mut bytes = |len: usize| -> Vec<u8> { (0..len).map(|_| (random.next() >> 32) as u8).collect() };
    let mut inputs: Vec<(Vec<u8>, Vec<u8>, [u8; 32])> = Vec::new();
    for _ in 0..37 {
        let mut secret = bytes(C::LEN);
        secret[0] = 0;
        inputs.push((secret, bytes(C::DIGEST.len()), bytes(32).try_into().expect("32")));
    }
    inputs[0].1.fill(0xff);
    let seeds: Vec<Seed<'_>> = inputs.iter().map(|(secret, digest, hedge)| Seed { secret, digest, hedge }).collect();
    for name in HashKernel::NAMES {
        let Some(hash) = HashKernel::detect(name) else { continue };
        let mut compared = 0;
        for (seed, drawn) in seeds.iter().zip(draw::<C, L>(hash, &seeds).iter()) {
            // The crate draws again what is no nonce.
            if !is_within(drawn, &C::Order::LIMBS) {
                continue;
            }
            compared += 1;
            let mut expected = vec![0; C::LEN];
            rfc6979::KGenerator::<D, U>::new(seed.secret, seed.digest, seed.hedge, order).fill_next_k(&mut expected);
            assert_eq!(*drawn, from_bytes::<L>(&expected), "{name}");
        }
        assert!(compared > 5, "{name}: {compared}");
    }
}

#[test]
fn nonces_are_those_of_rfc_6979() {
    use p256::elliptic_curve::Curve as _;
    let order = crypto_bigint::U192::from_be_hex("0000000100000000000000000001f4c8f927aed3ca752257");
    nonces_agree::<Secp160r1, _, sha2::Sha256, 4>(&order);
    nonces_agree::<P256, _, sha2::Sha256, 5>(p256::NistP256::ORDER.as_ref());
    nonces_agree::<P384, _, sha2::Sha384, 8>(p384::NistP384::ORDER.as_ref());
    nonces_agree::<P521, _, sha2::Sha512, 11>(p521::NistP521::ORDER.as_ref());
}
