//! IP headers as they come: versions 4 and 6, the ports behind them, and checksums.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::limits::{IPV4_LEN, IPV6_LEN};

/// Protocol numbers (IANA).
pub(crate) mod protocol {
    pub(crate) const ICMP: u8 = 1;
    pub(crate) const IPV4: u8 = 4;
    pub(crate) const TCP: u8 = 6;
    pub(crate) const UDP: u8 = 17;
    pub(crate) const IPV6: u8 = 41;
    pub(crate) const ESP: u8 = 50;
    pub(crate) const ICMP_V6: u8 = 58;
    pub(crate) const NONE: u8 = 59;
    pub(crate) const SCTP: u8 = 132;
}

/// Extension headers that are stepped over before a packet is taken for one without ports.
const EXTENSIONS_MAX: usize = 8;

/// What policies look at: addresses, the protocol and its ports (RFC 4301, 4.4.1.1).
///
/// Whole words, which are written and compared as such: every packet has one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flow {
    source: u128,
    destination: u128,
    /// The source port above the destination port.
    ports: u32,
    /// The version, the protocol above it, and above that whether there are ports.
    kind: u32,
}

impl Flow {
    /// A flow between addresses as numbers, an IPv4 address in the low 32 bits.
    #[inline(always)]
    pub(crate) fn new(version: u8, protocol: u8, ports: Option<u32>, source: u128, destination: u128) -> Flow {
        let kind = u32::from(version) | u32::from(protocol) << 8 | u32::from(ports.is_some()) << 16;
        Flow { source, destination, ports: ports.unwrap_or(0), kind }
    }

    /// Whether both are the same, without a branch for each part: parts that are compared one after the other become wide loads of what was just
    /// written in narrower pieces, which wait for these.
    #[inline(always)]
    pub(crate) fn is_same(&self, other: &Flow) -> bool {
        let rest = u64::from(self.ports ^ other.ports) | u64::from(self.kind ^ other.kind);
        (self.source ^ other.source) | (self.destination ^ other.destination) | u128::from(rest) == 0
    }

    /// 4 or 6.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        self.kind as u8
    }

    /// The protocol behind the header and its extensions.
    #[inline(always)]
    pub fn protocol(&self) -> u8 {
        (self.kind >> 8) as u8
    }

    /// Source and destination port, of ICMP type and code in the first; `None` where there are none or a fragment does not show them.
    #[inline(always)]
    pub fn ports(&self) -> Option<[u16; 2]> {
        (self.kind >> 16 != 0).then_some([(self.ports >> 16) as u16, self.ports as u16])
    }

    /// The source address.
    pub fn source_address(&self) -> IpAddr {
        address_of(self.version(), self.source)
    }

    /// The destination address.
    pub fn destination_address(&self) -> IpAddr {
        address_of(self.version(), self.destination)
    }

    /// Both addresses as numbers.
    #[inline(always)]
    pub(crate) fn addresses(&self) -> (u128, u128) {
        (self.source, self.destination)
    }
}

impl core::fmt::Debug for Flow {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (source, destination) = (self.source_address(), self.destination_address());
        write!(f, "Flow({source} to {destination}, protocol {}, ports {:?})", self.protocol(), self.ports())
    }
}

/// No IP packet; in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Shorter than its header.
    #[error("the packet is shorter than its header")]
    Short,
    /// Neither version.
    #[error("the version is neither 4 nor 6")]
    Version,
    /// Lengths that do not fit.
    #[error("the header's lengths do not fit the packet")]
    Length,
}

/// A packet whose header was looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) flow: Flow,
    /// Bytes of the whole packet as its header says; there may be more in the buffer.
    pub(crate) total_len: usize,
    /// Where what follows the header and its extensions begins.
    pub(crate) payload_at: usize,
    /// Whether it is a part of a packet.
    pub(crate) is_fragment: bool,
}

#[inline(always)]
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Header {
    /// Of no packet.
    pub(crate) const NONE: Header = Header {
        flow: Flow { source: 0, destination: 0, ports: 0, kind: 0 },
        total_len: 0,
        payload_at: 0,
        is_fragment: false,
    };

    /// Looks at a packet's header.
    pub(crate) fn of(packet: &[u8]) -> Result<Header, Malformed> {
        let mut header = Header::NONE;
        header.read(packet).map(|()| header)
    }

    /// The same where each packet has one: written in place, since a header beside an error is moved in pieces other than those that it was
    /// written in, and waits for them.
    #[inline(always)]
    pub(crate) fn read(&mut self, packet: &[u8]) -> Result<(), Malformed> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => self.read_v4(packet),
            Some(6) => {
                *self = Header::of_v6(packet)?;
                Ok(())
            }
            Some(_) => Err(Malformed::Version),
            None => Err(Malformed::Short),
        }
    }

    #[inline(always)]
    fn read_v4(&mut self, packet: &[u8]) -> Result<(), Malformed> {
        let Some(head) = packet.first_chunk::<IPV4_LEN>() else { return Err(Malformed::Short) };
        let (header_len, total_len) = v4_lens(head, packet.len()).ok_or(Malformed::Length)?;
        let fragment = be16(head, 6) & 0x3fff;
        let protocol = head[9];
        // The first fragment has ports, but no other one would be found by them.
        let ports = if fragment == 0 { ports(protocol, &packet[header_len..total_len]) } else { None };
        let addresses = v4_addresses(head);
        let (source, destination) = (u128::from(addresses >> 32), u128::from(addresses as u32));
        let flow = Flow::new(4, protocol, ports, source, destination);
        *self = Header { flow, total_len, payload_at: header_len, is_fragment: fragment != 0 };
        Ok(())
    }

    #[inline(never)]
    fn of_v6(packet: &[u8]) -> Result<Header, Malformed> {
        let Some(head) = packet.first_chunk::<IPV6_LEN>() else { return Err(Malformed::Short) };
        let total_len = IPV6_LEN + usize::from(be16(head, 4));
        let Some(packet) = packet.get(..total_len) else { return Err(Malformed::Length) };
        let (mut protocol, mut at, mut is_fragment) = (head[6], IPV6_LEN, false);
        for _ in 0..EXTENSIONS_MAX {
            let Some(extension) = packet.get(at..at + 8) else { break };
            match protocol {
                // Hop-by-hop options, routing, destination options (RFC 8200, 4).
                0 | 43 | 60 => at += 8 + 8 * usize::from(extension[1]),
                44 => {
                    // A fragment of the whole (RFC 6946) is none.
                    is_fragment |= be16(extension, 2) & 0xfff9 != 0;
                    at += 8;
                    if be16(extension, 2) & 0xfff8 != 0 {
                        // What follows is the middle of something, and no header, whatever it looks like.
                        protocol = extension[0];
                        break;
                    }
                }
                _ => break,
            }
            protocol = extension[0];
        }
        let payload = packet.get(at..).ok_or(Malformed::Length)?;
        let ports = if is_fragment { None } else { ports(protocol, payload) };
        let address =
            |at: usize| -> u128 { head[at..at + 16].iter().fold(0, |number, byte| number << 8 | u128::from(*byte)) };
        let flow = Flow::new(6, protocol, ports, address(8), address(24));
        Ok(Header { flow, total_len, payload_at: at, is_fragment })
    }
}

/// Bytes of a header of version 4 and of its packet, if those fit what there is.
#[inline(always)]
fn v4_lens(head: &[u8; IPV4_LEN], there: usize) -> Option<(usize, usize)> {
    let header_len = usize::from(head[0] & 0xf) * 4;
    let total_len = usize::from(be16(head, 2));
    (header_len >= IPV4_LEN && total_len >= header_len && total_len <= there).then_some((header_len, total_len))
}

/// Source and destination of version 4, the source in the high half.
#[inline(always)]
pub(crate) fn v4_addresses(head: &[u8; IPV4_LEN]) -> u64 {
    u64::from_be_bytes([head[12], head[13], head[14], head[15], head[16], head[17], head[18], head[19]])
}

/// Both addresses of a packet of version 4, as [`v4_addresses`], and its bytes: most often all that policies ask for.
#[inline(always)]
pub(crate) fn v4_ends(packet: &[u8]) -> Option<(u64, usize)> {
    let head = packet.first_chunk::<IPV4_LEN>().filter(|head| head[0] >> 4 == 4)?;
    let (_, total_len) = v4_lens(head, packet.len())?;
    Some((v4_addresses(head), total_len))
}

/// Both ports in one word.
#[inline(always)]
fn ports(protocol: u8, payload: &[u8]) -> Option<u32> {
    match protocol {
        protocol::TCP | protocol::UDP | protocol::SCTP => {
            payload.first_chunk::<4>().map(|both| u32::from_be_bytes(*both))
        }
        // RFC 4301, 4.4.1.1: type and code are one selector.
        protocol::ICMP | protocol::ICMP_V6 => {
            payload.first_chunk::<2>().map(|both| u32::from(u16::from_be_bytes(*both)) << 16)
        }
        _ => None,
    }
}

/// An address as a number, an IPv4 address in the low 32 bits.
pub(crate) fn number_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => address.into(),
    }
}

/// The address of a flow's number.
pub(crate) fn address_of(version: u8, number: u128) -> IpAddr {
    if version == 4 { Ipv4Addr::from(number as u32).into() } else { Ipv6Addr::from(number).into() }
}

/// The sum that the Internet checksum is made of (RFC 1071), not yet folded. An odd last byte is the high half of a word.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let sum: u64 = words.iter().map(|word| u64::from(u16::from_be_bytes(*word))).sum();
    sum + rest.first().map_or(0, |last| u64::from(*last) << 8)
}

/// The checksum of a sum.
#[inline]
pub(crate) fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What a checksum becomes when a word under it changes (RFC 1624, equation 3).
#[inline]
pub(crate) fn updated(checksum: u16, from: u16, to: u16) -> u16 {
    folded(u64::from(!checksum) + u64::from(!from) + u64::from(to))
}

/// The sum of the pseudo header before UDP and ICMPv6 (RFC 8200, 8.1; RFC 768).
pub(crate) fn pseudo_sum(packet: &[u8], protocol: u8, len: usize) -> u64 {
    let addresses = if packet[0] >> 4 == 4 { &packet[12..20] } else { &packet[8..40] };
    sum(addresses) + u64::from(protocol) + len as u64
}

/// Counts the packet's time to live down by one, as a router does (RFC 1812, 5.3.1; RFC 8200, 3). `false` where it has run out.
#[inline]
pub(crate) fn hop(packet: &mut [u8]) -> bool {
    if packet[0] >> 4 != 4 {
        let is_alive = packet[7] > 1;
        packet[7] -= u8::from(is_alive);
        return is_alive;
    }
    // Read as words before anything is written: a word waits for a byte of it that was just stored.
    let (before, checksum) = (be16(packet, 8), be16(packet, 10));
    if before < 0x200 {
        return false;
    }
    let now = before - 0x100;
    packet[8..10].copy_from_slice(&now.to_be_bytes());
    packet[10..12].copy_from_slice(&updated(checksum, before, now).to_be_bytes());
    true
}

/// The type of service of version 4, or the traffic class of version 6.
#[inline]
pub(crate) fn traffic_class(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 { packet[1] } else { packet[0] << 4 | packet[1] >> 4 }
}

/// Replaces it.
pub(crate) fn set_traffic_class(packet: &mut [u8], class: u8) {
    if packet[0] >> 4 == 4 {
        let (from, to) = (be16(packet, 0), u16::from(packet[0]) << 8 | u16::from(class));
        let checksum = updated(be16(packet, 10), from, to);
        packet[1] = class;
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    } else {
        packet[0] = 0x60 | class >> 4;
        packet[1] = class << 4 | packet[1] & 0xf;
    }
}

/// Whether the sender forbids routers to fragment it: always in version 6.
#[inline]
pub(crate) fn forbids_fragments(packet: &[u8]) -> bool {
    packet[0] >> 4 != 4 || packet[6] & 0x40 != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(total_len: u16, fragment: u16, protocol: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet[2..4].copy_from_slice(&total_len.to_be_bytes());
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        let checksum = folded(sum(&packet));
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        packet.extend([0x12, 0x34, 0x56, 0x78, 9, 9, 9, 9]);
        packet
    }

    #[test]
    fn ports_are_seen_where_they_are() {
        let header = Header::of(&v4(28, 0, protocol::UDP)).expect("a packet");
        assert_eq!(header.flow.ports(), Some([0x1234, 0x5678]));
        assert_eq!((header.total_len, header.payload_at, header.is_fragment), (28, 20, false));
        assert_eq!(
            Header::of(&v4(28, 0x2000, protocol::UDP)).map(|header| (header.flow.ports(), header.is_fragment)),
            Ok((None, true))
        );
        assert_eq!(
            Header::of(&v4(28, 0x4000, protocol::UDP)).map(|header| header.is_fragment),
            Ok(false),
            "do not fragment"
        );
        assert_eq!(
            Header::of(&v4(22, 0, protocol::UDP)).map(|header| header.flow.ports()),
            Ok(None),
            "cut before its ports"
        );
    }

    #[test]
    fn lengths_that_do_not_fit_are_named() {
        assert_eq!(Header::of(&v4(29, 0, 17)).err(), Some(Malformed::Length));
        assert_eq!(Header::of(&v4(19, 0, 17)).err(), Some(Malformed::Length));
        assert_eq!(Header::of(&v4(28, 0, 17)[..19]).err(), Some(Malformed::Short));
        assert_eq!(Header::of(&[]).err(), Some(Malformed::Short));
        assert_eq!(Header::of(&[0x55; 40]).err(), Some(Malformed::Version));
    }

    #[test]
    fn extension_headers_are_stepped_over_and_end() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 24, 0, 64];
        packet.extend([0; 32]);
        packet.extend([60, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([0x12, 0x34, 0x56, 0x78, 0, 8, 0, 0]);
        let header = Header::of(&packet).expect("a packet");
        assert_eq!((header.flow.protocol(), header.flow.ports(), header.payload_at), (17, Some([0x1234, 0x5678]), 56));
        // An extension that says it is longer than the packet.
        packet[41] = 200;
        assert_eq!(Header::of(&packet).err(), Some(Malformed::Length));
    }

    #[test]
    fn the_middle_of_a_packet_is_not_taken_for_headers() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 24, 44, 64];
        packet.extend([0; 32]);
        // A fragment at 8 bytes of destination options; its data say that UDP follows.
        packet.extend([60, 0, 0, 8, 0, 0, 0, 1]);
        packet.extend([17, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([0; 8]);
        let header = Header::of(&packet).expect("a packet");
        assert_eq!((header.flow.protocol(), header.flow.ports(), header.is_fragment), (60, None, true));
        assert_eq!(header.payload_at, 48);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_stop(bytes in prop::collection::vec(any::<u8>(), 0..120), version in 4u8..7) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = version << 4 | *first & 0xf;
            }
            if let Ok(header) = Header::of(&bytes) {
                prop_assert!(header.payload_at <= header.total_len && header.total_len <= bytes.len());
            }
        }

        #[test]
        fn a_checksum_that_is_updated_is_the_one_that_is_computed(class in any::<u8>(), ttl in 2u8..) {
            let mut packet = v4(28, 0, 17);
            let before = updated(be16(&packet, 10), be16(&packet, 8), u16::from(ttl) << 8 | 17);
            packet[8] = ttl;
            packet[10..12].copy_from_slice(&before.to_be_bytes());
            set_traffic_class(&mut packet, class);
            prop_assert!(hop(&mut packet));
            prop_assert_eq!(traffic_class(&packet), class);
            prop_assert_eq!(folded(sum(&packet[..20])), 0);
        }
    }
}
