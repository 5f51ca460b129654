//! Keys in the form that an engine made of them: once in a key's life for each engine and suite.

use ciphermill_contract::error::{Fault, FaultKind};
use ciphermill_contract::{CheckedBatch, Error, KeyMaterial, OpStatus, PreparedKey, Reason, Result, Suite};
use ciphermill_keys::{KeyEntry, PreparedName};
use smallvec::SmallVec;

use crate::engines::EngineSlot;
use crate::policy::TrustPolicy;

/// Operations whose keys fit on the stack; larger batches take one allocation each for entries and prepared keys.
const INLINE_OPS: usize = 32;

/// Each operation's key in the key table; none for those that may not run.
pub(super) type Entries<'l> = SmallVec<[Option<&'l KeyEntry>; INLINE_OPS]>;

/// Each operation's key as the engine prepared it; none for operations that the engine is to leave alone.
pub(super) type Prepared<'l> = SmallVec<[Option<&'l PreparedKey>; INLINE_OPS]>;

/// An engine that prepares keys for one suite.
pub(crate) struct Preparer<'p> {
    slot: &'p EngineSlot,
    policy: &'p TrustPolicy,
    name: PreparedName,
    suite: Suite,
    /// What the engine failed with as a whole: it is not asked again.
    fault: Option<Error>,
}

impl<'p> Preparer<'p> {
    pub(crate) fn new(slot: &'p EngineSlot, policy: &'p TrustPolicy, suite: Suite) -> Preparer<'p> {
        Preparer { slot, policy, name: PreparedName::new(slot.number, suite), suite, fault: None }
    }

    /// A key as it was prepared before.
    #[inline]
    pub(crate) fn before<'l>(&self, entry: &'l KeyEntry) -> Option<&'l PreparedKey> {
        entry.prepared_before(self.name)
    }

    /// Has the engine prepare those of these keys that it has not prepared, side by side if it can. Who gets a key hears
    /// of a failure.
    pub(crate) fn prepare<'l>(&mut self, entries: impl Iterator<Item = &'l KeyEntry>) {
        let lacking: Vec<&KeyEntry> = entries.filter(|entry| self.before(entry).is_none()).collect();
        if lacking.len() > 1 {
            KeyEntry::prepare_all(&lacking, self.name, |materials| {
                let made = self.slot.ask(self.policy, |engine| Ok(engine.prepare_many(materials, self.suite)));
                made.unwrap_or_else(|fault| {
                    self.fault = Some(fault);
                    Vec::new()
                })
            });
        } else if let Some(entry) = lacking.first() {
            let _ = self.get(entry);
        }
    }

    /// The public half of a key by reference as the engine prepared it; none where it is not known, or is none that the engine takes.
    pub(super) fn get_half<'l>(&mut self, entry: &'l KeyEntry) -> Option<&'l PreparedKey> {
        let make = |half: &KeyMaterial<'_>| self.slot.ask(self.policy, |engine| engine.prepare(half, self.suite));
        entry.half_prepared_as(self.name, make)?.ok()
    }

    /// A key as the engine prepared it, which it does now if it has not before.
    ///
    /// # Errors
    /// What the engine says, or [`ciphermill_keys::PREPARED_MAX`].
    pub(super) fn get<'l>(&mut self, entry: &'l KeyEntry) -> Result<&'l PreparedKey> {
        let made = entry.prepared_as(self.name, |material: &KeyMaterial<'_>| match &self.fault {
            Some(fault) => Err(fault.clone()),
            None => self.slot.ask(self.policy, |engine| engine.prepare(material, self.suite)),
        });
        if let Err(fault @ Error::EngineFault(Fault { kind: FaultKind::Panicked, .. })) = &made {
            self.fault = Some(fault.clone());
        }
        made
    }
}

/// Prepared keys, one an operation.
#[derive(Default)]
pub(super) struct Ready<'l> {
    pub(super) keys: Prepared<'l>,
    /// Operations whose key the engine failed to prepare; they are kept from it by a status that is to be taken back.
    pub(super) unprepared: Vec<usize>,
    /// What it failed with.
    pub(super) fault: Option<Error>,
}

/// Every pending operation's key, prepared for the engine. Operations whose key it refuses get their status here.
pub(super) fn prepare<'l>(
    slot: &EngineSlot,
    policy: &TrustPolicy,
    batch: &mut CheckedBatch<'_>,
    entries: &[Option<&'l KeyEntry>],
) -> Ready<'l> {
    let mut preparer = Preparer::new(slot, policy, batch.suite());
    preparer.prepare(entries.iter().flatten().copied());
    let mut ready = Ready { keys: Prepared::with_capacity(entries.len()), ..Ready::default() };
    for (index, entry) in entries.iter().enumerate() {
        let entry = entry.filter(|_| batch.ops()[index].status.is_pending());
        let key = entry.map(|entry| preparer.get(entry));
        ready.keys.push(match key {
            None => None,
            Some(Ok(key)) => Some(key),
            Some(Err(error)) => {
                batch.set_status(index, OpStatus::Refused(Reason::KeyUnsuitable));
                if refusal(&error) == OpStatus::EngineFault {
                    ready.unprepared.push(index);
                    ready.fault = Some(error);
                }
                None
            }
        });
    }
    ready
}

/// The status that a key which could not be prepared earns its operation.
#[cold]
pub(super) fn refusal(error: &Error) -> OpStatus {
    match error {
        Error::Misuse(_) | Error::Refused(_) => OpStatus::Refused(Reason::KeyUnsuitable),
        _ => OpStatus::EngineFault,
    }
}
