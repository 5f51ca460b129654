//! From canonical bytes back to Arrow arrays of exactly the type that the manifest names.

use std::sync::Arc;

use arrow_array::builder::{BinaryViewBuilder, GenericBinaryBuilder, GenericStringBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, BooleanArray, OffsetSizeTrait, make_array};
use arrow_buffer::{BooleanBufferBuilder, Buffer, MutableBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType};

use crate::column::NULL_ROW;
use crate::distinct::Outputs;
use crate::types::value_type;

/// Why an array could not be made.
#[derive(Debug)]
pub(crate) enum DecodeProblem {
    /// The value of this row, counted from zero within the batch, does not fit the type.
    Value(usize),
    /// Arrow refused the array.
    Arrow(ArrowError),
}

impl From<ArrowError> for DecodeProblem {
    fn from(error: ArrowError) -> DecodeProblem {
        DecodeProblem::Arrow(error)
    }
}

/// Makes an array of `data_type` in which each row has the value in its slot of `outputs`, or is null.
///
/// # Errors
/// `DecodeProblem` with the first row whose bytes are no value of the type.
pub(crate) fn build_array(data_type: &DataType, rows: &[u32], outputs: &Outputs) -> Result<ArrayRef, DecodeProblem> {
    let flat = Flat { rows, outputs };
    let array: ArrayRef = match value_type(data_type) {
        DataType::Utf8 => flat.strings::<i32>()?,
        DataType::LargeUtf8 => flat.strings::<i64>()?,
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::with_capacity(rows.len());
            flat.each(|row, bytes| {
                let text = bytes.map(std::str::from_utf8).transpose().map_err(|_| DecodeProblem::Value(row))?;
                builder.append_option(text);
                Ok(())
            })?;
            Arc::new(builder.finish())
        }
        DataType::Binary => flat.binaries::<i32>()?,
        DataType::LargeBinary => flat.binaries::<i64>()?,
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::with_capacity(rows.len());
            flat.each(|_, bytes| {
                builder.append_option(bytes);
                Ok(())
            })?;
            Arc::new(builder.finish())
        }
        DataType::Boolean => flat.booleans()?,
        DataType::FixedSizeBinary(width) => flat.fixed(value_type(data_type), usize::try_from(*width).unwrap_or(0))?,
        other => match other.primitive_width() {
            Some(width) => flat.fixed(other, width)?,
            None => return Err(ArrowError::NotYetImplemented(format!("values of type {other}")).into()),
        },
    };
    match data_type {
        DataType::Dictionary(..) => Ok(cast(&array, data_type)?),
        _ => Ok(array),
    }
}

struct Flat<'a> {
    rows: &'a [u32],
    outputs: &'a Outputs,
}

impl<'a> Flat<'a> {
    fn each(
        &self,
        mut take: impl FnMut(usize, Option<&'a [u8]>) -> Result<(), DecodeProblem>,
    ) -> Result<(), DecodeProblem> {
        for (row, slot) in self.rows.iter().enumerate() {
            let bytes = (*slot != NULL_ROW).then(|| self.outputs.at(*slot as usize));
            take(row, bytes)?;
        }
        Ok(())
    }

    /// Bytes of all rows, checked to be within what offsets of type `O` reach.
    fn byte_len<O: OffsetSizeTrait>(&self) -> Result<usize, DecodeProblem> {
        let mut len = 0;
        self.each(|_, bytes| {
            len += bytes.map_or(0, <[u8]>::len);
            Ok(())
        })?;
        match O::from_usize(len) {
            Some(_) => Ok(len),
            None => Err(ArrowError::OffsetOverflowError(len).into()),
        }
    }

    fn strings<O: OffsetSizeTrait>(&self) -> Result<ArrayRef, DecodeProblem> {
        let mut builder = GenericStringBuilder::<O>::with_capacity(self.rows.len(), self.byte_len::<O>()?);
        self.each(|row, bytes| {
            let text = bytes.map(std::str::from_utf8).transpose().map_err(|_| DecodeProblem::Value(row))?;
            builder.append_option(text);
            Ok(())
        })?;
        Ok(Arc::new(builder.finish()))
    }

    fn binaries<O: OffsetSizeTrait>(&self) -> Result<ArrayRef, DecodeProblem> {
        let mut builder = GenericBinaryBuilder::<O>::with_capacity(self.rows.len(), self.byte_len::<O>()?);
        self.each(|_, bytes| {
            builder.append_option(bytes);
            Ok(())
        })?;
        Ok(Arc::new(builder.finish()))
    }

    fn booleans(&self) -> Result<ArrayRef, DecodeProblem> {
        let mut values = Vec::with_capacity(self.rows.len());
        self.each(|row, bytes| {
            values.push(match bytes {
                None => None,
                Some([0]) => Some(false),
                Some([1]) => Some(true),
                Some(_) => return Err(DecodeProblem::Value(row)),
            });
            Ok(())
        })?;
        Ok(Arc::new(BooleanArray::from(values)))
    }

    fn fixed(&self, data_type: &DataType, width: usize) -> Result<ArrayRef, DecodeProblem> {
        let mut values = MutableBuffer::new(self.rows.len() * width);
        let mut valid = BooleanBufferBuilder::new(self.rows.len());
        self.each(|row, bytes| {
            match bytes {
                Some(bytes) if bytes.len() == width => values.extend_from_slice(bytes),
                Some(_) => return Err(DecodeProblem::Value(row)),
                None => values.extend_zeros(width),
            }
            valid.append(bytes.is_some());
            Ok(())
        })?;
        let nulls = Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() != 0);
        let data = ArrayData::builder(data_type.clone())
            .len(self.rows.len())
            .nulls(nulls)
            .add_buffer(Buffer::from(values))
            .build()?;
        Ok(make_array(data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::Cells;
    use crate::testing::sample_array;
    use crate::types::tests::all_types;
    use arrow_array::Array;

    /// Reads an array's cells and makes an array of them again.
    fn rebuilt(array: &ArrayRef) -> ArrayRef {
        let cells = Cells::new(array).unwrap();
        let mut outputs = Outputs::default();
        let mut rows = Vec::new();
        for row in 0..cells.len() {
            if cells.is_null(row) {
                rows.push(NULL_ROW);
            } else {
                rows.push(outputs.len() as u32);
                outputs.push(cells.value(row));
            }
        }
        build_array(array.data_type(), &rows, &outputs).unwrap()
    }

    #[test]
    fn every_type_comes_back_exactly() {
        for data_type in all_types() {
            for seed in 0..4 {
                let array = sample_array(&data_type, 100, seed);
                assert!(array.null_count() > 0 && array.null_count() < 100, "{data_type}");
                let again = rebuilt(&array);
                assert_eq!(again.data_type(), &data_type);
                assert_eq!(&again, &array, "{data_type}");
                let slice = array.slice(7, 50);
                assert_eq!(&rebuilt(&slice), &slice, "{data_type}, sliced");
                let empty = array.slice(0, 0);
                assert_eq!(&rebuilt(&empty), &empty, "{data_type}, empty");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_value_are_refused_with_their_row() {
        let mut outputs = Outputs::default();
        outputs.push(&[1]);
        outputs.push(&[2, 0xff]);
        for data_type in [DataType::Utf8, DataType::Utf8View, DataType::Boolean, DataType::Int8] {
            let problem = build_array(&data_type, &[NULL_ROW, 0, 1], &outputs).unwrap_err();
            assert!(matches!(problem, DecodeProblem::Value(2)), "{data_type}: {problem:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn integers_and_texts_come_back(
            numbers in proptest::collection::vec(proptest::option::of(proptest::num::i64::ANY), 0..50),
            texts in proptest::collection::vec(proptest::option::of(".{0,9}"), 0..50),
        ) {
            let numbers: ArrayRef = Arc::new(arrow_array::Int64Array::from(numbers));
            proptest::prop_assert_eq!(&rebuilt(&numbers), &numbers);
            let texts: ArrayRef = Arc::new(arrow_array::StringArray::from(texts));
            proptest::prop_assert_eq!(&rebuilt(&texts), &texts);
        }
    }
}
