//! GMAC, and the hash of long additional data.

use super::{GcmKey, Message, counters, ghash, lengths, long, rounds, settle, short};
use crate::aes::ghash::{BULK_VECTORS, HashKey, Sum};
use crate::aes::isa::{Blocks, Isa, aes_kernels};
use crate::work::Work;
use ciphermill_contract::OpStatus;

aes_kernels! {
    pub(super) fn run_128(work: &mut Work<'_>, encrypt: bool) = run_on::<_, 10>
}
aes_kernels! {
    pub(super) fn run_192(work: &mut Work<'_>, encrypt: bool) = run_on::<_, 12>
}
aes_kernels! {
    pub(super) fn run_256(work: &mut Work<'_>, encrypt: bool) = run_on::<_, 14>
}

/// Runs a batch of GMAC: the input is what GCM calls additional data.
#[inline(always)]
fn run_on<I: Isa, const R: usize>(isa: I, work: &mut Work<'_>, encrypt: bool) {
    let mut next = 0;
    while let Some(item) = work.take::<GcmKey>(&mut next) {
        let index = item.op as usize;
        // SAFETY: taken with this type; the batch is still borrowed.
        let key = unsafe { item.key::<GcmKey>() };
        let message = Message::new(work, &item);
        let mut mask = [isa.splat(message.iv).xor(key.schedule.splat(isa, 0)).xor(counters(isa, 1))];
        rounds::<I, R, 1>(isa, &key.schedule, &mut mask);
        let lengths = lengths(isa, message.len, 0);
        // SAFETY: the batch's check: `len` bytes may be read, and the tag's may be read and written.
        let good = unsafe {
            let hash = absorb::<I, true>(isa, &key.hash, message.input, message.len, lengths);
            let tag = hash.shuffle(ghash::reversal(isa)).xor(mask[0]).first();
            if encrypt { settle::<I, true>(isa, tag, &message) } else { settle::<I, false>(isa, tag, &message) }
        };
        if good {
            work.done_with(index, 0);
        } else {
            work.fail(index, OpStatus::AuthFailed);
        }
    }
}

/// The hash of `len` bytes, filled up to whole blocks with zeros, and of the block of lengths behind them, if `FINISH`:
/// reversed, in the first block.
///
/// # Safety
/// `len` bytes may be read.
#[inline(always)]
pub(super) unsafe fn absorb<I: Isa, const FINISH: bool>(
    isa: I,
    key: &HashKey,
    mut from: *const u8,
    mut len: usize,
    lengths: I::V,
) -> I::V {
    let mut hash = isa.zero();
    // Runs leave a whole vector, at which the lanes' sums join.
    while len >= long::run_len::<I>() + 16 * I::LEN {
        // SAFETY: a run lies within `len`.
        hash = unsafe { run(isa, key, hash, from) };
        from = from.wrapping_add(long::run_len::<I>());
        len -= long::run_len::<I>();
    }
    loop {
        let slots = len.div_ceil(16) + usize::from(FINISH);
        // SAFETY: `len` bytes remain; each form's limit has been looked at.
        unsafe {
            match (I::LEN, slots) {
                (_, 0) => return hash,
                (4, ..=4) => return chunk::<I, FINISH, 1>(isa, key, hash, from, len, lengths),
                (4, ..=8) | (2, ..=4) => return chunk::<I, FINISH, 2>(isa, key, hash, from, len, lengths),
                (4, ..=16) | (2, ..=8) | (1, ..=4) => {
                    return chunk::<I, FINISH, 4>(isa, key, hash, from, len, lengths);
                }
                (2, ..=16) | (1, ..=8) => return chunk::<I, FINISH, 8>(isa, key, hash, from, len, lengths),
                _ => {}
            }
        }
        let whole = len.min(16 * short::slots_max::<I>());
        // SAFETY: `whole` bytes remain; they are as many blocks as a chunk takes, the last perhaps in part.
        hash = unsafe {
            if I::LEN == 4 {
                chunk::<I, false, 4>(isa, key, hash, from, whole, lengths)
            } else {
                chunk::<I, false, 8>(isa, key, hash, from, whole, lengths)
            }
        };
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
unsafe fn chunk<I: Isa, const FINISH: bool, const N: usize>(
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
        // SAFETY: the caller's promise; `part` keeps within `len`.
        let block = unsafe { isa.load_partial(from.wrapping_add(at), part) }.shuffle(ghash::reversal(isa));
        *hashed = if FINISH { block.xor(lengths.and(ghash::only(isa, blocks, v))) } else { block };
    }
    let slots = blocks + usize::from(FINISH);
    isa.only_first(ghash::weigh(isa, key, hash, &hashed, slots).fold())
}

/// Hashes a run of whole vectors: a sum for each lane, to be joined with a vector that follows.
///
/// # Safety
/// A run may be read.
#[inline(always)]
pub(super) unsafe fn run<I: Isa>(isa: I, key: &HashKey, hash: I::V, from: *const u8) -> I::V {
    // SAFETY: the caller's promise.
    let mut sum = unsafe { run_vector(isa, key, hash, from, 0, None) };
    for v in 1..BULK_VECTORS {
        // SAFETY: the caller's promise.
        sum = unsafe { run_vector(isa, key, hash, from, v, Some(sum)) };
    }
    sum.reduce(ghash::polynomial(isa))
}

/// Adds a vector of a run to the run's sum; the first one begins it, with what was hashed before.
///
/// # Safety
/// A run may be read.
#[inline(always)]
pub(super) unsafe fn run_vector<I: Isa>(
    isa: I,
    key: &HashKey,
    hash: I::V,
    from: *const u8,
    v: usize,
    sum: Option<Sum<I::V>>,
) -> Sum<I::V> {
    // SAFETY: the caller's promise.
    let block = unsafe { isa.load(from.wrapping_add(16 * v * I::LEN)) }.shuffle(ghash::reversal(isa));
    let factors = key.stride(isa, BULK_VECTORS - v);
    match sum {
        None => Sum::of(block.xor(hash), factors),
        Some(sum) => sum.add(block, factors),
    }
}
