//! `Batch::check` against the quadratic oracle of the contract's own tests, for every suite.

use std::sync::LazyLock;

use ciphermill_contract::{Aad, Batch, Direction, Error, KeyId, Op, OpStatus, Span, Suite};

use crate::reader::Reader;

#[path = "../../core/contract/tests/oracle/mod.rs"]
mod oracle;

/// Operations of a batch; the oracle is quadratic.
const OPS_MAX: usize = 12;

static SUITES: LazyLock<Vec<Suite>> = LazyLock::new(|| Suite::all().collect());

/// # Panics
/// When the check and the oracle disagree, and when the check writes.
pub fn run(bytes: &[u8]) {
    let mut from = Reader(bytes);
    let suite = from.pick(&SUITES);
    let direction = if from.byte() & 1 == 0 { Direction::Encrypt } else { Direction::Decrypt };
    let mut arena = vec![0xa5; usize::from(from.byte()) * 4];
    let mut ops = Vec::new();
    while !from.is_empty() && ops.len() < OPS_MAX {
        ops.push(op(&mut from, suite, ops.last()));
    }
    let before = ops.clone();
    let arena_len = arena.len();
    let result = Batch::new(suite, direction, &mut ops, &mut arena).check().map(drop);
    let valid = match suite {
        Suite::Fpe(ff1) => ff1.radix_is_valid(),
        _ => true,
    };
    let right = suite.has_direction(direction) && valid && oracle::keeps_promises(suite, direction, &before, arena_len);
    match &result {
        Ok(()) => assert!(right, "{suite} {direction}: passed, and must not: {before:?}"),
        Err(Error::Misuse(misuse)) => {
            assert!(!right, "{suite} {direction}: {misuse:?}: refused, and must not: {before:?}");
            assert!((misuse.op as usize) < before.len());
        }
        Err(Error::Refused(_)) => assert!(!suite.has_direction(direction) || !valid),
        Err(other) => panic!("{other}"),
    }
    assert!(ops == before && arena.iter().all(|byte| *byte == 0xa5), "the check has written");
}

/// An operation near the usual: the flags say which of its fields the fuzzer sets freely.
fn op(from: &mut Reader<'_>, suite: Suite, last: Option<&Op>) -> Op {
    let flags = from.byte();
    let end = last.map_or(0, |last| last.input.end().max(last.tag_span().end()));
    let start = u32::try_from(end).unwrap_or(u32::MAX).saturating_add(u32::from(flags >> 6));
    let place = |from: &mut Reader<'_>| match from.word() {
        // The end of the address range.
        far @ 0xff00.. => u32::MAX - u32::from(far & 0xff),
        near => u32::from(near % 1100),
    };
    let len = u32::from(from.byte()) * u32::from(from.byte() % 17);
    let offset = if flags & 1 == 0 { start } else { place(from) };
    let mut op = Op {
        key: KeyId { slot: 1, generation: u32::from(suite.needs_key()) },
        iv: [9; 16],
        input: Span::new(offset, if flags & 2 == 0 { len } else { place(from) }),
        output: offset,
        tag: offset.wrapping_add(len),
        tag_len: suite.default_tag_len() as u16,
        iv_len: suite.default_iv_len() as u8,
        ..Op::default()
    };
    if flags & 4 != 0 {
        op.output = place(from);
    }
    if flags & 8 != 0 {
        (op.tag, op.tag_len) = (place(from), u16::from(from.byte()));
    }
    if flags & 16 != 0 {
        op.aad = Aad::new(place(from), u16::from(from.byte() % 20));
    }
    if flags & 32 != 0 {
        match from.byte() % 5 {
            0 => op.iv_len = from.byte(),
            1 => op.reserved = from.byte(),
            2 => op.status = OpStatus::Done,
            3 => op.key.generation ^= 1,
            _ => op.output_len = place(from),
        }
    }
    op
}
