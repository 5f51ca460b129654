//! Random bytes from the operating system.

use ciphermill_contract::{OpBuffers, OpStatus};

/// Fills one operation's output.
pub(crate) fn process(buffers: &mut OpBuffers<'_>) -> OpStatus {
    getrandom::fill(buffers.data).map_or(OpStatus::EngineFault, |()| OpStatus::Done)
}
