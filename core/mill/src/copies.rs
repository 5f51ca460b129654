//! Operations of a batch in a batch of their own: what engines that can fail work on, and what witnesses compare.

use ciphermill_contract::limits::ARENA_LEN_MAX;
use ciphermill_contract::{
    Aad, ArenaBuffer, CheckedBatch, Direction, Error, Op, OpStatus, OwnedBatch, Result, Span, Suite,
};
use ciphermill_memory::Arena;

/// Bytes that one copy takes at most, unless a single operation is longer; what does not fit follows in another.
const COPY_LEN_MAX: u64 = 64 << 20;

/// Copied operations and where they came from.
pub(crate) struct Copied {
    pub(crate) batch: OwnedBatch,
    /// For each operation its index in the batch it was copied from.
    pub(crate) from: Vec<u32>,
}

/// An arena that is wiped when it is dropped.
struct Wiped(Arena);

impl ArenaBuffer for Wiped {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Where an operation's output lies, by its suite's rules.
fn output_span(suite: Suite, direction: Direction, op: &Op) -> Span {
    let len = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
    // Checked batches hold no output beyond their arena, whose length is 32 bits wide.
    Span::new(op.output, u32::try_from(len).unwrap_or(u32::MAX))
}

/// Copies those pending operations whose index `wanted` takes, as many as fit.
///
/// # Errors
/// `Exhausted` when there is no memory.
pub(crate) fn copy_pending(batch: &CheckedBatch<'_>, wanted: impl Fn(usize) -> bool) -> Result<Copied> {
    let (suite, direction) = (batch.suite(), batch.direction());
    let mut from = Vec::with_capacity(batch.len());
    let mut ops: Vec<Op> = Vec::with_capacity(batch.len());
    // The last operation's additional data, there and here: columns and streams share them.
    let mut aad: Option<(Aad, u32)> = None;
    let mut len = 0u64;
    for (index, op) in batch.ops().iter().enumerate() {
        if !op.status.is_pending() || !wanted(index) {
            continue;
        }
        let shared = aad.is_some_and(|(there, _)| there == op.aad);
        let data_len = u64::from(op.input.len.max(output_span(suite, direction, op).len));
        let apart = if suite.transforms() { 0 } else { u64::from(op.input.len) };
        let own = data_len + apart + u64::from(op.tag_len) + if shared { 0 } else { u64::from(op.aad.len) };
        if !ops.is_empty() && len + own > COPY_LEN_MAX {
            break;
        }
        // Each place is checked against the arena's limit at the end, all at once.
        let mut place = |bytes: u64| {
            let at = len;
            len += bytes;
            at as u32
        };
        let mut copy = *op;
        if !shared {
            aad = Some((op.aad, place(u64::from(op.aad.len))));
        }
        copy.aad.offset = aad.map_or(0, |(_, here)| here);
        copy.input.offset = place(if suite.transforms() { data_len } else { u64::from(op.input.len) });
        copy.output = if suite.transforms() { copy.input.offset } else { place(data_len) };
        copy.tag = place(u64::from(op.tag_len));
        ops.push(copy);
        from.push(index as u32);
    }
    if len > ARENA_LEN_MAX as u64 {
        return Err(Error::exhausted("ARENA_LEN_MAX", ARENA_LEN_MAX, usize::try_from(len).unwrap_or(usize::MAX)));
    }
    let mut arena = Arena::heap(len as usize).map_err(|_| Error::exhausted("memory for copies", 0, len as usize))?;
    for (copy, index) in ops.iter().zip(&from) {
        let op = &batch.ops()[*index as usize];
        for (to, source) in [(copy.input.offset, op.input), (copy.aad.offset, op.aad.span()), (copy.tag, op.tag_span())]
        {
            arena[Span::new(to, source.len).range()].copy_from_slice(&batch.arena()[source.range()]);
        }
    }
    let batch = OwnedBatch { suite, direction, ops, arena: Box::new(Wiped(arena)) };
    Ok(Copied { batch, from })
}

impl Copied {
    /// Writes what ended back to where it was copied from. Operations that the engine did not end, or that it failed,
    /// are left as they are there; returns how many.
    pub(crate) fn write_back(&self, to: &mut CheckedBatch<'_>) -> usize {
        let (suite, direction) = (self.batch.suite, self.batch.direction);
        let (ops, arena, _) = to.parts();
        let mut left = 0;
        for (copy, index) in self.batch.ops.iter().zip(&self.from) {
            let op = &mut ops[*index as usize];
            if matches!(copy.status, OpStatus::Pending | OpStatus::EngineFault) {
                left += 1;
                continue;
            }
            let output = output_span(suite, direction, op);
            let source = Span::new(copy.output, output.len);
            arena[output.range()].copy_from_slice(&self.batch.arena.bytes()[source.range()]);
            if direction == Direction::Encrypt {
                let source = Span::new(copy.tag, u32::from(op.tag_len));
                arena[op.tag_span().range()].copy_from_slice(&self.batch.arena.bytes()[source.range()]);
            }
            (op.status, op.output_len, op.tag_len) = (copy.status, copy.output_len, copy.tag_len);
        }
        left
    }

    /// Puts the inputs back to where they were copied from and makes the operations pending again.
    pub(crate) fn restore(&self, to: &mut CheckedBatch<'_>) {
        let (ops, arena, _) = to.parts();
        for (copy, index) in self.batch.ops.iter().zip(&self.from) {
            let op = &mut ops[*index as usize];
            for (from, place) in [(copy.input.offset, op.input), (copy.tag, Span::new(op.tag, u32::from(copy.tag_len)))]
            {
                let source = Span::new(from, place.len);
                arena[place.range()].copy_from_slice(&self.batch.arena.bytes()[source.range()]);
            }
            (op.status, op.output_len, op.tag_len) = (copy.status, copy.output_len, copy.tag_len);
        }
    }

    /// A copy of this copy, of those operations that `wanted` takes by their index here; indices still tell where they
    /// came from at first.
    ///
    /// # Errors
    /// As [`copy_pending`].
    pub(crate) fn select(&mut self, wanted: impl Fn(usize) -> bool) -> Result<Copied> {
        let batch = self.batch.as_batch().check()?;
        let mut selected = copy_pending(&batch, wanted)?;
        selected.from.iter_mut().for_each(|index| *index = self.from[*index as usize]);
        Ok(selected)
    }

    /// The first operation whose outcome here is not that in `other`, by its index there; operations that either side
    /// did not end are not compared.
    pub(crate) fn differs_from(&self, other: &CheckedBatch<'_>) -> Option<usize> {
        let (suite, direction) = (self.batch.suite, self.batch.direction);
        let ended = |status: OpStatus| !matches!(status, OpStatus::Pending | OpStatus::EngineFault);
        let bytes = self.batch.arena.bytes();
        self.batch.ops.iter().zip(&self.from).find_map(|(copy, index)| {
            let index = *index as usize;
            let op = &other.ops()[index];
            if !ended(copy.status) || !ended(op.status) {
                return None;
            }
            let output = output_span(suite, direction, op);
            let own_output = Span::new(copy.output, output.len);
            let own_tag = Span::new(copy.tag, u32::from(copy.tag_len));
            let same = copy.status.is_done() == op.status.is_done()
                && (!op.status.is_done()
                    || (copy.output_len, copy.tag_len) == (op.output_len, op.tag_len)
                        && bytes[own_output.range()] == other.arena()[output.range()]
                        && (direction == Direction::Decrypt
                            || bytes[own_tag.range()] == other.arena()[op.tag_span().range()]));
            (!same).then_some(index)
        })
    }
}
