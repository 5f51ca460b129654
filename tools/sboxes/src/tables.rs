//! The eight S-boxes of DES (FIPS 46-3, Appendix 1) as truth tables.

/// A Boolean function of the six inputs of an S-box: bit `m` is its value where `a1..a6`, read as a binary number with
/// `a1` first, are `m`.
pub(crate) type Truth = u64;

/// Number of S-boxes.
pub(crate) const BOXES: usize = 8;

/// Number of inputs of an S-box.
pub(crate) const INPUTS: usize = 6;

/// Number of outputs of an S-box.
pub(crate) const OUTPUTS: usize = 4;

/// The tables as they are printed: a row is chosen by `a1 a6`, a column by `a2 a3 a4 a5`.
#[rustfmt::skip]
const PRINTED: [[[u8; 16]; 4]; BOXES] = [
    [
        [14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7],
        [0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8],
        [4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0],
        [15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13],
    ],
    [
        [15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10],
        [3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5],
        [0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15],
        [13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9],
    ],
    [
        [10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8],
        [13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1],
        [13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7],
        [1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12],
    ],
    [
        [7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15],
        [13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9],
        [10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4],
        [3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14],
    ],
    [
        [2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9],
        [14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6],
        [4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14],
        [11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3],
    ],
    [
        [12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11],
        [10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8],
        [9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6],
        [4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13],
    ],
    [
        [4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1],
        [13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6],
        [1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2],
        [6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12],
    ],
    [
        [13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7],
        [1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2],
        [7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8],
        [2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11],
    ],
];

/// What S-box `index` (0 for S1) gives for the six bits `a1 a2 a3 a4 a5 a6`, `a1` the most significant.
pub(crate) fn look_up(index: usize, bits: usize) -> u8 {
    let row = (bits >> 4 & 2) | (bits & 1);
    PRINTED[index][row][bits >> 1 & 15]
}

/// The truth tables of `a1..a6` themselves.
pub(crate) fn inputs() -> [Truth; INPUTS] {
    std::array::from_fn(|input| (0..64).filter(|m| m >> (INPUTS - 1 - input) & 1 == 1).map(|m| 1 << m).sum())
}

/// The truth tables of the outputs of S-box `index`, the most significant output first.
pub(crate) fn outputs(index: usize) -> [Truth; OUTPUTS] {
    std::array::from_fn(|output| {
        let is_set = |&m: &usize| look_up(index, m) >> (OUTPUTS - 1 - output) & 1 == 1;
        (0..64).filter(is_set).map(|m| 1 << m).sum()
    })
}

#[cfg(test)]
mod tests {
    use des::Des;
    use des::cipher::{BlockCipherEncrypt, KeyInit};

    use super::*;

    const INITIAL: [usize; 8] = [58, 60, 62, 64, 57, 59, 61, 63];
    const EXPANSION_STARTS: [usize; 8] = [32, 4, 8, 12, 16, 20, 24, 28];
    #[rustfmt::skip]
    const PERMUTATION: [usize; 32] = [
        16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
        2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
    ];
    #[rustfmt::skip]
    const CHOICE_1: [usize; 56] = [
        57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
        63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
    ];
    #[rustfmt::skip]
    const CHOICE_2: [usize; 48] = [
        14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
        41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
    ];

    /// FIPS 46-3 by the letter, slowly, with the tables under test.
    fn encrypt(key: [u8; 8], block: [u8; 8]) -> [u8; 8] {
        let bits = |bytes: [u8; 8]| -> Vec<bool> { (0..64).map(|i| bytes[i / 8] >> (7 - i % 8) & 1 == 1).collect() };
        let (key, block) = (bits(key), bits(block));
        let initial: Vec<usize> = INITIAL.iter().flat_map(|&start| (0..8).map(move |k| start - 8 * k)).collect();
        let mixed: Vec<bool> = initial.iter().map(|&from| block[from - 1]).collect();
        let (mut left, mut right) = (mixed[..32].to_vec(), mixed[32..].to_vec());
        let mut registers: Vec<bool> = CHOICE_1.iter().map(|&from| key[from - 1]).collect();
        for round in 0..16 {
            let shift = if [0, 1, 8, 15].contains(&round) { 1 } else { 2 };
            registers[..28].rotate_left(shift);
            registers[28..].rotate_left(shift);
            let mut substituted = Vec::new();
            for index in 0..BOXES {
                let bit = |i: usize| {
                    let expanded = right[(EXPANSION_STARTS[index] + i + 31) % 32];
                    usize::from(expanded ^ registers[CHOICE_2[6 * index + i] - 1])
                };
                let value = look_up(index, (0..6).fold(0, |bits, i| bits << 1 | bit(i)));
                substituted.extend((0..4).map(|i| value >> (3 - i) & 1 == 1));
            }
            let next = (0..32).map(|i| left[i] ^ substituted[PERMUTATION[i] - 1]).collect();
            left = std::mem::replace(&mut right, next);
        }
        let before: Vec<bool> = right.into_iter().chain(left).collect();
        let mut result = [0; 8];
        for (at, &to) in initial.iter().enumerate() {
            result[(to - 1) / 8] |= u8::from(before[at]) << (7 - (to - 1) % 8);
        }
        result
    }

    #[test]
    fn des_with_these_tables_is_des() {
        let mut state = 0x0123_4567_89ab_cdef_u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state ^ state >> 29).to_be_bytes()
        };
        // 16 look-ups a block in every table: each of its 64 entries is used some 64 times.
        for _ in 0..256 {
            let (key, block) = (next(), next());
            let mut expected = block.into();
            Des::new(&key.into()).encrypt_block(&mut expected);
            assert_eq!(encrypt(key, block), <[u8; 8]>::from(expected));
        }
        // The published example of FIPS 81: the key 0123456789abcdef, the text "Now is t".
        let known = encrypt([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef], *b"Now is t");
        assert_eq!(known, [0x3f, 0xa4, 0x0e, 0x8a, 0x98, 0x4d, 0x48, 0x15]);
    }

    #[test]
    fn every_row_is_a_permutation() {
        for (row, table) in PRINTED.as_flattened().iter().enumerate() {
            let seen = table.iter().fold(0u16, |seen, value| seen | 1 << value);
            assert_eq!(seen, u16::MAX, "S{} row {}", row / 4 + 1, row % 4);
        }
    }

    #[test]
    fn truth_tables_agree_with_the_printed_ones() {
        assert_eq!(inputs()[5], 0xaaaa_aaaa_aaaa_aaaa);
        assert_eq!(inputs()[0], 0xffff_ffff_0000_0000);
        for index in 0..BOXES {
            let truth = outputs(index);
            for m in 0..64 {
                let value = truth.iter().fold(0, |value, t| value << 1 | (t >> m & 1) as u8);
                assert_eq!(value, look_up(index, m));
            }
        }
        // S1 for 011011 is 5: the example of FIPS 46-3.
        assert_eq!(look_up(0, 0b011011), 5);
    }
}
