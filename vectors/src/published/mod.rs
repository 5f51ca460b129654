//! Every published vector that the contract can express, and a count of those that it cannot.

mod legacy;
mod odd_keys;
mod wycheproof_public;
mod wycheproof_symmetric;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use ciphermill_contract::{Directions, Suite};

use crate::case::{Case, CaseKeys, Outcome};
use crate::file;

pub use odd_keys::{OddKey, odd_keys};

/// The data files, with their paths below `vectors/data`.
macro_rules! files {
    ($($path:literal,)*) => { &[$(($path, include_str!(concat!("../../data/", $path)))),*] };
}

const FILES: &[(&str, &str)] = files![
    "legacy/khufu_khafre_cbc.json",
    "made/aes_cbc_stealing.json",
    "made/agreement.json",
    "made/brainpoolp256r1.json",
    "made/brainpoolp384r1.json",
    "made/chains.json",
    "made/dh_modp.json",
    "made/ecdsa_digest.json",
    "made/hmac_blake3.json",
    "made/legacy_curves.json",
    "made/p224.json",
    "made/rsa.json",
    "made/rsa_raw.json",
    "made/secp256k1.json",
    "made/symmetric.json",
    "nist/3des_cmac.json",
    "nist/aes_cbc.json",
    "nist/aes_ccm.json",
    "nist/aes_cfb128.json",
    "nist/aes_cfb8.json",
    "nist/aes_cmac.json",
    "nist/aes_ecb.json",
    "nist/aes_gcm.json",
    "nist/aes_gcm_any_iv.json",
    "nist/aes_key_wrap.json",
    "nist/aes_ofb.json",
    "nist/aes_xts.json",
    "nist/binary_curves.json",
    "nist/des.json",
    "nist/kmac.json",
    "nist/ml_kem.json",
    "nist/sha.json",
    "nist/shake.json",
    "papers/blake3.json",
    "papers/blowfish.json",
    "papers/ed25519_taming.json",
    "papers/gec_2.json",
    "rfc/aes_cbc_stealing.json",
    "rfc/aes_ctr.json",
    "rfc/aes_gcm_siv.json",
    "rfc/aes_ocb.json",
    "rfc/aes_siv.json",
    "rfc/chacha20.json",
    "rfc/chacha20_poly1305.json",
    "rfc/ecdsa_binary.json",
    "rfc/ecdsa_digest.json",
    "rfc/ed25519.json",
    "rfc/hmac.json",
    "rfc/md5.json",
    "rfc/poly1305.json",
    "rfc/rc4.json",
    "rfc/x25519.json",
    "rfc/x448.json",
];

/// Vectors of one source that no operation of the contract can express, and why.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// The source.
    pub source: String,
    /// What stands in the way.
    pub why: String,
    /// How many there are.
    pub count: usize,
}

struct Collection {
    cases: Vec<Case>,
    skipped: Vec<Skipped>,
}

/// Every vector.
///
/// # Panics
/// When a data file is damaged; they are compiled in.
pub fn all() -> &'static [Case] {
    &collection().cases
}

/// The vectors of a suite; those of FF1 with any radix.
pub fn cases(suite: Suite) -> Vec<&'static Case> {
    static BY_SUITE: OnceLock<BTreeMap<Suite, Vec<&'static Case>>> = OnceLock::new();
    let by_suite = BY_SUITE.get_or_init(|| {
        let mut map: BTreeMap<Suite, Vec<&'static Case>> = BTreeMap::new();
        for case in all() {
            map.entry(case.suite.canonical()).or_default().push(case);
        }
        map
    });
    by_suite.get(&suite.canonical()).cloned().unwrap_or_default()
}

/// What the contract cannot express, by source and reason.
pub fn skipped() -> &'static [Skipped] {
    &collection().skipped
}

fn collection() -> &'static Collection {
    static COLLECTION: OnceLock<Collection> = OnceLock::new();
    COLLECTION.get_or_init(|| {
        let mut sink = Sink::default();
        for (path, text) in FILES {
            match file::parse(text) {
                Ok(cases) => sink.cases.extend(cases),
                Err(error) => panic!("vectors/data/{path}: {}", error.0),
            }
        }
        legacy::load(&mut sink);
        wycheproof_symmetric::load(&mut sink);
        wycheproof_public::load(&mut sink);
        let skipped = sink.skipped.into_iter().map(|((source, why), count)| Skipped { source, why, count }).collect();
        Collection { cases: sink.cases, skipped }
    })
}

/// Where loaders put what they find.
#[derive(Default)]
struct Sink {
    cases: Vec<Case>,
    skipped: BTreeMap<(String, String), usize>,
}

impl Sink {
    fn skip(&mut self, source: &str, why: impl Into<String>) {
        *self.skipped.entry((source.to_owned(), why.into())).or_default() += 1;
    }

    /// Takes a case whose lengths the suite's rules allow and counts the others.
    fn add(&mut self, case: Case) {
        match obstacle(&case) {
            None => self.cases.push(case),
            Some(why) => {
                let source = case.source.to_string();
                self.skip(&source, why);
            }
        }
    }
}

/// What keeps a case from being an operation.
fn obstacle(case: &Case) -> Option<&'static str> {
    use ciphermill_contract::Direction;
    let suite = case.suite;
    if !case.keys.secret.is_empty() && !suite.key_len().contains(case.keys.secret.len()) {
        return Some("the key has a length that the suite does not take");
    }
    if suite.needs_key() && case.keys.secret.is_empty() && case.keys.private.is_empty() && case.keys.public.is_empty() {
        return Some("the key is empty");
    }
    if !suite.iv_len().contains(case.iv.len()) {
        return Some("the IV has a length that the suite does not take");
    }
    if !suite.aad_len().contains(case.aad.len()) {
        return Some("the additional data have a length that the suite does not take");
    }
    // An invalid public key is refused before there is a ciphertext or signature.
    if matches!(case.outcome, Outcome::Invalid(_)) && case.ways == Directions::ENCRYPT && suite.is_public_key() {
        let input = suite.input_len(Direction::Encrypt);
        return (!input.contains(case.input.len())).then_some("the input has a length that the suite does not take");
    }
    if !suite.tag_len(Direction::Decrypt).contains(case.tag.len()) && suite.has_direction(Direction::Decrypt) {
        return Some("the tag or signature has a length that the suite does not take");
    }
    let forward =
        case.ways.contains(Direction::Encrypt) && !suite.input_len(Direction::Encrypt).contains(case.input.len());
    let (job, _) = crate::job::Job::of(case, Direction::Decrypt);
    let back = case.ways.contains(Direction::Decrypt)
        && suite.has_direction(Direction::Decrypt)
        && !suite.input_len(Direction::Decrypt).contains(job.input.len());
    (forward || back).then_some("the input has a length that the suite does not take")
}

/// The parts of a case that a loader knows before the rest.
fn blank(id: String, source: &Arc<str>, suite: Suite) -> Case {
    Case {
        id,
        source: Arc::clone(source),
        suite,
        ways: Directions::BOTH,
        keys: CaseKeys::default(),
        iv: Vec::new(),
        aad: Vec::new(),
        input: Vec::new(),
        output: Vec::new(),
        tag: Vec::new(),
        outcome: Outcome::Valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::is_answered;

    fn count(family: &str) -> usize {
        all().iter().filter(|case| case.suite.family() == family).count()
    }

    #[test]
    fn every_family_has_its_vectors() {
        for (family, least) in [
            ("DES", 225),
            ("3DES", 341),
            ("AES-ECB", 250),
            ("AES-CBC", 320),
            ("AES-CTR", 18),
            ("AES-XTS", 238),
            ("AES-CFB8", 250),
            ("AES-CFB128", 250),
            ("AES-OFB", 250),
            ("AES-CBC, stealing", 60),
            ("AES-GCM", 395),
            ("AES-GCM, any IV", 230),
            ("AES-CCM", 843),
            ("AES-GCM-SIV", 240),
            ("AES-SIV", 852),
            ("AES-OCB", 28),
            ("AES-CBC with HMAC", 100),
            ("ChaCha20", 4),
            ("ChaCha20-Poly1305", 311),
            ("XChaCha20-Poly1305", 280),
            ("Blowfish", 65),
            ("Khufu, Khafre", 24),
            ("RC4, SEAL", 18),
            ("digests", 717),
            ("HMAC", 1218),
            ("CMAC", 308),
            ("GMAC", 200),
            ("GMAC, any IV", 50),
            ("Poly1305", 11),
            ("FF1", 28290),
            ("encrypt-then-MAC", 700),
            ("MAC-then-encrypt", 453),
            ("RSA PKCS#1 signatures", 2273),
            ("RSA PSS signatures", 845),
            ("RSA PKCS#1 encryption", 188),
            ("RSA OAEP encryption", 131),
            ("ECDSA", 787),
            ("ECDH", 1730),
            ("secp256k1", 900),
            ("P-224", 1200),
            ("brainpoolP256r1", 1000),
            ("brainpoolP384r1", 1200),
            ("legacy curves", 500),
            ("DH", 18),
            ("DH of IKE", 42),
            ("X25519", 505),
            ("X448", 500),
            ("Ed25519", 223),
            ("Ed25519 with cofactor", 150),
            ("ML-KEM", 870),
            ("ML-DSA", 800),
        ] {
            assert!(count(family) >= least, "{family}: {} vectors, {least} expected", count(family));
        }
    }

    #[test]
    fn every_suite_with_a_way_to_test_it_has_a_valid_vector() {
        for suite in Suite::all().filter(|suite| is_answered(*suite)) {
            assert!(cases(suite).iter().any(|case| case.outcome == Outcome::Valid), "{suite}");
        }
    }

    #[test]
    fn what_is_skipped_is_counted_with_a_reason() {
        let total: usize = skipped().iter().map(|skipped| skipped.count).sum();
        for skipped in skipped() {
            println!("{}: {}: {}", skipped.source, skipped.why, skipped.count);
        }
        // RSA-8192, DER signatures and the like; far more means a loader went blind.
        assert!(total < all().len(), "{total} skipped, {} loaded", all().len());
    }

    #[test]
    fn an_inexpressible_case_is_an_obstacle() {
        let source: Arc<str> = "test".into();
        let suite = Suite::Digest(ciphermill_contract::suite::Digest::Md5);
        let good = Case { tag: vec![0; 16], ..blank("a".into(), &source, suite) };
        assert_eq!(obstacle(&good), None);
        assert!(obstacle(&Case { iv: vec![0], ..good }).is_some());
    }
}
