//! Parquet: any bytes, and sound files with bytes changed, are protected or refused within bounded memory.

use std::path::Path;
use std::sync::LazyLock;

use ciphermill_table::{ColumnSpec, NoProgress, ProtectJob, UnprotectJob, protect, unprotect};

use crate::mills::MILL;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(crate::keystore::folder);

/// What is protected; the samples of all writers have these columns.
const COLUMNS: [&str; 4] = ["id=deterministic", "text=random", "text=deterministic:as-text", "id=token"];

/// The last byte says what is protected; the file lies before it.
///
/// # Panics
/// When the door panics, and when what was protected is not restored; libFuzzer watches memory and time.
pub fn run(bytes: &[u8]) {
    let Some((pick, file)) = bytes.split_last() else { return };
    let place = |name: &str| FOLDER.path().join(name);
    std::fs::write(place("in.parquet"), file).expect("written");
    let column = ColumnSpec::parse(COLUMNS[usize::from(*pick) % COLUMNS.len()]).expect("a column");
    let mut job = ProtectJob::new(place("in.parquet"), place("safe.parquet")).column(column);
    job.force = true;
    let (mill, root) = &*MILL;
    if protect(&job, mill, root, &NoProgress).is_err() {
        return;
    }
    let mut back = UnprotectJob::new(place("safe.parquet"), place("back.parquet"));
    back.force = true;
    unprotect(&back, mill, root, &NoProgress).expect("what was protected is restored");
}

/// Inputs to begin with: the samples of all writers.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../doors/table/tests/real/samples");
    let entries = std::fs::read_dir(folder).expect("the samples");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    let samples = files.iter().filter(|file| file.is_file()).enumerate();
    samples.map(|(pick, file)| [std::fs::read(file).expect("read"), vec![pick as u8]].concat()).collect()
}
