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
mod section;
mod session;
mod token;

pub use clone::{CloneError, Cloned, Outside, clone_key, install_key};
pub use engine::TokenEngine;
pub use host::serve;
pub use inventory::{CertificateReport, Inventory, KeyClass, KeyReport, SlotReport, Uses, inventory, slots};
pub use section::{PinSource, SectionError, TokenPlace, TokenSection, check, engine_name, pin_from_variable, pin_of};
pub use token::{Host, Opening, PATIENCE, Place, TokenError};

use std::sync::Arc;

use ciphermill_contract::Engine;

/// A token that is open.
#[derive(Debug)]
pub struct OpenToken(Way);

/// How a token's module runs.
#[derive(Debug)]
enum Way {
    Here(Arc<TokenEngine>),
    Hosted(Arc<host::HostedEngine>),
}

impl OpenToken {
    /// The token as an engine.
    pub fn engine(&self) -> Arc<dyn Engine> {
        match &self.0 {
            Way::Here(engine) => Arc::clone(engine) as Arc<dyn Engine>,
            Way::Hosted(engine) => Arc::clone(engine) as Arc<dyn Engine>,
        }
    }

    /// Closes the token's sessions and ends its processes, whoever still has the engine: its operations fail from now on.
    pub fn close(&self) {
        match &self.0 {
            Way::Here(engine) => engine.close(),
            Way::Hosted(engine) => engine.close(),
        }
    }

    /// What the token has, asked in the sessions of the engine.
    ///
    /// # Errors
    /// [`TokenError`] when the token is not there, says no, or a call fails.
    pub fn inventory(&self) -> Result<Inventory, TokenError> {
        match &self.0 {
            Way::Here(engine) => engine.inventory(),
            Way::Hosted(engine) => engine.inventory(),
        }
    }
}

/// Opens a token: in a process of its own where the opening names a host for it, else in this one.
///
/// # Errors
/// [`TokenError`] when the module does not load, the host does not start, the token is not there, or says no.
pub fn open(opening: Opening) -> Result<OpenToken, TokenError> {
    Ok(OpenToken(match opening.host.clone() {
        Some(host) => Way::Hosted(Arc::new(host::HostedEngine::open(opening, host)?)),
        None => Way::Here(Arc::new(TokenEngine::open(opening)?)),
    }))
}
