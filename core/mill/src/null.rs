//! An engine that computes nothing: it marks every operation as done. For measuring the path around engines.

use std::sync::Arc;

use ciphermill_contract::suite::lists::{AES_CBC, AES_GCM};
use ciphermill_contract::{
    Capability, CheckedBatch, Cost, Engine, EngineInfo, EngineKind, EngineQueue, KeyMaterial, OpStatus, PreparedKey,
    QueueHint, Result, Suite,
};

const CAPABILITIES: &[Capability] =
    &[Capability::new(&AES_CBC, Cost::new(0.0, 0.0, 0.0)), Capability::new(&AES_GCM, Cost::new(0.0, 0.0, 0.0))];

/// The engine. It must never be part of a mill that protects anything, and no self-test lets it.
pub struct NullEngine {
    info: EngineInfo,
}

impl NullEngine {
    /// The engine, ready to be given to a mill.
    pub fn shared() -> Arc<dyn Engine> {
        Arc::new(NullEngine {
            info: EngineInfo {
                name: "null",
                kind: EngineKind::Peer,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                parallelism: 1,
                kernels: Vec::new(),
            },
        })
    }
}

impl Engine for NullEngine {
    fn info(&self) -> &EngineInfo {
        &self.info
    }

    fn capabilities(&self) -> &[Capability] {
        CAPABILITIES
    }

    fn prepare(&self, _key: &KeyMaterial<'_>, _suite: Suite) -> Result<PreparedKey> {
        Ok(PreparedKey::new(()))
    }

    fn queue(&self, _hint: QueueHint) -> Result<Box<dyn EngineQueue>> {
        Ok(Box::new(NullQueue))
    }
}

struct NullQueue;

impl EngineQueue for NullQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (ops, _, keys) = batch.parts();
        for (op, key) in ops.iter_mut().zip(keys) {
            if op.status.is_pending() {
                op.status = if key.is_some() { OpStatus::Done } else { OpStatus::EngineFault };
            }
        }
    }
}
