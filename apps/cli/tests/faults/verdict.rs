//! What may be after a fault, and what may not.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use ciphermill_faults::{Action, Ended, Fault, Run};

use crate::driver::{Place, Scenario, State};

/// Permissions of group and others.
const OTHERS: u32 = 0o077;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Neither the old nor the new state opens.
    Broken,
    /// It said that it was done, and was not.
    FalseSuccess,
    /// It panicked, or died of a signal that nobody sent.
    Crashed,
    /// It did not come to an end.
    Hung,
    /// Files lie about that it should have removed.
    LeftBehind,
    /// What a death left lying about can be read by others.
    Readable,
    /// From the old state, the same command does not work any more.
    Stuck,
}

/// One thing that is wrong, with the fault that showed it.
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// The state after a run, and all that is wrong with it.
pub(crate) fn judge(scenario: &Scenario, place: &Place, run: &Run, fault: Fault) -> (State, Vec<(Kind, String)>) {
    let mut wrong = Vec::new();
    let left = left_behind(scenario, place);
    match run.ended {
        Ended::Hung => wrong.push((Kind::Hung, "killed after a minute".to_owned())),
        Ended::Code(101) => wrong.push((Kind::Crashed, "a panic".to_owned())),
        Ended::Signal(signal) if fault.action != Action::Kill && fault.action != Action::Terminate => {
            wrong.push((Kind::Crashed, format!("signal {signal}")));
        }
        Ended::Code(_) if !left.is_empty() && !had_to_be_left(run, fault) => {
            wrong.push((Kind::LeftBehind, names(&left)));
        }
        _ => {}
    }
    let open: Vec<_> = left.iter().filter(|(_, mode)| mode & OTHERS != 0).cloned().collect();
    if scenario.secret && !open.is_empty() {
        wrong.push((Kind::Readable, names(&open)));
    }
    let state = (scenario.state)(place);
    match &state {
        State::Broken(why) => wrong.push((Kind::Broken, why.clone())),
        State::Old if run.ended == Ended::Code(0) => wrong.push((Kind::FalseSuccess, "the old state".to_owned())),
        State::Old => wrong.extend(stuck(scenario, place).map(|why| (Kind::Stuck, why))),
        State::New => {}
    }
    (state, wrong)
}

/// Why the command cannot be run again.
fn stuck(scenario: &Scenario, place: &Place) -> Option<String> {
    match place.tried(scenario.args) {
        Err(error) => Some(error),
        Ok(_) => match (scenario.state)(place) {
            State::New => None,
            state => Some(format!("run again, it left {state:?}")),
        },
    }
}

/// Whether a file had to be left: removing it failed, or locking it, so that it may be another process's.
fn had_to_be_left(run: &Run, fault: Fault) -> bool {
    run.calls.get(fault.at).is_some_and(|call| call.name.starts_with("unlink") || call.name == "flock")
}

fn names(files: &[(String, u32)]) -> String {
    files.iter().map(|(name, mode)| format!("{name} (mode {:o})", mode & 0o777)).collect::<Vec<_>>().join(", ")
}

/// Files that do not belong to the scenario, with their modes.
fn left_behind(scenario: &Scenario, place: &Place) -> Vec<(String, u32)> {
    let mut left = Vec::new();
    let mut folders = vec![place.folder().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let metadata = entry.metadata().expect("it is there");
            let path = entry.path();
            let name = path.strip_prefix(place.folder()).expect("below it").display().to_string();
            if metadata.is_dir() {
                folders.push(path);
            } else if !scenario.names.iter().any(|allowed| matches(allowed, &name)) {
                left.push((name, metadata.permissions().mode()));
            }
        }
    }
    left.sort();
    left
}

/// Whether a name is the allowed one, or lies in the allowed folder (`records/`).
fn matches(allowed: &str, name: &str) -> bool {
    allowed == name || (allowed.ends_with('/') && name.starts_with(allowed) && name.ends_with(".json"))
}
