//! What is learnt of an engine while it works: how far it is off its own figures, for each class of batch sizes.
//!
//! A [`Correction`] follows the ratio of measured to predicted time. It moves by bounded steps, so that one batch that was
//! interrupted by the system changes little, and what the router sees of it moves only when it is off by more than a
//! sixth, so that routes between engines of about the same speed do not flap.

/// How far a correction can go either way: two to this power.
const LOG2_MAX: f32 = 6.0;

/// What one measurement counts for, however far off it is, as a power of two.
const LOG2_STEP_MAX: f32 = 1.0;

/// The share of a measurement's distance that a correction moves by.
const WEIGHT: f32 = 0.3;

/// The same for probes, which are rare.
const PROBE_WEIGHT: f32 = 0.5;

/// The distance, as a power of two, below which the router keeps the correction that it has: 17 %.
const DEAD_BAND: f32 = 0.23;

/// By how much an engine is slower (above one) or faster than its figures say.
///
/// Copies as one word ([`Correction::to_bits`]), so that it can lie in an atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Correction {
    /// The present estimate, as a power of two.
    recent: f32,
    /// The estimate that routes go by, as a power of two.
    applied: f32,
}

/// How a measurement came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// The engine was the router's choice.
    Routed,
    /// The engine was tried again after it had been slow.
    Probe,
}

impl Correction {
    /// The factor that routes go by.
    #[inline]
    pub fn factor(self) -> f64 {
        if self.applied == 0.0 { 1.0 } else { f64::from(self.applied.exp2()) }
    }

    /// Whether the engine is taken to be slower than its figures: what a probe may find to be over.
    #[inline]
    pub fn is_slow(self) -> bool {
        self.applied > 0.0
    }

    /// The correction after a batch that was predicted to take `predicted_ns` (by the figures, uncorrected) and took
    /// `actual_ns`. Times that are no times change nothing.
    #[must_use]
    pub fn observe(self, predicted_ns: f64, actual_ns: f64, sample: Sample) -> Correction {
        let ratio = actual_ns / predicted_ns;
        if !ratio.is_finite() || ratio <= 0.0 {
            return self;
        }
        let measured = (ratio.log2() as f32).clamp(-LOG2_MAX, LOG2_MAX);
        let weight = match sample {
            Sample::Routed => WEIGHT,
            Sample::Probe => PROBE_WEIGHT,
        };
        let recent = self.recent + weight * (measured - self.recent).clamp(-LOG2_STEP_MAX, LOG2_STEP_MAX);
        let applied = if (recent - self.applied).abs() > DEAD_BAND { recent } else { self.applied };
        Correction { recent, applied }
    }

    /// The correction as a word; zero is no correction.
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.recent.to_bits()) << 32 | u64::from(self.applied.to_bits())
    }

    /// The correction of a word.
    #[inline]
    pub fn from_bits(bits: u64) -> Correction {
        Correction { recent: f32::from_bits((bits >> 32) as u32), applied: f32::from_bits(bits as u32) }
    }
}

/// Classes of batches that are corrected apart.
pub const SIZE_CLASSES: usize = OPS_CLASSES.len() * LEN_CLASSES.len();

/// The fewest operations of each class of sizes.
pub const OPS_CLASSES: [u64; 5] = [1, 2, 16, 128, 1024];

/// The least mean length in bytes of each. Four times as much a class: engines change their way within less where a single
/// message or a few are concerned.
pub const LEN_CLASSES: [u64; 6] = [0, 33, 129, 513, 2049, 8193];

/// The class of a batch: by its operations ([`OPS_CLASSES`]) and by their mean length ([`LEN_CLASSES`]).
#[inline]
pub fn size_class(ops: u64, bytes: u64) -> usize {
    let class_of = |value: u64, firsts: &[u64]| firsts[1..].iter().filter(|first| value >= **first).count();
    let mean = bytes.checked_div(ops).unwrap_or(0);
    class_of(ops, &OPS_CLASSES) * LEN_CLASSES.len() + class_of(mean, &LEN_CLASSES)
}

/// Classes of batches that are corrected apart, with those whose lengths lie far apart.
pub const SHAPE_CLASSES: usize = 2 * SIZE_CLASSES;

/// A batch whose longest input is more than so many times the mean is *skewed*.
pub const SKEW: u64 = 8;

/// The class of a batch by [`size_class`], from [`SIZE_CLASSES`] on when it is skewed.
///
/// Of a batch's lengths the linear model sees their sum. What it cannot see is one long input among many short ones,
/// which occupies one lane while the others run empty; batches of that kind are corrected apart, so that they neither
/// go where only even ones are fast nor spoil the figures of those. Skew below 4 KB of input makes no difference worth
/// looking for.
#[inline]
pub fn shape_class(ops: u64, bytes: u64, longest: u64) -> usize {
    let is_skewed = bytes > SKEW_BYTES_MIN && longest.saturating_mul(ops) > SKEW.saturating_mul(bytes);
    size_class(ops, bytes) + if is_skewed { SIZE_CLASSES } else { 0 }
}

/// Bytes of input up to which no batch counts as skewed, so that nobody need look for its longest input.
pub const SKEW_BYTES_MIN: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_long_input_among_short_ones_makes_a_class_of_its_own() {
        let even = shape_class(256, 256 * 64, 64);
        assert_eq!(even, size_class(256, 256 * 64));
        let skewed = shape_class(256, 255 * 64 + 65_536, 65_536);
        assert_eq!(skewed, size_class(256, 255 * 64 + 65_536) + SIZE_CLASSES);
        assert_eq!(shape_class(100, 4096, 4000), size_class(100, 4096), "too little to matter");
        assert_eq!(shape_class(1, 1 << 20, 1 << 20), size_class(1, 1 << 20));
        assert_eq!(shape_class(0, 0, 0), size_class(0, 0));
    }

    fn learn(mut correction: Correction, ratio: f64, batches: usize) -> Correction {
        for _ in 0..batches {
            correction = correction.observe(1000.0, 1000.0 * ratio, Sample::Routed);
        }
        correction
    }

    #[test]
    fn a_slower_engine_is_known_within_tens_of_batches() {
        let slow = learn(Correction::default(), 4.0, 20);
        assert!((slow.factor() / 4.0).log2().abs() < 0.3, "{}", slow.factor());
        let back = learn(slow, 1.0, 20);
        assert!(back.factor().log2().abs() < 0.3, "{}", back.factor());
        assert_eq!(Correction::default().factor(), 1.0);
    }

    #[test]
    fn one_interrupted_batch_is_not_believed() {
        let after = Correction::default().observe(1000.0, 1e9, Sample::Routed);
        assert!(after.factor() < 1.4, "{}", after.factor());
    }

    #[test]
    fn a_few_probes_find_that_an_engine_is_well_again() {
        let mut correction = learn(Correction::default(), 4.0, 30);
        let mut probes = 0;
        while correction.factor() > 1.3 {
            correction = correction.observe(1000.0, 1000.0, Sample::Probe);
            probes += 1;
        }
        assert!(probes <= 6, "{probes}");
    }

    #[test]
    fn noise_within_the_dead_band_changes_no_route() {
        let settled = learn(Correction::default(), 1.6, 40);
        let mut correction = settled;
        for n in 0..1000 {
            let noise = if n % 2 == 0 { 1.1 } else { 0.92 };
            correction = correction.observe(1000.0, 1600.0 * noise, Sample::Routed);
            assert_eq!(correction.factor(), settled.factor());
        }
    }

    #[test]
    fn classes_begin_where_they_are_said_to() {
        const LENS: usize = LEN_CLASSES.len();
        for (by_ops, ops) in OPS_CLASSES.into_iter().enumerate() {
            for (by_len, len) in LEN_CLASSES.into_iter().enumerate() {
                assert_eq!(size_class(ops, ops * len), by_ops * LENS + by_len);
                assert!(by_ops == 0 || size_class(ops - 1, (ops - 1) * len) == (by_ops - 1) * LENS + by_len);
                assert!(by_len == 0 || size_class(ops, ops * (len - 1)) == by_ops * LENS + by_len - 1);
            }
        }
    }

    #[test]
    fn classes_are_in_range_and_told_apart() {
        let classes: std::collections::BTreeSet<usize> = [1u64, 8, 64, 512, 4096]
            .into_iter()
            .flat_map(|ops| [16u64, 64, 256, 1024, 4096, 16_384].map(|len| size_class(ops, ops * len)))
            .collect();
        assert_eq!(classes.len(), SIZE_CLASSES);
        assert!(classes.iter().all(|class| *class < SIZE_CLASSES));
    }

    proptest! {
        #[test]
        fn a_correction_is_bounded_whatever_is_measured(times in prop::collection::vec((any::<f64>(), any::<f64>()), 0..200)) {
            let mut correction = Correction::default();
            for (predicted_ns, actual_ns) in times {
                correction = correction.observe(predicted_ns, actual_ns, Sample::Routed);
                prop_assert!(correction.factor() >= 2f64.powi(-7) && correction.factor() <= 2f64.powi(7));
                prop_assert_eq!(Correction::from_bits(correction.to_bits()), correction);
            }
        }
    }
}
