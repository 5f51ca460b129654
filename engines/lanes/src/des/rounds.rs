//! DES's sixteen rounds on slices (FIPS 46-3). Expansion, permutations and key schedule are wiring; what is left are the
//! S-boxes' gates and 80 exclusive ors a round.
//!
//! The code of two rounds runs eight times, so that it stays in the first-level cache and no halves are moved. The key
//! register lies in memory twice over: a round reads it from further on, at distances that are the same in every round.

use super::Job;
use super::isa::Isa;
use super::tables::{EXPANSION, KEY_SLICES, PERMUTED, ROTATIONS_BOTH, ROUND_KEY};
use super::word::Word;

/// Passes of triple DES.
pub(crate) const PASSES_MAX: usize = 3;

/// Enciphers or deciphers in a job's passes under the keys at `keys` ([`KEY_SLICES`] each). Returns the halves as they are
/// before the final permutation: each pass exchanges them.
///
/// # Safety
/// 32 words at `left` and at `right` may be read and written, [`KEY_SLICES`] a pass at `keys` read; no places overlap.
#[inline(always)]
pub(crate) unsafe fn cipher<I: Isa>(
    isa: I,
    job: Job<'_>,
    mut left: *mut I::W,
    mut right: *mut I::W,
    keys: *const I::W,
) -> (*mut I::W, *mut I::W) {
    let Job { passes, encrypt, .. } = job;
    for pass in 0..passes {
        let key = if encrypt { pass } else { passes - 1 - pass };
        // Triple DES goes the other way under its second key (NIST SP 800-67, 3).
        let rotations = &ROTATIONS_BOTH[usize::from(encrypt == (pass == 1))];
        // SAFETY: `key` is below `passes`.
        unsafe { sixteen(isa, job, left, right, keys.add(key * KEY_SLICES), rotations) };
        (left, right) = (right, left);
    }
    (left, right)
}

/// One pass. The halves end where the last round leaves them: the one that comes first is at `right`.
///
/// # Safety
/// As in [`cipher`], for one key.
#[inline(always)]
unsafe fn sixteen<I: Isa>(
    isa: I,
    job: Job<'_>,
    left: *mut I::W,
    right: *mut I::W,
    keys: *const I::W,
    rotations: &[u8; 16],
) {
    for pair in rotations.as_chunks::<2>().0 {
        // A group of short messages has about six steps, and as many keys follow as it has lanes.
        job.ahead.fetch(I::LANES / (40 * job.passes));
        // SAFETY: rotations reach no further than the register's second copy.
        unsafe {
            round(isa, left, right, keys.add(usize::from(pair[0])));
            round(isa, right, left, keys.add(usize::from(pair[1])));
        }
    }
}

/// `left ^= f(right, key)`.
///
/// # Safety
/// As in [`cipher`]; `keys` is the rotated register.
#[inline(always)]
unsafe fn round<I: Isa>(isa: I, left: *mut I::W, right: *const I::W, keys: *const I::W) {
    // SAFETY: the caller's promise.
    unsafe {
        s_box::<I, 0>(isa, left, right, keys);
        s_box::<I, 1>(isa, left, right, keys);
        s_box::<I, 2>(isa, left, right, keys);
        s_box::<I, 3>(isa, left, right, keys);
        s_box::<I, 4>(isa, left, right, keys);
        s_box::<I, 5>(isa, left, right, keys);
        s_box::<I, 6>(isa, left, right, keys);
        s_box::<I, 7>(isa, left, right, keys);
    }
}

/// One S-box with what comes before and behind it.
///
/// # Safety
/// As in [`round`].
#[inline(always)]
unsafe fn s_box<I: Isa, const BOX: usize>(isa: I, left: *mut I::W, right: *const I::W, keys: *const I::W) {
    // SAFETY: the tables' indices are within the halves and the register.
    unsafe {
        let input = |i: usize| (*right.add(EXPANSION[BOX][i])).xor(*keys.add(ROUND_KEY[6 * BOX + i]));
        let output = isa.substitute::<BOX>([input(0), input(1), input(2), input(3), input(4), input(5)]);
        let add = |i: usize, bits: I::W| {
            let to = left.add(PERMUTED[BOX][i]);
            to.write((*to).xor(bits));
        };
        add(0, output[0]);
        add(1, output[1]);
        add(2, output[2]);
        add(3, output[3]);
    }
}
