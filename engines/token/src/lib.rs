//! PKCS#11 tokens and HSMs as engines.
//!
//! [`TokenEngine`] loads a vendor's module, finds a token by its label or slot, and claims what its mechanisms offer. Keys are those that
//! the token has, by their names there ([`ciphermill_contract::KeyForm::Reference`]: a label, or `id:` and a `CKA_ID` in hexadecimal
//! digits), or copies of the mill's keys as session objects where the configuration allows those. A reference verifies and encrypts as
//! well as it signs and decrypts, by its public half.
//!
//! A token comes and goes. After each reconnection handles may name other keys, so that every key is looked up again and its public half,
//! or of a secret key what it makes of a fixed text, compared before it is used. A PIN that was refused is not tried again, since
//! tokens lock themselves.
//!
//! Source: OASIS PKCS#11 3.1.
#![allow(unsafe_code, reason = "calls over the function list of a PKCS#11 module")]

mod capabilities;
mod clone;
mod curve;
mod digest;
mod engine;
mod failure;
mod fingerprint;
mod host;
mod inventory;
mod key;
mod kind;
mod material;
mod mechanism;
mod module;
mod numbers;
mod objects;
mod operation;
mod pool;
mod public;
mod session;
mod token;

pub use clone::{CloneError, Cloned, Outside, clone_key, install_key};
pub use engine::TokenEngine;
pub use host::serve;
pub use inventory::{KeyClass, KeyReport, SlotReport, keys, slots};
pub use token::{Host, Opening, PATIENCE, Place, TokenError};

use std::sync::Arc;

use ciphermill_contract::Engine;

/// Opens a token: in a process of its own where the opening names a host for it, else in this one.
///
/// # Errors
/// [`TokenError`] when the module does not load, the host does not start, the token is not there, or says no.
pub fn open(opening: Opening) -> Result<Arc<dyn Engine>, TokenError> {
    Ok(match opening.host.clone() {
        Some(host) => Arc::new(host::HostedEngine::open(opening, host)?),
        None => Arc::new(TokenEngine::open(opening)?),
    })
}
