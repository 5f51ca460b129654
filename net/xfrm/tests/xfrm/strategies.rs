//! Requests of every kind, as proptest makes them up.

use std::net::IpAddr;

use ciphermill_xfrm::message::Request;
use ciphermill_xfrm::{
    Action, Algorithms, AssociationId, AssociationKey, Counters, Direction, Encapsulation, Encryption, ExtraFlags,
    Flags, Integrity, KeyBytes, Lifetimes, Limit, ListFilter, Mark, Mode, Policy, PolicyKey, Port, Prefix, Replay,
    ReplayUpdate, SaDirection, SecurityAssociation, Selector, SpiRequest, Template,
};
use proptest::prelude::*;

/// An association with nothing special.
pub(crate) fn plain(spi: u32) -> SecurityAssociation {
    let prefix = Prefix { address: [0, 0, 0, 0].into(), len: 0 };
    SecurityAssociation {
        id: AssociationId { destination: [10, 0, 0, 2].into(), spi, protocol: 50 },
        source: [10, 0, 0, 1].into(),
        mode: Mode::Tunnel,
        reqid: 1,
        acquire: 0,
        algorithms: Some(Algorithms::Aead {
            name: "rfc4106(gcm(aes))".to_owned(),
            key: KeyBytes::new(&[0xab; 20]),
            icv_bits: 128,
        }),
        replay: Replay { window: 32, sent: 0, received: 0, bitmap: vec![0] },
        encapsulation: None,
        lifetimes: Lifetimes::NONE,
        flags: Flags::default(),
        extra_flags: ExtraFlags::default(),
        selector: Selector { any_family: false, source: prefix, destination: prefix, ..Selector::ALL },
        mark: None,
        output_mark: None,
        if_id: 0,
        tfc_padding: 0,
        direction: None,
        nat_keepalive_seconds: 0,
    }
}

fn address(four: bool) -> BoxedStrategy<IpAddr> {
    if four {
        any::<[u8; 4]>().prop_map(IpAddr::from).boxed()
    } else {
        any::<[u8; 16]>().prop_map(IpAddr::from).boxed()
    }
}

fn prefix(four: bool) -> impl Strategy<Value = Prefix> {
    (address(four), 0..=if four { 32u8 } else { 128 }).prop_map(|(address, len)| Prefix { address, len })
}

fn port() -> impl Strategy<Value = Port> {
    any::<(u16, u16)>().prop_map(|(number, mask)| Port { number, mask })
}

fn selector(four: bool) -> impl Strategy<Value = Selector> {
    (prefix(four), prefix(four), any::<u8>(), port(), port(), any::<(i32, u32)>()).prop_map(
        |(source, destination, protocol, source_port, destination_port, (interface, user))| Selector {
            any_family: false,
            source,
            destination,
            protocol,
            source_port,
            destination_port,
            interface,
            user,
        },
    )
}

fn lifetimes() -> impl Strategy<Value = Lifetimes> {
    let limit = || any::<(u64, u64)>().prop_map(|(soft, hard)| Limit { soft, hard });
    (limit(), limit(), limit(), limit()).prop_map(|(bytes, packets, add_seconds, use_seconds)| Lifetimes {
        bytes,
        packets,
        add_seconds,
        use_seconds,
    })
}

fn key() -> impl Strategy<Value = KeyBytes> {
    prop::collection::vec(any::<u8>(), 0..=256).prop_map(|bytes| KeyBytes::new(&bytes))
}

fn name() -> impl Strategy<Value = String> {
    "x[!-~]{0,61}"
}

fn algorithms() -> impl Strategy<Value = Algorithms> {
    let integrity = (name(), key(), 1u32..).prop_map(|(name, key, icv_bits)| Integrity { name, key, icv_bits });
    prop_oneof![
        (name(), key(), any::<u32>()).prop_map(|(name, key, icv_bits)| Algorithms::Aead { name, key, icv_bits }),
        (name(), key(), prop::option::of(integrity)).prop_map(|(name, key, integrity)| Algorithms::Separate {
            encryption: Encryption { name, key },
            integrity
        }),
    ]
}

/// The service and whether numbers have 64 bits, in one of the two forms.
fn replay() -> impl Strategy<Value = (Replay, bool)> {
    let short = (0u32..=32, any::<(u32, u32, u32)>()).prop_map(|(window, (sent, received, bitmap))| {
        (Replay { window, sent: sent.into(), received: received.into(), bitmap: vec![bitmap] }, false)
    });
    let long =
        (any::<bool>(), 1u32..=4096, any::<(u64, u64, u32)>()).prop_map(|(esn, window, (sent, received, word))| {
            let window = if esn { window } else { window.max(33) };
            (Replay { window, sent, received, bitmap: vec![word; window.div_ceil(32) as usize] }, esn)
        });
    prop_oneof![short, long]
}

fn mark() -> impl Strategy<Value = Mark> {
    any::<(u32, u32)>().prop_map(|(value, mask)| Mark { value, mask })
}

fn encapsulation(four: bool) -> impl Strategy<Value = Encapsulation> {
    (any::<(u16, u16)>(), prop::option::of(address(four))).prop_map(|((source_port, destination_port), original)| {
        Encapsulation {
            source_port,
            destination_port,
            original_address: original.filter(|address| !address.is_unspecified()),
        }
    })
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![Just(Mode::Transport), Just(Mode::Tunnel), Just(Mode::Beet)]
}

/// Any association that a kernel would let in.
pub(crate) fn association() -> impl Strategy<Value = SecurityAssociation> {
    any::<bool>()
        .prop_flat_map(|four| {
            let who = (address(four), address(four), any::<u32>(), mode(), any::<(u32, u32)>());
            let more = (mark_option(), mark_option(), any::<(u32, u32, u32)>(), direction(), any::<(u8, u32)>());
            let selector = (any::<bool>(), selector(four));
            (who, algorithms(), replay(), prop::option::of(encapsulation(four)), lifetimes(), selector, more)
        })
        .prop_map(|(who, algorithms, (replay, esn), encapsulation, lifetimes, (any_family, selector), more)| {
            let (destination, source, spi, mode, (reqid, acquire)) = who;
            let (mark, output_mark, (if_id, tfc_padding, keepalive), direction, (flags, extra)) = more;
            let flags = flags & 0x5f | u8::from(any_family) << 5 | u8::from(esn) << 7;
            let all = Selector { any_family: true, source: Prefix::ALL, destination: Prefix::ALL, ..selector };
            SecurityAssociation {
                id: AssociationId { destination, spi, protocol: 50 },
                source,
                mode,
                reqid,
                acquire,
                algorithms: Some(algorithms),
                replay,
                encapsulation,
                lifetimes,
                flags: Flags(flags),
                extra_flags: ExtraFlags(extra),
                selector: if any_family { all } else { selector },
                mark,
                output_mark,
                if_id,
                tfc_padding: if mode == Mode::Tunnel { tfc_padding } else { 0 },
                direction,
                nat_keepalive_seconds: keepalive,
            }
        })
}

fn mark_option() -> impl Strategy<Value = Option<Mark>> {
    prop::option::of(mark())
}

fn direction() -> impl Strategy<Value = Option<SaDirection>> {
    prop::option::of(prop_oneof![Just(SaDirection::In), Just(SaDirection::Out)])
}

fn association_key() -> impl Strategy<Value = AssociationKey> {
    any::<bool>().prop_flat_map(address).prop_flat_map(|destination| {
        (any::<(u32, u8)>(), mark()).prop_map(move |((spi, protocol), mark)| AssociationKey {
            id: AssociationId { destination, spi, protocol },
            mark,
        })
    })
}

fn template(four: bool) -> impl Strategy<Value = Template> {
    let protocol = prop_oneof![Just(50u8), Just(51), Just(108)];
    let numbers = any::<(u32, u32, u8, bool)>();
    (address(four), address(four), protocol, mode(), numbers, any::<(u32, u32, u32)>()).prop_map(
        |(destination, source, protocol, mode, (spi, reqid, share, optional), masks)| Template {
            destination,
            source,
            spi,
            protocol,
            reqid,
            mode,
            share,
            optional,
            integrity: masks.0,
            encryption: masks.1,
            compression: masks.2,
        },
    )
}

fn policy_direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::In), Just(Direction::Out), Just(Direction::Forward)]
}

fn policy() -> impl Strategy<Value = Policy> {
    let head = any::<bool>().prop_flat_map(selector);
    let templates = prop::collection::vec(any::<bool>().prop_flat_map(template), 0..=6);
    let action = prop_oneof![Just(Action::Allow), Just(Action::Block)];
    let numbers = (any::<(u32, u32, u8)>(), 0u8..=1, 0u8..=3, any::<u32>());
    (head, policy_direction(), action, lifetimes(), templates, mark_option(), numbers).prop_map(
        |(selector, direction, action, lifetimes, templates, mark, ((priority, index, flags), kind, share, if_id))| {
            Policy {
                selector,
                direction,
                kind,
                action,
                priority,
                index: if index & 1 == 0 { 0 } else { index & !7 | direction as u32 },
                flags,
                share,
                lifetimes,
                templates,
                mark,
                if_id,
            }
        },
    )
}

fn policy_key() -> impl Strategy<Value = PolicyKey> {
    let head = any::<bool>().prop_flat_map(selector);
    (head, policy_direction(), 0u8..=1, any::<(u32, u32)>(), mark()).prop_map(
        |(selector, direction, kind, (index, if_id), mark)| PolicyKey { direction, kind, index, selector, mark, if_id },
    )
}

fn replay_update() -> impl Strategy<Value = ReplayUpdate> {
    let counters = any::<(u64, u64, u64, u64)>().prop_map(|(bytes, packets, added, used)| Counters {
        bytes,
        packets,
        added,
        used,
    });
    (association_key(), replay(), prop::option::of(counters)).prop_map(|(key, (mut replay, _), counters)| {
        if replay.bitmap.len() == 1 && replay.sent <= u32::MAX.into() && replay.received <= u32::MAX.into() {
            replay.window = 0;
        }
        ReplayUpdate { key, replay: Some(replay), counters }
    })
}

fn list_filter() -> impl Strategy<Value = ListFilter> {
    let addresses = any::<bool>().prop_flat_map(|four| (prefix(four), prefix(four)));
    (any::<u8>(), prop::option::of(addresses)).prop_map(|(protocol, addresses)| ListFilter { protocol, addresses })
}

/// Any request.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    let boxed = || association().prop_map(Box::new);
    let bits = |most: u8| prop::option::of((0..=most, 0..=most));
    let larval = (association(), any::<(u32, u32)>()).prop_map(|(mut association, (one, other))| {
        association.algorithms = None;
        Request::AllocateSpi(Box::new(SpiRequest { association, min: one.min(other), max: one.max(other) }))
    });
    prop_oneof![
        boxed().prop_map(Request::Add),
        boxed().prop_map(Request::Update),
        association_key().prop_map(Request::Delete),
        association_key().prop_map(Request::Query),
        list_filter().prop_map(Request::List),
        larval,
        any::<u8>().prop_map(Request::Flush),
        policy().prop_map(Box::new).prop_map(Request::AddPolicy),
        policy().prop_map(Box::new).prop_map(Request::UpdatePolicy),
        policy_key().prop_map(Box::new).prop_map(Request::DeletePolicy),
        policy_key().prop_map(Box::new).prop_map(Request::QueryPolicy),
        Just(Request::ListPolicies),
        (0u8..=1).prop_map(Request::FlushPolicies),
        any::<u32>().prop_map(Request::CountAssociations),
        any::<u32>().prop_map(Request::CountPolicies),
        (bits(32), bits(128)).prop_map(|(ipv4, ipv6)| Request::SetThresholds { ipv4, ipv6 }),
        (association_key(), any::<u32>()).prop_map(|(key, flags)| Request::QueryReplay(key, flags)),
        replay_update().prop_map(Box::new).prop_map(Request::SetReplay),
    ]
}
