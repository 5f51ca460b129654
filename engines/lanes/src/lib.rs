//! The lanes engine: vector kernels that work on many messages side by side, each with its own key and IV.
//!
//! One folder a family of ciphers, one file an instruction set. A batch goes to its family in one indirect call. A
//! family whose messages fill lanes orders them by length; others run one after the other. Kernels are chosen once, when the
//! engine is opened, by what the processor can do; each can be forced by name ([`Lanes::with_kernels`]).
#![allow(unsafe_code, reason = "vector instructions, and lanes that lie scattered over an arena")]
// Iterator adaptors were seen to stay calls within functions that enable vector instructions, which spills every vector;
// plain indices do not.
#![allow(clippy::needless_range_loop)]
// Much is there for vector kernels alone, which other processors than x86-64 have none of yet.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports, unused_variables, unused_mut, unused_macros))]

#[cfg(target_arch = "x86_64")]
mod aes;
mod capabilities;
mod chacha;
#[cfg(target_arch = "x86_64")]
mod chain;
mod columns;
mod declassify;
mod des;
mod engine;
#[cfg(target_arch = "x86_64")]
mod fpe;
mod hash;
mod instruction_set;
mod keys_ahead;
mod legacy;
mod prepare;
mod processor;
mod public;
mod select;
mod work;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use engine::Lanes;
pub use select::{KernelChoice, kernels};
