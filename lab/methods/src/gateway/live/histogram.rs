//! Times, counted in classes that are narrow where times are short: a power of two is cut into 32 equal parts, so that a
//! class is 3 % wide.

/// Parts of a power of two, as a power of two.
const PARTS: u32 = 5;
/// Times from here on count as this long: 69 seconds.
const BITS_MAX: u32 = 36;
const CLASSES: usize = ((BITS_MAX - PARTS + 1) << PARTS) as usize;

/// How often which time was seen, in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
}

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram { counts: vec![0; CLASSES], count: 0 }
    }

    pub(super) fn add(&mut self, time_ns: u64) {
        if let Some(count) = self.counts.get_mut(class(time_ns)) {
            *count += 1;
            self.count += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.count = 0;
    }

    /// Adds what another one has counted.
    pub(super) fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.count += other.count;
    }

    /// The time that this share of all was not above, from 0 to 1: the end of its class. `None` where nothing was counted.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let wanted = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count);
        let mut sum = 0;
        let found = self.counts.iter().position(|count| {
            sum += count;
            sum >= wanted
        });
        found.map(last_of)
    }
}

/// The class of a time: short ones have one each, longer ones share.
fn class(time_ns: u64) -> usize {
    let time = time_ns.min((1 << BITS_MAX) - 1);
    let bits = u64::BITS - time.leading_zeros();
    let shift = bits.saturating_sub(PARTS + 1);
    ((u64::from(shift) << PARTS) + (time >> shift)) as usize
}

/// The longest time of a class.
fn last_of(class: usize) -> u64 {
    let class = class as u64;
    let shift = (class >> PARTS).saturating_sub(1);
    let part = class - (shift << PARTS);
    ((part + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_without_gaps_and_are_narrow() {
        let mut last = None;
        for class_index in 0..CLASSES {
            let end = last_of(class_index);
            assert_eq!(class(end), class_index, "{end}");
            let begin = last.map_or(0, |last: u64| last + 1);
            assert_eq!(class(begin), class_index, "{begin}");
            assert!((end - begin) as f64 <= begin as f64 / 32.0, "{begin} to {end}");
            last = Some(end);
        }
        assert_eq!(last, Some((1 << BITS_MAX) - 1));
        assert_eq!(class(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.quantile(0.5), None);
        for time in 1..=10_000 {
            histogram.add(time);
        }
        for (share, exact) in [(0.0, 1.0), (0.001, 10.0), (0.5, 5000.0), (0.99, 9900.0), (1.0, 10_000.0)] {
            let found = histogram.quantile(share).expect("counted") as f64;
            assert!(found >= exact && found <= exact * 1.032 + 1.0, "{share}: {found}, not {exact}");
        }
        let mut both = histogram.clone();
        both.merge(&histogram);
        assert_eq!((both.count, both.quantile(0.5)), (20_000, histogram.quantile(0.5)));
        histogram.clear();
        assert_eq!(histogram.quantile(1.0), None);
        histogram.add(7);
        assert_eq!(histogram.quantile(0.01), Some(7));
    }
}
