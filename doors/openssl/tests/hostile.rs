//! Keys, parameters and buffers that are wrong, contexts that are copied or freed in the middle, keys that many threads use: the answers
//! are those of `default` alone, in value, bytes and reason.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]
#![allow(unsafe_code, reason = "functions that the crate openssl does not have")]

#[path = "support/evp.rs"]
mod evp;
mod support;

use std::ffi::CStr;

use evp::{By, KEY_PAIR, Key, MdContext, Operation, PUBLIC_KEY, Params, Said, Value, kept};
use openssl::bn::{BigNum, BigNumContext};
use openssl::ec::{EcGroup, EcKey, PointConversionForm};
use openssl::nid::Nid;
use openssl::rsa::Rsa;

const MESSAGE: &[u8] = b"a message";
const SHA256: Option<&CStr> = Some(c"SHA256");
const NONE: &Params = &Vec::new();

/// Room for the longest signature.
const ROOM: usize = 600;

/// Asks both providers, and compares what they say.
fn both(what: &str, ask: impl Fn(By) -> Vec<Said>) -> Vec<Said> {
    let (theirs, ours) = (ask(By::Default), ask(By::Mill));
    assert_eq!(ours, theirs, "{what}");
    ours
}

/// The parts of a key of RSA, by their names.
fn rsa_parts(bits: u32) -> Params {
    let key = Rsa::generate(bits).expect("a key");
    let number = |number: &openssl::bn::BigNumRef| Value::Number(number.to_vec());
    vec![
        (c"n", number(key.n())),
        (c"e", number(key.e())),
        (c"d", number(key.d())),
        (c"rsa-factor1", number(key.p().expect("a prime"))),
        (c"rsa-factor2", number(key.q().expect("a prime"))),
        (c"rsa-exponent1", number(key.dmp1().expect("an exponent"))),
        (c"rsa-exponent2", number(key.dmq1().expect("an exponent"))),
        (c"rsa-coefficient1", number(key.iqmp().expect("a coefficient"))),
    ]
}

/// The same with another value in one place.
fn with(parts: &Params, name: &CStr, value: Value) -> Params {
    parts.iter().map(|(key, own)| (*key, if *key == name { value.clone() } else { own.clone() })).collect()
}

fn without(parts: &Params, names: &[&CStr]) -> Params {
    parts.iter().filter(|(key, _)| !names.contains(key)).cloned().collect()
}

fn bytes(parts: &Params, name: &CStr) -> Vec<u8> {
    match parts.iter().find(|(key, _)| *key == name) {
        Some((_, Value::Number(bytes) | Value::Octets(bytes))) => bytes.clone(),
        _ => panic!("no bytes {name:?}"),
    }
}

/// What one provider says of a key of RSA: whether it takes it, finds it right, and signs with it; signatures with this padding are always
/// the same. Then whether the key that was given does verify them.
fn rsa_says(by: By, parts: &Params) -> Vec<Said> {
    let (key, made) = Key::of(by, c"RSA", KEY_PAIR, parts);
    let mut said = vec![made];
    let Some(key) = key else { return said };
    let checked = key.check();
    // Twice: what was imported once is used again. What a wrong key makes is random, since it was blinded for another one.
    said.extend((0..2).map(|_| {
        let mut signed = key.sign(SHA256, NONE, MESSAGE, ROOM);
        if !key.verifies(SHA256, NONE, MESSAGE, &signed.bytes) {
            signed.bytes.clear();
        }
        signed
    }));
    let pss = vec![(c"pad-mode", Value::Text(c"pss"))];
    let mut signed = key.sign(SHA256, &pss, MESSAGE, ROOM);
    let is_right = key.verifies(SHA256, &pss, MESSAGE, &signed.bytes);
    signed.bytes = vec![u8::from(is_right)];
    said.push(signed);
    let context = key.context();
    said.push(context.begin(Operation::Decrypt));
    // Of random numbers below a modulus that begins with 0x01, one in 600 has the padding of PKCS #1 v1.5; none has OAEP's.
    let padding = if checked.is_done() { c"pkcs1" } else { c"oaep" };
    said.push(context.set(&vec![(c"pad-mode", Value::Text(padding))]));
    said.push(context.decrypt(&[7; 256], ROOM));
    said.push(checked);
    said
}

#[test]
fn keys_of_rsa_with_parts_that_are_missing_or_wrong() {
    support::load();
    let (parts, foreign) = (rsa_parts(2048), rsa_parts(2048));
    let (names, before): (Vec<&CStr>, _) = (parts.iter().map(|(key, _)| *key).collect(), support::operations());
    both("whole", |by| rsa_says(by, &parts));
    assert!(support::operations().0 > before.0, "the mill signs with a key that is whole");
    for name in &names {
        both(&format!("without {name:?}"), |by| rsa_says(by, &without(&parts, &[name])));
        both(&format!("foreign {name:?}"), |by| {
            rsa_says(by, &with(&parts, name, Value::Number(bytes(&foreign, name))))
        });
        let own = bytes(&parts, name);
        let changed: [(&str, Vec<u8>); 6] = [
            ("none", vec![]),
            ("zero", vec![0]),
            ("one", vec![1]),
            ("cut", own[..own.len() / 2].to_vec()),
            ("longer", [&[1], &own[..]].concat()),
            ("even", [&own[..own.len() - 1], &[own[own.len() - 1] ^ 1]].concat()),
        ];
        for (how, value) in changed {
            both(&format!("{how} {name:?}"), |by| rsa_says(by, &with(&parts, name, Value::Number(value.clone()))));
        }
    }
    both("no primes", |by| rsa_says(by, &without(&parts, &names[3..])));
    both("nothing private", |by| rsa_says(by, &without(&parts, &names[2..])));
    both("nothing", |by| rsa_says(by, &Vec::new()));
    let swapped = with(&parts, c"rsa-factor1", Value::Number(bytes(&parts, c"rsa-factor2")));
    let swapped = with(&swapped, c"rsa-factor2", Value::Number(bytes(&parts, c"rsa-factor1")));
    both("primes the other way about", |by| rsa_says(by, &swapped));
    both("a number that is a text", |by| rsa_says(by, &with(&parts, c"d", Value::Text(c"7"))));
    both("bytes", |by| rsa_says(by, &with(&parts, c"n", Value::Octets(bytes(&parts, c"n")))));
    both("a private half for another type", |by| {
        let (key, made) = Key::of(by, c"X25519", KEY_PAIR, &parts);
        assert!(key.is_none());
        vec![made]
    });
}

#[test]
fn keys_of_rsa_of_sizes_that_nobody_has() {
    support::load();
    for bits in [512, 513, 1000, 1023, 1025, 1032, 2040, 2047, 2049, 2056] {
        let parts = rsa_parts(bits);
        both(&format!("{bits} bits"), |by| rsa_says(by, &parts));
    }
    // An exponent of one is its own inverse: what is signed lies open, but that is the key's fault.
    let parts = rsa_parts(2048);
    let one = Value::Number(vec![1]);
    let trivial = [c"e", c"d", c"rsa-exponent1", c"rsa-exponent2"];
    let trivial = trivial.iter().fold(parts, |parts, name| with(&parts, name, one.clone()));
    both("all exponents are one", |by| rsa_says(by, &trivial));
}

/// The parts of a key on a curve.
fn ec_parts(curve: Nid, name: &'static CStr) -> Params {
    let group = EcGroup::from_curve_name(curve).expect("a curve");
    let key = EcKey::generate(&group).expect("a key");
    let mut context = BigNumContext::new().expect("a context");
    let public = key.public_key().to_bytes(&group, PointConversionForm::UNCOMPRESSED, &mut context).expect("bytes");
    let private = key.private_key().to_vec();
    vec![(c"group", Value::Text(name)), (c"priv", Value::Number(private)), (c"pub", Value::Octets(public))]
}

/// What one provider says of a key on a curve, and what it agrees on with a peer that is right. Signatures are told by whether the key
/// verifies them.
fn ec_says(by: By, parts: &Params, peer: &Params) -> Vec<Said> {
    let (key, made) = Key::of(by, c"EC", KEY_PAIR, parts);
    let mut said = vec![made];
    let Some(key) = key else { return said };
    said.push(key.check());
    let mut signed = key.sign(SHA256, NONE, MESSAGE, ROOM);
    signed.bytes = vec![u8::from(key.verifies(SHA256, NONE, MESSAGE, &signed.bytes))];
    said.push(signed);
    let (peer, _) = Key::of(by, c"EC", PUBLIC_KEY, &without(peer, &[c"priv"]));
    said.extend(peer.map(|peer| key.derive(&peer)));
    said
}

#[test]
fn keys_on_curves_with_parts_that_are_missing_or_wrong() {
    support::load();
    let curves = [
        (Nid::X9_62_PRIME256V1, c"prime256v1"),
        (Nid::SECP384R1, c"secp384r1"),
        (Nid::SECP521R1, c"secp521r1"),
        (Nid::SECP256K1, c"secp256k1"),
    ];
    for (curve, name) in curves {
        let (parts, peer) = (ec_parts(curve, name), ec_parts(curve, name));
        both("whole", |by| ec_says(by, &parts, &peer));
        let group = EcGroup::from_curve_name(curve).expect("a curve");
        let (mut order, mut context) = (BigNum::new().expect("a number"), BigNumContext::new().expect("a context"));
        group.order(&mut order, &mut context).expect("an order");
        let own = bytes(&parts, c"priv");
        let private: [(&str, Vec<u8>); 6] = [
            ("zero", vec![0]),
            ("order", order.to_vec()),
            ("above", [&[1], &order.to_vec()[..]].concat()),
            ("long", vec![0xff; 200]),
            ("foreign", bytes(&peer, c"priv")),
            ("cut", own[..own.len() / 2].to_vec()),
        ];
        for (how, value) in private {
            both(&format!("{name:?}, private {how}"), |by| {
                ec_says(by, &with(&parts, c"priv", Value::Number(value.clone())), &peer)
            });
        }
        let own = bytes(&parts, c"pub");
        let field_len = (own.len() - 1) / 2;
        let public: [(&str, Vec<u8>); 9] = [
            ("none", vec![]),
            ("infinite", vec![0]),
            ("foreign", bytes(&peer, c"pub")),
            ("cut", own[..own.len() - 1].to_vec()),
            ("long", [&own[..], &[0]].concat()),
            ("beside the curve", [&own[..own.len() - 1], &[own[own.len() - 1] ^ 1]].concat()),
            ("compressed", [&[2 + (own[own.len() - 1] & 1)], &own[1..=field_len]].concat()),
            ("hybrid", [&[6 + (own[own.len() - 1] & 1)], &own[1..]].concat()),
            ("zeros", vec![4; 1].into_iter().chain(vec![0; 2 * field_len]).collect()),
        ];
        for (how, value) in public {
            both(&format!("{name:?}, public {how}"), |by| {
                ec_says(by, &with(&parts, c"pub", Value::Octets(value.clone())), &peer)
            });
            both(&format!("{name:?}, public {how}, of a peer"), |by| {
                ec_says(by, &parts, &with(&peer, c"pub", Value::Octets(value.clone())))
            });
        }
        for part in [c"group", c"priv", c"pub"] {
            both(&format!("{name:?} without {part:?}"), |by| ec_says(by, &without(&parts, &[part]), &peer));
        }
        for group in [c"prime256v1", c"secp384r1", c"secp224r1", c"a curve", c""] {
            both(&format!("{name:?} said to be on {group:?}"), |by| {
                ec_says(by, &with(&parts, c"group", Value::Text(group)), &peer)
            });
        }
        let other = ec_parts(Nid::SECP224R1, c"secp224r1");
        both("a peer on another curve", |by| ec_says(by, &parts, &other));
    }
}

/// What one provider says of a key that is bytes.
fn raw_says(by: By, name: &CStr, parts: &Params, peer: &[u8]) -> Vec<Said> {
    let (key, made) = Key::of(by, name, KEY_PAIR, parts);
    let mut said = vec![made];
    let Some(key) = key else { return said };
    said.push(key.check());
    if name == c"ED25519" {
        said.push(key.sign(None, NONE, MESSAGE, ROOM));
        said.push(key.sign(SHA256, NONE, MESSAGE, ROOM));
        return said;
    }
    let (peer, made) = Key::of(by, name, PUBLIC_KEY, &vec![(c"pub", Value::Octets(peer.to_vec()))]);
    said.push(made);
    said.extend(peer.map(|peer| key.derive(&peer)));
    said
}

#[test]
fn keys_of_bytes_that_are_too_many_too_few_or_not_a_pair() {
    support::load();
    for (name, len) in [(c"X25519", 32), (c"X448", 56), (c"ED25519", 32)] {
        for private_len in [0, 1, len - 1, len, len + 1, 1000] {
            let parts = vec![(c"priv", Value::Octets(vec![7; private_len]))];
            both(&format!("{name:?}, {private_len} bytes"), |by| raw_says(by, name, &parts, &vec![9; len]));
            for public_len in [0, len - 1, len + 1] {
                let mut parts = parts.clone();
                parts.push((c"pub", Value::Octets(vec![9; public_len])));
                both(&format!("{name:?}, {private_len} and {public_len} bytes"), |by| {
                    raw_says(by, name, &parts, &vec![9; len])
                });
            }
        }
        let public = vec![(c"pub", Value::Octets(vec![9; len]))];
        both(&format!("{name:?} without its private half"), |by| raw_says(by, name, &public, &vec![9; len]));
        let parts = vec![(c"priv", Value::Octets(vec![7; len]))];
        // Of small order, not reduced, all ones: no secret, or the same one.
        for peer in [vec![0; len], vec![1; len], vec![0xff; len], [&[1][..], &vec![0; len - 1]].concat()] {
            both(&format!("{name:?}, a peer of {peer:?}"), |by| raw_says(by, name, &parts, &peer));
        }
        if name != c"ED25519" {
            let mut parts = parts.clone();
            parts.push((c"pub", Value::Octets(vec![9; len])));
            both(&format!("{name:?}, another's public half"), |by| raw_says(by, name, &parts, &vec![9; len]));
        }
    }
}

fn pair(name: &CStr, parts: &Params, by: By) -> Key {
    Key::of(by, name, KEY_PAIR, parts).0.expect("a key that is right")
}

#[test]
fn parameters_that_are_wrong() {
    support::load();
    let (rsa, small) = (rsa_parts(2048), rsa_parts(1024));
    let ec = ec_parts(Nid::X9_62_PRIME256V1, c"prime256v1");
    let ed25519 = vec![(c"priv", Value::Octets(vec![7; 32]))];
    let keys = [(c"RSA", &rsa), (c"RSA", &small), (c"EC", &ec), (c"ED25519", &ed25519)];
    let mut sets: Vec<(Option<&'static CStr>, Params)> = Vec::new();
    for md in [
        None,
        Some(c"SHA256"),
        Some(c"SHA512"),
        Some(c"SHAKE256"),
        Some(c"MD5"),
        Some(c"MD4"),
        Some(c"none"),
        Some(c""),
    ] {
        sets.push((md, vec![]));
    }
    for mode in ["none", "oaep", "pkcs1", "x931", "pss", "sslv23", "pkcs2", ""] {
        sets.push((SHA256, vec![(c"pad-mode", Value::Text(kept(mode)))]));
    }
    for mode in [-1, 0, 1, 2, 3, 4, 5, 6, 7, 1000] {
        sets.push((SHA256, vec![(c"pad-mode", Value::Integer(mode))]));
    }
    let pss = (c"pad-mode", Value::Text(c"pss"));
    for len in [-5, -4, -3, -2, -1, 0, 1, 222, 223, 100_000, i32::MAX, i32::MIN] {
        sets.push((SHA256, vec![pss.clone(), (c"saltlen", Value::Integer(len))]));
        sets.push((Some(c"SHA512"), vec![pss.clone(), (c"saltlen", Value::Integer(len))]));
    }
    for text in ["digest", "max", "auto", "7", "-7", "many"] {
        sets.push((SHA256, vec![pss.clone(), (c"saltlen", Value::Text(kept(text)))]));
    }
    for md in ["SHA1", "SHAKE128", "no digest", ""] {
        sets.push((SHA256, vec![pss.clone(), (c"mgf1-digest", Value::Text(kept(md)))]));
        sets.push((SHA256, vec![(c"mgf1-digest", Value::Text(kept(md)))]));
        sets.push((SHA256, vec![(c"digest", Value::Text(kept(md)))]));
    }
    sets.push((SHA256, vec![(c"digest-size", Value::Integer(20))]));
    sets.push((SHA256, vec![(c"no such parameter", Value::Integer(1))]));
    for (name, parts) in keys {
        for (md, params) in &sets {
            both(&format!("{name:?}, {md:?}, {params:?}"), |by| {
                let key = pair(name, parts, by);
                let mut said = key.sign(*md, params, MESSAGE, ROOM);
                // What is random is told by whether it is right.
                let is_right = said.is_done() && key.verifies(*md, params, MESSAGE, &said.bytes);
                let is_fixed = name == c"ED25519" || name == c"RSA" && !is_salted(params);
                if !is_fixed {
                    said.bytes.clear();
                }
                let verdict = Said { result: i32::from(is_right), bytes: Vec::new(), reason: None };
                vec![said, verdict]
            });
        }
    }
}

/// Whether a signature has a random salt; PSS has number six in `openssl/rsa.h`.
fn is_salted(params: &Params) -> bool {
    params
        .iter()
        .any(|(_, value)| matches!(value, Value::Text(text) if *text == c"pss") || matches!(value, Value::Integer(6)))
}

/// Buffers of every length around the one that is right, and none.
#[test]
fn buffers_that_are_too_short_or_empty() {
    support::load();
    let rsa = rsa_parts(2048);
    let ec = ec_parts(Nid::X9_62_PRIME256V1, c"prime256v1");
    let ed25519 = vec![(c"priv", Value::Octets(vec![7; 32]))];
    let keys = [(c"RSA", &rsa, SHA256, 256), (c"EC", &ec, SHA256, 72), (c"ED25519", &ed25519, None, 64)];
    for (name, parts, md, len) in keys {
        for room in [0, 1, len - 1, len, len + 1] {
            for message in [&[][..], MESSAGE, &[7; 100_000]] {
                both(&format!("{name:?}, {room} bytes of room, {} of text", message.len()), |by| {
                    let key = pair(name, parts, by);
                    let mut said = key.sign(md, NONE, message, room);
                    if name == c"EC" && said.is_done() {
                        assert!(key.verifies(md, NONE, message, &said.bytes));
                        said.bytes.clear();
                    }
                    vec![said]
                });
            }
        }
        if name == c"ED25519" {
            continue;
        }
        // What is signed is said to be a digest, or is not.
        for digest in [
            vec![],
            vec![7],
            vec![7; 20],
            vec![7; 31],
            vec![7; 32],
            vec![7; 33],
            vec![0xff; 245],
            vec![0xff; 256],
            vec![7; 300],
        ] {
            for params in [vec![], vec![(c"digest", Value::Text(c"SHA256"))], vec![(c"pad-mode", Value::Text(c"none"))]]
            {
                both(&format!("{name:?}, {params:?}, {} bytes", digest.len()), |by| {
                    let context = pair(name, parts, by).context();
                    let mut said = vec![context.begin(Operation::Sign), context.set(&params)];
                    let mut signed = context.sign(&digest, ROOM);
                    if name == c"EC" {
                        signed.bytes.clear();
                    }
                    said.push(signed);
                    said
                });
            }
        }
    }
}

/// Calls that were not begun, were begun as something else, or come once more.
#[test]
fn calls_in_an_order_that_is_wrong() {
    support::load();
    let (rsa, x25519) = (rsa_parts(2048), vec![(c"priv", Value::Octets(vec![7; 32]))]);
    both("nothing has begun", |by| {
        let (key, own) = (pair(c"RSA", &rsa, by).context(), pair(c"X25519", &x25519, by).context());
        vec![
            key.sign(&[7; 32], ROOM),
            key.decrypt(&[7; 256], ROOM),
            own.derive(100),
            key.set(&vec![(c"pad-mode", Value::Integer(1))]),
        ]
    });
    both("begun as something else", |by| {
        let (key, own) = (pair(c"RSA", &rsa, by).context(), pair(c"X25519", &x25519, by).context());
        vec![
            key.begin(Operation::Decrypt),
            key.sign(&[7; 32], ROOM),
            key.begin(Operation::Sign),
            key.decrypt(&[7; 256], ROOM),
            key.begin(Operation::Derive),
            key.derive(100),
            own.begin(Operation::Sign),
            own.begin(Operation::Decrypt),
            own.begin(Operation::Derive),
            own.derive(100),
            own.set_peer(&pair(c"RSA", &rsa, by)),
            own.derive(100),
            own.set_peer(&pair(c"X25519", &x25519, by)),
            own.derive(0),
            own.derive(31),
            own.derive(32),
            own.derive(32),
            own.begin(Operation::Derive),
            own.derive(32),
        ]
    });
    both("a message that goes on behind its end", |by| {
        let context = MdContext::new();
        let key = pair(c"RSA", &rsa, by);
        vec![
            context.update(MESSAGE),
            context.finish(ROOM),
            context.sign_init(&key, SHA256, NONE),
            context.update(&[]),
            context.update(MESSAGE),
            context.finish(10),
            context.finish(ROOM),
            context.update(MESSAGE),
            context.finish(ROOM),
            context.sign(MESSAGE, ROOM),
            context.sign_init(&key, SHA256, NONE),
            context.finish(ROOM),
        ]
    });
}

#[test]
fn contexts_are_copied_before_between_and_behind_calls() {
    support::load();
    let (rsa, x25519) = (rsa_parts(2048), vec![(c"priv", Value::Octets(vec![7; 32]))]);
    both("messages", |by| {
        let (key, context) = (pair(c"RSA", &rsa, by), MdContext::new());
        let mut said = vec![context.sign_init(&key, SHA256, NONE), context.update(MESSAGE)];
        // Copies outlive the context and the key.
        let copies: Vec<_> = (0..3).map(|_| context.copy().expect("a copy")).collect();
        said.push(context.update(b" more"));
        said.push(context.finish(ROOM));
        drop((context, key));
        for copy in &copies {
            let again = copy.copy();
            said.push(copy.finish(ROOM));
            said.extend(again.map(|again| again.finish(ROOM)));
        }
        said
    });
    both("keys' contexts", |by| {
        let (key, own) = (pair(c"RSA", &rsa, by).context(), pair(c"X25519", &x25519, by).context());
        let mut said = vec![i32::from(key.copy().is_some())];
        said.push(key.begin(Operation::Sign).result);
        said.push(key.set(&vec![(c"digest", Value::Text(c"SHA256"))]).result);
        let copy = key.copy();
        drop(key);
        let mut answers = vec![];
        answers.extend(copy.map(|copy| copy.sign(&[7; 32], ROOM)));
        said.push(own.begin(Operation::Derive).result);
        let before = own.copy();
        said.push(own.set_peer(&pair(c"X25519", &vec![(c"priv", Value::Octets(vec![9; 32]))], by)).result);
        let behind = own.copy();
        drop(own);
        answers.extend(before.map(|before| before.derive(32)));
        answers.extend(behind.map(|behind| behind.derive(32)));
        answers.extend(said.into_iter().map(|result| Said { result, bytes: Vec::new(), reason: None }));
        answers
    });
}
