//! Packets through interfaces of network namespaces. They need root; where there is none, each says so and returns, and the last one fails
//! where there is root and the others would not have run.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where what it needs does")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ciphermill_packets::af_packet::{LinkSink, RingSource, SinkOptions, SourceOptions};
use ciphermill_packets::filter::Filter;
use ciphermill_packets::namespace::{self, Builder, End, Lab};
use ciphermill_packets::takeover::Takeover;
use ciphermill_packets::{Sink, Source, interface, ip, tun};

const LEFT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const RIGHT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
const LEFT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));
const RIGHT6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2));
const MTU: usize = 1500;
/// What datagrams begin with, before their numbers: zero would be a message of IKE.
const SPI: u32 = 0x5a5a_0001;

/// A name for a lab that no other test has.
fn lab_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("t{}n{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Whether the tests can run; if not, they say why.
fn can_have_namespaces() -> bool {
    match namespace::can_have_namespaces() {
        Ok(()) => true,
        Err(error) => {
            eprintln!("NOT RUN, no network namespaces can be had: {error}");
            false
        }
    }
}

/// Two hosts, joined.
fn two_hosts(with_offloads: bool) -> Lab {
    let end = |namespace: &str, address, address6| {
        let end = End::new(namespace, "link0").address(address, 24).address(address6, 64);
        if with_offloads { end.keeping_offloads() } else { end }
    };
    let (left, right) = (end("left", LEFT, LEFT6), end("right", RIGHT, RIGHT6));
    Builder::new(&lab_name()).unwrap().namespace("left").namespace("right").pair(left, right, MTU).up().unwrap()
}

/// A UDP datagram with a number; IPv4's checksum is computed, UDP's too.
fn datagram(from: IpAddr, to: IpAddr, port: u16, number: u32, len: usize) -> Vec<u8> {
    let (mut packet, header_len) = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            packet.extend(from.octets());
            packet.extend(to.octets());
            let sum = packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
            let sum = (sum & 0xffff) + (sum >> 16);
            packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
            (packet, 20)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut packet = vec![0x60, 0, 0, 0, 0, 0, 17, 64];
            packet[4..6].copy_from_slice(&(len as u16 - 40).to_be_bytes());
            packet.extend(from.octets());
            packet.extend(to.octets());
            (packet, 40)
        }
        _ => panic!("addresses of two families"),
    };
    packet.extend(4000u16.to_be_bytes());
    packet.extend(port.to_be_bytes());
    packet.extend((len as u16 - header_len).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(SPI.to_be_bytes());
    packet.extend(number.to_be_bytes());
    packet.resize(len, 0x5a);
    assert!(ip::complete_checksum(&mut packet));
    packet
}

/// The number of a datagram made above.
fn number(packet: &[u8]) -> u32 {
    let at = if packet[0] >> 4 == 4 { 32 } else { 52 };
    u32::from_be_bytes(packet[at..at + 4].try_into().unwrap())
}

fn send_one(sink: &mut impl Sink, packet: &[u8]) -> io::Result<usize> {
    sink.send(packet, &[[0, packet.len() as u32]])
}

/// Sends a packet again until it leaves: the first ones wait for the neighbour's answer.
fn send_until_it_leaves(sink: &mut impl Sink, packet: &[u8]) {
    let begin = Instant::now();
    while send_one(sink, packet).unwrap() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(5), "no neighbour: {:?}", sink.counters());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Receives until a packet is wanted, at most some seconds; others are taken and forgotten.
fn receive_until(source: &mut impl Source, mut is_wanted: impl FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
    let begin = Instant::now();
    let mut found = None;
    while found.is_none() && begin.elapsed() < Duration::from_secs(5) {
        let mut take = |packet: &[u8]| {
            if found.is_none() && is_wanted(packet) {
                found = Some(packet.to_vec());
            }
            true
        };
        source.receive(Duration::from_millis(100), &mut take).unwrap();
    }
    found
}

/// Numbered packets from one end to the other: in order, none lost, none twice. No more are under way than the shortest queue between
/// them holds (`netdev_max_backlog`, 1000), so that a busy machine loses none either.
fn numbered_packets(from: IpAddr, to: IpAddr) {
    const PACKETS: u32 = 100_000;
    const BURST: u32 = 32;
    const WINDOW: u32 = 900;
    let lab = two_hosts(false);
    let options = SourceOptions { filter: Filter::EspOrUdp(4500), ..SourceOptions::default() };
    let mut source = lab.within("right", || RingSource::open("link0", &options)).unwrap().unwrap();
    let patient = SinkOptions { wait: Duration::from_secs(1) };
    let mut sink = lab.within("left", || LinkSink::open("link0", &patient)).unwrap().unwrap();
    send_until_it_leaves(&mut sink, &datagram(from, to, 4501, 0, 100));
    let before = sink.counters();
    let received = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut next = 0;
            while next < PACKETS {
                let (mut buffer, mut pairs) = (Vec::new(), Vec::new());
                for number in next..next + BURST {
                    let start = buffer.len() as u32;
                    buffer.extend(datagram(from, to, 4500, number, 64 + number as usize % 1400));
                    pairs.push([start, buffer.len() as u32]);
                }
                assert_eq!(sink.send(&buffer, &pairs).unwrap(), pairs.len(), "{:?}", sink.counters());
                next += BURST;
                let begin = Instant::now();
                while next + BURST - received.load(Ordering::Relaxed) > WINDOW {
                    assert!(begin.elapsed() < Duration::from_secs(20), "{next} sent, {received:?} received");
                    std::thread::sleep(Duration::from_micros(20));
                }
            }
        });
        let (mut expected, begin) = (0, Instant::now());
        while expected < PACKETS && begin.elapsed() < Duration::from_secs(60) {
            let mut take = |packet: &[u8]| {
                assert_eq!(number(packet), expected);
                assert_eq!(packet, datagram(from, to, 4500, expected, 64 + expected as usize % 1400));
                expected += 1;
                received.store(expected, Ordering::Relaxed);
                true
            };
            source.receive(Duration::from_millis(100), &mut take).unwrap();
        }
        assert_eq!(expected, PACKETS, "{:?}", source.counters());
        sender.join().unwrap();
    });
    assert_eq!(source.receive(Duration::from_millis(50), &mut |_| true).unwrap(), 0, "one came twice");
    assert_eq!(sink.counters().packets - before.packets, u64::from(PACKETS));
    let counters = source.counters();
    assert_eq!((counters.packets, counters.no_room, counters.not_ip), (u64::from(PACKETS), 0, 0));
}

#[test]
fn numbered_packets_arrive_in_order_over_ipv4() {
    if can_have_namespaces() {
        numbered_packets(LEFT, RIGHT);
    }
}

#[test]
fn numbered_packets_arrive_in_order_over_ipv6() {
    if can_have_namespaces() {
        numbered_packets(LEFT6, RIGHT6);
    }
}

#[test]
fn the_kernels_datagrams_have_their_checksums_completed() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(true);
    for (from, to) in [(LEFT, RIGHT), (LEFT6, RIGHT6)] {
        let mut source = lab.within("right", || RingSource::open("link0", &SourceOptions::default())).unwrap().unwrap();
        let socket = lab.within("left", || UdpSocket::bind((from, 4000))).unwrap().unwrap();
        // What `datagram` makes, checksum and all.
        let expected = datagram(from, to, 4500, 7, 300);
        let header_len = if from.is_ipv4() { 28 } else { 48 };
        socket.send_to(&expected[header_len..], (to, 4500)).unwrap();
        let is_udp = |packet: &[u8]| packet.len() == 300;
        let packet = receive_until(&mut source, is_udp).expect("the datagram arrives");
        assert_eq!(packet[header_len - 8..], expected[header_len - 8..], "checksum and data");
        assert_eq!(source.counters().completed, 1, "the sender left the checksum to its interface");
    }
}

#[test]
fn the_kernel_answers_what_the_sink_sends() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(true);
    // The kernel of the right host echoes (RFC 792), and takes datagrams whose checksums are ours.
    let mut source = lab.within("left", || RingSource::open("link0", &SourceOptions::default())).unwrap().unwrap();
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    let mut ping = datagram(LEFT, RIGHT, 4500, 9, 84);
    ping[9] = 1;
    ping[10..12].copy_from_slice(&[0, 0]);
    ping[20..].fill(0);
    ping[20] = 8;
    let checksum = |octets: &[u8]| {
        let sum = octets.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
        let sum = (sum & 0xffff) + (sum >> 16);
        (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
    };
    let (header, body) = (checksum(&ping[..20]), checksum(&ping[20..]));
    ping[10..12].copy_from_slice(&header);
    ping[22..24].copy_from_slice(&body);
    send_until_it_leaves(&mut sink, &ping);
    let echo = receive_until(&mut source, |packet| packet[9] == 1 && packet[20] == 0).expect("an echo");
    assert_eq!(echo[12..16], ping[16..20]);
    for (from, to) in [(LEFT, RIGHT), (LEFT6, RIGHT6)] {
        let socket = lab.within("right", || UdpSocket::bind((to, 4500))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        send_until_it_leaves(&mut sink, &datagram(from, to, 4500, 77, 128));
        let mut buffer = [0; 200];
        let (_, sender) = socket.recv_from(&mut buffer).expect("the datagram arrives");
        assert_eq!((sender.ip(), &buffer[4..8]), (from, &77u32.to_be_bytes()[..]));
    }
}

#[test]
fn what_is_taken_over_reaches_the_ring_and_not_the_kernel() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(true);
    let filter = Filter::EspOrUdp(4500);
    let options = SourceOptions { filter, ..SourceOptions::default() };
    let mut source = lab.within("right", || RingSource::open("link0", &options)).unwrap().unwrap();
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    for (from, to) in [(LEFT, RIGHT), (LEFT6, RIGHT6)] {
        let listener = lab.within("right", || UdpSocket::bind((to, 4500))).unwrap().unwrap();
        let mut buffer = [0; 200];
        let mut heard = |packet: &[u8]| {
            listener.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            send_until_it_leaves(&mut sink, packet);
            listener.recv(&mut buffer).is_ok()
        };
        let mut ring_has = |number_wanted: u32| {
            receive_until(&mut source, |packet| number(packet) == number_wanted).expect("the ring has it");
        };
        assert!(heard(&datagram(from, to, 4500, 1, 100)));
        ring_has(1);
        let taken = lab.within("right", || Takeover::new("link0", filter, &[])).unwrap().unwrap();
        assert!(!heard(&datagram(from, to, 4500, 2, 100)));
        ring_has(2);
        // A message of IKE reaches the daemon.
        let mut ike = datagram(from, to, 4500, 3, 100);
        let data = if from.is_ipv4() { 28 } else { 48 };
        ike[data..data + 4].fill(0);
        assert!(ip::complete_checksum(&mut ike));
        assert!(heard(&ike));
        // As if a process had been killed: the next one replaces what it left.
        std::mem::forget(taken);
        let taken = lab.within("right", || Takeover::new("link0", filter, &[to])).unwrap().unwrap();
        assert!(heard(&datagram(from, to, 4500, 4, 100)), "an address that is spared");
        drop(taken);
        let taken = lab.within("right", || Takeover::new("link0", filter, &[from])).unwrap().unwrap();
        assert!(!heard(&datagram(from, to, 4500, 5, 100)));
        drop(taken);
        assert!(heard(&datagram(from, to, 4500, 6, 100)));
        ring_has(6);
    }
    assert!(lab.within("right", || Takeover::new("none0", filter, &[])).unwrap().is_err());
}

#[test]
fn what_is_sent_here_is_not_received_here() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(false);
    let mut source = lab.within("left", || RingSource::open("link0", &SourceOptions::default())).unwrap().unwrap();
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    let stranger = datagram(LEFT, IpAddr::from([10, 77, 0, 99]), 4500, 1, 100);
    assert_eq!(send_one(&mut sink, &stranger).unwrap(), 0);
    send_until_it_leaves(&mut sink, &datagram(LEFT, RIGHT, 9, 1, 100));
    // The right host answers that nobody listens at this port, and nothing else is seen.
    let mut seen = Vec::new();
    let mut take = |packet: &[u8]| {
        // The kernels join groups of IPv6 meanwhile.
        if packet[0] >> 4 == 4 {
            seen.push(packet[9]);
        }
        true
    };
    for _ in 0..20 {
        source.receive(Duration::from_millis(10), &mut take).unwrap();
    }
    assert_eq!(seen, [1]);
}

#[test]
fn offloads_are_turned_off_and_segments_counted() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(true);
    let mut source = lab.within("right", || RingSource::open("link0", &SourceOptions::default())).unwrap().unwrap();
    let send_much = || {
        let listener = lab.within("right", || std::net::TcpListener::bind((RIGHT, 80))).unwrap().unwrap();
        let stream = lab.within("left", || std::net::TcpStream::connect((RIGHT, 80))).unwrap().unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || io::copy(&mut &accepted, &mut io::sink()).unwrap());
        io::copy(&mut io::Read::take(io::repeat(1), 4 << 20), &mut &stream).unwrap();
        drop(stream);
        assert_eq!(reader.join().unwrap(), 4 << 20);
    };
    send_much();
    while source.receive(Duration::ZERO, &mut |_| true).unwrap() > 0 {}
    assert!(source.counters().segmented > 0, "{:?}", source.counters());
    for host in ["left", "right"] {
        lab.within(host, || interface::prepare_interface("link0")).unwrap().unwrap();
    }
    let before = source.counters();
    send_much();
    let mut octets = 0;
    while source
        .receive(Duration::ZERO, &mut |packet| {
            octets += packet.len();
            true
        })
        .unwrap()
        > 0
    {}
    let after = source.counters();
    assert!(octets > 4 << 20, "{octets} octets, {after:?}");
    assert_eq!((after.segmented, after.completed, after.truncated), (before.segmented, before.completed, 0));
}

#[test]
fn what_cannot_be_sent_is_counted_by_its_reason() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(false);
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    send_until_it_leaves(&mut sink, &datagram(LEFT, RIGHT, 9, 1, 100));
    let before = sink.counters();
    assert_eq!(send_one(&mut sink, &datagram(LEFT, LEFT, 9, 1, 100)).unwrap(), 0);
    assert_eq!(send_one(&mut sink, &datagram(LEFT, IpAddr::from([224, 0, 0, 1]), 9, 1, 100)).unwrap(), 0);
    assert_eq!(send_one(&mut sink, &datagram(LEFT, IpAddr::from([10, 77, 0, 50]), 9, 1, 100)).unwrap(), 0);
    assert_eq!(send_one(&mut sink, &datagram(LEFT, RIGHT, 9, 1, MTU + 1)).unwrap(), 0);
    assert_eq!(send_one(&mut sink, &[0x45, 0, 0]).unwrap(), 0);
    assert_eq!(sink.send(&[0; 4], &[[0, 5]]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let after = sink.counters();
    let reasons =
        [after.no_route, after.no_neighbour - before.no_neighbour, after.too_long, after.not_ip, after.refused];
    assert_eq!(reasons, [2, 1, 1, 1, 1], "{after:?}");
    assert_eq!(after.packets, before.packets);
    lab.within("left", || interface::set_up("link0", false)).unwrap().unwrap();
    let down = [datagram(LEFT, RIGHT, 9, 1, 100), datagram(LEFT, RIGHT, 9, 2, 100)].concat();
    let failed = sink.send(&down, &[[0, 100], [100, 200]]);
    assert!(failed.is_err(), "the interface is down: {failed:?} {:?}", sink.counters());
    assert_eq!(sink.counters().dropped() - after.dropped(), 2);
}

#[test]
fn a_ring_that_is_full_counts_what_it_lost_and_one_that_refuses_loses_nothing() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(false);
    let options = SourceOptions { filter: Filter::EspOrUdp(4500), frames: 64, ..SourceOptions::default() };
    let mut source = lab.within("right", || RingSource::open("link0", &options)).unwrap().unwrap();
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    send_until_it_leaves(&mut sink, &datagram(LEFT, RIGHT, 4501, 0, 100));
    const PACKETS: u32 = 4000;
    for number in 0..PACKETS {
        assert_eq!(send_one(&mut sink, &datagram(LEFT, RIGHT, 4500, number, 1200)).unwrap(), 1);
    }
    std::thread::sleep(Duration::from_millis(20));
    let (mut expected, mut call) = (0, 0);
    loop {
        let mut room = 3;
        let mut take = |packet: &[u8]| {
            room -= 1;
            if room >= 0 {
                assert_eq!(number(packet), expected);
                expected += 1;
            }
            room >= 0
        };
        if source.receive(Duration::from_millis(20), &mut take).unwrap() == 0 {
            break;
        }
        call += 1;
    }
    let counters = source.counters();
    assert!(expected >= 64 && call > 20, "{expected} packets in {call} calls");
    assert_eq!(counters.packets, u64::from(expected));
    assert_eq!(counters.packets + counters.no_room, u64::from(PACKETS), "{counters:?}");
}

#[test]
fn a_packet_is_received_when_the_kernel_has_it_and_not_when_somebody_looks() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(false);
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let options = SourceOptions { filter: Filter::EspOrUdp(4500), ..SourceOptions::default() };
    let mut source = lab.within("right", || RingSource::open("link0", &options)).unwrap().unwrap();
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    let before = wall();
    send_until_it_leaves(&mut sink, &datagram(LEFT, RIGHT, 4500, 1, 100));
    let looked_at = wall() + Duration::from_millis(50);
    std::thread::sleep(Duration::from_millis(100));
    let mut times = Vec::new();
    let mut take = |_: &[u8], received_ns| {
        times.push(Duration::from_nanos(received_ns));
        true
    };
    while source.receive_with_times(Duration::from_millis(20), &mut take).unwrap() == 0 {}
    assert!(times.iter().all(|time| (before..looked_at).contains(time)), "{before:?} {times:?} {looked_at:?}");
}

#[test]
fn long_packets_pass_whole() {
    if !can_have_namespaces() {
        return;
    }
    let end = |namespace, address| End::new(namespace, "link0").address(address, 24);
    let builder = Builder::new(&lab_name()).unwrap().namespace("left").namespace("right");
    let lab = builder.pair(end("left", LEFT), end("right", RIGHT), 9000).up().unwrap();
    let options = SourceOptions { filter: Filter::EspOrUdp(4500), frames: 100, ..SourceOptions::default() };
    let mut source = lab.within("right", || RingSource::open("link0", &options)).unwrap().unwrap();
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    // Several times around the ring, whose frames are longer than a page.
    for wanted in 0..400 {
        let sent = datagram(LEFT, RIGHT, 4500, wanted, 9000 - wanted as usize);
        send_until_it_leaves(&mut sink, &sent);
        assert_eq!(receive_until(&mut source, |_| true), Some(sent));
    }
    let counters = source.counters();
    assert_eq!((counters.packets, counters.no_room, counters.truncated, counters.segmented), (400, 0, 0, 0));
}

#[test]
fn an_interface_that_goes_away_is_an_error() {
    if !can_have_namespaces() {
        return;
    }
    let lab = two_hosts(false);
    let mut source = lab.within("right", || RingSource::open("link0", &SourceOptions::default())).unwrap().unwrap();
    assert!(source.receive(Duration::from_millis(5), &mut |_| true).is_ok());
    lab.within("right", || interface::set_up("link0", false)).unwrap().unwrap();
    // A few packets may have come before, by which the kernels join groups.
    let failed = (0..20).find_map(|_| source.receive(Duration::from_secs(1), &mut |_| true).err());
    assert_eq!(failed.map(|error| error.raw_os_error()), Some(Some(100)), "ENETDOWN");
}

#[test]
fn a_tun_device_carries_packets_both_ways() {
    if !can_have_namespaces() {
        return;
    }
    let lab = Builder::new(&lab_name()).unwrap().namespace("host").up().unwrap();
    let (mut source, mut sink) = lab.within("host", || tun::open("tun0", 1400)).unwrap().unwrap();
    assert_eq!(lab.within("host", || interface::find("tun0")).unwrap().unwrap().mtu, 1400);
    let added = lab.command("host", "ip").args(["address", "add", "10.77.0.1/24", "dev", "tun0"]).status().unwrap();
    assert!(added.success());
    let socket = lab.within("host", || UdpSocket::bind((LEFT, 4000))).unwrap().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let expected = datagram(LEFT, RIGHT, 4500, 5, 200);
    let is_ours = |packet: &[u8]| packet[0] == 0x45 && packet.len() == 200;
    for refusals in [0, 3] {
        socket.send_to(&expected[28..], (RIGHT, 4500)).unwrap();
        for _ in 0..refusals {
            let mut take = |packet: &[u8]| !is_ours(packet);
            source.receive(Duration::from_secs(1), &mut take).unwrap();
        }
        let packet = receive_until(&mut source, is_ours).expect("what the host sends");
        assert_eq!(packet[26..], expected[26..], "with a checksum");
    }
    let mut answer = datagram(RIGHT, LEFT, 4000, 6, 90);
    answer[20..22].copy_from_slice(&4500u16.to_be_bytes());
    assert!(ip::complete_checksum(&mut answer));
    let pairs = [[0, 90], [0, 3], [0, 90]];
    assert_eq!(sink.send(&answer, &pairs).unwrap(), 2);
    assert_eq!(send_one(&mut sink, &datagram(RIGHT, LEFT, 4000, 6, 1401)).unwrap(), 0);
    let mut buffer = [0; 200];
    for _ in 0..2 {
        assert_eq!(socket.recv_from(&mut buffer).unwrap(), (62, (RIGHT, 4500).into()));
    }
    let counters = sink.counters();
    assert_eq!((counters.packets, counters.octets, counters.not_ip, counters.too_long), (2, 180, 1, 1));
    lab.within("host", || interface::set_up("tun0", false)).unwrap().unwrap();
    assert!(sink.send(&answer, &pairs).is_err());
}

#[test]
fn an_interface_without_link_addresses_is_sent_to_and_what_it_has_no_room_for_is_counted() {
    const PACKETS: u32 = 3000;
    if !can_have_namespaces() {
        return;
    }
    let lab = Builder::new(&lab_name()).unwrap().namespace("host").up().unwrap();
    let (mut source, _device) = lab.within("host", || tun::open("tun0", 1400)).unwrap().unwrap();
    let added = lab.command("host", "ip").args(["address", "add", "10.77.0.1/24", "dev", "tun0"]).status().unwrap();
    assert!(added.success());
    let mut sink = lab.within("host", || LinkSink::open("tun0", &SinkOptions::default())).unwrap().unwrap();
    let packets = (0..PACKETS).map(|number| datagram(LEFT, RIGHT, 4500, number, 100)).collect::<Vec<_>>();
    let pairs = (0..PACKETS).map(|number| [number * 100, (number + 1) * 100]).collect::<Vec<_>>();
    let left = sink.send(&packets.concat(), &pairs).unwrap() as u64;
    let counters = sink.counters();
    assert!(left > 100 && counters.no_room > 100, "{counters:?}");
    assert_eq!((counters.packets, counters.packets + counters.no_room), (left, u64::from(PACKETS)));
    // What is said to have left is there, from the first one on, in order.
    let mut expected = 0;
    let mut take = |packet: &[u8]| {
        if packet[0] == 0x45 {
            assert_eq!(number(packet), expected);
            expected += 1;
        }
        true
    };
    while source.receive(Duration::ZERO, &mut take).unwrap() > 0 {}
    assert_eq!(u64::from(expected), left);
}

#[test]
fn labs_are_removed_and_nothing_else_is() {
    if !can_have_namespaces() {
        return;
    }
    let exists = |name: &str| std::path::Path::new("/run/netns").join(name).exists();
    let name = lab_name();
    let builder = Builder::new(&name).unwrap().namespace("one").forwarding("one");
    let lab = builder.up().unwrap();
    let full = lab.full_name("one");
    assert!(exists(&full));
    assert!(builder.up().is_err(), "its names are taken");
    assert!(exists(&full), "a lab that cannot be built removes nothing of another one");
    let output = lab.command("one", "cat").arg("/proc/sys/net/ipv4/ip_forward").output().unwrap();
    assert_eq!(output.stdout, b"1\n");
    drop(lab);
    assert!(!exists(&full));
    builder.up().unwrap().keep();
    let other = Builder::new(&format!("{name}0")).unwrap().namespace("one").up().unwrap();
    assert_eq!(namespace::remove(&name).unwrap(), 1);
    assert!(!exists(&full) && exists(&other.full_name("one")));
    let half = Builder::new(&name).unwrap().namespace("one").route("one", "default", LEFT).up();
    assert!(half.is_err_and(|error| error.to_string().contains("route add")));
    assert!(!exists(&full), "what was built of a lab that failed is removed");
}

#[test]
fn with_root_the_tests_above_have_run() {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if is_root {
        namespace::can_have_namespaces().expect("root can make network namespaces");
    } else {
        let error = namespace::can_have_namespaces().expect_err("only root can make network namespaces");
        assert!(error.to_string().contains("root"), "{error}");
    }
}

#[test]
#[ignore = "fills the neighbour table of the whole machine for some seconds"]
fn a_scan_costs_its_own_packets_alone() {
    if !can_have_namespaces() {
        return;
    }
    let end = |namespace: &str, last| End::new(namespace, "link0").address(IpAddr::from([10, 9, 0, last]), 16);
    let builder = Builder::new(&lab_name()).unwrap().namespace("left").namespace("right");
    let lab = builder.pair(end("left", 1), end("right", 2), 1500).up().unwrap();
    let mut sink = lab.within("left", || LinkSink::open("link0", &SinkOptions::default())).unwrap().unwrap();
    // The table is that of all namespaces, and the first one has the switch.
    let kept = std::fs::read_to_string("/proc/sys/net/ipv4/neigh/default/gc_thresh3").ok();
    let Some(kept) = kept.and_then(|kept| kept.trim().parse::<u64>().ok()).filter(|kept| *kept <= 8192) else {
        return eprintln!("NOT RUN, how many neighbours the kernel keeps is not known, or it is too many to scan");
    };
    // More stations than it keeps, and none of them is there.
    let scanned = 2 * kept + 1000;
    for number in 0..scanned {
        let to = Ipv4Addr::from(0x0a09_0100 + number as u32);
        let packet = datagram(IpAddr::from([10, 9, 0, 1]), to.into(), 9, 0, 40);
        assert_eq!(sink.send(&packet, &[[0, packet.len() as u32]]).unwrap(), 0, "{to}");
    }
    assert_eq!(sink.counters().no_neighbour, scanned);
}
