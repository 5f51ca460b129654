//! The groups of finite-field Diffie-Hellman.

use ciphermill_contract::suite::DhGroup;

use crate::dh_primes;

/// The prime of a group, big-endian. Half of it is prime too, and the order of the subgroup that public values lie in.
pub fn prime(group: DhGroup) -> &'static [u8] {
    match group {
        DhGroup::Ffdhe2048 => &dh_primes::FFDHE2048,
        DhGroup::Ffdhe3072 => &dh_primes::FFDHE3072,
        DhGroup::Ffdhe4096 => &dh_primes::FFDHE4096,
        DhGroup::Modp1024 => &dh_primes::MODP1024,
        DhGroup::Modp1536 => &dh_primes::MODP1536,
        DhGroup::Modp2048 => &dh_primes::MODP2048,
        DhGroup::Modp3072 => &dh_primes::MODP3072,
        DhGroup::Modp4096 => &dh_primes::MODP4096,
        DhGroup::Modp6144 => &dh_primes::MODP6144,
        DhGroup::Modp8192 => &dh_primes::MODP8192,
    }
}
