//! What tells a row from others wherever it stands: the value of a column that nobody protects, in a form that does not
//! depend on how the file stores it. Values that are bound to their rows authenticate it.

use arrow_array::BinaryArray;
use arrow_schema::DataType;

use crate::encode::Cells;
use crate::numbers::IntegerType;
use crate::types::{is_text, value_type};

/// Bytes that a row's identifier may have.
pub const ROW_ID_LEN_MAX: usize = 1024;

/// Begins an identifier that is a text or an integer's decimal text.
const TEXT: u8 = 1;
/// Begins an identifier that is a byte string.
const BYTES: u8 = 2;

/// The identifiers of a batch of rows.
pub(crate) struct RowIds<'a> {
    cells: Cells<'a>,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Text,
    Bytes,
    Integer(IntegerType),
}

/// Why a row has no identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowIdProblem {
    /// It is null.
    Null,
    /// It has so many bytes, more than [`ROW_ID_LEN_MAX`].
    TooLong(usize),
}

impl<'a> RowIds<'a> {
    /// The identifiers in cells of this type; nothing for types that [`check_row_id_type`] refuses.
    pub(crate) fn new(cells: Cells<'a>, data_type: &DataType) -> Option<RowIds<'a>> {
        Some(RowIds { cells, form: form_of(data_type)? })
    }

    /// The identifiers of a CSV column, whose fields are texts however they are held.
    pub(crate) fn of_texts(array: &'a BinaryArray) -> RowIds<'a> {
        RowIds { cells: Cells::new(array), form: Form::Text }
    }

    /// Whether a row has an identifier.
    pub(crate) fn check(&self, row: usize) -> Result<(), RowIdProblem> {
        self.value(row).map(|_| ())
    }

    fn value(&self, row: usize) -> Result<&'a [u8], RowIdProblem> {
        if self.cells.is_null(row) {
            return Err(RowIdProblem::Null);
        }
        let value = self.cells.value(row);
        if value.len() > ROW_ID_LEN_MAX {
            return Err(RowIdProblem::TooLong(value.len()));
        }
        Ok(value)
    }

    /// Appends a row's identifier.
    pub(crate) fn append(&self, row: usize, to: &mut Vec<u8>) -> Result<(), RowIdProblem> {
        let value = self.value(row)?;
        match self.form {
            Form::Bytes => {
                to.push(BYTES);
                to.extend_from_slice(value);
            }
            Form::Text => {
                to.push(TEXT);
                to.extend_from_slice(value);
            }
            Form::Integer(integer) => {
                to.push(TEXT);
                integer.write(value, to);
            }
        }
        Ok(())
    }
}

/// Whether a column of this type can identify rows.
///
/// # Errors
/// The rule that the type breaks.
pub(crate) fn check_row_id_type(data_type: &DataType) -> Result<(), &'static str> {
    match form_of(data_type) {
        Some(_) => Ok(()),
        None => Err("rows are identified by integers, texts or byte strings"),
    }
}

fn form_of(data_type: &DataType) -> Option<Form> {
    match value_type(data_type) {
        text if is_text(text) => Some(Form::Text),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Some(Form::Bytes)
        }
        other => IntegerType::of(other).map(Form::Integer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::NULL_ROW;

    /// The identifier of a value of a type; without a value of a null.
    fn id(data_type: &DataType, value: Option<&[u8]>) -> Result<Vec<u8>, RowIdProblem> {
        let bytes = value.unwrap_or_default();
        let slots = [if value.is_some() { 0 } else { NULL_ROW }];
        let mut id = Vec::new();
        let cells = Cells::fixed(&slots, bytes, bytes.len());
        RowIds::new(cells, data_type).unwrap().append(0, &mut id).map(|()| id)
    }

    #[test]
    fn equal_numbers_and_texts_are_one_identifier() {
        let values: [(DataType, &[u8]); 4] = [
            (DataType::Int32, &17i32.to_le_bytes()),
            (DataType::Int64, &17i64.to_le_bytes()),
            (DataType::UInt8, &[17]),
            (DataType::Utf8, b"17"),
        ];
        for (data_type, value) in values {
            assert_eq!(id(&data_type, Some(value)).unwrap(), b"\x0117", "{data_type}");
            assert_eq!(id(&data_type, None), Err(RowIdProblem::Null), "{data_type}");
        }
        assert_eq!(id(&DataType::Binary, Some(b"17")).unwrap(), b"\x0217", "bytes are no text");
        let mut text = Vec::new();
        RowIds::of_texts(&BinaryArray::from_vec(vec![b"17"])).append(0, &mut text).unwrap();
        assert_eq!(text, b"\x0117", "in a CSV file they are");
    }

    #[test]
    fn long_identifiers_and_other_types_are_refused() {
        let long = [b'x'; ROW_ID_LEN_MAX + 1];
        assert_eq!(id(&DataType::Utf8, Some(&long[1..])).unwrap().len(), ROW_ID_LEN_MAX + 1);
        assert_eq!(id(&DataType::Utf8, Some(&long)), Err(RowIdProblem::TooLong(ROW_ID_LEN_MAX + 1)));
        assert!(RowIds::new(Cells::fixed(&[], &[], 8), &DataType::Float64).is_none());
        assert!(check_row_id_type(&DataType::Float64).is_err());
        assert!(check_row_id_type(&DataType::Date32).is_err());
    }
}
