//! FF1 in lanes: NIST's samples, and batches of all sizes against the reference.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_contract::suite::{AesSize, Ff1};
use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Reason, Span,
    Suite,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;

/// SplitMix64 (Steele, Lea, Flood 2014), so that a failure can be repeated from its seed.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.number() as u8).collect()
    }
}

/// What a random batch is made of.
#[derive(Clone, Copy)]
struct Mix {
    ops: usize,
    keys: usize,
    /// Lengths from the least on; as many.
    lens: usize,
    /// Different tweaks, none meaning no tweak at all, and the longest one's length.
    tweaks: usize,
    tweak_len: usize,
    /// One value in so many has a numeral out of range; zero for none.
    spoilt: usize,
    in_place: bool,
}

/// A batch that can be run again and again.
#[derive(Clone)]
struct Case {
    suite: Suite,
    ops: Vec<Op>,
    arena: Vec<u8>,
    /// Each operation's key.
    keys: Vec<usize>,
    secrets: Vec<Vec<u8>>,
}

impl Case {
    fn new(ff1: Ff1, mix: Mix, lens: &mut dyn FnMut(&mut Random) -> usize, random: &mut Random) -> Case {
        let secrets: Vec<Vec<u8>> = (0..mix.keys).map(|_| random.bytes(ff1.size.key_len())).collect();
        let mut arena = Vec::new();
        let tweaks: Vec<(u32, u16)> = (0..mix.tweaks)
            .map(|_| {
                let (at, len) = (arena.len() as u32, random.below(mix.tweak_len + 1));
                arena.extend(random.bytes(len));
                (at, len as u16)
            })
            .collect();
        let mut case = Case { suite: Suite::Fpe(ff1), ops: Vec::new(), arena, keys: Vec::new(), secrets };
        for index in 0..mix.ops {
            let len = lens(random);
            case.arena.resize(case.arena.len() + random.below(4), 0xee);
            let input = case.arena.len() as u32;
            for _ in 0..len {
                // Small and large numerals more often than others, so that halves come near their ends.
                let numeral = match random.below(8) {
                    0 => 0,
                    1 | 2 => ff1.radix - 1,
                    _ => random.below(ff1.radix as usize) as u32,
                };
                case.arena.extend((numeral as u16).to_le_bytes());
            }
            if mix.spoilt != 0 && random.below(mix.spoilt) == 0 && ff1.radix < 1 << 16 {
                let at = input as usize + 2 * random.below(len);
                let excess = (1 << 16) - ff1.radix as usize;
                let numeral = ff1.radix as usize + if random.below(2) == 0 { 0 } else { random.below(excess) };
                case.arena[at..at + 2].copy_from_slice(&(numeral as u16).to_le_bytes());
            }
            let id = KeyId { slot: index as u32, generation: 1 };
            let mut op = Op::in_place(id, Span::new(input, 2 * len as u32));
            if !mix.in_place {
                op = op.with_output(case.arena.len() as u32);
                case.arena.resize(case.arena.len() + 2 * len, 0xdd);
            }
            if mix.tweaks != 0 {
                let (at, len) = tweaks[random.below(mix.tweaks)];
                op = op.with_aad(at, len);
            }
            case.ops.push(op);
            case.keys.push(random.below(mix.keys));
        }
        case
    }

    fn run(&self, engine: &dyn Engine, queue: &mut dyn EngineQueue, direction: Direction) -> (Vec<Op>, Vec<u8>) {
        let prepared: Vec<PreparedKey> = self
            .secrets
            .iter()
            .map(|key| engine.prepare(&KeyMaterial::secret(key), self.suite).expect("a key of FF1"))
            .collect();
        let keys: Vec<Option<&PreparedKey>> = self.keys.iter().map(|key| Some(&prepared[*key])).collect();
        let (mut ops, mut arena) = (self.ops.clone(), self.arena.clone());
        let mut checked = Batch::new(self.suite, direction, &mut ops, &mut arena).check().expect("a valid batch");
        queue.run(&mut checked.attach_keys(&keys).expect("as many keys"));
        (ops, arena)
    }

    /// Runs the batch both ways with every kernel and compares every byte and status with the reference's.
    fn compare(&self, what: &str) {
        let reference = Reference::new();
        let mut theirs = reference.queue(QueueHint::default()).expect("a queue");
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let expected = self.run(&reference, &mut *theirs, direction);
            for (name, engine) in engines() {
                let mut queue = engine.queue(QueueHint::default()).expect("a queue");
                let got = self.run(&engine, &mut *queue, direction);
                for (index, (got, expected)) in got.0.iter().zip(&expected.0).enumerate() {
                    assert_eq!(got, expected, "{what}, {} {direction}, {name}, operation {index}", self.suite);
                }
                if got.1 != expected.1 {
                    let at = got.1.iter().zip(&expected.1).position(|(a, b)| a != b);
                    let op = at.and_then(|at| {
                        self.ops.iter().position(|op| (op.output..op.output + op.input.len).contains(&(at as u32)))
                    });
                    panic!("{what}, {} {direction}, {name}: byte {at:?} of operation {op:?}", self.suite);
                }
            }
        }
    }
}

/// An engine for each AES kernel that this processor can run.
fn engines() -> Vec<(&'static str, Lanes)> {
    kernels()
        .into_iter()
        .filter(|kernel| kernel.family == "aes" && kernel.capable)
        .map(|kernel| (kernel.name, Lanes::with_kernels(&[&format!("aes={}", kernel.name)]).expect("it can run here")))
        .collect()
}

const MIX: Mix = Mix { ops: 100, keys: 1, lens: 1, tweaks: 0, tweak_len: 0, spoilt: 0, in_place: true };

fn aes256(radix: u32) -> Ff1 {
    Ff1 { size: AesSize::Aes256, radix }
}

#[test]
fn every_length_of_every_kind_of_radix() {
    let mut random = Random(0xff1);
    for radix in [2, 3, 10, 16, 26, 36, 62, 64, 100, 255, 256, 257, 999, 1000, 4096, 46_341, 65_535, 65_536] {
        let ff1 = aes256(radix);
        let longest = if radix < 10 { 160 } else { 60 };
        for len in ff1.numerals_min()..=longest {
            let mix = Mix {
                ops: 2 + random.below(9),
                keys: 1 + random.below(3),
                tweaks: 2,
                tweak_len: 20,
                in_place: random.below(2) == 0,
                ..MIX
            };
            Case::new(ff1, mix, &mut |_| len, &mut random).compare(&format!("{len} numerals"));
        }
    }
}

#[test]
fn batches_of_every_size() {
    let mut random = Random(0xba7c4);
    for ops in (1..=70).chain([127, 128, 129, 1000, 2047, 2048, 2049, 5000]) {
        for keys in [1, 3] {
            let mix = Mix { ops, keys, tweaks: random.below(2), tweak_len: 11, in_place: ops % 2 == 0, ..MIX };
            Case::new(aes256(10), mix, &mut |_| 16, &mut random).compare(&format!("{ops} operations"));
        }
    }
}

#[test]
fn lengths_keys_and_tweaks_at_random() {
    let mut random = Random(0x5eed);
    let radixes = [2, 3, 10, 26, 36, 62, 255, 256, 257, 1000, 65_535, 65_536];
    let sizes = [AesSize::Aes128, AesSize::Aes192, AesSize::Aes256];
    for round in 0..36 {
        let ff1 = Ff1 { size: sizes[random.below(3)], radix: radixes[round % radixes.len()] };
        let mix = Mix {
            ops: [1 + random.below(40), 200, 700][random.below(3)],
            keys: [1, 2, 50][random.below(3)],
            lens: [1, 5, 80][random.below(3)],
            tweaks: [0, 1, 3, 40][random.below(4)],
            tweak_len: 40,
            spoilt: [0, 3, 30][random.below(3)],
            in_place: random.below(2) == 0,
        };
        let min = ff1.numerals_min() + random.below(10);
        let mut lens = |random: &mut Random| min + random.below(mix.lens);
        Case::new(ff1, mix, &mut lens, &mut random).compare(&format!("round {round}"));
    }
}

#[test]
fn long_values_and_long_tweaks() {
    let mut random = Random(0x1009);
    for (radix, longest) in [(2, 4096), (10, 4096), (36, 1500), (65_535, 700), (65_536, 4096)] {
        let mix = Mix { ops: 3, keys: 2, tweaks: 2, tweak_len: 40, in_place: false, ..MIX };
        let mut lens = |random: &mut Random| [longest, longest - 1, 200][random.below(3)];
        Case::new(aes256(radix), mix, &mut lens, &mut random).compare("long");
    }
    for keys in [1, 9] {
        let mix = Mix { ops: 30, keys, tweaks: 4, tweak_len: 65_535, ..MIX };
        Case::new(aes256(10), mix, &mut |_| 16, &mut random).compare("long tweaks");
    }
}

#[test]
fn lengths_far_apart_share_a_batch() {
    let mut random = Random(0xfa4);
    let mut lens = |random: &mut Random| [20, 84, 148, 212][random.below(4)];
    let mix = Mix { ops: 300, keys: 4, ..MIX };
    Case::new(aes256(10), mix, &mut lens, &mut random).compare("lengths of one class");
}

/// NIST, "Block Cipher Modes of Operation: FF1 Method for Format-Preserving Encryption", samples 7 to 9.
#[test]
fn samples_of_nist() {
    let key = hex::decode("2b7e151628aed2a6abf7158809cf4f3cef4359d8d580aa4f7f036d6f04fc6a94").expect("hex");
    let numerals = |text: &str| -> Vec<u8> {
        text.chars().flat_map(|c| (c.to_digit(36).expect("a numeral") as u16).to_le_bytes()).collect()
    };
    let samples = [
        (10, "", "0123456789", "6657667009"),
        (10, "39383736353433323130", "0123456789", "1001623463"),
        (36, "3737373770717273373737", "0123456789abcdefghi", "xs8a0azh2avyalyzuwd"),
    ];
    for (radix, tweak, input, output) in samples {
        let tweak = hex::decode(tweak).expect("hex");
        let arena = [tweak.clone(), numerals(input)].concat();
        let span = Span::new(tweak.len() as u32, 2 * input.len() as u32);
        let op = Op::in_place(KeyId { slot: 0, generation: 1 }, span).with_aad(0, tweak.len() as u16);
        let suite = Suite::Fpe(aes256(radix));
        let case = Case { suite, ops: vec![op], arena, keys: vec![0], secrets: vec![key.clone()] };
        for (name, engine) in engines() {
            let mut queue = engine.queue(QueueHint::default()).expect("a queue");
            let (ops, arena) = case.run(&engine, &mut *queue, Direction::Encrypt);
            assert_eq!(ops[0].status, OpStatus::Done, "{name}");
            assert_eq!(arena[tweak.len()..], numerals(output), "{name}");
        }
    }
}

#[test]
fn a_numeral_out_of_range_spoils_its_own_value_alone() {
    for len in [6, 9, 16, 31, 50] {
        let mut random = Random(len as u64);
        let mix = Mix { ops: 40, ..MIX };
        let good = Case::new(aes256(10), mix, &mut |_| len, &mut random);
        for place in 0..len {
            let mut case = good.clone();
            let spoilt = 7 * place % 40;
            case.arena[case.ops[spoilt].input.offset as usize + 2 * place] = 10;
            for (name, engine) in engines() {
                let mut queue = engine.queue(QueueHint::default()).expect("a queue");
                let (ops, arena) = case.run(&engine, &mut *queue, Direction::Encrypt);
                for (index, op) in ops.iter().enumerate() {
                    let bad = index == spoilt;
                    let expected = if bad { OpStatus::BadInput(Reason::NumeralOutOfRange) } else { OpStatus::Done };
                    assert_eq!(op.status, expected, "{name}, {len} numerals, operation {index}");
                    let zero = arena[op.output as usize..][..2 * len].iter().all(|byte| *byte == 0);
                    assert_eq!((zero, op.output_len), (bad, if bad { 0 } else { 2 * len as u32 }), "{name}");
                }
            }
        }
    }
}
