//! What the mill's threads tell each other, as state machines small enough for loom to run every interleaving of them:
//! `RUSTFLAGS="--cfg loom" cargo test -p ciphermill-shifts --lib`.
//!
//! - [`Shifts`]: when a worker begins and when it may end.
//! - [`Wakeup`]: how a session's thread hears that a batch has come back, asleep or by its event descriptor.
//! - [`OpenBatch`] and [`SharedBatch`]: single operations that share a batch, its leader, and who takes its place.
//! - [`bell`]: how one side sleeps until the other has something for it, by a word that two processes may share.
//! - [`Line`] and [`Begun`]: calls to an engine that may hang, and what becomes of those behind them.
pub mod bell;
mod isolation;
mod shared_batch;
mod shifts;
mod sync;
mod wakeup;

pub use isolation::{Begun, Line, NotSent, lock};
pub use shared_batch::{OpenBatch, Part, SharedBatch};
pub use shifts::Shifts;
pub use wakeup::Wakeup;
