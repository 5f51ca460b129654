//! Methods with records of their own, as sections of the common one.

pub(crate) mod cases;
pub(crate) mod principles;
pub(crate) mod router;
pub(crate) mod short;

use ciphermill_report::{Cell, Emphasis, Estimate, SPREAD_QUOTABLE_MAX};

/// A spread, half the width of a 95 % interval, marked when it forbids quoting: by the emphasis alone, which every
/// output shows without colours too, since words would make tables wider on noisy machines.
fn spread_cell(spread: f64) -> Cell {
    goal_cell(format!("± {:.1} %", spread * 100.0), spread > SPREAD_QUOTABLE_MAX)
}

/// The ends of a ratio's interval.
fn interval(ratio: Estimate) -> String {
    let [low, high] = ratio.interval;
    // A time that is a fraction of another's is told as finely as its inverse.
    let decimals = if low < 1.0 { 3 } else { 2 };
    format!("{low:.decimals$}–{high:.decimals$}")
}

/// A figure beside a goal.
pub(crate) fn goal_cell(text: String, is_noisy: bool) -> Cell {
    if is_noisy { Cell::from(text).emphasis(Emphasis::Doubtful) } else { text.into() }
}

/// Whether a goal is reached, in a word.
pub(crate) fn verdict_cell(is_reached: bool) -> Cell {
    if is_reached {
        Cell::from("reached").emphasis(Emphasis::Good)
    } else {
        Cell::from("missed").emphasis(Emphasis::Bad)
    }
}

/// A name as a part of a measurement's path.
fn path_part(name: &str) -> String {
    name.replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noisy_spreads_are_marked() {
        assert_eq!(spread_cell(0.05), Cell::from("± 5.0 %"));
        let noisy = spread_cell(0.051);
        assert_eq!((noisy.text.as_str(), noisy.emphasis), ("± 5.1 %", Emphasis::Doubtful));
        assert_eq!(interval(Estimate { value: 9.0, interval: [8.5, 9.042] }), "8.50–9.04");
        assert_eq!(interval(Estimate { value: 0.38, interval: [0.3791, 0.3812] }), "0.379–0.381");
        assert_eq!(path_part("thread parallel M1"), "thread-parallel-M1");
    }
}
