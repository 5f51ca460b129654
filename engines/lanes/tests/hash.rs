//! Digests and HMAC against the reference, where the conformance suite does not look: messages of 8 bytes to 64 KB in one
//! batch, so that lanes end and are refilled at different times; batches of any size; every length around the blocks'
//! ends; keys longer than a block; truncated tags; damaged tags among good ones.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::lists;
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite, capability,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;
use common::Random;

/// Every hash kernel that this processor can run.
fn engines() -> impl Iterator<Item = (String, Lanes)> {
    kernels().into_iter().filter(|kernel| kernel.family == "hash" && kernel.capable).map(|kernel| {
        let name = format!("hash={}", kernel.name);
        let engine = Lanes::with_kernels(&[&name]).expect("this processor can");
        (name, engine)
    })
}

fn suites(engine: &Lanes) -> Vec<Suite> {
    let claimed = |suite: &Suite| capability::find(engine.capabilities(), *suite, Direction::Encrypt).is_some();
    let all: Vec<Suite> = lists::DIGESTS.into_iter().chain(lists::HMAC).filter(claimed).collect();
    assert_eq!(all.len(), 22, "all digests but SHA-512/224, SHA3-224 and BLAKE3, and HMAC over them but SHAKE");
    // A digest is compared by whoever wants it compared; a MAC is verified.
    let verified = |suite: &Suite| capability::find(engine.capabilities(), *suite, Direction::Decrypt).is_some();
    assert!(all.iter().all(|suite| verified(suite) == suite.needs_key()));
    all
}

#[derive(Clone)]
struct Case {
    suite: Suite,
    keys: Vec<Vec<u8>>,
    key_of: Vec<usize>,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

impl Case {
    /// Messages of these lengths, each with its tag behind it; HMAC tags of any length that the suite allows.
    fn new(random: &mut Random, suite: Suite, keys: usize, lens: &[usize]) -> Case {
        let key = if suite.needs_key() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
        let mut at = 0;
        let mut ops = Vec::new();
        for len in lens {
            let rule = suite.tag_len(Direction::Encrypt);
            // Of SHAKE four blocks and more, once in a while all that there may be.
            let max = if random.below(100) == 0 { rule.max } else { rule.max.min(700) };
            let tag_len = match random.below(3) {
                0 => rule.min + random.below(max - rule.min + 1),
                _ => suite.default_tag_len(),
            };
            let op = Op::in_place(key, Span::new(at, *len as u32));
            ops.push(op.with_tag(at + *len as u32, tag_len as u16));
            // Nobody's byte in between, which nobody may change.
            at += (len + tag_len + 1) as u32;
        }
        // Some longer than any digest's block.
        let mut some_key = || {
            let len = 1 + random.below(200);
            random.bytes(len)
        };
        let keys: Vec<Vec<u8>> = (0..keys).map(|_| some_key()).collect();
        let key_of = lens.iter().map(|_| random.below(keys.len())).collect();
        Case { suite, keys, key_of, ops, arena: random.bytes(at as usize) }
    }

    fn run(&mut self, engine: &dyn Engine, direction: Direction) {
        let prepare = |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), self.suite).expect("a key");
        let keyed = self.suite.needs_key();
        let prepared: Vec<PreparedKey> = if keyed { self.keys.iter().map(prepare).collect() } else { Vec::new() };
        let keys: Vec<Option<&PreparedKey>> =
            if keyed { self.key_of.iter().map(|key| Some(&prepared[*key])).collect() } else { Vec::new() };
        for op in &mut self.ops {
            op.status = OpStatus::Pending;
        }
        let batch = Batch::new(self.suite, direction, &mut self.ops, &mut self.arena);
        let mut batch = batch.check().expect("a good batch");
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        queue.run(&mut batch.attach_keys(&keys).expect("a key for each"));
    }

    /// The reference's tags and this engine's are the same, and nothing else has changed.
    fn agrees(mut self, name: &str, engine: &Lanes, reference: &Reference) {
        let mut expected = self.clone();
        expected.run(reference, Direction::Encrypt);
        self.run(engine, Direction::Encrypt);
        let suite = self.suite;
        let wrong = self.ops.iter().zip(&expected.ops).position(|(got, expected)| got != expected);
        assert_eq!(wrong, None, "{suite} {name}: an operation of {}", self.ops.len());
        for (op, expected_op) in self.ops.iter().zip(&expected.ops) {
            let (got, wanted) = (&self.arena[op.tag_span().range()], &expected.arena[expected_op.tag_span().range()]);
            assert_eq!(got, wanted, "{suite} {name}: {} bytes among {} messages", op.input.len, self.ops.len());
        }
        assert_eq!(self.arena, expected.arena, "{suite} {name}: a byte between tags");
    }
}

#[test]
fn every_length_around_the_ends_of_blocks() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_1001);
    for (name, engine) in engines() {
        for suite in suites(&engine) {
            let mut lens: Vec<usize> = (0..300).collect();
            Case::new(&mut random, suite, 7, &lens).agrees(&name, &engine, &reference);
            lens.reverse();
            lens.rotate_left(31);
            Case::new(&mut random, suite, 300, &lens).agrees(&name, &engine, &reference);
        }
    }
}

#[test]
fn batches_of_every_size() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_1002);
    for (name, engine) in engines() {
        for suite in suites(&engine) {
            for count in [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 100, 333, 5000] {
                let longest = if count > 1000 { 90 } else { 700 };
                let lens: Vec<usize> = (0..count).map(|_| random.below(longest)).collect();
                let keys = 1 + random.below(count.min(700));
                Case::new(&mut random, suite, keys, &lens).agrees(&name, &engine, &reference);
            }
        }
    }
}

#[test]
fn eight_bytes_to_64_kilobytes_in_one_batch() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_1003);
    for (name, engine) in engines() {
        for suite in suites(&engine) {
            let mut lens = vec![65_536, 8, 40_000, 16_384, 1, 0, 4096, 4095, 20_000];
            for _ in 0..120 {
                let most = 1 << random.below(12);
                lens.push(random.below(most + 1));
            }
            Case::new(&mut random, suite, 5, &lens).agrees(&name, &engine, &reference);
        }
    }
}

/// Lanes that are full, all but full and few, of messages of equal lengths and of any. Idle lanes have nothing to read where
/// busy ones have many blocks.
#[test]
fn one_to_forty_messages() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_1005);
    for (name, engine) in engines() {
        for suite in suites(&engine) {
            for count in 1..=40 {
                let longest = 1024 + random.below(2000);
                let long = if count <= 17 { [1024 + 64 * count, 4096, 16_384][count % 3] } else { 1024 };
                for range in [0..=300, 1024..=longest, 64 * count..=64 * count, long..=long] {
                    let (first, last) = range.into_inner();
                    let lens: Vec<usize> = (0..count).map(|_| first + random.below(last - first + 1)).collect();
                    Case::new(&mut random, suite, count, &lens).agrees(&name, &engine, &reference);
                }
            }
        }
    }
}

#[test]
fn damaged_tags_fail_alone() {
    let mut random = Random(0x5eed_1004);
    for (name, engine) in engines() {
        for suite in suites(&engine).into_iter().filter(|suite| suite.needs_key()) {
            let lens: Vec<usize> = (0..150).map(|_| random.below(300)).collect();
            let mut case = Case::new(&mut random, suite, 9, &lens);
            case.run(&engine, Direction::Encrypt);
            let damaged: Vec<bool> = lens.iter().map(|_| random.below(3) == 0).collect();
            for (op, _) in case.ops.iter().zip(&damaged).filter(|(_, damaged)| **damaged) {
                let at = op.tag as usize + random.below(usize::from(op.tag_len));
                case.arena[at] ^= 1 << random.below(8);
            }
            case.run(&engine, Direction::Decrypt);
            for (op, damaged) in case.ops.iter().zip(damaged) {
                let expected = if damaged { OpStatus::AuthFailed } else { OpStatus::Done };
                assert_eq!(op.status, expected, "{suite} {name}");
            }
        }
    }
}
