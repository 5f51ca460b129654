//! Batches with known outcomes.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use ciphermill::{KeyPolicy, KeyTable};
use ciphermill_contract::{
    Batch, Direction, KeyForm, KeyId, KeyMaterial, Op, OpStatus, OwnedBatch, PreparedKey, QueueHint, Span, Suite,
};
use ciphermill_vectors::job::key_of;
use ciphermill_vectors::known_answer;

use crate::reference;

/// Numbers from a seed (SplitMix64, Steele, Lea and Flood 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A batch and what the reference makes of it.
pub(crate) struct Piece {
    suite: Suite,
    direction: Direction,
    ops: Vec<Op>,
    arena: Vec<u8>,
    expected_ops: Vec<Op>,
    expected_arena: Vec<u8>,
    /// Each key's name and bytes.
    known: Vec<(KeyId, KeyForm, Vec<u8>)>,
}

const SUITES: [&str; 6] = ["aes-128-cbc", "aes-128-gcm", "sha256", "hmac-sha256", "3des-cbc", "aes-128-cbc+hmac-sha1"];

/// Suites that take longer or that give other answers each time, in one of so many batches.
const RARE_SUITES: [&str; 6] = ["random", "random", "ed25519", "ecdsa-p256", "x25519", "ml-kem-512"];
const RARE: usize = 6;

impl Piece {
    /// Operations of a random suite, some in place, some not, some with damaged tags.
    pub(crate) fn new(random: &mut Random, keys: &KeyTable) -> Piece {
        let names = if random.below(RARE) == 0 { RARE_SUITES } else { SUITES };
        let suite: Suite = names[random.below(names.len())].parse().expect("a suite");
        let decrypts = random.below(2) == 0 && suite.has_direction(Direction::Decrypt);
        let known: Vec<(KeyId, KeyForm, Vec<u8>)> = (0..3)
            .map(|_| {
                let (form, bytes) = match suite.default_key_len() {
                    _ if !suite.needs_key() => return (KeyId::NONE, KeyForm::Secret, Vec::new()),
                    // Key pairs. A KEM's is private too, so that what was encapsulated can be taken back.
                    0 => {
                        let way = if matches!(suite, Suite::Kem(_)) { Direction::Decrypt } else { Direction::Encrypt };
                        let key = known_answer(suite).and_then(|case| key_of(case, way)).expect("a key");
                        (key.form, key.bytes.to_vec())
                    }
                    len => (KeyForm::Secret, (0..len).map(|_| random.next() as u8).collect()),
                };
                let material = KeyMaterial { form, bytes: &bytes };
                (keys.import(material, KeyPolicy::default()).expect("room"), form, bytes)
            })
            .collect();
        let mut piece = Piece::plain(random, suite, known);
        piece.compute();
        if decrypts {
            piece.turn_round(random);
            piece.compute();
        }
        piece
    }

    fn plain(random: &mut Random, suite: Suite, known: Vec<(KeyId, KeyForm, Vec<u8>)>) -> Piece {
        let count = 1 + random.below(if suite.is_public_key() { 3 } else { 20 });
        let lens = suite.input_len(Direction::Encrypt);
        let mut arena = Vec::new();
        let ops = (0..count)
            .map(|_| {
                let asked = if suite == Suite::Random { 16 * (1 + random.below(4)) } else { 0 };
                let len = (suite.block_len().max(8) * (1 + random.below(5))).clamp(lens.min, lens.max);
                let input = arena.len() as u32;
                arena.extend((0..len).map(|_| random.next() as u8));
                // Chains grow by their tag and padding.
                let room = suite.output_len(Direction::Encrypt, len, asked).max(len);
                arena.resize(input as usize + room, 0);
                let output = if random.below(2) == 0 || !suite.transforms() { arena.len() as u32 } else { input };
                arena.resize(arena.len() + if output == input { 0 } else { room }, 0);
                let tag = arena.len() as u32;
                arena.resize(arena.len() + suite.default_tag_len(), 0);
                let iv: Vec<u8> = (0..suite.default_iv_len()).map(|_| random.next() as u8).collect();
                let op = Op::in_place(known[random.below(known.len())].0, Span::new(input, len as u32))
                    .with_output(output)
                    .with_iv(&iv)
                    .with_tag(tag, suite.default_tag_len() as u16);
                Op { output_len: asked as u32, ..op }
            })
            .collect();
        let direction = Direction::Encrypt;
        Piece { suite, direction, ops, arena, expected_ops: Vec::new(), expected_arena: Vec::new(), known }
    }

    /// Makes the outcome the input of the way back.
    fn turn_round(&mut self, random: &mut Random) {
        self.arena = self.expected_arena.clone();
        self.direction = Direction::Decrypt;
        for (op, encrypted) in self.ops.iter_mut().zip(&self.expected_ops) {
            if self.suite.transforms() {
                (op.input, op.output) = (Span::new(op.output, encrypted.output_len), op.input.offset);
            }
            if random.below(6) == 0 && op.tag_len != 0 {
                self.arena[op.tag as usize] ^= 1;
            }
        }
    }

    /// What the reference makes of it.
    fn compute(&mut self) {
        (self.expected_ops, self.expected_arena) = self.by_reference(self.direction, &self.ops, &self.arena);
    }

    /// What the reference makes of operations with this piece's keys.
    fn by_reference(&self, direction: Direction, ops: &[Op], arena: &[u8]) -> (Vec<Op>, Vec<u8>) {
        let engine = reference();
        let prepare = |(id, form, bytes): &(KeyId, KeyForm, Vec<u8>)| {
            let material = KeyMaterial { form: *form, bytes };
            (*id, engine.prepare(&material, self.suite).expect("a key of the suite"))
        };
        let prepared: Vec<(KeyId, PreparedKey)> =
            self.known.iter().filter(|(id, ..)| !id.is_none()).map(prepare).collect();
        let key_of = |op: &Op| prepared.iter().find(|(id, _)| *id == op.key).map(|(_, key)| key);
        let keys: Vec<Option<&PreparedKey>> = ops.iter().map(key_of).collect();
        let (mut ops, mut arena) = (ops.to_vec(), arena.to_vec());
        let mut batch = Batch::new(self.suite, direction, &mut ops, &mut arena).check().expect("a right batch");
        engine.queue(QueueHint::default()).expect("opens").run(&mut batch.attach_keys(&keys).expect("as many"));
        (ops, arena)
    }

    /// The last operation's index.
    pub(crate) fn last(&self) -> usize {
        self.ops.len() - 1
    }

    /// Whether an operation's output goes where its input is.
    pub(crate) fn is_in_place(&self, index: usize) -> bool {
        self.suite.transforms() && self.ops[index].output == self.ops[index].input.offset
    }

    /// Whether an operation that was given up is as it was, or wiped: nothing half done is left.
    pub(crate) fn check_given_up(&self, index: usize, batch: &OwnedBatch) {
        let op = &self.ops[index];
        let room = self.suite.output_len(self.direction, op.input.len as usize, op.output_len as usize);
        let output = Span::new(op.output, room as u32).range();
        let (before, after) = (&self.arena[output.clone()], &batch.arena.bytes()[output]);
        let is_wiped = after.iter().all(|byte| *byte == 0);
        assert!(is_wiped || before == after, "operation {index} of {self:?} left something behind");
    }

    /// Whether an operation that never gives the same answer twice has a right one.
    fn check_random(&self, index: usize, batch: &OwnedBatch) {
        let (op, expected) = (batch.ops[index], self.expected_ops[index]);
        assert_eq!(op.status, OpStatus::Done, "operation {index} of {self:?}");
        assert_eq!(
            (op.output_len, op.tag_len),
            (expected.output_len, expected.tag_len),
            "operation {index} of {self:?}"
        );
        let arena = batch.arena.bytes();
        let output = Span::new(op.output, op.output_len).range();
        if self.suite == Suite::Random {
            assert!(arena[output].iter().any(|byte| *byte != 0), "operation {index} of {self:?}: zeros");
            return;
        }
        let back = Op { status: OpStatus::Pending, output_len: 0, ..op };
        let (ops, answer) = self.by_reference(Direction::Decrypt, &[back], arena);
        assert_eq!(ops[0].status, OpStatus::Done, "operation {index} of {self:?}");
        assert_eq!(answer[output.clone()], arena[output], "operation {index} of {self:?}");
    }

    pub(crate) fn owned(&self) -> OwnedBatch {
        OwnedBatch {
            suite: self.suite,
            direction: self.direction,
            ops: self.ops.clone(),
            arena: Box::new(self.arena.clone()),
        }
    }

    /// Whether an operation has its outcome.
    pub(crate) fn check(&self, index: usize, batch: &OwnedBatch) {
        if self.suite.is_randomized(self.direction) {
            return self.check_random(index, batch);
        }
        let (op, expected) = (batch.ops[index], self.expected_ops[index]);
        assert_eq!(op.status, expected.status, "operation {index} of {self:?}");
        let is_done = op.status == OpStatus::Done;
        assert_eq!(op.output_len, expected.output_len, "operation {index} of {self:?}");
        let output = Span::new(op.output, op.output_len).range();
        let arena = batch.arena.bytes();
        assert_eq!(arena[output.clone()], self.expected_arena[output], "operation {index} of {self:?}");
        if is_done && self.direction == Direction::Encrypt {
            let tag = op.tag_span().range();
            assert_eq!(arena[tag.clone()], self.expected_arena[tag], "operation {index} of {self:?}");
        }
    }
}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} of {} operations", self.suite, self.direction, self.ops.len())
    }
}

/// Polls a future on this thread until it is ready.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
