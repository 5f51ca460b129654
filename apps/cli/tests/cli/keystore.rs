//! Keys: made, listed, rotated, destroyed; never shown, never in clear on disk.

use crate::{Place, json};

#[test]
fn keys_are_made_listed_rotated_and_destroyed() {
    let place = Place::new();
    place.fails(1, &["there is no keystore", "keys generate"], ["keys", "list"]);
    let made = place.ok(["keys", "generate", "customers", "--description", "for a test"]);
    assert!(made.contains("version 1 of 256 bits"), "{made}");
    assert!(place.has(".local/share/ciphermill/keystore.redb"));
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
    let store = std::fs::read(place.path(".local/share/ciphermill/keystore.redb")).expect("a file");
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
    let args = ["keys", "generate", "k", "--keystore", "a.redb", "--master-key-file", "master.key"];
    set_mode(&file, 0o644);
    place.fails(1, &["master.key"], args);
    set_mode(&file, 0o600);
    place.ok(args);
    place.ok(["keys", "list", "--keystore", "a.redb", "--master-key-file", "master.key"]);
    let with_variable = |value: &str| {
        let args = ["keys", "list", "--keystore", "b.redb", "--master-key-env", "MILL_KEY"];
        place.command(args).env("MILL_KEY", value).output().expect("runs").status.code()
    };
    let made = place
        .command(["keys", "generate", "k", "--keystore", "b.redb", "--master-key-env", "MILL_KEY"])
        .env("MILL_KEY", "11".repeat(32))
        .output()
        .expect("runs");
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(with_variable(&"11".repeat(32)), Some(0));
    assert_eq!(with_variable(&"12".repeat(32)), Some(1));
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("mode set");
}
