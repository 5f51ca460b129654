//! The engine's queue: suites of messages go through the pipeline as they are, those of public keys through their host work.

use ciphermill_contract::{CheckedBatch, CheckedColumns, EngineQueue, OpStatus};

use crate::columns;
use crate::pack;
use crate::pipeline::Pipeline;
use crate::public;

/// A queue on a device.
pub(crate) struct Queue(Pipeline);

impl Queue {
    pub(crate) fn new(pipeline: Pipeline) -> Queue {
        Queue(pipeline)
    }
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        run(&mut self.0, batch);
    }

    fn run_columns(&mut self, columns: &mut CheckedColumns<'_>) {
        columns::run(&mut self.0, columns, run);
    }
}

fn run(pipeline: &mut Pipeline, batch: &mut CheckedBatch<'_>) {
    pipeline.run(batch);
    public::run(pipeline, batch);
    pipeline.make_arenas();
    // Suites that this engine does not claim end here.
    for index in 0..batch.len() {
        if batch.ops()[index].status.is_pending() {
            pack::settle(batch, index, OpStatus::EngineFault);
        }
    }
}
