//! What both formats and both directions share: targets, tallies, and somebody watching.

use std::sync::atomic::AtomicBool;

use crate::column::ColumnWorker;
use crate::error::Result;
use crate::job::{ColumnSummary, Position, Progress, check_cancel};

/// A column that is changed on its way.
pub(crate) struct Target {
    /// Its place in a row.
    pub(crate) index: usize,
    /// The place of the column that identifies the rows its values are bound to. It is not a target itself.
    pub(crate) row_id: Option<usize>,
    /// Its logical name.
    pub(crate) logical: String,
    /// What changes it.
    pub(crate) worker: ColumnWorker,
}

impl Target {
    /// What was done.
    pub(crate) fn summary(&self) -> ColumnSummary {
        let counts = &self.worker.counts;
        ColumnSummary {
            name: self.worker.column().to_owned(),
            logical: self.logical.clone(),
            method: self.worker.method().name(),
            suite: crate::column::suite_of(self.worker.method()),
            values: counts.values,
            nulls: counts.nulls,
            processed: counts.processed,
            bytes: counts.bytes,
            in_mill: counts.in_mill,
            engines: counts.engines.clone(),
            left_as_tokens: false,
            values_left_as_tokens: counts.left_as_tokens,
            bad: self.worker.bad().to_vec(),
            on_bad: self.worker.on_bad(),
            bound_to_row: self.worker.row_id().map(str::to_owned),
            in_clear: self.worker.in_clear(),
        }
    }
}

/// Rows and batches that have gone through.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    /// Rows that were read and went to the reject file.
    pub(crate) rejected_rows: u64,
    pub(crate) batches: u64,
    pub(crate) batch_rows_max: u64,
    pub(crate) batch_bytes_max: u64,
}

impl Tally {
    /// Counts a batch and its rows.
    pub(crate) fn add(&mut self, rows: usize, bytes: usize) {
        self.rows += rows as u64;
        self.add_batch(rows, bytes);
    }

    /// Counts a batch of one column's rows; other columns have the same rows.
    pub(crate) fn add_batch(&mut self, rows: usize, bytes: usize) {
        self.batches += 1;
        self.batch_rows_max = self.batch_rows_max.max(rows as u64);
        self.batch_bytes_max = self.batch_bytes_max.max(bytes as u64);
    }

    /// Counts the batches of another tally, and not its rows.
    pub(crate) fn add_batches(&mut self, other: &Tally) {
        self.batches += other.batches;
        self.batch_rows_max = self.batch_rows_max.max(other.batch_rows_max);
        self.batch_bytes_max = self.batch_bytes_max.max(other.batch_bytes_max);
    }
}

/// Who watches a job, and may end it.
pub(crate) struct Watch<'a> {
    pub(crate) progress: &'a dyn Progress,
    pub(crate) cancel: &'a AtomicBool,
    pub(crate) bytes_total: u64,
    /// Threads that the job may use.
    pub(crate) threads: usize,
}

impl Watch<'_> {
    /// # Errors
    /// `Interrupted` when somebody has asked for it.
    pub(crate) fn check(&self) -> Result<()> {
        check_cancel(self.cancel)
    }

    /// Reports rows and bytes; where the rows in all are known, bytes are their share of the file.
    pub(crate) fn advance(&self, rows: u64, rows_total: Option<u64>, bytes: u64) {
        let share = |total: u64| (rows as f64 / total.max(1) as f64 * self.bytes_total as f64) as u64;
        let bytes = rows_total.map_or(bytes, share);
        self.progress.advance(&Position { rows, rows_total, bytes, bytes_total: Some(self.bytes_total) });
    }
}
