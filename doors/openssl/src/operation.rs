//! One public-key operation and its buffers.

use ciphermill::One;
use ciphermill_contract::{Direction, KeyId, Suite};
use zeroize::Zeroizing;

/// An operation; secrets in its buffers are wiped when it is dropped.
pub(crate) struct Operation {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) key: KeyId,
    /// Input, and where the output goes: as long as the longer of both.
    pub(crate) data: Zeroizing<Vec<u8>>,
    /// Bytes of input in `data`.
    pub(crate) input_len: usize,
    /// Where a signature goes.
    pub(crate) tag: Vec<u8>,
}

impl Operation {
    /// What the mill is asked.
    pub(crate) fn as_one(&mut self) -> (Suite, Direction, One<'_>) {
        let Operation { suite, direction, key, data, input_len, tag } = self;
        let one = One { key: *key, iv: &[], aad: &[], data, input_len: *input_len, tag };
        (*suite, *direction, one)
    }
}
