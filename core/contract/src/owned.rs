//! Batches that are handed over: they own their operations and arena and come back when they are done.

use crate::batch::Batch;
use crate::op::Op;
use crate::suite::{Direction, Suite};

/// Memory that an arena lies in: on the heap, shared with another process, or known to a device.
pub trait ArenaBuffer: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl ArenaBuffer for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// A batch that owns its operations and its arena.
pub struct OwnedBatch {
    /// What is done to every operation.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
    /// The operations.
    pub ops: Vec<Op>,
    /// Where their inputs and outputs lie.
    pub arena: Box<dyn ArenaBuffer>,
}

impl OwnedBatch {
    /// The batch as a borrowed one.
    pub fn as_batch(&mut self) -> Batch<'_> {
        Batch::new(self.suite, self.direction, &mut self.ops, self.arena.bytes_mut())
    }
}

impl core::fmt::Debug for OwnedBatch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "OwnedBatch({} {}, {} ops)", self.suite, self.direction, self.ops.len())
    }
}

/// The name of a submitted batch within its queue or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// A batch that has come back.
#[derive(Debug)]
pub struct Completed {
    /// What the mill returned when it was handed over.
    pub ticket: Ticket,
    /// The batch; every operation has its status.
    pub batch: OwnedBatch,
    /// Why the batch as a whole was not carried out, if it was not.
    pub result: crate::error::Result<()>,
}
