//! Gateways over veth pairs: how much they carry, how long packets take, and what they spend; several stacks side by side, each by
//! one definition (`definitions/gateways.toml`).
//!
//! From top to bottom: [`run`] goes through the cases of a `plan`, starts a `stack` twice (`running`) on a `ground` of namespaces, and has a
//! `bench` make the trials that a search asks for; a `tester` sends them by its `pace` and counts in a `tally`; `show` fills the section.

mod bench;
mod frame;
mod ground;
mod load;
mod pace;
mod plan;
mod running;
mod show;
mod stack;
mod tally;
mod tester;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ciphermill_packets::namespace::can_have_namespaces;
use ciphermill_report::Section;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

pub use bench::{Cost, Flood, Latency, Live};
pub use frame::Frame;
pub use load::Spent;
pub use stack::{Definitions, Need, Stack, Step};
pub use tester::Direction;

use crate::LabError;
use crate::gateway::Choice;
use crate::method::{Options, Progress};
use bench::Bench;
use ground::Cores;
use plan::{Case, Plan};
use running::Running;
use tester::Tester;

/// What the section lacks where nothing of this can be had.
const WHAT: &str = "gateways over veth pairs";

/// Measures what is installed, and fills tables and plots of a section. What cannot be had is said there.
///
/// # Errors
/// [`LabError::Interrupted`]; [`LabError::Definitions`] for a file that breaks its own rules.
pub fn run(options: &Options, choice: &Choice, section: &mut Section, progress: Progress<'_>) -> Result<(), LabError> {
    let plan = Plan::new(options.quick, choice);
    let lives = measure(options, &plan, section, progress)?;
    show::fill(section, &plan, &lives);
    Ok(())
}

fn measure(
    options: &Options,
    plan: &Plan,
    section: &mut Section,
    progress: Progress<'_>,
) -> Result<Vec<Live>, LabError> {
    if let Err(error) = can_have_namespaces() {
        section.lacks(WHAT, error.to_string());
        return Ok(Vec::new());
    }
    let own = sched_getaffinity(None).map_err(|error| LabError::Parameters(format!("the cores: {error}")))?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| own.is_set(*core)).collect();
    let Some(cores) = Cores::among(&cores, options.core) else {
        section.lacks(WHAT, "there is one core, and generator and gateways want one each");
        return Ok(Vec::new());
    };
    let _pinned = Pinned::to(cores.generator, own)?;
    let definitions = Definitions::read()?;
    let stacks = here(&definitions, plan, options.program.as_deref(), section);
    let program = options.program.clone().unwrap_or_default();
    let program = std::path::absolute(&program).unwrap_or(program);
    for stack in stacks.iter().filter(|stack| plan.cases.iter().all(|case| suite_of(stack, case, &[]).is_none())) {
        let suites: Vec<&str> = stack.suites.keys().map(String::as_str).collect();
        let why = format!("none of its suites is measured here; --suite chooses: {}", suites.join(", "));
        section.lacks(stack.name.as_str(), why);
    }
    let mut lives: Vec<Live> = Vec::new();
    for case in &plan.cases {
        for stack in &stacks {
            let Some(suite) = suite_of(stack, case, &lives) else { continue };
            let named = format!("{}, {suite}, {} octets, {}", stack.name, case.frame, case.direction.name());
            if !stack.takes(case.frame.packet_len_max()) {
                let max = stack.packet_len_max.unwrap_or_default();
                section.lacks(named, format!("it takes packets of {max} octets at most"));
                continue;
            }
            match one(&definitions, stack, suite, case, plan, (&program, cores), &mut *progress) {
                Ok(live) => lives.push(live),
                Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                Err(error) => section.lacks(named, error.to_string()),
            }
        }
    }
    Ok(lives)
}

/// The stacks that are asked for and installed.
fn here<'d>(
    definitions: &'d Definitions,
    plan: &Plan,
    program: Option<&Path>,
    section: &mut Section,
) -> Vec<&'d Stack> {
    let mut here = Vec::new();
    for stack in definitions.gateway.iter().filter(|stack| plan.wants(stack)) {
        let is_own = stack.program.first().is_some_and(|first| first == "@program@");
        let why = match (is_own, program) {
            (true, None) => Some("the program `ciphermill` was not found beside this one".to_owned()),
            (true, Some(path)) if !path.is_file() => Some(format!("there is no program {}", path.display())),
            _ => stack.lacks(),
        };
        match why {
            Some(why) => section.lacks(stack.name.as_str(), why),
            None => here.push(stack),
        }
    }
    here
}

/// The suite that a stack has in a case, if any. What has no cryptography is measured once for all suites.
fn suite_of<'s>(stack: &'s Stack, case: &Case, lives: &[Live]) -> Option<&'s str> {
    if !stack.clear {
        return stack.suites.get_key_value(&case.suite).map(|(suite, _)| suite.as_str());
    }
    let is_same =
        |live: &&Live| live.stack == stack.name && live.frame == case.frame && live.direction == case.direction;
    match lives.iter().find(is_same) {
        Some(_) => None,
        None => stack.suites.keys().next().map(String::as_str),
    }
}

fn one(
    definitions: &Definitions,
    stack: &Stack,
    suite: &str,
    case: &Case,
    plan: &Plan,
    (program, cores): (&PathBuf, Cores),
    progress: Progress<'_>,
) -> Result<Live, LabError> {
    let title = format!("{}, {suite}, {} octets, {}", stack.name, case.frame, case.direction.name());
    progress(&format!("{title}: starting"))?;
    let running = Running::start(definitions, stack, suite, program, cores)?;
    let tester = Tester::open(&running.ground, case.frame, case.direction)
        .map_err(|error| LabError::Parameters(format!("the generator: {error}")))?;
    let mut bench =
        Bench { running, tester, plan, progress, title, reordered: 0, repeated: 0, late: 0, lag_max: Duration::ZERO };
    bench.settle(stack.clear)?;
    bench.measure(&stack.name, suite, case)
}

/// Keeps this thread to one core until it is dropped.
struct Pinned(CpuSet);

impl Pinned {
    fn to(core: usize, before: CpuSet) -> Result<Pinned, LabError> {
        let mut one = CpuSet::new();
        one.set(core);
        sched_setaffinity(None, &one)
            .map_err(|error| LabError::Parameters(format!("this process may not run on core {core}: {error}")))?;
        Ok(Pinned(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The cores were this thread's before, so that they cannot be refused.
        let _restored = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_measured_in_the_suites_that_it_has_and_a_forwarder_once() {
        let definitions = Definitions::read().expect("sound");
        let stack = |name: &str| definitions.gateway.iter().find(|stack| stack.name == name).expect("there");
        let plan = Plan::new(true, &Choice::default());
        let case = plan.cases.first().expect("a case");
        assert_eq!(suite_of(stack("ciphermill"), case, &[]), Some("aes-128-gcm"));
        assert_eq!(suite_of(stack("boringtun"), case, &[]), None);
        assert_eq!(suite_of(stack("forwarder"), case, &[]), Some("none"));
    }

    #[test]
    fn without_the_program_our_own_stacks_are_missing_with_the_reason() {
        let definitions = Definitions::read().expect("sound");
        let plan = Plan::new(true, &Choice::default());
        let mut section = Section::new("gateway", "Gateways", "nobody");
        let found = here(&definitions, &plan, None, &mut section);
        assert!(found.iter().all(|stack| stack.name != "ciphermill"));
        assert!(section.missing.iter().any(|missing| missing.what == "ciphermill"));
        let nowhere = Path::new("/no/such/program");
        let mut section = Section::new("gateway", "Gateways", "nobody");
        here(&definitions, &plan, Some(nowhere), &mut section);
        assert!(section.missing.iter().any(|missing| missing.why.contains("/no/such/program")));
    }

    /// Wants root, namespaces, two cores, and the program's path in CIPHERMILL_PROGRAM.
    #[test]
    #[ignore = "wants root, a quiet machine and the built program: CIPHERMILL_PROGRAM=target/release/ciphermill"]
    fn a_quick_run_measures_the_forwarder_and_our_own_gateway() {
        let program = std::env::var_os("CIPHERMILL_PROGRAM").expect("CIPHERMILL_PROGRAM");
        let choice = Choice { stacks: ["forwarder", "ciphermill"].map(str::to_owned).to_vec(), ..Choice::default() };
        let options = Options { quick: true, program: Some(program.into()), ..Options::default() };
        let mut section = Section::new("gateway", "Gateways", "nobody");
        let mut progress = |what: &str| {
            eprintln!("{what}");
            Ok(())
        };
        run(&options, &choice, &mut section, &mut progress).expect("measured");
        section.check().expect("sound");
        eprintln!("{}", ciphermill_report_text(&section));
        for stack in ["forwarder/none", "ciphermill/aes-128-gcm"] {
            let prefix = format!("live/{stack}/one-way/64/flood-carried");
            let carried = section.measurements.iter().find(|one| one.name == prefix).map(|one| one.value);
            assert!(carried.is_some_and(|pps| pps > 1000.0), "{stack}: {carried:?}; {:?}", section.missing);
        }
    }

    fn ciphermill_report_text(section: &Section) -> String {
        let line = |one: &ciphermill_report::Measurement| format!("{} {} {}\n", one.name, one.value, one.unit);
        section.measurements.iter().map(line).collect::<String>() + &section.conclusions.join("\n")
    }
}
