//! Public-key suites: the host turns an operation into numbers of fixed length, the device works on them, and the host
//! turns the result into the operation's output, tag and status. A suite says how in an [`Around`]; `flight` does the rest.

mod ec;
mod flight;
mod lattice;
mod rsa;
#[cfg(test)]
mod tests;

use std::any::Any;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Curve, Signature};
use ciphermill_contract::{CheckedBatch, Direction, KeyMaterial, OpStatus, Suite};

use crate::keys::Halves;
use crate::pipeline::Queue;
use crate::program::Program;

/// What a suite's work on the device looks like. It is the same for every operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) program: Program,
    pub(crate) kernel: &'static str,
    /// Work items of an operation; they stand beside each other.
    pub(crate) items: usize,
    /// Bytes that the device gets of each operation, and gives back in the same place. `HEAD_LEN` has the former.
    pub(crate) input_len: usize,
    pub(crate) output_len: usize,
    /// Words of the device's memory that each work item has to itself (`scratch_of` in `kernels/batch.h`).
    pub(crate) scratch_words: usize,
    /// What `before` and `after` take together, in nanoseconds on one core: an estimate, by which they are spread over
    /// the cores.
    pub(crate) host_ns: usize,
}

/// What an operation brings along, to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'b> {
    #[allow(dead_code, reason = "the suites know it by their type; tests ask")]
    pub(crate) direction: Direction,
    pub(crate) input: &'b [u8],
    /// What is to be verified or opened; of no meaning where the operation writes its tag.
    pub(crate) tag: &'b [u8],
}

/// Where an operation's results go: zeros that are copied to the batch's arena when the operation is `Done`, and only then.
#[derive(Debug)]
pub(crate) struct Out<'b> {
    /// The output, of the most bytes that it can have, and how many of them it has; preset to all.
    pub(crate) data: &'b mut [u8],
    pub(crate) data_len: usize,
    /// The tag where the suite writes one, else empty, and its length; preset to the suite's own.
    pub(crate) tag: &'b mut [u8],
    pub(crate) tag_len: usize,
}

/// The host's work around a kernel. Both functions may be called on several threads at a time.
pub(crate) trait Around: Sync {
    /// The host's half of a prepared key; wiped by its own `Drop`.
    type Key: Any + Send + Sync;

    /// What is kept of an operation while the device works on it; wiped by its own `Drop`.
    type Kept: Default + Send;

    /// What the device's work looks like.
    fn shape(&self) -> Shape;

    /// Writes the device's input at `place`, which has `input_len` bytes, all zero.
    ///
    /// # Errors
    /// The operation's status, when it ends here; it does not go to the device.
    fn before(&self, op: &View<'_>, key: &Self::Key, kept: &mut Self::Kept, place: &mut [u8]) -> Result<(), OpStatus>;

    /// Turns the device's output, `output_len` bytes, into the operation's. A device may be wrong: what it gives is checked.
    /// `Pending` sends the operation once more through `before`, with what it kept; that has to end soon.
    fn after(
        &self,
        op: &View<'_>,
        key: &Self::Key,
        kept: &mut Self::Kept,
        result: &[u8],
        out: &mut Out<'_>,
    ) -> OpStatus;
}

/// Runs a batch if its suite and direction are of those here. Operations that the device failed at are settled.
pub(crate) fn run(queue: &mut Queue, batch: &mut CheckedBatch<'_>) {
    match (batch.suite(), batch.direction()) {
        (Suite::Sign(Signature::Rsa(..)) | Suite::PublicEncrypt(_), _) => rsa::run(queue, batch),
        (Suite::Sign(Signature::MlDsa(set)), Direction::Encrypt) => flight::fly(queue, batch, &lattice::Sign(set)),
        (Suite::Sign(Signature::MlDsa(set)), Direction::Decrypt) => flight::fly(queue, batch, &lattice::Verify(set)),
        (Suite::Kem(kem), Direction::Encrypt) => flight::fly(queue, batch, &lattice::Encapsulate(kem)),
        (Suite::Kem(kem), Direction::Decrypt) => flight::fly(queue, batch, &lattice::Decapsulate(kem)),
        (Suite::Sign(Signature::Ecdsa(Curve::P256)), Direction::Encrypt) => flight::fly(queue, batch, &ec::Sign),
        (Suite::Sign(Signature::Ecdsa(Curve::P256)), Direction::Decrypt) => flight::fly(queue, batch, &ec::Verify),
        (Suite::Agree(Agreement::Ecdh(Curve::P256)), Direction::Encrypt) => flight::fly(queue, batch, &ec::Ecdh),
        (Suite::Agree(Agreement::X25519), Direction::Encrypt) => flight::fly(queue, batch, &ec::X25519),
        _ => {}
    }
}

/// Whether a suite is one of those that come here.
pub(crate) fn takes(suite: Suite) -> bool {
    matches!(suite, Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Agree(_) | Suite::Kem(_))
}

/// Checks a key that [`Suite::check_key`] takes and works out its halves.
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<Halves, KeyProblem> {
    match suite {
        Suite::Sign(Signature::MlDsa(set)) => lattice::prepare_ml_dsa(key, set),
        Suite::Kem(kem) => lattice::prepare_ml_kem(key, kem),
        Suite::Sign(Signature::Ecdsa(Curve::P256)) => ec::prepare_ecdsa(key),
        Suite::Agree(Agreement::Ecdh(Curve::P256)) => ec::prepare_ecdh(key),
        Suite::Agree(Agreement::X25519) => ec::prepare_x25519(key),
        Suite::Sign(Signature::Rsa(size, ..)) => rsa::prepare(key, size),
        Suite::PublicEncrypt(encryption) => rsa::prepare(key, encryption.size()),
        _ => Err(KeyProblem::Parameters),
    }
}
