//! Measuring engines whose costs are known, and engines that fail.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_contract::suite::lists::{AES_GCM, DIGESTS};
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Engine, EngineInfo, EngineKind, EngineQueue, KeyMaterial, OpStatus, PreparedKey,
    QueueHint, Result, Suite,
};
use ciphermill_fault::{Fault, FaultEngine, Script};
use ciphermill_tuning::{Effort, pairs, tune};

const EFFORT: Effort = Effort { time: Duration::from_millis(400), rounds: 6 };

/// What [`Spinner`] takes.
const TRUE_COST: Cost = Cost::new(20_000.0, 300.0, 0.5);

/// Takes as long as a cost says.
struct Spinner(EngineInfo);

const PRIOR: Cost = Cost::new(0.0, 1.0, 0.0);
const SPINNER: &[Capability] = &[Capability::new(&AES_GCM, PRIOR), Capability::new(&DIGESTS, PRIOR)];

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

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

#[test]
fn what_an_engine_takes_is_found() {
    let gcm = suite("aes-256-gcm");
    let pairs = pairs(&[spinner(), spinner()], |wanted| wanted == gcm);
    assert_eq!(pairs.len(), 2, "both directions, once");
    let mut heard = Vec::new();
    let tuned = tune(&pairs, EFFORT, |done, pair| heard.push((done, pair.direction)));
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
    let healthy = Script::healthy;
    for (batches, calls, name, directions, word) in [
        (Script::always(Fault::Unfinished), healthy(), "aes-256-gcm", 2, "pending"),
        (healthy(), Script::always(Fault::Errors), "aes-256-gcm", 2, "refused"),
        // There are no keys, so that the calls are for queues.
        (healthy(), Script::always(Fault::Errors), "sha256", 1, "engine flaky"),
    ] {
        let engine = FaultEngine::new("flaky", spinner(), batches).with_call_script(calls);
        let pairs = pairs(&[Arc::new(engine)], |wanted| wanted == suite(name));
        let tuned = tune(&pairs, EFFORT, |_, _| {});
        assert_eq!((tuned.costs.len(), tuned.left_out.len()), (0, directions));
        assert!(tuned.left_out.iter().all(|left_out| left_out.why.contains(word)), "{:?}", tuned.left_out);
    }
}
