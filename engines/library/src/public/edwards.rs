//! X25519 (RFC 7748) and Ed25519 (RFC 8032).

use aws_lc_sys as sys;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{
    CheckedBatch, Direction, Error, KeyForm, KeyMaterial, OpBuffers, OpStatus, PreparedKey, Reason, Result, Suite,
};

use super::NO_PRIVATE_KEY;
use crate::engine::{Prepared, state};
use crate::ffi::{Wiped, done_if, take_error};

/// Bytes of scalars, seeds, public keys and shared secrets.
const LEN: usize = 32;

/// An X25519 scalar.
struct X25519Key(Wiped<[u8; LEN]>);

/// An Ed25519 public key and, for signing, seed and public key as AWS-LC wants them.
struct Ed25519Key {
    public: [u8; LEN],
    private: Option<Wiped<[u8; 2 * LEN]>>,
}

/// Prepares a scalar.
pub(super) fn prepare_x25519(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    if key.form != KeyForm::Private {
        return Err(Error::key(suite, KeyProblem::Form));
    }
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

/// Prepares a seed or a public key. Whether a public key's bytes are a point shows when a signature is verified.
pub(super) fn prepare_ed25519(key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
    let bytes = <&[u8; LEN]>::try_from(key.bytes).map_err(|_| Error::key(suite, KeyProblem::Length))?;
    if key.form == KeyForm::Public {
        return Ok(Prepared::key(suite, Ed25519Key { public: *bytes, private: None }));
    }
    let mut public = [0; LEN];
    let mut private = Wiped([0; 2 * LEN]);
    // SAFETY: the three have 32, 64 and 32 bytes, as the function wants.
    unsafe { sys::ED25519_keypair_from_seed(public.as_mut_ptr(), private.0.as_mut_ptr(), bytes.as_ptr()) };
    Ok(Prepared::key(suite, Ed25519Key { public, private: Some(private) }))
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
    // SAFETY: the signature has 64 bytes and the key 32, pointer and length are the slice's.
    let code =
        unsafe { sys::ED25519_verify(op.input.as_ptr(), op.input.len(), signature.as_ptr(), key.public.as_ptr()) };
    take_error();
    if code == 1 { OpStatus::Done } else { OpStatus::AuthFailed }
}
