//! Why a request is not done: the number that a kernel would answer, and words for a log.

use std::fmt;

use rustix::io::Errno;

/// A request that is refused: the kernel's number for it, and the reason in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the client gets, as netlink has it (`NLMSG_ERROR`).
    pub errno: Errno,
    /// For our log, and for clients that asked for words (`NETLINK_EXT_ACK`). Never anything of a key.
    pub why: &'static str,
}

impl Refusal {
    /// A refusal with its reason.
    #[must_use]
    pub const fn new(errno: Errno, why: &'static str) -> Self {
        Self { errno, why }
    }

    /// `EINVAL`, which is what most malformed requests get.
    #[must_use]
    pub const fn invalid(why: &'static str) -> Self {
        Self::new(Errno::INVAL, why)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} ({})", self.why, self.errno)
    }
}

impl std::error::Error for Refusal {}
