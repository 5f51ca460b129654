//! What callers may get wrong, and what must not come of it.

use ciphermill_contract::Direction;
use ciphermill_esp::{Burst, Drop, Event, Lifetime, Lifetimes};

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
fn numbers_of_32_bits_do_not_go_on_behind_their_end() {
    let mut ends = Ends::new(&Shape { last: 1 << 32, ..Shape::new("aes-128-gcm") });
    assert!(ends.seal(&[Inner::V4.packet(60, 1)]).is_empty());
    assert_eq!(ends.sender.counters().0.dropped(Drop::SequenceOverflow), 1);
}
