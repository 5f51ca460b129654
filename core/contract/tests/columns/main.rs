//! Columnar batches with hostile lengths, offsets and columns: each is refused with the operation and the rule, or keeps
//! every promise of `CheckedColumns`. Then what drawing IVs and running columns as ops do with those that pass.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod draw;
mod hostile;
mod plain;
mod rules;
mod run;
mod toy;
mod wish;
