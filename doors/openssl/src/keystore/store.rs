//! The store `ciphermill:`, by which programs load keys that they name by URI (provider-storemgmt(7), ossl_store(7)).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use super::settings::Asking;
use super::{Reference, load};
use crate::dispatch::{Object, Passphrase, Store};
use crate::ffi::{Callback, INTEGER, Param};
use crate::guard::guarded;
use crate::key::Loaded;
use crate::params::END;

/// The scheme, which is the name of the algorithm.
pub(crate) const NAME: &CStr = c"ciphermill";

/// A key that is to be loaded.
struct Opened {
    reference: Reference,
    is_at_end: bool,
}

impl Opened {
    /// # Safety
    /// Null, or an object of `open` that is alive, and that no other call is using.
    unsafe fn of<'a>(object: Object) -> Option<&'a mut Opened> {
        // SAFETY: the caller's promise.
        unsafe { object.cast::<Opened>().as_mut() }
    }
}

/// Our functions.
pub(crate) fn store() -> Store {
    Store {
        open: Some(open),
        settable_ctx_params: Some(settable_ctx_params),
        set_ctx_params: Some(set_ctx_params),
        load: Some(load_object),
        eof: Some(eof),
        close: Some(close),
        export_object: Some(super::decoder::export_object),
    }
}

unsafe extern "C" fn open(_: Object, uri: *const c_char) -> Object {
    guarded(ptr::null_mut(), || {
        // SAFETY: a string of the core's.
        let Ok(uri) = unsafe { CStr::from_ptr(uri) }.to_str() else { return ptr::null_mut() };
        match Reference::parse(uri) {
            Some(Ok(reference)) => Box::into_raw(Box::new(Opened { reference, is_at_end: false })).cast(),
            Some(Err(problem)) => {
                problem.raise(line!());
                ptr::null_mut()
            }
            None => ptr::null_mut(),
        }
    })
}

unsafe extern "C" fn settable_ctx_params(_: Object) -> *const Param {
    static SETTABLE: crate::Fixed<[Param; 2]> = crate::Fixed([
        Param { key: c"expect".as_ptr(), data_type: INTEGER, data_size: size_of::<c_int>(), ..END },
        END,
    ]);
    SETTABLE.0.as_ptr()
}

/// What a program expects makes no difference: there is one object.
unsafe extern "C" fn set_ctx_params(_: Object, _: *const Param) -> c_int {
    1
}

unsafe extern "C" fn load_object(
    context: Object,
    callback: Option<Callback>,
    argument: *mut c_void,
    asks: Option<Passphrase>,
    asks_with: *mut c_void,
) -> c_int {
    guarded(0, || {
        // SAFETY: the core's arguments.
        let (Some(opened), Some(callback)) = (unsafe { Opened::of(context) }, callback) else { return 0 };
        opened.is_at_end = true;
        // SAFETY: whoever asks is callable during this call.
        match unsafe { load(&opened.reference, Asking { function: asks, argument: asks_with }) } {
            // SAFETY: the core's callback.
            Ok((of, object)) => unsafe { Loaded::new(of, object).hand_over(callback, argument) },
            Err(problem) => {
                problem.raise(line!());
                0
            }
        }
    })
}

unsafe extern "C" fn eof(context: Object) -> c_int {
    // SAFETY: the core's context.
    guarded(1, || c_int::from(unsafe { Opened::of(context) }.is_none_or(|opened| opened.is_at_end)))
}

unsafe extern "C" fn close(context: Object) -> c_int {
    guarded(0, || {
        if !context.is_null() {
            // SAFETY: the core's own, which it does not use any more.
            drop(unsafe { Box::from_raw(context.cast::<Opened>()) });
        }
        1
    })
}
