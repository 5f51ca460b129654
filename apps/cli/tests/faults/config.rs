//! Rules in the configuration file: added and taken out.

use crate::driver::{Place, Scenario, State};

const FILE: &str = "ciphermill.toml";

const NAMES: &[&str] = &[FILE];

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "disable",
            prepare: |place| write(place, "[policy]\ndisabled = [\"gpu\"]\n"),
            args: &["disable", "rc4"],
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| {
                holds(place, "[policy]\ndisabled = [\"gpu\"]\n", "[policy]\ndisabled = [\"gpu\", \"rc4\"]\n")
            },
        },
        Scenario {
            name: "disable, in a new file",
            prepare: |_| {},
            args: &["--config", FILE, "disable", "rc4"],
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| match place.read(FILE) {
                None => State::Old,
                Some(_) => holds(place, "nothing else", "[policy]\ndisabled = [\"rc4\"]\n"),
            },
        },
        Scenario {
            name: "enable",
            prepare: |place| write(place, "[policy]\ndisabled = [\"gpu\"]\n"),
            args: &["enable", "gpu"],
            names: NAMES,
            stays: &[],
            secret: false,
            state: |place| holds(place, "[policy]\ndisabled = [\"gpu\"]\n", "[policy]\ndisabled = []\n"),
        },
    ]
}

fn write(place: &Place, text: &str) {
    std::fs::write(place.path(FILE), text).expect("written");
}

fn holds(place: &Place, old: &str, new: &str) -> State {
    match place.read(FILE) {
        Some(bytes) if bytes == old.as_bytes() => State::Old,
        Some(bytes) if bytes == new.as_bytes() => State::New,
        Some(bytes) => State::Broken(format!("the file holds {:?}", String::from_utf8_lossy(&bytes))),
        None => State::Broken("the file is gone".to_owned()),
    }
}
