//! Configurations of OpenSSL: written, replaced, removed.

// The provider is built with these tests.
use ciphermill_openssl as _;

use crate::driver::{Place, Scenario, State};

const NAMES: &[&str] = &["machine.cnf", "ours.cnf"];

pub(crate) fn scenarios() -> Vec<Scenario> {
    let install = install();
    vec![
        Scenario {
            name: "openssl install",
            prepare: |place| machine(place, ""),
            args: install,
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| holds(place, None, "?provider=ciphermill"),
        },
        Scenario {
            name: "openssl install, again",
            prepare: |place| {
                machine(place, "");
                place.ok(self::install());
                machine(place, "openssl_conf = i\n[i]\nalg_section = a\n[a]\ndefault_properties = ?fast=yes\n");
            },
            args: install,
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| holds(place, Some("= ?provider=ciphermill"), "= ?fast=yes,?provider=ciphermill"),
        },
        Scenario {
            name: "openssl uninstall",
            prepare: |place| {
                machine(place, "");
                place.ok(self::install());
            },
            args: &["openssl", "uninstall", "--file", "ours.cnf"],
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| match place.read("ours.cnf") {
                Some(_) => holds(place, Some("?provider=ciphermill"), "nothing else"),
                None => State::New,
            },
        },
    ]
}

/// The command, with the provider that Cargo has built beside this test; made once for each call, of which there are a few.
fn install() -> &'static [&'static str] {
    let module = std::env::current_exe().expect("this program has a path").with_file_name("libciphermill_openssl.so");
    let module: &str = String::leak(module.to_str().expect("a path").to_owned());
    let words = ["openssl", "install", "--file", "ours.cnf", "--extends", "machine.cnf", "--module", module];
    Vec::leak(words.to_vec())
}

fn machine(place: &Place, text: &str) {
    std::fs::write(place.path("machine.cnf"), text).expect("written");
}

/// The file ends with the line that the old state has, or the new one; without an old one it is absent then.
fn holds(place: &Place, old: Option<&str>, new: &str) -> State {
    let Some(bytes) = place.read("ours.cnf") else {
        return if old.is_none() { State::Old } else { State::Broken("the file is gone".to_owned()) };
    };
    let text = String::from_utf8_lossy(&bytes);
    match text.lines().last() {
        Some(last) if old.is_some_and(|old| last.ends_with(old)) && !last.ends_with(new) => State::Old,
        Some(last) if last.ends_with(new) => State::New,
        last => State::Broken(format!("the file ends with {last:?}")),
    }
}
