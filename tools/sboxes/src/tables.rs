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
/// What is made of them is held to another copy by the tests of `engines/lanes`, where it also has to be DES.
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
    use super::*;

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
