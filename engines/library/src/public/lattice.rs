//! ML-KEM (FIPS 203) and ML-DSA (FIPS 204).

use aws_lc_sys as sys;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::{Kem, MlDsaSet};
use ciphermill_contract::{
    CheckedBatch, Direction, Error, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Result, Suite,
};

use super::{KeyPair, NO_PRIVATE_KEY};
use crate::ffi::{Owned, Wiped, done_if, fault, op_fault, take_error};
use crate::prepared::{Prepared, state};

/// Bytes of a shared secret.
const SECRET: usize = 32;

/// Bytes of the longest KEM ciphertext.
const CIPHERTEXT_MAX: usize = Kem::MlKem1024.ciphertext_len();

/// A decapsulation or encapsulation key.
struct KemKey(KeyPair);

/// A signing or verification key.
struct DsaKey(KeyPair);

/// Prepares a seed or an encapsulation key.
pub(super) fn prepare_ml_kem(key: &KeyMaterial<'_>, suite: Suite, kem: Kem) -> Result<PreparedKey> {
    let is_private = key.form == KeyForm::Private;
    let nid = kem_nid(kem);
    if is_private {
        let key = kem_from_seed(nid, key.bytes).ok_or_else(fault)?;
        return Ok(Prepared::key(suite, KemKey(KeyPair { key, is_private })));
    }
    // SAFETY: pointer and length are the slice's; the new key has no other owner.
    let parsed = unsafe { Owned::new(sys::EVP_PKEY_kem_new_raw_public_key(nid, key.bytes.as_ptr(), key.bytes.len())) };
    let key = KemKey(KeyPair { key: parsed.ok_or_else(fault)?, is_private });
    // FIPS 203, 7.2: coefficients must be below the modulus. AWS-LC looks when it encapsulates, so that is tried once.
    let (mut ciphertext, mut secret) = ([0; CIPHERTEXT_MAX], Wiped([0; SECRET]));
    if encapsulate(&key, &mut ciphertext[..kem.ciphertext_len()], &mut secret.0).is_none() {
        take_error();
        return Err(Error::key(suite, KeyProblem::Encoding));
    }
    Ok(Prepared::key(suite, key))
}

/// The library's number of a KEM.
pub(super) fn kem_nid(kem: Kem) -> i32 {
    match kem {
        Kem::MlKem512 => sys::NID_MLKEM512,
        Kem::MlKem768 => sys::NID_MLKEM768,
        Kem::MlKem1024 => sys::NID_MLKEM1024,
    }
}

/// The key of a seed `d ‖ z`.
pub(super) fn kem_from_seed(nid: i32, seed: &[u8]) -> Option<Owned<sys::EVP_PKEY>> {
    let mut key = core::ptr::null_mut();
    let mut seed_len = seed.len();
    // SAFETY: a new context has no other owner.
    let context = unsafe { Owned::new(sys::EVP_PKEY_CTX_new_id(sys::EVP_PKEY_KEM, core::ptr::null_mut())) }?;
    // SAFETY: the context is whole; seed pointer and length are the slice's.
    let ok = unsafe {
        let context = context.as_ptr();
        sys::EVP_PKEY_CTX_kem_set_params(context, nid) == 1
            && sys::EVP_PKEY_keygen_init(context) == 1
            && sys::EVP_PKEY_keygen_deterministic(context, &mut key, seed.as_ptr(), &mut seed_len) == 1
    };
    // SAFETY: what the function has made has no other owner.
    let key = unsafe { Owned::new(key) };
    key.filter(|_| ok)
}

/// Runs a batch of encapsulations or decapsulations.
pub(super) fn run_ml_kem(batch: &mut CheckedBatch<'_>) {
    let suite = batch.suite();
    let direction = batch.direction();
    let Suite::Kem(kem) = suite else { return };
    batch.process(|op| {
        let Some(key) = state::<KemKey>(op, suite) else { return OpStatus::EngineFault };
        let (Some(ciphertext), Some(secret)) =
            (op.tag.get_mut(..kem.ciphertext_len()), op.data.first_chunk_mut::<SECRET>())
        else {
            return OpStatus::EngineFault;
        };
        match direction {
            Direction::Encrypt => done_if(encapsulate(key, ciphertext, secret).is_some()),
            Direction::Decrypt if !key.0.is_private => NO_PRIVATE_KEY,
            Direction::Decrypt => done_if(decapsulate(key, ciphertext, secret).is_some()),
        }
    });
}

fn encapsulate(key: &KemKey, ciphertext: &mut [u8], secret: &mut [u8; SECRET]) -> Option<()> {
    let context = key.0.context()?;
    let (mut ciphertext_len, mut secret_len) = (ciphertext.len(), SECRET);
    // SAFETY: the context is whole; each output comes with its length, which the function keeps to.
    let code = unsafe {
        sys::EVP_PKEY_encapsulate(
            context.as_ptr(),
            ciphertext.as_mut_ptr(),
            &mut ciphertext_len,
            secret.as_mut_ptr(),
            &mut secret_len,
        )
    };
    (code == 1 && ciphertext_len == ciphertext.len() && secret_len == SECRET).then_some(())
}

/// A wrong ciphertext gives a secret that nobody else has (FIPS 203, 6.3), not an error.
fn decapsulate(key: &KemKey, ciphertext: &[u8], secret: &mut [u8; SECRET]) -> Option<()> {
    let context = key.0.context()?;
    let mut secret_len = SECRET;
    // SAFETY: the context is whole and of a private key; pointers and lengths belong together.
    let code = unsafe {
        sys::EVP_PKEY_decapsulate(
            context.as_ptr(),
            secret.as_mut_ptr(),
            &mut secret_len,
            ciphertext.as_ptr(),
            ciphertext.len(),
        )
    };
    (code == 1 && secret_len == SECRET).then_some(())
}

/// The library's number of a parameter set.
pub(super) fn ml_dsa_nid(set: MlDsaSet) -> i32 {
    match set {
        MlDsaSet::MlDsa44 => sys::NID_MLDSA44,
        MlDsaSet::MlDsa65 => sys::NID_MLDSA65,
        MlDsaSet::MlDsa87 => sys::NID_MLDSA87,
    }
}

/// The key of a seed.
pub(super) fn ml_dsa_from_seed(nid: i32, seed: &[u8]) -> Option<Owned<sys::EVP_PKEY>> {
    // SAFETY: pointer and length are the slice's; the new key has no other owner.
    unsafe { Owned::new(sys::EVP_PKEY_pqdsa_new_raw_private_key(nid, seed.as_ptr(), seed.len())) }
}

/// Prepares a seed or a public key.
pub(super) fn prepare_ml_dsa(key: &KeyMaterial<'_>, suite: Suite, set: MlDsaSet) -> Result<PreparedKey> {
    let is_private = key.form == KeyForm::Private;
    let nid = ml_dsa_nid(set);
    let key = if is_private {
        ml_dsa_from_seed(nid, key.bytes)
    } else {
        // SAFETY: pointer and length are the slice's; the new key has no other owner.
        unsafe { Owned::new(sys::EVP_PKEY_pqdsa_new_raw_public_key(nid, key.bytes.as_ptr(), key.bytes.len())) }
    };
    let key = key.ok_or_else(fault)?;
    Ok(Prepared::key(suite, DsaKey(KeyPair { key, is_private })))
}

/// Runs a batch of signatures or verifications.
pub(super) fn run_ml_dsa(batch: &mut CheckedBatch<'_>) {
    let suite = batch.suite();
    let direction = batch.direction();
    let Suite::Sign(signature) = suite else { return };
    batch.process(|op| match state::<DsaKey>(op, suite) {
        Some(key) if direction == Direction::Decrypt => verify(key, op),
        Some(key) if !key.0.is_private => NO_PRIVATE_KEY,
        Some(key) => match op.tag.get_mut(..signature.len()) {
            Some(out) => done_if(sign(key, op.aad, op.input, out).is_some()),
            None => OpStatus::EngineFault,
        },
        None => OpStatus::EngineFault,
    });
}

/// Sets the context string that a context signs or verifies under; an empty one is its own.
///
/// # Safety
/// The context must be ready to sign or to verify.
unsafe fn set_context(context: *mut sys::EVP_PKEY_CTX, string: &[u8]) -> bool {
    // SAFETY: the caller's promise; pointer and length are the slice's.
    string.is_empty() || unsafe { sys::EVP_PKEY_CTX_set_signature_context(context, string.as_ptr(), string.len()) } == 1
}

fn sign(key: &DsaKey, string: &[u8], message: &[u8], out: &mut [u8]) -> Option<()> {
    // SAFETY: a new context has no other owner.
    let context = unsafe { Owned::new(sys::EVP_MD_CTX_new()) }?;
    let (null, mut written) = (core::ptr::null_mut(), out.len());
    let mut inner = null;
    // SAFETY: context and key are whole; no digest stands for signing the message itself; pointers and lengths are the
    // slices'.
    let ok = unsafe {
        let context = context.as_ptr();
        sys::EVP_DigestSignInit(context, &mut inner, core::ptr::null(), null.cast(), key.0.key.as_ptr()) == 1
            && set_context(inner, string)
            && sys::EVP_DigestSign(context, out.as_mut_ptr(), &mut written, message.as_ptr(), message.len()) == 1
    };
    (ok && written == out.len()).then_some(())
}

fn verify(key: &DsaKey, op: &OpBuffers<'_>) -> OpStatus {
    // SAFETY: a new context has no other owner.
    let Some(context) = (unsafe { Owned::new(sys::EVP_MD_CTX_new()) }) else { return op_fault() };
    let context = context.as_ptr();
    let (null, mut inner) = (core::ptr::null_mut(), core::ptr::null_mut());
    // SAFETY: context and key are whole; no digest stands for the message itself.
    let ready = unsafe {
        sys::EVP_DigestVerifyInit(context, &mut inner, core::ptr::null(), null, key.0.key.as_ptr()) == 1
            && set_context(inner, op.aad)
    };
    if !ready {
        return op_fault();
    }
    // SAFETY: the context is ready; pointers and lengths are the slices'.
    let code =
        unsafe { sys::EVP_DigestVerify(context, op.tag.as_ptr(), op.tag.len(), op.input.as_ptr(), op.input.len()) };
    take_error();
    if code == 1 { OpStatus::Done } else { OpStatus::AuthFailed }
}
