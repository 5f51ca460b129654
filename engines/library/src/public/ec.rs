//! ECDSA (FIPS 186-5) and ECDH (NIST SP 800-56A) on curves over prime fields.

use aws_lc_sys as sys;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Curve;
use ciphermill_contract::{
    CheckedBatch, Direction, Error, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Reason, Result, Suite,
};

use super::{KeyPair, NO_PRIVATE_KEY};
use crate::digest;
use crate::ffi::{Owned, done_if, fault, op_fault, take_error};
use crate::prepared::{Prepared, state};

/// The first byte of an uncompressed point (SEC 1, 2.3.3).
const UNCOMPRESSED: u8 = 4;

/// A key on the suite's curve.
struct EcKey(KeyPair);

impl EcKey {
    fn as_ptr(&self) -> *mut sys::EC_KEY {
        // SAFETY: the key is whole and holds an EC key (`prepare`), which lives as long as it.
        unsafe { sys::EVP_PKEY_get0_EC_KEY(self.0.key.as_ptr()) }
    }
}

/// Prepares a key on `curve`.
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite, curve: Curve) -> Result<PreparedKey> {
    let ec = EcKey(KeyPair::parse(key, suite, sys::EVP_PKEY_EC)?);
    let pointer = ec.as_ptr();
    if pointer.is_null() {
        return Err(fault());
    }
    // SAFETY: the EC key is whole and a parsed key has a group.
    let found = unsafe { sys::EC_GROUP_get_curve_name(sys::EC_KEY_get0_group(pointer)) };
    if Some(found) != nid(curve) {
        return Err(Error::key(suite, KeyProblem::Parameters));
    }
    Ok(Prepared::key(suite, ec))
}

/// Runs a batch of signatures or verifications.
pub(super) fn run_ecdsa(batch: &mut CheckedBatch<'_>, curve: Curve) {
    let suite = batch.suite();
    let direction = batch.direction();
    let hash = curve.digest();
    batch.process(|op| {
        let (Some(key), Some(digest)) = (state::<EcKey>(op, suite), digest::compute(hash, op.input)) else {
            return op_fault();
        };
        sign_or_verify(key, curve, direction, &digest[..hash.len()], op.tag)
    });
}

/// The same over digests that are given.
pub(super) fn run_ecdsa_digest(batch: &mut CheckedBatch<'_>, curve: Curve) {
    let suite = batch.suite();
    let direction = batch.direction();
    batch.process(|op| match state::<EcKey>(op, suite) {
        Some(key) => sign_or_verify(key, curve, direction, op.input, op.tag),
        None => OpStatus::EngineFault,
    });
}

fn sign_or_verify(key: &EcKey, curve: Curve, direction: Direction, digest: &[u8], tag: &mut [u8]) -> OpStatus {
    match direction {
        Direction::Encrypt if !key.0.is_private => NO_PRIVATE_KEY,
        Direction::Encrypt => done_if(sign(key, curve, digest, tag).is_some()),
        Direction::Decrypt => verify(key, curve, digest, tag),
    }
}

/// Writes `r ‖ s`, each as long as the order.
fn sign(key: &EcKey, curve: Curve, digest: &[u8], tag: &mut [u8]) -> Option<()> {
    let len = curve.order_len();
    // SAFETY: the key is whole and private, pointer and length are the slice's; the signature has no other owner.
    let signature = unsafe { Owned::new(sys::ECDSA_do_sign(digest.as_ptr(), digest.len(), key.as_ptr())) }?;
    let (mut r, mut s) = (core::ptr::null(), core::ptr::null());
    // SAFETY: the signature is whole; the numbers live as long as it.
    unsafe { sys::ECDSA_SIG_get0(signature.as_ptr(), &mut r, &mut s) };
    let (r_out, s_out) = tag.get_mut(..2 * len)?.split_at_mut(len);
    // SAFETY: both numbers are whole, both halves have `len` bytes.
    let ok = unsafe {
        sys::BN_bn2bin_padded(r_out.as_mut_ptr(), len, r) == 1 && sys::BN_bn2bin_padded(s_out.as_mut_ptr(), len, s) == 1
    };
    ok.then_some(())
}

fn verify(key: &EcKey, curve: Curve, digest: &[u8], tag: &[u8]) -> OpStatus {
    let Some((r, s)) = tag.split_at_checked(curve.order_len()) else { return OpStatus::EngineFault };
    let Some(signature) = signature(r, s) else { return op_fault() };
    // SAFETY: signature and key are whole, pointer and length are the slice's.
    let code = unsafe { sys::ECDSA_do_verify(digest.as_ptr(), digest.len(), signature.as_ptr(), key.as_ptr()) };
    take_error();
    if code == 1 { OpStatus::Done } else { OpStatus::AuthFailed }
}

fn signature(r: &[u8], s: &[u8]) -> Option<Owned<sys::ECDSA_SIG>> {
    let (r, s) = (number(r)?, number(s)?);
    // SAFETY: a new signature has no other owner.
    let signature = unsafe { Owned::new(sys::ECDSA_SIG_new()) }?;
    let (r, s) = (r.into_raw(), s.into_raw());
    // SAFETY: the function takes both numbers over; it fails for null ones only, which these are not.
    let code = unsafe { sys::ECDSA_SIG_set0(signature.as_ptr(), r, s) };
    (code == 1).then_some(signature)
}

/// A big-endian number.
pub(super) fn number(bytes: &[u8]) -> Option<Owned<sys::BIGNUM>> {
    // SAFETY: pointer and length are the slice's; a null third argument asks for a new number.
    unsafe { Owned::new(sys::BN_bin2bn(bytes.as_ptr(), bytes.len(), core::ptr::null_mut())) }
}

/// Runs a batch of agreements.
pub(super) fn run_ecdh(batch: &mut CheckedBatch<'_>) {
    let suite = batch.suite();
    batch.process(|op| match state::<EcKey>(op, suite) {
        Some(key) => agree(key, op),
        None => OpStatus::EngineFault,
    });
}

fn agree(key: &EcKey, op: &mut OpBuffers<'_>) -> OpStatus {
    let bad = OpStatus::BadInput(Reason::BadPublicValue);
    if op.input.first() != Some(&UNCOMPRESSED) {
        return bad;
    }
    let pointer = key.as_ptr();
    // SAFETY: the EC key is whole and has a group, which lives as long as it.
    let group = unsafe { sys::EC_KEY_get0_group(pointer) };
    // SAFETY: a new point has no other owner.
    let Some(point) = (unsafe { Owned::new(sys::EC_POINT_new(group)) }) else { return op_fault() };
    // SAFETY: group and point are whole and belong together, pointer and length are the slice's. The function takes
    // points on the curve only.
    let code = unsafe {
        sys::EC_POINT_oct2point(group, point.as_ptr(), op.input.as_ptr(), op.input.len(), core::ptr::null_mut())
    };
    if code != 1 {
        take_error();
        return bad;
    }
    // SAFETY: point and key are whole and on one curve, the output pointer and length are the slice's.
    let written =
        unsafe { sys::ECDH_compute_key(op.data.as_mut_ptr().cast(), op.data.len(), point.as_ptr(), pointer, None) };
    done_if(usize::try_from(written) == Ok(op.data.len()))
}

pub(super) fn nid(curve: Curve) -> Option<i32> {
    match curve {
        Curve::P224 => Some(sys::NID_secp224r1),
        Curve::P256 => Some(sys::NID_X9_62_prime256v1),
        Curve::P384 => Some(sys::NID_secp384r1),
        Curve::P521 => Some(sys::NID_secp521r1),
        Curve::Secp256k1 => Some(sys::NID_secp256k1),
        Curve::BrainpoolP256r1 => Some(sys::NID_brainpoolP256r1),
        Curve::BrainpoolP384r1 => Some(sys::NID_brainpoolP384r1),
        _ => None,
    }
}
