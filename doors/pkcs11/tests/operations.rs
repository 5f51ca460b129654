//! Operations by published vectors, and in parts as in one call.
#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]

mod common;

use std::ptr::null_mut;

use common::{Module, Template, len, mechanism, pin};
use cryptoki_sys::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// A secret key of these bytes, which may do everything and be read.
fn secret(module: &Module, session: CK_SESSION_HANDLE, kind: CK_KEY_TYPE, value: &[u8]) -> CK_OBJECT_HANDLE {
    let mut template = Template::new();
    template.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, kind).bytes(CKA_VALUE, value);
    template.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true).flag(CKA_DERIVE, true);
    let (at, count) = template.parts();
    let mut key = 0;
    assert_eq!(call!(module, C_CreateObject, session, at, count, &mut key), CKR_OK);
    key
}

/// Where the bytes of a structure lie.
fn bytes_of<T>(value: &mut T) -> &mut [u8] {
    // SAFETY: the structure's own bytes.
    unsafe { std::slice::from_raw_parts_mut(std::ptr::from_mut(value).cast(), size_of::<T>()) }
}

fn gcm(iv: &[u8], aad: &[u8]) -> CK_GCM_PARAMS {
    CK_GCM_PARAMS {
        pIv: pin(iv),
        ulIvLen: len(iv),
        ulIvBits: 8 * len(iv),
        pAAD: pin(aad),
        ulAADLen: len(aad),
        ulTagBits: 128,
    }
}

/// Encrypts or decrypts, in one call and in parts of so many bytes, which must agree.
fn cipher(
    module: &Module,
    session: CK_SESSION_HANDLE,
    mechanism: &mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    input: &[u8],
    encrypts: bool,
) -> Result<Vec<u8>, CK_RV> {
    let init = |mechanism: &mut CK_MECHANISM| match encrypts {
        true => call!(module, C_EncryptInit, session, mechanism, key),
        false => call!(module, C_DecryptInit, session, mechanism, key),
    };
    assert_eq!(init(mechanism), CKR_OK);
    let (mut whole, mut written) = (vec![0; input.len() + 64], len(input) + 64);
    let rv = match encrypts {
        true => call!(module, C_Encrypt, session, pin(input), len(input), whole.as_mut_ptr(), &mut written),
        false => call!(module, C_Decrypt, session, pin(input), len(input), whole.as_mut_ptr(), &mut written),
    };
    whole.truncate(written as usize);
    for step in [1, 7, 16, 50] {
        assert_eq!(init(mechanism), CKR_OK);
        let mut parts = Vec::new();
        let mut last = CKR_OK;
        for part in input.chunks(step) {
            let (mut out, mut room) = ([0; 256], 256);
            last = match encrypts {
                true => call!(module, C_EncryptUpdate, session, pin(part), len(part), out.as_mut_ptr(), &mut room),
                false => call!(module, C_DecryptUpdate, session, pin(part), len(part), out.as_mut_ptr(), &mut room),
            };
            assert_eq!(last, CKR_OK);
            parts.extend_from_slice(&out[..room as usize]);
        }
        assert_eq!(last, CKR_OK);
        // First with too little room, which must change nothing.
        let (mut out, mut room) = ([0; 256], 0);
        let end = |at: *mut u8, room: &mut CK_ULONG| match encrypts {
            true => call!(module, C_EncryptFinal, session, at, room),
            false => call!(module, C_DecryptFinal, session, at, room),
        };
        let mut ended = end(out.as_mut_ptr(), &mut room);
        if ended == CKR_BUFFER_TOO_SMALL {
            room = 256;
            ended = end(out.as_mut_ptr(), &mut room);
        }
        assert_eq!(ended, rv, "parts of {step}");
        if rv == CKR_OK {
            parts.extend_from_slice(&out[..room as usize]);
            assert_eq!(parts, whole, "parts of {step}");
        }
    }
    if rv == CKR_OK { Ok(whole) } else { Err(rv) }
}

/// A signature or MAC, in one call and in parts.
fn sign(
    module: &Module,
    session: CK_SESSION_HANDLE,
    mechanism: &mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    data: &[u8],
) -> Vec<u8> {
    assert_eq!(call!(module, C_SignInit, session, mechanism, key), CKR_OK);
    let mut room = 0;
    assert_eq!(call!(module, C_Sign, session, pin(data), len(data), null_mut(), &mut room), CKR_OK);
    let mut signature = vec![0; room as usize];
    assert_eq!(call!(module, C_Sign, session, pin(data), len(data), signature.as_mut_ptr(), &mut room), CKR_OK);
    signature.truncate(room as usize);
    signature
}

fn sign_in_parts(
    module: &Module,
    session: CK_SESSION_HANDLE,
    mechanism: &mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    data: &[u8],
) -> Vec<u8> {
    assert_eq!(call!(module, C_SignInit, session, mechanism, key), CKR_OK);
    for part in data.chunks(5) {
        assert_eq!(call!(module, C_SignUpdate, session, pin(part), len(part)), CKR_OK);
    }
    let (mut signature, mut room) = (vec![0; 8192], 8192);
    assert_eq!(call!(module, C_SignFinal, session, signature.as_mut_ptr(), &mut room), CKR_OK);
    signature.truncate(room as usize);
    signature
}

fn verify(
    module: &Module,
    session: CK_SESSION_HANDLE,
    mechanism: &mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    data: &[u8],
    signature: &[u8],
) -> CK_RV {
    assert_eq!(call!(module, C_VerifyInit, session, mechanism, key), CKR_OK);
    let whole = call!(module, C_Verify, session, pin(data), len(data), pin(signature), len(signature));
    let given = call!(module, C_VerifySignatureInit, session, mechanism, key, pin(signature), len(signature));
    assert_eq!(given, CKR_OK);
    assert_eq!(call!(module, C_VerifySignature, session, pin(data), len(data)), whole);
    whole
}

#[test]
fn ciphers_are_those_of_their_standards() {
    let module = Module::with_token();
    let session = module.user();
    let key = secret(&module, session, CKK_AES, &hex("2b7e151628aed2a6abf7158809cf4f3c"));
    let text = hex("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51");
    // SP 800-38A, F.1.1, F.2.1, F.5.1.
    let mut iv = hex("000102030405060708090a0b0c0d0e0f");
    let mut counter = CK_AES_CTR_PARAMS { ulCounterBits: 128, cb: [0; 16] };
    counter.cb.copy_from_slice(&hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
    let cases = [
        (mechanism(CKM_AES_ECB, &mut []), "3ad77bb40d7a3660a89ecaf32466ef97 f5d3d58503b9699de785895a96fdbaaf"),
        (mechanism(CKM_AES_CBC, &mut iv), "7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2"),
        (
            mechanism(CKM_AES_CTR, bytes_of(&mut counter)),
            "874d6191b620e3261bef6864990db6ce 9806f66b7970fdff8617187bb9fffdff",
        ),
    ];
    for (mut mechanism, expected) in cases {
        let encrypted = cipher(&module, session, &mut mechanism, key, &text, true).expect("encrypted");
        assert_eq!(encrypted, hex(expected), "{:#x}", mechanism.mechanism);
        assert_eq!(cipher(&module, session, &mut mechanism, key, &encrypted, false), Ok(text.clone()));
    }
    // GCM: test case 4 of McGrew and Viega's specification.
    let key = secret(&module, session, CKK_AES, &hex("feffe9928665731c6d6a8f9467308308"));
    let text = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
    let expected = hex("42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091 5bc94fbc3221a5db94fae95ae7121a47");
    let (iv, aad) = (hex("cafebabefacedbaddecaf888"), hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"));
    let mut parameters = gcm(&iv, &aad);
    let mut gcm = mechanism(CKM_AES_GCM, bytes_of(&mut parameters));
    assert_eq!(cipher(&module, session, &mut gcm, key, &text, true), Ok(expected.clone()));
    assert_eq!(cipher(&module, session, &mut gcm, key, &expected, false), Ok(text));
    let mut wrong = expected;
    wrong[70] ^= 1;
    assert_eq!(cipher(&module, session, &mut gcm, key, &wrong, false), Err(CKR_ENCRYPTED_DATA_INVALID));
}

#[test]
fn padding_goes_both_ways_at_every_length() {
    let module = Module::with_token();
    let session = module.user();
    let key = module.aes(session);
    for length in 0..50 {
        let text: Vec<u8> = (0..length).collect();
        let mut iv = [9; 16];
        let mut padded = mechanism(CKM_AES_CBC_PAD, &mut iv);
        let encrypted = cipher(&module, session, &mut padded, key, &text, true).expect("encrypted");
        assert_eq!(encrypted.len(), text.len() / 16 * 16 + 16);
        assert_eq!(cipher(&module, session, &mut padded, key, &encrypted, false), Ok(text));
    }
}

#[test]
fn macs_and_derivations_are_those_of_their_standards() {
    let module = Module::with_token();
    let session = module.user();
    // RFC 4231, 4.3.
    let key = secret(&module, session, CKK_GENERIC_SECRET, b"Jefe");
    let mut hmac = mechanism(CKM_SHA256_HMAC, &mut []);
    let data = b"what do ya want for nothing?";
    let expected = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_eq!(sign(&module, session, &mut hmac, key, data), expected);
    assert_eq!(sign_in_parts(&module, session, &mut hmac, key, data), expected);
    assert_eq!(verify(&module, session, &mut hmac, key, data, &expected), CKR_OK);
    assert_eq!(verify(&module, session, &mut hmac, key, b"else", &expected), CKR_SIGNATURE_INVALID);
    assert_eq!(verify(&module, session, &mut hmac, key, data, &expected[..31]), CKR_SIGNATURE_LEN_RANGE);
    // RFC 4493, example 2.
    let key = secret(&module, session, CKK_AES, &hex("2b7e151628aed2a6abf7158809cf4f3c"));
    let mut cmac = mechanism(CKM_AES_CMAC, &mut []);
    let data = hex("6bc1bee22e409f96e93d7e117393172a");
    assert_eq!(sign(&module, session, &mut cmac, key, &data), hex("070a16b46b4d4144f79bdd9dd04a287c"));
    // RFC 5869, A.1.
    let base = secret(&module, session, CKK_GENERIC_SECRET, &[0x0b; 22]);
    let (salt, info) = (hex("000102030405060708090a0b0c"), hex("f0f1f2f3f4f5f6f7f8f9"));
    let mut parameters = CK_HKDF_PARAMS {
        bExtract: CK_TRUE,
        bExpand: CK_TRUE,
        prfHashMechanism: CKM_SHA256,
        ulSaltType: CKF_HKDF_SALT_DATA,
        pSalt: pin(&salt),
        ulSaltLen: len(&salt),
        hSaltKey: 0,
        pInfo: pin(&info),
        ulInfoLen: len(&info),
    };
    let mut hkdf = mechanism(CKM_HKDF_DERIVE, bytes_of(&mut parameters));
    let mut template = Template::new();
    template.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, CKK_GENERIC_SECRET).number(CKA_VALUE_LEN, 42);
    template.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true);
    let (at, count) = template.parts();
    let mut derived = 0;
    assert_eq!(call!(module, C_DeriveKey, session, &mut hkdf, base, at, count, &mut derived), CKR_OK);
    let expected = hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    assert_eq!(module.value(session, derived, CKA_VALUE), Ok(expected));
}

#[test]
fn signatures_verify_and_changed_ones_do_not() {
    let module = Module::with_token();
    let session = module.user();
    let (ec_public, ec_private) = module.p256(session);
    let (mut public, mut private) = (Template::new(), Template::new());
    public.number(CKA_MODULUS_BITS, 2048);
    let (rsa_public, rsa_private) = module.pair(session, CKM_RSA_PKCS_KEY_PAIR_GEN, &mut public, &mut private);
    let mut public = Template::new();
    public.bytes(CKA_EC_PARAMS, &hex("06032b6570"));
    let (ed_public, ed_private) = module.pair(session, CKM_EC_EDWARDS_KEY_PAIR_GEN, &mut public, &mut Template::new());
    let mut public = Template::new();
    public.number(CKA_PARAMETER_SET, CKP_ML_DSA_44);
    let (ml_public, ml_private) = module.pair(session, CKM_ML_DSA_KEY_PAIR_GEN, &mut public, &mut Template::new());
    let mut pss = CK_RSA_PKCS_PSS_PARAMS { hashAlg: CKM_SHA384, mgf: CKG_MGF1_SHA256, sLen: 11 };
    let cases = [
        (mechanism(CKM_ECDSA, &mut []), ec_private, ec_public),
        (mechanism(CKM_ECDSA_SHA384, &mut []), ec_private, ec_public),
        (mechanism(CKM_RSA_PKCS, &mut []), rsa_private, rsa_public),
        (mechanism(CKM_SHA256_RSA_PKCS, &mut []), rsa_private, rsa_public),
        (mechanism(CKM_SHA384_RSA_PKCS_PSS, bytes_of(&mut pss)), rsa_private, rsa_public),
        (mechanism(CKM_EDDSA, &mut []), ed_private, ed_public),
        (mechanism(CKM_ML_DSA, &mut []), ml_private, ml_public),
    ];
    for (mut mechanism, private, public) in cases {
        let kind = mechanism.mechanism;
        let data = b"a message, or a digest of 32 bytes";
        let mut signature = sign(&module, session, &mut mechanism, private, data);
        assert_eq!(verify(&module, session, &mut mechanism, public, data, &signature), CKR_OK, "{kind:#x}");
        let of_parts = sign_in_parts(&module, session, &mut mechanism, private, data);
        assert_eq!(verify(&module, session, &mut mechanism, public, data, &of_parts), CKR_OK, "{kind:#x}");
        signature[40] ^= 1;
        assert_eq!(
            verify(&module, session, &mut mechanism, public, data, &signature),
            CKR_SIGNATURE_INVALID,
            "{kind:#x}"
        );
    }
}

#[test]
fn rsa_decrypts_what_it_encrypted_with_any_label() {
    let module = Module::with_token();
    let session = module.user();
    let (mut public, mut private) = (Template::new(), Template::new());
    public.number(CKA_MODULUS_BITS, 2048);
    let (public, private) = module.pair(session, CKM_RSA_PKCS_KEY_PAIR_GEN, &mut public, &mut private);
    for (hash, mgf, label) in [
        (CKM_SHA_1, CKG_MGF1_SHA1, &b""[..]),
        (CKM_SHA256, CKG_MGF1_SHA256, b"label"),
        (CKM_SHA512, CKG_MGF1_SHA384, b""),
    ] {
        let mut parameters = CK_RSA_PKCS_OAEP_PARAMS {
            hashAlg: hash,
            mgf,
            source: CKZ_DATA_SPECIFIED,
            pSourceData: pin(label).cast(),
            ulSourceDataLen: len(label),
        };
        let mut oaep = mechanism(CKM_RSA_PKCS_OAEP, bytes_of(&mut parameters));
        let encrypted = cipher_once(&module, session, &mut oaep, public, b"short", true).expect("encrypted");
        assert_eq!(cipher_once(&module, session, &mut oaep, private, &encrypted, false), Ok(b"short".to_vec()));
        let mut wrong = encrypted;
        wrong[9] ^= 1;
        assert_eq!(cipher_once(&module, session, &mut oaep, private, &wrong, false), Err(CKR_ENCRYPTED_DATA_INVALID));
    }
}

/// Encrypts or decrypts in one call: what is random differs from call to call.
fn cipher_once(
    module: &Module,
    session: CK_SESSION_HANDLE,
    mechanism: &mut CK_MECHANISM,
    key: CK_OBJECT_HANDLE,
    input: &[u8],
    encrypts: bool,
) -> Result<Vec<u8>, CK_RV> {
    let (mut out, mut room) = (vec![0; 1024], 1024);
    let rv = match encrypts {
        true => {
            assert_eq!(call!(module, C_EncryptInit, session, mechanism, key), CKR_OK);
            call!(module, C_Encrypt, session, pin(input), len(input), out.as_mut_ptr(), &mut room)
        }
        false => {
            assert_eq!(call!(module, C_DecryptInit, session, mechanism, key), CKR_OK);
            call!(module, C_Decrypt, session, pin(input), len(input), out.as_mut_ptr(), &mut room)
        }
    };
    out.truncate(room as usize);
    if rv == CKR_OK { Ok(out) } else { Err(rv) }
}

#[test]
fn keys_are_wrapped_unwrapped_and_agreed_upon() {
    let module = Module::with_token();
    let session = module.user();
    let wrapping = module.aes(session);
    let key = secret(&module, session, CKK_AES, &[5; 16]);
    let mut wrap = mechanism(CKM_AES_KEY_WRAP, &mut []);
    let (mut wrapped, mut room) = ([0; 64], 64);
    assert_eq!(call!(module, C_WrapKey, session, &mut wrap, wrapping, key, wrapped.as_mut_ptr(), &mut room), CKR_OK);
    assert_eq!(room, 24);
    let mut template = Template::new();
    template.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, CKK_AES);
    template.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true);
    let (at, count) = template.parts();
    let mut unwrapped = 0;
    let rv =
        call!(module, C_UnwrapKey, session, &mut wrap, wrapping, wrapped.as_mut_ptr(), room, at, count, &mut unwrapped);
    assert_eq!(rv, CKR_OK);
    assert_eq!(module.value(session, unwrapped, CKA_VALUE), Ok(vec![5; 16]));
    wrapped[3] ^= 1;
    let rv =
        call!(module, C_UnwrapKey, session, &mut wrap, wrapping, wrapped.as_mut_ptr(), room, at, count, &mut unwrapped);
    assert_eq!(rv, CKR_WRAPPED_KEY_INVALID);
    // Sensitive keys keep their bytes.
    let (public, private) = module.p256(session);
    assert_eq!(module.value(session, private, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    let rv = call!(module, C_WrapKey, session, &mut wrap, wrapping, private, wrapped.as_mut_ptr(), &mut room);
    assert_eq!(rv, CKR_KEY_UNEXTRACTABLE);
    // Both sides of an agreement have the same.
    let (other_public, other_private) = module.p256(session);
    let secrets = [(private, other_public), (other_private, public)].map(|(private, public)| {
        let point = module.value(session, public, CKA_EC_POINT).expect("a point");
        let mut parameters = CK_ECDH1_DERIVE_PARAMS {
            kdf: CKD_NULL,
            ulSharedDataLen: 0,
            pSharedData: null_mut(),
            ulPublicDataLen: len(&point),
            pPublicData: pin(&point),
        };
        let mut ecdh = mechanism(CKM_ECDH1_DERIVE, bytes_of(&mut parameters));
        let mut template = Template::new();
        template.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, CKK_GENERIC_SECRET).number(CKA_VALUE_LEN, 32);
        template.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true);
        let (at, count) = template.parts();
        let mut derived = 0;
        assert_eq!(call!(module, C_DeriveKey, session, &mut ecdh, private, at, count, &mut derived), CKR_OK);
        module.value(session, derived, CKA_VALUE).expect("a secret")
    });
    assert_eq!(secrets[0], secrets[1]);
    assert_eq!(secrets[0].len(), 32);
}

#[test]
fn token_objects_outlive_the_library_and_session_objects_their_session() {
    let module = Module::with_token();
    let session = module.user();
    let mut template = Template::new();
    template.number(CKA_VALUE_LEN, 16).flag(CKA_TOKEN, true).bytes(CKA_LABEL, b"kept");
    let (at, count) = template.parts();
    let mut key = 0;
    let mut generate = mechanism(CKM_AES_KEY_GEN, &mut []);
    assert_eq!(call!(module, C_GenerateKey, session, &mut generate, at, count, &mut key), CKR_OK);
    module.aes(session);
    let mut keys = Template::new();
    keys.number(CKA_CLASS, CKO_SECRET_KEY);
    assert_eq!(module.find(session, &mut keys).len(), 2);
    let mut ecb = mechanism(CKM_AES_ECB, &mut []);
    let before = cipher(&module, session, &mut ecb, key, &[1; 16], true);
    assert_eq!(call!(module, C_Finalize, null_mut()), CKR_OK);
    assert_eq!(call!(module, C_Initialize, null_mut()), CKR_OK);
    let session = module.session(true);
    assert_eq!(module.find(session, &mut keys).len(), 0);
    let login = call!(module, C_Login, session, CKU_USER, pin(common::PIN), len(common::PIN));
    assert_eq!(login, CKR_OK);
    let found = module.find(session, &mut keys);
    assert_eq!(found.len(), 1);
    assert_eq!(module.value(session, found[0], CKA_LABEL), Ok(b"kept".to_vec()));
    assert_eq!(cipher(&module, session, &mut ecb, found[0], &[1; 16], true), before);
    assert_eq!(call!(module, C_DestroyObject, session, found[0]), CKR_OK);
    assert_eq!(module.find(session, &mut keys).len(), 0);
}

/// Derives a key that is to be read.
fn derive_readable(
    module: &Module,
    session: CK_SESSION_HANDLE,
    mechanism: &mut CK_MECHANISM,
    base: CK_OBJECT_HANDLE,
) -> Result<Vec<u8>, CK_RV> {
    let mut template = Template::new();
    template.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, CKK_GENERIC_SECRET);
    template.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true);
    let (at, count) = template.parts();
    let mut derived = 0;
    match call!(module, C_DeriveKey, session, mechanism, base, at, count, &mut derived) {
        CKR_OK => module.value(session, derived, CKA_VALUE),
        rv => Err(rv),
    }
}

#[test]
fn nothing_that_is_derived_or_copied_gives_a_sensitive_key_away() {
    let module = Module::with_token();
    let session = module.user();
    let open = secret(&module, session, CKK_GENERIC_SECRET, &[5; 16]);
    let mut hidden = Template::new();
    hidden.number(CKA_CLASS, CKO_SECRET_KEY).number(CKA_KEY_TYPE, CKK_GENERIC_SECRET).bytes(CKA_VALUE, &[6; 16]);
    hidden.flag(CKA_DERIVE, true);
    let (at, count) = hidden.parts();
    let mut key = 0;
    assert_eq!(call!(module, C_CreateObject, session, at, count, &mut key), CKR_OK);
    assert_eq!(module.value(session, key, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    // With zeros the derived key would be the key itself.
    let zeros = [0; 16];
    let mut data = CK_KEY_DERIVATION_STRING_DATA { pData: pin(&zeros), ulLen: 16 };
    let mut xor = mechanism(CKM_XOR_BASE_AND_DATA, bytes_of(&mut data));
    assert_eq!(derive_readable(&module, session, &mut xor, open), Ok(vec![5; 16]));
    assert_eq!(derive_readable(&module, session, &mut xor, key), Err(CKR_TEMPLATE_INCONSISTENT));
    let mut data = CK_KEY_DERIVATION_STRING_DATA { pData: pin(&zeros), ulLen: 1 };
    let mut join = mechanism(CKM_CONCATENATE_BASE_AND_DATA, bytes_of(&mut data));
    assert_eq!(derive_readable(&module, session, &mut join, key), Err(CKR_TEMPLATE_INCONSISTENT));
    // Without a word of it the derived key is as sensitive.
    let (at, count) = (null_mut(), 0);
    let mut derived = 0;
    assert_eq!(call!(module, C_DeriveKey, session, &mut join, key, at, count, &mut derived), CKR_OK);
    assert_eq!(module.value(session, derived, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    for (kind, value) in [(CKA_SENSITIVE, false), (CKA_EXTRACTABLE, true), (CKA_PRIVATE, false)] {
        let mut change = Template::new();
        change.flag(kind, value);
        let (at, count) = change.parts();
        let mut copy = 0;
        let copied = call!(module, C_CopyObject, session, key, at, count, &mut copy);
        assert_eq!(copied, CKR_ATTRIBUTE_READ_ONLY, "{kind:#x}");
        let changed = call!(module, C_SetAttributeValue, session, key, at, count);
        assert_eq!(changed, CKR_ATTRIBUTE_READ_ONLY, "{kind:#x}");
    }
}

#[test]
fn counters_do_not_run_into_the_nonce() {
    let module = Module::with_token();
    let session = module.user();
    let key = module.aes(session);
    let mut parameters = CK_AES_CTR_PARAMS { ulCounterBits: 32, cb: [0xff; 16] };
    parameters.cb[15] = 0xfe;
    let mut ctr = mechanism(CKM_AES_CTR, bytes_of(&mut parameters));
    // Two blocks are left.
    assert!(cipher_once(&module, session, &mut ctr, key, &[0; 32], true).is_ok());
    assert_eq!(cipher_once(&module, session, &mut ctr, key, &[0; 33], true), Err(CKR_DATA_LEN_RANGE));
    let (mut out, mut room) = ([0; 64], 64);
    assert_eq!(call!(module, C_EncryptInit, session, &mut ctr, key), CKR_OK);
    for (part, expected) in [(20, CKR_OK), (12, CKR_OK), (1, CKR_DATA_LEN_RANGE)] {
        room = 64;
        let rv = call!(module, C_EncryptUpdate, session, pin(&[0; 32]), part, out.as_mut_ptr(), &mut room);
        assert_eq!(rv, expected);
    }
    assert_eq!(call!(module, C_EncryptFinal, session, out.as_mut_ptr(), &mut room), CKR_OPERATION_NOT_INITIALIZED);
    let mut wrong = CK_AES_CTR_PARAMS { ulCounterBits: 129, cb: [0; 16] };
    let mut ctr = mechanism(CKM_AES_CTR, bytes_of(&mut wrong));
    assert_eq!(call!(module, C_EncryptInit, session, &mut ctr, key), CKR_MECHANISM_PARAM_INVALID);
}

#[test]
fn a_digest_goes_on_from_where_it_was_saved() {
    let module = Module::with_token();
    let session = module.session(false);
    let mut sha = mechanism(CKM_SHA256, &mut []);
    let (mut state, mut room) = ([0; 64], 0);
    assert_eq!(call!(module, C_DigestInit, session, &mut sha), CKR_OK);
    assert_eq!(call!(module, C_DigestUpdate, session, pin(b"a"), 1), CKR_OK);
    assert_eq!(call!(module, C_GetOperationState, session, state.as_mut_ptr(), &mut room), CKR_BUFFER_TOO_SMALL);
    assert_eq!(call!(module, C_GetOperationState, session, null_mut(), &mut room), CKR_OK);
    // More states than are kept: the last ones hold.
    for _ in 0..1100 {
        assert_eq!(call!(module, C_GetOperationState, session, state.as_mut_ptr(), &mut room), CKR_OK);
    }
    let mut digests = Vec::new();
    for _ in 0..2 {
        assert_eq!(call!(module, C_SetOperationState, session, state.as_mut_ptr(), room, 0, 0), CKR_OK);
        assert_eq!(call!(module, C_DigestUpdate, session, pin(b"bc"), 2), CKR_OK);
        let (mut digest, mut len) = ([0; 32], 32);
        assert_eq!(call!(module, C_DigestFinal, session, digest.as_mut_ptr(), &mut len), CKR_OK);
        digests.push(digest);
    }
    let expected = hex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!((&digests[0][..], &digests[1][..]), (&expected[..], &expected[..]));
    let invalid = call!(module, C_SetOperationState, session, pin(&[7; 16]), 16, 0, 0);
    assert_eq!(invalid, CKR_SAVED_STATE_INVALID);
}

#[test]
fn messages_have_their_ivs_made_and_their_tags_apart() {
    let module = Module::with_token();
    let session = module.user();
    // The GCM specification's test case 4, as in one call.
    let key = secret(&module, session, CKK_AES, &hex("feffe9928665731c6d6a8f9467308308"));
    let (mut iv, aad) = (hex("cafebabefacedbaddecaf888"), hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"));
    let text = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
    let mut tag = [0; 16];
    let mut parameters = CK_GCM_MESSAGE_PARAMS {
        pIv: iv.as_mut_ptr(),
        ulIvLen: 12,
        ulIvFixedBits: 0,
        ivGenerator: CKG_NO_GENERATE,
        pTag: tag.as_mut_ptr(),
        ulTagBits: 128,
    };
    let at = std::ptr::from_mut(&mut parameters);
    let place = at;
    let size = size_of::<CK_GCM_MESSAGE_PARAMS>() as CK_ULONG;
    let mut gcm = mechanism(CKM_AES_GCM, &mut []);
    let seal = |out: &mut [u8; 64], room: &mut CK_ULONG| {
        let (aad, aad_len, data, data_len) = (pin(&aad), len(&aad), pin(&text), len(&text));
        call!(module, C_EncryptMessage, session, at.cast(), size, aad, aad_len, data, data_len, out.as_mut_ptr(), room)
    };
    let (mut out, mut room) = ([0; 64], 59);
    assert_eq!(call!(module, C_MessageEncryptInit, session, &mut gcm, key), CKR_OK);
    assert_eq!(seal(&mut out, &mut room), CKR_BUFFER_TOO_SMALL);
    assert_eq!((seal(&mut out, &mut room), room), (CKR_OK, 60));
    assert_eq!(out[..4], hex("42831ec2")[..]);
    // SAFETY: the tag, which only the module has written.
    assert_eq!(unsafe { *(*place).pTag.cast::<[u8; 16]>() }[..], hex("5bc94fbc3221a5db94fae95ae7121a47")[..]);
    // Decrypted with the tag that is there, and not with another.
    let (mut back, mut back_len) = ([0; 64], 64);
    assert_eq!(call!(module, C_MessageDecryptInit, session, &mut gcm, key), CKR_OK);
    let open = |back: &mut [u8; 64], back_len: &mut CK_ULONG| {
        let (aad, aad_len) = (pin(&aad), len(&aad));
        let to = back.as_mut_ptr();
        call!(module, C_DecryptMessage, session, at.cast(), size, aad, aad_len, pin(&out), 60, to, back_len)
    };
    assert_eq!(open(&mut back, &mut back_len), CKR_OK);
    assert_eq!(back[..60], text[..]);
    // SAFETY: as above.
    unsafe { *(*place).pTag ^= 1 };
    assert_eq!(open(&mut back, &mut back_len), CKR_ENCRYPTED_DATA_INVALID);
    // Ivs that the module makes are different ones.
    let mut ivs = std::collections::HashSet::new();
    for generator in [CKG_GENERATE_COUNTER, CKG_GENERATE_RANDOM] {
        // SAFETY: as above.
        unsafe { (*place).ivGenerator = generator };
        for _ in 0..10 {
            room = 64;
            assert_eq!(seal(&mut out, &mut room), CKR_OK);
            // SAFETY: as above.
            ivs.insert(unsafe { *(*place).pIv.cast::<[u8; 12]>() });
        }
    }
    assert_eq!(ivs.len(), 20);
    assert_eq!(call!(module, C_MessageEncryptFinal, session), CKR_OK);
    assert_eq!(call!(module, C_MessageEncryptFinal, session), CKR_OPERATION_NOT_INITIALIZED);
}
