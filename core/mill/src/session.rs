//! Sessions: one thread's way into a mill.

use std::sync::Arc;

use ciphermill_contract::{Batch, Completed, Error, OwnedBatch, Result, Ticket};

use crate::mill::Shared;
use crate::policy::RunOptions;
use crate::queues::Queues;
use crate::report::Report;

/// Batches that a session keeps until they are polled.
const COMPLETED_MAX: usize = 1024;

/// One thread's way into a mill: it owns a queue on each engine, so nothing on its path is locked.
pub struct Session {
    shared: Arc<Shared>,
    queues: Queues,
    next_ticket: u64,
    completed: Vec<Completed>,
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>) -> Session {
        Session { shared, queues: Queues::default(), next_ticket: 1, completed: Vec::new() }
    }

    /// Runs a batch on the engine that the router chooses, on the caller's thread. On return every operation that was
    /// pending has a status.
    ///
    /// # Errors
    /// `Misuse` when the batch breaks the contract (nothing has been written); `Refused` when policy forbids the suite
    /// or no engine may run it; `EngineFault` when an engine cannot be opened.
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

    /// Hands a batch over. Engines of this mill run on the caller's thread, so it is complete on return and waits to
    /// be polled.
    ///
    /// # Errors
    /// The batch and `Exhausted` when 1,024 batches wait to be polled.
    pub fn submit(&mut self, mut batch: OwnedBatch) -> core::result::Result<Ticket, Box<(OwnedBatch, Error)>> {
        if self.completed.len() >= COMPLETED_MAX {
            let error = Error::exhausted("COMPLETED_MAX", COMPLETED_MAX, COMPLETED_MAX + 1);
            return Err(Box::new((batch, error)));
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let result = self.run(batch.as_batch()).map(|_| ());
        self.completed.push(Completed { ticket, batch, result });
        Ok(ticket)
    }

    /// Collects completed batches in the order in which they were completed; returns how many were added to `done`.
    pub fn poll(&mut self, done: &mut Vec<Completed>) -> usize {
        let count = self.completed.len();
        done.append(&mut self.completed);
        count
    }
}
