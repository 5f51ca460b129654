//! Who is let in: a process of another user, in a unit of its own, as far as this machine lets a test make one.

#![allow(clippy::expect_used, reason = "tests")]

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use ciphermill_channel::{Answer, Ask, VERSION, write_frame};
use ciphermill_service::{Access, Options, Reload};
use common::Running;
use common::campaign::turn;
use common::raw::Raw;

const NOBODY: u32 = 65_534;

/// Where the service is, for the other process.
const SOCKET: &str = "CIPHERMILL_TEST_SOCKET";

/// A unit as the kernel sees it: a folder of the control groups. systemd need not run for it.
struct Unit {
    slice: PathBuf,
    folder: PathBuf,
    slice_name: String,
    name: String,
}

impl Unit {
    /// `None` where there are no control groups of version 2, or this process may not make any.
    fn new() -> Option<Unit> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let root = PathBuf::from(fields.find(|fields| fields.get(2) == Some(&"cgroup2"))?.get(1)?);
        let number = std::process::id();
        let (slice_name, name) = (format!("ciphermill{number}.slice"), format!("test{number}.service"));
        let slice = root.join(&slice_name);
        let folder = slice.join(&name);
        std::fs::create_dir_all(&folder).ok()?;
        Some(Unit { slice, folder, slice_name, name })
    }

    fn take(&self, child: &Child) -> bool {
        std::fs::write(self.folder.join("cgroup.procs"), child.id().to_string()).is_ok()
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // Empty as soon as the process is gone; what is left otherwise is an empty folder.
        let _ = std::fs::remove_dir(&self.folder);
        let _ = std::fs::remove_dir(&self.slice);
    }
}

/// Another process that connects when it is told to.
struct Other {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Other {
    fn start(socket: &Path) -> Other {
        let mut child = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "another_process", "--ignored", "--nocapture"])
            .env(SOCKET, socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(NOBODY)
            .gid(NOBODY)
            .spawn()
            .expect("starts");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        Other { child, said }
    }

    /// What it is told when it connects.
    fn connects(&mut self) -> String {
        self.child.stdin.as_mut().expect("piped").write_all(b"\n").expect("it runs");
        loop {
            let mut line = String::new();
            assert!(self.said.read_line(&mut line).expect("text") > 0, "it has ended");
            if let Some(answer) = line.trim_end().strip_prefix("ANSWER: ") {
                return answer.to_owned();
            }
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "another process of the test below"]
fn another_process() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let mut connections = Vec::new();
    for _ in std::io::stdin().lines() {
        let mut raw = Raw::connect(Path::new(&socket));
        // The service may have hung up already.
        let _ = write_frame(&raw.socket, &Ask::Hello { version: VERSION }.to_bytes(), &[]);
        match raw.hear() {
            Some((Answer::Welcome { .. }, _)) => println!("\nANSWER: welcome"),
            other => println!("\nANSWER: {other:?}"),
        }
        connections.push(raw);
    }
}

fn text(answer: Answer) -> serde_json::Value {
    let Answer::Text(text) = answer else { panic!("{answer:?}") };
    serde_json::from_str(&text).expect("JSON")
}

/// What may be configured, and whether the other process is let in then. It runs this very program, in this unit and slice if there is one.
fn rules(service: &str, slice: &str, has_unit: bool) -> Vec<(Access, bool)> {
    let (own, sh) = (std::env::current_exe().expect("a path"), PathBuf::from("/bin/sh"));
    let of = |users: &[u32], units: &[&str], executables: &[&PathBuf]| Access {
        users: users.to_vec(),
        units: units.iter().map(|unit| (*unit).to_owned()).collect(),
        executables: executables.iter().map(|path| (*path).clone()).collect(),
        ..Access::default()
    };
    vec![
        (Access::default(), false),
        (of(&[NOBODY], &[], &[]), true),
        (Access { groups: vec![NOBODY], ..Access::default() }, true),
        (Access { users: vec![4711], groups: vec![NOBODY], ..Access::default() }, true),
        (of(&[], &[service], &[]), has_unit),
        (of(&[], &[slice], &[]), has_unit),
        (of(&[], &["other.service", service], &[]), has_unit),
        (of(&[], &["other.service"], &[]), false),
        (of(&[NOBODY], &["other.service"], &[]), false),
        (of(&[NOBODY], &[service], &[]), has_unit),
        (of(&[4711], &[service], &[]), false),
        (of(&[], &[], &[&own]), true),
        (of(&[], &[], &[&sh, &own]), true),
        (of(&[], &[], &[&sh]), false),
        (of(&[NOBODY], &[], &[&sh]), false),
        (of(&[], &[service], &[&own]), has_unit),
        (of(&[], &[service], &[&sh]), false),
        (Access { all: true, ..of(&[], &["other.service"], &[]) }, false),
        (Access { all: true, ..Access::default() }, true),
    ]
}

#[test]
fn people_and_places_are_let_in_by_one_rule_and_shown() {
    let _turn = turn();
    if !rustix::process::geteuid().is_root() {
        println!("NOTE: only root can start a process of another user; this test was not run");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("its own");
    let (socket, log) = (folder.path().join("socket"), folder.path().join("audit"));
    let audit = |options: &mut Options| options.audit = Some(log.clone());
    let running = Running::start_at(socket.clone(), None, audit);
    std::fs::set_permissions(&socket, PermissionsExt::from_mode(0o666)).expect("its own");
    let unit = Unit::new();
    let mut other = Other::start(&socket);
    let unit = unit.filter(|unit| unit.take(&other.child));
    let own = std::env::current_exe().expect("a path");
    let (service, slice) = match &unit {
        Some(unit) => (unit.name.clone(), unit.slice_name.clone()),
        None => {
            println!("NOTE: no control groups of version 2 can be made here; units were not tried");
            ("none.service".to_owned(), "none.slice".to_owned())
        }
    };
    let has_unit = unit.is_some();
    let remote = running.service.as_ref().expect("it runs").remote();
    let mut manager = Raw::greeted(&socket);
    for (access, is_let_in) in rules(&service, &slice, has_unit) {
        let options = Options { access: access.clone(), audit: Some(log.clone()), ..Options::default() };
        remote.reload(Reload { options, vault: None });
        // What was sent before is in force when the next message is answered.
        manager.status();
        let answer = other.connects();
        assert_eq!(answer == "welcome", is_let_in, "{access:?}: {answer}");
        assert!(is_let_in || answer.contains(&format!("user {NOBODY}")), "{answer}");
        assert!(Raw::admitted(&socket).is_some(), "the service's own user always is: {access:?}");
    }
    let rows = text(manager.ask(&Ask::Clients));
    let pid = other.child.id();
    let row = rows.as_array().expect("a list").iter().find(|row| row["pid"] == pid).expect("it is connected");
    assert_eq!(row["program"], own.display().to_string());
    assert_eq!(row["unit"].as_str(), unit.as_ref().map(|unit| unit.name.as_str()));
    let log = std::fs::read_to_string(&log).expect("a log");
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let own_lines: Vec<_> = lines.filter(|line| line["pid"] == pid).collect();
    for event in ["turned away", "connected"] {
        let line = own_lines.iter().find(|line| line["event"] == event).expect("written");
        assert_eq!((&line["unit"], &line["program"]), (&row["unit"], &row["program"]));
    }
}
