//! A queue: batches cut into shares, several of which are in flight at a time, each on a stream of its own: while one is
//! packed, others are copied in, worked on and copied out.

use std::collections::VecDeque;
use std::sync::Arc;

use ciphermill_contract::{CheckedBatch, Completed, EngineQueue, NotSubmitted, OpStatus, OwnedBatch, Ticket};

use crate::capabilities::INPUT_LEN_MAX;
use crate::device::{Device, Result, Stream, Trouble};
use crate::pack::{self, Layout, Piece};
use crate::select::{Plan, plan};

/// Shares and submitted batches in flight at most.
pub(crate) const SLOTS_MAX: usize = 4;

/// Bytes of staging of a share: enough that a launch is small beside it, and few enough that slots overlap.
const SHARE_LEN_MIN: usize = 1 << 20;
const SHARE_LEN_MAX: usize = 16 << 20;

const _: () = assert!(SHARE_LEN_MAX + INPUT_LEN_MAX < u32::MAX as usize);

/// A queue on a device.
pub(crate) struct Queue {
    device: Arc<dyn Device>,
    idle: Vec<Box<dyn Stream>>,
    submitted: VecDeque<Submitted>,
    next_ticket: u64,
}

/// A share in flight.
struct Flight {
    stream: Box<dyn Stream>,
    /// Its pieces, as a range of the batch's.
    pieces: core::ops::Range<usize>,
    layout: Layout,
}

/// A batch that was handed over.
struct Submitted {
    ticket: Ticket,
    batch: OwnedBatch,
    plan: Plan,
    pieces: Vec<Piece>,
    /// What is in flight; `None` when there was nothing to do or it could not be set off.
    flight: Option<Flight>,
    result: ciphermill_contract::Result<()>,
}

impl Queue {
    pub(crate) fn new(device: Arc<dyn Device>) -> Queue {
        Queue { device, idle: Vec::new(), submitted: VecDeque::new(), next_ticket: 0 }
    }

    /// Packs a share and sets it off.
    fn set_off(
        &mut self,
        batch: &CheckedBatch<'_>,
        plan: &Plan,
        pieces: &[Piece],
        range: core::ops::Range<usize>,
    ) -> Result<Flight> {
        let own = &pieces[range.clone()];
        let layout = plan.layout(own, batch.suite().needs_key());
        let mut stream = match self.idle.pop() {
            Some(stream) => stream,
            None => self.device.stream()?,
        };
        pack::pack(batch, plan, own, &layout, stream.staging(layout.len)?);
        stream.start(&plan.launch(&layout, own.len()))?;
        Ok(Flight { stream, pieces: range, layout })
    }

    /// Waits for a share and takes its results. The stream is idle again; one that failed is given up.
    fn land(&mut self, batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece], flight: Flight) -> Result<()> {
        let Flight { mut stream, pieces: range, layout } = flight;
        let outcome = stream.finish().map(|staging| pack::unpack(batch, plan, &pieces[range], &layout, staging));
        stream.wipe();
        if outcome.is_ok() {
            self.idle.push(stream);
        }
        outcome
    }

    /// Runs all pieces through the slots. On trouble, what was in flight is waited for, and the pieces from the returned
    /// one on have not been worked on.
    fn fly(&mut self, batch: &mut CheckedBatch<'_>, plan: &Plan, pieces: &[Piece]) -> core::result::Result<(), usize> {
        let bytes: usize = pieces.iter().map(|piece| piece.len as usize).sum();
        let share_len = (bytes / (2 * SLOTS_MAX)).clamp(SHARE_LEN_MIN, SHARE_LEN_MAX);
        let mut flights: VecDeque<Flight> = VecDeque::with_capacity(SLOTS_MAX);
        let (mut next, mut landed) = (0, 0);
        let mut trouble = None;
        while next < pieces.len() || !flights.is_empty() {
            while trouble.is_none() && next < pieces.len() && flights.len() < SLOTS_MAX {
                let end = next + plan.fitting(&pieces[next..], share_len);
                match self.set_off(batch, plan, pieces, next..end) {
                    Ok(flight) => flights.push_back(flight),
                    Err(error) => trouble = Some(error),
                }
                next = end;
            }
            let Some(flight) = flights.pop_front() else { break };
            let end = flight.pieces.end;
            match self.land(batch, plan, pieces, flight) {
                Ok(()) if trouble.is_none() || landed < end => landed = end.max(landed),
                Ok(()) => {}
                Err(error) => {
                    trouble = Some(error);
                    // Later shares may still land, but theirs count no more than this one's.
                    flights.clear();
                }
            }
        }
        match trouble {
            None => Ok(()),
            Some(trouble) => {
                log(trouble);
                Err(landed)
            }
        }
    }
}

/// What a fault was, for whoever reads logs; the caller sees statuses.
fn log(trouble: Trouble) {
    tracing::error!(?trouble, "gpu: a share of a batch failed");
}

/// Settles what the device has done, and what it has not: the pieces from `landed` on.
fn settle_all(batch: &mut CheckedBatch<'_>, pieces: &[Piece], landed: usize) {
    for piece in &pieces[landed..] {
        let index = piece.op as usize;
        if batch.ops()[index].status != OpStatus::EngineFault {
            pack::settle(batch, index, OpStatus::EngineFault);
        }
    }
    for piece in &pieces[..landed] {
        let index = piece.op as usize;
        if batch.ops()[index].status.is_pending() {
            pack::settle(batch, index, OpStatus::Done);
        }
    }
}

impl EngineQueue for Queue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        if let Some(plan) = plan(batch.suite(), batch.direction()) {
            let pieces = pack::pieces(batch, &plan);
            let landed = match self.fly(batch, &plan, &pieces) {
                Ok(()) => pieces.len(),
                Err(landed) => landed,
            };
            settle_all(batch, &pieces, landed);
        }
        // Suites that this engine does not claim end here.
        for index in 0..batch.len() {
            if batch.ops()[index].status.is_pending() {
                pack::settle(batch, index, OpStatus::EngineFault);
            }
        }
    }

    /// Takes batches of suites without keys that fit one share. An owned batch carries the names of its keys only; those
    /// with keys come through [`EngineQueue::run`], which keeps as many shares in flight.
    fn submit(&mut self, mut batch: OwnedBatch) -> core::result::Result<Ticket, Box<NotSubmitted>> {
        let plan = plan(batch.suite, batch.direction).filter(|_| !batch.suite.needs_key());
        let len: usize = batch.ops.iter().map(|op| op.input.len as usize).sum();
        let Some(plan) = plan.filter(|_| len <= SHARE_LEN_MAX) else {
            return Err(Box::new(NotSubmitted { batch, full: false }));
        };
        if self.submitted.len() >= SLOTS_MAX {
            return Err(Box::new(NotSubmitted { batch, full: true }));
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let (mut pieces, mut flight, mut result) = (Vec::new(), None, Ok(()));
        match batch.as_batch().check() {
            Ok(mut checked) => {
                pieces = pack::pieces(&mut checked, &plan);
                if !pieces.is_empty() {
                    match self.set_off(&checked, &plan, &pieces, 0..pieces.len()) {
                        Ok(own) => flight = Some(own),
                        Err(trouble) => {
                            log(trouble);
                            settle_all(&mut checked, &pieces, 0);
                            result = Err(trouble.into());
                        }
                    }
                }
            }
            Err(error) => result = Err(error),
        }
        self.submitted.push_back(Submitted { ticket, batch, plan, pieces, flight, result });
        Ok(ticket)
    }

    fn poll(&mut self, done: &mut Vec<Completed>) -> usize {
        let before = done.len();
        for _ in 0..self.submitted.len() {
            let Some(mut one) = self.submitted.pop_front() else { break };
            if one.flight.as_mut().is_some_and(|flight| !flight.stream.is_done()) {
                self.submitted.push_back(one);
                continue;
            }
            let Submitted { ticket, mut batch, plan, pieces, flight, mut result } = one;
            if let Some(flight) = flight {
                // It passed its check when it was taken, and has not been seen by anybody since.
                match batch.as_batch().check() {
                    Ok(mut checked) => {
                        let outcome = self.land(&mut checked, &plan, &pieces, flight);
                        settle_all(&mut checked, &pieces, if outcome.is_ok() { pieces.len() } else { 0 });
                        result = outcome.map_err(|trouble| {
                            log(trouble);
                            trouble.into()
                        });
                    }
                    Err(error) => result = Err(error),
                }
            }
            done.push(Completed { ticket, batch, result });
        }
        done.len() - before
    }
}
