//! Calls as C programs make them: what is done comes back right, single messages, keys, keystores, sessions, digests.
#![allow(unsafe_code, reason = "calls of the C interface")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

use ciphermill_c::*;
use ciphermill_keys::keystore::{KeyKind, Keystore, MasterSecret};

const NO_KEY: ciphermill_key = ciphermill_key { slot: 0, generation: 0 };

/// A mill, closed when dropped.
struct Open(*mut ciphermill_mill);

impl Drop for Open {
    fn drop(&mut self) {
        // SAFETY: opened by `mill`, and used by nobody any more.
        assert_eq!(unsafe { ciphermill_mill_close(self.0) }, CIPHERMILL_OK);
    }
}

fn mill() -> Open {
    let mut mill = null_mut();
    // SAFETY: valid pointers.
    ok(unsafe { ciphermill_mill_open(&mut mill, null()) });
    Open(mill)
}

fn text_of_last_error() -> String {
    let mut error = ciphermill_error { status: CIPHERMILL_OK, reason: 0, op: 0, text: null() };
    // SAFETY: a valid pointer; the text is copied before the next call.
    unsafe {
        assert_eq!(ciphermill_last_error(&mut error), CIPHERMILL_OK);
        CStr::from_ptr(error.text).to_str().unwrap().to_owned()
    }
}

#[track_caller]
fn ok(status: ciphermill_status) {
    assert_eq!(status, CIPHERMILL_OK, "{}", text_of_last_error());
}

fn suite(name: &str) -> ciphermill_suite {
    let (mut number, name) = (0, CString::new(name).unwrap());
    // SAFETY: valid pointers.
    ok(unsafe { ciphermill_suite_by_name(&mut number, name.as_ptr()) });
    number
}

fn import(mill: &Open, form: u32, bytes: &[u8]) -> ciphermill_key {
    let mut key = NO_KEY;
    // SAFETY: an open handle and valid pointers.
    ok(unsafe { ciphermill_key_import(mill.0, &mut key, form, bytes.as_ptr(), bytes.len(), null()) });
    key
}

#[test]
fn a_message_is_sealed_and_opened_in_one_call_each() {
    let (mill, gcm) = (mill(), suite("aes-128-gcm"));
    let key = import(&mill, CIPHERMILL_KEY_SECRET, &[0; 16]);
    // Test case 2 of the GCM specification (McGrew and Viega): 16 zero bytes under a zero key and a zero IV.
    let want = [
        0x03, 0x88, 0xda, 0xce, 0x60, 0xb6, 0xa3, 0x92, 0xf3, 0x28, 0xc2, 0xb9, 0x71, 0xb2, 0xfe, 0x78, 0xab, 0x6e,
        0x47, 0xd4, 0x2c, 0xec, 0x13, 0xbd, 0xf5, 0x3a, 0x67, 0xb2, 0x12, 0x57, 0xbd, 0xdf,
    ];
    let (iv, input, mut sealed, mut opened) = ([0; 12], [0; 16], [0; 32], [9; 16]);
    let mut sealed_len = 31;
    // SAFETY: an open handle, and valid pointers with their lengths, here and below.
    unsafe {
        let mut seal = |room: &mut usize| {
            ciphermill_seal(mill.0, sealed.as_mut_ptr(), room, gcm, key, iv.as_ptr(), 12, null(), 0, input.as_ptr(), 16)
        };
        assert_eq!(seal(&mut sealed_len), CIPHERMILL_TOO_SHORT);
        assert_eq!(sealed_len, 32);
        ok(seal(&mut sealed_len));
        assert_eq!((sealed, sealed_len), (want, 32));
        let mut open = |sealed: &[u8; 32]| {
            let mut len = 16;
            let status = ciphermill_open(
                mill.0,
                opened.as_mut_ptr(),
                &mut len,
                gcm,
                key,
                iv.as_ptr(),
                12,
                null(),
                0,
                sealed.as_ptr(),
                32,
            );
            (status, opened, len)
        };
        assert_eq!(open(&sealed), (CIPHERMILL_OK, [0; 16], 16));
        sealed[31] ^= 1;
        assert_eq!(open(&sealed), (CIPHERMILL_AUTH_FAILED, [0; 16], 16));
    }
}

#[test]
fn a_failed_message_leaves_no_input_behind() {
    let (mill, gcm) = (mill(), suite("aes-128-gcm"));
    let gone = import(&mill, CIPHERMILL_KEY_SECRET, &[0; 16]);
    let (iv, input, mut output, mut tag) = ([0_u8; 12], *b"a secret message", [5; 16], [0; 16]);
    // SAFETY: an open handle, and valid pointers with their lengths.
    unsafe {
        ok(ciphermill_key_destroy(mill.0, gone));
        let mut message = ciphermill_message {
            iv: iv.as_ptr(),
            iv_len: 12,
            aad: null(),
            aad_len: 0,
            input: input.as_ptr(),
            input_len: 16,
            output: output.as_mut_ptr(),
            output_len: 16,
            tag: tag.as_mut_ptr(),
            tag_len: 16,
        };
        let refused = ciphermill_run_one(mill.0, &mut message, gcm, CIPHERMILL_ENCRYPT, gone);
        assert_eq!(refused, CIPHERMILL_REFUSED, "{}", text_of_last_error());
    }
    assert_eq!(output, [0; 16]);
}

#[test]
fn macs_and_signatures_are_made_and_verified() {
    let (mill, hmac, ed25519) = (mill(), suite("hmac-sha256"), suite("ed25519"));
    let key = import(&mill, CIPHERMILL_KEY_SECRET, b"Jefe");
    let message = b"what do ya want for nothing?";
    let (at, len) = (message.as_ptr(), message.len());
    let mut tag = [0; 32];
    // SAFETY: an open handle, and valid pointers with their lengths, here and below.
    unsafe {
        ok(ciphermill_mac(mill.0, tag.as_mut_ptr(), 32, hmac, key, at, len));
        // RFC 4231, test case 2.
        assert_eq!(tag[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        ok(ciphermill_mac_verify(mill.0, hmac, key, tag.as_ptr(), 32, at, len));
        tag[0] ^= 1;
        assert_eq!(ciphermill_mac_verify(mill.0, hmac, key, tag.as_ptr(), 32, at, len), CIPHERMILL_AUTH_FAILED);

        let (mut private, mut public, mut public_len) = (NO_KEY, [0; 32], 31);
        let mut generate = |room: &mut usize| {
            ciphermill_key_generate(mill.0, &mut private, public.as_mut_ptr(), room, ed25519, null())
        };
        assert_eq!((generate(&mut public_len), public_len), (CIPHERMILL_TOO_SHORT, 32));
        ok(generate(&mut public_len));
        let (mut signature, mut signature_len) = ([0; 64], 64);
        ok(ciphermill_sign(mill.0, signature.as_mut_ptr(), &mut signature_len, ed25519, private, at, len));
        assert_eq!(signature_len, 64);
        let public = import(&mill, CIPHERMILL_KEY_PUBLIC, &public);
        ok(ciphermill_verify(mill.0, ed25519, public, signature.as_ptr(), 64, at, len));
        let other = ciphermill_verify(mill.0, ed25519, public, signature.as_ptr(), 64, at, len - 1);
        assert_eq!(other, CIPHERMILL_AUTH_FAILED);
        // Its policy is for signatures alone.
        assert_ne!(ciphermill_mac(mill.0, tag.as_mut_ptr(), 32, hmac, private, at, len), CIPHERMILL_OK);
    }
}

#[test]
fn an_output_shorter_than_the_input_fits() {
    let (mill, oaep) = (mill(), suite("rsa-2048-encrypt-oaep-sha256"));
    let (mut private, mut public, mut public_len) = (NO_KEY, [0; 1024], 1024);
    let (mut sealed, mut opened) = ([0; 256], [0; 5]);
    let message = |input: &[u8], output: &mut [u8]| ciphermill_message {
        iv: null(),
        iv_len: 0,
        aad: null(),
        aad_len: 0,
        input: input.as_ptr(),
        input_len: input.len(),
        output: output.as_mut_ptr(),
        output_len: output.len(),
        tag: null_mut(),
        tag_len: 0,
    };
    // SAFETY: an open handle, and valid pointers with their lengths.
    unsafe {
        ok(ciphermill_key_generate(mill.0, &mut private, public.as_mut_ptr(), &mut public_len, oaep, null()));
        let public = import(&mill, CIPHERMILL_KEY_PUBLIC, &public[..public_len]);
        let mut seal = message(b"hello", &mut sealed);
        ok(ciphermill_run_one(mill.0, &mut seal, oaep, CIPHERMILL_ENCRYPT, public));
        assert_eq!(seal.output_len, 256);
        let mut open = message(&sealed, &mut opened);
        ok(ciphermill_run_one(mill.0, &mut open, oaep, CIPHERMILL_DECRYPT, private));
        assert_eq!((&opened, open.output_len), (b"hello", 5));
        let mut short = message(&sealed, &mut opened[..4]);
        let status = ciphermill_run_one(mill.0, &mut short, oaep, CIPHERMILL_DECRYPT, private);
        assert_eq!(status, CIPHERMILL_MISUSE, "{}", text_of_last_error());
    }
}

#[test]
fn a_keystores_key_is_loaded_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let key_file = folder.path().join("master");
    std::fs::write(&key_file, [3; 32]).unwrap();
    std::fs::set_permissions(&key_file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let mut store = Keystore::create(&path, &MasterSecret::KeyFile(key_file.clone())).unwrap();
    let policy = ciphermill_keys::KeyPolicy::only("hmac-sha256".parse().unwrap());
    store.generate("mac", KeyKind::Secret { len: 32 }, policy).unwrap();
    drop(store);

    let (mill, hmac) = (mill(), suite("hmac-sha256"));
    let c = |path: &std::path::Path| CString::new(path.to_str().unwrap()).unwrap();
    let (path, key_file, name, none) = (c(&path), c(&key_file), c("mac".as_ref()), c("none".as_ref()));
    let (mut store, mut key, mut tag) = (null_mut(), NO_KEY, [0; 32]);
    // SAFETY: open handles, and valid pointers with their lengths.
    unsafe {
        let open = |store: &mut _, kind, secret: &CString| {
            ciphermill_keystore_open(store, path.as_ptr(), kind, secret.as_ptr())
        };
        assert_eq!(open(&mut store, 9, &key_file), CIPHERMILL_MISUSE);
        assert_eq!(open(&mut store, CIPHERMILL_SECRET_KEY_FILE, &none), CIPHERMILL_SYSTEM);
        assert_eq!(open(&mut store, CIPHERMILL_SECRET_PASSPHRASE, &none), CIPHERMILL_REFUSED);
        ok(open(&mut store, CIPHERMILL_SECRET_KEY_FILE, &key_file));
        assert_eq!(ciphermill_key_load(mill.0, &mut key, store, none.as_ptr(), 0), CIPHERMILL_REFUSED);
        assert_eq!(ciphermill_key_load(mill.0, &mut key, store, name.as_ptr(), 2), CIPHERMILL_REFUSED);
        ok(ciphermill_key_load(mill.0, &mut key, store, name.as_ptr(), 0));
        ok(ciphermill_keystore_close(store));
        ok(ciphermill_mac(mill.0, tag.as_mut_ptr(), 32, hmac, key, null(), 0));
    }
}

#[test]
fn digests_are_the_same_however_they_are_asked_for() {
    let (mill, sha256) = (mill(), suite("sha256"));
    let long = vec![7_u8; 700_000];
    let messages: Vec<&[u8]> = vec![b"abc", b"", &long, b"", b"abc", &long[..300_000], &long[..100], &long[..200_000]];
    let starts: Vec<*const u8> = messages.iter().map(|message| message.as_ptr()).collect();
    let lens: Vec<usize> = messages.iter().map(|message| message.len()).collect();
    let mut many = vec![0; 32 * messages.len()];
    // SAFETY: open handles, and valid pointers with their lengths.
    unsafe {
        ok(ciphermill_digest_many(
            mill.0,
            many.as_mut_ptr(),
            many.len(),
            sha256,
            starts.as_ptr(),
            lens.as_ptr(),
            messages.len(),
        ));
        // FIPS 180-4's example.
        assert_eq!(many[..4], [0xba, 0x78, 0x16, 0xbf]);
        let mut digest = null_mut();
        ok(ciphermill_digest_init(mill.0, &mut digest, sha256));
        for (message, want) in messages.iter().zip(many.chunks(32)) {
            let mut one = [0; 32];
            ok(ciphermill_digest_one(mill.0, one.as_mut_ptr(), 32, sha256, message.as_ptr(), message.len()));
            assert_eq!(one, want);
            let mut in_parts = [0; 32];
            for part in message.chunks(99_999) {
                ok(ciphermill_digest_update(digest, part.as_ptr(), part.len()));
            }
            ok(ciphermill_digest_final(digest, in_parts.as_mut_ptr(), 32));
            assert_eq!(in_parts, want);
        }
        ok(ciphermill_digest_close(digest));
        ok(ciphermill_digest_many(mill.0, null_mut(), 0, sha256, null(), null(), 0));
        let digest_within = [many.as_ptr()];
        let status =
            ciphermill_digest_many(mill.0, many.as_mut_ptr(), 32, sha256, digest_within.as_ptr(), [1].as_ptr(), 1);
        assert_eq!(status, CIPHERMILL_MISUSE);
    }
}

#[test]
fn a_message_in_parts_is_what_it_is_in_one_call() {
    let (mill, gcm) = (mill(), suite("aes-128-gcm"));
    let key = import(&mill, CIPHERMILL_KEY_SECRET, &[7; 16]);
    let (iv, aad, text) = ([1; 12], *b"who", vec![5_u8; 3000]);
    let (mut whole, mut room, mut in_parts, mut parts) = (vec![0; 3016], 3016, vec![0; 3016], null_mut());
    // SAFETY: open handles, and valid pointers with their lengths.
    unsafe {
        let (to, iv_from, aad_from, from) = (whole.as_mut_ptr(), iv.as_ptr(), aad.as_ptr(), text.as_ptr());
        ok(ciphermill_seal(mill.0, to, &mut room, gcm, key, iv_from, 12, aad_from, 3, from, 3000));
        ok(ciphermill_multi_part_open(mill.0, &mut parts, gcm, CIPHERMILL_ENCRYPT, key));
        ok(ciphermill_multi_part_begin(parts, iv_from, 12));
        ok(ciphermill_multi_part_absorb(parts, aad_from, 3));
        for (input, output) in text.chunks(777).zip(in_parts[..3000].chunks_mut(777)) {
            ok(ciphermill_multi_part_transform(parts, output.as_mut_ptr(), input.as_ptr(), input.len()));
        }
        ok(ciphermill_multi_part_finish(parts, in_parts[3000..].as_mut_ptr(), 16));
        ok(ciphermill_multi_part_close(parts));
        assert_eq!(in_parts, whole);
        let status = ciphermill_multi_part_open(mill.0, &mut parts, gcm, CIPHERMILL_DECRYPT, key);
        assert_eq!(status, CIPHERMILL_REFUSED, "text that is not verified has to be asked for");
        ok(ciphermill_multi_part_open_unverified(mill.0, &mut parts, gcm, CIPHERMILL_DECRYPT, key));
        for wrong in [0, 1] {
            let mut opened = whole.clone();
            opened[3003] ^= wrong;
            let place = opened.as_mut_ptr();
            ok(ciphermill_multi_part_begin(parts, iv_from, 12));
            ok(ciphermill_multi_part_absorb(parts, aad_from, 3));
            ok(ciphermill_multi_part_transform(parts, place, place, 3000));
            let status = ciphermill_multi_part_finish(parts, place.add(3000), 16);
            assert_eq!(status, if wrong == 0 { CIPHERMILL_OK } else { CIPHERMILL_AUTH_FAILED });
            assert_eq!(opened[..3000], text);
        }
        ok(ciphermill_multi_part_close(parts));
    }
}

/// Operations that digest, on memory aligned as C's.
#[repr(align(64))]
struct Ops([ciphermill_op; 4]);

fn digest_ops() -> Ops {
    // SAFETY: integers, of which zero is one.
    let mut ops: Ops = unsafe { std::mem::zeroed() };
    for (op, at) in ops.0.iter_mut().zip((0..).step_by(96)) {
        (op.input, op.input_len, op.tag, op.tag_len) = (at, 64, at + 64, 32);
    }
    ops
}

#[test]
fn a_session_keeps_its_memory_until_it_hands_it_back() {
    let (mill, sha256) = (mill(), suite("sha256"));
    let (mut ops, mut arena) = (digest_ops(), [1; 4 * 96]);
    let (mut session, mut ticket, mut other) = (null_mut(), 0, 0);
    let batch = ciphermill_batch {
        suite: sha256,
        ops: ops.0.as_mut_ptr(),
        ops_len: 4,
        arena: arena.as_mut_ptr(),
        arena_len: arena.len(),
        direction: CIPHERMILL_ENCRYPT,
        reserved: 0,
    };
    // SAFETY: open handles, and valid pointers with their lengths.
    unsafe {
        ok(ciphermill_session_open(mill.0, &mut session, CIPHERMILL_SESSION_IN_ORDER));
        ok(ciphermill_session_submit(session, &mut ticket, &batch, 77, 0, null()));
        // The same memory is not lent twice.
        let again = ciphermill_session_submit(session, &mut other, &batch, 0, 0, null());
        assert_eq!(again, CIPHERMILL_MISUSE, "{}", text_of_last_error());
        let mut completed = std::mem::zeroed::<ciphermill_completed>();
        ok(ciphermill_session_wait(session, &mut completed));
        assert_eq!((completed.ticket, completed.cookie, completed.done), (ticket, 77, 4));
        assert_eq!(completed.status, CIPHERMILL_OK);
        ok(ciphermill_session_wait(session, &mut completed));
        assert_eq!(completed.ticket, 0);
        // Done already: the rule is told when the batch comes back; here, as it is lent.
        assert_eq!(ciphermill_session_submit(session, &mut other, &batch, 0, 0, null()), CIPHERMILL_MISUSE);
        // Closed with a batch in flight: it is waited for or not begun, and its ops are written back either way.
        ops = digest_ops();
        ok(ciphermill_session_submit(session, &mut other, &batch, 0, CIPHERMILL_SUBMIT_WAIT, null()));
        ok(ciphermill_session_close(session));
    }
    assert_eq!(arena[64..96], arena[160..192]);
    assert!(ops.0.iter().all(|op| op.status == CIPHERMILL_OP_DONE || op.status == CIPHERMILL_OP_PENDING));
}

#[test]
fn suites_say_what_they_take() {
    let gcm = suite("aes-256-gcm");
    // SAFETY: valid pointers with their lengths.
    unsafe {
        let mut info = std::mem::zeroed::<ciphermill_suite_info>();
        ok(ciphermill_suite_describe(&mut info, gcm, CIPHERMILL_ENCRYPT));
        assert_eq!((info.default_key_len, info.default_iv_len, info.default_tag_len), (32, 12, 16));
        assert_eq!((info.needs_key, info.is_legacy, info.is_public_key), (1, 0, 0));
        let (mut name, mut len) = ([0; 32], 32);
        ok(ciphermill_suite_name(name.as_mut_ptr(), &mut len, gcm));
        assert_eq!(CStr::from_ptr(name.as_ptr()).to_str(), Ok("aes-256-gcm"));
        let mut output_len = 0;
        ok(ciphermill_suite_output_len(&mut output_len, gcm, CIPHERMILL_DECRYPT, 33));
        assert_eq!(output_len, 33);
    }
}
