//! Poly1305 (RFC 8439, 2.5) over several blocks of one message side by side, for long messages.
//!
//! With `L` lanes, lane `i` sums the blocks `i`, `i + L`, `i + 2L`, … by Horner's rule with the multiplier `r^L`; at the
//! end lane `i` is multiplied by `r^(L-i)` and the lanes are added. Two steps share one carry: `h·r^2L + m·r^L + m'`.
//!
//! Numbers modulo `2^130 - 5` are held in limbs of 26 bits, five a number, whose products fit 64-bit lanes; or, with
//! IFMA, in limbs of 44 bits, three a number.
//!
//! Floor, instructions for `L` blocks of 16 bytes: 26-bit limbs 25 products and as many additions, 14 for the message,
//! 10 for half a carry; 44-bit limbs 18 products that add, 8 for the message, 10 for half a carry.

use super::isa::Isa;
use super::poly::{CLAMP, Poly};

/// An authenticator whose sum is spread over lanes.
pub(crate) trait Wide<I: Isa>: Sized {
    /// Bytes that one step takes.
    const STEP: usize;

    /// Takes over from `poly`.
    fn new(isa: I, poly: &Poly) -> Self;
    /// Takes whole steps.
    ///
    /// # Safety
    /// `len` is a multiple of `STEP`; `len` bytes from `from` may be read.
    unsafe fn absorb(&mut self, isa: I, from: *const u8, len: usize);
    /// Gives the sum back.
    fn finish(self, isa: I, poly: &mut Poly);

    /// Messages that [`Wide::tags`] takes at most.
    const TOGETHER: usize;
    /// The tags of several messages, each under its own key.
    ///
    /// # Safety
    /// `together` holds as many keys, places and numbers of blocks as `TOGETHER`. 32 bytes may be read from each key, and
    /// from each place as many bytes as the message with the most blocks has, counted back from the end of the message.
    unsafe fn tags(isa: I, together: &Together) -> [[u64; 2]; TOGETHER_MAX];
}

/// The most messages that any instruction set takes together.
pub(crate) const TOGETHER_MAX: usize = 8;

/// Messages of whole blocks that are authenticated together.
pub(crate) struct Together {
    /// The one-time keys.
    pub(crate) keys: [*const u8; TOGETHER_MAX],
    /// One past the last block of each.
    pub(crate) ends: [*const u8; TOGETHER_MAX],
    /// Blocks of each, at least one.
    pub(crate) blocks: [u64; TOGETHER_MAX],
}

/// A vector of 64-bit numbers.
pub(crate) trait Longs: Copy {
    /// Adds.
    fn add(self, other: Self) -> Self;
    /// Bitwise and.
    fn and(self, other: Self) -> Self;
    /// Bitwise or.
    fn or(self, other: Self) -> Self;
    /// Shifts left.
    fn shl<const BITS: u32>(self) -> Self;
    /// Shifts right.
    fn shr<const BITS: u32>(self) -> Self;
    /// The product of the low 32 bits.
    fn mul(self, other: Self) -> Self;
    /// The lanes; entries behind them are zero.
    fn to_array(self) -> [u64; 8];
}

/// A vector of 64-bit numbers with the products of IFMA.
pub(crate) trait MulAdd: Longs {
    /// `self` plus the low 52 bits of the product of the low 52 bits.
    fn add_product_low(self, a: Self, b: Self) -> Self;
    /// `self` plus the high 52 bits of that product.
    fn add_product_high(self, a: Self, b: Self) -> Self;
}

/// An instruction set with vectors of 64-bit numbers.
pub(crate) trait LongIsa: Isa {
    /// Its vector, half as many lanes as words.
    type L: Longs;
    /// A vector from its lanes; what lies behind them is ignored.
    fn longs(self, lanes: &[u64; 8]) -> Self::L;
    /// Reads as many blocks of 16 bytes as there are lanes, their lower and upper words. Lane `2k` holds block `k`, lane
    /// `2k + 1` the block half of the lanes further on.
    ///
    /// # Safety
    /// The bytes may be read.
    unsafe fn load_longs(self, from: *const u8) -> (Self::L, Self::L);
    /// The same for blocks that lie `at` bytes behind each of the pointers that start at `from`.
    ///
    /// # Safety
    /// As many pointers as there are lanes may be read, and 16 bytes at each.
    unsafe fn load_longs_at(self, from: *const *const u8, at: usize) -> (Self::L, Self::L);
}

/// Lanes of [`LongIsa::L`].
const fn lanes<I: Isa>() -> usize {
    2 * I::QUARTERS
}

/// Numbers modulo `2^130 - 5`, one a lane, in limbs, and how they are multiplied.
pub(crate) trait Number<L: Longs>: Copy {
    /// What a multiplier needs: the limbs, and those that wrap around times what they are worth there.
    type Multiplier: Copy;
    /// The number's limbs from words; the third is small.
    fn split(words: [u64; 3]) -> [u64; 5];
    /// Puts limbs, not fully carried, together.
    fn join(limbs: [u64; 5]) -> [u64; 3];
    /// A number from vectors of limbs.
    fn from_limbs(limbs: [L; 5]) -> Self;
    /// Its limbs; those that it does not have are of no interest.
    fn limbs(self) -> [L; 5];
    /// Numbers of 128 bits, plus `2^128` where `behind` has bit 24 (limbs of 26 bits) or 40 (of 44).
    fn from_words<I: LongIsa<L = L>>(isa: I, low: L, high: L, behind: L) -> Self;
    /// What `from_words` adds `2^128` for, if it is everywhere.
    const BEHIND: u64;
    /// Prepares a multiplier.
    fn multiplier<I: LongIsa<L = L>>(self, isa: I) -> Self::Multiplier;
    /// `self · by`, carried.
    fn multiply<I: LongIsa<L = L>>(self, isa: I, by: &Self::Multiplier) -> Self;
    /// `self · by + other · by_other`, carried.
    fn multiply_two<I: LongIsa<L = L>>(
        self,
        isa: I,
        by: &Self::Multiplier,
        other: Self,
        by_other: &Self::Multiplier,
    ) -> Self;
    /// The sum, not carried.
    fn add(self, other: Self) -> Self;
}

/// One authenticator over the lanes of a vector.
pub(crate) struct Spread<N, M> {
    sum: N,
    /// Whether `sum` is still what was taken over, in the first lane.
    fresh: bool,
    /// `r^L` and `r^2L`.
    by_one: M,
    by_two: M,
    /// `r^(L-i)` for the lane of block `i`.
    last: M,
}

/// Five limbs of 26 bits.
#[derive(Clone, Copy)]
pub(crate) struct Limbs26<L>([L; 5]);

/// Three limbs of 44, 44 and 42 bits.
#[derive(Clone, Copy)]
pub(crate) struct Limbs44<L>([L; 3]);

/// With 26-bit limbs.
pub(crate) type Wide26<L> = Spread<Limbs26<L>, [L; 9]>;
/// With 44-bit limbs.
pub(crate) type Wide44<L> = Spread<Limbs44<L>, [L; 5]>;

/// Limb by limb. No closures here and below: a closure lacks the features that its intrinsics need to be inlined.
#[inline(always)]
fn sum<L: Longs, const N: usize>(a: [L; N], b: [L; N]) -> [L; N] {
    let mut sum = a;
    for i in 0..N {
        sum[i] = a[i].add(b[i]);
    }
    sum
}

/// One number in every lane, or numbers by block.
#[inline(always)]
fn vector<I: LongIsa, N: Number<I::L>>(isa: I, by_block: impl Fn(usize) -> [u64; 3]) -> N {
    let half = lanes::<I>() / 2;
    let mut limbs = [[0u64; 8]; 5];
    for lane in 0..lanes::<I>() {
        let split = N::split(by_block(lane / 2 + (lane % 2) * half));
        for (limb, value) in limbs.iter_mut().zip(split) {
            limb[lane] = value;
        }
    }
    let [a, b, c, d, e] = &limbs;
    N::from_limbs([isa.longs(a), isa.longs(b), isa.longs(c), isa.longs(d), isa.longs(e)])
}

/// Blocks of a message, one a lane.
///
/// # Safety
/// `32 · QUARTERS` bytes from `from` may be read.
#[inline(always)]
unsafe fn message<I: LongIsa, N: Number<I::L>>(isa: I, from: *const u8) -> N {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe { isa.load_longs(from) };
    N::from_words(isa, low, high, isa.longs(&[N::BEHIND; 8]))
}

impl<I: LongIsa, N: Number<I::L>> Wide<I> for Spread<N, N::Multiplier> {
    const STEP: usize = 32 * I::QUARTERS;

    #[inline(always)]
    fn new(isa: I, poly: &Poly) -> Self {
        let mut powers = [[0u64; 3]; 8];
        let mut power = Poly { h: [poly.r[0], poly.r[1], 0], ..*poly };
        for place in &mut powers[..lanes::<I>()] {
            *place = power.h;
            power.multiply();
        }
        let one: N = vector(isa, |_| powers[lanes::<I>() - 1]);
        let last: N = vector(isa, |block| powers[lanes::<I>() - 1 - block]);
        let by_one = one.multiplier(isa);
        let two: N = one.multiply(isa, &by_one);
        let sum = vector(isa, |block| if block == 0 { poly.h } else { [0; 3] });
        Spread { sum, fresh: true, by_one, by_two: two.multiplier(isa), last: last.multiplier(isa) }
    }

    #[inline(always)]
    unsafe fn absorb(&mut self, isa: I, from: *const u8, len: usize) {
        let step = <Self as Wide<I>>::STEP;
        let mut sum = self.sum;
        let mut at = 0;
        // SAFETY: every message lies before `len`.
        unsafe {
            if self.fresh && len != 0 {
                sum = sum.add(message(isa, from));
                self.fresh = false;
                at = step;
            }
            while at + 2 * step <= len {
                let (first, second): (N, N) = (message(isa, from.add(at)), message(isa, from.add(at + step)));
                sum = first.multiply_two(isa, &self.by_one, sum, &self.by_two).add(second);
                at += 2 * step;
            }
            if at < len {
                sum = sum.multiply(isa, &self.by_one).add(message(isa, from.add(at)));
            }
        }
        self.sum = sum;
    }

    #[inline(always)]
    fn finish(self, isa: I, poly: &mut Poly) {
        if !self.fresh {
            let mut limbs = [0; 5];
            for (sum, limb) in limbs.iter_mut().zip(self.sum.multiply(isa, &self.last).limbs()) {
                *sum = limb.to_array().iter().sum();
            }
            poly.h = N::join(limbs);
            poly.fold();
        }
    }

    const TOGETHER: usize = 2 * I::QUARTERS;

    #[inline(always)]
    unsafe fn tags(isa: I, together: &Together) -> [[u64; 2]; TOGETHER_MAX] {
        let (half, count) = (I::QUARTERS, 2 * I::QUARTERS);
        // Shorter messages begin later: until then they are zero, and so are their sums.
        let mut most = 0;
        for blocks in &together.blocks[..count] {
            most = most.max(*blocks);
        }
        let mut before = [0u64; 8];
        for (message, blocks) in together.blocks[..count].iter().enumerate() {
            before[2 * (message % half) + message / half] = most - blocks;
        }
        let mut starts = together.ends;
        for start in &mut starts[..count] {
            *start = start.wrapping_sub(16 * most as usize);
        }
        let even = before == [0; 8];
        let before = isa.longs(&before);
        let (ones, zero) = (isa.longs(&[0xffff_ffff; 8]), isa.longs(&[0; 8]));
        // SAFETY: the caller's promise.
        let (pads, sums) = unsafe {
            let (low, high) = isa.load_longs_at(together.keys.as_ptr(), 0);
            let (low, high) = (low.and(isa.longs(&[CLAMP[0]; 8])), high.and(isa.longs(&[CLAMP[1]; 8])));
            let by = N::from_words(isa, low, high, zero).multiplier(isa);
            let pads = isa.load_longs_at(together.keys.as_ptr(), 16);
            let behind = isa.longs(&[N::BEHIND; 8]);
            let mut sums = N::from_words(isa, zero, zero, zero);
            for block in 0..most {
                let (mut low, mut high) = isa.load_longs_at(starts.as_ptr(), 16 * block as usize);
                let mut behind = behind;
                if !even {
                    // The sign of `before - block - 1`, spread over the lane.
                    let begun = before.add(isa.longs(&[!block; 8])).shr::<63>().mul(ones);
                    let begun = begun.or(begun.shl::<32>());
                    (low, high, behind) = (low.and(begun), high.and(begun), behind.and(begun));
                }
                sums = sums.add(N::from_words(isa, low, high, behind)).multiply(isa, &by);
            }
            ((pads.0.to_array(), pads.1.to_array()), sums)
        };
        let limbs = sums.limbs();
        let limbs =
            [limbs[0].to_array(), limbs[1].to_array(), limbs[2].to_array(), limbs[3].to_array(), limbs[4].to_array()];
        let mut tags = [[0; 2]; TOGETHER_MAX];
        for (message, tag) in tags[..count].iter_mut().enumerate() {
            let lane = 2 * (message % half) + message / half;
            let h = N::join([limbs[0][lane], limbs[1][lane], limbs[2][lane], limbs[3][lane], limbs[4][lane]]);
            let mut poly = Poly { r: [0; 2], h, pad: [pads.0[lane], pads.1[lane]] };
            poly.fold();
            *tag = poly.tag();
        }
        tags
    }
}

impl<L: Longs> Number<L> for Limbs26<L> {
    type Multiplier = [L; 9];
    const BEHIND: u64 = 1 << 24;

    #[inline(always)]
    fn split(words: [u64; 3]) -> [u64; 5] {
        const MASK: u64 = (1 << 26) - 1;
        let [low, middle, top] = words;
        [low & MASK, low >> 26 & MASK, (low >> 52 | middle << 12) & MASK, middle >> 14 & MASK, middle >> 40 | top << 24]
    }

    #[inline(always)]
    fn join(limbs: [u64; 5]) -> [u64; 3] {
        let [a, b, c, d, e] = limbs.map(u128::from);
        let low = a + (b << 26) + (c << 52);
        let high = (low >> 64) + (d << 14) + (e << 40);
        [low as u64, high as u64, (high >> 64) as u64]
    }

    #[inline(always)]
    fn from_limbs(limbs: [L; 5]) -> Self {
        Limbs26(limbs)
    }

    #[inline(always)]
    fn limbs(self) -> [L; 5] {
        self.0
    }

    #[inline(always)]
    fn from_words<I: LongIsa<L = L>>(isa: I, low: L, high: L, behind: L) -> Self {
        let mask = isa.longs(&[(1 << 26) - 1; 8]);
        Limbs26([
            low.and(mask),
            low.shr::<26>().and(mask),
            low.shr::<52>().or(high.shl::<12>()).and(mask),
            high.shr::<14>().and(mask),
            high.shr::<40>().or(behind),
        ])
    }

    #[inline(always)]
    fn multiplier<I: LongIsa<L = L>>(self, _isa: I) -> [L; 9] {
        let [a, b, c, d, e] = self.0;
        let five = |limb: L| limb.add(limb.shl::<2>());
        [a, b, c, d, e, five(b), five(c), five(d), five(e)]
    }

    #[inline(always)]
    fn multiply<I: LongIsa<L = L>>(self, isa: I, by: &[L; 9]) -> Self {
        Limbs26(carry26(isa, products26(self.0, by)))
    }

    #[inline(always)]
    fn multiply_two<I: LongIsa<L = L>>(self, isa: I, by: &[L; 9], other: Self, by_other: &[L; 9]) -> Self {
        let (ours, others) = (products26(self.0, by), products26(other.0, by_other));
        Limbs26(carry26(isa, sum(ours, others)))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Limbs26(sum(self.0, other.0))
    }
}

/// Limb `k` of a product: the products of limbs whose indices add up to `k`, or to `k + 5` with the fivefold limb.
#[inline(always)]
fn products26<L: Longs>(x: [L; 5], by: &[L; 9]) -> [L; 5] {
    let [a, b, c, d, e, b5, c5, d5, e5] = *by;
    [
        dot26(x, [a, e5, d5, c5, b5]),
        dot26(x, [b, a, e5, d5, c5]),
        dot26(x, [c, b, a, e5, d5]),
        dot26(x, [d, c, b, a, e5]),
        dot26(x, [e, d, c, b, a]),
    ]
}

#[inline(always)]
fn dot26<L: Longs>(x: [L; 5], y: [L; 5]) -> L {
    let (first, second) = (x[0].mul(y[0]).add(x[1].mul(y[1])), x[2].mul(y[2]).add(x[3].mul(y[3])));
    first.add(second).add(x[4].mul(y[4]))
}

/// Brings limbs below 2^60 back to little more than 26 bits, in two chains side by side.
#[inline(always)]
fn carry26<I: LongIsa>(isa: I, limbs: [I::L; 5]) -> [I::L; 5] {
    let mask = isa.longs(&[(1 << 26) - 1; 8]);
    let [a, b, c, d, e] = limbs;
    let (b, e) = (b.add(a.shr::<26>()), e.add(d.shr::<26>()));
    let (a, d) = (a.and(mask), d.and(mask));
    let over = e.shr::<26>();
    let (c, a) = (c.add(b.shr::<26>()), a.add(over).add(over.shl::<2>()));
    let (b, e) = (b.and(mask), e.and(mask));
    let (d, b) = (d.add(c.shr::<26>()), b.add(a.shr::<26>()));
    let (c, a) = (c.and(mask), a.and(mask));
    [a, b, c, d.and(mask), e.add(d.shr::<26>())]
}

impl<L: MulAdd> Number<L> for Limbs44<L> {
    type Multiplier = [L; 5];
    const BEHIND: u64 = 1 << 40;

    #[inline(always)]
    fn split(words: [u64; 3]) -> [u64; 5] {
        const MASK: u64 = (1 << 44) - 1;
        let [low, middle, top] = words;
        [low & MASK, (low >> 44 | middle << 20) & MASK, middle >> 24 | top << 40, 0, 0]
    }

    #[inline(always)]
    fn join(limbs: [u64; 5]) -> [u64; 3] {
        let [a, b, c, ..] = limbs.map(u128::from);
        let low = a + (b << 44);
        let high = (low >> 64) + (c << 24);
        [low as u64, high as u64, (high >> 64) as u64]
    }

    #[inline(always)]
    fn from_limbs(limbs: [L; 5]) -> Self {
        Limbs44([limbs[0], limbs[1], limbs[2]])
    }

    #[inline(always)]
    fn limbs(self) -> [L; 5] {
        let [a, b, c] = self.0;
        [a, b, c, c, c]
    }

    #[inline(always)]
    fn from_words<I: LongIsa<L = L>>(isa: I, low: L, high: L, behind: L) -> Self {
        let mask = isa.longs(&[(1 << 44) - 1; 8]);
        Limbs44([low.and(mask), low.shr::<44>().or(high.shl::<20>()).and(mask), high.shr::<24>().or(behind)])
    }

    #[inline(always)]
    fn multiplier<I: LongIsa<L = L>>(self, _isa: I) -> [L; 5] {
        let [a, b, c] = self.0;
        // A product that wraps around at 2^132 is worth 4 · 5 at 1.
        let twenty = |limb: L| limb.add(limb.shl::<2>()).shl::<2>();
        [a, b, c, twenty(b), twenty(c)]
    }

    #[inline(always)]
    fn multiply<I: LongIsa<L = L>>(self, isa: I, by: &[L; 5]) -> Self {
        let zero = [isa.longs(&[0; 8]); 6];
        Limbs44(carry44(isa, products44(zero, self.0, by)))
    }

    #[inline(always)]
    fn multiply_two<I: LongIsa<L = L>>(self, isa: I, by: &[L; 5], other: Self, by_other: &[L; 5]) -> Self {
        let zero = [isa.longs(&[0; 8]); 6];
        Limbs44(carry44(isa, products44(products44(zero, self.0, by), other.0, by_other)))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Limbs44(sum(self.0, other.0))
    }
}

/// Adds products: the low 52 bits into the first three, the high ones into the last three, for each limb.
#[inline(always)]
fn products44<L: MulAdd>(sums: [L; 6], x: [L; 3], by: &[L; 5]) -> [L; 6] {
    let [a, b, c, b20, c20] = *by;
    let mut sums = sums;
    for (k, row) in [[a, c20, b20], [b, a, c20], [c, b, a]].into_iter().enumerate() {
        for i in 0..3 {
            sums[k] = sums[k].add_product_low(x[i], row[i]);
            sums[3 + k] = sums[3 + k].add_product_high(x[i], row[i]);
        }
    }
    sums
}

/// Brings limbs back to little more than 44, 44 and 42 bits. High halves count 2^52, that is 2^8 at the next limb and
/// 2^10 above the last one, where they come back five times.
///
/// Two products with factors below 2^46 and 2^44 (wrapping ones below 2^49) leave high sums below 2^42 and, for the last
/// limb, below 2^39; nothing here reaches 2^56.
#[inline(always)]
fn carry44<I: LongIsa>(isa: I, sums: [I::L; 6]) -> [I::L; 3] {
    let (mask44, mask42) = (isa.longs(&[(1 << 44) - 1; 8]), isa.longs(&[(1 << 42) - 1; 8]));
    let [a, b, c, a_high, b_high, c_high] = sums;
    let (b, c) = (b.add(a_high.shl::<8>()), c.add(b_high.shl::<8>()));
    let b = b.add(a.shr::<44>());
    let c = c.add(b.shr::<44>());
    let over = c.shr::<42>().add(c_high.shl::<10>());
    let a = a.and(mask44).add(over).add(over.shl::<2>());
    let b = b.and(mask44).add(a.shr::<44>());
    [a.and(mask44), b, c.and(mask42)]
}

/// One block after the other.
pub(crate) struct Serial(Poly);

impl<I: Isa> Wide<I> for Serial {
    const STEP: usize = 16;

    #[inline(always)]
    fn new(_isa: I, poly: &Poly) -> Serial {
        Serial(*poly)
    }

    #[inline(always)]
    unsafe fn absorb(&mut self, _isa: I, from: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.blocks(from, len / 16) };
    }

    #[inline(always)]
    fn finish(self, _isa: I, poly: &mut Poly) {
        poly.h = self.0.h;
    }

    const TOGETHER: usize = 4;

    /// Block by block in turns, so that the chains of the messages hide each other.
    #[inline(always)]
    unsafe fn tags(_isa: I, together: &Together) -> [[u64; 2]; TOGETHER_MAX] {
        let mut tags = [[0; 2]; TOGETHER_MAX];
        let least = together.blocks[..4].iter().fold(u64::MAX, |least, blocks| least.min(*blocks)) as usize;
        let mut polys = [Poly::default(); 4];
        let mut starts = [core::ptr::null(); 4];
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..4 {
                polys[i] = Poly::new(together.keys[i]);
                starts[i] = together.ends[i].sub(16 * together.blocks[i] as usize);
            }
            for block in 0..least {
                for (poly, start) in polys.iter_mut().zip(starts) {
                    poly.blocks(start.add(16 * block), 1);
                }
            }
            for i in 0..4 {
                polys[i].blocks(starts[i].add(16 * least), together.blocks[i] as usize - least);
                tags[i] = polys[i].tag();
            }
        }
        tags
    }
}
