//! Parameters: read by key, and asked for.

use std::ffi::{CStr, c_int, c_void};
use std::{ptr, slice};

use zeroize::Zeroizing;

use crate::ffi::{INTEGER, OCTET_PTR, OCTET_STRING, Param, UNSIGNED_INTEGER, UTF8_PTR, UTF8_STRING};

/// The end of an array of parameters.
pub(crate) const END: Param =
    Param { key: ptr::null(), data_type: 0, data: ptr::null_mut(), data_size: 0, return_size: 0 };

/// An array of parameters that the core or a provider hands over.
#[derive(Clone, Copy)]
pub(crate) struct Params(*const Param);

impl Params {
    /// # Safety
    /// Null, or an array that is ended by a null key and outlives this value, with buffers of the sizes that it says; what is refused
    /// for its size is looked at no further.
    pub(crate) unsafe fn new(first: *const Param) -> Params {
        Params(first)
    }

    /// Their keys.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &CStr> {
        // SAFETY: keys are strings that outlive the array.
        self.iter().map(|param| unsafe { CStr::from_ptr(param.key) })
    }

    fn iter(&self) -> impl Iterator<Item = &Param> {
        let mut next = self.0;
        std::iter::from_fn(move || {
            // SAFETY: the promise of `new`; no element behind the end is looked at.
            let param = unsafe { next.as_ref() }.filter(|param| !param.key.is_null())?;
            // SAFETY: this is not the end.
            next = unsafe { next.add(1) };
            Some(param)
        })
    }

    fn find(&self, key: &CStr) -> Option<&Param> {
        // SAFETY: keys are strings.
        self.iter().find(|param| unsafe { CStr::from_ptr(param.key) } == key)
    }

    fn bytes(&self, key: &CStr, data_type: u32) -> Option<&[u8]> {
        let param = self.find(key).filter(|param| param.data_type == data_type && !param.data.is_null())?;
        // Applications may tell negative lengths, which `default` refuses.
        if param.data_size > isize::MAX as usize {
            return None;
        }
        // SAFETY: the promise of `new`, for a length that a buffer may have.
        Some(unsafe { slice::from_raw_parts(param.data.cast::<u8>(), param.data_size) })
    }

    /// A number without sign as big-endian bytes without leading zeros.
    pub(crate) fn number(&self, key: &CStr) -> Option<Zeroizing<Vec<u8>>> {
        let native = self.bytes(key, UNSIGNED_INTEGER)?;
        let mut bytes = Zeroizing::new(native.to_vec());
        if cfg!(target_endian = "little") {
            bytes.reverse();
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes.drain(..zeros);
        Some(bytes)
    }

    /// A string of bytes.
    pub(crate) fn octets(&self, key: &CStr) -> Option<&[u8]> {
        self.bytes(key, OCTET_STRING)
    }

    /// A text, without the zero behind it.
    pub(crate) fn text(&self, key: &CStr) -> Option<&[u8]> {
        let bytes = self.bytes(key, UTF8_STRING)?;
        bytes.split(|byte| *byte == 0).next()
    }
}

/// Room for an answer that is a whole number.
pub(crate) fn ask_integer(key: &'static CStr, value: &mut c_int) -> Param {
    let data = ptr::from_mut(value).cast::<c_void>();
    Param { key: key.as_ptr(), data_type: INTEGER, data, data_size: size_of::<c_int>(), return_size: usize::MAX }
}

/// Room for an answer that is a length.
pub(crate) fn ask_len(key: &'static CStr, value: &mut usize) -> Param {
    let data = ptr::from_mut(value).cast::<c_void>();
    Param {
        key: key.as_ptr(),
        data_type: UNSIGNED_INTEGER,
        data,
        data_size: size_of::<usize>(),
        return_size: usize::MAX,
    }
}

/// Room for an answer that is a text.
pub(crate) fn ask_text(key: &'static CStr, room: &mut [u8]) -> Param {
    let data = room.as_mut_ptr().cast::<c_void>();
    Param { key: key.as_ptr(), data_type: UTF8_STRING, data, data_size: room.len(), return_size: usize::MAX }
}

/// Room for an answer that is a string of bytes.
pub(crate) fn ask_octets(key: &'static CStr, room: &mut [u8]) -> Param {
    Param { data_type: OCTET_STRING, ..ask_text(key, room) }
}

/// A whole number that is told.
pub(crate) fn tell_integer(key: &'static CStr, value: &c_int) -> Param {
    let data = ptr::from_ref(value).cast_mut().cast::<c_void>();
    Param { key: key.as_ptr(), data_type: INTEGER, data, data_size: size_of::<c_int>(), return_size: usize::MAX }
}

/// A text that is told.
pub(crate) fn tell_text(key: &'static CStr, text: &CStr) -> Param {
    let data = text.as_ptr().cast_mut().cast::<c_void>();
    Param { key: key.as_ptr(), data_type: UTF8_STRING, data, data_size: text.to_bytes().len(), return_size: usize::MAX }
}

/// Bytes that are told.
pub(crate) fn tell_octets(key: &'static CStr, bytes: &[u8]) -> Param {
    let data = bytes.as_ptr().cast_mut().cast::<c_void>();
    Param { key: key.as_ptr(), data_type: OCTET_STRING, data, data_size: bytes.len(), return_size: usize::MAX }
}

/// Answers a question for a text that stays where it is; whether it was asked so.
pub(crate) fn answer_text(param: &mut Param, text: &'static CStr) -> bool {
    if param.data_type != UTF8_PTR {
        return false;
    }
    param.return_size = text.to_bytes().len();
    // Without a place it was asked how long the text is.
    if !param.data.is_null() {
        // SAFETY: data of this type is a place for a pointer.
        unsafe { *param.data.cast::<*const std::ffi::c_char>() = text.as_ptr() };
    }
    true
}

/// Answers a question for a number without sign; whether it was asked so, with room for it.
pub(crate) fn answer_number(param: &mut Param, number: u64) -> bool {
    let bytes = number.to_le_bytes();
    if ![INTEGER, UNSIGNED_INTEGER].contains(&param.data_type) || param.data.is_null() {
        return false;
    }
    // SAFETY: data of these types is writable for its size.
    let room = unsafe { slice::from_raw_parts_mut(param.data.cast::<u8>(), param.data_size) };
    let len = room.len().min(bytes.len());
    if bytes[len..].iter().any(|byte| *byte != 0) {
        return false;
    }
    room.fill(0);
    room[..len].copy_from_slice(&bytes[..len]);
    // Numbers have the machine's own order.
    if cfg!(target_endian = "big") {
        room.reverse();
    }
    param.return_size = param.data_size;
    true
}

/// The key of a parameter, which has one.
pub(crate) fn key_of(param: &Param) -> &CStr {
    // SAFETY: keys are strings.
    unsafe { CStr::from_ptr(param.key) }
}

/// Answers a question for bytes; whether it was asked so, with room for them.
pub(crate) fn answer_octets(param: &mut Param, bytes: &[u8]) -> bool {
    if param.data_type != OCTET_STRING || param.data.is_null() || param.data_size < bytes.len() {
        return false;
    }
    // SAFETY: data of this type is writable for its size.
    unsafe { param.data.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    param.return_size = bytes.len();
    true
}

/// Answers a question for bytes that stay where they are, or for a copy of them; whether it was asked so.
///
/// # Safety
/// The bytes must stay for as long as whoever asked may look at them.
pub(crate) unsafe fn answer_kept_octets(param: &mut Param, bytes: &[u8]) -> bool {
    if param.data_type != OCTET_PTR {
        return answer_octets(param, bytes);
    }
    param.return_size = bytes.len();
    if !param.data.is_null() {
        // SAFETY: data of this type is a place for a pointer.
        unsafe { *param.data.cast::<*const u8>() = bytes.as_ptr() };
    }
    true
}
