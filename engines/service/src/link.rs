//! A connection to a service.

use core::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ciphermill_channel::{
    Answer, Ask, BadMessage, ErrorKind, FrameError, KeyHandle, Offer, Port, VERSION, read_frame, write_frame,
};
use ciphermill_contract::Error;
use ciphermill_contract::error::FaultKind;
use rustix::net::{RecvFlags, recv};

/// The engine's name.
pub(crate) const NAME: &str = "service";

/// How long a service has for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What has no answer is told with the next question, or when there is so much of it.
const FAREWELLS_MAX: usize = 64;

/// A connection over which questions are asked, one at a time. Once it has failed it stays so.
pub struct Link {
    socket: Mutex<UnixStream>,
    /// What has no answer, and is told with the next question.
    farewells: Mutex<Vec<Ask<'static>>>,
    lost: AtomicBool,
    /// Which connection of its engine it is.
    number: u64,
}

/// Why a service does not answer as it should.
#[derive(Debug)]
pub enum LinkError {
    /// Nobody is there, or the connection has ended.
    Io(io::Error),
    /// The service does not speak this protocol.
    Protocol(&'static str),
    /// The service says no.
    Answered {
        /// What kind of error it is.
        kind: ErrorKind,
        /// The service's words.
        text: String,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Io(error) => write!(f, "the service does not answer: {error}"),
            LinkError::Protocol(rule) => write!(f, "the service does not speak this protocol: {rule}"),
            LinkError::Answered { text, .. } => write!(f, "the service says: {text}"),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        LinkError::Io(error)
    }
}

impl From<FrameError> for LinkError {
    fn from(error: FrameError) -> LinkError {
        match error {
            FrameError::Io(error) => LinkError::Io(error),
            FrameError::TooLong { .. } => LinkError::Protocol("a message is longer than any"),
        }
    }
}

impl From<BadMessage> for LinkError {
    fn from(BadMessage(rule): BadMessage) -> LinkError {
        LinkError::Protocol(rule)
    }
}

impl Link {
    /// Connects and greets. Returns what the service offers as well, and the bytes that a channel may have.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn connect(path: &Path) -> Result<(Link, Vec<Offer>, usize), LinkError> {
        Link::connect_as(path, 0)
    }

    pub(crate) fn connect_as(path: &Path, number: u64) -> Result<(Link, Vec<Offer>, usize), LinkError> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let (farewells, lost) = (Mutex::default(), AtomicBool::new(false));
        let link = Link { socket: Mutex::new(socket), farewells, lost, number };
        match link.ask(&Ask::Hello { version: VERSION })? {
            Answer::Welcome { version: VERSION, data_len_max, offers } => Ok((link, offers, data_len_max as usize)),
            Answer::Welcome { .. } => Err(LinkError::Protocol("it is another version")),
            _ => Err(LinkError::Protocol("a greeting is answered with a welcome")),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`LinkError`]. After all but [`LinkError::Answered`] the connection is lost.
    pub fn ask(&self, ask: &Ask<'_>) -> Result<Answer, LinkError> {
        self.ask_for(ask).map(|(answer, _)| answer)
    }

    fn ask_for(&self, ask: &Ask<'_>) -> Result<(Answer, Vec<OwnedFd>), LinkError> {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let farewells = core::mem::take(&mut *self.farewells.lock().unwrap_or_else(PoisonError::into_inner));
        let answered = farewells
            .iter()
            .try_for_each(|farewell| write_frame(&socket, &farewell.to_bytes(), &[]))
            .and_then(|()| write_frame(&socket, &ask.to_bytes(), &[]))
            .map_err(LinkError::from)
            // A service that has turned this client away has said so before it hung up.
            .or_else(|error| if matches!(ask, Ask::Hello { .. }) { Ok(()) } else { Err(error) })
            .and_then(|()| Ok(read_frame(&mut socket)?))
            .and_then(|(message, descriptors)| Ok((Answer::from_bytes(&message)?, descriptors)));
        match answered {
            Ok((Answer::Error { kind, text }, _)) => Err(LinkError::Answered { kind, text }),
            Ok(answered) => Ok(answered),
            Err(error) => {
                self.lost.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Opens a channel with so many bytes for operations and data. Returns its number as well.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn open_port(&self, data_len: usize) -> Result<(u64, Port), LinkError> {
        let data_len = u32::try_from(data_len).unwrap_or(u32::MAX);
        let (Answer::Channel { channel }, descriptors) = self.ask_for(&Ask::Channel { data_len })? else {
            return Err(LinkError::Protocol("a channel is answered with one"));
        };
        let Ok([memory, bell]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return Err(LinkError::Protocol("a channel comes with two descriptors"));
        };
        let port = Port::new(memory, bell);
        Ok((channel, port.map_err(|_| LinkError::Protocol("a channel's memory is sealed and large enough"))?))
    }

    /// Says that a key is not used any more, at the next opportunity. Never waits for the service.
    pub fn forget(&self, key: KeyHandle) {
        self.say(Ask::Forget { key });
    }

    /// Says that a channel is not used any more, at the next opportunity.
    pub fn close_port(&self, channel: u64) {
        self.say(Ask::Close { channel });
    }

    fn say(&self, farewell: Ask<'static>) {
        let mut farewells = self.farewells.lock().unwrap_or_else(PoisonError::into_inner);
        farewells.push(farewell);
        if farewells.len() < FAREWELLS_MAX || self.is_lost() {
            return;
        }
        // Somebody who asks takes the list along.
        let Ok(socket) = self.socket.try_lock() else { return };
        for farewell in farewells.drain(..) {
            if write_frame(&socket, &farewell.to_bytes(), &[]).is_err() {
                self.lost.store(true, Ordering::Release);
                return;
            }
        }
    }

    /// Whether the connection has failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Looks whether the other side is still there.
    pub(crate) fn is_alive(&self) -> bool {
        if self.is_lost() {
            return false;
        }
        // Somebody waits for an answer and will hear of it.
        let Ok(socket) = self.socket.try_lock() else { return true };
        match recv(&*socket, &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            // Nothing is there to be read between questions, unless the service hangs up.
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => true,
            _ => {
                self.lost.store(true, Ordering::Release);
                false
            }
        }
    }

    /// Gives the connection up.
    pub(crate) fn give_up(&self) {
        self.lost.store(true, Ordering::Release);
    }
}

/// What a service that does not answer means for an engine.
pub(crate) fn fault(error: &LinkError) -> Error {
    match error {
        LinkError::Answered { kind: ErrorKind::Exhausted, .. } => Error::exhausted("keys of the service", 0, 1),
        LinkError::Io(error) if error.kind() == io::ErrorKind::WouldBlock => Error::fault(NAME, FaultKind::Stalled),
        LinkError::Io(error) => Error::fault(NAME, FaultKind::Call(error.raw_os_error().unwrap_or(0).into())),
        _ => Error::fault(NAME, FaultKind::Call(0)),
    }
}
