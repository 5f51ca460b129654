//! What is measured, and what the paper measured, as data.

use std::time::Duration;

use ciphermill_contract::Suite;
use ciphermill_contract::limits::{BATCH_OPS_MAX, INPUT_LEN_MAX};
use ciphermill_contract::suite::{BlockCipher, Mode};
use serde::Deserialize;
use zeroize::Zeroizing;

use super::rungs::RUNGS;
use super::wire::{BLOCK, BODY_MAX, OPS_MAX};
use super::work::KnownAnswer;
use crate::LabError;
use crate::timing::Budget;

const TEXT: &str = include_str!("../../definitions/ladder.toml");

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Definitions {
    pub(crate) suites: Vec<String>,
    pub(crate) keys: usize,
    pub(crate) len: [usize; 2],
    pub(crate) engines: Vec<String>,
    pub(crate) lanes: String,
    pub(crate) bulk_len: usize,
    pub(crate) ops: usize,
    pub(crate) full: Sweep,
    pub(crate) quick: Sweep,
    known_answer: HexAnswer,
    pub(crate) paper: Paper,
}

/// How much is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sweep {
    pub(crate) batches: Vec<usize>,
    pub(crate) singles_max: usize,
    pub(crate) fit_batches: Vec<usize>,
    pub(crate) fit_lens: Vec<usize>,
    pub(crate) seconds: f64,
    pub(crate) rounds_min: usize,
    pub(crate) timing_ns: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HexAnswer {
    key: String,
    iv: String,
    plaintext: String,
    ciphertext: String,
}

/// The paper's figures, kilobytes a second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paper {
    pub(crate) before: f64,
    pub(crate) bulk: f64,
    pub(crate) step: Vec<PaperStep>,
}

/// One of its experiments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PaperStep {
    pub(crate) rung: String,
    pub(crate) experiment: String,
    pub(crate) range: [f64; 2],
    #[serde(default)]
    pub(crate) wrong: bool,
}

impl Definitions {
    /// Reads and checks the definitions.
    ///
    /// # Errors
    /// [`LabError::Definitions`].
    pub(crate) fn read() -> Result<Definitions, LabError> {
        Definitions::parse(TEXT)
    }

    fn parse(text: &str) -> Result<Definitions, LabError> {
        let wrong = |what: String| LabError::Definitions(format!("ladder.toml: {what}"));
        let definitions: Definitions = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        definitions.check().map_err(wrong)?;
        Ok(definitions)
    }

    fn check(&self) -> Result<(), String> {
        for name in &self.suites {
            let suite = name.parse::<Suite>().map_err(|error| error.to_string())?;
            takes(suite)?;
        }
        self.answer_for(1)?;
        let [shortest, longest] = self.len;
        if shortest == 0 || shortest > longest || self.keys == 0 || self.keys > self.ops || self.ops > BATCH_OPS_MAX {
            return Err("`len`, `keys` and `ops` make no workload".to_owned());
        }
        if !self.bulk_len.is_multiple_of(BLOCK) || self.bulk_len == 0 || self.bulk_len > INPUT_LEN_MAX.min(BODY_MAX / 4)
        {
            return Err("`bulk_len` is whole blocks and fits a quarter of a message".to_owned());
        }
        for sweep in [&self.full, &self.quick] {
            let batches = sweep.batches.iter().chain(&sweep.fit_batches);
            if sweep.batches.is_empty() || !batches.clone().all(|ops| (1..=self.ops.min(OPS_MAX - 1)).contains(ops)) {
                return Err("batches have 1 to `ops` operations".to_owned());
            }
            if !sweep.batches.is_sorted_by(|a, b| a < b) {
                return Err("`batches` ascend".to_owned());
            }
            if sweep.fit_lens.len() < 2 || sweep.fit_batches.len() < 2 {
                return Err("two lengths and two batches at least, or C2 and C3 cannot be told apart".to_owned());
            }
            let largest = sweep.fit_batches.iter().max().unwrap_or(&0) * sweep.fit_lens.iter().max().unwrap_or(&0);
            if largest > BODY_MAX / 8 || sweep.fit_lens.iter().any(|len| *len == 0 || !len.is_multiple_of(BLOCK)) {
                return Err("`fit_lens` are whole blocks, and the largest batch fits an eighth of a message".to_owned());
            }
            if !(sweep.seconds > 0.0 && sweep.timing_ns > 0.0 && sweep.rounds_min > 0) {
                return Err("times and rounds are above zero".to_owned());
            }
        }
        for step in &self.paper.step {
            if !RUNGS.iter().any(|rung| rung.id == step.rung) {
                return Err(format!("there is no rung {}", step.rung));
            }
            if !(step.range[0] > 0.0 && step.range[0] <= step.range[1]) {
                return Err(format!("experiment {}: the range ends before it begins", step.experiment));
            }
        }
        if !(self.paper.before > 0.0 && self.paper.bulk > 0.0) {
            return Err("the paper's rates are above zero".to_owned());
        }
        Ok(())
    }

    /// The known answer for a suite whose key is `keys` DES keys: all of them the published one, which makes triple DES
    /// single (FIPS 46-3).
    pub(crate) fn answer_for(&self, keys: usize) -> Result<KnownAnswer, String> {
        let answer = &self.known_answer;
        let iv = hex(&answer.iv)?;
        let known = KnownAnswer {
            key: Zeroizing::new(hex(&answer.key)?.repeat(keys)),
            iv: iv.try_into().map_err(|_| "known_answer: an IV is a block".to_owned())?,
            ciphertext: hex(&answer.ciphertext)?,
            plaintext: hex(&answer.plaintext)?,
        };
        let len = known.plaintext.len();
        if known.key.len() != BLOCK * keys || len == 0 || !len.is_multiple_of(BLOCK) || known.ciphertext.len() != len {
            return Err("known_answer: a key of 8 bytes and texts of whole blocks, equally long".to_owned());
        }
        Ok(known)
    }

    /// The sweep, and the time for one contestant when there are so many in all.
    pub(crate) fn sweep(&self, quick: bool) -> &Sweep {
        if quick { &self.quick } else { &self.full }
    }
}

impl Sweep {
    /// The time for one contestant, when `contestants` share the sweep's.
    pub(crate) fn budget(&self, contestants: usize) -> Budget {
        let time = Duration::from_secs_f64(self.seconds / contestants.max(1) as f64);
        Budget { time, rounds_min: self.rounds_min, ..Budget::default() }
    }
}

impl Paper {
    /// What the paper says of a rung.
    pub(crate) fn of(&self, rung: &str) -> Option<&PaperStep> {
        self.step.iter().find(|step| step.rung == rung)
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

fn hex(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("`{text}` is not hexadecimal");
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return Err(wrong());
    }
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong());
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_hold_together() {
        let definitions = Definitions::read().expect("the definitions are right");
        assert_eq!(definitions.answer_for(3).expect("an answer").key.len(), 24);
        assert!(definitions.paper.of("7").expect("a step").wrong);
        assert!(definitions.paper.of("9").is_none(), "the paper has no lanes");
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        for (from, to) in [
            ("bulk_len = 1048576", "bulk_len = 1048577"),
            ("suites = [\"des-cbc\"]", "suites = [\"aes-128-cbc\"]"),
            ("suites = [\"des-cbc\"]", "suites = [\"rot13\"]"),
            ("keys = 64", "keys = 0"),
            ("rung = \"5\"", "rung = \"12\""),
            ("range = [30.0, 290.0]", "range = [300.0, 290.0]"),
            ("fit_lens = [8, 80]", "fit_lens = [8]"),
            ("iv = \"1234567890abcdef\"", "iv = \"1234567890abcdeg\""),
            ("batches = [1, 8,", "batches = [8, 1,"),
        ] {
            assert!(TEXT.contains(from), "{from}");
            let result = Definitions::parse(&TEXT.replacen(from, to, 1));
            assert!(matches!(result, Err(LabError::Definitions(_))), "{to}");
        }
    }
}
