//! Changes of a keystore: created, added to, rotated, destroyed in, under another secret.

use std::os::unix::fs::PermissionsExt;

use ciphermill_keys::KeyPolicy;
use ciphermill_keys::keystore::{KdfParameters, KeyKind, Keystore, KeystoreError, MasterSecret};

use crate::driver::{Place, Scenario, State};

/// The keystore, its secrets, second ones to change to, and a backup.
pub(crate) const NAMES: &[&str] = &["ks", "mk", "mk2", "pw", "pw2", "before.json", "key", "made", "copy", "expected"];

pub(crate) const OPEN: [&str; 4] = ["--keystore", "ks", "--master-key-file", "mk"];
pub(crate) const OPEN_NEW: [&str; 4] = ["--keystore", "ks", "--master-key-file", "mk2"];

macro_rules! opening {
    ($($arg:literal),*) => {
        &[$($arg,)* "--keystore", "ks", "--master-key-file", "mk"]
    };
}

pub(crate) use opening;

pub(crate) fn scenarios() -> Vec<Scenario> {
    let names = NAMES;
    vec![
        Scenario {
            name: "keys generate, new keystore",
            prepare: secrets,
            args: opening!["keys", "generate", "default"],
            names,
            // The keystore is made, then the key.
            stays: &["ks"],
            secret: true,
            state: |place| {
                if !place.path("ks").exists() {
                    return State::Old;
                }
                which(place, &[], &[("default", 1, "active")])
            },
        },
        Scenario {
            name: "keys generate",
            prepare: one_key,
            args: opening!["keys", "generate", "more"],
            names,
            stays: &[],
            secret: true,
            state: |place| which(place, &[ONE], &[ONE, ("more", 1, "active")]),
        },
        Scenario {
            name: "keys import",
            prepare: |place| {
                one_key(place);
                std::fs::write(place.path("key"), [9; 32]).expect("written");
            },
            args: opening!["keys", "import", "more", "--file", "key"],
            names,
            stays: &[],
            secret: true,
            state: |place| which(place, &[ONE], &[ONE, ("more", 1, "active")]),
        },
    ]
}

/// What changes a keystore as a whole, and so writes another file.
pub(crate) fn replacing() -> Vec<Scenario> {
    let names = NAMES;
    vec![
        Scenario {
            name: "keys rotate",
            prepare: one_key,
            args: opening!["keys", "rotate", "default"],
            names,
            stays: &[],
            secret: true,
            state: |place| which(place, &[ONE], &TWO),
        },
        Scenario {
            name: "keys destroy",
            prepare: two_versions,
            args: opening!["keys", "destroy", "default", "--version", "1", "--yes"],
            names,
            stays: &[],
            secret: true,
            state: |place| which(place, &TWO, &[("default", 1, "destroyed"), ("default", 2, "active")]),
        },
        Scenario {
            name: "keys passwd",
            prepare: two_versions,
            args: opening!["keys", "passwd", "--new-master-key-file", "mk2"],
            names,
            stays: &[],
            secret: true,
            state: |place| changed(place, [OPEN, OPEN_NEW], &TWO),
        },
        Scenario {
            name: "library: change_secret, then generate",
            prepare: two_versions,
            args: &[CHANGE_SECRET_AND_GO_ON],
            names,
            stays: &[],
            secret: true,
            state: |place| {
                let said = place.read("made").is_some();
                std::fs::remove_file(place.path("made")).ok();
                match changed_and_made(place) {
                    (State::Broken(why), _) => State::Broken(why),
                    (_, made) if said && !made => State::Broken("a key that was made is not there".to_owned()),
                    (state, _) => state,
                }
            },
        },
    ]
}

/// Asks this program to change a keystore's secret, and to make a key whether that worked or not, without opening it anew.
pub(crate) const CHANGE_SECRET_AND_GO_ON: &str = "--change-secret-and-go-on";

/// Does so in the current folder. A key that was made is told by the file `made`.
pub(crate) fn change_secret_and_go_on() -> Result<(), Box<dyn std::error::Error>> {
    let secret = |name: &str| MasterSecret::KeyFile(name.into());
    let mut keystore = match Keystore::open("ks", &secret("mk")) {
        Err(KeystoreError::WrongSecret) => Keystore::open("ks", &secret("mk2")),
        other => other,
    }?;
    let changed = keystore.change_secret(&secret("mk2"), KdfParameters::default());
    let made: Result<(), Box<dyn std::error::Error>> =
        match keystore.generate("more", KeyKind::Secret { len: 32 }, KeyPolicy::default()) {
            Ok(_) => std::fs::write("made", "").map_err(Into::into),
            Err(KeystoreError::Exists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        };
    if matches!(changed, Ok(()) | Err(KeystoreError::NotDurable { .. })) {
        // What follows speaks of the key alone.
        made.map_err(|error| format!("the new secret is in effect, but no key was made: {error}"))?;
    } else {
        made?;
    }
    Ok(changed?)
}

/// Which secret opens it, and whether the key `more` is there besides the two versions.
fn changed_and_made(place: &Place) -> (State, bool) {
    let with_more = [TWO[0], TWO[1], ("more", 1, "active")];
    let (list, state) = match (listed(place, OPEN), listed(place, OPEN_NEW)) {
        (Ok(list), Err(_)) => (list, State::Old),
        (Err(_), Ok(list)) => (list, State::New),
        (Ok(_), Ok(_)) => return (State::Broken("both secrets open it".to_owned()), false),
        (Err(old), Err(new)) => return (State::Broken(format!("no secret opens it: {old}; {new}")), false),
    };
    match compared(place, &list, &TWO, &with_more) {
        State::Broken(why) => (State::Broken(why), false),
        found => (state, found == State::New),
    }
}

/// Name, version and state of a key.
pub(crate) type Key<'a> = (&'a str, u64, &'a str);

pub(crate) const ONE: Key<'static> = ("default", 1, "active");
pub(crate) const TWO: [Key<'static>; 2] = [("default", 1, "retired"), ("default", 2, "active")];

pub(crate) fn secrets(place: &Place) {
    for (name, byte) in [("mk", 1u8), ("mk2", 2)] {
        let key: Vec<u8> = (0..32).map(|index| index * 7 + byte).collect();
        std::fs::write(place.path(name), key).expect("written");
        std::fs::set_permissions(place.path(name), PermissionsExt::from_mode(0o600)).expect("narrowed");
    }
}

/// A keystore with the key `default`; what it holds is written down.
pub(crate) fn one_key(place: &Place) {
    secrets(place);
    place.ok(opening!["keys", "generate", "default"]);
    write_down(place, OPEN);
}

pub(crate) fn two_versions(place: &Place) {
    one_key(place);
    place.ok(opening!["keys", "rotate", "default"]);
    write_down(place, OPEN);
}

/// Writes down which keys the keystore holds.
pub(crate) fn write_down(place: &Place, open: [&str; 4]) {
    let list = place.ok(&[&["keys", "list", "--json"], &open[..]].concat());
    std::fs::write(place.path("before.json"), list).expect("written");
}

pub(crate) fn which(place: &Place, old: &[Key<'_>], new: &[Key<'_>]) -> State {
    match listed(place, OPEN) {
        Ok(list) => compared(place, &list, old, new),
        Err(error) => State::Broken(error),
    }
}

/// Exactly one of both secrets opens it, and it holds these keys.
pub(crate) fn changed(place: &Place, [old, new]: [[&str; 4]; 2], keys: &[Key<'_>]) -> State {
    match (listed(place, old), listed(place, new)) {
        (Ok(list), Err(_)) => compared(place, &list, keys, &[]),
        (Err(_), Ok(list)) => compared(place, &list, &[], keys),
        (Ok(_), Ok(_)) => State::Broken("both secrets open it".to_owned()),
        (Err(old), Err(new)) => State::Broken(format!("no secret opens it: {old}; {new}")),
    }
}

pub(crate) fn listed(place: &Place, open: [&str; 4]) -> Result<serde_json::Value, String> {
    let text = place.tried(&[&["keys", "list", "--json"], &open[..]].concat())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

pub(crate) fn compared(place: &Place, list: &serde_json::Value, old: &[Key<'_>], new: &[Key<'_>]) -> State {
    let keys: Vec<&serde_json::Value> = list.as_array().into_iter().flatten().collect();
    if let Some(before) = place.read("before.json") {
        let before: serde_json::Value = serde_json::from_slice(&before).expect("our own");
        for key in &keys {
            let same = |other: &&serde_json::Value| other["name"] == key["name"] && other["version"] == key["version"];
            let earlier = before.as_array().into_iter().flatten().find(same);
            if earlier
                .is_some_and(|earlier| earlier["check_value"] != key["check_value"] && key["state"] != "destroyed")
            {
                return State::Broken(format!("{} is another key now", key["name"]));
            }
        }
    }
    let found: Vec<Key<'_>> = keys
        .iter()
        .map(|key| {
            let text = |name: &str| key[name].as_str().unwrap_or_default();
            (text("name"), key["version"].as_u64().unwrap_or_default(), text("state"))
        })
        .collect();
    if found == new {
        State::New
    } else if found == old {
        State::Old
    } else {
        State::Broken(format!("it holds {found:?}"))
    }
}
