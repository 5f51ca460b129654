//! Khufu and Khafre (Merkle, "Fast Software Encryption Functions", CRYPTO '90; US patent 5,003,597, whose reference
//! program settles the details), 16 rounds: the lowest byte of the left half is looked up, the word found is added to
//! the right half, the left half is rotated, and the halves change places. Eight rounds share an S-box. Khufu's S-boxes
//! are made from the key; Khafre's are the same for all, and its key is added before, between and after them.
// Loops over lanes and places index several arrays at once.
#![allow(clippy::needless_range_loop)]

use core::array;
use std::sync::LazyLock;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Eight rounds under one S-box.
pub const OCTETS: usize = 2;

/// 256 words; each byte of them is a permutation.
pub type SBox = [u32; 256];

/// What is added to a block before, between and after the octets, the left half first.
pub type Whitening = [[u32; 2]; OCTETS + 1];

/// How far the left half turns right in each round of an octet, in bits.
const ROTATIONS: [u32; 8] = [16, 16, 8, 8, 16, 16, 24, 24];

/// Bytes of the state that Khufu's S-boxes are drawn from; a shorter key is filled up with zeros.
const STATE_LEN: usize = 64;

/// Keys that are set up side by side.
const SET_UP_LANES: usize = 8;

/// The first 61 lines of "A Million Random Digits with 100,000 Normal Deviates" (RAND Corporation, 1955), which are
/// more than the procedure uses up.
const RAND_DIGITS: &[u8] = include_bytes!("../../../engines/reference/src/legacy/rand_digits.txt");

/// The S-box that all others are made from.
static INITIAL: SBox = initial_sbox();

/// Khafre's S-boxes: the initial one and the first of Khufu under a key of zeros.
static STANDARD: LazyLock<[SBox; OCTETS]> = LazyLock::new(|| {
    let mut made = [Box::new(KhufuTables::start())];
    set_up(&mut made, &[&[]]);
    [INITIAL, made[0].sboxes[0]]
});

/// Khufu's S-boxes and auxiliary keys.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub struct KhufuTables {
    /// The S-box of each octet.
    pub sboxes: [SBox; OCTETS],
    /// The auxiliary keys; between the octets nothing is added.
    pub whitening: Whitening,
}

/// Khafre's S-boxes, which are no secret.
pub fn standard_sboxes() -> &'static [SBox; OCTETS] {
    &STANDARD
}

/// What a key of Khafre becomes: parts of 8 bytes, used in turn, each turned right by its number so that a short key does
/// not meet the block twice in the same shape. `None` unless the key has 8 or 24 bytes.
pub fn khafre(key: &[u8]) -> Option<Zeroizing<Whitening>> {
    let (parts, []) = key.as_chunks::<8>() else { return None };
    if !matches!(parts.len(), 1 | 3) {
        return None;
    }
    let mut whitening = Zeroizing::new([[0; 2]; OCTETS + 1]);
    for (turn, (words, part)) in (0..).zip(whitening.iter_mut().zip(parts.iter().cycle())) {
        *words = halves(u64::from_be_bytes(*part)).map(|half| half.rotate_right(turn));
    }
    Some(whitening)
}

/// What keys of Khufu become, several side by side. Of a key longer than 64 bytes the first count.
pub fn khufu(keys: &[&[u8]]) -> Vec<Box<KhufuTables>> {
    let mut tables: Vec<Box<KhufuTables>> = keys.iter().map(|_| Box::new(KhufuTables::start())).collect();
    let ((some, rest), (some_keys, rest_keys)) = (tables.as_chunks_mut::<SET_UP_LANES>(), keys.as_chunks());
    for (some, keys) in some.iter_mut().zip(some_keys) {
        set_up(some, keys);
    }
    for (one, key) in rest.iter_mut().zip(rest_keys) {
        set_up(array::from_mut(one), array::from_ref(key));
    }
    tables
}

impl KhufuTables {
    fn start() -> KhufuTables {
        KhufuTables { sboxes: [INITIAL; OCTETS], whitening: [[0; 2]; OCTETS + 1] }
    }
}

/// Shuffles the S-boxes of each table by bytes that depend on its key: a state that is enciphered whenever it is used
/// up. The states of all keys are enciphered side by side.
fn set_up<const N: usize>(tables: &mut [Box<KhufuTables>; N], keys: &[&[u8]; N]) {
    let mut states = [[0; STATE_LEN / 8]; N];
    for (state, key) in states.iter_mut().zip(keys) {
        let mut padded = [0; STATE_LEN];
        padded.iter_mut().zip(*key).for_each(|(byte, own)| *byte = *own);
        for (word, bytes) in state.iter_mut().zip(padded.as_chunks::<8>().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        padded.zeroize();
    }
    for _ in 0..3 {
        stir(&mut states);
    }
    for (tables, state) in tables.iter_mut().zip(&states) {
        tables.whitening = [halves(state[0]), [0; 2], halves(state[1])];
    }
    let mut shuffles = [Shuffle::START; N];
    // The auxiliary keys have used up two words.
    let mut used = 2;
    loop {
        let mut ended = true;
        for n in 0..N {
            for at in used..STATE_LEN / 8 {
                shuffles[n].go_on(&mut tables[n].sboxes, states[n][at], at == STATE_LEN / 8 - 1);
            }
            ended &= shuffles[n].octet == OCTETS;
        }
        if ended {
            break;
        }
        stir(&mut states);
        used = 0;
    }
    states.as_flattened_mut().zeroize();
}

/// Enciphers each state under the initial S-box: 16 rounds, no whitening, cipher block chaining that starts from the
/// state's own last block.
fn stir<const N: usize>(states: &mut [[u64; STATE_LEN / 8]; N]) {
    let mut chains: [u64; N] = array::from_fn(|n| states[n][STATE_LEN / 8 - 1]);
    for at in 0..STATE_LEN / 8 {
        for n in 0..N {
            chains[n] ^= states[n][at];
        }
        for _ in 0..OCTETS {
            for chain in &mut chains {
                let [left, right] = encrypt_octet(&INITIAL, halves(*chain));
                *chain = u64::from(left) << 32 | u64::from(right);
            }
        }
        for n in 0..N {
            states[n][at] = chains[n];
        }
    }
    chains.zeroize();
}

/// How far the S-boxes of a key have been shuffled: each byte column by random choices among the rows not yet passed.
#[derive(Clone, Copy)]
struct Shuffle {
    octet: usize,
    column: u32,
    row: usize,
    mask: usize,
}

impl Shuffle {
    const START: Shuffle = Shuffle { octet: 0, column: 0, row: 0, mask: 0xff };

    /// Goes on with eight bytes, the highest first; `last` says that the state is used up by them.
    #[inline(always)]
    fn go_on(&mut self, sboxes: &mut [SBox; OCTETS], bytes: u64, last: bool) {
        for (at, byte) in bytes.to_be_bytes().into_iter().enumerate() {
            let Some(sbox) = sboxes.get_mut(self.octet) else { return };
            let other = self.row + (usize::from(byte) & self.mask);
            // The reference program looks for a narrower mask only when the state is used up, and its data are to be
            // read.
            while last && at == 7 && 255 - self.row <= self.mask >> 1 {
                self.mask >>= 1;
            }
            if other > 255 {
                continue;
            }
            swap_in_column(sbox, self.column, self.row, other);
            self.row += 1;
            if self.row == 255 {
                (self.row, self.mask) = (0, 0xff);
                self.column += 1;
                if self.column == 4 {
                    self.column = 0;
                    self.octet += 1;
                }
            }
        }
    }
}

#[inline(always)]
fn halves(block: u64) -> [u32; 2] {
    [(block >> 32) as u32, block as u32]
}

/// Eight rounds, both halves together.
#[inline(always)]
pub fn encrypt_octet(sbox: &SBox, [mut left, mut right]: [u32; 2]) -> [u32; 2] {
    for rotation in ROTATIONS {
        (left, right) = (right ^ sbox[usize::from(left as u8)], left.rotate_right(rotation));
    }
    [left, right]
}

/// Takes [`encrypt_octet`] back.
#[inline(always)]
pub fn decrypt_octet(sbox: &SBox, [mut left, mut right]: [u32; 2]) -> [u32; 2] {
    for rotation in ROTATIONS.into_iter().rev() {
        let turned = right.rotate_left(rotation);
        (left, right) = (turned, left ^ sbox[usize::from(turned as u8)]);
    }
    [left, right]
}

/// Exchanges the bytes of two rows in one column; column 0 is the highest byte.
const fn swap_in_column(sbox: &mut SBox, column: u32, row: usize, other: usize) {
    let difference = (sbox[row] ^ sbox[other]) & (0xff00_0000 >> (8 * column));
    sbox[row] ^= difference;
    sbox[other] ^= difference;
}

/// Four columns that count from 0 to 255, each shuffled by choices among the rows not yet passed. A choice takes as
/// many digits as it may need; numbers above the last full multiple of the choices are dropped, so that each is as
/// likely.
const fn initial_sbox() -> SBox {
    let mut sbox = [0; 256];
    let mut row = 0;
    while row < 256 {
        sbox[row] = 0x0101_0101 * row as u32;
        row += 1;
    }
    let (mut column, mut at) = (0, 0);
    while column < 4 {
        let mut row = 0;
        while row < 255 {
            let choices = 256 - row;
            let digits = 1 + (choices > 10) as usize + (choices > 100) as usize;
            let bound = [10, 100, 1000][digits - 1];
            let number;
            (number, at) = rand_number(at, digits);
            if number < bound - bound % choices {
                swap_in_column(&mut sbox, column, row, row + number % choices);
                row += 1;
            }
        }
        column += 1;
    }
    sbox
}

/// The number of so many digits from `at` on, and the place behind them.
const fn rand_number(mut at: usize, digits: usize) -> (usize, usize) {
    let (mut number, mut seen) = (0, 0);
    while seen < digits {
        if RAND_DIGITS[at].is_ascii_digit() {
            number = 10 * number + (RAND_DIGITS[at] - b'0') as usize;
            seen += 1;
        }
        at += 1;
    }
    (number, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_initial_sbox_is_merkles() {
        // FIG. 3 of US patent 5,003,597.
        assert_eq!(INITIAL[..4], [0x64f9_001b, 0xfedd_cdf6, 0x7c8f_f1e2, 0x11d7_1514]);
        assert_eq!(INITIAL[255], 0x8211_cefd);
    }

    #[test]
    fn every_column_is_a_permutation() {
        for sbox in &*STANDARD {
            for column in 0..4 {
                let mut values: Vec<u8> = sbox.iter().map(|word| word.to_be_bytes()[column]).collect();
                values.sort_unstable();
                assert!(values.iter().copied().eq(0..=u8::MAX));
            }
        }
        assert_ne!(STANDARD[0], STANDARD[1]);
    }
}
