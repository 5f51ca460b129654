//! Columnar batches. The usual ones are run at once, by an engine on this processor or, from a copy as they lie, by an offload
//! engine; all that is special about others (budgets, keys that differ in what may hold them, what an engine failed) they
//! meet as batches of ops.

use std::time::Instant;

use aes::Aes256;
use ctr::Ctr128BE;
use ctr::cipher::{KeyIvInit, StreamCipher};

use ciphermill_contract::columns::{ChunkLimits, ColumnOps, KeyColumn, PreparedColumn};
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{
    Batch, CheckedColumns, ColumnBatch, ColumnStatus, EngineKinds, Error, KeyId, PreparedKey, Result,
};
use ciphermill_keys::{KeyAsk, KeyEntry, KeyLease, KeyUsage, now_unix_s};
use ciphermill_router::Route;
use zeroize::Zeroizing;

use super::batch_run::{BatchRun, Progress};
use super::context::{Choice, Context};
use super::copies::COPY_LEN_MAX;
use super::execute::TIMED_EVERY;
use super::isolated::{Pins, run_columns_isolated};
use super::parts::{run_columns_in_parts, split_of};
use super::prepare::Preparer;
use super::replay::learn;
use super::route::{choose, kinds_of_plan, no_engine};
use super::runner::Runner;
use super::{begin, run_batch, share, witness};
use crate::engines::Trouble;
use crate::metrics::{TIMED_FROM_NS, span_around, span_leave};
use crate::panics::caught;
use crate::policy::RunOptions;
use crate::report::Report;

/// What offload engines get at a time: they need more to be worth the way.
const OFFLOAD_CHUNK: ChunkLimits = ChunkLimits { ops: 1 << 16, bytes: 16 << 20 };

/// How many keys are fetched together before the first of them is looked at: long enough for its line to come from the third-level cache, and
/// no more than the nearest one holds.
const KEYS_FETCHED: usize = 64;

impl Runner {
    /// Runs columns; [`crate::Mill::run_columns`] documents it.
    pub(crate) fn run_columns(
        &self,
        context: &mut Context,
        batch: ColumnBatch<'_>,
        usage: KeyUsage,
        options: &RunOptions<'_>,
    ) -> Result<Report> {
        let mut run = begin(self, context, batch.suite(), options)?;
        run.bounds.usage = usage;
        let mut generator = None;
        let mut columns = batch.check_and_draw(|bytes| draw(&mut generator, bytes))?;
        // Engines' panics are dealt with on the way. This is for what nobody thought of.
        caught(|| run_columns(&mut run, &mut columns)).unwrap_or_else(|| {
            *context = Context::default();
            columns.replace_status(ColumnStatus::is_pending, ColumnStatus::ENGINE_FAULT);
            Err(Error::fault("mill", FaultKind::Panicked))
        })
    }
}

/// A block cipher over a counter: nobody can foresee its blocks without the key, which makes them IVs for CBC too (NIST SP 800-38A, appendix C).
/// It is wiped when it is dropped.
type Generator = Ctr128BE<Aes256>;

const _: () = {
    const fn wipes<T: zeroize::ZeroizeOnDrop>() {}
    wipes::<Generator>();
};

/// Random bytes of AES-256 in counter mode under a key that the operating system gave for this batch alone: it takes less time
/// than the system does for as many, and neither a fork nor a later leak of memory gives any of them again.
fn draw(generator: &mut Option<Generator>, bytes: &mut [u8]) -> Result<()> {
    let generator = match generator {
        Some(generator) => generator,
        none => {
            let mut seed = Zeroizing::new([0; 32]);
            getrandom::fill(&mut *seed).map_err(|_| Error::fault("mill", FaultKind::Entropy))?;
            none.insert(Generator::new((&*seed).into(), &[0; 16].into()))
        }
    };
    generator.try_write_keystream(bytes).map_err(|_| Error::fault("mill", FaultKind::Entropy))
}

fn run_columns(run: &mut BatchRun<'_>, columns: &mut CheckedColumns<'_>) -> Result<Report> {
    let (suite, direction) = (columns.suite(), columns.direction());
    let plan_kinds = kinds_of_plan(run, suite, direction);
    if plan_kinds.is_empty() {
        return Err(no_engine(run, suite, direction));
    }
    let shares = share::shares_of(run, columns, plan_kinds);
    if let Some(report) = shares.and_then(|shares| share::run_column_shares(run, columns, &shares, run_columns)) {
        return report;
    }
    let choice = choose(run, columns, plan_kinds)?;
    let is_offload = run.slot(choice.route.engine).is_isolated();
    // What stands in the place of its input is compared from a copy of everything, which ops have anyway.
    let is_compared_whole = !columns.keeps_inputs() && witness::is_due(run, suite);
    let is_copied_whole = !is_offload || columns.stretches_len() as u64 <= COPY_LEN_MAX && !columns.is_sparse();
    if !is_compared_whole && is_copied_whole {
        let lease = suite.needs_key().then(|| run.runner.state.keys.lease());
        if let Some(keys) = ready_keys(run, columns, &choice, plan_kinds, lease.as_ref()) {
            run_at_once(run, columns, &choice, keys, lease.as_ref());
        }
    }
    let limits = if is_offload { OFFLOAD_CHUNK } else { ChunkLimits::CACHED };
    let mut route = choice.route;
    let mut done = columns.done();
    // Most often that one pass over the statuses says all.
    if done != columns.pending() && columns.statuses().iter().any(|status| status.is_pending()) {
        route = run_as_ops(run, columns, limits)?.unwrap_or(route);
        done = columns.done();
    }
    Ok(Report { route, done, failed: columns.pending() - done })
}

/// The keys of columns.
enum Keys<'l> {
    None,
    One(&'l PreparedKey),
    Each(Vec<Option<&'l PreparedKey>>),
    /// Those of an engine that prepares them on its own thread.
    Pinned(Pins),
}

/// Finds the keys and has an engine on this processor prepare them. `None` unless every key is there, may be held by any of
/// the engines, has no budget, and suits.
fn ready_keys<'l>(
    run: &BatchRun<'_>,
    columns: &CheckedColumns<'_>,
    choice: &Choice,
    plan_kinds: EngineKinds,
    lease: Option<&'l KeyLease<'_>>,
) -> Option<Keys<'l>> {
    let (suite, direction, keys) = (columns.suite(), columns.direction(), &run.runner.state.keys);
    let (slot, is_isolated) = (run.slot(choice.route.engine), run.slot(choice.route.engine).is_isolated());
    let Some(lease) = lease else {
        return Some(if is_isolated { Keys::Pinned(Pins::of(None, [].into_iter())) } else { Keys::None });
    };
    let ask = KeyAsk::new(suite, direction, run.bounds.usage, if keys.any_expiry() { now_unix_s() } else { 0 });
    let suits = |entry: &KeyEntry| -> bool {
        entry.is_free()
            || entry.allows(&ask).is_ok_and(|own_kinds| own_kinds.intersect(plan_kinds) == plan_kinds)
                && !entry.has_budget()
    };
    let entry_of = |key: KeyId| lease.entry(key).filter(|entry| suits(entry));
    let mut preparer = Preparer::new(slot, run.trust(), suite);
    match columns.keys() {
        KeyColumn::None => Some(Keys::None),
        KeyColumn::One(key) => {
            let entry = entry_of(key)?;
            match is_isolated {
                true => Some(Keys::Pinned(Pins::of(Some(lease), [key].into_iter()))),
                false => preparer.get(entry).ok().map(Keys::One),
            }
        }
        KeyColumn::Each(keys) => {
            if is_isolated {
                let all = keys.iter().all(|key| entry_of(*key).is_some());
                return all.then(|| Keys::Pinned(Pins::of(Some(lease), keys.iter().copied())));
            }
            // Most often all were prepared before: then each is looked up once.
            let mut prepared = vec![None; keys.len()];
            let mut is_whole = true;
            let mut entries = [None; KEYS_FETCHED];
            // Most often keys are allowed the same, too.
            let mut allowed = None;
            for (keys, prepared) in keys.chunks(KEYS_FETCHED).zip(prepared.chunks_mut(KEYS_FETCHED)) {
                for (entry, key) in entries.iter_mut().zip(keys) {
                    *entry = Some(lease.fetch(*key)?);
                }
                for (entry, prepared) in entries.iter().flatten().zip(prepared) {
                    if allowed != Some(entry.terms()) {
                        if !suits(entry) {
                            return None;
                        }
                        allowed = entry.terms().are_all().then(|| entry.terms());
                    }
                    *prepared = preparer.before(entry);
                    is_whole &= prepared.is_some();
                }
            }
            if !is_whole {
                let entries: Vec<&KeyEntry> = keys.iter().map(|key| entry_of(*key)).collect::<Option<_>>()?;
                preparer.prepare(entries.iter().copied());
                for (key, entry) in prepared.iter_mut().zip(entries) {
                    *key = Some(preparer.get(entry).ok()?);
                }
            }
            Some(Keys::Each(prepared))
        }
    }
}

/// Runs columns on one engine. What that failed and could be run elsewhere is pending then.
fn run_at_once(
    run: &mut BatchRun<'_>,
    columns: &mut CheckedColumns<'_>,
    choice: &Choice,
    keys: Keys<'_>,
    lease: Option<&KeyLease<'_>>,
) {
    let (engine, suite) = (choice.route.engine, columns.suite());
    let (slot, books) = (run.slot(engine), &run.runner.state.metrics);
    let shape = (columns.pending(), columns.input_bytes());
    run.own.recorder.begin();
    let sample = witness::is_due(run, suite).then(|| Sample::of(run, columns));
    let span = span_around(suite, columns.direction(), shape, &choice.route);
    let ran = match run_here(run, columns, choice, keys) {
        Ok(ran) => ran,
        Err(error) => {
            run.own.recorder.record_columns(books, slot, columns, 0, &choice.route);
            return run.exclude(engine, error);
        }
    };
    if let Some(span) = span {
        span_leave(span);
    }
    if ran == Outcome::NotAtAll {
        return;
    }
    let done = columns.done();
    run.own.recorder.record_columns(books, slot, columns, done, &choice.route);
    let is_fault = |status: ColumnStatus| status.is_pending() || status == ColumnStatus::ENGINE_FAULT;
    if ran == Outcome::Panicked {
        run.own.close(slot);
        slot.health.quarantine(slot.name(), Trouble::Panic, run.trust());
        run.exclude(engine, Error::fault(slot.name(), FaultKind::Panicked));
    } else if done != columns.pending() && columns.statuses().iter().any(|status| is_fault(*status)) {
        slot.health.faulty(slot.name(), run.trust());
        run.exclude(engine, Error::fault(slot.name(), FaultKind::Unfinished));
    } else if let Some(sample) = sample {
        let start = Instant::now();
        sample.compare(run, columns, engine, lease);
        run.own.recorder.witness_time(books, slot, (suite, columns.direction()), start.elapsed());
    } else {
        slot.health.good();
    }
    if !run.is_excluded(engine) {
        return;
    }
    if columns.keeps_inputs() || slot.is_isolated() {
        columns.replace_status(is_fault, ColumnStatus::PENDING);
    } else {
        columns.give_up();
    }
}

/// How a run of columns ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Well,
    Panicked,
    /// They are for ops.
    NotAtAll,
}

impl Outcome {
    fn of(is_well: bool) -> Outcome {
        if is_well { Outcome::Well } else { Outcome::Panicked }
    }
}

/// Runs columns on this thread, large ones in parts, or from a copy on the engine's own.
///
/// # Errors
/// The engine could not be used at all, and nothing has happened.
fn run_here(
    run: &mut BatchRun<'_>,
    columns: &mut CheckedColumns<'_>,
    choice: &Choice,
    keys: Keys<'_>,
) -> Result<Outcome> {
    let prepared = match &keys {
        Keys::None => PreparedColumn::None,
        Keys::One(key) => PreparedColumn::One(key),
        Keys::Each(keys) => PreparedColumn::Each(keys),
        Keys::Pinned(_) => PreparedColumn::None,
    };
    if let Keys::Pinned(pins) = keys {
        let has_run = run_columns_isolated(run, columns, choice, pins)?;
        return Ok(if has_run { Outcome::Well } else { Outcome::NotAtAll });
    }
    if let Some(split) = split_of(run, columns, choice)
        && let Some(is_well) = run_columns_in_parts(run, columns, choice, prepared, &split)?
    {
        return Ok(Outcome::of(is_well));
    }
    let (slot, shape) = (run.slot(choice.route.engine), (columns.pending(), columns.input_bytes()));
    let queue = run.own.queue_on(slot, run.trust())?;
    let is_timed = choice.route.predicted_ns >= TIMED_FROM_NS || run.tick.is_multiple_of(TIMED_EVERY);
    let start = is_timed.then(Instant::now);
    let mut with_keys = columns.attach_keys(prepared)?;
    let ran = caught(|| queue.run_columns(&mut with_keys));
    if let Some(start) = start {
        learn(run, choice, slot, shape, start.elapsed());
    }
    Ok(Outcome::of(ran.is_some()))
}

/// Runs what is pending as batches of ops. Returns where the last of them went, if there were any.
///
/// # Errors
/// Nobody could run them, and nothing is done.
fn run_as_ops(run: &mut BatchRun<'_>, columns: &mut CheckedColumns<'_>, limits: ChunkLimits) -> Result<Option<Route>> {
    let mut last = None;
    let ran = columns.try_as_ops(limits, |batch| {
        let Progress { excluded, fault, .. } = core::mem::take(&mut run.progress);
        run.progress = Progress { excluded, fault, ..Progress::default() };
        last = Some(run_batch(run, batch)?.route);
        Ok(())
    });
    match ran {
        Ok(()) => Ok(last),
        Err(error) if columns.done() == 0 => Err(error),
        Err(error) => {
            tracing::warn!(%error, "some operations of columns could not be run");
            columns.give_up();
            Ok(last)
        }
    }
}

/// Operations of columns as they were before they were run, of which a witness is asked.
struct Sample<'c> {
    ops: ColumnOps<'c>,
}

impl<'c> Sample<'c> {
    #[cold]
    fn of(run: &BatchRun<'_>, columns: &CheckedColumns<'c>) -> Sample<'c> {
        let policy = run.trust();
        let most = policy.witness_ops_max.max(1) as usize;
        let stride = columns.len().div_ceil(most).max(1);
        let phase = (run.tick / policy.witness_every.max(1)) as usize % stride;
        let limits = ChunkLimits { ops: most, bytes: OFFLOAD_CHUNK.bytes };
        let mut ops = ColumnOps::default();
        columns.copy_ops(&mut ops, &mut 0, limits, |index| index % stride == phase);
        Sample { ops }
    }

    /// Whether another engine's answers are those that `columns` have; `None` when it could not be asked.
    fn agrees(
        &self,
        run: &mut BatchRun<'_>,
        columns: &CheckedColumns<'_>,
        engine: usize,
        lease: Option<&KeyLease<'_>>,
    ) -> Option<bool> {
        let mut again = self.ops.clone();
        let batch = Batch::new(columns.suite(), columns.direction(), &mut again.ops, &mut again.arena);
        if !matches!(witness::run_ops_of_witness(run, batch, engine, lease), Ok(true)) {
            return None;
        }
        let same: Vec<bool> = (0..again.ops.len()).filter_map(|at| columns.is_same(&again, at)).collect();
        (!same.is_empty()).then(|| same.iter().all(|same| *same))
    }

    /// Compares what an engine answered with what another makes of the same inputs. When the engine was wrong, everything is
    /// pending again and it goes into quarantine.
    #[cold]
    fn compare(
        &self,
        run: &mut BatchRun<'_>,
        columns: &mut CheckedColumns<'_>,
        accused: usize,
        lease: Option<&KeyLease<'_>>,
    ) {
        let (way, policy) = ((columns.suite(), columns.direction()), *run.trust());
        let shape = (self.ops.ops.len(), columns.input_bytes());
        let Some(witness) = witness::other_engine(run, way, shape, &[accused]) else { return };
        let Some(agrees) = self.agrees(run, columns, witness, lease) else { return };
        run.own.recorder.witness(&run.runner.state.metrics, run.slot(accused), way, agrees);
        if agrees {
            return;
        }
        let (slot, witness_slot) = (run.slot(accused), run.slot(witness));
        tracing::error!(engine = slot.name(), witness = witness_slot.name(), suite = %way.0, "answers differ");
        let third = witness::other_engine(run, way, shape, &[accused, witness]);
        let is_wrong = witness::failed_alone(run, way.0, (accused, witness))
            .or_else(|| self.agrees(run, columns, third?, lease).map(|agrees| !agrees))
            .unwrap_or_else(|| witness::is_less_believed(run, accused, witness));
        if !is_wrong {
            witness_slot.health.quarantine(witness_slot.name(), Trouble::WrongResult, &policy);
            return;
        }
        slot.health.quarantine(slot.name(), Trouble::WrongResult, &policy);
        run.exclude(accused, Error::fault(slot.name(), FaultKind::WrongResult));
        columns.replace_status(|_| true, ColumnStatus::PENDING);
    }
}
