//! A batch cut into pieces that fit into a channel: operations whose data lie near each other go together, as they lie.

use core::ops::Range;

use ciphermill_channel::{OP_LEN, OPS_MAX};
use ciphermill_contract::{Direction, Op, Suite};

/// Bytes of input that a batch may have in an operation. With additional data, a tag, and an output that is as long and a block, it fits
/// into a channel of 4 MiB.
pub(crate) const INPUT_MAX: usize = 1 << 20;

/// A piece of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Which operations; those among them that are not pending are passed over.
    pub(crate) ops: Range<usize>,
    /// The stretch of the arena that they read and write.
    pub(crate) data: Range<usize>,
    /// The stretch that they write.
    pub(crate) written: Range<usize>,
    /// How many of the operations are pending.
    pub(crate) pending: usize,
}

/// The pieces of a batch, for a channel with so many bytes for operations and data. The last may be an operation that does not fit, whose
/// stretch is longer than that: its parts lie far apart, or it is too long.
pub(crate) fn chunks((suite, direction): (Suite, Direction), ops: &[Op], room: usize) -> impl Iterator<Item = Chunk> {
    let mut next = 0;
    core::iter::from_fn(move || {
        next += ops[next..].iter().position(|op| op.status.is_pending())?;
        let mut chunk = Chunk { ops: next..next, data: 0..0, written: 0..0, pending: 0 };
        for (index, op) in ops.iter().enumerate().skip(next) {
            if op.status.is_pending() {
                let (read, written) = stretches(suite, direction, op);
                let data = union(&chunk.data, &union(&read, &written));
                let pending = chunk.pending + 1;
                let fits = data.len() + (pending + 1) * OP_LEN <= room && pending <= OPS_MAX as usize;
                if !fits && chunk.pending > 0 {
                    break;
                }
                chunk = Chunk { ops: next..index + 1, data, written: union(&chunk.written, &written), pending };
            }
            chunk.ops.end = index + 1;
        }
        next = chunk.ops.end;
        if chunk.written.is_empty() {
            chunk.written = chunk.data.start..chunk.data.start;
        }
        Some(chunk)
    })
}

/// What an operation reads, and what it writes: each from its first byte to its last.
fn stretches(suite: Suite, direction: Direction, op: &Op) -> (Range<usize>, Range<usize>) {
    let output_len = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
    let output = op.output as usize..op.output as usize + output_len;
    // A tag that is verified is read only; being written as it was does no harm.
    (union(&op.input.range(), &op.aad.span().range()), union(&output, &op.tag_span().range()))
}

/// From the first byte of both to the last; what is empty lies nowhere.
fn union(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.clone(),
        (_, true) => a.clone(),
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::{KeyId, OpStatus, Span};

    use super::*;

    fn sha256() -> (Suite, Direction) {
        ("sha256".parse().expect("a suite"), Direction::Encrypt)
    }

    fn ops(count: u32, apart: u32) -> Vec<Op> {
        (0..count)
            .map(|index| Op::in_place(KeyId::NONE, Span::new(index * apart, 20)).with_tag(index * apart + 20, 32))
            .collect()
    }

    #[test]
    fn what_fits_is_one_piece() {
        let ops = ops(10, 64);
        let all: Vec<_> = chunks(sha256(), &ops, 1 << 16).collect();
        assert_eq!(all, [Chunk { ops: 0..10, data: 0..628, written: 20..628, pending: 10 }]);
        assert_eq!(chunks(sha256(), &[], 1 << 16).count(), 0);
    }

    #[test]
    fn pieces_cover_every_pending_operation_once_and_fit() {
        for (count, apart, room) in [(1000, 52, 4096), (100, 3000, 8192), (7, 64, 200), (50, 60_000, 4096)] {
            let mut ops = ops(count, apart);
            ops.iter_mut().step_by(3).for_each(|op| op.status = OpStatus::Done);
            let mut seen = vec![0; ops.len()];
            for chunk in chunks(sha256(), &ops, room) {
                assert!(chunk.data.len() + chunk.pending * OP_LEN <= room, "{chunk:?}");
                let pending = chunk.ops.clone().filter(|index| ops[*index].status.is_pending()).count();
                assert_eq!((pending, pending > 0), (chunk.pending, true));
                for index in chunk.ops {
                    seen[index] += 1;
                    let op = &ops[index];
                    if op.status.is_pending() {
                        assert!(
                            chunk.data.start <= op.input.range().start && op.tag_span().range().end <= chunk.data.end
                        );
                        assert!(chunk.written.start <= op.tag_span().range().start);
                        assert!(op.tag_span().range().end <= chunk.written.end);
                    }
                }
            }
            let once = seen.iter().zip(&ops).all(|(seen, op)| *seen == 1 || (*seen == 0 && op.status.is_done()));
            assert!(once, "{seen:?}");
        }
    }

    #[test]
    fn an_operation_that_does_not_fit_is_a_piece_of_its_own() {
        let mut ops = ops(3, 64);
        ops[1].tag = 100_000;
        let all: Vec<_> = chunks(sha256(), &ops, 4096).map(|chunk| chunk.ops).collect();
        assert_eq!(all, [0..1, 1..2, 2..3]);
    }

    #[test]
    fn nothing_pending_and_nothing_to_read_are_no_trouble() {
        let mut ops = ops(3, 64);
        ops.iter_mut().for_each(|op| op.status = OpStatus::Done);
        assert_eq!(chunks(sha256(), &ops, 4096).count(), 0);
        let empty = [Op::default()];
        let all: Vec<_> = chunks(sha256(), &empty, 4096).collect();
        assert_eq!(all, [Chunk { ops: 0..1, data: 0..0, written: 0..0, pending: 1 }]);
    }
}
