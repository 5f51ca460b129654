//! `libciphermill`: the C interface of the mill, and the one foreign surface that others build upon.
//!
//! What is public here is C's: `include/ciphermill.h` is made from these files, comments included, and says what callers
//! have to know. Rust programs use the crate `ciphermill`.
//!
//! Every entry goes through `entry::entry`, which catches panics and turns a failure into a number and a text, and gets
//! at foreign memory by the functions of `foreign` alone. Handles are `handle::Handle`: each knows its process, and
//! those that one thread at a time may use notice a second one.
#![allow(unsafe_code, reason = "pointers and lengths come from C")]
#![allow(non_camel_case_types, reason = "types have the names that C programs use")]

mod bound;
mod columns;
mod digest;
mod entry;
mod errors;
mod failure;
mod foreign;
mod handle;
mod keys;
mod keystore;
mod layout;
mod message;
mod mill;
mod multi_part;
mod ops;
mod process;
mod run;
mod session;
mod single;
mod suite;
mod version;

pub use bound::*;
pub use columns::*;
pub use digest::*;
pub use errors::*;
pub use failure::*;
pub use keys::*;
pub use keystore::*;
pub use message::*;
pub use mill::*;
pub use multi_part::*;
pub use ops::*;
pub use run::*;
pub use session::*;
pub use single::*;
pub use suite::*;
pub use version::*;
