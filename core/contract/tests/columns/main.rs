//! Columnar batches with hostile lengths, offsets and columns: each is refused with the operation and the rule, or keeps
//! every promise of `CheckedColumns`. Then what drawing IVs, running columns as ops and cutting them
//! into parts do with those that pass.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod draw;
mod hostile;
mod owned;
mod parts;
mod plain;
mod rules;
mod run;
mod toy;
mod wish;
