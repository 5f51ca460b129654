//! The system calls that change files, or open them, and what they concern.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use libc::user_regs_struct as Registers;
use nix::sys::ptrace;
use nix::unistd::Pid;

/// The longest path that the kernel takes.
const PATH_LEN_MAX: usize = libc::PATH_MAX as usize;

/// What of a call's arguments says which file it concerns, by the argument's position.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Path(usize),
    Descriptor(usize),
    /// A socket's address; only those of the file system count.
    Address(usize),
}

/// A system call that the tracer stops at.
pub(crate) struct Watched {
    pub(crate) number: i64,
    pub(crate) name: &'static str,
    target: Target,
}

const fn path(number: i64, name: &'static str, argument: usize) -> Watched {
    Watched { number, name, target: Target::Path(argument) }
}

const fn descriptor(number: i64, name: &'static str) -> Watched {
    Watched { number, name, target: Target::Descriptor(0) }
}

/// A call that copies between descriptors, known by the one that is written to.
const fn copying(number: i64, name: &'static str, argument: usize) -> Watched {
    Watched { number, name, target: Target::Descriptor(argument) }
}

/// Calls with two paths are known by the one that changes: the new name.
pub(crate) const CALLS: &[Watched] = &[
    path(libc::SYS_open, "open", 0),
    path(libc::SYS_openat, "openat", 1),
    path(libc::SYS_openat2, "openat2", 1),
    path(libc::SYS_creat, "creat", 0),
    path(libc::SYS_rename, "rename", 1),
    path(libc::SYS_renameat, "renameat", 3),
    path(libc::SYS_renameat2, "renameat2", 3),
    path(libc::SYS_link, "link", 1),
    path(libc::SYS_linkat, "linkat", 3),
    path(libc::SYS_symlink, "symlink", 1),
    path(libc::SYS_symlinkat, "symlinkat", 2),
    path(libc::SYS_unlink, "unlink", 0),
    path(libc::SYS_unlinkat, "unlinkat", 1),
    path(libc::SYS_mkdir, "mkdir", 0),
    path(libc::SYS_mkdirat, "mkdirat", 1),
    path(libc::SYS_rmdir, "rmdir", 0),
    path(libc::SYS_chmod, "chmod", 0),
    path(libc::SYS_fchmodat, "fchmodat", 1),
    path(libc::SYS_truncate, "truncate", 0),
    descriptor(libc::SYS_fchmod, "fchmod"),
    descriptor(libc::SYS_ftruncate, "ftruncate"),
    descriptor(libc::SYS_fallocate, "fallocate"),
    descriptor(libc::SYS_fsync, "fsync"),
    descriptor(libc::SYS_fdatasync, "fdatasync"),
    descriptor(libc::SYS_sync_file_range, "sync_file_range"),
    descriptor(libc::SYS_flock, "flock"),
    descriptor(libc::SYS_write, "write"),
    descriptor(libc::SYS_pwrite64, "pwrite64"),
    descriptor(libc::SYS_writev, "writev"),
    descriptor(libc::SYS_pwritev, "pwritev"),
    descriptor(libc::SYS_pwritev2, "pwritev2"),
    copying(libc::SYS_sendfile, "sendfile", 0),
    copying(libc::SYS_copy_file_range, "copy_file_range", 2),
    copying(libc::SYS_splice, "splice", 2),
    Watched { number: libc::SYS_bind, name: "bind", target: Target::Address(1) },
    Watched { number: libc::SYS_connect, name: "connect", target: Target::Address(1) },
];

/// One call that the program made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name in the manual's section 2.
    pub name: &'static str,
    /// The path, relative to the program's folder where it lies below it.
    pub target: PathBuf,
}

/// The call that `pid` is about to make, when it concerns `folder` or standard output.
pub(crate) fn inspect(pid: Pid, registers: &Registers, folder: &Path) -> Option<Call> {
    let number = i64::try_from(registers.orig_rax).ok()?;
    let watched = CALLS.iter().find(|watched| watched.number == number)?;
    let target = match watched.target {
        Target::Path(argument) => {
            // A process that may not be read (dumps disabled, tracer without privileges) is taken to mean the folder.
            below(folder, read_path(pid, argument_at(registers, argument)).unwrap_or_default())?
        }
        Target::Address(argument) => {
            let address = argument_at(registers, argument);
            // `sockaddr_un`: the family in two bytes, and the path.
            let family = ptrace::read(pid, address as ptrace::AddressType).ok()?.to_ne_bytes();
            if family[..2] != (libc::AF_UNIX as u16).to_ne_bytes() {
                return None;
            }
            below(folder, read_path(pid, address + 2).ok()?)?
        }
        Target::Descriptor(argument) => {
            let number = argument_at(registers, argument) as i32;
            match fs::read_link(format!("/proc/{pid}/fd/{number}")) {
                _ if number == 1 || number == 2 => PathBuf::from(format!("descriptor {number}")),
                Ok(path) => path.strip_prefix(folder).ok()?.to_owned(),
                Err(_) => PathBuf::from(format!("descriptor {number}")),
            }
        }
    };
    Some(Call { name: watched.name, target })
}

/// A path relative to the folder; `None` when it leads elsewhere.
fn below(folder: &Path, path: PathBuf) -> Option<PathBuf> {
    if path.is_absolute() { Some(path.strip_prefix(folder).ok()?.to_owned()) } else { Some(path) }
}

/// The argument at a position (x86-64 calling convention of the kernel).
fn argument_at(registers: &Registers, position: usize) -> u64 {
    [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9][position]
}

fn read_path(pid: Pid, address: u64) -> nix::Result<PathBuf> {
    const WORD_LEN: u64 = size_of::<usize>() as u64;
    let mut bytes = Vec::new();
    // Whole aligned words, so that no word crosses into a page that is not there.
    let mut skip = (address % WORD_LEN) as usize;
    let mut at = address - address % WORD_LEN;
    while bytes.len() < PATH_LEN_MAX {
        let word = ptrace::read(pid, at as ptrace::AddressType)?.to_ne_bytes();
        for byte in &word[skip..] {
            if *byte == 0 {
                return Ok(PathBuf::from(std::ffi::OsString::from_vec(bytes)));
            }
            bytes.push(*byte);
        }
        skip = 0;
        at += WORD_LEN;
    }
    Err(nix::Error::ENAMETOOLONG)
}
