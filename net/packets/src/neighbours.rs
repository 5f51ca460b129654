//! Where a packet goes next on its link: the kernel's routes and neighbours, asked over rtnetlink (RFC 3549) and remembered for a while.
//!
//! What the kernel does not know is asked for by the kernel itself (ARP, RFC 826; neighbour discovery, RFC 4861), which is only told that
//! somebody wants to use the entry. Nothing waits for the answer: until it is there, the next hop is [`Hop::Unresolved`].

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::{RecvFlags, SendFlags, recv, sendto};

use crate::interface::Interface;
use crate::system::{socket, wait_readable};

/// Destinations that are remembered. One more, and those out of date are forgotten, or all if none is.
pub const NEIGHBOURS_MAX: usize = 8192;
/// Destinations that the kernel is asked for in one call of a sink: each takes some ten microseconds, and a scan would ask for all of them.
pub const LOOKUPS_MAX: usize = 64;
/// How long a link address is used before the kernel is asked again.
pub const RESOLVED_FOR: Duration = Duration::from_secs(1);
/// How long it is taken for known that there is no answer.
pub const UNRESOLVED_FOR: Duration = Duration::from_millis(5);
/// How long it is taken for known that there is no route.
pub const NO_ROUTE_FOR: Duration = Duration::from_millis(200);
/// Octets of the longest link address of a packet socket.
pub const LINK_ADDRESS_LEN_MAX: usize = 8;
/// How long the kernel may take for an answer, which it makes while it is asked.
const ANSWER_WAIT: Duration = Duration::from_millis(200);
/// Octets of the longest answer: a route with its metrics and many next hops.
const ANSWER_LEN_MAX: usize = 32 << 10;
/// Answers to earlier questions that are skipped before it counts as an error.
const STALE_ANSWERS_MAX: usize = 64;
const _: () = assert!(LOOKUPS_MAX < NEIGHBOURS_MAX);

/// The address of a station on a link; empty where a link has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkAddress {
    octets: [u8; LINK_ADDRESS_LEN_MAX],
    len: u8,
}

impl LinkAddress {
    /// An address. None beyond [`LINK_ADDRESS_LEN_MAX`] octets.
    #[must_use]
    pub fn new(address: &[u8]) -> Option<LinkAddress> {
        let mut octets = [0; LINK_ADDRESS_LEN_MAX];
        octets.get_mut(..address.len())?.copy_from_slice(address);
        Some(LinkAddress { octets, len: address.len() as u8 })
    }

    /// Its octets.
    #[must_use]
    #[inline]
    pub fn octets(&self) -> &[u8] {
        self.octets.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// To this station.
    Link(LinkAddress),
    /// To a station whose link address is not known yet, or which does not answer.
    Unresolved,
    /// Not by this interface; also what goes to several stations, or to this host itself.
    NoRoute,
}

#[derive(Clone, Copy)]
struct Entry {
    hop: Hop,
    until: Instant,
}

/// The next hops of an interface.
pub struct Neighbours {
    netlink: OwnedFd,
    sequence: u32,
    index: u32,
    without_addresses: bool,
    table: HashMap<IpAddr, Entry>,
    lookups: usize,
    answer: Vec<u8>,
}

impl std::fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neighbours")
            .field("index", &self.index)
            .field("known", &self.table.len())
            .finish_non_exhaustive()
    }
}

/// What the kernel answers.
type Answer = Result<RouteNetlinkMessage, io::Error>;

impl Neighbours {
    /// The next hops of an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(interface: &Interface) -> io::Result<Neighbours> {
        let netlink = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)?;
        Ok(Neighbours {
            netlink,
            sequence: 0,
            index: interface.index,
            without_addresses: interface.without_neighbours,
            table: HashMap::new(),
            lookups: 0,
            answer: vec![0; ANSWER_LEN_MAX],
        })
    }

    /// Allows [`LOOKUPS_MAX`] questions from here on.
    pub fn begin(&mut self) {
        self.lookups = LOOKUPS_MAX;
    }

    /// Where packets to a destination go, as was found out at most [`RESOLVED_FOR`] ago, or as the kernel says now.
    ///
    /// What the kernel has no room or no time for, as when somebody has it look for more stations than it keeps, is not known yet.
    ///
    /// # Errors
    /// The kernel answers in a form that is not known, or does not let this process ask.
    pub fn hop(&mut self, destination: IpAddr, now: Instant) -> io::Result<Hop> {
        if let Some(entry) = self.table.get(&destination).filter(|entry| entry.until > now) {
            return Ok(entry.hop);
        }
        if self.lookups == 0 {
            return Ok(Hop::Unresolved);
        }
        self.lookups -= 1;
        let hop = match self.look_up(destination) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut || is_passing(&error) => Hop::Unresolved,
            looked_up => looked_up?,
        };
        let lasts = match hop {
            Hop::Link(_) => RESOLVED_FOR,
            Hop::Unresolved => UNRESOLVED_FOR,
            Hop::NoRoute => NO_ROUTE_FOR,
        };
        if self.table.len() >= NEIGHBOURS_MAX {
            self.table.retain(|_, entry| entry.until > now);
            if self.table.len() >= NEIGHBOURS_MAX {
                self.table.clear();
            }
        }
        self.table.insert(destination, Entry { hop, until: now + lasts });
        Ok(hop)
    }

    /// Asks the kernel for the route and the neighbour, and has it ask the link for one that it does not know or no longer trusts.
    fn look_up(&mut self, destination: IpAddr) -> io::Result<Hop> {
        let Some(next) = self.route(destination)? else { return Ok(Hop::NoRoute) };
        if self.without_addresses {
            return Ok(Hop::Link(LinkAddress::default()));
        }
        let known = self.neighbour(next)?;
        if !known.is_some_and(|(_, is_fresh)| is_fresh) {
            self.provoke(next)?;
        }
        Ok(known.map_or(Hop::Unresolved, |(link, _)| Hop::Link(link)))
    }

    /// The address on this link to which packets for a destination go; None if they do not go by this interface.
    fn route(&mut self, destination: IpAddr) -> io::Result<Option<IpAddr>> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
        message.attributes = vec![RouteAttribute::Destination(destination.into()), RouteAttribute::Oif(self.index)];
        let answer = match self.ask(RouteNetlinkMessage::GetRoute(message), NLM_F_REQUEST)? {
            Ok(RouteNetlinkMessage::NewRoute(answer)) => answer,
            Ok(_) => return Err(unknown()),
            // Unreachable, prohibited, or no route at all.
            Err(_) => return Ok(None),
        };
        if answer.header.kind != RouteType::Unicast {
            return Ok(None);
        }
        let mut next = destination;
        for attribute in answer.attributes {
            match attribute {
                RouteAttribute::Oif(index) if index != self.index => return Ok(None),
                RouteAttribute::Gateway(RouteAddress::Inet(address)) => next = address.into(),
                RouteAttribute::Gateway(RouteAddress::Inet6(address)) => next = address.into(),
                // An IPv6 gateway of an IPv4 route (RFC 5549).
                RouteAttribute::Via(RouteVia::Inet(address)) => next = address.into(),
                RouteAttribute::Via(RouteVia::Inet6(address)) => next = address.into(),
                _ => {}
            }
        }
        Ok(Some(next))
    }

    /// A neighbour's link address, and whether the kernel has heard of it lately.
    fn neighbour(&mut self, address: IpAddr) -> io::Result<Option<(LinkAddress, bool)>> {
        let message = self.neighbour_message(address);
        let answer = match self.ask(RouteNetlinkMessage::GetNeighbour(message), NLM_F_REQUEST)? {
            Ok(RouteNetlinkMessage::NewNeighbour(answer)) => answer,
            Ok(_) => return Err(unknown()),
            Err(_) => return Ok(None),
        };
        use NeighbourState::{Delay, Noarp, Permanent, Probe, Reachable, Stale};
        let is_fresh = match answer.header.state {
            Reachable | Permanent | Noarp => true,
            Stale | Delay | Probe => false,
            _ => return Ok(None),
        };
        Ok(answer.attributes.iter().find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(octets) => Some((LinkAddress::new(octets)?, is_fresh)),
            _ => None,
        }))
    }

    /// Has the kernel resolve a neighbour, as if it had a packet for it.
    fn provoke(&mut self, address: IpAddr) -> io::Result<()> {
        let mut message = self.neighbour_message(address);
        message.header.flags = NeighbourFlags::Use;
        let flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_ACK;
        match self.ask(RouteNetlinkMessage::NewNeighbour(message), flags)? {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(io::Error::new(error.kind(), format!("the kernel does not look for neighbours: {error}")))
            }
            // A full table, or an address that no station has: the packet has no next hop.
            Err(_) | Ok(_) => Ok(()),
        }
    }

    fn neighbour_message(&self, address: IpAddr) -> NeighbourMessage {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = self.index;
        message.attributes = vec![NeighbourAttribute::Destination(address.into())];
        message
    }

    /// Asks the kernel one thing. The outer error says that there was no answer; the inner one is the kernel's.
    fn ask(&mut self, question: RouteNetlinkMessage, flags: u16) -> io::Result<Answer> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(question.clone()));
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        let kernel = rustix::net::netlink::SocketAddrNetlink::new(0, 0);
        sendto(&self.netlink, &octets, SendFlags::empty(), &kernel)?;
        for _ in 0..STALE_ANSWERS_MAX {
            if !wait_readable(&self.netlink, ANSWER_WAIT)? {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer over rtnetlink"));
            }
            let (_, len) = recv(&self.netlink, self.answer.as_mut_slice(), RecvFlags::DONTWAIT | RecvFlags::TRUNC)?;
            let octets = self.answer.get(..len).ok_or_else(unknown)?;
            let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(octets).map_err(io::Error::other)?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            return match answer.payload {
                NetlinkPayload::InnerMessage(answer) => Ok(Ok(answer)),
                NetlinkPayload::Error(error) => Ok(match error.code {
                    Some(code) => Err(io::Error::from_raw_os_error(code.get().saturating_abs())),
                    // An acknowledgement.
                    None => Ok(question),
                }),
                _ => Err(unknown()),
            };
        }
        Err(unknown())
    }
}

/// Whether the kernel had no room for a question or its answer.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM | libc::EAGAIN))
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn unknown() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer over rtnetlink is not known")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface;

    #[test]
    fn link_addresses_are_bounded() {
        assert_eq!(LinkAddress::new(&[1, 2, 3, 4, 5, 6]).unwrap().octets(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(LinkAddress::default().octets(), []);
        assert!(LinkAddress::new(&[0; 9]).is_none());
    }

    #[test]
    fn what_goes_to_this_host_has_no_next_hop() {
        let mut neighbours = Neighbours::new(&interface::find("lo").unwrap()).unwrap();
        neighbours.begin();
        let now = Instant::now();
        assert_eq!(neighbours.hop(IpAddr::from([127, 0, 0, 1]), now).unwrap(), Hop::NoRoute);
        assert_eq!(neighbours.table.len(), 1);
        assert_eq!(neighbours.hop(IpAddr::from([127, 0, 0, 1]), now).unwrap(), Hop::NoRoute);
        assert_eq!(neighbours.lookups, LOOKUPS_MAX - 1);
    }

    #[test]
    fn the_table_and_the_questions_are_bounded() {
        let mut neighbours = Neighbours::new(&interface::find("lo").unwrap()).unwrap();
        let now = Instant::now();
        neighbours.begin();
        for number in 0..2 * LOOKUPS_MAX as u32 {
            let address = IpAddr::from((0x7f00_0000 + number).to_be_bytes());
            neighbours.hop(address, now).unwrap();
        }
        assert_eq!(neighbours.table.len(), LOOKUPS_MAX);
        let entry = Entry { hop: Hop::NoRoute, until: now + NO_ROUTE_FOR };
        neighbours.table.extend((0..NEIGHBOURS_MAX as u32).map(|n| (IpAddr::from(n.to_be_bytes()), entry)));
        neighbours.begin();
        neighbours.hop(IpAddr::from([127, 200, 0, 1]), now).unwrap();
        assert!(neighbours.table.len() <= NEIGHBOURS_MAX);
    }
}
