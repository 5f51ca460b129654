//! Batches that are handed over: sessions and futures that hand them over, the queues that they wait in, and the workers
//! that take them from there.

mod dispatcher;
mod future;
mod inbox;
mod job;
mod promise;
mod queues;
mod session;

pub(crate) use dispatcher::Dispatcher;
pub use future::BatchFuture;
pub(crate) use future::submit;
pub use queues::QUEUED_MAX;
pub use session::{IN_FLIGHT_MAX, Session};
