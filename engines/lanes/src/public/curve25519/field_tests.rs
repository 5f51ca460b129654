//! The field against a library of big integers, with random and extreme limbs, by every kernel that this processor can run.

use crypto_bigint::U512;

use super::super::isa::{PublicKernel, Vectors, public_kernels};
use super::super::room::{Place, Room};
use super::super::samples::Random;
use super::field::{Element, LIMBS, invert_all, limbs_of, words_of};
use super::isa::FieldIsa;

/// Limbs of an element: random, or the least, or the largest that there are, or a few around the modulus.
fn limbs(random: &mut Random) -> [u64; LIMBS] {
    const ONES: u64 = (1 << 51) - 1;
    if random.next().is_multiple_of(8) {
        return [ONES - random.next() % 32, ONES, ONES, ONES, ONES];
    }
    random.limbs(LIMBS, ONES + (1 << 17)).try_into().expect("as many")
}

/// `2^255 - 19`.
fn modulus() -> U512 {
    U512::ONE.shl(255).wrapping_sub(&U512::from(19u64))
}

fn reduce(number: U512) -> U512 {
    number.rem_vartime(&modulus().to_nz().expect("not zero"))
}

fn number(limbs: [u64; LIMBS]) -> U512 {
    reduce(limbs.iter().rev().fold(U512::ZERO, |sum, limb| sum.shl(51).wrapping_add(&U512::from(*limb))))
}

fn times(a: U512, b: U512) -> U512 {
    reduce(a.wrapping_mul(&b))
}

fn power(base: U512, exponent: U512) -> U512 {
    (0..256).rev().fold(U512::ONE, |power, bit| {
        let power = times(power, power);
        if bool::from(exponent.bit(bit)) { times(power, base) } else { power }
    })
}

fn lanes<I: Vectors>(place: Place<I>) -> Vec<[u64; LIMBS]> {
    (0..I::LANES).map(|lane| core::array::from_fn(|i| place.lane(lane, i))).collect()
}

#[inline(always)]
fn compare<I: FieldIsa>(isa: I, rounds: usize) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut room = Room::default();
    for round in 0..rounds {
        let mut open = room.open::<I>(9 * LIMBS);
        let [a, b, out] = [(); 3].map(|()| open.number(LIMBS));
        for lane in 0..I::LANES {
            a.set_number(lane, &limbs(&mut random));
            b.set_number(lane, &limbs(&mut random));
        }
        let (x, y) = (Element::get(isa, a), Element::get(isa, b));
        let (p, negative) = (modulus(), |number: U512| reduce(modulus().wrapping_sub(&number)));
        let check = |name: &str, got: Element<I>, expected: &dyn Fn(U512, U512) -> U512| {
            got.put(isa, out);
            let loose = lanes(out);
            assert!(loose.iter().flatten().all(|limb| *limb < (1 << 51) + (1 << 17)), "{name}: a limb too long");
            got.reduced(isa).put(isa, out);
            for (lane, (limbs, (a, b))) in lanes(out).into_iter().zip(lanes(a).into_iter().zip(lanes(b))).enumerate() {
                let expected = expected(number(a), number(b));
                let words = words_of(limbs);
                let got = words.iter().rev().fold(U512::ZERO, |sum, word| sum.shl(64).wrapping_add(&U512::from(*word)));
                assert_eq!(got, expected, "{name}: lane {lane}, round {round}");
                assert_eq!(limbs_of(words), limbs);
            }
        };
        check("product", x.mul(isa, &y).carry(isa), &times);
        check("square", x.square(isa).carry(isa), &|a, _| times(a, a));
        check("negative", x.negative(isa).mul(isa, &y.negative(isa)).carry(isa), &times);
        check("sum", x.add(isa, &y).carry(isa), &|a, b| reduce(a.wrapping_add(&b)));
        check("difference", x.sub(isa, &y).carry(isa), &|a, b| reduce(a.wrapping_add(&negative(b))));
        check("reduced", x, &|a, _| a);
        let sums = x.square(isa).double(isa).add(isa, &y.square(isa)).sub(isa, &x.mul(isa, &y)).carry(isa);
        check("sums of products", sums, &|a, b| {
            reduce(
                times(a, a)
                    .wrapping_mul(&U512::from(2u64))
                    .wrapping_add(&times(b, b))
                    .wrapping_add(&negative(times(a, b))),
            )
        });
        check("multiple", x.add_times(isa, &y, 121_665).carry(isa), &|a, b| {
            reduce(a.wrapping_add(&b.wrapping_mul(&U512::from(121_665u64))))
        });
        if round < 8 {
            check("inverse", x.inverse(isa), &|a, _| power(a, p.wrapping_sub(&U512::from(2u64))));
            let of_root = U512::ONE.shl(252).wrapping_sub(&U512::from(3u64));
            check("power of a root", x.power_of_root(isa), &|a, _| power(a, of_root));
            let equal = isa.bits(x.equals(isa, &y.add(isa, &x).sub(isa, &y.columns()).carry(isa)));
            assert_eq!(equal, (1 << I::LANES) - 1);
            let differ = isa.bits(x.equals(isa, &x.add(isa, &Element::one(isa)).carry(isa)));
            assert_eq!(differ, 0);
        }
        let (all, products) = (open.number(3 * LIMBS), open.number(3 * LIMBS));
        for index in 0..3 {
            for lane in 0..I::LANES {
                all.part(index * LIMBS, LIMBS).set_number(lane, &[random.next() >> 14, 1, 2, 3, index as u64]);
            }
        }
        let before: Vec<_> = (0..3).map(|index| lanes(all.part(index * LIMBS, LIMBS))).collect();
        invert_all(isa, all, products);
        for (index, before) in before.into_iter().enumerate() {
            for (inverse, element) in lanes(all.part(index * LIMBS, LIMBS)).into_iter().zip(before) {
                assert_eq!(times(number(inverse), number(element)), U512::ONE);
            }
        }
    }
}

public_kernels! {
    fn compare_with(rounds: usize) = compare
}

#[test]
fn elements_are_those_of_big_integers() {
    for name in PublicKernel::NAMES {
        let Some(kernel) = PublicKernel::detect(name) else { continue };
        compare_with(kernel, 64);
    }
}
