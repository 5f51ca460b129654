//! Counter mode: how far a message has come is a number, so that it can go over to the mill at any byte. From then on it stays.

use ciphermill_contract::{Direction, Piece};

use super::inner::{Begin, InnerCipher, Text};
use super::own::{Asked, Messages, OwnKey, is_worth, let_go};
use crate::ffi::Param;
use crate::params::{Params, answer_kept_octets, answer_number, key_of};

const BLOCK: usize = 16;

/// A message, and those in the mill under the same key.
#[derive(Default)]
pub(super) struct Ctr {
    /// The counter block that the message began with; `None` while only `default` knows it.
    first: Option<[u8; BLOCK]>,
    /// Bytes since.
    done: u64,
    /// Whether the message is in the mill, where the next one can be begun too.
    is_own: bool,
    /// The counter block that was asked for last: some ask where it lies.
    shown: [u8; BLOCK],
    pub(super) own: Option<Messages>,
}

impl Clone for Ctr {
    fn clone(&self) -> Ctr {
        let own = self.own.as_ref().and_then(Messages::duplicate);
        // Without a copy in the mill it is begun there anew where it stands.
        Ctr { is_own: self.is_own, own, ..*self }
    }
}

impl Ctr {
    /// # Safety
    /// As [`InnerCipher::begin`].
    pub(super) unsafe fn begin(&mut self, inner: &InnerCipher, begin: &Begin<'_>, params: *const Param) -> bool {
        // `default` goes on from its own counter where no IV is given, and stopped counting when the message left it.
        let next = if self.is_own { self.next() } else { None };
        let iv = begin.iv.or(next.as_ref().map(|next| &next[..]));
        // SAFETY: the caller's promise.
        let done = unsafe { inner.begin(&Begin { iv, ..*begin }, params) };
        let first = match iv {
            Some(iv) => iv.try_into().ok(),
            None => self.next(),
        };
        // Parameters may say where in a block it goes on.
        self.first = first.filter(|_| done && params.is_null());
        (self.done, self.is_own) = (0, false);
        done
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
        let asked = Asked { of: inner.of, direction: Direction::Encrypt, len: text.len };
        if !self.is_own && self.first.is_some() && is_worth::<Messages>(asked, key, self.own.is_some()) {
            self.is_own = self.go_over(key).is_some();
        } else if self.is_own && !self.own.as_ref().is_some_and(Messages::are_here) {
            // Another process, or a copy: it is begun there once more.
            self.go_over(key)?;
        }
        if !self.is_own {
            // SAFETY: the caller's promise.
            let written = unsafe { inner.update(text, room) };
            self.done += written.unwrap_or(0) as u64;
            return written;
        }
        if room < text.len {
            return None;
        }
        let own = self.own.as_mut()?;
        // SAFETY: the caller's promise.
        unsafe { text.run(|piece| own.transform(piece)) }??;
        self.done += text.len as u64;
        Some(text.len)
    }

    /// Begins a message in the mill where this one stands.
    fn go_over(&mut self, key: &mut Option<OwnKey>) -> Option<()> {
        if !self.own.as_ref().is_some_and(Messages::are_here) {
            let_go(self.own.replace(key.as_mut()?.messages(Direction::Encrypt)?));
        }
        let own = self.own.as_mut()?;
        own.begin(&counter(self.first?, self.done / BLOCK as u64), &[])?;
        let mut before = [0; BLOCK];
        own.transform(Piece::in_place(&mut before[..(self.done % BLOCK as u64) as usize]))
    }

    /// The counter block that nothing was added to so far.
    fn next(&self) -> Option<[u8; BLOCK]> {
        Some(counter(self.first?, self.done.div_ceil(BLOCK as u64)))
    }

    /// Answers a question to which `default` does not know the answer any more.
    pub(super) fn get(&mut self, param: &mut Param) -> Option<bool> {
        if !self.is_own {
            return None;
        }
        match key_of(param).to_bytes() {
            b"updated-iv" => {
                self.shown = self.next()?;
                // SAFETY: in the context, as that of `default` is.
                Some(unsafe { answer_kept_octets(param, &self.shown) })
            }
            b"num" => Some(answer_number(param, self.done % BLOCK as u64)),
            _ => None,
        }
    }

    /// Whether parameters may be set: a message in the mill has no other place in its block than its own.
    pub(super) fn may_set(&mut self, told: &Params) -> bool {
        let moves = told.keys().any(|key| key == c"num");
        if moves && !self.is_own {
            self.first = None;
        }
        !(moves && self.is_own)
    }
}

/// A counter block so many blocks on, as one big-endian number.
fn counter(first: [u8; BLOCK], blocks: u64) -> [u8; BLOCK] {
    u128::from_be_bytes(first).wrapping_add(u128::from(blocks)).to_be_bytes()
}
