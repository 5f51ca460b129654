//! What is used of OpenSSL: types and numbers of `core.h`, `core_dispatch.h` and `core_names.h`, and functions of libcrypto, all of
//! them public since 3.0.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

/// A function of any type, as dispatch tables hold it.
pub(crate) type Function = unsafe extern "C" fn();

/// One function of an implementation, `OSSL_DISPATCH`; a table ends with the number zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dispatch {
    /// Which function of the operation.
    pub(crate) id: c_int,
    /// The function.
    pub(crate) function: Option<Function>,
}

/// An implementation of an algorithm, `OSSL_ALGORITHM`; a table ends with null names.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Algorithm {
    pub(crate) names: *const c_char,
    pub(crate) properties: *const c_char,
    pub(crate) implementation: *const Dispatch,
    pub(crate) description: *const c_char,
}

/// A parameter, `OSSL_PARAM`; an array ends with a null key.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Param {
    pub(crate) key: *const c_char,
    pub(crate) data_type: c_uint,
    pub(crate) data: *mut c_void,
    pub(crate) data_size: usize,
    pub(crate) return_size: usize,
}

/// Called with parameters, `OSSL_CALLBACK`.
pub(crate) type Callback = unsafe extern "C" fn(*const Param, *mut c_void) -> c_int;

/// Called when an asynchronous job may go on, `ASYNC_callback_fn`.
pub(crate) type AsyncCallback = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Called when a context of waiting is freed.
pub(crate) type AsyncCleanup = unsafe extern "C" fn(*mut WaitContext, *const c_void, c_int, *mut c_void);

macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            pub(crate) struct $name {
                _opaque: [u8; 0],
            }
        )*
    };
}

opaque! {
    /// `OSSL_LIB_CTX`.
    LibraryContext;
    /// `OSSL_PROVIDER`.
    LoadedProvider;
    /// `EVP_PKEY`.
    PrivateKey;
    /// `EVP_MD`.
    Md;
    /// `EVP_MD_CTX`.
    MdContext;
    /// `ASYNC_JOB`.
    Job;
    /// `ASYNC_WAIT_CTX`.
    WaitContext;
}

pub(crate) const INTEGER: c_uint = 1;
pub(crate) const UNSIGNED_INTEGER: c_uint = 2;
pub(crate) const UTF8_STRING: c_uint = 4;
pub(crate) const OCTET_STRING: c_uint = 5;
pub(crate) const UTF8_PTR: c_uint = 6;
pub(crate) const OCTET_PTR: c_uint = 7;

/// Numbers of operations (`OSSL_OP_…`).
pub(crate) mod op {
    use std::ffi::c_int;

    pub(crate) const CIPHER: c_int = 2;
    pub(crate) const KEYMGMT: c_int = 10;
    pub(crate) const KEYEXCH: c_int = 11;
    pub(crate) const SIGNATURE: c_int = 12;
    pub(crate) const ASYM_CIPHER: c_int = 13;
    pub(crate) const KEM: c_int = 14;
    pub(crate) const SKEYMGMT: c_int = 15;
    pub(crate) const DECODER: c_int = 21;
    pub(crate) const STORE: c_int = 22;
}

/// Parts of a key (`OSSL_KEYMGMT_SELECT_…`).
pub(crate) mod selection {
    use std::ffi::c_int;

    pub(crate) const PRIVATE_KEY: c_int = 0x01;
    pub(crate) const PUBLIC_KEY: c_int = 0x02;
    pub(crate) const ALL_PARAMETERS: c_int = 0x84;
}

/// Errors of providers, and that something failed.
pub(crate) const ERR_LIB_PROV: c_int = 57;
pub(crate) const ERR_R_OPERATION_FAIL: c_int = 0x3 << 18 | 263;

#[link(name = "crypto")]
unsafe extern "C" {
    pub(crate) fn OpenSSL_version_num() -> c_ulong;
    pub(crate) fn OSSL_LIB_CTX_new() -> *mut LibraryContext;
    pub(crate) fn OSSL_PROVIDER_load(context: *mut LibraryContext, name: *const c_char) -> *mut LoadedProvider;
    pub(crate) fn OSSL_PROVIDER_query_operation(
        provider: *const LoadedProvider,
        operation: c_int,
        no_cache: *mut c_int,
    ) -> *const Algorithm;
    pub(crate) fn OSSL_PROVIDER_get_capabilities(
        provider: *const LoadedProvider,
        capability: *const c_char,
        callback: Option<Callback>,
        argument: *mut c_void,
    ) -> c_int;
    pub(crate) fn OSSL_PROVIDER_get0_provider_ctx(provider: *const LoadedProvider) -> *mut c_void;

    pub(crate) fn EVP_MD_fetch(context: *mut LibraryContext, name: *const c_char, properties: *const c_char)
    -> *mut Md;
    pub(crate) fn EVP_MD_free(md: *mut Md);
    pub(crate) fn EVP_MD_get_size(md: *const Md) -> c_int;
    pub(crate) fn EVP_MD_get0_name(md: *const Md) -> *const c_char;
    pub(crate) fn EVP_MD_up_ref(md: *mut Md) -> c_int;
    pub(crate) fn EVP_MD_CTX_new() -> *mut MdContext;
    pub(crate) fn EVP_MD_CTX_free(context: *mut MdContext);
    pub(crate) fn EVP_MD_CTX_copy_ex(to: *mut MdContext, from: *const MdContext) -> c_int;
    pub(crate) fn EVP_DigestInit_ex2(context: *mut MdContext, md: *const Md, params: *const Param) -> c_int;
    pub(crate) fn EVP_MD_CTX_set_params(context: *mut MdContext, params: *const Param) -> c_int;
    pub(crate) fn EVP_DigestUpdate(context: *mut MdContext, data: *const c_void, len: usize) -> c_int;
    pub(crate) fn EVP_DigestFinal_ex(context: *mut MdContext, digest: *mut u8, len: *mut c_uint) -> c_int;
    pub(crate) fn RAND_bytes_ex(context: *mut LibraryContext, bytes: *mut u8, len: usize, strength: c_uint) -> c_int;

    pub(crate) fn RSA_padding_check_PKCS1_OAEP_mgf1(
        to: *mut u8,
        to_len: c_int,
        from: *const u8,
        from_len: c_int,
        modulus_len: c_int,
        label: *const u8,
        label_len: c_int,
        md: *const Md,
        mgf1: *const Md,
    ) -> c_int;

    pub(crate) fn ERR_new();
    pub(crate) fn ERR_set_debug(file: *const c_char, line: c_int, function: *const c_char);
    pub(crate) fn ERR_set_error(library: c_int, reason: c_int, format: *const c_char, ...);

    pub(crate) fn d2i_AutoPrivateKey_ex(
        key: *mut *mut PrivateKey,
        bytes: *mut *const u8,
        len: c_long,
        context: *mut LibraryContext,
        properties: *const c_char,
    ) -> *mut PrivateKey;
    pub(crate) fn EVP_PKEY_new_raw_private_key_ex(
        context: *mut LibraryContext,
        key_type: *const c_char,
        properties: *const c_char,
        bytes: *const u8,
        len: usize,
    ) -> *mut PrivateKey;
    pub(crate) fn EVP_PKEY_is_a(key: *const PrivateKey, name: *const c_char) -> c_int;
    pub(crate) fn EVP_PKEY_todata(key: *const PrivateKey, selection: c_int, params: *mut *mut Param) -> c_int;
    pub(crate) fn EVP_PKEY_free(key: *mut PrivateKey);
    pub(crate) fn OSSL_PARAM_free(params: *mut Param);

    pub(crate) fn ASYNC_get_current_job() -> *mut Job;
    pub(crate) fn ASYNC_get_wait_ctx(job: *mut Job) -> *mut WaitContext;
    pub(crate) fn ASYNC_pause_job() -> c_int;
    pub(crate) fn ASYNC_WAIT_CTX_set_wait_fd(
        context: *mut WaitContext,
        key: *const c_void,
        fd: c_int,
        custom: *mut c_void,
        cleanup: Option<AsyncCleanup>,
    ) -> c_int;
    pub(crate) fn ASYNC_WAIT_CTX_get_fd(
        context: *mut WaitContext,
        key: *const c_void,
        fd: *mut c_int,
        custom: *mut *mut c_void,
    ) -> c_int;
    pub(crate) fn ASYNC_WAIT_CTX_get_callback(
        context: *mut WaitContext,
        callback: *mut Option<AsyncCallback>,
        argument: *mut *mut c_void,
    ) -> c_int;
}
