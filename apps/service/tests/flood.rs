//! Greedy clients beside a quiet one.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ciphermill_channel::{
    Answer, Ask, ColumnShape, DATA_AT, Outcome, Port, RECORD_LEN, Request, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs,
    ShapeKeys, ShapeSteps, ShapeTags, put_ops, put_statuses,
};
use ciphermill_contract::{ColumnStatus, Direction, KeyForm, KeyId, Op, Span};
use common::campaign::Campaign;
use common::raw::{Raw, fill, outcome, request, seal_op, suite};

const LONG: u32 = 1 << 20;

/// Requests of 1 MiB, as many at a time as there are slots, over several channels.
#[test]
fn a_quiet_client_goes_on_beside_a_flood_of_long_requests() {
    let campaign = Campaign::begin(|_| {});
    let until = Instant::now() + Duration::from_secs(4);
    let bytes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut raw = Raw::greeted(campaign.socket());
                let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
                let mut ports: Vec<Port> = (0..4).map(|_| raw.port(4 << 20).1).collect();
                for port in &ports {
                    fill(port, &[seal_op(key, &[1; 12], LONG)], &vec![5; LONG as usize + 16]);
                }
                let mut last = [None; 4];
                while Instant::now() < until {
                    for (port, last) in ports.iter_mut().zip(&mut last) {
                        while let Some(number) = port.submit(request(suite("aes-128-gcm"), 1, LONG + 16)) {
                            *last = Some(number);
                            bytes.fetch_add(LONG.into(), Ordering::Relaxed);
                        }
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                for (port, last) in ports.iter().zip(last) {
                    assert_eq!(last.map(|number| outcome(port, number)), Some(Outcome::Ran));
                }
            });
        }
    });
    let bytes = bytes.into_inner();
    println!("NOTE: {} MiB beside it", bytes >> 20);
    assert!(bytes > 100 << 20, "{bytes}");
    campaign.end();
}

/// Each connection is a client of its own for the clock that shares out the time. Who opens many gets more, and still not everything.
#[test]
fn a_quiet_client_goes_on_beside_very_many_greedy_connections() {
    let campaign = Campaign::begin(|_| {});
    let until = Instant::now() + Duration::from_secs(3);
    let mut clients: Vec<(Raw, Port)> = (0..200)
        .map(|_| {
            let mut raw = Raw::greeted(campaign.socket());
            let (_, port) = raw.port(1 << 17);
            let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
            fill(&port, &[seal_op(key, &[1; 12], 60_000)], &vec![5; 60_016]);
            (raw, port)
        })
        .collect();
    while Instant::now() < until {
        for (_, port) in &mut clients {
            while port.submit(request(suite("aes-128-gcm"), 1, 60_016)).is_some() {}
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    clients.iter().for_each(|(raw, _)| raw.say(&Ask::Status));
    drop(clients);
    campaign.end();
}

/// Operations of milliseconds each, thousands in a request: whoever works on one serves nobody else. Such requests are refused, and those
/// of some operations are asked for without an end.
#[test]
fn a_quiet_client_goes_on_beside_requests_of_very_many_slow_operations() {
    const LEN: u32 = 768;
    let campaign = Campaign::begin(|_| {});
    let dh = suite("dh-modp6144");
    let until = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut raw = Raw::greeted(campaign.socket());
                let (_, mut port) = raw.port(1 << 20);
                let answer = raw.ask(&Ask::Import { suite: dh, form: KeyForm::Private, bytes: &[0x77; LEN as usize] });
                let Answer::Key(key) = answer else { panic!("{answer:?}") };
                let key = KeyId { slot: key.slot, generation: key.generation };
                let mut ask = |ops: u32| {
                    // All with the same public key, each with a secret of its own.
                    let op = |index: u32| Op { output: LEN * (1 + index), ..Op::in_place(key, Span::new(0, LEN)) };
                    put_ops(port.memory(), DATA_AT, (0..ops).map(op)).expect("fits");
                    let data_at = (DATA_AT + ops as usize * RECORD_LEN) as u32;
                    assert!(port.memory().write(data_at as usize, &[&[0; LEN as usize - 1][..], &[2]].concat()));
                    let asked = Request { data_at, ..request(dh, ops, LEN * (ops + 1)) };
                    let number = port.submit(asked).expect("a slot");
                    while port.outcome(number).is_none() {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    port.outcome(number)
                };
                assert_eq!(ask(600), Some(Outcome::Exhausted));
                assert_eq!(ask(1), Some(Outcome::Ran));
                let mut ops = 600;
                while Instant::now() < until {
                    match ask(ops) {
                        Some(Outcome::Ran) => {}
                        outcome => assert_eq!((outcome, ops > 1), (Some(Outcome::Exhausted), true)),
                    }
                    ops = (ops / 2).max(1);
                }
            });
        }
    });
    campaign.end();
}

/// Thousands of operations that read the same bytes: short as a request, and hours of work. Nobody is kept waiting by it.
#[test]
fn operations_that_read_the_same_bytes_are_told_to_be_too_long() {
    const OPS: u32 = 20_000;
    const LEN: u32 = 1 << 20;
    let campaign = Campaign::begin(|_| {});
    let mut raw = Raw::greeted(campaign.socket());
    let (_, mut port) = raw.port(4 << 20);
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    let key = KeyId { slot: key.slot, generation: key.generation };
    let data_at = (DATA_AT + OPS as usize * RECORD_LEN).next_multiple_of(64) as u32;
    let mut asks = |suite_name: &str, op: &dyn Fn(u32) -> Op| {
        put_ops(port.memory(), DATA_AT, (0..OPS).map(op)).expect("fits");
        let asked = Request { data_at, ..request(suite(suite_name), OPS, LEN + 64 * OPS) };
        let number = port.submit(asked).expect("a slot");
        let begun = Instant::now();
        let outcome = outcome(&port, number);
        (outcome, begun.elapsed() < Duration::from_secs(5))
    };
    let digest = |index: u32| Op::in_place(KeyId::NONE, Span::new(0, LEN)).with_tag(LEN + 64 * index, 32);
    assert_eq!(asks("sha256", &digest), (Outcome::Exhausted, true), "inputs");
    let seal = |index: u32| {
        let op = Op::in_place(key, Span::new(LEN + 64 * index, 16)).with_tag(LEN + 64 * index + 16, 16);
        op.with_iv(&[7; 12]).with_aad(0, u16::MAX)
    };
    assert_eq!(asks("aes-128-gcm", &seal), (Outcome::Exhausted, true), "additional data");
    // The same additional data for all columns.
    let buffer = ShapeBuffer { len: OPS * 16, steps: ShapeSteps::Strided { len: 16, stride: 16 } };
    let shape = ColumnShape {
        keys: ShapeKeys::One(key),
        ivs: ShapeIvs::Counter(12),
        aad: ShapeAad::One(u16::MAX.into()),
        tags: ShapeTags::Column(16),
        data: ShapeData::InPlace(buffer),
    };
    let len = shape.places(OPS as usize, Direction::Encrypt).expect("places").len as u32;
    shape.put(port.memory(), DATA_AT).expect("fits");
    put_statuses(port.memory(), DATA_AT, &vec![ColumnStatus::PENDING; OPS as usize]).expect("fit");
    let asked = Request { data_at, columns: true, ..request(suite("aes-128-gcm"), OPS, len) };
    let number = port.submit(asked).expect("a slot");
    assert_eq!(outcome(&port, number), Outcome::Exhausted, "columns");
    drop((raw, port));
    campaign.end();
}

/// One operation over as many bytes as a channel may have, of a suite that is slow: the same.
#[test]
fn a_single_operation_is_no_longer_than_it_may_be() {
    let campaign = Campaign::begin(|_| {});
    let slow = suite("3des-cbc");
    let mut raw = Raw::greeted(campaign.socket());
    let (_, mut port) = raw.port(64 << 20);
    let key: Vec<u8> = (1..=24).map(|byte| byte * 2).collect();
    let key = raw.import(slow, &key);
    for (len, expected) in [(32 << 20, Outcome::Exhausted), (1 << 20, Outcome::Ran)] {
        let op = Op { iv_len: 8, tag_len: 0, ..seal_op(key, &[1; 12], len) };
        fill(&port, &[op], &[]);
        let number = port.submit(request(slow, 1, len)).expect("a slot");
        assert_eq!(outcome(&port, number), expected, "{len}");
    }
    drop((raw, port));
    campaign.end();
}

/// Asks for an operation that takes a second or several, again and again: how many were done.
fn generates(campaign: &Campaign, until: Instant) -> u64 {
    let mut raw = Raw::greeted(campaign.socket());
    let (_, mut port) = raw.port(0);
    let generate = suite("generate-rsa-4096");
    // The private key at the output, the public one at the tag.
    let op = Op { output: 0, output_len: 6000, tag: 6000, tag_len: 1000, ..Op::default() };
    let mut done = 0;
    while Instant::now() < until {
        fill(&port, &[op], &[]);
        let number = port.submit(request(generate, 1, 7000)).expect("a slot");
        while port.outcome(number).is_none() {
            if Instant::now() >= until {
                return done;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(port.outcome(number), Some(Outcome::Ran));
        done += 1;
    }
    done
}

/// Single operations that take seconds, of more clients than there are workers: one worker is left for others.
#[test]
fn a_quiet_client_goes_on_beside_slow_single_operations() {
    let campaign = Campaign::begin(|_| {});
    let until = Instant::now() + Duration::from_secs(8);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| done.fetch_add(generates(&campaign, until), Ordering::Relaxed));
        }
    });
    println!("NOTE: {done:?} keys were generated");
    campaign.end();
}
