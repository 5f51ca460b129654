//! What `lab ladder` measures, and what the paper measured: Lindemann and Smith, "Improving DES Coprocessor Throughput for
//! Short Operations", 10th USENIX Security Symposium, 2001.

use std::time::Duration;

use ciphermill_contract::Suite;
use ciphermill_contract::suite::{BlockCipher, Mode};

use crate::timing::Budget;

/// Bytes of a block of DES, and of its IV.
pub(crate) const BLOCK: usize = 8;

/// Section 3: CBC, 8 to 80 bytes uniformly at random, a fresh IV each, keys at random from a small set.
pub(crate) const SUITES: [&str; 1] = ["des-cbc"];
pub(crate) const KEYS: usize = 64;
pub(crate) const LEN: [usize; 2] = [8, 80];

/// The engine for single messages: the first of these that runs the suite.
pub(crate) const ENGINES: [&str; 2] = ["library", REFERENCE];

/// The engine that recomputes some of the others' answers.
pub(crate) const REFERENCE: &str = "reference";

/// The engine with lanes.
pub(crate) const LANES: &str = "lanes";

/// One long operation, for "short at so many percent of bulk".
pub(crate) const BULK_LEN: usize = 1 << 20;

/// Windows of so many operations are cut from, in turns: no two batches of a timing are the same while they last.
pub(crate) const OPS: usize = 8192;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sweep {
    pub(crate) batches: &'static [usize],
    /// A request for each operation takes the same for each, however many there are; beyond this it is not climbed.
    pub(crate) singles_max: usize,
    /// Batches of operations of one length, from which C2 and C3 are told apart.
    pub(crate) fit_batches: &'static [usize],
    pub(crate) fit_lens: &'static [usize],
    /// Seconds for all of it.
    seconds: f64,
    /// Timed rounds of each comparison at least.
    rounds_min: usize,
    /// A timing repeats a batch until it takes so long.
    pub(crate) timing_ns: f64,
}

pub(crate) const FULL: Sweep = Sweep {
    batches: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192],
    singles_max: 1024,
    fit_batches: &[1, 16, 256, 2048],
    fit_lens: &[8, 80, 512],
    seconds: 70.0,
    rounds_min: 7,
    timing_ns: 400_000.0,
};

pub(crate) const QUICK: Sweep = Sweep {
    batches: &[1, 8, 64, 512, 4096],
    singles_max: 64,
    fit_batches: &[1, 64, 1024],
    fit_lens: &[8, 80],
    seconds: 5.0,
    rounds_min: 3,
    timing_ns: 150_000.0,
};

/// An operation of DES whose answer is published.
pub(crate) struct KnownAnswer {
    pub(crate) key: [u8; BLOCK],
    pub(crate) iv: [u8; BLOCK],
    pub(crate) plaintext: [u8; 24],
    pub(crate) ciphertext: [u8; 24],
}

/// FIPS PUB 81 (1980), appendix C, table C1, in CBC. Repeated, its key makes triple DES single (FIPS 46-3).
pub(crate) static KNOWN: KnownAnswer = KnownAnswer {
    key: 0x0123_4567_89ab_cdef_u64.to_be_bytes(),
    iv: 0x1234_5678_90ab_cdef_u64.to_be_bytes(),
    plaintext: *b"Now is the time for all ",
    ciphertext: *b"\xe5\xc7\xcd\xde\x87\x2b\xf2\x7c\x43\xe9\x34\x00\x8c\x38\x9c\x0f\x68\x37\x88\x49\x9a\x7c\x05\xf6",
};

/// Kilobytes a second in the paper's section 1: what the colleague had measured.
pub(crate) const PAPER_BEFORE: f64 = 1.5;

/// What long data reach there.
pub(crate) const PAPER_BULK: f64 = 20_000.0;

/// One of the paper's experiments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaperStep {
    /// Its number, and what it changed.
    pub(crate) name: &'static str,
    pub(crate) here: Here,
    /// Kilobytes a second, lowest and highest as the text of section 3 gives them.
    pub(crate) range: [f64; 2],
    /// The known-answer test of experiment 8 failed on it.
    pub(crate) wrong: bool,
}

/// What has become of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Here {
    /// The rung that repeats it.
    Rung(&'static str),
    /// The service never does without: how.
    Always(&'static str),
}

const fn step(name: &'static str, here: Here, low: f64, high: f64) -> PaperStep {
    PaperStep { name, here, range: [low, high], wrong: false }
}

/// Experiments 1 to 8, in their order. Experiment 3 is "as high as", 320 with the chip reset for each operation all the same.
pub(crate) const PAPER: [PaperStep; 9] = [
    step("1 a request an operation", Here::Rung("1"), 9.0, 12.0),
    step("2 a batch in a request", Here::Rung("2a"), 18.0, 23.0),
    step("2 with keys cached", Here::Rung("2b"), 40.0, 40.0),
    step("3 one operation of the chip", Here::Rung("3"), 320.0, 360.0),
    step("4 one call of the layer below", Here::Rung("4"), 30.0, 290.0),
    step(
        "5 keys by index, fewer transfers",
        Here::Always("keys have handles; a worker copies a request out of shared memory once and works on the copy"),
        1400.0,
        1400.0,
    ),
    step("6 no slow bus", Here::Always("requests lie in memory of both processes"), 2500.0, 2500.0),
    PaperStep {
        wrong: true,
        ..step("7 parameters in one group", Here::Always("parameters lie together, ahead of all data"), 5000.0, 5000.0)
    },
    step("8 known answers checked", Here::Rung("8"), 3000.0, 3000.0),
];

/// What the paper says of a rung, and how many times the experiment before that is.
pub(crate) fn paper_of(rung: &str) -> Option<(PaperStep, Option<f64>)> {
    let place = PAPER.iter().position(|step| matches!(step.here, Here::Rung(id) if id == rung))?;
    let before = place.checked_sub(1).map(|before| PAPER[before].range[1]);
    Some((PAPER[place], before.map(|before| PAPER[place].range[1] / before)))
}

impl Sweep {
    /// The time for one contestant, when `contestants` share the sweep's.
    pub(crate) fn budget(&self, contestants: usize) -> Budget {
        let time = Duration::from_secs_f64(self.seconds / contestants.max(1) as f64);
        Budget { time, rounds_min: self.rounds_min, ..Budget::default() }
    }
}

/// How many DES keys a key of the suite has, when the ladder can be climbed with it.
///
/// # Errors
/// Why it cannot.
pub(crate) fn takes(suite: Suite) -> Result<usize, String> {
    match suite {
        Suite::Cipher(BlockCipher::Des, Mode::Cbc) => Ok(1),
        Suite::Cipher(BlockCipher::TripleDes, Mode::Cbc) => Ok(suite.default_key_len() / BLOCK),
        _ => Err(format!("{suite}: the ladder breaks the chaining of CBC and has a known answer for DES only")),
    }
}

#[cfg(test)]
mod tests {
    use ciphermill_channel::{OPS_MAX, RECORD_LEN, SLOTS};
    use ciphermill_contract::limits::BATCH_OPS_MAX;

    use super::super::client::CHANNEL_LEN;
    use super::super::rungs::{CHANNELS, RUNGS};
    use super::*;

    #[test]
    fn the_sweeps_fit_channels_and_the_paper_fits_the_rungs() {
        assert!(SUITES.iter().all(|name| takes(crate::engines::suite(name)).is_ok()));
        const { assert!(KEYS <= OPS && OPS <= BATCH_OPS_MAX && OPS < OPS_MAX as usize) };
        const { assert!(BULK_LEN.is_multiple_of(BLOCK) && BULK_LEN <= CHANNEL_LEN / 2) };
        // With the operation of the known answer.
        let fits = |ops: usize, len: usize| (ops + 1) * (RECORD_LEN + len) <= CHANNEL_LEN;
        for sweep in [FULL, QUICK] {
            assert!(sweep.batches.is_sorted_by(|a, b| a < b));
            assert!(sweep.batches.iter().all(|ops| (1..=OPS).contains(ops) && fits(*ops, LEN[1])));
            assert!(sweep.fit_lens.len() > 1 && sweep.fit_batches.len() > 1, "or C2 and C3 cannot be told apart");
            assert!(sweep.fit_lens.iter().all(|len| *len > 0 && len.is_multiple_of(BLOCK)));
            let largest = sweep.fit_batches.iter().max().zip(sweep.fit_lens.iter().max());
            assert!(largest.is_some_and(|(ops, len)| fits(*ops, *len)));
        }
        for step in PAPER {
            let is_here = |id: &str| RUNGS.iter().any(|rung| rung.id == id);
            assert!(
                matches!(step.here, Here::Always(_)) || matches!(step.here, Here::Rung(id) if is_here(id)),
                "{step:?}"
            );
            assert!(step.range[0] <= step.range[1], "{step:?}");
        }
        let says = |id: &str, number: usize| {
            RUNGS.iter().any(|rung| rung.id == id && rung.change.contains(&number.to_string()))
        };
        assert!(says("2a", SLOTS as usize) && says("10", CHANNELS));
        assert!(paper_of("9").is_none(), "the paper has no lanes");
        let factor = |rung: &str| paper_of(rung).and_then(|(_, factor)| factor);
        assert_eq!((factor("1"), factor("2b"), factor("8")), (None, Some(40.0 / 23.0), Some(0.6)));
    }
}
