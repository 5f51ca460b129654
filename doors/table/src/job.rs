//! What is asked for, how it is watched, and what is reported in the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ciphermill_contract::Suite;
use serde::{Deserialize, Serialize};

use crate::bad::{BadValues, OnBad};
use crate::clear::InClear;
use crate::compress::Compression;
use crate::error::{Result, TableError};
use crate::manifest::manifest_path;
use crate::parquet::Codec;
use crate::spec::{ColumnSpec, RowBinding};

/// Rows of a Parquet table that are worked on at a time, at most.
pub const BATCH_ROWS_MAX: usize = 16_384;

/// Bytes of rows of a Parquet table that are worked on at a time; a single row may have more.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// The input or output that stands for standard input or output.
pub const STANDARD_STREAM: &str = "-";

/// Whether a path stands for standard input or output.
pub(crate) fn is_standard_stream(path: &Path) -> bool {
    path == Path::new(STANDARD_STREAM)
}

/// What a table is stored as.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Comma-separated values with a header (RFC 4180), or another separator.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Csv => "CSV",
            Format::Parquet => "Parquet",
        }
    }

    /// The format that a file's name tells: `.csv`, `.tsv`, `.parquet` and `.pq` in any case; of CSV also with `.gz` or
    /// `.zst` behind.
    pub fn of_path(path: &Path) -> Option<Format> {
        if Compression::of_path(path).is_some() {
            return Format::of_path(&path.with_extension("")).filter(|format| *format == Format::Csv);
        }
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" | "tsv" => Some(Format::Csv),
            "parquet" | "pq" => Some(Format::Parquet),
            _ => None,
        }
    }
}

/// A request to protect columns of a table.
#[derive(Clone, Debug)]
pub struct ProtectJob {
    /// The table; [`STANDARD_STREAM`] for standard input, which is kept in a temporary file without a name if it is Parquet.
    pub input: PathBuf,
    /// Where the protected table goes, in the format that its name tells, else in that of the input; [`STANDARD_STREAM`] for standard output, which gets it when it is
    /// complete.
    pub output: PathBuf,
    /// Where the manifest goes; without it `OUTPUT.ciphermill.json`. Standard output has no such name.
    pub manifest: Option<PathBuf>,
    /// What is done with which columns. All others pass unchanged.
    pub columns: Vec<ColumnSpec>,
    /// What the values of `random` and `deterministic` columns are bound to beside their column, unless a column's
    /// specification says `bind=no`.
    pub bind_row: Option<RowBinding>,
    /// Where rows go, as they are, that have a value in an `on-bad=reject` column which its method cannot take. In the
    /// input's format, for its owner alone.
    pub reject_file: Option<PathBuf>,
    /// Whether nothing is written: every value is looked at, and all that a method cannot take are counted in the summary.
    pub dry_run: bool,
    /// The input's format; without it its name tells.
    pub format: Option<Format>,
    /// The byte between CSV fields; without it a comma, or a tabulator for `.tsv`.
    pub delimiter: Option<u8>,
    /// Whether the first record of a CSV file is a row and no header. Columns are then called `column_1`, `column_2` and so
    /// on, by their places.
    pub no_header: bool,
    /// The codec of protected Parquet columns; without it each keeps its own, except that random ciphertexts, which do not
    /// compress, get none. All other columns stay as they are.
    pub codec: Option<Codec>,
    /// How many threads work on the table; one a core without a number, and with 1 everything is done by the calling thread.
    /// With more, that one writes what the others have made. The result does not depend on it.
    pub threads: Option<usize>,
    /// Whether an existing output is replaced.
    pub force: bool,
    /// Set to `true` by anyone, the job ends with [`TableError::Interrupted`] within a batch.
    pub cancel: Arc<AtomicBool>,
}

/// A request to restore the protected columns of a table.
#[derive(Clone, Debug)]
pub struct UnprotectJob {
    /// The protected table; [`STANDARD_STREAM`] for standard input, which is kept in a temporary file without a name.
    pub input: PathBuf,
    /// Where the restored table goes; [`STANDARD_STREAM`] for standard output, which gets it when all of it is verified.
    pub output: PathBuf,
    /// The manifest; without it `INPUT.ciphermill.json`.
    pub manifest: Option<PathBuf>,
    /// The format of the restored table; without it the output's name tells, else it is that of the protected table.
    pub format: Option<Format>,
    /// The protected columns to restore, by their names in the manifest; without any, all. The others stay protected, and the
    /// output gets a manifest of its own for them.
    pub columns: Vec<String>,
    /// Columns that have been renamed since: the name now, and the logical name.
    pub renamed: Vec<(String, String)>,
    /// Whether the file may have been changed since it was protected (rows removed, added or sorted, columns renamed, added
    /// or removed). Rows, hash and counts are then not compared with the manifest, so that only what is bound to the values
    /// themselves is still checked: nothing in columns of `ff1` and `token` and in those that nobody named, and nowhere
    /// which rows there are and which values are null. Protected columns that are missing are passed over.
    pub allow_changed: bool,
    /// How many threads work on the table; one a core without a number, and with 1 everything is done by the calling thread.
    /// With more, that one writes what the others have made. The result does not depend on it.
    pub threads: Option<usize>,
    /// Whether an existing output is replaced.
    pub force: bool,
    /// Set to `true` by anyone, the job ends with [`TableError::Interrupted`] within a batch.
    pub cancel: Arc<AtomicBool>,
}

impl ProtectJob {
    /// A job with no columns yet and everything else as usual.
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> ProtectJob {
        ProtectJob {
            input: input.into(),
            output: output.into(),
            manifest: None,
            columns: Vec::new(),
            bind_row: None,
            reject_file: None,
            dry_run: false,
            format: None,
            delimiter: None,
            no_header: false,
            codec: None,
            threads: None,
            force: false,
            cancel: Arc::default(),
        }
    }

    /// Where the manifest goes.
    ///
    /// # Errors
    /// `ManifestUnnamed` for standard output without a name for it.
    pub(crate) fn manifest_path(&self) -> Result<PathBuf> {
        match &self.manifest {
            Some(path) => Ok(path.clone()),
            None if is_standard_stream(&self.output) => Err(TableError::ManifestUnnamed),
            None => Ok(manifest_path(&self.output)),
        }
    }

    /// The same with a column more.
    #[must_use]
    pub fn column(mut self, column: ColumnSpec) -> ProtectJob {
        self.columns.push(column);
        self
    }
}

impl UnprotectJob {
    /// A job with everything as usual.
    pub fn new(input: impl Into<PathBuf>, output: impl Into<PathBuf>) -> UnprotectJob {
        UnprotectJob {
            input: input.into(),
            output: output.into(),
            manifest: None,
            format: None,
            columns: Vec::new(),
            renamed: Vec::new(),
            allow_changed: false,
            threads: None,
            force: false,
            cancel: Arc::default(),
        }
    }
}

/// How far a job has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Rows done.
    pub rows: u64,
    /// Rows in all, where that is known.
    pub rows_total: Option<u64>,
    /// Bytes of the input that were read (CSV), or the share of them that the rows stand for (Parquet).
    pub bytes: u64,
    /// Bytes of the input in all.
    pub bytes_total: Option<u64>,
}

/// Watches a job.
pub trait Progress {
    /// Called after each batch.
    fn advance(&self, position: &Position);
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn advance(&self, _: &Position) {}
}

impl<F: Fn(&Position)> Progress for F {
    fn advance(&self, position: &Position) {
        self(position);
    }
}

/// Where a table's manifest was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// In the file beside the table, or in the one that the job names.
    #[default]
    Beside,
    /// In that file as the previous one: the table's replacement was cut short, and this is the table before.
    Previous,
    /// In the footer of the Parquet file, since the file beside it is missing, damaged or another table's.
    Footer,
}

/// What a job has done.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Data rows.
    pub rows: u64,
    /// Rows that went to the reject file.
    pub rejected_rows: u64,
    /// Values of the columns named that are not null.
    pub values: u64,
    /// Nulls of the columns named.
    pub nulls: u64,
    /// Operations that were run: values, each distinct one once for deterministic methods.
    pub processed: u64,
    /// Bytes of the values that were processed, in clear.
    pub bytes: u64,
    /// Bytes of the output.
    pub output_bytes: u64,
    /// Time within the mill.
    pub in_mill: Duration,
    /// Time in all.
    pub total: Duration,
    /// Batches of rows.
    pub batches: u64,
    /// Rows of the largest batch.
    pub batch_rows_max: u64,
    /// Bytes of the largest batch, as it lay in memory.
    pub batch_bytes_max: u64,
    /// One entry a column named, in the order of the job or manifest.
    pub columns: Vec<ColumnSummary>,
    /// Where the manifest is.
    pub manifest: PathBuf,
    /// Where in there the manifest was found, when restoring.
    pub manifest_origin: Origin,
    /// Columns that were not asked for and are still protected, when restoring; `manifest` is theirs then.
    pub still_protected: Vec<String>,
    /// Protected columns that are not in the file any more, when restoring a changed file.
    pub missing: Vec<String>,
    /// Whether the table has another format now.
    pub converted: Option<Converted>,
    /// The tables of a folder; the rest of this is then of all that were done together.
    pub files: Option<Files>,
}

/// Tables of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// Those that this run has done.
    pub done: usize,
    /// Those that were done before.
    pub before: usize,
}

/// A table's change of format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The format that it had.
    pub from: Format,
    /// The format that it has.
    pub to: Format,
    /// Columns whose values are texts now, with the types that they had.
    pub types_lost: Vec<(String, String)>,
}

/// What was done with a column.
#[derive(Clone, Debug)]
pub struct ColumnSummary {
    /// Its name in the file.
    pub name: String,
    /// Its logical name.
    pub logical: String,
    /// The method's name.
    pub method: &'static str,
    /// The suite.
    pub suite: Suite,
    /// Values that are not null.
    pub values: u64,
    /// Nulls.
    pub nulls: u64,
    /// Operations that were run.
    pub processed: u64,
    /// Bytes of the values that were processed, in clear.
    pub bytes: u64,
    /// Time within the mill.
    pub in_mill: Duration,
    /// The engines that did it, in the order in which they came; empty when there was nothing to do.
    pub engines: Vec<&'static str>,
    /// Whether the column was left as it is: tokens cannot be turned back.
    pub left_as_tokens: bool,
    /// Values that were left as they are: tokens of originals that `ff1` could not take.
    pub values_left_as_tokens: u64,
    /// Values that the method could not take, by rule.
    pub bad: Vec<BadValues>,
    /// What became of them.
    pub on_bad: OnBad,
    /// The column that identifies the rows that values are bound to.
    pub bound_to_row: Option<String>,
    /// What stayed in clear within values: separators and kept characters of a column that was protected with `ff1`.
    pub in_clear: Option<InClear>,
}

impl Summary {
    /// Adds what was done with another table of the same folder, which may have other columns.
    pub(crate) fn add(&mut self, other: Summary) {
        self.rows += other.rows;
        self.rejected_rows += other.rejected_rows;
        self.values += other.values;
        self.nulls += other.nulls;
        self.processed += other.processed;
        self.bytes += other.bytes;
        self.output_bytes += other.output_bytes;
        self.in_mill += other.in_mill;
        self.batches += other.batches;
        self.batch_rows_max = self.batch_rows_max.max(other.batch_rows_max);
        self.batch_bytes_max = self.batch_bytes_max.max(other.batch_bytes_max);
        for mut column in other.columns {
            // Of which table they are could not be told any more.
            column.bad.iter_mut().for_each(|values| values.rows.clear());
            match self.columns.iter_mut().find(|known| known.name == column.name && known.method == column.method) {
                Some(known) => known.add(column),
                None => self.columns.push(column),
            }
        }
        add_new(&mut self.still_protected, other.still_protected);
        add_new(&mut self.missing, other.missing);
    }

    /// Operations a second within the mill.
    pub fn processed_per_s(&self) -> f64 {
        per_second(self.processed, self.in_mill)
    }

    /// The engines that took part, each once.
    pub fn engines(&self) -> Vec<&'static str> {
        let mut engines = Vec::new();
        for engine in self.columns.iter().flat_map(|column| &column.engines) {
            if !engines.contains(engine) {
                engines.push(*engine);
            }
        }
        engines
    }
}

/// Adds what is not there yet.
fn add_new<T: PartialEq>(all: &mut Vec<T>, more: Vec<T>) {
    for item in more {
        if !all.contains(&item) {
            all.push(item);
        }
    }
}

impl ColumnSummary {
    /// Adds the column of another table.
    fn add(&mut self, other: ColumnSummary) {
        self.values += other.values;
        self.nulls += other.nulls;
        self.processed += other.processed;
        self.bytes += other.bytes;
        self.in_mill += other.in_mill;
        add_new(&mut self.engines, other.engines);
        self.left_as_tokens |= other.left_as_tokens;
        self.values_left_as_tokens += other.values_left_as_tokens;
        for values in other.bad {
            match self.bad.iter_mut().find(|known| known.rule == values.rule) {
                Some(known) => known.count += values.count,
                None => self.bad.push(values),
            }
        }
        match (&mut self.in_clear, other.in_clear) {
            (Some(known), Some(more)) => known.add(more),
            (known @ None, more) => *known = more,
            (Some(_), None) => {}
        }
    }

    /// Operations a second within the mill.
    pub fn processed_per_s(&self) -> f64 {
        per_second(self.processed, self.in_mill)
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
}

/// Ends the job when somebody has asked for it.
///
/// # Errors
/// `Interrupted`.
pub(crate) fn check_cancel(cancel: &AtomicBool) -> Result<()> {
    if cancel.load(Ordering::Relaxed) { Err(TableError::Interrupted) } else { Ok(()) }
}
