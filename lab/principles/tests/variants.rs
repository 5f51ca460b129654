//! Every variant of every algorithm: published vectors, and random keys and lengths against the reference engine.
#![cfg(not(loom))]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::suite::{BlockCipher, Digest, Mode, StreamCipher};
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_principles::{Algorithm, Experiment, Kernel, Message, Variant};
use ciphermill_reference::Reference;
use ciphermill_vectors::{Outcome, cases};
use proptest::prelude::*;

/// Rounds of the suites Khufu and Khafre.
const SUITE_ROUNDS: usize = 16;

/// More messages than any lanes hold, and some that are left over.
const COPIES: usize = 67;

fn suite(algorithm: Algorithm) -> Suite {
    match algorithm {
        Algorithm::Blowfish => Suite::Cipher(BlockCipher::Blowfish, Mode::Ecb),
        Algorithm::Khufu => Suite::Cipher(BlockCipher::Khufu, Mode::Ecb),
        Algorithm::Khafre => Suite::Cipher(BlockCipher::Khafre, Mode::Ecb),
        Algorithm::Rc4 => Suite::Stream(StreamCipher::Rc4),
        Algorithm::Seal => Suite::Stream(StreamCipher::Seal3),
        Algorithm::Md5 => Suite::Digest(Digest::Md5),
    }
}

/// Every variant makes `want` of `messages`, and does it again when asked for two passes.
fn check(experiment: &Experiment, messages: &[Message], want: &[Message], what: &str) {
    let mut twice = want.to_vec();
    experiment.run(Variant::Unoptimised, &mut twice, 1);
    for variant in experiment.variants() {
        for (passes, want) in [(1, want), (2, &twice)] {
            let mut got = messages.to_vec();
            experiment.run(variant, &mut got, passes);
            let wrong = got.iter().zip(want).position(|(got, want)| got != want);
            assert_eq!(wrong, None, "{what}, {} {}, {passes} passes", experiment.algorithm().name(), variant.name());
        }
    }
}

#[test]
fn every_variant_agrees_with_the_published_vectors() {
    for algorithm in Algorithm::ALL {
        let valid = cases(suite(algorithm)).into_iter().filter(|case| matches!(case.outcome, Outcome::Valid));
        let mut checked = 0;
        for case in valid {
            let keys = match algorithm {
                Algorithm::Md5 => Vec::new(),
                _ => vec![case.keys.secret.clone()],
            };
            let experiment = Experiment::with_rounds(algorithm, &keys, SUITE_ROUNDS).expect("a key");
            let number = <[u8; 4]>::try_from(case.iv.as_slice()).map_or(0, u32::from_be_bytes);
            let message = Message::new(number, case.input.clone());
            let mut want = message.clone();
            match algorithm {
                Algorithm::Md5 => want.digest.copy_from_slice(&case.tag),
                _ => want.data.clone_from(&case.output),
            }
            check(&experiment, &vec![message; COPIES], &vec![want; COPIES], &case.id);
            checked += 1;
        }
        assert!(checked >= 4, "{} has {checked} vectors", algorithm.name());
    }
}

#[test]
fn every_number_of_rounds_agrees_with_the_derivation() {
    // The paper's 32 rounds are none of a suite's; the file has vectors for all numbers.
    let text = include_str!("../../../vectors/data/legacy/khufu_khafre.txt");
    let mut with_the_papers_rounds = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, rounds, key, input, output] = fields[..] else { continue };
        let Ok(algorithm) = name.parse() else { continue };
        let rounds: usize = rounds.parse().expect("a number");
        let experiment = match rounds {
            32 => Experiment::new(algorithm, &[bytes(key)]),
            _ => Experiment::with_rounds(algorithm, &[bytes(key)], rounds),
        };
        let message = |data: &str| vec![Message::new(0, bytes(data)); COPIES];
        check(&experiment.expect("a key"), &message(input), &message(output), line);
        with_the_papers_rounds += usize::from(rounds == 32);
    }
    assert!(with_the_papers_rounds >= 8, "{with_the_papers_rounds}");
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits");
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// What the reference engine makes of the messages.
fn reference(algorithm: Algorithm, keys: &[Vec<u8>], messages: &[Message]) -> Vec<Message> {
    let (engine, suite) = (Reference::new(), suite(algorithm));
    let prepare = |key: &Vec<u8>| engine.prepare(&KeyMaterial::secret(key), suite).expect("a key");
    let prepared: Vec<PreparedKey> = keys.iter().map(prepare).collect();
    let mut arena = Vec::new();
    let (mut ops, mut attached) = (Vec::new(), Vec::new());
    for message in messages {
        let input = Span::new(arena.len() as u32, message.data.len() as u32);
        arena.extend(&message.data);
        let key = (!keys.is_empty()).then(|| &prepared[message.number as usize % keys.len()]);
        attached.push(key);
        let id = if key.is_some() { KeyId { slot: 0, generation: 1 } } else { KeyId::NONE };
        let mut op = Op::in_place(id, input);
        match algorithm {
            Algorithm::Md5 => {
                op = op.with_tag(arena.len() as u32, 16);
                arena.extend([0; 16]);
            }
            Algorithm::Seal => op = op.with_iv(&message.number.to_be_bytes()),
            _ => {}
        }
        ops.push(op);
    }
    let mut batch = Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena).check().expect("a good batch");
    let mut queue = engine.queue(QueueHint::default()).expect("a queue");
    queue.run(&mut batch.attach_keys(&attached).expect("keys"));
    let done = |(op, message): (&Op, &Message)| {
        assert_eq!(op.status, OpStatus::Done);
        let mut out = message.clone();
        out.data.copy_from_slice(&arena[op.input.range()]);
        out.digest[..usize::from(op.tag_len)].copy_from_slice(&arena[op.tag_span().range()]);
        out
    };
    ops.iter().zip(messages).map(done).collect()
}

/// A length of key that the algorithm takes with sixteen rounds.
fn key_len(algorithm: Algorithm, choice: usize) -> usize {
    match algorithm {
        Algorithm::Blowfish => 4 + choice % 53,
        Algorithm::Khufu => 1 + choice % 64,
        Algorithm::Khafre => [8, 24][choice % 2],
        Algorithm::Rc4 => 5 + choice % 252,
        Algorithm::Seal => 20,
        Algorithm::Md5 => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_variant_agrees_with_the_reference(
        which in 0..Algorithm::ALL.len(),
        key_count in 1..6usize,
        key_choice in any::<u16>(),
        count in 0..70usize,
        len in 0..2500usize,
        seed in any::<u64>(),
    ) {
        let algorithm = Algorithm::ALL[which];
        let len = if algorithm.takes_blocks() { (len / 3 / 8 + 1) * 8 } else { len };
        let key_len = key_len(algorithm, usize::from(key_choice));
        let keys: Vec<Vec<u8>> = match algorithm {
            Algorithm::Md5 => Vec::new(),
            _ => Experiment::messages(key_count, key_len, !seed).into_iter().map(|message| message.data).collect(),
        };
        let experiment = Experiment::with_rounds(algorithm, &keys, SUITE_ROUNDS).expect("keys");
        let messages = Experiment::messages(count, len, seed);
        let want = reference(algorithm, &keys, &messages);
        check(&experiment, &messages, &want, "random");
    }

    #[test]
    fn every_md5_kernel_agrees_with_the_reference(count in 60..200usize, len in 0..1500usize, seed in any::<u64>()) {
        let messages = Experiment::messages(count, len, seed);
        let want = reference(Algorithm::Md5, &[], &messages);
        for kernel in Kernel::available() {
            let mut got = messages.clone();
            Experiment::md5(kernel).run(Variant::Lanes, &mut got, 1);
            prop_assert_eq!(&got, &want, "{}", kernel.name());
        }
    }
}

#[test]
fn keys_that_do_not_fit_are_refused() {
    for algorithm in Algorithm::ALL {
        let of_len = |len: usize| Experiment::new(algorithm, &[vec![1; len]]).err().map(|error| error.to_string());
        let refused = format!("{} takes no key of 300 bytes", algorithm.name());
        assert_eq!(of_len(300), Some(refused));
        let none = Experiment::new(algorithm, &[]).err().map(|error| error.to_string());
        assert_eq!(none.is_none(), algorithm == Algorithm::Md5);
    }
    for (len, rounds, fits) in [(8, 32, true), (40, 32, true), (24, 32, false), (24, 16, true), (8, 12, false)] {
        let made = Experiment::with_rounds(Algorithm::Khafre, &[vec![1; len]], rounds);
        assert_eq!(made.is_ok(), fits, "{len} bytes, {rounds} rounds");
    }
}

#[test]
fn counts_are_those_that_can_be_counted_by_hand() {
    let rounds_of = |algorithm: Algorithm, variant| {
        let len = 1024;
        let cost = Experiment::random(algorithm, 1, 1).cost(variant, len);
        (cost.counts.share(algorithm.rounds(len) as f64), cost)
    };
    // Blowfish's round in the paper's loop: four S-boxes and P; six shifts and masks, three to join, two to add; and the
    // loop. A block has its two halves read and written, its two last words of P, and its own loop besides.
    let (round, cost) = rounds_of(Algorithm::Blowfish, Variant::Unoptimised);
    assert_eq!(round.accesses(), 5.0 + (4.0 + 2.0) / 16.0);
    assert_eq!(round.instructions, 5.0 + 6.0 + 3.0 + 2.0 + 2.0 + (4.0 + 2.0 + 2.0 + 2.0) / 16.0);
    assert_eq!(cost.floor_cycles, cost.counts.instructions / ciphermill_principles::SCALAR_WIDTH);
    // P in registers leaves the paper's four accesses, the halves, and P once a message.
    let (round, _) = rounds_of(Algorithm::Blowfish, Variant::ComputationOriented);
    assert_eq!(round.accesses(), 4.0 + 4.0 / 16.0 + 18.0 / (128.0 * 16.0));
    // RC4's seven accesses are the paper's own count.
    let (round, _) = rounds_of(Algorithm::Rc4, Variant::Unoptimised);
    assert_eq!(round.accesses(), 7.0);
    let (round, _) = rounds_of(Algorithm::Khufu, Variant::ComputationOriented);
    assert_eq!(round.accesses(), 1.0 + (4.0 + 4.0) / 32.0);
    assert_eq!(round.reads, round.accesses() - 2.0 / 32.0);
    // MD5's step reads nothing but its word once its tables are immediates.
    let (round, _) = rounds_of(Algorithm::Md5, Variant::ComputationOriented);
    assert_eq!(round.accesses(), 16.0 / 64.0);
}

#[test]
fn names_lead_back_to_their_algorithms() {
    for algorithm in Algorithm::ALL {
        assert_eq!(algorithm.name().parse(), Ok(algorithm));
    }
    let error = "abacus".parse::<Algorithm>().expect_err("no such algorithm").to_string();
    assert!(error.contains("`abacus`") && error.contains("blowfish, khufu, khafre, rc4, seal, md5"), "{error}");
}
