//! ESP (RFC 4303) in tunnel mode, in bursts: the packets of a burst that one transform protects are one columnar batch for a mill.
//!
//! [`Tunnels`] has the security associations and policies of a worker (RFC 4301, 4.4). A [`Burst`] is the buffer that packets lie in, with
//! room around each, so that headers, padding and the integrity check value (ICV) are written where they stand. A burst goes three steps:
//!
//! 1. [`Tunnels::begin_outbound`] or [`Tunnels::begin_inbound`] looks at each packet's headers, finds its security association, gives it a
//!    sequence number or looks it up in the replay window, and lays it out in the columns of its transform;
//! 2. [`Burst::crypt`] runs the columns; it needs no access to the tunnels, so that several bursts can be there at the same time;
//! 3. [`Tunnels::commit_outbound`] or [`Tunnels::commit_inbound`] goes through the packets in the order in which they came: moves replay
//!    windows, checks padding and inner headers, and says which packets leave.
//!
//! What is dropped is counted by its reason ([`Counters`]), those that RFC 4303 calls auditable among them.

mod association;
mod burst;
mod columns;
mod counters;
mod error;
mod fragment;
mod icmp;
mod inbound;
mod ip;
mod limits;
mod outbound;
mod outer;
mod path;
mod policy;
mod replay;
mod slots;
mod table;
mod transform;
mod tunnels;
mod turns;

pub use association::{Keys, Lifetime, Lifetimes, Parameters, Sequence, Usage};
pub use burst::Burst;
pub use counters::{Counters, Drop};
pub use error::{AddError, CryptError};
pub use ip::{Flow, Malformed};
pub use limits::{
    ASSOCIATIONS_MAX, BURST_BYTES_MAX, BURST_PACKETS_MAX, PACKET_LEN_MAX, POLICIES_MAX, REPLAY_WINDOW_MAX,
    REPLAY_WINDOW_MIN,
};
pub use outer::{Copying, DontFragment, Encapsulation};
pub use policy::{Action, Policy, Prefix, Selector};
pub use replay::{ReplayWindow, Verdict};
pub use slots::SaId;
pub use transform::{Transform, UnknownTransform};
pub use tunnels::{Event, Tunnels};
pub use turns::{Ticket, Turns, lock_soon};
