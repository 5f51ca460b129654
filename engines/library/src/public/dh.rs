//! Finite-field Diffie-Hellman in the groups of RFC 7919 and of IKE (RFC 2409, RFC 3526). AWS-LC has some of them by name; all are made
//! of their primes here.

use aws_lc_sys as sys;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::DhGroup;
use ciphermill_contract::{CheckedBatch, Error, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Reason, Result, Suite};
use ciphermill_pairs::dh::prime;

use super::ec::number;
use crate::ffi::{Owned, fault, op_fault, take_error};
use crate::prepared::{Prepared, state};

/// A group with a private exponent.
struct DhKey(Owned<sys::DH>);

/// Prepares a big-endian exponent from one to the group's order less one (NIST SP 800-56A, 5.6.1.1).
pub(super) fn prepare(key: &KeyMaterial<'_>, suite: Suite, group: DhGroup) -> Result<PreparedKey> {
    let dh = group_of(group).ok_or_else(fault)?;
    let exponent = number(key.bytes).ok_or_else(fault)?;
    // SAFETY: exponent and group are whole, and the group has an order.
    if unsafe { sys::BN_cmp(exponent.as_ptr(), sys::DH_get0_q(dh.as_ptr())) } >= 0 {
        return Err(Error::key(suite, KeyProblem::Parameters));
    }
    // SAFETY: the function takes the exponent over and always succeeds; a null public value leaves that unset.
    if unsafe { sys::DH_set0_key(dh.as_ptr(), core::ptr::null_mut(), exponent.into_raw()) } != 1 {
        return Err(fault());
    }
    Ok(Prepared::key(suite, DhKey(dh)))
}

/// A group: the prime, half of it, which is the order, and the generator 2. The order has public values examined.
fn group_of(group: DhGroup) -> Option<Owned<sys::DH>> {
    // SAFETY: a new object has no other owner, here and below.
    let dh = unsafe { Owned::new(sys::DH_new()) }?;
    let (p, g) = (number(prime(group))?, number(&[2])?);
    // SAFETY: as above.
    let q = unsafe { Owned::new(sys::BN_new()) }?;
    // SAFETY: both numbers are whole.
    if unsafe { sys::BN_rshift1(q.as_ptr(), p.as_ptr()) } != 1 {
        return None;
    }
    // SAFETY: the function takes the numbers over, which it only fails to do where one is missing.
    let is_set = unsafe { sys::DH_set0_pqg(dh.as_ptr(), p.into_raw(), q.into_raw(), g.into_raw()) };
    (is_set == 1).then_some(dh)
}

/// Runs a batch of agreements.
pub(super) fn run(batch: &mut CheckedBatch<'_>) {
    let suite = batch.suite();
    batch.process(|op| match state::<DhKey>(op, suite) {
        Some(key) => agree(key, op),
        None => OpStatus::EngineFault,
    });
}

fn agree(key: &DhKey, op: &mut OpBuffers<'_>) -> OpStatus {
    let Some(peer) = number(op.input) else { return op_fault() };
    // SAFETY: the group is whole.
    if usize::try_from(unsafe { sys::DH_size(key.0.as_ptr()) }) != Ok(op.data.len()) {
        return OpStatus::EngineFault;
    }
    // SAFETY: group and number are whole, and the output is as long as the prime, which is what the function writes.
    // It checks that the peer's value lies in the group (NIST SP 800-56A, 5.6.2.3.1).
    let written = unsafe { sys::DH_compute_key_padded(op.data.as_mut_ptr(), peer.as_ptr(), key.0.as_ptr()) };
    if usize::try_from(written) == Ok(op.data.len()) {
        return OpStatus::Done;
    }
    let error = take_error();
    let bad_value =
        sys::ERR_GET_LIB(error) == sys::ERR_LIB_DH && sys::ERR_GET_REASON(error) == sys::DH_R_INVALID_PUBKEY;
    if bad_value { OpStatus::BadInput(Reason::BadPublicValue) } else { OpStatus::EngineFault }
}
