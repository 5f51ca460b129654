//! Clients that want more than there is for one: each limit is answered with its name, and what is given back may be had again.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::time::{Duration, Instant};

use ciphermill_channel::{Answer, Ask, DATA_LEN_MIN, ErrorKind, KeyHandle, Outcome, Port};
use ciphermill_contract::{KeyForm, OpStatus};
use ciphermill_service::{Limits, Options, Reload};
use common::campaign::{Campaign, wait_for};
use common::raw::{Raw, fill, outcome, request, seal, seal_op, suite};

/// An error that says which limit is reached, with its value.
fn names(answer: &Answer, limit: &str) {
    let Answer::Error { kind: ErrorKind::Exhausted, text } = answer else { panic!("{answer:?}, not {limit}") };
    assert_eq!(text, limit);
}

#[test]
fn connections_are_limited_in_all_and_by_user() {
    for (limits, limit) in [
        (Limits { clients: 6, ..Limits::default() }, "clients is 6"),
        (Limits { clients_of_user: 5, ..Limits::default() }, "clients_of_user is 5"),
    ] {
        let campaign = Campaign::alone(|options| options.limits = limits);
        let count = limits.clients.min(limits.clients_of_user);
        let mut clients: Vec<Raw> = (0..count).map(|_| Raw::greeted(campaign.socket())).collect();
        for _ in 0..50 {
            let mut raw = Raw::connect(campaign.socket());
            names(&raw.hear().expect("a reason").0, limit);
            raw.wait_for_end();
        }
        // Those who are there are served.
        assert_eq!(clients[0].status()["clients"].as_u64(), Some(count as u64));
        clients.pop();
        wait_for("there is room again", || Raw::admitted(campaign.socket()).is_some());
        drop(clients);
        campaign.end();
    }
}

#[test]
fn channels_and_their_bytes_are_limited() {
    let limits = Limits { channels: 3, channel_bytes: 1 << 20, client_bytes: 5 << 18, ..Limits::default() };
    let campaign = Campaign::begin(|options| options.limits = limits);
    let mut raw = Raw::greeted(campaign.socket());
    for data_len in [(1 << 20) + 1, 1 << 30, u32::MAX] {
        names(&raw.ask(&Ask::Channel { data_len }), "channel_bytes is 1048576");
    }
    for round in 0..10 {
        let (first, port) = raw.port(1 << 20);
        names(&raw.ask(&Ask::Channel { data_len: 1 << 20 }), "client_bytes is 1310720");
        let channels = [raw.descriptors(0).0, raw.descriptors(1).0, first];
        names(&raw.ask(&Ask::Channel { data_len: 0 }), "channels is 3");
        drop(port);
        for channel in channels {
            // Somebody else's numbers, and those that are closed, are nobody's.
            raw.say(&Ask::Close { channel: channel + 1000 });
            raw.say(&Ask::Close { channel });
            raw.say(&Ask::Close { channel });
        }
        assert_eq!(raw.status()["channels"].as_u64().map(|channels| channels < 3), Some(true), "round {round}");
    }
    drop(raw);
    campaign.end();
}

#[test]
fn keys_are_limited() {
    let campaign = Campaign::begin(|options| options.limits.keys = 5);
    let gcm = suite("aes-128-gcm");
    let mut raw = Raw::greeted(campaign.socket());
    let mut keys: Vec<KeyHandle> = (0..5).map(|index| raw.import(gcm, &[index; 16])).collect();
    for _ in 0..20 {
        let answer = raw.ask(&Ask::Import { suite: gcm, form: KeyForm::Secret, bytes: &[9; 16] });
        names(&answer, "keys is 5");
        // Forgetting one twice makes room for one.
        let key = keys.pop().expect("a key");
        raw.say(&Ask::Forget { key });
        raw.say(&Ask::Forget { key });
        keys.push(raw.import(gcm, &[7; 16]));
    }
    drop(raw);
    campaign.end();
}

#[test]
fn other_limits_hold_for_who_is_connected() {
    let campaign = Campaign::begin(|options| options.limits.keys = 2);
    let gcm = suite("aes-128-gcm");
    let mut raw = Raw::greeted(campaign.socket());
    let _keys = [raw.import(gcm, &[1; 16]), raw.import(gcm, &[2; 16])];
    let ask = Ask::Import { suite: gcm, form: KeyForm::Secret, bytes: &[3; 16] };
    names(&raw.ask(&ask), "keys is 2");
    let remote = campaign.running.service.as_ref().expect("it runs").remote();
    for (limits, limit) in [
        (Limits { keys: 3, channels: 1, ..Limits::default() }, Some("keys is 3")),
        (Limits { keys: 1, channels: 1, ..Limits::default() }, Some("keys is 1")),
        (Limits::default(), None),
    ] {
        remote.reload(Reload { options: Options { limits, ..Options::default() }, vault: None });
        // What was sent before is in force when the next message is answered.
        raw.status();
        if limits.keys == 3 {
            raw.import(gcm, &[3; 16]);
        }
        match limit {
            Some(limit) => names(&raw.ask(&ask), limit),
            None => drop(raw.import(gcm, &[4; 16])),
        }
    }
    drop(raw);
    campaign.end();
}

#[test]
fn a_thousand_connections_with_channels_and_keys() {
    let campaign = Campaign::begin(|_| {});
    let gcm = suite("aes-128-gcm");
    let mut clients: Vec<(Raw, Port, KeyHandle)> = (0..1000)
        .map(|index| {
            let mut raw = Raw::greeted(campaign.socket());
            let (_, port) = raw.port(DATA_LEN_MIN as u32);
            let key = raw.import(gcm, &[index as u8; 16]);
            (raw, port, key)
        })
        .collect();
    for _ in 0..3 {
        let numbers: Vec<u32> = clients
            .iter_mut()
            .map(|(_, port, key)| {
                fill(port, &[seal_op(*key, &[1; 12], 64)], &[2; 80]);
                port.submit(request(gcm, 1, 80)).expect("a slot")
            })
            .collect();
        for ((_, port, _), number) in clients.iter().zip(numbers) {
            assert_eq!(outcome(port, number), Outcome::Ran);
        }
    }
    drop(clients);
    campaign.end();
}

/// One client has all the channels that it may have, and each of them has all the requests that it may have, of every suite that shares
/// batches: whoever looks at them all for each request takes its time.
#[test]
fn very_many_requests_that_wait_keep_nobody_out() {
    let campaign = Campaign::begin(|_| {});
    let suites: Vec<_> = campaign.suites_without_keys();
    std::thread::scope(|scope| {
        for first in 0..3 {
            let (campaign, suites) = (&campaign, &suites);
            scope.spawn(move || {
                let mut clients: Vec<Raw> = (0..8).map(|_| Raw::greeted(campaign.socket())).collect();
                let mut ports: Vec<Port> =
                    clients.iter_mut().flat_map(|raw| (0..64).map(|_| raw.port(0).1).collect::<Vec<_>>()).collect();
                let until = Instant::now() + Duration::from_secs(3);
                let mut sent = 0usize;
                while Instant::now() < until {
                    for (place, port) in ports.iter_mut().enumerate() {
                        let suite = suites[(first + place + sent) % suites.len()];
                        sent += usize::from(port.submit(request(suite, 1, 64)).is_some());
                    }
                }
                assert!(sent >= ports.len(), "{sent}");
            });
        }
    });
    campaign.end();
}

#[test]
fn many_keys_go_with_their_connection_at_once() {
    let campaign = Campaign::begin(|_| {});
    let gcm = suite("aes-128-gcm");
    for _ in 0..2 {
        let mut raw = Raw::greeted(campaign.socket());
        let (_, mut port) = raw.port(0);
        let mut last = KeyHandle::default();
        for index in 0..5000u32 {
            last = raw.import(gcm, &[index as u8; 16]);
        }
        assert_eq!(seal(&mut port, last, &[1; 12], b"text").1, OpStatus::Done);
    }
    campaign.end();
}
