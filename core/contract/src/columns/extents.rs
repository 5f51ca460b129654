//! Where the operations of a columnar batch lie in a buffer.

use crate::batch::Band;
use crate::status::Reason;

/// Where each operation's bytes lie in a buffer.
#[derive(Clone, Copy, Debug)]
pub enum Extents<'a> {
    /// Operation `i` has the bytes from `offsets[i]` to `offsets[i + 1]`: Arrow's variable-size layout with 32-bit offsets, one
    /// more than operations.
    Offsets(&'a [i32]),
    /// The same with 64-bit offsets.
    LargeOffsets(&'a [i64]),
    /// Operation `i` has `len` bytes from `i * stride` on.
    Strided {
        /// Bytes of each operation.
        len: usize,
        /// From the start of one to that of the next; not less than `len`.
        stride: usize,
    },
}

/// An offset of Arrow's layouts.
trait Offset: Copy {
    /// The same as a wide number.
    fn wide(self) -> i64;
    /// From `self` to `end`; what is negative or does not fit becomes a number that no length reaches.
    fn to(self, end: Self) -> u32;
}

impl Offset for i32 {
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self)
    }

    #[inline(always)]
    fn to(self, end: Self) -> u32 {
        // A negative end is none, even if the distance wraps to a length.
        (end.wrapping_sub(self) | (end & i32::MIN)) as u32
    }
}

impl Offset for i64 {
    #[inline(always)]
    fn wide(self) -> i64 {
        self
    }

    #[inline(always)]
    fn to(self, end: Self) -> u32 {
        let len = end.wrapping_sub(self);
        if len < 0 || len > i64::from(i32::MAX) || end < 0 { u32::MAX } else { len as u32 }
    }
}

impl Extents<'_> {
    /// Where the operation at `index` begins and ends. Of checked extents both lie within the buffer.
    #[inline(always)]
    pub fn at(&self, index: usize) -> (usize, usize) {
        match self {
            Extents::Offsets(offsets) => (offsets[index] as usize, offsets[index + 1] as usize),
            Extents::LargeOffsets(offsets) => (offsets[index] as usize, offsets[index + 1] as usize),
            Extents::Strided { len, stride } => (index * stride, index * stride + len),
        }
    }

    /// Whether there are as many as `count` operations.
    pub(super) fn are(&self, count: usize) -> bool {
        match self {
            Extents::Offsets(offsets) => offsets.len() == count + 1,
            Extents::LargeOffsets(offsets) => offsets.len() == count + 1,
            Extents::Strided { .. } => true,
        }
    }

    /// Whether all of `count` operations lie within `buffer_len` bytes, one behind the other, and have lengths that are in
    /// `band` when `more` is taken off. A pass over the offsets without branches.
    pub(super) fn all_hold(&self, count: usize, buffer_len: usize, more: u32, band: Band) -> bool {
        match self {
            Extents::Offsets(offsets) => offsets_hold(offsets, buffer_len, more, band),
            Extents::LargeOffsets(offsets) => offsets_hold(offsets, buffer_len, more, band),
            Extents::Strided { len, .. } => {
                self.strides_hold(count, buffer_len)
                    && u32::try_from(*len).is_ok_and(|len| len >= more && band.holds(len - more))
            }
        }
    }

    /// Whether the extents of two buffers differ by `more` bytes in each operation; both have held by themselves.
    pub(super) fn all_differ_by(&self, count: usize, longer: &Extents<'_>, more: usize) -> bool {
        match (self, longer) {
            (Extents::Offsets(short), Extents::Offsets(long)) => offsets_differ_by(short, long, more),
            (Extents::LargeOffsets(short), Extents::LargeOffsets(long)) => offsets_differ_by(short, long, more),
            (Extents::Strided { len: short, .. }, Extents::Strided { len: long, .. }) => short + more == *long,
            _ => (0..count).all(|index| self.len_at(index) + more == longer.len_at(index)),
        }
    }

    /// Bytes from the first operation's start to the last one's end, of `count` that lie one behind the other.
    pub(super) fn total(&self, count: usize) -> u64 {
        match self {
            Extents::Strided { len, .. } => *len as u64 * count as u64,
            _ if count == 0 => 0,
            _ => (self.at(count - 1).1 - self.at(0).0) as u64,
        }
    }

    /// The longest of checked extents.
    pub(super) fn longest(&self) -> usize {
        match self {
            Extents::Offsets(offsets) => offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0) as usize,
            Extents::LargeOffsets(offsets) => {
                offsets.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0) as usize
            }
            Extents::Strided { len, .. } => *len,
        }
    }

    pub(super) fn len_at(&self, index: usize) -> usize {
        let (start, end) = self.at(index);
        end - start
    }

    /// The rule that the operation at `index` breaks by where it lies; lengths aside.
    pub(super) fn diagnose(&self, index: usize, count: usize, buffer_len: usize, past: Reason) -> Option<Reason> {
        let (start, end) = match self {
            Extents::Offsets(offsets) => (offsets[index].wide(), offsets[index + 1].wide()),
            Extents::LargeOffsets(offsets) => (offsets[index], offsets[index + 1]),
            Extents::Strided { len, stride } if stride < len => return Some(Reason::ExtentsDescend),
            Extents::Strided { .. } => return (!self.strides_hold(count, buffer_len)).then_some(past),
        };
        if start < 0 || end < start {
            Some(Reason::ExtentsDescend)
        } else if end as u64 > buffer_len as u64 {
            Some(past)
        } else {
            None
        }
    }

    fn strides_hold(&self, count: usize, buffer_len: usize) -> bool {
        let Extents::Strided { len, stride } = self else { return false };
        let Some(last) = count.checked_sub(1) else { return stride >= len };
        let end = last.checked_mul(*stride).and_then(|start| start.checked_add(*len));
        stride >= len && end.is_some_and(|end| end <= buffer_len)
    }
}

#[inline]
fn offsets_hold<O: Offset>(offsets: &[O], buffer_len: usize, more: u32, band: Band) -> bool {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return false };
    let mut holds = true;
    for (start, end) in offsets.iter().zip(&offsets[1..]) {
        // Shorter than `more` wraps to what is no length.
        holds &= band.holds(start.to(*end).wrapping_sub(more));
    }
    // They ascend, so the first and the last one speak for all.
    holds && first.wide() >= 0 && last.wide() as u64 <= buffer_len as u64
}

#[inline]
fn offsets_differ_by<O: Offset>(short: &[O], long: &[O], more: usize) -> bool {
    let Ok(more) = u32::try_from(more) else { return false };
    let mut same = true;
    for (short, long) in short.windows(2).zip(long.windows(2)) {
        same &= short[0].to(short[1]).wrapping_add(more) == long[0].to(long[1]);
    }
    same
}
