//! The same values through OpenSSL, one call at a time.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, RecordBatch};
use ciphermill_contract::Suite;
use ciphermill_lab::short::measure;
use ciphermill_lab::timing::Budget;
use ciphermill_lab::workload::Workload;
use ciphermill_table::ColumnSummary;
use serde::Serialize;

use crate::commands::demo::customers::read;

/// The peer that is compared with: a context kept for each key, a call for each value.
const PEER: &str = "openssl-context";

/// What OpenSSL reaches on a column's values.
#[derive(Serialize)]
pub(crate) struct Comparison {
    /// OpenSSL's nearest suite.
    pub suite: String,
    /// Values a second.
    pub values_per_s: f64,
    /// Megabytes (10^6 bytes) of values a second.
    pub mb_per_s: f64,
}

/// Runs the column's values through OpenSSL's nearest suite; `None` when it has nothing like it.
pub(crate) fn compare(table: &Path, column: &ColumnSummary) -> anyhow::Result<Option<Comparison>> {
    let suite: Suite = match column.method {
        // OpenSSL 3.0 has no GCM-SIV; GCM does less.
        "random" => "aes-256-gcm",
        "deterministic" => "aes-256-siv",
        "token" => "hmac-sha256",
        _ => return Ok(None),
    }
    .parse()?;
    let mut values = Vec::new();
    for batch in read(table)? {
        collect(&batch?, &column.name, &mut values)?;
    }
    if column.method != "random" {
        // Equal values are processed once by the mill; the peer gets the same operations.
        values = values.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    }
    let engine = ciphermill_lab::engines::open(PEER)?;
    let reference = ciphermill_lab::engines::open("reference")?;
    let values_of = values.iter().map(Vec::as_slice);
    let workload = Workload::of_values(suite, values_of, column.logical.as_bytes(), 1)?;
    let budget = Budget { time: Duration::from_millis(300), rounds_min: 3, ..Budget::default() };
    let rows = measure(&workload, &[engine], reference.as_ref(), budget, &mut Vec::new())?;
    Ok(rows.first().map(|row| Comparison {
        suite: row.suite.clone(),
        values_per_s: 1e9 / row.ns_per_op,
        mb_per_s: row.mb_per_s,
    }))
}

/// Adds a column's values as the bytes that are encrypted.
fn collect(batch: &RecordBatch, name: &str, values: &mut Vec<Vec<u8>>) -> anyhow::Result<()> {
    let column = batch.column_by_name(name).with_context(|| format!("there is no column {name}"))?;
    if let Some(text) = column.as_string_opt::<i32>() {
        values.extend(text.iter().flatten().map(|value| value.as_bytes().to_vec()));
    } else if let Some(numbers) = column.as_primitive_opt::<Decimal128Type>() {
        values.extend(numbers.iter().flatten().map(|value| value.to_le_bytes().to_vec()));
    } else {
        anyhow::bail!("column {name} has the type {}", column.data_type());
    }
    Ok(())
}
