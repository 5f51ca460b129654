//! What sessions have under way: ciphers, signatures, MACs and digests, in one call or in parts, and what is done with keys.

mod check;
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

pub(crate) use check::check_value;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_moves_only_by_way_of_a_copy_that_is_as_long_as_it_has_to_be() {
        let (mut kept, mut expected) = (Zeroizing::new(Vec::new()), Vec::new());
        for len in [0_usize, 1, 5, 31, 32, 33, 1000, 1] {
            let part: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let fits = kept.capacity() - kept.len() >= len;
            let before = kept.as_ptr();
            keep(&mut kept, &part);
            expected.extend_from_slice(&part);
            assert_eq!(*kept, expected);
            // A vector that grew by itself would not have asked for a power of two, and its old place would not have been wiped.
            assert_eq!(kept.as_ptr() == before, fits);
            assert!(kept.is_empty() || kept.capacity().is_power_of_two());
        }
    }
}
