//! A folder of tables whose manifest, or whose journal, has anything in it: what is restored is what was protected.

use std::path::Path;
use std::sync::LazyLock;

use ciphermill_table::{
    ColumnSpec, FOLDER_MANIFEST, Folder, NoProgress, ProtectJob, UnprotectJob, protect_folder, restore_folder,
};

use crate::mills::MILL;

const JOURNAL: &str = "_ciphermill.journal";

/// The tables in clear.
const TABLES: [(&str, &str); 2] = [("a.csv", "a,b\n1,2\n"), ("d=1/b.csv", "a,b\n3,4\n5,\n")];

static FOLDER: LazyLock<(tempfile::TempDir, Vec<u8>)> = LazyLock::new(|| {
    let folder = crate::keystore::folder();
    protect(folder.path(), &TABLES).expect("protected");
    let manifest = std::fs::read(folder.path().join("safe").join(FOLDER_MANIFEST)).expect("read");
    (folder, manifest)
});

fn protect(folder: &Path, tables: &[(&str, &str)]) -> ciphermill_table::Result<()> {
    for (name, text) in tables {
        let path = folder.join("clear").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
    let mut job = ProtectJob::new(folder.join("clear"), folder.join("safe"));
    job.threads = Some(1);
    for column in ["a=random", "b=deterministic:as=id"] {
        job = job.column(ColumnSpec::parse(column).expect("a column"));
    }
    let (mill, root) = &*MILL;
    protect_folder(&job, mill, root, &NoProgress).map(drop)
}

/// # Panics
/// When a folder is restored to something else than it was.
pub fn run(bytes: &[u8]) {
    let (folder, manifest) = &*FOLDER;
    let (safe, back) = (folder.path().join("safe"), folder.path().join("back"));
    let is_manifest = bytes.starts_with(b"{");
    std::fs::write(safe.join(FOLDER_MANIFEST), if is_manifest { bytes } else { manifest }).expect("written");
    if is_manifest {
        let _ = std::fs::remove_file(safe.join(JOURNAL));
    } else {
        std::fs::write(safe.join(JOURNAL), bytes).expect("written");
    }
    let mut job = UnprotectJob::new(&safe, &back);
    job.threads = Some(1);
    let (mill, root) = &*MILL;
    let Ok(opened) = Folder::open(&job) else { return };
    if restore_folder(opened, &job, mill, std::slice::from_ref(root), &NoProgress).is_ok() {
        for (name, text) in TABLES {
            assert_eq!(std::fs::read_to_string(back.join(name)).ok().as_deref(), Some(text), "{name}");
        }
    }
    let _ = std::fs::remove_dir_all(back);
}

/// Inputs to begin with: the manifest, and the journal of a run that failed at its last table.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let folder = crate::keystore::folder();
    // The smallest is the last.
    protect(folder.path(), &[TABLES[1], ("c.csv", "a,b\n1\n")]).expect_err("a table is malformed");
    let journal = std::fs::read(folder.path().join("safe").join(JOURNAL)).expect("read");
    vec![FOLDER.1.clone(), journal]
}
