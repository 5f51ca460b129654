//! There and back.

use std::net::{IpAddr, Ipv6Addr};

use ciphermill_contract::Direction;
use ciphermill_esp::{Action, Drop, Parameters, Policy, Prefix, SaId, Selector, Sequence, Transform};

use crate::ends::{Ends, Inner, NOW, Shape, anything, checksum, hopped};

/// Every shape that a tunnel has.
fn shapes() -> impl Iterator<Item = Shape> {
    Transform::all().flat_map(|transform| {
        (0..8u8).map(move |bits| Shape {
            sequence: if bits & 1 == 0 { Sequence::Short } else { Sequence::Extended },
            outer_is_v6: bits & 2 != 0,
            has_udp: bits & 4 != 0,
            last: if bits & 1 == 0 { 0 } else { 0x7_ffff_fff0 },
            ..Shape::new(&transform.to_string())
        })
    })
}

#[test]
fn every_packet_comes_out_as_it_went_in() {
    let mut count = 0;
    for shape in shapes() {
        let mut ends = Ends::new(&shape);
        let packets: Vec<Vec<u8>> = (0..60usize)
            .map(|at| Inner { is_v6: at % 3 == 2, ..Inner::V4 }.packet(48 + at * 23 % 900, at as u8))
            .collect();
        let sealed = ends.seal(&packets);
        assert_eq!(sealed.len(), packets.len(), "{shape:?}");
        for (packet, sealed) in packets.iter().zip(&sealed) {
            let (header, protocol_at) = if shape.outer_is_v6 { (40, 6) } else { (20, 9) };
            assert_eq!(sealed[protocol_at], if shape.has_udp { 17 } else { 50 }, "{shape:?}");
            if shape.outer_is_v6 {
                assert_eq!(usize::from(u16::from_be_bytes([sealed[4], sealed[5]])) + header, sealed.len());
            } else {
                assert_eq!(usize::from(u16::from_be_bytes([sealed[2], sealed[3]])), sealed.len());
                assert_eq!(checksum(&sealed[..20]), 0, "{shape:?}");
            }
            let esp = header + if shape.has_udp { 8 } else { 0 };
            assert_eq!(sealed[esp..esp + 4], 0x1234_5678u32.to_be_bytes());
            let body = sealed.len() - esp - 8 - shape.transform.iv_len() - shape.transform.icv_len();
            assert_eq!(body % shape.transform.alignment(), 0);
            assert!(body >= packet.len() + 2 && body < packet.len() + 2 + shape.transform.alignment());
            let is_clear = shape.transform.to_string().starts_with("null");
            let shows = sealed.windows(16).any(|window| window == &packet[packet.len() - 16..]);
            assert_eq!(shows, is_clear, "{shape:?}");
        }
        let opened = ends.open(&sealed);
        let expected: Vec<Vec<u8>> = packets.iter().map(|packet| hopped(packet, 2)).collect();
        assert_eq!(opened, expected, "{shape:?}");
        let (_, received) = ends.receiver.counters();
        assert_eq!((received.done, received.dropped_all()), (60, 0));
        assert_eq!(
            ends.receiver.last_number(ciphermill_contract::Direction::Decrypt, ends.into),
            Some(shape.last + 60)
        );
        count += 1;
    }
    assert_eq!(count, Transform::all().count() * 8);
}

#[test]
fn one_burst_has_packets_of_many_associations() {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    let names = ["aes-256-gcm", "aes-128-cbc+hmac-sha1-96", "chacha20-poly1305", "aes-128-gcm"];
    let ids: Vec<_> = names
        .iter()
        .zip(0u32..)
        .map(|(name, number)| {
            let shape = Shape::new(name);
            let mut parameters = shape.parameters();
            (parameters.spi, parameters.tunnel) = (1000 + number, 100 + number);
            ends.receiver.add_inbound(parameters.clone(), &shape.keys(), NOW).expect("added");
            ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added")
        })
        .collect();
    // Dummies name their association, so that a burst has all of them without policies.
    ends.burst.clear();
    for round in 0..10u16 {
        assert!(ids.iter().all(|id| ends.burst.push_dummy(*id, 100 + round)));
        assert!(ends.burst.push(&Inner::V4.packet(100, round as u8)));
    }
    let sealed = ends.seal_burst();
    assert_eq!(sealed.len(), 50);
    let opened = ends.open(&sealed);
    assert_eq!(opened.len(), 10);
    let (sent, _) = ends.sender.counters();
    let (_, received) = ends.receiver.counters();
    assert_eq!((sent.dummies, received.dummies, received.done, received.dropped_all()), (40, 40, 10, 0));
}

#[test]
fn it_makes_no_difference_when_packets_are_laid_out() {
    // Numbers of dummies by two associations: one behind the other has headers written when the burst is run, in turn at once in the next burst.
    let send = |in_turn: bool| {
        let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
        let ids = ["aes-128-gcm", "chacha20-poly1305"].map(|name| {
            let shape = Shape { pad_to: 90, ..Shape::new(name) };
            let (spi, tunnel) = (2000 + name.len() as u32, 7 + name.len() as u32);
            let parameters = Parameters { spi, tunnel, ..shape.parameters() };
            ends.receiver.add_inbound(parameters.clone(), &shape.keys(), NOW).expect("added");
            ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added")
        });
        let order: Vec<usize> = (0..40).map(|at| if in_turn { at % 2 } else { at / 20 }).collect();
        ends.burst.clear();
        order.iter().for_each(|which| assert!(ends.burst.push_dummy(ids[*which], 60)));
        let warmed = ends.seal_burst();
        ends.burst.clear();
        for at in 0..40u16 {
            match at % 3 {
                2 => assert!(ends.burst.push(&Inner::V4.packet(60 + usize::from(at), at as u8))),
                which => assert!(ends.burst.push_dummy(ids[usize::from(which)], 60 + at)),
            }
        }
        let sealed = ends.seal_burst();
        (warmed.len(), ends.open(&sealed).len(), sealed)
    };
    let (later, at_once) = (send(false), send(true));
    assert_eq!((later.0, later.1, later.2.len()), (40, 13, 40));
    assert!(later == at_once);
}

/// Whose packet that is: the destination's last byte.
fn to_host(inner: Inner, len: usize, host: u8) -> Vec<u8> {
    let mut packet = inner.packet(len, host);
    let (last, checksum_at) = if inner.is_v6 { (39, None) } else { (19, Some(10)) };
    packet[last] = host;
    if let Some(at) = checksum_at {
        packet[at..at + 2].fill(0);
        let sum = checksum(&packet[..20]).to_be_bytes();
        packet[at..at + 2].copy_from_slice(&sum);
    }
    packet
}

/// Ends with a tunnel for each host, in both families, and so many that no packet uses.
fn many_hosts(hosts: u8, others: u8) -> (Ends, Vec<SaId>) {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    // Who has no tunnel is bypassed or discarded.
    for (selector, action) in anything().into_iter().zip([Action::Bypass, Action::Discard]) {
        ends.sender.add_policy(Direction::Encrypt, Policy { selector, action, priority: 50 }).expect("room");
    }
    let add = |(number, family): (u8, bool)| {
        let host = |last: u8| -> IpAddr {
            if family { Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into() } else { [10, 0, 0, last].into() }
        };
        let selector = Selector::between(Prefix::host(host(1)), Prefix::host(host(number))).expect("one family");
        let shape = Shape::new(if number % 2 == 0 { "aes-128-gcm" } else { "chacha20-poly1305" });
        let tunnel = 1000 + u32::from(number) + if family { 1 << 20 } else { 0 };
        let policy = Policy { selector, action: Action::Protect(tunnel), priority: 10 };
        ends.sender.add_policy(Direction::Encrypt, policy.clone()).expect("room");
        ends.receiver.add_policy(Direction::Decrypt, policy).expect("room");
        let parameters = Parameters { spi: 0x9000 + tunnel, tunnel, path_mtu: 1400, ..shape.parameters() };
        ends.receiver.add_inbound(parameters.clone(), &shape.keys(), NOW).expect("added");
        ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added")
    };
    let numbers = (10..10 + hosts).chain(200..200 + others);
    let ids = numbers.flat_map(|number| [(number, false), (number, true)]).map(add).collect();
    (ends, ids)
}

#[test]
fn it_makes_no_difference_whether_associations_are_looked_for_ahead() {
    let v6 = Inner { is_v6: true, ..Inner::V4 };
    let cuttable = Inner { may_be_cut: true, ..Inner::V4 };
    let send = |others: u8| {
        let (mut ends, ids) = many_hosts(20, others);
        let mut all = Vec::new();
        // Bursts that end within a stride, with it and behind it.
        for (burst, len) in [1usize, 15, 16, 17, 64, 100, 200].into_iter().enumerate() {
            ends.burst.clear();
            for at in 0..len {
                let host = 10 + ((at * 7 + burst) % 20) as u8;
                assert!(match at % 9 {
                    0 | 4 | 7 => ends.burst.push(&to_host(Inner::V4, 60 + at, host)),
                    1 | 5 => ends.burst.push(&to_host(v6, 80 + at, host)),
                    2 => ends.burst.push(&to_host(cuttable, 1500, host)),
                    3 => ends.burst.push_dummy(ids[at % 40], 70),
                    // No tunnel: bypassed and discarded.
                    6 => ends.burst.push(&to_host(if at % 2 == 0 { v6 } else { Inner::V4 }, 100, 99)),
                    _ => ends.burst.push(&[0x45, 0, 0]),
                });
            }
            all.push(ends.seal_burst());
        }
        let opened: Vec<_> = all.iter().map(|sealed| ends.open(sealed)).collect();
        (all, opened, ends.sender.counters().0.clone(), ends.receiver.counters().1.clone())
    };
    let (few, many) = (send(0), send(30));
    assert!(few.0 == many.0 && few.1 == many.1, "the same packets");
    assert_eq!((&few.2, &few.3), (&many.2, &many.3));
    assert!(few.2.fragments > 50 && few.2.dummies > 30 && few.2.bypassed > 10 && few.2.dropped(Drop::Malformed) > 30);
    assert!(few.2.dropped(Drop::Policy) > 10 && few.3.done > 200 && few.3.dummies == few.2.dummies);
    assert_eq!(few.3.dropped_all() - few.3.dropped(Drop::Policy), 0, "what was bypassed is no ESP");
}

#[test]
fn packets_are_padded_to_a_length_where_that_fits_the_path() {
    let mut ends = Ends::new(&Shape { pad_to: 1500, ..Shape::new("aes-128-gcm") });
    let packets = [48, 500, 1438].map(|len| Inner::V4.packet(len, 1));
    let sealed = ends.seal(&packets);
    // All are as long as the longest that fits.
    assert_eq!(sealed.iter().map(Vec::len).collect::<Vec<_>>(), [1500; 3]);
    let opened = ends.open(&sealed);
    assert_eq!(opened, packets.map(|packet| hopped(&packet, 2)));
}
