//! Calls of OpenSSL that the crate `openssl` does not offer, or that it keeps one from calling wrongly; each with its answer as an
//! application sees it.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use openssl::error::ErrorStack;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawParam {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

macro_rules! opaque {
    ($($name:ident),*) => {
        $(
            #[repr(C)]
            pub(crate) struct $name {
                _opaque: [u8; 0],
            }
        )*
    };
}
opaque!(RawKey, RawKeyContext, RawMdContext);

type Library = *mut c_void;

unsafe extern "C" {
    fn EVP_PKEY_CTX_new_from_name(lib: Library, name: *const c_char, props: *const c_char) -> *mut RawKeyContext;
    fn EVP_PKEY_CTX_new_from_pkey(lib: Library, key: *mut RawKey, props: *const c_char) -> *mut RawKeyContext;
    fn EVP_PKEY_CTX_free(context: *mut RawKeyContext);
    fn EVP_PKEY_CTX_dup(context: *const RawKeyContext) -> *mut RawKeyContext;
    fn EVP_PKEY_CTX_set_params(context: *mut RawKeyContext, params: *const RawParam) -> c_int;
    fn EVP_PKEY_fromdata_init(context: *mut RawKeyContext) -> c_int;
    fn EVP_PKEY_fromdata(
        context: *mut RawKeyContext,
        key: *mut *mut RawKey,
        parts: c_int,
        params: *mut RawParam,
    ) -> c_int;
    fn EVP_PKEY_free(key: *mut RawKey);
    fn EVP_PKEY_check(context: *mut RawKeyContext) -> c_int;
    fn EVP_PKEY_sign_init(context: *mut RawKeyContext) -> c_int;
    fn EVP_PKEY_sign(
        context: *mut RawKeyContext,
        out: *mut u8,
        len: *mut usize,
        digest: *const u8,
        digest_len: usize,
    ) -> c_int;
    fn EVP_PKEY_decrypt_init(context: *mut RawKeyContext) -> c_int;
    fn EVP_PKEY_decrypt(
        context: *mut RawKeyContext,
        out: *mut u8,
        len: *mut usize,
        input: *const u8,
        input_len: usize,
    ) -> c_int;
    fn EVP_PKEY_derive_init(context: *mut RawKeyContext) -> c_int;
    fn EVP_PKEY_derive_set_peer(context: *mut RawKeyContext, peer: *mut RawKey) -> c_int;
    fn EVP_PKEY_derive(context: *mut RawKeyContext, out: *mut u8, len: *mut usize) -> c_int;
    fn EVP_MD_CTX_new() -> *mut RawMdContext;
    fn EVP_MD_CTX_free(context: *mut RawMdContext);
    fn EVP_MD_CTX_copy_ex(to: *mut RawMdContext, from: *const RawMdContext) -> c_int;
    fn EVP_DigestSignInit_ex(
        context: *mut RawMdContext,
        key_context: *mut *mut RawKeyContext,
        md: *const c_char,
        lib: Library,
        props: *const c_char,
        key: *mut RawKey,
        params: *const RawParam,
    ) -> c_int;
    fn EVP_DigestSignUpdate(context: *mut RawMdContext, bytes: *const c_void, len: usize) -> c_int;
    fn EVP_DigestSignFinal(context: *mut RawMdContext, out: *mut u8, len: *mut usize) -> c_int;
    fn EVP_DigestSign(
        context: *mut RawMdContext,
        out: *mut u8,
        len: *mut usize,
        message: *const u8,
        message_len: usize,
    ) -> c_int;
    fn EVP_DigestVerifyInit_ex(
        context: *mut RawMdContext,
        key_context: *mut *mut RawKeyContext,
        md: *const c_char,
        lib: Library,
        props: *const c_char,
        key: *mut RawKey,
        params: *const RawParam,
    ) -> c_int;
    fn EVP_DigestVerify(
        context: *mut RawMdContext,
        signature: *const u8,
        len: usize,
        message: *const u8,
        message_len: usize,
    ) -> c_int;
}

/// What a call has answered: its value, the bytes that it wrote, and the reason of the last error that it left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) result: c_int,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reason: Option<String>,
}

impl Said {
    /// Takes the errors that are there.
    pub(crate) fn of(result: c_int, bytes: Vec<u8>) -> Said {
        let reason = ErrorStack::get().errors().last().and_then(|error| error.reason().map(str::to_owned));
        Said { result, bytes, reason: reason.filter(|_| result <= 0) }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.result == 1
    }
}

/// A parameter's value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// A number without sign, as big-endian bytes.
    Number(Vec<u8>),
    Integer(c_int),
    Text(&'static CStr),
    Octets(Vec<u8>),
}

/// Parameters by their names.
pub(crate) type Params = Vec<(&'static CStr, Value)>;

/// Calls a function with parameters in OpenSSL's form.
fn with_params<R>(params: &Params, call: impl FnOnce(*mut RawParam) -> R) -> R {
    let mut buffers: Vec<Vec<u8>> = params
        .iter()
        .map(|(_, value)| match value {
            Value::Number(bytes) => bytes.iter().rev().copied().collect(),
            Value::Integer(number) => number.to_ne_bytes().to_vec(),
            Value::Text(text) => text.to_bytes_with_nul().to_vec(),
            Value::Octets(bytes) => bytes.clone(),
        })
        .collect();
    let mut raw: Vec<RawParam> = params
        .iter()
        .zip(&mut buffers)
        .map(|((key, value), buffer)| {
            let (data_type, extra) = match value {
                Value::Integer(_) => (1, 0),
                Value::Number(_) => (2, 0),
                Value::Text(_) => (4, 1),
                Value::Octets(_) => (5, 0),
            };
            let data = buffer.as_mut_ptr().cast();
            RawParam { key: key.as_ptr(), data_type, data, data_size: buffer.len() - extra, return_size: usize::MAX }
        })
        .collect();
    let end = RawParam { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 };
    raw.push(end);
    call(raw.as_mut_ptr())
}

/// Which provider is to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Default,
    Mill,
}

impl By {
    fn props(self) -> *const c_char {
        match self {
            By::Default => c"provider=default".as_ptr(),
            By::Mill => c"provider=ciphermill".as_ptr(),
        }
    }
}

/// A key of one of the providers.
pub(crate) struct Key {
    raw: *mut RawKey,
    by: By,
}

// SAFETY: OpenSSL's keys may be used by any thread.
unsafe impl Send for Key {}
// SAFETY: as above.
unsafe impl Sync for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: this value's own count.
        unsafe { EVP_PKEY_free(self.raw) };
    }
}

/// `EVP_PKEY_KEYPAIR` and `EVP_PKEY_PUBLIC_KEY`.
pub(crate) const KEY_PAIR: c_int = 0x87;
pub(crate) const PUBLIC_KEY: c_int = 0x86;

impl Key {
    /// Makes a key of parameters, with what that answered.
    pub(crate) fn of(by: By, name: &CStr, parts: c_int, params: &Params) -> (Option<Key>, Said) {
        let mut raw = ptr::null_mut();
        // SAFETY: strings, a context that is freed once, and parameters that live as long as the call.
        let result = unsafe {
            let context = EVP_PKEY_CTX_new_from_name(ptr::null_mut(), name.as_ptr(), by.props());
            assert!(!context.is_null(), "{name:?} of {by:?}");
            assert_eq!(EVP_PKEY_fromdata_init(context), 1);
            let result = with_params(params, |params| EVP_PKEY_fromdata(context, &mut raw, parts, params));
            EVP_PKEY_CTX_free(context);
            result
        };
        let said = Said::of(result, Vec::new());
        // Where there is a key though the call failed, nobody has to free it but us.
        let key = (!raw.is_null()).then_some(Key { raw, by });
        (key.filter(|_| result == 1), said)
    }

    /// A context for operations with the key.
    pub(crate) fn context(&self) -> KeyContext {
        // SAFETY: a key that is alive.
        let raw = unsafe { EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), self.raw, self.by.props()) };
        assert!(!raw.is_null(), "a context for a key of {:?}", self.by);
        KeyContext(raw)
    }

    /// `EVP_PKEY_check`.
    pub(crate) fn check(&self) -> Said {
        let context = self.context();
        // SAFETY: a context with a key.
        Said::of(unsafe { EVP_PKEY_check(context.0) }, Vec::new())
    }

    /// Signs a message at once.
    pub(crate) fn sign(&self, md: Option<&CStr>, params: &Params, message: &[u8], room: usize) -> Said {
        let context = MdContext::new();
        let begun = context.sign_init(self, md, params);
        if begun.result != 1 { begun } else { context.sign(message, room) }
    }

    /// Whether a signature is right.
    pub(crate) fn verifies(&self, md: Option<&CStr>, params: &Params, message: &[u8], signature: &[u8]) -> bool {
        let context = MdContext::new();
        let md = md.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: a fresh context, strings, a key, parameters that live as long as the call, and readable slices.
        let result = unsafe {
            let (raw, props, none) = (context.0, self.by.props(), ptr::null_mut());
            with_params(params, |params| {
                EVP_DigestVerifyInit_ex(raw, ptr::null_mut(), md, none, props, self.raw, params)
            }) == 1
                && EVP_DigestVerify(raw, signature.as_ptr(), signature.len(), message.as_ptr(), message.len()) == 1
        };
        let _ = ErrorStack::get();
        result
    }

    /// Agrees with a peer, as far as that is taken.
    pub(crate) fn derive(&self, peer: &Key) -> Said {
        let context = self.context();
        // SAFETY: a context with a key, and a key.
        let begun = unsafe { EVP_PKEY_derive_init(context.0) };
        if begun != 1 {
            return Said::of(begun, Vec::new());
        }
        // SAFETY: as above.
        let taken = unsafe { EVP_PKEY_derive_set_peer(context.0, peer.raw) };
        if taken != 1 {
            return Said::of(taken, Vec::new());
        }
        context.derive(100)
    }
}

/// A context of public-key operations.
pub(crate) struct KeyContext(*mut RawKeyContext);

impl Drop for KeyContext {
    fn drop(&mut self) {
        // SAFETY: this value's own.
        unsafe { EVP_PKEY_CTX_free(self.0) };
    }
}

/// What a context begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Sign,
    Decrypt,
    Derive,
}

impl KeyContext {
    pub(crate) fn begin(&self, operation: Operation) -> Said {
        // SAFETY: a context with a key.
        let result = unsafe {
            match operation {
                Operation::Sign => EVP_PKEY_sign_init(self.0),
                Operation::Decrypt => EVP_PKEY_decrypt_init(self.0),
                Operation::Derive => EVP_PKEY_derive_init(self.0),
            }
        };
        Said::of(result, Vec::new())
    }

    pub(crate) fn set(&self, params: &Params) -> Said {
        // SAFETY: a context, and parameters that live as long as the call.
        Said::of(with_params(params, |params| unsafe { EVP_PKEY_CTX_set_params(self.0, params) }), Vec::new())
    }

    pub(crate) fn set_peer(&self, peer: &Key) -> Said {
        // SAFETY: a context with a key, and a key.
        Said::of(unsafe { EVP_PKEY_derive_set_peer(self.0, peer.raw) }, Vec::new())
    }

    pub(crate) fn copy(&self) -> Option<KeyContext> {
        // SAFETY: a context.
        let raw = unsafe { EVP_PKEY_CTX_dup(self.0) };
        (!raw.is_null()).then_some(KeyContext(raw))
    }

    pub(crate) fn sign(&self, digest: &[u8], room: usize) -> Said {
        written(room, |out, len| {
            // SAFETY: a context; as many bytes may be written and read.
            unsafe { EVP_PKEY_sign(self.0, out, len, digest.as_ptr(), digest.len()) }
        })
    }

    pub(crate) fn decrypt(&self, input: &[u8], room: usize) -> Said {
        written(room, |out, len| {
            // SAFETY: as above.
            unsafe { EVP_PKEY_decrypt(self.0, out, len, input.as_ptr(), input.len()) }
        })
    }

    pub(crate) fn derive(&self, room: usize) -> Said {
        written(room, |out, len| {
            // SAFETY: as above.
            unsafe { EVP_PKEY_derive(self.0, out, len) }
        })
    }
}

/// What a call answers that writes into so much room, and that it writes no further.
fn written(room: usize, call: impl FnOnce(*mut u8, *mut usize) -> c_int) -> Said {
    const BEHIND: usize = 64;
    let mut out = vec![0xa5; room + BEHIND];
    let mut len = room;
    let result = call(out.as_mut_ptr(), &mut len);
    assert!(out[room..].iter().all(|byte| *byte == 0xa5), "it was written behind the room that there is");
    if result == 1 {
        out.truncate(len.min(room));
    } else {
        out.clear();
    }
    Said::of(result, out)
}

/// A context of a message that is signed.
pub(crate) struct MdContext(*mut RawMdContext);

// SAFETY: a context belongs to whoever holds it, in any thread.
unsafe impl Send for MdContext {}

impl Drop for MdContext {
    fn drop(&mut self) {
        // SAFETY: this value's own.
        unsafe { EVP_MD_CTX_free(self.0) };
    }
}

impl MdContext {
    pub(crate) fn new() -> MdContext {
        // SAFETY: no precondition.
        let raw = unsafe { EVP_MD_CTX_new() };
        assert!(!raw.is_null());
        MdContext(raw)
    }

    pub(crate) fn sign_init(&self, key: &Key, md: Option<&CStr>, params: &Params) -> Said {
        let md = md.map_or(ptr::null(), CStr::as_ptr);
        let (props, none) = (key.by.props(), ptr::null_mut());
        let result = with_params(params, |params| {
            // SAFETY: a context, strings, a key, and parameters that live as long as the call.
            unsafe { EVP_DigestSignInit_ex(self.0, ptr::null_mut(), md, none, props, key.raw, params) }
        });
        Said::of(result, Vec::new())
    }

    pub(crate) fn update(&self, bytes: &[u8]) -> Said {
        // SAFETY: a context, and a readable slice.
        Said::of(unsafe { EVP_DigestSignUpdate(self.0, bytes.as_ptr().cast(), bytes.len()) }, Vec::new())
    }

    pub(crate) fn finish(&self, room: usize) -> Said {
        written(room, |out, len| {
            // SAFETY: a context; as many bytes may be written.
            unsafe { EVP_DigestSignFinal(self.0, out, len) }
        })
    }

    pub(crate) fn sign(&self, message: &[u8], room: usize) -> Said {
        written(room, |out, len| {
            // SAFETY: a context; as many bytes may be written and read.
            unsafe { EVP_DigestSign(self.0, out, len, message.as_ptr(), message.len()) }
        })
    }

    pub(crate) fn copy(&self) -> Option<MdContext> {
        let to = MdContext::new();
        // SAFETY: two contexts.
        (unsafe { EVP_MD_CTX_copy_ex(to.0, self.0) } == 1).then_some(to)
    }
}

/// A string that OpenSSL may keep.
pub(crate) fn kept(text: &str) -> &'static CStr {
    Box::leak(CString::new(text).expect("a text without zeros").into_boxed_c_str())
}
