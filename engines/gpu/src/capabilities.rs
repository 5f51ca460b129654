//! What the engine runs. The priors are estimates of a device across a bus: dear for a batch as such, cheap for each
//! operation in it; the router corrects them by measuring.

use ciphermill_contract::capability::{Cost, Directions};
use ciphermill_contract::suite::lists;
use ciphermill_contract::suite::{Agreement, BlockCipher, Curve, Digest, Mac, Mode, RsaSize, Signature, StreamCipher};
use ciphermill_contract::{Capability, Suite};

/// Bytes of input of one operation at most, where a long one is worked on in parts side by side.
pub(crate) const INPUT_LEN_MAX: usize = 16 << 20;

/// The same where one work item goes through all of it: alone it is slower than a core by far.
const SERIAL_LEN_MAX: usize = 4 << 10;

/// Digests whose kernels there are.
const DIGESTS: [Suite; 6] = [
    Suite::Digest(Digest::Md5),
    Suite::Digest(Digest::Sha1),
    Suite::Digest(Digest::Sha224),
    Suite::Digest(Digest::Sha256),
    Suite::Digest(Digest::Sha384),
    Suite::Digest(Digest::Sha512),
];

/// HMAC over them.
const HMACS: [Suite; 6] = [
    Suite::Mac(Mac::Hmac(Digest::Md5)),
    Suite::Mac(Mac::Hmac(Digest::Sha1)),
    Suite::Mac(Mac::Hmac(Digest::Sha224)),
    Suite::Mac(Mac::Hmac(Digest::Sha256)),
    Suite::Mac(Mac::Hmac(Digest::Sha384)),
    Suite::Mac(Mac::Hmac(Digest::Sha512)),
];

/// The table-driven ciphers, for legacy use: those whose messages are not taken apart, those whose are, and CBC, where
/// it depends on the direction.
const RC4: [Suite; 1] = [Suite::Stream(StreamCipher::Rc4)];
const TABLE_DRIVEN: [Suite; 5] = [
    Suite::Cipher(BlockCipher::Blowfish, Mode::Ecb),
    Suite::Cipher(BlockCipher::Blowfish, Mode::Ctr),
    Suite::Cipher(BlockCipher::Khufu, Mode::Ecb),
    Suite::Cipher(BlockCipher::Khafre, Mode::Ecb),
    Suite::Stream(StreamCipher::Seal3),
];
const TABLE_DRIVEN_CBC: [Suite; 3] = [
    Suite::Cipher(BlockCipher::Blowfish, Mode::Cbc),
    Suite::Cipher(BlockCipher::Khufu, Mode::Cbc),
    Suite::Cipher(BlockCipher::Khafre, Mode::Cbc),
];

/// P-256: the one prime curve whose kernels there are.
const ECDSA: [Suite; 1] = [Suite::Sign(Signature::Ecdsa(Curve::P256))];
const ECDH: [Suite; 1] = [Suite::Agree(Agreement::Ecdh(Curve::P256))];

/// What a batch costs: a launch with its two copies and the time that one item takes through a few blocks, however few
/// there are; an operation with its share of packing on one core; a byte on the link and in packing.
const fn prior(batch_us: f64, op_ns: f64) -> Cost {
    Cost::new(1000.0 * batch_us, op_ns, 0.1)
}

/// Suites whose messages are taken apart.
const fn parallel(suites: &'static [Suite], prior: Cost) -> Capability {
    Capability::new(suites, prior).lanes(u16::MAX).input_len_max(INPUT_LEN_MAX)
}

/// Suites whose messages are not.
const fn serial(suites: &'static [Suite], prior: Cost) -> Capability {
    parallel(suites, prior).input_len_max(SERIAL_LEN_MAX)
}

/// Microseconds that a work item takes through an RSA exponentiation, and nanoseconds of the host's work around it on one of
/// several cores, by modulus size.
const RSA: [(f64, f64); 4] = [(1_500.0, 3_000.0), (10_000.0, 8_000.0), (30_000.0, 20_000.0), (70_000.0, 40_000.0)];

/// Private operations of an RSA list whose moduli have a size.
const fn rsa(suites: &'static [Suite], size: RsaSize, directions: Directions) -> Capability {
    let (us, host_ns) = RSA[size as usize];
    serial(lists::of_size(suites, size), prior(us, host_ns)).directions(directions)
}

/// Everything that the engine runs, on every device alike.
pub const CAPABILITIES: &[Capability] = &[
    parallel(&lists::AES_ECB, prior(120.0, 12.0)),
    parallel(&lists::AES_CTR, prior(120.0, 12.0)),
    parallel(&lists::AES_XTS, prior(140.0, 13.0)),
    serial(&lists::AES_CBC, prior(150.0, 12.0)).directions(Directions::ENCRYPT),
    parallel(&lists::AES_CBC, prior(150.0, 12.0)).directions(Directions::DECRYPT),
    serial(&lists::DES, prior(250.0, 12.0)).directions(Directions::ENCRYPT),
    parallel(&lists::DES, prior(250.0, 12.0)).directions(Directions::DECRYPT),
    serial(&lists::TRIPLE_DES, prior(600.0, 12.0)).directions(Directions::ENCRYPT),
    parallel(&lists::TRIPLE_DES, prior(600.0, 12.0)).directions(Directions::DECRYPT),
    parallel(&lists::AES_GCM, prior(250.0, 14.0)),
    parallel(&lists::GMAC, prior(250.0, 14.0)),
    parallel(&lists::CHACHA20, prior(80.0, 12.0)),
    serial(&lists::CHACHA20_POLY1305, prior(100.0, 14.0)),
    serial(&lists::POLY1305, prior(80.0, 14.0)),
    // Their lookups go where keys and data say.
    serial(&RC4, prior(300.0, 12.0)).variable_time(),
    parallel(&TABLE_DRIVEN, prior(150.0, 12.0)).variable_time(),
    serial(&TABLE_DRIVEN_CBC, prior(150.0, 12.0)).variable_time().directions(Directions::ENCRYPT),
    parallel(&TABLE_DRIVEN_CBC, prior(150.0, 12.0)).variable_time().directions(Directions::DECRYPT),
    serial(&DIGESTS, prior(80.0, 12.0)),
    serial(&HMACS, prior(100.0, 14.0)),
    parallel(&lists::ML_KEM, prior(200.0, 1000.0)),
    parallel(&lists::ML_DSA, prior(1500.0, 4000.0)).directions(Directions::ENCRYPT),
    parallel(&lists::ML_DSA, prior(250.0, 3000.0)).directions(Directions::DECRYPT),
    // A work item takes a millisecond or two through its multiplication. The host has the rest: nonces, inverses, checks.
    parallel(&ECDSA, prior(2000.0, 2000.0)),
    parallel(&ECDH, prior(2000.0, 400.0)).directions(Directions::ENCRYPT),
    parallel(&lists::X25519, prior(1500.0, 200.0)).directions(Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa1024, Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa2048, Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa3072, Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PKCS1, RsaSize::Rsa4096, Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa1024, Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa2048, Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa3072, Directions::ENCRYPT),
    rsa(&lists::RSA_SIGN_PSS, RsaSize::Rsa4096, Directions::ENCRYPT),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa1024, Directions::DECRYPT),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa2048, Directions::DECRYPT),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa3072, Directions::DECRYPT),
    rsa(&lists::RSA_ENCRYPT_PKCS1, RsaSize::Rsa4096, Directions::DECRYPT),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa1024, Directions::DECRYPT),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa2048, Directions::DECRYPT),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa3072, Directions::DECRYPT),
    rsa(&lists::RSA_ENCRYPT_OAEP, RsaSize::Rsa4096, Directions::DECRYPT),
    rsa(&lists::RSA_RAW, RsaSize::Rsa1024, Directions::DECRYPT),
    rsa(&lists::RSA_RAW, RsaSize::Rsa2048, Directions::DECRYPT),
    rsa(&lists::RSA_RAW, RsaSize::Rsa3072, Directions::DECRYPT),
    rsa(&lists::RSA_RAW, RsaSize::Rsa4096, Directions::DECRYPT),
];

#[cfg(test)]
mod tests {
    use ciphermill_contract::capability::Timing;

    use super::*;

    #[test]
    fn what_tells_of_its_keys_by_time_is_legacy() {
        // A mill refuses legacy suites unless its policy enables them, whatever the engine.
        let variable: Vec<&Capability> = CAPABILITIES.iter().filter(|one| one.timing == Timing::Variable).collect();
        let suites = || variable.iter().flat_map(|one| one.suites);
        assert!(suites().all(|suite| suite.is_legacy()));
        for suite in lists::BLOWFISH.iter().chain(&lists::KHUFU_KHAFRE).chain(&lists::LEGACY_STREAMS) {
            assert!(suites().any(|one| one == suite), "{suite} is table-driven and says so");
        }
    }
}
