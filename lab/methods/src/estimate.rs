//! Medians and how sure they are: the 95 % interval of a median by the percentile bootstrap (Efron 1979; Efron and
//! Tibshirani, An Introduction to the Bootstrap, section 13.3).

use ciphermill_report::Estimate;

use crate::random::Random;

/// Resamples of one interval.
const RESAMPLES: usize = 1000;

/// What lies outside of the interval on either side, of 1,000.
const TAIL: usize = RESAMPLES / 40;

/// Where the resampling starts: the same samples always have the same interval.
const SEED: u64 = 0x6369_7068_6572;

/// The median; zero of nothing. Reorders `values`.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    let is_even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let lower = below.iter().copied().max_by(f64::total_cmp).filter(|_| is_even);
    lower.map_or(*upper, |lower| lower.midpoint(*upper))
}

/// The median of independent samples with its 95 % interval: of the medians of resamples, drawn with replacement, the
/// middle 95 %.
pub(crate) fn estimate(samples: &[f64]) -> Estimate {
    let value = median(&mut samples.to_vec());
    if samples.len() < 2 {
        return Estimate { value, interval: [value, value] };
    }
    let mut random = Random::new(SEED);
    let mut resample = vec![0.0; samples.len()];
    let mut medians = [0.0; RESAMPLES];
    for of_resample in &mut medians {
        for drawn in &mut resample {
            *drawn = samples[random.below(samples.len() as u64) as usize];
        }
        *of_resample = median(&mut resample);
    }
    medians.sort_unstable_by(f64::total_cmp);
    // The median of the samples itself is in the interval whatever the resamples are.
    let [low, high] = [medians[TAIL].min(value), medians[RESAMPLES - 1 - TAIL].max(value)];
    Estimate { value, interval: [low, high] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uniform in 0..1.
    fn uniform(random: &mut Random) -> f64 {
        (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Normal around 100 with this deviation (Box and Muller).
    fn normal(random: &mut Random, deviation: f64) -> f64 {
        let (radius, angle) = ((-2.0 * (1.0 - uniform(random)).ln()).sqrt(), std::f64::consts::TAU * uniform(random));
        100.0 + deviation * radius * angle.cos()
    }

    #[test]
    fn medians_of_few() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), 2.5);
    }

    #[test]
    fn the_same_samples_have_the_same_interval() {
        let mut random = Random::new(7);
        let samples: Vec<f64> = (0..50).map(|_| normal(&mut random, 5.0)).collect();
        assert_eq!(estimate(&samples), estimate(&samples));
        assert_eq!(estimate(&[5.0]).interval, [5.0, 5.0]);
        assert_eq!(estimate(&[5.0; 30]).interval, [5.0, 5.0]);
    }

    /// Of a normal distribution the median has a standard error of 1.2533 deviations by the root of the number.
    #[test]
    fn widths_are_those_that_theory_tells() {
        let mut random = Random::new(1);
        for deviation in [1.0, 10.0] {
            let mut widths: Vec<f64> = (0..40)
                .map(|_| {
                    let samples: Vec<f64> = (0..200).map(|_| normal(&mut random, deviation)).collect();
                    let [low, high] = estimate(&samples).interval;
                    high - low
                })
                .collect();
            let theory = 2.0 * 1.96 * 1.2533 * deviation / f64::sqrt(200.0);
            let width = median(&mut widths);
            assert!((0.8..1.2).contains(&(width / theory)), "{width} where {theory} is right");
        }
    }

    /// The interval holds the true median in about 95 of 100 experiments, of skewed samples too.
    #[test]
    fn intervals_cover_the_true_median() {
        let mut random = Random::new(2);
        let covered = (0..200)
            .filter(|_| {
                // Exponential, median ln 2.
                let samples: Vec<f64> = (0..60).map(|_| -(1.0 - uniform(&mut random)).ln()).collect();
                let [low, high] = estimate(&samples).interval;
                (low..=high).contains(&std::f64::consts::LN_2)
            })
            .count();
        assert!((180..200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn an_interval_is_wide_where_the_samples_are() {
        // Two states of a machine, half of the time each: nobody knows the median.
        let samples: Vec<f64> = (0..40).map(|round| if round % 2 == 0 { 1.0 } else { 2.0 }).collect();
        let both = estimate(&samples);
        assert_eq!((both.value, both.interval, both.is_noisy()), (1.5, [1.0, 2.0], true));
        // A rare outlier moves neither the median nor its interval.
        let spiked: Vec<f64> = (0..40).map(|round| if round % 20 == 0 { 50.0 } else { 1.0 }).collect();
        assert_eq!(estimate(&spiked).interval, [1.0, 1.0]);
    }
}
