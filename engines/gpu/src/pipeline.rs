//! The pipeline of a queue: batches cut into shares, several of which are in flight at a time, each on a stream of its own: while one is
//! packed, others are copied in, worked on and copied out.

use std::collections::VecDeque;
use std::sync::Arc;

use ciphermill_contract::{CheckedBatch, OpStatus};

use crate::arena::Arenas;
use crate::capabilities::INPUT_LEN_MAX;
use crate::device::{Device, Direct, Link, Result, Stream, Trouble};
use crate::pack::{self, Layout, Piece};
use crate::select::{Plan, plan};

#[cfg(test)]
mod tests;

/// Shares in flight at most.
pub(crate) const SLOTS_MAX: usize = 4;

/// Bytes of staging of a share: enough that a launch is small beside it, and few enough that slots overlap.
const SHARE_LEN_MIN: usize = 1 << 20;
const SHARE_LEN_MAX: usize = 16 << 20;

/// Bytes of a share, and of its longest message, up to which the kernel works in the staging buffer itself. Reckoned, not
/// measured: two copies and the wiping, in lines that wait for each other, take about 20 microseconds on top of a launch. A
/// kernel that reads across the link waits about one and a half for every line of 32 bytes of a message, one behind
/// the other, and moves some gigabytes a second in all: 16 KiB take a few microseconds, and 256 bytes twelve.
const MAPPED_LEN_MAX: usize = 16 << 10;
const MAPPED_MESSAGE_MAX: usize = 256;

/// Bytes of a share from which on its data are copied between the caller's arena and the device as they lie: a copy more
/// each way takes about as long as packing as many.
const DIRECT_LEN_MIN: usize = 64 << 10;

/// Arenas' data begin at multiples of as many bytes where they are copied as they lie: links move whole words.
const DIRECT_ALIGN: usize = 4;

/// Pieces for which a queue keeps memory between batches: the most operations of a batch that is not extraordinary.
const PIECES_KEPT_MAX: usize = 1 << 20;

const _: () = assert!(SHARE_LEN_MAX + INPUT_LEN_MAX < u32::MAX as usize);

/// A queue's way to the device.
pub(crate) struct Pipeline {
    device: Arc<dyn Device>,
    arenas: Arc<Arenas>,
    /// The way to the device; opened when first needed, and anew after trouble.
    link: Option<Box<dyn Link>>,
    idle: Vec<Box<dyn Stream>>,
    /// Memory for pieces, kept between batches.
    pieces: Vec<Piece>,
}

/// A share in flight.
struct Flight {
    stream: Box<dyn Stream>,
    /// Its pieces, as a range of the batch's.
    pieces: core::ops::Range<usize>,
    layout: Layout,
}

impl Pipeline {
    /// A pipeline that knows its engine's arenas.
    pub(crate) fn new(device: Arc<dyn Device>, arenas: Arc<Arenas>) -> Pipeline {
        Pipeline { device, arenas, link: None, idle: Vec::new(), pieces: Vec::new() }
    }

    /// A stream with nothing under way.
    pub(crate) fn take_stream(&mut self) -> Result<Box<dyn Stream>> {
        if let Some(stream) = self.idle.pop() {
            return Ok(stream);
        }
        let link = match &mut self.link {
            Some(link) => link,
            place => place.insert(self.device.link()?),
        };
        link.stream()
    }

    /// Takes a stream back, wiped.
    pub(crate) fn give_stream(&mut self, stream: Box<dyn Stream>) {
        self.idle.push(stream);
    }

    /// Packs a share and sets it off.
    fn set_off(
        &mut self,
        batch: &CheckedBatch<'_>,
        plan: &Plan,
        pieces: &[Piece],
        range: core::ops::Range<usize>,
    ) -> Result<Flight> {
        let own = &pieces[range.clone()];
        let direct = self.direct(batch, plan, own);
        let layout = plan.layout(own, batch.suite().needs_key(), direct.is_some());
        let mut stream = self.take_stream()?;
        pack::pack(batch, plan, own, &layout, stream.staging(layout.staging_len)?);
        let launch = plan.launch(&layout, own.len());
        let message_max = own.first().map_or(0, |longest| longest.len as usize);
        match direct {
            Some(direct) => stream.start_direct(&launch, Direct { at: layout.data_at, ..direct })?,
            None if launch.memory_len <= MAPPED_LEN_MAX && message_max <= MAPPED_MESSAGE_MAX => {
                stream.start_mapped(&launch)?;
            }
            None => stream.start(&launch)?,
        }
        Ok(Flight { stream, pieces: range, layout })
    }

    /// The share's data in an arena that the device knows, if they lie there as the kernel wants them. Where they go on
    /// the device is not known yet.
    fn direct(&self, batch: &CheckedBatch<'_>, plan: &Plan, pieces: &[Piece]) -> Option<Direct> {
        let run = plan.run(batch.direction(), pieces)?;
        let (hold, start) = self.arenas.hold(batch.arena()).filter(|_| run.len >= DIRECT_LEN_MIN)?;
        let (input, output) = (start + run.input, run.output.map(|output| start + output));
        // The memory itself begins at a page.
        let aligned = [Some(input), output].into_iter().flatten().all(|at| at % DIRECT_ALIGN == 0);
        aligned.then_some(Direct { hold, input, output, len: run.len, at: 0 })
    }

    /// Waits for a share and takes its results. The stream is idle again; one that failed is given up.
    fn land(&mut self, batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], flight: Flight) -> Result<()> {
        let Flight { mut stream, pieces: range, layout } = flight;
        let outcome = stream.finish().map(|staging| pack::unpack(batch, plan, &pieces[range], &layout, staging));
        stream.wipe();
        if outcome.is_ok() {
            self.give_stream(stream);
        }
        outcome
    }

    /// Gives up the way to the device: what is left of it may have seen the trouble as well.
    pub(crate) fn give_up(&mut self, trouble: Trouble) {
        tracing::error!(?trouble, "gpu: a share of a batch failed");
        self.idle.clear();
        self.link = None;
    }

    /// Runs the operations of a batch whose suite works on messages; those of other suites stay pending.
    pub(crate) fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let Some(plan) = plan(batch.suite(), batch.direction()) else { return };
        let pieces = pack::pieces(batch, &plan, std::mem::take(&mut self.pieces));
        let landed = match self.fly(batch, &plan, &pieces) {
            Ok(()) => pieces.len(),
            Err(landed) => landed,
        };
        settle_all(batch, &pieces, landed);
        if pieces.capacity() <= PIECES_KEPT_MAX {
            self.pieces = pieces;
        }
    }

    /// Makes arenas that were asked for. The queue's thread may wait for the device; those who ask may not.
    pub(crate) fn make_arenas(&self) {
        self.arenas.make_wanted();
    }

    /// Runs all pieces through the slots. On trouble, what was in flight is waited for, and the pieces from the returned
    /// one on have not been worked on.
    fn fly(&mut self, batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece]) -> core::result::Result<(), usize> {
        let bytes: usize = pieces.iter().map(|piece| piece.len as usize).sum();
        let share_len = (bytes / (2 * SLOTS_MAX)).clamp(SHARE_LEN_MIN, SHARE_LEN_MAX);
        let mut flights: VecDeque<Flight> = VecDeque::with_capacity(SLOTS_MAX);
        let (mut next, mut landed) = (0, 0);
        let mut trouble = None;
        while next < pieces.len() || !flights.is_empty() {
            while trouble.is_none() && next < pieces.len() && flights.len() < SLOTS_MAX {
                let end = next + plan.fitting(&pieces[next..], share_len);
                match self.set_off(batch, plan, pieces, next..end) {
                    Ok(flight) => flights.push_back(flight),
                    Err(error) => trouble = Some(error),
                }
                next = end;
            }
            let Some(flight) = flights.pop_front() else { break };
            let end = flight.pieces.end;
            match self.land(batch, plan, pieces, flight) {
                Ok(()) => landed = end,
                Err(error) => {
                    trouble = Some(error);
                    // What is in flight behind it is waited for and forgotten.
                    flights.clear();
                }
            }
        }
        match trouble {
            None => Ok(()),
            Some(trouble) => {
                self.give_up(trouble);
                Err(landed)
            }
        }
    }
}

/// Settles what the device has done, and what it has not: the pieces from `landed` on.
fn settle_all(batch: &mut CheckedBatch<'_>, pieces: &[Piece], landed: usize) {
    for piece in &pieces[landed..] {
        let index = piece.op as usize;
        if batch.ops()[index].status != OpStatus::EngineFault {
            pack::settle(batch, index, OpStatus::EngineFault);
        }
    }
    let (suite, direction) = (batch.suite(), batch.direction());
    let (ops, _, _) = batch.parts();
    // Neighbours are often of one length.
    let mut last = None;
    for piece in &pieces[..landed] {
        let op = &mut ops[piece.op as usize];
        if op.status.is_pending() {
            let (_, output_len) = *last
                .filter(|(input_len, _)| *input_len == op.input.len)
                .get_or_insert_with(|| (op.input.len, suite.output_len(direction, op.input.len as usize, 0)));
            last = Some((op.input.len, output_len));
            // Outputs lie within the arena, whose length is 32 bits wide.
            op.output_len = output_len as u32;
            op.status = OpStatus::Done;
        }
    }
}
