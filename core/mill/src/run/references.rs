//! Signatures, and RSA without padding, with keys that an engine alone has. Nobody can make them again, and a wrong one may give an RSA key
//! away (Boneh, DeMillo and Lipton 1997), so each is verified with the key's public half before its caller gets it.

use std::sync::Arc;

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::suite::PublicEncryption;
use ciphermill_contract::{Batch, CheckedBatch, Direction, Error, Op, OpStatus, PreparedKey, Result, Span, Suite};
use ciphermill_keys::KeyEntry;

use super::batch_run::BatchRun;
use super::copies::{Copied, wiped};
use super::prepare::Preparer;
use super::witness::other_engine;
use crate::engines::Trouble;
use crate::panics::caught;

/// An operation by its index, and its key, which is a name that an engine has told a public half of.
pub(super) type Checked = (usize, Arc<KeyEntry>);

/// What the verification of an operation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Right,
    Wrong,
    /// The engine that verifies could not.
    Unknown,
}

/// How an engine on this processor finds out whether another ran a suite rightly with a private key: none where the public half tells
/// nothing. A signature is verified; what the primitive of RSA made of a number, the public primitive makes that number of again.
fn way_of_check(suite: Suite, ran: Direction) -> Option<Direction> {
    match (suite, ran) {
        (Suite::Sign(_), _) => Some(Direction::Decrypt),
        (Suite::PublicEncrypt(PublicEncryption::RsaRaw(_)), Direction::Decrypt) => Some(Direction::Encrypt),
        _ => None,
    }
}

/// Has an engine on this processor verify what `engine` made of the inputs in `batch`. When something is wrong, `false`: those operations
/// have failed, and the engine is in quarantine and excluded.
///
/// # Errors
/// The verification breaks a rule of batches, which would be a bug of the mill; there is no memory for it.
pub(super) fn verify(
    run: &mut BatchRun<'_>,
    batch: &CheckedBatch<'_>,
    copied: &mut Copied,
    checked: &[Checked],
    engine: usize,
) -> Result<bool> {
    let suite = copied.batch.suite;
    let is_done = |index: usize| copied.batch.ops.get(index).is_some_and(|op| op.status.is_done());
    let done: Vec<&Checked> = checked.iter().filter(|(index, _)| is_done(*index)).collect();
    let Some(direction) = way_of_check(suite, copied.batch.direction).filter(|_| !done.is_empty()) else {
        return Ok(true);
    };
    let bytes = done.iter().map(|(index, _)| u64::from(copied.batch.ops[*index].input.len)).sum();
    let Some(verifier) = other_engine(run, (suite, direction), (done.len(), bytes), &[engine]) else {
        tracing::debug!(%suite, "no engine verifies what a token made");
        return Ok(true);
    };
    let findings = match direction {
        Direction::Decrypt => of_signatures(run, copied, &done, verifier)?,
        Direction::Encrypt => of_numbers(run, batch, copied, &done, verifier)?,
    };
    let mut wrong = 0;
    for ((index, _), finding) in done.iter().zip(findings) {
        if finding == Finding::Wrong {
            copied.batch.ops[*index].status = OpStatus::EngineFault;
            wrong += 1;
        }
    }
    if wrong != 0 {
        let slot = run.slot(engine);
        tracing::error!(engine = slot.name(), %suite, wrong, "answers that do not fit their keys' public halves");
        slot.health.quarantine(slot.name(), Trouble::WrongResult, run.trust());
        run.exclude(engine, Error::fault(slot.name(), FaultKind::WrongResult));
    }
    Ok(wrong == 0)
}

fn of_signatures(
    run: &mut BatchRun<'_>,
    copied: &mut Copied,
    done: &[&Checked],
    verifier: usize,
) -> Result<Vec<Finding>> {
    let lengths = copied.batch.suite.tag_len(Direction::Decrypt);
    if done.iter().any(|(index, _)| !lengths.contains(copied.batch.ops[*index].tag_len.into())) {
        // Of an engine that answers with another length nothing is believed.
        return Ok(vec![Finding::Wrong; done.len()]);
    }
    let ask = |(index, _): &&Checked| Op { status: OpStatus::Pending, ..copied.batch.ops[*index] };
    let mut ops: Vec<Op> = done.iter().map(ask).collect();
    let batch = Batch::new(copied.batch.suite, Direction::Decrypt, &mut ops, copied.batch.arena.bytes_mut());
    let ran = run_check(run, batch, done, verifier)?;
    Ok(ops.iter().map(|op| if ran { Finding::of(op.status) } else { Finding::Unknown }).collect())
}

/// Whether the public primitive leads from each number that was made to the one in `batch` that it was made of.
fn of_numbers(
    run: &mut BatchRun<'_>,
    batch: &CheckedBatch<'_>,
    copied: &Copied,
    done: &[&Checked],
    verifier: usize,
) -> Result<Vec<Finding>> {
    let suite = copied.batch.suite;
    let made = |index: usize| {
        let op = &copied.batch.ops[index];
        Span::new(op.output, op.output_len)
    };
    if done.iter().any(|(index, _)| !suite.input_len(Direction::Encrypt).contains(made(*index).len as usize)) {
        return Ok(vec![Finding::Wrong; done.len()]);
    }
    let mut arena = wiped(done.iter().map(|(index, _)| u64::from(made(*index).len)).sum())?;
    let (mut ops, mut at) = (Vec::with_capacity(done.len()), 0);
    for (index, _) in done {
        let span = made(*index);
        let input = Span::new(at, span.len);
        arena.bytes_mut()[input.range()].copy_from_slice(&copied.batch.arena.bytes()[span.range()]);
        ops.push(Op::in_place(copied.batch.ops[*index].key, input));
        at += span.len;
    }
    let check = Batch::new(suite, Direction::Encrypt, &mut ops, arena.bytes_mut());
    if !run_check(run, check, done, verifier)? {
        return Ok(vec![Finding::Unknown; done.len()]);
    }
    let finding = |(op, (index, _)): (&Op, &&Checked)| {
        let given = batch.ops()[copied.from[*index] as usize].input;
        match op.status {
            OpStatus::Done if arena.bytes()[op.input.range()] == batch.arena()[given.range()] => Finding::Right,
            // A number that is not below the modulus is no answer either.
            OpStatus::Done | OpStatus::AuthFailed | OpStatus::BadInput(_) => Finding::Wrong,
            _ => Finding::Unknown,
        }
    };
    Ok(ops.iter().zip(done).map(finding).collect())
}

/// Runs a check on the verifier with the public halves; `false` where it could not.
fn run_check(run: &mut BatchRun<'_>, batch: Batch<'_>, done: &[&Checked], verifier: usize) -> Result<bool> {
    let (suite, slot, policy) = (batch.suite(), run.slot(verifier), run.trust());
    let mut batch = batch.check()?;
    let mut preparer = Preparer::new(slot, policy, suite);
    // What an engine tells of its key may be no key at all: then what it makes is nothing that others could verify.
    let prepared: Vec<Option<&PreparedKey>> = done.iter().map(|(_, entry)| preparer.get_half(entry)).collect();
    for (at, _) in prepared.iter().enumerate().filter(|(_, key)| key.is_none()) {
        batch.set_status(at, OpStatus::AuthFailed);
    }
    let Ok(queue) = run.own.queue_on(slot, policy) else { return Ok(false) };
    let mut with_keys = batch.attach_keys(&prepared)?;
    if caught(|| queue.run(&mut with_keys)).is_none() {
        run.own.close(slot);
        slot.health.quarantine(slot.name(), Trouble::Panic, policy);
        return Ok(false);
    }
    Ok(true)
}

impl Finding {
    fn of(status: OpStatus) -> Finding {
        match status {
            OpStatus::Done => Finding::Right,
            OpStatus::AuthFailed => Finding::Wrong,
            _ => Finding::Unknown,
        }
    }
}
