//! `lab cases`: named measurements with a goal, each against a peer or against ourselves on other operations.
//!
//! The cases are data (`lab/methods/definitions`); [`all`] reads and checks them.

use ciphermill_contract::{Direction, Suite, capability};
use ciphermill_report::{Machine, SPREAD_QUOTABLE_MAX, Section};
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::contest::{self, Entrant};
use crate::engines::open;
use crate::method::Progress;
use crate::short::{Row, Skipped, pin, row};
use crate::timing::Budget;
use crate::workload::Parameters;

const DEFINITIONS: &str = include_str!("../definitions/lanes.toml");

/// The engine that the cases are about.
const OWN: &str = "lanes";

/// A named measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// What it is, in a line.
    pub about: String,
    /// The suite's name.
    suite: String,
    /// The directions' names.
    #[serde(default = "both")]
    directions: Vec<String>,
    /// The operations.
    work: Work,
    /// The engine to compare with, on the same operations.
    peer: Option<String>,
    /// Other operations of our own to compare with.
    against: Option<Work>,
    /// What is compared.
    #[serde(default)]
    pub figure: Figure,
    /// The goal that has to be reached.
    pub must: f64,
    /// The goal that is hoped for.
    pub aim: f64,
}

/// What a case compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Our rate in bytes by the other's: more is better.
    #[default]
    Rate,
    /// Our time by the other's: less is better.
    Latency,
}

/// Operations of a case.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Work {
    ops: usize,
    keys: usize,
    len: [usize; 2],
    #[serde(default = "usual_aad")]
    aad: usize,
    #[serde(default)]
    shared_aad: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definitions {
    case: Vec<Case>,
}

/// A measured case and direction.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The case's name.
    pub case: String,
    /// Our row.
    pub own: Row,
    /// The row that it is compared with.
    pub other: Row,
    /// The figure.
    pub ratio: f64,
    /// What it has to be.
    pub must: f64,
    /// What it should be.
    pub aim: f64,
    /// How it went.
    pub verdict: Verdict,
}

/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The hoped-for goal is reached.
    Aim,
    /// The goal is reached.
    Must,
    /// The goal is missed.
    Missed,
}

/// A record of cases.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// The machine.
    pub machine: Machine,
    /// What was measured.
    pub outcomes: Vec<Outcome>,
    /// What was asked for and not measured, with the reason.
    pub skipped: Vec<Skipped>,
}

fn both() -> Vec<String> {
    vec![Direction::Encrypt.to_string(), Direction::Decrypt.to_string()]
}

fn usual_aad() -> usize {
    Parameters::default().aad_len
}

/// Every case.
///
/// # Errors
/// [`LabError::Definitions`] when the data do not parse or name what does not exist.
pub fn all() -> Result<Vec<Case>, LabError> {
    let wrong = |error: String| LabError::Definitions(error);
    let definitions: Definitions = toml::from_str(DEFINITIONS).map_err(|error| wrong(error.to_string()))?;
    for case in &definitions.case {
        case.suite()?;
        case.directions()?;
        if case.peer.is_some() == case.against.is_some() {
            return Err(wrong(format!("{}: either `peer` or `against`", case.name)));
        }
    }
    Ok(definitions.case)
}

/// The cases of these names, all when there are none.
///
/// # Errors
/// [`LabError::UnknownCase`], [`LabError::Definitions`].
pub fn named(names: &[String]) -> Result<Vec<Case>, LabError> {
    let cases = all()?;
    if let Some(name) = names.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        return Err(LabError::UnknownCase { name: name.clone() });
    }
    Ok(cases.into_iter().filter(|case| names.is_empty() || names.contains(&case.name)).collect())
}

impl Work {
    fn parameters(&self, seed: u64) -> Parameters {
        Parameters {
            ops: self.ops,
            keys: self.keys,
            len_min: self.len[0],
            len_max: self.len[1],
            aad_len: self.aad,
            shared_aad: self.shared_aad,
            seed,
        }
    }
}

impl Case {
    /// The suite.
    ///
    /// # Errors
    /// [`LabError::Definitions`] when there is none of that name.
    pub fn suite(&self) -> Result<Suite, LabError> {
        self.suite.parse().map_err(|error| LabError::Definitions(format!("{}: {error}", self.name)))
    }

    fn directions(&self) -> Result<Vec<Direction>, LabError> {
        let parse = |name: &String| name.parse::<Direction>();
        let parsed: Result<Vec<Direction>, _> = self.directions.iter().map(parse).collect();
        parsed.map_err(|error| LabError::Definitions(format!("{}: {error}", self.name)))
    }

    /// What is compared with what, in a few words.
    pub fn comparison(&self) -> String {
        match &self.peer {
            Some(peer) => format!("{OWN} against {peer}"),
            None => format!("{OWN} against itself"),
        }
    }

    /// Measures the case in each of its directions. `kernels` are forced on the own engine.
    fn run(&self, kernels: &[String], seed: u64, budget: Budget, record: &mut Record) -> Result<(), LabError> {
        let reference = open("reference")?;
        let own = open(&format!("{OWN}:{}", kernels.join(",")))?;
        let suite = self.suite()?;
        let other = match &self.peer {
            Some(peer) => open(peer),
            None => Ok(own.clone()),
        };
        let other = match other {
            Ok(other) => other,
            Err(LabError::Unavailable { name, why }) => {
                record.skip(self, "*", &name, why);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        for direction in self.directions()? {
            let lacks = [&own, &other]
                .into_iter()
                .find(|engine| capability::find(engine.capabilities(), suite, direction).is_none());
            if let Some(engine) = lacks {
                let why = "the engine does not run this suite here".to_owned();
                record.skip(self, &direction.to_string(), engine.info().name, why);
                continue;
            }
            let mut entrants = Vec::new();
            for (engine, work) in [(&own, self.work), (&other, self.against.unwrap_or(self.work))] {
                let workload = work.parameters(seed).workload(suite, direction, reference.as_ref())?;
                let expected = contest::expected(&workload, reference.as_ref())?;
                entrants.push(Entrant::verified(engine, &workload, &expected)?);
            }
            let timed = contest::time(&mut entrants, budget)?;
            let (own, other) = (row(&entrants[0], &timed[0]), row(&entrants[1], &timed[1]));
            record.outcomes.push(self.outcome(own, other));
        }
        Ok(())
    }

    fn outcome(&self, own: Row, other: Row) -> Outcome {
        let ratio = match self.figure {
            Figure::Rate => own.mb_per_s / other.mb_per_s,
            Figure::Latency => own.ns_per_op / other.ns_per_op,
        };
        let reached = |goal: f64| match self.figure {
            Figure::Rate => ratio >= goal,
            Figure::Latency => ratio <= goal,
        };
        let verdict = match (reached(self.aim), reached(self.must)) {
            (true, _) => Verdict::Aim,
            (false, true) => Verdict::Must,
            (false, false) => Verdict::Missed,
        };
        Outcome { case: self.name.clone(), own, other, ratio, must: self.must, aim: self.aim, verdict }
    }
}

impl Record {
    fn skip(&mut self, case: &Case, direction: &str, engine: &str, why: String) {
        self.skipped.push(Skipped {
            suite: case.name.clone(),
            direction: direction.to_owned(),
            engine: engine.to_owned(),
            why,
        });
    }
}

impl Outcome {
    /// Whether the spread of either side forbids quoting the figure.
    pub fn is_noisy(&self) -> bool {
        self.own.spread.max(self.other.spread) > SPREAD_QUOTABLE_MAX
    }
}

/// How cases are measured.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Kernels forced on our own engine, as `avx2` or `des=avx2`; none for the preferred ones.
    pub kernels: Vec<String>,
    /// Where the random operations start.
    pub seed: u64,
    /// The core that this thread is pinned to.
    pub core: Option<usize>,
    /// How long to measure.
    pub budget: Budget,
}

/// Measures cases, one after the other. `progress` hears their names.
///
/// # Errors
/// [`LabError`]: an engine whose output is wrong, kernels that do not exist, a core that cannot be had.
pub fn run(cases: &[Case], options: &Options, progress: Progress<'_>) -> Result<Record, LabError> {
    pin(options.core)?;
    let mut record = Record { machine: Machine::here(), outcomes: Vec::new(), skipped: Vec::new() };
    for case in cases {
        progress(&case.name)?;
        case.run(&options.kernels, options.seed, options.budget, &mut record)?;
    }
    Ok(record)
}

/// Measures cases and tells how they went as a section of a record.
///
/// # Errors
/// As [`run`].
pub fn section(cases: &[Case], options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    Ok(crate::sections::cases::section(cases, &run(cases, options, progress)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::names;

    #[test]
    fn definitions_hold_together() {
        let cases = all().expect("the definitions parse");
        let mut seen: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), cases.len(), "names are unique");
        for case in &cases {
            assert!(case.peer.as_deref().is_none_or(|peer| names().contains(&peer)), "{}", case.name);
            match case.figure {
                Figure::Rate => assert!(case.must <= case.aim, "{}", case.name),
                Figure::Latency => assert!(case.aim <= case.must, "{}", case.name),
            }
        }
    }

    #[test]
    fn verdicts_follow_the_goals() {
        let cases = all().expect("the definitions parse");
        let find = |figure| cases.iter().find(|case| case.figure == figure).expect("one of each");
        let made = |ns_per_op: f64| Row {
            suite: String::new(),
            direction: String::new(),
            engine: String::new(),
            kernel: String::new(),
            ops: 1,
            bytes: 1,
            ns_per_op,
            mb_per_s: 1000.0 / ns_per_op,
            cycles_per_byte: 0.0,
            spread: 0.0,
            idle_lanes: None,
        };
        let rate = find(Figure::Rate);
        assert_eq!(rate.outcome(made(1.0), made(rate.aim * 1.01)).verdict, Verdict::Aim);
        assert_eq!(rate.outcome(made(1.0), made(rate.must * 1.01)).verdict, Verdict::Must);
        assert_eq!(rate.outcome(made(1.0), made(rate.must * 0.99)).verdict, Verdict::Missed);
        let latency = find(Figure::Latency);
        assert_eq!(latency.outcome(made(latency.aim * 0.99), made(1.0)).verdict, Verdict::Aim);
        assert_eq!(latency.outcome(made(latency.must * 1.01), made(1.0)).verdict, Verdict::Missed);
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(matches!(named(&["abacus".to_owned()]), Err(LabError::UnknownCase { .. })));
        assert_eq!(named(&["ff1-column".to_owned()]).map(|cases| cases.len()).ok(), Some(1));
    }
}
