//! Rules that only an engine can see: numerals, length fields, randomness.

use ciphermill_contract::suite::{Aead, Ff1};
use ciphermill_contract::{Direction, OpStatus, Reason, Suite};
use ciphermill_vectors::Job;

use super::Context;
use crate::execute::Style;
use crate::jobs::{Item, forward};

/// Bytes of the samples that random bytes are judged by.
const SAMPLE_LEN: usize = 16 * 1024;

impl Context<'_> {
    pub(super) fn rules(&mut self) {
        self.check = "rules";
        match self.suite {
            Suite::Fpe(ff1) if ff1.radix < 1 << 16 => self.numerals(ff1),
            Suite::Aead(Aead::AesCcm(_)) => self.ccm_length_field(),
            Suite::Random => self.randomness(),
            _ => {}
        }
    }

    /// A numeral that is not below the radix is refused, alone (NIST SP 800-38G, 5.1).
    fn numerals(&mut self, ff1: Ff1) {
        let len = 2 * ff1.numerals_min().max(6);
        let items: Vec<Item> = (0..5)
            .map(|at| {
                let mut item = forward(self.suite, &self.pool, len, &mut self.rng);
                if at % 2 == 1 {
                    let place = 2 * self.rng.below(len / 2);
                    let numeral = if at == 1 { ff1.radix as u16 } else { u16::MAX };
                    item.job.input[place..place + 2].copy_from_slice(&numeral.to_le_bytes());
                }
                item
            })
            .collect();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if !self.engine.claims(direction) {
                continue;
            }
            let Some(got) = self.engine_run(direction, &items, Style::IN_PLACE) else { continue };
            for (index, answer) in got.iter().enumerate() {
                let wanted =
                    if index % 2 == 1 { OpStatus::BadInput(Reason::NumeralOutOfRange) } else { OpStatus::Done };
                if answer.status != wanted {
                    self.fail(format!("operation {index}: {}, not {wanted}", answer.status));
                }
            }
        }
    }

    /// With a nonce of 13 bytes the length field has two (NIST SP 800-38C, A.1).
    fn ccm_length_field(&mut self) {
        if !self.engine.claims(Direction::Encrypt) {
            return;
        }
        let item = |len, rng: &mut crate::random::Rng| {
            let job = Job { iv: rng.bytes(13), input: rng.bytes(len), tag: vec![0; 16], ..Job::default() };
            Item { job, key: 0 }
        };
        let items = [item(0xffff, &mut self.rng), item(0x1_0000, &mut self.rng), item(1, &mut self.rng)];
        let Some(got) = self.engine_run(Direction::Encrypt, &items, Style::SPREAD) else { return };
        for (answer, (done, len)) in got.iter().zip([(true, 0xffff), (false, 0x1_0000), (true, 1)]) {
            if answer.status.is_done() != done {
                self.fail(format!("{len} bytes with a nonce of 13: {}", answer.status));
            }
        }
    }

    /// Two samples differ, and no bit of theirs is plainly stuck: a deviation of eight standard deviations from half of
    /// the bits, or of a byte's share from its expectation, does not happen by chance.
    fn randomness(&mut self) {
        let item = || Item { job: Job { asked: SAMPLE_LEN as u32, ..Job::default() }, key: 0 };
        let items = [item(), item()];
        let Some(got) = self.engine_run(Direction::Encrypt, &items, Style::SPREAD) else { return };
        if got[0].output == got[1].output {
            self.fail("two samples are alike");
        }
        for answer in got {
            let bits = (answer.output.len() * 8) as f64;
            let ones: u32 = answer.output.iter().map(|byte| byte.count_ones()).sum();
            let mut shares = [0usize; 256];
            answer.output.iter().for_each(|byte| shares[usize::from(*byte)] += 1);
            let most = shares.iter().max().copied().unwrap_or(0);
            if (f64::from(ones) - bits / 2.0).abs() > 4.0 * bits.sqrt() {
                self.fail(format!("{ones} ones among {bits} bits"));
            }
            // 64 expected, standard deviation 8.
            if answer.output.len() != SAMPLE_LEN || most > 128 {
                self.fail(format!("a byte comes up {most} times in {} bytes", answer.output.len()));
            }
        }
    }
}
