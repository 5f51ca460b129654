//! Encryption by message (PKCS#11 3.2, 5.9 and 5.11): one mechanism and key, and for each message an IV and additional data of its own.

use std::ffi::c_void;

use ciphermill::BoundOp;
use ciphermill_contract::suite::{Aead, AesSize};
use ciphermill_contract::{Direction, Suite};
use cryptoki_sys::{
    CK_CCM_MESSAGE_PARAMS, CK_GCM_MESSAGE_PARAMS, CK_GENERATOR_FUNCTION, CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS,
    CK_ULONG, CKG_GENERATE, CKG_GENERATE_COUNTER, CKG_GENERATE_RANDOM, CKG_NO_GENERATE, CKR_BUFFER_TOO_SMALL,
    CKR_DATA_LEN_RANGE, CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_INVALID, CKR_MECHANISM_PARAM_INVALID,
};

use crate::key::{Key, KeyShape};
use crate::mechanisms::{Mechanism, What};
use crate::memory::{many, place};
use crate::operations::random;
use crate::rv::{Asked, Result, Rv, fail, of_status};

/// Messages under one key, each of which is encrypted or decrypted by itself.
pub(crate) struct Message {
    key: Key,
    kind: Kind,
    direction: Direction,
    /// Messages that have had an IV of a counter.
    counted: u64,
}

/// The mechanisms that work so.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Gcm(AesSize),
    Ccm(AesSize),
    ChaCha20Poly1305,
}

/// The parameter of one message, in the application's memory.
pub(crate) struct Parameters<'a> {
    iv: &'a mut [u8],
    /// Bytes of the IV that are the application's, before those that are generated.
    fixed: usize,
    generator: CK_GENERATOR_FUNCTION,
    tag: &'a mut [u8],
    /// What CCM is told of the text's length before.
    text_len: Option<CK_ULONG>,
}

const fn bad<T>() -> Result<T> {
    fail(CKR_MECHANISM_PARAM_INVALID)
}

/// A message's IV and tag, both of which may be written to: they must not share memory.
///
/// # Safety
/// There are as many bytes as lengths say.
unsafe fn iv_and_tag<'a>(iv: (*mut u8, CK_ULONG), tag: (*mut u8, CK_ULONG)) -> Result<(&'a mut [u8], &'a mut [u8])> {
    let end = |(at, len): (*mut u8, CK_ULONG)| at.addr().saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
    let are_apart = end(iv) <= tag.0.addr() || end(tag) <= iv.0.addr();
    if !are_apart {
        return bad();
    }
    // SAFETY: by the caller, and what is written to in one is not read in the other.
    unsafe { Ok((many(iv.0, iv.1)?, many(tag.0, tag.1)?)) }
}

impl Message {
    /// # Errors
    /// `CKR_KEY_TYPE_INCONSISTENT`; `CKR_MECHANISM_INVALID` for mechanisms that are no AEADs.
    pub(crate) fn init(mechanism: &Mechanism, direction: Direction, key: &Key) -> Result<Message> {
        let kind = match (mechanism.what, key.shape) {
            (What::Gcm, KeyShape::Aes(size)) => Kind::Gcm(size),
            (What::Ccm, KeyShape::Aes(size)) => Kind::Ccm(size),
            (What::ChaCha20Poly1305, KeyShape::ChaCha20) => Kind::ChaCha20Poly1305,
            (What::Gcm | What::Ccm | What::ChaCha20Poly1305, _) => return fail(CKR_KEY_TYPE_INCONSISTENT),
            _ => return fail(CKR_MECHANISM_INVALID),
        };
        Ok(Message { key: key.clone(), kind, direction, counted: 0 })
    }

    /// Reads the parameter of a message.
    ///
    /// # Errors
    /// `CKR_MECHANISM_PARAM_INVALID`.
    ///
    /// # Safety
    /// There are `len` bytes at `at`, unless it is null, which lead to as much memory as they say.
    pub(crate) unsafe fn parameters<'a>(&self, at: *mut c_void, len: CK_ULONG) -> Result<Parameters<'a>> {
        let is = |wanted: usize| if len == wanted as CK_ULONG { Ok(()) } else { bad() };
        // SAFETY: by the caller, and as long as it has to be.
        let read = unsafe {
            match self.kind {
                Kind::Gcm(_) => {
                    is(size_of::<CK_GCM_MESSAGE_PARAMS>())?;
                    let given = place(at.cast::<CK_GCM_MESSAGE_PARAMS>())?;
                    let (tag_bits, fixed_bits) = (given.ulTagBits, given.ulIvFixedBits);
                    if !matches!(tag_bits, 96 | 104 | 112 | 120 | 128) || !fixed_bits.is_multiple_of(8) {
                        return bad();
                    }
                    let (iv, tag) = iv_and_tag((given.pIv, given.ulIvLen), (given.pTag, tag_bits / 8))?;
                    let (fixed, generator) = ((fixed_bits / 8) as usize, given.ivGenerator);
                    Parameters { iv, fixed, generator, tag, text_len: None }
                }
                Kind::Ccm(_) => {
                    is(size_of::<CK_CCM_MESSAGE_PARAMS>())?;
                    let given = place(at.cast::<CK_CCM_MESSAGE_PARAMS>())?;
                    if !matches!(given.ulMACLen, 4 | 6 | 8 | 10 | 12 | 14 | 16)
                        || !given.ulNonceFixedBits.is_multiple_of(8)
                    {
                        return bad();
                    }
                    let (iv, tag) = iv_and_tag((given.pNonce, given.ulNonceLen), (given.pMAC, given.ulMACLen))?;
                    let (fixed, generator) = ((given.ulNonceFixedBits / 8) as usize, given.nonceGenerator);
                    Parameters { iv, fixed, generator, tag, text_len: Some(given.ulDataLen) }
                }
                Kind::ChaCha20Poly1305 => {
                    is(size_of::<CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS>())?;
                    let given = place(at.cast::<CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS>())?;
                    let (iv, tag) = iv_and_tag((given.pNonce, given.ulNonceLen), (given.pTag, 16))?;
                    Parameters { fixed: iv.len(), iv, generator: CKG_NO_GENERATE, tag, text_len: None }
                }
            }
        };
        let lengths = self.suite(read.iv.len()).iv_len();
        if lengths.contains(read.iv.len()) && read.fixed <= read.iv.len() { Ok(read) } else { bad() }
    }

    fn suite(&self, iv_len: usize) -> Suite {
        Suite::Aead(match self.kind {
            Kind::Gcm(size) if iv_len == 12 => Aead::AesGcm(size),
            Kind::Gcm(size) => Aead::AesGcmAnyIv(size),
            Kind::Ccm(size) => Aead::AesCcm(size),
            Kind::ChaCha20Poly1305 => Aead::ChaCha20Poly1305,
        })
    }

    /// Encrypts or decrypts one message; the tag is in its parameter.
    ///
    /// # Errors
    /// `CKR_BUFFER_TOO_SMALL`, before an IV is made; `CKR_MECHANISM_PARAM_INVALID` for a generator that has no room for its numbers or has
    /// given all of them; those of the mill.
    pub(crate) fn run(
        &mut self,
        parameters: &mut Parameters<'_>,
        aad: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize> {
        if parameters.text_len.is_some_and(|len| len != input.len() as CK_ULONG) {
            return fail(CKR_DATA_LEN_RANGE);
        }
        let Some(output) = output.get_mut(..input.len()) else { return fail(CKR_BUFFER_TOO_SMALL) };
        if self.direction == Direction::Encrypt {
            self.make_iv(parameters)?;
        }
        let suite = self.suite(parameters.iv.len());
        let mut bound = self.key.value.bound(suite, self.direction)?;
        output.copy_from_slice(input);
        let data = &mut *output;
        let done = bound.run(BoundOp { iv: parameters.iv, aad, data, input_len: input.len(), tag: parameters.tag });
        self.key.value.keep_bound(bound);
        let asked = if self.direction == Direction::Encrypt { Asked::Other } else { Asked::Open };
        of_status(done?.status, asked)?;
        Ok(input.len())
    }

    /// Makes the part of an IV that is not the application's.
    fn make_iv(&mut self, parameters: &mut Parameters<'_>) -> Result<()> {
        let own = &mut parameters.iv[parameters.fixed..];
        match parameters.generator {
            CKG_NO_GENERATE => Ok(()),
            // Random numbers meet each other after 2^(bits/2): SP 800-38D, 8.2.2, asks for 96 bits.
            CKG_GENERATE_RANDOM if own.len() >= 12 => random(self.key.value.mill(), own),
            CKG_GENERATE | CKG_GENERATE_COUNTER if !own.is_empty() => {
                let number = self.counted.to_be_bytes();
                let (before, counter) = own.split_at_mut(own.len().saturating_sub(number.len()));
                let (too_high, fits) = number.split_at(number.len() - counter.len());
                if too_high.iter().any(|byte| *byte != 0) {
                    return bad();
                }
                before.fill(0);
                counter.copy_from_slice(fits);
                self.counted = self.counted.checked_add(1).ok_or(Rv(CKR_MECHANISM_PARAM_INVALID))?;
                Ok(())
            }
            _ => bad(),
        }
    }
}
