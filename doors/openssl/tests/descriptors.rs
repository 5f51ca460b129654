//! A process that has no descriptor left: connections cannot be paused then, and are served all the same.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "system calls")]

mod support;

use openssl::pkey::PKey;
use openssl::rsa::Rsa;
use openssl::ssl::{SslContext, SslVersion};
use support::connection::{Connection, Step, client, server};

const CONNECTIONS: usize = 24;

/// Serves connections in turns. Returns how often one was paused.
fn serve(server: &SslContext, client: &SslContext) -> usize {
    let mut pauses = 0;
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::new(server, client)).collect();
    for _ in 0..1000 {
        for connection in connections.iter_mut().filter(|connection| !connection.is_done()) {
            if !connection.client_done {
                connection.step_client();
            }
            if !connection.server_done {
                pauses += usize::from(connection.step_server() == Step::Paused);
            }
        }
    }
    assert!(connections.iter().all(Connection::is_done), "connections are stuck");
    connections.iter_mut().for_each(|connection| connection.exchange(b"a message in clear"));
    pauses
}

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the answer.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) }, 0);
    limit
}

fn set_limit(limit: libc::rlimit) {
    // SAFETY: a limit that lives while the call lasts.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

#[test]
fn connections_without_descriptors_are_served_by_default() {
    support::load();
    let key = PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key");
    let (server, client) = (server(&key, SslVersion::TLS1_3, true), client(SslVersion::TLS1_3, false));
    let before = serve(&server, &client);
    let (limits, counts) = (limit(), support::operations());
    // No number is left below the limit.
    set_limit(libc::rlimit { rlim_cur: 0, ..limits });
    assert!(std::fs::File::open("/dev/null").is_err(), "a descriptor is left");
    let meanwhile = serve(&server, &client);
    set_limit(limits);
    let left = support::operations().1 - counts.1;
    let after = serve(&server, &client);
    assert_eq!(meanwhile, 0, "who is paused has nothing to wait with");
    if support::has_lanes() {
        assert!(before > 0 && after > 0, "{before} pauses before, {after} after");
        assert!(left > 0, "what could not be paused was left to `default`");
    }
}
