//! Attributes that the module computes: names of objects, check values, and the numbers of RSA keys that were not given.
#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]
#![allow(clippy::expect_used, reason = "part of tests")]

mod common;

use std::collections::HashSet;
use std::ptr::null_mut;

use common::calls::{Given, hex};
use common::{Module, Template};
use cryptoki_sys::*;

#[test]
fn every_object_has_a_name_of_its_own_that_stays() {
    let module = Module::with_token();
    let caller = module.client();
    let kept = |label: &[u8]| {
        let mut template = Template::new();
        template.number(CKA_VALUE_LEN, 16).flag(CKA_TOKEN, true).bytes(CKA_LABEL, label);
        caller.generate(&mut Given::none(CKM_AES_KEY_GEN), &mut template).expect("a key")
    };
    let (one, other, (public, private)) = (kept(b"one"), kept(b"other"), module.p256(caller.session));
    let data = caller.create(Template::new().number(CKA_CLASS, CKO_DATA)).expect("data");
    let mut copy = 0;
    assert_eq!(call!(module, C_CopyObject, caller.session, one, null_mut(), 0, &mut copy), CKR_OK);
    let name = |object| caller.value(object, CKA_UNIQUE_ID).expect("a name");
    let names: HashSet<_> = [one, other, public, private, data, copy].map(name).into();
    assert_eq!(names.len(), 6);
    assert!(names.iter().all(|name| name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit)));
    // Nobody sets it.
    let set = |template: &mut Template| {
        let (at, count) = template.parts();
        call!(module, C_SetAttributeValue, caller.session, one, at, count)
    };
    assert_eq!(set(Template::new().bytes(CKA_UNIQUE_ID, b"mine")), CKR_ATTRIBUTE_READ_ONLY);
    let mut own = Template::new();
    own.number(CKA_CLASS, CKO_DATA).bytes(CKA_UNIQUE_ID, b"mine");
    assert_eq!(caller.create(&mut own), Err(CKR_ATTRIBUTE_READ_ONLY));
    // It is the same after changes, and in another run.
    let of_one = name(one);
    assert_eq!(set(Template::new().bytes(CKA_LABEL, b"renamed")), CKR_OK);
    assert_eq!(name(one), of_one);
    assert_eq!(call!(module, C_Finalize, null_mut()), CKR_OK);
    assert_eq!(call!(module, C_Initialize, null_mut()), CKR_OK);
    let caller = module.client();
    let found = module.find(caller.session, Template::new().bytes(CKA_UNIQUE_ID, &of_one));
    assert_eq!(found.len(), 1);
    assert_eq!(caller.value(found[0], CKA_LABEL), Ok(b"renamed".to_vec()));
}

#[test]
fn check_values_are_those_of_their_keys() {
    let module = Module::with_token();
    let caller = module.client();
    let create = |kind, value: &[u8], check: Option<&[u8]>| {
        let mut template = Template::key(CKO_SECRET_KEY, kind);
        template.bytes(CKA_VALUE, value);
        if let Some(check) = check {
            template.bytes(CKA_CHECK_VALUE, check);
        }
        caller.create(&mut template)
    };
    // The first bytes of zeros under AES-128 (FIPS 197) and DES (SP 800-17) with keys of zeros, whose triple is single DES; of SHA-1 of `abc`
    // (FIPS 180-4). The keys are sensitive: these bytes are there to be read.
    let zeros = [0; 24];
    for (kind, value, expected) in [
        (CKK_AES, &zeros[..16], "66e94b"),
        (CKK_AES, &zeros, "aae069"),
        (CKK_DES, &zeros[..8], "8ca64d"),
        (CKK_DES2, &zeros[..16], "8ca64d"),
        (CKK_DES3, &zeros, "8ca64d"),
        (CKK_GENERIC_SECRET, b"abc", "a9993e"),
    ] {
        let key = create(kind, value, None).expect("a key");
        assert_eq!(caller.value(key, CKA_CHECK_VALUE), Ok(hex(expected)), "{kind:#x}");
        assert_eq!(caller.value(key, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
        assert!(module.find(caller.session, Template::new().bytes(CKA_CHECK_VALUE, &hex(expected))).contains(&key));
        let given = create(kind, value, Some(&hex(expected))).expect("a key");
        assert_eq!(caller.value(given, CKA_CHECK_VALUE), Ok(hex(expected)));
        assert_eq!(create(kind, value, Some(&hex("66e94c"))), Err(CKR_ATTRIBUTE_VALUE_INVALID));
        let without = create(kind, value, Some(&[])).expect("a key");
        assert_eq!(caller.value(without, CKA_CHECK_VALUE), Ok(Vec::new()));
    }
    let key = create(CKK_CHACHA20, &[0; 32], None).expect("a key");
    assert_eq!(caller.value(key, CKA_CHECK_VALUE), Err(CKR_ATTRIBUTE_TYPE_INVALID));
    assert_eq!(create(CKK_CHACHA20, &[0; 32], Some(b"abc")), Err(CKR_ATTRIBUTE_VALUE_INVALID));
    // Of generated keys too.
    let key = module.aes(caller.session);
    let block = caller.cipher_once(&mut Given::none(CKM_AES_ECB), key, &[0; 16], true).expect("encrypted");
    assert_eq!(caller.value(key, CKA_CHECK_VALUE), Ok(block[..3].to_vec()));
}

const NUMBERS: [CK_ATTRIBUTE_TYPE; 8] = [
    CKA_MODULUS,
    CKA_PUBLIC_EXPONENT,
    CKA_PRIVATE_EXPONENT,
    CKA_PRIME_1,
    CKA_PRIME_2,
    CKA_EXPONENT_1,
    CKA_EXPONENT_2,
    CKA_COEFFICIENT,
];

#[test]
fn rsa_keys_are_made_of_their_primes_or_their_exponents() {
    let module = Module::with_token();
    let caller = module.client();
    let (mut public, mut private) = (Template::new(), Template::new());
    public.number(CKA_MODULUS_BITS, 2048);
    private.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true);
    let (public, private) = module.pair(caller.session, CKM_RSA_PKCS_KEY_PAIR_GEN, &mut public, &mut private);
    let numbers = NUMBERS.map(|kind| caller.value(private, kind).expect("a number"));
    let create = |kinds: &[CK_ATTRIBUTE_TYPE], wrong: Option<CK_ATTRIBUTE_TYPE>, on_token| {
        let mut template = Template::key(CKO_PRIVATE_KEY, CKK_RSA);
        template.flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true).flag(CKA_TOKEN, on_token);
        for (kind, number) in NUMBERS.iter().zip(&numbers).filter(|(kind, _)| kinds.contains(kind)) {
            let mut number = number.clone();
            if wrong == Some(*kind) {
                number[40] ^= 4;
            }
            template.bytes(*kind, &number);
        }
        caller.create(&mut template)
    };
    let [n, e, d, p, q, dp, dq, inverse] = NUMBERS;
    let mut pkcs1 = Given::none(CKM_SHA256_RSA_PKCS);
    let signature = caller.sign(&mut pkcs1, private, b"a message").expect("a signature");
    assert_eq!(caller.verify(&mut pkcs1, public, b"a message", &signature), CKR_OK);
    for (number, kinds) in [&[n, e, d][..], &[e, p, q], &[n, e, p, q], &[n, e, d, p, q], &[e, d, p, q, dp], &NUMBERS]
        .into_iter()
        .enumerate()
    {
        let key = create(kinds, None, number % 2 == 0).expect("a key");
        assert_eq!(NUMBERS.map(|kind| caller.value(key, kind).expect("a number")), numbers, "{kinds:x?}");
        assert_eq!(caller.sign(&mut pkcs1, key, b"a message").as_ref(), Ok(&signature), "{kinds:x?}");
    }
    for kinds in [&[n, e][..], &[n, d, p, q], &[n, e, p, dp, dq], &[e, d], &[e, d, p]] {
        assert_eq!(create(kinds, None, false), Err(CKR_TEMPLATE_INCOMPLETE), "{kinds:x?}");
    }
    for (kinds, wrong) in [
        (&[n, e, d][..], d),
        (&[n, e, d], n),
        (&[n, e, p, q], n),
        (&[n, e, d, p, q], d),
        (&[e, d, p, q], q),
        (&[e, p, q, dp], dp),
        (&[e, p, q, dq], dq),
        (&[e, p, q, inverse], inverse),
    ] {
        assert_eq!(create(kinds, Some(wrong), false), Err(CKR_ATTRIBUTE_VALUE_INVALID), "{kinds:x?} {wrong:x}");
    }
    // Those of the token are there in the next login.
    assert_eq!(call!(module, C_Logout, caller.session), CKR_OK);
    let caller = module.client();
    let found = module.find(caller.session, Template::new().number(CKA_CLASS, CKO_PRIVATE_KEY).flag(CKA_TOKEN, true));
    assert_eq!(found.len(), 3);
    for key in found {
        assert_eq!(caller.sign(&mut pkcs1, key, b"a message").as_ref(), Ok(&signature));
    }
}
