//! The types that are tried.

use arrow_schema::{DataType, TimeUnit};

/// Types of each kind that can be protected and that Parquet keeps.
pub(crate) fn types() -> Vec<DataType> {
    let mut types = text_types();
    types.extend([
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
        DataType::Decimal256(60, 4),
        DataType::Date32,
        DataType::Date64,
        DataType::Time32(TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Timestamp(TimeUnit::Second, None),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Zurich".into())),
        DataType::Timestamp(TimeUnit::Nanosecond, Some("+02:00".into())),
    ]);
    types
}

/// Every way in which Arrow writes a text.
pub(crate) fn text_types() -> Vec<DataType> {
    let dictionary = |keys, values| DataType::Dictionary(Box::new(keys), Box::new(values));
    vec![
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        dictionary(DataType::Int32, DataType::Utf8),
        dictionary(DataType::UInt8, DataType::Utf8),
        dictionary(DataType::Int64, DataType::LargeUtf8),
    ]
}

/// RFC 4648, section 5, without padding, written for these tests alone.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['-', '_']).collect();
    let bits: Vec<bool> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    bits.chunks(6)
        .map(|six| alphabet[(0..6).fold(0, |word, at| word << 1 | usize::from(six.get(at) == Some(&true)))])
        .collect()
}
