//! Which unit of systemd a client's process belongs to, and which program it runs.
//!
//! The kernel says both in `/proc/PID`, by the process's number, which another process may have by then. A descriptor of the process
//! (pidfd) tells: what was read counts only if the process that connected has not ended since. What cannot be read is not known, and
//! matches nothing.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::peer::Peer;

/// Bytes of `/proc/PID/cgroup` and `/proc/PID/comm` that are read; the kernel's own limit of a path is 4,096.
const PROC_LEN_MAX: u64 = 16 << 10;

/// A file by device and number, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file at `path`; `None` for one that is not there or must not be looked at.
    pub(crate) fn of(path: &Path) -> Option<FileId> {
        std::fs::metadata(path).ok().map(|metadata| FileId::from(&metadata))
    }
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// What is known of a client's process beyond its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its unit and the slices around it, the outermost first.
    units: Vec<String>,
    /// The file that it runs, …
    executable: Option<FileId>,
    /// … and how it is called. In another mount namespace that may be the name of any file here, so that it is for people alone.
    path: Option<PathBuf>,
    /// What it calls itself.
    command: Option<String>,
}

impl Process {
    /// The process at the other side of a connection.
    pub(crate) fn of(socket: &UnixStream, peer: &Peer) -> Process {
        let Some(handle) = handle_of(socket, peer) else { return Process::default() };
        let process = Process::read(peer.pid);
        if is_alive(&handle) { process } else { Process::default() }
    }

    fn read(pid: i32) -> Process {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let executable = folder.join("exe");
        Process {
            units: text(&folder.join("cgroup")).map(|text| units(&text)).unwrap_or_default(),
            executable: FileId::of(&executable),
            path: std::fs::read_link(executable).ok(),
            command: text(&folder.join("comm")).map(|text| text.trim_end().to_owned()),
        }
    }

    /// The unit: a service or a scope, or a slice for a process that is in neither.
    pub(crate) fn unit(&self) -> Option<&str> {
        self.units.last().map(String::as_str)
    }

    /// The program, as far as it may be known.
    pub(crate) fn program(&self) -> Option<String> {
        self.path.as_ref().map(|path| path.display().to_string())
    }

    /// What the process calls itself: any process may call itself anything.
    pub(crate) fn command(&self) -> Option<&str> {
        self.command.as_deref()
    }

    /// Whether it is in one of these units, or in a slice that is among them.
    pub(crate) fn is_in(&self, units: &[String]) -> bool {
        self.units.iter().any(|own| units.contains(own))
    }

    /// Whether it runs one of these files.
    pub(crate) fn runs(&self, executables: &[PathBuf]) -> bool {
        self.executable.is_some_and(|own| executables.iter().any(|path| FileId::of(path) == Some(own)))
    }
}

/// A descriptor of the process that connected. Where the kernel has none for a socket (before Linux 6.5), one of whoever has its number.
fn handle_of(socket: &UnixStream, peer: &Peer) -> Option<OwnedFd> {
    let pid = Pid::from_raw(peer.pid)?;
    match peer_handle(socket) {
        Ok(handle) => Some(handle),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => pidfd_open(pid, PidfdFlags::empty()).ok(),
        Err(_) => None,
    }
}

/// Whether this process is told which programs those of other users run: by its capabilities in force (proc(5), CapEff).
pub(crate) fn sees_programs() -> bool {
    /// `include/uapi/linux/capability.h`.
    const CAP_SYS_PTRACE: u64 = 1 << 19;
    text(Path::new("/proc/self/status"))
        .and_then(|status| capabilities(&status))
        .is_some_and(|has| has & CAP_SYS_PTRACE != 0)
}

fn capabilities(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// The process that connected, by `SO_PEERPIDFD` of Linux 6.5 and later.
fn peer_handle(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut handle: libc::c_int = -1;
    let mut len = size_of_val(&handle) as libc::socklen_t;
    let value = (&raw mut handle).cast();
    // SAFETY: the option's value is an integer, of the length that is given; both live beyond the call.
    #[allow(unsafe_code, reason = "rustix has no such option")]
    let result =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERPIDFD, value, &raw mut len) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if handle < 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel has made this descriptor for this call, and nobody else has it.
    #[allow(unsafe_code, reason = "rustix has no such option")]
    Ok(unsafe { OwnedFd::from_raw_fd(handle) })
}

/// Whether the process has not ended: its descriptor is readable when it has (pidfd_open(2)).
fn is_alive(handle: &OwnedFd) -> bool {
    let mut waited = [PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut waited, Some(&at_once)), Ok(0))
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(PROC_LEN_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The unit of `/proc/PID/cgroup` and the slices around it, the outermost first (cgroup v2 alone: the line `0::`).
///
/// As systemd itself finds a process's unit: slices come first, and the next component is the unit. What lies below is whoever's the unit
/// is: a user's own manager names units there as that user likes, and says nothing here. systemd puts a `_` before names that the kernel
/// has for itself.
fn units(cgroup: &str) -> Vec<String> {
    let Some(path) = cgroup.lines().find_map(|line| line.strip_prefix("0::/")) else { return Vec::new() };
    let mut units = Vec::new();
    for component in path.split('/') {
        let name = component.strip_prefix('_').unwrap_or(component);
        let is_slice = name.ends_with(".slice");
        if is_slice || name.ends_with(".service") || name.ends_with(".scope") {
            units.push(name.to_owned());
        }
        if !is_slice {
            break;
        }
    }
    units
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_unit_is_what_stands_behind_the_slices() {
        for (path, wanted) in [
            ("/system.slice/nginx.service", &["system.slice", "nginx.service"][..]),
            (
                "/system.slice/system-getty.slice/getty@tty1.service",
                &["system.slice", "system-getty.slice", "getty@tty1.service"],
            ),
            ("/user.slice/user-1000.slice/session-3.scope", &["user.slice", "user-1000.slice", "session-3.scope"]),
            ("/system.slice/docker-0123.scope/init.scope", &["system.slice", "docker-0123.scope"]),
            ("/system.slice/_cgroup.service", &["system.slice", "cgroup.service"]),
            ("/init.scope", &["init.scope"]),
            ("/machine.slice", &["machine.slice"]),
            ("/system.slice/nginx.service (deleted)", &["system.slice"]),
            ("/", &[]),
            ("/../other", &[]),
            ("/elsewhere/nginx.service", &[]),
        ] {
            assert_eq!(units(&format!("1:name=systemd:/x.service\n0::{path}\n")), wanted, "{path}");
        }
        assert!(units("4:memory:/system.slice/nginx.service\n").is_empty(), "cgroup v1 alone");
    }

    /// Whoever has a systemd of their own may call its units what they like.
    #[test]
    fn a_users_own_unit_is_not_the_systems_of_the_same_name() {
        let own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service\n";
        let process = Process { units: units(own), ..Process::default() };
        assert_eq!(process.unit(), Some("user@1000.service"));
        let is_in = |unit: &str| process.is_in(&[unit.to_owned()]);
        assert!(!is_in("nginx.service") && !is_in("app.slice"));
        assert!(is_in("user-1000.slice") && is_in("user@1000.service"), "slices stand for what is in them");
    }

    #[test]
    fn the_other_side_is_found_with_its_program() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = crate::socket::peer_of(&one).expect("known");
        let process = Process::of(&one, &peer);
        let own = std::env::current_exe().expect("a path");
        assert_eq!(process.program(), Some(own.display().to_string()));
        assert!(process.command().is_some_and(|command| !command.is_empty()));
        assert!(process.runs(&[PathBuf::from("/nowhere"), own.clone()]));
        assert!(!process.runs(&[PathBuf::from("/bin/sh")]) && !process.runs(&[]));
        // Another name of the same file is the same program; a file of the same content is not.
        let folder = tempfile::tempdir().expect("a folder");
        let (link, copy) = (folder.path().join("link"), folder.path().join("copy"));
        std::os::unix::fs::symlink(&own, &link).expect("a link");
        std::fs::copy(&own, &copy).expect("a copy");
        assert_eq!((process.runs(&[link]), process.runs(&[copy])), (true, false));
    }

    #[test]
    fn capabilities_are_read() {
        assert_eq!(capabilities("Name:\tx\nCapPrm:\t00\nCapEff:\t0000000000080001\nCapBnd:\t0\n"), Some(1 << 19 | 1));
        assert_eq!(capabilities("Name:\tx\n"), None);
    }

    #[test]
    fn nothing_is_known_of_a_process_that_has_ended_or_that_cannot_be_seen() {
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).spawn().expect("starts");
        let pid = Pid::from_raw(child.id() as i32).expect("a number");
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("a descriptor");
        assert!(is_alive(&handle));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert!(!is_alive(&handle));
        let (one, _other) = UnixStream::pair().expect("a pair");
        assert_eq!(Process::of(&one, &Peer { pid: 0, uid: 0, gid: 0 }), Process::default());
    }
}
