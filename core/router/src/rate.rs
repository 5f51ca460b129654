//! `Bucket`: how much a client may do in a time, and until when what is beyond waits.
//!
//! A token bucket as the generic cell rate algorithm keeps it (ITU-T I.371, annex A, virtual scheduling): one number, the moment at which
//! the bucket would be full again. What comes is never refused: it is told when it is due, in the order in which it came. Time is given
//! by the caller, in nanoseconds since any moment of its choice.

/// What may be done at once after a rest, as time at the full rate: 100 ms.
pub const BURST_NS: f64 = 100e6;

/// A token bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bucket {
    /// When all that was taken is paid off.
    full_at_ns: f64,
}

impl Bucket {
    /// Takes `count` units at `per_second` (above zero) and says when they are due: now, or as soon as the bucket has them. More than it
    /// ever has ([`BURST_NS`]) is due once it is full.
    #[must_use]
    pub fn take(&mut self, count: u64, per_second: f64, now_ns: u64) -> u64 {
        let cost_ns = count as f64 * 1e9 / per_second;
        let begin = self.full_at_ns.max(now_ns as f64);
        self.full_at_ns = begin + cost_ns;
        let spare_ns = (BURST_NS - cost_ns).max(0.0);
        // Up, so that nothing is due before its time.
        ((begin - spare_ns).ceil() as u64).max(now_ns)
    }

    /// Whether nothing is owed: the bucket is as a new one.
    pub fn is_full(&self, now_ns: u64) -> bool {
        self.full_at_ns <= now_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let mut bucket = Bucket::default();
        // 1,000 a second: 100 are a burst.
        let due: Vec<u64> = (0..103).map(|_| bucket.take(1, 1000.0, S)).collect();
        assert!(due[..100].iter().all(|due| *due == S), "{due:?}");
        assert_eq!(due[100..], [S + 1_000_000, S + 2_000_000, S + 3_000_000]);
    }

    #[test]
    fn a_rest_earns_no_more_than_a_burst() {
        let mut bucket = Bucket::default();
        for _ in 0..1000 {
            let _ = bucket.take(1, 1000.0, 0);
        }
        let due: Vec<u64> = (0..101).map(|_| bucket.take(1, 1000.0, 100 * S)).collect();
        assert_eq!((due[99], due[100]), (100 * S, 100 * S + 1_000_000));
    }

    #[test]
    fn more_than_a_burst_goes_once_the_bucket_is_full() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(5000, 1000.0, S), S, "full from the start");
        assert!(!bucket.is_full(6 * S - 1) && bucket.is_full(6 * S));
        // Five seconds are to be paid off first, and those behind it wait as long.
        assert_eq!(bucket.take(5000, 1000.0, S), 6 * S);
        assert_eq!(bucket.take(1, 1000.0, S), 11 * S - 99_000_000);
    }

    /// Takes requests of a client that always has another one, each when the one before is done.
    fn done_within(counts: &[u64], per_second: f64, seconds: u64) -> u64 {
        let (mut bucket, mut now, mut done) = (Bucket::default(), 0, 0);
        for count in counts.iter().cycle() {
            now = bucket.take(*count, per_second, now);
            if now >= seconds * S {
                return done;
            }
            done += count;
        }
        done
    }

    #[test]
    fn fractions_of_nanoseconds_add_up() {
        let done = done_within(&[1], 3_000_000.0, 1);
        assert!((done as f64 / 3.3e6 - 1.0).abs() < 0.001, "{done}");
    }

    proptest! {
        /// Over any time the rate is kept, but for one burst and the largest piece.
        #[test]
        fn the_rate_is_kept(
            counts in prop::collection::vec(1u64..5000, 1..20),
            per_second in 100.0f64..1e6,
            seconds in 1u64..20,
        ) {
            let largest = counts.iter().copied().max().unwrap_or(0) as f64;
            let (done, wanted) = (done_within(&counts, per_second, seconds) as f64, per_second * seconds as f64);
            prop_assert!(done <= wanted + per_second * 0.1 + 2.0 * largest, "{done} > {wanted}");
            prop_assert!(done >= wanted - 2.0 * largest, "{done} < {wanted}");
        }

        /// What came first is due first.
        #[test]
        fn the_order_is_kept(takes in prop::collection::vec((1u64..1000, 0u64..10_000_000), 1..100)) {
            let (mut bucket, mut now, mut last) = (Bucket::default(), 0, 0);
            for (count, pause) in takes {
                now += pause;
                let due = bucket.take(count, 10_000.0, now);
                prop_assert!(due >= now && due >= last);
                last = due;
            }
        }
    }
}
