//! The service: one mill for all processes of a machine.
//!
//! Unprivileged processes share its engines, and its batches: single operations of many clients with one suite go into one batch. Keys
//! lie here alone; a client holds handles that mean something in its own connection. What clients and service tell each other is
//! `core/channel`.
//!
//! - `control`: one thread for all sockets: who may connect, keys, channels.
//! - `desk`: which requests come next, and which share a batch.
//! - `worker`: threads that take requests from the desk, run them on the mill and answer.
//! - `pools`: workers and a desk for each node of memory.
//! - `client`: who is connected and what they hold; `peer`, `process`: what the kernel says of them.
//! - `account`: what all connections of a user may have together. What is beyond waits at the desk.
//! - `limits`, `vault`: who is let in, and who may use which key of the keystore.
mod account;
mod audit;
mod client;
mod columns;
mod connection;
mod control;
mod desk;
mod keys;
mod limits;
mod offers;
mod peer;
mod pools;
mod process;
mod remote;
mod service;
mod socket;
mod status;
mod turns;
mod vault;
mod worker;

pub use account::{Rules, UserRules};
pub use limits::{Access, Limits, Options};
pub use peer::Peer;
pub use pools::cores_of;
pub use remote::{Reload, Remote};
pub use service::Service;
pub use socket::{ListenError, Listener};
pub use vault::Vault;
