//! What a device is held to.

use std::time::Duration;

use ciphermill_contract::Suite;

use crate::engines::suite;
use crate::method::Options;
use crate::timing::Budget;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Threads that drive the device at most; the best number of them counts.
    pub(super) threads_max: usize,
    /// A batch has about as many bytes of input.
    pub(super) bytes: usize,
    /// Operations a batch of public-key suites.
    pub(super) public: usize,
    /// Operations a batch, for the break-even.
    pub(super) batches: &'static [usize],
    /// One timing takes about this long.
    pub(super) run: Duration,
    /// Time for each contestant.
    time_ms: u64,
}

const FULL: Extent = Extent {
    threads_max: 16,
    bytes: 1 << 24,
    public: 4096,
    batches: &[64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
    run: Duration::from_millis(40),
    time_ms: 600,
};

const QUICK: Extent = Extent {
    threads_max: 2,
    bytes: 1 << 18,
    public: 16,
    batches: &[64, 512, 4096],
    run: Duration::from_millis(2),
    time_ms: 20,
};

/// What a goal is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// The time that the link alone needs, by the whole time.
    Link,
    /// Operations a second, by the rival's on all cores.
    Cores,
    /// The batch from which on the device is faster than the rival on one core.
    Batch,
}

/// One thing that a device is held to, encrypting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub(super) name: &'static str,
    pub(super) figure: Figure,
    pub(super) suite: &'static str,
    /// The shortest and the longest input; both zero for public keys.
    pub(super) len: [usize; 2],
    /// Whom it is compared with; nobody but the link for [`Figure::Link`].
    pub(super) rival: Option<&'static str>,
    /// What has to be reached.
    pub(super) must: f64,
    /// What is hoped for.
    pub(super) aim: f64,
    /// Whether a quick run measures it.
    pub(super) quick: bool,
}

/// A share of the link's time, with lengths like these.
const LINK: Goal =
    Goal { name: "", figure: Figure::Link, suite: "", len: [8, 80], rival: None, must: 0.6, aim: 0.85, quick: false };

/// A multiple of the library's rate on all cores, of public keys.
const CORES: Goal = Goal { figure: Figure::Cores, len: [0, 0], rival: Some("library"), ..LINK };

const GOALS: [Goal; 8] = [
    Goal { name: "aes-128-cbc-short", suite: "aes-128-cbc", quick: true, ..LINK },
    Goal { name: "aes-128-ctr-short", suite: "aes-128-ctr", ..LINK },
    Goal { name: "chacha20-short", suite: "chacha20", ..LINK },
    Goal { name: "sha256-64", suite: "sha256", len: [64, 64], quick: true, ..LINK },
    Goal {
        name: "3des-cbc-short",
        suite: "3des-cbc",
        len: [8, 80],
        rival: Some("lanes"),
        must: 1.5,
        aim: 3.0,
        quick: true,
        ..CORES
    },
    Goal { name: "rsa-2048", suite: "rsa-2048-sign-pkcs1-sha256", must: 3.0, aim: 10.0, ..CORES },
    Goal { name: "ecdsa-p256", suite: "ecdsa-p256", must: 1.0, aim: 3.0, ..CORES },
    Goal {
        name: "3des-cbc-64",
        figure: Figure::Batch,
        suite: "3des-cbc",
        len: [64, 64],
        rival: Some("lanes"),
        must: 2000.0,
        aim: 500.0,
        quick: true,
    },
];

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) goals: Vec<Goal>,
    pub(super) extent: Extent,
    pub(super) budget: Budget,
    pub(super) seed: u64,
}

impl Goal {
    pub(super) fn suite(&self) -> Suite {
        suite(self.suite)
    }
}

impl Plan {
    /// The plan that the options ask for.
    pub(super) fn new(options: &Options) -> Plan {
        let extent = if options.quick { QUICK } else { FULL };
        let goals = GOALS.into_iter().filter(|goal| options.wants(goal.suite(), goal.quick)).collect();
        Plan { goals, extent, budget: options.budget_of(extent.time_ms), seed: options.seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_goals_hold_together() {
        for goal in GOALS {
            assert!(goal.len[0] <= goal.len[1] && (goal.len[1] == 0) == goal.suite().is_public_key(), "{goal:?}");
            assert_eq!(goal.rival.is_none(), goal.figure == Figure::Link, "{goal:?}");
            // A batch should be small, the other figures large.
            assert!(
                if goal.figure == Figure::Batch { goal.aim <= goal.must } else { goal.must <= goal.aim },
                "{goal:?}"
            );
        }
        let full = Plan::new(&Options::default());
        for figure in [Figure::Link, Figure::Cores, Figure::Batch] {
            assert!(full.goals.iter().any(|goal| goal.figure == figure), "{figure:?}");
        }
        let quick = Plan::new(&Options { quick: true, ..Options::default() });
        assert!(!quick.goals.is_empty() && quick.goals.len() < full.goals.len());
        for plan in [&full, &quick] {
            assert!(plan.extent.batches.len() > 1 && plan.extent.batches.is_sorted());
        }
        let one = Plan::new(&Options { suites: vec![suite("sha256")], ..Options::default() });
        assert_eq!(one.goals.iter().map(|goal| goal.name).collect::<Vec<_>>(), ["sha256-64"]);
    }
}
