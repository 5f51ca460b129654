//! The round constants of MD5, SHA-1 and SHA-2, from their definitions.

use std::fmt::Write as _;

/// The header of all constants.
pub(crate) fn render() -> String {
    let mut text = super::head(
        " * Round constants: MD5 (RFC 1321, 3.4), SHA-1 (FIPS 180-4, 4.2.1), SHA-2 (FIPS 180-4, 4.2.2 and 4.2.3).\n",
    );
    let words = |values: Vec<u32>| values.into_iter().map(|value| format!("0x{value:08x}u")).collect();
    table(&mut text, "u32 md5_sines[64]", words(md5()));
    table(&mut text, "u32 sha1_constants[4]", words(sha1()));
    let sha512 = cube_roots();
    table(&mut text, "u32 sha256_constants[64]", words(sha512[..64].iter().map(|root| (root >> 32) as u32).collect()));
    let long = sha512.into_iter().map(|root| format!("LITERAL_64(0x{root:016x})")).collect();
    table(&mut text, "u64 sha512_constants[80]", long);
    text
}

/// A table of constants, four in a line.
pub(super) fn table(text: &mut String, name: &str, values: Vec<String>) {
    let _ = write!(text, "\nCONSTANT {name} = {{\n");
    for line in values.chunks(4) {
        let _ = writeln!(text, "    {},", line.join(", "));
    }
    text.push_str("};\n");
}

/// The whole part of 2^32 times the sine of the step's number, in radians, without its sign.
fn md5() -> Vec<u32> {
    (1..=64).map(|step| (f64::from(step).sin().abs() * 4_294_967_296.0) as u32).collect()
}

/// 2^30 times the square roots of 2, 3, 5 and 10.
fn sha1() -> Vec<u32> {
    [2u128, 3, 5, 10].map(|number| (number << 60).isqrt() as u32).to_vec()
}

/// The first 64 bits behind the point of the cube roots of the first eighty primes; SHA-256 takes the first 32 of those.
fn cube_roots() -> Vec<u64> {
    let primes = (2u32..).filter(|number| (2..*number).all(|divisor| number % divisor != 0));
    primes.take(80).map(cube_root_fraction).collect()
}

/// The largest number whose cube is at most `prime · 2^192`, without what stands before the point.
fn cube_root_fraction(prime: u32) -> u64 {
    // Little-endian limbs of 32 bits; the target is the prime six limbs up.
    let target: Vec<u32> = [0, 0, 0, 0, 0, 0, prime].to_vec();
    let mut root = 0u128;
    for bit in (0..68).rev() {
        let candidate = root | 1 << bit;
        let limbs = [candidate as u32, (candidate >> 32) as u32, (candidate >> 64) as u32];
        if at_most(&multiply(&multiply(&limbs, &limbs), &limbs), &target) {
            root = candidate;
        }
    }
    root as u64
}

fn multiply(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut product = vec![0u32; a.len() + b.len()];
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0u64;
        for (j, b) in b.iter().enumerate() {
            let sum = u64::from(*a) * u64::from(*b) + u64::from(product[i + j]) + carry;
            product[i + j] = sum as u32;
            carry = sum >> 32;
        }
        product[i + b.len()] = carry as u32;
    }
    product
}

fn at_most(a: &[u32], b: &[u32]) -> bool {
    let limb = |number: &[u32], at: usize| number.get(at).copied().unwrap_or(0);
    let differing = (0..a.len().max(b.len())).rev().find(|at| limb(a, *at) != limb(b, *at));
    differing.is_none_or(|at| limb(a, at) < limb(b, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_the_standards() {
        // The first and last of each list.
        let md5 = md5();
        assert_eq!((md5[0], md5[63]), (0xd76a_a478, 0xeb86_d391));
        assert_eq!(sha1(), [0x5a82_7999, 0x6ed9_eba1, 0x8f1b_bcdc, 0xca62_c1d6]);
        let roots = cube_roots();
        assert_eq!((roots[0], roots[79]), (0x428a_2f98_d728_ae22, 0x6c44_198c_4a47_5817));
    }
}
