//! Hostile clients and the descriptors that they have got: memory that is to vanish below the service, and a bell that is to block it.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill_channel::{DATA_AT, Outcome, Port, SLOTS};
use common::campaign::Campaign;
use common::raw::{Raw, fill, outcome, request, seal, seal_op, suite};
use rustix::fs::{FallocateFlags, OFlags, SealFlags};
use rustix::io::Errno;

#[test]
fn memory_cannot_be_taken_away() {
    let campaign = Campaign::begin(|_| {});
    let mut raw = Raw::greeted(campaign.socket());
    let (_, [memory, bell]) = raw.descriptors(1 << 20);
    let file = memory.try_clone().expect("a descriptor");
    let mut port = Port::new(memory, bell).expect("a channel");
    let len = port.memory().len() as u64;
    for shorter in [0, 1, 4096, len - 1] {
        assert_eq!(rustix::fs::ftruncate(&file, shorter), Err(Errno::PERM), "{shorter}");
    }
    assert_eq!(rustix::fs::ftruncate(&file, len + 1), Err(Errno::PERM));
    assert_eq!(rustix::fs::fallocate(&file, FallocateFlags::empty(), len, 4096), Err(Errno::PERM));
    let collapse = rustix::fs::fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096);
    assert!(collapse.is_err(), "{collapse:?}");
    for seal in [SealFlags::WRITE, SealFlags::FUTURE_WRITE, SealFlags::SHRINK] {
        assert_eq!(rustix::fs::fcntl_add_seals(&file, seal), Err(Errno::PERM), "{seal:?}");
    }
    let again =
        std::fs::OpenOptions::new().write(true).truncate(true).open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    assert!(again.is_err(), "opened and cut");
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    assert_eq!(seal(&mut port, key, &[1; 12], b"text").0, Outcome::Ran);
    // Holes are allowed: zeros are read, and nobody is killed.
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let number = port.submit(request(suite("aes-128-gcm"), 1, 20)).expect("a slot");
    rustix::fs::fallocate(&file, flags, DATA_AT as u64, len - DATA_AT as u64).expect("a hole");
    assert!(matches!(outcome(&port, number), Outcome::Ran | Outcome::Misuse(_)));
    drop((raw, port, file));
    campaign.end();
}

#[test]
fn clients_unmap_with_requests_in_flight() {
    let campaign = Campaign::begin(|_| {});
    for round in 0..100 {
        let mut raw = Raw::greeted(campaign.socket());
        let (channel, mut port) = raw.port(1 << 20);
        let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
        fill(&port, &[seal_op(key, &[1; 12], 1 << 19)], &vec![5; (1 << 19) + 16]);
        for _ in 0..SLOTS.min(8) {
            port.submit(request(suite("aes-128-gcm"), 1, (1 << 19) + 16)).expect("a slot");
        }
        if round % 3 == 0 {
            raw.say(&ciphermill_channel::Ask::Close { channel });
        }
        drop(port);
        if round % 2 == 0 {
            raw.status();
        }
    }
    campaign.end();
}

/// The flags of the bell are shared: reading it would block the service. It is drained, filled, and rung without an end.
#[test]
fn a_bell_that_blocks_is_never_waited_for() {
    let campaign = Campaign::begin(|_| {});
    let mut raw = Raw::greeted(campaign.socket());
    let (_, [memory, bell]) = raw.descriptors(0);
    let reader = bell.try_clone().expect("a descriptor");
    rustix::fs::fcntl_setfl(&bell, OFlags::RDWR).expect("blocking now");
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    let ended = AtomicBool::new(false);
    let until = Instant::now() + Duration::from_secs(2);
    std::thread::scope(|scope| {
        // It reads what is there the moment that it is.
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                let _ = rustix::io::read(reader.as_fd(), &mut [0; 8]);
            }
        });
        let ringer = bell.try_clone().expect("a descriptor");
        let mut port = Port::new(memory, bell).expect("a channel");
        let mut answered = 0;
        while Instant::now() < until {
            fill(&port, &[seal_op(key, &[1; 12], 64)], &[1; 80]);
            let number = port.submit(request(suite("aes-128-gcm"), 1, 80)).expect("a slot");
            // The bell may be empty before the service looks: who does that has to ring again.
            while port.outcome(number).is_none() {
                rustix::io::write(&ringer, &1u64.to_ne_bytes()).expect("rung");
            }
            answered += 1;
            if answered % 16 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        assert!(answered > 10, "{answered}");
        ended.store(true, Ordering::Relaxed);
        rustix::io::write(&ringer, &1u64.to_ne_bytes()).expect("rung");
    });
    drop((raw, reader));
    // A bell that is full, of a client that asks for nothing; and one that is rung for nothing all the time.
    let mut raw = Raw::greeted(campaign.socket());
    let (_, [memory, bell]) = raw.descriptors(0);
    rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).expect("full");
    let (_, [other_memory, other]) = raw.descriptors(0);
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        rustix::io::write(&other, &1u64.to_ne_bytes()).expect("rung");
    }
    drop((raw, memory, bell, other_memory, other));
    campaign.end();
}

/// What a client locks or asks to be told of on its descriptors is its own matter.
#[test]
fn words_that_both_sides_sleep_on_are_only_words() {
    let campaign = Campaign::begin(|_| {});
    let mut raw = Raw::greeted(campaign.socket());
    let (_, mut port) = raw.port(0);
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    let until = Instant::now() + Duration::from_secs(1);
    let mut rounds = 0u32;
    while Instant::now() < until {
        // The client says that it sleeps, or anything; and that the service is awake, or anything but asleep.
        let value = [1, 0, 7, u32::MAX][rounds as usize % 4];
        port.memory().words(192, 1).expect("within")[0].store(value, Ordering::Relaxed);
        assert_eq!(seal(&mut port, key, &[1; 12], b"text").0, Outcome::Ran);
        port.memory().words(128, 1).expect("within")[0].store(1, Ordering::Relaxed);
        rounds += 1;
    }
    assert!(rounds > 100, "{rounds}");
    drop((raw, port));
    campaign.end();
}
