//! `lab cases`: named measurements with a goal, each against a peer or against ourselves on other operations.
//!
//! The cases are data (`lab/methods/definitions`); [`all`] reads and checks them.

use std::sync::Arc;

use ciphermill_contract::{Direction, Engine, Op, Suite, capability};
use ciphermill_report::{Estimate, Section};
use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::contest::{self, Entrant, Timed};
use crate::crew;
use crate::engines::open;
use crate::method::{Options, Progress};
use crate::sections::cases as show;
use crate::short::{Row, pin, row};
use crate::workload::Parameters;

const DEFINITIONS: [&str; 2] = [include_str!("../definitions/lanes.toml"), include_str!("../definitions/public.toml")];

/// The engine that the cases are about.
const OWN: &str = "lanes";

/// Engines that are one peer, used in two ways.
const OPENSSL: [&str; 2] = ["openssl-context", "openssl"];

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
    /// The peer to compare with, on the same operations, in the fastest of its ways.
    peer: Option<String>,
    /// Other operations of our own to compare with.
    against: Option<Work>,
    /// Whether our side gets the operations as columns, through a mill.
    #[serde(default)]
    columns: bool,
    /// What is compared.
    #[serde(default)]
    pub figure: Figure,
    /// The goal that has to be reached.
    pub must: f64,
    /// The goal that is hoped for.
    pub aim: f64,
    /// A second peer in the same contest, with goals of its own. Where it is not there, the first one's are measured alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    also: Option<Goal>,
}

/// A peer and what is to be reached beside it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Goal {
    peer: String,
    must: f64,
    aim: f64,
}

/// A goal and those that it is measured by.
struct Rival {
    must: f64,
    aim: f64,
    /// A peer in each of its ways; our own engine where a case compares it with itself.
    engines: Vec<Arc<dyn Engine>>,
    /// Whether the case has another goal before this one.
    is_second: bool,
}

/// What a case compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// Our rate in bytes by the other's, for public keys in operations: more is better.
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
    /// Public keys have one, that of the suite's known answer, …
    #[serde(default = "one")]
    keys: usize,
    /// … and its input.
    #[serde(default)]
    len: Option<[usize; 2]>,
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
#[derive(Clone, Debug)]
pub(crate) struct Outcome<'c> {
    /// The case.
    pub(crate) case: &'c Case,
    /// The goal that has to be reached.
    pub(crate) must: f64,
    /// The goal that is hoped for.
    pub(crate) aim: f64,
    /// The second peer, where the goal is one beside it.
    pub(crate) second: Option<&'static str>,
    /// Our row.
    pub(crate) own: Row,
    /// What it is compared with, and how: each way of the peer, the fastest first. That one is what counts.
    pub(crate) others: Vec<(Row, Estimate)>,
    /// How it went.
    pub(crate) verdict: Verdict,
}

/// How a case went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The hoped-for goal is reached.
    Aim,
    /// The goal is reached.
    Must,
    /// The goal is missed.
    Missed,
}

fn both() -> Vec<String> {
    vec![Direction::Encrypt.to_string(), Direction::Decrypt.to_string()]
}

fn one() -> usize {
    1
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
    let mut cases = Vec::new();
    for text in DEFINITIONS {
        let definitions: Definitions = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        cases.extend(definitions.case);
    }
    for case in &cases {
        let is_public_key = case.suite()?.is_public_key();
        case.directions()?;
        if case.peer.is_some() == case.against.is_some() {
            return Err(wrong(format!("{}: either `peer` or `against`", case.name)));
        }
        if [Some(case.work), case.against].into_iter().flatten().any(|work| work.len.is_some() == is_public_key) {
            return Err(wrong(format!("{}: `len` is for symmetric suites, which need it", case.name)));
        }
        if case.also.is_some() && case.peer.is_none() {
            return Err(wrong(format!("{}: `also` comes after `peer`", case.name)));
        }
        if case.columns && !(case.suite()?.takes_columns() && case.suite()?.transforms()) {
            return Err(wrong(format!("{}: {} has no columns to go through", case.name, case.suite)));
        }
    }
    Ok(cases)
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
        let [len_min, len_max] = self.len.unwrap_or_default();
        Parameters {
            ops: self.ops,
            keys: self.keys,
            len_min,
            len_max,
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

    /// What is compared with what in a few words, what has to be reached and what is hoped for: once for each goal.
    pub fn goals(&self) -> Vec<(String, f64, f64)> {
        let first = match &self.peer {
            Some(peer) => format!("{OWN} against {peer}"),
            None => format!("{OWN} against itself"),
        };
        let also = self.also.iter().map(|goal| (format!("{OWN} against {}", goal.peer), goal.must, goal.aim));
        std::iter::once((first, self.must, self.aim)).chain(also).collect()
    }

    /// Whom our engine is compared with. A peer that is not there is said in `section`.
    fn rivals(&self, own: &Arc<dyn Engine>, section: &mut Section) -> Result<Vec<Rival>, LabError> {
        let Some(peer) = &self.peer else {
            let engines = vec![Arc::clone(own)];
            return Ok(vec![Rival { must: self.must, aim: self.aim, engines, is_second: false }]);
        };
        let mut rivals = Vec::new();
        let also = self.also.iter().map(|goal| (&goal.peer, goal.must, goal.aim));
        for (place, (peer, must, aim)) in std::iter::once((peer, self.must, self.aim)).chain(also).enumerate() {
            let (mut engines, mut missing) = (Vec::new(), None);
            for way in ways_of(peer) {
                match open(way) {
                    Ok(engine) => engines.push(engine),
                    Err(LabError::Unavailable { name, why }) => missing = Some((name, why)),
                    Err(error) => return Err(error),
                }
            }
            match missing.filter(|_| engines.is_empty()) {
                None => rivals.push(Rival { must, aim, engines, is_second: place > 0 }),
                // Said once of all cases.
                Some((name, why)) if place > 0 => section.lacks(format!("the goals beside {name}"), why),
                Some((name, why)) => section.lacks(format!("{} * on {name}", self.name), why),
            }
        }
        Ok(rivals)
    }

    /// Measures the case in each of its directions. `kernels` are forced on the own engine.
    fn run(&self, kernels: &[String], options: &Options, section: &mut Section) -> Result<Vec<Outcome<'_>>, LabError> {
        let own = open(&format!("{OWN}:{}", kernels.join(",")))?;
        let rivals = self.rivals(&own, section)?;
        let suite = self.suite()?;
        let mut outcomes = Vec::new();
        for direction in self.directions()? {
            let runs = |engine: &Arc<dyn Engine>| capability::find(engine.capabilities(), suite, direction).is_some();
            let mut lacks = |engine: &Arc<dyn Engine>| {
                let what = format!("{} {direction} on {}", self.name, engine.info().name);
                section.lacks(what, "the engine does not run this suite here");
            };
            if !runs(&own) {
                lacks(&own);
                continue;
            }
            let is_able = |rival: &&Rival| rival.engines.iter().any(runs);
            rivals
                .iter()
                .filter(|rival| !is_able(rival))
                .filter_map(|rival| rival.engines.first())
                .for_each(&mut lacks);
            let able: Vec<&Rival> = rivals.iter().filter(is_able).collect();
            let engines: Vec<&Arc<dyn Engine>> =
                able.iter().flat_map(|rival| &rival.engines).filter(|engine| runs(engine)).collect();
            if engines.is_empty() {
                continue;
            }
            let mut entrants = self.entrants(&own, &engines, suite, direction, options.seed)?;
            for entrant in &entrants {
                if let Some(why) = entrant.missing() {
                    section.lacks(format!("{} {direction} on {}", self.name, entrant.engine.info().name), why);
                }
            }
            let timed = contest::time(&mut entrants, options.budget)?;
            outcomes.extend(able.iter().map(|rival| self.outcome(rival, &entrants, &timed)));
        }
        Ok(outcomes)
    }

    /// Our engine, then what it is compared with, each verified: engines, and native loops where peers have them.
    fn entrants(
        &self,
        own: &Arc<dyn Engine>,
        others: &[&Arc<dyn Engine>],
        suite: Suite,
        direction: Direction,
        seed: u64,
    ) -> Result<Vec<Entrant>, LabError> {
        let reference = open("reference")?;
        let made = |work: Work| crew::work(suite, direction, &work.parameters(seed), reference.as_ref());
        let verified = |engine: &Arc<dyn Engine>, work: &crew::Work| {
            let entrant = Entrant::ran(engine, &work.workload)?;
            work.agrees(engine.as_ref(), &entrant.workload, reference.as_ref())?;
            Ok::<_, LabError>(entrant)
        };
        let work = made(self.work)?;
        let mut entrants = vec![match self.columns {
            true => Entrant::columns(own, &work.workload, &work.expected)?,
            false => verified(own, &work)?,
        }];
        let work = self.against.map_or(Ok(work), made)?;
        for other in others {
            entrants.push(verified(other, &work)?);
            let is_right = |ops: &[Op], arena: &[u8]| {
                let ran = work.workload.with_answers(ops, arena);
                work.agrees(other.as_ref(), &ran, reference.as_ref()).is_ok()
            };
            entrants.extend(Entrant::native(other, &work.workload, &is_right)?);
        }
        Ok(entrants)
    }

    /// The first entrant is ours; of the others those count that are the rival.
    fn outcome(&self, rival: &Rival, entrants: &[Entrant], timed: &[Timed]) -> Outcome<'_> {
        let own = row(&entrants[0], &timed[0]);
        // Public keys have operations of one kind, and decapsulations no input.
        let is_public_key = entrants[0].workload.suite.is_public_key();
        let amount = |row: &Row| if is_public_key { row.ops as f64 } else { row.bytes as f64 };
        let name = |engine: &Arc<dyn Engine>| engine.info().name;
        let is_rival = |entrant: &Entrant| rival.engines.iter().any(|engine| name(engine) == name(&entrant.engine));
        let others = entrants.iter().zip(timed).skip(1).filter(|(entrant, _)| is_rival(entrant));
        let others = others.map(|(entrant, timed_other)| {
            let other = row(entrant, timed_other);
            let runs = |entrant: &Entrant| entrant.repeats() as f64;
            let ratio = match self.figure {
                Figure::Rate => timed_other
                    .samples
                    .ratio(&timed[0].samples)
                    .scaled(amount(&own) * runs(&entrants[0]) / (amount(&other) * runs(entrant))),
                Figure::Latency => timed[0]
                    .samples
                    .ratio(&timed_other.samples)
                    .scaled(other.ops as f64 * runs(entrant) / (own.ops as f64 * runs(&entrants[0]))),
            };
            (other, ratio)
        });
        let mut others: Vec<(Row, Estimate)> = others.collect();
        others.sort_by(|(a, _), (b, _)| a.ns_per_op.total_cmp(&b.ns_per_op));
        let Rival { must, aim, .. } = *rival;
        let verdict = self.figure.verdict(others.first().map_or(0.0, |(_, ratio)| ratio.value), must, aim);
        let second = rival.engines.first().map(name).filter(|_| rival.is_second);
        Outcome { case: self, must, aim, second, own, others, verdict }
    }
}

impl Figure {
    fn verdict(self, ratio: f64, must: f64, aim: f64) -> Verdict {
        let reached = |goal: f64| match self {
            Figure::Rate => ratio >= goal,
            Figure::Latency => ratio <= goal,
        };
        match (reached(aim), reached(must)) {
            (true, _) => Verdict::Aim,
            (false, true) => Verdict::Must,
            (false, false) => Verdict::Missed,
        }
    }
}

/// The engines that are a peer: it is judged by the fastest.
fn ways_of(peer: &str) -> Vec<&str> {
    if OPENSSL.contains(&peer) { OPENSSL.to_vec() } else { vec![peer] }
}

impl Outcome<'_> {
    /// The figure: ours against the fastest way of the other.
    pub(crate) fn ratio(&self) -> Estimate {
        self.others.first().map_or_else(Estimate::default, |(_, ratio)| *ratio)
    }
}

/// Measures cases, one after the other, with `kernels` forced on our own engine (`avx2`, `des=avx2`). `progress` hears their
/// names.
///
/// # Errors
/// [`LabError`]: an engine whose output is wrong, kernels that do not exist, a core that cannot be had.
pub fn section(
    cases: &[Case],
    kernels: &[String],
    options: &Options,
    progress: Progress<'_>,
) -> Result<Section, LabError> {
    pin(options.core)?;
    let mut section = show::section();
    let mut outcomes = Vec::new();
    for case in cases {
        progress(&case.name)?;
        outcomes.extend(case.run(kernels, options, &mut section)?);
    }
    show::fill(&mut section, &outcomes);
    Ok(section)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            let peers = case.peer.iter().chain(case.also.as_ref().map(|goal| &goal.peer));
            assert!(peers.clone().all(|peer| names().contains(&peer.as_str())), "{}", case.name);
            for (_, must, aim) in case.goals() {
                match case.figure {
                    Figure::Rate => assert!(must <= aim, "{}", case.name),
                    Figure::Latency => assert!(aim <= must, "{}", case.name),
                }
            }
        }
    }

    #[test]
    fn verdicts_follow_the_goals() {
        let cases = all().expect("the definitions parse");
        let find = |figure| cases.iter().find(|case| case.figure == figure).expect("one of each");
        let rate = find(Figure::Rate);
        let verdict = |ratio| rate.figure.verdict(ratio, rate.must, rate.aim);
        let verdicts = [rate.aim, rate.must, rate.must * 0.99].map(verdict);
        assert_eq!(verdicts, [Verdict::Aim, Verdict::Must, Verdict::Missed]);
        let latency = find(Figure::Latency);
        let verdict = |ratio| latency.figure.verdict(ratio, latency.must, latency.aim);
        let verdicts = [latency.aim, latency.must, latency.must * 1.01].map(verdict);
        assert_eq!(verdicts, [Verdict::Aim, Verdict::Must, Verdict::Missed]);
    }

    /// One short case of each interface of ipsec-mb, and one of OpenSSL's two ways: what counts is the fastest way.
    #[test]
    fn a_case_is_judged_against_the_fastest_way() {
        let budget = crate::timing::Budget { time: Duration::from_millis(2), rounds_min: 5, rounds_max: 20 };
        for name in ["aes-128-cbc-short-decrypt", "aes-128-gcm-short", "chacha20-poly1305-short"] {
            let mut case = named(&[name.to_owned()]).expect("a case").remove(0);
            (case.work.ops, case.work.keys) = (300, 20);
            let options = Options { seed: 1, budget, ..Options::default() };
            let outcomes = case.run(&[], &options, &mut Section::default()).expect("measured");
            for outcome in &outcomes {
                assert_eq!(outcome.others.len(), 2, "{name}: {:?}", outcome.others);
                let ns: Vec<f64> = outcome.others.iter().map(|(other, _)| other.ns_per_op).collect();
                assert!(ns[0] <= ns[1], "{name}: {ns:?}");
                let ratio = outcome.ratio();
                assert_eq!(ratio, outcome.others[0].1);
                assert!(ratio.value > 0.0 && ratio.interval[0] <= ratio.value && ratio.value <= ratio.interval[1]);
                // The ratio of the medians is another figure than the median of the ratios, though not by far.
                let medians = ns[0] / outcome.own.ns_per_op;
                assert!((0.2..5.0).contains(&(medians / ratio.value)), "{name}: {medians}, {ratio:?}");
            }
        }
    }

    /// Two goals of one contest, then one whose peer is not there.
    #[test]
    fn a_second_peer_has_a_goal_of_its_own_or_is_said_to_be_missing() {
        let budget = crate::timing::Budget { time: Duration::from_millis(2), rounds_min: 5, rounds_max: 20 };
        let options = Options { seed: 1, budget, ..Options::default() };
        let mut case = named(&["aes-128-gcm-short".to_owned()]).expect("a case").remove(0);
        (case.work.ops, case.work.keys) = (300, 20);
        case.directions.truncate(1);
        let beside = |peer: &str| Some(Goal { peer: peer.to_owned(), must: 0.001, aim: 1e9 });
        case.also = beside("openssl");
        let outcomes = case.run(&[], &options, &mut Section::default()).expect("measured");
        let (first, second) = (&outcomes[0], &outcomes[1]);
        assert_eq!((outcomes.len(), first.must, second.must), (2, case.must, 0.001));
        assert_eq!((first.second, second.second, second.verdict), (None, Some("openssl-context"), Verdict::Must));
        assert_eq!(first.own.ns_per_op.to_bits(), second.own.ns_per_op.to_bits(), "measured once");
        let of = |outcome: &Outcome<'_>, name: &str| outcome.others.iter().all(|(row, _)| row.engine.starts_with(name));
        assert!(!of(first, "openssl") && of(second, "openssl"), "each beside its own");
        case.also = beside(crate::engines::ABSENT);
        let mut section = Section::default();
        let outcomes = case.run(&[], &options, &mut section).expect("measured");
        let missing: Vec<&str> = section.missing.iter().map(|missing| missing.what.as_str()).collect();
        assert_eq!((outcomes.len(), missing), (1, vec!["the goals beside absent"]));
    }

    /// Deterministic and drawn signatures, a verification and an agreement, on engines that have them all.
    #[test]
    fn public_keys_are_verified_and_timed() {
        let budget = crate::timing::Budget { time: Duration::from_millis(1), rounds_min: 3, rounds_max: 3 };
        let (own, peer) = (open("library").expect("is there"), open("openssl-public").expect("is there"));
        for (name, drawn) in [
            ("rsa-2048-private", Some("rsa-2048-sign-pss-sha256")),
            ("rsa-2048-public", None),
            ("ecdsa-p256-sign", None),
            ("ed25519-verify", None),
            ("x25519-shared", None),
        ] {
            let mut case = named(&[name.to_owned()]).expect("a case").remove(0);
            case.work.ops = 3;
            let suite = drawn.map_or_else(|| case.suite(), |name| Ok(crate::engines::suite(name))).expect("a suite");
            let directions = case.directions().expect("directions");
            let mut entrants = case.entrants(&own, &[&peer], suite, directions[0], 1).expect("the answers are right");
            assert_eq!((entrants.len(), entrants[0].repeats()), (2, 1), "{name}");
            let timed = contest::time(&mut entrants, budget).expect("timed");
            let rival = Rival { must: 1.0, aim: 1.0, engines: vec![Arc::clone(&peer)], is_second: false };
            let outcome = case.outcome(&rival, &entrants, &timed);
            let medians = outcome.others[0].0.ns_per_op / outcome.own.ns_per_op;
            assert!((0.2..5.0).contains(&(medians / outcome.ratio().value)), "{name}: {medians}");
        }
    }

    /// Encapsulations differ each time: what they hide has to be what the reference takes out of them.
    #[test]
    fn encapsulations_are_opened_and_not_compared() {
        let reference = open("reference").expect("is there");
        let case = named(&["ml-kem-768-encapsulate".to_owned()]).expect("a case").remove(0);
        let suite = case.suite().expect("a suite");
        let parameters = Work { ops: 3, ..case.work }.parameters(1);
        let work = crew::work(suite, Direction::Encrypt, &parameters, reference.as_ref()).expect("a known answer");
        let ran = Entrant::ran(&open("library").expect("is there"), &work.workload).expect("runs").workload;
        assert!(work.agrees(reference.as_ref(), &ran, reference.as_ref()).is_ok());
        let mut wrong = ran.clone();
        wrong.arena[ran.ops[1].output as usize] ^= 1;
        let outcome = work.agrees(reference.as_ref(), &wrong, reference.as_ref());
        assert!(matches!(outcome, Err(LabError::WrongResult { op: 1, .. })), "{:?}", outcome.err());
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(matches!(named(&["abacus".to_owned()]), Err(LabError::UnknownCase { .. })));
        assert_eq!(named(&["ff1-column".to_owned()]).map(|cases| cases.len()).ok(), Some(1));
    }
}
