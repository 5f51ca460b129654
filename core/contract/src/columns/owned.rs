//! A copy of columns that owns everything it needs: what an engine runs on a thread of its own, which may never come back.

use core::ops::Range;

use zeroize::Zeroizing;

use super::checked::{CheckedColumns, ColumnBuffers, DataBuffers, PreparedColumn, TagBuffer};
use super::extents::Extents;
use super::form::{AadColumn, IvColumn, KeyColumn};
use super::layout::{ColumnLayout, TagPlace, TagSide};
use super::status::ColumnStatus;
use crate::error::Result;
use crate::owned::ArenaBuffer;
use crate::status::OpStatus;
use crate::suite::{Direction, Suite};

/// Checked columns, copied as they lie: stretches of their buffers, offsets, IVs, additional data, tags and statuses. Keys are
/// attached to the copy.
pub struct OwnedColumns {
    suite: Suite,
    direction: Direction,
    buffers: OwnedBuffers,
    /// Where that of the output lies in the buffer that it is copied from.
    output_here: Range<usize>,
    inputs: OwnedExtents,
    outputs: OwnedExtents,
    ivs: OwnedIvs,
    aad: OwnedAad,
    tags: Zeroizing<Vec<u8>>,
    statuses: Vec<ColumnStatus>,
    shape: Shape,
    pending: usize,
    input_bytes: u64,
}

/// What of a layout borrows nothing.
#[derive(Clone, Copy)]
struct Shape {
    input_base: usize,
    output_base: usize,
    first: usize,
    input_head: usize,
    input_more: usize,
    output_head: usize,
    tag: TagSide,
    tag_len: usize,
}

enum OwnedBuffers {
    Separate(Box<dyn ArenaBuffer>, Box<dyn ArenaBuffer>),
    InPlace(Box<dyn ArenaBuffer>),
    Input(Box<dyn ArenaBuffer>),
}

enum OwnedExtents {
    Offsets(Vec<i32>),
    LargeOffsets(Vec<i64>),
    Strided { len: usize, stride: usize },
    Spans(Vec<[u32; 2]>),
}

enum OwnedIvs {
    None,
    Each(Vec<u8>, usize),
    Counter(Vec<u8>),
    Inline(usize),
}

enum OwnedAad {
    None,
    One(Zeroizing<Vec<u8>>),
    Each(Zeroizing<Vec<u8>>, OwnedExtents),
}

impl OwnedExtents {
    /// The same, less `by` where they are offsets.
    fn less(extents: Extents<'_>, by: usize) -> OwnedExtents {
        match extents {
            Extents::Offsets(offsets) => OwnedExtents::Offsets(offsets.iter().map(|at| at - by as i32).collect()),
            Extents::LargeOffsets(offsets) => {
                OwnedExtents::LargeOffsets(offsets.iter().map(|at| at - by as i64).collect())
            }
            Extents::Strided { len, stride } => OwnedExtents::Strided { len, stride },
            Extents::Spans(spans) => {
                OwnedExtents::Spans(spans.iter().map(|[start, end]| [start - by as u32, end - by as u32]).collect())
            }
        }
    }

    fn borrowed(&self) -> Extents<'_> {
        match self {
            OwnedExtents::Offsets(offsets) => Extents::Offsets(offsets),
            OwnedExtents::LargeOffsets(offsets) => Extents::LargeOffsets(offsets),
            OwnedExtents::Strided { len, stride } => Extents::Strided { len: *len, stride: *stride },
            OwnedExtents::Spans(spans) => Extents::Spans(spans),
        }
    }
}

/// From the first operation's first byte to the last one's last.
fn stretch(count: usize, extent: impl Fn(usize) -> Range<usize>) -> Range<usize> {
    match count.checked_sub(1) {
        None => 0..0,
        Some(last) => extent(0).start..extent(last).end,
    }
}

impl CheckedColumns<'_> {
    /// Bytes that a copy takes of the buffers, and of the operations' own additional data: from the first operation to the
    /// last, with what lies between.
    pub fn stretches_len(&self) -> usize {
        let (layout, count) = (&self.layout, self.len());
        let input = stretch(count, |index| layout.input_extent(index)).len();
        let output = match &self.buffers.data {
            DataBuffers::Separate(..) => stretch(count, |index| layout.output_extent(index)).len(),
            DataBuffers::InPlace(_) | DataBuffers::Input(_) => 0,
        };
        let aad = match layout.aad {
            AadColumn::Each { extents, .. } => stretch(count, |index| extents.at(index).0..extents.at(index).1).len(),
            AadColumn::None | AadColumn::One(_) => 0,
        };
        input.saturating_add(output).saturating_add(aad)
    }

    /// Whether operations lie so far apart that it takes less to copy each by itself than all with what lies between.
    pub fn is_sparse(&self) -> bool {
        /// What comes with an operation beside its data, about: IV, tag, additional data.
        const AROUND: u64 = 64;
        self.stretches_len() as u64 > 4 * (self.input_bytes + AROUND * self.pending as u64)
    }

    /// A copy in memory that `memory` gives, as many bytes as it is asked for. Outputs are copied where IVs lie in them.
    ///
    /// # Errors
    /// Those of `memory`.
    pub fn to_owned_in(&self, mut memory: impl FnMut(usize) -> Result<Box<dyn ArenaBuffer>>) -> Result<OwnedColumns> {
        let (layout, count) = (&self.layout, self.len());
        let input_here = stretch(count, |index| layout.input_extent(index));
        let output_here = match &self.buffers.data {
            DataBuffers::Separate(..) => stretch(count, |index| layout.output_extent(index)),
            DataBuffers::InPlace(_) => input_here.clone(),
            DataBuffers::Input(_) => 0..0,
        };
        let mut copy = |from: &[u8]| -> Result<Box<dyn ArenaBuffer>> {
            let mut own = memory(from.len())?;
            own.bytes_mut().copy_from_slice(from);
            Ok(own)
        };
        let has_inline_ivs = matches!(layout.ivs, IvColumn::Inline { .. } | IvColumn::Drawn { .. });
        let buffers = match &self.buffers.data {
            DataBuffers::Separate(input, output) => {
                let input = copy(&input[input_here.clone()])?;
                let wanted = has_inline_ivs && self.direction == Direction::Encrypt;
                let output = if wanted { copy(&output[output_here.clone()])? } else { memory(output_here.len())? };
                OwnedBuffers::Separate(input, output)
            }
            DataBuffers::InPlace(data) => OwnedBuffers::InPlace(copy(&data[input_here.clone()])?),
            DataBuffers::Input(input) => OwnedBuffers::Input(copy(&input[input_here.clone()])?),
        };
        let tags = match &self.buffers.tags {
            TagBuffer::None => Vec::new(),
            TagBuffer::Written(tags) => vec![0; tags.len()],
            TagBuffer::Expected(tags) => tags.to_vec(),
        };
        Ok(OwnedColumns {
            suite: self.suite,
            direction: self.direction,
            buffers,
            inputs: OwnedExtents::less(layout.inputs, 0),
            outputs: OwnedExtents::less(layout.outputs, 0),
            ivs: match layout.ivs {
                IvColumn::None => OwnedIvs::None,
                IvColumn::Each { bytes, len } => OwnedIvs::Each(bytes.to_vec(), len),
                IvColumn::Counter(first) => OwnedIvs::Counter(first.to_vec()),
                IvColumn::Inline { len } | IvColumn::Drawn { len } => OwnedIvs::Inline(len),
            },
            aad: own_aad(layout.aad, count),
            tags: Zeroizing::new(tags),
            statuses: self.statuses.to_vec(),
            shape: Shape {
                input_base: layout.input_base + input_here.start,
                output_base: layout.output_base + output_here.start,
                first: layout.first,
                input_head: layout.input_head,
                input_more: layout.input_more,
                output_head: layout.output_head,
                tag: layout.tag,
                tag_len: layout.tag_len,
            },
            output_here,
            pending: self.pending,
            input_bytes: self.input_bytes,
        })
    }
}

/// Additional data with those bytes alone that operations have.
fn own_aad(aad: AadColumn<'_>, count: usize) -> OwnedAad {
    match aad {
        AadColumn::None => OwnedAad::None,
        AadColumn::One(bytes) => OwnedAad::One(Zeroizing::new(bytes.to_vec())),
        AadColumn::Each { bytes, extents } => {
            let here = stretch(count, |index| extents.at(index).0..extents.at(index).1);
            OwnedAad::Each(Zeroizing::new(bytes[here.clone()].to_vec()), OwnedExtents::less(extents, here.start))
        }
    }
}

impl OwnedColumns {
    /// The copy, as an engine runs it; it keeps every rule that what it was copied from kept.
    pub fn as_checked(&mut self) -> CheckedColumns<'_> {
        let Shape { input_base, output_base, first, input_head, input_more, output_head, tag, tag_len } = self.shape;
        let layout = ColumnLayout {
            inputs: self.inputs.borrowed(),
            outputs: self.outputs.borrowed(),
            input_base,
            output_base,
            first,
            input_head,
            input_more,
            output_head,
            ivs: match &self.ivs {
                OwnedIvs::None => IvColumn::None,
                OwnedIvs::Each(bytes, len) => IvColumn::Each { bytes, len: *len },
                OwnedIvs::Counter(first) => IvColumn::Counter(first),
                OwnedIvs::Inline(len) => IvColumn::Inline { len: *len },
            },
            aad: match &self.aad {
                OwnedAad::None => AadColumn::None,
                OwnedAad::One(bytes) => AadColumn::One(bytes),
                OwnedAad::Each(bytes, extents) => AadColumn::Each { bytes, extents: extents.borrowed() },
            },
            tag,
            tag_len,
            direction: self.direction,
        };
        let data = match &mut self.buffers {
            OwnedBuffers::Separate(input, output) => DataBuffers::Separate(input.bytes(), output.bytes_mut()),
            OwnedBuffers::InPlace(data) => DataBuffers::InPlace(data.bytes_mut()),
            OwnedBuffers::Input(input) => DataBuffers::Input(input.bytes()),
        };
        let tags = match (tag, self.direction) {
            (TagSide::Column, Direction::Encrypt) => TagBuffer::Written(&mut self.tags),
            (TagSide::Column, Direction::Decrypt) => TagBuffer::Expected(&self.tags),
            _ => TagBuffer::None,
        };
        CheckedColumns {
            suite: self.suite,
            direction: self.direction,
            buffers: ColumnBuffers { data, tags },
            statuses: &mut self.statuses,
            keys: KeyColumn::None,
            prepared: PreparedColumn::None,
            layout,
            pending: self.pending,
            input_bytes: self.input_bytes,
        }
    }

    /// Writes outputs, tags and statuses of what ended back to the columns that were copied, which nobody has changed
    /// meanwhile. Operations that the engine did not end, or that it failed, are left as they are there; returns how
    /// many.
    pub fn write_back(&self, to: &mut CheckedColumns<'_>) -> usize {
        let (layout, here) = (to.layout, self.output_here.start);
        let own: &[u8] = match &self.buffers {
            OwnedBuffers::Separate(_, own) | OwnedBuffers::InPlace(own) => own.bytes(),
            OwnedBuffers::Input(_) => &[],
        };
        if self.is_done_whole(&layout) {
            match &mut to.buffers.data {
                DataBuffers::Separate(_, output) => output[self.output_here.clone()].copy_from_slice(own),
                DataBuffers::InPlace(data) => data[self.output_here.clone()].copy_from_slice(own),
                DataBuffers::Input(_) => {}
            }
            if let TagBuffer::Written(tags) = &mut to.buffers.tags {
                tags.copy_from_slice(&self.tags);
            }
            to.statuses.fill(ColumnStatus::DONE);
            return 0;
        }
        let mut left = 0;
        for (index, status) in self.statuses.iter().enumerate() {
            if !to.statuses[index].is_pending() {
                continue;
            }
            // An engine has no business leaving operations out.
            let ended = status.status().filter(|status| !matches!(status, OpStatus::Pending | OpStatus::EngineFault));
            let Some(ended) = ended else {
                left += 1;
                continue;
            };
            let data = layout.data(index);
            let output = if own.is_empty() { own } else { &own[data.output - here..][..data.len] };
            let tag = match layout.tag(index, data) {
                TagPlace::Output(at) => &own[at - here..][..layout.tag_len],
                TagPlace::Column(at) => &self.tags[at..at + layout.tag_len],
                TagPlace::None | TagPlace::Input(_) => &[],
            };
            to.end(index, ended, output, tag);
        }
        left
    }

    /// Whether every operation is done, and the stretch of output holds nothing but what engines write: no bytes between
    /// operations, and no IVs.
    fn is_done_whole(&self, layout: &ColumnLayout<'_>) -> bool {
        let is_dense = match layout.outputs {
            Extents::Strided { len, stride } => len == stride,
            Extents::Offsets(_) | Extents::LargeOffsets(_) => true,
            Extents::Spans(_) => false,
        };
        let is_sealed = match self.direction {
            Direction::Encrypt => matches!(self.ivs, OwnedIvs::Inline(_)),
            Direction::Decrypt => matches!(self.buffers, OwnedBuffers::InPlace(_)) && layout.input_more > 0,
        };
        let all_pending = self.pending == self.statuses.len();
        is_dense && !is_sealed && all_pending && self.statuses.iter().all(|status| status.is_done())
    }
}

impl core::fmt::Debug for OwnedColumns {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "OwnedColumns({}, {:?}, {} operations)", self.suite, self.direction, self.statuses.len())
    }
}
