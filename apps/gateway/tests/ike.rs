//! What an IKE daemon says becomes the gateway's associations and policies, and what went through them is told back.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ciphermill::{Mill, SelfTest};
use ciphermill_contract::{Direction, Engine};
use ciphermill_esp::{Burst, Tunnels};
use ciphermill_gateway::ike::Keys;
use ciphermill_reference::Reference;
use ciphermill_xfrm::{
    self as xfrm, Action, Algorithms, AssociationId, AssociationKey, Encryption, Errno, Event, ExtraFlags, Flags,
    Integrity, Kernel, KeyBytes, Lifetimes, Limit, Mark, Mode, Policy, PolicyKey, Port, Prefix, Replay,
    SecurityAssociation, Selector, Template,
};

const WEST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
const EAST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
const REQID: u32 = 3;

/// A gateway's end: its tunnels and the kernel that the daemon sees.
struct End {
    mill: Mill,
    tunnels: Arc<Mutex<Tunnels>>,
    keys: Keys,
    heard: Arc<Mutex<Vec<ciphermill_esp::Event>>>,
}

impl End {
    /// What the daemon hears of what has happened to packets.
    fn events(&mut self) -> Vec<Event> {
        let events = self.tunnels.lock().expect("no panic").take_events();
        self.heard.lock().expect("no panic").extend(events);
        self.keys.take_events()
    }
}

fn end(local: IpAddr) -> End {
    let engines = [Arc::new(Reference::new()) as Arc<dyn Engine>];
    let mill = Mill::builder().engines(engines).legacy(true).self_test(SelfTest::Never).open().expect("opens");
    let tunnels = Arc::new(Mutex::new(Tunnels::new(&mill)));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let keys = Keys::new(Arc::clone(&tunnels), Instant::now(), vec![local], 1500, Arc::clone(&heard));
    End { mill, tunnels, keys, heard }
}

fn network(third: u8) -> Prefix {
    Prefix { address: Ipv4Addr::new(10, 0, third, 0).into(), len: 24 }
}

fn selector(source: Prefix, destination: Prefix) -> Selector {
    Selector {
        any_family: false,
        source,
        destination,
        protocol: 0,
        source_port: Port::default(),
        destination_port: Port::default(),
        interface: 0,
        user: 0,
    }
}

fn gcm(len: usize) -> Algorithms {
    Algorithms::Aead { name: "rfc4106(gcm(aes))".to_owned(), key: KeyBytes::new(&vec![7; len]), icv_bits: 128 }
}

fn association(spi: u32, source: IpAddr, destination: IpAddr, algorithms: Algorithms) -> SecurityAssociation {
    SecurityAssociation {
        id: AssociationId { destination, spi, protocol: 50 },
        source,
        mode: Mode::Tunnel,
        reqid: REQID,
        acquire: 0,
        algorithms: Some(algorithms),
        replay: Replay { window: 32, ..Replay::default() },
        encapsulation: None,
        lifetimes: Lifetimes::NONE,
        flags: Flags::default(),
        extra_flags: ExtraFlags::default(),
        selector: selector(Prefix::ALL, Prefix::ALL),
        mark: None,
        output_mark: None,
        if_id: 0,
        tfc_padding: 0,
        direction: None,
        nat_keepalive_seconds: 0,
    }
}

fn policy(direction: xfrm::Direction, source: u8, destination: u8, priority: u32) -> Policy {
    let template = Template {
        destination: EAST,
        source: WEST,
        spi: 0,
        protocol: 50,
        reqid: REQID,
        mode: Mode::Tunnel,
        share: 0,
        optional: false,
        integrity: u32::MAX,
        encryption: u32::MAX,
        compression: u32::MAX,
    };
    Policy {
        selector: selector(network(source), network(destination)),
        direction,
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

fn key(association: &SecurityAssociation) -> AssociationKey {
    AssociationKey { id: association.id, mark: Mark::default() }
}

/// A packet from the first network to the second.
fn packet() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 1, 9, 10, 0, 2, 9];
    let sum: u32 = packet.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
    packet[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    packet.extend([5; 20]);
    packet
}

/// What leaves an end for the outside, or what comes in.
fn pass(end: &End, way: Direction, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (mut burst, mut session) = (Burst::new(64, 1 << 18, 0), end.mill.session());
    assert!(packets.iter().all(|packet| burst.push(packet)));
    let mut tunnels = end.tunnels.lock().expect("no panic");
    match way {
        Direction::Encrypt => tunnels.begin_outbound(&mut burst, Duration::from_secs(1)),
        Direction::Decrypt => tunnels.begin_inbound(&mut burst, Duration::from_secs(1)),
    }
    burst.crypt(&mut session).expect("runs");
    match way {
        Direction::Encrypt => tunnels.commit_outbound(&mut burst),
        Direction::Decrypt => tunnels.commit_inbound(&mut burst),
    }
    let (data, spans) = burst.leaving();
    spans.iter().map(|[start, end]| data[*start as usize..*end as usize].to_vec()).collect()
}

#[test]
fn packets_pass_between_ends_whose_daemons_have_agreed_and_are_counted() {
    let (mut west, mut east) = (end(WEST), end(EAST));
    let agreed = association(0xc001, WEST, EAST, gcm(20));
    west.keys.add(agreed.clone()).expect("added");
    east.keys.add(agreed.clone()).expect("added");
    west.keys.add_policy(policy(xfrm::Direction::Out, 1, 2, 100)).expect("added");
    east.keys.add_policy(policy(xfrm::Direction::Forward, 1, 2, 100)).expect("added");
    let sealed = pass(&west, Direction::Encrypt, &[packet(), packet(), packet()]);
    assert_eq!(sealed.len(), 3);
    assert_eq!(pass(&east, Direction::Decrypt, &sealed).len(), 3);
    for (end, is_sent) in [(&mut west, true), (&mut east, false)] {
        let state = end.keys.query(&key(&agreed)).expect("there");
        assert_eq!((state.counters.packets, state.counters.bytes), (3, 120));
        let replay = &state.association.replay;
        assert_eq!(if is_sent { replay.sent } else { replay.received }, 3);
    }
    assert_eq!(west.keys.delete(&key(&agreed)).expect("there").counters.packets, 3);
    assert!(pass(&west, Direction::Encrypt, &[packet()]).is_empty());
}

#[test]
fn a_policy_that_is_updated_is_never_missing() {
    let mut west = end(WEST);
    west.keys.add_policy(policy(xfrm::Direction::Out, 1, 2, 100)).expect("added");
    let (tunnels, updates) = (Arc::clone(&west.tunnels), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let (mut looks, begun) = (0, Instant::now());
            // Whoever looks may have the lock for long, again and again.
            while looks < 20_000 || updates.load(Ordering::Relaxed) < 100 {
                assert!(begun.elapsed() < Duration::from_secs(60), "it is updated all the time");
                assert_eq!(tunnels.lock().expect("no panic").policy_count(Direction::Encrypt), 1);
                looks += 1;
            }
        });
        while !watch.is_finished() {
            // The same again, and now and then another priority.
            let priority = 100 + updates.fetch_add(1, Ordering::Relaxed) / 100;
            west.keys.update_policy(policy(xfrm::Direction::Out, 1, 2, priority)).expect("updated");
        }
        watch.join().expect("never missing");
    });
    let last = policy(xfrm::Direction::Out, 1, 2, 0);
    let named = PolicyKey {
        direction: last.direction,
        kind: 0,
        index: 0,
        selector: last.selector,
        mark: Mark::default(),
        if_id: 0,
    };
    west.keys.delete_policy(&named).expect("there");
    assert_eq!(west.tunnels.lock().expect("no panic").policy_count(Direction::Encrypt), 0);
}

#[test]
fn every_transform_of_daemons_is_known_and_others_are_refused_by_number() {
    let separate = |cipher: &str, cipher_len: usize, mac: &str, mac_len: usize, icv_bits: u32| Algorithms::Separate {
        encryption: Encryption { name: cipher.to_owned(), key: KeyBytes::new(&vec![1; cipher_len]) },
        integrity: Some(Integrity { name: mac.to_owned(), key: KeyBytes::new(&vec![2; mac_len]), icv_bits }),
    };
    let aead = |name: &str, len: usize, icv_bits: u32| Algorithms::Aead {
        name: name.to_owned(),
        key: KeyBytes::new(&vec![3; len]),
        icv_bits,
    };
    let mut west = end(WEST);
    let known = [
        aead("rfc4106(gcm(aes))", 36, 128),
        aead("rfc4106(gcm(aes))", 20, 64),
        aead("rfc4309(ccm(aes))", 19, 96),
        aead("rfc7539esp(chacha20,poly1305)", 36, 128),
        aead("rfc4543(gcm(aes))", 28, 128),
        separate("cbc(aes)", 16, "hmac(sha1)", 20, 96),
        separate("cbc(aes)", 32, "hmac(sha512)", 64, 256),
        separate("cbc(des3_ede)", 24, "hmac(sha1)", 20, 96),
        separate("ecb(cipher_null)", 0, "hmac(sha256)", 32, 128),
    ];
    for (spi, algorithms) in (0xd000..).zip(known) {
        let shown = format!("{algorithms:?}");
        let added = west.keys.add(association(spi, WEST, EAST, algorithms));
        assert!(added.is_ok(), "{shown}: {:?}", added.err());
    }
    let refused = |west: &mut End, association: SecurityAssociation| {
        west.keys.add(association).map(drop).map_err(|refusal| refusal.errno)
    };
    // RFC 4868 has 128 bits of SHA-256, whatever the kernel's default is.
    let short = association(0xe001, WEST, EAST, separate("cbc(aes)", 16, "hmac(sha256)", 32, 96));
    assert_eq!(refused(&mut west, short), Err(Errno::NOSYS));
    let transport = SecurityAssociation { mode: Mode::Transport, ..association(0xe002, WEST, EAST, gcm(20)) };
    assert_eq!(refused(&mut west, transport.clone()), Err(Errno::INVAL));
    assert!(west.keys.query(&key(&transport)).is_err(), "nothing of it stays");
    assert_eq!(refused(&mut west, association(0xd000, WEST, EAST, gcm(20))), Err(Errno::EXIST));
}

#[test]
fn a_bound_that_packets_meet_is_an_event_and_the_association_ends_with_the_hard_one() {
    let mut west = end(WEST);
    let bound = Lifetimes { packets: Limit { soft: 2, hard: 5 }, ..Lifetimes::NONE };
    let agreed = SecurityAssociation { lifetimes: bound, ..association(0xc002, WEST, EAST, gcm(20)) };
    west.keys.add(agreed.clone()).expect("added");
    west.keys.add_policy(policy(xfrm::Direction::Out, 1, 2, 100)).expect("added");
    assert_eq!(pass(&west, Direction::Encrypt, &vec![packet(); 3]).len(), 3);
    west.keys.query(&key(&agreed)).expect("there");
    let is_expiry = |event: &Event, is_hard: bool| matches!(event, Event::Expire { hard, .. } if *hard == is_hard);
    let soft = west.keys.take_events();
    assert!(soft.len() == 1 && is_expiry(&soft[0], false), "{soft:?}");
    assert_eq!(pass(&west, Direction::Encrypt, &vec![packet(); 9]).len(), 2, "up to the hard bound");
    let _counted = west.keys.query(&key(&agreed));
    let hard = west.keys.take_events();
    assert!(hard.len() == 1 && is_expiry(&hard[0], true), "{hard:?}");
    std::thread::sleep(Duration::from_millis(300));
    west.keys.take_events();
    assert_eq!(west.tunnels.lock().expect("no panic").outbound_all().count(), 0, "its keys are gone soon after");
}

#[test]
fn packets_leave_by_the_association_that_the_policy_names() {
    let mut west = end(WEST);
    let (old, new) = (association(0xc101, WEST, EAST, gcm(20)), association(0xc102, WEST, EAST, gcm(20)));
    let named = |spi: u32| {
        let mut named = policy(xfrm::Direction::Out, 1, 2, 100);
        named.templates[0].spi = spi;
        named
    };
    let spi_of = |west: &End| {
        let sealed = pass(west, Direction::Encrypt, &[packet()]);
        u32::from_be_bytes(sealed[0][20..24].try_into().expect("four bytes"))
    };
    west.keys.add(old.clone()).expect("added");
    west.keys.add_policy(named(0xc101)).expect("added");
    // The other end may not have it yet.
    west.keys.add(new).expect("added");
    assert_eq!(spi_of(&west), 0xc101);
    west.keys.update_policy(named(0xc102)).expect("updated");
    assert_eq!(spi_of(&west), 0xc102);
    west.keys.delete(&key(&old)).expect("there");
    assert_eq!(spi_of(&west), 0xc102);
}

#[test]
fn an_association_whose_next_packet_is_too_much_ends_and_the_daemon_hears_it() {
    let mut west = end(WEST);
    let bound = Lifetimes { bytes: Limit { soft: u64::MAX, hard: 100 }, ..Lifetimes::NONE };
    let agreed = SecurityAssociation { lifetimes: bound, ..association(0xc003, WEST, EAST, gcm(20)) };
    west.keys.add(agreed.clone()).expect("added");
    west.keys.add_policy(policy(xfrm::Direction::Out, 1, 2, 100)).expect("added");
    // Forty bytes each: what the association has carried stays below its bound.
    assert_eq!(pass(&west, Direction::Encrypt, &vec![packet(); 3]).len(), 2);
    let events = west.events();
    assert!(matches!(&events[..], [Event::Expire { state, hard: true }] if state.counters.bytes == 80), "{events:?}");
    assert!(west.keys.query(&key(&agreed)).is_err());
    assert!(west.events().is_empty());
}

#[test]
fn an_association_that_comes_back_goes_on_behind_its_last_packet() {
    let mut west = end(WEST);
    west.keys.add_policy(policy(xfrm::Direction::Out, 1, 2, 100)).expect("added");
    let agreed = association(0xc004, WEST, EAST, gcm(20));
    west.keys.add(agreed.clone()).expect("added");
    pass(&west, Direction::Encrypt, &vec![packet(); 3]);
    let asked = west.keys.query(&key(&agreed)).expect("there").association.replay;
    pass(&west, Direction::Encrypt, &vec![packet(); 2]);
    for number in [6, 7_u32] {
        west.keys.delete(&key(&agreed)).expect("there");
        if number == 7 {
            // Also when the old one is gone already.
            std::thread::sleep(Duration::from_millis(300));
            west.events();
            assert_eq!(west.tunnels.lock().expect("no panic").outbound_all().count(), 0);
        }
        west.keys.add(SecurityAssociation { replay: asked.clone(), ..agreed.clone() }).expect("added");
        let sealed = pass(&west, Direction::Encrypt, &[packet()]);
        assert_eq!(sealed[0][24..28], number.to_be_bytes(), "under the same key no number comes again");
    }
}

#[test]
fn tunnels_to_two_ends_are_two_whatever_their_reqid() {
    let mut west = end(WEST);
    let north = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 3));
    let to_north = Policy {
        templates: vec![Template { destination: north, ..policy(xfrm::Direction::Out, 1, 3, 100).templates[0] }],
        ..policy(xfrm::Direction::Out, 1, 3, 100)
    };
    west.keys.add_policy(policy(xfrm::Direction::Out, 1, 2, 100)).expect("added");
    west.keys.add_policy(to_north).expect("added");
    west.keys.add(association(0xc005, WEST, EAST, gcm(20))).expect("added");
    west.keys.add(association(0xc006, WEST, north, gcm(20))).expect("added");
    let mut packets = [packet(), packet()];
    (packets[1][18], packets[1][11]) = (3, packets[1][11] - 1);
    let sealed = pass(&west, Direction::Encrypt, &packets);
    let ends: Vec<(u8, u8)> = sealed.iter().map(|packet| (packet[19], packet[23])).collect();
    assert_eq!(ends, [(2, 0x05), (3, 0x06)]);
}

#[test]
fn what_asks_for_an_association_names_the_policy_that_it_fell_under() {
    let mut west = end(WEST);
    let general = policy(xfrm::Direction::Out, 1, 2, 200);
    let blocked = Policy {
        selector: Selector { protocol: 6, destination_port: Port { number: 25, mask: u16::MAX }, ..general.selector },
        action: Action::Block,
        templates: Vec::new(),
        ..policy(xfrm::Direction::Out, 1, 2, 100)
    };
    west.keys.add_policy(blocked).expect("added");
    west.keys.add_policy(general.clone()).expect("added");
    assert!(pass(&west, Direction::Encrypt, &[packet()]).is_empty());
    let events = west.events();
    let [Event::Acquire(acquire)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((acquire.policy.policy.priority, acquire.destination), (200, EAST));
    assert_eq!(acquire.packet.source.address, IpAddr::from([10, 0, 1, 9]));
}

#[test]
fn policies_that_ask_for_marks_or_interfaces_are_refused() {
    let mut west = end(WEST);
    let plain = policy(xfrm::Direction::Out, 1, 2, 100);
    let any = Template { destination: Ipv4Addr::UNSPECIFIED.into(), ..plain.templates[0] };
    let refused = [
        Policy { mark: Some(Mark { value: 1, mask: 0xff }), ..plain.clone() },
        Policy { if_id: 7, ..plain.clone() },
        Policy { selector: Selector { interface: 2, ..plain.selector }, ..plain.clone() },
        Policy { templates: vec![any], ..plain.clone() },
    ];
    for policy in refused {
        assert_eq!(west.keys.add_policy(policy).map(drop).map_err(|refusal| refusal.errno), Err(Errno::INVAL));
    }
    assert_eq!(west.tunnels.lock().expect("no panic").policy_count(Direction::Encrypt), 0);
    assert!(west.keys.add_policy(plain).is_ok());
}
