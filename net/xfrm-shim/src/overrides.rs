//! The functions that take the place of the C library's. Each passes on what is not about a socket of ours; none can panic, since
//! nothing is indexed, unwrapped or allocated.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use libc::{AF_NETLINK, msghdr, sa_family_t, size_t, sockaddr, sockaddr_nl, socklen_t, ssize_t};

use crate::sockets::{self, Socket};
use crate::{control, next};

/// Writes a netlink address where a caller wants one, cut to its room, and the whole length.
///
/// # Safety
/// `to` is null or has room for as many bytes as `len`, if that is not null, says.
unsafe fn write_address(port: u32, groups: u32, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() || len.is_null() {
        return;
    }
    // SAFETY: zeros are an address of netlink, which is numbers alone.
    let mut address: sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = AF_NETLINK as sa_family_t;
    address.nl_pid = port;
    address.nl_groups = groups;
    // SAFETY: the length is not null, and as the caller says a number that may be read and written.
    let room = unsafe { *len } as usize;
    let whole = size_of::<sockaddr_nl>();
    // SAFETY: no more than there is room for is written, as the caller says, and no more than the address has is read.
    unsafe { std::ptr::copy_nonoverlapping((&raw const address).cast::<u8>(), to.cast::<u8>(), room.min(whole)) };
    // SAFETY: as above.
    unsafe { *len = whole as socklen_t };
}

/// What a receiving call on our socket returns: the end of the server, which netlink does not have, is an error.
fn received(outcome: ssize_t, asked: bool) -> ssize_t {
    if outcome == 0 && asked { next::fails(libc::ECONNRESET) as ssize_t } else { outcome }
}

/// What a sending call returns: without a server there is no kernel to send to.
fn sent(outcome: ssize_t) -> ssize_t {
    if outcome >= 0 {
        return outcome;
    }
    // SAFETY: the C library gives the calling thread's own number.
    match unsafe { *libc::__errno_location() } {
        libc::EPIPE | libc::ECONNRESET | libc::ENOTCONN => next::fails(libc::ECONNREFUSED) as ssize_t,
        _ => outcome,
    }
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    let ours = if domain == AF_NETLINK && protocol == libc::NETLINK_XFRM { control::socket(kind) } else { None };
    // SAFETY: the arguments are passed on.
    ours.unwrap_or_else(|| unsafe { next::socket(domain, kind, protocol) })
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let Some(socket) = sockets::find(fd) else {
        // SAFETY: the arguments are passed on.
        return unsafe { next::bind(fd, address, len) };
    };
    if address.is_null() || (len as usize) < size_of::<sockaddr_nl>() {
        return next::fails(libc::EINVAL);
    }
    // SAFETY: the address has at least that length, and the structure is numbers alone.
    let address = unsafe { address.cast::<sockaddr_nl>().read_unaligned() };
    if c_int::from(address.nl_family) != AF_NETLINK {
        return next::fails(libc::EINVAL);
    }
    if address.nl_pid != 0 {
        socket.port.store(address.nl_pid, Ordering::Relaxed);
    }
    socket.groups.store(address.nl_groups, Ordering::Relaxed);
    control::tell(fd, socket)
}

/// A socket of ours is connected already; only the address's family is looked at.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    if sockets::find(fd).is_some() {
        return 0;
    }
    // SAFETY: the arguments are passed on.
    unsafe { next::connect(fd, address, len) }
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockname(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let Some(socket) = sockets::find(fd) else {
        // SAFETY: the arguments are passed on.
        return unsafe { next::getsockname(fd, address, len) };
    };
    // SAFETY: the function's callers give room for as many bytes as they say.
    unsafe { write_address(control::port(socket), socket.groups.load(Ordering::Relaxed), address, len) };
    0
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    match sockets::find(fd).filter(|_| level == libc::SOL_NETLINK) {
        // SAFETY: the function's callers have as many bytes at `value` as they say.
        Some(socket) => unsafe { set_netlink_option(fd, socket, name, value, len) },
        // SAFETY: the arguments are passed on.
        None => unsafe { next::setsockopt(fd, level, name, value, len) },
    }
}

/// # Safety
/// `value` is null or has `len` bytes.
unsafe fn set_netlink_option(fd: c_int, socket: &Socket, name: c_int, value: *const c_void, len: socklen_t) -> c_int {
    if value.is_null() || (len as usize) < size_of::<u32>() {
        return next::fails(libc::EINVAL);
    }
    // SAFETY: there are at least four bytes, as the caller says.
    let value = unsafe { value.cast::<u32>().read_unaligned() };
    match name {
        libc::NETLINK_ADD_MEMBERSHIP | libc::NETLINK_DROP_MEMBERSHIP if !(1..=32).contains(&value) => {
            return next::fails(libc::EINVAL);
        }
        libc::NETLINK_ADD_MEMBERSHIP => socket.groups.fetch_or(1 << (value - 1), Ordering::Relaxed),
        libc::NETLINK_DROP_MEMBERSHIP => socket.groups.fetch_and(!(1 << (value - 1)), Ordering::Relaxed),
        libc::NETLINK_EXT_ACK => socket.words.swap(value, Ordering::Relaxed),
        // Errors always have no more of the request than its header. Requests of other kinds are not dumped either way.
        libc::NETLINK_CAP_ACK | libc::NETLINK_GET_STRICT_CHK => return 0,
        // The server lets no daemon lag, so that there is no loss to be silent about.
        libc::NETLINK_NO_ENOBUFS | libc::NETLINK_BROADCAST_ERROR => return 0,
        _ => return next::fails(libc::ENOPROTOOPT),
    };
    control::tell(fd, socket)
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send(fd: c_int, bytes: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    if sockets::find(fd).is_none() {
        // SAFETY: the arguments are passed on.
        return unsafe { next::send(fd, bytes, len, flags) };
    }
    // SAFETY: the arguments are passed on.
    sent(unsafe { next::send(fd, bytes, len, flags | libc::MSG_NOSIGNAL) })
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    if sockets::find(fd).is_none() {
        // SAFETY: the arguments are passed on.
        return unsafe { next::sendto(fd, bytes, len, flags, to, to_len) };
    }
    // SAFETY: the arguments are passed on, less the address.
    sent(unsafe { next::send(fd, bytes, len, flags | libc::MSG_NOSIGNAL) })
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    if sockets::find(fd).is_none() || message.is_null() {
        // SAFETY: the arguments are passed on.
        return unsafe { next::sendmsg(fd, message, flags) };
    }
    // SAFETY: the message is one, as the function's callers say; what it points to is read by the call below alone.
    let mut own = unsafe { message.read() };
    own.msg_name = std::ptr::null_mut();
    own.msg_namelen = 0;
    own.msg_control = std::ptr::null_mut();
    own.msg_controllen = 0;
    // SAFETY: it is the caller's message, less addresses and ancillary data.
    sent(unsafe { next::sendmsg(fd, &raw const own, flags | libc::MSG_NOSIGNAL) })
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recv(fd: c_int, bytes: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are passed on.
    let outcome = unsafe { next::recv(fd, bytes, len, flags) };
    if outcome != 0 || sockets::find(fd).is_none() {
        return outcome;
    }
    received(outcome, len > 0 || flags & libc::MSG_TRUNC != 0)
}

/// What programs call that are built with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recv_chk(fd: c_int, bytes: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the arguments are passed on.
    let outcome = unsafe { next::recv_chk(fd, bytes, len, room, flags) };
    if outcome != 0 || sockets::find(fd).is_none() {
        return outcome;
    }
    received(outcome, len > 0 || flags & libc::MSG_TRUNC != 0)
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if sockets::find(fd).is_none() {
        // SAFETY: the arguments are passed on.
        return unsafe { next::recvfrom(fd, bytes, len, flags, from, from_len) };
    }
    // SAFETY: the arguments are passed on, less the address.
    let outcome = received(unsafe { next::recv(fd, bytes, len, flags) }, len > 0 || flags & libc::MSG_TRUNC != 0);
    if outcome >= 0 {
        // SAFETY: the function's callers give room for as many bytes as they say.
        unsafe { write_address(0, 0, from, from_len) };
    }
    outcome
}

/// What programs call that are built with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    bytes: *mut c_void,
    len: size_t,
    room: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    if len > room || sockets::find(fd).is_none() {
        // SAFETY: the arguments are passed on; the C library ends a program that has too little room.
        return unsafe { next::recvfrom_chk(fd, bytes, len, room, flags, from, from_len) };
    }
    // SAFETY: the arguments are passed on, and there is room enough.
    unsafe { recvfrom(fd, bytes, len, flags, from, from_len) }
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    if sockets::find(fd).is_none() || message.is_null() {
        // SAFETY: the arguments are passed on.
        return unsafe { next::recvmsg(fd, message, flags) };
    }
    // SAFETY: the message is one, as the function's callers say.
    let asked = unsafe { (*message).msg_name };
    // SAFETY: as above.
    let mut room = unsafe { (*message).msg_namelen };
    // SAFETY: the caller's message is passed on. The server's own address, as far as there is room for it, is written over below.
    let outcome = unsafe { next::recvmsg(fd, message, flags) };
    // SAFETY: as above. A message that is cut to nothing is there, other than the end of the server.
    let outcome = received(outcome, unsafe { (*message).msg_flags } & libc::MSG_TRUNC == 0);
    if outcome >= 0 {
        // SAFETY: the function's callers give room for as many bytes as they say.
        unsafe { write_address(0, 0, asked.cast(), &raw mut room) };
        // SAFETY: as above.
        unsafe { (*message).msg_namelen = if asked.is_null() { 0 } else { room } };
    }
    outcome
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: the argument is passed on.
    let new = unsafe { next::dup(fd) };
    sockets::copy(fd, new);
    new
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: the arguments are passed on.
    let new = unsafe { next::dup2(fd, to) };
    sockets::copy(fd, new);
    new
}

/// # Safety
/// As of the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the arguments are passed on.
    let new = unsafe { next::dup3(fd, to, flags) };
    sockets::copy(fd, new);
    new
}
