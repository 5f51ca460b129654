//! Where requests of all channels meet: the router's [`Queue`] decides which come next, and which share a batch.
//!
//! Channels whose clients asked of late are looked at; all others have to ring. What is found there goes into the queue, and what that gives
//! out goes to a worker.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ciphermill_channel::{ONE_LEN_MAX, Outcome, Position, REQUEST_NS_MAX, Request, SLOTS, Taken};
use ciphermill_contract::Suite;
use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_router::Turn;
use ciphermill_router::queue::{self, LONG_NS, Owner, Queue, QueueOptions, Ticket, Waiting};

use crate::client::ClientChannel;
use crate::offers::Offers;

/// Requests of all channels, and where they stand. Held by all workers.
pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// Workers that look at the channels, or will in less than [`LONG_NS`].
    on_watch: AtomicUsize,
    /// When the queue's time began.
    opened: Instant,
}

struct Inner {
    /// The channels, and the requests that wait.
    queue: Queue<Seat>,
    /// Where each channel is among them, by its number.
    by_id: HashMap<u64, usize>,
    /// The channels that are looked at.
    awake: Vec<usize>,
}

/// A channel at the desk.
struct Seat {
    channel: Arc<ClientChannel>,
    position: Position,
    /// The request that is next, as long as it waits in the queue.
    taken: Option<Taken>,
}

/// All clients have the same share.
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
        1.0
    }
}

/// A request of a batch.
pub(crate) struct Part {
    pub(crate) channel: Arc<ClientChannel>,
    pub(crate) number: u32,
    pub(crate) request: Request,
    ticket: Ticket,
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
        let options = QueueOptions {
            kinds: 2 * SUITE_ORDINALS_MAX,
            workers,
            window_max_ns: window_max.as_nanos() as u64,
            batch_ns_max: REQUEST_NS_MAX,
        };
        let inner = Inner { queue: Queue::new(options), by_id: HashMap::new(), awake: Vec::new() };
        Desk { inner: Mutex::new(inner), on_watch: AtomicUsize::new(0), opened: Instant::now() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a channel in. It has to ring before it is looked at.
    pub(crate) fn add(&self, channel: Arc<ClientChannel>) {
        let mut inner = self.inner();
        let id = channel.id;
        let seat = Seat { channel, position: Position::default(), taken: None };
        let sleeps = seat.channel.channel.may_sleep(&seat.position);
        let at = inner.queue.add(seat);
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
            inner.queue.remove(at);
            inner.awake.retain(|awake| *awake != at);
        }
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
        let now_ns = now.saturating_duration_since(self.opened).as_nanos() as u64;
        let mut inner = self.inner();
        inner.look(offers, now_ns);
        let mut parts = Vec::new();
        let next = inner.queue.next(offers, now_ns, |seat, _, ticket| {
            if let Some(Taken { number, request }) = seat.taken.take() {
                parts.push(Part { channel: Arc::clone(&seat.channel), number, request, ticket });
            }
        });
        let predicted_ns = match next {
            queue::Next::Nothing => return Next::Nothing,
            queue::Next::Held { .. } => return Next::Soon,
            queue::Next::Batch { predicted_ns } => predicted_ns,
        };
        let long = predicted_ns > LONG_NS;
        let crowded = inner.awake.len() > 1;
        // Nobody looks from now on if this worker was the last: whoever asks has to ring. What is there already is told by `more`.
        let mut more = long && self.on_watch.load(Ordering::SeqCst) == 1 && !inner.sleep();
        if long {
            self.on_watch.fetch_sub(1, Ordering::SeqCst);
        }
        more |= inner.queue.has_ready();
        Next::Run { parts, long, more, crowded }
    }

    /// Requests were answered.
    pub(crate) fn done(&self, parts: &[Part]) {
        let mut inner = self.inner();
        for part in parts {
            inner.queue.done(part.ticket);
        }
    }

    /// Whether a client waits for nothing.
    pub(crate) fn is_idle(&self, client: u64) -> bool {
        let inner = self.inner();
        let queue = &inner.queue;
        let mut seats = queue.owners().filter(|(_, seat)| seat.channel.client.id == client);
        seats.all(|(at, seat)| {
            !queue.waits(at) && queue.in_flight(at) == 0 && !seat.channel.channel.has_more(&seat.position)
        })
    }

    /// Channels at the desk, and requests that wait.
    pub(crate) fn figures(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.by_id.len(), inner.queue.len())
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
        let Inner { queue, awake, .. } = self;
        awake.retain(|at| {
            let at = *at;
            let full = queue.waits(at) || queue.in_flight(at) >= SLOTS;
            let Some(seat) = queue.owner_mut(at) else { return false };
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
                    seat.taken = Some(taken);
                    // None waits there: it was asked above.
                    let _ = queue.arrive(at, waiting, now_ns);
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

    /// Has every channel that is awake ring from now on. False if one has asked meanwhile, or if something waits here that may be given out;
    /// whoever is at a slow request looks here afterwards.
    fn sleep(&mut self) -> bool {
        let Inner { queue, awake, .. } = self;
        let mut sleeps = true;
        awake.retain(|at| {
            let Some(seat) = queue.owner(*at) else { return false };
            let waits = queue.waits(*at);
            let stays = waits || !seat.channel.channel.may_sleep(&seat.position);
            sleeps &= !stays || (waits && !queue.is_ready(*at));
            stays
        });
        sleeps
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
        assert!(desk.inner().queue.is_empty());
    }
}
