//! The measuring rules that all methods share: what is watched while they measure, and what forbids quoting the figures.
//!
//! A [`Watch`] sees what a method cannot: that the core's clock drifted, that a hypervisor or another program took time, that
//! the measuring thread lost its core. Whatever it finds is told as a disturbance with the reason and what to try: absolute
//! times are then those of this run only. It forbids no quoting, since ratios are taken round by round and have an interval,
//! which is wide where the disturbance mattered. A build without optimisation is a warning, which forbids it.
//! [`record`] runs methods under a watch.

mod cycles;
mod record;
mod system;
mod timer;

use std::time::{Duration, Instant};

use ciphermill_report::Environment;

pub(crate) use cycles::{cycles, cycles_by, ghz};
pub use record::{Listener, Measuring, Recorded, Work, machine, record};
use system::{Moment, ThreadMoment};
use timer::Timer;

/// The clock's drift above which figures taken at different times cannot be compared.
const DRIFT_MAX: f64 = 0.03;

/// The share of wanted time that a hypervisor may give to others.
const STEAL_MAX: f64 = 0.01;

/// What other programs may use, in cores.
const OTHERS_MAX: f64 = 0.1;

/// How busy a core may be that shares the measuring core's execution units.
const SIBLING_MAX: f64 = 0.05;

/// How often in a second a thread that measures alone may lose its core.
const PREEMPTIONS_PER_S_MAX: f64 = 10.0;

/// What a process's other threads may use, in cores, for its measuring thread to count as alone.
const ALONE_MAX: f64 = 0.05;

/// Steps of the clock that are too coarse for runs of a fraction of a millisecond.
const RESOLUTION_MAX_NS: f64 = 1000.0;

/// Seconds of a tick; Linux's interface fixes it on the architectures that the project runs on.
const TICK_S: f64 = 0.01;

/// Ticks below which shares of them say nothing.
const TICKS_MIN: u64 = 100;

/// The core's clock is looked at this often at most.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Watches the machine while methods measure.
pub struct Watch {
    core: Option<usize>,
    timer: Timer,
    start: Moment,
    load: Option<f64>,
    /// The core's clock at each look, gigahertz.
    clock_ghz: Vec<f64>,
    looked: Option<Instant>,
    preemptions: Option<u64>,
    /// Preemptions of threads that measured alone, and how long they did.
    alone: (u64, Duration),
}

/// What a watch has seen, as shares; separate from the watch so that what follows from it can be tested.
#[derive(Clone, Debug, Default)]
struct Seen {
    optimised: bool,
    resolution_ns: f64,
    ghz: Option<[f64; 2]>,
    governor: Option<String>,
    steal: Option<f64>,
    /// Cores that other programs used.
    others: Option<f64>,
    load: Option<f64>,
    /// Another core that shares execution units, and how busy others kept it.
    sibling: Option<(usize, f64)>,
    preemptions_per_s: f64,
    pinned: bool,
}

impl Watch {
    /// Begins. `core` is the one that the measuring thread is pinned to.
    pub fn start(core: Option<usize>) -> Watch {
        let preemptions = ThreadMoment::now().preemptions.map(|_| 0);
        Watch {
            core,
            timer: Timer::measure(),
            start: Moment::now(),
            load: system::load_average(),
            clock_ghz: Vec::new(),
            looked: None,
            preemptions,
            alone: (0, Duration::ZERO),
        }
    }

    /// Runs `work` on this thread, which is the measuring one meanwhile: counts how often it loses its core.
    pub fn attend<T>(&mut self, work: impl FnOnce(&mut Watch) -> T) -> T {
        let (before, started) = (ThreadMoment::now(), Instant::now());
        let outcome = work(self);
        let (after, took) = (ThreadMoment::now(), started.elapsed());
        self.look();
        let added = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
        let Some(preemptions) = added(before.preemptions, after.preemptions) else { return outcome };
        self.preemptions = self.preemptions.map(|sum| sum + preemptions);
        let own = added(before.process, after.process).zip(added(before.thread, after.thread));
        let others = own.map(|(process, thread)| process.saturating_sub(thread) as f64 * TICK_S);
        // Threads of one method that take turns on a core are no disturbance.
        if others.is_some_and(|others_s| others_s <= ALONE_MAX * took.as_secs_f64()) {
            self.alone = (self.alone.0 + preemptions, self.alone.1 + took);
        }
        outcome
    }

    /// Looks at the core's clock, unless that was done a moment ago. For methods to call between their timings.
    pub fn look_now_and_then(&mut self) {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            self.look();
        }
    }

    fn look(&mut self) {
        self.clock_ghz.push(ghz());
        self.looked = Some(Instant::now());
    }

    /// Ends: what was seen, and what follows from it.
    pub fn finish(mut self) -> Environment {
        if self.clock_ghz.is_empty() {
            self.look();
        }
        let end = Moment::now();
        let seen = self.seen(&end);
        Environment {
            timer_resolution_ns: self.timer.resolution_ns,
            timer_cost_ns: self.timer.cost_ns,
            ghz: seen.ghz,
            steal: seen.steal,
            preemptions: self.preemptions,
            core: self.core,
            warnings: seen.warnings(),
            disturbances: seen.disturbances(),
        }
    }

    fn seen(&self, end: &Moment) -> Seen {
        let cores = self.start.cores.len().max(1) as f64;
        let passed = self.start.all.zip(end.all).map(|(start, end)| end.since(start));
        let enough = passed.filter(|ticks| ticks.total() >= TICKS_MIN);
        let own = self.start.process.zip(end.process).map(|(start, end)| end.saturating_sub(start));
        let others = enough.zip(own).map(|(ticks, own)| {
            let elapsed = ticks.total() as f64 / cores;
            ticks.busy.saturating_sub(own) as f64 / elapsed
        });
        let (count, alone) = self.alone;
        Seen {
            optimised: !cfg!(debug_assertions),
            resolution_ns: self.timer.resolution_ns,
            ghz: range(&self.clock_ghz),
            governor: system::governor(self.core.unwrap_or(0)),
            // A pinned thread's steal time is its core's.
            steal: match self.core {
                Some(core) => self.start.core(core).zip(end.core(core)).map(|(start, end)| end.since(start)),
                None => passed,
            }
            .map(system::Ticks::steal_share),
            others,
            load: self.load,
            sibling: self.busiest_sibling(end),
            preemptions_per_s: if alone.is_zero() { 0.0 } else { count as f64 / alone.as_secs_f64() },
            pinned: self.core.is_some(),
        }
    }

    /// The busiest core that shares execution units with the one that is pinned to, less what this process may have done
    /// there.
    fn busiest_sibling(&self, end: &Moment) -> Option<(usize, f64)> {
        let core = self.core?;
        let of = |core: usize| Some(end.core(core)?.since(self.start.core(core)?));
        let own = end.process?.saturating_sub(self.start.process?);
        let elsewhere = own.saturating_sub(of(core)?.busy);
        let busy = |sibling: usize| {
            let ticks = of(sibling)?;
            let share = ticks.busy.saturating_sub(elsewhere) as f64 / ticks.total().max(1) as f64;
            (ticks.total() >= TICKS_MIN).then_some((sibling, share))
        };
        system::siblings(core).into_iter().filter_map(busy).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

impl Seen {
    /// What forbids quoting, each with the reason and what to try.
    fn warnings(&self) -> Vec<String> {
        let unoptimised =
            "the program was built without optimisation, so its figures mean nothing; try a release build (--release)";
        if self.optimised { Vec::new() } else { vec![unoptimised.to_owned()] }
    }

    /// What made absolute times doubtful, each with what to try.
    fn disturbances(&self) -> Vec<String> {
        let mut told = Vec::new();
        if let Some([low, high]) = self.ghz.filter(|[low, high]| high - low > DRIFT_MAX * high) {
            let governor = match self.governor.as_deref() {
                Some("performance") | None => String::new(),
                Some(governor) => {
                    format!(
                        " the system sets it by the governor `{governor}`: try `cpupower frequency-set -g performance`;"
                    )
                }
            };
            told.push(format!(
                "the core's clock drifted by {:.0} %, from {low:.2} to {high:.2} GHz;{governor} try again when the machine is \
                 cool and quiet, or without turbo",
                (high - low) / high * 100.0
            ));
        }
        if let Some(steal) = self.steal.filter(|steal| *steal > STEAL_MAX) {
            told.push(format!(
                "the hypervisor gave {:.1} % of the time to other machines; try again later, or on a machine of your own",
                steal * 100.0
            ));
        }
        if let Some(others) = self.others.filter(|others| *others > OTHERS_MAX) {
            let load = self.load.map_or_else(String::new, |load| format!(" (load average at the start: {load:.1})"));
            told.push(format!("other programs used {others:.1} cores{load}; try ending them, or wait for them"));
        }
        if let Some((core, busy)) = self.sibling.filter(|(_, busy)| *busy > SIBLING_MAX) {
            told.push(format!(
                "core {core}, which shares execution units with the measuring one, was busy {:.0} % of the time; try another \
                 --core, or switch hyperthreading off",
                busy * 100.0
            ));
        }
        if self.preemptions_per_s > PREEMPTIONS_PER_S_MAX {
            let pin = if self.pinned { "another --core, or" } else { "--core, or" };
            told.push(format!(
                "the measuring thread lost its core to another {:.0} times a second; try {pin} a quieter machine",
                self.preemptions_per_s
            ));
        }
        if self.resolution_ns > RESOLUTION_MAX_NS {
            told.push(format!(
                "the clock goes in steps of {:.0} ns; try a longer --time, or another clock source of the system",
                self.resolution_ns
            ));
        }
        told
    }
}

fn range(values: &[f64]) -> Option<[f64; 2]> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Seen {
        Seen {
            optimised: true,
            resolution_ns: 30.0,
            ghz: Some([2.95, 3.0]),
            governor: Some("powersave".to_owned()),
            steal: Some(0.005),
            others: Some(0.05),
            load: Some(4.0),
            sibling: Some((1, 0.01)),
            preemptions_per_s: 3.0,
            pinned: true,
        }
    }

    #[test]
    fn a_quiet_machine_gives_no_warning() {
        for seen in [quiet(), Seen { optimised: true, ..Seen::default() }] {
            assert!(seen.warnings().is_empty() && seen.disturbances().is_empty(), "{seen:?}");
        }
    }

    #[test]
    fn each_disturbance_is_named_with_what_to_try() {
        let cases = [
            (Seen { ghz: Some([2.7, 3.0]), ..quiet() }, ["10 %, from 2.70 to 3.00 GHz", "governor `powersave`"]),
            (Seen { ghz: Some([2.7, 3.0]), governor: None, ..quiet() }, ["2.70 to 3.00 GHz; try again", "turbo"]),
            (Seen { steal: Some(0.123), ..quiet() }, ["12.3 %", "try again later"]),
            (Seen { others: Some(0.83), ..quiet() }, ["other programs used 0.8 cores", "start: 4.0"]),
            (Seen { sibling: Some((5, 0.5)), ..quiet() }, ["core 5", "another --core"]),
            (Seen { preemptions_per_s: 40.0, ..quiet() }, ["40 times a second", "another --core"]),
            (Seen { preemptions_per_s: 40.0, pinned: false, ..quiet() }, ["40 times", "try --core"]),
            (Seen { resolution_ns: 15_000.0, ..quiet() }, ["15000 ns", "--time"]),
        ];
        for (seen, words) in cases {
            let told = seen.disturbances();
            assert!(told.len() == 1 && seen.warnings().is_empty(), "{told:?}");
            for word in words {
                assert!(told[0].contains(word), "`{word}` is missing in: {}", told[0]);
            }
        }
        let warnings = Seen { optimised: false, ..quiet() }.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("--release"), "{warnings:?}");
    }

    #[test]
    fn a_busy_neighbour_is_told_from_own_work() {
        let ticks = |busy, idle| system::Ticks { busy, idle, steal: 0 };
        let mut watch = Watch::start(None);
        watch.start = Moment {
            all: Some(ticks(1000, 1000)),
            cores: vec![(0, ticks(500, 500)), (1, ticks(500, 500))],
            process: Some(10),
        };
        let end = |own: u64| Moment { all: Some(ticks(1300, 1100)), cores: Vec::new(), process: Some(10 + own) };
        // Two cores for 200 ticks, 300 of them busy: one core and a half.
        assert_eq!(watch.seen(&end(300)).others, Some(0.0));
        assert_eq!(watch.seen(&end(200)).others, Some(0.5));
        assert_eq!(watch.seen(&Moment::default()).others, None);
    }

    #[test]
    fn a_watch_sees_this_machine() {
        let mut watch = Watch::start(None);
        let value = watch.attend(|watch| {
            watch.look_now_and_then();
            watch.look_now_and_then();
            assert_eq!(watch.clock_ghz.len(), 1, "the second look comes too soon");
            7
        });
        assert_eq!((value, watch.clock_ghz.len()), (7, 2));
        let environment = watch.finish();
        let [low, high] = environment.ghz.expect("the chain was timed");
        assert!(0.05 < low && low <= high && high < 10.0, "{low} to {high}");
        assert!(environment.timer_resolution_ns > 0.0 && environment.timer_cost_ns > 0.0);
        assert_eq!(environment.core, None);
        assert_eq!(environment.warnings.iter().any(|warning| warning.contains("optimisation")), cfg!(debug_assertions));
        if cfg!(target_os = "linux") {
            assert!(environment.steal.is_some_and(|share| (0.0..=1.0).contains(&share)));
            assert!(environment.preemptions.is_some());
        }
    }
}
