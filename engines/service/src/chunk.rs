//! A batch cut into pieces that fit into a channel: operations whose data lie near each other go together, as they lie.

use core::ops::Range;

use ciphermill_channel::{OPS_MAX, RECORD_LEN};
use ciphermill_contract::{Direction, Op, Suite};
use smallvec::SmallVec;

/// Bytes of input that a batch may have in an operation. With additional data, a tag, and an output that is as long and a block, it fits
/// into a channel of 4 MiB.
pub(crate) const INPUT_MAX: usize = 1 << 20;

/// A piece of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Which operations; those among them that are not pending are passed over.
    pub(crate) ops: Range<usize>,
    /// The stretches of the arena with their inputs, additional data, outputs and tags.
    pub(crate) stretches: [Range<usize>; STRETCHES],
    /// How many of the operations are pending.
    pub(crate) pending: usize,
}

/// The stretches of a chunk: inputs, additional data, outputs, tags. The latter two are written.
const STRETCHES: usize = 4;
const WRITTEN: Range<usize> = 2..4;

/// Where a chunk's data lie in a channel: its stretches one behind the other, those that overlap as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Stretches of the arena, disjoint, and how far behind the beginning of the data each lies.
    pub(crate) stretches: SmallVec<[(Range<usize>, usize); STRETCHES]>,
    /// Bytes in all.
    pub(crate) len: usize,
}

/// Pieces and their stretches begin with a line of the cache of their own.
pub(crate) const LINE: usize = 64;

impl Layout {
    fn of(stretches: &[Range<usize>; STRETCHES]) -> Layout {
        let mut layout = Layout::default();
        for stretch in stretches.iter().filter(|stretch| !stretch.is_empty()) {
            let mut all = stretch.clone();
            // What it overlaps becomes a part of it; and what lay between two that it overlaps, too.
            while let Some(at) = layout.stretches.iter().position(|(other, _)| overlap(other, &all)) {
                all = union(&all, &layout.stretches.swap_remove(at).0);
            }
            layout.stretches.push((all, 0));
        }
        for (stretch, at) in &mut layout.stretches {
            *at = layout.len.next_multiple_of(LINE);
            layout.len = *at + stretch.len();
        }
        layout
    }

    /// Where in the data the arena's byte at `offset` lies. What is empty may lie outside of all stretches.
    #[inline]
    pub(crate) fn place(&self, offset: u32) -> u32 {
        let offset = offset as usize;
        let holds = |(stretch, _): &&(Range<usize>, usize)| stretch.contains(&offset);
        self.stretches.iter().find(holds).map_or(0, |(stretch, at)| at + (offset - stretch.start)) as u32
    }
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
        let mut chunk = Chunk { ops: next..next, ..Chunk::default() };
        for (index, op) in ops.iter().enumerate().skip(next) {
            if op.status.is_pending() {
                let longer = chunk.with((suite, direction), index, op);
                let pending = longer.pending;
                let has_room = |data| data + (pending + 1) * RECORD_LEN <= room;
                let fits = has_room(longer.data_max()) || has_room(longer.layout().len);
                if !(fits && pending <= OPS_MAX as usize && is_short(pending, longer.data_max())) && chunk.pending > 0 {
                    break;
                }
                chunk = longer;
            }
            chunk.ops.end = index + 1;
        }
        next = chunk.ops.end;
        Some(chunk)
    })
}

impl Chunk {
    /// One more operation.
    fn with(&self, (suite, direction): (Suite, Direction), index: usize, op: &Op) -> Chunk {
        let output = op.output as usize;
        let output = output..output + output_len(suite, direction, op);
        let [inputs, aads, outputs, tags] = &self.stretches;
        Chunk {
            ops: self.ops.start..index + 1,
            stretches: [
                union(inputs, &op.input.range()),
                union(aads, &op.aad.span().range()),
                union(outputs, &output),
                union(tags, &op.tag_span().range()),
            ],
            pending: self.pending + 1,
        }
    }

    /// Both, as far as their data go.
    pub(crate) fn and(&self, other: &Chunk) -> Chunk {
        let stretches = core::array::from_fn(|index| union(&self.stretches[index], &other.stretches[index]));
        Chunk { ops: self.ops.start..other.ops.end, stretches, pending: self.pending + other.pending }
    }

    /// Bytes that its data take in a channel at most: without overlaps.
    fn data_max(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.len().next_multiple_of(LINE)).sum()
    }

    /// Where its data lie in a channel.
    pub(crate) fn layout(&self) -> Layout {
        Layout::of(&self.stretches)
    }

    /// What is written. A tag that is verified is read only; being written as it was does no harm.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Range<usize>> {
        self.stretches[WRITTEN].iter().filter(|stretch| !stretch.is_empty())
    }

    /// Whether one writes between, or to, what the other writes.
    pub(crate) fn crosses(&self, other: &Chunk) -> bool {
        self.written().any(|own| other.written().any(|theirs| overlap(own, theirs)))
    }

    /// Two pieces with half of the pending operations each, as far as there are two.
    pub(crate) fn halves(&self, what: (Suite, Direction), ops: &[Op]) -> Option<[Chunk; 2]> {
        let pending = self.ops.clone().filter(|index| ops[*index].status.is_pending());
        let middle = pending.clone().nth(self.pending / 2).filter(|_| self.pending > 1)?;
        let half = |own: Range<usize>| {
            let none = Chunk { ops: own.start..own.start, ..Chunk::default() };
            let all = pending.clone().filter(|index| own.contains(index));
            Chunk { ops: own.clone(), ..all.fold(none, |chunk, index| chunk.with(what, index, &ops[index])) }
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

/// Whether a byte lies in both.
fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// From the first byte of both to the last; what is empty lies nowhere.
fn union(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => 0..0,
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
        assert_eq!(all, [Chunk { ops: 0..10, stretches: [0..596, 0..0, 0..0, 20..628], pending: 10 }]);
        assert_eq!(all[0].layout().stretches[..], [(0..628, 0)]);
        assert_eq!(chunks(sha256(), &[], 1 << 16, any).count(), 0);
    }

    #[test]
    fn pieces_cover_every_pending_operation_once_and_fit() {
        for (count, apart, room) in [(1000, 52, 4096), (100, 3000, 8192), (7, 64, 200), (50, 60_000, 4096)] {
            let mut ops = ops(count, apart);
            ops.iter_mut().step_by(3).for_each(|op| op.status = OpStatus::Done);
            let mut seen = vec![0; ops.len()];
            for chunk in chunks(sha256(), &ops, room, any) {
                let layout = chunk.layout();
                assert!(layout.len + chunk.pending * RECORD_LEN <= room, "{chunk:?}");
                let pending = chunk.ops.clone().filter(|index| ops[*index].status.is_pending()).count();
                assert_eq!((pending, pending > 0), (chunk.pending, true));
                for index in chunk.ops.clone() {
                    seen[index] += 1;
                    let op = &ops[index];
                    if op.status.is_pending() {
                        let [input, tag] =
                            [op.input, op.tag_span()].map(|Span { offset, len }| (layout.place(offset) + len) as usize);
                        assert!(input <= layout.len && tag <= layout.len, "{chunk:?}");
                    }
                }
            }
            let once = seen.iter().zip(&ops).all(|(seen, op)| *seen == 1 || (*seen == 0 && op.status.is_done()));
            assert!(once, "{seen:?}");
        }
    }

    /// Results that lie far behind what is read are not copied with all that is in between.
    #[test]
    fn what_is_written_elsewhere_is_a_stretch_of_its_own() {
        let ops: Vec<Op> = (0..10)
            .map(|index| Op::in_place(KeyId::NONE, Span::new(500 + index * 20, 20)).with_tag(90_000 + index * 32, 32))
            .collect();
        let all: Vec<_> = chunks(sha256(), &ops, 1 << 16, any).collect();
        let [chunk] = &all[..] else { panic!("{all:?}") };
        let layout = chunk.layout();
        assert_eq!((&layout.stretches[..], layout.len), (&[(500..700, 0), (90_000..90_320, 256)][..], 576));
        for (index, op) in ops.iter().enumerate() {
            assert_eq!(layout.place(op.input.offset), index as u32 * 20);
            assert_eq!(layout.place(op.tag), 256 + index as u32 * 32);
        }
        assert_eq!(layout.place(u32::MAX), 0, "what is empty lies somewhere");
    }

    #[test]
    fn what_overlaps_is_one_stretch() {
        // The third lies in the first and the second, which then are one.
        let layout = Layout::of(&[0..100, 150..200, 90..160, 1000..1010]);
        assert_eq!((&layout.stretches[..], layout.len), (&[(0..200, 0), (1000..1010, 256)][..], 266));
        let layout = Layout::of(&[0..100, 0..0, 100..200, 300..300]);
        assert_eq!(layout.stretches[..], [(0..100, 0), (100..200, 128)]);
    }

    #[test]
    fn pieces_that_write_around_each_other_are_told() {
        let of = |outputs: Range<usize>, tags: Range<usize>| Chunk {
            stretches: [0..50, 0..0, outputs, tags],
            ..Chunk::default()
        };
        let one = of(100..200, 500..550);
        assert!(!one.crosses(&of(200..300, 550..600)) && !one.crosses(&of(0..0, 0..0)));
        assert!(
            one.crosses(&of(150..160, 0..0)) && one.crosses(&of(520..530, 0..0)) && one.crosses(&of(0..0, 199..200))
        );
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
        assert_eq!(all, [Chunk { ops: 0..1, pending: 1, ..Chunk::default() }]);
        assert_eq!(all[0].layout(), Layout::default());
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
        let [inputs, _, _, tags] = &whole[0].stretches;
        assert_eq!(&union(&first.stretches[0], &second.stretches[0]), inputs);
        assert_eq!(&union(&first.stretches[3], &second.stretches[3]), tags);
        let [one, _] = first.halves(sha256(), &ops).expect("two");
        let [one, _] = one.halves(sha256(), &ops).expect("two");
        assert_eq!(one.halves(sha256(), &ops), None);
    }
}
