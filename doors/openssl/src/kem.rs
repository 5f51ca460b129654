//! Key encapsulation with ML-KEM (FIPS 203), which OpenSSL has since 3.5: a context of `default` beside the key.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::{Arc, OnceLock};

use ciphermill::ComesAlone;
use ciphermill_contract::suite::Kem;
use ciphermill_contract::{Direction, KeyId, Suite};
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::context::{beside, pass};
use crate::dispatch::{Encapsulation, Object};
use crate::ffi::Param;
use crate::guard::{bytes, guarded};
use crate::inner::{Inner, provider_context};
use crate::key::Key;
use crate::material::KeyType;
use crate::operation::Operation;
use crate::params::Params;
use crate::run::{left_alone_in, run};

/// Encapsulations that are made here, by the names that `default` has for them.
pub(crate) const KEMS: [&CStr; 3] = [c"ML-KEM-512", c"ML-KEM-768", c"ML-KEM-1024"];

static FUNCTIONS: [OnceLock<Encapsulation>; KEMS.len()] = [const { OnceLock::new() }; KEMS.len()];

/// Bytes of a shared secret (FIPS 203, table 3).
const SECRET_LEN: usize = 32;

/// A context of an application.
struct KemContext {
    of: usize,
    inner: Object,
    key: Option<Arc<Key>>,
    /// Whether it has parameters that only `default` knows: the random bytes of a test.
    is_special: bool,
    /// While `default` does what would be alone in the mill.
    alone: Option<ComesAlone<'static>>,
}

/// The functions of `default` for an encapsulation.
pub(crate) fn functions(of: usize) -> &'static Encapsulation {
    FUNCTIONS[of].get_or_init(|| Inner::functions(KEMS[of]))
}

/// Our functions for an encapsulation: what `default` has.
pub(crate) fn kems<const OF: usize>() -> Encapsulation {
    let inner = functions(OF);
    Encapsulation {
        newctx: inner.newctx.and(Some(newctx::<OF>)),
        encapsulate_init: inner.encapsulate_init.and(Some(encapsulate_init)),
        encapsulate: inner.encapsulate.and(Some(encapsulate)),
        decapsulate_init: inner.decapsulate_init.and(Some(decapsulate_init)),
        decapsulate: inner.decapsulate.and(Some(decapsulate)),
        freectx: inner.freectx.and(Some(freectx)),
        dupctx: inner.dupctx.and(Some(dupctx)),
        get_ctx_params: inner.get_ctx_params.and(Some(get_ctx_params)),
        gettable_ctx_params: inner.gettable_ctx_params.and(Some(gettable_ctx_params::<OF>)),
        set_ctx_params: inner.set_ctx_params.and(Some(set_ctx_params)),
        settable_ctx_params: inner.settable_ctx_params.and(Some(settable_ctx_params::<OF>)),
    }
}

beside!(KemContext, Encapsulation);

impl KemContext {
    /// The mill and the name of a key in it that can do as asked. `None` when `default` is to do it.
    fn in_mill(&mut self, direction: Direction) -> Option<(&'static Backend, KeyId, Kem)> {
        let key = self.key.as_ref().filter(|_| !self.is_special)?;
        let KeyType::MlKem(kem) = key.key_type() else { return None };
        let backend = Backend::current()?;
        // Before a key is imported that is used once.
        self.alone = left_alone_in(backend, Suite::Kem(kem), direction, 0);
        if self.alone.is_some() {
            return None;
        }
        let (id, _) = if direction == Direction::Encrypt { key.public(backend)? } else { key.usable(backend)? };
        Some((backend, id, kem))
    }

    /// A fresh secret and its ciphertext (FIPS 203, 7.2). `None` when `default` is to make them.
    fn encapsulate(&mut self) -> Option<(Zeroizing<Vec<u8>>, Vec<u8>)> {
        let (backend, key, kem) = self.in_mill(Direction::Encrypt)?;
        let done = run(backend, operation(kem, Direction::Encrypt, key, vec![0; kem.ciphertext_len()]))?;
        Some((done.data, done.tag))
    }

    /// The secret of a ciphertext (FIPS 203, 7.3). `None` when `default` is to find it.
    fn decapsulate(&mut self, ciphertext: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let KeyType::MlKem(kem) = self.key.as_ref()?.key_type() else { return None };
        // What has another length `default` refuses, or not.
        if ciphertext.len() != kem.ciphertext_len() {
            return None;
        }
        let (backend, key, kem) = self.in_mill(Direction::Decrypt)?;
        run(backend, operation(kem, Direction::Decrypt, key, ciphertext.to_vec())).map(|done| done.data)
    }
}

fn operation(kem: Kem, direction: Direction, key: KeyId, tag: Vec<u8>) -> Operation {
    let data = Zeroizing::new(vec![0; SECRET_LEN]);
    Operation { suite: Suite::Kem(kem), direction, key, data, input_len: 0, tag }
}

unsafe extern "C" fn newctx<const OF: usize>(_: Object) -> Object {
    guarded(ptr::null_mut(), || {
        let Some(new) = functions(OF).newctx else { return ptr::null_mut() };
        // SAFETY: the context is that of `default`, whose function it is.
        let inner = unsafe { new(provider_context()) };
        if inner.is_null() {
            return ptr::null_mut();
        }
        Box::into_raw(Box::new(KemContext { of: OF, inner, key: None, is_special: false, alone: None })).cast()
    })
}

unsafe extern "C" fn dupctx(context: Object) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: a context of ours, or null.
        let Some(from) = (unsafe { KemContext::of(context) }) else { return ptr::null_mut() };
        let Some(dup) = from.functions().dupctx else { return ptr::null_mut() };
        // SAFETY: the context is of these functions.
        let inner = unsafe { dup(from.inner) };
        if inner.is_null() {
            return ptr::null_mut();
        }
        let KemContext { of, is_special, .. } = *from;
        Box::into_raw(Box::new(KemContext { of, inner, key: from.key.clone(), is_special, alone: None })).cast()
    })
}

macro_rules! init {
    ($name:ident) => {
        unsafe extern "C" fn $name(context: Object, key: Object, params: *const Param) -> c_int {
            guarded(0, || {
                // SAFETY: the core's arguments.
                let inner_key = unsafe { Key::inner_of(key) };
                let begun = pass!(KemContext, context, 0, $name(inner_key, params));
                // SAFETY: as above.
                unsafe {
                    if let Some(own) = KemContext::of(context) {
                        own.key = Key::keep(key).filter(|_| begun == 1);
                        own.is_special = Params::new(params).keys().next().is_some();
                    }
                }
                begun
            })
        }
    };
}

init!(encapsulate_init);
init!(decapsulate_init);

/// Whether there is room for an answer.
///
/// # Safety
/// `len` must be null, or say for how many bytes `out` is writable.
unsafe fn has_room(out: *mut u8, len: *mut usize, needed: usize) -> bool {
    // SAFETY: the caller's promise.
    !out.is_null() && unsafe { len.as_ref() }.is_some_and(|len| *len >= needed)
}

/// Writes an answer that there is room for.
///
/// # Safety
/// As [`has_room`], which has been asked.
unsafe fn put(answer: &[u8], out: *mut u8, len: *mut usize) {
    // SAFETY: the caller's promise.
    unsafe {
        out.copy_from_nonoverlapping(answer.as_ptr(), answer.len());
        *len = answer.len();
    }
}

unsafe extern "C" fn encapsulate(
    context: Object,
    out: *mut u8,
    out_len: *mut usize,
    secret: *mut u8,
    secret_len: *mut usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let own = unsafe { KemContext::of(context) };
        let key_type = own.as_ref().and_then(|own| own.key.as_ref()).map(|key| key.key_type());
        if let (Some(own), Some(KeyType::MlKem(kem))) = (own, key_type)
            // SAFETY: as above. What there is no room for `default` refuses; without a place it tells lengths.
            && unsafe { has_room(out, out_len, kem.ciphertext_len()) && has_room(secret, secret_len, SECRET_LEN) }
            && let Some((made, ciphertext)) = own.encapsulate()
        {
            // SAFETY: as above.
            unsafe {
                put(&ciphertext, out, out_len);
                put(&made, secret, secret_len);
            }
            return 1;
        }
        by_default(context, pass!(KemContext, context, 0, encapsulate(out, out_len, secret, secret_len)))
    })
}

unsafe extern "C" fn decapsulate(
    context: Object,
    secret: *mut u8,
    secret_len: *mut usize,
    ciphertext: *const u8,
    len: usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        if unsafe { has_room(secret, secret_len, SECRET_LEN) }
            // SAFETY: as above.
            && let Some(own) = unsafe { KemContext::of(context) }
            // SAFETY: as above.
            && let Some(found) = own.decapsulate(unsafe { bytes(ciphertext, len) })
        {
            // SAFETY: as above.
            unsafe { put(&found, secret, secret_len) };
            return 1;
        }
        by_default(context, pass!(KemContext, context, 0, decapsulate(secret, secret_len, ciphertext, len)))
    })
}

unsafe extern "C" fn set_ctx_params(context: Object, params: *const Param) -> c_int {
    // SAFETY: the core's arguments.
    unsafe {
        if let Some(own) = KemContext::of(context) {
            own.is_special |= Params::new(params).keys().next().is_some();
        }
    }
    pass!(KemContext, context, 0, set_ctx_params(params))
}
