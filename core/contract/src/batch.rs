//! Batches and the one check that they pass.
//!
//! A [`Batch`] is what a caller says. [`Batch::check`] looks at every length, offset and overlap once and gives a
//! [`CheckedBatch`]; there is no other way to make one, so engines trust it. Nothing is written before the check has
//! passed.

#[cfg(test)]
mod exhaustive;
pub(crate) mod lone;

use std::sync::LazyLock;

use crate::error::{Error, Misuse, Result};
use crate::key::PreparedKey;
use crate::limits::{ARENA_LEN_MAX, BATCH_OPS_MAX, LONG_IV_LEN_MAX, SUITE_ORDINALS_MAX};
use crate::op::{Op, Span, disjoint};
use crate::overlap::{Order, check_any_order};
use crate::status::{OpStatus, Reason};
use crate::suite::rules::Lengths;
use crate::suite::{Direction, Suite};

/// Operations of one suite and direction, with the arena that their inputs and outputs lie in.
#[derive(Debug)]
pub struct Batch<'a> {
    suite: Suite,
    direction: Direction,
    ops: &'a mut [Op],
    arena: &'a mut [u8],
}

/// A batch whose every length, offset and overlap has been checked, with the prepared keys of its operations.
///
/// What holds for each operation: input, output, tag and additional data lie within the arena; the output starts at
/// the input or does not touch it; the tag touches neither input, output nor additional data; the output does not touch
/// the additional data; nothing that one operation writes is read or written by another; lengths are those that the
/// suite takes. Engines work on pending operations only.
#[derive(Debug)]
pub struct CheckedBatch<'a> {
    suite: Suite,
    direction: Direction,
    ops: &'a mut [Op],
    arena: &'a mut [u8],
    keys: &'a [Option<&'a PreparedKey>],
    input_bytes: u64,
}

/// One operation's buffers, for engines that go through a batch one by one.
///
/// Suites that transform ([`Suite::transforms`]) find their input at the start of `data`, already copied to where the
/// output goes. The others read `input`.
#[derive(Debug)]
pub struct OpBuffers<'b> {
    /// The key, prepared by this engine; `None` for suites without one.
    pub key: Option<&'b PreparedKey>,
    /// The IV, nonce, tweak or counter block, all of it.
    pub iv: &'b [u8],
    /// The additional data without what of them is IV, or FF1's tweak.
    pub aad: &'b [u8],
    /// The input of suites that do not transform; empty for those that do.
    pub input: &'b [u8],
    /// The output; for suites that transform it begins with the input's `input_len` bytes.
    pub data: &'b mut [u8],
    /// Bytes of input.
    pub input_len: usize,
    /// The tag, digest or signature: to be written when encrypting, to be verified when decrypting.
    pub tag: &'b mut [u8],
    /// Bytes of `data` that are output; preset to all of them.
    pub output_len: usize,
    /// Bytes of `tag` that were written; preset to the suite's own length.
    pub tag_written: usize,
}

impl Suite {
    /// Whether the output is the input transformed, so that both may share a place.
    #[inline]
    pub const fn transforms(self) -> bool {
        matches!(
            self,
            Suite::Cipher(..)
                | Suite::Stream(_)
                | Suite::Aead(_)
                | Suite::Chain(_)
                | Suite::Fpe(_)
                | Suite::Wrap(_)
                | Suite::PublicEncrypt(_)
        )
    }
}

impl<'a> Batch<'a> {
    /// A batch of `ops` over `arena`. Nothing is looked at yet.
    pub fn new(suite: Suite, direction: Direction, ops: &'a mut [Op], arena: &'a mut [u8]) -> Batch<'a> {
        Batch { suite, direction, ops, arena }
    }

    /// What is done to every operation.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Which way.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How many operations there are.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Checks the batch. Writes nothing.
    ///
    /// # Errors
    /// `Misuse` with the first offending operation's index and the rule it breaks; `Refused` when the suite has no such
    /// direction or FF1's radix is out of range; `Exhausted` for more operations or bytes than a batch may hold.
    pub fn check(self) -> Result<CheckedBatch<'a>> {
        let input_bytes = check_ops(self.suite, self.direction, self.ops, self.arena.len())?;
        Ok(CheckedBatch {
            suite: self.suite,
            direction: self.direction,
            ops: self.ops,
            arena: self.arena,
            keys: &[],
            input_bytes,
        })
    }
}

/// The limits that one suite and direction set, in the form that the loop over operations wants.
#[derive(Clone, Copy, Debug)]
struct Rules {
    suite: Suite,
    direction: Direction,
    input: Band,
    iv: Band,
    tag: Band,
    aad: Band,
    needs_key: bool,
    same_len: bool,
    /// Nothing is written but a tag.
    silent: bool,
    separate: bool,
    arena_len: u64,
}

/// [`Lengths`] with a power of two as step, so that a test is a few instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band {
    min: u32,
    room: u32,
    mask: u32,
    /// As [`Lengths::gaps`], counted from the smallest length on. Where there are any the room is below 32.
    gaps: u32,
}

impl Band {
    pub(crate) fn new(lengths: Lengths) -> Band {
        debug_assert!(lengths.step.is_power_of_two());
        let clamp = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        Band {
            min: clamp(lengths.min),
            room: clamp(lengths.max) - clamp(lengths.min),
            mask: clamp(lengths.step) - 1,
            gaps: lengths.gaps.unbounded_shr(clamp(lengths.min)),
        }
    }

    #[inline(always)]
    pub(crate) fn holds(self, len: u32) -> bool {
        let above = len.wrapping_sub(self.min);
        (above <= self.room) & (above & self.mask == 0) & (self.gaps.wrapping_shr(above) & 1 == 0)
    }

    /// Every length that an extent may have.
    pub(crate) const fn any() -> Band {
        Band { min: 0, room: i32::MAX as u32, mask: 0, gaps: 0 }
    }

    /// The rule that a length of input breaks.
    pub(crate) fn diagnose(self, len: u32) -> Reason {
        if self.room == 0 && self.min == 0 {
            Reason::InputUnexpected
        } else if len < self.min {
            Reason::InputTooShort
        } else if len - self.min > self.room {
            Reason::InputTooLong
        } else {
            Reason::NotBlockMultiple
        }
    }
}

impl Rules {
    /// The rules of a suite and direction. Those of suites without open parameters are worked out once.
    fn of(suite: Suite, direction: Direction, arena_len: usize) -> Rules {
        static KNOWN: LazyLock<Vec<Option<Rules>>> = LazyLock::new(|| {
            let mut known = vec![None; 2 * SUITE_ORDINALS_MAX];
            for suite in Suite::all().filter(|suite| !matches!(suite, Suite::Fpe(_))) {
                for direction in [Direction::Encrypt, Direction::Decrypt] {
                    known[2 * suite.ordinal() + direction as usize] = Some(Rules::new(suite, direction, 0));
                }
            }
            known
        });
        match KNOWN[2 * suite.ordinal() + direction as usize] {
            Some(rules) if rules.suite == suite => Rules { arena_len: arena_len as u64, ..rules },
            _ => Rules::new(suite, direction, arena_len),
        }
    }

    fn new(suite: Suite, direction: Direction, arena_len: usize) -> Rules {
        Rules {
            suite,
            direction,
            input: Band::new(suite.input_len(direction)),
            iv: Band::new(suite.iv_len()),
            tag: Band::new(suite.tag_len(direction)),
            aad: Band::new(suite.aad_len()),
            needs_key: suite.needs_key(),
            same_len: suite.keeps_len(),
            silent: matches!(suite, Suite::Digest(_) | Suite::Mac(_)),
            separate: !suite.transforms(),
            arena_len: arena_len as u64,
        }
    }

    #[inline(always)]
    fn output(&self, op: &Op) -> Span {
        let len = if self.same_len {
            op.input.len
        } else {
            // Bounded by the input rule, by u32 and, when a sum leaves u32, by the arena test that follows.
            let len = self.suite.output_len(self.direction, op.input.len as usize, op.output_len as usize);
            u32::try_from(len).unwrap_or(u32::MAX)
        };
        Span::new(op.output, len)
    }

    /// Whether an operation keeps every rule that concerns it alone.
    #[inline(always)]
    fn holds(&self, op: &Op, output: Span) -> bool {
        let tag = op.tag_span();
        let aad = op.aad.span();
        let lengths = self.input.holds(op.input.len)
            & self.iv.holds(u32::from(op.iv_len))
            & self.tag.holds(u32::from(op.tag_len))
            & self.aad.holds(own_aad_len(op));
        let ends = (op.input.end() <= self.arena_len)
            & (output.end() <= self.arena_len)
            & (tag.end() <= self.arena_len)
            & (aad.end() <= self.arena_len);
        let state = op.status.is_pending() & (op.key.is_none() != self.needs_key) & (op.reserved == 0);
        let same_place = (op.input.offset == op.output) & !self.separate;
        let apart = (same_place | disjoint(op.input, output))
            & (tag.len == 0 || disjoint(tag, output) & disjoint(tag, op.input) & disjoint(tag, aad))
            & (aad.len == 0 || disjoint(aad, output));
        lengths & ends & state & apart
    }

    /// The rule that an operation breaks, looked for in a fixed order.
    #[cold]
    fn diagnose(&self, op: &Op, output: Span) -> Reason {
        let tag = op.tag_span();
        let aad = op.aad.span();
        if !op.status.is_pending() || op.reserved != 0 {
            Reason::NotPending
        } else if op.key.is_none() && self.needs_key {
            Reason::KeyMissing
        } else if !op.key.is_none() && !self.needs_key {
            Reason::KeyUnexpected
        } else if !self.input.holds(op.input.len) {
            self.input.diagnose(op.input.len)
        } else if !self.iv.holds(u32::from(op.iv_len)) {
            Reason::IvLength
        } else if !self.tag.holds(u32::from(op.tag_len)) {
            Reason::TagLength
        } else if !self.aad.holds(own_aad_len(op)) {
            Reason::AadUnexpected
        } else if op.input.end() > self.arena_len {
            Reason::InputPastEnd
        } else if output.end() > self.arena_len {
            Reason::OutputPastEnd
        } else if tag.end() > self.arena_len {
            Reason::TagPastEnd
        } else if aad.end() > self.arena_len {
            Reason::AadPastEnd
        } else if !disjoint(tag, output) || !disjoint(tag, op.input) || !disjoint(tag, aad) {
            Reason::TagOverlap
        } else if !disjoint(aad, output) {
            Reason::AadOverlap
        } else {
            Reason::PartialOverlap
        }
    }
}

/// Bytes of additional data without the rest of the initialisation vector; where that is not all there, more than there may be of any.
#[inline(always)]
fn own_aad_len(op: &Op) -> u32 {
    u32::from(op.aad.len).wrapping_sub(op.iv_rest_len() as u32)
}

/// Where the tags of usual operations are: there are none, they stand behind the data, or before them as synthetic IVs do.
const NO_TAG: u8 = 0;
const TAG_BEHIND: u8 = 1;
const TAG_BEFORE: u8 = 2;

/// Where their additional data are: there are none, all have the same, or each has its own, before data and tag.
const NO_AAD: u8 = 0;
const AAD_SHARED: u8 = 1;
const AAD_OWN: u8 = 2;

/// The first byte of a usual operation's data and tag.
#[inline(always)]
fn start_of(op: &Op) -> u32 {
    if op.tag_len == 0 { op.input.offset } else { op.input.offset.min(op.tag) }
}

/// Where they end.
#[inline(always)]
fn end_of(op: &Op) -> u64 {
    if op.tag_len == 0 { op.input.end() } else { op.input.end().max(op.tag_span().end()) }
}

/// Operations that were found right by a shortcut.
#[derive(Clone, Copy, Default)]
struct Run {
    count: usize,
    /// Where the first one starts, with additional data of its own.
    start: u32,
    /// Where the last one ends.
    end: u64,
    /// Bytes of input of all.
    bytes: u64,
    /// Whether each has additional data of its own.
    owns_aad: bool,
}

impl Rules {
    /// A shortcut through [`Rules::holds`] and [`Order::step`] for the usual batch: how many of `ops` are like `model`,
    /// which has been found right and comes before them. They work in place or write nothing but a tag, have its lengths of
    /// IV, tag and additional data, and lie one behind the other, each tag behind its data, or each before them. Their
    /// additional data are all in its place, or each operation's before its data and tag.
    #[inline]
    fn run_like(&self, model: &Op, ops: &[Op]) -> Run {
        let in_place = self.same_len && model.output == model.input.offset;
        let Some(first) = ops.first().filter(|_| (in_place || self.silent) && model.input.len != 0) else {
            return Run::default();
        };
        let (has_tag, is_before) = (model.tag_len != 0, u64::from(model.tag) < model.input.end());
        let tag = if !has_tag {
            NO_TAG
        } else if is_before {
            TAG_BEFORE
        } else {
            TAG_BEHIND
        };
        let owns_aad = model.aad.len != 0 && first.aad.offset != model.aad.offset;
        let aad = if model.aad.len == 0 {
            NO_AAD
        } else if owns_aad {
            AAD_OWN
        } else if model.aad.span().end() <= u64::from(start_of(first)) {
            AAD_SHARED
        } else {
            return Run::default();
        };
        let run = match (tag, aad) {
            (NO_TAG, NO_AAD) => self.run_of::<NO_TAG, NO_AAD>(model, ops),
            (NO_TAG, AAD_SHARED) => self.run_of::<NO_TAG, AAD_SHARED>(model, ops),
            (NO_TAG, _) => self.run_of::<NO_TAG, AAD_OWN>(model, ops),
            (TAG_BEHIND, NO_AAD) => self.run_of::<TAG_BEHIND, NO_AAD>(model, ops),
            (TAG_BEHIND, AAD_SHARED) => self.run_of::<TAG_BEHIND, AAD_SHARED>(model, ops),
            (TAG_BEHIND, _) => self.run_of::<TAG_BEHIND, AAD_OWN>(model, ops),
            (_, NO_AAD) => self.run_of::<TAG_BEFORE, NO_AAD>(model, ops),
            (_, AAD_SHARED) => self.run_of::<TAG_BEFORE, AAD_SHARED>(model, ops),
            (_, _) => self.run_of::<TAG_BEFORE, AAD_OWN>(model, ops),
        };
        if run.end > self.arena_len {
            // Ends ascend. Those within the arena, at a second and last look: the long way finds what is wrong with the next.
            let is_within = |op: &Op| end_of(op) <= self.arena_len;
            return self.run_like(model, &ops[..ops[..run.count].partition_point(is_within)]);
        }
        Run { start: if owns_aad { first.aad.offset } else { start_of(first) }, owns_aad, ..run }
    }

    #[inline(always)]
    fn run_of<const TAG: u8, const AAD: u8>(&self, model: &Op, ops: &[Op]) -> Run {
        let (input, lens) = (self.input, (model.tag_len, model.iv_len, model.aad.len));
        let end = |op: &Op| if TAG == TAG_BEHIND { op.tag_span().end() } else { op.input.end() };
        let mut run = Run { end: end(model), ..Run::default() };
        for op in ops {
            // Where data and tag may start.
            let from = if AAD == AAD_OWN { op.aad.span().end() } else { run.end };
            let like = op.tag_len == lens.0
                && op.iv_len == lens.1
                && op.aad.len == lens.2
                && op.reserved == 0
                && op.status.is_pending()
                && op.key.is_none() != self.needs_key
                // Empty spans touch nothing, but lie within the arena too: engines slice it with them.
                && if self.silent { u64::from(op.output) <= self.arena_len } else { op.output == op.input.offset }
                && op.input.len != 0
                && input.holds(op.input.len)
                && u64::from(if TAG == TAG_BEFORE { op.tag } else { op.input.offset }) >= from
                && match AAD {
                    AAD_OWN => u64::from(op.aad.offset) >= run.end,
                    AAD_SHARED => op.aad.offset == model.aad.offset,
                    _ => u64::from(op.aad.offset) <= self.arena_len,
                }
                && match TAG {
                    TAG_BEHIND => u64::from(op.tag) >= op.input.end(),
                    TAG_BEFORE => op.tag_span().end() <= u64::from(op.input.offset),
                    _ => u64::from(op.tag) <= self.arena_len,
                };
            if !like {
                break;
            }
            run.end = end(op);
            run.bytes += u64::from(op.input.len);
            run.count += 1;
        }
        run
    }
}

/// What a batch of either form asks of its suite.
pub(crate) fn check_suite(suite: Suite, direction: Direction) -> Result<()> {
    if !suite.has_direction(direction) {
        return Err(Error::Refused(crate::error::Refusal::NoSuchDirection(suite, direction)));
    }
    if let Suite::Fpe(ff1) = suite
        && !ff1.radix_is_valid()
    {
        return Err(Error::key(suite, crate::error::KeyProblem::Parameters));
    }
    Ok(())
}

fn check_ops(suite: Suite, direction: Direction, ops: &[Op], arena_len: usize) -> Result<u64> {
    check_suite(suite, direction)?;
    if ops.len() > BATCH_OPS_MAX {
        return Err(Error::exhausted("BATCH_OPS_MAX", BATCH_OPS_MAX, ops.len()));
    }
    if arena_len > ARENA_LEN_MAX {
        return Err(Error::exhausted("ARENA_LEN_MAX", ARENA_LEN_MAX, arena_len));
    }
    let rules = Rules::of(suite, direction, arena_len);
    let mut order = Order::new();
    let mut input_bytes = 0u64;
    let mut index = 0;
    while let Some(op) = ops.get(index) {
        let output = rules.output(op);
        if !rules.holds(op, output) {
            return Err(Error::misuse(index, rules.diagnose(op, output)));
        }
        order.step(op, output);
        input_bytes += u64::from(op.input.len);
        index += 1;
        let run = rules.run_like(op, &ops[index..]);
        if run.count != 0 {
            order.advance(run.start, run.end, run.owns_aad);
            input_bytes += run.bytes;
            index += run.count;
        }
    }
    if !order.proves_disjoint() {
        let output_of = |op: &Op| rules.output(op);
        check_any_order(ops, output_of, direction == Direction::Encrypt)
            .map_err(|op| Misuse { op, reason: Reason::OpsOverlap })?;
    }
    Ok(input_bytes)
}

impl<'a> CheckedBatch<'a> {
    /// What is done to every operation.
    #[inline]
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Which way.
    #[inline]
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// How many operations there are, pending or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of input of all operations together.
    #[inline]
    pub fn input_bytes(&self) -> u64 {
        self.input_bytes
    }

    /// The operations, to be read.
    #[inline]
    pub fn ops(&self) -> &[Op] {
        self.ops
    }

    /// What the operations' inputs and outputs lie in, to be read.
    #[inline]
    pub fn arena(&self) -> &[u8] {
        self.arena
    }

    /// Each operation's prepared key, in the operations' order; empty when the suite has no keys.
    #[inline]
    pub fn keys(&self) -> &'a [Option<&'a PreparedKey>] {
        self.keys
    }

    /// A batch over the same operations and arena with these keys attached, one an operation.
    ///
    /// # Errors
    /// `Misuse` when there are neither as many keys as operations nor none.
    #[inline]
    pub fn attach_keys<'b>(&'b mut self, keys: &'b [Option<&'b PreparedKey>]) -> Result<CheckedBatch<'b>> {
        if !keys.is_empty() && keys.len() != self.ops.len() {
            return Err(Error::misuse(keys.len().min(self.ops.len()), Reason::KeyMissing));
        }
        Ok(CheckedBatch {
            suite: self.suite,
            direction: self.direction,
            ops: self.ops,
            arena: self.arena,
            keys,
            input_bytes: self.input_bytes,
        })
    }

    /// A part of a checked batch, with operations whose offsets count from the start of its own stretch of the arena.
    pub(crate) fn of_part(
        suite: Suite,
        direction: Direction,
        ops: &'a mut [Op],
        arena: &'a mut [u8],
        keys: &'a [Option<&'a PreparedKey>],
    ) -> CheckedBatch<'a> {
        let input_bytes = ops.iter().map(|op| u64::from(op.input.len)).sum();
        CheckedBatch { suite, direction, ops, arena, keys, input_bytes }
    }

    /// Sets the status of an operation; the rest of an operation cannot be changed any more.
    #[inline]
    pub fn set_status(&mut self, index: usize, status: OpStatus) {
        self.ops[index].status = status;
    }

    /// Operations whose status satisfies `wanted`, set to `status`. Returns how many there were.
    pub fn replace_status(&mut self, wanted: impl Fn(OpStatus) -> bool, status: OpStatus) -> usize {
        let mut count = 0;
        for op in self.ops.iter_mut().filter(|op| wanted(op.status)) {
            op.status = status;
            count += 1;
        }
        count
    }

    /// Operations, arena and keys, for engines with kernels of their own. Such an engine keeps the rules that
    /// [`CheckedBatch::process`] keeps for the others: it touches pending operations only, changes nothing of them but
    /// `status`, `output_len` and `tag_len`, and zeroes the output of a failed open.
    #[inline]
    pub fn parts(&mut self) -> (&mut [Op], &mut [u8], &'a [Option<&'a PreparedKey>]) {
        (self.ops, self.arena, self.keys)
    }

    /// Goes through the pending operations one by one. `work` gets the buffers and says what became of the operation.
    ///
    /// When the outcome is not `Done`, what lies at the output is zeroed; lengths are reported in the operation.
    pub fn process(&mut self, mut work: impl FnMut(&mut OpBuffers<'_>) -> OpStatus) {
        for index in 0..self.ops.len() {
            if self.ops[index].status.is_pending() {
                let key = self.keys.get(index).copied().flatten();
                self.process_one(index, key, &mut work);
            }
        }
    }

    fn process_one(
        &mut self,
        index: usize,
        key: Option<&PreparedKey>,
        work: &mut impl FnMut(&mut OpBuffers<'_>) -> OpStatus,
    ) {
        let op = &mut self.ops[index];
        let input_len = op.input.len as usize;
        let output_len = self.suite.output_len(self.direction, input_len, op.output_len as usize);
        let output = op.output as usize..op.output as usize + output_len;
        let transforms = self.suite.transforms();
        if transforms && op.output != op.input.offset {
            self.arena.copy_within(op.input.range(), output.start);
        }
        let input = if transforms { 0..0 } else { op.input.range() };
        // Empty ranges become 0..0: an empty span may lie inside another one.
        let place = |range: core::ops::Range<usize>| if range.is_empty() { 0..0 } else { range };
        let ranges = [input, output, op.aad.span().range(), op.tag_span().range()].map(place);
        let Ok([input, data, aad, tag]) = self.arena.get_disjoint_mut(ranges) else {
            op.status = OpStatus::EngineFault;
            return;
        };
        let (rest, aad) = aad.split_at(op.iv_rest_len().min(aad.len()));
        let long_iv;
        let iv = if rest.is_empty() {
            &op.iv[..usize::from(op.iv_len).min(op.iv.len())]
        } else {
            long_iv = join_iv(op, rest);
            &long_iv[..(op.iv.len() + rest.len()).min(LONG_IV_LEN_MAX)]
        };
        let tag_written = match self.suite {
            Suite::Sign(_) | Suite::Kem(_) | Suite::Generate(_) => self.suite.default_tag_len().min(tag.len()),
            _ => tag.len(),
        };
        let mut buffers = OpBuffers { key, iv, aad, input, data, input_len, tag, output_len, tag_written };
        let status = work(&mut buffers);
        let (written, tag_written) = (buffers.output_len.min(output_len), buffers.tag_written);
        if status.is_done() {
            buffers.data[written..].fill(0);
            op.output_len = u32::try_from(written).unwrap_or(u32::MAX);
            op.tag_len = u16::try_from(tag_written).unwrap_or(op.tag_len);
        } else {
            buffers.data.fill(0);
            op.output_len = 0;
        }
        op.status = status;
    }
}

/// The whole of an initialisation vector whose rest lies elsewhere, and zeros behind it.
#[cold]
fn join_iv(op: &Op, rest: &[u8]) -> [u8; LONG_IV_LEN_MAX] {
    let mut iv = [0; LONG_IV_LEN_MAX];
    iv[..op.iv.len()].copy_from_slice(&op.iv);
    for (to, from) in iv[op.iv.len()..].iter_mut().zip(rest) {
        *to = *from;
    }
    iv
}
