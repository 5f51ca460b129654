//! Tables protected and unprotected, as new files and over old ones.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::driver::{Place, Scenario, State};
use crate::keystore::one_key;

/// More than a buffer of the writers, so that a table takes several writes.
const ROWS: usize = 3_000;

const NAMES: &[&str] = &[
    "ks",
    "mk",
    "mk2",
    "before.json",
    "old.csv",
    "new.csv",
    "old.parquet",
    "new.parquet",
    "out.csv",
    "out.csv.ciphermill.json",
    "out.parquet",
    "out.parquet.ciphermill.json",
    "back.csv",
    "back.csv.ciphermill.json",
    "back.parquet",
    "back.parquet.ciphermill.json",
    "check.csv",
    "check.parquet",
];

macro_rules! protecting {
    ($input:literal, $output:literal $(, $more:literal)*) => {
        &["protect", $input, $output, "--column", "name=deterministic", "--column", "phone=ff1", "--quiet",
          $($more,)* "--keystore", "ks", "--master-key-file", "mk"]
    };
}

macro_rules! unprotecting {
    ($input:literal, $output:literal $(, $more:literal)*) => {
        &["unprotect", $input, $output, "--quiet", $($more,)* "--keystore", "ks", "--master-key-file", "mk"]
    };
}

/// From the protected table of `new` under another method.
macro_rules! rekeying {
    ($input:literal, $output:literal $(, $more:literal)*) => {
        &["rekey", $input, $output, "--column", "name=random", "--quiet", $($more,)*
          "--keystore", "ks", "--master-key-file", "mk"]
    };
}

pub(crate) use {protecting, unprotecting};

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name, prepare, args, state| Scenario { name, prepare, args, names: NAMES, stays: &[], secret: true, state };
    vec![
        scenario("protect csv", csv, protecting!["new.csv", "out.csv"], |place| protected(place, CSV, false)),
        scenario("protect csv --force", csv_pair, protecting!["new.csv", "out.csv", "--force"], |place| {
            protected(place, CSV, true)
        }),
        scenario("protect parquet", parquet, protecting!["new.parquet", "out.parquet"], |place| {
            protected(place, PARQUET, false)
        }),
        scenario(
            "protect parquet --force",
            parquet_pair,
            protecting!["new.parquet", "out.parquet", "--force"],
            |place| protected(place, PARQUET, true),
        ),
        scenario("unprotect csv", csv_pair, unprotecting!["out.csv", "back.csv"], |place| restored(place, CSV, false)),
        scenario("unprotect csv --force", csv_over, unprotecting!["out.csv", "back.csv", "--force"], |place| {
            restored(place, CSV, true)
        }),
        scenario("unprotect parquet --force", parquet_over, unprotecting!["out.parquet", "back.parquet", "--force"], {
            |place| restored(place, PARQUET, true)
        }),
        scenario("rekey csv", csv_to_rekey, rekeying!["back.csv", "out.csv"], |place| protected(place, CSV, false)),
        scenario("rekey parquet --force", parquet_to_rekey, rekeying!["back.parquet", "out.parquet", "--force"], {
            |place| protected(place, PARQUET, true)
        }),
        scenario(
            "protect csv to parquet --force",
            to_parquet_pair,
            protecting!["new.csv", "out.parquet", "--force"],
            |place| protected(place, TO_PARQUET, true),
        ),
        scenario("protect parquet to csv", both, protecting!["new.parquet", "out.csv"], |place| {
            protected(place, TO_CSV, false)
        }),
        scenario(
            "unprotect parquet to csv --force",
            to_csv_over,
            unprotecting!["out.parquet", "back.csv", "--format", "csv", "--force"],
            |place| restored(place, TO_CSV, true),
        ),
    ]
}

/// The names of one format's tables.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) out: &'static str,
    pub(crate) back: &'static str,
    pub(crate) check: &'static str,
    /// What protects `old` to `out`, and undoes it to `check`.
    pub(crate) protect_old: &'static [&'static str],
    pub(crate) check_args: &'static [&'static str],
}

pub(crate) const CSV: Format = Format {
    old: "old.csv",
    new: "new.csv",
    out: "out.csv",
    back: "back.csv",
    check: "check.csv",
    protect_old: protecting!["old.csv", "out.csv"],
    check_args: unprotecting!["out.csv", "check.csv", "--force"],
};

const PARQUET: Format = Format {
    old: "old.parquet",
    new: "new.parquet",
    out: "out.parquet",
    back: "back.parquet",
    check: "check.parquet",
    protect_old: protecting!["old.parquet", "out.parquet"],
    check_args: unprotecting!["out.parquet", "check.parquet", "--force"],
};

/// CSV that becomes Parquet while it is protected.
const TO_PARQUET: Format = Format {
    out: "out.parquet",
    protect_old: protecting!["old.csv", "out.parquet"],
    check_args: unprotecting!["out.parquet", "check.csv", "--force"],
    ..CSV
};

/// Parquet that becomes CSV, and so is compared with CSV files of the same content.
const TO_CSV: Format = Format {
    protect_old: protecting!["old.parquet", "out.parquet"],
    check_args: unprotecting!["out.csv", "check.csv", "--format", "csv", "--force"],
    ..CSV
};

pub(crate) fn sources(place: &Place, format: Format) {
    one_key(place);
    write_sources(place, format);
}

fn write_sources(place: &Place, format: Format) {
    for (file, what) in [(format.old, "old"), (format.new, "new")] {
        let names: Vec<String> = (0..ROWS).map(|row| format!("{what} name {row}")).collect();
        // FF1 wants six digits at least.
        let phones: Vec<String> = (0..ROWS).map(|row| format!("{}", 10_000_000 + row * 7)).collect();
        let path = place.path(file);
        if file.ends_with(".csv") {
            let rows = names.iter().zip(&phones).enumerate();
            let rows: String = rows.map(|(row, (name, phone))| format!("{row},{name},{phone}\n")).collect();
            std::fs::write(&path, format!("id,name,phone\n{rows}")).expect("written");
        } else {
            let ids: Int64Array = (0..ROWS as i64).collect();
            let columns: [(&str, ArrayRef); 3] = [
                ("id", Arc::new(ids)),
                ("name", Arc::new(StringArray::from(names))),
                ("phone", Arc::new(StringArray::from(phones))),
            ];
            let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
            let mut writer =
                ArrowWriter::try_new(File::create(&path).expect("made"), batch.schema(), None).expect("opens");
            writer.write(&batch).expect("written");
            writer.close().expect("closed");
        }
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("narrowed");
    }
}

pub(crate) fn csv(place: &Place) {
    sources(place, CSV);
}

fn parquet(place: &Place) {
    sources(place, PARQUET);
}

fn csv_to_rekey(place: &Place) {
    csv(place);
    place.ok(protecting!["new.csv", "back.csv"]);
}

/// `back` is `new`, protected, and `out` is `old`.
fn parquet_to_rekey(place: &Place) {
    parquet_pair(place);
    place.ok(protecting!["new.parquet", "back.parquet"]);
}

fn both(place: &Place) {
    sources(place, CSV);
    write_sources(place, PARQUET);
}

fn to_parquet_pair(place: &Place) {
    pair(place, TO_PARQUET);
}

fn to_csv_over(place: &Place) {
    both(place);
    place.ok(TO_CSV.protect_old);
    std::fs::copy(place.path(TO_CSV.new), place.path(TO_CSV.back)).expect("copied");
}

/// `out` is `old`, protected.
fn pair(place: &Place, format: Format) {
    sources(place, format);
    place.ok(format.protect_old);
}

pub(crate) fn csv_pair(place: &Place) {
    pair(place, CSV);
}

fn parquet_pair(place: &Place) {
    pair(place, PARQUET);
}

/// The same, and something stands in the place that it is restored to.
fn over(place: &Place, format: Format) {
    pair(place, format);
    std::fs::copy(place.path(format.new), place.path(format.back)).expect("copied");
}

fn csv_over(place: &Place) {
    over(place, CSV);
}

fn parquet_over(place: &Place) {
    over(place, PARQUET);
}

/// What the protected table gives: `old` (or, where there was none, nothing) or `new`.
pub(crate) fn protected(place: &Place, format: Format, was_there: bool) -> State {
    if !was_there && !place.path(format.out).exists() {
        return State::Old;
    }
    if let Err(error) = place.tried(format.check_args) {
        return State::Broken(error);
    }
    let state = same_as(place, format, format.check, was_there);
    std::fs::remove_file(place.path(format.check)).expect("it was made just now");
    state
}

/// What stands in the restored table's place: `new` or nothing before, `old` after.
pub(crate) fn restored(place: &Place, format: Format, was_there: bool) -> State {
    if !was_there && !place.path(format.back).exists() {
        return State::Old;
    }
    match same_as(place, format, format.back, true) {
        State::Old => State::New,
        State::New if was_there => State::Old,
        state => state,
    }
}

pub(crate) fn same_as(place: &Place, format: Format, file: &str, may_be_old: bool) -> State {
    let table = table(&place.path(file));
    if table.is_some() && table == self::table(&place.path(format.new)) {
        State::New
    } else if may_be_old && table.is_some() && table == self::table(&place.path(format.old)) {
        State::Old
    } else {
        State::Broken(format!("{file} is neither the old table nor the new one"))
    }
}

/// A table's content, comparable: text, or the batches of a Parquet file.
fn table(path: &Path) -> Option<(Vec<u8>, Vec<RecordBatch>)> {
    if path.extension().is_some_and(|extension| extension == "csv") {
        return Some((std::fs::read(path).ok()?, Vec::new()));
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).ok()?).ok()?.build().ok()?;
    let batches: Result<Vec<RecordBatch>, _> = reader.collect();
    Some((Vec::new(), batches.ok()?))
}
