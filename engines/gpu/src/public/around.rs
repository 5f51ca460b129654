//! The host's work around a kernel: what a suite of public keys says of itself.

use std::any::Any;

use ciphermill_contract::{Direction, OpStatus};

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
    /// The context string of ML-DSA; empty for all else.
    pub(crate) aad: &'b [u8],
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
