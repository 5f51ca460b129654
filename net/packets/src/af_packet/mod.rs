//! Packets from and to an interface by packet sockets (`packet(7)`): a ring in memory that the kernel fills, and batches of messages on the
//! way out, past the queueing disciplines.
//!
//! The kernel's own network code sees the same packets: where the interface has addresses, it answers what comes for them. Opening
//! needs `CAP_NET_RAW`; finding link addresses needs `CAP_NET_ADMIN` besides, to have the kernel ask for one that it does not know.

mod ring;
mod sink;
mod source;

pub use ring::{FRAMES_MAX, RING_LEN_MAX};
pub use sink::{LinkSink, SinkOptions};
pub use source::{RingSource, SourceOptions};
