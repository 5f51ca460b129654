//! Timing: the rungs are interleaved over the same operations.

use std::cell::RefCell;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::client::Client;
use super::rungs::Rung;
use super::work::Work;
use crate::LabError;
use crate::timing::{Budget, Contestant, Samples, interleave};

/// Operations of a comparison whose outputs are looked at, and that are timed, at least.
const OPS_MIN: usize = 1024;

/// Batches in one timing at most.
const REPEATS_MAX: usize = 1 << 14;

/// What was measured of a rung with one size of batch.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    /// The rung's place in the list.
    pub(crate) rung: usize,
    /// Operations of a batch.
    pub(crate) ops: usize,
    /// Bytes of data of a batch, the mean.
    pub(crate) bytes: f64,
    /// Nanoseconds a batch, the median.
    pub(crate) ns: f64,
    /// Interquartile range as a share of the median.
    pub(crate) spread: f64,
}

impl Taken {
    /// Kilobytes (1000 bytes) a second.
    pub(crate) fn kb_per_s(&self) -> f64 {
        self.bytes * 1e6 / self.ns
    }
}

/// How long a service is left alone before each timing: until its worker sleeps, and has forgotten the channels of the rung before, whose
/// program it would take for another one that wants the core.
const PAUSE: Duration = Duration::from_micros(300);

/// Requests before each timing: both sides look for the other's words by how it went of late, and try that anew in one of 64 cases.
const WARM: usize = 128;

/// Bytes of an operation whose time is mostly that of asking for it.
const SHORT: usize = 4096;

/// What a rung is climbed with.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) work: &'a Work,
    pub(crate) client: &'a RefCell<Client>,
}

/// A rung about to be timed.
struct Climber<'a> {
    rung: &'a Rung,
    load: Load<'a>,
    windows: Vec<Range<usize>>,
    failed: Option<LabError>,
}

impl Climber<'_> {
    fn climb(&self, verify: bool) -> Result<(), LabError> {
        self.load.client.borrow_mut().climb(self.rung, self.load.work, &self.windows, verify)
    }

    /// Has both sides awake and used to each other, and nobody else.
    fn make_ready(&self) -> Result<(), LabError> {
        std::thread::sleep(PAUSE);
        // Where keys are handed over, or data are long, that is what takes the time.
        let is_short = !self.rung.hands_keys_over && self.load.work.bytes(&(0..1)) <= SHORT;
        let requests = if is_short { WARM } else { 1 };
        self.load.client.borrow_mut().climb(self.rung, self.load.work, &vec![0..1; requests], false)
    }
}

impl Contestant for Climber<'_> {
    fn reset(&mut self) {
        if self.failed.is_none() {
            self.failed = self.make_ready().err();
        }
    }

    fn run(&mut self) {
        if self.failed.is_none() {
            self.failed = self.climb(false).err();
        }
    }
}

/// Windows of `ops` operations that follow each other through `all`, `count` of them, from the start again when they end.
pub(crate) fn windows(all: usize, ops: usize, count: usize) -> Vec<Range<usize>> {
    let different = (all / ops.max(1)).max(1);
    (0..count).map(|turn| turn % different * ops..(turn % different * ops + ops).min(all)).collect()
}

/// Times rungs with batches of `ops` operations, in turns. Every output is compared with the reference's first.
///
/// # Errors
/// As [`Client::climb`].
pub(crate) fn compare(
    rungs: &[(usize, &Rung, Load<'_>)],
    ops: usize,
    timing_ns: f64,
    budget: Budget,
) -> Result<Vec<Taken>, LabError> {
    let mut climbers = Vec::new();
    for (_, rung, load) in rungs {
        let all = load.work.ops.len().min(OPS_MIN.max(ops));
        let once = windows(all, ops, (all / ops).max(1));
        let batches = once.len();
        let mut climber = Climber { rung, load: *load, windows: once, failed: None };
        climber.climb(true)?;
        climber.make_ready()?;
        let start = Instant::now();
        climber.climb(false)?;
        let batch_ns = start.elapsed().as_nanos() as f64 / batches as f64;
        let repeats = (timing_ns / batch_ns.max(1.0)).ceil() as usize;
        climber.windows = windows(all, ops, repeats.clamp(1, REPEATS_MAX));
        climbers.push(climber);
    }
    let mut contestants: Vec<&mut dyn Contestant> =
        climbers.iter_mut().map(|climber| climber as &mut dyn Contestant).collect();
    let samples = interleave(&mut contestants, budget);
    let mut taken = Vec::new();
    for ((climber, samples), (rung, ..)) in climbers.into_iter().zip(&samples).zip(rungs) {
        if let Some(error) = climber.failed {
            return Err(error);
        }
        taken.push(summary(*rung, ops, &climber.windows, climber.load, samples));
    }
    Ok(taken)
}

fn summary(rung: usize, ops: usize, windows: &[Range<usize>], load: Load<'_>, samples: &Samples) -> Taken {
    let bytes: usize = windows.iter().map(|window| load.work.bytes(window)).sum();
    let batches = windows.len() as f64;
    Taken { rung, ops, bytes: bytes as f64 / batches, ns: samples.median_ns() / batches, spread: samples.spread() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_follow_each_other_and_begin_again() {
        assert_eq!(windows(10, 4, 3), [0..4, 4..8, 0..4]);
        assert_eq!(windows(4, 4, 2), [0..4, 0..4]);
        assert_eq!(windows(3, 1, 4), [0..1, 1..2, 2..3, 0..1]);
    }

    #[test]
    fn rates_are_bytes_by_time() {
        let taken = Taken { rung: 0, ops: 2, bytes: 88.0, ns: 44_000.0, spread: 0.0 };
        assert!((taken.kb_per_s() - 2000.0).abs() < 1e-9);
    }
}
