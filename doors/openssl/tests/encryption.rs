//! What was encrypted under RSA keys, decrypted in the mill: every digest and label of OAEP, no padding, and what is wrong.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use openssl::md::{Md, MdRef};
use openssl::pkey::{PKey, PKeyRef, Private};
use openssl::pkey_ctx::{PkeyCtx, PkeyCtxRef};
use openssl::rsa::{Padding, Rsa};

/// How OAEP pads: its digest, that of its mask, its label.
type Oaep = (Option<&'static MdRef>, Option<&'static MdRef>, &'static [u8]);

fn set(context: &mut PkeyCtxRef<Private>, (md, mgf1, label): Oaep) {
    context.set_rsa_padding(Padding::PKCS1_OAEP).expect("set");
    if let Some(md) = md {
        context.set_rsa_oaep_md(md).expect("set");
    }
    if let Some(mgf1) = mgf1 {
        context.set_rsa_mgf1_md(mgf1).expect("set");
    }
    if !label.is_empty() {
        context.set_rsa_oaep_label(label).expect("set");
    }
}

/// `default` encrypts.
fn encrypt(key: &PKeyRef<Private>, message: &[u8], set: impl Fn(&mut PkeyCtxRef<Private>)) -> Vec<u8> {
    let mut context = PkeyCtx::new(key).expect("a context");
    context.encrypt_init().expect("begun");
    set(&mut context);
    let mut encrypted = Vec::new();
    context.encrypt_to_vec(message, &mut encrypted).expect("encrypted");
    encrypted
}

/// What comes out, and how many operations the mill did for it.
fn decrypt(key: &PKeyRef<Private>, encrypted: &[u8], set: impl Fn(&mut PkeyCtxRef<Private>)) -> (Option<Vec<u8>>, u64) {
    let before = support::operations().0;
    let mut context = PkeyCtx::new(key).expect("a context");
    context.decrypt_init().expect("begun");
    set(&mut context);
    let mut decrypted = vec![0xaa; encrypted.len() + 1];
    let len = context.decrypt(encrypted, Some(&mut decrypted)).ok();
    let done = support::operations().0 - before;
    if len.is_none() {
        assert!(decrypted.iter().all(|byte| *byte == 0xaa), "something came out of what failed");
    }
    (len.map(|len| decrypted[..len].to_vec()), done)
}

/// Counts are the process's, so that what looks at them runs alone.
#[test]
fn what_default_encrypts_the_mill_decrypts() {
    support::load();
    let ways: [Oaep; 6] = [
        (None, None, b""),
        (None, None, b"a label"),
        (Some(Md::sha256()), None, b""),
        (Some(Md::sha256()), Some(Md::sha1()), b"another"),
        (Some(Md::sha384()), Some(Md::sha512()), b""),
        (Some(Md::sha3_256()), Some(Md::sha224()), b"\0"),
    ];
    for bits in [1024, 2048, 3072, 4096] {
        let key = PKey::from_rsa(Rsa::generate(bits).expect("a key")).expect("a key");
        let other = PKey::from_rsa(Rsa::generate(bits).expect("a key")).expect("a key");
        for way in ways {
            for message in [&b""[..], b"a message"] {
                let encrypted = encrypt(&key, message, |context| set(context, way));
                assert_eq!(decrypt(&key, &encrypted, |context| set(context, way)), (Some(message.to_vec()), 1));
                let relabelled = (way.0, way.1, &b"a wrong label"[..]);
                assert_eq!(decrypt(&key, &encrypted, |context| set(context, relabelled)), (None, 1));
                // A number as large as that may be no smaller than the other modulus: then `default` has the word.
                assert_eq!(decrypt(&other, &encrypted, |context| set(context, way)).0, None);
                let cut = &encrypted[..encrypted.len() - 1];
                assert_eq!(decrypt(&key, cut, |context| set(context, way)), (None, 0));
            }
        }
        let none = |context: &mut PkeyCtxRef<Private>| context.set_rsa_padding(Padding::NONE).expect("set");
        let message = [&[0][..], &vec![3; key.size() - 1]].concat();
        let encrypted = encrypt(&key, &message, none);
        assert_eq!(decrypt(&key, &encrypted, none), (Some(message), 1));
        assert_eq!(decrypt(&key, &vec![0xff; key.size()], none).0, None);
        let pkcs1 = |context: &mut PkeyCtxRef<Private>| context.set_rsa_padding(Padding::PKCS1).expect("set");
        let encrypted = encrypt(&key, b"a message", pkcs1);
        assert_eq!(decrypt(&key, &encrypted, pkcs1), (Some(b"a message".to_vec()), 0));
    }
}
