//! DES keys as this family keeps them: the key's own bits, because the key schedule is wiring.

use ciphermill_contract::error::KeyProblem;
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::rounds::PASSES_MAX;

/// A key of DES or triple DES.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct DesKey {
    /// The keys of the three passes as little-endian numbers; a single key stands three times, because triple DES under
    /// equal keys is DES.
    pub(crate) words: [u64; PASSES_MAX],
}

impl DesKey {
    /// A key of eight bytes for DES (FIPS 46-3). Parity is not looked at.
    ///
    /// # Errors
    /// `Length` for any other.
    pub(crate) fn single(key: &[u8]) -> Result<DesKey, KeyProblem> {
        let key = u64::from_le_bytes(key.try_into().map_err(|_| KeyProblem::Length)?);
        Ok(DesKey { words: [key; PASSES_MAX] })
    }

    /// A key of 16 or 24 bytes for triple DES (NIST SP 800-67, 3.2: with two keys the third is the first). Parity and
    /// equality are not looked at.
    ///
    /// # Errors
    /// `Length` for any other.
    pub(crate) fn triple(key: &[u8]) -> Result<DesKey, KeyProblem> {
        let (parts, rest) = key.as_chunks::<8>();
        let parts = match (parts, rest) {
            ([first, second], []) => [first, second, first],
            ([first, second, third], []) => [first, second, third],
            _ => return Err(KeyProblem::Length),
        };
        Ok(DesKey { words: parts.map(|part| u64::from_le_bytes(*part)) })
    }
}
