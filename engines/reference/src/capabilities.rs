//! What the reference engine runs, as const data. Priors are rough figures of one x86-64 core; the mill measures.

use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Directions, Suite};

use crate::public;

/// A group of suites with its prior: nanoseconds for each operation and for each byte.
const fn group(suites: &'static [Suite], op_ns: f64, byte_ns: f64) -> Capability {
    Capability::new(suites, Cost::new(100.0, op_ns, byte_ns))
}

/// Everything that the reference engine runs.
pub const CAPABILITIES: &[Capability] =
    &join::<{ SYMMETRIC.len() + public::CAPABILITIES.len() }>(SYMMETRIC, public::CAPABILITIES);

/// Chains with DES or triple DES, and those with AES.
const ENCRYPT_THEN_MAC: (&[Suite], &[Suite]) = lists::CHAINS_ENCRYPT_THEN_MAC.split_at(DES_CHAINS);
const MAC_THEN_ENCRYPT: (&[Suite], &[Suite]) = lists::CHAINS_MAC_THEN_ENCRYPT.split_at(DES_CHAINS);
/// How many chains begin the lists before those with AES: two ciphers with each digest.
const DES_CHAINS: usize = 2 * lists::CHAIN_DIGESTS.len();

/// Symmetric suites, digests and random bytes.
///
/// Groups marked as variable in time look up tables at secret positions.
const SYMMETRIC: &[Capability] = &[
    group(&lists::DES, 60.0, 12.0).variable_time(),
    group(&lists::TRIPLE_DES, 60.0, 35.0).variable_time(),
    group(&lists::AES_ECB, 60.0, 1.5),
    group(&lists::AES_CBC, 60.0, 1.5),
    group(&lists::AES_CTR, 60.0, 1.5),
    group(&lists::AES_XTS, 80.0, 2.0),
    group(&lists::AES_CFB8, 60.0, 24.0),
    group(&lists::AES_CFB128, 60.0, 2.5),
    group(&lists::AES_OFB, 60.0, 2.5),
    group(&lists::AES_CBC_STEALING, 80.0, 1.5),
    group(&lists::AES_GCM, 250.0, 3.0),
    group(&lists::AES_GCM_ANY_IV, 270.0, 3.0),
    group(&lists::AES_CCM, 200.0, 4.0),
    group(&lists::AES_GCM_SIV, 700.0, 2.0),
    group(&lists::AES_SIV, 300.0, 4.0),
    group(&lists::AES_OCB, 250.0, 3.0),
    group(&lists::AES_CBC_HMAC, 600.0, 4.0),
    group(&lists::CHACHA20, 80.0, 2.0),
    group(&lists::CHACHA20_POLY1305, 300.0, 2.0),
    group(&lists::XCHACHA20_POLY1305, 500.0, 2.0),
    group(&lists::BLOWFISH, 60.0, 10.0).variable_time(),
    group(&lists::KHUFU_KHAFRE, 60.0, 10.0).variable_time(),
    group(&lists::LEGACY_STREAMS, 300.0, 4.0).variable_time(),
    group(&lists::DIGESTS, 150.0, 2.0).directions(Directions::ENCRYPT),
    group(&lists::HMAC, 500.0, 2.0),
    group(&lists::CMAC, 60.0, 3.0),
    group(&lists::TRIPLE_DES_CMAC, 90.0, 35.0).variable_time(),
    group(&lists::GMAC, 150.0, 2.0),
    group(&lists::GMAC_ANY_IV, 170.0, 2.0),
    group(&lists::POLY1305, 60.0, 1.0),
    group(&lists::KMAC, 700.0, 2.0),
    group(&lists::KEY_WRAP, 300.0, 30.0),
    group(&lists::FF1, 3_000.0, 100.0),
    group(ENCRYPT_THEN_MAC.0, 600.0, 25.0).variable_time(),
    group(ENCRYPT_THEN_MAC.1, 600.0, 4.0),
    group(MAC_THEN_ENCRYPT.0, 20_000.0, 50.0).variable_time(),
    group(MAC_THEN_ENCRYPT.1, 20_000.0, 30.0),
    group(&lists::RANDOM, 400.0, 3.0).directions(Directions::ENCRYPT),
];

/// Two lists one behind the other; `N` is the sum of their lengths.
const fn join<const N: usize>(first: &[Capability], second: &[Capability]) -> [Capability; N] {
    let mut joined = [first[0]; N];
    let mut index = 0;
    while index < N {
        joined[index] = if index < first.len() { first[index] } else { second[index - first.len()] };
        index += 1;
    }
    joined
}
