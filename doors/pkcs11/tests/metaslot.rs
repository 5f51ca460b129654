//! The metaslot: a keystore and two tokens of SoftHSM with the same keys, each in a process of its own.
#![allow(unsafe_code, reason = "the module is called as C calls it")]
#![allow(clippy::macro_metavars_in_unsafe, reason = "arguments are pointers of the test's own")]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod common;

use std::path::Path;
use std::process::Command;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use common::calls::{Client, Given, ecdh, gcm};
use common::{Module, PIN, Template, len, pin};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::object::{Attribute, CertificateType, KeyType, ObjectClass};
use cryptoki::session::UserType;
use cryptoki::types::AuthPin;
use cryptoki_sys::*;

const SOFTHSM: &str = "/usr/lib/softhsm/libsofthsm2.so";
const TOKEN_PIN: &str = "48151623";
const METASLOT: CK_SLOT_ID = 2;
const LABELS: [&str; 2] = ["one", "two"];

/// The program that the module starts for each token: this one, which runs this alone.
#[test]
#[ignore = "the modules of tests start it, and speak with it over standard input"]
fn host_of_a_token() {
    ciphermill_token::serve().expect("a parent that asks until it hangs up");
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("the program is installed");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn import(token: &str, key: &[&str]) {
    run("softhsm2-util", &[key, &["--token", token, "--pin", TOKEN_PIN]].concat());
}

/// Adds a certificate and a private public key to each token, and lets the pairs on curves agree, which those that softhsm2-util imports may
/// not.
fn complete_tokens() {
    let softhsm = Pkcs11::new(SOFTHSM).expect("loads");
    softhsm.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)).expect("initialises");
    let slots = softhsm.get_slots_with_initialized_token().expect("slots");
    for slot in slots {
        let session = softhsm.open_rw_session(slot).expect("opens");
        session.login(UserType::User, Some(&AuthPin::new(TOKEN_PIN.into()))).expect("the PIN");
        let wanted = [Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(KeyType::EC)];
        for key in session.find_objects(&wanted).expect("keys") {
            session.update_attributes(key, &[Attribute::Derive(true)]).expect("may be changed");
        }
        for (label, is_private) in [("open", false), ("hidden", true)] {
            // As long as real ones with many names may be, and nothing that is read here.
            let attributes = [
                Attribute::Class(ObjectClass::CERTIFICATE),
                Attribute::CertificateType(CertificateType::X_509),
                Attribute::Token(true),
                Attribute::Private(is_private),
                Attribute::Label(label.into()),
                Attribute::Id(vec![1]),
                Attribute::Subject(vec![0x30, 0]),
                Attribute::Value(vec![0x30; 6000]),
            ];
            session.create_object(&attributes).expect("a certificate");
        }
    }
}

/// Tokens with a pair of RSA, one on P-256 and an AES key; the configuration that attaches them, and `more` of it. `softhsm` joins that of
/// SoftHSM.
fn tokens(folder: &Path, more: &str, softhsm: &str) -> String {
    assert!(Path::new(SOFTHSM).exists(), "these tests need SoftHSM: install the package softhsm2");
    let place = |name: &str| folder.join(name).display().to_string();
    std::fs::create_dir(folder.join("softhsm")).expect("a folder");
    let own = format!("directories.tokendir = {}\nlog.level = ERROR\n{softhsm}", place("softhsm"));
    std::fs::write(folder.join("softhsm2.conf"), own).expect("a file");
    // SAFETY: tests that read the environment wait for their turn.
    unsafe {
        std::env::set_var("SOFTHSM2_CONF", folder.join("softhsm2.conf"));
        std::env::set_var("METASLOT_TEST_PIN", TOKEN_PIN);
    }
    for (label, option) in [("RSA", "rsa_keygen_bits:2048"), ("EC", "ec_paramgen_curve:P-256")] {
        run("openssl", &["genpkey", "-algorithm", label, "-pkeyopt", option, "-out", &place(label)]);
    }
    std::fs::write(folder.join("AES"), [7; 32]).expect("a file");
    let program = std::env::current_exe().expect("a path");
    let host = [program.to_str().expect("a path"), "--ignored", "--exact", "host_of_a_token", "--nocapture"];
    let mut text = format!("host = {host:?}\n{more}");
    for token in LABELS {
        run("softhsm2-util", &["--init-token", "--free", "--label", token, "--so-pin", "11223344", "--pin", TOKEN_PIN]);
        for (label, id) in [("RSA", "01"), ("EC", "02")] {
            import(token, &["--import", &place(label), "--label", label, "--id", id]);
        }
        import(token, &["--import", &place("AES"), "--aes", "--label", "AES", "--id", "03"]);
        text += &format!(
            "[[token]]\nname = \"{token}\"\nmodule = \"{SOFTHSM}\"\nlabel = \"{token}\"\npin_env = \"METASLOT_TEST_PIN\"\n"
        );
    }
    complete_tokens();
    text
}

fn open() -> Module {
    Module::prepared(|folder| tokens(folder, "", "")).initialized()
}

/// A session with the metaslot, with the user logged in.
fn client(module: &Module) -> Client<'_> {
    let session = module.session_with(METASLOT, true);
    assert_eq!(call!(module, C_Login, session, CKU_USER, pin(PIN), len(PIN)), CKR_OK);
    Client { module, session }
}

/// The one object of a class and label that the session sees.
fn the(client: Client<'_>, class: CK_OBJECT_CLASS, label: &str) -> CK_OBJECT_HANDLE {
    let mut template = Template::new();
    template.number(CKA_CLASS, class).bytes(CKA_LABEL, label.as_bytes());
    let found = client.module.find(client.session, &mut template);
    assert_eq!(found.len(), 1, "{label} of class {class}");
    found[0]
}

#[test]
fn it_shows_the_keystore_and_the_tokens_keys_once_each() {
    let module = open();
    let mut slots = [0; 8];
    let mut count = 8;
    assert_eq!(call!(module, C_GetSlotList, CK_TRUE, slots.as_mut_ptr(), &mut count), CKR_OK);
    assert_eq!(slots[..count as usize], [0, 1, METASLOT]);
    let mut info = CK_TOKEN_INFO::default();
    assert_eq!(call!(module, C_GetTokenInfo, METASLOT, &mut info), CKR_OK);
    assert!(info.label.starts_with(b"Ciphermill metaslot  ") && info.model.starts_with(b"metaslot"));
    let mut label = *b"another                         ";
    let initialised = call!(module, C_InitToken, METASLOT, pin(PIN), len(PIN), label.as_mut_ptr());
    assert_eq!(initialised, CKR_TOKEN_WRITE_PROTECTED);

    let visitor = module.session_with(METASLOT, false);
    let mut private = Template::new();
    private.number(CKA_CLASS, CKO_PRIVATE_KEY);
    assert!(module.find(visitor, &mut private).is_empty(), "nobody is logged in");
    let mut certificates = Template::new();
    certificates.number(CKA_CLASS, CKO_CERTIFICATE);
    let open = module.find(visitor, &mut certificates);
    assert_eq!(open.len(), 1, "the other is private");
    assert_eq!(module.value(visitor, open[0], CKA_VALUE), Ok(vec![0x30; 6000]));
    let client = client(&module);
    let own = client.generate(
        &mut Given::none(CKM_AES_KEY_GEN),
        Template::new().number(CKA_VALUE_LEN, 16).flag(CKA_TOKEN, true).bytes(CKA_LABEL, b"own"),
    );
    let own = own.expect("a key in the keystore");
    assert_eq!(the(client, CKO_SECRET_KEY, "own"), own);
    for (class, label) in [
        (CKO_PRIVATE_KEY, "RSA"),
        (CKO_PUBLIC_KEY, "RSA"),
        (CKO_PRIVATE_KEY, "EC"),
        (CKO_PUBLIC_KEY, "EC"),
        (CKO_SECRET_KEY, "AES"),
    ] {
        let key = the(client, class, label);
        assert_eq!(the(client, class, label), key, "handles stay");
        assert_eq!(client.value(key, CKA_TOKEN), Ok(vec![1]));
    }
    assert_eq!(module.find(client.session, &mut certificates).len(), 2);
    assert_eq!(client.value(the(client, CKO_PRIVATE_KEY, "RSA"), CKA_ID), Ok(vec![1]));
    // The keystore's own slot shows what is in it, and no token's keys.
    let alone = module.user();
    let mut any = Template::new();
    assert_eq!(module.find(alone, any.bytes(CKA_LABEL, b"own")).len(), 1);
    assert!(module.find(alone, Template::new().bytes(CKA_LABEL, b"RSA")).is_empty());
    assert_eq!(call!(module, C_Logout, client.session), CKR_OK);
    assert!(module.find(client.session, &mut private).is_empty());
}

#[test]
fn what_a_token_has_is_neither_changed_nor_given_out() {
    let module = open();
    let client = client(&module);
    for (class, label) in [
        (CKO_PRIVATE_KEY, "RSA"),
        (CKO_PRIVATE_KEY, "EC"),
        (CKO_SECRET_KEY, "AES"),
        (CKO_PUBLIC_KEY, "RSA"),
        (CKO_CERTIFICATE, "open"),
    ] {
        let key = the(client, class, label);
        assert_eq!(call!(module, C_DestroyObject, client.session, key), CKR_ACTION_PROHIBITED);
        let mut changes = Template::new();
        let (at, count) = changes.bytes(CKA_LABEL, b"mine").parts();
        assert_eq!(call!(module, C_SetAttributeValue, client.session, key, at, count), CKR_ACTION_PROHIBITED);
        let mut copy = 0;
        let copied = call!(module, C_CopyObject, client.session, key, null_mut(), 0, &mut copy);
        assert_eq!(copied, CKR_ACTION_PROHIBITED);
        if !matches!(class, CKO_PRIVATE_KEY | CKO_SECRET_KEY) {
            continue;
        }
        let secret = if label == "RSA" { CKA_PRIVATE_EXPONENT } else { CKA_VALUE };
        assert_eq!(client.value(key, secret), Err(CKR_ATTRIBUTE_SENSITIVE));
        let wrapping = module.aes(client.session);
        let wrapped = client.wrap(&mut Given::none(CKM_AES_KEY_WRAP_KWP), wrapping, key);
        assert_eq!(wrapped, Err(CKR_KEY_UNEXTRACTABLE));
    }
    // Its bytes here are its name, which nothing may be derived of.
    let key = the(client, CKO_SECRET_KEY, "AES");
    let mut data = *b"more";
    let parameter = CK_KEY_DERIVATION_STRING_DATA { pData: data.as_mut_ptr(), ulLen: 4 };
    let mut given = Given::of(CKM_CONCATENATE_BASE_AND_DATA, parameter);
    let derived = client.derive(&mut given, key, &mut Template::secret(CKK_GENERIC_SECRET));
    assert_eq!(derived, Err(CKR_KEY_FUNCTION_NOT_PERMITTED));
}

fn pss(digest: CK_MECHANISM_TYPE, mask: CK_RSA_PKCS_MGF_TYPE, salt: CK_ULONG) -> CK_RSA_PKCS_PSS_PARAMS {
    CK_RSA_PKCS_PSS_PARAMS { hashAlg: digest, mgf: mask, sLen: salt }
}

#[test]
fn the_tokens_keys_sign_and_the_module_verifies() {
    let module = open();
    let client = client(&module);
    let usual = pss(CKM_SHA256, CKG_MGF1_SHA256, 32);
    let cases = [
        ("RSA", Given::none(CKM_RSA_PKCS), 51),
        ("RSA", Given::none(CKM_SHA256_RSA_PKCS), 1000),
        ("RSA", Given::none(CKM_SHA3_256_RSA_PKCS), 1000),
        ("RSA", Given::of(CKM_SHA256_RSA_PKCS_PSS, usual), 1000),
        ("RSA", Given::of(CKM_SHA256_RSA_PKCS_PSS, pss(CKM_SHA256, CKG_MGF1_SHA256, 20)), 1000),
        ("RSA", Given::of(CKM_RSA_PKCS_PSS, usual), 32),
        ("RSA", Given::none(CKM_RSA_X_509), 200),
        ("EC", Given::none(CKM_ECDSA), 32),
        ("EC", Given::none(CKM_ECDSA_SHA256), 1000),
        ("EC", Given::none(CKM_ECDSA_SHA512), 1000),
    ];
    for (label, mut given, length) in cases {
        let (private, public) = (the(client, CKO_PRIVATE_KEY, label), the(client, CKO_PUBLIC_KEY, label));
        let data: Vec<u8> = (0..length).map(|at| at as u8 | 1).collect();
        let signature = client.sign(&mut given, private, &data);
        let signature = signature.unwrap_or_else(|rv| panic!("{label} {:#x}: {rv:#x}", given.kind()));
        assert_eq!(client.verify(&mut given, public, &data, &signature), CKR_OK, "{:#x}", given.kind());
        let mut other = data.clone();
        other[20] ^= 2;
        assert_eq!(client.verify(&mut given, public, &other, &signature), CKR_SIGNATURE_INVALID);
        if given.kind() != CKM_RSA_PKCS && length == 1000 {
            let parts = client.sign_in_parts(&mut given, private, &data);
            assert_eq!(client.verify(&mut given, public, &data, &parts), CKR_OK, "{:#x} in parts", given.kind());
        }
    }
}

fn oaep(digest: CK_MECHANISM_TYPE, mask: CK_RSA_PKCS_MGF_TYPE) -> CK_RSA_PKCS_OAEP_PARAMS {
    CK_RSA_PKCS_OAEP_PARAMS {
        hashAlg: digest,
        mgf: mask,
        source: CKZ_DATA_SPECIFIED,
        pSourceData: null_mut(),
        ulSourceDataLen: 0,
    }
}

#[test]
fn the_tokens_keys_decrypt_agree_and_encrypt() {
    let module = open();
    let client = client(&module);
    let (private, public) = (the(client, CKO_PRIVATE_KEY, "RSA"), the(client, CKO_PUBLIC_KEY, "RSA"));
    for mut given in [
        Given::none(CKM_RSA_PKCS),
        Given::of(CKM_RSA_PKCS_OAEP, oaep(CKM_SHA256, CKG_MGF1_SHA256)),
        Given::of(CKM_RSA_PKCS_OAEP, oaep(CKM_SHA_1, CKG_MGF1_SHA1)),
    ] {
        let encrypted = client.cipher_once(&mut given, public, b"a message", true).expect("encrypted");
        assert_eq!(client.cipher_once(&mut given, private, &encrypted, false), Ok(b"a message".to_vec()));
        let mut damaged = encrypted;
        damaged[100] ^= 1;
        assert!(client.cipher_once(&mut given, private, &damaged, false).is_err());
    }
    // With a pair of the module's own: both come to the same secret.
    let own = module.p256(client.session);
    let point = |key| client.value(key, CKA_EC_POINT).expect("a point")[2..].to_vec();
    let theirs = (the(client, CKO_PRIVATE_KEY, "EC"), the(client, CKO_PUBLIC_KEY, "EC"));
    let agreed = |private, public: CK_OBJECT_HANDLE| {
        let point = point(public);
        client.derived(&mut Given::of(CKM_ECDH1_DERIVE, ecdh(&point)), private, None).expect("a secret")
    };
    assert_eq!(agreed(theirs.0, own.0), agreed(own.1, theirs.1));

    let key = the(client, CKO_SECRET_KEY, "AES");
    let same = client.secret(CKK_AES, &[7; 32]);
    let text: Vec<u8> = (0..80).collect();
    let iv = [9; 12];
    for mut given in [
        Given::of(CKM_AES_GCM, gcm(&iv, b"more", 16)),
        Given::bytes(CKM_AES_CBC, &[3; 16]),
        Given::bytes(CKM_AES_CBC_PAD, &[3; 16]),
        Given::none(CKM_AES_ECB),
    ] {
        let kind = given.kind();
        let encrypted = client.cipher(&mut given, key, &text, true).expect("encrypted");
        assert_eq!(client.cipher(&mut given, same, &text, true), Ok(encrypted.clone()), "{kind:#x}");
        assert_eq!(client.cipher(&mut given, key, &encrypted, false), Ok(text.clone()), "{kind:#x}");
    }
    let mut cmac = Given::none(CKM_AES_CMAC);
    let signed = client.sign(&mut cmac, key, &text).expect("a MAC");
    assert_eq!(client.sign(&mut cmac, same, &text), Ok(signed.clone()));
    assert_eq!(client.verify(&mut cmac, key, &text, &signed), CKR_OK);
    // What no token offers of such a key is refused.
    let mut nonce = [5; 12];
    let ccm = CK_CCM_PARAMS {
        ulDataLen: text.len() as CK_ULONG,
        pNonce: nonce.as_mut_ptr(),
        ulNonceLen: 12,
        pAAD: null_mut(),
        ulAADLen: 0,
        ulMACLen: 16,
    };
    let mut given = Given::of(CKM_AES_CCM, ccm);
    assert!(client.cipher(&mut given, same, &text, true).is_ok());
    assert_eq!(client.cipher(&mut given, key, &text, true), Err(CKR_KEY_FUNCTION_NOT_PERMITTED));
}

#[test]
fn tokens_without_the_primitive_pad_themselves() {
    // SoftHSM 2.6.1 takes the minus for part of the first name.
    let module = Module::prepared(|folder| tokens(folder, "", "slots.mechanisms = -,CKM_RSA_X_509\n")).initialized();
    let client = client(&module);
    let (private, public) = (the(client, CKO_PRIVATE_KEY, "RSA"), the(client, CKO_PUBLIC_KEY, "RSA"));
    let usual = pss(CKM_SHA256, CKG_MGF1_SHA256, 32);
    for mut given in [Given::none(CKM_SHA256_RSA_PKCS), Given::of(CKM_SHA256_RSA_PKCS_PSS, usual)] {
        let signature = client.sign(&mut given, private, b"a message").expect("signed");
        assert_eq!(client.verify(&mut given, public, b"a message", &signature), CKR_OK, "{:#x}", given.kind());
        let parts = client.sign_in_parts(&mut given, private, b"a message");
        assert_eq!(client.verify(&mut given, public, b"a message", &parts), CKR_OK, "{:#x}", given.kind());
    }
    let mut given = Given::of(CKM_RSA_PKCS_OAEP, oaep(CKM_SHA_1, CKG_MGF1_SHA1));
    let encrypted = client.cipher_once(&mut given, public, b"a message", true).expect("encrypted");
    assert_eq!(client.cipher_once(&mut given, private, &encrypted, false), Ok(b"a message".to_vec()));
    let mut odd = Given::of(CKM_SHA256_RSA_PKCS_PSS, pss(CKM_SHA256, CKG_MGF1_SHA256, 20));
    assert_eq!(client.sign(&mut odd, private, b"a message"), Err(CKR_MECHANISM_PARAM_INVALID));
    assert!(client.sign(&mut Given::none(CKM_RSA_X_509), private, &[1; 200]).is_err());
}

/// The processes that this one has started for tokens; one that was killed is listed until somebody asks how it ended.
fn hosts() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let children = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    children.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Those of them that have not ended.
fn running_hosts() -> Vec<String> {
    let runs = |host: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{host}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|behind| !behind.trim_start().starts_with(['Z', 'X']) && !behind.is_empty())
    };
    hosts().into_iter().filter(runs).collect()
}

/// How long both tokens run before one of them is killed: who is started anew has to log in and to be tried.
const TOGETHER: Duration = Duration::from_millis(500);

#[test]
fn a_token_that_dies_costs_no_signature() {
    let module = open();
    let client = client(&module);
    let mut given = Given::none(CKM_ECDSA_SHA256);
    let (private, public) = (the(client, CKO_PRIVATE_KEY, "EC"), the(client, CKO_PUBLIC_KEY, "EC"));
    let (begun, mut both_since, mut killed, mut last_round) = (Instant::now(), None, 0, 0);
    for round in 0_u32.. {
        let hosts = running_hosts();
        both_since = if hosts.len() >= 2 { both_since.or_else(|| Some(Instant::now())) } else { None };
        if killed < 3 && both_since.is_some_and(|since: Instant| since.elapsed() >= TOGETHER) {
            run("kill", &["-9", &hosts[killed % hosts.len()]]);
            (killed, both_since, last_round) = (killed + 1, None, round + 20);
        }
        if killed == 3 && round >= last_round {
            break;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "tokens that were killed {killed} times come back: {hosts:?}"
        );
        // A token that the other one is faster than gets no signatures, and is started when it is asked what it has: by searches.
        assert_eq!(the(client, CKO_PRIVATE_KEY, "EC"), private);
        let signature = client.sign(&mut given, private, &round.to_be_bytes()).expect("the other token signs");
        assert_eq!(client.verify(&mut given, public, &round.to_be_bytes(), &signature), CKR_OK);
    }
    assert_eq!(call!(module, C_Finalize, null_mut()), CKR_OK);
    assert!(hosts().is_empty(), "the library has ended, and with it what it has started");
}

#[test]
fn a_token_that_is_not_there_leaves_the_others() {
    let more = format!("[[token]]\nname = \"none\"\nmodule = \"{SOFTHSM}\"\nlabel = \"none\"\n");
    let module = Module::prepared(|folder| tokens(folder, &more, "")).initialized();
    let client = client(&module);
    let mut given = Given::none(CKM_ECDSA_SHA256);
    assert!(client.sign(&mut given, the(client, CKO_PRIVATE_KEY, "EC"), b"text").is_ok());
}
