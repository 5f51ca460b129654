//! The pipeline of a queue: batches cut into shares, several of which are in flight at a time, each on a stream of its own: while one is
//! packed, others are copied in, worked on and copied out.

use core::ops::Range;
use std::collections::VecDeque;
use std::sync::Arc;

use ciphermill_contract::{CheckedBatch, OpStatus};

use crate::arena::Arenas;
use crate::capabilities::INPUT_LEN_MAX;
use crate::device::{Device, DirectCopies, Launch, Link, Result, Stream, Trouble};
use crate::pack::{self, Layout, Piece};
use crate::select::{Plan, plan};

#[cfg(test)]
pub(crate) mod tests;

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
pub(crate) const DIRECT_LEN_MIN: usize = 64 << 10;

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
struct Flight<L> {
    stream: Box<dyn Stream>,
    /// Its pieces or operations, as a range of the batch's.
    range: Range<usize>,
    layout: L,
}

/// What is cut into shares: the pieces of a batch, or columns.
pub(crate) trait Cargo {
    /// Where everything of a share lies in the staging buffer.
    type Layout;

    /// How many pieces or operations there are, and their bytes.
    fn extent(&self) -> (usize, usize);

    /// The end of a share from `from` on that takes about `len_max` bytes of staging.
    fn end_of_share(&self, from: usize, len_max: usize) -> usize;

    /// How a share lies, with what is copied between it and arenas as it lies there.
    fn lay_out(&self, range: Range<usize>, arenas: &Arc<Arenas>) -> (Self::Layout, Launch, DirectCopies);

    /// Bytes of the staging buffer that a share fills, and of its longest message.
    fn lens(&self, range: Range<usize>, layout: &Self::Layout) -> (usize, usize);

    /// Packs a share.
    fn pack(&self, range: Range<usize>, layout: &Self::Layout, staging: &mut [u8]);

    /// Takes the results of a share.
    fn unpack(&mut self, range: Range<usize>, layout: &Self::Layout, staging: &[u8]);
}

impl Pipeline {
    /// A pipeline that knows its engine's arenas.
    pub(crate) fn new(device: Arc<dyn Device>, arenas: Arc<Arenas>) -> Pipeline {
        Pipeline { device, arenas, link: None, idle: Vec::new(), pieces: Vec::new() }
    }

    /// The engine's arenas.
    #[cfg(test)]
    pub(crate) fn arenas(&self) -> &Arc<Arenas> {
        &self.arenas
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
    fn set_off<C: Cargo>(&mut self, cargo: &C, range: Range<usize>) -> Result<Flight<C::Layout>> {
        let (layout, launch, copies) = cargo.lay_out(range.clone(), &self.arenas);
        let (staging_len, message_max) = cargo.lens(range.clone(), &layout);
        let is_direct = copies.input.is_some() || copies.output.is_some();
        let is_mapped = !is_direct && launch.memory_len <= MAPPED_LEN_MAX && message_max <= MAPPED_MESSAGE_MAX;
        let mut stream = self.take_stream()?;
        let room = if is_mapped { launch.memory_len } else { staging_len };
        cargo.pack(range.clone(), &layout, stream.staging(room)?);
        match (is_direct, is_mapped) {
            (true, _) => stream.start_direct(&launch, copies)?,
            (_, true) => stream.start_mapped(&launch)?,
            _ => stream.start(&launch)?,
        }
        Ok(Flight { stream, range, layout })
    }

    /// Waits for a share and takes its results. The stream is idle again; one that failed is given up.
    fn land<C: Cargo>(&mut self, cargo: &mut C, flight: Flight<C::Layout>) -> Result<()> {
        let Flight { mut stream, range, layout } = flight;
        let outcome = stream.finish().map(|staging| cargo.unpack(range, &layout, staging));
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
        let landed = match self.fly(&mut Pieces { batch, plan: &plan, pieces: &pieces }) {
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

    /// Runs everything through the slots. On trouble, what was in flight is waited for, and the pieces or operations from
    /// the returned one on have not been worked on.
    pub(crate) fn fly<C: Cargo>(&mut self, cargo: &mut C) -> core::result::Result<(), usize> {
        let (count, bytes) = cargo.extent();
        let share_len = (bytes / (2 * SLOTS_MAX)).clamp(SHARE_LEN_MIN, SHARE_LEN_MAX);
        let mut flights: VecDeque<Flight<C::Layout>> = VecDeque::with_capacity(SLOTS_MAX);
        let (mut next, mut landed) = (0, 0);
        let mut trouble = None;
        while next < count || !flights.is_empty() {
            while trouble.is_none() && next < count && flights.len() < SLOTS_MAX {
                let end = cargo.end_of_share(next, share_len);
                match self.set_off(cargo, next..end) {
                    Ok(flight) => flights.push_back(flight),
                    Err(error) => trouble = Some(error),
                }
                next = end;
            }
            let Some(flight) = flights.pop_front() else { break };
            let end = flight.range.end;
            match self.land(cargo, flight) {
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

/// The pieces of a batch of ops.
struct Pieces<'p, 'b> {
    batch: &'p mut CheckedBatch<'b>,
    plan: &'p Plan,
    pieces: &'p [Piece],
}

impl Pieces<'_, '_> {
    /// The data of some pieces in an arena that the device knows, if they lie there as the kernel wants them: what is copied
    /// in and, for suites that transform, out. Where they go on the device is not known yet.
    fn direct(&self, pieces: &[Piece], arenas: &Arc<Arenas>) -> DirectCopies {
        let run = self.plan.run(self.batch.direction(), pieces).filter(|run| run.len >= DIRECT_LEN_MIN);
        let copy = |at: usize, len: usize| arenas.direct(&self.batch.arena()[at..at + len]);
        let Some(run) = run else { return DirectCopies::default() };
        match (copy(run.input, run.len), run.output.map(|output| copy(output, run.len))) {
            (Some(input), None) => DirectCopies { input: Some(input), output: None },
            (Some(input), Some(Some(output))) => DirectCopies { input: Some(input), output: Some(output) },
            _ => DirectCopies::default(),
        }
    }
}

impl Cargo for Pieces<'_, '_> {
    type Layout = Layout;

    fn extent(&self) -> (usize, usize) {
        (self.pieces.len(), self.pieces.iter().map(|piece| piece.len as usize).sum())
    }

    fn end_of_share(&self, from: usize, len_max: usize) -> usize {
        from + self.plan.fitting(&self.pieces[from..], len_max)
    }

    fn lay_out(&self, range: Range<usize>, arenas: &Arc<Arenas>) -> (Layout, Launch, DirectCopies) {
        let own = &self.pieces[range];
        let mut copies = self.direct(own, arenas);
        let layout = self.plan.layout(own, self.batch.suite().needs_key(), copies.input.is_some());
        for copy in [&mut copies.input, &mut copies.output].into_iter().flatten() {
            copy.at = layout.data_at;
        }
        let launch = self.plan.launch(&layout, own.len());
        (layout, launch, copies)
    }

    fn lens(&self, range: Range<usize>, layout: &Layout) -> (usize, usize) {
        (layout.staging_len, self.pieces[range].first().map_or(0, |longest| longest.len as usize))
    }

    fn pack(&self, range: Range<usize>, layout: &Layout, staging: &mut [u8]) {
        pack::pack(self.batch, self.plan, &self.pieces[range], layout, staging);
    }

    fn unpack(&mut self, range: Range<usize>, layout: &Layout, staging: &[u8]) {
        pack::unpack(self.batch, self.plan, &self.pieces[range], layout, staging);
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
