//! Keys that go from one file to another: backups, restored backups, public keys; and keystores that become other ones:
//! passphrases, the old format.

use std::os::unix::fs::PermissionsExt;

use crate::driver::{Place, STDOUT, Scenario, State};
use crate::keystore::{
    Key, NAMES, ONE, OPEN, OPEN_NEW, TWO, changed, compared, listed, one_key, opening, secrets, two_versions, which,
    write_down,
};

/// What opens the backup.
const OPEN_COPY: [&str; 4] = ["--keystore", "copy", "--master-key-file", "mk2"];

/// What opens a keystore by a passphrase, the old one and the new one.
const OPEN_TYPED: [&str; 4] = ["--keystore", "ks", "--passphrase-file", "pw"];
const OPEN_RETYPED: [&str; 4] = ["--keystore", "ks", "--passphrase-file", "pw2"];

/// A key of a keystore that another one is restored into.
const OTHER: Key<'static> = ("other", 1, "active");

/// The keys of the keystore in format 1.
const FORMAT_1: [Key<'static>; 9] = [
    ("customers", 1, "retired"),
    ("customers", 2, "active"),
    ("gone", 1, "destroyed"),
    ("mistaken", 1, "active"),
    ("pair", 1, "active"),
    ("peer", 1, "active"),
    ("seed", 1, "active"),
    ("short-lived", 1, "active"),
    ("weak", 1, "active"),
];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let scenario =
        |name, prepare, args, state| Scenario { name, prepare, args, names: NAMES, stays: &[], secret: true, state };
    vec![
        scenario("keys backup", two_versions, opening!["keys", "backup", "copy", "--backup-master-key-file", "mk2"], {
            |place| backed_up(place, "copy")
        }),
        Scenario {
            stays: &["ks"],
            ..scenario("keys restore, new keystore", only_backup, RESTORE, |place| match place.path("ks").exists() {
                true => which(place, &[], &TWO),
                false => State::Old,
            })
        },
        scenario("keys restore", other_and_backup, RESTORE, |place| which(place, &[OTHER], &[TWO[0], TWO[1], OTHER])),
        scenario("keys public", key_pair, opening!["keys", "public", "pair"], |place| {
            if place.read(STDOUT) == place.read("expected") { State::New } else { State::Old }
        }),
        scenario("keys rotate --file", key_file, opening!["keys", "rotate", "default", "--file", "key"], |place| {
            which(place, &[ONE], &TWO)
        }),
        scenario(
            "keys passwd, passphrases",
            typed,
            &["keys", "passwd", "--new-passphrase-file", "pw2", "--keystore", "ks", "--passphrase-file", "pw"],
            |place| changed(place, [OPEN_TYPED, OPEN_RETYPED], &[ONE]),
        ),
        scenario(
            "keys rotate, format 1",
            format_1,
            &["keys", "rotate", "weak", "--keystore", "ks", "--passphrase-file", "pw"],
            |place| {
                let mut rotated = FORMAT_1.to_vec();
                rotated[8].2 = "retired";
                rotated.push(("weak", 2, "active"));
                match listed(place, OPEN_TYPED) {
                    Ok(list) => compared(place, &list, &FORMAT_1, &rotated),
                    Err(error) => State::Broken(error),
                }
            },
        ),
        scenario(
            "keys passwd, format 1",
            format_1,
            &["keys", "passwd", "--new-passphrase-file", "pw2", "--keystore", "ks", "--passphrase-file", "pw"],
            |place| changed(place, [OPEN_TYPED, OPEN_RETYPED], &FORMAT_1),
        ),
    ]
}

const RESTORE: &[&str] = opening!["keys", "restore", "copy", "--backup-master-key-file", "mk2"];

/// The backup is whole or not there; what it was made of is as it was.
fn backed_up(place: &Place, copy: &str) -> State {
    match listed(place, OPEN).map(|list| compared(place, &list, &TWO, &[])) {
        Ok(State::Old) => {}
        other => return State::Broken(format!("the keystore: {other:?}")),
    }
    if !place.path(copy).exists() {
        return State::Old;
    }
    match listed(place, OPEN_COPY) {
        Ok(list) => compared(place, &list, &[], &TWO),
        Err(error) => State::Broken(error),
    }
}

fn back_up(place: &Place) {
    two_versions(place);
    place.ok(opening!["keys", "backup", "copy", "--backup-master-key-file", "mk2"]);
    std::fs::remove_file(place.path("ks")).expect("it was there");
}

fn only_backup(place: &Place) {
    back_up(place);
    assert!(listed(place, OPEN_NEW).is_err());
}

fn other_and_backup(place: &Place) {
    back_up(place);
    let mut known: Vec<serde_json::Value> =
        serde_json::from_slice(&place.read("before.json").expect("written")).expect("our own");
    place.ok(opening!["keys", "generate", "other"]);
    let other = listed(place, OPEN).expect("it opens");
    known.extend(other.as_array().into_iter().flatten().cloned());
    std::fs::write(place.path("before.json"), serde_json::to_vec(&known).expect("JSON")).expect("written");
}

fn key_pair(place: &Place) {
    secrets(place);
    std::fs::write(place.path("key"), [9; 32]).expect("written");
    place.ok(opening!["keys", "import", "pair", "--file", "key", "--suite", "ed25519"]);
    let public = place.ok(opening!["keys", "public", "pair"]);
    assert!(public.starts_with("-----BEGIN PUBLIC KEY-----"));
    std::fs::write(place.path("expected"), public).expect("written");
}

fn key_file(place: &Place) {
    one_key(place);
    std::fs::write(place.path("key"), [9; 32]).expect("written");
}

/// The passphrases, of which the first opens a keystore of the old format.
fn passphrases(place: &Place) {
    for (name, text) in [("pw", "short"), ("pw2", "nine words are better than one, some say")] {
        std::fs::write(place.path(name), text).expect("written");
        std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o600)).expect("narrowed");
    }
}

fn typed(place: &Place) {
    passphrases(place);
    std::fs::write(place.path("pw"), "eight words are enough for anybody, others say").expect("written");
    place.ok(&["keys", "generate", "default", "--keystore", "ks", "--passphrase-file", "pw"]);
    write_down(place, OPEN_TYPED);
}

fn format_1(place: &Place) {
    passphrases(place);
    let mut bytes = Vec::new();
    for line in include_str!("../../../../core/keys/tests/data/format-1.txt").lines() {
        match line.split_once(" * ") {
            Some((count, byte)) => {
                let byte = u8::from_str_radix(byte, 16).expect("a byte");
                bytes.resize(bytes.len() + count.parse::<usize>().expect("a count"), byte);
            }
            None => bytes.extend(hex::decode(line).expect("digits")),
        }
    }
    std::fs::write(place.path("ks"), bytes).expect("written");
    std::fs::set_permissions(place.path("ks"), PermissionsExt::from_mode(0o600)).expect("narrowed");
    write_down(place, OPEN_TYPED);
}
