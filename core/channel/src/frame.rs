//! Messages on the socket: each with its length before it, bounded, and with the descriptors that come along.

use core::fmt;
use core::mem::MaybeUninit;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use zeroize::{Zeroize as _, Zeroizing};

use crate::message::{ANSWER_LEN_MAX, ASK_LEN_MAX};

/// Bytes of a length.
const HEAD_LEN: usize = 4;

/// Descriptors that come with a message at most.
const DESCRIPTORS_MAX: usize = 2;

/// Why no message could be read.
#[derive(Debug)]
pub enum FrameError {
    /// The other side has closed the connection, or the system says no.
    Io(io::Error),
    /// A length beyond what a message may have.
    TooLong {
        /// The length.
        len: usize,
        /// The limit.
        max: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Io(error) => write!(f, "{error}"),
            FrameError::TooLong { len, max } => write!(f, "a message says that it has {len} bytes; it may have {max}"),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> FrameError {
        FrameError::Io(error)
    }
}

/// Sends a message with descriptors. What is sent is wiped from the copy that is made of it.
///
/// # Errors
/// What the system says. A nonblocking socket that takes less than the whole message is an error as well: its other side does not read.
pub fn write_frame(socket: &UnixStream, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut frame = Zeroizing::new(Vec::with_capacity(HEAD_LEN + message.len()));
    let len = u32::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    frame.extend_from_slice(&len.to_le_bytes());
    frame.extend_from_slice(message);
    let mut sent = 0;
    while sent < frame.len() {
        sent += write_some(socket, &frame[sent..], if sent == 0 { descriptors } else { &[] })?;
    }
    Ok(())
}

/// Sends as many of these bytes as go at once, at least one, and descriptors with the first of them. Returns how many.
///
/// # Errors
/// What the system says; nothing was sent then. `WouldBlock` for a nonblocking socket whose other side does not read.
pub fn write_some(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Ok(sent) => return Ok(sent),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads an answer, and the descriptors that come with it.
///
/// # Errors
/// [`FrameError`], `UnexpectedEof` when the service has gone.
pub fn read_frame(socket: &mut UnixStream) -> Result<(Vec<u8>, Vec<OwnedFd>), FrameError> {
    let mut head = [0; HEAD_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(&*socket, &mut [IoSliceMut::new(&mut head)], &mut ancillary, flags) {
            Ok(received) => break received.bytes,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
    };
    if received == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    socket.read_exact(&mut head[received..])?;
    let len = u32::from_le_bytes(head) as usize;
    if len > ANSWER_LEN_MAX {
        return Err(FrameError::TooLong { len, max: ANSWER_LEN_MAX });
    }
    let mut message = vec![0; len];
    socket.read_exact(&mut message)?;
    Ok((message, descriptors))
}

/// Messages of a client as they come, in pieces or several at once. What was read is wiped.
pub struct Frames {
    bytes: Zeroizing<Vec<u8>>,
    /// Those of them that were handed over.
    used: usize,
}

impl Frames {
    /// Nothing has come.
    pub fn new() -> Frames {
        // Of full size at once: memory that grows would leave keys behind.
        Frames { bytes: Zeroizing::new(Vec::with_capacity(HEAD_LEN + ASK_LEN_MAX)), used: 0 }
    }

    /// Reads what there is, as far as a message may be long. False when the client has closed its side.
    ///
    /// # Errors
    /// What the system says; `WouldBlock` when there is nothing at the moment.
    pub fn fill(&mut self, socket: &UnixStream) -> io::Result<bool> {
        // Once for all messages that came together: each by itself would take time that grows with their square.
        let filled = self.bytes.len() - self.used;
        self.bytes.copy_within(self.used.., 0);
        self.bytes[filled..].zeroize();
        self.used = 0;
        let room = HEAD_LEN + ASK_LEN_MAX;
        self.bytes.resize(room, 0);
        let mut socket = socket;
        let result = socket.read(&mut self.bytes[filled..]);
        self.bytes.truncate(filled + *result.as_ref().unwrap_or(&0));
        match result {
            Ok(0) => Ok(filled == room),
            Ok(_) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Hands the next whole message to `work`, wiping it afterwards; `None` when there is none.
    ///
    /// # Errors
    /// [`FrameError::TooLong`]: the connection is of no use any more.
    pub fn next<T>(&mut self, work: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, FrameError> {
        let Some((head, rest)) = self.bytes[self.used..].split_first_chunk::<HEAD_LEN>() else {
            return Ok(None);
        };
        let len = u32::from_le_bytes(*head) as usize;
        if len > ASK_LEN_MAX {
            return Err(FrameError::TooLong { len, max: ASK_LEN_MAX });
        }
        let Some(message) = rest.get(..len) else {
            return Ok(None);
        };
        let done = work(message);
        let end = self.used + HEAD_LEN + len;
        self.bytes[self.used..end].zeroize();
        self.used = end;
        Ok(Some(done))
    }
}

impl Default for Frames {
    fn default() -> Frames {
        Frames::new()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn messages_come_in_pieces_and_together() {
        let (mut client, service) = UnixStream::pair().expect("a pair");
        let mut frames = Frames::new();
        let mut sent = Vec::new();
        for message in [&b"one"[..], b"", b"three"] {
            sent.extend_from_slice(&(message.len() as u32).to_le_bytes());
            sent.extend_from_slice(message);
        }
        let mut got = Vec::new();
        for byte in &sent[..9] {
            client.write_all(&[*byte]).expect("sent");
            assert!(frames.fill(&service).expect("read"));
            got.extend(frames.next(<[u8]>::to_vec).expect("short"));
        }
        client.write_all(&sent[9..]).expect("sent");
        drop(client);
        assert!(frames.fill(&service).expect("read"));
        while let Some(message) = frames.next(<[u8]>::to_vec).expect("short") {
            got.push(message);
        }
        assert_eq!(got, [&b"one"[..], b"", b"three"]);
        assert!(!frames.fill(&service).expect("closed"));
        // What was read is gone from memory.
        assert!(frames.bytes.is_empty() && frames.used == 0 && frames.bytes.spare_capacity_mut().len() >= ASK_LEN_MAX);
    }

    #[test]
    fn the_longest_message_fits_and_a_longer_one_is_refused() {
        let (client, service) = UnixStream::pair().expect("a pair");
        let writer = std::thread::spawn(move || {
            write_frame(&client, &vec![7; ASK_LEN_MAX], &[]).expect("sent");
            write_frame(&client, &vec![7; ASK_LEN_MAX + 1], &[])
        });
        let mut frames = Frames::new();
        let message = loop {
            assert!(frames.fill(&service).expect("read"));
            if let Some(message) = frames.next(<[u8]>::to_vec).expect("short") {
                break message;
            }
        };
        assert_eq!(message, vec![7; ASK_LEN_MAX]);
        let error = loop {
            match frames.next(|_| ()) {
                Ok(None) => assert!(frames.fill(&service).expect("read")),
                Ok(Some(())) => panic!("too long"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, FrameError::TooLong { len, max: ASK_LEN_MAX } if len == ASK_LEN_MAX + 1));
        drop(service);
        let _ = writer.join().expect("no panic");
    }

    #[test]
    fn descriptors_come_along() {
        let (mut client, service) = UnixStream::pair().expect("a pair");
        let file = std::fs::File::open("/dev/null").expect("always there");
        write_frame(&service, b"both", &[file.as_fd(), file.as_fd()]).expect("sent");
        write_frame(&service, b"none", &[]).expect("sent");
        let (message, descriptors) = read_frame(&mut client).expect("read");
        assert_eq!((&message[..], descriptors.len()), (&b"both"[..], 2));
        let (message, descriptors) = read_frame(&mut client).expect("read");
        assert_eq!((&message[..], descriptors.len()), (&b"none"[..], 0));
        drop(service);
        assert!(
            matches!(read_frame(&mut client), Err(FrameError::Io(error)) if error.kind() == io::ErrorKind::UnexpectedEof)
        );
    }
}
