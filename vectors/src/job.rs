//! Operations as tests see them: contents instead of places.

use ciphermill_contract::op::iv_rest;
use ciphermill_contract::{
    Batch, Direction, Engine, Error, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};

use crate::case::Case;
use crate::keys::key_form;

/// The contents of one operation, before it has been given a place in an arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Initialisation vector.
    pub iv: Vec<u8>,
    /// Additional data.
    pub aad: Vec<u8>,
    /// Input.
    pub input: Vec<u8>,
    /// What lies at the tag on entry: the tag to verify, or as many bytes as shall be written.
    pub tag: Vec<u8>,
    /// Bytes of output asked for; [`Suite::Random`] alone reads it.
    pub asked: u32,
}

/// What became of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: OpStatus,
    /// The bytes of output that the operation reports.
    pub output: Vec<u8>,
    /// The bytes of tag that the operation reports.
    pub tag: Vec<u8>,
}

impl Job {
    /// The operation that a vector describes in one direction, and what it yields when the vector is valid.
    pub fn of(case: &Case, direction: Direction) -> (Job, Answer) {
        let job = Job { iv: case.iv.clone(), aad: case.aad.clone(), input: case.input.clone(), ..Job::default() };
        let forward = Answer { status: OpStatus::Done, output: case.output.clone(), tag: case.tag.clone() };
        match direction {
            Direction::Encrypt => (Job { tag: vec![0; case.tag.len()], ..job }, forward),
            Direction::Decrypt => {
                let back = Job { tag: case.tag.clone(), ..job.clone() };
                job.inverse(case.suite, &forward).unwrap_or((back, forward))
            }
        }
    }

    /// The operation that takes this one back, given what it yielded, and what that has to yield; `None` when the suite
    /// has no way back.
    pub fn inverse(&self, suite: Suite, forward: &Answer) -> Option<(Job, Answer)> {
        if !suite.has_direction(Direction::Decrypt) {
            return None;
        }
        let (input, output) = match suite {
            Suite::Mac(_) | Suite::Sign(_) => (self.input.clone(), Vec::new()),
            Suite::Kem(_) => (Vec::new(), forward.output.clone()),
            _ => (forward.output.clone(), self.input.clone()),
        };
        let job = Job { input, tag: forward.tag.clone(), asked: 0, ..self.clone() };
        Some((job, Answer { status: OpStatus::Done, output, tag: forward.tag.clone() }))
    }

    /// Bytes that the engine may write at the output.
    pub fn output_room(&self, suite: Suite, direction: Direction) -> usize {
        suite.output_len(direction, self.input.len(), self.asked as usize)
    }
}

/// The key that a vector uses in a direction; `None` when it lacks that key or the suite has none.
pub fn key_of(case: &Case, direction: Direction) -> Option<KeyMaterial<'_>> {
    use ciphermill_contract::KeyForm;
    let form = key_form(case.suite, direction)?;
    let bytes = match form {
        KeyForm::Secret => &case.keys.secret,
        KeyForm::Private => &case.keys.private,
        KeyForm::Public => &case.keys.public,
        // No suite asks for one.
        KeyForm::Reference => return None,
    };
    (!bytes.is_empty()).then_some(KeyMaterial { form, bytes })
}

/// Operations laid out one behind the other, out of place, and their arena.
pub fn pack(suite: Suite, direction: Direction, jobs: &[Job]) -> (Vec<u8>, Vec<Op>) {
    let mut arena = Vec::new();
    let mut put = |bytes: &[u8]| {
        let at = u32::try_from(arena.len()).unwrap_or(u32::MAX);
        arena.extend_from_slice(bytes);
        at
    };
    let key = if suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
    let ops = jobs.iter().map(|job| {
        let input = Span::new(put(&job.input), u32::try_from(job.input.len()).unwrap_or(u32::MAX));
        let output = put(&vec![0xa5; job.output_room(suite, direction)]);
        let tag = put(&job.tag);
        let aad = [iv_rest(&job.iv), &job.aad].concat();
        let aad_at = put(&aad);
        let mut op = Op::in_place(key, input)
            .with_iv(&job.iv)
            .with_output(output)
            .with_tag(tag, u16::try_from(job.tag.len()).unwrap_or(u16::MAX))
            .with_aad(aad_at, u16::try_from(aad.len()).unwrap_or(u16::MAX));
        op.output_len = job.asked;
        op
    });
    let ops = ops.collect();
    (arena, ops)
}

/// Runs operations under one key in one batch.
pub(crate) fn run_jobs(
    engine: &dyn Engine,
    suite: Suite,
    direction: Direction,
    jobs: &[Job],
    key: Option<&PreparedKey>,
) -> Result<Vec<Answer>, Error> {
    let (mut arena, mut ops) = pack(suite, direction, jobs);
    let keys = if suite.needs_key() { vec![key; ops.len()] } else { Vec::new() };
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check()?;
    engine.queue(QueueHint::default())?.run(&mut batch.attach_keys(&keys)?);
    Ok(ops.iter().map(|op| answer(op, &arena)).collect())
}

/// What an operation of a batch yielded.
fn answer(op: &Op, arena: &[u8]) -> Answer {
    let slice =
        |offset: u32, len: usize| arena.get(offset as usize..offset as usize + len).unwrap_or_default().to_vec();
    Answer {
        status: op.status,
        output: slice(op.output, op.output_len as usize),
        tag: slice(op.tag, usize::from(op.tag_len)),
    }
}
