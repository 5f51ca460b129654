//! The service as its administrator and its clients meet it.

use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ciphermill::{KeyPolicy, Mill, SelfTest};
use ciphermill_contract::{Batch, Direction, KeyMaterial, Op, OpStatus, Span};
use ciphermill_service_engine::{Opening, ServiceEngine};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Place, Ran, json};

const SOCKET: &str = "run/socket";

/// A service in a place; killed when this is dropped.
struct Daemon {
    child: Child,
    said: BufReader<ChildStderr>,
}

impl Daemon {
    /// Starts it under the name of a daemon, and waits until it serves.
    fn start(place: &Place) -> Daemon {
        Daemon::start_with(place, |_| {})
    }

    fn start_with(place: &Place, change: impl FnOnce(&mut Command)) -> Daemon {
        let program = place.path("ciphermilld");
        if !program.exists() {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ciphermill"), &program).expect("a link");
        }
        let mut command = place.prepared(Command::new(&program));
        command.args(["--socket", SOCKET]);
        change(&mut command);
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
        let said = BufReader::new(child.stderr.take().expect("piped"));
        let mut daemon = Daemon { child, said };
        let line = daemon.line();
        assert!(line.contains("serves") && line.contains("socket"), "{line}");
        daemon
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("text");
        line
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }

    /// Waits for its end, and returns its exit code.
    fn end(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_service_says_how_it_is_and_who_uses_it_and_ends_when_told() {
    let place = Place::new();
    let missing = place.run(["service", "status", "--socket", SOCKET]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.err.contains(SOCKET) && missing.err.contains("No such file"), "{}", missing.err);

    let mut daemon = Daemon::start(&place);
    let status = json(&place.ok(["service", "status", "--socket", SOCKET, "--json"]));
    assert_eq!(status["pid"], daemon.child.id());
    assert!(place.ok(["service", "status", "--socket", SOCKET]).contains("runs as process"));
    let clients = json(&place.ok(["service", "clients", "--socket", SOCKET, "--json"]));
    assert_eq!(clients.as_array().map(Vec::len), Some(1), "the one that asks");
    let metrics = place.ok(["service", "metrics", "--socket", SOCKET]);
    assert!(metrics.contains("# TYPE ciphermill_service_client_requests_total counter"), "{metrics}");

    let second = place.run(["service", "run", "--socket", SOCKET]);
    assert_eq!(second.code, Some(1));
    assert!(second.err.contains(&format!("as process {}", daemon.child.id())), "{}", second.err);

    place.ok(["service", "drain", "--socket", SOCKET]);
    assert_eq!(daemon.end(), Some(0));
    assert!(!place.path(SOCKET).exists(), "its socket has gone");
}

#[test]
fn commands_use_the_service_that_the_environment_names() {
    let place = Place::new();
    let mut daemon = Daemon::start(&place);
    let listing = |named: bool| {
        let mut command = place.command(["engines", "--json"]);
        if named {
            command.env("CIPHERMILL_SERVICE", place.path(SOCKET));
        }
        let listing = json(&String::from_utf8(command.output().expect("runs").stdout).expect("text"));
        let engines = listing["engines"].as_array().expect("a list").clone();
        engines.iter().any(|engine| engine["name"] == "service")
    };
    assert_eq!([listing(false), listing(true)], [false, true]);
    let mut tested = place.command(["selftest", "--engine", "service"]);
    let tested = tested.env("CIPHERMILL_SERVICE", place.path(SOCKET)).output().expect("runs");
    assert!(tested.status.success(), "{}", String::from_utf8_lossy(&tested.stderr));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn a_hangup_puts_the_configuration_in_force_or_says_why_not() {
    let place = Place::new();
    let mut daemon = Daemon::start(&place);
    let suites = || {
        let mut command = place.command(["engines", "--json"]);
        command.env("CIPHERMILL_SERVICE", place.path(SOCKET));
        let listing = json(&String::from_utf8(command.output().expect("runs").stdout).expect("text"));
        let engines = listing["engines"].as_array().expect("a list").clone();
        let service = engines.into_iter().find(|engine| engine["name"] == "service").expect("it is used");
        let suites = service["suites"].as_array().expect("a list").clone();
        suites.iter().any(|suite| suite["suite"] == "aes-128-gcm")
    };
    assert!(suites());
    place.write(
        "ciphermill.toml",
        "[policy]\ndisabled = [\"reference\", \"library:aes-128-gcm\", \"lanes:aes-128-gcm\"]\n",
    );
    daemon.signal(Signal::SIGHUP);
    assert!(daemon.line().contains("read again"));
    assert!(!suites(), "no engine of the service runs it");
    place.write("ciphermill.toml", "[policy]\ndisabled = [\"abacus\"]\n");
    daemon.signal(Signal::SIGHUP);
    let line = daemon.line();
    assert!(line.contains("stays as it was") && line.contains("abacus"), "{line}");
    place.write("ciphermill.toml", "");
    daemon.signal(Signal::SIGHUP);
    assert!(daemon.line().contains("read again"));
    assert!(suites());
}

/// A user without rights of any kind, where this test may become one.
const NOBODY: u32 = 65_534;

/// A command as that user, with a home that it can read; `None` where only root could have it run.
fn as_nobody(place: &Place, args: &[&str]) -> Option<Ran> {
    if !rustix::process::geteuid().is_root() {
        println!("NOTE: only root can be another user; this part was not run");
        return None;
    }
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(place.path(""), open).expect("a folder of its own");
    let mut command = place.command(args);
    Some(Ran::from(command.uid(NOBODY).gid(NOBODY).output().expect("runs")))
}

#[test]
fn keys_are_listed_to_those_who_may_use_them() {
    let place = Place::new();
    place.ok(["keys", "generate", "payments", "--suite", "aes-128-gcm", "--keystore", "keystore"]);
    place.ok(["keys", "generate", "others", "--suite", "hmac-sha256", "--keystore", "keystore"]);
    let passphrase = place.write("passphrase", "correct horse battery staple");
    std::fs::set_permissions(passphrase, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its own");
    place.write(
        "ciphermill.toml",
        "[keystore]\npath = \"keystore\"\n[service]\npassphrase_file = \"passphrase\"\n\
         access.users = [65534]\nkeys.payments.users = [65534]\n",
    );
    let _daemon = Daemon::start(&place);
    let args = ["service", "keys", "--socket", SOCKET];
    let table = place.ok(args);
    assert!(table.contains("payments") && table.contains("hmac-sha256") && table.contains("nobody else"), "{table}");
    let rows = json(&place.ok(["service", "keys", "--socket", SOCKET, "--json"]));
    assert_eq!((rows[0]["name"].as_str(), rows[1]["name"].as_str()), (Some("others"), Some("payments")));
    assert_eq!(rows[1]["access"]["users"][0], NOBODY);
    if let Some(ran) = as_nobody(&place, &args) {
        assert!(ran.out.contains("payments") && ran.out.contains("aes-128-gcm"), "{}{}", ran.out, ran.err);
        assert!(!ran.out.contains("others") && !ran.out.contains("for whom"), "{}", ran.out);
    }
}

#[test]
fn a_service_without_a_keystore_has_no_keys_to_list() {
    let place = Place::new();
    let _daemon = Daemon::start(&place);
    assert_eq!(json(&place.ok(["service", "keys", "--socket", SOCKET, "--json"])), serde_json::json!([]));
}

#[test]
fn a_hangup_opens_the_audit_log_again_whatever_the_configuration_says() {
    let place = Place::new();
    place.write("ciphermill.toml", "[service]\naudit = \"audit\"\n");
    let mut daemon = Daemon::start(&place);
    place.ok(["service", "status", "--socket", SOCKET]);
    std::fs::rename(place.path("audit"), place.path("audit-of-yesterday")).expect("moved");
    place.write("ciphermill.toml", "[policy]\ndisabled = [\"abacus\"]\n[service]\naudit = \"elsewhere\"\n");
    daemon.signal(Signal::SIGHUP);
    assert!(daemon.line().contains("stays as it was"));
    let status = place.ok(["service", "status", "--socket", SOCKET]);
    assert!(!status.contains("audit"), "nothing is lost: {status}");
    let lines = |name: &str| std::fs::read_to_string(place.path(name)).expect("a log").lines().count();
    assert_eq!((lines("audit-of-yesterday"), lines("audit")), (1, 1));
    // A disk that is full stops nothing, and is said.
    place.write("ciphermill.toml", "[service]\naudit = \"/dev/full\"\n");
    daemon.signal(Signal::SIGHUP);
    assert!(daemon.line().contains("read again"));
    let status = place.ok(["service", "status", "--socket", SOCKET]);
    assert!(status.contains("audit     1 lines could not be written"), "{status}");
    assert!(daemon.line().contains("the audit log cannot be written"));
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn the_configuration_is_shown_with_all_that_the_service_goes_by() {
    let place = Place::new();
    let shown = place.ok(["config"]);
    for line in ["units = []", "executables = []", "audit_bytes = 67108864", "clients_of_user = 1024"] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in {shown}");
    }
    place.write(
        "ciphermill.toml",
        "[service]\nlimits.audit_bytes = 5000\naccess.units = [\"nginx.service\"]\npassphrase_file = \"x\"\n\
         keys.payments.executables = [\"/usr/sbin/nginx\"]\n\
         [service.users.root]\nweight = 4\nops_per_second = 100000\n[service.groups.12]\nbytes_in_flight = 7\n",
    );
    let shown = place.ok(["config"]);
    for line in [
        "units = [\"nginx.service\"]",
        "[service.keys.\"payments\"]",
        "executables = [\"/usr/sbin/nginx\"]",
        "[service.users.0]",
        "weight = 4.0",
        "ops_per_second = 100000.0",
        "[service.groups.12]",
        "bytes_in_flight = 7",
        "audit_bytes = 5000",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is not in {shown}");
    }
    // What is shown is such a file.
    place.write("ciphermill.toml", &shown);
    assert_eq!(place.ok(["config"]), shown);
}

/// A client that has a key, and has something done all the time until it is told to end.
fn work(socket: &Path, ends: &AtomicBool) {
    let engine = ServiceEngine::open(&Opening::at(socket)).expect("connects");
    let mill = Mill::builder().engine(Arc::new(engine)).self_test(SelfTest::Never).open().expect("a mill");
    let key = mill.keys().import(KeyMaterial::secret(&[7; 16]), KeyPolicy::default()).expect("a key");
    let suite = "aes-128-gcm".parse().expect("a suite");
    while !ends.load(Ordering::Relaxed) {
        let mut ops = [Op::in_place(key, Span::new(0, 64)).with_tag(64, 16).with_iv(&[9; 12])];
        mill.run(Batch::new(suite, Direction::Encrypt, &mut ops, &mut [0; 80])).expect("runs");
        assert_eq!(ops[0].status, OpStatus::Done);
    }
}

#[test]
fn the_service_is_watched_with_a_row_a_client() {
    let place = Place::new();
    let mut daemon = Daemon::start(&place);
    let (ends, socket) = (AtomicBool::new(false), place.path(SOCKET));
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| work(&socket, &ends));
        let begun = Instant::now();
        let seen = loop {
            let seen = json(&place.ok(["top", "--service", SOCKET, "--once", "--json", "--interval", "0.2"]));
            let clients = seen["clients"].as_array().expect("a list");
            if clients.iter().any(|client| client["operations_per_s"].as_f64().is_some_and(|rate| rate > 0.0)) {
                break seen;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "no client works: {seen}");
        };
        let text = place.ok(["top", "--service", SOCKET, "--once", "--interval", "0.1"]);
        assert!(text.contains("the service at") && text.contains("requests/s") && text.contains("lanes"), "{text}");
        ends.store(true, Ordering::Relaxed);
        seen
    });
    let client = &seen["clients"][0];
    let number = |name: &str| client[name].as_f64().expect("a number");
    assert_eq!((client["pid"].as_u64(), client["keys"].as_u64()), (Some(std::process::id().into()), Some(1)));
    assert!(number("requests_per_s") > 0.0 && number("mb_per_s") > 0.0 && number("share") > 0.0, "{client}");
    assert!(number("share") <= 1.0 && client["program"].as_str().is_some_and(|path| path.contains("cli")), "{client}");
    assert!(seen["engines"].as_array().is_some_and(|engines| !engines.is_empty()), "{seen}");

    // Until Ctrl-C, or the service's end.
    let watch = || {
        let args = ["top", "--service", SOCKET, "--interval", "0.05"];
        let mut child = place.command(args).stdout(Stdio::piped()).spawn().expect("starts");
        let mut said = BufReader::new(child.stdout.take().expect("piped"));
        said.read_line(&mut String::new()).expect("text");
        (child, said)
    };
    let (mut child, _said) = watch();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).expect("it runs");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    let (mut child, mut said) = watch();
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.end(), Some(0));
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert!(rest.ends_with("The service that was watched has ended.\n"), "{rest}");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    place.fails(1, &[SOCKET], ["top", "--service", SOCKET]);
    place.fails(2, &["--service"], ["top", "--service", SOCKET, "--socket", "mill.sock"]);
}

/// Requests on their way through the service, and pools of workers as the configuration has them.
#[test]
fn spans_of_requests_are_logged_when_they_are_asked_for() {
    let place = Place::new();
    std::fs::write(place.path("ciphermill.toml"), "[service]\npools = [\"0\", \"0\"]\nworkers = 3\n").expect("written");
    let mut daemon = Daemon::start_with(&place, |command| {
        command.env("RUST_LOG", "ciphermill::request=trace,ciphermill::batch=trace");
    });
    let status = place.ok(["service", "status", "--socket", SOCKET]);
    assert!(status.contains("workers   3 in 2 pools"), "{status}");
    let ends = AtomicBool::new(false);
    let socket = place.path(SOCKET);
    std::thread::scope(|scope| {
        scope.spawn(|| work(&socket, &ends));
        // Self-tests and key checks of the service's own mill have spans of batches alone.
        let mut line = daemon.line();
        while !line.contains("requests{") {
            line = daemon.line();
        }
        ends.store(true, Ordering::Relaxed);
        assert!(line.contains("suite=") && line.contains("ops=") && line.contains("clients=["), "{line}");
        assert!(line.contains("time.busy"), "{line}");
        daemon.signal(Signal::SIGTERM);
        // Workers wait until their lines are read.
        while !daemon.line().is_empty() {}
    });
    assert_eq!(daemon.end(), Some(0));
}

#[test]
fn what_cannot_be_served_is_said() {
    let place = Place::new();
    place.write("file", "text");
    for (args, said) in [
        (vec!["service", "run", "--socket", "file"], "no socket"),
        (vec!["service", "run", "--socket", "file/socket"], "file/socket"),
        (vec!["service", "run", "--socket", SOCKET, "--engine", "service"], "cannot run on a service"),
        (vec!["service", "run", "--socket", SOCKET, "--engine", "abacus"], "abacus"),
        (vec!["service", "run", "--socket", SOCKET, "--workers", "0"], "workers"),
    ] {
        let ran = place.run(args.clone());
        assert!(ran.code != Some(0) && ran.err.contains(said), "{args:?}: {}", ran.err);
    }
    place.write("ciphermill.toml", "[service]\naccess.users = [\"nobody at all\"]\n");
    let ran = place.run(["service", "run", "--socket", SOCKET]);
    assert!(ran.code == Some(1) && ran.err.contains("service.access.users"), "{}", ran.err);
}
