//! Section 26.1: the greatest rate without loss.

use super::TRIAL;
use crate::trial::{Range, SearchError, Trial, Tried};
use std::time::Duration;

/// How a throughput is searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throughput {
    /// The rates to search among.
    pub range: Range,
    /// How close the bounds have to come, in packets a second.
    pub resolution_pps: f64,
    /// How long a trial takes.
    pub trial: Duration,
}

impl Throughput {
    /// With trials of 60 s.
    #[must_use]
    pub const fn new(range: Range, resolution_pps: f64) -> Self {
        Self { range, resolution_pps, trial: TRIAL }
    }
}

/// What was found. Rates are in packets a second.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputFound {
    /// The greatest rate at which nothing was lost: the throughput. `None` if even the least rate lost packets.
    pub lossless_pps: Option<f64>,
    /// The least rate at which packets were lost. `None` if the greatest rate lost none, so that the device may do more.
    pub lossy_pps: Option<f64>,
    /// The trials, in the order in which they were made.
    pub trials: Vec<Tried>,
}

/// Searches by bisection for the greatest rate without loss (26.1), after a trial at the greatest rate and one at the least.
///
/// # Errors
/// If a trial fails or offers nothing, or if the resolution is not above zero.
pub fn throughput<T: Trial>(device: &mut T, plan: &Throughput) -> Result<ThroughputFound, SearchError<T::Error>> {
    if plan.resolution_pps.is_nan() || plan.resolution_pps <= 0.0 {
        return Err(SearchError::Asked("the resolution of a throughput is above zero"));
    }
    let mut found = ThroughputFound { lossless_pps: None, lossy_pps: None, trials: Vec::new() };
    let (mut lossless, mut lossy) = (plan.range.min_pps(), plan.range.max_pps());
    if !found.loses(device, lossy, plan.trial)? || found.loses(device, lossless, plan.trial)? {
        return Ok(found);
    }
    while lossy - lossless > plan.resolution_pps {
        let middle = lossless + (lossy - lossless) / 2.0;
        if middle <= lossless || middle >= lossy {
            // The resolution is finer than the numbers between.
            break;
        }
        if found.loses(device, middle, plan.trial)? { lossy = middle } else { lossless = middle }
    }
    Ok(found)
}

impl ThroughputFound {
    fn loses<T: Trial>(
        &mut self,
        device: &mut T,
        rate_pps: f64,
        duration: Duration,
    ) -> Result<bool, SearchError<T::Error>> {
        let tried = Tried::of(device, rate_pps, duration)?;
        self.trials.push(tried);
        let lost = tried.outcome.lost() > 0;
        // A bisection only ever moves its bounds towards each other, and begins with both ends.
        *(if lost { &mut self.lossy_pps } else { &mut self.lossless_pps }) = Some(rate_pps);
        Ok(lost)
    }
}
