//! The contract of Ciphermill: the words that every other crate speaks, as types.
//!
//! An application fills an *arena* with bytes and describes what is to be done with them as *operations* ([`Op`],
//! 64 bytes each). Operations of one [`Suite`] and one [`Direction`] form a [`Batch`]. Checking a batch once yields a
//! [`CheckedBatch`], the only thing an [`Engine`] ever sees. Every operation carries its own [`OpStatus`]; a failed
//! operation never fails its neighbours. Data that are columns already are run as a [`ColumnBatch`], without a record an
//! operation.
//!
//! This crate holds no engine, does no input or output and has no unsafe code.
//!
//! Reading order: [`suite`], [`op`], [`batch`], [`columns`], [`engine`], [`error`], [`limits`].
pub mod batch;
pub mod capability;
pub mod columns;
pub mod engine;
pub mod error;
pub mod key;
pub mod limits;
pub mod op;
mod overlap;
pub mod owned;
mod parts;
pub mod status;
pub mod stream;
pub mod suite;

pub use batch::lone::LoneCheck;
pub use batch::{Batch, CheckedBatch, OpBuffers};
pub use capability::{Capability, Claims, Cost, Directions, EngineKind, EngineKinds, Few, Timing};
pub use columns::{CheckedColumns, ColumnBatch, ColumnStatus};
pub use engine::{Engine, EngineInfo, EngineQueue, Occupancy, QueueHint};
pub use error::{Error, Exhausted, Fault, Misuse, Refusal, Result};
pub use key::{KEY_WORDS, KeyForm, KeyId, KeyMaterial, Known, PreparedKey, SuiteName};
pub use op::{Aad, Op, Span};
pub use owned::{ArenaBuffer, Completed, OwnedBatch, Ticket};
pub use status::{OpStatus, Reason};
pub use stream::{Piece, Stream};
pub use suite::{Direction, Suite};
