//! The header that a tunnel puts around packets (RFC 4301, 5.1.2; RFC 6040), and UDP (RFC 3948).

use core::net::IpAddr;

use crate::ip::{self, folded, protocol, sum};
use crate::limits::{IPV4_LEN, IPV6_LEN, UDP_LEN};

/// Hops that packets may take from one end of the tunnel to the other (RFC 4301, 5.1.2.1, note 2).
const HOPS: u8 = 64;

const LEN_MAX: usize = IPV6_LEN + UDP_LEN;

/// UDP around ESP (RFC 3948), in host byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encapsulation {
    /// The source port of what is sent.
    pub source_port: u16,
    /// The destination port of what is sent.
    pub destination_port: u16,
}

/// What the outer IPv4 header says about fragments (RFC 4301, 8.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DontFragment {
    /// What the inner one says; set where the inner packet is IPv6.
    #[default]
    Copy,
    /// That it must not be fragmented.
    Set,
    /// That it may be.
    Clear,
}

/// What the outer header takes from the inner one, apart from congestion notification, which is RFC 6040's normal mode always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copying {
    /// Whether packets may be fragmented on their way.
    pub dont_fragment: DontFragment,
    /// The code point of differentiated services; that of the inner header where none is given.
    pub dscp: Option<u8>,
}

/// A header with everything that is the same for all packets of an association.
#[derive(Clone, Debug)]
pub(crate) struct OuterHeader {
    bytes: [u8; LEN_MAX],
    len: u8,
    is_v6: bool,
    has_udp: bool,
    /// Of an IPv4 header's constant words.
    sum: u32,
    copying: Copying,
}

impl OuterHeader {
    /// `None` when the ends have addresses of two families.
    pub(crate) fn new(
        source: IpAddr,
        destination: IpAddr,
        encapsulation: Option<Encapsulation>,
        copying: Copying,
    ) -> Option<OuterHeader> {
        let mut bytes = [0; LEN_MAX];
        let next = if encapsulation.is_some() { protocol::UDP } else { protocol::ESP };
        let ip_len = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                (bytes[0], bytes[8], bytes[9]) = (0x45, HOPS, next);
                bytes[12..16].copy_from_slice(&source.octets());
                bytes[16..20].copy_from_slice(&destination.octets());
                IPV4_LEN
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                (bytes[0], bytes[6], bytes[7]) = (0x60, next, HOPS);
                bytes[8..24].copy_from_slice(&source.octets());
                bytes[24..40].copy_from_slice(&destination.octets());
                IPV6_LEN
            }
            _ => return None,
        };
        let sum = sum(&bytes[..IPV4_LEN]) as u32;
        if let Some(ports) = encapsulation {
            bytes[ip_len..ip_len + 2].copy_from_slice(&ports.source_port.to_be_bytes());
            bytes[ip_len + 2..ip_len + 4].copy_from_slice(&ports.destination_port.to_be_bytes());
        }
        let udp_len = if encapsulation.is_some() { UDP_LEN } else { 0 };
        Some(OuterHeader {
            bytes,
            len: (ip_len + udp_len) as u8,
            is_v6: ip_len == IPV6_LEN,
            has_udp: encapsulation.is_some(),
            sum,
            copying,
        })
    }

    /// Bytes of it.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    /// Writes it before `inner_class` and `forbids_fragments` of an inner packet; `to` begins with the header and is the whole packet. IPv4
    /// packets that may be fragmented are told apart by the low half of their `number` (RFC 6864, 4.3).
    #[inline]
    pub(crate) fn write(&self, to: &mut [u8], inner_class: u8, forbids_fragments: bool, number: u32) {
        let total_len = to.len();
        // RFC 6040, 4.1: congestion notification is copied.
        let class = self.copying.dscp.map_or(inner_class, |dscp| dscp << 2 | inner_class & 3);
        if self.is_v6 {
            to[..self.len()].copy_from_slice(&self.bytes[..self.len()]);
            (to[0], to[1]) = (0x60 | class >> 4, class << 4);
            to[4..6].copy_from_slice(&((total_len - IPV6_LEN) as u16).to_be_bytes());
        } else {
            if let (Some(to), Some(from)) = (to.first_chunk_mut::<28>(), self.bytes.first_chunk::<28>()) {
                // ESP's header lies behind, and is written later: eight bytes too many where there is no UDP.
                *to = *from;
            }
            let dont = match self.copying.dont_fragment {
                DontFragment::Copy => forbids_fragments,
                DontFragment::Set => true,
                DontFragment::Clear => false,
            };
            let flags = if dont { 0x4000u16 } else { 0 };
            let identification = if dont { 0 } else { number as u16 };
            let sum = u64::from(self.sum)
                + total_len as u64
                + u64::from(class)
                + u64::from(flags)
                + u64::from(identification);
            to[1] = class;
            to[2..4].copy_from_slice(&(total_len as u16).to_be_bytes());
            to[4..6].copy_from_slice(&identification.to_be_bytes());
            to[6..8].copy_from_slice(&flags.to_be_bytes());
            to[10..12].copy_from_slice(&folded(sum).to_be_bytes());
        }
        if self.has_udp {
            let udp = self.len() - UDP_LEN;
            let len = (total_len - udp) as u16;
            to[udp + 4..udp + 6].copy_from_slice(&len.to_be_bytes());
            // RFC 3948, 2.1: over IPv4 there is no checksum.
            to[udp + 6..udp + 8].fill(0);
        }
    }
}

/// Writes the checksum of a complete packet with UDP behind an IPv6 header of 40 bytes.
pub(crate) fn write_udp_checksum(packet: &mut [u8]) {
    let len = packet.len() - IPV6_LEN;
    let sum = ip::pseudo_sum(packet, protocol::UDP, len) + sum(&packet[IPV6_LEN..]);
    // RFC 768: one that is zero is sent as its complement.
    let checksum = match folded(sum) {
        0 => 0xffff,
        checksum => checksum,
    };
    packet[IPV6_LEN + 6..IPV6_LEN + 8].copy_from_slice(&checksum.to_be_bytes());
}

/// The traffic class of a packet that leaves its tunnel (RFC 6040, 4.2, figure 4): `None` where it has to be dropped.
pub(crate) fn decapsulated(outer: u8, inner: u8) -> Option<u8> {
    const NOT_ECT: u8 = 0;
    const ECT_1: u8 = 1;
    const CE: u8 = 3;
    let ecn = match (inner & 3, outer & 3) {
        (NOT_ECT, CE) => return None,
        (NOT_ECT, _) => NOT_ECT,
        (_, CE) => CE,
        (CE, _) => CE,
        (_, ECT_1) => ECT_1,
        (inner, _) => inner,
    };
    Some(inner & !3 | ecn)
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn notification_of_congestion_is_combined_as_in_figure_4_of_rfc_6040() {
        // Rows: inner Not-ECT, ECT(0), ECT(1), CE. Columns: outer Not-ECT, ECT(0), ECT(1), CE.
        let (not, zero, one, ce) = (0, 2, 1, 3);
        let table = [
            (not, [Some(not), Some(not), Some(not), None]),
            (zero, [Some(zero), Some(zero), Some(one), Some(ce)]),
            (one, [Some(one), Some(one), Some(one), Some(ce)]),
            (ce, [Some(ce); 4]),
        ];
        for (inner, row) in table {
            for (outer, expected) in [not, zero, one, ce].into_iter().zip(row) {
                let class = decapsulated(0b1010_1000 | outer, 0b0101_0100 | inner);
                assert_eq!(class, expected.map(|ecn| 0b0101_0100 | ecn), "inner {inner}, outer {outer}");
            }
        }
    }

    #[test]
    fn a_header_has_its_lengths_and_a_checksum_that_holds() {
        let v4 = |last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last));
        let ports = Encapsulation { source_port: 4500, destination_port: 4501 };
        let copying = Copying { dont_fragment: DontFragment::Clear, dscp: Some(46) };
        let outer = OuterHeader::new(v4(1), v4(2), Some(ports), copying).expect("one family");
        for number in 1..3u16 {
            let mut packet = vec![0xee; 100];
            outer.write(&mut packet, 0b0000_0001, true, 0x5_0000 | u32::from(number));
            assert_eq!(folded(sum(&packet[..20])), 0);
            assert_eq!((packet[1], &packet[2..4]), (46 << 2 | 1, &100u16.to_be_bytes()[..]));
            assert_eq!((&packet[4..6], &packet[6..8]), (&number.to_be_bytes()[..], &[0, 0][..]));
            assert_eq!(packet[20..28], [0x11, 0x94, 0x11, 0x95, 0, 80, 0, 0]);
            assert_eq!(packet[28], 0xee);
        }
        let outer = OuterHeader::new(v4(1), v4(2), None, Copying::default()).expect("one family");
        let mut packet = vec![0; 60];
        outer.write(&mut packet, 0, true, 1);
        assert_eq!((packet[6], packet[9], folded(sum(&packet[..20]))), (0x40, 50, 0), "as the inner packet says");
        assert!(OuterHeader::new(v4(1), Ipv6Addr::LOCALHOST.into(), None, Copying::default()).is_none());
    }

    #[test]
    fn udp_over_ipv6_has_a_checksum() {
        let address = IpAddr::from(Ipv6Addr::LOCALHOST);
        let ports = Encapsulation { source_port: 1, destination_port: 2 };
        let outer = OuterHeader::new(address, address, Some(ports), Copying::default()).expect("one family");
        let mut packet = vec![0x5a; 101];
        outer.write(&mut packet, 0x12, true, 1);
        write_udp_checksum(&mut packet);
        assert_eq!(folded(ip::pseudo_sum(&packet, protocol::UDP, 61) + sum(&packet[40..])), 0);
        assert_eq!((packet[0], packet[1], &packet[4..6], &packet[44..46]), (0x61, 0x20, &[0, 61][..], &[0, 61][..]));
    }
}
