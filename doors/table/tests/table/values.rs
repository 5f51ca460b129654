//! Single values for a query's WHERE: the same as in a table.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Int64Array};
use arrow_schema::DataType;
use ciphermill_contract::Direction;
use ciphermill_table::{ColumnSpec, Result, TableError, ValueEncoding, Values};

use crate::{Bench, batch, read_parquet, write_parquet};

struct Ask<'a> {
    spec: &'a str,
    data_type: DataType,
    direction: Direction,
    encoding: ValueEncoding,
}

impl Ask<'_> {
    fn text(spec: &str, direction: Direction) -> Ask<'_> {
        Ask { spec, data_type: DataType::Utf8, direction, encoding: ValueEncoding::Base64Url }
    }

    fn run(&self, bench: &Bench, lines: &[&str]) -> Result<Vec<String>> {
        let spec = ColumnSpec::parse(self.spec).unwrap();
        let source = Path::new("standard input");
        let mut values =
            Values::open(&spec, &self.data_type, self.direction, self.encoding, source, &bench.mill, &bench.root)?;
        let mut out = Vec::new();
        // In two batches, so that lines are counted over both.
        let (first, second) = lines.split_at(lines.len() / 2);
        for lines in [first, second] {
            let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
            values.run(&lines, &mut out)?;
        }
        Ok(String::from_utf8(out).unwrap().lines().map(str::to_owned).collect())
    }
}

const LINES: [&str; 4] = ["1234567", "7654321", "", "1234567"];

#[test]
fn values_are_those_of_a_csv_column() {
    let bench = Bench::new();
    for spec in ["a=deterministic:as=x", "a=token:len=20", "a=ff1:keep=1", "a=random"] {
        bench.write("in.csv", format!("a,b\n{}", LINES.map(|line| format!("{line},\n")).concat()));
        let mut job = bench.job("in.csv", "out.csv", &[spec]);
        job.force = true;
        ciphermill_table::protect(&job, &bench.mill, &bench.root, &ciphermill_table::NoProgress).unwrap();
        let protected = bench.text("out.csv");
        let cells: Vec<&str> = protected.lines().skip(1).map(|line| line.trim_end_matches(',')).collect();
        let values = Ask::text(spec, Direction::Encrypt).run(&bench, &LINES).unwrap();
        if spec == "a=random" {
            assert!(values[0] != cells[0] && values[0] != values[3], "a fresh nonce for each");
        } else {
            assert_eq!(values, cells, "{spec}");
        }
        if spec.contains("token") {
            continue;
        }
        for lines in [&values, &cells.iter().map(|cell| (*cell).to_owned()).collect()] {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            assert_eq!(Ask::text(spec, Direction::Decrypt).run(&bench, &lines).unwrap(), LINES, "{spec}");
        }
    }
}

#[test]
fn values_are_those_of_an_integer_column() {
    let bench = Bench::new();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![-5, 77]));
    write_parquet(&bench.path("in.parquet"), &[batch(vec![("n", Arc::clone(&numbers)), ("t", numbers)])], None);
    bench.protect("in.parquet", "out.parquet", &["n=deterministic", "t=token:as-text"]).unwrap();
    let protected = read_parquet(&bench.path("out.parquet"));
    for (column, spec) in ["n=deterministic", "t=token:as-text"].into_iter().enumerate() {
        let stored = protected.column(column).as_binary::<i32>();
        let hex: Vec<String> =
            (0..2).map(|row| stored.value(row).iter().map(|byte| format!("{byte:02x}")).collect::<String>()).collect();
        let ask = |direction, encoding| Ask { spec, data_type: DataType::Int64, direction, encoding };
        let values = ask(Direction::Encrypt, ValueEncoding::Hex).run(&bench, &["-5", "77"]).unwrap();
        assert_eq!(values, hex, "{spec}");
        let values = ask(Direction::Encrypt, ValueEncoding::Sql).run(&bench, &["-5", "77"]).unwrap();
        assert_eq!(values[1], format!("X'{}'", hex[1]));
        if column == 0 {
            let lines: Vec<&str> = values.iter().map(String::as_str).collect();
            let back = ask(Direction::Decrypt, ValueEncoding::Sql).run(&bench, &lines).unwrap();
            assert_eq!(back, ["-5", "77"]);
            for line in ["x", "+5", "07", "9223372036854775808"] {
                let result = ask(Direction::Encrypt, ValueEncoding::Hex).run(&bench, &["1", line]);
                assert!(
                    matches!(&result, Err(TableError::NotOfType { place, .. }) if place.row == 2),
                    "{line}: {result:?}"
                );
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line() {
    let bench = Bench::new();
    let error =
        |spec: &str, direction, lines: &[&str]| Ask::text(spec, direction).run(&bench, lines).unwrap_err().to_string();
    assert!(error("a=token", Direction::Decrypt, &["x"]).contains("cannot be turned back"));
    assert!(error("a=ff1:on-bad=null", Direction::Encrypt, &["x"]).contains("on-bad"));
    let words = error("a=ff1", Direction::Encrypt, &["1234567", "", "Smith"]);
    assert!(words.contains("standard input: row 3, column `a`") && !words.contains("Smith"), "{words}");
    assert!(error("a=random", Direction::Decrypt, &["***"]).contains("row 1, column `a`"));
    assert!(
        error("a=deterministic", Direction::Decrypt, &["", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA"]).contains("not authentic")
    );
    let dates = Ask { data_type: DataType::Date32, ..Ask::text("a=token", Direction::Encrypt) };
    assert!(dates.run(&bench, &["1"]).unwrap_err().to_string().contains("texts or integers"));
}
