//! Many TLS connections of one thread, as a server with asynchronous jobs has them: their public-key operations share batches.

#![allow(unsafe_code, reason = "poll of the C library")]
mod support;

use openssl::ec::{EcGroup, EcKey};
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::ssl::SslVersion;
use support::connection::{Connection, Step, async_fds, client, server};

const CONNECTIONS: usize = 24;

fn rsa() -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key")
}

fn ec(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).expect("a curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
}

/// Whether a descriptor can be read from now.
fn is_readable(fd: i32) -> bool {
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, and room for its answer.
    (unsafe { libc::poll(&mut polled, 1, 0) }) == 1
}

/// Drives connections in turns until all are done. Returns how often a server was paused.
fn drive(connections: &mut [Connection]) -> usize {
    let mut pauses = 0;
    for _ in 0..10_000 {
        if connections.iter().all(Connection::is_done) {
            return pauses;
        }
        for connection in connections.iter_mut() {
            if !connection.client_done {
                connection.step_client();
            }
            let fds = async_fds(connection.server.ssl());
            // Who is paused is called when its descriptor says so, as by a loop around `poll`.
            let is_called = fds.is_empty() || fds.iter().any(|fd| is_readable(*fd)) || !connection.server_done;
            if !connection.server_done && is_called && connection.step_server() == Step::Paused {
                pauses += 1;
                assert!(!async_fds(connection.server.ssl()).is_empty(), "a job is paused and nothing says until when");
            }
        }
    }
    panic!("{} of {} connections are stuck", connections.iter().filter(|c| !c.is_done()).count(), connections.len());
}

#[test]
fn connections_share_batches() {
    support::load();
    for (name, key) in [("RSA-2048", rsa()), ("P-256", ec(Nid::X9_62_PRIME256V1))] {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            let (server, client) = (server(&key, version, true), client(version, false));
            let before = (support::operations(), support::count(c"ciphermill-shared-batches"));
            let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::new(&server, &client)).collect();
            let pauses = drive(&mut connections);
            connections.iter_mut().for_each(|connection| connection.exchange(b"a message in clear"));
            let (operations, delegated) = support::operations();
            println!(
                "{name} {version:?}: {pauses} pauses, {} operations, {} delegated, {} batches",
                operations - before.0.0,
                delegated - before.0.1,
                support::count(c"ciphermill-shared-batches") - before.1
            );
            assert!(pauses >= CONNECTIONS, "{name}, {version:?}: {pauses} pauses");
        }
    }
}
