//! The client's side of a channel.

use core::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ciphermill_memory::{MemoryError, Region};
use ciphermill_shifts::bell;
use rustix::thread::futex;

use crate::layout::{DATA_AT, SLOTS, Words};
use crate::request::{Outcome, Request};
use crate::spin::Spin;

/// A channel as a client has it, for one thread at a time.
pub struct Port {
    region: Region,
    bell: OwnedFd,
    submitted: u64,
}

/// Why a request has no outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The caller's patience has ended.
    GivenUp,
}

/// How long a client sleeps before it asks whether the service is still there.
const SLICE: Duration = Duration::from_millis(50);

/// From this time on a client that looks lets others have its core in between.
const YIELDS_FROM: Duration = Duration::from_micros(5);

/// How often a spinning client looks before it reads the clock.
const LOOKS: u32 = 32;

impl Port {
    /// A channel from the descriptors that the service has passed.
    ///
    /// # Errors
    /// What mapping the memory says; [`MemoryError::NotJoinable`] for memory that is too small for a channel.
    pub fn new(memory: OwnedFd, bell: OwnedFd) -> Result<Port, MemoryError> {
        let region = Region::join(memory)?;
        if region.len() <= DATA_AT {
            return Err(MemoryError::NotJoinable { rule: "it is smaller than a channel" });
        }
        Ok(Port { region, bell, submitted: 0 })
    }

    /// The memory, in which data begin at [`DATA_AT`].
    pub fn memory(&self) -> &Region {
        &self.region
    }

    /// Hands a request over, and rings if the service sleeps. Returns its number; `None` while all slots are in use.
    pub fn submit(&mut self, request: Request) -> Option<u32> {
        let words = words(&self.region);
        let number = self.submitted as u32;
        // The slot is free when what was in it before is completed; numbers differ by the slots.
        let before = words.completion(number)[0].load(Ordering::Acquire);
        if self.submitted >= u64::from(SLOTS) && before != number.wrapping_sub(SLOTS).wrapping_add(1) {
            return None;
        }
        for (word, value) in words.request(number).iter().zip(request.to_words()) {
            word.store(value, Ordering::Relaxed);
        }
        self.submitted += 1;
        // Release: the request and its data are there.
        words.submitted().store(self.submitted as u32, Ordering::Release);
        if bell::must_wake(words.service_asleep()) {
            // Fails only when the counter is full, which means that the bell has rung.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
        Some(number)
    }

    /// What became of a request, if it is done.
    #[inline]
    pub fn outcome(&self, number: u32) -> Option<Outcome> {
        let slot = words(&self.region).completion(number);
        // Acquire: the outcome and the results are there.
        (slot[0].load(Ordering::Acquire) == number.wrapping_add(1))
            .then(|| Outcome::from_words([slot[1].load(Ordering::Relaxed), slot[2].load(Ordering::Relaxed)]))
    }

    /// Whether so many clients asked when the service answered last that looking takes a core from somebody.
    pub fn is_crowded(&self) -> bool {
        words(&self.region).crowded().load(Ordering::Relaxed) != 0
    }

    /// Waits for a request: looks for it as long as `look` at most, of which `spin` takes its share, then sleeps. Now and then, while it sleeps, `goes_on` is asked whether to.
    ///
    /// # Errors
    /// [`WaitError::GivenUp`] when it says no. The request may still be worked on: its memory must not be used again.
    pub fn wait(
        &self,
        number: u32,
        (spin, look): (&mut Spin, Duration),
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Outcome, WaitError> {
        let time = spin.time(look);
        if let Some(outcome) = self.spin(number, time) {
            if !time.is_zero() {
                spin.paid();
            }
            return Ok(outcome);
        }
        if !time.is_zero() {
            spin.did_not_pay();
        }
        let word = words(&self.region).client_asleep();
        loop {
            if bell::may_sleep(word, || self.outcome(number).is_some()) {
                let slice = futex::Timespec { tv_sec: 0, tv_nsec: SLICE.subsec_nanos().into() };
                // Woken, interrupted, late, or the word has changed: what counts is whether the outcome is there.
                let _ = futex::wait(word, futex::Flags::empty(), bell::ASLEEP, Some(&slice));
                bell::woken(word);
            }
            if let Some(outcome) = self.outcome(number) {
                return Ok(outcome);
            }
            if !goes_on() {
                return Err(WaitError::GivenUp);
            }
        }
    }

    fn spin(&self, number: u32, spin: Duration) -> Option<Outcome> {
        let begun = Instant::now();
        loop {
            for _ in 0..LOOKS {
                if let Some(outcome) = self.outcome(number) {
                    return Some(outcome);
                }
                core::hint::spin_loop();
            }
            let looked = begun.elapsed();
            if looked >= spin {
                return None;
            }
            if looked >= YIELDS_FROM {
                // Whoever else wants this core may be the one that answers.
                std::thread::yield_now();
            }
        }
    }
}

fn words(region: &Region) -> Words<'_> {
    // `new` has seen that there is more than a page.
    Words::of(region).unwrap_or_else(|| unreachable!("a port has a page of words"))
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("submitted", &self.submitted).finish_non_exhaustive()
    }
}
