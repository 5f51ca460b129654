//! Rules that keep engines from suites: what an administrator has turned off, by name.
//!
//! A rule is a text: `gpu` (an engine, whatever it runs), `lanes:des-cbc` (a suite on one engine), `rc4` (a suite on every engine).
//! A suite whose name ends in `*` stands for all whose names begin so: `gpu:rsa-*`. Rules hold for both directions.

use std::fmt;

use ciphermill_contract::Suite;
use ciphermill_contract::suite::nearest_name;

/// Rules that a mill goes by at most.
pub const DISABLED_RULES_MAX: usize = 1024;

/// What engines may not run, although they could and policy allows it. Empty by default.
///
/// ```
/// # fn main() -> Result<(), ciphermill::BadRule> {
/// let disabled = ciphermill::Disabled::parse(["gpu", "lanes:des-cbc", "rc4"], &["lanes", "library", "gpu"])?;
/// let rule = disabled.find("lanes", "rc4".parse().expect("a suite")).expect("it is disabled everywhere");
/// assert_eq!(rule.to_string(), "rc4");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disabled {
    rules: Vec<DisabledRule>,
}

/// One rule; printed as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisabledRule {
    text: String,
    /// `None` for every engine.
    engine: Option<String>,
    /// Canonical ones; `None` for every suite.
    suites: Option<Vec<Suite>>,
}

/// A text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule {
    /// The text.
    pub rule: String,
    /// What is wrong with it.
    pub problem: RuleProblem,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleProblem {
    /// The whole of it is neither an engine nor a suite; the nearest that is, if one is near.
    UnknownName(Option<String>),
    /// What stands in front of the colon is no engine.
    UnknownEngine(Option<String>),
    /// What stands behind the colon is no suite.
    UnknownSuite(Option<String>),
    /// No suite's name begins so.
    NothingBegins,
    /// It names a radix of FF1; rules hold for all of them. This is the suite's name without one.
    Radix(Suite),
    /// There is the same rule once more.
    Twice,
    /// It is one more than [`DISABLED_RULES_MAX`].
    TooMany,
}

impl Disabled {
    /// Reads rules. `engines` are the names that there are, whether or not this machine has all of them.
    ///
    /// # Errors
    /// The first rule that names what there is not, that stands there twice, or that is one too many.
    pub fn parse<'t>(rules: impl IntoIterator<Item = &'t str>, engines: &[&str]) -> Result<Disabled, BadRule> {
        let mut disabled = Disabled::default();
        for text in rules {
            let rule = DisabledRule::parse(text, engines)?;
            let bad = |problem| Err(BadRule { rule: text.to_owned(), problem });
            if disabled.rules.contains(&rule) {
                return bad(RuleProblem::Twice);
            }
            if disabled.rules.len() == DISABLED_RULES_MAX {
                return bad(RuleProblem::TooMany);
            }
            disabled.rules.push(rule);
        }
        Ok(disabled)
    }

    /// The rules, in the order in which they were given.
    pub fn rules(&self) -> &[DisabledRule] {
        &self.rules
    }

    /// Whether nothing is disabled.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule that disables an engine, whatever it runs.
    pub fn engine(&self, engine: &str) -> Option<&DisabledRule> {
        self.rules.iter().find(|rule| rule.suites.is_none() && rule.names_engine(engine))
    }

    /// The first rule that disables a suite on an engine.
    pub fn find(&self, engine: &str, suite: Suite) -> Option<&DisabledRule> {
        self.rules.iter().find(|rule| rule.names_engine(engine) && rule.names_suite(suite))
    }
}

impl DisabledRule {
    /// Reads one rule, as [`Disabled::parse`] does.
    ///
    /// # Errors
    /// It names what there is not.
    pub fn parse(text: &str, engines: &[&str]) -> Result<DisabledRule, BadRule> {
        let wanted = text.trim().to_ascii_lowercase();
        DisabledRule::of_names(&wanted, engines).map_err(|problem| BadRule { rule: text.to_owned(), problem })
    }

    fn of_names(wanted: &str, engines: &[&str]) -> Result<DisabledRule, RuleProblem> {
        let text = wanted.to_owned();
        if engines.contains(&wanted) {
            return Ok(DisabledRule { engine: Some(text.clone()), text, suites: None });
        }
        // No suite has a colon in its name.
        let Some((engine, suite)) = wanted.rsplit_once(':') else {
            let suites = suites_of(wanted).map_err(|problem| match problem {
                RuleProblem::UnknownSuite(_) => {
                    let suites = Suite::all().map(|suite| suite.to_string());
                    RuleProblem::UnknownName(nearest_name(wanted, names(engines).chain(suites)))
                }
                other => other,
            })?;
            return Ok(DisabledRule { text, engine: None, suites: Some(suites) });
        };
        if !engines.contains(&engine) {
            return Err(RuleProblem::UnknownEngine(nearest_name(engine, names(engines))));
        }
        Ok(DisabledRule { text, engine: Some(engine.to_owned()), suites: Some(suites_of(suite)?) })
    }

    /// Whether all that `other` disables is disabled by this rule too.
    pub fn covers(&self, other: &DisabledRule) -> bool {
        let has_engine = self.engine.is_none() || self.engine == other.engine;
        let has_suites = match (&self.suites, &other.suites) {
            (None, _) => true,
            (Some(own), Some(others)) => others.iter().all(|suite| own.contains(suite)),
            (Some(_), None) => false,
        };
        has_engine && has_suites
    }

    fn names_engine(&self, engine: &str) -> bool {
        self.engine.as_deref().is_none_or(|own| own == engine)
    }

    fn names_suite(&self, suite: Suite) -> bool {
        self.suites.as_ref().is_none_or(|own| own.contains(&suite.canonical()))
    }
}

fn names<'n>(engines: &'n [&'n str]) -> impl Iterator<Item = String> + 'n {
    engines.iter().map(|name| (*name).to_owned())
}

/// The suites that a name in a rule stands for.
fn suites_of(name: &str) -> Result<Vec<Suite>, RuleProblem> {
    match name.strip_suffix('*') {
        Some(beginning) if !beginning.is_empty() => {
            let suites: Vec<Suite> = Suite::all().filter(|suite| suite.to_string().starts_with(beginning)).collect();
            if suites.is_empty() { Err(RuleProblem::NothingBegins) } else { Ok(suites) }
        }
        _ => {
            let suite: Suite = name.parse().map_err(|unknown: ciphermill_contract::suite::UnknownSuite| {
                RuleProblem::UnknownSuite(unknown.nearest)
            })?;
            // Plans are the same for every radix.
            if suite == suite.canonical() { Ok(vec![suite]) } else { Err(RuleProblem::Radix(suite.canonical())) }
        }
    }
}

impl fmt::Display for DisabledRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadRule { rule, problem } = self;
        write!(f, "rule `{rule}`: ")?;
        let nearest = match problem {
            RuleProblem::UnknownName(nearest) => {
                f.write_str("there is neither an engine nor a suite of that name")?;
                nearest
            }
            RuleProblem::UnknownEngine(nearest) => {
                f.write_str("what stands in front of the colon is no engine")?;
                nearest
            }
            RuleProblem::UnknownSuite(nearest) => {
                f.write_str("what stands behind the colon is no suite")?;
                nearest
            }
            RuleProblem::NothingBegins => return f.write_str("no suite's name begins so"),
            RuleProblem::Radix(suite) => return write!(f, "a rule holds for every radix; write `{suite}`"),
            RuleProblem::Twice => return f.write_str("it stands there twice"),
            RuleProblem::TooMany => return write!(f, "there may be {DISABLED_RULES_MAX} rules, and this is one more"),
        };
        match nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BadRule {}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINES: &[&str] = &["lanes", "library", "reference", "gpu", "token:web"];

    fn suite(name: &str) -> Suite {
        name.parse().expect("a suite")
    }

    fn parse(rules: &[&str]) -> Result<Disabled, BadRule> {
        Disabled::parse(rules.iter().copied(), ENGINES)
    }

    /// The rules that disable a suite on each of the engines.
    fn found(disabled: &Disabled, name: &str) -> Vec<Option<String>> {
        ENGINES.iter().map(|engine| disabled.find(engine, suite(name)).map(ToString::to_string)).collect()
    }

    #[test]
    fn rules_cover_engines_suites_and_a_suite_on_an_engine() {
        let disabled = parse(&["lanes:des-cbc", " GPU ", "RC4", "library:rsa-2048-*", "token:web:rc4"]).expect("rules");
        let texts: Vec<String> = disabled.rules().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["lanes:des-cbc", "gpu", "rc4", "library:rsa-2048-*", "token:web:rc4"]);
        let by = |rule: &str| Some(rule.to_owned());
        assert_eq!(found(&disabled, "des-cbc"), [by("lanes:des-cbc"), None, None, by("gpu"), None]);
        // The first of several.
        assert_eq!(found(&disabled, "rc4"), [by("rc4"), by("rc4"), by("rc4"), by("gpu"), by("rc4")]);
        assert_eq!(found(&disabled, "rsa-2048-raw"), [None, by("library:rsa-2048-*"), None, by("gpu"), None]);
        for other in ["des-ecb", "des-cbc+hmac-sha1", "rsa-4096-raw", "generate-rsa-2048"] {
            assert_eq!(found(&disabled, other), [None, None, None, by("gpu"), None], "{other}");
        }
        assert_eq!(disabled.engine("gpu").map(ToString::to_string), by("gpu"));
        assert_eq!(["lanes", "library", "token:web", "rc4"].map(|name| disabled.engine(name)), [None; 4]);
    }

    #[test]
    fn a_rule_covers_narrower_ones() {
        let rule = |text: &str| DisabledRule::parse(text, ENGINES).expect("a rule");
        let covers = |wide: &str, narrow: &str| rule(wide).covers(&rule(narrow));
        for (wide, narrow) in [
            ("lanes", "lanes:des-cbc"),
            ("lanes", "lanes:des-*"),
            ("rc4", "lanes:rc4"),
            ("aes-*", "aes-128-gcm"),
            ("aes-*", "lanes:aes-128-*"),
        ] {
            assert!(covers(wide, narrow) && !covers(narrow, wide), "{wide} {narrow}");
        }
        for (one, other) in [("lanes", "library"), ("lanes", "rc4"), ("lanes:rc4", "gpu:rc4"), ("rc4", "lanes:des-cbc")]
        {
            assert!(!covers(one, other) && !covers(other, one), "{one} {other}");
        }
        assert!(covers("rc4", "rc4") && covers("gpu", "gpu"));
    }

    #[test]
    fn every_suite_can_be_named_and_nothing_is_disabled_by_default() {
        for suite in Suite::all() {
            let disabled = parse(&[&suite.to_string()]).expect("a rule");
            assert!(Suite::all().all(|other| disabled.find("lanes", other).is_some() == (other == suite)), "{suite}");
        }
        assert!(Disabled::default().is_empty() && parse(&[]).is_ok_and(|disabled| disabled.is_empty()));
        assert!(Suite::all().all(|suite| Disabled::default().find("lanes", suite).is_none()));
    }

    #[test]
    fn a_rule_for_ff1_holds_for_every_radix() {
        let disabled = parse(&["ff1-aes-256"]).expect("a rule");
        assert!(disabled.find("lanes", suite("ff1-aes-256-radix-36")).is_some());
        assert!(disabled.find("lanes", suite("ff1-aes-128-radix-36")).is_none());
    }

    #[test]
    fn bad_rules_say_which_and_why() {
        let neither = "there is neither an engine nor a suite of that name";
        for (rule, words) in [
            ("rc5", format!("{neither}; did you mean `rc4`?")),
            ("gpus", format!("{neither}; did you mean `gpu`?")),
            ("libary", format!("{neither}; did you mean `library`?")),
            ("abacus", neither.to_owned()),
            ("", neither.to_owned()),
            ("*", neither.to_owned()),
            ("token", neither.to_owned()),
            ("rot13-*", "no suite's name begins so".to_owned()),
            ("lane:des-cbc", "what stands in front of the colon is no engine; did you mean `lanes`?".to_owned()),
            (":rc4", "what stands in front of the colon is no engine".to_owned()),
            ("lanes:des-cbd", "what stands behind the colon is no suite; did you mean `des-cbc`?".to_owned()),
            ("lanes:", "what stands behind the colon is no suite".to_owned()),
            ("lanes:*", "what stands behind the colon is no suite".to_owned()),
            ("lanes:gpu", "what stands behind the colon is no suite".to_owned()),
            ("lanes:abc-*", "no suite's name begins so".to_owned()),
            ("ff1-aes-256-radix-36", "a rule holds for every radix; write `ff1-aes-256`".to_owned()),
            ("gpu:ff1-aes-128-radix-2", "a rule holds for every radix; write `ff1-aes-128`".to_owned()),
        ] {
            let error = parse(&["gpu", rule]).expect_err("no rule");
            assert_eq!(error.to_string(), format!("rule `{rule}`: {words}"));
        }
    }

    #[test]
    fn rules_stand_once_and_have_a_limit() {
        let error = parse(&["rc4", "gpu", " rc4"]).expect_err("twice");
        assert_eq!(error.to_string(), "rule ` rc4`: it stands there twice");
        let names: Vec<String> = Suite::all().map(|suite| suite.to_string()).collect();
        let of = |engine: &str| names.iter().map(|name| format!("{engine}:{name}")).collect::<Vec<_>>();
        let many: Vec<String> = ["lanes", "library", "reference"].iter().flat_map(|engine| of(engine)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).take(DISABLED_RULES_MAX + 1).collect();
        assert!(parse(&many[1..]).is_ok());
        let error = parse(&many).expect_err("one too many");
        assert_eq!((error.rule.as_str(), error.problem), (many[DISABLED_RULES_MAX], RuleProblem::TooMany));
    }
}
