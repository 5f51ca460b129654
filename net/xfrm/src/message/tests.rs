//! What a kernel says, written and read again.

use super::*;
use crate::association::{AssociationId, Lifetimes, Mode};
use crate::bytes::Writer;
use crate::constants::*;
use crate::policy::{Action, Direction, Policy, PolicyState, Template};
use crate::selector::{Prefix, Selector};
use rustix::io::Errno;

fn read(written: Writer) -> (Header, Reply) {
    let bytes = written.into_bytes();
    let (header, body) = messages(&bytes).next().expect("a message").expect("a whole one");
    (header, parse_reply(&header, body).expect("a reply"))
}

fn event(event: &Event) -> (u32, Reply) {
    let mut to = Writer::new();
    let group = write_event(&mut to, event);
    (group, read(to).1)
}

#[test]
fn a_mapping_comes_back() {
    let mapping = Event::Mapping(Mapping {
        id: AssociationId { destination: "2001:db8::1".parse().expect("an address"), spi: 9, protocol: 50 },
        reqid: 3,
        old: ("2001:db8::2".parse().expect("an address"), 4500),
        new: ("2001:db8::3".parse().expect("an address"), 61234),
    });
    assert_eq!(event(&mapping), (XFRMNLGRP_MAPPING, Reply::Event(mapping)));
}

#[test]
fn an_acquire_of_packets_of_one_family_through_a_tunnel_of_the_other_comes_back() {
    let (source, destination) =
        ("2001:db8::1".parse().expect("an address"), "2001:db8::2".parse().expect("an address"));
    let template = Template {
        destination,
        source,
        spi: 0,
        protocol: 50,
        reqid: 4,
        mode: Mode::Tunnel,
        share: 0,
        optional: false,
        integrity: 1,
        encryption: 2,
        compression: 3,
    };
    let packet = Selector {
        any_family: false,
        source: Prefix { address: [10, 0, 0, 1].into(), len: 32 },
        destination: Prefix { address: [10, 0, 0, 2].into(), len: 32 },
        protocol: 17,
        ..Selector::ALL
    };
    let policy = Policy {
        selector: Selector { any_family: false, ..Selector::ALL },
        direction: Direction::Out,
        kind: 0,
        action: Action::Allow,
        priority: 1,
        index: 9,
        flags: 0,
        share: 0,
        lifetimes: Lifetimes::NONE,
        templates: vec![template],
        mark: None,
        if_id: 5,
    };
    let policy = PolicyState { policy, counters: crate::Counters::default() };
    let acquire = Event::Acquire(Box::new(Acquire { number: 77, source, destination, packet, policy }));
    assert_eq!(event(&acquire), (XFRMNLGRP_ACQUIRE, Reply::Event(acquire)));
}

#[test]
fn an_error_has_the_request_s_header_and_words_where_they_are_wanted() {
    let request = Header { kind: XFRM_MSG_NEWSA, flags: NLM_F_REQUEST | NLM_F_ACK, sequence: 99, port: 0 };
    for words in [false, true] {
        let mut to = Writer::new();
        write_ack(&mut to, &request, 1234, Err(Refusal::new(Errno::EXIST, "it is there")), words);
        assert_eq!(to.len(), HEADER_LEN + 4 + HEADER_LEN + if words { 16 } else { 0 });
        let (header, reply) = read(to);
        assert_eq!((header.sequence, header.port, reply), (99, 1234, Reply::Outcome(Err(Errno::EXIST))));
        assert_eq!(header.flags & NLM_F_ACK_TLVS != 0, words);
    }
    let mut to = Writer::new();
    write_ack(&mut to, &request, 1234, Ok(()), true);
    assert_eq!(read(to).1, Reply::Outcome(Ok(())));
}

#[test]
fn an_error_with_a_number_that_has_no_negative_is_refused() {
    let header = Header { kind: NLMSG_ERROR, flags: 0, sequence: 0, port: 0 };
    assert!(parse_reply(&header, &i32::MIN.to_ne_bytes()).is_err());
}
