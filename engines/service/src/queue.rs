//! A queue: a channel of its own, over which one batch at a time goes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ciphermill_channel::{DATA_AT, Outcome, Port, RECORD_LEN, REQUEST_NS_MAX, Request, Spin, put_ops, read_results};
use ciphermill_contract::error::FaultKind;
use ciphermill_contract::op::{Aad, Span};
use ciphermill_contract::{
    CheckedBatch, Direction, EngineQueue, Error, KeyId, Op, OpStatus, PreparedKey, Reason, Result, Suite,
};

use crate::chunk::{Chunk, chunks, output_len};
use crate::key::RemoteKey;
use crate::link::{Link, NAME, fault};
use crate::shared::Shared;

/// How long a request may take beyond a thousand times what it should, before the service is taken for dead.
const PATIENCE: Duration = Duration::from_secs(10);

/// What should take longer is not looked for.
const LOOK_MAX: Duration = Duration::from_micros(500);

/// How long a service may take to be restarted, and how often it is looked for meanwhile.
const RESTART_MAX: Duration = Duration::from_secs(5);
const RESTART_LOOK: Duration = Duration::from_millis(20);

/// A queue of the service.
pub(crate) struct ServiceQueue {
    shared: Arc<Shared>,
    open: Option<Open>,
    spin: Spin,
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
        ServiceQueue { shared, open: None, spin: Spin::new() }
    }

    /// The channel, opened if there is none over a connection that stands.
    fn open(&mut self) -> Result<(&Arc<Link>, &mut Port, &mut Spin)> {
        if self.open.as_ref().is_none_or(|open| open.link.is_lost()) {
            self.open = None;
            let len = self.shared.channel_len();
            // A connection that was lost is found out by being used: once more over a new one.
            let open = Open::over(self.shared.link()?, len).or_else(|_| Open::over(self.shared.link()?, len))?;
            self.open = Some(open);
        }
        match &mut self.open {
            Some(open) => Ok((&open.link, &mut open.port, &mut self.spin)),
            None => Err(Error::fault(NAME, FaultKind::Unavailable)),
        }
    }

    /// Runs a piece; in halves if the service says that it is too long.
    fn run_pieces(&mut self, batch: &mut Batch<'_>, chunk: &Chunk) -> Result<()> {
        let ran = self.run_patiently(batch, chunk);
        let Err(Error::Exhausted(_)) = ran else { return ran };
        let Some(halves) = chunk.halves((batch.suite, batch.direction), batch.ops) else { return ran };
        halves.iter().try_for_each(|half| self.run_pieces(batch, half))
    }

    /// Keys that the service alone has wait for a service that is being restarted: nobody else could do their operations. All others
    /// are run elsewhere.
    fn run_patiently(&mut self, batch: &mut Batch<'_>, chunk: &Chunk) -> Result<()> {
        let begun = Instant::now();
        loop {
            let result = self.run_chunk(batch, chunk);
            let Err(Error::EngineFault(_)) = &result else { return result };
            if begun.elapsed() >= RESTART_MAX || !batch.names_keys(chunk) {
                return result;
            }
            std::thread::sleep(RESTART_LOOK);
        }
    }

    fn run_chunk(&mut self, batch: &mut Batch<'_>, chunk: &Chunk) -> Result<()> {
        let expected = self.expected(batch.suite, chunk.pending, chunk.data.len());
        let expected = Duration::from_nanos(expected as u64);
        let look = self.shared.spin();
        let (link, port, spin) = self.open()?;
        let room = port.memory().len() - DATA_AT;
        let data_at = DATA_AT + chunk.pending * RECORD_LEN;
        if chunk.pending * RECORD_LEN + chunk.data.len() > room {
            return Err(Error::fault(NAME, FaultKind::Unavailable));
        }
        copy_out(link, port, batch, chunk, data_at)?;
        let request = Request {
            suite: batch.suite,
            direction: batch.direction,
            ops: chunk.pending as u32,
            ops_at: DATA_AT as u32,
            data_at: data_at as u32,
            data_len: chunk.data.len() as u32,
        };
        // One request at a time: there is a slot.
        let Some(number) = port.submit(request) else { return Err(Error::fault(NAME, FaultKind::Unavailable)) };
        let look = time_to_look(look, expected, port.is_crowded());
        let (begun, patience) = (Instant::now(), PATIENCE + expected * 1000);
        let outcome = port.wait(number, (spin, look), || link.is_alive() && begun.elapsed() < patience);
        let Ok(Outcome::Ran) = outcome else {
            match outcome {
                Ok(Outcome::Exhausted) => return Err(Error::exhausted("operations of the service", 0, chunk.pending)),
                Ok(_) => {}
                Err(_) => link.give_up(),
            }
            return Err(Error::fault(NAME, FaultKind::Stalled));
        };
        copy_back(port, batch, chunk, data_at)
    }

    /// Nanoseconds that so many operations over so many bytes should take inside the service.
    fn expected(&self, suite: Suite, ops: usize, bytes: usize) -> f64 {
        let (ops, bytes) = (ops as u64, bytes as u64);
        self.shared.offer(suite).map_or(0.0, |offer| {
            offer.many.in_steps(ops, offer.step).predict_ns(ops, bytes).min(offer.alone.predict_ns(ops, bytes))
        })
    }
}

/// How long an answer is looked for: as long as it should take, and some more. Who is alone has its core for itself; in a crowd what is not
/// there soon is slept through, and so is what takes long anyway.
fn time_to_look(spin: Duration, expected: Duration, is_crowded: bool) -> Duration {
    let max = if is_crowded { spin } else { LOOK_MAX };
    if spin.is_zero() || expected >= max { Duration::ZERO } else { spin + expected * 3 / 2 }
}

/// Copies a chunk into the channel.
fn copy_out(link: &Arc<Link>, port: &Port, batch: &Batch<'_>, chunk: &Chunk, data_at: usize) -> Result<()> {
    let failed = || Error::fault(NAME, FaultKind::Call(0));
    // Keys that the service does not have yet are handed over.
    let key_of = |index: usize| batch.key(index).map_or(Ok(KeyId::NONE), |key| key.at(link));
    let (by, end) = (chunk.data.start as u32, chunk.data.len() as u32);
    // What is empty may lie outside of the stretch.
    let place = |offset: u32, len: u32| if len == 0 { offset.saturating_sub(by).min(end) } else { offset - by };
    let mut refused = Ok(());
    let pending = chunk.ops.clone().filter(|index| batch.ops[*index].status.is_pending());
    let sent = pending.map_while(|index| {
        let key = key_of(index).map_err(|error| refused = Err(error)).ok()?;
        let op = &batch.ops[index];
        let Aad { offset, len } = op.aad;
        Some(Op {
            key,
            input: Span::new(place(op.input.offset, op.input.len), op.input.len),
            output: place(op.output, output_len(batch.suite, batch.direction, op) as u32),
            tag: place(op.tag, op.tag_len.into()),
            aad: Aad::new(place(offset, len.into()), len),
            ..*op
        })
    });
    let memory = port.memory();
    put_ops(memory, DATA_AT, sent).map_err(|_| failed())?;
    refused?;
    if memory.write(data_at, &batch.arena[chunk.data.clone()]) { Ok(()) } else { Err(failed()) }
}

/// Copies what came of a chunk back.
fn copy_back(port: &Port, batch: &mut Batch<'_>, chunk: &Chunk, data_at: usize) -> Result<()> {
    let failed = || Error::fault(NAME, FaultKind::Call(0));
    let memory = port.memory();
    let from = data_at + (chunk.written.start - chunk.data.start);
    if !memory.read(from, &mut batch.arena[chunk.written.clone()]) {
        return Err(failed());
    }
    let mut next = chunk.ops.start;
    read_results(memory, DATA_AT, chunk.pending, |_, status, output_len, tag_len| {
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
        let is_short = |ops, bytes| self.expected(suite, ops, bytes) <= REQUEST_NS_MAX;
        let pieces: Vec<Chunk> = chunks((suite, direction), batch.ops, self.shared.channel_len(), is_short).collect();
        for chunk in pieces {
            if self.run_pieces(&mut batch, &chunk).is_err() {
                for index in chunk.ops {
                    if batch.ops[index].status.is_pending() {
                        batch.fail(index);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_looks_longer_and_nobody_without_end() {
        let us = Duration::from_micros;
        for (spin, expected, alone, crowded) in
            [(60, 10, 75, 75), (60, 200, 360, 0), (60, 499, 808, 0), (60, 500, 0, 0), (0, 10, 0, 0), (60, 0, 60, 60)]
        {
            let found = [false, true].map(|is_crowded| time_to_look(us(spin), us(expected), is_crowded).as_micros());
            assert_eq!(found, [alone, crowded], "{spin}, {expected}");
        }
    }
}
