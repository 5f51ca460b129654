//! The fault engine: a test double that wraps another engine and misbehaves by script, so that whoever drives engines
//! can be tested against late, silent, failing, lying and dying ones.
//!
//! A [`Script`] says what happens to each batch that the engine runs, counted over all its queues, and another one what
//! happens when keys are prepared and queues opened. A [`FaultHandle`]
//! steers the engine while it runs: it lets stalled batches go on, kills and revives, and counts. Nothing depends on
//! chance or on a clock but the lengths of delays: a random script is a function of its seed.
//!
//! ```
//! use std::sync::Arc;
//!
//! use ciphermill_contract::suite::Digest;
//! use ciphermill_contract::{Batch, Direction, Engine, KeyId, Op, OpStatus, QueueHint, Span, Suite};
//! use ciphermill_fault::{Fault, FaultEngine, Script};
//! use ciphermill_reference::Reference;
//!
//! let engine = FaultEngine::new("flaky", Arc::new(Reference::new()), Script::at(1, Fault::Errors));
//! let mut queue = engine.queue(QueueHint::default())?;
//! for expected in [OpStatus::Done, OpStatus::EngineFault, OpStatus::Done] {
//!     let mut arena = [0u8; 35];
//!     let mut ops = [Op::in_place(KeyId::NONE, Span::new(0, 3)).with_tag(3, 32)];
//!     let suite = Suite::Digest(Digest::Sha256);
//!     queue.run(&mut Batch::new(suite, Direction::Encrypt, &mut ops, &mut arena).check()?);
//!     assert_eq!(ops[0].status, expected);
//! }
//! assert_eq!(engine.handle().injected(), 1);
//! # Ok::<(), ciphermill_contract::Error>(())
//! ```
mod control;
mod engine;
mod inject;
mod parts;
mod script;

pub use control::FaultHandle;
pub use engine::FaultEngine;
pub use script::{AfterStall, Fault, STALL_MAX, Script, Weights};
