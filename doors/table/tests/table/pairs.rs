//! A table and its manifest change together, and a Parquet table has its manifest with it.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::{ArrayRef, Int64Array, StringArray};
use ciphermill_table::{
    FOOTER_KEY, Manifest, NoProgress, Origin, Position, ProtectJob, Result, Summary, TableError, protect, unprotect,
};
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::{Bench, batch, read_parquet, write_parquet};

const FORMATS: [&str; 2] = ["csv", "parquet"];

/// Writes a table whose column `b` holds `text` and whose column `c` is no one's concern.
fn write_table(bench: &Bench, name: &str, text: &str) {
    if name.ends_with("csv") {
        bench.write(name, format!("b,c\n{text},1\n"));
    } else {
        let (b, c) = (Arc::new(StringArray::from(vec![text])), Arc::new(Int64Array::from(vec![1])));
        let table = batch(vec![("b", b as ArrayRef), ("c", c as ArrayRef)]);
        write_parquet(&bench.path(name), from_ref(&table), None);
    }
}

fn side(name: &str) -> String {
    format!("{name}.ciphermill.json")
}

fn forced(bench: &Bench, input: &str, output: &str) -> ProtectJob {
    let mut job = bench.job(input, output, &["b=deterministic"]);
    job.force = true;
    job
}

fn run(bench: &Bench, job: &ProtectJob) -> Result<Summary> {
    protect(job, &bench.mill, &bench.root, &NoProgress)
}

/// What column `b` of a protected table holds.
fn restored(bench: &Bench, name: &str) -> String {
    let mut job = bench.back(name, "back");
    job.force = true;
    unprotect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
    if name.ends_with("csv") {
        let text = bench.text("back");
        text.lines().nth(1).and_then(|line| line.split(',').next()).unwrap().to_owned()
    } else {
        use arrow_array::cast::AsArray;
        read_parquet(&bench.path("back")).column(0).as_string::<i32>().value(0).to_owned()
    }
}

/// Table and manifest of two protected tables that had the same name one after the other.
fn old_and_new(bench: &Bench, format: &str) -> [(Vec<u8>, Vec<u8>); 2] {
    let name = format!("out.{format}");
    ["old", "new"].map(|text| {
        write_table(bench, &format!("{text}.{format}"), text);
        run(bench, &forced(bench, &format!("{text}.{format}"), &name)).unwrap();
        (bench.read(&name), bench.read(&side(&name)))
    })
}

/// The file beside a table in the middle of a swap.
fn both(old: &[u8], new: &[u8]) -> String {
    let parse = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
    let mut both = parse(new);
    both["previous"] = parse(old);
    both.to_string()
}

#[test]
fn each_state_of_a_swap_has_a_manifest_for_its_table() {
    for format in FORMATS {
        let bench = Bench::new();
        let name = format!("out.{format}");
        let [old, new] = old_and_new(&bench, format);
        let between = both(&old.1, &new.1);
        for (table, manifest, text) in [
            (&old.0, old.1.as_slice(), "old"),
            (&old.0, between.as_bytes(), "old"),
            (&new.0, between.as_bytes(), "new"),
            (&new.0, new.1.as_slice(), "new"),
        ] {
            bench.write(&name, table);
            bench.write(&side(&name), manifest);
            assert_eq!(restored(&bench, &name), text, "{format}");
        }
        let now: serde_json::Value = serde_json::from_slice(&new.1).unwrap();
        assert!(now.get("previous").is_none(), "nothing is left of the old manifest at the end");
    }
}

#[test]
fn a_swap_that_fails_leaves_the_old_pair() {
    for format in FORMATS {
        let bench = Bench::new();
        let name = format!("out.{format}");
        let [old, new] = old_and_new(&bench, format);
        // Whole, and as a swap that was cut short left it, before and after the table was renamed.
        for (table, manifest, text) in [
            (&new.0, new.1.clone(), "new"),
            (&old.0, both(&old.1, &new.1).into_bytes(), "old"),
            (&new.0, both(&old.1, &new.1).into_bytes(), "new"),
        ] {
            bench.write(&name, table);
            bench.write(&side(&name), &manifest);
            // A directory comes into the table's place while the job runs, so that the table cannot.
            let place = bench.path(&name);
            let block = |_: &Position| {
                std::fs::rename(&place, place.with_extension("aside")).unwrap();
                std::fs::create_dir(&place).unwrap();
            };
            let job = forced(&bench, &format!("new.{format}"), &name);
            let error = protect(&job, &bench.mill, &bench.root, &block).unwrap_err();
            assert!(matches!(error, TableError::Io { .. }), "{error}");
            std::fs::remove_dir(&place).unwrap();
            std::fs::rename(place.with_extension("aside"), &place).unwrap();
            assert_eq!(bench.read(&side(&name)), manifest, "{format}: the manifest is what it was");
            assert_eq!(restored(&bench, &name), text);
            // And the next one goes through.
            run(&bench, &job).unwrap();
            assert_eq!(restored(&bench, &name), "new");
        }
    }
}

#[test]
fn a_first_pair_that_fails_leaves_nothing() {
    let bench = Bench::new();
    write_table(&bench, "in.csv", "new");
    let place = bench.path("out.csv");
    let block = |_: &Position| std::fs::write(&place, "came meanwhile").unwrap();
    let job = bench.job("in.csv", "out.csv", &["b=random"]);
    let error = protect(&job, &bench.mill, &bench.root, &block).unwrap_err();
    assert!(matches!(error, TableError::Exists { .. }), "{error}");
    assert_eq!(bench.names(), ["in.csv", "out.csv"]);
    assert_eq!(bench.text("out.csv"), "came meanwhile");
}

#[test]
fn what_is_no_manifest_is_replaced_and_comes_back_on_failure() {
    let bench = Bench::new();
    write_table(&bench, "in.csv", "new");
    bench.write("out.csv", "plain\n");
    bench.write("out.csv.ciphermill.json", "notes of my own");
    let place = bench.path("out.csv");
    let block = |_: &Position| {
        std::fs::remove_file(&place).unwrap();
        std::fs::create_dir(&place).unwrap();
    };
    let job = forced(&bench, "in.csv", "out.csv");
    protect(&job, &bench.mill, &bench.root, &block).unwrap_err();
    assert_eq!(bench.text("out.csv.ciphermill.json"), "notes of my own");
    std::fs::remove_dir(&place).unwrap();
    run(&bench, &job).unwrap();
    assert_eq!(restored(&bench, "out.csv"), "new");
    // A manifest of a later version belongs to a table that this program cannot speak for.
    bench.write("out.csv.ciphermill.json", "{\"ciphermill_manifest\": 99}");
    assert!(matches!(run(&bench, &job), Err(TableError::ManifestVersion { found: 99, .. })));
}

#[test]
fn who_reads_while_tables_are_swapped_gets_one_of_them() {
    for format in FORMATS {
        let bench = Bench::new();
        let name = format!("out.{format}");
        old_and_new(&bench, format);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..40 {
                    let input = format!("{}.{format}", if round % 2 == 0 { "old" } else { "new" });
                    run(&bench, &forced(&bench, &input, &name)).unwrap();
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                let text = restored(&bench, &name);
                assert!(text == "old" || text == "new", "{text}");
            }
        });
    }
}

#[test]
fn two_jobs_that_replace_one_table_leave_a_pair() {
    let bench = Bench::new();
    old_and_new(&bench, "csv");
    for _ in 0..10 {
        std::thread::scope(|scope| {
            for input in ["old.csv", "new.csv"] {
                scope.spawn(|| run(&bench, &forced(&bench, input, "out.csv")).unwrap());
            }
        });
        restored(&bench, "out.csv");
    }
}

fn protected_parquet(bench: &Bench) -> Vec<u8> {
    write_table(bench, "in.parquet", "secret");
    bench.protect("in.parquet", "out.parquet", &["b=deterministic"]).unwrap();
    bench.read("out.parquet")
}

fn origin(bench: &Bench) -> Origin {
    let mut job = bench.back("out.parquet", "back");
    job.force = true;
    unprotect(&job, &bench.mill, &bench.root, &NoProgress).unwrap().manifest_origin
}

#[test]
fn a_parquet_table_without_its_side_file_has_lost_nothing() {
    let bench = Bench::new();
    protected_parquet(&bench);
    let manifest = bench.read("out.parquet.ciphermill.json");
    assert_eq!(origin(&bench), Origin::Beside);
    std::fs::remove_file(bench.path("out.parquet.ciphermill.json")).unwrap();
    assert_eq!(origin(&bench), Origin::Footer);
    assert_eq!(read_parquet(&bench.path("back")), read_parquet(&bench.path("in.parquet")));
    bench.write("out.parquet.ciphermill.json", "no manifest");
    assert_eq!(origin(&bench), Origin::Footer);
    write_table(&bench, "other.parquet", "other");
    bench.protect("other.parquet", "other.out.parquet", &["b=deterministic"]).unwrap();
    bench.write("out.parquet.ciphermill.json", bench.read("other.out.parquet.ciphermill.json"));
    assert_eq!(origin(&bench), Origin::Footer);
    // Damaged where it speaks of the file: the one in the footer says the rest.
    for field in ["sha256", "signature"] {
        let (mut damaged, start) = (manifest.clone(), format!("\"{field}\": \""));
        let digit = damaged.windows(start.len()).position(|window| window == start.as_bytes()).unwrap() + start.len();
        damaged[digit] = if damaged[digit] == b'0' { b'1' } else { b'0' };
        bench.write("out.parquet.ciphermill.json", damaged);
        assert_eq!(origin(&bench), Origin::Footer, "{field}");
    }
    bench.write("out.parquet.ciphermill.json", &manifest);
    assert_eq!(origin(&bench), Origin::Beside);
    // A manifest that the job names has to be there.
    let mut job = bench.back("out.parquet", "again");
    job.manifest = Some(bench.path("nowhere.json"));
    let error = unprotect(&job, &bench.mill, &bench.root, &NoProgress).unwrap_err();
    assert!(matches!(error, TableError::ManifestMissing { .. }), "{error}");
}

#[test]
fn the_manifest_in_a_footer_covers_everything_but_itself() {
    let bench = Bench::new();
    let whole = protected_parquet(&bench);
    std::fs::remove_file(bench.path("out.parquet.ciphermill.json")).unwrap();
    let reader = SerializedFileReader::new(std::fs::File::open(bench.path("out.parquet")).unwrap()).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let text = pairs.iter().find(|pair| pair.key == FOOTER_KEY).unwrap().value.clone().unwrap();
    let at = whole.windows(text.len()).position(|window| window == text.as_bytes()).unwrap();
    let before = bench.names();
    // Any byte of the data, the footer or the trailer; each 7th, so that the test is quick.
    for flipped in (0..whole.len()).filter(|byte| !(at..at + text.len()).contains(byte)).step_by(7) {
        let mut bytes = whole.clone();
        bytes[flipped] ^= 1;
        bench.write("out.parquet", bytes);
        assert!(bench.unprotect("out.parquet", "back").is_err(), "byte {flipped} of {}", whole.len());
        assert_eq!(bench.names(), before);
    }
    for (from, to) in [("\"rows\":1", "\"rows\":2"), ("\"logical\":\"b\"", "\"logical\":\"c\"")] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        bench.write("out.parquet", [&whole[..at], changed.as_bytes(), &whole[at + text.len()..]].concat());
        let error = bench.unprotect("out.parquet", "back").unwrap_err();
        assert!(matches!(error, TableError::ManifestAltered { .. }), "{error}");
    }
}

#[test]
fn a_restored_parquet_file_has_no_manifest_left() {
    let bench = Bench::new();
    protected_parquet(&bench);
    bench.unprotect("out.parquet", "back").unwrap();
    let bytes = bench.read("back");
    assert!(!bytes.windows(FOOTER_KEY.len()).any(|window| window == FOOTER_KEY.as_bytes()));
}

#[test]
fn hostile_manifests_are_errors() {
    let bench = Bench::new();
    write_table(&bench, "in.csv", "x");
    bench.protect("in.csv", "out.csv", &["b=random"]).unwrap();
    let good = bench.text("out.csv.ciphermill.json");
    let before = bench.names();
    let good = good.trim_end().strip_suffix('}').unwrap();
    let outer = format!("{good}, \"previous\":");
    let chain = |len: usize| format!("{}{good}{}", outer.repeat(len), "}".repeat(len + 1));
    let deep = format!("{good}, \"previous\": {}", "[".repeat(1 << 20));
    let long = format!("{good}, \"pad\": \"{}\"}}", "x".repeat(49 << 20));
    for (text, words) in [
        (chain(2), "no previous one"),
        (chain(1000), "recursion limit"),
        (deep, "damaged manifest"),
        (long, "more than"),
        (format!("{good}, \"rows\": 7}}"), "duplicate field"),
    ] {
        bench.write("out.csv.ciphermill.json", text);
        let error = bench.error(bench.unprotect("out.csv", "back.csv"), &before);
        assert!(error.contains(words), "{error}");
    }
    bench.write("out.csv.ciphermill.json", chain(1));
    assert!(Manifest::read(&bench.path("out.csv.ciphermill.json")).unwrap().previous.is_some());
    bench.unprotect("out.csv", "back.csv").unwrap();
}

#[test]
fn a_table_that_is_written_to_while_it_is_read_is_an_error() {
    let bench = Bench::new();
    write_table(&bench, "in.csv", "x");
    let input = bench.path("in.csv");
    let append = |_: &Position| {
        use std::io::Write;
        std::fs::File::options().append(true).open(&input).unwrap().write_all(b"y,2\n").unwrap();
    };
    let job = bench.job("in.csv", "out.csv", &["b=random"]);
    let before = bench.names();
    let words = bench.error(protect(&job, &bench.mill, &bench.root, &append), &before);
    assert!(words.contains("in.csv: was changed while it was being read"), "{words}");
}
