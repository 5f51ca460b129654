//! Ciphers beside those of `default`, call by call: the same bytes, the same lengths, the same refusals.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

mod support;

use std::ffi::{c_int, c_void};

use foreign_types::ForeignTypeRef;
use openssl::cipher_ctx::CipherCtx;

use support::pair::{Pair, Random, begin, fetch};

unsafe extern "C" {
    fn EVP_CIPHER_CTX_ctrl(
        context: *mut openssl_sys::EVP_CIPHER_CTX,
        what: c_int,
        number: c_int,
        data: *mut c_void,
    ) -> c_int;
}

const SET_IV_FIXED: c_int = 0x12;
const TLS1_AAD: c_int = 0x16;

const CTR: [(&str, usize); 3] = [("AES-128-CTR", 16), ("AES-192-CTR", 24), ("AES-256-CTR", 32)];
const GCM: [(&str, usize); 3] = [("AES-128-GCM", 16), ("AES-192-GCM", 24), ("AES-256-GCM", 32)];

#[test]
fn counter_mode_says_what_default_says() {
    support::load();
    let mut random = Random(1);
    for round in 0..200 {
        let (name, key_len) = CTR[round % 3];
        let (key, mut iv) = (random.bytes(key_len), random.bytes(16));
        if random.below(3) == 0 {
            // A counter that wraps around.
            iv[..15].fill(0xff);
        }
        let together = random.below(2) == 0;
        let mut pair = Pair::new(name, random.below(2) == 0, Some(&key), together.then_some(&iv[..]));
        if !together {
            pair.begin(true, None, Some(&iv));
        }
        for _ in 0..random.below(12) {
            match random.below(10) {
                0 => pair.copy(),
                1 => pair.begin(true, None, Some(&random.bytes(16))),
                2 => pair.begin(false, Some(&random.bytes(key_len)), None),
                3 => pair.place(),
                4 => {
                    pair.finish();
                }
                _ => {
                    let len = random.part_len();
                    assert!(pair.update(&random.bytes(len)).is_some());
                }
            }
        }
        pair.place();
    }
    assert!(support::count(c"ciphermill-messages") > 100, "messages were in the mill");
}

#[test]
fn gcm_says_what_default_says() {
    support::load();
    let mut random = Random(2);
    for round in 0..200 {
        let (name, key_len) = GCM[round % 3];
        let (key, iv) = (random.bytes(key_len), random.bytes(12));
        let mut sealed = Pair::new(name, true, Some(&key), Some(&iv));
        let aad: Vec<Vec<u8>> = (0..random.below(3))
            .map(|_| {
                let len = random.below(70);
                random.bytes(len)
            })
            .collect();
        let parts: Vec<Vec<u8>> = (0..random.below(4))
            .map(|_| {
                let len = random.part_len();
                random.bytes(len)
            })
            .collect();
        let text: Vec<u8> = parts.concat();
        let ciphertext = message(&mut sealed, &mut random, &aad, &parts);
        assert_eq!(sealed.finish(), Some(0));
        let tag = sealed.tag(16).expect("a tag");
        for len in [0, 1, 4, 8, 12, 15, 17] {
            sealed.tag(len);
        }
        // An IV is used once.
        sealed.update(b"more");
        sealed.finish();
        let wrong = random.below(3) == 0;
        let tag_len = [16, 16, 12, 8, 4][random.below(5)];
        let mut given = tag[..tag_len].to_vec();
        given[0] ^= u8::from(wrong);
        let mut opened = Pair::new(name, false, Some(&key), None);
        // Before the IV, before the text, or behind it.
        let when = random.below(3);
        if when == 0 {
            opened.set_tag(&given);
        }
        opened.begin(false, None, Some(&iv));
        if when == 1 {
            opened.set_tag(&given);
        }
        let cut = random.below(ciphertext.len() + 1);
        let parts = [ciphertext[..cut].to_vec(), ciphertext[cut..].to_vec()];
        let plain = message(&mut opened, &mut random, &aad, &parts);
        assert_eq!(plain, text);
        if when == 2 {
            opened.set_tag(&given);
        }
        assert_eq!(opened.finish().is_some(), !wrong);
        // The next message under the same key, with another IV.
        let iv = random.bytes(12);
        sealed.begin(true, None, Some(&iv));
        message(&mut sealed, &mut random, &aad, &[random_text(round)]);
        sealed.finish();
        sealed.tag(16);
    }
    assert!(support::count(c"ciphermill-messages") > 100, "messages were in the mill");
}

fn random_text(round: usize) -> Vec<u8> {
    Random(round as u64).bytes(round * 37)
}

/// Additional data and text, with a copy of the contexts now and then.
fn message(pair: &mut Pair, random: &mut Random, aad: &[Vec<u8>], parts: &[Vec<u8>]) -> Vec<u8> {
    for aad in aad {
        pair.aad(aad);
    }
    let mut out = Vec::new();
    for part in parts {
        if random.below(5) == 0 {
            pair.copy();
        }
        out.extend(pair.update(part).expect("taken"));
    }
    out
}

#[test]
fn what_gcm_is_not_told_as_usual_is_left_to_default() {
    support::load();
    let mut random = Random(3);
    let (key, text) = (random.bytes(16), random.bytes(5000));
    for iv_len in [1, 8, 11, 13, 16, 64] {
        let iv = random.bytes(iv_len);
        let mut pair = Pair::new("AES-128-GCM", true, None, None);
        pair.both("IV length", |context| context.set_iv_length(iv_len).is_ok());
        pair.begin(true, Some(&key), Some(&iv));
        pair.update(&text);
        pair.finish();
        pair.tag(16).expect("a tag");
    }
    // No IV, no tag, additional data behind text.
    let mut pair = Pair::new("AES-128-GCM", false, Some(&key), None);
    pair.update(&text);
    pair.finish();
    let mut pair = Pair::new("AES-128-GCM", false, Some(&key), Some(&[1; 12]));
    pair.update(&text);
    assert_eq!(pair.finish(), None);
    // Between key and IV, in the other direction, once more without an IV.
    let mut pair = Pair::new("AES-128-GCM", true, Some(&key), Some(&[1; 12]));
    pair.begin(true, Some(&random.bytes(16)), None);
    pair.update(&text);
    pair.finish();
    pair.begin(true, Some(&key), None);
    pair.update(&text);
    pair.begin(false, None, Some(&[2; 12]));
    pair.set_tag(&[0; 16]);
    pair.update(&text);
    assert_eq!(pair.finish(), None);
}

#[test]
fn buffers_may_overlap() {
    support::load();
    let mut random = Random(4);
    let (key, iv, text) = (random.bytes(16), random.bytes(16), random.bytes(4000));
    let mut pair = Pair::new("AES-128-CTR", true, Some(&key), Some(&iv));
    let expected = pair.update(&text).expect("taken");
    let mut in_place = text.clone();
    let mut context = CipherCtx::new().expect("a context");
    begin(&mut context, Some(&fetch("AES-128-CTR", "ciphermill")), true, Some(&key), Some(&iv)).expect("begun");
    context.cipher_update_inplace(&mut in_place, text.len()).expect("taken");
    assert_eq!(in_place, expected);
    for shift in [1, 16, 100] {
        let mut room = vec![0; shift + text.len()];
        room[shift..].copy_from_slice(&text);
        begin(&mut context, None, true, None, Some(&iv)).expect("begun");
        let mut len = 0;
        // SAFETY: as many bytes may be read and written, at places that overlap.
        let done = unsafe {
            let (out, input) = (room.as_mut_ptr(), room.as_ptr().add(shift));
            openssl_sys::EVP_EncryptUpdate(context.as_ptr(), out, &mut len, input, text.len() as c_int)
        };
        assert_eq!((done, len as usize), (1, text.len()));
        assert_eq!(room[..text.len()], expected);
    }
}

/// Records as libssl has them made (RFC 5288): the IV's explicit part, text and tag in one call.
#[test]
fn records_of_tls_are_those_of_default() {
    support::load();
    let mut random = Random(5);
    for round in 0..30 {
        let (name, key_len) = GCM[round % 3];
        let (key, fixed) = (random.bytes(key_len), random.bytes(4));
        let mut sealing = tls(name, true, &key, &fixed);
        let mut opening = tls(name, false, &key, &fixed);
        for number in 0..6_u8 {
            let text_len = [0, 1, 100, 3000, 16_384][random.below(5)];
            let text = random.bytes(text_len);
            let mut aad = [number, 0, 0, 0, 0, 0, 0, 1, 23, 3, 3, 0, 0];
            aad[11..].copy_from_slice(&(text_len as u16 + 8).to_be_bytes());
            // The invocation field is random at first, another one in each context.
            let sealed = record(&mut sealing.ours, aad, &[&[0; 8][..], &text, &[0; 16]].concat()).expect("sealed");
            let mut wire_aad = aad;
            wire_aad[11..].copy_from_slice(&(text_len as u16 + 24).to_be_bytes());
            let opened = opening.both("opened", |context| record(context, wire_aad, &sealed));
            assert_eq!(opened.map(|record| record[8..8 + text_len].to_vec()), Some(text));
            let mut broken = sealed;
            let place = random.below(broken.len());
            broken[place] ^= 1;
            assert_eq!(opening.both("broken", |context| record(context, wire_aad, &broken)), None);
        }
    }
    assert!(support::count(c"ciphermill-messages") > 50, "records were in the mill");
}

fn tls(name: &str, encrypt: bool, key: &[u8], fixed: &[u8]) -> Pair {
    let mut pair = Pair::new(name, encrypt, Some(key), None);
    pair.both("fixed part", |context| ctrl(context, SET_IV_FIXED, &mut fixed.to_vec()));
    pair
}

fn ctrl(context: &mut CipherCtx, what: c_int, data: &mut [u8]) -> c_int {
    // SAFETY: a context with a cipher, and the bytes that the control reads.
    unsafe { EVP_CIPHER_CTX_ctrl(context.as_ptr(), what, data.len() as c_int, data.as_mut_ptr().cast()) }
}

/// Has a record made in place.
fn record(context: &mut CipherCtx, mut aad: [u8; 13], bytes: &[u8]) -> Option<Vec<u8>> {
    assert_eq!(ctrl(context, TLS1_AAD, &mut aad), 16);
    let mut buffer = bytes.to_vec();
    let mut len = 0;
    // SAFETY: the buffer is read and written in place.
    let done = unsafe {
        let place = buffer.as_mut_ptr();
        openssl_sys::EVP_CipherUpdate(context.as_ptr(), place, &mut len, place, bytes.len() as c_int)
    };
    (done == 1).then_some(buffer)
}
