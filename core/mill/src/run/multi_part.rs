//! Messages that come in parts: the engine that a message goes through, and the key that each part asks for anew.

use std::sync::Arc;

use ciphermill_contract::error::{FaultKind, Refusal};
use ciphermill_contract::{Direction, EngineKinds, Error, KeyId, OpStatus, PreparedKey, Reason, Result};
use ciphermill_contract::{Stream, Suite};
use ciphermill_keys::PreparedName;
use ciphermill_router::RouteReason;

use super::bound::{Lone, allowed_kinds, is_granted};
use super::context::Context;
use super::prepare::Preparer;
use super::route::{choose, kinds_of_plan, no_engine};
use super::runner::Runner;
use super::{BatchRun, begin};
use crate::engines::{EngineSlot, LeftOut};
use crate::policy::RunOptions;

/// Bytes of a message for which an engine is chosen: of parts it is unknown how many follow, and of short messages nobody makes parts.
const USUAL_LEN: u64 = 16 * 1024;

/// Messages that are counted here before they reach the books.
const UNBOOKED_MAX: u64 = 64;

/// Messages of one suite, direction and key on one engine.
pub(crate) struct Parts {
    what: (Suite, Direction),
    key: KeyId,
    slot: Arc<EngineSlot>,
    reason: RouteReason,
    form: PreparedName,
    /// The state's number for which the engine was chosen.
    epoch: u64,
    stream: Box<dyn Stream>,
    /// Bytes of the message so far, and messages and bytes that are in no book yet.
    bytes: u64,
    unbooked: (u64, u64),
}

impl Parts {
    /// Chooses an engine, has it tested and the key prepared.
    ///
    /// # Errors
    /// As [`crate::Mill::bind`]; `Refused` with `NoEngine` when no engine takes the suite's messages in parts.
    pub(crate) fn open(runner: &Runner, what: (Suite, Direction), key: KeyId) -> Result<Parts> {
        runner.with_context(|context| Parts::open_with(runner, context, what, key))
    }

    fn open_with(runner: &Runner, context: &mut Context, what: (Suite, Direction), key: KeyId) -> Result<Parts> {
        let (suite, direction) = what;
        if !suite.has_direction(direction) {
            return Err(Error::Refused(Refusal::NoSuchDirection(suite, direction)));
        }
        match (suite.needs_key(), key.is_none()) {
            (true, true) => return Err(Error::misuse(0, Reason::KeyMissing)),
            (false, false) => return Err(Error::misuse(0, Reason::KeyUnexpected)),
            _ => {}
        }
        let epoch = runner.state.epoch();
        let mut run = begin(runner, context, suite, &RunOptions::default())?;
        let lease = suite.needs_key().then(|| runner.state.keys.lease());
        let mut kinds = kinds_of_plan(&run, suite, direction);
        if kinds.is_empty() {
            return Err(no_engine(&run, suite, direction));
        }
        let mut entry = None;
        if let Some(lease) = &lease {
            let found = lease.entry(key).ok_or(Error::Refused(Refusal::KeyUnknown))?;
            kinds = allowed_kinds(found, suite, direction, kinds)
                .map_err(|reason| Error::Refused(Refusal::KeyPolicy(reason)))?;
            entry = Some(found);
        }
        exclude_whole_only(&mut run, what);
        let choice = choose(&mut run, &Lone { suite, direction, len: USUAL_LEN }, kinds);
        let choice = choice.map_err(|error| no_stream(&run, what, error))?;
        let (slot, trust) = (run.slot(choice.route.engine), run.trust());
        if let Some(entry) = entry {
            Preparer::new(slot, trust, suite).get(entry)?;
        }
        let stream = slot.ask(trust, |engine| {
            engine.stream(suite, direction).ok_or(Error::Refused(Refusal::NoEngine(suite, direction)))
        })?;
        let (slot, form, reason) = (Arc::clone(slot), PreparedName::new(slot.number, suite), choice.route.reason);
        Ok(Parts { what, key, slot, reason, form, epoch, stream, bytes: 0, unbooked: (0, 0) })
    }

    pub(crate) fn what(&self) -> (Suite, Direction) {
        self.what
    }

    pub(crate) fn key(&self) -> KeyId {
        self.key
    }

    /// Begins a message, on another engine if engines have joined, left or gone into quarantine since the last one. Expiry and
    /// budget are asked now, for the whole message.
    ///
    /// # Errors
    /// As [`Parts::open`]; the rule of the key's policy.
    pub(crate) fn begin(&mut self, runner: &Runner, iv: &[u8]) -> Result<()> {
        if runner.state.epoch() != self.epoch {
            self.write_up(runner);
            *self = Parts::open(runner, self.what, self.key)?;
        }
        self.bytes = 0;
        if self.what.0.needs_key() {
            let (lease, (suite, direction)) = (runner.state.keys.lease(), self.what);
            let entry = lease.entry(self.key).ok_or(Error::Refused(Refusal::KeyUnknown))?;
            if !entry.is_free() && !is_granted(entry, suite, direction) {
                let kinds = EngineKinds::only(self.slot.engine.info().kind);
                let reason = allowed_kinds(entry, suite, direction, kinds).err().unwrap_or(Reason::KeyBudget);
                return Err(Error::Refused(Refusal::KeyPolicy(reason)));
            }
        }
        let status = self.call(runner, |stream, key| stream.begin(key, iv))?;
        self.settled(runner, status)
    }

    /// Does something with the message; `bytes` of it.
    ///
    /// # Errors
    /// `Refused` when the key is gone; `Misuse` for the rule that is broken; `EngineFault`.
    pub(crate) fn go_on(
        &mut self,
        runner: &Runner,
        bytes: usize,
        work: impl FnOnce(&mut dyn Stream, Option<&PreparedKey>) -> OpStatus,
    ) -> Result<()> {
        self.bytes += bytes as u64;
        let status = self.call(runner, work)?;
        self.settled(runner, status)
    }

    /// Ends the message, and counts it.
    ///
    /// # Errors
    /// As [`Parts::go_on`].
    pub(crate) fn finish(&mut self, runner: &Runner, tag: &mut [u8]) -> Result<OpStatus> {
        let status = self.call(runner, |stream, key| stream.finish(key, tag))?;
        if status != OpStatus::AuthFailed {
            self.settled(runner, status)?;
        }
        self.slot.health.good();
        self.unbooked = (self.unbooked.0 + 1, self.unbooked.1 + self.bytes);
        if self.unbooked.0 >= UNBOOKED_MAX {
            self.write_up(runner);
        }
        Ok(status)
    }

    /// The message as far as it has come, once more.
    ///
    /// # Errors
    /// `EngineFault` when the engine gives no copy.
    pub(crate) fn duplicate(&self, runner: &Runner) -> Result<Parts> {
        let copied = |_: &dyn ciphermill_contract::Engine| {
            self.stream.duplicate().ok_or_else(|| Error::fault(self.slot.name(), FaultKind::Unfinished))
        };
        let stream = self.slot.ask(&runner.state.policy.trust, copied)?;
        Ok(Parts { stream, slot: Arc::clone(&self.slot), unbooked: (0, 0), ..*self })
    }

    /// Puts into the books what stands here only.
    pub(crate) fn write_up(&mut self, runner: &Runner) {
        let counts = std::mem::take(&mut self.unbooked);
        if counts.0 > 0 {
            runner.with_context(|context| {
                let (_, own, _) = context.begin(&runner.state);
                own.recorder.lone_done(&runner.state.metrics, &self.slot, self.what, &self.reason, counts);
            });
        }
    }

    fn settled(&self, runner: &Runner, status: OpStatus) -> Result<()> {
        match status {
            OpStatus::Done => Ok(()),
            OpStatus::BadInput(reason) => Err(Error::misuse(0, reason)),
            _ => {
                self.slot.health.faulty(self.slot.name(), &runner.state.policy.trust);
                Err(Error::fault(self.slot.name(), FaultKind::Unfinished))
            }
        }
    }

    #[inline]
    fn call(
        &mut self,
        runner: &Runner,
        work: impl FnOnce(&mut dyn Stream, Option<&PreparedKey>) -> OpStatus,
    ) -> Result<OpStatus> {
        let Parts { what: (suite, _), key, slot, form, stream, .. } = self;
        let trust = &runner.state.policy.trust;
        let lease = suite.needs_key().then(|| runner.state.keys.lease());
        let prepared = match &lease {
            None => None,
            Some(lease) => {
                let entry = lease.entry(*key).ok_or(Error::Refused(Refusal::KeyUnknown))?;
                match entry.prepared_before(*form) {
                    Some(prepared) => Some(prepared),
                    None => Some(Preparer::new(slot, trust, *suite).get(entry)?),
                }
            }
        };
        slot.ask(trust, |_| Ok(work(&mut **stream, prepared)))
    }
}

/// Why nobody takes the suite's messages in parts: rules are to blame only where they disable an engine that does.
#[cold]
fn no_stream(run: &BatchRun<'_>, (suite, direction): (Suite, Direction), error: Error) -> Error {
    let has_stream = |left: &LeftOut| {
        let slot = run.slot(left.candidate.engine);
        let stream = slot.ask(run.trust(), |engine| Ok(engine.stream(suite, direction).is_some()));
        !slot.is_isolated() && stream == Ok(true)
    };
    match error {
        Error::Refused(Refusal::Disabled(..)) if !run.set.left_out(suite, direction).iter().any(has_stream) => {
            Error::Refused(Refusal::NoEngine(suite, direction))
        }
        other => other,
    }
}

/// Leaves out engines that take the suite's messages whole only, and those that are not on this processor.
fn exclude_whole_only(run: &mut BatchRun<'_>, (suite, direction): (Suite, Direction)) {
    for candidate in run.set.plan(suite, direction) {
        let (slot, trust) = (run.slot(candidate.engine), run.trust());
        let has_stream = slot.ask(trust, |engine| Ok(engine.stream(suite, direction).is_some()));
        if slot.is_isolated() || has_stream != Ok(true) {
            run.progress.excluded |= 1 << candidate.engine;
        }
    }
}
