//! Which public-key suites run here, and what they cost.

use ciphermill_contract::suite::{Curve, Kem, KeyPair, MlDsaSet, RsaSize, lists};
use ciphermill_contract::{Capability, Cost, Directions, Suite};

/// Nanoseconds of one RSA operation by modulus size, the mean of private and public operation.
const RSA_NS: [f64; 4] = [210_000.0, 1_030_000.0, 3_100_000.0, 6_700_000.0];

/// A group with its prior: nanoseconds of one operation, the mean of both directions, and of a byte of message.
const fn group(suites: &'static [Suite], op_ns: f64, byte_ns: f64) -> Capability {
    Capability::new(suites, Cost::new(100.0, op_ns, byte_ns))
}

/// `len` suites of an RSA list from the one at `from` on; lists go by modulus size.
const fn rsa(suites: &'static [Suite], from: usize, len: usize, size: usize) -> Capability {
    group(suites.split_at(from).1.split_at(len).0, RSA_NS[size], 2.0)
}

/// `len` kinds of key pairs from this one on, in the order of their list.
const fn generates(first: KeyPair, len: usize, op_ns: f64) -> Capability {
    group(lists::generating(first, len), op_ns, 0.0).directions(Directions::ENCRYPT)
}

/// The public-key suites that have an implementation.
pub(crate) const CAPABILITIES: &[Capability] = &[
    rsa(&lists::RSA_SIGN_PKCS1, 0, 4, 0),
    rsa(&lists::RSA_SIGN_PKCS1, 4, 4, 1),
    rsa(&lists::RSA_SIGN_PKCS1, 8, 4, 2),
    rsa(&lists::RSA_SIGN_PKCS1, 12, 4, 3),
    rsa(&lists::RSA_SIGN_PSS, 0, 3, 0),
    rsa(&lists::RSA_SIGN_PSS, 3, 4, 1),
    rsa(&lists::RSA_SIGN_PSS, 7, 4, 2),
    rsa(&lists::RSA_SIGN_PSS, 11, 4, 3),
    rsa(&lists::RSA_ENCRYPT_PKCS1, 0, 1, 0),
    rsa(&lists::RSA_ENCRYPT_PKCS1, 1, 1, 1),
    rsa(&lists::RSA_ENCRYPT_PKCS1, 2, 1, 2),
    rsa(&lists::RSA_ENCRYPT_PKCS1, 3, 1, 3),
    rsa(&lists::RSA_ENCRYPT_OAEP, 0, 2, 0),
    rsa(&lists::RSA_ENCRYPT_OAEP, 2, 2, 1),
    rsa(&lists::RSA_ENCRYPT_OAEP, 4, 2, 2),
    rsa(&lists::RSA_ENCRYPT_OAEP, 6, 2, 3),
    rsa(&lists::RSA_RAW, 0, 1, 0),
    rsa(&lists::RSA_RAW, 1, 1, 1),
    rsa(&lists::RSA_RAW, 2, 1, 2),
    rsa(&lists::RSA_RAW, 3, 1, 3),
    group(&lists::ECDSA, 400_000.0, 2.0),
    group(&lists::ECDSA_DIGEST, 400_000.0, 0.0),
    group(&lists::ECDH, 400_000.0, 0.0).directions(Directions::ENCRYPT),
    group(lists::SECP256K1.split_at(2).0, 150_000.0, 2.0),
    group(lists::SECP256K1.split_at(2).1, 150_000.0, 0.0).directions(Directions::ENCRYPT),
    group(lists::P224.split_at(2).0, 200_000.0, 2.0),
    group(lists::P224.split_at(2).1, 200_000.0, 0.0).directions(Directions::ENCRYPT),
    group(lists::BRAINPOOL_P256R1.split_at(2).0, 250_000.0, 2.0),
    group(lists::BRAINPOOL_P256R1.split_at(2).1, 250_000.0, 0.0).directions(Directions::ENCRYPT),
    group(lists::BRAINPOOL_P384R1.split_at(2).0, 700_000.0, 2.0),
    group(lists::BRAINPOOL_P384R1.split_at(2).1, 700_000.0, 0.0).directions(Directions::ENCRYPT),
    group(lists::LEGACY_CURVES.split_at(12).0, 6_000_000.0, 2.0),
    group(lists::LEGACY_CURVES.split_at(12).1, 6_000_000.0, 0.0).directions(Directions::ENCRYPT),
    group(&lists::DH, 6_000_000.0, 0.0).directions(Directions::ENCRYPT),
    group(&lists::DH_MODP, 10_000_000.0, 0.0).directions(Directions::ENCRYPT),
    group(&lists::X25519, 45_000.0, 0.0).directions(Directions::ENCRYPT),
    group(&lists::X448, 800_000.0, 0.0).directions(Directions::ENCRYPT),
    group(&lists::ED25519, 40_000.0, 2.0),
    group(&lists::ED25519_COFACTORED, 40_000.0, 2.0),
    group(&lists::ML_KEM, 50_000.0, 0.0),
    group(&lists::ML_DSA, 250_000.0, 3.0),
    generates(KeyPair::Rsa(RsaSize::Rsa1024), 1, 40_000_000.0),
    generates(KeyPair::Rsa(RsaSize::Rsa2048), 1, 400_000_000.0),
    generates(KeyPair::Rsa(RsaSize::Rsa3072), 1, 1_800_000_000.0),
    generates(KeyPair::Rsa(RsaSize::Rsa4096), 1, 6_000_000_000.0),
    generates(KeyPair::Ec(Curve::P256), 3, 250_000.0),
    generates(KeyPair::Ec(Curve::Secp160r1), 12, 6_000_000.0),
    generates(KeyPair::Ec(Curve::Secp256k1), 1, 100_000.0),
    generates(KeyPair::Ec(Curve::P224), 1, 180_000.0),
    generates(KeyPair::Ec(Curve::BrainpoolP256r1), 1, 240_000.0),
    generates(KeyPair::Ec(Curve::BrainpoolP384r1), 1, 650_000.0),
    generates(KeyPair::X25519, 1, 40_000.0),
    generates(KeyPair::X448, 1, 1_000_000.0),
    generates(KeyPair::Ed25519, 1, 40_000.0),
    generates(KeyPair::MlKem(Kem::MlKem512), 3, 60_000.0),
    generates(KeyPair::MlDsa(MlDsaSet::MlDsa44), 3, 150_000.0),
];
