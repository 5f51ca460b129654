//! Batches in parts that can be worked on at the same time: each with operations and a stretch of the arena of its own.

use crate::batch::CheckedBatch;
use crate::op::{Op, Span};
use crate::suite::Suite;

impl CheckedBatch<'_> {
    /// Cuts the batch into parts of `counts` operations each, in their order, and hands them to `work`. A part's offsets
    /// count from the start of its own stretch of the arena; what becomes of its operations is taken over afterwards.
    ///
    /// `None`, and `work` is not called, when the bytes of one part do not all lie before those of the next, as when
    /// operations share additional data; for random bytes, whose lengths engines write; and when `counts` do not add up
    /// to the batch.
    pub fn in_parts<R>(&mut self, counts: &[usize], work: impl FnOnce(Vec<CheckedBatch<'_>>) -> R) -> Option<R> {
        let (suite, direction) = (self.suite(), self.direction());
        if matches!(suite, Suite::Random) || counts.iter().sum::<usize>() != self.len() {
            return None;
        }
        let output = |op: &Op| {
            let len = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
            Span::new(op.output, u32::try_from(len).unwrap_or(u32::MAX))
        };
        // Looked at as a whole first: most batches that cannot be cut are found out before anything is copied.
        let mut stretches: Vec<Span> = Vec::with_capacity(counts.len());
        let mut rest = self.ops();
        for count in counts {
            let (part, behind) = rest.split_at(*count);
            rest = behind;
            let stretch = stretch(part, output)?;
            if stretches.last().is_some_and(|before| before.end() > u64::from(stretch.offset)) {
                return None;
            }
            stretches.push(stretch);
        }
        let mut rest = self.ops();
        let mut shifted: Vec<(Vec<Op>, Span)> = Vec::with_capacity(counts.len());
        for (count, stretch) in counts.iter().zip(stretches) {
            let (part, behind) = rest.split_at(*count);
            rest = behind;
            shifted.push((part.iter().map(|op| shift(op, output(op).len, stretch.offset)).collect(), stretch));
        }
        let keys = self.keys();
        let (ops, mut arena, _) = self.parts();
        let mut parts = Vec::with_capacity(counts.len());
        let (mut arena_from, mut ops_from) = (0, 0);
        for (own, stretch) in &mut shifted {
            let (start, len) = (stretch.offset as usize, stretch.len as usize);
            let (own_arena, behind) = core::mem::take(&mut arena)[start - arena_from..].split_at_mut(len);
            (arena, arena_from) = (behind, start + len);
            let own_keys = if keys.is_empty() { keys } else { &keys[ops_from..ops_from + own.len()] };
            ops_from += own.len();
            parts.push(CheckedBatch::of_part(suite, direction, own, own_arena, own_keys));
        }
        let result = work(parts);
        let outcomes = shifted.iter().flat_map(|(own, _)| own);
        for (op, outcome) in ops.iter_mut().zip(outcomes) {
            (op.status, op.output_len, op.tag_len) = (outcome.status, outcome.output_len, outcome.tag_len);
        }
        Some(result)
    }
}

/// From the first byte that any of the operations touches to the last.
fn stretch(ops: &[Op], output: impl Fn(&Op) -> Span) -> Option<Span> {
    let (mut start, mut end) = (u64::MAX, 0);
    for op in ops {
        for span in [op.input, output(op), op.tag_span(), op.aad.span()] {
            if span.len != 0 {
                start = start.min(u64::from(span.offset));
                end = end.max(span.end());
            }
        }
    }
    // Operations that touch nothing could stand anywhere; they are too few to be worth a place.
    let len = end.checked_sub(start)?;
    Some(Span::new(u32::try_from(start).ok()?, u32::try_from(len).ok()?))
}

/// The operation with its offsets counted from `start`; what is empty stands there.
fn shift(op: &Op, output_len: u32, start: u32) -> Op {
    let moved = |offset: u32, len: u32| if len == 0 { 0 } else { offset - start };
    let mut op = *op;
    op.output = moved(op.output, output_len);
    op.input.offset = moved(op.input.offset, op.input.len);
    op.tag = moved(op.tag, u32::from(op.tag_len));
    op.aad.offset = moved(op.aad.offset, u32::from(op.aad.len));
    op
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Batch;
    use crate::key::KeyId;
    use crate::status::OpStatus;
    use crate::suite::Direction;

    const KEY: KeyId = KeyId { slot: 1, generation: 1 };

    fn gcm() -> Suite {
        "aes-128-gcm".parse().expect("a suite")
    }

    /// Operations of 20 bytes with a tag behind, from offset 100 on.
    fn ops(count: u32) -> Vec<Op> {
        let op = |n: u32| Op::in_place(KEY, Span::new(100 + 36 * n, 20)).with_iv(&[0; 12]).with_tag(120 + 36 * n, 16);
        (0..count).map(op).collect()
    }

    #[test]
    fn parts_cover_the_batch_and_outcomes_come_back() {
        let mut ops = ops(10);
        let before = ops.clone();
        let mut arena: Vec<u8> = (0..500).map(|n| n as u8).collect();
        let expected = arena.clone();
        let mut batch = Batch::new(gcm(), Direction::Encrypt, &mut ops, &mut arena).check().expect("right");
        let lens = batch.in_parts(&[3, 1, 6], |mut parts| {
            let mut first = 100;
            for (number, part) in parts.iter_mut().enumerate() {
                assert_eq!(part.input_bytes(), 20 * part.len() as u64);
                let (ops, arena, _) = part.parts();
                assert_eq!(arena[..], expected[first..first + 36 * ops.len()], "its own stretch");
                first += arena.len();
                for op in ops {
                    arena[op.output as usize..][..20].fill(number as u8);
                    arena[op.tag as usize..][..16].fill(number as u8 + 100);
                    (op.status, op.output_len, op.tag_len) = (OpStatus::Done, 20, 16);
                }
            }
            parts.iter().map(CheckedBatch::len).collect::<Vec<_>>()
        });
        assert_eq!(lens, Some(vec![3, 1, 6]));
        for (n, (op, was)) in ops.iter().zip(&before).enumerate() {
            let part = [0, 0, 0, 1, 2, 2, 2, 2, 2, 2][n];
            assert_eq!(*op, Op { status: OpStatus::Done, output_len: 20, ..*was });
            assert!(arena[op.input.range()].iter().all(|byte| *byte == part));
            assert!(arena[op.tag_span().range()].iter().all(|byte| *byte == part + 100));
        }
        assert_eq!(arena[..100], expected[..100]);
        assert_eq!(arena[460..], expected[460..]);
    }

    #[test]
    fn what_is_interleaved_or_shared_stays_whole() {
        let refused = |mut ops: Vec<Op>, counts: &[usize]| {
            let mut arena = vec![0; 2000];
            let mut batch = Batch::new(gcm(), Direction::Encrypt, &mut ops, &mut arena).check().expect("right");
            batch.in_parts(counts, |_| ()).is_none()
        };
        assert!(!refused(ops(4), &[2, 2]));
        assert!(refused(ops(4), &[2, 1]), "an operation is missing");
        let mut shared = ops(4);
        shared.iter_mut().for_each(|op| *op = op.with_aad(0, 5));
        assert!(refused(shared, &[2, 2]), "shared additional data");
        let mut swapped = ops(4);
        swapped.swap(1, 2);
        assert!(refused(swapped.clone(), &[2, 2]), "one before the other");
        assert!(!refused(swapped, &[3, 1]), "within one part");
    }
}
