//! Blowfish (Schneier 1993), 16 rounds: a round adds a round key to the left half, looks its four bytes up in four
//! S-boxes, and adds what comes of it to the right half.
//!
//! # Floor
//! A block takes 64 lookups and 18 round keys; with two words in and one block out 85 loads and stores: 28 cycles at
//! three loads a cycle. It takes 12 instructions a round (four bytes cut out of a word, four lookups that are operands
//! of three additions, two more): about 200, or 34 cycles at six a cycle. Alone, a block takes 16 rounds of ten cycles
//! of latency. The tables of a key are 4 KB: messages of one key are worked on together, so that they are fetched once.

use ciphermill_contract::{PreparedKey, Suite};
use ciphermill_tables::blowfish::{Tables, rounds, set_up};

use super::Prepared;
use super::blocks::Cipher;

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
    set_up(keys).into_iter().map(|tables| Ok(PreparedKey::for_suite(suite, Key(tables)))).collect()
}
