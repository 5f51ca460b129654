//! RSA private operations (RFC 8017): signatures and decryption. The host pads, blinds, puts the halves of the Chinese
//! remainder theorem together and checks the result with the public exponent; the device raises to the private exponents.
//!
//! An operation on the host takes, in multiplications modulo `n`: one to blind, two to move the blinding factors on, one to
//! reveal, and `2 + log2(e)` to check, 18 for 65,537; besides them two of half the length to put the halves together. Every 33rd
//! operation under a key makes new blinding factors: an inversion, which is worth some 350 multiplications.

mod key;
mod limbs;
#[cfg(test)]
mod tests;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Digest, PublicEncryption, RsaSize, SignPadding, Signature};
use ciphermill_contract::{CheckedBatch, Direction, KeyMaterial, OpStatus, Reason, Suite};
use ciphermill_pairs::padding::{self, OneByOne};
use crypto_bigint::Uint;
use zeroize::Zeroizing;

use self::key::{Hidden, RsaKey};
use self::limbs::limbs;
use super::around::{Around, Out, Shape, View};
use super::flight::fly;
use crate::keys::Halves;
use crate::pipeline::Pipeline;
use crate::program::Program;

/// Prepares a key with a modulus of `size`.
///
/// # Errors
/// As [`RsaKey::prepare`].
pub(super) fn prepare(key: &KeyMaterial<'_>, size: RsaSize) -> Result<Halves, KeyProblem> {
    match size {
        RsaSize::Rsa1024 => RsaKey::<16, 8>::prepare(key),
        RsaSize::Rsa2048 => RsaKey::<32, 16>::prepare(key),
        RsaSize::Rsa3072 => RsaKey::<48, 24>::prepare(key),
        RsaSize::Rsa4096 => RsaKey::<64, 32>::prepare(key),
    }
}

/// What is done with the private key.
#[derive(Clone, Copy, Debug)]
enum Task {
    Sign(SignPadding, Digest),
    Open(PublicEncryption),
}

/// Runs a batch of private operations; public ones are not of this engine.
pub(super) fn run(queue: &mut Pipeline, batch: &mut CheckedBatch<'_>) {
    let (size, task) = match (batch.suite(), batch.direction()) {
        (Suite::Sign(Signature::Rsa(size, padding, digest)), Direction::Encrypt) => (size, Task::Sign(padding, digest)),
        (Suite::PublicEncrypt(encryption), Direction::Decrypt) => (encryption.size(), Task::Open(encryption)),
        _ => return,
    };
    match size {
        RsaSize::Rsa1024 => fly(queue, batch, &Private::<16, 8>(task)),
        RsaSize::Rsa2048 => fly(queue, batch, &Private::<32, 16>(task)),
        RsaSize::Rsa3072 => fly(queue, batch, &Private::<48, 24>(task)),
        RsaSize::Rsa4096 => fly(queue, batch, &Private::<64, 32>(task)),
    }
}

/// A batch's task, for moduli of `N` words of 64 bits and primes of `H`.
#[derive(Clone, Copy, Debug)]
struct Private<const N: usize, const H: usize>(Task);

/// What is kept of an operation: the number that its result has to give when it is raised to the public exponent, and what
/// reveals that result.
#[derive(Default)]
struct Kept<const N: usize> {
    number: Zeroizing<Uint<N>>,
    reveals: Zeroizing<Uint<N>>,
}

impl<const N: usize, const H: usize> Around for Private<N, H> {
    type Key = RsaKey<N, H>;
    type Kept = Kept<N>;

    fn shape(&self) -> Shape {
        let (program, host_ns) = match H {
            8 => (Program::Rsa1024, 22_000),
            16 => (Program::Rsa2048, 65_000),
            24 => (Program::Rsa3072, 130_000),
            _ => (Program::Rsa4096, 220_000),
        };
        Shape {
            program,
            kernel: "private_operation",
            items: 2,
            input_len: 8 * N,
            output_len: 8 * N,
            // The table of sixteen powers, a factor and the prime.
            scratch_words: 18 * limbs(H),
            host_ns,
        }
    }

    fn before(&self, op: &View<'_>, key: &Self::Key, kept: &mut Kept<N>, place: &mut [u8]) -> Result<(), OpStatus> {
        let private = key.private.as_ref().ok_or(OpStatus::Refused(Reason::KeyUnsuitable))?;
        let number = match self.0 {
            Task::Sign(padding, digest) => {
                let blocks = padding::for_signatures(&OneByOne, (padding, digest), &[op.input], 8 * N)?;
                Zeroizing::new(Uint::from_be_slice(blocks.first().ok_or(OpStatus::EngineFault)?))
            }
            Task::Open(_) if op.input.len() == 8 * N => Zeroizing::new(Uint::from_be_slice(op.input)),
            Task::Open(_) => return Err(OpStatus::EngineFault),
        };
        // A ciphertext is below the modulus (RFC 8017, 5.1.2); padded blocks begin with a zero, or a bit of it.
        if *number >= *key.public.modulus() {
            return Err(OpStatus::AuthFailed);
        }
        let Hidden { hidden, reveals } = private.hide(&key.public, &number)?;
        place.copy_from_slice(hidden.to_le_bytes().as_ref());
        *kept = Kept { number, reveals };
        Ok(())
    }

    fn after(&self, _op: &View<'_>, key: &Self::Key, kept: &mut Kept<N>, result: &[u8], out: &mut Out<'_>) -> OpStatus {
        let Some(private) = &key.private else { return OpStatus::EngineFault };
        let halves = result.split_at(8 * H);
        let raised = private.combine(&Uint::from_le_slice(halves.0), &Uint::from_le_slice(halves.1));
        let raised = key.public.reveal(&raised, &kept.reveals);
        // A result with a fault in one of its halves gives the primes away (Boneh, DeMillo and Lipton, 1997).
        if !key.public.gives(&raised, &kept.number) {
            return OpStatus::EngineFault;
        }
        let block = Zeroizing::new(raised.to_be_bytes());
        let message = match self.0 {
            Task::Sign(..) => {
                let Some(room) = out.tag.get_mut(..8 * N) else { return OpStatus::EngineFault };
                room.copy_from_slice(block.as_ref());
                out.tag_len = room.len();
                return OpStatus::Done;
            }
            Task::Open(encryption) => {
                padding::open(&OneByOne, encryption, vec![Zeroizing::new(block.as_ref().to_vec())]).pop()
            }
        };
        let Some(Some(message)) = message else { return OpStatus::AuthFailed };
        let Some(room) = out.data.get_mut(..message.len()) else { return OpStatus::EngineFault };
        room.copy_from_slice(&message);
        out.data_len = message.len();
        OpStatus::Done
    }
}
