//! What a caller passes: numbers, places, mechanisms with their parameters, templates.

use std::ffi::c_void;
use std::ptr::null_mut;

use cryptoki_sys::*;

/// Bytes behind a buffer that nobody may write.
pub(crate) const GUARD: usize = 64;
const GUARD_BYTE: u8 = 0xa5;

/// Where a caller's choices come from.
pub(crate) trait Source {
    /// The next byte.
    fn byte(&mut self) -> u8;

    /// Whether there are no more choices.
    fn is_over(&self) -> bool {
        false
    }

    fn below(&mut self, count: usize) -> usize {
        let number = usize::from(self.byte());
        let number = if count > 256 { number | usize::from(self.byte()) << 8 } else { number };
        number % count.max(1)
    }

    /// Seldom true, and never when nothing but zeros comes.
    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let at = self.below(from.len());
        from[at]
    }

    /// A number that was not given out, or was to somebody else.
    fn wild(&mut self) -> CK_ULONG {
        let byte = CK_ULONG::from(self.byte());
        match self.below(4) {
            0 => byte,
            1 => CK_ULONG::MAX - byte,
            2 => byte << 32 | 1,
            _ => byte.wrapping_mul(0x0101_0101_0101_0101),
        }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let first = self.byte();
        (0..len).map(|at| first.wrapping_add(at as u8)).collect()
    }

    fn some_bytes(&mut self) -> Vec<u8> {
        let len = self.pick(&[16, 32, 0, 1, 8, 20, 64, 24, 40, 48, 128, 15, 17, 256, 600, 64]);
        self.bytes(len)
    }

    /// A pointer to bytes and their length; seldom a null pointer, or a length that no memory has.
    fn place(&mut self, bytes: &mut [u8]) -> (*mut u8, CK_ULONG) {
        let len = bytes.len() as CK_ULONG;
        match self.below(64) {
            63 => (null_mut(), len),
            62 => (bytes.as_mut_ptr(), CK_ULONG::MAX - len),
            61 => (bytes.as_mut_ptr(), CK_ULONG::MAX / 2 + 1),
            _ => (bytes.as_mut_ptr(), len),
        }
    }
}

/// A buffer with [`GUARD`] bytes behind it.
pub(crate) fn buffer(room: usize) -> Vec<u8> {
    vec![GUARD_BYTE; room + GUARD]
}

/// Whether nobody wrote behind the room that there was.
pub(crate) fn is_intact(memory: &[u8], room: usize) -> bool {
    memory[room..].iter().all(|byte| *byte == GUARD_BYTE)
}

/// What a mechanism is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wish {
    Cipher,
    Digest,
    Sign,
    Message,
    Generate,
    Pair,
    Wrap,
    Derive,
    Encapsulate,
}

const CIPHERS: &[CK_MECHANISM_TYPE] = &[
    CKM_AES_ECB,
    CKM_AES_CBC,
    CKM_AES_CBC_PAD,
    CKM_AES_CTR,
    CKM_AES_GCM,
    CKM_AES_CCM,
    CKM_AES_OFB,
    CKM_AES_CFB8,
    CKM_AES_CFB128,
    CKM_AES_CTS,
    CKM_AES_KEY_WRAP,
    CKM_AES_KEY_WRAP_KWP,
    CKM_DES3_CBC_PAD,
    CKM_CHACHA20,
    CKM_CHACHA20_POLY1305,
    CKM_RSA_PKCS,
    CKM_RSA_PKCS_OAEP,
    CKM_RSA_X_509,
];

const SIGNATURES: &[CK_MECHANISM_TYPE] = &[
    CKM_SHA256_HMAC,
    CKM_SHA256_HMAC_GENERAL,
    CKM_AES_CMAC,
    CKM_AES_CMAC_GENERAL,
    CKM_DES3_CMAC,
    CKM_AES_GMAC,
    CKM_ECDSA,
    CKM_ECDSA_SHA256,
    CKM_EDDSA,
    CKM_ML_DSA,
    CKM_RSA_PKCS,
    CKM_RSA_X_509,
    CKM_SHA256_RSA_PKCS,
    CKM_RSA_PKCS_PSS,
    CKM_SHA256_RSA_PKCS_PSS,
];

impl Wish {
    pub(crate) fn mechanisms(self) -> &'static [CK_MECHANISM_TYPE] {
        match self {
            Wish::Cipher => CIPHERS,
            Wish::Digest => &[CKM_SHA256, CKM_MD5, CKM_SHA_1, CKM_SHA384, CKM_SHA3_256],
            Wish::Sign => SIGNATURES,
            Wish::Message => &[CKM_AES_GCM, CKM_AES_CCM, CKM_CHACHA20_POLY1305],
            Wish::Generate => &[
                CKM_AES_KEY_GEN,
                CKM_GENERIC_SECRET_KEY_GEN,
                CKM_DES3_KEY_GEN,
                CKM_DES2_KEY_GEN,
                CKM_CHACHA20_KEY_GEN,
                CKM_HKDF_KEY_GEN,
            ],
            Wish::Pair => &[
                CKM_EC_KEY_PAIR_GEN,
                CKM_EC_EDWARDS_KEY_PAIR_GEN,
                CKM_EC_MONTGOMERY_KEY_PAIR_GEN,
                CKM_ML_KEM_KEY_PAIR_GEN,
                CKM_ML_DSA_KEY_PAIR_GEN,
            ],
            Wish::Wrap => &[
                CKM_AES_KEY_WRAP,
                CKM_AES_KEY_WRAP_KWP,
                CKM_AES_CBC_PAD,
                CKM_AES_GCM,
                CKM_AES_ECB,
                CKM_RSA_PKCS,
                CKM_RSA_PKCS_OAEP,
            ],
            Wish::Derive => &[
                CKM_HKDF_DERIVE,
                CKM_ECDH1_DERIVE,
                CKM_CONCATENATE_BASE_AND_DATA,
                CKM_XOR_BASE_AND_DATA,
                CKM_EXTRACT_KEY_FROM_KEY,
                CKM_DH_PKCS_DERIVE,
                CKM_CONCATENATE_DATA_AND_BASE,
            ],
            Wish::Encapsulate => &[CKM_ML_KEM],
        }
    }
}

/// Where the key of a mechanism stands among those of all kinds, and whether it is a pair.
pub(crate) fn key_of(kind: CK_MECHANISM_TYPE) -> (usize, bool) {
    match kind {
        CKM_SHA256_HMAC
        | CKM_SHA256_HMAC_GENERAL
        | CKM_CONCATENATE_BASE_AND_DATA
        | CKM_CONCATENATE_DATA_AND_BASE
        | CKM_XOR_BASE_AND_DATA
        | CKM_EXTRACT_KEY_FROM_KEY => (2, false),
        CKM_DES3_CBC_PAD | CKM_DES3_CMAC => (3, false),
        CKM_CHACHA20 | CKM_CHACHA20_POLY1305 => (4, false),
        CKM_HKDF_DERIVE => (5, false),
        CKM_ECDSA | CKM_ECDSA_SHA256 => (6, true),
        CKM_EDDSA => (8, true),
        CKM_ECDH1_DERIVE => (10, true),
        CKM_RSA_PKCS
        | CKM_RSA_X_509
        | CKM_RSA_PKCS_OAEP
        | CKM_SHA256_RSA_PKCS
        | CKM_RSA_PKCS_PSS
        | CKM_SHA256_RSA_PKCS_PSS => (12, true),
        CKM_ML_KEM => (14, true),
        CKM_ML_DSA => (16, true),
        _ => (0, false),
    }
}

/// A mechanism, and the memory that its parameter is made of.
pub(crate) struct Given {
    raw: CK_MECHANISM,
    is_null: bool,
    structure: Box<[u64; 12]>,
    parts: Vec<Vec<u8>>,
}

impl Given {
    /// A pointer to it; seldom a null pointer.
    pub(crate) fn at(&mut self) -> *mut CK_MECHANISM {
        if self.is_null { null_mut() } else { &mut self.raw }
    }

    pub(crate) fn kind(&self) -> CK_MECHANISM_TYPE {
        self.raw.mechanism
    }

    pub(crate) fn is_null(&self) -> bool {
        self.is_null
    }

    /// The parameter alone, as functions of messages take it.
    pub(crate) fn parameter(&self) -> (*mut c_void, CK_ULONG) {
        (self.raw.pParameter, self.raw.ulParameterLen)
    }

    fn part(&mut self, source: &mut impl Source, len: usize) -> (*mut u8, CK_ULONG) {
        self.parts.push(source.bytes(len));
        match self.parts.last_mut() {
            Some(part) => source.place(part),
            None => (null_mut(), 0),
        }
    }

    fn structure<T>(&mut self, value: T) {
        assert!(size_of::<T>() <= size_of_val(&*self.structure) && align_of::<T>() <= align_of::<u64>());
        let at = self.structure.as_mut_ptr().cast::<T>();
        // SAFETY: there is room for it, as was just asserted.
        unsafe { at.write(value) };
        (self.raw.pParameter, self.raw.ulParameterLen) = (at.cast(), size_of::<T>() as CK_ULONG);
    }

    fn iv(&mut self, source: &mut impl Source, len: usize) {
        let (at, len) = self.part(source, len);
        (self.raw.pParameter, self.raw.ulParameterLen) = (at.cast(), len);
    }
}

/// A mechanism with the parameter that it has, or another; `key` is for parameters that name one.
pub(crate) fn mechanism(source: &mut impl Source, kind: CK_MECHANISM_TYPE, key: CK_OBJECT_HANDLE) -> Given {
    let raw = CK_MECHANISM { mechanism: kind, pParameter: null_mut(), ulParameterLen: 0 };
    let mut given = Given { raw, is_null: source.one_in(32), structure: Box::default(), parts: Vec::new() };
    match source.below(32) {
        31 => {}
        // As long as no structure with pointers.
        30 => {
            let len = source.pick(&[1, 7, 8, 11, 13, 33]);
            given.iv(source, len);
        }
        29 => {
            right_parameter(source, &mut given, key);
            given.raw.ulParameterLen = given.raw.ulParameterLen.saturating_sub(1);
        }
        28 => {
            right_parameter(source, &mut given, key);
            given.raw.pParameter = null_mut();
        }
        _ => right_parameter(source, &mut given, key),
    }
    given
}

fn right_parameter(source: &mut impl Source, given: &mut Given, key: CK_OBJECT_HANDLE) {
    match given.raw.mechanism {
        CKM_AES_CBC | CKM_AES_CBC_PAD | CKM_AES_OFB | CKM_AES_CFB8 | CKM_AES_CFB128 | CKM_AES_CTS => {
            given.iv(source, 16)
        }
        CKM_DES_CBC | CKM_DES_CBC_PAD | CKM_DES3_CBC | CKM_DES3_CBC_PAD => given.iv(source, 8),
        CKM_AES_GMAC => given.iv(source, 12),
        CKM_DH_PKCS_DERIVE => given.iv(source, 128),
        CKM_MD5_HMAC_GENERAL
        | CKM_SHA_1_HMAC_GENERAL
        | CKM_SHA256_HMAC_GENERAL
        | CKM_SHA512_HMAC_GENERAL
        | CKM_AES_CMAC_GENERAL
        | CKM_DES3_CMAC_GENERAL
        | CKM_EXTRACT_KEY_FROM_KEY => {
            let value: CK_ULONG = source.pick(&[8, 1, 0, 16, 32, 64, 65, CK_ULONG::MAX]);
            given.structure(value);
        }
        CKM_AES_CTR => {
            let bits = source.pick(&[128, 32, 64, 1, 0, 129]);
            given.structure(CK_AES_CTR_PARAMS { ulCounterBits: bits, cb: [source.byte(); 16] });
        }
        CKM_AES_GCM | CKM_AES_CCM | CKM_CHACHA20_POLY1305 | CKM_CHACHA20 => aead(source, given),
        CKM_RSA_PKCS_OAEP => {
            let (at, len) = given.part(source, 5);
            let (hash, mgf) = hashes(source);
            given.structure(CK_RSA_PKCS_OAEP_PARAMS {
                hashAlg: hash,
                mgf,
                source: CKZ_DATA_SPECIFIED,
                pSourceData: at.cast(),
                ulSourceDataLen: len,
            });
        }
        CKM_RSA_PKCS_PSS | CKM_SHA1_RSA_PKCS_PSS | CKM_SHA256_RSA_PKCS_PSS | CKM_SHA384_RSA_PKCS_PSS => {
            let (hash, mgf) = hashes(source);
            let salt = source.pick(&[32, 20, 0, 100, 512, CK_ULONG::MAX]);
            given.structure(CK_RSA_PKCS_PSS_PARAMS { hashAlg: hash, mgf, sLen: salt });
        }
        CKM_EDDSA if source.one_in(2) => {
            let (at, len) = given.part(source, 3);
            given.structure(CK_EDDSA_PARAMS { phFlag: source.byte() & 1, ulContextDataLen: len, pContextData: at });
        }
        CKM_ML_DSA if source.one_in(2) => {
            let len = source.pick(&[3, 0, 255, 256]);
            let (at, len) = given.part(source, len);
            let hedge = source.pick(&[CKH_HEDGE_PREFERRED, CKH_HEDGE_REQUIRED, CKH_DETERMINISTIC_REQUIRED]);
            given.structure(CK_SIGN_ADDITIONAL_CONTEXT { hedgeVariant: hedge, pContext: at, ulContextLen: len });
        }
        _ => derivation(source, given, key),
    }
}

fn hashes(source: &mut impl Source) -> (CK_MECHANISM_TYPE, CK_RSA_PKCS_MGF_TYPE) {
    source.pick(&[
        (CKM_SHA256, CKG_MGF1_SHA256),
        (CKM_SHA_1, CKG_MGF1_SHA1),
        (CKM_SHA384, CKG_MGF1_SHA1),
        (CKM_SHA512, CKG_MGF1_SHA512),
        (CKM_AES_ECB, 77),
    ])
}

/// The parameter of an AEAD or a stream cipher.
fn aead(source: &mut impl Source, given: &mut Given) {
    let iv_len = source.pick(&[12, 12, 8, 7, 13, 1, 16, 256, 257]);
    let (iv, iv_len) = given.part(source, iv_len);
    let aad_len = source.pick(&[0, 5, 32, 33]);
    let (aad, aad_len) = given.part(source, aad_len);
    let tag = source.pick(&[16, 12, 4, 8, 13, 0, 17, CK_ULONG::MAX / 8]);
    match given.raw.mechanism {
        CKM_AES_GCM => given.structure(CK_GCM_PARAMS {
            pIv: iv,
            ulIvLen: iv_len,
            ulIvBits: iv_len.wrapping_mul(8),
            pAAD: aad,
            ulAADLen: aad_len,
            ulTagBits: tag.wrapping_mul(8).wrapping_add(CK_ULONG::from(source.one_in(16))),
        }),
        CKM_AES_CCM => given.structure(CK_CCM_PARAMS {
            ulDataLen: source.pick(&[16, 32, 0, 1, CK_ULONG::MAX]),
            pNonce: iv,
            ulNonceLen: iv_len,
            pAAD: aad,
            ulAADLen: aad_len,
            ulMACLen: tag,
        }),
        CKM_CHACHA20 => {
            let (counter, _) = given.part(source, 8);
            let (nonce, _) = given.part(source, 24);
            given.structure(CK_CHACHA20_PARAMS {
                pBlockCounter: counter,
                blockCounterBits: source.pick(&[32, 64]),
                pNonce: nonce,
                ulNonceBits: source.pick(&[96, 64, 192]),
            });
        }
        _ => given.structure(CK_SALSA20_CHACHA20_POLY1305_PARAMS {
            pNonce: iv,
            ulNonceLen: iv_len,
            pAAD: aad,
            ulAADLen: aad_len,
        }),
    }
}

/// The parameter of a derivation; none for everything else.
fn derivation(source: &mut impl Source, given: &mut Given, key: CK_OBJECT_HANDLE) {
    let kind = given.raw.mechanism;
    let len = source.pick(&[32, 0, 65, 1]);
    match kind {
        CKM_CONCATENATE_BASE_AND_DATA | CKM_CONCATENATE_DATA_AND_BASE | CKM_XOR_BASE_AND_DATA => {
            let (at, len) = given.part(source, len);
            given.structure(CK_KEY_DERIVATION_STRING_DATA { pData: at, ulLen: len });
        }
        CKM_ECDH1_DERIVE => {
            let (shared, shared_len) = given.part(source, len);
            let point = source.pick(&[32, 65, 67, 0, 56]);
            let (public, public_len) = given.part(source, point);
            given.structure(CK_ECDH1_DERIVE_PARAMS {
                kdf: source.pick(&[CKD_NULL, CKD_SHA256_KDF, 0x77]),
                ulSharedDataLen: shared_len,
                pSharedData: shared,
                ulPublicDataLen: public_len,
                pPublicData: public,
            });
        }
        CKM_HKDF_DERIVE => {
            let (salt, salt_len) = given.part(source, len);
            let (info, info_len) = given.part(source, 10);
            let hash = hashes(source).0;
            given.structure(CK_HKDF_PARAMS {
                bExtract: source.byte() & 1,
                bExpand: source.byte() & 1,
                prfHashMechanism: hash,
                ulSaltType: source.pick(&[CKF_HKDF_SALT_DATA, CKF_HKDF_SALT_NULL, CKF_HKDF_SALT_KEY, 0, 3]),
                pSalt: salt,
                ulSaltLen: salt_len,
                hSaltKey: key,
                pInfo: info,
                ulInfoLen: info_len,
            });
        }
        _ => {}
    }
}

/// The parameter of one message, in the memory of `given`, whose mechanism says of which.
pub(crate) fn of_message(source: &mut impl Source, given: &mut Given) {
    let iv_len = source.pick(&[12, 12, 12, 8, 13, 0, 16]);
    let (iv, iv_len) = given.part(source, iv_len);
    given.parts.push(buffer(16));
    let tag = given.parts.last_mut().map_or(null_mut(), Vec::as_mut_ptr);
    let fixed = source.pick(&[0, 32, 96, 33, 960]);
    let generator = source.pick(&[CKG_NO_GENERATE, CKG_GENERATE, CKG_GENERATE_COUNTER, CKG_GENERATE_RANDOM, 77]);
    match given.raw.mechanism {
        CKM_AES_CCM => given.structure(CK_CCM_MESSAGE_PARAMS {
            ulDataLen: source.pick(&[16, 32, 0, 1]),
            pNonce: iv,
            ulNonceLen: iv_len,
            ulNonceFixedBits: fixed,
            nonceGenerator: generator,
            pMAC: tag,
            ulMACLen: source.pick(&[16, 8, 4, 0, 15]),
        }),
        CKM_CHACHA20_POLY1305 => {
            given.structure(CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS { pNonce: iv, ulNonceLen: iv_len, pTag: tag });
        }
        _ => given.structure(CK_GCM_MESSAGE_PARAMS {
            pIv: iv,
            ulIvLen: iv_len,
            ulIvFixedBits: fixed,
            ivGenerator: generator,
            pTag: tag,
            ulTagBits: source.pick(&[128, 96, 127, 0]),
        }),
    }
}

/// Whether the memory behind a message's tag is as it was.
pub(crate) fn is_tag_intact(given: &Given) -> bool {
    given.parts.last().is_none_or(|memory| is_intact(memory, 16))
}

/// A template, and the values that it points to.
pub(crate) struct Attributes {
    raw: Vec<CK_ATTRIBUTE>,
    _values: Vec<Vec<u8>>,
}

impl Attributes {
    /// A pointer to it, and its length; seldom a null pointer, or a length that no template has.
    pub(crate) fn place(&mut self, source: &mut impl Source) -> (*mut CK_ATTRIBUTE, CK_ULONG) {
        let len = self.raw.len() as CK_ULONG;
        match source.below(64) {
            63 => (null_mut(), len),
            62 => (self.raw.as_mut_ptr(), CK_ULONG::MAX),
            _ => (self.raw.as_mut_ptr(), len),
        }
    }
}

/// DER of P-256, Ed25519, X25519, brainpoolP256r1, and of none.
pub(crate) const CURVES: [&[u8]; 5] = [
    &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7],
    &[6, 3, 0x2b, 0x65, 0x70],
    &[6, 3, 0x2b, 0x65, 0x6e],
    &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 7],
    &[6, 200, 1],
];

/// What templates begin with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    Nothing,
    /// A copy, which may be changed and destroyed whatever it is a copy of, so that a token does not fill up.
    Copy,
    /// A key, or another object, of bytes.
    Object,
    /// A secret key of a mechanism, by its length.
    Secret,
    /// The public key of a pair.
    Public,
}

/// A template: a base, and then attributes that may be repeated, contradict each other, or be unknown.
pub(crate) fn template(source: &mut impl Source, base: Base) -> Attributes {
    let mut values: Vec<(CK_ATTRIBUTE_TYPE, Vec<u8>)> = Vec::new();
    let number = |value: CK_ULONG| value.to_ne_bytes().to_vec();
    match base {
        Base::Nothing => {}
        Base::Copy => values.extend([(CKA_MODIFIABLE, vec![1]), (CKA_DESTROYABLE, vec![1])]),
        Base::Object => {
            let class = source.pick(&[CKO_SECRET_KEY, CKO_DATA, CKO_PUBLIC_KEY, CKO_PRIVATE_KEY, CKO_CERTIFICATE, 9]);
            let kind = source.pick(&[
                CKK_AES,
                CKK_GENERIC_SECRET,
                CKK_EC,
                CKK_DES3,
                CKK_RSA,
                CKK_EC_EDWARDS,
                CKK_CHACHA20,
                0x99,
            ]);
            let value = source.some_bytes();
            values.extend([(CKA_CLASS, number(class)), (CKA_VALUE, value)]);
            if class != CKO_DATA {
                values.push((CKA_KEY_TYPE, number(kind)));
            }
        }
        Base::Secret => {
            let len = source.pick(&[32, 16, 24, 0, 1, 33, 4096, CK_ULONG::MAX]);
            let kind = source.pick(&[CKK_AES, CKK_GENERIC_SECRET, CKK_HKDF, CKK_DES3]);
            values.extend([
                (CKA_CLASS, number(CKO_SECRET_KEY)),
                (CKA_KEY_TYPE, number(kind)),
                (CKA_VALUE_LEN, number(len)),
            ]);
        }
        Base::Public => {
            values.push((CKA_EC_PARAMS, source.pick(&CURVES).to_vec()));
            if source.one_in(2) {
                values = vec![(CKA_PARAMETER_SET, number(source.pick(&[1, 2, 3, 0, 4])))];
            }
        }
    }
    for _ in 0..source.below(5) {
        let attribute = another(source);
        values.push(attribute);
    }
    let mut raw = Vec::with_capacity(values.len());
    let mut kept = Vec::with_capacity(values.len());
    for (kind, mut value) in values {
        let (at, len) = source.place(&mut value);
        raw.push(CK_ATTRIBUTE { type_: kind, pValue: at.cast(), ulValueLen: len });
        kept.push(value);
    }
    Attributes { raw, _values: kept }
}

fn another(source: &mut impl Source) -> (CK_ATTRIBUTE_TYPE, Vec<u8>) {
    const FLAGS: [CK_ATTRIBUTE_TYPE; 19] = [
        CKA_EXTRACTABLE,
        CKA_SENSITIVE,
        CKA_TOKEN,
        CKA_PRIVATE,
        CKA_ENCRYPT,
        CKA_DECRYPT,
        CKA_SIGN,
        CKA_VERIFY,
        CKA_WRAP,
        CKA_UNWRAP,
        CKA_DERIVE,
        CKA_COPYABLE,
        CKA_DESTROYABLE,
        CKA_TRUSTED,
        CKA_WRAP_WITH_TRUSTED,
        CKA_ALWAYS_AUTHENTICATE,
        CKA_LOCAL,
        CKA_NEVER_EXTRACTABLE,
        CKA_ENCAPSULATE,
    ];
    match source.below(8) {
        0..=3 => (source.pick(&FLAGS), vec![source.pick(&[1, 0, 1, 0, 1, 0, 2])]),
        4 => {
            let number = source.pick(&[0, 1, 3, 16, 0x1f, CK_ULONG::MAX]);
            (source.pick(&[CKA_KEY_TYPE, CKA_CLASS, CKA_VALUE_LEN, CKA_MODULUS_BITS]), number.to_ne_bytes().to_vec())
        }
        5 => (source.pick(&[CKA_EC_PARAMS, CKA_EC_POINT, CKA_VALUE]), source.pick(&CURVES).to_vec()),
        6 => {
            let kinds =
                [CKA_LABEL, CKA_ID, CKA_VALUE, CKA_START_DATE, CKA_SUBJECT, CKA_ALLOWED_MECHANISMS, CKA_MODULUS];
            (source.pick(&kinds), source.some_bytes())
        }
        _ => (source.wild(), source.some_bytes()),
    }
}
