//! Operations and what holds between them: parts and whole, keys that are wrapped, derived and copied, and what is refused.
#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]

mod common;

use std::ptr::null_mut;

use common::calls::{Given, ecdh, gcm, hex};
use common::{Module, Template, len, mechanism, pin};
use cryptoki_sys::*;

#[test]
fn ciphers_are_those_of_their_standards() {
    let module = Module::with_token();
    let caller = module.client();
    let key = caller.secret(CKK_AES, &hex("2b7e151628aed2a6abf7158809cf4f3c"));
    let text = hex("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51");
    // SP 800-38A, F.1.1, F.2.1, F.5.1.
    let mut counter = CK_AES_CTR_PARAMS { ulCounterBits: 128, cb: [0; 16] };
    counter.cb.copy_from_slice(&hex("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"));
    let cases = [
        (Given::none(CKM_AES_ECB), "3ad77bb40d7a3660a89ecaf32466ef97 f5d3d58503b9699de785895a96fdbaaf"),
        (
            Given::bytes(CKM_AES_CBC, &hex("000102030405060708090a0b0c0d0e0f")),
            "7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2",
        ),
        (Given::of(CKM_AES_CTR, counter), "874d6191b620e3261bef6864990db6ce 9806f66b7970fdff8617187bb9fffdff"),
    ];
    for (mut given, expected) in cases {
        let encrypted = caller.cipher(&mut given, key, &text, true).expect("encrypted");
        assert_eq!(encrypted, hex(expected), "{:#x}", given.kind());
        assert_eq!(caller.cipher(&mut given, key, &encrypted, false), Ok(text.clone()));
    }
    // GCM: test case 4 of McGrew and Viega's specification.
    let key = caller.secret(CKK_AES, &hex("feffe9928665731c6d6a8f9467308308"));
    let text = hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39");
    let expected = hex("42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e\
         21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091 5bc94fbc3221a5db94fae95ae7121a47");
    let (iv, aad) = (hex("cafebabefacedbaddecaf888"), hex("feedfacedeadbeeffeedfacedeadbeefabaddad2"));
    let mut gcm = Given::of(CKM_AES_GCM, gcm(&iv, &aad, 16));
    assert_eq!(caller.cipher(&mut gcm, key, &text, true), Ok(expected.clone()));
    assert_eq!(caller.cipher(&mut gcm, key, &expected, false), Ok(text));
    let mut wrong = expected;
    wrong[70] ^= 1;
    assert_eq!(caller.cipher(&mut gcm, key, &wrong, false), Err(CKR_ENCRYPTED_DATA_INVALID));
}

#[test]
fn padding_goes_both_ways_at_every_length() {
    let module = Module::with_token();
    let caller = module.client();
    let key = module.aes(caller.session);
    let mut padded = Given::bytes(CKM_AES_CBC_PAD, &[9; 16]);
    for length in 0..50 {
        let text: Vec<u8> = (0..length).collect();
        let encrypted = caller.cipher(&mut padded, key, &text, true).expect("encrypted");
        assert_eq!(encrypted.len(), text.len() / 16 * 16 + 16);
        assert_eq!(caller.cipher(&mut padded, key, &encrypted, false), Ok(text));
    }
}

#[test]
fn macs_and_derivations_are_those_of_their_standards() {
    let module = Module::with_token();
    let caller = module.client();
    // RFC 4231, 4.3.
    let key = caller.secret(CKK_GENERIC_SECRET, b"Jefe");
    let mut hmac = Given::none(CKM_SHA256_HMAC);
    let data = b"what do ya want for nothing?";
    let expected = hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    assert_eq!(caller.sign(&mut hmac, key, data).as_ref(), Ok(&expected));
    assert_eq!(caller.sign_in_parts(&mut hmac, key, data), expected);
    assert_eq!(caller.verify(&mut hmac, key, data, &expected), CKR_OK);
    assert_eq!(caller.verify(&mut hmac, key, b"else", &expected), CKR_SIGNATURE_INVALID);
    assert_eq!(caller.verify(&mut hmac, key, data, &expected[..31]), CKR_SIGNATURE_LEN_RANGE);
    // RFC 4493, example 2.
    let key = caller.secret(CKK_AES, &hex("2b7e151628aed2a6abf7158809cf4f3c"));
    let data = hex("6bc1bee22e409f96e93d7e117393172a");
    let mac = caller.sign(&mut Given::none(CKM_AES_CMAC), key, &data);
    assert_eq!(mac, Ok(hex("070a16b46b4d4144f79bdd9dd04a287c")));
    // RFC 5869, A.1.
    let base = caller.secret(CKK_GENERIC_SECRET, &[0x0b; 22]);
    let (salt, info) = (hex("000102030405060708090a0b0c"), hex("f0f1f2f3f4f5f6f7f8f9"));
    let mut hkdf = Given::of(
        CKM_HKDF_DERIVE,
        CK_HKDF_PARAMS {
            bExtract: CK_TRUE,
            bExpand: CK_TRUE,
            prfHashMechanism: CKM_SHA256,
            ulSaltType: CKF_HKDF_SALT_DATA,
            pSalt: pin(&salt),
            ulSaltLen: len(&salt),
            hSaltKey: 0,
            pInfo: pin(&info),
            ulInfoLen: len(&info),
        },
    );
    let expected = hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
    assert_eq!(caller.derived(&mut hkdf, base, Some(42)), Ok(expected));
}

#[test]
fn signatures_verify_and_changed_ones_do_not() {
    let module = Module::with_token();
    let caller = module.client();
    let pair = |kind, public: &mut Template| module.pair(caller.session, kind, public, &mut Template::new());
    let ec = module.p256(caller.session);
    let rsa = pair(CKM_RSA_PKCS_KEY_PAIR_GEN, Template::new().number(CKA_MODULUS_BITS, 2048));
    let ed = pair(CKM_EC_EDWARDS_KEY_PAIR_GEN, Template::new().bytes(CKA_EC_PARAMS, &hex("06032b6570")));
    let ml = pair(CKM_ML_DSA_KEY_PAIR_GEN, Template::new().number(CKA_PARAMETER_SET, CKP_ML_DSA_44));
    let pss = CK_RSA_PKCS_PSS_PARAMS { hashAlg: CKM_SHA384, mgf: CKG_MGF1_SHA256, sLen: 11 };
    let cases = [
        (Given::none(CKM_ECDSA), ec),
        (Given::none(CKM_ECDSA_SHA384), ec),
        (Given::none(CKM_RSA_PKCS), rsa),
        (Given::none(CKM_SHA256_RSA_PKCS), rsa),
        (Given::of(CKM_SHA384_RSA_PKCS_PSS, pss), rsa),
        (Given::none(CKM_EDDSA), ed),
        (Given::none(CKM_ML_DSA), ml),
    ];
    for (mut given, (public, private)) in cases {
        let kind = given.kind();
        let data = b"a message, or a digest of 32 bytes";
        let mut signature = caller.sign(&mut given, private, data).expect("a signature");
        assert_eq!(caller.verify(&mut given, public, data, &signature), CKR_OK, "{kind:#x}");
        let of_parts = caller.sign_in_parts(&mut given, private, data);
        assert_eq!(caller.verify(&mut given, public, data, &of_parts), CKR_OK, "{kind:#x}");
        signature[40] ^= 1;
        assert_eq!(caller.verify(&mut given, public, data, &signature), CKR_SIGNATURE_INVALID, "{kind:#x}");
    }
}

#[test]
fn rsa_decrypts_what_it_encrypted_with_any_label() {
    let module = Module::with_token();
    let caller = module.client();
    let mut template = Template::new();
    template.number(CKA_MODULUS_BITS, 2048);
    let (public, private) = module.pair(caller.session, CKM_RSA_PKCS_KEY_PAIR_GEN, &mut template, &mut Template::new());
    for (hash, mgf, label) in [
        (CKM_SHA_1, CKG_MGF1_SHA1, &b""[..]),
        (CKM_SHA256, CKG_MGF1_SHA256, b"label"),
        (CKM_SHA512, CKG_MGF1_SHA384, b""),
    ] {
        let parameter = CK_RSA_PKCS_OAEP_PARAMS {
            hashAlg: hash,
            mgf,
            source: CKZ_DATA_SPECIFIED,
            pSourceData: pin(label).cast(),
            ulSourceDataLen: len(label),
        };
        let mut oaep = Given::of(CKM_RSA_PKCS_OAEP, parameter);
        let encrypted = caller.cipher_once(&mut oaep, public, b"short", true).expect("encrypted");
        assert_eq!(caller.cipher_once(&mut oaep, private, &encrypted, false), Ok(b"short".to_vec()));
        let mut wrong = encrypted;
        wrong[9] ^= 1;
        assert_eq!(caller.cipher_once(&mut oaep, private, &wrong, false), Err(CKR_ENCRYPTED_DATA_INVALID));
    }
}

#[test]
fn keys_are_wrapped_unwrapped_and_agreed_upon() {
    let module = Module::with_token();
    let caller = module.client();
    let wrapping = module.aes(caller.session);
    let key = caller.secret(CKK_AES, &[5; 16]);
    let mut wrap = Given::none(CKM_AES_KEY_WRAP);
    let mut wrapped = caller.wrap(&mut wrap, wrapping, key).expect("wrapped");
    assert_eq!(wrapped.len(), 24);
    let unwrapped = caller.unwrap(&mut wrap, wrapping, &wrapped, &mut Template::secret(CKK_AES)).expect("a key");
    assert_eq!(caller.value(unwrapped, CKA_VALUE), Ok(vec![5; 16]));
    wrapped[3] ^= 1;
    let refused = caller.unwrap(&mut wrap, wrapping, &wrapped, &mut Template::secret(CKK_AES));
    assert_eq!(refused, Err(CKR_WRAPPED_KEY_INVALID));
    // Sensitive keys keep their bytes.
    let (public, private) = module.p256(caller.session);
    assert_eq!(caller.value(private, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    assert_eq!(caller.wrap(&mut wrap, wrapping, private), Err(CKR_KEY_UNEXTRACTABLE));
    // Both sides of an agreement have the same.
    let (other_public, other_private) = module.p256(caller.session);
    let secrets = [(private, other_public), (other_private, public)].map(|(private, public)| {
        let point = caller.value(public, CKA_EC_POINT).expect("a point");
        let secret = caller.derived(&mut Given::of(CKM_ECDH1_DERIVE, ecdh(&point)), private, Some(32));
        secret.expect("a secret")
    });
    assert_eq!(secrets[0], secrets[1]);
    assert_eq!(secrets[0].len(), 32);
}

#[test]
fn token_objects_outlive_the_library_and_session_objects_their_session() {
    let module = Module::with_token();
    let caller = module.client();
    let mut template = Template::new();
    template.number(CKA_VALUE_LEN, 16).flag(CKA_TOKEN, true).bytes(CKA_LABEL, b"kept");
    let key = caller.generate(&mut Given::none(CKM_AES_KEY_GEN), &mut template).expect("a key");
    module.aes(caller.session);
    let mut keys = Template::new();
    keys.number(CKA_CLASS, CKO_SECRET_KEY);
    assert_eq!(module.find(caller.session, &mut keys).len(), 2);
    let mut ecb = Given::none(CKM_AES_ECB);
    let before = caller.cipher(&mut ecb, key, &[1; 16], true);
    assert_eq!(call!(module, C_Finalize, null_mut()), CKR_OK);
    assert_eq!(call!(module, C_Initialize, null_mut()), CKR_OK);
    let session = module.session(true);
    assert_eq!(module.find(session, &mut keys).len(), 0);
    let caller = module.client();
    let found = module.find(session, &mut keys);
    assert_eq!(found.len(), 1);
    assert_eq!(caller.value(found[0], CKA_LABEL), Ok(b"kept".to_vec()));
    assert_eq!(caller.cipher(&mut ecb, found[0], &[1; 16], true), before);
    caller.destroy(found[0]);
    assert_eq!(module.find(session, &mut keys).len(), 0);
}

#[test]
fn keys_are_generated_as_long_as_their_mechanism_takes_them() {
    let module = Module::with_token();
    let caller = module.client();
    let mut xts = Given::none(CKM_AES_XTS_KEY_GEN);
    let key =
        caller.generate(&mut xts, Template::new().number(CKA_VALUE_LEN, 64).flag(CKA_TOKEN, true)).expect("a key");
    let mut cipher = Given::bytes(CKM_AES_XTS, &[1; 16]);
    let encrypted = caller.cipher(&mut cipher, key, &[7; 100], true).expect("encrypted");
    // Of the token, where the key has been kept: of two AES keys, not one.
    assert_eq!(call!(module, C_Logout, caller.session), CKR_OK);
    let caller = module.client();
    let found = module.find(caller.session, Template::new().number(CKA_KEY_TYPE, CKK_AES_XTS));
    assert_eq!(caller.cipher(&mut cipher, found[0], &encrypted, false), Ok(vec![7; 100]));
    assert_eq!(caller.cipher_once(&mut cipher, found[0], &[7; 15], true), Err(CKR_DATA_LEN_RANGE));
    let single = caller.generate(&mut xts, Template::new().number(CKA_VALUE_LEN, 48));
    assert_eq!(single, Err(CKR_KEY_SIZE_RANGE));
    // A key of AES is none of XTS, nor the other way round.
    let aes = module.aes(caller.session);
    assert_eq!(caller.cipher_once(&mut cipher, aes, &[7; 16], true), Err(CKR_KEY_TYPE_INCONSISTENT));
    let ecb = caller.cipher_once(&mut Given::none(CKM_AES_ECB), found[0], &[7; 16], true);
    assert_eq!(ecb, Err(CKR_KEY_TYPE_INCONSISTENT));
    let (mut generate, mut poly1305) = (Given::none(CKM_POLY1305_KEY_GEN), Given::none(CKM_POLY1305));
    let key = caller.generate(&mut generate, &mut Template::new()).expect("a key");
    let tag = caller.sign(&mut poly1305, key, b"a message").expect("a tag");
    assert_eq!(tag.len(), 16);
    assert_eq!(caller.verify(&mut poly1305, key, b"a message", &tag), CKR_OK);
    assert_eq!(caller.verify(&mut poly1305, key, b"a massage", &tag), CKR_SIGNATURE_INVALID);
}

#[test]
fn nothing_that_is_derived_or_copied_gives_a_sensitive_key_away() {
    let module = Module::with_token();
    let caller = module.client();
    let session = caller.session;
    let open = caller.secret(CKK_GENERIC_SECRET, &[5; 16]);
    let mut hidden = Template::key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let key = caller.create(hidden.bytes(CKA_VALUE, &[6; 16]).flag(CKA_DERIVE, true)).expect("a key");
    assert_eq!(caller.value(key, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    // With zeros the derived key would be the key itself.
    let zeros = [0; 16];
    let data = |count| CK_KEY_DERIVATION_STRING_DATA { pData: pin(&zeros), ulLen: count };
    let mut xor = Given::of(CKM_XOR_BASE_AND_DATA, data(16));
    assert_eq!(caller.derived(&mut xor, open, None), Ok(vec![5; 16]));
    assert_eq!(caller.derived(&mut xor, key, None), Err(CKR_TEMPLATE_INCONSISTENT));
    let mut join = Given::of(CKM_CONCATENATE_BASE_AND_DATA, data(1));
    assert_eq!(caller.derived(&mut join, key, None), Err(CKR_TEMPLATE_INCONSISTENT));
    // Without a word of it the derived key is as sensitive.
    let derived = caller.derive(&mut join, key, &mut Template::new()).expect("a key");
    assert_eq!(caller.value(derived, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
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
    let caller = module.client();
    let (session, key) = (caller.session, module.aes(caller.session));
    let mut parameters = CK_AES_CTR_PARAMS { ulCounterBits: 32, cb: [0xff; 16] };
    parameters.cb[15] = 0xfe;
    let mut given = Given::of(CKM_AES_CTR, parameters);
    // Two blocks are left.
    assert!(caller.cipher(&mut given, key, &[0; 32], true).is_ok());
    assert_eq!(caller.cipher_once(&mut given, key, &[0; 33], true), Err(CKR_DATA_LEN_RANGE));
    let (mut out, mut room, mut ctr) = ([0; 64], 64, given.raw());
    assert_eq!(call!(module, C_EncryptInit, session, &mut ctr, key), CKR_OK);
    for (part, expected) in [(20, CKR_OK), (12, CKR_OK), (1, CKR_DATA_LEN_RANGE)] {
        room = 64;
        let rv = call!(module, C_EncryptUpdate, session, pin(&[0; 32]), part, out.as_mut_ptr(), &mut room);
        assert_eq!(rv, expected);
    }
    assert_eq!(call!(module, C_EncryptFinal, session, out.as_mut_ptr(), &mut room), CKR_OPERATION_NOT_INITIALIZED);
    let mut wrong = Given::of(CKM_AES_CTR, CK_AES_CTR_PARAMS { ulCounterBits: 129, cb: [0; 16] });
    assert_eq!(caller.cipher_once(&mut wrong, key, &[0; 16], true), Err(CKR_MECHANISM_PARAM_INVALID));
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
fn messages_have_their_ivs_made() {
    let module = Module::with_token();
    let caller = module.client();
    let session = caller.session;
    let key = module.aes(session);
    let (mut iv, mut tag) = ([0; 12], [0; 16]);
    let at = iv.as_mut_ptr();
    let mut parameter = CK_GCM_MESSAGE_PARAMS {
        pIv: at,
        ulIvLen: 12,
        ulIvFixedBits: 0,
        ivGenerator: CKG_NO_GENERATE,
        pTag: tag.as_mut_ptr(),
        ulTagBits: 128,
    };
    let mut gcm = mechanism(CKM_AES_GCM, &mut []);
    let size = size_of::<CK_GCM_MESSAGE_PARAMS>() as CK_ULONG;
    assert_eq!(call!(module, C_MessageEncryptInit, session, &mut gcm, key), CKR_OK);
    let mut ivs = std::collections::HashSet::new();
    for generator in [CKG_GENERATE_COUNTER, CKG_GENERATE_RANDOM] {
        parameter.ivGenerator = generator;
        for _ in 0..10 {
            let (mut out, mut room) = ([0; 64], 60);
            let (from, to) = (pin(&[7; 60]), out.as_mut_ptr());
            let place = std::ptr::from_mut(&mut parameter).cast();
            let sealed = call!(module, C_EncryptMessage, session, place, size, null_mut(), 0, from, 60, to, &mut room);
            assert_eq!((sealed, room), (CKR_OK, 60));
            // SAFETY: the IV, where the module has written it.
            ivs.insert(unsafe { *at.cast::<[u8; 12]>() });
        }
    }
    assert_eq!(ivs.len(), 20);
    // The tag over the end of the IV: which of both it would be is nobody's guess.
    let mut shared = [0_u8; 27];
    (parameter.pIv, parameter.pTag) = (shared.as_mut_ptr(), shared[11..].as_mut_ptr());
    let (mut out, mut room) = ([0; 64], 60);
    let place = std::ptr::from_mut(&mut parameter).cast();
    let (from, to) = (pin(&[7; 60]), out.as_mut_ptr());
    let sealed = call!(module, C_EncryptMessage, session, place, size, null_mut(), 0, from, 60, to, &mut room);
    assert_eq!((sealed, out, shared), (CKR_MECHANISM_PARAM_INVALID, [0; 64], [0; 27]));
    assert_eq!(call!(module, C_MessageEncryptFinal, session), CKR_OK);
    assert_eq!(call!(module, C_MessageEncryptFinal, session), CKR_OPERATION_NOT_INITIALIZED);
}
