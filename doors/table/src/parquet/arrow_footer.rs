//! The Arrow schema that programs keep in a Parquet file's metadata.
//!
//! polars has integers of 128 bits there, which neither Arrow's format nor the library knows. They are taken for ones of 64
//! bits while the schema is worked on, and get their width back when it is written.

use std::sync::Arc;

use arrow_ipc::convert::try_schema_from_ipc_buffer;
use arrow_schema::{Field, FieldRef, Metadata, Schema};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parquet::arrow::encode_arrow_schema;

const CONTINUATION: [u8; 4] = [0xff; 4];
const WIDE: i32 = 128;
const STAND_IN: i32 = 64;

/// The place of a field within a field: the children to go by.
type Place = Vec<usize>;

/// A schema, and where it has integers of 128 bits.
#[derive(PartialEq)]
pub(crate) struct Described {
    schema: Schema,
    /// By field of the schema.
    wide: Vec<Vec<Place>>,
}

impl Described {
    pub(crate) fn new(
        fields: impl IntoIterator<Item = (FieldRef, Vec<Place>)>,
        pairs: impl IntoIterator<Item = (String, String)>,
    ) -> Described {
        let (fields, wide): (Vec<FieldRef>, Vec<Vec<Place>>) = fields.into_iter().unzip();
        let metadata: Metadata = pairs.into_iter().collect();
        Described { schema: Schema::new_with_metadata(fields, metadata), wide }
    }

    /// Nothing where it is none.
    pub(crate) fn decode(encoded: &str) -> Option<Described> {
        let mut message = STANDARD.decode(encoded).ok()?;
        let found = integers(&message)?;
        let mut wide = vec![Vec::new(); found.fields];
        for Integer { field, place, at, .. } in found.integers.into_iter().filter(|integer| integer.bits == WIDE) {
            message.get_mut(at..at + 4)?.copy_from_slice(&STAND_IN.to_le_bytes());
            wide[field].push(place);
        }
        let schema = try_schema_from_ipc_buffer(&message).ok()?;
        Some(Described { schema, wide })
    }

    /// Nothing where the library does not write what it should.
    pub(crate) fn encode(&self) -> Option<String> {
        let encoded = encode_arrow_schema(&self.schema);
        if self.wide.iter().all(Vec::is_empty) {
            return Some(encoded);
        }
        let mut message = STANDARD.decode(encoded).ok()?;
        for Integer { field, place, at, .. } in integers(&message)?.integers {
            if self.wide.get(field)?.contains(&place) {
                message.get_mut(at..at + 4)?.copy_from_slice(&WIDE.to_le_bytes());
            }
        }
        Some(STANDARD.encode(message))
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (&Arc<Field>, Vec<Place>)> {
        self.schema.fields().iter().zip(self.wide.iter().cloned())
    }

    /// The schema's own metadata.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&String, &String)> {
        self.schema.metadata().iter()
    }
}

struct Integer {
    field: usize,
    place: Place,
    bits: i32,
    /// Where the bits stand in the message.
    at: usize,
}

struct Found {
    fields: usize,
    integers: Vec<Integer>,
}

/// All fields of integers in an encapsulated message.
fn integers(message: &[u8]) -> Option<Found> {
    let prefix = if message.starts_with(&CONTINUATION) { 8 } else { 4 };
    let schema = arrow_ipc::root_as_message(message.get(prefix..)?).ok()?.header_as_schema()?;
    let fields = schema.fields()?;
    let mut waiting: Vec<_> = fields.iter().enumerate().map(|(at, field)| (at, Place::new(), field)).collect();
    let mut integers = Vec::new();
    while let Some((field, place, found)) = waiting.pop() {
        if let Some(int) = found.type_as_int() {
            let offset = usize::from(int._tab.vtable().get(arrow_ipc::Int::VT_BITWIDTH));
            // Absent, it would be the default, which is no width.
            if offset > 0 {
                let at = prefix + int._tab.loc() + offset;
                integers.push(Integer { field, place: place.clone(), bits: int.bitWidth(), at });
            }
        }
        for (at, child) in found.children().into_iter().flatten().enumerate() {
            let mut place = place.clone();
            place.push(at);
            waiting.push((field, place, child));
        }
    }
    Some(Found { fields: fields.len(), integers })
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    #[test]
    fn integers_of_128_bits_keep_their_width_and_others_theirs() {
        let list = |name: &str| {
            let item = Field::new("item", DataType::Int64, true);
            Arc::new(Field::new(name, DataType::Struct(vec![item.clone(), item.with_name("b")].into()), true))
        };
        let plain = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
        let fields = [(plain("a"), vec![]), (plain("b"), vec![vec![]]), (list("c"), vec![vec![1]])];
        let encoded = Described::new(fields, [("k".to_owned(), "v".to_owned())]).encode().unwrap();
        assert!(
            try_schema_from_ipc_buffer(&STANDARD.decode(&encoded).unwrap()).is_err(),
            "the library takes them by now"
        );
        let back = Described::decode(&encoded).unwrap();
        assert_eq!(back.wide, [vec![], vec![vec![]], vec![vec![1]]]);
        assert_eq!(back.encode().unwrap(), encoded);
        assert_eq!(back.pairs().collect::<Vec<_>>(), [(&"k".to_owned(), &"v".to_owned())]);
        let widths = integers(&STANDARD.decode(&encoded).unwrap()).unwrap().integers;
        assert_eq!(widths.iter().map(|integer| integer.bits).filter(|bits| *bits == WIDE).count(), 2);
    }

    #[test]
    fn what_is_no_schema_is_none() {
        for text in ["", "%", "AAAA", "/////wAAAAA=", "/////xAAAAAAAAoADAA="] {
            assert!(Described::decode(text).is_none(), "{text}");
        }
    }

    /// The schema comes from the file, which may be anybody's.
    #[test]
    fn no_changed_byte_is_a_panic() {
        let types = [
            DataType::Int64,
            DataType::Utf8View,
            DataType::Decimal128(9, 2),
            DataType::FixedSizeBinary(3),
            DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some("UTC".into())),
            DataType::Time32(arrow_schema::TimeUnit::Second),
            DataType::Interval(arrow_schema::IntervalUnit::DayTime),
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            DataType::new_list(DataType::Float16, true),
            DataType::new_fixed_size_list(DataType::Date64, 2, true),
        ];
        let fields = types.into_iter().enumerate().map(|(at, data_type)| {
            let field: FieldRef = Arc::new(Field::new(format!("f{at}"), data_type, true));
            (field, vec![])
        });
        let encoded = Described::new(fields, [("k".to_owned(), "v".to_owned())]).encode().unwrap();
        let sound = STANDARD.decode(encoded).unwrap();
        let mut decoded = 0;
        for at in 0..sound.len() {
            for value in (0..=u8::MAX).step_by(5).chain([1, 2, 3, 4, 254]) {
                let mut changed = sound.clone();
                changed[at] = value;
                decoded += usize::from(Described::decode(&STANDARD.encode(changed)).is_some());
            }
        }
        assert!(decoded > sound.len(), "some changes leave a schema: {decoded}");
    }
}
