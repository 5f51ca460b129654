//! The cells of a column as canonical bytes, in which its values are protected.
//!
//! Texts and byte strings are themselves; what other types become is said in `parquet::forms`.

use arrow_array::{Array, BinaryArray};
use bytes::Bytes;
use parquet::data_type::ByteArray;

use crate::column::NULL_ROW;

/// A byte string's place: one of some buffers, where in it, and how long.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) buffer: u32,
    pub(crate) start: u32,
    pub(crate) len: u32,
}

/// Byte strings in buffers.
#[derive(Default)]
pub(crate) struct Spans {
    pub(crate) buffers: Vec<Bytes>,
    pub(crate) spans: Vec<Span>,
}

impl Spans {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// One of them.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> &[u8] {
        let Span { buffer, start, len } = self.spans[index];
        &self.buffers[buffer as usize][start as usize..][..len as usize]
    }

    /// The bytes of one of them, if it is there.
    #[inline]
    pub(crate) fn len_of(&self, index: usize) -> Option<usize> {
        Some(self.spans.get(index)?.len as usize)
    }
}

/// A stretch of a column's rows.
pub(crate) struct Cells<'a> {
    values: Values<'a>,
    len: usize,
}

enum Values<'a> {
    Binary(&'a BinaryArray),
    /// Which value each row has, or [`NULL_ROW`]; the values.
    Spans(&'a [u32], &'a Spans),
    /// The same with handles.
    Handles(&'a [u32], &'a [ByteArray]),
    /// The same with values of one width, one after another.
    Fixed(&'a [u32], &'a [u8], usize),
}

impl<'a> Cells<'a> {
    /// The cells of an array.
    pub(crate) fn new(array: &'a BinaryArray) -> Cells<'a> {
        Cells { values: Values::Binary(array), len: array.len() }
    }

    /// Rows with values of any length; `slots` are within `values` or [`NULL_ROW`].
    pub(crate) fn spans(slots: &'a [u32], values: &'a Spans) -> Cells<'a> {
        Cells { values: Values::Spans(slots, values), len: slots.len() }
    }

    /// The same with handles.
    pub(crate) fn handles(slots: &'a [u32], values: &'a [ByteArray]) -> Cells<'a> {
        Cells { values: Values::Handles(slots, values), len: slots.len() }
    }

    /// Rows with values of one width; `slots` are within `values` or [`NULL_ROW`].
    pub(crate) fn fixed(slots: &'a [u32], values: &'a [u8], width: usize) -> Cells<'a> {
        Cells { values: Values::Fixed(slots, values, width), len: slots.len() }
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of all rows' values.
    pub(crate) fn byte_len(&self) -> usize {
        (0..self.len).filter(|row| !self.is_null(*row)).map(|row| self.value(row).len()).sum()
    }

    /// Whether a row is null.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self.values {
            Values::Binary(array) => array.is_null(row),
            Values::Spans(slots, _) | Values::Handles(slots, _) | Values::Fixed(slots, ..) => slots[row] == NULL_ROW,
        }
    }

    /// The bytes of a row that is not null.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> &'a [u8] {
        match self.values {
            Values::Binary(array) => array.value(row),
            Values::Spans(slots, values) => values.at(slots[row] as usize),
            Values::Handles(slots, values) => values[slots[row] as usize].data(),
            Values::Fixed(slots, bytes, width) => {
                let start = slots[row] as usize * width;
                &bytes[start..start + width]
            }
        }
    }
}
