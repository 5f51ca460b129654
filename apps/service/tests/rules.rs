//! Rules a user, through a service that runs: rates, and what becomes of clients while they are held back.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use ciphermill_channel::{Ask, Outcome};
use ciphermill_contract::OpStatus;
use ciphermill_service::{Options, Reload, Rules, UserRules};
use common::Running;
use common::campaign::turn;
use common::raw::{Raw, fill, outcome, request, seal, seal_op, suite};

/// What a test changes in what a service is opened with.
fn rules(rules: Rules) -> UserRules {
    UserRules { users: HashMap::from([(rustix::process::geteuid().as_raw(), rules)]), groups: HashMap::new() }
}

fn rate(ops_per_second: f64) -> Rules {
    Rules { ops_per_second: Some(ops_per_second), ..Rules::default() }
}

/// Has operations done one after the other for so long; their number.
fn work(socket: &Path, time: Duration) -> u64 {
    let mut raw = Raw::greeted(socket);
    let (_, mut port) = raw.port(0);
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    let (begun, mut done) = (Instant::now(), 0u64);
    while begun.elapsed() < time {
        let (ran, status, _) =
            seal(&mut port, key, &(done as u128).to_be_bytes()[4..].try_into().expect("12"), b"text");
        assert_eq!((ran, status), (Outcome::Ran, OpStatus::Done));
        done += 1;
    }
    done
}

/// Time of processors that the threads of this process have had (`/proc/PID/task/TID/schedstat`).
fn processors() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("readable").flatten();
    let time = |task: std::fs::DirEntry| -> Option<u64> {
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    Duration::from_nanos(tasks.filter_map(time).sum())
}

#[test]
fn two_connections_of_a_user_have_its_rate_together_until_it_is_changed() {
    let _turn = turn();
    let running = Running::start(|options| options.rules = rules(rate(1000.0)));
    let both = |time| {
        let (begun, socket) = (Instant::now(), running.socket());
        let done: u64 = std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(|| work(socket, time)));
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        done as f64 / begun.elapsed().as_secs_f64()
    };
    // Those connections have gone, but not what they have taken.
    let keeps = Raw::greeted(running.socket());
    both(Duration::from_millis(200));
    let rate = both(Duration::from_secs(2));
    // A machine that stands still in between makes it less, and never more than by a burst.
    assert!((800.0..1055.0).contains(&rate), "{rate}");
    let options = Options { rules: UserRules::default(), ..Options::default() };
    running.service.as_ref().expect("it runs").remote().reload(Reload { options, vault: None });
    let free = both(Duration::from_millis(500));
    assert!(free > 2000.0, "{free}");
    drop(keeps);
}

#[test]
fn a_worker_sleeps_until_what_is_held_back_is_due() {
    let _turn = turn();
    let running = Running::start(|options| options.rules = rules(rate(1.0)));
    let mut raw = Raw::greeted(running.socket());
    let (_, mut port) = raw.port(0);
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    assert_eq!(seal(&mut port, key, &[1; 12], b"text").1, OpStatus::Done);
    fill(&port, &[seal_op(key, &[2; 12], 16)], &[2; 32]);
    let begun = Instant::now();
    let number = port.submit(request(suite("aes-128-gcm"), 1, 32)).expect("a slot");
    // The service is this process, and nothing else goes on in it.
    std::thread::sleep(Duration::from_millis(100));
    let before = processors();
    std::thread::sleep(Duration::from_millis(700));
    let used = processors() - before;
    assert_eq!(raw.status()["waiting"].as_u64(), Some(1));
    assert_eq!(outcome(&port, number), Outcome::Ran);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(900), "{took:?}");
    assert!(used < Duration::from_millis(7), "{used:?} of processors within 700 ms");
    let ciphermill_channel::Answer::Text(text) = raw.ask(&Ask::Clients) else { panic!("no text") };
    let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(rows[0]["held"].as_u64(), Some(1));
}

#[test]
fn who_connects_again_owes_what_was_owed() {
    let _turn = turn();
    let running = Running::start(|options| options.rules = rules(rate(5.0)));
    let begun = Instant::now();
    for round in 0..4 {
        let mut raw = Raw::greeted(running.socket());
        let (_, mut port) = raw.port(0);
        let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
        assert_eq!(seal(&mut port, key, &[round; 12], b"text").1, OpStatus::Done);
    }
    assert!(begun.elapsed() > Duration::from_millis(590), "{:?}", begun.elapsed());
}

#[test]
fn a_client_that_leaves_while_it_is_held_back_leaves_nothing_behind() {
    let _turn = turn();
    let running = Running::start(|options| options.rules = rules(rate(0.1)));
    let mut raw = Raw::greeted(running.socket());
    for _ in 0..3 {
        let mut other = Raw::greeted(running.socket());
        let (_, mut port) = other.port(0);
        for _ in 0..2 {
            port.submit(request(suite("aes-128-gcm"), 1, 32)).expect("a slot");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let begun = Instant::now();
    loop {
        let status = raw.status();
        if (status["clients"].as_u64(), status["channels"].as_u64(), status["waiting"].as_u64())
            == (Some(1), Some(0), Some(0))
        {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{status}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
