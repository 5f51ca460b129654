//! Tokens of SoftHSM as engines of the command line: configured, named, disabled, missing.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::{Place, Ran, json};

pub(crate) const MODULE: &str = "/usr/lib/softhsm/libsofthsm2.so";
pub(crate) const PIN: &str = "48151623";

/// A folder with a store of tokens of its own.
pub(crate) struct Store {
    pub(crate) place: Place,
}

impl Store {
    /// A store with tokens of these labels, and a file with their PIN.
    pub(crate) fn new(labels: &[&str]) -> Store {
        assert!(Path::new(MODULE).exists(), "these tests need SoftHSM: install the package softhsm2");
        let place = Place::new();
        fs::create_dir(place.path("tokens")).expect("a folder");
        let tokens = place.path("tokens");
        place.write("softhsm2.conf", format!("directories.tokendir = {}\nlog.level = ERROR\n", tokens.display()));
        place.write("pin", format!("{PIN}\n"));
        fs::set_permissions(place.path("pin"), Permissions::from_mode(0o600)).expect("changed");
        let store = Store { place };
        for label in labels {
            store.util(&["--init-token", "--free", "--label", label, "--so-pin", "11223344", "--pin", PIN]);
        }
        store
    }

    /// A section for the token of this label, with lines besides.
    pub(crate) fn section(name: &str, lines: &str) -> String {
        format!("[[token]]\nname = \"{name}\"\nmodule = \"{MODULE}\"\nlabel = \"{name}\"\n{lines}\n")
    }

    pub(crate) fn util(&self, arguments: &[&str]) {
        self.program("softhsm2-util", arguments);
    }

    /// Another program, which has to succeed.
    pub(crate) fn program(&self, name: &str, arguments: &[&str]) -> String {
        let mut command = Command::new(name);
        command.args(arguments).current_dir(self.place.path("."));
        command.env("SOFTHSM2_CONF", self.place.path("softhsm2.conf"));
        let ran = Ran::from(command.output().expect("the program is installed"));
        assert_eq!(ran.code, Some(0), "{name} {arguments:?}: {}{}", ran.out, ran.err);
        ran.out
    }

    /// Makes a key pair outside and imports it.
    pub(crate) fn import(&self, token: &str, label: &str, id: &str, kind: &[&str]) {
        self.program("openssl", &[&["genpkey", "-out", "key.pem"], kind].concat());
        self.util(&["--import", "key.pem", "--token", token, "--label", label, "--id", id, "--pin", PIN]);
    }

    /// The program with this store.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("SOFTHSM2_CONF", self.place.path("softhsm2.conf"));
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::from(self.command(args).output().expect("runs"))
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        ran.out
    }

    pub(crate) fn fails(&self, code: i32, words: &[&str], args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(code), "{}{}", ran.out, ran.err);
        for word in words {
            assert!(ran.err.contains(word), "`{word}` is missing in: {}", ran.err);
        }
        ran
    }

    pub(crate) fn configure(&self, text: &str) {
        self.place.write("ciphermill.toml", text);
    }
}

pub(crate) const EC: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub(crate) const RSA: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

fn names(list: &serde_json::Value, key: &str) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().map(|one| one[key].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn engines_shows_tokens_and_why_one_is_missing() {
    let store = Store::new(&["one"]);
    store.configure(&(Store::section("one", "pin_file = \"pin\"\ncopies = true") + &Store::section("gone", "")));
    let listing = json(&store.ok(&["engines", "--json"]));
    let engines = listing["engines"].as_array().expect("a list");
    let token = engines.iter().find(|engine| engine["name"] == "one").expect("the token");
    assert_eq!(token["kind"], "token");
    assert!(names(&token["suites"], "suite").contains(&"ecdsa-p256".to_owned()));
    let missing = listing["unavailable"].as_array().expect("a list");
    let missing = missing.iter().find(|one| one["name"] == "gone").expect("the other");
    assert_eq!(missing["why"], "there is no such token, or more than one");
    let said = store.ok(&["engines"]);
    assert!(said.contains("gone is not available: there is no such token"), "{said}");
    let said = store.ok(&["selftest", "--engine", "one"]);
    assert!(said.contains(" passed, 0 failed"), "{said}");
    // A token without copies is shown, and not tested.
    store.configure(&(Store::section("one", "pin_file = \"pin\"") + &Store::section("gone", "")));
    let listing = json(&store.ok(&["engines", "--test", "--json"]));
    let missing = listing["unavailable"].as_array().expect("a list");
    let missing = missing.iter().find(|one| one["name"] == "one").expect("the token");
    assert_eq!(missing["why"], "not tested: it takes no copies of keys (copies = false)");
    store.configure(&(Store::section("one", "pin_file = \"pin\"\ncopies = true") + &Store::section("gone", "")));
    // Other commands go on without one that is missing, and say so.
    let ran = store.run(&["explain", "--suite", "ecdsa-p256", "--ops", "1", "--len", "32", "--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let explained = json(&ran.out);
    assert!(names(&explained["candidates"], "engine").contains(&"one".to_owned()));
    assert!(names(&explained["unavailable"], "engine").contains(&"gone".to_owned()));
    let said = store.run(&["keys", "generate", "host", "--suite", "ecdsa-p256"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("gone is not available"), "{}", said.err);
    store.fails(1, &["token `gone`: there is no such token"], &["selftest", "--engine", "gone"]);
    store.fails(1, &["no engine is called `two`; there are", "one, gone"], &["selftest", "--engine", "two"]);
}

#[test]
fn explain_says_what_keeps_a_token_from_a_batch() {
    let store = Store::new(&["one", "two"]);
    let sections = Store::section("one", "pin_file = \"pin\"\ncopies = true") + &Store::section("two", "");
    store.configure(&(sections.clone() + "[policy]\ndisabled = [\"one\"]\n"));
    let explain =
        |suite: &str| json(&store.run(&["explain", "--suite", suite, "--ops", "1", "--len", "32", "--json"]).out);
    let signing = explain("ecdsa-p256");
    assert_eq!(names(&signing["disabled"], "engine").iter().filter(|name| *name == "one").count(), 1);
    let [left] = &signing["tokens"].as_array().expect("a list")[..] else { panic!("{signing}") };
    assert_eq!(left["engine"], "two");
    assert!(left["why"].as_str().expect("a text").contains("takes no copies of keys"));
    let [left] = &explain("chacha20-poly1305")["tokens"].as_array().expect("a list").clone()[..] else { panic!() };
    assert_eq!(left["why"], "its mechanisms offer no chacha20-poly1305 encrypt");
    let said = store.ok(&["explain", "--suite", "ecdsa-p256", "--ops", "1", "--len", "32"]);
    for words in ["one was not opened; disabled: one in ciphermill.toml", "two: it takes no copies of keys"] {
        assert!(said.contains(words), "`{words}` is missing in: {said}");
    }
    // Rules are added and taken out by a token's name as by any engine's.
    store.configure(&sections);
    store.ok(&["disable", "two:ecdsa-p256", "one"]);
    let said = store.ok(&["config"]);
    assert!(said.contains("disabled = [\"two:ecdsa-p256\", \"one\"]"), "{said}");
    store.ok(&["enable", "one"]);
    store.fails(1, &["hsm"], &["disable", "hsm"]);
    let said = store.ok(&["config"]);
    assert!(
        said.contains("[[token]]\n") && said.contains("label = \"one\"") && said.contains("pin_file = \"pin\""),
        "{said}"
    );
    assert!(!said.contains(PIN), "{said}");
    // What is printed is such a file.
    store.configure(&said);
    assert_eq!(store.ok(&["config"]), said);
}

#[test]
fn a_pin_comes_from_a_file_a_variable_or_the_keystore() {
    let store = Store::new(&["one"]);
    let opens = |lines: &str| {
        store.configure(&Store::section("one", &format!("{lines}\ncopies = true")));
        let mut command = store.command(&["selftest", "--engine", "one"]);
        Ran::from(command.env("ONE_PIN", PIN).env("WRONG_PIN", "00000000").output().expect("runs"))
    };
    let is_refused = |lines: &str, words: &str| {
        let ran = opens(lines);
        assert_eq!(ran.code, Some(1), "{}", ran.out);
        assert!(ran.err.contains(words), "`{words}` is missing in: {}", ran.err);
        assert!(!ran.err.contains(PIN), "{}", ran.err);
    };
    assert_eq!(opens("pin_file = \"pin\"").code, Some(0));
    assert_eq!(opens("pin_env = \"ONE_PIN\"").code, Some(0));
    store.ok(&["keys", "import", "one-pin", "--file", "pin", "--suite", "hmac-sha512"]);
    assert_eq!(opens("pin_key = \"one-pin\"").code, Some(0));

    is_refused("pin_env = \"WRONG_PIN\"", "token `one`: the PIN is wrong; it is not tried again");
    is_refused("pin_env = \"NO_PIN\"", "token `one`: pin_env: NO_PIN is not set");
    is_refused("pin_key = \"two-pin\"", "token `one`: pin_key: `two-pin`");
    is_refused("pin_file = \"absent\"", "absent");
    store.place.write("empty", "\n");
    fs::set_permissions(store.place.path("empty"), Permissions::from_mode(0o600)).expect("changed");
    is_refused("pin_file = \"empty\"", "it is empty");
    fs::set_permissions(store.place.path("pin"), Permissions::from_mode(0o644)).expect("changed");
    is_refused("pin_file = \"pin\"", "pin");
    store.ok(&["keys", "generate", "pair", "--suite", "ecdsa-p256"]);
    is_refused("pin_key = \"pair\"", "is no secret key");
}

#[test]
fn sections_with_mistakes_stop_every_command() {
    let place = Place::new();
    for (text, words) in [
        ("[[token]]\nname = \"hsm\"\nmodule = \"a.so\"\n", "token `hsm`: of slot and label there must be one"),
        ("[[token]]\nname = \"lanes\"\nmodule = \"a.so\"\nslot = 1\n", "`lanes` is another engine's"),
        ("[[token]]\nname = \"hsm\"\nmodule = \"a.so\"\nslot = 1\npin = \"1234\"\n", "unknown field `pin`"),
    ] {
        place.write("ciphermill.toml", text);
        place.fails(1, &["ciphermill.toml", words], ["engines"]);
    }
    place.write("ciphermill.toml", "[[token]]\nname = \"hsm\"\nmodule = \"a.so\"\nslot = 1\nprocess = false\n");
    let said = place.ok(["engines"]);
    assert!(said.contains("hsm is not available: the PKCS#11 module does not load"), "{said}");
}
