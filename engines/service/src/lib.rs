//! The service as an engine: what another process of this machine runs.
//!
//! [`ServiceEngine`] connects to the socket of a service and claims what that runs. Keys are handed over when they are prepared; a queue
//! has a channel of its own in shared memory, into which operations and their data are copied, and from which the results come back.
//! What happens to the other process, happens to an engine that can fail: operations end as an engine's fault, and a mill runs them
//! elsewhere. The next use connects again, and hands keys over again.
mod cargo;
mod columns;
mod engine;
mod key;
mod link;
mod ops;
mod place;
mod queue;
mod shared;

pub use engine::ServiceEngine;
pub use link::{Link, LinkError};
pub use ops::COLUMNS_FROM;
pub use place::{SOCKET_VARIABLE, default_socket, named_socket, own_socket, socket_to_make};
pub use shared::Opening;
