//! Which requests come next, and which share a batch.
//!
//! Channels whose clients asked of late are looked at; all others have to ring. Of the requests that wait the one is next whose client
//! has had the least ([`FairClock`]), and those of others with its suite and direction go with it, as long as all are small. Operations
//! whose lanes go in step may wait for others, as [`window`] says; a client that is alone never waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ciphermill_channel::{ONE_LEN_MAX, Outcome, Position, REQUEST_NS_MAX, Request, SLOTS, Taken};
use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_router::{Arrivals, FairClock, Gathering, window};
use smallvec::SmallVec;

use crate::client::ClientChannel;
use crate::offers::{Offers, Prediction};

/// Operations and bytes up to which a request shares a batch with others.
const SMALL_OPS: u32 = 64;
const SMALL_BYTES: u32 = 16 << 10;

/// Operations of a shared batch of suites whose lanes do not go in step: the lanes are full with them.
const SHARED_OPS: u32 = 256;

/// From so many nanoseconds on somebody else has to look at the channels while a worker runs a batch.
const LONG_NS: f64 = 60_000.0;

/// From so many bytes on a request is bulk: while others ask for short ones, a worker is left for those.
const BULK_BYTES: u32 = 64 << 10;

/// A caller who has not asked for so long is not expected back soon.
const CALLER_MEMORY: Duration = Duration::from_millis(20);

/// What being collected costs an operation, in nanoseconds: a change of threads ([`Gathering::change_ns`]).
const CHANGE_NS: f64 = 3_000.0;

/// Requests of all channels, and where they stand. Held by all workers.
pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// Workers that look at the channels, or will in less than [`LONG_NS`].
    on_watch: AtomicUsize,
    window_max: Duration,
}

struct Inner {
    /// The channels; where one has gone, another one comes.
    places: Vec<Option<Place>>,
    /// Where each is among them, by its number.
    by_id: HashMap<u64, usize>,
    /// The channels that are looked at.
    awake: Vec<usize>,
    clock: FairClock,
    /// By [`kind_index`].
    kinds: Vec<Kind>,
    /// Slow requests that workers are at, and how many those may be: one worker is left for all others.
    slow: usize,
    slow_max: usize,
    /// When a small request came last.
    last_small: Option<Instant>,
}

/// A channel at the desk.
struct Place {
    channel: Arc<ClientChannel>,
    position: Position,
    /// The request that is next, taken and not yet given out.
    head: Option<Taken>,
    /// Whether a worker must be left for others beside it: it takes longer than [`REQUEST_NS_MAX`], as a single operation may, or is bulk
    /// while others ask for short ones.
    slow: bool,
    in_flight: u32,
    /// What it asked for last, and when.
    last: Option<(usize, Instant)>,
}

/// Operations of one suite and direction, over all clients.
#[derive(Clone, Default)]
struct Kind {
    arrivals: Arrivals,
    last: Option<Instant>,
    /// Until when those that wait wait for more.
    until: Option<Instant>,
}

/// A request of a batch.
pub(crate) struct Part {
    pub(crate) channel: Arc<ClientChannel>,
    /// Where the channel is at the desk.
    place: usize,
    pub(crate) number: u32,
    pub(crate) request: Request,
    slow: bool,
}

/// What a worker is to do.
pub(crate) enum Next {
    /// To run these, all of one suite and direction; `long` if it has left the watch for them. `more` says that other requests wait,
    /// `crowded` that other clients have asked of late.
    Run { parts: Vec<Part>, long: bool, more: bool, crowded: bool },
    /// To look again: some wait for others.
    Soon,
    /// To look again, or to sleep after a while.
    Nothing,
}

impl Desk {
    /// A desk for so many workers.
    pub(crate) fn new(window_max: Duration, workers: usize) -> Desk {
        let inner = Inner {
            places: Vec::new(),
            by_id: HashMap::new(),
            awake: Vec::new(),
            clock: FairClock::default(),
            kinds: vec![Kind::default(); 2 * SUITE_ORDINALS_MAX],
            slow: 0,
            slow_max: workers.saturating_sub(1).max(1),
            last_small: None,
        };
        Desk { inner: Mutex::new(inner), on_watch: AtomicUsize::new(0), window_max }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a channel in. It has to ring before it is looked at.
    pub(crate) fn add(&self, channel: Arc<ClientChannel>) {
        let mut inner = self.inner();
        let id = channel.id;
        let place = Place { channel, position: Position::default(), head: None, slow: false, in_flight: 0, last: None };
        let sleeps = place.channel.channel.may_sleep(&place.position);
        let at = inner.places.iter().position(Option::is_none).unwrap_or(inner.places.len());
        if at == inner.places.len() {
            inner.places.push(None);
        }
        inner.places[at] = Some(place);
        inner.by_id.insert(id, at);
        if !sleeps {
            // It has asked before it could know that it must ring.
            inner.awake.push(at);
        }
    }

    /// Lets a channel go. Batches that have begun end.
    pub(crate) fn remove(&self, id: u64) {
        let mut inner = self.inner();
        if let Some(at) = inner.by_id.remove(&id) {
            inner.places[at] = None;
            inner.awake.retain(|awake| *awake != at);
        }
    }

    /// A channel has rung.
    pub(crate) fn rung(&self, id: u64) {
        let mut inner = self.inner();
        let Some(at) = inner.by_id.get(&id).copied() else { return };
        if let Some(place) = &inner.places[at]
            && !inner.awake.contains(&at)
        {
            place.channel.channel.woken();
            inner.awake.push(at);
        }
    }

    /// A worker begins to look at the channels.
    pub(crate) fn begin_watch(&self) {
        self.on_watch.fetch_add(1, Ordering::SeqCst);
    }

    /// Workers that look at the channels now or soon.
    pub(crate) fn watchers(&self) -> usize {
        self.on_watch.load(Ordering::Relaxed)
    }

    /// A worker wants to sleep. False if there is something to do: it stays on watch then. The last one leaves bells behind.
    pub(crate) fn end_watch(&self) -> bool {
        let mut inner = self.inner();
        if self.on_watch.load(Ordering::SeqCst) == 1 && !inner.sleep() {
            return false;
        }
        self.on_watch.fetch_sub(1, Ordering::SeqCst);
        true
    }

    /// What a worker that is on watch does next.
    pub(crate) fn next(&self, offers: &Offers, now: Instant) -> Next {
        let mut inner = self.inner();
        inner.look(offers, now, self.window_max);
        let at = match inner.choose(offers, now, self.window_max) {
            Choice::Nothing => return Next::Nothing,
            Choice::Held => return Next::Soon,
            Choice::Now(at) => at,
        };
        let (parts, predicted_ns) = inner.collect(at, offers);
        let long = predicted_ns > LONG_NS;
        let crowded = inner.awake.len() > 1;
        // Nobody looks from now on if this worker was the last: whoever asks has to ring. What is there already is told by `more`.
        let mut more = long && self.on_watch.load(Ordering::SeqCst) == 1 && !inner.sleep();
        if long {
            self.on_watch.fetch_sub(1, Ordering::SeqCst);
        }
        more |= inner.awake().any(|(_, place)| inner.is_ready(place));
        Next::Run { parts, long, more, crowded }
    }

    /// Requests were answered.
    pub(crate) fn done(&self, parts: &[Part]) {
        let mut inner = self.inner();
        for part in parts {
            inner.slow -= usize::from(part.slow);
            if let Some(Some(place)) = inner.places.get_mut(part.place)
                && place.channel.id == part.channel.id
            {
                place.in_flight -= 1;
            }
        }
    }

    /// Whether a client waits for nothing.
    pub(crate) fn is_idle(&self, client: u64) -> bool {
        let inner = self.inner();
        let mut places = inner.places.iter().flatten().filter(|place| place.channel.client.id == client);
        places.all(|place| {
            place.head.is_none() && place.in_flight == 0 && !place.channel.channel.has_more(&place.position)
        })
    }

    /// Channels at the desk, and requests that wait.
    pub(crate) fn figures(&self) -> (usize, usize) {
        let inner = self.inner();
        let waiting = inner.places.iter().flatten().filter(|place| place.head.is_some()).count();
        (inner.by_id.len(), waiting)
    }
}

/// The place of a suite and direction among [`Inner::kinds`]. All radices of FF1 share one.
#[inline]
fn kind_index(request: &Request) -> usize {
    2 * request.suite.ordinal() + request.direction as usize
}

/// What is next.
enum Choice {
    /// Nothing waits.
    Nothing,
    /// All that wait, wait for others.
    Held,
    /// The request of the channel in this place.
    Now(usize),
}

impl Inner {
    /// The channels that are looked at, and where they are.
    fn awake(&self) -> impl Iterator<Item = (usize, &Place)> {
        self.awake.iter().filter_map(|at| Some((*at, self.places[*at].as_ref()?)))
    }

    /// Takes what has come in the channels that are awake.
    fn look(&mut self, offers: &Offers, now: Instant, window_max: Duration) {
        let Inner { places, awake, kinds, last_small, .. } = self;
        awake.retain(|at| {
            let Some(place) = &mut places[*at] else { return false };
            if place.head.is_some() || place.in_flight >= SLOTS {
                return true;
            }
            match place.channel.channel.take(&mut place.position) {
                Ok(Some(taken)) => {
                    let kind = kind_index(&taken.request);
                    place.slow = is_slow(&taken.request, offers);
                    if place.slow && (taken.request.ops > 1 || taken.request.data_len > ONE_LEN_MAX) {
                        place.channel.channel.complete(taken.number, Outcome::Exhausted);
                        return true;
                    }
                    if is_small(&taken.request) {
                        *last_small = Some(now);
                    } else if taken.request.data_len >= BULK_BYTES {
                        place.slow |= last_small.is_some_and(|at| now - at < CALLER_MEMORY);
                    }
                    place.head = Some(taken);
                    place.last = Some((kind, now));
                    kinds[kind].arrived(now, window_max);
                    true
                }
                Ok(None) => true,
                Err(corrupt) => {
                    let peer = place.channel.client.peer;
                    tracing::warn!(client = place.channel.client.id, pid = peer.pid, uid = peer.uid, "{corrupt}");
                    place.channel.client.end();
                    false
                }
            }
        });
    }

    /// Whether a channel's request may be given out: a slow one only while a worker is left for others.
    fn is_ready(&self, place: &Place) -> bool {
        place.head.is_some() && !(place.slow && self.slow >= self.slow_max)
    }

    /// Has every channel that is awake ring from now on. False if one has asked meanwhile, or if something waits here that may be given out;
    /// whoever is at a slow request looks here afterwards.
    fn sleep(&mut self) -> bool {
        let mut awake = core::mem::take(&mut self.awake);
        let mut sleeps = true;
        awake.retain(|at| {
            let Some(place) = &self.places[*at] else { return false };
            let waits = place.head.is_some();
            let stays = waits || !place.channel.channel.may_sleep(&place.position);
            sleeps &= !stays || (waits && !self.is_ready(place));
            stays
        });
        self.awake = awake;
        sleeps
    }

    /// The channel whose request is next.
    fn choose(&mut self, offers: &Offers, now: Instant, window_max: Duration) -> Choice {
        let start = |(at, place): (usize, &Place)| {
            self.is_ready(place).then(|| (self.clock.start(&place.channel.client.turn()), at))
        };
        let mut waiting: SmallVec<[(f64, usize); 32]> = self.awake().filter_map(start).collect();
        if waiting.is_empty() {
            return Choice::Nothing;
        }
        waiting.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        for (start, at) in waiting {
            if !self.waits(at, offers, now, window_max) {
                self.clock.advance(start);
                return Choice::Now(at);
            }
        }
        Choice::Held
    }

    /// Whether a request waits for others of its kind.
    fn waits(&mut self, at: usize, offers: &Offers, now: Instant, window_max: Duration) -> bool {
        let Some(Taken { request, .. }) = self.places[at].as_ref().and_then(|place| place.head) else { return false };
        let kind = kind_index(&request);
        let Some(prediction) = offers.get(request.suite, request.direction).filter(|offer| offer.step() > 1) else {
            return false;
        };
        let (mut ops, mut callers, mut bytes) = (0, 0, 0);
        for place in self.places.iter().flatten() {
            if let Some(Taken { request, .. }) = place.head.filter(|taken| kind_index(&taken.request) == kind) {
                ops += u64::from(request.ops);
                bytes += u64::from(request.data_len);
                callers += 1;
            } else if place.in_flight == 0
                && place.last.is_some_and(|(last, at)| last == kind && now - at < CALLER_MEMORY)
            {
                callers += 1;
            }
        }
        self.kinds[kind].waits(prediction, (ops, callers, bytes), now, window_max)
    }

    /// The request of a channel, and those that go with it; and what all of them are predicted to take.
    fn collect(&mut self, at: usize, offers: &Offers) -> (Vec<Part>, f64) {
        let mut parts = Vec::new();
        let Some(first) = self.give(at, offers, &mut parts) else { return (parts, 0.0) };
        let kind = kind_index(&first);
        let prediction = offers.get(first.suite, first.direction);
        let step = prediction.map_or(1, Prediction::step);
        let room = if step > 1 { u32::from(step) } else { SHARED_OPS };
        let (mut ops, mut bytes) = (first.ops, u64::from(first.data_len));
        if is_small(&first) {
            for index in 0..self.awake.len() {
                let at = self.awake[index];
                let Some(Taken { request, .. }) = self.places[at].as_ref().and_then(|place| place.head) else {
                    continue;
                };
                let goes_with = request.suite == first.suite && kind_index(&request) == kind && is_small(&request);
                if !goes_with {
                    continue;
                }
                let (all_ops, all_bytes) = (ops + request.ops, bytes + u64::from(request.data_len));
                let ns = prediction.map_or(0.0, |prediction| prediction.time(all_ops.into(), all_bytes).ns);
                if all_ops <= room && ns <= REQUEST_NS_MAX {
                    self.give(at, offers, &mut parts);
                    (ops, bytes) = (all_ops, all_bytes);
                }
            }
        }
        self.kinds[kind].until = None;
        (parts, prediction.map_or(0.0, |prediction| prediction.time(ops.into(), bytes).ns))
    }

    /// Gives out a channel's request, on its client's account.
    fn give(&mut self, at: usize, offers: &Offers, parts: &mut Vec<Part>) -> Option<Request> {
        let place = self.places[at].as_mut()?;
        let Taken { number, request } = place.head.take()?;
        place.in_flight += 1;
        let work = offers.get(request.suite, request.direction);
        let work = work.map_or(1.0, |prediction| prediction.time(request.ops.into(), request.data_len.into()).ns);
        let mut turn = place.channel.client.turn();
        self.clock.serve(&mut turn, work, 1.0);
        place.channel.client.set_turn(turn);
        let slow = place.slow;
        parts.push(Part { channel: Arc::clone(&place.channel), place: at, number, request, slow });
        self.slow += usize::from(slow);
        Some(request)
    }
}

/// Whether a request is more than a worker should be kept with.
fn is_slow(request: &Request, offers: &Offers) -> bool {
    let predicted = offers.get(request.suite, request.direction);
    predicted.is_some_and(|known| known.time(request.ops.into(), request.data_len.into()).ns > REQUEST_NS_MAX)
}

fn is_small(request: &Request) -> bool {
    request.ops <= SMALL_OPS && request.data_len <= SMALL_BYTES
}

impl Kind {
    fn arrived(&mut self, now: Instant, window_max: Duration) {
        if let Some(last) = self.last {
            let gap = (now - last).as_nanos() as f64;
            self.arrivals = self.arrivals.after(gap, window_max.as_nanos() as f64);
        }
        self.last = Some(now);
    }

    /// Whether so many operations of so many callers wait for more.
    fn waits(
        &mut self,
        prediction: &Prediction,
        (ops, callers, bytes): (u64, u64, u64),
        now: Instant,
        window_max: Duration,
    ) -> bool {
        if ops >= u64::from(prediction.step()) || callers <= ops {
            return false;
        }
        if let Some(until) = self.until {
            return now < until;
        }
        let gathering = Gathering {
            ops,
            callers,
            arrivals: self.arrivals,
            max_ns: window_max.as_nanos() as f64,
            change_ns: CHANGE_NS,
        };
        let len = bytes / ops.max(1);
        let Some(window) = window(&gathering, |ops| prediction.time(ops, ops * len)) else { return false };
        self.until = Some(now + Duration::from_nanos(window.ns as u64));
        true
    }
}

#[cfg(test)]
mod tests {
    use ciphermill::Mill;
    use ciphermill_channel::{Channel, DATA_AT, DATA_LEN_MIN};
    use ciphermill_contract::suite::{AesSize, Ff1};
    use ciphermill_contract::{Direction, Suite};
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;
    use crate::client::{Client, Peer};
    use crate::keys::Keys;

    /// Requests that a client may make up without end must not be remembered without end.
    #[test]
    fn what_is_remembered_of_requests_is_bounded() {
        let engine = Arc::new(ciphermill_reference::Reference::new());
        let mill = Mill::builder().engine(engine).open().expect("a mill");
        let (desk, offers) = (Desk::new(Duration::from_micros(100), 2), Offers::of(&mill));
        let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"));
        let client = Arc::new(Client::new(1, Peer { pid: 1, uid: 0, gid: 0 }, Keys::new(1), ended));
        let channel =
            Arc::new(ClientChannel { id: 2, channel: Channel::create(DATA_LEN_MIN).expect("memory"), client });
        let mut port = channel.channel.port().expect("descriptors");
        desk.begin_watch();
        desk.add(Arc::clone(&channel));
        desk.rung(2);
        for radix in 0..500 {
            let suite = Suite::Fpe(Ff1 { size: AesSize::Aes256, radix });
            let (ops_at, data_at) = (DATA_AT as u32, DATA_AT as u32 + 64);
            let request = Request { suite, direction: Direction::Encrypt, ops: 1, ops_at, data_at, data_len: 20 };
            port.submit(request).expect("a slot");
            let parts = loop {
                if let Next::Run { parts, .. } = desk.next(&offers, Instant::now()) {
                    break parts;
                }
            };
            assert_eq!(parts[0].request, request);
            channel.channel.complete(parts[0].number, Outcome::Ran);
            desk.done(&parts);
        }
        assert_eq!(desk.inner().kinds.len(), 2 * SUITE_ORDINALS_MAX);
    }
}
