//! Parquet: any bytes, and sound files with bytes changed, are protected or refused within bounded memory.

use std::sync::LazyLock;

use ciphermill_table::{ColumnSpec, NoProgress, ProtectJob, protect};

use crate::mills::MILL;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(crate::keystore::folder);

/// The column `a` is protected, as the seeds have it.
///
/// # Panics
/// When the door panics; libFuzzer watches memory and time.
pub fn run(bytes: &[u8]) {
    let place = |name: &str| FOLDER.path().join(name);
    std::fs::write(place("in.parquet"), bytes).expect("written");
    let column = ColumnSpec::parse("a=deterministic").expect("a column");
    let mut job = ProtectJob::new(place("in.parquet"), place("safe.parquet")).column(column);
    job.force = true;
    let (mill, root) = &*MILL;
    let _ = protect(&job, mill, root, &NoProgress);
}
