//! Sessions: one thread's way into a mill.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ciphermill_contract::{Batch, ColumnBatch, Completed, Error, OwnedBatch, Result, Ticket};
use ciphermill_keys::KeyUsage;

use super::dispatcher::Dispatcher;
use super::inbox::Inbox;
use super::job::{Job, Reply, RunRequest};
use crate::policy::{RunOptions, SubmitOptions};
use crate::report::Report;
use crate::run::Context;

/// Batches that one session may have in flight: submitted and not yet polled.
pub const IN_FLIGHT_MAX: usize = 1024;

/// One thread's way into a mill: it owns a queue on each engine, so nothing on its path is locked.
///
/// Batches that are handed over with [`Session::submit`] are worked on by the mill's threads as soon as there is enough to
/// be worth waking one, and by the session's own thread in [`Session::poll`] and [`Session::wait`]. Whoever waits by
/// [`Session::event_fd`] instead has them all done by the mill's threads.
pub struct Session {
    dispatcher: Arc<Dispatcher>,
    context: Context,
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
    pub(crate) fn new(dispatcher: Arc<Dispatcher>) -> Session {
        let home = dispatcher.queues.home();
        let inbox = Arc::new(Inbox::new());
        Session { dispatcher, context: Context::default(), inbox, home, next_ticket: 1, in_flight: 0, order: None }
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
        self.dispatcher.runner.run(&mut self.context, batch, options)
    }

    /// Runs columns; see [`Mill::run_columns`](crate::Mill::run_columns).
    ///
    /// # Errors
    /// As there.
    pub fn run_columns(&mut self, batch: ColumnBatch<'_>) -> Result<Report> {
        self.run_columns_with(batch, &RunOptions::default())
    }

    /// Runs columns with options of their own.
    ///
    /// # Errors
    /// As [`Session::run_columns`].
    pub fn run_columns_with(&mut self, batch: ColumnBatch<'_>, options: &RunOptions<'_>) -> Result<Report> {
        self.dispatcher.runner.run_columns(&mut self.context, batch, KeyUsage::Plain, options)
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
    /// and the options say [`OnFull::Refuse`](crate::OnFull::Refuse); with `Refused` for an engine that is not there.
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
        let request = match RunRequest::new(&self.dispatcher.runner.state, &options.run) {
            Ok(request) => request,
            Err(error) => return Err(Box::new((batch, error))),
        };
        let ticket = Ticket(self.next_ticket);
        let predicted_ns = self.dispatcher.runner.predict(&mut self.context, &batch);
        let is_urgent = self.inbox.has_event() || batch.suite.is_public_key();
        let job = Job { batch, request, predicted_ns, reply: Reply::Session(Arc::clone(&self.inbox), ticket) };
        let Session { dispatcher, context, home, .. } = self;
        dispatcher.push(*home, job, options.on_full, || {
            help(dispatcher, context, *home);
        })?;
        dispatcher.wake(*home, is_urgent);
        self.next_ticket += 1;
        self.in_flight += 1;
        Ok(ticket)
    }

    /// Runs one batch of the queue that this session shares with others; `false` when there is none.
    fn help(&mut self) -> bool {
        help(&self.dispatcher, &mut self.context, self.home)
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
        if !self.dispatcher.runner.workers.has_threads() {
            return Err(Error::exhausted("workers", 0, 1));
        }
        self.inbox.event()?;
        self.dispatcher.wake(self.home, self.in_flight != 0);
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
        for _ in 0..self.dispatcher.queued() {
            if !self.help() {
                break;
            }
        }
    }
}

/// Runs one batch of a queue; `false` when there is none.
fn help(dispatcher: &Dispatcher, context: &mut Context, home: usize) -> bool {
    let Some(job) = dispatcher.queues.take_from(home) else { return false };
    job.run(&dispatcher.runner, context);
    true
}
