//! Clients that leave in the wrong moment, or never collect; and a service that ends with requests in flight.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill_channel::{Answer, Ask, KeyHandle, Outcome, Port, SLOTS};
use common::Running;
use common::campaign::{Campaign, Census, turn, wait_for};
use common::raw::{PATIENCE, Raw, fill, request, seal, seal_op, suite};

/// Puts one operation of so many bytes into a channel and asks for it as often as there are slots. The last one's number.
fn submit_all(port: &mut Port, key: KeyHandle, len: u32) -> u32 {
    fill(port, &[seal_op(key, &[1; 12], len)], &vec![5; len as usize + 16]);
    let mut last = 0;
    while let Some(number) = port.submit(request(suite("aes-128-gcm"), 1, len + 16)) {
        last = number;
        if number % SLOTS == SLOTS - 1 {
            break;
        }
    }
    last
}

#[test]
fn who_never_collects_harms_nobody() {
    let campaign = Campaign::begin(|_| {});
    let mut lazy: Vec<(Raw, Port)> = Vec::new();
    for _ in 0..8 {
        let mut raw = Raw::greeted(campaign.socket());
        let (_, mut port) = raw.port(0);
        let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
        submit_all(&mut port, key, 1000);
        lazy.push((raw, port));
    }
    // One of them goes on to ask, over what it was answered.
    let until = Instant::now() + Duration::from_secs(2);
    let submitted = &lazy[0].1.memory().words(64, 1).expect("within")[0];
    while Instant::now() < until {
        let done = (0..SLOTS as usize).all(|slot| {
            let number = lazy[0].1.memory().words(256 + slot * 16, 1).expect("within")[0].load(Ordering::Acquire);
            submitted.load(Ordering::Relaxed).wrapping_sub(number) < SLOTS
        });
        if done {
            submitted.fetch_add(1, Ordering::Release);
        }
        std::thread::yield_now();
    }
    assert!(submitted.load(Ordering::Relaxed) > SLOTS, "it was served on");
    drop(lazy);
    campaign.end();
}

#[test]
fn who_submits_and_goes_is_forgotten() {
    let campaign = Campaign::begin(|_| {});
    for round in 0..200u32 {
        let mut raw = Raw::greeted(campaign.socket());
        let (_, mut port) = raw.port(1 << 20);
        let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
        submit_all(&mut port, key, 100 << (round % 12));
    }
    campaign.end();
}

#[test]
fn channels_are_closed_with_requests_in_flight() {
    let campaign = Campaign::begin(|_| {});
    let mut raw = Raw::greeted(campaign.socket());
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    for round in 0..200u32 {
        let (channel, mut port) = raw.port(1 << 20);
        submit_all(&mut port, key, 100 << (round % 12));
        raw.say(&Ask::Close { channel });
        let (channel, mut port) = raw.port(0);
        assert_eq!(seal(&mut port, key, &[1; 12], b"text").0, Outcome::Ran);
        raw.say(&Ask::Close { channel });
    }
    drop(raw);
    campaign.end();
}

/// Whether the service has hung up.
fn is_ended(raw: &Raw) -> bool {
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    !matches!(rustix::net::recv(&raw.socket, &mut [0u8; 1], flags), Err(rustix::io::Errno::AGAIN))
}

/// A client with as many requests in flight as there may be: how many of them were answered by the time that it is hung up on.
fn wait_for_all(raw: &Raw, port: &Port) -> usize {
    let begun = Instant::now();
    loop {
        let ended = is_ended(raw);
        let outcomes: Vec<Outcome> = (0..SLOTS).filter_map(|number| port.outcome(number)).collect();
        if ended || outcomes.len() == SLOTS as usize {
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Ran), "{outcomes:?}");
            return outcomes.len();
        }
        assert!(begun.elapsed() < PATIENCE, "neither answered nor hung up on");
        std::thread::yield_now();
    }
}

/// Runs clients against a service that ends meanwhile; nothing of it is left then.
fn drains(ends: impl FnOnce(Running) + Send, clients: usize, work: impl Fn(usize, &Raw, &mut Port, KeyHandle) + Sync) {
    let _turn = turn();
    // What is made once is there before it is counted.
    let warm = Running::start(|_| {});
    seal_once(&warm);
    drop(warm);
    let before = Census::take();
    let running = Running::start(|_| {});
    let mill = running.mill.clone();
    let mut sides: Vec<(Raw, Port, KeyHandle)> = (0..clients)
        .map(|_| {
            let mut raw = Raw::greeted(running.socket());
            let (_, port) = raw.port(1 << 20);
            let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
            (raw, port, key)
        })
        .collect();
    std::thread::scope(|scope| {
        for (index, (raw, port, key)) in sides.iter_mut().enumerate() {
            let work = &work;
            scope.spawn(move || work(index, raw, port, *key));
        }
        std::thread::sleep(Duration::from_millis(20));
        let begun = Instant::now();
        ends(running);
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        assert!(mill.keys().is_empty(), "{} keys are left", mill.keys().len());
    });
    drop((sides, mill));
    wait_for("nothing is left", || {
        let now = Census::take();
        now.threads <= before.threads && now.has_no_more_than(&before)
    });
}

fn seal_once(running: &Running) {
    let mut raw = Raw::greeted(running.socket());
    let (_, mut port) = raw.port(0);
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    seal(&mut port, key, &[1; 12], b"text");
}

fn drain(mut running: Running) {
    running.service.take().expect("it runs").drain();
}

#[test]
fn a_service_that_ends_answers_what_it_was_asked() {
    drains(drain, 3, |_, raw, port, key| {
        submit_all(port, key, 200_000);
        assert_eq!(wait_for_all(raw, port), SLOTS as usize, "it was asked before the end");
        // Nothing is answered after the end.
        wait_for("the end", || is_ended(raw));
    });
}

#[test]
fn a_service_that_a_client_ends_hangs_up_on_all() {
    let ends = |mut running: Running| {
        let mut raw = Raw::greeted(running.socket());
        assert_eq!(raw.ask(&Ask::Drain), Answer::Done);
        running.service.as_mut().expect("it runs").wait();
        let late = std::os::unix::net::UnixStream::connect(running.socket());
        assert!(late.is_err(), "somebody is let in after the end");
    };
    drains(ends, 3, |_, raw, port, key| {
        submit_all(port, key, 100_000);
        wait_for_all(raw, port);
        wait_for("the end", || is_ended(raw));
    });
}

/// One never stops asking, one reads no answers, one does nothing: none of them keeps the service for longer than it allows.
#[test]
fn nobody_keeps_a_service_from_ending() {
    let ended = AtomicBool::new(false);
    drains(drain, 3, |index, raw, port, key| match index {
        0 => {
            while !is_ended(raw) {
                submit_all(port, key, 1000);
            }
            ended.store(true, Ordering::Relaxed);
        }
        1 => {
            let mut socket = raw.socket.try_clone().expect("a descriptor");
            socket.set_nonblocking(true).expect("a flag");
            let question = [&[1, 0, 0, 0][..], &Ask::Metrics.to_bytes()].concat();
            while !ended.load(Ordering::Relaxed) {
                let _ = socket.write(&question);
            }
        }
        _ => wait_for("the end", || is_ended(raw)),
    });
}
