//! The provider in configurations of OpenSSL: written, refused, removed; what the machine says stays in force.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

// The provider is built with these tests.
use ciphermill_openssl as _;

use crate::{Place, Ran};

/// The provider that Cargo has built beside this test.
fn module() -> String {
    let test = env::current_exe().expect("the test's own path");
    test.with_file_name("libciphermill_openssl.so").to_str().expect("a path").to_owned()
}

/// `openssl install` with that provider, upon the place's `machine.cnf` and into its `ours.cnf`.
fn install(more: &[&str]) -> Vec<String> {
    let words = ["openssl", "install", "--file", "ours.cnf", "--extends", "machine.cnf", "--module"];
    let words = words.into_iter().map(str::to_owned);
    words.chain([module()]).chain(more.iter().map(|word| (*word).to_owned())).collect()
}

/// What OpenSSL's own program prints under the place's `ours.cnf`.
fn openssl(place: &Place, arguments: &str) -> Ran {
    let mut command = Command::new("openssl");
    command.args(arguments.split(' ')).env("OPENSSL_CONF", place.path("ours.cnf"));
    Ran::from(command.output().expect("openssl (apt-get install openssl)"))
}

const MACHINE: &str = "\
config_diagnostics = 1
openssl_conf = openssl_init
[openssl_init]
providers = provider_sect
ssl_conf = ssl_sect
[provider_sect]
default = default_sect
legacy = legacy_sect
[default_sect]
activate = 1
[legacy_sect]
activate = 1
[ssl_sect]
system_default = tls
[tls]
MinProtocol = TLSv1.3
Ciphersuites = TLS_AES_128_GCM_SHA256
[mine]
kept = yes
";

#[test]
fn a_machine_keeps_its_own_settings() {
    let place = Place::new();
    place.write("machine.cnf", MACHINE);
    let said = place.ok(install(&[]));
    assert!(said.contains("ours.cnf: written") && said.contains("OPENSSL_CONF=/"), "{said}");
    assert_eq!(fs::read_to_string(place.path("machine.cnf")).expect("a file"), MACHINE);
    assert_eq!(place.names(), ["machine.cnf", "ours.cnf"]);
    let listed = openssl(&place, "list -providers");
    for provider in ["  ciphermill\n", "  default\n", "  legacy\n"] {
        assert!(listed.out.contains(provider), "{provider} is not in {}", listed.out);
    }
    // `legacy` works, and ours is preferred.
    assert_eq!(openssl(&place, "dgst -md4 /dev/null").code, Some(0));
    assert!(openssl(&place, "list -key-exchange-algorithms").out.contains("X25519 } @ ciphermill"));
    // What the machine says of TLS holds.
    assert_eq!(openssl(&place, "ciphers -s -tls1_3").out.trim(), "TLS_AES_128_GCM_SHA256");
    let checked = place.run(["openssl", "check", "--file", "ours.cnf"]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
}

#[test]
fn check_shows_who_does_what() {
    let place = Place::new();
    place.write("machine.cnf", "");
    place.ok(install(&[]));
    let said = place.ok(["openssl", "check", "--file", "ours.cnf"]);
    let row = |name: &str| -> Vec<u64> {
        let line = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name} is not in {said}"));
        line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    assert_eq!(row("RSA-2048, signature"), [1, 0]);
    assert_eq!(row("decryption of OAEP"), [1, 0]);
    assert_eq!(row("decryption of PKCS"), [0, 1]);
    assert_eq!(row("ECDSA P-384, verification"), [1, 0]);
    assert_eq!(row("X25519, agreement"), [1, 0]);
    assert_eq!(row("with RSA-2048, server"), [2, 0]);
    assert_eq!(place.names(), ["machine.cnf", "ours.cnf"]);
}

#[test]
fn a_key_of_the_keystore_stands_in_for_a_file() {
    let place = Place::new();
    place.write("machine.cnf", "");
    fs::set_permissions(place.write("master", [7; 32]), fs::Permissions::from_mode(0o600)).expect("changed");
    let keystore = ["--keystore", "own.keys", "--master-key-file", "master"];
    let with = |words: &[&'static str]| [words, &keystore[..]].concat();
    place.ok(with(&["keys", "generate", "web", "--suite", "ecdsa-p256-digest"]));
    place.ok(with(&["keys", "generate", "table"]));
    place.ok(install(&keystore));
    let reference = place.ok(with(&["openssl", "reference", "web"]));
    assert!(reference.starts_with("-----BEGIN PRIVATE KEY-----\n") && reference.len() < 300, "{reference}");
    place.write("web.key", reference);
    place.write("web-1.key", place.ok(with(&["openssl", "reference", "web", "--version", "1"])));
    let public = place.ok(with(&["keys", "public", "web"]));
    for key in ["ciphermill:web", "web.key", "web-1.key"] {
        let key = if key.starts_with("web") { place.path(key).display().to_string() } else { key.to_owned() };
        assert_eq!(openssl(&place, &format!("pkey -in {key} -pubout")).out, public, "{key}");
    }
    let signed = openssl(&place, &format!("dgst -sha256 -sign {} -hex {}", place.path("web.key").display(), module()));
    assert_eq!(signed.code, Some(0), "{}", signed.err);

    place.fails(1, &["no key `nobody`"], with(&["openssl", "reference", "nobody"]));
    place.fails(1, &["table is no private key"], with(&["openssl", "reference", "table"]));
    place.fails(1, &["cannot read absent.keys"], install(&["--keystore", "absent.keys"]));
    place.fails(2, &["--keystore"], install(&["--passphrase-file", "master"]));
}

#[test]
fn check_fails_where_the_provider_does_nothing() {
    let place = Place::new();
    place.fails(1, &["cannot read none.cnf", "ciphermill openssl install"], ["openssl", "check", "--file", "none.cnf"]);
    place.write("empty.cnf", "");
    place.fails(
        1,
        &["empty.cnf: the provider `ciphermill` is not active"],
        ["openssl", "check", "--file", "empty.cnf"],
    );
    place.write("machine.cnf", "");
    place.ok(install(&[]));
    let written = fs::read_to_string(place.path("ours.cnf")).expect("a file");
    let unpreferred = written.replace("default_properties", "# default_properties");
    assert_ne!(written, unpreferred);
    place.write("unpreferred.cnf", unpreferred);
    let words = ["unpreferred.cnf: the provider is loaded and did no operation", "default_properties"];
    place.fails(1, &words, ["openssl", "check", "--file", "unpreferred.cnf"]);
    let absent = written.replace(&module(), "/nowhere.so");
    place.write("absent.cnf", absent);
    place.fails(1, &["absent.cnf"], ["openssl", "check", "--file", "absent.cnf"]);
}

#[test]
fn printing_writes_nothing_and_shows_what_is_written() {
    let place = Place::new();
    place.write("machine.cnf", MACHINE);
    let printed = place.ok(install(&["--print"]));
    assert_eq!(place.names(), ["machine.cnf"]);
    place.ok(install(&[]));
    assert_eq!(fs::read_to_string(place.path("ours.cnf")).expect("a file").trim_end(), printed.trim_end());
}

#[test]
fn other_files_are_never_touched() {
    let place = Place::new();
    place.write("machine.cnf", MACHINE);
    place.write("ours.cnf", "somebody's");
    place.fails(1, &["ours.cnf: is there", "--force"], install(&[]));
    place.fails(1, &["ours.cnf: was not written by"], ["openssl", "uninstall", "--file", "ours.cnf"]);
    assert_eq!(fs::read_to_string(place.path("ours.cnf")).expect("a file"), "somebody's");
    place.ok(install(&["--force"]));
    // Its own are replaced without a word.
    place.ok(install(&[]));
    place.ok(["openssl", "uninstall", "--file", "ours.cnf"]);
    assert_eq!(place.names(), ["machine.cnf"]);
    place.fails(1, &["cannot remove ours.cnf"], ["openssl", "uninstall", "--file", "ours.cnf"]);
    // Not the one that is built upon, by whatever name and with whatever force.
    std::os::unix::fs::symlink("machine.cnf", place.path("alias.cnf")).expect("a link");
    let mut alias = install(&["--force"]);
    alias[3] = "alias.cnf".to_owned();
    place.fails(1, &["alias.cnf: this file is what the new one includes"], alias);
    assert_eq!(fs::read_to_string(place.path("machine.cnf")).expect("a file"), MACHINE);
}

#[test]
fn what_would_not_load_is_not_written() {
    let place = Place::new();
    place.write("machine.cnf", MACHINE);
    place.write("no-provider.so", "text");
    let mut wrong = install(&[]);
    wrong[7] = "no-provider.so".to_owned();
    place.fails(1, &["nothing was written", "ours.cnf"], wrong.clone());
    wrong[7] = "absent.so".to_owned();
    place.fails(1, &["cannot read the provider absent.so"], wrong.clone());
    fs::copy(module(), place.path("a#b.so")).expect("copied");
    wrong[7] = "a#b.so".to_owned();
    place.fails(1, &["a#b.so: has a character"], wrong);
    place.write("machine.cnf", "openssl_conf = i\n[i]\nproviders = p\n[p]\nfips = f\n[f]\nactivate = 1\n");
    place.fails(1, &["machine.cnf: section [p] activates fips without `default`"], install(&[]));
    assert!(!place.has("ours.cnf"));
}

#[test]
fn a_full_disk_and_a_folder_without_permission_leave_the_old_file() {
    let place = Place::new();
    place.write("machine.cnf", MACHINE);
    place.ok(install(&[]));
    let (before, names) = (fs::read(place.path("ours.cnf")).expect("a file"), place.names());
    // A limit on the length of files stands for a full disk.
    let ran = Ran::from(place.command_after("trap '' XFSZ; ulimit -f 0", install(&[])).output().expect("runs"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("cannot write") && ran.err.contains("File too large"), "{}", ran.err);
    assert_eq!(fs::read(place.path("ours.cnf")).expect("a file"), before);
    assert_eq!(place.names(), names);

    let mut elsewhere = install(&[]);
    elsewhere[3] = "absent/ours.cnf".to_owned();
    place.fails(1, &["cannot write absent/ours.cnf", "No such file"], elsewhere);
    // Nobody may make files there, root included.
    let mut system = install(&[]);
    system[3] = "/sys/ours.cnf".to_owned();
    place.fails(1, &["cannot write /sys/ours.cnf"], system);
    fs::create_dir(place.path("closed")).expect("a folder");
    fs::set_permissions(place.path("closed"), fs::Permissions::from_mode(0o555)).expect("changed");
    if fs::write(place.path("closed/probe"), "").is_ok() {
        eprintln!("not looked at: a folder without permission, since this user may write everywhere");
        return;
    }
    let mut closed = install(&[]);
    closed[3] = "closed/ours.cnf".to_owned();
    place.fails(1, &["cannot write closed/ours.cnf", "Permission denied"], closed);
}

#[test]
fn another_configuration_in_force_is_said() {
    let place = Place::new();
    place.write("machine.cnf", "");
    place.write("other.cnf", "");
    let ran = |names: &str| {
        let mut command = place.command(install(&[]));
        Ran::from(command.env("OPENSSL_CONF", place.path(names)).output().expect("runs"))
    };
    let said = ran("other.cnf");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("other.cnf here, which is not included; --extends"), "{}", said.err);
    for known in ["machine.cnf", "ours.cnf"] {
        assert!(!ran(known).err.contains("--extends"), "{known}");
    }
}

#[test]
fn the_provider_is_looked_for_beside_the_program_and_not_in_the_folder_at_hand() {
    let place = Place::new();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_ciphermill"));
    for folder in ["bin", "lib", "openssl", "target", "target/openssl"] {
        fs::create_dir_all(place.path(folder)).expect("a folder");
    }
    fs::copy(program, place.path("bin/ciphermill")).expect("copied");
    place.write("machine.cnf", "");
    fs::copy(module(), place.path("target/openssl/ciphermill.so")).expect("copied");
    let install = || {
        let mut command = Command::new(place.path("bin/ciphermill"));
        command.current_dir(place.path("")).args([
            "openssl",
            "install",
            "--file",
            "ours.cnf",
            "--extends",
            "machine.cnf",
        ]);
        Ran::from(command.output().expect("runs"))
    };
    let said = install();
    assert_eq!(said.code, Some(1), "{}", said.out);
    for looked in ["bin/ciphermill.so", "bin/../lib/ciphermill.so", "bin/../openssl/ciphermill.so", "--module"] {
        assert!(said.err.contains(looked), "{looked} is not in {}", said.err);
    }
    for folder in ["openssl", "lib", "bin"] {
        let path = place.path(&format!("{folder}/ciphermill.so"));
        fs::copy(module(), &path).expect("copied");
        let said = install();
        assert_eq!(said.code, Some(0), "{}", said.err);
        let written = fs::read_to_string(place.path("ours.cnf")).expect("a file");
        let path = fs::canonicalize(path).expect("there");
        assert!(written.contains(&format!("module = {}\n", path.display())), "{written}");
    }
}

#[test]
fn wrong_arguments_are_named() {
    let place = Place::new();
    place.fails(2, &["--file"], ["openssl", "check", "--file"]);
    place.fails(2, &["unexpected argument"], ["openssl", "uninstall", "ours.cnf"]);
    place.fails(2, &["unrecognized subcommand"], ["openssl", "setup"]);
    place.fails(1, &["cannot read absent.cnf"], ["openssl", "install", "--extends", "absent.cnf", "--print"]);
    // Without OpenSSL's program there is nothing to go by.
    let mut command = place.command(["openssl", "install", "--print"]);
    let said = Ran::from(command.env("PATH", place.path("")).output().expect("runs"));
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot run openssl"), "{}", said.err);
}
