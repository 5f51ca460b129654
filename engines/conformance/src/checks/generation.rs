//! Key pairs that an engine generates: they are sound, different, and taken by whoever takes such pairs.

use std::collections::BTreeSet;

use ciphermill_contract::suite::{KeyPair, RsaSize};
use ciphermill_contract::{Direction, Engine, KeyForm, KeyMaterial, OpStatus, Suite};
use ciphermill_vectors::Answer;
use ciphermill_vectors::consistency::is_consistent;

use super::Context;
use crate::claims;
use crate::execute::Style;
use crate::jobs::{Item, forward};

/// Whether pairs of a kind take so long to generate that they are generated as seldom as can be.
pub(super) fn is_slow(pair: KeyPair) -> bool {
    matches!(pair, KeyPair::Rsa(size) if size != RsaSize::Rsa1024)
}

/// Sizes of batches: fewer than there are lanes, as many, and one more than twice as many.
fn sizes(pair: KeyPair) -> &'static [usize] {
    match pair {
        KeyPair::Rsa(RsaSize::Rsa1024) => &[1, 9],
        KeyPair::Rsa(RsaSize::Rsa2048) => &[3],
        KeyPair::Rsa(_) => &[1],
        _ => &[1, 3, 8, 17],
    }
}

impl Context<'_> {
    pub(super) fn generation(&mut self, pair: KeyPair) {
        self.check = "generation";
        // Equal ones would be a wonder.
        let mut seen: BTreeSet<Vec<u8>> = BTreeSet::new();
        for size in sizes(pair) {
            let items: Vec<Item> = (0..*size).map(|_| forward(self.suite, &self.pool, 0, &mut self.rng)).collect();
            let Some(answers) = self.engine_run(Direction::Encrypt, &items, Style::SPREAD) else { return };
            for (index, Answer { status, output, tag }) in answers.iter().enumerate() {
                if *status != OpStatus::Done {
                    self.fail(format!("operation {index} of {size}: {status}"));
                } else if !seen.insert(output.clone()) || !seen.insert(tag.clone()) {
                    self.fail(format!("operation {index} of {size}: a key that was there before"));
                } else {
                    self.taken(pair, output, tag, index % 8 == 0);
                }
            }
        }
    }

    /// Every engine takes both halves for every suite that it claims, and, where they are used, they belong together.
    fn taken(&mut self, pair: KeyPair, private: &[u8], public: &[u8], is_used: bool) {
        if private.len() > pair.private_len_max() || public.len() != pair.public_len() {
            self.fail(format!("keys of {} and {} bytes", private.len(), public.len()));
        }
        let own = self.engine.engine;
        let engines: Vec<&dyn Engine> = [own].into_iter().chain(self.oracle.as_ref().map(|side| side.engine)).collect();
        let mut families = BTreeSet::new();
        for suite in Suite::all().filter(|suite| suite.key_pair() == Some(pair)) {
            for (form, bytes) in [(KeyForm::Private, private), (KeyForm::Public, public)] {
                if form == KeyForm::Public && matches!(suite, Suite::Agree(_)) {
                    continue;
                }
                let key = KeyMaterial { form, bytes };
                if let Err(error) = suite.check_key(&key) {
                    self.fail(format!("{suite} does not take the {form:?} key: {error}"));
                    continue;
                }
                for engine in engines.iter().filter(|engine| claims(**engine, suite, Direction::Encrypt)) {
                    if let Err(error) = engine.prepare(&key, suite) {
                        self.fail(format!(
                            "{} does not take the {form:?} key for {suite}: {error}",
                            engine.info().name
                        ));
                    }
                }
            }
            // A suite of each family.
            if is_used && families.insert(suite.family()) {
                self.used(&engines, suite, private, public);
            }
        }
    }

    /// What one engine does with one half, every other takes back with the other half.
    fn used(&mut self, engines: &[&dyn Engine], suite: Suite, private: &[u8], public: &[u8]) {
        let can = |engine: &dyn Engine| {
            claims(engine, suite, Direction::Encrypt)
                && (claims(engine, suite, Direction::Decrypt) || matches!(suite, Suite::Agree(_)))
        };
        for owner in engines.iter().filter(|engine| can(**engine)) {
            for peer in engines.iter().filter(|engine| can(**engine)) {
                let names = (owner.info().name, peer.info().name);
                match is_consistent(*owner, *peer, suite, private, public) {
                    Ok(true) => {}
                    Ok(false) => self.fail(format!("{suite}: halves that do not belong together on {names:?}")),
                    Err(error) => self.fail(format!("{suite} on {names:?}: {error}")),
                }
            }
        }
    }
}
