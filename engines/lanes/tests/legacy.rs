//! Blowfish, Khufu, Khafre, RC4 and SEAL 3.0 where the conformance suite does not look: batches of 1 to 5,000
//! operations of mixed lengths under many keys against the reference, keys that are prepared side by side, and what the
//! engine says of these suites.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::capability::Timing;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::lists;
use ciphermill_contract::{
    Batch, Direction, Engine, Error, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;
use common::Random;

/// A key of any length that the suite takes.
fn key_for(numbers: &mut Random, suite: Suite) -> Vec<u8> {
    let lens = suite.key_len();
    let len = lens.min + lens.step * numbers.below((lens.max - lens.min) / lens.step + 1);
    numbers.bytes(len)
}

/// A batch and the keys of its operations.
struct Case {
    suite: Suite,
    direction: Direction,
    keys: Vec<Vec<u8>>,
    key_of: Vec<usize>,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

impl Case {
    /// Messages of these lengths, rounded up to what the suite takes, in place and not, with gaps between them.
    fn new(numbers: &mut Random, suite: Suite, direction: Direction, lens: &[usize], keys: usize) -> Case {
        let keys: Vec<Vec<u8>> = (0..keys).map(|_| key_for(numbers, suite)).collect();
        let (mut at, mut ops) = (0, Vec::new());
        for len in lens {
            at += numbers.below(4) as u32;
            let span = Span::new(at, len.next_multiple_of(suite.block_len()) as u32);
            at += span.len;
            let ivs = suite.iv_len();
            let iv_len = if numbers.below(2) == 0 { ivs.min } else { ivs.max };
            let mut iv = numbers.bytes(iv_len);
            if numbers.below(8) == 0 {
                // Counters that wrap.
                iv.fill(0xff);
            }
            let mut op = Op::in_place(KeyId { slot: 0, generation: 1 }, span).with_iv(&iv);
            if numbers.below(2) == 0 {
                op = op.with_output(at + 3);
                at += span.len + 3;
            }
            ops.push(op);
        }
        let key_of = lens.iter().map(|_| numbers.below(keys.len())).collect();
        let arena = numbers.bytes(at as usize);
        Case { suite, direction, keys, key_of, ops, arena }
    }

    fn run(&self, engine: &dyn Engine) -> (Vec<Op>, Vec<u8>) {
        let prepare =
            |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), self.suite).expect("a key of the suite");
        let keys: Vec<PreparedKey> = self.keys.iter().map(prepare).collect();
        self.run_with(engine, &keys)
    }

    fn run_with(&self, engine: &dyn Engine, keys: &[PreparedKey]) -> (Vec<Op>, Vec<u8>) {
        let keys: Vec<Option<&PreparedKey>> = self.key_of.iter().map(|key| Some(&keys[*key])).collect();
        let (mut ops, mut arena) = (self.ops.clone(), self.arena.clone());
        let mut batch =
            Batch::new(self.suite, self.direction, &mut ops, &mut arena).check().expect("a batch within its arena");
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        queue.run(&mut batch.attach_keys(&keys).expect("a key an operation"));
        (ops, arena)
    }

    fn check(&self, engine: &Lanes, reference: &Reference) {
        self.compare(self.run(engine), self.run(reference));
    }

    fn compare(&self, (ops, arena): (Vec<Op>, Vec<u8>), (want_ops, want): (Vec<Op>, Vec<u8>)) {
        let what = format!("{} {}, {} messages", self.suite, self.direction, self.ops.len());
        assert!(ops.iter().all(|op| op.status == OpStatus::Done), "{what}");
        assert!(ops == want_ops, "{what}: operations differ");
        if let Some(at) = (0..arena.len()).find(|at| arena[*at] != want[*at]) {
            let op = self.ops.iter().position(|op| op.output as usize + op.input.len as usize > at);
            panic!("{what}: byte {at} differs, message {op:?}");
        }
    }
}

fn suites() -> impl Iterator<Item = (Suite, Direction)> {
    let suites = lists::BLOWFISH.into_iter().chain(lists::KHUFU_KHAFRE).chain(lists::LEGACY_STREAMS);
    suites.flat_map(|suite| [Direction::Encrypt, Direction::Decrypt].map(|direction| (suite, direction)))
}

fn each_suite(check: impl Fn(&Lanes, &Reference, Suite, Direction, &mut Random)) {
    let (engine, reference) = (Lanes::new().expect("opens everywhere"), Reference::new());
    let mut numbers = Random(0x9e37_79b9_7f4a_7c15);
    for (suite, direction) in suites() {
        check(&engine, &reference, suite, direction, &mut numbers);
    }
}

#[test]
fn batches_of_all_sizes_agree_with_the_reference() {
    each_suite(|engine, reference, suite, direction, numbers| {
        for ops in (1usize..=20).chain([31, 32, 33, 63, 64, 65, 127, 500, 2047, 2049, 5000]) {
            let lens: Vec<usize> = (0..ops).map(|_| numbers.below(401)).collect();
            let keys = if ops > 100 { 40 } else { ops.div_ceil(2) };
            Case::new(numbers, suite, direction, &lens, keys).check(engine, reference);
        }
    });
}

#[test]
fn long_messages_among_short_ones_agree_with_the_reference() {
    each_suite(|engine, reference, suite, direction, numbers| {
        for (ops, long, most) in [(1, 1, 65_536), (3, 1, 9_000), (40, 2, 5_000), (600, 3, 20_000), (30, 30, 1_500)] {
            let len = |n| if n % (ops / long) == 0 { most } else { 90 };
            let lens: Vec<usize> = (0..ops).map(|n| numbers.below(len(n) + 1)).collect();
            Case::new(numbers, suite, direction, &lens, 5).check(engine, reference);
        }
    });
}

#[test]
fn one_key_for_all_agrees_with_the_reference() {
    each_suite(|engine, reference, suite, direction, numbers| {
        for lens in [vec![65_536], vec![8; 700], vec![48; 33], vec![1024; 9], vec![0; 5], vec![1023, 0, 1025, 2048, 31]]
        {
            Case::new(numbers, suite, direction, &lens, 1).check(engine, reference);
        }
    });
}

#[test]
fn keys_prepared_side_by_side_are_those_prepared_alone() {
    each_suite(|engine, reference, suite, direction, numbers| {
        for count in [1, 2, 3, 7, 8, 9, 16, 21] {
            let case = Case::new(numbers, suite, direction, &vec![72; 3 * count], count);
            let keys: Vec<KeyMaterial<'_>> = case.keys.iter().map(|key| KeyMaterial::secret(key)).collect();
            let prepared: Result<Vec<PreparedKey>, Error> = engine.prepare_many(&keys, suite).into_iter().collect();
            case.compare(case.run_with(engine, &prepared.expect("keys of the suite")), case.run(reference));
        }
    });
}

#[test]
fn a_refused_key_does_not_fail_its_neighbours() {
    let engine = Lanes::new().expect("opens everywhere");
    let suite = "blowfish-cbc".parse().expect("a suite");
    let keys = [&[7; 16][..], &[7; 3], &[7; 57], &[7; 56]].map(KeyMaterial::secret);
    let prepared = engine.prepare_many(&keys, suite);
    let refused: Vec<Option<Error>> = prepared.into_iter().map(Result::err).collect();
    let length = || Some(Error::key(suite, KeyProblem::Length));
    assert_eq!(refused, [None, length(), length(), None]);
    let des = "des-cbc".parse().expect("a suite");
    let prepared = engine.prepare_many(&keys[..2], des);
    assert_eq!(prepared[1].as_ref().err(), Some(&Error::key(des, KeyProblem::Length)));
}

/// A mill refuses legacy suites whatever engine runs them (`core/mill/tests/path/routing.rs`); what is left to an
/// engine is to say which of its suites are variable in time, and that those are all legacy.
#[test]
fn these_suites_are_legacy_and_said_to_be_variable_in_time() {
    let engine = Lanes::new().expect("opens everywhere");
    for capability in engine.capabilities() {
        for suite in capability.suites {
            let own = suites().any(|(own, _)| own == *suite);
            assert_eq!(capability.timing == Timing::Variable, own, "{suite}");
            assert!(suite.is_legacy() || !own, "{suite}");
        }
    }
    for (suite, _) in suites() {
        assert_eq!(engine.info().kernel_for(suite), "interleaved", "{suite}");
    }
    assert!(kernels().iter().any(|kernel| kernel.family == "legacy" && kernel.name == "interleaved" && kernel.capable));
}
