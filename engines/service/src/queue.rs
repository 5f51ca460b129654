//! A queue: a channel of its own, over which one batch at a time goes, in pieces.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_channel::{DATA_AT, Outcome, Port, RECORD_LEN, REQUEST_NS_MAX, Request, Spin, put_ops, read_results};
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::op::{Aad, Span};
use ciphermill_contract::{
    CheckedBatch, Direction, EngineQueue, Error, KeyId, Op, OpStatus, PreparedKey, Reason, Result, Suite,
};

use crate::chunk::{Chunk, LINE, Layout, chunks, output_len};
use crate::key::RemoteKey;
use crate::link::{Link, NAME, fault};
use crate::shared::Shared;

/// How long a request may take beyond a thousand times what it should, before the service is taken for dead.
const PATIENCE: Duration = Duration::from_secs(10);

/// What should take longer is not looked for.
const LOOK_MAX: Duration = Duration::from_micros(500);

/// Pieces on their way at most.
const FLIGHTS_MAX: usize = 8;

/// What copying a byte into or out of a channel takes, in nanoseconds: lines that the other core has.
const COPY_NS: f64 = 0.15;

/// What a piece costs beyond its operations, in nanoseconds.
const PIECE_NS: f64 = 600.0;

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
}

/// A piece of a batch on its way.
struct Flight {
    chunk: Chunk,
    layout: Layout,
    /// Where in the channel it lies: operations and results first, then data.
    at: usize,
    /// Its request's number.
    number: u32,
}

impl Flight {
    fn ops_at(&self) -> usize {
        self.at
    }

    fn data_at(&self) -> usize {
        self.at + self.chunk.pending * RECORD_LEN
    }

    fn place(&self) -> Range<usize> {
        self.at..self.data_at() + self.layout.len
    }
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

/// One batch on its way.
struct Batch<'b> {
    suite: Suite,
    direction: Direction,
    ops: &'b mut [Op],
    arena: &'b mut [u8],
    keys: &'b [Option<&'b PreparedKey>],
}

impl ServiceQueue {
    pub(crate) fn new(shared: Arc<Shared>) -> ServiceQueue {
        ServiceQueue { shared, open: None, spin: Spin::new(), flights: VecDeque::new() }
    }

    /// The channel, opened if there is none over a connection that stands.
    fn open(&mut self) -> Result<(&Arc<Link>, &mut Port)> {
        if self.open.as_ref().is_none_or(|open| open.link.is_lost()) {
            self.open = None;
            let len = self.shared.channel_len();
            // A connection that was lost is found out by being used: once more over a new one.
            let open = Open::over(self.shared.link()?, len).or_else(|_| Open::over(self.shared.link()?, len))?;
            self.open = Some(open);
        }
        match &mut self.open {
            Some(open) => Ok((&open.link, &mut open.port)),
            None => Err(Error::fault(NAME, FaultKind::Unavailable)),
        }
    }

    /// Runs the pieces of a batch, several on their way at a time: one is copied while another is worked on.
    fn run_all(&mut self, batch: &mut Batch<'_>, pieces: Vec<Chunk>) {
        let mut flights = core::mem::take(&mut self.flights);
        for chunk in pieces {
            let layout = chunk.layout();
            let len = chunk.pending * RECORD_LEN + layout.len;
            let place = loop {
                let free = self.room_for(len, &flights).filter(|_| flights.len() < FLIGHTS_MAX);
                // Between what one writes there may be what another has written.
                let clear = !flights.iter().any(|other| other.chunk.crosses(&chunk));
                match free.filter(|_| clear) {
                    None if !flights.is_empty() => self.land(batch, &mut flights, 1),
                    place => break place,
                }
            };
            let mut flight = Flight { chunk, layout, at: place.unwrap_or(DATA_AT), number: 0 };
            match self.send(batch, &flight, flights.is_empty()) {
                Ok(number) => {
                    flight.number = number;
                    flights.push_back(flight);
                }
                Err(error) => {
                    let all = flights.len();
                    self.land(batch, &mut flights, all);
                    self.recover(batch, &flight.chunk, error);
                }
            }
        }
        let all = flights.len();
        self.land(batch, &mut flights, all);
        self.flights = flights;
    }

    /// Where so many bytes have room in the channel beside what is on its way, which lies in order.
    fn room_for(&self, len: usize, flights: &VecDeque<Flight>) -> Option<usize> {
        let Some(last) = flights.back() else { return Some(DATA_AT) };
        let end = self.open.as_ref().map_or(0, |open| open.port.memory().len());
        let is_free = |at: usize| {
            let own = at..at + len;
            own.end <= end && flights.iter().all(|flight| flight.place().end <= at || own.end <= flight.at)
        };
        [last.place().end.next_multiple_of(LINE), DATA_AT].into_iter().find(|at| is_free(*at))
    }

    /// Waits for the first so many that are on their way. If one fails, for all: what is done then needs the channel.
    fn land(&mut self, batch: &mut Batch<'_>, flights: &mut VecDeque<Flight>, count: usize) {
        let mut failed = Vec::new();
        let mut left = count;
        while let Some(flight) = flights.pop_front_if(|_| left > 0 || !failed.is_empty()) {
            left = left.saturating_sub(1);
            if let Err(error) = self.end(batch, &flight) {
                failed.push((flight.chunk, error));
            }
        }
        failed.into_iter().for_each(|(chunk, error)| self.recover(batch, &chunk, error));
    }

    /// Does what can be done for a piece that failed; nothing of it is pending afterwards.
    fn recover(&mut self, batch: &mut Batch<'_>, chunk: &Chunk, error: Error) {
        let ran = match error {
            Error::Exhausted(_) => self.run_halves(batch, chunk, Err(error)),
            Error::EngineFault(_) if batch.names_keys(chunk) => self.run_pieces(batch, chunk),
            error => Err(error),
        };
        if ran.is_err() {
            for index in chunk.ops.clone() {
                if batch.ops[index].status.is_pending() {
                    batch.fail(index);
                }
            }
        }
    }

    /// Runs a piece by itself; in halves if the service says that it is too long.
    fn run_pieces(&mut self, batch: &mut Batch<'_>, chunk: &Chunk) -> Result<()> {
        let ran = self.run_patiently(batch, chunk);
        if matches!(ran, Err(Error::Exhausted(_))) { self.run_halves(batch, chunk, ran) } else { ran }
    }

    fn run_halves(&mut self, batch: &mut Batch<'_>, chunk: &Chunk, ran: Result<()>) -> Result<()> {
        let Some(halves) = chunk.halves((batch.suite, batch.direction), batch.ops) else { return ran };
        halves.iter().try_for_each(|half| self.run_pieces(batch, half))
    }

    /// Keys that the service alone has wait for a service that is being restarted: nobody else could do their operations. All others
    /// are run elsewhere.
    fn run_patiently(&mut self, batch: &mut Batch<'_>, chunk: &Chunk) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut flight = Flight { chunk: chunk.clone(), layout: chunk.layout(), at: DATA_AT, number: 0 };
            let result = self.send(batch, &flight, true).and_then(|number| {
                flight.number = number;
                self.end(batch, &flight)
            });
            let Err(Error::EngineFault(_)) = &result else { return result };
            if begun.elapsed() >= RESTART_MAX || !batch.names_keys(chunk) {
                return result;
            }
            std::thread::sleep(RESTART_LOOK);
        }
    }

    /// Puts a piece on its way, under the number that comes back; over a new channel only if nothing is under way in the old one.
    fn send(&mut self, batch: &Batch<'_>, flight: &Flight, may_open: bool) -> Result<u32> {
        if !may_open && self.open.as_ref().is_none_or(|open| open.link.is_lost()) {
            return Err(Error::fault(NAME, FaultKind::Unavailable));
        }
        let (link, port) = self.open()?;
        if flight.place().end > port.memory().len() {
            return Err(Error::fault(NAME, FaultKind::Unavailable));
        }
        copy_out(link, port, batch, flight)?;
        let request = Request {
            suite: batch.suite,
            direction: batch.direction,
            ops: flight.chunk.pending as u32,
            ops_at: flight.ops_at() as u32,
            data_at: flight.data_at() as u32,
            data_len: flight.layout.len as u32,
        };
        // There is a slot: fewer are on their way than there are.
        port.submit(request).ok_or_else(|| Error::fault(NAME, FaultKind::Unavailable))
    }

    /// Waits for a piece and takes what came of it.
    fn end(&mut self, batch: &mut Batch<'_>, flight: &Flight) -> Result<()> {
        let expected = self.expected(batch.suite, flight.chunk.pending, flight.layout.len);
        let expected = Duration::from_nanos(expected as u64);
        let spin = self.shared.spin();
        let Some(Open { link, port, .. }) = &self.open else { return Err(Error::fault(NAME, FaultKind::Unavailable)) };
        let look = time_to_look(spin, expected, port.is_crowded());
        let (begun, patience) = (Instant::now(), PATIENCE + expected * 1000);
        let goes_on = || link.is_alive() && begun.elapsed() < patience;
        match port.wait(flight.number, (&mut self.spin, look), goes_on) {
            Ok(Outcome::Ran) => copy_back(port, batch, flight),
            Ok(Outcome::Exhausted) => Err(Error::exhausted("operations of the service", 0, flight.chunk.pending)),
            Ok(_) => Err(Error::fault(NAME, FaultKind::Stalled)),
            Err(_) => {
                link.give_up();
                Err(Error::fault(NAME, FaultKind::Stalled))
            }
        }
    }

    /// The pieces that a batch goes in.
    fn pieces(&self, batch: &Batch<'_>) -> Vec<Chunk> {
        let what = (batch.suite, batch.direction);
        let cut = |most: usize| -> Vec<Chunk> {
            let is_short = |ops, bytes| ops <= most && self.expected(batch.suite, ops, bytes) <= REQUEST_NS_MAX;
            chunks(what, batch.ops, self.shared.channel_len(), is_short).collect()
        };
        let most = self.ops_of_piece(batch);
        let pieces = cut(most);
        if most >= batch.ops.len() {
            return pieces;
        }
        // Data that lie across each other would be copied with each piece.
        let copied: usize = pieces.iter().map(|piece| piece.layout().len).sum();
        let whole = pieces.iter().fold(Chunk::default(), |all, piece| all.and(piece)).layout().len;
        if copied * 2 <= whole * 3 { pieces } else { cut(batch.ops.len()) }
    }

    /// Operations that a piece of a batch has: copying it takes its time, and more of that is hidden behind work the smaller pieces are, each
    /// of which costs [`PIECE_NS`]. With n pieces a copy's n-th part is not hidden, so that n is best where both are equal.
    fn ops_of_piece(&self, batch: &Batch<'_>) -> usize {
        let ops = batch.ops.len();
        let bytes: usize = batch.ops.iter().map(|op| op.input.len as usize).sum();
        let copy_ns = (ops * RECORD_LEN + 2 * bytes) as f64 * COPY_NS;
        let pieces = (copy_ns / PIECE_NS).sqrt();
        if pieces < 1.5 || self.expected(batch.suite, ops, bytes) > copy_ns * HIDDEN_MIN {
            return ops;
        }
        let step = self.shared.offer(batch.suite).map_or(1, |offer| usize::from(offer.step));
        ((ops as f64 / pieces) as usize).next_multiple_of(step.max(1))
    }

    /// Nanoseconds that so many operations over so many bytes should take inside the service.
    fn expected(&self, suite: Suite, ops: usize, bytes: usize) -> f64 {
        let (ops, bytes) = (ops as u64, bytes as u64);
        self.shared.offer(suite).map_or(0.0, |offer| {
            offer.many.in_steps(ops, offer.step).predict_ns(ops, bytes).min(offer.alone.predict_ns(ops, bytes))
        })
    }
}

/// How long an answer is looked for: as long as it should take, and some more. In a crowd nobody looks, since the core is somebody else's;
/// and what takes long is slept through.
fn time_to_look(spin: Duration, expected: Duration, is_crowded: bool) -> Duration {
    if is_crowded || spin.is_zero() || expected >= LOOK_MAX { Duration::ZERO } else { spin + expected * 3 / 2 }
}

/// Copies a chunk into the channel.
fn copy_out(link: &Arc<Link>, port: &Port, batch: &Batch<'_>, flight: &Flight) -> Result<()> {
    let failed = || Error::fault(NAME, FaultKind::Call(0));
    let Flight { chunk, layout, .. } = flight;
    // Keys that the service does not have yet are handed over.
    let key_of = |index: usize| batch.key(index).map_or(Ok(KeyId::NONE), |key| key.at(link));
    let mut refused = Ok(());
    let pending = chunk.ops.clone().filter(|index| batch.ops[*index].status.is_pending());
    let sent = pending.map_while(|index| {
        let key = key_of(index).map_err(|error| refused = Err(error)).ok()?;
        let op = &batch.ops[index];
        let Aad { offset, len } = op.aad;
        Some(Op {
            key,
            input: Span::new(layout.place(op.input.offset), op.input.len),
            output: layout.place(op.output),
            tag: layout.place(op.tag),
            aad: Aad::new(layout.place(offset), len),
            ..*op
        })
    });
    let memory = port.memory();
    put_ops(memory, flight.ops_at(), sent).map_err(|_| failed())?;
    refused?;
    // What is written is copied, too: between outputs there may be others' bytes.
    let copied = |(from, at): &(Range<usize>, usize)| memory.write(flight.data_at() + at, &batch.arena[from.clone()]);
    if layout.stretches.iter().all(copied) { Ok(()) } else { Err(failed()) }
}

/// Copies what came of a chunk back.
fn copy_back(port: &Port, batch: &mut Batch<'_>, flight: &Flight) -> Result<()> {
    let failed = || Error::fault(NAME, FaultKind::Call(0));
    let Flight { chunk, layout, .. } = flight;
    let memory = port.memory();
    for written in chunk.written() {
        let at = flight.data_at() + layout.place(written.start as u32) as usize;
        if !memory.read(at, &mut batch.arena[written.clone()]) {
            return Err(failed());
        }
    }
    let mut next = chunk.ops.start;
    read_results(memory, flight.ops_at(), chunk.pending, |_, status, output_len, tag_len| {
        let Some(skipped) = batch.ops[next..chunk.ops.end].iter().position(|op| op.status.is_pending()) else { return };
        let index = next + skipped;
        next = index + 1;
        let status = match status {
            // The service knows nothing of this mill's policies: what they allow it cannot refuse, but for a key that does not suit, and
            // for keys of its own, which have policies there.
            OpStatus::Refused(reason) if reason != Reason::KeyUnsuitable && !batch.names_key(index) => {
                OpStatus::EngineFault
            }
            status => status,
        };
        let op = &mut batch.ops[index];
        (op.status, op.output_len, op.tag_len) = (status, output_len, tag_len);
    })
    .map_err(|_| failed())
}

impl Batch<'_> {
    /// The key of an operation, if it has one that this engine has prepared for the suite.
    fn key(&self, index: usize) -> Option<&RemoteKey> {
        self.keys.get(index).copied().flatten()?.state_for::<RemoteKey>(self.suite.into())
    }

    /// Whether the service alone has keys of these operations.
    fn names_keys(&self, chunk: &Chunk) -> bool {
        chunk.ops.clone().any(|index| self.names_key(index))
    }

    fn names_key(&self, index: usize) -> bool {
        self.key(index).is_some_and(RemoteKey::is_reference)
    }

    /// An operation that the service has not done: nothing is left of what it may have been given.
    fn fail(&mut self, index: usize) {
        let op = &mut self.ops[index];
        let output_len = output_len(self.suite, self.direction, op);
        let output = op.output as usize..op.output as usize + output_len;
        if !output.is_empty() {
            self.arena[output].fill(0);
        }
        (op.status, op.output_len) = (OpStatus::EngineFault, 0);
    }
}

impl EngineQueue for ServiceQueue {
    fn run(&mut self, batch: &mut CheckedBatch<'_>) {
        let (suite, direction) = (batch.suite(), batch.direction());
        let (ops, arena, keys) = batch.parts();
        let mut batch = Batch { suite, direction, ops, arena, keys };
        if suite.needs_key() {
            for index in 0..batch.ops.len() {
                if batch.ops[index].status.is_pending() && batch.key(index).is_none() {
                    batch.fail(index);
                }
            }
        }
        let pieces = self.pieces(&batch);
        self.run_all(&mut batch, pieces);
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
