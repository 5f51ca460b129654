//! Operations of a batch in a batch of their own: what engines that can fail work on, and what witnesses compare.

use ciphermill_contract::limits::ARENA_LEN_MAX;
use ciphermill_contract::{
    Aad, ArenaBuffer, CheckedBatch, Direction, Error, Op, OpStatus, OwnedBatch, Result, Span, Suite,
};
use ciphermill_memory::Arena;

/// Bytes that one copy takes at most, unless a single operation is longer; what does not fit follows in another.
pub(super) const COPY_LEN_MAX: u64 = 64 << 20;

/// Copied operations and where they came from.
pub(super) struct Copied {
    pub(super) batch: OwnedBatch,
    /// For each operation its index in the batch it was copied from.
    pub(super) from: Vec<u32>,
}

/// What one engine's outcomes say of another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Agrees,
    /// The first operation that ended otherwise, by its index in the batch.
    Differs(usize),
    /// No operation ended on both.
    Unknown,
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

/// Memory on the heap that is wiped when it is dropped.
///
/// # Errors
/// `Exhausted` when there is no memory, or for more than an arena holds.
pub(super) fn wiped(len: u64) -> Result<Box<dyn ArenaBuffer>> {
    let asked = usize::try_from(len).unwrap_or(usize::MAX);
    if asked > ARENA_LEN_MAX {
        return Err(Error::exhausted("ARENA_LEN_MAX", ARENA_LEN_MAX, asked));
    }
    let heap = Arena::heap(asked).map_err(|_| Error::exhausted("memory for copies", 0, asked))?;
    Ok(Box::new(Wiped(heap)))
}

/// Where an operation's output lies, by its suite's rules.
pub(super) fn output_span(suite: Suite, direction: Direction, op: &Op) -> Span {
    let len = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
    // Checked batches hold no output beyond their arena, whose length is 32 bits wide.
    Span::new(op.output, u32::try_from(len).unwrap_or(u32::MAX))
}

/// Wipes what an engine left where an operation's output goes: perhaps half a plaintext that nobody has authenticated.
pub(super) fn wipe_output(batch: &mut CheckedBatch<'_>, index: usize) {
    let (suite, direction) = (batch.suite(), batch.direction());
    let (ops, arena, _) = batch.parts();
    let output = output_span(suite, direction, &ops[index]);
    arena[output.range()].fill(0);
}

/// Takes room behind what was taken. Every place is checked against the arena's limit at the end, all at once.
fn place(taken: &mut u64, len: u64) -> u32 {
    let at = *taken;
    *taken += len;
    at as u32
}

/// Copies those pending operations whose index `wanted` takes, as many as fit, to memory that `arena` has for them, else to
/// the heap. Inputs lie one behind the other, without gaps; everything else lies behind them, for devices that take
/// what lies so as it is.
///
/// # Errors
/// `Exhausted` when there is no memory.
pub(super) fn copy_pending(
    batch: &CheckedBatch<'_>,
    wanted: impl Fn(usize) -> bool,
    arena: impl FnOnce(usize) -> Option<Box<dyn ArenaBuffer>>,
) -> Result<Copied> {
    let (suite, direction, transforms) = (batch.suite(), batch.direction(), batch.suite().transforms());
    let mut from = Vec::with_capacity(batch.len());
    let mut ops: Vec<Op> = Vec::with_capacity(batch.len());
    // The last operation's additional data, there and here: columns and streams share them.
    let mut aad: Option<(Aad, u32)> = None;
    let (mut inputs_len, mut rest_len) = (0u64, 0u64);
    for (index, op) in batch.ops().iter().enumerate() {
        if !op.status.is_pending() || !wanted(index) {
            continue;
        }
        let shared = aad.is_some_and(|(there, _)| there == op.aad);
        let output_len = u64::from(output_span(suite, direction, op).len);
        let input_len = u64::from(op.input.len);
        // An output in its input's place may be the longer of the two.
        let (data_len, apart) = if transforms { (input_len.max(output_len), 0) } else { (input_len, output_len) };
        let own = data_len + apart + u64::from(op.tag_len) + if shared { 0 } else { u64::from(op.aad.len) };
        if !ops.is_empty() && inputs_len + rest_len + own > COPY_LEN_MAX {
            break;
        }
        let mut copy = *op;
        copy.input.offset = place(&mut inputs_len, data_len);
        if !shared {
            aad = Some((op.aad, place(&mut rest_len, u64::from(op.aad.len))));
        }
        copy.aad.offset = aad.map_or(0, |(_, here)| here);
        copy.output = if transforms { copy.input.offset } else { place(&mut rest_len, apart) };
        copy.tag = place(&mut rest_len, u64::from(op.tag_len));
        ops.push(copy);
        from.push(index as u32);
    }
    let len = inputs_len + rest_len;
    if len > ARENA_LEN_MAX as u64 {
        return Err(Error::exhausted("ARENA_LEN_MAX", ARENA_LEN_MAX, usize::try_from(len).unwrap_or(usize::MAX)));
    }
    for copy in &mut ops {
        copy.aad.offset += inputs_len as u32;
        copy.tag += inputs_len as u32;
        copy.output += if transforms { 0 } else { inputs_len as u32 };
    }
    let mut arena = match arena(len as usize).filter(|arena| arena.bytes().len() == len as usize) {
        Some(arena) => arena,
        None => wiped(len)?,
    };
    let bytes = arena.bytes_mut();
    for (copy, index) in ops.iter().zip(&from) {
        let op = &batch.ops()[*index as usize];
        for (to, source) in [(copy.input.offset, op.input), (copy.aad.offset, op.aad.span()), (copy.tag, op.tag_span())]
        {
            bytes[Span::new(to, source.len).range()].copy_from_slice(&batch.arena()[source.range()]);
        }
    }
    let batch = OwnedBatch { suite, direction, ops, arena };
    Ok(Copied { batch, from })
}

impl Copied {
    /// Writes what ended back to where it was copied from. Operations that the engine did not end, that it failed, or of
    /// which it says that it wrote more than there was room for, are left as they are there; returns how many.
    pub(super) fn write_back(&self, to: &mut CheckedBatch<'_>) -> usize {
        let (suite, direction) = (self.batch.suite, self.batch.direction);
        let (ops, arena, _) = to.parts();
        let mut left = 0;
        for (copy, index) in self.batch.ops.iter().zip(&self.from) {
            let op = &mut ops[*index as usize];
            let output = output_span(suite, direction, op);
            let fits = copy.output_len <= output.len && copy.tag_len <= op.tag_len;
            if !fits || matches!(copy.status, OpStatus::Pending | OpStatus::EngineFault) {
                left += 1;
                continue;
            }
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

    /// Puts the inputs back to where they were copied from and makes the operations pending again; nothing is left of
    /// wrong answers.
    pub(super) fn restore(&self, to: &mut CheckedBatch<'_>) {
        let (suite, direction) = (self.batch.suite, self.batch.direction);
        let (ops, arena, _) = to.parts();
        for (copy, index) in self.batch.ops.iter().zip(&self.from) {
            let op = &mut ops[*index as usize];
            arena[output_span(suite, direction, &Op { output_len: copy.output_len, ..*op }).range()].fill(0);
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
    pub(super) fn select(&mut self, wanted: impl Fn(usize) -> bool) -> Result<Copied> {
        let batch = self.batch.as_batch().check()?;
        let mut selected = copy_pending(&batch, wanted, |_| None)?;
        selected.from.iter_mut().for_each(|index| *index = self.from[*index as usize]);
        Ok(selected)
    }

    /// What these outcomes, of the same operations on another engine, say of those of `batch`.
    pub(super) fn verdict_on(&self, batch: &CheckedBatch<'_>) -> Verdict {
        let (suite, direction) = (self.batch.suite, self.batch.direction);
        let bytes = self.batch.arena.bytes();
        self.verdict(batch, |copy, op, _| {
            if !has_ended(copy.status) {
                return None;
            }
            let output = output_span(suite, direction, op);
            let own_output = Span::new(copy.output, output.len);
            let own_tag = Span::new(copy.tag, u32::from(copy.tag_len));
            let same = copy.status.is_done() == op.status.is_done()
                && (!op.status.is_done()
                    || (copy.output_len, copy.tag_len) == (op.output_len, op.tag_len)
                        && bytes[own_output.range()] == batch.arena()[output.range()]
                        && (direction == Direction::Decrypt
                            || bytes[own_tag.range()] == batch.arena()[op.tag_span().range()]));
            Some(same)
        })
    }

    /// What `is_same` says of every operation that ended in `batch`: `None` where nothing can be said. It gets the
    /// operation here, the one there, and its index here.
    fn verdict(&self, batch: &CheckedBatch<'_>, is_same: impl Fn(&Op, &Op, usize) -> Option<bool>) -> Verdict {
        let mut verdict = Verdict::Unknown;
        for (at, (copy, index)) in self.batch.ops.iter().zip(&self.from).enumerate() {
            let op = &batch.ops()[*index as usize];
            match is_same(copy, op, at).filter(|_| has_ended(op.status)) {
                Some(true) => verdict = Verdict::Agrees,
                Some(false) => return Verdict::Differs(*index as usize),
                None => {}
            }
        }
        verdict
    }

    /// The way back from what `batch` made of those of these inputs that `wanted` takes: signatures to be verified over
    /// the messages that are kept here, ciphertexts to be decrypted or decapsulated. An answer of a length that the suite
    /// does not have is an error with its operation's index in `batch`.
    ///
    /// # Errors
    /// `Exhausted` when there is no memory.
    pub(super) fn way_back(
        &self,
        batch: &CheckedBatch<'_>,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Result<Copied, usize>> {
        let (suite, direction) = (batch.suite(), Direction::Decrypt);
        let (mut ops, mut from, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let mut len = 0;
        for (at, (copy, index)) in self.batch.ops.iter().zip(&self.from).enumerate() {
            let op = &batch.ops()[*index as usize];
            if !op.status.is_done() || !wanted(at) {
                continue;
            }
            let answer = Span::new(op.output, op.output_len);
            let input = if suite.transforms() { &batch.arena()[answer.range()] } else { self.bytes(copy.input) };
            let tag = &batch.arena()[op.tag_span().range()];
            if !suite.input_len(direction).contains(input.len()) || !suite.tag_len(direction).contains(tag.len()) {
                return Ok(Err(*index as usize));
            }
            let input_at = place(&mut len, input.len() as u64);
            let output = place(&mut len, suite.output_len(direction, input.len(), 0) as u64);
            let back = Op::in_place(op.key, Span::new(input_at, input.len() as u32)).with_output(output);
            let back = back.with_tag(place(&mut len, tag.len() as u64), op.tag_len);
            parts.extend([(back.input, input), (back.tag_span(), tag)]);
            ops.push(back);
            from.push(*index);
        }
        let mut arena = wiped(len)?;
        for (to, part) in parts {
            arena.bytes_mut()[to.range()].copy_from_slice(part);
        }
        Ok(Ok(Copied { batch: OwnedBatch { suite, direction, ops, arena }, from }))
    }

    /// What a way back that was run says of the outcomes in `batch`, which it was made from with `inputs`. A key that does
    /// not lead back says nothing.
    pub(super) fn verdict_of_way_back(&self, batch: &CheckedBatch<'_>, inputs: &Copied) -> Verdict {
        self.verdict(batch, |back, op, at| {
            let own = self.bytes(Span::new(back.output, back.output_len));
            let index = self.from[at];
            match back.status {
                OpStatus::Pending | OpStatus::EngineFault | OpStatus::Refused(_) => None,
                OpStatus::Done => Some(match batch.suite() {
                    Suite::Kem(_) => own == &batch.arena()[Span::new(op.output, op.output_len).range()],
                    suite if suite.transforms() => {
                        let kept = inputs.from.iter().position(|from| *from == index);
                        kept.is_some_and(|kept| own == inputs.bytes(inputs.batch.ops[kept].input))
                    }
                    _ => true,
                }),
                OpStatus::AuthFailed | OpStatus::BadInput(_) => Some(false),
            }
        })
    }

    fn bytes(&self, span: Span) -> &[u8] {
        &self.batch.arena.bytes()[span.range()]
    }
}

fn has_ended(status: OpStatus) -> bool {
    !matches!(status, OpStatus::Pending | OpStatus::EngineFault)
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::suite::{Aead, AesSize, Digest};
    use ciphermill_contract::{Batch, KeyId};

    use super::*;

    const COUNT: usize = 5;

    /// Messages of 64 bytes, with gaps between them and tags behind each.
    fn copied(suite: Suite, arena: impl FnOnce(usize) -> Option<Box<dyn ArenaBuffer>>) -> Copied {
        let mut bytes: Vec<u8> = (0..COUNT * 128).map(|at| at as u8).collect();
        let key = if suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
        let tag_len = suite.tag_len(Direction::Encrypt).max as u16;
        let op = |index: usize| {
            let at = 128 * index as u32;
            let op = Op::in_place(key, Span::new(at, 64)).with_tag(at + 64, tag_len);
            if suite.needs_key() { op.with_iv(&[0; 12]).with_aad(at + 100, 8) } else { op }
        };
        let mut ops: Vec<Op> = (0..COUNT).map(op).collect();
        let batch = Batch::new(suite, Direction::Encrypt, &mut ops, &mut bytes).check().expect("a good batch");
        let copied = copy_pending(&batch, |_| true, arena).expect("room");
        for (copy, op) in copied.batch.ops.iter().zip(batch.ops()) {
            for (here, there) in
                [(copy.input, op.input), (copy.aad.span(), op.aad.span()), (copy.tag_span(), op.tag_span())]
            {
                assert_eq!(copied.batch.arena.bytes()[here.range()], batch.arena()[there.range()]);
            }
        }
        copied
    }

    #[test]
    fn inputs_lie_one_behind_the_other_and_the_copy_keeps_the_contract() {
        for suite in [Suite::Digest(Digest::Sha256), Suite::Aead(Aead::AesGcm(AesSize::Aes128))] {
            let mut copied = copied(suite, |_| None);
            for (index, op) in copied.batch.ops.iter().enumerate() {
                assert_eq!(op.input.offset as usize, 64 * index, "{suite}");
            }
            copied.batch.as_batch().check().expect("a good batch");
        }
    }

    /// Memory that is never freed, so that no other is found at its address.
    struct Leaked(&'static mut [u8]);

    impl ArenaBuffer for Leaked {
        fn bytes(&self) -> &[u8] {
            self.0
        }
        fn bytes_mut(&mut self) -> &mut [u8] {
            self.0
        }
    }

    #[test]
    fn an_engines_memory_is_used_if_it_is_as_long_as_it_should_be() {
        let suite = Suite::Digest(Digest::Sha256);
        let given = |more: usize| {
            let mut start = 0;
            let copied = copied(suite, |len| {
                let memory = Leaked(vec![0u8; len + more].leak());
                start = memory.bytes().as_ptr().addr();
                Some(Box::new(memory))
            });
            copied.batch.arena.bytes().as_ptr().addr() == start
        };
        assert!(given(0) && !given(1));
    }
}
