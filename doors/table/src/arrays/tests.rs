use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, LargeBinaryArray, StringArray,
    StringViewArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use ciphermill::Mill;
use ciphermill_contract::Direction::{self, Decrypt, Encrypt};

use super::ArrayColumn;
use super::parts::Builder;
use crate::error::{Place, Result, TableError};
use crate::keys::RootKey;
use crate::rekey::Rekey;
use crate::spec::{ColumnSpec, Method};
use crate::testing::{mill, root_key};
use crate::types::tests::all_types;
use crate::types::{check_type, width_of};
use crate::values::{ValueEncoding, Values};

struct Bench {
    mill: Mill,
    root: RootKey,
}

impl Bench {
    fn new() -> Bench {
        let mill = mill();
        let root = root_key(&mill, &[7; 32]);
        Bench { mill, root }
    }

    fn open(&self, spec: &str, data_type: &DataType, direction: Direction) -> Result<ArrayColumn> {
        let spec = ColumnSpec::parse(spec).unwrap();
        ArrayColumn::open(&spec, data_type, direction, Path::new("customers"), &self.mill, &self.root)
    }

    fn run(&self, spec: &str, clear: &DataType, direction: Direction, array: &ArrayRef) -> Result<ArrayRef> {
        self.open(spec, clear, direction)?.run(array, 1)
    }
}

/// Values of a type with a null among them, from the bytes of small numbers; of dictionaries the values'.
fn sample(data_type: &DataType, rows: usize) -> ArrayRef {
    let mut builder = Builder::new(rows);
    for row in 0..rows {
        let text = format!("{row:>width$}", width = row % 40);
        let width = width_of(data_type).unwrap_or(0);
        let number: Vec<u8> = (0..width).map(|at| (row * 3 + at) as u8 & 0x3f).collect();
        let value = match data_type {
            DataType::Boolean => vec![row as u8 & 1],
            _ if width > 0 => number,
            _ if row % 9 == 0 => Vec::new(),
            _ => text.into_bytes(),
        };
        builder.push((row % 7 != 3).then_some(&value[..]));
    }
    builder.finish(data_type, &|row| Place::new(Path::new("sample"), row as u64, "c")).unwrap()
}

fn dictionary_of(values: ArrayRef) -> ArrayRef {
    let keys = Int32Array::from_iter((0..50).map(|row| (row % 5 != 1).then_some(row * 7 % values.len() as i32)));
    Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).unwrap())
}

#[test]
fn every_type_comes_back_whole_and_in_slices() {
    let bench = Bench::new();
    for data_type in all_types().iter().filter(|data_type| !matches!(data_type, DataType::Dictionary(..))) {
        let whole = sample(data_type, 100);
        for array in [Arc::clone(&whole), whole.slice(13, 60), whole.slice(4, 3), whole.slice(5, 0)] {
            for method in ["random", "deterministic"] {
                let spec = format!("c={method}");
                let stored = bench.run(&spec, data_type, Encrypt, &array).unwrap();
                assert!(matches!(stored.data_type(), DataType::Binary | DataType::LargeBinary));
                assert_eq!((stored.len(), stored.null_count()), (array.len(), array.null_count()));
                let again = bench.run(&spec, data_type, Decrypt, &stored).unwrap();
                assert_eq!(&again, &array, "{method} {data_type}");
            }
            let tokens = bench.run("c=token:len=16", data_type, Encrypt, &array).unwrap();
            assert_eq!((tokens.len(), tokens.null_count()), (array.len(), array.null_count()), "{data_type}");
        }
    }
}

#[test]
fn deterministic_values_and_tokens_are_those_of_a_file() {
    let bench = Bench::new();
    let texts = ["", "Ada", "a text that is longer than one block of a cipher", "\u{e4}\u{20ac}"];
    let arrays: [ArrayRef; 2] =
        [Arc::new(StringArray::from(texts.to_vec())), Arc::new(StringViewArray::from(texts.to_vec()))];
    for spec in ["c=deterministic:as=name", "c=token:as=name", "c=token:as=name,len=20"] {
        let (parsed, path) = (ColumnSpec::parse(spec).unwrap(), Path::new("lines"));
        let encoding = ValueEncoding::Hex;
        let mut lines =
            Values::open(&parsed, &DataType::Utf8, Encrypt, encoding, path, &bench.mill, &bench.root).unwrap();
        let mut wanted = Vec::new();
        // An empty line stands for null, so the empty text is not asked for.
        lines.run(&texts[1..].iter().map(|text| text.as_bytes()).collect::<Vec<_>>(), &mut wanted).unwrap();
        let wanted: Vec<Vec<u8>> = wanted.split(|byte| *byte == b'\n').map(|line| hex::decode(line).unwrap()).collect();
        for array in &arrays {
            let stored = super::parts::canonical(&bench.run(spec, array.data_type(), Encrypt, array).unwrap());
            let found: Vec<&[u8]> = stored.iter().skip(1).flatten().collect();
            assert_eq!(found, wanted[..texts.len() - 1], "{spec} {}", array.data_type());
        }
    }
}

#[test]
fn numbers_join_with_texts_where_they_are_protected_as_such() {
    let bench = Bench::new();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(-5), None, Some(1 << 40)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("-5"), None, Some("1099511627776")]));
    let spec = "c=deterministic:as-text";
    let stored = bench.run(spec, &DataType::Int64, Encrypt, &numbers).unwrap();
    assert_eq!(&stored, &bench.run(spec, &DataType::Utf8, Encrypt, &texts).unwrap());
    assert_eq!(&bench.run(spec, &DataType::Int64, Decrypt, &stored).unwrap(), &numbers);
}

#[test]
fn texts_of_ff1_keep_their_type_and_come_back() {
    let bench = Bench::new();
    let numbers = [Some("4929 1234 5678 9012"), None, Some("4000 0000 0000 0002")];
    let spec = "c=ff1:sep=- ";
    for array in
        [Arc::new(StringArray::from(numbers.to_vec())) as ArrayRef, Arc::new(StringViewArray::from(numbers.to_vec()))]
    {
        let stored = bench.run(spec, array.data_type(), Encrypt, &array).unwrap();
        assert_eq!(stored.data_type(), array.data_type());
        assert_ne!(&stored, &array);
        assert_eq!(&bench.run(spec, array.data_type(), Decrypt, &stored).unwrap(), &array);
    }
}

/// Views go through the worker, one text after the other, and others where they lie.
#[test]
fn texts_of_ff1_are_the_same_wherever_they_lie() {
    let bench = Bench::new();
    let texts = |row: usize| match row % 5 {
        0 => None,
        1 => Some(format!("{:012}", row * 7919)),
        2 => Some(format!("{:04}-{:05}", row, row * 31)),
        3 => Some(format!("+41\u{b7}{:09}", row * 104_729)),
        _ => Some(format!("{row:09}")),
    };
    let rows = crate::column::TEXTS_PER_RUN + 100;
    let all: Vec<Option<String>> = (0..rows).map(texts).collect();
    for spec in
        ["c=ff1:sep=-+\u{b7}", "c=ff1:sep=-+\u{b7},keep=1,keep-last=2", "c=ff1:alphabet=0123456789+-,sep=\u{b7}"]
    {
        let narrow: ArrayRef = Arc::new(StringArray::from(all.clone()));
        let view: ArrayRef = Arc::new(StringViewArray::from(all.clone()));
        let stored = bench.run(spec, &DataType::Utf8, Encrypt, &narrow).unwrap();
        let wanted = bench.run(spec, &DataType::Utf8View, Encrypt, &view).unwrap();
        assert!(stored.as_string::<i32>().iter().eq(wanted.as_string_view().iter()), "{spec}");
        assert_eq!(&bench.run(spec, &DataType::Utf8, Decrypt, &stored).unwrap(), &narrow, "{spec}");
        let slice = bench.run(spec, &DataType::Utf8, Encrypt, &narrow.slice(13, 60)).unwrap();
        assert_eq!(&slice, &stored.slice(13, 60), "{spec}");
        let error = bench.run("c=ff1", &DataType::Utf8, Encrypt, &narrow.slice(1, 10)).unwrap_err();
        assert!(matches!(&error, TableError::NotInAlphabet(place) if place.row == 2), "{error}");
    }
}

#[test]
fn what_lies_beneath_nulls_does_not_come_through() {
    let bench = Bench::new();
    let (offsets, nulls) = (vec![0, 9, 18], NullBuffer::from(vec![true, false]));
    let texts = StringArray::new(OffsetBuffer::new(offsets.into()), b"123456789987654321".into(), Some(nulls));
    for spec in ["c=ff1", "c=deterministic", "c=random", "c=token"] {
        let stored = bench.run(spec, &DataType::Utf8, Encrypt, &(Arc::new(texts.clone()) as ArrayRef)).unwrap();
        let data = stored.to_data();
        let has = |buffer: &arrow_buffer::Buffer| buffer.windows(9).any(|bytes| bytes == b"987654321");
        assert!(stored.is_null(1) && !data.buffers().iter().any(has), "{spec}");
    }
}

#[test]
fn dictionaries_stay_dictionaries_unless_equal_values_differ() {
    let bench = Bench::new();
    let array = dictionary_of(sample(&DataType::Utf8, 20));
    let stored = bench.run("c=deterministic", array.data_type(), Encrypt, &array).unwrap();
    assert_eq!(stored.as_any_dictionary().values().len(), 20);
    assert_eq!(&bench.run("c=deterministic", array.data_type(), Decrypt, &stored).unwrap().to_data(), &array.to_data());
    let random = bench.run("c=random", array.data_type(), Encrypt, &array).unwrap();
    let distinct: std::collections::HashSet<&[u8]> = random.as_binary::<i32>().iter().flatten().collect();
    assert_eq!(distinct.len(), array.len() - array.logical_null_count(), "each row has a nonce of its own");
    let plain = bench.run("c=random", array.data_type(), Decrypt, &random).unwrap();
    assert_eq!(&plain, &super::parts::unpacked(&array).unwrap());
}

#[test]
fn random_values_differ_and_are_bound_to_their_column() {
    let bench = Bench::new();
    let array: ArrayRef = Arc::new(StringArray::from(vec!["same"; 1000]));
    let stored = bench.run("c=random", &DataType::Utf8, Encrypt, &array).unwrap();
    let distinct: std::collections::HashSet<&[u8]> = stored.as_binary::<i32>().iter().flatten().collect();
    assert_eq!(distinct.len(), 1000);
    for (spec, clear) in [("d=random", DataType::Utf8), ("c=random", DataType::Binary)] {
        let error = bench.run(spec, &clear, Decrypt, &stored).unwrap_err();
        assert!(matches!(&error, TableError::Authentication(place) if place.row == 1), "{error}");
    }
}

#[test]
fn errors_name_the_row() {
    let bench = Bench::new();
    let array = sample(&DataType::Utf8, 50);
    let stored = bench.run("c=deterministic", &DataType::Utf8, Encrypt, &array).unwrap();
    let stored = stored.as_binary::<i32>();
    let changed = |row: usize, change: &dyn Fn(&[u8]) -> Vec<u8>| -> ArrayRef {
        let value = |(at, value): (usize, Option<&[u8]>)| {
            value.map(|value| if at == row { change(value) } else { value.to_vec() })
        };
        Arc::new(stored.iter().enumerate().map(value).collect::<BinaryArray>())
    };
    let mut column = bench.open("c=deterministic", &DataType::Utf8, Decrypt).unwrap();
    column.run(&(Arc::new(stored.clone()) as ArrayRef), 1).unwrap();
    let flipped = changed(20, &|value| value.iter().map(|byte| byte ^ 1).collect());
    let error = column.run(&flipped, 51).unwrap_err();
    assert!(matches!(&error, TableError::Authentication(place) if place.row == 71), "{error}");
    let error = column.run(&changed(5, &|value| value[..15].to_vec()), 51).unwrap_err();
    assert!(matches!(&error, TableError::Damaged { place, .. } if place.row == 56), "{error}");
}

#[test]
fn errors_in_a_dictionary_name_the_first_row_with_the_value() {
    let bench = Bench::new();
    let array = dictionary_of(sample(&DataType::Utf8, 20));
    let stored = bench.run("c=deterministic", array.data_type(), Encrypt, &array).unwrap();
    let dictionary = stored.as_any_dictionary();
    let values = dictionary.values().as_binary::<i32>();
    // Row 3 has key 21 % 20.
    let changed = values
        .iter()
        .enumerate()
        .map(|(at, value)| value.map(|value| value.iter().map(|byte| byte ^ u8::from(at == 1)).collect::<Vec<_>>()));
    let changed = dictionary.with_values(Arc::new(changed.collect::<BinaryArray>()));
    let mut column = bench.open("c=deterministic", array.data_type(), Decrypt).unwrap();
    let error = column.run(&changed, 101).unwrap_err();
    assert!(matches!(&error, TableError::Authentication(place) if place.row == 104), "{error}");
}

#[test]
fn what_has_no_meaning_is_refused() {
    let bench = Bench::new();
    let refused =
        |spec, clear: &DataType, direction| bench.open(spec, clear, direction).err().map(|error| error.to_string());
    for (spec, clear, direction, rule) in [
        ("c=token", DataType::Utf8, Decrypt, "tokens cannot be turned back"),
        ("c=ff1:on-bad=token", DataType::Utf8, Encrypt, "on-bad is error or null"),
        ("c=ff1", DataType::Int32, Encrypt, "ff1 works on text columns"),
        ("c=random", DataType::Null, Encrypt, "only flat types"),
    ] {
        assert!(refused(spec, &clear, direction).is_some_and(|error| error.contains(rule)), "{spec} {clear}");
    }
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    for (clear, direction) in [(DataType::Utf8, Encrypt), (DataType::Int32, Decrypt)] {
        let error = bench.run("c=random", &clear, direction, &numbers).unwrap_err();
        assert!(matches!(error, TableError::UnsupportedType { .. }), "{error}");
    }
    // A value of four bytes is none of eight.
    let stored = bench.run("c=deterministic:as=a", &DataType::Int32, Encrypt, &numbers).unwrap();
    let error = bench.run("c=deterministic:as=a", &DataType::Int64, Decrypt, &stored).unwrap_err();
    assert!(matches!(error, TableError::NotOfType { .. }), "{error}");
    let long: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values([vec![0; crate::VALUE_LEN_MAX + 1]]));
    let error = bench.run("c=deterministic", &DataType::LargeBinary, Encrypt, &long).unwrap_err();
    assert!(matches!(error, TableError::TooLong { .. }), "{error}");
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1234567", "no number", "7654321"]));
    let stored = bench.run("c=ff1:on-bad=null", &DataType::Utf8, Encrypt, &texts).unwrap();
    assert!(stored.is_null(1) && stored.null_count() == 1);
}

fn other_key(bench: &Bench, columns: &[&str]) -> Rekey {
    let root = RootKey { version: 7, ..root_key(&bench.mill, &[9; 32]) };
    Rekey { root, columns: columns.iter().map(|column| ColumnSpec::parse(column).unwrap()).collect() }
}

fn rekeyed(bench: &Bench, spec: &str, clear: &DataType, to: &Rekey, array: &ArrayRef) -> Result<ArrayRef> {
    let spec = ColumnSpec::parse(spec).unwrap();
    ArrayColumn::rekey(&spec, clear, Path::new("customers"), &bench.mill, &bench.root, to)?.run(array, 1)
}

#[test]
fn every_type_is_rekeyed_between_all_methods() {
    let bench = Bench::new();
    let is_plain = |data_type: &DataType| {
        check_type(&Method::Random, data_type).is_ok() && !matches!(data_type, DataType::Dictionary(..))
    };
    for data_type in all_types().into_iter().filter(is_plain) {
        let clear = sample(&data_type, 200);
        for (from, to) in [
            ("random", "random"),
            ("random", "deterministic"),
            ("deterministic", "random"),
            ("deterministic", "deterministic"),
        ] {
            let new = other_key(&bench, &[&format!("c={to}")]);
            let there = Bench { mill: bench.mill.clone(), root: new.root.clone() };
            let stored = bench.run(&format!("c={from}"), &data_type, Encrypt, &clear).unwrap();
            let moved = rekeyed(&bench, &format!("c={from}"), &data_type, &new, &stored).unwrap();
            let back = there.run(&format!("c={to}"), &data_type, Decrypt, &moved).unwrap();
            assert_eq!(&back, &clear, "{data_type} {from} {to}");
            assert!(bench.run(&format!("c={to}"), &data_type, Decrypt, &moved).is_err(), "the old key opens it");
            if (from, to) == ("random", "deterministic") {
                assert_eq!(&moved, &there.run("c=deterministic", &data_type, Encrypt, &clear).unwrap());
            }
            let part = rekeyed(&bench, &format!("c={from}"), &data_type, &new, &stored.slice(13, 77)).unwrap();
            let back = there.run(&format!("c={to}"), &data_type, Decrypt, &part).unwrap();
            assert_eq!(&back, &clear.slice(13, 77), "{data_type} {from} {to}");
        }
    }
}

#[test]
fn what_is_rekeyed_to_tokens_is_what_tokens_are() {
    let bench = Bench::new();
    let clear = sample(&DataType::Utf8, 100);
    let new = other_key(&bench, &["c=token:len=20"]);
    let there = Bench { mill: bench.mill.clone(), root: new.root.clone() };
    let stored = bench.run("c=deterministic", &DataType::Utf8, Encrypt, &clear).unwrap();
    let moved = rekeyed(&bench, "c=deterministic", &DataType::Utf8, &new, &stored).unwrap();
    assert_eq!(&moved, &there.run("c=token:len=20", &DataType::Utf8, Encrypt, &clear).unwrap());
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("25-989-741-2988"), None, Some("11-719-748-3364")]));
    let stored = bench.run("c=ff1:sep=-", &DataType::Utf8, Encrypt, &texts).unwrap();
    let moved = rekeyed(&bench, "c=ff1:sep=-", &DataType::Utf8, &other_key(&bench, &[]), &stored).unwrap();
    assert_eq!(&there.run("c=ff1:sep=-", &DataType::Utf8, Decrypt, &moved).unwrap(), &texts);
    let names = dictionary_of(sample(&DataType::Utf8, 9));
    let stored = bench.run("c=deterministic", names.data_type(), Encrypt, &names).unwrap();
    let moved = rekeyed(&bench, "c=deterministic", names.data_type(), &other_key(&bench, &[]), &stored).unwrap();
    assert!(matches!(moved.data_type(), DataType::Dictionary(..)));
    let there = there.run("c=deterministic", &DataType::Utf8, Decrypt, &moved).unwrap();
    assert_eq!(
        &arrow_cast::cast(&there, &DataType::Utf8).unwrap(),
        &arrow_cast::cast(&names, &DataType::Utf8).unwrap()
    );
}

#[test]
fn what_cannot_be_rekeyed_names_the_row_or_the_rule() {
    let bench = Bench::new();
    let clear = sample(&DataType::Utf8, 50);
    let stored = bench.run("c=random", &DataType::Utf8, Encrypt, &clear).unwrap();
    let values: Vec<Option<Vec<u8>>> =
        stored.as_binary::<i32>().iter().map(|value| value.map(<[u8]>::to_vec)).collect();
    for (at, cut) in [(20, false), (33, true)] {
        let mut values = values.clone();
        let value = values[at].as_mut().unwrap();
        if cut {
            value.truncate(27)
        } else {
            value[14] ^= 1
        }
        let changed: ArrayRef = Arc::new(values.iter().map(Option::as_deref).collect::<BinaryArray>());
        let error = rekeyed(&bench, "c=random", &DataType::Utf8, &other_key(&bench, &[]), &changed).unwrap_err();
        assert_eq!(error.place().unwrap().row, at as u64 + 1, "{error}");
    }
    for (from, to, words) in [
        ("c=token", "c=token", "tokens do not come back"),
        ("c=random", "c=ff1", "values of ff1 keep their method"),
        ("c=ff1", "c=random", "values of ff1 keep their method"),
    ] {
        let error = rekeyed(&bench, from, &DataType::Utf8, &other_key(&bench, &[to]), &stored).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = rekeyed(&bench, "c=random", &DataType::Utf8, &other_key(&bench, &[]), &clear).unwrap_err();
    assert!(error.to_string().contains("its protected values are byte strings"), "{error}");
}

#[test]
fn narrow_keys_and_shared_values_of_dictionaries_are_kept() {
    let bench = Bench::new();
    let values = StringArray::from(vec!["a", "b"]);
    let array: DictionaryArray<Int8Type> = DictionaryArray::new(vec![0i8, 1, 1, 0].into(), Arc::new(values));
    let array: ArrayRef = Arc::new(array);
    let stored = bench.run("c=token", array.data_type(), Encrypt, &array).unwrap();
    let DataType::Dictionary(keys, _) = stored.data_type() else { panic!("{}", stored.data_type()) };
    assert_eq!(**keys, DataType::Int8);
}

mod tables {
    use std::collections::HashMap;

    use arrow_array::StructArray;
    use arrow_buffer::NullBuffer;
    use arrow_schema::{Field, FieldRef};

    use super::*;
    use crate::arrays::{ArrayTable, MARK_KEY, TableColumn};

    fn table(bench: &Bench, specs: &[&str]) -> Arc<ArrayTable> {
        let column = |spec: &&str| {
            let (name, method) = spec.split_once('=').unwrap();
            TableColumn { spec: ColumnSpec::named(name, method).unwrap(), data_type: None, stays: None }
        };
        let columns = specs.iter().map(column).collect();
        Arc::new(ArrayTable::new(&bench.mill, bench.root.clone(), columns, Path::new("table")).unwrap())
    }

    /// `id: int64, name: utf8 with metadata of an extension, address: struct<city: utf8, zip: utf8>`, the second address null.
    fn people() -> (FieldRef, ArrayRef) {
        let extension = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.json".to_owned())]);
        let address = vec![Field::new("city", DataType::Utf8, true), Field::new("zip", DataType::Utf8, true)];
        let fields = vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true).with_metadata(extension),
            Field::new("address", DataType::Struct(address.clone().into()), true),
        ];
        let texts = |texts: [&str; 3]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let nulls = NullBuffer::from(vec![true, false, true]);
        let parts = vec![texts(["Bern", "hidden", "Chur"]), texts(["3000", "x", "7000"])];
        let address = StructArray::new(address.into(), parts, Some(nulls));
        let columns: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(vec![7, 8, 9])), texts(["Ada", "Bo", "Cy"]), Arc::new(address)];
        let array = StructArray::new(fields.clone().into(), columns, None);
        (Arc::new(Field::new("", DataType::Struct(fields.into()), false)), Arc::new(array))
    }

    fn run(table: &Arc<ArrayTable>, direction: Direction, field: &FieldRef, array: &ArrayRef) -> (FieldRef, ArrayRef) {
        let mut plan = table.plan(direction, field, None).unwrap();
        let done = plan.run(array).unwrap();
        assert_eq!(done.data_type(), plan.field().data_type());
        (Arc::clone(plan.field()), done)
    }

    #[test]
    fn columns_and_parts_of_structs_come_back_without_being_named() {
        let bench = Bench::new();
        let (field, array) = people();
        let protecting =
            table(&bench, &["id=random", "name=deterministic", "address.city=token:len=16", "address.zip=random"]);
        let (stored_field, stored) = run(&protecting, Encrypt, &field, &array);
        let name = stored.as_struct().fields().iter().find(|field| field.name() == "name").unwrap().clone();
        assert_eq!(name.data_type(), &DataType::Binary);
        assert!(name.metadata().contains_key(MARK_KEY) && !name.metadata().contains_key("ARROW:extension:name"));
        let address = stored.as_struct().column(2).as_struct();
        assert!(address.column(1).is_null(1), "what lies beneath a null is null");
        let (again_field, again) = run(&table(&bench, &[]), Decrypt, &stored_field, &stored);
        assert_eq!(again.as_struct().column(0), array.as_struct().column(0));
        assert_eq!(again.as_struct().column(1), array.as_struct().column(1));
        let zip = again.as_struct().column(2).as_struct().column(1).clone();
        assert_eq!(zip.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("3000"), None, Some("7000")]);
        let DataType::Struct(fields) = again_field.data_type() else { panic!() };
        let DataType::Struct(wanted) = field.data_type() else { panic!() };
        assert_eq!(fields[..2], wanted[..2], "metadata and types are those of before");
    }

    #[test]
    fn rows_are_counted_over_arrays_and_columns_are_opened_once() {
        let bench = Bench::new();
        let (field, array) = people();
        let both = table(&bench, &["name=deterministic"]);
        let (stored_field, stored) = run(&both, Encrypt, &field, &array);
        let mut columns = stored.as_struct().columns().to_vec();
        let values = columns[1].as_binary::<i32>().iter().map(|value| value.map(|value| value[..16].to_vec()));
        columns[1] = Arc::new(values.collect::<BinaryArray>());
        let changed: ArrayRef = Arc::new(StructArray::new(stored.as_struct().fields().clone(), columns, None));
        let mut plan = both.plan(Decrypt, &stored_field, None).unwrap();
        plan.run(&stored).unwrap();
        let error = plan.run(&changed).unwrap_err();
        assert!(matches!(&error, TableError::Authentication(place) if place.row == 4), "{error}");
        drop(plan);
        assert_eq!(both.plans.lock().unwrap().len(), 2);
        run(&both, Encrypt, &field, &array);
        assert_eq!(both.plans.lock().unwrap().len(), 2, "the plan of the first table serves the second");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let bench = Bench::new();
        let (field, array) = people();
        let list = Field::new_list("tags", Field::new("item", DataType::Utf8, true), true);
        let with_list: FieldRef = Arc::new(Field::new_struct("", vec![list], false));
        let stored = run(&table(&bench, &["name=token"]), Encrypt, &field, &array).0;
        let mut other = bench.root.clone();
        other.version = 2;
        let later = Arc::new(ArrayTable::new(&bench.mill, other, Vec::new(), Path::new("table")).unwrap());
        let kept = run(&table(&bench, &["name=random"]), Encrypt, &field, &array).0;
        for (table, direction, field, rule) in [
            (table(&bench, &["nam=random"]), Encrypt, &field, "there is no column `nam`; the columns are `id`, `name`"),
            (table(&bench, &["address=random"]), Encrypt, &field, "only flat types"),
            (table(&bench, &["address.street=random"]), Encrypt, &field, "there is no column `street`"),
            (table(&bench, &["tags.item=random"]), Encrypt, &with_list, "only those of structs do"),
            (table(&bench, &["name=random"]), Encrypt, &stored, "protected already"),
            (table(&bench, &[]), Decrypt, &field, "no column was named"),
            (table(&bench, &["name=token"]), Decrypt, &stored, "no column was named"),
            (later, Decrypt, &kept, "column `name` needs version 1 of the key `test`, and version 2 was given"),
        ] {
            let error = table.plan(direction, field, None).err().unwrap().to_string();
            assert!(error.contains(rule), "{error}");
        }
        let twice = ["a=random", "a=token"].map(|spec| TableColumn {
            spec: ColumnSpec::parse(spec).unwrap(),
            data_type: None,
            stays: None,
        });
        assert!(ArrayTable::new(&bench.mill, bench.root.clone(), twice.into(), Path::new("table")).is_err());
        let mut plan = table(&bench, &["name=random"]).plan(Encrypt, &field, None).unwrap();
        let error = plan.run(array.as_struct().column(0)).unwrap_err();
        assert!(matches!(error, TableError::UnsupportedType { .. }), "{error}");
    }
}
