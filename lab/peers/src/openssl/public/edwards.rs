//! X25519 and X448 (RFC 7748), and Ed25519 (RFC 8032).

use ciphermill_contract::suite::acceptance::ed25519;
use ciphermill_contract::{Direction, KeyForm, KeyMaterial, OpBuffers, OpStatus, Result, Suite};
use foreign_types::ForeignType;
use openssl::error::ErrorStack;
use openssl::md_ctx::MdCtx;
use openssl::pkey::{Id, PKey, Private, Public};
use openssl::pkey_ctx::PkeyCtx;
use openssl_sys as sys;

use super::{BAD_PUBLIC_VALUE, Context, Key, NoPrivateKey, Pair, unreadable};

/// Bytes of each half of a signature.
const LEN: usize = 32;

/// A scalar, and which curve it is for.
struct ScalarKey {
    private: PKey<Private>,
    id: Id,
}

/// Takes a scalar for X25519 or X448.
///
/// # Errors
/// `Refused`: `Encoding` when OpenSSL does not take it.
pub(super) fn agreement(key: &KeyMaterial<'_>, suite: Suite, id: Id) -> Result<Box<dyn Key>> {
    let private = PKey::private_key_from_raw_bytes(key.bytes, id).map_err(unreadable(suite))?;
    Ok(Box::new(ScalarKey { private, id }))
}

impl Key for ScalarKey {
    fn context(&self, _direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack> {
        let mut context = PkeyCtx::new(&self.private)?;
        // The base point (RFC 7748, 4.1 and 4.2): a public value to begin with.
        let (base, len) = if self.id == Id::X448 { (5, 56) } else { (9, 32) };
        let mut value = vec![0; len];
        value[0] = base;
        let peer = PKey::public_key_from_raw_bytes(&value, self.id)?;
        context.derive_init()?;
        context.derive_set_peer(&peer)?;
        Ok(Box::new(Agreement { context, peer, len }))
    }
}

/// A context and the peer's key that was set in it. The context holds a reference to that key, so that a public value that is set
/// in it is the next one's: a tenth less time than with a key object for each operation.
struct Agreement {
    context: PkeyCtx<Private>,
    peer: PKey<Public>,
    /// Bytes of a shared secret.
    len: usize,
}

impl Context for Agreement {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let (name, value) = (c"encoded-pub-key", op.input);
        // SAFETY: the key is whole and nobody else uses it, the name ends with its nul, pointer and length are the slice's.
        let set = unsafe {
            sys::EVP_PKEY_set_octet_string_param(self.peer.as_ptr(), name.as_ptr(), value.as_ptr(), value.len())
        };
        if set != 1 {
            return OpStatus::EngineFault;
        }
        match self.context.derive(Some(op.data)) {
            Ok(len) if len == self.len => OpStatus::Done,
            Ok(_) => OpStatus::EngineFault,
            // It fails for points of small order only (RFC 7748, 6.1 and 6.2).
            Err(_) => BAD_PUBLIC_VALUE,
        }
    }
}

struct Ed25519Key(Pair);

/// Takes a seed or a public key, whose encoding and order the contract has looked at.
///
/// # Errors
/// As [`agreement`].
pub(super) fn signature(key: &KeyMaterial<'_>, suite: Suite) -> Result<Box<dyn Key>> {
    let parse = || {
        if key.form == KeyForm::Public {
            return Ok(Pair { private: None, public: PKey::public_key_from_raw_bytes(key.bytes, Id::ED25519)? });
        }
        let private = PKey::private_key_from_raw_bytes(key.bytes, Id::ED25519)?;
        let public = PKey::public_key_from_raw_bytes(&private.raw_public_key()?, Id::ED25519)?;
        Ok(Pair { private: Some(private), public })
    };
    Ok(Box::new(Ed25519Key(parse().map_err(unreadable(suite))?)))
}

impl Key for Ed25519Key {
    fn context(&self, direction: Direction) -> std::result::Result<Box<dyn Context>, ErrorStack> {
        let mut context = MdCtx::new()?;
        match (direction, &self.0.private) {
            (Direction::Encrypt, None) => Ok(Box::new(NoPrivateKey)),
            (Direction::Encrypt, Some(private)) => {
                context.digest_sign_init(None, private)?;
                Ok(Box::new(Signer(context)))
            }
            (Direction::Decrypt, _) => {
                context.digest_verify_init(None, &self.0.public)?;
                Ok(Box::new(Verifier(context)))
            }
        }
    }
}

struct Signer(MdCtx);

impl Context for Signer {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let Some(out) = op.tag.get_mut(..2 * LEN) else { return OpStatus::EngineFault };
        match self.0.digest_sign(op.input, Some(out)) {
            Ok(written) if written == 2 * LEN => OpStatus::Done,
            _ => OpStatus::EngineFault,
        }
    }
}

struct Verifier(MdCtx);

impl Context for Verifier {
    fn run(&mut self, op: &mut OpBuffers<'_>) -> OpStatus {
        let is_strict = op.tag.first_chunk().is_some_and(ed25519::is_strict);
        match is_strict && matches!(self.0.digest_verify(op.input, op.tag), Ok(true)) {
            true => OpStatus::Done,
            false => OpStatus::AuthFailed,
        }
    }
}
