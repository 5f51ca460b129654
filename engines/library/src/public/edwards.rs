//! X25519 (RFC 7748) and Ed25519 (RFC 8032).

use aws_lc_sys as sys;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::acceptance::ed25519;
use ciphermill_contract::{
    CheckedBatch, Direction, Error, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Reason, Result, Suite,
};

use super::NO_PRIVATE_KEY;
use super::ec::number;
use crate::ffi::{Owned, Wiped, done_if, fault, take_error};
use crate::prepared::{Prepared, state};

/// Bytes of scalars, seeds, public keys and shared secrets.
const LEN: usize = 32;

/// The field's prime, 2^255 - 19, big-endian.
const PRIME: [u8; LEN] = {
    let mut prime = [0xff; LEN];
    prime[0] = 0x7f;
    prime[LEN - 1] = 0xed;
    prime
};

/// An X25519 scalar.
struct X25519Key(Wiped<[u8; LEN]>);

/// An Ed25519 public key and, for signing, seed and public key as AWS-LC wants them.
struct Ed25519Key {
    public: [u8; LEN],
    private: Option<Wiped<[u8; 2 * LEN]>>,
}

/// Prepares a scalar.
pub(super) fn prepare_x25519(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    let scalar = key.bytes.try_into().map_err(|_| Error::key(suite, KeyProblem::Length))?;
    Ok(Prepared::key(suite, X25519Key(Wiped(scalar))))
}

/// Runs a batch of agreements.
pub(super) fn run_x25519(batch: &mut CheckedBatch<'_>) {
    let suite = batch.suite();
    batch.process(|op| {
        let (Some(key), Ok(peer), Ok(out)) = (
            state::<X25519Key>(op, suite),
            <&[u8; LEN]>::try_from(op.input),
            <&mut [u8; LEN]>::try_from(&mut *op.data),
        ) else {
            return OpStatus::EngineFault;
        };
        // SAFETY: all three have 32 bytes.
        let code = unsafe { sys::X25519(out.as_mut_ptr(), key.0.0.as_ptr(), peer.as_ptr()) };
        if code == 1 {
            return OpStatus::Done;
        }
        // The function fails for points of small order only (RFC 7748, 6.1).
        take_error();
        OpStatus::BadInput(Reason::BadPublicValue)
    });
}

/// Prepares a seed or a public key, whose encoding and order the contract has looked at.
pub(super) fn prepare_ed25519(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    let bytes = <&[u8; LEN]>::try_from(key.bytes).map_err(|_| Error::key(suite, KeyProblem::Length))?;
    if key.form == KeyForm::Public {
        // AWS-LC would tell only by refusing every signature.
        if !is_point(bytes).ok_or_else(fault)? {
            return Err(Error::key(suite, KeyProblem::Encoding));
        }
        return Ok(Prepared::key(suite, Ed25519Key { public: *bytes, private: None }));
    }
    let mut public = [0; LEN];
    let mut private = Wiped([0; 2 * LEN]);
    // SAFETY: the three have 32, 64 and 32 bytes, as the function wants.
    unsafe { sys::ED25519_keypair_from_seed(public.as_mut_ptr(), private.0.as_mut_ptr(), bytes.as_ptr()) };
    Ok(Prepared::key(suite, Ed25519Key { public, private: Some(private) }))
}

/// Whether there is an `x` for a reduced `y` (RFC 8032, 5.1.3): whether `(y^2 - 1) / (d y^2 + 1)` with `d = -121665 / 121666`
/// is zero or a square, and so the product of both sides, by Euler's criterion. -1 is a square: signs do not matter. `None`
/// when AWS-LC fails.
fn is_point(key: &[u8; LEN]) -> Option<bool> {
    let mut y = *key;
    y[LEN - 1] &= 0x7f;
    y.reverse();
    let (y, prime) = (number(&y)?, number(&PRIME)?);
    let (left, right, exponent) = (number(&[])?, number(&[])?, number(&[])?);
    // SAFETY: a new context has no other owner.
    let context = unsafe { Owned::new(sys::BN_CTX_new()) }?;
    let (context, y, prime) = (context.as_ptr(), y.as_ptr(), prime.as_ptr());
    let (left, right, exponent) = (left.as_ptr(), right.as_ptr(), exponent.as_ptr());
    // SAFETY: all numbers and the context are whole, and results may be operands.
    unsafe {
        let done = sys::BN_mod_sqr(left, y, prime, context) == 1
            && sys::BN_mod_sqr(right, y, prime, context) == 1
            && sys::BN_sub_word(left, 1) == 1
            && sys::BN_mul_word(left, 121_666) == 1
            && sys::BN_mul_word(right, 121_665) == 1
            && sys::BN_sub_word(right, 121_666) == 1
            && sys::BN_mod_mul(left, left, right, prime, context) == 1
            && sys::BN_rshift1(exponent, prime) == 1
            && sys::BN_mod_exp(right, left, exponent, prime, context) == 1;
        done.then(|| sys::BN_is_zero(right) == 1 || sys::BN_is_one(right) == 1)
    }
}

/// Runs a batch of signatures or verifications.
pub(super) fn run_ed25519(batch: &mut CheckedBatch<'_>) {
    let suite = batch.suite();
    let direction = batch.direction();
    batch.process(|op| match state::<Ed25519Key>(op, suite) {
        Some(key) if direction == Direction::Encrypt => sign(key, op),
        Some(key) => verify(key, op),
        None => OpStatus::EngineFault,
    });
}

fn sign(key: &Ed25519Key, op: &mut OpBuffers<'_>) -> OpStatus {
    let Some(private) = &key.private else { return NO_PRIVATE_KEY };
    let Some(out) = op.tag.first_chunk_mut::<{ 2 * LEN }>() else { return OpStatus::EngineFault };
    // SAFETY: signature and private key have 64 bytes, pointer and length are the slice's.
    let code = unsafe { sys::ED25519_sign(out.as_mut_ptr(), op.input.as_ptr(), op.input.len(), private.0.as_ptr()) };
    done_if(code == 1)
}

fn verify(key: &Ed25519Key, op: &OpBuffers<'_>) -> OpStatus {
    let Ok(signature) = <&[u8; 2 * LEN]>::try_from(&*op.tag) else { return OpStatus::EngineFault };
    if !ed25519::is_strict(signature) {
        return OpStatus::AuthFailed;
    }
    // SAFETY: the signature has 64 bytes and the key 32, pointer and length are the slice's.
    let code =
        unsafe { sys::ED25519_verify(op.input.as_ptr(), op.input.len(), signature.as_ptr(), key.public.as_ptr()) };
    take_error();
    if code == 1 { OpStatus::Done } else { OpStatus::AuthFailed }
}
