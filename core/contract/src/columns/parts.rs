//! Columns in parts that can be worked on at the same time: each a run of neighbouring operations with a stretch of every
//! buffer to itself. Nothing is copied: a part has the caller's own offsets, statuses and columns from its first operation on.

use core::mem::take;
use core::ops::Range;

use super::checked::{CheckedColumns, ColumnBuffers, DataBuffers, PreparedColumn, TagBuffer};
use super::extents::Extents;
use super::form::{AadColumn, IvColumn, KeyColumn};
use super::layout::ColumnLayout;
use super::status::ColumnStatus;

impl CheckedColumns<'_> {
    /// Cuts the columns into parts of `counts` operations each, in their order, pending or not, and hands them to `work`. A
    /// part may have no operation. Its statuses and buffers are the whole's own, so that nothing has to be taken over.
    ///
    /// `None`, and `work` is not called, when `counts` do not add up to the columns.
    pub fn in_parts<R>(&mut self, counts: &[usize], work: impl FnOnce(Vec<CheckedColumns<'_>>) -> R) -> Option<R> {
        let sum = counts.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
        if sum != Some(self.len()) {
            return None;
        }
        let layout = &self.layout;
        let mut buffers = Rest::of(&mut self.buffers);
        let mut statuses = &mut *self.statuses;
        let mut first = 0;
        let mut part = |count: usize| {
            let here = first..first + count;
            first = here.end;
            let (own, behind) = take(&mut statuses).split_at_mut(count);
            statuses = behind;
            let own_layout = layout.part(&here);
            let (pending, input_bytes) = own_layout.pending(own);
            CheckedColumns {
                suite: self.suite,
                direction: self.direction,
                buffers: buffers.take(layout, &here),
                statuses: own,
                keys: match self.keys {
                    KeyColumn::Each(keys) => KeyColumn::Each(&keys[here.clone()]),
                    shared => shared,
                },
                prepared: match self.prepared {
                    PreparedColumn::Each(keys) => PreparedColumn::Each(&keys[here]),
                    shared => shared,
                },
                layout: own_layout,
                pending,
                input_bytes,
            }
        };
        let parts = counts.iter().map(|count| part(*count)).collect();
        Some(work(parts))
    }
}

impl<'a> ColumnLayout<'a> {
    /// That of the operations `here` in buffers that begin with the first of them.
    fn part(&self, here: &Range<usize>) -> ColumnLayout<'a> {
        ColumnLayout {
            inputs: self.inputs.part(here),
            outputs: self.outputs.part(here),
            input_base: self.inputs.base_of_part(here),
            output_base: self.outputs.base_of_part(here),
            first: self.first + here.start,
            ivs: match self.ivs {
                IvColumn::Each { bytes, len } => {
                    IvColumn::Each { bytes: &bytes[here.start * len..here.end * len], len }
                }
                shared => shared,
            },
            aad: match self.aad {
                AadColumn::Each { bytes, extents: Extents::Strided { len, stride } } if !here.is_empty() => {
                    AadColumn::Each { bytes: &bytes[here.start * stride..], extents: Extents::Strided { len, stride } }
                }
                // Offsets count from the start of what lies there for all to read.
                AadColumn::Each { bytes, extents } => AadColumn::Each { bytes, extents: extents.part(here) },
                shared => shared,
            },
            ..*self
        }
    }

    /// How many operations with these statuses are pending, and their bytes of data.
    fn pending(&self, statuses: &[ColumnStatus]) -> (usize, u64) {
        let count = statuses.len();
        if statuses.iter().fold(true, |all, status| all & status.is_pending()) {
            return (count, self.inputs.total(count) - (self.input_more * count) as u64);
        }
        let pending = statuses.iter().enumerate().filter(|(_, status)| status.is_pending());
        pending.fold((0, 0), |(count, bytes), (index, _)| (count + 1, bytes + self.data(index).len as u64))
    }
}

impl<'a> Extents<'a> {
    /// Those of the operations `here`.
    fn part(self, here: &Range<usize>) -> Extents<'a> {
        match self {
            Extents::Offsets(offsets) => Extents::Offsets(&offsets[here.start..=here.end]),
            Extents::LargeOffsets(offsets) => Extents::LargeOffsets(&offsets[here.start..=here.end]),
            Extents::Strided { .. } => self,
            Extents::Spans(spans) => Extents::Spans(&spans[here.clone()]),
        }
    }

    /// What those count less than a buffer begins with that begins with the first of them.
    fn base_of_part(&self, here: &Range<usize>) -> usize {
        match self {
            Extents::Offsets(offsets) => offsets[here.start] as usize,
            Extents::LargeOffsets(offsets) => offsets[here.start] as usize,
            Extents::Strided { .. } => 0,
            Extents::Spans(spans) => spans.get(here.start).map_or(0, |[start, _]| *start as usize),
        }
    }
}

/// What no part has yet of the buffers.
struct Rest<'b> {
    /// What is only read stays whole, since parts may share it.
    input: &'b [u8],
    written: &'b mut [u8],
    /// Where that begins in the whole buffer.
    written_from: usize,
    form: Form,
    tags: TagBuffer<'b>,
}

/// The variants of [`DataBuffers`].
#[derive(Clone, Copy)]
enum Form {
    Separate,
    InPlace,
    Input,
}

impl<'b> Rest<'b> {
    fn of(buffers: &'b mut ColumnBuffers<'_>) -> Rest<'b> {
        let (input, written, form): (&[u8], &mut [u8], Form) = match &mut buffers.data {
            DataBuffers::Separate(input, output) => (input, output, Form::Separate),
            DataBuffers::InPlace(data) => (&[], data, Form::InPlace),
            DataBuffers::Input(input) => (input, &mut [], Form::Input),
        };
        let tags = match &mut buffers.tags {
            TagBuffer::None => TagBuffer::None,
            TagBuffer::Written(bytes) => TagBuffer::Written(bytes),
            TagBuffer::Expected(bytes) => TagBuffer::Expected(bytes),
        };
        Rest { input, written, written_from: 0, form, tags }
    }

    /// The stretches of the operations `here` of columns with this layout, which lie behind those taken before.
    fn take(&mut self, layout: &ColumnLayout<'_>, here: &Range<usize>) -> ColumnBuffers<'b> {
        let input = stretch(here, |index| layout.input_extent(index));
        let output = stretch(here, |index| layout.output_extent(index));
        let data = match self.form {
            Form::Separate => DataBuffers::Separate(&self.input[input], self.take_written(output)),
            Form::InPlace => DataBuffers::InPlace(self.take_written(output)),
            Form::Input => DataBuffers::Input(&self.input[input]),
        };
        let tags_len = layout.tag_len * here.len();
        let tags = match &mut self.tags {
            TagBuffer::None => TagBuffer::None,
            TagBuffer::Written(bytes) => {
                let (own, behind) = take(bytes).split_at_mut(tags_len);
                *bytes = behind;
                TagBuffer::Written(own)
            }
            TagBuffer::Expected(bytes) => {
                let (own, behind) = bytes.split_at(tags_len);
                *bytes = behind;
                TagBuffer::Expected(own)
            }
        };
        ColumnBuffers { data, tags }
    }

    fn take_written(&mut self, here: Range<usize>) -> &'b mut [u8] {
        if here.is_empty() {
            return &mut [];
        }
        let rest = &mut take(&mut self.written)[here.start - self.written_from..];
        let (own, behind) = rest.split_at_mut(here.len());
        (self.written, self.written_from) = (behind, here.end);
        own
    }
}

/// From the first byte of the operations `here` to the last one; nothing of none.
fn stretch(here: &Range<usize>, extent: impl Fn(usize) -> Range<usize>) -> Range<usize> {
    if here.is_empty() { 0..0 } else { extent(here.start).start..extent(here.end - 1).end }
}
