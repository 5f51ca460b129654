//! The way from a suite to the kernel that runs it, and what that kernel wants.

use ciphermill_contract::suite::{BlockCipher, Digest, Mac, Mode};
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
    /// Bytes of IV on the device.
    pub(crate) iv_len: usize,
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
}

/// The plan of a suite and direction; `None` for what this engine does not run.
pub(crate) fn plan(suite: Suite, direction: Direction) -> Option<Plan> {
    match suite {
        Suite::Digest(digest) => hash(digest, false),
        Suite::Mac(Mac::Hmac(digest)) => hash(digest, true),
        Suite::Cipher(cipher, mode) => block(cipher, mode, direction),
        _ => None,
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
        tag_len: digest.len(),
        transforms: false,
        state: if keyed { [0; 16] } else { crate::hash::initial_state(digest)? },
        parts: Parts::Whole,
    })
}

fn block(cipher: BlockCipher, mode: Mode, direction: Direction) -> Option<Plan> {
    let (program, per_item, rounds, len) = match cipher {
        BlockCipher::Aes(size) => (Program::Aes, 2, crate::aes::rounds(size) as u32, 16),
        BlockCipher::Des => (Program::Des, 32, 1, 8),
        BlockCipher::TripleDes => (Program::Des, 32, 3, 8),
        BlockCipher::Blowfish | BlockCipher::Khufu | BlockCipher::Khafre => return None,
    };
    let (kernel, parts) = match (mode, direction) {
        (Mode::Ecb, Direction::Encrypt) => ("ecb_encrypt", Parts::Independent),
        (Mode::Ecb, Direction::Decrypt) => ("ecb_decrypt", Parts::Independent),
        (Mode::Cbc, Direction::Encrypt) => ("cbc_encrypt", Parts::Whole),
        (Mode::Cbc, Direction::Decrypt) => ("cbc_decrypt", Parts::Chained),
        (Mode::Ctr, _) if matches!(cipher, BlockCipher::Aes(_)) => ("ctr", Parts::Counted),
        _ => return None,
    };
    Some(Plan {
        program,
        kernel,
        per_item,
        grain: len,
        rounds,
        iv_len: if mode == Mode::Ecb { 0 } else { len },
        tag_len: 0,
        transforms: true,
        state: [0; 16],
        parts,
    })
}
