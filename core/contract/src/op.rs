//! One operation: 64 bytes, one cache line, aligned to it.

use crate::key::KeyId;
use crate::limits::{IV_LEN_MAX, LONG_IV_LEN_MAX};
use crate::status::OpStatus;

/// A stretch of an arena: offset and length in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Span {
    /// First byte, counted from the start of the arena.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// A span of `len` bytes from `offset`.
    #[inline]
    pub const fn new(offset: u32, len: u32) -> Span {
        Span { offset, len }
    }

    /// One past the last byte. Sixty-four bits wide, so that it cannot wrap.
    #[inline]
    pub const fn end(self) -> u64 {
        self.offset as u64 + self.len as u64
    }

    /// The span as a range of indices.
    #[inline]
    pub const fn range(self) -> core::ops::Range<usize> {
        self.offset as usize..self.offset as usize + self.len as usize
    }
}

/// Where an operation's additional authenticated data (or its FF1 tweak) lie.
///
/// Many operations may share one place, for example a column's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, packed(2))]
pub struct Aad {
    /// First byte, counted from the start of the arena.
    pub offset: u32,
    /// Length in bytes.
    pub len: u16,
}

impl Aad {
    /// Additional data of `len` bytes from `offset`.
    #[inline]
    pub const fn new(offset: u32, len: u16) -> Aad {
        Aad { offset, len }
    }

    /// The place as a span.
    #[inline]
    pub const fn span(self) -> Span {
        Span { offset: self.offset, len: self.len as u32 }
    }
}

/// One operation.
///
/// Which fields a suite reads follows from its rules ([`crate::Suite::iv_len`], [`crate::Suite::tag_len`],
/// [`crate::Suite::output_len`]); fields that it does not read must be zero. The layout is fixed (`repr(C)`, 64 bytes),
/// so that a batch can lie in memory shared with another process or a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Op {
    /// The key in the key table, [`KeyId::NONE`] for suites without one.
    pub key: KeyId,
    /// Initialisation vector, nonce, tweak or counter block, `iv_len` bytes of it. Of longer ones than this has room for, which few suites
    /// take, these are the first bytes, and the others are the first of the additional data: [`Op::iv_rest_len`].
    pub iv: [u8; IV_LEN_MAX],
    /// Where the input lies.
    pub input: Span,
    /// Where the output goes; may equal `input.offset` (in place); a partial overlap is misuse.
    pub output: u32,
    /// Where the tag, digest or signature goes (or lies, when it is to be verified).
    pub tag: u32,
    /// Additional authenticated data, behind the rest of an initialisation vector that `iv` has no room for; for FF1 the tweak, for
    /// KMAC the customization string.
    pub aad: Aad,
    /// What became of the operation.
    pub status: OpStatus,
    /// The caller's own; carried through unchanged.
    pub cookie: u64,
    /// Bytes written at `output`, set when the operation ends. [`crate::Suite::Random`] reads the wanted length here.
    pub output_len: u32,
    /// Bytes at `tag`; on return from signing or encapsulation the bytes written there.
    pub tag_len: u16,
    /// Bytes of the initialisation vector.
    pub iv_len: u8,
    /// Must be zero.
    pub reserved: u8,
}

impl Op {
    /// An operation in place on `input` under `key`, without IV, tag or additional data.
    #[inline]
    pub fn in_place(key: KeyId, input: Span) -> Op {
        Op { key, input, output: input.offset, ..Op::default() }
    }

    /// Sets the initialisation vector.
    ///
    /// What is behind the first [`IV_LEN_MAX`] bytes is for the caller to put before the additional data ([`iv_rest`]). Slices of more
    /// bytes than any suite takes leave an `iv_len` that every suite refuses.
    #[inline]
    #[must_use]
    pub fn with_iv(mut self, iv: &[u8]) -> Op {
        let len = iv.len().min(IV_LEN_MAX);
        self.iv[..len].copy_from_slice(&iv[..len]);
        self.iv_len = u8::try_from(iv.len()).unwrap_or(u8::MAX);
        self
    }

    /// Bytes of the initialisation vector that are the first of the additional data.
    #[inline(always)]
    pub const fn iv_rest_len(&self) -> usize {
        (self.iv_len as usize).saturating_sub(IV_LEN_MAX)
    }

    /// Sets where the output goes.
    #[inline]
    #[must_use]
    pub const fn with_output(mut self, output: u32) -> Op {
        self.output = output;
        self
    }

    /// Sets where the tag, digest or signature of `len` bytes lies.
    #[inline]
    #[must_use]
    pub const fn with_tag(mut self, offset: u32, len: u16) -> Op {
        self.tag = offset;
        self.tag_len = len;
        self
    }

    /// Sets where the additional data lie.
    #[inline]
    #[must_use]
    pub const fn with_aad(mut self, offset: u32, len: u16) -> Op {
        self.aad = Aad { offset, len };
        self
    }

    /// The tag's place as a span.
    #[inline]
    pub const fn tag_span(&self) -> Span {
        Span { offset: self.tag, len: self.tag_len as u32 }
    }
}

/// What an operation has of an initialisation vector in front of its additional data: nothing, unless it is longer than [`IV_LEN_MAX`].
/// Of one that is longer than any suite takes it is as much as of the longest.
#[inline(always)]
pub fn iv_rest(iv: &[u8]) -> &[u8] {
    &iv[iv.len().min(IV_LEN_MAX)..iv.len().min(LONG_IV_LEN_MAX)]
}

const _: () = assert!(core::mem::size_of::<Op>() == 64 && core::mem::align_of::<Op>() == 64);

/// Whether two spans share no byte. Empty spans touch nothing.
#[inline(always)]
pub(crate) fn disjoint(a: Span, b: Span) -> bool {
    (a.end() <= u64::from(b.offset)) | (b.end() <= u64::from(a.offset)) | (a.len == 0) | (b.len == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    #[test]
    fn layout_is_the_documented_one() {
        assert_eq!(offset_of!(Op, key), 0);
        assert_eq!(offset_of!(Op, iv), 8);
        assert_eq!(offset_of!(Op, input), 24);
        assert_eq!(offset_of!(Op, output), 32);
        assert_eq!(offset_of!(Op, tag), 36);
        assert_eq!(offset_of!(Op, aad), 40);
        assert_eq!(offset_of!(Op, status), 46);
        assert_eq!(offset_of!(Op, cookie), 48);
        assert_eq!(offset_of!(Op, output_len), 56);
        assert_eq!(offset_of!(Op, tag_len), 60);
        assert_eq!(offset_of!(Op, iv_len), 62);
        assert_eq!(offset_of!(Op, reserved), 63);
    }

    #[test]
    fn an_overlong_iv_is_kept_as_a_length_no_suite_takes() {
        let op = Op::in_place(KeyId::NONE, Span::new(0, 0)).with_iv(&[7; 300]);
        assert_eq!(op.iv_len, u8::MAX);
    }

    #[test]
    fn what_an_operation_has_no_room_for_is_the_rest_of_an_iv() {
        let iv: Vec<u8> = (0..140).collect();
        for (len, rest) in [(0, 0), (12, 0), (16, 0), (17, 1), (24, 8), (128, 112), (140, 112)] {
            assert_eq!(iv_rest(&iv[..len]), &iv[16.min(len)..][..rest], "{len}");
        }
        let op = Op::in_place(KeyId::NONE, Span::new(0, 0)).with_iv(&iv[..24]);
        assert_eq!((op.iv_rest_len(), &op.iv[..]), (8, &iv[..16]));
        assert_eq!(op.with_iv(&iv[..12]).iv_rest_len(), 0);
    }
}
