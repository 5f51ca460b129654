//! The system calls that no safe crate has: socket options and ioctls of interfaces, and waiting for a descriptor.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Octets of an interface's name with the zero behind it (`IFNAMSIZ`).
pub(crate) const NAME_SPACE: usize = libc::IFNAMSIZ;

/// Values that the kernel reads and writes as they lie in memory.
///
/// # Safety
/// Every pattern of bits is a value, as in structures of integers without padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for libc::c_int {}
// SAFETY: two integers of 32 bits.
unsafe impl Plain for libc::tpacket_stats {}
// SAFETY: four integers of 32 bits.
unsafe impl Plain for libc::tpacket_req {}

/// A socket that is closed when another program is started.
pub(crate) fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option.
pub(crate) fn set_option<T: Plain>(socket: &OwnedFd, level: i32, name: i32, value: T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of `value`.
    let code = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), len) };
    checked(code)
}

/// Attaches a filter program and locks it, so that nobody who gets the descriptor takes it off.
pub(crate) fn set_filter(socket: &OwnedFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let value = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let value_len = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the kernel reads `len` instructions at `filter`, which are `program`'s; it writes none.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const value).cast(),
            value_len,
        )
    };
    checked(code)?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)
}

/// Reads a socket option.
pub(crate) fn option<T: Plain>(socket: &OwnedFd, level: i32, name: i32, mut value: T) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` octets at `value`, and each pattern of bits is a `T`.
    let code = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    checked(code)?;
    Ok(value)
}

/// Binds a packet socket to an interface and a protocol in network byte order.
pub(crate) fn bind_packet(socket: &OwnedFd, address: &libc::sockaddr_ll) -> io::Result<()> {
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer and the length are those of `address`.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const *address).cast(), len) })
}

/// The address of a packet socket: interface, protocol (an Ethertype), and the next hop's link address, which may be empty.
pub(crate) fn packet_address(index: u32, protocol: u16, link: &[u8]) -> libc::sockaddr_ll {
    let mut sll_addr = [0; 8];
    let len = link.len().min(sll_addr.len());
    for (place, octet) in sll_addr.iter_mut().zip(link) {
        *place = *octet;
    }
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: len as u8,
        sll_addr,
    }
}

/// A request about an interface, with nothing but its name.
pub(crate) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    if name.is_empty() || name.len() >= NAME_SPACE || name.contains('\0') {
        let message = format!("{name:?} cannot be the name of an interface");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    // SAFETY: the structure is integers and a null pointer when all its bits are zero.
    let mut request = unsafe { std::mem::zeroed::<libc::ifreq>() };
    for (place, octet) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = octet as libc::c_char;
    }
    Ok(request)
}

/// Makes a request about an interface whose answer, if there is one, is written into the request itself.
///
/// # Safety
/// `code` is one that reads and writes nothing but the request and what `ifru_data` in it points to, which has to be valid for that.
pub(crate) unsafe fn interface_ioctl(fd: &OwnedFd, code: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: as the caller promises.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), code, &raw mut *request) })
}

/// Waits until something can be read, at most `wait`; false if nothing came or a signal did.
pub(crate) fn wait_readable(fd: impl AsFd, wait: Duration) -> io::Result<bool> {
    wait_for(fd, PollFlags::IN, wait)
}

/// Waits until there is room to write, as [`wait_readable`].
pub(crate) fn wait_writable(fd: impl AsFd, wait: Duration) -> io::Result<bool> {
    wait_for(fd, PollFlags::OUT, wait)
}

fn wait_for(fd: impl AsFd, flags: PollFlags, wait: Duration) -> io::Result<bool> {
    let mut fds = [PollFd::new(&fd, flags)];
    let wait = Timespec::try_from(wait).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match poll(&mut fds, Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn checked(code: libc::c_int) -> io::Result<()> {
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
