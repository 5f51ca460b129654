//! What is derived of keys, and the pairs of DH: by published values, or by what another operation makes of the same.
#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]
#![allow(clippy::expect_used, reason = "part of tests")]

mod common;

use std::ptr::null_mut;

use ciphermill_contract::suite::DhGroup;
use ciphermill_vectors::keys::pairs;
use common::calls::{Client, Given, ecdh, hex};
use common::{Module, Template, len, pin};
use cryptoki_sys::*;

/// A master secret, and the random numbers of the connection whose keys NIST CAVP derives of it (SP 800-135, TLS 1.2 with SHA-256).
const MASTER: &str = "202c88c00f84a17a20027079604787461176455539e705be\
    730890602c289a5001e34eeb3a043e5d52a65e66125188bf";
const CLIENT: &str = "62e1fd91f23f558a605f28478c58cf72637b89784d959df7e946d3f07bd1b616";
const SERVER: &str = "ae6c806f8ad4d80784549dff28a4b58fd837681a51d928c3e30ee5ff14f39868";
const BLOCK: &str = "d06139889fffac1e3a71865f504aa5d0d2a2e89506c6f2279b670c3e1b74f531\
    016a2530c51a3a0f7e1d6590d0f0566b2f387f8d11fd4f731cdd572d2eae927f\
    6f2f81410b25e6960be68985add6c38445ad9f8c64bf8068bf9a6679485d966f\
    1ad6f68b43495b10a683755ea2b858d70ccac7ec8b053c6bd41ca299d4e51928";

fn randoms(client: &[u8], server: &[u8]) -> CK_SSL3_RANDOM_DATA {
    CK_SSL3_RANDOM_DATA {
        pClientRandom: pin(client),
        ulClientRandomLen: len(client),
        pServerRandom: pin(server),
        ulServerRandomLen: len(server),
    }
}

#[test]
fn master_secrets_are_those_of_tls() {
    let module = Module::with_token();
    let caller = module.client();
    // NIST CAVP, SP 800-135, TLS 1.2 with SHA-256.
    let premaster = hex("f8938ecc9edebc5030c0c6a441e213cd24e6f770a50dda07876f8d55da062bca\
        db386b411fd4fe4313a604fce6c17fbc");
    let client = hex("36c129d01a3200894b9179faac589d9835d58775f9b5ea3587cb8fd0364cae8c");
    let server = hex("f6c9575ed7ddd73e1f7d16eca115415812a43c2b747daaaae043abfb50053fce");
    let base = caller.secret(CKK_GENERIC_SECRET, &premaster);
    let mut version = CK_VERSION { major: 0, minor: 0 };
    let at = std::ptr::from_mut(&mut version);
    let parameter = |at| CK_TLS12_MASTER_KEY_DERIVE_PARAMS {
        RandomInfo: randoms(&client, &server),
        pVersion: at,
        prfHashMechanism: CKM_SHA256,
    };
    let mut rsa = Given::of(CKM_TLS12_MASTER_KEY_DERIVE, parameter(at));
    assert_eq!(caller.derived(&mut rsa, base, None), Ok(hex(MASTER)));
    // SAFETY: the version, where the module has written it.
    assert_eq!(unsafe { ((*at).major, (*at).minor) }, (0xf8, 0x93));
    let mut agreed = Given::of(CKM_TLS12_MASTER_KEY_DERIVE_DH, parameter(null_mut()));
    assert_eq!(caller.derived(&mut agreed, base, Some(48)), Ok(hex(MASTER)));
    assert_eq!(caller.derived(&mut agreed, base, Some(32)), Err(CKR_TEMPLATE_INCONSISTENT));
    // A place for the version where there is none, and none where there is one.
    let mut wrong = Given::of(CKM_TLS12_MASTER_KEY_DERIVE_DH, parameter(at));
    assert_eq!(caller.derived(&mut wrong, base, None), Err(CKR_MECHANISM_PARAM_INVALID));
    let mut wrong = Given::of(CKM_TLS12_MASTER_KEY_DERIVE, parameter(null_mut()));
    assert_eq!(caller.derived(&mut wrong, base, None), Err(CKR_MECHANISM_PARAM_INVALID));
    // What RSA has encrypted has one length, what was agreed upon any.
    let short = caller.secret(CKK_GENERIC_SECRET, &premaster[..32]);
    assert_eq!(caller.derived(&mut rsa, short, None), Err(CKR_KEY_SIZE_RANGE));
    assert!(caller.derived(&mut agreed, short, None).is_ok_and(|master| master.len() == 48));
}

#[test]
fn extended_master_secrets_are_bound_to_the_handshake() {
    let module = Module::with_token();
    let caller = module.client();
    // The value that OpenSSL's tests have (TLS1-PRF, SHA-512/256), whose seed stands for the hash of the handshake here.
    let base = caller.secret(
        CKK_GENERIC_SECRET,
        &hex("f8938ecc9edebc5030c0c6a441e213cd24e6f770a50dda07876f8d55da062bca\
            db386b411fd4fe4313a604fce6c17fbc"),
    );
    let hash = hex("36c129d01a3200894b9179faac589d9835d58775f9b5ea3587cb8fd0364cae8c\
        f6c9575ed7ddd73e1f7d16eca115415812a43c2b747daaaae043abfb50053fce");
    let expected = hex("17be20a3b4cc05524d7de353b2f125537c23372144111b0367bda166fcfc09cf\
        1c94909a408b986f53afbdc41d93ae09");
    let mut version = CK_VERSION { major: 0, minor: 0 };
    let parameter = |at| CK_TLS12_EXTENDED_MASTER_KEY_DERIVE_PARAMS {
        prfHashMechanism: CKM_SHA512_256,
        pSessionHash: pin(&hash),
        ulSessionHashLen: len(&hash),
        pVersion: at,
    };
    let mut rsa = Given::of(CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE, parameter(&mut version));
    assert_eq!(caller.derived(&mut rsa, base, None), Ok(expected.clone()));
    let mut agreed = Given::of(CKM_TLS12_EXTENDED_MASTER_KEY_DERIVE_DH, parameter(null_mut()));
    assert_eq!(caller.derived(&mut agreed, base, None), Ok(expected));
}

/// Derives the keys of a connection: what the module says, and the keys and IVs if it says that all is well.
fn connection(
    caller: Client<'_>,
    master: CK_OBJECT_HANDLE,
    bits: [CK_ULONG; 3],
    template: &mut Template,
) -> (CK_RV, [CK_OBJECT_HANDLE; 4], [Vec<u8>; 2]) {
    let (client, server) = (hex(CLIENT), hex(SERVER));
    let mut ivs = [vec![0_u8; 64], vec![0_u8; 64]];
    let [of_client, of_server] = ivs.each_mut().map(|iv| iv.as_mut_ptr());
    let mut out = CK_SSL3_KEY_MAT_OUT { pIVClient: of_client, pIVServer: of_server, ..Default::default() };
    let mut raw = Given::of(
        CKM_TLS12_KEY_AND_MAC_DERIVE,
        CK_TLS12_KEY_MAT_PARAMS {
            ulMacSizeInBits: bits[0],
            ulKeySizeInBits: bits[1],
            ulIVSizeInBits: bits[2],
            bIsExport: CK_FALSE,
            RandomInfo: randoms(&client, &server),
            pReturnedKeyMaterial: &mut out,
            prfHashMechanism: CKM_SHA256,
        },
    );
    let (mut mechanism, (at, count)) = (raw.raw(), template.parts());
    let rv = call!(caller.module, C_DeriveKey, caller.session, &mut mechanism, master, at, count, null_mut());
    (rv, [out.hClientMacSecret, out.hServerMacSecret, out.hClientKey, out.hServerKey], ivs)
}

#[test]
fn keys_of_a_connection_are_cut_from_one_block() {
    let module = Module::with_token();
    let caller = module.client();
    let master = caller.secret(CKK_GENERIC_SECRET, &hex(MASTER));
    let block = hex(BLOCK);
    let mut aes = Template::key(CKO_SECRET_KEY, CKK_AES);
    // MAC keys of HMAC-SHA1, AES-128 and its IVs: 104 bytes of the 128 that are published.
    let (rv, keys, ivs) = connection(caller, master, [160, 128, 128], &mut aes);
    assert_eq!(rv, CKR_OK);
    for (key, expected) in keys.into_iter().zip([&block[..20], &block[20..40], &block[40..56], &block[56..72]]) {
        assert_eq!(caller.value(key, CKA_VALUE), Ok(expected.to_vec()));
    }
    assert_eq!((&ivs[0][..16], &ivs[1][..16]), (&block[72..88], &block[88..104]));
    assert_eq!((ivs[0][16], ivs[1][16]), (0, 0));
    let kinds = keys.map(|key| caller.value(key, CKA_KEY_TYPE));
    assert_eq!(kinds[0], Ok(CKK_GENERIC_SECRET.to_ne_bytes().to_vec()));
    assert_eq!(kinds[3], Ok(CKK_AES.to_ne_bytes().to_vec()));
    // An AEAD has no MAC keys, and four bytes of IV (RFC 5288, 3).
    let (rv, keys, ivs) = connection(caller, master, [0, 256, 32], aes.number(CKA_VALUE_LEN, 32));
    assert_eq!((rv, keys[0], keys[1]), (CKR_OK, CK_INVALID_HANDLE, CK_INVALID_HANDLE));
    assert_eq!(caller.value(keys[3], CKA_VALUE), Ok(block[32..64].to_vec()));
    assert_eq!((&ivs[0][..5], &ivs[1][..4]), (&[&block[64..68], &[0]].concat()[..], &block[68..72]));
    // Nothing is left of keys that do not fit their type.
    let mut secrets = Template::new();
    secrets.number(CKA_CLASS, CKO_SECRET_KEY);
    let before = module.find(caller.session, &mut secrets).len();
    let (rv, keys, _) = connection(caller, master, [160, 120, 0], &mut Template::key(CKO_SECRET_KEY, CKK_AES));
    assert_eq!((rv, keys), (CKR_KEY_SIZE_RANGE, [CK_INVALID_HANDLE; 4]));
    assert_eq!(module.find(caller.session, &mut secrets).len(), before);
    let (rv, ..) = connection(caller, master, [0, 0, 32], &mut Template::new());
    assert_eq!(rv, CKR_MECHANISM_PARAM_INVALID);
    // Keys are as sensitive as what they were made of, and may be no less.
    let mut hidden = Template::key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let hidden = caller.create(hidden.bytes(CKA_VALUE, &hex(MASTER)).flag(CKA_DERIVE, true)).expect("a key");
    let (rv, keys, _) = connection(caller, hidden, [160, 128, 0], &mut Template::key(CKO_SECRET_KEY, CKK_AES));
    assert_eq!(rv, CKR_OK);
    assert_eq!(keys.map(|key| caller.value(key, CKA_VALUE)), [const { Err(CKR_ATTRIBUTE_SENSITIVE) }; 4]);
    let (rv, ..) = connection(caller, hidden, [160, 128, 0], &mut Template::secret(CKK_AES));
    assert_eq!(rv, CKR_TEMPLATE_INCONSISTENT);
}

fn exporter(digest: CK_MECHANISM_TYPE, label: &[u8], randoms: CK_SSL3_RANDOM_DATA, context: Option<&[u8]>) -> Given {
    let parameter = CK_TLS_KDF_PARAMS {
        prfMechanism: digest,
        pLabel: pin(label),
        ulLabelLength: len(label),
        RandomInfo: randoms,
        pContextData: context.map_or(null_mut(), pin),
        ulContextDataLength: context.map_or(0, len),
    };
    Given::of(CKM_TLS_KDF, parameter)
}

#[test]
fn exported_secrets_tell_an_empty_context_from_none() {
    let module = Module::with_token();
    let caller = module.client();
    let master = caller.secret(CKK_GENERIC_SECRET, &hex(MASTER));
    let (client, server) = (hex(CLIENT), hex(SERVER));
    // Made by HMAC of Python's standard library, by RFC 5246, 5, and RFC 5705, 4.
    for (context, expected) in [
        (None, "8485e4144435092f19b69f44a3bdde082139c4b759693740efaf6d8db7e7c6d6a320007726fc5e97"),
        (Some(&b""[..]), "9ed08587d09a08f84111ee8d2f971f1ba2d34b85bab8caa7f417e09ad193153c25408bbae30eb5f1"),
        (Some(b"abc"), "fe75f533a29e8d1b59a93ee0f54e10eeac172947a54771bb9b2a473fdda899fc451781e037379d4e"),
    ] {
        let mut given = exporter(CKM_SHA384, b"EXPORTER-test", randoms(&client, &server), context);
        assert_eq!(caller.derived(&mut given, master, Some(40)), Ok(hex(expected)));
    }
    let mut given = exporter(CKM_SHA384, b"EXPORTER-test", randoms(&client, &server), None);
    assert_eq!(caller.derived(&mut given, master, None), Err(CKR_TEMPLATE_INCOMPLETE));
    // The construction of TLS 1.0, of two digests, is another one.
    let mut given = exporter(CKM_TLS_PRF, b"EXPORTER-test", randoms(&client, &server), None);
    assert_eq!(caller.derived(&mut given, master, Some(40)), Err(CKR_MECHANISM_PARAM_INVALID));
}

#[test]
fn both_sides_finish_with_macs_of_their_own() {
    let module = Module::with_token();
    let caller = module.client();
    let master = caller.secret(CKK_GENERIC_SECRET, &hex(MASTER));
    // SHA-256 of `handshake`; the MACs are made as those above.
    let hash = hex("dfff30d188055f20aaa1610f29102805528465bbad91709ded764e8899f5ad2b");
    let given = |who, length| {
        let parameter = CK_TLS_MAC_PARAMS { prfHashMechanism: CKM_SHA256, ulMacLength: length, ulServerOrClient: who };
        Given::of(CKM_TLS12_MAC, parameter)
    };
    for (who, expected) in [(1, "2538016410d06e2543816a9a"), (2, "79b01b6911a3a7a2a471423d")] {
        let mut given = given(who, 12);
        assert_eq!(caller.sign(&mut given, master, &hash), Ok(hex(expected)));
        assert_eq!(caller.sign_in_parts(&mut given, master, &hash), hex(expected));
        assert_eq!(caller.verify(&mut given, master, &hash, &hex(expected)), CKR_OK);
        assert_eq!(caller.verify(&mut given, master, &hash[1..], &hex(expected)), CKR_SIGNATURE_INVALID);
    }
    for (who, length) in [(0, 12), (3, 12), (1, 11), (1, 65)] {
        assert_eq!(caller.sign(&mut given(who, length), master, &hash), Err(CKR_MECHANISM_PARAM_INVALID));
    }
}

#[test]
fn hkdf_derives_data_that_anybody_may_read() {
    let module = Module::with_token();
    let caller = module.client();
    // RFC 5869, A.3, of a key that itself is not to be read.
    let mut template = Template::key(CKO_SECRET_KEY, CKK_HKDF);
    let base = caller.create(template.bytes(CKA_VALUE, &[0x0b; 22]).flag(CKA_DERIVE, true)).expect("a key");
    let parameter = CK_HKDF_PARAMS {
        bExtract: CK_TRUE,
        bExpand: CK_TRUE,
        prfHashMechanism: CKM_SHA256,
        ulSaltType: CKF_HKDF_SALT_NULL,
        pSalt: null_mut(),
        ulSaltLen: 0,
        hSaltKey: 0,
        pInfo: null_mut(),
        ulInfoLen: 0,
    };
    let mut hkdf = Given::of(CKM_HKDF_DATA, parameter);
    let mut template = Template::new();
    template.number(CKA_CLASS, CKO_DATA).number(CKA_VALUE_LEN, 42);
    let data = caller.derive(&mut hkdf, base, &mut template).expect("data");
    let expected = hex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
    assert_eq!(caller.value(data, CKA_VALUE), Ok(expected));
    assert_eq!(caller.value(data, CKA_CLASS), Ok(CKO_DATA.to_ne_bytes().to_vec()));
    // A key is not what this mechanism makes.
    let key = caller.derive(&mut hkdf, base, Template::secret(CKK_AES).number(CKA_VALUE_LEN, 16));
    assert_eq!(key, Err(CKR_TEMPLATE_INCONSISTENT));
}

#[test]
fn two_keys_make_one_that_is_as_sensitive_as_either() {
    let module = Module::with_token();
    let caller = module.client();
    let [one, other] = [1, 2].map(|byte| caller.secret(CKK_GENERIC_SECRET, &[byte; 8]));
    let mut hidden = Template::key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    let hidden = caller.create(hidden.bytes(CKA_VALUE, &[3; 8]).flag(CKA_DERIVE, true)).expect("a key");
    let join = |key| Given::of::<CK_OBJECT_HANDLE>(CKM_CONCATENATE_BASE_AND_KEY, key);
    assert_eq!(caller.derived(&mut join(other), one, None), Ok([[1; 8], [2; 8]].concat()));
    assert_eq!(caller.derived(&mut join(other), one, Some(9)), Ok([&[1; 8][..], &[2]].concat()));
    assert_eq!(caller.derived(&mut join(other), one, Some(17)), Err(CKR_KEY_SIZE_RANGE));
    assert_eq!(caller.derived(&mut join(77), one, None), Err(CKR_KEY_HANDLE_INVALID));
    for (base, with) in [(one, hidden), (hidden, one)] {
        assert_eq!(caller.derived(&mut join(with), base, None), Err(CKR_TEMPLATE_INCONSISTENT));
        let key = caller.derive(&mut join(with), base, &mut Template::new()).expect("a key");
        assert_eq!(caller.value(key, CKA_VALUE), Err(CKR_ATTRIBUTE_SENSITIVE));
    }
    let (_, private) = module.p256(caller.session);
    assert_eq!(caller.derived(&mut join(private), one, None), Err(CKR_TEMPLATE_INCONSISTENT));
}

#[test]
fn keys_are_derived_by_encrypting_data() {
    let module = Module::with_token();
    let caller = module.client();
    let data: Vec<u8> = (0..32).collect();
    let string = |data: &[u8]| CK_KEY_DERIVATION_STRING_DATA { pData: pin(data), ulLen: len(data) };
    // FIPS 197, C.1.
    let key = caller.secret(CKK_AES, &hex("000102030405060708090a0b0c0d0e0f"));
    let text = hex("00112233445566778899aabbccddeeff");
    let mut ecb = Given::of(CKM_AES_ECB_ENCRYPT_DATA, string(&text));
    assert_eq!(caller.derived(&mut ecb, key, None), Ok(hex("69c4e0d86a7b0430d8cdb78070b4c55a")));
    assert_eq!(caller.derived(&mut ecb, key, Some(10)), Ok(hex("69c4e0d86a7b0430d8cd")));
    assert_eq!(caller.derived(&mut ecb, key, Some(17)), Err(CKR_MECHANISM_PARAM_INVALID));
    let mut odd = Given::of(CKM_AES_ECB_ENCRYPT_DATA, string(&text[1..]));
    assert_eq!(caller.derived(&mut odd, key, None), Err(CKR_MECHANISM_PARAM_INVALID));
    // The others derive what they encrypt.
    let cbc = |kind| {
        let parameter = CK_DES_CBC_ENCRYPT_DATA_PARAMS { iv: [7; 8], pData: pin(&data), length: len(&data) };
        Given::of(kind, parameter)
    };
    let aes_cbc = CK_AES_CBC_ENCRYPT_DATA_PARAMS { iv: [7; 16], pData: pin(&data), length: len(&data) };
    let des_key = caller.secret(CKK_DES, &hex("0123456789abcdef"));
    let des3_key = caller.secret(CKK_DES3, &hex("0123456789abcdef23456789abcdef01456789abcdef0123"));
    for (mut derives, mut encrypts, key) in [
        (Given::of(CKM_AES_CBC_ENCRYPT_DATA, aes_cbc), Given::bytes(CKM_AES_CBC, &[7; 16]), key),
        (Given::of(CKM_DES_ECB_ENCRYPT_DATA, string(&data)), Given::none(CKM_DES_ECB), des_key),
        (cbc(CKM_DES_CBC_ENCRYPT_DATA), Given::bytes(CKM_DES_CBC, &[7; 8]), des_key),
        (Given::of(CKM_DES3_ECB_ENCRYPT_DATA, string(&data)), Given::none(CKM_DES3_ECB), des3_key),
        (cbc(CKM_DES3_CBC_ENCRYPT_DATA), Given::bytes(CKM_DES3_CBC, &[7; 8]), des3_key),
    ] {
        let encrypted = caller.cipher(&mut encrypts, key, &data, true);
        assert!(encrypted.is_ok());
        assert_eq!(caller.derived(&mut derives, key, None), encrypted, "{:#x}", derives.kind());
    }
    let mut wrong = Given::of(CKM_DES_ECB_ENCRYPT_DATA, string(&data));
    assert_eq!(caller.derived(&mut wrong, key, None), Err(CKR_KEY_TYPE_INCONSISTENT));
}

#[test]
fn the_cofactor_is_one_on_prime_curves_and_others_are_refused() {
    let module = Module::with_token();
    let caller = module.client();
    let pair = |name: &str| {
        let (mut public, mut private) = (Template::new(), Template::new());
        public.bytes(CKA_EC_PARAMS, &hex(name));
        module.pair(caller.session, CKM_EC_KEY_PAIR_GEN, &mut public, private.flag(CKA_DERIVE, true))
    };
    let derive = |kind, private, public| {
        let point = caller.value(public, CKA_EC_POINT).expect("a point");
        caller.derived(&mut Given::of(kind, ecdh(&point)), private, None)
    };
    // P-384 and sect233k1.
    let ((_, private), (public, _)) = (pair("06052b81040022"), pair("06052b81040022"));
    let plain = derive(CKM_ECDH1_DERIVE, private, public);
    assert!(plain.is_ok());
    assert_eq!(derive(CKM_ECDH1_COFACTOR_DERIVE, private, public), plain);
    let ((_, private), (public, _)) = (pair("06052b8104001a"), pair("06052b8104001a"));
    assert!(derive(CKM_ECDH1_DERIVE, private, public).is_ok());
    assert_eq!(derive(CKM_ECDH1_COFACTOR_DERIVE, private, public), Err(CKR_CURVE_NOT_SUPPORTED));
}

/// A template with the parameters of a group.
fn group(group: DhGroup) -> Template {
    let mut template = Template::new();
    template.bytes(CKA_PRIME, ciphermill_pairs::dh::prime(group)).bytes(CKA_BASE, &[2]);
    template
}

#[test]
fn pairs_of_dh_agree() {
    let module = Module::with_token();
    let caller = module.client();
    let agree = |private, public: &[u8]| {
        let len = Some(public.len().min(512));
        caller.derived(&mut Given::bytes(CKM_DH_PKCS_DERIVE, public), private, len)
    };
    for name in [DhGroup::Ffdhe2048, DhGroup::Ffdhe4096, DhGroup::Modp1024, DhGroup::Modp2048, DhGroup::Modp6144] {
        let pair = || {
            let mut private = Template::new();
            private.flag(CKA_DERIVE, true).flag(CKA_SENSITIVE, false).flag(CKA_EXTRACTABLE, true);
            module.pair(caller.session, CKM_DH_PKCS_KEY_PAIR_GEN, &mut group(name), &mut private)
        };
        let (one, other) = (pair(), pair());
        let [of_one, of_other] = [one.0, other.0].map(|key| caller.value(key, CKA_VALUE).expect("a value"));
        assert_ne!(of_one, of_other);
        let secret = agree(one.1, &of_other);
        assert!(secret.is_ok());
        assert_eq!(secret, agree(other.1, &of_one), "{name:?}");
        assert_eq!(caller.value(one.1, CKA_VALUE_BITS), Ok(512_u64.to_ne_bytes().to_vec()));
        assert_eq!(caller.value(one.1, CKA_PRIME), Ok(ciphermill_pairs::dh::prime(name).to_vec()));
    }
    // The public value is the generator's power: of private values that another program made it is the public value that it made.
    for pair in pairs("ffdhe2048") {
        let mut template = group(DhGroup::Ffdhe2048);
        template.number(CKA_CLASS, CKO_PRIVATE_KEY).number(CKA_KEY_TYPE, CKK_DH).flag(CKA_DERIVE, true);
        let key = caller.create(template.bytes(CKA_VALUE, &pair.private)).expect("a key");
        let mut generator = vec![0; 256];
        generator[255] = 2;
        assert_eq!(agree(key, &generator), Ok(pair.public.clone()));
    }
}

#[test]
fn pairs_of_dh_are_of_known_groups_and_as_long_as_is_safe() {
    let module = Module::with_token();
    let caller = module.client();
    let generate = |public: &mut Template, private: &mut Template| {
        let mut mechanism = Given::none(CKM_DH_PKCS_KEY_PAIR_GEN).raw();
        let ((at, count), (private, private_count)) = (public.parts(), private.parts());
        let (session, (mut one, mut other)) = (caller.session, (0, 0));
        let kind = &mut mechanism;
        call!(module, C_GenerateKeyPair, session, kind, at, count, private, private_count, &mut one, &mut other)
    };
    for (bits, expected) in [
        (224, CKR_ATTRIBUTE_VALUE_INVALID),
        (225, CKR_OK),
        (1000, CKR_OK),
        (2046, CKR_OK),
        (2047, CKR_ATTRIBUTE_VALUE_INVALID),
        (CK_ULONG::MAX, CKR_ATTRIBUTE_VALUE_INVALID),
    ] {
        let mut private = Template::new();
        let rv = generate(&mut group(DhGroup::Ffdhe2048), private.number(CKA_VALUE_BITS, bits));
        assert_eq!(rv, expected, "{bits}");
    }
    let mut other = Template::new();
    other.bytes(CKA_PRIME, &[0xff; 256]).bytes(CKA_BASE, &[2]);
    assert_eq!(generate(&mut other, &mut Template::new()), CKR_DOMAIN_PARAMS_INVALID);
    let mut prime = Template::new();
    prime.bytes(CKA_PRIME, ciphermill_pairs::dh::prime(DhGroup::Ffdhe2048));
    assert_eq!(generate(&mut prime, &mut Template::new()), CKR_TEMPLATE_INCOMPLETE);
}
