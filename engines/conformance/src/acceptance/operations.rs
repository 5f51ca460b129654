//! Operations that engines could disagree on.

use ciphermill_contract::suite::{Agreement, Curve, PublicEncryption, Signature, StreamCipher};
use ciphermill_contract::{Direction, KeyForm, Suite};
use ciphermill_vectors::job::key_of;
use ciphermill_vectors::keys::{key_form, pair_name};
use ciphermill_vectors::{Answer, Case, Job, cases, odd_keys};

use super::Trial;
use crate::Options;
use crate::jobs::{forward as random_job, longest};
use crate::pool::KeyPool;
use crate::random::Rng;

/// Every published vector of a suite in a direction, or as many, evenly spread, as the options say.
pub(super) fn published(suite: Suite, direction: Direction, options: &Options) -> Vec<(Suite, Trial)> {
    let found = cases(suite);
    let max = if suite.is_public_key() { options.public_cases_max } else { options.symmetric_cases_max };
    let step = found.len().div_ceil(max.max(1)).max(1);
    let trial = |case: &&Case| {
        let key = key_of(case, direction);
        if suite.needs_key() && key.is_none() {
            return None;
        }
        let (mut job, _) = Job::of(case, direction);
        if direction == Direction::Encrypt && suite.is_public_key() && job.tag.len() < suite.default_tag_len() {
            job.tag.resize(suite.default_tag_len(), 0);
        }
        let form = key.map_or(KeyForm::Secret, |key| key.form);
        let key = key.map_or_else(Vec::new, |key| key.bytes.to_vec());
        Some((case.suite, Trial { what: format!("{} {}", case.source, case.id), form, key, job }))
    };
    found.iter().step_by(step).filter(|case| case.ways.contains(direction)).filter_map(trial).collect()
}

/// Sound operations in the forward direction.
pub(super) fn forward(suite: Suite, pool: &KeyPool, count: usize, rng: &mut Rng) -> Vec<Trial> {
    let form = key_form(suite, Direction::Encrypt).unwrap_or(KeyForm::Secret);
    let lens: &[usize] = if suite.is_public_key() { &[40, 0] } else { &[33, 0, 16, 80, 1, 64, 200, 17] };
    let count = if suite.is_public_key() { 2 } else { count.min(lens.len()) };
    let trial = |len: &usize| {
        let item = random_job(suite, pool, longest(suite, *len, usize::MAX), rng);
        Trial { what: format!("{len} bytes"), form, key: pool.bytes(item.key, form).to_vec(), job: item.job }
    };
    lens.iter().take(count).map(trial).collect()
}

/// What takes an operation back, under the other half of its key pair where it has one.
pub(super) fn back(suite: Suite, pool: &KeyPool, trial: Trial, answer: &Answer) -> Option<Trial> {
    let (job, _) = trial.job.inverse(suite, answer)?;
    let form = key_form(suite, Direction::Decrypt).unwrap_or(KeyForm::Secret);
    let index = (0..pool.len()).find(|index| pool.bytes(*index, trial.form) == trial.key)?;
    Some(Trial { what: trial.what, form, key: pool.bytes(index, form).to_vec(), job })
}

/// The operations, and each with one part spoilt, or replaced by what could be taken for special.
pub(super) fn with_spoilt(suite: Suite, direction: Direction, whole: Vec<Trial>, rng: &mut Rng) -> Vec<Trial> {
    let mut all = Vec::new();
    for trial in whole {
        for (part, name) in ["IV", "additional data", "input", "tag"].into_iter().enumerate() {
            for (how, spoil) in SPOILS {
                let mut job = trial.job.clone();
                let place = [&mut job.iv, &mut job.aad, &mut job.input, &mut job.tag].into_iter().nth(part);
                // Forward, the tag is room to be written.
                if let Some(place) =
                    place.filter(|place| !place.is_empty() && (part < 3 || direction == Direction::Decrypt))
                {
                    spoil(place, rng);
                    all.push(Trial {
                        what: format!("{}, {name} {how}", trial.what),
                        key: trial.key.clone(),
                        job,
                        ..trial
                    });
                }
            }
        }
        for (what, job) in special(suite, direction, &trial) {
            all.push(Trial { what: format!("{}, {what}", trial.what), key: trial.key.clone(), job, ..trial });
        }
        all.push(trial);
    }
    all
}

type Spoil = fn(&mut Vec<u8>, &mut Rng);

const SPOILS: [(&str, Spoil); 6] = [
    ("with another first bit", |bytes, _| bytes[0] ^= 0x80),
    ("with another last bit", |bytes, _| {
        if let Some(last) = bytes.last_mut() {
            *last ^= 1;
        }
    }),
    ("with another bit", |bytes, rng| {
        let at = rng.below(bytes.len());
        bytes[at] ^= 1 << rng.below(8);
    }),
    ("of zeros", |bytes, _| bytes.fill(0)),
    ("of ones", |bytes, _| bytes.fill(0xff)),
    ("at random", |bytes, rng| *bytes = rng.bytes(bytes.len())),
];

/// Inputs and tags with a meaning of their own in the suite's mathematics.
fn special(suite: Suite, direction: Direction, trial: &Trial) -> Vec<(String, Job)> {
    let with_input = |what: String, input| (what, Job { input, ..trial.job.clone() });
    let with_tag = |what: String, tag| (what, Job { tag, ..trial.job.clone() });
    let input = &trial.job.input;
    match suite {
        Suite::Agree(Agreement::Ecdh(curve)) => [0, 1, 2, 3, 5, 6, 7, 0xff]
            .into_iter()
            .map(|first| {
                let mut point = input.clone();
                point[0] = first;
                with_input(format!("a point that begins with {first}"), point)
            })
            .chain(odd_points(curve, input.len()).map(|(what, point)| with_input(what, point)))
            .collect(),
        Suite::Agree(Agreement::X25519) => coordinates().map(|u| with_input("a special u".to_owned(), u)).collect(),
        Suite::Agree(Agreement::X448) => goldilocks().map(|u| with_input("a special u".to_owned(), u)).collect(),
        Suite::Agree(Agreement::Dh(_)) => {
            around_prime(suite, input.len()).into_iter().map(|(what, value)| with_input(what, value)).collect()
        }
        Suite::Sign(Signature::Ecdsa(curve) | Signature::EcdsaDigest(curve)) if direction == Direction::Decrypt => {
            ecdsa_edges(curve, &trial.job.tag).into_iter().map(|(what, tag)| with_tag(what, tag)).collect()
        }
        Suite::Sign(Signature::Ed25519 | Signature::Ed25519Cofactored) if direction == Direction::Decrypt => {
            let s = &trial.job.tag[32..];
            let with_r = |r: Vec<u8>| with_tag("a special R".to_owned(), [&r[..], s].concat());
            let mut all: Vec<(String, Job)> = coordinates().map(with_r).collect();
            all.push(with_tag("S plus the order".to_owned(), [&trial.job.tag[..32], &plus_order(s)].concat()));
            all
        }
        Suite::Sign(Signature::Rsa(size, ..)) if direction == Direction::Decrypt => {
            around_modulus(&trial.key, size.len()).into_iter().map(|(what, bytes)| with_tag(what, bytes)).collect()
        }
        Suite::PublicEncrypt(encryption)
            if direction == Direction::Decrypt || matches!(encryption, PublicEncryption::RsaRaw(_)) =>
        {
            around_modulus(&trial.key, encryption.size().len())
                .into_iter()
                .map(|(what, bytes)| with_input(what, bytes))
                .collect()
        }
        Suite::Fpe(ff1) if ff1.radix < 1 << 16 => [ff1.radix as u16 - 1, ff1.radix as u16, u16::MAX]
            .into_iter()
            .map(|numeral| {
                let mut numerals = input.clone();
                numerals[..2].copy_from_slice(&numeral.to_le_bytes());
                with_input(format!("a numeral of {numeral}"), numerals)
            })
            .collect(),
        Suite::Stream(StreamCipher::ChaCha20) => {
            // The counter reaches its end within the message (RFC 8439, 2.4).
            let iv = |counter: u32| [&counter.to_le_bytes()[..], &[7; 12]].concat();
            [u32::MAX, u32::MAX - 1, u32::MAX - 3]
                .into_iter()
                .map(|counter| (format!("counter {counter:#x}"), Job { iv: iv(counter), ..trial.job.clone() }))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Coordinates on Curve25519 and edwards25519 of small order, not reduced, or both, with either top bit.
fn coordinates() -> impl Iterator<Item = Vec<u8>> {
    let number = |low: u8, filling: u8, high: u8| {
        let mut bytes = vec![filling; 32];
        (bytes[0], bytes[31]) = (low, high);
        bytes
    };
    // Order eight on the Montgomery curve (RFC 7748 leaves them to its reader; Bernstein's list), then on the Edwards curve.
    let eighth = [
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    ];
    let eighth = eighth.into_iter().map(|text| {
        (0..32).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap_or_default()).collect::<Vec<u8>>()
    });
    let small = (0..3).map(move |low| number(low, 0, 0));
    let large = (0xeb..=0xff).map(move |low| number(low, 0xff, 0x7f));
    small.chain(large).chain(eighth).flat_map(|bytes| {
        let mut signed = bytes.clone();
        signed[31] |= 0x80;
        [bytes, signed]
    })
}

/// Coordinates on Curve448 around zero and `2^448 - 2^224 - 1`, among them those of small order: 0, 1 and -1. Those of 56 ones
/// are not below the prime.
fn goldilocks() -> impl Iterator<Item = Vec<u8>> {
    let number = |low: u8, filling: u8, middle: u8| {
        let mut bytes = vec![filling; 56];
        (bytes[0], bytes[28]) = (low, middle);
        bytes
    };
    let small = (0..3).map(move |low| number(low, 0, 0));
    // Up to the prime less one, the prime itself, and what is above it.
    let large = (0xfc..=0xff).flat_map(move |low| [number(low, 0xff, 0xfe), number(low, 0xff, 0xff)]);
    // From the prime on: one more than it, which is one and so of small order, and more.
    let above = (0..3).map(|low| [&[low][..], &[0; 27], &[0xff; 28]].concat());
    small.chain(large).chain(above)
}

/// Numbers around zero and the modulus of an RSA key, which lies behind the last INTEGER header of its length in a public key
/// and the first in a private one.
fn around_modulus(key: &[u8], len: usize) -> Vec<(String, Vec<u8>)> {
    let header = [&[0x02, 0x82][..], &(len as u16 + 1).to_be_bytes(), &[0]].concat();
    let short = [&[0x02, 0x81, len as u8 + 1][..], &[0]].concat();
    let found =
        |header: &[u8]| key.windows(header.len()).position(|window| window == header).map(|at| at + header.len());
    let Some(modulus) = found(&header).or_else(|| found(&short)).and_then(|at| key.get(at..at + len)) else {
        return Vec::new();
    };
    let number = |low: u8| [&vec![0; len - 1][..], &[low]].concat();
    let mut above = modulus.to_vec();
    increment(&mut above);
    let all = [
        ("zero", number(0)),
        ("one", number(1)),
        ("n - 1", minus(modulus, &number(1))),
        ("n - 2", minus(modulus, &number(2))),
        ("n", modulus.to_vec()),
        ("n + 1", above),
    ];
    all.into_iter().map(|(what, bytes)| (what.to_owned(), bytes)).collect()
}

/// Numbers around zero and the prime of a DH group.
fn around_prime(suite: Suite, len: usize) -> Vec<(String, Vec<u8>)> {
    let number = |low: u8| [&vec![0; len - 1][..], &[low]].concat();
    let mut all: Vec<(String, Vec<u8>)> = (0..5).map(|low| (low.to_string(), number(low))).collect();
    let known = odd_keys(&pair_name(suite).unwrap_or_default());
    if let Some(prime) = known.into_iter().find(|key| key.id == "p").map(|key| &key.bytes) {
        all.extend((0..5).map(|low| (format!("p - {low}"), minus(prime, &number(low)))));
        let mut above = prime.clone();
        increment(&mut above);
        all.push(("p + 1".to_owned(), above));
    }
    all
}

/// Signatures whose numbers are at the edge of their range, and the one with the other `s` that is valid too.
fn ecdsa_edges(curve: Curve, signature: &[u8]) -> Vec<(String, Vec<u8>)> {
    let len = curve.order_len();
    let Some(order) = order_of(curve) else { return Vec::new() };
    let (r, s) = signature.split_at(len);
    let (zero, one) = (vec![0; len], [&vec![0; len - 1][..], &[1]].concat());
    let high = minus(&order, s);
    let all = [
        ("r of zero", &zero[..], s),
        ("s of zero", r, &zero),
        ("both one", &one, &one),
        ("r of the order", &order, s),
        ("s of the order", r, &order),
        ("the other s", r, &high),
        ("both the order", &order, &order),
    ];
    all.into_iter().map(|(what, r, s)| (what.to_owned(), [r, s].concat())).collect()
}

/// What the odd public keys of a curve end with: points off the curve, outside the subgroup, not reduced.
fn odd_points(curve: Curve, len: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    let keys = odd_keys(&curve.to_string()).into_iter().filter(|key| key.form == KeyForm::Public);
    keys.filter_map(move |key| {
        let at = key.bytes.len().checked_sub(len)?;
        Some((format!("a peer's point: {}", key.id), key.bytes[at..].to_vec()))
    })
}

fn order_of(curve: Curve) -> Option<Vec<u8>> {
    // "the order" among the odd keys is a PKCS#8 key whose last bytes are the scalar.
    let key = odd_keys(&curve.to_string()).into_iter().find(|key| key.id == "the order")?;
    key.bytes.get(key.bytes.len().checked_sub(curve.order_len())?..).map(<[u8]>::to_vec)
}

/// The difference of two big-endian numbers of one length, modulo as many bytes.
fn minus(left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut difference = vec![0; left.len()];
    let mut borrow = 0i16;
    for at in (0..left.len()).rev() {
        let digit = i16::from(left[at]) - i16::from(right[at]) - borrow;
        borrow = i16::from(digit < 0);
        difference[at] = digit as u8;
    }
    difference
}

fn increment(number: &mut [u8]) {
    for digit in number.iter_mut().rev() {
        *digit = digit.wrapping_add(1);
        if *digit != 0 {
            break;
        }
    }
}

/// `S + L`, little-endian (RFC 8032, 5.1).
fn plus_order(s: &[u8]) -> Vec<u8> {
    let mut order = [0u8; 32];
    order[..16].copy_from_slice(&27_742_317_777_372_353_535_851_937_790_883_648_493u128.to_le_bytes());
    order[31] = 0x10;
    let mut carry = 0u16;
    let digit = |(left, right): (&u8, &u8)| {
        carry += u16::from(*left) + u16::from(*right);
        let digit = carry as u8;
        carry >>= 8;
        digit
    };
    s.iter().zip(&order).map(digit).collect()
}
