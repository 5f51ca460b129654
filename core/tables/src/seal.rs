//! SEAL 3.0 (Rogaway and Coppersmith, "A Software-Optimized Encryption Algorithm", Journal of Cryptology 11, 1998): the
//! three tables that a key derives.

use sha1::block_api::compress;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Words of the table that starts iterations: four for each of the 64 that a position index has.
const R_WORDS: usize = 256;

/// Where the tables S and R begin in the table function.
const S_START: u32 = 0x1000;
const R_START: u32 = 0x2000;

/// What a key derives.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub struct Tables {
    /// What registers choose from.
    pub t: [u32; 512],
    /// What is added to the registers of each step.
    pub s: [u32; 256],
    /// What starts iterations.
    pub r: [u32; R_WORDS],
}

/// Sets a key up.
pub fn set_up(key: &[u8; 20]) -> Box<Tables> {
    let mut words = [0; 5];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    let mut tables = Box::new(Tables { t: [0; 512], s: [0; 256], r: [0; R_WORDS] });
    fill(&words, 0, &mut tables.t);
    fill(&words, S_START, &mut tables.s);
    fill(&words, R_START, &mut tables.r);
    words.zeroize();
    tables
}

/// The table function (section 3): word `i` is word `i mod 5` of SHA-1's compression of a block that begins with `i /
/// 5`, from the key as chaining value.
fn fill(key: &[u32; 5], start: u32, table: &mut [u32]) {
    let mut state = [0; 5];
    for (n, (index, word)) in (start..).zip(table).enumerate() {
        if n == 0 || index % 5 == 0 {
            let mut block = [0; 64];
            block[..4].copy_from_slice(&(index / 5).to_be_bytes());
            state = *key;
            compress(&mut state, &[block]);
        }
        *word = state[(index % 5) as usize];
    }
    state.zeroize();
}
