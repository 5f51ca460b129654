//! Keys of the table-driven legacy ciphers.

use ciphermill_contract::error::KeyProblem;
use ciphermill_tables::merkle::{SBox, Whitening};
use ciphermill_tables::{blowfish, merkle, seal};
use zeroize::Zeroizing;

use crate::form::Form;

/// RC4's permutation after the key schedule, as `kernels/legacy/rc4.cl` reads it. The key has one byte or more.
pub(crate) fn prepare_rc4(key: &[u8]) -> Form {
    let mut permutation: Form = Zeroizing::new((0..=255).collect());
    let mut j = 0u8;
    for i in 0..256 {
        j = j.wrapping_add(permutation[i]).wrapping_add(key[i % key.len()]);
        permutation.swap(i, usize::from(j));
    }
    permutation
}

/// Blowfish's round keys and S-boxes, as `kernels/legacy/blowfish.h` reads them.
pub(crate) fn prepare_blowfish(key: &[u8]) -> Form {
    tables(blowfish::set_up(&[key]).iter().flat_map(|tables| [&tables.keys[..], tables.sboxes.as_flattened()]))
}

/// What Khufu adds to a block, and its S-boxes, as `kernels/legacy/merkle.h` reads them.
pub(crate) fn prepare_khufu(key: &[u8]) -> Form {
    let made = merkle::khufu(&[key]);
    tables(made.iter().flat_map(|tables| octets(&tables.whitening, &tables.sboxes)))
}

/// The same for Khafre.
///
/// # Errors
/// `Length` unless the key has 8 or 24 bytes.
pub(crate) fn prepare_khafre(key: &[u8]) -> Result<Form, KeyProblem> {
    let whitening = merkle::khafre(key).ok_or(KeyProblem::Length)?;
    Ok(tables(octets(&whitening, merkle::standard_sboxes())))
}

/// SEAL's tables T, S and R, as `kernels/legacy/seal.cl` reads them.
///
/// # Errors
/// `Length` unless the key has 20 bytes.
pub(crate) fn prepare_seal(key: &[u8]) -> Result<Form, KeyProblem> {
    let made = seal::set_up(key.try_into().map_err(|_| KeyProblem::Length)?);
    Ok(tables([&made.t[..], &made.s, &made.r]))
}

fn octets<'t>(whitening: &'t Whitening, sboxes: &'t [SBox; merkle::OCTETS]) -> [&'t [u32]; 2] {
    [whitening.as_flattened(), sboxes.as_flattened()]
}

/// Tables one behind the other, as they lie in the device's memory.
fn tables<'t>(tables: impl IntoIterator<Item = &'t [u32]>) -> Form {
    // Room for the longest of them at once, so that no copy is left behind.
    let mut form = Zeroizing::new(Vec::with_capacity(FORM_LEN_MAX));
    for word in tables.into_iter().flatten() {
        form.extend_from_slice(&word.to_le_bytes());
    }
    debug_assert!(form.len() <= FORM_LEN_MAX);
    form
}

/// Bytes of Blowfish's tables, the longest.
const FORM_LEN_MAX: usize = 4 * (blowfish::ROUND_KEYS + 4 * 256);
