//! The bytes of a cell: every Arrow type has one canonical form, in which its values are protected.
//!
//! Texts and byte strings are themselves. Booleans are one byte, 0 or 1. Every other type is its native value in
//! little-endian order, as it lies in an Arrow buffer, bit for bit: a NaN keeps its payload and a negative zero its sign.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, ByteViewType};
use arrow_array::{
    Array, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray,
    StringViewArray, downcast_primitive_array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;

// Cells are read from Arrow buffers as they lie there.
#[cfg(target_endian = "big")]
compile_error!("protected values are little-endian; this file needs byte swaps on a big-endian machine");

/// A column's cells as canonical bytes.
pub(crate) struct Cells<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
    /// For a dictionary: which value each row has.
    keys: Option<Vec<usize>>,
    dictionary_len: usize,
    len: usize,
}

enum Values<'a> {
    Fixed { bytes: &'a [u8], width: usize },
    Boolean(&'a BooleanArray),
    Offsets32 { bytes: &'a [u8], offsets: &'a [i32] },
    Offsets64 { bytes: &'a [u8], offsets: &'a [i64] },
    BinaryView(&'a BinaryViewArray),
    StringView(&'a StringViewArray),
}

impl<'a> Cells<'a> {
    /// The cells of `array`; nothing for types that cannot be protected.
    pub(crate) fn new(array: &'a dyn Array) -> Option<Cells<'a>> {
        if let Some(dictionary) = array.as_any_dictionary_opt() {
            let inner = dictionary.values().as_ref();
            if inner.as_any_dictionary_opt().is_some() {
                return None;
            }
            // Null rows have any key; a null value of the dictionary makes its rows null too.
            let keys = if inner.is_empty() { vec![0; array.len()] } else { dictionary.normalized_keys() };
            let cells = Cells {
                values: Values::new(inner)?,
                nulls: array.nulls(),
                keys: Some(keys),
                dictionary_len: inner.len(),
                len: array.len(),
            };
            return Some(cells.with_null_values(inner.nulls()));
        }
        let (nulls, len) = (array.nulls(), array.len());
        Some(Cells { values: Values::new(array)?, nulls, keys: None, dictionary_len: 0, len })
    }

    /// Marks rows whose dictionary value is null by a key past every value.
    fn with_null_values(mut self, nulls: Option<&NullBuffer>) -> Cells<'a> {
        if let (Some(nulls), Some(keys)) = (nulls, &mut self.keys) {
            for key in keys.iter_mut().filter(|key| **key < nulls.len() && nulls.is_null(**key)) {
                *key = usize::MAX;
            }
        }
        self
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many values a dictionary column's dictionary has; zero for other columns.
    pub(crate) fn dictionary_len(&self) -> usize {
        self.dictionary_len
    }

    /// Whether the column is a dictionary column.
    pub(crate) fn is_dictionary(&self) -> bool {
        self.keys.is_some()
    }

    /// Bytes of all values together, a dictionary's values counted for each row.
    pub(crate) fn total_len(&self) -> usize {
        (0..self.len).filter(|row| !self.is_null(*row)).map(|row| self.value(row).len()).sum()
    }

    /// Which value of the dictionary a row has; nothing for null rows and other columns.
    pub(crate) fn dictionary_key(&self, row: usize) -> Option<usize> {
        let key = *self.keys.as_ref()?.get(row)?;
        (!self.is_null(row)).then_some(key)
    }

    /// Whether a row is null.
    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
            || self.keys.as_ref().is_some_and(|keys| keys[row] == usize::MAX)
    }

    /// The bytes of a row that is not null.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> &'a [u8] {
        let index = self.keys.as_ref().map_or(row, |keys| keys[row]);
        self.values.value(index)
    }
}

impl<'a> Values<'a> {
    fn new(array: &'a dyn Array) -> Option<Values<'a>> {
        let values = downcast_primitive_array!(
            array => Values::Fixed {
                bytes: array.values().inner().as_slice(),
                width: array.data_type().primitive_width()?,
            },
            DataType::Boolean => Values::Boolean(array.as_boolean()),
            DataType::Utf8 => Values::offsets_32(array.as_string::<i32>()),
            DataType::LargeUtf8 => Values::offsets_64(array.as_string::<i64>()),
            DataType::Binary => Values::offsets_32(array.as_binary::<i32>()),
            DataType::LargeBinary => Values::offsets_64(array.as_binary::<i64>()),
            DataType::Utf8View => Values::StringView(array.as_string_view()),
            DataType::BinaryView => Values::BinaryView(array.as_binary_view()),
            DataType::FixedSizeBinary(_) => Values::fixed_size(array.as_fixed_size_binary()),
            _ => return None
        );
        Some(values)
    }

    fn offsets_32<T: ByteArrayType<Offset = i32>>(array: &'a GenericByteArray<T>) -> Values<'a> {
        Values::Offsets32 { bytes: array.value_data(), offsets: array.value_offsets() }
    }

    fn offsets_64<T: ByteArrayType<Offset = i64>>(array: &'a GenericByteArray<T>) -> Values<'a> {
        Values::Offsets64 { bytes: array.value_data(), offsets: array.value_offsets() }
    }

    fn fixed_size(array: &'a FixedSizeBinaryArray) -> Values<'a> {
        let width = usize::try_from(array.value_length()).unwrap_or(0);
        Values::Fixed { bytes: array.value_data(), width }
    }

    /// Arrow's own constructors have checked the offsets.
    #[inline]
    fn value(&self, index: usize) -> &'a [u8] {
        match self {
            Values::Fixed { bytes, width } => &bytes[index * width..(index + 1) * width],
            Values::Boolean(array) => {
                if array.value(index) {
                    &[1]
                } else {
                    &[0]
                }
            }
            Values::Offsets32 { bytes, offsets } => &bytes[offsets[index] as usize..offsets[index + 1] as usize],
            Values::Offsets64 { bytes, offsets } => &bytes[offsets[index] as usize..offsets[index + 1] as usize],
            Values::BinaryView(array) => view_value(array, index),
            Values::StringView(array) => view_value(array, index),
        }
    }
}

fn view_value<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>, index: usize) -> &[u8] {
    array.value(index).as_ref()
}
