//! Khufu and Khafre (Merkle, "Fast Software Encryption Functions", CRYPTO '90; US patent 5,003,597, whose reference
//! program settles the details), 16 rounds: the lowest byte of the left half is looked up, the word found is added to
//! the right half, the left half is rotated, and the halves change places. Eight rounds share an S-box. Khufu's S-boxes
//! are made from the key; Khafre's are the same for all, and its key is added before, between and after them.
//!
//! # Floor
//! A round is a byte cut out, a lookup that is the operand of an addition, and a rotation: three instructions, of which
//! one loads, and a move where the compiler needs one. 64 instructions and ten for whitening, load and store are 13
//! cycles a block at six a cycle; 21 loads would take seven. Alone, a block takes 16 rounds of seven cycles of latency.

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{PreparedKey, Suite};
use ciphermill_tables::merkle::{
    KhufuTables, OCTETS, SBox, Whitening, decrypt_octet, encrypt_octet, khafre, khufu, standard_sboxes,
};
use zeroize::Zeroizing;

use super::Prepared;
use super::blocks::Cipher;

/// What a block is enciphered with.
trait Octets {
    /// What is added to a block before, between and after the octets.
    fn whitening(&self) -> &Whitening;
    /// The S-box of each octet.
    fn sboxes(&self) -> &[SBox; OCTETS];
}

/// Khafre's key.
pub(super) struct KhafreKey {
    whitening: Zeroizing<Whitening>,
    sboxes: &'static [SBox; OCTETS],
}

/// A prepared key of Khufu. Its tables are made where they stay, so that no copies of them are left elsewhere.
pub(super) struct KhufuKey(Box<KhufuTables>);

impl Octets for KhufuTables {
    #[inline(always)]
    fn whitening(&self) -> &Whitening {
        &self.whitening
    }

    #[inline(always)]
    fn sboxes(&self) -> &[SBox; OCTETS] {
        &self.sboxes
    }
}

impl Octets for KhafreKey {
    #[inline(always)]
    fn whitening(&self) -> &Whitening {
        &self.whitening
    }

    #[inline(always)]
    fn sboxes(&self) -> &[SBox; OCTETS] {
        self.sboxes
    }
}

impl Cipher for KhufuKey {
    type Tables = KhufuTables;

    #[inline(always)]
    fn tables(&self) -> &KhufuTables {
        &self.0
    }

    #[inline(always)]
    fn encrypt<const N: usize>(tables: &[&KhufuTables; N], left: &mut [u32; N], right: &mut [u32; N]) {
        encrypt(tables, left, right);
    }

    #[inline(always)]
    fn decrypt<const N: usize>(tables: &[&KhufuTables; N], left: &mut [u32; N], right: &mut [u32; N]) {
        decrypt(tables, left, right);
    }
}

impl Cipher for KhafreKey {
    type Tables = KhafreKey;

    #[inline(always)]
    fn tables(&self) -> &KhafreKey {
        self
    }

    #[inline(always)]
    fn encrypt<const N: usize>(tables: &[&KhafreKey; N], left: &mut [u32; N], right: &mut [u32; N]) {
        encrypt(tables, left, right);
    }

    #[inline(always)]
    fn decrypt<const N: usize>(tables: &[&KhafreKey; N], left: &mut [u32; N], right: &mut [u32; N]) {
        decrypt(tables, left, right);
    }
}

/// Prepares a key of Khafre, of 8 or 24 bytes.
pub(super) fn prepare_khafre(key: &[u8], suite: Suite) -> Prepared {
    let whitening = khafre(key).ok_or(KeyProblem::Length)?;
    Ok(PreparedKey::for_suite(suite, KhafreKey { whitening, sboxes: standard_sboxes() }))
}

/// Prepares keys of Khufu, of 1 to 64 bytes, several side by side.
pub(super) fn prepare_khufu(keys: &[&[u8]], suite: Suite) -> Vec<Prepared> {
    khufu(keys).into_iter().map(|tables| Ok(PreparedKey::for_suite(suite, KhufuKey(tables)))).collect()
}

/// Enciphers a block under each of `N` keys.
#[inline(always)]
fn encrypt<T: Octets, const N: usize>(tables: &[&T; N], left: &mut [u32; N], right: &mut [u32; N]) {
    for octet in 0..OCTETS {
        for n in 0..N {
            let [l, r] = tables[n].whitening()[octet];
            [left[n], right[n]] = encrypt_octet(&tables[n].sboxes()[octet], [left[n] ^ l, right[n] ^ r]);
        }
    }
    for n in 0..N {
        let [l, r] = tables[n].whitening()[OCTETS];
        (left[n], right[n]) = (left[n] ^ l, right[n] ^ r);
    }
}

/// Deciphers a block under each of `N` keys.
#[inline(always)]
fn decrypt<T: Octets, const N: usize>(tables: &[&T; N], left: &mut [u32; N], right: &mut [u32; N]) {
    for octet in (0..OCTETS).rev() {
        for n in 0..N {
            let [l, r] = tables[n].whitening()[octet + 1];
            [left[n], right[n]] = decrypt_octet(&tables[n].sboxes()[octet], [left[n] ^ l, right[n] ^ r]);
        }
    }
    for n in 0..N {
        let [l, r] = tables[n].whitening()[0];
        (left[n], right[n]) = (left[n] ^ l, right[n] ^ r);
    }
}
