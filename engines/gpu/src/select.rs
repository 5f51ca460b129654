//! The way from a suite to the kernel that runs it, and what that kernel wants.

use ciphermill_contract::suite::{Aead, AesSize, BlockCipher, Digest, Mac, Mode, StreamCipher};
use ciphermill_contract::{Direction, Suite};

use crate::program::Program;

/// How a suite and direction are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) program: Program,
    pub(crate) kernel: &'static str,
    /// Messages that one work item takes side by side.
    pub(crate) per_item: usize,
    /// Data are padded to multiples of as many bytes.
    pub(crate) grain: usize,
    /// A cipher's rounds or passes.
    pub(crate) rounds: u32,
    /// Bytes of IV on the device, without the part's place behind it.
    pub(crate) iv_len: usize,
    /// What an operation's IV becomes there.
    pub(crate) iv: Iv,
    /// Bytes of tag on the device; zero for suites without one.
    pub(crate) tag_len: usize,
    /// Whether what comes back is data worked on in place; otherwise tags alone do.
    pub(crate) transforms: bool,
    /// A digest's initial state.
    pub(crate) state: [u32; 16],
    /// How a long message may be taken apart.
    pub(crate) parts: Parts,
}

/// How a long message may be taken apart into several that are worked on side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Not at all.
    Whole,
    /// Blocks have nothing to do with each other.
    Independent,
    /// A part's IV is the ciphertext block before it.
    Chained,
    /// A part's IV is the counter block, moved on by the blocks before.
    Counted,
    /// The same with ChaCha20's counter, which comes first, and its blocks.
    CountedFirst,
    /// Every part has the message's IV, and behind it the number of its first block. A rest of a block stays with the
    /// block before it.
    Placed,
    /// As placed parts, with the bytes of the whole message behind that number. Each gives a share of the tag, and the
    /// sum of the shares is the message's. Additional data belong to the first.
    Hashed,
}

impl Parts {
    /// Words behind the IV that say where a part lies.
    pub(crate) const fn place_words(self) -> usize {
        match self {
            Parts::Placed => 1,
            Parts::Hashed => 2,
            _ => 0,
        }
    }
}

/// What an operation's IV becomes on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Iv {
    /// The same bytes.
    Plain,
    /// A nonce, four bytes shorter than a block, gets a counter behind it that starts at one (RFC 3686, and GCM's first
    /// counter block).
    CounterBehind,
    /// Twelve bytes get a counter before them that starts at zero (RFC 8439).
    CounterBefore,
}

/// The plan of a suite and direction; `None` for what this engine does not run.
pub(crate) fn plan(suite: Suite, direction: Direction) -> Option<Plan> {
    match suite {
        Suite::Digest(digest) => hash(digest, false),
        Suite::Mac(Mac::Hmac(digest)) => hash(digest, true),
        Suite::Mac(Mac::Poly1305) => Some(Plan { tag_len: 16, ..chacha("poly1305", Parts::Whole, false) }),
        Suite::Cipher(BlockCipher::Aes(size), Mode::Xts) => Some(xts(size, direction)),
        Suite::Cipher(cipher, mode) => block(cipher, mode, direction),
        Suite::Stream(StreamCipher::ChaCha20) => Some(chacha("stream", Parts::CountedFirst, true)),
        Suite::Stream(StreamCipher::Rc4) => Some(rc4()),
        Suite::Stream(StreamCipher::Seal3) => {
            Some(Plan { program: Program::Seal, iv_len: 4, parts: Parts::Placed, ..rc4() })
        }
        Suite::Aead(Aead::ChaCha20Poly1305) => {
            let kernel = if direction == Direction::Encrypt { "aead_seal" } else { "aead_open" };
            Some(Plan { tag_len: 16, ..chacha(kernel, Parts::Whole, true) })
        }
        Suite::Aead(Aead::AesGcm(size)) => Some(gcm(size, direction)),
        Suite::Mac(Mac::Gmac(size)) => Some(Plan { kernel: "gmac", transforms: false, ..gcm(size, direction) }),
        _ => None,
    }
}

fn chacha(kernel: &'static str, parts: Parts, transforms: bool) -> Plan {
    Plan {
        program: Program::ChaCha,
        kernel,
        per_item: 1,
        grain: 16,
        rounds: 0,
        iv_len: if transforms { 16 } else { 0 },
        iv: Iv::CounterBefore,
        tag_len: 0,
        transforms,
        state: [0; 16],
        parts,
    }
}

fn rc4() -> Plan {
    let plain = chacha("stream", Parts::Whole, true);
    Plan { program: Program::Rc4, grain: 4, iv_len: 0, iv: Iv::Plain, ..plain }
}

fn gcm(size: AesSize, direction: Direction) -> Plan {
    Plan {
        program: Program::AesGcm,
        kernel: if direction == Direction::Encrypt { "gcm_seal" } else { "gcm_open" },
        per_item: 2,
        grain: 16,
        rounds: crate::aes::rounds(size) as u32,
        iv_len: 16,
        iv: Iv::CounterBehind,
        tag_len: 16,
        transforms: true,
        state: [0; 16],
        parts: Parts::Hashed,
    }
}

fn xts(size: AesSize, direction: Direction) -> Plan {
    Plan {
        program: Program::AesXts,
        kernel: if direction == Direction::Encrypt { "xts_encrypt" } else { "xts_decrypt" },
        iv: Iv::Plain,
        tag_len: 0,
        parts: Parts::Placed,
        ..gcm(size, direction)
    }
}

fn hash(digest: Digest, keyed: bool) -> Option<Plan> {
    let program = crate::hash::program(digest)?;
    Some(Plan {
        program,
        kernel: if keyed { "hmac" } else { "digest" },
        per_item: 1,
        grain: 4,
        rounds: 0,
        iv_len: 0,
        iv: Iv::Plain,
        tag_len: digest.len(),
        transforms: false,
        state: if keyed { [0; 16] } else { crate::hash::initial_state(digest)? },
        parts: Parts::Whole,
    })
}

fn block(cipher: BlockCipher, mode: Mode, direction: Direction) -> Option<Plan> {
    let des = if direction == Direction::Encrypt { Program::DesEncrypt } else { Program::DesDecrypt };
    let (program, per_item, rounds, len) = match cipher {
        BlockCipher::Aes(size) => (Program::Aes, 2, crate::aes::rounds(size) as u32, 16),
        BlockCipher::Des => (des, 32, 1, 8),
        BlockCipher::TripleDes => (des, 32, 3, 8),
        BlockCipher::Blowfish => (Program::Blowfish, 1, 16, 8),
        BlockCipher::Khufu | BlockCipher::Khafre => (Program::Merkle, 1, 16, 8),
    };
    let (kernel, parts) = match (mode, direction) {
        (Mode::Ecb, Direction::Encrypt) => ("ecb_encrypt", Parts::Independent),
        (Mode::Ecb, Direction::Decrypt) => ("ecb_decrypt", Parts::Independent),
        (Mode::Cbc, Direction::Encrypt) => ("cbc_encrypt", Parts::Whole),
        (Mode::Cbc, Direction::Decrypt) => ("cbc_decrypt", Parts::Chained),
        (Mode::Ctr, _) if matches!(cipher, BlockCipher::Aes(_) | BlockCipher::Blowfish) => ("ctr", Parts::Counted),
        _ => return None,
    };
    Some(Plan {
        program,
        kernel,
        per_item,
        grain: len,
        rounds,
        iv_len: if mode == Mode::Ecb { 0 } else { len },
        iv: if mode == Mode::Ctr { Iv::CounterBehind } else { Iv::Plain },
        tag_len: 0,
        transforms: true,
        state: [0; 16],
        parts,
    })
}
