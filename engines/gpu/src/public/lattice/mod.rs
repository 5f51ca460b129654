//! Suites over lattices: ML-KEM and ML-DSA. Keys are expanded here, when they are prepared, into what the kernels
//! multiply with: most of an operation's hashing depends on its key alone.

mod ml_dsa;
mod ml_kem;
mod ring;

pub(super) use ml_dsa::{Sign, Verify, prepare as prepare_ml_dsa};
pub(super) use ml_kem::{Decapsulate, Encapsulate, prepare as prepare_ml_kem};

/// A number of 32 bits in the order of the device's memory.
fn put_word(form: &mut Vec<u8>, word: u32) {
    form.extend_from_slice(&word.to_le_bytes());
}
