//! What AWS-LC runs, as const data. The priors are rough figures of one x86-64 core with AES and SHA instructions.

use ciphermill_contract::suite::{StreamCipher, lists};
use ciphermill_contract::{Capability, Cost, Directions, Suite};

/// The digests but BLAKE3, which AWS-LC does not have; the list ends with it.
const DIGESTS: &[Suite] = lists::DIGESTS.split_at(10).0;
/// HMAC over the same digests, without the extendable-output functions; the list ends with HMAC over BLAKE3.
const HMAC: &[Suite] = lists::HMAC.split_at(8).0;
/// XTS with 256-bit keys; AWS-LC has no other.
const XTS: &[Suite] = lists::AES_XTS.split_at(1).1;
/// RC4; AWS-LC has no SEAL.
const RC4: &[Suite] = &[Suite::Stream(StreamCipher::Rc4)];
/// Chains over DES and triple DES, which come first in their list.
const DES_CHAINS: &[Suite] = lists::CHAINS_ENCRYPT_THEN_MAC.split_at(12).0;
/// Chains over AES.
const AES_CHAINS: &[Suite] = lists::CHAINS_ENCRYPT_THEN_MAC.split_at(12).1;

/// Everything the library engine runs.
pub const CAPABILITIES: &[Capability] = &[
    Capability::new(&lists::DES, Cost::new(100.0, 40.0, 12.0)).variable_time(),
    Capability::new(&lists::TRIPLE_DES, Cost::new(100.0, 40.0, 32.0)).variable_time(),
    Capability::new(&lists::AES_ECB, Cost::new(100.0, 30.0, 0.5)),
    Capability::new(&lists::AES_CBC, Cost::new(100.0, 40.0, 1.1)),
    Capability::new(&lists::AES_CTR, Cost::new(100.0, 50.0, 0.25)),
    Capability::new(XTS, Cost::new(100.0, 180.0, 0.3)),
    Capability::new(&lists::AES_GCM, Cost::new(100.0, 130.0, 0.3)),
    Capability::new(&lists::AES_CCM, Cost::new(100.0, 130.0, 1.5)),
    Capability::new(&lists::AES_GCM_SIV, Cost::new(100.0, 350.0, 0.7)),
    Capability::new(&lists::CHACHA20_POLY1305, Cost::new(100.0, 200.0, 0.7)),
    Capability::new(&lists::CHACHA20, Cost::new(100.0, 70.0, 0.6)),
    Capability::new(RC4, Cost::new(100.0, 100.0, 3.0)).variable_time(),
    Capability::new(DIGESTS, Cost::new(100.0, 120.0, 1.5)).directions(Directions::ENCRYPT),
    Capability::new(HMAC, Cost::new(100.0, 300.0, 1.5)),
    Capability::new(&lists::CMAC, Cost::new(100.0, 60.0, 1.1)),
    Capability::new(&lists::GMAC, Cost::new(100.0, 120.0, 0.2)),
    Capability::new(&lists::POLY1305, Cost::new(100.0, 70.0, 0.4)),
    Capability::new(DES_CHAINS, Cost::new(100.0, 350.0, 24.0)).variable_time(),
    Capability::new(AES_CHAINS, Cost::new(100.0, 350.0, 2.5)),
    Capability::new(&lists::RSA_SIGN_PKCS1, Cost::new(100.0, 800_000.0, 1.0)),
    Capability::new(&lists::RSA_SIGN_PSS, Cost::new(100.0, 800_000.0, 1.0)),
    Capability::new(&lists::RSA_ENCRYPT_PKCS1, Cost::new(100.0, 400_000.0, 1.0)),
    Capability::new(&lists::RSA_ENCRYPT_OAEP, Cost::new(100.0, 400_000.0, 1.0)),
    Capability::new(&lists::ECDSA, Cost::new(100.0, 100_000.0, 1.0)),
    Capability::new(&lists::ECDH, Cost::new(100.0, 120_000.0, 1.0)).directions(Directions::ENCRYPT),
    Capability::new(&lists::DH, Cost::new(100.0, 3_000_000.0, 1.0)).directions(Directions::ENCRYPT),
    Capability::new(&lists::X25519, Cost::new(100.0, 35_000.0, 1.0)).directions(Directions::ENCRYPT),
    Capability::new(&lists::ED25519, Cost::new(100.0, 40_000.0, 2.5)),
    Capability::new(&lists::ML_KEM, Cost::new(100.0, 30_000.0, 1.0)),
    Capability::new(&lists::ML_DSA, Cost::new(100.0, 200_000.0, 2.5)),
    Capability::new(&lists::RANDOM, Cost::new(100.0, 300.0, 0.5)).directions(Directions::ENCRYPT),
];
