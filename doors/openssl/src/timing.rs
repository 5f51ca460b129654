//! How long something takes, measured in the process of an application.

use std::time::Instant;

/// Of so many runs the fastest counts: any of them may be interrupted.
const RUNS: usize = 5;

/// The shortest of some runs in seconds; `None` when one fails.
pub(crate) fn fastest(mut run: impl FnMut() -> bool) -> Option<f64> {
    let mut best = f64::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        if !run() {
            return None;
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    Some(best)
}
