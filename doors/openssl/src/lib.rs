//! A provider for OpenSSL 3: applications that speak OpenSSL have public-key operations done by a mill, unchanged.
//!
//! Keys, signatures and agreements are those of OpenSSL's own provider `default`, which is loaded once more in a library context of
//! ours; what the mill is better at is done there instead. Within asynchronous jobs (`ASYNC_JOB`) operations of many connections
//! share batches. Everything else stays with the `default` that the application has loaded.
//!
//! The source for numbers and rules is OpenSSL's documentation: provider(7), provider-keymgmt(7), provider-signature(7),
//! provider-keyexch(7), ASYNC_start_job(3).
#![allow(unsafe_code, reason = "a foreign surface: every function here is called by OpenSSL, or calls it")]

mod backend;
mod cipher;
mod context;
mod counts;
mod delegate;
mod dispatch;
mod encryption;
mod ephemeral;
mod exchange;
#[cfg(feature = "faults")]
mod faults;
mod ffi;
mod guard;
mod inner;
mod job;
mod kem;
mod key;
mod keystore;
mod material;
mod opaque;
mod operation;
mod params;
mod run;
mod signature;
mod stack;
mod stored;
mod timing;
mod upcalls;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use crate::dispatch::Object;
use crate::ffi::{Algorithm, Callback, Dispatch, Function, Param, op};
use crate::guard::guarded;
use crate::inner::{Found, Inner};
use crate::params::{END, answer_number, answer_text};

/// How our algorithms are told from those of other providers.
const PROPERTIES: &CStr = c"provider=ciphermill";

/// Of decoders: what they read.
const REFERENCES: &CStr = c"provider=ciphermill,input=der,structure=PrivateKeyInfo";

const NAME: &CStr = c"Ciphermill";
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// A value that is the same for the whole process and is only read.
struct Fixed<T>(T);

// SAFETY: pointers to what is never written nor freed.
unsafe impl<T> Send for Fixed<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Fixed<T> {}

/// What OpenSSL calls first: `OSSL_provider_init_fn`.
///
/// # Safety
/// To be called by OpenSSL, as provider-base(7) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const c_void,
    upcalls: *const c_void,
    out: *mut *const c_void,
    context: *mut *mut c_void,
) -> c_int {
    guarded(0, || {
        static TABLE: OnceLock<Fixed<Vec<Dispatch>>> = OnceLock::new();
        if Inner::shared().is_none() || out.is_null() || context.is_null() {
            return 0;
        }
        // SAFETY: the core's own table.
        unsafe {
            upcalls::note(upcalls.cast());
            keystore::configure(handle);
        }
        let table = TABLE.get_or_init(|| Fixed(provider_table()));
        // All that is made once is made now: a process that forks while a thread is at it would leave its child waiting.
        backend::loaded();
        for number in [
            op::CIPHER,
            op::KEYMGMT,
            op::KEYEXCH,
            op::SIGNATURE,
            op::ASYM_CIPHER,
            op::KEM,
            op::SKEYMGMT,
            op::DECODER,
            op::STORE,
        ] {
            algorithms(number);
        }
        // SAFETY: places for pointers, as OpenSSL says. Nothing is kept for each library context that loads us; functions of
        // `default` that are offered as they are take its own context.
        unsafe {
            *out = table.0.as_ptr().cast();
            *context = inner::provider_context();
        }
        1
    })
}

/// The provider's own functions (`core_dispatch.h`).
fn provider_table() -> Vec<Dispatch> {
    let entry = |id, function| Dispatch { id, function: Some(function) };
    // SAFETY: function pointers of other types; the core calls each by the type that its number stands for.
    unsafe {
        vec![
            entry(1025, std::mem::transmute::<unsafe extern "C" fn(Object) -> *const Param, Function>(gettable_params)),
            entry(1026, std::mem::transmute::<unsafe extern "C" fn(Object, *mut Param) -> c_int, Function>(get_params)),
            entry(
                1027,
                std::mem::transmute::<unsafe extern "C" fn(Object, c_int, *mut c_int) -> *const Algorithm, Function>(
                    query_operation,
                ),
            ),
            entry(
                1030,
                std::mem::transmute::<
                    unsafe extern "C" fn(Object, *const c_char, Option<Callback>, Object) -> c_int,
                    Function,
                >(get_capabilities),
            ),
            Dispatch { id: 0, function: None },
        ]
    }
}

unsafe extern "C" fn gettable_params(_: Object) -> *const Param {
    const COUNT: Param = Param { data_type: ffi::UNSIGNED_INTEGER, data_size: size_of::<u64>(), ..END };
    static GETTABLE: Fixed<[Param; 5 + counts::KEYS.len()]> = Fixed([
        Param { key: c"name".as_ptr(), data_type: ffi::UTF8_PTR, ..END },
        Param { key: c"version".as_ptr(), data_type: ffi::UTF8_PTR, ..END },
        Param { key: c"buildinfo".as_ptr(), data_type: ffi::UTF8_PTR, ..END },
        Param { key: c"status".as_ptr(), data_type: ffi::INTEGER, data_size: size_of::<c_int>(), ..END },
        Param { key: counts::KEYS[0].as_ptr(), ..COUNT },
        Param { key: counts::KEYS[1].as_ptr(), ..COUNT },
        Param { key: counts::KEYS[2].as_ptr(), ..COUNT },
        Param { key: counts::KEYS[3].as_ptr(), ..COUNT },
        Param { key: counts::KEYS[4].as_ptr(), ..COUNT },
        END,
    ]);
    GETTABLE.0.as_ptr()
}

unsafe extern "C" fn get_params(_: Object, mut param: *mut Param) -> c_int {
    guarded(0, || {
        // SAFETY: an array of the core's, ended by a null key.
        while let Some(asked) = unsafe { param.as_mut() }.filter(|param| !param.key.is_null()) {
            // SAFETY: keys are strings.
            let answered = match unsafe { CStr::from_ptr(asked.key) }.to_bytes() {
                b"name" => answer_text(asked, NAME),
                b"version" | b"buildinfo" => answer_text(asked, VERSION),
                b"status" => answer_number(asked, 1),
                key => match counts::find(key) {
                    Some(count) => answer_number(asked, count),
                    None => true,
                },
            };
            if !answered {
                return 0;
            }
            // SAFETY: this was not the end.
            param = unsafe { param.add(1) };
        }
        1
    })
}

unsafe extern "C" fn query_operation(_: Object, number: c_int, no_cache: *mut c_int) -> *const Algorithm {
    guarded(ptr::null(), || {
        if !no_cache.is_null() {
            // SAFETY: a place for a number, as OpenSSL says.
            unsafe { *no_cache = 0 };
        }
        algorithms(number).map_or(ptr::null(), |table| table.as_ptr())
    })
}

/// Groups of TLS: libssl takes a group from the provider that manages its keys, so that they have to be told here once more.
unsafe extern "C" fn get_capabilities(
    _: Object,
    capability: *const c_char,
    callback: Option<Callback>,
    argument: Object,
) -> c_int {
    guarded(0, || match Inner::shared() {
        // SAFETY: the core's arguments.
        Some(inner) => unsafe { inner.tell_capabilities(capability, callback, argument) },
        None => 0,
    })
}

/// The dispatch tables that a function makes for each of several numbers.
macro_rules! tables {
    ($module:ident::$function:ident: $($of:literal)*) => { [$($module::$function::<$of>().write()),*] };
}

/// What we offer for an operation.
fn algorithms(number: c_int) -> Option<&'static [Algorithm]> {
    macro_rules! once {
        ($table:expr) => {{
            static TABLE: OnceLock<Fixed<Vec<Algorithm>>> = OnceLock::new();
            &TABLE.get_or_init(|| Fixed($table)).0
        }};
    }
    Some(match number {
        op::CIPHER => once!(table(
            number,
            &cipher::CIPHERS.map(|(name, _)| name),
            tables!(cipher::ciphers: 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
        )),
        op::KEYMGMT => {
            once!(table(number, &key::TYPES.map(|(name, _)| name), tables!(key::managed: 0 1 2 3 4 5 6 7 8 9 10 11)))
        }
        op::SIGNATURE => {
            once!(table(number, &signature::SCHEMES.map(|(name, _)| name), signature::messages::tables()))
        }
        op::KEYEXCH => once!(table(number, &exchange::AGREEMENTS, tables!(exchange::exchanges: 0 1 2))),
        op::ASYM_CIPHER => once!(table(number, &[encryption::NAME], [encryption::encryptions().write()])),
        op::KEM => {
            let [one, two, three] = tables!(kem::kems: 0 1 2);
            once!(table(
                number,
                &[delegate::NAME, kem::KEMS[0], kem::KEMS[1], kem::KEMS[2]],
                [delegate::encapsulations().write(), one, two, three]
            ))
        }
        op::SKEYMGMT => once!(table(number, &[], [])),
        op::DECODER => once!(table_as(
            op::KEYMGMT,
            REFERENCES,
            &keystore::TYPES.map(|of| key::TYPES[of].0),
            tables!(keystore::decoders: 0 1 2 3 4 5)
        )),
        op::STORE => once!(vec![the_store(), LAST]),
        _ => return None,
    })
}

/// Algorithms under all the names that `default` gives them; those that it does not have are left out.
fn table<const N: usize>(number: c_int, names: &[&CStr; N], functions: [Vec<Dispatch>; N]) -> Vec<Algorithm> {
    table_as(number, PROPERTIES, names, functions)
}

/// The same with properties of their own.
fn table_as<const N: usize>(
    number: c_int,
    properties: &'static CStr,
    names: &[&CStr; N],
    functions: [Vec<Dispatch>; N],
) -> Vec<Algorithm> {
    let Some(inner) = Inner::shared() else { return vec![LAST] };
    let ours = names.iter().zip(functions).filter_map(|(name, functions)| {
        let found = inner.find(number, name)?;
        // As long as the process, as our code is: applications may keep what they have fetched.
        Some(Found { implementation: Vec::leak(functions).as_ptr(), ..found })
    });
    let offered = ours.chain(opaque::beside(inner, number, names)).map(|found| {
        let Found { names, description, implementation } = found;
        Algorithm { names, properties: properties.as_ptr(), implementation, description }
    });
    offered.chain([LAST]).collect()
}

/// Our store, which `default` has none like.
fn the_store() -> Algorithm {
    let implementation = Vec::leak(keystore::store().write()).as_ptr();
    Algorithm {
        names: keystore::NAME.as_ptr(),
        properties: PROPERTIES.as_ptr(),
        implementation,
        description: ptr::null(),
    }
}

/// The end of a table of algorithms.
const LAST: Algorithm = Algorithm {
    names: ptr::null::<c_char>(),
    properties: ptr::null::<c_char>(),
    implementation: ptr::null(),
    description: ptr::null(),
};
