//! What IKE daemons say to a kernel about security associations and policies, and a server that stands in for the kernel.
//!
//! Daemons (strongSwan's charon, Libreswan's pluto) and `ip xfrm` speak the messages of `linux/xfrm.h` over a socket of
//! `NETLINK_XFRM`. The library of `net/xfrm-shim`, preloaded into them, gives them a Unix socket to a [`Server`] in its place.
//!
//! - [`message`]: the messages, read and written; [`constants`] has the headers' numbers.
//! - [`SecurityAssociation`], [`Policy`], [`Selector`]: what they say, in plain words.
//! - [`Kernel`]: what a gateway implements.
//! - [`Server`]: serves many daemons on one thread, and tells them of acquires and expiries.
//! - [`Table`]: a kernel in memory, which carries no packets.
//!
//! Only ESP is kept. AH and IPComp are refused with `EPROTONOSUPPORT`, as by a kernel without their modules.

mod algorithms;
mod association;
mod bytes;
pub mod constants;
mod control;
mod kernel;
pub mod message;
mod policy;
mod refusal;
mod selector;
mod server;
mod table;

pub use association::{
    Algorithms, AssociationId, AssociationKey, AssociationState, BITMAP_WORDS_MAX, Counters, Encapsulation, Encryption,
    ExtraFlags, Flags, Integrity, KEY_MAX, KeyBytes, Lifetimes, Limit, ListFilter, Mark, Mode, Replay, ReplayUpdate,
    SaDirection, SecurityAssociation, SpiRequest, Statistics,
};
pub use kernel::{Counts, Kernel};
pub use message::{Acquire, Event, Mapping};
pub use policy::{Action, Direction, Policy, PolicyKey, PolicyState, TEMPLATES_MAX, Template, Thresholds};
pub use refusal::Refusal;
pub use rustix::io::Errno;
pub use selector::{Port, Prefix, Selector};
pub use server::{Limits, Server};
pub use table::Table;
