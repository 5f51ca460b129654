//! What came back: which packets, how often, in which order, and when.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::frame::Stamp;

/// Packets that come later than this after the last one was sent are lost ones.
///
/// Queues hold tens of thousands of packets, so that a gateway which is offered more than it does may lose none for a second, and a short trial
/// would not see it. What it cannot hide is what still waits in the end. RFC 2544 waits for two seconds (section 23), in trials of sixty.
pub(super) const GRACE: Duration = Duration::from_millis(20);

/// Packets of a trial and an end that are told apart at most.
const NUMBERS_MAX: usize = 1 << 28;

/// Times from here on count as this long: 69 seconds, in nanoseconds.
const TIME_MAX_NS: u64 = 1 << 36;

/// Counts times in nanoseconds, to within one percent. It has its room from the start: nothing is allocated while packets come.
#[expect(clippy::expect_used, reason = "the histogram refuses other bounds and precisions above five alone")]
pub(super) fn times() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_MAX_NS, 2).expect("known bounds")
}

/// The time that this share of all was not above, from 0 to 1. `None` where nothing was counted.
pub(super) fn time_at(times: &Histogram<u64>, share: f64) -> Option<u64> {
    // For a share of zero the histogram has the beginning of the first time's class, and its end for all others.
    (!times.is_empty()).then(|| times.value_at_quantile(share.max(f64::MIN_POSITIVE)))
}

/// Which numbers were there.
#[derive(Debug, Default)]
pub(super) struct Seen {
    words: Vec<u64>,
}

impl Seen {
    /// None was, with room for so many without asking the system for more.
    pub(super) fn clear(&mut self, numbers: usize) {
        self.words.clear();
        self.words.resize(numbers.min(NUMBERS_MAX).div_ceil(64), 0);
    }

    /// Notes a number, and says whether it is new.
    pub(super) fn note(&mut self, number: u32) -> bool {
        let (at, bit) = (number as usize / 64, 1 << (number % 64));
        if number as usize >= NUMBERS_MAX {
            return false;
        }
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        let Some(word) = self.words.get_mut(at) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// What was counted at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets in time, each once.
    pub(super) in_time: u64,
    /// Packets that were too late, each once.
    pub(super) late: u64,
    /// Packets that were there already.
    pub(super) duplicates: u64,
    /// Packets with a lower number than one before.
    pub(super) reordered: u64,
    /// Octets of those in time, from the IP header on.
    pub(super) octets: u64,
    /// Packets of earlier trials, and of the other end.
    pub(super) strays: u64,
}

impl Counts {
    /// What was counted at another end besides.
    pub(super) fn add(&mut self, other: &Counts) {
        self.in_time += other.in_time;
        self.late += other.late;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.octets += other.octets;
        self.strays += other.strays;
    }
}

/// What comes to one end.
#[derive(Debug)]
pub(super) struct Tally {
    trial: u16,
    /// The end whose packets are expected.
    from: u8,
    /// Times are counted of packets that were sent from here on.
    settled_ns: u64,
    /// What comes from here on is too late.
    closes_ns: u64,
    highest: Option<u32>,
    seen: Seen,
    pub(super) counts: Counts,
    /// In nanoseconds.
    pub(super) times: Histogram<u64>,
}

impl Tally {
    /// Of what the end of this number sends.
    pub(super) fn new(from: u8) -> Tally {
        let (seen, counts, times) = (Seen::default(), Counts::default(), times());
        Tally { trial: 0, from, settled_ns: 0, closes_ns: u64::MAX, highest: None, seen, counts, times }
    }

    /// A trial begins, with so many packets expected.
    pub(super) fn begin(&mut self, trial: u16, expected: usize, settled_ns: u64) {
        (self.trial, self.settled_ns, self.closes_ns, self.highest) = (trial, settled_ns, u64::MAX, None);
        self.seen.clear(expected);
        self.counts = Counts::default();
        self.times.reset();
    }

    /// All packets were sent, and what comes later than this is too late.
    pub(super) fn close(&mut self, closes_ns: u64) {
        self.closes_ns = closes_ns;
    }

    /// Counts a packet that was received now.
    pub(super) fn take(&mut self, stamp: Stamp, len: usize, now_ns: u64) {
        if stamp.trial != self.trial || stamp.end != self.from {
            self.counts.strays += 1;
            return;
        }
        if !self.seen.note(stamp.number) {
            self.counts.duplicates += 1;
            return;
        }
        match self.highest {
            Some(highest) if stamp.number < highest => self.counts.reordered += 1,
            _ => self.highest = Some(stamp.number),
        }
        if stamp.sent_ns >= self.settled_ns {
            self.times.saturating_record(now_ns.saturating_sub(stamp.sent_ns));
        }
        if now_ns > self.closes_ns {
            self.counts.late += 1;
        } else {
            self.counts.in_time += 1;
            self.counts.octets += len as u64;
        }
    }

    /// Packets of this trial that were there, in time or not.
    pub(super) fn arrived(&self) -> u64 {
        self.counts.in_time + self.counts.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_new_once() {
        let mut seen = Seen::default();
        seen.clear(100);
        for number in [0, 63, 64, 99, 1000, 127] {
            assert!(seen.note(number), "{number}");
            assert!(!seen.note(number), "{number}");
        }
        assert!(seen.note(1) && seen.note(65));
        assert!(!seen.note(NUMBERS_MAX as u32), "what cannot be told apart is no proof of anything");
        seen.clear(100);
        assert!(seen.note(1000));
    }

    #[test]
    fn quantiles_are_those_of_the_times() {
        let mut counted = times();
        assert_eq!(time_at(&counted, 0.5), None);
        for time in 1..=10_000 {
            counted.saturating_record(time);
        }
        for (share, exact) in [(0.0, 1.0), (0.001, 10.0), (0.5, 5000.0), (0.99, 9900.0), (1.0, 10_000.0)] {
            let found = time_at(&counted, share).expect("counted") as f64;
            assert!(found >= exact && found <= exact * 1.01, "{share}: {found}, not {exact}");
        }
        let mut both = counted.clone();
        both.add(&counted).expect("the same bounds");
        assert_eq!((both.len(), time_at(&both, 0.5)), (20_000, time_at(&counted, 0.5)));
        counted.reset();
        assert_eq!(time_at(&counted, 1.0), None);
        counted.saturating_record(7);
        assert_eq!(time_at(&counted, 0.01), Some(7));
    }

    #[test]
    fn times_beyond_the_longest_count_as_it_and_take_no_room() {
        let mut counted = times();
        let room = counted.distinct_values();
        for time in [0, TIME_MAX_NS, TIME_MAX_NS + 1, u64::MAX] {
            counted.saturating_record(time);
        }
        assert_eq!((counted.len(), counted.distinct_values(), counted.is_auto_resize()), (4, room, false));
        let longest = time_at(&counted, 1.0).expect("counted") as f64;
        assert!((TIME_MAX_NS as f64..TIME_MAX_NS as f64 * 1.01).contains(&longest), "{longest}");
    }

    #[test]
    fn packets_count_once_in_their_trial() {
        let mut tally = Tally::new(0);
        tally.begin(7, 10, 1_000_000);
        let stamp = |number, sent_ns| Stamp { trial: 7, end: 0, number, sent_ns };
        tally.take(stamp(0, 0), 100, 500);
        tally.take(stamp(2, 1_000_000), 100, 1_003_000);
        tally.take(stamp(1, 1_000_000), 100, 1_003_000);
        tally.take(stamp(2, 1_000_000), 100, 1_003_000);
        tally.close(2_000_000);
        tally.take(stamp(3, 1_000_000), 100, 2_000_001);
        tally.take(Stamp { trial: 6, ..stamp(4, 0) }, 100, 0);
        tally.take(Stamp { end: 1, ..stamp(4, 0) }, 100, 0);
        let counts = Counts { in_time: 3, late: 1, duplicates: 1, reordered: 1, octets: 300, strays: 2 };
        assert_eq!(tally.counts, counts);
        assert_eq!(tally.arrived(), 4);
        // The first packet was sent before the times count.
        assert_eq!(time_at(&tally.times, 0.0).map(|time| time / 100), Some(30));
        tally.begin(8, 10, 0);
        assert_eq!((tally.counts, tally.arrived()), (Counts::default(), 0));
    }
}
