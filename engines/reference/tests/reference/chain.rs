//! Chains: records of TLS 1.2 and encrypt-then-MAC, put together from other implementations of their parts.

use cbc::cipher::{Array, BlockModeEncrypt, KeyIvInit};
use ciphermill_contract::suite::lists::{CHAINS_ENCRYPT_THEN_MAC, CHAINS_MAC_THEN_ENCRYPT};
use ciphermill_contract::suite::{Chain, Mode, Suite};
use ciphermill_contract::{Direction, OpStatus};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use crate::run::{Outcome, Parts, bytes, prepare, run, run_prepared, suite};

const HEADER: [u8; 11] = [0, 0, 0, 0, 0, 0, 0, 9, 23, 3, 3];

fn hmac_sha1(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut mac = Hmac::<Sha1>::new_from_slice(key).unwrap();
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// AES-128-CBC by the `cbc` crate, block by block.
fn aes_128_cbc(key: &[u8], iv: &[u8], data: &mut [u8]) {
    let mut cbc = cbc::Encryptor::<aes::Aes128>::new_from_slices(key, iv).unwrap();
    for block in data.chunks_exact_mut(16) {
        cbc.encrypt_block(<&mut Array<u8, _>>::try_from(block).unwrap());
    }
}

/// A record whose MAC and padding are right, with any padding that fits, encrypted.
fn record(key: &[u8], iv: &[u8], plaintext: &[u8], padding: &[u8], spoil: impl Fn(&mut [u8])) -> Vec<u8> {
    let len = (plaintext.len() as u16).to_be_bytes();
    let mac = hmac_sha1(&key[16..], &[&HEADER, &len, plaintext]);
    let mut record = [plaintext, &mac, padding].concat();
    spoil(&mut record);
    aes_128_cbc(&key[..16], iv, &mut record);
    record
}

fn open(key: &[u8], iv: &[u8], record: Vec<u8>) -> Outcome {
    let parts = Parts { key: key.to_vec(), iv: iv.to_vec(), aad: HEADER.to_vec(), input: record, ..Parts::default() };
    run(suite("hmac-sha1+aes-128-cbc"), Direction::Decrypt, &parts)
}

fn assert_refused(outcome: &Outcome, what: &str) {
    assert_eq!(outcome.status, OpStatus::AuthFailed, "{what}");
    assert!(outcome.output.is_empty() && outcome.room.iter().all(|byte| *byte == 0), "{what}: not zeroed");
}

#[test]
fn encrypt_then_mac_is_its_parts_one_after_the_other() {
    let (key, iv, aad, input) = (bytes(1, 36), bytes(2, 16), bytes(3, 24), bytes(4, 64));
    let parts = Parts { key: key.clone(), iv: iv.clone(), aad, input: input.clone(), tag: vec![0; 12], asked: 0 };
    let sealed = run(suite("aes-128-cbc+hmac-sha1"), Direction::Encrypt, &parts);
    let mut expected = input;
    aes_128_cbc(&key[..16], &iv, &mut expected);
    assert_eq!(sealed.output, expected);
    assert_eq!(sealed.tag, hmac_sha1(&key[16..], &[&parts.aad, &iv, &expected])[..12]);
}

#[test]
fn records_are_sealed_with_the_shortest_padding() {
    let (key, iv) = (bytes(1, 36), bytes(2, 16));
    for len in 0..50 {
        let plaintext = bytes(len as u64 + 9, len);
        let padding_len = 16 - (len + 20) % 16;
        let padding = vec![(padding_len - 1) as u8; padding_len];
        let expected = record(&key, &iv, &plaintext, &padding, |_| {});
        let parts = Parts {
            key: key.clone(),
            iv: iv.clone(),
            aad: HEADER.to_vec(),
            input: plaintext.clone(),
            ..Parts::default()
        };
        let sealed = run(suite("hmac-sha1+aes-128-cbc"), Direction::Encrypt, &parts);
        assert_eq!(sealed.status, OpStatus::Done);
        assert_eq!(sealed.output, expected, "{len} bytes");
        let opened = open(&key, &iv, expected);
        assert_eq!((opened.status, opened.output), (OpStatus::Done, plaintext));
    }
}

#[test]
fn every_padding_that_fits_is_opened() {
    let (key, iv) = (bytes(1, 36), bytes(2, 16));
    for padding_len in 1..=256usize {
        // Plaintexts that make the record whole blocks, one short and one longer than the padding can be.
        for blocks in [2, 20] {
            let len = (blocks * 16 + 300 - 20 - padding_len) / 16 * 16 + (300 - 20 - padding_len) % 16;
            let len = len - (len + 20 + padding_len) % 16;
            let plaintext = bytes(padding_len as u64, len);
            let padding = vec![(padding_len - 1) as u8; padding_len];
            let opened = open(&key, &iv, record(&key, &iv, &plaintext, &padding, |_| {}));
            assert_eq!((opened.status, opened.output), (OpStatus::Done, plaintext), "{padding_len} bytes of padding");
            assert!(opened.room[len..].iter().all(|byte| *byte == 0), "MAC or padding left behind");
        }
    }
}

#[test]
fn a_wrong_byte_anywhere_in_a_record_is_refused() {
    let (key, iv) = (bytes(1, 36), bytes(2, 16));
    // 33 + 20 + 43 = 96 bytes: plaintext, MAC, padding of 42 and its length byte.
    let (plaintext, padding) = (bytes(3, 33), [42u8; 43]);
    for place in 0..96 {
        for bit in [0x01, 0x80] {
            let spoilt = record(&key, &iv, &plaintext, &padding, |record| record[place] ^= bit);
            assert_refused(&open(&key, &iv, spoilt), &format!("byte {place}"));
        }
    }
    assert_eq!(open(&key, &iv, record(&key, &iv, &plaintext, &padding, |_| {})).status, OpStatus::Done);
}

#[test]
fn every_wrong_padding_length_is_refused() {
    let (key, iv) = (bytes(1, 36), bytes(2, 16));
    let (plaintext, padding) = (bytes(3, 300), [15u8; 16]);
    for length in (0..=255u8).filter(|length| *length != 15) {
        let spoilt = record(&key, &iv, &plaintext, &padding, |record| record[335] = length);
        assert_refused(&open(&key, &iv, spoilt), &format!("length byte {length}"));
    }
}

#[test]
fn a_record_of_nothing_but_padding_is_refused() {
    let (key, iv) = (bytes(1, 36), bytes(2, 16));
    for value in 0..=255u8 {
        let mut record = vec![value; 32];
        aes_128_cbc(&key[..16], &iv, &mut record);
        assert_refused(&open(&key, &iv, record), &format!("thirty-two times {value}"));
    }
}

#[test]
fn another_header_is_refused() {
    for suite in CHAINS_MAC_THEN_ENCRYPT {
        let parts = Parts {
            key: bytes(1, suite_key_len(suite)),
            iv: bytes(2, suite.iv_len().max),
            aad: HEADER.to_vec(),
            input: bytes(3, 100),
            ..Parts::default()
        };
        let key = prepare(suite, &parts.key);
        let sealed = run_prepared(suite, Direction::Encrypt, &parts, key.as_ref());
        let mut back = Parts { input: sealed.output, ..parts.clone() };
        let opened = run_prepared(suite, Direction::Decrypt, &back, key.as_ref());
        assert_eq!((opened.status, opened.output), (OpStatus::Done, parts.input), "{suite}");
        back.aad[7] ^= 1;
        assert_refused(&run_prepared(suite, Direction::Decrypt, &back, key.as_ref()), &suite.to_string());
    }
}

#[test]
fn forged_ciphertext_is_refused_before_it_is_decrypted() {
    for suite in CHAINS_ENCRYPT_THEN_MAC {
        let parts = Parts {
            key: bytes(1, suite_key_len(suite)),
            iv: bytes(2, suite.iv_len().max),
            aad: bytes(3, 13),
            input: bytes(4, 96),
            tag: vec![0; suite.default_tag_len()],
            asked: 0,
        };
        let key = prepare(suite, &parts.key);
        let sealed = run_prepared(suite, Direction::Encrypt, &parts, key.as_ref());
        let mut back = Parts { input: sealed.output, tag: sealed.tag, ..parts };
        for place in 0..back.iv.len() {
            back.iv[place] ^= 1;
            let opened = run_prepared(suite, Direction::Decrypt, &back, key.as_ref());
            assert_refused(&opened, &format!("{suite}, byte {place} of the IV"));
            back.iv[place] ^= 1;
        }
        back.input[95] ^= 1;
        assert_refused(&run_prepared(suite, Direction::Decrypt, &back, key.as_ref()), &suite.to_string());
    }
}

#[test]
fn records_in_counter_mode_have_no_padding() {
    let suite = suite("hmac-sha256+aes-128-ctr");
    assert!(matches!(suite, Suite::Chain(Chain { mode: Mode::Ctr, .. })));
    let parts =
        Parts { key: bytes(1, 48), iv: bytes(2, 16), aad: HEADER.to_vec(), input: bytes(3, 77), ..Parts::default() };
    let sealed = run(suite, Direction::Encrypt, &parts);
    assert_eq!(sealed.output.len(), 77 + 32);
    let opened = run(suite, Direction::Decrypt, &Parts { input: sealed.output, ..parts.clone() });
    assert_eq!((opened.status, opened.output), (OpStatus::Done, parts.input));
}

fn suite_key_len(suite: Suite) -> usize {
    let Suite::Chain(chain) = suite else { panic!("{suite} is no chain") };
    chain.cipher_key_len() + chain.digest.len()
}
