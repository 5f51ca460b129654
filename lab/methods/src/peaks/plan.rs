//! What is measured of peaks, and what the paper's chip reaches.

use std::time::Duration;

use ciphermill_contract::Direction::{self, Decrypt, Encrypt};
use ciphermill_contract::Suite;

use crate::crew::threads_up_to;
use crate::engines::suite;
use crate::method::Options;
use crate::timing::Budget;

/// So many operations of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) ops: usize,
    /// Zero for public keys, whose operations are what they are.
    pub(super) len: usize,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// The fastest of these counts as the peak in Gb/s.
    pub(super) bulk: &'static [Shape],
    /// What operations a second are counted with.
    pub(super) short: Shape,
    /// Operations a batch of public-key suites.
    pub(super) public: usize,
    /// One timing takes about this long.
    pub(super) run: Duration,
    /// Time for each contestant.
    time_ms: u64,
}

const FULL: Extent = Extent {
    bulk: &[Shape { ops: 16, len: 16384 }, Shape { ops: 64, len: 4096 }, Shape { ops: 256, len: 1024 }],
    short: Shape { ops: 1024, len: 64 },
    public: 4,
    run: Duration::from_millis(6),
    time_ms: 60,
};

const QUICK: Extent = Extent {
    bulk: &[Shape { ops: 64, len: 4096 }],
    short: Shape { ops: 256, len: 64 },
    public: 2,
    run: Duration::from_millis(2),
    time_ms: 12,
};

/// The paper's machine.
pub(super) const CHIP: &str = "UltraSPARC T2";

/// Accelerators on a chip, one a core.
pub(super) const ACCELERATORS: usize = 8;

/// Where the paper's figures stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slide {
    Peak,
    /// It gives GB/s; beside the other slide's 44 Gb/s for AES-128 it must mean Gb/s.
    Counter,
}

impl Slide {
    pub(super) fn title(self) -> &'static str {
        match self {
            Slide::Peak => "Peak Crypto T2 Accelerator Performance",
            Slide::Counter => "AES Performance (8 cores, 50 threads)",
        }
    }
}

/// A figure of the paper's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cited {
    /// The algorithm's name there.
    pub(super) name: &'static str,
    /// Gb/s, or operations a second.
    pub(super) value: f64,
    pub(super) slide: Slide,
}

const fn peak(name: &'static str, value: f64) -> Option<Cited> {
    Some(Cited { name, value, slide: Slide::Peak })
}

const fn counter(name: &'static str, value: f64) -> Option<Cited> {
    Some(Cited { name, value, slide: Slide::Counter })
}

/// Suite and direction, whether a quick run measures them, and what the paper's chip reaches.
const ALGORITHMS: [(&str, Direction, bool, Option<Cited>); 27] = [
    ("rc4", Encrypt, true, peak("RC4", 83.0)),
    ("des-cbc", Encrypt, false, peak("DES", 83.0)),
    ("3des-cbc", Encrypt, true, peak("3DES", 27.0)),
    ("aes-128-cbc", Encrypt, true, peak("AES-128", 44.0)),
    ("aes-192-cbc", Encrypt, false, peak("AES-192", 36.0)),
    ("aes-256-cbc", Encrypt, false, peak("AES-256", 31.0)),
    ("aes-128-ctr", Encrypt, false, counter("AES-128 counter mode", 37.0)),
    ("aes-192-ctr", Encrypt, false, counter("AES-192 counter mode", 32.0)),
    ("aes-256-ctr", Encrypt, false, counter("AES-256 counter mode", 27.0)),
    ("md5", Encrypt, false, peak("MD5", 41.0)),
    ("sha1", Encrypt, false, peak("SHA-1", 32.0)),
    ("sha256", Encrypt, true, peak("SHA-256", 41.0)),
    ("aes-128-gcm", Encrypt, true, None),
    ("aes-256-gcm", Encrypt, false, None),
    ("chacha20-poly1305", Encrypt, false, None),
    ("hmac-sha256", Encrypt, false, None),
    ("aes-128-cbc", Decrypt, false, None),
    ("3des-cbc", Decrypt, false, None),
    ("rsa-1024-sign-pkcs1-sha256", Encrypt, false, peak("RSA-1024", 37_000.0)),
    ("rsa-2048-sign-pkcs1-sha256", Encrypt, true, peak("RSA-2048", 6_000.0)),
    ("rsa-4096-sign-pkcs1-sha256", Encrypt, false, None),
    ("rsa-2048-sign-pkcs1-sha256", Decrypt, false, None),
    ("ecdsa-p256", Encrypt, false, None),
    ("ecdh-p256", Encrypt, true, peak("ECCp-160", 52_000.0)),
    ("ecdh-sect163r2", Encrypt, false, peak("ECCb-163", 92_000.0)),
    ("x25519", Encrypt, false, None),
    ("ed25519", Encrypt, false, None),
];

/// An algorithm to be measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Algorithm {
    pub(super) suite: Suite,
    pub(super) direction: Direction,
    pub(super) cited: Option<Cited>,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) algorithms: Vec<Algorithm>,
    pub(super) extent: Extent,
    pub(super) budget: Budget,
    /// Numbers of threads, ascending from one.
    pub(super) threads: Vec<usize>,
    pub(super) seed: u64,
}

impl Plan {
    /// The plan that the options ask for, on a machine of so many cores.
    pub(super) fn new(options: &Options, cores: usize) -> Plan {
        let extent = if options.quick { QUICK } else { FULL };
        let mut algorithms = Vec::new();
        for (name, direction, quick, cited) in ALGORITHMS {
            let suite = suite(name);
            if options.wants(suite, quick) {
                algorithms.push(Algorithm { suite, direction, cited });
            }
        }
        for suite in &options.suites {
            if !algorithms.iter().any(|algorithm| algorithm.suite == *suite) {
                algorithms.push(Algorithm { suite: *suite, direction: Encrypt, cited: None });
            }
        }
        let (budget, threads) = (options.budget_of(extent.time_ms), threads_up_to(cores, options.quick));
        Plan { algorithms, extent, budget, threads, seed: options.seed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_hold_together_and_the_papers_table_is_whole() {
        let full = Plan::new(&Options::default(), 4);
        assert!(full.algorithms.iter().all(|algorithm| algorithm.suite.has_direction(algorithm.direction)));
        let cited = |slide| {
            let cited = full.algorithms.iter().filter_map(|algorithm| algorithm.cited);
            cited.filter(|cited| cited.slide == slide).count()
        };
        assert_eq!((cited(Slide::Peak), cited(Slide::Counter)), (6 + 3 + 4, 3));
        let quick = Plan::new(&Options { quick: true, ..Options::default() }, 4);
        assert!(!quick.algorithms.is_empty() && quick.algorithms.len() < full.algorithms.len());
        let khufu = suite("khufu-cbc");
        let asked = Plan::new(&Options { suites: vec![khufu], ..Options::default() }, 4);
        assert_eq!((asked.algorithms.len(), asked.algorithms[0].suite), (1, khufu));
    }
}
