//! What the preloaded library tells of a socket, since netlink itself carries it in system calls: the address that the daemon
//! is bound to, the groups that it hears, and whether it wants words with errors.
//!
//! A message of netlink with a number that netlink keeps for itself and has given no meaning, so that no daemon sends one. The
//! library (`net/xfrm-shim/src/control.rs`) writes the same; it sends one as soon as it is connected, and one with each change.

use crate::bytes::Reader;
use crate::message::Header;
use crate::refusal::Refusal;

/// The message's number.
pub(crate) const CONTROL: u16 = 0x0e;
/// The only version there is.
pub(crate) const VERSION: u32 = 1;
/// Errors come with words (`NETLINK_EXT_ACK`).
pub(crate) const WORDS: u32 = 1;

/// How a socket stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// Its address, `nl_pid`.
    pub(crate) port: u32,
    /// Groups that it hears, the first as the lowest bit.
    pub(crate) groups: u32,
    /// Whether errors come with words.
    pub(crate) words: bool,
}

impl Control {
    /// Reads it, if the message is one.
    pub(crate) fn parse(header: &Header, body: &[u8]) -> Option<Result<Self, Refusal>> {
        (header.kind == CONTROL).then(|| {
            let mut from = Reader::new(body);
            if from.u32()? != VERSION {
                return Err(Refusal::invalid("a preloaded library of another version"));
            }
            Ok(Self { port: from.u32()?, groups: from.u32()?, words: from.u32()? & WORDS != 0 })
        })
    }

    /// Whether it hears a group.
    pub(crate) fn hears(self, group: u32) -> bool {
        (1..=32).contains(&group) && self.groups >> (group - 1) & 1 == 1
    }
}
