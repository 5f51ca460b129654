//! What a search asks for, and what it is told.

use std::time::Duration;

/// What was counted in one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Packets that ought to have been sent. A source that could not keep up with the rate says what the rate demanded, so that
    /// packets which were never sent are lost ones; otherwise a slow source would look like a fast device.
    pub offered: u64,
    /// Packets that came back, with those that came back more than once.
    pub received: u64,
    /// How many of those received were there already.
    pub duplicates: u64,
    /// For how long packets were offered. Zero stands for the duration that was asked for.
    pub duration: Duration,
}

impl Outcome {
    /// Packets that did not come back, and those that came back again: a duplicate is as wrong as a loss.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let distinct = self.received.saturating_sub(self.duplicates);
        self.offered.saturating_sub(distinct).saturating_add(self.duplicates)
    }

    /// The share of the offered packets that [`Outcome::lost`] counts, from 0 to 1.
    #[must_use]
    pub fn loss_ratio(&self) -> f64 {
        if self.offered == 0 {
            return if self.lost() == 0 { 0.0 } else { 1.0 };
        }
        (self.lost() as f64 / self.offered as f64).min(1.0)
    }
}

/// A device, and whoever offers it packets.
pub trait Trial {
    /// What can go wrong in a trial, as opposed to packets being lost.
    type Error;

    /// Offers packets at a constant rate, in packets a second, for a time; waits for those under way, and counts.
    ///
    /// # Errors
    /// If the trial could not be made. The search ends with it.
    fn run(&mut self, rate_pps: f64, duration: Duration) -> Result<Outcome, Self::Error>;
}

/// A device that is offered packets with no gap between them.
pub trait Burst {
    /// What can go wrong in a trial, as opposed to packets being lost.
    type Error;

    /// Offers so many packets back to back; waits for those under way, and counts.
    ///
    /// # Errors
    /// If the burst could not be sent. The search ends with it.
    fn burst(&mut self, packets: u64) -> Result<Outcome, Self::Error>;
}

/// A trial that was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// The rate that was asked for, in packets a second.
    pub rate_pps: f64,
    /// The duration that was asked for.
    pub duration: Duration,
    /// What was counted.
    pub outcome: Outcome,
}

impl Tried {
    /// Asks for a trial. One that offered nothing says nothing.
    pub(crate) fn of<T: Trial>(
        device: &mut T,
        rate_pps: f64,
        duration: Duration,
    ) -> Result<Self, SearchError<T::Error>> {
        let outcome = device.run(rate_pps, duration).map_err(SearchError::Trial)?;
        if outcome.offered == 0 {
            return Err(SearchError::NothingOffered { rate_pps });
        }
        Ok(Self { rate_pps, duration, outcome })
    }

    /// For how long packets were offered, in seconds (the draft's "trial effective duration").
    pub(crate) fn effective_s(&self) -> f64 {
        let duration = if self.outcome.duration.is_zero() { self.duration } else { self.outcome.duration };
        duration.as_secs_f64()
    }
}

/// The rates that a search keeps within, in packets a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    min_pps: f64,
    max_pps: f64,
}

impl Range {
    /// Rates from `min_pps` to `max_pps`, or `None` unless both are finite and `0 < min_pps < max_pps`.
    #[must_use]
    pub fn new(min_pps: f64, max_pps: f64) -> Option<Self> {
        (max_pps.is_finite() && min_pps > 0.0 && min_pps < max_pps).then_some(Self { min_pps, max_pps })
    }

    /// The least rate.
    #[must_use]
    pub fn min_pps(&self) -> f64 {
        self.min_pps
    }

    /// The greatest rate: what the medium or the source can do.
    #[must_use]
    pub fn max_pps(&self) -> f64 {
        self.max_pps
    }
}

/// Why a search ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SearchError<E> {
    /// A trial could not be made.
    #[error("a trial failed: {0}")]
    Trial(E),
    /// A trial at this rate offered no packet, so that its loss is unknown; rates or durations are too small.
    #[error("a trial at {rate_pps} packets a second offered none")]
    NothingOffered {
        /// The rate that was asked for.
        rate_pps: f64,
    },
    /// What was asked for makes no sense, and why.
    #[error("{0}")]
    Asked(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(offered: u64, received: u64, duplicates: u64) -> Outcome {
        Outcome { offered, received, duplicates, duration: Duration::ZERO }
    }

    #[test]
    fn duplicates_count_as_losses() {
        assert_eq!(outcome(1000, 1000, 0).lost(), 0);
        assert_eq!(outcome(1000, 990, 0).lost(), 10);
        // All came back, five of them twice.
        assert_eq!(outcome(1000, 1005, 5).lost(), 5);
        // Five are missing, which as many duplicates do not hide.
        assert_eq!(outcome(1000, 1000, 5).lost(), 10);
        assert!((outcome(1000, 1000, 5).loss_ratio() - 0.01).abs() < 1e-12);
    }

    #[test]
    fn ratios_stay_between_zero_and_one() {
        assert_eq!(outcome(10, 100, 90).loss_ratio(), 1.0);
        assert_eq!(outcome(10, 11, 0).loss_ratio(), 0.0);
        assert_eq!(outcome(10, 0, 5).loss_ratio(), 1.0);
        assert_eq!(outcome(0, 0, 0).loss_ratio(), 0.0);
        assert_eq!(outcome(0, 1, 1).loss_ratio(), 1.0);
        assert_eq!(outcome(u64::MAX, 0, u64::MAX).loss_ratio(), 1.0);
    }

    #[test]
    fn ranges_are_finite_positive_and_not_empty() {
        assert!(Range::new(1.0, 2.0).is_some());
        for (min, max) in
            [(0.0, 1.0), (-1.0, 1.0), (2.0, 2.0), (2.0, 1.0), (1.0, f64::INFINITY), (f64::NAN, 1.0), (1.0, f64::NAN)]
        {
            assert_eq!(Range::new(min, max), None, "{min}..{max}");
        }
    }
}
