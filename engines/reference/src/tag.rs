//! Tags, digests and other short results: where they are kept, and how they are handed out or compared.

use ciphermill_contract::{Direction, OpStatus};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of the longest result, a SHA-512 digest.
const OUTPUT_LEN_MAX: usize = 64;

/// A result of up to 64 bytes, wiped when dropped.
pub(crate) struct Output {
    bytes: Zeroizing<[u8; OUTPUT_LEN_MAX]>,
    len: usize,
}

impl Output {
    /// A copy of `bytes`; those beyond 64 are left out.
    pub(crate) fn new(bytes: &[u8]) -> Output {
        let mut output = Output { bytes: Zeroizing::new([0; OUTPUT_LEN_MAX]), len: bytes.len().min(OUTPUT_LEN_MAX) };
        output.bytes[..output.len].copy_from_slice(&bytes[..output.len]);
        output
    }

    /// The bytes.
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Writes the first bytes of `full` to `tag` when encrypting; compares both in constant time when decrypting.
pub(crate) fn settle(direction: Direction, full: &[u8], tag: &mut [u8]) -> OpStatus {
    let Some(truncated) = full.get(..tag.len()) else { return OpStatus::EngineFault };
    match direction {
        Direction::Encrypt => {
            tag.copy_from_slice(truncated);
            OpStatus::Done
        }
        Direction::Decrypt => verify(truncated, tag),
    }
}

/// Compares an expected tag with the one that came along.
pub(crate) fn verify(expected: &[u8], tag: &[u8]) -> OpStatus {
    if bool::from(expected.ct_eq(tag)) { OpStatus::Done } else { OpStatus::AuthFailed }
}
