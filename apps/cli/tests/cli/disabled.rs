//! Engines and suites that are disabled: by hand and by command, shown with the reason, in force for every command.

use std::os::unix::fs::{PermissionsExt, symlink};

use crate::{Place, json};

const EXPLAIN: [&str; 8] = ["explain", "--suite", "aes-128-gcm", "--ops", "32", "--len", "64", "--json"];

const FILE: &str = "ciphermill.toml";

fn names(list: &serde_json::Value, key: &str) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().map(|one| one[key].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn engines_show_what_is_disabled_and_why() {
    let place = Place::new();
    let plain = json(&place.ok(["engines", "--json"]));
    assert_eq!((plain["disabled"].as_array().map(Vec::len), &plain["engines"][0]["disabled"]), (Some(0), &().into()));
    place.write(FILE, "[policy]\ndisabled = [\"reference\", \"lanes:des-*\", \"rc4\", \"gpu\"]\n");

    let listing = json(&place.ok(["engines", "--json"]));
    assert_eq!(names(&listing["disabled"], "rule"), ["reference", "lanes:des-*", "rc4", "gpu"]);
    assert_eq!(listing["disabled"][0]["reason"], "disabled: reference in ciphermill.toml");
    assert_eq!(names(&listing["engines"], "name"), ["lanes", "library", "reference"], "a device is not opened");
    assert!(listing["unavailable"].as_array().expect("a list").is_empty());
    for engine in listing["engines"].as_array().expect("a list") {
        let name = engine["name"].as_str().expect("a name");
        for suite in engine["suites"].as_array().expect("a list") {
            let suite_name = suite["suite"].as_str().expect("a name");
            let rule = match (name, suite_name) {
                ("reference", _) => Some("reference"),
                ("lanes", suite) if suite.starts_with("des-") => Some("lanes:des-*"),
                (_, "rc4") => Some("rc4"),
                _ => None,
            };
            assert_eq!(suite["disabled"].as_str(), rule, "{name} {suite_name}");
        }
        assert_eq!(engine["disabled"].as_str(), (name == "reference").then_some("reference"));
    }

    let said = place.ok(["engines", "--suites"]);
    for words in ["disabled: lanes:des-* in ciphermill.toml", "disabled: gpu in ciphermill.toml", "gpu was not opened"]
    {
        assert!(said.contains(words), "`{words}` is missing in: {said}");
    }
    let des = said.lines().find(|line| line.trim().starts_with("des-cbc ")).expect("a line of lanes");
    assert!(des.contains("disabled: lanes:des-*"), "{des}");
    assert!(place.ok(["config"]).contains("disabled = [\"reference\", \"lanes:des-*\", \"rc4\", \"gpu\"]"));
}

#[test]
fn explain_names_the_engines_that_a_rule_leaves_out() {
    let place = Place::new();
    let before = json(&place.ok(EXPLAIN));
    let chosen = before["choice"]["engine"].as_str().expect("an engine").to_owned();
    assert!(before["disabled"].as_array().expect("a list").is_empty());

    place.write(FILE, format!("[policy]\ndisabled = [\"{chosen}:aes-128-gcm\", \"gpu\"]\n"));
    let after = json(&place.ok(EXPLAIN));
    assert_ne!(after["choice"]["engine"], chosen.as_str());
    assert!(!names(&after["candidates"], "engine").contains(&chosen));
    assert_eq!(names(&after["disabled"], "engine"), [&chosen, "gpu"]);
    assert_eq!(after["disabled"][0]["reason"], format!("disabled: {chosen}:aes-128-gcm in ciphermill.toml"));
    assert_eq!((after["disabled"][0]["kernel"].is_string(), after["disabled"][1]["kernel"].is_null()), (true, true));
    let said = place.ok(&EXPLAIN[..7]);
    assert!(said.contains(&format!("is left out; disabled: {chosen}:aes-128-gcm in ciphermill.toml")), "{said}");
    assert!(said.contains("gpu was not opened; disabled: gpu in ciphermill.toml"), "{said}");

    place.write(FILE, "[policy]\ndisabled = [\"aes-128-gcm\"]\n");
    let ran = place.run(&EXPLAIN[..7]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.out.contains("no engine may run it") && ran.out.contains("disabled: aes-128-gcm in"), "{}", ran.out);
    place.write(FILE, "[policy]\ndisabled = [\"library\"]\n");
    place.fails(
        1,
        &["`library` may not be used; disabled: library in ciphermill.toml"],
        [&EXPLAIN[..], &["--engine", "library"]].concat(),
    );
    place.fails(1, &["may not be used"], ["selftest", "--engine", "library"]);
}

#[test]
fn every_command_goes_by_the_rules() {
    let place = Place::new();
    place.ok(["keys", "generate", "data"]);
    place.write("in.csv", "name\nAda\nGrace\n");
    let protect = |disabled: &str| {
        place.write(FILE, format!("[policy]\ndisabled = [{disabled}]\n"));
        ["protect", "in.csv", "out.csv", "--key", "data", "--column", "name=deterministic", "--force", "--json"]
    };
    let engine = |said: &str| json(said)["engines"][0].as_str().expect("an engine").to_owned();
    assert_eq!(engine(&place.ok(protect("\"lanes:aes-256-siv\", \"library\""))), "reference");
    place.fails(1, &["aes-256-siv encrypt is disabled on every engine"], protect("\"aes-256-siv\""));
    place.fails(
        1,
        &["rule `aes-256-siw`", "did you mean `aes-256-siv`?", "in ciphermill.toml"],
        protect("\"aes-256-siw\""),
    );

    place.write(FILE, "[policy]\ndisabled = [\"reference\", \"lanes\", \"sha256\"]\n");
    let tests = json(&place.ok(["selftest", "--json"]));
    assert!(
        tests.as_array().expect("a list").iter().all(|test| test["engine"] == "library" && test["suite"] != "sha256")
    );
    assert!(place.ok(["selftest"]).contains("are disabled and were left out"));
    let tune = |suite| ["tune", "--quick", "--time", "1", "--suite", suite, "--json"];
    let measured = json(&place.ok(tune("sha512")));
    assert_eq!(names(&measured["costs"], "engine"), ["library"]);
    place.fails(1, &["sha256 is disabled on every engine that runs it"], tune("sha256"));
    place.write(FILE, "[policy]\ndisabled = [\"generate-rsa-*\"]\n");
    place.fails(1, &["generate-rsa-2048 encrypt is disabled"], ["keys", "generate", "web", "--suite", "rsa-2048-raw"]);
}

#[test]
fn rules_are_put_into_the_file_and_taken_out() {
    let place = Place::new();
    let text = "# ours\n[trust]\nstall_factor = 3 # why\n\n[policy]\n# of 2026\nlegacy = true\n";
    let path = place.write(FILE, text);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("ours");
    let said = place.ok(["disable", "lanes:DES-cbc", "rc4"]);
    assert_eq!(said, "disabled: lanes:des-cbc in ciphermill.toml\ndisabled: rc4 in ciphermill.toml\n");
    let read = || std::fs::read_to_string(&path).expect("reads");
    let with = |rules: &str| text.replace("[policy]\n", &format!("[policy]\ndisabled = [{rules}]\n"));
    assert_eq!(read(), with("\"lanes:des-cbc\", \"rc4\""));
    assert_eq!(std::fs::metadata(&path).expect("is there").permissions().mode() & 0o777, 0o640);
    assert!(place.ok(["disable", "rc4"]).contains("as before"));
    assert_eq!(read(), with("\"lanes:des-cbc\", \"rc4\""));
    assert!(place.ok(["enable", "rc4"]).contains("enabled: rc4"));
    assert_eq!(read(), with("\"lanes:des-cbc\""));
    place.ok(["disable", "lanes"]);
    assert!(place.ok(["enable", "lanes:des-cbc"]).contains("still disabled by the rule `lanes`"));
    place.fails(1, &["`lanes:rc4` is disabled by the rule `lanes`"], ["enable", "lanes:rc4"]);
    place.fails(1, &["there is no rule `rc4`"], ["enable", "rc4"]);
    assert_eq!(read(), with("\"lanes\""));
    assert_eq!(place.names(), [FILE]);
}

#[test]
fn a_change_that_is_not_right_leaves_the_file_as_it_is() {
    let place = Place::new();
    let text = "[policy]\ndisabled = [\"gpu\"]\n";
    place.write(FILE, text);
    place.fails(1, &["rule `rc5`", "did you mean `rc4`?"], ["disable", "rc4", "rc5"]);
    place.fails(1, &["rule `abacus:rc4`", "no engine"], ["disable", "abacus:rc4"]);
    place.fails(1, &["there is no rule `rc4`"], ["enable", "gpu", "rc4"]);
    place.fails(2, &["RULE"], ["disable"]);
    assert_eq!(std::fs::read_to_string(place.path(FILE)).expect("reads"), text);
    // A file that is wrong already is nobody's to rewrite.
    for wrong in ["[policy]\ndisabled = [\"rc5\"]\n", "[policy]\nlegaci = true\n", "[policy"] {
        place.write(FILE, wrong);
        place.fails(1, &["ciphermill.toml"], ["disable", "gpu"]);
        assert_eq!(std::fs::read_to_string(place.path(FILE)).expect("reads"), wrong);
    }
    place.write(FILE, "policy = { legacy = true }\n");
    place.fails(1, &["in ciphermill.toml", "write `disabled = [\"gpu\"]` under [policy] yourself"], ["disable", "gpu"]);
}

#[test]
fn the_file_is_that_which_settings_are_read_from_or_the_users() {
    let place = Place::new();
    assert!(place.ok(["disable", "gpu"]).contains(".config/ciphermill/ciphermill.toml"));
    let user = place.path(".config/ciphermill/ciphermill.toml");
    assert_eq!(std::fs::read_to_string(&user).expect("reads"), "[policy]\ndisabled = [\"gpu\"]\n");
    place.ok(["--config", "own.toml", "disable", "rc4"]);
    assert!(place.ok(["--config", "own.toml", "engines"]).contains("disabled: rc4 in own.toml"));
    // A link stays one, and what it leads to is changed.
    symlink(&user, place.path(FILE)).expect("a link");
    place.ok(["disable", "rc4"]);
    assert!(place.path(FILE).is_symlink());
    assert_eq!(std::fs::read_to_string(&user).expect("reads"), "[policy]\ndisabled = [\"gpu\", \"rc4\"]\n");
}
