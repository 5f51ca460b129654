//! Which variables moved a result: main effects and interactions of a full factorial design.
//!
//! Rates are compared by their logarithms, since variables multiply: a wake-up makes everything so many times slower. The
//! variation of all results is divided among the variables (analysis of variance, Fisher 1925): a variable's share says
//! how much of it goes away when that variable is held fast.

use std::collections::HashMap;

/// A variable and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Factor {
    pub(super) name: String,
    pub(super) levels: Vec<String>,
}

/// One combination of levels, by index, and its rate.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observation {
    pub(super) levels: Vec<usize>,
    pub(super) rate: f64,
}

/// What one variable did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effect {
    /// Index of the variable.
    pub(super) factor: usize,
    /// The levels with the highest and the lowest rate.
    pub(super) best: usize,
    pub(super) worst: usize,
    /// The rate of the best level by that of the worst, geometric means over everything else.
    pub(super) ratio: f64,
    /// The share of the variation of all results.
    pub(super) share: f64,
}

/// What all did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effects {
    /// The variables, the one with the largest share first.
    pub(super) mains: Vec<Effect>,
    /// The pair of variables whose common effect, beyond that of each, is largest, and its share.
    pub(super) pair: Option<([usize; 2], f64)>,
    /// The share of what neither variables nor pairs explain: larger interactions and noise.
    pub(super) rest: f64,
}

/// The effects; `None` unless every combination of levels was observed equally often, with a rate above zero.
pub(super) fn effects(factors: &[Factor], observations: &[Observation]) -> Option<Effects> {
    let combinations: usize = factors.iter().map(|factor| factor.levels.len()).product();
    let mut counts: HashMap<&[usize], usize> = HashMap::new();
    for observation in observations {
        let fits = observation.levels.len() == factors.len()
            && observation.levels.iter().zip(factors).all(|(level, factor)| *level < factor.levels.len());
        if !fits || !observation.rate.is_finite() || observation.rate <= 0.0 {
            return None;
        }
        *counts.entry(observation.levels.as_slice()).or_default() += 1;
    }
    let each = counts.values().next().copied()?;
    if counts.len() != combinations || counts.values().any(|count| *count != each) {
        return None;
    }
    let logs: Vec<f64> = observations.iter().map(|observation| observation.rate.ln()).collect();
    let grand = mean(logs.iter().copied());
    let total: f64 = logs.iter().map(|log| (log - grand).powi(2)).sum();
    let share = |squares: f64| if total > 0.0 { squares / total } else { 0.0 };
    let mean_where = |wanted: &dyn Fn(&[usize]) -> bool| {
        mean(observations.iter().zip(&logs).filter(|(seen, _)| wanted(&seen.levels)).map(|(_, log)| *log))
    };
    let levels_of = |index: usize| 0..factors[index].levels.len();
    let means: Vec<Vec<f64>> = (0..factors.len())
        .map(|index| levels_of(index).map(|level| mean_where(&|seen| seen[index] == level)).collect())
        .collect();
    let per_level = |index: usize| observations.len() as f64 / factors[index].levels.len() as f64;
    let mut mains: Vec<Effect> = (0..factors.len())
        .filter_map(|index| {
            let own = &means[index];
            let order = |a: &usize, b: &usize| own[*a].total_cmp(&own[*b]);
            let (best, worst) = (levels_of(index).max_by(order)?, levels_of(index).min_by(order)?);
            let squares: f64 = own.iter().map(|mean| (mean - grand).powi(2) * per_level(index)).sum();
            Some(Effect { factor: index, best, worst, ratio: (own[best] - own[worst]).exp(), share: share(squares) })
        })
        .collect();
    let mut pair: Option<([usize; 2], f64)> = None;
    let mut explained: f64 = mains.iter().map(|effect| effect.share).sum();
    for a in 0..factors.len() {
        for b in a + 1..factors.len() {
            let mut squares = 0.0;
            for (i, j) in levels_of(a).flat_map(|i| levels_of(b).map(move |j| (i, j))) {
                let cell = mean_where(&|seen| seen[a] == i && seen[b] == j);
                squares += (cell - means[a][i] - means[b][j] + grand).powi(2)
                    * (per_level(a) / factors[b].levels.len() as f64);
            }
            explained += share(squares);
            if pair.is_none_or(|(_, most)| share(squares) > most) {
                pair = Some(([a, b], share(squares)));
            }
        }
    }
    mains.sort_by(|a, b| b.share.total_cmp(&a.share));
    Some(Effects { mains, pair, rest: (1.0 - explained).max(0.0) })
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(name: &str, levels: usize) -> Factor {
        Factor { name: name.to_owned(), levels: (0..levels).map(|level| level.to_string()).collect() }
    }

    fn design(rate: impl Fn(usize, usize, usize) -> f64) -> (Vec<Factor>, Vec<Observation>) {
        let factors = vec![factor("a", 2), factor("b", 3), factor("c", 2)];
        let mut observations = Vec::new();
        for (a, b, c) in (0..2).flat_map(|a| (0..3).flat_map(move |b| (0..2).map(move |c| (a, b, c)))) {
            observations.push(Observation { levels: vec![a, b, c], rate: rate(a, b, c) });
        }
        (factors, observations)
    }

    #[test]
    fn known_effects_are_found_each_by_itself() {
        let (factors, seen) = design(|a, b, _| 100.0 * 4f64.powi(a as i32) * 1.5f64.powi(b as i32));
        let found = effects(&factors, &seen).expect("a full design");
        assert_eq!(found.mains.iter().map(|effect| effect.factor).collect::<Vec<_>>(), [0, 1, 2]);
        assert!((found.mains[0].ratio - 4.0).abs() < 1e-9 && found.mains[0].best == 1 && found.mains[0].worst == 0);
        assert!((found.mains[1].ratio - 2.25).abs() < 1e-9 && found.mains[1].best == 2);
        assert!((found.mains[2].ratio - 1.0).abs() < 1e-9 && found.mains[2].share < 1e-9);
        assert!((found.mains.iter().map(|effect| effect.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(found.rest < 1e-9 && found.pair.expect("there are pairs").1 < 1e-9);
    }

    #[test]
    fn what_two_do_together_is_an_interaction() {
        let (factors, seen) = design(|a, _, c| if a == 1 && c == 1 { 16.0 } else { 1.0 });
        let found = effects(&factors, &seen).expect("a full design");
        let (pair, share) = found.pair.expect("there are pairs");
        assert_eq!(pair, [0, 2]);
        assert!((share - 1.0 / 3.0).abs() < 1e-9, "{share}");
        assert!((found.mains[0].ratio - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_design_with_holes_gives_nothing() {
        let (factors, mut seen) = design(|_, _, _| 1.0);
        assert!(effects(&factors, &seen).is_some_and(|found| found.mains[0].share == 0.0));
        seen.pop();
        assert_eq!(effects(&factors, &seen), None);
        assert_eq!(effects(&factors, &[]), None);
        let (factors, mut seen) = design(|_, _, _| 1.0);
        seen[3].rate = 0.0;
        assert_eq!(effects(&factors, &seen), None);
    }
}
