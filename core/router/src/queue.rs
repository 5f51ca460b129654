//! `Queue`: which of the requests that wait is next, which share a batch with it, and whether it waits for others.
//!
//! Requests stand in *places*, one a place. The one is next whose client has had the least ([`FairClock`]): it has its start on the
//! virtual clock when it comes; among equals the one is first whose client has not had anything for the longest. Small requests of its kind go with it, in the same
//! order. Requests whose lanes go in step may wait for others, as [`window()`] says; a client that is alone never waits.
//!
//! Time is given by the caller, in nanoseconds since any moment of its choice, so that a service and a simulation decide the same. What is
//! known of a kind is kept as sums, and its requests in heaps: a decision takes as long with 100,000 places as with ten.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use smallvec::SmallVec;

use crate::fair::{FairClock, Turn};
use crate::window::{Arrivals, BatchTime, Gathering, window};

/// Operations and bytes up to which a request shares a batch with others.
const SMALL_OPS: u32 = 64;
const SMALL_BYTES: u32 = 16 << 10;

/// Operations of a shared batch of suites whose lanes do not go in step: the lanes are full with them.
const SHARED_OPS: u32 = 256;

/// Requests that are looked at in vain when a batch is filled: those behind them may be smaller, but there may be thousands.
const UNFIT_MAX: usize = 32;

/// From so many predicted nanoseconds on somebody else has to look for requests while a worker runs a batch.
pub const LONG_NS: f64 = 60_000.0;

/// What waking a worker takes, in nanoseconds.
const WAKE_NS: f64 = 30_000.0;

/// From so many bytes on a request is bulk: while others ask for short ones, a worker is left for those.
const BULK_BYTES: u32 = 64 << 10;

/// A caller who has not asked for so long is not expected back soon, in nanoseconds.
const CALLER_MEMORY_NS: u64 = 20_000_000;

/// What being collected costs an operation, in nanoseconds: a change of threads ([`Gathering::change_ns`]).
const CHANGE_NS: f64 = 3_000.0;

/// No place: the end of the list of callers.
const NOBODY: u32 = u32::MAX;

/// What batches are predicted to take. A kind is a suite and a direction, by any numbering that the caller has.
pub trait Times {
    /// What a batch takes; `None` where nothing is known.
    fn time(&self, kind: usize, ops: u64, bytes: u64) -> Option<BatchTime>;

    /// Operations that are paid for together on the engine that is best for a few; one where nothing is known.
    fn step(&self, kind: usize) -> u16;
}

/// Whoever has a place. A client may have several, with one turn.
pub trait Owner {
    /// Where the client stands on the virtual clock.
    fn turn(&self) -> Turn;

    /// Puts it there.
    fn set_turn(&mut self, turn: Turn);

    /// The client's share of the time beside those of others; above zero.
    fn weight(&self) -> f64;
}

/// What a queue is opened with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueOptions {
    /// Kinds of requests.
    pub kinds: usize,
    /// Whoever runs requests; of several, one is left for others than slow requests.
    pub workers: usize,
    /// The longest window in nanoseconds; with zero there are none.
    pub window_max_ns: u64,
    /// Nanoseconds that a batch is predicted to take at most, unless it is one request.
    pub batch_ns_max: f64,
}

/// A request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The number of its suite and direction.
    pub kind: usize,
    /// What tells apart suites of one kind, which share no batch: FF1's radix.
    pub variant: u32,
    /// Operations.
    pub ops: u32,
    /// Bytes of all of them.
    pub bytes: u32,
    /// Whether a worker must be left for others beside it.
    pub slow: bool,
}

/// A request that was given out and is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    place: u32,
    era: u32,
    slow: bool,
}

/// What is next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Nothing waits that may be given out.
    Nothing,
    /// All that wait, wait for others: until this time, if nobody comes.
    Held {
        /// Nanoseconds on the caller's clock.
        until_ns: u64,
    },
    /// Requests were given out, to be run as one batch.
    Batch {
        /// What the batch will probably take, in nanoseconds.
        predicted_ns: f64,
    },
}

/// The requests that wait.
#[derive(Debug)]
pub struct Queue<O> {
    options: QueueOptions,
    clock: FairClock,
    places: Vec<Option<Place<O>>>,
    /// Places that nobody has.
    free: Vec<u32>,
    /// How often a place was given away, over all of them.
    eras: u32,
    kinds: Vec<Kind>,
    /// The kinds with requests that wait.
    active: Vec<u32>,
    /// Requests that wait: all others, and slow ones.
    waiting: [usize; 2],
    /// Slow requests that workers are at, and how many those may be.
    slow: usize,
    slow_max: usize,
    /// Requests that have ever come.
    arrived: u64,
    /// When a small request came last.
    last_small: Option<u64>,
    /// The places that have asked of late, the one that has not for the longest first.
    eldest: u32,
    latest: u32,
}

#[derive(Debug)]
struct Place<O> {
    owner: O,
    era: u32,
    /// The request that is next, not yet given out.
    head: Option<Waiting>,
    in_flight: u32,
    /// What it asked for last, and when; only while that was of late.
    last: Option<(usize, u64)>,
    /// Its neighbours among those that have asked of late.
    before: u32,
    behind: u32,
}

/// Requests of one suite and direction, over all places.
#[derive(Clone, Debug, Default)]
struct Kind {
    arrivals: Arrivals,
    last: Option<u64>,
    /// Until when those that wait wait for more.
    until: Option<u64>,
    /// Operations and bytes that wait, and the places that they wait in.
    ops: u64,
    bytes: u64,
    waiting: u64,
    /// Places that have asked for this kind of late and wait for nothing.
    expected: u64,
    /// The requests, by [`Class`].
    heaps: [BinaryHeap<Entry>; 3],
}

/// What may be done with a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// It shares batches.
    Small,
    /// It does not.
    Large,
    /// Nor that, and it is given out only while a worker is left for others.
    Slow,
}

/// A request among those of its kind and class.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    start: f64,
    /// When the client's request before it ended on the virtual clock.
    finish: f64,
    arrived: u64,
    place: u32,
}

impl Eq for Entry {}

/// The greatest is the one that is next.
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        let starts = other.start.total_cmp(&self.start);
        starts.then(other.finish.total_cmp(&self.finish)).then(other.arrived.cmp(&self.arrived))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Waiting {
    /// Whether it shares batches.
    #[inline]
    pub fn is_small(&self) -> bool {
        self.ops <= SMALL_OPS && self.bytes <= SMALL_BYTES
    }

    fn class(&self) -> Class {
        match (self.slow, self.is_small()) {
            (true, _) => Class::Slow,
            (false, true) => Class::Small,
            (false, false) => Class::Large,
        }
    }
}

impl<O: Owner> Queue<O> {
    /// A queue without places.
    pub fn new(options: QueueOptions) -> Queue<O> {
        Queue {
            options,
            clock: FairClock::default(),
            places: Vec::new(),
            free: Vec::new(),
            eras: 0,
            kinds: vec![Kind::default(); options.kinds],
            active: Vec::new(),
            waiting: [0; 2],
            slow: 0,
            slow_max: options.workers.saturating_sub(1).max(1),
            arrived: 0,
            last_small: None,
            eldest: NOBODY,
            latest: NOBODY,
        }
    }

    /// Gives a place away. Its number may be that of one which was given back.
    pub fn add(&mut self, owner: O) -> usize {
        self.eras = self.eras.wrapping_add(1);
        let place =
            Place { owner, era: self.eras, head: None, in_flight: 0, last: None, before: NOBODY, behind: NOBODY };
        if let Some(at) = self.free.pop() {
            self.places[at as usize] = Some(place);
            return at as usize;
        }
        self.places.push(Some(place));
        self.places.len() - 1
    }

    /// Takes a place back, with the request that waits there. What was given out goes on.
    pub fn remove(&mut self, at: usize) -> Option<O> {
        let place = self.places.get(at)?.as_ref()?;
        if let Some(head) = place.head {
            self.kinds[head.kind].heaps[head.class() as usize].retain(|entry| entry.place as usize != at);
            self.leaves(&head);
        } else {
            self.not_expected(at);
        }
        self.unlink(at);
        self.free.push(at as u32);
        self.places[at].take().map(|place| place.owner)
    }

    /// Whoever has the place.
    #[inline]
    pub fn owner(&self, at: usize) -> Option<&O> {
        Some(&self.places.get(at)?.as_ref()?.owner)
    }

    /// The same, to be changed.
    #[inline]
    pub fn owner_mut(&mut self, at: usize) -> Option<&mut O> {
        Some(&mut self.places.get_mut(at)?.as_mut()?.owner)
    }

    /// All that have places.
    pub fn owners(&self) -> impl Iterator<Item = (usize, &O)> {
        self.places.iter().enumerate().filter_map(|(at, place)| Some((at, &place.as_ref()?.owner)))
    }

    /// Whether a request waits in the place.
    #[inline]
    pub fn waits(&self, at: usize) -> bool {
        self.place(at).is_some_and(|place| place.head.is_some())
    }

    /// Requests of the place that were given out and are not done.
    #[inline]
    pub fn in_flight(&self, at: usize) -> u32 {
        self.place(at).map_or(0, |place| place.in_flight)
    }

    /// Requests that wait.
    pub fn len(&self) -> usize {
        self.waiting[0] + self.waiting[1]
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Requests that wait and may be given out: slow ones only while a worker is left for others.
    #[inline]
    pub fn ready(&self) -> usize {
        self.waiting[0] + if self.slow < self.slow_max { self.waiting[1] } else { 0 }
    }

    /// Whether another worker should be woken for what waits, while one is at a batch that is predicted to take so long. What is short that
    /// one has done itself before another is awake, who would take the core from a client.
    #[inline]
    pub fn wants_another(&self, predicted_ns: f64) -> bool {
        self.ready() as f64 * predicted_ns > WAKE_NS
    }

    /// Whether the place's request may be given out.
    #[inline]
    pub fn is_ready(&self, at: usize) -> bool {
        let head = self.place(at).and_then(|place| place.head);
        head.is_some_and(|head| !head.slow || self.slow < self.slow_max)
    }

    #[inline]
    fn place(&self, at: usize) -> Option<&Place<O>> {
        self.places.get(at)?.as_ref()
    }

    /// A request of a known kind has come in a place that somebody has and where none waits; else it is not taken, and the answer is
    /// false. Bulk is slow while others ask for short ones.
    #[must_use]
    pub fn arrive(&mut self, at: usize, request: Waiting, now_ns: u64) -> bool {
        let Some(place) = self.place(at).filter(|place| place.head.is_none()) else { return false };
        if request.kind >= self.kinds.len() {
            return false;
        }
        let turn = place.owner.turn();
        let (start, finish) = (self.clock.start(&turn), turn.finish());
        let mut head = request;
        if head.is_small() {
            self.last_small = Some(now_ns);
        } else if head.bytes >= BULK_BYTES {
            head.slow |= self.last_small.is_some_and(|at| now_ns.saturating_sub(at) < CALLER_MEMORY_NS);
        }
        self.not_expected(at);
        self.unlink(at);
        self.link(at, (head.kind, now_ns));
        if let Some(place) = &mut self.places[at] {
            place.head = Some(head);
        }
        self.arrived += 1;
        self.waiting[usize::from(head.slow)] += 1;
        let kind = &mut self.kinds[head.kind];
        kind.arrived(now_ns, self.options.window_max_ns);
        if kind.waiting == 0 {
            self.active.push(head.kind as u32);
        }
        kind.waiting += 1;
        kind.ops += u64::from(head.ops);
        kind.bytes += u64::from(head.bytes);
        kind.heaps[head.class() as usize].push(Entry { start, finish, arrived: self.arrived, place: at as u32 });
        true
    }

    /// Gives out the request that is next and those that go with it, each by a call of `give`: to be run as one batch, and told by
    /// [`Queue::done`].
    pub fn next(&mut self, times: &impl Times, now_ns: u64, give: impl FnMut(&mut O, &Waiting, Ticket)) -> Next {
        if self.ready() == 0 {
            return Next::Nothing;
        }
        self.forget(now_ns);
        let mut tops: SmallVec<[(Entry, usize, Class); 16]> = SmallVec::new();
        for index in 0..self.active.len() {
            let kind = self.active[index] as usize;
            tops.extend(self.top(kind).map(|(entry, class)| (entry, kind, class)));
        }
        tops.sort_unstable_by_key(|(entry, ..)| Reverse(*entry));
        let mut until_ns = u64::MAX;
        for (entry, kind, class) in tops {
            match self.kinds[kind].waits(times, kind, now_ns, self.options.window_max_ns) {
                Some(until) => until_ns = until_ns.min(until),
                None => {
                    self.clock.advance(entry.start);
                    return Next::Batch { predicted_ns: self.collect(kind, class, times, give) };
                }
            }
        }
        Next::Held { until_ns }
    }

    /// A request is done.
    pub fn done(&mut self, ticket: Ticket) {
        self.slow -= usize::from(ticket.slow);
        let Some(Some(place)) = self.places.get_mut(ticket.place as usize) else { return };
        if place.era != ticket.era {
            return;
        }
        place.in_flight -= 1;
        if place.in_flight == 0
            && place.head.is_none()
            && let Some((kind, _)) = place.last
        {
            self.kinds[kind].expected += 1;
        }
    }

    /// The request of a kind that is next.
    fn top(&mut self, kind: usize) -> Option<(Entry, Class)> {
        let slow = self.slow < self.slow_max;
        let classes =
            [Class::Small, Class::Large, Class::Slow].into_iter().filter(|class| slow || *class != Class::Slow);
        let tops = classes.filter_map(|class| {
            let heap = &mut self.kinds[kind].heaps[class as usize];
            settle(heap, &self.places);
            Some((*heap.peek()?, class))
        });
        tops.max_by(|a, b| a.0.cmp(&b.0))
    }

    /// Gives out the first request of a kind and class, and those that go with it; what all of them are predicted to take.
    fn collect(
        &mut self,
        kind: usize,
        class: Class,
        times: &impl Times,
        mut give: impl FnMut(&mut O, &Waiting, Ticket),
    ) -> f64 {
        let Some(first) = self.kinds[kind].heaps[class as usize].pop() else { return 0.0 };
        let Some(first) = self.give(first.place, times, &mut give) else { return 0.0 };
        let room = shared_ops(times.step(kind));
        let (mut ops, mut bytes) = (first.ops, u64::from(first.bytes));
        let mut unfit: SmallVec<[Entry; UNFIT_MAX]> = SmallVec::new();
        while class == Class::Small && ops < room && unfit.len() < UNFIT_MAX {
            let heap = &mut self.kinds[kind].heaps[Class::Small as usize];
            settle(heap, &self.places);
            let Some(entry) = heap.pop() else { break };
            let Some(head) = self.place(entry.place as usize).and_then(|place| place.head) else { continue };
            let (all_ops, all_bytes) = (ops + head.ops, bytes + u64::from(head.bytes));
            let fits = head.variant == first.variant && all_ops <= room && {
                let ns = times.time(kind, all_ops.into(), all_bytes).map_or(0.0, |time| time.ns);
                ns <= self.options.batch_ns_max
            };
            if fits {
                self.give(entry.place, times, &mut give);
                (ops, bytes) = (all_ops, all_bytes);
            } else {
                unfit.push(entry);
            }
        }
        self.kinds[kind].heaps[Class::Small as usize].extend(unfit);
        self.kinds[kind].until = None;
        times.time(kind, ops.into(), bytes).map_or(0.0, |time| time.ns)
    }

    /// Gives out a place's request, on its client's account.
    fn give(
        &mut self,
        at: u32,
        times: &impl Times,
        give: &mut impl FnMut(&mut O, &Waiting, Ticket),
    ) -> Option<Waiting> {
        let place = self.places.get_mut(at as usize)?.as_mut()?;
        let head = place.head.take()?;
        place.in_flight += 1;
        let work_ns = times.time(head.kind, head.ops.into(), head.bytes.into()).map_or(1.0, |time| time.ns);
        let mut turn = place.owner.turn();
        self.clock.serve(&mut turn, work_ns, place.owner.weight());
        place.owner.set_turn(turn);
        give(&mut place.owner, &head, Ticket { place: at, era: place.era, slow: head.slow });
        self.slow += usize::from(head.slow);
        self.leaves(&head);
        Some(head)
    }

    /// A request waits no longer.
    fn leaves(&mut self, head: &Waiting) {
        self.waiting[usize::from(head.slow)] -= 1;
        let kind = &mut self.kinds[head.kind];
        kind.waiting -= 1;
        kind.ops -= u64::from(head.ops);
        kind.bytes -= u64::from(head.bytes);
        if kind.waiting == 0 {
            self.active.retain(|active| *active as usize != head.kind);
        }
    }

    /// Forgets who has not asked for long.
    fn forget(&mut self, now_ns: u64) {
        while let Some(place) = self.place(self.eldest as usize)
            && place.last.is_some_and(|(_, at)| now_ns.saturating_sub(at) >= CALLER_MEMORY_NS)
        {
            let at = self.eldest as usize;
            self.not_expected(at);
            self.unlink(at);
        }
    }

    /// Counts a place no longer among those that may ask again.
    fn not_expected(&mut self, at: usize) {
        if let Some(Some(place)) = self.places.get(at)
            && place.head.is_none()
            && place.in_flight == 0
            && let Some((kind, _)) = place.last
        {
            self.kinds[kind].expected -= 1;
        }
    }

    /// Takes a place out of the list of those that have asked of late, if it is there.
    fn unlink(&mut self, at: usize) {
        let Some(Some(place)) = self.places.get_mut(at) else { return };
        if place.last.take().is_none() {
            return;
        }
        let (before, behind) = (place.before, place.behind);
        match self.places.get_mut(before as usize) {
            Some(Some(place)) => place.behind = behind,
            _ => self.eldest = behind,
        }
        match self.places.get_mut(behind as usize) {
            Some(Some(place)) => place.before = before,
            _ => self.latest = before,
        }
    }

    /// Puts a place at the end of that list.
    fn link(&mut self, at: usize, last: (usize, u64)) {
        let before = core::mem::replace(&mut self.latest, at as u32);
        match self.places.get_mut(before as usize) {
            Some(Some(place)) => place.behind = at as u32,
            _ => self.eldest = at as u32,
        }
        if let Some(place) = &mut self.places[at] {
            (place.last, place.before, place.behind) = (Some(last), before, NOBODY);
        }
    }
}

/// Operations that a shared batch has at most, where `step` of them are paid for together.
#[inline]
pub fn shared_ops(step: u16) -> u32 {
    if step > 1 { step.into() } else { SHARED_OPS }
}

/// Has the first request of a heap stand where it belongs: a client that was served in another of its places is later than it was.
#[inline]
fn settle<O: Owner>(heap: &mut BinaryHeap<Entry>, places: &[Option<Place<O>>]) {
    while let Some(mut first) = heap.peek_mut() {
        let Some(place) = &places[first.place as usize] else { return };
        let finish = place.owner.turn().finish();
        if finish <= first.start {
            return;
        }
        (first.start, first.finish) = (finish, finish);
    }
}

impl Kind {
    fn arrived(&mut self, now_ns: u64, window_max_ns: u64) {
        if let Some(last) = self.last {
            let gap = now_ns.saturating_sub(last) as f64;
            self.arrivals = self.arrivals.after(gap, window_max_ns as f64);
        }
        self.last = Some(now_ns);
    }

    /// Until when the requests of this kind wait for more; `None` when they do not.
    fn waits(&mut self, times: &impl Times, kind: usize, now_ns: u64, window_max_ns: u64) -> Option<u64> {
        let (ops, callers) = (self.ops, self.waiting + self.expected);
        let step = u64::from(times.step(kind));
        if step <= 1 || ops >= step || callers <= ops {
            return None;
        }
        if let Some(until) = self.until {
            return (now_ns < until).then_some(until);
        }
        let gathering =
            Gathering { ops, callers, arrivals: self.arrivals, max_ns: window_max_ns as f64, change_ns: CHANGE_NS };
        let len = self.bytes / ops.max(1);
        let unknown = BatchTime { ns: 0.0, step: 1 };
        let window = window(&gathering, |ops| times.time(kind, ops, ops * len).unwrap_or(unknown))?;
        let until = now_ns + window.ns as u64;
        self.until = Some(until);
        Some(until)
    }
}

#[cfg(test)]
mod tests;
