//! ML-KEM, which OpenSSL has since 3.5: what either provider encapsulates, the other opens.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

mod support;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

type Context = *mut c_void;
type Key = *mut c_void;

unsafe extern "C" {
    fn EVP_PKEY_Q_keygen(context: *mut c_void, properties: *const c_char, kind: *const c_char, ...) -> Key;
    fn EVP_PKEY_free(key: Key);
    fn EVP_PKEY_get_octet_string_param(
        key: Key,
        name: *const c_char,
        out: *mut u8,
        room: usize,
        len: *mut usize,
    ) -> c_int;
    fn EVP_PKEY_CTX_new_from_pkey(context: *mut c_void, key: Key, properties: *const c_char) -> Context;
    fn EVP_PKEY_CTX_free(context: Context);
    fn EVP_PKEY_encapsulate_init(context: Context, params: *const c_void) -> c_int;
    fn EVP_PKEY_encapsulate(
        context: Context,
        out: *mut u8,
        len: *mut usize,
        secret: *mut u8,
        secret_len: *mut usize,
    ) -> c_int;
    fn EVP_PKEY_decapsulate_init(context: Context, params: *const c_void) -> c_int;
    fn EVP_PKEY_decapsulate(context: Context, out: *mut u8, len: *mut usize, data: *const u8, data_len: usize)
    -> c_int;
    fn EVP_PKEY_new_raw_public_key_ex(
        context: *mut c_void,
        kind: *const c_char,
        properties: *const c_char,
        bytes: *const u8,
        len: usize,
    ) -> Key;
}

const OURS: &CStr = c"provider=ciphermill";
const DEFAULTS: &CStr = c"provider=default";

/// A context of a provider with a key, which is freed with it.
struct Kem(Context);

impl Kem {
    fn new(key: Key, properties: &CStr, init: unsafe extern "C" fn(Context, *const c_void) -> c_int) -> Kem {
        // SAFETY: a key and a string; what is returned is looked at.
        let context = unsafe { EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key, properties.as_ptr()) };
        assert!(!context.is_null());
        // SAFETY: a context that is alive, and no parameters.
        assert_eq!(unsafe { init(context, ptr::null()) }, 1);
        Kem(context)
    }

    /// A ciphertext and its secret, with as much room as it is told; `None` where that is refused.
    fn encapsulate(&self, spare: isize) -> Option<(Vec<u8>, Vec<u8>)> {
        let (mut len, mut secret_len) = (0, 0);
        // SAFETY: it is asked for lengths.
        let told = unsafe { EVP_PKEY_encapsulate(self.0, ptr::null_mut(), &mut len, ptr::null_mut(), &mut secret_len) };
        assert_eq!((told, secret_len), (1, 32));
        let (mut out, mut secret) = (vec![0; len], vec![0; secret_len]);
        len = len.checked_add_signed(spare).expect("a length");
        // SAFETY: there is as much room.
        let done =
            unsafe { EVP_PKEY_encapsulate(self.0, out.as_mut_ptr(), &mut len, secret.as_mut_ptr(), &mut secret_len) };
        (done == 1).then_some((out, secret))
    }

    fn decapsulate(&self, ciphertext: &[u8]) -> Vec<u8> {
        let (mut secret, mut len) = (vec![0; 32], 32);
        // SAFETY: buffers of their lengths.
        let done = unsafe {
            EVP_PKEY_decapsulate(self.0, secret.as_mut_ptr(), &mut len, ciphertext.as_ptr(), ciphertext.len())
        };
        assert_eq!((done, len), (1, 32));
        secret
    }
}

impl Drop for Kem {
    fn drop(&mut self) {
        // SAFETY: this value's own.
        unsafe { EVP_PKEY_CTX_free(self.0) };
    }
}

fn in_mill<R>(expected: u64, work: impl FnOnce() -> R) -> R {
    let before = support::operations();
    let result = work();
    let after = support::operations();
    assert_eq!((after.0 - before.0, after.1 - before.1), (expected, 0), "operations of the mill, and of `default`");
    result
}

/// All in one: counts are the process's.
#[test]
fn what_one_provider_encapsulates_the_other_opens() {
    support::load();
    if openssl::version::number() < 0x3050_0000 {
        eprintln!("not looked at: ML-KEM, which this OpenSSL does not have yet");
        return;
    }
    for (name, public_len) in [(c"ML-KEM-512", 800), (c"ML-KEM-768", 1184), (c"ML-KEM-1024", 1568)] {
        // SAFETY: strings; this type takes no more arguments.
        let key = unsafe { EVP_PKEY_Q_keygen(ptr::null_mut(), OURS.as_ptr(), name.as_ptr()) };
        assert!(!key.is_null(), "{name:?}");
        let (mut public, mut len) = (vec![0; public_len], 0);
        // SAFETY: there is room for as much.
        let told =
            unsafe { EVP_PKEY_get_octet_string_param(key, c"pub".as_ptr(), public.as_mut_ptr(), public_len, &mut len) };
        assert_eq!((told, len), (1, public_len));
        // SAFETY: strings, and a buffer of its length.
        let alone = unsafe {
            EVP_PKEY_new_raw_public_key_ex(ptr::null_mut(), name.as_ptr(), OURS.as_ptr(), public.as_ptr(), len)
        };
        assert!(!alone.is_null(), "{name:?}");
        // With the whole key, and with its public half alone.
        for encapsulating in [key, alone] {
            for (to, from, operations) in [(OURS, DEFAULTS, 1), (DEFAULTS, OURS, 1), (OURS, OURS, 2)] {
                in_mill(operations, || {
                    let made = Kem::new(encapsulating, to, EVP_PKEY_encapsulate_init).encapsulate(0);
                    let (ciphertext, secret) = made.expect("a ciphertext");
                    let opening = Kem::new(key, from, EVP_PKEY_decapsulate_init);
                    assert_eq!(opening.decapsulate(&ciphertext), secret, "{name:?}, {to:?} to {from:?}");
                });
            }
        }
        refusals(key);
        // SAFETY: this test's own.
        unsafe {
            EVP_PKEY_free(key);
            EVP_PKEY_free(alone);
        }
    }
}

/// Too little room is refused, and a damaged ciphertext has the secret that `default` finds (FIPS 203, 7.3).
fn refusals(key: Key) {
    let ours = Kem::new(key, OURS, EVP_PKEY_encapsulate_init);
    assert!(in_mill(0, || ours.encapsulate(-1)).is_none());
    let (mut ciphertext, secret) = ours.encapsulate(0).expect("a ciphertext");
    ciphertext[7] ^= 1;
    let found = [OURS, DEFAULTS].map(|from| Kem::new(key, from, EVP_PKEY_decapsulate_init).decapsulate(&ciphertext));
    assert!(found[0] == found[1] && found[0] != secret);
}
