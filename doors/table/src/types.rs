//! Which Arrow types can be protected, and the tag by which a type is authenticated with each value.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::numbers::IntegerType;
use crate::spec::Method;

/// Two bytes that stand for a type in a value's associated data.
///
/// Types whose values are the same bytes with the same meaning share a tag, so that a `Utf8` column of one table and a
/// dictionary of `LargeUtf8` of another give equal tokens: all texts, all byte strings of variable length. For
/// decimals the second byte is the scale, for times the unit.
pub(crate) fn type_tag(data_type: &DataType) -> Option<[u8; 2]> {
    let tag = match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => [1, 0],
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => [2, 0],
        DataType::FixedSizeBinary(_) => [3, 0],
        DataType::Boolean => [4, 0],
        DataType::Int8 => [5, 0],
        DataType::Int16 => [6, 0],
        DataType::Int32 => [7, 0],
        DataType::Int64 => [8, 0],
        DataType::UInt8 => [9, 0],
        DataType::UInt16 => [10, 0],
        DataType::UInt32 => [11, 0],
        DataType::UInt64 => [12, 0],
        DataType::Float16 => [13, 0],
        DataType::Float32 => [14, 0],
        DataType::Float64 => [15, 0],
        DataType::Decimal32(_, scale) => [16, scale.cast_unsigned()],
        DataType::Decimal64(_, scale) => [17, scale.cast_unsigned()],
        DataType::Decimal128(_, scale) => [18, scale.cast_unsigned()],
        DataType::Decimal256(_, scale) => [19, scale.cast_unsigned()],
        DataType::Date32 => [20, 0],
        DataType::Date64 => [21, 0],
        DataType::Time32(unit) => [22, time_unit(*unit)],
        DataType::Time64(unit) => [23, time_unit(*unit)],
        DataType::Timestamp(unit, _) => [24, time_unit(*unit)],
        DataType::Duration(unit) => [25, time_unit(*unit)],
        DataType::Interval(unit) => [
            26,
            match unit {
                IntervalUnit::YearMonth => 0,
                IntervalUnit::DayTime => 1,
                IntervalUnit::MonthDayNano => 2,
            },
        ],
        DataType::Dictionary(_, values) if !matches!(**values, DataType::Dictionary(..)) => return type_tag(values),
        _ => return None,
    };
    Some(tag)
}

/// The tag of values that are protected in the form `as_text` says, else of the type itself.
///
/// # Errors
/// The rule that the type breaks.
pub(crate) fn type_tag_of(data_type: &DataType, as_text: bool) -> Result<[u8; 2], &'static str> {
    let value = value_type(data_type);
    if as_text && !is_text(value) && IntegerType::of(value).is_none() {
        return Err("as-text is for integers and texts");
    }
    let tagged = if as_text { &DataType::Utf8 } else { data_type };
    type_tag(tagged).ok_or("only flat types can be protected, not nested ones")
}

const fn time_unit(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

/// Whether a method takes columns of this type.
///
/// # Errors
/// The rule that the type breaks.
pub(crate) fn check_type(method: &Method, data_type: &DataType) -> Result<(), &'static str> {
    if type_tag(data_type).is_none() {
        return Err("only flat types can be protected, not nested ones");
    }
    if matches!(method, Method::Ff1(_)) && !is_text(value_type(data_type)) {
        return Err("ff1 works on text columns; use random, deterministic or token");
    }
    if method.is_reversible() && restorable(data_type).is_none() {
        return Err("the type could not be restored exactly");
    }
    Ok(())
}

/// The type that restoring goes through: exactly the one that its name in the manifest stands for.
fn restorable(data_type: &DataType) -> Option<()> {
    let named: DataType = data_type.to_string().parse().ok()?;
    (named == *data_type).then_some(())
}

/// The type of a dictionary's values; any other type is its own.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// Whether the type is a plain text type.
pub(crate) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether protected values of this type get 64-bit offsets.
pub(crate) fn is_wide(data_type: &DataType) -> bool {
    matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary | DataType::Utf8View | DataType::BinaryView)
}

/// Bytes of each value of a type that has a width; none for booleans.
pub(crate) fn width_of(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok().filter(|width| *width > 0),
        other => other.primitive_width(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A type of each kind that can be protected.
    pub(crate) fn all_types() -> Vec<DataType> {
        let mut types = vec![
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
            DataType::FixedSizeBinary(7),
            DataType::Boolean,
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float32,
            DataType::Float64,
            DataType::Decimal128(15, 2),
            DataType::Decimal256(60, -3),
            DataType::Date32,
            DataType::Date64,
            DataType::Time32(TimeUnit::Second),
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Time64(TimeUnit::Nanosecond),
        ];
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            types.push(DataType::Timestamp(unit, None));
            types.push(DataType::Timestamp(unit, Some("UTC".into())));
            types.push(DataType::Timestamp(unit, Some("Europe/Zurich".into())));
        }
        for values in [DataType::Utf8, DataType::LargeUtf8, DataType::Binary, DataType::Int64] {
            types.push(DataType::Dictionary(Box::new(DataType::Int32), Box::new(values)));
        }
        types.push(DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8)));
        types
    }

    #[test]
    fn every_flat_type_is_taken_and_named_exactly() {
        for data_type in all_types() {
            for method in [Method::Random, Method::Deterministic, Method::Token { len: 32 }] {
                assert_eq!(check_type(&method, &data_type), Ok(()), "{} {data_type}", method.name());
            }
        }
    }

    #[test]
    fn nested_types_are_refused() {
        let item = arrow_schema::Field::new("item", DataType::Int32, true);
        for nested in [DataType::List(item.clone().into()), DataType::Struct(vec![item].into()), DataType::Null] {
            assert!(check_type(&Method::Random, &nested).is_err_and(|rule| rule.contains("flat")), "{nested}");
        }
    }

    #[test]
    fn tags_tell_meanings_apart_and_spellings_not() {
        let tag = |data_type| type_tag(&data_type).unwrap();
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8));
        assert_eq!(tag(dictionary), tag(DataType::Utf8View));
        assert_ne!(tag(DataType::Utf8), tag(DataType::Binary));
        assert_ne!(tag(DataType::Decimal128(15, 2)), tag(DataType::Decimal128(15, 3)));
        assert_eq!(tag(DataType::Decimal128(12, 2)), tag(DataType::Decimal128(15, 2)));
        assert_ne!(
            tag(DataType::Timestamp(TimeUnit::Second, None)),
            tag(DataType::Timestamp(TimeUnit::Millisecond, None))
        );
    }
}
