//! The operating system's random bytes.

use ciphermill_contract::OpStatus;

use super::Outcome;

/// Fills with random bytes.
pub(super) fn draw(bytes: &mut [u8]) -> Outcome {
    getrandom::fill(bytes).map_err(|_| OpStatus::EngineFault)
}
