//! Messages of any lengths over the lanes of a digest: each lane takes the next message when its own has ended.
//!
//! Whole blocks are read where they lie, as many as every lane has in one go, or copied first ([`Algorithm::COPIES`]). At a message's end a lane's block is copied up
//! to its last byte, and the padding is put in: a byte behind the message, its length in the block's last bytes. For HMAC
//! inner digests wait until there are as many as lanes, and then all take their outer block at once, which is put together
//! likewise. So there is one place where blocks are taken in, and one copy of the rounds, which are longer than what a
//! processor keeps decoded of anything else.
//!
//! What an operation costs besides its blocks: some 10 instructions to take it, 15 at its end, and its share of
//! transposing states and digests, 8 to 16 a lane.

#[cfg(target_arch = "x86_64")]
mod hand_over;

use core::mem::MaybeUninit;

use zeroize::Zeroize;

use super::algorithms::{AHEAD, Algorithm, BLOCK_MAX, Block, Form, STATE_MAX, State, Variant, midstate_len};
use super::portable::Scalar;
use super::source::{DIGEST_MAX, Digest, Few, Message, Source};
use super::vector::{Isa, LANES_MAX, Words};
use crate::processor::{For, prefetch};

/// Bytes of the longest block.
const BLOCK_LEN_MAX: usize = 8 * BLOCK_MAX;

/// Bytes of a block and a vector.
const STAGED: usize = BLOCK_LEN_MAX + 64;

/// Bytes of the longest block, in whole vectors.
const PADDED: usize = BLOCK_LEN_MAX.next_multiple_of(64);

/// What idle lanes read.
static NOTHING: [u8; 256] = [0; 256];

/// A message in a lane.
#[derive(Clone, Copy)]
struct Lane {
    /// Bytes left where it is read; -1 when the byte behind them has been put, but not yet the length.
    left: isize,
    /// What is read behind that, if anything.
    then: *const u8,
    then_left: isize,
    /// Of the whole message.
    bits: u64,
    midstates: *const u8,
    name: u32,
}

impl Lane {
    const IDLE: Lane = Lane {
        left: isize::MAX,
        then: core::ptr::null(),
        then_left: 0,
        bits: 0,
        midstates: core::ptr::null(),
        name: 0,
    };
}

/// A block that is put together.
#[repr(C, align(64))]
struct Padded([u8; PADDED]);

/// An inner digest that waits for its outer block.
#[derive(Clone, Copy)]
struct Inner {
    digest: Digest,
    midstates: *const u8,
    name: u32,
}

/// What a block is.
enum Step {
    /// Whole in every lane.
    Whole,
    /// The end of some lanes' messages.
    Edge,
    /// HMAC's outer one.
    Outer,
}

/// The lanes of a digest.
struct Lanes<I: Isa, A: Algorithm> {
    isa: I,
    form: Form,
    /// Where digests start.
    start: State<A::W<I>>,
    state: State<A::W<I>>,
    /// What is read next, and how far that moves: nothing in an idle lane.
    from: [*const u8; LANES_MAX],
    strides: [usize; LANES_MAX],
    lanes: [Lane; LANES_MAX],
    active: u32,
    /// Lanes whose messages end with the block at hand.
    ended: u32,
    /// Whole blocks that every lane still has.
    blocks: usize,
    more: bool,
    /// Whether any lane reads elsewhere later.
    has_heads: bool,
    /// A head, what is behind it, and room for the rest of a vector.
    staged: [MaybeUninit<[u8; STAGED]>; LANES_MAX],
    /// The ends of messages and outer blocks.
    padded: [MaybeUninit<Padded>; LANES_MAX],
    /// Fewer than lanes wait before a step, and as many more may come with it.
    inner: [MaybeUninit<Inner>; 2 * LANES_MAX],
    waiting: usize,
}

/// Digests all messages of a source. The last messages are left to another way when there
/// are few.
///
/// # Safety
/// What [`Message`] promises; messages have midstates if it is an HMAC.
#[inline(always)]
pub(super) unsafe fn digest_all<I: Isa, A: Algorithm>(isa: I, source: &mut Source<'_, '_>, form: Form, few: Few) {
    let mut lanes = Lanes::<I, A>::new(isa, form);
    // SAFETY: the caller's promise.
    unsafe {
        while let Some(step) = lanes.next_step(source, few) {
            lanes.step(&step, source);
        }
    }
    lanes.wipe();
}

/// Finishes a message that a lane has begun.
///
/// # Safety
/// As in [`digest_all`].
#[inline(never)]
unsafe fn finish<A: Algorithm>(
    lane: &Lane,
    from: *const u8,
    state: &State<A::W<Scalar>>,
    form: Form,
    source: &mut Source<'_, '_>,
) {
    let mut one = Lanes::<Scalar, A>::new(Scalar, form);
    one.lanes[0] = *lane;
    (one.from[0], one.strides[0], one.state) = (from, A::BLOCK, *state);
    (one.active, one.more, one.has_heads) = (1, false, !lane.then.is_null());
    // SAFETY: the caller's promise.
    unsafe {
        while let Some(step) = one.next_step(source, Few::NEVER) {
            one.step(&step, source);
        }
    }
    one.wipe();
}

/// Takes in a block of a single lane: rounds in plain registers leave none for what is around them.
#[inline(never)]
fn compress_one<I: Isa, A: Algorithm>(isa: I, state: &mut State<A::W<I>>, block: Block<'_, A::W<I>>) {
    A::compress(isa, state, block);
}

/// HMAC's midstates of a key of any length (RFC 2104, 2), as [`Message`] wants them.
pub(super) fn midstates<A: Algorithm>(variant: Variant, key: &[u8], to: &mut [u64]) {
    let form = Form { variant, hmac: false };
    let mut block = [0u8; BLOCK_LEN_MAX];
    if key.len() <= A::BLOCK {
        block[..key.len()].copy_from_slice(key);
    } else {
        let none = core::ptr::null();
        let message = Message { head: none, head_len: 0, data: key.as_ptr(), len: key.len(), midstates: none, name: 0 };
        let mut digests = [[0; DIGEST_MAX]];
        // SAFETY: the key's bytes may be read.
        unsafe {
            let mut source = Source::List { messages: &[message], digests: &mut digests };
            digest_all::<_, A>(Scalar, &mut source, form, Few::NEVER);
        }
        let len = A::WORD * variant.words;
        block[..len].copy_from_slice(&digests[0][..len]);
        digests.zeroize();
    }
    let to = to.as_mut_ptr().cast::<u8>();
    for (at, pad) in [0x36, 0x5c].into_iter().enumerate() {
        let mut padded = block.map(|byte| byte ^ pad);
        let mut lanes = Lanes::<Scalar, A>::new(Scalar, form);
        // SAFETY: a padded block lies there; there is room for both midstates, which is asserted where keys are defined.
        unsafe {
            lanes.from[0] = padded.as_ptr();
            lanes.start(1);
            A::compress(Scalar, &mut lanes.state, Block::new(Scalar, &lanes.from, 0));
            for word in 0..A::STATE {
                lanes.state[word].store(to.add(at * midstate_len::<A>() + A::WORD * word));
            }
        }
        lanes.wipe();
        padded.zeroize();
    }
    block.zeroize();
}

impl<I: Isa, A: Algorithm> Lanes<I, A> {
    const LEN: usize = A::W::<I>::LEN;
    const BYTES: usize = A::W::<I>::BYTES;
    /// Whether whole blocks are copied before they are read: where a block is one vector.
    const COPIES: bool = A::COPIES && A::BLOCK == Self::BYTES;

    #[inline(always)]
    fn new(isa: I, form: Form) -> Self {
        let mut start = [Self::splat(isa, 0); STATE_MAX];
        for word in 0..A::STATE {
            start[word] = Self::splat(isa, form.variant.start[word]);
        }
        Lanes {
            isa,
            form,
            start,
            state: [Self::splat(isa, 0); STATE_MAX],
            from: [NOTHING.as_ptr(); LANES_MAX],
            strides: [0; LANES_MAX],
            lanes: [Lane::IDLE; LANES_MAX],
            active: 0,
            ended: 0,
            blocks: 0,
            more: true,
            has_heads: false,
            staged: [MaybeUninit::uninit(); LANES_MAX],
            padded: [const { MaybeUninit::uninit() }; LANES_MAX],
            inner: [MaybeUninit::uninit(); 2 * LANES_MAX],
            waiting: 0,
        }
    }

    /// What comes next, if anything does: idle lanes are given messages.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn next_step(&mut self, source: &mut Source<'_, '_>, few: Few) -> Option<Step> {
        loop {
            if self.waiting >= Self::LEN {
                return Some(Step::Outer);
            }
            if self.blocks != 0 {
                return Some(Step::Whole);
            }
            // SAFETY: the caller's promise.
            unsafe {
                if self.more {
                    self.refill(source);
                }
                let busy = self.active.count_ones() as usize + self.waiting;
                if !self.more && self.active.count_ones() < few.below && busy != 0 {
                    self.hand_over(source, few);
                }
            }
            if self.active == 0 {
                return (self.waiting != 0).then_some(Step::Outer);
            }
            if self.has_heads {
                self.leave_heads();
            }
            let mut least = isize::MAX;
            for lane in &self.lanes[..Self::LEN] {
                least = least.min(lane.left);
            }
            self.blocks = least.max(0) as usize / A::BLOCK;
            if self.blocks == 0 {
                return Some(Step::Edge);
            }
            for at in 0..Self::LEN {
                self.lanes[at].left -= (self.blocks * self.strides[at]) as isize;
            }
        }
    }

    /// Takes in a block.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn step(&mut self, step: &Step, source: &mut Source<'_, '_>) {
        // The words that count, one by one: all of them together would be a call, and more than a block of MD5 takes.
        let mut other = [Self::splat(self.isa, 0); STATE_MAX];
        #[expect(clippy::manual_memcpy, reason = "words stay in registers")]
        for word in 0..A::STATE {
            other[word] = self.state[word];
        }
        // SAFETY: the caller's promise.
        let len = unsafe {
            match step {
                Step::Whole => self.whole_blocks(),
                Step::Edge => self.edge_block(),
                Step::Outer => self.outer_block(&mut other),
            }
        };
        let mut padded = [core::ptr::null(); LANES_MAX];
        for at in 0..Self::LEN {
            padded[at] = self.padded[at].as_mut_ptr().cast::<u8>().cast_const();
        }
        let is_whole = matches!(step, Step::Whole);
        let mut at = 0;
        while at < len {
            // SAFETY: so many bytes lie where the lanes are, and a block where one is put together or has been copied to.
            let block = unsafe {
                if Self::COPIES && is_whole {
                    if at == 0 {
                        Self::copy_blocks(self.isa, &self.from, 0, &padded);
                    }
                    if at + A::BLOCK < len {
                        Self::copy_blocks(self.isa, &self.from, at + A::BLOCK, &padded);
                    }
                }
                match step {
                    Step::Whole if !Self::COPIES => Block::new(self.isa, &self.from, at),
                    _ => Block::new(self.isa, &padded, at % (2 * A::BLOCK)),
                }
            };
            // A constant, so that nothing is compiled of the branch that is never taken.
            if const { Self::LEN == 1 } {
                compress_one::<I, A>(self.isa, &mut other, block);
            } else {
                A::compress(self.isa, &mut other, block);
            }
            at += A::BLOCK;
        }
        match step {
            Step::Whole => {
                self.keep(&other);
                self.leave_blocks(len);
            }
            Step::Edge => {
                self.keep(&other);
                self.move_on(1);
                if self.ended != 0 {
                    self.end(source);
                }
            }
            Step::Outer => {
                let mut digests = [MaybeUninit::uninit(); LANES_MAX];
                Self::digests(&other, &mut digests);
                let first = self.waiting.saturating_sub(Self::LEN);
                for at in first..core::mem::replace(&mut self.waiting, first) {
                    // SAFETY: as many as waited have been written, and a digest for each lane.
                    unsafe {
                        source.deliver(self.inner[at].assume_init_ref().name, digests[at - first].assume_init_ref());
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn keep(&mut self, state: &State<A::W<I>>) {
        #[expect(clippy::manual_memcpy, reason = "words stay in registers")]
        for word in 0..A::STATE {
            self.state[word] = state[word];
        }
    }

    #[inline(always)]
    fn move_on(&mut self, blocks: usize) {
        for at in 0..Self::LEN {
            self.from[at] = self.from[at].wrapping_add(blocks * self.strides[at]);
        }
    }

    /// Gives idle lanes messages.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn refill(&mut self, source: &mut Source<'_, '_>) {
        let mut fresh = 0u32;
        for at in 0..Self::LEN {
            if self.active >> at & 1 == 1 {
                continue;
            }
            let Some(message) = source.next(A::BLOCK) else {
                self.more = false;
                break;
            };
            // SAFETY: the caller's promise.
            unsafe { self.set(at, &message) };
            fresh |= 1 << at;
        }
        if fresh != 0 {
            self.active |= fresh;
            // SAFETY: the caller's promise.
            unsafe { self.start(fresh) };
        }
    }

    /// Puts a message into a lane.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn set(&mut self, at: usize, message: &Message) {
        let before = if self.form.hmac { A::BLOCK } else { 0 };
        let mut lane = Lane {
            left: message.len as isize,
            bits: 8 * (before + message.head_len + message.len) as u64,
            midstates: message.midstates,
            name: message.name,
            ..Lane::IDLE
        };
        let mut from = message.data;
        if message.head_len != 0 {
            let taken = message.len.min(A::BLOCK - message.head_len);
            let staged = self.staged[at].as_mut_ptr().cast::<u8>();
            // SAFETY: head and the data behind it fill a block at most, which fits.
            unsafe {
                self.copy(message.head, message.head_len, staged);
                self.copy(message.data, taken, staged.add(message.head_len));
            }
            from = staged;
            lane.left = (message.head_len + taken) as isize;
            if lane.left == A::BLOCK as isize {
                lane.then = message.data.wrapping_add(taken);
                lane.then_left = (message.len - taken) as isize;
                self.has_heads = true;
            }
        }
        self.lanes[at] = lane;
        (self.from[at], self.strides[at]) = (from, A::BLOCK);
    }

    /// Copies less than a block; more may be written behind it. Short lengths that vary are what `memcpy` is slow at.
    ///
    /// # Safety
    /// So many bytes may be read, and as many as whole vectors have written.
    #[inline(always)]
    unsafe fn copy(&self, from: *const u8, len: usize, to: *mut u8) {
        let mut at = 0;
        while at < len {
            // SAFETY: the caller's promise.
            unsafe {
                A::W::<I>::load_partial(self.isa, from.add(at), (len - at).min(Self::BYTES)).store(to.add(at));
            }
            at += Self::BYTES;
        }
    }

    /// Starts lanes.
    ///
    /// # Safety
    /// Their midstates may be read.
    #[inline(always)]
    unsafe fn start(&mut self, fresh: u32) {
        let mut first = [Self::splat(self.isa, 0); STATE_MAX];
        if self.form.hmac {
            let mut from = [NOTHING.as_ptr(); LANES_MAX];
            for at in 0..Self::LEN {
                if self.active >> at & 1 == 1 {
                    from[at] = self.lanes[at].midstates;
                }
            }
            // SAFETY: the caller's promise.
            unsafe { self.states_at(&from, &mut first) };
        }
        for word in 0..A::STATE {
            // Sponges start with zeros.
            let from = if self.form.hmac || A::LENGTH == 0 { first[word] } else { self.start[word] };
            self.state[word] = A::W::<I>::select(self.isa, fresh, from, self.state[word]);
        }
    }

    /// The same word in every lane.
    #[inline(always)]
    fn splat(isa: I, word: u64) -> A::W<I> {
        let bytes = [word.to_le(); 8];
        let words = [(word as u32).to_le(); 16];
        let from = if A::WORD == 8 { bytes.as_ptr().cast() } else { words.as_ptr().cast() };
        // SAFETY: both are as long as the longest vector.
        unsafe { A::W::<I>::load(isa, from) }
    }

    /// Reads a chaining value for each lane.
    ///
    /// # Safety
    /// They may be read.
    #[inline(always)]
    unsafe fn states_at(&self, from: &[*const u8; LANES_MAX], state: &mut State<A::W<I>>) {
        let len = A::WORD * A::STATE;
        for chunk in 0..A::STATE.div_ceil(Self::LEN) {
            let mut rows = [self.state[0]; LANES_MAX];
            let at = chunk * Self::BYTES;
            for lane in 0..Self::LEN {
                // SAFETY: the caller's promise.
                rows[lane] = unsafe {
                    A::W::<I>::load_partial(self.isa, from[lane].wrapping_add(at), (len - at).min(Self::BYTES))
                };
            }
            A::W::<I>::transpose(&mut rows);
            for word in 0..Self::LEN.min(A::STATE - chunk * Self::LEN) {
                state[chunk * Self::LEN + word] = rows[word];
            }
        }
    }

    /// How long all the whole blocks are that every lane still has. They are read at one distance from the lanes' places:
    /// idle lanes read with a busy one.
    #[inline(always)]
    fn whole_blocks(&mut self) -> usize {
        let len = core::mem::take(&mut self.blocks) * A::BLOCK;
        self.idle_from(self.from[self.active.trailing_zeros() as usize % LANES_MAX], len);
        len
    }

    /// Copies every lane's block `at` bytes behind its place to the first or the second of its two blocks of `padded`, in
    /// turns, and fetches what is read later.
    ///
    /// # Safety
    /// Lanes have a whole block there, which is one vector.
    #[inline(always)]
    unsafe fn copy_blocks(isa: I, from: &[*const u8; LANES_MAX], at: usize, padded: &[*const u8; LANES_MAX]) {
        const { assert!(!Self::COPIES || 2 * A::BLOCK <= PADDED) };
        for lane in 0..Self::LEN {
            let from = from[lane].wrapping_add(at);
            prefetch(from.wrapping_add(AHEAD), For::Later);
            // SAFETY: the caller's promise; there is room for two blocks.
            unsafe {
                let to = padded[lane].cast_mut().add(at % (2 * A::BLOCK));
                A::W::<I>::load(isa, from).store(to);
            }
        }
    }

    /// Moves lanes behind so many bytes of whole blocks.
    #[inline(always)]
    fn leave_blocks(&mut self, len: usize) {
        self.idle_from(NOTHING.as_ptr(), len);
        self.move_on(len / A::BLOCK);
    }

    /// Has idle lanes read elsewhere, unless they have so many bytes to read anyway.
    #[inline(always)]
    fn idle_from(&mut self, from: *const u8, len: usize) {
        if len > NOTHING.len() && self.active.count_ones() < Self::LEN as u32 {
            for at in 0..Self::LEN {
                if self.active >> at & 1 == 0 {
                    self.from[at] = from;
                }
            }
        }
    }

    /// Moves lanes that are through with their head to what is behind it.
    #[inline(always)]
    fn leave_heads(&mut self) {
        self.has_heads = false;
        for at in 0..Self::LEN {
            let lane = &mut self.lanes[at];
            if lane.then.is_null() {
                continue;
            }
            if lane.left == 0 {
                (self.from[at], lane.left) = (lane.then, lane.then_left);
                lane.then = core::ptr::null();
            } else {
                self.has_heads = true;
            }
        }
    }

    /// Puts together every lane's next block, in some of which messages end.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn edge_block(&mut self) -> usize {
        self.ended = 0;
        // No branches: which lane ends is anybody's guess.
        for at in 0..Self::LEN {
            let lane = &mut self.lanes[at];
            let left = lane.left;
            let whole = left >= A::BLOCK as isize;
            let ends = left < (A::BLOCK - A::LENGTH) as isize;
            lane.left = if whole { left - self.strides[at] as isize } else { -1 };
            self.ended |= u32::from(ends) << at;
            let last = if ends { Self::last(lane.bits) } else { 0 };
            let have = left.clamp(0, A::BLOCK as isize) as usize;
            // Minus one is no place.
            let pad_at = if whole { usize::MAX } else { left as usize };
            // SAFETY: the lane has these bytes.
            unsafe { self.pad(at, self.from[at], have, pad_at, last) };
        }
        A::BLOCK
    }

    /// The last bytes of the block that ends a message of so many bits.
    #[inline(always)]
    fn last(bits: u64) -> u64 {
        match (A::LENGTH, A::BIG_ENDIAN) {
            // The last bit of a sponge's padding.
            (0, _) => (1u64 << 63).to_le(),
            (_, true) => bits.to_be(),
            (_, false) => bits.to_le(),
        }
    }

    /// Puts together a lane's block: `have` bytes, the byte behind a message, and what is set of the last eight.
    ///
    /// # Safety
    /// The bytes may be read.
    #[inline(always)]
    unsafe fn pad(&mut self, lane: usize, from: *const u8, have: usize, pad_at: usize, last: u64) {
        let to = self.padded[lane].as_mut_ptr().cast::<u8>();
        for chunk in 0..A::BLOCK.div_ceil(Self::BYTES) {
            let at = chunk * Self::BYTES;
            let here = have.saturating_sub(at).min(Self::BYTES);
            // SAFETY: the caller's promise; there is room for whole vectors.
            unsafe {
                let row = A::W::<I>::load_partial(self.isa, from.wrapping_add(at), here);
                row.with_byte(pad_at.wrapping_sub(at), self.form.variant.pad).store(to.add(at));
            }
        }
        // SAFETY: the block's last bytes, which have been written.
        unsafe {
            let to = to.add(A::BLOCK - 8).cast::<u64>();
            to.write_unaligned(to.read_unaligned() | last);
        }
    }

    /// Hands out the digests of lanes whose messages have ended, or has them wait for their outer block.
    #[inline(always)]
    fn end(&mut self, source: &mut Source<'_, '_>) {
        let mut digests = [MaybeUninit::uninit(); LANES_MAX];
        Self::digests(&self.state, &mut digests);
        self.active &= !self.ended;
        let mut left = core::mem::take(&mut self.ended);
        while left != 0 {
            let at = left.trailing_zeros() as usize % LANES_MAX;
            left &= left - 1;
            let Lane { midstates, name, .. } = core::mem::replace(&mut self.lanes[at], Lane::IDLE);
            (self.from[at], self.strides[at]) = (NOTHING.as_ptr(), 0);
            // SAFETY: every lane's digest has been written.
            let digest = unsafe { digests[at].assume_init_ref() };
            if self.form.hmac {
                self.inner[self.waiting % (2 * LANES_MAX)].write(Inner { digest: *digest, midstates, name });
                self.waiting += 1;
            } else {
                source.deliver(name, digest);
            }
        }
    }

    /// Each lane's digest.
    #[inline(always)]
    fn digests(state: &State<A::W<I>>, digests: &mut [MaybeUninit<Digest>; LANES_MAX]) {
        let chunks = A::DIGEST.div_ceil(Self::LEN);
        if chunks * Self::BYTES < DIGEST_MAX {
            for digest in &mut digests[..Self::LEN] {
                digest.write([0; DIGEST_MAX]);
            }
        }
        for chunk in 0..chunks {
            let mut rows = [state[0]; LANES_MAX];
            for word in 0..Self::LEN.min(A::DIGEST - chunk * Self::LEN) {
                let own = state[chunk * Self::LEN + word];
                rows[word] = if A::BIG_ENDIAN { own.swap_bytes() } else { own };
            }
            A::W::<I>::transpose(&mut rows);
            for lane in 0..Self::LEN {
                let to = digests[lane].as_mut_ptr().cast::<u8>();
                // SAFETY: the chunks of the longest digest end where its room does.
                unsafe { rows[lane].store(to.add(chunk * Self::BYTES)) };
            }
        }
    }

    /// Puts together the outer blocks (RFC 2104, 2) of the last inner digests that wait, as many as lanes; `state` becomes
    /// what they start from.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn outer_block(&mut self, state: &mut State<A::W<I>>) -> usize {
        let mut from = [NOTHING.as_ptr(); LANES_MAX];
        let first = self.waiting.saturating_sub(Self::LEN);
        let len = A::WORD * self.form.variant.words;
        let last = Self::last(8 * (A::BLOCK + len) as u64);
        for at in 0..Self::LEN {
            // Lanes without one repeat the first.
            let inner = self.inner[if first + at < self.waiting { first + at } else { first }].as_ptr();
            // SAFETY: as many as wait have been written, and one does.
            unsafe {
                from[at] = (*inner).midstates.wrapping_add(midstate_len::<A>());
                self.pad(at, (&raw const (*inner).digest).cast(), len, len, last);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.states_at(&from, state) };
        A::BLOCK
    }

    /// Finishes the few messages that are left.
    ///
    /// # Safety
    /// As in [`digest_all`].
    #[inline(always)]
    unsafe fn hand_over(&mut self, source: &mut Source<'_, '_>, few: Few) {
        #[cfg(target_arch = "x86_64")]
        if let (Some(sha), Some(_)) = (few.pairs, A::INSTRUCTIONS) {
            // SAFETY: the caller's promise.
            return unsafe { self.hand_over_to_pairs(sha, source, few.below) };
        }
        #[cfg(target_arch = "x86_64")]
        if let (Some(isa), Some(_)) = (few.alone, A::ALONE) {
            // SAFETY: the caller's promise.
            return unsafe { self.hand_over_alone(isa, source, few.below) };
        }
        let _ = few;
        while self.active != 0 {
            let at = self.active.trailing_zeros() as usize % LANES_MAX;
            self.active &= self.active - 1;
            let mut state = Lanes::<Scalar, A>::new(Scalar, self.form).state;
            for word in 0..A::STATE {
                let mut words = [0u8; 64];
                // SAFETY: the longest vector's bytes; a word of the lane. The lane's message is the caller's promise.
                unsafe {
                    self.state[word].store(words.as_mut_ptr());
                    state[word] = A::W::<Scalar>::load(Scalar, words.as_ptr().add(A::WORD * (at % Self::LEN)));
                }
            }
            let lane = core::mem::replace(&mut self.lanes[at], Lane::IDLE);
            // SAFETY: the caller's promise.
            unsafe { finish::<A>(&lane, self.from[at], &state, self.form, source) };
            (self.from[at], self.strides[at]) = (NOTHING.as_ptr(), 0);
        }
    }

    /// Forgets chaining values and inner digests.
    #[inline(always)]
    fn wipe(&mut self) {
        // SAFETY: zero is what any vector may be, and any number or place.
        unsafe {
            core::ptr::write_bytes(self.state.as_mut_ptr(), 0, A::STATE);
            if self.form.hmac {
                core::ptr::write_bytes(self.inner.as_mut_ptr(), 0, 2 * Self::LEN);
                for padded in &mut self.padded[..Self::LEN] {
                    core::ptr::write_bytes(padded.as_mut_ptr(), 0, 1);
                }
            }
        }
        core::hint::black_box((&raw mut self.state, &raw mut self.inner, &raw mut self.padded));
    }
}
