//! What the ways of packets have to know of IP headers: where a packet ends, where it goes, and the checksums that senders leave open.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Octets of an IPv4 header without options (RFC 791).
pub const IPV4_HEADER_LEN: usize = 20;
/// Octets of an IPv6 header (RFC 8200).
pub const IPV6_HEADER_LEN: usize = 40;
/// Extension headers that are walked through before a packet's transport counts as unknown.
pub const EXTENSION_HEADERS_MAX: usize = 8;

/// Protocol numbers (IANA): IPv4's protocol, IPv6's next header.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ESP: u8 = 50;

/// The octets of the IP packet that `octets` begins with: link layers pad short frames, and the header says where the packet ends.
///
/// None if it is no IPv4 or IPv6 packet, or not a whole one.
#[must_use]
#[inline]
pub fn packet_len(octets: &[u8]) -> Option<usize> {
    let len = match *octets {
        [first @ 0x45..=0x4f, _, high, low, ..] => {
            let header_len = usize::from(first & 0x0f) * 4;
            Some(usize::from(u16::from_be_bytes([high, low]))).filter(|len| *len >= header_len)?
        }
        [0x60..=0x6f, _, _, _, high, low, ..] => IPV6_HEADER_LEN + usize::from(u16::from_be_bytes([high, low])),
        _ => return None,
    };
    (len <= octets.len()).then_some(len)
}

/// Where a packet goes. None if it is too short or no IP packet.
#[must_use]
#[inline]
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(Ipv4Addr::from(*packet.get(16..)?.first_chunk::<4>()?).into()),
        6 => Some(Ipv6Addr::from(*packet.get(24..)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

/// Computes the TCP or UDP checksum of a whole packet and writes it, whatever stood there (RFC 9293, section 3.1; RFC 768).
///
/// For packets whose sender left it to the interface. Returns false, with nothing changed, if the packet has neither transport, is a fragment
/// or too short.
pub fn complete_checksum(packet: &mut [u8]) -> bool {
    let Some((protocol, at, pseudo)) = transport(packet) else { return false };
    let field = match protocol {
        TCP => 16,
        UDP => 6,
        _ => return false,
    };
    let Some(segment) = packet.get_mut(at..) else { return false };
    let len = segment.len() as u64;
    let Some(checksum) = segment.get_mut(field..field + 2) else { return false };
    checksum.copy_from_slice(&[0, 0]);
    let sum = !fold(pseudo + u64::from(protocol) + len + sum_words(segment));
    // A UDP checksum of zero says that there is none (RFC 768).
    let sum = if sum == 0 && protocol == UDP { 0xffff } else { sum };
    if let Some(checksum) = segment.get_mut(field..field + 2) {
        checksum.copy_from_slice(&sum.to_be_bytes());
    }
    true
}

/// The transport's protocol, where it begins, and the sum of the addresses in its pseudo header.
fn transport(packet: &[u8]) -> Option<(u8, usize, u64)> {
    match packet.first()? >> 4 {
        4 => {
            let header = packet.first_chunk::<IPV4_HEADER_LEN>()?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
            (fragment == 0).then(|| (header[9], usize::from(header[0] & 0x0f) * 4, sum_words(&header[12..20])))
        }
        6 => {
            let header = packet.first_chunk::<IPV6_HEADER_LEN>()?;
            let (protocol, at) = behind_extensions(packet, header[6])?;
            Some((protocol, at, sum_words(&header[8..40])))
        }
        _ => None,
    }
}

/// Walks through hop-by-hop options, routing headers and destination options (RFC 8200, section 4).
fn behind_extensions(packet: &[u8], mut next: u8) -> Option<(u8, usize)> {
    let mut at = IPV6_HEADER_LEN;
    for _ in 0..EXTENSION_HEADERS_MAX {
        if !matches!(next, 0 | 43 | 60) {
            return Some((next, at));
        }
        let [following, units] = *packet.get(at..)?.first_chunk::<2>()?;
        next = following;
        at += (usize::from(units) + 1) * 8;
    }
    None
}

/// The sum of 16-bit words, the last octet of an odd number counted as a high one (RFC 1071).
fn sum_words(octets: &[u8]) -> u64 {
    let (words, rest) = octets.as_chunks::<4>();
    let sum = words.iter().map(|word| u64::from(u32::from_be_bytes(*word))).sum::<u64>();
    let mut last = [0; 4];
    for (place, octet) in last.iter_mut().zip(rest) {
        *place = *octet;
    }
    sum + u64::from(u32::from_be_bytes(last))
}

/// A sum of words of 32 bits as one's complement sum of 16 bits: 2^16 is 1 modulo 2^16 - 1, so both halves count alike.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An independent reading of RFC 1071: word by word.
    fn slow_sum(octets: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in octets.chunks(2) {
            sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// Whether a receiver accepts the segment: the sum over pseudo header and segment is all ones.
    fn is_valid(addresses: &[u8], protocol: u8, segment: &[u8]) -> bool {
        let mut all = addresses.to_vec();
        all.extend((segment.len() as u32).to_be_bytes());
        all.extend([0, 0, 0, protocol]);
        all.extend(segment);
        slow_sum(&all) == 0xffff
    }

    fn ipv4(protocol: u8, segment: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0, 10, 1, 2, 3, 192, 168, 255, 254];
        packet.extend(segment);
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet
    }

    fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend((payload.len() as u16).to_be_bytes());
        packet.extend([next, 64]);
        packet.extend((0..32u8).map(|at| at.wrapping_mul(37) ^ 0xa5));
        packet.extend(payload);
        packet
    }

    fn segment(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 89 + 201) as u8).collect()
    }

    #[test]
    fn checksums_are_what_a_receiver_expects() {
        for len in [20, 21, 22, 23, 24, 100, 1399, 1460] {
            for protocol in [TCP, UDP] {
                let mut packet = ipv4(protocol, &segment(len));
                assert!(complete_checksum(&mut packet));
                assert!(is_valid(&packet[12..20], protocol, &packet[20..]), "IPv4, protocol {protocol}, {len} octets");
                let once = packet.clone();
                assert!(complete_checksum(&mut packet));
                assert_eq!(packet, once, "completing twice changes nothing");
                let mut packet = ipv6(protocol, &segment(len));
                assert!(complete_checksum(&mut packet));
                assert!(is_valid(&packet[8..40], protocol, &packet[40..]), "IPv6, protocol {protocol}, {len} octets");
            }
        }
    }

    #[test]
    fn a_udp_checksum_is_never_zero() {
        let mut data = segment(20);
        let mut packet = ipv4(UDP, &data);
        assert!(complete_checksum(&mut packet));
        // What makes the sum all ones: the checksum itself, as data.
        let sum = u16::from_be_bytes([packet[26], packet[27]]);
        data[6..8].copy_from_slice(&[0, 0]);
        let word = u16::from_be_bytes([data[8], data[9]]);
        let wanted = slow_sum(&[word.to_be_bytes(), sum.to_be_bytes()].concat());
        data[8..10].copy_from_slice(&wanted.to_be_bytes());
        let mut packet = ipv4(UDP, &data);
        assert!(complete_checksum(&mut packet));
        assert_eq!(packet[26..28], [0xff, 0xff]);
    }

    #[test]
    fn extension_headers_are_walked_through() {
        let mut payload = vec![60, 0, 1, 4, 0, 0, 0, 0, UDP, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        payload.extend(segment(33));
        let mut packet = ipv6(0, &payload);
        assert!(complete_checksum(&mut packet));
        assert!(is_valid(&packet[8..40], UDP, &packet[64..]));
        let mut endless = ipv6(0, &[0; 200]);
        assert!(!complete_checksum(&mut endless));
    }

    #[test]
    fn what_has_no_checksum_of_its_own_stays_as_it_is() {
        let mut fragment = ipv4(UDP, &segment(40));
        fragment[6..8].copy_from_slice(&[0x20, 0]);
        for packet in
            [fragment, ipv4(1, &segment(40)), ipv4(TCP, &segment(17)), ipv6(44, &segment(40)), vec![], vec![0x45]]
        {
            let mut after = packet.clone();
            assert!(!complete_checksum(&mut after));
            assert_eq!(after, packet);
        }
    }

    #[test]
    fn a_packet_ends_where_its_header_says() {
        let mut padded = ipv4(UDP, &segment(8));
        padded.extend([0; 18]);
        assert_eq!(packet_len(&padded), Some(28));
        assert_eq!(packet_len(&padded[..27]), None);
        let six = ipv6(59, &[]);
        assert_eq!(packet_len(&six), Some(40));
        assert_eq!(packet_len(&six[..39]), None);
        let mut short_header = ipv4(UDP, &[]);
        short_header[0] = 0x44;
        assert_eq!(packet_len(&short_header), None);
        short_header[0] = 0x46;
        assert_eq!(packet_len(&short_header), None);
        for octets in [&[][..], &[0x45], &[0x60, 0, 0, 0], &[0x50; 60]] {
            assert_eq!(packet_len(octets), None);
        }
    }

    #[test]
    fn destinations_are_read_where_they_stand() {
        assert_eq!(destination(&ipv4(UDP, &[])), Some(IpAddr::from([192, 168, 255, 254])));
        let six = ipv6(59, &[]);
        assert_eq!(destination(&six), Some(IpAddr::from(<[u8; 16]>::try_from(&six[24..40]).unwrap())));
        assert_eq!(destination(&six[..39]), None);
        assert_eq!(destination(&[]), None);
    }
}
