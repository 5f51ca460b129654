//! Not claimed yet.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Ff1;
use ciphermill_contract::{Capability, PreparedKey};

use crate::aes::isa::AesKernel;
use crate::work::{Scratch, Work};

pub(crate) fn capabilities(_kernel: AesKernel) -> Vec<Capability> {
    Vec::new()
}

pub(crate) fn prepare(_kernel: AesKernel, _key: &[u8], _ff1: Ff1) -> Result<PreparedKey, KeyProblem> {
    Err(KeyProblem::Form)
}

pub(crate) fn run(_kernel: AesKernel, _ff1: Ff1, _work: &mut Work<'_>, _scratch: &mut Scratch) {}
