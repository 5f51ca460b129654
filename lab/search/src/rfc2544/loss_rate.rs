//! Section 26.3: how much is lost at which rate.

use super::TRIAL;
use crate::trial::{SearchError, Trial, Tried};
use std::time::Duration;

/// How loss rates are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossRate {
    /// The rate of 100 %, in packets a second: the greatest of the medium or the source.
    pub max_pps: f64,
    /// By how many percent of it each trial is below the last one, from 1 to 10.
    pub step_percent: u8,
    /// How long a trial takes.
    pub trial: Duration,
}

impl LossRate {
    /// In steps of 10 %, with trials of 60 s.
    #[must_use]
    pub const fn new(max_pps: f64) -> Self {
        Self { max_pps, step_percent: 10, trial: TRIAL }
    }
}

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct LossRates {
    /// The trials, from the greatest rate downwards; [`crate::Outcome::loss_ratio`] is what the RFC plots over the rate.
    pub trials: Vec<Tried>,
    /// Whether two successive trials lost nothing, as the RFC wants it to end. Otherwise the device loses packets down to the least
    /// rate that was tried.
    pub ended_lossless: bool,
}

/// Measures the loss from 100 % of the rate downwards, until two successive trials lose nothing (26.3).
///
/// # Errors
/// If a trial fails or offers nothing, if steps are of less than 1 % or more than the 10 % that the RFC allows, or if there is no rate.
pub fn loss_rate<T: Trial>(device: &mut T, plan: &LossRate) -> Result<LossRates, SearchError<T::Error>> {
    if !(1..=10).contains(&plan.step_percent) {
        return Err(SearchError::Asked("loss rates are measured in steps of 1 to 10 percent"));
    }
    if !(plan.max_pps.is_finite() && plan.max_pps > 0.0) {
        return Err(SearchError::Asked("the rate of 100 percent is a number above zero"));
    }
    let mut rates = LossRates { trials: Vec::new(), ended_lossless: false };
    let mut lossless = 0;
    for percent in (1..=100_u8).rev().step_by(usize::from(plan.step_percent)) {
        let tried = Tried::of(device, plan.max_pps * f64::from(percent) / 100.0, plan.trial)?;
        rates.trials.push(tried);
        lossless = if tried.outcome.lost() == 0 { lossless + 1 } else { 0 };
        if lossless == 2 {
            rates.ended_lossless = true;
            break;
        }
    }
    Ok(rates)
}
