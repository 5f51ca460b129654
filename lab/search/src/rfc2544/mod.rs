//! The tests of RFC 2544, section 26, that ask for rates and bursts.
//!
//! Each has the RFC's durations as its default (60 s for a trial, section 24) and takes shorter ones; the trials in a result say which
//! were used. Waiting before and after a trial (section 23) is the trial's own business.

mod back_to_back;
mod loss_rate;

pub use back_to_back::{BackToBack, Bursts, Longest, Repeat, back_to_back};
pub use loss_rate::{LossRate, LossRates, loss_rate};

use std::time::Duration;

/// How long a trial takes at least, by the RFC (section 24).
pub const TRIAL: Duration = Duration::from_secs(60);
