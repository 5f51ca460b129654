//! The peers: systems that Ciphermill is compared with, as engines, so that they run in the same loop as our own, on
//! the same operations, and are held to the same answers.
//!
//! * `openssl`: the system's OpenSSL, the key set for every operation, as in a program without a cache of its own.
//! * `openssl-context`: the same, one context kept for each key; an operation sets the IV only.
//! * `openssl-public`: OpenSSL's public keys, parsed once, with a context kept for each.
//! * `crypto-mb`: Intel's crypto_mb, eight requests of public keys a call, where the user names a build of it.
//! * `ipsec-mb`: Intel's multi-buffer library through its burst interface.
//! * `rustcrypto`: the crates `aes-siv` and `fpe`, for suites that the other peers do not have; schedules are kept.
//!
//! Each peer is used in the best way that its public interface offers: algorithms are fetched once, contexts are set up
//! without copies, and nothing of ours stands between two operations but the loop. Where that loop costs something next to
//! the peer's own work, the peer has a native loop besides ([`native()`]). A peer that this machine does not
//! have is reported as [`Unavailable`], with the reason.
#![allow(unsafe_code, reason = "calls into OpenSSL, ipsec-mb, crypto_mb and a library of our own")]

mod aws_lc;
mod ops;

pub mod crypto_mb;
#[cfg(ipsec_mb)]
pub mod ipsec_mb;
pub mod native;
pub mod openssl;
pub mod rustcrypto;
mod siv;
mod token;

use std::fmt;
use std::sync::Arc;

use ciphermill_contract::Engine;

pub use token::QUEUES_MAX;

/// The peers' names, in the order in which tables show them.
pub const NAMES: [&str; 6] =
    ["openssl", "openssl-context", openssl::public::NAME, crypto_mb::NAME, "ipsec-mb", "rustcrypto"];

/// A peer that cannot be used on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// The peer's name.
    pub name: &'static str,
    /// What is missing.
    pub why: String,
    /// Whether the user asked for it in a way that cannot work, which is worth more than a note.
    pub is_mistake: bool,
}

impl Unavailable {
    /// A peer that is not there.
    pub(crate) fn absent(name: &'static str, why: String) -> Unavailable {
        Unavailable { name, why, is_mistake: false }
    }

    /// A peer that the user asked for wrongly.
    pub(crate) fn mistake(name: &'static str, why: String) -> Unavailable {
        Unavailable { name, why, is_mistake: true }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer `{}` is not available: {}", self.name, self.why)
    }
}

impl std::error::Error for Unavailable {}

/// Every peer, opened, or why it cannot be.
pub fn peers() -> Vec<Result<Arc<dyn Engine>, Unavailable>> {
    NAMES.iter().map(|name| open(name)).collect()
}

/// Opens the peer of this name.
///
/// # Errors
/// The peer is unknown, or this machine does not have what it needs.
pub fn open(name: &str) -> Result<Arc<dyn Engine>, Unavailable> {
    match name {
        "openssl" => openssl::open(openssl::Keying::PerOperation),
        "openssl-context" => openssl::open(openssl::Keying::Kept),
        openssl::public::NAME => Ok(openssl::public::open()),
        crypto_mb::NAME => crypto_mb::open(),
        "ipsec-mb" => open_ipsec_mb(),
        "rustcrypto" => Ok(Arc::new(rustcrypto::RustCrypto::new())),
        _ => {
            let why = format!("no peer is called `{name}`; there are {}", NAMES.join(", "));
            Err(Unavailable::mistake("unknown", why))
        }
    }
}

/// The native loop of the peer of this name, or of the library below the engine of this name, where it has one for the task.
pub fn native(name: &str, task: &native::Task<'_>) -> Option<Box<dyn native::NativeLoop>> {
    match name {
        aws_lc::NAME => aws_lc::open(task),
        siv::NAME => siv::open(task),
        crypto_mb::NAME => crypto_mb::native(task),
        #[cfg(ipsec_mb)]
        ipsec_mb::NAME => ipsec_mb::native::open(task),
        _ => None,
    }
}

/// What went wrong with all of its causes: those of libloading say it in the last.
fn with_causes(error: &libloading::Error) -> String {
    let first: &dyn std::error::Error = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(ipsec_mb)]
fn open_ipsec_mb() -> Result<Arc<dyn Engine>, Unavailable> {
    ipsec_mb::open()
}

#[cfg(not(ipsec_mb))]
fn open_ipsec_mb() -> Result<Arc<dyn Engine>, Unavailable> {
    Err(Unavailable::absent("ipsec-mb", env!("CIPHERMILL_IPSEC_MB_MISSING").to_owned()))
}
