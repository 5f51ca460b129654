//! Limits, by name.

use core::time::Duration;

/// Security associations of one [`crate::Tunnels`].
pub const ASSOCIATIONS_MAX: usize = 1 << 20;

/// Policies of one direction.
pub const POLICIES_MAX: usize = 1 << 20;

/// Packets of a burst.
pub const BURST_PACKETS_MAX: usize = 4096;

/// Bytes of a burst's buffer.
pub const BURST_BYTES_MAX: usize = 64 << 20;

/// A burst's buffer is so many times as long as what packets are received into: fragments of a burst that has to be cut as a whole find room.
pub(crate) const BURST_PARTS: usize = 4;

/// Bytes of a packet, with all headers: jumbo frames.
pub const PACKET_LEN_MAX: usize = 9216;

/// Packets that a replay window of the smallest size looks back (RFC 4303, 3.4.3 demands 32, and recommends 64).
pub const REPLAY_WINDOW_MIN: u32 = 64;

/// The same of the largest.
pub const REPLAY_WINDOW_MAX: u32 = 4096;

/// Bytes before a packet: the longest outer header (IPv6 and UDP), the ESP header and an IV; and four in which GMAC's input begins earlier.
pub(crate) const HEAD_ROOM: usize = 80;

/// Bytes behind a packet, apart from padding against traffic analysis: padding to a cipher's block, its length, the next header, the ICV.
pub(crate) const TAIL_ROOM: usize = 64;

/// Bytes of the ESP header: SPI and sequence number (RFC 4303, 2).
pub(crate) const ESP_LEN: usize = 8;

/// Bytes of a UDP header.
pub(crate) const UDP_LEN: usize = 8;

/// Bytes of the IPv4 header that is written.
pub(crate) const IPV4_LEN: usize = 20;

/// Bytes of an IPv6 header.
pub(crate) const IPV6_LEN: usize = 40;

/// Bytes of the longest IV on the wire.
pub(crate) const IV_LEN_MAX: usize = 16;

/// Bytes of the longest ICV: HMAC-SHA-512 (RFC 4868, 2.3).
pub(crate) const ICV_LEN_MAX: usize = 32;

/// How long an association that was asked for is not asked for again.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Events that wait to be fetched; later ones are counted as lost.
pub(crate) const EVENTS_MAX: usize = 4096;

const _: () = assert!(HEAD_ROOM >= IPV6_LEN + UDP_LEN + ESP_LEN + IV_LEN_MAX + 4);
const _: () = assert!(TAIL_ROOM >= 15 + 2 + ICV_LEN_MAX);
const _: () = assert!(BURST_PARTS * BURST_BYTES_MAX <= u32::MAX as usize);
