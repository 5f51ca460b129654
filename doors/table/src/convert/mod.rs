//! Tables that change their format on the way: CSV becomes Parquet, or Parquet CSV.
//!
//! All values are texts then, before they are protected and after they are restored, and the protected file is what
//! protecting would have made of a table that had been converted before.

mod rendered;
pub(crate) mod to_csv;
pub(crate) mod to_parquet;

use crate::job::{Converted, Format};
use crate::parquet::ParquetInput;
use crate::types::is_text;

/// What is said of a Parquet table that becomes CSV.
pub(crate) fn from_parquet(input: &ParquetInput) -> Converted {
    let fields = input.schema().fields().iter().filter(|field| !is_text(field.data_type()));
    let types_lost = fields.map(|field| (field.name().clone(), field.data_type().to_string())).collect();
    Converted { from: Format::Parquet, to: Format::Csv, types_lost }
}

/// What is said of a CSV table that becomes Parquet.
pub(crate) fn from_csv() -> Converted {
    Converted { from: Format::Csv, to: Format::Parquet, types_lost: Vec::new() }
}

/// Columns that a table may have which becomes Parquet: each has a writer of its own in memory.
pub const CONVERTED_COLUMNS_MAX: usize = 4096;

/// Column chunks that a converted Parquet file may have, so that its footer can be read again.
pub const CONVERTED_CHUNKS_MAX: usize = 100_000;

/// Bytes that the pages of all columns may have together which are in memory at a time when Parquet becomes CSV.
pub const CONVERTED_PAGES_MAX: u64 = 512 << 20;
