//! A kernel in memory: it keeps what daemons say and carries no packets. For tests, and for looking at what a daemon does.

mod policies;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use crate::association::{
    Algorithms, AssociationId, AssociationKey, AssociationState, Counters, Lifetimes, Limit, ListFilter, Mark,
    ReplayUpdate, SecurityAssociation, SpiRequest, Statistics,
};
use crate::kernel::{Counts, Kernel};
use crate::message::{Acquire, Event, Mapping};
use crate::policy::{Policy, PolicyKey, PolicyState};
use crate::refusal::Refusal;
use crate::selector::Selector;
use policies::Policies;

/// Most associations.
const ASSOCIATIONS_MAX: usize = 1 << 20;
/// Seconds that a larval association lives: what strongSwan writes to `xfrm_acq_expires` of a kernel.
const LARVAL_SECONDS: u64 = 165;

const NO_ASSOCIATION: Refusal = Refusal::new(Errno::SRCH, "no such association");

struct Entry {
    state: AssociationState,
    /// Whether its soft limit was told of.
    soft_told: bool,
}

impl Entry {
    fn is_larval(&self) -> bool {
        self.state.association.algorithms.is_none()
    }

    fn is_found_by(&self, id: &AssociationId, mark: u32) -> bool {
        self.state.association.id == *id && self.state.association.mark.unwrap_or_default().admits(mark)
    }
}

/// Associations and policies with a clock that is set from outside.
#[derive(Default)]
pub struct Table {
    entries: BTreeMap<u64, Entry>,
    /// Positions by what identifies an association; marks tell those apart that have the same.
    places: BTreeMap<AssociationId, Vec<u64>>,
    policies: Policies,
    last_position: u64,
    last_acquire: u32,
    spi_steps: u32,
    now: u64,
    events: Vec<Event>,
}

impl Table {
    /// An empty table, with the time of day.
    #[must_use]
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        // So that two tables do not give out the same SPIs one after another, which would hide that one was taken for the other.
        Self { now, spi_steps: std::process::id().wrapping_mul(0x85eb_ca6b), ..Self::default() }
    }

    /// Sets the clock, in seconds since 1970, and ends what has lived long enough; limits that were reached are events.
    pub fn set_time(&mut self, now: u64) {
        self.now = now;
        let positions = self.entries.keys().copied().collect::<Vec<_>>();
        positions.into_iter().for_each(|position| self.expire(position));
    }

    /// Counts packets of an association, as if they had passed. `ESRCH` if there is none.
    ///
    /// # Errors
    /// The refusal.
    pub fn count(&mut self, key: &AssociationKey, packets: u64, bytes: u64) -> Result<(), Refusal> {
        let now = self.now;
        let position = self.find(&key.id, key.mark.value).ok_or(NO_ASSOCIATION)?;
        let entry = self.entries.get_mut(&position).ok_or(NO_ASSOCIATION)?;
        let counters = &mut entry.state.counters;
        counters.packets = counters.packets.saturating_add(packets);
        counters.bytes = counters.bytes.saturating_add(bytes);
        if counters.used == 0 {
            counters.used = now;
        }
        entry.state.last_used = Some(now);
        self.expire(position);
        Ok(())
    }

    /// Ends an association that whoever carries its packets has ended, for instance since no numbers are left: daemons are told as of a hard
    /// limit. Of one that there is not any more nothing is told.
    pub fn end(&mut self, key: &AssociationKey) {
        if let Some(state) = self.find(&key.id, key.mark.value).and_then(|position| self.remove(position)) {
            self.events.push(Event::Expire { state: Box::new(state), hard: true });
        }
    }

    /// Tells daemons that a packet needs an association by a policy's first template. Says whether there are such a policy and template.
    pub fn acquire(&mut self, policy: &PolicyKey, packet: Selector) -> bool {
        let Ok(policy) = self.policies.query(policy) else { return false };
        self.last_acquire = self.last_acquire.wrapping_add(1).max(1);
        let Some(template) = policy.policy.templates.first() else { return false };
        let (source, destination) = (template.source, template.destination);
        let acquire = Acquire { number: self.last_acquire, source, destination, packet, policy };
        self.events.push(Event::Acquire(Box::new(acquire)));
        true
    }

    /// Tells daemons that an association's packets come from another address and port now. Of one that is not there nothing is told.
    pub fn moved(&mut self, key: &AssociationKey, new: (IpAddr, u16)) {
        let Ok(state) = self.query(key) else { return };
        let SecurityAssociation { id, reqid, source, encapsulation, .. } = state.association;
        let old = (source, encapsulation.map_or(0, |ports| ports.source_port));
        self.events.push(Event::Mapping(Mapping { id, reqid, old, new }));
    }

    fn find(&self, id: &AssociationId, mark: u32) -> Option<u64> {
        let places = self.places.get(id)?;
        places.iter().copied().find(|place| self.entries.get(place).is_some_and(|entry| entry.is_found_by(id, mark)))
    }

    fn remove(&mut self, position: u64) -> Option<AssociationState> {
        let entry = self.entries.remove(&position)?;
        let id = entry.state.association.id;
        if let Some(places) = self.places.get_mut(&id) {
            places.retain(|&place| place != position);
            if places.is_empty() {
                self.places.remove(&id);
            }
        }
        Some(entry.state)
    }

    fn insert(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal> {
        if self.entries.len() >= ASSOCIATIONS_MAX {
            return Err(Refusal::new(Errno::NOBUFS, "as many associations as there may be"));
        }
        self.last_position += 1;
        let state = AssociationState {
            counters: Counters { added: self.now, ..Counters::default() },
            statistics: Statistics::default(),
            last_used: None,
            association,
        };
        self.places.entry(state.association.id).or_default().push(self.last_position);
        self.entries.insert(self.last_position, Entry { state: state.clone(), soft_told: false });
        Ok(state)
    }

    fn expire(&mut self, position: u64) {
        let now = self.now;
        let Some(entry) = self.entries.get_mut(&position) else { return };
        let (counters, lifetimes) = (&entry.state.counters, &entry.state.association.lifetimes);
        let since = |then: u64| now.saturating_sub(then);
        let over = |limit: fn(Limit) -> u64| {
            let timed = |limit: u64, then: u64| limit != 0 && then != 0 && since(then) >= limit;
            // Amounts are looked at when there are packets, as a kernel does, so that a limit of 0 ends with the first.
            let carried = counters.packets > 0;
            carried && (counters.bytes >= limit(lifetimes.bytes) || counters.packets >= limit(lifetimes.packets))
                || timed(limit(lifetimes.add_seconds), counters.added)
                || timed(limit(lifetimes.use_seconds), counters.used)
        };
        if over(|limit| limit.hard) {
            if let Some(state) = self.remove(position) {
                self.events.push(Event::Expire { state: Box::new(state), hard: true });
            }
        } else if !entry.soft_told && !entry.is_larval() && over(|limit| limit.soft) {
            entry.soft_told = true;
            self.events.push(Event::Expire { state: Box::new(entry.state.clone()), hard: false });
        }
    }

    /// An SPI that is unused; it need not be hard to guess (RFC 4303, 2.1).
    fn next_spi(&mut self, request: &SpiRequest) -> Option<u32> {
        let range = u64::from(request.max - request.min) + 1;
        // Begins elsewhere each time, so that one that has just ended is not given out again at once.
        self.spi_steps = self.spi_steps.wrapping_add(0x9e37_79b1);
        let begin = u64::from(self.spi_steps);
        (0..range.min(1 << 16)).find_map(|step| {
            let spi = u32::try_from(u64::from(request.min) + (begin + step) % range).ok()?;
            let id = AssociationId { spi, ..request.association.id };
            (spi != 0 && !self.places.contains_key(&id)).then_some(spi)
        })
    }
}

/// Which algorithms would be there, and how long their keys are.
fn check_algorithms(association: &SecurityAssociation) -> Result<(), Refusal> {
    const UNKNOWN: Refusal = Refusal::new(Errno::NOSYS, "an algorithm that is not known");
    const LENGTH: Refusal = Refusal::invalid("a key of a wrong length");
    let among = |len: usize, lengths: &[usize]| if lengths.contains(&len) { Ok(()) } else { Err(LENGTH) };
    match &association.algorithms {
        None => Err(Refusal::invalid("no algorithms")),
        Some(Algorithms::Aead { name, key, .. }) => match name.as_str() {
            "rfc4106(gcm(aes))" | "rfc4543(gcm(aes))" => among(key.len(), &[20, 28, 36]),
            "rfc4309(ccm(aes))" => among(key.len(), &[19, 27, 35]),
            "rfc7539esp(chacha20,poly1305)" => among(key.len(), &[36]),
            _ => Err(UNKNOWN),
        },
        Some(Algorithms::Separate { encryption, integrity }) => {
            match encryption.name.as_str() {
                "cbc(aes)" | "cbc(camellia)" => among(encryption.key.len(), &[16, 24, 32]),
                "rfc3686(ctr(aes))" => among(encryption.key.len(), &[20, 28, 36]),
                "cbc(des3_ede)" => among(encryption.key.len(), &[24]),
                "ecb(cipher_null)" => among(encryption.key.len(), &[0]),
                _ => return Err(UNKNOWN),
            }?;
            match integrity {
                Some(integrity) if integrity.key.is_empty() && integrity.name != "digest_null" => Err(LENGTH),
                Some(integrity) => crate::algorithms::default_icv_bits(&integrity.name).map(|_| ()),
                None => Ok(()),
            }
        }
    }
}

impl Kernel for Table {
    fn add(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal> {
        check_algorithms(&association)?;
        if self.find(&association.id, association.mark.unwrap_or_default().value).is_some() {
            return Err(Refusal::new(Errno::EXIST, "an association with this SPI is there"));
        }
        self.insert(association)
    }

    fn update(&mut self, new: SecurityAssociation) -> Result<AssociationState, Refusal> {
        check_algorithms(&new)?;
        let position = self.find(&new.id, new.mark.unwrap_or_default().value).ok_or(NO_ASSOCIATION)?;
        let entry = self.entries.get_mut(&position).ok_or(NO_ASSOCIATION)?;
        if entry.is_larval() {
            self.remove(position);
            return self.insert(new);
        }
        let association = &mut entry.state.association;
        if association.encapsulation.is_some() != new.encapsulation.is_some() {
            return Err(Refusal::invalid("an association does not begin or cease to be encapsulated"));
        }
        association.encapsulation = new.encapsulation;
        association.lifetimes = new.lifetimes;
        association.output_mark = new.output_mark;
        association.if_id = new.if_id;
        Ok(entry.state.clone())
    }

    fn delete(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal> {
        self.find(&key.id, key.mark.value).and_then(|position| self.remove(position)).ok_or(NO_ASSOCIATION)
    }

    fn query(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal> {
        let entry = self.find(&key.id, key.mark.value).and_then(|position| self.entries.get(&position));
        entry.map(|entry| entry.state.clone()).ok_or(NO_ASSOCIATION)
    }

    fn allocate_spi(&mut self, request: SpiRequest) -> Result<AssociationState, Refusal> {
        let spi = self.next_spi(&request).ok_or(Refusal::new(Errno::NOENT, "no SPI of the range is unused"))?;
        let mut association = request.association;
        association.id.spi = spi;
        association.algorithms = None;
        association.lifetimes = Lifetimes { add_seconds: Limit { soft: 0, hard: LARVAL_SECONDS }, ..Lifetimes::NONE };
        self.insert(association)
    }

    fn flush(&mut self, protocol: u8) -> usize {
        let before = self.entries.len();
        self.entries.retain(|_, entry| protocol != 0 && entry.state.association.id.protocol != protocol);
        let entries = &self.entries;
        self.places.retain(|_, places| {
            places.retain(|place| entries.contains_key(place));
            !places.is_empty()
        });
        before - self.entries.len()
    }

    fn list(&mut self, filter: &ListFilter, position: u64, most: usize) -> Vec<(u64, AssociationState)> {
        let behind = self.entries.range(position.saturating_add(1)..);
        let admitted = behind.filter(|(_, entry)| filter.admits(&entry.state.association));
        admitted.take(most).map(|(&position, entry)| (position, entry.state.clone())).collect()
    }

    fn set_replay(&mut self, update: ReplayUpdate) -> Result<AssociationState, Refusal> {
        let position = self.find(&update.key.id, update.key.mark.value).ok_or(NO_ASSOCIATION)?;
        let entry = self.entries.get_mut(&position).ok_or(NO_ASSOCIATION)?;
        if entry.is_larval() {
            return Err(Refusal::invalid("a larval association has no replay service"));
        }
        if let Some(replay) = update.replay {
            let own = &mut entry.state.association.replay;
            if replay.window != 0 && replay.window != own.window {
                return Err(Refusal::invalid("a replay window of another length"));
            }
            (own.sent, own.received, own.bitmap) = (replay.sent, replay.received, replay.bitmap);
        }
        if let Some(counters) = update.counters {
            entry.state.counters = counters;
        }
        Ok(entry.state.clone())
    }

    fn add_policy(&mut self, policy: Policy) -> Result<PolicyState, Refusal> {
        self.policies.add(policy, self.now)
    }

    fn update_policy(&mut self, policy: Policy) -> Result<PolicyState, Refusal> {
        self.policies.update(policy, self.now)
    }

    fn delete_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        self.policies.delete(key)
    }

    fn query_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        self.policies.query(key)
    }

    fn flush_policies(&mut self, kind: u8) {
        self.policies.flush(kind);
    }

    fn list_policies(&mut self, position: u64, most: usize) -> Vec<(u64, PolicyState)> {
        self.policies.list(position, most)
    }

    fn counts(&mut self) -> Counts {
        let associations = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        Counts { associations, policies: self.policies.counts() }
    }

    fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}

/// A mark that finds what has none.
impl From<AssociationId> for AssociationKey {
    fn from(id: AssociationId) -> Self {
        Self { id, mark: Mark::default() }
    }
}

#[cfg(test)]
mod tests;
