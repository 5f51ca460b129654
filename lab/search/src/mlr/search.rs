//! Which rate is tried next, and when the search is over.

use super::goal::{Goal, PHASES};
use super::load::{Class, classify, conditional_throughput};
use crate::trial::{Range, SearchError, Trial, Tried};

/// How many trials a search makes at most, unless told otherwise: a search for NDR and PDR needs some 30 to 100 of them, and a
/// device that answers at random is not worth more.
pub const TRIALS_MAX: usize = 1_200;

/// What became of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Both bounds were found, as close as asked (the draft's "regular goal result", 4.8.4.1). Others are irregular.
    Regular,
    /// The greatest rate is carried, so that there is no upper bound: the device can do at least this.
    AtMaximum,
    /// The least rate is not carried, so that there is no lower bound: there is no rate to report.
    BelowMinimum,
    /// The trials were used up before the bounds were close enough. Bounds that are there hold.
    Unfinished,
}

/// What was found for a goal. Rates are in packets a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GoalResult {
    /// The goal.
    pub goal: Goal,
    /// Whether the rest may be quoted as it is.
    pub standing: Standing,
    /// The greatest rate that is carried and lies below the upper bound ("relevant lower bound"); without an upper bound, the
    /// greatest rate that is carried.
    pub lower_pps: Option<f64>,
    /// The least rate that is not carried ("relevant upper bound").
    pub upper_pps: Option<f64>,
    /// What comes through at the lower bound ("conditional throughput"); the figure to compare devices by.
    pub throughput_pps: Option<f64>,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// A result for each goal, in the order of the goals.
    pub goals: Vec<GoalResult>,
    /// The trials, in the order in which they were made.
    pub trials: Vec<Tried>,
}

/// Searches for the rates of all goals, with at most [`TRIALS_MAX`] trials.
///
/// # Errors
/// If a trial fails or offers nothing, or if a goal makes no sense.
pub fn search<T: Trial>(device: &mut T, range: Range, goals: &[Goal]) -> Result<Found, SearchError<T::Error>> {
    search_within(device, range, goals, TRIALS_MAX)
}

/// Searches for the rates of all goals, with at most so many trials; goals that are not reached by then are
/// [`Standing::Unfinished`].
///
/// # Errors
/// If a trial fails or offers nothing, or if a goal makes no sense.
pub fn search_within<T: Trial>(
    device: &mut T,
    range: Range,
    goals: &[Goal],
    trials_max: usize,
) -> Result<Found, SearchError<T::Error>> {
    if goals.is_empty() {
        return Err(SearchError::Asked("a search needs a goal"));
    }
    for goal in goals {
        goal.check().map_err(SearchError::Asked)?;
    }
    // Rates that lose little are found first, since what is tried at small rates stays true of greater ones (5.3.4).
    let mut ordered = goals.to_vec();
    ordered.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let mut book = Book { range, loads: Vec::new(), trials: Vec::new(), trials_max };
    book.begin(device, &ordered)?;
    for phase in 0..PHASES {
        while let Some((rate_pps, goal)) = ordered.iter().find_map(|goal| book.wanted(goal, phase)) {
            if !book.measure(device, rate_pps, &goal)? {
                break;
            }
        }
    }
    let results = goals.iter().map(|goal| book.result(goal)).collect();
    Ok(Found { goals: results, trials: book.trials })
}

/// A rate and the trials that were made at it.
struct Load {
    rate_pps: f64,
    trials: Vec<Tried>,
}

/// All that is known.
struct Book {
    range: Range,
    /// In ascending order of their rates.
    loads: Vec<Load>,
    /// In the order in which they were made.
    trials: Vec<Tried>,
    trials_max: usize,
}

/// The bounds of a goal, and the nearest ones beyond, which say how far the last step went.
#[derive(Clone, Copy, Default)]
struct Bounds {
    lower: Option<f64>,
    upper: Option<f64>,
    below_lower: Option<f64>,
    above_upper: Option<f64>,
}

impl Book {
    /// The first two trials.
    fn begin<T: Trial>(&mut self, device: &mut T, goals: &[Goal]) -> Result<(), SearchError<T::Error>> {
        let Some(shortest) = goals.iter().map(|goal| goal.in_phase(0)).min_by_key(|goal| goal.final_trial) else {
            return Ok(());
        };
        self.measure(device, self.range.max_pps(), &shortest)?;
        let through = self.trials.first().map_or(0.0, |trial| trial.rate_pps * (1.0 - trial.outcome.loss_ratio()));
        if through < self.range.max_pps() {
            self.measure(device, through.max(self.range.min_pps()), &shortest)?;
        }
        Ok(())
    }

    /// Makes a trial that is full-length to the goal, or says that there are no more.
    fn measure<T: Trial>(&mut self, device: &mut T, rate_pps: f64, goal: &Goal) -> Result<bool, SearchError<T::Error>> {
        if self.trials.len() >= self.trials_max {
            return Ok(false);
        }
        let tried = Tried::of(device, rate_pps, goal.final_trial)?;
        self.trials.push(tried);
        match self.loads.iter_mut().find(|load| load.rate_pps == rate_pps) {
            Some(load) => load.trials.push(tried),
            None => {
                let place = self.loads.partition_point(|load| load.rate_pps < rate_pps);
                self.loads.insert(place, Load { rate_pps, trials: vec![tried] });
            }
        }
        Ok(true)
    }

    /// The relevant bounds (4.8.1, 4.8.2): the least upper bound, and the greatest lower bound below it.
    fn bounds(&self, goal: &Goal) -> Bounds {
        let mut bounds = Bounds::default();
        for load in &self.loads {
            match classify(&load.trials, goal) {
                Class::Undecided => {}
                // A lower bound above an upper one is taken for luck (5.3.3).
                Class::Lower if bounds.upper.is_none() => {
                    bounds.below_lower = bounds.lower;
                    bounds.lower = Some(load.rate_pps);
                }
                Class::Lower => {}
                Class::Upper if bounds.upper.is_none() => bounds.upper = Some(load.rate_pps),
                Class::Upper => bounds.above_upper = bounds.above_upper.or(Some(load.rate_pps)),
            }
        }
        bounds
    }

    /// The rate that a goal wants tried in a phase, and the goal as it is there; `None` once it is satisfied.
    fn wanted(&self, goal: &Goal, phase: u32) -> Option<(f64, Goal)> {
        let now = goal.in_phase(phase);
        let bounds = self.bounds(&now);
        if standing(&bounds, goal, self.range) != Standing::Unfinished {
            return None;
        }
        let within =
            |rate: f64| bounds.lower.is_none_or(|lower| rate > lower) && bounds.upper.is_none_or(|upper| rate < upper);
        let before = phase.checked_sub(1).map(|before| self.bounds(&goal.in_phase(before))).unwrap_or_default();
        let known = [before.lower, before.upper].into_iter().flatten().find(|&rate| within(rate));
        Some((known.unwrap_or_else(|| self.step(&bounds, goal.width)), now))
    }

    /// The rate after the bounds: between them, or beyond the only one.
    fn step(&self, bounds: &Bounds, width: f64) -> f64 {
        // Widths on the scale of logarithms: what lies this far below a rate is less than it by the width.
        let least = -(-width).ln_1p();
        match (bounds.lower, bounds.upper) {
            // Never the bounds themselves, which rounding could make of the mean: they are further apart than the width.
            (Some(lower), Some(upper)) => lower * (upper / lower).sqrt(),
            (Some(lower), None) => {
                let last = bounds.below_lower.map_or(0.0, |below| (lower / below).ln());
                (lower * least.max(2.0 * last).exp()).min(self.range.max_pps())
            }
            (None, Some(upper)) => {
                let last = bounds.above_upper.map_or(0.0, |above| (above / upper).ln());
                (upper * (-least.max(2.0 * last)).exp()).max(self.range.min_pps())
            }
            (None, None) => self.range.max_pps(),
        }
    }

    fn result(&self, goal: &Goal) -> GoalResult {
        let bounds = self.bounds(goal);
        let lower = bounds.lower.and_then(|rate| self.loads.iter().find(|load| load.rate_pps == rate));
        GoalResult {
            goal: *goal,
            standing: standing(&bounds, goal, self.range),
            lower_pps: bounds.lower,
            upper_pps: bounds.upper,
            throughput_pps: lower.map(|load| conditional_throughput(load.rate_pps, &load.trials, goal)),
        }
    }
}

fn standing(bounds: &Bounds, goal: &Goal, range: Range) -> Standing {
    match (bounds.lower, bounds.upper) {
        (Some(lower), None) if lower >= range.max_pps() => Standing::AtMaximum,
        (None, Some(upper)) if upper <= range.min_pps() => Standing::BelowMinimum,
        // A hair more than the width, so that a step of the width itself is enough.
        (Some(lower), Some(upper)) if upper - lower <= upper * goal.width * (1.0 + 1e-9) => Standing::Regular,
        _ => Standing::Unfinished,
    }
}
