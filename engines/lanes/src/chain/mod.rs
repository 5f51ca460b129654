//! Not claimed yet.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Chain;
use ciphermill_contract::{Capability, PreparedKey};

use crate::select::Kernels;
use crate::work::{Scratch, Work};

pub(crate) fn capabilities(_kernels: &Kernels) -> Vec<Capability> {
    Vec::new()
}

pub(crate) fn prepare(_kernels: &Kernels, _key: &[u8], _chain: Chain) -> Result<PreparedKey, KeyProblem> {
    Err(KeyProblem::Form)
}

pub(crate) fn run(_kernels: &Kernels, _chain: Chain, _work: &mut Work<'_>, _scratch: &mut Scratch) {}
