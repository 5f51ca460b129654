//! Modes over whole blocks: CBC decryption, ECB, XTS. Of a long part the blocks in the middle are one operation of the mill.
//!
//! All that there is of a message between two parts lies in the context of `default`: the chained block, and bytes that wait for the
//! rest of their block or, since they may be padding, for what comes next. So that it is there at any time, `default` is given both
//! ends of a part, and before the second one the last block of the middle: that is the one that it goes on from. What it makes of
//! that block nobody gets.
//!
//! A part of XTS is a data unit of its own, under the IV that was given last.

use std::{ptr, slice};

use ciphermill_contract::limits::XTS_LEN_MAX;
use ciphermill_contract::suite::Mode;
use ciphermill_contract::{Direction, Suite};
use zeroize::Zeroizing;

use super::inner::{Begin, InnerCipher, Text};
use super::own::{Asked, Measured, Operations, OwnKey, is_worth};
use crate::counts;
use crate::params::Params;

const BLOCK: usize = 16;

/// Bytes in an operation: where buffers are apart, they are copied before, and lie in the nearest caches then.
const OPERATION_LEN_MAX: usize = 32 * 1024;

/// Bytes of a part's second end, at most: the block before it, a whole block, and less than another.
const END_LEN_MAX: usize = 3 * BLOCK - 1;

/// Which mode it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockMode {
    Cbc,
    Ecb,
    Xts,
}

impl BlockMode {
    /// The mode of a suite that is done so.
    pub(super) fn of(suite: Suite) -> Option<BlockMode> {
        match suite {
            Suite::Cipher(_, Mode::Cbc) => Some(BlockMode::Cbc),
            Suite::Cipher(_, Mode::Ecb) => Some(BlockMode::Ecb),
            Suite::Cipher(_, Mode::Xts) => Some(BlockMode::Xts),
            _ => None,
        }
    }
}

/// A message, and operations in the mill under its key.
pub(super) struct Block {
    mode: BlockMode,
    direction: Direction,
    /// The direction that the key was given for: `default` has schedules for that one only.
    key_direction: Option<Direction>,
    /// Bytes that `default` holds back; `None` while only `default` knows.
    held: Option<usize>,
    /// The IV that was given last.
    iv: Option<[u8; BLOCK]>,
    /// Whether `default` was told something of TLS, which makes another cipher of it.
    is_special: bool,
    own: Option<Operations>,
}

impl Clone for Block {
    fn clone(&self) -> Block {
        // Operations are opened anew when the copy needs some.
        Block { own: None, ..*self }
    }
}

/// Where the middle of a part lies.
#[derive(Clone, Copy)]
struct Middle {
    /// Bytes before it.
    before: usize,
    len: usize,
}

impl Middle {
    /// The middle of a part of `len` bytes behind `held` ones: what completes a block and one more come before it, a whole block and
    /// more behind it. `None` where nothing is left.
    fn of(len: usize, held: usize) -> Option<Middle> {
        let before = (BLOCK - held % BLOCK) % BLOCK + BLOCK;
        let blocks = len.checked_sub(before)? / BLOCK;
        (blocks > 1).then(|| Middle { before, len: (blocks - 1) * BLOCK })
    }

    /// Bytes before its end.
    fn end(self) -> usize {
        self.before + self.len
    }
}

impl Block {
    pub(super) fn new(mode: BlockMode) -> Block {
        Block {
            mode,
            direction: Direction::Encrypt,
            key_direction: None,
            held: None,
            iv: None,
            is_special: false,
            own: None,
        }
    }

    /// Notes what `default` was given to begin with.
    pub(super) fn begin(&mut self, direction: Direction, begin: &Begin<'_>, told: &Params, done: bool) {
        self.direction = direction;
        if begin.key.is_some() || !done {
            self.key_direction = done.then_some(direction);
        }
        if begin.iv.is_some() || !done {
            self.iv = begin.iv.filter(|_| done).and_then(|iv| iv.try_into().ok());
        }
        self.held = done.then_some(0);
        self.told(told);
    }

    /// Notes what `default` was told.
    pub(super) fn told(&mut self, told: &Params) {
        let usual = [c"padding", c"num", c"keylen", c"use-bits"];
        self.is_special |= told.keys().any(|key| !usual.contains(&key));
    }

    /// Lets go of operations under a key that has been replaced.
    pub(super) fn forget_key(&mut self) {
        if let Some(own) = self.own.take() {
            own.let_go();
        }
    }

    /// The next bytes; how many came out.
    ///
    /// # Safety
    /// What the core promises of its buffers.
    pub(super) unsafe fn update(
        &mut self,
        inner: &InnerCipher,
        key: &mut Option<OwnKey>,
        text: Text,
        room: usize,
    ) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.suits(text, room) && self.is_worth(inner, key, text.len) && self.go_over(key).is_some() {
                counts::count_message();
                self.through(inner, text, room)
            } else {
                self.by_default(inner, text, room)
            }
        }
    }

    /// Whether the mill can do a part: its middle has one place, or two that are apart.
    fn suits(&self, text: Text, room: usize) -> bool {
        if self.is_special || self.key_direction != Some(self.direction) || text.input.is_null() || text.out.is_null() {
            return false;
        }
        let Some(held) = self.held else { return false };
        let (input, out) = (text.input as usize, text.out as usize);
        // As much may come out.
        let out_len = text.len + BLOCK;
        let are_apart = out >= input.saturating_add(text.len) || input >= out.saturating_add(out_len);
        match self.mode {
            BlockMode::Xts => {
                let is_unit = (BLOCK..=XTS_LEN_MAX).contains(&text.len);
                self.iv.is_some() && is_unit && room >= text.len && (input == out || are_apart)
            }
            BlockMode::Cbc if self.direction == Direction::Encrypt => false,
            BlockMode::Cbc | BlockMode::Ecb => {
                let has_middle = Middle::of(text.len, held).is_some();
                has_middle && room >= out_len && (are_apart || input == out && held == 0)
            }
        }
    }

    fn is_worth(&self, inner: &InnerCipher, key: &mut Option<OwnKey>, len: usize) -> bool {
        let asked = Asked { of: inner.of, direction: self.direction, len };
        is_worth::<Block>(asked, key, self.own.as_ref().is_some_and(|own| self.is_own(own)))
    }

    fn is_own(&self, own: &Operations) -> bool {
        own.are_here() && own.direction == self.direction
    }

    /// Has operations in the mill of this process.
    fn go_over(&mut self, key: &mut Option<OwnKey>) -> Option<()> {
        if !self.own.as_ref().is_some_and(|own| self.is_own(own)) {
            self.forget_key();
            self.own = Some(key.as_mut()?.operations(self.direction)?);
        }
        Some(())
    }

    /// A part that `default` does.
    ///
    /// # Safety
    /// The buffers hold what `text` says.
    unsafe fn by_default(&mut self, inner: &InnerCipher, text: Text, room: usize) -> Option<usize> {
        // SAFETY: the caller's promise.
        let written = unsafe { inner.update(text, room) };
        if self.mode != BlockMode::Xts {
            let both = self.held.zip(written);
            let held = both.and_then(|(held, written)| (held + text.len).checked_sub(written));
            self.held = held.filter(|held| *held <= BLOCK);
        }
        written
    }

    /// A part that suits, in the mill.
    ///
    /// # Safety
    /// As [`Block::by_default`].
    unsafe fn through(&mut self, inner: &InnerCipher, text: Text, room: usize) -> Option<usize> {
        // SAFETY: the caller's promise.
        unsafe {
            match self.mode {
                BlockMode::Xts => self.unit(inner, text, room),
                BlockMode::Cbc | BlockMode::Ecb => self.blocks(inner, text, room),
            }
        }
    }

    /// A data unit.
    ///
    /// # Safety
    /// As [`Block::by_default`].
    unsafe fn unit(&mut self, inner: &InnerCipher, text: Text, room: usize) -> Option<usize> {
        let iv = self.iv?;
        // SAFETY: the caller's promise; where the mill fails and the input lies apart, it is as it was.
        unsafe {
            if self.run(iv, text).is_some() {
                Some(text.len)
            } else if ptr::eq(text.input, text.out) {
                None
            } else {
                inner.update(text, room)
            }
        }
    }

    /// A part of whose blocks the mill has the middle.
    ///
    /// # Safety
    /// As [`Block::by_default`].
    unsafe fn blocks(&mut self, inner: &InnerCipher, text: Text, room: usize) -> Option<usize> {
        // Unknown until it has ended well.
        let held = self.held.take()?;
        let middle = Middle::of(text.len, held)?;
        let (mut chained, mut end) = ([0; BLOCK], Zeroizing::new([0; END_LEN_MAX]));
        let end = &mut end[..text.len - middle.end() + BLOCK];
        // SAFETY: parts of the input: a block before the middle, and one in it.
        unsafe {
            // Kept, since the output may come to lie there.
            ptr::copy_nonoverlapping(text.input.add(middle.before - BLOCK), chained.as_mut_ptr(), BLOCK);
            ptr::copy_nonoverlapping(text.input.add(middle.end() - BLOCK), end.as_mut_ptr(), end.len());
        }
        // SAFETY: the input's beginning, of which no more comes out than was held and goes in.
        let first = unsafe { inner.update(Text { len: middle.before, ..text }, room) }?;
        // A block, or none, that comes out with the next.
        let waiting = (held + middle.before).checked_sub(first).filter(|waiting| [0, BLOCK].contains(waiting))?;
        // SAFETY: the middle, and room for it: what was held and lay before it comes out before it.
        let place = unsafe { text.out.add(first + waiting) };
        // SAFETY: as above; in place both are the same, since nothing was held.
        let done = unsafe {
            let input = text.input.add(middle.before);
            self.run(chained, Text { out: place, input, len: middle.len })
        };
        if done.is_none() {
            if ptr::eq(text.input, text.out) {
                return None;
            }
            // SAFETY: the rest of the input, which is as it was, and of the room.
            unsafe {
                let (out, input) = (text.out.add(first), text.input.add(middle.before));
                let rest = Text { out, input, len: text.len - middle.before };
                self.held = Some(waiting);
                return self.by_default(inner, rest, room - first).map(|written| first + written);
            }
        }
        let mut last = Zeroizing::new([0; END_LEN_MAX + BLOCK]);
        let text = Text { out: last.as_mut_ptr(), input: end.as_ptr(), len: end.len() };
        // SAFETY: buffers of our own.
        let written = unsafe { inner.update(text, last.len()) }?;
        let behind = last.get(waiting + BLOCK..written)?;
        // SAFETY: the room before the middle and behind it, with which no more comes out than was held and went in.
        unsafe {
            place.sub(waiting).copy_from_nonoverlapping(last.as_ptr(), waiting);
            place.add(middle.len).copy_from_nonoverlapping(behind.as_ptr(), behind.len());
        }
        self.held = (waiting + end.len()).checked_sub(written);
        Some(first + waiting + middle.len + behind.len())
    }

    /// Operations over whole blocks or a data unit. After `None` what lay in place is lost.
    ///
    /// # Safety
    /// The buffers hold what `text` says, and are the same or apart.
    unsafe fn run(&mut self, mut iv: [u8; BLOCK], text: Text) -> Option<()> {
        let own = self.own.as_mut()?;
        let is_unit = self.mode == BlockMode::Xts;
        let step = if is_unit { text.len } else { OPERATION_LEN_MAX };
        let mut at = 0;
        while at < text.len {
            let len = step.min(text.len - at);
            // SAFETY: as many bytes of both buffers are left; a slice of the output is the only one.
            let data = unsafe {
                let (out, input) = (text.out.add(at), text.input.add(at));
                if !ptr::eq(out, input) {
                    out.copy_from_nonoverlapping(input, len);
                }
                slice::from_raw_parts_mut(out, len)
            };
            let next = *data.last_chunk()?;
            own.run(&iv, data)?;
            iv = next;
            at += len;
        }
        Some(())
    }

    /// Notes that a message has ended.
    pub(super) fn finished(&mut self, done: bool) {
        // What is left of a message that did not end well is known to `default` alone.
        self.held = done.then_some(0);
    }
}

impl Measured for Block {
    fn open(key: &mut OwnKey, direction: Direction) -> Option<Block> {
        let mode = BlockMode::of(key.suite())?;
        let own = Some(key.operations(direction)?);
        Some(Block { direction, key_direction: Some(direction), own, ..Block::new(mode) })
    }

    fn run(&mut self, inner: &InnerCipher, iv: &[u8], data: &mut [u8]) -> Option<()> {
        (self.held, self.iv) = (Some(0), iv.try_into().ok());
        let text = Text { out: data.as_mut_ptr(), input: data.as_ptr(), len: data.len() };
        // SAFETY: a buffer of our own; no more comes out than goes in.
        unsafe { self.through(inner, text, data.len()) }.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::inner::{CIPHERS, suite};

    const LEN: usize = 100_000;

    /// A cipher as both begin it to decrypt, without padding.
    fn begun(of: usize) -> (InnerCipher, Block, Option<OwnKey>) {
        let (key, iv): (Vec<u8>, _) = ((1..=64).take(suite(of).key_len().max).collect(), [9; BLOCK]);
        let inner = InnerCipher::new(of).expect("a cipher");
        let iv = (suite(of).default_iv_len() > 0).then_some(&iv[..]);
        let begin = Begin { encrypt: false, key: Some(&key), iv };
        let mut block = Block::new(BlockMode::of(suite(of)).expect("a mode over blocks"));
        // SAFETY: no parameters.
        let (done, told) = unsafe { (inner.begin(&begin, ptr::null()), Params::new(ptr::null())) };
        block.begin(Direction::Decrypt, &begin, &told, done);
        (inner, block, OwnKey::new(suite(of), &key))
    }

    #[test]
    fn what_the_mill_fails_is_done_by_default_unless_it_lay_in_place() {
        for (of, (name, suite)) in CIPHERS.into_iter().enumerate() {
            if BlockMode::of(suite).is_none() {
                continue;
            }
            let input: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8).collect();
            let mut outputs = [(); 3].map(|()| vec![0; LEN + BLOCK]);
            let mut lens = [0; 3];
            for (way, (output, len)) in outputs.iter_mut().zip(&mut lens).enumerate() {
                let (inner, mut block, mut key) = begun(of);
                // Bytes that are held back when the next part comes.
                for part in [&input[..23], &input[23..LEN - 40], &input[LEN - 40..]] {
                    let text = Text { out: output[*len..].as_mut_ptr(), input: part.as_ptr(), len: part.len() };
                    let room = output.len() - *len;
                    // SAFETY: buffers of this test, which are apart.
                    let written = unsafe {
                        if way == 0 || !block.suits(text, room) {
                            block.by_default(&inner, text, room)
                        } else {
                            block.go_over(&mut key).expect("operations");
                            if way == 2 {
                                block.own.as_ref().expect("operations").spoil();
                            }
                            block.through(&inner, text, room)
                        }
                    };
                    *len += written.expect("done");
                }
            }
            assert_eq!((&outputs[1], lens[1]), (&outputs[0], lens[0]), "{name:?} in the mill");
            assert_eq!((&outputs[2], lens[2]), (&outputs[0], lens[0]), "{name:?} left to default");
            let (inner, mut block, mut key) = begun(of);
            block.go_over(&mut key).expect("operations");
            block.own.as_ref().expect("operations").spoil();
            let mut data = input;
            let text = Text { out: data.as_mut_ptr(), input: data.as_ptr(), len: LEN - BLOCK };
            // SAFETY: a buffer of this test.
            assert_eq!(unsafe { block.through(&inner, text, LEN) }, None, "{name:?} in place");
        }
    }
}
