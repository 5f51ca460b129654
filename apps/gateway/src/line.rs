//! One way through the gateway: workers that take turns.
//!
//! One worker receives while others encrypt; what they have is committed and sent in the order in which it came ([`Turns`]).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ciphermill::Session;
use ciphermill_contract::Direction;
use ciphermill_esp::{Burst, Tunnels, Turns, lock_soon};
use ciphermill_packets::Source;

use crate::ports::SharedSink;

/// How long a worker waits for a packet before it looks whether to stop.
const WAIT: Duration = Duration::from_millis(20);

/// ICMP errors that wait for the other way at most.
const RETURNED_MAX: usize = 1024;

/// Locks, whatever happened to a thread that held it: what is locked here is counted or looked at, and stays whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One way.
pub struct Line {
    way: Direction,
    turns: Turns<Box<dyn Source>>,
    sink: SharedSink,
    /// Where ICMP errors go: back.
    back: SharedSink,
    /// Packets that go this way though they came the other one.
    returned: Mutex<Vec<Vec<u8>>>,
    stop: AtomicBool,
    has_failed: AtomicBool,
}

impl Line {
    /// From a source to a sink. `Encrypt` goes out, and its ICMP errors to `back`; those of the other way are for the far end, and go out through
    /// the tunnel: they are given to the other line.
    pub fn new(way: Direction, source: Box<dyn Source>, sink: SharedSink, back: SharedSink) -> Line {
        Line {
            way,
            turns: Turns::new(source),
            sink,
            back,
            returned: Mutex::new(Vec::new()),
            stop: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Ends the line's workers, within a moment.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the line has ended: it was stopped, its source has no more packets, or it failed.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether a source or a sink gave an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// What the source and the sink have counted.
    pub fn counters(&self) -> (ciphermill_packets::Received, ciphermill_packets::Sent) {
        (self.turns.with_input(|source| source.counters()), lock(&self.sink).counters())
    }

    /// Gives packets to this line that came by the other one.
    fn send_back(&self, (data, spans): (&[u8], &[[u32; 2]])) {
        let mut returned = lock(&self.returned);
        let packets = spans.iter().map(|[start, end]| data[*start as usize..*end as usize].to_vec());
        returned.extend(packets);
        returned.truncate(RETURNED_MAX);
    }

    /// Works until the line is stopped or its source has ended.
    ///
    /// # Errors
    /// What a source or a sink says: an interface that is gone, a full disk. The line is stopped then.
    pub fn work(
        &self,
        tunnels: &Mutex<Tunnels>,
        session: &mut Session,
        burst: &mut Burst,
        epoch: Instant,
        other: &Line,
    ) -> io::Result<()> {
        while !self.is_stopped() {
            let worked = self.step(tunnels, session, burst, epoch, other);
            if worked.is_err() {
                self.has_failed.store(true, Ordering::Relaxed);
                self.stop();
            }
            worked?;
        }
        Ok(())
    }

    fn step(
        &self,
        tunnels: &Mutex<Tunnels>,
        session: &mut Session,
        burst: &mut Burst,
        epoch: Instant,
        other: &Line,
    ) -> io::Result<()> {
        burst.clear();
        let begun = self.turns.begin(|source| self.receive(source.as_mut(), tunnels, burst, epoch))?;
        let Some(ticket) = begun else { return Ok(()) };
        if let Err(error) = burst.crypt(session) {
            tracing::warn!(%error, "packets were lost");
        }
        self.turns.commit(ticket, || self.commit(tunnels, burst, other))
    }

    /// Receives a burst and has it begun; false when no packet came.
    fn receive(
        &self,
        source: &mut dyn Source,
        tunnels: &Mutex<Tunnels>,
        burst: &mut Burst,
        epoch: Instant,
    ) -> io::Result<bool> {
        for packet in core::mem::take(&mut *lock(&self.returned)) {
            // Those that have no room were errors only.
            burst.push(&packet);
        }
        let wait = if burst.is_empty() { WAIT } else { Duration::ZERO };
        source.receive(wait, &mut |packet| burst.push(packet))?;
        if burst.is_empty() {
            if source.is_ended() {
                self.stop();
            }
            return Ok(false);
        }
        let now = epoch.elapsed();
        match self.way {
            Direction::Encrypt => lock_soon(tunnels).begin_outbound(burst, now),
            Direction::Decrypt => lock_soon(tunnels).begin_inbound(burst, now),
        }
        Ok(true)
    }

    fn commit(&self, tunnels: &Mutex<Tunnels>, burst: &mut Burst, other: &Line) -> io::Result<()> {
        match self.way {
            Direction::Encrypt => lock_soon(tunnels).commit_outbound(burst),
            Direction::Decrypt => lock_soon(tunnels).commit_inbound(burst),
        }
        let (data, spans) = burst.leaving();
        if !spans.is_empty() {
            lock(&self.sink).send(data, spans)?;
        }
        let (answers, answer_spans) = burst.answers();
        if answer_spans.is_empty() {
            return Ok(());
        }
        match self.way {
            Direction::Encrypt => lock(&self.back).send(answers, answer_spans).map(drop),
            Direction::Decrypt => {
                other.send_back((answers, answer_spans));
                Ok(())
            }
        }
    }
}
