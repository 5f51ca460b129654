//! An engine that fails, lies and panics under traffic: no wrong packet leaves, what is lost is counted, and no number comes again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ciphermill::{Costs, Mill, SelfTest, TrustPolicy};
use ciphermill_contract::{Cost, Engine, EngineKind};
use ciphermill_esp::{Counters, Drop, Sequence};
use ciphermill_fault::{Fault, FaultEngine, FaultHandle, Script, Weights};
use ciphermill_reference::Reference;

use crate::ends::{Ends, Inner, NOW, Shape, gained, hopped};

/// Bursts of each schedule.
const BURSTS: u64 = 300;

/// A mill that prefers an engine with this script, which comes back from quarantine at once, and has the reference beside it.
fn mill(script: Script, kind: EngineKind, has_other: bool) -> (Mill, FaultHandle) {
    let engine = FaultEngine::new("flaky", Arc::new(Reference::new()), script).with_kind(kind);
    let engine = engine.with_prior(Cost::new(0.0, 1.0, 0.001));
    let handle = engine.handle();
    let mut engines = vec![Arc::new(engine) as Arc<dyn Engine>];
    if has_other {
        engines.push(Arc::new(Reference::new()));
    }
    let mut costs = Costs::new();
    // Small batches are handed over too.
    costs.set_wakeup_ns(0.0);
    // Each batch has a witness, which looks at all its operations: what an engine says is believed only where nobody looks.
    let trust = TrustPolicy {
        witness_every: 1,
        witness_ops_max: 256,
        quarantine_min: Duration::from_nanos(1),
        quarantine_max: Duration::from_micros(1),
        ..TrustPolicy::default()
    };
    let mill = Mill::builder().engines(engines).costs(costs).legacy(true).trust(trust).self_test(SelfTest::Never);
    (mill.open().expect("opens"), handle)
}

/// Runs traffic through both directions; returns how many packets were lost on each.
fn traffic(shape: &Shape, mut ends: Ends, may_lose: bool) -> [u64; 2] {
    let mut honest = Ends::new(shape);
    let mut numbers = BTreeSet::new();
    let esp = if shape.has_udp { 28 } else { 20 };
    for round in 0..BURSTS {
        let packets: Vec<Vec<u8>> =
            (0..4).map(|at| Inner::V4.packet(48 + (round as usize * 7 + at * 31) % 150, round as u8)).collect();
        let before = ends.sender.counters().0.clone();
        let sealed = crypt_out(&mut ends, &packets);
        let after = ends.sender.counters().0;
        let sent: u64 = after.done - before.done;
        let lost = after.dropped(Drop::Engine) - before.dropped(Drop::Engine);
        assert_eq!((sent, sent + lost), (sealed.len() as u64, packets.len() as u64), "{shape:?}: counted exactly");
        assert!(gained(&before, after).iter().all(|(name, _)| ["done", "engine"].contains(name)));
        for packet in &sealed {
            assert!(numbers.insert(packet[esp + 4..esp + 8].to_vec()), "{shape:?}: a number comes again");
        }
        // An honest peer opens each, and finds what was sent, in order.
        let opened = honest.open(&sealed);
        assert_eq!(opened.len(), sealed.len(), "{shape:?}: a wrong packet has left");
        let mut left = packets.iter().map(|packet| hopped(packet, 2));
        assert!(opened.iter().all(|opened| left.any(|packet| packet == *opened)), "{shape:?}");

        // And what an honest peer sends is opened rightly or not at all; what is damaged, never.
        let mut from_honest = honest.seal(&packets);
        let damaged = round as usize % from_honest.len();
        let last = from_honest[damaged].len() - 1 - round as usize % 20;
        from_honest[damaged][last] ^= 4;
        let before = ends.receiver.counters().1.clone();
        let opened = crypt_in(&mut ends, &from_honest);
        let after = ends.receiver.counters().1;
        let of = |reason| after.dropped(reason) - before.dropped(reason);
        assert_eq!(after.done - before.done, opened.len() as u64);
        assert_eq!(opened.len() as u64 + of(Drop::Engine) + of(Drop::Integrity), 4, "{shape:?}: counted exactly");
        assert!(of(Drop::Integrity) <= 1, "{shape:?}: an honest packet is not called damaged");
        let mut left = packets.iter().enumerate().filter(|(at, _)| *at != damaged).map(|(_, packet)| hopped(packet, 2));
        assert!(opened.iter().all(|opened| left.any(|packet| packet == *opened)), "{shape:?}: {round}");
    }
    let losses = [ends.sender.counters().0, ends.receiver.counters().1].map(|counters| counters.dropped(Drop::Engine));
    assert!(may_lose || losses == [0, 0], "{shape:?}: {losses:?}");
    assert!(numbers.len() as u64 >= BURSTS, "most packets pass: {}", numbers.len());
    losses
}

fn crypt_out(ends: &mut Ends, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    ends.burst.clear();
    assert!(packets.iter().all(|packet| ends.burst.push(packet)));
    ends.sender.begin_outbound(&mut ends.burst, NOW);
    // That it failed is what is wanted here; what is lost is counted.
    let _ = ends.burst.crypt(&mut ends.session);
    ends.sender.commit_outbound(&mut ends.burst);
    leaving(ends)
}

fn crypt_in(ends: &mut Ends, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    ends.burst.clear();
    assert!(packets.iter().all(|packet| ends.burst.push(packet)));
    ends.receiver.begin_inbound(&mut ends.burst, NOW);
    let _ = ends.burst.crypt(&mut ends.session);
    ends.receiver.commit_inbound(&mut ends.burst);
    leaving(ends)
}

fn leaving(ends: &Ends) -> Vec<Vec<u8>> {
    let (data, spans) = ends.burst.leaving();
    spans.iter().map(|[from, to]| data[*from as usize..*to as usize].to_vec()).collect()
}

/// One of each way to run columns.
fn shapes() -> Vec<Shape> {
    let extended = |name| Shape { sequence: Sequence::Extended, has_udp: true, ..Shape::new(name) };
    vec![
        Shape::new("aes-128-gcm"),
        Shape::new("chacha20-poly1305"),
        Shape::new("aes-128-cbc+hmac-sha1-96"),
        extended("aes-128-cbc+hmac-sha1-96"),
        Shape::new("null+hmac-sha256-128"),
        extended("null+aes-128-gmac"),
    ]
}

fn weights() -> Weights {
    Weights { healthy: 6, errors: 1, error_at: 1, wrong_bit: 2, unfinished: 1, panic: 1, ..Weights::NONE }
}

#[test]
fn beside_a_good_engine_no_wrong_packet_leaves() {
    let mut injected = 0;
    for (seed, shape) in (1..).zip(shapes()) {
        let (mill, handle) = mill(Script::random(seed, weights()), EngineKind::Fault, true);
        traffic(&shape, Ends::with(mill, &shape), true);
        injected += handle.injected();
    }
    assert!(injected > 500, "{injected} faults");
}

#[test]
fn on_a_device_no_wrong_packet_leaves_and_a_death_is_survived() {
    for (seed, shape) in (100..).zip(shapes()) {
        let script = Script::random(seed, Weights { death: 1, healthy: 60, ..weights() });
        let (mill, handle) = mill(script, EngineKind::Gpu, true);
        traffic(&shape, Ends::with(mill, &shape), true);
        assert!(handle.injected() > 0);
    }
}

#[test]
fn with_nobody_beside_it_packets_are_lost_and_counted() {
    // Errors and unfinished work alone: without another engine there is no witness for lies.
    let weights = Weights { wrong_bit: 0, panic: 0, ..weights() };
    for (seed, shape) in (200..).zip(shapes()) {
        let (mill, handle) = mill(Script::random(seed, weights), EngineKind::Fault, false);
        let losses = traffic(&shape, Ends::with(mill, &shape), true);
        assert!(handle.injected() > 0 && losses.iter().all(|lost| *lost > 0), "{shape:?}: {losses:?}");
    }
}

#[test]
fn without_an_engine_all_is_lost_and_counted_and_numbers_go_on() {
    let shape = Shape::new("aes-128-gcm");
    let (mill, handle) = mill(Script::healthy(), EngineKind::Fault, false);
    let mut ends = Ends::with(mill, &shape);
    let packets: Vec<Vec<u8>> = (0..4).map(|at| Inner::V4.packet(60, at)).collect();
    let sealed = crypt_out(&mut ends, &packets);
    handle.set_script(Script::always(Fault::Errors));
    assert!(crypt_out(&mut ends, &packets).is_empty());
    assert!(crypt_in(&mut ends, &sealed).is_empty());
    handle.set_script(Script::healthy());
    // What was on its way in has not been there, since nobody could tell whether it was authentic.
    assert_eq!(crypt_in(&mut ends, &sealed).len(), 4);
    let later = crypt_out(&mut ends, &packets);
    assert_eq!(later.iter().map(|packet| packet[27]).collect::<Vec<_>>(), [9, 10, 11, 12]);
    assert_eq!(gained(&Counters::default(), ends.sender.counters().0), [("done", 8), ("engine", 4)]);
    assert_eq!(gained(&Counters::default(), ends.receiver.counters().1), [("done", 4), ("engine", 4)]);
}

#[test]
fn a_packet_that_a_cipher_fails_with_takes_no_other_with_it() {
    // Two passes: the first fails with one packet of four, and the MAC is still made for the others.
    let shape = Shape::new("aes-128-cbc+hmac-sha512-256");
    let (mill, handle) = mill(Script::healthy(), EngineKind::Fault, false);
    let mut ends = Ends::with(mill, &shape);
    let packets: Vec<Vec<u8>> = (0..4).map(|at| Inner::V4.packet(60, at)).collect();
    handle.set_script(Script::at(0, Fault::ErrorAt(2)));
    let sealed = crypt_out(&mut ends, &packets);
    let left = [0, 1, 3].map(|at: usize| hopped(&packets[at], 2));
    assert_eq!(crypt_in(&mut ends, &sealed), left);
    assert_eq!(ends.sender.counters().0.dropped(Drop::Engine), 1);
}
