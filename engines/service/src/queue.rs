//! A queue: a channel of its own, over which one batch at a time goes, in pieces.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_channel::{DATA_AT, OPS_MAX, Outcome, Port, REQUEST_NS_MAX, Spin};
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::{CheckedBatch, CheckedColumns, ColumnStatus, EngineQueue, Error, Result};
use zeroize::Zeroizing;

use crate::cargo::{Cargo, LINE, Way};
use crate::columns::{self, Parts};
use crate::link::{Link, NAME, fault};
use crate::ops::{COLUMNS_FROM, Limits, Ops, Piece};
use crate::shared::{Pace, Shared};

/// How long a request may take beyond a thousand times what it should, before the service is taken for dead.
const PATIENCE: Duration = Duration::from_secs(10);

/// What should take longer is not looked for.
const LOOK_MAX: Duration = Duration::from_micros(500);

/// Pieces on their way at most.
const FLIGHTS_MAX: usize = 8;

/// What copying a byte into or out of a channel takes, in nanoseconds: lines that the other core has.
const COPY_NS: f64 = 0.15;

/// Bytes that an operation takes beside its data, about: its key, its IV, its tag.
const OP_BYTES: usize = 40;

/// What a piece costs beyond its operations, in nanoseconds.
const PIECE_NS: f64 = 1_200.0;

/// Work that takes so many times as long as copying it is not worth being cut.
const HIDDEN_MIN: f64 = 10.0;

/// How long a service may take to be restarted, and how often it is looked for meanwhile.
const RESTART_MAX: Duration = Duration::from_secs(5);
const RESTART_LOOK: Duration = Duration::from_millis(20);

/// A queue of the service.
pub(crate) struct ServiceQueue {
    shared: Arc<Shared>,
    open: Option<Open>,
    spin: Spin,
    /// Pieces on their way; empty between batches.
    flights: VecDeque<Flight>,
    stage: Zeroizing<Vec<u8>>,
}

/// A piece of a batch on its way.
#[derive(Debug)]
struct Flight {
    piece: usize,
    /// Where in the channel it lies.
    place: Range<usize>,
    /// Its request's number.
    number: u32,
}

/// A channel, over a connection.
struct Open {
    link: Arc<Link>,
    channel: u64,
    port: Port,
}

impl Open {
    fn over(link: Arc<Link>, len: usize) -> Result<Open> {
        let (channel, port) = link.open_port(len).map_err(|error| fault(&error))?;
        Ok(Open { link, channel, port })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.link.close_port(self.channel);
    }
}

impl ServiceQueue {
    pub(crate) fn new(shared: Arc<Shared>) -> ServiceQueue {
        ServiceQueue { shared, open: None, spin: Spin::new(), flights: VecDeque::new(), stage: Zeroizing::default() }
    }

    /// Opens a channel, if there is none over a connection that stands.
    fn open(&mut self) -> Result<()> {
        if self.open.as_ref().is_none_or(|open| open.link.is_lost()) {
            self.open = None;
            let len = self.shared.channel_len();
            // A connection that was lost is found out by being used: once more over a new one.
            let open = Open::over(self.shared.link()?, len).or_else(|_| Open::over(self.shared.link()?, len))?;
            self.open = Some(open);
        }
        Ok(())
    }

    /// Runs a batch, several of its pieces on their way at a time: one is copied while another is worked on. Returns those that failed.
    fn run_all(&mut self, cargo: &mut impl Cargo) -> Vec<(usize, Error)> {
        let mut flights = core::mem::take(&mut self.flights);
        let mut failed = Vec::new();
        while let Some(piece) = cargo.next() {
            let len = cargo.room(piece);
            let at = loop {
                let free = self.room_for(len, &flights).filter(|_| flights.len() < FLIGHTS_MAX);
                match free {
                    None if !flights.is_empty() => self.land(cargo, &mut flights, 1, &mut failed),
                    at => break at.unwrap_or(DATA_AT),
                }
            };
            match self.send(cargo, piece, at..at + len, flights.is_empty()) {
                Ok(flight) => flights.push_back(flight),
                Err(error) => {
                    let all = flights.len();
                    self.land(cargo, &mut flights, all, &mut failed);
                    failed.push((piece, error));
                }
            }
        }
        let all = flights.len();
        self.land(cargo, &mut flights, all, &mut failed);
        self.flights = flights;
        failed
    }

    /// Where so many bytes have room in the channel beside what is on its way, which lies in order.
    fn room_for(&self, len: usize, flights: &VecDeque<Flight>) -> Option<usize> {
        let Some(last) = flights.back() else { return Some(DATA_AT) };
        let end = self.open.as_ref().map_or(0, |open| open.port.memory().len());
        let is_free = |at: usize| {
            let own = at..at + len;
            own.end <= end && flights.iter().all(|flight| flight.place.end <= at || own.end <= flight.place.start)
        };
        [last.place.end.next_multiple_of(LINE), DATA_AT].into_iter().find(|at| is_free(*at))
    }

    /// Waits for the first so many that are on their way.
    fn land(
        &mut self,
        cargo: &mut impl Cargo,
        flights: &mut VecDeque<Flight>,
        count: usize,
        failed: &mut Vec<(usize, Error)>,
    ) {
        for _ in 0..count {
            let Some(flight) = flights.pop_front() else { return };
            if let Err(error) = self.end(cargo, &flight) {
                failed.push((flight.piece, error));
            }
        }
    }

    /// Does what can be done for a piece of operations that failed; nothing of it is pending afterwards.
    fn recover(&mut self, ops: &mut Ops<'_>, piece: &Piece, error: Error) {
        let ran = match error {
            Error::Exhausted(_) => self.run_halves(ops, piece, Err(error)),
            Error::EngineFault(_) if ops.names_keys(piece) => self.run_piece(ops, piece),
            error => Err(error),
        };
        if ran.is_err() {
            for index in piece.ops.clone() {
                if ops.ops[index].status.is_pending() {
                    ops.fail(index);
                }
            }
        }
    }

    /// Runs a piece by itself; in halves if the service says that it is too long.
    fn run_piece(&mut self, ops: &mut Ops<'_>, piece: &Piece) -> Result<()> {
        let ran = self.run_patiently(ops, piece);
        if matches!(ran, Err(Error::Exhausted(_))) { self.run_halves(ops, piece, ran) } else { ran }
    }

    fn run_halves(&mut self, ops: &mut Ops<'_>, piece: &Piece, ran: Result<()>) -> Result<()> {
        let Some(halves) = ops.halves(piece) else { return ran };
        halves.iter().try_for_each(|half| self.run_piece(ops, half))
    }

    /// Keys that the service alone has wait for a service that is being restarted: nobody else could do their operations. All others
    /// are run elsewhere.
    fn run_patiently(&mut self, ops: &mut Ops<'_>, piece: &Piece) -> Result<()> {
        let begun = Instant::now();
        // All others were cut before.
        let own = ops.pieces.len();
        ops.pieces.push(piece.clone());
        loop {
            let place = DATA_AT..DATA_AT + ops.room(own);
            let ran = self.send(ops, own, place, true).and_then(|flight| self.end(ops, &flight));
            let Err(Error::EngineFault(_)) = &ran else { return ran };
            if begun.elapsed() >= RESTART_MAX || !ops.names_keys(piece) {
                return ran;
            }
            std::thread::sleep(RESTART_LOOK);
        }
    }

    /// Puts a piece on its way; over a new channel only if nothing is under way in the old one.
    fn send(&mut self, cargo: &mut impl Cargo, piece: usize, place: Range<usize>, may_open: bool) -> Result<Flight> {
        if !may_open && self.open.as_ref().is_none_or(|open| open.link.is_lost()) {
            return Err(Error::fault(NAME, FaultKind::Unavailable));
        }
        self.open()?;
        let Some(Open { link, port, .. }) = &mut self.open else {
            return Err(Error::fault(NAME, FaultKind::Unavailable));
        };
        if place.end > port.memory().len() {
            return Err(Error::fault(NAME, FaultKind::Unavailable));
        }
        let request =
            cargo.put(piece, &mut Way { link, memory: port.memory(), at: place.start, stage: &mut self.stage })?;
        // There is a slot: fewer are on their way than there are.
        let number = port.submit(request).ok_or_else(|| Error::fault(NAME, FaultKind::Unavailable))?;
        Ok(Flight { piece, place, number })
    }

    /// Waits for a piece and takes what came of it.
    fn end(&mut self, cargo: &mut impl Cargo, flight: &Flight) -> Result<()> {
        let (ops, bytes) = cargo.work(flight.piece);
        let expected = self.shared.pace(cargo.suite()).map_or(0.0, |pace| pace.ns(ops, bytes));
        let expected = Duration::from_nanos(expected as u64);
        let spin = self.shared.spin();
        let Some(Open { link, port, .. }) = &self.open else { return Err(Error::fault(NAME, FaultKind::Unavailable)) };
        let look = time_to_look(spin, expected, port.is_crowded());
        let (begun, patience) = (Instant::now(), PATIENCE + expected * 1000);
        let goes_on = || link.is_alive() && begun.elapsed() < patience;
        match port.wait(flight.number, (&mut self.spin, look), goes_on) {
            Ok(Outcome::Ran) => {
                let (memory, at) = (port.memory(), flight.place.start);
                cargo.take(flight.piece, &mut Way { link, memory, at, stage: &mut self.stage })
            }
            Ok(Outcome::Exhausted) => Err(Error::exhausted("operations of the service", 0, ops)),
            Ok(_) => Err(Error::fault(NAME, FaultKind::Stalled)),
            Err(_) => {
                link.give_up();
                Err(Error::fault(NAME, FaultKind::Stalled))
            }
        }
    }

    /// Operations that a piece of so many over so many bytes has: copying it takes its time, and more of that is hidden behind work the
    /// smaller pieces are, each of which costs [`PIECE_NS`]. With n pieces a copy's n-th part is not hidden, so that n is best where both are
    /// equal.
    fn ops_of_piece(pace: Option<Pace>, ops: usize, bytes: usize) -> usize {
        let copy_ns = (ops * OP_BYTES + 2 * bytes) as f64 * COPY_NS;
        let pieces = (copy_ns / PIECE_NS).sqrt();
        if pieces < 1.5 || pace.is_some_and(|pace| pace.ns(ops, bytes) > copy_ns * HIDDEN_MIN) {
            return ops;
        }
        let step = pace.map_or(1, |pace| usize::from(pace.step)).max(1);
        let in_steps = |pieces: usize| ops.div_ceil(pieces).next_multiple_of(step);
        // The last is as long as the others.
        in_steps(ops.div_ceil(in_steps(pieces as usize)))
    }
}

/// How long an answer is looked for: as long as it should take, and some more. In a crowd nobody looks, since the core is somebody else's;
/// and what takes long is slept through.
fn time_to_look(spin: Duration, expected: Duration, is_crowded: bool) -> Duration {
    if is_crowded || spin.is_zero() || expected >= LOOK_MAX { Duration::ZERO } else { spin + expected * 3 / 2 }
}

impl EngineQueue for ServiceQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        let (ops, arena, keys) = batch.parts();
        let bytes = ops.iter().map(|op| op.input.len as usize).sum();
        let pace = self.shared.pace(suite);
        let limits = Limits {
            most: ServiceQueue::ops_of_piece(pace, ops.len(), bytes),
            room: self.shared.channel_len(),
            pace: pace.filter(|pace| !pace.is_short(ops.len(), bytes)),
        };
        let mut ops = Ops { suite, direction, ops, arena, keys, limits, pieces: Vec::new() };
        if suite.needs_key() {
            for index in 0..ops.ops.len() {
                if ops.ops[index].status.is_pending() && ops.key(index).is_none() {
                    ops.fail(index);
                }
            }
        }
        for (piece, error) in self.run_all(&mut ops) {
            let piece = ops.pieces[piece].clone();
            self.recover(&mut ops, &piece, error);
        }
    }

    fn run_columns(&mut self, columns: &mut CheckedColumns<'_>) {
        let (suite, pending, len) = (columns.suite(), columns.pending(), columns.len());
        // Few are worth more when the service joins them with others', which it does with operations.
        let is_packed = !columns.is_sparse() && !columns.layout().has_spans();
        if pending < COLUMNS_FROM || !is_packed || !columns::has_keys(columns) {
            return columns.run_as_ops(|batch| self.run(batch));
        }
        let bytes = columns.input_bytes() as usize;
        let room = self.shared.channel_len() / 2;
        let pace = self.shared.pace(suite);
        let most = ServiceQueue::ops_of_piece(pace, len, bytes);
        // As many as leave each piece room, and no longer than the service takes, if all were alike.
        let parts = len.div_ceil(most.max(1)).max((columns.stretches_len() + len * OP_BYTES).div_ceil(room));
        let parts = parts.max(pace.map_or(0.0, |pace| pace.ns(len, bytes) / REQUEST_NS_MAX) as usize + 1);
        let each = len.div_ceil(parts).clamp(1, OPS_MAX as usize);
        let counts: Vec<usize> = (0..len).step_by(each).map(|first| each.min(len - first)).collect();
        columns.in_parts(&counts, |mut parts| {
            let room = self.shared.channel_len();
            let mut cargo = Parts { parts: &mut parts, room, next: 0, left: Vec::new() };
            let failed = self.run_all(&mut cargo);
            for part in cargo.left {
                parts[part].run_as_ops(|batch| self.run(batch));
            }
            for (part, error) in failed {
                let part = &mut parts[part];
                match error {
                    // What is too long, or waits for a service that is being restarted, goes the other way.
                    Error::EngineFault(_) if !columns::names_keys(part) => {
                        part.replace_status(ColumnStatus::is_pending, ColumnStatus::ENGINE_FAULT);
                    }
                    _ => part.run_as_ops(|batch| self.run(batch)),
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_core_looks_and_not_without_end() {
        let us = Duration::from_micros;
        for (spin, expected, found) in [(60, 10, 75), (60, 498, 807), (60, 500, 0), (0, 10, 0), (60, 0, 60)] {
            assert_eq!(time_to_look(us(spin), us(expected), false), us(found), "{spin}, {expected}");
            assert_eq!(time_to_look(us(spin), us(expected), true), Duration::ZERO, "{spin}, {expected}");
        }
    }
}
