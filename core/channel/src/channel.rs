//! The service's side of a channel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use ciphermill_memory::{MemoryError, Region};
use ciphermill_shifts::bell;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;

use crate::layout::{DATA_AT, DATA_LEN_MAX, DATA_LEN_MIN, REQUEST_WORDS, SLOTS, Words};
use crate::request::{Outcome, Request};
use crate::{Corrupt, Port};

/// A channel as the service has it. All methods may be called by any thread at any time; who takes requests holds a [`Position`].
pub struct Channel {
    region: Region,
    bell: OwnedFd,
}

/// How far requests were taken. Kept apart from shared memory, so that no client can move it.
#[derive(Debug, Default)]
pub struct Position(u32);

/// A request that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its number, by which it is completed.
    pub number: u32,
    /// A copy of it, checked.
    pub request: Request,
}

impl Channel {
    /// Makes a channel with `data_len` bytes for operations and data, at least [`DATA_LEN_MIN`] and at most [`DATA_LEN_MAX`] of them.
    ///
    /// # Errors
    /// What making memory and a descriptor says.
    pub fn create(data_len: usize) -> Result<Channel, MemoryError> {
        let data_len = data_len.clamp(DATA_LEN_MIN, DATA_LEN_MAX);
        let region = Region::create("ciphermill-channel", DATA_AT + data_len)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| MemoryError::Os { call: "eventfd", errno: error.raw_os_error() })?;
        Ok(Channel { region, bell })
    }

    /// The descriptors that the client gets: memory, and the bell.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.region.file(), self.bell.as_fd()]
    }

    /// The bell, to be waited for by its edges. Never read it: the client may have made reading block, by flags that both descriptors
    /// share.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The memory, for operations and data of requests that were taken.
    pub fn memory(&self) -> &Region {
        &self.region
    }

    /// Takes the next request, if there is one.
    ///
    /// # Errors
    /// [`Corrupt`] when the client's counter or the request is none that a client of ours writes. The channel is of no use then.
    #[inline]
    pub fn take(&self, position: &mut Position) -> Result<Option<Taken>, Corrupt> {
        let words = self.words();
        // Acquire: the request and its data are there.
        let waiting = words.submitted().load(Ordering::Acquire).wrapping_sub(position.0);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > SLOTS {
            return Err(Corrupt { place: "the channel's counter", rule: "must not be ahead by more than its slots" });
        }
        let number = position.0;
        let slot = words.request(number);
        let mut copy = [0; REQUEST_WORDS];
        for (copy, word) in copy.iter_mut().zip(slot) {
            *copy = word.load(Ordering::Relaxed);
        }
        let request = Request::from_words(copy, self.region.len())?;
        position.0 = number.wrapping_add(1);
        Ok(Some(Taken { number, request }))
    }

    /// Whether there is a request behind `position`.
    #[inline]
    pub fn has_more(&self, position: &Position) -> bool {
        self.words().submitted().load(Ordering::Acquire) != position.0
    }

    /// Tells the client what became of a request. Its results are in its memory by now. The client is woken if it sleeps.
    pub fn complete(&self, number: u32, outcome: Outcome) {
        let words = self.words();
        let slot = words.completion(number);
        let [what, op] = outcome.to_words();
        slot[1].store(what, Ordering::Relaxed);
        slot[2].store(op, Ordering::Relaxed);
        // Release: whoever sees the number sees what is above, and the results.
        slot[0].store(number.wrapping_add(1), Ordering::Release);
        if bell::must_wake(words.client_asleep()) {
            // It is the client's own memory: a call that fails there is the client's loss.
            let _ = futex::wake(words.client_asleep(), futex::Flags::empty(), 1);
        }
    }

    /// Tells the client whether as many ask as there are cores: looking for an answer would take one from somebody then.
    pub fn set_crowded(&self, crowded: bool) {
        let word = self.words().crowded();
        // Written when it changes alone, so that the line stays where it is.
        if word.load(Ordering::Relaxed) != u32::from(crowded) {
            word.store(crowded.into(), Ordering::Relaxed);
        }
    }

    /// Says that from now on the bell has to be rung for a request. False if there is one behind `position`: it need not be rung then.
    pub fn may_sleep(&self, position: &Position) -> bool {
        bell::may_sleep(self.words().service_asleep(), || self.has_more(position))
    }

    /// Says that the bell need not be rung.
    pub fn woken(&self) {
        bell::woken(self.words().service_asleep());
    }

    fn words(&self) -> Words<'_> {
        // A channel's region is made with the page that these words fill.
        Words::of(&self.region).unwrap_or_else(|| unreachable!("a channel begins with a page of words"))
    }

    /// The client's side of a channel within one process, for tests.
    ///
    /// # Errors
    /// What duplicating descriptors says.
    pub fn port(&self) -> std::io::Result<Port> {
        let [memory, bell] = self.descriptors();
        Port::new(memory.try_clone_to_owned()?, bell.try_clone_to_owned()?).map_err(std::io::Error::other)
    }
}
