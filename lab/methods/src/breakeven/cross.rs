//! Where one engine overtakes another: read off measured times, and by fitted costs.

use ciphermill_contract::Cost;

/// Where a challenger overtakes along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Overtaking {
    /// It is faster from the first point on.
    Always,
    /// It is faster from here on; between two points that were measured.
    At(f64),
    /// It is not faster at the last point.
    Never,
}

/// Where `challenger` overtakes `incumbent`: from there on it is faster at every point that both have. Points are a
/// position and nanoseconds, by ascending position. Between two points both times are taken to follow powers of the
/// position, as straight lines on paper with logarithmic axes do.
///
/// `None` when they have no point in common.
pub(crate) fn overtaking(incumbent: &[[f64; 2]], challenger: &[[f64; 2]]) -> Option<Overtaking> {
    let lead = |[x, theirs]: &[f64; 2]| {
        let own = challenger.iter().find(|[place, _]| place == x)?;
        // Above zero where the challenger is faster.
        Some([*x, (theirs / own[1]).ln()])
    };
    let leads: Vec<[f64; 2]> = incumbent.iter().filter_map(lead).collect();
    leads.first()?;
    match leads.iter().rposition(|[_, lead]| *lead <= 0.0) {
        None => Some(Overtaking::Always),
        Some(last) if last + 1 == leads.len() => Some(Overtaking::Never),
        Some(last) => {
            let ([x, behind], [next, ahead]) = (leads[last], leads[last + 1]);
            let share = -behind / (ahead - behind);
            Some(Overtaking::At(x * (next / x).powf(share)))
        }
    }
}

/// The same by costs, from the first batch or length at which the challenger is predicted to be faster.
pub(super) fn predicted(first: Option<u64>, least: u64, most: u64) -> Overtaking {
    match first {
        Some(first) if first <= least => Overtaking::Always,
        Some(first) if first <= most => Overtaking::At(first as f64),
        _ => Overtaking::Never,
    }
}

/// The predicted batch at which `challenger` overtakes for operations of `len` bytes, within `batches`.
pub(super) fn predicted_batch(incumbent: &Cost, challenger: &Cost, len: usize, batches: [usize; 2]) -> Overtaking {
    let first = ciphermill_router::break_even(incumbent, challenger, len as u64);
    predicted(first, batches[0] as u64, batches[1] as u64)
}

/// The predicted length at which `challenger` overtakes in batches of `ops`, within `lengths`.
pub(super) fn predicted_len(incumbent: &Cost, challenger: &Cost, ops: usize, lengths: [usize; 2]) -> Overtaking {
    let first = ciphermill_router::break_even_len(incumbent, challenger, ops as u64);
    predicted(first, lengths[0] as u64, lengths[1] as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cost: &Cost, places: &[f64], len: f64) -> Vec<[f64; 2]> {
        places.iter().map(|ops| [*ops, cost.predict_ns(*ops as u64, (ops * len) as u64)]).collect()
    }

    #[test]
    fn crossings_lie_between_the_points_that_show_them() {
        let (single, lanes) = (Cost::new(0.0, 100.0, 0.0), Cost::new(1000.0, 20.0, 0.0));
        let batches = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
        let (a, b) = (line(&single, &batches, 0.0), line(&lanes, &batches, 0.0));
        // 1000 + 20 n = 100 n at 12.5.
        let Some(Overtaking::At(at)) = overtaking(&a, &b) else { panic!("it overtakes") };
        assert!((at - 12.5).abs() < 0.5, "{at}");
        assert_eq!(overtaking(&b, &a), Some(Overtaking::Never));
        assert_eq!(overtaking(&a[4..], &b), Some(Overtaking::Always));
        assert_eq!(overtaking(&a, &[]), None);
        assert_eq!(overtaking(&a, &a), Some(Overtaking::Never), "as fast is not faster");
        assert_eq!(predicted_batch(&single, &lanes, 0, [1, 32]), Overtaking::At(13.0));
        assert_eq!(predicted_batch(&single, &lanes, 0, [1, 8]), Overtaking::Never);
        assert_eq!(predicted_batch(&lanes, &single, 0, [1, 32]), Overtaking::Always);
    }

    #[test]
    fn a_power_law_is_met_exactly() {
        let a: Vec<[f64; 2]> = [1.0, 10.0, 100.0].map(|x: f64| [x, 30.0 * x]).to_vec();
        let b: Vec<[f64; 2]> = [1.0, 10.0, 100.0].map(|x: f64| [x, 90.0 * x.sqrt()]).to_vec();
        let Some(Overtaking::At(at)) = overtaking(&a, &b) else { panic!("it overtakes") };
        assert!((at - 9.0).abs() < 1e-9, "{at}");
    }

    #[test]
    fn the_last_time_that_it_falls_behind_counts() {
        let a = [[1.0, 10.0], [2.0, 10.0], [4.0, 10.0], [8.0, 10.0]];
        let b = [[1.0, 9.0], [2.0, 11.0], [4.0, 8.0], [8.0, 8.0]];
        let Some(Overtaking::At(at)) = overtaking(&a, &b) else { panic!("it overtakes") };
        assert!(at > 2.0 && at < 4.0, "{at}");
    }
}
