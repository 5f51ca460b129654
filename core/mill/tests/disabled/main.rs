//! Engines and suites that rules disable: no way leads around a rule, and every way comes back when it is taken away.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod elsewhere;
mod reload;
mod ways;

use std::sync::{Arc, OnceLock};

use ciphermill::{Costs, Disabled, KeyPolicy, Mill, RunOptions, SelfTest, SelfTestState, TrustPolicy};
use ciphermill_contract::error::Refusal;
use ciphermill_contract::{Cost, Direction, Engine, EngineKind, Error, KeyId, KeyMaterial, Suite};
use ciphermill_fault::{FaultEngine, FaultHandle, Script};
use ciphermill_reference::Reference;
use ways::{SUITE, WAYS};

/// Names that rules may have.
const NAMES: [&str; 4] = ["first", "second", "third", "gpu"];

pub(crate) fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

pub(crate) fn rules(rules: &[&str]) -> Disabled {
    Disabled::parse(rules.iter().copied(), &NAMES).expect("rules")
}

pub(crate) fn refused() -> Result<(), Error> {
    Err(Error::Refused(Refusal::Disabled(suite(SUITE), Direction::Encrypt)))
}

fn reference() -> Arc<dyn Engine> {
    static REFERENCE: OnceLock<Arc<dyn Engine>> = OnceLock::new();
    Arc::clone(REFERENCE.get_or_init(|| Arc::new(Reference::new())))
}

/// A mill of these engines, each slower by its own figures than the one before, and what counts their batches.
pub(crate) fn mill_of<const N: usize>(
    engines: [(&'static str, EngineKind, Script); N],
    witness_every: u32,
) -> (Mill, [FaultHandle; N]) {
    let mut cost_ns = 1.0;
    let engines = engines.map(|(name, kind, script)| {
        cost_ns *= 1e4;
        let engine = FaultEngine::new(name, reference(), script).with_kind(kind);
        engine.with_prior(Cost::new(0.0, cost_ns, 0.0))
    });
    let handles = std::array::from_fn(|index| engines[index].handle());
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    let trust = TrustPolicy { witness_every, ..TrustPolicy::default() };
    let builder = Mill::builder().engines(engines.map(|engine| Arc::new(engine) as Arc<dyn Engine>));
    let builder = builder.costs(costs).trust(trust).workers(0).legacy(true).self_test(SelfTest::Never);
    (builder.open().expect("opens"), handles)
}

pub(crate) fn healthy(name: &'static str) -> (&'static str, EngineKind, Script) {
    (name, EngineKind::Library, Script::healthy())
}

pub(crate) fn import(mill: &Mill) -> KeyId {
    mill.keys().import(KeyMaterial::secret(&[7; 32]), KeyPolicy::default()).expect("room")
}

/// Which of two engines have had batches since the last call.
pub(crate) fn seen(handles: &[FaultHandle; 2], before: &mut [u64; 2]) -> [bool; 2] {
    let now = [0, 1].map(|index| handles[index].batches());
    let seen = [0, 1].map(|index| now[index] > before[index]);
    *before = now;
    seen
}

#[test]
fn every_way_goes_by_the_rules() {
    for (name, way) in WAYS {
        let (mill, handles) = mill_of([healthy("first"), healthy("second")], 0);
        let (key, mut before) = (import(&mill), [0; 2]);
        let mut check = |disabled: &[&str], expected: [bool; 2]| {
            mill.set_disabled(rules(disabled));
            // Until a handle has a way, and beyond.
            for _ in 0..3 {
                let result = if expected == [false; 2] { refused() } else { Ok(()) };
                assert_eq!(way(&mill, key), result, "{name} with {disabled:?}");
            }
            let seen = seen(&handles, &mut before);
            // A transform's source, whose suite is none of the rules', goes to the first engine that there is.
            let from = if name == "a transform" { 1 } else { 0 };
            assert_eq!(seen[from..], expected[from..], "{name} with {disabled:?}");
        };
        check(&[], [true, false]);
        check(&["first:aes-256-gcm"], [false, true]);
        check(&["first"], [false, true]);
        check(&["gpu", "rc4", "first:aes-128-gcm", "second"], [true, false]);
        check(&[SUITE], [false; 2]);
        check(&["first:aes-256-gcm*", "second:aes-256-gcm"], [false; 2]);
        check(&[], [true, false]);
    }
}

#[test]
fn a_transform_obeys_rules_for_either_half() {
    let (mill, _) = mill_of([healthy("first")], 0);
    let key = import(&mill);
    let (_, transform) = WAYS[WAYS.len() - 1];
    mill.set_disabled(rules(&[SUITE]));
    assert_eq!(transform(&mill, key), refused());
    mill.set_disabled(rules(&["first:aes-256-siv"]));
    let siv = Error::Refused(Refusal::Disabled(suite("aes-256-siv"), Direction::Encrypt));
    assert_eq!(transform(&mill, key), Err(siv));
}

#[test]
fn a_pinned_engine_is_no_way_around_a_rule() {
    let (mill, handles) = mill_of([healthy("first"), healthy("second")], 0);
    let key = import(&mill);
    mill.set_disabled(rules(&["second:aes-256-gcm"]));
    let run = |options: &RunOptions<'_>| {
        let (mut ops, mut arena) = (ways::ops(key, 1), [0; 48]);
        let batch = ciphermill_contract::Batch::new(suite(SUITE), Direction::Encrypt, &mut ops, &mut arena);
        mill.run_with(batch, options).map(|report| report.route.name)
    };
    let pinned = |engine| RunOptions { engine: Some(engine), ..RunOptions::default() };
    assert_eq!(run(&pinned("second")), refused().map(|()| ""));
    assert_eq!(run(&pinned("first")), Ok("first"));
    assert_eq!(run(&pinned("third")), Err(Error::Refused(Refusal::EngineUnavailable("third".to_owned()))));
    // What a kind forbids is not a rule's work.
    let kinds = RunOptions { kinds: ciphermill_contract::EngineKinds::only(EngineKind::Gpu), ..RunOptions::default() };
    let no_engine = Error::Refused(Refusal::NoEngine(suite(SUITE), Direction::Encrypt));
    assert_eq!(run(&kinds), Err(no_engine));
    assert_eq!(handles[1].batches(), 0);
}

#[test]
fn key_pairs_are_generated_where_no_rule_forbids_it() {
    use ciphermill_contract::suite::KeyPair;

    let (mill, handles) = mill_of([healthy("first"), healthy("second")], 0);
    mill.set_disabled(rules(&["first:generate-*"]));
    assert!(mill.generate_pair(KeyPair::Ed25519).is_ok());
    assert_eq!([handles[0].batches(), handles[1].batches()], [0, 1]);
    mill.set_disabled(rules(&["generate-ed25519"]));
    let refusal = Refusal::Disabled(Suite::Generate(KeyPair::Ed25519), Direction::Encrypt);
    assert_eq!(mill.generate_pair(KeyPair::Ed25519).err(), Some(Error::Refused(refusal)));
    assert!(mill.generate_pair(KeyPair::X25519).is_ok());
}

#[test]
fn known_answers_and_keys_are_kept_from_disabled_engines() {
    let (mill, handles) = mill_of([healthy("first"), healthy("second")], 0);
    mill.set_disabled(rules(&["first", "second:aes-*"]));
    let (mut tested, mut untested) = (0, 0);
    mill.self_test(|engine, suite, state| {
        assert!(engine == "second" && !suite.to_string().starts_with("aes-"), "{engine} {suite} {state:?}");
        tested += 1;
    });
    for report in mill.engines() {
        let whole = (report.info.name == "first").then_some("first");
        assert_eq!(report.disabled.as_deref(), whole);
        for suite in report.suites {
            let rule = if suite.suite.to_string().starts_with("aes-") { Some("second:aes-*") } else { None };
            assert_eq!(suite.disabled.as_deref(), whole.or(rule), "{}", suite.suite);
            if suite.disabled.is_some() {
                assert_eq!(suite.self_test, SelfTestState::Untested, "{}", suite.suite);
                untested += 1;
            }
        }
    }
    assert!(tested > 100 && untested > 100, "{tested} tested, {untested} not");
    assert_eq!(handles[0].batches(), 0);
    let keys = [import(&mill)];
    assert_eq!(mill.prepare(suite(SUITE), &keys), 0);
    mill.set_disabled(rules(&["first"]));
    assert_eq!(mill.prepare(suite(SUITE), &keys), 1);
}

#[test]
fn the_router_explains_what_it_leaves_out_and_by_which_rule() {
    let (mill, _) = mill_of([healthy("first"), healthy("second")], 0);
    let explain = || mill.explain(suite(SUITE), Direction::Encrypt, 10, 64, &RunOptions::default()).expect("explains");
    assert_eq!((explain().candidates.len(), explain().disabled.len()), (2, 0));
    mill.set_disabled(rules(&["first:aes-256-gcm", "aes-256-*"]));
    let explained = explain();
    assert_eq!((explained.candidates.len(), explained.route), (0, None));
    let rules: Vec<_> = explained.disabled.iter().map(|one| (one.engine, one.rule.as_str())).collect();
    assert_eq!(rules, [("first", "first:aes-256-gcm"), ("second", "aes-256-*")]);
    let texts: Vec<String> = mill.disabled().rules().iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["first:aes-256-gcm", "aes-256-*"]);
}

#[test]
fn rules_hold_from_the_start_for_engines_that_join_and_for_legacy_suites() {
    let engine = |name| {
        let engine = FaultEngine::new(name, reference(), Script::healthy()).with_kind(EngineKind::Library);
        Arc::new(engine) as Arc<dyn Engine>
    };
    let builder = Mill::builder().engine(engine("first")).disabled(rules(&["first", "second:aes-256-gcm", "rc4"]));
    let mill = builder.self_test(SelfTest::AtOpen).open().expect("opens");
    let key = import(&mill);
    assert!(mill.engines()[0].suites.iter().all(|suite| suite.self_test == SelfTestState::Untested));
    assert_eq!(ways::batch(&mill, key), refused());
    mill.add_engine(engine("second")).expect("room");
    assert_eq!(ways::batch(&mill, key), refused());
    mill.add_engine(engine("third")).expect("room");
    assert_eq!(ways::batch(&mill, key), Ok(()));
    // The older rule is asked first.
    let rc4 = mill.bind(suite("rc4"), Direction::Encrypt, key).err();
    assert_eq!(rc4, Some(Error::Refused(Refusal::LegacyDisabled(suite("rc4")))));
}
