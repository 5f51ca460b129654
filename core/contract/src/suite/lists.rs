//! Every suite there is, by family, as const data.

use std::sync::OnceLock;

use crate::limits::SUITE_ORDINALS_MAX;
use crate::suite::rules::{GCM_SIV_SIZES, KEMS, RSA_DIGESTS};
use crate::suite::{
    Aead, AesSize, Agreement, BlockCipher, Chain, ChainOrder, Curve, DhGroup, Digest, Ff1, KeyPair, KeyWrap, Kmac, Mac,
    MlDsaSet, Mode, PublicEncryption, RsaSize, SignPadding, Signature, StreamCipher, Suite,
};

const AES: [BlockCipher; 3] =
    [BlockCipher::Aes(AesSize::Aes128), BlockCipher::Aes(AesSize::Aes192), BlockCipher::Aes(AesSize::Aes256)];

const fn aes(mode: Mode) -> [Suite; 3] {
    [Suite::Cipher(AES[0], mode), Suite::Cipher(AES[1], mode), Suite::Cipher(AES[2], mode)]
}

/// DES in ECB and CBC.
pub const DES: [Suite; 2] = [Suite::Cipher(BlockCipher::Des, Mode::Ecb), Suite::Cipher(BlockCipher::Des, Mode::Cbc)];
/// Triple DES in ECB and outer CBC.
pub const TRIPLE_DES: [Suite; 2] =
    [Suite::Cipher(BlockCipher::TripleDes, Mode::Ecb), Suite::Cipher(BlockCipher::TripleDes, Mode::Cbc)];
/// AES-ECB.
pub const AES_ECB: [Suite; 3] = aes(Mode::Ecb);
/// AES-CBC.
pub const AES_CBC: [Suite; 3] = aes(Mode::Cbc);
/// AES-CTR.
pub const AES_CTR: [Suite; 3] = aes(Mode::Ctr);
/// AES-XTS; there is no 192-bit form (NIST SP 800-38E).
pub const AES_XTS: [Suite; 2] = [Suite::Cipher(AES[0], Mode::Xts), Suite::Cipher(AES[2], Mode::Xts)];
/// AES-CFB with segments of a byte.
pub const AES_CFB8: [Suite; 3] = aes(Mode::Cfb8);
/// AES-CFB with segments of a block.
pub const AES_CFB128: [Suite; 3] = aes(Mode::Cfb128);
/// AES-OFB.
pub const AES_OFB: [Suite; 3] = aes(Mode::Ofb);
/// AES-CBC with ciphertext stealing.
pub const AES_CBC_STEALING: [Suite; 9] = {
    let modes = [aes(Mode::CbcCs1), aes(Mode::CbcCs2), aes(Mode::CbcCs3)];
    let mut out = [Suite::Random; 9];
    let mut i = 0;
    while i < out.len() {
        out[i] = modes[i / 3][i % 3];
        i += 1;
    }
    out
};
/// Blowfish in ECB, CBC and CTR.
pub const BLOWFISH: [Suite; 3] = [
    Suite::Cipher(BlockCipher::Blowfish, Mode::Ecb),
    Suite::Cipher(BlockCipher::Blowfish, Mode::Cbc),
    Suite::Cipher(BlockCipher::Blowfish, Mode::Ctr),
];
/// Khufu and Khafre in ECB and CBC.
pub const KHUFU_KHAFRE: [Suite; 4] = [
    Suite::Cipher(BlockCipher::Khufu, Mode::Ecb),
    Suite::Cipher(BlockCipher::Khufu, Mode::Cbc),
    Suite::Cipher(BlockCipher::Khafre, Mode::Ecb),
    Suite::Cipher(BlockCipher::Khafre, Mode::Cbc),
];
/// ChaCha20.
pub const CHACHA20: [Suite; 1] = [Suite::Stream(StreamCipher::ChaCha20)];
/// RC4 and SEAL 3.0.
pub const LEGACY_STREAMS: [Suite; 2] = [Suite::Stream(StreamCipher::Rc4), Suite::Stream(StreamCipher::Seal3)];

/// AES-GCM.
pub const AES_GCM: [Suite; 3] = [
    Suite::Aead(Aead::AesGcm(AesSize::Aes128)),
    Suite::Aead(Aead::AesGcm(AesSize::Aes192)),
    Suite::Aead(Aead::AesGcm(AesSize::Aes256)),
];
/// AES-GCM with IVs of any length.
pub const AES_GCM_ANY_IV: [Suite; 3] = [
    Suite::Aead(Aead::AesGcmAnyIv(AesSize::Aes128)),
    Suite::Aead(Aead::AesGcmAnyIv(AesSize::Aes192)),
    Suite::Aead(Aead::AesGcmAnyIv(AesSize::Aes256)),
];
/// AES-CCM.
pub const AES_CCM: [Suite; 3] = [
    Suite::Aead(Aead::AesCcm(AesSize::Aes128)),
    Suite::Aead(Aead::AesCcm(AesSize::Aes192)),
    Suite::Aead(Aead::AesCcm(AesSize::Aes256)),
];
/// AES-GCM-SIV.
pub const AES_GCM_SIV: [Suite; 2] =
    [Suite::Aead(Aead::AesGcmSiv(GCM_SIV_SIZES[0])), Suite::Aead(Aead::AesGcmSiv(GCM_SIV_SIZES[1]))];
/// AES-SIV.
pub const AES_SIV: [Suite; 3] = [
    Suite::Aead(Aead::AesSiv(AesSize::Aes128)),
    Suite::Aead(Aead::AesSiv(AesSize::Aes192)),
    Suite::Aead(Aead::AesSiv(AesSize::Aes256)),
];
/// AES-OCB3.
pub const AES_OCB: [Suite; 3] = [
    Suite::Aead(Aead::AesOcb(AesSize::Aes128)),
    Suite::Aead(Aead::AesOcb(AesSize::Aes192)),
    Suite::Aead(Aead::AesOcb(AesSize::Aes256)),
];
/// ChaCha20-Poly1305.
pub const CHACHA20_POLY1305: [Suite; 1] = [Suite::Aead(Aead::ChaCha20Poly1305)];

/// XChaCha20-Poly1305.
pub const XCHACHA20_POLY1305: [Suite; 1] = [Suite::Aead(Aead::XChaCha20Poly1305)];

/// AES-CBC with HMAC as JOSE has it.
pub const AES_CBC_HMAC: [Suite; 3] = [
    Suite::Aead(Aead::AesCbcHmac(AesSize::Aes128)),
    Suite::Aead(Aead::AesCbcHmac(AesSize::Aes192)),
    Suite::Aead(Aead::AesCbcHmac(AesSize::Aes256)),
];

const fn digests() -> [Suite; 15] {
    let mut out = [Suite::Random; 15];
    let mut i = 0;
    while i < out.len() {
        out[i] = Suite::Digest(Digest::ALL[i]);
        i += 1;
    }
    out
}

const fn hmacs() -> [Suite; 13] {
    let mut out = [Suite::Random; 13];
    let (mut from, mut to) = (0, 0);
    while from < Digest::ALL.len() {
        if !Digest::ALL[from].is_xof() {
            out[to] = Suite::Mac(Mac::Hmac(Digest::ALL[from]));
            to += 1;
        }
        from += 1;
    }
    assert!(to == out.len());
    out
}

/// Digests.
pub const DIGESTS: [Suite; 15] = digests();
/// HMAC over every digest but the extendable-output functions.
pub const HMAC: [Suite; 13] = hmacs();
/// AES-CMAC.
pub const CMAC: [Suite; 3] = [
    Suite::Mac(Mac::Cmac(AesSize::Aes128)),
    Suite::Mac(Mac::Cmac(AesSize::Aes192)),
    Suite::Mac(Mac::Cmac(AesSize::Aes256)),
];
/// CMAC over triple DES.
pub const TRIPLE_DES_CMAC: [Suite; 1] = [Suite::Mac(Mac::TripleDesCmac)];
/// AES-GMAC.
pub const GMAC: [Suite; 3] = [
    Suite::Mac(Mac::Gmac(AesSize::Aes128)),
    Suite::Mac(Mac::Gmac(AesSize::Aes192)),
    Suite::Mac(Mac::Gmac(AesSize::Aes256)),
];
/// AES-GMAC with IVs of any length.
pub const GMAC_ANY_IV: [Suite; 3] = [
    Suite::Mac(Mac::GmacAnyIv(AesSize::Aes128)),
    Suite::Mac(Mac::GmacAnyIv(AesSize::Aes192)),
    Suite::Mac(Mac::GmacAnyIv(AesSize::Aes256)),
];
/// Poly1305.
pub const POLY1305: [Suite; 1] = [Suite::Mac(Mac::Poly1305)];
/// KMAC.
pub const KMAC: [Suite; 2] = [Suite::Mac(Mac::Kmac(Kmac::Kmac128)), Suite::Mac(Mac::Kmac(Kmac::Kmac256))];
/// FF1, its radix standing for all.
pub const FF1: [Suite; 3] = [
    Suite::Fpe(Ff1 { size: AesSize::Aes128, radix: 10 }),
    Suite::Fpe(Ff1 { size: AesSize::Aes192, radix: 10 }),
    Suite::Fpe(Ff1 { size: AesSize::Aes256, radix: 10 }),
];
/// AES key wrap, without padding, then with it.
pub const KEY_WRAP: [Suite; 6] = [
    Suite::Wrap(KeyWrap::Kw(AesSize::Aes128)),
    Suite::Wrap(KeyWrap::Kw(AesSize::Aes192)),
    Suite::Wrap(KeyWrap::Kw(AesSize::Aes256)),
    Suite::Wrap(KeyWrap::Kwp(AesSize::Aes128)),
    Suite::Wrap(KeyWrap::Kwp(AesSize::Aes192)),
    Suite::Wrap(KeyWrap::Kwp(AesSize::Aes256)),
];
/// Random bytes.
pub const RANDOM: [Suite; 1] = [Suite::Random];

/// The digests that chains run HMAC over.
pub const CHAIN_DIGESTS: [Digest; 6] =
    [Digest::Md5, Digest::Sha1, Digest::Sha224, Digest::Sha256, Digest::Sha384, Digest::Sha512];
/// The ciphers and modes of chains.
pub const CHAIN_CIPHERS: [(BlockCipher, Mode); 8] = [
    (BlockCipher::Des, Mode::Cbc),
    (BlockCipher::TripleDes, Mode::Cbc),
    (AES[0], Mode::Cbc),
    (AES[1], Mode::Cbc),
    (AES[2], Mode::Cbc),
    (AES[0], Mode::Ctr),
    (AES[1], Mode::Ctr),
    (AES[2], Mode::Ctr),
];

const fn chains(order: ChainOrder) -> [Suite; 48] {
    let mut out = [Suite::Random; 48];
    let mut i = 0;
    while i < out.len() {
        let (cipher, mode) = CHAIN_CIPHERS[i / CHAIN_DIGESTS.len()];
        let digest = CHAIN_DIGESTS[i % CHAIN_DIGESTS.len()];
        out[i] = Suite::Chain(Chain { cipher, mode, digest, order });
        i += 1;
    }
    out
}

/// Chains that encrypt, then MAC.
pub const CHAINS_ENCRYPT_THEN_MAC: [Suite; 48] = chains(ChainOrder::EncryptThenMac);
/// Chains that MAC, then encrypt.
pub const CHAINS_MAC_THEN_ENCRYPT: [Suite; 48] = chains(ChainOrder::MacThenEncrypt);

const fn rsa_sign(padding: SignPadding) -> [Suite; 16] {
    let mut out = [Suite::Random; 16];
    let mut i = 0;
    while i < out.len() {
        out[i] = Suite::Sign(Signature::Rsa(RsaSize::ALL[i / 4], padding, RSA_DIGESTS[i % 4]));
        i += 1;
    }
    out
}

/// RSASSA-PKCS1-v1_5.
pub const RSA_SIGN_PKCS1: [Suite; 16] = rsa_sign(SignPadding::Pkcs1);
/// RSASSA-PSS; RSA-1024 is too short for SHA-512 with a salt of its length.
pub const RSA_SIGN_PSS: [Suite; 15] = {
    let all = rsa_sign(SignPadding::Pss);
    let mut out = [Suite::Random; 15];
    let mut from = 0;
    let mut to = 0;
    while from < all.len() {
        // 1,024 bits cannot hold a SHA-512 digest and a salt as long (RFC 8017, 9.1.1).
        if from != 3 {
            out[to] = all[from];
            to += 1;
        }
        from += 1;
    }
    out
};
/// RSAES-PKCS1-v1_5.
pub const RSA_ENCRYPT_PKCS1: [Suite; 4] = [
    Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(RsaSize::Rsa1024)),
    Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(RsaSize::Rsa2048)),
    Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(RsaSize::Rsa3072)),
    Suite::PublicEncrypt(PublicEncryption::RsaPkcs1(RsaSize::Rsa4096)),
];
/// RSAES-OAEP with SHA-1 and SHA-256 for every size.
pub const RSA_ENCRYPT_OAEP: [Suite; 8] = {
    let mut out = [Suite::Random; 8];
    let mut i = 0;
    while i < out.len() {
        out[i] = Suite::PublicEncrypt(PublicEncryption::RsaOaep(RsaSize::ALL[i / 2], RSA_DIGESTS[i % 2]));
        i += 1;
    }
    out
};
/// Those suites of an RSA list whose moduli have a size; each size has as many but the first of [`RSA_SIGN_PSS`].
pub const fn of_size(list: &'static [Suite], size: RsaSize) -> &'static [Suite] {
    let each = list.len().div_ceil(RsaSize::ALL.len());
    let end = list.len() - (RsaSize::ALL.len() - 1 - size as usize) * each;
    list.split_at(end).0.split_at(end.saturating_sub(each)).1
}

/// ECDSA on prime curves.
pub const ECDSA: [Suite; 3] = [
    Suite::Sign(Signature::Ecdsa(Curve::P256)),
    Suite::Sign(Signature::Ecdsa(Curve::P384)),
    Suite::Sign(Signature::Ecdsa(Curve::P521)),
];
/// The same over given digests.
pub const ECDSA_DIGEST: [Suite; 3] = [
    Suite::Sign(Signature::EcdsaDigest(Curve::P256)),
    Suite::Sign(Signature::EcdsaDigest(Curve::P384)),
    Suite::Sign(Signature::EcdsaDigest(Curve::P521)),
];
/// ECDH on prime curves.
pub const ECDH: [Suite; 3] = [
    Suite::Agree(Agreement::Ecdh(Curve::P256)),
    Suite::Agree(Agreement::Ecdh(Curve::P384)),
    Suite::Agree(Agreement::Ecdh(Curve::P521)),
];

/// ECDSA, over messages and over given digests, and ECDH.
const fn on_curve(curve: Curve) -> [Suite; 3] {
    [
        Suite::Sign(Signature::Ecdsa(curve)),
        Suite::Sign(Signature::EcdsaDigest(curve)),
        Suite::Agree(Agreement::Ecdh(curve)),
    ]
}

/// secp256k1: ECDSA, over messages and over given digests, and ECDH.
pub const SECP256K1: [Suite; 3] = on_curve(Curve::Secp256k1);
/// The same on P-224.
pub const P224: [Suite; 3] = on_curve(Curve::P224);
/// The same on brainpoolP256r1.
pub const BRAINPOOL_P256R1: [Suite; 3] = on_curve(Curve::BrainpoolP256r1);
/// The same on brainpoolP384r1.
pub const BRAINPOOL_P384R1: [Suite; 3] = on_curve(Curve::BrainpoolP384r1);
/// The RSA primitives without padding.
pub const RSA_RAW: [Suite; 4] = {
    let mut out = [Suite::Random; 4];
    let mut i = 0;
    while i < out.len() {
        out[i] = Suite::PublicEncrypt(PublicEncryption::RsaRaw(RsaSize::ALL[i]));
        i += 1;
    }
    out
};

/// ECDSA, then ECDH, on secp160r1 and the binary curves: the twelve of [`Curve::ALL`] behind the first three.
pub const LEGACY_CURVES: [Suite; 24] = {
    let mut out = [Suite::Random; 24];
    let mut i = 0;
    while i < out.len() / 2 {
        out[i] = Suite::Sign(Signature::Ecdsa(Curve::ALL[3 + i]));
        out[out.len() / 2 + i] = Suite::Agree(Agreement::Ecdh(Curve::ALL[3 + i]));
        i += 1;
    }
    out
};
/// Finite-field Diffie-Hellman in the groups of RFC 7919.
pub const DH: [Suite; 3] = [
    Suite::Agree(Agreement::Dh(DhGroup::Ffdhe2048)),
    Suite::Agree(Agreement::Dh(DhGroup::Ffdhe3072)),
    Suite::Agree(Agreement::Dh(DhGroup::Ffdhe4096)),
];
/// The same in the groups of IKE.
pub const DH_MODP: [Suite; 7] = [
    Suite::Agree(Agreement::Dh(DhGroup::Modp1024)),
    Suite::Agree(Agreement::Dh(DhGroup::Modp1536)),
    Suite::Agree(Agreement::Dh(DhGroup::Modp2048)),
    Suite::Agree(Agreement::Dh(DhGroup::Modp3072)),
    Suite::Agree(Agreement::Dh(DhGroup::Modp4096)),
    Suite::Agree(Agreement::Dh(DhGroup::Modp6144)),
    Suite::Agree(Agreement::Dh(DhGroup::Modp8192)),
];
/// X25519.
pub const X25519: [Suite; 1] = [Suite::Agree(Agreement::X25519)];
/// X448.
pub const X448: [Suite; 1] = [Suite::Agree(Agreement::X448)];
/// Ed25519.
pub const ED25519: [Suite; 1] = [Suite::Sign(Signature::Ed25519)];
/// Ed25519, verified by the equation with the cofactor.
pub const ED25519_COFACTORED: [Suite; 1] = [Suite::Sign(Signature::Ed25519Cofactored)];
/// ML-KEM.
pub const ML_KEM: [Suite; 3] = [Suite::Kem(KEMS[0]), Suite::Kem(KEMS[1]), Suite::Kem(KEMS[2])];
/// ML-DSA.
pub const ML_DSA: [Suite; 3] = [
    Suite::Sign(Signature::MlDsa(MlDsaSet::MlDsa44)),
    Suite::Sign(Signature::MlDsa(MlDsaSet::MlDsa65)),
    Suite::Sign(Signature::MlDsa(MlDsaSet::MlDsa87)),
];
/// Key generation: RSA, the curves of [`Curve::ALL`], X25519, X448, Ed25519, ML-KEM, ML-DSA.
pub const GENERATE: [Suite; 32] = {
    let mut out = [Suite::Random; 32];
    let mut i = 0;
    while i < out.len() {
        out[i] = Suite::Generate(match i {
            0..4 => KeyPair::Rsa(RsaSize::ALL[i]),
            4..23 => KeyPair::Ec(Curve::ALL[i - 4]),
            23 => KeyPair::X25519,
            24 => KeyPair::X448,
            25 => KeyPair::Ed25519,
            26..29 => KeyPair::MlKem(KEMS[i - 26]),
            _ => KeyPair::MlDsa([MlDsaSet::MlDsa44, MlDsaSet::MlDsa65, MlDsaSet::MlDsa87][i - 29]),
        });
        i += 1;
    }
    out
};

/// `len` suites of [`GENERATE`], from the one that makes pairs of this kind on.
pub const fn generating(first: KeyPair, len: usize) -> &'static [Suite] {
    let mut at = 0;
    while GENERATE[at].ordinal() != Suite::Generate(first).ordinal() {
        at += 1;
    }
    GENERATE.split_at(at).1.split_at(len).0
}

/// Every family, in the order in which listings show them.
pub const FAMILIES: &[(&str, &[Suite])] = &[
    ("DES", &DES),
    ("3DES", &TRIPLE_DES),
    ("AES-ECB", &AES_ECB),
    ("AES-CBC", &AES_CBC),
    ("AES-CTR", &AES_CTR),
    ("AES-XTS", &AES_XTS),
    ("AES-CFB8", &AES_CFB8),
    ("AES-CFB128", &AES_CFB128),
    ("AES-OFB", &AES_OFB),
    ("AES-CBC, stealing", &AES_CBC_STEALING),
    ("AES-GCM", &AES_GCM),
    ("AES-GCM, any IV", &AES_GCM_ANY_IV),
    ("AES-CCM", &AES_CCM),
    ("AES-GCM-SIV", &AES_GCM_SIV),
    ("AES-SIV", &AES_SIV),
    ("AES-OCB", &AES_OCB),
    ("AES-CBC with HMAC", &AES_CBC_HMAC),
    ("ChaCha20", &CHACHA20),
    ("ChaCha20-Poly1305", &CHACHA20_POLY1305),
    ("XChaCha20-Poly1305", &XCHACHA20_POLY1305),
    ("Blowfish", &BLOWFISH),
    ("Khufu, Khafre", &KHUFU_KHAFRE),
    ("RC4, SEAL", &LEGACY_STREAMS),
    ("digests", &DIGESTS),
    ("HMAC", &HMAC),
    ("CMAC", &CMAC),
    ("3DES-CMAC", &TRIPLE_DES_CMAC),
    ("GMAC", &GMAC),
    ("GMAC, any IV", &GMAC_ANY_IV),
    ("Poly1305", &POLY1305),
    ("KMAC", &KMAC),
    ("FF1", &FF1),
    ("AES key wrap", &KEY_WRAP),
    ("encrypt-then-MAC", &CHAINS_ENCRYPT_THEN_MAC),
    ("MAC-then-encrypt", &CHAINS_MAC_THEN_ENCRYPT),
    ("RSA PKCS#1 signatures", &RSA_SIGN_PKCS1),
    ("RSA PSS signatures", &RSA_SIGN_PSS),
    ("RSA PKCS#1 encryption", &RSA_ENCRYPT_PKCS1),
    ("RSA OAEP encryption", &RSA_ENCRYPT_OAEP),
    ("RSA without padding", &RSA_RAW),
    ("ECDSA", &ECDSA),
    ("ECDSA over digests", &ECDSA_DIGEST),
    ("ECDH", &ECDH),
    ("secp256k1", &SECP256K1),
    ("P-224", &P224),
    ("brainpoolP256r1", &BRAINPOOL_P256R1),
    ("brainpoolP384r1", &BRAINPOOL_P384R1),
    ("legacy curves", &LEGACY_CURVES),
    ("DH", &DH),
    ("DH of IKE", &DH_MODP),
    ("X25519", &X25519),
    ("X448", &X448),
    ("Ed25519", &ED25519),
    ("Ed25519 with cofactor", &ED25519_COFACTORED),
    ("ML-KEM", &ML_KEM),
    ("ML-DSA", &ML_DSA),
    ("key generation", &GENERATE),
    ("random bytes", &RANDOM),
];

impl Suite {
    /// Every canonical suite, family by family.
    pub fn all() -> impl Iterator<Item = Suite> {
        FAMILIES.iter().flat_map(|(_, suites)| suites.iter().copied())
    }

    /// Whether [`Suite::all`] has it, open parameters aside. Some combinations of types are no suite of anybody's.
    pub fn is_listed(self) -> bool {
        Suite::of_ordinal(self.ordinal()) == Some(self.canonical())
    }

    /// The canonical suite of this number ([`Suite::ordinal`]), if there is one.
    pub fn of_ordinal(ordinal: usize) -> Option<Suite> {
        static PLACES: OnceLock<Vec<Option<Suite>>> = OnceLock::new();
        let places = PLACES.get_or_init(|| {
            let mut places = vec![None; SUITE_ORDINALS_MAX];
            Suite::all().for_each(|suite| places[suite.ordinal()] = Some(suite));
            places
        });
        places.get(ordinal).copied().flatten()
    }

    /// The family that listings show the suite under.
    pub fn family(self) -> &'static str {
        let suite = self.canonical();
        FAMILIES.iter().find(|(_, suites)| suites.contains(&suite)).map_or("unlisted", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals_are_unique_and_below_the_limit() {
        let mut seen = vec![None; SUITE_ORDINALS_MAX];
        for suite in Suite::all() {
            let place = &mut seen[suite.ordinal()];
            assert_eq!(*place, None, "{suite} shares its ordinal");
            *place = Some(suite);
        }
    }

    #[test]
    fn what_is_no_suite_is_not_listed() {
        let oaep = |digest| Suite::PublicEncrypt(PublicEncryption::RsaOaep(RsaSize::Rsa2048, digest));
        assert!(oaep(Digest::Sha256).is_listed());
        assert!(!oaep(Digest::Blake3).is_listed());
    }

    #[test]
    fn every_suite_is_canonical_and_in_one_family() {
        for suite in Suite::all() {
            assert!(suite.is_listed());
            assert_eq!(suite.canonical(), suite);
            assert_ne!(suite.family(), "unlisted");
        }
        assert_eq!(Suite::all().count(), 356);
    }

    #[test]
    fn extendable_outputs_are_digests_and_nothing_else() {
        let listed: Vec<usize> = Suite::all().map(Suite::ordinal).collect();
        for digest in [Digest::Shake128, Digest::Shake256] {
            assert!(DIGESTS.contains(&Suite::Digest(digest)));
            let mut others = vec![Suite::Mac(Mac::Hmac(digest))];
            for size in RsaSize::ALL {
                others.push(Suite::PublicEncrypt(PublicEncryption::RsaOaep(size, digest)));
                for padding in [SignPadding::Pkcs1, SignPadding::Pss] {
                    others.push(Suite::Sign(Signature::Rsa(size, padding, digest)));
                }
            }
            for (cipher, mode) in CHAIN_CIPHERS {
                for order in [ChainOrder::EncryptThenMac, ChainOrder::MacThenEncrypt] {
                    others.push(Suite::Chain(Chain { cipher, mode, digest, order }));
                }
            }
            for other in others {
                assert!(!listed.contains(&other.ordinal()), "{other} has the ordinal of a listed suite");
                assert!(other.to_string().parse::<Suite>().is_err(), "{other}");
            }
        }
    }
}
