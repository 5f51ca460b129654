//! Damaged operations fail, alone, and leave nothing behind.

use ciphermill_contract::suite::PublicEncryption;
use ciphermill_contract::{Direction, OpStatus, Suite};
use ciphermill_vectors::Answer;

use super::{Context, difference, inverses};
use crate::execute::Style;
use crate::jobs::{Damage, Item, authenticates, damaged, forward, longest};

impl Context<'_> {
    /// Every kind of damage, between operations that are whole.
    pub(super) fn damage(&mut self) {
        self.check = "damage";
        if !self.engine.claims(Direction::Decrypt) {
            return;
        }
        // Of a digest that is given no curve leaves a byte of 28 out.
        let lens: &[usize] = if self.suite.is_public_key() { &[28, 20] } else { &[33, 0, 16, 80, 1, 64, 200, 17] };
        let items: Vec<Item> = lens
            .iter()
            .map(|len| forward(self.suite, &self.pool, longest(self.suite, *len, usize::MAX), &mut self.rng))
            .collect();
        let Some(answers) = self.forward_answers(&items) else { return };
        let (whole, expected) = inverses(self.suite, &items, &answers);
        let mut batch = Vec::new();
        for (item, expected) in whole.iter().zip(&expected) {
            batch.push((item.clone(), expected.clone(), None));
            for damage in Damage::ALL {
                if let Some(job) = damaged(&item.job, damage, &mut self.rng) {
                    batch.push((Item { job, key: item.key }, expected.clone(), Some(damage)));
                }
            }
            batch.push((item.clone(), expected.clone(), None));
        }
        let items: Vec<Item> = batch.iter().map(|(item, ..)| item.clone()).collect();
        for style in [Style::SPREAD, Style::IN_PLACE] {
            let Some(got) = self.engine_run(Direction::Decrypt, &items, style) else { continue };
            for (index, (got, (item, expected, damage))) in got.iter().zip(&batch).enumerate() {
                let len = item.job.input.len();
                let what = match damage {
                    None => difference(got, expected).map(|what| format!("whole among damaged: {what}")),
                    Some(damage) => self.judge(got, expected).map(|what| format!("damaged ({damage:?}): {what}")),
                };
                if let Some(what) = what {
                    self.fail(format!("operation {index}, {len} bytes of input, {what}"));
                }
            }
        }
    }

    /// What is wrong with the answer to a damaged operation.
    fn judge(&self, got: &Answer, expected: &Answer) -> Option<String> {
        match self.suite {
            suite if authenticates(suite) => {
                (got.status != OpStatus::AuthFailed).then(|| format!("{}, not {}", got.status, OpStatus::AuthFailed))
            }
            // Implicit rejection: another secret, not a failure (FIPS 203, 6.3).
            Suite::Kem(_) => {
                let rejected = got.status.is_done() && got.output != expected.output && got.output.len() == 32;
                (!rejected).then(|| "no implicit rejection".to_owned())
            }
            Suite::PublicEncrypt(PublicEncryption::RsaOaep(..)) => {
                got.status.is_done().then(|| "padding that is wrong was taken".to_owned())
            }
            // One in thousands of wrong paddings is a right one by chance.
            Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(_)) => {
                (got.status.is_done() && got.output == expected.output).then(|| "damage changed nothing".to_owned())
            }
            // Without authentication damage must change something, or nothing was processed.
            _ => (got.status.is_done() && got.output == expected.output && !expected.output.is_empty())
                .then(|| "damage changed nothing".to_owned()),
        }
    }
}
