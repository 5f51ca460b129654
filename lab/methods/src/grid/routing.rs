//! What the router would have chosen in each cell, beside what was measured there.

use ciphermill::{Mill, RunOptions};

use super::cell::Measured;
use super::plan::{Keys, WorkingSet};
use crate::LabError;
use crate::router::mill_error;
use crate::shown::geometric_mean;

/// What a mill's routes come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figures {
    /// The engines' own estimates, as in a program that was never tuned.
    Estimates,
    /// What `tune` measured a moment ago.
    Measured,
}

impl Figures {
    pub(super) fn name(self) -> &'static str {
        match self {
            Figures::Estimates => "untuned",
            Figures::Measured => "tuned",
        }
    }
}

/// A route and what it would have cost.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Where it is among the cells that were measured.
    pub(super) cell: usize,
    pub(super) engine: &'static str,
    /// The time of the engine that was chosen by the better one's.
    pub(super) regret: f64,
    /// The predicted time by the measured one.
    pub(super) predicted: f64,
}

/// All cells' routes by the same figures.
#[derive(Clone, Debug)]
pub(super) struct Routed {
    pub(super) figures: Figures,
    pub(super) choices: Vec<Choice>,
}

/// A choice that costs more than this is wrong.
pub(super) const WRONG: f64 = 1.1;

/// The share of predictions that a factor is to hold.
const HELD: f64 = 0.95;

/// The routes of mills that have run nothing, in every cell where more engines than one were measured. A mill knows neither
/// keys nor working sets beforehand, so it is asked once for each shape.
///
/// # Errors
/// [`LabError::Engine`] when a mill cannot say.
pub(super) fn routes(mills: &[(Figures, Mill)], measured: &[Measured]) -> Result<Vec<Routed>, LabError> {
    let of = |(figures, mill): &(Figures, Mill)| {
        let plain = |one: &Measured| (one.cell.keys, one.cell.set) == (Keys::Few, WorkingSet::Again);
        let mut choices = Vec::new();
        for (cell, one) in measured.iter().enumerate().filter(|(_, one)| plain(one) && one.own.len() > 1) {
            choices.extend(choice(mill, cell, one)?);
        }
        Ok(Routed { figures: *figures, choices })
    };
    mills.iter().map(of).collect()
}

fn choice(mill: &Mill, at: usize, measured: &Measured) -> Result<Option<Choice>, LabError> {
    let cell = &measured.cell;
    let (ops, len) = (cell.ops as u64, cell.len as u64);
    let told = mill.explain(cell.suite, cell.direction, ops, len, &RunOptions::default()).map_err(mill_error)?;
    let Some(route) = told.route else { return Ok(None) };
    let Some(chosen) = measured.own.iter().find(|own| own.engine == route.name) else { return Ok(None) };
    let best = measured.own.first().map_or(chosen.ns, |best| best.ns);
    let (regret, predicted) = (chosen.ns / best, route.predicted_ns / chosen.ns);
    Ok(Some(Choice { cell: at, engine: route.name, regret, predicted }))
}

impl Routed {
    /// The mean of what choices cost beyond the best.
    pub(super) fn mean_regret(&self) -> f64 {
        geometric_mean(self.choices.iter().map(|choice| choice.regret))
    }

    /// Choices that are wrong, the worst first.
    pub(super) fn wrong(&self) -> Vec<&Choice> {
        let mut wrong: Vec<&Choice> = self.choices.iter().filter(|choice| choice.regret > WRONG).collect();
        wrong.sort_by(|a, b| b.regret.total_cmp(&a.regret));
        wrong
    }

    /// The factor within which 95 % of the predictions are; one of nothing.
    pub(super) fn factor(&self) -> f64 {
        let off = |choice: &Choice| choice.predicted.max(1.0 / choice.predicted);
        let mut off: Vec<f64> = self.choices.iter().map(off).collect();
        off.sort_unstable_by(f64::total_cmp);
        let at = (off.len() as f64 * HELD).ceil() as usize;
        off.get(at.saturating_sub(1)).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regrets_and_predictions_are_summed_up() {
        let choice = |regret: f64, predicted: f64| Choice { cell: 0, engine: "lanes", regret, predicted };
        let choices = vec![choice(1.0, 0.5), choice(1.21, 1.0), choice(1.0, 1.1), choice(4.0, 1.0)];
        let routed = Routed { figures: Figures::Estimates, choices };
        assert!((routed.mean_regret() - (1.21f64 * 4.0).powf(0.25)).abs() < 1e-9);
        assert_eq!(routed.wrong().iter().map(|choice| choice.regret).collect::<Vec<_>>(), [4.0, 1.21]);
        assert!((routed.factor() - 2.0).abs() < 1e-9);
        assert!((Routed { figures: Figures::Measured, choices: Vec::new() }.factor() - 1.0).abs() < 1e-9);
    }
}
