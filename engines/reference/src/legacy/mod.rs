//! Ciphers of the nineties that nothing new should use: SEAL 3.0, Khufu and Khafre.
//!
//! They are here to be measured and to read old data. All three look up tables at
//! secret positions, so their time depends on key and data; none of them carries a
//! proof of authenticity. Slow and readable on purpose: faster kernels are checked
//! against this code.
//!
//! Tables and key words are wiped when a cipher is dropped.

pub(crate) mod khafre;
pub(crate) mod khufu;
mod merkle;
pub(crate) mod seal;

use core::fmt;

/// Why a key cannot be used with one of the ciphers here. Says nothing of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LegacyKeyError {
    /// The key's length in bytes is outside of what the cipher takes.
    KeyLen {
        /// The cipher that refused the key.
        cipher: &'static str,
        /// The length in bytes that was offered.
        key_len: usize,
        /// The lengths that the cipher takes, in words.
        rule: &'static str,
    },
    /// The number of rounds is no multiple of eight within 8 to 64.
    Rounds {
        /// The cipher that refused the number.
        cipher: &'static str,
        /// The number of rounds that was offered.
        rounds: u32,
    },
    /// Khafre would use some words of the key more often than others (CRYPTO '90 paper:
    /// an error unless the last whitening ends with the last key word).
    KhafreCycle {
        /// The key's length in bytes.
        key_len: usize,
        /// The number of rounds.
        rounds: u32,
    },
}

impl fmt::Display for LegacyKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyLen { cipher, key_len, rule } => write!(f, "{cipher}: key of {key_len} bytes; {rule}"),
            Self::Rounds { cipher, rounds } => {
                write!(f, "{cipher}: {rounds} rounds; a multiple of 8 from 8 to 64 is needed")
            }
            Self::KhafreCycle { key_len, rounds } => write!(
                f,
                "khafre: key of {key_len} bytes with {rounds} rounds; the number of 8-byte key \
                 parts must divide rounds / 8 + 1"
            ),
        }
    }
}

impl core::error::Error for LegacyKeyError {}
