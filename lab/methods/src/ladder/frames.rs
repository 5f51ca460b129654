//! Messages through a socket, one at a time: each side speaks when it has heard the other out.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::ladder::wire::{HEAD_LEN, Head, WireError};

/// Room for a message at first: what most need comes in with one call.
const ROOM: usize = 64 << 10;

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The other side breaks a rule.
    #[error("a message that breaks a rule {0}")]
    Wire(WireError),
    /// The other side ended within a message, or before the one that is waited for.
    #[error("the other side ended after {0} bytes of a message")]
    Ended(usize),
    /// The other side did not answer in time.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Late(Duration),
    /// The system's word.
    #[error("the socket: {0}")]
    Io(std::io::Error),
}

/// One end of the socket, with the message that was read last.
pub(crate) struct Frames {
    socket: UnixStream,
    message: Vec<u8>,
    filled: usize,
    deadline: Option<Duration>,
}

impl Frames {
    /// An end. With a `deadline` the other side has that long for each part of a message.
    ///
    /// # Errors
    /// The system's, when it takes no deadline.
    pub(crate) fn new(socket: UnixStream, deadline: Option<Duration>) -> std::io::Result<Frames> {
        socket.set_read_timeout(deadline)?;
        socket.set_write_timeout(deadline)?;
        Ok(Frames { socket, message: vec![0; ROOM], filled: 0, deadline })
    }

    /// Reads the next message; `None` when the other side has ended before it began one.
    ///
    /// # Errors
    /// [`Trouble`]. After [`Trouble::Wire`] nobody knows where the next message begins.
    pub(crate) fn next(&mut self) -> Result<Option<Head>, Trouble> {
        self.filled = 0;
        if !self.fill(HEAD_LEN)? {
            return if self.filled == 0 { Ok(None) } else { Err(Trouble::Ended(self.filled)) };
        }
        let mut bytes = [0; HEAD_LEN];
        bytes.copy_from_slice(&self.message[..HEAD_LEN]);
        let head = Head::read(&bytes).map_err(Trouble::Wire)?;
        let whole = HEAD_LEN + head.body_len();
        if self.message.len() < whole {
            self.message.resize(whole, 0);
        }
        if !self.fill(whole)? {
            return Err(Trouble::Ended(self.filled));
        }
        if self.filled > whole {
            return Err(Trouble::Wire(WireError { at: whole, rule: "nothing follows before it is answered" }));
        }
        Ok(Some(head))
    }

    /// Reads until there are `wanted` bytes; `false` when the other side ends before.
    fn fill(&mut self, wanted: usize) -> Result<bool, Trouble> {
        while self.filled < wanted {
            match self.socket.read(&mut self.message[self.filled..]) {
                Ok(0) => return Ok(false),
                Ok(len) => self.filled += len,
                Err(error) => self.forgive(error)?,
            }
        }
        Ok(true)
    }

    fn forgive(&self, error: std::io::Error) -> Result<(), Trouble> {
        match (error.kind(), self.deadline) {
            (ErrorKind::Interrupted, _) => Ok(()),
            (ErrorKind::ConnectionReset | ErrorKind::BrokenPipe, _) => Err(Trouble::Ended(self.filled)),
            (ErrorKind::WouldBlock | ErrorKind::TimedOut, Some(deadline)) => Err(Trouble::Late(deadline)),
            _ => Err(Trouble::Io(error)),
        }
    }

    /// The body of the message that was read last.
    pub(crate) fn body(&self) -> &[u8] {
        &self.message[HEAD_LEN.min(self.filled)..self.filled]
    }

    /// The same, to be worked on where it lies.
    pub(crate) fn body_mut(&mut self) -> &mut [u8] {
        &mut self.message[HEAD_LEN.min(self.filled)..self.filled]
    }

    /// Sends a whole message, head and body.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<(), Trouble> {
        self.filled = 0;
        self.socket.write_all(message).or_else(|error| self.forgive(error))
    }

    /// Sends the message that was read last back under another head.
    ///
    /// # Errors
    /// [`Trouble`].
    pub(crate) fn send_back(&mut self, head: Head) -> Result<(), Trouble> {
        let len = self.filled;
        self.message[..HEAD_LEN].copy_from_slice(&head.to_bytes());
        self.socket.write_all(&self.message[..len]).or_else(|error| self.forgive(error))
    }
}
