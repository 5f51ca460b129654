//! Where requests of all channels meet: the router's [`Queue`] decides which come next, and which share a batch.
//!
//! Channels whose clients asked of late are looked at; all others have to ring. What is found there goes into the queue, and what that gives
//! out goes to a worker. What a user's account does not allow yet is held back before it gets there, and only delays who asked for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ciphermill_channel::{ONE_LEN_MAX, Outcome, Position, REQUEST_NS_MAX, Request, SLOTS, Taken};
use ciphermill_contract::Suite;
use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_router::Turn;
use ciphermill_router::queue::{self, LONG_NS, Owner, Queue, QueueOptions, Ticket, Waiting};

use crate::account::Account;
use crate::client::ClientChannel;
use crate::offers::Offers;

/// For so long at least nobody looks whether what is held back is due.
const NAP: Duration = Duration::from_millis(1);

/// Requests of all channels, and where they stand. Held by all workers.
pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// Workers that look at the channels, or will in less than [`LONG_NS`].
    on_watch: AtomicUsize,
    /// When the queue's time began.
    opened: Instant,
    /// Cores that its workers and their clients may use.
    cores: usize,
}

struct Inner {
    /// The channels, and the requests that wait.
    queue: Queue<Seat>,
    /// Where each channel is among them, by its number.
    by_id: HashMap<u64, usize>,
    /// The channels that are looked at.
    awake: Vec<usize>,
    /// How many of them have a request that is held back.
    held: usize,
    /// Batches that workers are at.
    batches: usize,
}

/// A channel at the desk.
struct Seat {
    channel: Arc<ClientChannel>,
    position: Position,
    /// The request that is next, as long as it waits in the queue or is held back.
    taken: Option<Taken>,
    held: Option<Held>,
}

/// A request that its user's account does not allow yet.
struct Held {
    waiting: Waiting,
    is_public_key: bool,
    /// When the account's rates allow it, as of its rules of this era.
    due_ns: u64,
    era: u32,
    /// Its number among those that wait for bytes, once it is due.
    number: Option<u64>,
}

impl Owner for Seat {
    #[inline]
    fn turn(&self) -> Turn {
        self.channel.client.turn()
    }

    #[inline]
    fn set_turn(&mut self, turn: Turn) {
        self.channel.client.set_turn(turn);
    }

    #[inline]
    fn weight(&self) -> f64 {
        self.channel.client.account.weight()
    }
}

impl Held {
    /// Whether the account allows it now.
    fn may_go(&mut self, account: &Account, now_ns: u64) -> bool {
        let era = account.era();
        if era != self.era {
            // What it took from the rates before is of no account any more.
            (self.era, self.due_ns) = (era, account.due_ns(self.waiting.ops, self.is_public_key, now_ns));
        }
        self.due_ns <= now_ns && account.has_room(&mut self.number, self.waiting.bytes)
    }

    /// Whether it has to wait still, as far as may be said without taking anything.
    fn waits(&self, account: &Account, now_ns: u64) -> bool {
        let has_room = self.number.is_some() && account.would_have_room(self.number, self.waiting.bytes);
        self.era == account.era() && !has_room && (self.number.is_some() || self.due_ns > now_ns)
    }
}

impl Seat {
    /// Asks the account about a request that has come. `None` if it is held back.
    fn admit(&mut self, taken: Taken, waiting: Waiting, now_ns: u64) -> Option<Waiting> {
        let client = &self.channel.client;
        self.taken = Some(taken);
        if client.account.is_limited() {
            let is_public_key = taken.request.suite.is_public_key();
            let due_ns = client.account.due_ns(waiting.ops, is_public_key, now_ns);
            let mut held = Held { waiting, is_public_key, due_ns, era: client.account.era(), number: None };
            if !held.may_go(&client.account, now_ns) {
                client.counts.held.fetch_add(1, Ordering::Relaxed);
                self.held = Some(held);
                return None;
            }
        }
        client.account.begins(waiting.bytes);
        Some(waiting)
    }

    /// The request that was held back, if the account allows it now.
    fn release(&mut self, now_ns: u64) -> Option<Waiting> {
        let account = &self.channel.client.account;
        let waiting = self.held.as_mut().filter(|held| held.due_ns <= now_ns || held.era != account.era())?;
        let waiting = waiting.may_go(account, now_ns).then_some(waiting.waiting)?;
        account.begins(waiting.bytes);
        self.held = None;
        Some(waiting)
    }

    /// Gives back what its request has of the account.
    fn leave(self) {
        let account = &self.channel.client.account;
        match (self.held, self.taken) {
            (Some(held), _) => account.gives_up(held.number),
            (None, Some(taken)) => account.ends(taken.request.data_len),
            (None, None) => {}
        }
    }
}

/// A request of a batch.
pub(crate) struct Part {
    pub(crate) channel: Arc<ClientChannel>,
    pub(crate) number: u32,
    pub(crate) request: Request,
    ticket: Ticket,
}

/// Whether a worker sleeps.
pub(crate) enum Rest {
    /// There is something to do: it stays on watch.
    Stays,
    /// It sleeps until somebody rings, or for so long.
    Sleeps {
        /// Until a request that is held back is due. One worker looks after that.
        at_most: Option<Duration>,
    },
}

/// What a worker is to do.
pub(crate) enum Next {
    /// To run these, all of one suite and direction; `long` if it has left the watch for them. `more` says that other requests wait,
    /// `crowded` that as many clients have asked of late as there are cores, one of which the worker needs; `alone` that no other worker here is at a
    /// batch, nor a crowd there.
    Run { parts: Vec<Part>, long: bool, more: bool, crowded: bool, alone: bool },
    /// To look again: some wait for others.
    Soon,
    /// To look again, or to sleep after a while.
    Nothing {
        /// Whether there is no channel to look at: whoever asks rings.
        all_ring: bool,
    },
}

impl Desk {
    /// A desk for so many workers on so many cores. Time is counted from `opened` on: accounts have clients at several desks.
    pub(crate) fn new(window_max: Duration, (workers, cores): (usize, usize), opened: Instant) -> Desk {
        let options = QueueOptions {
            kinds: 2 * SUITE_ORDINALS_MAX,
            workers,
            window_max_ns: window_max.as_nanos() as u64,
            batch_ns_max: REQUEST_NS_MAX,
        };
        let inner = Inner { queue: Queue::new(options), by_id: HashMap::new(), awake: Vec::new(), held: 0, batches: 0 };
        Desk { inner: Mutex::new(inner), on_watch: AtomicUsize::new(0), opened, cores }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a channel in. It has to ring before it is looked at.
    pub(crate) fn add(&self, channel: Arc<ClientChannel>) {
        let mut inner = self.inner();
        let id = channel.id;
        let seat = Seat { channel, position: Position::default(), taken: None, held: None };
        let sleeps = seat.channel.channel.may_sleep(&seat.position);
        let at = inner.queue.add(seat);
        inner.by_id.insert(id, at);
        if !sleeps {
            // It has asked before it could know that it must ring.
            inner.awake.push(at);
        }
    }

    /// Lets a channel go. Batches that have begun end. True if somebody else's request is held back, which may be due by that.
    #[must_use]
    pub(crate) fn remove(&self, id: u64) -> bool {
        let mut inner = self.inner();
        if let Some(at) = inner.by_id.remove(&id) {
            if let Some(seat) = inner.queue.remove(at) {
                inner.held -= usize::from(seat.held.is_some());
                seat.leave();
            }
            inner.awake.retain(|awake| *awake != at);
        }
        inner.held > 0
    }

    /// A channel has rung.
    pub(crate) fn rung(&self, id: u64) {
        let mut inner = self.inner();
        let Some(at) = inner.by_id.get(&id).copied() else { return };
        if let Some(seat) = inner.queue.owner(at)
            && !inner.awake.contains(&at)
        {
            seat.channel.channel.woken();
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

    /// A worker wants to sleep. The last one on watch leaves bells behind, and looks after what is held back.
    pub(crate) fn end_watch(&self, now: Instant) -> Rest {
        let now_ns = self.now_ns(now);
        let mut inner = self.inner();
        let is_last = self.on_watch.load(Ordering::SeqCst) == 1;
        if is_last && !inner.sleep(now_ns) {
            return Rest::Stays;
        }
        self.on_watch.fetch_sub(1, Ordering::SeqCst);
        let due_ns = if is_last { inner.due_ns() } else { None };
        // What is late meanwhile is made up for, since an account forgets nothing within its burst.
        let at_most = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now_ns)).max(NAP));
        Rest::Sleeps { at_most }
    }

    /// The time of the queue and of accounts.
    pub(crate) fn now_ns(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.opened).as_nanos() as u64
    }

    /// What a worker that is on watch does next.
    pub(crate) fn next(&self, offers: &Offers, now: Instant) -> Next {
        let now_ns = self.now_ns(now);
        let mut inner = self.inner();
        inner.look(offers, now_ns);
        let mut parts = Vec::new();
        let next = inner.queue.next(offers, now_ns, |seat, _, ticket| {
            if let Some(Taken { number, request }) = seat.taken.take() {
                parts.push(Part { channel: Arc::clone(&seat.channel), number, request, ticket });
            }
        });
        let predicted_ns = match next {
            queue::Next::Nothing => return Next::Nothing { all_ring: inner.awake.is_empty() },
            queue::Next::Held { .. } => return Next::Soon,
            queue::Next::Batch { predicted_ns } => predicted_ns,
        };
        let long = predicted_ns > LONG_NS;
        let crowded = inner.awake.len() >= self.cores;
        let alone = inner.batches == 0 && !crowded;
        inner.batches += 1;
        // Nobody looks from now on if this worker was the last: whoever asks has to ring. What is there already is told by `more`.
        let is_last = long && self.on_watch.load(Ordering::SeqCst) == 1;
        // Nor would anybody look after what is held back.
        let mut more = is_last && (!inner.sleep(now_ns) || inner.held > 0);
        if long {
            self.on_watch.fetch_sub(1, Ordering::SeqCst);
        }
        more |= inner.queue.wants_another(predicted_ns);
        Next::Run { parts, long, more, crowded, alone }
    }

    /// A batch's requests were answered. True if a user's other requests wait for what these had in flight, at whichever desk.
    pub(crate) fn done(&self, parts: &[Part]) -> bool {
        let mut inner = self.inner();
        inner.batches -= 1;
        let mut waited_for = false;
        for part in parts {
            let account = &part.channel.client.account;
            inner.queue.done(part.ticket);
            account.ends(part.request.data_len);
            waited_for |= account.is_limited() && account.is_waited_for();
        }
        waited_for
    }

    /// Whether a client waits for nothing.
    pub(crate) fn is_idle(&self, client: u64) -> bool {
        let inner = self.inner();
        let queue = &inner.queue;
        let mut seats = queue.owners().filter(|(_, seat)| seat.channel.client.id == client);
        seats.all(|(at, seat)| {
            !queue.waits(at)
                && seat.held.is_none()
                && queue.in_flight(at) == 0
                && !seat.channel.channel.has_more(&seat.position)
        })
    }

    /// Channels at the desk, and requests that wait.
    pub(crate) fn figures(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.by_id.len(), inner.queue.len() + inner.held)
    }
}

/// The number of a suite and direction. All radices of FF1 share one.
#[inline]
pub(crate) fn kind_index(request: &Request) -> usize {
    2 * request.suite.ordinal() + request.direction as usize
}

impl Inner {
    /// Takes what has come in the channels that are awake.
    fn look(&mut self, offers: &Offers, now_ns: u64) {
        let Inner { queue, awake, held, .. } = self;
        awake.retain(|at| {
            let at = *at;
            let full = queue.waits(at) || queue.in_flight(at) >= SLOTS;
            let Some(seat) = queue.owner_mut(at) else { return false };
            if seat.held.is_some() {
                if let Some(waiting) = seat.release(now_ns) {
                    *held -= 1;
                    // None waits there: one was held back.
                    let _ = queue.arrive(at, waiting, now_ns);
                }
                return true;
            }
            if full {
                return true;
            }
            match seat.channel.channel.take(&mut seat.position) {
                Ok(Some(taken)) => {
                    let waiting = waiting(&taken.request, offers);
                    if waiting.slow && (waiting.ops > 1 || waiting.bytes > ONE_LEN_MAX) {
                        seat.channel.channel.complete(taken.number, Outcome::Exhausted);
                        return true;
                    }
                    match seat.admit(taken, waiting, now_ns) {
                        // None waits there: it was asked above.
                        Some(waiting) => {
                            let _ = queue.arrive(at, waiting, now_ns);
                        }
                        None => *held += 1,
                    }
                    true
                }
                Ok(None) => true,
                Err(corrupt) => {
                    let peer = seat.channel.client.peer;
                    tracing::warn!(client = seat.channel.client.id, pid = peer.pid, uid = peer.uid, "{corrupt}");
                    seat.channel.client.end();
                    false
                }
            }
        });
    }

    /// Has every channel that is awake ring from now on. False if one has asked meanwhile, or if something waits here that may be given out
    /// or is due; whoever is at a slow request, or has bytes that others wait for, looks here afterwards.
    fn sleep(&mut self, now_ns: u64) -> bool {
        let Inner { queue, awake, .. } = self;
        let mut sleeps = true;
        awake.retain(|at| {
            let Some(seat) = queue.owner(*at) else { return false };
            if let Some(held) = &seat.held {
                sleeps &= held.waits(&seat.channel.client.account, now_ns);
                return true;
            }
            let waits = queue.waits(*at);
            let stays = waits || !seat.channel.channel.may_sleep(&seat.position);
            sleeps &= !stays || (waits && !queue.is_ready(*at));
            stays
        });
        sleeps
    }

    /// When the first of the requests that wait for nothing but their time is due.
    fn due_ns(&self) -> Option<u64> {
        if self.held == 0 {
            return None;
        }
        let held = self.awake.iter().filter_map(|at| self.queue.owner(*at)?.held.as_ref());
        held.filter(|held| held.number.is_none()).map(|held| held.due_ns).min()
    }
}

/// A request as the queue knows it: slow if it is more than a worker should be kept with.
fn waiting(request: &Request, offers: &Offers) -> Waiting {
    let Request { suite, direction, ops, data_len: bytes, .. } = *request;
    let predicted = offers.get(suite, direction);
    let slow = predicted.is_some_and(|known| known.time(ops.into(), bytes.into()).ns > REQUEST_NS_MAX);
    let variant = match suite {
        Suite::Fpe(ff1) => ff1.radix,
        _ => 0,
    };
    Waiting { kind: kind_index(request), variant, ops, bytes, slow }
}

#[cfg(test)]
mod tests;
