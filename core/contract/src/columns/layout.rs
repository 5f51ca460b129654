//! Where the parts of operations lie in the buffers of checked columns.

use core::ops::Range;

use super::extents::Extents;
use super::form::{AadColumn, IvColumn};
use crate::limits::IV_LEN_MAX;
use crate::suite::Direction;

/// Where the parts of operations lie, as checked. Offsets of input and output count from the start of their buffers; in
/// place both are the same buffer.
#[derive(Clone, Copy)]
pub struct ColumnLayout<'a> {
    pub(super) inputs: Extents<'a>,
    pub(super) outputs: Extents<'a>,
    /// What the extents count less than the buffers begin with: a part of columns has the whole's offsets and a stretch of its
    /// buffers.
    pub(super) input_base: usize,
    pub(super) output_base: usize,
    /// What is added to an operation's index where its IV is counted.
    pub(super) first: usize,
    /// What lies before the data in an input's extent, and before and behind it.
    pub(super) input_head: usize,
    pub(super) input_more: usize,
    pub(super) output_head: usize,
    pub(super) ivs: IvColumn<'a>,
    pub(super) aad: AadColumn<'a>,
    pub(super) tag: TagSide,
    pub(super) tag_len: usize,
    pub(super) direction: Direction,
}

/// Where tags lie, without the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagSide {
    /// There are none.
    None,
    /// Within each sealed extent, directly before the ciphertext.
    Before,
    /// Directly behind the ciphertext.
    After,
    /// In a column of their own.
    Column,
}

/// The data of one operation: bytes in clear or ciphertext, without IV and tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataPlace {
    /// First byte in the input.
    pub input: usize,
    /// First byte in the output.
    pub output: usize,
    /// Bytes of both.
    pub len: usize,
}

/// The tag of one operation: an offset in one of three buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagPlace {
    /// There is none.
    None,
    /// In the input: to be verified.
    Input(usize),
    /// In the output: to be written.
    Output(usize),
    /// In the tags' own column.
    Column(usize),
}

/// The IV of one operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum IvPlace<'a> {
    /// Its bytes; behind the layout's IV length they are zero.
    Value([u8; IV_LEN_MAX]),
    /// In a column of their own.
    Column(&'a [u8]),
    /// At this offset of the input.
    Input(usize),
    /// At this offset of the output.
    Output(usize),
}

/// Where one part of every operation lies, for engines that look it up for each: `offset` bytes from where `steps` say.
#[derive(Clone, Copy, Debug)]
pub struct PartLayout<'a> {
    /// In which buffer.
    pub buffer: PartBuffer<'a>,
    /// Bytes by the operation's index.
    pub steps: Steps<'a>,
    /// From there to the part.
    pub offset: isize,
}

/// The buffer of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartBuffer<'a> {
    /// What is read.
    Input,
    /// What is written.
    Output,
    /// The column of tags.
    Tags,
    /// A column that is only read.
    Column(&'a [u8]),
}

/// Bytes by the index of an operation.
#[derive(Clone, Copy, Debug)]
pub enum Steps<'a> {
    /// At least as many as operations.
    Offsets(&'a [i32]),
    /// The same in 64 bits.
    LargeOffsets(&'a [i64]),
    /// So many times the index.
    Stride(usize),
    /// The first numbers of pairs, or the second ones.
    Spans(&'a [[u32; 2]], SpanSide),
}

/// Which number of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanSide {
    /// Where it starts.
    Start,
    /// Where it ends.
    End,
}

impl<'a> Extents<'a> {
    /// Where they start.
    fn starts(self) -> Steps<'a> {
        match self {
            Extents::Offsets(offsets) => Steps::Offsets(offsets),
            Extents::LargeOffsets(offsets) => Steps::LargeOffsets(offsets),
            Extents::Strided { stride, .. } => Steps::Stride(stride),
            Extents::Spans(spans) => Steps::Spans(spans, SpanSide::Start),
        }
    }

    /// Where they end, `len` bytes before that.
    fn ends(self, len: usize) -> (Steps<'a>, isize) {
        let before = -(len as isize);
        match self {
            Extents::Offsets(offsets) => (Steps::Offsets(&offsets[1..]), before),
            Extents::LargeOffsets(offsets) => (Steps::LargeOffsets(&offsets[1..]), before),
            Extents::Strided { len, stride } => (Steps::Stride(stride), before.wrapping_add(len as isize)),
            Extents::Spans(spans) => (Steps::Spans(spans, SpanSide::End), before),
        }
    }
}

impl<'a> ColumnLayout<'a> {
    /// The data that are read.
    pub fn input_part(&self) -> PartLayout<'a> {
        let offset = self.input_head as isize - self.input_base as isize;
        PartLayout { buffer: PartBuffer::Input, steps: self.inputs.starts(), offset }
    }

    /// The data that are written.
    pub fn output_part(&self) -> PartLayout<'a> {
        let offset = self.output_head as isize - self.output_base as isize;
        PartLayout { buffer: PartBuffer::Output, steps: self.outputs.starts(), offset }
    }

    /// The tags; `None` when there are none.
    pub fn tag_part(&self) -> Option<PartLayout<'a>> {
        let (extents, buffer, base) = self.sealed();
        let (steps, offset) = match self.tag {
            TagSide::None => return None,
            TagSide::Before => (extents.starts(), (self.sealed_head() - self.tag_len) as isize),
            TagSide::After => extents.ends(self.tag_len),
            TagSide::Column => {
                return Some(PartLayout { buffer: PartBuffer::Tags, steps: Steps::Stride(self.tag_len), offset: 0 });
            }
        };
        Some(PartLayout { buffer, steps, offset: offset.wrapping_sub(base as isize) })
    }

    /// The IVs; `None` when there are none, or they are counted.
    pub fn iv_part(&self) -> Option<PartLayout<'a>> {
        let (buffer, steps, base) = match self.ivs {
            IvColumn::None | IvColumn::Counter(_) => return None,
            IvColumn::Each { bytes, len } => (PartBuffer::Column(bytes), Steps::Stride(len), 0),
            IvColumn::Inline { .. } | IvColumn::Drawn { .. } => {
                let (extents, buffer, base) = self.sealed();
                (buffer, extents.starts(), base)
            }
        };
        Some(PartLayout { buffer, steps, offset: -(base as isize) })
    }

    /// The extents that hold what is sealed, their buffer, and what they count less than that begins with.
    fn sealed(&self) -> (Extents<'a>, PartBuffer<'a>, usize) {
        match self.direction {
            Direction::Encrypt => (self.outputs, PartBuffer::Output, self.output_base),
            Direction::Decrypt => (self.inputs, PartBuffer::Input, self.input_base),
        }
    }

    /// Bytes of an input's extent that are no data.
    pub fn input_more(&self) -> usize {
        self.input_more
    }

    /// The data of the operation at `index`, which is pending.
    #[inline(always)]
    pub fn data(&self, index: usize) -> DataPlace {
        let ((start, end), output) = (self.inputs.at(index), self.outputs.at(index).0);
        DataPlace {
            input: start - self.input_base + self.input_head,
            output: output - self.output_base + self.output_head,
            len: end - start - self.input_more,
        }
    }

    /// From the start of a sealed extent to its data: where an inline IV begins, and by how much before them.
    #[inline]
    pub fn sealed_head(&self) -> usize {
        if self.direction == Direction::Encrypt { self.output_head } else { self.input_head }
    }

    /// The tag of the operation at `index`, whose data are `data`.
    #[inline(always)]
    pub fn tag(&self, index: usize, data: DataPlace) -> TagPlace {
        let sealed = |offset| match self.direction {
            Direction::Encrypt => TagPlace::Output(offset),
            Direction::Decrypt => TagPlace::Input(offset),
        };
        let at = if self.direction == Direction::Encrypt { data.output } else { data.input };
        match self.tag {
            TagSide::None => TagPlace::None,
            TagSide::Before => sealed(at - self.tag_len),
            TagSide::After => sealed(at + data.len),
            TagSide::Column => TagPlace::Column(index * self.tag_len),
        }
    }

    /// Bytes of each tag.
    #[inline]
    pub fn tag_len(&self) -> usize {
        self.tag_len
    }

    /// The IV of the operation at `index`.
    #[inline(always)]
    pub fn iv(&self, index: usize) -> IvPlace<'a> {
        let mut value = [0; IV_LEN_MAX];
        match self.ivs {
            IvColumn::None => {}
            IvColumn::Each { bytes, len } => return IvPlace::Column(&bytes[index * len..][..len]),
            IvColumn::Counter(first) => {
                let (head, counter) = first.split_at(first.len() - 4);
                value[..head.len()].copy_from_slice(head);
                // Checked: it does not wrap.
                let number = counter.iter().fold(0u32, |number, byte| number << 8 | u32::from(*byte));
                let number = number.wrapping_add((self.first + index) as u32);
                value[head.len()..first.len()].copy_from_slice(&number.to_be_bytes());
            }
            IvColumn::Inline { .. } | IvColumn::Drawn { .. } => match self.direction {
                Direction::Encrypt => return IvPlace::Output(self.output_extent(index).start),
                Direction::Decrypt => return IvPlace::Input(self.input_extent(index).start),
            },
        }
        IvPlace::Value(value)
    }

    /// Where tags lie.
    #[inline]
    pub fn tag_side(&self) -> TagSide {
        self.tag
    }

    /// The column of IVs. Of a part of columns a counter is the whole's; [`ColumnLayout::iv`] says where it begins.
    #[inline]
    pub fn ivs(&self) -> IvColumn<'a> {
        self.ivs
    }

    /// Bytes of each IV.
    #[inline]
    pub fn iv_len(&self) -> usize {
        match self.ivs {
            IvColumn::None => 0,
            IvColumn::Each { len, .. } | IvColumn::Inline { len } | IvColumn::Drawn { len } => len,
            IvColumn::Counter(first) => first.len(),
        }
    }

    /// The additional data of the operation at `index`.
    #[inline(always)]
    pub fn aad(&self, index: usize) -> &'a [u8] {
        match self.aad {
            AadColumn::None => &[],
            AadColumn::One(bytes) => bytes,
            AadColumn::Each { bytes, extents } => {
                let (start, end) = extents.at(index);
                &bytes[start..end]
            }
        }
    }

    /// The additional data that all operations share; `None` when each has its own.
    #[inline]
    pub fn shared_aad(&self) -> Option<&'a [u8]> {
        match self.aad {
            AadColumn::None => Some(&[]),
            AadColumn::One(bytes) => Some(bytes),
            AadColumn::Each { .. } => None,
        }
    }

    /// What the operations' own additional data lie in, and where; `None` when all share theirs.
    #[inline]
    pub fn own_aad(&self) -> Option<(&'a [u8], Extents<'a>)> {
        match self.aad {
            AadColumn::None | AadColumn::One(_) => None,
            AadColumn::Each { bytes, extents } => Some((bytes, extents)),
        }
    }

    /// Where the operation at `index`, pending or not, lies in the input.
    #[inline(always)]
    pub fn input_extent(&self, index: usize) -> Range<usize> {
        let (start, end) = self.inputs.at(index);
        start - self.input_base..end - self.input_base
    }

    /// Where the operation at `index`, pending or not, lies in the output.
    #[inline(always)]
    pub fn output_extent(&self, index: usize) -> Range<usize> {
        let (start, end) = self.outputs.at(index);
        start - self.output_base..end - self.output_base
    }

    /// Where outputs begin, if they are [`Extents::Spans`]: in a loop, a match on the kind of extents costs more than the look.
    pub(super) fn span_starts(&self) -> Option<impl Fn(usize) -> usize + use<'a>> {
        let base = self.output_base;
        match self.outputs {
            Extents::Spans(spans) => Some(move |index: usize| spans[index][0] as usize - base),
            _ => None,
        }
    }

    /// Whether any part of an operation has [`Extents::Spans`], which engines without a way of their own for them take as ops.
    pub fn has_spans(&self) -> bool {
        let aad = self.own_aad().map(|(_, extents)| extents);
        [Some(self.inputs), Some(self.outputs), aad].iter().any(|extents| matches!(extents, Some(Extents::Spans(_))))
    }

    /// Extents that are as long as those of the input. They need not begin where these do: in a part of columns they count
    /// from the start of the whole's buffer.
    #[inline]
    pub fn input_lens(&self) -> Extents<'a> {
        self.inputs
    }

    /// Extents that are as long as those of the output, as [`ColumnLayout::input_lens`].
    #[inline]
    pub fn output_lens(&self) -> Extents<'a> {
        self.outputs
    }
}
