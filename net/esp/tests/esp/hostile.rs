//! What a hostile peer sends, or somebody on the way: each with the counter that moves, and no other.

use ciphermill_contract::Direction;
use ciphermill_esp::{Action, Event, Policy, Prefix, Selector, Sequence};

use crate::ends::{Ends, Inner, NOW, Shape, TUNNEL, hopped};
use crate::forge::{forge, with_trailer};

const GCM: &str = "aes-128-gcm";
const CBC: &str = "aes-128-cbc+hmac-sha1-96";
const NULL: &str = "null+hmac-sha1-96";

/// Every way that columns are run: AEAD, chain, two passes for a digest or for extended numbers, MAC alone, GMAC.
fn ways() -> Vec<Shape> {
    let names =
        [GCM, "aes-256-ccm-64", "chacha20-poly1305", CBC, "aes-128-cbc+hmac-sha512-256", NULL, "null+aes-128-gmac"];
    let mut all = Vec::new();
    for name in names {
        all.push(Shape::new(name));
        all.push(Shape { sequence: Sequence::Extended, has_udp: true, ..Shape::new(name) });
    }
    all
}

#[test]
fn what_is_forged_here_is_what_an_honest_sender_would_send() {
    for name in [GCM, CBC, NULL] {
        for sequence in [Sequence::Short, Sequence::Extended] {
            let shape = Shape { sequence, ..Shape::new(name) };
            let mut ends = Ends::new(&shape);
            let packet = Inner::V4.packet(90, 1);
            let plain = with_trailer(&packet, shape.transform.alignment(), 4);
            let (opened, gained) = ends.opened(&[forge(&shape, 1, &plain)]);
            assert_eq!((opened, gained), (vec![hopped(&packet, 1)], vec![("done", 1)]), "{shape:?}");
            if name == GCM {
                let mut sealed = ends.seal(&[&packet]).remove(0);
                let plain = with_trailer(&hopped(&packet, 1), 4, 4);
                let forged = forge(&shape, 1, &plain);
                assert_eq!(sealed.split_off(20), forged[20..], "counters are nonces");
            }
        }
    }
}

#[test]
fn a_packet_comes_once_in_a_burst_in_the_next_and_when_the_window_has_moved() {
    for shape in ways() {
        let mut ends = Ends::new(&shape);
        let packets: Vec<Vec<u8>> = (0..4).map(|at| Inner::V4.packet(60 + at, at as u8)).collect();
        let sealed = ends.seal(&packets);
        let twice = [&sealed[0], &sealed[1], &sealed[0], &sealed[0], &sealed[1]];
        let (opened, gained) = ends.opened(&twice);
        let expected: Vec<Vec<u8>> = packets[..2].iter().map(|packet| hopped(packet, 2)).collect();
        assert_eq!((opened, gained), (expected, vec![("done", 2), ("replayed", 3)]), "{shape:?}");
        assert_eq!(ends.refused(&sealed[..2]), [("replayed", 2)]);
        let many: Vec<Vec<u8>> = (0..70).map(|at| Inner::V4.packet(60, at)).collect();
        let later = ends.seal(&many);
        assert_eq!(ends.opened(&later).1, [("done", 70)]);
        // Numbers 1 and 2 have been there, 3 and 4 have not: they are all older than the window. Of extended numbers the low half is then taken
        // for one of the next 2^32, for which the ICV is wrong (RFC 4303, A2.2).
        let expected = if shape.sequence == Sequence::Short { "old" } else { "integrity" };
        assert_eq!(ends.refused(&sealed), [(expected, 4)]);
    }
}

#[test]
fn packets_that_are_reordered_by_ten_thousand_are_accepted_within_the_window() {
    for (window, name) in [(64, NULL), (4096, NULL), (64, GCM), (4096, GCM)] {
        let mut ends = Ends::new(&Shape { window, ..Shape::new(name) });
        let mut sealed = Vec::new();
        for round in 0..50u16 {
            let packets: Vec<Vec<u8>> = (0..201).map(|at| Inner::V4.packet(48, (round + at) as u8)).collect();
            sealed.extend(ends.seal(&packets));
        }
        let last = sealed.len() as u64;
        assert!(last > 10_000);
        // Backwards: the first that comes is the highest number, and of the others the window's are new.
        sealed.reverse();
        let (mut done, mut old) = (0, 0);
        for part in sealed.chunks(200) {
            for (name, count) in ends.opened(part).1 {
                match name {
                    "done" => done += count,
                    "old" => old += count,
                    other => panic!("{other}"),
                }
            }
        }
        assert_eq!((done, old), (u64::from(window), last - u64::from(window)));
        assert_eq!(ends.top(), last);
    }
}

#[test]
fn a_packet_cut_anywhere_is_not_opened() {
    for shape in ways() {
        let mut ends = Ends::new(&shape);
        let sealed = ends.seal(&[Inner::V4.packet(61, 3)]).remove(0);
        let esp = if shape.has_udp { 28 } else { 20 };
        for len in 0..sealed.len() {
            let mut cut = sealed[..len].to_vec();
            // The header says more than there is.
            assert_eq!(ends.refused(&[&cut]), [("malformed", 1)], "{shape:?}: {len}");
            if len >= 20 {
                cut[2..4].copy_from_slice(&(len as u16).to_be_bytes());
                let gained = ends.refused(&[&cut]);
                let least = esp + 8 + shape.transform.iv_len() + shape.transform.icv_len() + 2;
                let is_whole = (len - least.min(len) + 2).is_multiple_of(shape.transform.alignment());
                let expected = match len {
                    // A UDP header without its ports is no UDP to our port.
                    len if shape.has_udp && len < 24 => "policy",
                    len if len < least || !is_whole => "malformed",
                    _ => "integrity",
                };
                assert_eq!(gained, [(expected, 1)], "{shape:?}: {len}");
            }
        }
        assert_eq!(ends.top(), 0);
        assert_eq!(ends.opened(&[sealed]).1, [("done", 1)]);
    }
}

#[test]
fn a_wrong_bit_in_any_byte_of_what_is_protected_fails_the_icv() {
    for shape in ways() {
        let mut ends = Ends::new(&shape);
        let sealed = ends.seal(&[Inner::V4.packet(50, 3)]).remove(0);
        let esp = if shape.has_udp { 28 } else { 20 };
        // One burst has them all, behind a good packet's number: IV, ciphertext, ICV.
        let wrong: Vec<Vec<u8>> = (esp + 8..sealed.len())
            .map(|at| {
                let mut wrong = sealed.clone();
                wrong[at] ^= 1 << (at % 8);
                wrong
            })
            .collect();
        assert_eq!(ends.refused(&wrong), [("integrity", wrong.len() as u64)], "{shape:?}");
        for at in 0..8 {
            let mut wrong = sealed.clone();
            wrong[esp + at] ^= 1 << (at % 8);
            // Another SPI has no association; of another number the ICV is wrong, however high or low it is.
            let expected = if at < 4 { "unknown_spi" } else { "integrity" };
            assert_eq!(ends.refused(&[&wrong]), [(expected, 1)], "{shape:?}: {at}");
        }
        assert_eq!(ends.top(), 0, "numbers of packets that are not authentic move nothing");
        assert_eq!(ends.opened(&[sealed]).1, [("done", 1)], "{shape:?}");
    }
}

#[test]
fn spis_without_association_are_unknown_and_reserved_ones_too() {
    let mut ends = Ends::new(&Shape::new(GCM));
    let sealed = ends.seal(&[Inner::V4.packet(50, 3)]).remove(0);
    let of = |spi: u32| {
        let mut packet = sealed.clone();
        packet[20..24].copy_from_slice(&spi.to_be_bytes());
        packet
    };
    let all: Vec<Vec<u8>> = (0..=255).chain([0x1234_5677, u32::MAX]).map(of).collect();
    for part in all.chunks(100) {
        assert_eq!(ends.refused(part), [("unknown_spi", part.len() as u64)]);
    }
}

#[test]
fn padding_is_what_the_sender_must_write() {
    for name in [GCM, CBC, NULL] {
        let shape = Shape::new(name);
        let block = shape.transform.alignment();
        let mut ends = Ends::new(&shape);
        let packet = Inner::V4.packet(64 + block - 2 - 3, 1);
        let good = with_trailer(&packet, block, 4);
        let len = good.len();
        assert_eq!(good[len - 2], 3, "three bytes of padding");
        let mut number = 0;
        let mut refuse = |plain: &[u8], reason: &'static str| {
            number += 1;
            assert_eq!(ends.refused(&[forge(&shape, number, plain)]), [(reason, 1)], "{name}: {plain:x?}");
        };
        for (at, value) in [(len - 5, 0), (len - 5, 2), (len - 4, 1), (len - 4, 3), (len - 3, 0), (len - 3, 0xff)] {
            let mut plain = good.clone();
            plain[at] = value;
            refuse(&plain, "padding");
        }
        // More than there is, up to all that the byte can say.
        for padding in [4, 100, 255] {
            let mut plain = good.clone();
            plain[len - 2] = padding;
            refuse(&plain, "padding");
        }
        // Padding alone, as much as there is place for and one more.
        let mut alone: Vec<u8> = (1..).take(block * 4 - 2).collect();
        alone.extend([(block * 4 - 1) as u8, 4]);
        refuse(&alone, "padding");
        alone[block * 4 - 2] -= 1;
        refuse(&alone, "malformed");
        // All of them were authentic, so that their numbers have been there.
        assert_eq!(ends.top(), number);
        let before = ends.refused(&[forge(&shape, number, &good)]);
        assert_eq!(before, [("replayed", 1)]);
    }
}

#[test]
fn longer_padding_than_needed_is_right_and_ends_with_the_packet() {
    // RFC 4303, 2.4: up to 255 bytes.
    let shape = Shape::new(NULL);
    let mut ends = Ends::new(&shape);
    let packet = Inner::V4.packet(55, 1);
    let mut plain = packet.clone();
    plain.extend(1..=255);
    plain.extend([255, 4]);
    assert_eq!(plain.len() % 4, 0);
    let (opened, gained) = ends.opened(&[forge(&shape, 1, &plain)]);
    assert_eq!((opened, gained), (vec![hopped(&packet, 1)], vec![("done", 1)]));
}

#[test]
fn next_headers_are_those_of_a_tunnel_and_of_the_packet_within() {
    let shape = Shape::new(GCM);
    let mut ends = Ends::new(&shape);
    let (v4, v6) = (Inner::V4.packet(60, 1), Inner { is_v6: true, ..Inner::V4 }.packet(60, 1));
    let mut number = 0;
    let mut next = |inner: &[u8], next_header: u8| {
        number += 1;
        ends.opened(&[forge(&shape, number, &with_trailer(inner, 4, next_header))]).1
    };
    for next_header in (0..=255).filter(|next| ![4, 41, 59].contains(next)) {
        assert_eq!(next(&v4, next_header), [("next_header", 1)], "{next_header}");
    }
    assert_eq!(next(&v4, 41), [("next_header", 1)]);
    assert_eq!(next(&v6, 4), [("next_header", 1)]);
    assert_eq!(next(&v4, 59), [("dummies", 1)]);
    assert_eq!(next(&[], 59), [("dummies", 1)]);
    assert_eq!((next(&v4, 4), next(&v6, 41)), (vec![("done", 1)], vec![("done", 1)]));
}

#[test]
fn an_inner_packet_that_lies_about_itself_is_malformed() {
    let shape = Shape::new(GCM);
    let mut ends = Ends::new(&shape);
    let v4 = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = Inner::V4.packet(60, 1);
        change(&mut packet);
        (packet, 4)
    };
    let v6 = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut packet = Inner { is_v6: true, ..Inner::V4 }.packet(60, 1);
        change(&mut packet);
        (packet, 41)
    };
    let lies = [
        v4(&|packet| packet[3] = 61),
        v4(&|packet| packet[2] = 0xff),
        v4(&|packet| packet[3] = 19),
        v4(&|packet| packet[0] = 0x44),
        v4(&|packet| (packet[0], packet[3]) = (0x4f, 59)),
        v4(&|packet| packet[0] = 0x55),
        v4(&|packet| packet.truncate(19)),
        v4(&|packet| packet.truncate(0)),
        v6(&|packet| packet[5] = 21),
        v6(&|packet| packet[4] = 0xff),
        v6(&|packet| packet.truncate(39)),
        v6(&|packet| packet[0] = 0x75),
        // An extension header that is longer than the packet.
        v6(&|packet| (packet[6], packet[41]) = (0, 0xff)),
    ];
    for (number, (packet, next_header)) in (1..).zip(lies) {
        let forged = forge(&shape, number, &with_trailer(&packet, 4, next_header));
        // Wrong versions are told apart from the next header's where they are one of both.
        assert_eq!(ends.refused(&[forged]), [("malformed", 1)], "{packet:x?}");
        assert_eq!(ends.top(), number);
    }
}

#[test]
fn the_longest_packet_there_is_passes_and_a_longer_one_is_none() {
    let shape = Shape::new(GCM);
    let mut ends = Ends::new(&shape);
    let packet = Inner::V4.packet(9216 - 20 - 16 - 16 - 2, 1);
    let forged = forge(&shape, 1, &with_trailer(&packet, 4, 4));
    assert_eq!(forged.len(), 9216);
    assert_eq!(ends.opened(&[&forged]).1, [("done", 1)]);
    let longer = forge(&shape, 2, &with_trailer(&Inner::V4.packet(9216 - 20 - 16 - 16 + 2, 1), 4, 4));
    assert_eq!(longer.len(), 9220);
    assert_eq!(ends.refused(&[longer, vec![0x45; 65_535]]), [("malformed", 2)]);
}

#[test]
fn what_is_no_esp_is_told_from_it() {
    let mut ends = Ends::new(&Shape { has_udp: true, ..Shape::new(GCM) });
    let sealed = ends.seal(&[Inner::V4.packet(60, 1)]).remove(0);
    let udp = |payload: &[u8]| {
        let mut packet = sealed[..28].to_vec();
        packet.extend(payload);
        let len = packet.len() as u16;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[24..26].copy_from_slice(&(len - 20).to_be_bytes());
        packet
    };
    // RFC 3948, 2.3 and 2.2: a keep-alive, and IKE behind its marker.
    assert_eq!(ends.refused(&[udp(&[0xff]), udp(&[0; 4]), udp(&[0, 0, 0, 0, 1, 2, 3, 4, 5])]), [("not_esp", 3)]);
    assert_eq!(ends.refused(&[udp(&[]), udp(&[0xfe]), udp(&[0; 3]), udp(&[1; 7])]), [("malformed", 4)]);
    let mut elsewhere = sealed.clone();
    elsewhere[22..24].copy_from_slice(&4501u16.to_be_bytes());
    assert_eq!(ends.refused(&[elsewhere]), [("policy", 1)], "another port than ESP's");
    assert_eq!(ends.opened(&[sealed]).1, [("done", 1)]);
}

#[test]
fn fragments_of_outer_packets_are_refused() {
    for outer_is_v6 in [false, true] {
        let shape = Shape { outer_is_v6, ..Shape::new(GCM) };
        let mut ends = Ends::new(&shape);
        let sealed = ends.seal(&[Inner::V4.packet(60, 1)]).remove(0);
        let fragment = |word: u16| {
            let mut packet = sealed.clone();
            if outer_is_v6 {
                let field = [50, 0, (word << 3 >> 8) as u8, (word << 3) as u8 | (word >> 13 & 1) as u8, 0, 0, 0, 1];
                packet.splice(40..40, field);
                packet[6] = 44;
                packet[5] += 8;
            } else {
                packet[6..8].copy_from_slice(&word.to_be_bytes());
            }
            packet
        };
        let fragments = [0x2000, 0x2001, 1, 0x1fff].map(fragment);
        assert_eq!(ends.refused(&fragments), [("fragment", 4)], "{outer_is_v6}");
        // A fragment header around a whole packet makes it none (RFC 6946).
        assert_eq!(ends.opened(&[fragment(0)]).1, [("done", 1)]);
    }
}

#[test]
fn clear_text_that_ought_to_have_been_protected_is_refused() {
    let mut ends = Ends::new(&Shape::new(GCM));
    assert_eq!(
        ends.refused(&[Inner::V4.packet(60, 1), Inner { is_v6: true, ..Inner::V4 }.packet(60, 1)]),
        [("policy", 2)]
    );
    ends.receiver.set_policies([]).expect("room");
    assert_eq!(ends.refused(&[Inner::V4.packet(60, 1)]), [("policy", 1)], "without a policy as well");
    let sealed = ends.seal(&[Inner::V4.packet(60, 1)]);
    assert_eq!(ends.refused(&sealed), [("selector", 1)], "and what comes by a tunnel that no policy asks for");
}

#[test]
fn what_is_within_must_be_what_policy_and_selector_say() {
    let host = |last: u8| Prefix::host([10, 0, 0, last].into());
    let between = |from: u8, to: u8| Selector::between(host(from), host(to)).expect("one family");
    let shape = Shape::new(GCM);
    let mut ends = Ends::new(&shape);
    let policy = |selector, action, priority| Policy { selector, action, priority };
    let sealed = ends.seal(&[Inner::V4.packet(60, 1), Inner::V4.packet(60, 2), Inner::V4.packet(60, 3)]);
    // Another tunnel's, discarded, bypassed: none of it may come by this one.
    for (packet, action) in sealed.iter().zip([Action::Protect(TUNNEL + 1), Action::Discard, Action::Bypass]) {
        ends.receiver.add_policy(Direction::Decrypt, policy(between(1, 2), action, 1)).expect("room");
        assert_eq!(ends.refused(&[packet]), [("selector", 1)], "{action:?}");
    }
    assert!(ends.receiver.remove_policy(Direction::Decrypt, &between(1, 2), 1).is_some());
    for (from, to, ports, expected) in
        [(1, 3, None, "selector"), (2, 2, None, "selector"), (1, 2, None, "done"), (1, 2, Some(1..=12_000), "selector")]
    {
        let mut ends = Ends::new(&shape);
        let mut parameters = shape.parameters();
        let selector = Selector { destination_ports: ports, ..between(from, to) };
        (parameters.spi, parameters.selector) = (0x999, Some(selector));
        ends.receiver.add_inbound(parameters.clone(), &shape.keys(), NOW).expect("added");
        ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added");
        let sealed = ends.seal(&[Inner::V4.packet(60, 1)]);
        assert_eq!(ends.opened(&sealed).1, [(expected, 1)], "{from} {to}");
    }
}

#[test]
fn numbers_of_32_bits_never_wrap() {
    for name in [GCM, CBC, NULL] {
        let shape = Shape { last: u64::from(u32::MAX) - 3, ..Shape::new(name) };
        let mut ends = Ends::new(&shape);
        let packets: Vec<Vec<u8>> = (0..6).map(|at| Inner::V4.packet(60, at)).collect();
        let sealed = ends.seal(&packets);
        let numbers: Vec<&[u8]> = sealed.iter().map(|packet| &packet[24..28]).collect();
        assert_eq!(numbers, [[0xff, 0xff, 0xff, 0xfd], [0xff, 0xff, 0xff, 0xfe], [0xff; 4]]);
        let gained = crate::ends::gained(&ciphermill_esp::Counters::default(), ends.sender.counters().0);
        assert_eq!(gained, [("done", 3), ("sequence_overflow", 3)]);
        assert_eq!(ends.sender.take_events(), [Event::Over(ends.out)]);
        assert!(ends.seal(&packets).is_empty(), "nor later");
        assert_eq!(ends.sender.last_number(Direction::Encrypt, ends.out), Some(u64::from(u32::MAX)));
        assert_eq!(ends.opened(&sealed).1, [("done", 3)]);
        // A peer that wraps nevertheless sends what is old.
        let plain = with_trailer(&packets[0], shape.transform.alignment(), 4);
        assert_eq!(ends.refused(&[forge(&shape, 0, &plain), forge(&shape, 1, &plain)]), [("old", 2)]);
    }
}

#[test]
fn extended_numbers_go_on_across_2_32_with_loss_and_out_of_order() {
    for name in [GCM, CBC, NULL, "aes-128-cbc+hmac-sha512-256", "null+aes-128-gmac", "aes-128-ccm"] {
        let last = (5 << 32) - 20;
        let shape = Shape { sequence: Sequence::Extended, last, ..Shape::new(name) };
        let mut ends = Ends::new(&shape);
        let packets: Vec<Vec<u8>> = (0..60).map(|at| Inner::V4.packet(60, at)).collect();
        let sealed = ends.seal(&packets);
        // Every third is lost; the last that are left come first.
        let left: Vec<&Vec<u8>> = sealed.iter().enumerate().filter(|(at, _)| at % 3 != 1).map(|(_, one)| one).collect();
        let order = left[30..].iter().chain(&left[..30]).copied().collect::<Vec<_>>();
        assert_eq!(ends.opened(&order[..15]).1, [("done", 15)]);
        assert_eq!(ends.opened(&order[15..]).1, [("done", 25)]);
        assert_eq!(ends.top(), last + 60);
        assert_eq!(ends.refused(&order), [("replayed", 40)]);
    }
}

#[test]
fn a_number_guessed_wrong_fails_the_icv_and_changes_nothing() {
    for name in [GCM, CBC, NULL] {
        let shape = Shape { sequence: Sequence::Extended, last: 100, ..Shape::new(name) };
        let mut ends = Ends::new(&shape);
        let plain = with_trailer(&Inner::V4.packet(60, 1), shape.transform.alignment(), 4);
        // More than 2^32 ahead: its low half looks like a number near the window.
        assert_eq!(ends.refused(&[forge(&shape, (1 << 32) + 101, &plain)]), [("integrity", 1)]);
        assert_eq!(ends.refused(&[forge(&shape, (7 << 32) + 90_000, &plain)]), [("integrity", 1)]);
        assert_eq!(ends.top(), 100);
        // What looks old is taken for the next subspace's, as far as 2^32 ahead.
        assert_eq!(ends.opened(&[forge(&shape, (1 << 32) + 5, &plain)]).1, [("done", 1)]);
        assert_eq!(ends.top(), (1 << 32) + 5);
    }
}

#[test]
fn packets_that_are_not_authentic_move_no_window() {
    for shape in [Shape::new(GCM), Shape { sequence: Sequence::Extended, ..Shape::new(CBC) }] {
        let mut ends = Ends::new(&shape);
        let sealed = ends.seal(&[Inner::V4.packet(60, 1), Inner::V4.packet(60, 2)]);
        let mut high = sealed[0].clone();
        high[24..28].copy_from_slice(&0x7fff_ffffu32.to_be_bytes());
        // Before, between and behind the honest ones in one burst.
        let (opened, gained) = ends.opened(&[&high, &sealed[0], &high, &sealed[1], &high]);
        assert_eq!((opened.len(), gained), (2, vec![("done", 2), ("integrity", 3)]));
        assert_eq!(ends.top(), 2);
    }
}
