//! What engines say of themselves, and what those get that say no more than they must.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::capability::find;
use ciphermill_contract::engine::Kernel;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Direction, Directions, Engine, EngineInfo, EngineKind, EngineKinds, EngineQueue,
    Error, KeyMaterial, Occupancy, PreparedKey, QueueHint, Result, Suite, Timing,
};

fn suite(name: &str) -> Suite {
    name.parse().expect("a suite")
}

#[test]
fn a_capability_covers_its_suites_in_its_directions() {
    const COST: Cost = Cost::new(1.0, 2.0, 3.0);
    let suites: &[Suite] = Vec::leak(vec![suite("aes-128-gcm"), suite("sha256"), suite("ff1-aes-128")]);
    let all = Capability::new(suites, COST);
    let back = all.directions(Directions::DECRYPT).lanes(8).variable_time().input_len_max(1000);
    assert_eq!((all.lanes, all.timing, all.input_len_max), (1, Timing::Constant, usize::MAX));
    assert_eq!((back.lanes, back.timing, back.input_len_max), (8, Timing::Variable, 1000));
    let covers = |capability: &Capability, name: &str| {
        [Direction::Encrypt, Direction::Decrypt].map(|direction| capability.covers(suite(name), direction))
    };
    assert_eq!(covers(&all, "aes-128-gcm"), [true, true]);
    assert_eq!(covers(&all, "sha256"), [true, false], "a digest has no way back");
    assert_eq!(covers(&all, "ff1-aes-128-radix-36"), [true, true], "whatever the radix");
    assert_eq!(covers(&all, "aes-256-gcm"), [false, false]);
    assert_eq!(covers(&back, "aes-128-gcm"), [false, true]);
    assert_eq!(covers(&back, "sha256"), [false, false]);

    let table = [back, all];
    let lanes = |direction| find(&table, suite("aes-128-gcm"), direction).map(|found| found.lanes);
    assert_eq!((lanes(Direction::Encrypt), lanes(Direction::Decrypt)), (Some(1), Some(8)), "the first that covers");
    assert!(find(&table, suite("md5"), Direction::Encrypt).is_none());
}

#[test]
fn directions_are_read_from_the_bits_that_they_are_written_as() {
    for directions in [Directions::ENCRYPT, Directions::DECRYPT, Directions::BOTH] {
        assert_eq!(Directions::from_bits(directions.bits()), Some(directions));
    }
    assert_eq!((Directions::from_bits(0), Directions::from_bits(4), Directions::from_bits(255)), (None, None, None));
}

#[test]
fn kinds_are_told_by_name_and_kept_in_sets() {
    let in_process =
        [EngineKind::Reference, EngineKind::Library, EngineKind::Lanes, EngineKind::Peer, EngineKind::Fault];
    let can_fail = [EngineKind::Gpu, EngineKind::Token, EngineKind::Service, EngineKind::Fault];
    for kind in EngineKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(EngineKinds::IN_PROCESS.contains(kind), in_process.contains(&kind), "{kind}");
        assert_eq!(kind.can_fail(), can_fail.contains(&kind), "{kind}");
    }
    assert!("abacus".parse::<EngineKind>().is_err());
    let two = EngineKinds::only(EngineKind::Gpu).with(EngineKind::Lanes);
    assert_eq!(two.with(EngineKind::Gpu), two, "a set holds a kind once");
    assert_eq!((two.bits(), EngineKinds::from_bits(two.bits())), (0b1100, two));
    assert_eq!(two.intersect(EngineKinds::IN_PROCESS), EngineKinds::only(EngineKind::Lanes));
    assert!(two.intersect(EngineKinds::only(EngineKind::Token)).is_empty() && !two.is_empty());
    assert_eq!(format!("{two:?}"), "{Lanes, Gpu}");
}

#[test]
fn a_cost_has_a_term_for_the_batch_its_operations_and_its_bytes() {
    let cost = Cost::new(100.0, 10.0, 0.5);
    assert_eq!((cost.predict_ns(0, 0), cost.predict_ns(4, 0), cost.predict_ns(4, 64)), (100.0, 140.0, 172.0));
    assert_eq!(cost.scaled(4.0), Cost::new(400.0, 40.0, 2.0));
}

#[test]
fn occupancy_is_the_share_of_all_steps_counted() {
    let mut occupancy = Occupancy::default();
    assert_eq!(occupancy.idle_share(), None);
    occupancy.add(2, 1);
    occupancy.add(4, 1);
    assert_eq!((occupancy, occupancy.idle_share()), (Occupancy { busy: 6, idle: 2 }, Some(0.25)));
}

#[test]
fn a_suite_runs_on_the_kernel_of_its_family_or_on_the_only_one() {
    let info = |kernels: &[(&'static str, &str)]| EngineInfo {
        name: "test",
        kind: EngineKind::Lanes,
        version: String::new(),
        parallelism: 1,
        kernels: kernels.iter().map(|(family, name)| Kernel { family, name: (*name).to_owned() }).collect(),
    };
    let both = info(&[("aes", "vaes512"), ("des", "avx2")]);
    assert_eq!(both.kernel_for(suite("aes-128-gcm")), "vaes512");
    assert_eq!(both.kernel_for(suite("3des-cbc+hmac-sha1")), "avx2");
    assert_eq!(both.kernel_for(suite("sha256")), "default");
    assert_eq!(info(&[("all", "portable")]).kernel_for(suite("sha256")), "portable");
    assert_eq!(info(&[]).kernel_for(suite("sha256")), "default");
}

/// An engine that does what it must.
struct Least(EngineInfo);

impl Engine for Least {
    fn info(&self) -> &EngineInfo {
        &self.0
    }
    fn capabilities(&self) -> &[Capability] {
        &[]
    }
    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        suite.check_key(key)?;
        Ok(PreparedKey::new(key.bytes[0]))
    }
    fn queue(&self, _: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(LeastQueue))
    }
}

struct LeastQueue;

impl EngineQueue for LeastQueue {
    fn run(&mut self, _: &mut CheckedBatch<'_>) {}
}

#[test]
fn an_engine_prepares_many_keys_one_by_one_and_has_no_more_than_it_says() {
    let info = EngineInfo {
        name: "least",
        kind: EngineKind::Fault,
        version: String::new(),
        parallelism: 1,
        kernels: Vec::new(),
    };
    let engine = Least(info);
    let suite = suite("aes-128-gcm");
    let made = engine.prepare_many(&[&[1; 16][..], &[2; 15], &[3; 16]].map(KeyMaterial::secret), suite);
    let made: Vec<_> = made.iter().map(|made| made.as_ref().map(|key| key.state::<u8>().copied())).collect();
    let refused = Error::key(suite, KeyProblem::Length);
    assert_eq!(made, [Ok(Some(1)), Err(&refused), Ok(Some(3))]);
    assert!(engine.arena(100).is_none());
    assert_eq!(engine.queue(QueueHint::default()).map(|queue| queue.occupancy()), Ok(None));
}
