//! P-256's constants and the table of its base point, as `kernels/ec/p256.h` wants them: limbs of 29 bits, numbers modulo p
//! in Montgomery's form with R = 2^261. The points are the p256 crate's.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use p256::elliptic_curve::Group;
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{AffinePoint, ProjectivePoint};

/// Limbs of a number, their bits, and the bits of R.
const LIMBS: usize = 9;
const LIMB_BITS: usize = 29;
const R_BITS: usize = LIMBS * LIMB_BITS;

/// Windows of the comb and their bits; must agree with `kernels/ec/comb.h`.
const WINDOWS: usize = 51;
const WINDOW_BITS: usize = 5;

/// 2^256 - 2^224 + 2^192 + 2^96 - 1 (NIST SP 800-186, 3.2.1.3), least significant word first.
const PRIME: [u32; 8] = [0xffff_ffff, 0xffff_ffff, 0xffff_ffff, 0, 0, 0, 1, 0xffff_ffff];

/// The curve's b (the same).
const B: [u32; 8] =
    [0x27d2_604b, 0x3bce_3c3e, 0xcc53_b0f6, 0x651d_06b0, 0x7698_86bc, 0xb3eb_bd55, 0xaa3a_93e7, 0x5ac6_35d8];

/// A number below p.
type Number = [u32; 8];

/// The header of all constants.
pub(crate) fn render() -> Result<String> {
    let mut text = super::head(
        " * P-256 in limbs of 29 bits: its prime, numbers in Montgomery's form with R = 2^261, and odd multiples of the base\n \
         * point G, x and y of each: (1, 3 .. 31) * 32^i * G for every window i. The comb begins with 2^255 G.\n",
    );
    let one = times_power_of_two([1, 0, 0, 0, 0, 0, 0, 0], R_BITS);
    numbers(&mut text, "p256_prime", &[PRIME]);
    numbers(&mut text, "p256_one", &[one]);
    numbers(&mut text, "p256_r_squared", &[times_power_of_two(one, R_BITS)]);
    numbers(&mut text, "p256_four_b", &[times_power_of_two(B, R_BITS + 2)]);
    let mut window = ProjectivePoint::GENERATOR;
    let mut points = Vec::new();
    for _ in 0..WINDOWS {
        let (mut odd, twice) = (window, window.double());
        for _ in 0..1 << (WINDOW_BITS - 1) {
            points.push(odd);
            odd += twice;
        }
        for _ in 0..WINDOW_BITS {
            window = window.double();
        }
    }
    numbers(&mut text, "p256_comb_begin", &coordinates(&window.to_affine())?);
    let mut comb = Vec::with_capacity(2 * points.len());
    for point in &points {
        comb.extend(coordinates(&point.to_affine())?);
    }
    numbers(&mut text, "p256_comb", &comb);
    Ok(text)
}

/// A point's x and y in Montgomery's form.
fn coordinates(point: &AffinePoint) -> Result<[Number; 2]> {
    let bytes = point.to_sec1_point(false);
    let number = |bytes: &[u8]| {
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.rchunks(4)) {
            *word = bytes.iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
        times_power_of_two(words, R_BITS)
    };
    let (x, y) = (bytes.x().context("the point at infinity")?, bytes.y().context("the point at infinity")?);
    Ok([number(x), number(y)])
}

/// A number times a power of two, modulo p.
fn times_power_of_two(mut number: Number, power: usize) -> Number {
    for _ in 0..power {
        let mut carry = 0;
        let mut twice = number;
        for word in &mut twice {
            (*word, carry) = (*word << 1 | carry, *word >> 31);
        }
        let mut borrow = 0;
        let mut reduced = twice;
        for (word, prime) in reduced.iter_mut().zip(PRIME) {
            let difference = i64::from(*word) - i64::from(prime) - borrow;
            (*word, borrow) = (difference as u32, i64::from(difference < 0));
        }
        number = if i64::from(carry) >= borrow { reduced } else { twice };
    }
    number
}

fn limbs(number: &Number) -> [u32; LIMBS] {
    core::array::from_fn(|limb| {
        let (word, shift) = (limb * LIMB_BITS / 32, limb * LIMB_BITS % 32);
        let next = number.get(word + 1).copied().unwrap_or(0);
        ((u64::from(next) << 32 | u64::from(number[word])) >> shift) as u32 & ((1 << LIMB_BITS) - 1)
    })
}

/// Numbers as one array of limbs, a line each.
fn numbers(text: &mut String, name: &str, numbers: &[Number]) {
    let _ = writeln!(text, "\nCONSTANT s32 {name}[{}] = {{", LIMBS * numbers.len());
    for number in numbers {
        let limbs = limbs(number).map(|limb| format!("0x{limb:08x}"));
        let _ = writeln!(text, "    {},", limbs.join(", "));
    }
    text.push_str("};\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_modulo_the_prime() {
        // Montgomery's form of p - 1 is the negative of that of one.
        let mut last = PRIME;
        last[0] -= 1;
        let (one, minus_one) = (times_power_of_two([1, 0, 0, 0, 0, 0, 0, 0], R_BITS), times_power_of_two(last, R_BITS));
        let mut carry = 0;
        for ((a, b), prime) in one.into_iter().zip(minus_one).zip(PRIME) {
            carry += u64::from(a) + u64::from(b);
            assert_eq!(carry as u32, prime);
            carry >>= 32;
        }
        assert_eq!(
            limbs(&PRIME),
            [0x1fff_ffff, 0x1fff_ffff, 0x1fff_ffff, 0x1ff, 0, 0, 1 << 18, 0x1fe0_0000, 0xff_ffff]
        );
    }
}
