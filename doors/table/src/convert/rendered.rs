//! Values as the texts that stand for them in CSV files, one form for each type.

use std::fmt::Write as _;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{Array, BinaryArray, make_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::types::{is_text, value_type};

/// How the values of a type become texts.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// As they are: UTF-8.
    Text,
    /// Bytes in hexadecimal.
    Hex,
    /// Bytes in base64url without padding, as protected values in CSV files.
    Base64Url,
    /// `true` and `false`.
    Truth,
    /// As Arrow writes the type.
    Arrow(DataType),
}

/// Why a value has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoText {
    /// The value of this row is not UTF-8.
    NotUtf8(usize),
    /// The value of this row is past the range in which its type has texts, or not of its type.
    NotOfType(usize),
}

impl Form {
    /// The form of a type.
    ///
    /// # Errors
    /// The rule that the type breaks.
    pub(crate) fn of(data_type: &DataType) -> Result<Form, &'static str> {
        Ok(match value_type(data_type) {
            text if is_text(text) => Form::Text,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Form::Hex,
            DataType::Boolean => Form::Truth,
            // Parquet's instants are in UTC, which needs no table of time zones.
            DataType::Timestamp(unit, Some(_)) => Form::Arrow(DataType::Timestamp(*unit, Some("+00:00".into()))),
            other @ (DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float16
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
            | DataType::Date32
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Timestamp(_, None)) => Form::Arrow(other.clone()),
            nested if nested.is_nested() => return Err("nested values have no form in CSV"),
            _ => return Err("values of this type have no form in CSV"),
        })
    }

    /// The texts of so many rows; nothing for null.
    ///
    /// # Errors
    /// The first value that has none.
    pub(crate) fn texts<'v>(
        &self,
        count: usize,
        value: impl Fn(usize) -> Option<&'v [u8]>,
    ) -> Result<BinaryArray, NoText> {
        if let Form::Arrow(data_type) = self {
            return formatted(data_type, count, value);
        }
        let mut texts = BinaryBuilder::with_capacity(count, count * 16);
        let mut encoded = Vec::new();
        for row in 0..count {
            match (self, value(row)) {
                (_, None) => texts.append_null(),
                (Form::Hex, Some(value)) => texts.append_value(hex::encode(value)),
                (Form::Base64Url, Some(value)) => {
                    encoded.clear();
                    crate::text::encode(value, &mut encoded);
                    texts.append_value(&encoded);
                }
                (Form::Truth, Some([0])) => texts.append_value("false"),
                (Form::Truth, Some([1])) => texts.append_value("true"),
                (Form::Truth, Some(_)) => return Err(NoText::NotOfType(row)),
                (_, Some(value)) if std::str::from_utf8(value).is_err() => return Err(NoText::NotUtf8(row)),
                (_, Some(value)) => texts.append_value(value),
            }
        }
        Ok(texts.finish())
    }
}

fn formatted<'v>(
    data_type: &DataType,
    count: usize,
    value: impl Fn(usize) -> Option<&'v [u8]>,
) -> Result<BinaryArray, NoText> {
    let width = data_type.primitive_width().unwrap_or(0);
    let mut bytes = Vec::with_capacity(count * width);
    let mut valid = Vec::with_capacity(count);
    for row in 0..count {
        let value = value(row);
        valid.push(value.is_some());
        match value {
            Some(value) if value.len() == width => bytes.extend_from_slice(value),
            Some(_) => return Err(NoText::NotOfType(row)),
            None => bytes.resize(bytes.len() + width, 0),
        }
    }
    let data = ArrayData::builder(data_type.clone()).len(count).nulls(Some(NullBuffer::from(valid)));
    let array = data.align_buffers(true).add_buffer(Buffer::from_vec(bytes)).build();
    let array = make_array(array.map_err(|_| NoText::NotOfType(0))?);
    let options = FormatOptions::default().with_display_error(false);
    let formatter = ArrayFormatter::try_new(&array, &options).map_err(|_| NoText::NotOfType(0))?;
    let mut texts = BinaryBuilder::with_capacity(count, count * 16);
    let mut text = String::new();
    for row in 0..count {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        text.clear();
        if write!(text, "{}", formatter.value(row)).is_err() {
            return Err(NoText::NotOfType(row));
        }
        texts.append_value(&text);
    }
    Ok(texts.finish())
}

#[cfg(test)]
mod tests {
    use arrow_schema::TimeUnit;

    use super::*;

    fn text(data_type: &DataType, value: &[u8]) -> Result<String, NoText> {
        let texts = Form::of(data_type).unwrap().texts(2, |row| (row == 0).then_some(value))?;
        assert!(texts.is_null(1), "{data_type}");
        Ok(String::from_utf8(texts.value(0).to_vec()).unwrap())
    }

    #[test]
    fn each_type_has_one_form() {
        use DataType::{Boolean, Date32, Decimal128, Float16, Float32, Float64, Int8, Time64, Timestamp, UInt64};
        let utc = Some("UTC".into());
        for (data_type, value, wanted) in [
            (Int8, vec![0x80], "-128"),
            (UInt64, u64::MAX.to_le_bytes().to_vec(), "18446744073709551615"),
            (Float64, 0.1f64.to_le_bytes().to_vec(), "0.1"),
            (Float64, (-0.0f64).to_le_bytes().to_vec(), "-0.0"),
            (Float64, f64::MAX.to_le_bytes().to_vec(), "1.7976931348623157e308"),
            (Float64, f64::NAN.to_le_bytes().to_vec(), "NaN"),
            (Float64, f64::NEG_INFINITY.to_le_bytes().to_vec(), "-inf"),
            (Float32, 16_777_216f32.to_le_bytes().to_vec(), "16777216.0"),
            (Float16, 0x3555u16.to_le_bytes().to_vec(), "0.33325195"),
            (Decimal128(9, 2), (-1234i128).to_le_bytes().to_vec(), "-12.34"),
            (Decimal128(9, -2), 12i128.to_le_bytes().to_vec(), "1200"),
            (Boolean, vec![1], "true"),
            (Date32, 19_723i32.to_le_bytes().to_vec(), "2024-01-01"),
            (Time64(TimeUnit::Nanosecond), 1i64.to_le_bytes().to_vec(), "00:00:00.000000001"),
            (Timestamp(TimeUnit::Microsecond, None), 1i64.to_le_bytes().to_vec(), "1970-01-01T00:00:00.000001"),
            (Timestamp(TimeUnit::Millisecond, utc), (-1i64).to_le_bytes().to_vec(), "1969-12-31T23:59:59.999Z"),
            (DataType::FixedSizeBinary(2), vec![0xab, 0], "ab00"),
            (DataType::Utf8View, "é".into(), "é"),
        ] {
            assert_eq!(text(&data_type, &value).as_deref(), Ok(wanted), "{data_type}");
        }
    }

    #[test]
    fn what_has_no_text_is_an_error() {
        assert_eq!(text(&DataType::Utf8, b"\xff"), Err(NoText::NotUtf8(0)));
        assert_eq!(text(&DataType::Boolean, &[2]), Err(NoText::NotOfType(0)));
        assert_eq!(text(&DataType::Int32, &[2]), Err(NoText::NotOfType(0)));
        let far = DataType::Timestamp(TimeUnit::Second, None);
        assert_eq!(text(&far, &i64::MAX.to_le_bytes()), Err(NoText::NotOfType(0)));
        assert_eq!(text(&DataType::Time64(TimeUnit::Nanosecond), &i64::MAX.to_le_bytes()), Err(NoText::NotOfType(0)));
        let item = arrow_schema::Field::new("item", DataType::Int32, true);
        assert!(Form::of(&DataType::List(item.into())).unwrap_err().contains("nested"));
        assert!(Form::of(&DataType::Null).is_err());
        assert!(Form::of(&DataType::Interval(arrow_schema::IntervalUnit::DayTime)).is_err());
    }
}
