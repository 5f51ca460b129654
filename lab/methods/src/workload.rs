//! Workloads: operations over an arena, the same for every engine.
//!
//! Inputs lie in one area and outputs in another, so that a run can be repeated without restoring anything. The
//! central workload is that of Lindemann and Smith (2001): short operations, each with its own IV, keys drawn at random
//! from a few.

use ciphermill::{KeyPolicy, KeyTable};
use ciphermill_contract::limits::{BATCH_OPS_MAX, IV_LEN_MAX, LONG_IV_LEN_MAX};
use ciphermill_contract::op::iv_rest;
use ciphermill_contract::{
    Batch, Direction, Engine, Error, KeyForm, KeyId, KeyMaterial, Op, OpStatus, OwnedBatch, PreparedKey, Span, Suite,
};
use ciphermill_tuning::layout::{layout, undo};
use ciphermill_vectors::job::{Job, key_of, pack};
use ciphermill_vectors::known_answer;
use zeroize::Zeroizing;

use crate::LabError;
use crate::bytes::Bytes;
use crate::random::Random;

/// What a workload is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Operations.
    pub ops: usize,
    /// Keys that the operations draw from.
    pub keys: usize,
    /// The shortest input in bytes.
    pub len_min: usize,
    /// The longest input in bytes; lengths are uniform between both and rounded up to what the suite takes.
    pub len_max: usize,
    /// Bytes of additional data for suites that take any number of them.
    pub aad_len: usize,
    /// Whether all operations share one place of additional data, as a column's values share its name.
    pub shared_aad: bool,
    /// Where the random numbers start.
    pub seed: u64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { ops: 50_000, keys: 64, len_min: 8, len_max: 80, aad_len: 12, shared_aad: false, seed: 1 }
    }
}

/// Operations, arena and keys for one suite and direction.
pub struct Workload {
    /// The suite.
    pub suite: Suite,
    /// The direction.
    pub direction: Direction,
    /// The operations, pending.
    pub ops: Vec<Op>,
    /// The arena.
    pub arena: Bytes,
    /// Bytes of input of all operations together.
    pub bytes: u64,
    keys: Vec<Zeroizing<Vec<u8>>>,
    key_of: Vec<usize>,
    form: KeyForm,
}

impl Parameters {
    /// Makes the workload for a suite and direction. What is to be decrypted has been encrypted by `reference`.
    ///
    /// # Errors
    /// [`LabError::Parameters`] for numbers that make no batch or a suite that is not symmetric; [`LabError::Engine`]
    /// when `reference` cannot run the suite.
    pub fn workload(&self, suite: Suite, direction: Direction, reference: &dyn Engine) -> Result<Workload, LabError> {
        self.check(suite, direction)?;
        let mut workload = self.plaintext(suite)?;
        if direction == Direction::Decrypt {
            workload = workload.into_decryption(reference)?;
        }
        Ok(workload)
    }

    fn check(&self, suite: Suite, direction: Direction) -> Result<(), LabError> {
        let refuse = |text: String| Err(LabError::Parameters(text));
        if suite.is_public_key() || suite == Suite::Random {
            return refuse(format!("{suite} is not a short symmetric operation"));
        }
        if !suite.has_direction(direction) {
            return refuse(format!("{suite} has no direction `{direction}`"));
        }
        if self.ops == 0 || self.ops > BATCH_OPS_MAX {
            return refuse(format!("--ops must be 1 to {BATCH_OPS_MAX}, not {}", self.ops));
        }
        if self.keys == 0 || self.keys > self.ops.max(1) {
            return refuse(format!("--keys must be 1 to the number of operations, not {}", self.keys));
        }
        if self.len_min > self.len_max {
            return refuse(format!("--len {}..{} ends before it begins", self.len_min, self.len_max));
        }
        if self.aad_len > usize::from(u16::MAX) {
            return refuse(format!("--aad must be at most {}, not {}", u16::MAX, self.aad_len));
        }
        Ok(())
    }

    fn plaintext(&self, suite: Suite) -> Result<Workload, LabError> {
        let mut random = Random::new(self.seed);
        let keys = (0..self.keys).map(|_| random_key(suite, &mut random)).collect();
        let lengths: Vec<usize> = (0..self.ops)
            .map(|_| {
                let wanted = self.len_min + random.below((self.len_max - self.len_min) as u64 + 1) as usize;
                suite.input_len(Direction::Encrypt).round_up(wanted)
            })
            .collect();
        let aad_len = suite.aad_len().round_up(self.aad_len) + suite.default_iv_len().saturating_sub(IV_LEN_MAX);
        let mut workload = Workload::of_lengths(suite, &lengths, aad_len, keys)?;
        let key_of: Vec<usize> = (0..self.ops).map(|_| random.below(self.keys as u64) as usize).collect();
        let shared = workload.ops.first().map(|op| op.aad).filter(|_| self.shared_aad);
        for (op, key) in workload.ops.iter_mut().zip(&key_of) {
            op.key = key_name(suite, *key);
            op.aad = shared.unwrap_or(op.aad);
            let mut iv = [0u8; LONG_IV_LEN_MAX];
            let iv_len = suite.default_iv_len();
            random.fill(&mut iv[..iv_len]);
            *op = op.with_iv(&iv[..iv_len]);
        }
        workload.key_of = key_of;
        workload.fill(&mut random);
        Ok(workload)
    }
}

/// Engines see keys through their prepared forms only; the names in a workload merely tell keyed suites from others.
fn key_name(suite: Suite, index: usize) -> KeyId {
    if suite.needs_key() { KeyId { slot: index as u32, generation: 1 } } else { KeyId::NONE }
}

fn random_key(suite: Suite, random: &mut Random) -> Zeroizing<Vec<u8>> {
    let mut key = Zeroizing::new(vec![0u8; suite.default_key_len()]);
    random.fill(&mut key);
    key
}

impl Workload {
    /// A workload that encrypts these values under one key, with a fresh IV each and the same additional data.
    ///
    /// # Errors
    /// [`LabError::Parameters`] when the values do not fit an arena or the suite does not take their lengths.
    pub fn of_values<'v>(
        suite: Suite,
        values: impl Iterator<Item = &'v [u8]> + Clone,
        aad: &[u8],
        seed: u64,
    ) -> Result<Workload, LabError> {
        let lengths: Vec<usize> = values.clone().map(<[u8]>::len).collect();
        if let Some(len) = lengths.iter().find(|len| !suite.input_len(Direction::Encrypt).contains(**len)) {
            return Err(LabError::Parameters(format!("{suite} takes no value of {len} bytes")));
        }
        let mut random = Random::new(seed);
        let aad = if suite.aad_len().contains(aad.len()) { aad } else { &[] };
        let keys = vec![random_key(suite, &mut random)];
        let iv_len = suite.default_iv_len();
        let rest_len = iv_len.saturating_sub(IV_LEN_MAX);
        let mut workload = Workload::of_lengths(suite, &lengths, rest_len + aad.len(), keys)?;
        workload.key_of = vec![0; lengths.len()];
        for (op, value) in workload.ops.iter_mut().zip(values) {
            let mut iv = [0u8; LONG_IV_LEN_MAX];
            random.fill(&mut iv[..iv_len]);
            *op = op.with_iv(&iv[..iv_len]);
            workload.arena[op.input.range()].copy_from_slice(value);
            let (rest, own) = workload.arena[op.aad.span().range()].split_at_mut(rest_len);
            rest.copy_from_slice(iv_rest(&iv[..iv_len]));
            own.copy_from_slice(aad);
        }
        Ok(workload)
    }

    /// A public-key workload: `ops` copies of the suite's known answer, under its key, or as many pairs to be generated.
    ///
    /// # Errors
    /// [`LabError::Parameters`] when the vectors have no such answer or key.
    pub fn of_known_answer(suite: Suite, direction: Direction, ops: usize) -> Result<Workload, LabError> {
        if let Suite::Generate(_) = suite {
            let job = Job { tag: vec![0; suite.default_tag_len()], ..Job::default() };
            let (arena, ops) = pack(suite, direction, &vec![job; ops]);
            let (arena, keys, key_of) = (Bytes::from(&arena[..]), Vec::new(), vec![0; ops.len()]);
            return Ok(Workload { suite, direction, key_of, ops, arena, bytes: 0, keys, form: KeyForm::Private });
        }
        let lacking = || LabError::Parameters(format!("there is no known answer to take {suite} {direction} from"));
        let case = known_answer(suite).ok_or_else(lacking)?;
        let (mut job, _) = Job::of(case, direction);
        if direction == Direction::Encrypt {
            job.tag = vec![0; suite.default_tag_len()];
        }
        Workload::of_jobs(suite, direction, &vec![job; ops])
    }

    /// Operations of a public-key suite under the key of its known answer.
    fn of_jobs(suite: Suite, direction: Direction, jobs: &[Job]) -> Result<Workload, LabError> {
        let lacking = || LabError::Parameters(format!("there is no key for {suite} {direction} in the vectors"));
        let key = known_answer(suite).and_then(|case| key_of(case, direction)).ok_or_else(lacking)?;
        let (arena, ops) = pack(suite, direction, jobs);
        let arena = Bytes::from(&arena[..]);
        let bytes = bytes_of(&ops);
        let keys = vec![Zeroizing::new(key.bytes.to_vec())];
        Ok(Workload { suite, direction, key_of: vec![0; ops.len()], ops, arena, bytes, keys, form: key.form })
    }

    /// What verifies the signatures or opens the encapsulations that a run of this workload made; `None` when it made none.
    ///
    /// # Errors
    /// [`LabError::Parameters`] when the vectors have no other half of the key.
    pub fn verification(&self) -> Result<Option<Workload>, LabError> {
        if !matches!(self.suite, Suite::Sign(_) | Suite::Kem(_)) || self.direction != Direction::Encrypt {
            return Ok(None);
        }
        let job = |op: &Op| Job {
            input: self.arena[op.input.range()].to_vec(),
            tag: self.arena[op.tag_span().range()].to_vec(),
            ..Job::default()
        };
        let jobs: Vec<Job> = self.ops.iter().map(job).collect();
        Workload::of_jobs(self.suite, Direction::Decrypt, &jobs).map(Some)
    }

    /// Operations with these input lengths, whose keys and contents are yet to be set.
    fn of_lengths(
        suite: Suite,
        lengths: &[usize],
        aad_len: usize,
        keys: Vec<Zeroizing<Vec<u8>>>,
    ) -> Result<Workload, LabError> {
        let direction = Direction::Encrypt;
        let (ops, arena) = layout(suite, direction, lengths, aad_len).map_err(too_long)?;
        let (bytes, key_of, form, arena) = (bytes_of(&ops), Vec::new(), KeyForm::Secret, Bytes::from(&arena[..]));
        Ok(Workload { suite, direction, ops, arena, bytes, keys, key_of, form })
    }

    /// Fills inputs and additional data; FF1's numerals are drawn below the radix.
    fn fill(&mut self, random: &mut Random) {
        for op in &self.ops {
            random.fill(&mut self.arena[op.aad.span().range()]);
            let input = &mut self.arena[op.input.range()];
            if let Suite::Fpe(ff1) = self.suite {
                for numeral in input.chunks_exact_mut(2) {
                    numeral.copy_from_slice(&(random.below(u64::from(ff1.radix)) as u16).to_le_bytes());
                }
            } else {
                random.fill(input);
            }
        }
    }

    /// The workload that undoes this one.
    fn into_decryption(mut self, reference: &dyn Engine) -> Result<Workload, LabError> {
        let prepared = self.prepare(reference)?;
        self.run_once(reference, &prepared)?;
        let (mut ops, arena) = undo(self.suite, &self.ops, &self.arena).map_err(too_long)?;
        let shared = self.ops.iter().all(|op| op.aad == self.ops[0].aad);
        let place = ops.first().map(|op| op.aad).filter(|_| shared);
        for op in &mut ops {
            op.aad = place.unwrap_or(op.aad);
        }
        let (bytes, arena) = (bytes_of(&ops), Bytes::from(&arena[..]));
        Ok(Workload { direction: Direction::Decrypt, bytes, ops, arena, ..self })
    }

    /// The keys, which operations name by slot.
    pub(crate) fn keys(&self) -> &[Zeroizing<Vec<u8>>] {
        &self.keys
    }

    /// Each operation's key, by its place among the keys.
    pub(crate) fn key_of(&self) -> &[usize] {
        &self.key_of
    }

    /// Has an engine prepare the workload's keys.
    ///
    /// # Errors
    /// [`LabError::Engine`] when it refuses one.
    pub fn prepare(&self, engine: &dyn Engine) -> Result<Vec<PreparedKey>, LabError> {
        let keys: &[_] = if self.suite.needs_key() { &self.keys } else { &[] };
        let prepare =
            |key: &Zeroizing<Vec<u8>>| engine.prepare(&KeyMaterial { form: self.form, bytes: key }, self.suite);
        keys.iter().map(prepare).collect::<Result<_, _>>().map_err(|source| failed(engine, source))
    }

    /// Takes the keys into a key table; gives their names there.
    ///
    /// # Errors
    /// What [`KeyTable::import`] says.
    pub(crate) fn import(&self, keys: &KeyTable) -> ciphermill_contract::Result<Vec<KeyId>> {
        let import =
            |key: &Zeroizing<Vec<u8>>| keys.import(KeyMaterial { form: self.form, bytes: key }, KeyPolicy::default());
        match self.suite.needs_key() {
            true => self.keys.iter().map(import).collect(),
            false => Ok(Vec::new()),
        }
    }

    /// The operations with the names that [`Workload::import`] gave.
    pub(crate) fn ops_under(&self, names: &[KeyId]) -> Vec<Op> {
        let mut ops = self.ops.clone();
        for (op, key) in ops.iter_mut().zip(&self.key_of) {
            op.key = names.get(*key).copied().unwrap_or(KeyId::NONE);
        }
        ops
    }

    /// The workload as a batch for a mill, whose key table takes the workload's keys in.
    ///
    /// # Errors
    /// What [`KeyTable::import`] says.
    pub fn owned(&self, keys: &KeyTable) -> ciphermill_contract::Result<OwnedBatch> {
        let ops = self.ops_under(&self.import(keys)?);
        Ok(OwnedBatch { suite: self.suite, direction: self.direction, ops, arena: Box::new(self.arena.to_vec()) })
    }

    /// The workload where messages lie, if a second run of it then does the same work as the first: not where its tags would
    /// be found to be wrong. Programs do so, and memory sees half of the traffic.
    pub(crate) fn in_place(mut self) -> Workload {
        let opens = self.direction == Direction::Decrypt && self.suite.default_tag_len() > 0;
        let keeps_length =
            |op: &Op| self.suite.output_len(self.direction, op.input.len as usize, 0) == op.input.len as usize;
        if self.suite.transforms() && !opens && self.ops.iter().all(keeps_length) {
            for op in &mut self.ops {
                op.output = op.input.offset;
            }
        }
        self
    }

    /// Every so many-th operation, over the same arena.
    pub(crate) fn every(&self, step: usize) -> Workload {
        let ops: Vec<Op> = self.ops.iter().copied().step_by(step).collect();
        let key_of = self.key_of.iter().copied().step_by(step).collect();
        Workload { bytes: bytes_of(&ops), ops, key_of, arena: self.arena.clone(), keys: self.keys.clone(), ..*self }
    }

    /// This workload as a run elsewhere left its operations and arena.
    pub(crate) fn with_answers(&self, ops: &[Op], arena: &[u8]) -> Workload {
        Workload { ops: ops.to_vec(), arena: Bytes::from(arena), ..self.clone() }
    }

    /// What the keys are.
    pub(crate) fn form(&self) -> KeyForm {
        self.form
    }

    /// Each operation's key out of `prepared`.
    pub fn keys_of<'k>(&self, prepared: &'k [PreparedKey]) -> Vec<Option<&'k PreparedKey>> {
        if prepared.is_empty() {
            return Vec::new();
        }
        self.key_of.iter().map(|index| prepared.get(*index)).collect()
    }

    /// Runs the workload once on an engine, from the start.
    ///
    /// # Errors
    /// [`LabError::Engine`] when the engine cannot be opened or the batch does not pass its check.
    pub fn run_once(&mut self, engine: &dyn Engine, prepared: &[PreparedKey]) -> Result<(), LabError> {
        self.reset();
        let keys = self.keys_of(prepared);
        let mut queue = engine.queue(Default::default()).map_err(|source| failed(engine, source))?;
        let batch = Batch::new(self.suite, self.direction, &mut self.ops, &mut self.arena);
        let mut checked = batch.check().map_err(|source| failed(engine, source))?;
        queue.run(&mut checked.attach_keys(&keys).map_err(|source| failed(engine, source))?);
        Ok(())
    }

    /// Makes every operation pending again.
    pub fn reset(&mut self) {
        for op in &mut self.ops {
            op.status = OpStatus::Pending;
            op.output_len = 0;
            if self.suite.is_public_key() && self.direction == Direction::Encrypt {
                // What was written may be shorter than the room for it.
                op.tag_len = self.suite.default_tag_len() as u16;
            }
        }
    }

    /// The first operation whose outcome differs from that in `expected`, a run of the same workload.
    pub fn first_difference(&self, expected: &Workload) -> Option<usize> {
        expected.first_difference_in(&self.ops, &self.arena)
    }

    /// The first operation of another run of this workload, these operations over this arena, whose outcome differs from
    /// that in here.
    pub fn first_difference_in(&self, ops: &[Op], arena: &[u8]) -> Option<usize> {
        let differs = |index: &usize| {
            let (Some(own), theirs) = (ops.get(*index), &self.ops[*index]) else { return true };
            let output = Span::new(theirs.output, theirs.output_len).range();
            let tag = theirs.tag_span().range();
            !own.status.is_done()
                || !theirs.status.is_done()
                || own.output_len != theirs.output_len
                || arena[output.clone()] != self.arena[output]
                || arena[tag.clone()] != self.arena[tag]
        };
        (0..self.ops.len()).find(differs)
    }
}

impl Clone for Workload {
    fn clone(&self) -> Workload {
        Workload {
            suite: self.suite,
            direction: self.direction,
            ops: self.ops.clone(),
            arena: self.arena.clone(),
            bytes: self.bytes,
            keys: self.keys.clone(),
            key_of: self.key_of.clone(),
            form: self.form,
        }
    }
}

/// Bytes of input of operations together.
fn bytes_of(ops: &[Op]) -> u64 {
    ops.iter().map(|op| u64::from(op.input.len)).sum()
}

fn too_long(error: Error) -> LabError {
    LabError::Parameters(match error {
        Error::Exhausted(limit) => format!("the workload needs {} bytes, an arena has {}", limit.asked, limit.value),
        other => other.to_string(),
    })
}

pub(crate) fn failed(engine: &dyn Engine, source: ciphermill_contract::Error) -> LabError {
    LabError::Engine { engine: engine.info().name.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_workload_are_refused() {
        let reference = crate::engines::open("reference").expect("always there");
        let suite = "aes-128-cbc".parse().expect("a suite");
        for parameters in [
            Parameters { ops: 0, ..Parameters::default() },
            Parameters { ops: BATCH_OPS_MAX + 1, ..Parameters::default() },
            Parameters { keys: 0, ..Parameters::default() },
            Parameters { len_min: 9, len_max: 8, ..Parameters::default() },
            Parameters { len_min: 1 << 20, len_max: 1 << 20, ..Parameters::default() },
        ] {
            let result = parameters.workload(suite, Direction::Encrypt, reference.as_ref());
            assert!(matches!(result, Err(LabError::Parameters(_))), "{parameters:?}");
        }
    }
}
