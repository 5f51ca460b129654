//! What is searched for.

use std::time::Duration;

/// A loss that is tolerated, and how sure and how precise the answer has to be (the draft's "search goal", 4.6.7).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// The loss ratio that a trial may have, from 0 to below 1.
    pub loss_ratio: f64,
    /// The share of the time at a rate that trials may take which lose more, from 0 to below 1.
    pub exceed_ratio: f64,
    /// How long trials take that decide about a rate.
    pub final_trial: Duration,
    /// How long the first trials take; not more than `final_trial`.
    pub initial_trial: Duration,
    /// The time of trials after which a rate is decided about; at least `final_trial`.
    pub duration_sum: Duration,
    /// How far the bounds may be apart in the end, as a share of the upper one; between 0 and 1.
    pub width: f64,
}

impl Goal {
    /// The rate that is carried with at most this loss: trials of 1 s, 21 s of them, half of which may exceed it, a width of 0.5 %.
    #[must_use]
    pub const fn with_loss(loss_ratio: f64) -> Self {
        Self {
            loss_ratio,
            exceed_ratio: 0.5,
            final_trial: Duration::from_secs(1),
            initial_trial: Duration::from_secs(1),
            duration_sum: Duration::from_secs(21),
            width: 0.005,
        }
    }

    /// The non-drop rate: no loss.
    #[must_use]
    pub const fn ndr() -> Self {
        Self::with_loss(0.0)
    }

    /// The partial-drop rate: a loss of 0.5 %.
    #[must_use]
    pub const fn pdr() -> Self {
        Self::with_loss(0.005)
    }

    /// The same in less time: `final_trial` and `initial_trial` of `trial`, and `trials` of them at a rate.
    #[must_use]
    pub fn shortened(self, trial: Duration, trials: u32) -> Self {
        Self { final_trial: trial, initial_trial: trial, duration_sum: trial.saturating_mul(trials), ..self }
    }

    /// Says what is wrong with it.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let ratio = |value: f64| (0.0..1.0).contains(&value);
        if !ratio(self.loss_ratio) || !ratio(self.exceed_ratio) {
            return Err("a goal's ratios of loss and of exceeding are from 0 to below 1");
        }
        if !(self.width > 0.0 && self.width < 1.0) {
            return Err("a goal's width is between 0 and 1");
        }
        if self.initial_trial.is_zero() || self.final_trial < self.initial_trial || self.duration_sum < self.final_trial
        {
            return Err("a goal's durations are more than nothing and ascend: first trials, last trials, their sum");
        }
        Ok(())
    }

    /// The goal in a phase of the search, of `PHASES`: trials get longer and more of them are wanted, by the same factor from phase
    /// to phase, and in the last it is the goal itself.
    pub(super) fn in_phase(&self, phase: u32) -> Self {
        let share = f64::from(phase) / f64::from(PHASES - 1);
        if phase + 1 >= PHASES {
            return *self;
        }
        let between = |from: Duration, to: Duration| from.mul_f64((to.as_secs_f64() / from.as_secs_f64()).powf(share));
        let trial = between(self.initial_trial, self.final_trial);
        Self { final_trial: trial, duration_sum: between(self.initial_trial, self.duration_sum).max(trial), ..*self }
    }
}

/// How many phases a search has: one trial a rate, some, and all.
pub(super) const PHASES: u32 = 3;
const _: () = assert!(PHASES > 1);
