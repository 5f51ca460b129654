//! AES in the modes that work on whole batches (ECB, CBC, CTR, XTS, OCB) against the reference, where the conformance
//! suite does not look: many keys in one batch, batches of any size, long messages among short ones, counters that wrap.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::lists;
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite, capability,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;
use common::Random;

/// Room for every operation of a batch, in and out of place.
const ARENA: usize = 1 << 20;

/// Every AES kernel that this processor can run.
fn engines() -> impl Iterator<Item = (String, Lanes)> {
    kernels().into_iter().filter(|kernel| kernel.family == "aes" && kernel.capable).map(|kernel| {
        let name = format!("aes={}", kernel.name);
        let engine = Lanes::with_kernels(&[&name]).expect("this processor can");
        (name, engine)
    })
}

fn suites() -> impl Iterator<Item = Suite> {
    let lists: [&[Suite]; 5] = [&lists::AES_ECB, &lists::AES_CBC, &lists::AES_CTR, &lists::AES_XTS, &lists::AES_OCB];
    lists.into_iter().flatten().copied()
}

/// A batch before and after.
#[derive(Clone)]
struct Case {
    suite: Suite,
    keys: Vec<Vec<u8>>,
    key_of: Vec<usize>,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

impl Case {
    /// `lens` bytes each, rounded up to what the suite takes; one operation in three is not in place.
    fn new(random: &mut Random, suite: Suite, keys: usize, lens: &[usize]) -> Case {
        let rules = suite.input_len(Direction::Encrypt);
        let mut at = 0u32;
        let mut ops = Vec::new();
        for len in lens {
            let len = len.next_multiple_of(rules.step).clamp(rules.min, rules.max) as u32;
            let iv_len = if random.below(2) == 0 { suite.iv_len().min } else { suite.iv_len().max };
            let mut op = Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(at, len));
            // Behind the IV lies anything.
            op.iv.copy_from_slice(&random.bytes(16));
            op = op.with_iv(&random.bytes(iv_len));
            at += len;
            if random.below(3) == 0 {
                op = op.with_output(at);
                at += len;
            }
            if suite.default_tag_len() != 0 {
                op = op.with_tag(at, suite.default_tag_len() as u16);
                at += suite.default_tag_len() as u32;
            }
            let aad = random.below(100);
            if suite.aad_len().max != 0 {
                op = op.with_aad(at, aad as u16);
                at += aad as u32;
            }
            // Nobody's bytes in between, which nobody may change.
            at += random.below(3) as u32;
            ops.push(op);
        }
        assert!(at as usize <= ARENA, "{at} bytes");
        let key_len = suite.key_len().max;
        Case {
            suite,
            keys: (0..keys).map(|_| random.bytes(key_len)).collect(),
            key_of: lens.iter().map(|_| random.below(keys)).collect(),
            ops,
            arena: random.bytes(at as usize + 1),
        }
    }

    fn run(&mut self, engine: &dyn Engine, direction: Direction) {
        let prepare = |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), self.suite).expect("a key");
        let prepared: Vec<PreparedKey> = self.keys.iter().map(prepare).collect();
        let keys: Vec<Option<&PreparedKey>> = self.key_of.iter().map(|key| Some(&prepared[*key])).collect();
        for op in &mut self.ops {
            op.status = OpStatus::Pending;
        }
        let batch = Batch::new(self.suite, direction, &mut self.ops, &mut self.arena);
        let mut batch = batch.check().expect("a good batch");
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        queue.run(&mut batch.attach_keys(&keys).expect("a key for each"));
    }

    /// The reference's answer and this engine's are one, forwards and, from what came out, back.
    fn agree(mut self, name: &str, engine: &Lanes, reference: &Reference) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let mut expected = self.clone();
            expected.run(reference, direction);
            self.run(engine, direction);
            let suite = self.suite;
            let first = self.ops.iter().zip(&expected.ops).position(|(got, expected)| got != expected);
            assert_eq!(first, None, "{suite} {direction:?} {name}: an operation of {}", self.ops.len());
            let first = self.arena.iter().zip(&expected.arena).position(|(got, expected)| got != expected);
            assert_eq!(first, None, "{suite} {direction:?} {name}: a byte of {} operations", self.ops.len());
            // The way back starts where the way there ended.
            for op in &mut self.ops {
                (op.input.offset, op.output) = (op.output, op.input.offset);
            }
        }
    }
}

#[test]
fn batches_of_every_size_under_many_keys() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_0001);
    for (name, engine) in engines() {
        for suite in suites() {
            for count in [1, 2, 3, 4, 5, 8, 9, 16, 17, 40, 64, 100, 333, 5000] {
                let longest = if count > 1000 { 90 } else { 400 };
                let lens: Vec<usize> = (0..count).map(|_| random.below(longest)).collect();
                let keys = 1 + random.below(count.min(700));
                Case::new(&mut random, suite, keys, &lens).agree(&name, &engine, &reference);
            }
        }
    }
}

#[test]
fn long_messages_among_short_ones() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_0002);
    for (name, engine) in engines() {
        for suite in suites() {
            for long in [&[65_536][..], &[300, 17_000, 511, 512, 513, 4096], &[40_000, 1, 40_000, 39_000]] {
                let mut lens: Vec<usize> = (0..150).map(|_| random.below(100)).collect();
                for len in long {
                    lens.insert(random.below(lens.len()), *len);
                }
                Case::new(&mut random, suite, 20, &lens).agree(&name, &engine, &reference);
            }
            for len in [65_536, 16_384 + 7, 1023] {
                Case::new(&mut random, suite, 1, &[len]).agree(&name, &engine, &reference);
            }
        }
    }
}

/// More than there are lanes, so that some take the place of others: pages apart, and of lengths of their own.
#[test]
fn many_long_messages() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_0005);
    for (name, engine) in engines() {
        for suite in suites() {
            let mixed: Vec<usize> = (0..40).map(|_| 1000 + random.below(6000)).collect();
            for lens in [&mixed[..], &[4096; 37], &[2048; 17], &[2049; 16]] {
                Case::new(&mut random, suite, 7, lens).agree(&name, &engine, &reference);
            }
        }
    }
}

/// Runs of messages of one length, whole vectors and others, among each other.
#[test]
fn runs_of_equal_lengths() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_0007);
    for (name, engine) in engines() {
        for suite in suites() {
            for len in [0, 16, 32, 48, 64, 96, 128, 192, 256] {
                Case::new(&mut random, suite, 3, &[len; 9]).agree(&name, &engine, &reference);
            }
            let mut lens = Vec::new();
            while lens.len() < 600 {
                let len = [0, 15, 16, 17, 32, 33, 48, 64, 65, 96, 128, 192, 256, 257, 512][random.below(15)];
                lens.extend([len; 12].iter().take(1 + random.below(12)));
            }
            Case::new(&mut random, suite, 50, &lens).agree(&name, &engine, &reference);
        }
    }
}

/// In a run of messages of one length: one that has ended before, one without a key, one whose key is for another suite.
#[test]
fn a_run_is_not_spoilt_by_operations_that_cannot_run() {
    const COUNT: usize = 20;
    let mut random = Random(0x5eed_0008);
    for (name, engine) in engines() {
        for suite in suites() {
            let mut case = Case::new(&mut random, suite, 1, &[64; COUNT]);
            let other = if suite == lists::AES_CBC[0] { lists::AES_CTR[0] } else { lists::AES_CBC[0] };
            let prepare = |key: &[u8], suite| engine.prepare(&KeyMaterial::secret(key), suite).unwrap();
            let key = prepare(&case.keys[0], suite);
            let foreign = prepare(&random.bytes(other.key_len().max), other);
            let mut keys = [Some(&key); COUNT];
            (keys[9], keys[13]) = (None, Some(&foreign));
            let (before, mut expected) = (case.clone(), case.clone());
            expected.run(&engine, Direction::Encrypt);
            let mut batch = Batch::new(suite, Direction::Encrypt, &mut case.ops, &mut case.arena).check().unwrap();
            let mut batch = batch.attach_keys(&keys).unwrap();
            batch.parts().0[17].status = OpStatus::AuthFailed;
            engine.queue(QueueHint::default()).unwrap().run(&mut batch);
            for (index, op) in case.ops.iter().enumerate() {
                let output = op.output as usize..op.output as usize + 64;
                let got = &case.arena[output.clone()];
                let (status, bytes) = match index {
                    9 | 13 => (OpStatus::EngineFault, &[0; 64][..]),
                    17 => (OpStatus::AuthFailed, &before.arena[output]),
                    _ => (OpStatus::Done, &expected.arena[output]),
                };
                assert_eq!((op.status, got), (status, bytes), "{suite} {name}: operation {index}");
            }
        }
    }
}

/// Many messages read one place, each its own number of bytes, and are written elsewhere.
#[test]
fn inputs_may_be_shared() {
    const LEN_MAX: u32 = 1040;
    let reference = Reference::new();
    let mut random = Random(0x5eed_0006);
    for (name, engine) in engines() {
        for suite in suites().filter(|suite| suite.default_tag_len() == 0) {
            let rules = suite.input_len(Direction::Encrypt);
            let lens: Vec<usize> = (rules.min..=LEN_MAX as usize).step_by(rules.step).collect();
            let mut case = Case::new(&mut random, suite, 30, &lens);
            let mut at = LEN_MAX;
            for op in &mut case.ops {
                (op.input.offset, op.output) = (0, at);
                at += op.input.len;
            }
            case.arena = random.bytes(at as usize + 1);
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                let (mut got, mut expected) = (case.clone(), case.clone());
                got.run(&engine, direction);
                expected.run(&reference, direction);
                assert_eq!(got.ops, expected.ops, "{suite} {direction:?} {name}");
                let first = got.arena.iter().zip(&expected.arena).position(|(got, expected)| got != expected);
                assert_eq!(first, None, "{suite} {direction:?} {name}: a byte");
            }
        }
    }
}

/// The counter's lower half wraps within some messages, at their ends, and its upper half too.
#[test]
fn counters_wrap_over_all_their_bits() {
    let reference = Reference::new();
    let mut random = Random(0x5eed_0003);
    for (name, engine) in engines() {
        for suite in lists::AES_CTR {
            // Messages of one length at the start are run on a way of their own, up to the first that wraps.
            let mut lens = vec![64; 20];
            lens.extend((0..300).map(|_| random.below(2000)));
            let mut case = Case::new(&mut random, suite, 5, &lens);
            for (index, op) in case.ops.iter_mut().enumerate() {
                if index < 10 {
                    continue;
                }
                let high = if random.below(4) == 0 { u64::MAX } else { random.next() };
                let low = 5u64.wrapping_sub(random.below(140) as u64);
                let counter = (u128::from(high) << 64) | u128::from(low);
                op.iv = counter.to_be_bytes();
                op.iv_len = 16;
            }
            case.agree(&name, &engine, &reference);
        }
    }
}

/// Damaged tags among good ones: those fail, their output is zeros, the others are opened.
#[test]
fn damaged_messages_leave_zeros() {
    let mut random = Random(0x5eed_0004);
    for (name, engine) in engines() {
        for suite in lists::AES_OCB {
            let lens: Vec<usize> = (0..200).map(|_| random.below(700)).collect();
            let mut case = Case::new(&mut random, suite, 9, &lens);
            case.run(&engine, Direction::Encrypt);
            for op in &mut case.ops {
                (op.input.offset, op.output) = (op.output, op.input.offset);
            }
            let damaged: Vec<bool> = case.ops.iter().map(|_| random.below(3) == 0).collect();
            for (op, _) in case.ops.iter().zip(&damaged).filter(|(_, damaged)| **damaged) {
                case.arena[op.tag as usize + random.below(16)] ^= 1 << random.below(8);
            }
            case.run(&engine, Direction::Decrypt);
            for (op, damaged) in case.ops.iter().zip(damaged) {
                let expected = if damaged { OpStatus::AuthFailed } else { OpStatus::Done };
                assert_eq!(op.status, expected, "{suite} {name}");
                let output = &case.arena[op.output as usize..][..op.input.len as usize];
                assert!(!damaged || output.iter().all(|byte| *byte == 0), "{suite} {name}: plaintext was left");
            }
        }
    }
}

#[test]
fn the_two_keys_of_xts_must_differ() {
    for (_, engine) in engines() {
        for suite in lists::AES_XTS {
            assert!(capability::find(engine.capabilities(), suite, Direction::Encrypt).is_some());
            let key = vec![7; suite.key_len().max];
            assert!(engine.prepare(&KeyMaterial::secret(&key), suite).is_err());
        }
    }
}
