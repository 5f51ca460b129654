//! What Khufu and Khafre share: the eight-round octet and the initial S-box.
//!
//! Source: R. C. Merkle, "Fast Software Encryption Functions", CRYPTO '90, LNCS 537,
//! 476-501, and US patent 5,003,597 with the reference program in its Appendix A. The
//! halves are named as in that program, since its published output settles the matter:
//! the left half chooses the S-box entry, and blocks and entries are read with the
//! highest byte first.

/// 256 entries of four byte columns; each column is a permutation of 0 to 255.
pub(super) type SBox = [u32; 256];

/// Rounds that share one S-box.
pub(super) const OCTET: u32 = 8;

/// Rounds that Merkle's reference program accepts at most.
pub(super) const ROUNDS_MAX: u32 = 64;

/// How far the left half turns right in each round of an octet, in bits: every byte of
/// the block has chosen an entry once after eight rounds.
const ROTATIONS: [u32; OCTET as usize] = [16, 16, 8, 8, 16, 16, 24, 24];

/// The first 61 lines of "A Million Random Digits with 100,000 Normal Deviates" (RAND
/// Corporation, 1955); Merkle's procedure uses up the first 3027 digits.
const RAND_DIGITS: &[u8] = include_bytes!("rand_digits.txt");

/// The S-box from which all others are made, drawn from the digits when this is compiled.
pub(super) static INITIAL_SBOX: SBox = initial_sbox();

/// A block as the ciphers work on it.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    pub(super) left: u32,
    pub(super) right: u32,
}

impl Halves {
    pub(super) fn from_block(block: [u8; 8]) -> Self {
        let both = u64::from_be_bytes(block);
        Self { left: (both >> 32) as u32, right: both as u32 }
    }

    pub(super) fn to_block(self) -> [u8; 8] {
        (u64::from(self.left) << 32 | u64::from(self.right)).to_be_bytes()
    }

    pub(super) fn xor(self, left: u32, right: u32) -> Self {
        Self { left: self.left ^ left, right: self.right ^ right }
    }

    /// Eight rounds under one S-box.
    pub(super) fn encrypt_octet(mut self, sbox: &SBox) -> Self {
        for rotation in ROTATIONS {
            self = Self { left: self.right ^ sbox[lowest_byte(self.left)], right: self.left.rotate_right(rotation) };
        }
        self
    }

    /// Takes [`Halves::encrypt_octet`] back.
    pub(super) fn decrypt_octet(mut self, sbox: &SBox) -> Self {
        for rotation in ROTATIONS.into_iter().rev() {
            let left = self.right.rotate_left(rotation);
            self = Self { left, right: self.left ^ sbox[lowest_byte(left)] };
        }
        self
    }
}

/// The number of octets, where `rounds` is a multiple of eight from 8 to 64.
pub(super) fn octets(rounds: u32) -> Option<usize> {
    let usable = rounds.is_multiple_of(OCTET) && (OCTET..=ROUNDS_MAX).contains(&rounds);
    usable.then_some((rounds / OCTET) as usize)
}

/// Exchanges the bytes of two rows in one column; column 0 holds the highest byte.
pub(super) const fn swap_in_column(sbox: &mut SBox, column: u32, row: usize, other: usize) {
    let mask = 0xff00_0000 >> (8 * column);
    let difference = (sbox[row] ^ sbox[other]) & mask;
    sbox[row] ^= difference;
    sbox[other] ^= difference;
}

const fn lowest_byte(word: u32) -> usize {
    (word & 0xff) as usize
}

/// Shuffles four identity columns, each by a random choice among the rows not yet passed.
const fn initial_sbox() -> SBox {
    let mut sbox = [0; 256];
    let mut row = 0;
    while row < 256 {
        sbox[row] = 0x0101_0101 * row as u32;
        row += 1;
    }
    let mut position = 0;
    let mut column = 0;
    while column < 4 {
        let mut row = 0;
        while row < 255 {
            let (choice, next) = choose_below(256 - row as u32, position);
            swap_in_column(&mut sbox, column, row, row + choice as usize);
            position = next;
            row += 1;
        }
        column += 1;
    }
    sbox
}

/// A number below `choices` from the digits at `position`, and the position after them.
///
/// Takes as few digits as can express every choice and drops numbers above the last full
/// multiple of `choices`, so that each choice is equally likely.
const fn choose_below(choices: u32, mut position: usize) -> (u32, usize) {
    loop {
        let mut number = 0;
        let mut bound = 1;
        while bound < choices {
            // Running past the digits would stop the compiler, not the program.
            while !RAND_DIGITS[position].is_ascii_digit() {
                position += 1;
            }
            number = 10 * number + (RAND_DIGITS[position] - b'0') as u32;
            bound *= 10;
            position += 1;
        }
        if number < bound / choices * choices {
            return (number % choices, position);
        }
    }
}

/// What the tests of both ciphers use.
#[cfg(test)]
pub(in crate::legacy) mod testing {
    use super::*;

    /// Vectors of `vectors/derive/khufu_khafre.py`, an implementation of its own.
    pub(in crate::legacy) const DERIVED: &str = include_str!("../../../../vectors/data/legacy/khufu_khafre.txt");

    /// The patent's message with the padding of its program: a one bit, then zeros.
    pub(in crate::legacy) const PATENT_MESSAGE: &[u8; 24] = b"Hello there, world!\n\x80\0\0\0";

    /// The key "345" of the patent's examples: hexadecimal digits, filled up with zeros.
    pub(in crate::legacy) const PATENT_KEY: [u8; 8] = [0x34, 0x50, 0, 0, 0, 0, 0, 0];

    /// A line of [`DERIVED`] that concerns one block.
    pub(in crate::legacy) struct Vector {
        pub(in crate::legacy) rounds: u32,
        pub(in crate::legacy) key: Vec<u8>,
        pub(in crate::legacy) plaintext: [u8; 8],
        pub(in crate::legacy) ciphertext: [u8; 8],
    }

    /// The block vectors of one cipher.
    pub(in crate::legacy) fn vectors(cipher: &str) -> Vec<Vector> {
        DERIVED
            .lines()
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .filter(|fields| fields[0] == cipher)
            .map(|fields| Vector {
                rounds: fields[1].parse().unwrap(),
                key: hex::decode(fields[2]).unwrap(),
                plaintext: hex::decode(fields[3]).unwrap().try_into().unwrap(),
                ciphertext: hex::decode(fields[4]).unwrap().try_into().unwrap(),
            })
            .collect()
    }

    /// The SHA-256 digest that [`DERIVED`] names for a set of S-boxes, in hexadecimal.
    pub(in crate::legacy) fn derived_digest(name: &str) -> &'static str {
        DERIVED.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap()
    }

    /// SHA-256 over the entries of S-boxes, the highest byte of each first.
    pub(in crate::legacy) fn digest<'a>(sboxes: impl IntoIterator<Item = &'a SBox>) -> String {
        use sha2::Digest;
        let mut hash = sha2::Sha256::new();
        for entry in sboxes.into_iter().flatten() {
            hash.update(entry.to_be_bytes());
        }
        hex::encode(hash.finalize())
    }

    /// Cipher block chaining from a zero block, as the patent's program runs its ciphers.
    pub(in crate::legacy) fn chain(message: &[u8; 24], encrypt: impl Fn(&mut [u8; 8])) -> String {
        let mut block = [0; 8];
        let mut out = String::new();
        for part in message.chunks_exact(8) {
            for (byte, more) in block.iter_mut().zip(part) {
                *byte ^= more;
            }
            encrypt(&mut block);
            out.push_str(&hex::encode(block));
        }
        out
    }

    /// Fails unless each byte column of `sbox` holds every value once.
    pub(in crate::legacy) fn assert_permutes(sbox: &SBox) {
        for column in 0..4 {
            let mut seen = [false; 256];
            for entry in sbox {
                seen[lowest_byte(entry >> (8 * column))] = true;
            }
            assert_eq!(seen, [true; 256], "column {column}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{assert_permutes, derived_digest, digest};
    use super::*;

    #[test]
    fn initial_sbox_is_merkles() {
        // The first entries of FIG. 3 of US patent 5,003,597, which are also the first
        // of Merkle's hash function Snefru; the whole against the script's digest.
        assert_eq!(INITIAL_SBOX[..4], [0x64f9_001b, 0xfedd_cdf6, 0x7c8f_f1e2, 0x11d7_1514]);
        assert_eq!(INITIAL_SBOX[255], 0x8211_cefd);
        assert_eq!(digest([&INITIAL_SBOX]), derived_digest("initial-sbox"));
        assert_permutes(&INITIAL_SBOX);
    }

    #[test]
    fn octet_is_undone() {
        for block in [[0; 8], [0xff; 8], *b"octets!?"] {
            let before = Halves::from_block(block);
            let after = before.encrypt_octet(&INITIAL_SBOX);
            assert_ne!(after.to_block(), block);
            assert_eq!(after.decrypt_octet(&INITIAL_SBOX).to_block(), block);
        }
    }

    #[test]
    fn every_byte_of_a_block_chooses_in_an_octet() {
        // One changed byte anywhere must change the result beyond that one byte's own place.
        let plain = Halves::from_block([0x5a; 8]).encrypt_octet(&INITIAL_SBOX);
        for at in 0..8 {
            let mut block = [0x5a; 8];
            block[at] ^= 1;
            let other = Halves::from_block(block).encrypt_octet(&INITIAL_SBOX);
            let changed = plain.to_block().iter().zip(other.to_block()).filter(|(a, b)| **a != *b).count();
            assert!(changed > 1, "byte {at}: {changed} bytes changed");
        }
    }

    #[test]
    fn rounds_are_whole_octets() {
        assert_eq!(octets(8), Some(1));
        assert_eq!(octets(16), Some(2));
        assert_eq!(octets(64), Some(8));
        for rounds in [0, 1, 7, 9, 12, 65, 72, u32::MAX] {
            assert_eq!(octets(rounds), None, "{rounds}");
        }
    }
}
