//! Fragments of IPv4 packets that do not fit the path and may be cut (RFC 791, 3.2), made before they are protected, so that the peer opens
//! each by itself.

use crate::ip::{folded, sum};
use crate::limits::IPV4_LEN;

/// Hands fragments of at most `len_max` bytes to `take`, in their order. `false` where it does not cut: the header leaves no room for eight
/// bytes, or `take` has none.
pub(crate) fn cut(packet: &[u8], len_max: usize, mut take: impl FnMut(&[u8]) -> bool) -> bool {
    let Some(first) = packet.first() else { return false };
    let header_len = usize::from(first & 0xf) * 4;
    let Some((header, payload)) = packet.split_at_checked(header_len).filter(|_| header_len >= IPV4_LEN) else {
        return false;
    };
    let piece = len_max.saturating_sub(header_len) / 8 * 8;
    if piece == 0 {
        return false;
    }
    let word = u16::from_be_bytes([header[6], header[7]]);
    let (flags, offset, more) = (word & 0xc000, word & 0x1fff, word & 0x2000);
    let later = later_header(header);
    let mut fragment = Vec::with_capacity(len_max);
    for (index, part) in payload.chunks(piece).enumerate() {
        fragment.clear();
        fragment.extend_from_slice(if index == 0 { header } else { &later });
        let is_last = (index + 1) * piece >= payload.len();
        let at = offset + (index * piece / 8) as u16;
        let word = flags | if is_last { more } else { 0x2000 } | at;
        fragment[6..8].copy_from_slice(&word.to_be_bytes());
        let total_len = (fragment.len() + part.len()) as u16;
        fragment[2..4].copy_from_slice(&total_len.to_be_bytes());
        fragment[10..12].fill(0);
        let checksum = folded(sum(&fragment));
        fragment[10..12].copy_from_slice(&checksum.to_be_bytes());
        fragment.extend_from_slice(part);
        if !take(&fragment) {
            return false;
        }
    }
    true
}

/// The header of fragments behind the first: of its options those that are copied (RFC 791, 3.1).
fn later_header(header: &[u8]) -> Vec<u8> {
    let mut kept = header[..IPV4_LEN].to_vec();
    let mut options = &header[IPV4_LEN..];
    while let Some(&kind) = options.first() {
        let len = match kind {
            0 => break,
            1 => 1,
            _ => options.get(1).map_or(0, |len| usize::from(*len)),
        };
        let Some((option, rest)) = options.split_at_checked(len).filter(|_| len > 0) else { break };
        if kind & 0x80 != 0 && kind != 1 {
            kept.extend_from_slice(option);
        }
        options = rest;
    }
    while !kept.len().is_multiple_of(4) {
        kept.push(0);
    }
    kept[0] = 0x40 | (kept.len() / 4) as u8;
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fragments_put_together_are_the_packet(
            payload in prop::collection::vec(any::<u8>(), 1..3000),
            options in 0usize..=10,
            len_max in 68usize..1500,
            earlier in 0u16..1000,
            is_part: bool,
        ) {
            let header_len = IPV4_LEN + 4 * options;
            let mut packet = vec![0; header_len];
            packet[0] = 0x40 | (header_len / 4) as u8;
            packet[2..4].copy_from_slice(&((header_len + payload.len()) as u16).to_be_bytes());
            let word = earlier | if is_part { 0x2000 } else { 0 };
            packet[6..8].copy_from_slice(&word.to_be_bytes());
            // Options that are copied: a loose source route each.
            for option in packet[IPV4_LEN..].chunks_mut(4) {
                option.copy_from_slice(&[0x83, 4, 4, 0]);
            }
            packet.extend_from_slice(&payload);
            let mut whole = vec![None; payload.len()];
            let mut last = 0;
            let done = cut(&packet, len_max, |fragment| {
                let header = usize::from(fragment[0] & 0xf) * 4;
                assert!(fragment.len() <= len_max && folded(sum(&fragment[..header])) == 0);
                assert_eq!(usize::from(u16::from_be_bytes([fragment[2], fragment[3]])), fragment.len());
                let word = u16::from_be_bytes([fragment[6], fragment[7]]);
                let at = usize::from((word & 0x1fff) - earlier) * 8;
                last += usize::from(word & 0x2000 == 0);
                for (index, byte) in fragment[header..].iter().enumerate() {
                    assert_eq!(whole[at + index].replace(*byte), None, "twice");
                }
                true
            });
            prop_assert!(done);
            prop_assert_eq!(last, usize::from(!is_part));
            prop_assert_eq!(whole.into_iter().collect::<Option<Vec<u8>>>(), Some(payload));
        }
    }

    #[test]
    fn options_that_stay_with_the_first_fragment_stay_there() {
        let mut packet = vec![0x46, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0x07, 3, 4, 0];
        packet.extend([7; 100]);
        packet[3] = 124;
        let mut headers = Vec::new();
        assert!(cut(&packet, 72, |fragment| {
            headers.push(fragment[0]);
            true
        }));
        assert_eq!(headers, [0x46, 0x45, 0x45]);
    }
}
