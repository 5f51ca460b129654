//! AES-GCM and ChaCha20-Poly1305 through AWS-LC's cipher interface.

use aws_lc_sys as sys;
use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Reason, Stream, Suite};

use super::state;
use crate::aead::AeadKey;
use crate::ffi::{Owned, Wiped, done_if, op_fault};

/// Bytes that go to AWS-LC at a time, whose lengths are of type `int`; whole blocks.
const STEP: usize = 1 << 30;

/// A message of an AEAD. The context holds the key's schedule from the first message to the end.
pub(super) struct AeadStream {
    aead: Aead,
    direction: Direction,
    context: Owned<sys::EVP_CIPHER_CTX>,
}

impl AeadStream {
    /// `None` when AWS-LC gives no context.
    pub(super) fn new(aead: Aead, direction: Direction) -> Option<AeadStream> {
        Some(AeadStream { aead, direction, context: context()? })
    }

    /// Hands bytes to AWS-LC: text where there is an output, else additional data.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and, unless it is null, written at `output`, which is the same place or apart.
    unsafe fn update(&self, mut input: *const u8, mut output: *mut u8, mut len: usize) -> OpStatus {
        while len > 0 {
            let step = len.min(STEP);
            let mut written = 0;
            // SAFETY: the context is ours, and the caller's promise. The mode has no blocks, so that as much is written as read.
            let code =
                unsafe { sys::EVP_CipherUpdate(self.context.as_ptr(), output, &mut written, input, step as i32) };
            if code != 1 {
                return op_fault();
            }
            input = input.wrapping_add(step);
            if !output.is_null() {
                output = output.wrapping_add(step);
            }
            len -= step;
        }
        OpStatus::Done
    }
}

fn context() -> Option<Owned<sys::EVP_CIPHER_CTX>> {
    // SAFETY: a new context has no other owner.
    unsafe { Owned::new(sys::EVP_CIPHER_CTX_new()) }
}

impl Stream for AeadStream {
    fn begin(&mut self, key: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        let Some(key) = state::<AeadKey>(key, Suite::Aead(self.aead)) else { return OpStatus::EngineFault };
        if !Suite::Aead(self.aead).iv_len().contains(iv.len()) {
            return OpStatus::BadInput(Reason::IvLength);
        }
        let Some(cipher) = cipher(self.aead) else { return OpStatus::EngineFault };
        let way = i32::from(self.direction == Direction::Encrypt);
        let (context, none, set_len) = (self.context.as_ptr(), core::ptr::null_mut(), sys::EVP_CTRL_AEAD_SET_IVLEN);
        // SAFETY: the context is ours, the cipher a static table, whose key has the length of the suite's, and the IV as many bytes as the
        // context has been told.
        done_if(unsafe {
            sys::EVP_CipherInit_ex(context, cipher, none, core::ptr::null(), core::ptr::null(), way) == 1
                && sys::EVP_CIPHER_CTX_ctrl(context, set_len, iv.len() as i32, core::ptr::null_mut()) == 1
                && sys::EVP_CipherInit_ex(context, core::ptr::null(), none, key.bytes().as_ptr(), iv.as_ptr(), way) == 1
        })
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        // SAFETY: a slice, and no output.
        unsafe { self.update(bytes.as_ptr(), core::ptr::null_mut(), bytes.len()) }
    }

    fn transform(&mut self, _: Option<&PreparedKey>, mut piece: Piece<'_>) -> OpStatus {
        let ((input, output), len) = (piece.pointers(), piece.len());
        // SAFETY: what a piece promises.
        unsafe { self.update(input, output, len) }
    }

    fn finish(&mut self, _: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        let (context, len) = (self.context.as_ptr(), tag.len() as i32);
        let (mut none, mut written) = (Wiped([0; 16]), 0);
        if self.direction == Direction::Encrypt {
            // SAFETY: the context is ours; nothing is left to be written; the tag has `len` bytes.
            return done_if(unsafe {
                sys::EVP_CipherFinal_ex(context, none.0.as_mut_ptr(), &mut written) == 1
                    && sys::EVP_CIPHER_CTX_ctrl(context, sys::EVP_CTRL_AEAD_GET_TAG, len, tag.as_mut_ptr().cast()) == 1
            });
        }
        // SAFETY: as above; the tag is only read.
        unsafe {
            if sys::EVP_CIPHER_CTX_ctrl(context, sys::EVP_CTRL_AEAD_SET_TAG, len, tag.as_mut_ptr().cast()) != 1 {
                return op_fault();
            }
            if sys::EVP_CipherFinal_ex(context, none.0.as_mut_ptr(), &mut written) == 1 {
                return OpStatus::Done;
            }
        }
        op_fault();
        OpStatus::AuthFailed
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        let context = context()?;
        // SAFETY: both contexts are whole, and ours.
        let copied = unsafe { sys::EVP_CIPHER_CTX_copy(context.as_ptr(), self.context.as_ptr()) } == 1;
        copied.then(|| Box::new(AeadStream { context, ..*self }) as Box<dyn Stream>)
    }
}

/// AWS-LC's static table for an AEAD as a cipher.
fn cipher(aead: Aead) -> Option<*const sys::EVP_CIPHER> {
    // SAFETY: each function returns a static table.
    Some(unsafe {
        match aead {
            Aead::AesGcm(AesSize::Aes128) | Aead::AesGcmAnyIv(AesSize::Aes128) => sys::EVP_aes_128_gcm(),
            Aead::AesGcm(AesSize::Aes192) | Aead::AesGcmAnyIv(AesSize::Aes192) => sys::EVP_aes_192_gcm(),
            Aead::AesGcm(AesSize::Aes256) | Aead::AesGcmAnyIv(AesSize::Aes256) => sys::EVP_aes_256_gcm(),
            Aead::ChaCha20Poly1305 => sys::EVP_chacha20_poly1305(),
            _ => return None,
        }
    })
}
