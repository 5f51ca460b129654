//! The processor's own counters of instructions and cycles, where programs may read them.

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};

/// Both counters, for this thread and threads that it starts.
pub(crate) struct Counters {
    instructions: Counter,
    cycles: Counter,
    /// One of them did not obey, so that what they say means nothing.
    failed: bool,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    pub(crate) instructions: u64,
    pub(crate) cycles: u64,
}

impl Counters {
    /// The counters, at zero and standing still.
    ///
    /// # Errors
    /// In words, when the machine has none (most virtual machines) or does not let this user read them.
    pub(crate) fn open() -> Result<Counters, String> {
        Counters::of(Hardware::INSTRUCTIONS.into(), Hardware::CPU_CYCLES.into())
    }

    fn of(instructions: Event, cycles: Event) -> Result<Counters, String> {
        let open = |event: Event| {
            let mut builder = Builder::new().kind(event);
            builder.inherit(true);
            builder.build().map_err(|error| error.to_string())
        };
        Ok(Counters { instructions: open(instructions)?, cycles: open(cycles)?, failed: false })
    }

    /// Counts `work` and adds it to what was counted before.
    pub(crate) fn count(&mut self, work: impl FnOnce()) {
        let started = self.instructions.enable().and_then(|()| self.cycles.enable());
        work();
        let stopped = self.instructions.disable().and_then(|()| self.cycles.disable());
        self.failed |= started.and(stopped).is_err();
    }

    /// What was counted so far; `None` when a counter did not obey or has not run.
    pub(crate) fn reading(&mut self) -> Option<Reading> {
        let reading = Reading { instructions: self.instructions.read().ok()?, cycles: self.cycles.read().ok()? };
        (!self.failed && reading.cycles > 0).then_some(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds of work, which a machine without other counters counts too.
    fn task_clock() -> Event {
        perf_event::events::Software::TASK_CLOCK.into()
    }

    fn work() {
        for i in 0..1_000_000u64 {
            std::hint::black_box(i);
        }
    }

    #[test]
    fn readings_add_up_and_threads_belong_to_them() {
        let Ok(mut counters) = Counters::of(task_clock(), task_clock()) else { return };
        assert!(counters.reading().is_none(), "nothing was counted yet");
        counters.count(work);
        let once = counters.reading().expect("a reading");
        counters.count(|| std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work)))));
        let more = counters.reading().expect("a reading");
        assert!(more.cycles > 4 * once.cycles, "{once:?}, then {more:?}");
    }

    #[test]
    fn instructions_are_counted_or_it_is_said_why_not() {
        match Counters::open() {
            Ok(mut counters) => {
                counters.count(work);
                let reading = counters.reading().expect("a reading");
                assert!(reading.instructions >= 1_000_000, "{reading:?}");
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
