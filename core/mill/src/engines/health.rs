//! Whether an engine may work: quarantine after faults, re-admission after a time that doubles with each quarantine.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::epoch::Epoch;
use crate::policy::TrustPolicy;

/// What a batch with faults adds to the tally, and at how much an engine is put into quarantine: the third faulty
/// batch in a row. A good batch takes one off.
const FAULT_WEIGHT: u32 = 4;
const TALLY_MAX: u32 = 12;

/// Good batches after which earlier quarantines are forgotten.
const FORGIVEN_AFTER: u32 = 1024;

/// Why an engine was put into quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Batches with faults, one upon the other, or one that failed as a whole.
    Errors,
    /// An answer that another engine and the known answers contradict.
    WrongResult,
    /// No answer within the time that the policy allows.
    Stall,
    /// The engine panicked.
    Panic,
    /// The known-answer test failed on re-admission.
    SelfTest,
}

/// An engine's standing.
#[derive(Default)]
pub(crate) struct Health {
    /// Nanoseconds since [`epoch`] at which the quarantine ends; zero without one.
    until_ns: AtomicU64,
    quarantines: AtomicU32,
    tally: AtomicU32,
    good: AtomicU32,
    total: AtomicU32,
    epoch: Epoch,
}

fn epoch() -> Instant {
    static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);
    *EPOCH
}

fn now_ns() -> u64 {
    u64::try_from(epoch().elapsed().as_nanos()).unwrap_or(u64::MAX)
}

impl Health {
    /// The standing of an engine that nothing is known of. Quarantines advance `epoch`.
    pub(crate) fn new(epoch: Epoch) -> Health {
        Health { epoch, ..Health::default() }
    }

    /// Whether the engine is in no quarantine, or in one that is over.
    #[inline]
    pub(crate) fn allows(&self) -> bool {
        let until_ns = self.until_ns.load(Ordering::Relaxed);
        until_ns == 0 || now_ns() >= until_ns
    }

    /// Whether the engine is in no quarantine and comes from none that nobody has ended so far.
    #[inline]
    pub(crate) fn is_well(&self) -> bool {
        self.until_ns.load(Ordering::Relaxed) == 0
    }

    /// Whether a quarantine is over that nobody has ended so far. One caller only hears yes, and has the engine tested
    /// again.
    pub(crate) fn readmits(&self) -> bool {
        let until_ns = self.until_ns.load(Ordering::Acquire);
        until_ns != 0
            && now_ns() >= until_ns
            && self.until_ns.compare_exchange(until_ns, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// A batch that went well. Costs a load while nothing has ever gone wrong.
    #[inline]
    pub(crate) fn good(&self) {
        if self.quarantines.load(Ordering::Relaxed) != 0 || self.tally.load(Ordering::Relaxed) != 0 {
            self.recover();
        }
    }

    #[cold]
    fn recover(&self) {
        let _ = self.tally.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |tally| tally.checked_sub(1));
        if self.good.fetch_add(1, Ordering::Relaxed) + 1 >= FORGIVEN_AFTER {
            self.good.store(0, Ordering::Relaxed);
            self.quarantines.store(0, Ordering::Relaxed);
        }
    }

    /// A batch with faults; puts the engine into quarantine when that is one too many.
    pub(crate) fn faulty(&self, engine: &str, policy: &TrustPolicy) {
        if self.tally.fetch_add(FAULT_WEIGHT, Ordering::Relaxed) + FAULT_WEIGHT >= TALLY_MAX {
            self.quarantine(engine, Trouble::Errors, policy);
        }
    }

    /// Puts the engine into quarantine; returns for how long.
    pub(crate) fn quarantine(&self, engine: &str, trouble: Trouble, policy: &TrustPolicy) -> Duration {
        let earlier = self.quarantines.fetch_add(1, Ordering::Relaxed).min(31);
        self.total.fetch_add(1, Ordering::Relaxed);
        let duration = policy.quarantine_min.saturating_mul(1 << earlier).min(policy.quarantine_max);
        let until_ns = now_ns().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)).max(1);
        self.until_ns.store(until_ns, Ordering::Release);
        self.tally.store(0, Ordering::Relaxed);
        self.good.store(0, Ordering::Relaxed);
        self.epoch.advance();
        tracing::warn!(engine, ?trouble, ?duration, "engine in quarantine");
        duration
    }

    /// Quarantines since the engine joined.
    pub(crate) fn quarantines(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> TrustPolicy {
        TrustPolicy {
            quarantine_min: Duration::from_millis(20),
            quarantine_max: Duration::from_millis(70),
            ..TrustPolicy::default()
        }
    }

    #[test]
    fn three_faulty_batches_in_a_row_are_one_too_many_and_good_ones_make_up_for_them() {
        let health = Health::default();
        for _ in 0..50 {
            health.faulty("a", &policy());
            (0..4).for_each(|_| health.good());
        }
        assert!(health.allows() && health.quarantines() == 0);
        for _ in 0..3 {
            assert!(health.allows());
            health.faulty("a", &policy());
        }
        assert!(!health.allows() && health.quarantines() == 1);
    }

    #[test]
    fn quarantines_double_up_to_the_policys_longest_and_are_forgiven() {
        let health = Health::default();
        let lengths: Vec<u128> =
            (0..4).map(|_| health.quarantine("a", Trouble::Stall, &policy()).as_millis()).collect();
        assert_eq!(lengths, [20, 40, 70, 70]);
        (0..FORGIVEN_AFTER).for_each(|_| health.good());
        assert_eq!(health.quarantine("a", Trouble::Stall, &policy()).as_millis(), 20);
    }

    #[test]
    fn one_caller_readmits_when_the_time_is_over() {
        let health = Health::default();
        assert!(!health.readmits(), "there is nothing to end");
        health.quarantine("a", Trouble::Errors, &policy());
        assert!(!health.allows() && !health.readmits());
        std::thread::sleep(Duration::from_millis(25));
        assert!(health.allows());
        assert!(health.readmits() && !health.readmits());
    }
}
