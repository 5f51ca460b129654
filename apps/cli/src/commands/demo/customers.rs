//! The customer table of TPC-H: made, read and compared.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use arrow_array::builder::{Decimal128Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use tpchgen::generators::{Customer, CustomerGenerator};

use ciphermill_cli::whole;

/// Rows in a batch while writing and comparing.
const BATCH_ROWS: usize = 16_384;

/// Digits and scale of a money column (TPC-H specification 3, section 1.3.1: DECIMAL(15,2)).
const MONEY: (u8, i8) = (15, 2);

fn schema() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, false);
    let number = |name: &str| Field::new(name, DataType::Int64, false);
    Arc::new(Schema::new(vec![
        number("c_custkey"),
        text("c_name"),
        text("c_address"),
        number("c_nationkey"),
        text("c_phone"),
        Field::new("c_acctbal", DataType::Decimal128(MONEY.0, MONEY.1), false),
        text("c_mktsegment"),
        text("c_comment"),
    ]))
}

/// Writes the table at this scale; returns its rows.
pub(crate) fn write(path: &Path, scale: f64) -> anyhow::Result<u64> {
    let cannot = || format!("cannot write {}", path.display());
    let file = whole::beside(path).with_context(cannot)?;
    let mut writer = ArrowWriter::try_new(file.as_file(), schema(), None)?;
    let mut columns = Columns::default();
    let mut rows = 0;
    for customer in CustomerGenerator::new(scale, 1, 1).iter() {
        columns.push(&customer)?;
        rows += 1;
        if rows % BATCH_ROWS as u64 == 0 {
            writer.write(&columns.finish()?)?;
        }
    }
    writer.write(&columns.finish()?)?;
    writer.close().with_context(cannot)?;
    file.persist(path).map_err(|failed| failed.error).with_context(cannot)?;
    Ok(rows)
}

#[derive(Default)]
struct Columns {
    custkey: Int64Builder,
    name: StringBuilder,
    address: StringBuilder,
    nationkey: Int64Builder,
    phone: StringBuilder,
    acctbal: Decimal128Builder,
    mktsegment: StringBuilder,
    comment: StringBuilder,
}

impl Columns {
    fn push(&mut self, customer: &Customer<'_>) -> anyhow::Result<()> {
        use std::fmt::Write;
        self.custkey.append_value(customer.c_custkey);
        write!(self.name, "{}", customer.c_name)?;
        self.name.append_value("");
        write!(self.address, "{}", customer.c_address)?;
        self.address.append_value("");
        self.nationkey.append_value(customer.c_nationkey);
        write!(self.phone, "{}", customer.c_phone)?;
        self.phone.append_value("");
        self.acctbal.append_value(i128::from(customer.c_acctbal.into_inner()));
        self.mktsegment.append_value(customer.c_mktsegment);
        self.comment.append_value(customer.c_comment);
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<RecordBatch> {
        let acctbal = self.acctbal.finish().with_precision_and_scale(MONEY.0, MONEY.1)?;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.custkey.finish()),
            Arc::new(self.name.finish()),
            Arc::new(self.address.finish()),
            Arc::new(self.nationkey.finish()),
            Arc::new(self.phone.finish()),
            Arc::new(acctbal),
            Arc::new(self.mktsegment.finish()),
            Arc::new(self.comment.finish()),
        ];
        Ok(RecordBatch::try_new(schema(), columns)?)
    }
}

/// Reads a table batch by batch.
pub(crate) fn read(path: &Path) -> anyhow::Result<ParquetRecordBatchReader> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(BATCH_ROWS).build()?)
}

/// Where two tables differ, in words; `None` when schema, rows and every value are equal.
pub(crate) fn first_difference(one: &Path, other: &Path) -> anyhow::Result<Option<String>> {
    let (mut one, mut other) = (read(one)?, read(other)?);
    if one.schema() != other.schema() {
        return Ok(Some("the schemas are not the same".to_owned()));
    }
    let mut row = 0;
    loop {
        let (left, right) = (one.next().transpose()?, other.next().transpose()?);
        match (left, right) {
            (None, None) => return Ok(None),
            (Some(left), Some(right)) if left == right => row += left.num_rows(),
            (Some(left), Some(right)) if left.num_rows() == right.num_rows() => {
                let differs = |index: &usize| left.column(*index) != right.column(*index);
                let column = (0..left.num_columns()).find(differs).unwrap_or_default();
                let name = left.schema().field(column).name().clone();
                return Ok(Some(format!("column {name}, within {} rows from row {row}", left.num_rows())));
            }
            _ => return Ok(Some("the numbers of rows are not the same".to_owned())),
        }
    }
}
