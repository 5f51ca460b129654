//! Arrays of every type.

use std::sync::Arc;

use arrow_array::builder::{BooleanBufferBuilder, FixedSizeBinaryBuilder};
use arrow_array::{Array, ArrayRef, BinaryArray, BooleanArray, StringArray, make_array};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer};
use arrow_cast::cast;
use arrow_data::ArrayData;
use arrow_data::transform::MutableArrayData;
use arrow_schema::DataType;

/// A small generator (SplitMix64), so that samples are the same everywhere.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

const WORDS: [&str; 9] = ["", "a", "Zürich", "日本語", "say \"hi\", then\ngo", "0", " spaces ", "x\0y", "é"];

/// An array of a type with repetitions, nulls (each fifth row or so), empty and long values.
pub(crate) fn sample_array(data_type: &DataType, len: usize, seed: u64) -> ArrayRef {
    let mut numbers = Numbers(seed);
    if len == 0 {
        return arrow_array::new_empty_array(data_type);
    }
    if let DataType::Dictionary(_, values) = data_type {
        // Few distinct values, as dictionaries have, and some that no row uses.
        let few = sample_array(values, 20, seed);
        let picks: Vec<Option<u64>> =
            (0..len).map(|_| (!numbers.next().is_multiple_of(5)).then(|| numbers.next() % 15)).collect();
        let picked: Vec<ArrayRef> = picks
            .iter()
            .map(|pick| pick.map_or_else(|| arrow_array::new_null_array(values, 1), |row| few.slice(row as usize, 1)))
            .collect();
        let picked: Vec<&dyn Array> = picked.iter().map(AsRef::as_ref).collect();
        let flat = concat(&picked);
        return cast(&flat, data_type).unwrap();
    }
    let texts: Vec<Option<String>> = (0..len)
        .map(|_| {
            let word = WORDS[(numbers.next() % 9) as usize];
            (!numbers.next().is_multiple_of(5)).then(|| format!("{word}{}", "7".repeat((numbers.next() % 20) as usize)))
        })
        .collect();
    let bytes: Vec<Option<Vec<u8>>> = texts
        .iter()
        .map(|text| text.as_ref().map(|text| text.bytes().map(|byte| byte ^ (numbers.0 as u8)).collect()))
        .collect();
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            cast(&(Arc::new(StringArray::from(texts)) as ArrayRef), data_type).unwrap()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes: BinaryArray = bytes.iter().map(|bytes| bytes.as_deref()).collect();
            cast(&(Arc::new(bytes) as ArrayRef), data_type).unwrap()
        }
        DataType::Boolean => Arc::new(BooleanArray::from(
            texts.iter().map(|text| text.as_ref().map(String::is_empty)).collect::<Vec<_>>(),
        )),
        DataType::FixedSizeBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::new(*width);
            for text in &texts {
                match text {
                    None => builder.append_null(),
                    Some(_) => {
                        let number = numbers.next().to_le_bytes();
                        builder.append_value(&number[..*width as usize]).unwrap();
                    }
                }
            }
            Arc::new(builder.finish())
        }
        other => sample_fixed(other, &texts, &mut numbers),
    }
}

fn concat(arrays: &[&dyn Array]) -> ArrayRef {
    let parts: Vec<ArrayData> = arrays.iter().map(|array| array.to_data()).collect();
    let mut all = MutableArrayData::new(parts.iter().collect(), true, arrays.len());
    for (index, part) in parts.iter().enumerate() {
        all.try_extend(index, 0, part.len()).unwrap();
    }
    make_array(all.freeze())
}

/// Numbers within the ranges that Parquet keeps: times within a day, decimals within their precision.
fn sample_fixed(data_type: &DataType, texts: &[Option<String>], numbers: &mut Numbers) -> ArrayRef {
    let width = data_type.primitive_width().unwrap();
    let mut values = MutableBuffer::new(texts.len() * width);
    let mut valid = BooleanBufferBuilder::new(texts.len());
    for text in texts {
        valid.append(text.is_some());
        let number = numbers.next();
        let bounded: i128 = match data_type {
            DataType::Time32(_) | DataType::Time64(_) => i128::from(number % 86_000),
            DataType::Date64 => i128::from(number % 30_000) * 86_400_000,
            DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Timestamp(..) => {
                i128::from(number % 2_000_000_000_000) - 1_000_000_000_000
            }
            _ => i128::from(number.cast_signed()),
        };
        let mut bytes = vec![if bounded < 0 { 0xff } else { 0 }; width.max(16)];
        bytes[..16].copy_from_slice(&bounded.to_le_bytes());
        values.extend_from_slice(&bytes[..width]);
    }
    let nulls = NullBuffer::new(valid.finish());
    let data = ArrayData::builder(data_type.clone())
        .len(texts.len())
        .nulls(Some(nulls))
        .add_buffer(Buffer::from(values))
        .build()
        .unwrap();
    make_array(data)
}
