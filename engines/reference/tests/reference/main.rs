//! The reference engine against published vectors, against other implementations of the same modes, and against itself.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests do; the lint only sees `#[test]`"
)]

mod aead;
mod block;
mod chain;
mod claims;
mod crosscheck;
mod fpe;
mod hash;
mod properties;
mod run;
mod stream;
