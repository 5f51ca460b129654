//! Engines that do what a test needs.

use std::sync::Arc;

use ciphermill_contract::suite::lists::{AES_CBC, DES, DIGESTS};
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Engine, EngineInfo, EngineKind, EngineQueue, Error, KeyMaterial, OpStatus,
    PreparedKey, QueueHint, Result, Suite,
};

/// Fills outputs with a mark of its own, so that a test sees which engine ran an operation.
pub(crate) struct Mark {
    info: EngineInfo,
    mark: u8,
    capabilities: &'static [Capability],
    fault: Fault,
}

/// What is wrong with an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Leaves operations pending.
    Forgets,
    /// Refuses keys.
    RefusesKeys,
    /// Cannot open a queue.
    NoQueue,
}

const FAST: &[Capability] = &[
    Capability::new(&AES_CBC, Cost::new(0.0, 10.0, 0.1)),
    Capability::new(&DES, Cost::new(0.0, 10.0, 0.1)),
    Capability::new(&DIGESTS, Cost::new(0.0, 10.0, 0.1)),
];
const SLOW: &[Capability] = &[Capability::new(&AES_CBC, Cost::new(0.0, 100.0, 1.0))];
const BULK: &[Capability] = &[Capability::new(&AES_CBC, Cost::new(10_000.0, 1.0, 0.01))];
const SHORT: &[Capability] = &[Capability::new(&AES_CBC, Cost::new(0.0, 1.0, 0.01)).input_len_max(16)];

const IN_STEP: &[Capability] = &[Capability::new(&AES_CBC, Cost::new(0.0, 3.0, 0.0)).lanes(8).in_step()];

pub(crate) fn mark(name: &'static str, mark: u8) -> Arc<dyn Engine> {
    build(name, EngineKind::Library, mark, FAST, Fault::None)
}

pub(crate) fn slow(name: &'static str, kind: EngineKind, mark: u8) -> Arc<dyn Engine> {
    build(name, kind, mark, SLOW, Fault::None)
}

pub(crate) fn bulk(name: &'static str, mark: u8) -> Arc<dyn Engine> {
    build(name, EngineKind::Gpu, mark, BULK, Fault::None)
}

pub(crate) fn in_step(name: &'static str, mark: u8) -> Arc<dyn Engine> {
    build(name, EngineKind::Lanes, mark, IN_STEP, Fault::None)
}

pub(crate) fn short_only(name: &'static str, mark: u8) -> Arc<dyn Engine> {
    build(name, EngineKind::Lanes, mark, SHORT, Fault::None)
}

pub(crate) fn faulty(name: &'static str, fault: Fault) -> Arc<dyn Engine> {
    build(name, EngineKind::Library, 0xfa, FAST, fault)
}

fn build(
    name: &'static str,
    kind: EngineKind,
    mark: u8,
    capabilities: &'static [Capability],
    fault: Fault,
) -> Arc<dyn Engine> {
    let info = EngineInfo { name, kind, version: String::new(), parallelism: 1, kernels: Vec::new() };
    Arc::new(Mark { info, mark, capabilities, fault })
}

impl Engine for Mark {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        self.capabilities
    }

    fn prepare(&self, key: &KeyMaterial<'_>, suite: Suite) -> Result<PreparedKey> {
        if self.fault == Fault::RefusesKeys {
            return Err(Error::key(suite, ciphermill_contract::error::KeyProblem::Length));
        }
        Ok(PreparedKey::new(key.bytes.len()))
    }

    fn queue(&self, _: QueueHint) -> Result<Box<dyn EngineQueue>> {
        if self.fault == Fault::NoQueue {
            return Err(Error::fault(self.info.name, ciphermill_contract::error::FaultKind::Unavailable));
        }
        Ok(Box::new(MarkQueue { mark: self.mark, forgets: self.fault == Fault::Forgets }))
    }
}

struct MarkQueue {
    mark: u8,
    forgets: bool,
}

impl EngineQueue for MarkQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (mark, forgets) = (self.mark, self.forgets);
        let needs_key = batch.suite().needs_key();
        let mut first = true;
        batch.process(|buffers| {
            if forgets && !std::mem::take(&mut first) {
                return OpStatus::Pending;
            }
            if needs_key && buffers.key.is_none() {
                return OpStatus::EngineFault;
            }
            buffers.data.fill(mark);
            buffers.tag.fill(mark);
            OpStatus::Done
        });
    }
}
