//! Descriptor exhaustion: a service in a process that may have few of them.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::io::Read as _;

use ciphermill_channel::{Answer, Ask, ErrorKind, Outcome};
use ciphermill_contract::OpStatus;
use common::campaign::wait_for;
use common::raw::{Raw, seal, suite};
use common::{Running, child};
use rustix::process::{Resource, Rlimit};

/// Descriptors that the service's process may have beyond those that it begins with.
const LEFT: usize = 60;

fn descriptors_of(process: &str) -> usize {
    std::fs::read_dir(format!("/proc/{process}/fd")).map_or(0, Iterator::count)
}

#[test]
#[ignore = "a process that the other test starts"]
fn service_process() {
    let Some(socket) = child::socket() else { return };
    let _running = Running::start_at(socket, None, |_| {});
    let most = (descriptors_of("self") + LEFT) as u64;
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) }).expect("a limit");
    // Until whoever started it ends.
    let _ = std::io::stdin().read(&mut [0]);
}

/// Connects and asks for channels until nothing more is to be had. What is given is kept.
fn take_all(socket: &std::path::Path, kept: &mut Vec<Raw>, channels: usize) -> (usize, usize) {
    let (mut refused, mut turned_away) = (0, 0);
    for _ in 0..150 {
        let Some(mut raw) = Raw::admitted(socket) else {
            turned_away += 1;
            continue;
        };
        for _ in 0..channels {
            match raw.ask(&Ask::Channel { data_len: 0 }) {
                Answer::Channel { .. } => {}
                Answer::Error { kind: ErrorKind::Exhausted, text } => {
                    assert!(text.contains("no channel could be made"), "{text}");
                    refused += 1;
                }
                answer => panic!("{answer:?}"),
            }
        }
        kept.push(raw);
    }
    (refused, turned_away)
}

#[test]
fn a_service_without_descriptors_goes_on_and_recovers() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let mut service = child::start("service_process", &socket);
    wait_for("the service runs", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
    let pid = service.id().to_string();
    let gcm = suite("aes-128-gcm");
    let mut honest = Raw::greeted(&socket);
    let (_, mut port) = honest.port(0);
    let key = honest.import(gcm, &[1; 16]);
    wait_for("nobody else is there", || honest.status()["clients"].as_u64() == Some(1));
    let before = descriptors_of(&pid);
    for channels in [0, 1, 20] {
        let mut kept = Vec::new();
        let (refused, turned_away) = take_all(&socket, &mut kept, channels);
        assert!(turned_away > 0 && (channels == 0 || refused + turned_away > 50), "{refused}, {turned_away}");
        // Who is there is served, keys come and go, and no channel is to be had.
        for round in 0..50 {
            assert_eq!(seal(&mut port, key, &[round; 12], b"text").0, Outcome::Ran);
        }
        let another = honest.import(gcm, &[2; 16]);
        honest.say(&Ask::Forget { key: another });
        assert!(honest.status()["clients"].as_u64() <= Some(kept.len() as u64 + 1));
        drop(kept);
        wait_for("all have gone", || honest.status()["clients"].as_u64() == Some(1));
        assert_eq!(descriptors_of(&pid), before);
        let (channel, mut again) = honest.port(0);
        assert_eq!(seal(&mut again, key, &[7; 12], b"text").1, OpStatus::Done);
        honest.say(&Ask::Close { channel });
        assert_eq!(Raw::greeted(&socket).status()["keys"].as_u64(), Some(1));
        wait_for("the last has gone", || honest.status()["clients"].as_u64() == Some(1));
    }
    drop(service.stdin.take());
    assert!(service.wait().is_ok_and(|status| status.success()));
}
