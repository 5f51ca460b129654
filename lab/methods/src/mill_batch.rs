//! A workload as a batch through a mill, which goes by its own choice of engine or is told one.

use std::sync::Arc;

use ciphermill::{Mill, RunOptions, Session};
use ciphermill_contract::{Batch, Direction, KeyId, Op, OpStatus, Result, Suite};
use ciphermill_peers::native::NativeLoop;

use crate::bytes::Bytes;
use crate::workload::Workload;

/// A workload's keys in a mill's key table, for as long as this lives.
pub(crate) struct MillKeys {
    mill: Mill,
    names: Vec<KeyId>,
}

impl MillKeys {
    /// Takes the workload's keys in.
    ///
    /// # Errors
    /// What importing keys says.
    pub(crate) fn new(mill: &Mill, workload: &Workload) -> Result<MillKeys> {
        Ok(MillKeys { mill: mill.clone(), names: workload.import(mill.keys())? })
    }
}

impl Drop for MillKeys {
    fn drop(&mut self) {
        for name in &self.names {
            // A key that is gone already is what is wanted.
            let _ = self.mill.keys().destroy(*name);
        }
    }
}

/// A workload's operations over its arena, and the mill that runs them as one batch: with check, lease, route and accounts in
/// its time.
pub(crate) struct MillBatch {
    session: Session,
    suite: Suite,
    direction: Direction,
    ops: Vec<Op>,
    arena: Bytes,
    /// The arena as it was, for a run that is to be compared.
    fresh: Arc<Bytes>,
    pinned: Option<&'static str>,
    _keys: Arc<MillKeys>,
}

impl MillBatch {
    /// For a workload whose keys are these; on the engine of this name, if any.
    /// `fresh` is the workload's arena.
    pub(crate) fn new(
        keys: &Arc<MillKeys>,
        workload: &Workload,
        fresh: &Arc<Bytes>,
        pinned: Option<&'static str>,
    ) -> MillBatch {
        MillBatch {
            session: keys.mill.session(),
            suite: workload.suite,
            direction: workload.direction,
            ops: workload.ops_under(&keys.names),
            arena: workload.arena.clone(),
            fresh: Arc::clone(fresh),
            pinned,
            _keys: Arc::clone(keys),
        }
    }
}

impl NativeLoop for MillBatch {
    fn ways(&self) -> Vec<String> {
        vec!["through a mill".to_owned()]
    }

    fn restart(&mut self) -> bool {
        self.arena.copy_from_slice(&self.fresh);
        true
    }

    fn run(&mut self, _way: usize) -> bool {
        for op in &mut self.ops {
            (op.status, op.output_len) = (OpStatus::Pending, 0);
        }
        let options = RunOptions { engine: self.pinned, ..RunOptions::default() };
        let batch = Batch::new(self.suite, self.direction, &mut self.ops, &mut self.arena);
        let ran = self.session.run_with(batch, &options);
        ran.is_ok_and(|report| report.failed == 0)
    }

    fn answers(&mut self) -> (Vec<Op>, Vec<u8>) {
        (self.ops.clone(), self.arena.to_vec())
    }
}
