//! The compression functions under MD5, SHA-1 and SHA-2, for code that must decide itself which block is the last one.

use ciphermill_contract::suite::Digest;
use subtle::{Choice, ConditionallySelectable};
use zeroize::Zeroizing;

use crate::tag::Output;

/// Bytes of the longest block, that of SHA-384 and SHA-512.
pub(super) const BLOCK_LEN_MAX: usize = 128;

/// SHA-512's initial value (FIPS 180-4, 5.3.5); SHA-256's are the upper halves (5.3.3).
const SHA512_START: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// SHA-384's initial value (FIPS 180-4, 5.3.4); SHA-224's are the lower halves (5.3.2).
const SHA384_START: [u64; 8] = [
    0xcbbb_9d5d_c105_9ed8,
    0x629a_292a_367c_d507,
    0x9159_015a_3070_dd17,
    0x152f_ecd8_f70e_5939,
    0x6733_2667_ffc0_0b31,
    0x8eb4_4a87_6858_1511,
    0xdb0c_2e0d_64f9_8fa7,
    0x47b5_481d_befa_4fa4,
];

/// SHA-1's initial value (FIPS 180-4, 5.3.1); MD5's are its first four words (RFC 1321, 3.3).
const SHA1_START: [u64; 8] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0, 0, 0, 0];

/// A chaining value, its words in 64 bits each whatever the digest.
#[derive(Clone)]
pub(super) struct State {
    digest: Digest,
    words: Zeroizing<[u64; 8]>,
}

impl State {
    /// The initial value; `None` for digests that are built otherwise.
    pub(super) fn new(digest: Digest) -> Option<State> {
        let words = match digest {
            Digest::Md5 | Digest::Sha1 => SHA1_START,
            Digest::Sha224 => SHA384_START.map(|word| word & 0xffff_ffff),
            Digest::Sha256 => SHA512_START.map(|word| word >> 32),
            Digest::Sha384 => SHA384_START,
            Digest::Sha512 => SHA512_START,
            _ => return None,
        };
        Some(State { digest, words: Zeroizing::new(words) })
    }

    /// The same digest with nothing in it, to gather a result in.
    pub(super) fn zero(&self) -> State {
        State { digest: self.digest, words: Zeroizing::new([0; 8]) }
    }

    /// Takes in the first `block_len` bytes of `block`.
    pub(super) fn compress(&mut self, block: &[u8; BLOCK_LEN_MAX]) {
        let (halves, _) = block.as_chunks::<64>();
        let short = &halves[..1];
        match self.digest {
            Digest::Md5 => self.narrow::<4>(|words| md5::block_api::compress(words, short)),
            Digest::Sha1 => self.narrow::<5>(|words| sha1::block_api::compress(words, short)),
            Digest::Sha224 | Digest::Sha256 => {
                self.narrow::<8>(|words| sha2::block_api::compress256(words, short));
            }
            _ => sha2::block_api::compress512(&mut self.words, core::slice::from_ref(block)),
        }
    }

    /// Takes over `other`'s words if `wanted`, without a branch.
    pub(super) fn assign_if(&mut self, wanted: Choice, other: &State) {
        for (to, from) in self.words.iter_mut().zip(other.words.iter()) {
            to.conditional_assign(from, wanted);
        }
    }

    /// The digest that this chaining value is, when the last block has been taken in.
    pub(super) fn output(&self) -> Output {
        let mut bytes = Zeroizing::new([0; 64]);
        let wide = matches!(self.digest, Digest::Sha384 | Digest::Sha512);
        if wide {
            for (to, word) in bytes.chunks_exact_mut(8).zip(self.words.iter()) {
                to.copy_from_slice(&word.to_be_bytes());
            }
        } else {
            for (to, word) in bytes.chunks_exact_mut(4).zip(self.words.iter()) {
                let word = *word as u32;
                to.copy_from_slice(&match self.digest {
                    Digest::Md5 => word.to_le_bytes(),
                    _ => word.to_be_bytes(),
                });
            }
        }
        Output::new(&bytes[..self.digest.len()])
    }

    /// Lends the words as `N` numbers of 32 bits.
    fn narrow<const N: usize>(&mut self, work: impl FnOnce(&mut [u32; N])) {
        let mut words = Zeroizing::new([0u32; N]);
        for (to, from) in words.iter_mut().zip(self.words.iter()) {
            *to = *from as u32;
        }
        work(&mut words);
        for (to, from) in self.words.iter_mut().zip(words.iter()) {
            *to = u64::from(*from);
        }
    }
}
