//! Keys that engines could disagree on.

use ciphermill_contract::suite::{BlockCipher, Mode, Signature};
use ciphermill_contract::{KeyForm, Suite};
use ciphermill_vectors::keys::pair_name;
use ciphermill_vectors::odd_keys;

use super::Candidate;
use crate::pool::KeyPool;
use crate::random::Rng;

/// Keys of a suite: sound ones, odd ones, and `mutations` with something changed.
pub(super) fn candidates(suite: Suite, pool: &KeyPool, mutations: usize, rng: &mut Rng) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut add = |what: &str, form, bytes: Vec<u8>| {
        all.push(Candidate { what: what.to_owned(), form, bytes, taken: None });
    };
    let forms = [KeyForm::Secret, KeyForm::Private, KeyForm::Public];
    for index in 0..pool.len() {
        for of in forms {
            for said in forms {
                add(&format!("a {of:?} key as it is"), said, pool.bytes(index, of).to_vec());
            }
        }
    }
    if suite.is_public_key() {
        for form in [KeyForm::Private, KeyForm::Public] {
            mutants(pool.bytes(0, form), mutations, rng).into_iter().for_each(|(what, bytes)| add(&what, form, bytes));
        }
    } else {
        secrets(suite, rng).into_iter().for_each(|(what, bytes)| add(&what, KeyForm::Secret, bytes));
    }
    if let Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) = suite {
        points(rng, mutations).into_iter().for_each(|(what, bytes)| add(&what, KeyForm::Public, bytes));
    }
    if let Suite::Kem(_) = suite {
        unreduced(pool.bytes(0, KeyForm::Public), rng)
            .into_iter()
            .for_each(|(what, bytes)| add(&what, KeyForm::Public, bytes));
    }
    if let Some(kind) = pair_name(suite) {
        let agrees = matches!(suite, Suite::Agree(_));
        all.extend(odd_keys(&kind).into_iter().filter(|key| !agrees || key.form == KeyForm::Private).map(|key| {
            Candidate { what: key.id.clone(), form: key.form, bytes: key.bytes.clone(), taken: Some(key.taken) }
        }));
    }
    all
}

/// A key cut short, made longer, and with single bytes changed: each of the first, where DER's structure lies, and others
/// anywhere.
fn mutants(key: &[u8], count: usize, rng: &mut Rng) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for len in [0, 1, key.len() / 2, key.len().saturating_sub(1)] {
        all.push((format!("cut to {len} bytes"), key[..len].to_vec()));
    }
    for byte in [0u8, 0x30, 0xff] {
        all.push((format!("{byte:#04x} behind it"), [key, &[byte]].concat()));
        all.push((format!("{byte:#04x} before it"), [&[byte], key].concat()));
    }
    all.push(("zeros".to_owned(), vec![0; key.len()]));
    all.push(("ones".to_owned(), vec![0xff; key.len()]));
    for turn in 0..count.min(8 * key.len()) {
        let at = if turn < count / 2 { turn % key.len().min(40) } else { rng.below(key.len()) };
        let mut changed = key.to_vec();
        match rng.below(4) {
            0 => changed[at] = changed[at].wrapping_add(1),
            1 => changed[at] = 0,
            2 => changed[at] = rng.next() as u8,
            _ => changed[at] ^= 1 << rng.below(8),
        }
        all.push((format!("byte {at} is {:#04x}, not {:#04x}", changed[at], key[at]), changed));
    }
    all
}

/// Symmetric keys of every length around those that the suite takes, and those with a name for being weak.
fn secrets(suite: Suite, rng: &mut Rng) -> Vec<(String, Vec<u8>)> {
    let rule = suite.key_len();
    let mut all = Vec::new();
    for len in (0..=80).chain([rule.max, rule.max + 1]) {
        all.push((format!("{len} random bytes"), rng.bytes(len)));
    }
    for len in [rule.min, rule.max.min(300)] {
        all.push((format!("{len} zeros"), vec![0; len]));
        all.push((format!("{len} ones"), vec![0xff; len]));
        // XTS with equal halves, triple DES with equal keys.
        let half = rng.bytes(len / 2);
        all.push(("equal halves".to_owned(), [&half[..], &half].concat()));
        let third = rng.bytes(len / 3);
        all.push(("equal thirds".to_owned(), third.repeat(3)));
    }
    if matches!(suite, Suite::Cipher(BlockCipher::Des | BlockCipher::TripleDes, mode) if mode != Mode::Xts) {
        // NIST SP 800-67, 3.3.2: weak and semi-weak keys, as halves of four bytes.
        let halves = [[0x01; 4], [0xfe; 4], [0x1f, 0x1f, 0x0e, 0x0e], [0xe0, 0xe0, 0xf1, 0xf1]];
        for (one, other) in halves.iter().flat_map(|one| halves.iter().map(move |other| (one, other))) {
            for times in 1..=3 {
                all.push(("a weak DES key".to_owned(), [&one[..], other].concat().repeat(times)));
            }
        }
    }
    all
}

/// 32 bytes that are a point's `y` or not: small ones and large ones with either sign, and random ones, of which half are.
fn points(rng: &mut Rng, count: usize) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for sign in [0, 0x80] {
        for low in 0..=0xff {
            let mut near_zero = vec![0; 32];
            let mut near_prime = vec![0xff; 32];
            (near_zero[0], near_zero[31]) = (low, sign);
            (near_prime[0], near_prime[31]) = (low, 0x7f | sign);
            all.push((format!("y = {low}, sign {sign:#x}"), near_zero));
            all.push((format!("y = 2^255 - {}, sign {sign:#x}", 256 - u16::from(low)), near_prime));
        }
    }
    (0..count).for_each(|_| all.push(("a random y".to_owned(), rng.bytes(32))));
    all
}

/// Encapsulation keys with one coefficient of the modulus or more, and one with the largest that is reduced.
fn unreduced(key: &[u8], rng: &mut Rng) -> Vec<(String, Vec<u8>)> {
    let pairs = (key.len() - 32) / 3;
    let mut all = Vec::new();
    for value in [3328u16, 3329, 3330, 4095] {
        for at in [0, 1, 2 * pairs - 1, rng.below(2 * pairs)] {
            // Two coefficients of twelve bits in three bytes (FIPS 203, 4.2.1).
            let mut changed = key.to_vec();
            let place = at / 2 * 3;
            let [low, high] = value.to_le_bytes();
            if at % 2 == 0 {
                changed[place] = low;
                changed[place + 1] = changed[place + 1] & 0xf0 | high;
            } else {
                changed[place + 1] = changed[place + 1] & 0x0f | low << 4;
                changed[place + 2] = low >> 4 | high << 4;
            }
            all.push((format!("coefficient {at} is {value}"), changed));
        }
    }
    all
}
