//! A share of columns: where everything lies in the staging buffer and on the device, as `kernels/columns` reads it.

use core::ops::Range;
use std::sync::Arc;

use ciphermill_contract::columns::{DataBuffers, Extents, IvPlace, PartBuffer, Steps, TagBuffer};
use ciphermill_contract::{CheckedColumns, ColumnStatus};

use super::plan::{ColumnPlan, IvSource, Keys, TagSide, buffers};
use crate::arena::Arenas;
use crate::device::{DirectCopies, GROUP, Launch};
use crate::pack::{HEAD_WORDS, Head, put};
use crate::pipeline::{Cargo, DIRECT_LEN_MIN};

/// Words of the second head; must agree with `kernels/columns`.
const COLUMNS_HEAD_WORDS: usize = 40;
const IV_COUNTER: usize = 32;

/// Additional data are padded to multiples of as many bytes on the device.
const AAD_GRAIN: usize = 16;

/// Kernels read whole words, and the one behind.
const SLACK: usize = 32;

/// Columns on their way.
pub(super) struct Columns<'c, 'b> {
    columns: &'c mut CheckedColumns<'b>,
    plan: &'c ColumnPlan,
}

/// Places in the staging buffer and on the device, in bytes; what is not there has the place 0.
#[derive(Debug, Default)]
pub(super) struct Places {
    input_offsets: usize,
    output_offsets: usize,
    aad_offsets: usize,
    left_out: usize,
    keys: usize,
    ivs: usize,
    aads: usize,
    /// The column of expected tags, or that of new ones.
    tags: usize,
    input: usize,
    output: usize,
    statuses: usize,
    /// What the kernel of the suite works on; the host never sees it.
    index: usize,
    spread_ivs: usize,
    spread_aads: usize,
    spread_tags: usize,
    spread_data: usize,
    /// Stretches of the caller's buffers.
    input_here: Range<usize>,
    output_here: Range<usize>,
    aad_here: Range<usize>,
    is_input_direct: bool,
    is_output_direct: bool,
    /// The end of what is copied in, and of the staging buffer.
    input_end: usize,
    staging_len: usize,
}

/// Gives out places, one behind the other.
struct Taken(usize);

impl Taken {
    fn take(&mut self, len: usize) -> usize {
        let at = self.0.next_multiple_of(4);
        self.0 = at + len;
        at
    }

    fn take_if(&mut self, wanted: bool, len: usize) -> usize {
        if wanted { self.take(len) } else { 0 }
    }
}

impl<'c, 'b> Columns<'c, 'b> {
    pub(super) fn new(columns: &'c mut CheckedColumns<'b>, plan: &'c ColumnPlan) -> Columns<'c, 'b> {
        Columns { columns, plan }
    }

    fn input_stretch(&self, range: &Range<usize>) -> Range<usize> {
        let layout = self.columns.layout();
        layout.input_extent(range.start).start..layout.input_extent(range.end - 1).end
    }

    fn output_stretch(&self, range: &Range<usize>) -> Range<usize> {
        let layout = self.columns.layout();
        match self.plan.suite.transforms {
            true => layout.output_extent(range.start).start..layout.output_extent(range.end - 1).end,
            false => 0..0,
        }
    }

    /// What operations have of additional data of their own.
    fn aad_stretch(&self, range: &Range<usize>) -> Range<usize> {
        let own = self.columns.layout().own_aad();
        own.map_or(0..0, |(_, extents)| extents.at(range.start).0..extents.at(range.end - 1).1)
    }

    /// Whether nothing lies between the outputs that is the caller's, so that they come back in one piece.
    fn is_output_whole(&self, range: &Range<usize>) -> bool {
        let dense = match self.columns.layout().output_lens() {
            Extents::Strided { len, stride } => len == stride || range.len() == 1,
            Extents::Offsets(_) | Extents::LargeOffsets(_) => true,
            Extents::Spans(_) => false,
        };
        self.plan.in_place || dense && !self.plan.has_left_out
    }

    /// Whether the host makes a column of IVs that lie in the output.
    fn gathers_ivs(&self) -> bool {
        self.plan.ivs == IvSource::Column
            && self.columns.layout().iv_part().is_some_and(|part| part.buffer == PartBuffer::Output)
    }

    fn places(&self, range: &Range<usize>, copies: &mut DirectCopies) -> Places {
        let (layout, plan, count) = (self.columns.layout(), self.plan, range.len());
        let (input, output) = (self.input_stretch(range), self.output_stretch(range));
        let aad = self.aad_stretch(range);
        let own_output = plan.suite.transforms && !plan.in_place;
        let tag_column = if plan.tags == TagSide::Column { layout.tag_len() * count } else { 0 };
        let offsets = |extents: Option<Extents<'_>>, len: usize| match extents {
            None | Some(Extents::Strided { .. }) => (false, 0),
            Some(_) => (true, 4 * len),
        };
        let mut places = Places { is_input_direct: copies.input.is_some(), ..Places::default() };
        places.is_output_direct = copies.output.is_some();
        let mut taken = Taken(4 * (HEAD_WORDS + COLUMNS_HEAD_WORDS));
        let mut take_offsets = |(wanted, len): (bool, usize)| taken.take_if(wanted, len);
        places.input_offsets = take_offsets(offsets(Some(layout.input_lens()), count + 1));
        places.output_offsets = take_offsets(offsets(own_output.then(|| layout.output_lens()), count));
        places.aad_offsets = take_offsets(offsets(layout.own_aad().map(|(_, extents)| extents), count + 1));
        places.left_out = taken.take_if(plan.has_left_out, count);
        places.keys = taken.take_if(matches!(plan.keys, Keys::Each(_)), 4 * count);
        places.ivs = taken.take_if(plan.ivs == IvSource::Column, layout.iv_len() * count);
        let aad_len = layout.shared_aad().map_or(aad.len(), <[u8]>::len);
        places.aads = taken.take(aad_len.next_multiple_of(AAD_GRAIN));
        places.tags = taken.take_if(plan.opens, tag_column);
        places.input = taken.take_if(!places.is_input_direct, input.len());
        places.input_end = taken.0;
        if plan.in_place {
            places.output = places.input;
        } else {
            places.output = taken.take_if(own_output && !places.is_output_direct, output.len());
        }
        if !plan.opens {
            places.tags = taken.take_if(tag_column > 0, tag_column);
        }
        places.statuses = taken.take_if(plan.opens, count);
        places.staging_len = taken.0;
        if let Some(copy) = &mut copies.input {
            places.input = taken.take(input.len());
            copy.at = places.input;
        }
        if let Some(copy) = &mut copies.output {
            places.output = if plan.in_place { places.input } else { taken.take(output.len()) };
            copy.at = places.output;
        }
        (places.input_here, places.output_here) = (input, output);
        places.aad_here = aad;
        self.place_messages(range, &mut places, &mut taken);
        places.spread_data = taken.0;
        places
    }

    /// What the device makes of the columns for the suite's kernel. Messages begin where their data do, rounded down, and one
    /// grain behind that for each before, so that there is room for all of them.
    fn place_messages(&self, range: &Range<usize>, places: &mut Places, taken: &mut Taken) {
        let (plan, count) = (&self.plan.suite, range.len());
        places.index = taken.take(16 * count);
        if !matches!(self.plan.keys, Keys::Each(_)) {
            places.keys = taken.take_if(matches!(self.plan.keys, Keys::One(_)), 4 * count);
        }
        places.spread_ivs = taken.take(plan.iv_room() * count);
        places.spread_aads = places.aads;
        if self.columns.layout().own_aad().is_some() {
            places.spread_aads = taken.take(spread_len(places.aad_here.len(), AAD_GRAIN, count));
        }
        places.spread_tags = taken.take(plan.tag_len * count);
        taken.0 = taken.0.next_multiple_of(16);
    }

    /// The words of the second head, in the order of `kernels/columns`.
    fn head(&self, range: &Range<usize>, places: &Places) -> [usize; 31] {
        let (layout, plan, first) = (self.columns.layout(), self.plan, range.start);
        let input = layout.input_part();
        let (input_stride, input_len) = match layout.input_lens() {
            Extents::Strided { len, stride } => (stride, len.wrapping_sub(layout.input_more())),
            _ => (0, 0),
        };
        let origin = |place: usize, here: &Range<usize>, offset: isize, stride: usize| {
            (place.wrapping_sub(here.start)).wrapping_add_signed(offset).wrapping_add(first.wrapping_mul(stride))
        };
        let input_origin = origin(places.input, &places.input_here, input.offset, input_stride);
        let output = layout.output_part();
        let output_stride = match output.steps {
            Steps::Stride(stride) => stride,
            _ => 0,
        };
        let (output_offsets, output_stride, output_origin) = match plan.in_place {
            true => (places.input_offsets, input_stride, input_origin),
            false => {
                let origin = origin(places.output, &places.output_here, output.offset, output_stride);
                (places.output_offsets, output_stride, origin)
            }
        };
        let (iv_len, head_len) = (layout.iv_len(), layout.sealed_head());
        let (iv_shift, iv_last) = plan.iv_frame(iv_len);
        let iv_origin = if plan.ivs == IvSource::Inline { input_origin.wrapping_sub(head_len) } else { places.ivs };
        let (aad_stride, aad_len) = match layout.own_aad() {
            Some((_, Extents::Strided { len, stride })) => (stride, len),
            _ => (0, 0),
        };
        [
            places.input_offsets / 4,
            input_stride,
            input_len,
            layout.input_more(),
            input_origin,
            output_offsets / 4,
            output_stride,
            output_origin,
            first_offset(layout.input_lens(), first),
            plan.suite.grain,
            match plan.keys {
                Keys::One(word) => word as usize,
                _ => u32::MAX as usize,
            },
            plan.ivs as usize,
            iv_len,
            iv_origin,
            iv_shift,
            iv_last as usize,
            plan.suite.parts.place_words(),
            if self.gathers_ivs() { head_len } else { 0 },
            places.aad_offsets / 4,
            aad_stride,
            aad_len,
            // The strides before the first operation lie before the stretch.
            places.aads.wrapping_sub(first_offset_of(layout.own_aad().map(|(_, extents)| extents), first)),
            first_offset_of(layout.own_aad().map(|(_, extents)| extents), first),
            usize::from(layout.own_aad().is_some()),
            plan.tags as usize,
            layout.tag_len(),
            places.tags,
            usize::from(plan.opens),
            places.statuses,
            usize::from(plan.suite.transforms),
            places.left_out,
        ]
    }
}

/// Bytes that stretches of `len` bytes take with every message padded.
fn spread_len(len: usize, grain: usize, count: usize) -> usize {
    len + grain * (count + 1)
}

/// The offset that an operation's number has on the device when it is the first one; strides are counted from there.
fn first_offset(extents: Extents<'_>, first: usize) -> usize {
    match extents {
        Extents::Strided { .. } => 0,
        offsets => offsets.at(first).0,
    }
}

fn first_offset_of(extents: Option<Extents<'_>>, first: usize) -> usize {
    extents.map_or(0, |extents| first_offset(extents, first))
}

impl Cargo for Columns<'_, '_> {
    type Layout = Places;

    fn extent(&self) -> (usize, usize) {
        // Checked: what is in memory has fewer bytes than a `usize` counts.
        (self.columns.len(), self.columns.input_bytes() as usize)
    }

    /// By what the stretches of input and output take, and what comes with each operation.
    fn end_of_share(&self, from: usize, len_max: usize) -> usize {
        let around = 24 + self.plan.suite.iv_room() + self.plan.suite.tag_len;
        let len_to = |end: usize| {
            let range = from..end;
            let stretches = self.input_stretch(&range).len() + self.output_stretch(&range).len();
            // Additional data go there and are padded there.
            stretches + 2 * self.aad_stretch(&range).len() + around * range.len()
        };
        let (mut fits, mut past) = (from + 1, self.columns.len() + 1);
        while past - fits > 1 {
            let middle = usize::midpoint(fits, past);
            if len_to(middle) <= len_max { fits = middle } else { past = middle }
        }
        fits
    }

    fn lay_out(&self, range: Range<usize>, arenas: &Arc<Arenas>) -> (Places, Launch, DirectCopies) {
        let (input, output) = buffers(self.columns.data());
        let direct = |bytes: &[u8], here: Range<usize>| {
            (here.len() >= DIRECT_LEN_MIN).then(|| arenas.direct(&bytes[here])).flatten()
        };
        let mut copies = DirectCopies { input: direct(input, self.input_stretch(&range)), output: None };
        if self.plan.suite.transforms && self.is_output_whole(&range) {
            copies.output = match output {
                Some(output) => direct(output, self.output_stretch(&range)),
                None => direct(input, self.input_stretch(&range)),
            };
        }
        let places = self.places(&range, &mut copies);
        let (plan, count) = (&self.plan.suite, range.len());
        let is_back_in_input = self.plan.in_place && !places.is_output_direct;
        let output_at = if is_back_in_input { places.input } else { places.input_end };
        let launch = Launch {
            program: plan.program,
            kernel: plan.kernel,
            groups: count.div_ceil(plan.per_item * GROUP),
            input_len: places.input_end,
            output: output_at.min(places.staging_len)..places.staging_len,
            memory_len: places.spread_data + spread_len(places.input_here.len(), plan.grain, count) + SLACK,
            column_groups: Some(count.div_ceil(GROUP)),
        };
        (places, launch, copies)
    }

    fn lens(&self, _range: Range<usize>, places: &Places) -> (usize, usize) {
        (places.staging_len, self.plan.longest)
    }

    fn pack(&self, range: Range<usize>, places: &Places, staging: &mut [u8]) {
        let (layout, plan) = (self.columns.layout(), self.plan);
        let head = Head {
            count: range.len(),
            index_at: places.index,
            keys_at: places.keys,
            ivs_at: places.spread_ivs,
            data_at: places.spread_data,
            tags_at: places.spread_tags,
            aads_at: places.spread_aads,
            aad_len: layout.shared_aad().map_or(0, <[u8]>::len),
            ..Head::default()
        };
        head.put(&plan.suite, staging);
        let own = &mut staging[4 * HEAD_WORDS..][..4 * COLUMNS_HEAD_WORDS];
        own.fill(0);
        self.head(&range, places).into_iter().enumerate().for_each(|(at, word)| put(own, 4 * at, word));
        if let (IvSource::Counted, IvPlace::Value(first)) = (plan.ivs, layout.iv(range.start)) {
            own[4 * IV_COUNTER..][..first.len()].copy_from_slice(&first);
        }
        if places.input_offsets > 0 {
            put_offsets(&mut staging[places.input_offsets..], layout.input_lens(), range.start..range.end + 1);
        }
        if places.output_offsets > 0 {
            put_offsets(&mut staging[places.output_offsets..], layout.output_lens(), range.clone());
        }
        if let (true, Some((_, extents))) = (places.aad_offsets > 0, layout.own_aad()) {
            put_offsets(&mut staging[places.aad_offsets..], extents, range.start..range.end + 1);
        }
        if places.left_out > 0 {
            let statuses = &self.columns.statuses()[range.clone()];
            staging[places.left_out..].iter_mut().zip(statuses).for_each(|(to, status)| *to = status.byte());
        }
        if let Keys::Each(words) = &plan.keys {
            let places = staging[places.keys..].chunks_exact_mut(4).zip(&words[range.clone()]);
            places.for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        }
        self.pack_bytes(&range, places, staging);
    }

    fn unpack(&mut self, range: Range<usize>, places: &Places, staging: &[u8]) {
        let (layout, plan, is_whole) = (self.columns.layout(), self.plan, self.is_output_whole(&range));
        let tag_len = layout.tag_len();
        let (buffers, statuses) = self.columns.parts();
        let statuses = &mut statuses[range.clone()];
        let back = staging.get(places.output..).unwrap_or_default();
        match &mut buffers.data {
            _ if places.is_output_direct => {}
            DataBuffers::InPlace(data) => {
                data[places.output_here.clone()].copy_from_slice(&back[..places.output_here.len()]);
            }
            DataBuffers::Separate(_, output) if is_whole => {
                output[places.output_here.clone()].copy_from_slice(&back[..places.output_here.len()]);
            }
            DataBuffers::Separate(_, output) => {
                let pending = range.clone().zip(&*statuses).filter(|(_, status)| status.is_pending());
                for extent in pending.map(|(index, _)| layout.output_extent(index)) {
                    let from = extent.start - places.output_here.start;
                    output[extent.clone()].copy_from_slice(&back[from..from + extent.len()]);
                }
            }
            DataBuffers::Input(_) => {}
        }
        if let TagBuffer::Written(tags) = &mut buffers.tags {
            let rows = tags[tag_len * range.start..].chunks_exact_mut(tag_len).zip(statuses.iter());
            for ((to, status), from) in rows.zip(staging[places.tags..].chunks_exact(tag_len)) {
                if status.is_pending() {
                    to.copy_from_slice(from);
                }
            }
        }
        let outcomes = plan.opens.then(|| &staging[places.statuses..]);
        for (index, status) in statuses.iter_mut().enumerate().filter(|(_, status)| status.is_pending()) {
            *status = match outcomes.map(|outcomes| outcomes[index]) {
                None => ColumnStatus::DONE,
                Some(own) if own == ColumnStatus::DONE.byte() => ColumnStatus::DONE,
                Some(own) if own == ColumnStatus::AUTH_FAILED.byte() => ColumnStatus::AUTH_FAILED,
                Some(_) => ColumnStatus::ENGINE_FAULT,
            };
        }
    }
}

impl Columns<'_, '_> {
    /// IVs, additional data, expected tags and inputs, as far as they go through the staging buffer.
    fn pack_bytes(&self, range: &Range<usize>, places: &Places, staging: &mut [u8]) {
        let (layout, plan) = (self.columns.layout(), self.plan);
        let iv_len = layout.iv_len();
        let own = |at: usize, len: usize| at * len..(at + range.len()) * len;
        let (input, output) = buffers(self.columns.data());
        match layout.iv_part().map(|part| part.buffer) {
            Some(PartBuffer::Column(bytes)) if plan.ivs == IvSource::Column => {
                put_bytes(staging, places.ivs, &bytes[own(range.start, iv_len)]);
            }
            Some(PartBuffer::Output) if plan.ivs == IvSource::Column => {
                for (index, to) in range.clone().zip(staging[places.ivs..].chunks_exact_mut(iv_len)) {
                    let at = layout.output_extent(index).start;
                    match output.and_then(|output| output.get(at..at + iv_len)) {
                        Some(iv) => to.copy_from_slice(iv),
                        // Left out, and shorter than an IV at the end of the buffer.
                        None => to.fill(0),
                    }
                }
            }
            _ => {}
        }
        match (layout.own_aad(), layout.shared_aad()) {
            (Some((bytes, _)), _) => put_bytes(staging, places.aads, &bytes[places.aad_here.clone()]),
            (None, aad) => {
                let aad = aad.unwrap_or_default();
                put_bytes(staging, places.aads, aad);
                let padding = aad.len().next_multiple_of(AAD_GRAIN) - aad.len();
                staging[places.aads + aad.len()..][..padding].fill(0);
            }
        }
        if let Some(expected) = self.columns.expected_tags() {
            put_bytes(staging, places.tags, &expected[own(range.start, layout.tag_len())]);
        }
        if !places.is_input_direct {
            put_bytes(staging, places.input, &input[places.input_here.clone()]);
        }
    }
}

fn put_bytes(staging: &mut [u8], at: usize, bytes: &[u8]) {
    staging[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes offsets as 32 bits each: of those with 64 the device needs no more, since places wrap.
fn put_offsets(staging: &mut [u8], extents: Extents<'_>, range: Range<usize>) {
    let words = staging.chunks_exact_mut(4);
    match extents {
        Extents::Offsets(offsets) => {
            words.zip(&offsets[range]).for_each(|(to, offset)| to.copy_from_slice(&offset.to_le_bytes()));
        }
        Extents::LargeOffsets(offsets) => {
            words.zip(&offsets[range]).for_each(|(to, offset)| to.copy_from_slice(&(*offset as u32).to_le_bytes()));
        }
        Extents::Strided { .. } | Extents::Spans(_) => {}
    }
}
