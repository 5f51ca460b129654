//! Foreign pointers and lengths become references here, and nowhere else.

use std::ffi::{CStr, c_char};

use crate::failure::{CIPHERMILL_TOO_SHORT, Failure};

/// Types of which every pattern of bits is a value: integers, pointers, and structures of them.
///
/// # Safety
/// That is so.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: integers.
unsafe impl Plain for i32 {}
// SAFETY: integers.
unsafe impl Plain for i64 {}
// SAFETY: integers.
unsafe impl Plain for u64 {}
// SAFETY: integers.
unsafe impl Plain for usize {}
// SAFETY: pointers, which are not followed.
unsafe impl Plain for *const u8 {}
// SAFETY: two integers.
unsafe impl Plain for ciphermill_contract::KeyId {}

/// What can be checked of `len` items at `at`: a null pointer goes with no items alone.
#[inline(always)]
fn check<T>(at: *const T, len: usize, what: &'static str) -> Result<(), Failure> {
    if len == 0 {
        return Ok(());
    }
    if at.is_null() {
        return Err(Failure::misuse(format!("{what}: a null pointer")));
    }
    if !at.is_aligned() {
        return Err(Failure::misuse(format!("{what}: not aligned to {} bytes", align_of::<T>())));
    }
    // No object is larger, and none wraps around the end of the addresses.
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok());
    if bytes.is_none_or(|bytes| (at as usize).checked_add(bytes).is_none()) {
        return Err(Failure::misuse(format!("{what}: {len} items are more than fit into memory")));
    }
    Ok(())
}

/// Items that are read.
///
/// # Safety
/// If the pointer is not null, `len` items there can be read, and nobody writes to them while the result is in use.
#[inline(always)]
pub(crate) unsafe fn slice<'a, T: Plain>(at: *const T, len: usize, what: &'static str) -> Result<&'a [T], Failure> {
    check(at, len, what)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: neither null nor unaligned nor too long, as checked; readable, by the caller.
    Ok(unsafe { std::slice::from_raw_parts(at, len) })
}

/// Items that are written.
///
/// # Safety
/// If the pointer is not null, `len` values there can be read and written, they are values of their type, and nobody else
/// touches them while the result is in use.
#[inline(always)]
pub(crate) unsafe fn slice_mut<'a, T>(at: *mut T, len: usize, what: &'static str) -> Result<&'a mut [T], Failure> {
    check(at, len, what)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: neither null nor unaligned nor too long, as checked; the caller's alone, by the caller.
    Ok(unsafe { std::slice::from_raw_parts_mut(at, len) })
}

/// Whether `len` items at `at` can be there, for what is looked at before it is read or written.
pub(crate) fn fits<T>(at: *const T, len: usize, what: &'static str) -> Result<(), Failure> {
    check(at, len, what)
}

/// Where one value is to be written, checked before there is a value.
#[inline(always)]
pub(crate) fn place<T>(at: *mut T, what: &'static str) -> Result<Place<T>, Failure> {
    check(at, 1, what)?;
    Ok(Place(at))
}

/// A place for a value.
pub(crate) struct Place<T>(*mut T);

impl<T> Place<T> {
    /// Writes the value.
    ///
    /// # Safety
    /// The place can be written, and nobody else touches it meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn put(self, value: T) {
        // SAFETY: neither null nor unaligned, as checked; the caller's alone, by the caller.
        unsafe { self.0.write(value) }
    }
}

/// One value that is read.
///
/// # Safety
/// If the pointer is not null, a value there can be read.
#[inline(always)]
pub(crate) unsafe fn read<T: Plain>(at: *const T, what: &'static str) -> Result<T, Failure> {
    check(at, 1, what)?;
    // SAFETY: neither null nor unaligned, as checked; readable, by the caller.
    Ok(unsafe { at.read() })
}

/// Structures that begin with their length in bytes as the caller knows them, so that later versions can have more fields.
///
/// # Safety
/// The first field is a `usize`.
pub(crate) unsafe trait Versioned: Plain + Default {}

/// A structure of this version or an older one; what it lacks, and all of it behind a null pointer, is its default.
///
/// # Safety
/// If the pointer is not null, as many bytes as its first field says can be read there.
pub(crate) unsafe fn versioned<T: Versioned>(at: *const T, what: &'static str) -> Result<T, Failure> {
    let mut value = T::default();
    if at.is_null() {
        return Ok(value);
    }
    check(at, 1, what)?;
    // SAFETY: not null, aligned, and begins with a length, by the trait.
    let len = unsafe { at.cast::<usize>().read() };
    if len < size_of::<usize>() || len > size_of::<T>() {
        let known = size_of::<T>();
        return Err(Failure::misuse(format!("{what}: struct_len is {len}, this library knows {known} bytes")));
    }
    // SAFETY: the caller's structure has `len` bytes, and so has `value` at least; any bits are a value.
    unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), (&raw mut value).cast::<u8>(), len) };
    Ok(value)
}

/// A text that ends with a NUL.
///
/// # Safety
/// If the pointer is not null, there is a NUL behind it, and nobody writes up to there while the result is in use.
pub(crate) unsafe fn text<'a>(at: *const c_char, what: &'static str) -> Result<&'a str, Failure> {
    check(at, 1, what)?;
    // SAFETY: not null, as checked; ends, by the caller.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().map_err(|_| Failure::misuse(format!("{what}: not UTF-8")))
}

/// Writes a text with a NUL behind it where there is room, and in any case how long it is.
///
/// # Safety
/// As for [`put_bytes`].
pub(crate) unsafe fn put_text(to: *mut c_char, len: *mut usize, text: &str) -> Result<(), Failure> {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend_from_slice(text.as_bytes());
    bytes.push(0);
    // SAFETY: as this function's.
    unsafe { put_bytes(to.cast(), len, &bytes) }
}

/// Writes bytes where there is room, and in any case how many there are.
///
/// # Safety
/// If the pointers are not null, a length can be read and written at `len`, and as many bytes written at `to`.
pub(crate) unsafe fn put_bytes(to: *mut u8, len: *mut usize, bytes: &[u8]) -> Result<(), Failure> {
    // SAFETY: readable, by the caller.
    let room = unsafe { read(len.cast_const(), "the length") }?;
    // SAFETY: writable, by the caller.
    unsafe { place(len, "the length")?.put(bytes.len()) };
    if room < bytes.len() {
        return Err(Failure::new(CIPHERMILL_TOO_SHORT, format!("{} bytes are needed, there are {room}", bytes.len())));
    }
    // SAFETY: there is room for them, by the caller.
    unsafe { slice_mut(to, bytes.len(), "the buffer") }?.copy_from_slice(bytes);
    Ok(())
}

/// Up to `N` stretches of memory, of which some are written.
pub(crate) struct Stretches<const N: usize> {
    found: [Stretch; N],
    count: usize,
}

#[derive(Clone, Copy)]
struct Stretch {
    start: usize,
    end: usize,
    is_written: bool,
    what: &'static str,
}

impl<const N: usize> Stretches<N> {
    /// None so far.
    pub(crate) fn new() -> Stretches<N> {
        Stretches { found: [Stretch { start: 0, end: 0, is_written: false, what: "" }; N], count: 0 }
    }

    /// Adds one whose pointer and length will be checked or have been.
    ///
    /// # Errors
    /// For one that overlaps another, if either is written.
    ///
    /// # Panics
    /// Beyond `N`.
    #[inline]
    pub(crate) fn add<T>(
        &mut self,
        at: *const T,
        len: usize,
        is_written: bool,
        what: &'static str,
    ) -> Result<(), Failure> {
        if len == 0 {
            return Ok(());
        }
        let start = at as usize;
        let end = start.saturating_add(len.saturating_mul(size_of::<T>()));
        for other in &self.found[..self.count] {
            if (is_written || other.is_written) && start < other.end && other.start < end {
                return Err(Failure::misuse(format!("{what} and {} overlap in memory", other.what)));
            }
        }
        self.found[self.count] = Stretch { start, end, is_written, what };
        self.count += 1;
        Ok(())
    }
}
