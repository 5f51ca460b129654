//! ChaCha20, Poly1305 and both together (RFC 8439). Kernels are generic over the instruction set ([`isa`]).

mod aead;
mod cipher;
pub(crate) mod isa;
mod mac;
mod poly;
mod portable;
mod stream;
#[cfg(target_arch = "x86_64")]
mod v128;
#[cfg(target_arch = "x86_64")]
mod v256;
#[cfg(target_arch = "x86_64")]
mod v512;
mod wide;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Aead, Mac, StreamCipher};
use ciphermill_contract::{Capability, Direction, PreparedKey, Suite};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::work::{Scratch, Work};
use isa::ChaChaKernel;

/// A key: there is no schedule.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(C, align(32))]
struct ChaChaKey {
    bytes: [u8; 32],
}

/// What the family lists.
pub(crate) fn capabilities(kernel: ChaChaKernel) -> Vec<Capability> {
    vec![stream::capability(kernel), aead::capability(kernel), mac::capability(kernel)]
}

/// Prepares a key for one of the suites of [`capabilities`].
pub(crate) fn prepare(key: &[u8], suite: Suite) -> Result<PreparedKey, KeyProblem> {
    let bytes = key.try_into().map_err(|_| KeyProblem::Length)?;
    Ok(PreparedKey::for_suite(suite, ChaChaKey { bytes }))
}

/// Runs a batch; operations of suites that are not listed stay pending.
pub(crate) fn run(kernel: ChaChaKernel, work: &mut Work<'_>, scratch: &mut Scratch) {
    match (work.suite(), work.direction()) {
        (Suite::Stream(StreamCipher::ChaCha20), _) => stream::run(kernel, work, scratch),
        (Suite::Aead(Aead::ChaCha20Poly1305), Direction::Encrypt) => aead::seal(kernel, work, scratch),
        (Suite::Aead(Aead::ChaCha20Poly1305), Direction::Decrypt) => aead::open(kernel, work, scratch),
        (Suite::Mac(Mac::Poly1305), _) => mac::run(kernel, work, scratch),
        _ => {}
    }
}
