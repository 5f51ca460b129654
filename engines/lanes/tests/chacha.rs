//! ChaCha20 and ChaCha20-Poly1305 against the reference: batches of 1 to 5,000 operations of every length, each with a
//! key of its own among many, additional data of every length, in place and out of place, some with damaged tags.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use ciphermill_contract::{
    Batch, Direction, Engine, KeyForm, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_lanes::{Lanes, kernels};
use ciphermill_reference::Reference;
use common::Random;

/// Operations of a batch, and the most bytes of data and of additional data of each.
const BATCHES: [(usize, usize, usize); 14] = [
    (1, 0, 0),
    (1, 64, 20),
    (1, 66_000, 300),
    (2, 130, 48),
    (3, 600, 300),
    (7, 64, 16),
    (16, 20_000, 60),
    (17, 300, 40),
    (40, 1_200, 300),
    (64, 960, 48),
    (65, 66_000, 20),
    (700, 2_000, 300),
    (2_100, 200, 12),
    (5_000, 80, 50),
];

/// A batch with the keys that its operations use.
struct Case {
    suite: Suite,
    ops: Vec<Op>,
    arena: Vec<u8>,
    keys: Vec<Vec<u8>>,
    key_of: Vec<usize>,
}

impl Case {
    fn new(suite: Suite, (count, len_max, aad_max): (usize, usize, usize), random: &mut Random) -> Case {
        let is_aead = matches!(suite, Suite::Aead(_));
        let mut at = 0;
        let mut take = |len: usize, random: &mut Random| {
            // Places touch each other or lie apart by some bytes.
            let place = at + random.up_to(3);
            at = place + len;
            place as u32
        };
        let mut ops = Vec::new();
        for index in 0..count {
            // Every other message is short, so that long ones lie between them.
            let len = if index % 2 == 0 { random.up_to(len_max) } else { random.up_to(len_max.min(200)) };
            let aad_len = if is_aead { random.up_to(aad_max) } else { 0 };
            let aad = take(aad_len, random);
            let input = take(len, random);
            let output = if random.up_to(1) == 0 { input } else { take(len, random) };
            let iv_len = if is_aead { 12 } else { 12 + 4 * random.up_to(1) };
            let mut iv = random.bytes(iv_len);
            if iv_len == 16 {
                // Now and then the counter ends within the message or right behind it.
                let counter =
                    if random.up_to(3) == 0 { u32::MAX - random.up_to(20) as u32 } else { random.next() as u32 >> 1 };
                iv[..4].copy_from_slice(&counter.to_le_bytes());
            }
            let mut op = Op::in_place(KeyId { slot: index as u32, generation: 1 }, Span::new(input, len as u32))
                .with_output(output)
                .with_iv(&iv);
            if is_aead {
                op = op.with_tag(take(16, random), 16).with_aad(aad, aad_len as u16);
            }
            ops.push(op);
        }
        let keys: Vec<Vec<u8>> = (0..count.min(977)).map(|_| random.bytes(32)).collect();
        let key_of = (0..count).map(|_| random.up_to(keys.len() - 1)).collect();
        Case { suite, ops, arena: random.bytes(at + 64), keys, key_of }
    }

    /// Runs the batch on an engine and leaves operations and arena as it made them.
    fn run(&mut self, engine: &dyn Engine, direction: Direction) {
        let prepare = |bytes: &Vec<u8>| engine.prepare(&KeyMaterial { form: KeyForm::Secret, bytes }, self.suite);
        let prepared: Vec<PreparedKey> = self.keys.iter().map(|key| prepare(key).expect("a key of 32 bytes")).collect();
        let keys: Vec<Option<&PreparedKey>> = self.key_of.iter().map(|key| Some(&prepared[*key])).collect();
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        let batch = Batch::new(self.suite, direction, &mut self.ops, &mut self.arena);
        let mut checked = batch.check().expect("a batch that keeps the rules");
        queue.run(&mut checked.attach_keys(&keys).expect("a key an operation"));
    }

    /// The same operations, pending, on another arena; inputs lie where the outputs were written.
    fn back(&self, arena: Vec<u8>) -> Case {
        let again = |op: &Op| Op {
            input: Span::new(op.output, op.input.len),
            output: op.input.offset,
            status: OpStatus::Pending,
            output_len: 0,
            ..*op
        };
        let ops = self.ops.iter().map(again).collect();
        Case { suite: self.suite, ops, arena, keys: self.keys.clone(), key_of: self.key_of.clone() }
    }

    fn copy(&self) -> Case {
        let (ops, arena) = (self.ops.clone(), self.arena.clone());
        Case { suite: self.suite, ops, arena, keys: self.keys.clone(), key_of: self.key_of.clone() }
    }
}

fn assert_same(ours: &Case, theirs: &Case, what: &str) {
    for (index, (ours, theirs)) in ours.ops.iter().zip(&theirs.ops).enumerate() {
        assert_eq!(ours, theirs, "{what}: operation {index}");
    }
    let differ = ours.arena.iter().zip(&theirs.arena).position(|(ours, theirs)| ours != theirs);
    assert_eq!(differ, None, "{what}: arenas differ at this byte");
}

fn agree(kernel: &str, suite: &str) {
    let lanes = Lanes::with_kernels(&[&format!("chacha20={kernel}")]).expect("this processor can");
    let reference = Reference::new();
    let suite: Suite = suite.parse().expect("a suite");
    let mut random = Random(0x5eed_c4ac_4a20);
    for shape in BATCHES {
        let what = format!("{kernel} {suite} {shape:?}");
        let mut ours = Case::new(suite, shape, &mut random);
        let mut theirs = ours.copy();
        ours.run(&lanes, Direction::Encrypt);
        theirs.run(&reference, Direction::Encrypt);
        assert_same(&ours, &theirs, &what);

        // Every third operation or so is damaged: its tag, its data, its nonce.
        let mut arena = theirs.arena.clone();
        let mut damaged = 0;
        let mut back = theirs.back(Vec::new());
        for op in &mut back.ops {
            match random.up_to(8) {
                0 if op.tag_len != 0 => arena[op.tag as usize + random.up_to(15)] ^= 1 << random.up_to(7),
                1 if op.input.len != 0 => {
                    arena[op.input.offset as usize + random.up_to(op.input.len as usize - 1)] ^= 0x80;
                }
                2 => op.iv[random.up_to(11)] ^= 1,
                _ => continue,
            }
            damaged += 1;
        }
        back.arena = arena;
        let mut reference_back = back.copy();
        back.run(&lanes, Direction::Decrypt);
        reference_back.run(&reference, Direction::Decrypt);
        assert_same(&back, &reference_back, &format!("{what}, back"));
        let failed = back.ops.iter().filter(|op| op.status == OpStatus::AuthFailed).count();
        assert_eq!(failed, if matches!(suite, Suite::Aead(_)) { damaged } else { 0 }, "{what}: damaged operations");
    }
}

#[test]
fn every_kernel_agrees_with_the_reference() {
    for kernel in kernels().iter().filter(|kernel| kernel.family == "chacha20") {
        if kernel.capable {
            agree(kernel.name, "chacha20");
            agree(kernel.name, "chacha20-poly1305");
            println!("ran: {}", kernel.name);
        } else {
            println!("cannot run here: {}", kernel.name);
        }
    }
}
