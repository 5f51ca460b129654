//! Folders of tables: protected into a new one, restored, and rekeyed in place.

use std::collections::BTreeMap;
use std::path::Path;

use crate::driver::{Place, Scenario, State};
use crate::keystore::one_key;

/// The tables of a folder.
const TABLES: [&str; 3] = ["a=1/p.csv", "a=2/p.csv", "t.csv"];

/// Rows of a table: few, since each call counts and not each byte.
const ROWS: usize = 50;

macro_rules! opening {
    ($($arg:literal),+) => { &[$($arg,)+ "--keystore", "ks", "--master-key-file", "mk"] };
}

const PROTECT: &[&str] =
    opening!["protect", "clear", "safe", "--column", "name=deterministic", "--quiet", "--threads", "1"];
const UNPROTECT: &[&str] = opening!["unprotect", "safe", "back", "--quiet", "--threads", "1"];
const REKEY: &[&str] = opening!["rekey", "safe", "--in-place", "--quiet", "--threads", "1"];

const NAMES: &[&str] = &[
    "ks",
    "mk",
    "mk2",
    "before.json",
    "clear/t.csv",
    "clear/a=1/p.csv",
    "clear/a=2/p.csv",
    "safe/t.csv",
    "safe/a=1/p.csv",
    "safe/a=2/p.csv",
    "safe/_ciphermill.json",
    "safe/_ciphermill.journal",
    "back/t.csv",
    "back/a=1/p.csv",
    "back/a=2/p.csv",
    "back/_ciphermill.journal",
];

/// Tables that are done stay when another fails, with the journal that says so.
const STAYS: &[&str] = &["safe/*", "back/*"];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name, prepare, args, state| Scenario { name, prepare, args, names: NAMES, stays: STAYS, secret: true, state };
    vec![
        scenario("protect folder", clear, PROTECT, |place| {
            if !is_finished(place, "safe") || !place.path("safe/_ciphermill.json").exists() {
                return State::Old;
            }
            restores(place).map_or_else(State::Broken, |()| State::New)
        }),
        scenario("unprotect folder", safe, UNPROTECT, |place| {
            if !is_finished(place, "back") {
                return State::Old;
            }
            match tables(&place.path("back")) == tables(&place.path("clear")) {
                true => State::New,
                false => State::Broken("what was restored is not what was protected".to_owned()),
            }
        }),
        scenario("rekey folder --in-place", rotated, REKEY, |place| {
            if let Err(why) = restores(place) {
                return State::Broken(why);
            }
            let found = place.ok(opening!["inspect", "safe", "--json"]);
            let found: serde_json::Value = serde_json::from_str(&found).expect("JSON");
            let versions = TABLES.map(|name| found["tables"][name]["key_version"].as_u64());
            match (versions, found["unfinished"].as_bool()) {
                ([Some(2), Some(2), Some(2)], Some(false)) => State::New,
                _ => State::Old,
            }
        }),
    ]
}

fn clear(place: &Place) {
    one_key(place);
    for (number, name) in TABLES.into_iter().enumerate() {
        let rows: String = (0..ROWS).map(|row| format!("{row},name {number} {row}\n")).collect();
        let path = place.path("clear").join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, format!("id,name\n{rows}")).expect("written");
    }
    narrow(&place.path("clear"));
}

fn safe(place: &Place) {
    clear(place);
    place.ok(PROTECT);
}

fn rotated(place: &Place) {
    safe(place);
    place.ok(opening!["keys", "rotate", "default"]);
}

/// Nobody else may read what lies there.
fn narrow(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for name in TABLES {
        std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o600)).expect("narrowed");
    }
}

/// Whether a run has made this folder and ended.
fn is_finished(place: &Place, folder: &str) -> bool {
    place.path(folder).is_dir()
        && !place.path(folder).join("_ciphermill.journal").exists()
        && !tables(&place.path(folder)).is_empty()
}

/// Whether the protected folder can be restored as it is, finished or not.
fn restores(place: &Place) -> Result<(), String> {
    place.tried(opening!["unprotect", "safe", "check", "--quiet"])?;
    let is_same = tables(&place.path("check")) == tables(&place.path("clear"));
    std::fs::remove_dir_all(place.path("check")).expect("it was made just now");
    if is_same { Ok(()) } else { Err("it restores to something else".to_owned()) }
}

/// The content of a folder's tables.
fn tables(folder: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    TABLES.into_iter().filter_map(|name| Some((name, std::fs::read(folder.join(name)).ok()?))).collect()
}
