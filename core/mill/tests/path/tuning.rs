//! Measuring engines, and going by what was measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill::tuning::{self, Effort};
use ciphermill::{Costs, MeasuredCost, Mill, RunOptions, SIZE_CLASSES, SelfTest, Verdict, size_class};
use ciphermill_contract::suite::lists::AES_GCM;
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Direction, Engine, EngineInfo, EngineKind, EngineQueue, KeyMaterial, OpStatus,
    PreparedKey, QueueHint, Result, Suite,
};

use crate::engines::{Fault, bulk, faulty, mark};
use crate::{CBC, suite};

const EFFORT: Effort = Effort { time: Duration::from_millis(400), rounds: 6 };

/// What [`Spinner`] takes.
const TRUE_COST: Cost = Cost::new(20_000.0, 300.0, 0.5);

/// Takes as long as a cost says.
struct Spinner(EngineInfo);

const SPINNER: &[Capability] = &[Capability::new(&AES_GCM, Cost::new(0.0, 1.0, 0.0))];

impl Engine for Spinner {
    fn info(&self) -> &EngineInfo {
        &self.0
    }

    fn capabilities(&self) -> &[Capability] {
        SPINNER
    }

    fn prepare(&self, _key: &KeyMaterial<'_>, _suite: Suite) -> Result<PreparedKey> {
        Ok(PreparedKey::new(()))
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(SpinnerQueue))
    }
}

struct SpinnerQueue;

impl EngineQueue for SpinnerQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let start = Instant::now();
        let wanted_ns = TRUE_COST.predict_ns(batch.len() as u64, batch.input_bytes());
        batch.process(|_| OpStatus::Done);
        while (start.elapsed().as_nanos() as f64) < wanted_ns {
            std::hint::spin_loop();
        }
    }
}

fn spinner() -> Arc<dyn Engine> {
    let kind = EngineKind::Library;
    Arc::new(Spinner(EngineInfo { name: "spinner", kind, version: "7".into(), parallelism: 1, kernels: Vec::new() }))
}

#[test]
fn what_an_engine_takes_is_found() {
    let gcm = suite("aes-256-gcm");
    let pairs = tuning::pairs(&[spinner(), spinner()], |wanted| wanted == gcm);
    assert_eq!(pairs.len(), 2, "both directions, once");
    let mut heard = Vec::new();
    let tuned = tuning::tune(&pairs, EFFORT, |done, pair| heard.push((done, pair.direction)));
    assert_eq!((tuned.left_out, heard.len()), (Vec::new(), 2));
    for cost in &tuned.costs {
        assert_eq!((cost.engine.as_str(), cost.version.as_str(), cost.kernel.as_str()), ("spinner", "7", "default"));
        // A machine that is busy makes it longer, but hardly a third of all times twice as long.
        for (ops, len) in [(1, 16), (64, 64), (1024, 256)] {
            let ratio = cost.cost.predict_ns(ops, ops * len) / TRUE_COST.predict_ns(ops, ops * len);
            assert!((0.5..2.0).contains(&ratio), "{ratio} for {ops} of {len}: {cost:?}");
        }
    }
}

#[test]
fn what_does_not_end_well_is_left_out_and_said() {
    for (fault, word) in [(Fault::Forgets, "pending"), (Fault::RefusesKeys, "refused"), (Fault::NoQueue, "")] {
        let pairs = tuning::pairs(&[faulty("library", fault)], |wanted| wanted == suite(CBC));
        let tuned = tuning::tune(&pairs, EFFORT, |_, _| {});
        assert_eq!((tuned.costs.len(), tuned.left_out.len()), (0, 2));
        assert!(tuned.left_out.iter().all(|left_out| left_out.why.contains(word)), "{:?}", tuned.left_out);
    }
}

#[test]
fn a_mill_goes_by_what_was_measured() {
    let cost = |engine: &str, cost, factors| MeasuredCost {
        engine: engine.to_owned(),
        version: String::new(),
        kernel: "default".to_owned(),
        suite: suite(CBC),
        direction: Direction::Encrypt,
        cost,
        spread: 0.1,
        factors,
    };
    let mut costs = Costs::new();
    costs.set_wakeup_ns(0.0);
    costs.insert(cost("library", Cost::new(0.0, 100.0, 0.0), [1.0; SIZE_CLASSES]));
    let mut factors = [1.0; SIZE_CLASSES];
    factors[size_class(1, 16)] = 5.0;
    costs.insert(cost("gpu", Cost::new(0.0, 50.0, 0.0), factors));
    let open = |costs| {
        let mill = Mill::builder().engines([mark("library", 1), bulk("gpu", 2)]).self_test(SelfTest::Never);
        mill.costs(costs).open().expect("opens")
    };
    let chosen = |mill: &Mill, ops| {
        let explained = mill.explain(suite(CBC), Direction::Encrypt, ops, 16, &RunOptions::default());
        let explained = explained.expect("explains");
        (explained.route.expect("a route").name, explained.candidates)
    };
    let (name, candidates) = chosen(&open(costs.clone()), 1);
    assert_eq!((name, candidates[1].class_factor, candidates[1].spread), ("library", 5.0, Some(0.1)));
    assert!(matches!(candidates[1].verdict, Verdict::Predicted(ns) if (ns - 250.0).abs() < 1.0));
    assert_eq!(chosen(&open(costs), 8).0, "gpu");
    assert_eq!(chosen(&open(Costs::new()), 8).0, "library", "the engines' own estimates");
}
