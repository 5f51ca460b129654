//! The reference engine against published vectors, against other implementations of the same modes, and against itself.

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
