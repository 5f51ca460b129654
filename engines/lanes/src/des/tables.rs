//! The wiring of DES (FIPS 46-3): permutations as indices, worked out at compile time.
//!
//! A block's 64 bits lie in slices numbered as they lie in a little-endian 64-bit number: slice `8·byte + bit`, where the
//! standard's bit 1 is byte 0's bit 7.

/// Slices of one key as the rounds read them: both halves of the key register, each twice in a row, so that a rotated
/// register is the same register read from further on.
pub(crate) const KEY_SLICES: usize = 4 * HALF;

/// Bits of half a key register.
const HALF: usize = 28;

/// The register's upper half C (FIPS 46-3, permuted choice 1).
#[rustfmt::skip]
const PC1_C: [u8; HALF] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18,
    10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36,
];

/// The register's lower half D.
#[rustfmt::skip]
const PC1_D: [u8; HALF] = [
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22,
    14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];

/// FIPS 46-3, permuted choice 2.
#[rustfmt::skip]
const PC2: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10,
    23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2,
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48,
    44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];

/// FIPS 46-3, permutation P.
#[rustfmt::skip]
const P: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10,
    2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4, 25,
];

/// How far both halves of the key register are rotated in each round, summed up.
pub(crate) const ROTATIONS: [u8; 16] = [1, 2, 4, 6, 8, 10, 12, 14, 15, 17, 19, 21, 23, 25, 27, 28];

/// Rotations by round, the first 16 for encryption, the others for decryption.
pub(crate) const ROTATIONS_BOTH: [[u8; 16]; 2] = [ROTATIONS, reversed(ROTATIONS)];

/// Where in the halved and doubled key register of rotation 0 each bit of a round key lies; add the rotation.
pub(crate) const ROUND_KEY: [usize; 48] = round_key();

/// Bits of the right half that an S-box takes (FIPS 46-3, E): `EXPANSION[box][input]`.
pub(crate) const EXPANSION: [[usize; 6]; 8] = expansion();

/// Where P takes an S-box's result: `PERMUTED[box][output]`.
pub(crate) const PERMUTED: [[usize; 4]; 8] = permuted();

/// Where a key's slice goes: its first place among [`KEY_SLICES`]; the second is 28 further on. Parity bits go nowhere.
pub(crate) const KEY_PLACE: [Option<u8>; 64] = key_place();

const fn reversed(of: [u8; 16]) -> [u8; 16] {
    let mut to = [0; 16];
    let mut i = 0;
    while i < 16 {
        to[i] = of[15 - i];
        i += 1;
    }
    to
}

const fn round_key() -> [usize; 48] {
    let mut places = [0; 48];
    let mut i = 0;
    while i < 48 {
        let bit = PC2[i] as usize - 1;
        places[i] = if bit < HALF { bit } else { 2 * HALF + bit - HALF };
        i += 1;
    }
    places
}

const fn expansion() -> [[usize; 6]; 8] {
    let mut bits = [[0; 6]; 8];
    let mut i = 0;
    while i < 48 {
        bits[i / 6][i % 6] = (4 * (i / 6) + i % 6 + 31) % 32;
        i += 1;
    }
    bits
}

const fn permuted() -> [[usize; 4]; 8] {
    let mut places = [[0; 4]; 8];
    let mut to = 0;
    while to < 32 {
        let from = P[to] as usize - 1;
        places[from / 4][from % 4] = to;
        to += 1;
    }
    places
}

/// The slice of the standard's bit `number`, counted from 1.
const fn slice(number: u8) -> usize {
    let bit = number as usize - 1;
    bit / 8 * 8 + 7 - bit % 8
}

const fn key_place() -> [Option<u8>; 64] {
    let mut places = [None; 64];
    let mut i = 0;
    while i < HALF {
        places[slice(PC1_C[i])] = Some(i as u8);
        places[slice(PC1_D[i])] = Some((2 * HALF + i) as u8);
        i += 1;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wiring_reaches_every_place_once() {
        let sorted = |mut places: Vec<usize>| {
            places.sort_unstable();
            places
        };
        assert_eq!(sorted(PERMUTED.concat()), (0..32).collect::<Vec<_>>());
        let keys: Vec<usize> = KEY_PLACE.iter().flatten().map(|place| usize::from(*place)).collect();
        assert_eq!(sorted(keys), (0..28).chain(56..84).collect::<Vec<_>>());
        assert!((0..64).all(|slice| KEY_PLACE[slice].is_none() == (slice % 8 == 0)), "parity bits alone are left out");
        // FIPS 46-3, table E: first and last row.
        assert_eq!(EXPANSION[0], [31, 0, 1, 2, 3, 4]);
        assert_eq!(EXPANSION[7], [27, 28, 29, 30, 31, 0]);
    }

    #[test]
    fn rotated_registers_stay_within_their_half() {
        let furthest = usize::from(ROTATIONS[15]);
        assert!(ROUND_KEY.iter().all(|place| place % (2 * HALF) + furthest < 2 * HALF));
    }
}
