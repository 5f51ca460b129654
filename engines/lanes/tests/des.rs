//! DES and triple DES against the reference where the conformance suite does not look: batches of all sizes with many
//! keys, long messages among short ones, every kernel.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::{BlockCipher, Mode};
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;
use common::Random;

/// One batch: the blocks of each message, the keys and which message has which.
struct Case {
    suite: Suite,
    direction: Direction,
    in_place: bool,
    blocks: Vec<usize>,
    keys: Vec<Vec<u8>>,
    key_of: Vec<usize>,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

impl Case {
    fn new(numbers: &mut Random, suite: Suite, direction: Direction, blocks: Vec<usize>, keys: usize) -> Case {
        let in_place = numbers.below(2) == 0;
        let lens = suite.key_len();
        let key_len = |n: usize| if n.is_multiple_of(2) { lens.min } else { lens.max };
        let keys: Vec<Vec<u8>> = (0..keys).map(|n| numbers.bytes(key_len(n))).collect();
        let mut at = 0;
        let mut ops = Vec::new();
        for blocks in &blocks {
            // Gaps, so that places are not aligned.
            at += numbers.below(4) as u32;
            let span = Span::new(at, 8 * *blocks as u32);
            at += span.len;
            let mut op =
                Op::in_place(KeyId { slot: 0, generation: 1 }, span).with_iv(&numbers.bytes(suite.iv_len().max));
            if !in_place {
                op = op.with_output(at + 3);
                at += span.len + 3;
            }
            ops.push(op);
        }
        let key_of = blocks.iter().map(|_| numbers.below(keys.len())).collect();
        let arena = numbers.bytes(at as usize);
        Case { suite, direction, in_place, blocks, keys, key_of, ops, arena }
    }

    fn run(&self, engine: &dyn Engine) -> (Vec<Op>, Vec<u8>) {
        let prepare =
            |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), self.suite).expect("a key of the suite");
        let keys: Vec<PreparedKey> = self.keys.iter().map(prepare).collect();
        let keys: Vec<Option<&PreparedKey>> = self.key_of.iter().map(|key| Some(&keys[*key])).collect();
        let (mut ops, mut arena) = (self.ops.clone(), self.arena.clone());
        let mut batch =
            Batch::new(self.suite, self.direction, &mut ops, &mut arena).check().expect("a batch within its arena");
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        queue.run(&mut batch.attach_keys(&keys).expect("a key an operation"));
        (ops, arena)
    }

    fn check(&self, engine: &dyn Engine, kernel: &str) {
        let ((ops, arena), (want_ops, want)) = (self.run(engine), self.run(&Reference::new()));
        let what = || {
            let Case { suite, direction, in_place, blocks, .. } = self;
            format!(
                "{kernel} {suite} {direction}, in place {in_place}, {} messages, blocks {blocks:.40?}",
                blocks.len()
            )
        };
        assert!(ops.iter().all(|op| op.status == OpStatus::Done), "{}", what());
        assert!(ops == want_ops, "{}: operations differ", what());
        if let Some(at) = (0..arena.len()).find(|at| arena[*at] != want[*at]) {
            let op = self.ops.iter().position(|op| (op.output as usize + op.input.len as usize) > at);
            panic!("{}: byte {at} differs, message {op:?}", what());
        }
    }
}

fn suites() -> impl Iterator<Item = (Suite, Direction)> {
    let ciphers = [BlockCipher::Des, BlockCipher::TripleDes];
    let all = ciphers.into_iter().flat_map(|cipher| [Mode::Ecb, Mode::Cbc].map(|mode| Suite::Cipher(cipher, mode)));
    all.flat_map(|suite| [Direction::Encrypt, Direction::Decrypt].map(|direction| (suite, direction)))
}

fn each_kernel(check: impl Fn(&Lanes, &str, &mut Random)) {
    for kernel in kernels().into_iter().filter(|kernel| kernel.family == "des" && kernel.capable) {
        let engine = Lanes::with_kernels(&[&format!("des={}", kernel.name)]).expect("this processor can");
        check(&engine, kernel.name, &mut Random(0x9e37_79b9_7f4a_7c15));
    }
}

#[test]
fn batches_of_all_sizes_agree_with_the_reference() {
    each_kernel(|engine, kernel, numbers| {
        for (suite, direction) in suites() {
            for ops in [1usize, 2, 3, 4, 5, 7, 8, 9, 31, 63, 64, 65, 255, 257, 511, 512, 513, 1025, 5000] {
                let blocks = (0..ops).map(|_| numbers.below(11)).collect();
                Case::new(numbers, suite, direction, blocks, ops.div_ceil(2)).check(engine, kernel);
            }
        }
    });
}

#[test]
fn long_messages_among_short_ones_agree_with_the_reference() {
    each_kernel(|engine, kernel, numbers| {
        for (suite, direction) in suites() {
            for (ops, long, most) in
                [(1, 1, 3000), (3, 1, 700), (40, 2, 300), (600, 3, 900), (520, 520, 30), (30, 30, 64)]
            {
                let blocks = (0..ops).map(|n| numbers.below(if n < long { most } else { 9 })).collect();
                Case::new(numbers, suite, direction, blocks, 5).check(engine, kernel);
            }
        }
    });
}

#[test]
fn one_key_for_all_agrees_with_the_reference() {
    each_kernel(|engine, kernel, numbers| {
        for (suite, direction) in suites() {
            for blocks in [vec![2048], vec![64; 9], vec![5; 700], vec![20_000]] {
                Case::new(numbers, suite, direction, blocks, 1).check(engine, kernel);
            }
        }
    });
}
