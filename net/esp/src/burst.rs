//! The buffer that packets lie in while they are worked on.

use core::time::Duration;

use ciphermill::Session;
use ciphermill_contract::Direction;
use ciphermill_memory::wipe;
use zeroize::Zeroize;

use crate::association::{Shape, nanoseconds};
use crate::columns::{Group, GroupKind};
use crate::error::CryptError;
use crate::limits::{BURST_BYTES_MAX, BURST_PACKETS_MAX, BURST_PARTS, HEAD_ROOM, PACKET_LEN_MAX, TAIL_ROOM};
use crate::policy::Verdict;
use crate::slots::SaId;

/// Packets of one association that follow each other, on the average, from which on it pays to keep what they have in common.
const RUN_LEN_MIN: usize = 8;

/// Packets begin at multiples of a line of the cache, behind their room.
const LINE: usize = 64;

/// Packets with room around them, and the columns that they become. Made once by a worker and used again for each burst: nothing is allocated
/// for a packet.
///
/// It is filled by [`Burst::push`], goes the way that the crate's head describes, and is read by [`Burst::leaving`] and [`Burst::answers`].
pub struct Burst {
    /// Packets that are pushed have the first part. The rest, which costs nothing until it is used, is for fragments of those that are cut.
    pub(crate) data: Vec<u8>,
    fill: usize,
    /// How far it was ever filled.
    used: usize,
    tail_room: usize,
    packets_max: usize,
    pub(crate) packets: Vec<Packet>,
    pub(crate) groups: Vec<Group>,
    /// What stands around packets that leave: of each association whose packets follow each other, once.
    pub(crate) shapes: Vec<(SaId, Shape)>,
    /// How often the next packet was of another association.
    runs: usize,
    last_id: Option<SaId>,
    /// Whether packets are laid out after the lock is given back. Decided by the burst before: keeping the shapes of many associations takes
    /// longer than laying packets out.
    pub(crate) is_laid_out_later: bool,
    pub(crate) direction: Direction,
    /// What was found for each packet, where that was looked up beforehand.
    pub(crate) found: Vec<Found>,
    pub(crate) leaving: Vec<[u32; 2]>,
    pub(crate) answers: Vec<u8>,
    pub(crate) answer_spans: Vec<[u32; 2]>,
    pub(crate) now: Duration,
    /// The same as associations' bounds have it.
    pub(crate) now_ns: u64,
}

/// What policy says of a packet, and the association for it if there is one. In whole words, as [`Place`] is.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) verdict: Verdict,
    pub(crate) id: Option<SaId>,
    /// Bytes that the packet says it has; zero of what is none.
    pub(crate) len: usize,
}

impl Found {
    /// No policy decides on it.
    pub(crate) const NOTHING: Found = Found { verdict: Verdict::NOTHING, id: None, len: 0 };
}

/// A packet of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Where it begins and ends: as it came, then as it leaves.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Where its ESP header begins, as soon as that is known.
    pub(crate) esp: u32,
    pub(crate) place: Place,
    pub(crate) id: SaId,
    pub(crate) number: u64,
    /// What stands around a packet that leaves: the number of the burst's shape.
    pub(crate) shape: u32,
    /// Bytes of what is within, for counting what leaves, and how many they are made to look.
    pub(crate) inner_len: u16,
    pub(crate) shown_len: u16,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nobody has looked at it.
    New,
    /// The same of one that nobody sent, for the association that the packet names.
    Dummy,
    /// A part of a packet, for the association that was found for the whole.
    Part,
    /// It has its number, and this next header, and nothing stands around it yet.
    Numbered(u8),
    /// A set of columns, and the number within it.
    Column(usize, u32),
    /// It leaves as it is.
    Bypass,
    /// It does not leave.
    Dropped,
}

/// A packet's fate in one word. An enum with numbers in it is stored in some pieces and moved in others, which wait for each
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const NEW: Place = Place(0);
    pub(crate) const DUMMY: Place = Place(1 << KIND);
    pub(crate) const PART: Place = Place(2 << KIND);
    pub(crate) const BYPASS: Place = Place(3 << KIND);
    pub(crate) const DROPPED: Place = Place(4 << KIND);
    const NUMBERED: u64 = 5 << KIND;
    const COLUMN: u64 = 6 << KIND;

    #[inline(always)]
    pub(crate) fn numbered(next_header: u8) -> Place {
        Place(Self::NUMBERED | u64::from(next_header))
    }

    #[inline(always)]
    pub(crate) fn column(group: u16, index: u32) -> Place {
        Place(Self::COLUMN | u64::from(group) << 32 | u64::from(index))
    }

    #[inline(always)]
    pub(crate) fn fate(self) -> Fate {
        match self.0 >> KIND {
            0 => Fate::New,
            1 => Fate::Dummy,
            2 => Fate::Part,
            3 => Fate::Bypass,
            5 => Fate::Numbered(self.0 as u8),
            6 => Fate::Column((self.0 >> 32) as u16 as usize, self.0 as u32),
            _ => Fate::Dropped,
        }
    }
}

/// The bit from which on a place says which fate it is.
const KIND: u32 = 48;

impl Burst {
    /// Room for so many packets, and bytes of them together with what lies around each, which is some 200 bytes and `pad_to`: to how many bytes
    /// the associations pad inner packets at most. More than the limits is cut to them.
    pub fn new(packets_max: usize, bytes: usize, pad_to: u16) -> Burst {
        let packets_max = packets_max.clamp(1, BURST_PACKETS_MAX);
        let tail_room = TAIL_ROOM + usize::from(pad_to);
        let least = HEAD_ROOM + PACKET_LEN_MAX + tail_room + LINE;
        Burst {
            data: vec![0; BURST_PARTS * bytes.clamp(least, BURST_BYTES_MAX)],
            fill: 0,
            used: 0,
            tail_room,
            packets_max,
            packets: Vec::with_capacity(2 * packets_max),
            groups: Vec::new(),
            // Never more than packets that were pushed: it does not grow, which would leave copies of salts behind.
            shapes: Vec::with_capacity(packets_max),
            runs: 0,
            last_id: None,
            is_laid_out_later: true,
            direction: Direction::Encrypt,
            found: Vec::new(),
            leaving: Vec::with_capacity(packets_max),
            answers: Vec::new(),
            answer_spans: Vec::new(),
            now: Duration::ZERO,
            now_ns: 0,
        }
    }

    /// Empties it for the next packets.
    pub fn clear(&mut self) {
        self.used = self.used.max(self.fill);
        self.fill = 0;
        self.is_laid_out_later = RUN_LEN_MIN * self.runs <= self.packets.len();
        (self.runs, self.last_id) = (0, None);
        self.packets.clear();
        self.shapes.clear();
        self.leaving.clear();
        self.answers.clear();
        self.answer_spans.clear();
        self.groups.iter_mut().for_each(Group::clear);
    }

    /// Copies a packet into the burst. `false` when there is no room for it; one of more than [`PACKET_LEN_MAX`] bytes is taken as an empty one,
    /// which is dropped and counted.
    #[inline]
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let packet = if packet.len() > PACKET_LEN_MAX { &[] } else { packet };
        self.push_within(self.packets_max, self.data.len() / BURST_PARTS, packet)
    }

    #[inline(always)]
    fn push_within(&mut self, packets_max: usize, bytes: usize, packet: &[u8]) -> bool {
        let Some(start) = self.place(packets_max, bytes, packet.len()) else { return false };
        self.data[start..start + packet.len()].copy_from_slice(packet);
        self.packets.push(Packet::new(start, packet.len()));
        true
    }

    /// Adds a part of a packet that goes where the whole would.
    pub(crate) fn push_part(&mut self, id: SaId, part: &[u8]) -> bool {
        let is_pushed = self.push_within(usize::MAX, self.data.len(), part);
        if let Some(packet) = self.packets.last_mut().filter(|_| is_pushed) {
            (packet.place, packet.id) = (Place::PART, id);
        }
        is_pushed
    }

    /// Adds a dummy packet of so many bytes for an association (RFC 4303, 2.6), which nobody can tell from others. `false` without room.
    pub fn push_dummy(&mut self, id: SaId, len: u16) -> bool {
        let len = usize::from(len).min(PACKET_LEN_MAX);
        let Some(start) = self.place(self.packets_max, self.data.len() / BURST_PARTS, len) else { return false };
        self.data[start..start + len].fill(0);
        self.packets.push(Packet { place: Place::DUMMY, id, ..Packet::new(start, len) });
        true
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Where a packet of `len` bytes goes, among so many packets and within so many bytes.
    #[inline]
    fn place(&mut self, packets_max: usize, bytes: usize, len: usize) -> Option<usize> {
        let start = self.fill + HEAD_ROOM;
        let end = start + len + self.tail_room;
        if self.packets.len() >= packets_max || end > bytes {
            return None;
        }
        self.fill = end.next_multiple_of(LINE);
        Some(start)
    }

    /// Bytes that a packet may grow at its end.
    #[inline]
    pub(crate) fn tail_room(&self) -> usize {
        self.tail_room
    }

    /// Counts an association's packet.
    #[inline(always)]
    pub(crate) fn count_run(&mut self, id: SaId) {
        if self.last_id != Some(id) {
            (self.last_id, self.runs) = (Some(id), self.runs + 1);
        }
    }

    /// Keeps an association's shape for laying packets out later; the burst's number for it.
    #[inline(always)]
    pub(crate) fn keep_shape(&mut self, id: SaId, shape: &Shape) -> u32 {
        if self.shapes.last().is_none_or(|(last, _)| *last != id) {
            self.shapes.push((id, shape.clone()));
        }
        (self.shapes.len() - 1) as u32
    }

    /// Starts a direction with these sets of columns.
    pub(crate) fn begin(&mut self, direction: Direction, kinds: &[GroupKind], now: Duration) {
        self.direction = direction;
        (self.now, self.now_ns) = (now, nanoseconds(now));
        // A burst may go through one pair of tunnels and then another, whose kinds stand in another order.
        let same = self.groups.iter().zip(kinds).take_while(|(group, kind)| group.kind() == **kind).count();
        if same < self.groups.len() && same < kinds.len() {
            self.groups.truncate(same);
        }
        let have = self.groups.len().min(kinds.len());
        self.groups.extend(kinds[have..].iter().map(|kind| Group::new(*kind)));
    }

    /// Encrypts and authenticates, or verifies and decrypts, what [`crate::Tunnels`] has looked at. Nobody else waits meanwhile.
    ///
    /// # Errors
    /// The first one, if a mill did not run a set of columns; the others are run nevertheless.
    pub fn crypt(&mut self, session: &mut Session) -> Result<(), CryptError> {
        self.lay_out();
        let mut all = Ok(());
        for group in &mut self.groups {
            all = all.and(group.run(session, &mut self.data, self.direction));
        }
        all
    }

    /// The packets that leave for the other side, where they lie in the buffer, in order: when the burst was committed.
    pub fn leaving(&self) -> (&[u8], &[[u32; 2]]) {
        (&self.data, &self.leaving)
    }

    /// ICMP errors for those who sent the packets. Of packets that left, they go back to the side within. Of packets that came, they are for
    /// hosts behind the tunnel's other end, and quote what was protected: they have to go through the tunnel themselves, as packets that
    /// leave, and never in clear.
    pub fn answers(&self) -> (&[u8], &[[u32; 2]]) {
        (&self.answers, &self.answer_spans)
    }
}

impl Packet {
    /// Its bytes.
    #[inline(always)]
    pub(crate) fn octets<'d>(&self, data: &'d [u8]) -> &'d [u8] {
        &data[self.start as usize..self.end as usize]
    }

    fn new(start: usize, len: usize) -> Packet {
        Packet {
            start: start as u32,
            end: (start + len) as u32,
            esp: 0,
            place: Place::NEW,
            id: SaId::NONE,
            number: 0,
            shape: 0,
            inner_len: 0,
            shown_len: 0,
        }
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        let used = self.used.max(self.fill).min(self.data.len());
        wipe(&mut self.data[..used]);
        self.answers.zeroize();
    }
}
