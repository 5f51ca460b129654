//! What callers may get wrong, and what must not come of it.

use ciphermill_contract::Direction;
use ciphermill_esp::{Event, Lifetime, Lifetimes};

use crate::ends::{Ends, Inner, NOW, Shape};

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
