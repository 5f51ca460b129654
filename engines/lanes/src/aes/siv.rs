//! AES mode `siv`: not claimed yet.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{Capability, PreparedKey, Suite};

use super::isa::AesKernel;
use crate::work::{Scratch, Work};

pub(super) const CAPABILITIES: &[Capability] = &[];

pub(super) fn prepare(_kernel: AesKernel, _key: &[u8], _suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Err(KeyProblem::Form)
}

pub(super) fn run(_kernel: AesKernel, _work: &mut Work<'_>, _scratch: &mut Scratch) {}
