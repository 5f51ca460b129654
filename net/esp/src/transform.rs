//! What ESP does to packets: the algorithms of RFC 8221 with their lengths.

use core::fmt;
use core::str::FromStr;

use ciphermill_contract::Suite;
use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Chain, ChainOrder, Digest, Mac, Mode};

/// Algorithms and lengths of an ESP association. Named as suites are, with the bits of a shortened ICV: `aes-128-gcm`, `aes-256-ccm-64`,
/// `aes-128-cbc+hmac-sha1-96`, `null+aes-128-gmac`, `null+hmac-sha256-128`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    pub(crate) work: Work,
    icv_len: u8,
}

/// Which suites work on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// One that encrypts and authenticates, with a salt of so many bytes before the IV on the wire, which has eight (RFC 4106, 4309, 7634).
    Aead { suite: Suite, salt_len: u8 },
    /// A cipher in CBC and an HMAC behind it (RFC 2404, 2451, 3602, 4868).
    CbcHmac { cipher: BlockCipher, digest: Digest },
    /// Authentication alone, over the IV too (RFC 4543).
    Gmac(AesSize),
    /// Authentication alone (RFC 2410).
    NullHmac(Digest),
}

/// A name that is no transform's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no ESP transform; there are, among others, aes-128-gcm, aes-128-cbc+hmac-sha1-96 and chacha20-poly1305"
)]
pub struct UnknownTransform(pub String);

const SIZES: [AesSize; 3] = [AesSize::Aes128, AesSize::Aes192, AesSize::Aes256];

/// The digests of HMAC with the bytes that their ICVs have (RFC 2404, 3; RFC 4868, 2.3).
const DIGESTS: [(Digest, u8); 4] =
    [(Digest::Sha1, 12), (Digest::Sha256, 16), (Digest::Sha384, 24), (Digest::Sha512, 32)];

impl Transform {
    /// All that there are.
    pub fn all() -> impl Iterator<Item = Transform> {
        let aeads = SIZES.into_iter().flat_map(|size| {
            let gcm = Work::Aead { suite: Suite::Aead(Aead::AesGcm(size)), salt_len: 4 };
            let ccm = Work::Aead { suite: Suite::Aead(Aead::AesCcm(size)), salt_len: 3 };
            [(gcm, 16), (gcm, 12), (gcm, 8), (ccm, 16), (ccm, 12), (ccm, 8), (Work::Gmac(size), 16)]
        });
        let chacha = Work::Aead { suite: Suite::Aead(Aead::ChaCha20Poly1305), salt_len: 4 };
        let ciphers = SIZES.map(BlockCipher::Aes).into_iter().chain([BlockCipher::TripleDes]);
        let chains =
            ciphers.flat_map(|cipher| DIGESTS.map(|(digest, icv_len)| (Work::CbcHmac { cipher, digest }, icv_len)));
        let nulls = DIGESTS.map(|(digest, icv_len)| (Work::NullHmac(digest), icv_len));
        let all = aeads.chain([(chacha, 16)]).chain(chains).chain(nulls);
        all.map(|(work, icv_len)| Transform { work, icv_len })
    }

    /// Bytes of the key: the cipher's and behind it the MAC's, without the salt. An HMAC's key is as long as its digest (RFC 2404, 3;
    /// RFC 4868, 2.1.1).
    pub fn key_len(self) -> usize {
        match self.work {
            Work::Aead { suite, .. } => suite.default_key_len(),
            Work::CbcHmac { cipher, digest } => cbc(cipher).default_key_len() + digest.len(),
            Work::Gmac(size) => Suite::Mac(Mac::Gmac(size)).default_key_len(),
            Work::NullHmac(digest) => digest.len(),
        }
    }

    /// Bytes of the salt: what a nonce begins with and the wire does not carry (RFC 4106, 8.1).
    pub fn salt_len(self) -> usize {
        match self.work {
            Work::Aead { salt_len, .. } => salt_len.into(),
            Work::Gmac(_) => 4,
            Work::CbcHmac { .. } | Work::NullHmac(_) => 0,
        }
    }

    /// Bytes of the IV on the wire.
    pub fn iv_len(self) -> usize {
        match self.work {
            Work::Aead { .. } | Work::Gmac(_) => 8,
            Work::CbcHmac { cipher, .. } => cipher.block_len(),
            Work::NullHmac(_) => 0,
        }
    }

    /// Bytes of the ICV.
    pub fn icv_len(self) -> usize {
        self.icv_len.into()
    }

    /// What payload and trailer together are a multiple of, in bytes (RFC 4303, 2.4): a power of two.
    pub fn alignment(self) -> usize {
        match self.work {
            Work::CbcHmac { cipher, .. } => cipher.block_len(),
            _ => 4,
        }
    }

    /// Whether a nonce that comes again gives everything away, so that keys must be fresh after every start (RFC 4106, 3).
    pub fn counts_nonces(self) -> bool {
        matches!(self.work, Work::Aead { .. } | Work::Gmac(_))
    }

    /// Whether it is there to be compared with alone: 3DES (RFC 8221, 5).
    pub fn is_legacy(self) -> bool {
        matches!(self.work, Work::CbcHmac { cipher: BlockCipher::TripleDes, .. })
    }

    /// Bytes that the longest packet has which leaves within `room` bytes behind the outer headers: ESP header, IV, payload with
    /// padding, ICV. `None` where nothing fits.
    pub(crate) fn payload_max(self, room: usize) -> Option<usize> {
        let padded = room.checked_sub(crate::limits::ESP_LEN + self.iv_len() + self.icv_len())?;
        (padded / self.alignment() * self.alignment()).checked_sub(2)
    }
}

pub(crate) fn cbc(cipher: BlockCipher) -> Suite {
    Suite::Cipher(cipher, Mode::Cbc)
}

pub(crate) fn hmac(digest: Digest) -> Suite {
    Suite::Mac(Mac::Hmac(digest))
}

pub(crate) fn chain(cipher: BlockCipher, digest: Digest) -> Suite {
    Suite::Chain(Chain { cipher, mode: Mode::Cbc, digest, order: ChainOrder::EncryptThenMac })
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = 8 * self.icv_len();
        match self.work {
            Work::Aead { suite, .. } if bits == 128 => write!(f, "{suite}"),
            Work::Aead { suite, .. } => write!(f, "{suite}-{bits}"),
            Work::CbcHmac { cipher, digest } => write!(f, "{}+{}-{bits}", cbc(cipher), hmac(digest)),
            Work::Gmac(size) => write!(f, "null+{}", Suite::Mac(Mac::Gmac(size))),
            Work::NullHmac(digest) => write!(f, "null+{}-{bits}", hmac(digest)),
        }
    }
}

impl FromStr for Transform {
    type Err = UnknownTransform;

    fn from_str(name: &str) -> Result<Transform, UnknownTransform> {
        let named = |transform: &Transform| transform.to_string() == name;
        Transform::all().find(named).ok_or_else(|| UnknownTransform(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_all_differ() {
        let names: Vec<String> = Transform::all().map(|transform| transform.to_string()).collect();
        for (transform, name) in Transform::all().zip(&names) {
            assert_eq!(name.parse(), Ok(transform));
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        for name in [
            "aes-128-gcm",
            "aes-256-ccm-64",
            "3des-cbc+hmac-sha1-96",
            "aes-192-cbc+hmac-sha512-256",
            "null+aes-128-gmac",
        ] {
            assert!(names.iter().any(|known| known == name), "{name} in {names:?}");
        }
        assert!("aes-128-cbc".parse::<Transform>().is_err());
    }

    #[test]
    fn lengths_are_those_of_the_rfcs() {
        let lengths = |name: &str| {
            let transform: Transform = name.parse().expect("known");
            (transform.key_len(), transform.salt_len(), transform.iv_len(), transform.icv_len(), transform.alignment())
        };
        assert_eq!(lengths("aes-256-gcm"), (32, 4, 8, 16, 4), "RFC 4106, 3.1 and 8.1");
        assert_eq!(lengths("aes-128-ccm-96"), (16, 3, 8, 12, 4), "RFC 4309, 3 and 7.1");
        assert_eq!(lengths("chacha20-poly1305"), (32, 4, 8, 16, 4), "RFC 7634, 2");
        assert_eq!(lengths("aes-128-cbc+hmac-sha256-128"), (48, 0, 16, 16, 16), "RFC 3602, 3; RFC 4868, 2.1.1");
        assert_eq!(lengths("3des-cbc+hmac-sha1-96"), (44, 0, 8, 12, 8), "RFC 2451, 2.3; RFC 2404, 3");
        assert_eq!(lengths("null+aes-192-gmac"), (24, 4, 8, 16, 4), "RFC 4543, 5.1");
    }
}
