//! Single values outside of a table: what a column's values become, for a query's `WHERE`, and back.

use std::path::Path;
use std::sync::Arc;

use arrow_array::BinaryArray;
use arrow_array::builder::BinaryBuilder;
use arrow_schema::DataType;
use ciphermill::Mill;
use ciphermill_contract::Direction;

use crate::bad::OnBad;
use crate::column::{BadHandling, ColumnSetup, ColumnWorker, NULL_ROW, Scratch, suite_of};
use crate::encode::Cells;
use crate::error::{Place, Result, TableError};
use crate::keys::{self, Purpose, RootKey};
use crate::numbers::IntegerType;
use crate::protect::SEEN_LEN_MAX;
use crate::spec::{ColumnSpec, Method};
use crate::text;
use crate::types::{check_type, is_text, type_tag_of};

/// How protected byte strings are written. What `ff1` gives is text anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ValueEncoding {
    /// RFC 4648, section 5, without padding, as in protected CSV files.
    #[default]
    Base64Url,
    /// Hexadecimal digits.
    Hex,
    /// A binary string literal of SQL (ISO/IEC 9075-2, section 5.3): `X'…'` around hexadecimal digits.
    Sql,
}

/// Protects or restores lines of text as a column's values.
pub struct Values {
    worker: ColumnWorker,
    encoding: ValueEncoding,
    /// The column's type where it is not text.
    integer: Option<IntegerType>,
    scratch: Scratch,
    lines: u64,
    source: Arc<Path>,
}

impl Values {
    /// For the values of a column as `spec` protects them, whose type in the table is `data_type`: a text or an integer.
    /// `source` is what errors call the place that lines come from.
    ///
    /// # Errors
    /// `Spec` for what has no meaning here: another action on bad values than an error, restoring tokens, other types.
    /// What the mill answers.
    pub fn open(
        spec: &ColumnSpec,
        data_type: &DataType,
        direction: Direction,
        encoding: ValueEncoding,
        source: &Path,
        mill: &Mill,
        root: &RootKey,
    ) -> Result<Values> {
        let refused = |problem: &str| TableError::Spec { text: spec.to_string(), problem: problem.to_owned() };
        if spec.on_bad != OnBad::Error {
            return Err(refused("single values are taken or are errors, whatever `on-bad` says"));
        }
        if direction == Direction::Decrypt && !spec.method.is_reversible() {
            return Err(refused("tokens cannot be turned back"));
        }
        if !is_text(data_type) && IntegerType::of(data_type).is_none() {
            return Err(refused("single values are texts or integers"));
        }
        check_type(&spec.method, data_type).map_err(refused)?;
        let type_tag = type_tag_of(data_type, spec.as_text).map_err(refused)?;
        let associated_data = keys::associated_data(&spec.method, type_tag, &spec.logical, None);
        let context = keys::column_context(&spec.method, &associated_data);
        let source: Arc<Path> = source.into();
        let worker = ColumnWorker::new(ColumnSetup {
            mill: mill.clone(),
            key: keys::derive(mill, root, Purpose::Column, &context, suite_of(&spec.method))?,
            file: Arc::clone(&source),
            column: spec.name.clone(),
            method: spec.method.clone(),
            direction,
            associated_data,
            // A line is the text already that an integer would be protected as.
            integer: None,
            row_id: None,
            seen_len_max: SEEN_LEN_MAX,
            bad: BadHandling::new(OnBad::Error),
        });
        let integer = IntegerType::of(data_type).filter(|_| !spec.as_text);
        Ok(Values { worker, encoding, integer, scratch: Scratch::default(), lines: 0, source })
    }

    /// Appends to `out` what each line becomes, with a line end. An empty line stays one: it stands for null.
    ///
    /// # Errors
    /// Everything that can be wrong with a value, its place being the line. `out` is then as it was.
    pub fn run(&mut self, lines: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let cells = self.read(lines)?;
        self.worker.process(&mut self.scratch, &Cells::new(&cells), None, self.lines + 1)?;
        let start = out.len();
        for (row, slot) in self.worker.rows().iter().enumerate() {
            if *slot != NULL_ROW && !self.write(self.worker.outputs().at(*slot as usize), out) {
                out.truncate(start);
                return Err(self.no_value(row));
            }
            out.push(b'\n');
        }
        self.lines += lines.len() as u64;
        Ok(())
    }

    fn read(&self, lines: &[&[u8]]) -> Result<BinaryArray> {
        let mut builder = BinaryBuilder::with_capacity(lines.len(), lines.len() * 16);
        let mut value = Vec::new();
        for (row, line) in lines.iter().enumerate() {
            value.clear();
            match (line.is_empty(), self.worker.direction(), self.integer) {
                (true, ..) => builder.append_null(),
                (_, Direction::Decrypt, _) if self.is_encoded() => {
                    if !self.decode(line, &mut value) {
                        return Err(TableError::Damaged { place: self.place(row), rule: "not of the encoding" });
                    }
                    builder.append_value(&value);
                }
                (_, Direction::Encrypt, Some(integer)) => {
                    if !integer.read(line, &mut value) {
                        return Err(self.no_value(row));
                    }
                    builder.append_value(&value);
                }
                _ => builder.append_value(line),
            }
        }
        Ok(builder.finish())
    }

    /// Writes what a value has become; `false` when restored bytes are no value of the type.
    fn write(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        match (self.worker.direction(), self.integer) {
            (Direction::Encrypt, _) if self.is_encoded() => match self.encoding {
                ValueEncoding::Base64Url => text::encode(value, out),
                ValueEncoding::Hex => out.extend_from_slice(hex::encode(value).as_bytes()),
                ValueEncoding::Sql => out.extend_from_slice(format!("X'{}'", hex::encode(value)).as_bytes()),
            },
            (Direction::Decrypt, Some(integer)) => {
                if value.len() != integer.width {
                    return false;
                }
                integer.write(value, out);
            }
            _ => out.extend_from_slice(value),
        }
        true
    }

    fn decode(&self, line: &[u8], value: &mut Vec<u8>) -> bool {
        let digits = match self.encoding {
            ValueEncoding::Base64Url => return text::decode(line, value),
            ValueEncoding::Hex => Some(line),
            ValueEncoding::Sql => line.strip_prefix(b"X'").and_then(|rest| rest.strip_suffix(b"'")),
        };
        match digits.map(hex::decode) {
            Some(Ok(bytes)) => {
                *value = bytes;
                true
            }
            _ => false,
        }
    }

    /// Whether protected values are byte strings.
    fn is_encoded(&self) -> bool {
        !matches!(self.worker.method(), Method::Ff1(_))
    }

    fn place(&self, row: usize) -> Place {
        Place::new(&self.source, self.lines + 1 + row as u64, self.worker.column())
    }

    fn no_value(&self, row: usize) -> TableError {
        TableError::NotOfType { place: self.place(row), data_type: "the column".to_owned() }
    }
}
