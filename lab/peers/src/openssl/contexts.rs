//! OpenSSL's contexts, owned: cipher, MAC, HMAC and digest, with the few calls that the loops need.
//!
//! Every method says whether OpenSSL did what it was asked; what a failure means is the caller's business. None of the
//! calls can write past what it is given, except where a method is marked `unsafe`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use ciphermill_contract::Direction;
use openssl_sys as sys;

use super::library::{Fetched, Library};

unsafe extern "C" {
    /// Declared here because `openssl-sys` lacks it (OpenSSL 3.0 and later).
    fn EVP_CIPHER_CTX_set_key_length(ctx: *mut sys::EVP_CIPHER_CTX, keylen: c_int) -> c_int;
    fn EVP_CipherInit_ex2(
        ctx: *mut sys::EVP_CIPHER_CTX,
        cipher: *const sys::EVP_CIPHER,
        key: *const u8,
        iv: *const u8,
        enc: c_int,
        params: *const sys::OSSL_PARAM,
    ) -> c_int;
    fn EVP_CipherFinal_ex(ctx: *mut sys::EVP_CIPHER_CTX, out: *mut u8, out_len: *mut c_int) -> c_int;
    fn OSSL_PARAM_construct_utf8_string(key: *const c_char, buf: *mut c_char, len: usize) -> sys::OSSL_PARAM;
}

/// `EVP_CTRL_AEAD_SET_IVLEN`, `_GET_TAG` and `_SET_TAG` of `openssl/evp.h`.
const CTRL_SET_IV_LEN: c_int = 0x9;
const CTRL_GET_TAG: c_int = 0x10;
const CTRL_SET_TAG: c_int = 0x11;

/// Declares a wrapper that owns a context, frees it (which wipes it) and may move between threads.
macro_rules! owned {
    ($(#[$doc:meta])* $name:ident, $raw:ty, $free:path) => {
        $(#[$doc])*
        pub(super) struct $name { raw: NonNull<$raw>, #[allow(dead_code)] key_len: usize }

        // SAFETY: OpenSSL's contexts are bound to no thread; `&mut self` in every method keeps them with one at a time.
        unsafe impl Send for $name {}

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: `raw` came from the matching `new` function and is freed once.
                unsafe { $free(self.raw.as_ptr()) };
            }
        }
    };
}

owned!(
    /// An `EVP_CIPHER_CTX`.
    CipherContext,
    sys::EVP_CIPHER_CTX,
    sys::EVP_CIPHER_CTX_free
);
owned!(
    /// An `HMAC_CTX`. Deprecated in OpenSSL 3, but 1.7 times as fast on short messages as `EVP_MAC`, which wraps it.
    HmacContext,
    sys::HMAC_CTX,
    sys::HMAC_CTX_free
);
owned!(
    /// An `EVP_MAC_CTX`, for CMAC and Poly1305.
    MacContext,
    sys::EVP_MAC_CTX,
    sys::EVP_MAC_CTX_free
);
owned!(
    /// An `EVP_MD_CTX`.
    DigestContext,
    sys::EVP_MD_CTX,
    sys::EVP_MD_CTX_free
);

/// Lengths as OpenSSL's older calls want them; the contract's limits lie below 2^31.
fn int(len: usize) -> c_int {
    c_int::try_from(len).unwrap_or(-1)
}

impl CipherContext {
    /// A context of `cipher` for one direction, without a key. Padding is off and stays off.
    pub(super) fn new(cipher: Fetched<sys::EVP_CIPHER>, direction: Direction) -> Option<CipherContext> {
        // SAFETY: no arguments; the result is checked for null.
        let raw = NonNull::new(unsafe { sys::EVP_CIPHER_CTX_new() })?;
        // SAFETY: a fetched cipher lives as long as the process.
        let key_len = usize::try_from(unsafe { sys::EVP_CIPHER_get_key_length(cipher.as_ptr()) }).ok()?;
        let context = CipherContext { raw, key_len };
        let mut padding = 0;
        // SAFETY: the name is a C string; `padding` outlives the call that reads it below.
        let params = unsafe {
            [sys::OSSL_PARAM_construct_uint(c"padding".as_ptr(), &mut padding), sys::OSSL_PARAM_construct_end()]
        };
        let enc = c_int::from(direction == Direction::Encrypt);
        // SAFETY: context and cipher are valid; null means no key and no IV; `params` ends with its terminator. Padding
        // goes in as a parameter because the flag of `EVP_CIPHER_CTX_set_padding` would be applied again in every init.
        let ok = unsafe {
            EVP_CipherInit_ex2(raw.as_ptr(), cipher.as_ptr(), ptr::null(), ptr::null(), enc, params.as_ptr())
        };
        (ok == 1).then_some(context)
    }

    /// Sets the key length of ciphers that have a choice (Blowfish, RC4).
    pub(super) fn set_key_len(&mut self, len: usize) -> bool {
        if self.key_len == len {
            return true;
        }
        // SAFETY: the context is valid.
        let ok = unsafe { EVP_CIPHER_CTX_set_key_length(self.raw.as_ptr(), int(len)) } == 1;
        if ok {
            self.key_len = len;
        }
        ok
    }

    /// Starts a message: sets the key, the IV, or both. The IV's bytes beyond the cipher's IV length are not read.
    #[inline]
    pub(super) fn start(&mut self, key: Option<&[u8]>, iv: Option<&[u8; 16]>) -> bool {
        if key.is_some_and(|key| key.len() != self.key_len) {
            return false;
        }
        let key = key.map_or(ptr::null(), <[u8]>::as_ptr);
        let iv = iv.map_or(ptr::null(), |iv| iv.as_ptr());
        // SAFETY: the key has the context's key length (checked above); no IV is longer than 16 bytes
        // (EVP_MAX_IV_LENGTH); a null cipher and -1 keep what the context has.
        unsafe { EVP_CipherInit_ex2(self.raw.as_ptr(), ptr::null(), key, iv, -1, ptr::null()) == 1 }
    }

    /// Encrypts or decrypts `len` bytes; returns how many were written.
    ///
    /// # Safety
    /// `src` can be read and `dst` written for `len` bytes; they are the same place or apart.
    #[inline]
    pub(super) unsafe fn update(&mut self, dst: *mut u8, src: *const u8, len: usize) -> Option<usize> {
        let mut written = 0;
        // SAFETY: without padding no mode writes more than it was given; the caller vouches for the buffers.
        let ok = unsafe { sys::EVP_CipherUpdate(self.raw.as_ptr(), dst, &mut written, src, int(len)) };
        if ok == 1 { usize::try_from(written).ok() } else { None }
    }

    /// Feeds additional data.
    #[inline]
    pub(super) fn aad(&mut self, aad: &[u8]) -> bool {
        let mut written = 0;
        // SAFETY: a null output marks additional data; nothing is written.
        unsafe {
            sys::EVP_CipherUpdate(self.raw.as_ptr(), ptr::null_mut(), &mut written, aad.as_ptr(), int(aad.len())) == 1
        }
    }

    /// Announces the length of the message, which CCM must know first.
    pub(super) fn announce(&mut self, len: usize) -> bool {
        let mut written = 0;
        // SAFETY: null output and input mark a length; nothing is read or written.
        unsafe { sys::EVP_CipherUpdate(self.raw.as_ptr(), ptr::null_mut(), &mut written, ptr::null(), int(len)) == 1 }
    }

    /// Ends the message, writing what was held back; for AEADs in decryption this verifies the tag.
    ///
    /// # Safety
    /// `dst` can be written for the bytes that `update` was given and did not write.
    #[inline]
    pub(super) unsafe fn finish(&mut self, dst: *mut u8) -> bool {
        let mut written = 0;
        // SAFETY: the caller's promise.
        unsafe { EVP_CipherFinal_ex(self.raw.as_ptr(), dst, &mut written) == 1 }
    }

    /// Copies the tag out.
    #[inline]
    pub(super) fn tag(&mut self, tag: &mut [u8]) -> bool {
        // SAFETY: OpenSSL writes as many bytes as it is told, all of them inside `tag`.
        unsafe { self.control(CTRL_GET_TAG, tag.len(), tag.as_mut_ptr().cast()) }
    }

    /// Gives the tag that decryption is to find.
    #[inline]
    pub(super) fn expect_tag(&mut self, tag: &[u8]) -> bool {
        // SAFETY: OpenSSL reads as many bytes as it is told, all of them inside `tag`.
        unsafe { self.control(CTRL_SET_TAG, tag.len(), tag.as_ptr().cast_mut().cast()) }
    }

    /// Sets the length of the tag, for CCM.
    pub(super) fn set_tag_len(&mut self, len: usize) -> bool {
        // SAFETY: a null pointer sets the length alone.
        unsafe { self.control(CTRL_SET_TAG, len, ptr::null_mut()) }
    }

    /// Sets the length of the nonce, for CCM.
    pub(super) fn set_iv_len(&mut self, len: usize) -> bool {
        // SAFETY: sets a length, reads no memory.
        unsafe { self.control(CTRL_SET_IV_LEN, len, ptr::null_mut()) }
    }

    /// Makes this context what `other` is.
    pub(super) fn copy_from(&mut self, other: &CipherContext) -> bool {
        self.key_len = other.key_len;
        // SAFETY: both contexts are valid; the other one is only read.
        unsafe { sys::EVP_CIPHER_CTX_copy(self.raw.as_ptr(), other.raw.as_ptr()) == 1 }
    }

    /// # Safety
    /// `data` is what `control` wants of `len` bytes.
    unsafe fn control(&mut self, control: c_int, len: usize, data: *mut c_void) -> bool {
        // SAFETY: the caller's promise.
        unsafe { sys::EVP_CIPHER_CTX_ctrl(self.raw.as_ptr(), control, int(len), data) > 0 }
    }
}

impl HmacContext {
    /// A context without key.
    pub(super) fn new() -> Option<HmacContext> {
        // SAFETY: no arguments; the result is checked for null.
        NonNull::new(unsafe { sys::HMAC_CTX_new() }).map(|raw| HmacContext { raw, key_len: 0 })
    }

    /// Sets key and digest and starts a message.
    pub(super) fn start_with(&mut self, key: &[u8], digest: Fetched<sys::EVP_MD>) -> bool {
        // SAFETY: the key is read for its length; a fetched digest lives as long as the process.
        unsafe {
            sys::HMAC_Init_ex(self.raw.as_ptr(), key.as_ptr().cast(), int(key.len()), digest.as_ptr(), ptr::null_mut())
                == 1
        }
    }

    /// Starts a message under the key that was set before.
    #[inline]
    pub(super) fn start(&mut self) -> bool {
        // SAFETY: nulls keep key and digest.
        unsafe { sys::HMAC_Init_ex(self.raw.as_ptr(), ptr::null(), 0, ptr::null(), ptr::null_mut()) == 1 }
    }

    /// Feeds a part of the message.
    #[inline]
    pub(super) fn update(&mut self, data: &[u8]) -> bool {
        // SAFETY: the slice is read only.
        unsafe { sys::HMAC_Update(self.raw.as_ptr(), data.as_ptr(), data.len()) == 1 }
    }

    /// The tag, in the first bytes of an array that holds the longest.
    #[inline]
    pub(super) fn finish(&mut self) -> Option<[u8; 64]> {
        let mut tag = [0; 64];
        let mut len = 0;
        // SAFETY: no digest is longer than 64 bytes (EVP_MAX_MD_SIZE).
        (unsafe { sys::HMAC_Final(self.raw.as_ptr(), tag.as_mut_ptr(), &mut len) } == 1).then_some(tag)
    }
}

impl MacContext {
    /// A context of the MAC, with the name of the cipher that CMAC runs on.
    pub(super) fn new(mac: Fetched<sys::EVP_MAC>, cipher: Option<&'static std::ffi::CStr>) -> Option<MacContext> {
        // SAFETY: a fetched MAC lives as long as the process; the result is checked for null.
        let raw = NonNull::new(unsafe { sys::EVP_MAC_CTX_new(mac.as_ptr()) })?;
        let context = MacContext { raw, key_len: 0 };
        let Some(cipher) = cipher else { return Some(context) };
        // SAFETY: both strings end with their nul and are only read, although the parameter type says otherwise.
        let params = unsafe {
            [
                OSSL_PARAM_construct_utf8_string(c"cipher".as_ptr(), cipher.as_ptr().cast_mut(), 0),
                sys::OSSL_PARAM_construct_end(),
            ]
        };
        // SAFETY: the context is valid and `params` ends with its terminator.
        let ok = unsafe { sys::EVP_MAC_CTX_set_params(raw.as_ptr(), params.as_ptr()) };
        (ok == 1).then_some(context)
    }

    /// Starts a message, under this key or under the one that was set before.
    #[inline]
    pub(super) fn start(&mut self, key: Option<&[u8]>) -> bool {
        let (data, len) = key.map_or((ptr::null(), 0), |key| (key.as_ptr(), key.len()));
        // SAFETY: the key is read for its length.
        unsafe { sys::EVP_MAC_init(self.raw.as_ptr(), data, len, ptr::null()) == 1 }
    }

    /// Feeds a part of the message.
    #[inline]
    pub(super) fn update(&mut self, data: &[u8]) -> bool {
        // SAFETY: the slice is read only.
        unsafe { sys::EVP_MAC_update(self.raw.as_ptr(), data.as_ptr(), data.len()) == 1 }
    }

    /// The tag, in the first bytes of an array that holds the longest.
    #[inline]
    pub(super) fn finish(&mut self) -> Option<[u8; 64]> {
        let mut tag = [0; 64];
        let mut len = 0;
        // SAFETY: OpenSSL is told how long the array is.
        let ok = unsafe { sys::EVP_MAC_final(self.raw.as_ptr(), tag.as_mut_ptr(), &mut len, tag.len()) };
        (ok == 1).then_some(tag)
    }
}

impl DigestContext {
    /// A context without algorithm.
    pub(super) fn new() -> Option<DigestContext> {
        // SAFETY: no arguments; the result is checked for null.
        NonNull::new(unsafe { sys::EVP_MD_CTX_new() }).map(|raw| DigestContext { raw, key_len: 0 })
    }

    /// The digest of a message, written to `out`, which is as long as the digest; of an extendable-output function, as
    /// much as `out` holds.
    #[inline]
    pub(super) fn digest(&mut self, digest: *const sys::EVP_MD, is_xof: bool, data: &[u8], out: &mut [u8]) -> bool {
        let context = self.raw.as_ptr();
        // SAFETY: the digest lives as long as the process, and the message is only read.
        let absorbed = unsafe {
            sys::EVP_DigestInit_ex(context, digest, ptr::null_mut()) == 1
                && sys::EVP_DigestUpdate(context, data.as_ptr().cast(), data.len()) == 1
        };
        if is_xof {
            // SAFETY: OpenSSL is told how long the output is.
            return absorbed && unsafe { sys::EVP_DigestFinalXOF(context, out.as_mut_ptr(), out.len()) } == 1;
        }
        let mut full = [0; 64];
        let mut len = 0;
        // SAFETY: no digest is longer than 64 bytes (EVP_MAX_MD_SIZE).
        let ok = absorbed && unsafe { sys::EVP_DigestFinal_ex(context, full.as_mut_ptr(), &mut len) } == 1;
        match full.get(..out.len()) {
            Some(full) if ok => {
                out.copy_from_slice(full);
                true
            }
            _ => false,
        }
    }
}

/// Empties this thread's error queue, so that a failed verification leaves nothing behind for others to find.
#[cold]
pub(super) fn forget_errors(_: &Library) {
    // SAFETY: touches this thread's queue only.
    unsafe { sys::ERR_clear_error() };
}
