//! ChaCha20-Poly1305 (RFC 8439, 2.8), composed of its two parts, so that tags may be cut, and XChaCha20-Poly1305
//! (draft-irtf-cfrg-xchacha-03).

use chacha20::{R20, hchacha};
use ciphermill_contract::{Direction, OpStatus};
use poly1305::Poly1305;
use poly1305::universal_hash::{KeyInit, UniversalHash};
use zeroize::{Zeroize, Zeroizing};

use crate::aead::Scheme;
use crate::stream::chacha20;
use crate::tag;

/// The key; there is no schedule.
pub(super) struct ChaCha(pub(super) Zeroizing<[u8; 32]>);

impl ChaCha {
    /// The full tag over additional data, ciphertext and the lengths of both. The one-time key is the first half of the key
    /// stream's first block (2.6).
    fn tag(&self, nonce: &[u8], aad: &[u8], ciphertext: &[u8]) -> Result<Zeroizing<[u8; 16]>, OpStatus> {
        let mut key = Zeroizing::new([0; 32]);
        done(chacha20(&self.0, &counted(0, nonce), key.as_mut_slice()))?;
        let mut mac = Poly1305::new((&*key).into());
        mac.update_padded(aad);
        mac.update_padded(ciphertext);
        let mut lengths = [0; 16];
        lengths[..8].copy_from_slice(&(aad.len() as u64).to_le_bytes());
        lengths[8..].copy_from_slice(&(ciphertext.len() as u64).to_le_bytes());
        mac.update_padded(&lengths);
        Ok(Zeroizing::new(mac.finalize().into()))
    }

    /// Adds the key stream from its second block on.
    fn add_stream(&self, nonce: &[u8], data: &mut [u8]) -> Result<(), OpStatus> {
        done(chacha20(&self.0, &counted(1, nonce), data))
    }
}

/// The key of XChaCha20-Poly1305.
pub(super) struct XChaCha(pub(super) Zeroizing<[u8; 32]>);

impl XChaCha {
    /// The key and the nonce of 12 bytes that a nonce of 24 stands for (draft-irtf-cfrg-xchacha-03, 2.3); `None` for any other.
    fn derive(&self, nonce: &[u8]) -> Option<(ChaCha, [u8; 12])> {
        let (first, last) = nonce.split_first_chunk::<16>()?;
        let mut short = [0; 12];
        short[4..].copy_from_slice(<&[u8; 8]>::try_from(last).ok()?);
        let mut key = Zeroizing::new([0; 32]);
        let mut derived = hchacha::<R20>((&*self.0).into(), first.into());
        key.copy_from_slice(&derived);
        derived.zeroize();
        Some((ChaCha(key), short))
    }
}

impl Scheme for XChaCha {
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        self.derive(nonce).map_or(OpStatus::EngineFault, |(key, nonce)| key.seal(&nonce, aad, data, tag))
    }

    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        self.derive(nonce).map_or(OpStatus::EngineFault, |(key, nonce)| key.open(&nonce, aad, data, tag))
    }
}

/// The block counter before the nonce, as the stream cipher has it (2.4). It is refused there if the nonce has not 12 bytes.
fn counted(counter: u32, nonce: &[u8]) -> Vec<u8> {
    [&counter.to_le_bytes(), nonce].concat()
}

fn done(status: OpStatus) -> Result<(), OpStatus> {
    if status.is_done() { Ok(()) } else { Err(status) }
}

impl Scheme for ChaCha {
    fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> OpStatus {
        match self.add_stream(nonce, data).and_then(|()| self.tag(nonce, aad, data)) {
            Ok(full) => tag::settle(Direction::Encrypt, &*full, tag),
            Err(status) => status,
        }
    }

    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let full = match self.tag(nonce, aad, data) {
            Ok(full) => full,
            Err(status) => return status,
        };
        let Some(expected) = full.get(..tag.len()) else { return OpStatus::EngineFault };
        match tag::verify(expected, tag) {
            OpStatus::Done => self.add_stream(nonce, data).map_or_else(|status| status, |()| OpStatus::Done),
            status => status,
        }
    }
}
