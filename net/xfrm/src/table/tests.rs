//! The table's own rules: what is refused, what takes whose place, what ends by itself.

use super::*;
use crate::association::{Encapsulation, ExtraFlags, Flags, KeyBytes, Mode, Replay};
use crate::policy::{Action, Direction, Template};
use crate::selector::{Port, Prefix};

const START: u64 = 1_700_000_000;

fn table() -> Table {
    Table { now: START, ..Table::default() }
}

fn all() -> Selector {
    Selector { any_family: false, ..Selector::ALL }
}

fn association(spi: u32) -> SecurityAssociation {
    let key = KeyBytes::new(&[7; 20]);
    SecurityAssociation {
        id: AssociationId { destination: [10, 0, 0, 2].into(), spi, protocol: 50 },
        source: [10, 0, 0, 1].into(),
        mode: Mode::Tunnel,
        reqid: 1,
        acquire: 0,
        algorithms: Some(Algorithms::Aead { name: "rfc4106(gcm(aes))".to_owned(), key, icv_bits: 128 }),
        replay: Replay { window: 32, ..Replay::default() },
        encapsulation: None,
        lifetimes: Lifetimes::NONE,
        flags: Flags::default(),
        extra_flags: ExtraFlags::default(),
        selector: all(),
        mark: None,
        output_mark: None,
        if_id: 0,
        tfc_padding: 0,
        direction: None,
        nat_keepalive_seconds: 0,
    }
}

fn request(min: u32, max: u32) -> SpiRequest {
    SpiRequest { association: SecurityAssociation { algorithms: None, ..association(0) }, min, max }
}

fn errno<T>(outcome: Result<T, Refusal>) -> Option<Errno> {
    outcome.err().map(|refusal| refusal.errno)
}

fn key(spi: u32) -> AssociationKey {
    association(spi).id.into()
}

#[test]
fn an_association_is_added_once_and_ends_once() {
    let mut table = table();
    assert_eq!(errno(table.query(&key(5))), Some(Errno::SRCH));
    assert_eq!(table.add(association(5)).map(|state| state.counters.added), Ok(START));
    assert_eq!(errno(table.add(association(5))), Some(Errno::EXIST));
    let other = SecurityAssociation {
        id: AssociationId { destination: [10, 0, 0, 3].into(), ..association(5).id },
        ..association(5)
    };
    assert!(table.add(other).is_ok(), "the same SPI of another destination");
    assert_eq!(table.delete(&key(5)).map(|state| state.association), Ok(association(5)));
    assert_eq!(errno(table.delete(&key(5))), Some(Errno::SRCH));
    assert_eq!(table.counts().associations, 1);
    assert!(table.add(association(5)).is_ok(), "its SPI is free again");
}

#[test]
fn marks_tell_associations_apart() {
    let mut table = table();
    let marked = |value| SecurityAssociation { mark: Some(Mark { value, mask: 0xff }), ..association(5) };
    assert!(table.add(marked(1)).is_ok());
    assert!(table.add(marked(2)).is_ok());
    assert_eq!(errno(table.add(marked(2))), Some(Errno::EXIST));
    assert_eq!(errno(table.query(&key(5))), Some(Errno::SRCH), "without a mark neither is found");
    let found = table.query(&AssociationKey { mark: Mark { value: 0x102, mask: u32::MAX }, ..key(5) });
    assert_eq!(found.map(|state| state.association.mark), Ok(Some(Mark { value: 2, mask: 0xff })));
}

#[test]
fn unknown_algorithms_and_wrong_keys_are_refused() {
    let mut table = table();
    let with = |name: &str, len: usize| SecurityAssociation {
        algorithms: Some(Algorithms::Aead { name: name.to_owned(), key: KeyBytes::new(&vec![0; len]), icv_bits: 128 }),
        ..association(5)
    };
    assert_eq!(errno(table.add(with("rfc4106(gcm(magic))", 20))), Some(Errno::NOSYS));
    assert_eq!(errno(table.add(with("rfc4106(gcm(aes))", 19))), Some(Errno::INVAL));
    assert_eq!(table.counts().associations, 0);
}

#[test]
fn a_larval_association_is_replaced_by_an_update_alone() {
    let mut table = table();
    let larval = table.allocate_spi(request(0x100, 0x100)).expect("an SPI");
    assert_eq!((larval.association.id.spi, &larval.association.algorithms), (0x100, &None));
    assert_eq!(errno(table.add(association(0x100))), Some(Errno::EXIST));
    assert_eq!(errno(table.update(association(0x101))), Some(Errno::SRCH));
    assert_eq!(table.update(association(0x100)).map(|state| state.association), Ok(association(0x100)));
    // Once it is whole, an update changes neither keys nor replay service.
    let mut newer = association(0x100);
    newer.algorithms =
        Some(Algorithms::Aead { name: "rfc4106(gcm(aes))".to_owned(), key: KeyBytes::new(&[8; 20]), icv_bits: 128 });
    newer.lifetimes.packets = Limit { soft: 1, hard: 2 };
    newer.replay.window = 64;
    let updated = table.update(newer.clone()).expect("updated").association;
    assert_eq!(updated, SecurityAssociation { lifetimes: newer.lifetimes, ..association(0x100) });
}

#[test]
fn spis_are_unused_ones_of_the_range() {
    let mut table = table();
    assert!(table.add(association(0x102)).is_ok());
    let mut given = (0..4)
        .map(|_| table.allocate_spi(request(0x100, 0x104)).expect("an SPI").association.id.spi)
        .collect::<Vec<_>>();
    given.sort_unstable();
    assert_eq!(given, [0x100, 0x101, 0x103, 0x104]);
    assert_eq!(errno(table.allocate_spi(request(0x100, 0x104))), Some(Errno::NOENT));
    assert_eq!(errno(table.allocate_spi(request(0, 0))), Some(Errno::NOENT), "0 is no SPI");
    // One that nobody came for goes by itself, and its number with it.
    table.set_time(START + LARVAL_SECONDS - 1);
    assert_eq!(table.counts().associations, 5);
    table.set_time(START + LARVAL_SECONDS);
    assert_eq!(table.counts().associations, 1);
    let events = table.take_events();
    assert!(events.iter().all(|event| matches!(event, Event::Expire { hard: true, .. })) && events.len() == 4);
    assert!(table.allocate_spi(request(0x100, 0x104)).is_ok());
}

fn expiries(table: &mut Table) -> Vec<bool> {
    let events = table.take_events().into_iter();
    events.map(|event| matches!(event, Event::Expire { hard: true, .. })).collect()
}

#[test]
fn limits_are_told_of_once_softly_and_end_hard() {
    let mut table = table();
    let mut limited = association(1);
    limited.lifetimes.add_seconds = Limit { soft: 10, hard: 20 };
    limited.lifetimes.packets = Limit { soft: 100, hard: 200 };
    assert!(table.add(limited.clone()).is_ok());
    table.set_time(START + 9);
    assert_eq!(table.count(&key(1), 99, 9900), Ok(()));
    assert_eq!(expiries(&mut table), []);
    assert_eq!(table.count(&key(1), 1, 100), Ok(()));
    assert_eq!(expiries(&mut table), [false]);
    table.set_time(START + 15);
    assert_eq!(expiries(&mut table), [], "it was told of");
    let state = table.query(&key(1)).expect("there");
    assert_eq!((state.counters.packets, state.counters.bytes), (100, 10_000));
    assert_eq!((state.counters.used, state.last_used), (START + 9, Some(START + 9)));
    table.set_time(START + 20);
    assert_eq!(expiries(&mut table), [true]);
    assert_eq!(errno(table.query(&key(1))), Some(Errno::SRCH));
    assert!(table.add(limited).is_ok());
    assert_eq!(table.count(&key(1), 200, 0), Ok(()));
    assert_eq!(expiries(&mut table), [true]);
}

#[test]
fn listings_go_on_where_they_were() {
    let mut table = table();
    (1..=5).for_each(|spi| assert!(table.add(association(spi)).is_ok()));
    let first = table.list(&ListFilter::default(), 0, 2);
    assert_eq!(first.iter().map(|(_, state)| state.association.id.spi).collect::<Vec<_>>(), [1, 2]);
    assert!(table.delete(&key(2)).is_ok() && table.delete(&key(3)).is_ok());
    let rest = table.list(&ListFilter::default(), first.last().expect("two").0, 9);
    assert_eq!(rest.iter().map(|(_, state)| state.association.id.spi).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(table.flush(51), 0);
    assert_eq!(table.flush(50), 3);
    assert!(table.add(association(1)).is_ok());
}

#[test]
fn a_replay_service_is_set() {
    let mut table = table();
    assert!(table.add(association(1)).is_ok());
    let update = |window| ReplayUpdate {
        key: key(1),
        replay: Some(Replay { window, sent: 5, received: 9, bitmap: vec![0x11] }),
        counters: None,
    };
    assert_eq!(errno(table.set_replay(update(64))), Some(Errno::INVAL));
    let replay = table.set_replay(update(0)).map(|state| state.association.replay);
    assert_eq!(replay, Ok(Replay { window: 32, sent: 5, received: 9, bitmap: vec![0x11] }));
    let larval = table.allocate_spi(request(7, 7)).expect("an SPI").association.id;
    assert_eq!(errno(table.set_replay(ReplayUpdate { key: larval.into(), ..update(0) })), Some(Errno::INVAL));
}

fn policy(third: u8, priority: u32) -> Policy {
    let template = Template {
        destination: [10, 0, 0, 2].into(),
        source: [10, 0, 0, 1].into(),
        spi: 0,
        protocol: 50,
        reqid: 1,
        mode: Mode::Tunnel,
        share: 0,
        optional: false,
        integrity: u32::MAX,
        encryption: u32::MAX,
        compression: u32::MAX,
    };
    Policy {
        selector: Selector { destination: Prefix { address: [10, 0, third, 0].into(), len: 24 }, ..all() },
        direction: Direction::Out,
        kind: 0,
        action: Action::Allow,
        priority,
        index: 0,
        flags: 0,
        share: 0,
        lifetimes: Lifetimes::NONE,
        templates: vec![template],
        mark: None,
        if_id: 0,
    }
}

#[test]
fn policies_are_told_apart_by_selectors_and_found_by_indices() {
    let mut table = table();
    let first = table.add_policy(policy(1, 10)).expect("added").policy;
    assert_eq!(first.index & 7, Direction::Out as u32);
    assert_eq!(errno(table.add_policy(policy(1, 20))), Some(Errno::EXIST));
    let updated = table.update_policy(policy(1, 20)).expect("updated").policy;
    assert_eq!((updated.index, updated.priority), (first.index, 20));
    let named = |index, third| PolicyKey {
        direction: Direction::Out,
        kind: 0,
        index,
        selector: policy(third, 0).selector,
        mark: Mark::default(),
        if_id: 0,
    };
    assert_eq!(table.query_policy(&named(first.index, 99)).map(|state| state.policy.priority), Ok(20));
    assert_eq!(errno(table.query_policy(&named(first.index + 8, 1))), Some(Errno::NOENT));
    assert_eq!(table.counts().policies, [0, 1, 0]);
    assert!(table.delete_policy(&named(0, 1)).is_ok());
    assert_eq!(errno(table.delete_policy(&named(0, 1))), Some(Errno::NOENT));
}

#[test]
fn packets_ask_for_associations_where_a_policy_protects_them() {
    let mut table = table();
    let packet = Selector {
        destination: Prefix { address: [10, 0, 1, 9].into(), len: 32 },
        destination_port: Port { number: 80, mask: 0xffff },
        ..all()
    };
    assert!(!table.acquire(&policy(1, 10).key(), packet), "no policy");
    assert!(table.add_policy(policy(1, 10)).is_ok());
    assert!(!table.acquire(&policy(2, 10).key(), packet), "another one");
    assert!(table.acquire(&policy(1, 10).key(), packet));
    let [Event::Acquire(acquire)] = &table.take_events()[..] else { panic!("one acquire") };
    assert_eq!((acquire.number, acquire.packet), (1, packet));
    assert_eq!(acquire.destination.to_string(), "10.0.0.2");
    let passes = Policy { templates: Vec::new(), ..policy(3, 1) };
    assert!(table.add_policy(passes.clone()).is_ok());
    assert!(!table.acquire(&passes.key(), packet), "nothing is asked for without a template");
}

#[test]
fn an_association_whose_packets_have_ended_is_over_at_once() {
    let mut table = table();
    let id = table.add(association(1)).expect("added").association.id;
    table.end(&id.into());
    let [Event::Expire { state, hard: true }] = &table.take_events()[..] else { panic!("one hard limit") };
    assert_eq!(state.association.id, id);
    assert_eq!(errno(table.query(&id.into())), Some(Errno::SRCH));
    table.end(&id.into());
    assert!(table.take_events().is_empty(), "told once");
}

#[test]
fn an_association_whose_packets_have_moved_is_told_with_both_places() {
    let mut table = table();
    let ports = Encapsulation { source_port: 4500, destination_port: 4500, original_address: None };
    let added = table.add(SecurityAssociation { encapsulation: Some(ports), ..association(1) });
    let id = added.expect("added").association.id;
    let (old, new) = (([10, 0, 0, 1].into(), 4500), ([10, 0, 0, 9].into(), 4501));
    table.moved(&id.into(), new);
    assert_eq!(table.take_events(), [Event::Mapping(Mapping { id, reqid: 1, old, new })]);
    table.end(&id.into());
    assert_eq!(table.take_events().len(), 1, "it has ended");
    table.moved(&id.into(), new);
    assert!(table.take_events().is_empty(), "nothing of one that is not there");
}
