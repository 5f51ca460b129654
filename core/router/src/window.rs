//! `window`: how long single operations that are collected wait for more of their kind.
//!
//! Lanes that go in step cost as much however full they are, so that operations which come soon cost nothing if they come in
//! time. But whoever waits pays for it, and nobody knows whether others come. What is compared is the time until each of them
//! is done, over all of those that are there and those that are expected: with all of them in one batch at the end of the
//! window, and with the first at once and each later one by itself, one after the other on the same core. Other cores that
//! are idle would end them sooner, at the price of their time; waiting saves that time, and is bounded.
//!
//! The costs that are compared are those of whole batches on the engine that is best for each, in steps
//! ([`Cost::in_steps`](ciphermill_contract::Cost::in_steps)), so that a window ends with a full step if it can.

/// The weight of the last gap among all: about so many arrivals are remembered as its inverse.
const WEIGHT: f64 = 1.0 / 8.0;

/// A gap counts as so many times the longest window at most: what is longer says the same, that nobody comes in time, and a
/// pause of a minute is forgotten as quickly as one of some milliseconds.
const GAP_MAX: f64 = 16.0;

/// Operations that are waited for at most: more than any step has.
const MORE_MAX: u64 = 64;

/// How quickly operations of one kind arrive: an exponentially weighted mean of the gaps between them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Arrivals {
    /// `None` before there was one.
    gap_ns: Option<f64>,
}

/// Operations that are collected, and what is known of others that may come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gathering {
    /// Operations that are there.
    pub ops: u64,
    /// Callers with an operation of this kind on its way, those who are there included.
    pub callers: u64,
    /// How quickly operations arrive.
    pub arrivals: Arrivals,
    /// The longest window in nanoseconds; with zero there are none.
    pub max_ns: f64,
    /// What being collected costs an operation: a change of threads, in nanoseconds.
    pub change_ns: f64,
}

/// What a batch takes on the engine that is best for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchTime {
    /// Nanoseconds.
    pub ns: f64,
    /// Operations that are paid for together on that engine.
    pub step: u16,
}

/// How long more operations are waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Nanoseconds from now, at most [`Gathering::max_ns`].
    pub ns: f64,
    /// With so many operations nothing more is waited for.
    pub full: u64,
}

impl Arrivals {
    /// The mean after an arrival so many nanoseconds behind the one before, when windows are `max_ns` long at most.
    #[must_use]
    pub fn after(self, gap_ns: f64, max_ns: f64) -> Arrivals {
        let gap_ns = gap_ns.clamp(0.0, GAP_MAX * max_ns);
        let mean = self.gap_ns.map_or(gap_ns, |mean| mean + WEIGHT * (gap_ns - mean));
        Arrivals { gap_ns: Some(mean) }
    }

    /// The same, when nobody has come for so many nanoseconds: gaps are taken to be as long at least.
    #[must_use]
    pub fn slower(self, since_ns: f64) -> Arrivals {
        Arrivals { gap_ns: self.gap_ns.map(|mean| mean.max(since_ns)) }
    }

    /// The mean gap in nanoseconds; infinite before two have arrived.
    pub fn gap_ns(self) -> f64 {
        self.gap_ns.unwrap_or(f64::INFINITY)
    }
}

/// How long the operations of `gathering` wait for more; `None` when they do not. `time` says what a batch of so many takes.
///
/// Nobody waits who is alone. Else, of all numbers of further operations up to the next full step that are expected within
/// the longest window, the one is waited for with which all together are predicted to save the most.
pub fn window(gathering: &Gathering, time: impl Fn(u64) -> BatchTime) -> Option<Window> {
    let Gathering { ops, callers, max_ns, change_ns, .. } = *gathering;
    let gap_ns = gathering.arrivals.gap_ns();
    if ops == 0 || callers < 2 || max_ns <= 0.0 || gap_ns > max_ns {
        return None;
    }
    let (now_ns, alone_ns) = (time(ops).ns, time(1).ns);
    // Without a window: when the last of them is done, and how long all have taken together.
    let (mut done_ns, mut apart_ns) = (now_ns, now_ns * ops as f64);
    let mut best: Option<(f64, u64)> = None;
    let mut full = None;
    for more in 1..=MORE_MAX {
        let arrives_ns = more as f64 * gap_ns;
        if arrives_ns > max_ns {
            break;
        }
        done_ns = done_ns.max(arrives_ns) + alone_ns;
        apart_ns += done_ns - arrives_ns;
        let (all, BatchTime { ns, step }) = (ops + more, time(ops + more));
        // With it: all end at once, those that came later have waited less.
        let later_ns = gap_ns * (more * (more + 1) / 2) as f64;
        let together_ns = (arrives_ns + ns + change_ns) * all as f64 - later_ns;
        let saved_ns = apart_ns - together_ns;
        // Changes of threads are work too, which the engine has to save.
        let pays = now_ns + more as f64 * alone_ns - ns > change_ns * all as f64;
        if pays && saved_ns > best.map_or(0.0, |(saved_ns, _)| saved_ns) {
            best = Some((saved_ns, more));
        }
        if step > 1 && all.is_multiple_of(step.into()) {
            full = Some(all);
            break;
        }
    }
    let (_, more) = best?;
    let last = time(ops + more).step;
    // More than expected are welcome until the step is full; where there are no steps, as many as were reckoned with.
    let full = full.unwrap_or((ops + more).next_multiple_of(u64::from(last.max(1))));
    Some(Window { ns: more as f64 * gap_ns, full })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_contract::Cost;
    use proptest::prelude::*;

    const MAX_NS: f64 = 200_000.0;

    /// A library that takes 260 µs for an operation, and lanes that take 500 for eight.
    fn signatures(ops: u64) -> BatchTime {
        best(&[(Cost::new(100.0, 260_000.0, 0.0), 1), (Cost::new(500.0, 62_500.0, 0.0), 8)], ops)
    }

    fn best(engines: &[(Cost, u16)], ops: u64) -> BatchTime {
        let time =
            |(cost, step): &(Cost, u16)| BatchTime { ns: cost.in_steps(ops, *step).predict_ns(ops, 0), step: *step };
        let times = engines.iter().map(time);
        times.min_by(|a, b| a.ns.total_cmp(&b.ns)).expect("there is one")
    }

    fn gathering(ops: u64, callers: u64, gap_ns: f64) -> Gathering {
        let arrivals = Arrivals::default().after(gap_ns, MAX_NS);
        Gathering { ops, callers, arrivals, max_ns: MAX_NS, change_ns: 3_000.0 }
    }

    /// Operations that are there, callers, gap in microseconds: the window in microseconds and when it is full.
    #[test]
    fn windows_follow_from_arrivals_and_costs() {
        type Row = (u64, u64, f64, Option<(f64, u64)>);
        let table: [Row; 13] = [
            // Alone, however quickly others came before.
            (1, 1, 1.0, None),
            // Until the eighth.
            (1, 2, 1.0, Some((7.0, 8))),
            (1, 9, 20.0, Some((140.0, 8))),
            (5, 9, 20.0, Some((60.0, 8))),
            (7, 8, 20.0, Some((20.0, 8))),
            // The eighth would be too late; those who come in time are worth it.
            (1, 9, 40.0, Some((200.0, 8))),
            // Too slow to be worth it: few would come.
            (1, 9, 70.0, None),
            (1, 9, 199.0, None),
            (1, 9, 1e6, None),
            // The next step is full, and one more.
            (8, 9, 100.0, None),
            (9, 20, 5.0, Some((35.0, 16))),
            // Seven would have to wait for one.
            (7, 8, 150.0, None),
            (0, 5, 1.0, None),
        ];
        for (ops, callers, gap_us, expected) in table {
            let found = window(&gathering(ops, callers, 1000.0 * gap_us), signatures);
            let found = found.map(|window| (window.ns / 1000.0, window.full));
            assert_eq!(found, expected, "{ops} operations of {callers} callers, one in {gap_us} µs");
        }
    }

    #[test]
    fn nobody_waits_where_steps_save_nothing() {
        let cheap = |ops| best(&[(Cost::new(30.0, 100.0, 0.0), 1), (Cost::new(200.0, 10.0, 0.0), 1)], ops);
        let even = |ops| best(&[(Cost::new(0.0, 260_000.0, 0.0), 1)], ops);
        let cheap_steps = |ops| best(&[(Cost::new(30.0, 100.0, 0.0), 1), (Cost::new(0.0, 20.0, 0.0), 8)], ops);
        for gap_ns in [1.0, 100.0, 10_000.0, 150_000.0] {
            for ops in [1, 3, 7, 20] {
                let gathering = gathering(ops, 64, gap_ns);
                assert_eq!(window(&gathering, cheap), None, "a change of threads takes more");
                assert_eq!(window(&gathering, cheap_steps), None, "the same");
                assert_eq!(window(&gathering, even), None, "an engine for which all cost the same");
            }
        }
        let none = Gathering { max_ns: 0.0, arrivals: Arrivals::default().after(1000.0, 0.0), ..gathering(1, 9, 1.0) };
        assert_eq!(window(&none, signatures), None, "windows are switched off");
        let nobody = Gathering { arrivals: Arrivals::default(), ..gathering(1, 9, 1000.0) };
        assert_eq!(window(&nobody, signatures), None, "nothing is known of arrivals");
    }

    #[test]
    fn arrivals_are_a_mean_that_forgets() {
        let steady = (0..100).fold(Arrivals::default(), |arrivals, _| arrivals.after(10_000.0, MAX_NS));
        assert!((steady.gap_ns() - 10_000.0).abs() < 1e-6);
        let paused = steady.after(1e12, MAX_NS);
        assert!(paused.gap_ns() > MAX_NS, "after a pause nobody waits");
        let again = (0..40).fold(paused, |arrivals, _| arrivals.after(10_000.0, MAX_NS));
        assert!(again.gap_ns() < 13_000.0, "{}", again.gap_ns());
        assert_eq!((steady.slower(5_000.0), steady.slower(30_000.0).gap_ns()), (steady, 30_000.0));
        assert_eq!(Arrivals::default().slower(5.0).gap_ns(), f64::INFINITY);
    }

    /// When the last of `ops` and of those who arrive is done on one core, each later one by itself.
    fn apart_ns(engines: &[(Cost, u16)], ops: u64, arrivals: &[f64]) -> f64 {
        let (alone_ns, now_ns) = (best(engines, 1).ns, best(engines, ops).ns);
        arrivals.iter().fold(now_ns, |done_ns, arrives_ns| done_ns.max(*arrives_ns) + alone_ns)
    }

    fn engines() -> impl Strategy<Value = Vec<(Cost, u16)>> {
        let engine = (0.0..1e5f64, 1.0..1e6f64, prop::sample::select(vec![1u16, 4, 8, 16]));
        prop::collection::vec(engine.prop_map(|(batch_ns, op_ns, step)| (Cost::new(batch_ns, op_ns, 0.0), step)), 1..4)
    }

    proptest! {
        /// As predicted, all together take no longer than without the window. Whoever else comes or does not come, the last
        /// is done no more than the window later.
        #[test]
        fn a_window_costs_no_more_than_itself(
            engines in engines(),
            ops in 1u64..8,
            callers in 0u64..100,
            gap_ns in 1.0..3e5f64,
            come in prop::collection::vec(0.0..1.0f64, 0..64),
        ) {
            let gathering = gathering(ops, callers, gap_ns);
            let Some(window) = window(&gathering, |ops| best(&engines, ops)) else { return Ok(()) };
            prop_assert!(callers > 1 && window.ns > 0.0 && window.ns <= MAX_NS);
            prop_assert!(window.full > ops && window.full <= ops + MORE_MAX + 15);
            // As predicted: the total over all of them.
            let more = (window.ns / gap_ns).round() as u64;
            let arrivals: Vec<f64> = (1..=more).map(|number| number as f64 * gap_ns).collect();
            let (alone_ns, now_ns) = (best(&engines, 1).ns, best(&engines, ops).ns);
            let (mut done_ns, mut without) = (now_ns, now_ns * ops as f64);
            for arrives_ns in &arrivals {
                done_ns = done_ns.max(*arrives_ns) + alone_ns;
                without += done_ns - arrives_ns;
            }
            let end_ns = window.ns + best(&engines, ops + more).ns;
            let with = end_ns * ops as f64 + arrivals.iter().map(|arrives_ns| end_ns - arrives_ns).sum::<f64>();
            prop_assert!(with <= without + window.ns, "{with} ns in all, {without} without");
            // Whoever comes: up to a full step, at any time within the window.
            let mut come: Vec<f64> = come.into_iter().map(|share| share * window.ns).collect();
            come.truncate((window.full - ops) as usize);
            come.sort_unstable_by(f64::total_cmp);
            let all = ops + come.len() as u64;
            let leaves_ns = if all == window.full { *come.last().unwrap_or(&0.0) } else { window.ns };
            let with = leaves_ns + best(&engines, all).ns;
            let without = apart_ns(&engines, ops, &come);
            prop_assert!(with <= (without + window.ns) * (1.0 + 1e-9), "{with} ns with {window:?}, {without} without");
        }

        #[test]
        fn slower_arrivals_never_fill_more(ops in 1u64..8, gap_ns in 1.0..2e5f64, slower in 1.0..4.0f64) {
            let expected = |gap_ns: f64| {
                window(&gathering(ops, 64, gap_ns), signatures).map_or(0.0, |window| window.ns / gap_ns)
            };
            prop_assert!(expected(gap_ns * slower) <= expected(gap_ns) + 1e-9);
        }
    }
}
