//! Random batches, and the way to run one on an engine.

use ciphermill_contract::suite::{ChainOrder, Digest, Mac};
use ciphermill_contract::{
    Batch, Direction, Engine, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Span, Suite,
};

/// SplitMix64: small, and the same on every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Operations with their arena and keys.
#[derive(Clone)]
pub(crate) struct Workload {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) ops: Vec<Op>,
    pub(crate) arena: Vec<u8>,
}

/// How random operations are drawn.
#[derive(Clone, Copy)]
pub(crate) struct Draw {
    pub(crate) ops: usize,
    pub(crate) keys: usize,
    pub(crate) len_min: usize,
    pub(crate) len_max: usize,
    pub(crate) aad_max: usize,
}

impl Workload {
    /// Operations to encrypt: in place and not, with and without additional data, which lie right before the input as in
    /// ESP or elsewhere.
    pub(crate) fn random(random: &mut Random, suite: Suite, draw: Draw) -> Workload {
        let keys: Vec<_> = (0..draw.keys).map(|_| key(random, suite)).collect();
        let mut workload = Workload { suite, direction: Direction::Encrypt, keys, ops: Vec::new(), arena: Vec::new() };
        for _ in 0..draw.ops {
            let op = workload.random_op(random, draw);
            workload.ops.push(op);
        }
        workload
    }

    fn random_op(&mut self, random: &mut Random, draw: Draw) -> Op {
        let suite = self.suite;
        let key = match self.keys.len() {
            0 => KeyId::NONE,
            n => KeyId { slot: random.below(n) as u32, generation: 1 },
        };
        let key = if suite.needs_key() { key } else { KeyId::NONE };
        let gap = random.below(5);
        self.arena.extend(random.bytes(gap));
        let aad_len = if suite.aad_len().max == 0 || random.below(3) == 0 { 0 } else { random.below(draw.aad_max + 1) };
        let aad = self.place(random, aad_len);
        if random.below(2) == 0 {
            self.arena.push(0xa5);
        }
        let lengths = suite.input_len(Direction::Encrypt);
        let len = draw.len_min + random.below(draw.len_max + 1 - draw.len_min);
        let mut len = (len - len % suite.block_len().max(lengths.step)).clamp(lengths.min, lengths.max);
        if let Suite::Chain(_) = suite
            && len + aad_len == 0
        {
            // ipsec-mb does not run HMAC over nothing.
            len = suite.block_len();
        }
        let input = self.place(random, len);
        if let Suite::Fpe(ff1) = suite {
            for numeral in self.arena[input as usize..].chunks_exact_mut(2) {
                numeral.copy_from_slice(&(random.below(ff1.radix as usize) as u16).to_le_bytes());
            }
        }
        let output = if suite.transforms() && random.below(2) == 0 { input } else { self.place(random, len) };
        let tag_len = tag_len(random, suite);
        let tag = self.place(random, tag_len);
        let iv_rule = suite.iv_len();
        let iv_len = iv_rule.min + random.below((iv_rule.max - iv_rule.min) / iv_rule.step + 1) * iv_rule.step;
        let mut iv = random.bytes(iv_len);
        if let Suite::Stream(_) = suite
            && iv_len == 16
        {
            // Keeps ChaCha20's counter away from its end; that case has a test of its own.
            iv[3] = 0;
        }
        Op::in_place(key, Span::new(input, len as u32))
            .with_output(output)
            .with_iv(&iv)
            .with_aad(if aad_len == 0 { 0 } else { aad }, aad_len as u16)
            .with_tag(tag, tag_len as u16)
    }

    fn place(&mut self, random: &mut Random, len: usize) -> u32 {
        let offset = self.arena.len();
        self.arena.extend(random.bytes(len));
        offset as u32
    }

    /// Runs the operations; the engine prepares the keys.
    pub(crate) fn run(&mut self, engine: &dyn Engine) {
        self.run_except(engine, |_| false);
    }

    /// The same, with the operations that `skip` names marked as failed before the engine sees them.
    pub(crate) fn run_except(&mut self, engine: &dyn Engine, skip: impl Fn(usize) -> bool) {
        let prepare = |bytes: &Vec<u8>| engine.prepare(&KeyMaterial::secret(bytes), self.suite).expect("a fitting key");
        let prepared: Vec<PreparedKey> =
            if self.suite.needs_key() { self.keys.iter().map(prepare).collect() } else { Vec::new() };
        let keys: Vec<_> = self.ops.iter().map(|op| prepared.get(op.key.slot as usize)).collect();
        let keys = if prepared.is_empty() { Vec::new() } else { keys };
        let mut queue = engine.queue(QueueHint::default()).expect("a queue");
        let batch = Batch::new(self.suite, self.direction, &mut self.ops, &mut self.arena);
        let mut checked = batch.check().expect("a sound batch");
        for index in (0..checked.len()).filter(|&index| skip(index)) {
            checked.set_status(index, OpStatus::EngineFault);
        }
        queue.run(&mut checked.attach_keys(&keys).expect("as many keys as operations"));
    }

    /// The way back of a workload that was encrypted, in place where it was and not where it was not.
    pub(crate) fn reversed(&self) -> Workload {
        let mut back = self.clone();
        back.direction = Direction::Decrypt;
        for op in &mut back.ops {
            assert_eq!(op.status, OpStatus::Done, "{}", self.suite);
            op.status = OpStatus::Pending;
            op.output_len = 0;
            if self.suite.transforms() {
                std::mem::swap(&mut op.input.offset, &mut op.output);
            }
        }
        back
    }

    /// Flips a bit of the tag of every operation whose index `chosen` names; returns their number.
    pub(crate) fn tamper(&mut self, random: &mut Random, chosen: impl Fn(usize) -> bool) -> usize {
        let mut count = 0;
        for (_, op) in self.ops.iter().enumerate().filter(|(index, op)| chosen(*index) && op.tag_len > 0) {
            let bit = random.below(usize::from(op.tag_len) * 8);
            self.arena[op.tag as usize + bit / 8] ^= 1 << (bit % 8);
            count += 1;
        }
        count
    }

    pub(crate) fn count(&self, status: OpStatus) -> usize {
        self.ops.iter().filter(|op| op.status == status).count()
    }
}

fn key(random: &mut Random, suite: Suite) -> Vec<u8> {
    let rule = suite.key_len();
    // HMAC keys: below, at and above the block; everything else takes all its lengths.
    let max = match suite {
        Suite::Mac(Mac::Hmac(_)) => 200,
        Suite::Chain(chain) => chain.cipher_key_len() + 140,
        _ => rule.max,
    };
    let len = rule.min + random.below((max - rule.min) / rule.step + 1) * rule.step;
    random.bytes(len)
}

fn tag_len(random: &mut Random, suite: Suite) -> usize {
    let rule = suite.tag_len(Direction::Encrypt);
    match suite {
        Suite::Chain(chain) if chain.order == ChainOrder::MacThenEncrypt => 0,
        // What protocols truncate to, half the time.
        Suite::Mac(Mac::Hmac(Digest::Md5 | Digest::Sha1)) | Suite::Chain(_) if random.below(2) == 0 => 12,
        _ => rule.round_up(rule.min + random.below((rule.max - rule.min) / rule.step + 1) * rule.step),
    }
}
