//! What the engine claims, it does; what it does not claim, it refuses.

use ciphermill_contract::capability::find;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{StreamCipher, Suite, lists};
use ciphermill_contract::{Direction, Engine, EngineKind, Error, KeyMaterial, OpStatus, Refusal, Timing};
use ciphermill_reference::{CAPABILITIES, Reference};

use crate::properties::{default_parts, way_back};
use crate::run::{Parts, bytes, run, run_prepared};

fn claimed() -> impl Iterator<Item = Suite> {
    CAPABILITIES.iter().flat_map(|capability| capability.suites.iter().copied())
}

#[test]
fn every_claimed_suite_is_done_in_every_direction() {
    for suite in claimed().filter(|suite| !suite.is_public_key()) {
        let parts = default_parts(suite, 96, 7);
        let forth = run(suite, Direction::Encrypt, &parts);
        assert_eq!(forth.status, OpStatus::Done, "{suite} encrypt");
        if suite.has_direction(Direction::Decrypt) {
            assert!(find(CAPABILITIES, suite, Direction::Decrypt).is_some(), "{suite}");
            let back = run(suite, Direction::Decrypt, &way_back(suite, &parts, forth));
            assert_eq!(back.status, OpStatus::Done, "{suite} decrypt");
        }
    }
}

#[test]
fn every_symmetric_suite_is_claimed_once() {
    for suite in Suite::all().filter(|suite| !suite.is_public_key()) {
        assert_eq!(claimed().filter(|claim| *claim == suite).count(), 1, "{suite}");
    }
}

#[test]
fn only_legacy_suites_are_variable_in_time() {
    for capability in CAPABILITIES.iter().filter(|capability| capability.timing == Timing::Variable) {
        assert!(capability.suites.iter().all(|suite| suite.is_legacy() || suite.is_public_key()), "{capability:?}");
    }
    for suite in Suite::all().filter(|suite| looks_up_tables(*suite)) {
        let capability = find(CAPABILITIES, suite, Direction::Encrypt).unwrap();
        assert_eq!(capability.timing, Timing::Variable, "{suite}");
    }
}

/// Whether the suite's cipher reads tables at secret positions.
fn looks_up_tables(suite: Suite) -> bool {
    match suite {
        Suite::Cipher(cipher, _) => cipher.is_legacy(),
        Suite::Chain(chain) => chain.cipher.is_legacy(),
        Suite::Stream(stream) => stream != StreamCipher::ChaCha20,
        _ => false,
    }
}

#[test]
fn keys_of_other_lengths_are_refused() {
    let engine = Reference::new();
    for suite in claimed().filter(|suite| suite.needs_key() && !suite.is_public_key()) {
        let lengths = suite.key_len();
        for len in [lengths.min - 1, lengths.max + 1] {
            let error = engine.prepare(&KeyMaterial::secret(&bytes(1, len)), suite).unwrap_err();
            let expected = Error::Refused(Refusal::KeyUnsuitable { suite, problem: KeyProblem::Length });
            assert_eq!(error, expected, "{suite} with {len} bytes");
        }
        let key = bytes(1, lengths.max);
        for key in [KeyMaterial::public(&key), KeyMaterial::private(&key)] {
            let error = engine.prepare(&key, suite).unwrap_err();
            assert_eq!(error, Error::Refused(Refusal::KeyUnsuitable { suite, problem: KeyProblem::Form }), "{suite}");
        }
    }
}

#[test]
fn a_missing_key_and_a_key_of_another_family_are_faults_and_no_panics() {
    let foreign = ciphermill_contract::PreparedKey::new(42u8);
    for suite in claimed().filter(|suite| suite.needs_key() && !suite.is_public_key()) {
        let parts = default_parts(suite, 96, 7);
        for key in [None, Some(&foreign)] {
            let outcome = run_prepared(suite, Direction::Encrypt, &parts, key);
            assert_eq!(outcome.status, OpStatus::EngineFault, "{suite}");
            assert!(outcome.room.iter().all(|byte| *byte == 0), "{suite}: output left behind");
        }
    }
}

#[test]
fn one_prepared_key_of_ff1_serves_every_radix() {
    let base = lists::FF1[2];
    let key = crate::run::prepare(base, &bytes(1, 32)).unwrap();
    for radix in [2u32, 36, 65_536] {
        let Suite::Fpe(ff1) = base else { panic!("{base} is no FF1") };
        let suite = Suite::Fpe(ciphermill_contract::suite::Ff1 { radix, ..ff1 });
        let parts = Parts { key: bytes(1, 32), input: [1, 0].repeat(30), ..Parts::default() };
        assert_eq!(run_prepared(suite, Direction::Encrypt, &parts, Some(&key)), run(suite, Direction::Encrypt, &parts));
    }
}

#[test]
fn the_engine_says_what_it_is() {
    let engine = Reference::default();
    let info = engine.info();
    assert_eq!((info.name, info.kind), ("reference", EngineKind::Reference));
    assert!(info.parallelism >= 1 && !info.version.is_empty());
    for suite in Suite::all() {
        assert_eq!(info.kernel_for(suite), "portable", "{suite}");
    }
    assert_eq!(engine.capabilities().len(), CAPABILITIES.len());
}

#[test]
fn random_bytes_are_as_many_as_asked_for_and_differ() {
    let draw = || run(Suite::Random, Direction::Encrypt, &Parts { asked: 40, ..Parts::default() });
    let (first, second) = (draw(), draw());
    assert_eq!((first.status, first.output.len()), (OpStatus::Done, 40));
    assert_ne!(first.output, second.output);
}

/// The crates wipe their states only under a feature, which nothing else would miss.
#[test]
fn schedules_and_midstates_are_of_types_that_wipe_themselves() {
    fn wipes<T: zeroize::ZeroizeOnDrop>() {}
    wipes::<aes::Aes128>();
    wipes::<aes::Aes192>();
    wipes::<aes::Aes256>();
    wipes::<des::Des>();
    wipes::<des::TdesEde2>();
    wipes::<des::TdesEde3>();
    wipes::<blowfish::Blowfish>();
    wipes::<chacha20::ChaCha20>();
    wipes::<md5::Md5>();
    wipes::<sha1::Sha1>();
    wipes::<sha2::Sha224>();
    wipes::<sha2::Sha256>();
    wipes::<sha2::Sha384>();
    wipes::<sha2::Sha512>();
    wipes::<sha2::Sha512_224>();
    wipes::<sha2::Sha512_256>();
    wipes::<sha3::Sha3_224>();
    wipes::<sha3::Sha3_256>();
    wipes::<sha3::Sha3_384>();
    wipes::<sha3::Sha3_512>();
    wipes::<shake::Shake128>();
    wipes::<shake::Shake256>();
    wipes::<cshake::CShake128>();
    wipes::<cshake::CShake256>();
    fn can_be_wiped<T: zeroize::Zeroize>() {}
    can_be_wiped::<blake3::Hasher>();
}
