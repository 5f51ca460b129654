//! The keys of a batch: found in the key table, asked for their policy, kept until the batch is through.

use ciphermill_contract::{CheckedBatch, EngineKinds, OpStatus, Reason};
use ciphermill_keys::{KeyAsk, KeyEntry, KeyLease, now_unix_s};

use super::batch_run::BatchRun;
use super::prepare::Entries;

/// Finds every operation's key and asks its policy. Operations that may not run get their status here.
///
/// Returns the kinds of engines that all keys agree on, `None` when they do not.
pub(super) fn lease_keys<'l>(
    run: &BatchRun<'_>,
    batch: &mut CheckedBatch<'_>,
    lease: &'l KeyLease<'_>,
    plan_kinds: EngineKinds,
    entries: &mut Entries<'l>,
) -> Option<EngineKinds> {
    let (suite, direction) = (batch.suite(), batch.direction());
    let now_unix_s = if run.runner.state.keys.any_expiry() { now_unix_s() } else { 0 };
    let ask = KeyAsk::new(suite, direction, run.bounds.usage, now_unix_s);
    let mut kinds = Some(plan_kinds);
    for index in 0..batch.len() {
        let found = match lease.entry(batch.ops()[index].key) {
            None => Err(Reason::KeyUnknown),
            Some(entry) => entry.allows(&ask).map(|own_kinds| (entry, own_kinds)),
        };
        let found = found.and_then(|(entry, own_kinds)| {
            if own_kinds.intersect(plan_kinds).is_empty() {
                Err(Reason::KeyEngine)
            } else if entry.has_budget() && entry.spend(1) == 0 {
                Err(Reason::KeyBudget)
            } else {
                Ok((entry, own_kinds))
            }
        });
        match found {
            Ok((entry, own_kinds)) => {
                kinds = kinds.map(|kinds| kinds.intersect(own_kinds)).filter(|kinds| !kinds.is_empty());
                entries.push(Some(entry));
            }
            Err(reason) => {
                batch.set_status(index, OpStatus::Refused(reason));
                entries.push(None);
            }
        }
    }
    kinds
}

/// Gives the operations that were never begun back to their keys' budgets.
#[cold]
pub(super) fn put_back(batch: &CheckedBatch<'_>, entries: &[Option<&KeyEntry>]) {
    for (op, entry) in batch.ops().iter().zip(entries) {
        if let Some(entry) = entry.filter(|_| op.status.is_pending()) {
            entry.put_back(1);
        }
    }
}
