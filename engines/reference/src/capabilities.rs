//! What the reference engine runs, as const data. Priors are rough figures of one x86-64 core; the mill measures.

use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost, Directions, Suite};

/// A group of suites with its prior: nanoseconds for each operation and for each byte.
const fn group(suites: &'static [Suite], op_ns: f64, byte_ns: f64) -> Capability {
    Capability::new(suites, Cost::new(100.0, op_ns, byte_ns))
}

/// Everything that the reference engine runs.
///
/// Groups marked as variable in time look up tables at secret positions.
pub const CAPABILITIES: &[Capability] = &[
    group(&lists::DES, 60.0, 12.0),
    group(&lists::TRIPLE_DES, 60.0, 35.0),
    group(&lists::AES_ECB, 60.0, 1.5),
    group(&lists::AES_CBC, 60.0, 1.5),
    group(&lists::AES_CTR, 60.0, 1.5),
    group(&lists::AES_XTS, 80.0, 2.0),
    group(&lists::AES_GCM, 250.0, 3.0),
    group(&lists::AES_CCM, 200.0, 4.0),
    group(&lists::AES_GCM_SIV, 700.0, 2.0),
    group(&lists::AES_SIV, 300.0, 4.0),
    group(&lists::AES_OCB, 250.0, 3.0),
    group(&lists::CHACHA20, 80.0, 2.0),
    group(&lists::CHACHA20_POLY1305, 300.0, 2.0),
    group(&lists::BLOWFISH, 60.0, 10.0).variable_time(),
    group(&lists::KHUFU_KHAFRE, 60.0, 10.0).variable_time(),
    group(&lists::LEGACY_STREAMS, 300.0, 4.0).variable_time(),
    group(&lists::DIGESTS, 150.0, 2.0).directions(Directions::ENCRYPT),
    group(&lists::HMAC, 500.0, 2.0),
    group(&lists::CMAC, 60.0, 3.0),
    group(&lists::GMAC, 150.0, 2.0),
    group(&lists::POLY1305, 60.0, 1.0),
    group(&lists::FF1, 3_000.0, 100.0),
    group(&lists::CHAINS_ENCRYPT_THEN_MAC, 600.0, 10.0),
    group(&lists::CHAINS_MAC_THEN_ENCRYPT, 20_000.0, 30.0),
    group(&lists::RANDOM, 400.0, 3.0).directions(Directions::ENCRYPT),
];
