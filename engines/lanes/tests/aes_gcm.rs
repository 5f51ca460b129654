//! AES-GCM, GMAC and AES-GCM-SIV against the reference: batches of 1 to 5,000 operations of every length, each with a
//! key of its own among many, additional data of every length, in place and out of place, some with damaged tags.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::{Batch, Direction, Engine, KeyId, KeyMaterial, Op, PreparedKey, QueueHint, Span, Suite};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;
use common::Random;

const SUITES: [&str; 8] = [
    "aes-128-gcm",
    "aes-192-gcm",
    "aes-256-gcm",
    "aes-128-gmac",
    "aes-192-gmac",
    "aes-256-gmac",
    "aes-128-gcm-siv",
    "aes-256-gcm-siv",
];

/// Operations of a batch, and the most bytes of data and of additional data of each.
const BATCHES: [(usize, usize, usize); 9] = [
    (1, 64, 20),
    (1, 66_000, 300),
    (3, 600, 300),
    (5, 70, 16),
    (17, 300, 40),
    (40, 1_200, 300),
    (64, 9_000, 20),
    (700, 2_000, 300),
    (5_000, 80, 40),
];

/// A batch with the keys that its operations use.
struct Case {
    suite: Suite,
    ops: Vec<Op>,
    arena: Vec<u8>,
    keys: Vec<Vec<u8>>,
    key_of: Vec<usize>,
}

impl Case {
    fn new(suite: Suite, (count, len_max, aad_max): (usize, usize, usize), random: &mut Random) -> Case {
        let is_mac = matches!(suite, Suite::Mac(_));
        let tags = suite.tag_len(Direction::Encrypt);
        let mut at = 0;
        let mut take = |len: usize, random: &mut Random| {
            // Places touch each other or lie apart by some bytes.
            let place = at + random.up_to(3);
            at = place + len;
            place as u32
        };
        let mut ops = Vec::new();
        for _ in 0..count {
            let len = random.up_to(len_max);
            let aad_len = random.up_to(aad_max);
            let aad = take(aad_len, random);
            let input = take(len, random);
            let output = if is_mac || random.up_to(1) == 0 { input } else { take(len, random) };
            let tag_len = tags.round_up(tags.min + tags.step * random.up_to((tags.max - tags.min) / tags.step));
            let tag = take(tag_len, random);
            let key = KeyId { slot: 1, generation: 1 };
            let mut op = Op::in_place(key, Span::new(input, len as u32)).with_iv(&random.bytes(12));
            op = op.with_tag(tag, tag_len as u16);
            op = if is_mac { op.with_output(0) } else { op.with_output(output).with_aad(aad, aad_len as u16) };
            ops.push(op);
        }
        let arena = random.bytes(at + 1);
        let keys: Vec<Vec<u8>> = (0..count.min(100)).map(|_| random.bytes(suite.default_key_len())).collect();
        let key_of = (0..count).map(|_| random.up_to(keys.len() - 1)).collect();
        Case { suite, ops, arena, keys, key_of }
    }

    /// Runs the batch and returns what became of operations and arena.
    fn run(&self, engine: &dyn Engine, direction: Direction) -> (Vec<Op>, Vec<u8>) {
        let prepare = |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), self.suite).expect("a good key");
        let prepared: Vec<PreparedKey> = self.keys.iter().map(prepare).collect();
        let keys: Vec<Option<&PreparedKey>> = self.key_of.iter().map(|key| Some(&prepared[*key])).collect();
        let (mut ops, mut arena) = (self.ops.clone(), self.arena.clone());
        let mut checked = Batch::new(self.suite, direction, &mut ops, &mut arena).check().expect("a good batch");
        let mut checked = checked.attach_keys(&keys).expect("a key for each");
        engine.queue(QueueHint::default()).expect("a queue").run(&mut checked);
        (ops, arena)
    }

    /// The opposite batch: outputs become inputs, and every eighth operation's tag, data or additional data are damaged.
    fn opposite(&self, arena: Vec<u8>, random: &mut Random) -> Case {
        let mut ops = self.ops.clone();
        let mut arena = arena;
        for op in &mut ops {
            if !matches!(self.suite, Suite::Mac(_)) {
                (op.input.offset, op.output) = (op.output, op.input.offset);
            }
            if random.up_to(7) == 0 {
                let places = [op.tag_span(), op.input, op.aad.span()];
                let place = places[random.up_to(2)];
                if place.len != 0 {
                    arena[place.offset as usize + random.up_to(place.len as usize - 1)] ^= 1 << random.up_to(7);
                }
            }
        }
        Case { suite: self.suite, ops, arena, keys: self.keys.clone(), key_of: self.key_of.clone() }
    }
}

fn compare(case: &Case, lanes: &Lanes, kernel: &str, direction: Direction) -> (usize, Vec<u8>) {
    let (expected_ops, expected) = case.run(&Reference::new(), direction);
    let (ops, arena) = case.run(lanes, direction);
    for (index, (own, other)) in ops.iter().zip(&expected_ops).enumerate() {
        assert_eq!(own, other, "{} {kernel} {direction:?}, operation {index} of {}", case.suite, ops.len());
        let place = Span::new(own.output, own.output_len).range();
        assert_eq!(arena[place.clone()], expected[place], "{} {kernel} {direction:?}, output {index}", case.suite);
    }
    // Tags, and every byte that is nobody's.
    assert!(arena == expected, "{} {kernel} {direction:?}: arenas differ", case.suite);
    (ops.iter().filter(|op| op.status.is_done()).count(), arena)
}

#[test]
fn batches_of_every_size_agree_with_the_reference() {
    for kernel in kernels().into_iter().filter(|kernel| kernel.family == "aes" && kernel.capable) {
        let lanes = Lanes::with_kernels(&[&format!("aes={}", kernel.name)]).expect("this processor can");
        let mut random = Random(0x6c61_6e65_735f_6763);
        for suite in SUITES {
            let suite: Suite = suite.parse().expect("a suite");
            for shape in BATCHES {
                let case = Case::new(suite, shape, &mut random);
                let (done, arena) = compare(&case, &lanes, kernel.name, Direction::Encrypt);
                assert_eq!(done, case.ops.len());
                let opposite = case.opposite(arena, &mut random);
                let (done, _) = compare(&opposite, &lanes, kernel.name, Direction::Decrypt);
                // Some were damaged, but not all.
                assert!(shape.0 < 100 || done * 2 > shape.0 && done < shape.0);
            }
        }
    }
}

/// Every length around the limits of forms, runs and chunks.
#[test]
fn every_length_agrees_with_the_reference() {
    for kernel in kernels().into_iter().filter(|kernel| kernel.family == "aes" && kernel.capable) {
        let lanes = Lanes::with_kernels(&[&format!("aes={}", kernel.name)]).expect("this processor can");
        let mut random = Random(0x6c65_6e67_7468_7321);
        for suite in ["aes-128-gcm", "aes-256-gmac", "aes-256-gcm-siv"] {
            let suite: Suite = suite.parse().expect("a suite");
            let mut case = Case::new(suite, (1_200, 0, 20), &mut random);
            let mut at = case.arena.len() as u32;
            for (len, op) in case.ops.iter_mut().enumerate() {
                op.input = Span::new(at, len as u32);
                op.output = if matches!(suite, Suite::Mac(_)) { 0 } else { at };
                at += len as u32;
            }
            case.arena.extend(random.bytes(at as usize - case.arena.len()));
            let (_, arena) = compare(&case, &lanes, kernel.name, Direction::Encrypt);
            case.arena = arena;
            compare(&case, &lanes, kernel.name, Direction::Decrypt);
        }
    }
}
