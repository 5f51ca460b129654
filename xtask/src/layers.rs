//! The floors of the house: which crate may depend on which.
//!
//! A crate is known by its folder. The first rule whose `who` matches the folder decides; a crate without a rule is a
//! finding, so that a new crate has to be given its floor here. Patterns are a folder, or `parent/*` for every
//! folder directly below `parent`.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::files;
use crate::workspace::{self, Need};

/// One floor: what its crates may depend on.
struct Rule {
    who: &'static str,
    /// For normal and build dependencies.
    may: &'static [&'static str],
    /// For development dependencies, besides `may`.
    tests_may: &'static [&'static str],
    why: &'static str,
}

/// An arrow that breaks the rules on purpose.
struct Exception {
    from: &'static str,
    to: &'static str,
    kind: Need,
    reason: &'static str,
}

/// The floors, lowest first. More specific folders stand before `parent/*`.
const RULES: &[Rule] = &[
    Rule { who: "core/erased", may: &[], tests_may: &[], why: "a box that tells its type needs nothing of ours" },
    Rule {
        who: "core/contract",
        may: &["core/erased"],
        tests_may: &[],
        why: "the contract is the ground floor: no engine, no I/O, and below it only what it needs unsafe code for",
    },
    Rule { who: "core/memory", may: &["core/contract"], tests_may: &[], why: "memory stands on the contract alone" },
    Rule {
        who: "core/keys",
        may: &["core/contract", "core/memory"],
        tests_may: &[],
        why: "the key table knows neither engines nor the router",
    },
    Rule {
        who: "core/shifts",
        may: &[],
        tests_may: &[],
        why: "counting workers needs nothing of ours, and loom builds it alone",
    },
    Rule {
        who: "core/channel",
        may: &["core/contract", "core/memory", "core/shifts"],
        tests_may: &[],
        why: "what a service and its clients share knows neither the mill of the one nor the engine of the other",
    },
    Rule {
        who: "core/tables",
        may: &[],
        tests_may: &[],
        why: "what old ciphers make of their keys is plain code, which needs nothing of ours",
    },
    Rule {
        who: "core/pairs",
        may: &["core/contract"],
        tests_may: &["vectors"],
        why: "what key pairs and paddings are is the same for all engines that do the arithmetic themselves",
    },
    Rule {
        who: "core/router",
        may: &["core/contract"],
        tests_may: &[],
        why: "the router sees shapes and figures, never engines or keys",
    },
    Rule {
        who: "core/mill",
        may: &["core/contract", "core/memory", "core/keys", "core/router", "core/shifts", "vectors"],
        tests_may: &["engines/fault"],
        why: "the mill gets its engines by value, names none, and believes none before the vectors are answered",
    },
    Rule {
        who: "core/tuning",
        may: &["core/contract", "core/router", "core/mill", "vectors"],
        tests_may: &["engines/fault"],
        why: "measuring engines makes what a mill is opened with, and no mill needs it to run a batch",
    },
    Rule {
        who: "vectors",
        may: &["core/contract"],
        tests_may: &[],
        why: "test vectors are data in the contract's words",
    },
    Rule {
        who: "engines/conformance",
        may: &["core/contract", "core/memory", "vectors"],
        tests_may: &[],
        why: "the conformance suite tests any engine through the contract alone",
    },
    Rule {
        who: "engines/all",
        may: &["core/contract", "core/memory", "engines/*"],
        tests_may: &["engines/conformance", "vectors"],
        why: "the one place that knows every engine, and nothing above them",
    },
    Rule {
        who: "engines/fault",
        may: &["core/contract"],
        tests_may: &["engines/conformance", "vectors"],
        why: "the test double gets the engine that it wraps by value",
    },
    Rule {
        who: "engines/service",
        may: &["core/contract", "core/memory", "core/channel"],
        tests_may: &["engines/conformance", "vectors"],
        why: "the service is an engine like any other, at the other end of a channel",
    },
    Rule {
        who: "engines/token",
        may: &["core/contract", "core/memory", "core/pairs", "core/channel"],
        tests_may: &["engines/conformance", "vectors"],
        why: "a token in a process of its own is told what to do in frames, as a service is",
    },
    Rule {
        who: "engines/*",
        may: &["core/contract", "core/memory", "core/pairs", "core/tables"],
        tests_may: &["engines/conformance", "vectors"],
        why: "engines never see each other, the key table, the router or the mill",
    },
    Rule { who: "lab/siv", may: &[], tests_may: &[], why: "a loop around a crate, built a second time by itself" },
    Rule {
        who: "lab/peers",
        may: &["core/contract", "core/memory", "lab/siv"],
        tests_may: &["engines/conformance", "vectors"],
        why: "a peer is an engine like any other",
    },
    Rule {
        who: "doors/python",
        may: &["core/*", "doors/table", "engines/all"],
        tests_may: &[],
        why: "a wheel is a whole application to those who import it: columns by the table door, on every engine",
    },
    Rule {
        who: "doors/openssl",
        may: &["core/*", "engines/all"],
        tests_may: &[],
        why: "applications load a provider without knowing of engines: it opens its mill itself",
    },
    Rule {
        who: "doors/pkcs11",
        may: &["core/*", "engines/all", "engines/token"],
        tests_may: &["vectors"],
        why: "applications load a module without knowing of engines: it opens its mill itself, and shows what tokens have",
    },
    Rule {
        who: "doors/c",
        may: &["core/*", "engines/all"],
        tests_may: &["vectors"],
        why: "a shared library is a whole application to those who call it: the mill, on every engine",
    },
    Rule {
        who: "doors/*",
        may: &["core/*"],
        tests_may: &["engines/*", "vectors"],
        why: "a door translates to the mill; which engines there are is the application's choice",
    },
    Rule {
        who: "net/esp",
        may: &["core/*"],
        tests_may: &["engines/*", "vectors"],
        why: "what ESP makes of packets is work for a mill that it is given, wherever packets and keys come from",
    },
    Rule {
        who: "net/*",
        may: &[],
        tests_may: &[],
        why: "how packets come and go, and what IKE daemons say, needs nothing of ours",
    },
    Rule { who: "lab/search", may: &[], tests_may: &[], why: "a search asks for trials, whatever is tried" },
    Rule {
        who: "lab/principles",
        may: &["core/tables"],
        tests_may: &["core/contract", "vectors"],
        why: "an experiment on plain code, which needs of ours only what its ciphers make of their keys",
    },
    Rule {
        who: "lab/report",
        may: &[],
        tests_may: &[],
        why: "showing what was measured needs nothing of what was measured",
    },
    Rule {
        who: "lab/simulate",
        may: &["core/channel", "core/contract", "core/router"],
        tests_may: &[],
        why: "a simulation drives the decisions, who looks for how long among them, and has none of what they decide about",
    },
    Rule { who: "lab/faults", may: &[], tests_may: &[], why: "faults are injected into any program, from outside" },
    Rule {
        who: "lab/methods",
        may: &[
            "core/*",
            "engines/all",
            "engines/service",
            "lab/peers",
            "lab/principles",
            "lab/report",
            "lab/search",
            "lab/simulate",
            "net/*",
            "vectors",
        ],
        tests_may: &["engines/fault"],
        why: "the measuring methods drive a mill, the peers and the service's own client; public keys come from the vectors",
    },
    Rule {
        who: "apps/service",
        may: &["core/*"],
        tests_may: &["engines/*", "lab/peers", "vectors"],
        why: "the service gets a mill by value; the program around it knows of engines and files",
    },
    Rule {
        who: "apps/cli",
        may: &["core/*", "engines/*", "doors/*", "lab/*", "net/*", "vectors", "apps/service", "apps/gateway"],
        tests_may: &[],
        why: "the program stands on everything, the service included, and nothing stands on it",
    },
    Rule {
        who: "apps/*",
        may: &["core/*", "engines/*", "doors/*", "lab/*", "net/*", "vectors"],
        tests_may: &[],
        why: "an application stands on everything, and nothing stands on it",
    },
    Rule {
        who: "fuzz",
        may: &["core/*", "engines/*", "doors/*", "net/*", "vectors", "apps/service"],
        tests_may: &[],
        why: "what is fuzzed may lie on any floor, and nothing stands on the fuzz targets",
    },
    Rule {
        who: "tools/*",
        may: &[],
        tests_may: &[],
        why: "research writes its results down, and needs nothing of ours",
    },
    Rule { who: "xtask", may: &[], tests_may: &[], why: "the checks must build when the rest does not" },
];

/// Arrows that are allowed although a rule forbids them. One that is no longer used is a finding.
const EXCEPTIONS: &[Exception] = &[
    Exception {
        from: "engines/*",
        to: "engines/reference",
        kind: Need::Test,
        reason: "differential tests compare an engine with the reference",
    },
    Exception {
        from: "engines/gpu",
        to: "core/mill",
        kind: Need::Test,
        reason: "what a mill makes of a device, its faults and its shares is tested with the device",
    },
    Exception {
        from: "engines/gpu",
        to: "engines/fault",
        kind: Need::Test,
        reason: "the same: a device that fails on command",
    },
    Exception {
        from: "engines/token",
        to: "core/mill",
        kind: Need::Test,
        reason: "what a mill makes of tokens that hold the same key, or lose it, is tested with tokens",
    },
    Exception {
        from: "engines/token",
        to: "engines/library",
        kind: Need::Test,
        reason: "its bench has signatures verified as fast as a program would",
    },
    Exception {
        from: "doors/openssl",
        to: "engines/fault",
        kind: Need::Normal,
        reason: "with its feature for tests the provider wraps engines so that they fail under unmodified applications",
    },
    Exception {
        from: "core/mill",
        to: "engines/reference",
        kind: Need::Test,
        reason: "schedules of faults are run around an engine that computes, and compared with it",
    },
    Exception {
        from: "lab/principles",
        to: "engines/reference",
        kind: Need::Test,
        reason: "differential tests compare a variant with the reference",
    },
    Exception {
        from: "lab/peers",
        to: "engines/reference",
        kind: Need::Test,
        reason: "differential tests compare a peer with the reference",
    },
];

/// A dependency of one crate of the workspace on another, both named by folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrow {
    from: String,
    to: String,
    kind: Need,
}

/// The workspace as far as the floors are concerned.
#[derive(Default)]
pub(crate) struct Graph {
    crates: BTreeSet<String>,
    arrows: BTreeSet<Arrow>,
}

/// Checks the workspace, prints the exceptions in use, and returns the violations in words.
pub(crate) fn run() -> Result<Vec<String>> {
    let graph = read(&files::root())?;
    let verdict = check(&graph, RULES, EXCEPTIONS);
    for line in &verdict.exceptions {
        println!("layers: exception: {line}");
    }
    if verdict.violations.is_empty() {
        println!("layers: {} crates, {} arrows, all downwards", graph.crates.len(), graph.arrows.len());
    }
    Ok(verdict.violations)
}

impl fmt::Display for Arrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Need::Normal => "",
            Need::Build => " (build)",
            Need::Test => " (tests)",
        };
        write!(f, "{} -> {}{kind}", self.from, self.to)
    }
}

struct Verdict {
    violations: Vec<String>,
    exceptions: Vec<String>,
}

fn check(graph: &Graph, rules: &[Rule], exceptions: &[Exception]) -> Verdict {
    let mut verdict = Verdict { violations: Vec::new(), exceptions: Vec::new() };
    for folder in &graph.crates {
        if rule_for(folder, rules).is_none() {
            verdict.violations.push(format!("layers: {folder} has no floor: add a rule for it to xtask/src/layers.rs"));
        }
    }
    let mut used = vec![false; exceptions.len()];
    for arrow in &graph.arrows {
        let Some(rule) = rule_for(&arrow.from, rules) else {
            continue;
        };
        let allowed = |patterns: &[&str]| patterns.iter().any(|p| matches(p, &arrow.to));
        if allowed(rule.may) || (arrow.kind == Need::Test && allowed(rule.tests_may)) {
            continue;
        }
        let exception = exceptions
            .iter()
            .position(|e| e.kind == arrow.kind && matches(e.from, &arrow.from) && matches(e.to, &arrow.to));
        match exception {
            Some(index) => {
                used[index] = true;
                verdict.exceptions.push(format!("{arrow}: {}", exceptions[index].reason));
            }
            None => verdict.violations.push(format!("layers: {arrow} breaks the rule of {}: {}", rule.who, rule.why)),
        }
    }
    for (exception, used) in exceptions.iter().zip(used) {
        if !used {
            verdict.violations.push(format!(
                "layers: the exception {} -> {} ({}) is no longer used: remove it",
                exception.from, exception.to, exception.reason
            ));
        }
    }
    verdict
}

fn rule_for<'r>(folder: &str, rules: &'r [Rule]) -> Option<&'r Rule> {
    rules.iter().find(|rule| matches(rule.who, folder))
}

/// Whether `folder` is what `pattern` names; `parent/*` names the folders directly below `parent`.
fn matches(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(parent) => folder.strip_prefix(parent).is_some_and(|rest| !rest.is_empty() && !rest.contains('/')),
        None => pattern == folder,
    }
}

fn read(root: &Path) -> Result<Graph> {
    let mut graph = Graph::default();
    for package in workspace::packages(root)? {
        for (to, kind) in package.needs {
            graph.arrows.insert(Arrow { from: package.folder.clone(), to, kind });
        }
        graph.crates.insert(package.folder);
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(arrows: &[(&str, &str, Need)]) -> Graph {
        let mut graph = Graph::default();
        for &(from, to, kind) in arrows {
            graph.crates.insert(from.to_owned());
            graph.crates.insert(to.to_owned());
            graph.arrows.insert(Arrow { from: from.to_owned(), to: to.to_owned(), kind });
        }
        graph
    }

    fn violations(arrows: &[(&str, &str, Need)]) -> Vec<String> {
        check(&graph(arrows), RULES, &[]).violations
    }

    #[test]
    fn the_workspace_keeps_its_floors() {
        let graph = read(&files::root()).unwrap();
        assert!(graph.crates.contains("core/contract"));
        assert!(!graph.arrows.is_empty());
        let verdict = check(&graph, RULES, EXCEPTIONS);
        assert_eq!(verdict.violations, Vec::<String>::new());
    }

    #[test]
    fn arrows_that_go_down_are_accepted() {
        let arrows = [
            ("core/memory", "core/contract", Need::Normal),
            ("core/keys", "core/memory", Need::Normal),
            ("core/router", "core/contract", Need::Normal),
            ("core/mill", "core/router", Need::Normal),
            ("core/mill", "vectors", Need::Normal),
            ("core/tuning", "core/mill", Need::Normal),
            ("engines/library", "core/contract", Need::Normal),
            ("engines/library", "engines/conformance", Need::Test),
            ("engines/library", "vectors", Need::Test),
            ("engines/all", "engines/library", Need::Normal),
            ("engines/fault", "engines/conformance", Need::Test),
            ("lab/peers", "core/contract", Need::Build),
            ("doors/table", "core/mill", Need::Normal),
            ("doors/table", "engines/all", Need::Test),
            ("lab/methods", "lab/peers", Need::Normal),
            ("apps/cli", "doors/table", Need::Normal),
            ("apps/cli", "lab/methods", Need::Normal),
        ];
        assert_eq!(violations(&arrows), Vec::<String>::new());
    }

    #[test]
    fn each_arrow_that_goes_up_or_sideways_is_named() {
        let arrows = [
            ("core/contract", "core/memory", Need::Normal),
            ("core/memory", "core/keys", Need::Normal),
            ("core/keys", "core/router", Need::Normal),
            ("core/router", "core/memory", Need::Normal),
            ("core/router", "engines/reference", Need::Normal),
            ("core/mill", "core/tuning", Need::Normal),
            ("core/mill", "engines/all", Need::Normal),
            ("core/mill", "engines/all", Need::Test),
            ("engines/library", "core/keys", Need::Normal),
            ("engines/library", "core/mill", Need::Test),
            ("engines/library", "engines/reference", Need::Normal),
            ("engines/library", "engines/conformance", Need::Normal),
            ("engines/reference", "vectors", Need::Build),
            ("engines/fault", "core/memory", Need::Normal),
            ("vectors", "core/memory", Need::Normal),
            ("doors/table", "engines/all", Need::Normal),
            ("doors/table", "lab/methods", Need::Normal),
            ("lab/peers", "core/mill", Need::Normal),
            ("lab/methods", "engines/reference", Need::Normal),
            ("lab/methods", "apps/cli", Need::Normal),
            ("core/mill", "xtask", Need::Build),
            ("xtask", "core/contract", Need::Normal),
        ];
        for arrow in arrows {
            let found = violations(&[arrow]);
            assert_eq!(found.len(), 1, "{arrow:?}: {found:?}");
            let words = format!("{} -> {}", arrow.0, arrow.1);
            assert!(found[0].contains(&words), "{found:?}");
        }
    }

    #[test]
    fn a_violation_says_which_rule_it_breaks() {
        let found = violations(&[("engines/library", "core/mill", Need::Test)]);
        assert_eq!(
            found,
            ["layers: engines/library -> core/mill (tests) breaks the rule of engines/*: \
              engines never see each other, the key table, the router or the mill"]
        );
    }

    #[test]
    fn a_crate_without_a_floor_is_a_violation() {
        let found = violations(&[("cellar", "core/contract", Need::Normal)]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("cellar has no floor"));
    }

    #[test]
    fn an_exception_covers_its_own_arrow_only() {
        let exceptions =
            [Exception { from: "engines/*", to: "engines/reference", kind: Need::Test, reason: "differential tests" }];
        let tests = ("engines/library", "engines/reference", Need::Test);
        let normal = ("engines/library", "engines/reference", Need::Normal);
        let other = ("engines/library", "engines/lanes", Need::Test);

        let verdict = check(&graph(&[tests]), RULES, &exceptions);
        assert_eq!(verdict.violations, Vec::<String>::new());
        assert_eq!(verdict.exceptions, ["engines/library -> engines/reference (tests): differential tests"]);

        let verdict = check(&graph(&[tests, normal, other]), RULES, &exceptions);
        assert_eq!(verdict.violations.len(), 2);
    }

    #[test]
    fn an_exception_that_nothing_uses_is_a_violation() {
        let exceptions = [Exception { from: "core/mill", to: "engines/all", kind: Need::Test, reason: "once needed" }];
        let graph = graph(&[("core/mill", "core/keys", Need::Normal)]);
        let verdict = check(&graph, RULES, &exceptions);
        assert_eq!(verdict.violations.len(), 1);
        assert!(verdict.violations[0].contains("once needed"));
        assert!(verdict.violations[0].contains("no longer used"));
    }

    #[test]
    fn a_star_names_one_level_only() {
        assert!(matches("engines/*", "engines/library"));
        assert!(!matches("engines/*", "engines"));
        assert!(!matches("engines/*", "engines/lanes/des"));
        assert!(!matches("core/mill", "core/mill2"));
    }
}
