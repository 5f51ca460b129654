//! Batches with hostile lengths and offsets: each is refused with the operation and the rule, or keeps every promise
//! that `CheckedBatch` makes. Never a panic, and nothing written where nothing may be.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod oracle;

use ciphermill_contract::limits::{BATCH_OPS_MAX, INPUT_LEN_MAX};
use ciphermill_contract::{Batch, Direction, Error, KeyId, Misuse, Op, OpStatus, Reason, Span, Suite};
use oracle::keeps_promises;
use proptest::prelude::*;

const KEY: KeyId = KeyId { slot: 3, generation: 1 };
const ARENA: usize = 512;

fn suites() -> Vec<Suite> {
    Suite::all().collect()
}

/// Offsets and lengths around everything that matters.
fn hostile() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0u32..ARENA as u32 + 40,
        2 => (0u32..40).prop_map(|n| n * 16),
        1 => Just(u32::MAX),
        1 => Just(u32::MAX - 15),
        1 => Just(1 << 31),
        1 => Just(INPUT_LEN_MAX as u32),
    ]
}

prop_compose! {
    fn hostile_op()(
        generation in 0u32..2,
        offset in hostile(),
        len in hostile(),
        output in hostile(),
        in_place in any::<bool>(),
        tag in hostile(),
        tag_len in prop_oneof![Just(0u16), Just(16), Just(20), Just(32), any::<u16>()],
        aad in hostile(),
        aad_len in prop_oneof![Just(0u16), Just(11), Just(12), any::<u16>()],
        iv_len in prop_oneof![Just(0u8), Just(4), Just(8), Just(12), Just(16), any::<u8>()],
        status in prop_oneof![9 => Just(OpStatus::Pending), 1 => Just(OpStatus::Done)],
        reserved in prop_oneof![9 => Just(0u8), 1 => any::<u8>()],
        output_len in hostile(),
    ) -> Op {
        Op {
            key: KeyId { slot: 1, generation },
            iv: [9; 16],
            input: Span::new(offset, len),
            output: if in_place { offset } else { output },
            tag,
            aad: ciphermill_contract::Aad::new(aad, aad_len),
            status,
            cookie: 77,
            output_len,
            tag_len,
            iv_len,
            reserved,
        }
    }
}

/// Suites whose batches go through the check's shortcut, and others in place: with longer outputs, with none, without keys.
const NEARLY_USUAL: [&str; 10] = [
    "aes-128-siv",
    "aes-128-cbc",
    "aes-128-gcm",
    "aes-128-ctr",
    "chacha20-poly1305",
    "xchacha20-poly1305",
    "hmac-sha256",
    "sha256",
    "hmac-sha1+aes-128-cbc",
    "rsa-1024-encrypt-pkcs1",
];

/// An operation behind what ends `at`: its blocks, gaps before it and before its tag, and how far back, whether its
/// additional data are its own, what is amiss, and where, of what is told.
fn nearly_usual(
    suite: Suite,
    direction: Direction,
    at: &mut u32,
    told: (u32, u32, u32, u32, u32, u32, u32),
    aad: (u32, u16),
) -> Op {
    let (blocks, gap, tag_gap, back, own_aad, amiss, where_to) = told;
    let tag_len = suite.default_tag_len() as u16;
    let len = blocks * 16;
    let start = (*at + gap).saturating_sub(if amiss == 0 { back } else { 0 });
    // Before the data, as synthetic IVs stand, or behind.
    let is_before = back % 2 == 1;
    let offset = if is_before { start + u32::from(tag_len) + tag_gap } else { start };
    let output_len = suite.output_len(direction, len as usize, 0) as u32;
    let end = offset + if where_to % 2 == 0 { len } else { len.max(output_len) };
    let tag = match (amiss, is_before) {
        (1, _) => where_to * 8,
        (_, true) => start,
        (_, false) => end + tag_gap,
    };
    let key = if suite.needs_key() == (amiss != 6) { KEY } else { KeyId::NONE };
    let mut op = Op::in_place(key, Span::new(offset, len)).with_iv(&[1; 24][..suite.default_iv_len()]);
    if tag_len > 0 {
        op = op.with_tag(tag, if amiss == 2 { 5 } else { tag_len });
    }
    let aad_lens = suite.aad_len();
    if aad_lens.max > 0 {
        let bounded = |len: u16| len.max(aad_lens.min as u16) + op.iv_rest_len() as u16;
        op = if own_aad == 0 { op.with_aad(where_to * 8, bounded(4)) } else { op.with_aad(aad.0, bounded(aad.1)) };
    }
    match amiss {
        3 => op.output = offset.saturating_sub(back),
        4 => op.iv_len ^= 1,
        5 => op.reserved = 1,
        7 => op.status = OpStatus::Done,
        _ => {}
    }
    *at = if is_before { end } else { end + tag_gap + u32::from(tag_len) };
    op
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_is_refused_by_a_rule_or_keeps_every_promise(
        which in 0usize..4096,
        decrypt in any::<bool>(),
        ops in prop::collection::vec(hostile_op(), 0..4),
    ) {
        let all = suites();
        let suite = all[which % all.len()];
        let direction = if decrypt { Direction::Decrypt } else { Direction::Encrypt };
        let mut checked_ops = ops.clone();
        let mut arena = vec![0xa5u8; ARENA];
        let result = Batch::new(suite, direction, &mut checked_ops, &mut arena).check().map(|_| ());
        let right = suite.has_direction(direction) && keeps_promises(suite, direction, &ops, ARENA);
        match result {
            Ok(()) => prop_assert!(right),
            Err(Error::Misuse(misuse)) => {
                prop_assert!(!right);
                prop_assert!((misuse.op as usize) < ops.len());
            }
            Err(Error::Refused(_)) => prop_assert!(!suite.has_direction(direction)),
            Err(other) => prop_assert!(false, "{other}"),
        }
        prop_assert_eq!(&checked_ops, &ops);
        prop_assert!(arena.iter().all(|byte| *byte == 0xa5));
    }

    /// Operations nearly as batches usually have them, in place and in order, with now and then something amiss: the
    /// check has a shortcut for these, which must judge as the rules do, and name the operation and the rule that they
    /// name of it alone.
    #[test]
    fn nearly_usual_batches_are_judged_alike(
        which in 0..NEARLY_USUAL.len(),
        decrypt in any::<bool>(),
        ops in prop::collection::vec((0u32..5, 0u32..3, 0u32..3, 0u32..24, 0u32..4, 0u32..48, 0u32..40), 1..7),
        aad in (0u32..300, 0u16..9),
    ) {
        let suite: Suite = NEARLY_USUAL[which].parse().expect("a suite");
        let direction = if decrypt && suite.has_direction(Direction::Decrypt) { Direction::Decrypt } else { Direction::Encrypt };
        let mut at = 20u32;
        let ops: Vec<Op> = ops.into_iter().map(|told| nearly_usual(suite, direction, &mut at, told, aad)).collect();
        let mut arena = vec![0u8; ARENA];
        let mut checked_ops = ops.clone();
        let result = Batch::new(suite, direction, &mut checked_ops, &mut arena).check().map(|_| ());
        let alone = |op: &Op| Batch::new(suite, direction, &mut [*op], &mut [0; ARENA]).check().err();
        match ops.iter().enumerate().find_map(|(index, op)| Some((index, alone(op)?))) {
            Some((index, Error::Misuse(Misuse { reason, .. }))) => prop_assert_eq!(result, Err(Error::misuse(index, reason))),
            Some((_, other)) => prop_assert!(false, "{other}"),
            None if keeps_promises(suite, direction, &ops, ARENA) => prop_assert_eq!(result, Ok(())),
            None => {
                let overlap = matches!(result, Err(Error::Misuse(Misuse { reason: Reason::OpsOverlap, .. })));
                prop_assert!(overlap, "{:?}", result);
            }
        }
    }

    /// Neat operations, one after another, so that most batches pass; `work` fills everything that it is given.
    #[test]
    fn work_reaches_output_and_tag_and_nothing_else(
        which in 0usize..4096,
        lens in prop::collection::vec(0usize..6, 1..6),
        in_place in any::<bool>(),
        fails in any::<bool>(),
    ) {
        let all = suites();
        let suite = all[which % all.len()];
        let direction = Direction::Encrypt;
        let mut arena = vec![0xa5u8; 64 * 1024];
        let mut ops = Vec::new();
        let mut at = 17usize;
        for len in lens {
            let rule = suite.input_len(direction);
            let len = (rule.min + len * rule.step).min(rule.max);
            let out = suite.output_len(direction, len, 24);
            let tag = suite.default_tag_len();
            let input = at;
            let output = if in_place && suite.transforms() { input } else { input + len };
            let end = (input + len).max(output + out);
            let key = if suite.needs_key() { KEY } else { KeyId::NONE };
            ops.push(Op {
                output_len: 24,
                ..Op::in_place(key, Span::new(input as u32, len as u32))
                    .with_output(output as u32)
                    .with_iv(&[1; 24][..suite.default_iv_len()])
                    .with_tag(end as u32, tag as u16)
                    .with_aad(0, (suite.aad_len().min + suite.default_iv_len().saturating_sub(16)) as u16)
            });
            at = end + tag;
        }
        let before = ops.clone();
        let mut batch = Batch::new(suite, direction, &mut ops, &mut arena).check().expect("neat operations pass");
        let outcome = if fails { OpStatus::AuthFailed } else { OpStatus::Done };
        batch.process(|buffers| {
            buffers.data.fill(0x11);
            buffers.tag.fill(0x22);
            outcome
        });
        let mut expected = vec![0xa5u8; arena.len()];
        for op in &before {
            let out = suite.output_len(direction, op.input.len as usize, 24);
            let output = op.output as usize..op.output as usize + out;
            expected[output].fill(if fails { 0 } else { 0x11 });
            expected[op.tag_span().range()].fill(0x22);
        }
        prop_assert_eq!(arena, expected);
        prop_assert!(ops.iter().all(|op| op.status == outcome && op.cookie == 0));
    }
}

fn one(name: &str, direction: Direction, op: Op) -> Error {
    let suite: Suite = name.parse().expect("a suite");
    Batch::new(suite, direction, &mut [op], &mut [0; 256]).check().expect_err("breaks a rule")
}

#[test]
fn each_rule_is_named() {
    let good = Op::in_place(KEY, Span::new(0, 32)).with_iv(&[0; 12]).with_tag(32, 16);
    let last = Op { input: Span::new(224, 32), output: 224, ..good };
    let cases = [
        (Op { status: OpStatus::Done, ..good }, Reason::NotPending),
        (Op { reserved: 1, ..good }, Reason::NotPending),
        (Op { key: KeyId::NONE, ..good }, Reason::KeyMissing),
        (good.with_iv(&[0; 16]), Reason::IvLength),
        (good.with_tag(32, 5), Reason::TagLength),
        (Op { input: Span::new(240, 32), output: 240, ..good.with_tag(0, 16) }, Reason::InputPastEnd),
        (good.with_output(240), Reason::OutputPastEnd),
        (good.with_tag(250, 16), Reason::TagPastEnd),
        (good.with_aad(250, 16), Reason::AadPastEnd),
        (good.with_output(16).with_tag(64, 16), Reason::PartialOverlap),
        (good.with_tag(31, 16), Reason::TagOverlap),
        (good.with_aad(31, 1), Reason::AadOverlap),
        (Op { input: Span::new(u32::MAX, u32::MAX), ..good }, Reason::InputTooLong),
        // What ends with the arena is not past it: the rule is another.
        (last.with_tag(241, 16), Reason::TagPastEnd),
        (good.with_tag(240, 16).with_aad(241, 16), Reason::AadPastEnd),
        (last.with_tag(240, 16), Reason::TagOverlap),
        (good.with_aad(240, 16).with_tag(16, 16), Reason::TagOverlap),
        // The tag overlaps one other span alone.
        (good.with_output(64).with_tag(80, 16), Reason::TagOverlap),
        (good.with_output(64).with_tag(16, 16), Reason::TagOverlap),
        (good.with_aad(128, 16).with_tag(128, 16), Reason::TagOverlap),
    ];
    for (op, reason) in cases {
        assert_eq!(one("aes-128-gcm", Direction::Encrypt, op), Error::misuse(0, reason), "{op:?}");
    }
}

#[test]
fn the_rule_depends_on_suite_and_direction() {
    let (forth, back) = (Direction::Encrypt, Direction::Decrypt);
    let op = |key, len: u32, tag_len| Op::in_place(key, Span::new(0, len)).with_output(64).with_tag(128, tag_len);
    let cases = [
        ("sha256", forth, op(KEY, 16, 32), Reason::KeyUnexpected),
        ("ml-kem-512", forth, op(KEY, 1, 0), Reason::InputUnexpected),
        ("random", forth, op(KeyId::NONE, 1, 0), Reason::InputUnexpected),
        ("x25519", forth, op(KEY, 31, 0), Reason::InputTooShort),
        ("x25519", forth, op(KEY, 33, 0), Reason::InputTooLong),
        ("aes-128-ecb", forth, op(KEY, 17, 0), Reason::NotBlockMultiple),
        ("ff1-aes-128", forth, op(KEY, 13, 0), Reason::NotBlockMultiple),
        // Room for a signature may be larger, one that is verified has its length.
        ("ed25519", forth, op(KEY, 16, 63), Reason::TagLength),
        ("ed25519", back, op(KEY, 16, 65), Reason::TagLength),
        ("rsa-1024-encrypt-pkcs1", forth, op(KEY, 118, 0), Reason::InputTooLong),
        ("rsa-1024-encrypt-pkcs1", back, op(KEY, 117, 0), Reason::InputTooShort),
    ];
    for (name, direction, op, reason) in cases {
        assert_eq!(one(name, direction, op), Error::misuse(0, reason), "{name} {direction}");
    }
}

#[test]
fn limits_have_names_and_values() {
    let suite: Suite = "sha256".parse().expect("a suite");
    let mut ops = vec![Op::default(); BATCH_OPS_MAX + 1];
    let error = Batch::new(suite, Direction::Encrypt, &mut ops, &mut []).check().expect_err("too many");
    assert_eq!(error.to_string(), "BATCH_OPS_MAX is 1048576, asked for 1048577");
}
