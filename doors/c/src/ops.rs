//! Operations: the layout is the contract's own, so that a batch of C's is run where it lies.

use std::mem::offset_of;

use ciphermill::contract::{Aad, Error, Op, OpStatus, Reason, Span};

use crate::failure::Failure;
use crate::foreign::{self, Plain, Stretches};
use crate::keys::ciphermill_key;
use crate::suite::{ciphermill_direction, ciphermill_suite};

/// Bytes of an IV within an operation.
pub const CIPHERMILL_IV_LEN_MAX: usize = 16;
/// Operations that one batch may hold.
pub const CIPHERMILL_BATCH_OPS_MAX: usize = 1048576;

const _: () = {
    assert!(CIPHERMILL_IV_LEN_MAX == ciphermill::contract::limits::IV_LEN_MAX);
    assert!(CIPHERMILL_BATCH_OPS_MAX == ciphermill::contract::limits::BATCH_OPS_MAX);
};

/// Status of an operation: not yet processed.
pub const CIPHERMILL_OP_PENDING: u8 = 0;
/// Status of an operation: processed; output and tag are valid.
pub const CIPHERMILL_OP_DONE: u8 = 1;
/// Status of an operation: the tag, padding or signature did not verify. The output has been zeroed.
pub const CIPHERMILL_OP_AUTH_FAILED: u8 = 2;
/// Status of an operation: the data break a rule that only an engine can see; `reason` says which.
pub const CIPHERMILL_OP_BAD_INPUT: u8 = 3;
/// Status of an operation: a policy or the key table refused it; `reason` says why.
pub const CIPHERMILL_OP_REFUSED: u8 = 4;
/// Status of an operation: every engine that could run it failed.
pub const CIPHERMILL_OP_ENGINE_FAULT: u8 = 5;

/// One operation: 64 bytes, one cache line, aligned to it (`aligned_alloc(64, …)`; C++: `std::vector` of C++17). Fields that a
/// suite does not read are zero.
///
/// Offsets count from the start of the batch's arena, offsets and lengths are in bytes. The output may begin where the input
/// begins, and does not overlap it otherwise; tags overlap nothing.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct ciphermill_op {
    /// The key; all zeros for suites without one.
    pub key: ciphermill_key,
    /// Initialisation vector, nonce, tweak or counter block, `iv_len` bytes of it. Of one that is longer the first 16 bytes; the others are
    /// the first of the additional data, and `aad_len` counts them.
    pub iv: [u8; 16],
    /// Where the input lies.
    pub input: u32,
    /// Bytes of input.
    pub input_len: u32,
    /// Where the output goes.
    pub output: u32,
    /// Where the tag, digest or signature goes, or lies when it is to be verified.
    pub tag: u32,
    /// Where the additional authenticated data lie, or FF1's tweak.
    pub aad: u32,
    /// Bytes of additional data.
    pub aad_len: u16,
    /// CIPHERMILL_OP_PENDING when the batch is run, what has become of the operation afterwards.
    pub status: u8,
    /// Why, with CIPHERMILL_OP_BAD_INPUT and CIPHERMILL_OP_REFUSED; means nothing otherwise.
    pub reason: u8,
    /// The caller's own; carried through unchanged.
    pub cookie: u64,
    /// On return the bytes written at `output`. The suite "random" reads here how many are wanted.
    pub output_len: u32,
    /// Bytes at `tag`; on return from signing or encapsulation the bytes written there.
    pub tag_len: u16,
    /// Bytes of the initialisation vector.
    pub iv_len: u8,
    /// Zero.
    pub reserved: u8,
}

const _: () = {
    assert!(size_of::<ciphermill_op>() == size_of::<Op>() && align_of::<ciphermill_op>() == align_of::<Op>());
    assert!(offset_of!(ciphermill_op, key) == offset_of!(Op, key));
    assert!(offset_of!(ciphermill_op, iv) == offset_of!(Op, iv));
    assert!(offset_of!(ciphermill_op, input) == offset_of!(Op, input) + offset_of!(Span, offset));
    assert!(offset_of!(ciphermill_op, input_len) == offset_of!(Op, input) + offset_of!(Span, len));
    assert!(offset_of!(ciphermill_op, output) == offset_of!(Op, output));
    assert!(offset_of!(ciphermill_op, tag) == offset_of!(Op, tag));
    assert!(offset_of!(ciphermill_op, aad) == offset_of!(Op, aad) + offset_of!(Aad, offset));
    assert!(offset_of!(ciphermill_op, aad_len) == offset_of!(Op, aad) + offset_of!(Aad, len));
    assert!(offset_of!(ciphermill_op, status) == offset_of!(Op, status));
    assert!(offset_of!(ciphermill_op, reason) == offset_of!(Op, status) + 1 && size_of::<OpStatus>() == 2);
    assert!(offset_of!(ciphermill_op, cookie) == offset_of!(Op, cookie));
    assert!(offset_of!(ciphermill_op, output_len) == offset_of!(Op, output_len));
    assert!(offset_of!(ciphermill_op, tag_len) == offset_of!(Op, tag_len));
    assert!(offset_of!(ciphermill_op, iv_len) == offset_of!(Op, iv_len));
    assert!(offset_of!(ciphermill_op, reserved) == offset_of!(Op, reserved));
};

// SAFETY: integers only, without gaps.
unsafe impl Plain for ciphermill_op {}

/// Operations of one suite and direction, with the arena that their inputs and outputs lie in. Ops and arena are the caller's
/// memory, and do not overlap.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ciphermill_batch {
    /// What is done to every operation.
    pub suite: ciphermill_suite,
    /// The operations; up to CIPHERMILL_BATCH_OPS_MAX.
    pub ops: *mut ciphermill_op,
    /// How many.
    pub ops_len: usize,
    /// What inputs are read from and outputs written to; up to 4 GiB less one byte.
    pub arena: *mut u8,
    /// Its bytes.
    pub arena_len: usize,
    /// CIPHERMILL_ENCRYPT or CIPHERMILL_DECRYPT.
    pub direction: ciphermill_direction,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: integers and pointers, which are checked before they are followed.
unsafe impl Plain for ciphermill_batch {}

/// The bits of all statuses. Several chains of them: one would take a turn for each operation, a tenth of a short batch.
fn statuses(ops: &[ciphermill_op]) -> u8 {
    let mut chains = [0; 8];
    let (whole, rest) = ops.as_chunks::<8>();
    for ops in whole {
        for (chain, op) in chains.iter_mut().zip(ops) {
            *chain |= op.status;
        }
    }
    chains.into_iter().chain(rest.iter().map(|op| op.status)).fold(0, |all, status| all | status)
}

/// Operations of a caller's, as the contract's own.
///
/// # Errors
/// For pointers that are null or not aligned, and with the first operation that is not pending.
///
/// # Safety
/// The memory is the caller's to be read and written, and nobody else touches it while the result is in use.
#[inline]
pub(crate) unsafe fn ops<'a>(at: *mut ciphermill_op, len: usize) -> Result<&'a mut [Op], Failure> {
    // SAFETY: by the caller. The result is gone before the other one is made.
    let foreign = unsafe { foreign::slice(at.cast_const(), len, "ops") }?;
    // Not every byte is a status, so they are looked at before they are taken for such; zero is.
    if statuses(foreign) != CIPHERMILL_OP_PENDING {
        let first = foreign.iter().position(|op| op.status != CIPHERMILL_OP_PENDING).unwrap_or(0);
        return Err(Error::misuse(first, Reason::NotPending).into());
    }
    // SAFETY: by the caller; of the same layout, as asserted, and every status one of the contract's.
    unsafe { foreign::slice_mut(at.cast::<Op>(), len, "ops") }
}

/// Operations and arena of a caller's, apart from each other.
///
/// # Errors
/// As for [`ops`], and when the two overlap.
///
/// # Safety
/// As for [`ops`].
#[inline]
pub(crate) unsafe fn ops_and_arena<'a>(
    ops: (*mut ciphermill_op, usize),
    arena: (*mut u8, usize),
) -> Result<(&'a mut [Op], &'a mut [u8]), Failure> {
    let mut stretches = Stretches::<2>::new();
    stretches.add(ops.0.cast_const(), ops.1, true, "ops")?;
    stretches.add(arena.0.cast_const(), arena.1, true, "arena")?;
    // SAFETY: by the caller; they do not overlap, as checked.
    unsafe { Ok((self::ops(ops.0, ops.1)?, foreign::slice_mut(arena.0, arena.1, "arena")?)) }
}
