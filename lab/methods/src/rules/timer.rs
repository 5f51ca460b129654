//! What the clock that methods read can tell apart, and what reading it costs.

use std::time::Instant;

/// Reads of one look.
const READS: u32 = 4096;

/// Looks; the best counts, since whatever comes between makes them longer.
const LOOKS: usize = 5;

/// The clock, measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    /// The smallest step between two reads that differ, nanoseconds.
    pub(super) resolution_ns: f64,
    /// What a read takes, nanoseconds.
    pub(super) cost_ns: f64,
}

impl Timer {
    /// Measures the clock.
    pub(super) fn measure() -> Timer {
        let mut best = Timer { resolution_ns: f64::MAX, cost_ns: f64::MAX };
        for _ in 0..LOOKS {
            let start = Instant::now();
            let reads = (0..READS).map(|_| start.elapsed().as_nanos() as u64);
            let look = Timer::of(reads);
            best.resolution_ns = best.resolution_ns.min(look.resolution_ns);
            best.cost_ns = best.cost_ns.min(look.cost_ns);
        }
        best
    }

    /// From what was read, one directly after the other, nanoseconds since the first.
    fn of(reads: impl Iterator<Item = u64>) -> Timer {
        let (mut last, mut count, mut smallest) = (0, 0u64, f64::MAX);
        for read in reads {
            if read > last {
                smallest = smallest.min((read - last) as f64);
            }
            (last, count) = (read, count + 1);
        }
        Timer { resolution_ns: smallest, cost_ns: last as f64 / count.max(1) as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_step_and_the_mean_cost_are_found() {
        // A clock that steps by 42 and is read five times in 100 ns.
        let timer = Timer::of([0, 42, 42, 84, 126].into_iter());
        assert_eq!((timer.resolution_ns, timer.cost_ns), (42.0, 126.0 / 5.0));
    }

    #[test]
    fn this_machines_clock_is_measured() {
        let timer = Timer::measure();
        assert!(timer.resolution_ns >= 1.0 && timer.resolution_ns < 1e8, "{timer:?}");
        assert!(timer.cost_ns > 0.0 && timer.cost_ns < 1e6, "{timer:?}");
    }
}
