//! What AWS-LC runs, as const data. The priors are rough figures of one x86-64 core with AES and SHA instructions.

use ciphermill_contract::suite::{Curve, Kem, KeyPair, MlDsaSet, RsaSize, StreamCipher, lists};
use ciphermill_contract::{Capability, Cost, Directions, Suite};

/// The name under which mills, policies and records know this engine.
pub(crate) const NAME: &str = "library";

/// Digests by their places in the list; BLAKE3, which AWS-LC does not have, ends it.
const fn digests(places: [usize; 2], prior: Cost) -> Capability {
    Capability::new(lists::DIGESTS.split_at(places[1]).0.split_at(places[0]).1, prior).directions(Directions::ENCRYPT)
}

/// HMAC over the same digests, without the extendable-output functions; HMAC over BLAKE3 ends the list.
const fn hmacs(places: [usize; 2], prior: Cost) -> Capability {
    Capability::new(lists::HMAC.split_at(places[1]).0.split_at(places[0]).1, prior)
}

/// XTS with 128-bit keys, composed of ECB, since AWS-LC has it with 256-bit keys only.
const XTS_128: &[Suite] = lists::AES_XTS.split_at(1).0;
/// AWS-LC's own.
const XTS_256: &[Suite] = lists::AES_XTS.split_at(1).1;
/// RC4; AWS-LC has no SEAL.
const RC4: &[Suite] = &[Suite::Stream(StreamCipher::Rc4)];
/// Chains over DES and triple DES, which come first in their list.
const DES_CHAINS: &[Suite] = lists::CHAINS_ENCRYPT_THEN_MAC.split_at(12).0;
/// Chains over AES.
const AES_CHAINS: &[Suite] = lists::CHAINS_ENCRYPT_THEN_MAC.split_at(12).1;

/// RSA with moduli of a size: private operations take many times as long as public ones.
const fn rsa(list: &'static [Suite], size: RsaSize, directions: Directions, op_ns: f64) -> Capability {
    Capability::new(lists::of_size(list, size), Cost::new(100.0, op_ns, 1.0)).directions(directions)
}

/// The suite at a place of a list.
const fn one(list: &'static [Suite], place: usize, directions: Directions, op_ns: f64) -> Capability {
    Capability::new(list.split_at(place + 1).0.split_at(place).1, Cost::new(100.0, op_ns, 1.0)).directions(directions)
}

/// `len` kinds of key pairs from this one on, in the order of their list.
const fn generates(first: KeyPair, len: usize, op_ns: f64) -> Capability {
    Capability::new(lists::generating(first, len), Cost::new(100.0, op_ns, 0.0)).directions(Directions::ENCRYPT)
}

/// Everything the library engine runs.
pub const CAPABILITIES: &[Capability] = &[
    Capability::new(&lists::DES, Cost::new(60.0, 30.0, 10.0)).variable_time(),
    Capability::new(&lists::TRIPLE_DES, Cost::new(60.0, 30.0, 25.5)).variable_time(),
    Capability::new(&lists::AES_ECB, Cost::new(30.0, 15.0, 0.105)),
    Capability::new(&lists::AES_CBC, Cost::new(30.0, 10.0, 0.8)).directions(Directions::ENCRYPT),
    Capability::new(&lists::AES_CBC, Cost::new(30.0, 10.0, 0.12)).directions(Directions::DECRYPT),
    Capability::new(&lists::AES_CTR, Cost::new(30.0, 30.0, 0.12)),
    Capability::new(XTS_128, Cost::new(40.0, 60.0, 0.9)),
    Capability::new(XTS_256, Cost::new(40.0, 115.0, 0.046)),
    Capability::new(&lists::AES_CFB8, Cost::new(30.0, 30.0, 12.0)),
    Capability::new(&lists::AES_CFB128, Cost::new(30.0, 30.0, 1.2)),
    Capability::new(&lists::AES_OFB, Cost::new(30.0, 30.0, 1.2)),
    Capability::new(&lists::AES_CBC_STEALING, Cost::new(30.0, 20.0, 0.8)).directions(Directions::ENCRYPT),
    Capability::new(&lists::AES_CBC_STEALING, Cost::new(30.0, 20.0, 0.12)).directions(Directions::DECRYPT),
    Capability::new(&lists::AES_GCM, Cost::new(40.0, 90.0, 0.075)),
    Capability::new(&lists::AES_GCM_ANY_IV, Cost::new(40.0, 110.0, 0.075)),
    Capability::new(&lists::AES_CCM, Cost::new(60.0, 100.0, 0.87)),
    Capability::new(&lists::AES_GCM_SIV, Cost::new(100.0, 350.0, 0.7)),
    Capability::new(&lists::CHACHA20_POLY1305, Cost::new(40.0, 190.0, 0.45)),
    Capability::new(&lists::AES_CBC_HMAC, Cost::new(60.0, 400.0, 1.6)),
    Capability::new(&lists::XCHACHA20_POLY1305, Cost::new(40.0, 270.0, 0.45)),
    Capability::new(&lists::CHACHA20, Cost::new(40.0, 62.0, 0.35)),
    Capability::new(RC4, Cost::new(40.0, 30.0, 1.44)).variable_time(),
    digests([0, 1], Cost::new(40.0, 80.0, 1.16)),
    digests([1, 2], Cost::new(40.0, 45.0, 0.48)),
    digests([2, 4], Cost::new(45.0, 45.0, 0.51)),
    digests([4, 7], Cost::new(45.0, 110.0, 1.2)),
    digests([7, 12], Cost::new(60.0, 210.0, 1.75)),
    digests([12, 13], Cost::new(45.0, 110.0, 1.2)),
    digests([13, 14], Cost::new(60.0, 210.0, 1.75)),
    hmacs([0, 1], Cost::new(40.0, 170.0, 1.16)),
    hmacs([1, 2], Cost::new(40.0, 105.0, 0.48)),
    hmacs([2, 4], Cost::new(40.0, 120.0, 0.51)),
    hmacs([4, 6], Cost::new(45.0, 320.0, 1.2)),
    hmacs([6, 7], Cost::new(45.0, 600.0, 1.2)),
    hmacs([7, 10], Cost::new(60.0, 800.0, 1.75)),
    hmacs([10, 11], Cost::new(45.0, 600.0, 1.2)),
    hmacs([11, 12], Cost::new(60.0, 800.0, 1.75)),
    Capability::new(&lists::TRIPLE_DES_CMAC, Cost::new(40.0, 60.0, 26.0)).variable_time(),
    Capability::new(&lists::KEY_WRAP, Cost::new(40.0, 60.0, 7.0)),
    Capability::new(&lists::CMAC, Cost::new(40.0, 15.0, 0.7)),
    Capability::new(&lists::GMAC, Cost::new(40.0, 75.0, 0.043)),
    Capability::new(&lists::GMAC_ANY_IV, Cost::new(40.0, 95.0, 0.043)),
    Capability::new(&lists::POLY1305, Cost::new(30.0, 70.0, 0.24)),
    Capability::new(DES_CHAINS, Cost::new(100.0, 350.0, 24.0)).variable_time(),
    Capability::new(AES_CHAINS, Cost::new(60.0, 110.0, 1.3)).directions(Directions::ENCRYPT),
    Capability::new(AES_CHAINS, Cost::new(60.0, 145.0, 0.65)).directions(Directions::DECRYPT),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa1024, Directions::ENCRYPT, 90_000.0),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa1024, Directions::DECRYPT, 5_000.0),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa2048, Directions::ENCRYPT, 240_000.0),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa2048, Directions::DECRYPT, 15_000.0),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa3072, Directions::ENCRYPT, 690_000.0),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa3072, Directions::DECRYPT, 32_000.0),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa4096, Directions::ENCRYPT, 1_450_000.0),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa4096, Directions::DECRYPT, 56_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa1024, Directions::ENCRYPT, 90_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa1024, Directions::DECRYPT, 5_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa2048, Directions::ENCRYPT, 240_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa2048, Directions::DECRYPT, 15_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa3072, Directions::ENCRYPT, 690_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa3072, Directions::DECRYPT, 32_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa4096, Directions::ENCRYPT, 1_450_000.0),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa4096, Directions::DECRYPT, 56_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa1024, Directions::DECRYPT, 90_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa1024, Directions::ENCRYPT, 5_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa2048, Directions::DECRYPT, 240_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa2048, Directions::ENCRYPT, 15_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa3072, Directions::DECRYPT, 690_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa3072, Directions::ENCRYPT, 32_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa4096, Directions::DECRYPT, 1_450_000.0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa4096, Directions::ENCRYPT, 56_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa1024, Directions::DECRYPT, 90_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa1024, Directions::ENCRYPT, 5_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa2048, Directions::DECRYPT, 240_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa2048, Directions::ENCRYPT, 15_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa3072, Directions::DECRYPT, 690_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa3072, Directions::ENCRYPT, 32_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa4096, Directions::DECRYPT, 1_450_000.0),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa4096, Directions::ENCRYPT, 56_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa1024, Directions::DECRYPT, 90_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa1024, Directions::ENCRYPT, 5_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa2048, Directions::DECRYPT, 240_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa2048, Directions::ENCRYPT, 15_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa3072, Directions::DECRYPT, 690_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa3072, Directions::ENCRYPT, 32_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa4096, Directions::DECRYPT, 1_450_000.0),
    rsa(&lists::RSA_RAW, RsaSize::Rsa4096, Directions::ENCRYPT, 56_000.0),
    one(&lists::ECDSA, 0, Directions::ENCRYPT, 15_000.0),
    one(&lists::ECDSA, 0, Directions::DECRYPT, 50_000.0),
    one(&lists::ECDSA, 1, Directions::ENCRYPT, 80_000.0),
    one(&lists::ECDSA, 1, Directions::DECRYPT, 250_000.0),
    one(&lists::ECDSA, 2, Directions::ENCRYPT, 160_000.0),
    one(&lists::ECDSA, 2, Directions::DECRYPT, 460_000.0),
    one(&lists::ECDSA_DIGEST, 0, Directions::ENCRYPT, 15_000.0),
    one(&lists::ECDSA_DIGEST, 0, Directions::DECRYPT, 50_000.0),
    one(&lists::ECDSA_DIGEST, 1, Directions::ENCRYPT, 80_000.0),
    one(&lists::ECDSA_DIGEST, 1, Directions::DECRYPT, 250_000.0),
    one(&lists::ECDSA_DIGEST, 2, Directions::ENCRYPT, 160_000.0),
    one(&lists::ECDSA_DIGEST, 2, Directions::DECRYPT, 460_000.0),
    one(&lists::ECDH, 0, Directions::ENCRYPT, 43_000.0),
    one(&lists::ECDH, 1, Directions::ENCRYPT, 140_000.0),
    one(&lists::ECDH, 2, Directions::ENCRYPT, 290_000.0),
    one(&lists::SECP256K1, 0, Directions::ENCRYPT, 150_000.0),
    one(&lists::SECP256K1, 0, Directions::DECRYPT, 150_000.0),
    one(&lists::SECP256K1, 1, Directions::ENCRYPT, 150_000.0),
    one(&lists::SECP256K1, 1, Directions::DECRYPT, 150_000.0),
    one(&lists::SECP256K1, 2, Directions::ENCRYPT, 150_000.0),
    one(&lists::P224, 0, Directions::ENCRYPT, 30_000.0),
    one(&lists::P224, 0, Directions::DECRYPT, 70_000.0),
    one(&lists::P224, 1, Directions::ENCRYPT, 30_000.0),
    one(&lists::P224, 1, Directions::DECRYPT, 70_000.0),
    one(&lists::P224, 2, Directions::ENCRYPT, 50_000.0),
    one(&lists::BRAINPOOL_P256R1, 0, Directions::ENCRYPT, 150_000.0),
    one(&lists::BRAINPOOL_P256R1, 0, Directions::DECRYPT, 150_000.0),
    one(&lists::BRAINPOOL_P256R1, 1, Directions::ENCRYPT, 150_000.0),
    one(&lists::BRAINPOOL_P256R1, 1, Directions::DECRYPT, 150_000.0),
    one(&lists::BRAINPOOL_P256R1, 2, Directions::ENCRYPT, 150_000.0),
    one(&lists::BRAINPOOL_P384R1, 0, Directions::ENCRYPT, 350_000.0),
    one(&lists::BRAINPOOL_P384R1, 0, Directions::DECRYPT, 350_000.0),
    one(&lists::BRAINPOOL_P384R1, 1, Directions::ENCRYPT, 350_000.0),
    one(&lists::BRAINPOOL_P384R1, 1, Directions::DECRYPT, 350_000.0),
    one(&lists::BRAINPOOL_P384R1, 2, Directions::ENCRYPT, 350_000.0),
    one(&lists::DH, 0, Directions::ENCRYPT, 2_100_000.0),
    one(&lists::DH, 1, Directions::ENCRYPT, 6_800_000.0),
    one(&lists::DH, 2, Directions::ENCRYPT, 16_000_000.0),
    one(&lists::DH_MODP, 0, Directions::ENCRYPT, 300_000.0),
    one(&lists::DH_MODP, 1, Directions::ENCRYPT, 900_000.0),
    one(&lists::DH_MODP, 2, Directions::ENCRYPT, 2_100_000.0),
    one(&lists::DH_MODP, 3, Directions::ENCRYPT, 6_800_000.0),
    one(&lists::DH_MODP, 4, Directions::ENCRYPT, 16_000_000.0),
    one(&lists::DH_MODP, 5, Directions::ENCRYPT, 52_000_000.0),
    one(&lists::DH_MODP, 6, Directions::ENCRYPT, 120_000_000.0),
    one(&lists::X25519, 0, Directions::ENCRYPT, 24_000.0),
    one(&lists::ED25519, 0, Directions::ENCRYPT, 8_000.0),
    one(&lists::ED25519, 0, Directions::DECRYPT, 36_000.0),
    Capability::new(&lists::ML_KEM, Cost::new(100.0, 30_000.0, 1.0)),
    Capability::new(&lists::ML_DSA, Cost::new(100.0, 200_000.0, 2.5)),
    generates(KeyPair::Rsa(RsaSize::Rsa1024), 1, 15_000_000.0),
    generates(KeyPair::Rsa(RsaSize::Rsa2048), 1, 80_000_000.0),
    generates(KeyPair::Rsa(RsaSize::Rsa3072), 1, 250_000_000.0),
    generates(KeyPair::Rsa(RsaSize::Rsa4096), 1, 700_000_000.0),
    generates(KeyPair::Ec(Curve::P256), 1, 12_000.0),
    generates(KeyPair::Ec(Curve::P384), 1, 75_000.0),
    generates(KeyPair::Ec(Curve::P521), 1, 150_000.0),
    generates(KeyPair::Ec(Curve::Secp256k1), 1, 150_000.0),
    generates(KeyPair::Ec(Curve::P224), 1, 16_000.0),
    generates(KeyPair::Ec(Curve::BrainpoolP256r1), 1, 150_000.0),
    generates(KeyPair::Ec(Curve::BrainpoolP384r1), 1, 320_000.0),
    generates(KeyPair::X25519, 1, 9_000.0),
    generates(KeyPair::Ed25519, 1, 9_000.0),
    generates(KeyPair::MlKem(Kem::MlKem512), 3, 25_000.0),
    generates(KeyPair::MlDsa(MlDsaSet::MlDsa44), 3, 90_000.0),
    Capability::new(&lists::RANDOM, Cost::new(100.0, 300.0, 0.5)).directions(Directions::ENCRYPT),
];
