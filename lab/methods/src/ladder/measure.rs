//! Timing: the rungs are interleaved over the same operations.

use std::cell::RefCell;
use std::ops::Range;
use std::time::Instant;

use super::client::{Load, Service};
use super::definitions::KNOWN;
use super::rungs::{Rung, Way};
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

/// A rung about to be timed.
struct Climber<'a> {
    rung: &'a Rung,
    load: Load<'a>,
    service: &'a RefCell<Service>,
    windows: Vec<Range<usize>>,
    failed: Option<LabError>,
}

impl Climber<'_> {
    fn climb(&mut self, verify: bool) -> Result<(), LabError> {
        let mut service = self.service.borrow_mut();
        if self.rung.way == Way::Ring {
            return service.turn(self.rung, self.load, &self.windows, verify);
        }
        self.windows.iter().try_for_each(|window| service.batch(self.rung, self.load, window.clone(), verify))
    }

    fn make_ready(&mut self) -> Result<(), LabError> {
        if self.rung.way != Way::Ring {
            return Ok(());
        }
        let known = KNOWN.ciphertext.len();
        let ops = self.windows.iter().map(Range::len).max().unwrap_or(0) + 1;
        let bytes = self.windows.iter().map(|window| self.load.work.bytes(window)).max().unwrap_or(0) + known;
        self.service.borrow_mut().start_ring(self.rung, ops, bytes)
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
/// As [`Service::batch`].
pub(crate) fn compare(
    service: &RefCell<Service>,
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
        let mut climber = Climber { rung, load: *load, service, windows: once, failed: None };
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
