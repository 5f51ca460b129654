//! A mechanism's parameter before anything is known of it.

use std::ffi::c_void;

use cryptoki_sys::{CK_ULONG, CKR_MECHANISM_PARAM_INVALID};

use crate::memory::{bytes, place};
use crate::rv::{Result, fail};

/// A parameter that breaks its mechanism's rules.
pub(super) const fn bad<T>() -> Result<T> {
    fail(CKR_MECHANISM_PARAM_INVALID)
}

/// A parameter as it lies in the application's memory.
pub(super) struct Raw {
    pub(super) at: *mut c_void,
    /// In bytes.
    pub(super) len: CK_ULONG,
}

impl Raw {
    /// # Safety
    /// There are as many bytes as it says.
    pub(super) unsafe fn bytes(&self) -> Result<&[u8]> {
        // SAFETY: by the caller.
        unsafe { bytes(self.at.cast(), self.len) }
    }

    /// # Safety
    /// As above.
    pub(super) unsafe fn structure<T>(&self) -> Result<&T> {
        if self.len != size_of::<T>() as CK_ULONG {
            return bad();
        }
        // SAFETY: by the caller, and it is as long.
        unsafe { place(self.at.cast::<T>()) }.map(|place| &*place)
    }
}

/// A number of bytes given in bits.
pub(super) fn whole_bytes(bits: CK_ULONG) -> Result<usize> {
    if bits.is_multiple_of(8) { Ok((bits / 8) as usize) } else { bad() }
}
