//! Dispatch tables as structs of typed functions: those of `default` are read into them, and ours are written from them.
//!
//! Each struct is one operation of `core_dispatch.h` as far as 3.0 has it, and what later versions of `default` have added to it. Functions
//! that it does not name are left out of our tables, so that the core takes the ways of 3.0; those that the running `default` does not
//! have are never in ours.

use std::ffi::{c_char, c_int, c_void};

use crate::ffi::{Callback, Dispatch, Function, Param, op};

/// A provider-side object: a key, a context, whatever `default` or we make of it.
pub(crate) type Object = *mut c_void;

/// Asks for a passphrase, `OSSL_PASSPHRASE_CALLBACK`.
pub(crate) type Passphrase = unsafe extern "C" fn(*mut c_char, usize, *mut usize, *const Param, *mut c_void) -> c_int;

/// A dispatch table as a struct.
pub(crate) trait Table: Default {
    /// Which operation's it is.
    const OPERATION: c_int;

    /// Reads a dispatch table.
    ///
    /// # Safety
    /// The table must be null or one of this operation, ended by zero.
    unsafe fn read(table: *const Dispatch) -> Self;
}

macro_rules! operation {
    ($(#[$doc:meta])* $name:ident: $operation:expr, { $($field:ident = $id:literal: fn($($argument:ty),*) $(-> $result:ty)?;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub(crate) struct $name {
            $(pub(crate) $field: Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>,)*
        }

        impl Table for $name {
            const OPERATION: c_int = $operation;

            unsafe fn read(mut table: *const Dispatch) -> $name {
                let mut functions = $name::default();
                if table.is_null() {
                    return functions;
                }
                loop {
                    // SAFETY: the caller's promise; no element behind the end is looked at.
                    let Dispatch { id, function } = unsafe { *table };
                    match id {
                        0 => return functions,
                        $(
                            // SAFETY: `core_dispatch.h` gives the function of this number this type.
                            $id => functions.$field = unsafe { std::mem::transmute::<Option<Function>, Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>>(function) },
                        )*
                        _ => {}
                    }
                    // SAFETY: the end was not reached.
                    table = unsafe { table.add(1) };
                }
            }
        }

        impl $name {
            /// The same functions as a dispatch table.
            #[allow(dead_code, reason = "some tables are only read")]
            pub(crate) fn write(&self) -> Vec<Dispatch> {
                let mut table = Vec::new();
                $(
                    // SAFETY: a function pointer of another type; it is called by the type that its number stands for.
                    let function = unsafe { std::mem::transmute::<Option<unsafe extern "C" fn($($argument),*) $(-> $result)?>, Option<Function>>(self.$field) };
                    if function.is_some() {
                        table.push(Dispatch { id: $id, function });
                    }
                )*
                table.push(Dispatch { id: 0, function: None });
                table
            }
        }
    };
}

operation! {
    /// What providers do with keys of one type.
    KeyManagement: op::KEYMGMT, {
        new = 1: fn(Object) -> Object;
        gen_init = 2: fn(Object, c_int, *const Param) -> Object;
        gen_set_template = 3: fn(Object, Object) -> c_int;
        gen_set_params = 4: fn(Object, *const Param) -> c_int;
        gen_settable_params = 5: fn(Object, Object) -> *const Param;
        generate = 6: fn(Object, Option<Callback>, *mut c_void) -> Object;
        gen_cleanup = 7: fn(Object);
        load = 8: fn(*const c_void, usize) -> Object;
        free = 10: fn(Object);
        get_params = 11: fn(Object, *mut Param) -> c_int;
        gettable_params = 12: fn(Object) -> *const Param;
        set_params = 13: fn(Object, *const Param) -> c_int;
        settable_params = 14: fn(Object) -> *const Param;
        gen_get_params = 15: fn(Object, *mut Param) -> c_int;
        gen_gettable_params = 16: fn(Object, Object) -> *const Param;
        query_operation_name = 20: fn(c_int) -> *const c_char;
        has = 21: fn(*const c_void, c_int) -> c_int;
        validate = 22: fn(*const c_void, c_int, c_int) -> c_int;
        matches = 23: fn(*const c_void, *const c_void, c_int) -> c_int;
        import = 40: fn(Object, c_int, *const Param) -> c_int;
        import_types = 41: fn(c_int) -> *const Param;
        export = 42: fn(Object, c_int, Option<Callback>, *mut c_void) -> c_int;
        export_types = 43: fn(c_int) -> *const Param;
        dup = 44: fn(*const c_void, c_int) -> Object;
    }
}

operation! {
    /// Key agreement.
    KeyExchange: op::KEYEXCH, {
        newctx = 1: fn(Object) -> Object;
        init = 2: fn(Object, Object, *const Param) -> c_int;
        derive = 3: fn(Object, *mut u8, *mut usize, usize) -> c_int;
        set_peer = 4: fn(Object, Object) -> c_int;
        freectx = 5: fn(Object);
        dupctx = 6: fn(Object) -> Object;
        set_ctx_params = 7: fn(Object, *const Param) -> c_int;
        settable_ctx_params = 8: fn(Object, Object) -> *const Param;
        get_ctx_params = 9: fn(Object, *mut Param) -> c_int;
        gettable_ctx_params = 10: fn(Object, Object) -> *const Param;
    }
}

operation! {
    /// Signatures.
    Signatures: op::SIGNATURE, {
        newctx = 1: fn(Object, *const c_char) -> Object;
        sign_init = 2: fn(Object, Object, *const Param) -> c_int;
        sign = 3: fn(Object, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
        verify_init = 4: fn(Object, Object, *const Param) -> c_int;
        verify = 5: fn(Object, *const u8, usize, *const u8, usize) -> c_int;
        verify_recover_init = 6: fn(Object, Object, *const Param) -> c_int;
        verify_recover = 7: fn(Object, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
        digest_sign_init = 8: fn(Object, *const c_char, Object, *const Param) -> c_int;
        digest_sign_update = 9: fn(Object, *const u8, usize) -> c_int;
        digest_sign_final = 10: fn(Object, *mut u8, *mut usize, usize) -> c_int;
        digest_sign = 11: fn(Object, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
        digest_verify_init = 12: fn(Object, *const c_char, Object, *const Param) -> c_int;
        digest_verify_update = 13: fn(Object, *const u8, usize) -> c_int;
        digest_verify_final = 14: fn(Object, *const u8, usize) -> c_int;
        digest_verify = 15: fn(Object, *const u8, usize, *const u8, usize) -> c_int;
        freectx = 16: fn(Object);
        dupctx = 17: fn(Object) -> Object;
        get_ctx_params = 18: fn(Object, *mut Param) -> c_int;
        gettable_ctx_params = 19: fn(Object, Object) -> *const Param;
        set_ctx_params = 20: fn(Object, *const Param) -> c_int;
        settable_ctx_params = 21: fn(Object, Object) -> *const Param;
        get_ctx_md_params = 22: fn(Object, *mut Param) -> c_int;
        gettable_ctx_md_params = 23: fn(Object) -> *const Param;
        set_ctx_md_params = 24: fn(Object, *const Param) -> c_int;
        settable_ctx_md_params = 25: fn(Object) -> *const Param;
        query_key_types = 26: fn() -> *const *const c_char;
        sign_message_init = 27: fn(Object, Object, *const Param) -> c_int;
        sign_message_update = 28: fn(Object, *const u8, usize) -> c_int;
        sign_message_final = 29: fn(Object, *mut u8, *mut usize, usize) -> c_int;
        verify_message_init = 30: fn(Object, Object, *const Param) -> c_int;
        verify_message_update = 31: fn(Object, *const u8, usize) -> c_int;
        verify_message_final = 32: fn(Object) -> c_int;
    }
}

operation! {
    /// Public-key encryption.
    AsymmetricCipher: op::ASYM_CIPHER, {
        newctx = 1: fn(Object) -> Object;
        encrypt_init = 2: fn(Object, Object, *const Param) -> c_int;
        encrypt = 3: fn(Object, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
        decrypt_init = 4: fn(Object, Object, *const Param) -> c_int;
        decrypt = 5: fn(Object, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
        freectx = 6: fn(Object);
        dupctx = 7: fn(Object) -> Object;
        get_ctx_params = 8: fn(Object, *mut Param) -> c_int;
        gettable_ctx_params = 9: fn(Object, Object) -> *const Param;
        set_ctx_params = 10: fn(Object, *const Param) -> c_int;
        settable_ctx_params = 11: fn(Object, Object) -> *const Param;
    }
}

operation! {
    /// Key encapsulation.
    Encapsulation: op::KEM, {
        newctx = 1: fn(Object) -> Object;
        encapsulate_init = 2: fn(Object, Object, *const Param) -> c_int;
        encapsulate = 3: fn(Object, *mut u8, *mut usize, *mut u8, *mut usize) -> c_int;
        decapsulate_init = 4: fn(Object, Object, *const Param) -> c_int;
        decapsulate = 5: fn(Object, *mut u8, *mut usize, *const u8, usize) -> c_int;
        freectx = 6: fn(Object);
        dupctx = 7: fn(Object) -> Object;
        get_ctx_params = 8: fn(Object, *mut Param) -> c_int;
        gettable_ctx_params = 9: fn(Object, Object) -> *const Param;
        set_ctx_params = 10: fn(Object, *const Param) -> c_int;
        settable_ctx_params = 11: fn(Object, Object) -> *const Param;
    }
}

operation! {
    /// Symmetric ciphers.
    Ciphers: op::CIPHER, {
        newctx = 1: fn(Object) -> Object;
        encrypt_init = 2: fn(Object, *const u8, usize, *const u8, usize, *const Param) -> c_int;
        decrypt_init = 3: fn(Object, *const u8, usize, *const u8, usize, *const Param) -> c_int;
        update = 4: fn(Object, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
        finish = 5: fn(Object, *mut u8, *mut usize, usize) -> c_int;
        cipher = 6: fn(Object, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
        freectx = 7: fn(Object);
        dupctx = 8: fn(Object) -> Object;
        get_params = 9: fn(*mut Param) -> c_int;
        get_ctx_params = 10: fn(Object, *mut Param) -> c_int;
        set_ctx_params = 11: fn(Object, *const Param) -> c_int;
        gettable_params = 12: fn(Object) -> *const Param;
        gettable_ctx_params = 13: fn(Object, Object) -> *const Param;
        settable_ctx_params = 14: fn(Object, Object) -> *const Param;
    }
}

operation! {
    /// Places where objects lie that are named by URI.
    Store: op::STORE, {
        open = 1: fn(Object, *const c_char) -> Object;
        settable_ctx_params = 3: fn(Object) -> *const Param;
        set_ctx_params = 4: fn(Object, *const Param) -> c_int;
        load = 5: fn(Object, Option<Callback>, *mut c_void, Option<Passphrase>, *mut c_void) -> c_int;
        eof = 6: fn(Object) -> c_int;
        close = 7: fn(Object) -> c_int;
        export_object = 8: fn(Object, *const c_void, usize, Option<Callback>, *mut c_void) -> c_int;
    }
}

operation! {
    /// Objects from their encodings.
    Decoder: op::DECODER, {
        newctx = 1: fn(Object) -> Object;
        freectx = 2: fn(Object);
        does_selection = 10: fn(Object, c_int) -> c_int;
        decode = 11: fn(Object, Object, c_int, Option<Callback>, *mut c_void, Option<Passphrase>, *mut c_void) -> c_int;
        export_object = 20: fn(Object, *const c_void, usize, Option<Callback>, *mut c_void) -> c_int;
    }
}

operation! {
    /// What the core has for providers to call.
    Core: 0, {
        get_params = 2: fn(Object, *mut Param) -> c_int;
        bio_read_ex = 42: fn(Object, *mut u8, usize, *mut usize) -> c_int;
    }
}
