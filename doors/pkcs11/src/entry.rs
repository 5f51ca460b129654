//! The one way into the module.

use ciphermill::panics::caught;
use cryptoki_sys::{CK_RV, CKR_GENERAL_ERROR, CKR_OK};

use crate::rv::Result;

/// Runs the body of a function. A panic, which would be a bug of ours, becomes `CKR_GENERAL_ERROR`.
#[inline(always)]
pub(crate) fn entry(work: impl FnOnce() -> Result<()>) -> CK_RV {
    match caught(work) {
        Some(Ok(())) => CKR_OK,
        Some(Err(rv)) => rv.0,
        None => CKR_GENERAL_ERROR,
    }
}

/// Functions of PKCS#11: exported by name, with a body that returns [`Result`] and never unwinds into the application.
macro_rules! functions {
    ($( $(#[$attribute:meta])* fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $body:block )*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// Pointers are null, or lead to as much memory as the lengths beside them say, which nobody else writes during the call.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> ::cryptoki_sys::CK_RV {
            $crate::entry::entry(|| {
                // SAFETY: what is said above is what the helpers of `memory` and `mechanisms` ask for.
                #[allow(unused_unsafe, reason = "some bodies have no pointers")]
                unsafe { $body }
            })
        }
    )*};
}

pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_become_a_return_value() {
        assert_eq!(entry(|| panic!("with {}", "words")), CKR_GENERAL_ERROR);
        assert_eq!(entry(|| Ok(())), CKR_OK);
    }
}
