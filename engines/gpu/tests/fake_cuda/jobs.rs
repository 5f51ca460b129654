//! Work for the engine that has something in flight most of the time, and what became of it.

use ciphermill_contract::columns::{ColumnBatch, ColumnData, Extents, IvColumn, PreparedColumn};
use ciphermill_contract::suite::{AesSize, BlockCipher, Digest, Mac, Mode, StreamCipher};
use ciphermill_contract::{
    ArenaBuffer, Batch, ColumnStatus, Direction, Engine, Error, KeyId, KeyMaterial, Op, OpStatus, QueueHint, Span,
    Suite,
};
use ciphermill_gpu::Gpu;
use ciphermill_reference::Reference;

/// What became of operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Done, with the reference's results.
    pub(crate) done: usize,
    /// Faults of the engine, with outputs of zeros, and calls that said so.
    pub(crate) faults: usize,
}

impl Outcome {
    pub(crate) fn add(&mut self, other: Outcome) {
        self.done += other.done;
        self.faults += other.faults;
    }

    pub(crate) fn assert_done(&self) {
        assert!(self.faults == 0 && self.done > 0, "{self:?}");
    }
}

/// Bytes that repeat nowhere near a block's length.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// All kinds of work, one behind the other.
pub(crate) fn run_all(gpu: &Gpu, seed: u64) -> Outcome {
    let mut outcome = Outcome::default();
    // Three megabytes, in shares of one.
    let long: Vec<usize> = (0..12).map(|index| (200 << 10) + 1000 * index).collect();
    outcome.add(keyed(gpu, Suite::Stream(StreamCipher::Rc4), seed, &vec![4 << 10; 700], 0));
    outcome.add(keyed(gpu, Suite::Stream(StreamCipher::ChaCha20), seed, &long, 12));
    outcome.add(lying(gpu, seed, 20_000));
    outcome.add(columns(gpu, seed, 20_000));
    outcome.add(small(gpu, seed));
    outcome.add(digests(gpu, seed));
    outcome
}

/// Batches of one share and less, one behind the other in one queue.
pub(crate) fn small(gpu: &Gpu, seed: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let aes = Suite::Cipher(BlockCipher::Aes(AesSize::Aes128), Mode::Cbc);
    for turn in 0..3 {
        outcome.add(keyed(gpu, aes, seed + turn, &[16, 160, 5008, 32], 16));
        outcome.add(keyed(gpu, Suite::Mac(Mac::Hmac(Digest::Sha256)), seed + turn, &[100, 7, 0], 0));
    }
    outcome
}

/// As many messages of 64 bytes in an arena of the device's, which it copies from and to by itself.
pub(crate) fn lying(gpu: &Gpu, seed: u64, count: usize) -> Outcome {
    match gpu.pinned_arena(64 * count) {
        Ok(arena) => keyed_in(arena, gpu, Suite::Stream(StreamCipher::ChaCha20), seed, &vec![64; count], 12),
        Err(error) => {
            assert!(matches!(error, Error::EngineFault(_)), "{error}");
            Outcome { done: 0, faults: 1 }
        }
    }
}

/// As many values of 64 bytes as columns, from one of the device's arenas to another.
pub(crate) fn columns(gpu: &Gpu, seed: u64, count: usize) -> Outcome {
    let fault = Outcome { done: 0, faults: 1 };
    let (Ok(mut input), Ok(mut output)) = (gpu.pinned_arena(64 * count), gpu.pinned_arena(64 * count)) else {
        return fault;
    };
    let (suite, material, iv) = (Suite::Stream(StreamCipher::ChaCha20), noise(seed, 32), noise(seed + 1, 12));
    input.bytes_mut().copy_from_slice(&noise(seed + 2, 64 * count));
    let run = |engine: &dyn Engine, output: &mut [u8]| -> Result<Vec<ColumnStatus>, Error> {
        let key = engine.prepare(&KeyMaterial::secret(&material), suite)?;
        let mut queue = engine.queue(QueueHint::default())?;
        let mut statuses = vec![ColumnStatus::PENDING; count];
        let extents = Extents::Strided { len: 64, stride: 64 };
        let data = ColumnData::Separate { input: input.bytes(), inputs: extents, output, outputs: extents };
        let batch = ColumnBatch::new(suite, Direction::Encrypt, data, &mut statuses);
        let batch = batch.with_key(KeyId { slot: 0, generation: 1 }).with_ivs(IvColumn::Counter(&iv));
        queue.run_columns(&mut batch.check()?.attach_keys(PreparedColumn::One(&key))?);
        Ok(statuses)
    };
    let mut expected = vec![0; 64 * count];
    run(&Reference::new(), &mut expected).expect("the reference runs everything");
    match run(gpu, output.bytes_mut()) {
        Err(error) => {
            assert!(matches!(error, Error::EngineFault(_)), "{error}");
            fault
        }
        Ok(statuses) => {
            let rows = output.bytes().chunks(64).zip(expected.chunks(64));
            for (status, (own, expected)) in statuses.iter().zip(rows) {
                let is_right = if status.is_done() { own == expected } else { own.iter().all(|byte| *byte == 0) };
                assert!(is_right && !status.is_pending(), "columns: {status:?} with a wrong value");
            }
            let done = statuses.iter().filter(|status| status.is_done()).count();
            Outcome { done, faults: count - done }
        }
    }
}

/// Messages of these lengths under two keys, one behind the other and in place.
fn keyed(gpu: &Gpu, suite: Suite, seed: u64, lens: &[usize], iv_len: usize) -> Outcome {
    let tag_len = if matches!(suite, Suite::Mac(_)) { 32 } else { 0 };
    let arena = vec![0; lens.iter().map(|len| len + tag_len).sum()];
    keyed_in(Box::new(arena), gpu, suite, seed, lens, iv_len)
}

fn keyed_in(
    mut arena: Box<dyn ArenaBuffer>,
    engine: &dyn Engine,
    suite: Suite,
    seed: u64,
    lens: &[usize],
    iv_len: usize,
) -> Outcome {
    let tag_len = if matches!(suite, Suite::Mac(_)) { 32 } else { 0 };
    let key_len = suite.default_key_len();
    let keys = [noise(seed, key_len), noise(seed + 1, key_len)];
    let iv = noise(seed + 2, iv_len);
    let mut expected = noise(seed + 3, lens.iter().map(|len| len + tag_len).sum());
    arena.bytes_mut().copy_from_slice(&expected);
    let mut ops = Vec::new();
    let mut at = 0;
    for (index, len) in lens.iter().enumerate() {
        let name = KeyId { slot: index as u32 % 2, generation: 1 };
        let op = Op::in_place(name, Span::new(at as u32, *len as u32)).with_iv(&iv);
        ops.push(if tag_len == 0 { op } else { op.with_tag((at + len) as u32, tag_len as u16) });
        at += len + tag_len;
    }
    let mut oracle_ops = ops.clone();
    run(&Reference::new(), suite, &keys, &mut oracle_ops, &mut expected).expect("the reference runs everything");
    match run(engine, suite, &keys, &mut ops, arena.bytes_mut()) {
        Err(error) => {
            assert!(matches!(error, Error::EngineFault(_)), "{suite}: {error}");
            Outcome { done: 0, faults: 1 }
        }
        Ok(()) => judge(suite, &ops, arena.bytes(), &expected, tag_len),
    }
}

fn run(engine: &dyn Engine, suite: Suite, keys: &[Vec<u8>], ops: &mut [Op], arena: &mut [u8]) -> Result<(), Error> {
    let material: Vec<KeyMaterial<'_>> = keys.iter().map(|key| KeyMaterial::secret(key)).collect();
    let prepared = engine.prepare_many(&material, suite).into_iter().collect::<Result<Vec<_>, _>>()?;
    let own: Vec<_> = (0..ops.len()).map(|index| prepared.get(index % 2)).collect();
    let mut queue = engine.queue(QueueHint::default())?;
    let mut batch = Batch::new(suite, Direction::Encrypt, ops, arena).check().expect("a good batch");
    let own = if keys.is_empty() { &[] } else { own.as_slice() };
    queue.run(&mut batch.attach_keys(own).expect("as many keys as operations"));
    Ok(())
}

/// Every operation is done with the right result, or a fault with its output zeroed; nothing stays pending.
fn judge(suite: Suite, ops: &[Op], arena: &[u8], expected: &[u8], tag_len: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for op in ops {
        let own = if tag_len == 0 { op.input.range() } else { op.tag_span().range() };
        match op.status {
            OpStatus::Done => {
                assert!(arena[own.clone()] == expected[own], "{suite}: an operation that is done is wrong");
                outcome.done += 1;
            }
            OpStatus::EngineFault => {
                let zeroed = tag_len != 0 || arena[own].iter().all(|byte| *byte == 0);
                assert!(zeroed, "{suite}: the output of a fault is left behind");
                outcome.faults += 1;
            }
            other => panic!("{suite}: an operation ended as {other:?}"),
        }
    }
    outcome
}

/// Four batches of one digest each, one behind the other in one queue.
pub(crate) fn digests(gpu: &Gpu, seed: u64) -> Outcome {
    let mut outcome = Outcome::default();
    let Ok(mut queue) = gpu.queue(QueueHint::default()) else { return Outcome { done: 0, faults: 1 } };
    let suite = Suite::Digest(Digest::Sha256);
    for first in 0..4 {
        let ops = [Op::in_place(KeyId::NONE, Span::new(0, 100)).with_tag(100, 32)];
        let (mut own, mut arena) = (ops, [noise(seed + first, 100), vec![0; 32]].concat());
        let (mut right, mut expected) = (ops, arena.clone());
        queue.run(&mut Batch::new(suite, Direction::Encrypt, &mut own, &mut arena).check().expect("a good batch"));
        run(&Reference::new(), suite, &[], &mut right, &mut expected).expect("the reference runs everything");
        outcome.add(judge(suite, &own, &arena, &expected, 32));
    }
    outcome
}
