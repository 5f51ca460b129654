//! The same values through OpenSSL, one call at a time, measured by the lab.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, RecordBatch};
use ciphermill_cli::program;
use ciphermill_contract::limits::BATCH_OPS_MAX;
use ciphermill_table::ColumnSummary;
use serde::{Deserialize, Serialize};

use crate::commands::demo::customers::read;
use crate::commands::lab;

/// The peer that is compared with: a context kept for each key, a call for each value.
const PEER: &str = "openssl-context";

/// What OpenSSL reaches on a column's values.
#[derive(Deserialize, Serialize)]
pub(crate) struct Comparison {
    /// OpenSSL's nearest suite.
    pub suite: String,
    /// Values a second.
    pub values_per_s: f64,
    /// Megabytes (10^6 bytes) of values a second.
    pub mb_per_s: f64,
}

/// Has the lab run the column's values through OpenSSL's nearest suite; `None` when OpenSSL has nothing like it.
pub(crate) fn compare(table: &Path, column: &ColumnSummary) -> anyhow::Result<Option<Comparison>> {
    let suite = match column.method {
        // OpenSSL 3.0 has no GCM-SIV; GCM does less.
        "random" => "aes-256-gcm",
        "deterministic" => "aes-256-siv",
        "token" => "hmac-sha256",
        _ => return Ok(None),
    };
    let mut values = Vec::new();
    for batch in read(table)? {
        collect(&batch?, &column.name, &mut values)?;
    }
    if column.method != "random" {
        // Equal values are processed once by the mill; the peer gets the same operations.
        values = values.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    }
    // As many as a batch may have tell the rate as well.
    values.truncate(BATCH_OPS_MAX);
    let mut child = Command::new(program::beside(lab::NAME))
        .args(["values", suite, PEER, &column.logical])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the lab")?;
    if let Some(mut input) = child.stdin.take() {
        // A lab that failed says why itself.
        let _ = input.write_all(&framed(&values));
    }
    let output = child.wait_with_output().context("cannot wait for the lab")?;
    ensure!(output.status.success(), "the lab failed ({})", output.status);
    serde_json::from_slice(&output.stdout).context("the lab's answer").map(Some)
}

/// Values, each behind its length in four bytes.
fn framed(values: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    bytes
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
