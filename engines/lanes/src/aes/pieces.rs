//! Messages that come in pieces: which modes take them, and AES-CTR, whose whole blocks go through the kernel of whole messages.

use ciphermill_contract::suite::{Aead, BlockCipher, Mac, Mode};
use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Reason, Stream, Suite, SuiteName};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::ctr::{self, CtrLane};
use super::gcm::stream::GcmStream;
use super::isa::AesKernel;
use super::schedule::AesKey;
use super::streams::add_to;

/// Bytes of a block.
const BLOCK: usize = 16;

/// A message in pieces, in a suite whose mode takes them.
pub(crate) fn stream(kernel: AesKernel, suite: Suite, direction: Direction) -> Option<Box<dyn Stream>> {
    match suite {
        Suite::Cipher(BlockCipher::Aes(_), Mode::Ctr) => Some(Box::new(CtrStream::new(kernel, suite))),
        Suite::Aead(Aead::AesGcm(_)) | Suite::Mac(Mac::Gmac(_)) => {
            Some(Box::new(GcmStream::new(kernel, suite, direction)))
        }
        _ => None,
    }
}

/// A message of AES-CTR.
#[derive(Clone)]
struct CtrStream {
    kernel: AesKernel,
    suite: SuiteName,
    state: CtrState,
}

#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct CtrState {
    /// The next counter block.
    counter: [u8; BLOCK],
    /// What is left of the last block's key stream: its end, from `used` on.
    key_stream: [u8; BLOCK],
    used: usize,
}

impl CtrStream {
    fn new(kernel: AesKernel, suite: Suite) -> CtrStream {
        let state = CtrState { counter: [0; BLOCK], key_stream: [0; BLOCK], used: BLOCK };
        CtrStream { kernel, suite: suite.into(), state }
    }
}

impl Stream for CtrStream {
    fn begin(&mut self, key: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        if key.and_then(|key| key.state_for::<AesKey>(self.suite)).is_none() {
            return OpStatus::EngineFault;
        }
        let mut counter = [0; BLOCK];
        match iv.len() {
            BLOCK => counter.copy_from_slice(iv),
            // RFC 3686, 4: counted from one.
            12 => {
                counter[..12].copy_from_slice(iv);
                counter[15] = 1;
            }
            _ => return OpStatus::BadInput(Reason::IvLength),
        }
        self.state.zeroize();
        (self.state.counter, self.state.used) = (counter, BLOCK);
        OpStatus::Done
    }

    fn absorb(&mut self, _: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        if bytes.is_empty() { OpStatus::Done } else { OpStatus::BadInput(Reason::AadUnexpected) }
    }

    fn transform(&mut self, key: Option<&PreparedKey>, mut piece: Piece<'_>) -> OpStatus {
        let Some(key) = key.and_then(|key| key.state_for::<AesKey>(self.suite)) else { return OpStatus::EngineFault };
        let (kernel, state) = (self.kernel, &mut self.state);
        let (input, output) = piece.pointers();
        let first = piece.len().min(BLOCK - state.used);
        let whole = (piece.len() - first) / BLOCK * BLOCK;
        let last = piece.len() - first - whole;
        // SAFETY: what a piece promises; the three parts lie one behind the other in it.
        unsafe {
            add_to(&state.key_stream[state.used..state.used + first], input, output);
            state.used += first;
            if whole > 0 {
                state.run(kernel, key, (input.add(first), output.add(first), whole));
            }
            if last > 0 {
                state.next_block(kernel, key);
                add_to(&state.key_stream[..last], input.add(first + whole), output.add(first + whole));
                state.used = last;
            }
        }
        OpStatus::Done
    }

    fn finish(&mut self, _: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        self.state.zeroize();
        self.state.used = BLOCK;
        if tag.is_empty() { OpStatus::Done } else { OpStatus::BadInput(Reason::TagLength) }
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}

impl CtrState {
    /// Whole blocks.
    ///
    /// # Safety
    /// `len` bytes, whole blocks, may be read at `input` and written at `output`, which is the same place or apart.
    unsafe fn run(&mut self, kernel: AesKernel, key: &AesKey, (input, output, len): (*const u8, *mut u8, usize)) {
        // SAFETY: the caller's promise.
        unsafe { ctr::messages(kernel, &[CtrLane { key, iv: self.counter, input, output, len }]) };
        let next = u128::from_be_bytes(self.counter).wrapping_add((len / BLOCK) as u128);
        self.counter = next.to_be_bytes();
    }

    /// The key stream of the next block.
    fn next_block(&mut self, kernel: AesKernel, key: &AesKey) {
        self.key_stream = [0; BLOCK];
        let place = self.key_stream.as_mut_ptr();
        // SAFETY: a block of our own, in place.
        unsafe { self.run(kernel, key, (place, place, BLOCK)) };
    }
}
