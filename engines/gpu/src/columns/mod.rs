//! Columns on the device: they go there as they lie, and kernels of their own (`kernels/columns`) make messages of them and put
//! the results back. The host looks at no operation by itself, save where each has a key of its own, or where IVs or results
//! lie apart.

mod plan;
mod share;
#[cfg(test)]
mod tests;

use ciphermill_contract::columns::{ChunkLimits, DataBuffers};
use ciphermill_contract::{CheckedBatch, CheckedColumns, ColumnStatus};

use self::plan::ColumnPlan;
use self::share::Columns;
use crate::pipeline::Pipeline;

/// What becomes batches of ops at a time where columns cannot go as they are: enough for the device to be worth the way.
const CHUNK: ChunkLimits = ChunkLimits { ops: 1 << 16, bytes: 16 << 20 };

/// Runs columns, as ops by `run` where this engine has no other way.
pub(crate) fn run(
    pipeline: &mut Pipeline,
    columns: &mut CheckedColumns<'_>,
    mut run: impl FnMut(&mut Pipeline, &mut CheckedBatch<'_>),
) {
    let Some(plan) = ColumnPlan::of(columns) else {
        let Ok(()) = columns.try_as_ops(CHUNK, |batch| {
            run(pipeline, batch);
            Ok::<(), core::convert::Infallible>(())
        });
        return;
    };
    let count = columns.len();
    let landed = match pipeline.fly(&mut Columns::new(columns, &plan)) {
        Ok(()) => count,
        Err(landed) => landed,
    };
    pipeline.make_arenas();
    fail_from(columns, landed);
}

/// Ends operations from `first` on as faults. The device may have written to their outputs by itself.
fn fail_from(columns: &mut CheckedColumns<'_>, first: usize) {
    let layout = columns.layout();
    for index in first..columns.len() {
        if !columns.statuses()[index].is_pending() {
            continue;
        }
        let data = layout.data(index);
        let (buffers, statuses) = columns.parts();
        if let DataBuffers::Separate(_, output) | DataBuffers::InPlace(output) = &mut buffers.data {
            output[data.output..data.output + data.len].fill(0);
        }
        statuses[index] = ColumnStatus::ENGINE_FAULT;
    }
}
