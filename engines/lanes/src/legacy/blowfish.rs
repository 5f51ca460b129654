//! Blowfish (Schneier 1993), 16 rounds: a round adds a round key to the left half, looks its four bytes up in four
//! S-boxes, and adds what comes of it to the right half.
//!
//! # Floor
//! A block takes 64 lookups and 18 round keys; with two words in and one block out 85 loads and stores: 28 cycles at
//! three loads a cycle. It takes 12 instructions a round (four bytes cut out of a word, four lookups that are operands
//! of three additions, two more): about 200, or 34 cycles at six a cycle. Alone, a block takes 16 rounds of ten cycles
//! of latency; measured 170 on Zen 5. The tables of a key are 4 KB: messages of one key are worked on together, so that they are fetched once.

use ciphermill_contract::{PreparedKey, Suite};
use ciphermill_tables::blowfish::{ROUND_KEYS, Tables, f, rounds, set_up};

use super::Prepared;
use super::blocks::Cipher;
use crate::processor::as_is;

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
        match (tables.as_slice(), left.as_mut_slice(), right.as_mut_slice()) {
            ([tables], [left], [right]) => rounds_alone(tables, &tables.keys, left, right),
            _ => rounds::<N, true>(tables, left, right),
        }
    }

    #[inline(always)]
    fn decrypt<const N: usize>(tables: &[&Tables; N], left: &mut [u32; N], right: &mut [u32; N]) {
        match (tables.as_slice(), left.as_mut_slice(), right.as_mut_slice()) {
            ([tables], [left], [right]) => rounds_alone(tables, &tables.reversed, left, right),
            _ => rounds::<N, false>(tables, left, right),
        }
    }
}

/// Enciphers or deciphers a block alone. A round key is added to what has been there for long, not to what is waited for.
#[inline(always)]
fn rounds_alone(tables: &Tables, keys: &[u32; ROUND_KEYS], left: &mut u32, right: &mut u32) {
    let [first, middle @ .., last] = keys;
    let with = |half: u32, key: u32| as_is(u64::from(half ^ key)) as u32;
    let (mut l, mut r) = (*left ^ first, *right);
    for [key_r, key_l] in middle.as_chunks().0 {
        r = with(r, *key_r) ^ f(&tables.sboxes, l);
        l = with(l, *key_l) ^ f(&tables.sboxes, r);
    }
    // The last exchange of halves is none.
    (*left, *right) = (r ^ last, l);
}

/// Prepares keys of 4 to 56 bytes, several side by side.
pub(super) fn prepare(keys: &[&[u8]], suite: Suite) -> Vec<Prepared> {
    set_up(keys).into_iter().map(|tables| Ok(PreparedKey::for_suite(suite, Key(tables)))).collect()
}
