//! Message authentication codes: HMAC, CMAC, GMAC, Poly1305 and KMAC.

mod cmac;
pub(crate) mod hmac;
pub(crate) mod kmac;

use cipher::KeyInit;
use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Mac;
use ciphermill_contract::{Direction, OpBuffers, OpStatus};
use zeroize::Zeroizing;

use crate::aead::Gcm;
use crate::block;
use crate::engine::state;
use crate::tag::{self, Output};

pub(crate) use cmac::{CbcMac, Cmac, double};
pub(crate) use hmac::Hmac;
pub(crate) use kmac::KmacKey;

/// A MAC under one key.
trait Authenticator: Send + Sync {
    /// The full tag of a message; `None` for an IV of the wrong length.
    fn tag(&self, iv: &[u8], message: &[u8]) -> Option<Output>;
}

/// The key of a MAC.
pub(crate) struct MacKey(Box<dyn Authenticator>);

/// A one-time key, its two halves as RFC 8439 calls them: `r ‖ s`.
struct Poly1305(Zeroizing<[u8; 32]>);

impl MacKey {
    /// Subkeys or midstates of `mac` for `bytes`.
    ///
    /// # Errors
    /// `Length` when the MAC has no keys of that length; `Parameters` for HMAC over an extendable-output function and for KMAC.
    pub(crate) fn new(mac: Mac, bytes: &[u8]) -> Result<MacKey, KeyProblem> {
        Ok(MacKey(match mac {
            // NIST approves HMAC over the hash functions of FIPS 202 only (section 7).
            Mac::Hmac(digest) if digest.is_xof() => return Err(KeyProblem::Parameters),
            Mac::Hmac(digest) => Box::new(Hmac::new(digest, bytes)),
            Mac::Cmac(size) => Box::new(Cmac::new(block::aes(size, bytes)?)),
            Mac::TripleDesCmac => Box::new(Cmac::new(block::triple_des(bytes)?)),
            Mac::Gmac(size) | Mac::GmacAnyIv(size) => Box::new(Gcm::new(block::aes(size, bytes)?)),
            // Its tag depends on additional data and length: `KmacKey`.
            Mac::Kmac(_) => return Err(KeyProblem::Parameters),
            Mac::Poly1305 => Box::new(Poly1305(Zeroizing::new(bytes.try_into().map_err(|_| KeyProblem::Length)?))),
        }))
    }
}

/// Computes or verifies one operation's tag.
pub(crate) fn process(direction: Direction, buffers: &mut OpBuffers<'_>) -> OpStatus {
    let full = state::<MacKey>(buffers).and_then(|key| key.0.tag(buffers.iv, buffers.input));
    full.map_or(OpStatus::EngineFault, |full| tag::settle(direction, full.as_slice(), buffers.tag))
}

impl Authenticator for Hmac {
    fn tag(&self, _iv: &[u8], message: &[u8]) -> Option<Output> {
        Some(self.tag(&[message]))
    }
}

impl<const N: usize> Authenticator for Cmac<N> {
    fn tag(&self, _iv: &[u8], message: &[u8]) -> Option<Output> {
        Some(Output::new(&*self.tag(&[message])))
    }
}

/// GMAC is GCM with nothing to encrypt (NIST SP 800-38D, section 3).
impl Authenticator for Gcm {
    fn tag(&self, iv: &[u8], message: &[u8]) -> Option<Output> {
        Some(Output::new(&*self.tag(self.pre_counter(iv), message, &[])))
    }
}

impl Authenticator for Poly1305 {
    fn tag(&self, _iv: &[u8], message: &[u8]) -> Option<Output> {
        let key: &[u8; 32] = &self.0;
        Some(Output::new(&poly1305::Poly1305::new(key.into()).compute_unpadded(message)))
    }
}
