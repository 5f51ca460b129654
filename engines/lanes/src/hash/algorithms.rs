//! The digests' compression functions, a message a lane: MD5 (RFC 1321), SHA-1 and SHA-2 (FIPS 180-4), SHA-3
//! and SHAKE (FIPS 202).
//!
//! Floors with AVX-512, instructions for sixteen blocks of 64 bytes (MD5, SHA-1, SHA-256) or eight of 128 (SHA-512), 136
//! (SHA3-256, SHAKE256) or 168 (SHAKE128), on two ports; reading and transposing blocks adds 80 to 112:
//! - MD5: 64 steps of 7 and fewer: 430, 13 cycles a block with the rest;
//! - SHA-1: 80 steps of 7 and 64 words of 3: 750, 27 cycles;
//! - SHA-256: 64 rounds of 18 and 48 words of 11: 1680, 55 cycles;
//! - SHA-512: 80 rounds of 18 and 64 words of 11: 2140, 140 cycles;
//! - SHA-3, SHAKE: 24 rounds of 94: 2260, 150 cycles.
//!
//! On a Zen 5, with four ports, of which two rotate, every instruction takes two cycles until the next may use its result.
//! There the chain of rounds is what a vector waits for: MD5 64 steps of four, 512 cycles (measured 520), SHA-1 80 steps of
//! two, 320 (320), SHA-256 64 rounds of three, 384 and the ports 440 (550), SHA-512 80 of three, 480 and 560 (670). Hence
//! sums are written in the order in which their terms are there, and [`Words::settle`] keeps it.

use super::constants::{CUBE_ROOTS, IOTA, SHA512_256_START, SINES, SQUARE_ROOTS};
use super::vector::{Isa, LANES_MAX, Words};
use crate::processor::{For, prefetch};

/// Words of the longest chaining value, SHA-3's.
pub(super) const STATE_MAX: usize = 25;

/// Words of the longest block, SHAKE128's.
pub(super) const BLOCK_MAX: usize = 21;

/// How far ahead messages are fetched.
pub(super) const AHEAD: usize = 256;

/// Chaining values, a lane each.
pub(super) type State<W> = [W; STATE_MAX];

/// A body for each index, which is a constant in it: loops as long as these are not always unrolled, and then vectors go
/// through memory.
macro_rules! unrolled {
    ($i:ident in [$($n:literal)*] $body:block) => {
        $({
            const $i: usize = $n;
            $body
        })*
    };
    ($i:ident in 0..4 $body:block) => { unrolled!($i in [0 1 2 3] $body) };
    ($i:ident in 0..5 $body:block) => { unrolled!($i in [0 1 2 3 4] $body) };
    ($i:ident in 0..16 $body:block) => { unrolled!($i in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15] $body) };
    ($i:ident in 0..20 $body:block) => {
        unrolled!($i in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19] $body)
    };
}

#[cfg(target_arch = "x86_64")]
pub(super) use unrolled;

/// The processor's own instructions for a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instructions {
    /// Those for SHA-1.
    Sha1,
    /// Those for SHA-224 and SHA-256.
    Sha256,
}

impl Instructions {
    /// From how many messages on vectors are faster, measured on a Xeon of the fourth generation with digests and HMACs of
    /// 1 to 32 messages of 16 to 1024 bytes. SHA-1: five messages take 0.89 to 1.34 of the pairs' time in sixteen lanes,
    /// six 0.79 to 1.02, sixteen 0.32 to 0.54; six take 0.90 to 1.25 in eight lanes, seven 0.72 to 1.04, eight 0.62 to
    /// 0.97. SHA-256: eight take 1.03 to 1.23 in sixteen, nine 0.93 to 1.10, ten 0.86 to 1.09, sixteen 0.59 to 0.71; full
    /// vectors of eight 1.35 to 1.5: they are never faster, and run only where that kernel was asked for. On a Zen 5, eight
    /// in sixteen lanes take 1.3 for 64 bytes, 1.0 for 512, 0.93 for 1024 and 0.87 for 4096, since what lanes cost besides
    /// blocks counts less.
    pub(super) const fn worth(self, long: bool) -> Worth {
        match self {
            Instructions::Sha1 => Worth { avx512: 6, avx2: 7, portable: 5 },
            Instructions::Sha256 => Worth { avx512: if long { 8 } else { 9 }, avx2: 8, portable: 5 },
        }
    }
}

/// How many messages cost as much one after the other as a vector of them, by kernel.
pub(super) struct Worth {
    pub(super) avx512: u32,
    pub(super) avx2: u32,
    pub(super) portable: u32,
}

/// A block of each lane, where it lies. Words are read when rounds get to them: what that takes runs beside the rounds,
/// which wait for each other.
pub(super) struct Block<'a, W: Words> {
    isa: W::Isa,
    from: &'a [*const u8; LANES_MAX],
    at: usize,
}

impl<W: Words> Clone for Block<'_, W> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Words> Copy for Block<'_, W> {}

impl<'a, W: Words> Block<'a, W> {
    /// Blocks that lie `at` bytes behind the given places.
    ///
    /// # Safety
    /// They may be read as long as the value is used.
    #[inline(always)]
    pub(super) unsafe fn new(isa: W::Isa, from: &'a [*const u8; LANES_MAX], at: usize) -> Self {
        Block { isa, from, at }
    }

    /// Four words of each lane, from the given one on. Each time, a quarter of what is read later is fetched.
    #[inline(always)]
    fn four(self, first: usize) -> [W; 4] {
        let lines = size_of::<W::Word>() / 4;
        let quarter = W::LEN * lines / 4;
        for line in first / 4 * quarter..(first / 4 + 1) * quarter {
            prefetch(self.from[line / lines].wrapping_add(self.at + AHEAD + line % lines * 64), For::Later);
        }
        // SAFETY: what the value promises.
        unsafe { W::four(self.isa, self.from, self.at + first * size_of::<W::Word>()) }
    }

    /// The same of big-endian words.
    #[inline(always)]
    fn four_swapped(self, first: usize) -> [W; 4] {
        let [a, b, c, d] = self.four(first);
        [a.swap_bytes(), b.swap_bytes(), c.swap_bytes(), d.swap_bytes()]
    }

    /// A word of each lane.
    #[inline(always)]
    fn one(self, word: usize) -> W {
        // SAFETY: what the value promises.
        unsafe { W::one(self.isa, self.from, self.at + word * size_of::<W::Word>()) }
    }
}

/// A digest as lanes compute it.
pub(super) trait Algorithm {
    /// Its word, a lane each.
    type W<I: Isa>: Words<Isa = I>;
    /// Bytes of a word.
    const WORD: usize;
    /// Bytes of a block; of a sponge, its rate.
    const BLOCK: usize;
    /// Words of a chaining value.
    const STATE: usize;
    /// Words of the longest digest.
    const DIGEST: usize;
    /// Whether words are big-endian.
    const BIG_ENDIAN: bool;
    /// Bytes of the message's length behind its padding; none in a sponge.
    const LENGTH: usize;
    /// How many messages cost as much one after the other as a vector of them, without [`Instructions`] of their own.
    const WORTH: Worth;

    /// What some processors have for it.
    const INSTRUCTIONS: Option<Instructions> = None;
    /// From how many messages on vectors are faster than AVX2 and plain registers, if it is SHA-512, which has a way of its
    /// own for one message. On Zen 5, a message of 1 KB alone takes 1065 ns; each of two and of three in eight lanes 1290
    /// and 870, each of three and of four in four lanes 1195 and 895.
    const ALONE: Option<Worth> = None;
    /// Whether sixteen lanes copy whole blocks, one ahead, before rounds read them. Lines of messages that lie whole pages
    /// apart fall into few sets of the first-level cache, and words read late would miss there: 6 to 9 % of SHA-1's time.
    /// It costs 1 to 2 % otherwise, and SHA-256, whose rounds take twice as long, loses 5 %.
    const COPIES: bool = false;

    /// Takes in a block.
    fn compress<I: Isa>(isa: I, state: &mut State<Self::W<I>>, block: Block<'_, Self::W<I>>);
}

/// MD5.
pub(super) struct Md5;
/// SHA-1.
pub(super) struct Sha1;
/// SHA-224 and SHA-256.
pub(super) struct Sha256;
/// SHA-384, SHA-512 and SHA-512/256.
pub(super) struct Sha512;
/// A sponge with a rate of `RATE` bytes: of 136, SHA3-256 and SHAKE256; of 104, SHA3-384; of 72, SHA3-512; of 168,
/// SHAKE128.
pub(super) struct Sponge<const RATE: usize>;

/// What digests of one compression function differ in. Not a part of the type: lanes would be compiled for each of them.
#[derive(Clone, Copy)]
pub(super) struct Variant {
    /// Where it starts.
    pub(super) start: &'static [u64; STATE_MAX],
    /// Words of a digest.
    pub(super) words: usize,
    /// The byte behind a message.
    pub(super) pad: u8,
}

impl Variant {
    pub(super) const MD5: Variant = variant(&start([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476]), Md5::DIGEST);
    pub(super) const SHA1: Variant =
        variant(&start([0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0]), Sha1::DIGEST);
    pub(super) const SHA224: Variant = variant(&square_roots(8, 0, u32::MAX as u64), 7);
    pub(super) const SHA256: Variant = variant(&square_roots(0, 32, u32::MAX as u64), 8);
    pub(super) const SHA384: Variant = variant(&square_roots(8, 0, u64::MAX), 6);
    pub(super) const SHA512_256: Variant = variant(&start(SHA512_256_START), 4);
    pub(super) const SHA512: Variant = variant(&square_roots(0, 0, u64::MAX), 8);
    // The bits behind a message, and the first of the padding (FIPS 202, 6.1, 6.2, B.2): 01 and 1, 1111 and 1.
    pub(super) const SHA3_256: Variant = Variant { start: &[0; STATE_MAX], words: 4, pad: 0x06 };
    pub(super) const SHA3_384: Variant = Variant { start: &[0; STATE_MAX], words: 6, pad: 0x06 };
    pub(super) const SHA3_512: Variant = Variant { start: &[0; STATE_MAX], words: 8, pad: 0x06 };
    pub(super) const SHAKE128: Variant = Variant { start: &[0; STATE_MAX], words: 4, pad: 0x1f };
    pub(super) const SHAKE256: Variant = Variant { start: &[0; STATE_MAX], words: 8, pad: 0x1f };
}

/// What of a digest is known when it runs.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Which of the digests with this compression function.
    pub(super) variant: Variant,
    /// Whether it is an HMAC, whose messages have midstates.
    pub(super) hmac: bool,
}

/// One whose messages end with a bit, as everywhere but in sponges.
const fn variant(start: &'static [u64; STATE_MAX], words: usize) -> Variant {
    Variant { start, words, pad: 0x80 }
}

/// Bytes from HMAC's inner midstate to its outer one.
pub(super) const fn midstate_len<A: Algorithm>() -> usize {
    (A::WORD * A::STATE).next_multiple_of(32)
}

/// A chaining value's start, behind which nothing counts.
const fn start<const N: usize>(words: [u64; N]) -> [u64; STATE_MAX] {
    let mut start = [0; STATE_MAX];
    let mut at = 0;
    while at < N {
        start[at] = words[at];
        at += 1;
    }
    start
}

/// Eight square roots from the given one on, shifted right.
const fn square_roots(first: usize, shift: u32, mask: u64) -> [u64; STATE_MAX] {
    let mut words = [0; 8];
    let mut at = 0;
    while at < 8 {
        words[at] = SQUARE_ROOTS[first + at] >> shift & mask;
        at += 1;
    }
    start(words)
}

impl Algorithm for Md5 {
    type W<I: Isa> = I::W32;
    const WORD: usize = 4;
    const BLOCK: usize = 64;
    const STATE: usize = 4;
    const DIGEST: usize = 4;
    const BIG_ENDIAN: bool = false;
    const LENGTH: usize = 8;
    const WORTH: Worth = Worth { avx512: 2, avx2: 2, portable: 2 };

    #[inline(always)]
    fn compress<I: Isa>(isa: I, state: &mut State<I::W32>, block: Block<'_, I::W32>) {
        let block = sixteen(block);
        let [mut a, mut b, mut c, mut d] = [state[0], state[1], state[2], state[3]];
        // Four steps, after which the registers are where they were.
        macro_rules! steps {
            ($function:expr, $factor:literal, $first:literal, $from:literal,
             [$s0:literal, $s1:literal, $s2:literal, $s3:literal]) => {
                unrolled!(FOUR in 0..4 {
                    let word = |n: usize| {
                        let index = ($factor * (4 * FOUR + n) + $first) % 16;
                        block[index].add(I::W32::splat(isa, SINES[$from + 4 * FOUR + n])).settle()
                    };
                    let f = $function;
                    a = b.add(a.add(f(b, c, d)).add(word(0)).rotate_left::<$s0>());
                    d = a.add(d.add(f(a, b, c)).add(word(1)).rotate_left::<$s1>());
                    c = d.add(c.add(f(d, a, b)).add(word(2)).rotate_left::<$s2>());
                    b = c.add(b.add(f(c, d, a)).add(word(3)).rotate_left::<$s3>());
                });
            };
        }
        steps!(|x: I::W32, y, z| x.choose(y, z), 1, 0, 0, [7, 12, 17, 22]);
        steps!(|x: I::W32, y, z: I::W32| z.choose(x, y), 5, 1, 16, [5, 9, 14, 20]);
        steps!(|x: I::W32, y, z| x.xor3(y, z), 3, 5, 32, [4, 11, 16, 23]);
        steps!(|x: I::W32, y: I::W32, z| y.xor_or_not(x, z), 7, 0, 48, [6, 10, 15, 21]);
        for (to, word) in state.iter_mut().zip([a, b, c, d]) {
            *to = to.add(word);
        }
    }
}

impl Algorithm for Sha1 {
    type W<I: Isa> = I::W32;
    const WORD: usize = 4;
    const BLOCK: usize = 64;
    const STATE: usize = 5;
    const DIGEST: usize = 5;
    const BIG_ENDIAN: bool = true;
    const LENGTH: usize = 8;
    // A block alone takes 93 ns in plain words, a vector of 16 and one of 8 take 250.
    const WORTH: Worth = Worth { avx512: 3, avx2: 3, portable: 5 };
    const INSTRUCTIONS: Option<Instructions> = Some(Instructions::Sha1);
    const COPIES: bool = true;

    #[inline(always)]
    fn compress<I: Isa>(isa: I, state: &mut State<I::W32>, block: Block<'_, I::W32>) {
        if I::W32::LEN == 1 {
            return alone(isa, state, block, sha1::block_api::compress);
        }
        let [mut a, mut b, mut c, mut d, mut e] = [state[0], state[1], state[2], state[3], state[4]];
        let mut w = [state[0]; 16];
        macro_rules! twenty {
            ($from:literal, $function:expr, $constant:literal) => {
                unrolled!(STEP in 0..20 {
                    const ROUND: usize = $from + STEP;
                    if ROUND < 16 {
                        if ROUND % 4 == 0 {
                            const FIRST: usize = ROUND / 4 * 4 % 16;
                            [w[FIRST], w[FIRST + 1], w[FIRST + 2], w[FIRST + 3]] = block.four_swapped(ROUND);
                        }
                    } else {
                        let mixed = w[(ROUND + 13) % 16].xor3(w[(ROUND + 8) % 16], w[(ROUND + 2) % 16]);
                        w[ROUND % 16] = mixed.xor(w[ROUND % 16]).rotate_left::<1>().settle();
                    }
                    let word = w[ROUND % 16].add(I::W32::splat(isa, $constant)).settle();
                    let next = e.add(word).add($function(b, c, d)).settle().add(a.rotate_left::<5>());
                    (e, d, c, b, a) = (d, c, b.rotate_left::<30>(), a, next);
                });
            };
        }
        twenty!(0, |x: I::W32, y, z| x.choose(y, z), 0x5a82_7999);
        twenty!(20, |x: I::W32, y, z| x.xor3(y, z), 0x6ed9_eba1);
        twenty!(40, |x: I::W32, y, z| x.majority(y, z), 0x8f1b_bcdc);
        twenty!(60, |x: I::W32, y, z| x.xor3(y, z), 0xca62_c1d6);
        for (to, word) in state.iter_mut().zip([a, b, c, d, e]) {
            *to = to.add(word);
        }
    }
}

/// SHA-2: each round is preceded by its word, so that both fill the pipes: rounds wait for each other, words do not.
macro_rules! sha2 {
    ($isa:ident, $word:ty, $state:ident, $block:ident, $rounds:literal, $constant:expr,
     [$a0:literal, $a1:literal, $a2:literal], [$e0:literal, $e1:literal, $e2:literal],
     [$l0:literal, $l1:literal, $l2:literal], [$h0:literal, $h1:literal, $h2:literal]) => {
        let mut w = [$state[0]; 16];
        let mut s = [
            $state[0], $state[1], $state[2], $state[3], $state[4], $state[5], $state[6], $state[7],
        ];
        macro_rules! round {
            ($at:expr, $step:expr) => {
                let [a, b, c, d, e, f, g, h] = s;
                let word = w[$step].add(<$word>::splat($isa, $constant($at + $step))).settle();
                let upper = e.rotate_left::<$e0>().xor3(e.rotate_left::<$e1>(), e.rotate_left::<$e2>());
                let lower = a.rotate_left::<$a0>().xor3(a.rotate_left::<$a1>(), a.rotate_left::<$a2>());
                let (next_e, next_a) = if <$word>::SETTLES {
                    // Without the detour by `d` the next `e` would wait for one sum more.
                    let next_e = h.add(d).add(word).add(e.choose(f, g)).settle().add(upper);
                    (next_e, next_e.sub(d).settle().add(a.majority(b, c)).settle().add(lower))
                } else {
                    let first = h.add(word).add(e.choose(f, g)).add(upper);
                    (d.add(first), first.add(lower).add(a.majority(b, c)))
                };
                s = [next_a, a, b, c, next_e, e, f, g];
            };
        }
        macro_rules! schedule {
            ($step:expr) => {
                let (early, late) = (w[($step + 1) % 16], w[($step + 14) % 16]);
                let low = early.rotate_left::<$l0>().xor3(early.rotate_left::<$l1>(), early.shift_right::<$l2>());
                let high = late.rotate_left::<$h0>().xor3(late.rotate_left::<$h1>(), late.shift_right::<$h2>());
                w[$step] = w[$step].add(low).add(w[($step + 9) % 16]).settle().add(high);
            };
        }
        let mut at = 0;
        if <$word>::SETTLES {
            unrolled!(STEP in 0..16 {
                if STEP % 4 == 0 {
                    [w[STEP], w[(STEP + 1) % 16], w[(STEP + 2) % 16], w[(STEP + 3) % 16]] = $block.four_swapped(STEP);
                }
                round!(0, STEP);
            });
            at = 16;
        } else {
            w = sixteen($block);
            unrolled!(STEP in 0..16 {
                w[STEP] = w[STEP].swap_bytes();
            });
        }
        while at < $rounds {
            unrolled!(STEP in 0..16 {
                if <$word>::SETTLES {
                    schedule!(STEP);
                }
                round!(at, STEP);
            });
            at += 16;
            // Where the compiler makes vectors of what is written for words, it finds more of them word by word.
            if !<$word>::SETTLES && at < $rounds {
                unrolled!(STEP in 0..16 {
                    schedule!(STEP);
                });
            }
        }
        for (to, word) in $state.iter_mut().zip(s) {
            *to = to.add(word);
        }
    };
}

/// All words of a block.
#[inline(always)]
fn sixteen<W: Words>(block: Block<'_, W>) -> [W; 16] {
    let [a, b, c, d] = block.four(0);
    let [e, f, g, h] = block.four(4);
    let [i, j, k, l] = block.four(8);
    let [m, n, o, p] = block.four(12);
    [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
}

/// A message alone: words of its chaining value, bytes of its block. The compression functions of RustCrypto use the
/// processor's SHA instructions where it has them.
#[inline(always)]
fn alone<W: Words, const N: usize>(
    isa: W::Isa,
    state: &mut State<W>,
    block: Block<'_, W>,
    compress: impl FnOnce(&mut [u32; N], &[[u8; 64]]),
) {
    let mut words = [0u32; N];
    // SAFETY: vectors of one word of 32 bits; the block's bytes are what the value promises.
    unsafe {
        for at in 0..N {
            state[at].store((&raw mut words[at]).cast());
        }
        compress(&mut words, &[block.from[0].wrapping_add(block.at).cast::<[u8; 64]>().read()]);
        for at in 0..N {
            state[at] = W::load(isa, (&raw const words[at]).cast());
        }
    }
}

#[inline(always)]
fn compress_256<I: Isa>(isa: I, state: &mut State<I::W32>, block: Block<'_, I::W32>) {
    if I::W32::LEN == 1 {
        return alone(isa, state, block, sha2::block_api::compress256);
    }
    sha2!(
        isa,
        I::W32,
        state,
        block,
        64,
        |round: usize| (CUBE_ROOTS[round] >> 32) as u32,
        [30, 19, 10],
        [26, 21, 7],
        [25, 14, 3],
        [15, 13, 10]
    );
}

#[inline(always)]
fn compress_512<I: Isa>(isa: I, state: &mut State<I::W64>, block: Block<'_, I::W64>) {
    sha2!(
        isa,
        I::W64,
        state,
        block,
        80,
        |round: usize| CUBE_ROOTS[round],
        [36, 30, 25],
        [50, 46, 23],
        [63, 56, 7],
        [45, 3, 6]
    );
}

macro_rules! sha2_algorithm {
    ($name:ident, $words:ident, $compress:ident, $word:literal) => {
        impl Algorithm for $name {
            type W<I: Isa> = I::$words;
            const WORD: usize = $word;
            const BLOCK: usize = 16 * $word;
            const STATE: usize = 8;
            const DIGEST: usize = 8;
            const BIG_ENDIAN: bool = true;
            const LENGTH: usize = 2 * $word;
            const WORTH: Worth = if $word == 4 {
                // A block alone takes 206 ns in plain words, a vector of 16 takes 450, one of 8 560.
                Worth { avx512: 3, avx2: 3, portable: 5 }
            } else {
                Worth { avx512: 2, avx2: 2, portable: 2 }
            };
            const INSTRUCTIONS: Option<Instructions> = if $word == 4 { Some(Instructions::Sha256) } else { None };
            const ALONE: Option<Worth> =
                if $word == 8 { Some(Worth { avx512: 3, avx2: 4, portable: 2 }) } else { None };

            #[inline(always)]
            fn compress<I: Isa>(isa: I, state: &mut State<I::$words>, block: Block<'_, I::$words>) {
                $compress(isa, state, block);
            }
        }
    };
}

sha2_algorithm!(Sha256, W32, compress_256, 4);
sha2_algorithm!(Sha512, W64, compress_512, 8);

impl<const RATE: usize> Algorithm for Sponge<RATE> {
    type W<I: Isa> = I::W64;
    const WORD: usize = 8;
    const BLOCK: usize = RATE;
    const STATE: usize = 25;
    const DIGEST: usize = if RATE == 168 { 4 } else { 8 };
    const BIG_ENDIAN: bool = false;
    const LENGTH: usize = 0;
    const WORTH: Worth = Worth { avx512: 2, avx2: 3, portable: 3 };

    #[inline(always)]
    fn compress<I: Isa>(isa: I, state: &mut State<I::W64>, block: Block<'_, I::W64>) {
        const { assert!(RATE / 8 % 4 == 1) };
        unrolled!(N in 0..5 {
            if 4 * N + 4 < RATE / 8 {
                let four = block.four(4 * N);
                unrolled!(M in 0..4 {
                    state[4 * N + M] = state[4 * N + M].xor(four[M]);
                });
            }
        });
        state[RATE / 8 - 1] = state[RATE / 8 - 1].xor(block.one(RATE / 8 - 1));
        permute(isa, state);
    }
}

/// Keccak-f (FIPS 202, 3.3). Word `x + 5 · y` of the state is the standard's lane (x, y).
#[inline(always)]
pub(super) fn permute<I: Isa>(isa: I, state: &mut State<I::W64>) {
    let mut a = *state;
    for round in 0..24 {
        let mut columns = [a[0]; 5];
        unrolled!(X in 0..5 {
            columns[X] = a[X].xor3(a[X + 5], a[X + 10]).xor3(a[X + 15], a[X + 20]);
        });
        let mut turned = columns;
        unrolled!(X in 0..5 {
            turned[X] = columns[X].rotate_left::<1>();
        });
        let mut b = a;
        macro_rules! moved {
            ($($from:literal => $to:literal by $rotation:literal),* $(,)?) => {$(
                b[$to] = a[$from].xor3(columns[($from + 4) % 5], turned[($from + 1) % 5]).rotate_left::<$rotation>();
            )*};
        }
        // Rho and pi (3.2.2, 3.2.3): lane (x, y) goes to (y, 2x + 3y).
        moved! {
            0 => 0 by 0, 1 => 10 by 1, 2 => 20 by 62, 3 => 5 by 28, 4 => 15 by 27,
            5 => 16 by 36, 6 => 1 by 44, 7 => 11 by 6, 8 => 21 by 55, 9 => 6 by 20,
            10 => 7 by 3, 11 => 17 by 10, 12 => 2 by 43, 13 => 12 by 25, 14 => 22 by 39,
            15 => 23 by 41, 16 => 8 by 45, 17 => 18 by 15, 18 => 3 by 21, 19 => 13 by 8,
            20 => 14 by 18, 21 => 24 by 2, 22 => 9 by 61, 23 => 19 by 56, 24 => 4 by 14,
        }
        unrolled!(Y in 0..5 {
            unrolled!(X in 0..5 {
                a[5 * Y + X] = b[5 * Y + X].xor_and_not(b[5 * Y + (X + 1) % 5], b[5 * Y + (X + 2) % 5]);
            });
        });
        a[0] = a[0].xor(I::W64::splat(isa, IOTA[round]));
    }
    *state = a;
}
