//! Digests and HMAC: initial states, and keys as the kernels read them: the two midstates of HMAC (RFC 2104).

use ciphermill_contract::error::KeyProblem;
use ciphermill_contract::suite::Digest;
use zeroize::Zeroizing;

use crate::form::{Form, words};
use crate::program::Program;

mod compress;

/// Words of a state in the head of a packed batch.
const STATE_WORDS: usize = 16;

/// The program that a digest is part of; `None` for those without a kernel.
pub(crate) fn program(digest: Digest) -> Option<Program> {
    match digest {
        Digest::Md5 => Some(Program::Md5),
        Digest::Sha1 => Some(Program::Sha1),
        Digest::Sha224 | Digest::Sha256 => Some(Program::Sha256),
        Digest::Sha384 | Digest::Sha512 => Some(Program::Sha512),
        _ => None,
    }
}

/// The initial state (RFC 1321, 3.3; FIPS 180-4, 5.3); numbers of 64 bits lie lower half first.
pub(crate) fn initial_state(digest: Digest) -> Option<[u32; STATE_WORDS]> {
    let short: &[u32] = match digest {
        Digest::Md5 => &[0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476],
        Digest::Sha1 => &[0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0],
        Digest::Sha224 => {
            &[0xc105_9ed8, 0x367c_d507, 0x3070_dd17, 0xf70e_5939, 0xffc0_0b31, 0x6858_1511, 0x64f9_8fa7, 0xbefa_4fa4]
        }
        Digest::Sha256 => {
            &[0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19]
        }
        Digest::Sha384 => return Some(halves(&SHA384)),
        Digest::Sha512 => return Some(halves(&SHA512)),
        _ => return None,
    };
    let mut state = [0; STATE_WORDS];
    state[..short.len()].copy_from_slice(short);
    Some(state)
}

const SHA384: [u64; 8] = [
    0xcbbb_9d5d_c105_9ed8,
    0x629a_292a_367c_d507,
    0x9159_015a_3070_dd17,
    0x152f_ecd8_f70e_5939,
    0x6733_2667_ffc0_0b31,
    0x8eb4_4a87_6858_1511,
    0xdb0c_2e0d_64f9_8fa7,
    0x47b5_481d_befa_4fa4,
];

const SHA512: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

fn halves(state: &[u64; 8]) -> [u32; STATE_WORDS] {
    std::array::from_fn(|at| (state[at / 2] >> (32 * (at % 2))) as u32)
}

/// Works out the midstates after the key's inner and outer block.
///
/// # Errors
/// `Parameters` for a digest without a kernel.
pub(crate) fn prepare(digest: Digest, key: &[u8]) -> Result<Form, KeyProblem> {
    let initial = initial_state(digest).ok_or(KeyProblem::Parameters)?;
    let block_len = if matches!(digest, Digest::Sha384 | Digest::Sha512) { 128 } else { 64 };
    // Keys longer than a block are hashed first.
    let mut block = Zeroizing::new([0u8; 128]);
    if key.len() > block_len {
        compress::digest(digest, &initial, key, &mut block[..digest.len()]);
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    // The state's words, as many as the kernel has.
    let state_words = match digest {
        Digest::Md5 => 4,
        Digest::Sha1 => 5,
        Digest::Sha224 | Digest::Sha256 => 8,
        _ => 16,
    };
    let mut states = Zeroizing::new([0u32; 2 * STATE_WORDS]);
    for (half, pad) in [0x36, 0x5c].into_iter().enumerate() {
        let mut padded = Zeroizing::new([0u8; 128]);
        padded.iter_mut().zip(block.iter()).for_each(|(to, from)| *to = from ^ pad);
        let mut state = Zeroizing::new(initial);
        compress::compress(digest, &mut state, &padded[..block_len]);
        states[half * state_words..][..state_words].copy_from_slice(&state[..state_words]);
    }
    Ok(words(&states[..2 * state_words]))
}
