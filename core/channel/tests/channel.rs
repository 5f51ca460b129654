//! Both sides of a channel in one process: requests, sleeping and waking, and what a hostile client writes.

#![allow(clippy::expect_used, reason = "tests")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ciphermill_channel::{Channel, DATA_AT, DATA_LEN_MIN, Outcome, Position, Request, SLOTS, Spin};
use ciphermill_contract::{Direction, Misuse, Reason};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

const SPIN: Duration = Duration::from_micros(5);

fn request(tag: u32) -> Request {
    let suite = "aes-128-gcm".parse().expect("a suite");
    let data_at = DATA_AT as u32 + 4096;
    Request {
        suite,
        direction: Direction::Encrypt,
        ops: 1,
        columns: false,
        ops_at: DATA_AT as u32,
        data_at,
        data_len: tag,
    }
}

#[test]
fn requests_come_in_order_and_are_completed_in_any() {
    let channel = Channel::create(DATA_LEN_MIN).expect("memory");
    let mut port = channel.port().expect("descriptors");
    let mut position = Position::default();
    assert_eq!(channel.take(&mut position), Ok(None));
    for round in 0..200 {
        let numbers: Vec<u32> = (0..3).map(|index| port.submit(request(index)).expect("a slot")).collect();
        let taken: Vec<_> = (0..3).map(|_| channel.take(&mut position).expect("well formed").expect("there")).collect();
        for (index, (taken, number)) in taken.iter().zip(&numbers).enumerate() {
            assert_eq!((taken.number, taken.request), (*number, request(index as u32)), "round {round}");
        }
        assert_eq!(channel.take(&mut position), Ok(None));
        let misuse = Outcome::Misuse(Misuse { op: round, reason: Reason::IvLength });
        for (index, outcome) in [(2, Outcome::Ran), (0, misuse), (1, Outcome::Exhausted)] {
            assert_eq!(port.outcome(numbers[index]), None);
            channel.complete(numbers[index], outcome);
            assert_eq!(port.outcome(numbers[index]), Some(outcome));
        }
    }
}

#[test]
fn a_client_gets_no_more_slots_than_there_are() {
    let channel = Channel::create(DATA_LEN_MIN).expect("memory");
    let mut port = channel.port().expect("descriptors");
    let mut position = Position::default();
    for _ in 0..3 {
        let first = port.submit(request(0)).expect("a slot");
        for _ in 1..SLOTS {
            port.submit(request(0)).expect("a slot");
        }
        assert_eq!(port.submit(request(0)), None);
        let taken = channel.take(&mut position).expect("well formed").expect("there");
        assert_eq!(taken.number, first);
        assert_eq!(port.submit(request(0)), None, "taken, but not completed");
        channel.complete(first, Outcome::Ran);
        port.submit(request(0)).expect("the slot of the first");
        while let Some(taken) = channel.take(&mut position).expect("well formed") {
            channel.complete(taken.number, Outcome::Ran);
        }
    }
}

#[test]
fn a_counter_that_is_ahead_of_the_slots_ends_the_channel() {
    for ahead in [SLOTS + 1, SLOTS + 2, u32::MAX, 1 << 31] {
        let channel = Channel::create(DATA_LEN_MIN).expect("memory");
        let mut position = Position::default();
        channel.memory().words(64, 1).expect("within")[0].store(ahead, Ordering::Release);
        let corrupt = channel.take(&mut position).expect_err("impossible");
        assert!(corrupt.to_string().contains("slots"), "{corrupt}");
    }
}

/// Writes any words into the whole first page, while the service takes and completes.
#[test]
fn a_client_that_writes_anything_gets_nothing_but_errors() {
    for seed in 1u32..200 {
        let channel = Channel::create(DATA_LEN_MIN).expect("memory");
        let mut position = Position::default();
        let mut state = seed;
        let words = channel.memory().words(0, DATA_AT / 4).expect("within");
        for (index, word) in words.iter().enumerate() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // The counter itself is small, so that requests are looked at.
            word.store(if index == 16 { seed % (SLOTS + 2) } else { state }, Ordering::Relaxed);
        }
        let mut taken = 0;
        while let Ok(Some(request)) = channel.take(&mut position) {
            channel.complete(request.number, Outcome::Fault);
            taken += 1;
        }
        assert!(taken <= SLOTS);
    }
}

/// Two clients in turns with a service that sleeps whenever it can; nobody may be left asleep.
#[test]
fn both_sides_sleep_and_are_woken() {
    const ROUNDS: usize = 20_000;
    let channel = Channel::create(DATA_LEN_MIN).expect("memory");
    let mut port = channel.port().expect("descriptors");
    let (ended, sleeps) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut position = Position::default();
            while !ended.load(Ordering::Relaxed) {
                while let Some(taken) = channel.take(&mut position).expect("well formed") {
                    channel.complete(taken.number, Outcome::Ran);
                }
                if channel.may_sleep(&position) {
                    sleeps.fetch_add(1, Ordering::Relaxed);
                    let mut ready = [PollFd::from_borrowed_fd(channel.bell(), PollFlags::IN)];
                    // The descriptor is read here, since `poll` knows no edges.
                    let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
                    let rung = poll(&mut ready, Some(&timeout)).expect("a descriptor");
                    assert!(rung == 1 || ended.load(Ordering::Relaxed), "the bell was not rung within a second");
                    let _ = rustix::io::read(channel.bell(), &mut [0; 8]);
                    channel.woken();
                }
            }
        });
        for round in 0..ROUNDS {
            let number = port.submit(request(round as u32 % 1000)).expect("a slot");
            let look = if round % 3 == 0 { Duration::ZERO } else { SPIN };
            assert_eq!(port.wait(number, (&mut Spin::new(), look), || true), Ok(Outcome::Ran));
        }
        ended.store(true, Ordering::Relaxed);
        port.submit(request(0)).expect("a slot");
    });
    assert!(sleeps.load(Ordering::Relaxed) > 0, "the service slept now and then");
}

#[test]
fn a_client_hears_whether_it_is_in_a_crowd() {
    let channel = Channel::create(DATA_LEN_MIN).expect("memory");
    let port = channel.port().expect("descriptors");
    assert!(!port.is_crowded());
    for crowded in [true, true, false, true] {
        channel.set_crowded(crowded);
        assert_eq!(port.is_crowded(), crowded);
    }
}

#[test]
fn a_client_that_has_waited_enough_gives_up() {
    let channel = Channel::create(DATA_LEN_MIN).expect("memory");
    let mut port = channel.port().expect("descriptors");
    let number = port.submit(request(0)).expect("a slot");
    let mut asked = 0;
    let result = port.wait(number, (&mut Spin::new(), Duration::ZERO), || {
        asked += 1;
        asked < 3
    });
    assert!(result.is_err() && asked == 3);
}

#[test]
fn what_is_no_channel_is_not_opened() {
    use ciphermill_channel::Port;
    use ciphermill_memory::Region;
    let bell = || eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
    let file = std::fs::File::open("/dev/null").expect("always there");
    assert!(Port::new(file.into(), bell()).is_err());
    let small = Region::create("small", DATA_AT).expect("memory");
    assert!(Port::new(small.file().try_clone_to_owned().expect("a descriptor"), bell()).is_err());
}
