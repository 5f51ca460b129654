//! Key pairs for tests and known answers. They are published with this program: they protect nothing.

use std::sync::OnceLock;

use ciphermill_contract::suite::{Agreement, Signature};
use ciphermill_contract::{Direction, KeyForm, Suite};
use serde::Deserialize;

/// A key pair, in the forms of [`KeyForm::Private`] and [`KeyForm::Public`].
#[derive(Clone, Debug, Default)]
pub struct TestPair {
    /// The kind, for example `rsa-2048` or `p256`.
    pub name: String,
    /// PKCS#8 DER, seed, scalar or exponent.
    pub private: Vec<u8>,
    /// SubjectPublicKeyInfo DER or raw bytes.
    pub public: Vec<u8>,
}

#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    keys: Vec<Entry<'a>>,
}

#[derive(Deserialize)]
struct Entry<'a> {
    name: &'a str,
    private: &'a str,
    public: &'a str,
}

/// The key pairs of one kind; two of each. Empty for an unknown kind.
pub fn pairs(name: &str) -> Vec<&'static TestPair> {
    static PAIRS: OnceLock<Vec<TestPair>> = OnceLock::new();
    PAIRS.get_or_init(|| parse(include_str!("../data/keys.json"))).iter().filter(|pair| pair.name == name).collect()
}

/// Whether a suite has a known answer: random bytes and generated keys cannot have any.
pub fn is_answered(suite: Suite) -> bool {
    !matches!(suite, Suite::Random | Suite::Generate(_))
}

/// The kind of key pair that a suite takes; `None` for suites with symmetric keys, without keys, and for generated keys.
pub fn pair_name(suite: Suite) -> Option<String> {
    Some(match suite {
        Suite::Sign(Signature::Rsa(size, ..)) => size.to_string(),
        Suite::PublicEncrypt(encryption) => encryption.size().to_string(),
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) | Suite::Agree(Agreement::Ecdh(curve)) => {
            curve.to_string()
        }
        Suite::Agree(Agreement::Dh(_)) => suite.to_string().trim_start_matches("dh-").to_owned(),
        Suite::Sign(Signature::Ed25519Cofactored) => Suite::Sign(Signature::Ed25519).to_string(),
        Suite::Agree(Agreement::X25519 | Agreement::X448)
        | Suite::Sign(Signature::Ed25519 | Signature::MlDsa(_))
        | Suite::Kem(_) => suite.to_string(),
        _ => return None,
    })
}

/// The form of key that a suite takes in a direction; `None` for suites without keys.
pub fn key_form(suite: Suite, direction: Direction) -> Option<KeyForm> {
    Some(match (suite, direction) {
        (Suite::Sign(_), Direction::Encrypt) => KeyForm::Private,
        (Suite::Sign(_), Direction::Decrypt) => KeyForm::Public,
        (Suite::PublicEncrypt(_) | Suite::Kem(_), Direction::Encrypt) => KeyForm::Public,
        (Suite::PublicEncrypt(_) | Suite::Kem(_), Direction::Decrypt) | (Suite::Agree(_), _) => KeyForm::Private,
        _ if suite.needs_key() => KeyForm::Secret,
        _ => return None,
    })
}

fn parse(text: &str) -> Vec<TestPair> {
    let decode = |text: &str| hex::decode(text).ok();
    let pair = |entry: &Entry<'_>| {
        Some(TestPair { name: entry.name.to_owned(), private: decode(entry.private)?, public: decode(entry.public)? })
    };
    // The file is part of the program and a test reads it whole; a kind that did not parse would have no pairs.
    let file = serde_json::from_str::<File<'_>>(text);
    file.map(|file| file.keys.iter().filter_map(pair).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_two_pairs_of_every_kind() {
        for suite in Suite::all().filter(|suite| suite.is_public_key() && suite.needs_key()) {
            let name = pair_name(suite).expect("a kind of pair");
            let found = pairs(&name);
            assert_eq!(found.len(), 2, "{name}");
            assert_ne!(found[0].private, found[1].private, "{name}");
            assert!(found.iter().all(|pair| !pair.public.is_empty()), "{name}");
        }
    }
}
