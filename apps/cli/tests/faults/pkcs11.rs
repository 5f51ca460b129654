//! Module files of p11-kit: written, replaced, removed.

// The module is built with these tests.
use ciphermill_pkcs11 as _;

use crate::driver::{Place, Scenario, State};

const NAMES: &[&str] = &["ours.module"];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let install = install();
    vec![
        Scenario {
            name: "pkcs11 install",
            prepare: |_| {},
            args: install,
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| holds(place, None),
        },
        Scenario {
            name: "pkcs11 install, again",
            prepare: |place| {
                place.ok(self::install());
                let old = place.read("ours.module").expect("written");
                std::fs::write(place.path("ours.module"), [old, OLD.as_bytes().to_vec()].concat()).expect("written");
            },
            args: install,
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| holds(place, Some(OLD)),
        },
        Scenario {
            name: "pkcs11 uninstall",
            prepare: |place| {
                place.ok(self::install());
            },
            args: &["pkcs11", "uninstall", "--file", "ours.module"],
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| match place.read("ours.module") {
                Some(bytes) if bytes.ends_with(NEW.as_bytes()) => State::Old,
                Some(_) => State::Broken("the file is cut short".to_owned()),
                None => State::New,
            },
        },
    ]
}

/// How a file ends that somebody has added to, and one that has just been written.
const OLD: &str = "log-calls: no\n";
const NEW: &str = "trust-policy: no\n";

/// The command, with the module that Cargo has built beside this test; made once for each call, of which there are a few.
fn install() -> &'static [&'static str] {
    let module = std::env::current_exe().expect("this program has a path").with_file_name("libciphermill_pkcs11.so");
    let module: &str = String::leak(module.to_str().expect("a path").to_owned());
    Vec::leak(["pkcs11", "install", "--file", "ours.module", "--module", module].to_vec())
}

/// The file ends as the old one did, or as a new one; without an old one it is absent then.
fn holds(place: &Place, old: Option<&str>) -> State {
    let Some(bytes) = place.read("ours.module") else {
        return if old.is_none() { State::Old } else { State::Broken("the file is gone".to_owned()) };
    };
    let text = String::from_utf8_lossy(&bytes);
    match old {
        Some(old) if text.ends_with(old) => State::Old,
        _ if text.ends_with(NEW) => State::New,
        _ => State::Broken(format!("the file ends with {:?}", text.lines().last())),
    }
}
