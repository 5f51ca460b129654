//! The check that all unsafe code rests on, against its plain definition, for every batch of a small world: each offset and
//! length of up to three operations, at the start of the address range and at its end.
//!
//! The plain definition paints bytes: a map says of each byte which operations touch it and which write it.

use super::*;
use crate::key::KeyId;
use crate::op::Aad;

const KEY: KeyId = KeyId { slot: 1, generation: 1 };

/// Bytes that the spans of these tests reach over.
const WORLD: u64 = 32;

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

/// The bytes that an operation touches and those that it writes, a bit a byte, counted from `base`.
#[derive(Clone, Copy)]
struct Painted {
    touched: u64,
    written: u64,
}

impl Painted {
    fn of(op: &Op, rules: &Rules, base: u32) -> Painted {
        let mut painted = Painted { touched: 0, written: 0 };
        let writes_tag = rules.direction == Direction::Encrypt;
        let spans = [(op.input, false), (rules.output(op), true), (op.tag_span(), writes_tag), (op.aad.span(), false)];
        for (span, writes) in spans {
            for byte in 0..u64::from(span.len) {
                let bit = 1 << (u64::from(span.offset) + byte - u64::from(base));
                painted.touched |= bit;
                painted.written |= if writes { bit } else { 0 };
            }
        }
        painted
    }
}

/// Whether operations that are right by themselves stay apart: nobody reads or writes what another writes.
fn apart(ops: &[Painted]) -> bool {
    (0..ops.len()).all(|a| (0..ops.len()).all(|b| a == b || ops[a].written & ops[b].touched == 0))
}

/// Whether an operation keeps the rules that concern it alone, said of bytes.
fn right_alone(op: &Op, rules: &Rules, base: u32) -> bool {
    let output = rules.output(op);
    let bytes = |span: Span| u64::from(span.offset)..u64::from(span.offset) + u64::from(span.len);
    let touch = |a: Span, b: Span| bytes(a).any(|byte| bytes(b).contains(&byte));
    let within = |span: Span| u64::from(span.offset) + u64::from(span.len) <= rules.arena_len;
    let aad = op.aad.span();
    assert!(u64::from(base) <= rules.arena_len);
    [op.input, output, op.tag_span(), aad].into_iter().all(within)
        && (!touch(op.input, output) || op.input.offset == op.output && rules.suite.transforms())
        && ![op.input, output, aad].into_iter().any(|span| touch(op.tag_span(), span))
        && !touch(aad, output)
        && rules.suite.input_len(rules.direction).contains(op.input.len as usize)
        && rules.suite.tag_len(rules.direction).contains(usize::from(op.tag_len))
        && usize::from(op.aad.len)
            .checked_sub(usize::from(op.iv_len).max(16) - 16)
            .is_some_and(|own| rules.suite.aad_len().contains(own))
}

fn op(rules: &Rules, input: Span, output: u32, tag: Span, aad: Span) -> Op {
    Op {
        iv_len: rules.suite.default_iv_len() as u8,
        tag: tag.offset,
        tag_len: tag.len as u16,
        aad: Aad::new(aad.offset, aad.len as u16),
        ..Op::in_place(KEY, input).with_output(output)
    }
}

/// Every operation with these offsets, input lengths, tag and additional data, each moved by `base`.
fn every(rules: &Rules, base: u32, offsets: u32, tags: &[u32], tag_len: u32, aads: &[u32]) -> Vec<Op> {
    let mut ops = Vec::new();
    for offset in 0..offsets {
        for len in 0..=2 {
            for output in 0..offsets {
                for tag in tags {
                    for aad_len in aads {
                        for aad in (0..offsets).filter(|aad| *aad_len != 0 || *aad == 0) {
                            ops.push(op(
                                rules,
                                Span::new(base + offset, len),
                                base + output,
                                Span::new(base + tag, tag_len),
                                Span::new(base + aad, *aad_len),
                            ));
                        }
                    }
                }
            }
        }
    }
    ops
}

fn rules(name: &str, direction: Direction, arena_len: u64) -> Rules {
    Rules { arena_len, ..Rules::new(suite(name), direction, 0) }
}

/// The start of the address range, and its end: operations there reach past 2^32.
const BASES: [u32; 2] = [0, u32::MAX - 9];

#[test]
fn bands_hold_the_lengths_of_every_suite() {
    let mut compared = 0u64;
    for suite in Suite::all() {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            for lengths in [suite.input_len(direction), suite.iv_len(), suite.tag_len(direction), suite.aad_len()] {
                let band = Band::new(lengths);
                let near = |len: usize| len.saturating_sub(70)..=len.saturating_add(70).min(u32::MAX as usize);
                for len in near(0).chain(near(lengths.min)).chain(near(lengths.max)).chain(near(u32::MAX as usize)) {
                    assert_eq!(
                        band.holds(len as u32),
                        lengths.contains(len),
                        "{suite} {direction}: {lengths:?}, {len}"
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 500_000, "{compared}");
}

#[test]
fn disjoint_is_right_for_every_pair_of_spans() {
    let spans = |base: u32| (0..10u32).flat_map(move |at| (0..10u32).map(move |len| Span::new(base + at, len)));
    for base in BASES {
        for a in spans(base) {
            for b in spans(base) {
                let in_both = |byte: u64| {
                    [a, b].iter().all(|span| {
                        byte >= u64::from(span.offset) && byte - u64::from(span.offset) < u64::from(span.len)
                    })
                };
                let shared = (0..WORLD).any(|byte| in_both(u64::from(base) + byte));
                assert_eq!(disjoint(a, b), !shared, "{a:?} {b:?}");
            }
        }
    }
}

#[test]
fn every_single_operation_is_judged_by_the_rules() {
    let mut right = 0;
    for base in BASES {
        for name in ["aes-128-gcm", "hmac-sha256", "aes-128-ctr", "aes-128-cmac"] {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                for end in 8..=12 {
                    let rules = rules(name, direction, u64::from(base) + end);
                    for tag_len in [0, 4] {
                        for op in every(&rules, base, 8, &[0, 1, 2, 3, 4, 5, 6, 7], tag_len, &[0, 1, 3]) {
                            let held = rules.holds(&op, rules.output(&op));
                            assert_eq!(held, right_alone(&op, &rules, base), "{name} {direction}: {op:?}");
                            right += usize::from(held);
                        }
                    }
                }
            }
        }
    }
    assert!(right > 10_000, "{right}");
}

/// The rest of an initialisation vector lies in front of the additional data, or the operation is refused.
#[test]
fn every_operation_with_a_long_iv_is_judged_by_the_rules() {
    let mut right = 0;
    for (name, iv_len) in [("aes-128-gcm-any-iv", 18), ("aes-128-gmac-any-iv", 18), ("aes-128-gmac-any-iv", 16)] {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let rules = rules(name, direction, 12);
            for mut op in every(&rules, 0, 8, &[0, 1, 2, 3, 4, 5, 6, 7], 4, &[0, 1, 2, 3]) {
                op.iv_len = iv_len;
                let held = rules.holds(&op, rules.output(&op));
                assert_eq!(held, right_alone(&op, &rules, 0), "{name} {direction}: {op:?}");
                right += usize::from(held);
            }
        }
    }
    assert!(right > 1000, "{right}");
}

/// Compares `check_ops` with the map for all batches of `count` of these operations.
fn compare(rules: &Rules, base: u32, ops: &[Op], count: usize) -> (usize, usize) {
    let right: Vec<Op> = ops.iter().filter(|op| rules.holds(op, rules.output(op))).copied().collect();
    let painted: Vec<Painted> = right.iter().map(|op| Painted::of(op, rules, base)).collect();
    let (mut passed, mut refused) = (0, 0);
    let mut picks = vec![0usize; count];
    loop {
        let batch: Vec<Op> = picks.iter().map(|pick| right[*pick]).collect();
        let verdict = check_ops(rules.suite, rules.direction, &batch, rules.arena_len as usize);
        let sound = apart(&picks.iter().map(|pick| painted[*pick]).collect::<Vec<_>>());
        assert_eq!(verdict.is_ok(), sound, "{} {}: {verdict:?} {batch:?}", rules.suite, rules.direction);
        if sound {
            passed += 1
        } else {
            refused += 1
        }
        // The next pick, as a counter counts.
        let Some(digit) = picks.iter().rposition(|pick| pick + 1 < right.len()) else { return (passed, refused) };
        picks[digit] += 1;
        picks[digit + 1..].fill(0);
    }
}

#[test]
fn every_pair_with_tags_and_additional_data_is_judged_by_the_map() {
    for base in [0, u32::MAX - 14] {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let rules = rules("aes-128-gcm", direction, u64::from(base) + 13);
            let (passed, refused) = compare(&rules, base, &every(&rules, base, 5, &[1, 5, 9], 4, &[0, 1]), 2);
            assert!(passed > 1_000 && refused > 1_000, "{passed} {refused}");
        }
    }
}

#[test]
fn every_triple_is_judged_by_the_map() {
    for base in [0, u32::MAX - 8] {
        let rules = rules("aes-128-ctr", Direction::Encrypt, u64::from(base) + 8);
        let (passed, refused) = compare(&rules, base, &every(&rules, base, 4, &[0], 0, &[0]), 3);
        assert!(passed > 1_000 && refused > 1_000, "{passed} {refused}");
    }
}

/// Operations as batches usually have them, which a shortcut looks at: in place, the tag behind or somewhere else.
#[test]
fn every_triple_of_usual_operations_is_judged_by_the_map() {
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let rules = rules("aes-128-gcm", direction, 19);
        let mut ops = Vec::new();
        for offset in [0u32, 1, 5, 6, 7, 10, 12] {
            for len in 0..=2 {
                for tag in [offset + len, offset + len + 1, 15] {
                    let own = Span::new(offset.saturating_sub(1), 1);
                    for aad in [Span::default(), Span::new(0, 1), own, Span::new(14, 1)] {
                        ops.push(op(&rules, Span::new(offset, len), offset, Span::new(tag, 4), aad));
                    }
                }
            }
        }
        let (passed, refused) = compare(&rules, 0, &ops, 3);
        assert!(passed > 1_000 && refused > 1_000, "{passed} {refused}");
    }
}

/// The other forms that the shortcut knows: tags before the data, additional data before all or shared, tweaks without a tag,
/// digests without a key (pairs: three do not fit the map); at the start of the address range and at its end.
#[test]
fn every_triple_of_the_other_usual_forms_is_judged_by_the_map() {
    for (name, tag_len, len, count) in
        [("aes-128-gcm", 4, 1, 3), ("ff1-aes-128-radix-65536", 0, 4, 3), ("md5", 16, 1, 2), ("hmac-sha256", 4, 1, 3)]
    {
        for base in [0, u32::MAX - 63] {
            let rules = rules(name, Direction::Encrypt, u64::from(base) + 60);
            let mut ops = Vec::new();
            for offset in [6u32, 7, 11, 12, 16, 17, 22, 40, 43, 59] {
                for tag in [offset.saturating_sub(tag_len), offset.saturating_sub(tag_len + 1), offset + len] {
                    for aad in [Span::default(), Span::new(0, 1), Span::new(offset - 1, 1), Span::new(offset - 5, 1)] {
                        let spans = (Span::new(base + offset, len), Span::new(base + tag, tag_len));
                        let op = op(&rules, spans.0, base + offset, spans.1, Span::new(base + aad.offset, aad.len));
                        ops.push(Op { key: if rules.needs_key { KEY } else { KeyId::NONE }, ..op });
                    }
                }
            }
            let (passed, refused) = compare(&rules, base, &ops, count);
            assert!(passed > 10 && refused > 100, "{name}: {passed} {refused}");
        }
    }
}

/// A batch as large as there may be, of which the last operation is wrong, is not gone through again for each operation.
#[test]
fn what_is_wrong_at_the_end_is_found_in_one_pass() {
    let rules = rules("hmac-sha256", Direction::Encrypt, 12 << 20);
    let at = |n: u32| op(&rules, Span::new(12 * n, 8), 0, Span::new(12 * n + 8, 4), Span::default());
    let mut ops: Vec<Op> = (0..1 << 20).map(at).collect();
    ops[(1 << 20) - 1].tag += 1;
    let run = rules.run_like(&ops[0], &ops[1..]);
    assert_eq!(run.count, (1 << 20) - 2, "the run ends before what is wrong");
    let verdict = check_ops(rules.suite, rules.direction, &ops, rules.arena_len as usize);
    assert_eq!(verdict, Err(Error::misuse((1 << 20) - 1, Reason::TagPastEnd)));
}

/// The same of operations that write nothing but a tag, wherever they say that their output is.
#[test]
fn every_triple_of_tags_alone_is_judged_by_the_map() {
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let rules = rules("hmac-sha256", direction, 19);
        let mut ops = Vec::new();
        for offset in [0u32, 1, 4, 5, 6, 10, 12] {
            for len in 0..=2 {
                for tag in [offset + len, offset + len + 1, offset.saturating_sub(4), 15] {
                    for output in [0, offset, 19, 20] {
                        ops.push(op(&rules, Span::new(offset, len), output, Span::new(tag, 4), Span::default()));
                    }
                }
            }
        }
        let (passed, refused) = compare(&rules, 0, &ops, 3);
        // Tags that are verified are only read.
        let conflicts = direction == Direction::Encrypt;
        assert!(passed > 1_000 && (refused > 1_000) == conflicts, "{passed} {refused}");
    }
}

/// An operation that keeps the rules, and any other behind it, with places of empty tags and additional data within the arena
/// and beyond it: the shortcut for usual batches must refuse what the long way refuses.
#[test]
fn every_operation_behind_a_usual_one_is_judged_by_the_rules() {
    for (name, tag_lens) in [("aes-128-ctr", [0, 4]), ("aes-128-gcm", [4, 0]), ("hmac-sha256", [4, 0])] {
        let rules = rules(name, Direction::Encrypt, 14);
        let mut ops = Vec::new();
        for tag_len in tag_lens {
            for (offset, len, output) in
                [(0, 1, 0), (1, 2, 1), (6, 2, 6), (6, 1, 7), (7, 8, 7), (14, 0, 14), (15, 0, 15)]
            {
                for tag in [0, offset + len, 9, 13, 15, u32::MAX] {
                    for aad in [Span::default(), Span::new(0, 1), Span::new(15, 0), Span::new(u32::MAX, 0)] {
                        ops.push(op(&rules, Span::new(offset, len), output, Span::new(tag, tag_len), aad));
                    }
                }
            }
        }
        for first in ops.iter().filter(|op| right_alone(op, &rules, 0)) {
            for second in &ops {
                let sound = right_alone(second, &rules, 0)
                    && apart(&[Painted::of(first, &rules, 0), Painted::of(second, &rules, 0)]);
                let verdict = check_ops(rules.suite, rules.direction, &[*first, *second], rules.arena_len as usize);
                assert_eq!(verdict.is_ok(), sound, "{name}: {verdict:?} {first:?} {second:?}");
            }
        }
    }
}

/// Parts of every sound batch: each operation's bytes lie within its own stretch, and the stretches apart.
#[test]
fn every_cut_of_a_sound_triple_keeps_its_bytes() {
    let direction = Direction::Encrypt;
    let rules = rules("aes-128-ctr", direction, 8);
    let right: Vec<Op> =
        every(&rules, 0, 5, &[0], 0, &[0]).into_iter().filter(|op| rules.holds(op, rules.output(op))).collect();
    let mut cuts = 0;
    for a in &right {
        for b in &right {
            let mut ops = [*a, *b];
            let mut arena: Vec<u8> = (0..8).collect();
            let before = arena.clone();
            let Ok(mut batch) = Batch::new(rules.suite, direction, &mut ops, &mut arena).check() else { continue };
            let cut = batch.in_parts(&[1, 1], |mut parts| {
                for (part, was) in parts.iter_mut().zip([a, b]) {
                    let (ops, arena, _) = part.parts();
                    assert_eq!(arena[ops[0].input.range()], before[was.input.range()], "{was:?}");
                    assert!(rules.output(&ops[0]).end() <= arena.len() as u64);
                }
            });
            cuts += usize::from(cut.is_some());
        }
    }
    assert!(cuts > 100, "{cuts}");
}

/// The check is on the way of every batch: what is usual is found right in one run, with and without tags and additional
/// data, and what lies before the end of its model is not.
#[test]
fn usual_batches_take_the_shortcut() {
    for (name, tag_len, aad_len) in
        [("aes-128-ctr", 0, 0), ("aes-128-gcm", 4, 0), ("aes-128-gcm", 4, 3), ("aes-128-siv", 16, 3)]
    {
        let rules = rules(name, Direction::Encrypt, 1000);
        let at =
            |offset| op(&rules, Span::new(offset, 8), offset, Span::new(offset + 8, tag_len), Span::new(0, aad_len));
        let ops: Vec<Op> = (0..5).map(|n| at(10 + 30 * n)).collect();
        let run = rules.run_like(&ops[0], &ops[1..]);
        assert_eq!((run.count, run.bytes, run.end), (4, 32, 138 + u64::from(tag_len)), "{name}");
        assert_eq!(rules.run_like(&ops[0], &[at(17)]).count, 0, "{name}");
        // The same with tags before the data.
        let at = |start| {
            op(&rules, Span::new(start + tag_len, 8), start + tag_len, Span::new(start, tag_len), Span::new(0, aad_len))
        };
        let ops: Vec<Op> = (0..5).map(|n| at(10 + 30 * n)).collect();
        let run = rules.run_like(&ops[0], &ops[1..]);
        assert_eq!((run.count, run.bytes, run.end), (4, 32, 138 + u64::from(tag_len)), "{name}");
        assert_eq!(rules.run_like(&ops[0], &[at(17 + tag_len)]).count, 0, "{name}");
    }
    // Each with additional data of its own, as records have them.
    let records = rules("aes-128-gcm", Direction::Encrypt, 1000);
    let at = |start| op(&records, Span::new(start + 3, 8), start + 3, Span::new(start + 11, 4), Span::new(start, 3));
    let ops: Vec<Op> = (0..5).map(|n| at(10 + 30 * n)).collect();
    let run = records.run_like(&ops[0], &ops[1..]);
    assert_eq!((run.count, run.start, run.end), (4, 40, 145));
    assert_eq!(records.run_like(&ops[0], &[at(24)]).count, 0);
    // Nothing is written but a tag.
    let tags = rules("hmac-sha256", Direction::Encrypt, 1000);
    let at = |start| op(&tags, Span::new(start, 8), 0, Span::new(start + 8, 4), Span::default());
    let ops: Vec<Op> = (0..5).map(|n| at(10 + 30 * n)).collect();
    assert_eq!(tags.run_like(&ops[0], &ops[1..]).count, 4);
    assert_eq!(tags.run_like(&ops[0], &[at(21)]).count, 0);
}
