//! What the memory of keys refuses.

use ciphermill_contract::Error;
use ciphermill_memory::MemoryError;

/// Key memory that could not be had, by kind.
pub(crate) fn memory_error(error: &MemoryError, asked: usize) -> Error {
    match error {
        MemoryError::TooLarge { limit_name, limit, asked, .. } => {
            Error::exhausted(limit_name, *limit as usize, *asked as usize)
        }
        _ => Error::exhausted("memory for keys", 0, asked),
    }
}
