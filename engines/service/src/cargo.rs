//! What goes over a channel: a batch in pieces.

use std::sync::Arc;

use ciphermill_channel::{ColumnShape, Request};
use ciphermill_contract::Result;
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Error, OpStatus, Reason, Suite};
use ciphermill_memory::Region;
use zeroize::Zeroizing;

use crate::link::{Link, NAME};

/// What begins a stretch of a channel begins a line of the cache.
pub(crate) const LINE: usize = 64;

/// A batch of operations or columns, in pieces.
pub(crate) trait Cargo {
    /// What is done to all.
    fn suite(&self) -> Suite;

    /// The number of the next piece, which is cut now: while the first is worked on there is time for it. `None` when all were cut.
    fn next(&mut self) -> Option<usize>;

    /// Operations of a piece, and bytes of their inputs.
    fn work(&self, piece: usize) -> (usize, usize);

    /// Bytes that a piece takes of a channel.
    fn room(&self, piece: usize) -> usize;

    /// Puts a piece into the channel.
    ///
    /// # Errors
    /// Of keys that cannot be handed over; [`full`] when there is no room.
    fn put(&mut self, piece: usize, way: &mut Way<'_>) -> Result<Request>;

    /// Takes what came of a piece out of the channel.
    ///
    /// # Errors
    /// [`full`] when it does not lie there.
    fn take(&mut self, piece: usize, way: &mut Way<'_>) -> Result<()>;
}

/// A stretch of a channel, and what it takes to fill it.
pub(crate) struct Way<'w> {
    pub(crate) link: &'w Arc<Link>,
    pub(crate) memory: &'w Region,
    /// Where the stretch begins.
    pub(crate) at: usize,
    /// Bytes on their way between the channel and what lies scattered.
    pub(crate) stage: &'w mut Zeroizing<Vec<u8>>,
}

/// A channel has no room: a piece does not fit, or the channel is not as long as its service has said.
pub(crate) fn full() -> Error {
    Error::fault(NAME, FaultKind::Call(0))
}

/// Where the data of so many columns lie whose shape is at the byte `at` of a channel.
pub(crate) fn columns_at(at: usize, count: usize) -> usize {
    (at + ColumnShape::head_len(count)).next_multiple_of(LINE)
}

/// What this engine says where a service has said this. It knows nothing of this mill's policies: what they allow it cannot refuse, but for a
/// key that does not suit, and for keys of its own, which have policies there.
#[inline]
pub(crate) fn believed(said: OpStatus, names_key: impl FnOnce() -> bool) -> OpStatus {
    match said {
        OpStatus::Refused(reason) if reason != Reason::KeyUnsuitable && !names_key() => OpStatus::EngineFault,
        said => said,
    }
}

/// So many bytes to be filled, whatever is in them.
pub(crate) fn staged(stage: &mut Zeroizing<Vec<u8>>, len: usize) -> &mut [u8] {
    if stage.len() < len {
        // Made anew, and the one before wiped: growing would leave bytes behind in memory that is given back.
        *stage = Zeroizing::new(vec![0; len.next_power_of_two()]);
    }
    &mut stage[..len]
}

/// What is put into a stretch of a channel: by way of the stage as long as it is short, since many short copies into a channel take longer than
/// one.
pub(crate) struct Put<'p> {
    memory: &'p Region,
    at: usize,
    stage: Option<&'p mut [u8]>,
    has_room: bool,
}

impl<'p> Put<'p> {
    /// So many bytes from the byte `at` of the channel on.
    pub(crate) fn new(way: &'p mut Way<'_>, at: usize, len: usize, is_staged: bool) -> Put<'p> {
        let stage = if is_staged { Some(staged(way.stage, len)) } else { None };
        Put { memory: way.memory, at, stage, has_room: true }
    }

    /// Bytes at a place of the stretch.
    #[inline(always)]
    pub(crate) fn put(&mut self, place: usize, bytes: &[u8]) {
        match &mut self.stage {
            Some(stage) => stage[place..place + bytes.len()].copy_from_slice(bytes),
            None => self.has_room &= self.memory.write(self.at + place, bytes),
        }
    }

    /// Has all of it be there.
    ///
    /// # Errors
    /// [`full`].
    pub(crate) fn end(self) -> Result<()> {
        let is_written = self.stage.is_none_or(|stage| self.memory.write(self.at, stage));
        if is_written && self.has_room { Ok(()) } else { Err(full()) }
    }
}

/// What is taken out of a stretch of a channel, by way of the stage as long as it is short.
pub(crate) struct Take<'t> {
    memory: &'t Region,
    at: usize,
    stage: Option<&'t [u8]>,
    /// Whether all of it lay there.
    pub(crate) is_there: bool,
}

impl<'t> Take<'t> {
    /// So many bytes from the byte `at` of the channel on.
    pub(crate) fn new(way: &'t mut Way<'_>, at: usize, len: usize, is_staged: bool) -> Take<'t> {
        let memory = way.memory;
        if !is_staged {
            return Take { memory, at, stage: None, is_there: true };
        }
        let stage = staged(way.stage, len);
        let is_there = memory.read(at, stage);
        Take { memory, at, stage: Some(stage), is_there }
    }

    /// Bytes from a place of the stretch on.
    #[inline(always)]
    pub(crate) fn take(&mut self, place: usize, bytes: &mut [u8]) {
        match self.stage {
            Some(stage) => bytes.copy_from_slice(&stage[place..place + bytes.len()]),
            None => self.is_there &= self.memory.read(self.at + place, bytes),
        }
    }
}
