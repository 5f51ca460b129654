//! Batches to be spoilt.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{
    Batch, Direction, Engine, EngineQueue, KeyId, KeyMaterial, Op, OpStatus, PreparedKey, QueueHint, Reason, Span,
    Suite,
};
use ciphermill_fault::{FaultEngine, Script};
use ciphermill_reference::Reference;

pub(crate) const GCM: Suite = Suite::Aead(Aead::AesGcm(AesSize::Aes128));
const KEY: [u8; 16] = [0x2b; 16];
const LEN: usize = 20;
const TAG_LEN: usize = 16;

pub(crate) fn engine(script: Script) -> FaultEngine {
    FaultEngine::new("double", Arc::new(Reference::new()), script)
}

pub(crate) fn queue(engine: &dyn Engine) -> Box<dyn EngineQueue> {
    engine.queue(QueueHint::default()).expect("the engine is alive")
}

/// Operations and their arena, before or after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) suite: Suite,
    pub(crate) direction: Direction,
    pub(crate) ops: Vec<Op>,
    pub(crate) arena: Vec<u8>,
}

impl Work {
    /// AES-GCM in place, one key for all, an IV for each.
    pub(crate) fn seal(count: usize) -> Work {
        let arena = (0..count * (LEN + TAG_LEN)).map(|at| (at * 7 + 1) as u8).collect();
        let ops = (0..count).map(|index| {
            let at = (index * (LEN + TAG_LEN)) as u32;
            Op::in_place(KeyId { slot: 1, generation: 1 }, Span::new(at, LEN as u32))
                .with_iv(&[index as u8; 12])
                .with_tag(at + LEN as u32, TAG_LEN as u16)
        });
        Work { suite: GCM, direction: Direction::Encrypt, ops: ops.collect(), arena }
    }

    /// The batch that undoes a batch which has been run.
    pub(crate) fn inverse(&self) -> Work {
        let pending = |op: &Op| Op { status: OpStatus::Pending, ..*op };
        Work { direction: Direction::Decrypt, ops: self.ops.iter().map(pending).collect(), ..self.clone() }
    }

    pub(crate) fn run(&self, queue: &mut dyn EngineQueue) -> Work {
        self.run_settled(queue, &[])
    }

    /// Runs the batch; the operations of `settled` are refused before the engine sees them.
    pub(crate) fn run_settled(&self, queue: &mut dyn EngineQueue, settled: &[usize]) -> Work {
        let key = Reference::new().prepare(&KeyMaterial::secret(&KEY), self.suite).expect("the key suits the suite");
        let mut after = self.clone();
        after.run_here(queue, Some(&key), settled);
        after
    }

    pub(crate) fn run_with(&self, queue: &mut dyn EngineQueue, key: Option<&PreparedKey>) -> Work {
        let mut after = self.clone();
        after.run_here(queue, key, &[]);
        after
    }

    /// Runs the batch and catches its panic; what that has left behind stays.
    pub(crate) fn run_caught(&mut self, queue: &mut dyn EngineQueue) -> Result<(), Box<dyn Any + Send>> {
        let key = Reference::new().prepare(&KeyMaterial::secret(&KEY), self.suite).expect("the key suits the suite");
        catch_unwind(AssertUnwindSafe(|| self.run_here(queue, Some(&key), &[])))
    }

    fn run_here(&mut self, queue: &mut dyn EngineQueue, key: Option<&PreparedKey>, settled: &[usize]) {
        let keys = vec![key; self.ops.len()];
        let batch = Batch::new(self.suite, self.direction, &mut self.ops, &mut self.arena);
        let mut batch = batch.check().expect("the batch is valid");
        for index in settled {
            batch.set_status(*index, OpStatus::Refused(Reason::KeyUnknown));
        }
        queue.run(&mut batch.attach_keys(&keys).expect("as many keys as operations"));
    }

    /// What the reference engine makes of it.
    pub(crate) fn answer(&self) -> Work {
        self.run(queue(&Reference::new()).as_mut())
    }

    pub(crate) fn statuses(&self) -> Vec<OpStatus> {
        self.ops.iter().map(|op| op.status).collect()
    }

    pub(crate) fn is_all(&self, status: OpStatus) -> bool {
        self.ops.iter().all(|op| op.status == status)
    }

    /// An operation with the bytes of its data and tag.
    pub(crate) fn op(&self, index: usize) -> (Op, &[u8], &[u8]) {
        let op = self.ops[index];
        (op, &self.arena[op.input.range()], &self.arena[op.tag_span().range()])
    }

    /// How many bits of the arena are not as in the other one.
    pub(crate) fn bits_apart(&self, other: &Work) -> u32 {
        self.arena.iter().zip(&other.arena).map(|(a, b)| (a ^ b).count_ones()).sum()
    }
}
