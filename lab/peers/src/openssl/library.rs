//! The system's OpenSSL, opened once: a library context of our own with the default and the legacy provider.
//!
//! Algorithms are fetched once and kept. `EVP_aes_128_cbc()` and its like would fetch in every init, which costs several
//! hundred nanoseconds an operation in OpenSSL 3.0; peers are measured at their best.

use std::ffi::CStr;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use openssl_sys as sys;

/// An algorithm that was fetched and is never freed.
pub(super) struct Fetched<T>(NonNull<T>);

impl<T> Clone for Fetched<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Fetched<T> {}

impl<T> Fetched<T> {
    pub(super) fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }
}

// SAFETY: fetched algorithms are immutable and reference-counted with atomics; OpenSSL documents them as shareable.
unsafe impl<T> Send for Fetched<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Fetched<T> {}

/// The library context; lives as long as the process.
pub(super) struct Library(NonNull<sys::OSSL_LIB_CTX>);

// SAFETY: an OSSL_LIB_CTX may be used by many threads at once (OSSL_LIB_CTX(3)).
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// The library, opened on the first call.
    pub(super) fn open() -> Result<&'static Library, String> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        LIBRARY.get_or_init(Library::load).as_ref().map_err(String::clone)
    }

    fn load() -> Result<Library, String> {
        openssl_sys::init();
        // SAFETY: no arguments; the result is checked for null.
        let context = NonNull::new(unsafe { sys::OSSL_LIB_CTX_new() }).ok_or("no library context could be made")?;
        for name in [c"default", c"legacy"] {
            // SAFETY: the context is valid and the name ends with its nul.
            if unsafe { sys::OSSL_PROVIDER_load(context.as_ptr(), name.as_ptr()) }.is_null() {
                return Err(format!("the {} provider could not be loaded", name.to_string_lossy()));
            }
        }
        Ok(Library(context))
    }

    /// The version as the library that is loaded tells it.
    pub(super) fn version() -> String {
        // SAFETY: returns a static string with its nul.
        let text = unsafe { CStr::from_ptr(sys::OpenSSL_version(sys::OPENSSL_VERSION)) };
        text.to_string_lossy().into_owned()
    }

    pub(super) fn cipher(&self, name: &CStr) -> Result<Fetched<sys::EVP_CIPHER>, String> {
        // SAFETY: the context is valid, the name ends with its nul, null asks for no properties.
        found(unsafe { sys::EVP_CIPHER_fetch(self.0.as_ptr(), name.as_ptr(), ptr::null()) }, name)
    }

    pub(super) fn digest(&self, name: &CStr) -> Result<Fetched<sys::EVP_MD>, String> {
        // SAFETY: as in `cipher`.
        found(unsafe { sys::EVP_MD_fetch(self.0.as_ptr(), name.as_ptr(), ptr::null()) }, name)
    }

    pub(super) fn mac(&self, name: &CStr) -> Result<Fetched<sys::EVP_MAC>, String> {
        // SAFETY: as in `cipher`.
        found(unsafe { sys::EVP_MAC_fetch(self.0.as_ptr(), name.as_ptr(), ptr::null()) }, name)
    }
}

fn found<T>(raw: *mut T, name: &CStr) -> Result<Fetched<T>, String> {
    NonNull::new(raw).map(Fetched).ok_or_else(|| format!("algorithm {} is missing", name.to_string_lossy()))
}
