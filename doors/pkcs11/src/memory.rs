//! Memory of the application: every pointer and length from outside is looked at here.
//!
//! What can be checked is: that a pointer is not null where bytes are said to be, that it is aligned, and that a length is one that memory
//! can have. That the memory is there is the application's part, as everywhere in C.

use cryptoki_sys::{CK_ATTRIBUTE, CK_ULONG, CKR_ARGUMENTS_BAD, CKR_BUFFER_TOO_SMALL};
use smallvec::SmallVec;
use zeroize::{Zeroize, Zeroizing};

use crate::attributes::Template;
use crate::rv::{Result, Rv, fail};

/// Bytes that a call may lay on the stack for an input that its output overlaps.
const APART_LEN: usize = 512;

/// Attributes of one template: beyond this it is no template but a mistake.
const TEMPLATE_LEN_MAX: CK_ULONG = 1024;

/// A length that memory can have.
fn length(len: CK_ULONG) -> Result<usize> {
    match usize::try_from(len) {
        Ok(len) if isize::try_from(len).is_ok() => Ok(len),
        _ => fail(CKR_ARGUMENTS_BAD),
    }
}

/// Bytes to be read.
///
/// # Errors
/// `CKR_ARGUMENTS_BAD` for a null pointer with a length, and for a length that no memory has.
///
/// # Safety
/// There are `len` bytes at `at`, unless it is null, and nobody writes them during the call.
pub(crate) unsafe fn bytes<'a>(at: *const u8, len: CK_ULONG) -> Result<&'a [u8]> {
    let len = length(len)?;
    match (at.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => fail(CKR_ARGUMENTS_BAD),
        // SAFETY: by the caller.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(at, len) }),
    }
}

/// A place to be written, or a structure to be read.
///
/// # Errors
/// `CKR_ARGUMENTS_BAD` for a null or misaligned pointer.
///
/// # Safety
/// There is a `T` at `at`, unless it is null, that nobody else uses during the call.
pub(crate) unsafe fn place<'a, T>(at: *mut T) -> Result<&'a mut T> {
    if at.is_null() || !at.is_aligned() {
        return fail(CKR_ARGUMENTS_BAD);
    }
    // SAFETY: by the caller.
    Ok(unsafe { &mut *at })
}

/// Values to be read or written.
///
/// # Errors
/// As [`bytes`], and for misaligned pointers.
///
/// # Safety
/// There are `len` values at `at`, unless it is null, that nobody else uses during the call.
pub(crate) unsafe fn many<'a, T>(at: *mut T, len: CK_ULONG) -> Result<&'a mut [T]> {
    let len = length(len)?;
    let fits = size_of::<T>().checked_mul(len).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    match (at.is_null() || !at.is_aligned(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => fail(CKR_ARGUMENTS_BAD),
        _ if !fits => fail(CKR_ARGUMENTS_BAD),
        // SAFETY: by the caller.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts_mut(at, len) }),
    }
}

/// A template, copied: applications may change theirs while we work.
///
/// # Errors
/// As [`many`] and [`bytes`]; those of [`Template::new`].
///
/// # Safety
/// As [`many`]; values are as long as they say.
pub(crate) unsafe fn template(at: *mut CK_ATTRIBUTE, len: CK_ULONG) -> Result<Template> {
    if len > TEMPLATE_LEN_MAX {
        return fail(CKR_ARGUMENTS_BAD);
    }
    // SAFETY: by the caller.
    let attributes = unsafe { many(at, len) }?;
    let mut values = Vec::with_capacity(attributes.len());
    for attribute in attributes {
        // SAFETY: by the caller.
        let value = unsafe { bytes(attribute.pValue.cast(), attribute.ulValueLen) }?;
        values.push((attribute.type_, Zeroizing::new(value.to_vec())));
    }
    Template::new(values)
}

/// Where a function's output goes: the application's buffer and its length, which says how much was written (PKCS#11 3.2, 5.2).
pub(crate) struct Output<'a> {
    at: *mut u8,
    len: &'a mut CK_ULONG,
}

impl<'a> Output<'a> {
    /// # Errors
    /// `CKR_ARGUMENTS_BAD` where there is no place for the length.
    ///
    /// # Safety
    /// As [`place`] for `len`; there are `*len` bytes at `at`, unless it is null.
    pub(crate) unsafe fn new(at: *mut u8, len: *mut CK_ULONG) -> Result<Output<'a>> {
        // SAFETY: by the caller.
        Ok(Output { at, len: unsafe { place(len) }? })
    }

    /// Whether only the length is asked for. What is asked so goes on afterwards.
    pub(crate) fn is_query(&self) -> bool {
        self.at.is_null()
    }

    /// How many bytes there is room for.
    pub(crate) fn room(&self) -> usize {
        if self.is_query() { 0 } else { usize::try_from(*self.len).unwrap_or(usize::MAX) }
    }

    /// Answers how long the output is at most.
    pub(crate) fn tell(&mut self, len: usize) {
        *self.len = len as CK_ULONG;
    }

    /// Has `write` write at most `bound` bytes, where there is room for them, and notes how many it wrote. An input that lies in the same
    /// memory is read from a copy.
    ///
    /// # Errors
    /// Those of `write`; with `CKR_BUFFER_TOO_SMALL` the length says `bound`.
    pub(crate) fn write(
        &mut self,
        input: &[u8],
        bound: usize,
        write: impl FnOnce(&[u8], &mut [u8]) -> Result<usize>,
    ) -> Result<()> {
        let room = usize::try_from(*self.len).unwrap_or(usize::MAX).min(bound);
        let done = if room == 0 || self.at.is_null() {
            write(input, &mut [])
        } else if is_apart(input, self.at, room) {
            // SAFETY: the application's buffer, of which it said that it is as long; no input of ours lies in it.
            write(input, unsafe { std::slice::from_raw_parts_mut(self.at, room) })
        } else {
            let mut copy: SmallVec<[u8; APART_LEN]> = SmallVec::from_slice(input);
            // SAFETY: as above, with the input elsewhere.
            let done = write(&copy, unsafe { std::slice::from_raw_parts_mut(self.at, room) });
            copy.zeroize();
            done
        };
        match done {
            Ok(written) => self.tell(written),
            Err(Rv(CKR_BUFFER_TOO_SMALL)) => self.tell(bound),
            Err(_) => {}
        }
        done.map(drop)
    }

    /// Gives out bytes that are known already.
    ///
    /// # Errors
    /// `CKR_BUFFER_TOO_SMALL`, with the length that is wanted.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> Result<()> {
        if self.is_query() {
            self.tell(bytes.len());
            return Ok(());
        }
        self.write(&[], bytes.len(), |_, output| match output.len() == bytes.len() {
            true => {
                output.copy_from_slice(bytes);
                Ok(bytes.len())
            }
            false => fail(CKR_BUFFER_TOO_SMALL),
        })
    }
}

/// Gives out a list as PKCS#11 has it: to a null pointer its length alone.
///
/// # Errors
/// `CKR_BUFFER_TOO_SMALL`, with the length that is wanted.
///
/// # Safety
/// There are `*count` places at `to`, unless it is null.
pub(crate) unsafe fn give_many<T>(
    values: impl Iterator<Item = T>,
    len: usize,
    to: *mut T,
    count: &mut CK_ULONG,
) -> Result<()> {
    let room = std::mem::replace(count, len as CK_ULONG);
    if to.is_null() {
        return Ok(());
    }
    if room < len as CK_ULONG {
        return fail(CKR_BUFFER_TOO_SMALL);
    }
    // SAFETY: by the caller; only as many are looked at as are written.
    let places = unsafe { many(to, len as CK_ULONG) }?;
    places.iter_mut().zip(values).for_each(|(place, value)| *place = value);
    Ok(())
}

/// Whether bytes lie outside a stretch of memory.
fn is_apart(input: &[u8], at: *const u8, len: usize) -> bool {
    let (input, at) = (input.as_ptr_range(), at.addr());
    input.end.addr() <= at || at.saturating_add(len) <= input.start.addr()
}

/// Writes text into a field of fixed length, padded with blanks as PKCS#11 has it, and cut between characters.
pub(crate) fn pad<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [b' '; N];
    let mut end = text.len().min(N);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    for (to, from) in field.iter_mut().zip(&text.as_bytes()[..end]) {
        *to = *from;
    }
    field
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn null_pointers_and_lengths_that_no_memory_has_are_refused() {
        // SAFETY: null pointers, which are not read, and lengths that are refused before anything is.
        unsafe {
            assert_eq!(bytes(ptr::null(), 0), Ok(&[][..]));
            assert_eq!(bytes(ptr::null(), 1), fail(CKR_ARGUMENTS_BAD));
            assert_eq!(bytes([1].as_ptr(), CK_ULONG::MAX), fail(CKR_ARGUMENTS_BAD));
            assert_eq!(many::<u64>(ptr::null_mut(), 2).map(|values| values.len()), fail(CKR_ARGUMENTS_BAD));
            assert_eq!(
                many(ptr::without_provenance_mut::<u64>(3), 1).map(|values| values.len()),
                fail(CKR_ARGUMENTS_BAD)
            );
            assert_eq!(many([7_u64].as_mut_ptr(), 1 << 60).map(|values| values.len()), fail(CKR_ARGUMENTS_BAD));
            assert!(Output::new(ptr::null_mut(), ptr::null_mut()).is_err());
        }
    }

    #[test]
    fn outputs_say_their_lengths() {
        let mut buffer = [0; 4];
        let mut len = 4;
        let mut output = Output { at: buffer.as_mut_ptr(), len: &mut len };
        assert_eq!(output.give(b"five!"), fail(CKR_BUFFER_TOO_SMALL));
        assert_eq!(*output.len, 5);
        *output.len = 4;
        assert_eq!(output.give(b"abc"), Ok(()));
        assert_eq!((len, &buffer), (3, b"abc\0"));
    }

    #[test]
    fn an_input_in_the_place_of_the_output_is_read_from_a_copy() {
        let mut buffer = *b"abcd";
        let mut len = 3;
        let at = buffer.as_mut_ptr();
        // SAFETY: within the buffer; as an application passes it, one byte off.
        let input = unsafe { std::slice::from_raw_parts(at.wrapping_add(1), 3) };
        let mut output = Output { at, len: &mut len };
        let copied = output.write(input, 3, |input, output| {
            output.fill(b'-');
            output.copy_from_slice(input);
            Ok(3)
        });
        assert_eq!((copied, buffer), (Ok(()), *b"bcdd"));
    }

    #[test]
    fn text_is_padded_and_cut_between_characters() {
        assert_eq!(&pad::<4>("ab"), b"ab  ");
        assert_eq!(&pad::<2>("aä"), b"a ");
    }
}
