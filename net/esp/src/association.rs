//! Security associations (RFC 4301, 4.4.2): what they are made of, and what packets need of them.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use ciphermill_contract::{Direction, KeyId};
use zeroize::Zeroizing;

use crate::columns::GroupKind;
use crate::error::AddError;
use crate::ip::Flow;
use crate::limits::PACKET_LEN_MAX;
use crate::outer::{Copying, Encapsulation, OuterHeader};
use crate::policy::Selector;
use crate::replay::ReplayWindow;
use crate::transform::Transform;

/// How sequence numbers are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sequence {
    /// In 32 bits: after 2^32 - 1 packets the association is over.
    #[default]
    Short,
    /// In 64 bits, of which packets carry the low half (RFC 4303, 2.2.1).
    Extended,
}

/// Bounds of an association's life; none where there is no number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// Bytes of inner packets.
    pub bytes: Option<u64>,
    /// Packets.
    pub packets: Option<u64>,
    /// Since it was added.
    pub after: Option<Duration>,
}

/// When a new association is asked for, and when this one is over (RFC 4301, 4.4.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// When an event asks for a new one.
    pub soft: Lifetime,
    /// When packets are dropped.
    pub hard: Lifetime,
}

/// What went through an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Packets.
    pub packets: u64,
    /// Bytes of inner packets.
    pub bytes: u64,
    /// When it was last used, by the clock that bursts are given.
    pub last_used: Option<Duration>,
}

/// The secret part. `Debug` shows lengths.
#[derive(Clone)]
pub struct Keys {
    /// The cipher's key and behind it the MAC's, as [`Transform::key_len`] says.
    pub key: Zeroizing<Vec<u8>>,
    /// As [`Transform::salt_len`] says.
    pub salt: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({} bytes, salt of {})", self.key.len(), self.salt.len())
    }
}

/// An association as a file or a key exchange describes it. The same for both directions: source and destination are the packets'.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// The security parameters index.
    pub spi: u32,
    /// Algorithms.
    pub transform: Transform,
    /// The tunnel's end that packets come from.
    pub source: IpAddr,
    /// The one that they go to.
    pub destination: IpAddr,
    /// UDP around them.
    pub encapsulation: Option<Encapsulation>,
    /// The number by which policies name the associations of a tunnel.
    pub tunnel: u32,
    /// How they are counted.
    pub sequence: Sequence,
    /// The last number that was sent or accepted: zero for a fresh association.
    pub last: u64,
    /// Packets that the replay window looks back; zero where the peer may repeat packets.
    pub replay_window: u32,
    /// Bounds of its life.
    pub lifetimes: Lifetimes,
    /// Bytes that an outer packet may have on its path.
    pub path_mtu: u16,
    /// What the outer header says.
    pub copying: Copying,
    /// Inner packets that are shorter are padded to so many bytes where they fit the path (RFC 4303, 2.7).
    pub pad_to: u16,
    /// What inner packets must be, besides what policies say.
    pub selector: Option<Selector>,
}

impl Parameters {
    /// An association with what most have: 32-bit numbers, a window of 64 packets, no bounds, Ethernet's MTU.
    pub fn new(spi: u32, transform: Transform, source: IpAddr, destination: IpAddr) -> Parameters {
        Parameters {
            spi,
            transform,
            source,
            destination,
            encapsulation: None,
            tunnel: 0,
            sequence: Sequence::Short,
            last: 0,
            replay_window: 64,
            lifetimes: Lifetimes::default(),
            path_mtu: 1500,
            copying: Copying::default(),
            pad_to: 0,
            selector: None,
        }
    }

    /// Whether an association for this direction can be made of them, as far as that depends neither on keys nor on which ones there are.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn check(&self, direction: Direction) -> Result<(), AddError> {
        if self.spi < 256 {
            return Err(AddError::Spi(self.spi));
        }
        match direction {
            Direction::Encrypt => self.inner_max(self.outer()?.len(), None).map(drop),
            Direction::Decrypt => self.window().map(drop),
        }
    }

    /// The header around its packets.
    pub(crate) fn outer(&self) -> Result<OuterHeader, AddError> {
        OuterHeader::new(self.source, self.destination, self.encapsulation, self.copying).ok_or(AddError::Families)
    }

    /// Bytes of the longest inner packet that the path carries, in an outer header of so many, where it was heard to carry less than configured.
    pub(crate) fn inner_max(&self, outer_len: usize, heard: Option<u16>) -> Result<u16, AddError> {
        let path_mtu = heard.unwrap_or(u16::MAX).min(self.path_mtu);
        let room = usize::from(path_mtu).min(PACKET_LEN_MAX).saturating_sub(outer_len);
        let inner_max = self.transform.payload_max(room).filter(|_| path_mtu >= path_mtu_min(self.source));
        inner_max.map(|len| len as u16).ok_or(AddError::Mtu(path_mtu))
    }

    pub(crate) fn window(&self) -> Result<ReplayWindow, AddError> {
        if self.source.is_ipv4() != self.destination.is_ipv4() {
            return Err(AddError::Families);
        }
        if self.sequence == Sequence::Extended && self.replay_window == 0 {
            return Err(AddError::ExtendedWithoutWindow);
        }
        let window = ReplayWindow::new(self.replay_window).ok_or(AddError::Window(self.replay_window))?;
        Ok(if self.last > 0 { window.starting_at(self.last) } else { window })
    }
}

/// Bytes that a packet may have on every path: with less, tunnels are not begun, and of less nobody is believed.
pub(crate) fn path_mtu_min(end: IpAddr) -> u16 {
    if end.is_ipv4() { 576 } else { 1280 }
}

/// What both directions' packets need.
pub(crate) struct Common {
    /// Which columns its packets go into.
    pub(crate) group: u16,
    pub(crate) kind: GroupKind,
    /// The keys, as [`GroupKind::suites`] has them.
    pub(crate) keys: [KeyId; 2],
    /// As on the wire.
    pub(crate) spi: [u8; 4],
    pub(crate) salt: Zeroizing<[u8; 4]>,
    pub(crate) salt_len: u8,
    pub(crate) iv_len: u8,
    pub(crate) icv_len: u8,
    pub(crate) alignment: u8,
    pub(crate) has_udp: bool,
    pub(crate) parameters: Box<Parameters>,
}

/// An association that packets leave by: what changes with each packet, under the lock that the associations are under.
pub(crate) struct Outbound {
    pub(crate) last: u64,
    pub(crate) meter: Meter,
    /// Bytes of the longest inner packet that fits the path.
    pub(crate) inner_max: u16,
    pub(crate) pad_to: u16,
    /// Bytes that trailer and ICV have at most.
    pub(crate) tail_max: u16,
    /// Whether its tunnel's packets leave by it, and not by another one.
    pub(crate) leads: bool,
    pub(crate) shape: Shape,
    pub(crate) common: Box<Common>,
}

// With thousands of associations each line of the cache is fetched anew for a packet: three with the place's own word, and all that a packet needs.
const _: () = assert!(size_of::<Outbound>() <= 3 * 64 - 8);

impl Outbound {
    /// The last number that it may give (RFC 4303, 3.3.3).
    #[inline(always)]
    pub(crate) fn last_max(&self) -> u64 {
        if self.shape.is_extended { u64::MAX } else { u64::from(u32::MAX) }
    }
}

/// What stands around the packets of an association, the same as long as that is there. Bursts keep copies, so that one core lays packets out while
/// another gives numbers to the next ones.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) outer: OuterHeader,
    pub(crate) keys: [KeyId; 2],
    pub(crate) spi: [u8; 4],
    pub(crate) salt: Zeroizing<[u8; 4]>,
    /// Which columns its packets go into, and from where on of a packet.
    pub(crate) group: u16,
    pub(crate) lead: u8,
    pub(crate) salt_len: u8,
    pub(crate) iv_len: u8,
    pub(crate) icv_len: u8,
    pub(crate) alignment: u8,
    pub(crate) is_extended: bool,
    /// Whether the IV is the packet's number.
    pub(crate) counts_ivs: bool,
}

impl Shape {
    pub(crate) fn new(outer: OuterHeader, common: &Common) -> Shape {
        Shape {
            outer,
            keys: common.keys,
            spi: common.spi,
            salt: common.salt.clone(),
            group: common.group,
            lead: common.kind.lead() as u8,
            salt_len: common.salt_len,
            iv_len: common.iv_len,
            icv_len: common.icv_len,
            alignment: common.alignment,
            is_extended: common.kind.is_extended,
            counts_ivs: !common.kind.draws_ivs() && common.iv_len > 0,
        }
    }
}

/// An association that packets come by.
pub(crate) struct Inbound {
    pub(crate) window: ReplayWindow,
    /// The packets that policy and selector have let pass last, and the policies' epoch then: most often the next one is like them.
    pub(crate) allowed: Flow,
    pub(crate) allowed_at: u64,
    /// Where the peer's packets come from, if they have ever come from elsewhere than the parameters say.
    pub(crate) moved_to: Option<(IpAddr, u16)>,
    pub(crate) meter: Meter,
    pub(crate) common: Common,
}

// As above: four.
const _: () = assert!(size_of::<Inbound>() <= 4 * 64 - 16);

/// The epoch of no policies.
pub(crate) const NEVER_ALLOWED: u64 = u64::MAX;

/// What an association still may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Good,
    /// It is time for another one; said once.
    Ending,
    /// It is over; said once.
    Over,
    /// It has been over before.
    Past,
    /// It has no more numbers.
    UsedUp,
}

/// What went through, and what may. Times are nanoseconds of the packets' clock, which lasts for centuries.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    packets: u64,
    bytes: u64,
    /// [`NEVER`] before the first packet.
    last_used_ns: u64,
    /// The next bounds that are met.
    next: Bounds,
    /// By themselves: packets do not ask.
    hard: Box<Bounds>,
    is_ending: bool,
    is_over: bool,
}

/// A time that does not come.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Bounds {
    packets: u64,
    bytes: u64,
    time_ns: u64,
}

impl Bounds {
    fn of(lifetime: &Lifetime, now: Duration) -> Bounds {
        let time_ns = lifetime.after.map_or(NEVER, |after| nanoseconds(now.saturating_add(after)));
        Bounds { packets: lifetime.packets.unwrap_or(u64::MAX), bytes: lifetime.bytes.unwrap_or(u64::MAX), time_ns }
    }

    fn nearer(self, other: Bounds) -> Bounds {
        Bounds {
            packets: self.packets.min(other.packets),
            bytes: self.bytes.min(other.bytes),
            time_ns: self.time_ns.min(other.time_ns),
        }
    }
}

/// A time as packets are told it.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

impl Meter {
    pub(crate) fn new(lifetimes: &Lifetimes, now: Duration) -> Meter {
        let (soft, hard) = (Bounds::of(&lifetimes.soft, now), Bounds::of(&lifetimes.hard, now));
        let next = soft.nearer(hard);
        Meter {
            packets: 0,
            bytes: 0,
            last_used_ns: NEVER,
            next,
            hard: Box::new(hard),
            is_ending: false,
            is_over: false,
        }
    }

    /// Counts a packet of so many bytes, unless the association's life is over with it.
    #[inline]
    pub(crate) fn take(&mut self, len: usize, now_ns: u64) -> Life {
        let (packets, bytes) = (self.packets + 1, self.bytes + len as u64);
        let is_good = packets <= self.next.packets && bytes <= self.next.bytes && now_ns < self.next.time_ns;
        let life = if is_good { Life::Good } else { self.bound(packets, bytes, now_ns) };
        if matches!(life, Life::Good | Life::Ending) {
            (self.packets, self.bytes, self.last_used_ns) = (packets, bytes, now_ns);
        }
        life
    }

    #[cold]
    fn bound(&mut self, packets: u64, bytes: u64, now_ns: u64) -> Life {
        let hard = *self.hard;
        self.next = hard;
        if packets > hard.packets || bytes > hard.bytes || now_ns >= hard.time_ns {
            return if core::mem::replace(&mut self.is_over, true) { Life::Past } else { Life::Over };
        }
        if core::mem::replace(&mut self.is_ending, true) { Life::Good } else { Life::Ending }
    }

    /// What time alone does to it, while no packets come.
    pub(crate) fn passes(&mut self, now: Duration) -> Life {
        let now_ns = nanoseconds(now);
        if now_ns < self.next.time_ns { Life::Good } else { self.bound(self.packets, self.bytes, now_ns) }
    }

    pub(crate) fn usage(&self) -> Usage {
        let last_used = (self.last_used_ns != NEVER).then(|| Duration::from_nanos(self.last_used_ns));
        Usage { packets: self.packets, bytes: self.bytes, last_used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(soft: Lifetime, hard: Lifetime) -> Meter {
        Meter::new(&Lifetimes { soft, hard }, Duration::from_secs(10))
    }

    #[test]
    fn the_soft_bound_is_told_once_and_behind_the_hard_one_nothing_is_counted() {
        let packets = |packets| Lifetime { packets: Some(packets), ..Lifetime::default() };
        let mut meter = meter(packets(2), packets(4));
        let lives: Vec<Life> = (0..6).map(|_| meter.take(100, 11_000_000_000)).collect();
        assert_eq!(lives, [Life::Good, Life::Good, Life::Ending, Life::Good, Life::Over, Life::Past]);
        assert_eq!((meter.usage().packets, meter.usage().bytes), (4, 400));
    }

    #[test]
    fn bytes_count_whole_packets_and_time_counts_from_the_start() {
        let bytes = Lifetime { bytes: Some(150), ..Lifetime::default() };
        let mut by_bytes = meter(Lifetime::default(), bytes);
        assert_eq!([100, 51, 50].map(|len| by_bytes.take(len, 0)), [Life::Good, Life::Over, Life::Good]);
        let after = |secs| Lifetime { after: Some(Duration::from_secs(secs)), ..Lifetime::default() };
        let mut by_time = meter(after(5), after(7));
        let at = [14, 15, 16, 17, 18].map(|secs| by_time.passes(Duration::from_secs(secs)));
        assert_eq!(at, [Life::Good, Life::Ending, Life::Good, Life::Over, Life::Past]);
    }

    #[test]
    fn keys_are_not_shown() {
        let keys = Keys { key: Zeroizing::new(vec![0xab; 16]), salt: Zeroizing::new(vec![0xcd; 4]) };
        assert_eq!(format!("{keys:?}"), "Keys(16 bytes, salt of 4)");
    }
}
