//! Interleaved timing: what is compared is run A B C A B C, so that drift hits all alike. Ratios are taken round by round,
//! between runs that lie next to each other in time.

use std::time::{Duration, Instant};

use ciphermill_report::Estimate;

use crate::estimate::{estimate, median};

/// Times of one contestant, in nanoseconds a run.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// The median.
    pub fn median_ns(&self) -> f64 {
        median(&mut self.0.clone())
    }

    /// Half the width of the median's 95 % interval, as a share of the median: 0.05 means that it is good to 5 %.
    pub fn spread(&self) -> f64 {
        estimate(&self.0).spread()
    }

    /// How many times as long as the other's runs these took: the median over the rounds in which both were timed.
    pub fn ratio(&self, other: &Samples) -> Estimate {
        let ratios: Vec<f64> = self.0.iter().zip(&other.0).map(|(own, other)| own / other.max(1.0)).collect();
        estimate(&ratios)
    }

    /// How many runs were timed.
    pub fn count(&self) -> usize {
        self.0.len()
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
        Budget { time: Duration::from_millis(600), rounds_min: 12, rounds_max: 500 }
    }
}

/// Measuring is late when it has taken so many times as long as it should, resets included …
const LATE: u32 = 8;

/// … and then ends with so many rounds.
const ROUNDS_LATE: usize = 3;

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
    let begun = Instant::now();
    for round in 0..=budget.rounds_max {
        // Beside other programs a round may take a hundred times as long: then fewer have to do, and their interval is wide.
        let late = round > ROUNDS_LATE && !limit.is_zero() && begun.elapsed() >= limit * LATE;
        if late || round > budget.rounds_min && spent >= limit {
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
    fn ratios_hold_where_the_clock_drifts() {
        let samples: Samples = [4.0, 1.0, 3.0, 2.0].into_iter().collect();
        assert_eq!(samples.median_ns(), 2.5);
        assert_eq!(Samples::default().median_ns(), 0.0);
        // The machine becomes twice as slow meanwhile: each time spreads, their ratio does not.
        let own: Samples = (0..100).map(|round| 2000.0 * (1.0 + f64::from(round) / 100.0)).collect();
        let other: Samples = own.0.iter().map(|ns| ns / 4.0).collect();
        let ratio = own.ratio(&other);
        assert_eq!((ratio.value, ratio.interval), (4.0, [4.0, 4.0]));
        assert!(own.spread() > 0.05, "{}", own.spread());
        assert_eq!(other.ratio(&own).value, 0.25);
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

    #[test]
    fn what_is_late_ends_with_fewer_rounds() {
        struct Slow;
        impl Contestant for Slow {
            fn reset(&mut self) {
                std::thread::sleep(Duration::from_millis(10));
            }
            fn run(&mut self) {}
        }
        let budget = Budget { time: Duration::from_millis(1), rounds_min: 200, rounds_max: 500 };
        assert_eq!(interleave(&mut [&mut Slow], budget)[0].count(), ROUNDS_LATE);
    }
}
