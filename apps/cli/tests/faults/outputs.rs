//! What the table commands write besides a table and its manifest in the usual places: rejected rows, compressed tables,
//! standard output, manifests elsewhere and made anew, a metrics socket.

use std::os::unix::fs::PermissionsExt;

use crate::driver::{Place, STDOUT, Scenario, State};
use crate::tables::{CSV, Format, csv, csv_pair, protected, protecting, restored, same_as, sources, unprotecting};

const NAMES: &[&str] = &[
    "ks",
    "mk",
    "mk2",
    "before.json",
    "old.csv",
    "new.csv",
    "mixed.csv",
    "good.csv",
    "out.csv",
    "out.csv.ciphermill.json",
    "out.csv.gz",
    "out.csv.gz.ciphermill.json",
    "out.csv.zst",
    "out.csv.zst.ciphermill.json",
    "rejects.csv",
    "old-rejects.csv",
    "new-rejects.csv",
    "back.csv",
    "back.csv.ciphermill.json",
    "back.csv.gz",
    "expected.csv.gz",
    "check.csv",
    "aside/manifest.json",
    "socket",
];

const GZIP: Format =
    Format { out: "out.csv.gz", check_args: unprotecting!["out.csv.gz", "check.csv", "--force"], ..CSV };

const ZSTD: Format =
    Format { out: "out.csv.zst", check_args: unprotecting!["out.csv.zst", "check.csv", "--force"], ..CSV };

/// The table of standard output.
const PRINTED: Format = Format {
    out: STDOUT,
    check_args: unprotecting!["stdout", "check.csv", "--force", "--manifest", "aside/manifest.json"],
    ..CSV
};

/// The table whose manifest lies elsewhere.
const ASIDE: Format =
    Format { check_args: unprotecting!["out.csv", "check.csv", "--force", "--manifest", "aside/manifest.json"], ..CSV };

/// A table of which only the column `phone` is still protected.
const PARTLY: Format = Format { out: "back.csv", check_args: unprotecting!["back.csv", "check.csv", "--force"], ..CSV };

const REJECTING: &[&str] = &[
    "protect",
    "mixed.csv",
    "out.csv",
    "--column",
    "name=deterministic",
    "--column",
    "phone=ff1:on-bad=reject",
    "--reject-file",
    "rejects.csv",
    "--keystore",
    "ks",
    "--master-key-file",
    "mk",
];

/// The same, over what is there.
const REJECTING_ANEW: &[&str] = &[
    "protect",
    "mixed.csv",
    "out.csv",
    "--force",
    "--column",
    "name=deterministic",
    "--column",
    "phone=ff1:on-bad=reject",
    "--reject-file",
    "rejects.csv",
    "--keystore",
    "ks",
    "--master-key-file",
    "mk",
];

/// Without `--quiet`, so that there is something to print afterwards.
const SUMMARISING: &[&str] = &[
    "protect",
    "new.csv",
    "out.csv",
    "--column",
    "name=deterministic",
    "--column",
    "phone=ff1",
    "--keystore",
    "ks",
    "--master-key-file",
    "mk",
];

macro_rules! rebuilding {
    ($($more:literal),*) => {
        &["inspect", "out.csv", "--rebuild", "--column", "name=deterministic", "--column", "phone=ff1", $($more,)*
          "--keystore", "ks", "--master-key-file", "mk"]
    };
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name, prepare, args, state| Scenario { name, prepare, args, names: NAMES, stays: &[], secret: true, state };
    vec![
        scenario("protect csv, rejects", mixed, REJECTING, |place| rejected(place, false)),
        scenario("protect csv --force, rejects", mixed_pair, REJECTING_ANEW, |place| rejected(place, true)),
        scenario("protect csv.gz", csv, protecting!["new.csv", "out.csv.gz"], |place| protected(place, GZIP, false)),
        scenario("protect csv.zst", csv, protecting!["new.csv", "out.csv.zst"], |place| protected(place, ZSTD, false)),
        scenario("unprotect csv.gz", gzip_expected, unprotecting!["out.csv", "back.csv.gz"], |place| {
            match place.read("back.csv.gz") {
                None => State::Old,
                found if found == place.read("expected.csv.gz") => State::New,
                _ => State::Broken("back.csv.gz is another table".to_owned()),
            }
        }),
        scenario(
            "protect csv, printed",
            with_folder,
            protecting!["new.csv", "-", "--manifest", "aside/manifest.json"],
            printed,
        ),
        scenario("unprotect csv, printed", csv_pair, unprotecting!["out.csv", "-"], |place| {
            if place.read(STDOUT) == place.read("old.csv") { State::New } else { State::Old }
        }),
        scenario(
            "protect csv --manifest",
            with_folder,
            protecting!["new.csv", "out.csv", "--manifest", "aside/manifest.json"],
            |place| protected(place, ASIDE, false),
        ),
        scenario(
            "unprotect csv --column",
            csv_pair,
            unprotecting!["out.csv", "back.csv", "--column", "name"],
            partly_restored,
        ),
        scenario("inspect --rebuild", no_manifest, rebuilding![], |place| rebuilt(place, None)),
        scenario("inspect --rebuild --force", wrong_manifest, rebuilding!["--force"], |place| {
            rebuilt(place, Some(WRONG))
        }),
        scenario("protect csv, summary", csv, SUMMARISING, |place| protected(place, CSV, false)),
        scenario(
            "unprotect csv, summary",
            csv_pair,
            &["unprotect", "out.csv", "back.csv", "--json", "--keystore", "ks", "--master-key-file", "mk"],
            |place| restored(place, CSV, false),
        ),
        scenario(
            "protect csv, metrics",
            csv,
            protecting!["new.csv", "out.csv", "--metrics-socket", "socket"],
            |place| protected(place, CSV, false),
        ),
    ]
}

/// A table of which `ff1` cannot take two rows, the same without them, and what is rejected of it.
fn mixed(place: &Place) {
    sources(place, CSV);
    let table = String::from_utf8(place.read("new.csv").expect("written")).expect("text");
    let lines: Vec<&str> = table.lines().collect();
    let (head, rows) = lines.split_first().expect("a header");
    let bad = ["7001,nobody,none", "7002,nothing,n/a"];
    let text = |rows: &[&str]| [&[*head], rows].concat().iter().map(|row| format!("{row}\n")).collect::<String>();
    let all = [&rows[..1], &bad[..1], &rows[1..], &bad[1..]].concat();
    for (name, content) in [("mixed.csv", text(&all)), ("good.csv", table.clone()), ("new-rejects.csv", text(&bad))] {
        std::fs::write(place.path(name), content).expect("written");
        std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o600)).expect("narrowed");
    }
}

/// `out` is `old`, protected, and has a reject file of its own.
fn mixed_pair(place: &Place) {
    mixed(place);
    place.ok(CSV.protect_old);
    for name in ["rejects.csv", "old-rejects.csv"] {
        std::fs::write(place.path(name), "id,name,phone\n1,another,x\n").expect("written");
        std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o600)).expect("narrowed");
    }
}

/// The table, and the reject file that belongs to it. Until the new table is there the old rejected rows are, if need be
/// under another name.
fn rejected(place: &Place, was_there: bool) -> State {
    let state = protected(place, CSV, was_there);
    let rejects = place.read("rejects.csv");
    match state {
        State::New if rejects != place.read("new-rejects.csv") => {
            State::Broken("the table is new, its rejected rows are not".to_owned())
        }
        State::Old if was_there && !has(place, &place.read("old-rejects.csv").expect("written")) => {
            State::Broken("the rejected rows of the old table are gone".to_owned())
        }
        state => state,
    }
}

/// Whether the reject file or a part file has this content.
fn has(place: &Place, content: &[u8]) -> bool {
    let files = std::fs::read_dir(place.folder()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    files
        .filter_map(|name| name.into_string().ok())
        .filter(|name| name == "rejects.csv" || name.starts_with(".ciphermill-part-"))
        .any(|name| place.read(&name).as_deref() == Some(content))
}

fn gzip_expected(place: &Place) {
    csv_pair(place);
    place.ok(unprotecting!["out.csv", "expected.csv.gz"]);
    let gzip = place.read("expected.csv.gz").expect("written");
    assert!(gzip.starts_with(&[0x1f, 0x8b]) && gzip.len() < place.read("old.csv").expect("written").len());
}

fn with_folder(place: &Place) {
    csv(place);
    std::fs::create_dir(place.path("aside")).expect("made");
}

/// Of standard output only what is whole counts.
fn printed(place: &Place) -> State {
    if !place.path("aside/manifest.json").exists() || place.tried(PRINTED.check_args).is_err() {
        return State::Old;
    }
    let state = same_as(place, CSV, CSV.check, false);
    std::fs::remove_file(place.path(CSV.check)).expect("it was made just now");
    state
}

fn partly_restored(place: &Place) -> State {
    if !place.path("back.csv").exists() {
        return State::Old;
    }
    match protected(place, PARTLY, true) {
        State::Old => State::New,
        other => State::Broken(format!("{other:?}")),
    }
}

const WRONG: &[u8] = b"{}";

fn no_manifest(place: &Place) {
    csv_pair(place);
    std::fs::remove_file(place.path("out.csv.ciphermill.json")).expect("it was there");
}

fn wrong_manifest(place: &Place) {
    csv_pair(place);
    std::fs::write(place.path("out.csv.ciphermill.json"), WRONG).expect("written");
}

/// The manifest is as it was before, or restores `old`.
fn rebuilt(place: &Place, before: Option<&[u8]>) -> State {
    if place.read("out.csv.ciphermill.json").as_deref() == before {
        return State::Old;
    }
    match protected(place, CSV, true) {
        State::Old => State::New,
        other => State::Broken(format!("{other:?}")),
    }
}
