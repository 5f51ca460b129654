//! Random batches on this engine and on the reference: the same statuses, the same bytes.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may stop at once, its helpers too")]

mod support;

use ciphermill_contract::{Direction, Engine, KeyForm, Suite, capability};
use ciphermill_reference::Reference;
use proptest::prelude::*;
use support::{Job, Random, library, run};

/// Symmetric suites that both engines claim both ways that they have.
fn common() -> Vec<Suite> {
    let (library, reference) = (library(), Reference::new());
    let claims =
        |engine: &dyn Engine, suite, direction| capability::find(engine.capabilities(), suite, direction).is_some();
    Suite::all()
        .filter(|suite| !suite.is_public_key() && *suite != Suite::Random)
        .filter(|suite| {
            [Direction::Encrypt, Direction::Decrypt].into_iter().all(|direction| {
                !suite.has_direction(direction)
                    || claims(&library, *suite, direction) && claims(&reference, *suite, direction)
            })
        })
        .collect()
}

/// A random operation that the suite takes.
fn random_job(random: &mut Random, suite: Suite) -> Job {
    let beyond = [20, 100, 400, 3000][random.below(4)];
    let key_len = random.len(suite.key_len(), 100);
    let iv_len = random.len(suite.iv_len(), 16);
    let aad_beyond = [0, 30, 300][random.below(3)];
    let aad_len = random.len(suite.aad_len(), aad_beyond);
    let input_len = random.len(suite.input_len(Direction::Encrypt), beyond);
    let tag_len = random.len(suite.tag_len(Direction::Decrypt), 64);
    Job {
        key: random.bytes(key_len),
        iv: random.bytes(iv_len),
        aad: random.bytes(aad_len),
        input: random.bytes(input_len),
        tag: random.bytes(tag_len),
        asked: 0,
        in_place: random.below(2) == 0,
        gap: random.below(9),
    }
}

/// Now and then an operation goes the way back damaged.
fn damage(random: &mut Random, job: &mut Job) {
    let part = match random.below(6) {
        0 => &mut job.tag,
        1 => &mut job.input,
        2 => &mut job.aad,
        _ => return,
    };
    if !part.is_empty() {
        let at = random.below(part.len());
        part[at] ^= 1 << random.below(8);
    }
}

fn compare(seed: u64, suite: Suite) {
    let (library, reference) = (library(), Reference::new());
    let mut random = Random(seed);
    let keys = 1 + random.below(3);
    let mut jobs: Vec<Job> = (0..1 + random.below(8)).map(|_| random_job(&mut random, suite)).collect();
    for index in keys..jobs.len() {
        // Runs of operations under one key, too.
        if random.below(2) == 0 {
            jobs[index].key = jobs[index % keys].key.clone();
        }
    }
    let forward = run(&reference, suite, Direction::Encrypt, KeyForm::Secret, &jobs);
    assert_eq!(run(&library, suite, Direction::Encrypt, KeyForm::Secret, &jobs), forward, "{suite} seed {seed}");
    if !suite.has_direction(Direction::Decrypt) {
        return;
    }
    for (job, answer) in jobs.iter_mut().zip(forward) {
        if !matches!(suite, Suite::Mac(_)) {
            job.input = answer.output;
        }
        job.tag = answer.tag;
        damage(&mut random, job);
    }
    let back = run(&reference, suite, Direction::Decrypt, KeyForm::Secret, &jobs);
    assert_eq!(run(&library, suite, Direction::Decrypt, KeyForm::Secret, &jobs), back, "{suite} seed {seed}");
}

#[test]
fn enough_is_common() {
    assert!(common().len() >= 90, "{} suites", common().len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn batches_agree_with_the_reference(seed in any::<u64>()) {
        for (index, suite) in common().into_iter().enumerate() {
            compare(seed.wrapping_add(index as u64), suite);
        }
    }
}
