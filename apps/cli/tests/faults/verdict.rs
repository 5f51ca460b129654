//! What may be after a fault, and what may not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ciphermill_faults::{Action, Call, Ended, Fault, Run};

use crate::driver::{Place, STDOUT, Scenario, State};

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
    /// It failed after the change had been made, and did not say so.
    Unsaid,
}

/// One thing that is wrong, with the fault that showed it.
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

/// What a command has to say that fails after its change was made: the user must know that nothing is to be done again.
const IN_EFFECT: &str = "in effect";

/// Exit codes of failures: 1, and 143 for one that SIGTERM brought about.
const FAILURES: [i32; 2] = [1, 143];

/// The state after a run, and all that is wrong with it.
pub(crate) fn judge(
    scenario: &Scenario,
    template: &Place,
    place: &Place,
    run: &Run,
    fault: Fault,
) -> (State, Vec<(Kind, String)>) {
    let mut wrong = Vec::new();
    let state = (scenario.state)(place);
    let left = left_behind(scenario, place, |name| state != State::Old || template.path(name).exists());
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
    match &state {
        State::Broken(why) => wrong.push((Kind::Broken, why.clone())),
        State::Old if run.ended == Ended::Code(0) => wrong.push((Kind::FalseSuccess, "the old state".to_owned())),
        State::Old => wrong.extend(stuck(scenario, place).map(|why| (Kind::Stuck, why))),
        State::New if place.same_files(template) => {}
        State::New => wrong.extend(unsaid(run, fault).map(|why| (Kind::Unsaid, why))),
    }
    (state, wrong)
}

/// What is wrong with how a run ended whose change was made.
fn unsaid(run: &Run, fault: Fault) -> Option<String> {
    let Ended::Code(code) = run.ended else { return None };
    if code == 0 || code == 101 {
        return None;
    }
    let terminated = fault.action == Action::Terminate;
    if !FAILURES.contains(&code) || (code != 1 && !terminated) {
        return Some(format!("exit code {code}"));
    }
    // Where standard error takes nothing either, nothing can be said.
    let is_mute = failed_from_here(run, fault).any(|call| call.target == Path::new("descriptor 2"));
    (!is_mute && !run.stderr.contains(IN_EFFECT)).then(|| format!("exit code {code}, and not that it is {IN_EFFECT}"))
}

/// Why the command cannot be run again.
fn stuck(scenario: &Scenario, place: &Place) -> Option<String> {
    match place.tried(scenario.args) {
        Err(error) => Some(error),
        Ok(output) => {
            place.keep_stdout(output.as_bytes());
            match (scenario.state)(place) {
                State::New => None,
                state => Some(format!("run again, it left {state:?}")),
            }
        }
    }
}

/// Whether a file had to be left: removing it failed, or locking it, so that it may be another process's; or nothing could be
/// renamed any more, so that what had made room could not come back.
fn had_to_be_left(run: &Run, fault: Fault) -> bool {
    let failed = run.calls.get(fault.at);
    failed.is_some_and(|call| call.name.starts_with("unlink") || call.name == "flock")
        || failed_from_here(run, fault).any(|call| call.name == "rename")
}

/// The calls that failed because all did from one on.
fn failed_from_here(run: &Run, fault: Fault) -> impl Iterator<Item = &Call> {
    let all = matches!(fault.action, Action::FailFromHere(_));
    run.calls.iter().skip(if all { fault.at } else { run.calls.len() })
}

fn names(files: &[(String, u32)]) -> String {
    files.iter().map(|(name, mode)| format!("{name} (mode {:o})", mode & 0o777)).collect::<Vec<_>>().join(", ")
}

/// Files that do not belong to the scenario, or not to its state, with the modes that matter to others.
fn left_behind(scenario: &Scenario, place: &Place, is_of_state: impl Fn(&str) -> bool) -> Vec<(String, u32)> {
    let mut left = Vec::new();
    let mut folders = vec![(place.folder().to_owned(), OTHERS)];
    while let Some((folder, reach)) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let metadata = entry.metadata().expect("it is there");
            let path = entry.path();
            let name = path.strip_prefix(place.folder()).expect("below it").display().to_string();
            let is_in = |names: &[&str]| names.iter().any(|allowed| matches(allowed, &name));
            if metadata.is_dir() {
                // Nobody reaches what lies in a folder that nobody may enter.
                folders.push((path, reach & metadata.permissions().mode()));
            } else if name != STDOUT && !(is_in(scenario.names) && (is_of_state(&name) || is_in(scenario.stays))) {
                left.push((name, metadata.permissions().mode() & (reach | !OTHERS)));
            }
        }
    }
    left.sort();
    left
}

/// Whether a name is the allowed one, in which `*` may stand for any text.
fn matches(allowed: &str, name: &str) -> bool {
    match allowed.split_once('*') {
        None => allowed == name,
        Some((start, end)) => name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end),
    }
}
