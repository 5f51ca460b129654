//! A wrong bit in every suite: whatever its answer looks like, exactly one bit of it is wrong.

use ciphermill_contract::op::iv_rest;
use ciphermill_contract::suite::Mac;
use ciphermill_contract::{Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, Span, Suite, capability};
use ciphermill_fault::{Fault, Script};
use ciphermill_reference::Reference;
use ciphermill_vectors::job::key_of;
use ciphermill_vectors::{Job, known_answer};

use crate::work::{Work, engine, queue};

const DIRECTIONS: [Direction; 2] = [Direction::Encrypt, Direction::Decrypt];

fn work_of(suite: Suite, direction: Direction, job: &Job) -> Work {
    let mut arena = job.input.clone();
    let mut put = |bytes: &[u8]| {
        let at = arena.len() as u32;
        arena.extend_from_slice(bytes);
        at
    };
    let key = if suite.needs_key() { KeyId { slot: 1, generation: 1 } } else { KeyId::NONE };
    let output = put(&vec![0xa5; job.output_room(suite, direction)]);
    let additional = [iv_rest(&job.iv), &job.aad].concat();
    let (tag, aad) = (put(&job.tag), put(&additional));
    let op = Op::in_place(key, Span::new(0, job.input.len() as u32))
        .with_iv(&job.iv)
        .with_output(output)
        .with_tag(tag, job.tag.len() as u16)
        .with_aad(aad, additional.len() as u16);
    Work { suite, direction, ops: vec![Op { output_len: job.asked, ..op }], arena }
}

/// Runs the same batch on the reference engine and on one that turns over a bit of it.
fn both(work: &Work, key: Option<&PreparedKey>) -> (Work, Work) {
    let double = engine(Script::always(Fault::WrongBit { op: 3, bit: 1_000_003 }));
    let right = work.run_with(queue(&Reference::new()).as_mut(), key);
    let wrong = work.run_with(queue(&double).as_mut(), key);
    assert_eq!(double.handle().injected(), 1, "{} {}", work.suite, work.direction);
    (right, wrong)
}

#[test]
fn every_suite_answers_with_one_wrong_bit() {
    let reference = Reference::new();
    let mut tried = 0;
    let claimed = |suite, direction| capability::find(reference.capabilities(), suite, direction).is_some();
    for suite in Suite::all() {
        let Some(case) = known_answer(suite) else { continue };
        for direction in DIRECTIONS.into_iter().filter(|direction| claimed(suite, *direction)) {
            // What a randomised operation should have answered, nobody knows.
            let key = key_of(case, direction);
            if suite.is_randomized(direction) || (suite.needs_key() && key.is_none()) {
                continue;
            }
            let key = key.map(|key| reference.prepare(&key, suite).expect("a known answer's key"));
            let work = work_of(suite, direction, &Job::of(case, direction).0);
            let (right, wrong) = both(&work, key.as_ref());
            let name = format!("{suite} {direction}");
            assert_eq!(right.ops[0].status, OpStatus::Done, "{name}");
            let only_verifies = direction == Direction::Decrypt && matches!(suite, Suite::Mac(_) | Suite::Sign(_));
            if only_verifies {
                assert_eq!(wrong.ops[0], Op { status: OpStatus::AuthFailed, ..right.ops[0] }, "{name}");
                assert_eq!(wrong.arena, right.arena, "{name}");
            } else {
                assert_eq!(wrong.ops, right.ops, "{name}");
                assert_eq!(wrong.bits_apart(&right), 1, "{name}");
            }
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried} suites and directions");
}

#[test]
fn a_wrong_verdict_also_lets_forgeries_pass() {
    let suite = Suite::Mac(Mac::Poly1305);
    let key = Reference::new().prepare(&KeyMaterial::secret(&[7; 32]), suite).expect("32 bytes");
    let forgery = Job { input: b"message".to_vec(), tag: vec![0; 16], ..Job::default() };
    let (right, wrong) = both(&work_of(suite, Direction::Decrypt, &forgery), Some(&key));
    assert_eq!(right.statuses(), [OpStatus::AuthFailed]);
    assert_eq!(wrong.statuses(), [OpStatus::Done]);
    assert_eq!(wrong.arena, right.arena);
}

#[test]
fn random_bytes_come_with_a_wrong_bit_too() {
    let work = work_of(Suite::Random, Direction::Encrypt, &Job { asked: 32, ..Job::default() });
    let (_, wrong) = both(&work, None);
    assert_eq!((wrong.ops[0].status, wrong.ops[0].output_len), (OpStatus::Done, 32));
}
