//! Keys and signatures over lattices: many keys in a batch, and what is damaged on its way.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::suite::{Kem, MlDsaSet, Signature};
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_reference::Reference;

/// Keys in a batch, an operation each.
const KEYS: usize = 40;

/// A private key of each engine for each of as many seeds.
fn keys(engine: &dyn Engine, suite: Suite) -> Vec<PreparedKey> {
    let len = if matches!(suite, Suite::Kem(_)) { 64 } else { 32 };
    let seeds: Vec<Vec<u8>> = (0..KEYS).map(|number| vec![number as u8 + 1; len]).collect();
    let materials: Vec<KeyMaterial<'_>> = seeds.iter().map(|seed| KeyMaterial::private(seed)).collect();
    engine.prepare_many(&materials, suite).into_iter().map(|key| key.expect("a good key")).collect()
}

/// Runs an operation a key on an engine, over an arena of a place for each: input, output and tag.
fn run(engine: &dyn Engine, keys: &[PreparedKey], suite: Suite, direction: Direction, arena: &mut [u8]) -> Vec<Op> {
    let (input_len, tag_len) = (input_len(suite), suite.default_tag_len());
    let place = arena.len() / KEYS;
    let name = KeyId { slot: 0, generation: 1 };
    let op = |at: usize| {
        let at = (at * place) as u32;
        let op = Op::in_place(name, Span::new(at, input_len as u32)).with_output(at + input_len as u32);
        op.with_tag(at + input_len as u32 + 32, tag_len as u16)
    };
    let mut ops: Vec<Op> = (0..KEYS).map(op).collect();
    let keys: Vec<Option<&PreparedKey>> = keys.iter().map(Some).collect();
    let mut batch = Batch::new(suite, direction, &mut ops, arena).check().expect("a good batch");
    engine.queue(QueueHint::default()).expect("a queue").run(&mut batch.attach_keys(&keys).expect("as many keys"));
    ops
}

/// Bytes of a message; encapsulation has none.
fn input_len(suite: Suite) -> usize {
    if matches!(suite, Suite::Kem(_)) { 0 } else { 100 }
}

/// Zeros, but for the messages.
fn arena(suite: Suite) -> Vec<u8> {
    let input_len = input_len(suite);
    let place = input_len + 32 + suite.default_tag_len();
    let mut arena = vec![0; KEYS * place];
    arena.chunks_exact_mut(place).enumerate().for_each(|(number, place)| place[..input_len].fill(number as u8));
    arena
}

#[test]
fn ciphertexts_for_many_keys_open_and_damaged_ones_yield_what_the_standard_says() {
    let Some(gpu) = common::device() else { return };
    let gpu: &dyn Engine = gpu.as_ref();
    let oracle = Reference::new();
    for suite in [Kem::MlKem512, Kem::MlKem768, Kem::MlKem1024].map(Suite::Kem) {
        let (own, other) = (keys(gpu, suite), keys(&oracle, suite));
        let mut sent = arena(suite);
        let ops = run(gpu, &own, suite, Direction::Encrypt, &mut sent);
        assert!(ops.iter().all(|op| op.status.is_done() && op.output_len == 32), "{suite}");
        let place = sent.len() / KEYS;
        let open = |engine: &dyn Engine, keys: &[PreparedKey], arena: &[u8]| {
            let mut arena = arena.to_vec();
            arena.chunks_exact_mut(place).for_each(|place| place[..32].fill(0));
            let ops = run(engine, keys, suite, Direction::Decrypt, &mut arena);
            assert!(ops.iter().all(|op| op.status.is_done()), "{suite}");
            arena
        };
        assert_eq!(open(gpu, &own, &sent), sent, "{suite}");
        assert_eq!(open(&oracle, &other, &sent), sent, "{suite}");
        // A bit of each, somewhere else each time, the last byte too.
        let mut damaged = sent.clone();
        for (number, place) in damaged.chunks_exact_mut(place).enumerate() {
            let (first, last) = (32, place.len() - 1);
            place[first + (last - first) * number / (KEYS - 1)] ^= 1 << (number % 8);
        }
        let (one, two) = (open(gpu, &own, &damaged), open(&oracle, &other, &damaged));
        assert_eq!(one, two, "{suite}");
        let rejected = one.chunks_exact(place).zip(sent.chunks_exact(place)).all(|(one, sent)| one[..32] != sent[..32]);
        assert!(rejected, "{suite}: a damaged ciphertext yields another secret");
    }
}

#[test]
fn signatures_of_many_keys_verify_and_damaged_ones_do_not() {
    let Some(gpu) = common::device() else { return };
    let gpu: &dyn Engine = gpu.as_ref();
    let oracle = Reference::new();
    for set in [MlDsaSet::MlDsa44, MlDsaSet::MlDsa65, MlDsaSet::MlDsa87] {
        let suite = Suite::Sign(Signature::MlDsa(set));
        let (own, other) = (keys(gpu, suite), keys(&oracle, suite));
        let mut signed = arena(suite);
        let ops = run(gpu, &own, suite, Direction::Encrypt, &mut signed);
        assert_eq!(ops.iter().map(|op| op.status).collect::<Vec<_>>(), vec![OpStatus::Done; KEYS], "{suite}");
        let statuses = |engine: &dyn Engine, keys: &[PreparedKey], arena: &[u8]| -> Vec<OpStatus> {
            let ops = run(engine, keys, suite, Direction::Decrypt, &mut arena.to_vec());
            ops.iter().map(|op| op.status).collect()
        };
        assert_eq!(statuses(&oracle, &other, &signed), vec![OpStatus::Done; KEYS], "{suite}");
        assert_eq!(statuses(gpu, &own, &signed), vec![OpStatus::Done; KEYS], "{suite}");
        // A byte of each, somewhere else each time: message, challenge, z, hints.
        let place = signed.len() / KEYS;
        for (number, place) in signed.chunks_exact_mut(place).enumerate() {
            let at = if number == 0 { 0 } else { 132 + (place.len() - 133) * number / (KEYS - 1) };
            place[at] ^= 1 << (number % 8);
        }
        assert_eq!(statuses(&oracle, &other, &signed), vec![OpStatus::AuthFailed; KEYS], "{suite}");
        assert_eq!(statuses(gpu, &own, &signed), vec![OpStatus::AuthFailed; KEYS], "{suite}");
    }
}
