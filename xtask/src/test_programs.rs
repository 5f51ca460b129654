//! Runs the tests of the workspace as cargo builds them, several programs at a time.
//!
//! `cargo test` runs one program after the other, and many of them wait: for children, for a clock, for the system. A third of two cores was idle.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{files, workspace};

/// What takes longest begins first, so that it is not what is waited for in the end.
const FIRST: &[&str] = &["apps/cli cli", "engines/lanes conformance"];

/// What holds anything to a time is run by itself, behind the others: by packages, or by a target of one.
const ALONE: &[&str] = &["apps/service", "core/mill", "core/tuning", "engines/fault", "doors/pkcs11 metaslot"];

/// Programs at a time at most: each has as many threads as there are cores.
const JOBS_MAX: usize = 4;

/// A program with tests.
struct Program {
    /// Its package's folder in the repository, and its target there.
    name: String,
    /// Where cargo would run it.
    folder: PathBuf,
    executable: PathBuf,
    is_integration: bool,
}

impl Program {
    fn is_of(&self, list: &[&str]) -> bool {
        let folder = self.name.split(' ').next();
        list.iter().any(|one| *one == self.name || Some(*one) == folder)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder).stdin(Stdio::null());
        command
    }
}

/// Runs all of them; returns those that failed. What each prints is shown when it has ended, and stays in `target/tests`.
pub(crate) fn all() -> Result<Vec<String>> {
    let root = files::root();
    let logs = root.join("target/tests");
    fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    let (alone, mut together): (Vec<Program>, Vec<Program>) =
        built(&root)?.into_iter().partition(|program| program.is_of(ALONE));
    together.sort_by_key(|program| !program.is_of(FIRST));
    let jobs = thread::available_parallelism().map_or(1, usize::from).min(JOBS_MAX);
    let failed = Mutex::new(Vec::new());
    for (programs, jobs) in [(together, jobs), (alone, 1)] {
        let waiting = Mutex::new(VecDeque::from(programs));
        let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || {
            while let Some(program) = next() {
                if let Err(error) = logged(&program, &logs) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {error:#}", program.name));
                }
            }
        };
        thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    }
    failed.into_inner().context("a thread has panicked")
}

/// Runs the integration tests of one name, of every package that has them, one after the other.
pub(crate) fn named(name: &str, arguments: &[&str]) -> Result<Vec<String>> {
    let mut programs = built(&files::root())?;
    programs.retain(|program| program.is_integration && program.name.split(' ').nth(1) == Some(name));
    if programs.is_empty() {
        bail!("no test target is called {name}");
    }
    let mut failed = Vec::new();
    for program in programs {
        println!("== {}", program.name);
        let status = program.command().args(arguments).status().with_context(|| program.name.clone())?;
        if !status.success() {
            failed.push(format!("{}: {status}", program.name));
        }
    }
    Ok(failed)
}

/// Runs a program and shows what it printed.
fn logged(program: &Program, logs: &Path) -> Result<()> {
    // A file, since processes that a test has left behind would keep a pipe open.
    let log = logs.join(program.executable.file_name().context("a program without a name")?);
    let file = File::create(&log).with_context(|| log.display().to_string())?;
    let begun = Instant::now();
    let status = program.command().stdout(file.try_clone()?).stderr(file).status()?;
    let printed = fs::read(&log).with_context(|| log.display().to_string())?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "== {} ({:.1} s)", program.name, begun.elapsed().as_secs_f64())?;
    out.write_all(&printed)?;
    if status.success() { Ok(()) } else { bail!("{status}, see {}", log.display()) }
}

/// Has cargo build the tests of all packages. Of fewer it would link procedural macros in another way, and compile the kernels anew.
fn built(root: &Path) -> Result<Vec<Program>> {
    let output = workspace::cargo()
        .args(["test", "--locked", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo test --no-run")?;
    if !output.status.success() {
        bail!("cargo test --no-run: {}", output.status);
    }
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let programs = messages.filter_map(|message| message.map(|message| program(&message, root)).transpose());
    programs.collect::<serde_json::Result<_>>().context("what cargo says")
}

/// The program of a message of cargo's, if that is of one with tests.
fn program(message: &Value, root: &Path) -> Option<Program> {
    if message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    let within = folder.strip_prefix(root).unwrap_or(&folder).display();
    let name = format!("{within} {}", message["target"]["name"].as_str()?);
    let is_integration = message["target"]["kind"][0] == "test";
    Some(Program { name, folder, executable, is_integration })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_are_what_cargo_has_built_with_tests() {
        let message = |is_test: bool, executable: Value| {
            json!({
                "manifest_path": "/here/core/mill/Cargo.toml",
                "target": { "name": "allocations", "kind": ["test"] },
                "profile": { "test": is_test },
                "executable": executable,
            })
        };
        let found =
            program(&message(true, json!("/here/target/allocations-1")), Path::new("/here")).expect("a program");
        assert_eq!((found.name.as_str(), found.is_integration), ("core/mill allocations", true));
        assert_eq!(found.folder, Path::new("/here/core/mill"));
        assert!(program(&message(false, json!("/here/target/a-bin")), Path::new("/here")).is_none());
        assert!(program(&message(true, Value::Null), Path::new("/here")).is_none());
        assert!(program(&json!({ "reason": "build-finished", "success": true }), Path::new("/here")).is_none());
    }

    #[test]
    fn lists_name_packages_or_their_targets() {
        let of = |name: &str| Program {
            name: name.into(),
            folder: PathBuf::new(),
            executable: PathBuf::new(),
            is_integration: true,
        };
        let list = ["apps/service", "core/mill allocations"];
        let taken = ["apps/service rules", "core/mill allocations", "core/mill bound", "apps/service-more rules"];
        assert_eq!(taken.map(|name| of(name).is_of(&list)), [true, true, false, false]);
    }
}
