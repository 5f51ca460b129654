//! Authenticated encryption: GCM, GCM-SIV and ChaCha20-Poly1305 through AWS-LC's AEAD interface, CCM over its AES.
//!
//! An AEAD context is only read by sealing and opening, so that one serves any number of queues.

use std::sync::OnceLock;

use aws_lc_sys as sys;
use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{CheckedBatch, Direction, OpBuffers, OpStatus, PreparedKey, Result, Suite};

use crate::ccm::CcmKey;
use crate::ffi::{Owned, Wiped, fault, op_fault, take_error};
use crate::prepared::{Prepared, state};

/// Bytes of a full tag.
const TAG: usize = 16;

/// A key for GCM, GCM-SIV, ChaCha20-Poly1305 or XChaCha20-Poly1305.
pub(crate) struct AeadKey {
    full: Context,
    /// Contexts for tags of 4, 8 and 12 to 15 bytes, of GCM and both kinds of ChaCha20-Poly1305, made when first needed.
    short: [OnceLock<Option<Context>>; 6],
    cipher: Cipher,
    key_len: usize,
    key: Wiped<[u8; 32]>,
}

/// A context of AWS-LC for one key and tag length.
pub(crate) struct Context(Owned<sys::EVP_AEAD_CTX>);

/// AWS-LC's static table for one AEAD.
#[derive(Clone, Copy)]
struct Cipher(*const sys::EVP_AEAD);

// SAFETY: the pointer is to a constant table that lives as long as the program.
unsafe impl Send for Cipher {}
// SAFETY: as above; nobody writes to it.
unsafe impl Sync for Cipher {}

impl Context {
    fn new(cipher: Cipher, key: &[u8], tag_len: usize) -> Option<Context> {
        // SAFETY: `cipher` is one of AWS-LC's own tables, key pointer and length belong together and the length is
        // checked by the function; the new context has no other owner.
        unsafe { Owned::new(sys::EVP_AEAD_CTX_new(cipher.0, key.as_ptr(), key.len(), tag_len)) }.map(Context)
    }

    /// An AES-GCM context with full tags.
    pub(crate) fn gcm(size: AesSize, key: &[u8]) -> Option<Context> {
        Context::new(table(Aead::AesGcm(size))?, key, TAG)
    }

    /// Encrypts `data` in place and fills `tag`, which must be as long as the context's. GCM takes nonces of any length but zero.
    pub(crate) fn seal(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &mut [u8]) -> bool {
        let place = data.as_mut_ptr();
        let mut written = 0;
        // SAFETY: every pointer comes with its slice's length; input and output are the same place, which the function
        // allows; the tag is a different slice, so it does not overlap them; the context is only read.
        let code = unsafe {
            sys::EVP_AEAD_CTX_seal_scatter(
                self.0.as_ptr(),
                place,
                tag.as_mut_ptr(),
                &mut written,
                tag.len(),
                nonce.as_ptr(),
                nonce.len(),
                place,
                data.len(),
                core::ptr::null(),
                0,
                aad.as_ptr(),
                aad.len(),
            )
        };
        code == 1 && written == tag.len()
    }

    /// Decrypts `data` in place when `tag` is right.
    fn open(&self, nonce: &[u8], aad: &[u8], data: &mut [u8], tag: &[u8]) -> OpStatus {
        let place = data.as_mut_ptr();
        // SAFETY: every pointer comes with its slice's length; input and output are the same place, which the function
        // allows; the context is only read.
        let code = unsafe {
            sys::EVP_AEAD_CTX_open_gather(
                self.0.as_ptr(),
                place,
                nonce.as_ptr(),
                nonce.len(),
                place,
                data.len(),
                tag.as_ptr(),
                tag.len(),
                aad.as_ptr(),
                aad.len(),
            )
        };
        if code == 1 {
            return OpStatus::Done;
        }
        let error = take_error();
        let wrong_tag =
            sys::ERR_GET_LIB(error) == sys::ERR_LIB_CIPHER && sys::ERR_GET_REASON(error) == sys::CIPHER_R_BAD_DECRYPT;
        if wrong_tag { OpStatus::AuthFailed } else { OpStatus::EngineFault }
    }
}

impl AeadKey {
    fn new(key: &[u8], aead: Aead) -> Option<AeadKey> {
        let cipher = table(aead)?;
        let mut bytes = Wiped([0; 32]);
        bytes.0.get_mut(..key.len())?.copy_from_slice(key);
        let full = Context::new(cipher, key, TAG)?;
        Some(AeadKey { full, short: Default::default(), cipher, key_len: key.len(), key: bytes })
    }

    /// The key itself.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.key.0[..self.key_len]
    }

    /// The context for tags of `tag_len` bytes.
    fn context(&self, tag_len: usize) -> Option<&Context> {
        let place = match tag_len {
            TAG => return Some(&self.full),
            4 => 0,
            8 => 1,
            12..TAG => tag_len - 10,
            _ => return None,
        };
        self.short[place].get_or_init(|| Context::new(self.cipher, self.bytes(), tag_len)).as_ref()
    }
}

/// Prepares a key of a length that the suite takes.
pub(crate) fn prepare(key: &[u8], aead: Aead) -> Result<PreparedKey> {
    let suite = Suite::Aead(aead);
    let prepared = match aead {
        Aead::AesCcm(_) => CcmKey::new(key).map(|state| Prepared::key(suite, state)),
        _ => AeadKey::new(key, aead).map(|state| Prepared::key(suite, state)),
    };
    prepared.ok_or_else(fault)
}

/// Runs a batch; leaves operations of other AEADs pending.
pub(crate) fn run(batch: &mut CheckedBatch<'_>, aead: Aead) {
    let suite = batch.suite();
    let encrypt = batch.direction() == Direction::Encrypt;
    match aead {
        Aead::AesCcm(_) => batch.process(|op| match state::<CcmKey>(op, suite) {
            Some(key) if encrypt => key.seal(op),
            Some(key) => key.open(op),
            None => OpStatus::EngineFault,
        }),
        Aead::AesGcm(_)
        | Aead::AesGcmAnyIv(_)
        | Aead::AesGcmSiv(_)
        | Aead::ChaCha20Poly1305
        | Aead::XChaCha20Poly1305 => {
            batch.process(|op| run_op(op, suite, encrypt));
        }
        Aead::AesSiv(_) | Aead::AesOcb(_) | Aead::AesCbcHmac(_) => {}
    }
}

fn run_op(op: &mut OpBuffers<'_>, suite: Suite, encrypt: bool) -> OpStatus {
    let Some(context) = state::<AeadKey>(op, suite).and_then(|key| key.context(op.tag.len())) else {
        return op_fault();
    };
    if !encrypt {
        return context.open(op.iv, op.aad, op.data, op.tag);
    }
    if context.seal(op.iv, op.aad, op.data, op.tag) { OpStatus::Done } else { op_fault() }
}

/// AWS-LC's table for an AEAD.
fn table(aead: Aead) -> Option<Cipher> {
    // SAFETY: each function returns a static table.
    let table = unsafe {
        match aead {
            Aead::AesGcm(AesSize::Aes128) | Aead::AesGcmAnyIv(AesSize::Aes128) => sys::EVP_aead_aes_128_gcm(),
            Aead::AesGcm(AesSize::Aes192) | Aead::AesGcmAnyIv(AesSize::Aes192) => sys::EVP_aead_aes_192_gcm(),
            Aead::AesGcm(AesSize::Aes256) | Aead::AesGcmAnyIv(AesSize::Aes256) => sys::EVP_aead_aes_256_gcm(),
            Aead::AesGcmSiv(AesSize::Aes128) => sys::EVP_aead_aes_128_gcm_siv(),
            Aead::AesGcmSiv(AesSize::Aes256) => sys::EVP_aead_aes_256_gcm_siv(),
            Aead::ChaCha20Poly1305 => sys::EVP_aead_chacha20_poly1305(),
            Aead::XChaCha20Poly1305 => sys::EVP_aead_xchacha20_poly1305(),
            _ => return None,
        }
    };
    Some(Cipher(table))
}
