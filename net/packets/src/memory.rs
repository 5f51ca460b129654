//! Packets that never leave memory: for sides that have no interface, for tests, and for joining threads.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{PACKET_LEN_MAX, Received, Sent, Sink, Source, ip, packet_at};

/// Packets that a [`queue`] may hold.
pub const QUEUE_LEN_MAX: usize = 1 << 20;
/// Octets that a queue's packets may have together.
pub const OCTETS_MAX: usize = 1 << 30;
const _: () = assert!(OCTETS_MAX <= u32::MAX as usize - PACKET_LEN_MAX, "ends of packets are numbers of 32 bits");

/// Packets that lie behind each other.
#[derive(Debug, Default)]
struct Run {
    octets: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Run {
    fn push(&mut self, packet: &[u8]) {
        self.octets.extend_from_slice(packet);
        self.ends.push(self.octets.len() as u32);
    }

    fn packet(&self, at: usize) -> Option<&[u8]> {
        let start = if at == 0 { 0 } else { *self.ends.get(at - 1)? as usize };
        self.octets.get(start..*self.ends.get(at)? as usize)
    }

    fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
    }
}

/// A sink that counts packets and lets them go.
#[derive(Debug, Default)]
pub struct Discard {
    counters: Sent,
}

impl Sink for Discard {
    fn send(&mut self, buffer: &[u8], packets: &[[u32; 2]]) -> io::Result<usize> {
        for pair in packets {
            let packet = packet_at(buffer, *pair)?;
            self.counters.packets += 1;
            self.counters.octets += packet.len() as u64;
        }
        Ok(packets.len())
    }

    fn counters(&self) -> Sent {
        self.counters
    }
}

/// What both ends of a queue share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct State {
    run: Run,
    /// Whether an end is gone.
    is_closed: bool,
}

impl Shared {
    /// The state; a thread that panicked while it held the lock left it whole, since packets are appended by calls that do not fail between.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of a queue that packets are put into; as a sink it drops what has no room.
#[derive(Debug)]
pub struct QueueSink {
    shared: Arc<Shared>,
    packets_max: usize,
    octets_max: usize,
    counters: Sent,
}

/// The end of a queue that packets come out of.
#[derive(Debug)]
pub struct QueueSource {
    shared: Arc<Shared>,
    /// What was taken from the queue at once and is handed out now, without the lock.
    run: Run,
    at: usize,
    counters: Received,
}

/// A bounded queue: what is sent at one end is received at the other, in order.
///
/// At most `packets_max` packets of `octets_max` octets wait, and as many besides that the source has begun to hand out.
///
/// # Errors
/// `InvalidInput` beyond [`QUEUE_LEN_MAX`] or [`OCTETS_MAX`], or if nothing had room.
pub fn queue(packets_max: usize, octets_max: usize) -> io::Result<(QueueSink, QueueSource)> {
    let can_be = (1..=QUEUE_LEN_MAX).contains(&packets_max) && (ip::IPV4_HEADER_LEN..=OCTETS_MAX).contains(&octets_max);
    if !can_be {
        return Err(invalid("a queue of this length cannot be had"));
    }
    let shared = Arc::new(Shared::default());
    let sink = QueueSink { shared: Arc::clone(&shared), packets_max, octets_max, counters: Sent::default() };
    Ok((sink, QueueSource { shared, run: Run::default(), at: 0, counters: Received::default() }))
}

impl Sink for QueueSink {
    fn send(&mut self, buffer: &[u8], packets: &[[u32; 2]]) -> io::Result<usize> {
        let mut state = self.shared.lock();
        if state.is_closed {
            self.counters.refused += packets.len() as u64;
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let run = &mut state.run;
        let mut left = 0;
        for pair in packets {
            let packet = packet_at(buffer, *pair)?;
            if ip::packet_len(packet) != Some(packet.len()) {
                self.counters.not_ip += 1;
            } else if run.ends.len() >= self.packets_max || run.octets.len() + packet.len() > self.octets_max {
                self.counters.no_room += 1;
            } else {
                run.push(packet);
                self.counters.packets += 1;
                self.counters.octets += packet.len() as u64;
                left += 1;
            }
        }
        drop(state);
        if left > 0 {
            self.shared.filled.notify_one();
        }
        Ok(left)
    }

    fn counters(&self) -> Sent {
        self.counters
    }
}

impl Drop for QueueSink {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.filled.notify_one();
    }
}

impl QueueSource {
    /// Takes all that waits in exchange for the run that has been handed out, at most `wait` later.
    fn refill(&mut self, wait: Duration) {
        self.run.clear();
        self.at = 0;
        let until = Instant::now().checked_add(wait);
        let mut state = self.shared.lock();
        while state.run.ends.is_empty() && !state.is_closed {
            let left = until.map_or(wait, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            state = self.shared.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(&mut state.run, &mut self.run);
    }
}

impl Source for QueueSource {
    fn receive(&mut self, wait: Duration, take: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<usize> {
        if self.at == self.run.ends.len() {
            self.refill(wait);
        }
        let mut taken = 0;
        while let Some(packet) = self.run.packet(self.at) {
            if !take(packet) {
                break;
            }
            self.counters.octets += packet.len() as u64;
            self.at += 1;
            taken += 1;
        }
        self.counters.packets += taken as u64;
        Ok(taken)
    }

    fn counters(&self) -> Received {
        self.counters
    }

    fn is_ended(&self) -> bool {
        let state = self.shared.lock();
        state.is_closed && state.run.ends.is_empty() && self.at == self.run.ends.len()
    }
}

impl Drop for QueueSource {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
    }
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u32, len: usize) -> Vec<u8> {
        let mut packet = vec![0; len];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[16..20].copy_from_slice(&number.to_be_bytes());
        packet
    }

    fn number(packet: &[u8]) -> u32 {
        u32::from_be_bytes(packet[16..20].try_into().unwrap())
    }

    fn pairs(packets: &[Vec<u8>]) -> (Vec<u8>, Vec<[u32; 2]>) {
        let mut pairs = Vec::new();
        let mut buffer = Vec::new();
        for packet in packets {
            let start = buffer.len() as u32;
            buffer.extend(packet);
            pairs.push([start, buffer.len() as u32]);
        }
        (buffer, pairs)
    }

    #[test]
    fn sinks_count_by_reason() {
        let packets = [packet(0, 20), packet(1, 100), packet(2, 30), vec![1, 2, 3]];
        let (buffer, pairs) = pairs(&packets);
        let mut discard = Discard::default();
        assert_eq!(discard.send(&buffer, &pairs).unwrap(), 4);
        assert_eq!(discard.counters().octets, 153);
        let (mut sink, mut source) = queue(4, 60).unwrap();
        assert_eq!(sink.send(&buffer, &pairs).unwrap(), 2);
        let counters = sink.counters();
        assert_eq!((counters.no_room, counters.not_ip, counters.dropped(), counters.octets), (1, 1, 2, 50));
        for bad in [[0, buffer.len() as u32 + 1], [8, 4]] {
            assert_eq!(sink.send(&buffer, &[bad]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let mut seen = Vec::new();
        let mut take = |packet: &[u8]| {
            seen.push(number(packet));
            true
        };
        assert_eq!(source.receive(Duration::ZERO, &mut take).unwrap(), 2);
        assert_eq!(seen, [0, 2]);
        assert_eq!(source.receive(Duration::ZERO, &mut |_| panic!("nothing is left")).unwrap(), 0);
        assert!(queue(4, OCTETS_MAX + 1).is_err());
    }

    #[test]
    fn a_queue_is_bounded_and_ends_with_its_sink() {
        let packets = (0..6).map(|number| packet(number, 50)).collect::<Vec<_>>();
        let (buffer, pairs) = pairs(&packets);
        let (mut sink, mut source) = queue(4, 1000).unwrap();
        assert_eq!(sink.send(&buffer, &pairs).unwrap(), 4);
        assert_eq!(sink.counters().no_room, 2);
        let mut room = 3;
        let mut seen = Vec::new();
        let mut take = |packet: &[u8]| {
            room -= 1;
            if room >= 0 {
                seen.push(number(packet));
            }
            room >= 0
        };
        assert_eq!(source.receive(Duration::ZERO, &mut take).unwrap(), 3);
        drop(sink);
        assert!(!source.is_ended());
        assert_eq!(source.receive(Duration::ZERO, &mut |packet| number(packet) == 3).unwrap(), 1);
        assert!(source.is_ended());
        assert_eq!(source.receive(Duration::MAX, &mut |_| panic!("nothing is left")).unwrap(), 0);
        assert_eq!(seen, [0, 1, 2]);
        let (mut sink, source) = queue(4, 30).unwrap();
        assert_eq!(sink.send(&buffer, &pairs).unwrap(), 0);
        drop(source);
        assert_eq!(sink.send(&buffer, &pairs).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(sink.counters().refused, 6);
        assert!(queue(0, 1000).is_err());
    }

    #[test]
    fn a_queue_joins_threads_and_wakes_the_one_that_waits() {
        const PACKETS: u32 = 100_000;
        let (mut sink, mut source) = queue(256, 1 << 20).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut next = 0;
                while next < PACKETS {
                    let packets = (next..PACKETS.min(next + 32)).map(|number| packet(number, 64)).collect::<Vec<_>>();
                    let (buffer, pairs) = pairs(&packets);
                    next += sink.send(&buffer, &pairs).unwrap() as u32;
                }
            });
            let mut expected = 0;
            while !source.is_ended() {
                let mut take = |packet: &[u8]| {
                    assert_eq!(number(packet), expected);
                    expected += 1;
                    true
                };
                source.receive(Duration::from_secs(10), &mut take).unwrap();
            }
            assert_eq!(expected, PACKETS);
        });
    }

    #[test]
    fn waiting_is_bounded() {
        let (_sink, mut source) = queue(4, 1000).unwrap();
        let begin = Instant::now();
        assert_eq!(source.receive(Duration::from_millis(20), &mut |_| true).unwrap(), 0);
        assert!(begin.elapsed() >= Duration::from_millis(20));
    }
}
