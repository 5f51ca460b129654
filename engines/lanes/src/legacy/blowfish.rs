//! Blowfish (Schneier 1993), 16 rounds: a round adds a round key to the left half, looks its four bytes up in four
//! S-boxes, and adds what comes of it to the right half.
//!
//! # Floor
//! A block takes 64 lookups and 18 round keys; with two words in and one block out 85 loads and stores: 28 cycles at
//! three loads a cycle. It takes 12 instructions a round (four bytes cut out of a word, four lookups that are operands
//! of three additions, two more): about 200, or 34 cycles at six a cycle. Alone, a block takes 16 rounds of ten cycles
//! of latency. The tables of a key are 4 KB: messages of one key are worked on together, so that they are fetched once.

use core::array;

use ciphermill_contract::{PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::Prepared;
use super::blocks::Cipher;
use super::pi::PI;

const ROUNDS: usize = 16;
const ROUND_KEYS: usize = ROUNDS + 2;

/// Rounds of a block before it is the next one's turn: few enough for the processor to look over several turns, many
/// enough for halves to be worth fetching.
const TURN: usize = 2;

/// Keys that are set up side by side.
const SET_UP_LANES: usize = 8;

/// S-boxes and round keys.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub(super) struct Tables {
    sboxes: [[u32; 256]; 4],
    keys: [u32; ROUND_KEYS],
    /// For deciphering.
    reversed: [u32; ROUND_KEYS],
}

/// A prepared key. Its tables are made where they stay, so that no copies of them are left elsewhere.
pub(super) struct Key(Box<Tables>);

impl Cipher for Key {
    type Tables = Tables;

    #[inline(always)]
    fn tables(&self) -> &Tables {
        &self.0
    }

    #[inline(always)]
    fn encrypt<const N: usize>(tables: &[&Tables; N], left: &mut [u32; N], right: &mut [u32; N]) {
        rounds::<N, true>(tables, left, right);
    }

    #[inline(always)]
    fn decrypt<const N: usize>(tables: &[&Tables; N], left: &mut [u32; N], right: &mut [u32; N]) {
        rounds::<N, false>(tables, left, right);
    }
}

/// Prepares keys of 4 to 56 bytes, several side by side.
pub(super) fn prepare(keys: &[&[u8]], suite: Suite) -> Vec<Prepared> {
    let mut tables: Vec<Box<Tables>> = keys.iter().map(|_| Box::new(Tables::start())).collect();
    let ((some, rest), (some_keys, rest_keys)) = (tables.as_chunks_mut::<SET_UP_LANES>(), keys.as_chunks());
    for (some, keys) in some.iter_mut().zip(some_keys) {
        set_up(some, keys);
    }
    for (one, key) in rest.iter_mut().zip(rest_keys) {
        set_up(array::from_mut(one), array::from_ref(key));
    }
    tables.into_iter().map(|tables| Ok(PreparedKey::for_suite(suite, Key(tables)))).collect()
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
fn set_up<const N: usize>(tables: &mut [Box<Tables>; N], keys: &[&[u8]; N]) {
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
fn f(sboxes: &[[u32; 256]; 4], half: u32) -> u32 {
    // Not `to_be_bytes`, which turns the word before it is cut.
    let byte = |shift: u32| usize::from((half >> shift) as u8);
    let sum = sboxes[0][byte(24)].wrapping_add(sboxes[1][byte(16)]) ^ sboxes[2][byte(8)];
    sum.wrapping_add(sboxes[3][byte(0)])
}

/// All rounds of `N` blocks, in turns.
#[inline(always)]
fn rounds<const N: usize, const ENCRYPTS: bool>(tables: &[&Tables; N], left: &mut [u32; N], right: &mut [u32; N]) {
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
