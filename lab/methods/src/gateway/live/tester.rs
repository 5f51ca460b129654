//! The generator and the counter: both ends of the path in one busy loop on one core.
//!
//! One thread has both ends, so that sending and receiving have one clock and nobody waits to be woken. Sockets stay in the namespaces
//! that they were opened in.

use std::io;
use std::time::{Duration, Instant};

use ciphermill_packets::af_packet::{LinkSink, RingSource, SinkOptions, SourceOptions};
use ciphermill_packets::filter::Filter;
use ciphermill_packets::takeover::Takeover;
use ciphermill_packets::{Sink, Source};
use hdrhistogram::Histogram;
use rustix::process::{getpriority_process, setpriority_process};
use rustix::time::{ClockId, clock_gettime};

use super::frame::{Frame, Packets, Stamp, has_mark};
use super::ground::{Ground, INSIDE, OUTSIDE, SIDES, Side, URGENT};
use super::pace::{BURST, Missed, Pace, Rate};
use super::tally::{Counts, Tally, times};

/// Packets that are received before the loop looks whether one is due.
const DRAIN: usize = 64;
/// Once nothing has come for so long after a trial, nothing will.
const QUIET: Duration = Duration::from_millis(50);
/// How long is waited at most for what is under way (RFC 2544, section 23).
pub(super) const RESIDUE_MAX: Duration = Duration::from_secs(2);
/// A trial ends after so many times its duration, whatever is left to be sent.
const OVERRUN: u32 = 2;
/// Packets a second for which a flood's counter has room at the beginning.
const FLOOD_PPS: f64 = 3e6;

/// Which ways packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From left to right: one gateway protects, the other one opens.
    OneWay,
    /// Both ways at once, half of the packets each: both gateways do both.
    BothWays,
}

impl Direction {
    /// As measurements are called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Direction::OneWay => "one-way",
            Direction::BothWays => "both-ways",
        }
    }

    fn senders(self) -> usize {
        match self {
            Direction::OneWay => 1,
            Direction::BothWays => 2,
        }
    }
}

/// What is offered in a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// Of both ways together.
    pub(super) rate: Rate,
    pub(super) missed: Missed,
    pub(super) duration: Duration,
    /// After how much of it times count.
    pub(super) after: Duration,
    /// How long after the last packet others may come.
    pub(super) grace: Duration,
}

/// What was counted in a trial.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// Packets that the rate demanded, but for those that were left out.
    pub(super) offered: u64,
    pub(super) left_out: u64,
    /// For how long they were sent.
    pub(super) duration: Duration,
    /// By how much one of them was sent late at most.
    pub(super) lag_max: Duration,
    pub(super) counts: Counts,
    /// In nanoseconds.
    pub(super) times: Histogram<u64>,
}

/// What times count from, by the clock of the kernel's stamps: packets are received when the kernel has them, whenever the generator looks.
///
/// It is the wall clock. Somebody who sets it during a trial changes the times of the packets that are under way then.
#[derive(Clone, Copy)]
struct Origin(u64);

impl Origin {
    fn now() -> Origin {
        Origin(wall_ns())
    }

    fn elapsed_ns(self) -> u64 {
        self.since(wall_ns())
    }

    fn since(self, wall_ns: u64) -> u64 {
        wall_ns.saturating_sub(self.0)
    }
}

fn wall_ns() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

struct End {
    sink: LinkSink,
    source: RingSource,
    packets: Packets,
    /// The next one to be sent.
    at: usize,
    pace: Pace,
    tally: Tally,
    /// Keeps the host's kernel from looking at what is counted here.
    _takeover: Option<Takeover>,
}

/// Both ends of the path.
pub(super) struct Tester {
    ends: [End; 2],
    /// What passes between the gateways, where it is looked at.
    wire: Option<RingSource>,
    direction: Direction,
    origin: Origin,
    trial: u16,
}

impl Tester {
    /// Opens both ends.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn open(ground: &Ground, frame: Frame, direction: Direction) -> io::Result<Tester> {
        let [west, east] = SIDES;
        let ends = [End::open(ground, west, 0, frame)?, End::open(ground, east, 1, frame)?];
        let options = SourceOptions { filter: Filter::Ip, frames: 256, ..SourceOptions::default() };
        let wire = ground.lab.within(east.name(), || RingSource::open(OUTSIDE, &options))??;
        Ok(Tester { ends, wire: Some(wire), direction, origin: Origin::now(), trial: 0 })
    }

    /// Sends a few packets each way and says whether all ends have some, and whether some could be read between the gateways.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn probe(&mut self) -> io::Result<Probe> {
        let (rate, duration) = (Rate::PerSecond(1000.0), Duration::from_millis(20));
        let missed = Missed::MadeUpFor;
        self.offer_ways(Offer { rate, missed, duration, after: Duration::ZERO, grace: duration }, Direction::BothWays)?;
        let (mut is_clear, mut seen) = (false, 0);
        if let Some(wire) = &mut self.wire {
            wire.receive(Duration::ZERO, &mut |packet| {
                is_clear |= has_mark(packet);
                seen += 1;
                true
            })?;
        }
        Ok(Probe { passes: self.ends.iter().all(|end| end.tally.arrived() > 0), is_clear, seen })
    }

    /// Ends looking at what passes between the gateways, which costs them time.
    pub(super) fn stop_looking(&mut self) {
        self.wire = None;
    }

    /// One trial. What is under way afterwards is waited for.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn offer(&mut self, offer: Offer) -> io::Result<Counted> {
        let _urgent = Urgent::begin();
        self.offer_ways(offer, self.direction)
    }

    fn offer_ways(&mut self, offer: Offer, direction: Direction) -> io::Result<Counted> {
        let senders = direction.senders();
        let rate = match offer.rate {
            Rate::PerSecond(pps) => Rate::PerSecond(pps / senders as f64),
            Rate::Flood => Rate::Flood,
            // An odd packet is not sent.
            Rate::Burst(packets) => Rate::Burst((packets / senders as u64).max(1)),
        };
        self.trial = self.trial.wrapping_add(1);
        let origin = self.origin;
        for end in &mut self.ends {
            end.begin(self.trial, rate, &offer, origin)?;
        }
        let begun = Instant::now();
        let elapsed = loop {
            let elapsed = begun.elapsed();
            let mut is_done = true;
            for (number, end) in self.ends.iter_mut().enumerate() {
                if number < senders && !end.is_over(elapsed, offer.duration) {
                    is_done = false;
                    end.send_due(begun, origin, self.trial, number as u8)?;
                }
                end.drain(origin)?;
            }
            if is_done || elapsed > OVERRUN * offer.duration {
                break elapsed;
            }
        };
        let closes_ns = origin.elapsed_ns() + offer.grace.as_nanos() as u64;
        self.ends.iter_mut().for_each(|end| end.tally.close(closes_ns));
        self.residue()?;
        Ok(self.counted(senders, elapsed.max(offer.duration)))
    }

    /// Receives what is under way, until nothing has come for a while.
    fn residue(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        let mut last = begun;
        while last.elapsed() < QUIET && begun.elapsed() < RESIDUE_MAX {
            for end in &mut self.ends {
                if end.drain(self.origin)? > 0 {
                    last = Instant::now();
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::expect_used, reason = "only a histogram of other bounds is refused")]
    fn counted(&self, senders: usize, duration: Duration) -> Counted {
        let mut sum = Counted {
            offered: 0,
            left_out: 0,
            duration,
            lag_max: Duration::ZERO,
            counts: Counts::default(),
            times: times(),
        };
        for end in self.ends.iter().take(senders) {
            sum.offered += end.pace.offered();
            sum.left_out += end.pace.left_out;
            sum.lag_max = sum.lag_max.max(end.pace.lag_max());
        }
        for end in &self.ends {
            sum.counts.add(&end.tally.counts);
            sum.times.add(&end.tally.times).expect("the same bounds");
        }
        sum
    }
}

/// Keeps other programs from taking the generator's core while it sends, where this process may ask for that: each of their turns would be
/// a pause, and a burst afterwards.
struct Urgent(Option<i32>);

impl Urgent {
    fn begin() -> Urgent {
        let before = getpriority_process(None).ok();
        Urgent(before.filter(|_| setpriority_process(None, URGENT).is_ok()))
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // What was allowed before is allowed again.
        let _restored = self.0.map(|before| setpriority_process(None, before));
    }
}

/// What a few packets have shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) passes: bool,
    pub(super) is_clear: bool,
    /// Packets that were looked at between the gateways.
    pub(super) seen: usize,
}

impl End {
    fn open(ground: &Ground, side: Side, number: u8, frame: Frame) -> io::Result<End> {
        let sink = ground.lab.within(side.host(), || LinkSink::open(INSIDE, &SinkOptions::default()))??;
        let options = SourceOptions { filter: Filter::Ip, ..SourceOptions::default() };
        let source = ground.lab.within(side.host(), || RingSource::open(INSIDE, &options))??;
        // Without it the kernel finds that no host has the address, which takes a little longer.
        let takeover = ground.lab.within(side.host(), || Takeover::new(INSIDE, Filter::Ip, &[]))?.ok();
        let packets = Packets::new(frame, 2 * BURST as usize, side.station(), side.peer().station());
        let pace = Pace::new(Rate::Flood, Duration::ZERO, Missed::MadeUpFor);
        Ok(End { sink, source, packets, at: 0, pace, tally: Tally::new(1 - number), _takeover: takeover })
    }

    /// Takes what an earlier trial has left, and begins one.
    fn begin(&mut self, trial: u16, rate: Rate, offer: &Offer, origin: Origin) -> io::Result<()> {
        self.pace = Pace::new(rate, offer.duration, offer.missed);
        let room = self.pace.total.unwrap_or((FLOOD_PPS * offer.duration.as_secs_f64()) as u64);
        while self.drain(origin)? > 0 {}
        let settled_ns = origin.elapsed_ns() + offer.after.as_nanos() as u64;
        self.tally.begin(trial, room as usize, settled_ns);
        Ok(())
    }

    /// Whether it has sent all: as many as the rate demands, or for as long as a flood lasts.
    fn is_over(&self, elapsed: Duration, duration: Duration) -> bool {
        self.pace.is_done() || self.pace.total.is_none() && elapsed >= duration
    }

    fn send_due(&mut self, begun: Instant, origin: Origin, trial: u16, end: u8) -> io::Result<()> {
        let due = self.pace.due(begun.elapsed().as_nanos() as u64);
        if due == 0 {
            return Ok(());
        }
        // Up to where the packets begin again.
        let due = (due as usize).min(self.packets.spans.len().saturating_sub(self.at));
        let sent_ns = origin.elapsed_ns();
        for at in self.at..self.at + due {
            let number = self.pace.sent as u32;
            self.packets.stamp(at, Stamp { trial, end, number, sent_ns });
            self.pace.sent += 1;
        }
        // What the other side has no room for has left the generator all the same, and is lost.
        self.sink.send(&self.packets.buffer, self.packets.spans.get(self.at..self.at + due).unwrap_or_default())?;
        self.at = (self.at + due) % self.packets.spans.len().max(1);
        Ok(())
    }

    fn drain(&mut self, origin: Origin) -> io::Result<usize> {
        let (tally, mut taken) = (&mut self.tally, 0);
        self.source.receive_with_times(Duration::ZERO, |packet, received_ns| {
            if taken == DRAIN {
                return false;
            }
            taken += 1;
            if let Some(stamp) = Stamp::of(packet) {
                tally.take(stamp, packet.len(), origin.since(received_ns));
            }
            true
        })
    }
}
