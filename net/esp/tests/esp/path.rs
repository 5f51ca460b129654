//! Packets and the path between the tunnel's ends: sizes, fragments, what headers take from each other, errors to senders, and policy.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use ciphermill_contract::Direction;
use ciphermill_esp::{
    Action, Copying, Counters, DontFragment, Encapsulation, Event, Policy, Prefix, Selector, Transform,
};

use crate::ends::{Ends, Inner, NOW, Shape, TUNNEL, anything, checksum, gained, hopped};

const V6: Inner = Inner { is_v6: true, ..Inner::V4 };
const CUTTABLE: Inner = Inner { may_be_cut: true, ..Inner::V4 };
const OWN_V4: [u8; 4] = [10, 0, 0, 254];

fn own() -> Vec<IpAddr> {
    vec![IpAddr::from(OWN_V4), "fd00::fe".parse().expect("an address")]
}

/// Bytes of the longest packet that fits: what is left of the path's, in whole blocks, without the trailer's two bytes.
fn inner_max(shape: &Shape, path_mtu: usize) -> usize {
    let transform: Transform = shape.transform;
    let outer = if shape.outer_is_v6 { 40 } else { 20 } + if shape.has_udp { 8 } else { 0 };
    let room = path_mtu - outer - 8 - transform.iv_len() - transform.icv_len();
    room / transform.alignment() * transform.alignment() - 2
}

fn sent(ends: &Ends) -> Vec<(&'static str, u64)> {
    gained(&Counters::default(), ends.sender.counters().0)
}

/// The Internet checksum over ICMPv6, with its pseudo header (RFC 8200, 8.1).
fn checksum_v6(packet: &[u8]) -> u16 {
    let len = (packet.len() - 40) as u32;
    checksum(&[&packet[8..40], &len.to_be_bytes(), &[0, 0, 0, 58], &packet[40..]].concat())
}

#[test]
fn the_longest_packet_passes_and_one_byte_more_does_not() {
    let names = [
        "aes-128-gcm",
        "aes-128-gcm-64",
        "aes-128-cbc+hmac-sha1-96",
        "3des-cbc+hmac-sha1-96",
        "null+hmac-sha512-256",
        "null+aes-128-gmac",
    ];
    for name in names {
        for bits in 0..4u8 {
            let shape = Shape { outer_is_v6: bits & 1 != 0, has_udp: bits & 2 != 0, ..Shape::new(name) };
            let mut ends = Ends::new(&shape);
            ends.sender.set_own_addresses(own());
            for path_mtu in 1401..1401 + 2 * shape.transform.alignment() {
                let before = ends.sender.counters().0.clone();
                ends.sender.set_path_mtu(shape.parameters().destination, path_mtu as u16, NOW);
                let max = inner_max(&shape, path_mtu);
                let sealed = ends.seal(&[Inner::V4.packet(max, 1), V6.packet(max, 2)]);
                assert!(
                    sealed.len() == 2 && sealed.iter().all(|packet| packet.len() <= path_mtu),
                    "{shape:?} {path_mtu}"
                );
                assert!(sealed[0].len() + shape.transform.alignment() > path_mtu, "nothing is given away");
                assert!(ends.seal(&[Inner::V4.packet(max + 1, 1), V6.packet(max + 1, 2)]).is_empty());
                assert_eq!(ends.answers().len(), 2);
                let gained = gained(&before, ends.sender.counters().0);
                assert_eq!(gained, [("done", 2), ("icmp_sent", 2), ("too_big", 2)]);
            }
        }
    }
}

#[test]
fn who_sends_too_much_is_told_how_much_fits() {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    ends.sender.set_own_addresses(own());
    let max = inner_max(&shape, 1500) as u16;
    // With a link's padding behind it, which is nobody's business.
    let mut v4 = Inner::V4.packet(1480, 1);
    v4.extend([0xee; 10]);
    assert!(ends.seal(&[&v4, &V6.packet(1490, 2)]).is_empty());
    let answers = ends.answers();
    let [to_v4, to_v6] = &answers[..] else { panic!("two answers") };
    // RFC 1191, 4; RFC 792: destination unreachable, fragmentation needed, the MTU in the low half, and the packet's beginning.
    assert_eq!((to_v4.len(), checksum(&to_v4[..20]), checksum(&to_v4[20..])), (576, 0, 0));
    assert_eq!(
        (&to_v4[2..4], to_v4[9], &to_v4[12..20]),
        (&576u16.to_be_bytes()[..], 1, &[10, 0, 0, 254, 10, 0, 0, 1][..])
    );
    assert_eq!((&to_v4[20..22], &to_v4[24..28]), (&[3, 4][..], &u32::from(max).to_be_bytes()[..]));
    assert_eq!(to_v4[28..], v4[..548]);
    // RFC 4443, 3.2: packet too big, and as much of it as fits 1280 bytes.
    let v6 = V6.packet(1490, 2);
    assert_eq!((to_v6.len(), checksum_v6(to_v6)), (1280, 0));
    assert_eq!(
        (to_v6[6], &to_v6[8..24], &to_v6[24..40]),
        (58, &"fd00::fe".parse::<std::net::Ipv6Addr>().expect("one").octets()[..], &v6[8..24])
    );
    assert_eq!((&to_v6[40..42], &to_v6[44..48]), (&[2, 0][..], &u32::from(max).to_be_bytes()[..]));
    assert_eq!(to_v6[48..], v6[..1232]);
}

#[test]
fn an_error_quotes_no_more_than_the_packet() {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    ends.sender.set_own_addresses(own());
    let packet = Inner { ttl: 1, ..Inner::V4 }.packet(32, 1);
    let padded = [&packet[..], &[0xee; 14]].concat();
    assert!(ends.seal(&[padded]).is_empty());
    assert_eq!(ends.answers()[0][28..], packet);
}

#[test]
fn errors_are_a_hundred_a_second_and_none_without_an_address() {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    let packets: Vec<Vec<u8>> = (0..150).map(|at| Inner { ttl: 1, ..Inner::V4 }.packet(60, at)).collect();
    assert!(ends.seal(&packets).is_empty() && ends.answers().is_empty());
    assert_eq!(sent(&ends), [("icmp_withheld", 150), ("time_to_live", 150)]);
    ends.sender.set_own_addresses(vec![own()[1]]);
    ends.seal(&packets);
    assert_eq!(ends.answers().len(), 0, "no address of this family");
    ends.sender.set_own_addresses(own());
    // About errors there are none, and they cost the others nothing.
    let mut error = Inner { ttl: 1, ..Inner::V4 }.packet(60, 1);
    (error[9], error[20]) = (1, 3);
    ends.seal(&vec![error; 200]);
    assert_eq!(ends.answers().len(), 0);
    ends.seal(&packets);
    assert_eq!(ends.answers().len(), 100);
}

/// Puts fragments together as a host does (RFC 791, 3.2), plainly.
fn reassembled(fragments: &[Vec<u8>]) -> Vec<u8> {
    let mut parts = BTreeMap::new();
    for fragment in fragments {
        assert_eq!(checksum(&fragment[..20]), 0);
        let word = u16::from_be_bytes([fragment[6], fragment[7]]);
        assert!(parts.insert(usize::from(word & 0x1fff) * 8, (&fragment[20..], word & 0x2000 != 0)).is_none());
    }
    let mut whole = fragments[0][..20].to_vec();
    for (index, (at, (part, is_followed))) in parts.iter().enumerate() {
        assert_eq!((*at, *is_followed), (whole.len() - 20, index + 1 < parts.len()));
        whole.extend_from_slice(part);
    }
    let len = whole.len() as u16;
    whole[2..4].copy_from_slice(&len.to_be_bytes());
    whole[6..8].fill(0);
    whole
}

#[test]
fn packets_that_may_be_cut_are_cut_and_put_together_at_the_far_end() {
    for name in ["aes-128-gcm", "aes-128-cbc+hmac-sha1-96"] {
        let shape = Shape::new(name);
        let mut ends = Ends::new(&shape);
        ends.sender.set_path_mtu(shape.parameters().destination, 576, NOW);
        for len in [577, 1000, 1500, 4000, 9000] {
            let packet = CUTTABLE.packet(len, 3);
            let sealed = ends.seal(&[&packet]);
            assert!(sealed.len() > 1 && sealed.iter().all(|packet| packet.len() <= 576));
            let opened = ends.open(&sealed);
            let mut whole = reassembled(&opened);
            let expected = hopped(&packet, 2);
            whole[10..12].copy_from_slice(&expected[10..12]);
            assert_eq!(whole, expected, "{len}");
        }
        let counters = ends.sender.counters().0;
        assert_eq!((counters.fragments, counters.packets, counters.dropped_all()), (counters.done, counters.done, 0));
    }
}

#[test]
fn parts_go_where_the_whole_would_whatever_other_policies_say() {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    // Only the packet's ports say that it is to be protected; parts have none, and all else passes in clear.
    ends.sender.set_policies([]).expect("room");
    let [v4, _] = anything();
    let by_port = Selector { destination_ports: Some(12_346..=12_346), ..v4.clone() };
    for (selector, action, priority) in [(by_port, Action::Protect(TUNNEL), 1), (v4, Action::Bypass, 2)] {
        ends.sender.add_policy(Direction::Encrypt, Policy { selector, action, priority }).expect("room");
    }
    let packet = CUTTABLE.packet(3000, 3);
    let sealed = ends.seal(&[&packet]);
    assert_eq!(sent(&ends), [("done", 3), ("fragments", 3)]);
    assert!(sealed.iter().all(|packet| packet[9] == 50));
    assert_eq!(reassembled(&ends.open(&sealed)).len(), 3000);
}

#[test]
fn a_full_burst_is_cut_and_without_room_for_all_parts_none_is_sent() {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    ends.burst = ciphermill_esp::Burst::new(3, 0, 0);
    let sealed = ends.seal(&[CUTTABLE.packet(4000, 3), CUTTABLE.packet(4000, 3), Inner::V4.packet(60, 1)]);
    assert_eq!(sealed.len(), 7);
    assert_eq!(sent(&ends), [("done", 7), ("fragments", 6)]);
    // Each part would have room for all that padding.
    ends.burst = ciphermill_esp::Burst::new(1, 0, 9000);
    ends.sender.set_path_mtu(shape.parameters().destination, 576, NOW);
    assert!(ends.seal(&[CUTTABLE.packet(9000, 3)]).is_empty());
    assert_eq!(sent(&ends), [("done", 7), ("fragments", 6), ("no_room", 1)]);
}

/// Ends with this outer header.
fn copying(outer_is_v6: bool, copying: Copying) -> Ends {
    let shape = Shape { outer_is_v6, ..Shape::new("aes-128-gcm") };
    let mut ends = Ends::new(&shape);
    ends.sender.remove_outbound(ends.out).expect("there");
    let mut parameters = shape.parameters();
    parameters.copying = copying;
    ends.out = ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added");
    ends
}

#[test]
fn the_outer_header_says_of_fragments_what_it_is_told() {
    for (dont_fragment, expected) in
        [(DontFragment::Copy, [0x40, 0, 0x40]), (DontFragment::Set, [0x40; 3]), (DontFragment::Clear, [0; 3])]
    {
        let mut ends = copying(false, Copying { dont_fragment, dscp: None });
        let sealed = ends.seal(&[Inner::V4.packet(60, 1), CUTTABLE.packet(60, 1), V6.packet(60, 1)]);
        assert_eq!(sealed.iter().map(|packet| packet[6]).collect::<Vec<_>>(), expected, "{dont_fragment:?}");
        // RFC 6864, 4.3: those that may be cut are told apart.
        let mut seen = std::collections::BTreeSet::new();
        for packet in sealed.iter().filter(|packet| packet[6] == 0) {
            assert!(seen.insert([packet[4], packet[5]]));
        }
    }
}

#[test]
fn services_are_copied_or_fixed_and_congestion_is_copied_always() {
    for outer_is_v6 in [false, true] {
        for inner_is_v6 in [false, true] {
            for (dscp, class, expected) in
                [(None, 0b1011_1000, 0b1011_1000), (Some(10), 0b1011_1010, 0b0010_1010), (Some(0), 0b1111_1101, 1)]
            {
                let mut ends = copying(outer_is_v6, Copying { dscp, ..Copying::default() });
                let packet = Inner { class, is_v6: inner_is_v6, ..Inner::V4 }.packet(60, 1);
                let sealed = ends.seal(&[&packet]).remove(0);
                let outer = if outer_is_v6 { sealed[0] << 4 | sealed[1] >> 4 } else { sealed[1] };
                assert_eq!(outer, expected, "{outer_is_v6} {inner_is_v6} {dscp:?}");
                assert_eq!(ends.open(&[sealed]), [hopped(&packet, 2)], "what is within keeps its own");
            }
        }
    }
}

#[test]
fn congestion_on_the_path_is_told_to_the_far_end() {
    // RFC 6040, 4.2, figure 4: rows are what is within, columns what arrives outside; None is dropped.
    let table: [(u8, [Option<u8>; 4]); 4] = [
        (0, [Some(0), Some(0), Some(0), None]),
        (1, [Some(1), Some(1), Some(1), Some(3)]),
        (2, [Some(2), Some(1), Some(2), Some(3)]),
        (3, [Some(3); 4]),
    ];
    for (outer_is_v6, inner_is_v6) in [(false, false), (false, true), (true, false), (true, true)] {
        for (within, row) in table {
            for (outside, expected) in (0u8..).zip(row) {
                let mut ends = copying(outer_is_v6, Copying::default());
                let inner = Inner { class: 0b0110_0000 | within, is_v6: inner_is_v6, ..Inner::V4 };
                let mut sealed = ends.seal(&[inner.packet(60, 1)]).remove(0);
                if outer_is_v6 {
                    sealed[1] = sealed[1] & 0xcf | outside << 4
                } else {
                    sealed[1] = sealed[1] & 0xfc | outside
                }
                let (opened, gained) = ends.opened(&[sealed]);
                let passed = expected.map(|ecn| hopped(&Inner { class: 0b0110_0000 | ecn, ..inner }.packet(60, 1), 2));
                assert_eq!(opened, Vec::from_iter(passed), "{within} within {outside}");
                assert_eq!(gained, [(if expected.is_some() { "done" } else { "ecn" }, 1)]);
            }
        }
    }
}

#[test]
fn time_runs_out_at_either_end() {
    for is_v6 in [false, true] {
        let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
        ends.sender.set_own_addresses(own());
        ends.receiver.set_own_addresses(own());
        let of = |ttl| Inner { ttl, is_v6, ..Inner::V4 }.packet(60, 1);
        let at = if is_v6 { 40 } else { 20 };
        assert!(ends.seal(&[of(0), of(1)]).is_empty());
        let answers = ends.answers();
        assert_eq!((answers.len(), answers[1][at..at + 2].to_vec()), (2, if is_v6 { vec![3, 0] } else { vec![11, 0] }));
        assert_eq!(answers[1][at + 8..], of(1));
        assert_eq!(sent(&ends), [("icmp_sent", 2), ("time_to_live", 2)]);
        let sealed = ends.seal(&[of(2), of(3)]);
        assert_eq!(sealed.len(), 2);
        let (opened, gained) = ends.opened(&sealed);
        assert_eq!((opened, gained), (vec![hopped(&of(3), 2)], vec![("done", 1), ("time_to_live", 1)]));
        let answers = ends.answers();
        assert_eq!((answers.len(), &answers[0][at + 8..]), (1, &hopped(&of(2), 1)[..]));
    }
}

#[test]
fn policies_let_pass_discard_and_refuse() {
    let host = |last: u8| Prefix::host([10, 0, 0, last].into());
    let between = |from, to| Selector::between(from, to).expect("one family");
    let (to_two, to_three) = (between(host(1), host(2)), between(host(1), host(3)));
    let to = |last: u8| {
        let mut packet = Inner::V4.packet(60, 1);
        packet[19] = last;
        packet
    };
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    ends.sender.set_policies([]).expect("room");
    let policy = |selector: &Selector, action| Policy { selector: selector.clone(), action, priority: 5 };
    ends.sender.add_policy(Direction::Encrypt, policy(&to_two, Action::Bypass)).expect("room");
    ends.sender.add_policy(Direction::Encrypt, policy(&to_three, Action::Discard)).expect("room");
    // What passes leaves as it is, without a link's padding.
    let padded = [&to(2)[..], &[0xee; 9]].concat();
    let leaving = ends.seal(&[padded, to(3), to(4), vec![0x77; 40], Vec::new()]);
    assert_eq!(leaving, [to(2)]);
    assert_eq!(sent(&ends), [("bypassed", 1), ("malformed", 2), ("policy", 2)]);
    ends.receiver.add_policy(Direction::Decrypt, policy(&to_two, Action::Bypass)).expect("room");
    assert_eq!(ends.opened(&[to(2), to(3)]), (vec![to(2)], vec![("bypassed", 1), ("policy", 1)]));
    assert_eq!(ends.sender.policy_count(Direction::Encrypt), 2);
}

#[test]
fn dummies_are_seen_by_nobody() {
    let shape = Shape { pad_to: 300, ..Shape::new("aes-128-gcm") };
    let mut ends = Ends::new(&shape);
    ends.burst.clear();
    assert!(ends.burst.push(&Inner::V4.packet(290, 1)) && ends.burst.push_dummy(ends.out, 290));
    assert!(
        ends.burst.push_dummy(ends.out, 0)
            && ends.burst.push_dummy(ends.out, 9000)
            && ends.burst.push_dummy(ends.into, 5)
    );
    let sealed = ends.seal_burst();
    assert_eq!(sealed.iter().map(Vec::len).collect::<Vec<_>>(), [sealed[0].len(); 3], "as long as others");
    assert_eq!(sent(&ends), [("done", 3), ("dummies", 2), ("too_big", 1), ("gone", 1)]);
    let (opened, gained) = ends.opened(&sealed);
    assert_eq!((opened.len(), gained), (1, vec![("done", 1), ("dummies", 2)]));
}

#[test]
fn a_nat_that_changes_its_mind_is_told_of_by_authentic_packets_and_as_often_as_it_does() {
    for outer_is_v6 in [false, true] {
        let mut ends = Ends::new(&Shape { has_udp: true, outer_is_v6, ..Shape::new("aes-128-gcm") });
        let packets: Vec<Vec<u8>> = (0..8).map(|at| Inner::V4.packet(60, at)).collect();
        let mut sealed = ends.seal(&packets);
        let udp = if outer_is_v6 { 40 } else { 20 };
        for packet in &mut sealed[1..5] {
            packet[udp..udp + 2].copy_from_slice(&40_000u16.to_be_bytes());
            packet[if outer_is_v6 { 23 } else { 15 }] = 9;
        }
        let mut damaged = sealed[1].clone();
        *damaged.last_mut().expect("bytes") ^= 1;
        ends.open(&[&sealed[0], &damaged]);
        assert!(ends.receiver.take_events().is_empty());
        // The same packet without UDP has no port that anything could be sent to.
        let mut bare = sealed[3].clone();
        bare.drain(udp..udp + 8);
        if outer_is_v6 {
            (bare[5], bare[6]) = (bare[5] - 8, 50)
        } else {
            (bare[3], bare[9]) = (bare[3] - 8, 50)
        }
        assert_eq!(ends.opened(&[bare]).1, [("done", 1)]);
        assert!(ends.receiver.take_events().is_empty());
        // Behind the bare one both have been overtaken.
        ends.open(&sealed[1..3]);
        assert!(ends.receiver.take_events().is_empty());
        let (there, back) = if outer_is_v6 { ("2001:db8::9", "2001:db8::1") } else { ("192.0.2.9", "192.0.2.1") };
        let moved =
            |source: &str, port| Event::Moved { id: ends.into, source: source.parse::<IpAddr>().expect("one"), port };
        let [there, back] = [moved(there, 40_000), moved(back, 4500)];
        ends.open(&sealed[4..5]);
        assert_eq!(ends.receiver.take_events(), [there], "once");
        ends.open(&sealed[5..7]);
        assert_eq!(ends.receiver.take_events(), [back], "and when it moves back");
        ends.open(&sealed[7..]);
        assert!(ends.receiver.take_events().is_empty());
    }
}

#[test]
fn a_path_that_carries_less_than_all_do_is_not_believed() {
    for (outer_is_v6, least) in [(false, 576), (true, 1280)] {
        let shape = Shape { outer_is_v6, ..Shape::new("aes-128-gcm") };
        let mut ends = Ends::new(&shape);
        let destination = shape.parameters().destination;
        let passes = |ends: &mut Ends, len| ends.seal(&[Inner::V4.packet(len, 1)]).len() == 1;
        for mtu in [0, 68, least - 1] {
            ends.sender.set_path_mtu(destination, mtu, NOW);
            assert!(passes(&mut ends, inner_max(&shape, 1500)), "{mtu}");
        }
        ends.sender.set_path_mtu(shape.parameters().source, least, NOW);
        assert!(passes(&mut ends, inner_max(&shape, 1500)), "another path");
        ends.sender.set_path_mtu(destination, least, NOW);
        assert!(
            passes(&mut ends, inner_max(&shape, least.into()))
                && !passes(&mut ends, inner_max(&shape, least.into()) + 1)
        );
        ends.sender.set_path_mtu(destination, 9000, NOW);
        assert!(passes(&mut ends, inner_max(&shape, 1500)), "no more than configured");
        assert!(!passes(&mut ends, inner_max(&shape, 1500) + 1));
        let mut parameters = shape.parameters();
        parameters.path_mtu = least - 1;
        assert!(ends.sender.add_outbound(parameters, &shape.keys(), NOW).is_err());
    }
}

/// A router's error about a packet of which it quotes so many bytes.
fn too_big(packet: &[u8], quoted: usize, mtu: u16) -> Vec<u8> {
    let is_v6 = packet[0] >> 4 == 6;
    let quoted = &packet[..packet.len().min(quoted)];
    let kind = if is_v6 { [2, 0] } else { [3, 4] };
    let mut icmp = [&kind[..], &[0, 0, 0, 0], &mtu.to_be_bytes(), quoted].concat();
    let mut error = if is_v6 {
        let router = "2001:db8::99".parse::<std::net::Ipv6Addr>().expect("an address").octets();
        let len = (icmp.len() as u16).to_be_bytes();
        [&[0x60, 0, 0, 0, len[0], len[1], 58, 64][..], &router, &packet[8..24]].concat()
    } else {
        let len = (20 + icmp.len() as u16).to_be_bytes();
        let mut header =
            [&[0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 1, 0, 0, 192, 0, 2, 99][..], &packet[12..16]].concat();
        let sum = checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        header
    };
    let sum = match is_v6 {
        false => checksum(&icmp),
        true => checksum_v6(&[&error[..], &icmp].concat()),
    };
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    error.extend(icmp);
    error
}

/// Tells the sender something from outside: how often it listened. Nothing leaves for the inside.
fn told(ends: &mut Ends, packets: &[Vec<u8>], now: Duration) -> u64 {
    let before = ends.sender.counters().1.icmp_heard;
    ends.burst.clear();
    assert!(packets.iter().all(|packet| ends.burst.push(packet)));
    ends.sender.begin_inbound(&mut ends.burst, now);
    ends.burst.crypt(&mut ends.session).expect("runs");
    ends.sender.commit_inbound(&mut ends.burst);
    assert!(ends.burst.leaving().1.is_empty());
    ends.sender.counters().1.icmp_heard - before
}

fn longest(ends: &mut Ends) -> usize {
    let fits = |len: &usize| ends.seal(&[Inner::V4.packet(*len, 1)]).len() == 1;
    (500..1500).rev().find(fits).expect("something fits")
}

#[test]
fn routers_are_believed_about_packets_that_were_sent() {
    for (outer_is_v6, has_udp, mtu) in
        [(false, false, 1400), (false, true, 1333), (true, false, 1300), (true, true, 1280), (false, false, 576)]
    {
        let shape = Shape { outer_is_v6, has_udp, ..Shape::new("aes-128-gcm") };
        let mut ends = Ends::new(&shape);
        let sealed = ends.seal(&[Inner::V4.packet(1400, 1)]).remove(0);
        assert_eq!(told(&mut ends, &[too_big(&sealed, 576, mtu)], NOW), 1);
        assert_eq!(longest(&mut ends), inner_max(&shape, mtu.into()), "{outer_is_v6} {has_udp} {mtu}");
        // A successor goes the same way, and longer packets are tried after ten minutes.
        let next = Shape { last: 1, ..shape };
        ends.sender.remove_outbound(ends.out).expect("there");
        ends.out = ends.sender.add_outbound(next.parameters(), &next.keys(), NOW).expect("added");
        assert_eq!(longest(&mut ends), inner_max(&shape, mtu.into()));
        ends.sender.tick(NOW + Duration::from_secs(599));
        assert_eq!(longest(&mut ends), inner_max(&shape, mtu.into()));
        ends.sender.tick(NOW + Duration::from_secs(600));
        assert_eq!(longest(&mut ends), inner_max(&shape, 1500));
    }
}

#[test]
fn a_path_narrows_hop_by_hop_and_is_not_widened_by_errors() {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    let sealed = ends.seal(&[Inner::V4.packet(1400, 1)]).remove(0);
    for (mtu, then) in [(1400, 1400), (1450, 1400), (1300, 1300), (1500, 1300)] {
        assert_eq!(told(&mut ends, &[too_big(&sealed, 28, mtu)], NOW), 1);
        assert_eq!(longest(&mut ends), inner_max(&shape, then));
    }
}

#[test]
fn nobody_is_believed_who_has_not_seen_the_packet() {
    for (outer_is_v6, has_udp) in [(false, false), (false, true), (true, false), (true, true)] {
        let shape = Shape { outer_is_v6, has_udp, last: 1 << 20, ..Shape::new("aes-128-gcm") };
        let mut ends = Ends::new(&shape);
        let sealed = ends.seal(&[Inner::V4.packet(1400, 1)]).remove(0);
        let esp = if outer_is_v6 { 40 } else { 20 } + if has_udp { 8 } else { 0 };
        let changed = |at: usize, to: u8| {
            let mut other = sealed.clone();
            other[at] ^= to;
            too_big(&other, 576, 1300)
        };
        let source = if outer_is_v6 { 23 } else { 15 };
        let destination = if outer_is_v6 { 39 } else { 19 };
        let mut wrong_sum = too_big(&sealed, 576, 1300);
        *wrong_sum.last_mut().expect("bytes") ^= 1;
        let mut part = too_big(&sealed, 576, 1300);
        if outer_is_v6 {
            part[6] = 44
        } else {
            part[6] = 0x20
        }
        let doubtful = [
            changed(esp, 1),
            changed(esp + 3, 1),
            // A number that is still to come, and one from long ago.
            changed(esp + 5, 0x20),
            changed(esp + 5, 0x10),
            changed(destination, 4),
            changed(source, 4),
            changed(if outer_is_v6 { 6 } else { 9 }, 1),
            too_big(&sealed, esp + 7, 1300),
            wrong_sum,
            part,
            too_big(&sealed, 576, 1300)[..40].to_vec(),
        ];
        for (at, packet) in doubtful.iter().enumerate() {
            assert_eq!(told(&mut ends, core::slice::from_ref(packet), NOW), 0, "case {at}, {outer_is_v6} {has_udp}");
        }
        // What no path carries is heard, and changes nothing.
        assert_eq!(told(&mut ends, &[too_big(&sealed, 576, 0), too_big(&sealed, 576, 500)], NOW), 2);
        assert_eq!(longest(&mut ends), inner_max(&shape, 1500));
    }
}

#[test]
fn errors_about_the_path_are_looked_at_a_hundred_times_a_second() {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    let sealed = ends.seal(&[Inner::V4.packet(1400, 1)]).remove(0);
    let errors = vec![too_big(&sealed, 28, 1400); 150];
    assert_eq!(told(&mut ends, &errors, NOW), 100);
    assert_eq!(told(&mut ends, &errors, NOW + Duration::from_millis(100)), 10);
}

#[test]
fn encapsulation_has_the_ports_that_it_is_given() {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    ends.sender.remove_outbound(ends.out).expect("there");
    let mut parameters = shape.parameters();
    parameters.encapsulation = Some(Encapsulation { source_port: 7777, destination_port: 8888 });
    ends.sender.add_outbound(parameters, &shape.keys(), NOW + Duration::from_secs(1)).expect("added");
    let sealed = ends.seal(&[Inner::V4.packet(60, 1)]);
    assert_eq!(sealed[0][20..24], [0x1e, 0x61, 0x22, 0xb8]);
    assert_eq!(ends.refused(&sealed), [("policy", 1)], "not the port of ESP");
    ends.receiver.set_udp_ports(vec![4500, 8888]);
    assert_eq!(ends.opened(&sealed).1, [("done", 1)]);
}
