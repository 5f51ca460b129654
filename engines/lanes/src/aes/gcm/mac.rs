//! GMAC: GCM with nothing to encrypt (NIST SP 800-38D, 3).

use super::{GcmKey, Message, counters, ghash, lengths, rounds, settle};
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
        let mut mask = [isa.splat(message.iv).xor(key.near.schedule.splat(isa, 0)).xor(counters(isa, 1))];
        rounds::<I, R, 1>(isa, &key.near.schedule, &mut mask);
        let lengths = lengths(isa, message.len, 0);
        // SAFETY: the batch's check: `len` bytes may be read, and the tag's may be read and written.
        let good = unsafe {
            let hash = ghash::absorb::<I, true, true>(isa, &key.hash, isa.zero(), message.input, message.len, lengths);
            let tag = hash.shuffle(ghash::reversal(isa)).xor(mask[0]).first();
            if encrypt {
                settle::<I, true>(isa, tag, isa.zero().first(), message.tag, message.tag_len)
            } else {
                let given = isa.load_partial(message.tag, message.tag_len);
                settle::<I, false>(isa, tag, given.first(), message.tag, message.tag_len)
            }
        };
        if good {
            work.done_with(index, 0);
        } else {
            work.fail(index, OpStatus::AuthFailed);
        }
    }
}
