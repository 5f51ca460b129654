//! A batch cut into pieces that fit into a channel: operations whose data lie near each other go together, as they lie.

use core::ops::Range;

use ciphermill_channel::{OPS_MAX, RECORD_LEN};
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

/// The pieces of a batch, for a channel with so many bytes for operations and data. `is_short` says of so many operations over so many
/// bytes whether the service takes them together. The last may be an operation that does not fit, whose stretch is longer than that: its
/// parts lie far apart, or it is too long.
pub(crate) fn chunks(
    (suite, direction): (Suite, Direction),
    ops: &[Op],
    room: usize,
    is_short: impl Fn(usize, usize) -> bool,
) -> impl Iterator<Item = Chunk> {
    let mut next = 0;
    core::iter::from_fn(move || {
        next += ops[next..].iter().position(|op| op.status.is_pending())?;
        let mut chunk = Chunk { ops: next..next, data: 0..0, written: 0..0, pending: 0 };
        for (index, op) in ops.iter().enumerate().skip(next) {
            if op.status.is_pending() {
                let longer = chunk.with((suite, direction), index, op);
                let (data, pending) = (longer.data.len(), longer.pending);
                let fits =
                    data + (pending + 1) * RECORD_LEN <= room && pending <= OPS_MAX as usize && is_short(pending, data);
                if !fits && chunk.pending > 0 {
                    break;
                }
                chunk = longer;
            }
            chunk.ops.end = index + 1;
        }
        next = chunk.ops.end;
        Some(chunk.ended())
    })
}

impl Chunk {
    /// One more operation.
    fn with(&self, (suite, direction): (Suite, Direction), index: usize, op: &Op) -> Chunk {
        let (read, written) = stretches(suite, direction, op);
        Chunk {
            ops: self.ops.start..index + 1,
            data: union(&self.data, &union(&read, &written)),
            written: union(&self.written, &written),
            pending: self.pending + 1,
        }
    }

    fn ended(mut self) -> Chunk {
        if self.written.is_empty() {
            self.written = self.data.start..self.data.start;
        }
        self
    }

    /// Two pieces with half of the pending operations each, as far as there are two.
    pub(crate) fn halves(&self, what: (Suite, Direction), ops: &[Op]) -> Option<[Chunk; 2]> {
        let pending = self.ops.clone().filter(|index| ops[*index].status.is_pending());
        let middle = pending.clone().nth(self.pending / 2).filter(|_| self.pending > 1)?;
        let half = |own: Range<usize>| {
            let none = Chunk { ops: own.start..own.start, data: 0..0, written: 0..0, pending: 0 };
            let all = pending.clone().filter(|index| own.contains(index));
            Chunk { ops: own.clone(), ..all.fold(none, |chunk, index| chunk.with(what, index, &ops[index])).ended() }
        };
        Some([half(self.ops.start..middle), half(middle..self.ops.end)])
    }
}

/// Bytes of room that an operation's output has.
#[inline]
pub(crate) fn output_len(suite: Suite, direction: Direction, op: &Op) -> usize {
    // Asked for every operation: most suites are told by one comparison.
    if suite.keeps_len() {
        return op.input.len as usize;
    }
    suite.output_len(direction, op.input.len as usize, op.output_len as usize)
}

/// What an operation reads, and what it writes: each from its first byte to its last.
#[inline]
fn stretches(suite: Suite, direction: Direction, op: &Op) -> (Range<usize>, Range<usize>) {
    let output_len = output_len(suite, direction, op);
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

    fn any(_: usize, _: usize) -> bool {
        true
    }

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
        let all: Vec<_> = chunks(sha256(), &ops, 1 << 16, any).collect();
        assert_eq!(all, [Chunk { ops: 0..10, data: 0..628, written: 20..628, pending: 10 }]);
        assert_eq!(chunks(sha256(), &[], 1 << 16, any).count(), 0);
    }

    #[test]
    fn pieces_cover_every_pending_operation_once_and_fit() {
        for (count, apart, room) in [(1000, 52, 4096), (100, 3000, 8192), (7, 64, 200), (50, 60_000, 4096)] {
            let mut ops = ops(count, apart);
            ops.iter_mut().step_by(3).for_each(|op| op.status = OpStatus::Done);
            let mut seen = vec![0; ops.len()];
            for chunk in chunks(sha256(), &ops, room, any) {
                assert!(chunk.data.len() + chunk.pending * RECORD_LEN <= room, "{chunk:?}");
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
        let all: Vec<_> = chunks(sha256(), &ops, 4096, any).map(|chunk| chunk.ops).collect();
        assert_eq!(all, [0..1, 1..2, 2..3]);
    }

    #[test]
    fn nothing_pending_and_nothing_to_read_are_no_trouble() {
        let mut ops = ops(3, 64);
        ops.iter_mut().for_each(|op| op.status = OpStatus::Done);
        assert_eq!(chunks(sha256(), &ops, 4096, any).count(), 0);
        let empty = [Op::default()];
        let all: Vec<_> = chunks(sha256(), &empty, 4096, any).collect();
        assert_eq!(all, [Chunk { ops: 0..1, data: 0..0, written: 0..0, pending: 1 }]);
    }

    #[test]
    fn pieces_are_as_short_as_they_have_to_be() {
        let ops = ops(10, 64);
        let all: Vec<_> = chunks(sha256(), &ops, 1 << 16, |ops, _| ops <= 3).map(|chunk| chunk.ops).collect();
        assert_eq!(all, [0..3, 3..6, 6..9, 9..10]);
        let all: Vec<_> = chunks(sha256(), &ops, 1 << 16, |_, _| false).map(|chunk| chunk.pending).collect();
        assert_eq!(all, [1; 10]);
    }

    #[test]
    fn halves_are_what_a_piece_was() {
        let mut ops = ops(11, 64);
        ops[0].status = OpStatus::Done;
        ops[4].status = OpStatus::Done;
        let whole: Vec<_> = chunks(sha256(), &ops, 1 << 16, any).collect();
        let [first, second] = whole[0].halves(sha256(), &ops).expect("two");
        assert_eq!((first.ops.clone(), first.pending, second.ops.clone(), second.pending), (1..6, 4, 6..11, 5));
        assert_eq!(union(&first.data, &second.data), whole[0].data);
        assert_eq!((&first.written, &second.written), (&(84..372), &(404..692)));
        let [one, _] = first.halves(sha256(), &ops).expect("two");
        let [one, _] = one.halves(sha256(), &ops).expect("two");
        assert_eq!(one.halves(sha256(), &ops), None);
    }
}
