//! Several pools of workers: every client has one, and a user whose clients are at several has one account.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ciphermill_channel::Outcome;
use ciphermill_contract::OpStatus;
use ciphermill_service::{Options, Rules, UserRules};
use common::Running;
use common::raw::{Raw, fill, outcome, request, seal, seal_op, suite};

/// Pools on cores that no process runs on: clients go where the fewest are, and workers anywhere.
fn two_pools(options: &mut Options) {
    options.pools = vec![vec![1022], vec![1023]];
}

fn of_user(rules: Rules) -> UserRules {
    UserRules { users: HashMap::from([(rustix::process::geteuid().as_raw(), rules)]), groups: HashMap::new() }
}

#[test]
fn every_client_is_served_by_a_pool() {
    let running = Running::start(two_pools);
    let mut first = Raw::greeted(running.socket());
    assert_eq!((first.status()["pools"].as_u64(), first.status()["workers"].as_u64()), (Some(2), Some(2)));
    let work = |socket: &Path| {
        let mut raw = Raw::greeted(socket);
        let (_, mut port) = raw.port(0);
        let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
        for round in 0..200u8 {
            let (ran, status, data) = seal(&mut port, key, &[round; 12], b"text");
            assert_eq!((ran, status), (Outcome::Ran, OpStatus::Done));
            assert_ne!(&data[..4], b"text");
            if round % 50 == 49 {
                // Both pools' workers sleep and are woken.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| work(running.socket()));
        }
    });
    drop(first);
}

/// What one pool's client has in flight holds back the other's of the same user, whose worker sleeps meanwhile.
#[test]
fn bytes_in_flight_are_counted_over_all_pools() {
    const LEN: u32 = 32 << 10;
    let running = Running::start(|options| {
        two_pools(options);
        options.spin = Duration::ZERO;
        options.rules = of_user(Rules { bytes_in_flight: Some(u64::from(LEN)), ..Rules::default() });
    });
    // Each goes on until the other has had its rounds, so that both ask at a time, however busy the machine is.
    let done = AtomicUsize::new(0);
    let work = || {
        let mut raw = Raw::greeted(running.socket());
        let (_, mut port) = raw.port(256 << 10);
        let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
        let mut longest = Duration::ZERO;
        let mut round = 0u32;
        while done.load(Ordering::Relaxed) < 2 {
            let mut iv = [0; 12];
            iv[..4].copy_from_slice(&round.to_be_bytes());
            fill(&port, &[seal_op(key, &iv, LEN - 16)], &[3; LEN as usize]);
            let begun = Instant::now();
            let number = port.submit(request(suite("aes-128-gcm"), 1, LEN)).expect("a slot");
            assert_eq!(outcome(&port, number), Outcome::Ran);
            longest = longest.max(begun.elapsed());
            round += 1;
            done.fetch_add(usize::from(round == 400), Ordering::Relaxed);
        }
        (longest, held(&mut raw))
    };
    let both = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(work));
        threads.map(|thread| thread.join().expect("no panic"))
    });
    let held: u64 = both.iter().map(|(_, held)| held).sum();
    assert!(held > 0, "both asked at a time");
    // Nobody is forgotten: who waits for bytes has no time of its own to wake up at.
    assert!(both.iter().all(|(longest, _)| *longest < Duration::from_millis(500)), "{both:?}");
}

fn held(raw: &mut Raw) -> u64 {
    let ciphermill_channel::Answer::Text(text) = raw.ask(&ciphermill_channel::Ask::Clients) else { panic!("no text") };
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    rows.as_array().expect("rows").iter().filter_map(|row| row["held"].as_u64()).sum()
}
