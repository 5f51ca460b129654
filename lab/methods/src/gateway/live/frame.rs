//! What is sent: UDP packets with a stamp that says which one it is, and how long frames are.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Octets of a frame that are not its packet: link header and check sequence. RFC 2544 counts them in (section 9.1).
pub(super) const LINK_LEN: usize = 18;
/// Octets of the IPv4 and UDP headers.
const HEADERS_LEN: usize = 28;
/// Octets of a stamp: as many as the shortest frame leaves.
const STAMP_LEN: usize = 18;
/// Octets of the shortest and the longest frame (RFC 2544, section 9.1).
const FRAME_LEN_MIN: usize = 64;
const FRAME_LEN_MAX: usize = 1518;
const _: () = assert!(HEADERS_LEN + STAMP_LEN + LINK_LEN == FRAME_LEN_MIN, "the shortest frame has room for a stamp");

/// What a stamp begins with.
const MARK: [u8; 4] = *b"cmGW";

/// How long the frames of a trial are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// All so many octets, link header and check sequence included.
    Octets(usize),
    /// The simple mix: of twelve frames seven have 64 octets, four 570 and one 1518.
    Imix,
}

/// The mix, in the order in which it is sent: long frames stand apart.
const IMIX: [usize; 12] = [64, 570, 64, 64, 570, 64, 1518, 64, 570, 64, 570, 64];

impl Frame {
    /// The lengths of frames that follow each other, which repeat.
    pub(super) fn pattern(&self) -> &[usize] {
        match self {
            Frame::Octets(len) => std::slice::from_ref(len),
            Frame::Imix => &IMIX,
        }
    }

    /// Octets of the longest packet: a frame without what its link adds.
    pub(super) fn packet_len_max(&self) -> usize {
        self.pattern().iter().max().map_or(0, |len| len.saturating_sub(LINK_LEN))
    }

    /// Octets of a packet on the average.
    pub(super) fn packet_len_mean(&self) -> f64 {
        let pattern = self.pattern();
        pattern.iter().map(|len| len.saturating_sub(LINK_LEN)).sum::<usize>() as f64 / pattern.len() as f64
    }
}

impl FromStr for Frame {
    type Err = String;

    fn from_str(text: &str) -> Result<Frame, String> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Frame::Imix);
        }
        let is_frame = |len: &usize| (FRAME_LEN_MIN..=FRAME_LEN_MAX).contains(len);
        let len = text.parse().ok().filter(is_frame);
        len.map(Frame::Octets)
            .ok_or_else(|| format!("a frame has {FRAME_LEN_MIN} to {FRAME_LEN_MAX} octets, or is `imix`"))
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Octets(len) => write!(f, "{len}"),
            Frame::Imix => f.write_str("IMIX"),
        }
    }
}

/// What tells a packet from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The number of its trial.
    pub(super) trial: u16,
    /// Which of both ends has sent it.
    pub(super) end: u8,
    /// Its number among those that the end has sent in the trial, from 0 on.
    pub(super) number: u32,
    /// When it was sent, in nanoseconds since the generator's start. Of 48 bits, which last three days.
    pub(super) sent_ns: u64,
}

impl Stamp {
    fn octets(self) -> [u8; STAMP_LEN] {
        let mut octets = [0; STAMP_LEN];
        let [_, _, time @ ..] = self.sent_ns.to_be_bytes();
        octets[..4].copy_from_slice(&MARK);
        octets[4..6].copy_from_slice(&self.trial.to_be_bytes());
        octets[6] = self.end;
        octets[8..12].copy_from_slice(&self.number.to_be_bytes());
        octets[12..].copy_from_slice(&time);
        octets
    }

    /// The stamp of a packet, `None` if it is none of ours.
    pub(super) fn of(packet: &[u8]) -> Option<Stamp> {
        let octets = packet.get(HEADERS_LEN..)?.first_chunk::<STAMP_LEN>()?;
        let [m0, m1, m2, m3, t0, t1, end, _, n0, n1, n2, n3, time @ ..] = *octets;
        let [s0, s1, s2, s3, s4, s5] = time;
        ([m0, m1, m2, m3] == MARK).then(|| Stamp {
            trial: u16::from_be_bytes([t0, t1]),
            end,
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            sent_ns: u64::from_be_bytes([0, 0, s0, s1, s2, s3, s4, s5]),
        })
    }
}

/// Whether a stamp stands anywhere in a packet: the inner packet of a tunnel that does not encrypt, say.
pub(super) fn has_mark(packet: &[u8]) -> bool {
    packet.windows(MARK.len()).any(|octets| octets == MARK)
}

/// Packets that are ready but for their stamps, as a sink takes them.
pub(super) struct Packets {
    pub(super) buffer: Vec<u8>,
    pub(super) spans: Vec<[u32; 2]>,
}

impl Packets {
    /// So many packets at least, and whole patterns.
    pub(super) fn new(frame: Frame, least: usize, source: Ipv4Addr, destination: Ipv4Addr) -> Packets {
        let pattern = frame.pattern();
        let mut packets = Packets { buffer: Vec::new(), spans: Vec::new() };
        for len in pattern.iter().cycle().take(least.next_multiple_of(pattern.len().max(1))) {
            let start = packets.buffer.len();
            packets.buffer.extend(packet(len.saturating_sub(LINK_LEN), source, destination));
            packets.spans.push([start as u32, packets.buffer.len() as u32]);
        }
        packets
    }

    /// Writes a packet's stamp.
    pub(super) fn stamp(&mut self, at: usize, stamp: Stamp) {
        let Some([start, _]) = self.spans.get(at) else { return };
        let from = *start as usize + HEADERS_LEN;
        if let Some(place) = self.buffer.get_mut(from..from + STAMP_LEN) {
            place.copy_from_slice(&stamp.octets());
        }
    }
}

/// A UDP packet without a checksum, which IPv4 allows (RFC 768): stamps change nothing else then.
fn packet(len: usize, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let len = len.max(HEADERS_LEN + STAMP_LEN);
    let mut packet = vec![0x45, 0];
    packet.extend((len as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    let sum = packet.chunks(2).fold(0u32, |sum, word| match word {
        [high, low] => sum + (u32::from(*high) << 8 | u32::from(*low)),
        _ => sum,
    });
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([0x10, 0x92, 0x20, 0x92]);
    packet.extend((len as u16 - 20).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend((packet.len()..len).map(|at| at as u8));
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Ipv4Addr = Ipv4Addr::new(10, 77, 1, 9);
    const RIGHT: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 9);

    #[test]
    fn the_mix_is_seven_to_four_to_one() {
        let count = |len: usize| Frame::Imix.pattern().iter().filter(|other| **other == len).count();
        assert_eq!([count(64), count(570), count(1518)], [7, 4, 1]);
        assert_eq!(Frame::Imix.packet_len_max(), 1500);
        // (7 × 46 + 4 × 552 + 1500) / 12
        assert!((Frame::Imix.packet_len_mean() - 4030.0 / 12.0).abs() < 1e-9);
        assert_eq!(Frame::Octets(512).pattern(), [512]);
    }

    #[test]
    fn frames_are_asked_for_by_their_octets() {
        assert_eq!(
            ["64", "1518", "IMIX"].map(str::parse),
            [Ok(Frame::Octets(64)), Ok(Frame::Octets(1518)), Ok(Frame::Imix)]
        );
        for text in ["63", "1519", "-64", "", "mix"] {
            assert!(text.parse::<Frame>().is_err(), "{text}");
        }
    }

    #[test]
    fn stamps_are_read_as_they_are_written() {
        let mut packets = Packets::new(Frame::Imix, 30, LEFT, RIGHT);
        assert_eq!(packets.spans.len(), 36);
        let stamp = Stamp { trial: 513, end: 1, number: 0x0102_0304, sent_ns: 0x0000_1122_3344_5566 };
        packets.stamp(35, stamp);
        let at = |at: usize| {
            let [start, end] = packets.spans[at];
            &packets.buffer[start as usize..end as usize]
        };
        assert_eq!(Stamp::of(at(35)), Some(stamp));
        assert_eq!(Stamp::of(at(34)), None);
        assert!(has_mark(at(35)) && !has_mark(at(34)));
        assert_eq!((at(0).len(), at(1).len(), at(6).len()), (46, 552, 1500));
        assert_eq!(Stamp::of(&at(35)[..45]), None);
    }

    #[test]
    fn headers_are_what_a_receiver_expects() {
        let packet = packet(46, LEFT, RIGHT);
        assert_eq!(packet.len(), 46);
        let sum = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum::<u32>();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "RFC 791: the header's sum is all ones");
        assert_eq!(ciphermill_packets::ip::packet_len(&packet), Some(46));
        assert_eq!(ciphermill_packets::ip::destination(&packet), Some(RIGHT.into()));
        assert_eq!(packet[24..26], 26u16.to_be_bytes(), "the UDP length");
    }
}
