//! Chunks in batches that a mill owns while it works on them, with the reference's answer to each.

use std::sync::Arc;

use ciphermill::Mill;
use ciphermill_contract::{Direction, Engine, KeyId, Op, OwnedBatch, Span, Suite};

use crate::LabError;
use crate::contest;
use crate::router::mill_error;
use crate::router::stream::Bare;
use crate::workload::{Parameters, Workload};

/// What a load is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spec {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    /// Bytes of a chunk.
    pub(super) len: usize,
    /// Chunks that a run goes through.
    pub(super) chunks: usize,
    /// Chunks that are handed over at once.
    pub(super) batch: usize,
    pub(super) keys: usize,
    /// The same chunk, IV and place again and again instead of new ones; encrypting only.
    pub(super) repeated: bool,
    pub(super) seed: u64,
}

/// Batches of the same chunk that circulate: one to be filled while the other is worked on.
const CIRCULATING: usize = 2;

/// Chunks, ready to be driven through mills.
pub(super) struct Load {
    pub(super) spec: Spec,
    pub(super) parts: Vec<Part>,
    answers: Answers,
    /// The answers that lie here are to be compared before the next run.
    pub(super) is_check_due: bool,
    /// The first answer that such a comparison found wrong.
    pub(super) found_wrong: Option<usize>,
}

/// A batch, and its operations as they were before a run, under the names that each mill has for the keys.
pub(super) struct Part {
    /// `None` while a mill has it.
    pub(super) batch: Option<OwnedBatch>,
    pub(super) fresh: Vec<Vec<Op>>,
    /// The number of its first chunk.
    pub(super) first: usize,
}

/// What the reference answered, output and tag of each chunk one behind the other.
struct Answers {
    bytes: Vec<u8>,
    output_len: usize,
    tag_len: usize,
}

impl Load {
    /// Makes a load, and finds the bare engine's answers right. Also returns that engine with all chunks as one batch.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] when an answer differs from the reference's; [`LabError::Engine`] for what is refused.
    pub(super) fn new(
        spec: Spec,
        engine: &Arc<dyn Engine>,
        reference: &dyn Engine,
        mills: &[&Mill],
    ) -> Result<(Load, Bare), LabError> {
        let ops = if spec.repeated { spec.chunks.min(CIRCULATING * spec.batch) } else { spec.chunks };
        let parameters = Parameters {
            ops,
            keys: spec.keys.min(ops),
            len_min: spec.len,
            len_max: spec.len,
            aad_len: 0,
            shared_aad: false,
            seed: spec.seed,
        };
        let mut workload = parameters.workload(spec.suite, spec.direction, reference)?;
        if spec.repeated {
            same_everywhere(&mut workload, spec.direction)?;
        }
        let expected = contest::expected(&workload, reference)?;
        let answers = Answers::of(&expected)?;
        drop(expected);
        let mut names: Vec<Vec<KeyId>> = Vec::new();
        for mill in mills {
            let owned = workload.owned(mill.keys()).map_err(mill_error)?;
            names.push(owned.ops.iter().map(|op| op.key).collect());
        }
        let part = |first: usize| {
            let ops = &workload.ops[first..workload.ops.len().min(first + spec.batch)];
            Part::of(&workload, ops, first, &names, &answers)
        };
        let parts = (0..workload.ops.len()).step_by(spec.batch).map(part).collect();
        let len = workload.ops.first().map_or(spec.len, |op| op.input.len as usize);
        let chunks =
            if spec.repeated && spec.chunks > ops { spec.chunks.next_multiple_of(spec.batch) } else { spec.chunks };
        let spec = Spec { len, chunks, ..spec };
        let load = Load { spec, parts, answers, is_check_due: false, found_wrong: None };
        let mut bare = Bare::new(engine, vec![workload], 1)?;
        bare.run_each();
        let own = &bare.workloads[0];
        let wrong = own.ops.iter().enumerate().find(|(index, op)| !load.is_right(*index, op, &own.arena));
        match wrong {
            Some((op, _)) => Err(load.wrong(engine.info().name, op)),
            None => Ok((load, bare)),
        }
    }

    /// Bytes of input of a run.
    pub(super) fn bytes(&self) -> f64 {
        self.spec.chunks as f64 * self.spec.len as f64
    }

    /// Whether chunk `index` ended as the reference says.
    pub(super) fn is_right(&self, index: usize, op: &Op, arena: &[u8]) -> bool {
        let Answers { bytes, output_len, tag_len } = &self.answers;
        let start = index * (output_len + tag_len);
        let Some(answer) = bytes.get(start..start + output_len + tag_len) else { return false };
        op.status.is_done()
            && op.output_len as usize == *output_len
            && arena.get(Span::new(op.output, op.output_len).range()) == Some(&answer[..*output_len])
            && arena.get(op.tag_span().range()) == Some(&answer[*output_len..])
    }

    /// The error for a chunk that ended otherwise.
    pub(super) fn wrong(&self, engine: &str, op: usize) -> LabError {
        LabError::WrongResult { engine: engine.to_owned(), suite: self.spec.suite, direction: self.spec.direction, op }
    }

    /// Makes the comparison that is due, and every operation pending again under these names for keys.
    pub(super) fn renew(&mut self, names: usize) {
        if std::mem::take(&mut self.is_check_due) && self.found_wrong.is_none() {
            self.found_wrong = self.parts.iter().find_map(|part| self.first_wrong_of(part));
        }
        for part in &mut self.parts {
            part.renew(names);
        }
    }

    /// The first chunk of a part that has run and not ended as the reference says.
    pub(super) fn first_wrong_of(&self, part: &Part) -> Option<usize> {
        let Some(batch) = &part.batch else { return Some(part.first) };
        let mut ops = batch.ops.iter().enumerate().filter(|(_, op)| !op.status.is_pending());
        ops.find(|(n, op)| !self.is_right(part.first + n, op, batch.arena.bytes())).map(|(n, _)| part.first + n)
    }
}

impl Answers {
    /// # Errors
    /// [`LabError::Engine`] when the reference failed an operation.
    fn of(expected: &Workload) -> Result<Answers, LabError> {
        let first = expected.ops.first().copied().unwrap_or_default();
        let (output_len, tag_len) = (first.output_len as usize, usize::from(first.tag_len));
        let mut bytes = Vec::with_capacity(expected.ops.len() * (output_len + tag_len));
        for op in &expected.ops {
            if !op.status.is_done() || (op.output_len as usize, usize::from(op.tag_len)) != (output_len, tag_len) {
                return Err(LabError::Parameters(format!(
                    "the reference ended an operation of {} as: {}",
                    expected.suite, op.status
                )));
            }
            bytes.extend_from_slice(&expected.arena[Span::new(op.output, op.output_len).range()]);
            bytes.extend_from_slice(&expected.arena[op.tag_span().range()]);
        }
        Ok(Answers { bytes, output_len, tag_len })
    }
}

impl Part {
    /// Makes every operation pending again.
    pub(super) fn renew(&mut self, names: usize) {
        if let Some(batch) = &mut self.batch {
            batch.ops.copy_from_slice(&self.fresh[names]);
        }
    }

    /// A part of a workload in an arena of its own: inputs, then outputs, then tags.
    fn of(workload: &Workload, ops: &[Op], first: usize, names: &[Vec<KeyId>], answers: &Answers) -> Part {
        let inputs: usize = ops.iter().map(|op| op.input.len as usize).sum();
        let (mut input, mut output) = (0u32, inputs as u32);
        let mut tag = output + (ops.len() * answers.output_len) as u32;
        let mut arena = vec![0u8; tag as usize + ops.len() * answers.tag_len];
        let mut moved = Vec::with_capacity(ops.len());
        for op in ops {
            let mut own = Op { input: Span::new(input, op.input.len), output, ..*op };
            arena[own.input.range()].copy_from_slice(&workload.arena[op.input.range()]);
            if op.tag_len > 0 {
                own.tag = tag;
                arena[own.tag_span().range()].copy_from_slice(&workload.arena[op.tag_span().range()]);
            }
            input += op.input.len;
            output += answers.output_len as u32;
            tag += answers.tag_len as u32;
            moved.push(own);
        }
        let fresh = |names: &Vec<KeyId>| {
            let named = moved.iter().zip(&names[first..]).map(|(op, key)| Op { key: *key, ..*op });
            named.collect::<Vec<Op>>()
        };
        let fresh: Vec<Vec<Op>> = names.iter().map(fresh).collect();
        let batch =
            OwnedBatch { suite: workload.suite, direction: workload.direction, ops: moved, arena: Box::new(arena) };
        Part { batch: Some(batch), fresh, first }
    }
}

/// Gives every operation the first one's input and IV.
fn same_everywhere(workload: &mut Workload, direction: Direction) -> Result<(), LabError> {
    if direction != Direction::Encrypt {
        // Under another key the same ciphertext would not verify.
        return Err(LabError::Parameters("the same chunk is repeated when encrypting only".to_owned()));
    }
    let Some(first) = workload.ops.first().copied() else { return Ok(()) };
    for op in workload.ops.iter_mut().skip(1) {
        (op.iv, op.iv_len) = (first.iv, first.iv_len);
        workload.arena.copy_within(first.input.range(), op.input.offset as usize);
    }
    Ok(())
}
