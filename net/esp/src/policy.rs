//! Security policies (RFC 4301, 4.4.1): which packets are protected by which association, pass, or are discarded.
//!
//! Policies are found by tuple-space search: those whose selectors have the same prefix lengths share a hash table, which is asked for the
//! packet's addresses cut to those lengths. The time depends on how many different pairs of lengths there are, not on how many policies.

use core::cell::Cell;
use core::net::IpAddr;
use core::ops::RangeInclusive;

use crate::error::AddError;
use crate::ip::{self, Flow, number_of};
use crate::limits::{IPV4_LEN, POLICIES_MAX};
use crate::slots::SaId;
use crate::table::{Key, Keyed, Table};

/// A network: an address with the number of leading bits that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// `None` for more bits than the address has. Bits behind the prefix do not count.
    pub fn new(address: IpAddr, len: u8) -> Option<Prefix> {
        (u32::from(len) <= if address.is_ipv4() { 32 } else { 128 }).then_some(Prefix { address, len })
    }

    /// One address.
    pub fn host(address: IpAddr) -> Prefix {
        Prefix { address, len: if address.is_ipv4() { 32 } else { 128 } }
    }

    fn version(self) -> u8 {
        if self.address.is_ipv4() { 4 } else { 6 }
    }
}

/// Ones where the bits of an address count.
fn mask(version: u8, len: u8) -> u128 {
    // Shifted by all bits there is nothing left.
    let high = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    if version == 4 { high >> 96 } else { high }
}

/// Which packets are meant (RFC 4301, 4.4.1.1). Source and destination are those of the packet, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Where it comes from.
    pub source: Prefix,
    /// Where it goes.
    pub destination: Prefix,
    /// Its protocol; any, if none.
    pub protocol: Option<u8>,
    /// Source ports; any, if none. Of ICMP, type and code as one number.
    pub source_ports: Option<RangeInclusive<u16>>,
    /// Destination ports; any, if none.
    pub destination_ports: Option<RangeInclusive<u16>>,
}

impl Selector {
    /// All packets between two networks. `None` when they are of two families.
    pub fn between(source: Prefix, destination: Prefix) -> Option<Selector> {
        let is_one = source.version() == destination.version();
        is_one.then_some(Selector { source, destination, protocol: None, source_ports: None, destination_ports: None })
    }

    fn lens(&self) -> [u8; 2] {
        [self.source.len, self.destination.len]
    }

    /// Both addresses and both masks.
    fn numbers(&self) -> ([u128; 2], [u128; 2]) {
        let masks = self.lens().map(|len| mask(self.source.version(), len));
        let [source, destination] = [self.source, self.destination].map(|prefix| number_of(prefix.address));
        ([source & masks[0], destination & masks[1]], masks)
    }

    /// What is asked of a packet whose addresses were found.
    #[inline]
    fn takes(&self, flow: &Flow) -> bool {
        let within = |range: &Option<RangeInclusive<u16>>, side: usize| {
            range.as_ref().is_none_or(|range| flow.ports().is_some_and(|ports| range.contains(&ports[side])))
        };
        self.protocol.is_none_or(|protocol| protocol == flow.protocol())
            && within(&self.source_ports, 0)
            && within(&self.destination_ports, 1)
    }

    /// Whether a packet is meant.
    pub fn matches(&self, flow: &Flow) -> bool {
        let (addresses, masks) = self.numbers();
        let (source, destination) = flow.addresses();
        let is_between = [source & masks[0], destination & masks[1]] == addresses;
        flow.version() == self.source.version() && is_between && self.takes(flow)
    }
}

/// What is done to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They go through the tunnel whose associations have this number; what comes in must have come through it.
    Protect(u32),
    /// They pass as they are.
    Bypass,
    /// They are dropped.
    Discard,
}

/// A security policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// For which packets.
    pub selector: Selector,
    /// What is done to them.
    pub action: Action,
    /// Where several policies mean a packet, the lowest number decides, and of equal ones the older policy.
    pub priority: u32,
}

/// The policies of one direction.
#[derive(Default)]
pub(crate) struct Policies {
    v4: Family<u64>,
    v6: Family<[u128; 2]>,
    count: usize,
    next_age: u64,
    /// Advances with each change, so that what was found is known to hold.
    epoch: u64,
}

/// Both addresses of a packet.
trait Addresses: Key {
    /// Of numbers that have their family's length.
    fn of(numbers: [u128; 2]) -> Self;

    fn masked(self, masks: Self) -> Self;
}

impl Addresses for u64 {
    #[inline(always)]
    fn of([source, destination]: [u128; 2]) -> u64 {
        (source as u64) << 32 | destination as u64
    }

    #[inline(always)]
    fn masked(self, masks: u64) -> u64 {
        self & masks
    }
}

impl Addresses for [u128; 2] {
    fn of(numbers: [u128; 2]) -> [u128; 2] {
        numbers
    }

    fn masked(self, masks: [u128; 2]) -> [u128; 2] {
        [self[0] & masks[0], self[1] & masks[1]]
    }
}

/// Those of one version of IP: a table for each pair of prefix lengths, the one with the best policy first.
struct Family<K: Addresses> {
    tuples: Vec<Tuple<K>>,
}

impl<K: Addresses> Default for Family<K> {
    fn default() -> Family<K> {
        Family { tuples: Vec::new() }
    }
}

struct Tuple<K: Addresses> {
    lens: [u8; 2],
    masks: K,
    entries: Table<Entry<K>>,
    /// The lowest priority number that is in there: what a worse one need not be looked for.
    best: u32,
}

/// The policies between two networks, with their ages, the one that decides first.
#[repr(align(64))]
struct Entry<K> {
    /// Both addresses, without the bits that do not count.
    addresses: K,
    /// What the first one says, where that asks for nothing but addresses: most often all that there is to find.
    plain: Decision,
    policies: Vec<Ranked>,
}

/// A policy, and what it says.
struct Ranked {
    decision: Decision,
    policy: Policy,
}

// One line of the cache.
const _: () = assert!(size_of::<Option<Entry<u64>>>() == 64);

impl<K: Addresses> Keyed for Entry<K> {
    type Key = K;

    #[inline(always)]
    fn key(&self) -> K {
        self.addresses
    }
}

/// What policies say of a packet: an action, or nothing. One word: what is stored in some pieces and loaded in others waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict(u64);

impl Verdict {
    pub(crate) const NOTHING: Verdict = Verdict(0);
    const DISCARD: Verdict = Verdict(1 << 32);
    const BYPASS: Verdict = Verdict(2 << 32);
    const PROTECT: u64 = 3 << 32;

    #[inline(always)]
    pub(crate) fn of(action: Action) -> Verdict {
        match action {
            Action::Protect(tunnel) => Verdict(Self::PROTECT | u64::from(tunnel)),
            Action::Bypass => Self::BYPASS,
            Action::Discard => Self::DISCARD,
        }
    }

    #[inline(always)]
    pub(crate) fn action(self) -> Option<Action> {
        match self {
            Self::NOTHING => None,
            Self::DISCARD => Some(Action::Discard),
            Self::BYPASS => Some(Action::Bypass),
            Verdict(word) => Some(Action::Protect(word as u32)),
        }
    }

    /// The tunnel that packets are protected by.
    #[inline(always)]
    pub(crate) fn tunnel(self) -> Option<u32> {
        (self.0 >= Self::PROTECT).then_some(self.0 as u32)
    }
}

/// What a policy says, and what it takes to say it before others.
#[derive(Clone)]
pub(crate) struct Decision {
    pub(crate) verdict: Verdict,
    priority: u64,
    age: u64,
    /// The association of its tunnel that packets left by last. It lies here since a packet that was found its policy would have to be found
    /// that anew, with another line of the cache; whoever uses it asks the association whether it still leads.
    pub(crate) led_by: Cell<Option<SaId>>,
}

impl<K> Entry<K> {
    fn renew(&mut self) {
        let is_plain = |selector: &Selector| {
            selector.protocol.is_none() && selector.source_ports.is_none() && selector.destination_ports.is_none()
        };
        let first = self.policies.first().filter(|first| is_plain(&first.policy.selector));
        self.plain = first.map_or_else(Decision::none, |first| first.decision.clone());
    }

    #[inline(never)]
    fn search(&self, flow: &Flow) -> Option<&Decision> {
        self.policies.iter().find(|ranked| ranked.policy.selector.takes(flow)).map(|ranked| &ranked.decision)
    }
}

/// That more than a packet's addresses has to be known of it.
pub(crate) struct NeedsFlow;

impl Decision {
    fn none() -> Decision {
        Decision { verdict: Verdict::NOTHING, priority: u64::MAX, age: u64::MAX, led_by: Cell::new(None) }
    }

    fn of(age: u64, policy: &Policy) -> Decision {
        let verdict = Verdict::of(policy.action);
        Decision { verdict, priority: policy.priority.into(), age, led_by: Cell::new(None) }
    }

    #[inline(always)]
    fn is_before(&self, other: &Decision) -> bool {
        (self.priority, self.age) < (other.priority, other.age)
    }
}

impl<K: Addresses> Family<K> {
    /// Adds a policy, or replaces the one with the same selector and priority; whether it is another one.
    fn add(&mut self, age: u64, policy: Policy) -> bool {
        let (lens, priority) = (policy.selector.lens(), policy.priority);
        let (addresses, masks) = policy.selector.numbers();
        let (addresses, masks) = (K::of(addresses), K::of(masks));
        let at = self.tuples.iter().position(|tuple| tuple.lens == lens).unwrap_or_else(|| {
            self.tuples.push(Tuple { lens, masks, entries: Table::default(), best: priority });
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[at];
        let nothing = || Entry { addresses, plain: Decision::none(), policies: Vec::new() };
        let entry = tuple.entries.get_or_insert_with(addresses, nothing);
        let is_same = |old: &&mut Ranked| old.policy.selector == policy.selector && old.policy.priority == priority;
        let same = entry.policies.iter_mut().find(is_same);
        let is_new = same.is_none();
        match same {
            Some(same) => *same = Ranked { decision: Decision::of(same.decision.age, &policy), policy },
            None => {
                let at = entry.policies.partition_point(|old| old.policy.priority <= priority);
                entry.policies.insert(at, Ranked { decision: Decision::of(age, &policy), policy });
            }
        }
        entry.renew();
        tuple.best = tuple.best.min(priority);
        self.tuples.sort_by_key(|tuple| tuple.best);
        is_new
    }

    fn remove(&mut self, selector: &Selector, priority: u32) -> Option<Policy> {
        let (lens, addresses) = (selector.lens(), K::of(selector.numbers().0));
        let tuple = self.tuples.iter_mut().find(|tuple| tuple.lens == lens)?;
        let entry = tuple.entries.get_mut(addresses)?;
        let is_it = |old: &Ranked| old.policy.selector == *selector && old.policy.priority == priority;
        let at = entry.policies.iter().position(is_it)?;
        let policy = entry.policies.remove(at).policy;
        entry.renew();
        if entry.policies.is_empty() {
            tuple.entries.remove(addresses);
        }
        self.tuples.retain(|tuple| !tuple.entries.is_empty());
        Some(policy)
    }

    /// The policy that decides on a packet, of which no more than its addresses may be known.
    #[inline(always)]
    fn find(&self, addresses: K, flow: Option<&Flow>) -> Result<Option<&Decision>, NeedsFlow> {
        let mut best: Option<&Decision> = None;
        for tuple in &self.tuples {
            if best.is_some_and(|best| best.priority < u64::from(tuple.best)) {
                break;
            }
            let Some(entry) = tuple.entries.get(addresses.masked(tuple.masks)) else { continue };
            let found = match entry.plain.verdict {
                Verdict::NOTHING => entry.search(flow.ok_or(NeedsFlow)?),
                _ => Some(&entry.plain),
            };
            if let Some(found) = found
                && best.is_none_or(|best| found.is_before(best))
            {
                best = Some(found);
            }
        }
        Ok(best)
    }
}

impl Policies {
    /// Adds a policy, or replaces the one with the same selector and priority.
    pub(crate) fn add(&mut self, policy: Policy) -> Result<(), AddError> {
        if self.count >= POLICIES_MAX {
            return Err(AddError::Full(POLICIES_MAX));
        }
        self.epoch += 1;
        let is_new = match policy.selector.source.version() {
            4 => self.v4.add(self.next_age, policy),
            _ => self.v6.add(self.next_age, policy),
        };
        self.next_age += u64::from(is_new);
        self.count += usize::from(is_new);
        Ok(())
    }

    /// Removes the policy with this selector and priority, if there is one.
    pub(crate) fn remove(&mut self, selector: &Selector, priority: u32) -> Option<Policy> {
        let removed = match selector.source.version() {
            4 => self.v4.remove(selector, priority),
            _ => self.v6.remove(selector, priority),
        };
        self.epoch += u64::from(removed.is_some());
        self.count -= usize::from(removed.is_some());
        removed
    }

    /// None, to be put in the place of these.
    pub(crate) fn emptied(&self) -> Policies {
        Policies { epoch: self.epoch + 1, ..Policies::default() }
    }

    /// A number that differs from what it was before the last change.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// What the policy says that decides on a packet, if there is one.
    pub(crate) fn find(&self, flow: &Flow) -> Option<&Decision> {
        let (source, destination) = flow.addresses();
        let found = match flow.version() {
            4 => self.v4.find(u64::of([source, destination]), Some(flow)),
            _ => self.v6.find([source, destination], Some(flow)),
        };
        // Everything is known of it.
        found.unwrap_or_default()
    }

    /// The same of a packet of version 4 between these addresses, the source in the high half, where those are enough.
    #[inline(always)]
    pub(crate) fn find_by_addresses(&self, addresses: u64) -> Result<Option<&Decision>, NeedsFlow> {
        self.v4.find(addresses, None)
    }

    /// What is done to a packet, if anything is said of it.
    pub(crate) fn action(&self, flow: &Flow) -> Option<Action> {
        self.find(flow)?.verdict.action()
    }

    /// Fetches where the policy of a packet of version 4 would lie, so that it is in the cache when it is looked for: of each pair of lengths, up
    /// to a few.
    #[inline(always)]
    pub(crate) fn fetch(&self, packet: &[u8]) {
        if let Some(head) = packet.first_chunk::<IPV4_LEN>().filter(|head| head[0] >> 4 == 4) {
            let addresses = ip::v4_addresses(head);
            for tuple in self.v4.tuples.iter().take(FETCHED_MAX) {
                tuple.entries.fetch(addresses.masked(tuple.masks));
            }
        }
    }
}

/// Tables of which a place is fetched for a packet at most.
const FETCHED_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn prefix() -> impl Strategy<Value = (bool, u8, u8)> {
        (any::<bool>(), 0u8..=32, 0u8..4)
    }

    fn address(is_v4: bool, low: u8) -> IpAddr {
        // Differences lie near both ends, so that prefixes tell them apart.
        let number = u32::from(low & 1) | u32::from(low >> 1) << 31;
        if is_v4 {
            Ipv4Addr::from(number).into()
        } else {
            Ipv6Addr::from(u128::from(number) << 96 | u128::from(number)).into()
        }
    }

    fn policy() -> impl Strategy<Value = Policy> {
        let ports = prop::option::of((0u16..3, 0u16..3).prop_map(|(from, more)| from..=from + more));
        (prefix(), (0u8..=32, 0u8..4), prop::option::of(16u8..18), ports.clone(), ports, 0u32..4, 0u32..100).prop_map(
            |(
                (is_v4, len, low),
                (other_len, other_low),
                protocol,
                source_ports,
                destination_ports,
                priority,
                tunnel,
            )| {
                let source = Prefix::new(address(is_v4, low), len).expect("bits");
                let destination = Prefix::new(address(is_v4, other_low), other_len).expect("bits");
                let selector = Selector { source, destination, protocol, source_ports, destination_ports };
                let action = match tunnel {
                    0..10 => Action::Bypass,
                    10..20 => Action::Discard,
                    _ => Action::Protect(tunnel.wrapping_neg()),
                };
                Policy { selector, action, priority }
            },
        )
    }

    fn flow() -> impl Strategy<Value = Flow> {
        (any::<bool>(), 0u8..4, 0u8..4, 16u8..18, prop::option::of([0u16..5, 0u16..5])).prop_map(
            |(is_v4, source, destination, protocol, ports)| {
                let ports = ports.map(|[source, destination]| u32::from(source) << 16 | u32::from(destination));
                let numbers = [source, destination].map(|low| number_of(address(is_v4, low)));
                Flow::new(if is_v4 { 4 } else { 6 }, protocol, ports, numbers[0], numbers[1])
            },
        )
    }

    proptest! {
        #[test]
        fn the_policy_that_is_found_is_the_first_of_all_that_mean_the_packet(
            policies in prop::collection::vec(policy(), 0..30),
            removed in prop::collection::vec(0usize..30, 0..10),
            flows in prop::collection::vec(flow(), 1..30),
        ) {
            let mut table = Policies::default();
            let mut plain: Vec<Policy> = Vec::new();
            for policy in &policies {
                table.add(policy.clone()).expect("room");
                let same = |old: &&mut Policy| old.selector == policy.selector && old.priority == policy.priority;
                match plain.iter_mut().find(same) {
                    Some(old) => *old = policy.clone(),
                    None => plain.push(policy.clone()),
                }
            }
            for at in removed {
                if at < plain.len() {
                    let policy = plain.remove(at);
                    prop_assert_eq!(table.remove(&policy.selector, policy.priority), Some(policy.clone()));
                    prop_assert_eq!(table.remove(&policy.selector, policy.priority), None);
                }
            }
            prop_assert_eq!(table.len(), plain.len());
            for flow in flows {
                let first = plain.iter().filter(|policy| policy.selector.matches(&flow)).min_by_key(|policy| policy.priority);
                let found = table.find(&flow);
                let (source, destination) = flow.addresses();
                if flow.version() == 4 && let Ok(by_addresses) = table.find_by_addresses(u64::of([source, destination])) {
                    prop_assert_eq!(by_addresses.map(core::ptr::from_ref), found.map(core::ptr::from_ref), "{:?}", flow);
                }
                let said = found.map(|found| (found.verdict.action(), found.priority));
                prop_assert_eq!(said, first.map(|first| (Some(first.action), first.priority.into())), "{:?}", flow);
            }
        }
    }
}
