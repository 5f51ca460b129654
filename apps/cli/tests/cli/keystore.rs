//! Keys: made, listed, rotated, destroyed; never shown, never in clear on disk.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;

use crate::{Place, json};

/// A key file opens a keystore at once, where a passphrase takes Argon2id's time.
const KEY_FILE: [&str; 2] = ["--master-key-file", "master.key"];

fn with_key_file() -> Place {
    let place = Place::new();
    set_mode(&place.write("master.key", [7u8; 32]), 0o600);
    place
}

fn keys<'a>(args: &[&'a str]) -> Vec<&'a str> {
    ["keys"].into_iter().chain(args.iter().copied()).chain(KEY_FILE).collect()
}

#[test]
fn keys_are_made_listed_rotated_and_destroyed() {
    let place = Place::new();
    place.fails(1, &["there is no keystore", "keys generate"], ["keys", "list"]);
    let made = place.ok(["keys", "generate", "customers", "--description", "for a test"]);
    assert!(made.contains("version 1 of 256 bits"), "{made}");
    assert!(place.has(".local/share/ciphermill/keystore"));
    place.fails(1, &["customers"], ["keys", "generate", "customers"]);
    assert!(place.ok(["keys", "rotate", "customers"]).contains("version 2 is current"));
    let list = json(&place.ok(["keys", "list", "--json"]));
    let states: Vec<_> = list.as_array().expect("a list").iter().map(|key| key["state"].as_str()).collect();
    assert_eq!(states, [Some("retired"), Some("active")]);
    assert_eq!(list[0]["suites"], serde_json::json!(["hmac-sha256"]));
    place.fails(1, &["--yes"], ["keys", "destroy", "customers", "--version", "1"]);
    place.ok(["keys", "destroy", "customers", "--version", "1", "--yes"]);
    assert_eq!(json(&place.ok(["keys", "list", "--json"]))[0]["state"], "destroyed");
    place.fails(1, &["customers"], ["keys", "destroy", "customers", "--version", "7", "--yes"]);
}

#[test]
fn a_wrong_passphrase_opens_nothing() {
    let place = Place::new();
    place.ok(["keys", "generate", "k"]);
    let output = place.command(["keys", "list"]).env("CIPHERMILL_PASSPHRASE", "wrong").output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
    assert!(said.contains("passphrase") || said.contains("secret"), "{said}");
    let nobody = place.command(["keys", "list"]).env_remove("CIPHERMILL_PASSPHRASE").output().expect("runs");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("--master-key-file"));
}

#[test]
fn imported_keys_leave_no_trace() {
    let place = Place::new();
    let key: Vec<u8> = (0..32u8).map(|n| n.wrapping_mul(37) ^ 0x5a).collect();
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    place.write("key.hex", format!("{digits}\n"));
    let said = place.ok(["keys", "import", "mine", "--file", "key.hex", "--hex"]);
    let listed = place.ok(["keys", "list"]);
    for text in [said, listed] {
        assert!(!text.contains(&digits[..16]));
    }
    let store = std::fs::read(place.path(".local/share/ciphermill/keystore")).expect("a file");
    assert!(!store.windows(8).any(|window| window == &key[..8]));
    place.write("odd.hex", "xyz");
    place.fails(1, &["odd.hex", "hexadecimal"], ["keys", "import", "other", "--file", "odd.hex", "--hex"]);
    place.write("short.key", "1234567");
    let args = ["keys", "import", "other", "--file", "short.key", "--suite", "aes-128-gcm"];
    place.fails(1, &["aes-128-gcm takes no key of 7 bytes"], args);
}

#[test]
fn key_files_and_variables_open_keystores_too() {
    let place = Place::new();
    let file = place.write("master.key", [7u8; 32]);
    let args = ["keys", "generate", "k", "--keystore", "a.keys", "--master-key-file", "master.key"];
    set_mode(&file, 0o644);
    place.fails(1, &["master.key"], args);
    set_mode(&file, 0o600);
    place.ok(args);
    place.ok(["keys", "list", "--keystore", "a.keys", "--master-key-file", "master.key"]);
    let with_variable = |value: &str| {
        let args = ["keys", "list", "--keystore", "b.keys", "--master-key-env", "MILL_KEY"];
        place.command(args).env("MILL_KEY", value).output().expect("runs").status.code()
    };
    let made = place
        .command(["keys", "generate", "k", "--keystore", "b.keys", "--master-key-env", "MILL_KEY"])
        .env("MILL_KEY", "11".repeat(32))
        .output()
        .expect("runs");
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(with_variable(&"11".repeat(32)), Some(0));
    assert_eq!(with_variable(&"12".repeat(32)), Some(1));
}

#[test]
fn passphrases_come_from_files_and_have_a_minimum() {
    let place = Place::new();
    let file = place.write("passphrase", "seventeen letters\n");
    let list = ["keys", "list", "--passphrase-file", "passphrase"];
    set_mode(&file, 0o644);
    place.fails(1, &["passphrase", "chmod 600"], ["keys", "generate", "k", "--passphrase-file", "passphrase"]);
    set_mode(&file, 0o600);
    place.ok(["keys", "generate", "k", "--passphrase-file", "passphrase"]);
    place.ok(list);
    place.fails(1, &["does not open"], ["keys", "list"]);
    place.fails(2, &["--passphrase-file"], [&list[..], &KEY_FILE].concat());

    set_mode(&place.write("weak", "hunter2"), 0o600);
    let store = std::fs::read(place.path(".local/share/ciphermill/keystore")).expect("a file");
    let passwd = ["keys", "passwd", "--passphrase-file", "passphrase", "--new-passphrase-file", "weak"];
    place.fails(1, &["at least 15 characters"], passwd);
    let weak = ["keys", "generate", "k", "--keystore", "other", "--passphrase-file", "weak"];
    place.fails(1, &["at least 15 characters"], weak);
    assert!(!place.has("other"));
    assert_eq!(std::fs::read(place.path(".local/share/ciphermill/keystore")).expect("a file"), store);

    set_mode(&place.write("next", "another passphrase"), 0o600);
    place.ok(["keys", "passwd", "--passphrase-file", "passphrase", "--new-passphrase-file", "next"]);
    place.fails(1, &["does not open"], list);
    place.ok(["keys", "list", "--passphrase-file", "next"]);
}

#[test]
fn short_keys_and_encoded_ones_are_no_secrets() {
    let place = with_key_file();
    place.write("one.key", "k");
    place.fails(1, &["16 bytes", "128 bits"], keys(&["import", "root", "--file", "one.key"]));
    place.write("half.key", [3u8; 16]);
    let ran = place.run(keys(&["import", "half", "--file", "half.key"]));
    assert!(ran.code == Some(0) && ran.err.contains("256 are recommended"), "{}", ran.err);
    // RFC 8410, section 10.3.
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
               -----END PRIVATE KEY-----\n";
    place.write("pair.pem", pem);
    place.write(
        "pair.hex",
        "302e020100300506032b657004220420d4ee72dbf913584ad5b6d8f1f769f8ad3afe7c28cbf1d4fbe097a88f44755842",
    );
    place.fails(1, &["pair.pem", "PEM or DER"], keys(&["import", "root", "--file", "pair.pem"]));
    place.fails(1, &["PEM or DER"], keys(&["import", "root", "--file", "pair.hex", "--hex", "--suite", "aes-256-gcm"]));
    let listed = json(&place.ok(keys(&["list", "--json"])));
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");

    place.ok(keys(&["import", "signer", "--file", "pair.pem", "--suite", "ed25519"]));
    place.fails(1, &["another algorithm"], keys(&["import", "x", "--file", "pair.pem", "--suite", "x25519"]));
    let public = place.ok(keys(&["public", "signer"]));
    let expected = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
    assert_eq!(public, expected);
    place.fails(1, &["no public half"], keys(&["public", "half"]));
    place.ok(keys(&["rotate", "signer"]));
    assert_ne!(place.ok(keys(&["public", "signer"])), expected, "a new pair");
    place.ok(keys(&["rotate", "signer", "--file", "pair.hex", "--hex"]));
    assert_eq!(place.ok(keys(&["public", "signer", "--version", "3"])), expected);
    place.ok(keys(&["generate", "made", "--suite", "ml-dsa-44"]));
    assert!(place.ok(keys(&["public", "made"])).starts_with("-----BEGIN PUBLIC KEY-----\nMIIF"));
}

/// What another program says of a file here; none where it is not installed.
fn said_by(place: &Place, program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).current_dir(place.path("")).output().ok()?;
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn pairs_are_generated_and_other_programs_read_their_public_halves() {
    let place = with_key_file();
    for (name, suite, ssh, openssl) in [
        ("rsa", "rsa-2048-sign-pss-sha256", Some("2048 SHA256:"), "Public-Key: (2048 bit)"),
        ("p256", "ecdsa-p256", Some("256 SHA256:"), "NIST CURVE: P-256"),
        ("p384", "ecdsa-p384", Some("384 SHA256:"), "NIST CURVE: P-384"),
        ("p521", "ecdh-p521", None, "NIST CURVE: P-521"),
        ("edwards", "ed25519", Some("256 SHA256:"), "ED25519 Public-Key:"),
        ("together", "ed25519-cofactored", Some("256 SHA256:"), "ED25519 Public-Key:"),
    ] {
        place.ok(keys(&["generate", name, "--suite", suite]));
        place.write("public.pem", place.ok(keys(&["public", name])));
        if let Some(text) = said_by(&place, "openssl", &["pkey", "-pubin", "-in", "public.pem", "-noout", "-text"]) {
            assert!(text.contains(openssl), "{name}: {text}");
        }
        match ssh {
            Some(ssh) => {
                place.write("public.ssh", place.ok(keys(&["public", name, "--format", "ssh"])));
                if let Some(text) = said_by(&place, "ssh-keygen", &["-l", "-f", "public.ssh"]) {
                    assert!(text.starts_with(ssh) && text.contains(name), "{name}: {text}");
                }
                // Back from SSH's form, the key is the same.
                let back = &["-e", "-m", "PKCS8", "-f", "public.ssh"];
                // Debian's has that form for all but Ed25519.
                if !suite.starts_with("ed25519")
                    && let Some(text) = said_by(&place, "ssh-keygen", back)
                {
                    assert_eq!(text, place.ok(keys(&["public", name])), "{name}");
                }
            }
            None => {
                place.fails(1, &["SSH has no such keys"], keys(&["public", name, "--format", "ssh"]));
            }
        }
        let jwk = json(&place.ok(keys(&["public", name, "--format", "jwk"])));
        assert!(jwk["kty"].is_string(), "{jwk}");
        let before = place.ok(keys(&["public", name]));
        place.ok(keys(&["rotate", name]));
        assert_ne!(place.ok(keys(&["public", name])), before, "{name}");
    }
    place.ok(keys(&["generate", "exchange", "--suite", "dh-ffdhe2048"]));
    place.fails(1, &["legacy"], keys(&["generate", "old", "--suite", "rsa-1024-sign-pss-sha256"]));
    place.fails(1, &["takes no key"], keys(&["generate", "none", "--suite", "sha256"]));
}

#[test]
fn backups_restore_what_was_lost() {
    let place = with_key_file();
    place.ok(keys(&["generate", "a", "--keystore", "store"]));
    place.ok(keys(&["rotate", "a", "--keystore", "store"]));
    let list = place.ok(keys(&["list", "--json", "--keystore", "store"]));
    assert!(place.ok(keys(&["backup", "saved", "--keystore", "store"])).contains("2 versions"));
    place.fails(1, &["saved", "exists"], keys(&["backup", "saved", "--keystore", "store"]));
    assert_eq!(place.ok(keys(&["list", "--json", "--keystore", "saved"])), list, "a backup is a keystore");
    set_mode(&place.write("other.key", [8u8; 32]), 0o600);
    let own = ["backup", "own", "--keystore", "store", "--backup-master-key-file", "other.key"];
    place.ok(keys(&own));
    std::fs::remove_file(place.path("store")).expect("lost");

    place.fails(1, &["own", "does not open"], keys(&["restore", "own", "--keystore", "store"]));
    place.fails(1, &["nothing"], keys(&["restore", "nothing", "--keystore", "store"]));
    assert!(!place.has("store"));
    let restore = ["restore", "own", "--keystore", "store", "--backup-master-key-file", "other.key"];
    assert!(place.ok(keys(&restore)).contains("2 versions of keys were restored; 0"));
    assert_eq!(place.ok(keys(&["list", "--json", "--keystore", "store"])), list);
    place.ok(keys(&["destroy", "a", "--version", "1", "--yes", "--keystore", "store"]));
    assert!(place.ok(keys(&["restore", "saved", "--keystore", "store"])).contains("stay so"));
    place.ok(keys(&["generate", "a", "--keystore", "stranger"]));
    place.fails(1, &["nothing was changed", "`a`"], keys(&["restore", "saved", "--keystore", "stranger"]));
}

/// Everything about a folder that writing to it would change.
fn traces(folder: &Path) -> Vec<(String, i64, i64, Vec<u8>)> {
    let of = |path: &Path| path.metadata().map(|data| (data.mtime(), data.mtime_nsec())).expect("a file");
    let (seconds, nanoseconds) = of(folder);
    let mut traces = vec![(String::new(), seconds, nanoseconds, Vec::new())];
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let (seconds, nanoseconds) = of(&path);
        traces.push((path.display().to_string(), seconds, nanoseconds, std::fs::read(&path).expect("a file")));
    }
    traces
}

/// As with the secrets that Kubernetes mounts.
#[test]
fn a_keystore_that_cannot_be_written_serves_readers() {
    let place = with_key_file();
    let folder = place.path("mounted");
    std::fs::create_dir(&folder).expect("made");
    place.ok(keys(&["generate", "default", "--keystore", "mounted/keystore"]));
    place.write("in.csv", "id,name\n1,Ada\n2,Grace\n");
    set_mode(&folder.join("keystore"), 0o400);
    set_mode(&folder, 0o555);
    let before = traces(&folder);
    let with = |args: &[&'static str]| [args, &["--keystore", "mounted/keystore"], &KEY_FILE].concat();
    place.ok(with(&["keys", "list"]));
    place.ok(with(&["protect", "in.csv", "safe.csv", "--column", "name=random"]));
    place.ok(with(&["unprotect", "safe.csv", "back.csv"]));
    assert_eq!(traces(&folder), before);
    assert!(std::fs::read_to_string(place.path("back.csv")).expect("a file").contains("Grace"));
    // Root may write all the same.
    if folder.metadata().expect("a folder").uid() != 0 {
        place.fails(1, &["nothing was changed"], with(&["keys", "rotate", "default"]));
        assert_eq!(traces(&folder), before);
    }
    set_mode(&folder, 0o755);
}

/// What `xargs -P4` does. The first to come makes the keystore.
#[test]
fn processes_share_a_keystore() {
    let place = with_key_file();
    place.write("in.csv", "id,name\n1,Ada\n2,Grace\n");
    thread::scope(|scope| {
        for worker in 0..4 {
            let place = &place;
            scope.spawn(move || {
                for at in 0..2 {
                    place.ok(keys(&["generate", &format!("key {worker} {at}")]));
                    let name = format!("key {worker} {at}");
                    let output = format!("safe-{worker}-{at}.csv");
                    let protect = ["protect", "in.csv", &output, "--column", "name=random", "--key", &name, "--quiet"];
                    place.ok([&protect[..], &KEY_FILE].concat());
                    place.ok(keys(&["rotate", &name]));
                }
            });
        }
    });
    let listed = json(&place.ok(keys(&["list", "--json"])));
    assert_eq!(listed.as_array().map(Vec::len), Some(16));
    let folder = std::fs::read_dir(place.path(".local/share/ciphermill")).expect("a folder");
    assert_eq!(folder.count(), 1, "no drafts stay behind");
}

/// A full disk behind standard output does not make a change look as if it had failed.
#[test]
fn a_change_that_cannot_be_told_of_is_said_to_be_in_effect() {
    let place = with_key_file();
    place.ok(keys(&["generate", "k"]));
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let output = place.command(keys(&["rotate", "k"])).stdout(full).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("the change is in effect"), "{said}");
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a device");
    let args = keys(&["generate", "k", "--keystore", "new"]);
    let output = place.command(args).stderr(full()).output().expect("runs");
    assert_eq!(output.status.code(), Some(0), "what is only told stops nothing");
    let listed = json(&place.ok(keys(&["list", "--json"])));
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode set");
}
