//! Digests that are made here, so that a token sees no messages, and their names there.

use ciphermill_contract::suite::Digest;
use cryptoki_sys::{
    CK_MECHANISM_TYPE, CK_RSA_PKCS_MGF_TYPE, CKG_MGF1_SHA1, CKG_MGF1_SHA256, CKG_MGF1_SHA384, CKG_MGF1_SHA512,
    CKM_SHA_1, CKM_SHA1_RSA_PKCS_PSS, CKM_SHA256, CKM_SHA256_RSA_PKCS_PSS, CKM_SHA384, CKM_SHA384_RSA_PKCS_PSS,
    CKM_SHA512, CKM_SHA512_RSA_PKCS_PSS,
};
use sha1::Sha1;
use sha2::{Digest as _, Sha224, Sha256, Sha384, Sha512};

/// A digest's names in PSS (PKCS#11 3.1, 6.1.9, 6.1.10 and 6.1.14).
pub(crate) struct Mechanisms {
    /// The digest.
    pub(crate) digest: CK_MECHANISM_TYPE,
    /// The mask generation with it.
    pub(crate) mask: CK_RSA_PKCS_MGF_TYPE,
    /// The mechanism that digests and signs.
    pub(crate) pss: CK_MECHANISM_TYPE,
}

/// Names of the digests that signatures are made with; none for others.
pub(crate) fn mechanisms(digest: Digest) -> Option<Mechanisms> {
    let (digest, mask, pss) = match digest {
        Digest::Sha1 => (CKM_SHA_1, CKG_MGF1_SHA1, CKM_SHA1_RSA_PKCS_PSS),
        Digest::Sha256 => (CKM_SHA256, CKG_MGF1_SHA256, CKM_SHA256_RSA_PKCS_PSS),
        Digest::Sha384 => (CKM_SHA384, CKG_MGF1_SHA384, CKM_SHA384_RSA_PKCS_PSS),
        Digest::Sha512 => (CKM_SHA512, CKG_MGF1_SHA512, CKM_SHA512_RSA_PKCS_PSS),
        _ => return None,
    };
    Some(Mechanisms { digest, mask, pss })
}

/// The digest of a message; none for digests that no suite of a token has.
pub(crate) fn of(digest: Digest, message: &[u8]) -> Option<Vec<u8>> {
    Some(match digest {
        Digest::Sha1 => Sha1::digest(message).to_vec(),
        Digest::Sha224 => Sha224::digest(message).to_vec(),
        Digest::Sha256 => Sha256::digest(message).to_vec(),
        Digest::Sha384 => Sha384::digest(message).to_vec(),
        Digest::Sha512 => Sha512::digest(message).to_vec(),
        _ => return None,
    })
}
