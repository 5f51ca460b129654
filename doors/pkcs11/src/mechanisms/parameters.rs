//! A mechanism as an application gives it: its parameter, read and copied. With `tls.rs` the only place that follows pointers within
//! parameters.

use ciphermill_contract::suite::{Digest, Mode};
use cryptoki_sys::*;
use smallvec::SmallVec;
use zeroize::Zeroizing;

use super::raw::{Raw, bad, whole_bytes};
use super::tls::{Finished, KeyBlock, Prf};
use super::{Cipher, General, Padded, Row, Tls, What, digest, find};
use crate::memory::{bytes, place};
use crate::rv::{Result, Rv, fail};

/// A mechanism with its parameter.
#[derive(Debug)]
pub(crate) struct Mechanism {
    pub(crate) kind: CK_MECHANISM_TYPE,
    pub(crate) what: What,
    pub(crate) parameter: Parameter,
}

/// What a mechanism is given besides key and data.
#[derive(Debug)]
pub(crate) enum Parameter {
    None,
    /// An IV, nonce or counter block.
    Iv(SmallVec<[u8; 16]>),
    /// A counter block, and how many bytes it lasts for.
    Counter(SmallVec<[u8; 16]>, u128),
    Aead(Aead),
    /// Bytes of a MAC.
    MacLen(usize),
    Pss(Pss),
    Oaep(Oaep),
    Ecdh(Ecdh),
    Hkdf(Hkdf),
    /// Bytes to go with a key, or another's public value.
    Bytes(Zeroizing<Vec<u8>>),
    /// An IV, none of ECB, and what is encrypted.
    EncryptData(SmallVec<[u8; 16]>, Zeroizing<Vec<u8>>),
    /// Another key.
    Key(CK_OBJECT_HANDLE),
    Prf(Prf),
    KeyBlock(KeyBlock),
    Finished(Finished),
    /// A place in the bits of a key.
    Bit(usize),
    /// The context of a signature (FIPS 204).
    Context(Vec<u8>),
    /// Parameters of messages come with each.
    PerMessage,
}

/// The parameter of an AEAD.
#[derive(Debug)]
pub(crate) struct Aead {
    pub(crate) iv: SmallVec<[u8; 16]>,
    pub(crate) aad: SmallVec<[u8; 32]>,
    pub(crate) tag_len: usize,
}

/// The parameter of RSASSA-PSS: the message's digest, that of MGF1, and the salt's bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pss {
    pub(crate) digest: Digest,
    pub(crate) mgf: Digest,
    pub(crate) salt_len: usize,
}

impl Pss {
    /// Whether it is what suites have: one digest, and a salt as long as that.
    pub(crate) fn is_usual(self) -> bool {
        self.digest == self.mgf && self.digest.len() == self.salt_len
    }
}

/// The parameter of RSAES-OAEP: the label's digest, that of MGF1, and the label.
#[derive(Clone, Debug)]
pub(crate) struct Oaep {
    pub(crate) digest: Digest,
    pub(crate) mgf: Digest,
    pub(crate) label: Vec<u8>,
}

impl Oaep {
    /// Whether it is what suites have: one digest, and an empty label.
    pub(crate) fn is_usual(&self) -> bool {
        self.digest == self.mgf && self.label.is_empty()
    }
}

/// The parameter of ECDH: how the secret becomes a key, what goes into that, and the other's public value.
#[derive(Debug)]
pub(crate) struct Ecdh {
    /// The digest of ANSI X9.63's derivation; without one the secret itself is the key.
    pub(crate) kdf: Option<Digest>,
    pub(crate) shared: Vec<u8>,
    pub(crate) public: Vec<u8>,
}

/// The parameter of HKDF (RFC 5869).
#[derive(Debug)]
pub(crate) struct Hkdf {
    pub(crate) extract: bool,
    pub(crate) expand: bool,
    pub(crate) digest: Digest,
    pub(crate) salt: Salt,
    pub(crate) info: Vec<u8>,
}

/// Where HKDF's salt comes from.
#[derive(Debug)]
pub(crate) enum Salt {
    /// As many zeros as the digest is long.
    Zeros,
    Data(Vec<u8>),
    Key(CK_OBJECT_HANDLE),
}

impl Mechanism {
    /// Reads a mechanism for a purpose (`CKF_ENCRYPT`, `CKF_SIGN`, …).
    ///
    /// # Errors
    /// `CKR_ARGUMENTS_BAD` for a null pointer; `CKR_MECHANISM_INVALID` for mechanisms that the module has not, or not for this purpose;
    /// `CKR_MECHANISM_PARAM_INVALID`.
    ///
    /// # Safety
    /// There is a mechanism at `at`, unless it is null, whose parameter is as long as it says and leads to as much memory as it says.
    #[inline]
    pub(crate) unsafe fn read(at: *mut CK_MECHANISM, purpose: CK_FLAGS) -> Result<Mechanism> {
        // SAFETY: by the caller.
        let mechanism = unsafe { place(at) }?;
        let Some(row) = find(mechanism.mechanism).filter(|row| row.flags & purpose != 0) else {
            return fail(CKR_MECHANISM_INVALID);
        };
        let raw = Raw { at: mechanism.pParameter, len: mechanism.ulParameterLen };
        let per_message = purpose & (CKF_MESSAGE_ENCRYPT | CKF_MESSAGE_DECRYPT) != 0;
        let parameter = if per_message {
            Parameter::PerMessage
        } else {
            // SAFETY: by the caller.
            unsafe { parameter(row, &raw) }.map_err(|_| Rv(CKR_MECHANISM_PARAM_INVALID))?
        };
        Ok(Mechanism { kind: row.kind, what: row.what, parameter })
    }

    pub(crate) fn kind(&self) -> CK_MECHANISM_TYPE {
        self.kind
    }

    /// Whether what it derives consists of the key's own bytes, which then must be no easier to read.
    pub(crate) fn gives_parts_of_the_key(&self) -> bool {
        matches!(self.what, What::Concatenate(_) | What::ConcatenateKey | What::XorData | What::Extract)
    }

    /// The other key that goes into what is derived: HKDF's salt, or what is concatenated.
    pub(crate) fn other_key(&self) -> Option<CK_OBJECT_HANDLE> {
        match &self.parameter {
            Parameter::Key(handle) | Parameter::Hkdf(Hkdf { salt: Salt::Key(handle), .. }) => Some(*handle),
            _ => None,
        }
    }
}

/// No parameter: neither a length nor, where one is given, anything behind it.
fn none(raw: &Raw) -> Result<Parameter> {
    if raw.len == 0 { Ok(Parameter::None) } else { bad() }
}

/// An IV of one length.
///
/// # Safety
/// As [`Mechanism::read`].
unsafe fn iv(raw: &Raw, len: usize) -> Result<Parameter> {
    // SAFETY: by the caller.
    let iv = unsafe { raw.bytes() }?;
    if iv.len() == len { Ok(Parameter::Iv(SmallVec::from_slice(iv))) } else { bad() }
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn parameter(row: &Row, raw: &Raw) -> Result<Parameter> {
    // SAFETY: by the caller, in all that follows.
    unsafe {
        match row.what {
            What::Block(_, Mode::Ecb, _) | What::Digest(_) | What::Hmac(_, General::No) | What::Cmac(General::No) => {
                none(raw)
            }
            What::Hmac(_, General::Yes) | What::Cmac(General::Yes) => {
                Ok(Parameter::MacLen(usize::try_from(*raw.structure::<CK_ULONG>()?).or(bad())?))
            }
            What::Gmac => gmac(raw),
            What::Block(Cipher::Aes, Mode::Ctr, _) => ctr(raw),
            What::Block(Cipher::Aes, ..) => iv(raw, 16),
            What::Block(..) => iv(raw, 8),
            What::ChaCha20 => chacha20(raw),
            What::Gcm => gcm(raw),
            What::Ccm => ccm(raw),
            What::ChaCha20Poly1305 => {
                let given = raw.structure::<CK_SALSA20_CHACHA20_POLY1305_PARAMS>()?;
                aead((given.pNonce, given.ulNonceLen), (given.pAAD, given.ulAADLen), 16, |len| len == 12)
            }
            What::KeyWrap(padded) => key_wrap(raw.bytes()?, padded),
            What::RsaPss(of_message) => pss(raw, of_message),
            What::RsaOaep => oaep(raw),
            What::Eddsa => eddsa(raw),
            What::MlDsa => context(raw),
            What::Ecdh | What::EcdhCofactor => ecdh(raw),
            What::Dh => Ok(Parameter::Bytes(Zeroizing::new(raw.bytes()?.to_vec()))),
            What::Hkdf => hkdf(raw),
            What::Concatenate(_) | What::XorData => {
                let given = raw.structure::<CK_KEY_DERIVATION_STRING_DATA>()?;
                Ok(Parameter::Bytes(Zeroizing::new(bytes(given.pData, given.ulLen)?.to_vec())))
            }
            What::ConcatenateKey => Ok(Parameter::Key(*raw.structure::<CK_OBJECT_HANDLE>()?)),
            What::EncryptData(cipher, mode) => encrypt_data(raw, cipher, mode),
            What::Tls(what) => tls(raw, what),
            What::Extract => Ok(Parameter::Bit(usize::try_from(*raw.structure::<CK_ULONG>()?).or(bad())?)),
            What::GenerateSecret | What::GeneratePair | What::MlKem | What::Poly1305 => none(raw),
            What::RsaPkcs1(_) | What::RsaRaw | What::Ecdsa(_) => none(raw),
        }
    }
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn ctr(raw: &Raw) -> Result<Parameter> {
    // SAFETY: by the caller.
    let given = unsafe { raw.structure::<CK_AES_CTR_PARAMS>() }?;
    // Engines count in the whole block: what would carry into the nonce is refused before.
    let blocks = match given.ulCounterBits {
        bits @ 1..=127 => {
            let numbers = 1_u128 << bits;
            numbers - u128::from_be_bytes(given.cb) % numbers
        }
        128 => u128::MAX,
        _ => return bad(),
    };
    Ok(Parameter::Counter(SmallVec::from_slice(&given.cb), blocks.saturating_mul(16)))
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn tls(raw: &Raw, what: Tls) -> Result<Parameter> {
    // SAFETY: by the caller.
    unsafe {
        Ok(match what {
            Tls::Master(premaster) => Parameter::Prf(Prf::master(raw, premaster)?),
            Tls::ExtendedMaster(premaster) => Parameter::Prf(Prf::extended_master(raw, premaster)?),
            Tls::Exporter => Parameter::Prf(Prf::exporter(raw)?),
            Tls::KeyBlock => Parameter::KeyBlock(KeyBlock::read(raw)?),
            Tls::Finished => Parameter::Finished(Finished::read(raw)?),
        })
    }
}

/// Data of whole blocks, and with CBC an IV before them.
///
/// # Safety
/// As [`Mechanism::read`].
unsafe fn encrypt_data(raw: &Raw, cipher: Cipher, mode: Mode) -> Result<Parameter> {
    // SAFETY: by the caller.
    let (iv, data, block) = unsafe {
        match (mode, cipher) {
            (Mode::Ecb, _) => {
                let given = raw.structure::<CK_KEY_DERIVATION_STRING_DATA>()?;
                let block = if cipher == Cipher::Aes { 16 } else { 8 };
                (SmallVec::new(), bytes(given.pData, given.ulLen)?, block)
            }
            (_, Cipher::Aes) => {
                let given = raw.structure::<CK_AES_CBC_ENCRYPT_DATA_PARAMS>()?;
                (SmallVec::from_slice(&given.iv), bytes(given.pData, given.length)?, 16)
            }
            (_, Cipher::Des | Cipher::TripleDes) => {
                let given = raw.structure::<CK_DES_CBC_ENCRYPT_DATA_PARAMS>()?;
                (SmallVec::from_slice(&given.iv), bytes(given.pData, given.length)?, 8)
            }
        }
    };
    if data.is_empty() || !data.len().is_multiple_of(block) {
        return bad();
    }
    Ok(Parameter::EncryptData(iv, Zeroizing::new(data.to_vec())))
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn chacha20(raw: &Raw) -> Result<Parameter> {
    // SAFETY: by the caller.
    let (counter, nonce) = unsafe {
        let given = raw.structure::<CK_CHACHA20_PARAMS>()?;
        if given.blockCounterBits != 32 || given.ulNonceBits != 96 {
            return bad();
        }
        (bytes(given.pBlockCounter, 4)?, bytes(given.pNonce, 12)?)
    };
    let mut iv = SmallVec::from_slice(counter);
    iv.extend_from_slice(nonce);
    Ok(Parameter::Iv(iv))
}

/// # Safety
/// There are as many bytes as lengths say.
unsafe fn aead(
    iv: (*mut u8, CK_ULONG),
    aad: (*mut u8, CK_ULONG),
    tag_len: usize,
    may_be: impl Fn(usize) -> bool,
) -> Result<Parameter> {
    // SAFETY: by the caller.
    let (iv, aad) = unsafe { (bytes(iv.0, iv.1)?, bytes(aad.0, aad.1)?) };
    if !may_be(iv.len()) {
        return bad();
    }
    Ok(Parameter::Aead(Aead { iv: SmallVec::from_slice(iv), aad: SmallVec::from_slice(aad), tag_len }))
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn gcm(raw: &Raw) -> Result<Parameter> {
    // The structure of 2.40's first drafts had no `ulIvBits`; with the one that became the standard clients differ in whether they fill it.
    // SAFETY: by the caller.
    unsafe {
        let given = raw.structure::<CK_GCM_PARAMS>()?;
        let tag_len = whole_bytes(given.ulTagBits)?;
        if !(12..=16).contains(&tag_len) && tag_len != 4 && tag_len != 8 {
            return bad();
        }
        aead((given.pIv, given.ulIvLen), (given.pAAD, given.ulAADLen), tag_len, |len| (1..=256).contains(&len))
    }
}

/// GMAC is GCM without a text, whose additional data are the message: the parameter is that of GCM without any (PKCS#11 3.2, 6.13.4), or the IV
/// alone, as 2.40 has it.
///
/// # Safety
/// As [`Mechanism::read`].
unsafe fn gmac(raw: &Raw) -> Result<Parameter> {
    if raw.len != size_of::<CK_GCM_PARAMS>() as CK_ULONG {
        // SAFETY: by the caller.
        return unsafe { iv(raw, 12) };
    }
    // SAFETY: by the caller.
    match unsafe { gcm(raw) }? {
        Parameter::Aead(aead) if aead.aad.is_empty() => Ok(Parameter::Aead(aead)),
        _ => bad(),
    }
}

/// The initial value of key wrap: the standards' own, which may be given too, or another one of the same length that RFC 3394, 2.2.3.2,
/// leaves to the application.
fn key_wrap(given: &[u8], padded: Padded) -> Result<Parameter> {
    match (given, padded) {
        // RFC 5649, 3.
        ([] | [0xa6, 0x59, 0x59, 0xa6], Padded::Yes) | ([], Padded::No) => Ok(Parameter::None),
        ([_, _, _, _, _, _, _, _], Padded::No) => Ok(Parameter::Iv(SmallVec::from_slice(given))),
        _ => bad(),
    }
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn ccm(raw: &Raw) -> Result<Parameter> {
    // SAFETY: by the caller.
    unsafe {
        let given = raw.structure::<CK_CCM_PARAMS>()?;
        let tag_len = usize::try_from(given.ulMACLen).or(bad())?;
        if !matches!(tag_len, 4 | 6 | 8 | 10 | 12 | 14 | 16) {
            return bad();
        }
        aead((given.pNonce, given.ulNonceLen), (given.pAAD, given.ulAADLen), tag_len, |len| (7..=13).contains(&len))
    }
}

/// MGF1's digest.
fn mgf(kind: CK_RSA_PKCS_MGF_TYPE) -> Result<Digest> {
    Ok(match kind {
        CKG_MGF1_SHA1 => Digest::Sha1,
        CKG_MGF1_SHA224 => Digest::Sha224,
        CKG_MGF1_SHA256 => Digest::Sha256,
        CKG_MGF1_SHA384 => Digest::Sha384,
        CKG_MGF1_SHA512 => Digest::Sha512,
        CKG_MGF1_SHA3_224 => Digest::Sha3_224,
        CKG_MGF1_SHA3_256 => Digest::Sha3_256,
        CKG_MGF1_SHA3_384 => Digest::Sha3_384,
        CKG_MGF1_SHA3_512 => Digest::Sha3_512,
        _ => return bad(),
    })
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn pss(raw: &Raw, of_message: Option<Digest>) -> Result<Parameter> {
    // SAFETY: by the caller.
    let given = unsafe { raw.structure::<CK_RSA_PKCS_PSS_PARAMS>() }?;
    let named = digest(given.hashAlg).ok_or(Rv(CKR_MECHANISM_PARAM_INVALID))?;
    if of_message.is_some_and(|digest| digest != named) || given.sLen > 512 {
        return bad();
    }
    Ok(Parameter::Pss(Pss { digest: named, mgf: mgf(given.mgf)?, salt_len: given.sLen as usize }))
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn oaep(raw: &Raw) -> Result<Parameter> {
    // SAFETY: by the caller.
    let given = unsafe { raw.structure::<CK_RSA_PKCS_OAEP_PARAMS>() }?;
    let named = digest(given.hashAlg).ok_or(Rv(CKR_MECHANISM_PARAM_INVALID))?;
    // Some clients say nothing of an empty label, not even where it would be.
    if given.source > CKZ_DATA_SPECIFIED || (given.source == 0 && given.ulSourceDataLen != 0) {
        return bad();
    }
    // SAFETY: by the caller.
    let label = unsafe { bytes(given.pSourceData.cast(), given.ulSourceDataLen) }?.to_vec();
    Ok(Parameter::Oaep(Oaep { digest: named, mgf: mgf(given.mgf)?, label }))
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn eddsa(raw: &Raw) -> Result<Parameter> {
    if raw.len == 0 {
        return Ok(Parameter::None);
    }
    // SAFETY: by the caller.
    let given = unsafe { raw.structure::<CK_EDDSA_PARAMS>() }?;
    // Neither prehashed nor with a context: that is Ed25519 without more.
    if given.phFlag != CK_FALSE || given.ulContextDataLen != 0 { bad() } else { Ok(Parameter::None) }
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn context(raw: &Raw) -> Result<Parameter> {
    if raw.len == 0 {
        return Ok(Parameter::Context(Vec::new()));
    }
    // SAFETY: by the caller.
    let context = unsafe {
        let given = raw.structure::<CK_SIGN_ADDITIONAL_CONTEXT>()?;
        if given.hedgeVariant == CKH_DETERMINISTIC_REQUIRED {
            return bad();
        }
        bytes(given.pContext, given.ulContextLen)?
    };
    if context.len() > 255 { bad() } else { Ok(Parameter::Context(context.to_vec())) }
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn ecdh(raw: &Raw) -> Result<Parameter> {
    // SAFETY: by the caller.
    unsafe {
        let given = raw.structure::<CK_ECDH1_DERIVE_PARAMS>()?;
        let kdf = match given.kdf {
            CKD_NULL => None,
            CKD_SHA1_KDF => Some(Digest::Sha1),
            CKD_SHA224_KDF => Some(Digest::Sha224),
            CKD_SHA256_KDF => Some(Digest::Sha256),
            CKD_SHA384_KDF => Some(Digest::Sha384),
            CKD_SHA512_KDF => Some(Digest::Sha512),
            CKD_SHA3_224_KDF => Some(Digest::Sha3_224),
            CKD_SHA3_256_KDF => Some(Digest::Sha3_256),
            CKD_SHA3_384_KDF => Some(Digest::Sha3_384),
            CKD_SHA3_512_KDF => Some(Digest::Sha3_512),
            _ => return bad(),
        };
        let shared = bytes(given.pSharedData, given.ulSharedDataLen)?.to_vec();
        if kdf.is_none() && !shared.is_empty() {
            return bad();
        }
        let public = bytes(given.pPublicData, given.ulPublicDataLen)?.to_vec();
        if public.is_empty() { bad() } else { Ok(Parameter::Ecdh(Ecdh { kdf, shared, public })) }
    }
}

/// # Safety
/// As [`Mechanism::read`].
unsafe fn hkdf(raw: &Raw) -> Result<Parameter> {
    // SAFETY: by the caller.
    unsafe {
        let given = raw.structure::<CK_HKDF_PARAMS>()?;
        let (extract, expand) = (given.bExtract != CK_FALSE, given.bExpand != CK_FALSE);
        let digest = digest(given.prfHashMechanism).ok_or(Rv(CKR_MECHANISM_PARAM_INVALID))?;
        let salt = match given.ulSaltType {
            CKF_HKDF_SALT_NULL => Salt::Zeros,
            CKF_HKDF_SALT_DATA => Salt::Data(bytes(given.pSalt, given.ulSaltLen)?.to_vec()),
            CKF_HKDF_SALT_KEY => Salt::Key(given.hSaltKey),
            // Nothing is said of the salt where there is nothing to extract.
            0 if !extract => Salt::Zeros,
            _ => return bad(),
        };
        let info = bytes(given.pInfo, given.ulInfoLen)?.to_vec();
        if extract || expand { Ok(Parameter::Hkdf(Hkdf { extract, expand, digest, salt, info })) } else { bad() }
    }
}
