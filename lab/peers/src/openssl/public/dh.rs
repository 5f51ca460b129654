//! Finite-field Diffie-Hellman in the groups of RFC 7919 and RFC 3526, which OpenSSL knows by name.

use std::ffi::c_int;

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::DhGroup;
use ciphermill_contract::{Direction, Error, KeyMaterial, OpBuffers, OpStatus, Result, Suite};
use foreign_types::ForeignType;
use openssl::bn::BigNum;
use openssl::dh::Dh;
use openssl::error::ErrorStack;
use openssl::pkey::{Params, Private};
use openssl_sys as sys;
use zeroize::Zeroizing;

use super::{BAD_PUBLIC_VALUE, Context, Key, fault};

unsafe extern "C" {
    /// Declared here because `openssl-sys` lacks it (OpenSSL 1.1.1 and later).
    fn DH_new_by_nid(nid: c_int) -> *mut sys::DH;
}

/// A group and a private exponent, big-endian.
struct DhKey {
    group: DhGroup,
    exponent: Zeroizing<Vec<u8>>,
}

/// Takes a private exponent from one to the group's order less one (NIST SP 800-56A, 5.6.1.1).
///
/// # Errors
/// `Refused`: `Parameters` when it is not below the order. `EngineFault` when OpenSSL fails.
pub(super) fn agreement(key: &KeyMaterial<'_>, suite: Suite, group: DhGroup) -> Result<Box<dyn Key>> {
    let params = params(group).map_err(fault)?;
    let exponent = BigNum::from_slice(key.bytes).map_err(fault)?;
    if params.prime_q().is_none_or(|order| exponent.ucmp(order).is_ge()) {
        return Err(Error::key(suite, KeyProblem::Parameters));
    }
    Ok(Box::new(DhKey { group, exponent: Zeroizing::new(key.bytes.to_vec()) }))
}

fn params(group: DhGroup) -> std::result::Result<Dh<Params>, ErrorStack> {
    // `NID_ffdhe2048` and so on of `openssl/obj_mac.h`, which has none for the group of 1,024 bits.
    let nid = match group {
        DhGroup::Ffdhe2048 => 1126,
        DhGroup::Ffdhe3072 => 1127,
        DhGroup::Ffdhe4096 => 1128,
        DhGroup::Modp1024 => 0,
        DhGroup::Modp1536 => 1212,
        DhGroup::Modp2048 => 1213,
        DhGroup::Modp3072 => 1214,
        DhGroup::Modp4096 => 1215,
        DhGroup::Modp6144 => 1216,
        DhGroup::Modp8192 => 1217,
    };
    // SAFETY: takes a number that it looks up; a result that is not null has no other owner.
    unsafe {
        let dh = DH_new_by_nid(nid);
        if dh.is_null() { Err(ErrorStack::get()) } else { Ok(Dh::from_ptr(dh)) }
    }
}

impl Key for DhKey {
    fn context(&self, _direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack> {
        let params = params(self.group)?;
        let mut last = params.prime_p().to_owned()?;
        last.sub_word(1)?;
        let dh = params.set_private_key(BigNum::from_slice(&self.exponent)?)?;
        Ok(Box::new(Agreement { dh, last, first: BigNum::from_u32(1)? }))
    }
}

/// What an agreement needs, kept from one to the next.
struct Agreement {
    dh: Dh<Private>,
    /// The two elements that generate nothing: one, and the prime less one.
    first: BigNum,
    last: BigNum,
}

impl Context for Agreement {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let Ok(peer) = BigNum::from_slice(op.input) else { return OpStatus::EngineFault };
        if peer.ucmp(&self.first).is_le() || peer.ucmp(&self.last).is_ge() {
            return BAD_PUBLIC_VALUE;
        }
        let len = op.data.len();
        if usize::try_from(self.dh.prime_p().num_bytes()) != Ok(len) {
            return OpStatus::EngineFault;
        }
        // SAFETY: group and number are whole, and `data` is as long as the prime, which is as much as the function writes.
        let written = unsafe { sys::DH_compute_key(op.data.as_mut_ptr(), peer.as_ptr(), self.dh.as_ptr()) };
        // It leaves zeros in front out, which the contract wants.
        match usize::try_from(written) {
            Ok(written) if (1..=len).contains(&written) => {
                op.data.copy_within(..written, len - written);
                op.data[..len - written].fill(0);
                OpStatus::Done
            }
            _ => OpStatus::EngineFault,
        }
    }
}
