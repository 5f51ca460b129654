//! Every suite in both directions: a handle's outcomes are those of lone operations.

use ciphermill::{Bound, KeyPolicy, Mill, OneDone};
use ciphermill_contract::op::iv_rest;
use ciphermill_contract::{Direction, KeyId, KeyMaterial, Op, OpStatus, Result, Span, Suite, capability};
use ciphermill_fault::Script;
use ciphermill_vectors::job::{Job, key_of};
use ciphermill_vectors::known_answer;

use crate::{Message, Random, fast, mill, reference};

/// Operations of each suite and direction, of random lengths.
const EACH: usize = 6;

/// A long one among them.
const LONG: usize = 5000;

fn runs(suite: Suite, direction: Direction) -> bool {
    capability::find(reference().capabilities(), suite, direction).is_some()
}

/// Input that the suite takes.
fn input(suite: Suite, random: &mut Random, len: usize) -> Vec<u8> {
    let len = suite.input_len(Direction::Encrypt).round_up(len);
    match suite {
        // Numerals of two little-endian bytes.
        Suite::Fpe(_) => (0..len / 2).flat_map(|_| [random.below(10) as u8, 0]).collect(),
        _ => random.bytes(len),
    }
}

/// A message to be encrypted, with room for what becomes of it and perhaps some more.
fn message(suite: Suite, random: &mut Random, number: usize) -> Message {
    let len = match number {
        0 => 0,
        1 if matches!(suite, Suite::Fpe(_)) => 100,
        1 => LONG,
        _ => random.below(300),
    };
    let mut data = input(suite, random, len);
    let input_len = data.len();
    let room = suite.output_len(Direction::Encrypt, input_len, 32).max(input_len) + random.below(3);
    data.resize(room, 0xa5);
    let lens = suite.aad_len();
    let aad_len = lens.round_up(random.below(20));
    let iv = random.bytes(suite.default_iv_len());
    Message { iv, aad: random.bytes(aad_len), data, input_len, tag: vec![0x5a; suite.default_tag_len()] }
}

/// What comes of a message by itself, through a handle and through a handle in an arena.
fn all_ways(mill: &Mill, bound: &mut Bound, message: &Message) -> [(Result<OneDone>, Message); 3] {
    let mut alone = message.clone();
    let outcome = alone.run_one(mill, (bound.suite(), bound.direction()), bound.key());
    let mut own = message.clone();
    let own_outcome = own.run(bound);
    let mut in_arena = message.clone();
    let in_arena_outcome = run_in_arena(bound, &mut in_arena);
    [(outcome, alone), (own_outcome, own), (in_arena_outcome, in_arena)]
}

/// Runs a message by [`Bound::run_op`], in place where the suite can.
fn run_in_arena(bound: &mut Bound, message: &mut Message) -> Result<OneDone> {
    let (suite, direction, data_len) = (bound.suite(), bound.direction(), message.data.len());
    let aad_bytes = [iv_rest(&message.iv), &message.aad].concat();
    let (aad, tag) = (data_len, data_len + aad_bytes.len());
    let behind = tag + message.tag.len();
    let mut arena = message.data.clone();
    arena.extend_from_slice(&aad_bytes);
    arena.extend_from_slice(&message.tag);
    arena.resize(behind + data_len, 0);
    let output = if suite.transforms() { 0 } else { behind };
    if suite.transforms() {
        arena[message.input_len..data_len].fill(0);
    }
    // The key is the handle's, whatever stands here.
    let mut op = Op::in_place(KeyId::NONE, Span::new(0, message.input_len as u32))
        .with_iv(&message.iv)
        .with_output(output as u32)
        .with_aad(aad as u32, aad_bytes.len() as u16)
        .with_tag(tag as u32, message.tag.len() as u16);
    op.output_len = if suite == Suite::Random { data_len as u32 } else { 0 };
    bound.run_op(&mut op, &mut arena)?;
    if suite.output_len(direction, message.input_len, data_len) != 0 {
        message.data.copy_from_slice(&arena[output..][..data_len]);
    }
    if direction == Direction::Encrypt {
        message.tag.copy_from_slice(&arena[tag..behind]);
    }
    Ok(OneDone { status: op.status, output_len: op.output_len as usize, tag_len: usize::from(op.tag_len) })
}

/// Runs a message all ways and compares; what it becomes.
fn same(mill: &Mill, bound: &mut Bound, message: &Message) -> (OpStatus, Message) {
    let [alone, own, in_arena] = all_ways(mill, bound, message);
    let named = format!("{} {} of {} bytes", bound.suite(), bound.direction(), message.input_len);
    assert_eq!(own, alone, "{named}");
    assert_eq!(in_arena, alone, "{named}, in an arena");
    (alone.0.expect("runs").status, alone.1)
}

#[test]
fn outcomes_of_symmetric_suites_are_those_of_lone_operations() {
    let (engine, _) = fast("fast", Script::healthy());
    let mill = mill([engine], 0);
    let (mut tried, mut opened, mut refused) = (0, 0, 0);
    for suite in Suite::all().filter(|suite| !suite.is_public_key() && *suite != Suite::Random) {
        let mut random = Random(suite.ordinal() as u64);
        let key = match suite.needs_key() {
            false => KeyId::NONE,
            true => {
                let bytes = random.bytes(suite.default_key_len());
                mill.keys().import(KeyMaterial::secret(&bytes), KeyPolicy::default()).expect("room")
            }
        };
        let bind = |direction| runs(suite, direction).then(|| mill.bind(suite, direction, key).expect("binds"));
        let (encrypts, mut decrypts) = (bind(Direction::Encrypt), bind(Direction::Decrypt));
        let Some(mut encrypts) = encrypts else { continue };
        for number in 0..EACH {
            let message = message(suite, &mut random, number);
            let (status, sealed) = same(&mill, &mut encrypts, &message);
            assert_eq!(status, OpStatus::Done, "{suite}");
            tried += 1;
            let Some(decrypts) = &mut decrypts else { continue };
            let input_len = match suite {
                Suite::Mac(_) => message.input_len,
                _ => suite.output_len(Direction::Encrypt, message.input_len, 0),
            };
            let sealed = Message { input_len, ..sealed };
            let (status, back) = same(&mill, decrypts, &sealed);
            assert_eq!(status, OpStatus::Done, "{suite}");
            assert_eq!(back.data[..message.input_len], message.data[..message.input_len], "{suite}");
            opened += 1;
            let mut spoilt = sealed.clone();
            if let Some(byte) = spoilt.tag.first_mut() {
                *byte ^= 1;
                let (status, _) = same(&mill, decrypts, &spoilt);
                assert_eq!(status, OpStatus::AuthFailed, "{suite}");
                refused += 1;
            }
        }
    }
    assert!(tried > 500 && opened > 400 && refused > 200, "{tried} {opened} {refused}");
}

#[test]
fn outcomes_of_public_key_suites_are_those_of_lone_operations() {
    let (engine, _) = fast("fast", Script::healthy());
    let mill = mill([engine], 0);
    let mut tried = 0;
    for suite in Suite::all().filter(|suite| suite.is_public_key()) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let case = known_answer(suite).filter(|_| runs(suite, direction));
            let Some((case, key)) = case.and_then(|case| Some((case, key_of(case, direction)?))) else { continue };
            let key = mill.keys().import(key, KeyPolicy::default()).expect("room");
            let (job, answer) = Job::of(case, direction);
            let mut data = job.input.clone();
            data.resize(job.output_room(suite, direction).max(data.len()), 0);
            let message = Message { iv: job.iv, aad: job.aad, data, input_len: job.input.len(), tag: job.tag };
            let mut bound = mill.bind(suite, direction, key).expect("binds");
            tried += 1;
            for _ in 0..2 {
                if suite.is_randomized(direction) {
                    for (outcome, own) in all_ways(&mill, &mut bound, &message) {
                        let done = outcome.expect("runs");
                        let lens = (done.output_len, done.tag_len);
                        assert_eq!(done.status, OpStatus::Done, "{suite} {direction}");
                        assert_eq!(lens, (answer.output.len(), answer.tag.len()), "{suite} {direction}");
                        check_back(&mill, suite, &message, &own);
                    }
                } else {
                    let (status, _) = same(&mill, &mut bound, &message);
                    assert_eq!(status, answer.status, "{suite} {direction}");
                }
            }
            mill.keys().destroy(key).expect("is there");
        }
    }
    assert!(tried > 100, "{tried}");
}

/// Takes back what never is the same twice: it verifies, decapsulates to the same secret, or decrypts.
fn check_back(mill: &Mill, suite: Suite, before: &Message, after: &Message) {
    let case = known_answer(suite).expect("a case");
    let Some(key) = key_of(case, Direction::Decrypt) else { return };
    let key = mill.keys().import(key, KeyPolicy::default()).expect("room");
    let mut back = match suite {
        Suite::Sign(_) => Message { data: before.data.clone(), ..after.clone() },
        Suite::Kem(_) => Message { data: vec![0; after.data.len()], input_len: 0, ..after.clone() },
        _ => Message { input_len: after.data.len(), ..after.clone() },
    };
    let done = back.run_one(mill, (suite, Direction::Decrypt), key).expect("runs");
    assert_eq!(done.status, OpStatus::Done, "{suite}");
    let expected = if matches!(suite, Suite::Kem(_)) { &after.data } else { &before.data };
    assert_eq!(back.data[..done.output_len], expected[..done.output_len], "{suite}");
    mill.keys().destroy(key).expect("is there");
}

#[test]
fn random_bytes_fill_the_buffer() {
    let mill = mill([reference()], 0);
    let mut bound = mill.bind(Suite::Random, Direction::Encrypt, KeyId::NONE).expect("binds");
    let mut draw = |len| {
        let mut message = Message { iv: vec![], aad: vec![], data: vec![0; len], input_len: 0, tag: vec![] };
        let done = message.run(&mut bound).expect("runs");
        assert_eq!((done.status, done.output_len), (OpStatus::Done, len));
        message.data
    };
    let (first, second) = (draw(64), draw(64));
    assert_ne!(first, second);
    assert!(first[..32] != [0; 32] && first[32..] != [0; 32], "both halves were written");
    assert!(draw(0).is_empty());
}
