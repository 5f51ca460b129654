//! What the peer runs, as const data. Priors are rough; the mill measures.
//!
//! Missing on purpose: RSA with other digests than SHA-256, which cost the same, PKCS#1 encryption, and the post-quantum suites,
//! which OpenSSL has from 3.5 on.

use ciphermill_contract::suite::lists;
use ciphermill_contract::suite::{
    Agreement, Curve, DhGroup, Digest, PublicEncryption, RsaSize, SignPadding, Signature,
};
use ciphermill_contract::{Capability, Cost, Directions, Suite};

/// Both paddings of signatures for one size of modulus.
const fn rsa_sign(size: RsaSize) -> [Suite; 2] {
    [
        Suite::Sign(Signature::Rsa(size, SignPadding::Pkcs1, Digest::Sha256)),
        Suite::Sign(Signature::Rsa(size, SignPadding::Pss, Digest::Sha256)),
    ]
}

const fn rsa_oaep(size: RsaSize) -> Suite {
    Suite::PublicEncrypt(PublicEncryption::RsaOaep(size, Digest::Sha256))
}

const RSA_1024: [Suite; 2] = rsa_sign(RsaSize::Rsa1024);
const RSA_2048: [Suite; 2] = rsa_sign(RsaSize::Rsa2048);
const RSA_3072: [Suite; 2] = rsa_sign(RsaSize::Rsa3072);
const RSA_4096: [Suite; 2] = rsa_sign(RsaSize::Rsa4096);
const OAEP_2048: [Suite; 1] = [rsa_oaep(RsaSize::Rsa2048)];
const OAEP_3072: [Suite; 1] = [rsa_oaep(RsaSize::Rsa3072)];
const OAEP_4096: [Suite; 1] = [rsa_oaep(RsaSize::Rsa4096)];
const P256_SIGN: [Suite; 1] = [Suite::Sign(Signature::Ecdsa(Curve::P256))];
const P384_SIGN: [Suite; 1] = [Suite::Sign(Signature::Ecdsa(Curve::P384))];
const P521_SIGN: [Suite; 1] = [Suite::Sign(Signature::Ecdsa(Curve::P521))];
const P256_AGREE: [Suite; 1] = [Suite::Agree(Agreement::Ecdh(Curve::P256))];
const P384_AGREE: [Suite; 1] = [Suite::Agree(Agreement::Ecdh(Curve::P384))];
const P521_AGREE: [Suite; 1] = [Suite::Agree(Agreement::Ecdh(Curve::P521))];
const SECT163_SIGN: [Suite; 2] =
    [Suite::Sign(Signature::Ecdsa(Curve::Sect163k1)), Suite::Sign(Signature::Ecdsa(Curve::Sect163r2))];
const SECT233_SIGN: [Suite; 2] =
    [Suite::Sign(Signature::Ecdsa(Curve::Sect233k1)), Suite::Sign(Signature::Ecdsa(Curve::Sect233r1))];
const SECT163_AGREE: [Suite; 2] =
    [Suite::Agree(Agreement::Ecdh(Curve::Sect163k1)), Suite::Agree(Agreement::Ecdh(Curve::Sect163r2))];
const SECT233_AGREE: [Suite; 2] =
    [Suite::Agree(Agreement::Ecdh(Curve::Sect233k1)), Suite::Agree(Agreement::Ecdh(Curve::Sect233r1))];
const FFDHE2048: [Suite; 1] = [Suite::Agree(Agreement::Dh(DhGroup::Ffdhe2048))];
const FFDHE3072: [Suite; 1] = [Suite::Agree(Agreement::Dh(DhGroup::Ffdhe3072))];
const FFDHE4096: [Suite; 1] = [Suite::Agree(Agreement::Dh(DhGroup::Ffdhe4096))];
/// A group of IKE by its place; OpenSSL has no name for the first, of 1,024 bits.
const fn modp(place: usize) -> &'static [Suite] {
    lists::DH_MODP.split_at(place + 1).0.split_at(place).1
}

/// Forwards: a signature, an encryption, an agreement.
const fn forwards(suites: &'static [Suite], op_us: f64) -> Capability {
    Capability::new(suites, Cost::new(0.0, 1000.0 * op_us, 0.6)).directions(Directions::ENCRYPT)
}

/// Backwards: a verification, a decryption.
const fn backwards(suites: &'static [Suite], op_us: f64) -> Capability {
    Capability::new(suites, Cost::new(0.0, 1000.0 * op_us, 0.6)).directions(Directions::DECRYPT)
}

/// Everything that the peer runs.
pub const CAPABILITIES: &[Capability] = &[
    forwards(&RSA_1024, 50.0),
    backwards(&RSA_1024, 6.0),
    forwards(&RSA_2048, 250.0),
    backwards(&RSA_2048, 17.0),
    forwards(&RSA_3072, 1500.0),
    backwards(&RSA_3072, 35.0),
    forwards(&RSA_4096, 3300.0),
    backwards(&RSA_4096, 60.0),
    forwards(&OAEP_2048, 17.0),
    backwards(&OAEP_2048, 250.0),
    forwards(&OAEP_3072, 35.0),
    backwards(&OAEP_3072, 1500.0),
    forwards(&OAEP_4096, 60.0),
    backwards(&OAEP_4096, 3300.0),
    forwards(&P256_SIGN, 20.0),
    backwards(&P256_SIGN, 60.0),
    forwards(&P384_SIGN, 770.0),
    backwards(&P384_SIGN, 630.0),
    forwards(&P521_SIGN, 260.0),
    backwards(&P521_SIGN, 490.0),
    forwards(&P256_AGREE, 46.0),
    forwards(&P384_AGREE, 730.0),
    forwards(&P521_AGREE, 290.0),
    forwards(&SECT163_SIGN, 180.0),
    backwards(&SECT163_SIGN, 330.0),
    forwards(&SECT233_SIGN, 240.0),
    backwards(&SECT233_SIGN, 460.0),
    forwards(&SECT163_AGREE, 160.0),
    forwards(&SECT233_AGREE, 220.0),
    forwards(&FFDHE2048, 300.0),
    forwards(&FFDHE3072, 800.0),
    forwards(&FFDHE4096, 1700.0),
    forwards(modp(1), 250.0),
    forwards(modp(2), 430.0),
    forwards(modp(3), 1100.0),
    forwards(modp(4), 2200.0),
    forwards(modp(5), 5500.0),
    forwards(modp(6), 11_000.0),
    forwards(&lists::X25519, 32.0),
    forwards(&lists::X448, 150.0),
    forwards(&lists::ED25519, 37.0),
    backwards(&lists::ED25519, 100.0),
];
