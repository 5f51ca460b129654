//! Whether running time tells anything about keys and data, by statistics (Reparaz, Balasch and Verbauwhede 2017, "Dude,
//! is my code constant time?"). Runs on demand, on a quiet machine, with optimisation:
//!
//! `cargo test --release -p ciphermill-lanes --test timing -- --ignored --nocapture`
//!
//! Batches of two classes take turns in random order: all keys and data zero, or all random. Before the clock starts the
//! class's data are copied and its key is prepared, both classes' to the same places: where a key lies tells by itself,
//! because of what shares its cache sets, and so does which class's bytes were read last. Welch's t-test then says
//! whether their mean times differ; times above a few percentiles are cropped, because interrupts hit both classes alike.
//! A value beyond [`T_MAX`] is a leak.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::time::Instant;

use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
    capability,
};
use ciphermill_lanes::{KernelChoice, Lanes, kernels};
use ciphermill_vectors::keys::{pair_name, pairs};

/// Beyond this the classes differ for certain.
const T_MAX: f64 = 6.0;

/// Timed batches of each suite, direction and kernel.
const BATCHES: usize = 20_000;

/// Operations of a batch and bytes of each: short, uneven, more than one vector's worth.
const OPS: usize = 24;
const LEN: usize = 64;

const SUITES: [&str; 21] = [
    "des-cbc",
    "3des-cbc",
    "aes-128-ecb",
    "aes-256-cbc",
    "aes-128-ctr",
    "aes-256-xts",
    "aes-128-gcm",
    "aes-128-gmac",
    "aes-256-gcm-siv",
    "aes-256-siv",
    "aes-128-ccm",
    "aes-128-ocb",
    "aes-128-cmac",
    "chacha20",
    "chacha20-poly1305",
    "ff1-aes-256",
    "hmac-sha1",
    "hmac-sha256",
    "hmac-sha512",
    "aes-128-cbc+hmac-sha1",
    "hmac-sha256+aes-128-cbc",
];

/// Suites of key pairs whose private operations are timed under one pair or the other, and how many batches of each: what
/// these tell is told by every operation, which take a thousand times as long. ML-DSA is none of them: how many attempts a signature
/// takes shows, as FIPS 204 allows.
const PRIVATE: [&str; 15] = [
    "rsa-1024-sign-pkcs1-sha256",
    "rsa-2048-sign-pkcs1-sha256",
    "dh-ffdhe2048",
    "dh-modp2048",
    "x25519",
    "x448",
    "ed25519",
    "ecdsa-p256",
    "ecdsa-p384",
    "ecdh-p256",
    "ecdh-p384",
    "ml-kem-768",
    "ecdsa-sect163r2",
    "ecdh-sect163r2",
    "ecdh-sect283k1",
];
const PRIVATE_BATCHES: usize = 1_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| (self.next() >> 32) as u8);
    }
}

/// Times of one class in one crop, as count, mean and sum of squared distances (Welford 1962).
#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let distance = value - self.mean;
        self.mean += distance / self.count;
        self.squares += distance * (value - self.mean);
    }
}

/// The largest of Welch's t over several crops.
fn largest_t(times: &[(bool, f64)]) -> f64 {
    let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    let crops = [0.5, 0.75, 0.9, 0.99].map(|share| sorted[(share * (sorted.len() - 1) as f64) as usize]);
    crops.into_iter().fold(0.0, |largest, crop| welch(times, crop).max(largest))
}

fn welch(times: &[(bool, f64)], crop: f64) -> f64 {
    let mut classes = [Moments::default(); 2];
    for (class, time) in times.iter().filter(|(_, time)| *time <= crop) {
        classes[usize::from(*class)].add(*time);
    }
    let [a, b] = classes;
    let error = (a.squares / (a.count - 1.0) / a.count + b.squares / (b.count - 1.0) / b.count).sqrt();
    if error > 0.0 { ((a.mean - b.mean) / error).abs() } else { 0.0 }
}

/// One class: its key and what its arena holds.
struct Class {
    key: Vec<u8>,
    arena: Vec<u8>,
}

/// Operations that lie one behind the other, each with its output, tag and additional data; the same for both classes.
struct Places {
    ops: Vec<Op>,
    len: usize,
}

fn places(suite: Suite, direction: Direction, input_len: usize) -> Places {
    let output_len = suite.output_len(direction, input_len, 0);
    let (tag_len, aad_len) = (suite.default_tag_len(), suite.aad_len().min.max(suite.aad_len().max.min(11)));
    let stride = input_len + output_len + tag_len + aad_len;
    let place = |index: usize| {
        let start = index * stride;
        let iv = vec![index as u8; suite.default_iv_len()];
        Op::in_place(KeyId { slot: 0, generation: 1 }, Span::new(start as u32, input_len as u32))
            .with_output((start + input_len) as u32)
            .with_tag(if tag_len == 0 { 0 } else { (start + input_len + output_len) as u32 }, tag_len as u16)
            .with_aad(if aad_len == 0 { 0 } else { (start + input_len + output_len + tag_len) as u32 }, aad_len as u16)
            .with_iv(&iv)
    };
    Places { ops: (0..OPS).map(place).collect(), len: stride * OPS }
}

/// A class whose secrets are all zero, or all random. For the way back, inputs and tags are real ones.
fn class(engine: &dyn Engine, suite: Suite, direction: Direction, random: Option<&mut Random>) -> Class {
    let mut key = vec![0u8; suite.default_key_len()];
    let mut plain = vec![0u8; LEN];
    if let Some(random) = random {
        random.fill(&mut key);
        random.fill(&mut plain);
    } else if matches!(suite, Suite::Cipher(..)) {
        // XTS refuses equal halves.
        key[0] = 1;
    }
    if let Suite::Fpe(ff1) = suite {
        for numeral in plain.as_chunks_mut::<2>().0 {
            *numeral = ((u32::from(u16::from_le_bytes(*numeral)) % ff1.radix) as u16).to_le_bytes();
        }
    }
    let prepared = engine.prepare(&KeyMaterial::secret(&key), suite).expect("a fitting key");
    let forward = places(suite, Direction::Encrypt, LEN);
    let mut arena = vec![0u8; forward.len];
    for op in &forward.ops {
        arena[op.input.range()].copy_from_slice(&plain);
    }
    if direction == Direction::Encrypt {
        return Class { key, arena };
    }
    let mut ops = forward.ops.clone();
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    run(&mut *queue, suite, Direction::Encrypt, &prepared, &mut ops, &mut arena);
    let back = places(suite, direction, back_len(suite));
    let mut own = vec![0u8; back.len];
    for (from, to) in forward.ops.iter().zip(&back.ops) {
        let text = Span::new(if suite.transforms() { from.output } else { from.input.offset }, to.input.len);
        own[to.input.range()].copy_from_slice(&arena[text.range()]);
        own[to.tag_span().range()].copy_from_slice(&arena[from.tag_span().range()]);
    }
    Class { key, arena: own }
}

fn back_len(suite: Suite) -> usize {
    if suite.transforms() { suite.output_len(Direction::Encrypt, LEN, 0) } else { LEN }
}

/// Runs a batch and gives its nanoseconds.
fn run(
    queue: &mut dyn EngineQueue,
    suite: Suite,
    direction: Direction,
    key: &PreparedKey,
    ops: &mut [Op],
    arena: &mut [u8],
) -> f64 {
    let keys = vec![Some(key); ops.len()];
    let mut checked = Batch::new(suite, direction, ops, arena).check().expect("a sound batch");
    let mut batch = checked.attach_keys(&keys).expect("a key each");
    let start = Instant::now();
    queue.run(&mut batch);
    let elapsed = start.elapsed();
    assert!(batch.ops().iter().all(|op| op.status == OpStatus::Done), "{suite} {direction}");
    elapsed.as_nanos() as f64
}

/// One class's bytes. Both are read, so that the caches know nothing of the choice.
fn select(second: bool, from: [&[u8]; 2], to: &mut [u8]) {
    let mask = std::hint::black_box(u8::from(second).wrapping_neg());
    for ((to, first), second) in to.iter_mut().zip(from[0]).zip(from[1]) {
        *to = (first & !mask) | (second & mask);
    }
}

fn measure(engine: &dyn Engine, suite: Suite, direction: Direction, random: &mut Random) -> f64 {
    let classes = [class(engine, suite, direction, None), class(engine, suite, direction, Some(random))];
    let len = if direction == Direction::Encrypt { LEN } else { back_len(suite) };
    let template = places(suite, direction, len);
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let (mut ops, mut arena) = (template.ops.clone(), vec![0u8; template.len]);
    let mut times = Vec::with_capacity(BATCHES);
    let mut key: Option<PreparedKey> = None;
    let mut bytes = classes[0].key.clone();
    for _ in 0..BATCHES {
        let chosen = random.next() & 1 == 1;
        select(chosen, [&classes[0].arena, &classes[1].arena], &mut arena);
        select(chosen, [&classes[0].key, &classes[1].key], &mut bytes);
        ops.copy_from_slice(&template.ops);
        // The old one goes first, so that the new one has its place.
        drop(key.take());
        let key = key.insert(engine.prepare(&KeyMaterial::secret(&bytes), suite).expect("a fitting key"));
        times.push((chosen, run(&mut *queue, suite, direction, key, &mut ops, &mut arena)));
    }
    largest_t(&times)
}

/// A batch of private operations and its arena.
fn private_batch(suite: Suite) -> (Direction, Places, Vec<u8>) {
    let pairs = pairs(&pair_name(suite).expect("a suite of key pairs"));
    let input_len = if matches!(suite, Suite::Agree(_)) { suite.input_len(Direction::Encrypt).max } else { LEN };
    // Ciphertexts of nothing are decapsulated like others (FIPS 203, 6.3).
    let (direction, input_len) =
        if matches!(suite, Suite::Kem(_)) { (Direction::Decrypt, 0) } else { (Direction::Encrypt, input_len) };
    let template = places(suite, direction, input_len);
    let mut arena = vec![7u8; template.len];
    if matches!(suite, Suite::Agree(_)) {
        // The public value ends its encoding.
        let (_, value) = pairs[0].public.split_at(pairs[0].public.len() - input_len);
        template.ops.iter().for_each(|op| arena[op.input.range()].copy_from_slice(value));
    }
    (direction, template, arena)
}

/// Both classes' operations are the same but for the key.
fn measure_private(engine: &dyn Engine, suite: Suite, random: &mut Random) -> f64 {
    let pairs = pairs(&pair_name(suite).expect("a suite of key pairs"));
    let (direction, template, mut arena) = private_batch(suite);
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    let (mut ops, mut times) = (template.ops.clone(), Vec::with_capacity(PRIVATE_BATCHES));
    let mut key: Option<PreparedKey> = None;
    for _ in 0..PRIVATE_BATCHES {
        let chosen = random.next() & 1 == 1;
        ops.copy_from_slice(&template.ops);
        drop(key.take());
        let material = KeyMaterial::private(&pairs[usize::from(chosen)].private);
        let key = key.insert(engine.prepare(&material, suite).expect("a good key"));
        times.push((chosen, run(&mut *queue, suite, direction, key, &mut ops, &mut arena)));
    }
    largest_t(&times)
}

/// The shortest time that a batch takes under each of two pairs, of several, since one may be interrupted once more than another.
fn shortest(engine: &dyn Engine, suite: Suite) -> [f64; 2] {
    let pairs = pairs(&pair_name(suite).expect("a suite of key pairs"));
    let (direction, template, mut arena) = private_batch(suite);
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    [0, 1].map(|pair| {
        let key = engine.prepare(&KeyMaterial::private(&pairs[pair].private), suite).expect("a good key");
        let mut once = || run(&mut *queue, suite, direction, &key, &mut template.ops.clone(), &mut arena);
        (0..8).map(|_| once()).fold(f64::INFINITY, f64::min)
    })
}

/// By how much the instructions of an operation may differ under two keys: interrupts are counted too, and what is drawn at random.
const COUNTS_APART: f64 = 0.005;

/// The instructions of private operations are as many under one key as under another. A nanosecond is an instruction under `make emulated`.
#[test]
#[ignore = "times are instructions only where a processor is emulated"]
fn instructions_of_private_operations_tell_nothing_of_keys() {
    let mut differ = Vec::new();
    for kernel in kernels().into_iter().filter(|kernel| kernel.capable) {
        if kernel.name == "portable" || !["public", "binary"].contains(&kernel.family) {
            continue;
        }
        let engine = Lanes::with_kernels(&[&format!("{}={}", kernel.family, kernel.name)]).expect("this processor can");
        for suite in PRIVATE.map(|name| name.parse::<Suite>().expect("a suite")) {
            if suite.kernel_family() == kernel.family {
                let [first, second] = shortest(&engine, suite).map(|time| time / OPS as f64);
                let counted = format!(
                    "{} {} {suite}: {first:.0} an operation, {second:.0} with another key",
                    kernel.family, kernel.name
                );
                println!("{counted}");
                // About half of all nonces of as many bits as its order are above it, and others are drawn.
                let draws_again = suite.to_string() == "ecdsa-sect163r2";
                if !draws_again && (first - second).abs() > COUNTS_APART * first {
                    differ.push(counted);
                }
            }
        }
    }
    assert!(differ.is_empty(), "instructions differ by key:\n{}", differ.join("\n"));
}

#[test]
fn a_leak_would_be_found() {
    let mut random = Random(5);
    let mut times = Vec::new();
    for _ in 0..4000 {
        let class = random.next() & 1 == 1;
        // Four units more in one class, under noise of up to fifty.
        times.push((class, 99.0 + f64::from(u8::from(class)) * 4.0 + (random.next() % 50) as f64));
    }
    assert!(largest_t(&times) > 4.5, "{}", largest_t(&times));
    let same: Vec<(bool, f64)> = times.iter().map(|(_, time)| (random.next() & 1 == 1, *time)).collect();
    assert!(largest_t(&same) < T_MAX / 2.0, "{}", largest_t(&same));
}

#[test]
#[ignore = "statistics want a quiet machine, optimisation and minutes"]
fn running_time_tells_nothing_of_private_keys() {
    let mut random = Random(0x5eed);
    let mut leaks = Vec::new();
    let of_pairs = |kernel: &KernelChoice| kernel.capable && ["public", "lattice", "binary"].contains(&kernel.family);
    for kernel in kernels().into_iter().filter(of_pairs) {
        let (family, name) = (kernel.family, kernel.name);
        // Two lanes without vectors take a second a batch of some; their steps are those of the others.
        if name == "portable"
            && kernels().iter().any(|other| of_pairs(other) && other.family == family && other.name != name)
        {
            println!("  {family} portable: not timed");
            continue;
        }
        let engine = Lanes::with_kernels(&[&format!("{family}={name}")]).expect("this processor can");
        let suites = PRIVATE.map(|name| name.parse::<Suite>().expect("a suite"));
        for suite in suites.into_iter().filter(|suite| suite.kernel_family() == family) {
            let t = (0..2).map(|_| measure_private(&engine, suite, &mut random)).fold(f64::MAX, f64::min);
            println!("  {family} {name:<10} {suite}: t = {t:.1}");
            if t > T_MAX {
                leaks.push(format!("{family}={name} {suite}: t = {t:.1}"));
            }
        }
    }
    assert!(leaks.is_empty(), "running times differ by key:\n{}", leaks.join("\n"));
}

#[test]
#[ignore = "statistics want a quiet machine, optimisation and minutes"]
fn running_time_tells_nothing() {
    let mut random = Random(0x5eed);
    let mut leaks = Vec::new();
    for kernel in kernels().into_iter().filter(|kernel| kernel.capable) {
        let engine = Lanes::with_kernels(&[&format!("{}={}", kernel.family, kernel.name)]).expect("this processor can");
        for suite in SUITES.map(|name| name.parse::<Suite>().expect("a suite")) {
            if engine.info().kernel_for(suite) != kernel.name || suite.kernel_family() != kernel.family {
                continue;
            }
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                if capability::find(engine.capabilities(), suite, direction).is_none() {
                    continue;
                }
                // Twice at most: a leak shows every time, a disturbance does not.
                let t = (0..2).map(|_| measure(&engine, suite, direction, &mut random)).fold(f64::MAX, f64::min);
                println!("{:>8} {:<10} {suite} {direction}: t = {t:.1}", kernel.family, kernel.name);
                if t > T_MAX {
                    leaks.push(format!("{}={} {suite} {direction}: t = {t:.1}", kernel.family, kernel.name));
                }
            }
        }
    }
    assert!(leaks.is_empty(), "running times differ by class:\n{}", leaks.join("\n"));
}
