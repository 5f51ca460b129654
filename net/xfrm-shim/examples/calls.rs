//! Makes the calls that programs make on sockets of `NETLINK_XFRM`, and ends with what is not as with a kernel. To be run with the
//! library preloaded, and a server; its tests are those of `net/xfrm`.
#![allow(unsafe_code, reason = "calls functions of the C library as programs do")]

use std::ffi::{c_int, c_void};
use std::process::exit;

use libc::{AF_NETLINK, NETLINK_XFRM, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_RAW, sockaddr, sockaddr_nl, socklen_t};

const ADDRESS_LEN: socklen_t = size_of::<sockaddr_nl>() as socklen_t;

/// Ends the program unless a condition holds.
fn expect(words: &str, holds: bool) {
    if !holds {
        eprintln!("not so: {words}; errno {}", errno());
        exit(1);
    }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or_default()
}

fn socket(flags: c_int) -> c_int {
    // SAFETY: the call has no pointers.
    unsafe { libc::socket(AF_NETLINK, SOCK_RAW | flags, NETLINK_XFRM) }
}

fn close(fd: c_int) {
    // SAFETY: the call has no pointers.
    expect("a descriptor is closed", unsafe { libc::close(fd) } == 0);
}

fn empty_address() -> sockaddr_nl {
    // SAFETY: zeros are an address of netlink, which is numbers alone.
    unsafe { std::mem::zeroed() }
}

fn bind(fd: c_int, groups: u32) -> c_int {
    let mut address = empty_address();
    address.nl_family = AF_NETLINK as u16;
    address.nl_groups = groups;
    // SAFETY: the address is one, of that length.
    unsafe { libc::bind(fd, (&raw const address).cast::<sockaddr>(), ADDRESS_LEN) }
}

fn name_of(fd: c_int) -> (c_int, u32, u32) {
    let (mut address, mut len) = (empty_address(), ADDRESS_LEN);
    // SAFETY: there is room for an address of that length.
    let done = unsafe { libc::getsockname(fd, (&raw mut address).cast::<sockaddr>(), &raw mut len) };
    expect(
        "a name, as long as netlink's",
        done == 0 && (len == ADDRESS_LEN || c_int::from(address.nl_family) != AF_NETLINK),
    );
    (address.nl_family.into(), address.nl_pid, address.nl_groups)
}

/// `XFRM_MSG_GETSADINFO` with a number.
fn request(sequence: u32) -> [u8; 20] {
    let mut message = [0; 20];
    let fields = [20u32, 0x23 | 1 << 16, sequence, 0, 0];
    for (place, field) in message.chunks_exact_mut(4).zip(fields) {
        place.copy_from_slice(&field.to_ne_bytes());
    }
    message
}

fn ask(fd: c_int, sequence: u32) -> isize {
    let (message, mut to) = (request(sequence), empty_address());
    to.nl_family = AF_NETLINK as u16;
    let (message, len) = (message.as_ptr().cast::<c_void>(), message.len());
    // SAFETY: message and address are there, of these lengths.
    unsafe { libc::sendto(fd, message, len, 0, (&raw const to).cast(), ADDRESS_LEN) }
}

fn receive(fd: c_int, room: &mut [u8], flags: c_int) -> (isize, sockaddr_nl, socklen_t) {
    let (mut from, mut len) = (empty_address(), ADDRESS_LEN);
    from.nl_pid = 1;
    let at = room.as_mut_ptr().cast();
    // SAFETY: there is as much room as is said, for bytes and address.
    let got = unsafe { libc::recvfrom(fd, at, room.len(), flags, (&raw mut from).cast(), &raw mut len) };
    (got, from, len)
}

/// A field of an answer's header.
fn field(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|field| field.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

fn an_answer_comes_from_the_kernel(fd: c_int) {
    let mut room = [0u8; 4096];
    expect("a request is sent", ask(fd, 5) == 20);
    // As libnetlink finds out how much room it needs.
    let (whole, ..) = receive(fd, &mut [], libc::MSG_PEEK | libc::MSG_TRUNC);
    expect("a peek without room tells the length", whole > 20);
    let (short, ..) = receive(fd, &mut room[..8], libc::MSG_PEEK);
    expect("a peek with little room fills it", short == 8);
    let (got, from, len) = receive(fd, &mut room, 0);
    expect("the message is whole after that", got == whole);
    expect(
        "it comes from the kernel",
        from.nl_pid == 0 && c_int::from(from.nl_family) == AF_NETLINK && len == ADDRESS_LEN,
    );
    expect("it is the request's answer", field(&room, 8) == 5);
    expect("it goes to this socket", field(&room, 12) == name_of(fd).1);
    let (none, ..) = receive(fd, &mut room, libc::MSG_DONTWAIT);
    expect("nothing more comes", none == -1 && errno() == libc::EAGAIN);
}

fn flags_are_kept() {
    let fd = socket(SOCK_CLOEXEC | SOCK_NONBLOCK);
    // SAFETY: these calls have no pointers.
    let (of_descriptor, of_file) = unsafe { (libc::fcntl(fd, libc::F_GETFD), libc::fcntl(fd, libc::F_GETFL)) };
    expect("it is closed on exec", of_descriptor & libc::FD_CLOEXEC != 0);
    expect("it does not wait", of_file & libc::O_NONBLOCK != 0);
    let (none, ..) = receive(fd, &mut [0; 8], 0);
    expect("nothing comes", none == -1 && errno() == libc::EAGAIN);
    close(fd);
    let plain = socket(0);
    // SAFETY: as above.
    expect("without flags there are none", unsafe { libc::fcntl(plain, libc::F_GETFD) } == 0);
    close(plain);
}

fn memberships_are_kept(fd: c_int) {
    expect("groups are bound", bind(fd, 2) == 0 && name_of(fd).2 == 2);
    let set = |name: c_int, value: u32| {
        // SAFETY: the value has as many bytes as is said.
        unsafe { libc::setsockopt(fd, libc::SOL_NETLINK, name, (&raw const value).cast(), 4) }
    };
    expect("a group is joined", set(libc::NETLINK_ADD_MEMBERSHIP, 8) == 0 && name_of(fd).2 == 0x82);
    expect("a group is left", set(libc::NETLINK_DROP_MEMBERSHIP, 2) == 0 && name_of(fd).2 == 0x80);
    expect("there is no group 0", set(libc::NETLINK_ADD_MEMBERSHIP, 0) == -1 && errno() == libc::EINVAL);
    expect("there is no such option", set(99, 0) == -1 && errno() == libc::ENOPROTOOPT);
    let mut ports = empty_address();
    ports.nl_family = libc::AF_INET as u16;
    // SAFETY: the address is as long as is said.
    let wrong = unsafe { libc::bind(fd, (&raw const ports).cast::<sockaddr>(), ADDRESS_LEN) };
    expect("an address of another family is refused", wrong == -1 && errno() == libc::EINVAL);
}

/// A descriptor that another socket gets after ours is not taken for ours, however ours was closed.
fn descriptors_are_given_out_again() {
    let ours = socket(0);
    // SAFETY: these calls have no pointers.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, ours, ours, 0) };
    expect("it is closed behind the library's back", closed == 0);
    // SAFETY: as above.
    let other = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    expect("the number is given out again", other == ours && name_of(other).0 == libc::AF_INET);
    close(other);
    let ours = socket(0);
    // SAFETY: as above.
    let second = unsafe { libc::dup(ours) };
    close(ours);
    an_answer_comes_from_the_kernel(second);
    // SAFETY: as above.
    let udp = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) };
    // SAFETY: as above.
    expect("another socket takes its number", unsafe { libc::dup2(udp, second) } == second);
    expect("it is not ours", name_of(second).0 == libc::AF_INET);
    close(second);
    close(udp);
}

fn main() {
    let fd = socket(0);
    expect("a socket", fd >= 0);
    let (family, port, groups) = name_of(fd);
    expect("a name of netlink's", family == AF_NETLINK && port == std::process::id() && groups == 0);
    an_answer_comes_from_the_kernel(fd);
    memberships_are_kept(fd);
    let second = socket(0);
    expect("two sockets have two addresses", bind(second, 0) == 0 && name_of(second).1 != port);
    an_answer_comes_from_the_kernel(second);
    close(second);
    flags_are_kept();
    descriptors_are_given_out_again();
    an_answer_comes_from_the_kernel(fd);
    println!("as netlink");
}
