//! Where AWS-LC's pointers and plain structures become Rust values: owned, freed and wiped in one place.

use core::ptr::NonNull;

use aws_lc_sys as sys;
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Error, OpStatus};

use crate::capabilities::NAME;

/// A type that AWS-LC allocates and frees.
///
/// # Safety
/// `free` must be AWS-LC's own function for the type and must accept every pointer that AWS-LC's constructors return.
pub(crate) unsafe trait Foreign {
    /// Frees and wipes the value.
    ///
    /// # Safety
    /// `pointer` must come from AWS-LC's constructor and must not be used afterwards.
    unsafe fn free(pointer: *mut Self);
}

/// A foreign type that may move between threads as long as one uses it at a time.
///
/// # Safety
/// AWS-LC must not tie the value to the thread that made it.
pub(crate) unsafe trait Movable: Foreign {}

/// A foreign type that several threads may use at the same time through the functions that this crate calls on it.
///
/// # Safety
/// Those functions must be documented as safe for concurrent use.
pub(crate) unsafe trait Shared: Movable {}

/// An owned AWS-LC value; freed, and with that wiped, on drop.
#[derive(Debug)]
pub(crate) struct Owned<T: Foreign>(NonNull<T>);

impl<T: Foreign> Owned<T> {
    /// Takes over a pointer that a constructor returned; `None` when the constructor failed.
    ///
    /// # Safety
    /// The pointer must be null or owned by nobody else.
    pub(crate) unsafe fn new(pointer: *mut T) -> Option<Owned<T>> {
        NonNull::new(pointer).map(Owned)
    }

    /// The pointer, for calls into AWS-LC.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Gives the value up to AWS-LC.
    pub(crate) fn into_raw(self) -> *mut T {
        let pointer = self.0.as_ptr();
        core::mem::forget(self);
        pointer
    }
}

impl<T: Foreign> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from AWS-LC (`new`) and is owned by this value alone.
        unsafe { T::free(self.0.as_ptr()) }
    }
}

// SAFETY: `Movable` says that the value is not tied to a thread, and the pointer has one owner.
unsafe impl<T: Movable> Send for Owned<T> {}
// SAFETY: `Shared` says that this crate's uses of the value are safe for concurrent use.
unsafe impl<T: Shared> Sync for Owned<T> {}

macro_rules! foreign {
    ($($type:ty => $free:path $(, $mark:ident)*;)*) => {$(
        // SAFETY: the function is AWS-LC's own for this type.
        unsafe impl Foreign for $type {
            unsafe fn free(pointer: *mut $type) {
                // SAFETY: as the caller promises.
                unsafe { $free(pointer) }
            }
        }
        $(
            // SAFETY: AWS-LC keeps no thread-bound state in it; what is marked `Shared` its headers document as safe
            // for concurrent use by functions that do not change it (aead.h, dh.h, ec_key.h, evp.h, rsa.h).
            unsafe impl $mark for $type {}
        )*
    )*};
}

foreign! {
    sys::EVP_AEAD_CTX => sys::EVP_AEAD_CTX_free, Movable, Shared;
    sys::EVP_CIPHER_CTX => sys::EVP_CIPHER_CTX_free, Movable;
    sys::EVP_MD_CTX => sys::EVP_MD_CTX_free, Movable;
    sys::EVP_PKEY => sys::EVP_PKEY_free, Movable, Shared;
    sys::EVP_PKEY_CTX => sys::EVP_PKEY_CTX_free;
    sys::DH => sys::DH_free, Movable, Shared;
    sys::BIGNUM => sys::BN_clear_free;
    sys::BN_CTX => sys::BN_CTX_free;
    sys::EC_KEY => sys::EC_KEY_free;
    sys::EC_POINT => sys::EC_POINT_free;
    sys::ECDSA_SIG => sys::ECDSA_SIG_free;
    sys::RSA => sys::RSA_free;
}

/// A plain value: integers, arrays of them and C structures of such, with or without raw pointers.
///
/// # Safety
/// Zeros must be a valid value of the type.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: zeros are bytes.
unsafe impl<const N: usize> Plain for [u8; N] {}

macro_rules! plain {
    ($($type:ty),*) => {$(
        // SAFETY: the structure holds integers, arrays of them and raw pointers only, which may all be zero.
        unsafe impl Plain for $type {}
    )*};
}

plain!(
    sys::AES_KEY,
    sys::DES_cblock,
    sys::DES_key_schedule,
    sys::HMAC_CTX,
    sys::MD5_CTX,
    sys::RC4_KEY,
    sys::SHA_CTX,
    sys::SHA256_CTX,
    sys::SHA512_CTX
);

/// A plain value that is wiped on drop.
#[derive(Clone)]
pub(crate) struct Wiped<T: Plain>(pub(crate) T);

impl<T: Plain> Wiped<T> {
    /// A value of zeros, for AWS-LC to fill.
    pub(crate) fn zeroed() -> Wiped<T> {
        // SAFETY: zeros are valid (`Plain`).
        Wiped(unsafe { core::mem::zeroed() })
    }
}

impl<T: Plain> Drop for Wiped<T> {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Overwrites a plain value with zeros that the compiler does not take away.
pub(crate) fn wipe<T: Plain>(value: &mut T) {
    // SAFETY: the pointer is to a whole value of that size, for which zeros are valid (`Plain`).
    unsafe { sys::OPENSSL_cleanse(core::ptr::from_mut(value).cast(), size_of::<T>()) }
}

/// The last error of this thread as AWS-LC packs it, zero when there is none. Empties the queue.
pub(crate) fn take_error() -> u32 {
    // SAFETY: both functions touch the calling thread's error queue only.
    unsafe {
        let code = sys::ERR_peek_last_error();
        sys::ERR_clear_error();
        code
    }
}

/// The failure of a call while a key is prepared or a queue opened. Empties the error queue.
pub(crate) fn fault() -> Error {
    Error::fault(NAME, FaultKind::Call(i64::from(take_error())))
}

/// The failure of a call within an operation. Empties the error queue.
pub(crate) fn op_fault() -> OpStatus {
    take_error();
    OpStatus::EngineFault
}

/// `Done` for AWS-LC's one, a fault for everything else.
pub(crate) fn done_if(ok: bool) -> OpStatus {
    if ok { OpStatus::Done } else { op_fault() }
}

/// Whether two equally long byte strings are equal, in time that depends on the length only.
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    bool::from(subtle::ConstantTimeEq::ct_eq(a, b))
}
