//! The messages of `linux/xfrm.h`: read from daemons, and written as a kernel writes them.
//!
//! Every length is checked before what it measures is read. Unknown attributes are ignored, as the kernel does; one that is cut
//! off is refused, where a kernel would ignore it and all after it: what is left out might be a lifetime or a mark.

mod association;
mod decode;
mod encode;
mod policy;
mod reply;

pub use decode::{Request, parse_request};
pub use encode::encode_request;
pub(crate) use reply::State;
pub use reply::{Acquire, Event, Mapping, Reply, parse_reply};
pub(crate) use reply::{Notice, write_ack, write_done, write_event, write_notice, write_state};

use crate::bytes::{Reader, Writer};
use crate::constants::{NLA_TYPE_MASK, XFRMA_NAT_KEEPALIVE_INTERVAL};
use crate::refusal::Refusal;

/// Bytes of `struct nlmsghdr`.
pub const HEADER_LEN: usize = 16;

/// What stands before each message (`struct nlmsghdr`), less its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the message is: one of `XFRM_MSG_…`, or netlink's own below `NLMSG_MIN_TYPE`.
    pub kind: u16,
    /// `NLM_F_…`.
    pub flags: u16,
    /// The request's number, which its answers repeat.
    pub sequence: u32,
    /// The client's address; in answers it is the one that the client is bound to.
    pub port: u32,
}

/// The messages of a datagram, each with its header. Ends behind a message that is longer than what is left of the datagram,
/// which is an error.
pub fn messages(datagram: &[u8]) -> impl Iterator<Item = Result<(Header, &[u8]), Refusal>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let first = split_message(rest);
        rest = first.as_ref().map_or(&[], |(_, _, behind)| behind);
        Some(first.map(|(header, body, _)| (header, body)))
    })
}

fn split_message(bytes: &[u8]) -> Result<(Header, &[u8], &[u8]), Refusal> {
    let mut reader = Reader::new(bytes);
    let len = reader.u32()? as usize;
    let (kind, flags) = (reader.u16()?, reader.u16()?);
    let header = Header { kind, flags, sequence: reader.u32()?, port: reader.u32()? };
    let body_len = len.checked_sub(HEADER_LEN).ok_or(Refusal::invalid("a message shorter than its header"))?;
    let body = reader.take(body_len).map_err(|_| Refusal::invalid("a message longer than its datagram"))?;
    let behind = reader.rest();
    let padding = (len.next_multiple_of(4) - len).min(behind.len());
    Ok((header, body, behind.get(padding..).unwrap_or(&[])))
}

/// Writes a message with its header.
pub(crate) fn write_message(to: &mut Writer, header: Header, body: impl FnOnce(&mut Writer)) {
    to.align();
    let begin = to.len();
    to.u32(0);
    to.u16(header.kind);
    to.u16(header.flags);
    to.u32(header.sequence);
    to.u32(header.port);
    body(to);
    // A kernel counts the padding, too, and `ip xfrm monitor` relies on it.
    to.align();
    let len = u32::try_from(to.len() - begin).unwrap_or(u32::MAX);
    to.patch(begin, &len.to_ne_bytes());
}

/// Attributes that are looked at have numbers up to this one.
const KNOWN_MAX: usize = XFRMA_NAT_KEEPALIVE_INTERVAL as usize;

/// A message's attributes by their numbers; of several with one number the last counts.
pub(crate) struct Attributes<'a> {
    values: [Option<&'a [u8]>; KNOWN_MAX + 1],
}

impl<'a> Attributes<'a> {
    pub(crate) fn parse(mut bytes: &'a [u8]) -> Result<Self, Refusal> {
        const CUT: Refusal = Refusal::invalid("an attribute is cut off");
        let mut values = [None; KNOWN_MAX + 1];
        // Less than a header is what a last attribute's padding may leave.
        while bytes.len() >= 4 {
            let mut reader = Reader::new(bytes);
            let (len, kind) = (usize::from(reader.u16()?), reader.u16()? & NLA_TYPE_MASK);
            let value = reader.take(len.checked_sub(4).ok_or(CUT)?).map_err(|_| CUT)?;
            if let Some(place) = values.get_mut(usize::from(kind)) {
                *place = Some(value);
            }
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        }
        if bytes.iter().any(|&byte| byte != 0) {
            return Err(CUT);
        }
        Ok(Self { values })
    }

    pub(crate) fn find(&self, kind: u16) -> Option<Reader<'a>> {
        self.values.get(usize::from(kind)).copied().flatten().map(Reader::new)
    }

    /// What `read` makes of an attribute, if there is one. One that is too short is out of range to a kernel.
    pub(crate) fn read<T>(
        &self,
        kind: u16,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        self.find(kind).map(|mut reader| read(&mut reader)).transpose()
    }

    pub(crate) fn u32(&self, kind: u16) -> Result<Option<u32>, Refusal> {
        self.read(kind, Reader::u32)
    }
}

#[cfg(test)]
mod tests;
