//! What the engine says of itself, symmetric keys that do not suit, and keys that several queues use at once.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may stop at once, its helpers too")]

mod support;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{Direction, Engine, EngineKind, Error, KeyForm, KeyMaterial, OpStatus, Refusal, Suite};
use ciphermill_library::CAPABILITIES;
use support::{Job, Random, library, run, run_prepared};

const FORWARD: Direction = Direction::Encrypt;
const BACK: Direction = Direction::Decrypt;

fn suite(name: &str) -> Suite {
    name.parse().unwrap()
}

#[test]
fn the_engine_names_itself() {
    let engine = library();
    let info = engine.info();
    assert_eq!((info.name, info.kind), ("library", EngineKind::Library));
    assert!(info.version.starts_with("AWS-LC ") && info.version.contains('.'), "{}", info.version);
    assert!(Suite::all().all(|suite| info.kernel_for(suite) == "aws-lc"));
}

#[test]
fn no_suite_is_claimed_twice() {
    let suites: Vec<Suite> = CAPABILITIES.iter().flat_map(|group| group.suites.iter().copied()).collect();
    for (suite, direction) in
        suites.iter().flat_map(|suite| [(*suite, Direction::Encrypt), (*suite, Direction::Decrypt)])
    {
        let claims = CAPABILITIES.iter().filter(|group| group.covers(suite, direction)).count();
        assert!(claims <= 1, "{suite} {direction} is claimed {claims} times");
    }
    for missing in ["blake3", "hmac-blake3", "kmac128", "seal-3.0", "aes-128-ocb", "hmac-sha1+aes-128-cbc"] {
        assert!(!suites.contains(&suite(missing)), "{missing}");
    }
}

#[test]
fn secrets_that_do_not_suit_are_refused() {
    let engine = library();
    let refusal = |suite, form, bytes: &[u8]| engine.prepare(&KeyMaterial { form, bytes }, suite).unwrap_err();
    for suite in CAPABILITIES.iter().flat_map(|group| group.suites.iter().copied()) {
        if !suite.needs_key() {
            assert_eq!(refusal(suite, KeyForm::Secret, &[1; 16]), Error::key(suite, KeyProblem::Form), "{suite}");
        } else if !suite.is_public_key() {
            let key = Random(3).bytes(suite.key_len().max);
            assert_eq!(refusal(suite, KeyForm::Private, &key), Error::key(suite, KeyProblem::Form), "{suite}");
            let short = &key[..suite.key_len().min - 1];
            assert_eq!(refusal(suite, KeyForm::Secret, short), Error::key(suite, KeyProblem::Length), "{suite}");
            let long = [&key[..], &[1]].concat();
            assert_eq!(refusal(suite, KeyForm::Secret, &long), Error::key(suite, KeyProblem::Length), "{suite}");
        }
    }
    let xts = lists::AES_XTS[1];
    assert_eq!(refusal(xts, KeyForm::Secret, &[7; 64]), Error::key(xts, KeyProblem::Weak));
    let ocb = lists::AES_OCB[0];
    let unavailable = Error::Refused(Refusal::EngineUnavailable("library".to_owned()));
    assert_eq!(refusal(ocb, KeyForm::Secret, &[7; 16]), unavailable);
}

#[test]
fn a_key_of_another_suite_is_a_fault_of_its_operation_alone() {
    let engine = library();
    let (cbc, ctr) = (suite("aes-128-cbc"), suite("aes-128-ctr"));
    let key = |suite| engine.prepare(&KeyMaterial::secret(&[9; 16]), suite).unwrap();
    let (right, wrong) = (key(cbc), key(ctr));
    let job = Job { iv: vec![0; 16], input: vec![1; 32], ..Job::default() };
    let jobs = vec![job; 3];
    let answers = run_prepared(&engine, cbc, FORWARD, &jobs, &[Some(&right), Some(&wrong), Some(&right)]);
    let statuses: Vec<OpStatus> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [OpStatus::Done, OpStatus::EngineFault, OpStatus::Done]);
    assert!(answers[1].output.is_empty());
    assert_eq!(answers[0], answers[2]);
}

#[test]
fn a_suite_that_is_not_claimed_leaves_no_operation_pending() {
    let engine = library();
    let jobs = vec![Job { tag: vec![0; 32], input: vec![1; 3], ..Job::default() }; 2];
    let answers = run_prepared(&engine, suite("blake3"), FORWARD, &jobs, &[]);
    assert!(answers.iter().all(|answer| answer.status == OpStatus::EngineFault));
}

/// RFC 3610: a nonce of 13 bytes leaves two for the length.
#[test]
fn ccm_refuses_what_its_length_field_cannot_hold() {
    let engine = library();
    for (iv_len, input_len, fits) in [(13, 65_535, true), (13, 65_536, false), (12, 65_536, true)] {
        let iv = vec![3; iv_len];
        let job = Job { key: vec![1; 16], iv, input: vec![2; input_len], tag: vec![0; 8], ..Job::default() };
        let answer = run(&engine, suite("aes-128-ccm"), FORWARD, KeyForm::Secret, &[job]).remove(0);
        let refused = OpStatus::BadInput(ciphermill_contract::Reason::InputTooLong);
        assert_eq!(answer.status, if fits { OpStatus::Done } else { refused });
    }
}

/// Counters carry over all 128 bits: two operations that meet at the carry continue one another.
#[test]
fn ctr_counts_through_its_carries() {
    let engine = library();
    for low_ones in [4, 8, 12, 16] {
        let mut iv = vec![0x5a; 16];
        iv[16 - low_ones..].fill(0xff);
        let input = vec![0; 5 * 16];
        let job = Job { key: vec![1; 32], iv, input, ..Job::default() };
        let whole = run(&engine, suite("aes-256-ctr"), FORWARD, KeyForm::Secret, std::slice::from_ref(&job));
        let next = u128::from_be_bytes(job.iv.clone().try_into().unwrap()).wrapping_add(1).to_be_bytes();
        let rest = Job { iv: next.to_vec(), input: vec![0; 4 * 16], ..job };
        let rest = run(&engine, suite("aes-256-ctr"), FORWARD, KeyForm::Secret, &[rest]);
        assert_eq!(whole[0].output[16..], rest[0].output, "{low_ones} bytes of ones");
    }
}

#[test]
fn random_bytes_differ() {
    let engine = library();
    let job = Job { asked: 100, ..Job::default() };
    let answers = run_prepared(&engine, Suite::Random, FORWARD, &[job.clone(), job], &[]);
    assert!(answers.iter().all(|answer| answer.status == OpStatus::Done && answer.output.len() == 100));
    assert_ne!(answers[0].output, answers[1].output);
}

/// Prepared keys are shared: queues on several threads must agree, also where contexts are made on first use.
#[test]
fn queues_on_several_threads_share_keys() {
    let engine = library();
    let mut random = Random(4);
    for name in ["aes-128-ecb", "aes-256-xts", "aes-192-gcm", "hmac-sha3-256", "aes-256-ccm", "aes-128-cbc+hmac-sha1"] {
        let suite = suite(name);
        let tags = suite.tag_len(FORWARD);
        let bytes = random.bytes(suite.key_len().max.min(100));
        let key = engine.prepare(&KeyMaterial::secret(&bytes), suite).unwrap();
        let jobs: Vec<Job> = (0..40)
            .map(|index| Job {
                iv: random.bytes(suite.iv_len().min),
                input: random.bytes(64 * (1 + index % 9)),
                tag: vec![0; if tags.max == 0 { 0 } else { tags.round_up(tags.min + tags.step * (index % 2)) }],
                ..Job::default()
            })
            .collect();
        let keys = vec![Some(&key); jobs.len()];
        let wanted = run_prepared(&engine, suite, FORWARD, &jobs, &keys);
        let fresh = engine.prepare(&KeyMaterial::secret(&bytes), suite).unwrap();
        let fresh_keys = vec![Some(&fresh); jobs.len()];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        assert_eq!(run_prepared(&engine, suite, FORWARD, &jobs, &fresh_keys), wanted, "{name}");
                    }
                });
            }
        });
        let back: Vec<Job> = jobs
            .iter()
            .zip(&wanted)
            .map(|(job, answer)| {
                let input = if matches!(suite, Suite::Mac(_)) { job.input.clone() } else { answer.output.clone() };
                Job { input, tag: answer.tag.clone(), ..job.clone() }
            })
            .collect();
        let answers = run_prepared(&engine, suite, BACK, &back, &fresh_keys);
        assert!(answers.iter().all(|answer| answer.status == OpStatus::Done), "{name}");
    }
}
