//! Poly1305 (RFC 8439, 2.5) over several blocks of one message side by side.

use super::isa::Isa;
use super::poly::Poly;

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
}

/// One block after the other.
pub(crate) struct Serial(Poly);

impl<I: Isa> Wide<I> for Serial {
    const STEP: usize = 16;

    #[inline(always)]
    fn new(_isa: I, poly: &Poly) -> Serial {
        Serial(poly.clone())
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
}
