//! Keys from an IKE daemon: the gateway as the kernel of whoever speaks `linux/xfrm.h`.
//!
//! What the daemon says is kept in a [`Table`], which has the kernel's rules: SPIs that are given out, larval associations, lifetimes and their
//! events. What the packets need of it goes into the gateway's [`esp::Tunnels`], and what went through is counted back before anybody asks.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ciphermill_contract::Direction;
use ciphermill_esp as esp;
use ciphermill_xfrm::{
    self as xfrm, Algorithms, AssociationId, AssociationKey, AssociationState, Counts, Errno, Event, Kernel,
    ListFilter, Mode, PolicyKey, PolicyState, Refusal, ReplayUpdate, SecurityAssociation, SpiRequest, Table,
};
use zeroize::Zeroizing;

use crate::line::lock;

/// The protocol numbers whose ports are a type and a code.
const ICMP: [u8; 2] = [1, 58];

/// Tunnels without associations and policies whose numbers are kept.
const TUNNELS_KEPT: usize = 256;

/// How long the last number under an SPI is kept.
const NUMBERS_KEPT: Duration = Duration::from_secs(600);

/// How long an outbound association that was ended keeps its keys: longer than a burst is worked on.
const RETIRED_FOR: Duration = Duration::from_millis(250);

/// An association of the daemon's that packets go through.
#[derive(Clone, Copy)]
struct Installed {
    direction: Direction,
    id: esp::SaId,
    /// What the table has been told of.
    told: esp::Usage,
    tunnel: u32,
}

/// The kernel of a daemon, with the gateway's associations and policies below it.
pub struct Keys {
    table: Table,
    tunnels: Arc<Mutex<esp::Tunnels>>,
    epoch: Instant,
    /// Addresses of this end: what is sent to them comes in.
    local: Vec<IpAddr>,
    path_mtu: u16,
    installed: HashMap<AssociationId, Installed>,
    names: HashMap<(bool, esp::SaId), AssociationId>,
    policies: Vec<(PolicyKey, Vec<(Direction, esp::Policy)>)>,
    heard: Arc<Mutex<Vec<esp::Event>>>,
    /// Outbound associations that the daemon has ended, since when.
    retired: Vec<(Duration, esp::SaId)>,
    /// The last numbers of those that are gone, by SPI, and when they went.
    last_numbers: HashMap<u32, (Duration, u64)>,
    /// The gateway's numbers of tunnels. Associations and templates belong together when all of that is the same, as for a kernel.
    tunnel_numbers: HashMap<Ends, u32>,
    last_tunnel: u32,
}

/// A `reqid` with source and destination of a tunnel's packets.
type Ends = (u32, IpAddr, IpAddr);

impl Keys {
    /// A kernel for the gateway's tunnels. `local` are this end's addresses, `path_mtu` the bytes that outer packets may have, `heard` where the
    /// gateway puts its events.
    pub fn new(
        tunnels: Arc<Mutex<esp::Tunnels>>,
        epoch: Instant,
        local: Vec<IpAddr>,
        path_mtu: u16,
        heard: Arc<Mutex<Vec<esp::Event>>>,
    ) -> Keys {
        Keys {
            table: Table::new(),
            tunnels,
            epoch,
            local,
            path_mtu,
            installed: HashMap::new(),
            names: HashMap::new(),
            policies: Vec::new(),
            heard,
            retired: Vec::new(),
            last_numbers: HashMap::new(),
            tunnel_numbers: HashMap::new(),
            last_tunnel: 0,
        }
    }

    /// The number of a tunnel. Those that nothing has any more are forgotten now and then.
    fn number(&mut self, ends: Ends) -> u32 {
        if let Some(number) = self.tunnel_numbers.get(&ends) {
            return *number;
        }
        if self.tunnel_numbers.len() >= TUNNELS_KEPT + 2 * (self.installed.len() + self.policies.len()) {
            let associations = self.installed.values().map(|installed| installed.tunnel);
            let used: HashSet<u32> =
                associations.chain(self.policies.iter().filter_map(|(_, made)| tunnel_of(made))).collect();
            self.tunnel_numbers.retain(|_, number| used.contains(number));
        }
        self.last_tunnel = self.last_tunnel.wrapping_add(1);
        self.tunnel_numbers.insert(ends, self.last_tunnel);
        self.last_tunnel
    }

    fn direction_of(&self, association: &SecurityAssociation) -> Direction {
        match association.direction {
            Some(xfrm::SaDirection::In) => Direction::Decrypt,
            Some(xfrm::SaDirection::Out) => Direction::Encrypt,
            None if self.local.contains(&association.id.destination) => Direction::Decrypt,
            None => Direction::Encrypt,
        }
    }

    fn install(&mut self, association: &SecurityAssociation) -> Result<(), Refusal> {
        let direction = self.direction_of(association);
        let (mut parameters, keys) = parameters(association, self.path_mtu)?;
        let tunnel = self.number((association.reqid, parameters.source, parameters.destination));
        let now = self.epoch.elapsed();
        let mut tunnels = lock(&self.tunnels);
        parameters.tunnel = tunnel;
        if direction == Direction::Encrypt {
            // One that was ended a moment ago may be back with other addresses: what it sent since the daemon asked is not sent again.
            let same = |id: &esp::SaId| tunnels.spi(Direction::Encrypt, *id) == Some(parameters.spi);
            let ended = self.retired.iter().map(|(_, id)| *id).filter(same);
            let gone = self.last_numbers.get(&parameters.spi).map(|(_, last)| *last);
            let last = ended.filter_map(|id| tunnels.last_number(Direction::Encrypt, id)).chain(gone).max();
            parameters.last = parameters.last.max(last.unwrap_or(0));
        }
        let added = match direction {
            Direction::Encrypt => tunnels.add_outbound(parameters, &keys, now),
            Direction::Decrypt => tunnels.add_inbound(parameters, &keys, now),
        };
        let id = added.map_err(|error| {
            tracing::warn!(spi = association.id.spi, %error, "an association of the daemon's was not taken");
            match error {
                esp::AddError::Exists(_) => Refusal::new(Errno::EXIST, "an inbound association with this SPI is there"),
                esp::AddError::Full(_) => Refusal::new(Errno::NOBUFS, "as many associations as there may be"),
                _ => Refusal::invalid("an association that the gateway cannot have"),
            }
        })?;
        let installed = Installed { direction, id, told: esp::Usage::default(), tunnel };
        self.installed.insert(association.id, installed);
        self.names.insert((direction == Direction::Encrypt, id), association.id);
        Ok(())
    }

    /// Installs an association that the table has. The table does not keep what the gateway does not take.
    fn install_or_delete(&mut self, association: &SecurityAssociation) -> Result<(), Refusal> {
        self.install(association).inspect_err(|_| {
            let key = AssociationKey { id: association.id, mark: association.mark.unwrap_or_default() };
            let _ = self.table.delete(&key);
        })
    }

    fn remove(&mut self, id: &AssociationId) {
        let Some(installed) = self.installed.remove(id) else { return };
        self.names.remove(&(installed.direction == Direction::Encrypt, installed.id));
        let mut tunnels = lock(&self.tunnels);
        match installed.direction {
            // Packets that are being encrypted have its numbers: a daemon that replaces it loses none of them.
            Direction::Encrypt => {
                tunnels.retire_outbound(installed.id);
                self.retired.push((self.epoch.elapsed(), installed.id));
            }
            Direction::Decrypt => {
                tunnels.remove_inbound(installed.id);
            }
        }
    }

    /// Removes associations that no packet can be on its way with any more, and their keys.
    fn bury(&mut self) {
        let now = self.epoch.elapsed();
        let mut tunnels = lock(&self.tunnels);
        self.retired.retain(|(since, id)| {
            let is_over = now.saturating_sub(*since) >= RETIRED_FOR;
            if is_over {
                let last = (tunnels.spi(Direction::Encrypt, *id), tunnels.last_number(Direction::Encrypt, *id));
                if let (Some(spi), Some(last)) = last {
                    self.last_numbers.insert(spi, (now, last));
                }
                tunnels.remove_outbound(*id);
            }
            !is_over
        });
        self.last_numbers.retain(|_, (since, _)| now.saturating_sub(*since) < NUMBERS_KEPT);
    }

    /// Tells the table what went through an association since it was last told.
    fn count(&mut self, id: &AssociationId) {
        let Some(installed) = self.installed.get_mut(id) else { return };
        let Some(usage) = lock(&self.tunnels).usage(installed.direction, installed.id) else { return };
        let (packets, bytes) = (usage.packets - installed.told.packets, usage.bytes - installed.told.bytes);
        installed.told = usage;
        if packets > 0 {
            let key = AssociationKey { id: *id, mark: xfrm::Mark::default() };
            // An association that the table has ended in the meantime is removed by whoever looks next.
            let _ = self.table.count(&key, packets, bytes);
        }
    }

    /// What the table says of an association, with where its numbers stand.
    fn complete(&self, mut state: AssociationState) -> AssociationState {
        if let Some(installed) = self.installed.get(&state.association.id) {
            let last = lock(&self.tunnels).last_number(installed.direction, installed.id).unwrap_or(0);
            match installed.direction {
                Direction::Encrypt => state.association.replay.sent = last,
                Direction::Decrypt => state.association.replay.received = last,
            }
        }
        state
    }

    /// Removes what the table has ended.
    fn sweep(&mut self) {
        let mark = xfrm::Mark::default();
        let is_gone = |id: &AssociationId, table: &mut Table| table.query(&AssociationKey { id: *id, mark }).is_err();
        let gone: Vec<AssociationId> =
            self.installed.keys().filter(|id| is_gone(id, &mut self.table)).copied().collect();
        gone.iter().for_each(|id| self.remove(id));
    }

    /// Puts a policy into force, in the place of the one that it replaces if there is one, at once: between the two no packet is without.
    fn put_policy(&mut self, policy: &xfrm::Policy) -> Result<(), Refusal> {
        let made = self.made_of(policy)?;
        let before = self.forget(policy);
        let mut tunnels = lock(&self.tunnels);
        for (direction, policy) in &made {
            let full = |_| Refusal::new(Errno::NOBUFS, "as many policies as there may be");
            tunnels.add_policy(*direction, policy.clone()).map_err(full)?;
        }
        let stays = |direction: Direction, old: &esp::Policy| {
            made.iter()
                .any(|(way, new)| *way == direction && new.selector == old.selector && new.priority == old.priority)
        };
        // A daemon that answers a rekey installs the new association at once, and names it in the policy when the other end has it, too.
        if policy.direction == xfrm::Direction::Out {
            let (old, new) = (tunnel_of(&before), tunnel_of(&made));
            old.into_iter().filter(|_| old != new).for_each(|old| tunnels.lead_outbound(old, None));
            new.into_iter().for_each(|new| tunnels.lead_outbound(new, spi_of(policy)));
        }
        for (direction, old) in before.iter().filter(|(direction, old)| !stays(*direction, old)) {
            tunnels.remove_policy(*direction, &old.selector, old.priority);
        }
        drop(tunnels);
        self.policies.push((policy.key(), made));
        Ok(())
    }

    /// The gateway's policies for a daemon's. Those for packets to this host itself are none: the gateway passes packets on, and what it opens
    /// falls under the policies of forwarding.
    fn made_of(&mut self, policy: &xfrm::Policy) -> Result<Vec<(Direction, esp::Policy)>, Refusal> {
        let direction = match policy.direction {
            xfrm::Direction::Out => Direction::Encrypt,
            xfrm::Direction::Forward => Direction::Decrypt,
            xfrm::Direction::In => return Ok(Vec::new()),
        };
        if policy.if_id != 0 || policy.selector.interface != 0 || policy.mark.is_some_and(|mark| mark.mask != 0) {
            return Err(Refusal::invalid("a policy asks for neither marks nor interfaces"));
        }
        let action = match (policy.action, policy.templates.as_slice()) {
            (xfrm::Action::Block, _) => esp::Action::Discard,
            (xfrm::Action::Allow, []) => esp::Action::Bypass,
            (xfrm::Action::Allow, [template]) if template.mode == Mode::Tunnel => {
                if template.source.is_unspecified() || template.destination.is_unspecified() {
                    return Err(Refusal::invalid("a template names both ends of its tunnel"));
                }
                esp::Action::Protect(self.number((template.reqid, template.source, template.destination)))
            }
            (xfrm::Action::Allow, _) => return Err(Refusal::invalid("a policy has one template, in tunnel mode")),
        };
        let selectors = selectors(&policy.selector)?;
        let made = |selector| (direction, esp::Policy { selector, action, priority: policy.priority });
        Ok(selectors.into_iter().map(made).collect())
    }

    fn take_policy(&mut self, policy: &xfrm::Policy) {
        let made = self.forget(policy);
        let mut tunnels = lock(&self.tunnels);
        for (direction, policy) in &made {
            tunnels.remove_policy(*direction, &policy.selector, policy.priority);
        }
        if policy.direction == xfrm::Direction::Out {
            tunnel_of(&made).into_iter().for_each(|tunnel| tunnels.lead_outbound(tunnel, None));
        }
    }

    /// What was made of a policy, which is known no longer.
    fn forget(&mut self, policy: &xfrm::Policy) -> Vec<(Direction, esp::Policy)> {
        let at = self.policies.iter().position(|(key, _)| key.names(policy));
        at.map_or(Vec::new(), |at| self.policies.swap_remove(at).1)
    }

    fn hear(&mut self, event: esp::Event) {
        match event {
            esp::Event::Acquire { tunnel, flow } => {
                let asks = |(direction, policy): &(Direction, esp::Policy)| {
                    *direction == Direction::Encrypt
                        && policy.action == esp::Action::Protect(tunnel)
                        && policy.selector.matches(&flow)
                };
                let policies =
                    self.policies.iter().filter_map(|(key, made)| Some((made.iter().find(|made| asks(made))?, key)));
                if let Some((_, key)) = policies.min_by_key(|((_, policy), _)| policy.priority) {
                    self.table.acquire(key, selector_of(&flow));
                }
            }
            esp::Event::Moved { id, source, port } => {
                let Some(name) = self.names.get(&(false, id)).copied() else { return };
                self.table.moved(&name.into(), (source, port));
            }
            esp::Event::Ending(id) | esp::Event::Over(id) => {
                let names = [true, false].map(|out| self.names.get(&(out, id)).copied());
                for name in names.into_iter().flatten() {
                    // Of packets and bytes the table finds out from what is counted. What would have gone beyond was not let through, so that
                    // it may see less than its limit, and of numbers it knows nothing.
                    self.count(&name);
                    if matches!(event, esp::Event::Over(_)) {
                        self.table.end(&name.into());
                    }
                }
            }
        }
    }
}

impl Kernel for Keys {
    fn add(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal> {
        let state = self.table.add(association.clone())?;
        self.install_or_delete(&association)?;
        Ok(state)
    }

    fn update(&mut self, association: SecurityAssociation) -> Result<AssociationState, Refusal> {
        if self.installed.contains_key(&association.id) {
            // Daemons make a new one for another address or port.
            return Err(Refusal::invalid("an association that is there is not changed: delete it and add another"));
        }
        let state = self.table.update(association.clone())?;
        self.install_or_delete(&association)?;
        Ok(state)
    }

    fn delete(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal> {
        self.count(&key.id);
        let state = self.table.delete(key)?;
        let state = self.complete(state);
        self.remove(&key.id);
        Ok(state)
    }

    fn query(&mut self, key: &AssociationKey) -> Result<AssociationState, Refusal> {
        self.count(&key.id);
        let state = self.table.query(key)?;
        Ok(self.complete(state))
    }

    fn allocate_spi(&mut self, request: SpiRequest) -> Result<AssociationState, Refusal> {
        self.table.allocate_spi(request)
    }

    fn flush(&mut self, protocol: u8) -> usize {
        let count = self.table.flush(protocol);
        self.sweep();
        count
    }

    fn list(&mut self, filter: &ListFilter, position: u64, most: usize) -> Vec<(u64, AssociationState)> {
        let listed = self.table.list(filter, position, most);
        listed.iter().for_each(|(_, state)| self.count(&state.association.id));
        let listed = self.table.list(filter, position, most);
        listed.into_iter().map(|(position, state)| (position, self.complete(state))).collect()
    }

    fn set_replay(&mut self, update: ReplayUpdate) -> Result<AssociationState, Refusal> {
        let last = update.replay.as_ref().map(|replay| (replay.sent, replay.received));
        let id = update.key.id;
        let state = self.table.set_replay(update)?;
        if let (Some((sent, received)), Some(installed)) = (last, self.installed.get(&id)) {
            let last = if installed.direction == Direction::Encrypt { sent } else { received };
            lock(&self.tunnels).advance(installed.direction, installed.id, last);
        }
        Ok(self.complete(state))
    }

    fn add_policy(&mut self, policy: xfrm::Policy) -> Result<PolicyState, Refusal> {
        self.made_of(&policy)?;
        let state = self.table.add_policy(policy.clone())?;
        self.put_policy(&policy)?;
        Ok(state)
    }

    fn update_policy(&mut self, policy: xfrm::Policy) -> Result<PolicyState, Refusal> {
        self.made_of(&policy)?;
        let state = self.table.update_policy(policy.clone())?;
        self.put_policy(&policy)?;
        Ok(state)
    }

    fn delete_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        let state = self.table.delete_policy(key)?;
        self.take_policy(&state.policy);
        Ok(state)
    }

    fn query_policy(&mut self, key: &PolicyKey) -> Result<PolicyState, Refusal> {
        self.table.query_policy(key)
    }

    fn flush_policies(&mut self, kind: u8) {
        self.table.flush_policies(kind);
        let (gone, kept) = core::mem::take(&mut self.policies).into_iter().partition(|(key, _)| key.kind == kind);
        self.policies = kept;
        let gone: Vec<(PolicyKey, Vec<(Direction, esp::Policy)>)> = gone;
        let mut tunnels = lock(&self.tunnels);
        for (key, made) in gone {
            if key.direction == xfrm::Direction::Out {
                tunnel_of(&made).into_iter().for_each(|tunnel| tunnels.lead_outbound(tunnel, None));
            }
            for (direction, policy) in made {
                tunnels.remove_policy(direction, &policy.selector, policy.priority);
            }
        }
    }

    fn list_policies(&mut self, position: u64, most: usize) -> Vec<(u64, PolicyState)> {
        self.table.list_policies(position, most)
    }

    fn counts(&mut self) -> Counts {
        self.table.counts()
    }

    fn take_events(&mut self) -> Vec<Event> {
        self.bury();
        let heard = core::mem::take(&mut *lock(&self.heard));
        for event in heard {
            self.hear(event);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.table.set_time(now);
        let events = self.table.take_events();
        if events.iter().any(|event| matches!(event, Event::Expire { hard: true, .. })) {
            self.sweep();
        }
        events
    }
}

/// The gateway's words for a daemon's association.
fn parameters(association: &SecurityAssociation, path_mtu: u16) -> Result<(esp::Parameters, esp::Keys), Refusal> {
    if association.mode != Mode::Tunnel {
        return Err(Refusal::invalid("ESP is spoken in tunnel mode alone"));
    }
    if association.if_id != 0 || association.mark.is_some_and(|mark| mark.mask != 0) {
        return Err(Refusal::invalid("neither marks nor XFRM interfaces are known"));
    }
    let (transform, keys) = transform(association.algorithms.as_ref().ok_or(Refusal::invalid("no algorithms"))?)?;
    let (source, destination) = (association.source, association.id.destination);
    let amount = |limit: u64| (limit != u64::MAX && limit != 0).then_some(limit);
    // Times are the table's, which tells the daemon of them.
    let lifetime = |of: fn(xfrm::Limit) -> u64| esp::Lifetime {
        bytes: amount(of(association.lifetimes.bytes)),
        packets: amount(of(association.lifetimes.packets)),
        after: None,
    };
    let keeps_dscp = association.extra_flags.has(xfrm::ExtraFlags::DONT_ENCAP_DSCP);
    let may_be_cut = association.flags.has(xfrm::Flags::NO_PMTU_DISC);
    let received = association.replay.received.max(association.replay.sent);
    let parameters = esp::Parameters {
        encapsulation: association.encapsulation.map(|ports| esp::Encapsulation {
            source_port: ports.source_port,
            destination_port: ports.destination_port,
        }),
        sequence: if association.esn() { esp::Sequence::Extended } else { esp::Sequence::Short },
        last: received,
        // A larger window than was asked for refuses less.
        replay_window: association.replay.window.next_multiple_of(64).min(esp::REPLAY_WINDOW_MAX),
        lifetimes: esp::Lifetimes { soft: lifetime(|limit| limit.soft), hard: lifetime(|limit| limit.hard) },
        path_mtu,
        copying: esp::Copying {
            dont_fragment: if may_be_cut { esp::DontFragment::Clear } else { esp::DontFragment::Copy },
            dscp: keeps_dscp.then_some(0),
        },
        pad_to: association.tfc_padding.min(u32::from(path_mtu)) as u16,
        ..esp::Parameters::new(association.id.spi, transform, source, destination)
    };
    Ok((parameters, keys))
}

fn transform(algorithms: &Algorithms) -> Result<(esp::Transform, esp::Keys), Refusal> {
    const UNKNOWN: Refusal = Refusal::new(Errno::NOSYS, "an algorithm that the gateway does not have");
    const LENGTH: Refusal = Refusal::invalid("a key of a wrong length");
    let (name, key, salt_len) = match algorithms {
        Algorithms::Aead { name, key, icv_bits } => {
            let key = key.expose();
            let salt_len = if name.starts_with("rfc4309") { 3 } else { 4 };
            let bits = key.len().checked_sub(salt_len).ok_or(LENGTH)? * 8;
            let icv = if *icv_bits == 128 { String::new() } else { format!("-{icv_bits}") };
            let name = match name.as_str() {
                "rfc4106(gcm(aes))" => format!("aes-{bits}-gcm{icv}"),
                "rfc4309(ccm(aes))" => format!("aes-{bits}-ccm{icv}"),
                "rfc7539esp(chacha20,poly1305)" => format!("chacha20-poly1305{icv}"),
                "rfc4543(gcm(aes))" => format!("null+aes-{bits}-gmac{icv}"),
                _ => return Err(UNKNOWN),
            };
            (name, Zeroizing::new(key.to_vec()), salt_len)
        }
        Algorithms::Separate { encryption, integrity } => {
            let integrity = integrity.as_ref().ok_or(Refusal::invalid("encryption without a MAC"))?;
            let digest = integrity.name.strip_prefix("hmac(").and_then(|name| name.strip_suffix(')')).ok_or(UNKNOWN)?;
            let (cipher_key, mac_key) = (encryption.key.expose(), integrity.key.expose());
            let cipher = match encryption.name.as_str() {
                "cbc(aes)" => format!("aes-{}-cbc", cipher_key.len() * 8),
                "cbc(des3_ede)" => "3des-cbc".to_owned(),
                "ecb(cipher_null)" => "null".to_owned(),
                _ => return Err(UNKNOWN),
            };
            let name = format!("{cipher}+hmac-{digest}-{}", integrity.icv_bits);
            (name, Zeroizing::new([cipher_key, mac_key].concat()), 0)
        }
    };
    let transform: esp::Transform = name.parse().map_err(|_| UNKNOWN)?;
    let (key, salt) = key.split_at(key.len() - salt_len);
    if key.len() != transform.key_len() {
        return Err(LENGTH);
    }
    Ok((transform, esp::Keys { key: Zeroizing::new(key.to_vec()), salt: Zeroizing::new(salt.to_vec()) }))
}

/// The SPI of the association that a policy has packets leave by, if it says one.
fn spi_of(policy: &xfrm::Policy) -> Option<u32> {
    policy.templates.first().map(|template| template.spi).filter(|spi| *spi != 0)
}

/// The tunnel that packets leave by, of what was made of a policy.
fn tunnel_of(made: &[(Direction, esp::Policy)]) -> Option<u32> {
    made.iter().find_map(|(_, policy)| match policy.action {
        esp::Action::Protect(tunnel) => Some(tunnel),
        _ => None,
    })
}

fn selectors(selector: &xfrm::Selector) -> Result<Vec<esp::Selector>, Refusal> {
    let wrong = Refusal::invalid("a selector that no packet falls under");
    let prefix = |prefix: xfrm::Prefix| esp::Prefix::new(prefix.address, prefix.len).ok_or(wrong);
    let mut pairs = vec![(prefix(selector.source)?, prefix(selector.destination)?)];
    if selector.any_family {
        let all = esp::Prefix::new(std::net::Ipv6Addr::UNSPECIFIED.into(), 0).ok_or(wrong)?;
        pairs.push((all, all));
    }
    let (source_ports, destination_ports) = ports(selector)?;
    let made = |(source, destination)| {
        let made = esp::Selector::between(source, destination).ok_or(wrong)?;
        let (source_ports, destination_ports) = (source_ports.clone(), destination_ports.clone());
        let protocol = (selector.protocol != 0).then_some(selector.protocol);
        Ok(esp::Selector { protocol, source_ports, destination_ports, ..made })
    };
    pairs.into_iter().map(made).collect()
}

type Ports = Option<RangeInclusive<u16>>;

fn ports(selector: &xfrm::Selector) -> Result<(Ports, Ports), Refusal> {
    let range = |port: xfrm::Port| -> Result<Ports, Refusal> {
        // Ports whose first bits agree lie in a row.
        if port.mask.leading_ones() + port.mask.trailing_zeros() < 16 {
            return Err(Refusal::invalid("ports that do not lie in a row"));
        }
        Ok((port.mask != 0).then_some(port.number & port.mask..=port.number | !port.mask))
    };
    let (source, destination) = (range(selector.source_port)?, range(selector.destination_port)?);
    if !ICMP.contains(&selector.protocol) {
        return Ok((source, destination));
    }
    // Type and code are one number here.
    let byte = |range: &RangeInclusive<u16>| (*range.start().min(&255), *range.end().min(&255));
    let types = source.map(|types| {
        let (first, last) = byte(&types);
        let codes = destination.as_ref().map_or((0, 255), byte);
        first << 8 | codes.0..=last << 8 | codes.1
    });
    Ok((types, None))
}

fn selector_of(flow: &esp::Flow) -> xfrm::Selector {
    let port = |side: usize| match flow.ports() {
        Some(ports) => xfrm::Port { number: ports[side], mask: u16::MAX },
        None => xfrm::Port::default(),
    };
    let (source_port, destination_port) = match flow.ports() {
        Some([both, _]) if ICMP.contains(&flow.protocol()) => {
            (xfrm::Port { number: both >> 8, mask: u16::MAX }, xfrm::Port { number: both & 255, mask: u16::MAX })
        }
        _ => (port(0), port(1)),
    };
    let len = if flow.version() == 4 { 32 } else { 128 };
    xfrm::Selector {
        any_family: false,
        source: xfrm::Prefix { address: flow.source_address(), len },
        destination: xfrm::Prefix { address: flow.destination_address(), len },
        protocol: flow.protocol(),
        source_port,
        destination_port,
        interface: 0,
        user: 0,
    }
}
