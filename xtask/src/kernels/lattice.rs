//! What the lattice schemes compute with: the permutation of SHA-3 and the number-theoretic transforms of ML-KEM and
//! ML-DSA, from their definitions.

use std::fmt::Write as _;

use super::digests::table;

/// ML-KEM's modulus and its root of unity of order 256 (FIPS 203, 2.4 and 4.3).
const KEM: (u64, u64) = (3329, 17);

/// ML-DSA's modulus and its root of unity of order 512 (FIPS 204, table 1).
const DSA: (u64, u64) = (8_380_417, 1753);

/// The header of all constants.
pub(crate) fn render() -> String {
    let mut text = super::head(
        " * Keccak-f[1600] (FIPS 202, 3.2): round constants, and the way that lanes take in rho and pi, each with its\n \
         * rotation. Powers of the roots of unity of ML-KEM (FIPS 203, 4.3) and ML-DSA (FIPS 204, 7.5) in the order in\n \
         * which the transforms use them; ML-DSA's are multiplied by 2^32.\n",
    );
    text.push_str("\n#define KECCAK_WAY(STEP)");
    for (lane, by) in keccak_way() {
        let _ = write!(text, " \\\n    STEP({lane}, {by})");
    }
    text.push('\n');
    let rounds = (0..24).map(|round| format!("LITERAL_64(0x{:016x})", round_constant(round))).collect();
    table(&mut text, "u64 keccak_rounds[24]", rounds);
    table(&mut text, "u32 ml_kem_zetas[128]", powers(KEM, 7, 1));
    table(&mut text, "u32 ml_dsa_zetas[256]", powers(DSA, 8, 1 << 32));
    let (kem, dsa) = (KEM.0, DSA.0);
    let _ = write!(
        text,
        "\n#define ML_KEM_Q {kem}u\n#define ML_KEM_Q_INVERSE {}u /* 2^32 / q, rounded down */\n\n#define ML_DSA_Q \
         {dsa}u\n#define ML_DSA_Q_NEGATED_INVERSE {}u /* -1 / q mod 2^32 */\n",
        (1u64 << 32) / kem,
        negated_inverse(dsa),
    );
    text
}

/// Where the lane that was carried last goes, and by how much it is rotated on its way, from lane 1 on: rho walks
/// through the lanes as pi maps them, with rotations by triangular numbers (FIPS 202, 3.2.2 and 3.2.3).
fn keccak_way() -> Vec<(u32, u32)> {
    let (mut x, mut y) = (1, 0);
    let step = |t: u32| {
        (x, y) = (y, (2 * x + 3 * y) % 5);
        // Pi takes what rho rotated at the former place to this one.
        (x + 5 * y, (t + 1) * (t + 2) / 2 % 64)
    };
    (0..24).map(step).collect()
}

/// The constant of a round: seven bits of a shift register at the places 2^j - 1 (FIPS 202, 3.2.5).
fn round_constant(round: u32) -> u64 {
    (0..7).map(|j| u64::from(register_bit(j + 7 * round)) << ((1 << j) - 1)).sum()
}

/// The bit that the shift register gives after `t` steps (FIPS 202, algorithm 5).
fn register_bit(t: u32) -> bool {
    let mut register = 1u32;
    for _ in 0..t % 255 {
        register <<= 1;
        if register & 0x100 != 0 {
            register ^= 0x171;
        }
    }
    register & 1 == 1
}

/// Powers of a root whose exponents are the numbers of `bits` bits in reversed order, times `factor`.
fn powers((modulus, root): (u64, u64), bits: u32, factor: u64) -> Vec<String> {
    let reversed = |number: u32| number.reverse_bits() >> (32 - bits);
    let value = |number| power(root, u64::from(reversed(number)), modulus) * (factor % modulus) % modulus;
    (0..1 << bits).map(|number| format!("{}u", value(number))).collect()
}

fn power(base: u64, exponent: u64, modulus: u64) -> u64 {
    (0..exponent).fold(1, |product, _| product * base % modulus)
}

/// The negated inverse of an odd number modulo 2^32: each step of Newton's doubles the bits that are right.
fn negated_inverse(number: u64) -> u32 {
    let number = number as u32;
    let step = |inverse: u32, _| inverse.wrapping_mul(2u32.wrapping_sub(number.wrapping_mul(inverse)));
    (0..5).fold(number, step).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_the_standards() {
        assert_eq!([round_constant(0), round_constant(1), round_constant(23)], [1, 0x8082, 0x8000_0000_8000_8008]);
        // FIPS 202, table 2: the lane at (0, 2) is rotated by 3 modulo 64, and pi takes it to (2, 1).
        let way = keccak_way();
        assert_eq!((way[0], way[1]), ((10, 1), (7, 3)));
        let mut lanes: Vec<u32> = way.iter().map(|(lane, _)| *lane).collect();
        lanes.sort_unstable();
        assert_eq!(lanes, (1..25).collect::<Vec<_>>(), "every lane but the first is moved once");
        // FIPS 203, appendix A, and FIPS 204, appendix B: the first powers behind 1.
        assert_eq!(powers(KEM, 7, 1)[..4], ["1u", "1729u", "2580u", "3289u"]);
        assert_eq!(powers(DSA, 8, 1)[..3], ["1u", "4808194u", "3765607u"]);
        assert_eq!(negated_inverse(DSA.0).wrapping_mul(DSA.0 as u32), u32::MAX);
    }
}
