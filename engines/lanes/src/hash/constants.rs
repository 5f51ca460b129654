//! The digests' constants, computed when this is compiled from what the standards say they are.

/// The first sixty-four bits behind the point of the cube roots of the first eighty primes (FIPS 180-4, 4.2.3); their
/// upper halves are SHA-256's (4.2.2).
pub(super) const CUBE_ROOTS: [u64; 80] = roots::<80>(3, 0);

/// The same of the square roots of the first eight primes (5.3.5; upper halves: 5.3.3) and of the next eight (5.3.4; lower
/// halves: 5.3.2).
pub(super) const SQUARE_ROOTS: [u64; 16] = roots::<16>(2, 0);

/// Where SHA-512/256 starts: SHA-512 of its name, from a start with every byte changed by a5 (FIPS 180-4, 5.3.6).
pub(super) const SHA512_256_START: [u64; 8] = {
    let mut state = [0; 8];
    let mut at = 0;
    while at < 8 {
        state[at] = SQUARE_ROOTS[at] ^ 0xa5a5_a5a5_a5a5_a5a5;
        at += 1;
    }
    // The name, the padding's first bit, and the length in bits.
    let mut block = [0; 16];
    block[0] = u64::from_be_bytes(*b"SHA-512/");
    block[1] = u64::from_be_bytes(*b"256\x80\0\0\0\0");
    block[15] = 8 * 11;
    sha512(state, block)
};

/// SHA-512's compression of one block (FIPS 180-4, 6.4.2).
const fn sha512(start: [u64; 8], block: [u64; 16]) -> [u64; 8] {
    let (mut w, mut s) = (block, start);
    let mut round = 0;
    while round < 80 {
        if round >= 16 {
            let (early, late) = (w[(round + 1) % 16], w[(round + 14) % 16]);
            let low = early.rotate_right(1) ^ early.rotate_right(8) ^ early >> 7;
            let high = late.rotate_right(19) ^ late.rotate_right(61) ^ late >> 6;
            w[round % 16] = w[round % 16].wrapping_add(low).wrapping_add(w[(round + 9) % 16]).wrapping_add(high);
        }
        let [a, b, c, d, e, f, g, h] = s;
        let upper = e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41);
        let lower = a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39);
        let first = h.wrapping_add(upper).wrapping_add((e & f) ^ (!e & g)).wrapping_add(CUBE_ROOTS[round]);
        let first = first.wrapping_add(w[round % 16]);
        let second = lower.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        s = [first.wrapping_add(second), a, b, c, d.wrapping_add(first), e, f, g];
        round += 1;
    }
    let mut at = 0;
    while at < 8 {
        s[at] = s[at].wrapping_add(start[at]);
        at += 1;
    }
    s
}

/// MD5's additive constants: 2^32 times the sine's absolute value (RFC 1321, 3.4).
#[rustfmt::skip]
pub(super) const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Keccak's round constants (FIPS 202, 3.2.5).
pub(super) const IOTA: [u64; 24] = iota();

const fn roots<const N: usize>(power: u32, mut prime: u64) -> [u64; N] {
    let mut all = [0; N];
    let mut at = 0;
    while at < N {
        prime = next_prime(prime);
        all[at] = root_fraction(prime, power);
        at += 1;
    }
    all
}

const fn next_prime(after: u64) -> u64 {
    let mut number = after + 1;
    loop {
        let mut divisor = 2;
        while divisor < number && !number.is_multiple_of(divisor) {
            divisor += 1;
        }
        if number > 1 && divisor == number {
            return number;
        }
        number += 1;
    }
}

/// A number of 256 bits, the least significant first.
type Wide = [u64; 4];

/// The fraction of a prime's root, 64 bits: the largest `x` whose power is at most `prime · 2^(64 · power)`, bit by bit.
const fn root_fraction(prime: u64, power: u32) -> u64 {
    let mut limit: Wide = [0; 4];
    limit[power as usize] = prime;
    let mut root: u128 = 0;
    let mut bit = 70;
    while bit > 0 {
        bit -= 1;
        let tried = root | 1 << bit;
        let mut product: Wide = [1, 0, 0, 0];
        let mut factor = 0;
        while factor < power {
            product = times(product, tried);
            factor += 1;
        }
        if is_at_most(product, limit) {
            root = tried;
        }
    }
    root as u64
}

/// A product; nothing here exceeds 256 bits.
const fn times(a: Wide, b: u128) -> Wide {
    let factors = [b as u64, (b >> 64) as u64];
    let mut product: Wide = [0; 4];
    let mut j = 0;
    while j < 2 {
        let mut carry: u128 = 0;
        let mut i = 0;
        while i + j < 4 {
            let sum = a[i] as u128 * factors[j] as u128 + product[i + j] as u128 + carry;
            product[i + j] = sum as u64;
            carry = sum >> 64;
            i += 1;
        }
        j += 1;
    }
    product
}

const fn is_at_most(a: Wide, b: Wide) -> bool {
    let mut at = 4;
    while at > 0 {
        at -= 1;
        if a[at] != b[at] {
            return a[at] < b[at];
        }
    }
    true
}

const fn iota() -> [u64; 24] {
    let mut constants = [0; 24];
    let mut register: u8 = 1;
    let mut round = 0;
    while round < 24 {
        let mut power = 0;
        while power < 7 {
            if register & 1 == 1 {
                constants[round] |= 1 << ((1 << power) - 1);
            }
            register = (register << 1) ^ ((register >> 7) * 0x71);
            power += 1;
        }
        round += 1;
    }
    constants
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_are_the_sines() {
        for (i, constant) in SINES.iter().enumerate() {
            let sine = ((i + 1) as f64).sin().abs() * 4_294_967_296.0;
            assert_eq!(*constant, sine as u32, "{i}");
        }
    }

    /// The first and last of each table as the standards print them.
    #[test]
    fn tables_begin_and_end_as_printed() {
        assert_eq!((SHA512_256_START[0], SHA512_256_START[7]), (0x2231_2194_fc2b_f72c, 0x0eb7_2ddc_81c5_2ca2));
        assert_eq!((CUBE_ROOTS[0], CUBE_ROOTS[79]), (0x428a_2f98_d728_ae22, 0x6c44_198c_4a47_5817));
        assert_eq!((SQUARE_ROOTS[0], SQUARE_ROOTS[15]), (0x6a09_e667_f3bc_c908, 0x47b5_481d_befa_4fa4));
        assert_eq!((IOTA[0], IOTA[1], IOTA[23]), (1, 0x8082, 0x8000_0000_8000_8008));
    }
}
