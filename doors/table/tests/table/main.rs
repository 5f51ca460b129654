//! Whole jobs on real files: protect, look at what lies there, unprotect.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test may stop at once, its helpers too")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema};
use ciphermill::Mill;
use ciphermill_table::{
    ColumnSpec, NoProgress, ProtectJob, Result, RootKey, Summary, UnprotectJob, protect, unprotect,
};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::WriterProperties;

mod bad;
mod codecs;
mod columns;
mod convert;
mod csv;
mod ff1;
mod folders;
mod headerless;
mod hostile;
mod joins;
mod left;
mod pairs;
mod parquets;
mod parts;
mod plans;
mod real;
mod rejects;
mod rekey;
mod rows;
mod samples;
#[path = "../../src/testing.rs"]
mod testing;
mod threads;
mod values;

/// A folder, a mill and a root key.
struct Bench {
    folder: tempfile::TempDir,
    mill: Mill,
    root: RootKey,
}

impl Bench {
    fn new() -> Bench {
        let mill = testing::mill();
        let root = testing::root_key(&mill, &[0x5a; 32]);
        Bench { folder: tempfile::tempdir().unwrap(), mill, root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// The names of all files there are.
    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn protect(&self, input: &str, output: &str, columns: &[&str]) -> Result<Summary> {
        protect(&self.job(input, output, columns), &self.mill, &self.root, &NoProgress)
    }

    fn job(&self, input: &str, output: &str, columns: &[&str]) -> ProtectJob {
        let job = ProtectJob::new(self.path(input), self.path(output));
        columns.iter().fold(job, |job, column| job.column(ColumnSpec::parse(column).unwrap()))
    }

    fn unprotect(&self, input: &str, output: &str) -> Result<Summary> {
        unprotect(&self.back(input, output), &self.mill, &self.root, &NoProgress)
    }

    fn back(&self, input: &str, output: &str) -> UnprotectJob {
        UnprotectJob::new(self.path(input), self.path(output))
    }

    /// Protects, restores, and gives the words of the error that this ends with; nothing may be left behind.
    fn error(&self, result: Result<Summary>, before: &[String]) -> String {
        let error = result.expect_err("the job must fail");
        assert_eq!(self.names(), before, "files were left behind");
        error.to_string()
    }
}

fn write_parquet(path: &Path, batches: &[RecordBatch], properties: Option<WriterProperties>) {
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), properties).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
}

/// The whole file as one batch.
fn read_parquet(path: &Path) -> RecordBatch {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let rows = usize::try_from(builder.metadata().file_metadata().num_rows()).unwrap();
    let schema = Arc::clone(builder.schema());
    let mut batches: Vec<RecordBatch> =
        builder.with_batch_size(rows.max(1)).build().unwrap().map(std::result::Result::unwrap).collect();
    match batches.len() {
        0 => RecordBatch::new_empty(schema),
        1 => batches.remove(0),
        count => panic!("{count} batches"),
    }
}

/// A batch of these columns, all nullable.
fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}
