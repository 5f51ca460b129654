//! The service's figures, beside what they are held against, in the same run: `cargo bench -p ciphermill-service --bench figures`.
//! Arguments choose cases by a part of their names. Service and clients are processes of their own: this program, started again.

#![allow(clippy::expect_used, missing_docs, reason = "a benchmark")]

mod cases;
mod clients;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ciphermill::Mill;
use ciphermill_contract::Engine;
use ciphermill_service::{Listener, Options, Service};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", socket, spin_us] => serve(Path::new(socket), spin_us.parse().expect("microseconds")),
        ["client", way, kind, socket, seconds] => {
            clients::run(way, kind, Path::new(socket), seconds.parse().expect("seconds"));
        }
        _ => cases::run(&words),
    }
}

/// Serves until standard input ends.
fn serve(socket: &Path, spin_us: u64) {
    let options = Options { spin: Duration::from_micros(spin_us), ..Options::default() };
    let listener = Listener::at(socket, 0o600).expect("a socket");
    let service = Service::start(mill(), listener, options).expect("starts");
    println!("ready");
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    service.drain();
}

/// An engine in this process.
fn named(engine: &str) -> Arc<dyn Engine> {
    ciphermill_engines::open(engine).expect("a known name").expect("opens everywhere")
}

/// Keeps this thread, and processes that it starts, to one core.
fn stay_on(core: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).expect("the core is there");
}

/// A mill with this machine's engines.
fn mill() -> Mill {
    Mill::builder().engines(ciphermill_engines::all()).open().expect("a mill")
}

/// A service in a process of its own; ended when this is dropped.
struct Served {
    child: Child,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Served {
    fn start(spin: Duration) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let mut command = again(&["serve", socket.to_str().expect("a text"), &spin.as_micros().to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
        let mut line = String::new();
        let mut out = std::io::BufReader::new(child.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut out, &mut line).expect("says that it is ready");
        assert_eq!(line, "ready\n");
        Served { child, socket, _folder: folder }
    }

    fn socket(&self) -> &str {
        self.socket.to_str().expect("a text")
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// This program, started again.
fn again(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(args);
    command
}
