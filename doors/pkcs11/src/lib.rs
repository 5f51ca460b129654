//! A PKCS#11 module: keystores as tokens, and the mill's engines behind them.
//!
//! An application finds the functions by `C_GetFunctionList` (2.40) or `C_GetInterface` (3.0 and later). Each is a few lines in `functions`:
//! pointers become slices (`memory`), handles become sessions, objects and keys (`library`, `access`), and what is left is a step of an
//! operation (`session`, `operations`) or a change of objects (`attributes`, `material`, `store`).
//!
//! The source for functions, mechanisms, attributes and return values is PKCS#11 3.2 (OASIS); applications written for 2.40 and 3.x are
//! served. What the module has not, `functions/unsupported.rs` lists.
#![allow(unsafe_code, reason = "a foreign surface: applications call these functions with pointers of theirs")]
#![allow(non_snake_case, reason = "functions have the standard's names")]

mod access;
mod attached;
mod attributes;
mod configuration;
mod entry;
pub mod functions;
mod key;
mod library;
mod lists;
mod material;
mod mechanisms;
mod memory;
mod objects;
mod operations;
mod rv;
mod session;
mod slot;
mod store;
pub mod vendor;
