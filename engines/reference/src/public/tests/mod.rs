//! Tests of the public-key suites: published vectors, round trips, damaged operations, unsuitable keys.

mod keys;
mod operations;
mod published;

use ciphermill_contract::{
    Batch, Direction, Engine, Error, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_vectors::keys::{TestPair, pair_name, pairs};
use ciphermill_vectors::{Answer, Job};

use crate::Reference;

/// Every suite that the folder claims.
fn suites() -> impl Iterator<Item = Suite> {
    super::CAPABILITIES.iter().flat_map(|group| group.suites.iter().copied()).filter(|suite| suite.needs_key())
}

/// The two test pairs of a suite.
fn test_pairs(suite: Suite) -> [&'static TestPair; 2] {
    pairs(&pair_name(suite).unwrap()).try_into().unwrap()
}

fn prepare(key: KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey, Error> {
    Reference::new().prepare(&key, suite)
}

/// A test pair's keys, private and public.
fn prepared(pair: &TestPair, suite: Suite) -> (PreparedKey, PreparedKey) {
    let private = prepare(KeyMaterial::private(&pair.private), suite).unwrap();
    (private, prepare(KeyMaterial::public(&pair.public), suite).unwrap())
}

/// Runs one operation through a checked batch.
fn run(suite: Suite, direction: Direction, key: &PreparedKey, job: &Job) -> Result<Answer, Error> {
    let len = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let output_room = job.output_room(suite, direction);
    let mut arena = job.input.clone();
    arena.resize(job.input.len() + output_room, 0xa5);
    let output = len(&job.input);
    let tag = len(&arena);
    arena.extend_from_slice(&job.tag);
    let aad = len(&arena);
    arena.extend_from_slice(&job.aad);
    let op = Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(0, output))
        .with_output(output)
        .with_tag(tag, u16::try_from(job.tag.len()).unwrap())
        .with_aad(aad, u16::try_from(job.aad.len()).unwrap());
    let mut ops = [op];
    let keys = [Some(key)];
    let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check()?;
    Reference::new().queue(QueueHint::default())?.run(&mut batch.attach_keys(&keys)?);
    let [op] = ops;
    if !op.status.is_done() {
        let output = &arena[output as usize..tag as usize];
        assert!(output.iter().all(|byte| *byte == 0), "{suite} {direction}: output left after a failure");
    }
    let slice = |offset: u32, len: usize| arena[offset as usize..offset as usize + len].to_vec();
    Ok(Answer {
        status: op.status,
        output: slice(op.output, op.output_len as usize),
        tag: slice(op.tag, usize::from(op.tag_len)),
    })
}

/// Runs an operation whose batch is well formed.
fn answer(suite: Suite, direction: Direction, key: &PreparedKey, job: &Job) -> Answer {
    run(suite, direction, key, job).unwrap()
}

fn status(suite: Suite, direction: Direction, key: &PreparedKey, job: &Job) -> OpStatus {
    answer(suite, direction, key, job).status
}
