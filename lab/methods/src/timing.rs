//! Interleaved timing: what is compared is run A B C A B C, so that drift hits all alike.

use std::time::{Duration, Instant};

/// Times of one contestant, in nanoseconds a run.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// The median.
    pub fn median_ns(&self) -> f64 {
        self.quantile_ns(0.5)
    }

    /// How far the middle half lies apart, as a share of the median: 0.05 means that quotes are good to 5 %.
    pub fn spread(&self) -> f64 {
        let median = self.median_ns();
        if median == 0.0 { 0.0 } else { (self.quantile_ns(0.75) - self.quantile_ns(0.25)) / median }
    }

    /// How many runs were timed.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    fn quantile_ns(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = share * sorted.len().saturating_sub(1) as f64;
        let (low, high) = (place.floor() as usize, place.ceil() as usize);
        match (sorted.get(low), sorted.get(high)) {
            (Some(low_ns), Some(high_ns)) => low_ns + (high_ns - low_ns) * (place - low as f64),
            _ => 0.0,
        }
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(iter: I) -> Samples {
        Samples(iter.into_iter().collect())
    }
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Time for each contestant.
    pub time: Duration,
    /// Timed rounds at least.
    pub rounds_min: usize,
    /// Timed rounds at most.
    pub rounds_max: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { time: Duration::from_millis(600), rounds_min: 7, rounds_max: 400 }
    }
}

/// Something that can be timed: `reset` is not, `run` is.
pub trait Contestant {
    /// Makes ready for the next run.
    fn reset(&mut self);
    /// The work.
    fn run(&mut self);
}

/// Times the contestants in turns, after one round that warms caches and branch predictors.
pub fn interleave(contestants: &mut [&mut dyn Contestant], budget: Budget) -> Vec<Samples> {
    let mut samples = vec![Samples::default(); contestants.len()];
    let mut spent = Duration::ZERO;
    let limit = budget.time * u32::try_from(contestants.len()).unwrap_or(u32::MAX);
    for round in 0..=budget.rounds_max {
        if round > budget.rounds_min && spent >= limit {
            break;
        }
        for (contestant, samples) in contestants.iter_mut().zip(&mut samples) {
            contestant.reset();
            let start = Instant::now();
            contestant.run();
            let elapsed = start.elapsed();
            if round > 0 {
                spent += elapsed;
                samples.0.push(elapsed.as_nanos() as f64);
            }
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let samples: Samples = [4.0, 1.0, 3.0, 2.0].into_iter().collect();
        assert_eq!(samples.median_ns(), 2.5);
        assert!((samples.spread() - 1.5 / 2.5).abs() < 1e-12);
        assert_eq!(Samples::default().median_ns(), 0.0);
    }

    #[test]
    fn contestants_take_turns_and_the_first_round_is_not_counted() {
        struct Count(usize, usize);
        impl Contestant for Count {
            fn reset(&mut self) {
                self.0 += 1;
            }
            fn run(&mut self) {
                self.1 += 1;
                assert_eq!(self.0, self.1);
            }
        }
        let (mut a, mut b) = (Count(0, 0), Count(0, 0));
        let budget = Budget { time: Duration::ZERO, rounds_min: 3, rounds_max: 9 };
        let samples = interleave(&mut [&mut a, &mut b], budget);
        assert_eq!((samples[0].count(), samples[1].count()), (3, 3));
        assert_eq!((a.1, b.1), (4, 4));
    }
}
