//! The mechanisms: one table of what they are, which keys they take and what they are for (PKCS#11 3.2, 6).

mod parameters;
mod raw;
mod tls;

use std::sync::LazyLock;

use ciphermill_contract::suite::{Digest, Mode};
use cryptoki_sys::*;

pub(crate) use parameters::{Aead, Ecdh, Hkdf, Mechanism, Oaep, Parameter, Pss, Salt};
pub(crate) use tls::{Finished, KeyBlock, MASTER_LEN, Prf};

/// What a mechanism does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Digest(Digest),
    /// HMAC; with the general form the length of the MAC is a parameter.
    Hmac(Digest, General),
    /// CMAC, over the cipher of the key.
    Cmac(General),
    /// GMAC, whose IV is a parameter.
    Gmac,
    /// Poly1305 under a key for one message (RFC 8439, 2.5).
    Poly1305,
    /// A mode of a block cipher, with the padding of PKCS#7 or without.
    Block(Cipher, Mode, Padded),
    ChaCha20,
    Gcm,
    Ccm,
    ChaCha20Poly1305,
    /// AES key wrap (RFC 3394), with padding (RFC 5649) or without.
    KeyWrap(Padded),
    /// PKCS#1 v1.5 signatures of messages hashed with a digest, or of what the application has encoded; and encryption.
    RsaPkcs1(Option<Digest>),
    RsaPss(Option<Digest>),
    RsaOaep,
    RsaRaw,
    /// ECDSA of messages hashed with a digest, or of digests.
    Ecdsa(Option<Digest>),
    Eddsa,
    MlDsa,
    MlKem,
    /// ECDH on curves of any form, without their cofactor.
    Ecdh,
    /// The same with the cofactor (SP 800-56A, 5.7.1.2), on the curves where that is one.
    EcdhCofactor,
    Dh,
    Hkdf,
    /// A key and more bytes, or less of them.
    Concatenate(Concatenated),
    /// Two keys, one behind the other.
    ConcatenateKey,
    XorData,
    Extract,
    /// What a key encrypts of given data.
    EncryptData(Cipher, Mode),
    Tls(Tls),
    GenerateSecret,
    GeneratePair,
}

/// Block ciphers by the types of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cipher {
    Aes,
    Des,
    TripleDes,
}

/// Whether the length of a MAC is a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum General {
    No,
    Yes,
}

/// Whether lengths are made to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padded {
    No,
    Yes,
}

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concatenated {
    BaseAndData,
    DataAndBase,
}

/// What is derived in TLS 1.2 (RFC 5246).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// The master secret of what was agreed upon (8.1).
    Master(Premaster),
    /// The same, bound to the handshake (RFC 7627).
    ExtendedMaster(Premaster),
    /// Keys, MAC keys and IVs of a connection (6.3).
    KeyBlock,
    /// What other protocols derive of the master secret (RFC 5705).
    Exporter,
    /// The MAC of `Finished` (7.4.9).
    Finished,
}

/// Where a premaster secret comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Premaster {
    /// The client encrypted it with RSA: it begins with the version.
    Rsa,
    /// Of an agreement.
    Agreed,
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) kind: CK_MECHANISM_TYPE,
    pub(crate) what: What,
    /// Key sizes, in the unit of the mechanism's section: bytes for AES and secrets, bits for RSA and curves.
    sizes: (CK_ULONG, CK_ULONG),
    flags: CK_FLAGS,
}

const fn row(kind: CK_MECHANISM_TYPE, what: What, sizes: (CK_ULONG, CK_ULONG), flags: CK_FLAGS) -> Row {
    Row { kind, what, sizes, flags }
}

const BOTH_WAYS: CK_FLAGS = CKF_ENCRYPT | CKF_DECRYPT;
const WRAPS: CK_FLAGS = CKF_WRAP | CKF_UNWRAP;
const SIGNS: CK_FLAGS = CKF_SIGN | CKF_VERIFY;
const MESSAGES: CK_FLAGS = CKF_MESSAGE_ENCRYPT | CKF_MESSAGE_DECRYPT;
const ON_PRIME_CURVES: CK_FLAGS = CKF_EC_F_P | CKF_EC_OID | CKF_EC_UNCOMPRESS;
const ON_CURVES: CK_FLAGS = ON_PRIME_CURVES | CKF_EC_F_2M;

const NONE: (CK_ULONG, CK_ULONG) = (0, 0);
/// Bytes of a secret of any length.
const SECRET: (CK_ULONG, CK_ULONG) = (1, 512);
const AES: (CK_ULONG, CK_ULONG) = (16, 32);
const RSA: (CK_ULONG, CK_ULONG) = (1024, 4096);
const CURVES: (CK_ULONG, CK_ULONG) = (160, 571);
/// Bits of the groups.
const GROUPS: (CK_ULONG, CK_ULONG) = (1024, 8192);
/// Bytes of a master secret.
const MASTER: (CK_ULONG, CK_ULONG) = (MASTER_LEN as CK_ULONG, MASTER_LEN as CK_ULONG);

use self::General::{No as Full, Yes as Cut};
use self::Padded::{No as Plain, Yes as Filled};

/// Every mechanism that the module has.
pub(crate) static TABLE: &[Row] = &[
    row(CKM_MD5, What::Digest(Digest::Md5), NONE, CKF_DIGEST),
    row(CKM_SHA_1, What::Digest(Digest::Sha1), NONE, CKF_DIGEST),
    row(CKM_SHA224, What::Digest(Digest::Sha224), NONE, CKF_DIGEST),
    row(CKM_SHA256, What::Digest(Digest::Sha256), NONE, CKF_DIGEST),
    row(CKM_SHA384, What::Digest(Digest::Sha384), NONE, CKF_DIGEST),
    row(CKM_SHA512, What::Digest(Digest::Sha512), NONE, CKF_DIGEST),
    row(CKM_SHA512_224, What::Digest(Digest::Sha512_224), NONE, CKF_DIGEST),
    row(CKM_SHA512_256, What::Digest(Digest::Sha512_256), NONE, CKF_DIGEST),
    row(CKM_SHA3_224, What::Digest(Digest::Sha3_224), NONE, CKF_DIGEST),
    row(CKM_SHA3_256, What::Digest(Digest::Sha3_256), NONE, CKF_DIGEST),
    row(CKM_SHA3_384, What::Digest(Digest::Sha3_384), NONE, CKF_DIGEST),
    row(CKM_SHA3_512, What::Digest(Digest::Sha3_512), NONE, CKF_DIGEST),
    row(CKM_MD5_HMAC, What::Hmac(Digest::Md5, Full), SECRET, SIGNS),
    row(CKM_MD5_HMAC_GENERAL, What::Hmac(Digest::Md5, Cut), SECRET, SIGNS),
    row(CKM_SHA_1_HMAC, What::Hmac(Digest::Sha1, Full), SECRET, SIGNS),
    row(CKM_SHA_1_HMAC_GENERAL, What::Hmac(Digest::Sha1, Cut), SECRET, SIGNS),
    row(CKM_SHA224_HMAC, What::Hmac(Digest::Sha224, Full), SECRET, SIGNS),
    row(CKM_SHA224_HMAC_GENERAL, What::Hmac(Digest::Sha224, Cut), SECRET, SIGNS),
    row(CKM_SHA256_HMAC, What::Hmac(Digest::Sha256, Full), SECRET, SIGNS),
    row(CKM_SHA256_HMAC_GENERAL, What::Hmac(Digest::Sha256, Cut), SECRET, SIGNS),
    row(CKM_SHA384_HMAC, What::Hmac(Digest::Sha384, Full), SECRET, SIGNS),
    row(CKM_SHA384_HMAC_GENERAL, What::Hmac(Digest::Sha384, Cut), SECRET, SIGNS),
    row(CKM_SHA512_HMAC, What::Hmac(Digest::Sha512, Full), SECRET, SIGNS),
    row(CKM_SHA512_HMAC_GENERAL, What::Hmac(Digest::Sha512, Cut), SECRET, SIGNS),
    row(CKM_SHA512_224_HMAC, What::Hmac(Digest::Sha512_224, Full), SECRET, SIGNS),
    row(CKM_SHA512_224_HMAC_GENERAL, What::Hmac(Digest::Sha512_224, Cut), SECRET, SIGNS),
    row(CKM_SHA512_256_HMAC, What::Hmac(Digest::Sha512_256, Full), SECRET, SIGNS),
    row(CKM_SHA512_256_HMAC_GENERAL, What::Hmac(Digest::Sha512_256, Cut), SECRET, SIGNS),
    row(CKM_SHA3_224_HMAC, What::Hmac(Digest::Sha3_224, Full), SECRET, SIGNS),
    row(CKM_SHA3_224_HMAC_GENERAL, What::Hmac(Digest::Sha3_224, Cut), SECRET, SIGNS),
    row(CKM_SHA3_256_HMAC, What::Hmac(Digest::Sha3_256, Full), SECRET, SIGNS),
    row(CKM_SHA3_256_HMAC_GENERAL, What::Hmac(Digest::Sha3_256, Cut), SECRET, SIGNS),
    row(CKM_SHA3_384_HMAC, What::Hmac(Digest::Sha3_384, Full), SECRET, SIGNS),
    row(CKM_SHA3_384_HMAC_GENERAL, What::Hmac(Digest::Sha3_384, Cut), SECRET, SIGNS),
    row(CKM_SHA3_512_HMAC, What::Hmac(Digest::Sha3_512, Full), SECRET, SIGNS),
    row(CKM_SHA3_512_HMAC_GENERAL, What::Hmac(Digest::Sha3_512, Cut), SECRET, SIGNS),
    row(CKM_AES_CMAC, What::Cmac(Full), AES, SIGNS),
    row(CKM_AES_CMAC_GENERAL, What::Cmac(Cut), AES, SIGNS),
    row(CKM_DES3_CMAC, What::Cmac(Full), (24, 24), SIGNS),
    row(CKM_DES3_CMAC_GENERAL, What::Cmac(Cut), (24, 24), SIGNS),
    row(CKM_AES_GMAC, What::Gmac, AES, SIGNS),
    row(CKM_POLY1305_KEY_GEN, What::GenerateSecret, (32, 32), CKF_GENERATE),
    row(CKM_POLY1305, What::Poly1305, (32, 32), SIGNS),
    row(CKM_AES_KEY_GEN, What::GenerateSecret, AES, CKF_GENERATE),
    row(CKM_AES_ECB, What::Block(Cipher::Aes, Mode::Ecb, Plain), AES, BOTH_WAYS | WRAPS),
    row(CKM_AES_CBC, What::Block(Cipher::Aes, Mode::Cbc, Plain), AES, BOTH_WAYS | WRAPS),
    row(CKM_AES_CBC_PAD, What::Block(Cipher::Aes, Mode::Cbc, Filled), AES, BOTH_WAYS | WRAPS),
    row(CKM_AES_CTR, What::Block(Cipher::Aes, Mode::Ctr, Plain), AES, BOTH_WAYS | WRAPS),
    row(CKM_AES_OFB, What::Block(Cipher::Aes, Mode::Ofb, Plain), AES, BOTH_WAYS),
    row(CKM_AES_CFB8, What::Block(Cipher::Aes, Mode::Cfb8, Plain), AES, BOTH_WAYS),
    row(CKM_AES_CFB128, What::Block(Cipher::Aes, Mode::Cfb128, Plain), AES, BOTH_WAYS),
    row(CKM_AES_CTS, What::Block(Cipher::Aes, Mode::CbcCs1, Plain), AES, BOTH_WAYS),
    row(CKM_AES_XTS_KEY_GEN, What::GenerateSecret, (32, 64), CKF_GENERATE),
    row(CKM_AES_XTS, What::Block(Cipher::Aes, Mode::Xts, Plain), (32, 64), BOTH_WAYS | WRAPS),
    row(CKM_AES_GCM, What::Gcm, AES, BOTH_WAYS | WRAPS | MESSAGES),
    row(CKM_AES_CCM, What::Ccm, AES, BOTH_WAYS | WRAPS | MESSAGES),
    row(CKM_AES_KEY_WRAP, What::KeyWrap(Plain), AES, BOTH_WAYS | WRAPS),
    row(CKM_AES_KEY_WRAP_KWP, What::KeyWrap(Filled), AES, BOTH_WAYS | WRAPS),
    // The older name, of which 2.40 does not say how it pads: as RFC 5649 does with the modules that clients know it from.
    row(CKM_AES_KEY_WRAP_PAD, What::KeyWrap(Filled), AES, BOTH_WAYS | WRAPS),
    row(CKM_AES_ECB_ENCRYPT_DATA, What::EncryptData(Cipher::Aes, Mode::Ecb), AES, CKF_DERIVE),
    row(CKM_AES_CBC_ENCRYPT_DATA, What::EncryptData(Cipher::Aes, Mode::Cbc), AES, CKF_DERIVE),
    row(CKM_DES_KEY_GEN, What::GenerateSecret, (8, 8), CKF_GENERATE),
    row(CKM_DES2_KEY_GEN, What::GenerateSecret, (16, 16), CKF_GENERATE),
    row(CKM_DES3_KEY_GEN, What::GenerateSecret, (24, 24), CKF_GENERATE),
    row(CKM_DES_ECB, What::Block(Cipher::Des, Mode::Ecb, Plain), (8, 8), BOTH_WAYS),
    row(CKM_DES_CBC, What::Block(Cipher::Des, Mode::Cbc, Plain), (8, 8), BOTH_WAYS),
    row(CKM_DES_CBC_PAD, What::Block(Cipher::Des, Mode::Cbc, Filled), (8, 8), BOTH_WAYS),
    row(CKM_DES3_ECB, What::Block(Cipher::TripleDes, Mode::Ecb, Plain), (24, 24), BOTH_WAYS | WRAPS),
    row(CKM_DES3_CBC, What::Block(Cipher::TripleDes, Mode::Cbc, Plain), (24, 24), BOTH_WAYS | WRAPS),
    row(CKM_DES3_CBC_PAD, What::Block(Cipher::TripleDes, Mode::Cbc, Filled), (24, 24), BOTH_WAYS | WRAPS),
    row(CKM_DES_ECB_ENCRYPT_DATA, What::EncryptData(Cipher::Des, Mode::Ecb), (8, 8), CKF_DERIVE),
    row(CKM_DES_CBC_ENCRYPT_DATA, What::EncryptData(Cipher::Des, Mode::Cbc), (8, 8), CKF_DERIVE),
    row(CKM_DES3_ECB_ENCRYPT_DATA, What::EncryptData(Cipher::TripleDes, Mode::Ecb), (24, 24), CKF_DERIVE),
    row(CKM_DES3_CBC_ENCRYPT_DATA, What::EncryptData(Cipher::TripleDes, Mode::Cbc), (24, 24), CKF_DERIVE),
    row(CKM_CHACHA20_KEY_GEN, What::GenerateSecret, (32, 32), CKF_GENERATE),
    row(CKM_CHACHA20, What::ChaCha20, (32, 32), BOTH_WAYS),
    row(CKM_CHACHA20_POLY1305, What::ChaCha20Poly1305, (32, 32), BOTH_WAYS | MESSAGES),
    row(CKM_GENERIC_SECRET_KEY_GEN, What::GenerateSecret, SECRET, CKF_GENERATE),
    row(CKM_HKDF_KEY_GEN, What::GenerateSecret, SECRET, CKF_GENERATE),
    row(CKM_RSA_PKCS_KEY_PAIR_GEN, What::GeneratePair, RSA, CKF_GENERATE_KEY_PAIR),
    row(CKM_RSA_PKCS, What::RsaPkcs1(None), RSA, BOTH_WAYS | WRAPS | SIGNS),
    row(CKM_RSA_X_509, What::RsaRaw, RSA, BOTH_WAYS | SIGNS),
    row(CKM_RSA_PKCS_OAEP, What::RsaOaep, RSA, BOTH_WAYS | WRAPS),
    row(CKM_RSA_PKCS_PSS, What::RsaPss(None), RSA, SIGNS),
    row(CKM_MD5_RSA_PKCS, What::RsaPkcs1(Some(Digest::Md5)), RSA, SIGNS),
    row(CKM_SHA1_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha1)), RSA, SIGNS),
    row(CKM_SHA224_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha224)), RSA, SIGNS),
    row(CKM_SHA256_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha256)), RSA, SIGNS),
    row(CKM_SHA384_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha384)), RSA, SIGNS),
    row(CKM_SHA512_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha512)), RSA, SIGNS),
    row(CKM_SHA3_224_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha3_224)), RSA, SIGNS),
    row(CKM_SHA3_256_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha3_256)), RSA, SIGNS),
    row(CKM_SHA3_384_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha3_384)), RSA, SIGNS),
    row(CKM_SHA3_512_RSA_PKCS, What::RsaPkcs1(Some(Digest::Sha3_512)), RSA, SIGNS),
    row(CKM_SHA1_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha1)), RSA, SIGNS),
    row(CKM_SHA224_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha224)), RSA, SIGNS),
    row(CKM_SHA256_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha256)), RSA, SIGNS),
    row(CKM_SHA384_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha384)), RSA, SIGNS),
    row(CKM_SHA512_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha512)), RSA, SIGNS),
    row(CKM_SHA3_224_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha3_224)), RSA, SIGNS),
    row(CKM_SHA3_256_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha3_256)), RSA, SIGNS),
    row(CKM_SHA3_384_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha3_384)), RSA, SIGNS),
    row(CKM_SHA3_512_RSA_PKCS_PSS, What::RsaPss(Some(Digest::Sha3_512)), RSA, SIGNS),
    row(CKM_EC_KEY_PAIR_GEN, What::GeneratePair, CURVES, CKF_GENERATE_KEY_PAIR | ON_CURVES),
    row(CKM_ECDSA, What::Ecdsa(None), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA1, What::Ecdsa(Some(Digest::Sha1)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA224, What::Ecdsa(Some(Digest::Sha224)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA256, What::Ecdsa(Some(Digest::Sha256)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA384, What::Ecdsa(Some(Digest::Sha384)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA512, What::Ecdsa(Some(Digest::Sha512)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA3_224, What::Ecdsa(Some(Digest::Sha3_224)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA3_256, What::Ecdsa(Some(Digest::Sha3_256)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA3_384, What::Ecdsa(Some(Digest::Sha3_384)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDSA_SHA3_512, What::Ecdsa(Some(Digest::Sha3_512)), CURVES, SIGNS | ON_CURVES),
    row(CKM_ECDH1_DERIVE, What::Ecdh, CURVES, CKF_DERIVE | ON_CURVES),
    row(CKM_ECDH1_COFACTOR_DERIVE, What::EcdhCofactor, (160, 521), CKF_DERIVE | ON_PRIME_CURVES),
    row(CKM_EC_EDWARDS_KEY_PAIR_GEN, What::GeneratePair, (255, 255), CKF_GENERATE_KEY_PAIR | CKF_EC_CURVENAME),
    row(CKM_EDDSA, What::Eddsa, (255, 255), SIGNS | CKF_EC_CURVENAME),
    row(CKM_EC_MONTGOMERY_KEY_PAIR_GEN, What::GeneratePair, (255, 448), CKF_GENERATE_KEY_PAIR | CKF_EC_CURVENAME),
    row(CKM_DH_PKCS_KEY_PAIR_GEN, What::GeneratePair, GROUPS, CKF_GENERATE_KEY_PAIR),
    row(CKM_DH_PKCS_DERIVE, What::Dh, GROUPS, CKF_DERIVE),
    row(CKM_HKDF_DERIVE, What::Hkdf, SECRET, CKF_DERIVE),
    row(CKM_HKDF_DATA, What::Hkdf, SECRET, CKF_DERIVE),
    row(CKM_TLS12_MASTER_KEY_DERIVE, What::Tls(Tls::Master(Premaster::Rsa)), MASTER, CKF_DERIVE),
    row(CKM_TLS12_MASTER_KEY_DERIVE_DH, What::Tls(Tls::Master(Premaster::Agreed)), SECRET, CKF_DERIVE),
    row(CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE, What::Tls(Tls::ExtendedMaster(Premaster::Rsa)), MASTER, CKF_DERIVE),
    row(CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE_DH, What::Tls(Tls::ExtendedMaster(Premaster::Agreed)), SECRET, CKF_DERIVE),
    row(CKM_TLS12_KEY_AND_MAC_DERIVE, What::Tls(Tls::KeyBlock), MASTER, CKF_DERIVE),
    row(CKM_TLS12_KDF, What::Tls(Tls::Exporter), MASTER, CKF_DERIVE),
    row(CKM_TLS_KDF, What::Tls(Tls::Exporter), MASTER, CKF_DERIVE),
    row(CKM_TLS12_MAC, What::Tls(Tls::Finished), MASTER, SIGNS),
    row(CKM_TLS_MAC, What::Tls(Tls::Finished), MASTER, SIGNS),
    row(CKM_CONCATENATE_BASE_AND_KEY, What::ConcatenateKey, SECRET, CKF_DERIVE),
    row(CKM_CONCATENATE_BASE_AND_DATA, What::Concatenate(Concatenated::BaseAndData), SECRET, CKF_DERIVE),
    row(CKM_CONCATENATE_DATA_AND_BASE, What::Concatenate(Concatenated::DataAndBase), SECRET, CKF_DERIVE),
    row(CKM_XOR_BASE_AND_DATA, What::XorData, SECRET, CKF_DERIVE),
    row(CKM_EXTRACT_KEY_FROM_KEY, What::Extract, SECRET, CKF_DERIVE),
    row(CKM_ML_KEM_KEY_PAIR_GEN, What::GeneratePair, (800, 1568), CKF_GENERATE_KEY_PAIR),
    row(CKM_ML_KEM, What::MlKem, (800, 1568), CKF_ENCAPSULATE | CKF_DECAPSULATE),
    row(CKM_ML_DSA_KEY_PAIR_GEN, What::GeneratePair, (1312, 2592), CKF_GENERATE_KEY_PAIR),
    row(CKM_ML_DSA, What::MlDsa, (1312, 2592), SIGNS),
];

/// The mechanisms, in the order of the table.
pub(crate) fn list() -> impl ExactSizeIterator<Item = CK_MECHANISM_TYPE> {
    TABLE.iter().map(|row| row.kind)
}

/// The row of a mechanism.
pub(crate) fn find(kind: CK_MECHANISM_TYPE) -> Option<&'static Row> {
    // Kinds lie apart from the rows, so that a search stays in a few cache lines.
    static ROWS: LazyLock<Box<[&'static Row]>> = LazyLock::new(|| {
        let mut rows: Box<[_]> = TABLE.iter().collect();
        rows.sort_by_key(|row| row.kind);
        rows
    });
    static KINDS: LazyLock<Box<[CK_MECHANISM_TYPE]>> = LazyLock::new(|| ROWS.iter().map(|row| row.kind).collect());
    KINDS.binary_search(&kind).ok().map(|at| ROWS[at])
}

/// What an application is told of a mechanism.
pub(crate) fn info(kind: CK_MECHANISM_TYPE) -> Option<CK_MECHANISM_INFO> {
    let row = find(kind)?;
    Some(CK_MECHANISM_INFO { ulMinKeySize: row.sizes.0, ulMaxKeySize: row.sizes.1, flags: row.flags })
}

/// The type of the secret keys that a mechanism takes; none for those that take others.
pub(crate) fn secret_key_type(kind: CK_MECHANISM_TYPE) -> Option<CK_KEY_TYPE> {
    Some(match find(kind)?.what {
        What::Hmac(..) | What::Concatenate(_) | What::XorData | What::Extract => CKK_GENERIC_SECRET,
        What::ConcatenateKey | What::Tls(_) => CKK_GENERIC_SECRET,
        What::Poly1305 => CKK_POLY1305,
        What::Hkdf => CKK_HKDF,
        What::Cmac(_) if kind == CKM_DES3_CMAC || kind == CKM_DES3_CMAC_GENERAL => CKK_DES3,
        What::Cmac(_) | What::Gmac | What::Gcm | What::Ccm | What::KeyWrap(_) => CKK_AES,
        What::Block(Cipher::Aes, Mode::Xts, _) => CKK_AES_XTS,
        What::Block(Cipher::Aes, ..) | What::EncryptData(Cipher::Aes, _) => CKK_AES,
        What::Block(Cipher::Des, ..) | What::EncryptData(Cipher::Des, _) => CKK_DES,
        What::Block(Cipher::TripleDes, ..) | What::EncryptData(Cipher::TripleDes, _) => CKK_DES3,
        What::ChaCha20 | What::ChaCha20Poly1305 => CKK_CHACHA20,
        _ => return None,
    })
}

/// The type of the secret keys that a mechanism generates.
pub(crate) fn generated_key_type(kind: CK_MECHANISM_TYPE) -> Option<CK_KEY_TYPE> {
    Some(match kind {
        CKM_AES_KEY_GEN => CKK_AES,
        CKM_AES_XTS_KEY_GEN => CKK_AES_XTS,
        CKM_POLY1305_KEY_GEN => CKK_POLY1305,
        CKM_DES_KEY_GEN => CKK_DES,
        CKM_DES2_KEY_GEN => CKK_DES2,
        CKM_DES3_KEY_GEN => CKK_DES3,
        CKM_CHACHA20_KEY_GEN => CKK_CHACHA20,
        CKM_HKDF_KEY_GEN => CKK_HKDF,
        _ => return None,
    })
}

/// The length in bytes of secret keys of a type that have only one.
pub(crate) fn fixed_len(kind: CK_KEY_TYPE) -> Option<usize> {
    Some(match kind {
        CKK_DES => 8,
        CKK_DES2 => 16,
        CKK_DES3 => 24,
        CKK_CHACHA20 | CKK_POLY1305 => 32,
        _ => return None,
    })
}

/// The digest that a mechanism names, as parameters of others do.
pub(crate) fn digest(kind: CK_MECHANISM_TYPE) -> Option<Digest> {
    match find(kind)?.what {
        What::Digest(digest) => Some(digest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_is_there_once() {
        let mut kinds: Vec<_> = list().collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), TABLE.len());
    }

    #[test]
    fn sizes_are_ranges_and_flags_are_there() {
        for row in TABLE {
            assert!(row.sizes.0 <= row.sizes.1 && row.flags != 0, "{:#x}", row.kind);
        }
    }
}
