//! Batches with hostile lengths and offsets: each is refused with the operation and the rule, or keeps every promise
//! that `CheckedBatch` makes. Never a panic, and nothing written where nothing may be.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod oracle;

use ciphermill_contract::limits::{BATCH_OPS_MAX, INPUT_LEN_MAX};
use ciphermill_contract::{Batch, Direction, Error, KeyId, Op, OpStatus, Reason, Span, Suite};
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
    /// check has a shortcut for these, which must not let anything pass.
    #[test]
    fn nearly_usual_batches_are_judged_alike(
        which in 0usize..4,
        ops in prop::collection::vec((0u32..5, 0u32..3, 0u32..3, 0u32..24, 0u32..4, 0u32..40, 0u32..40), 1..7),
        aad in (0u32..300, 0u16..9),
    ) {
        let suite: Suite = ["aes-128-cbc", "aes-128-gcm", "aes-128-ctr", "chacha20-poly1305"][which].parse().expect("a suite");
        let tag_len = suite.default_tag_len() as u16;
        let takes_aad = suite.aad_len().max > 0;
        let mut at = 20u32;
        let ops: Vec<Op> = ops
            .into_iter()
            .map(|(blocks, gap, tag_gap, back, own_aad, amiss, where_to)| {
                let len = blocks * 16;
                let offset = (at + gap).saturating_sub(if amiss == 0 { back } else { 0 });
                let tag = if amiss == 1 { where_to * 8 } else { offset + len + tag_gap };
                let mut op = Op::in_place(KEY, Span::new(offset, len)).with_iv(&[1; 16][..suite.default_iv_len()]);
                if tag_len > 0 {
                    op = op.with_tag(tag, if amiss == 2 { 5 } else { tag_len });
                }
                if takes_aad {
                    op = if own_aad == 0 { op.with_aad(where_to * 8, 4) } else { op.with_aad(aad.0, aad.1) };
                }
                if amiss == 3 {
                    op.output = offset.saturating_sub(back);
                }
                if amiss == 4 {
                    op.iv_len ^= 1;
                }
                at = offset + len + tag_gap + u32::from(tag_len);
                op
            })
            .collect();
        let mut checked_ops = ops.clone();
        let mut arena = vec![0u8; ARENA];
        let direction = Direction::Encrypt;
        let result = Batch::new(suite, direction, &mut checked_ops, &mut arena).check().map(|_| ());
        prop_assert_eq!(result.is_ok(), keeps_promises(suite, direction, &ops, ARENA), "{:?}", result);
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
                    .with_iv(&[1; 16][..suite.default_iv_len()])
                    .with_tag(end as u32, tag as u16)
                    .with_aad(0, suite.aad_len().min as u16)
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

fn one(op: Op) -> Error {
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    Batch::new(suite, Direction::Encrypt, &mut [op], &mut [0; 256]).check().expect_err("breaks a rule")
}

#[test]
fn each_rule_is_named() {
    let good = Op::in_place(KEY, Span::new(0, 32)).with_iv(&[0; 12]).with_tag(32, 16);
    let cases = [
        (Op { status: OpStatus::Done, ..good }, Reason::NotPending),
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
    ];
    for (op, reason) in cases {
        assert_eq!(one(op), Error::misuse(0, reason));
    }
}

#[test]
fn limits_have_names_and_values() {
    let suite: Suite = "sha256".parse().expect("a suite");
    let mut ops = vec![Op::default(); BATCH_OPS_MAX + 1];
    let error = Batch::new(suite, Direction::Encrypt, &mut ops, &mut []).check().expect_err("too many");
    assert_eq!(error.to_string(), "BATCH_OPS_MAX is 1048576, asked for 1048577");
}
