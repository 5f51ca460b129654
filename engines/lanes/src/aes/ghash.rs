//! GHASH (NIST SP 800-38D, 6.4) and POLYVAL (RFC 8452, 3): one field, two byte orders.
//!
//! Everything is kept in POLYVAL's form: a block is a little-endian number whose bit `i` is the coefficient of `x^i`, the
//! field's polynomial is `x^128 + x^127 + x^126 + x^121 + 1`, and a product carries a factor `x^-128` with it, so that
//! it is reduced from below (Montgomery). GHASH is POLYVAL under `x · H` of blocks with their bytes reversed (RFC 8452,
//! appendix A).
//!
//! A power is kept twice, as `H^n` and as `H^n · x^-64`. A block `a + b · x^64` (halves `a` and `b`) then weighs
//! `a · (H^n · x^-64) + b · H^n`, a number of 192 bits instead of 256: two sums instead of three, and one step of
//! reduction instead of two. Products of many blocks are added up before they are reduced once.
//!
//! Floor: four carry-less products and two additions a vector, three instructions for a reduction.

use core::arch::x86_64::*;

use zeroize::{Zeroize, ZeroizeOnDrop};

use super::isa::{AesKernel, Blocks, Isa, aes_kernels};
use crate::processor::{For, prefetch};

/// Powers, side by side: what one run of [`weigh`] can take in blocks.
const POWERS: usize = 4 * BULK_VECTORS;

/// Vectors of one run of bulk data.
pub(crate) const BULK_VECTORS: usize = 8;

/// Blocks that last vectors have behind a run's last one, at most. They are zero, so that it does not matter what they are multiplied by.
const BEHIND: usize = 16;

/// `x^127 + x^126 + x^121 + 1`, the field's polynomial without `x^128`.
const POLYNOMIAL: u128 = 0xc200_0000_0000_0000_0000_0000_0000_0001;

/// Powers of a hash key, the highest first: `H^32`, `H^31`, … `H`.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
#[repr(C, align(64))]
pub(crate) struct HashKey {
    /// `H^n · x^-64`.
    low: [[u8; 16]; POWERS],
    /// `H^n`.
    high: [[u8; 16]; POWERS],
    /// What is read with the last powers.
    behind: [[u8; 16]; BEHIND],
}

impl HashKey {
    const EMPTY: HashKey = HashKey { low: [[0; 16]; POWERS], high: [[0; 16]; POWERS], behind: [[0; 16]; BEHIND] };

    /// The powers of POLYVAL's key.
    pub(crate) fn polyval(kernel: AesKernel, h: &[u8; 16]) -> HashKey {
        let mut key = HashKey::EMPTY;
        fill(kernel, h, &mut key);
        key
    }

    /// The powers of GHASH's key, in POLYVAL's form (RFC 8452, appendix A).
    pub(crate) fn ghash(kernel: AesKernel, h: &[u8; 16]) -> HashKey {
        let h = u128::from_be_bytes(*h);
        let mut shifted = ((h << 1) ^ ((h >> 127).wrapping_neg() & POLYNOMIAL)).to_le_bytes();
        let key = HashKey::polyval(kernel, &shifted);
        shifted.zeroize();
        key
    }

    /// The powers of POLYVAL's key, for a message that has a key of its own. Whoever asks wipes them.
    #[inline(always)]
    pub(crate) fn polyval_on<I: Isa>(isa: I, h: I::V) -> core::mem::ManuallyDrop<HashKey> {
        let mut key = HashKey::EMPTY;
        key.fill(isa, h);
        core::mem::ManuallyDrop::new(key)
    }

    /// The lowest `N` powers, the highest of them first.
    pub(crate) fn lowest<const N: usize>(&self) -> [[u8; 16]; N] {
        core::array::from_fn(|i| self.high[POWERS - N + i])
    }

    /// Fetches the powers that a chunk of `n` blocks weighs.
    #[inline(always)]
    pub(crate) fn fetch(&self, n: usize) {
        let n = n.min(POWERS);
        for table in [&self.low, &self.high] {
            for line in (POWERS - n) / 4..POWERS / 4 {
                prefetch(table.as_ptr().wrapping_add(4 * line).cast(), For::Reading);
            }
        }
    }

    /// Forgets the powers, a block at a time.
    pub(crate) fn wipe(&mut self) {
        for power in self.low.iter_mut().chain(&mut self.high) {
            // SAFETY: a place of our own, sixteen bytes aligned to them; volatile writes are not dropped.
            unsafe { core::ptr::write_volatile(core::ptr::from_mut(power).cast::<__m128i>(), _mm_setzero_si128()) };
        }
    }

    /// Writes the powers of `h`, which every block has.
    #[inline(always)]
    fn fill<I: Isa>(&mut self, isa: I, h: I::V) {
        let polynomial = polynomial(isa);
        let factors = Factors::of(h, polynomial);
        let mut power = h;
        for n in 1..=POWERS {
            if n > 1 {
                power = Sum::of(power, factors).reduce(polynomial);
            }
            let place = POWERS - n;
            // SAFETY: entries have sixteen bytes; SSE2 is part of x86-64.
            unsafe {
                _mm_storeu_si128(self.low[place].as_mut_ptr().cast(), half(power, polynomial).first());
                _mm_storeu_si128(self.high[place].as_mut_ptr().cast(), power.first());
            }
        }
    }

    /// The factors of a vector whose first block weighs `H^n`, `H^(n - 1)` the next, and so on; `n` is at most
    /// [`POWERS`]. `vector` counts the vectors of one run.
    #[inline(always)]
    pub(crate) fn near<I: Isa>(&self, isa: I, n: usize, vector: usize) -> Factors<I::V> {
        let first = POWERS - n + vector * I::LEN;
        assert!(n <= POWERS && first + I::LEN <= POWERS + BEHIND);
        let powers = core::ptr::from_ref(self).cast::<[u8; 16]>();
        // SAFETY: what lies behind `low` is `high`, and behind that there are `BEHIND` blocks: as just checked, all within.
        unsafe {
            Factors { low: isa.load(powers.add(first).cast()), high: isa.load(powers.add(POWERS + first).cast()) }
        }
    }

    /// The factors of a vector each of whose blocks weighs `H^(LEN · vectors)`; there are 1 to [`BULK_VECTORS`].
    #[inline(always)]
    pub(crate) fn stride<I: Isa>(&self, isa: I, vectors: usize) -> Factors<I::V> {
        let place = POWERS - vectors * I::LEN;
        Factors { low: isa.splat_bytes(&self.low[place]), high: isa.splat_bytes(&self.high[place]) }
    }
}

/// What a vector of blocks is multiplied by.
#[derive(Clone, Copy)]
pub(crate) struct Factors<V> {
    /// For the first halves of blocks.
    pub(crate) low: V,
    /// For the second.
    pub(crate) high: V,
}

impl<V: Blocks> Factors<V> {
    /// The factors of powers.
    #[inline(always)]
    pub(crate) fn of(h: V, polynomial: V) -> Factors<V> {
        Factors { low: half(h, polynomial), high: h }
    }
}

/// A sum of products that waits for its reduction: `low + middle · x^64`.
#[derive(Clone, Copy)]
pub(crate) struct Sum<V> {
    low: V,
    middle: V,
}

impl<V: Blocks> Sum<V> {
    /// The product of each block with its factor.
    #[inline(always)]
    pub(crate) fn of(block: V, factors: Factors<V>) -> Sum<V> {
        let Factors { low, high } = factors;
        Sum {
            low: block.clmul::<0x00>(low).xor(block.clmul::<0x01>(high)),
            middle: block.clmul::<0x10>(low).xor(block.clmul::<0x11>(high)),
        }
    }

    /// Adds such a product.
    #[inline(always)]
    pub(crate) fn add(self, block: V, factors: Factors<V>) -> Sum<V> {
        let Factors { low, high } = factors;
        Sum {
            low: self.low.xor3(block.clmul::<0x00>(low), block.clmul::<0x01>(high)),
            middle: self.middle.xor3(block.clmul::<0x10>(low), block.clmul::<0x11>(high)),
        }
    }

    /// The sum within each block, reduced.
    #[inline(always)]
    pub(crate) fn reduce(self, polynomial: V) -> V {
        self.middle.xor3(self.low.shuffle32::<0b01_00_11_10>(), self.low.clmul::<0x00>(polynomial))
    }
}

/// `a · x^-64`: the low half is added to itself times the polynomial, which clears it, and the rest moves down.
#[inline(always)]
fn half<V: Blocks>(a: V, polynomial: V) -> V {
    a.shuffle32::<0b01_00_11_10>().xor(a.clmul::<0x00>(polynomial))
}

/// `x^63 + x^62 + x^57` in the first half of each block: the polynomial's upper terms, over `x^64`.
#[inline(always)]
pub(crate) fn polynomial<I: Isa>(isa: I) -> I::V {
    isa.splat_bytes(&(POLYNOMIAL >> 64).to_le_bytes())
}

/// The shuffle that reverses the bytes of each block.
#[inline(always)]
pub(crate) fn reversal<I: Isa>(isa: I) -> I::V {
    isa.splat_bytes(&[15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
}

/// The sum of blocks with their weights, in POLYVAL's form, not yet added up over the vector: `near` has the factors of each vector, such as
/// [`HashKey::near`], whose first block is the `n`th from the last. `start` is what was hashed before, to be added to the first vector. Blocks
/// behind the last are zero.
#[inline(always)]
pub(crate) fn weigh<I: Isa, const N: usize>(
    isa: I,
    start: I::V,
    blocks: &[I::V; N],
    near: impl Fn(usize) -> Factors<I::V>,
) -> I::V {
    let mut sum = Sum::of(blocks[0].xor(start), near(0));
    for (i, block) in blocks.iter().enumerate().skip(1) {
        sum = sum.add(*block, near(i));
    }
    sum.reduce(polynomial(isa))
}

/// All ones in block `place` of the run, of which this is vector `vector`; `place` is at most 32.
#[inline(always)]
pub(crate) fn only<I: Isa>(isa: I, place: usize, vector: usize) -> I::V {
    let first = POWERS + vector * I::LEN - place.min(POWERS);
    assert!(first + I::LEN <= ONLY.0.len());
    // SAFETY: within the table, as just checked.
    unsafe { isa.load(ONLY.0.as_ptr().add(first).cast()) }
}

#[repr(align(64))]
struct Only([[u8; 16]; 2 * POWERS + 1]);

/// One block of ones between blocks of zeros.
static ONLY: Only = {
    let mut blocks = [[0; 16]; 2 * POWERS + 1];
    blocks[POWERS] = [0xff; 16];
    Only(blocks)
};

/// Bytes of a run of bulk data.
#[inline(always)]
pub(crate) const fn run_len<I: Isa>() -> usize {
    16 * BULK_VECTORS * I::LEN
}

/// Blocks that a chunk may take: those of eight vectors.
#[inline(always)]
pub(crate) const fn slots_max<I: Isa>() -> usize {
    BULK_VECTORS * I::LEN
}

/// A vector as the hash wants it.
#[inline(always)]
fn ordered<I: Isa, const GHASH: bool>(isa: I, vector: I::V) -> I::V {
    if GHASH { vector.shuffle(reversal(isa)) } else { vector }
}

/// The hash of `len` bytes, filled up to whole blocks with zeros, and of the block of lengths behind them, if `FINISH`,
/// after `hash` was hashed before: in POLYVAL's form, in the first block. `GHASH` reverses the bytes of what it reads.
///
/// # Safety
/// `len` bytes may be read.
#[inline(always)]
pub(crate) unsafe fn absorb<I: Isa, const GHASH: bool, const FINISH: bool>(
    isa: I,
    key: &HashKey,
    mut hash: I::V,
    mut from: *const u8,
    mut len: usize,
    lengths: I::V,
) -> I::V {
    // Runs leave a whole vector, at which the lanes' sums join.
    while len >= run_len::<I>() + 16 * I::LEN {
        // SAFETY: a run lies within `len`.
        hash = unsafe { run::<I, GHASH>(isa, key, hash, from) };
        from = from.wrapping_add(run_len::<I>());
        len -= run_len::<I>();
    }
    loop {
        let slots = len.div_ceil(16) + usize::from(FINISH);
        // SAFETY: `len` bytes remain; each form's limit has been looked at.
        unsafe {
            match (I::LEN, slots) {
                (_, 0) => return hash,
                (4, ..=4) => return chunk::<I, GHASH, FINISH, 1>(isa, key, hash, from, len, lengths),
                (4, ..=8) | (2, ..=4) => return chunk::<I, GHASH, FINISH, 2>(isa, key, hash, from, len, lengths),
                (4, ..=16) | (2, ..=8) | (1, ..=4) => {
                    return chunk::<I, GHASH, FINISH, 4>(isa, key, hash, from, len, lengths);
                }
                (4, ..=20) => return chunk::<I, GHASH, FINISH, 5>(isa, key, hash, from, len, lengths),
                (4, ..=32) | (2, ..=16) | (1, ..=8) => {
                    return chunk::<I, GHASH, FINISH, 8>(isa, key, hash, from, len, lengths);
                }
                _ => {}
            }
        }
        let whole = len.min(16 * slots_max::<I>());
        // SAFETY: `whole` bytes remain; they are as many blocks as a chunk takes, the last perhaps in part.
        hash = unsafe { chunk::<I, GHASH, false, 8>(isa, key, hash, from, whole, lengths) };
        from = from.wrapping_add(whole);
        len -= whole;
    }
}

/// Hashes `len` bytes, and the lengths behind them, if `FINISH`.
///
/// # Safety
/// `len` bytes may be read. With the lengths they take at most `N` vectors and more than half of them, unless `N` is the
/// least of `I`.
#[inline(always)]
unsafe fn chunk<I: Isa, const GHASH: bool, const FINISH: bool, const N: usize>(
    isa: I,
    key: &HashKey,
    hash: I::V,
    from: *const u8,
    len: usize,
    lengths: I::V,
) -> I::V {
    let blocks = len.div_ceil(16);
    let mut hashed = [isa.zero(); N];
    for (v, hashed) in hashed.iter_mut().enumerate() {
        let at = 16 * v * I::LEN;
        let part = len.saturating_sub(at).min(16 * I::LEN);
        let at = from.wrapping_add(at);
        // What is whole is read without a mask: the processor does not see a stream in masked reads. Short messages are not
        // asked, whose lengths nobody foresees.
        // SAFETY: the caller's promise; `part` keeps within `len`.
        let vector = unsafe { if N > 2 && part == 16 * I::LEN { isa.load(at) } else { isa.load_partial(at, part) } };
        let block = ordered::<I, GHASH>(isa, vector);
        *hashed = if FINISH { block.xor(lengths.and(only(isa, blocks, v))) } else { block };
    }
    let slots = blocks + usize::from(FINISH);
    isa.only_first(weigh(isa, hash, &hashed, |v| key.near(isa, slots, v)).fold())
}

/// Hashes a run of whole vectors: a sum for each lane, to be joined with a vector that follows.
///
/// # Safety
/// A run may be read.
#[inline(always)]
pub(crate) unsafe fn run<I: Isa, const GHASH: bool>(isa: I, key: &HashKey, hash: I::V, from: *const u8) -> I::V {
    // SAFETY: the caller's promise.
    let mut sum = unsafe { run_vector::<I, GHASH>(isa, key, hash, from, 0, None) };
    for v in 1..BULK_VECTORS {
        // SAFETY: the caller's promise.
        sum = unsafe { run_vector::<I, GHASH>(isa, key, hash, from, v, Some(sum)) };
    }
    sum.reduce(polynomial(isa))
}

/// Adds a vector of a run to the run's sum; the first one begins it, with what was hashed before.
///
/// # Safety
/// A run may be read.
#[inline(always)]
pub(crate) unsafe fn run_vector<I: Isa, const GHASH: bool>(
    isa: I,
    key: &HashKey,
    hash: I::V,
    from: *const u8,
    v: usize,
    sum: Option<Sum<I::V>>,
) -> Sum<I::V> {
    // SAFETY: the caller's promise.
    let block = ordered::<I, GHASH>(isa, unsafe { isa.load(from.wrapping_add(16 * v * I::LEN)) });
    let factors = key.stride(isa, BULK_VECTORS - v);
    match sum {
        None => Sum::of(block.xor(hash), factors),
        Some(sum) => sum.add(block, factors),
    }
}

aes_kernels! {
    fn fill(h: &[u8; 16], key: &mut HashKey) = fill_on
}

#[inline(always)]
fn fill_on<I: Isa>(isa: I, h: &[u8; 16], key: &mut HashKey) {
    key.fill(isa, isa.splat_bytes(h));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(hex_digits: &str) -> [u8; 16] {
        hex::decode(hex_digits).expect("hex").try_into().expect("a block")
    }

    aes_kernels! {
        fn hash(key: &HashKey, reverse: bool, blocks: &[[u8; 16]], out: &mut [u8; 16]) = hash_on
    }

    #[inline(always)]
    fn hash_on<I: Isa>(isa: I, key: &HashKey, reverse: bool, blocks: &[[u8; 16]], out: &mut [u8; 16]) {
        let order = |v: I::V| if reverse { v.shuffle(reversal(isa)) } else { v };
        // SAFETY: a slice of blocks, two at most; SSE2 is part of x86-64.
        unsafe {
            let vectors: [I::V; 2] = core::array::from_fn(|i| {
                let at = 16 * i * I::LEN;
                let len = (16 * blocks.len()).saturating_sub(at);
                order(isa.load_partial(blocks.as_ptr().cast::<u8>().wrapping_add(at), len.min(16 * I::LEN)))
            });
            let sum = weigh(isa, isa.zero(), &vectors, |v| key.near(isa, blocks.len(), v));
            _mm_storeu_si128(out.as_mut_ptr().cast(), order(isa.only_first(sum.fold())).first());
        }
    }

    /// RFC 8452, appendix A: POLYVAL and GHASH of the same two blocks under the same key.
    #[test]
    fn both_hashes_of_the_appendix() {
        let h = block("25629347589242761d31f826ba4b757b");
        let blocks = [block("4f4f95668c83dfb6401762bb2d01a262"), block("d1a24ddd2721d006bbe45f20d3c9f362")];
        for kernel in AesKernel::NAMES.iter().filter_map(|name| AesKernel::detect(name)) {
            let mut out = [0; 16];
            hash(kernel, &HashKey::polyval(kernel, &h), false, &blocks, &mut out);
            assert_eq!(out, block("f7a3b47b846119fae5b7866cf5e5b77e"));
            hash(kernel, &HashKey::ghash(kernel, &h), true, &blocks, &mut out);
            assert_eq!(out, block("bd9b3997046731fb96251b91f9c99d7a"));
        }
    }

    /// `H^4 · H^4` is `H^8`, and so on, wherever a power lies.
    #[test]
    fn powers_are_products_of_powers() {
        for kernel in AesKernel::NAMES.iter().filter_map(|name| AesKernel::detect(name)) {
            let key = HashKey::polyval(kernel, &block("25629347589242761d31f826ba4b757b"));
            let near = |n: usize| POWERS - n;
            for (a, b, place) in [(1, 1, near(2)), (4, 4, near(8)), (15, 1, near(16)), (10, 9, near(19)), (16, 16, 0)] {
                // The key H^b's first power is H^b itself: one block H^a under it gives the product.
                let under = HashKey::polyval(kernel, &key.high[near(b)]);
                let mut out = [0; 16];
                hash(kernel, &under, false, &[key.high[near(a)]], &mut out);
                assert_eq!(out, key.high[place], "{a} and {b}");
            }
        }
    }
}
