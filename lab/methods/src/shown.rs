//! How methods show what they measured: numbers, cells, names, and the ends of what is compared.

use ciphermill_report::{Cell, Emphasis, Estimate, SPREAD_QUOTABLE_MAX, Section};

/// A section with what is known before anything is measured.
pub(crate) fn section(method: &str, title: &str, source: &str, lesson: &[&str]) -> Section {
    let lesson = lesson.iter().map(|text| (*text).to_owned()).collect();
    Section { lesson, ..Section::new(method, title, source) }
}

/// A figure, marked when its spread forbids quoting: by the emphasis alone, which every output shows without colours too,
/// since words would make tables wider on noisy machines.
pub(crate) fn figure_cell(text: String, spread: f64) -> Cell {
    let is_noisy = spread > SPREAD_QUOTABLE_MAX;
    Cell::from(text).emphasis(if is_noisy { Emphasis::Doubtful } else { Emphasis::Plain })
}

/// A ratio.
pub(crate) fn ratio_cell(ratio: Estimate) -> Cell {
    figure_cell(times(ratio.value), ratio.spread())
}

/// A spread, half the width of a 95 % interval.
pub(crate) fn spread_cell(spread: f64) -> Cell {
    figure_cell(format!("± {:.1} %", spread * 100.0), spread)
}

/// What may be the best of its row or column.
pub(crate) fn best_cell(text: impl Into<String>, is_best: bool) -> Cell {
    Cell::from(text).emphasis(if is_best { Emphasis::Good } else { Emphasis::Plain })
}

/// What became of a goal, in a word.
pub(crate) fn verdict_cell(is_reached: bool, is_aim_reached: bool) -> Cell {
    match (is_aim_reached, is_reached) {
        (true, _) => Cell::from("aim reached").emphasis(Emphasis::Good),
        (false, true) => Cell::from("reached").emphasis(Emphasis::Good),
        (false, false) => Cell::from("missed").emphasis(Emphasis::Bad),
    }
}

/// The ends of a ratio's interval.
pub(crate) fn interval(ratio: Estimate) -> String {
    let [low, high] = ratio.interval;
    // A time that is a fraction of another's is told as finely as its inverse.
    let decimals = if low < 1.0 { 3 } else { 2 };
    format!("{low:.decimals$}–{high:.decimals$}")
}

/// How many times one is the other.
pub(crate) fn times(factor: f64) -> String {
    format!("{factor:.2} ×")
}

/// A name as a part of a measurement's path.
pub(crate) fn path_part(name: &str) -> String {
    name.replace(' ', "-")
}

/// A name as the first word of a sentence.
pub(crate) fn capital(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Each value once, in the order in which they come.
pub(crate) fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// The least and the most by some figure; none of nothing.
pub(crate) fn ends<T: Copy>(values: impl IntoIterator<Item = T>, figure: impl Fn(&T) -> f64) -> Option<(T, T)> {
    let order = |a: &T, b: &T| figure(a).total_cmp(&figure(b));
    let values: Vec<T> = values.into_iter().collect();
    Some((values.iter().copied().min_by(order)?, values.iter().copied().max_by(order)?))
}

/// A number with three significant digits, as people read it.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.1 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

/// A whole number with a comma every three digits.
pub(crate) fn grouped(value: usize) -> String {
    ciphermill_report::grouped(&value.to_string())
}

/// The geometric mean, zero of nothing.
pub(crate) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value.ln();
        count += 1.0;
    }
    if count == 0.0 { 0.0 } else { f64::exp(sum / count) }
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

    #[test]
    fn numbers_are_short() {
        assert_eq!([1234.6, 12.34, 1.234, 0.1234, 0.001234].map(digits).join(" "), "1235 12.3 1.23 0.123 1.23e-3");
        assert_eq!([7, 1000, 50_000, 1_234_567].map(grouped).join(" "), "7 1,000 50,000 1,234,567");
        assert!((geometric_mean([1.0, 100.0].into_iter()) - 10.0).abs() < 1e-9);
    }

    #[test]
    fn ends_and_distinct_values_are_found() {
        assert_eq!(distinct([3, 1, 3, 2, 1]), [3, 1, 2]);
        assert_eq!(ends([2.0, 7.0, 1.0], |value| *value), Some((1.0, 7.0)));
        assert_eq!(ends([0.0; 0], |value| *value), None);
    }
}
