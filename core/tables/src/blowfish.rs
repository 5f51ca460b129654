//! Blowfish (Schneier 1993), 16 rounds: a round adds a round key to the left half, looks its four bytes up in four
//! S-boxes, and adds what comes of it to the right half. Setting a key up takes 521 blocks.
// Loops over lanes and places index several arrays at once.
#![allow(clippy::needless_range_loop)]

use core::array;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::pi::PI;

const ROUNDS: usize = 16;

/// Words that are added to a block: one before each round, and two behind the last.
pub const ROUND_KEYS: usize = ROUNDS + 2;

/// Rounds of a block before it is the next one's turn: few enough for a processor to look over several turns, many
/// enough for halves to be worth fetching.
const TURN: usize = 2;

/// Keys that are set up side by side.
const SET_UP_LANES: usize = 8;

/// What a key becomes.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub struct Tables {
    /// The S-boxes, for the highest byte of a half first.
    pub sboxes: [[u32; 256]; 4],
    /// The round keys.
    pub keys: [u32; ROUND_KEYS],
    /// The same from the last to the first, for deciphering.
    pub reversed: [u32; ROUND_KEYS],
}

/// Sets keys up, several side by side. Their lengths are not looked at; Blowfish's own are 4 to 56 bytes. A key of no
/// bytes adds nothing.
pub fn set_up(keys: &[&[u8]]) -> Vec<Box<Tables>> {
    let mut tables: Vec<Box<Tables>> = keys.iter().map(|_| Box::new(Tables::start())).collect();
    let ((some, rest), (some_keys, rest_keys)) = (tables.as_chunks_mut::<SET_UP_LANES>(), keys.as_chunks());
    for (some, keys) in some.iter_mut().zip(some_keys) {
        set_up_side_by_side(some, keys);
    }
    for (one, key) in rest.iter_mut().zip(rest_keys) {
        set_up_side_by_side(array::from_mut(one), array::from_ref(key));
    }
    tables
}

impl Tables {
    /// The tables before there is a key: the fraction of pi.
    fn start() -> Tables {
        let (keys, words) = PI.split_at(ROUND_KEYS);
        let mut tables = Tables { sboxes: [[0; 256]; 4], keys: [0; ROUND_KEYS], reversed: [0; ROUND_KEYS] };
        tables.keys.copy_from_slice(keys);
        tables.sboxes.as_flattened_mut().copy_from_slice(words);
        tables
    }
}

/// Adds each key to the round keys of its tables, then replaces all of them by what the cipher makes of zero under the
/// tables as they are by then: 521 blocks, each waiting for the one before.
fn set_up_side_by_side<const N: usize>(tables: &mut [Box<Tables>; N], keys: &[&[u8]; N]) {
    for (tables, key) in tables.iter_mut().zip(keys) {
        let mut bytes = key.iter().cycle();
        for word in &mut tables.keys {
            *word ^= bytes.by_ref().take(4).fold(0, |word, byte| word << 8 | u32::from(*byte));
        }
    }
    let (mut left, mut right) = ([0; N], [0; N]);
    let next = |tables: &[Box<Tables>; N], left: &mut [u32; N], right: &mut [u32; N]| {
        rounds::<N, true>(&array::from_fn(|n| &*tables[n]), left, right);
    };
    for at in 0..ROUND_KEYS / 2 {
        next(tables, &mut left, &mut right);
        for n in 0..N {
            tables[n].keys[2 * at] = left[n];
            tables[n].keys[2 * at + 1] = right[n];
        }
    }
    for sbox in 0..4 {
        for at in 0..128 {
            next(tables, &mut left, &mut right);
            for n in 0..N {
                tables[n].sboxes[sbox][2 * at] = left[n];
                tables[n].sboxes[sbox][2 * at + 1] = right[n];
            }
        }
    }
    for tables in tables {
        tables.reversed = tables.keys;
        tables.reversed.reverse();
    }
    left.zeroize();
    right.zeroize();
}

/// The function of a half.
#[inline(always)]
pub fn f(sboxes: &[[u32; 256]; 4], half: u32) -> u32 {
    // Not `to_be_bytes`, which turns the word before it is cut.
    let byte = |shift: u32| usize::from((half >> shift) as u8);
    let sum = sboxes[0][byte(24)].wrapping_add(sboxes[1][byte(16)]) ^ sboxes[2][byte(8)];
    sum.wrapping_add(sboxes[3][byte(0)])
}

/// Enciphers or deciphers `N` blocks, each under its own tables: all rounds, in turns.
#[inline(always)]
pub fn rounds<const N: usize, const ENCRYPTS: bool>(tables: &[&Tables; N], left: &mut [u32; N], right: &mut [u32; N]) {
    let keys = |n: usize| if ENCRYPTS { &tables[n].keys } else { &tables[n].reversed };
    for n in 0..N {
        left[n] ^= keys(n)[0];
    }
    for turn in 0..ROUNDS / TURN {
        for n in 0..N {
            let (sboxes, keys) = (&tables[n].sboxes, keys(n));
            let (mut l, mut r) = (left[n], right[n]);
            // A round key is added before the function's value is there, which is waited for.
            for pair in 0..TURN / 2 {
                let at = TURN * turn + 2 * pair;
                r = (r ^ keys[at + 1]) ^ f(sboxes, l);
                l = (l ^ keys[at + 2]) ^ f(sboxes, r);
            }
            (left[n], right[n]) = (l, r);
        }
    }
    for n in 0..N {
        // The last exchange of halves is none.
        (left[n], right[n]) = (right[n] ^ keys(n)[ROUNDS + 1], left[n]);
    }
}
