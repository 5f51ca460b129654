//! Verification: in the mill where `default` is many times slower, on P-384, on P-521 and with ML-DSA; all else is left to it.
//!
//! RSA takes `default` as long as sharing a batch costs, P-256 hardly longer. What does not verify in the mill `default` looks at once
//! more, so that errors are its own.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicU32, Ordering};

use ciphermill_contract::Direction;
use ciphermill_contract::suite::Curve;
use zeroize::Zeroizing;

use super::{Scheme, SignContext, Stage, by_default, curves, digest_init, digest_update, signs_messages};
use crate::backend::{Backend, Preference, preference};
use crate::context::pass;
use crate::dispatch::Object;
use crate::ffi::Param;
use crate::guard::{bytes, guarded};
use crate::key::Key;
use crate::material::{KeyType, Usable};
use crate::operation::Operation;
use crate::run::{left_alone_in, run};

/// Signatures that a process leaves to `default` before it opens a mill for them, which takes as long as some of them.
const LEFT_MAX: u32 = 16;

/// Whether a key's signatures are worth the mill.
fn is_worth(key: &Key) -> bool {
    static LEFT: AtomicU32 = AtomicU32::new(0);
    if !matches!(key.key_type(), KeyType::MlDsa(_)) && !matches!(key.curve(), Some(Curve::P384 | Curve::P521)) {
        return false;
    }
    preference() == Preference::Mill
        || Backend::opened().is_some()
        || LEFT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| (left < LEFT_MAX).then_some(left + 1))
            .is_err()
}

impl SignContext {
    /// Whether a signature of a digest, or of a message where the scheme signs messages, is right, by the mill. False when `default` is to
    /// look at it, among others where it is wrong.
    fn verifies_in_mill(&mut self, input: &[u8], signature: &[u8]) -> bool {
        self.verified(input, signature).is_some()
    }

    fn verified(&mut self, input: &[u8], signature: &[u8]) -> Option<Operation> {
        let key = self.key.as_ref().filter(|key| !self.is_special && is_worth(key))?;
        if self.scheme() == Scheme::Ecdsa {
            // With a digest `default` wants its length.
            let len = curves::digest_len(self.functions(), self.inner)?;
            if len != 0 && len != input.len() {
                return None;
            }
        }
        let backend = Backend::current()?;
        let (id, usable) = key.public(backend)?;
        let suite = usable.signature()?;
        let tag = match (self.scheme(), usable) {
            (Scheme::Ecdsa, Usable::Ec(curve)) => curves::fixed(signature, curve.order_len())?,
            (Scheme::MlDsa(set), Usable::MlDsa(_)) if signature.len() == set.signature_len() => signature.to_vec(),
            _ => return None,
        };
        if !suite.input_len(Direction::Decrypt).contains(input.len()) {
            return None;
        }
        self.alone = left_alone_in(backend, suite, Direction::Decrypt, input.len());
        if self.alone.is_some() {
            return None;
        }
        let data = Zeroizing::new(input.to_vec());
        run(backend, Operation { suite, direction: Direction::Decrypt, key: id, data, input_len: input.len(), tag })
    }
}

pub(super) unsafe extern "C" fn verify_init(context: Object, key: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let inner_key = unsafe {
            if let Some(own) = SignContext::of(context) {
                own.begin(key, params);
            }
            Key::inner_of(key)
        };
        pass!(SignContext, context, 0, verify_init(inner_key, params))
    })
}

pub(super) unsafe extern "C" fn verify(
    context: Object,
    signature: *const u8,
    len: usize,
    digest: *const u8,
    digest_len: usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let is_right = unsafe {
            // What schemes of messages are given without a message's beginning is something else.
            SignContext::of(context)
                .filter(|own| own.scheme().of_messages().is_some() == (own.stage == Stage::Begun))
                .is_some_and(|own| own.verifies_in_mill(bytes(digest, digest_len), bytes(signature, len)))
        };
        if is_right {
            return 1;
        }
        by_default(context, pass!(SignContext, context, 0, verify(signature, len, digest, digest_len)))
    })
}

pub(super) unsafe extern "C" fn verify_recover_init(context: Object, key: Object, params: *const Param) -> c_int {
    // SAFETY: a key of ours, or null.
    let key = unsafe { Key::inner_of(key) };
    pass!(SignContext, context, 0, verify_recover_init(key, params))
}

pub(super) unsafe extern "C" fn verify_recover(
    context: Object,
    out: *mut u8,
    len: *mut usize,
    room: usize,
    signature: *const u8,
    signature_len: usize,
) -> c_int {
    pass!(SignContext, context, 0, verify_recover(out, len, room, signature, signature_len))
}

pub(super) unsafe extern "C" fn digest_verify_init(
    context: Object,
    md: *const c_char,
    key: Object,
    params: *const Param,
) -> c_int {
    let is_ours =
        |own: &SignContext| own.scheme() == Scheme::Ecdsa && own.key.as_ref().is_some_and(|key| is_worth(key));
    // SAFETY: the core's arguments.
    unsafe { digest_init(context, |functions| functions.digest_verify_init, (md, key, params), is_ours) }
}

pub(super) unsafe extern "C" fn digest_verify_update(context: Object, data: *const u8, len: usize) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let taken = unsafe { digest_update(context, data, len) };
        taken.unwrap_or_else(|| pass!(SignContext, context, 0, digest_verify_update(data, len)))
    })
}

pub(super) unsafe extern "C" fn digest_verify_final(context: Object, signature: *const u8, len: usize) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let own = unsafe { SignContext::of(context) };
        let Some((message, _)) = own.and_then(|own| own.message.as_mut()) else {
            return pass!(SignContext, context, 0, digest_verify_final(signature, len));
        };
        let Some((digest, digest_len)) = message.finish() else { return 0 };
        let digest = &digest[..digest_len];
        // SAFETY: as above.
        let is_right =
            unsafe { SignContext::of(context).is_some_and(|own| own.verifies_in_mill(digest, bytes(signature, len))) };
        if is_right {
            return 1;
        }
        if signs_messages() {
            return by_default(context, pass!(SignContext, context, 0, digest_verify_final(signature, len)));
        }
        // It verifies digests in the state that `digest_verify_init` has left it in.
        by_default(context, pass!(SignContext, context, 0, verify(signature, len, digest.as_ptr(), digest_len)))
    })
}

pub(super) unsafe extern "C" fn digest_verify(
    context: Object,
    signature: *const u8,
    len: usize,
    message: *const u8,
    message_len: usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let is_right = unsafe {
            SignContext::of(context)
                .is_some_and(|own| own.verifies_in_mill(bytes(message, message_len), bytes(signature, len)))
        };
        if is_right {
            return 1;
        }
        by_default(context, pass!(SignContext, context, 0, digest_verify(signature, len, message, message_len)))
    })
}
