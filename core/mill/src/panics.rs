//! Panics of engines and of callers' code end here: threads, batches and operations of others outlive them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{CheckedBatch, Engine, Error, OpStatus, Result};

use crate::copies::output_span;
use crate::engines::EngineSlot;
use crate::health::Trouble;
use crate::policy::TrustPolicy;

/// Runs `work`; `None` when it panicked. The caller leaves nothing half done that it goes on to use.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => Some(done),
        Err(payload) => {
            // Whatever was thrown may panic again when it is dropped; what that throws is not dropped any more.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            None
        }
    }
}

impl EngineSlot {
    /// Asks the engine for something that is not a batch: a key, a queue. A panic puts it into quarantine.
    ///
    /// # Errors
    /// What the engine returns; `EngineFault` when it panicked.
    pub(crate) fn ask<R>(&self, policy: &TrustPolicy, work: impl FnOnce(&dyn Engine) -> Result<R>) -> Result<R> {
        caught(|| work(self.engine.as_ref())).unwrap_or_else(|| {
            self.health.quarantine(self.name(), Trouble::Panic, policy);
            Err(Error::fault(self.name(), FaultKind::Panicked))
        })
    }
}

/// Wipes what an engine left where an operation's output goes: perhaps half a plaintext that nobody has authenticated.
pub(crate) fn wipe_output(batch: &mut CheckedBatch<'_>, index: usize) {
    let (suite, direction) = (batch.suite(), batch.direction());
    let (ops, arena, _) = batch.parts();
    let output = output_span(suite, direction, &ops[index]);
    arena[output.range()].fill(0);
}

/// Ends every operation of a batch that was left in the middle, as a fault without output.
#[cold]
pub(crate) fn give_up(batch: &mut CheckedBatch<'_>) {
    for index in 0..batch.len() {
        if batch.ops()[index].status.is_pending() {
            wipe_output(batch, index);
            batch.set_status(index, OpStatus::EngineFault);
        }
    }
}
