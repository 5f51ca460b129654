//! What the reference engine runs, as const data. Priors are rough figures of one x86-64 core; the mill measures.

use ciphermill_contract::suite::lists;
use ciphermill_contract::{Capability, Cost};

/// A group of suites with its prior: nanoseconds for each operation and for each byte.
const fn group(suites: &'static [ciphermill_contract::Suite], op_ns: f64, byte_ns: f64) -> Capability {
    Capability::new(suites, Cost::new(100.0, op_ns, byte_ns))
}

/// Everything that the reference engine runs.
///
/// Groups marked as variable in time look up tables at secret positions, or, as FF1, count with numbers whose length
/// depends on the data.
pub const CAPABILITIES: &[Capability] = &[
    group(&lists::DES, 60.0, 12.0),
    group(&lists::TRIPLE_DES, 60.0, 35.0),
    group(&lists::AES_ECB, 60.0, 1.5),
    group(&lists::AES_CBC, 60.0, 1.5),
    group(&lists::AES_CTR, 60.0, 1.5),
    group(&lists::AES_XTS, 80.0, 2.0),
    group(&lists::BLOWFISH, 60.0, 10.0).variable_time(),
    group(&lists::KHUFU_KHAFRE, 60.0, 10.0).variable_time(),
];
