//! What the tests share: contents laid out in an arena, run as one batch, and read back.
#![allow(dead_code, reason = "each test program uses a part of it")]

use ciphermill_contract::op::iv_rest;
use ciphermill_contract::{
    Batch, Direction, Engine, KeyForm, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_library::Library;

/// What gaps between spans and around them are filled with; nobody may write there.
const GUARD: u8 = 0xc3;

/// The contents of one operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    pub(crate) key: Vec<u8>,
    pub(crate) iv: Vec<u8>,
    pub(crate) aad: Vec<u8>,
    pub(crate) input: Vec<u8>,
    pub(crate) tag: Vec<u8>,
    /// Output asked for (random bytes only).
    pub(crate) asked: u32,
    pub(crate) in_place: bool,
    /// Bytes of gap before each span, so that alignments vary.
    pub(crate) gap: usize,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: OpStatus,
    pub(crate) output: Vec<u8>,
    pub(crate) tag: Vec<u8>,
}

impl Answer {
    /// The output and tag of an operation that must have ended well.
    pub(crate) fn done(self) -> (Vec<u8>, Vec<u8>) {
        assert_eq!(self.status, OpStatus::Done);
        (self.output, self.tag)
    }
}

pub(crate) fn library() -> Library {
    Library::new().unwrap()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    hex::decode(digits).unwrap()
}

/// Runs jobs as one batch, each under its own key, and checks that nothing was written outside outputs and tags.
pub(crate) fn run(engine: &dyn Engine, suite: Suite, direction: Direction, form: KeyForm, jobs: &[Job]) -> Vec<Answer> {
    let keys: Vec<Option<PreparedKey>> = jobs
        .iter()
        .map(|job| {
            let material = KeyMaterial { form, bytes: &job.key };
            suite.needs_key().then(|| engine.prepare(&material, suite).unwrap())
        })
        .collect();
    run_prepared(engine, suite, direction, jobs, &keys.iter().map(Option::as_ref).collect::<Vec<_>>())
}

/// The same with keys that are prepared already.
pub(crate) fn run_prepared(
    engine: &dyn Engine,
    suite: Suite,
    direction: Direction,
    jobs: &[Job],
    keys: &[Option<&PreparedKey>],
) -> Vec<Answer> {
    let mut arena = Vec::new();
    let mut ops: Vec<Op> = jobs.iter().map(|job| place(&mut arena, suite, direction, job)).collect();
    arena.extend([GUARD; 16]);
    let before = arena.clone();
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().unwrap();
    let keys = if suite.needs_key() { keys } else { &[] };
    engine.queue(QueueHint::default()).unwrap().run(&mut batch.attach_keys(keys).unwrap());
    let answers = ops.iter().map(|op| answer(op, &arena)).collect();
    for (op, job) in ops.iter().zip(jobs) {
        let room = suite.output_len(direction, job.input.len(), job.asked as usize);
        arena[op.output as usize..][..room].copy_from_slice(&before[op.output as usize..][..room]);
        arena[op.tag as usize..][..job.tag.len()].copy_from_slice(&before[op.tag as usize..][..job.tag.len()]);
    }
    assert!(arena == before, "{suite} {direction} wrote outside its outputs and tags");
    answers
}

/// One job.
pub(crate) fn run_one(suite: Suite, direction: Direction, form: KeyForm, job: &Job) -> Answer {
    run(&library(), suite, direction, form, std::slice::from_ref(job)).remove(0)
}

fn place(arena: &mut Vec<u8>, suite: Suite, direction: Direction, job: &Job) -> Op {
    let mut put = |bytes: &[u8], room: usize| {
        arena.extend(std::iter::repeat_n(GUARD, job.gap));
        let at = arena.len();
        arena.extend_from_slice(bytes);
        arena.resize(at + room.max(bytes.len()), GUARD);
        u32::try_from(at).unwrap()
    };
    let room = suite.output_len(direction, job.input.len(), job.asked as usize);
    let in_place = job.in_place && suite.transforms();
    let input = put(&job.input, if in_place { room } else { 0 });
    let output = if in_place { input } else { put(&[], room) };
    let tag = put(&job.tag, 0);
    let aad = [iv_rest(&job.iv), &job.aad].concat();
    let aad_at = put(&aad, 0);
    let key = if suite.needs_key() { KeyId { slot: 1, generation: 1 } } else { KeyId::NONE };
    let mut op = Op::in_place(key, Span::new(input, u32::try_from(job.input.len()).unwrap()))
        .with_iv(&job.iv)
        .with_output(output)
        .with_tag(tag, u16::try_from(job.tag.len()).unwrap())
        .with_aad(aad_at, u16::try_from(aad.len()).unwrap());
    op.output_len = job.asked;
    op
}

fn answer(op: &Op, arena: &[u8]) -> Answer {
    Answer {
        status: op.status,
        output: arena[op.output as usize..][..op.output_len as usize].to_vec(),
        tag: arena[op.tag as usize..][..usize::from(op.tag_len)].to_vec(),
    }
}

/// A small generator (SplitMix64: Steele, Lea, Flood 2014), so that a failure can be repeated from its seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number() as u8).collect()
    }

    /// One of the lengths that a rule allows, none more than `beyond` above the least.
    pub(crate) fn len(&mut self, lengths: ciphermill_contract::suite::rules::Lengths, beyond: usize) -> usize {
        let steps = (lengths.max - lengths.min).min(beyond) / lengths.step;
        lengths.round_up(lengths.min + lengths.step * self.below(steps + 1))
    }
}
