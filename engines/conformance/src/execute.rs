//! Running operations: giving them a place among canaries, and looking at every byte afterwards.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ciphermill_contract::op::iv_rest;
use ciphermill_contract::{Batch, Direction, EngineQueue, KeyId, Op, OpStatus, PreparedKey, Span, Suite};
use ciphermill_memory::{Align, GuardedBuf};
use ciphermill_vectors::{Answer, Job};

use crate::random::Rng;

/// Where operations are put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Output over input, where the suite transforms.
    pub(crate) in_place: bool,
    /// Canaries between the parts: as many bytes, or a random number up to 33.
    pub(crate) gap: Option<usize>,
    /// Rotates the order of input, output, tag and additional data within an operation.
    pub(crate) order: usize,
    /// What the arena lies in.
    pub(crate) memory: Memory,
}

/// What an arena lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    Heap,
    /// Its last byte before an inaccessible page.
    GuardedEnd,
    /// Its first byte behind one.
    GuardedStart,
}

impl Style {
    pub(crate) const SPREAD: Style = Style { in_place: false, gap: None, order: 0, memory: Memory::Heap };
    pub(crate) const IN_PLACE: Style = Style { in_place: true, gap: Some(1), order: 3, memory: Memory::Heap };
}

/// What running a batch yielded.
pub(crate) struct Run {
    /// One answer an operation.
    pub(crate) answers: Vec<Answer>,
    /// What the engine did beyond its answers: bytes written elsewhere, operations left pending.
    pub(crate) trespasses: Vec<String>,
}

/// One batch to be run.
pub(crate) struct Load<'a> {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) jobs: &'a [Job],
    /// One an operation, or none at all.
    pub(crate) keys: Vec<Option<&'a PreparedKey>>,
    /// Operations that are given another status before the engine sees them.
    pub(crate) settled: Vec<(usize, OpStatus)>,
}

/// The parts of an operation, in the order in which [`Style::order`] zero puts them.
const INPUT: usize = 0;
const OUTPUT: usize = 1;
const TAG: usize = 2;
const AAD: usize = 3;

struct Placed {
    ops: Vec<Op>,
    bytes: Vec<u8>,
}

impl Load<'_> {
    /// Runs the batch and compares every byte of the arena and every field of the operations.
    ///
    /// # Errors
    /// When the batch does not pass its check, the engine panics, or memory cannot be had.
    pub(crate) fn run(&self, queue: &mut dyn EngineQueue, style: Style, rng: &mut Rng) -> Result<Run, String> {
        let Placed { mut ops, bytes: before } = self.place(style, rng);
        let ops_before = ops.clone();
        let (after, mut trespasses) = match style.memory {
            Memory::Heap => {
                let mut arena = before.clone();
                self.run_in(queue, &mut ops, &mut arena)?;
                (arena, Vec::new())
            }
            Memory::GuardedEnd | Memory::GuardedStart => {
                let align = if style.memory == Memory::GuardedEnd { Align::End } else { Align::Start };
                let mut arena = GuardedBuf::from_slice(&before, align).map_err(|error| error.to_string())?;
                self.run_in(queue, &mut ops, &mut arena)?;
                let spoilt = (!arena.slack_is_intact()).then(|| "bytes outside of the arena were written".to_owned());
                (arena.to_vec(), spoilt.into_iter().collect())
            }
        };
        self.compare(&ops_before, &ops, &before, &after, &mut trespasses);
        let answers = ops.iter().map(|op| answer(op, &after)).collect();
        Ok(Run { answers, trespasses })
    }

    fn run_in(&self, queue: &mut dyn EngineQueue, ops: &mut [Op], arena: &mut [u8]) -> Result<(), String> {
        let mut batch =
            Batch::new(self.suite, self.direction, ops, arena).check().map_err(|error| format!("check: {error}"))?;
        for (index, status) in &self.settled {
            batch.set_status(*index, *status);
        }
        let mut batch = batch.attach_keys(&self.keys).map_err(|error| format!("keys: {error}"))?;
        catch_unwind(AssertUnwindSafe(|| queue.run(&mut batch))).map_err(|_| "the engine panicked".to_owned())
    }

    /// Puts the operations into an arena full of noise.
    fn place(&self, style: Style, rng: &mut Rng) -> Placed {
        let mut at = 0usize;
        let mut contents: Vec<(usize, Cow<'_, [u8]>)> = Vec::new();
        let mut ops = Vec::with_capacity(self.jobs.len());
        for (index, job) in self.jobs.iter().enumerate() {
            let in_place = style.in_place && self.suite.transforms();
            let room = job.output_room(self.suite, self.direction);
            let aad = [iv_rest(&job.iv), &job.aad].concat();
            let lens = [
                if in_place { job.input.len().max(room) } else { job.input.len() },
                if in_place { 0 } else { room },
                job.tag.len(),
                aad.len(),
            ];
            let mut offsets = [0usize; 4];
            for turn in 0..4 {
                let part = (turn + style.order) % 4;
                at += style.gap.unwrap_or_else(|| rng.below(34));
                offsets[part] = at;
                at += lens[part];
            }
            if in_place {
                offsets[OUTPUT] = offsets[INPUT];
            }
            ops.push(self.op(job, index, offsets.map(|offset| offset as u32), aad.len()));
            contents.extend([(offsets[INPUT], job.input[..].into()), (offsets[TAG], job.tag[..].into())]);
            contents.push((offsets[AAD], aad.into()));
        }
        at += style.gap.unwrap_or_else(|| rng.below(34));
        let mut bytes = noise(at, rng);
        for (offset, part) in contents {
            bytes[offset..offset + part.len()].copy_from_slice(&part);
        }
        Placed { ops, bytes }
    }

    fn op(&self, job: &Job, index: usize, offsets: [u32; 4], aad_len: usize) -> Op {
        let key = if self.suite.needs_key() { KeyId { slot: index as u32, generation: 1 } } else { KeyId::NONE };
        let mut op = Op::in_place(key, Span::new(offsets[INPUT], job.input.len() as u32))
            .with_iv(&job.iv)
            .with_output(offsets[OUTPUT])
            .with_tag(offsets[TAG], job.tag.len() as u16)
            .with_aad(offsets[AAD], aad_len as u16);
        op.output_len = job.asked;
        op.cookie = 0xc00c_1e00_0000_0000 | index as u64;
        op
    }

    /// Notes everything that changed and may not have.
    fn compare(&self, ops_before: &[Op], ops: &[Op], before: &[u8], after: &[u8], trespasses: &mut Vec<String>) {
        // What the arena has to look like: as before, but for what may be written.
        let mut allowed = before.to_vec();
        let mut allow = |range: std::ops::Range<usize>| allowed[range.clone()].copy_from_slice(&after[range]);
        for (index, (old, new)) in ops_before.iter().zip(ops).enumerate() {
            if let Some((_, status)) = self.settled.iter().find(|(settled, _)| *settled == index) {
                if *new != (Op { status: *status, ..*old }) {
                    trespasses.push(format!("operation {index} was {status} and has been changed"));
                }
                continue;
            }
            let room = self.jobs[index].output_room(self.suite, self.direction);
            let output = new.output as usize..(new.output as usize + room).min(after.len());
            if let Some(what) = op_trespass(self.suite, self.direction, old, new, room, &after[output.clone()]) {
                trespasses.push(format!("operation {index}: {what}"));
            }
            allow(output);
            if self.direction == Direction::Encrypt {
                allow(old.tag_span().range());
            }
        }
        if allowed != after
            && let Some(offset) = allowed.iter().zip(after).position(|(allowed, after)| allowed != after)
        {
            trespasses.push(format!("byte {offset} of the arena was written, {}", owner(ops_before, offset)));
        }
    }
}

/// Canaries: random bytes over and over, with a period that no offset is a multiple of by chance.
pub(crate) fn noise(len: usize, rng: &mut Rng) -> Vec<u8> {
    let block = rng.bytes(len.min(4093));
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        bytes.extend_from_slice(&block[..block.len().min(len - bytes.len())]);
    }
    bytes
}

/// What an operation's fields or output say that they may not.
fn op_trespass(suite: Suite, direction: Direction, old: &Op, new: &Op, room: usize, output: &[u8]) -> Option<String> {
    let same = Op { status: old.status, output_len: old.output_len, tag_len: old.tag_len, ..*new };
    if same != *old {
        return Some("fields other than status and lengths were changed".to_owned());
    }
    if new.status.is_pending() {
        return Some("left pending".to_owned());
    }
    if !new.status.is_done() {
        let clean = output.iter().all(|byte| *byte == 0) && new.output_len == 0;
        return (!clean).then(|| format!("{}, but its output was not zeroed", new.status));
    }
    if new.output_len as usize > room {
        return Some(format!("reports {} bytes of output, {room} at most", new.output_len));
    }
    if output[new.output_len as usize..].iter().any(|byte| *byte != 0) {
        return Some("the output was not zeroed behind its end".to_owned());
    }
    let tag_len = match (suite, direction) {
        (Suite::Sign(_) | Suite::Kem(_) | Suite::Generate(_), Direction::Encrypt) => suite.default_tag_len(),
        _ => usize::from(old.tag_len),
    };
    (usize::from(new.tag_len) != tag_len).then(|| format!("reports a tag of {} bytes, {tag_len} expected", new.tag_len))
}

/// Whose byte that was, for the message.
fn owner(ops: &[Op], offset: usize) -> String {
    for (index, op) in ops.iter().enumerate() {
        for (name, span) in [("input", op.input), ("tag", op.tag_span()), ("additional data", op.aad.span())] {
            if span.range().contains(&offset) {
                return format!("within operation {index}'s {name}");
            }
        }
    }
    "where no operation writes".to_owned()
}

fn answer(op: &Op, arena: &[u8]) -> Answer {
    let slice =
        |offset: u32, len: usize| arena.get(offset as usize..offset as usize + len).unwrap_or_default().to_vec();
    Answer {
        status: op.status,
        output: slice(op.output, op.output_len as usize),
        tag: slice(op.tag, usize::from(op.tag_len)),
    }
}
