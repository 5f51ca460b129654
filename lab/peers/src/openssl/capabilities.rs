//! What OpenSSL 3.0 runs of our suites, as const data. Priors are rough; the mill measures.
//!
//! Missing on purpose: Blowfish-CTR, SEAL, Khufu, Khafre, BLAKE3, GCM-SIV (OpenSSL 3.2), FF1, the post-quantum suites
//! (OpenSSL 3.5), which this version does not have.

use ciphermill_contract::suite::{BlockCipher, Mode, StreamCipher, lists};
use ciphermill_contract::{Capability, Cost, Suite};

const BLOWFISH: [Suite; 2] =
    [Suite::Cipher(BlockCipher::Blowfish, Mode::Ecb), Suite::Cipher(BlockCipher::Blowfish, Mode::Cbc)];
const RC4: [Suite; 1] = [Suite::Stream(StreamCipher::Rc4)];

/// The digests without the last, BLAKE3.
const DIGESTS: &[Suite] = lists::DIGESTS.split_at(lists::DIGESTS.len() - 1).0;
/// HMAC over those of them that have one.
const HMAC: &[Suite] = lists::HMAC.split_at(lists::HMAC.len() - 1).0;

const fn group(suites: &'static [Suite], op_ns: f64, byte_ns: f64) -> Capability {
    Capability::new(suites, Cost::new(0.0, op_ns, byte_ns))
}

/// Everything that both OpenSSL peers run.
pub const CAPABILITIES: &[Capability] = &[
    group(&lists::DES, 120.0, 13.0).variable_time(),
    group(&lists::TRIPLE_DES, 120.0, 32.0).variable_time(),
    group(&lists::AES_ECB, 100.0, 0.1),
    group(&lists::AES_CBC, 100.0, 0.6),
    group(&lists::AES_CTR, 110.0, 0.1),
    group(&lists::AES_XTS, 130.0, 0.2),
    group(&lists::AES_GCM, 240.0, 0.2),
    group(&lists::AES_CCM, 250.0, 0.8),
    group(&lists::AES_SIV, 4000.0, 1.0),
    group(&lists::AES_OCB, 300.0, 0.2),
    group(&lists::CHACHA20, 120.0, 0.3),
    group(&lists::CHACHA20_POLY1305, 300.0, 0.3),
    group(&BLOWFISH, 120.0, 7.0).variable_time(),
    group(&RC4, 300.0, 2.2).variable_time(),
    group(DIGESTS, 200.0, 0.6),
    group(HMAC, 400.0, 0.6),
    group(&lists::CMAC, 200.0, 0.6),
    group(&lists::GMAC, 200.0, 0.1),
    group(&lists::POLY1305, 200.0, 0.2),
    group(&lists::CHAINS_ENCRYPT_THEN_MAC, 550.0, 1.2),
];
