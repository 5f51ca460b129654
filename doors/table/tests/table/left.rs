//! What a job leaves that dies before its first table is in place, and who may replace it. Deaths themselves are injected by
//! the command line's `tests/faults`.

use std::path::Path;

use ciphermill_table::{Manifest, NoProgress, Pending, Position, ProtectJob, Result, Summary, TableError, protect};

use crate::Bench;

const SIDE: &str = "out.csv.ciphermill.json";

fn job(bench: &Bench) -> ProtectJob {
    let mut job = bench.job("in.csv", "out.csv", &["b=random", "p=ff1:on-bad=reject"]);
    job.reject_file = Some(bench.path("bad.csv"));
    job
}

fn run(bench: &Bench, job: &ProtectJob) -> Result<Summary> {
    protect(job, &bench.mill, &bench.root, &NoProgress)
}

/// A table whose second row is rejected, protected, and what has changed beside it as if that had not come to an end.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("in.csv", "b,p\nfirst,123456789\nsecond,none\n");
    run(&bench, &job(&bench)).unwrap();
    bench
}

/// Writes the manifest of `out.csv` as it is before the table is in its place.
fn make_pending(bench: &Bench, table: &Path) {
    let rejects_sha256 = Some(hex(&bench.read("bad.csv")));
    let pending = Pending { table: table.to_str().unwrap().to_owned(), rejects_sha256 };
    let manifest = Manifest { pending: Some(pending), ..Manifest::read(&bench.path(SIDE)).unwrap() };
    bench.write(SIDE, serde_json::to_vec(&manifest).unwrap());
}

fn hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn what_was_left_before_the_table_came_is_replaced_without_force() {
    let bench = bench();
    make_pending(&bench, &bench.path("out.csv"));
    std::fs::remove_file(bench.path("out.csv")).unwrap();
    run(&bench, &job(&bench)).unwrap();
    bench.unprotect("out.csv", "back.csv").unwrap();
    assert_eq!(bench.text("back.csv"), "b,p\nfirst,123456789\n");
    assert_eq!(bench.text("bad.csv"), "b,p\nsecond,none\n");
    assert_eq!(Manifest::read(&bench.path(SIDE)).unwrap().pending, None);
    assert_eq!(bench.names(), ["back.csv", "bad.csv", "in.csv", "out.csv", SIDE]);
}

#[test]
fn a_manifest_that_is_not_pending_for_this_table_stays() {
    let refused = |bench: &Bench, job: &ProtectJob, path: &str| {
        let before = (bench.read(SIDE), bench.names());
        let error = run(bench, job).unwrap_err();
        assert!(matches!(&error, TableError::Exists { path: found } if *found == bench.path(path)), "{error}");
        assert_eq!((bench.read(SIDE), bench.names()), before);
    };
    // The table was moved away.
    let moved = bench();
    std::fs::rename(moved.path("out.csv"), moved.path("moved.csv")).unwrap();
    refused(&moved, &job(&moved), SIDE);
    // Another table's, which is there; named so that it lies in the way.
    let other = bench();
    make_pending(&other, &other.path("out.csv"));
    let mut second = other.job("in.csv", "second.csv", &["b=random"]);
    second.manifest = Some(other.path(SIDE));
    refused(&other, &second, SIDE);
    // The table came, and only the last step is missing: the pair is whole.
    let whole = bench();
    make_pending(&whole, &whole.path("out.csv"));
    refused(&whole, &job(&whole), "out.csv");
    whole.unprotect("out.csv", "back.csv").unwrap();
    // The reject file is another one.
    let rejects = bench();
    make_pending(&rejects, &rejects.path("out.csv"));
    std::fs::remove_file(rejects.path("out.csv")).unwrap();
    rejects.write("bad.csv", "rows of my own\n");
    refused(&rejects, &job(&rejects), "bad.csv");
    assert_eq!(rejects.text("bad.csv"), "rows of my own\n");
}

/// Nothing but what is pending may be added to a manifest without breaking its signature.
#[test]
fn pending_is_outside_of_the_signature() {
    let bench = bench();
    make_pending(&bench, &bench.path("elsewhere.csv"));
    bench.unprotect("out.csv", "back.csv").unwrap();
    let text = bench.text(SIDE).replace("rejects_sha256", "rejects_of_mine");
    bench.write(SIDE, text);
    assert!(matches!(bench.unprotect("out.csv", "again.csv"), Err(TableError::ManifestDamaged { .. })));
}

#[test]
fn rejected_rows_of_the_table_before_come_back_when_the_new_table_does_not() {
    let bench = bench();
    let before = (bench.read("out.csv"), bench.read(SIDE), bench.read("bad.csv"), bench.names());
    bench.write("in.csv", "b,p\nfirst,123456789\nthird,nothing\n");
    let (place, aside) = (bench.path("out.csv"), bench.path("aside.csv"));
    let block = |_: &Position| {
        std::fs::rename(&place, &aside).unwrap();
        std::fs::create_dir(&place).unwrap();
    };
    let forced = ProtectJob { force: true, ..job(&bench) };
    let error = protect(&forced, &bench.mill, &bench.root, &block).unwrap_err();
    assert!(matches!(error, TableError::Io { .. }), "{error}");
    std::fs::remove_dir(&place).unwrap();
    std::fs::rename(&aside, &place).unwrap();
    assert_eq!((bench.read("out.csv"), bench.read(SIDE), bench.read("bad.csv"), bench.names()), before);
    run(&bench, &forced).unwrap();
    assert_eq!(bench.text("bad.csv"), "b,p\nthird,nothing\n");
    assert_eq!(bench.names(), before.3);
}

#[test]
fn an_input_whose_manifest_cannot_be_read_is_not_taken_for_unprotected() {
    let bench = bench();
    std::fs::create_dir(bench.path("in.csv.ciphermill.json")).unwrap();
    let error = bench.protect("in.csv", "again.csv", &["b=random"]).unwrap_err();
    assert!(matches!(error, TableError::Io { .. }), "{error}");
    bench.protect("out.csv", "again.csv", &["b=random"]).unwrap_err();
    assert!(!bench.path("again.csv").exists());
}

#[test]
fn outputs_are_files_of_their_own() {
    let bench = bench();
    let before = bench.names();
    let named = |manifest: Option<&str>, rejects: &str| {
        let mut job = ProtectJob { force: true, ..job(&bench) };
        (job.manifest, job.reject_file) = (manifest.map(|name| bench.path(name)), Some(bench.path(rejects)));
        job
    };
    for (manifest, rejects) in
        [(Some("out.csv"), "bad.csv"), (None, SIDE), (None, "out.csv"), (Some("in.csv"), "bad.csv")]
    {
        let error = run(&bench, &named(manifest, rejects)).unwrap_err();
        assert!(matches!(error, TableError::SameFile { .. }), "{error}");
    }
    let mut printed = named(None, "bad.csv");
    printed.manifest = Some("-".into());
    assert!(matches!(run(&bench, &printed), Err(TableError::NotAFile { .. })));
    // What stays protected gets a manifest, and that is not the one that is read.
    let mut back = bench.back("out.csv", "back.csv");
    (back.columns, back.force) = (vec!["b".to_owned()], true);
    back.manifest = Some(bench.path("back.csv.ciphermill.json"));
    std::fs::copy(bench.path(SIDE), bench.path("back.csv.ciphermill.json")).unwrap();
    let error = ciphermill_table::unprotect(&back, &bench.mill, &bench.root, &NoProgress).unwrap_err();
    assert!(matches!(error, TableError::SameFile { .. }), "{error}");
    assert_eq!(bench.names().len(), before.len() + 1);
}
