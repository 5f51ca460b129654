//! The same tables on one thread and on several: the same output, the same errors, and an end in any case.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use ciphermill_table::{
    Manifest, NoProgress, Position, ProtectJob, Summary, TableError, UnprotectJob, manifest_path, protect, unprotect,
};
use parquet::file::properties::WriterProperties;

use crate::{Bench, batch, write_parquet};

const THREADS: [usize; 3] = [1, 2, 7];

const COLUMNS: &[&str] = &["name=deterministic", "phone=ff1", "mark=token:len=16", "note=random"];

/// More rows than a batch has, some of them null, some alike.
fn csv(rows: usize) -> String {
    let mut text = String::from("id,name,plain,phone,mark,note\n");
    for row in 0..rows {
        let name = if row % 7 == 0 { String::new() } else { format!("name {}", row % 1000) };
        text += &format!("{row},\"{name}\",p{row},{:07},m{},n{row}\n", row % 5000, row % 50);
    }
    text
}

fn table(bench: &Bench, name: &str, rows: usize, group: usize) {
    let texts = |text: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new(StringArray::from((0..rows).map(text).collect::<Vec<_>>()))
    };
    let rows = batch(vec![
        ("id", Arc::new(Int64Array::from((0..rows as i64).collect::<Vec<_>>())) as ArrayRef),
        ("name", texts(&|row| (row % 7 != 0).then(|| format!("name {}", row % 1000)))),
        ("plain", texts(&|row| Some(format!("plain {row}")))),
        ("phone", texts(&|row| Some(format!("{:07}", row % 5000)))),
        ("mark", texts(&|row| Some(format!("m{}", row % 50)))),
        ("note", texts(&|row| Some(format!("note {row}")))),
    ]);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(group)).build();
    write_parquet(&bench.path(name), &[rows], Some(properties));
}

/// The hash of a protected table; of a Parquet file that in its footer, without the manifest there, which says when it was
/// made.
fn hash(bench: &Bench, name: &str) -> (String, u64) {
    let file = bench.read(name);
    if name.ends_with("csv") {
        return (Manifest::read(&manifest_path(&bench.path(name))).unwrap().sha256, file.len() as u64);
    }
    let text = String::from_utf8_lossy(&file[file.len().saturating_sub(1 << 16)..]).into_owned();
    let key = "\"sha256\":\"";
    let at = text.rfind(key).expect("a manifest in the footer") + key.len();
    (text[at..at + 64].to_owned(), file.len() as u64)
}

fn counts(summary: &Summary) -> Vec<(u64, u64, u64, u64)> {
    let columns = summary.columns.iter();
    let counts = columns.map(|column| (column.values, column.nulls, column.processed, column.bytes));
    counts.chain([(summary.rows, summary.batches, summary.batch_rows_max, summary.batch_bytes_max)]).collect()
}

/// Protects and restores on each number of threads, and compares.
fn compare(bench: &Bench, extension: &str, columns: &[&str]) {
    compare_converted(bench, extension, extension, columns);
}

/// The same where the protected table has another format.
fn compare_converted(bench: &Bench, from: &str, extension: &str, columns: &[&str]) {
    let input = format!("in.{from}");
    let has_random = columns.iter().any(|column| column.contains("random"));
    let (mut first, mut restored) = (None, None);
    for threads in THREADS {
        let (safe, back) = (format!("safe-{threads}.{extension}"), format!("back-{threads}.{from}"));
        let job = ProtectJob { threads: Some(threads), force: true, ..bench.job(&input, &safe, columns) };
        let summary = protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
        let (sha256, len) = hash(bench, &safe);
        let found = (if has_random { String::new() } else { sha256 }, len, counts(&summary));
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{threads} threads, {columns:?}");
        let job = UnprotectJob { threads: Some(threads), force: true, ..bench.back(&safe, &back) };
        unprotect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
        let found = bench.read(&back);
        assert!(*restored.get_or_insert_with(|| found.clone()) == found, "{threads} threads, {columns:?}");
    }
}

#[test]
fn the_output_does_not_depend_on_the_number_of_threads() {
    for (rows, group) in [(40, 1), (1, 1), (20_000, 3_500)] {
        let bench = Bench::new();
        table(&bench, "in.parquet", rows, group);
        compare(&bench, "parquet", &COLUMNS[..3]);
        compare(&bench, "parquet", COLUMNS);
        compare(&bench, "parquet", &COLUMNS[1..2]);
    }
    for rows in [0, 1, 90_000] {
        let bench = Bench::new();
        bench.write("in.csv", csv(rows));
        compare(&bench, "csv", &COLUMNS[..3]);
        compare(&bench, "csv", COLUMNS);
        compare(&bench, "csv", &["note=random", "name=deterministic", "phone=ff1"]);
        assert_eq!(bench.text("back-7.csv"), csv(rows));
    }
}

#[test]
fn conversions_do_not_depend_on_the_number_of_threads() {
    for (rows, group) in [(1, 1), (60_000, 25_000)] {
        let bench = Bench::new();
        bench.write("in.csv", csv(rows));
        table(&bench, "in.parquet", rows, group);
        for columns in [&COLUMNS[..3], COLUMNS, &COLUMNS[1..2]] {
            compare_converted(&bench, "csv", "parquet", columns);
            compare_converted(&bench, "parquet", "csv", columns);
        }
    }
    // Enough for several row groups.
    let bench = Bench::new();
    let row = |row: usize| format!("{},{row},y,x\n", row % 7);
    bench.write("in.csv", "a,b,c,d\n".to_owned() + &(0..900_000).map(row).collect::<String>());
    let columns = ["a", "b", "c", "d"].map(|column| format!("{column}=deterministic"));
    compare_converted(&bench, "csv", "parquet", &columns.each_ref().map(String::as_str));
    let file = std::fs::File::open(bench.path("safe-7.parquet")).unwrap();
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    assert!(metadata.num_row_groups() > 1);
    assert_eq!(metadata.file_metadata().num_rows(), 900_000);
}

#[test]
fn a_table_of_one_column() {
    let bench = Bench::new();
    bench.write("in.csv", "a\n1\n\n\"2\"\n3\n");
    compare(&bench, "csv", &["a=deterministic"]);
    assert_eq!(bench.text("back-2.csv"), "a\n1\n\n\"2\"\n3\n");
    let rows = batch(vec![("a", Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])) as ArrayRef)]);
    write_parquet(&bench.path("in.parquet"), &[rows], None);
    compare(&bench, "parquet", &["a=deterministic"]);
}

/// Rows that one column or another rejects: the same ones, and what is left is what would have come of a table without them.
#[test]
fn rejected_rows_are_the_same_on_any_number_of_threads() {
    let bench = Bench::new();
    let columns = ["mark=deterministic", "phone=ff1:on-bad=reject", "name=deterministic", "code=ff1:on-bad=reject"];
    let (mut text, mut good, mut bad) = (String::new(), String::new(), String::new());
    for (row, line) in csv(90_000).lines().enumerate() {
        let is_bad = row > 0 && (row % 1_000 == 7 || row % 4_099 == 0);
        let code = if row == 0 { "code".to_owned() } else { format!("{:08}", row % 70_000) };
        // The first of the bad ones by their phone, the others by their code.
        let line = match (is_bad, row % 1_000 == 7) {
            (true, true) => line.replace(&format!(",p{},", row - 1), &format!(",p{},x", row - 1)) + "," + &code,
            (true, false) => format!("{line},y"),
            (false, _) => format!("{line},{code}"),
        };
        text += &(line.clone() + "\n");
        if !is_bad {
            good += &(line.clone() + "\n");
        }
        if is_bad || row == 0 {
            bad += &(line + "\n");
        }
    }
    bench.write("in.csv", &text);
    bench.write("good.csv", &good);
    let plain = columns.map(|column| column.trim_end_matches(":on-bad=reject"));
    let job = ProtectJob { threads: Some(1), ..bench.job("good.csv", "wanted.csv", &plain) };
    protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
    for threads in THREADS {
        let mut job = bench.job("in.csv", "out.csv", &columns);
        (job.threads, job.force) = (Some(threads), true);
        job.reject_file = Some(bench.path("bad.csv"));
        let summary = protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
        assert_eq!(summary.rows + summary.rejected_rows, 90_000);
        assert_eq!(summary.rejected_rows, bad.lines().count() as u64 - 1);
        assert!(bench.text("bad.csv") == bad, "{threads} threads");
        assert!(bench.text("out.csv") == bench.text("wanted.csv"), "{threads} threads");
    }
}

/// Values bound to their rows, and a binding column between those that are protected.
#[test]
fn values_bound_to_rows_come_back_on_any_number_of_threads() {
    let bench = Bench::new();
    bench.write("in.csv", csv(40_000));
    table(&bench, "in.parquet", 40_000, 3_000);
    for extension in ["csv", "parquet"] {
        for threads in THREADS {
            let (input, safe, back) =
                (format!("in.{extension}"), format!("safe-{threads}.{extension}"), format!("back.{extension}"));
            let mut job = bench.job(&input, &safe, &["name=deterministic", "note=random"]);
            job.bind_row = Some(ciphermill_table::RowBinding { column: "id".to_owned(), table: "t".to_owned() });
            job.threads = Some(threads);
            protect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
            let job = UnprotectJob { threads: Some(8 - threads), force: true, ..bench.back(&safe, &back) };
            unprotect(&job, &bench.mill, &bench.root, &NoProgress).unwrap();
            assert!(extension == "parquet" || bench.text(&back) == csv(40_000));
        }
    }
}

/// The first error in the table is told, though others come to light before it.
#[test]
fn the_first_error_is_told() {
    let bench = Bench::new();
    let mut text = csv(60_000).replace("p50000,0000000", "p50000,x").replace("p20001,0000001", "p20001,y");
    bench.write("in.csv", &text);
    let texts = |bad: &[usize]| -> ArrayRef {
        let value = |row: usize| if bad.contains(&row) { "x".to_owned() } else { format!("{row:07}") };
        Arc::new(StringArray::from((0..30_000).map(value).collect::<Vec<_>>()))
    };
    let rows = batch(vec![("a", texts(&[25_000])), ("b", texts(&[12_345, 12_346])), ("c", texts(&[29_000, 11_001]))]);
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1_000)).build();
    write_parquet(&bench.path("in.parquet"), &[rows], Some(properties));
    let before = bench.names();
    for threads in THREADS {
        let job = |input: &str, output: &str, columns: &[&str]| {
            let job = ProtectJob { threads: Some(threads), ..bench.job(input, output, columns) };
            bench.error(protect(&job, &bench.mill, &bench.root, &NoProgress), &before)
        };
        let words = job("in.csv", "out.csv", COLUMNS);
        assert!(words.contains("row 20002, column `phone`"), "{threads} threads: {words}");
        let words = job("in.parquet", "out.parquet", &["c=ff1", "a=ff1", "b=ff1"]);
        assert!(words.contains("row 11002, column `c`"), "{threads} threads: {words}");
        let words = job("in.parquet", "out.parquet", &["a=ff1", "b=ff1"]);
        assert!(words.contains("row 12346, column `b`"), "{threads} threads: {words}");
        // The same of conversions.
        let words = job("in.csv", "out.parquet", COLUMNS);
        assert!(words.contains("row 20002, column `phone`"), "{threads} threads: {words}");
        let words = job("in.parquet", "out.csv", &["c=ff1", "a=ff1", "b=ff1"]);
        assert!(words.contains("row 11002, column `c`"), "{threads} threads: {words}");
    }
    // A record that is malformed comes after the batches before it, and before its own.
    text += "1,2\n";
    bench.write("in.csv", text.replace("p20001,y", "p20001,0000001").replace("p50000,x", "p50000,0000000"));
    for threads in THREADS {
        let job = ProtectJob { threads: Some(threads), ..bench.job("in.csv", "out.csv", COLUMNS) };
        let words = bench.error(protect(&job, &bench.mill, &bench.root, &NoProgress), &before);
        assert!(words.contains("row 60001: 2 fields"), "{threads} threads: {words}");
    }
}

#[test]
fn a_job_can_be_cancelled_at_any_moment() {
    let bench = Bench::new();
    bench.write("in.csv", csv(100_000));
    table(&bench, "in.parquet", 100_000, 5_000);
    let before = bench.names();
    let mut seed = 0x9e37_79b9_u64;
    for round in 0..40 {
        // A generator of Marsaglia's (xorshift), so that a failure can be had again.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let extension = ["csv", "parquet"][round % 2];
        let mut job = bench.job(&format!("in.{extension}"), &format!("out.{extension}"), COLUMNS);
        job.threads = Some(THREADS[round % 3]);
        let cancel = Arc::clone(&job.cancel);
        let after = Duration::from_micros(seed % 60_000);
        let timer = std::thread::spawn(move || {
            std::thread::sleep(after);
            cancel.store(true, Ordering::Relaxed);
        });
        match protect(&job, &bench.mill, &bench.root, &NoProgress) {
            Err(TableError::Interrupted) => assert_eq!(bench.names(), before),
            Err(error) => panic!("{error}"),
            Ok(_) => {
                let output = bench.path(&format!("out.{extension}"));
                std::fs::remove_file(manifest_path(&output)).unwrap();
                std::fs::remove_file(output).unwrap();
            }
        }
        timer.join().unwrap();
    }
}

/// Whoever watches runs on the calling thread; its panic is not waited for by the others.
#[test]
fn a_watcher_that_panics_ends_the_job() {
    let bench = Bench::new();
    bench.write("in.csv", csv(100_000));
    table(&bench, "in.parquet", 50_000, 500);
    let before = bench.names();
    let told = AtomicUsize::new(0);
    for (extension, threads) in [("csv", 2), ("parquet", 2), ("csv", 7), ("parquet", 7), ("csv", 1)] {
        let mut job = bench.job(&format!("in.{extension}"), &format!("out.{extension}"), COLUMNS);
        job.threads = Some(threads);
        let watcher = |_: &Position| {
            told.fetch_add(1, Ordering::Relaxed);
            panic!("seen enough");
        };
        let ended = catch_unwind(AssertUnwindSafe(|| protect(&job, &bench.mill, &bench.root, &watcher)));
        assert!(ended.is_err());
        assert_eq!(bench.names(), before);
    }
    assert_eq!(told.load(Ordering::Relaxed), 5);
}
