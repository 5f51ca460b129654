//! `inspect`, and what `protect` and `unprotect` do with a part of a table or another version of a key.

use crate::{Place, json};

const COLUMNS: [&str; 6] = ["--column", "a=random", "--column", "b=deterministic", "--column", "c=token"];

fn with_table() -> Place {
    let place = Place::new();
    place.write("in.csv", "a,b,c,d\nx,y,z,1\nu,,w,2\n");
    place.ok(["keys", "generate", "default"]);
    protect(&place, "safe.csv", &["--quiet"]);
    place
}

fn protect(place: &Place, output: &str, extra: &[&str]) {
    place.ok(["protect", "in.csv", output].iter().chain(&COLUMNS).chain(extra));
}

#[test]
fn a_table_is_looked_at_with_and_without_its_key() {
    let place = with_table();
    let found = json(&place.ok(["inspect", "safe.csv", "--json"]));
    assert_eq!((found["rows"].as_u64(), found["key"].as_str()), (Some(2), Some("default")));
    assert_eq!(found["hash"]["result"], "verified");
    assert_eq!(found["values"]["result"], "not checked");
    assert_eq!(found["columns"][0]["bound"][0], "column");
    assert_eq!(found["columns"][2]["bound"].as_array().map(Vec::len), Some(0));
    let said = place.ok(["inspect", "safe.csv", "--verify"]);
    assert!(said.matches(": verified").count() == 3 && said.contains("nothing"), "{said}");

    let safe = std::fs::read_to_string(place.path("safe.csv")).expect("a file");
    place.write("safe.csv", safe.replace(",2\n", ",3\n"));
    let ran = place.run(["inspect", "safe.csv", "--verify", "--json"]);
    assert_eq!(ran.code, Some(1));
    let found = json(&ran.out);
    assert_eq!((&found["hash"]["result"], &found["values"]["result"]), (&"failed".into(), &"verified".into()));
    place.fails(1, &["nowhere.csv"], ["inspect", "nowhere.csv"]);
    place.fails(1, &["there is no manifest"], ["inspect", "in.csv"]);
}

#[test]
fn a_lost_manifest_is_made_anew() {
    let place = with_table();
    let side = place.path("safe.csv.ciphermill.json");
    std::fs::remove_file(&side).expect("removed");
    place.fails(1, &["there is no manifest"], ["unprotect", "safe.csv", "back.csv"]);
    place.fails(2, &["--column"], ["inspect", "safe.csv", "--rebuild"]);
    let wrong = ["inspect", "safe.csv", "--rebuild", "--column", "a=deterministic"];
    place.fails(1, &["row 1, column `a`"], wrong);
    assert!(!side.exists());
    place.ok(["inspect", "safe.csv", "--rebuild"].iter().chain(&COLUMNS));
    place.ok(["unprotect", "safe.csv", "back.csv", "--quiet"]);
    assert!(std::fs::read_to_string(place.path("back.csv")).expect("a file").contains("\nx,y,"));
}

#[test]
fn some_columns_are_restored() {
    let place = with_table();
    let said = place.ok(["unprotect", "safe.csv", "part.csv", "--column", "b"]);
    assert!(said.contains("still protected: a, c; their manifest is part.csv.ciphermill.json"), "{said}");
    let part = std::fs::read_to_string(place.path("part.csv")).expect("a file");
    assert!(part.contains(",y,") && !part.contains("\nx,"), "{part}");
    place.ok(["unprotect", "part.csv", "back.csv", "--quiet"]);
    assert!(std::fs::read_to_string(place.path("back.csv")).expect("a file").contains("\nx,y,"));
    place.fails(1, &["`c` holds tokens"], ["unprotect", "safe.csv", "no.csv", "--column", "c"]);
}

#[test]
fn an_older_version_of_a_key_joins_with_older_tables() {
    let place = with_table();
    place.ok(["keys", "rotate", "default"]);
    protect(&place, "new.csv", &["--quiet"]);
    protect(&place, "old.csv", &["--quiet", "--key-version", "1"]);
    let token = |name: &str| {
        let text = std::fs::read_to_string(place.path(name)).expect("a file");
        text.lines().nth(1).and_then(|line| line.split(',').nth(2)).expect("a token").to_owned()
    };
    assert_eq!(token("old.csv"), token("safe.csv"));
    assert_ne!(token("new.csv"), token("safe.csv"));
    place.ok(["unprotect", "old.csv", "back.csv", "--quiet"]);
    place.fails(1, &["9"], ["protect", "in.csv", "no.csv", "--key-version", "9"].iter().chain(&COLUMNS));
}

#[test]
fn what_is_protected_is_not_protected_again_by_mistake() {
    let place = with_table();
    let again = ["protect", "safe.csv", "twice.csv", "--column", "d=random"];
    place.fails(1, &["safe.csv: is protected already"], again);
    place.ok(again.iter().chain(&["--force", "--quiet"]));
}

#[test]
fn the_documented_rename_works() {
    let place = with_table();
    let safe = std::fs::read_to_string(place.path("safe.csv")).expect("a file");
    place.write("renamed.csv", safe.replacen("a,b,", "full_name,b,", 1));
    let args = ["unprotect", "renamed.csv", "again.csv", "--manifest", "safe.csv.ciphermill.json"];
    let rename = ["--rename", "a=full_name", "--allow-changed"];
    place.ok(args.iter().chain(&rename));
    assert!(std::fs::read_to_string(place.path("again.csv")).expect("a file").starts_with("full_name,b,c,d\nx,y,"));
    let ran = place.fails(1, &["changed since it was protected"], args.iter().chain(&rename[..2]).chain(&["--force"]));
    assert!(!ran.err.contains("authenticated all the same"));
}
