//! What the service says of itself: JSON for its own tools, Prometheus's text for collectors.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use serde::Serialize;

use crate::client::Client;

/// The service.
#[derive(Serialize)]
pub(crate) struct Status<'a> {
    pub(crate) version: &'a str,
    pub(crate) pid: u32,
    pub(crate) uptime_s: u64,
    pub(crate) workers: usize,
    pub(crate) pools: usize,
    pub(crate) clients: usize,
    pub(crate) channels: usize,
    pub(crate) waiting: usize,
    pub(crate) keys: usize,
    pub(crate) draining: bool,
    /// Lines of the audit log that could not be written.
    pub(crate) audit_lost: u64,
    pub(crate) engines: Vec<&'a str>,
}

/// One connection.
#[derive(Serialize)]
pub(crate) struct ClientRow<'a> {
    id: u64,
    pid: i32,
    uid: u32,
    gid: u32,
    /// The unit of systemd, the program, and what the process calls itself, as far as they are known.
    unit: Option<&'a str>,
    program: Option<String>,
    command: Option<&'a str>,
    seconds: u64,
    channels: usize,
    keys: usize,
    requests: u64,
    ops: u64,
    bytes: u64,
    shared: u64,
    /// Requests that were held back by a limit of the user's.
    held: u64,
    busy_ns: u64,
}

impl ClientRow<'_> {
    pub(crate) fn of(client: &Client, channels: usize) -> ClientRow<'_> {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        ClientRow {
            id: client.id,
            pid: client.peer.pid,
            uid: client.peer.uid,
            gid: client.peer.gid,
            unit: client.process.unit(),
            program: client.process.program(),
            command: client.process.command(),
            seconds: client.since.elapsed().as_secs(),
            channels,
            keys: client.keys().len(),
            requests: count(&client.counts.requests),
            ops: count(&client.counts.ops),
            bytes: count(&client.counts.bytes),
            shared: count(&client.counts.shared),
            held: count(&client.counts.held),
            busy_ns: count(&client.counts.busy_ns),
        }
    }
}

/// JSON of what always is a tree of texts and numbers.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"))
}

/// What concerns all clients, in Prometheus's text.
pub(crate) fn of_service(status: &Status<'_>) -> String {
    let name = "ciphermill_service_audit_lost_total";
    let help = "Lines of the audit log that could not be written.";
    format!("# HELP {name} {help}\n# TYPE {name} counter\n{name} {}\n", status.audit_lost)
}

/// Counters a client, in Prometheus's text.
pub(crate) fn prometheus(rows: &[ClientRow<'_>]) -> String {
    let mut text = String::new();
    let mut family = |name: &str, help: &str, value: fn(&ClientRow<'_>) -> u64| {
        // Writing to a text does not fail.
        let _ = writeln!(text, "# HELP ciphermill_service_client_{name} {help}");
        let _ = writeln!(text, "# TYPE ciphermill_service_client_{name} counter");
        for row in rows {
            let _ = writeln!(
                text,
                "ciphermill_service_client_{name}{{client=\"{}\",pid=\"{}\",uid=\"{}\"}} {}",
                row.id,
                row.pid,
                row.uid,
                value(row)
            );
        }
    };
    family("requests_total", "Requests that were answered.", |row| row.requests);
    family("ops_total", "Operations of those requests.", |row| row.ops);
    family("bytes_total", "Bytes of their arenas.", |row| row.bytes);
    family("shared_total", "Requests that shared a batch with those of others.", |row| row.shared);
    family("held_total", "Requests that were held back by a limit of the user's.", |row| row.held);
    family("busy_nanoseconds_total", "Time of workers, by each request's part of its batch.", |row| row.busy_ns);
    text
}
