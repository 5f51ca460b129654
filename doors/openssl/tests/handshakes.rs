//! Many TLS connections of one thread, as a server with asynchronous jobs has them: their public-key operations share batches.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
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
            // Who is paused is called when its descriptor says so, as by a loop around `poll`.
            let fds = if connection.server_paused { async_fds(connection.server.ssl()) } else { Vec::new() };
            let is_called = !connection.server_paused || fds.iter().any(|fd| is_readable(*fd));
            if !connection.server_done && is_called && connection.step_server() == Step::Paused {
                pauses += 1;
                assert!(!async_fds(connection.server.ssl()).is_empty(), "a job is paused and nothing says until when");
            }
        }
    }
    panic!("{} of {} connections are stuck", connections.iter().filter(|c| !c.is_done()).count(), connections.len());
}

/// Descriptors that this process has open.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a folder").count()
}

/// All in one: counts are the process's.
#[test]
fn connections_share_batches_and_end_whenever_they_like() {
    support::load();
    for (name, key) in [("RSA-2048", rsa()), ("P-256", ec(Nid::X9_62_PRIME256V1))] {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            all_are_served(name, &key, version);
        }
        one_alone_is_hardly_paused(name, &key);
        connections_end_in_the_middle(&key);
    }
    both_ends_may_be_asynchronous(&rsa());
    a_child_has_a_mill_of_its_own(&rsa());
    who_loses_many_jobs_has_none_paused_for_a_while(&rsa());
}

fn all_are_served(name: &str, key: &PKey<Private>, version: SslVersion) {
    let (server, client) = (server(key, version, true), client(version, false));
    let before = (support::operations(), shared());
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::new(&server, &client)).collect();
    let pauses = drive(&mut connections);
    connections.iter_mut().for_each(|connection| connection.exchange(b"a message in clear"));
    let (after, shared) = (support::operations(), shared());
    let (batches, operations) = (shared.0 - before.1.0, shared.1 - before.1.1);
    if support::has_lanes() {
        assert!(pauses >= CONNECTIONS, "{name}, {version:?}: {pauses} pauses");
    }
    // A signature and two agreements each; since 3.5 TLS 1.3 has ML-KEM beside X25519, of which each end has an operation as well.
    let has_kem = version == SslVersion::TLS1_3 && openssl::version::number() >= 0x3050_0000;
    let expected = if has_kem { 5 } else { 3 } * CONNECTIONS as u64;
    assert_eq!((after.0 - before.0.0, after.1 - before.0.1), (expected, 0), "{name}, {version:?}");
    // The clients, which do not pause, share some of the server's batches and run them early.
    assert!(
        operations >= 2 * batches || !support::has_lanes(),
        "{name}, {version:?}: {operations} operations in {batches} batches"
    );
}

/// Batches that were shared, and the operations in them.
fn shared() -> (u64, u64) {
    (support::count(c"ciphermill-shared-batches"), support::count(c"ciphermill-shared-operations"))
}

/// After a while, since others have just been there.
fn one_alone_is_hardly_paused(name: &str, key: &PKey<Private>) {
    let (server, client) = (server(key, SslVersion::TLS1_3, true), client(SslVersion::TLS1_3, false));
    let serve = |count: usize| -> usize {
        (0..count).map(|_| drive(std::slice::from_mut(&mut Connection::new(&server, &client)))).sum()
    };
    serve(20);
    let pauses = serve(66);
    assert!(pauses <= 10, "{name}: {pauses} pauses of 66 connections, one after the other");
}

/// Connections are freed while their jobs are paused: nothing leaks, and the others go on.
fn connections_end_in_the_middle(key: &PKey<Private>) {
    let (server, client) = (server(key, SslVersion::TLS1_3, true), client(SslVersion::TLS1_3, false));
    let mut ended = 0;
    let mut before = 0;
    for round in 0..30 {
        let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::new(&server, &client)).collect();
        for connection in &mut connections {
            connection.step_client();
        }
        // One in each round, another each time: with many more none would be paused any more.
        let mut number = round % CONNECTIONS;
        connections.retain_mut(|connection| {
            let ends = connection.step_server() == Step::Paused && number == 0;
            number = number.wrapping_sub(1);
            ended += usize::from(ends);
            !ends
        });
        drive(&mut connections);
        connections.iter_mut().for_each(|connection| connection.exchange(b"a message in clear"));
        drop(connections);
        if round == 5 {
            before = descriptors();
        }
    }
    assert!(ended > 15 || !support::has_lanes(), "{ended} jobs were paused when their connection ended");
    assert!(descriptors() <= before, "{before} descriptors became {}", descriptors());
}

/// OpenSSL frees no job that is lost: clients that only come to leave would take a server's memory.
fn who_loses_many_jobs_has_none_paused_for_a_while(key: &PKey<Private>) {
    let (server, client) = (server(key, SslVersion::TLS1_3, true), client(SslVersion::TLS1_3, false));
    let (mut lost, mut rounds_without) = (0, 0);
    for _ in 0..100 {
        let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::new(&server, &client)).collect();
        let mut is_paused = connections.iter_mut().map(|connection| {
            connection.step_client();
            connection.step_server() == Step::Paused
        });
        // Half of them end here, the others go on.
        let ended = is_paused.by_ref().take(CONNECTIONS / 2).filter(|is_paused| *is_paused).count();
        let others = is_paused.filter(|is_paused| *is_paused).count();
        lost += ended;
        rounds_without += usize::from(ended + others == 0);
        drive(&mut connections.split_off(CONNECTIONS / 2));
    }
    // 64, one for each 1,024 operations, and those that were paused at that moment.
    let done = usize::try_from(support::operations().0).expect("a few thousand");
    assert!(lost <= 64 + done / 1024 + 2 * CONNECTIONS, "{lost} jobs were lost, {done} operations done");
    assert!(rounds_without > 50, "{rounds_without} rounds without a pause");
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::new(&server, &client)).collect();
    drive(&mut connections);
    connections.iter_mut().for_each(|connection| connection.exchange(b"a message in clear"));
}

fn both_ends_may_be_asynchronous(key: &PKey<Private>) {
    let (server, client) = (server(key, SslVersion::TLS1_3, true), client(SslVersion::TLS1_3, true));
    let mut connections: Vec<_> = (0..CONNECTIONS).map(|_| Connection::new(&server, &client)).collect();
    drive(&mut connections);
    connections.iter_mut().for_each(|connection| connection.exchange(b"a message in clear"));
}

/// The pages of a parent's keys are not given to its child, which goes on with the same key all the same.
fn a_child_has_a_mill_of_its_own(key: &PKey<Private>) {
    all_are_served("before a fork", key, SslVersion::TLS1_3);
    // Some connections are paused when the process forks: the child goes on with them, and the parent too.
    let (paused_server, client) = (server(key, SslVersion::TLS1_3, true), client(SslVersion::TLS1_3, false));
    let mut connections: Vec<_> = (0..5).map(|_| Connection::new(&paused_server, &client)).collect();
    for connection in &mut connections {
        connection.step_client();
        connection.step_server();
    }
    // SAFETY: no other thread of this process holds a lock of what the child uses; it ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            while let Some(connection) = connections.iter_mut().find(|connection| !connection.is_done()) {
                connection.step_server();
                connection.step_client();
            }
            all_are_served("in a child", key, SslVersion::TLS1_3);
        }));
        let served = served.is_ok();
        // SAFETY: nothing of the test's harness is to run here.
        unsafe { libc::_exit(i32::from(!served)) };
    }
    let mut status = -1;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
    drive(&mut connections);
    all_are_served("after a fork", key, SslVersion::TLS1_3);
}
