//! What can be wrong with what a caller hands over.

use ciphermill_contract::Error;

use crate::limits::{REPLAY_WINDOW_MAX, REPLAY_WINDOW_MIN};
use crate::transform::Transform;

/// Why an association or a policy was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// Keys of a wrong length.
    #[error("{0} takes a key of {1} bytes and a salt of {2}; given were {3} and {4}")]
    KeyLength(Transform, usize, usize, usize, usize),
    /// The replay window.
    #[error(
        "a replay window of {0} packets; it is 0 or a multiple of 64 from {REPLAY_WINDOW_MIN} to {REPLAY_WINDOW_MAX}"
    )]
    Window(u32),
    /// Extended numbers for packets whose order nobody keeps: the half that is not sent is guessed by the window (RFC 4303, 2.2.1 and A2).
    #[error("extended sequence numbers want a replay window")]
    ExtendedWithoutWindow,
    /// The SPI.
    #[error("SPI {0:#x}: those up to 255 are reserved (RFC 4303, 2.1)")]
    Spi(u32),
    /// An inbound association with this SPI is there: by it alone they are found (RFC 4301, 4.1).
    #[error("there is an inbound association with SPI {0:#x}")]
    Exists(u32),
    /// The two ends of the tunnel.
    #[error("one end of the tunnel has an IPv4 address and the other an IPv6 address")]
    Families,
    /// The path MTU leaves nothing.
    #[error("a path MTU of {0} bytes: IPv4 asks for 576 at least, IPv6 for 1280")]
    Mtu(u16),
    /// A table is full.
    #[error("there are {0} already, which is the limit")]
    Full(usize),
    /// The mill does not take the keys.
    #[error("the key was not taken: {0}")]
    Key(Error),
}

/// Why a burst could not be run. The packets that were not are dropped and counted when it is committed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{transform}: {error}")]
pub struct CryptError {
    /// What was to be done.
    pub transform: Transform,
    /// What the mill says.
    pub error: Error,
}
