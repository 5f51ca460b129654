//! Public-key operations: one file a family.

mod dh;
mod ec;
mod edwards;
mod generate;
mod lattice;
mod rsa;

use aws_lc_sys as sys;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Agreement, Signature};
use ciphermill_contract::{CheckedBatch, Error, KeyForm, KeyMaterial, OpStatus, PreparedKey, Reason, Result, Suite};

use crate::ffi::{Owned, take_error};

/// A private operation under a public key.
const NO_PRIVATE_KEY: OpStatus = OpStatus::Refused(Reason::KeyUnsuitable);

/// A parsed key of either form.
struct KeyPair {
    key: Owned<sys::EVP_PKEY>,
    is_private: bool,
}

/// Prepares a private or public key that [`Suite::check_key`] takes.
pub(crate) fn prepare(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    match suite {
        Suite::Sign(Signature::Rsa(..)) | Suite::PublicEncrypt(_) => rsa::prepare(key, suite),
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) => ec::prepare(key, suite, curve),
        Suite::Agree(Agreement::Ecdh(curve)) => ec::prepare(key, suite, curve),
        Suite::Agree(Agreement::Dh(group)) => dh::prepare(key, suite, group),
        Suite::Agree(Agreement::X25519) => edwards::prepare_x25519(key, suite),
        Suite::Sign(Signature::Ed25519) => edwards::prepare_ed25519(key, suite),
        Suite::Sign(Signature::MlDsa(set)) => lattice::prepare_ml_dsa(key, suite, set),
        Suite::Kem(kem) => lattice::prepare_ml_kem(key, suite, kem),
        _ => Err(Error::key(suite, KeyProblem::Form)),
    }
}

/// Runs a batch; leaves operations of other suites pending.
pub(crate) fn run(batch: &mut CheckedBatch<'_>) {
    match batch.suite() {
        Suite::Sign(Signature::Rsa(size, padding, digest)) => rsa::run_sign(batch, size, padding, digest),
        Suite::PublicEncrypt(encryption) => rsa::run_encrypt(batch, encryption),
        Suite::Sign(Signature::Ecdsa(curve)) => ec::run_ecdsa(batch, curve),
        Suite::Sign(Signature::EcdsaDigest(curve)) => ec::run_ecdsa_digest(batch, curve),
        Suite::Agree(Agreement::Ecdh(_)) => ec::run_ecdh(batch),
        Suite::Agree(Agreement::Dh(_)) => dh::run(batch),
        Suite::Agree(Agreement::X25519) => edwards::run_x25519(batch),
        Suite::Sign(Signature::Ed25519) => edwards::run_ed25519(batch),
        Suite::Sign(Signature::MlDsa(_)) => lattice::run_ml_dsa(batch),
        Suite::Kem(_) => lattice::run_ml_kem(batch),
        Suite::Generate(pair) => generate::run(batch, pair),
        _ => {}
    }
}

impl KeyPair {
    /// Parses PKCS#8 or SubjectPublicKeyInfo DER of an algorithm; nothing may follow it.
    fn parse(key: &KeyMaterial<'_>, suite: Suite, algorithm: i32) -> Result<KeyPair> {
        let is_private = key.form == KeyForm::Private;
        let mut reader = sys::CBS { data: key.bytes.as_ptr(), len: key.bytes.len() };
        // SAFETY: the reader covers the key's bytes, which outlive the call; a returned key has no other owner.
        let parsed = unsafe {
            Owned::new(if is_private {
                sys::EVP_parse_private_key(&mut reader)
            } else {
                sys::EVP_parse_public_key(&mut reader)
            })
        };
        take_error();
        let parsed = parsed.filter(|_| reader.len == 0).ok_or(Error::key(suite, KeyProblem::Encoding))?;
        // SAFETY: the key is whole.
        if unsafe { sys::EVP_PKEY_id(parsed.as_ptr()) } != algorithm {
            return Err(Error::key(suite, KeyProblem::Parameters));
        }
        Ok(KeyPair { key: parsed, is_private })
    }

    /// A context for one operation.
    fn context(&self) -> Option<Owned<sys::EVP_PKEY_CTX>> {
        // SAFETY: the key is whole and gains a reference; the context has no other owner.
        unsafe { Owned::new(sys::EVP_PKEY_CTX_new(self.key.as_ptr(), core::ptr::null_mut())) }
    }
}
