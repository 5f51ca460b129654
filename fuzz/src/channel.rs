//! A channel of the service with any words in it: what the service takes lies within, and what passes the check is within what was taken.

use std::cell::RefCell;

use ciphermill_channel::{
    Channel, ColumnShape, DATA_AT, DATA_LEN_MIN, OP_LEN, Outcome, Position, Request, SLOTS, get_ops, get_statuses,
    put_statuses, write_results,
};
use ciphermill_contract::{Batch, Op, OpStatus};

use crate::reader::Reader;

thread_local! {
    static CHANNEL: RefCell<Channel> = RefCell::new(Channel::create(DATA_LEN_MIN).expect("memory"));
}

/// Where requests are, in bytes, and how long they are.
const REQUESTS_AT: u16 = 2048;

/// # Panics
/// When a promise is broken.
pub fn run(bytes: &[u8]) {
    CHANNEL.with_borrow(|channel| look(channel, bytes));
}

fn look(channel: &Channel, bytes: &[u8]) {
    let mut from = Reader(bytes);
    let memory = channel.memory();
    assert!(memory.write(0, &[0; DATA_AT + 4096]));
    assert!(memory.write(64, &u32::from(from.byte()).to_le_bytes()));
    // Any bytes anywhere in the first 64 KiB.
    while !from.is_empty() {
        let (at, len) = (usize::from(from.word()), usize::from(from.byte() % 65));
        let len = len.min(from.0.len());
        let (own, rest) = from.0.split_at(len);
        assert!(memory.write(at, own));
        from.0 = rest;
    }
    let mut position = Position::default();
    let mut taken = 0;
    while let Ok(Some(next)) = channel.take(&mut position) {
        assert_eq!(next.number, taken);
        let outcome = answer(channel, &next.request);
        channel.complete(next.number, outcome);
        taken += 1;
    }
    assert!(taken <= SLOTS);
}

/// As a worker does, without the work.
fn answer(channel: &Channel, request: &Request) -> Outcome {
    let memory = channel.memory();
    if request.columns {
        return answer_columns(channel, request);
    }
    let mut ops: Vec<Op> = Vec::new();
    get_ops(memory, request.ops_at as usize, request.ops as usize, &mut ops).expect("within");
    assert_eq!(ops.len(), request.ops as usize);
    assert!(ops.iter().all(|op| op.status == OpStatus::Pending));
    let mut arena = vec![0; request.data_len as usize];
    assert!(memory.read(request.data_at as usize, &mut arena), "within");
    if let Err(error) = Batch::new(request.suite, request.direction, &mut ops, &mut arena).check() {
        return Outcome::of_error(&error);
    }
    for op in &ops {
        let ends = [op.input.end(), u64::from(op.output), op.tag_span().end(), op.aad.span().end()];
        assert!(ends.iter().all(|end| *end <= u64::from(request.data_len)), "{op:?}");
    }
    ops.iter_mut().for_each(|op| op.status = OpStatus::Done);
    write_results(memory, request.ops_at as usize, &ops).expect("within");
    Outcome::Ran
}

/// Whatever a shape says, what is copied and written lies within the request's data.
fn answer_columns(channel: &Channel, request: &Request) -> Outcome {
    let (memory, at, count) = (channel.memory(), request.ops_at as usize, request.ops as usize);
    let Ok(shape) = ColumnShape::get(memory, at) else { return Outcome::Fault };
    let mut statuses = Vec::new();
    get_statuses(memory, at, count, &mut statuses).expect("within");
    assert_eq!(statuses.len(), count);
    let Some(places) = shape.places(count, request.direction) else { return Outcome::Fault };
    if places.len != request.data_len as usize {
        return Outcome::Fault;
    }
    let mut arena = vec![0; places.len];
    assert!(memory.read(request.data_at as usize, &mut arena[..places.copied]), "within");
    for place in [places.input, places.output, places.written] {
        assert!(memory.write(request.data_at as usize + place.start, &arena[place]), "within");
    }
    put_statuses(memory, at, &statuses).expect("within");
    Outcome::Ran
}

/// A request of SHA-256 over 16 bytes, with its operation.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let suite: ciphermill_contract::Suite = "sha256".parse().expect("a suite");
    let words = [suite.ordinal() as u32, 0, 1, DATA_AT as u32, (DATA_AT + OP_LEN) as u32, 64, 0, 0];
    let mut op = [0; OP_LEN];
    op[28] = 16;
    op[36] = 16;
    op[60] = 32;
    let mut seed = vec![1];
    for (at, bytes) in [(REQUESTS_AT, words.map(u32::to_le_bytes).as_flattened()), (DATA_AT as u16, &op[..])] {
        seed.extend_from_slice(&at.to_le_bytes());
        seed.push(bytes.len() as u8);
        seed.extend_from_slice(bytes);
    }
    // The same as a column, whose digest is a column too.
    let mut shape = [0; 16];
    shape[0] = 3 << 6 | 2 << 8 | 1 << 11;
    (shape[4], shape[8], shape[9], shape[10]) = (32, 16, 16, 16);
    let words = [suite.ordinal() as u32, 0, 1, DATA_AT as u32, (DATA_AT + 128) as u32, 96, 1, 0];
    let mut column = vec![1];
    for (at, bytes) in [
        (REQUESTS_AT, words.map(u32::to_le_bytes).as_flattened()),
        (DATA_AT as u16, shape.map(u32::to_le_bytes).as_flattened()),
    ] {
        column.extend_from_slice(&at.to_le_bytes());
        column.push(bytes.len() as u8);
        column.extend_from_slice(bytes);
    }
    vec![seed, column]
}
