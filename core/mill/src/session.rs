//! Sessions: one thread's way into a mill.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ciphermill_contract::{Batch, Completed, Error, OwnedBatch, Result, Ticket};

use crate::inbox::Inbox;
use crate::job::{Job, Reply, Wishes};
use crate::mill::Shared;
use crate::policy::{OnFull, RunOptions, SubmitOptions};
use crate::queues::Queues;
use crate::report::Report;

/// Batches that one session may have in flight: submitted and not yet polled.
pub const IN_FLIGHT_MAX: usize = 1024;

/// One thread's way into a mill: it owns a queue on each engine, so nothing on its path is locked.
///
/// Batches that are handed over with [`Session::submit`] are worked on by the mill's threads as soon as there is enough to
/// be worth waking one, and by the session's own thread in [`Session::poll`] and [`Session::wait`]. Whoever waits by
/// [`Session::event_fd`] instead has them all done by the mill's threads.
pub struct Session {
    shared: Arc<Shared>,
    queues: Queues,
    inbox: Arc<Inbox>,
    home: usize,
    next_ticket: u64,
    in_flight: usize,
    order: Option<Order>,
}

/// Batches that came back before their turn.
#[derive(Default)]
struct Order {
    next: u64,
    early: BTreeMap<u64, Completed>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Session {
        let home = shared.pool.home();
        let inbox = Arc::new(Inbox::new());
        Session { shared, queues: Queues::default(), inbox, home, next_ticket: 1, in_flight: 0, order: None }
    }

    /// The same session, handing batches back in the order in which they were submitted.
    #[must_use]
    pub fn in_order(mut self) -> Session {
        self.order = Some(Order { next: self.next_ticket, early: BTreeMap::new() });
        self
    }

    /// Runs a batch on the engine that the router chooses, on the caller's thread. On return every operation that was
    /// pending has a status.
    ///
    /// # Errors
    /// `Misuse` when the batch breaks the contract (nothing has been written); `Refused` when policy forbids the suite
    /// or no engine may run it; `EngineFault` when no engine could be opened (operations are pending then) or every engine
    /// failed every operation.
    pub fn run(&mut self, batch: Batch<'_>) -> Result<Report> {
        self.run_with(batch, &RunOptions::default())
    }

    /// Runs a batch with options of its own.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_with(&mut self, batch: Batch<'_>, options: &RunOptions<'_>) -> Result<Report> {
        self.queues.run(&self.shared, batch, options)
    }

    /// Hands a batch over. It is checked where it is run; what [`Session::run`] would return as an error comes back with
    /// it.
    ///
    /// # Errors
    /// As [`Session::submit_with`].
    pub fn submit(&mut self, batch: OwnedBatch) -> core::result::Result<Ticket, Box<(OwnedBatch, Error)>> {
        self.submit_with(batch, &SubmitOptions::default())
    }

    /// Hands a batch over with options of its own.
    ///
    /// # Errors
    /// The batch with `Exhausted` when [`IN_FLIGHT_MAX`] batches of this session are in flight or the queue is full
    /// and the options say [`OnFull::Refuse`]; with `Refused` for an engine that is not there.
    pub fn submit_with(
        &mut self,
        batch: OwnedBatch,
        options: &SubmitOptions<'_>,
    ) -> core::result::Result<Ticket, Box<(OwnedBatch, Error)>> {
        if self.in_flight >= IN_FLIGHT_MAX {
            // Waiting would be in vain: only the session's own thread takes batches out.
            let error = Error::exhausted("IN_FLIGHT_MAX", IN_FLIGHT_MAX, self.in_flight + 1);
            return Err(Box::new((batch, error)));
        }
        let wishes = match Wishes::new(&self.shared, &options.run) {
            Ok(wishes) => wishes,
            Err(error) => return Err(Box::new((batch, error))),
        };
        let ticket = Ticket(self.next_ticket);
        let predicted_ns = self.queues.predict(&self.shared, &batch);
        let is_urgent = self.inbox.has_event() || batch.suite.is_public_key();
        let mut job = Job { batch, wishes, predicted_ns, reply: Reply::Session(Arc::clone(&self.inbox), ticket) };
        while let Err(back) = self.shared.pool.push(self.home, job) {
            if options.on_full == OnFull::Refuse {
                let error = Error::exhausted("QUEUED_MAX", crate::pool::QUEUED_MAX, crate::pool::QUEUED_MAX + 1);
                return Err(Box::new((back.batch, error)));
            }
            job = back;
            self.shared.pool.wake(&self.shared, self.home, true);
            self.help();
        }
        self.next_ticket += 1;
        self.in_flight += 1;
        self.shared.pool.wake(&self.shared, self.home, is_urgent);
        Ok(ticket)
    }

    /// Runs one batch of the queue that this session shares with others; `false` when there is none.
    fn help(&mut self) -> bool {
        let Some(job) = self.shared.pool.take_from(self.home) else { return false };
        job.run(&self.shared, &mut self.queues);
        true
    }

    /// Collects batches that are done; returns how many were added to `done`. Does not block, but runs a batch that
    /// waits when none is done.
    pub fn poll(&mut self, done: &mut Vec<Completed>) -> usize {
        self.inbox.clear_event();
        let before = done.len();
        self.collect(done);
        if done.len() == before && self.in_flight != 0 && self.help() {
            self.collect(done);
        }
        done.len() - before
    }

    /// The next batch that is done, working on what waits meanwhile; `None` when nothing is in flight.
    pub fn wait(&mut self) -> Option<Completed> {
        while self.in_flight != 0 {
            if let Some(completed) = self.next_completed() {
                return Some(completed);
            }
            if !self.help() {
                // What is in flight is being run by others.
                self.inbox.sleep();
            }
        }
        None
    }

    /// Waits until everything that is in flight is done; returns how many batches were added to `done`.
    pub fn wait_all(&mut self, done: &mut Vec<Completed>) -> usize {
        let before = done.len();
        while let Some(completed) = self.wait() {
            done.push(completed);
        }
        done.len() - before
    }

    /// Asks that a batch be not begun. It comes back all the same: with `Refused(Cancelled)` and untouched, or done, when
    /// it had been begun.
    pub fn cancel(&mut self, ticket: Ticket) {
        if self.in_flight != 0 && ticket.0 < self.next_ticket {
            self.inbox.cancel(ticket);
        }
    }

    /// Batches that were submitted and have not been handed back.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// A descriptor (`eventfd(2)`) that is readable when batches have come back, for `poll(2)`, `epoll(7)` and event
    /// loops. [`Session::poll`] sets it back; do not read it. From now on the mill's threads run everything that is
    /// submitted.
    ///
    /// # Errors
    /// `EngineFault` with the system's error number when there is no descriptor to be had; `Exhausted` when the mill has
    /// no threads.
    pub fn event_fd(&mut self) -> Result<BorrowedFd<'_>> {
        if !self.shared.pool.has_workers() {
            return Err(Error::exhausted("workers", 0, 1));
        }
        self.inbox.event()?;
        self.shared.pool.wake(&self.shared, self.home, self.in_flight != 0);
        self.inbox.event()
    }

    fn collect(&mut self, done: &mut Vec<Completed>) {
        while self.in_flight != 0
            && let Some(completed) = self.next_completed()
        {
            done.push(completed);
        }
    }

    /// The next batch whose turn it is.
    fn next_completed(&mut self) -> Option<Completed> {
        let completed = match &mut self.order {
            None => self.inbox.take(),
            Some(order) => {
                while let Some(completed) = self.inbox.take() {
                    order.early.insert(completed.ticket.0, completed);
                }
                let next = order.early.remove(&order.next);
                order.next += u64::from(next.is_some());
                next
            }
        }?;
        self.in_flight -= 1;
        if self.in_flight == 0 {
            self.inbox.forget_cancellations();
        }
        Some(completed)
    }
}

impl Drop for Session {
    /// Batches that have not been begun are not begun; what is running ends and goes nowhere.
    fn drop(&mut self) {
        if self.in_flight == 0 {
            return;
        }
        self.inbox.abandon();
        // Nobody else may come to this queue again; what is not this session's is run as it would have been.
        for _ in 0..self.shared.pool.queued() {
            if !self.help() {
                break;
            }
        }
    }
}
