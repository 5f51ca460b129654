//! A manifest with anything in it: read, its signature checked, and the table beside it not restored.

use std::sync::LazyLock;

use ciphermill_table::{ColumnSpec, Manifest, NoProgress, ProtectJob, UnprotectJob, manifest_path, protect, unprotect};

use crate::mills::MILL;

static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(crate::keystore::folder);

/// # Panics
/// When a manifest that nobody signed is believed.
pub fn run(bytes: &[u8]) {
    let path = FOLDER.path().join("t.csv.ciphermill.json");
    std::fs::write(&path, bytes).expect("written");
    if Manifest::read(&path).is_err() {
        return;
    }
    let table = FOLDER.path().join("t.csv");
    std::fs::write(&table, "a,b\n1,2\n").expect("written");
    let mut job = UnprotectJob::new(&table, FOLDER.path().join("out.csv"));
    job.allow_changed = true;
    job.force = true;
    let (mill, root) = &*MILL;
    assert!(unprotect(&job, mill, root, &NoProgress).is_err(), "a manifest without our signature is believed");
}

/// Inputs to begin with: the manifest of another table, under the same key.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let folder = crate::keystore::folder();
    let (source, target) = (folder.path().join("s.csv"), folder.path().join("p.csv"));
    std::fs::write(&source, "a,b,c\n1,2,3\n4,5,\n").expect("written");
    let mut job = ProtectJob::new(&source, &target);
    for column in ["a=random", "b=deterministic:as=id", "c=token:len=16"] {
        job = job.column(ColumnSpec::parse(column).expect("a column"));
    }
    let (mill, root) = &*MILL;
    protect(&job, mill, root, &NoProgress).expect("protected");
    vec![std::fs::read(manifest_path(&target)).expect("read")]
}
