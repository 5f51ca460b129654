//! OpenSSL's own provider `default` in a library context of ours: whatever we do not do ourselves, it does.
//!
//! Only public functions are used: the provider's algorithms as it lists them, and its context, which its constructors take.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::counts;
use crate::dispatch::{Object, Table};
use crate::ffi::{self, Algorithm, Callback, Dispatch, LibraryContext, LoadedProvider, Param};

/// A library context of ours, with `default` loaded. It lives as long as the process: keys and contexts of applications may
/// outlive our provider.
pub(crate) struct Inner {
    context: *mut LibraryContext,
    provider: *mut LoadedProvider,
    provider_context: Object,
}

// SAFETY: OpenSSL's library contexts and providers may be used by any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

static INNER: OnceLock<Option<Inner>> = OnceLock::new();

/// An algorithm of `default`: its names as it gives them, and its functions.
pub(crate) struct Found {
    pub(crate) names: *const c_char,
    pub(crate) description: *const c_char,
    pub(crate) implementation: *const Dispatch,
}

impl Found {
    /// Whether it has a name.
    pub(crate) fn is(&self, name: &CStr) -> bool {
        // SAFETY: names are a string that lives as long as the provider.
        let listed = unsafe { CStr::from_ptr(self.names) }.to_bytes();
        listed.split(|byte| *byte == b':').any(|listed| listed.eq_ignore_ascii_case(name.to_bytes()))
    }
}

impl Inner {
    /// The one of this process; `None` where libcrypto has no provider `default`.
    pub(crate) fn shared() -> Option<&'static Inner> {
        INNER.get_or_init(Inner::open).as_ref()
    }

    fn open() -> Option<Inner> {
        // SAFETY: functions of libcrypto, which is loaded; each result is checked before it is used.
        unsafe {
            let context = ffi::OSSL_LIB_CTX_new();
            if context.is_null() {
                return None;
            }
            let provider = ffi::OSSL_PROVIDER_load(context, c"default".as_ptr());
            if provider.is_null() {
                return None;
            }
            let provider_context = ffi::OSSL_PROVIDER_get0_provider_ctx(provider);
            counts::open();
            Some(Inner { context, provider, provider_context })
        }
    }

    /// The library context, for digests and random bytes.
    pub(crate) fn library_context(&self) -> *mut LibraryContext {
        self.context
    }

    /// The algorithm of an operation that `default` lists under a name.
    pub(crate) fn find(&self, operation: c_int, name: &CStr) -> Option<Found> {
        self.all(operation).find(|found| found.is(name))
    }

    /// The functions of `default` for an algorithm; none where it has no such one.
    pub(crate) fn functions<T: Table>(name: &CStr) -> T {
        let found = Inner::shared().and_then(|inner| inner.find(T::OPERATION, name));
        // SAFETY: the table is one of this operation.
        found.map(|found| unsafe { T::read(found.implementation) }).unwrap_or_default()
    }

    /// All algorithms that `default` lists for an operation.
    pub(crate) fn all(&self, operation: c_int) -> impl Iterator<Item = Found> {
        let mut no_cache = 0;
        // SAFETY: the provider is loaded and stays so.
        let mut next = unsafe { ffi::OSSL_PROVIDER_query_operation(self.provider, operation, &mut no_cache) };
        std::iter::from_fn(move || {
            // SAFETY: null, or a table of algorithms, which ends with null names; no element behind that is looked at.
            let Algorithm { names, implementation, description, .. } = *unsafe { next.as_ref() }?;
            if names.is_null() {
                return None;
            }
            // SAFETY: the end was not reached.
            next = unsafe { next.add(1) };
            Some(Found { names, description, implementation })
        })
    }

    /// Has what `default` is capable of told, one by one.
    ///
    /// # Safety
    /// The capability must be a string, the callback one that may be called with the argument.
    pub(crate) unsafe fn tell_capabilities(
        &self,
        capability: *const c_char,
        callback: Option<Callback>,
        argument: *mut c_void,
    ) -> c_int {
        // SAFETY: the caller's promise; the provider is loaded.
        unsafe { ffi::OSSL_PROVIDER_get_capabilities(self.provider, capability, callback, argument) }
    }

    /// Random bytes of OpenSSL's generator; whether there were any.
    pub(crate) fn random(&self, bytes: &mut [u8]) -> bool {
        // SAFETY: the slice is writable for its length.
        unsafe { ffi::RAND_bytes_ex(self.context, bytes.as_mut_ptr(), bytes.len(), 0) == 1 }
    }
}

/// What constructors of `default` take for its context; null where there is no `default`.
pub(crate) fn provider_context() -> Object {
    Inner::shared().map_or(ptr::null_mut(), |inner| inner.provider_context)
}

/// A digest of OpenSSL.
pub(crate) struct Md(*mut ffi::Md);

/// A message on its way through a digest.
pub(crate) struct MdContext(*mut ffi::MdContext);

// SAFETY: digests are counted and never change.
unsafe impl Send for Md {}
// SAFETY: as above.
unsafe impl Sync for Md {}
// SAFETY: a context belongs to whoever holds it, in any thread.
unsafe impl Send for MdContext {}

/// Longest digest in bytes (`EVP_MAX_MD_SIZE`).
pub(crate) const MD_LEN_MAX: usize = 64;

impl Md {
    /// The digest of a name, as `default` has it.
    pub(crate) fn fetch(name: &CStr) -> Option<Md> {
        let inner = Inner::shared()?;
        // SAFETY: the name is a string; no properties are asked for.
        let md = unsafe { ffi::EVP_MD_fetch(inner.library_context(), name.as_ptr(), ptr::null()) };
        (!md.is_null()).then_some(Md(md))
    }

    /// The digest of a name that ends with a zero: none for an empty one, `None` for an unknown one.
    pub(crate) fn named(name: &[u8]) -> Option<Option<Md>> {
        let name = CStr::from_bytes_until_nul(name).ok()?;
        if name.is_empty() { Some(None) } else { Md::fetch(name).map(Some) }
    }

    /// For functions of libcrypto.
    pub(crate) fn as_ptr(&self) -> *const ffi::Md {
        self.0
    }

    /// Its length in bytes; zero for those whose output has any length.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: a digest that was fetched.
        usize::try_from(unsafe { ffi::EVP_MD_get_size(self.0) }).unwrap_or(0)
    }

    /// The first of its names.
    pub(crate) fn name(&self) -> &CStr {
        // SAFETY: the name lives as long as the digest does.
        unsafe { CStr::from_ptr(ffi::EVP_MD_get0_name(self.0)) }
    }
}

impl Clone for Md {
    fn clone(&self) -> Md {
        // SAFETY: a digest that was fetched. Counting up does not fail.
        unsafe { ffi::EVP_MD_up_ref(self.0) };
        Md(self.0)
    }
}

impl Drop for Md {
    fn drop(&mut self) {
        // SAFETY: this value's own count.
        unsafe { ffi::EVP_MD_free(self.0) }
    }
}

impl MdContext {
    /// A context in which nothing has begun.
    pub(crate) fn new() -> Option<MdContext> {
        // SAFETY: no precondition.
        let context = unsafe { ffi::EVP_MD_CTX_new() };
        (!context.is_null()).then_some(MdContext(context))
    }

    /// Begins a message.
    pub(crate) fn begin(&mut self, md: &Md) -> Option<()> {
        // SAFETY: both are alive, and there are no parameters.
        unsafe { self.begin_with(md, ptr::null()) }
    }

    /// Begins a message with parameters of its digest.
    ///
    /// # Safety
    /// The parameters must be null or an array that is ended by a null key.
    pub(crate) unsafe fn begin_with(&mut self, md: &Md, params: *const Param) -> Option<()> {
        // SAFETY: both are alive; the caller's promise.
        (unsafe { ffi::EVP_DigestInit_ex2(self.0, md.0, params) } == 1).then_some(())
    }

    /// Sets parameters of the digest.
    ///
    /// # Safety
    /// As [`MdContext::begin_with`].
    pub(crate) unsafe fn set(&mut self, params: *const Param) -> Option<()> {
        // SAFETY: it is alive; the caller's promise.
        (unsafe { ffi::EVP_MD_CTX_set_params(self.0, params) } == 1).then_some(())
    }

    /// Takes more of the message.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Option<()> {
        // SAFETY: the slice is readable for its length.
        (unsafe { ffi::EVP_DigestUpdate(self.0, bytes.as_ptr().cast::<c_void>(), bytes.len()) } == 1).then_some(())
    }

    /// Ends the message. Returns its digest and the digest's length.
    pub(crate) fn finish(&mut self) -> Option<([u8; MD_LEN_MAX], usize)> {
        let (mut digest, mut len) = ([0; MD_LEN_MAX], 0);
        // SAFETY: there is room for the longest digest.
        let done = unsafe { ffi::EVP_DigestFinal_ex(self.0, digest.as_mut_ptr(), &mut len) };
        (done == 1).then_some((digest, len as usize))
    }

    /// A context that has come as far.
    pub(crate) fn copy(&self) -> Option<MdContext> {
        let copy = MdContext::new()?;
        // SAFETY: both are alive.
        (unsafe { ffi::EVP_MD_CTX_copy_ex(copy.0, self.0) } == 1).then_some(copy)
    }
}

impl Drop for MdContext {
    fn drop(&mut self) {
        // SAFETY: nobody else has it.
        unsafe { ffi::EVP_MD_CTX_free(self.0) }
    }
}
