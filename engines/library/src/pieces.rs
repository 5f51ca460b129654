//! Messages that come in pieces: AWS-LC's own running states, which keep what they need of the key while a message lasts.

mod aead;
mod ctr;
mod digest;
mod feedback;
mod mac;

use ciphermill_contract::suite::{Aead, BlockCipher, Mac, Mode};
use ciphermill_contract::{Direction, OpStatus, PreparedKey, Stream, Suite, capability};

use crate::CAPABILITIES;
use crate::cmac::{AesCmacKey, TripleDesCmacKey};
use crate::ffi::equal;
use crate::hmac::HmacKey;
use crate::prepared::Prepared;

/// A message in pieces; `None` for suites whose messages are taken whole only.
pub(crate) fn stream(suite: Suite, direction: Direction) -> Option<Box<dyn Stream>> {
    capability::find(CAPABILITIES, suite, direction)?;
    Some(match suite {
        Suite::Digest(digest) => Box::new(digest::DigestStream::new(digest)?),
        Suite::Mac(Mac::Hmac(_)) => Box::new(mac::MacStream::<HmacKey>::new(suite, direction)),
        Suite::Mac(Mac::Cmac(_)) => Box::new(mac::MacStream::<AesCmacKey>::new(suite, direction)),
        Suite::Mac(Mac::TripleDesCmac) => Box::new(mac::MacStream::<TripleDesCmacKey>::new(suite, direction)),
        Suite::Cipher(BlockCipher::Aes(_), Mode::Ctr) => Box::new(ctr::CtrStream::new(suite)),
        Suite::Cipher(BlockCipher::Aes(_), mode @ (Mode::Cfb8 | Mode::Cfb128 | Mode::Ofb)) => {
            Box::new(feedback::FeedbackStream::new(suite, mode, direction))
        }
        Suite::Aead(aead @ (Aead::AesGcm(_) | Aead::AesGcmAnyIv(_) | Aead::ChaCha20Poly1305)) => {
            Box::new(aead::AeadStream::new(aead, direction)?)
        }
        _ => return None,
    })
}

/// The state of a key that this engine prepared for the suite.
fn state<T: core::any::Any>(key: Option<&PreparedKey>, suite: Suite) -> Option<&T> {
    Prepared::of(key?, suite)
}

/// Writes the tag, cut to its length, or compares it.
fn settle(full: &[u8], direction: Direction, tag: &mut [u8]) -> OpStatus {
    let Some(own) = full.get(..tag.len()) else { return OpStatus::EngineFault };
    if direction == Direction::Encrypt {
        tag.copy_from_slice(own);
        return OpStatus::Done;
    }
    if equal(own, tag) { OpStatus::Done } else { OpStatus::AuthFailed }
}
