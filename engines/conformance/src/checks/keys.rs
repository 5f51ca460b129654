//! Keys that are refused, and keys that are not there.

use ciphermill_contract::error::{KeyProblem, Refusal};
use ciphermill_contract::limits::KEY_LEN_MAX;
use ciphermill_contract::suite::{Agreement, Curve, Mode, Signature};
use ciphermill_contract::{Direction, Error, KeyForm, KeyMaterial, PreparedKey, Suite};
use ciphermill_vectors::Job;
use ciphermill_vectors::keys::{key_form, pairs};

use super::{Context, inverses};
use crate::execute::{Load, Style};
use crate::jobs::{Item, forward, longest};
use crate::{claimed_suites, claims};

/// What the second of three operations, or all of them, go without.
enum Lack<'a> {
    /// Its key.
    Key,
    /// Its key, having this one instead.
    Replaced(&'a PreparedKey),
    /// The whole list of keys.
    AllKeys,
}

impl Context<'_> {
    pub(super) fn keys(&mut self) {
        self.check = "keys";
        if !self.suite.needs_key() {
            return;
        }
        self.unsuitable_keys();
        self.foreign_suite();
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            if self.engine.claims(direction) {
                self.missing_keys(direction);
            }
        }
    }

    /// Notes when `prepare` takes what it has to refuse, or refuses it for another reason.
    fn refuses(&mut self, form: KeyForm, bytes: &[u8], why: &str) {
        self.report.ops += 1;
        match self.engine.engine.prepare(&KeyMaterial { form, bytes }, self.suite) {
            Err(Error::Refused(Refusal::KeyUnsuitable { suite, .. })) if suite == self.suite => {}
            Err(error) => self.fail(format!("{why}: refused, but with `{error}`")),
            Ok(_) => self.fail(format!("{why}: taken")),
        }
    }

    fn unsuitable_keys(&mut self) {
        if self.suite.is_public_key() {
            return self.unsuitable_pairs();
        }
        let rule = self.suite.key_len();
        let candidates =
            [0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 48, 63, 64, 65, rule.max + 1, KEY_LEN_MAX + 1];
        for len in candidates {
            let xts = matches!(self.suite, Suite::Cipher(_, Mode::Xts));
            if !rule.contains(len) || (xts && len != rule.min) {
                let bytes = self.rng.bytes(len);
                self.refuses(KeyForm::Secret, &bytes, &format!("a key of {len} bytes"));
            }
        }
        let good = self.pool.bytes(0, KeyForm::Secret).to_vec();
        self.refuses(KeyForm::Private, &good, "a secret key said to be private");
        self.refuses(KeyForm::Public, &good, "a secret key said to be public");
        self.refuses(KeyForm::Reference, &good, "a secret key said to be a name");
        if let Suite::Cipher(_, Mode::Xts) = self.suite {
            let half = &good[..good.len() / 2];
            let twice = [half, half].concat();
            let weak = Error::key(self.suite, KeyProblem::Weak);
            let answer = self.engine.engine.prepare(&KeyMaterial::secret(&twice), self.suite);
            if answer.err() != Some(weak) {
                self.fail("a key of two equal halves was not refused as weak");
            }
        }
    }

    fn unsuitable_pairs(&mut self) {
        let private = self.pool.bytes(0, KeyForm::Private).to_vec();
        let public = self.pool.bytes(0, KeyForm::Public).to_vec();
        let way = |form| {
            let uses = |direction: &Direction| {
                claims(self.engine.engine, self.suite, *direction) && key_form(self.suite, *direction) == Some(form)
            };
            [Direction::Encrypt, Direction::Decrypt].iter().any(uses)
        };
        let (uses_private, uses_public) = (way(KeyForm::Private), way(KeyForm::Public));
        self.refuses(KeyForm::Secret, &private, "a private key said to be secret");
        self.refuses(KeyForm::Reference, &private, "a private key said to be a name");
        let foreign = foreign_pair(self.suite);
        for (form, good, uses) in [(KeyForm::Private, &private, uses_private), (KeyForm::Public, &public, uses_public)]
        {
            if !uses {
                continue;
            }
            self.refuses(form, &[], "an empty key");
            // An exponent of DH has no fixed length.
            if matches!((self.suite, form), (Suite::Agree(Agreement::Dh(_)), KeyForm::Private)) {
                continue;
            }
            self.refuses(form, &good[..good.len() - 1], "a key cut short");
            let garbage = self.rng.bytes(50);
            self.refuses(form, &garbage, "fifty random bytes");
            if let Some(name) = foreign
                && let Some(pair) = pairs(name).first()
            {
                let bytes = if form == KeyForm::Private { &pair.private } else { &pair.public };
                self.refuses(form, bytes, &format!("a key of {name}"));
            }
        }
    }

    /// A suite that the engine does not claim has no keys on it.
    fn foreign_suite(&mut self) {
        let claimed = claimed_suites(self.engine.engine);
        let unclaimed = Suite::all().find(|suite| {
            suite.needs_key() && !suite.is_public_key() && !claimed.contains(suite) && suite.key_len().contains(16)
        });
        if let Some(suite) = unclaimed
            && self.engine.engine.prepare(&KeyMaterial::secret(&[7; 16]), suite).is_ok()
        {
            self.fail(format!("prepared a key for {suite}, which is not claimed"));
        }
    }

    /// Operations without a key, or with one that this engine did not prepare, fail alone and without a panic.
    fn missing_keys(&mut self, direction: Direction) {
        let items: Vec<Item> = (0..3)
            .map(|_| forward(self.suite, &self.pool, longest(self.suite, 40, usize::MAX), &mut self.rng))
            .collect();
        let items = match direction {
            Direction::Encrypt => items,
            Direction::Decrypt => match self.forward_answers(&items) {
                Some(answers) => inverses(self.suite, &items, &answers).0,
                None => return,
            },
        };
        self.direction = direction;
        let foreign = PreparedKey::new("no engine's key");
        self.lacking(direction, &items, Lack::Key);
        self.lacking(direction, &items, Lack::Replaced(&foreign));
        self.lacking(direction, &items, Lack::AllKeys);
        // The other half of a pair does not do this direction's work.
        let other = match key_form(self.suite, direction) {
            Some(KeyForm::Private) => KeyForm::Public,
            Some(KeyForm::Public) => KeyForm::Private,
            _ => return,
        };
        let needs_private = other == KeyForm::Public;
        let other = KeyMaterial { form: other, bytes: self.pool.bytes(0, other) };
        if needs_private && let Ok(key) = self.engine.engine.prepare(&other, self.suite) {
            self.lacking(direction, &items, Lack::Replaced(&key));
        }
    }

    /// Runs three operations of which the second lacks its key, or all do; those that lack one must not be done.
    fn lacking(&mut self, direction: Direction, items: &[Item], lack: Lack<'_>) {
        let jobs: Vec<Job> = items.iter().map(|item| item.job.clone()).collect();
        let Ok(prepared) = self.pool.prepare(self.engine.engine, direction) else { return };
        self.report.ops += items.len();
        let mut keys: Vec<Option<&PreparedKey>> =
            items.iter().map(|item| prepared.get(item.key).and_then(Option::as_ref)).collect();
        let good: &[usize] = match lack {
            Lack::Key => {
                keys[1] = None;
                &[0, 2]
            }
            Lack::Replaced(key) => {
                keys[1] = Some(key);
                &[0, 2]
            }
            Lack::AllKeys => {
                keys.clear();
                &[]
            }
        };
        let load = Load { suite: self.suite, direction, jobs: &jobs, keys, settled: Vec::new() };
        let run = load.run(&mut *self.engine.queue, Style::SPREAD, &mut self.rng);
        match run {
            Err(error) => self.fail(format!("without a key: {error}")),
            Ok(run) => {
                run.trespasses.into_iter().for_each(|trespass| self.fail(format!("without a key: {trespass}")));
                for (index, answer) in run.answers.iter().enumerate() {
                    if answer.status.is_done() != good.contains(&index) {
                        self.fail(format!("operation {index}, others without a key: {}", answer.status));
                    }
                }
            }
        }
    }
}

/// A kind of key pair that the suite must refuse, where another of the same encoding exists.
fn foreign_pair(suite: Suite) -> Option<&'static str> {
    Some(match suite {
        Suite::Sign(Signature::Rsa(..)) | Suite::PublicEncrypt(_) => {
            if suite.to_string().starts_with("rsa-2048") {
                "rsa-1024"
            } else {
                "rsa-2048"
            }
        }
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) | Suite::Agree(Agreement::Ecdh(curve)) => {
            if curve == Curve::P256 {
                "p384"
            } else {
                "p256"
            }
        }
        _ => return None,
    })
}
