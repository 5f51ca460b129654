//! Columnar batches: operations of one suite and direction whose data are columns, as tables, packet rings and devices hold
//! them. The other form of a batch is [`crate::Batch`], with a record an operation.
//!
//! # Layout
//!
//! A [`ColumnBatch`] has as many operations as statuses. [`Extents`] say where each operation's bytes lie in a buffer. What
//! is *sealed*, the output when encrypting and the input when decrypting, may hold IV and tag within its extent:
//!
//! ```text
//! [IV, if inline] [tag, if before] ciphertext [tag, if after]
//! ```
//!
//! What is in clear is the data alone. In place, the buffer's extents are the sealed ones both ways.
//!
//! # Rules
//!
//! [`ColumnBatch::check`] looks once at everything, and writes nothing:
//!
//! - every column has as many entries as there are operations; extents ascend and end within their buffer, so that no two
//!   operations touch each other;
//! - extents of input and output differ by exactly what is inline;
//! - lengths of data, IVs, tags and additional data are those that the suite takes;
//! - operations are [`ColumnStatus::PENDING`] or [`ColumnStatus::LEFT_OUT`], as nulls of a table are: the extents of those
//!   have to ascend like the others', and may have any length.
//!
//! Neighbouring operations are parts that can be worked on at the same time ([`CheckedColumns::in_parts`]).
//!
//! Columns are for suites whose output is as long as their input, digests and MACs ([`crate::Suite::takes_columns`]).

mod as_ops;
mod check;
mod checked;
mod extents;
mod form;
mod layout;
mod owned;
mod parts;
mod status;
mod transform;

pub use self::as_ops::{ChunkLimits, ColumnOps};
pub use self::checked::{CheckedColumns, ColumnBuffers, DataBuffers, PreparedColumn, TagBuffer};
pub use self::extents::Extents;
pub use self::form::{AadColumn, ColumnBatch, ColumnData, IvColumn, KeyColumn, TagColumn};
pub use self::layout::{ColumnLayout, DataPlace, IvPlace, PartBuffer, PartLayout, SpanSide, Steps, TagPlace, TagSide};
pub use self::owned::OwnedColumns;
pub use self::status::ColumnStatus;
pub use self::transform::{TransformBatch, TransformHalf, TransformTags};
