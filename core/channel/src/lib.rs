//! What a service and its clients tell each other.
//!
//! A client connects to a Unix socket, over which control messages go ([`Ask`], [`Answer`]): keys come and go, and channels are opened. A
//! channel is a sealed memory file that the service makes and both map. Requests are written there: operations or columns as the contract
//! has them, with their data, so that nothing is encoded for the way. The client owns a [`Port`], the service a [`Channel`].
//!
//! Neither side believes the other. The service copies each request and its operations once and checks the copy; positions are its own
//! numbers, and what a client's counter says beyond the number of slots ends the channel ([`Corrupt`]). What a client can spoil in this
//! memory is its own.
//!
//! How both wait is [`ciphermill_shifts::bell`]: the service sleeps on an event descriptor a channel, a client on a futex.
mod channel;
mod columns;
mod frame;
mod layout;
mod message;
mod offer;
mod op;
mod port;
mod request;
mod spin;

pub use channel::{Channel, Position, Taken};
pub use columns::{
    ColumnPlaces, ColumnShape, SHAPE_LEN, ShapeAad, ShapeBuffer, ShapeData, ShapeIvs, ShapeKeys, ShapeSteps, ShapeTags,
    get_statuses, key_bytes, key_of_bytes, put_statuses,
};
pub use frame::{FrameError, Frames, read_frame, write_frame, write_some};
pub use layout::{DATA_AT, DATA_LEN_MAX, DATA_LEN_MIN, SLOTS};
pub use message::{Answer, Ask, BadMessage, ErrorKind, KeyHandle, NAME_LEN, TEXT_LEN_MAX, VERSION};
pub use offer::Offer;
pub use op::{OP_LEN, RECORD_LEN, get_ops, put_ops, read_results, write_results};
pub use port::{Port, WaitError};
pub use request::{ONE_LEN_MAX, OPS_MAX, Outcome, REQUEST_NS_MAX, Request};
pub use spin::Spin;

/// The other side has written what no program of ours writes: the place, and the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt {
    /// The field.
    pub place: &'static str,
    /// What it has to be.
    pub rule: &'static str,
}

impl core::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.place, self.rule)
    }
}

impl std::error::Error for Corrupt {}
