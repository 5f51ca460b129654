//! The field against a library of big integers, with random and extreme limbs, by every kernel that this processor can run.

use crypto_bigint::{BoxedUint, NonZero, Resize as _};

use super::super::isa::PublicKernel;
use super::super::prime_curves::isa::{CurveIsa, Task, with_vectors};
use super::super::room::{Place, Room};
use super::super::samples::{self, Random};
use super::field::{Element, LIMBS, invert_all, limbs_of, words_of};

/// Bits that products of tests fit in.
const BITS: u32 = 1024;

const ONES: u64 = (1 << 50) - 1;

fn small(number: u64) -> BoxedUint {
    BoxedUint::from(number).resize(BITS)
}

/// `2^448 - 2^224 - 1`.
fn modulus() -> NonZero<BoxedUint> {
    let power = |bits: u32| small(1).wrapping_shl(bits);
    power(448).wrapping_sub(power(224)).wrapping_sub(small(1)).to_nz().expect("not zero")
}

fn reduce(number: &BoxedUint) -> BoxedUint {
    number.rem_vartime(&modulus()).resize(BITS)
}

fn number(limbs: &[u64]) -> BoxedUint {
    samples::number(limbs, 50, BITS)
}

/// Limbs of an element: random, or the least, or the largest that there are, or a few around the modulus.
fn limbs(random: &mut Random) -> [u64; LIMBS] {
    if random.next().is_multiple_of(8) {
        let mut limbs = [ONES; LIMBS];
        limbs[0] -= random.next() % 3;
        limbs[4] -= (random.next() % 3) << 24;
        limbs[8] = ONES >> 2;
        return limbs;
    }
    random.limbs(LIMBS, ONES + (1 << 37)).try_into().expect("as many")
}

fn lanes<I: CurveIsa>(place: Place<I>) -> Vec<[u64; LIMBS]> {
    (0..I::LANES).map(|lane| core::array::from_fn(|i| place.lane(lane, i))).collect()
}

struct Compare;

impl Task for Compare {
    type Out = ();

    #[inline(always)]
    fn run<I: CurveIsa>(self, isa: I) {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut room = Room::default();
        for round in 0..100 {
            let mut open = room.open::<I>(9 * LIMBS);
            let [a, b, out] = [(); 3].map(|()| open.number(LIMBS));
            for lane in 0..I::LANES {
                a.set_number(lane, &limbs(&mut random));
                b.set_number(lane, &limbs(&mut random));
            }
            let (x, y) = (Element::get(isa, a), Element::get(isa, b));
            let (sum, difference) = (x.add(isa, &y), x.sub(isa, &y));
            let check = |name: &str, got: Element<I>, expected: &dyn Fn(&BoxedUint, &BoxedUint) -> BoxedUint| {
                got.put(isa, out);
                assert!(
                    lanes(out).iter().flatten().all(|limb| *limb < (1 << 50) + (1 << 37)),
                    "{name}: a limb too long"
                );
                got.reduced(isa).put(isa, out);
                let factors = lanes(a).into_iter().zip(lanes(b));
                for (lane, (got, (a, b))) in lanes(out).into_iter().zip(factors).enumerate() {
                    let expected = reduce(&expected(&number(&a), &number(&b)));
                    assert_eq!(number(&got), expected, "{name}: lane {lane}, round {round}");
                    assert_eq!(limbs_of(words_of(got)), got, "{name}");
                }
            };
            let minus = |a: &BoxedUint, b: &BoxedUint| {
                a.wrapping_add(modulus().as_ref().wrapping_mul(small(8))).wrapping_sub(b)
            };
            check("product", x.factor().mul(isa, &y.factor()), &|a, b| a.wrapping_mul(b));
            check("square", x.factor().square(isa), &|a, _| a.wrapping_mul(a));
            check("product of sums", sum.mul(isa, &difference), &|a, b| a.wrapping_add(b).wrapping_mul(minus(a, b)));
            check("square of a sum", sum.square(isa), &|a, b| a.wrapping_add(b).wrapping_mul(a.wrapping_add(b)));
            check("square of a difference", difference.square(isa), &|a, b| minus(a, b).wrapping_mul(minus(a, b)));
            check("multiple", x.add_times(isa, &difference, 39_081), &|a, b| {
                a.wrapping_add(minus(a, b).wrapping_mul(small(39_081)))
            });
            check("reduced", x, &|a, _| a.clone());
            if round < 4 {
                check("inverse", x.inverse(isa).factor().mul(isa, &x.factor()), &|a, _| {
                    small(u64::from(!bool::from(reduce(a).is_zero())))
                });
            }
            let (all, products) = (open.number(3 * LIMBS), open.number(3 * LIMBS));
            for index in 0..3 {
                for lane in 0..I::LANES {
                    let limbs = [random.next() >> 15, 1, 2, 3, index as u64, 5, 6, 7, 8];
                    all.part(index * LIMBS, LIMBS).set_number(lane, &limbs);
                }
            }
            let before: Vec<_> = (0..3).map(|index| lanes(all.part(index * LIMBS, LIMBS))).collect();
            invert_all(isa, all, products);
            for (index, before) in before.into_iter().enumerate() {
                for (inverse, element) in lanes(all.part(index * LIMBS, LIMBS)).into_iter().zip(before) {
                    assert_eq!(reduce(&number(&inverse).wrapping_mul(number(&element))), small(1));
                }
            }
        }
    }
}

#[test]
fn elements_are_those_of_big_integers() {
    for name in PublicKernel::NAMES {
        let Some(kernel) = PublicKernel::detect(name) else { continue };
        with_vectors(kernel, Compare);
    }
}
