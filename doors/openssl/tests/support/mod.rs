//! The provider as an application loads it, in the default library context of the test's process.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

pub(crate) mod connection;
pub(crate) mod pair;
pub(crate) mod program;

use std::env;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr;
use std::sync::OnceLock;

use foreign_types::ForeignType;
use openssl::provider::Provider;
use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::pem::LineEnding;
use pkcs8::der::{self, Decode, Encode};

#[repr(C)]
struct Param {
    key: *const c_char,
    data_type: c_uint,
    data: *mut c_void,
    data_size: usize,
    return_size: usize,
}

unsafe extern "C" {
    fn EVP_set_default_properties(context: *mut c_void, properties: *const c_char) -> c_int;
    fn OSSL_PROVIDER_get_params(provider: *const openssl_sys::OSSL_PROVIDER, params: *mut Param) -> c_int;
}

/// Whether this processor has lanes for public keys; elsewhere operations come one by one, so that nobody is paused.
pub(crate) fn has_lanes() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has_lanes = is_x86_feature_detected!("avx512ifma");
    #[cfg(not(target_arch = "x86_64"))]
    let has_lanes = false;
    if !has_lanes {
        eprintln!("not looked at: whether batches are shared, since this processor has no lanes for public keys");
    }
    has_lanes
}

/// The library that Cargo has built beside this test.
pub(crate) fn library() -> PathBuf {
    let test = env::current_exe().expect("the test's own path");
    test.with_file_name("libciphermill_openssl.so")
}

struct Loaded {
    _default: Provider,
    ours: Provider,
}

/// Loads the provider beside `default`, and prefers it.
pub(crate) fn load() -> &'static Provider {
    static LOADED: OnceLock<Loaded> = OnceLock::new();
    &LOADED
        .get_or_init(|| {
            // What is measured or comes alone would be left to `default` here and there.
            // SAFETY: tests begin here, and no other thread of theirs reads the environment meanwhile.
            unsafe { env::set_var("CIPHERMILL_OPENSSL_PREFERS", "mill") };
            openssl::init();
            let default = Provider::load(None, "default").expect("OpenSSL's provider");
            let ours = Provider::load(None, library().to_str().expect("a path")).expect("our provider");
            // SAFETY: the default library context, and a string.
            assert_eq!(unsafe { EVP_set_default_properties(ptr::null_mut(), c"?provider=ciphermill".as_ptr()) }, 1);
            Loaded { _default: default, ours }
        })
        .ours
}

/// A number that the provider has counted in this process.
pub(crate) fn count(key: &CStr) -> u64 {
    let mut count = u64::MAX;
    let data = ptr::from_mut(&mut count).cast();
    let end = Param { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 };
    let mut params = [Param { key: key.as_ptr(), data_type: 2, data, data_size: 8, return_size: 0 }, end];
    // SAFETY: the provider is loaded, and the parameter has room for its number.
    assert_eq!(unsafe { OSSL_PROVIDER_get_params(load().as_ptr(), params.as_mut_ptr()) }, 1);
    count
}

/// Operations that the mill has done, and those that were left to `default`.
pub(crate) fn operations() -> (u64, u64) {
    (count(c"ciphermill-operations"), count(c"ciphermill-delegated"))
}

/// A file that names a key of the keystore where one expects the key itself.
pub(crate) fn reference(pem: &str, uri: &str) -> String {
    let (_, der) = der::pem::decode_vec(pem.as_bytes()).expect("PEM");
    let algorithm = PrivateKeyInfoRef::from_der(&der).expect("PKCS#8").algorithm;
    let octets = OctetStringRef::new(uri.as_bytes()).expect("short");
    let reference = PrivateKeyInfoRef::new(algorithm, octets).to_der().expect("DER");
    der::pem::encode_string("PRIVATE KEY", LineEnding::LF, &reference).expect("PEM")
}
