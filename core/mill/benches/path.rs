//! What the mill costs around an engine: check, lease, route, dispatch, status. The engine computes nothing.
//!
//! Floor: an operation is one cache line of 64 bytes, read by the check, the lease and the engine and written once; at
//! two loads and one store a cycle from the first-level cache that is some 10 cycles, 3 ns at 3 GHz.
//! Limits: under 5 ns an operation in a batch of 1,000, under 150 ns for a lone operation.
//!
//! A handle (`bound`) costs, beyond the check that a bare queue needs too, the key's lease (two atomic additions, some 20 cycles
//! each) and, for buffers that may lie anywhere, copies there and back and a wipe.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use ciphermill::null::NullEngine;
use ciphermill::{BoundOp, KeyPolicy, Mill, One, SelfTest};
use ciphermill_contract::{Batch, Direction, KeyId, KeyMaterial, Op, OpStatus, Span, Suite};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

struct Case {
    suite: Suite,
    ops: Vec<Op>,
    arena: Vec<u8>,
}

fn mill() -> (Mill, Vec<KeyId>) {
    let mill = Mill::builder().engine(NullEngine::shared()).self_test(SelfTest::Never).open().expect("opens");
    let import = |n: u8| mill.keys().import(KeyMaterial::secret(&[n; 16]), KeyPolicy::default()).expect("room");
    let keys = (0..64).map(import).collect();
    (mill, keys)
}

/// `count` operations of 48 bytes, each with a key of 64 and its own tag.
fn case(suite: &str, count: usize, keys: &[KeyId]) -> Case {
    let suite: Suite = suite.parse().expect("a suite");
    let tag_len = suite.default_tag_len();
    let ops = (0..count)
        .map(|n| {
            let offset = (n * (48 + tag_len)) as u32;
            Op::in_place(keys[n * 29 % keys.len()], Span::new(offset, 48))
                .with_iv(&[3; 16][..suite.default_iv_len()])
                .with_tag(offset + 48, tag_len as u16)
        })
        .collect();
    Case { suite, ops, arena: vec![0; count * (48 + tag_len)] }
}

impl Case {
    fn time(&mut self, rounds: u64, mut run: impl FnMut(Batch<'_>) -> usize) -> Duration {
        let mut total = Duration::ZERO;
        for _ in 0..rounds {
            self.ops.iter_mut().for_each(|op| op.status = OpStatus::Pending);
            let start = Instant::now();
            let batch = Batch::new(self.suite, Direction::Encrypt, &mut self.ops, &mut self.arena);
            let done = run(black_box(batch));
            total += start.elapsed();
            assert_eq!(done, self.ops.len());
        }
        total
    }
}

/// What reading the clock twice costs: it is part of every figure below.
fn clock(criterion: &mut Criterion) {
    criterion.bench_function("clock", |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| black_box(Instant::now()).elapsed()).sum());
    });
}

fn path(criterion: &mut Criterion) {
    for suite in ["aes-128-cbc", "aes-128-gcm"] {
        let (mill, keys) = mill();
        let mut session = mill.session();
        let mut group = criterion.benchmark_group(suite);
        for count in [1, 32, 250, 1_000, 50_000] {
            let mut case = case(suite, count, &keys);
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(format!("session/{count}"), |bencher| {
                bencher.iter_custom(|rounds| case.time(rounds, |batch| session.run(batch).expect("runs").done));
            });
        }
        let mut checked = case(suite, 1_000, &keys);
        group.throughput(Throughput::Elements(1_000));
        group.bench_function("check alone/1000", |bencher| {
            bencher.iter_custom(|rounds| checked.time(rounds, |batch| black_box(batch.check().expect("passes")).len()));
        });
        group.throughput(Throughput::Elements(1));
        let mut lone = case(suite, 1, &keys);
        group.bench_function("mill/1", |bencher| {
            bencher.iter_custom(|rounds| lone.time(rounds, |batch| mill.run(batch).expect("runs").done));
        });
        group.finish();
    }
}

/// A lone operation of 64 bytes: on the bare queue, through handles, and by itself.
fn lone(criterion: &mut Criterion) {
    let (mill, keys) = mill();
    let suite: Suite = "aes-128-gcm".parse().expect("a suite");
    let key = keys[0];
    let mut group = criterion.benchmark_group("lone aes-128-gcm");
    let op = Op::in_place(key, Span::new(0, 64)).with_iv(&[3; 12]).with_tag(64, 16);
    let engine = NullEngine::shared();
    let mut queue = engine.queue(Default::default()).expect("opens");
    let prepared = engine.prepare(&KeyMaterial::secret(&[1; 16]), suite).expect("any key");
    let mut arena = [0; 80];
    group.bench_function("bare", |bencher| {
        bencher.iter(|| {
            let mut ops = black_box([op]);
            let mut batch = Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena).check().expect("passes");
            queue.run(&mut batch.attach_keys(&[Some(&prepared)]).expect("as many"));
            assert!(ops[0].status.is_done());
        });
    });
    let mut bound = mill.bind(suite, Direction::Encrypt, key).expect("binds");
    group.bench_function("bound in an arena", |bencher| {
        bencher.iter(|| {
            let mut op = black_box(op);
            bound.run_op(&mut op, &mut arena).expect("runs");
            assert!(op.status.is_done());
        });
    });
    let (mut data, mut tag) = ([0; 64], [0; 16]);
    group.bench_function("bound", |bencher| {
        bencher.iter(|| {
            let op = BoundOp { iv: &[3; 12], aad: &[], data: &mut data, input_len: 64, tag: &mut tag };
            assert!(bound.run(black_box(op)).expect("runs").status.is_done());
        });
    });
    group.bench_function("run_one", |bencher| {
        bencher.iter(|| {
            let one = One { key, iv: &[3; 12], aad: &[], data: &mut data, input_len: 64, tag: &mut tag };
            let done = mill.run_one(suite, Direction::Encrypt, black_box(one)).expect("runs");
            assert!(done.status.is_done());
        });
    });
    group.bench_function("lease", |bencher| bencher.iter(|| black_box(mill.keys().lease()).entry(key).is_some()));
    group.finish();
}

criterion_group!(benches, clock, path, lone);
criterion_main!(benches);
