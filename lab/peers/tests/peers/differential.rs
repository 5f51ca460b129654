//! Every suite that a peer claims, on random batches, byte for byte against the reference.

use ciphermill_contract::capability::find;
use ciphermill_contract::suite::{Aead, Mac};
use ciphermill_contract::{Direction, Engine, OpStatus, Suite};
use ciphermill_reference::Reference;

use crate::available;
use crate::workload::{Draw, Random, Workload};

/// Bytes of additional data that every peer takes for the suite; ipsec-mb's CCM takes 46.
fn aad_max(suite: Suite) -> usize {
    if let Suite::Aead(Aead::AesCcm(_)) = suite { 46 } else { 100 }
}

fn assert_same(engine: &dyn Engine, suite: Suite, ours: &Workload, theirs: &Workload) {
    let name = engine.info().name;
    for (index, (a, b)) in ours.ops.iter().zip(&theirs.ops).enumerate() {
        assert_eq!(a, b, "{name}, {suite} {}, operation {index}", ours.direction);
        let span = |offset: u32, len: usize| offset as usize..offset as usize + len;
        let output = span(a.output, if suite.transforms() { a.input.len as usize } else { 0 });
        assert_eq!(
            ours.arena[output.clone()],
            theirs.arena[output],
            "{name}, {suite} {}, output {index}: {a:?}",
            ours.direction
        );
        let tag = span(a.tag, a.tag_len.into());
        assert_eq!(
            ours.arena[tag.clone()],
            theirs.arena[tag],
            "{name}, {suite} {}, tag {index}: {a:?}",
            ours.direction
        );
    }
    assert!(ours.arena == theirs.arena, "{name}, {suite} {}: bytes beside the outputs changed", ours.direction);
}

/// Bytes that every peer needs at least: OpenSSL 3.0 does not seal empty messages with SIV, ipsec-mb 1.3 does not
/// authenticate empty messages with HMAC.
fn len_min(suite: Suite) -> usize {
    if let Suite::Aead(Aead::AesSiv(_)) | Suite::Mac(Mac::Hmac(_)) = suite { 1 } else { 0 }
}

/// One batch there and back; every seventh tag of the way back is damaged.
fn compare(engine: &dyn Engine, reference: &Reference, suite: Suite, random: &mut Random, draw: Draw) {
    let start = Workload::random(random, suite, draw);
    let (mut ours, mut theirs) = (start.clone(), start);
    ours.run(engine);
    theirs.run(reference);
    assert_same(engine, suite, &ours, &theirs);
    if !suite.has_direction(Direction::Decrypt) {
        return;
    }
    let mut back = ours.reversed();
    let damaged = back.tamper(random, |index| index % 7 == 3);
    let (mut ours, mut theirs) = (back.clone(), back);
    ours.run(engine);
    theirs.run(reference);
    assert_eq!(theirs.count(OpStatus::AuthFailed), damaged, "{suite}");
    assert_same(engine, suite, &ours, &theirs);
}

#[test]
fn every_claimed_suite_agrees_with_the_reference() {
    let reference = Reference::new();
    let mut missing = Vec::new();
    for engine in available() {
        for &suite in engine.capabilities().iter().flat_map(|capability| capability.suites) {
            if suite.is_public_key() {
                continue;
            }
            if find(reference.capabilities(), suite, Direction::Encrypt).is_none() {
                missing.push(suite.to_string());
                continue;
            }
            let random = &mut Random(suite.ordinal() as u64);
            let draw =
                |ops, keys, len_max| Draw { ops, keys, len_max, aad_max: aad_max(suite), len_min: len_min(suite) };
            compare(&*engine, &reference, suite, random, draw(1, 1, 64));
            compare(&*engine, &reference, suite, random, draw(37, 5, 80));
            let ops = 130 + random.below(171);
            compare(&*engine, &reference, suite, random, draw(ops, 64, 300));
            compare(&*engine, &reference, suite, random, draw(5, 2, 20_000));
        }
    }
    missing.sort();
    missing.dedup();
    assert!(missing.is_empty(), "the reference lacks {missing:?}");
}

/// The peers among each other: what one encrypts, every other one decrypts, and finds the damaged tags.
#[test]
fn peers_undo_each_other() {
    let engines = available();
    for (from, to) in engines.iter().flat_map(|from| engines.iter().map(move |to| (from, to))) {
        for &suite in from.capabilities().iter().flat_map(|capability| capability.suites) {
            if suite.is_public_key() || find(to.capabilities(), suite, Direction::Decrypt).is_none() {
                continue;
            }
            let random = &mut Random(suite.ordinal() as u64 + 1000);
            let draw = Draw { ops: 200, keys: 9, len_max: 150, aad_max: aad_max(suite), len_min: len_min(suite) };
            let start = Workload::random(random, suite, draw);
            let mut there = start.clone();
            there.run(&**from);
            let mut back = there.reversed();
            let damaged = back.tamper(random, |index| index % 7 == 3);
            back.run(&**to);
            let case = format!("{suite} from {} to {}", from.info().name, to.info().name);
            assert_eq!(back.count(OpStatus::AuthFailed), damaged, "{case}");
            assert_eq!(back.count(OpStatus::Done), back.ops.len() - damaged, "{case}");
            for (before, after) in start.ops.iter().zip(&back.ops).filter(|_| suite.transforms()) {
                let text = &back.arena[after.output as usize..][..after.input.len as usize];
                if after.status.is_done() {
                    assert_eq!(text, &start.arena[before.input.range()], "{case}");
                } else {
                    assert!(text.iter().all(|&byte| byte == 0), "{case}: a failed open shows bytes");
                }
            }
        }
    }
}

#[test]
fn operations_that_are_not_pending_are_left_alone() {
    for engine in available() {
        for &suite in engine.capabilities().iter().flat_map(|capability| capability.suites) {
            if suite.is_public_key() {
                continue;
            }
            let random = &mut Random(7);
            let draw = Draw { ops: 20, keys: 3, len_max: 64, aad_max: 40, len_min: len_min(suite) };
            let start = Workload::random(random, suite, draw);
            let (mut all, mut some) = (start.clone(), start.clone());
            all.run(&*engine);
            some.run_except(&*engine, |index| index % 2 == 0);
            for (index, op) in some.ops.iter().enumerate() {
                let source = if index % 2 == 0 { &start } else { &all };
                let status = if index % 2 == 0 { OpStatus::EngineFault } else { OpStatus::Done };
                assert_eq!(op.status, status, "{suite} on {}", engine.info().name);
                let (tag, output) = (op.tag_span().range(), op.output as usize..(op.output + op.input.len) as usize);
                assert_eq!(some.arena[tag.clone()], source.arena[tag], "{suite} on {}", engine.info().name);
                if suite.transforms() {
                    assert_eq!(some.arena[output.clone()], source.arena[output], "{suite} on {}", engine.info().name);
                }
            }
        }
    }
}

/// AES-CTR counts with all sixteen bytes (NIST SP 800-38A, B.1), also where the last four wrap.
#[test]
fn counters_carry_beyond_four_bytes() {
    for name in ["aes-128-ctr", "aes-256-ctr", "aes-128-ctr+hmac-sha1", "aes-192-ctr+hmac-sha512"] {
        let suite: Suite = name.parse().expect("a suite's name");
        let mut results = Vec::new();
        for engine in available() {
            if find(engine.capabilities(), suite, Direction::Encrypt).is_none() {
                continue;
            }
            let mut random = Random(3);
            let draw = Draw { ops: 40, keys: 4, len_max: 200, aad_max: 30, len_min: 0 };
            let mut workload = Workload::random(&mut random, suite, draw);
            for (index, op) in workload.ops.iter_mut().enumerate() {
                let mut iv = [0xff; 16];
                iv[0] = index as u8;
                iv[15] = 0xf8 + (index % 8) as u8;
                *op = op.with_iv(&iv);
            }
            let start = workload.clone();
            workload.run(&*engine);
            let mut back = workload.reversed();
            back.run(&*engine);
            for (before, after) in start.ops.iter().zip(&back.ops) {
                let text = &back.arena[after.output as usize..][..after.input.len as usize];
                assert_eq!(text, &start.arena[before.input.range()], "{name} on {}", engine.info().name);
            }
            results.push(workload.arena);
        }
        assert!(results.len() >= 2, "{name}: nobody to compare with");
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{name}: the peers disagree");
    }
}

/// What a peer cannot do ends as a fault of that operation, with its neighbours done.
#[test]
fn empty_messages_that_a_peer_cannot_do_are_faults() {
    for (name, suite) in [("openssl", "aes-128-siv"), ("openssl-context", "aes-256-siv"), ("ipsec-mb", "hmac-sha256")] {
        let Some(engine) = available().into_iter().find(|engine| engine.info().name == name) else { continue };
        let suite: Suite = suite.parse().expect("a suite's name");
        let draw = Draw { ops: 30, keys: 2, len_min: 1, len_max: 40, aad_max: 20 };
        let mut workload = Workload::random(&mut Random(5), suite, draw);
        for op in workload.ops.iter_mut().step_by(3) {
            op.input.len = 0;
        }
        let before = workload.arena.clone();
        workload.run(&*engine);
        for (index, op) in workload.ops.iter().enumerate() {
            let status = if index % 3 == 0 { OpStatus::EngineFault } else { OpStatus::Done };
            assert_eq!(op.status, status, "{name}, {suite}, operation {index}");
            let tag = op.tag_span().range();
            assert_eq!(workload.arena[tag.clone()] == before[tag], index % 3 == 0, "{name}, {suite}, tag {index}");
        }
    }
}
