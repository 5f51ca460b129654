//! Associations and policies, and who adds and removes them.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use ciphermill::{KeyPolicy, Mill};
use ciphermill_contract::{Direction, Directions, KeyId, KeyMaterial};
use zeroize::Zeroizing;

use crate::association::{
    Common, Inbound, Keys, Life, Meter, NEVER_ALLOWED, Outbound, Parameters, Sequence, Shape, Usage, path_mtu_min,
};
use crate::columns::GroupKind;
use crate::counters::{Counters, Drop};
use crate::error::AddError;
use crate::icmp::Limiter;
use crate::ip::{Flow, Header};
use crate::limits::{ASK_AGAIN, ASSOCIATIONS_MAX, EVENTS_MAX};
use crate::path::Paths;
use crate::policy::{Policies, Policy, Selector};
use crate::slots::{Numbered, SaId, Slots};
use crate::table::Table;

/// What whoever manages keys has to hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Policy wants a packet protected by a tunnel that has no association.
    Acquire {
        /// The tunnel.
        tunnel: u32,
        /// The packet, which was dropped.
        flow: Flow,
    },
    /// An association has met its soft bound.
    Ending(SaId),
    /// An association is over: its hard bound is met, or its numbers are used up.
    Over(SaId),
    /// The newest authentic packet came from another address or port than those before: a NAT has changed its mind (RFC 3948, 4).
    Moved {
        /// The association.
        id: SaId,
        /// Where the peer is now.
        source: IpAddr,
        /// Its port.
        port: u16,
    },
}

/// The associations and policies of one worker, or of several that take turns.
pub struct Tunnels {
    pub(crate) mill: Mill,
    pub(crate) outbound: Slots<Outbound>,
    pub(crate) inbound: Slots<Inbound>,
    pub(crate) by_spi: Table<Numbered>,
    /// The outbound associations of each tunnel, the newest last.
    by_tunnel: HashMap<u32, Vec<SaId>>,
    /// The one that each sends by. Policies know it, so that packets do not ask.
    pub(crate) current: HashMap<u32, SaId>,
    /// The SPI that a tunnel shall send by, where somebody has said one.
    leads: HashMap<u32, u32>,
    pub(crate) kinds: Vec<GroupKind>,
    pub(crate) outbound_policies: Policies,
    pub(crate) inbound_policies: Policies,
    pub(crate) sent: Counters,
    pub(crate) received: Counters,
    pub(crate) events: VecDeque<Event>,
    /// Tunnels for which an association was asked for, and when.
    asked: HashMap<u32, Duration>,
    /// Whom ICMP errors come from.
    pub(crate) own: Vec<IpAddr>,
    pub(crate) limiter: Limiter,
    /// Of what routers say of paths.
    pub(crate) listening: Limiter,
    pub(crate) paths: Paths,
    pub(crate) udp_ports: Vec<u16>,
}

impl Tunnels {
    /// None yet. Keys go into the mill's table and are destroyed with their association.
    pub fn new(mill: &Mill) -> Tunnels {
        Tunnels {
            mill: mill.clone(),
            outbound: Slots::new(Direction::Encrypt),
            inbound: Slots::new(Direction::Decrypt),
            by_spi: Table::default(),
            by_tunnel: HashMap::default(),
            current: HashMap::default(),
            leads: HashMap::default(),
            kinds: Vec::new(),
            outbound_policies: Policies::default(),
            inbound_policies: Policies::default(),
            sent: Counters::default(),
            received: Counters::default(),
            events: VecDeque::new(),
            asked: HashMap::new(),
            own: Vec::new(),
            limiter: Limiter::new(),
            listening: Limiter::new(),
            paths: Paths::default(),
            udp_ports: vec![4500],
        }
    }

    /// Addresses that ICMP errors are sent from; without one of a packet's family, none is.
    pub fn set_own_addresses(&mut self, own: Vec<IpAddr>) {
        self.own = own;
    }

    /// UDP ports to which encapsulated ESP comes; 4500, if nobody says otherwise.
    pub fn set_udp_ports(&mut self, ports: Vec<u16>) {
        self.udp_ports = ports;
    }

    /// Adds an association that packets leave by. The newest of a tunnel is used.
    ///
    /// # Errors
    /// See [`AddError`]; nothing is added then.
    pub fn add_outbound(&mut self, parameters: Parameters, keys: &Keys, now: Duration) -> Result<SaId, AddError> {
        parameters.check(Direction::Encrypt)?;
        let outer = parameters.outer()?;
        let configured = parameters.inner_max(outer.len(), None)?;
        let heard = self.paths.path_mtu(parameters.destination);
        let inner_max = parameters.inner_max(outer.len(), heard).unwrap_or(configured);
        let (tunnel, last, pad_to) = (parameters.tunnel, parameters.last, parameters.pad_to);
        let meter = Meter::new(&parameters.lifetimes, now);
        let common = Box::new(self.common(parameters, keys, Direction::Encrypt, self.outbound.len())?);
        let tail_max = u16::from(common.alignment) + 1 + u16::from(common.icv_len);
        let shape = Shape::new(outer, &common);
        let id = self.outbound.add(Outbound { last, meter, shape, common, inner_max, pad_to, tail_max, leads: false });
        self.by_tunnel.entry(tunnel).or_default().push(id);
        self.choose(tunnel);
        Ok(id)
    }

    /// Adds an association that packets come by.
    ///
    /// # Errors
    /// See [`AddError`]; nothing is added then.
    pub fn add_inbound(&mut self, parameters: Parameters, keys: &Keys, now: Duration) -> Result<SaId, AddError> {
        parameters.check(Direction::Decrypt)?;
        let (spi, window) = (parameters.spi, parameters.window()?);
        if self.by_spi.get(spi).is_some() {
            return Err(AddError::Exists(spi));
        }
        let meter = Meter::new(&parameters.lifetimes, now);
        let common = self.common(parameters, keys, Direction::Decrypt, self.inbound.len())?;
        let id = self.inbound.add(Inbound {
            window,
            allowed: Header::NONE.flow,
            allowed_at: NEVER_ALLOWED,
            moved_to: None,
            meter,
            common,
        });
        self.by_spi.insert(Numbered { number: spi, id });
        Ok(id)
    }

    fn common(
        &mut self,
        parameters: Parameters,
        keys: &Keys,
        direction: Direction,
        count: usize,
    ) -> Result<Common, AddError> {
        let transform = parameters.transform;
        let lens = (transform.key_len(), transform.salt_len());
        if (keys.key.len(), keys.salt.len()) != lens {
            return Err(AddError::KeyLength(transform, lens.0, lens.1, keys.key.len(), keys.salt.len()));
        }
        if count >= ASSOCIATIONS_MAX {
            return Err(AddError::Full(ASSOCIATIONS_MAX));
        }
        let kind = GroupKind { transform, is_extended: parameters.sequence == Sequence::Extended };
        let mut salt = Zeroizing::new([0; 4]);
        salt[..lens.1].copy_from_slice(&keys.salt);
        let directions = if direction == Direction::Encrypt { Directions::ENCRYPT } else { Directions::DECRYPT };
        let key_ids = import(&self.mill, kind, keys, directions)?;
        let found = self.kinds.iter().position(|known| *known == kind);
        let group = found.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        Ok(Common {
            group: group as u16,
            kind,
            keys: key_ids,
            spi: parameters.spi.to_be_bytes(),
            salt,
            salt_len: lens.1 as u8,
            iv_len: transform.iv_len() as u8,
            icv_len: transform.icv_len() as u8,
            alignment: transform.alignment() as u8,
            has_udp: parameters.encapsulation.is_some(),
            parameters: Box::new(parameters),
        })
    }

    /// Has a tunnel's packets leave by the association with this SPI while it is there, rather than by the newest: the other end may not have
    /// the newest yet. `None` is the newest again.
    pub fn lead_outbound(&mut self, tunnel: u32, spi: Option<u32>) {
        match spi {
            Some(spi) => self.leads.insert(tunnel, spi),
            None => self.leads.remove(&tunnel),
        };
        self.choose(tunnel);
    }

    fn choose(&mut self, tunnel: u32) {
        let ids = self.by_tunnel.get(&tunnel).map(Vec::as_slice).unwrap_or_default();
        let lead = self.leads.get(&tunnel).map(|spi| spi.to_be_bytes());
        let is_lead = |id: &&SaId| lead.is_some() && self.outbound.get(**id).map(|one| one.common.spi) == lead;
        let chosen = ids.iter().rev().find(is_lead).or(ids.last()).copied();
        let before = match chosen {
            Some(id) => {
                self.asked.remove(&tunnel);
                self.current.insert(tunnel, id)
            }
            None => self.current.remove(&tunnel),
        };
        for (id, leads) in [(before, false), (chosen, true)] {
            if let Some(one) = id.and_then(|id| self.outbound.get_mut(id)) {
                one.leads = leads;
            }
        }
    }

    /// Has no more packets leave by an association, while those that have their numbers still do: for whoever removes it a moment later, when
    /// a successor is there (RFC 7296, 2.8).
    pub fn retire_outbound(&mut self, id: SaId) {
        let Some(tunnel) = self.outbound.get(id).map(|one| one.common.parameters.tunnel) else { return };
        if let Some(ids) = self.by_tunnel.get_mut(&tunnel) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_tunnel.remove(&tunnel);
            }
        }
        self.choose(tunnel);
    }

    /// Removes an association that packets leave by, and its keys. Packets that are not yet encrypted are dropped.
    pub fn remove_outbound(&mut self, id: SaId) -> Option<(Parameters, Usage)> {
        self.retire_outbound(id);
        let removed = self.outbound.remove(id)?;
        Some(self.end(*removed.common, &removed.meter))
    }

    /// The same of one that packets come by.
    pub fn remove_inbound(&mut self, id: SaId) -> Option<(Parameters, Usage)> {
        let removed = self.inbound.remove(id)?;
        self.by_spi.remove(removed.common.parameters.spi);
        Some(self.end(removed.common, &removed.meter))
    }

    fn end(&self, common: Common, meter: &Meter) -> (Parameters, Usage) {
        destroy(&self.mill, &common.keys);
        (*common.parameters, meter.usage())
    }

    /// The inbound association with an SPI.
    #[inline]
    pub fn inbound_of(&self, spi: u32) -> Option<SaId> {
        self.by_spi.get(spi).map(|found| found.id)
    }

    /// The outbound associations.
    pub fn outbound_all(&self) -> impl Iterator<Item = (SaId, &Parameters, Usage)> {
        self.outbound.iter().map(|(id, one)| (id, &*one.common.parameters, one.meter.usage()))
    }

    /// The inbound ones.
    pub fn inbound_all(&self) -> impl Iterator<Item = (SaId, &Parameters, Usage)> {
        self.inbound.iter().map(|(id, one)| (id, &*one.common.parameters, one.meter.usage()))
    }

    /// The last number that an outbound association has sent, or an inbound one accepted.
    pub fn last_number(&self, direction: Direction, id: SaId) -> Option<u64> {
        match direction {
            Direction::Encrypt => self.outbound.get(id).map(|one| one.last),
            Direction::Decrypt => self.inbound.get(id).map(|one| one.window.top()),
        }
    }

    /// An association's SPI.
    pub fn spi(&self, direction: Direction, id: SaId) -> Option<u32> {
        let spi = match direction {
            Direction::Encrypt => self.outbound.get(id).map(|one| one.common.spi),
            Direction::Decrypt => self.inbound.get(id).map(|one| one.common.spi),
        };
        spi.map(u32::from_be_bytes)
    }

    /// What went through an association.
    pub fn usage(&self, direction: Direction, id: SaId) -> Option<Usage> {
        match direction {
            Direction::Encrypt => self.outbound.get(id).map(|one| one.meter.usage()),
            Direction::Decrypt => self.inbound.get(id).map(|one| one.meter.usage()),
        }
    }

    /// Has an association go on behind a number, as when it is taken over from elsewhere. Numbers never go back: an outbound association that
    /// has sent more stays where it is, and what an inbound one has not seen below the number counts as seen.
    pub fn advance(&mut self, direction: Direction, id: SaId, last: u64) {
        match direction {
            Direction::Encrypt => {
                if let Some(one) = self.outbound.get_mut(id) {
                    one.last = one.last.max(last.min(one.last_max()));
                }
            }
            Direction::Decrypt => {
                if let Some(one) = self.inbound.get_mut(id).filter(|one| one.window.top() < last) {
                    one.window = one.window.clone().starting_at(last);
                }
            }
        }
    }

    /// How many bytes a packet on a path may have with all headers, for the next ten minutes (RFC 1191, 6.3), if that is less than configured: for
    /// the associations to an address that there are and that are added. Less than every path carries is not believed (RFC 8201, 4), and changes nothing.
    pub fn set_path_mtu(&mut self, destination: IpAddr, path_mtu: u16, now: Duration) {
        if path_mtu >= path_mtu_min(destination) && self.paths.hear(destination, path_mtu, now) {
            self.fit(destination);
        }
    }

    /// Has the associations to an address send what is known of the path.
    fn fit(&mut self, destination: IpAddr) {
        let heard = self.paths.path_mtu(destination);
        let there = self.outbound.iter_mut().map(|(_, one)| one);
        for one in there.filter(|one| one.common.parameters.destination == destination) {
            let parameters = &one.common.parameters;
            // Where a tunnel could carry nothing in so little, it stays as it is.
            if let Ok(inner_max) = parameters.inner_max(one.shape.outer.len(), heard) {
                one.inner_max = inner_max;
            }
        }
    }

    /// Adds a policy for packets that leave, or for those that come out of tunnels or past them; replaces one with its selector and priority.
    ///
    /// # Errors
    /// `Full`.
    pub fn add_policy(&mut self, direction: Direction, policy: Policy) -> Result<(), AddError> {
        self.policies(direction).add(policy)
    }

    /// Removes a policy.
    pub fn remove_policy(&mut self, direction: Direction, selector: &Selector, priority: u32) -> Option<Policy> {
        self.policies(direction).remove(selector, priority)
    }

    /// Puts policies, each for packets of its direction, in the place of all that there are.
    ///
    /// # Errors
    /// `Full`; nothing is changed then.
    pub fn set_policies(&mut self, policies: impl IntoIterator<Item = (Direction, Policy)>) -> Result<(), AddError> {
        let (mut outbound, mut inbound) = (self.outbound_policies.emptied(), self.inbound_policies.emptied());
        for (direction, policy) in policies {
            let of_direction = if direction == Direction::Encrypt { &mut outbound } else { &mut inbound };
            of_direction.add(policy)?;
        }
        (self.outbound_policies, self.inbound_policies) = (outbound, inbound);
        Ok(())
    }

    /// How many policies there are.
    pub fn policy_count(&self, direction: Direction) -> usize {
        match direction {
            Direction::Encrypt => self.outbound_policies.len(),
            Direction::Decrypt => self.inbound_policies.len(),
        }
    }

    fn policies(&mut self, direction: Direction) -> &mut Policies {
        match direction {
            Direction::Encrypt => &mut self.outbound_policies,
            Direction::Decrypt => &mut self.inbound_policies,
        }
    }

    /// What happened to packets that left, and to those that came.
    pub fn counters(&self) -> (&Counters, &Counters) {
        (&self.sent, &self.received)
    }

    /// What has happened since it was last asked.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    /// Asks for an association of a tunnel, unless that was done a moment ago: every packet would, and whoever makes it is at work.
    #[cold]
    pub(crate) fn ask(&mut self, tunnel: u32, flow: Flow, now: Duration) {
        if self.asked.get(&tunnel).is_none_or(|since| now.saturating_sub(*since) >= ASK_AGAIN) {
            self.asked.insert(tunnel, now);
            tell(&mut self.events, &mut self.sent, Event::Acquire { tunnel, flow });
        }
    }

    /// Looks for associations whose time has run out, while no packets come: events tell of them. Paths that were said to carry less are tried
    /// again after a while.
    pub fn tick(&mut self, now: Duration) {
        for destination in self.paths.forget(now) {
            self.fit(destination);
        }
        self.asked.retain(|_, since| now.saturating_sub(*since) < ASK_AGAIN);
        let outbound = self.outbound.iter_mut().map(|(id, one)| (id, one.meter.passes(now)));
        let inbound = self.inbound.iter_mut().map(|(id, one)| (id, one.meter.passes(now)));
        let lives: Vec<(SaId, Life)> =
            outbound.chain(inbound).filter(|(_, life)| matches!(life, Life::Ending | Life::Over)).collect();
        for (id, life) in lives {
            let event = if life == Life::Over { Event::Over(id) } else { Event::Ending(id) };
            tell(&mut self.events, &mut self.sent, event);
        }
    }

    /// Where ESP in UDP comes to and from, as a pair of an association's own.
    pub(crate) fn is_udp_port(&self, port: u16) -> bool {
        self.udp_ports.contains(&port)
    }
}

/// Keeps an event, or counts it as lost.
pub(crate) fn tell(events: &mut VecDeque<Event>, counters: &mut Counters, event: Event) {
    // A packet a second may say the same as the one before; whoever is late hears it once.
    if events.back() == Some(&event) {
        return;
    }
    if events.len() < EVENTS_MAX { events.push_back(event) } else { counters.events_lost += 1 }
}

/// Whether a packet of an association may pass; tells of bounds that are met with it.
#[inline(always)]
pub(crate) fn goes_on(id: SaId, life: Life, events: &mut VecDeque<Event>, counters: &mut Counters) -> Result<(), Drop> {
    if life == Life::Good { Ok(()) } else { has_met(id, life, events, counters) }
}

#[cold]
fn has_met(id: SaId, life: Life, events: &mut VecDeque<Event>, counters: &mut Counters) -> Result<(), Drop> {
    match life {
        Life::Good => Ok(()),
        Life::Ending => {
            tell(events, counters, Event::Ending(id));
            Ok(())
        }
        Life::Over => {
            tell(events, counters, Event::Over(id));
            Err(Drop::Expired)
        }
        Life::Past => Err(Drop::Expired),
        // RFC 4303, 3.3.3: numbers never come again.
        Life::UsedUp => {
            tell(events, counters, Event::Over(id));
            Err(Drop::SequenceOverflow)
        }
    }
}

fn import(mill: &Mill, kind: GroupKind, keys: &Keys, directions: Directions) -> Result<[KeyId; 2], AddError> {
    let mut ids = [KeyId::NONE; 2];
    for (at, part) in kind.suites().into_iter().enumerate() {
        let Some((suite, range)) = part else { continue };
        let policy = KeyPolicy::only(suite).directions(directions);
        match mill.keys().import(KeyMaterial::secret(&keys.key[range]), policy) {
            Ok(id) => ids[at] = id,
            Err(error) => {
                destroy(mill, &ids);
                return Err(AddError::Key(error));
            }
        }
    }
    Ok(ids)
}

fn destroy(mill: &Mill, keys: &[KeyId; 2]) {
    for key in keys.iter().filter(|key| **key != KeyId::NONE) {
        // Whoever else has destroyed it has done what is wanted.
        let _ = mill.keys().destroy(*key);
    }
}

impl core::ops::Drop for Tunnels {
    fn drop(&mut self) {
        let outbound = self.outbound.iter().map(|(_, one)| one.common.keys);
        let inbound = self.inbound.iter().map(|(_, one)| one.common.keys);
        let all: Vec<[KeyId; 2]> = outbound.chain(inbound).collect();
        all.iter().for_each(|keys| destroy(&self.mill, keys));
    }
}
