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
    /// Operation `i` has the bytes from `spans[i][0]` to `spans[i][1]`, and begins where the one before ends or behind it: packets with
    /// their headers between them. As many as operations.
    Spans(&'a [[u32; 2]]),
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
            Extents::Spans(spans) => (spans[index][0] as usize, spans[index][1] as usize),
        }
    }

    /// Whether there are as many as `count` operations.
    pub(super) fn are(&self, count: usize) -> bool {
        match self {
            Extents::Offsets(offsets) => offsets.len() == count + 1,
            Extents::LargeOffsets(offsets) => offsets.len() == count + 1,
            Extents::Strided { .. } => true,
            Extents::Spans(spans) => spans.len() == count,
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
            Extents::Spans(spans) => spans_hold(spans, buffer_len, more, band),
        }
    }

    /// Whether these extents of inputs hold, as [`Extents::all_hold`] says, and those of `outputs` lie within `output_len` bytes,
    /// one behind the other, with `output_more` bytes beside as many data. One pass over both where they are of one kind.
    pub(super) fn all_agree(
        &self,
        count: usize,
        (input_len, input_more, band): (usize, u32, Band),
        outputs: &Extents<'_>,
        (output_len, output_more): (usize, u32),
    ) -> bool {
        let (input, output) = ((input_len, input_more), (output_len, output_more));
        match (self, outputs) {
            (Extents::Offsets(inputs), Extents::Offsets(outputs)) => {
                offsets_agree((inputs, input), (outputs, output), band)
            }
            (Extents::LargeOffsets(inputs), Extents::LargeOffsets(outputs)) => {
                offsets_agree((inputs, input), (outputs, output), band)
            }
            _ => {
                let (shorter, longer) = if output_more >= input_more { (self, outputs) } else { (outputs, self) };
                self.all_hold(count, input_len, input_more, band)
                    && outputs.all_hold(count, output_len, 0, Band::any())
                    && shorter.all_differ_by(count, longer, output_more.abs_diff(input_more) as usize)
            }
        }
    }

    /// Whether the extents of two buffers differ by `more` bytes in each operation; both have held by themselves.
    fn all_differ_by(&self, count: usize, longer: &Extents<'_>, more: usize) -> bool {
        match (self, longer) {
            (Extents::Strided { len: short, .. }, Extents::Strided { len: long, .. }) => short + more == *long,
            _ => (0..count).all(|index| self.len_at(index) + more == longer.len_at(index)),
        }
    }

    /// Bytes from the first operation's start to the last one's end, of `count` that lie one behind the other.
    pub(super) fn total(&self, count: usize) -> u64 {
        match self {
            Extents::Strided { len, .. } => *len as u64 * count as u64,
            Extents::Spans(spans) => spans.iter().map(|[start, end]| u64::from(end - start)).sum(),
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
            Extents::Spans(spans) => spans.iter().map(|[start, end]| end - start).max().unwrap_or(0) as usize,
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
            Extents::Spans(spans) => {
                let before = index.checked_sub(1).map_or(0, |before| spans[before][1]);
                let [start, end] = spans[index];
                if start < before {
                    return Some(Reason::ExtentsDescend);
                }
                (i64::from(start), i64::from(end))
            }
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
    let mut holds = true;
    for (start, end) in offsets.iter().zip(offsets.iter().skip(1)) {
        // Shorter than `more` wraps to what is no length.
        holds &= band.holds(start.to(*end).wrapping_sub(more));
    }
    holds && lie_within(offsets, buffer_len)
}

/// Whether spans lie within the buffer, one behind the other, with lengths in `band` when `more` is taken off.
#[inline]
fn spans_hold(spans: &[[u32; 2]], buffer_len: usize, more: u32, band: Band) -> bool {
    let (mut holds, mut before) = (true, 0);
    for [start, end] in spans {
        // Shorter than `more` wraps to what is no length.
        holds &= (before <= *start) & (*start <= *end) & band.holds(end.wrapping_sub(*start).wrapping_sub(more));
        before = *end;
    }
    holds && before as usize <= buffer_len
}

/// Whether offsets that ascend are those of a buffer: the first and the last one speak for all.
fn lie_within<O: Offset>(offsets: &[O], buffer_len: usize) -> bool {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => first.wide() >= 0 && last.wide() as u64 <= buffer_len as u64,
        _ => false,
    }
}

/// Offsets of inputs and of outputs, of each with the bytes of its buffer and those beside the data.
#[inline]
fn offsets_agree<O: Offset>(
    (inputs, (input_len, input_more)): (&[O], (usize, u32)),
    (outputs, (output_len, output_more)): (&[O], (usize, u32)),
    band: Band,
) -> bool {
    let ends = inputs.iter().zip(outputs).skip(1);
    let mut holds = true;
    for ((input, output), (input_end, output_end)) in inputs.iter().zip(outputs).zip(ends) {
        // Shorter than `input_more` wraps to what is no length.
        let len = input.to(*input_end).wrapping_sub(input_more);
        let sealed = output.to(*output_end);
        // What is no extent has a number above all lengths.
        holds &= band.holds(len) & (sealed <= i32::MAX as u32) & (sealed == len.wrapping_add(output_more));
    }
    holds && lie_within(inputs, input_len) && lie_within(outputs, output_len)
}
