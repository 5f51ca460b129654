//! How fast the processor's clock runs, for machines that do not let programs count its cycles.

use std::hint::black_box;

use crate::timing::Contestant;

/// Links of the chain in one run; a fifth of a millisecond or so.
const LINKS: u32 = 200_000;

/// Cycles of a link: an exclusive or, an addition and a rotation, each of which takes one and waits for the one before, on
/// every x86-64 and AArch64 core that the project runs on.
const LINK_CYCLES: u32 = 3;

/// A chain of dependent instructions. Timed beside other work, its time says how many cycles that took.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    end: u64,
}

impl Clock {
    /// Gigahertz, when one run took this many nanoseconds.
    pub(crate) fn ghz(ns: f64) -> f64 {
        if ns > 0.0 { f64::from(LINKS * LINK_CYCLES) / ns } else { 0.0 }
    }
}

impl Contestant for Clock {
    fn reset(&mut self) {}

    fn run(&mut self) {
        // The compiler must not know the constant, with which it could join links.
        let (mut x, k) = (self.end, black_box(0x9e37_79b9_7f4a_7c15_u64));
        for _ in 0..LINKS / 8 {
            for _ in 0..8 {
                x = (x ^ k).wrapping_add(k).rotate_left(7);
            }
        }
        self.end = black_box(x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_as_many_cycles_as_links_say() {
        assert_eq!(Clock::ghz(300_000.0), 2.0);
        assert_eq!(Clock::ghz(0.0), 0.0);
        let mut clock = Clock::default();
        clock.run();
        let first = clock.end;
        clock.run();
        assert_ne!(clock.end, first);
    }
}
