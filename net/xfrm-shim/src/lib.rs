//! Gives an IKE daemon the gateway for its kernel: a library to be preloaded (`LD_PRELOAD`) into strongSwan's charon, Libreswan's
//! pluto or `ip xfrm`.
//!
//! `socket(AF_NETLINK, …, NETLINK_XFRM)` becomes a Unix socket to the server at the path in `CIPHERMILL_XFRM`, and the calls that
//! see a difference between both hide it. Without that variable every call goes through untouched. If nobody listens there, or
//! somebody who is neither root nor this user, `socket` fails with `ECONNREFUSED`: keys never go to the kernel instead.
//!
//! What is hidden: addresses are `struct sockaddr_nl`, and whatever comes is from the kernel (`nl_pid` 0); groups of `bind` and
//! memberships (`SOL_NETLINK`) are told to the server (`control`), which has read of them when the call returns, so that what
//! happens afterwards is heard; the end of the server is `ECONNRESET`, and no message without bytes.
//!
//! When the server ends, daemons stay up, log that, and fail to install keys; they have to be started again with it, as their
//! associations have gone too. Profiles that confine a daemon (Debian's for AppArmor) have to allow it this library and the
//! server's path.
//!
//! What goes through, and why that is right:
//! - UDP encapsulation (`UDP_ENCAP` on port 4500). The kernel takes the peer's ESP packets off that socket, finds no association
//!   for them and drops them; the gateway has seen them before on its packet socket. A kernel without XFRM refuses the option;
//!   then daemons log that, and drop those packets themselves.
//! - Policies of sockets that let IKE pass (`IP_XFRM_POLICY`). The kernel has no policies that IKE would have to bypass, and the
//!   gateway never protects packets of IKE of its own machine. Daemons go on where a kernel without XFRM refuses them.
//! - What is written to `/proc/sys/net/core/xfrm_acq_expires`, which then concerns the kernel alone.
//!
//! None of them is answered in the kernel's place, so that nothing succeeds here that was not done.
//!
//! Not hidden: `read`, `write`, `sendmmsg`, `recvmmsg`, system calls without the C library, and descriptors that are duplicated
//! by `fcntl` or survive `exec`. No daemon uses these on such a socket.
#![allow(unsafe_code, reason = "takes the place of functions of the C library")]

mod control;
mod next;
pub mod overrides;
mod sockets;
