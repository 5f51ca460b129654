//! CMAC, SIV and CCM in batches of all sizes against the reference: random lengths, many keys, additional data of its
//! own or shared, nonces, in place and apart, and damaged tags among good ones.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::{Aead, AesSize, Mac};
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;
use common::Random;

/// How a batch looks.
#[derive(Clone, Copy)]
struct Shape {
    ops: usize,
    keys: usize,
    /// Longest input; `level` makes all of them that long.
    len: usize,
    level: bool,
    /// Additional data: none, all at one place, or drawn from a few places and places of their own.
    aad: Shared,
}

#[derive(Clone, Copy)]
enum Shared {
    Nothing,
    OnePlace,
    ManyPlaces,
}

/// A batch's operations, arena and which key each has.
struct Case {
    ops: Vec<Op>,
    arena: Vec<u8>,
    key_of: Vec<usize>,
}

fn nonce_len(suite: Suite, random: &mut Random) -> usize {
    match suite {
        Suite::Aead(Aead::AesCcm(_)) => 7 + random.below(7),
        // Many without one.
        Suite::Aead(Aead::AesSiv(_)) => random.below(40).saturating_sub(23),
        _ => 0,
    }
}

fn tag_len(suite: Suite, random: &mut Random) -> usize {
    match suite {
        Suite::Aead(Aead::AesCcm(_)) => 4 + 2 * random.below(7),
        Suite::Mac(_) => 4 + random.below(13),
        _ => 16,
    }
}

fn build(suite: Suite, shape: Shape, random: &mut Random) -> Case {
    let common = [random.bytes(300), random.bytes(17)].concat();
    let mut case = Case { ops: Vec::new(), arena: common, key_of: Vec::new() };
    for _ in 0..shape.ops {
        let len = if shape.level { shape.len } else { random.below(shape.len + 1) };
        let take = |case: &mut Case, random: &mut Random, len: usize| {
            let at = case.arena.len();
            case.arena.extend(random.bytes(len));
            at as u32
        };
        let input = take(&mut case, random, len);
        let mut op = Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(input, len as u32));
        if matches!(suite, Suite::Mac(_)) {
            op.output = 0;
        } else if random.below(2) == 0 {
            op.output = take(&mut case, random, len);
        }
        let tag_len = tag_len(suite, random);
        let tag = take(&mut case, random, tag_len);
        op = op.with_tag(tag, tag_len as u16);
        let nonce_len = nonce_len(suite, random);
        op = op.with_iv(&random.bytes(nonce_len));
        if !matches!(suite, Suite::Mac(_)) {
            op = match (shape.aad, random.below(4)) {
                (Shared::Nothing, _) => op,
                (Shared::OnePlace, _) => op.with_aad(5, 12),
                (Shared::ManyPlaces, 0) => op.with_aad(0, random.below(301) as u16),
                (Shared::ManyPlaces, 1) => {
                    let len = random.below(301);
                    op.with_aad(take(&mut case, random, len), len as u16)
                }
                (Shared::ManyPlaces, which) => op.with_aad(which as u32, 14),
            };
        }
        case.ops.push(op);
        case.key_of.push(random.below(shape.keys));
    }
    case
}

fn run(engine: &dyn Engine, suite: Suite, direction: Direction, keys: &[Vec<u8>], case: &mut Case) {
    let prepare = |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), suite).expect("a key of the right length");
    let prepared: Vec<PreparedKey> = keys.iter().map(prepare).collect();
    let attached: Vec<Option<&PreparedKey>> = case.key_of.iter().map(|key| Some(&prepared[*key])).collect();
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    for op in &mut case.ops {
        op.status = OpStatus::Pending;
    }
    let mut batch = Batch::new(suite, direction, &mut case.ops, &mut case.arena).check().expect("a right batch");
    queue.run(&mut batch.attach_keys(&attached).expect("a key for each"));
}

/// Both ways with both engines: the same arenas, outcomes and lengths after each.
fn compare(lanes: &Lanes, reference: &Reference, suite: Suite, shape: Shape, random: &mut Random) {
    let keys: Vec<Vec<u8>> = (0..shape.keys).map(|_| random.bytes(suite.key_len().max)).collect();
    let mut case = build(suite, shape, random);
    let before = case.arena.clone();
    let mut expected = Case { ops: case.ops.clone(), arena: case.arena.clone(), key_of: case.key_of.clone() };
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        run(lanes, suite, direction, &keys, &mut case);
        run(reference, suite, direction, &keys, &mut expected);
        assert!(case.ops == expected.ops, "{suite}, {direction:?}: outcomes differ");
        assert!(case.arena == expected.arena, "{suite}, {direction:?}: outputs differ");
        if direction == Direction::Encrypt {
            assert!(case.ops.iter().all(|op| op.status.is_done()));
            turn_around(&mut case, &mut expected, random);
        }
    }
    let bad = case.ops.iter().filter(|op| op.status == OpStatus::AuthFailed).count();
    assert!(bad < shape.ops || shape.ops < 8);
    for op in case.ops.iter().filter(|op| op.status.is_done() && !matches!(suite, Suite::Mac(_))) {
        assert_eq!(case.arena[op.output as usize..][..op.input.len as usize], before[place_before(op)]);
    }
    for op in case.ops.iter().filter(|op| op.status == OpStatus::AuthFailed && !matches!(suite, Suite::Mac(_))) {
        assert!(case.arena[op.output as usize..][..op.input.len as usize].iter().all(|byte| *byte == 0));
    }
}

/// Where an operation that has been turned around had its plaintext.
fn place_before(op: &Op) -> core::ops::Range<usize> {
    op.output as usize..(op.output + op.input.len) as usize
}

/// Makes decryptions of encryptions, back to where the input was, and damages some.
fn turn_around(case: &mut Case, expected: &mut Case, random: &mut Random) {
    for (i, op) in case.ops.iter_mut().enumerate() {
        if op.output_len != 0 {
            (op.input.offset, op.output) = (op.output, op.input.offset);
        }
        op.output_len = 0;
        let at = op.tag as usize + random.below(usize::from(op.tag_len));
        let damage = if random.below(5) == 0 { 1 << random.below(8) } else { 0 };
        case.arena[at] ^= damage;
        expected.arena[at] ^= damage;
        expected.ops[i] = *op;
    }
}

fn check(suites: &[Suite]) {
    let reference = Reference::new();
    let mut random = Random(0x5eed_1a9e_0000_0001);
    for kernel in kernels().into_iter().filter(|kernel| kernel.family == "aes" && kernel.capable) {
        let lanes = Lanes::with_kernels(&[&format!("aes={}", kernel.name)]).expect("this processor can");
        for suite in suites {
            for ops in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33] {
                for (len, level) in [(0, true), (15, false), (40, true), (80, false), (700, false)] {
                    for (keys, aad) in [(1, Shared::OnePlace), (3, Shared::ManyPlaces), (2, Shared::Nothing)] {
                        compare(&lanes, &reference, *suite, Shape { ops, keys, len, level, aad }, &mut random);
                    }
                }
            }
            let large = [
                Shape { ops: 5000, keys: 1, len: 40, level: true, aad: Shared::OnePlace },
                Shape { ops: 3000, keys: 64, len: 80, level: false, aad: Shared::OnePlace },
                Shape { ops: 2500, keys: 900, len: 60, level: false, aad: Shared::ManyPlaces },
                Shape { ops: 400, keys: 5, len: 2000, level: false, aad: Shared::ManyPlaces },
                Shape { ops: 20, keys: 2, len: 70_000, level: false, aad: Shared::ManyPlaces },
            ];
            for shape in large {
                // With the longest nonce a payload's length has two bytes.
                let len = if matches!(suite, Suite::Aead(Aead::AesCcm(_))) { shape.len.min(65_535) } else { shape.len };
                compare(&lanes, &reference, *suite, Shape { len, ..shape }, &mut random);
            }
        }
        println!("ran: {}", kernel.name);
    }
}

#[test]
fn cmac_agrees_with_the_reference() {
    check(&[AesSize::Aes128, AesSize::Aes192, AesSize::Aes256].map(|size| Suite::Mac(Mac::Cmac(size))));
}

#[test]
fn siv_agrees_with_the_reference() {
    check(&[AesSize::Aes128, AesSize::Aes192, AesSize::Aes256].map(|size| Suite::Aead(Aead::AesSiv(size))));
}

#[test]
fn ccm_agrees_with_the_reference() {
    check(&[AesSize::Aes128, AesSize::Aes192, AesSize::Aes256].map(|size| Suite::Aead(Aead::AesCcm(size))));
}
