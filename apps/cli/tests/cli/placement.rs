//! `tune` and `explain`: what is measured is kept, used and shown; what is wrong is said.

use std::os::unix::fs::PermissionsExt;

use crate::{Place, json};

const KEPT: &str = ".cache/ciphermill/costs.json";

const TUNE: [&str; 6] = ["tune", "--quick", "--time", "1", "--suite", "aes-128-gcm"];

const EXPLAIN: [&str; 8] = ["explain", "--suite", "aes-128-gcm", "--ops", "32", "--len", "64", "--json"];

#[test]
fn what_was_measured_is_what_batches_are_placed_by() {
    let place = Place::new();
    let before = json(&place.ok(EXPLAIN));
    assert!(before["candidates"].as_array().expect("a list").iter().all(|one| one["figures"] == "estimate"));
    assert!(place.ok(&EXPLAIN[..7]).contains("`ciphermill tune` measures"));

    let said = place.ok(TUNE);
    for words in ["aes-128-gcm", "lanes", "library", "reference", "C2", "overtaken by", "6 measured", "Waking"] {
        assert!(said.contains(words), "`{words}` is missing in: {said}");
    }
    let mode = std::fs::metadata(place.path(KEPT)).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let after = json(&place.ok(EXPLAIN));
    for candidate in after["candidates"].as_array().expect("a list") {
        assert_eq!(candidate["figures"], "measured");
        assert!(candidate["predicted_ns"].as_f64().expect("a time") > 0.0);
    }
    assert!(after["choice"]["reason"].as_str().expect("a reason").contains("predicted fastest"));
    assert!(place.ok(["engines"]).contains("6 measured costs are in force"));
    let pinned = json(&place.ok([&EXPLAIN[..], &["--engine", "reference"]].concat()));
    assert_eq!(
        (&pinned["choice"]["engine"], &pinned["choice"]["reason"]),
        (&"reference".into(), &"pinned by the caller".into())
    );

    // Another suite is added, and both are printed without being measured again.
    place.ok(["tune", "--quick", "--time", "1", "--suite", "sha256", "--engine", "library", "--json"]);
    let printed = json(&place.ok(["tune", "--print", "--json"]));
    assert_eq!(printed["costs"].as_array().expect("a list").len(), 7);
    assert!(place.ok(["tune", "--print"]).contains("sha256"));
}

#[test]
fn figures_of_other_machines_and_versions_do_not_count() {
    let place = Place::new();
    place.ok(TUNE);
    let text = std::fs::read_to_string(place.path(KEPT)).expect("reads");
    place.write(KEPT, text.replacen("\"cores\":", "\"cores\":9", 1));
    let said = place.ok(&EXPLAIN[..7]);
    assert!(said.contains("are not used") && said.contains("cores") && said.contains("estimate"), "{said}");
    place.fails(1, &["not used", "`ciphermill tune` measures again"], ["tune", "--print"]);

    place.write(KEPT, text.replace("AWS-LC", "AWS-LC of old"));
    let said = place.ok(&EXPLAIN[..7]);
    assert!(said.contains("library was measured as version AWS-LC of old"), "{said}");
    let explained = json(&place.ok(EXPLAIN));
    let figures = |engine: &str| {
        let candidates = explained["candidates"].as_array().expect("a list").clone();
        candidates.into_iter().find(|one| one["engine"] == engine).map(|one| one["figures"].clone())
    };
    assert_eq!((figures("library"), figures("lanes")), (Some("estimate".into()), Some("measured".into())));
}

#[test]
fn a_damaged_file_is_said_not_used_and_replaced() {
    let place = Place::new();
    place.ok(TUNE);
    place.write(KEPT, "{\"format\":1,");
    let ran = place.run(EXPLAIN);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains("damaged") && ran.err.contains(KEPT), "{}", ran.err);
    assert!(ran.out.contains("estimate") && !ran.out.contains("measured"));
    place.fails(1, &["damaged", KEPT], ["tune", "--print"]);
    place.ok(TUNE);
    assert!(place.ok(EXPLAIN).contains("\"measured\""));
}

#[test]
fn wrong_words_and_places_are_told() {
    let place = Place::new();
    place.fails(2, &["aes128-gcm", "did you mean `aes-128-gcm`?"], ["tune", "--suite", "aes128-gcm"]);
    place.fails(2, &["did you mean `aes-128-gcm`?"], ["explain", "--suite", "aes128-gcm", "--ops", "1", "--len", "1"]);
    place.fails(1, &["no engine is called `abacus`"], ["tune", "--engine", "abacus"]);
    place.fails(
        1,
        &["none of the engines runs generate-ec-sect163k1"],
        ["tune", "--engine", "library", "--suite", "generate-ec-sect163k1"],
    );
    place.fails(1, &["in steps of 16"], ["explain", "--suite", "aes-128-cbc", "--ops", "1", "--len", "17"]);
    place.fails(
        1,
        &["no direction"],
        ["explain", "--suite", "sha256", "--ops", "1", "--len", "8", "--direction", "decrypt"],
    );
    place.fails(1, &["nothing has been measured yet"], ["tune", "--print"]);
    place.write("file", "");
    let mut command = place.command(TUNE);
    let ran = crate::Ran::from(command.env("XDG_CACHE_HOME", place.path("file")).output().expect("runs"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("file/ciphermill") && ran.err.contains("XDG_CACHE_HOME"), "{}", ran.err);
    let mut command = place.command(TUNE);
    let ran = crate::Ran::from(command.env_remove("HOME").output().expect("runs"));
    assert!(ran.code == Some(1) && ran.err.contains("no home folder"), "{}", ran.err);
}
