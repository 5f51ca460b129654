//! AES in modes of which lanes take many blocks at a time: a context of `default`, and the message in the mill where that is faster.
//!
//! `default` has every key, IV and parameter, so that it can do whatever we do not; a message is in the mill from its first long part
//! on. Short ones stay with `default`, which takes less around them.

mod ctr;
mod gcm;
mod own;

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;
use std::{ptr, slice};

use ciphermill_contract::suite::AesSize;
use ciphermill_contract::{Direction, Suite};

use self::ctr::Ctr;
use self::gcm::Gcm;
use self::own::{OwnKey, let_go};
use crate::dispatch::{Ciphers, Object};
use crate::ffi::{Param, op};
use crate::guard::{bytes, guarded};
use crate::inner::{Inner, provider_context};
use crate::params::{END, Params};

/// Ciphers that are offered, by the names that `default` has for them.
pub(crate) const CIPHERS: [&CStr; 6] =
    [c"AES-128-CTR", c"AES-192-CTR", c"AES-256-CTR", c"AES-128-GCM", c"AES-192-GCM", c"AES-256-GCM"];

const SIZES: [AesSize; 3] = [AesSize::Aes128, AesSize::Aes192, AesSize::Aes256];

static FUNCTIONS: [OnceLock<Ciphers>; CIPHERS.len()] = [const { OnceLock::new() }; CIPHERS.len()];

/// The functions of `default` for a cipher.
fn functions(of: usize) -> &'static Ciphers {
    FUNCTIONS[of].get_or_init(|| {
        let found = Inner::shared().and_then(|inner| inner.find(op::CIPHER, CIPHERS[of]));
        // SAFETY: the table is one of ciphers.
        found.map(|found| unsafe { Ciphers::read(found.implementation) }).unwrap_or_default()
    })
}

/// What the mill is asked for.
fn suite(of: usize) -> Suite {
    use ciphermill_contract::suite::{Aead, BlockCipher, Mode};
    let size = SIZES[of % SIZES.len()];
    if of < SIZES.len() { Suite::Cipher(BlockCipher::Aes(size), Mode::Ctr) } else { Suite::Aead(Aead::AesGcm(size)) }
}

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
}

impl Mode {
    /// Lets go of messages under a key that has been replaced.
    fn forget_key(&mut self) {
        match self {
            Mode::Ctr(ctr) => let_go(ctr.own.take()),
            Mode::Gcm(gcm) => let_go(gcm.own.take()),
        }
    }
}

/// A context of `default`.
struct InnerCipher {
    of: usize,
    object: Object,
}

/// Where bytes come from and go to, as the core hands them over.
#[derive(Clone, Copy)]
struct Text {
    out: *mut u8,
    input: *const u8,
    len: usize,
}

/// What a message is begun with.
struct Begin<'b> {
    encrypt: bool,
    key: Option<&'b [u8]>,
    iv: Option<&'b [u8]>,
}

impl InnerCipher {
    fn new(of: usize) -> Option<InnerCipher> {
        // SAFETY: the context is that of `default`, whose function it is.
        let object = unsafe { functions(of).newctx?(provider_context()) };
        (!object.is_null()).then_some(InnerCipher { of, object })
    }

    fn functions(&self) -> &'static Ciphers {
        functions(self.of)
    }

    fn duplicate(&self) -> Option<InnerCipher> {
        // SAFETY: a context of these functions.
        let object = unsafe { self.functions().dupctx?(self.object) };
        (!object.is_null()).then_some(InnerCipher { object, ..*self })
    }

    /// Begins a message, or takes a key or IV.
    ///
    /// # Safety
    /// The parameters must be null or an array that is ended by a null key.
    unsafe fn begin(&self, begin: &Begin<'_>, params: *const Param) -> bool {
        let functions = self.functions();
        let init = if begin.encrypt { functions.encrypt_init } else { functions.decrypt_init };
        let part = |bytes: Option<&[u8]>| bytes.map_or((ptr::null(), 0), |bytes| (bytes.as_ptr(), bytes.len()));
        let (key, iv) = (part(begin.key), part(begin.iv));
        // SAFETY: slices with their lengths; the caller's promise.
        init.is_some_and(|init| unsafe { init(self.object, key.0, key.1, iv.0, iv.1, params) } == 1)
    }

    /// The next bytes of a message; how many came out.
    ///
    /// # Safety
    /// What the core promises of its buffers.
    unsafe fn update(&self, text: Text, room: usize) -> Option<usize> {
        let mut written = 0;
        // SAFETY: the caller's promise.
        let done = unsafe { self.functions().update?(self.object, text.out, &mut written, room, text.input, text.len) };
        (done == 1).then_some(written)
    }

    /// Answers one question.
    ///
    /// # Safety
    /// The parameter's buffer is writable for its size.
    unsafe fn get(&self, param: &mut Param) -> bool {
        let mut asked = [*param, END];
        // SAFETY: an array of one; the caller's promise.
        let get = self.functions().get_ctx_params;
        let done = get.is_some_and(|get| unsafe { get(self.object, asked.as_mut_ptr()) } == 1);
        param.return_size = asked[0].return_size;
        done
    }
}

impl Drop for InnerCipher {
    fn drop(&mut self) {
        if let Some(free) = self.functions().freectx {
            // SAFETY: this value's own context.
            unsafe { free(self.object) };
        }
    }
}

impl Text {
    /// Whether input and output share some bytes but do not begin at the same.
    fn overlaps(&self) -> bool {
        let (input, out) = (self.input as usize, self.out as usize);
        input != out && input.abs_diff(out) < self.len
    }

    /// Calls a function with buffers that are the same or apart, for which a copy of the input is made if they are neither.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `out`.
    unsafe fn run<R>(self, function: impl FnOnce(ciphermill_contract::Piece<'_>) -> R) -> Option<R> {
        use ciphermill_contract::Piece;
        if self.len == 0 {
            return Some(function(Piece::in_place(&mut [])));
        }
        // SAFETY: the caller's promise; a slice of the input is made only where it is apart from the output.
        unsafe {
            if self.overlaps() {
                self.out.copy_from(self.input, self.len);
            }
            let output = slice::from_raw_parts_mut(self.out, self.len);
            if self.overlaps() || ptr::eq(self.input, self.out) {
                return Some(function(Piece::in_place(output)));
            }
            Piece::apart(slice::from_raw_parts(self.input, self.len), output).map(function)
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
        }
    }

    fn duplicate(&self) -> Option<CipherContext> {
        Some(CipherContext { inner: self.inner.duplicate()?, key: self.key.clone(), mode: self.mode.clone() })
    }
}

unsafe extern "C" fn newctx<const OF: usize>(_: Object) -> Object {
    guarded(ptr::null_mut(), || {
        let Some(inner) = InnerCipher::new(OF) else { return ptr::null_mut() };
        let mode = if OF < SIZES.len() { Mode::Ctr(Ctr::default()) } else { Mode::Gcm(Gcm::default()) };
        Box::into_raw(Box::new(CipherContext { inner, key: None, mode })).cast()
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
            }
        };
        // SAFETY: a place for a length.
        unsafe { tell(written, out_len) }
    })
}

/// One call for all there is, which of these modes is another update; without input, GCM's end.
unsafe extern "C" fn cipher(
    context: Object,
    out: *mut u8,
    out_len: *mut usize,
    room: usize,
    input: *const u8,
    len: usize,
) -> c_int {
    // SAFETY: what the core promises.
    unsafe {
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
            inner.functions().finish.map_or(0, |finish| finish(inner.object, out, out_len, room))
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
            if let Mode::Gcm(gcm) = mode {
                gcm.told(&told, done == 1);
            }
            done
        }
    })
}
