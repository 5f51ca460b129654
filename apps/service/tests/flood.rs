//! Greedy clients beside a quiet one.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ciphermill_channel::{Ask, Outcome, Port};
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
