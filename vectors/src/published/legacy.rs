//! The text files of ciphers that no collection of vectors knows: Khufu, Khafre, SEAL.

use std::sync::Arc;

use ciphermill_contract::Suite;
use ciphermill_contract::suite::{BlockCipher, Mode, StreamCipher};

use super::{Sink, blank};
use crate::case::{Case, CaseKeys};

/// Rounds of Khufu and Khafre in the suites.
const ROUNDS: &str = "16";

pub(super) fn load(sink: &mut Sink) {
    khufu_and_khafre(sink, include_str!("../../data/legacy/khufu_khafre.txt"));
    seal(sink, include_str!("../../data/legacy/seal_3.txt"));
}

fn bytes(text: &str) -> Vec<u8> {
    match hex::decode(text) {
        Ok(bytes) => bytes,
        Err(error) => panic!("vectors/data/legacy: `{text}`: {error}"),
    }
}

fn khufu_and_khafre(sink: &mut Sink, text: &str) {
    let source: Arc<str> = "vectors/derive/khufu_khafre.py, which reproduces US patent 5,003,597".into();
    for (number, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, rounds, key, input, output] = fields[..] else { continue };
        let cipher = match name {
            "khufu" => BlockCipher::Khufu,
            "khafre" => BlockCipher::Khafre,
            _ => continue,
        };
        if rounds != ROUNDS {
            sink.skip(&source, "a number of rounds other than 16");
            continue;
        }
        sink.add(Case {
            keys: CaseKeys { secret: bytes(key), ..CaseKeys::default() },
            input: bytes(input),
            output: bytes(output),
            ..blank(format!("{name} line {}", number + 1), &source, Suite::Cipher(cipher, Mode::Ecb))
        });
    }
}

fn seal(sink: &mut Sink, text: &str) {
    let source: Arc<str> = "seal.txt of Crypto++, checked against Rogaway and Coppersmith 1997".into();
    let value = |name: &str| -> Vec<u8> {
        text.lines().filter_map(|line| line.strip_prefix(name)).flat_map(|rest| bytes(rest.trim())).collect()
    };
    let (key, position, key_stream) = (value("key "), value("n "), value("keystream "));
    for len in [1, 77, 1024, key_stream.len()] {
        sink.add(Case {
            keys: CaseKeys { secret: key.clone(), ..CaseKeys::default() },
            iv: position.clone(),
            input: vec![0; len],
            output: key_stream[..len.min(key_stream.len())].to_vec(),
            ..blank(format!("first {len} bytes"), &source, Suite::Stream(StreamCipher::Seal3))
        });
    }
}
