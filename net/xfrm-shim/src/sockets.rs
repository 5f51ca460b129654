//! Which descriptors are ours, and what each of them is bound to.
//!
//! A table by descriptor, in memory of the library itself: nothing is allocated, and a signal or a fork finds it whole. Each entry
//! names the socket by its inode, which no other socket has: a descriptor that was closed and given out again is not taken for ours.
//! Nothing has to be done when one is closed, so that a child that shares this memory (`vfork`) may close all of its own.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Descriptors above this are refused; daemons have a few dozen.
const DESCRIPTORS_MAX: usize = 4096;

/// What is known of a socket.
pub(crate) struct Socket {
    /// The socket's inode; 0 where the descriptor is not ours.
    inode: AtomicU64,
    /// Its address, `nl_pid`; 0 until it has one.
    pub(crate) port: AtomicU32,
    /// Groups that it hears, the first as the lowest bit.
    pub(crate) groups: AtomicU32,
    /// Whether errors come with words.
    pub(crate) words: AtomicU32,
}

static SOCKETS: [Socket; DESCRIPTORS_MAX] = [const {
    Socket { inode: AtomicU64::new(0), port: AtomicU32::new(0), groups: AtomicU32::new(0), words: AtomicU32::new(0) }
}; DESCRIPTORS_MAX];

fn entry(fd: c_int) -> Option<&'static Socket> {
    usize::try_from(fd).ok().and_then(|fd| SOCKETS.get(fd))
}

fn inode(fd: c_int) -> Option<u64> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: there is room for a status behind the pointer.
    let done = unsafe { libc::fstat(fd, status.as_mut_ptr()) } == 0;
    // SAFETY: zeros are a status, and so is what the call writes over them.
    let status = unsafe { status.assume_init() };
    (done && status.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(status.st_ino)
}

/// The descriptor's socket, if it is one of ours.
pub(crate) fn find(fd: c_int) -> Option<&'static Socket> {
    let socket = entry(fd)?;
    let known = socket.inode.load(Ordering::Acquire);
    (known != 0 && inode(fd) == Some(known)).then_some(socket)
}

/// Enters a new socket; says whether there was room.
pub(crate) fn enter(fd: c_int) -> bool {
    let (Some(socket), Some(inode)) = (entry(fd), inode(fd)) else { return false };
    socket.port.store(0, Ordering::Relaxed);
    socket.groups.store(0, Ordering::Relaxed);
    socket.words.store(0, Ordering::Relaxed);
    socket.inode.store(inode, Ordering::Release);
    true
}

/// Enters a second descriptor of the same socket.
pub(crate) fn copy(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    let Some(old) = find(from) else { return };
    if enter(to)
        && let Some(new) = entry(to)
    {
        new.port.store(old.port.load(Ordering::Relaxed), Ordering::Relaxed);
        new.groups.store(old.groups.load(Ordering::Relaxed), Ordering::Relaxed);
        new.words.store(old.words.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
