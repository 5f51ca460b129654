//! The canonical bytes of a value, in which it is protected: what its Arrow type holds, in little-endian order.
//!
//! Texts and byte strings are themselves, booleans one byte. Parquet stores small integers in 32 bits and decimals in
//! several ways; their canonical form is that of the Arrow type, so that equal values of differently stored columns look
//! equal to `deterministic` and `token`.

use arrow_schema::DataType;
use parquet::basic::Type;

/// How physical values, as Parquet's PLAIN encoding has them, become canonical ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The bytes as they are.
    Raw,
    /// The lower bytes of a 32-bit integer.
    Narrow { width: usize, signed: bool },
    /// A little-endian integer, extended by its sign.
    LittleDecimal { width: usize },
    /// A big-endian integer, turned round and extended by its sign.
    BigDecimal { width: usize },
}

impl Form {
    /// The form of values of a physical and an Arrow type.
    pub(crate) fn new(physical: Type, data_type: &DataType) -> Form {
        let width = data_type.primitive_width().unwrap_or(0);
        let is_decimal = matches!(
            data_type,
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
        );
        match physical {
            Type::INT32 | Type::INT64 if is_decimal => Form::LittleDecimal { width },
            Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY if is_decimal => Form::BigDecimal { width },
            Type::INT32 if width == 1 || width == 2 => {
                Form::Narrow { width, signed: matches!(data_type, DataType::Int8 | DataType::Int16) }
            }
            _ => Form::Raw,
        }
    }

    /// Appends the canonical form of a physical value; `false` where it is past the type's range.
    pub(crate) fn push_canonical(self, physical: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        match self {
            Form::Raw => {
                out.extend_from_slice(physical);
                return true;
            }
            Form::Narrow { width, .. } => out.extend_from_slice(&physical[..width]),
            Form::LittleDecimal { width } => extend(physical.iter().copied(), width, out),
            Form::BigDecimal { width } => extend(physical.iter().rev().copied(), width, out),
        }
        // Nothing is lost when the value can be made again.
        let mut again = Vec::new();
        let canonical = out[start..].to_vec();
        let restored = self.push_physical(&canonical, Some(physical.len()), &mut again);
        restored && again == physical
    }

    /// Appends the physical form of a canonical value: `width` bytes, or as many as needed. `false` where it does not fit.
    pub(crate) fn push_physical(self, canonical: &[u8], width: Option<usize>, out: &mut Vec<u8>) -> bool {
        match self {
            Form::Raw => {
                out.extend_from_slice(canonical);
                width.is_none_or(|width| canonical.len() == width)
            }
            Form::Narrow { width: narrow, signed } => {
                if canonical.len() != narrow {
                    return false;
                }
                let fill = if signed { sign_of(canonical) } else { 0 };
                out.extend_from_slice(canonical);
                out.resize(out.len() + 4 - narrow, fill);
                true
            }
            Form::LittleDecimal { width: wide } => {
                let width = width.unwrap_or(wide);
                canonical.len() == wide && fits(canonical, width) && {
                    extend(canonical.iter().copied(), width, out);
                    true
                }
            }
            Form::BigDecimal { width: wide } => {
                if canonical.len() != wide {
                    return false;
                }
                let shortest = (1..wide).find(|len| fits(canonical, *len)).unwrap_or(wide);
                let width = width.unwrap_or(shortest);
                if width < shortest {
                    return false;
                }
                let start = out.len();
                extend(canonical.iter().copied(), width, out);
                out[start..].reverse();
                true
            }
        }
    }
}

fn sign_of(little: &[u8]) -> u8 {
    if little.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 }
}

/// Whether a little-endian integer keeps its value when only `width` bytes of it are left.
fn fits(little: &[u8], width: usize) -> bool {
    width >= little.len() || (width > 0 && little[width..].iter().all(|byte| *byte == sign_of(&little[..width])))
}

/// Appends a little-endian integer cut or extended to `width` bytes.
fn extend(little: impl Iterator<Item = u8>, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend(little.take(width));
    let fill = sign_of(&out[start..]);
    out.resize(start + width, fill);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(form: Form, physical: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![9];
        form.push_canonical(physical, &mut out).then(|| out.split_off(1))
    }

    #[test]
    fn forms_follow_the_arrow_types() {
        let small = Form::new(Type::INT32, &DataType::Int8);
        assert_eq!(canonical(small, &(-3i32).to_le_bytes()), Some(vec![0xfd]));
        assert_eq!(canonical(small, &300i32.to_le_bytes()), None, "past an 8-bit integer");
        let unsigned = Form::new(Type::INT32, &DataType::UInt16);
        assert_eq!(canonical(unsigned, &65_535i32.to_le_bytes()), Some(vec![0xff, 0xff]));
        assert_eq!(Form::new(Type::INT32, &DataType::UInt32), Form::Raw);
        let decimal = DataType::Decimal128(9, 2);
        let minus = (-1234i128).to_le_bytes().to_vec();
        for (physical, value) in [
            (Type::INT32, (-1234i32).to_le_bytes().to_vec()),
            (Type::INT64, (-1234i64).to_le_bytes().to_vec()),
            (Type::FIXED_LEN_BYTE_ARRAY, (-1234i32).to_be_bytes().to_vec()),
            (Type::BYTE_ARRAY, vec![0xfb, 0x2e]),
            (Type::FIXED_LEN_BYTE_ARRAY, (-1234i128).to_be_bytes().to_vec()),
        ] {
            assert_eq!(canonical(Form::new(physical, &decimal), &value), Some(minus.clone()), "{physical}");
        }
        assert_eq!(canonical(Form::new(Type::BYTE_ARRAY, &decimal), &[1; 17]), None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut out = Vec::new();
        assert!(!Form::Raw.push_physical(&[1, 2], Some(4), &mut out));
        assert!(!Form::Narrow { width: 1, signed: true }.push_physical(&[1, 2], Some(4), &mut out));
        let wide = i128::from(i64::MAX).to_le_bytes();
        assert!(!Form::LittleDecimal { width: 16 }.push_physical(&wide, Some(4), &mut out));
        assert!(!Form::BigDecimal { width: 16 }.push_physical(&wide, Some(4), &mut out));
        assert!(!Form::BigDecimal { width: 16 }.push_physical(&wide[..4], None, &mut out));
    }

    proptest::proptest! {
        #[test]
        fn decimals_come_back(number in proptest::num::i128::ANY, shift in 0u32..127) {
            let number = number >> shift;
            for (form, width) in [(Form::LittleDecimal { width: 16 }, 16), (Form::BigDecimal { width: 16 }, 16)] {
                let mut physical = Vec::new();
                proptest::prop_assert!(form.push_physical(&number.to_le_bytes(), Some(width), &mut physical));
                proptest::prop_assert_eq!(canonical(form, &physical).unwrap(), number.to_le_bytes());
            }
            let mut shortest = Vec::new();
            let form = Form::BigDecimal { width: 16 };
            proptest::prop_assert!(form.push_physical(&number.to_le_bytes(), None, &mut shortest));
            proptest::prop_assert_eq!(canonical(form, &shortest).unwrap(), number.to_le_bytes());
        }
    }
}
