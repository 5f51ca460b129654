//! Encryption under RSA keys: a context of `default`, which encrypts, beside the key, with which the mill decrypts OAEP and what has
//! no padding.
//!
//! PKCS #1 v1.5 stays with `default`: since 3.2 it answers what is padded wrongly with something made up from the private key.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::{Arc, OnceLock};

use ciphermill::ComesAlone;
use ciphermill_contract::suite::PublicEncryption;
use ciphermill_contract::{Direction, Suite};
use zeroize::Zeroizing;

use crate::backend::Backend;
use crate::context::{beside, pass};
use crate::dispatch::{AsymmetricCipher, Object};
use crate::ffi::{self, OCTET_PTR, Param};
use crate::guard::{answer, bytes, guarded};
use crate::inner::{Inner, Md, provider_context};
use crate::key::Key;
use crate::material::{KeyType, Usable};
use crate::operation::Operation;
use crate::params::{END, ask_integer, ask_text};
use crate::run::{left_alone, run};

/// The type of keys that this is for.
pub(crate) const NAME: &CStr = c"RSA";

/// Numbers of paddings (`RSA_NO_PADDING`, `RSA_PKCS1_OAEP_PADDING`).
const NONE: c_int = 3;
const OAEP: c_int = 4;

/// A context of an application.
struct EncryptionContext {
    of: usize,
    inner: Object,
    key: Option<Arc<Key>>,
    /// While `default` does what would be alone in the mill.
    alone: Option<ComesAlone<'static>>,
}

/// What a context of `default` would undo.
enum Padding {
    None,
    Oaep { md: Option<Md>, mgf1: Option<Md>, label: Vec<u8> },
}

/// The functions of `default`, which is the same algorithm for all contexts.
fn functions(_: usize) -> &'static AsymmetricCipher {
    static FUNCTIONS: OnceLock<AsymmetricCipher> = OnceLock::new();
    FUNCTIONS.get_or_init(|| Inner::functions(NAME))
}

/// Our functions: all that `default` has.
pub(crate) fn encryptions() -> AsymmetricCipher {
    let inner = functions(0);
    AsymmetricCipher {
        newctx: inner.newctx.and(Some(newctx)),
        encrypt_init: inner.encrypt_init.and(Some(encrypt_init)),
        encrypt: inner.encrypt.and(Some(encrypt)),
        decrypt_init: inner.decrypt_init.and(Some(decrypt_init)),
        decrypt: inner.decrypt.and(Some(decrypt)),
        freectx: inner.freectx.and(Some(freectx)),
        dupctx: inner.dupctx.and(Some(dupctx)),
        get_ctx_params: inner.get_ctx_params.and(Some(get_ctx_params)),
        gettable_ctx_params: inner.gettable_ctx_params.and(Some(gettable_ctx_params::<0>)),
        set_ctx_params: inner.set_ctx_params.and(Some(set_ctx_params)),
        settable_ctx_params: inner.settable_ctx_params.and(Some(settable_ctx_params::<0>)),
    }
}

impl Padding {
    /// Asks a context. `None` for what `default` undoes, or when it does not say.
    fn of(context: Object) -> Option<Padding> {
        let mut mode = 0;
        let mut params = [ask_integer(c"pad-mode", &mut mode), END];
        let ask = functions(0).get_ctx_params?;
        // SAFETY: a context of these functions; parameters with room for the answers.
        if unsafe { ask(context, params.as_mut_ptr()) } != 1 {
            return None;
        }
        match mode {
            NONE => return Some(Padding::None),
            OAEP => {}
            _ => return None,
        }
        let (mut md, mut mgf1) = ([0; 64], [0; 64]);
        let mut label = ptr::null::<u8>();
        let place = ptr::from_mut(&mut label).cast();
        let mut params = [
            ask_text(c"digest", &mut md),
            ask_text(c"mgf1-digest", &mut mgf1),
            Param { key: c"oaep-label".as_ptr(), data_type: OCTET_PTR, data: place, ..END },
            END,
        ];
        // SAFETY: as above; the label stays with the context.
        unsafe {
            if ask(context, params.as_mut_ptr()) != 1 {
                return None;
            }
            let label = bytes(label, if label.is_null() { 0 } else { params[2].return_size }).to_vec();
            Some(Padding::Oaep { md: Md::named(&md)?, mgf1: Md::named(&mgf1)?, label })
        }
    }

    /// Takes the padding off (RFC 8017, 7.1.2, 3), in time that does not depend on what is in it. `None` when it is wrong, with
    /// OpenSSL's own error.
    fn open(&self, padded: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let Padding::Oaep { md, mgf1, label } = self else { return Some(Zeroizing::new(padded.to_vec())) };
        let mut opened = Zeroizing::new(vec![0; padded.len()]);
        let len = c_int::try_from(padded.len()).ok()?;
        let label_len = c_int::try_from(label.len()).ok()?;
        let raw = |md: &Option<Md>| md.as_ref().map_or(ptr::null(), Md::as_ptr);
        // SAFETY: buffers of the lengths that are told, and digests that were fetched or null, which stands for SHA-1 and for the
        // same as the other.
        let opened_len = unsafe {
            ffi::RSA_padding_check_PKCS1_OAEP_mgf1(
                opened.as_mut_ptr(),
                len,
                padded.as_ptr(),
                len,
                len,
                label.as_ptr(),
                label_len,
                raw(md),
                raw(mgf1),
            )
        };
        opened.truncate(usize::try_from(opened_len).ok()?);
        Some(opened)
    }
}

beside!(EncryptionContext, AsymmetricCipher);

impl EncryptionContext {
    /// What was encrypted as the mill's private operation gives it, and the padding that it has. `None` when `default` is to do it.
    fn decrypt_in_mill(&mut self, input: &[u8]) -> Option<(Zeroizing<Vec<u8>>, Padding)> {
        let key = self.key.as_ref().filter(|key| key.key_type() == KeyType::Rsa)?;
        let padding = Padding::of(self.inner)?;
        let backend = Backend::current()?;
        let (id, Usable::Rsa(size)) = key.usable(backend)? else { return None };
        let suite = Suite::PublicEncrypt(PublicEncryption::RsaRaw(size));
        if input.len() != size.len() {
            return None;
        }
        self.alone = if key.is_whole() { left_alone(backend, suite, input.len()) } else { None };
        if self.alone.is_some() {
            return None;
        }
        let data = Zeroizing::new(input.to_vec());
        let input_len = data.len();
        let operation = Operation { suite, direction: Direction::Decrypt, key: id, data, input_len, tag: Vec::new() };
        let done = run(backend, operation)?;
        (done.data.len() == size.len()).then_some((done.data, padding))
    }
}

fn wrap(inner: Object, key: Option<Arc<Key>>) -> Object {
    if inner.is_null() {
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(EncryptionContext { of: 0, inner, key, alone: None })).cast()
}

unsafe extern "C" fn newctx(_: Object) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: the context is that of `default`, whose function it is.
        wrap(functions(0).newctx.map_or(ptr::null_mut(), |new| unsafe { new(provider_context()) }), None)
    })
}

unsafe extern "C" fn dupctx(context: Object) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: a context of ours, or null; what it holds is of these functions.
        match (unsafe { EncryptionContext::of(context) }, functions(0).dupctx) {
            // SAFETY: as above.
            (Some(from), Some(dup)) => wrap(unsafe { dup(from.inner) }, from.key.clone()),
            _ => ptr::null_mut(),
        }
    })
}

/// Takes note of the key that an operation begins with.
///
/// # Safety
/// A context of ours, and null, for the key that it has already, or a key of ours.
unsafe fn begin(context: Object, key: Object) {
    // SAFETY: the caller's promise.
    unsafe {
        if let (Some(own), Some(key)) = (EncryptionContext::of(context), Key::keep(key)) {
            own.key = Some(key);
        }
    }
}

unsafe extern "C" fn encrypt_init(context: Object, key: Object, params: *const Param) -> c_int {
    // SAFETY: the core's arguments.
    let inner_key = unsafe { Key::inner_of(key) };
    pass!(EncryptionContext, context, 0, encrypt_init(inner_key, params))
}

unsafe extern "C" fn decrypt_init(context: Object, key: Object, params: *const Param) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let inner_key = unsafe {
            begin(context, key);
            Key::inner_of(key)
        };
        pass!(EncryptionContext, context, 0, decrypt_init(inner_key, params))
    })
}

unsafe extern "C" fn encrypt(
    context: Object,
    out: *mut u8,
    len: *mut usize,
    room: usize,
    input: *const u8,
    input_len: usize,
) -> c_int {
    pass!(EncryptionContext, context, 0, encrypt(out, len, room, input, input_len))
}

unsafe extern "C" fn decrypt(
    context: Object,
    out: *mut u8,
    len: *mut usize,
    room: usize,
    input: *const u8,
    input_len: usize,
) -> c_int {
    guarded(0, || {
        // As `default` wants it, which has the last word on room that is too small.
        if !out.is_null() && room >= input_len {
            // SAFETY: the core's arguments.
            let own = unsafe { EncryptionContext::of(context) };
            // SAFETY: as above.
            if let Some((padded, padding)) = own.and_then(|own| own.decrypt_in_mill(unsafe { bytes(input, input_len) }))
            {
                // Nobody tries once more what is padded wrongly: time would tell.
                // SAFETY: as above.
                let answered = padding.open(&padded).is_some_and(|opened| unsafe { answer(&opened, out, len, room) });
                return c_int::from(answered);
            }
        }
        by_default(context, pass!(EncryptionContext, context, 0, decrypt(out, len, room, input, input_len)))
    })
}

unsafe extern "C" fn set_ctx_params(context: Object, params: *const Param) -> c_int {
    pass!(EncryptionContext, context, 0, set_ctx_params(params))
}
