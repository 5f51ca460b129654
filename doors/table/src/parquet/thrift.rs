//! Thrift's compact protocol as a tree, so that what this program does not know of a footer passes through it unchanged.
//!
//! Source: `thrift-compact-protocol.md` of Apache Thrift. A tree is bounded by [`VALUES_MAX`] and [`DEPTH_MAX`], whatever
//! the lengths in the bytes claim.

use parquet::errors::ParquetError;

/// Values that one tree may have.
pub(crate) const VALUES_MAX: usize = 6_000_000;

/// Structs within structs that one tree may have.
const DEPTH_MAX: usize = 24;

const STOP: u8 = 0;
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I16: u8 = 4;
/// The wire type of a 32-bit integer.
pub(crate) const I32: u8 = 5;
/// The wire type of a 64-bit integer.
pub(crate) const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;
const UUID: u8 = 13;

pub(crate) type Parsed<T> = Result<T, ParquetError>;

/// A value with its wire type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    /// A wire type of 3 to 6, and the number.
    Int(u8, i64),
    Double([u8; 8]),
    Binary(Vec<u8>),
    /// `LIST` or `SET`, the elements' wire type, and the elements.
    List(u8, u8, Vec<Value>),
    /// The wire types of keys and values, and the pairs.
    Map(u8, u8, Vec<(Value, Value)>),
    Struct(Struct),
    Uuid([u8; 16]),
}

/// A struct: field numbers and values, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Struct {
    fields: Vec<(i16, Value)>,
}

impl Struct {
    /// Parses a struct at the start of `bytes`; gives its length too.
    ///
    /// # Errors
    /// What does not parse, ends early or has too many values.
    pub(crate) fn parse(bytes: &[u8]) -> Parsed<(Struct, usize)> {
        let mut reader = Reader { bytes, at: 0, values_left: VALUES_MAX };
        let parsed = reader.parse_struct(0)?;
        Ok((parsed, reader.at))
    }

    /// The struct in compact form.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut bytes);
        bytes
    }

    pub(crate) fn get(&self, id: i16) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| *field == id).map(|(_, value)| value)
    }

    fn get_mut(&mut self, id: i16) -> Option<&mut Value> {
        self.fields.iter_mut().find(|(field, _)| *field == id).map(|(_, value)| value)
    }

    pub(crate) fn int(&self, id: i16) -> Option<i64> {
        match self.get(id)? {
            Value::Int(_, number) => Some(*number),
            _ => None,
        }
    }

    pub(crate) fn binary(&self, id: i16) -> Option<&[u8]> {
        match self.get(id)? {
            Value::Binary(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn record(&self, id: i16) -> Option<&Struct> {
        match self.get(id)? {
            Value::Struct(record) => Some(record),
            _ => None,
        }
    }

    pub(crate) fn record_mut(&mut self, id: i16) -> Option<&mut Struct> {
        match self.get_mut(id)? {
            Value::Struct(record) => Some(record),
            _ => None,
        }
    }

    /// The elements of a list of structs; empty where there is none.
    pub(crate) fn records(&self, id: i16) -> impl ExactSizeIterator<Item = &Struct> {
        let elements: &[Value] = match self.get(id) {
            Some(Value::List(_, STRUCT, elements)) => elements,
            _ => &[],
        };
        elements.iter().map(|element| match element {
            Value::Struct(record) => record,
            // The parser and `set_records` put only structs into lists of structs.
            other => unreachable!("{other:?} among structs"),
        })
    }

    /// Sets a field; fields stay in ascending order where they were.
    pub(crate) fn set(&mut self, id: i16, value: Value) {
        match self.get_mut(id) {
            Some(place) => *place = value,
            None => {
                let at = self.fields.iter().position(|(field, _)| *field > id).unwrap_or(self.fields.len());
                self.fields.insert(at, (id, value));
            }
        }
    }

    pub(crate) fn set_records(&mut self, id: i16, records: Vec<Struct>) {
        self.set(id, Value::List(LIST, STRUCT, records.into_iter().map(Value::Struct).collect()));
    }

    pub(crate) fn set_i32(&mut self, id: i16, number: i32) {
        self.set(id, Value::Int(I32, i64::from(number)));
    }

    pub(crate) fn set_i64(&mut self, id: i16, number: i64) {
        self.set(id, Value::Int(I64, number));
    }

    pub(crate) fn remove(&mut self, id: i16) {
        self.fields.retain(|(field, _)| *field != id);
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        let mut last = 0i16;
        for (id, value) in &self.fields {
            let wire = value.wire_type();
            match id.checked_sub(last) {
                Some(delta @ 1..=15) => bytes.push((delta as u8) << 4 | wire),
                _ => {
                    bytes.push(wire);
                    write_varint(bytes, zigzag(i64::from(*id)));
                }
            }
            last = *id;
            if !matches!(value, Value::Bool(_)) {
                value.write(bytes);
            }
        }
        bytes.push(STOP);
    }
}

impl Value {
    /// A list of 32-bit integers.
    pub(crate) fn list_of_i32(numbers: &[i32]) -> Value {
        Value::List(LIST, I32, numbers.iter().map(|number| Value::Int(I32, i64::from(*number))).collect())
    }

    /// A list of texts.
    pub(crate) fn list_of_text(text: &[u8]) -> Value {
        Value::List(LIST, BINARY, vec![Value::Binary(text.to_vec())])
    }

    fn wire_type(&self) -> u8 {
        match self {
            Value::Bool(true) => TRUE,
            Value::Bool(false) => FALSE,
            Value::Int(kind, _) => *kind,
            Value::Double(_) => DOUBLE,
            Value::Binary(_) => BINARY,
            Value::List(kind, ..) => *kind,
            Value::Map(..) => MAP,
            Value::Struct(_) => STRUCT,
            Value::Uuid(_) => UUID,
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Value::Bool(value) => bytes.push(if *value { TRUE } else { FALSE }),
            Value::Int(I8, number) => bytes.push(*number as u8),
            Value::Int(_, number) => write_varint(bytes, zigzag(*number)),
            Value::Double(raw) => bytes.extend_from_slice(raw),
            Value::Uuid(raw) => bytes.extend_from_slice(raw),
            Value::Binary(content) => {
                write_varint(bytes, content.len() as u64);
                bytes.extend_from_slice(content);
            }
            Value::List(_, kind, elements) => {
                match elements.len() {
                    short @ 0..=14 => bytes.push((short as u8) << 4 | kind),
                    long => {
                        bytes.push(0xf0 | kind);
                        write_varint(bytes, long as u64);
                    }
                }
                elements.iter().for_each(|element| element.write(bytes));
            }
            Value::Map(keys, values, pairs) => {
                write_varint(bytes, pairs.len() as u64);
                if !pairs.is_empty() {
                    bytes.push(keys << 4 | values);
                }
                for (key, value) in pairs {
                    key.write(bytes);
                    value.write(bytes);
                }
            }
            Value::Struct(record) => record.write(bytes),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    values_left: usize,
}

impl<'a> Reader<'a> {
    fn parse_struct(&mut self, depth: usize) -> Parsed<Struct> {
        if depth > DEPTH_MAX {
            return Err(problem("structs are nested too deep"));
        }
        let mut fields: Vec<(i16, Value)> = Vec::new();
        let mut last = 0i16;
        loop {
            let head = self.byte()?;
            if head == STOP {
                return Ok(Struct { fields });
            }
            let id = match head >> 4 {
                0 => i16::try_from(unzigzag(self.varint()?)).map_err(|_| problem("a field number is out of range"))?,
                delta => last.checked_add(i16::from(delta)).ok_or_else(|| problem("a field number is out of range"))?,
            };
            if fields.iter().any(|(field, _)| *field == id) {
                return Err(problem("a field stands twice"));
            }
            let value = match head & 15 {
                TRUE => Value::Bool(true),
                FALSE => Value::Bool(false),
                kind => self.parse_value(kind, depth)?,
            };
            self.count(1)?;
            fields.push((id, value));
            last = id;
        }
    }

    fn parse_value(&mut self, kind: u8, depth: usize) -> Parsed<Value> {
        Ok(match kind {
            // Only within lists and maps: there a truth value has a byte of its own.
            TRUE | FALSE => Value::Bool(self.byte()? == TRUE),
            I8 => Value::Int(I8, i64::from(self.byte()?.cast_signed())),
            I16 | I32 | I64 => Value::Int(kind, unzigzag(self.varint()?)),
            DOUBLE => Value::Double(self.array()?),
            UUID => Value::Uuid(self.array()?),
            BINARY => {
                let len = self.length()?;
                Value::Binary(self.take(len)?.to_vec())
            }
            LIST | SET => {
                let head = self.byte()?;
                let len = if head >> 4 == 15 { self.length()? } else { usize::from(head >> 4) };
                self.check_count(len)?;
                let mut elements = Vec::with_capacity(len);
                for _ in 0..len {
                    elements.push(self.parse_value(head & 15, depth + 1)?);
                }
                Value::List(kind, head & 15, elements)
            }
            MAP => {
                let len = self.length()?;
                self.check_count(len)?;
                let kinds = if len == 0 { 0 } else { self.byte()? };
                let mut pairs = Vec::with_capacity(len);
                for _ in 0..len {
                    pairs.push((self.parse_value(kinds >> 4, depth + 1)?, self.parse_value(kinds & 15, depth + 1)?));
                }
                Value::Map(kinds >> 4, kinds & 15, pairs)
            }
            STRUCT => Value::Struct(self.parse_struct(depth + 1)?),
            _ => return Err(problem("a wire type is unknown")),
        })
    }

    /// Each element takes a byte at least, so that a claim beyond what is left is false.
    fn check_count(&mut self, count: usize) -> Parsed<()> {
        if count > self.bytes.len() - self.at {
            return Err(cut_short());
        }
        self.count(count)
    }

    fn count(&mut self, values: usize) -> Parsed<()> {
        self.values_left = self.values_left.checked_sub(values).ok_or_else(|| problem("it has too many values"))?;
        Ok(())
    }

    fn byte(&mut self) -> Parsed<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(cut_short)?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, len: usize) -> Parsed<&'a [u8]> {
        let end = self.at.checked_add(len).ok_or_else(cut_short)?;
        let taken = self.bytes.get(self.at..end).ok_or_else(cut_short)?;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn length(&mut self) -> Parsed<usize> {
        usize::try_from(self.varint()?).map_err(|_| cut_short())
    }

    fn varint(&mut self) -> Parsed<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(problem("an integer is too long"))
    }
}

fn write_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

fn problem(text: &str) -> ParquetError {
    ParquetError::General(format!("Thrift: {text}"))
}

/// The bytes end before the struct does; more of them may mend it.
pub(crate) fn cut_short() -> ParquetError {
    ParquetError::EOF("Thrift: it ends within a struct".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Struct {
        let mut inner = Struct::default();
        inner.set(1, Value::Bool(true));
        inner.set(40, Value::Binary(b"abc".to_vec()));
        let mut outer = Struct::default();
        outer.set_i32(3, -7);
        outer.set_i64(1, i64::MIN);
        outer.set_records(5, vec![inner.clone(); 20]);
        outer.set(6, Value::Map(BINARY, I32, vec![(Value::Binary(vec![1]), Value::Int(I32, 5))]));
        outer.set(7, Value::Double([1; 8]));
        outer.set(8, Value::List(SET, TRUE, vec![Value::Bool(true), Value::Bool(false)]));
        outer.set(9, Value::Int(I8, -1));
        outer.set(10, Value::Uuid([9; 16]));
        outer.set(300, Value::Struct(inner));
        outer
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = sample().to_bytes();
        let len = bytes.len();
        bytes.extend_from_slice(b"more");
        assert_eq!(Struct::parse(&bytes).unwrap(), (sample(), len));
        let first = sample().records(5).len();
        assert_eq!((first, sample().int(3), sample().int(4)), (20, Some(-7), None));
    }

    #[test]
    fn every_cut_is_noticed_and_no_claim_is_believed() {
        let bytes = sample().to_bytes();
        for len in 0..bytes.len() {
            assert!(Struct::parse(&bytes[..len]).is_err(), "{len}");
        }
        // A list of 2^31 structs, of 2^35 bytes, a text of 2^63 bytes.
        for hostile in [
            &[0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07][..],
            &[0x19, 0xf3, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
        ] {
            assert!(Struct::parse(hostile).is_err());
        }
        assert!(Struct::parse(&[0x1c; 4000]).unwrap_err().to_string().contains("too deep"));
        assert!(Struct::parse(&[0x19; 4000]).is_err());
    }

    proptest::proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            if let Ok((parsed, _)) = Struct::parse(&bytes) {
                let written = parsed.to_bytes();
                proptest::prop_assert_eq!(Struct::parse(&written).unwrap().0, parsed);
            }
        }
    }
}
