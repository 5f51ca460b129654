//! AES in every mode that this engine runs, one file a mode. Kernels are generic over the instruction set ([`isa`]).

pub(crate) mod cbc;
mod cbc_mac;
mod ccm;
mod cmac;
pub(crate) mod ctr;
mod ecb;
mod gcm;
mod gcm_siv;
pub(crate) mod ghash;
pub(crate) mod isa;
#[cfg(test)]
mod isa_tests;
pub(crate) mod lane_keys;
mod message;
pub(crate) mod numbers;
mod ocb;
mod parallel;
pub(crate) mod pieces;
pub(crate) mod schedule;
mod siv;
pub(crate) mod siv_columns;
mod streams;
mod v128;
mod v256;
mod v512;
mod xts;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, BlockCipher, Mac, Mode};
use ciphermill_contract::{Capability, PreparedKey, Suite};

use crate::work::{Scratch, Work};
use isa::AesKernel;

/// What each mode lists.
pub(crate) fn capabilities(_kernel: AesKernel) -> impl Iterator<Item = Capability> {
    let modes = [
        ecb::CAPABILITIES,
        cbc::CAPABILITIES,
        ctr::CAPABILITIES,
        xts::CAPABILITIES,
        gcm::CAPABILITIES,
        ccm::CAPABILITIES,
        gcm_siv::CAPABILITIES,
        siv::CAPABILITIES,
        ocb::CAPABILITIES,
        cmac::CAPABILITIES,
    ];
    modes.into_iter().flatten().copied()
}

/// Prepares a key of a length that the suite takes, for one of the suites of [`capabilities`].
pub(crate) fn prepare(kernel: AesKernel, key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    match suite {
        Suite::Cipher(BlockCipher::Aes(_), Mode::Ecb) => ecb::prepare(kernel, key, suite),
        Suite::Cipher(BlockCipher::Aes(_), Mode::Cbc) => cbc::prepare(kernel, key, suite),
        Suite::Cipher(BlockCipher::Aes(_), Mode::Ctr) => ctr::prepare(kernel, key, suite),
        Suite::Cipher(BlockCipher::Aes(_), Mode::Xts) => xts::prepare(kernel, key, suite),
        Suite::Aead(Aead::AesGcm(_)) | Suite::Mac(Mac::Gmac(_)) => gcm::prepare(kernel, key, suite),
        Suite::Aead(Aead::AesCcm(_)) => ccm::prepare(kernel, key, suite),
        Suite::Aead(Aead::AesGcmSiv(_)) => gcm_siv::prepare(kernel, key, suite),
        Suite::Aead(Aead::AesSiv(_)) => siv::prepare(kernel, key, suite),
        Suite::Aead(Aead::AesOcb(_)) => ocb::prepare(kernel, key, suite),
        Suite::Mac(Mac::Cmac(_)) => cmac::prepare(kernel, key, suite),
        _ => Err(KeyProblem::Form),
    }
}

/// Runs a batch; operations of suites that no mode lists stay pending.
pub(crate) fn run(kernel: AesKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    match work.suite() {
        Suite::Cipher(BlockCipher::Aes(_), Mode::Ecb) => ecb::run(kernel, work, scratch),
        Suite::Cipher(BlockCipher::Aes(_), Mode::Cbc) => cbc::run(kernel, work, scratch),
        Suite::Cipher(BlockCipher::Aes(_), Mode::Ctr) => ctr::run(kernel, work, scratch),
        Suite::Cipher(BlockCipher::Aes(_), Mode::Xts) => xts::run(kernel, work, scratch),
        Suite::Aead(Aead::AesGcm(_)) | Suite::Mac(Mac::Gmac(_)) => gcm::run(kernel, work, scratch),
        Suite::Aead(Aead::AesCcm(_)) => ccm::run(kernel, work, scratch),
        Suite::Aead(Aead::AesGcmSiv(_)) => gcm_siv::run(kernel, work, scratch),
        Suite::Aead(Aead::AesSiv(_)) => siv::run(kernel, work, scratch),
        Suite::Aead(Aead::AesOcb(_)) => ocb::run(kernel, work, scratch),
        Suite::Mac(Mac::Cmac(_)) => cmac::run(kernel, work, scratch),
        _ => {}
    }
}
