//! Signatures: a context of `default` beside what signing in the mill needs.
//!
//! `default` checks parameters, verifies, and signs what the mill does not: its context goes through all of the same calls. The
//! digest of what is signed in several parts is computed here, since a context does not give it away.

mod curves;
pub(crate) mod messages;
mod rsa;
mod verification;

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::{Arc, OnceLock};

use ciphermill::ComesAlone;
use ciphermill_contract::suite::MlDsaSet;

use crate::backend::Backend;
use crate::context::{beside, pass};
use crate::dispatch::{Object, Signatures};
use crate::ffi::{self, Param};
use crate::guard::{answer, bytes, guarded};
use crate::inner::{Inner, Md, MdContext, provider_context};
use crate::key::Key;
use crate::params::Params;
use crate::run::left_alone;

/// Signatures that are made here, by the names that `default` has for them. Those with a digest are algorithms of their own since 3.4.
pub(crate) const SCHEMES: [(&CStr, Scheme); 26] = [
    (c"RSA", Scheme::Rsa),
    (c"ECDSA", Scheme::Ecdsa),
    (c"ED25519", Scheme::Ed25519),
    (c"RSA-SHA1", Scheme::Rsa),
    (c"RSA-SHA2-224", Scheme::Rsa),
    (c"RSA-SHA2-256", Scheme::Rsa),
    (c"RSA-SHA2-384", Scheme::Rsa),
    (c"RSA-SHA2-512", Scheme::Rsa),
    (c"RSA-SHA2-512/224", Scheme::Rsa),
    (c"RSA-SHA2-512/256", Scheme::Rsa),
    (c"RSA-SHA3-224", Scheme::Rsa),
    (c"RSA-SHA3-256", Scheme::Rsa),
    (c"RSA-SHA3-384", Scheme::Rsa),
    (c"RSA-SHA3-512", Scheme::Rsa),
    (c"ECDSA-SHA1", Scheme::Ecdsa),
    (c"ECDSA-SHA2-224", Scheme::Ecdsa),
    (c"ECDSA-SHA2-256", Scheme::Ecdsa),
    (c"ECDSA-SHA2-384", Scheme::Ecdsa),
    (c"ECDSA-SHA2-512", Scheme::Ecdsa),
    (c"ECDSA-SHA3-224", Scheme::Ecdsa),
    (c"ECDSA-SHA3-256", Scheme::Ecdsa),
    (c"ECDSA-SHA3-384", Scheme::Ecdsa),
    (c"ECDSA-SHA3-512", Scheme::Ecdsa),
    (c"ML-DSA-44", Scheme::MlDsa(MlDsaSet::MlDsa44)),
    (c"ML-DSA-65", Scheme::MlDsa(MlDsaSet::MlDsa65)),
    (c"ML-DSA-87", Scheme::MlDsa(MlDsaSet::MlDsa87)),
];

/// How a scheme signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Rsa,
    Ecdsa,
    Ed25519,
    MlDsa(MlDsaSet),
}

impl Scheme {
    /// Bytes of a signature of schemes that sign messages as they are, without a digest; `None` of those that sign digests.
    fn of_messages(self) -> Option<usize> {
        match self {
            Scheme::Rsa | Scheme::Ecdsa => None,
            Scheme::Ed25519 => Some(64),
            Scheme::MlDsa(set) => Some(set.signature_len()),
        }
    }
}

static FUNCTIONS: [OnceLock<Signatures>; SCHEMES.len()] = [const { OnceLock::new() }; SCHEMES.len()];

/// How far the signature of a whole message has come, which only [`messages`] begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none: what is signed is a digest.
    None,
    /// It has begun, and nothing of the message has come yet.
    Begun,
    /// Parts of the message have come.
    InParts,
    /// The mill has signed: nothing follows.
    Ended,
}

/// A context of an application.
struct SignContext {
    of: usize,
    inner: Object,
    key: Option<Arc<Key>>,
    /// The message so far, and its digest: between `digest_sign_init` and `digest_sign_final`.
    message: Option<(MdContext, Md)>,
    /// What `default` says of paddings, and of the length of digests; found out when they are first needed.
    padding: Option<rsa::Padding>,
    digest_len: Option<usize>,
    /// Whether it has parameters that only `default` knows.
    is_special: bool,
    /// How far the signature of a whole message has come.
    stage: Stage,
    /// While `default` does what would be alone in the mill.
    alone: Option<ComesAlone<'static>>,
}

/// Parameters that leave a signature within what is made here, or that we ask `default` for.
const KNOWN: [&CStr; 6] = [c"digest", c"properties", c"pad-mode", c"saltlen", c"mgf1-digest", c"mgf1-properties"];

/// Whether `default` takes it that `sign` is given a message once signing in parts has begun, as it does since 3.4. It is given the
/// parts as well then, in case that it is to sign in the end.
fn signs_messages() -> bool {
    const SINCE: u64 = 0x3040_0000;
    // SAFETY: no precondition.
    unsafe { ffi::OpenSSL_version_num() >= SINCE }
}

/// The functions of `default` for a scheme.
pub(crate) fn functions(of: usize) -> &'static Signatures {
    FUNCTIONS[of].get_or_init(|| Inner::functions(SCHEMES[of].0))
}

/// Our functions for a scheme: all that `default` of 3.0 has.
fn signatures<const OF: usize>() -> Signatures {
    let inner = functions(OF);
    let in_parts = inner.digest_sign_update.is_some();
    Signatures {
        newctx: inner.newctx.and(Some(newctx::<OF>)),
        sign_init: inner.sign_init.and(Some(sign_init)),
        sign: inner.sign.and(Some(sign)),
        verify_init: inner.verify_init.and(Some(verification::verify_init)),
        verify: inner.verify.and(Some(verification::verify)),
        verify_recover_init: inner.verify_recover_init.and(Some(verification::verify_recover_init)),
        verify_recover: inner.verify_recover.and(Some(verification::verify_recover)),
        digest_sign_init: inner.digest_sign_init.and(Some(digest_sign_init)),
        digest_sign_update: inner.digest_sign_update.and(Some(digest_sign_update)),
        digest_sign_final: inner.digest_sign_final.and(Some(digest_sign_final)),
        // The core takes the ways in parts where there are any.
        digest_sign: inner.digest_sign.filter(|_| !in_parts).and(Some(digest_sign)),
        digest_verify_init: inner.digest_verify_init.and(Some(verification::digest_verify_init)),
        digest_verify_update: inner.digest_verify_update.and(Some(verification::digest_verify_update)),
        digest_verify_final: inner.digest_verify_final.and(Some(verification::digest_verify_final)),
        digest_verify: inner.digest_verify.filter(|_| !in_parts).and(Some(verification::digest_verify)),
        freectx: inner.freectx.and(Some(freectx)),
        dupctx: inner.dupctx.and(Some(dupctx)),
        get_ctx_params: inner.get_ctx_params.and(Some(get_ctx_params)),
        gettable_ctx_params: inner.gettable_ctx_params.and(Some(gettable_ctx_params::<OF>)),
        set_ctx_params: inner.set_ctx_params.and(Some(set_ctx_params)),
        settable_ctx_params: inner.settable_ctx_params.and(Some(settable_ctx_params::<OF>)),
        get_ctx_md_params: inner.get_ctx_md_params.and(Some(get_ctx_md_params)),
        gettable_ctx_md_params: inner.gettable_ctx_md_params.and(Some(gettable_ctx_md_params)),
        set_ctx_md_params: inner.set_ctx_md_params.and(Some(set_ctx_md_params)),
        settable_ctx_md_params: inner.settable_ctx_md_params.and(Some(settable_ctx_md_params)),
        // Of later versions; `messages` has them.
        ..Signatures::default()
    }
}

beside!(SignContext, Signatures);

impl SignContext {
    fn scheme(&self) -> Scheme {
        SCHEMES[self.of].1
    }

    /// Takes note of what an operation begins with.
    ///
    /// # Safety
    /// The key must be null, for the one that the context has already, or a key of ours; the parameters those of the core.
    unsafe fn begin(&mut self, key: Object, params: *const Param) {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(key) = Key::keep(key) {
                self.key = Some(key);
            }
            (self.message, self.stage) = (None, Stage::None);
            self.set(params);
        }
    }

    /// Takes note of parameters.
    ///
    /// # Safety
    /// The parameters must be those of the core.
    unsafe fn set(&mut self, params: *const Param) {
        // SAFETY: the caller's promise.
        let params = unsafe { Params::new(params) };
        self.is_special |= params.keys().any(|key| !KNOWN.contains(&key));
        (self.padding, self.digest_len) = (None, None);
    }

    /// Signs a digest, or a message where the scheme takes messages, in the mill. `None` when `default` is to do it.
    fn sign_in_mill(&mut self, input: &[u8]) -> Option<Vec<u8>> {
        let key = self.key.as_ref().filter(|_| !self.is_special)?;
        let backend = Backend::current()?;
        let suite = key.usable(backend)?.1.signature()?;
        self.alone = if key.is_whole() { left_alone(backend, suite, input.len()) } else { None };
        if self.alone.is_some() {
            return None;
        }
        match self.scheme() {
            Scheme::Rsa => {
                if self.padding.is_none() {
                    self.padding = Some(rsa::Padding::of(self.functions(), self.inner)?);
                }
                rsa::sign(backend, key, self.padding.as_ref()?, input)
            }
            Scheme::Ecdsa => {
                if self.digest_len.is_none() {
                    self.digest_len = Some(curves::digest_len(self.functions(), self.inner)?);
                }
                // Without a digest inputs may have any length.
                let len = self.digest_len.filter(|len| *len != 0).unwrap_or(input.len());
                if len == input.len() { curves::ecdsa(backend, key, input) } else { None }
            }
            Scheme::Ed25519 | Scheme::MlDsa(_) => curves::of_message(backend, key, input),
        }
    }

    /// Bytes that a signature may have.
    fn room_needed(&self) -> Option<usize> {
        let (mut needed, functions) = (0, self.functions());
        // Since 3.4 who has begun a message in parts is asked at its end; others refuse to answer then.
        let end = match self.stage {
            Stage::None if self.message.is_some() && signs_messages() => functions.digest_sign_final,
            Stage::InParts => functions.sign_message_final,
            _ => None,
        };
        if let Some(len) = self.scheme().of_messages() {
            return Some(len);
        }
        let asked = match (end, functions.sign) {
            // SAFETY: a context of these functions, which is asked for a length.
            (Some(end), _) => unsafe { end(self.inner, ptr::null_mut(), &mut needed, 0) },
            // SAFETY: as above.
            (None, Some(sign)) => unsafe { sign(self.inner, ptr::null_mut(), &mut needed, 0, ptr::null(), 0) },
            _ => 0,
        };
        (asked == 1).then_some(needed)
    }

    /// Signs in the mill and answers with the signature; zero when `default` is to do it.
    ///
    /// # Safety
    /// `out` must be writable for `room` bytes and `len` for a number.
    unsafe fn answer_from_mill(&mut self, input: &[u8], out: *mut u8, len: *mut usize, room: usize) -> c_int {
        // As `default` wants it, which has the last word on room that is too small.
        if self.room_needed().is_none_or(|needed| room < needed) {
            return 0;
        }
        let signature = self.sign_in_mill(input);
        // SAFETY: the caller's promise.
        c_int::from(signature.is_some_and(|signature| unsafe { answer(&signature, out, len, room) }))
    }
}

unsafe extern "C" fn newctx<const OF: usize>(_: Object, _: *const c_char) -> Object {
    guarded(ptr::null_mut(), || {
        let Some(new) = functions(OF).newctx else { return ptr::null_mut() };
        // SAFETY: the context is that of `default`, whose function it is. The application's wishes for properties choose among the
        // providers of its own library context; in ours there is one.
        let inner = unsafe { new(provider_context(), ptr::null()) };
        if inner.is_null() {
            return ptr::null_mut();
        }
        let context = SignContext {
            of: OF,
            inner,
            key: None,
            message: None,
            padding: None,
            digest_len: None,
            is_special: false,
            stage: Stage::None,
            alone: None,
        };
        Box::into_raw(Box::new(context)).cast()
    })
}

unsafe extern "C" fn dupctx(context: Object) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: a context of ours, or null.
        let Some(from) = (unsafe { SignContext::of(context) }) else { return ptr::null_mut() };
        let message = match &from.message {
            Some((message, md)) => match message.copy() {
                Some(copy) => Some((copy, md.clone())),
                None => return ptr::null_mut(),
            },
            None => None,
        };
        let Some(dup) = from.functions().dupctx else { return ptr::null_mut() };
        // SAFETY: the context is of these functions.
        let inner = unsafe { dup(from.inner) };
        if inner.is_null() {
            return ptr::null_mut();
        }
        let key = from.key.clone();
        let copy = SignContext {
            of: from.of,
            inner,
            key,
            message,
            padding: from.padding.clone(),
            digest_len: from.digest_len,
            is_special: from.is_special,
            stage: from.stage,
            alone: None,
        };
        Box::into_raw(Box::new(copy)).cast()
    })
}

unsafe extern "C" fn sign_init(context: Object, key: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let inner_key = unsafe {
            if let Some(own) = SignContext::of(context) {
                own.begin(key, params);
            }
            Key::inner_of(key)
        };
        pass!(SignContext, context, 0, sign_init(inner_key, params))
    })
}

unsafe extern "C" fn sign(
    context: Object,
    out: *mut u8,
    len: *mut usize,
    room: usize,
    digest: *const u8,
    digest_len: usize,
) -> c_int {
    guarded(0, || {
        // What schemes of messages sign so are digests under a variant of the scheme, or nothing.
        // SAFETY: the core's arguments.
        let own = unsafe { SignContext::of(context) }.filter(|own| own.scheme().of_messages().is_none());
        if !out.is_null() {
            // SAFETY: the core's arguments.
            let done = unsafe { own.map_or(0, |own| own.answer_from_mill(bytes(digest, digest_len), out, len, room)) };
            if done == 1 {
                return 1;
            }
        }
        by_default(context, pass!(SignContext, context, 0, sign(out, len, room, digest, digest_len)))
    })
}

/// What `default` begins a message with.
type Init = unsafe extern "C" fn(Object, *const c_char, Object, *const Param) -> c_int;

/// Begins a message that is signed or verified, under a digest of ours where `is_ours` says so. Without one `default` has the message,
/// as it has with digests that are not to be had.
///
/// # Safety
/// What the core promises of its arguments.
unsafe fn digest_init(
    context: Object,
    init: fn(&Signatures) -> Option<Init>,
    (md, key, params): (*const c_char, Object, *const Param),
    is_ours: fn(&SignContext) -> bool,
) -> c_int {
    guarded(0, || {
        // SAFETY: the caller's promise.
        let Some(own) = (unsafe { SignContext::of(context) }) else { return 0 };
        own.message = None;
        let Some(init) = init(own.functions()) else { return 0 };
        // SAFETY: the context is of these functions, the key ours or null.
        let begun = unsafe { init(own.inner, md, Key::inner_of(key), params) };
        if begun == 1 {
            // SAFETY: the caller's promise; the digest's name is null or a string.
            unsafe {
                own.begin(key, params);
                if !md.is_null() && is_ours(own) {
                    own.message = begin_message(CStr::from_ptr(md), params);
                }
            }
        }
        begun
    })
}

unsafe extern "C" fn digest_sign_init(context: Object, md: *const c_char, key: Object, params: *const Param) -> c_int {
    let is_ours = |own: &SignContext| own.functions().digest_sign_update.is_some();
    // SAFETY: the core's arguments.
    unsafe { digest_init(context, |functions| functions.digest_sign_init, (md, key, params), is_ours) }
}

/// Begins a message under a digest.
///
/// # Safety
/// The parameters must be those of the core.
unsafe fn begin_message(name: &CStr, params: *const Param) -> Option<(MdContext, Md)> {
    let (md, mut message) = (Md::fetch(name)?, MdContext::new()?);
    // SAFETY: the caller's promise.
    unsafe { message.begin_with(&md, params)? };
    Some((message, md))
}

/// Takes more of a message; `None` when `default` is to have it, besides or alone.
///
/// # Safety
/// What the core promises of its arguments.
unsafe fn digest_update(context: Object, data: *const u8, len: usize) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let (message, _) = unsafe { SignContext::of(context) }?.message.as_mut()?;
    // SAFETY: as above.
    if message.update(unsafe { bytes(data, len) }).is_none() {
        return Some(0);
    }
    (!signs_messages()).then_some(1)
}

unsafe extern "C" fn digest_sign_update(context: Object, data: *const u8, len: usize) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let taken = unsafe { digest_update(context, data, len) };
        taken.unwrap_or_else(|| pass!(SignContext, context, 0, digest_sign_update(data, len)))
    })
}

unsafe extern "C" fn digest_sign_final(context: Object, out: *mut u8, len: *mut usize, room: usize) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let own = unsafe { SignContext::of(context) };
        // Asked for the length of a signature, the message goes on.
        let Some((message, _)) = own.filter(|_| !out.is_null()).and_then(|own| own.message.as_mut()) else {
            return by_default(context, pass!(SignContext, context, 0, digest_sign_final(out, len, room)));
        };
        let Some((digest, digest_len)) = message.finish() else { return 0 };
        // SAFETY: as above.
        let done = unsafe {
            SignContext::of(context).map_or(0, |own| own.answer_from_mill(&digest[..digest_len], out, len, room))
        };
        if done == 1 {
            // Asked for a length, `default` ends the message too.
            let mut needed = 0;
            return pass!(SignContext, context, 0, digest_sign_final(ptr::null_mut(), &mut needed, 0));
        }
        if signs_messages() {
            return by_default(context, pass!(SignContext, context, 0, digest_sign_final(out, len, room)));
        }
        // It signs digests in the state that `digest_sign_init` has left it in.
        by_default(context, pass!(SignContext, context, 0, sign(out, len, room, digest.as_ptr(), digest_len)))
    })
}

unsafe extern "C" fn digest_sign(
    context: Object,
    out: *mut u8,
    len: *mut usize,
    room: usize,
    message: *const u8,
    message_len: usize,
) -> c_int {
    guarded(0, || {
        if !out.is_null() {
            // SAFETY: the core's arguments.
            let done = unsafe {
                SignContext::of(context)
                    .map_or(0, |own| own.answer_from_mill(bytes(message, message_len), out, len, room))
            };
            if done == 1 {
                return 1;
            }
        }
        by_default(context, pass!(SignContext, context, 0, digest_sign(out, len, room, message, message_len)))
    })
}

unsafe extern "C" fn set_ctx_params(context: Object, params: *const Param) -> c_int {
    // SAFETY: the core's arguments.
    if let Some(own) = unsafe { SignContext::of(context) } {
        // SAFETY: as above.
        guarded((), || unsafe { own.set(params) });
    }
    pass!(SignContext, context, 0, set_ctx_params(params))
}

unsafe extern "C" fn get_ctx_md_params(context: Object, params: *mut Param) -> c_int {
    pass!(SignContext, context, 0, get_ctx_md_params(params))
}

unsafe extern "C" fn gettable_ctx_md_params(context: Object) -> *const Param {
    pass!(SignContext, context, ptr::null(), gettable_ctx_md_params())
}

unsafe extern "C" fn set_ctx_md_params(context: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        unsafe {
            if let Some((message, _)) = SignContext::of(context).and_then(|own| own.message.as_mut())
                && message.set(params).is_none()
            {
                return 0;
            }
        }
        pass!(SignContext, context, 0, set_ctx_md_params(params))
    })
}

unsafe extern "C" fn settable_ctx_md_params(context: Object) -> *const Param {
    pass!(SignContext, context, ptr::null(), settable_ctx_md_params())
}
