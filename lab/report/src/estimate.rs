//! A median and how sure it is.

use serde::{Deserialize, Serialize};

/// A spread above which a figure is noisy and should not be quoted: an interval from 5 % below it to 5 % above it.
pub const SPREAD_QUOTABLE_MAX: f64 = 0.05;

/// The median of what many rounds gave, with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub value: f64,
    /// The ends of the interval.
    pub interval: [f64; 2],
}

impl Estimate {
    /// Half the width of the interval as a share of the value.
    pub fn spread(&self) -> f64 {
        let [low, high] = self.interval;
        if self.value == 0.0 { 0.0 } else { ((high - low) / (2.0 * self.value)).abs() }
    }

    /// Whether the interval is too wide for the value to be quoted.
    pub fn is_noisy(&self) -> bool {
        self.spread() > SPREAD_QUOTABLE_MAX
    }

    /// The same in another unit.
    pub fn scaled(&self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, interval: self.interval.map(|end| end * factor) }
    }
}
