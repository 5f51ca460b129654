//! Values as the texts that stand for them in CSV files, one form for each type.

use std::fmt::Write as _;

use arrow_array::builder::BinaryBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type,
};
use arrow_array::{BinaryArray, temporal_conversions as temporal};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use chrono::SecondsFormat;

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
            | DataType::Timestamp(..)) => Form::Arrow(other.clone()),
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
        let mut texts = BinaryBuilder::with_capacity(count, count * 16);
        let (mut encoded, mut written) = (Vec::new(), String::new());
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
                (Form::Arrow(data_type), Some(value)) => {
                    written.clear();
                    write_value(data_type, value, &mut written).ok_or(NoText::NotOfType(row))?;
                    texts.append_value(&written);
                }
                (_, Some(value)) if std::str::from_utf8(value).is_err() => return Err(NoText::NotUtf8(row)),
                (_, Some(value)) => texts.append_value(value),
            }
        }
        Ok(texts.finish())
    }
}

/// Appends a value of Parquet's little-endian form as Arrow's own formatter writes it; nothing where it is not of its type.
fn write_value(data_type: &DataType, value: &[u8], text: &mut String) -> Option<()> {
    type Half = <Float16Type as ArrowPrimitiveType>::Native;
    let int = || value.try_into().map(i32::from_le_bytes).ok();
    let long = || value.try_into().map(i64::from_le_bytes).ok();
    match data_type {
        DataType::Int8 => write!(text, "{}", i8::from_le_bytes(value.try_into().ok()?)),
        DataType::Int16 => write!(text, "{}", i16::from_le_bytes(value.try_into().ok()?)),
        DataType::Int32 => write!(text, "{}", int()?),
        DataType::Int64 => write!(text, "{}", long()?),
        DataType::UInt8 => write!(text, "{}", u8::from_le_bytes(value.try_into().ok()?)),
        DataType::UInt16 => write!(text, "{}", u16::from_le_bytes(value.try_into().ok()?)),
        DataType::UInt32 => write!(text, "{}", u32::from_le_bytes(value.try_into().ok()?)),
        DataType::UInt64 => write!(text, "{}", u64::from_le_bytes(value.try_into().ok()?)),
        DataType::Float16 => write!(text, "{}", Half::from_le_bytes(value.try_into().ok()?)),
        // The shortest text that reads back as the same number.
        DataType::Float32 => text.write_str(ryu::Buffer::new().format(f32::from_le_bytes(value.try_into().ok()?))),
        DataType::Float64 => text.write_str(ryu::Buffer::new().format(f64::from_le_bytes(value.try_into().ok()?))),
        DataType::Decimal32(digits, scale) => text.write_str(&Decimal32Type::format_decimal(int()?, *digits, *scale)),
        DataType::Decimal64(digits, scale) => text.write_str(&Decimal64Type::format_decimal(long()?, *digits, *scale)),
        DataType::Decimal128(digits, scale) => {
            let value = i128::from_le_bytes(value.try_into().ok()?);
            text.write_str(&Decimal128Type::format_decimal(value, *digits, *scale))
        }
        DataType::Decimal256(digits, scale) => {
            let value = i256::from_le_bytes(value.try_into().ok()?);
            text.write_str(&Decimal256Type::format_decimal(value, *digits, *scale))
        }
        DataType::Date32 => write!(text, "{:?}", temporal::date32_to_datetime(int()?)?.date()),
        DataType::Time32(TimeUnit::Second) => write!(text, "{:?}", temporal::time32s_to_time(int()?)?),
        DataType::Time32(_) => write!(text, "{:?}", temporal::time32ms_to_time(int()?)?),
        DataType::Time64(TimeUnit::Nanosecond) => write!(text, "{:?}", temporal::time64ns_to_time(long()?)?),
        DataType::Time64(_) => write!(text, "{:?}", temporal::time64us_to_time(long()?)?),
        DataType::Timestamp(unit, zone) => {
            let moment = match unit {
                TimeUnit::Second => temporal::timestamp_s_to_datetime(long()?)?,
                TimeUnit::Millisecond => temporal::timestamp_ms_to_datetime(long()?)?,
                TimeUnit::Microsecond => temporal::timestamp_us_to_datetime(long()?)?,
                TimeUnit::Nanosecond => temporal::timestamp_ns_to_datetime(long()?)?,
            };
            match zone {
                // Parquet's instants are in UTC, whatever the zone.
                Some(_) => text.write_str(&moment.and_utc().to_rfc3339_opts(SecondsFormat::AutoSi, true)),
                None => write!(text, "{moment:?}"),
            }
        }
        _ => return None,
    }
    .ok()
}

#[cfg(test)]
mod tests {
    use arrow_array::{Array as _, make_array};
    use arrow_buffer::Buffer;
    use arrow_cast::display::{ArrayFormatter, FormatOptions};
    use arrow_data::ArrayData;
    use proptest::prelude::*;

    use super::*;
    use crate::types::tests::all_types;

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

    /// What Arrow's formatter writes for a value.
    fn of_arrow(data_type: &DataType, value: &[u8]) -> Option<String> {
        let data_type = match data_type {
            DataType::Timestamp(unit, Some(_)) => &DataType::Timestamp(*unit, Some("+00:00".into())),
            other => other,
        };
        let data = ArrayData::builder(data_type.clone()).len(1).align_buffers(true).add_buffer(Buffer::from(value));
        let array = make_array(data.build().ok()?);
        let options = FormatOptions::default().with_display_error(false);
        let formatter = ArrayFormatter::try_new(&array, &options).ok()?;
        let mut text = String::new();
        write!(text, "{}", formatter.value(0)).is_ok().then_some(text)
    }

    proptest! {
        #[test]
        fn every_number_and_moment_is_as_arrow_writes_it(wild: [u8; 32], small: i64) {
            // Moments of years that have a name, too.
            let small = (small / 300_000_000).to_le_bytes();
            let mut tried = 0;
            for data_type in all_types().into_iter().chain([DataType::Decimal32(9, 3), DataType::Decimal64(18, -4)]) {
                let (Ok(Form::Arrow(_)), Some(width)) = (Form::of(&data_type), data_type.primitive_width()) else { continue };
                let values = [Some(&wild[..width]), small.get(..width)];
                for value in values.into_iter().flatten() {
                    prop_assert_eq!(text(&data_type, value).ok(), of_arrow(&data_type, value), "{} of {:?}", data_type, value);
                    tried += 1;
                }
            }
            prop_assert!(tried > 30, "{tried}");
        }
    }
}
