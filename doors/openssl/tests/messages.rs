//! Signatures of whole messages by algorithms that have their digest in their name, which OpenSSL has since 3.4.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

mod support;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use foreign_types::{ForeignType, ForeignTypeRef};
use openssl::ec::{EcGroup, EcKey};
use openssl::nid::Nid;
use openssl::pkey::{PKey, PKeyRef, Private};
use openssl::rsa::Rsa;
use openssl::sign::{Signer, Verifier};

type Context = *mut c_void;
type Algorithm = *mut c_void;
type Begin = unsafe extern "C" fn(Context, Algorithm, *const c_void) -> c_int;
type Update = unsafe extern "C" fn(Context, *const u8, usize) -> c_int;

unsafe extern "C" {
    fn EVP_PKEY_CTX_new_from_pkey(
        context: *mut c_void,
        key: *mut openssl_sys::EVP_PKEY,
        properties: *const c_char,
    ) -> Context;
    fn EVP_PKEY_Q_keygen(
        context: *mut c_void,
        properties: *const c_char,
        kind: *const c_char,
        ...
    ) -> *mut openssl_sys::EVP_PKEY;
    fn EVP_PKEY_CTX_free(context: Context);
    fn EVP_PKEY_CTX_dup(context: Context) -> Context;
    fn EVP_SIGNATURE_fetch(context: *mut c_void, name: *const c_char, properties: *const c_char) -> Algorithm;
    fn EVP_SIGNATURE_free(algorithm: Algorithm);
    fn EVP_PKEY_sign(context: Context, out: *mut u8, len: *mut usize, data: *const u8, data_len: usize) -> c_int;
    fn EVP_PKEY_verify(context: Context, signature: *const u8, len: usize, data: *const u8, data_len: usize) -> c_int;
}

/// What libcrypto has had since 3.4.
struct Messages {
    sign_init: Begin,
    sign_message_init: Begin,
    sign_message_update: Update,
    sign_message_final: unsafe extern "C" fn(Context, *mut u8, *mut usize) -> c_int,
    verify_init: Begin,
    verify_message_init: Begin,
    verify_message_update: Update,
    verify_message_final: unsafe extern "C" fn(Context) -> c_int,
    set_signature: Update,
}

impl Messages {
    fn find() -> Option<Messages> {
        macro_rules! find {
            ($name:literal) => {{
                // SAFETY: a string; the function of this name has the type of the field that it is for.
                let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, $name.as_ptr()) };
                // SAFETY: as above.
                (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
            }};
        }
        Some(Messages {
            sign_init: find!(c"EVP_PKEY_sign_init_ex2")?,
            sign_message_init: find!(c"EVP_PKEY_sign_message_init")?,
            sign_message_update: find!(c"EVP_PKEY_sign_message_update")?,
            sign_message_final: find!(c"EVP_PKEY_sign_message_final")?,
            verify_init: find!(c"EVP_PKEY_verify_init_ex2")?,
            verify_message_init: find!(c"EVP_PKEY_verify_message_init")?,
            verify_message_update: find!(c"EVP_PKEY_verify_message_update")?,
            verify_message_final: find!(c"EVP_PKEY_verify_message_final")?,
            set_signature: find!(c"EVP_PKEY_CTX_set_signature")?,
        })
    }
}

/// A context with a key and an algorithm, of one provider or the other.
struct Signing {
    context: Context,
    algorithm: Algorithm,
}

impl Signing {
    fn new(key: &PKeyRef<Private>, name: &CStr, properties: &CStr) -> Signing {
        // SAFETY: strings and a key; what is returned is looked at.
        unsafe {
            let context = EVP_PKEY_CTX_new_from_pkey(ptr::null_mut(), key.as_ptr(), ptr::null());
            let algorithm = EVP_SIGNATURE_fetch(ptr::null_mut(), name.as_ptr(), properties.as_ptr());
            assert!(!context.is_null() && !algorithm.is_null(), "{name:?}");
            Signing { context, algorithm }
        }
    }

    fn begin(&self, begin: Begin) -> &Signing {
        // SAFETY: an end of parameters, and nothing before it.
        let end: openssl_sys::OSSL_PARAM = unsafe { openssl_sys::OSSL_PARAM_construct_end() };
        self.begin_with(begin, &[end])
    }

    fn begin_with(&self, begin: Begin, params: &[openssl_sys::OSSL_PARAM]) -> &Signing {
        // SAFETY: both are alive; the parameters have an end.
        assert_eq!(unsafe { begin(self.context, self.algorithm, params.as_ptr().cast()) }, 1);
        self
    }

    fn sign(&self, data: &[u8]) -> Option<Vec<u8>> {
        let mut out = vec![0; 5000];
        let mut len = out.len();
        // SAFETY: buffers of their lengths.
        let done = unsafe { EVP_PKEY_sign(self.context, out.as_mut_ptr(), &mut len, data.as_ptr(), data.len()) };
        out.truncate(len);
        (done == 1).then_some(out)
    }

    fn verifies(&self, signature: &[u8], data: &[u8]) -> bool {
        let (signature, len) = (signature.as_ptr(), signature.len());
        // SAFETY: buffers of their lengths.
        unsafe { EVP_PKEY_verify(self.context, signature, len, data.as_ptr(), data.len()) == 1 }
    }

    fn add(&self, add: Update, data: &[u8]) -> bool {
        // SAFETY: a buffer of its length.
        unsafe { add(self.context, data.as_ptr(), data.len()) == 1 }
    }

    fn end(&self, messages: &Messages) -> Option<Vec<u8>> {
        let (mut needed, mut out) = (0, vec![0; 1024]);
        // SAFETY: it is asked for a length.
        assert_eq!(unsafe { (messages.sign_message_final)(self.context, ptr::null_mut(), &mut needed) }, 1);
        let mut len = needed;
        // SAFETY: there is room for as much.
        let done = unsafe { (messages.sign_message_final)(self.context, out.as_mut_ptr(), &mut len) };
        assert!(len <= needed);
        out.truncate(len);
        (done == 1).then_some(out)
    }

    fn copy(&self) -> Signing {
        // SAFETY: a context that is alive.
        let context = unsafe { EVP_PKEY_CTX_dup(self.context) };
        assert!(!context.is_null());
        Signing { context, algorithm: ptr::null_mut() }
    }
}

impl Drop for Signing {
    fn drop(&mut self) {
        // SAFETY: this value's own.
        unsafe {
            EVP_PKEY_CTX_free(self.context);
            EVP_SIGNATURE_free(self.algorithm);
        }
    }
}

const MESSAGE: &[u8] = b"a message in two parts";
const OURS: &CStr = c"provider=ciphermill";
const DEFAULTS: &CStr = c"provider=default";

fn done_in_mill<R>(work: impl FnOnce() -> R) -> R {
    let before = support::operations();
    let result = work();
    let after = support::operations();
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 0), "one operation of the mill, and none of `default`");
    result
}

/// All in one: counts are the process's.
#[test]
fn whole_messages_are_signed_as_by_default() {
    support::load();
    let Some(messages) = Messages::find() else {
        eprintln!("not looked at: signatures of whole messages, which this OpenSSL does not have yet");
        return;
    };
    let ec = |curve| {
        let group = EcGroup::from_curve_name(curve).expect("a curve");
        PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
    };
    let (p256, p384) = (ec(Nid::X9_62_PRIME256V1), ec(Nid::SECP384R1));
    let rsa = PKey::from_rsa(Rsa::generate(2048).expect("a key")).expect("a key");
    let digests = [(c"SHA1", 20), (c"SHA2-256", 32), (c"SHA2-512", 64), (c"SHA3-384", 48)];
    for (digest, digest_len) in digests {
        for (key, family) in [(&rsa, "RSA"), (&p256, "ECDSA"), (&p384, "ECDSA")] {
            let name = format!("{family}-{}\0", digest.to_str().expect("a name"));
            let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("a name");
            in_one_piece(&messages, key, name);
            in_parts(&messages, key, name);
            of_digests(&messages, key, name, digest_len);
        }
    }
    let ed25519 = PKey::generate_ed25519().expect("a key");
    in_one_piece(&messages, &ed25519, c"ED25519");
    for name in [c"ML-DSA-44", c"ML-DSA-65", c"ML-DSA-87"] {
        of_lattices(&messages, name);
    }
    // The order of calls is `default`'s to judge.
    let begun = Signing::new(&rsa, c"RSA-SHA2-256", OURS);
    begun.begin(messages.sign_message_init);
    assert!(begun.add(messages.sign_message_update, MESSAGE));
    assert!(begun.sign(MESSAGE).is_none(), "a whole message after parts");
}

fn in_one_piece(messages: &Messages, key: &PKeyRef<Private>, name: &CStr) {
    let own = Signing::new(key, name, OURS);
    own.begin(messages.sign_message_init);
    let signature = done_in_mill(|| own.sign(MESSAGE)).expect("a signature");
    assert_eq!(
        own.sign(MESSAGE).is_some(),
        ["ED25519", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"].map(str::as_bytes).contains(&name.to_bytes()),
        "{name:?}: a second message, as `default` takes it"
    );
    for properties in [OURS, DEFAULTS] {
        let verifying = Signing::new(key, name, properties);
        verifying.begin(messages.verify_message_init);
        assert!(verifying.verifies(&signature, MESSAGE), "{name:?}");
        let other = Signing::new(key, name, properties);
        assert!(!other.begin(messages.verify_message_init).verifies(&signature, b"another message"), "{name:?}");
    }
}

/// ML-DSA, which OpenSSL has since 3.5 (FIPS 204).
fn of_lattices(messages: &Messages, name: &CStr) {
    // SAFETY: strings; what is returned is looked at, and freed with the key.
    let key = unsafe { EVP_PKEY_Q_keygen(ptr::null_mut(), ptr::null(), name.as_ptr()) };
    if key.is_null() {
        eprintln!("not looked at: {name:?}, which this OpenSSL does not have yet");
        return;
    }
    // SAFETY: a key that nobody else has.
    let key: PKey<Private> = unsafe { PKey::from_ptr(key) };
    in_one_piece(messages, &key, name);
    let mut signer = Signer::new_without_digest(&key).expect("a signer");
    let signature = done_in_mill(|| signer.sign_oneshot_to_vec(MESSAGE)).expect("a signature");
    let mut verifier = Verifier::new_without_digest(&key).expect("a verifier");
    assert!(done_in_mill(|| verifier.verify_oneshot(&signature, MESSAGE)).expect("a verification"), "{name:?}");
    let whole = Signing::new(&key, name, OURS);
    whole.begin(messages.verify_message_init);
    assert!(done_in_mill(|| whole.verifies(&signature, MESSAGE)), "{name:?}");
    assert!(!whole.verifies(&signature[1..], MESSAGE) && !whole.verifies(&signature, b"another message"), "{name:?}");
    // Under a context string `default` signs.
    let mut string = *b"a context";
    // SAFETY: the parameter's place is alive as long as the parameters are.
    let params = unsafe {
        [
            openssl_sys::OSSL_PARAM_construct_octet_string(
                c"context-string".as_ptr(),
                string.as_mut_ptr().cast(),
                string.len(),
            ),
            openssl_sys::OSSL_PARAM_construct_end(),
        ]
    };
    let before = support::operations();
    let signature = Signing::new(&key, name, OURS)
        .begin_with(messages.sign_message_init, &params)
        .sign(MESSAGE)
        .expect("a signature");
    assert_eq!(support::operations().0, before.0, "{name:?}: nothing in the mill");
    let verifying = Signing::new(&key, name, DEFAULTS);
    assert!(verifying.begin_with(messages.verify_message_init, &params).verifies(&signature, MESSAGE), "{name:?}");
    let verifying = Signing::new(&key, name, DEFAULTS);
    assert!(!verifying.begin(messages.verify_message_init).verifies(&signature, MESSAGE), "{name:?}");
}

fn in_parts(messages: &Messages, key: &PKeyRef<Private>, name: &CStr) {
    let own = Signing::new(key, name, OURS);
    own.begin(messages.sign_message_init);
    assert!(own.add(messages.sign_message_update, &MESSAGE[..10]));
    let copy = own.copy();
    for signing in [&own, &copy] {
        assert!(signing.add(messages.sign_message_update, &MESSAGE[10..]));
        let signature = done_in_mill(|| signing.end(messages)).expect("a signature");
        assert!(!signing.add(messages.sign_message_update, MESSAGE), "{name:?}: it has ended");
        for properties in [OURS, DEFAULTS] {
            let verifying = Signing::new(key, name, properties);
            verifying.begin(messages.verify_message_init);
            assert!(verifying.add(messages.set_signature, &signature));
            assert!(verifying.add(messages.verify_message_update, MESSAGE));
            // SAFETY: a context that is alive.
            assert_eq!(unsafe { (messages.verify_message_final)(verifying.context) }, 1, "{name:?}");
        }
    }
}

fn of_digests(messages: &Messages, key: &PKeyRef<Private>, name: &CStr, digest_len: usize) {
    let digest = vec![7; digest_len];
    let own = Signing::new(key, name, OURS);
    let signature = done_in_mill(|| own.begin(messages.sign_init).sign(&digest)).expect("a signature");
    let verifying = Signing::new(key, name, DEFAULTS);
    assert!(verifying.begin(messages.verify_init).verifies(&signature, &digest), "{name:?}");
    // A message that is as long as a digest is none.
    let verifying = Signing::new(key, name, OURS);
    assert!(verifying.begin(messages.verify_init).verifies(&signature, &digest), "{name:?}");
    assert!(!verifying.begin(messages.verify_message_init).verifies(&signature, &digest), "{name:?}");
    assert!(own.begin(messages.sign_init).sign(&digest[1..]).is_none(), "{name:?}: a digest of another length");
}
