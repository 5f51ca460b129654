//! Two ends of a tunnel, and packets for them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use ciphermill::{Mill, SelfTest, Session};
use ciphermill_contract::{Direction, Engine};
use ciphermill_esp::{
    Action, Burst, Counters, Drop, Encapsulation, Keys, Parameters, Policy, Prefix, SaId, Selector, Sequence,
    Transform, Tunnels,
};
use ciphermill_reference::Reference;
use zeroize::Zeroizing;

pub(crate) const NOW: Duration = Duration::from_secs(1000);
pub(crate) const TUNNEL: u32 = 7;

pub(crate) fn mill_of(engines: impl IntoIterator<Item = Arc<dyn Engine>>) -> Mill {
    Mill::builder().engines(engines).legacy(true).self_test(SelfTest::Never).open().expect("opens")
}

/// How a tunnel is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) transform: Transform,
    pub(crate) sequence: Sequence,
    pub(crate) outer_is_v6: bool,
    pub(crate) has_udp: bool,
    pub(crate) pad_to: u16,
    pub(crate) window: u32,
    /// The last number that was sent and accepted.
    pub(crate) last: u64,
}

impl Shape {
    pub(crate) fn new(transform: &str) -> Shape {
        Shape {
            transform: transform.parse().expect("a transform"),
            sequence: Sequence::Short,
            outer_is_v6: false,
            has_udp: false,
            pad_to: 0,
            window: 64,
            last: 0,
        }
    }

    pub(crate) fn parameters(&self) -> Parameters {
        let (source, destination): (IpAddr, IpAddr) = match self.outer_is_v6 {
            false => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(192, 0, 2, 2).into()),
            true => (
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
                Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
            ),
        };
        Parameters {
            encapsulation: self.has_udp.then_some(Encapsulation { source_port: 4500, destination_port: 4500 }),
            tunnel: TUNNEL,
            sequence: self.sequence,
            last: self.last,
            replay_window: self.window,
            pad_to: self.pad_to,
            ..Parameters::new(0x1234_5678, self.transform, source, destination)
        }
    }

    pub(crate) fn keys(&self) -> Keys {
        let bytes =
            |from: u8, len: usize| Zeroizing::new((0..len).map(|at| (at as u8).wrapping_mul(7) ^ from).collect());
        Keys { key: bytes(0x31, self.transform.key_len()), salt: bytes(0xc5, self.transform.salt_len()) }
    }
}

/// Both ends of a tunnel in one, with a session and a burst.
pub(crate) struct Ends {
    pub(crate) mill: Mill,
    pub(crate) session: Session,
    pub(crate) sender: Tunnels,
    pub(crate) receiver: Tunnels,
    pub(crate) out: SaId,
    pub(crate) into: SaId,
    pub(crate) burst: Burst,
}

/// Everything of either family.
pub(crate) fn anything() -> [Selector; 2] {
    let all = |address: IpAddr| Prefix::new(address, 0).expect("no bits");
    [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
        .map(|address| Selector::between(all(address), all(address)).expect("one family"))
}

impl Ends {
    pub(crate) fn new(shape: &Shape) -> Ends {
        Ends::with(mill_of([Arc::new(Reference::new()) as Arc<dyn Engine>]), shape)
    }

    pub(crate) fn with(mill: Mill, shape: &Shape) -> Ends {
        let (mut sender, mut receiver) = (Tunnels::new(&mill), Tunnels::new(&mill));
        for selector in anything() {
            let policy = Policy { selector, action: Action::Protect(TUNNEL), priority: 100 };
            sender.add_policy(Direction::Encrypt, policy.clone()).expect("room");
            receiver.add_policy(Direction::Decrypt, policy).expect("room");
        }
        let out = sender.add_outbound(shape.parameters(), &shape.keys(), NOW).expect("added");
        let into = receiver.add_inbound(shape.parameters(), &shape.keys(), NOW).expect("added");
        let session = mill.session();
        Ends { session, sender, receiver, out, into, burst: Burst::new(256, 1 << 19, 1500), mill }
    }

    /// What leaves for the outside when these packets come from within.
    pub(crate) fn seal<P: AsRef<[u8]>>(&mut self, packets: &[P]) -> Vec<Vec<u8>> {
        self.seal_at(packets, NOW)
    }

    pub(crate) fn seal_at<P: AsRef<[u8]>>(&mut self, packets: &[P], now: Duration) -> Vec<Vec<u8>> {
        self.burst.clear();
        assert!(packets.iter().all(|packet| self.burst.push(packet.as_ref())));
        self.seal_burst_at(now)
    }

    pub(crate) fn seal_burst(&mut self) -> Vec<Vec<u8>> {
        self.seal_burst_at(NOW)
    }

    fn seal_burst_at(&mut self, now: Duration) -> Vec<Vec<u8>> {
        self.sender.begin_outbound(&mut self.burst, now);
        let ran = self.burst.crypt(&mut self.session);
        self.sender.commit_outbound(&mut self.burst);
        ran.expect("runs");
        taken(self.burst.leaving())
    }

    /// What leaves for the inside when these packets come from without.
    pub(crate) fn open<P: AsRef<[u8]>>(&mut self, packets: &[P]) -> Vec<Vec<u8>> {
        self.burst.clear();
        assert!(packets.iter().all(|packet| self.burst.push(packet.as_ref())));
        self.receiver.begin_inbound(&mut self.burst, NOW);
        let ran = self.burst.crypt(&mut self.session);
        self.receiver.commit_inbound(&mut self.burst);
        ran.expect("runs");
        taken(self.burst.leaving())
    }

    /// ICMP errors about the last packets.
    pub(crate) fn answers(&self) -> Vec<Vec<u8>> {
        taken(self.burst.answers())
    }
}

fn taken((data, spans): (&[u8], &[[u32; 2]])) -> Vec<Vec<u8>> {
    spans.iter().map(|[start, end]| data[*start as usize..*end as usize].to_vec()).collect()
}

/// The Internet checksum, plainly.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |low| u32::from(*low)));
    let sum = words.fold(0, |sum, word| ((sum + word) & 0xffff) + ((sum + word) >> 16));
    !(sum as u16)
}

/// What a packet within a tunnel is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) is_v6: bool,
    pub(crate) class: u8,
    pub(crate) ttl: u8,
    pub(crate) may_be_cut: bool,
}

impl Inner {
    pub(crate) const V4: Inner = Inner { is_v6: false, class: 0, ttl: 64, may_be_cut: false };

    /// A UDP packet of so many bytes with all headers.
    pub(crate) fn packet(&self, len: usize, fill: u8) -> Vec<u8> {
        let mut packet = Vec::new();
        if self.is_v6 {
            packet.extend([0x60 | self.class >> 4, self.class << 4, 0, 0]);
            packet.extend(((len - 40) as u16).to_be_bytes());
            packet.extend([17, self.ttl]);
            for last in [1u16, 2] {
                packet.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last).octets());
            }
        } else {
            packet.extend([0x45, self.class]);
            packet.extend((len as u16).to_be_bytes());
            packet.extend([
                0,
                9,
                if self.may_be_cut { 0 } else { 0x40 },
                0,
                self.ttl,
                17,
                0,
                0,
                10,
                0,
                0,
                1,
                10,
                0,
                0,
                2,
            ]);
            let checksum = checksum(&packet).to_be_bytes();
            packet[10..12].copy_from_slice(&checksum);
        }
        packet.extend([0x30, 0x39, 0x30, 0x3a]);
        packet.extend(((len - packet.len() + 4) as u16).to_be_bytes());
        packet.extend([0, 0]);
        while packet.len() < len {
            packet.push(fill.wrapping_add(packet.len() as u8));
        }
        assert_eq!(packet.len(), len, "room for the headers");
        packet
    }
}

/// A packet that two routers have passed on: each counts its time down.
pub(crate) fn hopped(packet: &[u8], hops: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 {
        packet[8] -= hops;
        packet[10..12].fill(0);
        let header = usize::from(packet[0] & 0xf) * 4;
        let checksum = checksum(&packet[..header]).to_be_bytes();
        packet[10..12].copy_from_slice(&checksum);
    } else {
        packet[7] -= hops;
    }
    packet
}

/// What counters have gained, by name, without the packets that were looked at.
pub(crate) fn gained(before: &Counters, after: &Counters) -> Vec<(&'static str, u64)> {
    let named = |counters: &Counters| {
        let mut all = vec![
            ("done", counters.done),
            ("bypassed", counters.bypassed),
            ("dummies", counters.dummies),
            ("fragments", counters.fragments),
            ("icmp_sent", counters.icmp_sent),
            ("icmp_withheld", counters.icmp_withheld),
            ("icmp_heard", counters.icmp_heard),
            ("not_esp", counters.not_esp),
            ("events_lost", counters.events_lost),
        ];
        all.extend(Drop::ALL.iter().map(|reason| (reason.name(), counters.dropped(*reason))));
        all
    };
    let pairs = named(before).into_iter().zip(named(after));
    pairs.map(|((name, before), (_, after))| (name, after - before)).filter(|(_, more)| *more > 0).collect()
}

impl Ends {
    /// What the receiver makes of packets from without: those that leave, and what its counters have gained.
    pub(crate) fn opened<P: AsRef<[u8]>>(&mut self, packets: &[P]) -> (Vec<Vec<u8>>, Vec<(&'static str, u64)>) {
        let before = self.receiver.counters().1.clone();
        let opened = self.open(packets);
        let after = self.receiver.counters().1;
        assert_eq!(after.packets - before.packets, packets.len() as u64);
        let gained = gained(&before, after);
        (opened, gained)
    }

    /// The counters' part of that, where nothing may leave.
    pub(crate) fn refused<P: AsRef<[u8]>>(&mut self, packets: &[P]) -> Vec<(&'static str, u64)> {
        let top = self.top();
        let (opened, gained) = self.opened(packets);
        assert_eq!(opened.len(), 0);
        assert!(self.receiver.take_events().is_empty());
        assert!(self.top() >= top);
        gained
    }

    /// The last number that the receiver has accepted.
    pub(crate) fn top(&self) -> u64 {
        self.receiver.last_number(Direction::Decrypt, self.into).expect("is there")
    }
}
