//! What is measured with: keys, and batches of operations that can be run again and again.

use std::ops::Range;
use std::sync::Arc;

use ciphermill_contract::limits::IV_LEN_MAX;
use ciphermill_contract::op::iv_rest;
use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Suite, capability,
};
use ciphermill_vectors::job::{Job, key_of, pack};
use ciphermill_vectors::known_answer;

use crate::layout::{LINE_LEN, layout, undo};
use crate::shapes::Shape;

/// Keys that operations of symmetric suites draw from.
const KEYS: usize = 64;

/// Bytes of additional data of suites that take any number of them.
const AAD_LEN: usize = 12;

/// Operations over an arena, inputs and outputs apart, so that a run changes nothing that the next one reads.
pub(crate) struct Load {
    suite: Suite,
    direction: Direction,
    fresh: Vec<Op>,
    ops: Vec<Op>,
    arena: Vec<u8>,
    /// The arena proper, which begins at a cache line: every access of a whole vector would touch two otherwise.
    within: Range<usize>,
    /// Index of each operation's key.
    pub(crate) key_of: Vec<usize>,
    /// Bytes of input of all of them.
    pub(crate) bytes: u64,
}

/// Keys of a suite, and where its operations come from.
pub(crate) struct Material {
    suite: Suite,
    direction: Direction,
    /// Who encrypts what is to be decrypted, with its keys.
    maker: Option<(Arc<dyn Engine>, Vec<PreparedKey>)>,
    /// The measured engine's keys.
    pub(crate) prepared: Vec<PreparedKey>,
}

impl Material {
    /// Has `engine` prepare keys, and for symmetric suites backwards also the first of `makers` that encrypts.
    pub(crate) fn new<'e>(
        engine: &'e Arc<dyn Engine>,
        suite: Suite,
        direction: Direction,
        makers: impl Iterator<Item = &'e Arc<dyn Engine>>,
    ) -> Result<Material, String> {
        let prepared = prepare(engine.as_ref(), suite, direction)?;
        let mut maker = None;
        if direction == Direction::Decrypt && !suite.is_public_key() {
            let encrypts = |engine: &&Arc<dyn Engine>| {
                capability::find(engine.capabilities(), suite, Direction::Encrypt).is_some()
            };
            let found = std::iter::once(engine).chain(makers).find(encrypts);
            let found = found.ok_or("no engine encrypts what it would decrypt")?;
            maker = Some((Arc::clone(found), prepare(found.as_ref(), suite, Direction::Encrypt)?));
        }
        Ok(Material { suite, direction, maker, prepared })
    }

    /// A batch of this shape.
    pub(crate) fn load(&self, shape: Shape) -> Result<Load, String> {
        if self.suite.is_public_key() && self.suite.needs_key() {
            return public_key(self.suite, self.direction, shape.ops);
        }
        let mut forward = Load::forward(self.suite, shape)?;
        match &self.maker {
            None => Ok(forward),
            Some((maker, keys)) => {
                let mut queue = maker.queue(QueueHint::default()).map_err(|error| error.to_string())?;
                let keys = forward.keys(keys);
                forward.run(queue.as_mut(), &keys, || (), |()| ()).map_err(|why| format!("encrypting: {why}"))?;
                forward.back()
            }
        }
    }
}

fn prepare(engine: &dyn Engine, suite: Suite, direction: Direction) -> Result<Vec<PreparedKey>, String> {
    if !suite.needs_key() {
        return Ok(Vec::new());
    }
    let prepared = if suite.is_public_key() {
        let case = known_answer(suite).ok_or("there is no known answer to take a key from")?;
        let key = key_of(case, direction).ok_or("the known answer has no such key")?;
        engine.prepare_many(&[key], suite)
    } else {
        let mut bytes = vec![0u8; suite.default_key_len() * KEYS];
        fill(&mut bytes, suite.ordinal() as u64);
        let keys: Vec<KeyMaterial<'_>> = bytes.chunks(suite.default_key_len()).map(KeyMaterial::secret).collect();
        engine.prepare_many(&keys, suite)
    };
    prepared.into_iter().collect::<Result<_, _>>().map_err(|error| format!("a key was refused: {error}"))
}

/// Copies of a suite's known answer, under its key.
fn public_key(suite: Suite, direction: Direction, ops: usize) -> Result<Load, String> {
    let case = known_answer(suite).ok_or("there is no known answer to take operations from")?;
    let (mut job, _) = Job::of(case, direction);
    if direction == Direction::Encrypt {
        job.tag = vec![0; suite.default_tag_len()];
    }
    let (arena, fresh) = pack(suite, direction, &vec![job; ops]);
    Ok(Load::of(suite, direction, fresh, arena, vec![0; ops]))
}

impl Load {
    fn of(suite: Suite, direction: Direction, fresh: Vec<Op>, mut arena: Vec<u8>, key_of: Vec<usize>) -> Load {
        let bytes = fresh.iter().map(|op| u64::from(op.input.len)).sum();
        let len = arena.len();
        arena.resize(len + LINE_LEN, 0);
        // Not moved from here on, so that it stays at a line.
        let begins = arena.as_ptr().align_offset(LINE_LEN).min(LINE_LEN);
        arena.copy_within(..len, begins);
        Load { suite, direction, ops: fresh.clone(), fresh, arena, within: begins..begins + len, key_of, bytes }
    }

    /// A batch of a symmetric suite, forward.
    fn forward(suite: Suite, shape: Shape) -> Result<Load, String> {
        let iv_len = suite.default_iv_len();
        let aad_len = suite.aad_len().round_up(AAD_LEN) + iv_len.saturating_sub(IV_LEN_MAX);
        let lengths = vec![shape.len; shape.ops];
        let (mut fresh, mut arena) =
            layout(suite, Direction::Encrypt, &lengths, aad_len).map_err(|error| error.to_string())?;
        let inputs = fresh.last().map_or(0, |op| op.input.end() as usize);
        fill(&mut arena[..inputs], shape.len as u64);
        let mut ivs = vec![0u8; iv_len * shape.ops];
        fill(&mut ivs, shape.ops as u64);
        for (index, op) in fresh.iter_mut().enumerate() {
            let iv = &ivs[index * iv_len..][..iv_len];
            *op = op.with_iv(iv);
            arena[op.aad.span().range()][..op.iv_rest_len()].copy_from_slice(iv_rest(iv));
            if let Suite::Fpe(ff1) = suite {
                for numeral in arena[op.input.range()].chunks_exact_mut(2) {
                    let drawn = u32::from(u16::from_le_bytes([numeral[0], numeral[1]])) % ff1.radix;
                    numeral.copy_from_slice(&(drawn as u16).to_le_bytes());
                }
            }
        }
        // An odd stride meets every key once before one comes again, in no order that a prefetcher would know.
        let key_of = (0..shape.ops).map(|index| index * 27 % KEYS).collect();
        Ok(Load::of(suite, Direction::Encrypt, fresh, arena, key_of))
    }

    /// What undoes this batch, which has been run.
    fn back(self) -> Result<Load, String> {
        let (fresh, arena) =
            undo(self.suite, &self.ops, &self.arena[self.within]).map_err(|error| error.to_string())?;
        Ok(Load::of(self.suite, Direction::Decrypt, fresh, arena, self.key_of))
    }

    /// Each operation's key out of `prepared`.
    pub(crate) fn keys<'k>(&self, prepared: &'k [PreparedKey]) -> Vec<Option<&'k PreparedKey>> {
        if prepared.is_empty() {
            return Vec::new();
        }
        self.key_of.iter().map(|index| prepared.get(*index)).collect()
    }

    /// Runs the batch from the start; `before` and `after` are called directly before and after the engine works.
    ///
    /// Fails unless every operation ended done.
    pub(crate) fn run<T, R>(
        &mut self,
        queue: &mut dyn EngineQueue,
        keys: &[Option<&PreparedKey>],
        before: impl FnOnce() -> T,
        after: impl FnOnce(T) -> R,
    ) -> Result<R, String> {
        self.ops.copy_from_slice(&self.fresh);
        let batch = Batch::new(self.suite, self.direction, &mut self.ops, &mut self.arena[self.within.clone()]);
        let mut checked = batch.check().map_err(|error| error.to_string())?;
        let begun = before();
        let mut with_keys = checked.attach_keys(keys).map_err(|error| error.to_string())?;
        queue.run(&mut with_keys);
        let result = after(begun);
        match self.ops.iter().find(|op| op.status != OpStatus::Done) {
            Some(op) => Err(format!("an operation ended as: {}", op.status)),
            None => Ok(result),
        }
    }
}

/// Bytes that look random (xorshift64*, Vigna 2016): no engine may be quicker for zeros, and two halves of a key differ.
fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in bytes.chunks_mut(8) {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}
