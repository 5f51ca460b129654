//! Where the data of columns lie: the caller's buffers, and an operation's place in them.

use ciphermill_contract::columns::{ColumnLayout, DataBuffers, DataPlace, TagBuffer};

/// The first bytes of the caller's buffers.
#[derive(Clone, Copy)]
pub(crate) struct Pointers {
    pub(crate) input: *const u8,
    pub(crate) output: *mut u8,
    pub(crate) tags: *mut u8,
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

/// Where the data of operations lie, in one kind of extents.
pub(crate) trait Rows {
    /// The data of the pending operation at `index`.
    fn data(&self, index: usize) -> DataPlace;
}

/// Input and output by offsets.
pub(crate) struct ByOffsets<'r, O> {
    pub(crate) layout: &'r ColumnLayout<'r>,
    pub(crate) inputs: &'r [O],
    pub(crate) outputs: &'r [O],
}

impl Rows for ByOffsets<'_, i32> {
    #[inline(always)]
    fn data(&self, index: usize) -> DataPlace {
        let input = (self.inputs[index] as usize, self.inputs[index + 1] as usize);
        self.layout.data_within(input, self.outputs[index] as usize)
    }
}

impl Rows for ByOffsets<'_, i64> {
    #[inline(always)]
    fn data(&self, index: usize) -> DataPlace {
        let input = (self.inputs[index] as usize, self.inputs[index + 1] as usize);
        self.layout.data_within(input, self.outputs[index] as usize)
    }
}

impl Rows for &ColumnLayout<'_> {
    #[inline(always)]
    fn data(&self, index: usize) -> DataPlace {
        ColumnLayout::data(self, index)
    }
}

/// Runs `$work` with the rows of a layout as `$rows`, compiled for the usual kinds of extents.
macro_rules! with_rows {
    ($layout:expr, |$rows:ident| $work:expr) => {
        match $layout.extents() {
            (Extents::Offsets(inputs), Extents::Offsets(outputs)) => {
                let $rows = &$crate::rows::ByOffsets { layout: $layout, inputs, outputs };
                $work
            }
            (Extents::LargeOffsets(inputs), Extents::LargeOffsets(outputs)) => {
                let $rows = &$crate::rows::ByOffsets { layout: $layout, inputs, outputs };
                $work
            }
            _ => {
                let $rows = &$layout;
                $work
            }
        }
    };
}
pub(crate) use with_rows;
