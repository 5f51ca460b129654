//! Cycles: counted where the processor lets programs count, and worked out from the clock's rate where it does not.

use std::time::Instant;

use crate::clock::Clock;
use crate::counters::Counters;
use crate::timing::Contestant;

/// Runs of the chain in one look at the clock; the fastest counts, since whatever comes between makes it longer.
const CHAINS: usize = 5;

/// Where cycles come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CyclesBy {
    /// The processor's counters.
    Counters,
    /// The time and the clock's rate; why there are no counters.
    Clock(String),
}

/// How cycles are found on this machine.
pub(crate) fn cycles_by() -> CyclesBy {
    match Counters::open() {
        Ok(_) => CyclesBy::Counters,
        Err(why) => CyclesBy::Clock(why),
    }
}

/// The rate of the clock of the core that this thread is on, in gigahertz, by a chain of dependent instructions.
pub(crate) fn ghz() -> f64 {
    let mut clock = Clock::default();
    clock.run();
    let time = |clock: &mut Clock| {
        let start = Instant::now();
        clock.run();
        start.elapsed().as_nanos() as f64
    };
    let fastest_ns = (0..CHAINS).map(|_| time(&mut clock)).fold(f64::MAX, f64::min);
    Clock::ghz(fastest_ns)
}

/// Cycles of `run`: by the processor's counters, which it is run once more for; without them what `ns` nanoseconds are at
/// the clock's rate.
pub(crate) fn cycles(ns: f64, clock_ghz: f64, run: impl FnOnce()) -> f64 {
    let counted = Counters::open().ok().and_then(|mut counters| {
        counters.count(run);
        counters.reading()
    });
    counted.map_or(ns * clock_ghz, |reading| reading.cycles as f64)
}

impl CyclesBy {
    /// In words, for the note of a table that has cycles.
    pub(crate) fn note(&self) -> String {
        match self {
            CyclesBy::Counters => "Cycles are the processor's own count.".to_owned(),
            CyclesBy::Clock(why) => format!(
                "Cycles are the time by the core's clock rate, which a chain of dependent instructions tells; there are no \
                 counters to ask here ({why})."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_cycles_is_said() {
        assert!(CyclesBy::Counters.note().contains("own count"));
        assert!(CyclesBy::Clock("no such device".to_owned()).note().contains("(no such device)"));
        assert_eq!(cycles_by() == CyclesBy::Counters, Counters::open().is_ok());
    }

    #[test]
    fn the_clock_has_a_rate() {
        assert!((0.05..10.0).contains(&ghz()));
    }
}
