//! Random bytes from AWS-LC's generator, which is seeded by the operating system and kept per thread.

use aws_lc_sys as sys;
use ciphermill_contract::CheckedBatch;

use crate::ffi::done_if;

/// Runs a batch.
pub(crate) fn run(batch: &mut CheckedBatch<'_>) {
    batch.process(|op| {
        // SAFETY: pointer and length are the slice's.
        done_if(unsafe { sys::RAND_bytes(op.data.as_mut_ptr(), op.data.len()) } == 1)
    });
}
