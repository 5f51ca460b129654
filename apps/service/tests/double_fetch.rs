//! A client that rewrites requests, operations and data while they are read. It may harm itself; nobody else, and the service never.
//!
//! For `CIPHERMILL_SERVICE_SECONDS` seconds, three if nothing is said.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill_channel::{
    ColumnShape, DATA_AT, KeyHandle, Outcome, Port, Request, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs, ShapeKeys,
    ShapeSteps, ShapeTags, put_statuses,
};
use ciphermill_contract::{ColumnStatus, Direction, KeyId, Op};
use ciphermill_memory::Region;
use common::campaign::Campaign;
use common::raw::{DATA, Raw, fill, request, seal_op, suite};
use rustix::fs::FallocateFlags;

const DATA_LEN: u32 = 1024;

/// Writes words that look like lengths, offsets, names of keys and others, wherever the service reads.
fn flip(memory: OwnedFd, ends: &AtomicBool, seed: u32) {
    let file = memory.try_clone().expect("a descriptor");
    let region = Region::join(memory).expect("a region");
    let words = |at: usize, count: usize| region.words(at, count).expect("within");
    let (counters, requests) = (words(64, 64), words(2048, 512));
    let (ops, data) = (words(DATA_AT, 16 * 8), words(DATA as usize, DATA_LEN as usize / 4));
    let values = [0, 1, 12, 16, 64, 80, 1024, 65_536, 1 << 31, u32::MAX, u32::MAX - 15, DATA, DATA_AT as u32];
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize
    };
    let mut steps = 0u64;
    while !ends.load(Ordering::Relaxed) {
        steps += 1;
        let value = values[next() % values.len()];
        // Few of the words that end a connection, so that most requests are looked at to the end.
        let place = match next() % 4096 {
            0 => &counters[next() % counters.len()],
            1..8 => &requests[next() % requests.len()],
            8..1600 => &data[next() % data.len()],
            _ => &ops[next() % ops.len()],
        };
        let before = place.swap(value, Ordering::Relaxed);
        if next() % 2 == 0 {
            place.store(before, Ordering::Relaxed);
        }
        if steps.is_multiple_of(50_000) {
            // Pages that are gone are read as zeros.
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, flags, DATA.into(), 4096).expect("a hole");
        }
    }
}

/// Submits until the service hangs up or the time is over; how many requests were completed.
fn submit(raw: &Raw, port: &mut Port, key: KeyHandle, until: Instant) -> u64 {
    let mut completed = 0;
    let suites = ["aes-128-gcm", "sha256", "aes-128-gcm", "chacha20-poly1305"].map(suite);
    while Instant::now() < until {
        let asked = if completed % 3 == 0 { put_columns(port, key) } else { None }.unwrap_or_else(|| {
            let ops: Vec<Op> = (0..8).map(|index| seal_op(key, &[index; 12], 64)).collect();
            let ops: Vec<Op> = ops.iter().zip(0..).map(|(op, index)| at(op, index * 96)).collect();
            fill(port, &ops, &[3; DATA_LEN as usize]);
            request(suites[completed as usize % 4], 8, DATA_LEN)
        });
        let Some(number) = port.submit(asked) else { return completed };
        loop {
            match port.outcome(number) {
                Some(Outcome::Ran | Outcome::Misuse(_) | Outcome::Refused | Outcome::Exhausted | Outcome::Fault) => {
                    break;
                }
                None if is_ended(raw) => return completed,
                None => {}
            }
            if Instant::now() >= until {
                return completed;
            }
            std::thread::yield_now();
        }
        completed += 1;
    }
    completed
}

/// Eight operations as columns, with offsets, into a buffer of their own.
fn put_columns(port: &Port, key: KeyHandle) -> Option<Request> {
    let buffer = ShapeBuffer { len: 8 * 32, steps: ShapeSteps::Offsets };
    let shape = ColumnShape {
        keys: ShapeKeys::One(KeyId { slot: key.slot, generation: key.generation }),
        ivs: ShapeIvs::Counter(12),
        aad: ShapeAad::None,
        tags: ShapeTags::Column(16),
        data: ShapeData::Separate(buffer, buffer),
    };
    let places = shape.places(8, Direction::Encrypt)?;
    let mut data = vec![0; places.len];
    for place in [places.input_offsets, places.output_offsets] {
        let offsets = data[place].as_chunks_mut::<4>().0;
        offsets.iter_mut().zip(0u32..).for_each(|(offset, index)| *offset = (32 * index).to_le_bytes());
    }
    shape.put(port.memory(), DATA_AT).ok()?;
    put_statuses(port.memory(), DATA_AT, &[ColumnStatus::PENDING; 8]).ok()?;
    assert!(port.memory().write(DATA as usize, &data));
    Some(Request { columns: true, ..request(suite("aes-128-gcm"), 8, places.len as u32) })
}

fn at(op: &Op, by: u32) -> Op {
    let mut op = *op;
    op.input.offset += by;
    op.output += by;
    op.tag += by;
    op
}

fn is_ended(raw: &Raw) -> bool {
    let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
    !matches!(rustix::net::recv(&raw.socket, &mut [0u8; 1], flags), Err(rustix::io::Errno::AGAIN))
}

#[test]
fn what_is_changed_while_it_is_read_harms_nobody_else() {
    let seconds = std::env::var("CIPHERMILL_SERVICE_SECONDS").map_or(3, |text| text.parse().expect("seconds"));
    let campaign = Campaign::begin(|_| {});
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut completed, mut connections) = (0, 0);
    while Instant::now() < until {
        let mut raw = Raw::greeted(campaign.socket());
        let (_, [memory, bell]) = raw.descriptors(0);
        let key = raw.import(suite("aes-128-gcm"), &[9; 16]);
        let shared = memory.try_clone().expect("a descriptor");
        let mut port = Port::new(memory, bell).expect("a channel");
        let ends = AtomicBool::new(false);
        connections += 1;
        std::thread::scope(|scope| {
            scope.spawn(|| flip(shared, &ends, connections));
            // A new one now and then: a counter that was changed may leave both sides waiting for each other.
            let until = until.min(Instant::now() + Duration::from_millis(50));
            completed += submit(&raw, &mut port, key, until);
            ends.store(true, Ordering::Relaxed);
        });
    }
    println!("NOTE: {completed} requests over {connections} connections");
    assert!(completed > 50 && connections > 5, "{completed}, {connections}");
    campaign.no_engine_was_blamed();
    campaign.end();
}
