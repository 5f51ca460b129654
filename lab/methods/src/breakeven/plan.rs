//! What the break-even sweep measures, and what the paper measured.

use ciphermill_contract::Suite;

use crate::method::Options;
use crate::timing::Budget;

/// How far it is swept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Each encrypting, over every length and batch.
    suites: &'static [&'static str],
    /// Bytes of an operation.
    pub(super) lengths: &'static [usize],
    /// Operations handed over at once.
    pub(super) batches: &'static [usize],
    /// Larger batches are left out.
    pub(super) bytes_max: usize,
    /// Operations a batch of the second table in the style of `openssl speed`; the first has one.
    pub(super) table: usize,
    /// Bytes of an operation in both tables.
    pub(super) table_lengths: &'static [usize],
    /// Time for each engine and shape.
    time_ms: u64,
}

/// 16 to 768 bytes and the table's lengths as in the paper and in `openssl speed`.
const FULL: Extent = Extent {
    suites: &["aes-128-cbc", "3des-cbc", "rc4", "sha256", "aes-128-gcm"],
    lengths: &[16, 64, 256, 384, 512, 640, 768, 1024, 8192, 16384],
    batches: &[1, 2, 4, 8, 16, 64, 256, 1024],
    bytes_max: 1 << 20,
    table: 64,
    table_lengths: &[16, 64, 256, 1024, 8192, 16384],
    time_ms: 4,
};

const QUICK: Extent = Extent {
    suites: &["aes-128-cbc", "sha256"],
    lengths: FULL.table_lengths,
    batches: &[1, 4, 16, 64, 256],
    bytes_max: 1 << 18,
    table: 16,
    time_ms: 2,
    ..FULL
};

/// The suite of the paper's runs.
pub(super) const PAPER_SUITE: &str = "aes-128-cbc";

/// `openssl speed -evp aes-128-cbc` of the slides "Packet size - breakeven point".
pub(super) const SOFTWARE: Line = Line {
    name: "Niagara T2, software",
    runs: [
        [16.0, 2_288_268.0, 2.99],
        [64.0, 703_001.0, 3.0],
        [256.0, 186_333.0, 3.0],
        [384.0, 125_058.0, 3.0],
        [512.0, 94_113.0, 3.0],
        [640.0, 75_442.0, 3.0],
        [768.0, 62_952.0, 3.0],
    ],
};

/// The same on the accelerator.
pub(super) const ACCELERATOR: Line = Line {
    name: "Niagara T2, accelerator",
    runs: [
        [16.0, 121_829.0, 2.99],
        [64.0, 120_523.0, 3.0],
        [256.0, 116_682.0, 3.0],
        [384.0, 113_612.0, 3.0],
        [512.0, 109_206.0, 3.0],
        [640.0, 105_578.0, 3.0],
        [768.0, 102_965.0, 3.0],
    ],
};

/// A run of `openssl speed` in the paper.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    /// Bytes a block, blocks done, seconds.
    runs: [[f64; 3]; 7],
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) extent: Extent,
    pub(super) suites: Vec<Suite>,
    pub(super) budget: Budget,
    pub(super) seed: u64,
}

impl Line {
    /// Nanoseconds an operation by length.
    pub(super) fn ns(&self) -> [[f64; 2]; 7] {
        self.runs.map(|[len, done, seconds]| [len, seconds * 1e9 / done])
    }

    /// Megabytes a second by length.
    pub(super) fn rates(&self) -> Vec<[f64; 2]> {
        self.ns().map(|[len, ns]| [len, len * 1000.0 / ns]).to_vec()
    }
}

impl Plan {
    /// The plan that the options ask for.
    pub(super) fn new(options: &Options) -> Plan {
        let extent = if options.quick { QUICK } else { FULL };
        let (suites, budget) = (options.suites_or(extent.suites), options.budget_of(extent.time_ms));
        Plan { extent, suites, budget, seed: options.seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_hold_together() {
        for quick in [false, true] {
            let Plan { extent, suites, .. } = Plan::new(&Options { quick, ..Options::default() });
            assert!(suites.iter().any(|suite| suite.to_string() == PAPER_SUITE));
            for sizes in [extent.lengths, extent.batches, extent.table_lengths] {
                assert!(sizes[0] > 0 && sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
            }
            assert!(extent.batches[0] == 1 && extent.batches.contains(&extent.table), "both tables are measured");
            assert!(extent.table_lengths.iter().all(|len| extent.lengths.contains(len)), "and all of their columns");
            assert!(extent.table_lengths.iter().all(|len| len * extent.table <= extent.bytes_max), "none left out");
        }
    }

    #[test]
    fn the_papers_counts_become_times() {
        let software = SOFTWARE.ns();
        assert_eq!(software[0][0], 16.0);
        assert!((software[0][1] - 1306.7).abs() < 0.1, "{software:?}");
        assert!((SOFTWARE.rates()[1][1] - 64.0 * 703_001.0 / 3e6).abs() < 1e-6);
    }
}
