//! CSV: any bytes are protected or refused, and what was protected comes back with the same values.

use std::path::Path;
use std::sync::LazyLock;

use ciphermill_table::{ColumnSpec, NoProgress, ProtectJob, UnprotectJob, protect, unprotect};

use crate::mills::MILL;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(crate::keystore::folder);

/// The first byte picks the method and the separator; the first column of the header is protected.
///
/// # Panics
/// When what was protected cannot be restored, or comes back with other values.
pub fn run(bytes: &[u8]) {
    let Some((pick, text)) = bytes.split_first() else { return };
    let delimiter = [b',', b';', b'\t'][usize::from(pick >> 4) % 3];
    let method = ["random", "deterministic", "token", "ff1:alphabet=alnum"][usize::from(pick & 3)];
    let place = |name: &str| FOLDER.path().join(name);
    std::fs::write(place("in.csv"), text).expect("written");
    let Some(first) = table(&place("in.csv"), delimiter).and_then(|table| table.first()?.first().cloned()) else {
        return;
    };
    let Ok(name) = String::from_utf8(first) else { return };
    let Ok(column) = ColumnSpec::parse(&format!("{name}={method}")) else { return };
    let mut job = ProtectJob::new(place("in.csv"), place("safe.csv")).column(column);
    (job.delimiter, job.force) = (Some(delimiter), true);
    let (mill, root) = &*MILL;
    if protect(&job, mill, root, &NoProgress).is_err() {
        return;
    }
    let mut back = UnprotectJob::new(place("safe.csv"), place("back.csv"));
    back.force = true;
    unprotect(&back, mill, root, &NoProgress).expect("what was protected is restored");
    if method != "token" {
        assert_eq!(table(&place("in.csv"), delimiter), table(&place("back.csv"), delimiter));
    }
}

/// The fields, read by a parser that is not ours; `None` where it refuses the text.
fn table(path: &Path, delimiter: u8) -> Option<Vec<Vec<Vec<u8>>>> {
    let mut reader = csv::ReaderBuilder::new();
    let mut reader = reader.has_headers(false).delimiter(delimiter).flexible(false).from_path(path).ok()?;
    let mut rows = Vec::new();
    for record in reader.byte_records() {
        rows.push(record.ok()?.iter().map(<[u8]>::to_vec).collect());
    }
    Some(rows)
}

/// Inputs to begin with: each method, quoting, and lines that end in both ways.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let text = "name,n\r\n\"a,\"\"b\"\"\",1\r\n,2\r\n\"\",\n\"two\nlines\",4\n0123456789,5\n";
    (0..4).map(|method| [&[method], text.as_bytes()].concat()).collect()
}
