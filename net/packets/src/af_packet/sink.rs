//! A sink that sends to an interface.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{set_socket_send_buffer_size, set_socket_send_buffer_size_force};

use crate::neighbours::{Hop, Neighbours};
use crate::system::{packet_address, set_option, socket, wait_writable};
use crate::{Sent, Sink, interface, ip, packet_at};

/// Packets that are handed to the kernel in one call.
const BURST: usize = 64;
/// Room that waits for the interface, in octets of the kernel's own accounting.
const SEND_BUFFER_LEN: usize = 1 << 20;
/// The longest that a call may be told to wait for room.
const WAIT_MAX: Duration = Duration::from_secs(1);
const _: () = assert!(BURST <= 1024, "sendmmsg takes at most UIO_MAXIOV messages");

/// How a [`LinkSink`] is opened.
#[derive(Clone, Copy, Debug)]
pub struct SinkOptions {
    /// How long a call waits for room, altogether, before it drops packets; at most a second.
    pub wait: Duration,
}

impl Default for SinkOptions {
    fn default() -> SinkOptions {
        SinkOptions { wait: Duration::from_millis(1) }
    }
}

/// The structures of one call, which point to each other.
struct Messages {
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    addresses: Vec<libc::sockaddr_ll>,
}

// SAFETY: the pointers lead to the vectors of the same value, and to a caller's buffer only within `LinkSink::send`, which borrows it.
unsafe impl Send for Messages {}

impl Messages {
    fn new() -> Messages {
        Messages {
            headers: Vec::with_capacity(BURST),
            parts: Vec::with_capacity(BURST),
            addresses: Vec::with_capacity(BURST),
        }
    }

    fn clear(&mut self) {
        self.headers.clear();
        self.parts.clear();
        self.addresses.clear();
    }

    fn push(&mut self, packet: &[u8], address: libc::sockaddr_ll) {
        self.parts.push(libc::iovec { iov_base: packet.as_ptr().cast_mut().cast(), iov_len: packet.len() });
        self.addresses.push(address);
    }

    /// Points headers at parts and addresses, which move no more.
    fn join(&mut self) {
        for (part, address) in self.parts.iter_mut().zip(&mut self.addresses) {
            // SAFETY: the structure is integers and null pointers when all its bits are zero, and its padding is not written otherwise.
            let mut header = unsafe { std::mem::zeroed::<libc::mmsghdr>() };
            header.msg_hdr.msg_name = (&raw mut *address).cast();
            header.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_hdr.msg_iov = &raw mut *part;
            header.msg_hdr.msg_iovlen = 1;
            self.headers.push(header);
        }
    }
}

/// Packets that leave by an interface, each to the link address of its next hop.
pub struct LinkSink {
    socket: OwnedFd,
    index: u32,
    mtu: usize,
    wait: Duration,
    neighbours: Neighbours,
    messages: Messages,
    counters: Sent,
}

impl std::fmt::Debug for LinkSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkSink").field("mtu", &self.mtu).field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl LinkSink {
    /// Sends by the interface of this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, or what the kernel says: `PermissionDenied` without `CAP_NET_RAW`.
    pub fn open(name: &str, options: &SinkOptions) -> io::Result<LinkSink> {
        let interface = interface::find(name)?;
        // Protocol 0: nothing is received.
        let socket = socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        // Beyond what everybody may have needs CAP_NET_ADMIN; without it there is less room.
        if set_socket_send_buffer_size_force(&socket, SEND_BUFFER_LEN).is_err() {
            set_socket_send_buffer_size(&socket, SEND_BUFFER_LEN)?;
        }
        Ok(LinkSink {
            socket,
            index: interface.index,
            mtu: interface.mtu,
            wait: options.wait.min(WAIT_MAX),
            neighbours: Neighbours::new(&interface)?,
            messages: Messages::new(),
            counters: Sent::default(),
        })
    }

    /// Adds a packet to the messages, or counts why not. `last` is the address of the packet before, which most often is the same.
    fn prepare(&mut self, packet: &[u8], last: &mut Option<(IpAddr, Hop)>, now: Instant) -> io::Result<()> {
        let destination =
            ip::packet_len(packet).filter(|len| *len == packet.len()).and_then(|_| ip::destination(packet));
        let Some(destination) = destination else {
            self.counters.not_ip += 1;
            return Ok(());
        };
        if packet.len() > self.mtu {
            self.counters.too_long += 1;
            return Ok(());
        }
        let hop = match last {
            Some((same, hop)) if *same == destination => *hop,
            _ => {
                let hop = self.neighbours.hop(destination, now)?;
                *last = Some((destination, hop));
                hop
            }
        };
        match hop {
            Hop::Link(link) => {
                let protocol = if destination.is_ipv4() { libc::ETH_P_IP } else { libc::ETH_P_IPV6 };
                self.messages.push(packet, packet_address(self.index, protocol as u16, link.octets()));
            }
            Hop::Unresolved => self.counters.no_neighbour += 1,
            Hop::NoRoute => self.counters.no_route += 1,
        }
        Ok(())
    }

    /// Hands the messages to the kernel and returns how many it took. `until` is when waiting for room ends, once it has begun.
    fn transmit(&mut self, until: &mut Option<Instant>) -> io::Result<usize> {
        self.messages.join();
        let (mut left, mut at) = (0, 0);
        while let Some(headers) = self.messages.headers.get_mut(at..).filter(|headers| !headers.is_empty()) {
            let len = headers.len() as u32;
            // SAFETY: `join` has made each header point to its address and its part, and that to a packet that `send` borrows; the
            // kernel writes nothing but the headers' own lengths.
            let sent =
                unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), len, libc::MSG_DONTWAIT) };
            if let Ok(sent @ 1..) = usize::try_from(sent) {
                let parts = self.messages.parts.iter().skip(at).take(sent);
                self.counters.packets += sent as u64;
                self.counters.octets += parts.map(|part| part.iov_len as u64).sum::<u64>();
                left += sent;
                at += sent;
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error().unwrap_or(0) {
                libc::EINTR => continue,
                libc::EAGAIN => {
                    let until = until.get_or_insert_with(|| Instant::now() + self.wait);
                    let wait = until.saturating_duration_since(Instant::now());
                    if wait.is_zero() || !wait_writable(&self.socket, wait)? {
                        self.counters.no_room += u64::from(len);
                        break;
                    }
                    continue;
                }
                // The interface's own queue was full, and this packet is lost.
                libc::ENOBUFS | libc::ENOMEM => self.counters.no_room += 1,
                libc::EMSGSIZE => self.counters.too_long += 1,
                libc::ENETDOWN | libc::ENXIO | libc::ENODEV | libc::EBADF | libc::EPERM => {
                    self.counters.refused += u64::from(len);
                    return Err(error);
                }
                _ => self.counters.refused += 1,
            }
            at += 1;
        }
        Ok(left)
    }
}

impl Sink for LinkSink {
    fn send(&mut self, buffer: &[u8], packets: &[[u32; 2]]) -> io::Result<usize> {
        let now = Instant::now();
        self.neighbours.begin();
        let (mut left, mut last, mut until) = (0, None, None);
        for (burst, pairs) in packets.chunks(BURST).enumerate() {
            self.messages.clear();
            let mut prepared = Ok(());
            for (at, pair) in pairs.iter().enumerate() {
                prepared = packet_at(buffer, *pair).and_then(|packet| self.prepare(packet, &mut last, now));
                if prepared.is_err() {
                    self.counters.refused += (packets.len() - burst * BURST - at) as u64;
                    break;
                }
            }
            let sent = self.transmit(&mut until);
            if sent.is_err() && prepared.is_ok() {
                self.counters.refused += packets.len().saturating_sub((burst + 1) * BURST) as u64;
            }
            left += sent?;
            prepared?;
        }
        Ok(left)
    }

    fn counters(&self) -> Sent {
        self.counters
    }
}
