//! What sessions have under way: ciphers, signatures, MACs and digests, in one call or in parts, and what is done with keys.

mod cipher;
pub(crate) mod derive;
mod digest;
pub(crate) mod keys;
mod message;
mod random;
mod rsa;
mod signature;

use ciphermill::{Mill, One, OneDone};
use ciphermill_contract::{Direction, KeyId, Suite};
use zeroize::Zeroizing;

pub(crate) use cipher::Cipher;
pub(crate) use digest::{Hasher, STATE_LEN, Saved};
pub(crate) use message::Message;
pub(crate) use random::random;
pub(crate) use signature::{Signer, Verifier};

use crate::rv::{Asked, Result, of_status};

/// A step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Everything in one call.
    OneShot,
    /// A part.
    Update,
    /// The end of what came in parts.
    Final,
}

/// Adds a part to a message that is kept. Growing where it lies would leave copies behind that nobody wipes.
fn keep(kept: &mut Zeroizing<Vec<u8>>, part: &[u8]) {
    if kept.capacity() - kept.len() < part.len() {
        let mut longer = Zeroizing::new(Vec::with_capacity((kept.len() + part.len()).next_power_of_two()));
        longer.extend_from_slice(kept);
        *kept = longer;
    }
    kept.extend_from_slice(part);
}

/// One operation of a suite, with those of other threads if that pays.
///
/// # Errors
/// Those of the mill, and any status but `Done`.
fn run(mill: &Mill, what: (Suite, Direction), key: KeyId, asked: Asked, one: Buffers<'_>) -> Result<OneDone> {
    let Buffers { iv, aad, data, input_len, tag } = one;
    let done = mill.run_one(what.0, what.1, One { key, iv, aad, data, input_len, tag })?;
    of_status(done.status, asked)?;
    Ok(done)
}

/// The buffers of one operation: those of [`One`] without a key.
#[derive(Default)]
struct Buffers<'d> {
    iv: &'d [u8],
    aad: &'d [u8],
    data: &'d mut [u8],
    input_len: usize,
    tag: &'d mut [u8],
}
