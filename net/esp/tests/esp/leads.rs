//! Which association a packet leaves by, while associations and policies come, go and take each other's places.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use ciphermill_contract::Direction;
use ciphermill_esp::{Action, Policy, Prefix, SaId, Selector, Tunnels};
use proptest::prelude::*;

use crate::ends::{Ends, Inner, NOW, Shape, anything, checksum};

/// Hosts that packets go to, and tunnels that policies name.
const HOSTS: u8 = 3;
const TUNNELS: u32 = 3;

/// From so many associations on, packets are looked for ahead.
const MANY: u32 = 64;

#[derive(Clone, Debug)]
enum Step {
    Add { tunnel: u32 },
    Remove { at: prop::sample::Index },
    Retire { at: prop::sample::Index },
    Lead { tunnel: u32, at: Option<prop::sample::Index> },
    Policy(Policy),
    NoPolicy { at: prop::sample::Index },
}

fn step() -> impl Strategy<Value = Step> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        3 => (0..TUNNELS).prop_map(|tunnel| Step::Add { tunnel }),
        1 => at().prop_map(|at| Step::Remove { at }),
        1 => at().prop_map(|at| Step::Retire { at }),
        1 => (0..TUNNELS, prop::option::of(at())).prop_map(|(tunnel, at)| Step::Lead { tunnel, at }),
        3 => policy().prop_map(Step::Policy),
        1 => at().prop_map(|at| Step::NoPolicy { at }),
    ]
}

/// Of one host or all, of UDP or everything.
fn policy() -> impl Strategy<Value = Policy> {
    (0..=HOSTS, any::<bool>(), 0..=TUNNELS, 0u32..3).prop_map(|(host, is_udp, tunnel, priority)| {
        let everywhere = anything()[0].source;
        let to = if host == HOSTS { everywhere } else { Prefix::host(address(host).into()) };
        let mut selector = Selector::between(everywhere, to).expect("one family");
        selector.protocol = is_udp.then_some(17);
        let action = if tunnel == TUNNELS { Action::Bypass } else { Action::Protect(tunnel) };
        Policy { selector, action, priority }
    })
}

fn address(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 + host)
}

fn packet_to(host: u8) -> Vec<u8> {
    let mut packet = Inner::V4.packet(60, host);
    packet[16..20].copy_from_slice(&address(host).octets());
    packet[10..12].fill(0);
    let checksum = checksum(&packet[..20]).to_be_bytes();
    packet[10..12].copy_from_slice(&checksum);
    packet
}

/// The same as lists that are searched from one end to the other.
#[derive(Default)]
struct Model {
    /// SPIs of the associations that their tunnel's packets may leave by, the oldest first.
    tunnels: HashMap<u32, Vec<u32>>,
    leads: HashMap<u32, u32>,
    /// The oldest first.
    policies: Vec<Policy>,
    /// The last number of each SPI.
    last: HashMap<u32, u32>,
    alive: Vec<(SaId, u32, u32)>,
}

impl Model {
    fn add_policy(&mut self, policy: &Policy) {
        let is_same = |old: &&mut Policy| old.selector == policy.selector && old.priority == policy.priority;
        match self.policies.iter_mut().find(is_same) {
            Some(same) => *same = policy.clone(),
            None => self.policies.push(policy.clone()),
        }
    }

    fn retire(&mut self, tunnel: u32, spi: u32) {
        self.tunnels.entry(tunnel).or_default().retain(|other| *other != spi);
    }

    /// What becomes of a packet: it leaves as it is, or with an SPI and a number, or not.
    fn fate(&mut self, host: u8) -> Option<Option<(u32, u32)>> {
        let means = |policy: &&Policy| {
            let selector = &policy.selector;
            selector.destination == anything()[0].source || selector.destination == Prefix::host(address(host).into())
        };
        // Of equal ones the first.
        let policy = self.policies.iter().filter(means).min_by_key(|policy| policy.priority)?;
        let Action::Protect(tunnel) = policy.action else { return Some(None) };
        let all = self.tunnels.get(&tunnel)?;
        let lead = self.leads.get(&tunnel).filter(|lead| all.contains(lead));
        let spi = *lead.or(all.last())?;
        let last = self.last.entry(spi).or_default();
        *last += 1;
        Some(Some((spi, *last)))
    }
}

fn apply(step: &Step, sender: &mut Tunnels, model: &mut Model, spi: u32) {
    let of = |model: &Model, at: &prop::sample::Index| {
        if model.alive.is_empty() { None } else { Some(at.index(model.alive.len())) }
    };
    match step {
        Step::Add { tunnel } => {
            model.alive.push((add(sender, *tunnel, spi), *tunnel, spi));
            model.tunnels.entry(*tunnel).or_default().push(spi);
        }
        Step::Remove { at } => {
            if let Some((id, tunnel, spi)) = of(model, at).map(|at| model.alive.remove(at)) {
                sender.remove_outbound(id).expect("is there");
                model.retire(tunnel, spi);
            }
        }
        Step::Retire { at } => {
            if let Some((id, tunnel, spi)) = of(model, at).map(|at| model.alive[at]) {
                sender.retire_outbound(id);
                model.retire(tunnel, spi);
            }
        }
        Step::Lead { tunnel, at } => {
            let lead = at.and_then(|at| of(model, &at)).map(|at| model.alive[at].2);
            sender.lead_outbound(*tunnel, lead);
            match lead {
                Some(lead) => model.leads.insert(*tunnel, lead),
                None => model.leads.remove(tunnel),
            };
        }
        Step::Policy(policy) => {
            sender.add_policy(Direction::Encrypt, policy.clone()).expect("room");
            model.add_policy(policy);
        }
        Step::NoPolicy { at } if !model.policies.is_empty() => {
            let policy = model.policies.remove(at.index(model.policies.len()));
            let removed = sender.remove_policy(Direction::Encrypt, &policy.selector, policy.priority);
            assert_eq!(removed, Some(policy));
        }
        Step::NoPolicy { .. } => {}
    }
}

fn add(sender: &mut Tunnels, tunnel: u32, spi: u32) -> SaId {
    let shape = Shape::new("aes-128-gcm");
    let mut parameters = shape.parameters();
    (parameters.tunnel, parameters.spi) = (tunnel, spi);
    sender.add_outbound(parameters, &shape.keys(), NOW).expect("added")
}

/// SPI and number of a packet that is protected.
fn head(packet: &[u8]) -> Option<(u32, u32)> {
    let word = |at: usize| u32::from_be_bytes(packet[at..at + 4].try_into().expect("four"));
    (packet[9] == 50).then(|| (word(20), word(24)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packets_leave_by_the_association_that_policy_and_tunnel_name_by_now(
        is_many in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
        ends.sender.remove_outbound(ends.out).expect("is there");
        ends.sender.set_policies([]).expect("room");
        for other in 0..if is_many { MANY } else { 0 } {
            add(&mut ends.sender, 1000 + other, 0x8000 + other);
        }
        let mut model = Model::default();
        // Each twice, since what was found for a packet is kept for the next ones; more than are looked for ahead in one go.
        let hosts: Vec<u8> = (0..20).flat_map(|_| (0..HOSTS).chain(0..HOSTS)).collect();
        let packets: Vec<Vec<u8>> = hosts.iter().map(|host| packet_to(*host)).collect();
        for (at, step) in steps.iter().enumerate() {
            apply(step, &mut ends.sender, &mut model, 0x1000 + at as u32);
            let expected: Vec<Option<(u32, u32)>> = hosts.iter().filter_map(|host| model.fate(*host)).collect();
            let left: Vec<Option<(u32, u32)>> = ends.seal(&packets).iter().map(|packet| head(packet)).collect();
            prop_assert_eq!(left, expected, "after step {} of {:?}", at, steps);
        }
    }
}
