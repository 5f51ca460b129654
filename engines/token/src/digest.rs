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

/// What stands before the digest in a `DigestInfo` (RFC 8017, 9.2, note 1): the object identifier with its parameters, and the head of the
/// octet string.
pub(crate) fn info_prefix(digest: Digest) -> Option<Vec<u8>> {
    // 1.3.14.3.2.26, and 2.16.840.1.101.3.4.2 with 1, 2 and 3 (RFC 8017, appendix B.1).
    let name: &[u8] = match digest {
        Digest::Sha1 => &[0x2b, 14, 3, 2, 26],
        Digest::Sha256 => &[0x60, 0x86, 0x48, 1, 101, 3, 4, 2, 1],
        Digest::Sha384 => &[0x60, 0x86, 0x48, 1, 101, 3, 4, 2, 2],
        Digest::Sha512 => &[0x60, 0x86, 0x48, 1, 101, 3, 4, 2, 3],
        _ => return None,
    };
    let (name_len, digest_len) = (name.len() as u8, digest.len() as u8);
    let mut prefix = vec![0x30, 8 + name_len + digest_len, 0x30, 4 + name_len, 0x06, name_len];
    prefix.extend_from_slice(name);
    prefix.extend_from_slice(&[0x05, 0, 0x04, digest_len]);
    Some(prefix)
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
