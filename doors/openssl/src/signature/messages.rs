//! Signatures of whole messages, which `EVP_PKEY_sign_message_init` begins since 3.4: the scheme has its digest in its name, or none.
//!
//! As with `EVP_DigestSign…`, `default` is given the parts of a message as well, in case that it is to sign in the end.

use std::ffi::{CStr, c_int};

use super::{SCHEMES, SignContext, Stage, begin_message, by_default, functions, signatures};
use crate::context::pass;
use crate::dispatch::{Object, Signatures};
use crate::ffi::{Dispatch, Param};
use crate::guard::{bytes, guarded};
use crate::key::Key;
use crate::params::{END, ask_text};

/// The dispatch tables of [`SCHEMES`].
pub(crate) fn tables() -> [Vec<Dispatch>; SCHEMES.len()] {
    macro_rules! each {
        ($($of:literal)*) => { [$(with_messages::<$of>().write()),*] };
    }
    each!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25)
}

/// Our functions for a scheme: all that `default` has.
fn with_messages<const OF: usize>() -> Signatures {
    let inner = functions(OF);
    Signatures {
        sign: inner.sign.and(Some(sign)),
        // Names, which belong to no context.
        query_key_types: inner.query_key_types,
        sign_message_init: inner.sign_message_init.and(Some(sign_message_init)),
        sign_message_update: inner.sign_message_update.and(Some(sign_message_update)),
        sign_message_final: inner.sign_message_final.and(Some(sign_message_final)),
        verify_message_init: inner.verify_message_init.and(Some(verify_message_init)),
        verify_message_update: inner.verify_message_update.and(Some(verify_message_update)),
        verify_message_final: inner.verify_message_final.and(Some(verify_message_final)),
        ..signatures::<OF>()
    }
}

unsafe extern "C" fn sign_message_init(context: Object, key: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: a key of ours, or null.
        let inner_key = unsafe { Key::inner_of(key) };
        let begun = pass!(SignContext, context, 0, sign_message_init(inner_key, params));
        // SAFETY: the core's arguments.
        let Some(own) = (unsafe { SignContext::of(context) }).filter(|_| begun == 1) else { return begun };
        // SAFETY: as above.
        unsafe { own.begin(key, params) };
        own.stage = Stage::Begun;
        if own.scheme().of_messages().is_none() {
            // Without a digest of ours `default` has the message alone.
            // SAFETY: as above.
            own.message = own.digest_name().and_then(|name| unsafe { begin_message(until_zero(&name)?, params) });
        }
        1
    })
}

fn until_zero(name: &[u8]) -> Option<&CStr> {
    CStr::from_bytes_until_nul(name).ok()
}

impl SignContext {
    /// The digest that a context of `default` signs, ended by a zero.
    fn digest_name(&self) -> Option<[u8; 64]> {
        let mut name = [0; 64];
        let mut params = [ask_text(c"digest", &mut name), END];
        // SAFETY: a context of these functions; a parameter with room for the answer.
        (unsafe { self.functions().get_ctx_params?(self.inner, params.as_mut_ptr()) } == 1).then_some(name)
    }

    /// Signs the digest of a message that has ended; zero when `default` is to sign, which has the message from now on alone.
    ///
    /// # Safety
    /// As [`SignContext::answer_from_mill`].
    unsafe fn end_message(&mut self, out: *mut u8, len: *mut usize, room: usize) -> c_int {
        let Some((digest, digest_len)) = self.message.as_mut().and_then(|(message, _)| message.finish()) else {
            return 0;
        };
        // SAFETY: the caller's promise.
        let done = unsafe { self.answer_from_mill(&digest[..digest_len], out, len, room) };
        self.message = None;
        if done == 1 {
            self.stage = Stage::Ended;
        }
        done
    }
}

unsafe extern "C" fn sign(
    context: Object,
    out: *mut u8,
    len: *mut usize,
    room: usize,
    data: *const u8,
    data_len: usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        match unsafe { SignContext::of(context) }.filter(|own| own.stage != Stage::None) {
            // SAFETY: as above.
            Some(own) => unsafe { sign_whole(own, out, len, room, bytes(data, data_len)) },
            // SAFETY: as above.
            None => unsafe { super::sign(context, out, len, room, data, data_len) },
        }
    })
}

/// Signs a message that is there as a whole.
///
/// # Safety
/// `out` must be null, or writable for `room` bytes, and `len` for a number.
unsafe fn sign_whole(own: &mut SignContext, out: *mut u8, len: *mut usize, room: usize, message: &[u8]) -> c_int {
    if !out.is_null() {
        let done = match own.stage {
            Stage::Ended => return 0,
            // SAFETY: the caller's promise.
            _ if own.scheme().of_messages().is_some() => unsafe { own.answer_from_mill(message, out, len, room) },
            Stage::Begun if own.message.as_mut().is_some_and(|(digest, _)| digest.update(message).is_some()) => {
                // SAFETY: the caller's promise.
                unsafe { own.end_message(out, len, room) }
            }
            // After parts: whether that is allowed is for `default` to say.
            _ => 0,
        };
        if done == 1 {
            return 1;
        }
        own.message = None;
    }
    let done = match own.functions().sign {
        // SAFETY: the caller's promise; the context is of these functions.
        Some(sign) => unsafe { sign(own.inner, out, len, room, message.as_ptr(), message.len()) },
        None => 0,
    };
    own.alone = None;
    done
}

unsafe extern "C" fn sign_message_update(context: Object, data: *const u8, len: usize) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let Some(own) = (unsafe { SignContext::of(context) }).filter(|own| own.stage != Stage::Ended) else { return 0 };
        own.stage = Stage::InParts;
        if let Some((message, _)) = own.message.as_mut() {
            // SAFETY: as above.
            if message.update(unsafe { bytes(data, len) }).is_none() {
                return 0;
            }
        }
        pass!(SignContext, context, 0, sign_message_update(data, len))
    })
}

unsafe extern "C" fn sign_message_final(context: Object, out: *mut u8, len: *mut usize, room: usize) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        if let Some(own) = unsafe { SignContext::of(context) }.filter(|_| !out.is_null()) {
            // SAFETY: as above.
            if own.stage == Stage::Ended {
                return 0;
            }
            // SAFETY: as above.
            if unsafe { own.end_message(out, len, room) } == 1 {
                return 1;
            }
        }
        by_default(context, pass!(SignContext, context, 0, sign_message_final(out, len, room)))
    })
}

unsafe extern "C" fn verify_message_init(context: Object, key: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: a key of ours, or null.
        let inner_key = unsafe { Key::inner_of(key) };
        let begun = pass!(SignContext, context, 0, verify_message_init(inner_key, params));
        // SAFETY: the core's arguments.
        let Some(own) = (unsafe { SignContext::of(context) }).filter(|_| begun == 1) else { return begun };
        // SAFETY: as above.
        unsafe { own.begin(key, params) };
        if own.scheme().of_messages().is_some() {
            own.stage = Stage::Begun;
        } else {
            // What `verify` is given from now on is a message and no digest: without a key of ours it is left to `default`.
            own.key = None;
        }
        1
    })
}

unsafe extern "C" fn verify_message_update(context: Object, data: *const u8, len: usize) -> c_int {
    // SAFETY: the core's context.
    if let Some(own) = unsafe { SignContext::of(context) }.filter(|own| own.stage == Stage::Begun) {
        own.stage = Stage::InParts;
    }
    pass!(SignContext, context, 0, verify_message_update(data, len))
}

unsafe extern "C" fn verify_message_final(context: Object) -> c_int {
    pass!(SignContext, context, 0, verify_message_final())
}
