//! Operations of our keys that `default` does alone: encapsulation under RSA keys.
//!
//! One provider has to own all operations of a type of keys, since the core hands its own objects to no other.

use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::OnceLock;

use crate::dispatch::{Encapsulation, Object};
use crate::ffi::Param;
use crate::inner::{Inner, provider_context};
use crate::key::Key;

/// The type of keys that these are for.
pub(crate) const NAME: &CStr = c"RSA";

/// The functions of `default`.
fn functions() -> &'static Encapsulation {
    static FUNCTIONS: OnceLock<Encapsulation> = OnceLock::new();
    FUNCTIONS.get_or_init(|| Inner::functions(NAME))
}

/// Ours: those of `default` but for what takes its context or a key.
pub(crate) fn encapsulations() -> Encapsulation {
    let inner = functions();
    Encapsulation {
        newctx: inner.newctx.and(Some(newctx)),
        encapsulate_init: inner.encapsulate_init.and(Some(encapsulate_init)),
        decapsulate_init: inner.decapsulate_init.and(Some(decapsulate_init)),
        gettable_ctx_params: inner.gettable_ctx_params.and(Some(gettable_ctx_params)),
        settable_ctx_params: inner.settable_ctx_params.and(Some(settable_ctx_params)),
        ..*inner
    }
}

unsafe extern "C" fn newctx(_: Object) -> Object {
    // SAFETY: the context is that of `default`, whose function it is.
    functions().newctx.map_or(ptr::null_mut(), |new| unsafe { new(provider_context()) })
}

unsafe extern "C" fn encapsulate_init(context: Object, key: Object, params: *const Param) -> c_int {
    // SAFETY: contexts are those of `default`, keys are ours.
    functions().encapsulate_init.map_or(0, |init| unsafe { init(context, Key::inner_of(key), params) })
}

unsafe extern "C" fn decapsulate_init(context: Object, key: Object, params: *const Param) -> c_int {
    // SAFETY: as above.
    functions().decapsulate_init.map_or(0, |init| unsafe { init(context, Key::inner_of(key), params) })
}

unsafe extern "C" fn gettable_ctx_params(context: Object, _: Object) -> *const Param {
    let gettable = functions().gettable_ctx_params;
    // SAFETY: contexts are those of `default`.
    gettable.map_or(ptr::null(), |gettable| unsafe { gettable(context, provider_context()) })
}

unsafe extern "C" fn settable_ctx_params(context: Object, _: Object) -> *const Param {
    let settable = functions().settable_ctx_params;
    // SAFETY: contexts are those of `default`.
    settable.map_or(ptr::null(), |settable| unsafe { settable(context, provider_context()) })
}
