//! From measured times to a [`Cost`], and from two costs to the sizes at which one engine overtakes the other.
//!
//! Measured times lie orders of magnitude apart, so it is relative errors that are made small. The engine's own model is
//! linear and the engines are not quite, so what is left over stands beside the cost: its spread, and a factor for each
//! class of sizes ([`size_class`]).

use ciphermill_contract::Cost;
use ciphermill_contract::limits::{BATCH_OPS_MAX, INPUT_LEN_MAX};

use crate::learn::{SIZE_CLASSES, size_class};

/// One measured batch: the least or the lower quartile of several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Operations.
    pub ops: u64,
    /// Bytes of input of all of them together.
    pub bytes: u64,
    /// Nanoseconds that it took.
    pub ns: f64,
}

/// A cost, and how well it describes the points that it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// The cost; no term is negative.
    pub cost: Cost,
    /// The median of the relative errors' absolute values.
    pub spread: f64,
}

/// Rounds of reweighting, each of both kinds.
const ROUNDS: usize = 12;

/// Relative error below which a point is as good as met; keeps weights finite.
const MET: f64 = 1e-3;

/// The least scale that errors are judged by: points that are off by less than about five times this never count as
/// disturbed, however well the others lie.
const SCALE_MIN: f64 = 0.05;

/// Standard deviations of a normal distribution in its median absolute deviation.
const DEVIATIONS: f64 = 1.4826;

/// Tukey's constant: beyond so many deviations a point counts for nothing.
const BISQUARE: f64 = 4.685;

/// Sets of terms that may be above zero, bit 0 for the batch, 1 for operations, 2 for bytes. When measured points leave a
/// choice (all messages of one length: operations or bytes?), the first that fits best is taken.
const ACTIVE_SETS: [u8; 7] = [0b010, 0b011, 0b001, 0b100, 0b110, 0b101, 0b111];

/// By how much of the first set's error a set must be better than those before it.
const CLEARLY: f64 = 1e-9;

/// The share of a diagonal element below which what elimination has left of it is rounding.
const RANK_LOST: f64 = 1e-10;

/// Fits a cost to measured points; `None` when there is no point with operations and a time.
///
/// With three unknowns that must not be negative, every set of active ones can be tried: the best feasible one is the
/// solution. Least absolute errors first, so that no start is spoilt by a batch which the system interrupted; then
/// Tukey's weights, under which such a batch counts for nothing.
pub fn fit(points: &[Point]) -> Option<Fit> {
    let points: Vec<Point> =
        points.iter().copied().filter(|point| point.ops > 0 && point.ns.is_finite() && point.ns > 0.0).collect();
    let mut weights = vec![1.0; points.len()];
    let mut cost = solve(&points, &weights)?;
    for _ in 0..ROUNDS {
        for (weight, point) in weights.iter_mut().zip(&points) {
            *weight = 1.0 / error(&cost, point).abs().max(MET);
        }
        cost = solve(&points, &weights)?;
    }
    for _ in 0..ROUNDS {
        let scale = (DEVIATIONS * median(points.iter().map(|point| error(&cost, point).abs()))).max(SCALE_MIN);
        for (weight, point) in weights.iter_mut().zip(&points) {
            let distance = (error(&cost, point) / (BISQUARE * scale)).abs().min(1.0);
            *weight = (1.0 - distance * distance).powi(2);
        }
        // All points can only be out of reach if the cost was no fit at all; the one before stands then.
        let Some(better) = solve(&points, &weights) else { break };
        cost = better;
    }
    Some(Fit { cost, spread: median(points.iter().map(|point| error(&cost, point).abs())) })
}

/// How many times as long as predicted the points of each class of sizes took, for predictions that are better than a
/// line. Classes without a point take over that of fewer operations of the same lengths, else one.
pub fn class_factors(cost: &Cost, points: &[Point]) -> [f64; SIZE_CLASSES] {
    let mut ratios: [Vec<f64>; SIZE_CLASSES] = Default::default();
    for point in points {
        let predicted_ns = cost.predict_ns(point.ops, point.bytes);
        if predicted_ns > 0.0 {
            ratios[size_class(point.ops, point.bytes)].push(point.ns / predicted_ns);
        }
    }
    let lengths = size_class(2, 0);
    let mut factors = [1.0; SIZE_CLASSES];
    for class in 0..SIZE_CLASSES {
        factors[class] = match ratios[class].is_empty() {
            false => median(ratios[class].iter().copied()),
            true if class >= lengths => factors[class - lengths],
            true => 1.0,
        };
    }
    factors
}

/// The smallest batch of operations of `len` bytes from which `b` is faster than `a`; `None` when no batch is large
/// enough.
pub fn break_even(a: &Cost, b: &Cost, len: u64) -> Option<u64> {
    first_where(1, BATCH_OPS_MAX as u64, |ops| {
        let bytes = ops.saturating_mul(len);
        b.predict_ns(ops, bytes) - a.predict_ns(ops, bytes)
    })
}

/// The shortest length in bytes from which `b` is faster than `a` for batches of `ops` operations; `None` when no length
/// that a suite may take is long enough.
pub fn break_even_len(a: &Cost, b: &Cost, ops: u64) -> Option<u64> {
    first_where(0, INPUT_LEN_MAX as u64, |len| {
        let bytes = ops.saturating_mul(len);
        b.predict_ns(ops, bytes) - a.predict_ns(ops, bytes)
    })
}

/// The first number at which a straight line that begins at `min` is below zero.
fn first_where(min: u64, max: u64, line: impl Fn(u64) -> f64) -> Option<u64> {
    if line(min) < 0.0 {
        return Some(min);
    }
    if line(max) >= 0.0 || line(max) >= line(min) {
        return None;
    }
    let (mut not_yet, mut below) = (min, max);
    while below - not_yet > 1 {
        let middle = not_yet + (below - not_yet) / 2;
        if line(middle) < 0.0 { below = middle } else { not_yet = middle }
    }
    Some(below)
}

/// The predicted time's error as a share of the measured time. Below zero when the batch took longer than predicted, and
/// then never below minus one: an interruption, however long, pulls no further than that.
fn error(cost: &Cost, point: &Point) -> f64 {
    cost.predict_ns(point.ops, point.bytes) / point.ns - 1.0
}

/// The cost with the least weighted sum of squared relative errors among those without a negative term.
fn solve(points: &[Point], weights: &[f64]) -> Option<Cost> {
    let mut best: Option<(Cost, f64)> = None;
    for active in ACTIVE_SETS {
        let Some(cost) = solve_active(points, weights, active) else { continue };
        let squares: f64 = points.iter().zip(weights).map(|(point, weight)| weight * error(&cost, point).powi(2)).sum();
        if best.is_none_or(|(_, least)| squares < least * (1.0 - CLEARLY) - f64::EPSILON) {
            best = Some((cost, squares));
        }
    }
    best.map(|(cost, _)| cost)
}

/// Weighted least squares over the active terms; `None` when the points do not determine them or one is not positive.
fn solve_active(points: &[Point], weights: &[f64], active: u8) -> Option<Cost> {
    let row = |point: &Point| [1.0 / point.ns, point.ops as f64 / point.ns, point.bytes as f64 / point.ns];
    let mut scales = [0.0f64; 3];
    for point in points {
        for (scale, value) in scales.iter_mut().zip(row(point)) {
            *scale = scale.max(value);
        }
    }
    // Normal equations, with columns brought to one scale; inactive terms are held at zero by a row of the unit matrix.
    let mut matrix = [[0.0f64; 4]; 3];
    for (point, weight) in points.iter().zip(weights) {
        let row = row(point);
        for i in (0..3).filter(|i| active & 1 << i != 0) {
            let left = weight * row[i] / scales[i];
            for j in (0..3).filter(|j| active & 1 << j != 0) {
                matrix[i][j] += left * row[j] / scales[j];
            }
            matrix[i][3] += left;
        }
    }
    for i in (0..3).filter(|i| active & 1 << i == 0) {
        matrix[i][i] = 1.0;
    }
    let terms = eliminate(matrix)?;
    let term = |i: usize| if active & 1 << i != 0 { terms[i] / scales[i] } else { 0.0 };
    let cost = Cost::new(term(0), term(1), term(2));
    let positive = |i: usize, value: f64| active & 1 << i == 0 || (value.is_finite() && value > 0.0);
    (positive(0, cost.batch_ns) && positive(1, cost.op_ns) && positive(2, cost.byte_ns)).then_some(cost)
}

/// Gauss's elimination of a symmetric matrix without negative eigenvalues, which needs no exchange of rows; `None` when
/// one row follows from the others but for rounding.
fn eliminate(mut matrix: [[f64; 4]; 3]) -> Option<[f64; 3]> {
    let diagonal = [matrix[0][0], matrix[1][1], matrix[2][2]];
    for column in 0..3 {
        let lead = matrix[column];
        if lead[column].is_nan() || lead[column] <= RANK_LOST * diagonal[column] {
            return None;
        }
        for (_, values) in matrix.iter_mut().enumerate().filter(|(row, _)| *row != column) {
            let share = values[column] / lead[column];
            for (value, lead) in values.iter_mut().zip(lead).skip(column) {
                *value -= share * lead;
            }
        }
    }
    Some([matrix[0][3] / matrix[0][0], matrix[1][3] / matrix[1][1], matrix[2][3] / matrix[2][2]])
}

/// The median, zero of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[len / 2],
        len => f64::midpoint(values[len / 2 - 1], values[len / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPES: [(u64, u64); 15] = [
        (1, 16),
        (1, 256),
        (1, 4096),
        (1, 16384),
        (8, 16),
        (8, 1024),
        (8, 16384),
        (64, 16),
        (64, 256),
        (64, 4096),
        (256, 16),
        (256, 1024),
        (1024, 16),
        (1024, 64),
        (1024, 256),
    ];

    fn points(cost: &Cost, noise: &[f64]) -> Vec<Point> {
        let point = |((ops, len), noise): (&(u64, u64), &f64)| {
            let (ops, bytes) = (*ops, ops * len);
            Point { ops, bytes, ns: cost.predict_ns(ops, bytes) * noise }
        };
        SHAPES.iter().zip(noise).map(point).collect()
    }

    /// A term: none, or something over three orders of magnitude.
    fn term(scale: f64) -> impl Strategy<Value = f64> {
        prop_oneof![1 => Just(0.0), 4 => (-1.5..1.5f64).prop_map(move |power| scale * 10f64.powf(power))]
    }

    fn cost() -> impl Strategy<Value = Cost> {
        (term(1000.0), term(100.0), term(1.0))
            .prop_map(|(batch_ns, op_ns, byte_ns)| Cost::new(batch_ns, op_ns, byte_ns))
            .prop_filter("no cost at all", |cost| cost.predict_ns(1, 16) > 0.0)
    }

    fn off_by(fit: &Fit, cost: &Cost) -> f64 {
        let off = |(ops, len): &(u64, u64)| {
            (fit.cost.predict_ns(*ops, ops * len) / cost.predict_ns(*ops, ops * len) - 1.0).abs()
        };
        SHAPES.iter().map(off).fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn known_costs_are_recovered_exactly_without_noise(cost in cost()) {
            let fit = fit(&points(&cost, &[1.0; SHAPES.len()])).expect("there are points");
            prop_assert!(off_by(&fit, &cost) < 1e-4, "{fit:?}");
            prop_assert!(fit.spread < 1e-4);
        }

        #[test]
        fn known_costs_are_recovered_under_noise_and_interruptions(
            cost in cost(),
            noise in prop::collection::vec(0.97..1.03f64, SHAPES.len()),
            disturbed in prop::collection::vec((4..SHAPES.len(), 1.5..100.0f64), 0..=2),
        ) {
            let mut noise = noise;
            for (index, factor) in disturbed {
                noise[index] *= factor;
            }
            let fit = fit(&points(&cost, &noise)).expect("there are points");
            prop_assert!(off_by(&fit, &cost) < 0.2, "{fit:?}");
            prop_assert!(fit.spread < 0.05, "{fit:?}");
        }

        #[test]
        fn no_term_is_ever_negative(times in prop::collection::vec(0.1..1e9f64, 1..SHAPES.len())) {
            let all = SHAPES.iter().zip(&times).map(|((ops, len), ns)| Point { ops: *ops, bytes: ops * len, ns: *ns });
            let all: Vec<Point> = all.collect();
            let fit = fit(&all).expect("there are points");
            prop_assert!(fit.cost.batch_ns >= 0.0 && fit.cost.op_ns >= 0.0 && fit.cost.byte_ns >= 0.0);
            prop_assert!(fit.spread >= 0.0 && fit.cost.predict_ns(3, 99) > 0.0);
            prop_assert!(class_factors(&fit.cost, &all).iter().all(|factor| *factor > 0.0 && factor.is_finite()));
        }

        #[test]
        fn break_even_is_where_predictions_cross(a in cost(), b in cost(), fixed in 0u64..2048) {
            let faster = |ops: u64, len: u64| b.predict_ns(ops, ops * len) < a.predict_ns(ops, ops * len);
            let by_search = (1..4096).find(|ops| faster(*ops, fixed));
            let found = break_even(&a, &b, fixed);
            prop_assert_eq!(found.filter(|ops| *ops < 4096), by_search);
            prop_assert!(found.is_none_or(|ops| faster(ops, fixed) && (ops == 1 || !faster(ops - 1, fixed))));
            let ops = fixed + 1;
            let by_search = (0..4096).find(|len| faster(ops, *len));
            prop_assert_eq!(break_even_len(&a, &b, ops).filter(|len| *len < 4096), by_search);
        }
    }

    #[test]
    fn an_engine_overtakes_once_or_never() {
        let (single, lanes) = (Cost::new(0.0, 100.0, 1.0), Cost::new(1000.0, 20.0, 0.5));
        assert_eq!(break_even(&single, &lanes, 0), Some(13));
        assert_eq!(break_even(&single, &lanes, 100), Some(8));
        assert_eq!(break_even(&lanes, &single, 100), Some(1));
        assert_eq!(break_even(&single, &single, 16), None);
        assert_eq!(break_even_len(&single, &lanes, 1), Some(1841));
        assert_eq!(break_even_len(&single, &lanes, 32), Some(0));
        assert_eq!(break_even(&lanes, &Cost::new(2000.0, 20.0, 0.5), 16), None);
    }

    #[test]
    fn what_points_cannot_tell_goes_to_operations() {
        let same_length = [1, 2, 4].map(|ops| Point { ops, bytes: 32 * ops, ns: 10.0 + 50.0 * ops as f64 });
        let cost = fit(&same_length).expect("there are points").cost;
        assert!((cost.batch_ns - 10.0).abs() < 0.01 && (cost.op_ns - 50.0).abs() < 0.01 && cost.byte_ns == 0.0);
        let one = fit(&[Point { ops: 2, bytes: 64, ns: 100.0 }]).expect("there is a point").cost;
        assert!((one.op_ns - 50.0).abs() < 0.01 && one.batch_ns == 0.0 && one.byte_ns == 0.0);
        assert_eq!(fit(&[]), None);
        assert_eq!(fit(&[Point { ops: 1, bytes: 1, ns: f64::NAN }, Point { ops: 0, bytes: 0, ns: 5.0 }]), None);
    }

    #[test]
    fn classes_keep_what_the_line_leaves() {
        let cost = Cost::new(0.0, 100.0, 0.0);
        let points = [(1, 300.0), (4, 400.0), (32, 1600.0), (512, 51_200.0)];
        let factors = class_factors(&cost, &points.map(|(ops, ns)| Point { ops, bytes: 16 * ops, ns }));
        let of = |ops: u64| factors[size_class(ops, 16 * ops)];
        assert_eq!([1, 4, 32, 512, 2048].map(of), [3.0, 1.0, 0.5, 1.0, 1.0]);
        assert_eq!(factors[1], 1.0, "nothing is known of longer ones");
    }
}
