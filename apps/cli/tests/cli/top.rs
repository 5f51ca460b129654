//! `--metrics-socket` and `ciphermill top`.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::{Place, json};

const PATIENCE: Duration = Duration::from_secs(60);

/// A demonstration that takes long enough to be looked at, with its socket open.
fn working(place: &Place) -> Child {
    let args = ["demo", "--scale", "3", "--dir", "demo", "--metrics-socket", "mill.sock"];
    let mut child = place.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let start = Instant::now();
    while !place.has("mill.sock") {
        assert!(start.elapsed() < PATIENCE && child.try_wait().expect("a child").is_none(), "no socket came");
        std::thread::sleep(Duration::from_millis(10));
    }
    child
}

fn ask(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("connects");
    stream.write_all(request.as_bytes()).expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer
}

#[test]
fn a_running_command_is_watched_and_its_socket_goes_with_it() {
    let place = Place::new();
    let mut child = working(&place);
    let path = place.path("mill.sock");
    // A silent client takes nothing away from the others.
    let mut silent = UnixStream::connect(&path).expect("connects");
    let mode = std::fs::metadata(&path).expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let answer = ask(&path, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.contains("# TYPE ciphermill_batches_total counter"));
    assert!(ask(&path, "GET /keys HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 404"));
    assert!(ask(&path, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 405"));
    assert!(ask(&path, "hello\n\n").starts_with("HTTP/1.0 400"));
    place.fails(1, &["another program serves there"], ["demo", "--scale", "0.01", "--metrics-socket", "mill.sock"]);

    let seen = json(&place.ok(["top", "--socket", "mill.sock", "--once", "--json", "--interval", "0.2"]));
    assert_eq!(seen["engines"].as_array().map(Vec::len), Some(3));
    let table = place.ok(["top", "--socket", "mill.sock", "--once", "--interval", "0.1"]);
    assert!(table.contains("lanes") && table.contains("actual/predicted") && table.contains("p99"), "{table}");

    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    child.wait().expect("ends");
    assert!(!place.has("mill.sock"), "the socket is left behind");
    let mut nothing = Vec::new();
    let ended = silent.read_to_end(&mut nothing);
    assert!(nothing.is_empty() && ended.is_ok_or_reset());
}

trait OkOrReset {
    fn is_ok_or_reset(&self) -> bool;
}

impl OkOrReset for std::io::Result<usize> {
    fn is_ok_or_reset(&self) -> bool {
        self.as_ref().map_or_else(|error| error.kind() == ErrorKind::ConnectionReset, |_| true)
    }
}

#[test]
fn what_is_no_dead_socket_is_left_alone() {
    let place = Place::new();
    place.write("file", "kept");
    let args = |path: &'static str| ["demo", "--scale", "0.01", "--dir", "demo", "--metrics-socket", path];
    place.fails(1, &["no socket", "left alone"], args("file"));
    assert_eq!(std::fs::read(place.path("file")).expect("a file"), b"kept");
    place.fails(1, &["nowhere/mill.sock"], args("nowhere/mill.sock"));
    drop(UnixListener::bind(place.path("dead")).expect("binds"));
    assert!(place.has("dead"));
    place.ok(args("dead"));
    assert!(!place.has("dead"));
}

#[test]
fn top_says_what_is_missing() {
    let place = Place::new();
    place.fails(1, &["--socket PATH", "--metrics-socket"], ["top"]);
    place.fails(1, &["no such socket", "--metrics-socket"], ["top", "--socket", "nowhere"]);
    drop(UnixListener::bind(place.path("dead")).expect("binds"));
    place.fails(1, &["has ended", "--metrics-socket"], ["top", "--socket", "dead", "--once"]);
    place.fails(2, &["0.05 to 3600"], ["top", "--interval", "0"]);
}
