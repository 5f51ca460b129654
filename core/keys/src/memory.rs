//! What the memory of keys refuses.

use ciphermill_contract::Error;

/// Key memory that could not be had. Keys are far below the longest secret there may be, so the system had no more.
pub(crate) fn no_memory(asked: usize) -> Error {
    Error::exhausted("memory for keys", 0, asked)
}
