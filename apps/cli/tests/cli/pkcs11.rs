//! The PKCS#11 module in the configuration of p11-kit: written, refused, removed; and whether it works.

use std::env;
use std::fs;
use std::process::Command;

// The module is built with these tests.
use ciphermill_pkcs11 as _;

use crate::{Place, Ran};

/// The module that Cargo has built beside this test.
fn module() -> String {
    let test = env::current_exe().expect("the test's own path");
    test.with_file_name("libciphermill_pkcs11.so").to_str().expect("a path").to_owned()
}

/// `pkcs11 install` with that module, into the place's `ours.module`.
fn install(more: &[&str]) -> Vec<String> {
    let words = ["pkcs11", "install", "--file", "ours.module", "--module"].into_iter().map(str::to_owned);
    words.chain([module()]).chain(more.iter().map(|word| (*word).to_owned())).collect()
}

#[test]
fn a_module_file_names_the_module_and_goes_again() {
    let place = Place::new();
    let said = place.ok(install(&[]));
    assert!(said.contains("ours.module: written"), "{said}");
    let written = fs::read_to_string(place.path("ours.module")).expect("a file");
    let mut lines = written.lines();
    assert!(lines.next().is_some_and(|mark| mark.contains("`ciphermill pkcs11 install`")), "{written}");
    let path = fs::canonicalize(module()).expect("there");
    assert_eq!(lines.next(), Some(format!("module: {}", path.display()).as_str()));
    assert_eq!(place.names(), ["ours.module"]);
    place.ok(["pkcs11", "uninstall", "--file", "ours.module"]);
    assert!(place.names().is_empty());
    place.fails(1, &["cannot remove ours.module"], ["pkcs11", "uninstall", "--file", "ours.module"]);
}

#[test]
fn printing_writes_nothing_and_shows_what_is_written() {
    let place = Place::new();
    let printed = place.ok(install(&["--print"]));
    assert!(place.names().is_empty());
    place.ok(install(&[]));
    assert_eq!(fs::read_to_string(place.path("ours.module")).expect("a file").trim_end(), printed.trim_end());
}

#[test]
fn other_files_are_never_touched() {
    let place = Place::new();
    place.write("ours.module", "module: /somebody's.so\n");
    place.fails(1, &["ours.module: is there", "--force"], install(&[]));
    place.fails(1, &["ours.module: was not written by"], ["pkcs11", "uninstall", "--file", "ours.module"]);
    assert_eq!(fs::read_to_string(place.path("ours.module")).expect("a file"), "module: /somebody's.so\n");
    place.ok(install(&["--force"]));
    // Its own are replaced without a word.
    place.ok(install(&[]));
    // What the other door's command writes is another's.
    let other = fs::read_to_string(place.path("ours.module")).expect("a file").replace("pkcs11 ", "openssl ");
    place.write("ours.module", other);
    place.fails(1, &["ours.module: is there"], install(&[]));
}

#[test]
fn what_would_not_load_is_not_written() {
    let place = Place::new();
    place.write("no-module.so", "text");
    let with = |name: &str| {
        let mut words = install(&[]);
        words[5] = name.to_owned();
        words
    };
    place.fails(1, &["nothing was written", "no-module.so: cannot be loaded"], with("no-module.so"));
    place.fails(1, &["cannot read the module absent.so"], with("absent.so"));
    place.fails(1, &["is not a file"], with("."));
    fs::copy(module(), place.path("a\nb.so")).expect("copied");
    place.fails(1, &["a path that p11-kit would read otherwise"], with("a\nb.so"));
    let mut elsewhere = install(&[]);
    elsewhere[3] = "ours.conf".to_owned();
    place.fails(1, &["ours.conf: p11-kit reads files alone whose names end in .module"], elsewhere);
    assert!(!place.has("ours.module") && !place.has("ours.conf"));
}

#[test]
fn a_full_disk_leaves_the_old_file() {
    let place = Place::new();
    place.ok(install(&[]));
    let (before, names) = (fs::read(place.path("ours.module")).expect("a file"), place.names());
    // A limit on the length of files stands for a full disk.
    let ran = Ran::from(place.command_after("trap '' XFSZ; ulimit -f 0", install(&[])).output().expect("runs"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("cannot write") && ran.err.contains("File too large"), "{}", ran.err);
    assert_eq!(fs::read(place.path("ours.module")).expect("a file"), before);
    assert_eq!(place.names(), names);
    let mut elsewhere = install(&[]);
    elsewhere[3] = "absent/ours.module".to_owned();
    place.fails(1, &["cannot write absent/ours.module", "No such file"], elsewhere);
}

/// `pkcs11 check` of the module, with the user's tokens in one file.
fn check(place: &Place, words: &[&str]) -> Ran {
    let mut command = place.command([&["pkcs11", "check"], words].concat());
    command.env_remove("CIPHERMILL_PKCS11_CONF").env("CIPHERMILL_PKCS11_KEYSTORES", place.path("own.keystore"));
    Ran::from(command.output().expect("runs"))
}

#[test]
fn check_shows_tokens_and_leaves_them_alone() {
    let place = Place::new();
    place.ok(install(&[]));
    for words in [&["--file", "ours.module"][..], &["--module", &module()]] {
        let said = check(&place, words);
        assert_eq!(said.code, Some(0), "{}", said.err);
        for word in ["Ciphermill", "not initialised: C_InitToken", "RSA-2048, signature", "HMAC-SHA-256", "found again"]
        {
            assert!(said.out.contains(word), "{word} is not in {}", said.out);
        }
    }
    assert_eq!(place.names(), ["ours.module"]);
}

#[test]
fn check_fails_where_there_is_no_module_of_ours() {
    let place = Place::new();
    let fails = |words: &[&str], expected: &[&str]| {
        let said = check(&place, words);
        assert_eq!(said.code, Some(1), "{}", said.out);
        expected.iter().for_each(|word| assert!(said.err.contains(word), "{word} is not in {}", said.err));
    };
    fails(&["--file", "none.module"], &["cannot read none.module", "ciphermill pkcs11 install"]);
    place.write("empty.module", "# nothing\n");
    fails(&["--file", "empty.module"], &["empty.module: names no module"]);
    place.write("absent.module", "module: /nowhere.so\n");
    fails(&["--file", "absent.module"], &["cannot read the module /nowhere.so"]);
    place.write("text.so", "text");
    fails(&["--module", "text.so"], &["text.so: cannot be loaded"]);
    // A token that is there already is never initialised, whoever asks.
    place.write("own.keystore", "not a keystore");
    let mut trial = place.command(["pkcs11", "trial", "--module", &module()]);
    let said = Ran::from(trial.env("CIPHERMILL_PKCS11_KEYSTORES", place.path("own.keystore")).output().expect("runs"));
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert_eq!(fs::read(place.path("own.keystore")).expect("a file"), b"not a keystore");
}

#[test]
fn another_module_is_told_from_ours() {
    let place = Place::new();
    let Some(other) = ["/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/x86_64-linux-gnu/pkcs11/p11-kit-trust.so"]
        .into_iter()
        .find(|path| fs::metadata(path).is_ok())
    else {
        eprintln!("not looked at: another module, since this machine has none");
        return;
    };
    let said = check(&place, &["--module", other]);
    assert_eq!(said.code, Some(1), "{}", said.out);
    assert!(said.err.contains("and not Ciphermill's"), "{}", said.err);
}

#[test]
fn the_module_is_looked_for_beside_the_program() {
    let place = Place::new();
    for folder in ["bin", "lib", "pkcs11"] {
        fs::create_dir(place.path(folder)).expect("a folder");
    }
    fs::copy(env!("CARGO_BIN_EXE_ciphermill"), place.path("bin/ciphermill")).expect("copied");
    let print = || {
        let mut command = Command::new(place.path("bin/ciphermill"));
        command.current_dir(place.path("")).args(["pkcs11", "install", "--print"]);
        Ran::from(command.output().expect("runs"))
    };
    let said = print();
    assert_eq!(said.code, Some(1), "{}", said.out);
    for looked in ["bin/libciphermill-pkcs11.so", "bin/../lib/", "bin/../pkcs11/", "--module", "make pkcs11"] {
        assert!(said.err.contains(looked), "{looked} is not in {}", said.err);
    }
    for folder in ["pkcs11", "lib", "bin"] {
        let path = place.path(&format!("{folder}/libciphermill-pkcs11.so"));
        fs::copy(module(), &path).expect("copied");
        let said = print();
        assert_eq!(said.code, Some(0), "{}", said.err);
        let path = fs::canonicalize(path).expect("there");
        assert!(said.out.contains(&format!("module: {}\n", path.display())), "{}", said.out);
    }
}
