//! The ways in which chunks are driven through a mill.

use std::cell::RefCell;

use ciphermill::{Mill, OnFull, Session, SubmitOptions};
use ciphermill_contract::{Completed, Op, OwnedBatch};
use rustix::event::{PollFd, PollFlags, poll};

use super::load::Load;
use crate::LabError;
use crate::router::mill_error;
use crate::timing::Contestant;

/// When operations are built and handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dispatch {
    /// Chunk n + 1 is built and handed over when chunk n is done.
    OneAtATime,
    /// All are built before the clock starts, and handed over as fast as the mill takes them.
    All,
}

/// How the caller learns that something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// It asks, and lends its own thread to the work while it does.
    Polled,
    /// It sleeps; a thread of the mill works and wakes it.
    Woken,
}

/// When answers are compared with the reference's. They always have been once before anything is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checking {
    /// Not again.
    Off,
    /// When the clock has stopped.
    After,
    /// While it runs.
    Inside,
}

/// Every way of dispatching, with its name.
pub(super) const DISPATCHES: [(Dispatch, &str); 2] =
    [(Dispatch::OneAtATime, "one at a time"), (Dispatch::All, "all at once")];

/// Every way of completing, with its name.
pub(super) const COMPLETIONS: [(Completion, &str); 2] = [(Completion::Polled, "polled"), (Completion::Woken, "woken")];

/// Every way of checking, with its name.
pub(super) const CHECKINGS: [(Checking, &str); 3] =
    [(Checking::Off, "off"), (Checking::After, "after the timer"), (Checking::Inside, "inside the timer")];

/// How one contestant drives its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) dispatch: Dispatch,
    pub(super) completion: Completion,
    pub(super) checking: Checking,
}

/// A load, driven in one way. Several may share a load, since they are interleaved.
pub(super) struct Drive<'l> {
    way: Way,
    load: &'l RefCell<Load>,
    session: Session,
    /// Which of the load's names for keys are this mill's.
    names: usize,
    ops: Vec<Op>,
    done: Vec<Completed>,
    trouble: Option<LabError>,
}

impl<'l> Drive<'l> {
    /// A way through `mill`, which is number `names` of those that the load was made for.
    ///
    /// # Errors
    /// [`LabError::Engine`] when the mill has no thread that could wake anybody.
    pub(super) fn new(way: Way, load: &'l RefCell<Load>, mill: &Mill, names: usize) -> Result<Drive<'l>, LabError> {
        let mut session = mill.session();
        if way.completion == Completion::Woken {
            session.event_fd().map_err(mill_error)?;
        }
        let (ops, done) = (Vec::with_capacity(1), Vec::new());
        Ok(Drive { way, load, session, names, ops, done, trouble: None })
    }

    /// Runs once and compares every answer.
    ///
    /// # Errors
    /// [`LabError::WrongResult`] for one that differs; what the mill refused.
    pub(super) fn verify(&mut self) -> Result<(), LabError> {
        let wanted = std::mem::replace(&mut self.way.checking, Checking::Inside);
        self.reset();
        self.run();
        self.way.checking = wanted;
        self.finish()
    }

    /// The trouble that there was with this way or its load, after the comparison that may be due.
    ///
    /// # Errors
    /// The first trouble.
    pub(super) fn finish(&mut self) -> Result<(), LabError> {
        self.reset();
        let load = &mut *self.load.borrow_mut();
        let found = load.found_wrong.take().map(|op| load.wrong("mill", op));
        self.trouble.take().or(found).map_or(Ok(()), Err)
    }

    fn troubled(&mut self, trouble: LabError) {
        self.trouble.get_or_insert(trouble);
    }

    /// Hands a batch over and returns its number.
    fn submit(&mut self, batch: OwnedBatch) -> Result<u64, Box<(OwnedBatch, LabError)>> {
        let options = SubmitOptions { on_full: OnFull::Wait, ..SubmitOptions::default() };
        match self.session.submit_with(batch, &options) {
            Ok(ticket) => Ok(ticket.0),
            Err(refused) => Err(Box::new((refused.0, mill_error(refused.1)))),
        }
    }

    /// What has come back since, one batch at least unless nothing is in flight.
    fn complete(&mut self) {
        while self.session.in_flight() > 0 && self.done.is_empty() {
            if self.way.completion == Completion::Woken {
                match self.session.event_fd() {
                    // Whatever ends the sleep, the session knows what has come back.
                    Ok(event) => drop(poll(&mut [PollFd::new(&event, PollFlags::IN)], None)),
                    Err(error) => self.trouble = Some(mill_error(error)),
                }
            }
            self.session.poll(&mut self.done);
        }
    }

    fn one_at_a_time(&mut self, load: &mut Load) {
        let (mut left, repeated, keys) = (load.spec.chunks, load.spec.repeated, load.spec.keys);
        let checks = self.way.checking == Checking::Inside;
        while left > 0 && self.trouble.is_none() {
            for part in 0..if repeated { 1 } else { load.parts.len() } {
                let chunks = load.parts[part].fresh[self.names].len().min(left);
                for n in 0..chunks {
                    // One key and one chunk: always the same operation.
                    let n = if repeated && keys == 1 { 0 } else { n };
                    let Some(mut batch) = load.parts[part].batch.take() else { return };
                    std::mem::swap(&mut batch.ops, &mut self.ops);
                    batch.ops.clear();
                    batch.ops.push(built(&load.parts[part].fresh[self.names][n]));
                    let mut back = match self.submit(batch) {
                        Ok(_) => {
                            self.complete();
                            self.done.pop().map(|completed| completed.batch)
                        }
                        Err(refused) => {
                            let (batch, trouble) = *refused;
                            self.troubled(trouble);
                            Some(batch)
                        }
                    };
                    let Some(mut batch) = back.take() else { return };
                    let op = batch.ops.first().copied().unwrap_or_default();
                    let index = load.parts[part].first + n;
                    if !op.status.is_done() || checks && !load.is_right(index, &op, batch.arena.bytes()) {
                        self.troubled(load.wrong("mill", index));
                    }
                    std::mem::swap(&mut batch.ops, &mut self.ops);
                    batch.ops[n] = op;
                    load.parts[part].batch = Some(batch);
                    if self.trouble.is_some() {
                        return;
                    }
                }
                left -= chunks;
            }
        }
    }

    fn all_at_once(&mut self, load: &mut Load) {
        let mut left = load.spec.chunks;
        // What each number of a batch stands for, counted from the first.
        let mut places: Vec<usize> = Vec::with_capacity(load.parts.len());
        let mut first = None;
        let mut next = 0;
        loop {
            while left > 0
                && let Some(batch) = load.parts[next].batch.take()
            {
                left -= batch.ops.len().min(left);
                match self.submit(batch) {
                    Ok(number) => {
                        first.get_or_insert(number);
                        places.push(next);
                    }
                    Err(refused) => {
                        let (batch, trouble) = *refused;
                        load.parts[next].batch = Some(batch);
                        self.troubled(trouble);
                        left = 0;
                    }
                }
                next = (next + 1) % load.parts.len();
            }
            if self.session.in_flight() == 0 {
                return;
            }
            self.complete();
            for completed in std::mem::take(&mut self.done) {
                let place = places[(completed.ticket.0 - first.unwrap_or_default()) as usize];
                if completed.result.is_err() || !completed.batch.ops.iter().all(|op| op.status.is_done()) {
                    self.troubled(load.wrong("mill", load.parts[place].first));
                }
                load.parts[place].batch = Some(completed.batch);
                if self.way.checking == Checking::Inside
                    && let Some(op) = load.first_wrong_of(&load.parts[place])
                {
                    self.troubled(load.wrong("mill", op));
                }
                if left > 0 {
                    // It goes round again: its operations are made pending as part of the work.
                    load.parts[place].renew(self.names);
                }
            }
        }
    }
}

/// An operation built from what is known of its chunk, as a driver builds a descriptor.
#[inline(never)]
fn built(chunk: &Op) -> Op {
    let op = Op::in_place(chunk.key, chunk.input)
        .with_output(chunk.output)
        .with_iv(&chunk.iv[..usize::from(chunk.iv_len).min(chunk.iv.len())]);
    if chunk.tag_len > 0 { op.with_tag(chunk.tag, chunk.tag_len) } else { op }
}

impl Contestant for Drive<'_> {
    fn reset(&mut self) {
        self.load.borrow_mut().renew(self.names);
    }

    fn run(&mut self) {
        if self.trouble.is_some() {
            return;
        }
        let load = &mut *self.load.borrow_mut();
        match self.way.dispatch {
            Dispatch::OneAtATime => self.one_at_a_time(load),
            Dispatch::All => self.all_at_once(load),
        }
        load.is_check_due = self.way.checking == Checking::After;
    }
}
