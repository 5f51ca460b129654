//! What a path carries, as the routers on it say (RFC 1191; RFC 8201), about packets that were really sent (RFC 4301, 6 and 8.2.1).

use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashMap;

use crate::ip::{self, Header, address_of, folded, protocol, sum};
use crate::limits::{ESP_LEN, IPV4_LEN, IPV6_LEN, UDP_LEN};

/// How long a router is believed before longer packets are tried again (RFC 1191, 6.3; RFC 8201, 4).
pub(crate) const BELIEVED_FOR: Duration = Duration::from_secs(600);

/// Paths that are known to carry less than configured; of more nothing is learned.
const PATHS_MAX: usize = 4096;

/// Bytes before what an ICMP error quotes.
const ICMP_LEN: usize = 8;

/// "Fragmentation needed" (RFC 792) and "packet too big" (RFC 4443, 3.2): type and code.
const TOO_BIG_V4: u16 = 0x0304;
const TOO_BIG_V6: u16 = 0x0200;

/// Packets before the newest one that a router may still speak of: an error comes a round trip later.
const RECENT: u32 = 1 << 16;

/// What was heard of one path.
#[derive(Clone, Copy, Debug)]
struct Heard {
    path_mtu: u16,
    until: Duration,
}

/// The paths that carry less than configured, by their far ends.
#[derive(Debug, Default)]
pub(crate) struct Paths(HashMap<IpAddr, Heard>);

impl Paths {
    /// What a path carries, where that was heard.
    pub(crate) fn path_mtu(&self, destination: IpAddr) -> Option<u16> {
        self.0.get(&destination).map(|heard| heard.path_mtu)
    }

    /// Believes it until [`BELIEVED_FOR`] from now; `false` where there is no room.
    pub(crate) fn hear(&mut self, destination: IpAddr, path_mtu: u16, now: Duration) -> bool {
        let has_room = self.0.len() < PATHS_MAX || self.0.contains_key(&destination);
        if has_room {
            self.0.insert(destination, Heard { path_mtu, until: now + BELIEVED_FOR });
        }
        has_room
    }

    /// Forgets what is old, and says of whom.
    pub(crate) fn forget(&mut self, now: Duration) -> Vec<IpAddr> {
        let old: Vec<IpAddr> =
            self.0.iter().filter(|(_, heard)| heard.until <= now).map(|(destination, _)| *destination).collect();
        self.0.retain(|_, heard| heard.until > now);
        old
    }
}

/// A router's word that a packet of ESP was too long for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooBig {
    /// Of the packet, as are the others.
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) spi: [u8; 4],
    /// The low half of its number.
    number: u32,
    /// Bytes that the router can pass on.
    pub(crate) path_mtu: u16,
}

impl TooBig {
    /// What an ICMP error says, if it is one with a right checksum that quotes enough of an ESP packet.
    pub(crate) fn of(packet: &[u8], header: &Header) -> Option<TooBig> {
        let icmp = packet.get(header.payload_at..header.total_len)?;
        let (fixed, quoted) = icmp.split_first_chunk::<ICMP_LEN>()?;
        let kind = u16::from_be_bytes([fixed[0], fixed[1]]);
        let (check, path_mtu) = match header.flow.protocol() {
            // RFC 1191, 4: the MTU in the low half; older routers say zero, which nobody can believe.
            protocol::ICMP if kind == TOO_BIG_V4 => (sum(icmp), u16::from_be_bytes([fixed[6], fixed[7]])),
            protocol::ICMP_V6 if kind == TOO_BIG_V6 => {
                let mtu = u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]);
                let pseudo = ip::pseudo_sum(packet, protocol::ICMP_V6, icmp.len());
                (pseudo + sum(icmp), mtu.min(u16::MAX.into()) as u16)
            }
            _ => return None,
        };
        if header.is_fragment || folded(check) != 0 {
            return None;
        }
        let quoted = Quoted::of(header.flow.version(), quoted)?;
        let esp = match quoted.protocol {
            protocol::ESP => quoted.behind,
            protocol::UDP => quoted.behind.get(UDP_LEN..)?,
            _ => return None,
        };
        let [s0, s1, s2, s3, n0, n1, n2, n3] = *esp.first_chunk::<ESP_LEN>()?;
        let (spi, number) = ([s0, s1, s2, s3], u32::from_be_bytes([n0, n1, n2, n3]));
        Some(TooBig { source: quoted.source, destination: quoted.destination, spi, number, path_mtu })
    }

    /// Whether the packet is one of the last that were sent, up to number `last`.
    pub(crate) fn is_recent(&self, last: u64) -> bool {
        let since = (last as u32).wrapping_sub(self.number);
        u64::from(since) < last && since < RECENT
    }
}

/// A packet of ours as an error quotes it: it may be cut, so that its length says nothing; our own headers have no extensions.
struct Quoted<'a> {
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    /// What lies behind the header.
    behind: &'a [u8],
}

impl Quoted<'_> {
    fn of(version: u8, quoted: &[u8]) -> Option<Quoted<'_>> {
        if quoted.first()? >> 4 != version {
            return None;
        }
        let address =
            |bytes: &[u8]| address_of(version, bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte)));
        if version == 4 {
            let head = quoted.first_chunk::<IPV4_LEN>()?;
            let behind = quoted.get(usize::from(head[0] & 0xf) * 4..)?;
            let [source, destination] = [&head[12..16], &head[16..20]].map(address);
            return Some(Quoted { source, destination, protocol: head[9], behind });
        }
        let (head, behind) = quoted.split_first_chunk::<IPV6_LEN>()?;
        let [source, destination] = [&head[8..24], &head[24..40]].map(address);
        Some(Quoted { source, destination, protocol: head[6], behind })
    }
}
