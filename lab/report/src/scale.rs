//! Where values lie on an axis, and which round values it is labelled with.

use crate::plot::{Plot, Scale};
use crate::words::{count, grouped};

/// Values beyond this are left out: differences of larger ones would not be numbers.
const VALUE_MAX: f64 = 1e300;

/// The part of an axis that a plot shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    scale: Scale,
    /// The ends, in powers where the axis is logarithmic.
    low: f64,
    high: f64,
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    /// From 0 at the axis's beginning to 1 at its end.
    pub(crate) at: f64,
    /// Its label; none for a fine line between labelled ones.
    pub(crate) label: Option<String>,
}

/// How large numbers on an axis are written.
#[derive(Clone, Copy)]
enum Large {
    /// `12,000`
    Full,
    /// `12 k`, `12 M`
    Thousands,
    /// `12 Ki`, `12 Mi`
    Binary,
}

/// The spans of both axes, and nothing if no point can be shown.
pub(crate) fn spans(plot: &Plot) -> Option<(Span, Span)> {
    let shown = || plot.series.iter().flat_map(|series| drawable(plot, &series.points));
    // Across, an even axis ends near its last value; upwards it ends at a labelled one.
    let x = Span::of(plot.x.scale, shown().map(|point| point[0]), 40.0)?;
    let y = Span::of(plot.y.scale, shown().map(|point| point[1]), 5.0)?;
    Some((x, y))
}

/// The points that can be shown on the plot's axes.
pub(crate) fn drawable<'a>(plot: &'a Plot, points: &'a [[f64; 2]]) -> impl Iterator<Item = [f64; 2]> + 'a {
    points.iter().copied().filter(|[x, y]| usable(plot.x.scale, *x) && usable(plot.y.scale, *y))
}

/// Why not all of a line is seen: what a legend adds to its name.
pub(crate) fn left_out(plot: &Plot, points: &[[f64; 2]]) -> Option<String> {
    let out = points.len() - drawable(plot, points).count();
    match (out, points.len()) {
        (_, 0) => Some("no points".to_owned()),
        (0, _) => None,
        (out, all) => Some(format!("{out} of {} left out: no place on these axes", count(all, "point", "points"))),
    }
}

/// What is added to the label of a crossing that the plot does not show.
pub(crate) fn beyond(plot: &Plot, x: f64) -> &'static str {
    match spans(plot) {
        Some((span, _)) if span.place(x).is_none() => " (beyond the plot)",
        _ => "",
    }
}

/// Whether the value has a place on such an axis.
fn usable(scale: Scale, value: f64) -> bool {
    value.is_finite() && value.abs() <= VALUE_MAX && (scale == Scale::Linear || value > 0.0)
}

fn power(scale: Scale, value: f64) -> f64 {
    match scale {
        Scale::Linear => value,
        Scale::Log2 => value.log2(),
        Scale::Log10 => value.log10(),
    }
}

/// The largest of 1, 2, 5 times a power of ten that is not above the value, for steps between ticks; at least `value`.
fn round_step(value: f64) -> f64 {
    let tens = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * tens).find(|step| *step >= value * 0.999).unwrap_or(value)
}

impl Span {
    /// The span that shows all these values; nothing if there are none. An even one ends at a multiple of a round step, of
    /// which it has about `steps`.
    fn of(scale: Scale, values: impl Iterator<Item = f64>, steps: f64) -> Option<Span> {
        let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let values = values.filter(|value| usable(scale, *value)).map(|value| power(scale, value));
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        if low > high {
            return None;
        }
        if scale == Scale::Linear {
            let (low, high) = (low.min(0.0), high.max(0.0));
            let high = if high - low < 1e-290 { low + 1.0 } else { high };
            let step = round_step((high - low) / steps);
            return Some(Span { scale, low: (low / step).floor() * step, high: (high / step).ceil() * step });
        }
        // A little air, so that lines do not lie on the frame; more where there is but one value.
        let air = if high - low < 1e-6 { power(scale, 2.0) } else { (high - low) * 0.03 };
        Some(Span { scale, low: low - air, high: high + air })
    }

    /// Where the value lies: 0 at the beginning, 1 at the end; nothing for what cannot be shown.
    pub(crate) fn place(&self, value: f64) -> Option<f64> {
        if !usable(self.scale, value) {
            return None;
        }
        let place = (power(self.scale, value) - self.low) / (self.high - self.low);
        (-0.001..=1.001).contains(&place).then_some(place)
    }

    /// Round values on the axis, about `labels_max` of them labelled at most, in ascending order.
    pub(crate) fn ticks(&self, labels_max: usize) -> Vec<Tick> {
        let labels_max = labels_max.max(2);
        match self.scale {
            Scale::Linear => self.even_ticks(self.low, self.high, labels_max),
            Scale::Log2 => self.power_ticks(2.0, labels_max),
            Scale::Log10 => self.power_ticks(10.0, labels_max),
        }
    }

    /// Ticks at multiples of a round step.
    fn even_ticks(&self, low: f64, high: f64, labels_max: usize) -> Vec<Tick> {
        let step = round_step((high - low) / labels_max as f64);
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let large = if low.abs().max(high.abs()) >= 1e5 { Large::Thousands } else { Large::Full };
        let (first, last) = ((low / step - 1e-6).ceil(), (high / step + 1e-6).floor());
        let values = (0..=(last - first).max(0.0) as usize).map(|index| (first + index as f64) * step);
        values
            .filter_map(|value| Some(Tick { at: self.place(value)?, label: Some(label(value, decimals, large)) }))
            .collect()
    }

    /// Ticks at powers; between them where there are few.
    fn power_ticks(&self, base: f64, labels_max: usize) -> Vec<Tick> {
        let (first, last) = ((self.low - 1e-9).ceil(), (self.high + 1e-9).floor());
        let powers = if last < first { 0 } else { (last - first) as usize + 1 };
        if powers < 2 || (base == 10.0 && powers < 3 && self.high - self.low < 2.0) {
            return self.ticks_within_powers(base, labels_max);
        }
        let stride = powers.div_ceil(labels_max).max(1);
        let large = match (base == 2.0, base.powf(last)) {
            (true, top) if top > 9999.0 => Large::Binary,
            (false, top) if top >= 1e5 => Large::Thousands,
            _ => Large::Full,
        };
        let mut ticks = Vec::new();
        for exponent in first as i32 - 1..=last as i32 {
            let value = base.powi(exponent);
            // Counted from one: strides start where they would on any plot.
            let labelled = exponent.rem_euclid(stride as i32) == 0;
            if let Some(at) = self.place(value).filter(|_| labelled || stride <= 4) {
                ticks.push(Tick { at, label: labelled.then(|| label(value, decimals_of(value), large)) });
            }
            if base == 10.0 && powers <= 4 {
                let between = (2..=9).filter_map(|digit| self.place(value * f64::from(digit)));
                ticks.extend(between.map(|at| Tick { at, label: None }));
            }
        }
        ticks
    }

    /// Labels between powers, for an axis that spans few of them.
    fn ticks_within_powers(&self, base: f64, labels_max: usize) -> Vec<Tick> {
        let (low, high) = (base.powf(self.low), base.powf(self.high));
        if !(low > 0.0 && high.is_finite()) {
            return Vec::new();
        }
        let mut ticks = Vec::new();
        let large = if high >= 1e5 { Large::Thousands } else { Large::Full };
        for exponent in low.log10().floor() as i32..=high.log10().floor() as i32 {
            for digit in [1.0, 2.0, 5.0] {
                let value = digit * 10_f64.powi(exponent);
                if let Some(at) = self.place(value).filter(|at| (0.0..=1.0).contains(at)) {
                    ticks.push(Tick { at, label: Some(label(value, decimals_of(value), large)) });
                }
            }
        }
        if ticks.len() < 3 { self.even_ticks(low, high, labels_max.min(6)) } else { ticks }
    }
}

/// The decimals that a power of ten or a small multiple of it needs.
fn decimals_of(value: f64) -> usize {
    if value >= 1.0 || value <= 0.0 { 0 } else { (-value.log10().floor()).clamp(0.0, 12.0) as usize }
}

fn label(value: f64, decimals: usize, large: Large) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        return format!("{value:.0e}");
    }
    let (thousand, names) = match large {
        Large::Full => return grouped(&format!("{value:.decimals$}")),
        Large::Thousands => (1000.0_f64, ["", " k", " M", " G", " T", " P", " E"]),
        Large::Binary => (1024.0, ["", " Ki", " Mi", " Gi", " Ti", " Pi", " Ei"]),
    };
    let group =
        if size < thousand { 0 } else { ((size.ln() / thousand.ln() + 1e-9).floor() as usize).min(names.len() - 1) };
    let scaled = value / thousand.powi(group as i32);
    let decimals = if group == 0 { decimals } else { usize::from(scaled.fract().abs() > 0.01) };
    // A blank that does not break.
    format!("{scaled:.decimals$}{}", names[group].replace(' ', "\u{a0}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Look, Series};

    fn labels(scale: Scale, values: &[f64], labels_max: usize) -> Vec<String> {
        let span = Span::of(scale, values.iter().copied(), 5.0).expect("there are values");
        let ticks = span.ticks(labels_max);
        assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at), "{ticks:?}");
        ticks.into_iter().filter_map(|tick| tick.label).map(|label| label.replace('\u{a0}', " ")).collect()
    }

    #[test]
    fn linear_ticks_start_at_zero_and_are_round() {
        assert_eq!(labels(Scale::Linear, &[3.0, 97.0], 6), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(Scale::Linear, &[0.13], 5), ["0.00", "0.05", "0.10", "0.15"]);
        assert_eq!(labels(Scale::Linear, &[-4.0, 4.0], 5), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(labels(Scale::Linear, &[2.5e6], 6), ["0", "500 k", "1 M", "1.5 M", "2 M", "2.5 M"]);
        let across = Span::of(Scale::Linear, [0.0, 4096.0].into_iter(), 40.0).expect("there are values");
        assert_eq!((across.low, across.high), (0.0, 4200.0));
        assert_eq!(labels(Scale::Linear, &[0.0], 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers() {
        assert_eq!(labels(Scale::Log2, &[1.0, 64.0], 8), ["1", "2", "4", "8", "16", "32", "64"]);
        assert_eq!(labels(Scale::Log2, &[16.0, 65536.0], 7), ["16", "64", "256", "1 Ki", "4 Ki", "16 Ki", "64 Ki"]);
        assert_eq!(labels(Scale::Log10, &[1.0, 1e6], 7), ["1", "10", "100", "1 k", "10 k", "100 k", "1 M"]);
        assert_eq!(labels(Scale::Log10, &[0.01, 50.0], 7), ["0.01", "0.1", "1", "10"]);
    }

    #[test]
    fn short_logarithmic_axes_have_labels_all_the_same() {
        assert_eq!(labels(Scale::Log10, &[3.0, 40.0], 7), ["5", "10", "20"]);
        assert!(labels(Scale::Log10, &[1000.0], 7).len() >= 2);
        assert!(labels(Scale::Log2, &[1000.0, 1001.0], 7).len() >= 2);
    }

    #[test]
    fn what_has_no_place_is_left_out() {
        assert_eq!(Span::of(Scale::Log10, [0.0, -1.0, f64::NAN].into_iter(), 5.0), None);
        let span = Span::of(Scale::Log10, [0.0, 1.0, 100.0].into_iter(), 5.0).expect("two have a place");
        assert_eq!(span.place(0.0), None);
        assert_eq!(span.place(f64::INFINITY), None);
        assert!((span.place(10.0).expect("in the middle") - 0.5).abs() < 1e-9);

        let mut plot = Plot::new("t", Axis::new("x", Scale::Log2), Axis::new("y", Scale::Linear));
        plot.series.push(Series::new("s", Look::Measured, vec![[0.0, 1.0], [2.0, f64::NAN], [4.0, 3.0]]));
        assert_eq!(drawable(&plot, &plot.series[0].points).collect::<Vec<_>>(), [[4.0, 3.0]]);
    }

    #[test]
    fn what_is_left_out_is_said() {
        let mut plot = Plot::new("t", Axis::new("x", Scale::Log2), Axis::new("y", Scale::Linear));
        plot.series.push(Series::new("s", Look::Measured, vec![[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]]));
        let left = left_out(&plot, &plot.series[0].points).expect("one has no place");
        assert_eq!(left, "1 of 3 points left out: no place on these axes");
        assert_eq!(left_out(&plot, &[[1.0, 1.0]]), None);
        assert_eq!(left_out(&plot, &[]).as_deref(), Some("no points"));
        assert_eq!(
            (beyond(&plot, 3.0), beyond(&plot, 1e9), beyond(&plot, -1.0)),
            ("", " (beyond the plot)", " (beyond the plot)")
        );
    }
}
