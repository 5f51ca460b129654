//! Key pairs that are generated without their private halves leaving locked memory.

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::limits::TAG_LEN_MAX;
use ciphermill_contract::suite::KeyPair;
use ciphermill_contract::{Batch, Direction, Error, KeyMaterial, Op, Result, Suite};
use ciphermill_keys::KeyPolicy;
use ciphermill_memory::{SECRET_MAX, SecretBytes};

use crate::policy::RunOptions;
use crate::run::Runner;

/// A key pair; its private half lies in locked memory, which is wiped.
pub struct GeneratedPair {
    /// The private key, then the public one.
    bytes: SecretBytes,
    private_len: usize,
    public_at: usize,
}

impl GeneratedPair {
    /// The private key in the contract's form (see [`KeyPair`]).
    pub fn private(&self) -> KeyMaterial<'_> {
        KeyMaterial::private(&self.bytes[..self.private_len])
    }

    /// The public key in the contract's form.
    pub fn public(&self) -> &[u8] {
        &self.bytes[self.public_at..]
    }
}

/// Generates a pair on the engine that the router chooses.
pub(crate) fn pair(runner: &Runner, pair: KeyPair) -> Result<GeneratedPair> {
    let (public_at, public_len) = (pair.private_len_max(), pair.public_len());
    let len = public_at + public_len;
    let mut bytes = SecretBytes::zeroed(len).map_err(|_| Error::exhausted("SECRET_MAX", SECRET_MAX, len))?;
    let tag_len = u16::try_from(public_len).map_err(|_| Error::exhausted("TAG_LEN_MAX", TAG_LEN_MAX, public_len))?;
    let mut ops = [Op { tag: public_at as u32, tag_len, ..Op::default() }];
    let batch = Batch::new(Suite::Generate(pair), Direction::Encrypt, &mut ops, &mut bytes);
    let report = runner.with_context(|context| runner.run(context, batch, &RunOptions::default()))?;
    let [op] = ops;
    if !op.status.is_done() {
        let engines = runner.state.engines();
        let name = engines.slots.get(report.route.engine).map_or("no engine", |slot| slot.name());
        return Err(Error::fault(name, FaultKind::Unfinished));
    }
    Ok(GeneratedPair { bytes, private_len: op.output_len as usize, public_at })
}

/// Whether a policy allows any suite that takes such pairs.
pub(crate) fn is_of_use(pair: KeyPair, policy: &KeyPolicy) -> bool {
    policy.suites.iter().any(|suite| suite.key_pair() == Some(pair))
}
