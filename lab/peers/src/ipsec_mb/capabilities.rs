//! What ipsec-mb 1.3 runs of our suites, as const data. Priors are rough; the mill measures.
//!
//! Missing on purpose: AES-192 in CCM and CMAC, plain ChaCha20 (the library's counter starts at one), plain MD5, XTS, ECB
//! of DES, chains that MAC first. Two things cannot be said in a table and end as an engine fault, to be run elsewhere: CCM
//! with more than 46 bytes of additional data, and HMAC over nothing at all.

use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Digest, Mac, Mode, lists};
use ciphermill_contract::{Capability, Cost, Suite};

const DES_CBC: [Suite; 1] = [Suite::Cipher(BlockCipher::Des, Mode::Cbc)];
const TRIPLE_DES_CBC: [Suite; 1] = [Suite::Cipher(BlockCipher::TripleDes, Mode::Cbc)];
const AES_CCM: [Suite; 2] = [Suite::Aead(Aead::AesCcm(AesSize::Aes128)), Suite::Aead(Aead::AesCcm(AesSize::Aes256))];
const CMAC: [Suite; 2] = [Suite::Mac(Mac::Cmac(AesSize::Aes128)), Suite::Mac(Mac::Cmac(AesSize::Aes256))];
const SHA: [Suite; 5] = [
    Suite::Digest(Digest::Sha1),
    Suite::Digest(Digest::Sha224),
    Suite::Digest(Digest::Sha256),
    Suite::Digest(Digest::Sha384),
    Suite::Digest(Digest::Sha512),
];
const HMAC: [Suite; 6] = [
    Suite::Mac(Mac::Hmac(Digest::Md5)),
    Suite::Mac(Mac::Hmac(Digest::Sha1)),
    Suite::Mac(Mac::Hmac(Digest::Sha224)),
    Suite::Mac(Mac::Hmac(Digest::Sha256)),
    Suite::Mac(Mac::Hmac(Digest::Sha384)),
    Suite::Mac(Mac::Hmac(Digest::Sha512)),
];

/// The longest message: the library keeps lengths in 16 bits. For chains additional data count too.
pub const INPUT_LEN_MAX: usize = 65_408;

const fn group(suites: &'static [Suite], lanes: u16, op_ns: f64, byte_ns: f64) -> Capability {
    Capability::new(suites, Cost::new(300.0, op_ns, byte_ns)).lanes(lanes).input_len_max(INPUT_LEN_MAX)
}

/// Everything that the peer runs.
pub const CAPABILITIES: &[Capability] = &[
    group(&DES_CBC, 16, 20.0, 4.5).variable_time(),
    group(&TRIPLE_DES_CBC, 16, 30.0, 12.0).variable_time(),
    group(&lists::AES_ECB, 16, 15.0, 0.1),
    group(&lists::AES_CBC, 16, 10.0, 0.3),
    group(&lists::AES_CTR, 16, 12.0, 0.1),
    group(&lists::AES_GCM, 1, 40.0, 0.2),
    group(&AES_CCM, 16, 70.0, 0.4),
    group(&lists::CHACHA20_POLY1305, 1, 150.0, 0.4),
    group(&SHA, 16, 40.0, 0.3),
    group(&HMAC, 16, 65.0, 0.3),
    group(&CMAC, 16, 40.0, 0.3),
    group(&lists::GMAC, 1, 40.0, 0.1),
    group(&lists::POLY1305, 1, 60.0, 0.2),
    group(&lists::CHAINS_ENCRYPT_THEN_MAC, 16, 110.0, 0.6),
];
