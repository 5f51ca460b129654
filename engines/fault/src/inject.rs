//! What faults do to a batch. Each function says whether there was an operation to do it to.

use ciphermill_contract::{CheckedBatch, Direction, EngineQueue, OpStatus};

/// The indices of the operations that are pending.
pub(crate) fn pending(batch: &CheckedBatch<'_>) -> Vec<usize> {
    let ops = batch.ops().iter().enumerate();
    ops.filter(|(_, op)| op.status.is_pending()).map(|(index, _)| index).collect()
}

/// Ends every pending operation as the contract says of failed ones.
pub(crate) fn fail_all(batch: &mut CheckedBatch<'_>) -> bool {
    let mut found = false;
    batch.process(|_| {
        found = true;
        OpStatus::EngineFault
    });
    found
}

/// Ends one pending operation in the same way, before the others are run.
pub(crate) fn fail_one(batch: &mut CheckedBatch<'_>, op: usize) -> bool {
    let pending = pending(batch);
    let Some(index) = pending.get(op % pending.len().max(1)).copied() else {
        return false;
    };
    output(batch, index).fill(0);
    let op = &mut batch.parts().0[index];
    op.output_len = 0;
    op.status = OpStatus::EngineFault;
    true
}

/// Runs the first half of the pending operations and begins the next one.
pub(crate) fn stop_in_the_middle(batch: &mut CheckedBatch<'_>, inner: &mut dyn EngineQueue) -> bool {
    let mut pending = pending(batch);
    let left = pending.split_off(pending.len() / 2);
    // Any status but pending hides them from the inner engine.
    for index in &left {
        batch.set_status(*index, OpStatus::EngineFault);
    }
    inner.run(batch);
    for index in &left {
        batch.set_status(*index, OpStatus::Pending);
    }
    if let Some(index) = left.first() {
        let output = output(batch, *index);
        let begun = output.len().div_ceil(2);
        output[..begun].iter_mut().for_each(|byte| *byte = !*byte);
    }
    !left.is_empty()
}

/// Turns over one bit of one of the operations that were pending, or of the next that has answered something.
pub(crate) fn turn_over(batch: &mut CheckedBatch<'_>, pending: &[usize], op: usize, bit: usize) -> bool {
    let first = op % pending.len().max(1);
    let (before, from) = pending.split_at(first);
    from.iter().chain(before).any(|index| turn_over_in(batch, *index, bit))
}

fn turn_over_in(batch: &mut CheckedBatch<'_>, index: usize, bit: usize) -> bool {
    let encrypts = batch.direction() == Direction::Encrypt;
    let room = output(batch, index).len();
    let (ops, arena, _) = batch.parts();
    let op = &mut ops[index];
    let written = match op.output_len {
        0 if encrypts => op.tag_span().range(),
        len => op.output as usize..op.output as usize + room.min(len as usize),
    };
    match op.status {
        OpStatus::Done if !written.is_empty() => {
            let bit = bit % (8 * written.len());
            arena[written.start + bit / 8] ^= 1 << (bit % 8);
        }
        // No room for output and yet a tag: all that was asked is whether it is right.
        OpStatus::Done if !encrypts && room == 0 && op.tag_len != 0 => op.status = OpStatus::AuthFailed,
        OpStatus::AuthFailed if !encrypts && room == 0 => op.status = OpStatus::Done,
        _ => return false,
    }
    true
}

/// Where an operation's output goes.
fn output<'b>(batch: &'b mut CheckedBatch<'_>, index: usize) -> &'b mut [u8] {
    let (suite, direction) = (batch.suite(), batch.direction());
    let (ops, arena, _) = batch.parts();
    let op = &ops[index];
    let len = suite.output_len(direction, op.input.len as usize, op.output_len as usize);
    &mut arena[op.output as usize..op.output as usize + len]
}
