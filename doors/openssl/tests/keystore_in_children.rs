//! A key of the keystore in a process that gives up its rights and forks, as servers do. Alone in its process, whose environment it sets.
#![allow(unsafe_code, reason = "a process that forks")]
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ciphermill::KeyPolicy;
use ciphermill_contract::KeyMaterial;
use ciphermill_keys::keystore::{KdfParameters, Keystore, MasterSecret};
use openssl::pkey::{PKey, Private};
use openssl::sign::{Signer, Verifier};

/// A server reads its key as root, and its workers, which are forked later, have no right to the keystore.
#[test]
fn a_key_outlives_its_keystore_in_children() {
    support::load();
    let folder = env::temp_dir().join(format!("ciphermill-openssl-{}-fork", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let passphrase = "correct horse battery staple";
    let least = KdfParameters::new(KdfParameters::MEMORY_KIB_MIN, 2, 1).expect("parameters");
    let secret = MasterSecret::passphrase(passphrase);
    let mut keystore = Keystore::create_with(folder.join("keys"), &secret, least).expect("a keystore");
    let made = PKey::generate_ed25519().expect("a key");
    let policy = KeyPolicy::only("ed25519".parse().expect("a suite"));
    let raw = made.raw_private_key().expect("a seed");
    keystore.import("signer", KeyMaterial::private(&raw), policy).expect("imported");
    let pem = String::from_utf8(made.private_key_to_pem_pkcs8().expect("PEM")).expect("text");
    let text = support::reference(&pem, "ciphermill:signer");
    // SAFETY: this process has one test, and it reads the environment in this thread alone.
    unsafe { env::set_var("CIPHERMILL_KEYSTORE", folder.join("keys")) };

    let refused = |text: String, words: &str| {
        let told = PKey::private_key_from_pem(text.as_bytes()).expect_err("refused").to_string();
        assert!(told.contains(words), "{told}");
    };
    let x25519 = PKey::generate_x25519().expect("a key").private_key_to_pem_pkcs8().expect("PEM");
    let x25519 = String::from_utf8(x25519).expect("text");
    // SAFETY: as above.
    unsafe { env::set_var("CIPHERMILL_PASSPHRASE", passphrase) };
    refused(support::reference(&x25519, "ciphermill:signer"), "it is a key of another type");
    refused(support::reference(&x25519, "ciphermill:"), "the name of a key");
    refused(support::reference(&pem, "ciphermill:another"), "no key `another`");
    // SAFETY: as above.
    unsafe { env::remove_var("CIPHERMILL_PASSPHRASE") };

    let typed = |typed: &'static str| {
        PKey::private_key_from_pem_callback(text.as_bytes(), move |room| {
            room[..typed.len()].copy_from_slice(typed.as_bytes());
            Ok(typed.len())
        })
    };
    assert!(typed("another passphrase").is_err());
    let key = typed(passphrase).expect("a key");
    fs::remove_dir_all(&folder).expect("removed");
    assert!(typed(passphrase).is_err());
    let before = support::operations().0;
    assert!(signs(&key, &made));
    assert!(signs(&key.clone(), &made));
    assert_eq!(support::operations().0 - before, 2);
    assert!(key.raw_private_key().is_err() && key.private_key_to_der().is_err());
    // SAFETY: no other thread of this process holds a lock of what the child uses; it ends by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = catch_unwind(AssertUnwindSafe(|| signs(&key, &made))).unwrap_or(false);
        // SAFETY: nothing of the test's harness is to run here.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: a child of this process, and a place for its status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:#x}");
    assert!(signs(&key, &made));
}

fn signs(key: &PKey<Private>, made: &PKey<Private>) -> bool {
    let mut signer = Signer::new_without_digest(key).expect("a signer");
    let signature = signer.sign_oneshot_to_vec(b"a message").expect("a signature");
    let mut verifier = Verifier::new_without_digest(made).expect("a verifier");
    verifier.verify_oneshot(&signature, b"a message").expect("verified")
}
