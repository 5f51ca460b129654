//! How suites and directions are spelled: on the command line, in JSON, configuration, policies and metrics alike.
//!
//! `aes-128-cbc`, `3des-cbc`, `aes-256-gcm-siv`, `hmac-sha1`, `sha3-256`, `shake128`, `ff1-aes-256` (radix 10) and
//! `ff1-aes-256-radix-36`, `ecdsa-p256`, `ecdsa-p256-digest` (of given digests), `rsa-2048-sign-pss-sha256`,
//! `rsa-2048-encrypt-oaep-sha256`, `dh-ffdhe2048`, `ml-kem-768`, `generate-ec-p256`. A chain names its parts in the order in which they run: `aes-128-cbc+hmac-sha1` encrypts, then MACs;
//! `hmac-sha1+aes-128-cbc` MACs, then encrypts.

use core::fmt;
use core::str::FromStr;

use crate::suite::{
    Aead, AesSize, Agreement, BlockCipher, Chain, ChainOrder, Curve, DhGroup, Digest, Direction, Ff1, Kem, KeyPair,
    KeyWrap, Kmac, Mac, MlDsaSet, Mode, PublicEncryption, RsaSize, SignPadding, Signature, StreamCipher, Suite,
};

/// A name that is no suite's or direction's, with the nearest known one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSuite {
    /// What was asked for.
    pub name: String,
    /// The known name that differs least, when one is near.
    pub nearest: Option<String>,
}

impl fmt::Display for UnknownSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a known name", self.name)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownSuite {}

impl AesSize {
    const fn bits(self) -> u32 {
        128 + 64 * self as u32
    }
}

impl fmt::Display for BlockCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BlockCipher::Des => f.write_str("des"),
            BlockCipher::TripleDes => f.write_str("3des"),
            BlockCipher::Aes(size) => write!(f, "aes-{}", size.bits()),
            BlockCipher::Blowfish => f.write_str("blowfish"),
            BlockCipher::Khufu => f.write_str("khufu"),
            BlockCipher::Khafre => f.write_str("khafre"),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Ecb => "ecb",
            Mode::Cbc => "cbc",
            Mode::Ctr => "ctr",
            Mode::Xts => "xts",
            Mode::Cfb8 => "cfb8",
            Mode::Cfb128 => "cfb128",
            Mode::Ofb => "ofb",
            Mode::CbcCs1 => "cbc-cs1",
            Mode::CbcCs2 => "cbc-cs2",
            Mode::CbcCs3 => "cbc-cs3",
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Digest::Md5 => "md5",
            Digest::Sha1 => "sha1",
            Digest::Sha224 => "sha224",
            Digest::Sha256 => "sha256",
            Digest::Sha384 => "sha384",
            Digest::Sha512 => "sha512",
            Digest::Sha512_224 => "sha512-224",
            Digest::Sha512_256 => "sha512-256",
            Digest::Sha3_224 => "sha3-224",
            Digest::Sha3_256 => "sha3-256",
            Digest::Sha3_384 => "sha3-384",
            Digest::Sha3_512 => "sha3-512",
            Digest::Blake3 => "blake3",
            Digest::Shake128 => "shake128",
            Digest::Shake256 => "shake256",
        })
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Curve::P224 => "p224",
            Curve::P256 => "p256",
            Curve::P384 => "p384",
            Curve::P521 => "p521",
            Curve::Sect163k1 => "sect163k1",
            Curve::Sect163r2 => "sect163r2",
            Curve::Sect233k1 => "sect233k1",
            Curve::Sect233r1 => "sect233r1",
            Curve::Secp160r1 => "secp160r1",
            Curve::Secp256k1 => "secp256k1",
            Curve::BrainpoolP256r1 => "brainpoolp256r1",
            Curve::BrainpoolP384r1 => "brainpoolp384r1",
            Curve::Sect163r1 => "sect163r1",
            Curve::Sect283k1 => "sect283k1",
            Curve::Sect283r1 => "sect283r1",
            Curve::Sect409k1 => "sect409k1",
            Curve::Sect409r1 => "sect409r1",
            Curve::Sect571k1 => "sect571k1",
            Curve::Sect571r1 => "sect571r1",
        })
    }
}

impl fmt::Display for RsaSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rsa-{}", self.bits())
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Suite::Cipher(cipher, mode) => write!(f, "{cipher}-{mode}"),
            Suite::Stream(stream) => f.write_str(match stream {
                StreamCipher::ChaCha20 => "chacha20",
                StreamCipher::Rc4 => "rc4",
                StreamCipher::Seal3 => "seal-3.0",
            }),
            Suite::Aead(aead) => aead.fmt(f),
            Suite::Digest(digest) => digest.fmt(f),
            Suite::Mac(Mac::Hmac(digest)) => write!(f, "hmac-{digest}"),
            Suite::Mac(Mac::Cmac(size)) => write!(f, "aes-{}-cmac", size.bits()),
            Suite::Mac(Mac::TripleDesCmac) => f.write_str("3des-cmac"),
            Suite::Mac(Mac::Gmac(size)) => write!(f, "aes-{}-gmac", size.bits()),
            Suite::Mac(Mac::GmacAnyIv(size)) => write!(f, "aes-{}-gmac-any-iv", size.bits()),
            Suite::Mac(Mac::Poly1305) => f.write_str("poly1305"),
            Suite::Mac(Mac::Kmac(Kmac::Kmac128)) => f.write_str("kmac128"),
            Suite::Mac(Mac::Kmac(Kmac::Kmac256)) => f.write_str("kmac256"),
            Suite::Chain(Chain { cipher, mode, digest, order }) => match order {
                ChainOrder::EncryptThenMac => write!(f, "{cipher}-{mode}+hmac-{digest}"),
                ChainOrder::MacThenEncrypt => write!(f, "hmac-{digest}+{cipher}-{mode}"),
            },
            Suite::Fpe(Ff1 { size, radix: 10 }) => write!(f, "ff1-aes-{}", size.bits()),
            Suite::Fpe(Ff1 { size, radix }) => write!(f, "ff1-aes-{}-radix-{radix}", size.bits()),
            Suite::Wrap(KeyWrap::Kw(size)) => write!(f, "aes-{}-kw", size.bits()),
            Suite::Wrap(KeyWrap::Kwp(size)) => write!(f, "aes-{}-kwp", size.bits()),
            Suite::Sign(signature) => signature.fmt(f),
            Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(size)) => write!(f, "{size}-encrypt-pkcs1"),
            Suite::PublicEncrypt(PublicEncryption::RsaOaep(size, digest)) => {
                write!(f, "{size}-encrypt-oaep-{digest}")
            }
            Suite::PublicEncrypt(PublicEncryption::RsaRaw(size)) => write!(f, "{size}-raw"),
            Suite::Agree(Agreement::Dh(group)) => f.write_str(match group {
                DhGroup::Ffdhe2048 => "dh-ffdhe2048",
                DhGroup::Ffdhe3072 => "dh-ffdhe3072",
                DhGroup::Ffdhe4096 => "dh-ffdhe4096",
                DhGroup::Modp1024 => "dh-modp1024",
                DhGroup::Modp1536 => "dh-modp1536",
                DhGroup::Modp2048 => "dh-modp2048",
                DhGroup::Modp3072 => "dh-modp3072",
                DhGroup::Modp4096 => "dh-modp4096",
                DhGroup::Modp6144 => "dh-modp6144",
                DhGroup::Modp8192 => "dh-modp8192",
            }),
            Suite::Agree(Agreement::Ecdh(curve)) => write!(f, "ecdh-{curve}"),
            Suite::Agree(Agreement::X25519) => f.write_str("x25519"),
            Suite::Agree(Agreement::X448) => f.write_str("x448"),
            Suite::Kem(kem) => kem.fmt(f),
            Suite::Generate(KeyPair::Rsa(size)) => write!(f, "generate-{size}"),
            Suite::Generate(KeyPair::Ec(curve)) => write!(f, "generate-ec-{curve}"),
            Suite::Generate(KeyPair::X25519) => f.write_str("generate-x25519"),
            Suite::Generate(KeyPair::X448) => f.write_str("generate-x448"),
            Suite::Generate(KeyPair::Ed25519) => f.write_str("generate-ed25519"),
            Suite::Generate(KeyPair::MlKem(kem)) => write!(f, "generate-{kem}"),
            Suite::Generate(KeyPair::MlDsa(set)) => write!(f, "generate-{set}"),
            Suite::Random => f.write_str("random"),
        }
    }
}

impl fmt::Display for Aead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Aead::AesGcm(size) => write!(f, "aes-{}-gcm", size.bits()),
            Aead::AesGcmAnyIv(size) => write!(f, "aes-{}-gcm-any-iv", size.bits()),
            Aead::AesCcm(size) => write!(f, "aes-{}-ccm", size.bits()),
            Aead::AesGcmSiv(size) => write!(f, "aes-{}-gcm-siv", size.bits()),
            Aead::AesSiv(size) => write!(f, "aes-{}-siv", size.bits()),
            Aead::AesOcb(size) => write!(f, "aes-{}-ocb", size.bits()),
            Aead::AesCbcHmac(size) => write!(f, "a{}cbc-hs{}", size.bits(), 2 * size.bits()),
            Aead::XChaCha20Poly1305 => f.write_str("xchacha20-poly1305"),
            Aead::ChaCha20Poly1305 => f.write_str("chacha20-poly1305"),
        }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Signature::Rsa(size, padding, digest) => {
                let padding = match padding {
                    SignPadding::Pkcs1 => "pkcs1",
                    SignPadding::Pss => "pss",
                };
                write!(f, "{size}-sign-{padding}-{digest}")
            }
            Signature::Ecdsa(curve) => write!(f, "ecdsa-{curve}"),
            Signature::EcdsaDigest(curve) => write!(f, "ecdsa-{curve}-digest"),
            Signature::Ed25519 => f.write_str("ed25519"),
            Signature::Ed25519Cofactored => f.write_str("ed25519-cofactored"),
            Signature::MlDsa(set) => set.fmt(f),
        }
    }
}

impl fmt::Display for Kem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kem::MlKem512 => "ml-kem-512",
            Kem::MlKem768 => "ml-kem-768",
            Kem::MlKem1024 => "ml-kem-1024",
        })
    }
}

impl fmt::Display for MlDsaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MlDsaSet::MlDsa44 => "ml-dsa-44",
            MlDsaSet::MlDsa65 => "ml-dsa-65",
            MlDsaSet::MlDsa87 => "ml-dsa-87",
        })
    }
}

impl FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Suite, UnknownSuite> {
        let wanted = name.trim().to_ascii_lowercase();
        if let Some((base, radix)) = wanted.split_once("-radix-")
            && let (Ok(Suite::Fpe(ff1)), Ok(radix)) = (Suite::from_str(base), radix.parse::<u32>())
        {
            let ff1 = Ff1 { radix, ..ff1 };
            if ff1.radix_is_valid() {
                return Ok(Suite::Fpe(ff1));
            }
        }
        let names = || Suite::all().map(|suite| suite.to_string());
        match Suite::all().zip(names()).find(|(_, known)| *known == wanted) {
            Some((suite, _)) => Ok(suite),
            None => Err(UnknownSuite { name: name.to_owned(), nearest: nearest_name(&wanted, names()) }),
        }
    }
}

/// Of the names that there are the one that differs least from `wanted`, when one is near: off by a third of its letters at most.
/// Of several that are as near it is the first.
pub fn nearest_name(wanted: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    let distances = known.into_iter().map(|known| (edit_distance(&known, wanted), known));
    let (distance, nearest) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= nearest.len() / 3).then_some(nearest)
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Encrypt => "encrypt",
            Direction::Decrypt => "decrypt",
        })
    }
}

impl FromStr for Direction {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Direction, UnknownSuite> {
        match name.trim() {
            "encrypt" => Ok(Direction::Encrypt),
            "decrypt" => Ok(Direction::Decrypt),
            other => {
                let near = |known: &str| edit_distance(known, other) <= 3;
                let nearest = ["encrypt", "decrypt"].into_iter().find(|known| near(known)).map(str::to_owned);
                Err(UnknownSuite { name: other.to_owned(), nearest })
            }
        }
    }
}

/// Levenshtein's distance between two names. Names are short; overlong input is not compared.
fn edit_distance(a: &str, b: &str) -> usize {
    if b.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back() {
        for suite in Suite::all() {
            assert_eq!(suite.to_string().parse::<Suite>().as_ref(), Ok(&suite));
        }
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            assert_eq!(direction.to_string().parse::<Direction>().as_ref(), Ok(&direction));
        }
    }

    #[test]
    fn names_are_the_ones_that_users_type() {
        for name in ["des-cbc", "3des-cbc", "aes-128-cbc", "aes-128-gcm", "hmac-sha1", "aes-128-cbc+hmac-sha1"] {
            assert_eq!(name.parse::<Suite>().map(|suite| suite.to_string()).as_deref(), Ok(name));
        }
    }

    #[test]
    fn order_of_parts_is_order_of_work() {
        let Ok(Suite::Chain(chain)) = "hmac-sha256+aes-256-cbc".parse() else { panic!("a chain") };
        assert_eq!(chain.order, ChainOrder::MacThenEncrypt);
    }

    #[test]
    fn radix_is_part_of_the_name_and_checked() {
        assert_eq!("ff1-aes-256-radix-36".parse(), Ok(Suite::Fpe(Ff1 { size: AesSize::Aes256, radix: 36 })));
        assert!("ff1-aes-256-radix-1".parse::<Suite>().is_err());
        assert!("ff1-aes-256-radix-65537".parse::<Suite>().is_err());
    }

    #[test]
    fn a_slip_gets_a_proposal() {
        let error = "aes128-cbc".parse::<Suite>().unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("aes-128-cbc"));
        assert_eq!("zzzzzzzzzzzzzzzzz".parse::<Suite>().unwrap_err().nearest, None);
    }
}
