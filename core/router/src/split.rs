//! `split`: a large batch shared out over cores and engines so that all parts finish together.

use ciphermill_contract::Cost;
use smallvec::SmallVec;

/// Parts that one batch is split into at most.
pub const PARTS_MAX: usize = 64;

/// Where a part of a batch can be worked on: an engine on one core, or a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The engine's index among the mill's engines.
    pub engine: usize,
    /// What the whole batch would cost there, in its steps.
    pub cost: Cost,
    /// Nanoseconds until it can begin: handing over, wake-up, backlog.
    pub start_ns: f64,
    /// Operations that are paid for together there ([`Cost::in_steps`]).
    pub step: u16,
}

/// One part: how many of the operations, in their order, go to which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the line.
    pub line: usize,
    /// Operations, at least one.
    pub ops: u64,
}

/// A batch in parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// The parts; together they hold every operation.
    pub parts: SmallVec<[Part; 8]>,
    /// When the last part will probably end, in nanoseconds.
    pub predicted_ns: f64,
}

/// Shares `ops` operations with `bytes` bytes of input out over `lines`, the first of which is where the batch would run
/// alone. `None` when no split is predicted to end at least `gain_ns` sooner than that.
///
/// Line `i` has a fixed time `f = start + C1` and a time for each operation `a = C2 + C3 · bytes / ops`; all parts end at
/// the `T` for which the shares `(T - f) / a` of the lines with `f < T` add up to `ops`. Shares are whole steps, but for the
/// last: a step that is shared out is paid for twice.
pub fn split(ops: u64, bytes: u64, lines: &[Line], gain_ns: f64) -> Option<Split> {
    let first = lines.first()?;
    let lines = &lines[..lines.len().min(PARTS_MAX)];
    let mean = bytes as f64 / ops.max(1) as f64;
    let fixed = |line: &Line| line.start_ns + line.cost.batch_ns;
    let paid = |line: &Line, ops: u64| ops.next_multiple_of(line.step.max(1).into()) as f64;
    // Costs in steps hold for all operations; here it is what one takes where the lanes are full.
    let full = |line: &Line| ops.max(1) as f64 / paid(line, ops.max(1));
    let each = |line: &Line| ((line.cost.op_ns + line.cost.byte_ns * mean) * full(line)).max(1e-3);
    let part_ns = |line: &Line, ops: u64| fixed(line) + each(line) * paid(line, ops);
    let alone_ns = part_ns(first, ops);
    let mut order: SmallVec<[usize; 8]> = (0..lines.len()).collect();
    order.sort_by(|a, b| fixed(&lines[*a]).total_cmp(&fixed(&lines[*b])));
    // Operations a nanosecond of all lines that take part, and what they lose before they begin.
    let (mut rate, mut lost, mut end_ns, mut used) = (0.0, 0.0, f64::INFINITY, 0);
    for line in order.iter().map(|index| &lines[*index]) {
        if fixed(line) >= end_ns {
            break;
        }
        rate += 1.0 / each(line);
        lost += fixed(line) / each(line);
        end_ns = (ops as f64 + lost) / rate;
        used += 1;
    }
    let mut parts: SmallVec<[Part; 8]> = SmallVec::new();
    let mut left = ops;
    for index in &order[..used] {
        let line = &lines[*index];
        let share = ((end_ns - fixed(line)) / each(line)).max(0.0) as u64;
        let share = (share - share % u64::from(line.step.max(1))).min(left);
        left -= share;
        parts.push(Part { line: *index, ops: share });
    }
    // What rounding left over goes step by step to the part that ends first with it.
    while left != 0 {
        let with_step = |part: &Part| {
            let line = &lines[part.line];
            part_ns(line, part.ops + left.min(line.step.max(1).into()))
        };
        let first = parts.iter_mut().min_by(|a, b| with_step(a).total_cmp(&with_step(b)))?;
        let more = left.min(lines[first.line].step.max(1).into());
        first.ops += more;
        left -= more;
    }
    parts.retain(|part| part.ops != 0);
    let predicted_ns = parts.iter().map(|part| part_ns(&lines[part.line], part.ops)).fold(0.0, f64::max);
    (parts.len() > 1 && predicted_ns + gain_ns <= alone_ns).then_some(Split { parts, predicted_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(start_ns: f64, op_ns: f64) -> Line {
        Line { engine: 0, cost: Cost::new(100.0, op_ns, 0.0), start_ns, step: 1 }
    }

    #[test]
    fn equal_lines_share_equally() {
        let split = split(1000, 0, &[line(0.0, 10.0), line(0.0, 10.0)], 0.0).expect("it pays");
        assert_eq!(split.parts.iter().map(|part| part.ops).collect::<Vec<_>>(), [500, 500]);
        assert_eq!(split.predicted_ns, 5100.0);
    }

    #[test]
    fn a_line_that_begins_late_or_works_slowly_gets_less() {
        let split = split(1000, 0, &[line(0.0, 10.0), line(2000.0, 10.0), line(0.0, 40.0)], 0.0).expect("it pays");
        let ops = |line| split.parts.iter().find(|part| part.line == line).map_or(0, |part| part.ops);
        assert!(ops(0) > ops(1) && ops(1) > ops(2) && ops(2) > 0, "{split:?}");
    }

    #[test]
    fn steps_are_not_cut() {
        let in_steps = |ops: u64| {
            // Eight at the price of one step of 500 µs.
            let cost = Cost::new(100.0, 62_500.0, 0.0).in_steps(ops, 8);
            let line = |start_ns| Line { engine: 0, cost, start_ns, step: 8 };
            let found = split(ops, 0, &[line(0.0), line(50_000.0), line(50_000.0)], 25_000.0)?;
            Some((found.parts.iter().map(|part| part.ops).collect::<Vec<_>>(), found.predicted_ns))
        };
        for whole in 1..=8 {
            assert_eq!(in_steps(whole), None, "{whole} operations are one step");
        }
        assert_eq!(in_steps(9), Some((vec![8, 1], 550_100.0)));
        assert_eq!(in_steps(24), Some((vec![8, 8, 8], 550_100.0)));
        assert_eq!(in_steps(64), Some((vec![24, 24, 16], 1_550_100.0)));
    }

    #[test]
    fn a_small_batch_stays_whole() {
        assert_eq!(split(100, 0, &[line(0.0, 10.0), line(70_000.0, 10.0)], 0.0), None);
        assert_eq!(split(1000, 0, &[line(0.0, 10.0), line(0.0, 10.0)], 6_000.0), None, "not worth the trouble");
        assert_eq!(split(1000, 0, &[line(0.0, 10.0)], 0.0), None);
        assert_eq!(split(0, 0, &[line(0.0, 10.0), line(0.0, 10.0)], 0.0), None);
        assert_eq!(split(1000, 0, &[], 0.0), None);
    }

    fn any_line() -> impl Strategy<Value = Line> {
        let step = prop::sample::select(vec![1u16, 1, 4, 8]);
        (0usize..4, 0.0..1e5f64, 0.0..1e5f64, 0.0..1e4f64, 0.0..50.0f64, step).prop_map(
            |(engine, start_ns, batch_ns, op_ns, byte_ns, step)| Line {
                engine,
                cost: Cost::new(batch_ns, op_ns, byte_ns),
                start_ns,
                step,
            },
        )
    }

    proptest! {
        #[test]
        fn a_split_holds_every_operation_and_is_never_worse(
            ops in 0u64..100_000,
            len in 0u64..5000,
            lines in prop::collection::vec(any_line(), 0..10),
            gain_ns in 0.0..1e5f64,
        ) {
            let Some(split) = split(ops, ops * len, &lines, gain_ns) else { return Ok(()) };
            prop_assert_eq!(split.parts.iter().map(|part| part.ops).sum::<u64>(), ops);
            prop_assert!(split.parts.iter().all(|part| part.ops > 0 && part.line < lines.len()));
            let mut used: Vec<usize> = split.parts.iter().map(|part| part.line).collect();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len(), split.parts.len());
            let alone_ns = lines[0].start_ns + lines[0].cost.predict_ns(ops, ops * len);
            prop_assert!(split.predicted_ns <= alone_ns - gain_ns + 1e-3 * alone_ns.abs());
            let cut = split.parts.iter().filter(|part| !part.ops.is_multiple_of(lines[part.line].step.into())).count();
            prop_assert!(cut <= 1, "{cut} parts end within a step");
        }

        #[test]
        fn another_line_never_makes_it_later(
            ops in 1000u64..100_000,
            lines in prop::collection::vec(any_line(), 2..8),
            more in any_line(),
        ) {
            let Some(before) = split(ops, 64 * ops, &lines, 0.0) else { return Ok(()) };
            let mut wider = lines.clone();
            wider.push(more);
            let after = split(ops, 64 * ops, &wider, 0.0).expect("it paid with fewer lines");
            // Rounding to whole steps may cost one step a part.
            let step_ns = |line: &Line| (line.cost.op_ns + 64.0 * line.cost.byte_ns) * f64::from(line.step);
            let slack = wider.iter().map(step_ns).fold(0.0, f64::max);
            prop_assert!(after.predicted_ns <= before.predicted_ns + 2.0 * slack);
        }
    }
}
