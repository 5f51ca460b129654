//! GCM of messages that come in pieces. Whole blocks go through the kernel of long messages, which begins and ends at any block;
//! what of a block has come so far, and its key stream, are kept.

use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};

use ciphermill_contract::{Direction, OpStatus, Piece, PreparedKey, Reason, Stream, Suite, SuiteName};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::long::{self, Progress};
use super::{GcmKey, ghash, lengths};
use crate::aes::isa::{AesKernel, Blocks, Isa, aes_kernels};
use crate::aes::streams::add_to;

/// The longest text in bytes (SP 800-38D, 5.2.1.1).
const TEXT_MAX: u64 = (1 << 36) - 32;

/// A message of one suite and direction.
#[derive(Clone)]
pub(in crate::aes) struct GcmStream {
    kernel: AesKernel,
    suite: SuiteName,
    encrypt: bool,
    message: Message,
}

#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Message {
    /// The IV, then four bytes of zero.
    iv: [u8; 16],
    /// Of all whole blocks so far, in POLYVAL's form.
    hash: [u8; 16],
    /// That of the next block.
    counter: u32,
    /// Bytes of additional data, and of text.
    aad_len: u64,
    len: u64,
    /// What has come of a block: of the additional data before there is text, then of the ciphertext.
    part: [u8; 16],
    /// The key stream of the block whose ciphertext that is.
    key_stream: [u8; 16],
}

impl GcmStream {
    pub(in crate::aes) fn new(kernel: AesKernel, suite: Suite, direction: Direction) -> GcmStream {
        let zero = [0; 16];
        let message = Message { iv: zero, hash: zero, counter: 2, aad_len: 0, len: 0, part: zero, key_stream: zero };
        GcmStream { kernel, suite: suite.into(), encrypt: direction == Direction::Encrypt, message }
    }

    fn key<'k>(&self, key: Option<&'k PreparedKey>) -> Option<&'k GcmKey> {
        key?.state_for(self.suite)
    }
}

impl Stream for GcmStream {
    fn begin(&mut self, key: Option<&PreparedKey>, iv: &[u8]) -> OpStatus {
        if self.key(key).is_none() {
            return OpStatus::EngineFault;
        }
        let Ok(iv) = <&[u8; 12]>::try_from(iv) else { return OpStatus::BadInput(Reason::IvLength) };
        let message = &mut self.message;
        message.zeroize();
        message.iv[..12].copy_from_slice(iv);
        message.counter = 2;
        OpStatus::Done
    }

    fn absorb(&mut self, key: Option<&PreparedKey>, bytes: &[u8]) -> OpStatus {
        let (Some(key), 0) = (self.key(key), self.message.len) else { return OpStatus::EngineFault };
        let (kernel, message) = (self.kernel, &mut self.message);
        let filled = (message.aad_len % 16) as usize;
        message.aad_len += bytes.len() as u64;
        let (first, rest) = bytes.split_at(bytes.len().min((16 - filled) % 16));
        message.part[filled..filled + first.len()].copy_from_slice(first);
        if filled > 0 && filled + first.len() == 16 {
            message.hash_part(kernel, key);
        }
        let (whole, last) = rest.split_at(rest.len() / 16 * 16);
        hash(kernel, key, &mut message.hash, whole);
        message.part[..last.len()].copy_from_slice(last);
        OpStatus::Done
    }

    fn transform(&mut self, key: Option<&PreparedKey>, mut piece: Piece<'_>) -> OpStatus {
        let Some(key) = self.key(key) else { return OpStatus::EngineFault };
        if piece.is_empty() {
            return OpStatus::Done;
        }
        let message = &mut self.message;
        if message.len + piece.len() as u64 > TEXT_MAX {
            return OpStatus::BadInput(Reason::InputTooLong);
        }
        let (kernel, encrypt) = (self.kernel, self.encrypt);
        if message.len == 0 {
            message.end_aad(kernel, key);
        }
        let filled = (message.len % 16) as usize;
        message.len += piece.len() as u64;
        let first = piece.len().min((16 - filled) % 16);
        let whole = (piece.len() - first) / 16 * 16;
        let last = piece.len() - first - whole;
        let (input, output) = piece.pointers();
        // SAFETY: what a piece promises; the three parts lie one behind the other in it.
        unsafe {
            if first > 0 {
                message.add(encrypt, filled, (input, output, first));
                if filled + first == 16 {
                    message.hash_part(kernel, key);
                }
            }
            if whole > 0 {
                let place = (input.add(first), output.add(first), whole);
                message.blocks(kernel, key, encrypt, place);
            }
            if last > 0 {
                counter_block(kernel, key, message.counter, &message.iv, &mut message.key_stream);
                message.counter = message.counter.wrapping_add(1);
                message.add(encrypt, 0, (input.add(first + whole), output.add(first + whole), last));
            }
        }
        OpStatus::Done
    }

    fn finish(&mut self, key: Option<&PreparedKey>, tag: &mut [u8]) -> OpStatus {
        let (Some(key), 1..=16) = (self.key(key), tag.len()) else { return OpStatus::EngineFault };
        let (kernel, message) = (self.kernel, &mut self.message);
        if message.len == 0 {
            message.end_aad(kernel, key);
        } else if !message.len.is_multiple_of(16) {
            message.hash_part(kernel, key);
        }
        let mut full = Zeroizing::new([0; 16]);
        full_tag(kernel, key, message, &mut full);
        message.zeroize();
        if self.encrypt {
            tag.copy_from_slice(&full[..tag.len()]);
            return OpStatus::Done;
        }
        let difference = full.iter().zip(&*tag).fold(0, |sum, (own, given)| sum | (own ^ given));
        // A branch on whether it is right, not on the tag.
        if core::hint::black_box(difference) == 0 { OpStatus::Done } else { OpStatus::AuthFailed }
    }

    fn duplicate(&self) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}

impl Message {
    /// Hashes what has come of a block, as if the rest were zeros.
    fn hash_part(&mut self, kernel: AesKernel, key: &GcmKey) {
        let part = self.part;
        hash(kernel, key, &mut self.hash, &part);
        self.part = [0; 16];
    }

    /// Fills up the additional data's last block.
    fn end_aad(&mut self, kernel: AesKernel, key: &GcmKey) {
        if !self.aad_len.is_multiple_of(16) {
            self.hash_part(kernel, key);
        }
    }

    /// Adds the kept key stream from byte `at` on, and keeps the ciphertext.
    ///
    /// # Safety
    /// `len` bytes may be read at `input` and written at `output`; with `at` they are at most sixteen.
    unsafe fn add(&mut self, encrypt: bool, at: usize, (input, output, len): (*const u8, *mut u8, usize)) {
        let part = &mut self.part[at..at + len];
        // SAFETY: the caller's promise.
        unsafe {
            if !encrypt {
                input.copy_to_nonoverlapping(part.as_mut_ptr(), len);
            }
            add_to(&self.key_stream[at..at + len], input, output);
            if encrypt {
                output.copy_to_nonoverlapping(part.as_mut_ptr(), len);
            }
        }
    }

    /// Whole blocks.
    ///
    /// # Safety
    /// `len` bytes, whole blocks, may be read at `input` and written at `output`, which is the same place or apart.
    unsafe fn blocks(&mut self, kernel: AesKernel, key: &GcmKey, encrypt: bool, place: (*const u8, *mut u8, usize)) {
        let function = match (key.near.schedule.rounds(), encrypt) {
            (10, true) => seal_128,
            (12, true) => seal_192,
            (_, true) => seal_256,
            (10, false) => open_128,
            (12, false) => open_192,
            (_, false) => open_256,
        };
        // SAFETY: sixteen bytes; SSE2 is part of x86-64.
        unsafe {
            let (iv, hash) = (_mm_loadu_si128(self.iv.as_ptr().cast()), _mm_loadu_si128(self.hash.as_ptr().cast()));
            let mut progress = Progress { hash, counter: self.counter };
            function(kernel, key, iv, &mut progress, Place(place.0, place.1, place.2));
            _mm_storeu_si128(self.hash.as_mut_ptr().cast(), progress.hash);
            self.counter = progress.counter;
        }
    }
}

/// What the caller of a kernel promises: so many bytes, whole blocks, may be read at the first and written at the second, which is
/// the same place or apart.
struct Place(*const u8, *mut u8, usize);

aes_kernels! {
    fn seal_128(key: &GcmKey, iv: __m128i, progress: &mut Progress, place: Place) = piece_on::<_, 10, true>
}
aes_kernels! {
    fn seal_192(key: &GcmKey, iv: __m128i, progress: &mut Progress, place: Place) = piece_on::<_, 12, true>
}
aes_kernels! {
    fn seal_256(key: &GcmKey, iv: __m128i, progress: &mut Progress, place: Place) = piece_on::<_, 14, true>
}
aes_kernels! {
    fn open_128(key: &GcmKey, iv: __m128i, progress: &mut Progress, place: Place) = piece_on::<_, 10, false>
}
aes_kernels! {
    fn open_192(key: &GcmKey, iv: __m128i, progress: &mut Progress, place: Place) = piece_on::<_, 12, false>
}
aes_kernels! {
    fn open_256(key: &GcmKey, iv: __m128i, progress: &mut Progress, place: Place) = piece_on::<_, 14, false>
}

#[inline(always)]
fn piece_on<I: Isa, const R: usize, const ENCRYPT: bool>(
    isa: I,
    key: &GcmKey,
    iv: __m128i,
    progress: &mut Progress,
    place: Place,
) {
    // SAFETY: what made the place promises.
    unsafe { long::piece::<I, R, ENCRYPT>(isa, key, iv, progress, (place.0, place.1, place.2)) }
}

aes_kernels! {
    /// Hashes whole blocks.
    fn hash(key: &GcmKey, hash: &mut [u8; 16], blocks: &[u8]) = hash_on
}

#[inline(always)]
fn hash_on<I: Isa>(isa: I, key: &GcmKey, hash: &mut [u8; 16], blocks: &[u8]) {
    // SAFETY: what is read is a slice; sixteen bytes are loaded and stored, with SSE2, which is part of x86-64.
    unsafe {
        let before = isa.only_first(isa.block(hash));
        let (from, len) = (blocks.as_ptr(), blocks.len());
        let after = ghash::absorb::<I, true, false>(isa, &key.hash, before, from, len, isa.zero());
        _mm_storeu_si128(hash.as_mut_ptr().cast(), after.first());
    }
}

aes_kernels! {
    /// The key stream of a block.
    fn counter_block(key: &GcmKey, counter: u32, iv: &[u8; 16], out: &mut [u8; 16]) = counter_block_on
}

#[inline(always)]
fn counter_block_on<I: Isa>(isa: I, key: &GcmKey, counter: u32, iv: &[u8; 16], out: &mut [u8; 16]) {
    *out = *iv;
    out[12..].copy_from_slice(&counter.to_be_bytes());
    let mut block = [isa.splat_bytes(out)];
    key.near.schedule.encrypt(isa, &mut block);
    // SAFETY: sixteen bytes; SSE2 is part of x86-64.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), block[0].first()) };
}

aes_kernels! {
    /// The full tag of a message that was hashed.
    fn full_tag(key: &GcmKey, message: &Message, tag: &mut [u8; 16]) = full_tag_on
}

#[inline(always)]
fn full_tag_on<I: Isa>(isa: I, key: &GcmKey, message: &Message, tag: &mut [u8; 16]) {
    counter_block_on(isa, key, 1, &message.iv, tag);
    let lengths = lengths(isa, message.aad_len as usize, message.len as usize);
    // SAFETY: no bytes are read but the tag's sixteen; SSE2 is part of x86-64.
    unsafe {
        let before = isa.only_first(isa.block(&message.hash));
        let hash = ghash::absorb::<I, true, true>(isa, &key.hash, before, tag.as_ptr(), 0, lengths);
        let sum = hash.shuffle(ghash::reversal(isa)).xor(isa.splat_bytes(tag));
        _mm_storeu_si128(tag.as_mut_ptr().cast(), sum.first());
    }
}
