//! Messages on their way into the modes without authentication: from a batch, or from another family's own list.
//!
//! Kernels take them one by one and read each operation's cache line once. Nothing can fail from there on, so an
//! operation counts as done as soon as it has been taken.

use core::arch::x86_64::*;

use ciphermill_contract::Suite;
use ciphermill_contract::suite::BlockCipher;

use super::schedule::AesKey;
use crate::work::{Records, Taken, Work};

/// One message: its key, its IV or counter block, its places.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// The key; it outlives the run.
    pub(crate) key: *const AesKey,
    /// IV or first counter block.
    pub(crate) iv: __m128i,
    /// First byte of the input.
    pub(crate) input: *const u8,
    /// First byte of the output: the input's place or apart from it.
    pub(crate) output: *mut u8,
    /// Bytes.
    pub(crate) len: usize,
}

impl Message {
    /// The key.
    ///
    /// # Safety
    /// The list that the message came from is still borrowed.
    #[inline(always)]
    pub(crate) unsafe fn key<'k>(&self) -> &'k AesKey {
        // SAFETY: made from a reference that the list borrows.
        unsafe { &*self.key }
    }

    /// What is left behind the first `len` bytes, with another IV.
    #[inline(always)]
    pub(crate) fn behind(&self, len: usize, iv: __m128i) -> Message {
        Message {
            iv,
            input: self.input.wrapping_add(len),
            output: self.output.wrapping_add(len),
            len: self.len.wrapping_sub(len),
            ..*self
        }
    }
}

/// A list of messages.
///
/// # Safety
/// As long as the list is borrowed, each message's key may be read, `len` bytes may be read at its input and written at
/// its output, which is the same place or apart; nothing that one message writes is read or written by another.
pub(crate) unsafe trait Messages {
    /// The next one.
    fn next(&mut self) -> Option<Message>;
    /// Whether there is one at most.
    fn is_alone(&self) -> bool;
}

/// A list whose first messages may be of one length. What a message promises is what [`Messages`] does.
pub(crate) trait Alike {
    /// Bytes of the next one, where others may follow.
    fn next_len(&self) -> Option<usize>;
    /// Messages of so many bytes from the next one on, until one is not.
    fn alike(&mut self, len: usize) -> impl Iterator<Item = Message>;
}

/// Where messages under keys that are an [`AesKey`] each come from. One type, so that kernels are built once.
pub(crate) enum Source<'w, 'a> {
    /// The pending operations of a batch.
    Batch(FromWork<'w, 'a>),
    /// The rest of a list that another family has made.
    List(&'w [Lane<'a>]),
}

/// The pending operations of a batch.
pub(crate) struct FromWork<'w, 'a> {
    work: &'w mut Work<'a>,
    next: usize,
}

/// One message of a list that another family has made (a chain's cipher step).
pub(crate) struct Lane<'k> {
    /// The key; all of one list are of one size.
    pub(crate) key: &'k AesKey,
    /// The IV or first counter block.
    pub(crate) iv: [u8; 16],
    /// First byte of the input.
    pub(crate) input: *const u8,
    /// First byte of the output.
    pub(crate) output: *mut u8,
    /// Bytes; whole blocks of 16 but for CTR.
    pub(crate) len: usize,
}

impl<'w, 'a> Source<'w, 'a> {
    /// Calls `run` with all operations of a batch and the number of rounds of their keys (FIPS 197, 5); not for other
    /// suites than AES in a mode without authentication.
    pub(crate) fn batch(work: &'w mut Work<'a>, run: impl FnOnce(usize, &mut Source<'_, 'a>)) {
        let Suite::Cipher(BlockCipher::Aes(size), _) = work.suite() else { return };
        let rounds = size.key_len() / 4 + 6;
        run(rounds, &mut Source::Batch(FromWork { work, next: 0 }));
    }

    /// All messages of a list, and the number of rounds of their keys. `None` when there are none.
    ///
    /// # Safety
    /// What [`Messages`] promises.
    pub(crate) unsafe fn list(lanes: &'w [Lane<'a>]) -> Option<(usize, Source<'w, 'a>)> {
        let rounds = lanes.first()?.key.encrypt.rounds();
        assert!(lanes.iter().all(|lane| lane.key.encrypt.rounds() == rounds), "keys of one size");
        Some((rounds, Source::List(lanes)))
    }

    /// Runs the messages that are of one length at the beginning by one way, if there may be any, and what remains by the other. A
    /// call of a kernel that has nothing to do costs a third of what a message alone does.
    #[inline(always)]
    pub(crate) fn by(&mut self, alike: impl FnOnce(&mut Self), all: impl FnOnce(&mut Self)) {
        if self.next_len().is_some() {
            alike(self);
        }
        if self.len() != 0 {
            all(self);
        }
    }

    /// No fewer than those that remain.
    pub(crate) fn len(&self) -> usize {
        match self {
            Source::Batch(batch) => batch.work.len() - batch.next,
            Source::List(lanes) => lanes.len(),
        }
    }

    /// The next message, and how many bytes of its IV are given.
    #[inline(always)]
    pub(crate) fn next_with_iv_len(&mut self) -> Option<(Message, usize)> {
        match self {
            Source::Batch(batch) => {
                let FromWork { work, next } = batch;
                let Taken { key, iv, iv_len, input, output, len } =
                    work.take_done::<_, true>(next, |keys, index| keys.state::<AesKey>(index))?;
                // SAFETY: sixteen bytes; SSE2 is part of x86-64.
                let iv = unsafe { _mm_loadu_si128(iv.as_ptr().cast()) };
                Some((Message { key, iv, input, output, len }, iv_len))
            }
            Source::List(lanes) => {
                let (lane, rest) = lanes.split_first()?;
                *lanes = rest;
                // SAFETY: sixteen bytes may be read; SSE2 is part of x86-64.
                let iv = unsafe { _mm_loadu_si128(lane.iv.as_ptr().cast()) };
                let message = Message { key: lane.key, iv, input: lane.input, output: lane.output, len: lane.len };
                Some((message, lane.iv.len()))
            }
        }
    }

    /// Messages of so many bytes that follow each other.
    #[inline(always)]
    pub(crate) fn alike_with_iv_len(&mut self, len: usize) -> AlikeMessages<'_, 'a> {
        AlikeMessages(match self {
            Source::Batch(FromWork { work, next }) => Some(work.records(next, len)),
            // A list's messages are taken quickly anyway.
            Source::List(_) => None,
        })
    }
}

/// Messages of one length.
pub(crate) struct AlikeMessages<'w, 'a>(Option<Records<'w, 'a, AesKey>>);

impl AlikeMessages<'_, '_> {
    /// The next one, which stays the next one, and how many bytes of its IV are given.
    #[inline(always)]
    pub(crate) fn peek(&mut self) -> Option<(Message, usize)> {
        let Taken { key, iv, iv_len, input, output, len } = self.0.as_mut()?.peek()?;
        // SAFETY: sixteen bytes; SSE2 is part of x86-64.
        let iv = unsafe { _mm_loadu_si128(iv.as_ptr().cast()) };
        Some((Message { key, iv, input, output, len }, iv_len))
    }

    /// Counts the one that was last looked at as done.
    #[inline(always)]
    pub(crate) fn done(&mut self) {
        if let Some(messages) = &mut self.0 {
            messages.done();
        }
    }
}

impl Iterator for AlikeMessages<'_, '_> {
    type Item = Message;

    #[inline(always)]
    fn next(&mut self) -> Option<Message> {
        let (message, _) = self.peek()?;
        self.done();
        Some(message)
    }
}

// SAFETY: the batch's check promises just that, keys are borrowed with the batch; or the caller of `list` does.
unsafe impl Messages for Source<'_, '_> {
    #[inline(always)]
    fn next(&mut self) -> Option<Message> {
        self.next_with_iv_len().map(|(message, _)| message)
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        self.len() <= 1
    }
}

impl Alike for Source<'_, '_> {
    #[inline(always)]
    fn next_len(&self) -> Option<usize> {
        match self {
            Source::Batch(FromWork { work, next }) => work.next_len(*next),
            Source::List(_) => None,
        }
    }

    #[inline(always)]
    fn alike(&mut self, len: usize) -> impl Iterator<Item = Message> {
        self.alike_with_iv_len(len)
    }
}
