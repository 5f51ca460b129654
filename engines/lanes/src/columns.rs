//! Columns as kernels see them: they read and write the caller's own buffers, and nothing is made of an operation but its item.

use core::ops::Range;

use ciphermill_contract::OpStatus;
use ciphermill_contract::columns::{
    ColumnLayout, ColumnStatus, DataBuffers, Extents, IvPlace, PartBuffer, PartLayout, SpanSide, Steps, TagBuffer,
};
use ciphermill_contract::limits::IV_LEN_MAX;

use crate::processor::{For, prefetch};

/// How far ahead of an operation's data the cache is asked for a line, in bytes: the processor hardly sees a stream in what is
/// read and written in pieces of vectors.
const AHEAD: usize = 1024;

/// Fetches what lies [`AHEAD`] of an operation's data into the cache.
#[inline(always)]
fn ahead(input: *const u8, output: *mut u8) {
    prefetch(output.wrapping_add(AHEAD), For::Writing);
    prefetch(input.wrapping_add(AHEAD), For::Reading);
}

/// The first bytes of the caller's buffers.
pub(crate) struct Pointers {
    input: *const u8,
    output: *mut u8,
    tags: *mut u8,
}

impl Pointers {
    /// Of checked columns.
    pub(crate) fn of(data: &mut DataBuffers<'_>, tags: &mut TagBuffer<'_>) -> Pointers {
        let (input, output) = match data {
            DataBuffers::Separate(input, output) => (input.as_ptr(), output.as_mut_ptr()),
            DataBuffers::InPlace(data) => {
                let data = data.as_mut_ptr();
                (data.cast_const(), data)
            }
            DataBuffers::Input(input) => (input.as_ptr(), core::ptr::dangling_mut()),
        };
        let tags = match tags {
            TagBuffer::None => core::ptr::dangling_mut(),
            TagBuffer::Written(tags) => tags.as_mut_ptr(),
            // Only read: kernels write tags when encrypting.
            TagBuffer::Expected(tags) => tags.as_ptr().cast_mut(),
        };
        Pointers { input, output, tags }
    }
}

/// The same bytes, or none in memory that there is: kernels read additional data with masks, and where nothing is mapped a load that takes
/// nothing costs a hundred nanoseconds.
#[inline(always)]
fn somewhere(bytes: &[u8]) -> &[u8] {
    static NOTHING: [u8; 1] = [0];
    if bytes.is_empty() { &NOTHING[..0] } else { bytes }
}

/// Columns, or a stretch of them, as one lookup for each part of an operation. Indices are below the number of operations, and
/// of those that are pending the check has found every part within its buffer.
pub(crate) struct Columns<'a> {
    layout: ColumnLayout<'a>,
    statuses: &'a mut [ColumnStatus],
    /// The first operation of the stretch, whose index is 0 here.
    first: usize,
    input: Part,
    output: Part,
    lens: Lens,
    tag: Part,
    tag_len: usize,
    /// `None` when they are counted.
    iv: Option<Part>,
    iv_len: usize,
    shared_aad: Option<&'a [u8]>,
    /// Where the additional data of the first operation lie, pending or not.
    first_aad: *const u8,
}

/// Where one part of each operation lies: so many bytes behind a place. One formula for all kinds of offsets and for strides,
/// since kernels have it inlined beside the way of ops: a choice for each of several parts would cost both.
#[derive(Clone, Copy)]
struct Part {
    from: *const u8,
    /// The first operation's offset, and bytes from one to the next: none where there is a stride.
    offsets: *const u8,
    step: usize,
    /// Whether offsets have 64 bits.
    is_wide: bool,
    stride: usize,
}

/// Bytes of data of each operation: those between two offsets of which the low 32 bits are enough, and so many more.
#[derive(Clone, Copy)]
struct Lens {
    offsets: *const u8,
    step: usize,
    /// From an operation's first offset to its second.
    to_end: usize,
    more: u32,
}

/// Where the low half of a 64-bit offset lies.
const LOW_HALF: usize = if cfg!(target_endian = "big") { 4 } else { 0 };

/// Stands in for offsets where there are none.
static NO_OFFSET: u32 = 0;

impl Part {
    const NONE: Part =
        Part { from: core::ptr::null(), offsets: (&raw const NO_OFFSET).cast(), step: 0, is_wide: false, stride: 0 };

    fn new(pointers: &Pointers, part: &PartLayout<'_>) -> Part {
        let from = match part.buffer {
            PartBuffer::Input => pointers.input,
            PartBuffer::Output => pointers.output.cast_const(),
            PartBuffer::Tags => pointers.tags.cast_const(),
            PartBuffer::Column(bytes) => bytes.as_ptr(),
        };
        let from = from.wrapping_offset(part.offset);
        match part.steps {
            Steps::Offsets(offsets) => Part { from, offsets: offsets.as_ptr().cast(), step: 4, ..Part::NONE },
            Steps::LargeOffsets(offsets) => {
                Part { from, offsets: offsets.as_ptr().cast(), step: 8, is_wide: true, ..Part::NONE }
            }
            Steps::Stride(stride) => Part { from, stride, ..Part::NONE },
            Steps::Spans(spans, side) => {
                let offsets = spans.as_ptr().cast::<u8>().wrapping_add(if side == SpanSide::End { 4 } else { 0 });
                Part { from, offsets, step: 8, ..Part::NONE }
            }
        }
    }

    /// The same where offsets are known to have 32 bits.
    #[inline(always)]
    fn narrow(self) -> Part {
        Part { step: 4, is_wide: false, stride: 0, ..self }
    }

    /// The same where they are known to have 64.
    #[inline(always)]
    fn wide(self) -> Part {
        Part { step: 8, is_wide: true, stride: 0, ..self }
    }

    /// # Safety
    /// The index is that of an operation of the columns.
    #[inline(always)]
    unsafe fn of(self, index: usize) -> *const u8 {
        let place = self.offsets.wrapping_add(index * self.step);
        // SAFETY: the caller's promise: there are at least as many offsets as operations. Checked ones are not negative.
        let offset = unsafe {
            match self.is_wide {
                true => place.cast::<u64>().read() as usize,
                false => place.cast::<u32>().read() as usize,
            }
        };
        self.from.wrapping_add(offset).wrapping_add(index.wrapping_mul(self.stride))
    }
}

impl Lens {
    fn new(layout: &ColumnLayout<'_>) -> Lens {
        // IVs and tags are short, and checked data have fewer bytes than 2^32.
        let less = layout.input_more() as u32;
        let more = 0u32.wrapping_sub(less);
        match layout.input_lens() {
            Extents::Offsets(offsets) => Lens { offsets: offsets.as_ptr().cast(), step: 4, to_end: 4, more },
            Extents::LargeOffsets(offsets) => {
                Lens { offsets: offsets.as_ptr().cast::<u8>().wrapping_add(LOW_HALF), step: 8, to_end: 8, more }
            }
            Extents::Strided { len, .. } => {
                Lens { offsets: Part::NONE.offsets, step: 0, to_end: 0, more: (len as u32).wrapping_sub(less) }
            }
            Extents::Spans(spans) => Lens { offsets: spans.as_ptr().cast(), step: 8, to_end: 4, more },
        }
    }

    /// # Safety
    /// The index is that of a pending operation of the columns.
    #[inline(always)]
    unsafe fn of(self, index: usize) -> u32 {
        let start = self.offsets.wrapping_add(index * self.step);
        // SAFETY: the caller's promise: there is one offset more than operations.
        let (start, end) =
            unsafe { (start.cast::<u32>().read(), start.wrapping_add(self.to_end).cast::<u32>().read()) };
        end.wrapping_sub(start).wrapping_add(self.more)
    }
}

impl<'a> Columns<'a> {
    /// The operations from `first` on whose statuses these are; there is one at least.
    pub(crate) fn new(
        layout: ColumnLayout<'a>,
        pointers: &Pointers,
        statuses: &'a mut [ColumnStatus],
        first: usize,
    ) -> Columns<'a> {
        let part = |part: PartLayout<'_>| Part::new(pointers, &part);
        Columns {
            input: part(layout.input_part()),
            output: part(layout.output_part()),
            lens: Lens::new(&layout),
            tag: layout.tag_part().map_or(Part::NONE, part),
            tag_len: layout.tag_len(),
            iv: if layout.iv_len() == 0 { Some(Part::NONE) } else { layout.iv_part().map(part) },
            iv_len: layout.iv_len(),
            shared_aad: layout.shared_aad().map(somewhere),
            first_aad: layout.aad(first).as_ptr(),
            layout,
            statuses,
            first,
        }
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.statuses.len()
    }

    #[inline(always)]
    pub(crate) fn is_pending(&self, index: usize) -> bool {
        self.statuses[index].is_pending()
    }

    /// Gives an operation its status.
    #[inline(always)]
    pub(crate) fn end(&mut self, index: usize, status: OpStatus) {
        self.statuses[index] = status.into();
    }

    /// Ends operations well.
    #[inline(always)]
    pub(crate) fn done(&mut self, indices: Range<usize>) {
        self.statuses[indices].fill(ColumnStatus::DONE);
    }

    /// Calls `take` with the data of pending operations, as [`Columns::data`] gives them.
    #[inline(always)]
    pub(crate) fn each_data(&self, indices: Range<usize>, mut take: impl FnMut(*const u8, *mut u8, u32)) {
        let mut all = |input: Part, output: Part, lens: Lens| {
            for index in self.first + indices.start..self.first + indices.end {
                // SAFETY: operations of these columns.
                let (input, output, len) = unsafe { (input.of(index), output.of(index).cast_mut(), lens.of(index)) };
                ahead(input, output);
                take(input, output, len);
            }
        };
        assert!(indices.end <= self.len(), "operations of these columns");
        let (input, output, lens) = (self.input, self.output, self.lens);
        // A loop for the usual kinds of offsets, which is compiled for them.
        match (input.step, output.step, lens.step) {
            (4, 4, 4) => all(input.narrow(), output.narrow(), Lens { step: 4, to_end: 4, ..lens }),
            (8, 8, 8) if lens.to_end == 8 && input.is_wide && output.is_wide => {
                all(input.wide(), output.wide(), Lens { step: 8, to_end: 8, ..lens });
            }
            _ => all(input, output, lens),
        }
    }

    /// Where the data of a pending operation are read and written, and their bytes.
    #[inline(always)]
    pub(crate) fn data(&self, index: usize) -> (*const u8, *mut u8, u32) {
        let index = self.index(index);
        // SAFETY: one of the operations.
        let (input, output, len) =
            unsafe { (self.input.of(index), self.output.of(index).cast_mut(), self.lens.of(index)) };
        ahead(input, output);
        (input, output, len)
    }

    /// The bytes of data of a pending operation.
    #[inline(always)]
    pub(crate) fn data_len(&self, index: usize) -> u32 {
        // SAFETY: one of the operations.
        unsafe { self.lens.of(self.index(index)) }
    }

    /// The fewest and the most bytes of data that an operation has; all are pending.
    pub(crate) fn data_len_bounds(&self) -> (u32, u32) {
        let all = self.first..self.first + self.len();
        let of = |step| {
            let lens = Lens { step, to_end: step, ..self.lens };
            // SAFETY: the indices of operations.
            bounds(all.clone(), |index| unsafe { lens.of(index) })
        };
        // A loop for each kind of offsets, which becomes vectors.
        match (self.lens.step, self.lens.to_end) {
            (4, 4) => of(4),
            (8, 8) => of(8),
            // SAFETY: as above.
            _ => bounds(all.clone(), |index| unsafe { self.lens.of(index) }),
        }
    }

    /// First byte of the tag of a pending operation; one that is verified is only read.
    #[inline(always)]
    pub(crate) fn tag(&self, index: usize) -> *mut u8 {
        // SAFETY: one of the operations.
        unsafe { self.tag.of(self.index(index)).cast_mut() }
    }

    #[inline(always)]
    pub(crate) fn tag_len(&self) -> usize {
        self.tag_len
    }

    /// The IV of a pending operation as a little-endian number, and anything behind it.
    #[inline(always)]
    pub(crate) fn iv_number(&self, index: usize) -> u128 {
        let (Some(iv), 12 | 16) = (self.iv, self.iv_len) else { return self.unusual_iv(index) };
        // SAFETY: one of the operations, and the IV's own bytes.
        unsafe {
            let from = iv.of(self.index(index));
            let low = u128::from(u64::from_le(from.cast::<u64>().read_unaligned()));
            match self.iv_len {
                12 => low | u128::from(u32::from_le(from.add(8).cast::<u32>().read_unaligned())) << 64,
                _ => low | u128::from(u64::from_le(from.add(8).cast::<u64>().read_unaligned())) << 64,
            }
        }
    }

    /// The same for IVs that are counted, or of other lengths.
    #[inline(never)]
    fn unusual_iv(&self, index: usize) -> u128 {
        let Some(iv) = self.iv else { return u128::from_le_bytes(self.counted_iv(index)) };
        let mut block = [0; IV_LEN_MAX];
        let len = self.iv_len.min(IV_LEN_MAX);
        // SAFETY: one of the operations, and the IV's own bytes; no suite has longer ones than there is room for.
        unsafe { core::ptr::copy_nonoverlapping(iv.of(self.index(index)), block.as_mut_ptr(), len) };
        u128::from_le_bytes(block)
    }

    /// The same where IVs are counted from the first one.
    fn counted_iv(&self, index: usize) -> [u8; IV_LEN_MAX] {
        match self.layout.iv(self.index(index)) {
            IvPlace::Value(iv) => iv,
            _ => [0; IV_LEN_MAX],
        }
    }

    #[inline(always)]
    pub(crate) fn iv_len(&self) -> usize {
        self.iv_len
    }

    #[inline(always)]
    pub(crate) fn aad(&self, index: usize) -> &'a [u8] {
        match self.shared_aad {
            Some(aad) => aad,
            None => self.own_aad(index),
        }
    }

    #[inline(never)]
    fn own_aad(&self, index: usize) -> &'a [u8] {
        somewhere(self.layout.aad(self.index(index)))
    }

    /// A number that tells one place and length of additional data from another; the low 16 bits are the length.
    #[inline(always)]
    pub(crate) fn aad_name(&self, index: usize) -> u64 {
        let aad = self.aad(index);
        // Counted from the first one, no buffer in memory reaches further than 48 bits.
        let place = aad.as_ptr().addr().wrapping_sub(self.first_aad.addr()) as u64;
        place << 16 | aad.len() as u64
    }

    /// The index of an operation among all columns.
    #[inline(always)]
    fn index(&self, index: usize) -> usize {
        assert!(index < self.statuses.len(), "an operation's index");
        self.first + index
    }
}

/// The least and the greatest of some numbers.
#[inline(always)]
fn bounds(indices: Range<usize>, number: impl Fn(usize) -> u32) -> (u32, u32) {
    indices.map(number).fold((u32::MAX, 0), |(least, most), number| (least.min(number), most.max(number)))
}
