//! The keys that a suite is checked with.

use ciphermill_contract::suite::{BlockCipher, Chain, Mode};
use ciphermill_contract::{Direction, Engine, Error, KeyForm, KeyMaterial, PreparedKey, Suite};
use ciphermill_vectors::keys::{TestPair, key_form, pair_name, pairs};

use crate::random::Rng;

/// Symmetric keys of one suite.
const SECRETS: usize = 5;

/// The keys of one suite: random secrets of valid lengths, or stored key pairs; empty for suites without keys.
pub(crate) struct KeyPool {
    suite: Suite,
    secrets: Vec<Vec<u8>>,
    pub(crate) pairs: Vec<&'static TestPair>,
}

impl KeyPool {
    pub(crate) fn new(suite: Suite, rng: &mut Rng) -> KeyPool {
        let pairs = pair_name(suite).map(|name| pairs(&name)).unwrap_or_default();
        let wants_secrets = suite.needs_key() && !suite.is_public_key();
        let secret = |at| {
            let len = secret_len(suite, at, rng);
            rng.bytes(len)
        };
        let secrets = (0..if wants_secrets { SECRETS } else { 0 }).map(secret).collect();
        KeyPool { suite, secrets, pairs }
    }

    /// How many keys there are; one for suites without keys, so that an index below it is always valid.
    pub(crate) fn len(&self) -> usize {
        self.secrets.len().max(self.pairs.len()).max(1)
    }

    /// A key's bytes in a form.
    pub(crate) fn bytes(&self, index: usize, form: KeyForm) -> &[u8] {
        match form {
            KeyForm::Secret => self.secrets.get(index).map_or(&[], Vec::as_slice),
            KeyForm::Private => self.pairs.get(index).map_or(&[], |pair| &pair.private),
            KeyForm::Public => self.pairs.get(index).map_or(&[], |pair| &pair.public),
            KeyForm::Reference => b"a name",
        }
    }

    /// Every key, prepared for a direction; `None` entries for suites without keys.
    pub(crate) fn prepare(&self, engine: &dyn Engine, direction: Direction) -> Result<Vec<Option<PreparedKey>>, Error> {
        let Some(form) = key_form(self.suite, direction) else { return Ok(vec![None]) };
        let prepare =
            |index| engine.prepare(&KeyMaterial { form, bytes: self.bytes(index, form) }, self.suite).map(Some);
        (0..self.len()).map(prepare).collect()
    }
}

/// A valid key length; the shortest first, then the longest within reason, then others.
fn secret_len(suite: Suite, at: usize, rng: &mut Rng) -> usize {
    let lengths = suite.key_len();
    if let Suite::Cipher(_, Mode::Xts) = suite {
        return lengths.min;
    }
    if let Suite::Chain(chain) = suite {
        return chain_key_len(chain, at, rng);
    }
    let max = lengths.max.min(300);
    match at {
        0 => lengths.min,
        1 => max,
        _ => {
            let steps = (max - lengths.min) / lengths.step;
            lengths.min + rng.below(steps + 1) * lengths.step
        }
    }
}

fn chain_key_len(chain: Chain, at: usize, rng: &mut Rng) -> usize {
    let cipher = match chain.cipher {
        BlockCipher::TripleDes => 24,
        other => other.key_len().max,
    };
    let mac = match at {
        0 => chain.digest.len(),
        1 => 1,
        _ => rng.between(2, 200),
    };
    cipher + mac
}
