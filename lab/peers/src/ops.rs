//! The loop over a batch's operations, with inputs and outputs where they lie: peers read the one and write the other
//! directly, so nothing is copied on their account.

use ciphermill_contract::{CheckedBatch, OpStatus, PreparedKey};

/// One pending operation of a suite whose output is as long as its input, or that has none.
pub(crate) struct RawOp<'a> {
    /// The prepared key, if the suite has one.
    pub(crate) key: Option<&'a PreparedKey>,
    /// The IV's bytes; `iv_len` of them count, the others may be read.
    pub(crate) iv: &'a [u8; 16],
    /// Bytes of `iv` in use.
    pub(crate) iv_len: usize,
    /// The input, `len` bytes that can be read.
    pub(crate) src: *const u8,
    /// The output: for suites that transform `len` bytes that can be written, equal to `src` or apart from it.
    pub(crate) dst: *mut u8,
    /// Bytes of input, and of output for suites that transform.
    pub(crate) len: usize,
    /// The additional data.
    pub(crate) aad: &'a [u8],
    /// The tag or digest: to be written when encrypting, to be verified when decrypting.
    pub(crate) tag: &'a mut [u8],
}

impl RawOp<'_> {
    /// The input, for suites that do not write an output.
    pub(crate) fn input(&self) -> &[u8] {
        // SAFETY: `src` and `len` come from a span that `Batch::check` found within the arena; callers hold suites
        // without an output, so nothing writes it meanwhile.
        unsafe { std::slice::from_raw_parts(self.src, self.len) }
    }
}

/// Goes through the pending operations of a batch; `work` says what became of each. An output whose operation did not
/// end well is zeroed.
///
/// For suites whose output is as long as the input ([`ciphermill_contract::Suite::transforms`]), or that only write a
/// tag.
#[inline]
pub(crate) fn for_each(batch: &mut CheckedBatch<'_>, mut work: impl FnMut(&mut RawOp<'_>) -> OpStatus) {
    let transforms = batch.suite().transforms();
    let (ops, arena, keys) = batch.parts();
    let base = arena.as_mut_ptr();
    for (index, op) in ops.iter_mut().enumerate() {
        if !op.status.is_pending() {
            continue;
        }
        let len = op.input.len as usize;
        // SAFETY: `Batch::check` found input, output, additional data and tag within the arena. It found the tag apart
        // from the three others and the additional data apart from the output, so the two references do not meet what
        // is written through `dst`. No reference to the arena lives beside them.
        let mut raw = unsafe {
            RawOp {
                key: keys.get(index).copied().flatten(),
                iv: &op.iv,
                iv_len: usize::from(op.iv_len),
                src: base.add(op.input.offset as usize),
                dst: base.add(op.output as usize),
                len,
                aad: slice(base, op.aad.span()),
                tag: slice_mut(base, op.tag_span()),
            }
        };
        let status = work(&mut raw);
        let output_len = if transforms { len } else { 0 };
        if !status.is_done() {
            // SAFETY: as above; `transforms` says that `dst` has `len` bytes.
            unsafe { raw.dst.write_bytes(0, output_len) };
        }
        op.output_len = if status.is_done() { u32::try_from(output_len).unwrap_or(u32::MAX) } else { 0 };
        op.status = status;
    }
}

/// # Safety
/// The span lies within the memory at `base`, and nothing writes it while the slice lives.
unsafe fn slice<'a>(base: *const u8, span: ciphermill_contract::Span) -> &'a [u8] {
    if span.len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(base.add(span.offset as usize), span.len as usize) }
}

/// # Safety
/// The span lies within the memory at `base`, and nothing else reads or writes it while the slice lives.
unsafe fn slice_mut<'a>(base: *mut u8, span: ciphermill_contract::Span) -> &'a mut [u8] {
    if span.len == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(base.add(span.offset as usize), span.len as usize) }
}
