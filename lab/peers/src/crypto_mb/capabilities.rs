//! What the peer runs, as const data. Priors are rough; the mill measures.

use ciphermill_contract::suite::lists;
use ciphermill_contract::suite::{Agreement, Curve, Digest, RsaSize, SignPadding, Signature};
use ciphermill_contract::{Capability, Cost, Directions, Suite};

const fn rsa(size: RsaSize) -> [Suite; 1] {
    [Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256))]
}

const RSA_1024: [Suite; 1] = rsa(RsaSize::Rsa1024);
const RSA_2048: [Suite; 1] = rsa(RsaSize::Rsa2048);
const RSA_3072: [Suite; 1] = rsa(RsaSize::Rsa3072);
const RSA_4096: [Suite; 1] = rsa(RsaSize::Rsa4096);
const P256_SIGN: [Suite; 1] = [Suite::Sign(Signature::Ecdsa(Curve::P256))];
const P384_SIGN: [Suite; 1] = [Suite::Sign(Signature::Ecdsa(Curve::P384))];
const P256_AGREE: [Suite; 1] = [Suite::Agree(Agreement::Ecdh(Curve::P256))];
const P384_AGREE: [Suite; 1] = [Suite::Agree(Agreement::Ecdh(Curve::P384))];

/// Operations in eights, each of which takes this long.
const fn forwards(suites: &'static [Suite], call_us: f64) -> Capability {
    Capability::new(suites, Cost::new(0.0, 1000.0 * call_us / 8.0, 0.6)).directions(Directions::ENCRYPT)
}

const fn backwards(suites: &'static [Suite], call_us: f64) -> Capability {
    Capability::new(suites, Cost::new(0.0, 1000.0 * call_us / 8.0, 0.6)).directions(Directions::DECRYPT)
}

/// Everything that the peer runs.
pub const CAPABILITIES: &[Capability] = &[
    forwards(&RSA_1024, 150.0),
    backwards(&RSA_1024, 11.0),
    forwards(&RSA_2048, 1_000.0),
    backwards(&RSA_2048, 43.0),
    forwards(&RSA_3072, 4_700.0),
    backwards(&RSA_3072, 98.0),
    forwards(&RSA_4096, 9_200.0),
    backwards(&RSA_4096, 175.0),
    forwards(&lists::X25519, 53.0),
    forwards(&lists::ED25519, 27.0),
    backwards(&lists::ED25519, 92.0),
    forwards(&P256_SIGN, 47.0),
    backwards(&P256_SIGN, 164.0),
    forwards(&P256_AGREE, 125.0),
    forwards(&P384_SIGN, 130.0),
    backwards(&P384_SIGN, 430.0),
    forwards(&P384_AGREE, 330.0),
];
