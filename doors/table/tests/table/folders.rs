//! Folders of tables: what they restore to, what is refused, and what is left when a table fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ciphermill_table::{
    Check, ColumnSpec, FOLDER_MANIFEST, Folder, FolderManifest, Manifest, NoProgress, Position, ProtectJob, Rekey,
    Result, RootKey, Summary, TableError, UnprotectJob, inspect_folder, protect_folder, rekey_folder, restore_folder,
    unprotect,
};

use crate::{Bench, testing};

const COLUMNS: [&str; 2] = ["name=deterministic", "mail=random"];

/// A table whose values tell it from others.
fn csv(of: &str, rows: usize) -> String {
    let rows = (0..rows).map(|row| format!("{row},{of} {},{row}@{of}.example\n", row % 17));
    format!("id,name,mail\n{}", rows.collect::<String>())
}

/// Writes a folder of tables, partitioned as Hive does it.
fn orders(bench: &Bench) -> BTreeMap<String, Vec<u8>> {
    let mut tables = BTreeMap::new();
    for (number, name) in
        ["region=AS/p.csv", "region=EU/p.csv", "region=EU/q.tsv", "region=US/year=2026/r.csv", "t.csv"]
            .into_iter()
            .enumerate()
    {
        let text = csv(name, 40 + 400 * number);
        let text = if name.ends_with(".tsv") { text.replace(',', "\t") } else { text };
        let path = bench.path("orders").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &text).unwrap();
        tables.insert(name.to_owned(), text.into_bytes());
    }
    std::fs::write(bench.path("orders/_SUCCESS"), "").unwrap();
    tables
}

/// All files of a folder.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    found
}

fn protect(bench: &Bench, job: &ProtectJob) -> Result<Summary> {
    protect_folder(job, &bench.mill, &bench.root, &NoProgress)
}

fn restore(bench: &Bench, job: &UnprotectJob, root: &RootKey) -> Result<Summary> {
    restore_folder(Folder::open(job)?, job, &bench.mill, std::slice::from_ref(root), &NoProgress)
}

/// Rekeys from the bench's key.
fn rekey(bench: &Bench, job: &UnprotectJob, to: &RootKey, columns: &[&str]) -> Result<Summary> {
    let columns = columns.iter().map(|column| ColumnSpec::parse(column).unwrap()).collect();
    let to = Rekey { root: to.clone(), columns };
    let roots = [bench.root.clone(), to.root.clone()];
    rekey_folder(Folder::open(job)?, job, &bench.mill, &roots, &to, &NoProgress)
}

fn other_key(bench: &Bench) -> RootKey {
    RootKey { version: 7, ..testing::root_key(&bench.mill, &[0xa5; 32]) }
}

fn manifest(folder: &Path) -> FolderManifest {
    FolderManifest::read(&folder.join(FOLDER_MANIFEST)).unwrap()
}

#[test]
fn folders_restore_to_the_same_bytes() {
    for threads in [1, 3, 16] {
        let bench = Bench::new();
        let tables = orders(&bench);
        let job = ProtectJob { threads: Some(threads), ..bench.job("orders", "safe", &COLUMNS) };
        let summary = protect(&bench, &job).unwrap();
        let files = summary.files.unwrap();
        assert_eq!((files.done, files.before, summary.columns.len()), (5, 0, 2));
        let rows: usize = (0..5).map(|number| 40 + 400 * number).sum();
        assert_eq!((summary.rows, summary.values), (rows as u64, 2 * rows as u64));
        assert_eq!(summary.manifest, bench.path("safe/_ciphermill.json"));
        let protected = content(&bench.path("safe"));
        let names: Vec<&str> = protected.keys().map(String::as_str).collect();
        let mut wanted: Vec<&str> = tables.keys().map(String::as_str).collect();
        wanted.insert(0, "_ciphermill.json");
        assert_eq!(names, wanted, "and neither journal nor `_SUCCESS`");
        assert!(protected.values().all(|text| !String::from_utf8_lossy(text).contains("example")));

        let read = manifest(&bench.path("safe"));
        read.verify(Path::new("m"), &bench.mill, &bench.root).unwrap();
        assert_eq!(read.files.len(), 5);
        let job = UnprotectJob { threads: Some(threads), ..bench.back("safe", "back") };
        let summary = restore(&bench, &job, &bench.root).unwrap();
        assert_eq!(summary.rows, rows as u64);
        assert_eq!(content(&bench.path("back")), tables);
    }
}

#[test]
fn parts_of_a_folder_and_single_tables_find_its_manifest() {
    let bench = Bench::new();
    let tables = orders(&bench);
    protect(&bench, &bench.job("orders", "safe", &COLUMNS)).unwrap();
    restore(&bench, &bench.back("safe/region=*/*.csv", "parts"), &bench.root).unwrap();
    let parts = content(&bench.path("parts"));
    assert_eq!(parts.keys().collect::<Vec<_>>(), ["region=AS/p.csv", "region=EU/p.csv"]);
    assert!(parts.iter().all(|(name, text)| tables[name] == *text));
    restore(&bench, &bench.back("safe/region=EU", "eu"), &bench.root).unwrap();
    assert_eq!(content(&bench.path("eu"))["q.tsv"], tables["region=EU/q.tsv"]);
    unprotect(&bench.back("safe/t.csv", "t.csv"), &bench.mill, &bench.root, &NoProgress).unwrap();
    assert_eq!(bench.read("t.csv"), tables["t.csv"]);
}

#[test]
fn columns_that_stay_protected_have_a_manifest_of_the_folder() {
    let bench = Bench::new();
    let tables = orders(&bench);
    protect(&bench, &bench.job("orders", "safe", &COLUMNS)).unwrap();
    let job = UnprotectJob { columns: vec!["mail".to_owned()], ..bench.back("safe", "half") };
    assert_eq!(restore(&bench, &job, &bench.root).unwrap().still_protected, ["name"]);
    restore(&bench, &bench.back("half", "back"), &bench.root).unwrap();
    assert_eq!(content(&bench.path("back")), tables);
}

#[test]
fn whatever_is_altered_in_a_folder_is_noticed() {
    let bench = Bench::new();
    orders(&bench);
    protect(&bench, &bench.job("orders", "safe", &COLUMNS)).unwrap();
    let good = content(&bench.path("safe"));
    let tried = |change: &dyn Fn(&Path)| {
        let _ = std::fs::remove_dir_all(bench.path("copy"));
        for (name, bytes) in &good {
            let path = bench.path("copy").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        change(&bench.path("copy"));
        let error = restore(&bench, &bench.back("copy", "never"), &bench.root).unwrap_err().to_string();
        let _ = std::fs::remove_dir_all(bench.path("never"));
        error
    };
    let rewrite = |folder: &Path, change: &dyn Fn(&mut FolderManifest)| {
        let mut read = manifest(folder);
        change(&mut read);
        std::fs::write(folder.join(FOLDER_MANIFEST), serde_json::to_vec(&read).unwrap()).unwrap();
    };
    let missing = tried(&|folder| std::fs::remove_file(folder.join("t.csv")).unwrap());
    assert!(missing.contains("t.csv: changed since it was protected: it is missing, and in"), "{missing}");
    let added = tried(&|folder| {
        std::fs::copy(folder.join("t.csv"), folder.join("u.csv")).unwrap();
    });
    assert!(added.contains("u.csv: changed since it was protected: it is not in"), "{added}");
    let swapped = tried(&|folder| {
        std::fs::rename(folder.join("region=AS/p.csv"), folder.join("x")).unwrap();
        std::fs::rename(folder.join("region=EU/p.csv"), folder.join("region=AS/p.csv")).unwrap();
        std::fs::rename(folder.join("x"), folder.join("region=EU/p.csv")).unwrap();
    });
    assert!(swapped.contains("changed since it was protected"), "{swapped}");
    let both_swapped = tried(&|folder| {
        std::fs::rename(folder.join("region=AS/p.csv"), folder.join("x")).unwrap();
        std::fs::rename(folder.join("region=EU/p.csv"), folder.join("region=AS/p.csv")).unwrap();
        std::fs::rename(folder.join("x"), folder.join("region=EU/p.csv")).unwrap();
        rewrite(folder, &|read| {
            let first = read.files[0].manifest.clone();
            read.files[0].manifest = std::mem::replace(&mut read.files[1].manifest, first);
        });
    });
    assert!(both_swapped.contains("its signature does not hold"), "{both_swapped}");
    let hidden = tried(&|folder| {
        std::fs::remove_file(folder.join("t.csv")).unwrap();
        rewrite(folder, &|read| drop(read.files.pop()));
    });
    assert!(hidden.contains("its signature does not hold"), "{hidden}");
    for (change, words) in [
        ((|read| read.files[0].path = "../p.csv".to_owned()) as fn(&mut FolderManifest), "no path within the folder"),
        (|read| read.files.reverse(), "not in the order"),
        (|read| read.root_key.version += 1, "not one of this folder"),
        (|read| read.ciphermill_folder += 1, "manifest format 2"),
    ] {
        let error = tried(&|folder| rewrite(folder, &change));
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_table_that_fails_names_itself_and_the_others_are_gone_on_with() {
    let bench = Bench::new();
    let mut tables = orders(&bench);
    // The smallest comes last when there is one thread.
    let bad = bench.path("orders/region=AS/p.csv");
    std::fs::write(&bad, "id,name,mail\n1,a\n").unwrap();
    let job = ProtectJob { threads: Some(1), ..bench.job("orders", "safe", &COLUMNS) };
    let error = protect(&bench, &job).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("region=AS/p.csv: row 1") && text.contains("4 of 5 tables are done"), "{text}");
    let before = content(&bench.path("safe"));
    assert!(before.contains_key("_ciphermill.journal") && !before.contains_key("_ciphermill.json"));

    let unfinished = Folder::open(&bench.back("safe", "back")).err().unwrap();
    assert!(unfinished.to_string().contains("there is an unfinished run (protect of"), "{unfinished}");
    let other = protect(&bench, &bench.job("orders", "safe", &["name=random"])).unwrap_err();
    assert!(matches!(&other, TableError::OtherWork { problem, .. } if problem.contains("mail=random")), "{other}");

    let mended = csv("mended", 3);
    std::fs::write(&bad, &mended).unwrap();
    tables.insert("region=AS/p.csv".to_owned(), mended.into_bytes());
    let summary = protect(&bench, &job).unwrap();
    let files = summary.files.unwrap();
    assert_eq!((files.done, files.before, summary.rows), (1, 4, 3));
    let after = content(&bench.path("safe"));
    for (name, bytes) in before.iter().filter(|(name, _)| !name.starts_with('_')) {
        assert!(after[name] == *bytes, "{name} was done again");
    }
    assert!(!after.contains_key("_ciphermill.journal"));
    restore(&bench, &bench.back("safe", "back"), &bench.root).unwrap();
    assert_eq!(content(&bench.path("back")), tables);
}

#[test]
fn nothing_is_left_when_the_first_table_fails() {
    let bench = Bench::new();
    orders(&bench);
    let before = bench.names();
    let error = protect(&bench, &bench.job("orders", "new/safe", &["region=random"])).unwrap_err();
    assert!(error.to_string().contains("column `region`"), "{error}");
    std::fs::remove_dir(bench.path("new")).unwrap();
    assert_eq!(bench.names(), before);
    let job = bench.job("orders", "safe", &COLUMNS);
    job.cancel.store(true, Ordering::Relaxed);
    assert!(matches!(protect(&bench, &job), Err(TableError::Interrupted)));
    assert_eq!(bench.names(), before);
}

#[test]
fn what_folders_cannot_have_is_refused() {
    let bench = Bench::new();
    orders(&bench);
    let before = content(bench.folder.path());
    let job = || bench.job("orders", "safe", &COLUMNS);
    let refused = |job: &ProtectJob, words: &str| {
        let error = protect(&bench, job).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&ProtectJob { force: true, ..job() }, "is for single tables");
    refused(&ProtectJob { manifest: Some("m".into()), ..job() }, "a manifest's name is for single tables");
    refused(&ProtectJob { reject_file: Some("r".into()), ..job() }, "a reject file is for single tables");
    refused(&ProtectJob { output: "-".into(), ..job() }, "standard output is for single tables");
    refused(&bench.job("orders", "orders/safe", &COLUMNS), "lies in");
    refused(&bench.job("orders/*.parquet", "safe", &COLUMNS), "no tables there");
    refused(&bench.job("orders", "orders/t.csv/x", &COLUMNS), "cannot find: Not a directory");
    std::fs::write(bench.path("file"), "x").unwrap();
    refused(&bench.job("orders", "file", &COLUMNS), "cannot make the folder");
    std::fs::write(bench.path("orders/readme.txt"), "x").unwrap();
    refused(&job(), "readme.txt: neither .csv");
    for name in ["file", "orders/readme.txt"] {
        std::fs::remove_file(bench.path(name)).unwrap();
    }
    assert_eq!(content(bench.folder.path()), before);
    std::fs::create_dir(bench.path("safe")).unwrap();
    protect(&bench, &job()).unwrap();
    refused(&job(), "safe: is not empty");
    for input in ["safe", "safe/region=EU", "safe/*.csv", "safe/region=*"] {
        refused(&bench.job(input, "twice", &COLUMNS), "is protected already");
    }
    let one = bench.protect("safe/t.csv", "twice.csv", &COLUMNS).unwrap_err();
    assert!(matches!(one, TableError::AlreadyProtected { .. }), "{one}");
    // A manifest further up that is of other tables, or of nothing, is in nobody's way.
    std::fs::write(bench.path("_ciphermill.json"), "{").unwrap();
    bench.protect("orders/t.csv", "single.csv", &COLUMNS).unwrap();
    bench.unprotect("single.csv", "again.csv").unwrap();
    std::fs::rename(bench.path("safe/_ciphermill.json"), bench.path("_ciphermill.json")).unwrap();
    std::fs::create_dir(bench.path("singles")).unwrap();
    bench.protect("orders/t.csv", "singles/t.csv", &COLUMNS).unwrap();
    for (further_up, back) in [(None, "back"), (Some("{"), "back again")] {
        further_up.into_iter().for_each(|text| std::fs::write(bench.path("_ciphermill.json"), text).unwrap());
        restore(&bench, &bench.back("singles", back), &bench.root).unwrap();
        assert_eq!(content(&bench.path(back))["t.csv"], bench.read("orders/t.csv"));
    }
    std::fs::write(bench.path("singles/_ciphermill.json"), "{").unwrap();
    let own = restore(&bench, &bench.back("singles", "none"), &bench.root).unwrap_err();
    assert!(matches!(own, TableError::ManifestDamaged { .. }), "{own}");
}

#[test]
fn a_dry_run_counts_what_is_bad_in_all_tables_and_writes_nothing() {
    let bench = Bench::new();
    orders(&bench);
    let before = content(bench.folder.path());
    let job = ProtectJob { dry_run: true, ..bench.job("orders", "safe", &["id=ff1:on-bad=null"]) };
    let summary = protect(&bench, &job).unwrap();
    let short: u64 = (0..5).map(|number| 40 + 400 * number).sum();
    assert_eq!(summary.columns[0].bad[0].count, short, "no number has six digits");
    assert!(summary.columns[0].bad[0].rows.is_empty());
    assert_eq!(content(bench.folder.path()), before);
}

#[test]
fn folders_are_rekeyed_into_others_and_in_place() {
    let bench = Bench::new();
    let tables = orders(&bench);
    protect(&bench, &bench.job("orders", "safe", &COLUMNS)).unwrap();
    let new_key = other_key(&bench);
    let summary = rekey(&bench, &bench.back("safe", "safer"), &new_key, &["mail=deterministic"]).unwrap();
    assert_eq!(summary.files.unwrap().done, 5);
    for folder in ["safer", "safe"] {
        if folder == "safe" {
            std::fs::write(bench.path("safe/region=EU/.p.csv.crc"), "of the table before").unwrap();
            rekey(&bench, &bench.back("safe", "safe"), &new_key, &["mail=deterministic"]).unwrap();
        }
        let read = manifest(&bench.path(folder));
        assert_eq!(content(&bench.path(folder)).len(), 6, "a checksum of what was there before is gone");
        read.verify(Path::new("m"), &bench.mill, &new_key).unwrap();
        let methods =
            |manifest: &Manifest| manifest.columns.iter().map(|column| column.method.clone()).collect::<Vec<_>>();
        assert!(read.files.iter().all(|file| methods(&file.manifest) == ["deterministic", "deterministic"]));
        let job = bench.back(folder, "back");
        restore(&bench, &job, &new_key).unwrap();
        assert_eq!(content(&bench.path("back")), tables);
        std::fs::remove_dir_all(bench.path("back")).unwrap();
    }
    let before = content(&bench.path("safe"));
    let again = rekey(&bench, &bench.back("safe", "safe"), &new_key, &["mail=deterministic"]).unwrap();
    assert_eq!((again.files.unwrap().done, again.files.unwrap().before), (0, 5));
    assert_eq!(content(&bench.path("safe")), before);
    let part = rekey(&bench, &bench.back("safe/region=EU", "safe/region=EU"), &bench.root, &[]).unwrap_err();
    assert!(matches!(part, TableError::NotWhole { .. }), "{part}");
    let unknown = rekey(&bench, &bench.back("safe", "safe"), &bench.root, &["nobody=random"]).unwrap_err();
    assert!(matches!(unknown, TableError::ColumnUnknown { .. }), "{unknown}");
}

/// A link would be replaced by a file, and the table that it leads to stay under the old key.
#[test]
fn links_are_not_rekeyed_in_place() {
    let bench = Bench::new();
    orders(&bench);
    protect(&bench, &bench.job("orders", "safe", &COLUMNS)).unwrap();
    std::fs::rename(bench.path("safe/t.csv"), bench.path("elsewhere.csv")).unwrap();
    std::os::unix::fs::symlink("../elsewhere.csv", bench.path("safe/t.csv")).unwrap();
    let before = content(bench.folder.path());
    let new_key = other_key(&bench);
    let error = rekey(&bench, &bench.back("safe", "safe"), &new_key, &[]).unwrap_err();
    assert!(error.to_string().contains("t.csv: is a symbolic link"), "{error}");
    assert_eq!(content(bench.folder.path()), before);
    rekey(&bench, &bench.back("safe", "safer"), &new_key, &[]).unwrap();
    restore(&bench, &bench.back("safer", "back"), &new_key).unwrap();
    assert_eq!(content(&bench.path("back"))["t.csv"], content(&bench.path("orders"))["t.csv"]);
}

/// Rekeying in place that is stopped after each table: at any time every table restores, whatever key it is under.
#[test]
fn a_folder_between_two_keys_restores_as_a_whole() {
    let bench = Bench::new();
    let tables = orders(&bench);
    protect(&bench, &bench.job("orders", "safe", &COLUMNS)).unwrap();
    let new_key = other_key(&bench);
    let to = Rekey { root: new_key.clone(), columns: Vec::new() };
    let roots = [bench.root.clone(), new_key.clone()];
    let mut stops = 0;
    loop {
        let job = UnprotectJob { threads: Some(1), ..bench.back("safe", "safe") };
        // The first table that is begun is gone through; the next one finds that it is cancelled.
        let folder = Folder::open(&job).unwrap();
        let progress = Stopper { cancel: Arc::clone(&job.cancel), first: AtomicU64::new(u64::MAX) };
        let result = rekey_folder(folder, &job, &bench.mill, &roots, &to, &progress);
        let back = bench.back("safe", "back");
        let keys = Folder::open(&back).unwrap().keys();
        restore_folder(Folder::open(&back).unwrap(), &back, &bench.mill, &roots, &NoProgress).unwrap();
        assert_eq!(content(&bench.path("back")), tables);
        std::fs::remove_dir_all(bench.path("back")).unwrap();
        match result {
            Ok(_) => break,
            Err(TableError::Stopped { done, of, .. }) => {
                stops += 1;
                assert_eq!((done, of, keys.len()), (stops, 5, 2));
                assert!(matches!(other_work(&bench), TableError::OtherWork { .. }));
                let found =
                    inspect_folder(&Folder::open(&back).unwrap(), &back, Some((&bench.mill, &roots)), &NoProgress);
                let found = found.unwrap();
                assert!(found.is_good() && found.journal.is_some(), "{:?}", found.problem());
                let new = found.tables.iter().filter(|(_, table)| table.manifest.root_key.version == 7);
                assert_eq!(new.count(), stops);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(stops, 4);
}

/// Another job on a folder with an unfinished one.
fn other_work(bench: &Bench) -> TableError {
    let third = RootKey { version: 9, ..testing::root_key(&bench.mill, &[0x77; 32]) };
    let job = bench.back("safe", "safe");
    let folder = Folder::open(&job).unwrap();
    let roots = [bench.root.clone(), other_key(bench), third.clone()];
    rekey_folder(folder, &job, &bench.mill, &roots, &Rekey { root: third, columns: Vec::new() }, &NoProgress)
        .unwrap_err()
}

/// Cancels a job when its second table has begun.
struct Stopper {
    cancel: Arc<AtomicBool>,
    /// Rows of the first.
    first: AtomicU64,
}

impl ciphermill_table::Progress for Stopper {
    fn advance(&self, position: &Position) {
        let first = self.first.fetch_min(position.rows, Ordering::Relaxed);
        if position.rows > first {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn inspection_of_a_folder_tells_the_table_that_is_not_right() {
    let bench = Bench::new();
    orders(&bench);
    protect(&bench, &bench.job("orders", "safe", &COLUMNS)).unwrap();
    let job = bench.back("safe", "");
    let look = |key: Option<&RootKey>| {
        let roots: Vec<RootKey> = key.into_iter().cloned().collect();
        let key = key.map(|_| (&bench.mill, &roots[..]));
        inspect_folder(&Folder::open(&job).unwrap(), &job, key, &NoProgress).unwrap()
    };
    let found = look(Some(&bench.root));
    assert!(found.is_good() && found.signature == Check::Verified && found.tables.len() == 5);
    assert!(matches!(look(None).signature, Check::NotChecked(_)));
    let path = bench.path("safe/region=EU/p.csv");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("7,", "8,", 1)).unwrap();
    let found = look(Some(&bench.root));
    assert!(!found.is_good());
    assert!(found.problem().unwrap().starts_with("region=EU/p.csv: hash:"), "{:?}", found.problem());
}
