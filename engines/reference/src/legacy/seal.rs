//! SEAL 3.0, a pseudorandom function that stretches a position index to a long keystream.
//!
//! Source: P. Rogaway and D. Coppersmith, "A Software-Optimized Encryption Algorithm",
//! Journal of Cryptology 11 (1998), 273-287. Version 2.0 is described in the Handbook of
//! Applied Cryptography, section 6.4.1; 3.0 differs from it in the last step of the inner
//! loop alone, which adds the saved words to all four registers instead of to two.

use core::fmt;

use sha1::block_api::compress;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes that one position index yields at most.
pub(crate) const KEYSTREAM_LEN_MAX: usize = 64 * 1024;

/// Bytes that one setting of the registers yields: 64 steps of four words.
const ITERATION_LEN: usize = 1024;
const STEP_LEN: usize = 16;
const R_LEN: usize = 4 * KEYSTREAM_LEN_MAX / ITERATION_LEN;

const S_START: u32 = 0x1000;
const R_START: u32 = 0x2000;

/// The bits of a register that choose a word of the table T, as a byte offset.
const OFFSET_MASK: u32 = 0x7fc;

/// The request exceeds what one position index may yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealLenError {
    /// The length in bytes that was asked for.
    pub(crate) len: usize,
}

impl fmt::Display for SealLenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seal: keystream of {} bytes; one position index yields at most {KEYSTREAM_LEN_MAX}", self.len)
    }
}

impl core::error::Error for SealLenError {}

/// The tables that SEAL derives from a 160-bit key; wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Seal {
    t: [u32; 512],
    s: [u32; 256],
    r: Vec<u32>,
}

impl Seal {
    /// Derives the tables T, S and R from `key` (paper, section 3: table generation).
    pub(crate) fn new(key: &[u8; 20]) -> Self {
        let mut seal = Self { t: [0; 512], s: [0; 256], r: vec![0; R_LEN] };
        let mut gamma = Gamma::new(key);
        gamma.fill(0, &mut seal.t);
        gamma.fill(S_START, &mut seal.s);
        gamma.fill(R_START, &mut seal.r);
        seal
    }

    /// Writes the first `out.len()` bytes of the keystream of position index `n`, each
    /// 32-bit word with its highest byte first.
    ///
    /// # Errors
    ///
    /// [`SealLenError`] when `out` is longer than [`KEYSTREAM_LEN_MAX`]; `out` is then
    /// left as it was.
    pub(crate) fn keystream(&self, n: u32, out: &mut [u8]) -> Result<(), SealLenError> {
        self.generate(n, out, feed_back)
    }

    /// The keystream with the end of each inner step as a parameter, the one place in
    /// which the versions of SEAL differ.
    fn generate(&self, n: u32, out: &mut [u8], feedback: fn(&mut Registers, u32, u32)) -> Result<(), SealLenError> {
        if out.len() > KEYSTREAM_LEN_MAX {
            return Err(SealLenError { len: out.len() });
        }
        let starts = self.r.chunks_exact(4);
        for (iteration, start) in out.chunks_mut(ITERATION_LEN).zip(starts) {
            let (mut registers, saved) = self.initialise(n, start);
            for (i, step) in iteration.chunks_mut(STEP_LEN).enumerate() {
                let words = self.step(&mut registers, i);
                for (bytes, word) in step.chunks_mut(4).zip(words) {
                    bytes.copy_from_slice(&word.to_be_bytes()[..bytes.len()]);
                }
                // Steps are counted from one in the paper: the first uses n1 and n2.
                let [n1, n2, n3, n4] = saved;
                if i % 2 == 0 {
                    feedback(&mut registers, n1, n2);
                } else {
                    feedback(&mut registers, n3, n4);
                }
            }
        }
        Ok(())
    }

    /// Sets the registers for one iteration and returns the four words n1 to n4 that the
    /// inner loop feeds back.
    fn initialise(&self, n: u32, start: &[u32]) -> (Registers, [u32; 4]) {
        let mut x = [n, n.rotate_right(8), n.rotate_right(16), n.rotate_right(24)];
        for (register, word) in x.iter_mut().zip(start) {
            *register ^= word;
        }
        self.mix(&mut x);
        self.mix(&mut x);
        let [a, b, c, d] = x;
        self.mix(&mut x);
        let [a3, b3, c3, d3] = x;
        (Registers { a: a3, b: b3, c: c3, d: d3 }, [d, b, a, c])
    }

    /// Lets each register in turn choose a word of T that is added to the next one.
    fn mix(&self, x: &mut [u32; 4]) {
        for i in 0..4 {
            let chosen = self.lookup(x[i] & OFFSET_MASK);
            let next = (i + 1) % 4;
            x[next] = x[next].wrapping_add(chosen);
            x[i] = x[i].rotate_right(9);
        }
    }

    /// One step of the inner loop: stirs the registers and returns four words of keystream.
    fn step(&self, registers: &mut Registers, i: usize) -> [u32; 4] {
        let Registers { mut a, mut b, mut c, mut d } = *registers;

        let mut p = a & OFFSET_MASK;
        b = b.wrapping_add(self.lookup(p));
        a = a.rotate_right(9);
        b ^= a;

        let mut q = b & OFFSET_MASK;
        c ^= self.lookup(q);
        b = b.rotate_right(9);
        c = c.wrapping_add(b);

        p = p.wrapping_add(c) & OFFSET_MASK;
        d = d.wrapping_add(self.lookup(p));
        c = c.rotate_right(9);
        d ^= c;

        q = q.wrapping_add(d) & OFFSET_MASK;
        a ^= self.lookup(q);
        d = d.rotate_right(9);
        a = a.wrapping_add(d);

        p = p.wrapping_add(a) & OFFSET_MASK;
        b ^= self.lookup(p);
        a = a.rotate_right(9);

        q = q.wrapping_add(b) & OFFSET_MASK;
        c = c.wrapping_add(self.lookup(q));
        b = b.rotate_right(9);

        p = p.wrapping_add(c) & OFFSET_MASK;
        d ^= self.lookup(p);
        c = c.rotate_right(9);

        q = q.wrapping_add(d) & OFFSET_MASK;
        a = a.wrapping_add(self.lookup(q));
        d = d.rotate_right(9);

        *registers = Registers { a, b, c, d };
        let s = &self.s[4 * i..4 * i + 4];
        [b.wrapping_add(s[0]), c ^ s[1], d.wrapping_add(s[2]), a ^ s[3]]
    }

    /// The word of T at a masked byte offset.
    fn lookup(&self, offset: u32) -> u32 {
        self.t[(offset / 4) as usize]
    }
}

/// The end of an inner step in version 3.0.
fn feed_back(registers: &mut Registers, first: u32, second: u32) {
    registers.a = registers.a.wrapping_add(first);
    registers.b = registers.b.wrapping_add(second);
    registers.c ^= first;
    registers.d ^= second;
}

#[derive(Zeroize, ZeroizeOnDrop)]
struct Registers {
    a: u32,
    b: u32,
    c: u32,
    d: u32,
}

/// The table function of the paper: word `i` is word `i mod 5` of the SHA-1 compression
/// function under the key as chaining value, over a block that begins with `i / 5`.
#[derive(Zeroize, ZeroizeOnDrop)]
struct Gamma {
    key: [u32; 5],
}

impl Gamma {
    fn new(key: &[u8; 20]) -> Self {
        let mut words = [0; 5];
        for (word, bytes) in words.iter_mut().zip(key.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Self { key: words }
    }

    fn fill(&mut self, start: u32, table: &mut [u32]) {
        for (i, entry) in (start..).zip(table) {
            *entry = self.word(i);
        }
    }

    fn word(&self, i: u32) -> u32 {
        let mut block = [0; 64];
        block[..4].copy_from_slice(&(i / 5).to_be_bytes());
        let mut state = self.key;
        compress(&mut state, &[block]);
        let word = state[(i % 5) as usize];
        state.zeroize();
        word
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The key and the position index of the published vectors.
    const KEY: [u8; 20] = [
        0x67, 0x45, 0x23, 0x01, 0xef, 0xcd, 0xab, 0x89, 0x98, 0xba, 0xdc, 0xfe, 0x10, 0x32, 0x54, 0x76, 0xc3, 0xd2,
        0xe1, 0xf0,
    ];
    const N: u32 = 0x0135_77af;

    /// `vectors/data/legacy/seal_3.txt`: what follows `name` on each of its lines, joined.
    fn published(name: &str) -> Vec<u8> {
        let data = include_str!("../../../../vectors/data/legacy/seal_3.txt");
        let digits: String = data.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).collect();
        hex::decode(digits).unwrap()
    }

    fn words(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
    }

    /// The end of an inner step in version 2.0 (Handbook of Applied Cryptography, 6.4.1).
    fn feed_back_version_2(registers: &mut Registers, first: u32, second: u32) {
        registers.a = registers.a.wrapping_add(first);
        registers.c = registers.c.wrapping_add(second);
    }

    #[test]
    fn tables_are_those_of_the_handbook() {
        // Handbook of Applied Cryptography, section 6.4.1, test vectors for SEAL 2.0; the
        // versions share their tables.
        let seal = Seal::new(&KEY);
        assert_eq!(
            seal.r[..16],
            [
                0x5021_758d,
                0xce57_7c11,
                0xfa5b_d5dd,
                0x366d_1b93,
                0x182c_ff72,
                0xac06_d7c6,
                0x2683_ead8,
                0xfabe_3573,
                0x82a1_0c96,
                0x48c4_83bd,
                0xca92_285c,
                0x71fe_84c0,
                0xbd76_b700,
                0x6fdc_c20c,
                0x8dad_a151,
                0x4506_dd64,
            ]
        );
        assert_eq!(seal.t[..6], [0x92b4_04e5, 0x5658_8ced, 0x6c1a_cd4e, 0xbf05_3f68, 0x09f7_3a93, 0xcd5f_176a]);
        assert_eq!(seal.s[..6], [0x907c_1e3d, 0xce71_ef0a, 0x48f5_59ef, 0x2b7a_b8bc, 0x4557_f4b8, 0x033e_9b05]);
    }

    #[test]
    fn version_2_loop_gives_the_handbooks_output() {
        // The same section: first and last words of 4096 bytes. They depend on the tables and
        // on all of the loop but its end.
        let mut out = [0; 4096];
        Seal::new(&KEY).generate(N, &mut out, feed_back_version_2).unwrap();
        assert_eq!(
            words(&out[..48]),
            [
                0x37a0_0595,
                0x9b84_c49c,
                0xa4be_1e05,
                0x0673_530f,
                0x0ac8_389d,
                0xc587_8ec8,
                0xda66_66d0,
                0x6da7_1328,
                0x1419_bdf2,
                0xd258_bebb,
                0xb6a4_2a4d,
                0x8a31_1a72,
            ]
        );
        assert_eq!(
            words(&out[4096 - 24..]),
            [0x547d_fde9, 0x668d_50b5, 0xba9e_2567, 0x4134_03c5, 0x4312_0b5a, 0xecf9_d062]
        );
    }

    #[test]
    fn version_3_gives_the_published_keystream() {
        assert_eq!(published("key"), KEY);
        assert_eq!(published("n"), N.to_be_bytes());
        let want = published("keystream");
        assert_eq!(want.len(), 4096);
        let mut out = vec![0; want.len()];
        Seal::new(&KEY).keystream(N, &mut out).unwrap();
        assert_eq!(hex::encode(out), hex::encode(want));
    }

    #[test]
    fn longest_keystream_is_full_and_one_byte_more_is_refused() {
        let seal = Seal::new(&KEY);
        let mut out = vec![0; KEYSTREAM_LEN_MAX];
        seal.keystream(N, &mut out).unwrap();
        // No iteration repeats another, and none is left empty.
        let mut iterations: Vec<_> = out.chunks_exact(ITERATION_LEN).collect();
        iterations.sort_unstable();
        iterations.dedup();
        assert_eq!(iterations.len(), 64);
        assert!(!iterations.contains(&&[0; ITERATION_LEN][..]));

        let mut out = vec![0xaa; KEYSTREAM_LEN_MAX + 1];
        let error = seal.keystream(N, &mut out).unwrap_err();
        assert_eq!(error, SealLenError { len: 65537 });
        assert_eq!(error.to_string(), "seal: keystream of 65537 bytes; one position index yields at most 65536");
        assert!(out.iter().all(|&byte| byte == 0xaa));
    }

    #[test]
    fn wiping_leaves_nothing_of_the_key() {
        let mut seal = Seal::new(&KEY);
        seal.zeroize();
        assert_eq!(seal.t, [0; 512]);
        assert_eq!(seal.s, [0; 256]);
        assert!(seal.r.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn shorter_keystream_is_a_prefix_of_a_longer_one(
            key in any::<[u8; 20]>(),
            n in any::<u32>(),
            long_len in 0..=5000usize,
            cut in 0..=5000usize,
        ) {
            let seal = Seal::new(&key);
            let mut long = vec![0; long_len];
            seal.keystream(n, &mut long).unwrap();
            let mut short = vec![0xff; cut.min(long_len)];
            seal.keystream(n, &mut short).unwrap();
            prop_assert_eq!(&short[..], &long[..short.len()]);
        }

        #[test]
        fn position_indices_and_keys_give_different_keystreams(
            key in any::<[u8; 20]>(),
            n in any::<u32>(),
            bit in 0..32u32,
        ) {
            let keystream = |key: &[u8; 20], n| {
                let mut out = [0; 64];
                Seal::new(key).keystream(n, &mut out).unwrap();
                out
            };
            let mut other_key = key;
            other_key[(bit % 20) as usize] ^= 1;
            prop_assert_ne!(keystream(&key, n), keystream(&key, n ^ (1 << bit)));
            prop_assert_ne!(keystream(&key, n), keystream(&other_key, n));
        }
    }
}
