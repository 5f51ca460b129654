//! Associations that come and go: while packets are on their way, at the ends of their lives, and when others follow them.

use std::time::Duration;

use ciphermill_contract::Direction;
use ciphermill_esp::{Counters, Event, Lifetime, Lifetimes, SaId};

use crate::ends::{Ends, Inner, NOW, Shape, TUNNEL, gained, hopped};

/// One of each way to run columns.
const NAMES: [&str; 5] = [
    "aes-128-gcm",
    "aes-128-cbc+hmac-sha1-96",
    "aes-256-cbc+hmac-sha512-256",
    "null+hmac-sha256-128",
    "null+aes-128-gmac",
];

/// A second association of the same kind beside the first, for another tunnel; dummies go by it.
fn second(ends: &mut Ends, shape: &Shape) -> (SaId, SaId) {
    let mut parameters = shape.parameters();
    (parameters.spi, parameters.tunnel) = (0x2222, TUNNEL + 1);
    let mut keys = shape.keys();
    keys.key[0] ^= 1;
    let into = ends.receiver.add_inbound(parameters.clone(), &keys, NOW).expect("added");
    (ends.sender.add_outbound(parameters, &keys, NOW).expect("added"), into)
}

#[test]
fn one_that_is_removed_before_its_packets_are_encrypted_loses_them_and_no_others() {
    for name in NAMES {
        let shape = Shape::new(name);
        let mut ends = Ends::new(&shape);
        let (other, _) = second(&mut ends, &shape);
        let keys = ends.mill.keys().len();
        ends.burst.clear();
        for at in 0..4 {
            assert!(ends.burst.push(&Inner::V4.packet(60, at)) && ends.burst.push_dummy(other, 40));
        }
        ends.sender.begin_outbound(&mut ends.burst, NOW);
        assert!(ends.sender.remove_outbound(ends.out).is_some());
        assert!(ends.mill.keys().len() < keys, "the key is gone at once");
        // The mill may say that a key is missing, or leave the operations undone; the others are done.
        let _ = ends.burst.crypt(&mut ends.session);
        ends.sender.commit_outbound(&mut ends.burst);
        let gained = gained(&Counters::default(), ends.sender.counters().0);
        assert_eq!(gained, [("done", 4), ("dummies", 4), ("gone", 4)], "{name}");
        assert_eq!(ends.burst.leaving().1.len(), 4);
    }
}

#[test]
fn one_that_is_removed_before_its_packets_are_decrypted_loses_them_and_no_others() {
    for name in NAMES {
        for is_late in [false, true] {
            let shape = Shape::new(name);
            let mut ends = Ends::new(&shape);
            let (other, _) = second(&mut ends, &shape);
            ends.burst.clear();
            for at in 0..4 {
                assert!(ends.burst.push(&Inner::V4.packet(60, at)) && ends.burst.push_dummy(other, 40));
            }
            let sealed = ends.seal_burst();
            ends.burst.clear();
            assert!(sealed.iter().all(|packet| ends.burst.push(packet)));
            ends.receiver.begin_inbound(&mut ends.burst, NOW);
            if is_late {
                ends.burst.crypt(&mut ends.session).expect("runs");
            }
            assert!(ends.receiver.remove_inbound(ends.into).is_some());
            // One with the same SPI that is added meanwhile is another one, and gets none of them.
            let again = ends.receiver.add_inbound(shape.parameters(), &shape.keys(), NOW).expect("added");
            if !is_late {
                let _ = ends.burst.crypt(&mut ends.session);
            }
            ends.receiver.commit_inbound(&mut ends.burst);
            let gained = gained(&Counters::default(), ends.receiver.counters().1);
            assert_eq!(gained, [("dummies", 4), ("gone", 4)], "{name}");
            assert_eq!(ends.receiver.last_number(Direction::Decrypt, again), Some(0));
            assert_eq!(ends.receiver.last_number(Direction::Decrypt, ends.into), None);
        }
    }
}

#[test]
fn one_of_another_kind_that_is_added_meanwhile_changes_nothing() {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    let packets: Vec<Vec<u8>> = (0..4).map(|at| Inner::V4.packet(60, at)).collect();
    ends.burst.clear();
    assert!(packets.iter().all(|packet| ends.burst.push(packet)));
    ends.sender.begin_outbound(&mut ends.burst, NOW);
    let mut parameters = Shape::new("null+hmac-sha1-96").parameters();
    parameters.spi = 0x777;
    ends.sender.add_outbound(parameters, &Shape::new("null+hmac-sha1-96").keys(), NOW).expect("added");
    ends.burst.crypt(&mut ends.session).expect("runs");
    ends.sender.commit_outbound(&mut ends.burst);
    let (data, spans) = ends.burst.leaving();
    let sealed: Vec<Vec<u8>> = spans.iter().map(|[from, to]| data[*from as usize..*to as usize].to_vec()).collect();
    assert_eq!(ends.open(&sealed), packets.iter().map(|packet| hopped(packet, 2)).collect::<Vec<_>>());
}

#[test]
fn tunnels_that_are_dropped_leave_no_key_in_the_mill() {
    for name in NAMES {
        let ends = Ends::new(&Shape::new(name));
        let mill = ends.mill.clone();
        assert!(!mill.keys().is_empty());
        drop(ends);
        assert!(mill.keys().is_empty(), "{name}");
    }
}

#[test]
fn an_association_that_is_refused_leaves_no_key_either() {
    let shape = Shape::new("aes-256-cbc+hmac-sha512-256");
    let mut ends = Ends::new(&shape);
    let count = ends.mill.keys().len();
    assert!(ends.receiver.add_inbound(shape.parameters(), &shape.keys(), NOW).is_err(), "it is there");
    for (key_len, salt_len) in [(97, 0), (95, 0), (96, 1), (0, 0)] {
        let mut keys = shape.keys();
        keys.key.resize(key_len, 0);
        keys.salt.resize(salt_len, 0);
        let mut parameters = shape.parameters();
        parameters.spi = 0x7777;
        assert!(ends.receiver.add_inbound(parameters.clone(), &keys, NOW).is_err());
        assert!(ends.sender.add_outbound(parameters, &keys, NOW).is_err());
    }
    assert_eq!(ends.mill.keys().len(), count);
    assert_eq!(ends.sender.outbound_all().count() + ends.receiver.inbound_all().count(), 2);
}

/// Ends whose association has these bounds on one side.
fn bounded(soft: Lifetime, hard: Lifetime, direction: Direction) -> Ends {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    let mut parameters = shape.parameters();
    parameters.lifetimes = Lifetimes { soft, hard };
    if direction == Direction::Encrypt {
        ends.sender.remove_outbound(ends.out).expect("was there");
        ends.out = ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added");
    } else {
        ends.receiver.remove_inbound(ends.into).expect("was there");
        ends.into = ends.receiver.add_inbound(parameters, &shape.keys(), NOW).expect("added");
    }
    ends
}

#[test]
fn lives_end_by_packets_and_by_bytes_in_both_directions() {
    let packets = |count| Lifetime { packets: Some(count), ..Lifetime::default() };
    let bytes = |count| Lifetime { bytes: Some(count), ..Lifetime::default() };
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        for (soft, hard) in [(packets(3), packets(5)), (bytes(300), bytes(500))] {
            let mut ends = bounded(soft, hard, direction);
            let mut happened = Vec::new();
            for at in 0..8 {
                let sealed = ends.seal(&[Inner::V4.packet(100, at)]);
                let opened = ends.open(&sealed);
                let events = [ends.sender.take_events(), ends.receiver.take_events()].concat();
                happened.push((sealed.len(), opened.len(), events));
            }
            let id = if direction == Direction::Encrypt { ends.out } else { ends.into };
            let sent = |at: usize| usize::from(direction == Direction::Decrypt || at < 5);
            for (at, (sealed, opened, events)) in happened.into_iter().enumerate() {
                let expected = match at {
                    3 => vec![Event::Ending(id)],
                    5 => vec![Event::Over(id)],
                    _ => vec![],
                };
                assert_eq!((sealed, opened, events), (sent(at), usize::from(at < 5), expected), "{direction:?} {at}");
            }
            let counters =
                if direction == Direction::Encrypt { ends.sender.counters().0 } else { ends.receiver.counters().1 };
            assert_eq!(gained(&Counters::default(), counters), [("done", 5), ("expired", 3)]);
            assert_eq!(counters.bytes, 500, "within the tunnel");
            let usage = match direction {
                Direction::Encrypt => ends.sender.remove_outbound(id).expect("there").1,
                Direction::Decrypt => ends.receiver.remove_inbound(id).expect("there").1,
            };
            assert_eq!((usage.packets, usage.bytes, usage.last_used), (5, 500, Some(NOW)));
        }
    }
}

#[test]
fn time_ends_them_with_packets_and_without() {
    let after = |seconds| Lifetime { after: Some(Duration::from_secs(seconds)), ..Lifetime::default() };
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let mut ends = bounded(after(10), after(20), direction);
        let id = if direction == Direction::Encrypt { ends.out } else { ends.into };
        for (seconds, expected) in
            [(9, None), (10, Some(Event::Ending(id))), (15, None), (20, Some(Event::Over(id))), (21, None), (30, None)]
        {
            ends.sender.tick(NOW + Duration::from_secs(seconds));
            ends.receiver.tick(NOW + Duration::from_secs(seconds));
            let events = [ends.sender.take_events(), ends.receiver.take_events()].concat();
            assert_eq!(events, Vec::from_iter(expected), "{direction:?} {seconds}");
        }
    }
    let mut ends = bounded(after(10), after(20), Direction::Encrypt);
    for (seconds, leaves, expected) in [
        (9, 1, None),
        (12, 1, Some(Event::Ending(ends.out))),
        (19, 1, None),
        (20, 0, Some(Event::Over(ends.out))),
        (25, 0, None),
    ] {
        ends.burst.clear();
        assert!(ends.burst.push(&Inner::V4.packet(60, 0)));
        ends.sender.begin_outbound(&mut ends.burst, NOW + Duration::from_secs(seconds));
        ends.burst.crypt(&mut ends.session).expect("runs");
        ends.sender.commit_outbound(&mut ends.burst);
        assert_eq!(ends.burst.leaving().1.len(), leaves, "{seconds}");
        assert_eq!(ends.sender.take_events(), Vec::from_iter(expected), "{seconds}");
    }
}

#[test]
fn the_newest_association_sends_and_the_old_one_still_receives() {
    for name in NAMES {
        let shape = Shape::new(name);
        let mut ends = Ends::new(&shape);
        let packets: Vec<Vec<u8>> = (0..5).map(|at| Inner::V4.packet(80, at)).collect();
        let before = ends.seal(&packets);
        let mut parameters = shape.parameters();
        parameters.spi = 0x3333;
        let mut keys = shape.keys();
        keys.key[3] ^= 0x80;
        let new = ends.receiver.add_inbound(parameters.clone(), &keys, NOW).expect("added");
        let newest = ends.sender.add_outbound(parameters, &keys, NOW).expect("added");
        let after = ends.seal(&packets);
        assert!(after.iter().all(|packet| packet[20..24] == 0x3333u32.to_be_bytes()));
        // What was on its way with the old one comes late, mixed with the new one's.
        let mixed: Vec<&Vec<u8>> = after.iter().zip(&before).flat_map(|(new, old)| [new, old]).collect();
        assert_eq!(ends.opened(&mixed).1, [("done", 10)], "{name}");
        assert_eq!((ends.top(), ends.receiver.last_number(Direction::Decrypt, new)), (5, Some(5)));
        // When the newest goes, the one before is used again; without any, one is asked for.
        assert!(ends.sender.remove_outbound(newest).is_some());
        assert_eq!(ends.seal(&packets)[0][20..24], 0x1234_5678u32.to_be_bytes());
        assert!(ends.sender.remove_outbound(ends.out).is_some());
        assert!(ends.seal(&packets).is_empty());
        let events = ends.sender.take_events();
        assert!(
            matches!(events[..], [Event::Acquire { tunnel: TUNNEL, flow }]
            if flow.source_address().to_string() == "10.0.0.1" && flow.ports() == Some([12345, 12346])),
            "{events:?}"
        );
        // Once in five seconds, whichever packets want it.
        let asks = |ends: &mut Ends, after_ms: u64, at: u8| {
            ends.seal_at(&[Inner::V4.packet(60, at)], NOW + Duration::from_millis(after_ms));
            ends.sender.take_events().len()
        };
        assert_eq!([asks(&mut ends, 1, 7), asks(&mut ends, 4999, 8), asks(&mut ends, 5000, 9)], [0, 0, 1]);
        assert_eq!(gained(&Counters::default(), ends.sender.counters().0), [("done", 15), ("no_association", 8)]);
    }
}

#[test]
fn an_association_that_leads_sends_until_it_is_gone_and_a_retired_one_only_what_it_has_numbered() {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    let spi_of = |ends: &mut Ends| {
        let sealed = ends.seal(&[Inner::V4.packet(60, 0)]);
        sealed.first().map(|packet| u32::from_be_bytes(packet[20..24].try_into().expect("four bytes")))
    };
    let first = shape.parameters().spi;
    let mut parameters = shape.parameters();
    parameters.spi = 0x2222;
    ends.sender.lead_outbound(TUNNEL, Some(first));
    let newer = ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added");
    assert_eq!(spi_of(&mut ends), Some(first), "the other end may not have the newer one");
    ends.sender.lead_outbound(TUNNEL, Some(0x2222));
    assert_eq!(spi_of(&mut ends), Some(0x2222));
    ends.sender.lead_outbound(TUNNEL, Some(first));
    ends.burst.clear();
    assert!(ends.burst.push(&Inner::V4.packet(60, 0)));
    ends.sender.begin_outbound(&mut ends.burst, NOW);
    ends.sender.retire_outbound(ends.out);
    ends.burst.crypt(&mut ends.session).expect("runs");
    ends.sender.commit_outbound(&mut ends.burst);
    assert_eq!(ends.burst.leaving().1.len(), 1, "what had its number leaves");
    assert_eq!(spi_of(&mut ends), Some(0x2222), "the leader is gone");
    assert!(ends.sender.remove_outbound(ends.out).is_some());
    ends.sender.retire_outbound(newer);
    assert_eq!(spi_of(&mut ends), None);
    assert!(ends.sender.remove_outbound(newer).is_some());
}
