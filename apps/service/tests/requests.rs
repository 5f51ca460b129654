//! Hostile clients in shared memory: counters, requests and operations that no client of ours writes, and keys of others.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ciphermill::{KeyPolicy, Mill};
use ciphermill_channel::{
    Answer, Ask, DATA_AT, DATA_LEN_MIN, KeyHandle, Outcome, Port, RECORD_LEN, Request, SLOTS, get_ops, put_ops,
    read_results,
};
use ciphermill_contract::op::Aad;
use ciphermill_contract::{
    Batch, Direction, Error, KeyForm, KeyId, KeyMaterial, Misuse, Op, OpStatus, Reason, Span, Suite,
};
use common::campaign::Campaign;
use common::raw::{DATA, PATIENCE, Raw, fill, outcome, request, seal, seal_op, status_of, suite};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Where the counter of requests and the slots of requests are, in bytes.
const SUBMITTED_AT: usize = 64;
const REQUESTS_AT: usize = 2048;

const END: u32 = (DATA_AT + DATA_LEN_MIN) as u32;

/// Rings with the channel as it is.
fn ring(bell: &impl std::os::fd::AsFd) {
    rustix::io::write(bell, &1u64.to_ne_bytes()).expect("rung");
}

/// Writes a number into the counter of a new client's channel. Whether the client is hung up on.
fn counts(campaign: &Campaign, submitted: u32, sealed_before: u32) {
    let mut raw = Raw::greeted(campaign.socket());
    let (_, [memory, bell]) = raw.descriptors(0);
    let mut port = Port::new(memory, bell.try_clone().expect("a descriptor")).expect("a channel");
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    for round in 0..sealed_before {
        assert_eq!(seal(&mut port, key, &[round as u8; 12], b"text").1, OpStatus::Done);
    }
    port.memory().words(SUBMITTED_AT, 1).expect("within")[0].store(submitted, Ordering::Release);
    ring(&bell);
    raw.wait_for_end();
}

#[test]
fn impossible_counters_end_the_connection() {
    let campaign = Campaign::begin(|_| {});
    for submitted in [SLOTS + 1, SLOTS + 2, 1 << 31, u32::MAX, u32::MAX - SLOTS] {
        counts(&campaign, submitted, 0);
    }
    // Backwards, and too far ahead of where it was.
    for submitted in [2, 0, 3 + SLOTS + 1] {
        counts(&campaign, submitted, 3);
    }
    campaign.end();
}

/// Waits until the first request has an outcome, or the service has hung up.
fn outcome_or_end(raw: &Raw, port: &Port) -> Option<Outcome> {
    let begun = Instant::now();
    loop {
        if let Some(outcome) = port.outcome(0) {
            return Some(outcome);
        }
        let peeked = rustix::net::recv(
            &raw.socket,
            &mut [0u8; 1],
            rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT,
        );
        if matches!(peeked, Ok((0, _)) | Err(rustix::io::Errno::CONNRESET)) {
            return None;
        }
        assert!(begun.elapsed() < PATIENCE, "neither answered nor hung up on");
        std::thread::yield_now();
    }
}

/// What becomes of a first request with these words; `None` for being hung up on.
fn request_of(campaign: &Campaign, words: [u32; 8]) -> Option<Outcome> {
    let mut raw = Raw::greeted(campaign.socket());
    let (_, [memory, bell]) = raw.descriptors(0);
    let port = Port::new(memory, bell.try_clone().expect("a descriptor")).expect("a channel");
    let own = port.memory().words(REQUESTS_AT, 8).expect("within");
    own.iter().zip(words).for_each(|(own, word)| own.store(word, Ordering::Relaxed));
    port.memory().words(SUBMITTED_AT, 1).expect("within")[0].store(1, Ordering::Release);
    ring(&bell);
    outcome_or_end(&raw, &port)
}

#[test]
fn requests_of_any_words_are_answered_or_end_the_connection() {
    let campaign = Campaign::begin(|_| {});
    let sha = suite("sha256").ordinal() as u32;
    let good = [sha, 0, 1, DATA_AT as u32, DATA, 100, 0, 0];
    assert!(matches!(request_of(&campaign, good), Some(Outcome::Misuse(_))), "a request of zeros");
    for (place, word) in [
        (0, 639),
        (0, 0xffff),
        (0, sha | 1 << 17),
        (0, u32::MAX),
        (1, 1),
        (1, 10),
        (2, 0),
        (2, 65_537),
        (2, u32::MAX),
        (2, 1025),
        (3, 0),
        (3, DATA_AT as u32 + 4),
        (3, END - 63),
        (3, END),
        (3, u32::MAX - 7),
        (3, u32::MAX - 63),
        (4, 0),
        (4, DATA_AT as u32 - 1),
        (4, END + 1),
        (4, END - 99),
        (4, u32::MAX),
        (5, u32::MAX),
        (5, END),
        (6, 2),
        (7, 1),
        (7, 1 << 31),
    ] {
        let mut words = good;
        words[place] = word;
        assert_eq!(request_of(&campaign, words), None, "{place}: {word:#x}");
    }
    let mut state = 99u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 8
    };
    let mut answered = 0;
    for _ in 0..400 {
        // FF1 with any radix among them.
        let what = (next() % 640) | ((next() % 2) << 16);
        let radix = if next() % 4 == 0 { next() } else { 0 };
        let words = [what, radix, next() % 9, (next() % END) & !7, next() % END, next() % 5000, 0, 0];
        answered += u32::from(request_of(&campaign, words).is_some());
    }
    assert!(answered > 20, "{answered}");
    campaign.end();
}

/// Operations and data at the ends of the memory, side by side, and over each other.
#[test]
fn requests_at_every_border_are_served() {
    let campaign = Campaign::begin(|_| {});
    let mut raw = Raw::greeted(campaign.socket());
    let (_, mut port) = raw.port(0);
    let key = raw.import(suite("aes-128-gcm"), &[1; 16]);
    let gcm = suite("aes-128-gcm");
    let (first, op_len) = (DATA_AT as u32, RECORD_LEN as u32);
    for (ops_at, data_at, overlapping) in [
        (first, first + op_len, false),
        (first, END - 80, false),
        (END - op_len, first, false),
        (END - op_len, END - op_len - 80, false),
        (first, first, true),
        (first + 64, first, true),
        (first, first + 8, true),
        (END - op_len, END - 80, true),
        (END - op_len, END - 100, true),
    ] {
        assert!(port.memory().write(data_at as usize, &[9; 80]));
        put_ops(port.memory(), ops_at as usize, [seal_op(key, &[4; 12], 64)].into_iter()).expect("fits");
        let number = port.submit(Request { ops_at, data_at, ..request(gcm, 1, 80) }).expect("a slot");
        assert_eq!(outcome(&port, number), Outcome::Ran, "{ops_at}, {data_at}");
        let mut status = OpStatus::Pending;
        read_results(port.memory(), ops_at as usize, 1, |_, own, _, _| status = own).expect("within");
        // Results lie over data or the other way round where they share a place: that is the client's own matter.
        assert_eq!(status, OpStatus::Done, "{ops_at}, {data_at}, {overlapping}");
    }
    // No data at all.
    port.submit(Request { data_at: END, ..request(gcm, 1, 0) }).expect("a slot");
    // A thousand of them, as many as fit.
    let many = (END - DATA_AT as u32) / op_len;
    assert!(put_ops(port.memory(), DATA_AT, core::iter::repeat_n(seal_op(key, &[4; 12], 0), many as usize)).is_ok());
    let number = port.submit(request(gcm, many, 16)).expect("a slot");
    assert_eq!(outcome(&port, number), Outcome::Misuse(Misuse { op: 1, reason: Reason::OpsOverlap }));
    drop((raw, port));
    campaign.end();
}

/// Suites that are asked for with operations of any fields: bytes of a key, of an IV and of a tag, and of input.
const SUITES: [(&str, usize, u8, u16, u32); 9] = [
    ("aes-128-gcm", 16, 12, 16, 64),
    ("chacha20-poly1305", 32, 12, 16, 50),
    ("aes-256-cbc", 32, 16, 0, 64),
    ("aes-128-ctr", 16, 16, 0, 33),
    ("aes-256-xts", 64, 16, 0, 48),
    ("ff1-aes-256", 32, 0, 0, 20),
    ("hmac-sha256", 20, 0, 32, 64),
    ("sha256", 0, 0, 32, 70),
    ("aes-256-kw", 32, 0, 0, 32),
];

const ARENA: usize = 512;

/// Numbers as lengths and offsets: small ones, such around the end of the arena, and any.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => prop::sample::select(vec![0u32, 1, 7, 12, 16, 24, 32, 48, 64, 80, 96, 128, 200, 256]),
        1 => 0u32..600,
        2 => (ARENA as u32 - 70)..(ARENA as u32 + 20),
        1 => prop::sample::select(vec![u32::MAX, u32::MAX - 15, 1 << 31, i32::MAX as u32, 1 << 16, 8193]),
    ]
}

/// What is changed of operations that are right: which one, which field, and what stands there then.
fn changes() -> impl Strategy<Value = Vec<(usize, u8, u32)>> {
    prop::collection::vec((0usize..4, 0u8..11, number()), 0..3)
}

/// So many operations of a suite, one behind the other, with changes.
fn ops(which: usize, count: usize, key: KeyId, changes: &[(usize, u8, u32)]) -> Vec<Op> {
    let (_, _, iv_len, tag_len, len) = SUITES[which];
    let right = |index: u32| {
        let at = index * 128;
        let mut op = Op::in_place(key, Span::new(at, len)).with_tag(at + len, tag_len).with_iv(&[index as u8; 16]);
        op.iv_len = iv_len;
        op
    };
    let mut ops: Vec<Op> = (0..count as u32).map(right).collect();
    for (index, field, value) in changes {
        let op = &mut ops[index % count];
        let Aad { offset, len } = op.aad;
        match field {
            0 => op.input.offset = *value,
            1 => op.input.len = *value,
            2 => op.output = *value,
            3 => op.tag = *value,
            4 => op.tag_len = *value as u16,
            5 => op.aad = Aad::new(*value, len),
            6 => op.aad = Aad::new(offset, *value as u16),
            7 => op.iv_len = *value as u8,
            8 => op.output_len = *value,
            9 => op.reserved = (*value % 2) as u8,
            _ => op.key = if value % 2 == 0 { KeyId::NONE } else { KeyId { slot: *value, generation: 1 << 30 } },
        }
    }
    ops
}

struct Beside {
    mill: Mill,
    keys: Vec<KeyId>,
    handles: Vec<KeyId>,
    port: Port,
    raw: Raw,
    /// Batches that broke no rule, and operations that were done.
    ran: (u32, u32),
}

impl Beside {
    fn new(campaign: &Campaign) -> Beside {
        let engine = Arc::new(ciphermill_reference::Reference::new());
        let mill = Mill::builder().engine(engine).legacy(true).open().expect("a mill");
        let mut raw = Raw::greeted(campaign.socket());
        let (_, port) = raw.port(0);
        let (mut keys, mut handles) = (Vec::new(), Vec::new());
        for (name, len, ..) in SUITES {
            let bytes: Vec<u8> = (0..len as u8).map(|index| index.wrapping_mul(37) ^ 0x21).collect();
            if len == 0 {
                keys.push(KeyId::NONE);
                handles.push(KeyId::NONE);
                continue;
            }
            keys.push(mill.keys().import(KeyMaterial::secret(&bytes), KeyPolicy::only(suite(name))).expect("a key"));
            let KeyHandle { slot, generation } = raw.import(suite(name), &bytes);
            handles.push(KeyId { slot, generation });
        }
        Beside { mill, keys, handles, port, raw, ran: (0, 0) }
    }

    /// Requests of all clients that shared a batch.
    fn shared(mut self) -> u64 {
        let Answer::Text(text) = self.raw.ask(&Ask::Clients) else { panic!("no text") };
        let rows: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        rows.as_array().expect("rows").iter().filter_map(|row| row["shared"].as_u64()).sum()
    }

    /// What the service and the reference make of the same operations.
    fn compare(
        &mut self,
        (which, direction, count): (usize, Direction, usize),
        changes: &[(usize, u8, u32)],
    ) -> Result<(), TestCaseError> {
        let suite = suite(SUITES[which].0);
        let mut arena: Vec<u8> = (0..ARENA).map(|index| (index * 7) as u8 % 10).collect();
        let sent = ops(which, count, self.handles[which], changes);
        fill(&self.port, &sent, &arena);
        let asked = Request { direction, ..request(suite, count as u32, ARENA as u32) };
        let number = self.port.submit(asked).expect("a slot");
        let got = outcome(&self.port, number);
        let mut own = ops(which, count, self.keys[which], changes);
        let expected = match self.mill.run(Batch::new(suite, direction, &mut own, &mut arena)) {
            Ok(_) => Outcome::Ran,
            Err(Error::Misuse(misuse)) => Outcome::Misuse(misuse),
            Err(Error::Refused(_)) => Outcome::Refused,
            Err(error) => panic!("{error}"),
        };
        prop_assert_eq!(got, expected);
        if got == Outcome::Ran {
            let mut statuses = Vec::new();
            read_results(self.port.memory(), DATA_AT, count, |_, status, _, _| statuses.push(status)).expect("within");
            prop_assert_eq!(statuses, own.iter().map(|op| op.status).collect::<Vec<_>>());
        }
        self.ran.0 += u32::from(got == Outcome::Ran);
        self.ran.1 += own.iter().filter(|op| op.status.is_done()).count() as u32;
        let mut answered = vec![0; ARENA];
        prop_assert!(self.port.memory().read(DATA as usize, &mut answered));
        prop_assert_eq!(answered, arena);
        // Fields that are not results are as they were.
        let mut left = Vec::new();
        get_ops(self.port.memory(), DATA_AT, count, &mut left).expect("within");
        for (left, sent) in left.iter().zip(&sent) {
            prop_assert_eq!((left.key, left.iv, left.input, left.output), (sent.key, sent.iv, sent.input, sent.output));
        }
        Ok(())
    }
}

/// Several clients at a time, so that operations share batches and nothing of one is seen in the other.
#[test]
fn operations_of_any_fields_are_answered_as_the_reference_does() {
    let cases = std::env::var("CIPHERMILL_SERVICE_CASES").map_or(1500, |cases| cases.parse().expect("a number"));
    let campaign = Campaign::begin(|_| {});
    let (shared, begun) = (AtomicU64::new(0), Instant::now());
    // Who shares with whom is chance: on a machine that is busy with other things it takes more of them.
    while shared.load(Ordering::Relaxed) <= 10 && begun.elapsed() < 4 * PATIENCE {
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let beside = std::cell::RefCell::new(Beside::new(&campaign));
                    let config = Config { cases, failure_persistence: None, ..Config::default() };
                    let inputs = (0..SUITES.len(), any::<bool>(), 1usize..4, changes());
                    let result = TestRunner::new(config).run(&inputs, |(which, encrypts, count, changes)| {
                        let direction = if encrypts { Direction::Encrypt } else { Direction::Decrypt };
                        beside.borrow_mut().compare((which, direction, count), &changes)
                    });
                    assert!(result.is_ok(), "{result:?}");
                    let (ran, done) = beside.borrow().ran;
                    shared.fetch_add(beside.into_inner().shared(), Ordering::Relaxed);
                    assert!(
                        ran * 5 > cases && done * 5 > cases,
                        "{ran} batches broke no rule, {done} operations were done"
                    );
                });
            }
        });
    }
    assert!(shared.into_inner() > 10, "requests shared batches with those of others");
    campaign.no_engine_was_blamed();
    campaign.end();
}

/// Seals with every name of a key that there may be; none of them may end well.
fn tries_keys(port: &mut Port, slots: u32, generations: u32) {
    for slot in (0..slots).chain([u32::MAX, 1 << 24]) {
        for generation in (0..generations).chain([u32::MAX]) {
            let (outcome, status, data) = seal(port, KeyHandle { slot, generation }, &[1; 12], &[0; 16]);
            let unknown = matches!((outcome, status), (Outcome::Ran, OpStatus::Refused(Reason::KeyUnknown)));
            let missing = matches!(outcome, Outcome::Misuse(Misuse { reason: Reason::KeyMissing, .. }));
            assert!(unknown || missing, "{slot}, {generation}: {outcome:?}, {status:?}");
            assert!(unknown == (data[..16] == [0; 16]) || missing, "{data:?}");
        }
    }
}

#[test]
fn keys_of_others_and_forgotten_ones_do_nothing() {
    let campaign = Campaign::begin(|_| {});
    let gcm = suite("aes-128-gcm");
    let mut owner = Raw::greeted(campaign.socket());
    let (_, mut owners) = owner.port(0);
    let keys: Vec<KeyHandle> = (0..20).map(|index| owner.import(gcm, &[index; 16])).collect();
    // Several generations of the first slots.
    let mut forgotten = Vec::new();
    for round in 0..3 {
        for key in [keys[0], keys[1]] {
            owner.say(&Ask::Forget { key });
            forgotten.push(key);
        }
        for key in forgotten.iter().rev().take(2) {
            owner.say(&Ask::Forget { key: *key });
        }
        forgotten.push(owner.import(gcm, &[100 + round; 16]));
        forgotten.push(owner.import(gcm, &[100 + round; 16]));
        let last: Vec<KeyHandle> = forgotten.iter().rev().take(2).copied().collect();
        last.iter().for_each(|key| owner.say(&Ask::Forget { key: *key }));
    }
    owner.status();
    for key in &forgotten {
        let (outcome, status, _) = seal(&mut owners, *key, &[2; 12], b"text");
        assert_eq!((outcome, status), (Outcome::Ran, OpStatus::Refused(Reason::KeyUnknown)), "{key:?}");
    }
    // Somebody else forgets them all, and tries all names.
    let mut thief = Raw::greeted(campaign.socket());
    let (_, mut port) = thief.port(0);
    keys.iter().for_each(|key| thief.say(&Ask::Forget { key: *key }));
    thief.status();
    let own = thief.import(suite("aes-128-cbc"), &[5; 16]);
    tries_keys_but(&mut port, own);
    for key in &keys[2..] {
        assert_eq!(seal(&mut owners, *key, &[2; 12], b"text").1, OpStatus::Done, "{key:?}");
    }
    drop((owner, thief, port, owners));
    campaign.end();
}

/// All names but one, which is that of a key for another suite.
fn tries_keys_but(port: &mut Port, own: KeyHandle) {
    let (outcome, status, _) = seal(port, own, &[1; 12], b"text");
    assert_eq!((outcome, status), (Outcome::Ran, OpStatus::Refused(Reason::KeySuite)));
    assert_eq!(own, KeyHandle { slot: 0, generation: 1 });
    for generation in [0, 2, 3, u32::MAX] {
        let status = seal(port, KeyHandle { slot: 0, generation }, &[1; 12], b"text");
        assert_ne!(status.1, OpStatus::Done, "{generation}: {status:?}");
    }
    for slot in 1..40 {
        for generation in 0..8 {
            let (_, status, _) = seal(port, KeyHandle { slot, generation }, &[1; 12], b"text");
            assert_ne!(status, OpStatus::Done, "{slot}, {generation}");
        }
    }
}

/// A client without any key, beside others who use theirs in the same batches.
#[test]
fn no_name_is_a_key_of_who_has_none() {
    let campaign = Campaign::begin(|_| {});
    let mut raw = Raw::greeted(campaign.socket());
    let (_, mut port) = raw.port(0);
    tries_keys(&mut port, 24, 6);
    // Keys that the mill has, by their names there.
    let mut keys = Vec::new();
    for index in 0..10 {
        let policy = KeyPolicy::default();
        keys.push(campaign.running.mill.keys().import(KeyMaterial::secret(&[index; 16]), policy).expect("a key"));
    }
    for key in &keys {
        let handle = KeyHandle { slot: key.slot, generation: key.generation };
        assert_eq!(seal(&mut port, handle, &[1; 12], b"text").1, OpStatus::Refused(Reason::KeyUnknown));
        campaign.running.mill.keys().destroy(*key).expect("it was there");
    }
    // A key for an ECB suite does not seal, and a public key is not a secret one.
    let answer = raw.ask(&Ask::Import { suite: suite("aes-128-gcm"), form: KeyForm::Public, bytes: &[1; 16] });
    assert!(matches!(answer, Answer::Error { .. }), "{answer:?}");
    assert_eq!(status_of(&port), OpStatus::Refused(Reason::KeyUnknown));
    drop((raw, port));
    campaign.end();
}

/// A key is forgotten while operations with it are on their way: each is done with it, or refused.
#[test]
fn keys_that_are_forgotten_in_flight() {
    let campaign = Campaign::begin(|_| {});
    let gcm: Suite = suite("aes-128-gcm");
    let mut raw = Raw::greeted(campaign.socket());
    let (_, mut port) = raw.port(0);
    let (mut done, mut refused) = (0, 0);
    for round in 0..300 {
        let key = raw.import(gcm, &[round as u8; 16]);
        fill(&port, &[seal_op(key, &[3; 12], 64)], &[1; 80]);
        if round % 2 == 0 {
            raw.say(&Ask::Forget { key });
        }
        let number = port.submit(request(gcm, 1, 80)).expect("a slot");
        raw.say(&Ask::Forget { key });
        assert_eq!(outcome(&port, number), Outcome::Ran);
        match status_of(&port) {
            OpStatus::Done => done += 1,
            OpStatus::Refused(Reason::KeyUnknown) => refused += 1,
            status => panic!("{status:?}"),
        }
    }
    assert!(done + refused == 300 && done > 0, "{done}, {refused}");
    drop((raw, port));
    campaign.end();
}
