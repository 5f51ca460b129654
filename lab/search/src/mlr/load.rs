//! What the trials at one rate say about it.

use super::goal::Goal;
use crate::trial::Tried;

/// What a rate is to a goal (4.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It is carried: whatever trials are still to come cannot change that.
    Lower,
    /// It is not carried: whatever trials are still to come cannot change that.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Seconds of trials at one rate, by what they are to a goal.
#[derive(Default)]
struct Sums {
    full_low: f64,
    full_high: f64,
    short_low: f64,
    short_high: f64,
}

impl Sums {
    fn of(trials: &[Tried], goal: &Goal) -> Self {
        let mut sums = Self::default();
        for trial in trials {
            let high = trial.outcome.loss_ratio() > goal.loss_ratio;
            let sum = match (trial.duration >= goal.final_trial, high) {
                (true, false) => &mut sums.full_low,
                (true, true) => &mut sums.full_high,
                (false, false) => &mut sums.short_low,
                (false, true) => &mut sums.short_high,
            };
            *sum += trial.effective_s();
        }
        sums
    }
}

/// Sums of seconds are compared with this much tolerance, so that 21 times 0.1 s make 2.1 s.
const ROUNDING_S: f64 = 1e-9;

/// Classifies a rate by its trials (draft, appendix A).
///
/// Trials that lose little and those that lose much are weighed by their time. What is missing to the goal's sum of durations is
/// taken once as all good and once as all bad; if both say the same, the rate is decided. Short trials can speak against a rate,
/// but only as far as short ones that lost little do not outweigh them, and never for it.
#[must_use]
pub fn classify(trials: &[Tried], goal: &Goal) -> Class {
    let sums = Sums::of(trials, goal);
    let outweighed = sums.short_low * goal.exceed_ratio / (1.0 - goal.exceed_ratio);
    let high = sums.full_high + (sums.short_high - outweighed).max(0.0);
    let whole = (sums.full_low + high).max(goal.duration_sum.as_secs_f64());
    let tolerated = whole * goal.exceed_ratio + ROUNDING_S;
    match (high <= tolerated, whole - sums.full_low <= tolerated) {
        (true, true) => Class::Lower,
        (false, false) => Class::Upper,
        _ => Class::Undecided,
    }
}

/// The rate that a goal is carried with at a rate that it classifies as lower bound, in packets a second (draft, appendix B).
///
/// It is the rate less the loss that is exceeded by no more of the time than the goal allows. Time that is missing to the goal's sum of
/// durations counts as lost altogether, which makes this a careful figure.
#[must_use]
pub fn conditional_throughput(rate_pps: f64, trials: &[Tried], goal: &Goal) -> f64 {
    let mut full: Vec<(f64, f64)> = trials
        .iter()
        .filter(|trial| trial.duration >= goal.final_trial)
        .map(|trial| (trial.outcome.loss_ratio(), trial.effective_s()))
        .collect();
    full.sort_by(|a, b| a.0.total_cmp(&b.0));
    let measured: f64 = full.iter().map(|&(_, seconds)| seconds).sum();
    let mut remaining = measured.max(goal.duration_sum.as_secs_f64()) * (1.0 - goal.exceed_ratio);
    for (loss, seconds) in full {
        remaining -= seconds;
        if remaining <= ROUNDING_S {
            return rate_pps * (1.0 - loss);
        }
    }
    0.0
}
