//! What the server is told of a socket, and how the connection to it is made.
//!
//! The message is netlink's header with a number that netlink keeps for itself, followed by a version, the socket's address, its
//! groups and its wishes; the server reads it in `net/xfrm/src/control.rs`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{sa_family_t, sockaddr, sockaddr_un, socklen_t};

use crate::next;
use crate::sockets::{self, Socket};

const CONTROL: u16 = 0x0e;
const VERSION: u32 = 1;
/// Errors come with words (`NETLINK_EXT_ACK`).
pub(crate) const WORDS: u32 = 1;
/// Bytes of the message.
const LEN: usize = 32;
/// How long the server may take to read of a change: steps of 100 µs.
const STEPS_MAX: u32 = 20_000;

/// The next address of a socket that does not choose one: the process's own number first, as netlink has it, then others that
/// netlink would give out, too.
fn free_port() -> u32 {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // SAFETY: the call has no arguments, and cannot fail.
    let process = unsafe { libc::getpid() }.cast_unsigned();
    match TAKEN.fetch_add(1, Ordering::Relaxed) {
        0 => process,
        taken => (0x8000_0000 | taken << 22) ^ process,
    }
}

/// The socket's address, which it gets when it first needs one.
pub(crate) fn port(socket: &Socket) -> u32 {
    let known = socket.port.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let new = free_port();
    socket.port.store(new, Ordering::Relaxed);
    new
}

/// Tells the server how the socket stands, and waits until it has read that. The result is that of the call that brought this
/// about.
pub(crate) fn tell(fd: c_int, socket: &Socket) -> c_int {
    let port = port(socket);
    let words = if socket.words.load(Ordering::Relaxed) == 0 { 0 } else { WORDS };
    let mut message = [0; LEN];
    let fields = [
        LEN as u32,
        u32::from_ne_bytes(two_halves(CONTROL, 0)),
        0,
        port,
        VERSION,
        port,
        socket.groups.load(Ordering::Relaxed),
        words,
    ];
    for (place, field) in message.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
    // SAFETY: the message has as many bytes as is said.
    let sent = unsafe { next::send(fd, message.as_ptr().cast(), LEN, libc::MSG_NOSIGNAL) };
    if sent != LEN as isize || !was_read(fd) {
        return next::fails(libc::ECONNREFUSED);
    }
    0
}

fn two_halves(first: u16, second: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), second.to_ne_bytes());
    [a, b, c, d]
}

/// Waits until the other side has taken everything that was sent.
fn was_read(fd: c_int) -> bool {
    for _ in 0..STEPS_MAX {
        let mut unread: c_int = 0;
        // SAFETY: the request writes one number, for which there is room.
        if unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut unread) } != 0 {
            return false;
        }
        if unread == 0 {
            return true;
        }
        // SAFETY: the call has no pointers.
        unsafe { libc::usleep(100) };
    }
    false
}

/// A socket that is connected to the server, in the place of one of netlink; `kind` has its flags. `None` if the calls shall go
/// to the kernel, since no server is named.
pub(crate) fn socket(kind: c_int) -> Option<c_int> {
    // SAFETY: the name ends with a zero. That nobody changes the environment meanwhile is what every reader of it relies on.
    let path = unsafe { libc::getenv(c"CIPHERMILL_XFRM".as_ptr()) };
    if path.is_null() {
        return None;
    }
    let mut address = sockaddr_un { sun_family: libc::AF_UNIX as sa_family_t, sun_path: [0; 108] };
    // SAFETY: the C library keeps variables as texts that end with a zero.
    let len = unsafe { libc::strlen(path) };
    // SAFETY: that many bytes stand before the zero.
    let path = unsafe { std::slice::from_raw_parts(path, len) };
    if len == 0 || len >= address.sun_path.len() {
        return Some(next::fails(libc::ECONNREFUSED));
    }
    for (to, from) in address.sun_path.iter_mut().zip(path) {
        *to = *from;
    }
    let flags = kind & (libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK);
    // SAFETY: the call has no pointers.
    let fd = unsafe { next::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | flags, 0) };
    if fd < 0 {
        return Some(fd);
    }
    if !connect(fd, &address) || !sockets::enter(fd) {
        // SAFETY: the descriptor is ours, and nobody else knows it.
        unsafe { libc::close(fd) };
        return Some(next::fails(libc::ECONNREFUSED));
    }
    if sockets::find(fd).is_none_or(|socket| tell(fd, socket) != 0) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
        return Some(next::fails(libc::ECONNREFUSED));
    }
    Some(fd)
}

/// Connects, and looks at who listens there: whoever it is gets keys.
fn connect(fd: c_int, address: &sockaddr_un) -> bool {
    let len = size_of::<sockaddr_un>() as socklen_t;
    // SAFETY: the address is one, of that length.
    if unsafe { next::connect(fd, (&raw const *address).cast::<sockaddr>(), len) } != 0 {
        return false;
    }
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as socklen_t;
    // SAFETY: there is room for what is asked for, of that length.
    let asked =
        unsafe { next::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut len) };
    // SAFETY: the call has no arguments, and cannot fail.
    asked == 0 && (peer.uid == 0 || peer.uid == unsafe { libc::geteuid() })
}
