//! What the mill signs and agrees on, against OpenSSL's own verification and the other end; and contexts in the middle of their work.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use std::sync::Mutex;

use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::md::Md;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, PKeyRef, Private};
use openssl::pkey_ctx::PkeyCtx;
use openssl::rsa::{Padding, Rsa};
use openssl::sign::{RsaPssSaltlen, Signer, Verifier};

fn rsa(bits: u32) -> PKey<Private> {
    PKey::from_rsa(Rsa::generate(bits).expect("a key")).expect("a key")
}

fn ec(curve: Nid) -> PKey<Private> {
    let group = EcGroup::from_curve_name(curve).expect("a curve");
    PKey::from_ec_key(EcKey::generate(&group).expect("a key")).expect("a key")
}

/// Runs something, and says how many operations the mill has done for it and how many it left to `default`.
fn counted<R>(work: impl FnOnce() -> R) -> (R, u64, u64) {
    let before = support::operations();
    let result = work();
    let after = support::operations();
    (result, after.0 - before.0, after.1 - before.1)
}

fn digests() -> [MessageDigest; 9] {
    [
        MessageDigest::sha1(),
        MessageDigest::sha224(),
        MessageDigest::sha256(),
        MessageDigest::sha384(),
        MessageDigest::sha512(),
        MessageDigest::sha3_224(),
        MessageDigest::sha3_256(),
        MessageDigest::sha3_384(),
        MessageDigest::sha3_512(),
    ]
}

fn sign(key: &PKeyRef<Private>, digest: MessageDigest, set: impl Fn(&mut Signer<'_>)) -> Vec<u8> {
    let mut signer = Signer::new(digest, key).expect("a signer");
    set(&mut signer);
    signer.update(b"a message ").expect("taken");
    signer.update(b"in two parts").expect("taken");
    signer.sign_to_vec().expect("a signature")
}

/// Counts are the process's, so that what looks at them runs alone.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn signatures_are_those_that_openssl_verifies() {
    let _alone = ALONE.lock();
    support::load();
    for bits in [1024, 2048, 3072, 4096] {
        let key = rsa(bits);
        for digest in digests() {
            rsa_pkcs1(&key, digest);
            // As long as the digest, as long as there is room for, none, some.
            for salt in [-1, -3, 0, 11] {
                let needed = 2 * digest.size() + 2;
                if salt != -1 || needed <= key.size() {
                    rsa_pss(&key, digest, salt);
                }
            }
        }
    }
    for curve in [Nid::X9_62_PRIME256V1, Nid::SECP384R1, Nid::SECP521R1] {
        let key = ec(curve);
        for digest in digests() {
            let (signature, done, left) = counted(|| sign(&key, digest, |_| ()));
            assert_eq!((done, left), (1, 0), "{curve:?}");
            let (is_right, done, left) = counted(|| verifies(&key, digest, &signature, |_| ()));
            assert!(is_right);
            // The right one in the mill, and the wrong one by `default` once more, where `default` is slow.
            let by_mill = u64::from(curve != Nid::X9_62_PRIME256V1);
            assert_eq!((done, left), (by_mill, by_mill), "{curve:?}");
        }
        digests_verify(&key);
    }
    // Curves that the mill has no suite for are left to `default`.
    let key = ec(Nid::SECP256K1);
    let (signature, done, _) = counted(|| sign(&key, MessageDigest::sha256(), |_| ()));
    assert_eq!(done, 0);
    assert!(verifies(&key, MessageDigest::sha256(), &signature, |_| ()));
    ed25519();
    keys_agree();
    contexts_are_copied_in_the_middle();
    what_is_refused_is_refused_as_by_default();
}

fn verifies(key: &PKeyRef<Private>, digest: MessageDigest, signature: &[u8], set: impl Fn(&mut Verifier<'_>)) -> bool {
    let mut verifier = Verifier::new(digest, key).expect("a verifier");
    set(&mut verifier);
    verifier.update(b"a message in two parts").expect("taken");
    let is_right = verifier.verify(signature).expect("an answer");
    let mut wrong = signature.to_vec();
    let last = wrong.len() - 1;
    wrong[last] ^= 1;
    let mut verifier = Verifier::new(digest, key).expect("a verifier");
    set(&mut verifier);
    verifier.update(b"a message in two parts").expect("taken");
    is_right && !verifier.verify(&wrong).unwrap_or(false)
}

/// Digests without a name, verified by the public half alone, by another key, and in forms that are not DER.
fn digests_verify(key: &PKeyRef<Private>) {
    let public = PKey::public_key_from_der(&key.public_key_to_der().expect("DER")).expect("a key");
    let other =
        PKey::from_ec_key(EcKey::generate(key.ec_key().expect("a curve").group()).expect("a key")).expect("a key");
    for len in [20, 32, 48, 64] {
        let digest: Vec<u8> = (1..=len).collect();
        let mut context = PkeyCtx::new(key).expect("a context");
        context.sign_init().expect("begun");
        let mut signature = Vec::new();
        context.sign_to_vec(&digest, &mut signature).expect("signed");
        let mut context = PkeyCtx::new(&public).expect("a context");
        context.verify_init().expect("begun");
        assert!(context.verify(&digest, &signature).expect("an answer"));
        assert!(!context.verify(&digest[1..], &signature).unwrap_or(false));
        let longer = [&[0x30, signature[1] + 1][..], &signature[2..], &[0]].concat();
        for wrong in [&signature[1..], &signature[..signature.len() - 1], &longer, &[]] {
            assert!(!context.verify(&digest, wrong).unwrap_or(false));
        }
        assert!(context.verify(&digest, &signature).expect("an answer"));
        let mut context = PkeyCtx::new(&other).expect("a context");
        context.verify_init().expect("begun");
        assert!(!context.verify(&digest, &signature).unwrap_or(false));
    }
}

fn rsa_pkcs1(key: &PKeyRef<Private>, digest: MessageDigest) {
    let (signature, done, left) = counted(|| sign(key, digest, |_| ()));
    assert_eq!((done, left, signature.len()), (1, 0, key.size()));
    assert!(verifies(key, digest, &signature, |_| ()));
}

fn rsa_pss(key: &PKeyRef<Private>, digest: MessageDigest, salt: i32) {
    let (signature, done, left) = counted(|| {
        sign(key, digest, |signer| {
            signer.set_rsa_padding(Padding::PKCS1_PSS).expect("set");
            signer.set_rsa_pss_saltlen(RsaPssSaltlen::custom(salt)).expect("set");
            // Another digest for the mask than for the message.
            signer.set_rsa_mgf1_md(MessageDigest::sha256()).expect("set");
        })
    });
    assert_eq!((done, left), (1, 0));
    assert!(verifies(key, digest, &signature, |verifier| {
        verifier.set_rsa_padding(Padding::PKCS1_PSS).expect("set");
        verifier.set_rsa_pss_saltlen(RsaPssSaltlen::custom(salt)).expect("set");
        verifier.set_rsa_mgf1_md(MessageDigest::sha256()).expect("set");
    }));
}

fn ed25519() {
    let key = PKey::generate_ed25519().expect("a key");
    for len in [0, 1, 64, 5000] {
        let message = vec![7; len];
        let (signature, done, left) = counted(|| {
            Signer::new_without_digest(&key)
                .and_then(|mut signer| signer.sign_oneshot_to_vec(&message))
                .expect("signed")
        });
        assert_eq!((done, left), (1, 0));
        let mut verifier = Verifier::new_without_digest(&key).expect("a verifier");
        assert!(verifier.verify_oneshot(&signature, &message).expect("an answer"));
    }
}

fn keys_agree() {
    let pair = |make: &dyn Fn() -> PKey<Private>| (make(), make());
    let x25519 = || PKey::generate_x25519().expect("a key");
    let x448 = || PKey::generate_x448().expect("a key");
    let p256 = || ec(Nid::X9_62_PRIME256V1);
    let p384 = || ec(Nid::SECP384R1);
    let p521 = || ec(Nid::SECP521R1);
    let kinds: [(&dyn Fn() -> PKey<Private>, usize); 5] =
        [(&x25519, 32), (&x448, 56), (&p256, 32), (&p384, 48), (&p521, 66)];
    for (make, len) in kinds {
        let (one, other) = pair(make);
        let secret = |own: &PKey<Private>, peer: &PKey<Private>| {
            let mut deriver = Deriver::new(own).expect("a deriver");
            deriver.set_peer(peer).expect("a peer");
            deriver.derive_to_vec().expect("a secret")
        };
        let ((here, there), done, left) = counted(|| (secret(&one, &other), secret(&other, &one)));
        // X448 has lanes only.
        assert!((done, left) == (2, 0) || len == 56 && !support::has_lanes(), "{len}: {done} done, {left} left");
        assert_eq!((here.len(), here == there), (len, true));
    }
    // A public value of small order has no secret, with or without the mill.
    let zero = PKey::public_key_from_raw_bytes(&[0; 32], Id::X25519).expect("a key");
    let own = x25519();
    let mut deriver = Deriver::new(&own).expect("a deriver");
    let _ = deriver.set_peer(&zero);
    assert!(deriver.derive_to_vec().is_err());
}

fn contexts_are_copied_in_the_middle() {
    let key = rsa(2048);
    let mut signer = Signer::new(MessageDigest::sha256(), &key).expect("a signer");
    signer.update(b"a message ").expect("taken");
    // The core copies the context for each signature, so that it can be asked for one after the other.
    let early = signer.sign_to_vec().expect("a signature");
    signer.update(b"in two parts").expect("taken");
    let late = signer.sign_to_vec().expect("a signature");
    assert_ne!(early, late);
    assert!(verifies(&key, MessageDigest::sha256(), &late, |_| ()));
    let mut verifier = Verifier::new(MessageDigest::sha256(), &key).expect("a verifier");
    verifier.update(b"a message ").expect("taken");
    assert!(verifier.verify(&early).expect("an answer"));
}

fn what_is_refused_is_refused_as_by_default() {
    let key = rsa(2048);
    // A digest of another length than the context says.
    let mut context = PkeyCtx::new(&key).expect("a context");
    context.sign_init().expect("begun");
    context.set_signature_md(Md::sha256()).expect("set");
    let mut room = [0; 256];
    assert!(context.sign(&[7; 20], Some(&mut room)).is_err());
    assert!(context.sign(&[7; 32], Some(&mut [0; 255])).is_err(), "no room");
    assert_eq!(context.sign(&[7; 32], None).expect("a length"), 256);
    assert_eq!(context.sign(&[7; 32], Some(&mut room)).expect("a signature"), 256);
    // Left as it is although there is a digest.
    context.sign_init().expect("begun");
    context.set_signature_md(Md::sha256()).expect("set");
    let _ = context.set_rsa_padding(Padding::NONE);
    assert!(context.sign(&[7; 256], Some(&mut room)).is_err());
    // The same on a curve, and a buffer that might do but is shorter than the longest signature.
    let curve = ec(Nid::X9_62_PRIME256V1);
    let mut context = PkeyCtx::new(&curve).expect("a context");
    context.sign_init().expect("begun");
    let needed = context.sign(&[7; 20], None).expect("a length");
    assert!((0..20).all(|_| context.sign(&[7; 20], Some(&mut room[..needed - 1])).is_err()));
    context.sign(&[7; 20], Some(&mut room)).expect("a signature of what may have any length");
    context.set_signature_md(Md::sha256()).expect("set");
    assert!(context.sign(&[7; 20], Some(&mut room)).is_err());
    context.sign(&[7; 32], Some(&mut room)).expect("a signature");
    // A salt that is longer than there is room for.
    let mut signer = Signer::new(MessageDigest::sha512(), &key).expect("a signer");
    signer.set_rsa_padding(Padding::PKCS1_PSS).expect("set");
    signer.set_rsa_pss_saltlen(RsaPssSaltlen::custom(300)).expect("set");
    signer.update(b"a message").expect("taken");
    assert!(signer.sign_to_vec().is_err());
}

#[test]
fn pairs_that_were_made_ahead_are_pairs_and_each_is_given_out_once() {
    let _alone = ALONE.lock();
    support::load();
    let mut seen = std::collections::HashSet::new();
    let peer = PKey::generate_x25519().expect("a pair");
    for _ in 0..50 {
        let own = PKey::generate_x25519().expect("a pair");
        let (private, public) = (own.raw_private_key().expect("bytes"), own.raw_public_key().expect("bytes"));
        assert!(seen.insert(private.clone()), "a private key was given out twice");
        // OpenSSL's own public key of these bytes.
        let again = PKey::private_key_from_raw_bytes(&private, Id::X25519).expect("a key");
        assert_eq!(again.raw_public_key().expect("bytes"), public);
        assert_eq!(agreed(&own, &peer), agreed(&peer, &own));
    }
}

fn agreed(own: &PKeyRef<Private>, peer: &PKeyRef<Private>) -> Vec<u8> {
    let mut deriver = Deriver::new(own).expect("a deriver");
    deriver.set_peer(peer).expect("a peer");
    deriver.derive_to_vec().expect("a secret")
}
