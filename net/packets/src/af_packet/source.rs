//! A source on a receive ring.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::ring::{Frame, Next, Ring};
use crate::filter::{Filter, PROGRAM_LEN_MAX};
use crate::system::{bind_packet, option, packet_address, set_filter, set_option, socket, wait_readable};
use crate::{Received, Source, interface, ip};

/// Frames of a ring where nobody says otherwise.
const FRAMES_DEFAULT: usize = 16_384;

/// How a [`RingSource`] is opened.
#[derive(Clone, Copy, Debug)]
pub struct SourceOptions {
    /// Which packets it gets.
    pub filter: Filter,
    /// Frames of the ring, at most [`super::FRAMES_MAX`]. A frame has the next power of two above the MTU: 2 KiB for 1500 octets, 16 KiB for
    /// 9000, which the kernel allocates at once.
    pub frames: usize,
    /// How long to look at the ring before waiting for a wake, while packets come at such distances: it takes time from nobody, since other
    /// programs have their turn between two looks, and saves what sleeping and a wake cost. Zero: never.
    pub spin: Duration,
}

impl Default for SourceOptions {
    fn default() -> SourceOptions {
        SourceOptions { filter: Filter::Ip, frames: FRAMES_DEFAULT, spin: Duration::ZERO }
    }
}

/// Packets that an interface receives.
pub struct RingSource {
    /// Declared before the socket, since it is unmapped first.
    ring: Ring,
    socket: OwnedFd,
    mtu: usize,
    spin: Duration,
    /// How long the last wait took that brought a packet.
    last_wait: Cell<Duration>,
    counters: Received,
    /// What the kernel has said of dropped packets, which it forgets when it is asked.
    no_room: Cell<u64>,
}

impl std::fmt::Debug for RingSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingSource").field("mtu", &self.mtu).field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl RingSource {
    /// Receives from the interface of this name in the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, a ring that is too long, or what the kernel says: `PermissionDenied` without `CAP_NET_RAW`.
    pub fn open(name: &str, options: &SourceOptions) -> io::Result<RingSource> {
        let interface = interface::find(name)?;
        // Protocol 0: nothing comes before the filter and the ring are there.
        let socket = socket(libc::AF_PACKET, libc::SOCK_DGRAM, 0)?;
        let program = options.filter.program();
        debug_assert!(program.len() <= PROGRAM_LEN_MAX);
        set_filter(&socket, &program)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        let ring = Ring::new(&socket, options.frames, interface.mtu)?;
        bind_packet(&socket, &packet_address(interface.index, libc::ETH_P_ALL as u16, &[]))?;
        Ok(RingSource {
            ring,
            socket,
            mtu: interface.mtu,
            spin: options.spin,
            last_wait: Cell::new(Duration::ZERO),
            counters: Received::default(),
            no_room: Cell::new(0),
        })
    }

    /// Waits until the ring has something, at most `wait`.
    fn wait(&self, wait: Duration) -> io::Result<bool> {
        let (begin, spin) = (Instant::now(), self.spin.min(wait));
        // The last distance is the best guess at the next one: looking pays if that is about as long as sleeping takes.
        let is_near = self.last_wait.get() <= 2 * self.spin;
        while is_near && begin.elapsed() < spin {
            if self.ring.is_ready() {
                self.last_wait.set(begin.elapsed());
                return Ok(true);
            }
            std::thread::yield_now();
        }
        let is_ready = self.sleep(wait.saturating_sub(begin.elapsed()))?;
        self.last_wait.set(begin.elapsed());
        Ok(is_ready)
    }

    /// Sleeps until the ring has something, at most `wait`.
    fn sleep(&self, wait: Duration) -> io::Result<bool> {
        if wait.is_zero() || !wait_readable(&self.socket, wait)? {
            return Ok(self.ring.is_ready());
        }
        if self.ring.is_ready() {
            return Ok(true);
        }
        // The socket was ready without a packet: the interface went down or away.
        match rustix::net::sockopt::socket_error(&self.socket)? {
            Ok(()) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// What becomes of a frame.
enum Verdict<'a> {
    /// With whether its checksum was completed, and when it came.
    Packet(&'a [u8], bool, u64),
    Segmented,
    Truncated,
    NotIp,
}

/// Looks at a frame, and completes its checksum where the sender left that to the interface.
#[inline]
fn judge(frame: Frame<'_>, mtu: usize) -> Verdict<'_> {
    if frame.len > mtu {
        return Verdict::Segmented;
    }
    if frame.len > frame.octets.len() {
        return Verdict::Truncated;
    }
    let packet = ip::packet_len(frame.octets).and_then(|len| frame.octets.get_mut(..len));
    let Some(packet) = packet else { return Verdict::NotIp };
    // Again in the next call if the packet is refused in this one: it comes to the same.
    let is_completed = frame.is_unfinished && ip::complete_checksum(packet);
    Verdict::Packet(packet, is_completed, frame.received_ns)
}

impl RingSource {
    /// As [`Source::receive`], and of each packet when the kernel had it for this source, in nanoseconds of `CLOCK_REALTIME`: the same whenever
    /// the source is read.
    ///
    /// # Errors
    /// As [`Source::receive`].
    pub fn receive_with_times(
        &mut self,
        wait: Duration,
        mut take: impl FnMut(&[u8], u64) -> bool,
    ) -> io::Result<usize> {
        let (mut taken, octets_before) = (0, self.counters.octets);
        if !self.ring.is_ready() && !self.wait(wait)? {
            return Ok(0);
        }
        // At most once around the ring.
        for _ in 0..self.ring.frames() {
            match self.ring.peek() {
                Next::Nothing => break,
                Next::Damaged => self.counters.not_ip += 1,
                Next::Frame(frame) => match judge(frame, self.mtu) {
                    Verdict::Packet(packet, is_completed, received_ns) => {
                        if !take(packet, received_ns) {
                            break;
                        }
                        taken += 1;
                        self.counters.packets += 1;
                        self.counters.octets += packet.len() as u64;
                        self.counters.completed += u64::from(is_completed);
                    }
                    Verdict::Segmented => self.counters.segmented += 1,
                    Verdict::Truncated => self.counters.truncated += 1,
                    Verdict::NotIp => self.counters.not_ip += 1,
                },
            }
            self.ring.advance();
        }
        self.ring.warm(taken, (self.counters.octets - octets_before) as usize);
        Ok(taken)
    }
}

impl Source for RingSource {
    fn receive(&mut self, wait: Duration, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<usize> {
        self.receive_with_times(wait, |packet, _| take(packet))
    }

    fn counters(&self) -> Received {
        let zero = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let statistics = option(&self.socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, zero);
        // The option cannot fail on a socket that has a ring; if it did, the figure would be the last one.
        self.no_room.set(self.no_room.get() + statistics.map_or(0, |statistics| u64::from(statistics.tp_drops)));
        Received { no_room: self.no_room.get(), ..self.counters }
    }
}
