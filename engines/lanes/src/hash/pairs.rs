//! Messages of any lengths, two side by side with the processor's SHA instructions: each takes the next message when its
//! own has ended. For few messages, and for processors on which this is faster than their vectors.
//!
//! Whole blocks are read where they lie. A message's end is put together with its padding in memory of ours, and so is
//! HMAC's outer block. Nothing but what the messages at hand need is set up: a lone message is what many callers have.

use core::arch::x86_64::*;
use core::marker::PhantomData;
use core::mem::MaybeUninit;

use crate::x86::ShaNi;

use super::algorithms::{Algorithm, Form, Instructions, Variant, midstate_len};
use super::sha_ni::{Rounds, Sha1Rounds, Sha256Rounds, Value};
use super::source::{DIGEST_MAX, Message, Source};

/// Bytes of a block of either digest.
const BLOCK: usize = 64;

/// Bytes of a message's length behind its padding.
const LENGTH: usize = 8;

/// Bytes that are read, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) from: *const u8,
    pub(super) len: usize,
}

/// What a message still needs; of one under way, behind the blocks at hand.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// These bytes, whole blocks if others come behind them, and its end. Whole blocks of the first are at hand.
    Data(Piece, Option<Piece>),
    /// A block of nothing but its length.
    Length,
    /// HMAC's outer block.
    Outer,
    /// Nothing; its digest is there.
    Nothing,
}

/// A message that lanes have begun.
#[derive(Clone, Copy)]
pub(super) struct Begun<W> {
    /// Its chaining value's words.
    pub(super) words: [W; 8],
    pub(super) left: Left,
    /// Bits of the whole message.
    pub(super) bits: u64,
    pub(super) midstates: *const u8,
    pub(super) name: u32,
}

/// Room for blocks.
#[repr(C, align(64))]
struct Room<const N: usize>(MaybeUninit<[u8; N]>);

impl<const N: usize> Room<N> {
    const fn new() -> Self {
        Room(MaybeUninit::uninit())
    }

    #[inline(always)]
    fn place(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// For each number of words that a digest has: which words of an outer block it keeps, and the padding behind them.
static BEHIND: [[[u32; 12]; 2]; 9] = {
    let mut behind = [[[0; 12]; 2]; 9];
    let mut words = 0;
    while words < behind.len() {
        let mut word = 0;
        while word < words {
            behind[words][0][word] = u32::MAX;
            word += 1;
        }
        behind[words][1][words] = 0x80;
        words += 1;
    }
    behind
};

/// A message under way.
struct Under<R, A> {
    value: Value,
    left: Left,
    /// Where whole blocks are read, and how many.
    from: *const u8,
    blocks: usize,
    bits: u64,
    midstates: *const u8,
    name: u32,
    /// A head with the data behind it.
    head: Room<BLOCK>,
    /// The end, or the outer block.
    end: Room<{ 2 * BLOCK }>,
    digest: PhantomData<(R, A)>,
}

/// Where messages come from and digests go.
struct Ends<'e, 's, 'w> {
    begun: &'e [Begun<u32>],
    source: &'e mut Source<'s, 'w>,
    form: Form,
}

/// Digests messages as [`digest_all`] does, where the digest has instructions; else none.
///
/// # Safety
/// As in [`digest_all`].
pub(super) unsafe fn digest<A: Algorithm>(sha: ShaNi, begun: &[Begun<u32>], source: &mut Source<'_, '_>, form: Form) {
    // SAFETY: the caller's promise; a `ShaNi` exists only where it was detected.
    unsafe {
        match A::INSTRUCTIONS {
            Some(Instructions::Sha1) => digest_all::<Sha1Rounds, A>(sha, begun, source, form),
            Some(Instructions::Sha256) => digest_all::<Sha256Rounds, A>(sha, begun, source, form),
            None => {}
        }
    }
}

crate::x86::with_sha_ni! {
    /// Digests messages that have been begun, then all messages of a source: HMACs if the form says so.
    ///
    /// # Safety
    /// What [`Message`] promises, for those begun too; messages have midstates if it is an HMAC. `R` are `A`'s rounds.
    unsafe fn digest_all<R: Rounds, A: Algorithm>(_: ShaNi, begun: &[Begun<u32>], source: &mut Source<'_, '_>, form: Form) {
        let mut ends = Ends { begun, source, form };
        // SAFETY: the caller's promise.
        unsafe {
            let mut first = Under::<R, A>::new();
            if !first.take(&mut ends) {
                return;
            }
            let mut second = Under::<R, A>::new();
            if second.take(&mut ends) {
                loop {
                    let blocks = first.blocks.min(second.blocks);
                    R::compress([&mut first.value, &mut second.value], [first.from, second.from], blocks);
                    match (first.go_on(blocks, &mut ends), second.go_on(blocks, &mut ends)) {
                        (true, true) => {}
                        (true, false) => break first.finish(&mut ends),
                        (false, true) => break second.finish(&mut ends),
                        (false, false) => break,
                    }
                }
                second.wipe();
            } else {
                first.finish(&mut ends);
            }
            first.wipe();
        }
    }
}

impl<R: Rounds, A: Algorithm> Under<R, A> {
    /// # Safety
    /// The processor has the SHA instructions, as for everything here.
    #[inline(always)]
    unsafe fn new() -> Self {
        Under {
            // SAFETY: the caller's promise.
            value: unsafe { [_mm_setzero_si128(); 2] },
            left: Left::Nothing,
            from: core::ptr::null(),
            blocks: 0,
            bits: 0,
            midstates: core::ptr::null(),
            name: 0,
            head: Room::new(),
            end: Room::new(),
            digest: PhantomData,
        }
    }

    /// Takes the next message, if there is one, up to its first whole blocks.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn take(&mut self, ends: &mut Ends<'_, '_, '_>) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some((begun, others)) = ends.begun.split_first() {
                ends.begun = others;
                (self.left, self.bits, self.midstates, self.name) =
                    (begun.left, begun.bits, begun.midstates, begun.name);
                let words = begun.words.as_ptr().cast::<__m128i>();
                self.value = R::value([_mm_loadu_si128(words), _mm_loadu_si128(words.add(1))]);
            } else {
                let Some(message) = ends.source.next(BLOCK) else { return false };
                self.start(&message, ends.form);
            }
            if let Left::Data(piece, _) = self.left {
                (self.from, self.blocks) = (piece.from, piece.len / BLOCK);
            }
            if self.blocks == 0 {
                self.turn(ends.form);
            }
            true
        }
    }

    /// Starts a message.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn start(&mut self, message: &Message, form: Form) {
        let before = if form.hmac { BLOCK } else { 0 };
        let mut data = Piece { from: message.data, len: message.len };
        let mut behind = None;
        // SAFETY: the caller's promise; head and the data behind it fill a block at most.
        unsafe {
            if message.head_len != 0 {
                let taken = message.len.min(BLOCK - message.head_len);
                let head = self.head.place();
                core::ptr::copy_nonoverlapping(message.head, head, message.head_len);
                core::ptr::copy_nonoverlapping(message.data, head.add(message.head_len), taken);
                if message.head_len + taken == BLOCK {
                    behind = Some(Piece { from: message.data.add(taken), len: message.len - taken });
                }
                data = Piece { from: head, len: message.head_len + taken };
            }
            self.value = if form.hmac { Self::midstate(message.midstates) } else { Self::first(&form.variant) };
        }
        self.left = Left::Data(data, behind);
        self.bits = 8 * (before + message.head_len + message.len) as u64;
        (self.midstates, self.name) = (message.midstates, message.name);
    }

    /// The chaining value that a digest starts with.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn first(variant: &Variant) -> Value {
        let words: [u32; 8] = core::array::from_fn(|word| variant.start[word] as u32);
        let words = words.as_ptr().cast::<__m128i>();
        // SAFETY: the caller's promise; eight words lie there.
        unsafe { R::value([_mm_loadu_si128(words), _mm_loadu_si128(words.add(1))]) }
    }

    /// The chaining value that lies there.
    ///
    /// # Safety
    /// As in [`digest_all`]; as many bytes may be read as it has.
    #[inline(always)]
    unsafe fn midstate(from: *const u8) -> Value {
        // SAFETY: the caller's promise.
        unsafe {
            let low = _mm_loadu_si128(from.cast());
            let high = from.add(16);
            R::value([low, if A::STATE == 8 { _mm_loadu_si128(high.cast()) } else { _mm_loadu_si32(high) }])
        }
    }

    /// Moves on by so many blocks. Whether there are others, if need be of the next message.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn go_on(&mut self, blocks: usize, ends: &mut Ends<'_, '_, '_>) -> bool {
        self.blocks -= blocks;
        self.from = self.from.wrapping_add(BLOCK * blocks);
        if self.blocks != 0 {
            return true;
        }
        // SAFETY: the caller's promise.
        unsafe {
            if self.turn(ends.form) {
                return true;
            }
            self.deliver(ends.source);
            self.take(ends)
        }
    }

    /// Takes what is left in blocks of its own.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn finish(&mut self, ends: &mut Ends<'_, '_, '_>) {
        // SAFETY: the caller's promise.
        unsafe {
            loop {
                R::compress([&mut self.value], [self.from], self.blocks);
                if !self.turn(ends.form) {
                    break;
                }
            }
            self.deliver(ends.source);
        }
    }

    /// Turns to the next blocks of the message when those at hand are through. Whether it has any.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn turn(&mut self, form: Form) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            if let Left::Data(_, Some(piece)) = self.left {
                self.left = Left::Data(piece, None);
                (self.from, self.blocks) = (piece.from, piece.len / BLOCK);
                if self.blocks != 0 {
                    return true;
                }
            }
            self.from = self.end.place();
            (self.blocks, self.left) = match self.left {
                Left::Nothing => return false,
                Left::Data(piece, _) => (self.end_blocks(piece), if form.hmac { Left::Outer } else { Left::Nothing }),
                Left::Length => {
                    self.write([_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(), length(self.bits)]);
                    (1, if form.hmac { Left::Outer } else { Left::Nothing })
                }
                Left::Outer => {
                    self.outer_block(form.variant.words);
                    (1, Left::Nothing)
                }
            };
            true
        }
    }

    /// Writes a block.
    ///
    /// # Safety
    /// The processor has the SHA instructions.
    #[inline(always)]
    unsafe fn write(&mut self, block: Block) {
        // SAFETY: a block's room.
        unsafe { self.end.place().cast::<Block>().write_unaligned(block) }
    }

    /// Puts the end of a message together: the bytes of its last piece that fill no block, the byte behind them, the
    /// length. How many blocks that takes.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn end_blocks(&mut self, piece: Piece) -> usize {
        let odd = piece.len % BLOCK;
        let (whole, over) = (odd / 16, odd % 16);
        let from = piece.from.wrapping_add(piece.len - odd);
        let to = self.end.place().cast::<__m128i>();
        // SAFETY: the caller's promise; vectors end within two blocks, and what is read within the piece. Whole vectors are
        // written, as whole ones are read again soon: parts would have to be in the cache first.
        unsafe {
            let zero = _mm_setzero_si128();
            let last = _mm_or_si128(partial(piece, over), load(&ONE_BYTE, 16 - over));
            if odd < BLOCK - LENGTH {
                let mut end = length(self.bits);
                if whole == 3 {
                    end = _mm_or_si128(end, last);
                } else {
                    for at in 0..3 {
                        to.add(at).write(zero);
                    }
                    to.add(whole).write(last);
                }
                to.add(3).write(end);
            } else {
                to.add(3).write(last);
                for at in 4..7 {
                    to.add(at).write(zero);
                }
                to.add(7).write(length(self.bits));
            }
            for at in 0..whole {
                to.add(at).write(_mm_loadu_si128(from.cast::<__m128i>().add(at)));
            }
        }
        1 + usize::from(odd >= BLOCK - LENGTH)
    }

    /// HMAC's outer block (RFC 2104, 2), and the chaining value before it.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn outer_block(&mut self, words: usize) {
        let [keep, pad] = &BEHIND[words % BEHIND.len()];
        // SAFETY: the caller's promise; twelve words are three vectors.
        unsafe {
            let [low, high] = swapped(R::words(self.value));
            let vector = |words: &[u32; 12], at: usize| _mm_loadu_si128(words.as_ptr().cast::<__m128i>().add(at));
            let high = _mm_or_si128(_mm_and_si128(high, vector(keep, 1)), vector(pad, 1));
            self.write([low, high, vector(pad, 2), length(8 * (BLOCK + 4 * words) as u64)]);
            self.value = Self::midstate(self.midstates.add(midstate_len::<A>()));
        }
    }

    /// Hands the digest out.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn deliver(&self, source: &mut Source<'_, '_>) {
        let mut digest = [0; DIGEST_MAX];
        // SAFETY: the caller's promise; a digest has room for both vectors.
        unsafe { digest.as_mut_ptr().cast::<Value>().write_unaligned(swapped(R::words(self.value))) };
        source.deliver(self.name, &digest);
    }

    /// Forgets chaining value and inner digest.
    #[inline(always)]
    fn wipe(&mut self) {
        // SAFETY: zero is what vectors and bytes may be; a block's room.
        unsafe {
            self.value = core::mem::zeroed();
            self.end.place().write_bytes(0, BLOCK);
        }
        core::hint::black_box((&raw mut self.value, &raw mut self.end));
    }
}

/// A block in memory.
type Block = [__m128i; 4];

/// The last vector of a block that ends with a message's length.
///
/// # Safety
/// The processor has the SHA instructions.
#[inline(always)]
unsafe fn length(bits: u64) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_set_epi64x(bits.swap_bytes() as i64, 0) }
}

/// Words with their bytes in the standard's order.
///
/// # Safety
/// The processor has the SHA instructions.
#[inline(always)]
unsafe fn swapped([low, high]: Value) -> Value {
    // SAFETY: the caller's promise.
    unsafe {
        let order = _mm_set_epi64x(0x0c0d_0e0f_0809_0a0b, 0x0405_0607_0001_0203);
        [_mm_shuffle_epi8(low, order), _mm_shuffle_epi8(high, order)]
    }
}

/// Numbers that shift a vector's bytes down by as many places as are left out here, zeros coming in.
static PLACES: [u8; 32] = {
    let mut places = [0x80; 32];
    let mut at = 0;
    while at < 16 {
        places[at] = at as u8;
        at += 1;
    }
    places
};

/// The byte behind a message, in a vector of zeros at any place.
pub(super) static ONE_BYTE: [u8; 32] = {
    let mut bytes = [0; 32];
    bytes[16] = 0x80;
    bytes
};

/// The 16 bytes from a place on.
///
/// # Safety
/// The place is at most 16; the processor has SSSE3.
#[inline(always)]
pub(super) unsafe fn load(from: &[u8; 32], at: usize) -> __m128i {
    // SAFETY: the caller's promise.
    unsafe { _mm_loadu_si128(from.as_ptr().add(at).cast()) }
}

/// The last `len` bytes of a piece, fewer than 16, and zeros.
///
/// # Safety
/// They may be read; the processor has SSSE3.
#[inline(always)]
pub(super) unsafe fn partial(piece: Piece, len: usize) -> __m128i {
    let end = piece.from.wrapping_add(piece.len);
    // SAFETY: the caller's promise; both reads are within the piece, and any bits are a vector.
    unsafe {
        if piece.len >= 16 {
            return _mm_shuffle_epi8(_mm_loadu_si128(end.sub(16).cast()), load(&PLACES, 16 - len));
        }
        core::mem::transmute::<u128, __m128i>(super::v256::partial(end.sub(len), len))
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithms::{Sha1, Sha256};
    use super::super::driver;
    use super::super::portable::Scalar;
    use super::*;
    use crate::hash::source::{Digest, Few};
    use crate::instruction_set::InstructionSet;

    /// Messages of these lengths, one behind the other, with heads of any length below a block where `heads` says so.
    fn digests<A: Algorithm>(sha: Option<ShaNi>, lens: &[usize], heads: bool, form: Form) -> Vec<Digest> {
        let data: Vec<u8> = (0..70_000usize).map(|at| ((at * at) >> 3) as u8).collect();
        let mut midstates = vec![[0u64; 8]; lens.len()];
        let mut messages = Vec::new();
        let mut at = 0;
        for (name, len) in lens.iter().enumerate() {
            driver::midstates::<A>(form.variant, &data[name..2 * name + 1], &mut midstates[name]);
            let head_len = if heads { (name * 13) % BLOCK } else { 0 };
            messages.push(Message {
                head: data[at..].as_ptr(),
                head_len,
                data: data[at + head_len..].as_ptr(),
                len: *len,
                midstates: midstates[name].as_ptr().cast(),
                name: name as u32,
            });
            at = (at + len) % 1000;
        }
        let mut digests = vec![[0; DIGEST_MAX]; lens.len()];
        let mut source = Source::List { messages: &messages, digests: &mut digests };
        // SAFETY: every message and its midstates lie there, and a `ShaNi` exists only where it was detected.
        unsafe {
            match sha {
                Some(sha) => digest::<A>(sha, &[], &mut source, form),
                None => driver::digest_all::<_, A>(Scalar, &mut source, form, Few::NEVER),
            }
        }
        digests
    }

    fn agrees<A: Algorithm>(sha: ShaNi, lens: &[usize], variant: Variant) {
        for (heads, hmac) in [(false, false), (false, true), (true, true)] {
            let form = Form { variant, hmac };
            let (got, expected) = (digests::<A>(Some(sha), lens, heads, form), digests::<A>(None, lens, heads, form));
            for (at, len) in lens.iter().enumerate() {
                let words = 4 * variant.words;
                let of = format!("{len} bytes, message {at} of {}, heads {heads}, HMAC {hmac}", lens.len());
                assert_eq!(got[at][..words], expected[at][..words], "{of}");
                assert_ne!(got[at][..words], [0; DIGEST_MAX][..words], "{of}");
            }
        }
    }

    #[test]
    fn pairs_of_unequal_lengths_are_digested_as_each_alone() {
        let Some(sha) = ShaNi::detect() else { return };
        let around: Vec<usize> = (0..200).collect();
        let falling: Vec<usize> = (0..200).rev().chain([64, 0, 128, 55, 56, 63, 119, 120]).collect();
        let mixed: Vec<usize> = (0..150).map(|at| if at % 7 == 0 { 20 * at } else { at * 31 % 130 }).collect();
        for lens in [&around[..], &falling, &mixed, &[5000, 1, 1, 1, 1], &[1, 5000], &[5000, 64], &[77], &[]] {
            agrees::<Sha1>(sha, lens, Variant::SHA1);
            agrees::<Sha256>(sha, lens, Variant::SHA224);
            agrees::<Sha256>(sha, lens, Variant::SHA256);
        }
    }
}
