//! Whether both halves of a key pair belong together, found out by using them (FIPS 140-3 IG 10.3.A): the only test of pairs that were
//! generated, of which nobody knows what they should be.

use ciphermill_contract::suite::PublicEncryption;
use ciphermill_contract::{Direction, Engine, Error, KeyMaterial, OpStatus, Suite};

use crate::job::{Answer, Job, run_jobs};
use crate::keys::{pair_name, pairs};

/// What is signed or encrypted.
const MESSAGE: [u8; 32] = *b"both halves of a pair are needed";

/// Whether a private and a public key belong together under a suite that takes them and that both engines claim. `owner` has the
/// private half: what it signs, `peer` has to verify; what `peer` encrypts or encapsulates, `owner` has to open; and both have to agree,
/// `peer` with a stored pair's private half.
///
/// # Errors
/// What an engine said when it refused a key, a queue or a batch.
pub fn is_consistent(
    owner: &dyn Engine,
    peer: &dyn Engine,
    suite: Suite,
    private: &[u8],
    public: &[u8],
) -> Result<bool, Error> {
    let (private, public) = (KeyMaterial::private(private), KeyMaterial::public(public));
    let run = |engine: &dyn Engine, direction, key: &KeyMaterial<'_>, job: Job| -> Result<Answer, Error> {
        let key = engine.prepare(key, suite)?;
        let answers = run_jobs(engine, suite, direction, &[job], Some(&key))?;
        let none = Answer { status: OpStatus::EngineFault, output: Vec::new(), tag: Vec::new() };
        Ok(answers.into_iter().next().unwrap_or(none))
    };
    if let Suite::Agree(agreement) = suite {
        let Some(stored) = pair_name(suite).and_then(|name| pairs(&name).into_iter().next()) else { return Ok(false) };
        // Public values are what a public key ends with.
        let value = |key: &[u8]| key[key.len().saturating_sub(agreement.public_len())..].to_vec();
        let with = |input| Job { input, ..Job::default() };
        let own = run(owner, Direction::Encrypt, &private, with(value(&stored.public)))?;
        let stored = KeyMaterial::private(&stored.private);
        let other = run(peer, Direction::Encrypt, &stored, with(value(public.bytes)))?;
        return Ok(own.status.is_done() && own == other);
    }
    let signs = matches!(suite, Suite::Sign(_));
    let job = Job { input: message(suite), tag: vec![0; suite.default_tag_len()], ..Job::default() };
    let (first, second) =
        if signs { ((owner, &private), (peer, &public)) } else { ((peer, &public), (owner, &private)) };
    let forward = run(first.0, Direction::Encrypt, first.1, job.clone())?;
    let Some((back, expected)) = job.inverse(suite, &forward).filter(|_| forward.status.is_done()) else {
        return Ok(false);
    };
    let got = run(second.0, Direction::Decrypt, second.1, back)?;
    Ok(got.status.is_done() && got.output == expected.output)
}

/// Something that the suite takes.
fn message(suite: Suite) -> Vec<u8> {
    match suite {
        Suite::Kem(_) => Vec::new(),
        // A number as long as the modulus, and below it.
        Suite::PublicEncrypt(PublicEncryption::RsaRaw(size)) => {
            [&vec![0; size.len() - MESSAGE.len()][..], &MESSAGE].concat()
        }
        _ => MESSAGE.to_vec(),
    }
}
