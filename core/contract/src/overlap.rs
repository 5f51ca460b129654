//! Whether operations of a batch stay out of each other's way.
//!
//! Batches are nearly always laid out in order, so one pass with two comparisons an operation proves it. Other
//! layouts are proved by a second pass over separate areas, and whatever remains by sorting.

use crate::op::{Op, Span, disjoint};

/// The smallest range that holds everything seen so far.
#[derive(Clone, Copy)]
struct Hull {
    start: u64,
    end: u64,
}

impl Hull {
    const EMPTY: Hull = Hull { start: u64::MAX, end: 0 };

    #[inline(always)]
    fn add(&mut self, span: Span) {
        if span.len != 0 {
            self.start = self.start.min(u64::from(span.offset));
            self.end = self.end.max(span.end());
        }
    }

    #[inline(always)]
    fn apart_from(self, other: Hull) -> bool {
        self.end <= other.start || other.end <= self.start
    }
}

/// Watches operations go by and proves, where they are laid out in order, that none touches another.
pub(crate) struct Order {
    /// Where the data (input, output, tag) of the operations so far end.
    data_end: u64,
    data_ascend: bool,
    data: Hull,
    /// The same with additional data counted in.
    all_end: u64,
    all_ascend: bool,
    aad: Hull,
}

impl Order {
    pub(crate) fn new() -> Order {
        Order { data_end: 0, data_ascend: true, data: Hull::EMPTY, all_end: 0, all_ascend: true, aad: Hull::EMPTY }
    }

    #[inline(always)]
    pub(crate) fn step(&mut self, op: &Op, output: Span) {
        let mut own = Hull::EMPTY;
        own.add(op.input);
        own.add(output);
        own.add(op.tag_span());
        if own.end != 0 {
            self.data_ascend &= own.start >= self.data_end;
            self.data_end = own.end;
            self.data.start = self.data.start.min(own.start);
            self.data.end = self.data.end.max(own.end);
        }
        if op.aad.len != 0 {
            self.aad.add(op.aad.span());
            own.add(op.aad.span());
        }
        if own.end != 0 {
            self.all_ascend &= own.start >= self.all_end;
            self.all_end = own.end;
        }
    }

    /// As [`Order::step`] for operations that lie one behind the other from `start` to `end`. Their additional data, if any,
    /// are among them where they own them, and else those of the operation before, which have been counted.
    pub(crate) fn advance(&mut self, start: u32, end: u64, owns_aad: bool) {
        let start = u64::from(start);
        self.data_ascend &= start >= self.data_end;
        self.data_end = end;
        self.data.start = self.data.start.min(start);
        self.data.end = self.data.end.max(end);
        if owns_aad {
            // Somewhere there, so that the order of all has to prove what it can.
            self.aad.start = self.aad.start.min(start);
            self.aad.end = self.aad.end.max(end);
        }
        // Shared ones may reach further than the data; what begins behind them touches neither.
        self.all_ascend &= start >= self.all_end;
        self.all_end = end;
    }

    /// Whether the layout proves that no operation touches another.
    pub(crate) fn proves_disjoint(&self) -> bool {
        self.all_ascend || (self.data_ascend && self.data.apart_from(self.aad))
    }
}

/// Finds an operation that writes where another reads or writes, whatever the layout. `writes_tag` says whether tags
/// are written or read.
pub(crate) fn check_any_order(ops: &[Op], output_of: impl Fn(&Op) -> Span, writes_tag: bool) -> Result<(), u32> {
    if areas_are_apart(ops, &output_of) || writes_ascend(ops, &output_of, writes_tag) {
        return Ok(());
    }
    let mut writes: Vec<(Span, u32)> = Vec::with_capacity(ops.len() * 2);
    for (index, op) in (0u32..).zip(ops) {
        let tag = if writes_tag { op.tag_span() } else { Span::default() };
        writes.extend([output_of(op), tag].into_iter().filter(|span| span.len != 0).map(|span| (span, index)));
    }
    writes.sort_unstable_by_key(|(span, _)| span.offset);
    for pair in writes.windows(2) {
        if !disjoint(pair[0].0, pair[1].0) {
            return Err(pair[0].1.max(pair[1].1));
        }
    }
    for (index, op) in (0u32..).zip(ops) {
        let tag = if writes_tag { Span::default() } else { op.tag_span() };
        for read in [op.input, op.aad.span(), tag] {
            if let Some(writer) = foreign_writer(&writes, read, index) {
                return Err(index.max(writer));
            }
        }
    }
    Ok(())
}

/// An operation other than `reader` that writes into `read`. `writes` is sorted and free of overlaps.
fn foreign_writer(writes: &[(Span, u32)], read: Span, reader: u32) -> Option<u32> {
    if read.len == 0 {
        return None;
    }
    let first = writes.partition_point(|(span, _)| span.end() <= u64::from(read.offset));
    writes[first..]
        .iter()
        .take_while(|(span, _)| u64::from(span.offset) < read.end())
        .find(|(_, writer)| *writer != reader)
        .map(|(_, writer)| *writer)
}

/// Whether an operation's input is where its output goes, and no longer.
fn is_in_place(op: &Op, output: Span) -> bool {
    op.input.offset == output.offset && op.input.len <= output.len
}

/// Whether inputs, outputs, tags and additional data lie in areas of their own, outputs and tags ascending.
fn areas_are_apart(ops: &[Op], output_of: &impl Fn(&Op) -> Span) -> bool {
    let mut outputs = Hull::EMPTY;
    let mut tags = Hull::EMPTY;
    let mut reads = Hull::EMPTY;
    for op in ops {
        let output = output_of(op);
        let tag = op.tag_span();
        let ascends = |span: Span, hull: Hull| span.len == 0 || u64::from(span.offset) >= hull.end;
        if !ascends(output, outputs) || !ascends(tag, tags) {
            return false;
        }
        outputs.add(output);
        tags.add(tag);
        reads.add(op.aad.span());
        if !is_in_place(op, output) {
            reads.add(op.input);
        }
    }
    outputs.apart_from(tags) && outputs.apart_from(reads) && tags.apart_from(reads)
}

/// Whether what is written lies in an area of its own, each operation's behind that of the one before: records that become
/// others elsewhere.
fn writes_ascend(ops: &[Op], output_of: &impl Fn(&Op) -> Span, writes_tag: bool) -> bool {
    let (mut writes, mut reads) = (Hull::EMPTY, Hull::EMPTY);
    for op in ops {
        let output = output_of(op);
        let mut own = Hull::EMPTY;
        own.add(output);
        if writes_tag {
            own.add(op.tag_span())
        } else {
            reads.add(op.tag_span())
        }
        if own.end != 0 && own.start < writes.end {
            return false;
        }
        writes = Hull { start: writes.start.min(own.start), end: writes.end.max(own.end) };
        reads.add(op.aad.span());
        if !is_in_place(op, output) {
            reads.add(op.input);
        }
    }
    writes.apart_from(reads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyId;

    /// The plain definition, quadratic.
    fn touches(ops: &[Op], writes_tag: bool) -> bool {
        let writes = |op: &Op| {
            let tag = if writes_tag { op.tag_span() } else { Span::default() };
            [Span::new(op.output, op.input.len), tag]
        };
        let reads = |op: &Op| [op.input, op.aad.span(), op.tag_span()];
        (0..ops.len()).any(|a| {
            (0..ops.len()).filter(|b| *b != a).any(|b| {
                let all = writes(&ops[b]).into_iter().chain(reads(&ops[b]));
                all.into_iter().any(|other| writes(&ops[a]).iter().any(|own| !disjoint(*own, other)))
            })
        })
    }

    /// Four operations of eight bytes with tags behind them, each with four bytes of additional data from `aad` on.
    fn in_order(aad: impl Fn(u32) -> u32) -> Vec<Op> {
        let op = |n: u32| {
            Op::in_place(KeyId::NONE, Span::new(100 + 20 * n, 8)).with_tag(108 + 20 * n, 4).with_aad(aad(n), 4)
        };
        (0..4).map(op).collect()
    }

    #[test]
    fn what_is_in_order_is_proved_in_one_pass() {
        let proved = |ops: Vec<Op>| {
            let mut order = Order::new();
            ops.iter().for_each(|op| order.step(op, Span::new(op.output, op.input.len)));
            order.proves_disjoint()
        };
        assert!(proved(in_order(|n| 112 + 20 * n)), "additional data behind each operation");
        assert!(proved(in_order(|_| 0)) && proved(in_order(|_| 500)), "shared, before all and behind all");
        assert!(!proved(in_order(|_| 112)), "shared, between two: they have to be sorted");
    }

    #[test]
    fn areas_of_their_own_are_proved_without_sorting() {
        let apart = |ops: &[Op]| areas_are_apart(ops, &|op: &Op| Span::new(op.output, op.input.len));
        let op = |n: u32| {
            let inputs_descend = Op::in_place(KeyId::NONE, Span::new(80 - 20 * n, 8));
            inputs_descend.with_output(100 + 8 * n).with_tag(200 + 4 * n, 4).with_aad(0, 4)
        };
        let mut ops: Vec<Op> = (0..4).map(op).collect();
        assert!(apart(&ops));
        ops[3].input.offset = 210;
        assert!(!apart(&ops), "an input among the tags");
        // A record's additional data and input in one area, its output and tag in another.
        let record = |n: u32| {
            let op = Op::in_place(KeyId::NONE, Span::new(24 * n + 4, 8)).with_aad(24 * n, 4);
            op.with_output(100 + 12 * n).with_tag(108 + 12 * n, 4)
        };
        let ascend = |ops: &[Op]| writes_ascend(ops, &|op: &Op| Span::new(op.output, op.input.len), true);
        let mut ops: Vec<Op> = (0..4).map(record).collect();
        assert!(!apart(&ops) && ascend(&ops));
        ops[0].output = 118;
        assert!(!ascend(&ops), "an output among the records behind it");
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_the_plain_definition(
            places in proptest::collection::vec((0u32..200, 0u32..12, 0u32..200, 0u32..200, 0u16..5, 0u32..200, 0u16..4), 1..9),
            in_place in proptest::bool::ANY,
            sorted in proptest::bool::ANY,
            writes_tag in proptest::bool::ANY,
        ) {
            let mut places = places;
            if sorted {
                places.sort();
            }
            let ops: Vec<Op> = places
                .iter()
                .map(|&(input, len, output, tag, tag_len, aad, aad_len)| {
                    Op::in_place(KeyId::NONE, Span::new(input, len))
                        .with_output(if in_place { input } else { output })
                        .with_tag(tag, tag_len)
                        .with_aad(aad, aad_len)
                })
                .collect();
            let output_of = |op: &Op| Span::new(op.output, op.input.len);
            let mut order = Order::new();
            ops.iter().for_each(|op| order.step(op, output_of(op)));
            if order.proves_disjoint() {
                proptest::prop_assert!(!touches(&ops, writes_tag));
            }
            // An operation's own tag or input touching its own output is the per-operation check's business.
            let own_ok = ops.iter().all(|op| disjoint(op.tag_span(), output_of(op)));
            if own_ok {
                let found = check_any_order(&ops, output_of, writes_tag).is_err();
                proptest::prop_assert_eq!(found, touches(&ops, writes_tag));
            }
        }
    }
}
