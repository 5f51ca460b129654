//! What the driver benchmark measures, and what the paper says.

use ciphermill::IN_FLIGHT_MAX;
use ciphermill_contract::Suite;

use crate::engines::suite;
use crate::method::Options;
use crate::timing::Budget;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Unique chunks of a run; fewer where `memory` does not hold them.
    pub(super) chunks: usize,
    /// Bytes for inputs, outputs, expected answers and working copies.
    pub(super) memory: usize,
    /// Bytes of a chunk.
    pub(super) sizes: &'static [usize],
    /// Time for each contestant.
    time_ms: u64,
    /// Suites, each with the bytes of input that a run has at most: slow ciphers would take minutes.
    suites: &'static [(&'static str, usize)],
    /// Keys of the level "many"; fewer where a run has fewer chunks.
    pub(super) keys: usize,
    /// What is handed over at once when everything is dispatched: so many chunks, and about so many bytes at most.
    pub(super) batch_chunks: usize,
    batch_bytes: usize,
    /// The factorial design.
    pub(super) design: Design,
}

/// The factorial design: one suite, encrypting, in every combination of dispatch, completion, data, keys and checking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Design {
    suite: &'static str,
    /// Bytes of a chunk.
    pub(super) sizes: &'static [usize],
    /// Chunks of a run.
    pub(super) chunks: usize,
    time_ms: u64,
}

const FULL: Extent = Extent {
    chunks: 50_000,
    memory: 1 << 30,
    sizes: &[16, 64, 256, 1024, 4096, 16384, 65536],
    time_ms: 150,
    suites: &[
        ("aes-128-cbc+hmac-sha1", 1 << 27),
        ("3des-cbc+hmac-sha1", 1 << 22),
        ("aes-128-gcm", 1 << 27),
        ("hmac-sha1", 1 << 27),
    ],
    keys: 1024,
    batch_chunks: 256,
    batch_bytes: 1 << 20,
    design: Design { suite: "aes-128-cbc+hmac-sha1", sizes: &[64, 1024, 16384], chunks: 2000, time_ms: 60 },
};

const QUICK: Extent = Extent {
    chunks: 2000,
    memory: 1 << 26,
    sizes: &[16, 256, 4096, 65536],
    time_ms: 20,
    suites: &[("aes-128-cbc+hmac-sha1", 1 << 22), ("3des-cbc+hmac-sha1", 1 << 19)],
    design: Design { suite: "aes-128-cbc+hmac-sha1", sizes: &[64, 4096], chunks: 200, time_ms: 10 },
    ..FULL
};

/// Where the paper's factors come from.
pub(super) const PAPER: &str = "Freescale, in words beside figure 1";

/// Bytes of a chunk, and how many times as fast everything at once is as one at a time: about four times at small sizes, and
/// the hardware alone decides by 1 KB. The figure's curves are not in the text; 64 bytes stand for "small".
pub(super) const PAPER_FACTORS: [[f64; 2]; 2] = [[64.0, 4.0], [1024.0, 1.0]];

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) extent: Extent,
    pub(super) budget: Budget,
    /// Suites, each with the bytes of input that a run has at most.
    pub(super) suites: Vec<(Suite, usize)>,
    pub(super) design_suite: Suite,
    pub(super) design_budget: Budget,
    pub(super) seed: u64,
}

/// How many times a chunk's bytes stand in memory at most while a load is made: input and output of the workload, of the
/// reference's copy, of the bare engine's and of the batches, and the answers.
const COPIES: usize = 8;

impl Plan {
    /// The plan that the options ask for.
    pub(super) fn new(options: &Options) -> Plan {
        let extent = if options.quick { QUICK } else { FULL };
        let mut suites: Vec<(Suite, usize)> = extent.suites.iter().map(|(name, max)| (suite(name), *max)).collect();
        let mut design_suite = suite(extent.design.suite);
        if let Some(first) = options.suites.first() {
            let least = suites.iter().map(|(_, max)| *max).min().unwrap_or(extent.memory / COPIES);
            let known = |suite: &Suite| suites.iter().find(|(known, _)| known == suite).map_or(least, |(_, max)| *max);
            (suites, design_suite) = (options.suites.iter().map(|suite| (*suite, known(suite))).collect(), *first);
        }
        let (budget, design_budget) = (options.budget_of(extent.time_ms), options.budget_of(extent.design.time_ms));
        Plan { extent, budget, suites, design_suite, design_budget, seed: options.seed }
    }

    /// How many chunks of a suite and size a run has, of `wanted`.
    pub(super) fn chunks_of(&self, wanted: usize, len: usize, input_max: usize) -> usize {
        // A tag, an operation and a key's name beside the data.
        const BESIDE: usize = 128;
        let held = self.extent.memory / (COPIES * (len + BESIDE));
        wanted.min(held).min(input_max / len).max(1)
    }

    /// How many of `chunks` are handed over at once; never so few that a session could not have all in flight.
    pub(super) fn batch_of(&self, len: usize, chunks: usize) -> usize {
        let Extent { batch_chunks, batch_bytes, .. } = self.extent;
        batch_chunks.min(batch_bytes / len).max(chunks.div_ceil(IN_FLIGHT_MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_contract::limits::BATCH_OPS_MAX;

    use super::*;

    #[test]
    fn the_plans_hold_together_and_memory_bounds_the_chunks() {
        for quick in [false, true] {
            let plan = Plan::new(&Options { quick, ..Options::default() });
            let Extent { chunks: wanted, sizes, memory, batch_bytes, design, .. } = plan.extent;
            assert!(wanted <= BATCH_OPS_MAX);
            for sizes in [sizes, design.sizes] {
                assert!(sizes[0] > 0 && sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
            }
            for (suite, input_max) in &plan.suites {
                for len in sizes {
                    let chunks = plan.chunks_of(wanted, *len, *input_max);
                    assert!(chunks >= 1 && chunks <= wanted, "{suite} {len}");
                    assert!(chunks * len * COPIES <= memory || chunks == 1, "{suite} {len}");
                    assert!(plan.batch_of(*len, chunks) * len <= batch_bytes.max(*len));
                }
            }
        }
        let full = Plan::new(&Options::default());
        assert_eq!(full.chunks_of(full.extent.chunks, 64, usize::MAX), 50_000);
        assert!(full.chunks_of(full.extent.chunks, 65536, usize::MAX) < 2100);
    }

    #[test]
    fn suites_that_are_asked_for_take_the_place_of_the_usual_ones() {
        let des = suite("des-cbc");
        let plan = Plan::new(&Options { suites: vec![des], quick: true, ..Options::default() });
        assert_eq!((plan.suites.len(), plan.suites[0].0, plan.design_suite), (1, des, des));
    }
}
