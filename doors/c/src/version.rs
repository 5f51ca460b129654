//! Versions of the library and of its interface.

use std::ffi::c_char;

use crate::entry::entry;
use crate::failure::{Failure, ciphermill_status};

/// The version of the interface that this header describes: the upper 16 bits change when programs have to be compiled
/// again, and are the number in the name of the shared library; the lower 16 bits when something is added.
pub const CIPHERMILL_ABI_VERSION: u32 = 0x0000_0001;

/// Returns the version of the interface that the library in use has, in the form of CIPHERMILL_ABI_VERSION.
///
/// # Threads
/// Any.
#[unsafe(no_mangle)]
pub extern "C" fn ciphermill_abi_version() -> u32 {
    CIPHERMILL_ABI_VERSION
}

/// Returns the version of the library in use as a text, as in "0.1.0". It is constant.
///
/// # Threads
/// Any.
#[unsafe(no_mangle)]
pub extern "C" fn ciphermill_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Tells whether the library in use serves programs that were compiled with a header of version `header`, which is
/// CIPHERMILL_ABI_VERSION.
///
/// # Errors
/// CIPHERMILL_MISUSE when it does not: the header is of another main version, or newer than the library.
///
/// # Threads
/// Any.
#[unsafe(no_mangle)]
pub extern "C" fn ciphermill_check_version(header: u32) -> ciphermill_status {
    entry(|| {
        let library = CIPHERMILL_ABI_VERSION;
        if header >> 16 == library >> 16 && header & 0xffff <= library & 0xffff {
            return Ok(());
        }
        Err(Failure::misuse(format!("compiled for version {header:#010x} of the interface, this is {library:#010x}")))
    })
}
