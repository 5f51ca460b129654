//! The one text of an integer: what makes equal values of int32, int64 and text columns equal bytes.

use arrow_schema::DataType;

/// How an integer type lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntegerType {
    /// Bytes of a value.
    pub(crate) width: usize,
    /// Whether it is in two's complement.
    pub(crate) signed: bool,
}

impl IntegerType {
    /// The integer type that `data_type` is.
    pub(crate) const fn of(data_type: &DataType) -> Option<IntegerType> {
        let (width, signed) = match data_type {
            DataType::Int8 => (1, true),
            DataType::Int16 => (2, true),
            DataType::Int32 => (4, true),
            DataType::Int64 => (8, true),
            DataType::UInt8 => (1, false),
            DataType::UInt16 => (2, false),
            DataType::UInt32 => (4, false),
            DataType::UInt64 => (8, false),
            _ => return None,
        };
        Some(IntegerType { width, signed })
    }

    /// Appends the decimal text of a value, which is given in little-endian order: digits without leading zeros, and a
    /// minus sign before those of negative values.
    pub(crate) fn write(self, value: &[u8], text: &mut Vec<u8>) {
        let negative = self.signed && value.last().is_some_and(|last| last & 0x80 != 0);
        let mut bytes = if negative { [0xff; 16] } else { [0; 16] };
        let len = value.len().min(self.width);
        bytes[..len].copy_from_slice(&value[..len]);
        let number = i128::from_le_bytes(bytes);
        if negative {
            text.push(b'-');
        }
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        // At most 64 bits, so at most 20 digits.
        let mut rest = number.unsigned_abs() as u64;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        text.extend_from_slice(&digits[at..]);
    }

    /// Appends the value that [`IntegerType::write`] writes as `text`; `false` when there is none.
    #[must_use]
    pub(crate) fn read(self, text: &[u8], value: &mut Vec<u8>) -> bool {
        let Some(number) = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i128>().ok()) else {
            return false;
        };
        let bits = 8 * self.width as u32;
        let range = if self.signed { -(1i128 << (bits - 1))..1i128 << (bits - 1) } else { 0..1i128 << bits };
        if !range.contains(&number) {
            return false;
        }
        let start = value.len();
        value.extend_from_slice(&number.to_le_bytes()[..self.width]);
        let mut again = Vec::with_capacity(text.len());
        self.write(&value[start..], &mut again);
        again == text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPES: [DataType; 8] = [
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
    ];

    proptest::proptest! {
        #[test]
        fn texts_are_those_of_the_language_and_are_read_again(bits: u64) {
            for data_type in TYPES {
                let integer = IntegerType::of(&data_type).unwrap();
                let value = &bits.to_le_bytes()[..integer.width];
                let shift = 64 - 8 * integer.width as u32;
                let wanted = match integer.signed {
                    true => ((bits << shift).cast_signed() >> shift).to_string(),
                    false => (bits << shift >> shift).to_string(),
                };
                let (mut text, mut again) = (Vec::new(), vec![7]);
                integer.write(value, &mut text);
                proptest::prop_assert_eq!(&String::from_utf8_lossy(&text), &wanted, "{}", data_type);
                proptest::prop_assert!(integer.read(&text, &mut again));
                proptest::prop_assert_eq!(&again[1..], value);
            }
        }
    }

    #[test]
    fn limits_are_written_and_what_is_no_canonical_text_is_refused() {
        for (data_type, value, wanted) in [
            (DataType::Int64, i64::MIN.to_le_bytes().to_vec(), "-9223372036854775808"),
            (DataType::UInt64, u64::MAX.to_le_bytes().to_vec(), "18446744073709551615"),
            (DataType::Int8, vec![0x80], "-128"),
            (DataType::Int32, vec![0; 4], "0"),
        ] {
            let mut text = Vec::new();
            IntegerType::of(&data_type).unwrap().write(&value, &mut text);
            assert_eq!(text, wanted.as_bytes());
        }
        let byte = IntegerType { width: 1, signed: true };
        for text in ["", "-", "+1", "01", "-0", "128", "-129", " 1", "1.0", "1e1", "\u{661}"] {
            assert!(!byte.read(text.as_bytes(), &mut Vec::new()), "{text}");
        }
    }
}
