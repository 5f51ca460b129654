//! The known answer of every suite that the engine claims, and every published vector for those suites.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may stop at once, its helpers too")]

mod support;

use ciphermill_contract::{Direction, Engine, OpStatus, PreparedKey, Suite, capability};
use ciphermill_vectors::job::key_of;
use ciphermill_vectors::{Case, Outcome, all, run_known_answer};
use support::{Answer, Job, library, run_prepared};

#[test]
fn every_claimed_suite_gives_its_known_answer() {
    let engine = library();
    let claimed: Vec<Suite> = engine.capabilities().iter().flat_map(|group| group.suites.iter().copied()).collect();
    assert!(claimed.len() > 140, "{} suites", claimed.len());
    for suite in claimed {
        assert_eq!(run_known_answer(&engine, suite), Ok(()), "{suite}");
    }
}

/// Runs a vector one way: `None` when the key or the batch was refused.
fn run_case(case: &Case, direction: Direction) -> Option<Answer> {
    let engine = library();
    let (job, _) = ciphermill_vectors::Job::of(case, direction);
    let key = match key_of(case, direction) {
        Some(material) => Some(engine.prepare(&material, case.suite).ok()?),
        None => None,
    };
    let job = Job { iv: job.iv, aad: job.aad, input: job.input, tag: job.tag, gap: 1, ..Job::default() };
    let lengths = case.suite.input_len(direction).contains(job.input.len())
        && case.suite.iv_len().contains(job.iv.len())
        && case.suite.tag_len(direction).contains(job.tag.len())
        && case.suite.aad_len().contains(job.aad.len());
    lengths.then(|| {
        run_prepared(&engine, case.suite, direction, &[job], &[key.as_ref().map(|key: &PreparedKey| key)]).remove(0)
    })
}

fn check(case: &Case, direction: Direction) {
    let name = format!("{} {} {direction}: {}", case.source, case.suite, case.id);
    let answer = run_case(case, direction);
    let done = answer.filter(|answer| answer.status == OpStatus::Done);
    let (_, wanted) = ciphermill_vectors::Job::of(case, direction);
    let right = |got: &Answer| got.output == wanted.output && got.tag == wanted.tag;
    match (&case.outcome, done) {
        (Outcome::Valid, Some(got)) => assert!(right(&got), "{name}: wrong answer"),
        (Outcome::Valid, None) => panic!("{name}: a valid vector failed"),
        (Outcome::Invalid(_), None) | (Outcome::Acceptable(_), None) => {}
        // ML-KEM rejects implicitly: an invalid ciphertext gives another secret.
        (Outcome::Invalid(why), Some(got)) => assert!(!right(&got), "{name}: accepted although {why}"),
        (Outcome::Acceptable(why), Some(got)) => assert!(right(&got), "{name}: wrong answer ({why})"),
    }
}

#[test]
fn published_vectors() {
    let engine = library();
    let mut run = 0;
    for case in all() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let claimed = capability::find(engine.capabilities(), case.suite, direction).is_some();
            if claimed && case.ways.contains(direction) && !case.suite.is_randomized(direction) {
                check(case, direction);
                run += 1;
            }
        }
    }
    assert!(run > 10_000, "{run} vectors");
}
