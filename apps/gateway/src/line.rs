//! One way through the gateway: workers that take turns.
//!
//! A worker receives a burst and has it begun while it holds the line's input; then the next worker receives, while this one encrypts. Bursts
//! are committed and sent in the order in which they were begun. So packets stay in order, one association keeps several cores busy, and nothing
//! that is not cryptography needs more than one lock a burst.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ciphermill::Session;
use ciphermill_contract::Direction;
use ciphermill_esp::{Burst, Tunnels};
use ciphermill_packets::Source;

use crate::ports::SharedSink;

/// How long a worker waits for a packet before it looks whether to stop.
const WAIT: Duration = Duration::from_millis(20);

/// Looks for the turn before the processor is given to others.
const SPINS: u32 = 200;

/// ICMP errors that wait for the other way at most.
const RETURNED_MAX: usize = 1024;

/// Locks, whatever happened to a thread that held it: what is locked here is counted or looked at, and stays whole.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes into a line.
struct Input {
    source: Box<dyn Source>,
    next: u64,
}

/// One way.
pub struct Line {
    way: Direction,
    input: Mutex<Input>,
    sink: SharedSink,
    /// Where ICMP errors go: back.
    back: SharedSink,
    /// The burst whose turn it is to be committed.
    turn: AtomicU64,
    /// Packets that go this way though they came the other one.
    returned: Mutex<Vec<Vec<u8>>>,
    stop: AtomicBool,
    has_failed: AtomicBool,
}

impl Line {
    /// From a source to a sink. `Encrypt` goes out, and its ICMP errors to `back`; those of the other way are for the far end, and go out through
    /// the tunnel: see [`Line::send_back`].
    pub fn new(way: Direction, source: Box<dyn Source>, sink: SharedSink, back: SharedSink) -> Line {
        Line {
            way,
            input: Mutex::new(Input { source, next: 0 }),
            sink,
            back,
            turn: AtomicU64::new(0),
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
        (lock(&self.input).source.counters(), lock(&self.sink).counters())
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
        let ticket = {
            let mut input = lock(&self.input);
            for packet in core::mem::take(&mut *lock(&self.returned)) {
                // Those that have no room were errors only.
                burst.push(&packet);
            }
            let wait = if burst.is_empty() { WAIT } else { Duration::ZERO };
            input.source.receive(wait, &mut |packet| burst.push(packet))?;
            if burst.is_empty() {
                if input.source.is_ended() {
                    self.stop();
                }
                return Ok(());
            }
            let now = epoch.elapsed();
            match self.way {
                Direction::Encrypt => lock(tunnels).begin_outbound(burst, now),
                Direction::Decrypt => lock(tunnels).begin_inbound(burst, now),
            }
            input.next += 1;
            input.next - 1
        };
        if let Err(error) = burst.crypt(session) {
            tracing::warn!(%error, "packets were lost");
        }
        self.wait_for(ticket);
        let sent = self.commit(tunnels, burst, other);
        self.turn.store(ticket + 1, Ordering::Release);
        sent
    }

    fn wait_for(&self, ticket: u64) {
        let mut spins = 0;
        while self.turn.load(Ordering::Acquire) != ticket {
            spins += 1;
            if spins < SPINS { core::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    fn commit(&self, tunnels: &Mutex<Tunnels>, burst: &mut Burst, other: &Line) -> io::Result<()> {
        match self.way {
            Direction::Encrypt => lock(tunnels).commit_outbound(burst),
            Direction::Decrypt => lock(tunnels).commit_inbound(burst),
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
