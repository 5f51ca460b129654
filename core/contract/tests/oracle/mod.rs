//! What `Batch::check` promises, stated plainly: quadratic, and the same for every suite.

use ciphermill_contract::{Direction, Op, Span, Suite};

fn overlap(a: Span, b: Span) -> bool {
    a.len != 0 && b.len != 0 && u64::from(a.offset) < b.end() && u64::from(b.offset) < a.end()
}

/// The promises of `CheckedBatch`, stated plainly.
pub(crate) fn keeps_promises(suite: Suite, direction: Direction, ops: &[Op], arena_len: usize) -> bool {
    let output = |op: &Op| {
        let len = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
        Span::new(op.output, len as u32)
    };
    let alone = |op: &Op| {
        let (out, tag, aad) = (output(op), op.tag_span(), op.aad.span());
        [op.input, out, tag, aad].iter().all(|span| span.end() <= arena_len as u64)
            && (!overlap(op.input, out) || op.input.offset == out.offset && suite.transforms())
            && ![op.input, out, aad].iter().any(|span| overlap(tag, *span))
            && !overlap(aad, out)
            && suite.input_len(direction).contains(op.input.len as usize)
            && suite.iv_len().contains(usize::from(op.iv_len))
            && suite.tag_len(direction).contains(usize::from(op.tag_len))
            && usize::from(op.aad.len)
                .checked_sub(usize::from(op.iv_len).saturating_sub(op.iv.len()))
                .is_some_and(|own| suite.aad_len().contains(own))
            && op.key.is_none() != suite.needs_key()
            && op.status.is_pending()
            && op.reserved == 0
    };
    let written = |op: &Op| {
        let tag = if direction == Direction::Encrypt { op.tag_span() } else { Span::default() };
        [output(op), tag]
    };
    let touched = |op: &Op| [op.input, output(op), op.tag_span(), op.aad.span()];
    let apart = |a: usize, b: usize| {
        !written(&ops[a]).iter().any(|span| touched(&ops[b]).iter().any(|other| overlap(*span, *other)))
    };
    ops.iter().all(alone) && (0..ops.len()).all(|a| (0..ops.len()).all(|b| a == b || apart(a, b)))
}
