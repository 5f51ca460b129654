//! Packets from any bytes, in both directions; the fuzz target `esp_inbound` runs it too.
//!
//! Bytes say which associations there are, what an honest sender sends, and what somebody on the way makes of it. Nothing may leave the
//! receiver that was not sealed, and nothing twice.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ciphermill::{Mill, SelfTest, Session};
use ciphermill_contract::{Direction, Engine};
use ciphermill_esp::{
    Action, Burst, Counters, Encapsulation, Keys, Parameters, Policy, Prefix, Selector, Sequence, Transform, Tunnels,
};
use ciphermill_reference::Reference;
use zeroize::Zeroizing;

const ASSOCIATIONS_MAX: usize = 5;
const STEPS_MAX: usize = 200;
const NOW: Duration = Duration::from_secs(1);

static MILL: LazyLock<Mill> = LazyLock::new(|| {
    let engines = [Arc::new(Reference::new()) as Arc<dyn Engine>];
    Mill::builder().engines(engines).legacy(true).self_test(SelfTest::Never).open().expect("opens")
});

thread_local! {
    /// Of all inputs: a session's end adds up what it measured, which takes longer than a short input does.
    static SESSION: RefCell<Session> = RefCell::new(MILL.session());
}

static TRANSFORMS: LazyLock<Vec<Transform>> = LazyLock::new(|| Transform::all().collect());

/// Small values out of bytes; zeros when there are no more.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> usize {
        self.bytes(1).first().map_or(0, |byte| usize::from(*byte))
    }

    fn word(&mut self) -> usize {
        self.byte() << 8 | self.byte()
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct World<'s> {
    session: &'s mut Session,
    sender: Tunnels,
    receiver: Tunnels,
    burst: Burst,
    parameters: Vec<Parameters>,
    /// Packets that were sealed.
    sealed: Vec<Vec<u8>>,
    /// What was within them, and how often it may still leave.
    within: BTreeMap<Vec<u8>, usize>,
    /// Packets on their way.
    on_way: Vec<Vec<u8>>,
    count: u32,
}

/// Runs one input. Returns how many packets left the receiver, and how many it refused.
///
/// # Panics
/// When something leaves that was not sealed, or twice, or packets are counted wrongly.
pub(crate) fn run(bytes: &[u8]) -> (u64, u64) {
    SESSION.with_borrow_mut(|session| run_in(session, Reader(bytes)))
}

fn run_in(session: &mut Session, mut from: Reader<'_>) -> (u64, u64) {
    let mut world = World::new(session, &mut from);
    for _ in 0..STEPS_MAX {
        if from.0.is_empty() {
            break;
        }
        world.step(&mut from);
    }
    world.receive();
    let received = world.receiver.counters().1;
    (received.done, received.dropped_all())
}

/// What is the same of a packet before and behind a tunnel: without time to live, congestion and checksum.
fn steady(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[1] &= 0xfc;
        packet[8] = 0;
        packet[10..12].fill(0);
    } else {
        packet[1] &= 0xcf;
        packet[7] = 0;
    }
    packet
}

fn inner(association: usize, is_v6: bool, len: usize, number: u32) -> Vec<u8> {
    let mut packet = vec![0; len.max(52)];
    if is_v6 {
        let payload_len = (packet.len() - 40) as u16;
        packet[0] = 0x60;
        packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
        (packet[6], packet[7]) = (17, 64);
        packet[8..24].copy_from_slice(&Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
        packet[24..40].copy_from_slice(&Ipv6Addr::new(0xfd00, association as u16, 0, 0, 0, 0, 0, 2).octets());
    } else {
        let total_len = packet.len() as u16;
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&total_len.to_be_bytes());
        (packet[8], packet[9]) = (64, 17);
        packet[12..16].copy_from_slice(&[10, 0, 0, 1]);
        packet[16..20].copy_from_slice(&[10, 0, association as u8, 2]);
    }
    let end = packet.len();
    packet[end - 4..].copy_from_slice(&number.to_be_bytes());
    packet
}

impl<'s> World<'s> {
    fn new(session: &'s mut Session, from: &mut Reader<'_>) -> World<'s> {
        let mut world = World {
            session,
            sender: Tunnels::new(&MILL),
            receiver: Tunnels::new(&MILL),
            burst: Burst::new(80, 1 << 17, 200),
            parameters: Vec::new(),
            sealed: Vec::new(),
            within: BTreeMap::new(),
            on_way: Vec::new(),
            count: 0,
        };
        world.receiver.set_own_addresses(vec![Ipv4Addr::new(10, 0, 0, 254).into()]);
        for association in 0..1 + from.byte() % ASSOCIATIONS_MAX {
            world.add(association, from);
        }
        world
    }

    fn add(&mut self, association: usize, from: &mut Reader<'_>) {
        let transform = TRANSFORMS[from.byte() % TRANSFORMS.len()];
        let flags = from.byte();
        let ends: [IpAddr; 2] = match flags & 1 {
            0 => [Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into()],
            _ => [Ipv6Addr::LOCALHOST.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()],
        };
        let is_extended = flags & 2 != 0;
        let last = match (flags >> 4 & 3, is_extended) {
            (0, _) => 0,
            (1, _) => u64::from(u32::MAX) - 5,
            (2, true) => (3 << 32) - 3,
            (_, true) => u64::MAX - 9,
            (_, false) => 1000,
        };
        let encapsulation = (flags & 4 != 0).then_some(Encapsulation { source_port: 4500, destination_port: 4500 });
        let parameters = Parameters {
            encapsulation,
            tunnel: association as u32,
            sequence: if is_extended { Sequence::Extended } else { Sequence::Short },
            last,
            replay_window: [64, 128, 4096, 192][flags >> 6],
            pad_to: if flags & 8 != 0 { 200 } else { 0 },
            ..Parameters::new(0x1000 + association as u32, transform, ends[0], ends[1])
        };
        let secret = |len: usize| Zeroizing::new((0..len).map(|at| (at * 5 + association) as u8 ^ 0x3c).collect());
        let keys = Keys { key: secret(transform.key_len()), salt: secret(transform.salt_len()) };
        self.sender.add_outbound(parameters.clone(), &keys, NOW).expect("added");
        self.receiver.add_inbound(parameters.clone(), &keys, NOW).expect("added");
        self.parameters.push(parameters);
        let all: [(IpAddr, IpAddr, u8, u8); 2] = [
            (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(10, 0, association as u8, 0).into(), 0, 24),
            (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0xfd00, association as u16, 0, 0, 0, 0, 0, 0).into(), 0, 32),
        ];
        for (source, destination, source_len, destination_len) in all {
            let prefixes = Prefix::new(source, source_len).zip(Prefix::new(destination, destination_len));
            let selector = prefixes.and_then(|(source, destination)| Selector::between(source, destination));
            let action = Action::Protect(association as u32);
            let policy = Policy { selector: selector.expect("one family"), action, priority: 1 };
            self.sender.add_policy(Direction::Encrypt, policy.clone()).expect("room");
            self.receiver.add_policy(Direction::Decrypt, policy).expect("room");
        }
    }

    fn step(&mut self, from: &mut Reader<'_>) {
        match from.byte() % 8 {
            0 | 1 => self.send(from),
            2 => self.on_way.extend(pick(&self.sealed, from)),
            3 | 4 => self.damage(from),
            5 => {
                let len = from.byte() * 4;
                self.on_way.push(from.bytes(len).to_vec());
            }
            6 => self.send_anything(from),
            _ => self.receive(),
        }
        if self.on_way.len() >= 60 {
            self.receive();
        }
    }

    /// Honest packets, which are remembered.
    fn send(&mut self, from: &mut Reader<'_>) {
        self.burst.clear();
        for _ in 0..1 + from.byte() % 8 {
            let association = from.byte() % self.parameters.len();
            self.count += 1;
            let packet = inner(association, from.byte() & 1 != 0, from.byte() * 2, self.count);
            assert!(self.burst.push(&packet));
            self.within.insert(steady(&packet), 1);
        }
        let sealed = self.seal();
        self.on_way.extend(sealed.iter().cloned());
        self.sealed.extend(sealed);
    }

    /// Whatever bytes are for packets from within: those that policy protects leave within their path, and no others do.
    fn send_anything(&mut self, from: &mut Reader<'_>) {
        self.burst.clear();
        for _ in 0..1 + from.byte() % 4 {
            let association = from.byte() % self.parameters.len();
            let mut packet = inner(association, from.byte() & 1 != 0, from.word() % 3000, 0);
            let (at, len) = (from.byte() % 44, from.byte() % 16);
            for (byte, with) in packet[at..].iter_mut().zip(from.bytes(len)) {
                *byte ^= with;
            }
            packet.truncate(packet.len() - from.byte() % 4 * 13);
            // Without room for it, it is not sent.
            let _ = self.burst.push(&packet);
        }
        for packet in self.seal() {
            let offset = if packet[0] >> 4 == 4 { 20 } else { 40 };
            let protocol = if packet[0] >> 4 == 4 { packet[9] } else { packet[6] };
            let esp = offset + if protocol == 17 { 8 } else { 0 };
            let spi = packet.get(esp..esp + 4).map(|spi| u32::from_be_bytes([spi[0], spi[1], spi[2], spi[3]]));
            assert!(packet.len() <= 1500 && self.parameters.iter().any(|known| Some(known.spi) == spi));
        }
    }

    fn seal(&mut self) -> Vec<Vec<u8>> {
        self.sender.begin_outbound(&mut self.burst, NOW);
        self.burst.crypt(self.session).expect("runs");
        self.sender.commit_outbound(&mut self.burst);
        let sent = self.sender.counters().0;
        assert_eq!(sent.packets, sent.done + sent.dropped_all(), "{sent:?}");
        leaving(&self.burst)
    }

    /// One of the packets that were sealed, with something wrong.
    fn damage(&mut self, from: &mut Reader<'_>) {
        let Some(mut packet) = pick(&self.sealed, from) else { return };
        match from.byte() % 6 {
            0 => {
                let at = from.word() % packet.len();
                packet[at] ^= from.byte() as u8;
            }
            1 => packet.truncate(from.word() % packet.len()),
            // Shorter and longer, with a header that says so.
            2 => {
                packet.truncate((from.word() % packet.len()).max(44));
                with_len(&mut packet);
            }
            3 => {
                packet.extend(from.bytes(40));
                with_len(&mut packet);
            }
            4 => {
                let at = from.word() % packet.len();
                for (byte, with) in packet[at..].iter_mut().zip(from.bytes(12)) {
                    *byte = *with;
                }
            }
            // Two packets' halves.
            _ => {
                let Some(other) = pick(&self.sealed, from) else { return };
                let at = from.word() % packet.len();
                packet.truncate(at);
                packet.extend(other.iter().skip(at));
            }
        }
        self.on_way.push(packet);
    }

    /// All that is on its way arrives in one burst.
    fn receive(&mut self) {
        self.burst.clear();
        for packet in self.on_way.drain(..) {
            assert!(self.burst.push(&packet));
        }
        self.receiver.begin_inbound(&mut self.burst, NOW);
        self.burst.crypt(self.session).expect("runs");
        self.receiver.commit_inbound(&mut self.burst);
        for packet in leaving(&self.burst) {
            let left = self.within.get_mut(&steady(&packet)).expect("what leaves was sealed");
            *left = left.checked_sub(1).expect("it leaves once");
        }
        let received: &Counters = self.receiver.counters().1;
        let told = received.done + received.dummies + received.bypassed + received.not_esp + received.dropped_all();
        assert_eq!(received.packets, told, "{received:?}");
    }
}

/// The outer header's length is the packet's.
fn with_len(packet: &mut [u8]) {
    let len = packet.len() as u16;
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&len.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&(len - 40).to_be_bytes());
    }
}

fn pick(from: &[Vec<u8>], by: &mut Reader<'_>) -> Option<Vec<u8>> {
    let at = by.word();
    (!from.is_empty()).then(|| from[at % from.len()].clone())
}

fn leaving(burst: &Burst) -> Vec<Vec<u8>> {
    let (data, spans) = burst.leaving();
    spans.iter().map(|[from, to]| data[*from as usize..*to as usize].to_vec()).collect()
}
