//! SHA-384 and SHA-512 of messages one after the other, for few of them ([`sha_512`](super::sha_512)).
//!
//! Whole blocks are read where they lie. A message's end is put together with its padding in memory of ours, and so is
//! HMAC's outer block.

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use crate::x86::Avx2;

use super::algorithms::{Form, Sha512, midstate_len};
use super::pairs::{Begun, Left, ONE_BYTE, Piece, load, partial};
use super::sha_512::{BLOCK, compress};
use super::source::{DIGEST_MAX, Message, Source};

/// Bytes of a message's length behind its padding.
const LENGTH: usize = 16;

/// A message's end, or a head with data behind it.
#[repr(C, align(64))]
struct Room(MaybeUninit<[u8; 2 * BLOCK]>);

/// What one message after the other is digested in.
struct Alone {
    isa: Avx2,
    form: Form,
    state: [u64; 8],
    room: Room,
}

crate::x86::with_avx2! {
    /// Digests all messages of a source: HMACs if the form says so.
    ///
    /// # Safety
    /// What [`Message`] promises; messages have midstates if it is an HMAC. The digest is SHA-384 or SHA-512.
    pub(super) unsafe fn digest_all(isa: Avx2, source: &mut Source<'_, '_>, form: Form) {
        let mut alone = Alone::new(isa, form);
        while let Some(message) = source.next(BLOCK) {
            // SAFETY: the caller's promise.
            unsafe {
                let left = alone.start(&message);
                let before = if form.hmac { BLOCK } else { 0 };
                let bits = 8 * (before + message.head_len + message.len) as u64;
                alone.finish(left, bits, message.midstates);
                alone.deliver(message.name, source);
            }
        }
        alone.wipe();
    }
}

crate::x86::with_avx2! {
    /// Finishes messages that lanes have begun.
    ///
    /// # Safety
    /// As in [`digest_all`].
    pub(super) unsafe fn finish_all(isa: Avx2, begun: &[Begun<u64>], source: &mut Source<'_, '_>, form: Form) {
        let mut alone = Alone::new(isa, form);
        for begun in begun {
            alone.state = begun.words;
            // SAFETY: the caller's promise.
            unsafe {
                alone.finish(begun.left, begun.bits, begun.midstates);
                alone.deliver(begun.name, source);
            }
        }
        alone.wipe();
    }
}

impl Alone {
    #[inline(always)]
    fn new(isa: Avx2, form: Form) -> Self {
        Alone { isa, form, state: [0; 8], room: Room(MaybeUninit::uninit()) }
    }

    /// Takes in whole blocks.
    ///
    /// # Safety
    /// They may be read.
    #[inline(always)]
    unsafe fn take_in(&mut self, from: *const u8, blocks: usize) {
        // SAFETY: the caller's promise; an `Avx2` exists only where it was detected.
        unsafe {
            if blocks != 0 {
                compress(self.isa, &mut self.state, from, blocks);
            }
        }
    }

    /// Takes in what has been put together.
    ///
    /// # Safety
    /// So many blocks have been.
    #[inline(always)]
    unsafe fn take_in_room(&mut self, blocks: usize) {
        let from = self.room.place().cast_const();
        // SAFETY: the caller's promise.
        unsafe { self.take_in(from, blocks) }
    }

    /// Starts a message: a head fills a block with the data behind it, or is all that there is with it.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn start(&mut self, message: &Message) -> Left {
        let mut data = Piece { from: message.data, len: message.len };
        // SAFETY: the caller's promise; head and the data behind it fill a block at most, a midstate is eight words.
        unsafe {
            self.state = if self.form.hmac {
                message.midstates.cast::<[u64; 8]>().read_unaligned()
            } else {
                self.form.variant.start.as_chunks().0[0]
            };
            if message.head_len != 0 {
                let taken = message.len.min(BLOCK - message.head_len);
                // Behind the room in which the end is put together.
                let head = self.room.place().add(BLOCK);
                core::ptr::copy_nonoverlapping(message.head, head, message.head_len);
                core::ptr::copy_nonoverlapping(message.data, head.add(message.head_len), taken);
                if message.head_len + taken < BLOCK {
                    return Left::Data(Piece { from: head, len: message.head_len + taken }, None);
                }
                self.take_in(head, 1);
                data = Piece { from: message.data.add(taken), len: message.len - taken };
            }
        }
        Left::Data(data, None)
    }

    /// Takes in all that is left.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn finish(&mut self, left: Left, bits: u64, midstates: *const u8) {
        // SAFETY: the caller's promise.
        unsafe {
            match left {
                Left::Data(piece, behind) => {
                    self.take_in(piece.from, piece.len / BLOCK);
                    let last = behind.unwrap_or(piece);
                    if behind.is_some() {
                        self.take_in(last.from, last.len / BLOCK);
                    }
                    let blocks = self.end_blocks(last, bits);
                    self.take_in_room(blocks);
                }
                Left::Length => {
                    self.room.place().cast::<[__m128i; 7]>().write([_mm_setzero_si128(); 7]);
                    self.room.vectors().add(7).write(length(bits));
                    self.take_in_room(1);
                }
                Left::Outer | Left::Nothing => {}
            }
            if self.form.hmac {
                self.outer_block();
                self.state = midstates.add(midstate_len::<Sha512>()).cast::<[u64; 8]>().read_unaligned();
                self.take_in_room(1);
            }
        }
    }

    /// Puts the end of a message together: the bytes of its last piece that fill no block, the byte behind them, the
    /// length. How many blocks that takes.
    ///
    /// # Safety
    /// The piece may be read.
    #[inline(always)]
    unsafe fn end_blocks(&mut self, piece: Piece, bits: u64) -> usize {
        let odd = piece.len % BLOCK;
        let (whole, over) = (odd / 16, odd % 16);
        let from = piece.from.wrapping_add(piece.len - odd).cast::<__m128i>();
        let to = self.room.vectors();
        let blocks = 1 + usize::from(odd >= BLOCK - LENGTH);
        // SAFETY: the caller's promise; sixteen vectors are two blocks. The piece may be a head in the second of them: all of
        // it is read before that is written to.
        unsafe {
            let last = _mm_or_si128(partial(piece, over), load(&ONE_BYTE, 16 - over));
            to.cast::<[__m128i; 8]>().write([_mm_setzero_si128(); 8]);
            to.add(whole).write(last);
            for at in 0..whole {
                to.add(at).write(_mm_loadu_si128(from.add(at)));
            }
            if blocks == 2 {
                to.cast::<[__m128i; 8]>().add(1).write([_mm_setzero_si128(); 8]);
            }
            to.add(8 * blocks - 1).write(length(bits));
        }
        blocks
    }

    /// HMAC's outer block (RFC 2104, 2) behind its midstate.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn outer_block(&mut self) {
        let words = self.form.variant.words;
        let mut block = [0u64; 16];
        block[..8].copy_from_slice(&self.state);
        // SHA-512/256 is four of the eight words, SHA-384 six.
        for word in 4..9 {
            if word >= words {
                block[word] = if word == words { 1 << 63 } else { 0 };
            }
        }
        block[15] = 8 * (BLOCK + 8 * words) as u64;
        let block = block.map(u64::swap_bytes);
        // SAFETY: a block's room.
        unsafe { self.room.place().cast::<[u64; 16]>().write(block) };
    }

    /// Hands the digest out.
    #[inline(always)]
    fn deliver(&self, name: u32, source: &mut Source<'_, '_>) {
        let mut digest = [0; DIGEST_MAX];
        for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(self.state) {
            *bytes = word.to_be_bytes();
        }
        source.deliver(name, &digest);
    }

    /// Forgets chaining value and inner digest.
    #[inline(always)]
    fn wipe(&mut self) {
        self.state = [0; 8];
        // SAFETY: a block's room.
        unsafe { self.room.place().write_bytes(0, BLOCK) };
        core::hint::black_box(self);
    }
}

impl Room {
    #[inline(always)]
    fn place(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }

    #[inline(always)]
    fn vectors(&mut self) -> *mut __m128i {
        self.place().cast()
    }
}

/// The last vector of a block that ends with a message's length.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn length(bits: u64) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_set_epi64x(bits.swap_bytes() as i64, 0) }
}

#[cfg(test)]
mod tests {
    use super::super::algorithms::Variant;
    use super::super::driver;
    use super::super::portable::Scalar;
    use super::*;
    use crate::hash::source::{Digest, Few};
    use crate::instruction_set::InstructionSet;

    /// How messages are digested.
    #[derive(Clone, Copy)]
    enum By {
        /// The one way that every processor has.
        Words,
        /// From the first block on.
        Alone(Avx2),
        /// After this many blocks elsewhere.
        Begun(Avx2, usize),
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| ((at * at) >> 3) as u8).collect()
    }

    fn digest_by(by: By, source: &mut Source<'_, '_>, form: Form) {
        // SAFETY: every message and its midstates lie there, and an `Avx2` exists only where it was detected.
        unsafe {
            match by {
                By::Words => driver::digest_all::<_, Sha512>(Scalar, source, form, Few::NEVER),
                By::Alone(isa) => digest_all(isa, source, form),
                By::Begun(isa, blocks) => {
                    while let Some(message) = source.next(BLOCK) {
                        let (start, taken) = (message.midstates.cast::<[u64; 8]>(), blocks * BLOCK);
                        let mut state = start.read_unaligned();
                        compress(isa, &mut state, message.data, blocks);
                        let (from, len) = (message.data.add(taken), message.len - taken);
                        // All in one piece, or whole blocks first.
                        let whole = len / BLOCK * BLOCK;
                        let left = if blocks == 1 {
                            Left::Data(Piece { from, len }, None)
                        } else {
                            let behind = Piece { from: from.add(whole), len: len - whole };
                            Left::Data(Piece { from, len: whole }, Some(behind))
                        };
                        let bits = 8 * (BLOCK + message.len) as u64;
                        let Message { midstates, name, .. } = message;
                        let begun = Begun { words: state, left, bits, midstates, name };
                        finish_all(isa, &[begun], source, form);
                    }
                }
            }
        }
    }

    /// Digests of messages of these lengths, with heads of any length below a block where `heads` says so.
    fn digests(by: By, lens: &[usize], heads: bool, form: Form) -> Vec<Digest> {
        let data = bytes(10_000);
        let mut midstates = vec![[0u64; 16]; lens.len()];
        let mut messages = Vec::new();
        for (name, len) in lens.iter().enumerate() {
            driver::midstates::<Sha512>(form.variant, &data[name..2 * name + 1], &mut midstates[name]);
            let head_len = if heads { (name * 29) % BLOCK } else { 0 };
            messages.push(Message {
                head: data[name..].as_ptr(),
                head_len,
                data: data[name + head_len..].as_ptr(),
                len: *len,
                midstates: midstates[name].as_ptr().cast(),
                name: name as u32,
            });
        }
        let mut digests = vec![[0; DIGEST_MAX]; lens.len()];
        digest_by(by, &mut Source::List { messages: &messages, digests: &mut digests }, form);
        digests
    }

    #[test]
    fn messages_of_all_lengths_are_digested_as_elsewhere() {
        let Some(isa) = Avx2::detect() else { return };
        let lens: Vec<usize> = (0..400).chain([1000, 1024, 4095, 4096]).collect();
        for variant in [Variant::SHA384, Variant::SHA512] {
            for (hmac, heads) in [(false, false), (true, false), (false, true), (true, true)] {
                let form = Form { variant, hmac };
                let (got, expected) =
                    (digests(By::Alone(isa), &lens, heads, form), digests(By::Words, &lens, heads, form));
                for (at, len) in lens.iter().enumerate() {
                    let full = 8 * variant.words;
                    assert_eq!(got[at][..full], expected[at][..full], "{len} bytes, heads {heads}, HMAC {hmac}");
                }
            }
        }
    }

    #[test]
    fn messages_begun_elsewhere_are_finished() {
        let Some(isa) = Avx2::detect() else { return };
        let form = Form { variant: Variant::SHA512, hmac: true };
        for blocks in 0..3 {
            let lens: Vec<usize> = (BLOCK * blocks..BLOCK * (blocks + 3)).collect();
            let expected = digests(By::Words, &lens, false, form);
            assert!(digests(By::Begun(isa, blocks), &lens, false, form) == expected, "after {blocks} blocks");
        }
    }

    #[test]
    fn blocks_are_those_of_another_implementation() {
        let Some(isa) = Avx2::detect() else { return };
        let data = bytes(BLOCK * 5);
        for seed in 0..500u64 {
            let mut state: [u64; 8] =
                core::array::from_fn(|at| (seed + 8 * at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (mut expected, blocks) = (state, seed as usize % 6);
            sha2::block_api::compress512(&mut expected, &data.as_chunks().0[..blocks]);
            // SAFETY: so many blocks may be read.
            unsafe { compress(isa, &mut state, data.as_ptr(), blocks) };
            assert_eq!(state, expected, "{blocks} blocks, seed {seed}");
        }
    }
}
