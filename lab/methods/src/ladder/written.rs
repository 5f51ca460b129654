//! A batch in a channel, in the forms that the service's engine sends.

use ciphermill_channel::{
    ColumnShape, RECORD_LEN, Request, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs, ShapeKeys, ShapeSteps, ShapeTags,
    get_statuses, put_ops, put_statuses, read_results,
};
use ciphermill_contract::{ColumnStatus, Op, Suite};
use ciphermill_memory::Region;
use ciphermill_service_engine::COLUMNS_FROM;

use super::DIRECTION;
use super::definitions::BLOCK;

/// What begins in a channel begins with a line of the cache.
pub(crate) const LINE: usize = 64;

/// A request that is written, and where its output will lie.
pub(crate) struct Written {
    pub(crate) request: Request,
    output_at: usize,
    output_len: usize,
}

impl Written {
    /// Writes operations, which are in place and lie one behind the other, and their data to the byte `at`: many as columns, few as
    /// records. `None` where they do not fit.
    pub(crate) fn put(memory: &Region, at: usize, suite: Suite, ops: &[Op], data: [&[u8]; 2]) -> Option<Written> {
        let len: usize = data.iter().map(|data| data.len()).sum();
        let columns = ops.len() >= COLUMNS_FROM;
        let (data_at, output_at, data_len) = if columns {
            let (data_at, output_at) = put_columns(memory, at, ops, len)?;
            (data_at, output_at, output_at - data_at + len)
        } else {
            put_ops(memory, at, ops.iter().copied()).ok()?;
            let data_at = at + ops.len() * RECORD_LEN;
            (data_at, data_at, len)
        };
        let [own, known] = data;
        let fits = memory.write(output_at, own) && memory.write(output_at + own.len(), known);
        let (ops_at, data_at, data_len, ops) = (at as u32, data_at as u32, data_len as u32, ops.len() as u32);
        let request = Request { suite, direction: DIRECTION, ops, columns, ops_at, data_at, data_len };
        fits.then_some(Written { request, output_at, output_len: len })
    }

    /// Copies the output, and tells the first operation that is not done, with what became of it.
    pub(crate) fn take(&self, memory: &Region, output: &mut Vec<u8>) -> Result<(), String> {
        output.resize(self.output_len, 0);
        let (at, count) = (self.request.ops_at as usize, self.request.ops as usize);
        let mut unlike = None;
        let mut look = |index: usize, is_done: bool, status: &dyn core::fmt::Debug| {
            if !is_done && unlike.is_none() {
                unlike = Some(format!("operation {index} of a request: {status:?}"));
            }
        };
        let read = if self.request.columns {
            let mut statuses = Vec::new();
            let read = get_statuses(memory, at, count, &mut statuses);
            statuses.iter().enumerate().for_each(|(index, status)| look(index, status.is_done(), status));
            read
        } else {
            read_results(memory, at, count, |index, status, _, _| look(index, status.is_done(), &status))
        };
        if read.is_err() || !memory.read(self.output_at, output) {
            return Err("what came back lies outside of the channel".to_owned());
        }
        unlike.map_or(Ok(()), Err)
    }
}

/// Writes all columns but that of the data, of so many bytes. Returns where columns begin, and where that of the data does.
fn put_columns(memory: &Region, at: usize, ops: &[Op], len: usize) -> Option<(usize, usize)> {
    let shape = ColumnShape {
        keys: ShapeKeys::Each,
        ivs: ShapeIvs::Each(BLOCK as u32),
        aad: ShapeAad::None,
        tags: ShapeTags::None,
        data: ShapeData::InPlace(ShapeBuffer { len: len as u32, steps: ShapeSteps::Offsets }),
    };
    let places = shape.places(ops.len(), DIRECTION)?;
    let start = (at + ColumnShape::head_len(ops.len())).next_multiple_of(LINE);
    let words = |op: &Op| [op.key.slot.to_le_bytes(), op.key.generation.to_le_bytes()];
    let keys: Vec<u8> = ops.iter().flat_map(words).flatten().collect();
    let ivs: Vec<u8> = ops.iter().flat_map(|op| &op.iv[..BLOCK]).copied().collect();
    let offsets = ops.iter().map(|op| op.input.offset).chain([len as u32]);
    let offsets: Vec<u8> = offsets.flat_map(u32::to_le_bytes).collect();
    let columns = [(places.keys, keys), (places.ivs, ivs), (places.input_offsets, offsets)];
    let fits = columns.iter().all(|(place, bytes)| memory.write(start + place.start, bytes));
    let is_put = shape.put(memory, at).is_ok();
    let waits = put_statuses(memory, at, &vec![ColumnStatus::PENDING; ops.len()]).is_ok();
    (fits && is_put && waits).then_some((start, start + places.input.start))
}
