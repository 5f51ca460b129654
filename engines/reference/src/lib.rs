//! The reference engine: every suite in plain code, slow and safe, so that all other engines have something to be
//! compared with.
//!
//! Block permutations, digests and field arithmetic come from the RustCrypto crates; modes, MACs and chains are written
//! out here over single blocks, close to the text of their standards. Nothing is interleaved, vectorised or cached
//! beyond what [`ciphermill_contract::Engine::prepare`] keeps: schedules, subkeys and midstates, all of them wiped when
//! they are dropped.
mod aead;
mod block;
mod capabilities;
mod chain;
mod digest;
mod engine;
mod fpe;
mod legacy;
mod mac;
mod parts;
mod prepare;
mod public;
mod random;
mod stream;
mod tag;

pub use capabilities::CAPABILITIES;
pub use engine::Reference;
