//! Files of figures: measured costs, records of the lab, reports.

use crate::driver::{Place, Scenario, State};

const COSTS: &str = ".cache/ciphermill/costs.json";

const SAVING: &[&str] =
    &["lab", "principles", "--algorithm", "md5", "--len", "64", "--quick", "--time", "1", "--save", "records"];

pub(crate) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "tune",
            prepare: |_| {},
            args: &["tune", "--quick", "--time", "1", "--engine", "lanes", "--suite", "aes-128-gcm", "--json"],
            names: &[COSTS],
            stays: &[],
            secret: false,
            state: |place| costs(place, false),
        },
        Scenario {
            name: "tune, again",
            prepare: |place| {
                place.ok(&["tune", "--quick", "--time", "1", "--engine", "lanes", "--suite", "aes-128-ctr"]);
            },
            args: &["tune", "--quick", "--time", "1", "--engine", "lanes", "--suite", "aes-128-gcm", "--json"],
            names: &[COSTS],
            stays: &[],
            secret: false,
            state: |place| costs(place, true),
        },
        Scenario {
            name: "lab principles --save",
            prepare: |_| {},
            args: SAVING,
            names: &["records/*.json"],
            stays: &[],
            secret: false,
            state: |place| saved(place, 0),
        },
        Scenario {
            name: "lab principles --save, a second one",
            prepare: |place| {
                place.ok(SAVING);
            },
            args: SAVING,
            names: &["records/*.json"],
            stays: &[],
            secret: false,
            state: |place| saved(place, 1),
        },
    ]
}

/// The file holds what was measured before, or that and `aes-128-gcm`.
fn costs(place: &Place, was_there: bool) -> State {
    let Some(bytes) = place.read(COSTS) else {
        return if was_there { State::Broken("the file is gone".to_owned()) } else { State::Old };
    };
    let value: serde_json::Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(error) => return State::Broken(error.to_string()),
    };
    let has = |suite: &str| value["costs"].as_array().into_iter().flatten().any(|cost| cost["suite"] == suite);
    match (has("aes-128-ctr"), has("aes-128-gcm")) {
        (old, true) if old == was_there => State::New,
        (true, false) if was_there => State::Old,
        found => State::Broken(format!("(ctr, gcm) are there: {found:?}")),
    }
}

/// So many records, or one more; each can be read.
fn saved(place: &Place, before: usize) -> State {
    let mut records = Vec::new();
    for machine in std::fs::read_dir(place.path("records")).into_iter().flatten() {
        let machine = machine.expect("an entry").path();
        for record in std::fs::read_dir(machine).into_iter().flatten() {
            let record = record.expect("an entry").path();
            if record.extension().is_some_and(|extension| extension == "json") {
                records.push(record);
            }
        }
    }
    for record in &records {
        let name = record.to_string_lossy();
        if let Err(error) = place.tried(&["lab", "show", &name]) {
            return State::Broken(error);
        }
    }
    match records.len() {
        count if count == before => State::Old,
        count if count == before + 1 => State::New,
        count => State::Broken(format!("{count} records")),
    }
}
