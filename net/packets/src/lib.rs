//! IP packets from and to interfaces, files and memory, behind two traits: a [`Source`] hands packets out, a [`Sink`] takes them.
//!
//! A packet begins with its IP header and ends where that header says; link headers, padding of short frames and link addresses stay
//! below the traits. The ways: [`af_packet`] (rings of an interface), [`tun`] (a device of our own), [`pcap`] (files) and [`memory`].
//! [`takeover`] keeps from the kernel what a ring takes, and [`namespace`] makes and removes the network namespaces that tests and labs need.
//!
//! Nothing here waits without a bound, and nothing is dropped without being counted by its reason ([`Received`], [`Sent`]).
#![allow(
    unsafe_code,
    reason = "rings that the kernel writes, ioctls and socket options without a safe crate; all in `system` and `af_packet`"
)]

pub mod af_packet;
pub mod filter;
pub mod interface;
pub mod ip;
pub mod memory;
pub mod namespace;
pub mod neighbours;
pub mod pcap;
mod system;
pub mod takeover;
pub mod tun;

use std::io;
use std::time::Duration;

/// Octets of the longest packet that passes here: what the length field of IPv4 can say (RFC 791, section 3.1).
pub const PACKET_LEN_MAX: usize = 65_535;

/// What a source has received and what it has left out, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Packets that the kernel dropped since there was no room, in a ring or a queue.
    pub no_room: u64,
    /// Packets longer than a frame of the ring or the buffer.
    pub truncated: u64,
    /// Segmentation-offloaded packets longer than the interface's MTU: offloads are on ([`interface::prepare_interface`]).
    pub segmented: u64,
    /// Frames that hold no whole IP packet.
    pub not_ip: u64,
    /// Packets taken whose checksum the sender had left to the interface, completed here.
    pub completed: u64,
}

/// What a sink has sent and what it has dropped, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that left.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
    /// Packets for which there was no room within the time that a sink waits.
    pub no_room: u64,
    /// Packets whose next hop's link address is not known yet, or does not answer.
    pub no_neighbour: u64,
    /// Packets to which the kernel's tables have no way through this interface, and multicasts.
    pub no_route: u64,
    /// Packets longer than the interface's MTU.
    pub too_long: u64,
    /// What is no IP packet.
    pub not_ip: u64,
    /// Packets that the kernel refused for another reason.
    pub refused: u64,
}

impl Sent {
    /// Packets that did not leave, whatever the reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.no_room + self.no_neighbour + self.no_route + self.too_long + self.not_ip + self.refused
    }
}

/// Where packets come from.
pub trait Source: Send {
    /// Hands packets to `take`, waiting at most `wait` for the first one; never waits for more once one was there.
    ///
    /// `take` returns false when it has no room: that packet stays for the next call. Returns how many were taken. The number handed out in
    /// one call is bounded, by the ring or by a named limit.
    ///
    /// # Errors
    /// What the kernel says of the interface or the file, as when a device is gone; a damaged file, with the packet's number and offset.
    fn receive(&mut self, wait: Duration, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<usize>;

    /// What came and what was left out until now. May ask the kernel, so not once a packet.
    fn counters(&self) -> Received;

    /// Whether no packet will ever come again: a file's end, a queue whose other end is gone.
    fn is_ended(&self) -> bool {
        false
    }
}

/// Where packets go.
pub trait Sink: Send {
    /// Sends packets in order and returns how many left; `packets` has where each lies in `buffer`, from start to end, ascending.
    ///
    /// Those that could not be sent are counted by their reason ([`Sent`]) and not retried.
    ///
    /// # Errors
    /// `InvalidInput` if a pair does not lie in `buffer`: packets before it were sent. Otherwise what makes the sink useless, as when the
    /// interface is gone or a disk is full; the packets that were left are counted as refused.
    fn send(&mut self, buffer: &[u8], packets: &[[u32; 2]]) -> io::Result<usize>;

    /// What left and what was dropped until now.
    fn counters(&self) -> Sent;
}

/// The packet that lies at a pair of offsets.
fn packet_at(buffer: &[u8], [start, end]: [u32; 2]) -> io::Result<&[u8]> {
    buffer
        .get(start as usize..end as usize)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a packet does not lie in its buffer"))
}
