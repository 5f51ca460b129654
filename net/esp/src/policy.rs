//! Security policies (RFC 4301, 4.4.1): which packets are protected by which association, pass, or are discarded.
//!
//! Policies are found by tuple-space search: those whose selectors have the same prefix lengths share a hash table, which is asked for the
//! packet's addresses cut to those lengths. The time depends on how many different pairs of lengths there are, not on how many policies.

use core::net::IpAddr;
use core::ops::RangeInclusive;
use std::collections::HashMap;

use crate::error::AddError;
use crate::ip::{Flow, number_of};
use crate::limits::POLICIES_MAX;
use crate::slots::Spread;

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

/// The bits of an address that count.
#[inline]
fn cut(version: u8, address: u128, len: u8) -> u128 {
    let bits = if version == 4 { 32 } else { 128 };
    // Shifted by all bits there is nothing left.
    address.checked_shr(bits - u32::from(len)).unwrap_or(0)
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

    fn key(&self) -> Key {
        let (source, destination) = (self.source, self.destination);
        let version = source.version();
        Key {
            version,
            source: cut(version, number_of(source.address), source.len),
            destination: cut(version, number_of(destination.address), destination.len),
        }
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
        let Key { version, source, destination } = self.key();
        let (from, to) = flow.addresses();
        flow.version() == version
            && cut(version, from, self.source.len) == source
            && cut(version, to, self.destination.len) == destination
            && self.takes(flow)
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    version: u8,
    source: u128,
    destination: u128,
}

/// The policies of one direction.
#[derive(Default)]
pub(crate) struct Policies {
    /// One for each pair of prefix lengths.
    tuples: Vec<Tuple>,
    count: usize,
    next_age: u64,
    /// Advances with each change, so that what was found is known to hold.
    epoch: u64,
}

struct Tuple {
    version: u8,
    lens: (u8, u8),
    /// By both addresses, cut: of IPv4 as one word.
    v4: HashMap<u64, Entry, Spread>,
    v6: HashMap<(u128, u128), Entry, Spread>,
    /// The lowest priority number that is in there: what a worse one need not be looked for.
    best: u32,
}

/// The policies between two networks, with their ages, the one that decides first.
#[derive(Default)]
struct Entry {
    /// What the first one says, where that asks for nothing but addresses: most often all that there is to find, and it lies with the key.
    plain: Option<Decision>,
    policies: Vec<(u64, Policy)>,
}

/// What policies say of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) action: Action,
    priority: u32,
    age: u64,
}

impl Entry {
    fn renew(&mut self) {
        let is_plain = |selector: &Selector| {
            selector.protocol.is_none() && selector.source_ports.is_none() && selector.destination_ports.is_none()
        };
        self.plain = self.policies.first().filter(|(_, policy)| is_plain(&policy.selector)).map(Decision::of);
    }

    #[inline]
    fn find(&self, flow: &Flow) -> Option<Decision> {
        if self.plain.is_some() {
            return self.plain;
        }
        self.policies.iter().find(|(_, policy)| policy.selector.takes(flow)).map(Decision::of)
    }
}

impl Decision {
    fn of((age, policy): &(u64, Policy)) -> Decision {
        Decision { action: policy.action, priority: policy.priority, age: *age }
    }
}

impl Tuple {
    fn entry(&mut self, key: Key) -> &mut Entry {
        match key.version {
            4 => self.v4.entry(key.word()).or_default(),
            _ => self.v6.entry((key.source, key.destination)).or_default(),
        }
    }

    fn entry_there(&mut self, key: Key) -> Option<&mut Entry> {
        match key.version {
            4 => self.v4.get_mut(&key.word()),
            _ => self.v6.get_mut(&(key.source, key.destination)),
        }
    }

    fn forget(&mut self, key: Key) {
        match key.version {
            4 => self.v4.remove(&key.word()),
            _ => self.v6.remove(&(key.source, key.destination)),
        };
    }

    fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }
}

impl Key {
    #[inline(always)]
    fn word(self) -> u64 {
        (self.source as u64) << 32 | self.destination as u64 & 0xffff_ffff
    }
}

impl Policies {
    /// Adds a policy, or replaces the one with the same selector and priority.
    pub(crate) fn add(&mut self, policy: Policy) -> Result<(), AddError> {
        if self.count >= POLICIES_MAX {
            return Err(AddError::Full(POLICIES_MAX));
        }
        self.epoch += 1;
        let (key, lens) = (policy.selector.key(), (policy.selector.source.len, policy.selector.destination.len));
        let (version, priority) = (key.version, policy.priority);
        let found = self.tuples.iter().position(|tuple| tuple.version == version && tuple.lens == lens);
        let at = found.unwrap_or_else(|| {
            self.tuples.push(Tuple { version, lens, v4: HashMap::default(), v6: HashMap::default(), best: priority });
            self.tuples.len() - 1
        });
        let tuple = &mut self.tuples[at];
        let entry = tuple.entry(key);
        let entries = &mut entry.policies;
        if let Some((_, same)) =
            entries.iter_mut().find(|(_, old)| old.selector == policy.selector && old.priority == priority)
        {
            *same = policy;
            entry.renew();
            return Ok(());
        }
        let at = entries.partition_point(|(_, old)| old.priority <= priority);
        entries.insert(at, (self.next_age, policy));
        entry.renew();
        tuple.best = tuple.best.min(priority);
        self.next_age += 1;
        self.count += 1;
        self.tuples.sort_by_key(|tuple| tuple.best);
        Ok(())
    }

    /// Removes the policy with this selector and priority, if there is one.
    pub(crate) fn remove(&mut self, selector: &Selector, priority: u32) -> Option<Policy> {
        let (key, lens) = (selector.key(), (selector.source.len, selector.destination.len));
        let tuple = self.tuples.iter_mut().find(|tuple| tuple.version == key.version && tuple.lens == lens)?;
        let entry = tuple.entry_there(key)?;
        let entries = &mut entry.policies;
        let at = entries.iter().position(|(_, old)| old.selector == *selector && old.priority == priority)?;
        let (_, policy) = entries.remove(at);
        self.epoch += 1;
        entry.renew();
        if entry.policies.is_empty() {
            tuple.forget(key);
        }
        self.count -= 1;
        self.tuples.retain(|tuple| !tuple.is_empty());
        Some(policy)
    }

    pub(crate) fn clear(&mut self) {
        *self = Policies { epoch: self.epoch + 1, ..Policies::default() };
    }

    /// A number that differs from what it was before the last change.
    #[inline]
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// What is said of a packet.
    #[inline]
    pub(crate) fn find(&self, flow: &Flow) -> Option<Decision> {
        let mut best: Option<Decision> = None;
        let (version, (source, destination)) = (flow.version(), flow.addresses());
        for tuple in self.tuples.iter().filter(|tuple| tuple.version == version) {
            if best.is_some_and(|best| best.priority < tuple.best) {
                break;
            }
            let (source, destination) = (cut(version, source, tuple.lens.0), cut(version, destination, tuple.lens.1));
            let entry = match version {
                4 => tuple.v4.get(&Key { version, source, destination }.word()),
                _ => tuple.v6.get(&(source, destination)),
            };
            let Some(found) = entry.and_then(|entry| entry.find(flow)) else { continue };
            if best.is_none_or(|best| (found.priority, found.age) < (best.priority, best.age)) {
                best = Some(found);
            }
        }
        best
    }
}

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
                Policy { selector, action: Action::Protect(tunnel), priority }
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
                let found = table.find(&flow).map(|found| (found.action, found.priority));
                prop_assert_eq!(found, first.map(|first| (first.action, first.priority)), "{:?}", flow);
            }
        }
    }
}
