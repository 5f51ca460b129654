//! From a suite to OpenSSL's algorithms, and the work of one operation.

use std::ffi::CStr;

use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Chain, Digest, Mac, Mode, StreamCipher};
use ciphermill_contract::{Direction, OpStatus, Reason, Suite};
use openssl_sys as sys;
use subtle::ConstantTimeEq;

use super::Keying;
use super::contexts::{CipherContext, DigestContext, HmacContext, MacContext};
use super::library::{Fetched, Library};
use crate::ops::RawOp;

type Cipher = Fetched<sys::EVP_CIPHER>;
type Md = Fetched<sys::EVP_MD>;
/// What gives a digest that has not been fetched.
type Algorithm = unsafe extern "C" fn() -> *const sys::EVP_MD;

/// The algorithms that a suite runs on, fetched.
pub(super) enum Plan {
    /// A cipher without authentication; `variable_key` for those whose key length must be told.
    Cipher {
        cipher: Cipher,
        variable_key: bool,
        iv: Iv,
    },
    /// RC4, whose context changes with every message, so that a kept one is copied.
    Rc4(Cipher),
    Aead(Cipher),
    Ccm(Cipher),
    Ocb(Cipher),
    /// SIV, whose context cannot be started again, so that a kept one is copied.
    Siv(Cipher),
    /// GCM without a plaintext.
    Gmac(Cipher),
    /// A digest in a context that is kept; `is_xof` for those whose length must be told.
    Digest {
        digest: Md,
        is_xof: bool,
    },
    /// A digest as `EVP_Digest` computes it: one call for each message, which makes a context and looks the algorithm up.
    OneCall {
        algorithm: Algorithm,
        is_xof: bool,
    },
    Hmac(Md),
    Cmac(Fetched<sys::EVP_MAC>, &'static CStr),
    Poly1305(Fetched<sys::EVP_MAC>),
    /// Encrypt, then HMAC over additional data and ciphertext.
    Chain {
        cipher: Cipher,
        digest: Md,
        cipher_key_len: usize,
        iv: Iv,
    },
}

/// How the contract's IV becomes OpenSSL's.
#[derive(Clone, Copy)]
pub(super) enum Iv {
    /// As it is.
    Plain,
    /// AES-CTR: a nonce of 12 bytes is followed by a counter that starts at one.
    Counter,
    /// ChaCha20: a nonce of 12 bytes follows a counter that starts at zero.
    ChaCha,
}

/// Contexts of one suite and direction, for one key or for one key after the other.
#[derive(Default)]
pub(super) struct Contexts {
    cipher: Option<CipherContext>,
    copy: Option<CipherContext>,
    hmac: Option<HmacContext>,
    mac: Option<MacContext>,
    digest: Option<DigestContext>,
    /// CCM's lengths of nonce and tag; the key must be set again when they change.
    ccm_shape: (usize, usize),
}

/// The key of an operation.
#[derive(Clone, Copy)]
pub(super) struct Key<'k> {
    /// Its bytes, triple DES keys always with three parts.
    pub(super) bytes: &'k [u8],
    /// Whether the contexts hold it already.
    pub(super) kept: bool,
}

impl<'k> Key<'k> {
    /// The key when it is still to be set.
    #[inline]
    fn to_set(self) -> Option<&'k [u8]> {
        if self.kept { None } else { Some(self.bytes) }
    }
}

impl Plan {
    /// Fetches what `suite` needs, where anything is kept.
    pub(super) fn new(library: &Library, suite: Suite, keying: Keying) -> Result<Plan, String> {
        Ok(match suite {
            Suite::Cipher(cipher, mode) => Plan::Cipher {
                cipher: library.cipher(cipher_name(cipher, mode)?)?,
                variable_key: cipher == BlockCipher::Blowfish,
                iv: if mode == Mode::Ctr { Iv::Counter } else { Iv::Plain },
            },
            Suite::Stream(StreamCipher::ChaCha20) => {
                Plan::Cipher { cipher: library.cipher(c"ChaCha20")?, variable_key: false, iv: Iv::ChaCha }
            }
            Suite::Stream(StreamCipher::Rc4) => Plan::Rc4(library.cipher(c"RC4")?),
            Suite::Aead(aead) => aead_plan(library, aead)?,
            Suite::Digest(digest) if keying == Keying::PerOperation => {
                Plan::OneCall { algorithm: algorithm(digest)?, is_xof: digest.is_xof() }
            }
            Suite::Digest(digest) => {
                Plan::Digest { digest: library.digest(digest_name(digest)?)?, is_xof: digest.is_xof() }
            }
            Suite::Mac(Mac::Hmac(digest)) => Plan::Hmac(library.digest(digest_name(digest)?)?),
            Suite::Mac(Mac::Cmac(size)) => Plan::Cmac(library.mac(c"CMAC")?, AES_CBC[size as usize]),
            Suite::Mac(Mac::Gmac(size)) => Plan::Gmac(library.cipher(AES_GCM[size as usize])?),
            Suite::Mac(Mac::Poly1305) => Plan::Poly1305(library.mac(c"POLY1305")?),
            Suite::Chain(chain) => chain_plan(library, chain)?,
            other => return Err(format!("{other} has no OpenSSL algorithm")),
        })
    }

    /// Whether operations come with a key.
    pub(super) fn needs_key(&self) -> bool {
        !matches!(self, Plan::Digest { .. } | Plan::OneCall { .. })
    }

    /// Contexts without a key.
    pub(super) fn contexts(&self, direction: Direction) -> Option<Contexts> {
        let mut contexts = Contexts::default();
        match *self {
            Plan::Cipher { cipher, .. } | Plan::Aead(cipher) | Plan::Ccm(cipher) | Plan::Ocb(cipher) => {
                contexts.cipher = Some(CipherContext::new(cipher, direction)?);
            }
            Plan::Rc4(cipher) | Plan::Siv(cipher) => {
                contexts.cipher = Some(CipherContext::new(cipher, direction)?);
                contexts.copy = Some(CipherContext::new(cipher, direction)?);
            }
            Plan::Gmac(cipher) => contexts.cipher = Some(CipherContext::new(cipher, Direction::Encrypt)?),
            Plan::Digest { .. } => contexts.digest = Some(DigestContext::new()?),
            Plan::OneCall { .. } => {}
            Plan::Hmac(_) => contexts.hmac = Some(HmacContext::new()?),
            Plan::Cmac(mac, cipher) => contexts.mac = Some(MacContext::new(mac, Some(cipher))?),
            Plan::Poly1305(mac) => contexts.mac = Some(MacContext::new(mac, None)?),
            Plan::Chain { cipher, .. } => {
                contexts.cipher = Some(CipherContext::new(cipher, direction)?);
                contexts.hmac = Some(HmacContext::new()?);
            }
        }
        Some(contexts)
    }

    /// Contexts that hold `key`.
    pub(super) fn contexts_with(&self, direction: Direction, key: &[u8]) -> Option<Contexts> {
        let mut contexts = self.contexts(direction)?;
        let (cipher_key, mac_key) = match self {
            Plan::Chain { cipher_key_len, .. } => key.split_at_checked(*cipher_key_len)?,
            _ => (key, key),
        };
        if let Plan::Hmac(digest) | Plan::Chain { digest, .. } = self {
            contexts.hmac.as_mut()?.start_with(mac_key, *digest).then_some(())?;
        }
        if let Plan::Cmac(..) = self {
            contexts.mac.as_mut()?.start(Some(key)).then_some(())?;
        }
        // CCM takes its key with the first operation, when its lengths are known.
        if let Some(cipher) = contexts.cipher.as_mut().filter(|_| !matches!(self, Plan::Ccm(_))) {
            (self.fit_key(cipher, cipher_key) && cipher.start(Some(cipher_key), None)).then_some(())?;
        }
        Some(contexts)
    }

    fn fit_key(&self, cipher: &mut CipherContext, key: &[u8]) -> bool {
        match self {
            Plan::Cipher { variable_key: true, .. } | Plan::Rc4(_) => cipher.set_key_len(key.len()),
            _ => true,
        }
    }

    /// Does one operation. `None` when OpenSSL refused a call.
    #[inline]
    pub(super) fn work(
        &self,
        contexts: &mut Contexts,
        key: Key<'_>,
        op: &mut RawOp<'_>,
        direction: Direction,
    ) -> Option<OpStatus> {
        match self {
            Plan::Cipher { iv, .. } => self.cipher(contexts, key, op, *iv),
            Plan::Rc4(_) => self.rc4(contexts, key, op),
            Plan::Aead(_) => {
                let cipher = contexts.cipher.as_mut()?;
                cipher.start(key.to_set(), Some(op.iv)).then_some(())?;
                // SAFETY: `op` describes its buffers.
                unsafe { seal_or_open(cipher, op, direction) }
            }
            Plan::Ccm(_) => ccm(contexts, key, op, direction),
            Plan::Ocb(_) => ocb(contexts, key, op, direction),
            Plan::Siv(_) => siv(contexts, key, op, direction),
            Plan::Gmac(_) => gmac(contexts, key, op, direction),
            Plan::Digest { digest, is_xof } => {
                let data = op.input().as_ptr();
                // SAFETY: the tag, which is written, is apart from the input (`Batch::check`).
                let data = unsafe { std::slice::from_raw_parts(data, op.len) };
                contexts.digest.as_mut()?.digest(digest.as_ptr(), *is_xof, data, op.tag).then_some(OpStatus::Done)
            }
            Plan::OneCall { algorithm, is_xof } => {
                let data = op.input().as_ptr();
                // SAFETY: as above; the function only returns a static object.
                let (data, algorithm) = unsafe { (std::slice::from_raw_parts(data, op.len), algorithm()) };
                DigestContext::new()?.digest(algorithm, *is_xof, data, op.tag).then_some(OpStatus::Done)
            }
            Plan::Hmac(digest) => {
                let hmac = contexts.hmac.as_mut()?;
                start_hmac(hmac, key.to_set(), *digest).then_some(())?;
                hmac.update(op.input()).then_some(())?;
                settle(&hmac.finish()?, op.tag, direction)
            }
            Plan::Cmac(..) | Plan::Poly1305(_) => {
                let mac = contexts.mac.as_mut()?;
                // A Poly1305 key is good for one message, and OpenSSL wants it anew for each.
                let to_set = if let Plan::Poly1305(_) = self { Some(key.bytes) } else { key.to_set() };
                mac.start(to_set).then_some(())?;
                mac.update(op.input()).then_some(())?;
                settle(&mac.finish()?, op.tag, direction)
            }
            Plan::Chain { digest, cipher_key_len, iv, .. } => {
                let (cipher_key, mac_key) = key.bytes.split_at_checked(*cipher_key_len)?;
                let key = |bytes| Key { bytes, kept: key.kept };
                self.chain(contexts, key(cipher_key), key(mac_key), op, direction, (*digest, *iv))
            }
        }
    }

    #[inline]
    fn cipher(&self, contexts: &mut Contexts, key: Key<'_>, op: &mut RawOp<'_>, iv: Iv) -> Option<OpStatus> {
        let cipher = contexts.cipher.as_mut()?;
        if let Some(key) = key.to_set() {
            self.fit_key(cipher, key).then_some(())?;
        }
        let iv = match iv {
            Iv::ChaCha if chacha_counter_ends(op) => return Some(OpStatus::BadInput(Reason::InputTooLong)),
            _ => full_iv(op, iv),
        };
        cipher.start(key.to_set(), Some(&iv)).then_some(())?;
        // SAFETY: `op` describes its buffers.
        unsafe { cipher.update(op.dst, op.src, op.len) }.filter(|&len| len == op.len)?;
        Some(OpStatus::Done)
    }

    fn rc4(&self, contexts: &mut Contexts, key: Key<'_>, op: &mut RawOp<'_>) -> Option<OpStatus> {
        let cipher = match key.to_set() {
            Some(key) => {
                let cipher = contexts.cipher.as_mut()?;
                (self.fit_key(cipher, key) && cipher.start(Some(key), None)).then_some(cipher)?
            }
            None => {
                let copy = contexts.copy.as_mut()?;
                copy.copy_from(contexts.cipher.as_ref()?).then_some(copy)?
            }
        };
        // SAFETY: `op` describes its buffers.
        unsafe { cipher.update(op.dst, op.src, op.len) }.filter(|&len| len == op.len)?;
        Some(OpStatus::Done)
    }

    fn chain(
        &self,
        contexts: &mut Contexts,
        cipher_key: Key<'_>,
        mac_key: Key<'_>,
        op: &mut RawOp<'_>,
        direction: Direction,
        (digest, iv): (Md, Iv),
    ) -> Option<OpStatus> {
        if direction == Direction::Encrypt {
            self.cipher(contexts, cipher_key, op, iv)?;
        }
        let hmac = contexts.hmac.as_mut()?;
        start_hmac(hmac, mac_key.to_set(), digest).then_some(())?;
        hmac.update(op.aad).then_some(())?;
        hmac.update(op.iv.get(..op.iv_len)?).then_some(())?;
        let ciphertext = if direction == Direction::Encrypt { op.dst.cast_const() } else { op.src };
        // SAFETY: both places have `len` bytes, and nothing is written while the slice lives.
        hmac.update(unsafe { std::slice::from_raw_parts(ciphertext, op.len) }).then_some(())?;
        let status = settle(&hmac.finish()?, op.tag, direction)?;
        if direction == Direction::Decrypt && status.is_done() {
            self.cipher(contexts, cipher_key, op, iv)?;
        }
        Some(status)
    }
}

fn start_hmac(hmac: &mut HmacContext, key: Option<&[u8]>, digest: Md) -> bool {
    match key {
        Some(key) => hmac.start_with(key, digest),
        None => hmac.start(),
    }
}

/// Writes a tag or compares it, in constant time.
fn settle(full: &[u8; 64], tag: &mut [u8], direction: Direction) -> Option<OpStatus> {
    let full = full.get(..tag.len())?;
    if direction == Direction::Encrypt {
        tag.copy_from_slice(full);
        return Some(OpStatus::Done);
    }
    Some(if bool::from(full.ct_eq(tag)) { OpStatus::Done } else { OpStatus::AuthFailed })
}

/// The part of an AEAD after its start: additional data, text, tag.
///
/// # Safety
/// `op`'s buffers are as [`RawOp`] says.
#[inline]
unsafe fn seal_or_open(cipher: &mut CipherContext, op: &mut RawOp<'_>, direction: Direction) -> Option<OpStatus> {
    if direction == Direction::Decrypt {
        cipher.expect_tag(op.tag).then_some(())?;
    }
    if !op.aad.is_empty() {
        cipher.aad(op.aad).then_some(())?;
    }
    // SAFETY: the caller's promise; what `update` holds back, `finish` writes behind it.
    let ended = unsafe {
        let written = cipher.update(op.dst, op.src, op.len)?;
        cipher.finish(op.dst.add(written.min(op.len)))
    };
    match direction {
        Direction::Encrypt => (ended && cipher.tag(op.tag)).then_some(OpStatus::Done),
        Direction::Decrypt => Some(if ended { OpStatus::Done } else { OpStatus::AuthFailed }),
    }
}

/// CCM: lengths before the key, the message's length before the message, no end of its own.
fn ccm(contexts: &mut Contexts, key: Key<'_>, op: &mut RawOp<'_>, direction: Direction) -> Option<OpStatus> {
    // RFC 3610, section 2: the length field has 15 - nonce bytes.
    if op.iv_len >= 12 && op.len >> (8 * (15 - op.iv_len)) != 0 {
        return Some(OpStatus::BadInput(Reason::InputTooLong));
    }
    let cipher = contexts.cipher.as_mut()?;
    let shape = (op.iv_len, op.tag.len());
    let same = contexts.ccm_shape == shape;
    if !same {
        (cipher.set_iv_len(shape.0) && cipher.set_tag_len(shape.1)).then_some(())?;
        contexts.ccm_shape = shape;
    }
    let key = if same { key.to_set() } else { Some(key.bytes) };
    cipher.start(key, Some(op.iv)).then_some(())?;
    if direction == Direction::Decrypt {
        cipher.expect_tag(op.tag).then_some(())?;
    }
    cipher.announce(op.len).then_some(())?;
    if !op.aad.is_empty() {
        cipher.aad(op.aad).then_some(())?;
    }
    // SAFETY: `op` describes its buffers.
    let written = unsafe { cipher.update(op.dst, op.src, op.len) };
    match direction {
        Direction::Encrypt => (written? == op.len && cipher.tag(op.tag)).then_some(OpStatus::Done),
        Direction::Decrypt => Some(if written == Some(op.len) { OpStatus::Done } else { OpStatus::AuthFailed }),
    }
}

/// OCB: lengths of nonce and tag before both, since the tag's is a part of what is authenticated.
fn ocb(contexts: &mut Contexts, key: Key<'_>, op: &mut RawOp<'_>, direction: Direction) -> Option<OpStatus> {
    let cipher = contexts.cipher.as_mut()?;
    let shape = (op.iv_len, op.tag.len());
    if contexts.ccm_shape != shape {
        (cipher.set_iv_len(shape.0) && cipher.set_tag_len(shape.1)).then_some(())?;
        contexts.ccm_shape = shape;
    }
    cipher.start(key.to_set(), Some(op.iv)).then_some(())?;
    // SAFETY: `op` describes its buffers.
    unsafe { seal_or_open(cipher, op, direction) }
}

/// SIV (RFC 5297): additional data, then the nonce as the last component, then the text.
///
/// OpenSSL 3.0 skips an update without text and then has no tag to give: an empty message ends as an engine fault.
fn siv(contexts: &mut Contexts, key: Key<'_>, op: &mut RawOp<'_>, direction: Direction) -> Option<OpStatus> {
    let cipher = match key.to_set() {
        Some(key) => {
            let cipher = contexts.cipher.as_mut()?;
            cipher.start(Some(key), None).then_some(cipher)?
        }
        None => {
            let copy = contexts.copy.as_mut()?;
            copy.copy_from(contexts.cipher.as_ref()?).then_some(copy)?
        }
    };
    if direction == Direction::Decrypt {
        cipher.expect_tag(op.tag).then_some(())?;
    }
    cipher.aad(op.aad).then_some(())?;
    if op.iv_len > 0 {
        cipher.aad(op.iv.get(..op.iv_len)?).then_some(())?;
    }
    // SAFETY: `op` describes its buffers.
    let written = unsafe { cipher.update(op.dst, op.src, op.len) };
    // SAFETY: SIV holds nothing back.
    let ended = written == Some(op.len) && unsafe { cipher.finish(op.dst) };
    match direction {
        Direction::Encrypt => (ended && cipher.tag(op.tag)).then_some(OpStatus::Done),
        Direction::Decrypt => Some(if ended { OpStatus::Done } else { OpStatus::AuthFailed }),
    }
}

fn gmac(contexts: &mut Contexts, key: Key<'_>, op: &mut RawOp<'_>, direction: Direction) -> Option<OpStatus> {
    let cipher = contexts.cipher.as_mut()?;
    cipher.start(key.to_set(), Some(op.iv)).then_some(())?;
    if op.len > 0 {
        cipher.aad(op.input()).then_some(())?;
    }
    let mut none = [0; 16];
    let mut full = [0; 64];
    // SAFETY: GCM holds nothing back, and a block would have room.
    (unsafe { cipher.finish(none.as_mut_ptr()) } && cipher.tag(&mut full[..16])).then_some(())?;
    settle(&full, op.tag, direction)
}

/// OpenSSL's IV for an operation.
#[inline]
fn full_iv(op: &RawOp<'_>, iv: Iv) -> [u8; 16] {
    let mut full = *op.iv;
    match iv {
        Iv::Counter if op.iv_len == 12 => full[12..].copy_from_slice(&1u32.to_be_bytes()),
        Iv::ChaCha if op.iv_len == 12 => {
            full[4..].copy_from_slice(&op.iv[..12]);
            full[..4].fill(0);
        }
        _ => {}
    }
    full
}

/// Whether ChaCha20's 32-bit counter would wrap, which RFC 8439 does not define and OpenSSL carries into the nonce.
fn chacha_counter_ends(op: &RawOp<'_>) -> bool {
    let start = if op.iv_len == 16 { u32::from_le_bytes([op.iv[0], op.iv[1], op.iv[2], op.iv[3]]) } else { 0 };
    u64::from(start) + (op.len as u64).div_ceil(64) > 1 << 32
}

fn aead_plan(library: &Library, aead: Aead) -> Result<Plan, String> {
    Ok(match aead {
        Aead::AesGcm(size) => Plan::Aead(library.cipher(AES_GCM[size as usize])?),
        Aead::AesCcm(size) => {
            Plan::Ccm(library.cipher([c"AES-128-CCM", c"AES-192-CCM", c"AES-256-CCM"][size as usize])?)
        }
        Aead::AesSiv(size) => {
            Plan::Siv(library.cipher([c"AES-128-SIV", c"AES-192-SIV", c"AES-256-SIV"][size as usize])?)
        }
        Aead::AesOcb(size) => {
            Plan::Ocb(library.cipher([c"AES-128-OCB", c"AES-192-OCB", c"AES-256-OCB"][size as usize])?)
        }
        Aead::ChaCha20Poly1305 => Plan::Aead(library.cipher(c"ChaCha20-Poly1305")?),
        Aead::AesGcmSiv(_) => return Err("OpenSSL 3.0 has no AES-GCM-SIV".to_owned()),
        _ => return Err(format!("{} is not compared with OpenSSL", Suite::Aead(aead))),
    })
}

fn chain_plan(library: &Library, chain: Chain) -> Result<Plan, String> {
    Ok(Plan::Chain {
        cipher: library.cipher(cipher_name(chain.cipher, chain.mode)?)?,
        digest: library.digest(digest_name(chain.digest)?)?,
        cipher_key_len: chain.cipher_key_len(),
        iv: if chain.mode == Mode::Ctr { Iv::Counter } else { Iv::Plain },
    })
}

const AES_CBC: [&CStr; 3] = [c"AES-128-CBC", c"AES-192-CBC", c"AES-256-CBC"];
const AES_GCM: [&CStr; 3] = [c"AES-128-GCM", c"AES-192-GCM", c"AES-256-GCM"];

fn cipher_name(cipher: BlockCipher, mode: Mode) -> Result<&'static CStr, String> {
    Ok(match (cipher, mode) {
        (BlockCipher::Des, Mode::Ecb) => c"DES-ECB",
        (BlockCipher::Des, Mode::Cbc) => c"DES-CBC",
        (BlockCipher::TripleDes, Mode::Ecb) => c"DES-EDE3",
        (BlockCipher::TripleDes, Mode::Cbc) => c"DES-EDE3-CBC",
        (BlockCipher::Blowfish, Mode::Ecb) => c"BF-ECB",
        (BlockCipher::Blowfish, Mode::Cbc) => c"BF-CBC",
        (BlockCipher::Aes(size), Mode::Ecb) => [c"AES-128-ECB", c"AES-192-ECB", c"AES-256-ECB"][size as usize],
        (BlockCipher::Aes(size), Mode::Cbc) => AES_CBC[size as usize],
        (BlockCipher::Aes(size), Mode::Ctr) => [c"AES-128-CTR", c"AES-192-CTR", c"AES-256-CTR"][size as usize],
        (BlockCipher::Aes(AesSize::Aes128), Mode::Xts) => c"AES-128-XTS",
        (BlockCipher::Aes(AesSize::Aes256), Mode::Xts) => c"AES-256-XTS",
        _ => return Err(format!("OpenSSL has no {cipher}-{mode}")),
    })
}

// What openssl-sys does not declare (openssl/evp.h).
unsafe extern "C" {
    fn EVP_sha512_224() -> *const sys::EVP_MD;
    fn EVP_sha512_256() -> *const sys::EVP_MD;
}

fn algorithm(digest: Digest) -> Result<Algorithm, String> {
    Ok(match digest {
        Digest::Md5 => sys::EVP_md5,
        Digest::Sha1 => sys::EVP_sha1,
        Digest::Sha224 => sys::EVP_sha224,
        Digest::Sha256 => sys::EVP_sha256,
        Digest::Sha384 => sys::EVP_sha384,
        Digest::Sha512 => sys::EVP_sha512,
        Digest::Sha512_224 => EVP_sha512_224,
        Digest::Sha512_256 => EVP_sha512_256,
        Digest::Sha3_224 => sys::EVP_sha3_224,
        Digest::Sha3_256 => sys::EVP_sha3_256,
        Digest::Sha3_384 => sys::EVP_sha3_384,
        Digest::Sha3_512 => sys::EVP_sha3_512,
        Digest::Shake128 => sys::EVP_shake128,
        Digest::Shake256 => sys::EVP_shake256,
        Digest::Blake3 => return Err("OpenSSL has no BLAKE3".to_owned()),
    })
}

fn digest_name(digest: Digest) -> Result<&'static CStr, String> {
    Ok(match digest {
        Digest::Md5 => c"MD5",
        Digest::Sha1 => c"SHA1",
        Digest::Sha224 => c"SHA224",
        Digest::Sha256 => c"SHA256",
        Digest::Sha384 => c"SHA384",
        Digest::Sha512 => c"SHA512",
        Digest::Sha512_224 => c"SHA512-224",
        Digest::Sha512_256 => c"SHA512-256",
        Digest::Sha3_224 => c"SHA3-224",
        Digest::Sha3_256 => c"SHA3-256",
        Digest::Sha3_384 => c"SHA3-384",
        Digest::Sha3_512 => c"SHA3-512",
        Digest::Shake128 => c"SHAKE128",
        Digest::Shake256 => c"SHAKE256",
        Digest::Blake3 => return Err("OpenSSL has no BLAKE3".to_owned()),
    })
}
