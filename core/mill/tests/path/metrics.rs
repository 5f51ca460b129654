//! What the mill counts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ciphermill::{KeyPolicy, Mill, RunOptions, SelfTest, Snapshot, SuiteMetrics, TrustPolicy};
use ciphermill_contract::{Batch, Direction, EngineKind, KeyId, KeyMaterial, OpStatus};

use crate::engines::{Fault, faulty, mark, slow};
use crate::{CBC, import, mill, op, suite};

fn run(mill: &mut ciphermill::Session, direction: Direction, key: KeyId, count: usize) {
    let mut ops: Vec<_> = (0..count).map(|index| op(key, index)).collect();
    mill.run(Batch::new(suite(CBC), direction, &mut ops, &mut vec![0; 16 * count])).expect("runs");
}

fn find<'s>(snapshot: &'s Snapshot, engine: &str, direction: Direction) -> &'s SuiteMetrics {
    let engine = snapshot.engines.iter().find(|found| found.engine == engine).expect("the engine");
    engine.suites.iter().find(|suite| suite.direction == direction).expect("the direction")
}

#[test]
fn counts_are_exact_over_threads_and_sessions_that_end() {
    const THREADS: usize = 4;
    const SESSIONS: usize = 40;
    let mill = mill([mark("library", 1)]);
    let key = import(&mill, KeyPolicy::default());
    assert!(mill.metrics().engines[0].suites.is_empty());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..SESSIONS {
                    let mut session = mill.session();
                    for count in 1..=20 {
                        run(&mut session, Direction::Encrypt, key, count);
                        run(&mut session, Direction::Decrypt, key, 2);
                    }
                    let seen = mill.metrics();
                    assert!(find(&seen, "library", Direction::Decrypt).batches >= 20);
                }
            });
        }
    });
    let rounds = (THREADS * SESSIONS) as u64;
    let mut kept = mill.session();
    run(&mut kept, Direction::Encrypt, key, 5);
    for _ in 0..2 {
        let snapshot = mill.metrics();
        let encrypt = find(&snapshot, "library", Direction::Encrypt);
        assert_eq!(encrypt.batches, 20 * rounds + 1);
        assert_eq!(encrypt.operations.done, 210 * rounds + 5);
        assert_eq!(encrypt.input_bytes, 16 * (210 * rounds + 5));
        assert_eq!(encrypt.routes.only, encrypt.batches);
        let decrypt = find(&snapshot, "library", Direction::Decrypt);
        assert_eq!((decrypt.batches, decrypt.operations.done), (20 * rounds, 40 * rounds));
        let failed = |suite: &SuiteMetrics| suite.operations.named()[1..].iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(failed(encrypt) + failed(decrypt), 0);
    }
}

#[test]
fn timed_runs_stand_for_those_between() {
    let mill = mill([mark("library", 1)]);
    let key = import(&mill, KeyPolicy::default());
    let mut session = mill.session();
    for _ in 0..1000 {
        run(&mut session, Direction::Encrypt, key, 3);
    }
    let snapshot = mill.metrics();
    let encrypt = find(&snapshot, "library", Direction::Encrypt);
    let timed = encrypt.latency_ns.count();
    assert!((985..=1000).contains(&timed), "{timed}");
    assert_eq!(encrypt.ratio_thousandths.count(), timed);
    let (median, worst) = (encrypt.latency_ns.quantile(0.5), encrypt.latency_ns.max());
    assert!(0 < median && median <= worst);
    assert!(encrypt.latency_ns.sum() >= u128::from(worst));
}

#[test]
fn failures_are_counted_by_kind_and_replays_where_they_came_from() {
    let mill = mill([faulty("library", Fault::Forgets), slow("reference", EngineKind::Reference, 2)]);
    let key = import(&mill, KeyPolicy::default());
    let lost = import(&mill, KeyPolicy::default());
    mill.keys().destroy(lost).expect("there");
    let mut ops: Vec<_> = (0..4)
        .map(|index| op(if index == 3 { lost } else { key }, index).with_output(64 + 16 * index as u32))
        .collect();
    let report = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut [0; 128])).expect("runs");
    assert_eq!((report.done, report.failed, report.route.name), (3, 1, "reference"));
    let snapshot = mill.metrics();
    let first = find(&snapshot, "library", Direction::Encrypt);
    assert_eq!((first.batches, first.operations.done, first.operations.engine_fault), (1, 1, 2));
    assert_eq!((first.replayed, first.operations.refused, first.input_bytes), (2, 0, 48));
    assert_eq!(first.routes.fastest, 1);
    let second = find(&snapshot, "reference", Direction::Encrypt);
    assert_eq!((second.batches, second.operations.done, second.operations.engine_fault), (1, 2, 0));
    assert_eq!((second.replayed, second.operations.refused, second.input_bytes), (0, 1, 32));
    assert_eq!(second.routes.only, 1);
}

#[test]
fn an_operation_that_nobody_can_replay_is_a_fault_once() {
    let mill = mill([faulty("library", Fault::Forgets)]);
    let key = import(&mill, KeyPolicy::default());
    let mut ops = [op(key, 0), op(key, 1), op(key, 2)];
    mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut ops, &mut [0; 48])).expect("runs");
    assert_eq!(ops[2].status, OpStatus::EngineFault);
    let snapshot = mill.metrics();
    let only = find(&snapshot, "library", Direction::Encrypt);
    assert_eq!((only.operations.done, only.operations.engine_fault, only.replayed), (1, 2, 0));
}

#[test]
fn pins_and_engines_that_have_left_are_in_the_books() {
    let mill = mill([mark("library", 1), slow("reference", EngineKind::Reference, 2)]);
    let key = import(&mill, KeyPolicy::default());
    let options = RunOptions { engine: Some("reference"), ..RunOptions::default() };
    for _ in 0..3 {
        let batch = &mut [op(key, 0)];
        mill.run_with(Batch::new(suite(CBC), Direction::Encrypt, batch, &mut [0; 16]), &options).expect("runs");
    }
    mill.remove_engine("reference").expect("there");
    for present in [false, true] {
        let snapshot = mill.metrics();
        assert_eq!(find(&snapshot, "reference", Direction::Encrypt).routes.pinned, 3);
        assert_eq!(
            snapshot.engines.iter().find(|engine| engine.engine == "reference").map(|engine| engine.present),
            Some(present)
        );
        if !present {
            // The session that counted sees that the engine has left.
            mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut [op(key, 0)], &mut [0; 16])).expect("runs");
            mill.add_engine(slow("reference", EngineKind::Reference, 2)).expect("joins");
        }
    }
}

#[test]
fn witnesses_and_quarantines_are_counted() {
    for (second, disagreements) in [(1u8, 0u64), (2, 1)] {
        let trust = TrustPolicy { witness_every: 1, quarantine_min: Duration::from_secs(60), ..TrustPolicy::default() };
        let engines = [mark("library", 1), slow("reference", EngineKind::Reference, second)];
        let mill = Mill::builder().engines(engines).trust(trust).self_test(SelfTest::Never).open().expect("opens");
        let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("room");
        let ran = mill.run(Batch::new(suite(CBC), Direction::Encrypt, &mut [op(key, 0)], &mut [0; 16]));
        // Neither of these engines knows the known answers, so when they disagree nobody is left.
        assert_eq!(ran.is_ok(), disagreements == 0);
        let snapshot = mill.metrics();
        let witnessed = find(&snapshot, "library", Direction::Encrypt);
        assert_eq!((witnessed.witnessed, witnessed.disagreements), (1, disagreements));
        assert!(witnessed.witness_ns > 0);
        let quarantines: u64 = snapshot.engines.iter().map(|engine| engine.quarantines).sum();
        let quarantined = snapshot.engines.iter().filter(|engine| engine.quarantined).count();
        assert_eq!((quarantines, quarantined), (disagreements, disagreements as usize));
    }
}

/// A checker of the text format 0.0.4, as its specification words it; returns the samples.
fn check(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut types, mut helped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    let mut finished: BTreeSet<String> = BTreeSet::new();
    let mut current = String::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help text");
            assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            assert!(helped.contains(name) && types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            assert!(finished.insert(std::mem::replace(&mut current, name.to_owned())), "metrics stand together");
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a value");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number in {line}"));
            assert!(value.is_finite() && value >= 0.0, "{line}");
            let name = sample.split('{').next().unwrap_or(sample);
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{line}");
            let is_part = types[&current] == "summary"
                && [format!("{current}_sum"), format!("{current}_count")].contains(&name.to_owned());
            assert!(name == current || is_part, "{line} stands below {current}");
            if let Some(labels) = sample.strip_prefix(name).filter(|labels| !labels.is_empty()) {
                check_labels(labels.strip_prefix('{').and_then(|labels| labels.strip_suffix('}')).expect("braces"));
            }
            assert!(samples.insert(sample.to_owned(), value).is_none(), "{line} twice");
        }
    }
    samples
}

fn check_labels(mut labels: &str) {
    loop {
        let (name, rest) = labels.split_once("=\"").expect("a label");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase()), "{name}");
        let mut escaped = false;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            assert!(!escaped || [b'\\', b'"', b'n'].contains(&byte), "{rest}");
            escaped = byte == b'\\' && !escaped;
            ends
        });
        match &rest[end.expect("an end") + 1..] {
            "" => return,
            more => labels = more.strip_prefix(',').expect("a comma"),
        }
    }
}

#[test]
fn the_prometheus_text_is_well_formed_and_tells_the_same() {
    let mill = mill([mark("odd \"name\\\n", 1), slow("reference", EngineKind::Reference, 2)]);
    let key = import(&mill, KeyPolicy::default());
    let mut session = mill.session();
    for _ in 0..100 {
        run(&mut session, Direction::Encrypt, key, 7);
    }
    let text = mill.metrics().prometheus();
    let samples = check(&text);
    let labels = r#"{engine="odd \"name\\\n",suite="aes-128-cbc",direction="encrypt""#;
    let sample = |name: &str, more: &str| samples[&format!("ciphermill_{name}{labels}{more}}}")];
    assert_eq!(sample("batches_total", ""), 100.0);
    assert_eq!(sample("operations_total", ",outcome=\"done\""), 700.0);
    assert_eq!(sample("operations_total", ",outcome=\"refused\""), 0.0);
    assert_eq!(sample("input_bytes_total", ""), 11_200.0);
    assert_eq!(sample("routes_total", ",reason=\"fastest\""), 100.0);
    let seconds = |quantile: &str| sample("batch_seconds", &format!(",quantile=\"{quantile}\""));
    assert!(seconds("0.5") > 0.0 && seconds("0.5") <= seconds("0.999") && seconds("0.999") < 60.0);
    assert!(sample("batch_seconds_count", "") >= 85.0 && sample("prediction_ratio_sum", "") > 0.0);
    assert_eq!(samples["ciphermill_queued_batches"], 0.0);
    assert_eq!(samples["ciphermill_quarantined{engine=\"reference\"}"], 0.0);
}
