//! The loop over scenarios, calls and actions, and the table at the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ciphermill_faults::{Action, Call, Ended, Fault, Run};
use nix::errno::Errno;

use crate::verdict::{Finding, Kind, judge};
use crate::{config, copies, folders, keystore, openssl, outputs, pkcs11, records, reports, tables};

/// What is done at each call.
const ACTIONS: [Action; 7] = [
    Action::Fail(Errno::ENOSPC),
    Action::Fail(Errno::EIO),
    Action::Fail(Errno::EACCES),
    Action::FailFromHere(Errno::ENOSPC),
    Action::Kill,
    Action::Terminate,
    Action::Delay,
];

/// Of a sample, one in so many runs: no divisor of the number of actions, so that each of them has its turn.
const SAMPLE: usize = 31;

/// Findings that are printed in full for a scenario.
const SHOWN_MAX: usize = 6;

/// A command that changes files.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Makes the files that the command finds.
    pub(crate) prepare: fn(&Place),
    /// The command.
    pub(crate) args: &'static [&'static str],
    /// Names that may be in the folder afterwards; anything else has been left behind. `*` stands for any text.
    pub(crate) names: &'static [&'static str],
    /// Those of them that may be new in the old state too.
    pub(crate) stays: &'static [&'static str],
    /// Whether other users must never be able to read what the command writes.
    pub(crate) secret: bool,
    /// Which state the files are in.
    pub(crate) state: fn(&Place) -> State,
}

/// The file that a run's standard output is kept in, for [`Scenario::state`] to look at.
pub(crate) const STDOUT: &str = "stdout";

/// What the files hold after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// As if the command had not been run.
    Old,
    /// As if it had done all its work.
    New,
    /// Neither, and why.
    Broken(String),
}

/// A folder that commands run in.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let path = fs::canonicalize(folder.path()).expect("it is there");
        Place { folder, path }
    }

    fn copy(&self) -> Place {
        let copy = Place::new();
        copy_folder(&self.path, &copy.path);
        copy
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.path(name)).ok()
    }

    /// Whether the files are those of another place, but for what a run printed.
    pub(crate) fn same_files(&self, other: &Place) -> bool {
        self.contents() == other.contents()
    }

    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.path.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    // Of a socket the name alone counts.
                    let content = fs::read(&path).unwrap_or_default();
                    files.insert(path.strip_prefix(&self.path).expect("below it").to_owned(), content);
                }
            }
        }
        files.remove(Path::new(STDOUT));
        files
    }

    /// Keeps what a run wrote to standard output.
    pub(crate) fn keep_stdout(&self, bytes: &[u8]) {
        fs::write(self.path(STDOUT), bytes).expect("written");
    }

    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        // Nothing of the user's own settings; stacks are not printed, since taking them opens files.
        vec![("HOME".to_owned(), self.path.display().to_string()), ("RUST_BACKTRACE".to_owned(), "0".to_owned())]
    }

    /// Runs the program without faults.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(program(args));
        command.args(args).current_dir(&self.path).env_clear().envs(self.environment());
        command.stdin(std::process::Stdio::null()).output().expect("the program starts")
    }

    /// Runs a command that has to succeed, and returns what it printed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.tried(args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    /// What a command printed, or its error.
    pub(crate) fn tried(&self, args: &[&str]) -> Result<String, String> {
        let output = self.run(args);
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            fs::create_dir(&target).expect("made");
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).expect("copied");
        }
    }
}

/// The command line, or this program where the arguments are one of its own.
fn program(args: &[&str]) -> PathBuf {
    if args.first().is_some_and(|first| *first == keystore::CHANGE_SECRET_AND_GO_ON) {
        std::env::current_exe().expect("this program has a path")
    } else {
        PathBuf::from(env!("CARGO_BIN_EXE_ciphermill"))
    }
}

/// One run that is to be made.
struct Task<'a> {
    scenario: usize,
    template: &'a Place,
    fault: Fault,
}

/// What came of all runs of a scenario.
#[derive(Default)]
struct Tally {
    points: usize,
    runs: usize,
    late_errors: usize,
    findings: Vec<Finding>,
}

pub(crate) fn main() -> ExitCode {
    let wish = std::env::var("FAULTS").unwrap_or_default();
    let all = [
        keystore::scenarios(),
        keystore::replacing(),
        copies::scenarios(),
        tables::scenarios(),
        folders::scenarios(),
        config::scenarios(),
        openssl::scenarios(),
        pkcs11::scenarios(),
        outputs::scenarios(),
        records::scenarios(),
        reports::scenarios(),
    ];
    let all: Vec<Scenario> = all.into_iter().flatten().collect();
    let sample = wish.is_empty();
    let wishes: Vec<&str> = wish.split(';').map(str::trim).collect();
    let scenarios: Vec<Scenario> =
        all.into_iter().filter(|scenario| sample || wish == "all" || wishes.contains(&scenario.name)).collect();
    if scenarios.is_empty() {
        eprintln!("FAULTS={wish}: there is no such scenario");
        return ExitCode::FAILURE;
    }
    let verbose = scenarios.len() == 1;
    let templates: Vec<Place> = scenarios.iter().map(prepared).collect();
    let mut tallies: Vec<Tally> = scenarios.iter().map(|_| Tally::default()).collect();
    let mut tasks = Vec::new();
    for (index, (scenario, template)) in scenarios.iter().zip(&templates).enumerate() {
        let calls = without_fault(scenario, template);
        tallies[index].points = calls.len();
        for at in 0..calls.len() {
            tasks.extend(ACTIONS.map(|action| Task { scenario: index, template, fault: Fault { at, action } }));
        }
    }
    if sample {
        tasks = tasks.into_iter().step_by(SAMPLE).collect();
    }
    let tallies = Mutex::new(tallies);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = try_fault(&scenarios[task.scenario], task, verbose);
                    let mut tallies = tallies.lock().expect("no panic");
                    let tally = &mut tallies[task.scenario];
                    tally.runs += 1;
                    tally.late_errors += usize::from(outcome.late_error);
                    tally.findings.extend(outcome.findings);
                }
            });
        }
    });
    report(&scenarios, &tallies.into_inner().expect("no panic"), sample)
}

fn prepared(scenario: &Scenario) -> Place {
    let place = Place::new();
    (scenario.prepare)(&place);
    assert_eq!((scenario.state)(&place), State::Old, "{}: the state before", scenario.name);
    place
}

/// The calls of a run in which nothing fails.
fn without_fault(scenario: &Scenario, template: &Place) -> Vec<Call> {
    let place = template.copy();
    let run = traced(scenario, &place, None);
    place.keep_stdout(&run.stdout);
    assert_eq!(run.ended, Ended::Code(0), "{}: {}", scenario.name, run.stderr);
    assert_eq!((scenario.state)(&place), State::New, "{}: the state after", scenario.name);
    assert!(!run.calls.is_empty(), "{}: no call was seen", scenario.name);
    run.calls
}

fn traced(scenario: &Scenario, place: &Place, fault: Option<Fault>) -> Run {
    let args: Vec<String> = scenario.args.iter().map(|&arg| arg.to_owned()).collect();
    ciphermill_faults::run(&program(scenario.args), &args, &place.environment(), &place.path, fault)
        .expect("it can be traced")
}

struct Outcome {
    /// It failed, and said so, after the change had been made.
    late_error: bool,
    findings: Vec<Finding>,
}

fn try_fault(scenario: &Scenario, task: &Task<'_>, verbose: bool) -> Outcome {
    let place = task.template.copy();
    let run = traced(scenario, &place, Some(task.fault));
    let call = run
        .calls
        .get(task.fault.at)
        .map_or("not reached".to_owned(), |call| format!("{} {}", call.name, call.target.display()));
    place.keep_stdout(&run.stdout);
    let (state, kinds) = judge(scenario, task.template, &place, &run, task.fault);
    if verbose {
        println!(
            "{:4} {:?} {call}: {:?}, {state:?} {}",
            task.fault.at,
            task.fault.action,
            run.ended,
            run.stderr.trim()
        );
    }
    let said = run.stderr.lines().last().unwrap_or_default();
    let late_error = state == State::New && !matches!(run.ended, Ended::Code(0) | Ended::Signal(_));
    let text = format!("call {} ({call}), {:?}, ended with {:?} `{said}`", task.fault.at, task.fault.action, run.ended);
    let findings = kinds.into_iter().map(|(kind, why)| Finding { kind, text: format!("{text}: {why}") }).collect();
    Outcome { late_error, findings }
}

/// Prints what was found; anything is a failure.
fn report(scenarios: &[Scenario], tallies: &[Tally], sample: bool) -> ExitCode {
    let (mut points, mut runs, mut findings, mut broken, mut late_errors) = (0, 0, 0, 0, 0);
    for (scenario, tally) in scenarios.iter().zip(tallies) {
        points += tally.points;
        runs += tally.runs;
        late_errors += tally.late_errors;
        findings += tally.findings.len();
        broken += tally.findings.iter().filter(|finding| finding.kind == Kind::Broken).count();
        let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
        for finding in &tally.findings {
            *counts.entry(finding.kind).or_default() += 1;
        }
        println!(
            "{:32} {:4} calls, {:5} runs, {} findings",
            scenario.name,
            tally.points,
            tally.runs,
            tally.findings.len()
        );
        for (kind, count) in counts {
            println!("  {kind:?}: {count}");
            for finding in tally.findings.iter().filter(|finding| finding.kind == kind).take(SHOWN_MAX) {
                println!("    {}", finding.text);
            }
        }
    }
    let extent = if sample { format!("one in {SAMPLE} of ") } else { String::new() };
    println!("faults: {extent}{} actions at {points} calls: {runs} runs", ACTIONS.len());
    println!("faults: {late_errors} ended with an error after the change had been made; {broken} states do not open");
    if findings == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
