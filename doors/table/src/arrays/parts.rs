//! Arrays taken apart into canonical bytes, and put together again.

use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, StringViewArray, make_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use crate::error::{Place, Result, TableError};
use crate::types::width_of;

/// The values of a dictionary, and what makes a dictionary with others of them.
pub(super) fn dictionary(array: &ArrayRef) -> (ArrayRef, impl Fn(ArrayRef) -> ArrayRef) {
    let dictionary = array.as_any_dictionary();
    (Arc::clone(dictionary.values()), move |values| dictionary.with_values(values))
}

/// The first row of a dictionary that has the value at `index`.
pub(super) fn row_with(array: &ArrayRef, index: u64) -> Option<usize> {
    let dictionary = array.as_any_dictionary();
    let keys = dictionary.normalized_keys();
    (0..array.len()).find(|row| !array.is_null(*row) && keys[*row] as u64 == index)
}

/// A dictionary as an array of its values.
///
/// # Errors
/// Arrow's, for keys that are past the values.
pub(super) fn unpacked(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let dictionary = array.as_any_dictionary();
    arrow_select::take::take(dictionary.values(), dictionary.keys(), None)
}

/// The values in the form in which they are protected, or as they were protected.
pub(super) fn canonical(array: &ArrayRef) -> BinaryArray {
    let row = |row: usize| (!array.is_null(row)).then_some(row);
    let rows = (0..array.len()).map(row);
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().map(|text| text.map(str::as_bytes)).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(|text| text.map(str::as_bytes)).collect(),
        DataType::Utf8View => array.as_string_view().iter().map(|text| text.map(str::as_bytes)).collect(),
        DataType::Binary => array.as_binary::<i32>().clone(),
        DataType::LargeBinary => array.as_binary::<i64>().iter().collect(),
        DataType::BinaryView => array.as_binary_view().iter().collect(),
        DataType::Boolean => {
            let array = array.as_boolean();
            rows.map(|row| row.map(|row| [u8::from(array.value(row))])).collect()
        }
        other => {
            // Types that are taken have a width, if it is not 0.
            let (data, width) = (array.to_data(), width_of(other).unwrap_or(0));
            let bytes = data.buffers().first().map_or(&[][..], |buffer| &buffer[data.offset() * width..]);
            rows.map(|row| row.map(|row| &bytes[row * width..][..width])).collect()
        }
    }
}

/// Collects values, to be an array.
pub(super) struct Builder {
    values: BinaryBuilder,
}

impl Builder {
    pub(super) fn new(rows: usize) -> Builder {
        Builder { values: BinaryBuilder::with_capacity(rows, rows * 16) }
    }

    pub(super) fn push(&mut self, value: Option<&[u8]>) {
        self.values.append_option(value);
    }

    /// An array of `data_type`, whose rows are at the places that `place` says.
    ///
    /// # Errors
    /// `NotOfType` for bytes that are no value of the type.
    pub(super) fn finish(mut self, data_type: &DataType, place: &dyn Fn(usize) -> Place) -> Result<ArrayRef> {
        let values = self.values.finish();
        let no_value = |row| TableError::NotOfType { place: place(row), data_type: data_type.to_string() };
        let is_text = |value: &[u8]| std::str::from_utf8(value).is_ok();
        let fits: &dyn Fn(&[u8]) -> bool = match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => &is_text,
            DataType::Boolean => &|value| matches!(value, [0 | 1]),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => &|_| true,
            other => {
                let width = width_of(other).unwrap_or(0);
                &move |value: &[u8]| value.len() == width
            }
        };
        if let Some(row) = (0..values.len()).find(|row| !values.is_null(*row) && !fits(values.value(*row))) {
            return Err(no_value(row));
        }
        let texts = || values.iter().map(|value| value.and_then(|value| std::str::from_utf8(value).ok()));
        Ok(match data_type {
            DataType::Binary => Arc::new(values),
            DataType::LargeBinary => Arc::new(values.iter().collect::<arrow_array::LargeBinaryArray>()),
            DataType::BinaryView => Arc::new(values.iter().collect::<BinaryViewArray>()),
            DataType::Utf8 => Arc::new(texts().collect::<arrow_array::StringArray>()),
            DataType::LargeUtf8 => Arc::new(texts().collect::<arrow_array::LargeStringArray>()),
            DataType::Utf8View => Arc::new(texts().collect::<StringViewArray>()),
            DataType::Boolean => {
                Arc::new(values.iter().map(|value| value.map(|value| value == [1])).collect::<BooleanArray>())
            }
            other => fixed(&values, other, width_of(other).unwrap_or(0)).map_err(|source| {
                let Place { file, column, .. } = place(0);
                TableError::Arrow { path: file, column, source }
            })?,
        })
    }
}

/// Values of one width, one behind the other.
fn fixed(values: &BinaryArray, data_type: &DataType, width: usize) -> Result<ArrayRef, ArrowError> {
    let mut bytes = vec![0; values.len() * width];
    for (row, value) in values.iter().enumerate() {
        if let Some(value) = value {
            bytes[row * width..][..width].copy_from_slice(value);
        }
    }
    let nulls: Option<NullBuffer> = values.nulls().cloned();
    let data = ArrayData::builder(data_type.clone()).len(values.len()).nulls(nulls);
    Ok(make_array(data.add_buffer(Buffer::from_vec(bytes)).build()?))
}
