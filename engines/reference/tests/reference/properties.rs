//! Properties of every symmetric suite: what goes in comes out again, and nothing that was tampered with does.

use ciphermill_contract::suite::{BlockCipher, Chain, ChainOrder, Mac, Mode, Suite};
use ciphermill_contract::{Direction, OpStatus};
use ciphermill_reference::CAPABILITIES;
use proptest::prelude::*;

use crate::run::{Outcome, Parts, bytes, run};

fn symmetric() -> Vec<Suite> {
    let suites = CAPABILITIES.iter().flat_map(|capability| capability.suites.iter().copied());
    suites.filter(|suite| !suite.is_public_key() && suite.has_direction(Direction::Decrypt)).collect()
}

/// A key length that the suite takes and is usual for it.
fn usual_key_len(suite: Suite) -> usize {
    match suite {
        // 24 bytes divide evenly over the whitenings of Khafre's sixteen rounds.
        Suite::Cipher(BlockCipher::Khafre, _) => 24,
        Suite::Mac(Mac::Hmac(digest)) => digest.len(),
        Suite::Chain(chain) => chain.cipher_key_len() + chain.digest.len(),
        _ => suite.key_len().max,
    }
}

/// An operation that the suite takes, with about `len` bytes of input.
pub(crate) fn default_parts(suite: Suite, len: usize, seed: u64) -> Parts {
    let lengths = suite.input_len(Direction::Encrypt);
    let len = len.clamp(lengths.min, lengths.max);
    let input = bytes(seed + 1, len - (len - lengths.min) % lengths.step);
    let input = match suite {
        Suite::Fpe(_) => input.chunks_exact(2).flat_map(|pair| [pair[0] % 10, 0]).collect(),
        _ => input,
    };
    let aad = match suite {
        Suite::Aead(_) | Suite::Fpe(_) => bytes(seed + 2, len % 50),
        Suite::Chain(Chain { order: ChainOrder::EncryptThenMac, .. }) => bytes(seed + 2, len % 50),
        Suite::Chain(Chain { order: ChainOrder::MacThenEncrypt, .. }) => bytes(seed + 2, 11),
        _ => Vec::new(),
    };
    let ivs = suite.iv_len();
    let choices = (ivs.max - ivs.min) / ivs.step + 1;
    Parts {
        key: bytes(seed, usual_key_len(suite)),
        iv: bytes(seed + 3, ivs.min + (seed as usize % choices) * ivs.step),
        aad,
        input,
        tag: vec![0; suite.tag_len(Direction::Decrypt).max],
        asked: 16,
    }
}

/// The operation that undoes or verifies `forth`.
pub(crate) fn way_back(suite: Suite, parts: &Parts, forth: Outcome) -> Parts {
    match suite {
        Suite::Mac(_) => Parts { tag: forth.tag, ..parts.clone() },
        _ => Parts { input: forth.output, tag: forth.tag, ..parts.clone() },
    }
}

fn authenticates(suite: Suite) -> bool {
    matches!(suite, Suite::Aead(_) | Suite::Mac(_) | Suite::Chain(_))
}

fn check_round_trip(suite: Suite, len: usize, seed: u64) {
    let parts = default_parts(suite, len, seed);
    let forth = run(suite, Direction::Encrypt, &parts);
    assert_eq!(forth.status, OpStatus::Done, "{suite}");
    let back = way_back(suite, &parts, forth);
    if matches!(suite, Suite::Cipher(..) | Suite::Stream(_)) && parts.input.len() >= 16 {
        assert_ne!(back.input, parts.input, "{suite}: not encrypted");
    }
    let opened = run(suite, Direction::Decrypt, &back);
    assert_eq!(opened.status, OpStatus::Done, "{suite}");
    if !matches!(suite, Suite::Mac(_)) {
        assert_eq!(opened.output, parts.input, "{suite}");
    }
}

/// Chooses one part of an operation.
type Part = fn(&mut Parts) -> &mut Vec<u8>;

/// Changes one bit of whatever the suite authenticates.
fn check_tampering(suite: Suite, len: usize, seed: u64, place: usize, bit: u8) {
    let parts = default_parts(suite, len, seed);
    let forth = run(suite, Direction::Encrypt, &parts);
    let good = way_back(suite, &parts, forth);
    let iv_counts = matches!(suite, Suite::Aead(_) | Suite::Mac(Mac::Gmac(_)));
    let spoil: [(Part, bool); 4] = [
        (|parts| &mut parts.input, true),
        (|parts| &mut parts.aad, true),
        (|parts| &mut parts.tag, true),
        (|parts| &mut parts.iv, iv_counts),
    ];
    for (part, _) in spoil.into_iter().filter(|(_, counts)| *counts) {
        let mut bad = good.clone();
        let bytes = part(&mut bad);
        if bytes.is_empty() {
            continue;
        }
        let place = place % bytes.len();
        bytes[place] ^= 1 << (bit % 8);
        let outcome = run(suite, Direction::Decrypt, &bad);
        assert_eq!(outcome.status, OpStatus::AuthFailed, "{suite}");
        assert!(outcome.output.is_empty() && outcome.room.iter().all(|byte| *byte == 0), "{suite}: not zeroed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_goes_in_comes_out(len in 0usize..300, seed in 0u64..1 << 40) {
        for suite in symmetric() {
            check_round_trip(suite, len, seed);
        }
    }

    #[test]
    fn what_was_tampered_with_does_not(
        len in 0usize..200, seed in 0u64..1 << 40, place in any::<usize>(), bit in any::<u8>(),
    ) {
        for suite in symmetric().into_iter().filter(|suite| authenticates(*suite)) {
            check_tampering(suite, len, seed, place, bit);
        }
    }
}

#[test]
fn lengths_around_blocks_come_back() {
    for suite in symmetric() {
        for len in [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1_000] {
            check_round_trip(suite, len, len as u64);
        }
    }
}

#[test]
fn xts_takes_every_tail() {
    for suite in symmetric().into_iter().filter(|suite| matches!(suite, Suite::Cipher(_, Mode::Xts))) {
        for len in 16..=64 {
            check_round_trip(suite, len, 3);
        }
    }
}
