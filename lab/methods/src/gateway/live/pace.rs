//! When which packet is due.

use std::time::Duration;

/// Packets that are sent in one go.
pub(super) const BURST: u64 = 32;

/// How far a generator may be behind its rate for the trial to count. What it makes up for then is a burst of so much time, which every
/// queue on the way holds.
pub(super) const LAG_MAX: Duration = Duration::from_millis(2);

/// How far behind its rate a generator may be with a packet that it still sends where it does not make up for pauses. A turn of its loop takes some
/// ten microseconds.
const SKIPPED_FROM_NS: u64 = 100_000;

/// What becomes of packets that were due while the generator's core was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    /// They are sent in bursts: a trial of losses has as many packets as its rate demands.
    MadeUpFor,
    /// They are left out: times are those of packets at constant distances, and not of what waits behind a burst that the rate knows nothing of.
    LeftOut,
}

/// At which rate packets are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rate {
    /// So many a second, at constant distances.
    PerSecond(f64),
    /// As fast as the generator can.
    Flood,
    /// So many packets, as fast as it can.
    Burst(u64),
}

/// The packets of one end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    rate: Rate,
    /// Packets of the whole trial; `None` where time alone ends it.
    pub(super) total: Option<u64>,
    /// Packets that were sent or left out.
    pub(super) sent: u64,
    missed: Missed,
    pub(super) left_out: u64,
    lag_max_ns: u64,
}

impl Pace {
    pub(super) fn new(rate: Rate, duration: Duration, missed: Missed) -> Pace {
        let total = match rate {
            Rate::PerSecond(pps) => Some((pps * duration.as_secs_f64()).round().max(1.0) as u64),
            Rate::Flood => None,
            Rate::Burst(packets) => Some(packets),
        };
        Pace { rate, total, sent: 0, missed, left_out: 0, lag_max_ns: 0 }
    }

    /// How many packets go out now, at most [`BURST`]: the first one is due at the beginning.
    pub(super) fn due(&mut self, elapsed_ns: u64) -> u64 {
        let (Rate::PerSecond(pps), Some(total)) = (self.rate, self.total) else {
            return self.total.map_or(BURST, |total| total.saturating_sub(self.sent).min(BURST));
        };
        let due = ((elapsed_ns as f64 * pps / 1e9) as u64).saturating_add(1).min(total);
        let waiting = due.saturating_sub(self.sent);
        if waiting > 0 {
            // The oldest of those that wait was due at this time.
            let due_ns = (self.sent as f64 * 1e9 / pps) as u64;
            let lag_ns = elapsed_ns.saturating_sub(due_ns);
            if self.missed == Missed::LeftOut && lag_ns > SKIPPED_FROM_NS {
                // All but the one that is due now.
                self.left_out += waiting - 1;
                self.sent += waiting - 1;
                return 1;
            }
            self.lag_max_ns = self.lag_max_ns.max(lag_ns);
        }
        waiting.min(BURST)
    }

    /// Packets that were offered.
    pub(super) fn offered(&self) -> u64 {
        self.total.unwrap_or(self.sent) - self.left_out
    }

    /// Whether all packets were sent.
    pub(super) fn is_done(&self) -> bool {
        self.total.is_some_and(|total| self.sent >= total)
    }

    /// By how much a packet was late at most.
    pub(super) fn lag_max(&self) -> Duration {
        Duration::from_nanos(self.lag_max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_due_at_constant_distances() {
        let mut pace = Pace::new(Rate::PerSecond(1000.0), Duration::from_millis(10), Missed::MadeUpFor);
        assert_eq!(pace.total, Some(10));
        let mut sent_at = Vec::new();
        for elapsed_us in 0..10_000 {
            let due = pace.due(elapsed_us * 1000);
            assert!(due <= 1);
            if due == 1 {
                sent_at.push(elapsed_us);
                pace.sent += 1;
            }
        }
        assert_eq!(sent_at, (0..10).map(|packet| packet * 1000).collect::<Vec<_>>());
        assert!(pace.is_done() && pace.due(1 << 40) == 0);
        assert_eq!(pace.lag_max(), Duration::ZERO);
    }

    #[test]
    fn what_was_missed_is_made_up_for_in_bursts_and_told() {
        let mut pace = Pace::new(Rate::PerSecond(1e6), Duration::from_secs(1), Missed::MadeUpFor);
        assert_eq!(pace.due(0), 1);
        pace.sent += 1;
        // The second one was due after a microsecond.
        assert_eq!(pace.due(5_001_000), BURST);
        assert_eq!(pace.lag_max(), Duration::from_millis(5));
        pace.sent += 5_001;
        assert_eq!(pace.due(5_001_000), 0);
        assert!(!pace.is_done());
    }

    #[test]
    fn what_was_missed_is_left_out_where_times_count() {
        let mut pace = Pace::new(Rate::PerSecond(1e6), Duration::from_millis(10), Missed::LeftOut);
        assert_eq!(pace.due(99_000), BURST, "a turn of the loop is no pause");
        pace.sent += 100;
        assert_eq!((pace.due(5_100_000), pace.left_out), (1, 5_000));
        pace.sent += 1;
        assert_eq!((pace.due(5_100_000), pace.due(5_101_000)), (0, 1));
        pace.sent += 1;
        assert_eq!((pace.offered(), pace.lag_max()), (5_000, Duration::from_micros(99)));
        // A pause at the end: the last one is sent.
        assert_eq!(pace.due(20_000_000), 1);
        pace.sent += 1;
        assert!(pace.is_done());
        assert_eq!((pace.left_out, pace.offered()), (9_897, 103));
    }

    #[test]
    fn a_flood_has_no_end_of_its_own() {
        let mut pace = Pace::new(Rate::Flood, Duration::from_secs(1), Missed::MadeUpFor);
        assert_eq!((pace.due(0), pace.total, pace.is_done()), (BURST, None, false));
    }

    #[test]
    fn a_burst_has_as_many_packets_as_it_should() {
        let mut pace = Pace::new(Rate::Burst(BURST + 5), Duration::from_secs(1), Missed::MadeUpFor);
        assert_eq!((pace.due(0), pace.offered()), (BURST, BURST + 5));
        pace.sent += BURST;
        assert_eq!(pace.due(1 << 40), 5);
        pace.sent += 5;
        assert!(pace.is_done() && pace.due(1 << 40) == 0 && pace.lag_max() == Duration::ZERO);
    }
}
