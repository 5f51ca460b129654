//! Mechanisms with their parameters, as calls take them.

use std::ffi::c_void;
use std::ptr;

use ciphermill_contract::suite::{Digest, Mac, Mode};
use cryptoki_sys::{
    CK_AES_CTR_PARAMS, CK_ECDH1_DERIVE_PARAMS, CK_GCM_PARAMS, CK_MECHANISM, CK_MECHANISM_TYPE, CK_RSA_PKCS_OAEP_PARAMS,
    CK_RSA_PKCS_PSS_PARAMS, CK_ULONG, CKD_NULL, CKM_AES_CBC, CKM_AES_CMAC, CKM_AES_CTR, CKM_AES_ECB, CKM_AES_GCM,
    CKM_ECDH1_DERIVE, CKM_RSA_PKCS_OAEP, CKM_RSA_PKCS_PSS, CKM_SHA224_HMAC, CKM_SHA256_HMAC, CKM_SHA384_HMAC,
    CKM_SHA512_HMAC, CKZ_DATA_SPECIFIED,
};

use crate::digest;

/// Bytes of a block of AES.
pub(crate) const BLOCK_LEN: usize = 16;

/// Bytes of the counter behind a nonce (RFC 3686, 4).
const NONCE_COUNTER_LEN: usize = 4;

/// A mechanism and its parameters.
pub(crate) struct Mechanism<'a> {
    pub(crate) name: CK_MECHANISM_TYPE,
    parameters: Parameters<'a>,
}

enum Parameters<'a> {
    None,
    /// An initialisation vector.
    Bytes(&'a [u8]),
    Pss(CK_RSA_PKCS_PSS_PARAMS),
    Oaep(CK_RSA_PKCS_OAEP_PARAMS),
    Counter(CK_AES_CTR_PARAMS),
    Gcm {
        iv: &'a [u8],
        aad: &'a [u8],
        tag_len: usize,
    },
    /// The peer's point.
    Peer(&'a [u8]),
}

impl<'a> Mechanism<'a> {
    /// Without parameters.
    pub(crate) fn bare(name: CK_MECHANISM_TYPE) -> Mechanism<'a> {
        Mechanism { name, parameters: Parameters::None }
    }

    /// PSS with a salt as long as the digest (PKCS#11 3.1, 6.1.10); none for digests that no signature is made with.
    pub(crate) fn pss(digest: Digest) -> Option<Mechanism<'a>> {
        let names = digest::mechanisms(digest)?;
        let salt = digest.len() as CK_ULONG;
        let parameters = CK_RSA_PKCS_PSS_PARAMS { hashAlg: names.digest, mgf: names.mask, sLen: salt };
        Some(Mechanism { name: CKM_RSA_PKCS_PSS, parameters: Parameters::Pss(parameters) })
    }

    /// OAEP with an empty label (6.1.8).
    pub(crate) fn oaep(digest: Digest) -> Option<Mechanism<'a>> {
        let names = digest::mechanisms(digest)?;
        let parameters = CK_RSA_PKCS_OAEP_PARAMS {
            hashAlg: names.digest,
            mgf: names.mask,
            source: CKZ_DATA_SPECIFIED,
            pSourceData: ptr::null_mut(),
            ulSourceDataLen: 0,
        };
        Some(Mechanism { name: CKM_RSA_PKCS_OAEP, parameters: Parameters::Oaep(parameters) })
    }

    /// AES in a mode without authentication (6.13.3 to 6.13.5); none for modes that are not claimed and vectors of another length. That of
    /// counter mode is a block, or a nonce before a counter of 32 bits that starts at one.
    pub(crate) fn cipher(mode: Mode, iv: &'a [u8]) -> Option<Mechanism<'a>> {
        Some(match mode {
            Mode::Ecb => Mechanism::bare(CKM_AES_ECB),
            Mode::Cbc => Mechanism { name: CKM_AES_CBC, parameters: Parameters::Bytes(iv) },
            Mode::Ctr => {
                let mut cb = [0; BLOCK_LEN];
                cb.get_mut(..iv.len())?.copy_from_slice(iv);
                let mut counter_len = BLOCK_LEN;
                if iv.len() != BLOCK_LEN {
                    counter_len = NONCE_COUNTER_LEN;
                    *cb.last_mut()? = 1;
                }
                let parameters = CK_AES_CTR_PARAMS { ulCounterBits: 8 * counter_len as CK_ULONG, cb };
                Mechanism { name: CKM_AES_CTR, parameters: Parameters::Counter(parameters) }
            }
            _ => return None,
        })
    }

    /// AES-GCM with a tag of so many bytes (6.13.8).
    pub(crate) fn gcm(iv: &'a [u8], aad: &'a [u8], tag_len: usize) -> Mechanism<'a> {
        Mechanism { name: CKM_AES_GCM, parameters: Parameters::Gcm { iv, aad, tag_len } }
    }

    /// ECDH whose secret is the coordinate as it is, with a peer's uncompressed point (6.3.17).
    pub(crate) fn agreement(peer: &'a [u8]) -> Mechanism<'a> {
        Mechanism { name: CKM_ECDH1_DERIVE, parameters: Parameters::Peer(peer) }
    }

    /// A code as long as its algorithm makes it; none for those that are not claimed.
    pub(crate) fn mac(mac: Mac) -> Option<Mechanism<'a>> {
        Some(Mechanism::bare(match mac {
            Mac::Cmac(_) => CKM_AES_CMAC,
            Mac::Hmac(Digest::Sha224) => CKM_SHA224_HMAC,
            Mac::Hmac(Digest::Sha256) => CKM_SHA256_HMAC,
            Mac::Hmac(Digest::Sha384) => CKM_SHA384_HMAC,
            Mac::Hmac(Digest::Sha512) => CKM_SHA512_HMAC,
            _ => return None,
        }))
    }

    /// Calls with the mechanism as modules want it, which lives through the call. They only read it.
    pub(crate) fn with<T>(&self, call: impl FnOnce(*mut CK_MECHANISM) -> T) -> T {
        match &self.parameters {
            Parameters::None => self.with_parameters(ptr::null(), 0, call),
            Parameters::Bytes(bytes) => self.with_parameters(bytes.as_ptr().cast(), bytes.len(), call),
            Parameters::Pss(parameters) => self.with_struct(parameters, call),
            Parameters::Oaep(parameters) => self.with_struct(parameters, call),
            Parameters::Counter(parameters) => self.with_struct(parameters, call),
            Parameters::Gcm { iv, aad, tag_len } => {
                let parameters = CK_GCM_PARAMS {
                    pIv: iv.as_ptr().cast_mut(),
                    ulIvLen: iv.len() as CK_ULONG,
                    ulIvBits: 8 * iv.len() as CK_ULONG,
                    pAAD: aad.as_ptr().cast_mut(),
                    ulAADLen: aad.len() as CK_ULONG,
                    ulTagBits: 8 * *tag_len as CK_ULONG,
                };
                self.with_struct(&parameters, call)
            }
            Parameters::Peer(point) => {
                let parameters = CK_ECDH1_DERIVE_PARAMS {
                    kdf: CKD_NULL,
                    ulSharedDataLen: 0,
                    pSharedData: ptr::null_mut(),
                    ulPublicDataLen: point.len() as CK_ULONG,
                    pPublicData: point.as_ptr().cast_mut(),
                };
                self.with_struct(&parameters, call)
            }
        }
    }

    fn with_struct<P, T>(&self, parameters: &P, call: impl FnOnce(*mut CK_MECHANISM) -> T) -> T {
        self.with_parameters(ptr::from_ref(parameters).cast(), size_of::<P>(), call)
    }

    fn with_parameters<T>(&self, place: *const c_void, len: usize, call: impl FnOnce(*mut CK_MECHANISM) -> T) -> T {
        let mut mechanism =
            CK_MECHANISM { mechanism: self.name, pParameter: place.cast_mut(), ulParameterLen: len as CK_ULONG };
        call(&raw mut mechanism)
    }
}
