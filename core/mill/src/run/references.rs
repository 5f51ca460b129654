//! Signatures with keys that an engine alone has. Nobody can make them again, and a wrong one may give an RSA key away (Boneh, DeMillo
//! and Lipton 1997), so each is verified with the key's public half before its caller gets it.

use std::sync::Arc;

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Batch, Direction, Error, KeyMaterial, Op, OpStatus, PreparedKey, Result, Suite};

use super::batch_run::BatchRun;
use super::copies::Copied;
use super::witness::other_engine;
use crate::engines::Trouble;
use crate::panics::caught;

/// The public half of an operation's key, by the operation's index.
pub(super) type PublicHalf = (usize, Arc<[u8]>);

/// What the verification of an operation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Right,
    Wrong,
    /// The engine that verifies could not.
    Unknown,
}

/// Has an engine on this processor verify what `engine` signed. When something is wrong, `false`: those operations have failed, and the
/// engine is in quarantine and excluded.
///
/// # Errors
/// The verification breaks a rule of batches, which would be a bug of the mill.
pub(super) fn verify(
    run: &mut BatchRun<'_>,
    copied: &mut Copied,
    halves: &[PublicHalf],
    engine: usize,
) -> Result<bool> {
    let suite = copied.batch.suite;
    let is_signed = |index: usize| copied.batch.ops.get(index).is_some_and(|op| op.status.is_done());
    let signed: Vec<&PublicHalf> = halves.iter().filter(|(index, _)| is_signed(*index)).collect();
    if signed.is_empty() || !matches!(suite, Suite::Sign(_)) {
        return Ok(true);
    }
    let bytes = signed.iter().map(|(index, _)| u64::from(copied.batch.ops[*index].input.len)).sum();
    let way = (suite, Direction::Decrypt);
    let Some(verifier) = other_engine(run, way, (signed.len(), bytes), &[engine]) else {
        tracing::debug!(%suite, "no engine verifies what a token signed");
        return Ok(true);
    };
    let findings = findings(run, copied, &signed, verifier)?;
    let mut wrong = 0;
    for ((index, _), finding) in signed.iter().zip(findings) {
        if finding == Finding::Wrong {
            copied.batch.ops[*index].status = OpStatus::EngineFault;
            wrong += 1;
        }
    }
    if wrong != 0 {
        let slot = run.slot(engine);
        tracing::error!(engine = slot.name(), %suite, wrong, "signatures that their keys' public halves do not verify");
        slot.health.quarantine(slot.name(), Trouble::WrongResult, run.trust());
        run.exclude(engine, Error::fault(slot.name(), FaultKind::WrongResult));
    }
    Ok(wrong == 0)
}

fn findings(
    run: &mut BatchRun<'_>,
    copied: &mut Copied,
    signed: &[&PublicHalf],
    verifier: usize,
) -> Result<Vec<Finding>> {
    let (suite, slot, policy) = (copied.batch.suite, run.slot(verifier), run.trust());
    let mut keys: Vec<Option<PreparedKey>> = Vec::with_capacity(signed.len());
    let mut key_of = Vec::with_capacity(signed.len());
    for (at, (_, half)) in signed.iter().enumerate() {
        let is_last =
            at.checked_sub(1).and_then(|last| signed.get(last)).is_some_and(|(_, last)| Arc::ptr_eq(last, half));
        if !is_last {
            // What an engine tells of its key may be no key at all: then what it signs is nothing that others could verify.
            keys.push(slot.ask(policy, |engine| engine.prepare(&KeyMaterial::public(half), suite)).ok());
        }
        key_of.push(keys.len() - 1);
    }
    let ask = |(index, _): &&PublicHalf| Op { status: OpStatus::Pending, ..copied.batch.ops[*index] };
    let mut ops: Vec<Op> = signed.iter().map(ask).collect();
    let mut batch = Batch::new(suite, Direction::Decrypt, &mut ops, copied.batch.arena.bytes_mut()).check()?;
    let prepared: Vec<Option<&PreparedKey>> = key_of.iter().map(|key| keys[*key].as_ref()).collect();
    for (at, _) in prepared.iter().enumerate().filter(|(_, key)| key.is_none()) {
        batch.set_status(at, OpStatus::AuthFailed);
    }
    let Ok(queue) = run.own.queue_on(slot, policy) else { return Ok(vec![Finding::Unknown; signed.len()]) };
    let mut with_keys = batch.attach_keys(&prepared)?;
    if caught(|| queue.run(&mut with_keys)).is_none() {
        run.own.close(slot);
        slot.health.quarantine(slot.name(), Trouble::Panic, policy);
        return Ok(vec![Finding::Unknown; signed.len()]);
    }
    Ok(ops.iter().map(|op| Finding::of(op.status)).collect())
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
