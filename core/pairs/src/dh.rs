//! The groups of finite-field Diffie-Hellman.

use ciphermill_contract::suite::DhGroup;

use crate::ffdhe;

/// The prime of a group, big-endian. Half of it is prime too, and the order of the subgroup that public values lie in.
pub fn prime(group: DhGroup) -> &'static [u8] {
    match group {
        DhGroup::Ffdhe2048 => &ffdhe::FFDHE2048,
        DhGroup::Ffdhe3072 => &ffdhe::FFDHE3072,
        DhGroup::Ffdhe4096 => &ffdhe::FFDHE4096,
    }
}
