//! What callers may get wrong, and what must not come of it.

use std::sync::Arc;

use ciphermill::{Mill, SelfTest};
use ciphermill_contract::{Direction, Engine};
use ciphermill_esp::{
    Action, AddError, Burst, Drop, Event, Lifetime, Lifetimes, Parameters, Policy, Prefix, Selector, Sequence, Tunnels,
};
use ciphermill_reference::Reference;

use crate::ends::{Ends, Inner, NOW, Shape, hopped};

#[test]
fn no_name_means_an_association_of_either_direction() {
    let shape = Shape::new("aes-128-gcm");
    let mut ends = Ends::new(&shape);
    let packets = Some(0);
    let hard = Lifetime { packets, ..Lifetime::default() };
    let mut parameters = shape.parameters();
    (parameters.spi, parameters.lifetimes) = (0x4444, Lifetimes { hard, ..Lifetimes::default() });
    // Both of one tunnel's end: the first of each kind that it has.
    let into = ends.sender.add_inbound(parameters.clone(), &shape.keys(), NOW).expect("added");
    assert_ne!(into, ends.out);
    assert_eq!((ends.out.direction(), into.direction()), (Direction::Encrypt, Direction::Decrypt));
    assert!(ends.sender.remove_outbound(into).is_none(), "another direction's name");
    assert!(ends.sender.remove_inbound(ends.out).is_none(), "another direction's name");
    let out = ends.sender.add_outbound(parameters, &shape.keys(), NOW).expect("added");
    assert!(ends.seal(&[Inner::V4.packet(60, 0)]).is_empty());
    assert_eq!(ends.sender.take_events(), [Event::Over(out)]);
    assert_eq!(ends.sender.inbound_of(0x4444), Some(into));
    assert!(ends.sender.remove_inbound(into).is_some());
}

#[test]
fn a_burst_goes_through_tunnels_of_other_transforms() {
    // A burst remembers columns by their number; with another worker's tunnels the numbers mean other transforms.
    let mut first = Ends::new(&Shape::new("null+hmac-sha1-96"));
    let mut second = Ends::new(&Shape::new("aes-128-gcm"));
    let packet = Inner::V4.packet(100, 5);
    assert_eq!(first.seal(&[&packet]).len(), 1);
    core::mem::swap(&mut first.burst, &mut second.burst);
    let sealed = second.seal(&[&packet]);
    assert_eq!(sealed.len(), 1);
    assert!(!sealed[0].windows(20).any(|window| window == &packet[packet.len() - 20..]), "nothing is sent in clear");
    assert_eq!(second.open(&sealed), [hopped(&packet, 2)]);
}

#[test]
fn a_burst_without_room_for_padding_loses_the_packet_and_spoils_no_other() {
    let mut ends = Ends::new(&Shape { pad_to: 1400, ..Shape::new("aes-128-gcm") });
    ends.burst = Burst::new(16, 1 << 16, 0);
    let packets = [Inner::V4.packet(60, 1), Inner::V4.packet(1390, 2), Inner::V4.packet(60, 3)];
    let sealed = ends.seal(&packets);
    assert_eq!(ends.open(&sealed), [hopped(&packets[1], 2)]);
    assert_eq!(ends.sender.counters().0.dropped(Drop::NoRoom), 2);
    assert_eq!(ends.sender.last_number(Direction::Encrypt, ends.out), Some(1), "no number is lost with them");
}

#[test]
fn extended_numbers_want_a_window_where_packets_come() {
    let shape = Shape { sequence: Sequence::Extended, ..Shape::new("aes-128-gcm") };
    let mut ends = Ends::new(&shape);
    let parameters = Parameters { spi: 4711, replay_window: 0, ..shape.parameters() };
    let added = ends.receiver.add_inbound(parameters.clone(), &shape.keys(), NOW);
    assert_eq!(added, Err(AddError::ExtendedWithoutWindow));
    assert!(ends.sender.add_outbound(parameters, &shape.keys(), NOW).is_ok());
}

#[test]
fn numbers_of_32_bits_do_not_go_on_behind_their_end() {
    let mut ends = Ends::new(&Shape { last: 1 << 32, ..Shape::new("aes-128-gcm") });
    assert!(ends.seal(&[Inner::V4.packet(60, 1)]).is_empty());
    assert_eq!(ends.sender.counters().0.dropped(Drop::SequenceOverflow), 1);
}

#[test]
fn a_burst_that_was_not_run_loses_its_packets() {
    let mut ends = Ends::new(&Shape::new("null+hmac-sha1-96"));
    // The headers of a first burst are left for when it is run; behind a burst of one packet they are written at once.
    for lost in 1..=2 {
        ends.burst.clear();
        assert!(ends.burst.push(&Inner::V4.packet(60, 1)));
        ends.sender.begin_outbound(&mut ends.burst, NOW);
        ends.sender.commit_outbound(&mut ends.burst);
        assert_eq!((ends.burst.leaving().1.len(), ends.sender.counters().0.dropped(Drop::Engine)), (0, lost));
    }
    let sealed = ends.seal(&[Inner::V4.packet(60, 1)]);
    ends.burst.clear();
    assert!(ends.burst.push(&sealed[0]));
    ends.receiver.begin_inbound(&mut ends.burst, NOW);
    ends.receiver.commit_inbound(&mut ends.burst);
    assert_eq!((ends.burst.leaving().1.len(), ends.receiver.counters().1.dropped(Drop::Engine)), (0, 1));
    assert_eq!(ends.opened(&sealed).1, [("done", 1)], "nobody has looked at it yet");
}

#[test]
fn a_mill_without_legacy_suites_sends_nothing_by_one() {
    let shape = Shape::new("3des-cbc+hmac-sha1-96");
    let engines = [Arc::new(Reference::new()) as Arc<dyn Engine>];
    let mill = Mill::builder().engines(engines).self_test(SelfTest::Never).open().expect("opens");
    let mut tunnels = Tunnels::new(&mill);
    let id = tunnels.add_outbound(shape.parameters(), &shape.keys(), NOW).expect("keys are taken");
    let mut burst = Burst::new(4, 1 << 16, 0);
    assert!(burst.push_dummy(id, 50));
    tunnels.begin_outbound(&mut burst, NOW);
    let error = burst.crypt(&mut mill.session()).expect_err("the mill's policy");
    assert_eq!(error.transform, shape.transform);
    tunnels.commit_outbound(&mut burst);
    assert_eq!((burst.leaving().1.len(), tunnels.counters().0.dropped(Drop::Engine)), (0, 1));
}

#[test]
fn events_that_nobody_fetches_are_counted_and_do_not_grow() {
    let mut ends = Ends::new(&Shape::new("aes-128-gcm"));
    let host = |at: u16| Prefix::host([10, 9, (at >> 8) as u8, at as u8].into());
    let policy = |at: u16| {
        let selector = Selector::between(Prefix::host([10, 0, 0, 1].into()), host(at)).expect("one family");
        (Direction::Encrypt, Policy { selector, action: Action::Protect(1000 + u32::from(at)), priority: 1 })
    };
    ends.sender.set_policies((0..5000).map(policy)).expect("room");
    for burst in 0..25 {
        let packet = |at: u16| {
            let mut packet = Inner::V4.packet(60, 1);
            packet[16..20].copy_from_slice(&[10, 9, (at >> 8) as u8, at as u8]);
            packet
        };
        let packets: Vec<Vec<u8>> = (0..200).map(|at| packet(200 * burst + at)).collect();
        assert!(ends.seal(&packets).is_empty());
    }
    let (kept, lost) = (ends.sender.take_events().len() as u64, ends.sender.counters().0.events_lost);
    assert_eq!((kept, lost), (4096, 904), "each of another tunnel");
    assert_eq!(ends.sender.counters().0.dropped(Drop::NoAssociation), 5000);
}
