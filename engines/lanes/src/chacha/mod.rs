//! Not claimed yet.

pub(crate) mod isa;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{Capability, PreparedKey, Suite};

use crate::work::{Scratch, Work};
use isa::ChaChaKernel;

pub(crate) fn capabilities(_kernel: ChaChaKernel) -> Vec<Capability> {
    Vec::new()
}

pub(crate) fn prepare(_key: &[u8], _suite: Suite) -> Result<PreparedKey, KeyProblem> {
    Err(KeyProblem::Form)
}

pub(crate) fn run(_kernel: ChaChaKernel, _work: &mut Work<'_>, _scratch: &mut Scratch) {}
