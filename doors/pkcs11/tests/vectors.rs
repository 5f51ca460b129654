//! The published vectors of the suites behind the mechanisms, through the module's functions.
#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]
#![allow(clippy::expect_used, reason = "part of tests")]

mod common;

use std::ptr::{from_mut, null_mut};

use ciphermill_contract::suite::{
    Aead, AesSize, Agreement, BlockCipher, Curve, DhGroup, Digest, Kem, KeyWrap, Mac, Mode, Signature, StreamCipher,
};
use ciphermill_contract::{Direction, Suite};
use ciphermill_vectors::case::{Case, Outcome};
use ciphermill_vectors::published::cases;
use common::calls::{Client, Given, ecdh, gcm, hex};
use common::{Module, Template, len, pin};
use cryptoki_sys::*;

const AES: [AesSize; 3] = [AesSize::Aes128, AesSize::Aes192, AesSize::Aes256];

/// Cases that are run in parts too, of each suite.
const IN_PARTS: usize = 12;

/// Whether what came of a vector in one direction is right: as `expected` where it is valid, refused where it is not.
fn check<T: PartialEq + std::fmt::Debug>(case: &Case, found: &Result<T, CK_RV>, expected: &T) {
    let right = match (&case.outcome, found) {
        (Outcome::Valid | Outcome::Acceptable(_), Ok(found)) => found == expected,
        (Outcome::Invalid(_) | Outcome::Acceptable(_), Err(_)) => true,
        (Outcome::Invalid(_), Ok(_)) | (Outcome::Valid, Err(_)) => false,
    };
    assert!(right, "{} {}: {found:x?} instead of {expected:x?} ({:?})", case.source, case.id, case.outcome);
}

/// The key of a vector, which may be none where the vector is not valid.
fn key_of(caller: Client<'_>, case: &Case, template: &mut Template) -> Option<CK_OBJECT_HANDLE> {
    let key = caller.create(template);
    assert!(key.is_ok() || case.outcome != Outcome::Valid, "{} {}: {key:x?}", case.source, case.id);
    key.ok()
}

fn secret_of(caller: Client<'_>, case: &Case, kind: CK_KEY_TYPE) -> Option<CK_OBJECT_HANDLE> {
    let kind = if (kind, case.keys.secret.len()) == (CKK_DES3, 16) { CKK_DES2 } else { kind };
    key_of(caller, case, Template::secret(kind).bytes(CKA_VALUE, &case.keys.secret))
}

fn does(case: &Case, direction: Direction) -> bool {
    case.ways.contains(direction)
}

/// Runs all vectors of a suite, and wants there to be some.
fn each(suite: Suite, mut run: impl FnMut(usize, &Case)) {
    let found = cases(suite);
    assert!(!found.is_empty(), "{suite}");
    found.into_iter().enumerate().for_each(|(number, case)| run(number, case));
}

/// Encrypts and decrypts the vectors of a suite, but for those that the mechanism cannot say; a tag stands behind the text.
fn ciphers<G: Into<Option<Given>>>(caller: Client<'_>, suite: Suite, kind: CK_KEY_TYPE, given: impl Fn(&Case) -> G) {
    each(suite, |number, case| {
        let Some(mut given) = given(case).into() else { return };
        let Some(key) = secret_of(caller, case, kind) else { return };
        let encrypted = [&case.output[..], &case.tag].concat();
        for (direction, input, output) in
            [(Direction::Encrypt, &case.input, &encrypted), (Direction::Decrypt, &encrypted, &case.input)]
        {
            if does(case, direction) {
                let encrypts = direction == Direction::Encrypt;
                let found = match number {
                    0..IN_PARTS => caller.cipher(&mut given, key, input, encrypts),
                    _ => caller.cipher_once(&mut given, key, input, encrypts),
                };
                check(case, &found, output);
            }
        }
        caller.destroy(key);
    });
}

/// Makes and verifies the MACs of a suite's vectors.
fn macs(caller: Client<'_>, suite: Suite, kind: CK_KEY_TYPE, given: impl Fn(&Case) -> Given) {
    each(suite, |number, case| {
        let Some(key) = secret_of(caller, case, kind) else { return };
        let mut given = given(case);
        if does(case, Direction::Encrypt) {
            let found = caller.sign(&mut given, key, &case.input);
            check(case, &found, &case.tag);
            if number < IN_PARTS && found.is_ok() {
                assert_eq!(caller.sign_in_parts(&mut given, key, &case.input), case.tag);
            }
        }
        if does(case, Direction::Decrypt) {
            let verified = caller.verify(&mut given, key, &case.input, &case.tag);
            check(case, &if verified == CKR_OK { Ok(()) } else { Err(verified) }, &());
        }
        caller.destroy(key);
    });
}

fn counter(case: &Case) -> Given {
    let mut parameter = CK_AES_CTR_PARAMS { ulCounterBits: 128, cb: [0; 16] };
    parameter.cb[..case.iv.len()].copy_from_slice(&case.iv);
    if case.iv.len() == 12 {
        // RFC 3686, 4: a nonce, and a counter that begins at one.
        (parameter.ulCounterBits, parameter.cb[15]) = (32, 1);
    }
    Given::of(CKM_AES_CTR, parameter)
}

#[test]
fn block_ciphers_in_their_modes() {
    let module = Module::with_token();
    let caller = module.client();
    let modes = [
        (Mode::Ecb, CKM_AES_ECB),
        (Mode::Cbc, CKM_AES_CBC),
        (Mode::Cfb8, CKM_AES_CFB8),
        (Mode::Cfb128, CKM_AES_CFB128),
        (Mode::Ofb, CKM_AES_OFB),
        (Mode::CbcCs1, CKM_AES_CTS),
    ];
    for size in AES {
        for (mode, kind) in modes {
            let suite = Suite::Cipher(BlockCipher::Aes(size), mode);
            ciphers(caller, suite, CKK_AES, |case| Given::bytes(kind, &case.iv));
        }
        ciphers(caller, Suite::Cipher(BlockCipher::Aes(size), Mode::Ctr), CKK_AES, counter);
    }
    for size in [AesSize::Aes128, AesSize::Aes256] {
        let suite = Suite::Cipher(BlockCipher::Aes(size), Mode::Xts);
        ciphers(caller, suite, CKK_AES_XTS, |case| Given::bytes(CKM_AES_XTS, &case.iv));
    }
    for (mode, single, triple) in [(Mode::Ecb, CKM_DES_ECB, CKM_DES3_ECB), (Mode::Cbc, CKM_DES_CBC, CKM_DES3_CBC)] {
        let des = Suite::Cipher(BlockCipher::Des, mode);
        ciphers(caller, des, CKK_DES, |case| Given::bytes(single, &case.iv));
        let triple_des = Suite::Cipher(BlockCipher::TripleDes, mode);
        ciphers(caller, triple_des, CKK_DES3, |case| Given::bytes(triple, &case.iv));
    }
}

#[test]
fn chacha20_with_any_first_block() {
    let module = Module::with_token();
    let zero = [0; 4];
    ciphers(module.client(), Suite::Stream(StreamCipher::ChaCha20), CKK_CHACHA20, |case| {
        let (block, nonce) = if case.iv.len() == 16 { case.iv.split_at(4) } else { (&zero[..], &case.iv[..]) };
        let parameter = CK_CHACHA20_PARAMS {
            pBlockCounter: pin(block),
            blockCounterBits: 32,
            pNonce: pin(nonce),
            ulNonceBits: 8 * len(nonce),
        };
        Given::of(CKM_CHACHA20, parameter)
    });
}

fn gcm_of(case: &Case) -> Given {
    Given::of(CKM_AES_GCM, gcm(&case.iv, &case.aad, case.tag.len()))
}

fn ccm_of(case: &Case) -> Given {
    let parameter = CK_CCM_PARAMS {
        ulDataLen: len(&case.input),
        pNonce: pin(&case.iv),
        ulNonceLen: len(&case.iv),
        pAAD: pin(&case.aad),
        ulAADLen: len(&case.aad),
        ulMACLen: len(&case.tag),
    };
    Given::of(CKM_AES_CCM, parameter)
}

fn chacha20_poly1305_of(case: &Case) -> Option<Given> {
    let parameter = CK_SALSA20_CHACHA20_POLY1305_PARAMS {
        pNonce: pin(&case.iv),
        ulNonceLen: len(&case.iv),
        pAAD: pin(&case.aad),
        ulAADLen: len(&case.aad),
    };
    // The tag's length is no parameter.
    (case.tag.len() == 16).then(|| Given::of(CKM_CHACHA20_POLY1305, parameter))
}

#[test]
fn authenticated_encryption_in_one_call_and_in_parts() {
    let module = Module::with_token();
    let caller = module.client();
    for size in AES {
        ciphers(caller, Suite::Aead(Aead::AesGcm(size)), CKK_AES, gcm_of);
        ciphers(caller, Suite::Aead(Aead::AesGcmAnyIv(size)), CKK_AES, gcm_of);
        ciphers(caller, Suite::Aead(Aead::AesCcm(size)), CKK_AES, ccm_of);
    }
    ciphers(caller, Suite::Aead(Aead::ChaCha20Poly1305), CKK_CHACHA20, chacha20_poly1305_of);
}

/// Encrypts or decrypts one message. Asked with too little room first, which must leave the messages as they are.
fn message<P: Copy>(
    caller: Client<'_>,
    mut parameter: P,
    case: &Case,
    input: &[u8],
    encrypts: bool,
) -> Result<Vec<u8>, CK_RV> {
    let (module, session, size) = (caller.module, caller.session, size_of::<P>() as CK_ULONG);
    let at = from_mut(&mut parameter).cast();
    let (aad, aad_len, from, from_len) = (pin(&case.aad), len(&case.aad), pin(input), len(input));
    let mut out = vec![0; input.len() + 1];
    let to = out.as_mut_ptr();
    let run = |room: &mut CK_ULONG| match encrypts {
        true => call!(module, C_EncryptMessage, session, at, size, aad, aad_len, from, from_len, to, room),
        false => call!(module, C_DecryptMessage, session, at, size, aad, aad_len, from, from_len, to, room),
    };
    let mut room = len(input).saturating_sub(1);
    let first = run(&mut room);
    let done = if first == CKR_BUFFER_TOO_SMALL {
        assert_eq!(room, len(input));
        run(&mut room)
    } else {
        first
    };
    out.truncate(room as usize);
    if done == CKR_OK { Ok(out) } else { Err(done) }
}

/// Runs a suite's vectors by message: the tag lies in the parameter, which is made of IV and tag. Lengths that messages have not are left out.
fn messages<P: Copy>(
    caller: Client<'_>,
    suite: Suite,
    mechanism: (CK_MECHANISM_TYPE, CK_KEY_TYPE),
    parameter: impl Fn(&Case, &mut [u8], &mut [u8]) -> Option<P>,
) {
    let mut ran = 0;
    each(suite, |_, case| {
        let Some(key) = secret_of(caller, case, mechanism.1) else { return };
        let mut raw = Given::none(mechanism.0).raw();
        let (module, session) = (caller.module, caller.session);
        assert_eq!(call!(module, C_MessageEncryptInit, session, &mut raw, key), CKR_OK);
        assert_eq!(call!(module, C_MessageDecryptInit, session, &mut raw, key), CKR_OK);
        let mut iv = case.iv.clone();
        let (mut made, mut given) = (vec![0; case.tag.len()], case.tag.clone());
        if let (true, Some(parameter)) = (does(case, Direction::Encrypt), parameter(case, &mut iv, &mut made)) {
            let sealed = message(caller, parameter, case, &case.input, true);
            check(case, &sealed.map(|text| (text, made)), &(case.output.clone(), case.tag.clone()));
            ran += 1;
        }
        if let (true, Some(parameter)) = (does(case, Direction::Decrypt), parameter(case, &mut iv, &mut given)) {
            check(case, &message(caller, parameter, case, &case.output, false), &case.input);
            ran += 1;
        }
        assert_eq!(call!(module, C_MessageEncryptFinal, session), CKR_OK);
        assert_eq!(call!(module, C_MessageDecryptFinal, session), CKR_OK);
        caller.destroy(key);
    });
    assert!(ran > 0, "{suite}");
}

fn gcm_message(_: &Case, iv: &mut [u8], tag: &mut [u8]) -> Option<CK_GCM_MESSAGE_PARAMS> {
    // The standard has no shorter tags of messages (PKCS#11 3.2, 6.13.3).
    (tag.len() >= 12).then(|| CK_GCM_MESSAGE_PARAMS {
        pIv: iv.as_mut_ptr(),
        ulIvLen: len(iv),
        ulIvFixedBits: 0,
        ivGenerator: CKG_NO_GENERATE,
        pTag: tag.as_mut_ptr(),
        ulTagBits: 8 * len(tag),
    })
}

fn ccm_message(case: &Case, iv: &mut [u8], tag: &mut [u8]) -> Option<CK_CCM_MESSAGE_PARAMS> {
    Some(CK_CCM_MESSAGE_PARAMS {
        ulDataLen: len(&case.input),
        pNonce: iv.as_mut_ptr(),
        ulNonceLen: len(iv),
        ulNonceFixedBits: 0,
        nonceGenerator: CKG_NO_GENERATE,
        pMAC: tag.as_mut_ptr(),
        ulMACLen: len(tag),
    })
}

fn chacha20_message(_: &Case, iv: &mut [u8], tag: &mut [u8]) -> Option<CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS> {
    (tag.len() == 16).then(|| CK_SALSA20_CHACHA20_POLY1305_MSG_PARAMS {
        pNonce: iv.as_mut_ptr(),
        ulNonceLen: len(iv),
        pTag: tag.as_mut_ptr(),
    })
}

#[test]
fn authenticated_encryption_by_message() {
    let module = Module::with_token();
    let caller = module.client();
    for size in AES {
        messages(caller, Suite::Aead(Aead::AesGcm(size)), (CKM_AES_GCM, CKK_AES), gcm_message);
        messages(caller, Suite::Aead(Aead::AesGcmAnyIv(size)), (CKM_AES_GCM, CKK_AES), gcm_message);
        messages(caller, Suite::Aead(Aead::AesCcm(size)), (CKM_AES_CCM, CKK_AES), ccm_message);
    }
    let chacha = (CKM_CHACHA20_POLY1305, CKK_CHACHA20);
    messages(caller, Suite::Aead(Aead::ChaCha20Poly1305), chacha, chacha20_message);
}

#[test]
fn digests() {
    let module = Module::with_token();
    let (session, functions) = (module.session(false), &module);
    for (digest, kind) in [
        (Digest::Md5, CKM_MD5),
        (Digest::Sha1, CKM_SHA_1),
        (Digest::Sha224, CKM_SHA224),
        (Digest::Sha256, CKM_SHA256),
        (Digest::Sha384, CKM_SHA384),
        (Digest::Sha512, CKM_SHA512),
        (Digest::Sha512_224, CKM_SHA512_224),
        (Digest::Sha512_256, CKM_SHA512_256),
        (Digest::Sha3_224, CKM_SHA3_224),
        (Digest::Sha3_256, CKM_SHA3_256),
        (Digest::Sha3_384, CKM_SHA3_384),
        (Digest::Sha3_512, CKM_SHA3_512),
    ] {
        each(Suite::Digest(digest), |_, case| {
            let (mut out, mut room, mut mechanism) = ([0; 64], 64, Given::none(kind).raw());
            assert_eq!(call!(functions, C_DigestInit, session, &mut mechanism), CKR_OK);
            let (from, from_len) = (pin(&case.input), len(&case.input));
            let rv = call!(functions, C_Digest, session, from, from_len, out.as_mut_ptr(), &mut room);
            assert_eq!((rv, &out[..room as usize]), (CKR_OK, &case.tag[..]), "{}", case.id);
        });
    }
}

#[test]
fn message_authentication() {
    let module = Module::with_token();
    let caller = module.client();
    for (digest, kind) in [
        (Digest::Md5, CKM_MD5_HMAC_GENERAL),
        (Digest::Sha1, CKM_SHA_1_HMAC_GENERAL),
        (Digest::Sha224, CKM_SHA224_HMAC_GENERAL),
        (Digest::Sha256, CKM_SHA256_HMAC_GENERAL),
        (Digest::Sha384, CKM_SHA384_HMAC_GENERAL),
        (Digest::Sha512, CKM_SHA512_HMAC_GENERAL),
        (Digest::Sha3_256, CKM_SHA3_256_HMAC_GENERAL),
        (Digest::Sha3_512, CKM_SHA3_512_HMAC_GENERAL),
    ] {
        let given = |case: &Case| Given::of(kind, len(&case.tag));
        macs(caller, Suite::Mac(Mac::Hmac(digest)), CKK_GENERIC_SECRET, given);
    }
    for size in AES {
        let given = |case: &Case| Given::of(CKM_AES_CMAC_GENERAL, len(&case.tag));
        macs(caller, Suite::Mac(Mac::Cmac(size)), CKK_AES, given);
        let gmac = |case: &Case| Given::of(CKM_AES_GMAC, gcm(&case.iv, &[], case.tag.len()));
        macs(caller, Suite::Mac(Mac::Gmac(size)), CKK_AES, gmac);
        macs(caller, Suite::Mac(Mac::GmacAnyIv(size)), CKK_AES, gmac);
    }
    // 2.40 has the IV alone as the parameter, and whole tags.
    each(Suite::Mac(Mac::Gmac(AesSize::Aes256)), |_, case| {
        if (case.iv.len(), case.tag.len(), &case.outcome) == (12, 16, &Outcome::Valid) {
            let key = caller.secret(CKK_AES, &case.keys.secret);
            let mac = caller.sign(&mut Given::bytes(CKM_AES_GMAC, &case.iv), key, &case.input);
            assert_eq!(mac.as_ref(), Ok(&case.tag), "{}", case.id);
        }
    });
    macs(caller, Suite::Mac(Mac::Poly1305), CKK_POLY1305, |_| Given::none(CKM_POLY1305));
    let triple_des = |case: &Case| Given::of(CKM_DES3_CMAC_GENERAL, len(&case.tag));
    macs(caller, Suite::Mac(Mac::TripleDesCmac), CKK_DES3, triple_des);
}

#[test]
fn key_wrap() {
    let module = Module::with_token();
    let caller = module.client();
    for size in AES {
        ciphers(caller, Suite::Wrap(KeyWrap::Kw(size)), CKK_AES, |case| Given::bytes(CKM_AES_KEY_WRAP, &case.iv));
        for kind in [CKM_AES_KEY_WRAP_KWP, CKM_AES_KEY_WRAP_PAD] {
            ciphers(caller, Suite::Wrap(KeyWrap::Kwp(size)), CKK_AES, |_| Given::none(kind));
        }
    }
}

/// A key's on edwards25519, by the name of RFC 8410, 3.
fn edwards(class: CK_OBJECT_CLASS) -> Template {
    let mut template = Template::key(class, CKK_EC_EDWARDS);
    template.bytes(CKA_EC_PARAMS, &hex("06032b6570"));
    template
}

#[test]
fn signatures_of_ed25519() {
    let module = Module::with_token();
    let caller = module.client();
    each(Suite::Sign(Signature::Ed25519), |_, case| {
        let mut given = Given::none(CKM_EDDSA);
        if does(case, Direction::Encrypt) {
            let key = caller.create(edwards(CKO_PRIVATE_KEY).bytes(CKA_VALUE, &case.keys.private)).expect("a key");
            check(case, &caller.sign(&mut given, key, &case.input), &case.tag);
            if !case.input.is_empty() {
                assert_eq!(caller.sign_in_parts(&mut given, key, &case.input), case.tag);
            }
            caller.destroy(key);
        }
        if does(case, Direction::Decrypt) {
            let mut template = edwards(CKO_PUBLIC_KEY);
            let Some(key) = key_of(caller, case, template.bytes(CKA_EC_POINT, &case.keys.public)) else { return };
            let verified = caller.verify(&mut given, key, &case.input, &case.tag);
            check(case, &if verified == CKR_OK { Ok(()) } else { Err(verified) }, &());
            caller.destroy(key);
        }
    });
}

/// A private key that has PKCS#8 alone, by way of a wrapping key.
fn private_of(caller: Client<'_>, wrapping: CK_OBJECT_HANDLE, kind: CK_KEY_TYPE, pkcs8: &[u8]) -> CK_OBJECT_HANDLE {
    let mut wrap = Given::none(CKM_AES_KEY_WRAP_KWP);
    let wrapped = caller.cipher_once(&mut wrap, wrapping, pkcs8, true).expect("wrapped");
    let mut template = Template::key(CKO_PRIVATE_KEY, kind);
    caller.unwrap(&mut wrap, wrapping, &wrapped, template.flag(CKA_DERIVE, true)).expect("a key")
}

#[test]
fn agreements_on_montgomery_curves() {
    let module = Module::with_token();
    let caller = module.client();
    for (agreement, name) in [(Agreement::X25519, "06032b656e"), (Agreement::X448, "06032b656f")] {
        each(Suite::Agree(agreement), |_, case| {
            let mut template = Template::key(CKO_PRIVATE_KEY, CKK_EC_MONTGOMERY);
            template.bytes(CKA_EC_PARAMS, &hex(name)).bytes(CKA_VALUE, &case.keys.private).flag(CKA_DERIVE, true);
            let Some(key) = key_of(caller, case, &mut template) else { return };
            let found = caller.derived(&mut Given::of(CKM_ECDH1_DERIVE, ecdh(&case.input)), key, None);
            check(case, &found, &case.output);
            caller.destroy(key);
        });
    }
}

#[test]
fn agreements_on_prime_curves() {
    let module = Module::with_token();
    let caller = module.client();
    let wrapping = module.aes(caller.session);
    for curve in [Curve::P256, Curve::P384, Curve::P521, Curve::Secp256k1] {
        each(Suite::Agree(Agreement::Ecdh(curve)), |_, case| {
            let key = private_of(caller, wrapping, CKK_EC, &case.keys.private);
            let found = caller.derived(&mut Given::of(CKM_ECDH1_DERIVE, ecdh(&case.input)), key, None);
            check(case, &found, &case.output);
            caller.destroy(key);
        });
    }
}

#[test]
fn agreements_in_finite_fields() {
    let module = Module::with_token();
    let caller = module.client();
    for group in [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Modp1024, DhGroup::Modp2048, DhGroup::Modp8192] {
        each(Suite::Agree(Agreement::Dh(group)), |_, case| {
            let mut template = Template::key(CKO_PRIVATE_KEY, CKK_DH);
            template.bytes(CKA_PRIME, ciphermill_pairs::dh::prime(group)).bytes(CKA_BASE, &[2]);
            template.bytes(CKA_VALUE, &case.keys.private).flag(CKA_DERIVE, true);
            let Some(key) = key_of(caller, case, &mut template) else { return };
            // A generic secret has no more bytes than the module's own, so that its end is compared.
            let wanted = case.output.len().min(512);
            let end = case.output[case.output.len() - wanted..].to_vec();
            let len = (!end.is_empty()).then_some(wanted);
            check(case, &caller.derived(&mut Given::bytes(CKM_DH_PKCS_DERIVE, &case.input), key, len), &end);
            caller.destroy(key);
        });
    }
}

/// The secret that an encapsulation holds.
fn decapsulated(caller: Client<'_>, key: CK_OBJECT_HANDLE, encapsulated: &[u8]) -> Result<Vec<u8>, CK_RV> {
    let mut mechanism = Given::none(CKM_ML_KEM).raw();
    let mut template = Template::secret(CKK_GENERIC_SECRET);
    let ((at, count), mut secret) = (template.parts(), 0);
    let (from, from_len) = (pin(encapsulated), len(encapsulated));
    let session = caller.session;
    match call!(caller.module, C_DecapsulateKey, session, &mut mechanism, key, at, count, from, from_len, &mut secret) {
        CKR_OK => caller.value(secret, CKA_VALUE),
        rv => Err(rv),
    }
}

#[test]
fn encapsulation_of_keys() {
    let module = Module::with_token();
    let caller = module.client();
    let (session, mut ml_kem) = (caller.session, Given::none(CKM_ML_KEM).raw());
    for (kem, set) in
        [(Kem::MlKem512, CKP_ML_KEM_512), (Kem::MlKem768, CKP_ML_KEM_768), (Kem::MlKem1024, CKP_ML_KEM_1024)]
    {
        each(Suite::Kem(kem), |_, case| {
            if does(case, Direction::Decrypt) {
                let mut template = Template::key(CKO_PRIVATE_KEY, CKK_ML_KEM);
                template.number(CKA_PARAMETER_SET, set).bytes(CKA_SEED, &case.keys.private);
                let Some(key) = key_of(caller, case, &mut template) else { return };
                check(case, &decapsulated(caller, key, &case.tag), &case.output);
                caller.destroy(key);
            }
        });
        // Encapsulation draws random bytes: it is taken back by the private key.
        let mut public = Template::new();
        public.number(CKA_PARAMETER_SET, set);
        let pair = module.pair(session, CKM_ML_KEM_KEY_PAIR_GEN, &mut public, &mut Template::new());
        let mut template = Template::secret(CKK_AES);
        let ((at, count), mut secret, mut room) = (template.parts(), 0, 0);
        let none = null_mut();
        let asked =
            call!(module, C_EncapsulateKey, session, &mut ml_kem, pair.0, at, count, none, &mut room, &mut secret);
        assert_eq!((asked, room), (CKR_OK, kem.ciphertext_len() as CK_ULONG));
        let mut encapsulated = vec![0; room as usize];
        let to = encapsulated.as_mut_ptr();
        let done = call!(module, C_EncapsulateKey, session, &mut ml_kem, pair.0, at, count, to, &mut room, &mut secret);
        assert_eq!(done, CKR_OK);
        let value = caller.value(secret, CKA_VALUE);
        assert_eq!(decapsulated(caller, pair.1, &encapsulated), value);
        // FIPS 203, 6.3: what was not encapsulated to the key has another secret, not an error.
        encapsulated[7] ^= 1;
        assert_ne!(decapsulated(caller, pair.1, &encapsulated), value);
        assert_eq!(decapsulated(caller, pair.1, &encapsulated[1..]), Err(CKR_WRAPPED_KEY_LEN_RANGE));
    }
}
