//! AES in modes of which lanes take many blocks at a time: a context of `default`, and the message in the mill where that is faster.
//!
//! `default` has every key, IV and parameter, so that it can do whatever we do not. A message of CTR or GCM is in the mill from its
//! first long part on; of modes over whole blocks each long part is, and all between the parts lies in `default`. Short ones stay
//! with `default`, which takes less around them.

mod block;
mod ctr;
mod gcm;
mod inner;
mod own;

use std::ffi::c_int;
use std::ptr;

use ciphermill_contract::{Direction, Suite};

use self::block::{Block, BlockMode};
use self::ctr::Ctr;
use self::gcm::Gcm;
pub(crate) use self::inner::CIPHERS;
use self::inner::{Begin, InnerCipher, Text, functions, suite};
use self::own::{OwnKey, let_go};
use crate::dispatch::{Ciphers, Object};
use crate::ffi::Param;
use crate::guard::{bytes, guarded};
use crate::params::Params;

/// Our functions for a cipher: all that `default` has.
pub(crate) fn ciphers<const OF: usize>() -> Ciphers {
    let inner = functions(OF);
    Ciphers {
        newctx: inner.newctx.and(Some(newctx::<OF>)),
        encrypt_init: inner.encrypt_init.and(Some(encrypt_init)),
        decrypt_init: inner.decrypt_init.and(Some(decrypt_init)),
        update: inner.update.and(Some(update)),
        finish: inner.finish.and(Some(finish)),
        cipher: inner.cipher.and(Some(cipher)),
        freectx: inner.freectx.and(Some(freectx)),
        dupctx: inner.dupctx.and(Some(dupctx)),
        get_ctx_params: inner.get_ctx_params.and(Some(get_ctx_params)),
        set_ctx_params: inner.set_ctx_params.and(Some(set_ctx_params)),
        ..*inner
    }
}

/// A context of an application.
struct CipherContext {
    inner: InnerCipher,
    key: Option<OwnKey>,
    mode: Mode,
}

#[derive(Clone)]
enum Mode {
    Ctr(Ctr),
    Gcm(Gcm),
    Block(Block),
}

impl Mode {
    fn new(suite: Suite) -> Mode {
        match (BlockMode::of(suite), suite) {
            (Some(mode), _) => Mode::Block(Block::new(mode)),
            (None, Suite::Aead(_)) => Mode::Gcm(Gcm::default()),
            (None, _) => Mode::Ctr(Ctr::default()),
        }
    }

    /// Lets go of messages under a key that has been replaced.
    fn forget_key(&mut self) {
        match self {
            Mode::Ctr(ctr) => let_go(ctr.own.take()),
            Mode::Gcm(gcm) => let_go(gcm.own.take()),
            Mode::Block(block) => block.forget_key(),
        }
    }
}

impl CipherContext {
    /// The context that an object is.
    ///
    /// # Safety
    /// Null, or an object of `newctx` or `dupctx` that is alive, and that no other call is using.
    unsafe fn of<'a>(object: Object) -> Option<&'a mut CipherContext> {
        // SAFETY: the caller's promise.
        unsafe { object.cast::<CipherContext>().as_mut() }
    }

    /// # Safety
    /// As [`InnerCipher::begin`].
    unsafe fn begin(&mut self, begin: &Begin<'_>, params: *const Param) -> bool {
        // SAFETY: an array of the core's.
        let told = unsafe { Params::new(params) };
        let CipherContext { inner, key, mode } = self;
        // Many applications give the same key with each message.
        let is_new_key = begin.key.is_some_and(|bytes| !key.as_ref().is_some_and(|key| key.is(bytes)));
        if is_new_key {
            *key = begin.key.and_then(|bytes| OwnKey::new(suite(inner.of), bytes));
            mode.forget_key();
        }
        let direction = if begin.encrypt { Direction::Encrypt } else { Direction::Decrypt };
        match mode {
            // SAFETY: the caller's promise.
            Mode::Ctr(ctr) => unsafe { ctr.begin(inner, begin, params) },
            Mode::Gcm(gcm) => {
                // SAFETY: the caller's promise.
                let done = unsafe { inner.begin(begin, params) };
                gcm.begin(direction, begin, &told, done);
                done
            }
            Mode::Block(block) => {
                // SAFETY: the caller's promise.
                let done = unsafe { inner.begin(begin, params) };
                block.begin(direction, begin, &told, done);
                done
            }
        }
    }

    fn duplicate(&self) -> Option<CipherContext> {
        Some(CipherContext { inner: self.inner.duplicate()?, key: self.key.clone(), mode: self.mode.clone() })
    }
}

unsafe extern "C" fn newctx<const OF: usize>(_: Object) -> Object {
    guarded(ptr::null_mut(), || {
        let Some(inner) = InnerCipher::new(OF) else { return ptr::null_mut() };
        Box::into_raw(Box::new(CipherContext { inner, key: None, mode: Mode::new(suite(OF)) })).cast()
    })
}

unsafe extern "C" fn freectx(context: Object) {
    guarded((), || {
        if !context.is_null() {
            // SAFETY: the core's own, which it does not use any more.
            let mut context = unsafe { Box::from_raw(context.cast::<CipherContext>()) };
            context.mode.forget_key();
        }
    });
}

unsafe extern "C" fn dupctx(context: Object) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: a context of ours.
        let copy = unsafe { CipherContext::of(context) }.and_then(|context| context.duplicate());
        copy.map_or(ptr::null_mut(), |copy| Box::into_raw(Box::new(copy)).cast())
    })
}

macro_rules! init {
    ($name:ident, $encrypt:literal) => {
        unsafe extern "C" fn $name(
            context: Object,
            key: *const u8,
            key_len: usize,
            iv: *const u8,
            iv_len: usize,
            params: *const Param,
        ) -> c_int {
            guarded(0, || {
                // SAFETY: a context of ours, and buffers of the lengths that the core says.
                unsafe {
                    let Some(context) = CipherContext::of(context) else { return 0 };
                    let part = |start: *const u8, len| (!start.is_null()).then(|| bytes(start, len));
                    let begin = Begin { encrypt: $encrypt, key: part(key, key_len), iv: part(iv, iv_len) };
                    c_int::from(context.begin(&begin, params))
                }
            })
        }
    };
}

init!(encrypt_init, true);
init!(decrypt_init, false);

unsafe extern "C" fn update(
    context: Object,
    out: *mut u8,
    out_len: *mut usize,
    room: usize,
    input: *const u8,
    len: usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: a context of ours, and buffers of the lengths that the core says.
        let written = unsafe {
            let Some(CipherContext { inner, key, mode }) = CipherContext::of(context) else { return 0 };
            let text = Text { out, input, len };
            match mode {
                Mode::Ctr(ctr) => ctr.update(inner, key, text, room),
                Mode::Gcm(gcm) => gcm.update(inner, key, text, room),
                Mode::Block(block) => block.update(inner, key, text, room),
            }
        };
        // SAFETY: a place for a length.
        unsafe { tell(written, out_len) }
    })
}

/// One call for all there is, which of CTR and GCM is another update; without input, GCM's end. Of modes over whole blocks it is
/// one without what is held back, which is rare.
unsafe extern "C" fn cipher(
    context: Object,
    out: *mut u8,
    out_len: *mut usize,
    room: usize,
    input: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: what the core promises; a context of ours.
    unsafe {
        if let Some(CipherContext { inner, mode: Mode::Block(_), .. }) = CipherContext::of(context) {
            let cipher = inner.functions().cipher;
            return cipher.map_or(0, |cipher| cipher(inner.object, out, out_len, room, input, len));
        }
        if input.is_null() {
            finish(context, out, out_len, room)
        } else {
            update(context, out, out_len, room, input, len)
        }
    }
}

unsafe extern "C" fn finish(context: Object, out: *mut u8, out_len: *mut usize, room: usize) -> c_int {
    guarded(0, || {
        // SAFETY: a context of ours, and buffers as the core says.
        unsafe {
            let Some(CipherContext { inner, mode, .. }) = CipherContext::of(context) else { return 0 };
            if let Mode::Gcm(gcm) = mode
                && let Some(done) = gcm.finish()
            {
                return tell(done.then_some(0), out_len);
            }
            let done = inner.functions().finish.map_or(0, |finish| finish(inner.object, out, out_len, room));
            if let Mode::Block(block) = mode {
                block.finished(done == 1);
            }
            done
        }
    })
}

/// Tells how many bytes came out.
///
/// # Safety
/// `out_len` must be writable.
unsafe fn tell(written: Option<usize>, out_len: *mut usize) -> c_int {
    let Some(written) = written else { return 0 };
    // SAFETY: the caller's promise.
    unsafe { *out_len = written };
    1
}

unsafe extern "C" fn get_ctx_params(context: Object, mut param: *mut Param) -> c_int {
    guarded(0, || {
        // SAFETY: a context of ours.
        let Some(CipherContext { inner, mode, .. }) = (unsafe { CipherContext::of(context) }) else { return 0 };
        // SAFETY: an array of the core's, ended by a null key.
        while let Some(asked) = unsafe { param.as_mut() }.filter(|param| !param.key.is_null()) {
            let own = match mode {
                Mode::Ctr(ctr) => ctr.get(asked),
                Mode::Gcm(gcm) => gcm.get(asked),
                Mode::Block(_) => None,
            };
            // SAFETY: a parameter of the core's.
            if !own.unwrap_or_else(|| unsafe { inner.get(asked) }) {
                return 0;
            }
            // SAFETY: this was not the end.
            param = unsafe { param.add(1) };
        }
        1
    })
}

unsafe extern "C" fn set_ctx_params(context: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: a context of ours, and an array of the core's.
        unsafe {
            let Some(CipherContext { inner, mode, .. }) = CipherContext::of(context) else { return 0 };
            let (told, set) = (Params::new(params), inner.functions().set_ctx_params);
            if let Mode::Ctr(ctr) = mode
                && !ctr.may_set(&told)
            {
                return 0;
            }
            let done = set.map_or(0, |set| set(inner.object, params));
            match mode {
                Mode::Ctr(_) => {}
                Mode::Gcm(gcm) => gcm.told(&told, done == 1),
                Mode::Block(block) => block.told(&told),
            }
            done
        }
    })
}
