//! Suites: what is done to an operation. Every suite of the project is named here, with its parameters, although some
//! have no engine yet. Lengths are in [`rules`], which keys and signatures are accepted in [`acceptance`], spelling in
//! [`names`], enumerations in [`lists`].

pub mod acceptance;
pub mod lists;
pub mod names;
mod public;
pub mod rules;

pub use names::{UnknownSuite, nearest_name};

/// What is done to an operation. A small value; two suites are equal when every parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suite {
    /// A block cipher in a mode without authentication.
    Cipher(BlockCipher, Mode),
    /// A stream cipher.
    Stream(StreamCipher),
    /// Authenticated encryption with associated data.
    Aead(Aead),
    /// A digest, written where the operation's tag lies.
    Digest(Digest),
    /// A message authentication code.
    Mac(Mac),
    /// A cipher and an HMAC in one pass.
    Chain(Chain),
    /// Format-preserving encryption.
    Fpe(Ff1),
    /// Keys enciphered by a key: `encrypt` wraps, `decrypt` unwraps. There is no tag: what is wrapped is longer than the key by 8 bytes and,
    /// where keys are padded, by what is missing to a multiple of 8. The output of `decrypt` has room for as many bytes as the input has;
    /// the key's length comes back in the operation.
    Wrap(KeyWrap),
    /// A signature: `encrypt` signs, `decrypt` verifies.
    Sign(Signature),
    /// Public-key encryption.
    PublicEncrypt(PublicEncryption),
    /// Key agreement: the input is the peer's public value, the output the shared secret; `encrypt` only.
    Agree(Agreement),
    /// Key encapsulation: `encrypt` encapsulates (tag: ciphertext, output: secret), `decrypt` decapsulates.
    Kem(Kem),
    /// Key generation: `encrypt` only, without key or input. The output is the private key, the tag the public one, both in the form that
    /// [`crate::KeyForm`] says; the private one is a secret in the caller's arena.
    Generate(KeyPair),
    /// Random bytes at `output`, `output_len` of them.
    Random,
}

/// Which way a suite runs: forwards, or, where there is one, the way back.
///
/// The two are called as ciphers call them for all suites, so that policies, records, routes and command lines need one pair
/// of names: a digest or a signature is made by `encrypt`, a tag or a signature is verified by `decrypt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Direction {
    /// Encrypt, seal, wrap, digest, compute a tag, sign, agree, encapsulate, generate.
    Encrypt = 0,
    /// Decrypt, open, unwrap, verify a tag or signature, decapsulate.
    Decrypt = 1,
}

/// AES key sizes (FIPS 197).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum AesSize {
    /// 128-bit keys.
    Aes128 = 0,
    /// 192-bit keys.
    Aes192 = 1,
    /// 256-bit keys.
    Aes256 = 2,
}

/// Block ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockCipher {
    /// DES (FIPS 46-3).
    Des,
    /// Triple DES, encrypt-decrypt-encrypt, with two or three keys (NIST SP 800-67); CBC is outer CBC.
    TripleDes,
    /// AES (FIPS 197).
    Aes(AesSize),
    /// Blowfish (Schneier 1993).
    Blowfish,
    /// Khufu with 16 rounds (Merkle 1990).
    Khufu,
    /// Khafre with 16 rounds (Merkle 1990).
    Khafre,
}

/// Modes of block ciphers (NIST SP 800-38A, CFB and OFB in 6.3 and 6.4; its addendum on ciphertext stealing; XTS: SP 800-38E).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Mode {
    /// Electronic codebook.
    Ecb = 0,
    /// Cipher block chaining, without padding.
    Cbc = 1,
    /// Counter. A full-block IV is the first counter block, counted as one big-endian number; an IV four bytes shorter
    /// is a nonce before a 32-bit big-endian counter that starts at one (RFC 3686).
    Ctr = 2,
    /// XEX with ciphertext stealing; the IV is the data unit's number as 16 little-endian bytes.
    Xts = 3,
    /// Cipher feedback in segments of a byte: a call of the cipher for each. Of AES only, as those below.
    Cfb8 = 4,
    /// Cipher feedback in segments of a block, of which the last may be cut.
    Cfb128 = 5,
    /// Output feedback.
    Ofb = 6,
    /// CBC with ciphertext stealing, of a block and more: what there is of the block before the last one stands before the last one.
    CbcCs1 = 7,
    /// As [`Mode::CbcCs1`], but what is cut stands at the end; whole blocks are as in CBC.
    CbcCs2 = 8,
    /// As [`Mode::CbcCs1`], but the two last ones always change places, as Kerberos has it (RFC 3962, 5). One block is as in CBC.
    CbcCs3 = 9,
}

/// Stream ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum StreamCipher {
    /// ChaCha20 (RFC 8439). A 12-byte IV is the nonce, the block counter starts at zero; a 16-byte IV begins with the
    /// counter as four little-endian bytes.
    ChaCha20 = 0,
    /// RC4, each operation from the start of the key stream.
    Rc4 = 1,
    /// SEAL 3.0 (Rogaway and Coppersmith 1998); the IV is the 32-bit big-endian position index.
    Seal3 = 2,
}

/// Authenticated encryption with associated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aead {
    /// AES-GCM (NIST SP 800-38D), 96-bit IV.
    AesGcm(AesSize),
    /// AES-GCM with an IV of 1 to 128 bytes. From one of other than 96 bits the first counter block comes by GHASH (NIST SP 800-38D, 7.1), so
    /// that two IVs may meet in one; 5.2.1.1 recommends to take 96 bits alone. Therefore it is a suite of its own, which a key's policy
    /// allows or not, and no engine has to look at the length of each IV. With 96 bits it is [`Aead::AesGcm`].
    AesGcmAnyIv(AesSize),
    /// AES-CCM (NIST SP 800-38C, RFC 3610), nonce of 7 to 13 bytes.
    AesCcm(AesSize),
    /// AES-GCM-SIV (RFC 8452), 128- and 256-bit keys.
    AesGcmSiv(AesSize),
    /// AES-SIV (RFC 5297); the size is that of each of its two keys. The additional data are one component, the IV, when
    /// present, the last one (the nonce).
    ///
    /// S2V takes up to 126 components, which differ from one that holds their bytes (2.4): an operation's additional data cannot tell them
    /// apart. Who has several computes S2V by AES-CMAC under the first half of the key, enciphers by AES-CTR under the second, and clears
    /// bits 31 and 63 of the counter block before (2.5).
    AesSiv(AesSize),
    /// AES-OCB3 (RFC 7253), nonce of 1 to 15 bytes. The tag's length, 8 to 16 bytes, is a part of what is authenticated, so that a
    /// shorter tag is no prefix of a longer one.
    AesOcb(AesSize),
    /// ChaCha20-Poly1305 (RFC 8439); tags of 4, 8 and 12 to 15 bytes are the first ones of its 16.
    ChaCha20Poly1305,
    /// XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03): ChaCha20-Poly1305 with a nonce of 24 bytes, which may be drawn at random. The last 8
    /// lie in front of the additional data ([`crate::Op::iv`]).
    XChaCha20Poly1305,
    /// AES-CBC with HMAC as JOSE has it (RFC 7518, 5.2): the MAC's key, then the cipher's, each as long as the tag. The text is padded
    /// (PKCS #7), so that the output is longer than the input by 1 to 16 bytes; that of `decrypt` has room for as many bytes as the
    /// input has, and the text's length comes back in the operation.
    AesCbcHmac(AesSize),
}

/// Digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Digest {
    /// MD5 (RFC 1321).
    Md5 = 0,
    /// SHA-1 (FIPS 180-4).
    Sha1 = 1,
    /// SHA-224 (FIPS 180-4).
    Sha224 = 2,
    /// SHA-256 (FIPS 180-4).
    Sha256 = 3,
    /// SHA-384 (FIPS 180-4).
    Sha384 = 4,
    /// SHA-512 (FIPS 180-4).
    Sha512 = 5,
    /// SHA3-256 (FIPS 202).
    Sha3_256 = 6,
    /// SHA3-512 (FIPS 202).
    Sha3_512 = 7,
    /// BLAKE3, 32 bytes.
    Blake3 = 8,
    /// SHAKE128 (FIPS 202). The operation's tag is as long as the output shall be, 1 to [`TAG_LEN_MAX`](crate::limits::TAG_LEN_MAX)
    /// bytes; shorter outputs are prefixes of longer ones (A.2). Where nobody says otherwise it has 32 bytes: twice the
    /// security strength, so that collisions cost as much as it promises (A.1, table 4). There is no HMAC over it.
    Shake128 = 9,
    /// SHAKE256 (FIPS 202), 64 bytes where nobody says otherwise; as [`Digest::Shake128`] otherwise.
    Shake256 = 10,
    /// SHA-512/224 (FIPS 180-4, 5.3.6.1).
    Sha512_224 = 11,
    /// SHA-512/256 (FIPS 180-4, 5.3.6.2).
    Sha512_256 = 12,
    /// SHA3-224 (FIPS 202).
    Sha3_224 = 13,
    /// SHA3-384 (FIPS 202).
    Sha3_384 = 14,
}

/// Message authentication codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mac {
    /// HMAC (RFC 2104, FIPS 198-1).
    Hmac(Digest),
    /// CMAC over AES (NIST SP 800-38B).
    Cmac(AesSize),
    /// CMAC over triple DES with two or three keys (NIST SP 800-38B); legacy.
    TripleDesCmac,
    /// GMAC (NIST SP 800-38D), 96-bit IV.
    Gmac(AesSize),
    /// GMAC with an IV of 1 to 128 bytes, as [`Aead::AesGcmAnyIv`].
    GmacAnyIv(AesSize),
    /// Poly1305 under a one-time key (RFC 8439).
    Poly1305,
    /// KMAC (NIST SP 800-185, 4). The additional data are the customization string. The tag's length is a part of what is
    /// authenticated, so that a shorter tag is no prefix of a longer one.
    Kmac(Kmac),
}

/// The two functions of KMAC, by their security strength in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kmac {
    /// KMAC128, over cSHAKE128.
    Kmac128 = 0,
    /// KMAC256, over cSHAKE256.
    Kmac256 = 1,
}

/// In which order a chain's cipher and MAC run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ChainOrder {
    /// The tag covers additional data, the whole IV as the operation has it, and the ciphertext, so that nothing that
    /// decides about the plaintext can be changed unnoticed. With the IV before the ciphertext, as ESP (RFC 4303, 2.8) and
    /// TLS (RFC 7366, 3) send it, these are the bytes of the packet. Protocols whose MAC leaves the IV or a part of it out
    /// (SSH `-etm`, where it is not sent; ESP with the nonce of RFC 3686) are not this suite.
    EncryptThenMac = 0,
    /// TLS 1.2 records (RFC 5246, 6.2.3): the tag covers the 11 bytes of additional data (sequence number, type,
    /// version), the plaintext's length as two bytes, and the plaintext; plaintext, tag and, for CBC, padding are
    /// encrypted together. There is no separate tag: the output is longer than the input. Another IV
    /// gives another plaintext, tag or padding, so that it is noticed too.
    MacThenEncrypt = 1,
}

/// A cipher and an HMAC in one pass. The key is the cipher's key followed by the MAC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Chain {
    /// The cipher.
    pub cipher: BlockCipher,
    /// Its mode: CBC or CTR.
    pub mode: Mode,
    /// The digest under the HMAC.
    pub digest: Digest,
    /// Which comes first.
    pub order: ChainOrder,
}

/// AES key wrap (NIST SP 800-38F): deterministic and authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyWrap {
    /// KW (RFC 3394) of keys of 16 bytes and more, a multiple of 8. An IV of 8 bytes takes the place of the default one (2.2.3.2).
    Kw(AesSize),
    /// KWP (RFC 5649), of keys of any length but zero.
    Kwp(AesSize),
}

/// FF1 over AES (NIST SP 800-38G). Input and output are numerals of two little-endian bytes each; the additional data
/// are the tweak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ff1 {
    /// The AES key size.
    pub size: AesSize,
    /// The radix, 2 to 65,536.
    pub radix: u32,
}

/// RSA modulus sizes in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RsaSize {
    /// 1,024 bits; legacy.
    Rsa1024 = 0,
    /// 2,048 bits.
    Rsa2048 = 1,
    /// 3,072 bits.
    Rsa3072 = 2,
    /// 4,096 bits.
    Rsa4096 = 3,
}

/// RSA signature padding (RFC 8017).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum SignPadding {
    /// RSASSA-PKCS1-v1_5.
    Pkcs1 = 0,
    /// RSASSA-PSS, salt as long as the digest, MGF1 with the same digest.
    Pss = 1,
}

/// Signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signature {
    /// RSA (RFC 8017).
    Rsa(RsaSize, SignPadding, Digest),
    /// ECDSA (FIPS 186-5) with the digest of the curve's strength; the signature is `r ‖ s`, each as long as the order.
    Ecdsa(Curve),
    /// ECDSA over a digest that the caller has made, with whatever digest: the input is the digest, 20 to 64 bytes of it. Its leftmost
    /// bits are used, as many as the order has (FIPS 186-5, 6.4.1, step 2); otherwise as [`Signature::Ecdsa`]. For interfaces that
    /// hand over digests. Not for the legacy curves.
    ///
    /// Who may have digests signed can have any message signed without showing it, so that this is a suite of its own, which a key's
    /// policy allows or not.
    EcdsaDigest(Curve),
    /// Ed25519 (RFC 8032), verified strictly ([`acceptance::ed25519`]).
    Ed25519,
    /// The same signatures, verified by the equation with the cofactor, `[8][S]B = [8]R + [8][k]A` (RFC 8032, 5.1.7), which holds for many
    /// signatures together if it holds for each: batch verification, and the same verdict without it. Besides what
    /// [`Signature::Ed25519`] takes it takes signatures whose equation is off by a point of small order; only who has the private
    /// key can make those.
    Ed25519Cofactored,
    /// ML-DSA (FIPS 204), hedged; the additional data are the context string.
    MlDsa(MlDsaSet),
}

/// Public-key encryption (RFC 8017).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PublicEncryption {
    /// RSAES-PKCS1-v1_5; legacy.
    RsaPkcs1(RsaSize),
    /// RSAES-OAEP with MGF1 over the same digest and an empty label.
    RsaOaep(RsaSize, Digest),
    /// The primitives of RFC 8017, 5.1 and 5.2, without padding: `encrypt` raises to the public exponent (RSAEP, RSAVP1), `decrypt` to
    /// the private one (RSADP, RSASP1). For interfaces that pad themselves; secure by no means alone, so that it is legacy.
    RsaRaw(RsaSize),
}

/// Key agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Agreement {
    /// Finite-field Diffie-Hellman (NIST SP 800-56A) in a group of RFC 7919 or of IKE.
    Dh(DhGroup),
    /// Elliptic-curve Diffie-Hellman (NIST SP 800-56A); public values are SEC1 points, uncompressed.
    Ecdh(Curve),
    /// X25519 (RFC 7748).
    X25519,
    /// X448 (RFC 7748).
    X448,
}

/// Kinds of key pairs that can be generated. Those of RSA have the exponent 65,537 (FIPS 186-5, A.1); those on curves serve ECDSA and
/// ECDH alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPair {
    /// RSA.
    Rsa(RsaSize),
    /// A curve of the contract.
    Ec(Curve),
    /// X25519.
    X25519,
    /// X448.
    X448,
    /// Ed25519.
    Ed25519,
    /// ML-KEM.
    MlKem(Kem),
    /// ML-DSA.
    MlDsa(MlDsaSet),
}

/// Finite-field groups (RFC 7919; IKE: RFC 2409, 6.2, and RFC 3526), all of safe primes with the generator 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DhGroup {
    /// ffdhe2048.
    Ffdhe2048 = 0,
    /// ffdhe3072.
    Ffdhe3072 = 1,
    /// ffdhe4096.
    Ffdhe4096 = 2,
    /// Group 2 of IKE, 1,024 bits; legacy.
    Modp1024 = 3,
    /// Group 5 of IKE, 1,536 bits; legacy.
    Modp1536 = 4,
    /// Group 14 of IKE.
    Modp2048 = 5,
    /// Group 15 of IKE.
    Modp3072 = 6,
    /// Group 16 of IKE.
    Modp4096 = 7,
    /// Group 17 of IKE.
    Modp6144 = 8,
    /// Group 18 of IKE.
    Modp8192 = 9,
}

/// Elliptic curves (FIPS 186-4, SEC 2, RFC 5639).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Curve {
    /// P-256.
    P256 = 0,
    /// P-384.
    P384 = 1,
    /// P-521.
    P521 = 2,
    /// sect163k1 (K-163); legacy.
    Sect163k1 = 3,
    /// sect163r2 (B-163); legacy.
    Sect163r2 = 4,
    /// sect233k1 (K-233); legacy.
    Sect233k1 = 5,
    /// sect233r1 (B-233); legacy.
    Sect233r1 = 6,
    /// secp160r1, whose order has 161 bits; legacy.
    Secp160r1 = 7,
    /// sect163r1; legacy.
    Sect163r1 = 8,
    /// sect283k1 (K-283); legacy.
    Sect283k1 = 9,
    /// sect283r1 (B-283); legacy.
    Sect283r1 = 10,
    /// sect409k1 (K-409); legacy.
    Sect409k1 = 11,
    /// sect409r1 (B-409); legacy.
    Sect409r1 = 12,
    /// sect571k1 (K-571); legacy.
    Sect571k1 = 13,
    /// sect571r1 (B-571); legacy.
    Sect571r1 = 14,
    /// secp256k1 (SEC 2, 2.4.1; RFC 8812, 3.2).
    Secp256k1 = 15,
    /// P-224.
    P224 = 16,
    /// brainpoolP256r1 (RFC 5639, 3.4).
    BrainpoolP256r1 = 17,
    /// brainpoolP384r1 (RFC 5639, 3.6).
    BrainpoolP384r1 = 18,
}

/// ML-KEM parameter sets (FIPS 203).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kem {
    /// ML-KEM-512.
    MlKem512 = 0,
    /// ML-KEM-768.
    MlKem768 = 1,
    /// ML-KEM-1024.
    MlKem1024 = 2,
}

/// ML-DSA parameter sets (FIPS 204).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum MlDsaSet {
    /// ML-DSA-44.
    MlDsa44 = 0,
    /// ML-DSA-65.
    MlDsa65 = 1,
    /// ML-DSA-87.
    MlDsa87 = 2,
}

impl Suite {
    /// The family of kernels that does the suite's work, by which kernels are named and forced; a chain's is its
    /// cipher's.
    pub const fn kernel_family(self) -> &'static str {
        match self {
            Suite::Cipher(cipher, _) | Suite::Chain(Chain { cipher, .. }) => match cipher {
                BlockCipher::Aes(_) => "aes",
                BlockCipher::Des | BlockCipher::TripleDes => "des",
                BlockCipher::Blowfish | BlockCipher::Khufu | BlockCipher::Khafre => "legacy",
            },
            Suite::Stream(StreamCipher::Rc4 | StreamCipher::Seal3) => "legacy",
            Suite::Stream(StreamCipher::ChaCha20)
            | Suite::Aead(Aead::ChaCha20Poly1305 | Aead::XChaCha20Poly1305)
            | Suite::Mac(Mac::Poly1305) => "chacha20",
            Suite::Aead(_) | Suite::Fpe(_) | Suite::Wrap(_) => "aes",
            Suite::Mac(Mac::Cmac(_) | Mac::Gmac(_) | Mac::GmacAnyIv(_)) => "aes",
            Suite::Mac(Mac::TripleDesCmac) => "des",
            Suite::Digest(_) | Suite::Mac(Mac::Hmac(_) | Mac::Kmac(_)) => "hash",
            Suite::Random => "random",
            Suite::Kem(_)
            | Suite::Sign(Signature::MlDsa(_))
            | Suite::Generate(KeyPair::MlKem(_) | KeyPair::MlDsa(_)) => "lattice",
            Suite::Sign(Signature::Ecdsa(curve)) | Suite::Agree(Agreement::Ecdh(curve)) if curve.is_binary() => {
                "binary"
            }
            _ => "public",
        }
    }

    /// Whether the suite is kept for old data and comparison only: broken or undersized by today's measure, or
    /// variable-time by construction. Policies refuse these unless they say `legacy = true`.
    pub const fn is_legacy(self) -> bool {
        match self {
            Suite::Cipher(cipher, _) => cipher.is_legacy(),
            Suite::Chain(chain) => chain.cipher.is_legacy() || matches!(chain.digest, Digest::Md5),
            Suite::Stream(stream) => !matches!(stream, StreamCipher::ChaCha20),
            Suite::Digest(digest) => matches!(digest, Digest::Md5 | Digest::Sha1),
            Suite::Mac(Mac::Hmac(digest)) => matches!(digest, Digest::Md5),
            Suite::Mac(Mac::TripleDesCmac) => true,
            Suite::Sign(Signature::Rsa(size, _, digest)) => {
                matches!(size, RsaSize::Rsa1024) || matches!(digest, Digest::Sha1)
            }
            Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve))
            | Suite::Agree(Agreement::Ecdh(curve))
            | Suite::Generate(KeyPair::Ec(curve)) => curve.is_legacy(),
            Suite::Agree(Agreement::Dh(group)) => matches!(group, DhGroup::Modp1024 | DhGroup::Modp1536),
            Suite::Generate(KeyPair::Rsa(size)) => matches!(size, RsaSize::Rsa1024),
            Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(_) | PublicEncryption::RsaRaw(_)) => true,
            Suite::PublicEncrypt(PublicEncryption::RsaOaep(size, _)) => matches!(size, RsaSize::Rsa1024),
            _ => false,
        }
    }

    /// Whether there is an output and it is as long as the input, whatever that holds.
    pub const fn keeps_len(self) -> bool {
        match self {
            Suite::Aead(Aead::AesCbcHmac(_)) => false,
            Suite::Cipher(..) | Suite::Stream(_) | Suite::Aead(_) | Suite::Fpe(_) => true,
            Suite::Chain(Chain { order, .. }) => matches!(order, ChainOrder::EncryptThenMac),
            _ => false,
        }
    }

    /// Whether the suite works with key pairs, so that a batch of it is worth moving to another core.
    pub const fn is_public_key(self) -> bool {
        matches!(self, Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Agree(_) | Suite::Kem(_) | Suite::Generate(_))
    }

    /// Whether the suite runs in this direction. Digests, agreement, key generation and random bytes have no way back.
    pub const fn has_direction(self, direction: Direction) -> bool {
        match direction {
            Direction::Encrypt => true,
            Direction::Decrypt => {
                !matches!(self, Suite::Digest(_) | Suite::Agree(_) | Suite::Generate(_) | Suite::Random)
            }
        }
    }

    /// Whether two runs over the same operation may differ (signatures with salt, encapsulation, random bytes).
    pub const fn is_randomized(self, direction: Direction) -> bool {
        if matches!(direction, Direction::Decrypt) {
            return false;
        }
        match self {
            Suite::Sign(Signature::Rsa(_, padding, _)) => matches!(padding, SignPadding::Pss),
            Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) => false,
            Suite::PublicEncrypt(PublicEncryption::RsaRaw(_)) => false,
            Suite::Sign(_) | Suite::PublicEncrypt(_) | Suite::Kem(_) | Suite::Generate(_) | Suite::Random => true,
            _ => false,
        }
    }

    /// The suite that stands for all those which differ only in an open parameter (FF1's radix). Capabilities list
    /// canonical suites.
    #[must_use]
    pub const fn canonical(self) -> Suite {
        match self {
            Suite::Fpe(ff1) => Suite::Fpe(Ff1 { size: ff1.size, radix: 10 }),
            other => other,
        }
    }
}

impl BlockCipher {
    /// Whether policies must enable the cipher.
    pub const fn is_legacy(self) -> bool {
        !matches!(self, BlockCipher::Aes(_))
    }

    /// Bytes of a block.
    pub const fn block_len(self) -> usize {
        match self {
            BlockCipher::Aes(_) => 16,
            _ => 8,
        }
    }
}

impl Aead {
    /// The digest of the HMAC within [`Aead::AesCbcHmac`] (RFC 7518, 5.2.3 to 5.2.5).
    pub const fn cbc_hmac_digest(size: AesSize) -> Digest {
        match size {
            AesSize::Aes128 => Digest::Sha256,
            AesSize::Aes192 => Digest::Sha384,
            AesSize::Aes256 => Digest::Sha512,
        }
    }
}

impl AesSize {
    /// All sizes.
    pub const ALL: [AesSize; 3] = [AesSize::Aes128, AesSize::Aes192, AesSize::Aes256];

    /// Bytes of a key.
    pub const fn key_len(self) -> usize {
        16 + 8 * (self as usize)
    }
}

impl Digest {
    /// All digests. BLAKE3, which few libraries have, is the last; before it those whose length is no whole number of their words.
    pub const ALL: [Digest; 15] = [
        Digest::Md5,
        Digest::Sha1,
        Digest::Sha224,
        Digest::Sha256,
        Digest::Sha384,
        Digest::Sha512,
        Digest::Sha512_256,
        Digest::Sha3_256,
        Digest::Sha3_384,
        Digest::Sha3_512,
        Digest::Shake128,
        Digest::Shake256,
        Digest::Sha512_224,
        Digest::Sha3_224,
        Digest::Blake3,
    ];

    /// Bytes of a digest; of an extendable-output function, those that are asked for when nobody says otherwise.
    pub const fn len(self) -> usize {
        match self {
            Digest::Md5 => 16,
            Digest::Sha1 => 20,
            Digest::Sha224 | Digest::Sha512_224 | Digest::Sha3_224 => 28,
            Digest::Sha256 | Digest::Sha512_256 | Digest::Sha3_256 | Digest::Shake128 | Digest::Blake3 => 32,
            Digest::Sha384 | Digest::Sha3_384 => 48,
            Digest::Sha512 | Digest::Sha3_512 | Digest::Shake256 => 64,
        }
    }

    /// Always false: no digest is empty.
    pub const fn is_empty(self) -> bool {
        false
    }

    /// Whether this is an extendable-output function (FIPS 202, 6.2), over which there is no HMAC, chain or signature.
    pub const fn is_xof(self) -> bool {
        matches!(self, Digest::Shake128 | Digest::Shake256)
    }

    /// Bytes of the block that HMAC pads its key to (FIPS 198-1; SHA-3: FIPS 202 table 3); of an extendable-output
    /// function, its rate.
    pub const fn block_len(self) -> usize {
        match self {
            Digest::Sha384 | Digest::Sha512 | Digest::Sha512_224 | Digest::Sha512_256 => 128,
            Digest::Sha3_224 => 144,
            Digest::Sha3_256 | Digest::Shake256 => 136,
            Digest::Sha3_384 => 104,
            Digest::Sha3_512 => 72,
            Digest::Shake128 => 168,
            _ => 64,
        }
    }
}
