//! Where a session's batches come back to.

use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{Completed, Error, Result, Ticket};
use ciphermill_shifts::{Wakeup, lock};
use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};

/// Completed batches of one session, and who waits for them.
pub(super) struct Inbox {
    done: SegQueue<Completed>,
    wakeup: Wakeup,
    event: OnceLock<OwnedFd>,
    cancelled: Mutex<HashSet<Ticket>>,
    /// Tickets in `cancelled`, so that nobody locks for nothing.
    cancellations: AtomicUsize,
    /// The session is gone.
    is_abandoned: AtomicBool,
}

impl Inbox {
    pub(super) fn new() -> Inbox {
        Inbox {
            done: SegQueue::new(),
            wakeup: Wakeup::new(),
            event: OnceLock::new(),
            cancelled: Mutex::default(),
            cancellations: AtomicUsize::new(0),
            is_abandoned: AtomicBool::new(false),
        }
    }

    /// Takes a batch in and tells whoever waits.
    pub(super) fn deliver(&self, completed: Completed) {
        self.done.push(completed);
        self.wakeup.notify(|| self.ring());
    }

    fn ring(&self) {
        if let Some(event) = self.event.get() {
            // The counter cannot overflow: it is read before 2^64 batches are in flight.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// The next batch that has come back.
    pub(super) fn take(&self) -> Option<Completed> {
        self.done.pop()
    }

    /// Sleeps until a batch comes back, or for no reason.
    pub(super) fn sleep(&self) {
        self.wakeup.sleep(|| self.done.is_empty());
    }

    /// The event descriptor that becomes readable when batches come back.
    ///
    /// # Errors
    /// `EngineFault` with the system's error number when there is none to be had.
    pub(super) fn event(&self) -> Result<BorrowedFd<'_>> {
        if self.event.get().is_none() {
            let made = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)
                .map_err(|error| Error::fault("mill", FaultKind::Call(error.raw_os_error().into())))?;
            // Another thread cannot have been first: the session has one owner.
            let _ = self.event.set(made);
            // What came back before there was an event is rung for here.
            self.wakeup.event_made(|| self.done.is_empty(), || self.ring());
        }
        self.event.get().map(AsFd::as_fd).ok_or_else(|| Error::fault("mill", FaultKind::Unavailable))
    }

    /// Whether the session waits by its event descriptor.
    pub(super) fn has_event(&self) -> bool {
        self.wakeup.has_event()
    }

    /// Sets the event descriptor back.
    pub(super) fn clear_event(&self) {
        if let Some(event) = self.event.get() {
            // Nothing to read means that it is clear.
            let _ = rustix::io::read(event, &mut [0u8; 8]);
        }
    }

    /// Asks that a batch be not begun.
    pub(super) fn cancel(&self, ticket: Ticket) {
        if lock(&self.cancelled).insert(ticket) {
            self.cancellations.fetch_add(1, Ordering::Release);
        }
    }

    /// Whether a batch that is about to be begun was cancelled.
    pub(super) fn is_cancelled(&self, ticket: Ticket) -> bool {
        if self.is_abandoned.load(Ordering::Acquire) {
            return true;
        }
        if self.cancellations.load(Ordering::Acquire) == 0 || !lock(&self.cancelled).remove(&ticket) {
            return false;
        }
        self.cancellations.fetch_sub(1, Ordering::Release);
        true
    }

    /// Nobody takes batches out any more, so none need be begun.
    pub(super) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    /// Forgets cancellations that came too late; nothing is in flight.
    pub(super) fn forget_cancellations(&self) {
        if self.cancellations.load(Ordering::Acquire) != 0 {
            lock(&self.cancelled).clear();
            self.cancellations.store(0, Ordering::Release);
        }
    }
}
