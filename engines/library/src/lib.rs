//! The library engine: AWS-LC, one message after the other, for everything that a mature library does fast on long
//! messages and on public keys.
//!
//! Symmetric keys become schedules, hash powers and midstates when they are prepared, so that an operation allocates
//! nothing: it works on the prepared state, which AWS-LC only reads, and on what its queue holds. AWS-LC picks its own
//! code for the processor; to the outside it is one kernel, `aws-lc`.
#![allow(unsafe_code, reason = "calls into AWS-LC")]

mod aead;
mod aes;
mod capabilities;
mod cbc_hmac;
mod ccm;
mod chain;
mod cipher;
mod cmac;
mod des;
mod digest;
mod engine;
mod ffi;
mod hmac;
mod mac;
mod pieces;
mod prepare;
mod prepared;
mod public;
mod random;
mod scratch;
mod stream;
mod wrap;
mod xts;

pub use capabilities::CAPABILITIES;
pub use engine::Library;
