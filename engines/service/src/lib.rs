//! The service as an engine: what another process of this machine runs.
//!
//! [`ServiceEngine`] connects to the socket of a service and claims what that runs. Keys are handed over when they are prepared; a queue
//! has a channel of its own in shared memory, into which operations and their data are copied, and from which the results come back.
//! What happens to the other process, happens to an engine that can fail: operations end as an engine's fault, and a mill runs them
//! elsewhere. The next use connects again, and hands keys over again.
mod chunk;
mod engine;
mod key;
mod link;
mod queue;
mod shared;

pub use engine::{Opening, ServiceEngine};
pub use link::{Link, LinkError};
