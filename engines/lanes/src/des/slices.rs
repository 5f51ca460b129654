//! From blocks to slices and back: 64 words, each holding one block of `ROW` times 64, become 64 words that hold one bit
//! of every block.
//!
//! Word `8·h + l` holds the blocks of lanes `(8·h + l)·ROW…`; bit `8·B + b` of a block is bit `b` of byte `B`. Two passes
//! of three exchanges over eight words each: the first swaps `l` with `b`, the second `h` with `B`. The second also
//! applies DES's initial permutation, because that only numbers the slices: it takes bit `b` of bytes 7 to 0 to eight
//! places in a row.

use super::isa::Isa;
use super::tables::KEY_PLACE;
use super::word::Word;

/// What becomes of what a slice held before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    /// It is replaced.
    Replace,
    /// The new bits are added to it.
    Xor,
}

/// The first place of bit `bit` of the bytes within its half after the initial permutation (FIPS 46-3), and whether that
/// is the right half. Byte 7 comes first.
#[inline(always)]
fn place(bit: usize) -> (usize, bool) {
    // The standard counts a byte's bits from the other end; odd ones, counted from 0, come first.
    (8 * ((7 - bit) / 2), bit % 2 == 1)
}

/// Exchanges over the three bits of eight words' numbers.
#[inline(always)]
fn exchange8<I: Isa, const A: u32, const B: u32, const C: u32>(isa: I, masks: &I::Masks, w: [I::W; 8]) -> [I::W; 8] {
    let [w0, w1, w2, w3, w4, w5, w6, w7] = w;
    let (w0, w1) = isa.exchange::<A>(masks, w0, w1);
    let (w2, w3) = isa.exchange::<A>(masks, w2, w3);
    let (w4, w5) = isa.exchange::<A>(masks, w4, w5);
    let (w6, w7) = isa.exchange::<A>(masks, w6, w7);
    let (w0, w2) = isa.exchange::<B>(masks, w0, w2);
    let (w1, w3) = isa.exchange::<B>(masks, w1, w3);
    let (w4, w6) = isa.exchange::<B>(masks, w4, w6);
    let (w5, w7) = isa.exchange::<B>(masks, w5, w7);
    let (w0, w4) = isa.exchange::<C>(masks, w0, w4);
    let (w1, w5) = isa.exchange::<C>(masks, w1, w5);
    let (w2, w6) = isa.exchange::<C>(masks, w2, w6);
    let (w3, w7) = isa.exchange::<C>(masks, w3, w7);
    [w0, w1, w2, w3, w4, w5, w6, w7]
}

/// Eight words, `STEP` apart.
///
/// # Safety
/// They may be read.
#[inline(always)]
unsafe fn read8<W: Copy, const STEP: usize>(from: *const W) -> [W; 8] {
    // SAFETY: the caller's promise.
    unsafe {
        [
            *from,
            *from.add(STEP),
            *from.add(2 * STEP),
            *from.add(3 * STEP),
            *from.add(4 * STEP),
            *from.add(5 * STEP),
            *from.add(6 * STEP),
            *from.add(7 * STEP),
        ]
    }
}

/// Writes eight words, `STEP` apart.
///
/// # Safety
/// They may be written.
#[inline(always)]
unsafe fn write8<W: Copy, const STEP: usize>(to: *mut W, words: [W; 8]) {
    // SAFETY: the caller's promise.
    unsafe {
        to.write(words[0]);
        to.add(STEP).write(words[1]);
        to.add(2 * STEP).write(words[2]);
        to.add(3 * STEP).write(words[3]);
        to.add(4 * STEP).write(words[4]);
        to.add(5 * STEP).write(words[5]);
        to.add(6 * STEP).write(words[6]);
        to.add(7 * STEP).write(words[7]);
    }
}

/// The pass that swaps the lower bits of words' numbers with those of bits within bytes. It is its own inverse.
///
/// # Safety
/// 64 words at `rows` may be read and written.
#[inline(always)]
pub(crate) unsafe fn swap_bits<I: Isa>(isa: I, masks: &I::Masks, rows: *mut I::W) {
    for group in 0..8 {
        // SAFETY: words 8·group to 8·group + 7 of 64.
        unsafe {
            let at = rows.add(8 * group);
            write8::<_, 1>(at, exchange8::<I, 1, 2, 4>(isa, masks, read8::<_, 1>(at)));
        }
    }
}

/// Blocks in `rows` become slices after the initial permutation. `rows` are used up.
///
/// # Safety
/// 64 words at `rows`, 32 at `left` and at `right` may be read and written, and none of these places overlap.
#[inline(always)]
pub(crate) unsafe fn blocks_to_slices<I: Isa>(
    isa: I,
    masks: &I::Masks,
    rows: *mut I::W,
    left: *mut I::W,
    right: *mut I::W,
    take: Take,
) {
    // SAFETY: the caller's promise.
    unsafe { swap_bits(isa, masks, rows) };
    for bit in 0..8 {
        let (first, is_right) = place(bit);
        // SAFETY: words bit, bit + 8, … of 64; eight places of a half that begin with a multiple of 8 below 32.
        unsafe {
            let [s0, s1, s2, s3, s4, s5, s6, s7] = exchange8::<I, 8, 16, 32>(isa, masks, read8::<_, 8>(rows.add(bit)));
            let to = if is_right { right } else { left }.add(first);
            let mut slices = [s7, s6, s5, s4, s3, s2, s1, s0];
            if take == Take::Xor {
                slices = xor8(slices, read8::<_, 1>(to));
            }
            write8::<_, 1>(to, slices);
        }
    }
}

/// Slices before the final permutation become blocks in `rows`, without the last pass [`swap_bits`]; `mask`, slices in
/// the order left half, right half, is added to them.
///
/// # Safety
/// 32 words at `left` and at `right` and 64 at `mask` may be read, 64 at `rows` written, and `rows` overlaps no other.
#[inline(always)]
pub(crate) unsafe fn slices_to_rows<I: Isa>(
    isa: I,
    masks: &I::Masks,
    left: *const I::W,
    right: *const I::W,
    mask: Option<*const I::W>,
    rows: *mut I::W,
) {
    for bit in 0..8 {
        let (first, is_right) = place(bit);
        // SAFETY: as in `blocks_to_slices`.
        unsafe {
            let from = if is_right { right } else { left }.add(first);
            let mut slices = read8::<_, 1>(from);
            if let Some(mask) = mask {
                slices = xor8(slices, read8::<_, 1>(mask.add(first + if is_right { 32 } else { 0 })));
            }
            let [s7, s6, s5, s4, s3, s2, s1, s0] = slices;
            write8::<_, 8>(rows.add(bit), exchange8::<I, 8, 16, 32>(isa, masks, [s0, s1, s2, s3, s4, s5, s6, s7]));
        }
    }
}

/// Keys in `rows` become slices of the key register, each at both of its places. `rows` are used up.
///
/// # Safety
/// 64 words at `rows` and [`super::tables::KEY_SLICES`] at `to` may be read and written, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn keys_to_slices<I: Isa>(isa: I, masks: &I::Masks, rows: *mut I::W, to: *mut I::W) {
    // SAFETY: the caller's promise.
    unsafe { swap_bits(isa, masks, rows) };
    // Bit 0 of each byte is for parity.
    for bit in 1..8 {
        // SAFETY: words bit, bit + 8, … of 64.
        let slices = unsafe { exchange8::<I, 8, 16, 32>(isa, masks, read8::<_, 8>(rows.add(bit))) };
        for (byte, slice) in slices.into_iter().enumerate() {
            let Some(place) = KEY_PLACE[8 * byte + bit] else { continue };
            // SAFETY: places are those of the first copies in `KEY_SLICES`, with the second 28 further on.
            unsafe {
                let to = to.add(usize::from(place));
                to.write(slice);
                to.add(28).write(slice);
            }
        }
    }
}

/// The slices of one key for all lanes.
///
/// # Safety
/// [`super::tables::KEY_SLICES`] words at `to` may be written.
#[inline(always)]
pub(crate) unsafe fn key_to_slices<I: Isa>(isa: I, key: u64, to: *mut I::W) {
    for (bit, place) in KEY_PLACE.iter().enumerate() {
        let Some(place) = place else { continue };
        let slice = isa.splat((key >> bit & 1).wrapping_neg());
        // SAFETY: as in `keys_to_slices`.
        unsafe {
            let to = to.add(usize::from(*place));
            to.write(slice);
            to.add(28).write(slice);
        }
    }
}

#[inline(always)]
fn xor8<W: Word>(a: [W; 8], b: [W; 8]) -> [W; 8] {
    [
        a[0].xor(b[0]),
        a[1].xor(b[1]),
        a[2].xor(b[2]),
        a[3].xor(b[3]),
        a[4].xor(b[4]),
        a[5].xor(b[5]),
        a[6].xor(b[6]),
        a[7].xor(b[7]),
    ]
}
