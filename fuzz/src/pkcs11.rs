//! Calls of the PKCS#11 module in any order: which ones, and with what, the bytes say. What must be true afterwards the caller knows, which
//! the module's own tests let loose from several threads.
#![allow(unsafe_code, reason = "the module is called as C calls it")]

#[path = "../../doors/pkcs11/tests/caller/mod.rs"]
mod caller;
#[path = "../../doors/pkcs11/tests/common/mod.rs"]
mod common;

use std::sync::LazyLock;

use cryptoki_sys::{CK_FUNCTION_LIST_3_2, CK_OBJECT_HANDLE, CK_SESSION_HANDLE};

use self::caller::{Caller, Source, keys_of_all_kinds};
use self::common::Module;
use crate::reader::Reader;

/// A module with a token whose user is logged in, and keys of all kinds in a session that stays.
struct Opened {
    functions: CK_FUNCTION_LIST_3_2,
    session: CK_SESSION_HANDLE,
    keys: Vec<CK_OBJECT_HANDLE>,
}

static OPENED: LazyLock<Opened> = LazyLock::new(|| {
    let module = Module::with_token();
    let session = module.user();
    let opened = Opened { functions: module.functions, session, keys: keys_of_all_kinds(&module, session) };
    // It would be finalised otherwise.
    std::mem::forget(module);
    opened
});

impl Source for Reader<'_> {
    fn byte(&mut self) -> u8 {
        Reader::byte(self)
    }

    fn is_over(&self) -> bool {
        self.is_empty()
    }
}

/// # Panics
/// When a call panics, answers what it must not, or writes where it must not.
pub fn run(bytes: &[u8]) {
    let Opened { functions, session, keys } = &*OPENED;
    let mut caller = Caller::new(functions, Reader(bytes), vec![*session], keys);
    caller.run(usize::MAX);
    caller.finish();
}

/// Any bytes are calls: those of several lengths save the fuzzer growing them.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_u32;
    let mut byte = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state.to_le_bytes()[2]
    };
    (1..=32).map(|number| (0..number * 64).map(|_| byte()).collect()).collect()
}
