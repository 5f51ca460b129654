//! Clients that are killed at any moment. `CIPHERMILL_SERVICE_KILLS` of them, three hundred if nothing is said.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::process::Child;
use std::time::Duration;

use ciphermill_channel::{Ask, KeyHandle, Port, SLOTS, Spin};
use common::campaign::Campaign;
use common::child;
use common::raw::{Raw, fill, request, seal_op, suite};

/// Clients at a time.
const SIDE_BY_SIDE: usize = 4;

#[test]
#[ignore = "a process that the other test starts"]
fn client_process() {
    let Some(socket) = child::socket() else { return };
    for round in 0u32.. {
        let mut raw = Raw::greeted(&socket);
        let (channel, mut port) = raw.port(1 << (16 + round % 5));
        let key = raw.import(suite("aes-128-gcm"), &[round as u8; 16]);
        work(&mut port, key, round);
        if round % 3 == 0 {
            raw.say(&Ask::Forget { key });
        }
        if round % 2 == 0 {
            raw.say(&Ask::Close { channel });
            raw.status();
        }
    }
}

/// Requests, some of which are waited for by sleeping.
fn work(port: &mut Port, key: KeyHandle, round: u32) {
    let gcm = suite("aes-128-gcm");
    for _ in 0..40 {
        fill(port, &[seal_op(key, &[3; 12], 8000)], &[1; 8016]);
        let mut last = None;
        while let Some(number) = port.submit(request(gcm, 1, 8016)) {
            last = Some(number);
            if number % SLOTS == round % SLOTS {
                break;
            }
        }
        if let Some(number) = last {
            let _ = port.wait(number, (&mut Spin::new(), Duration::ZERO), || true);
        }
    }
}

fn end(mut child: Child) {
    child.kill().expect("killed");
    let status = child.wait().expect("ended");
    assert!(!status.success(), "it had ended before: {status}");
}

#[test]
fn clients_are_killed_at_any_moment() {
    let kills = std::env::var("CIPHERMILL_SERVICE_KILLS").map_or(300, |text| text.parse().expect("a number"));
    let campaign = Campaign::begin(|_| {});
    let mut running = std::collections::VecDeque::new();
    let mut state = 5u64;
    for _ in 0..kills {
        running.push_back(child::start("client_process", campaign.socket()));
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros((state >> 40) % 12_000));
        if running.len() >= SIDE_BY_SIDE {
            end(running.pop_front().expect("one"));
        }
    }
    running.into_iter().for_each(end);
    let done: u64 = campaign
        .running
        .mill
        .metrics()
        .engines
        .iter()
        .flat_map(|engine| &engine.suites)
        .map(|suite| suite.operations.done)
        .sum();
    assert!(done > kills, "{done} operations were done for {kills} clients");
    campaign.no_engine_was_blamed();
    campaign.end();
}
