//! The service of one node: its queue, its workers, and the cores that they have.

use ciphermill_router::{Owner, Queue, QueueOptions, Ticket, Turn};

use crate::events::NONE;
use crate::scenario::{BATCH_NS_MAX, Scenario};

/// Requests of a client that are under way at most, as a channel has slots.
pub(crate) const SLOTS: u32 = 64;

/// A client's place in the queue.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The request that waits there.
    pub(crate) head: u32,
    turn: Turn,
    weight: f64,
}

impl Owner for Seat {
    #[inline]
    fn turn(&self) -> Turn {
        self.turn
    }

    #[inline]
    fn set_turn(&mut self, turn: Turn) {
        self.turn = turn;
    }

    #[inline]
    fn weight(&self) -> f64 {
        self.weight
    }
}

/// A client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    pub(crate) node: u32,
    /// Its place in the node's queue.
    pub(crate) place: u32,
    pub(crate) group: u32,
    /// Requests that have come and stand in no queue yet.
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Client {
    pub(crate) fn new(node: u32, place: u32, group: u32) -> Client {
        Client { node, place, group, first: NONE, last: NONE }
    }
}

/// A service.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) queue: Queue<Seat>,
    /// The worker that looks for requests and has found nothing.
    pub(crate) watcher: Option<Watcher>,
    /// Workers that sleep.
    pub(crate) sleepers: Vec<u32>,
    /// Workers that will look soon: they wake up, or wait for their core.
    pub(crate) waking: u32,
    /// Workers at a batch that is so short that they are still on watch.
    pub(crate) short: u32,
    /// When the requests that wait for others are looked at.
    pub(crate) look_at_ns: u64,
    /// The numbers of its workers begin here.
    pub(crate) workers_from: u32,
}

/// A worker on watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watcher {
    pub(crate) worker: u32,
    pub(crate) since_ns: u64,
    /// Whether requests wait for others: it does not sleep then.
    pub(crate) holds: bool,
}

/// A worker, and the core that it has.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) node: u32,
    pub(crate) batch: Vec<(Ticket, u32)>,
    pub(crate) is_busy: bool,
    /// Whether it is at a batch and on watch all the same.
    pub(crate) is_short: bool,
    /// Nanoseconds that clients have taken from it meanwhile.
    pub(crate) late_ns: u64,
    /// Until when clients have its core.
    pub(crate) taken_until_ns: u64,
    /// Whether it has let them go first already.
    pub(crate) has_waited: bool,
}

impl Node {
    pub(crate) fn new(scenario: &Scenario, kinds: usize, workers_from: u32) -> Node {
        let workers = scenario.cores_of_node();
        let options = QueueOptions {
            kinds,
            workers: workers as usize,
            window_max_ns: scenario.window_max_ns,
            batch_ns_max: BATCH_NS_MAX,
        };
        Node {
            queue: Queue::new(options),
            watcher: None,
            // The last is woken first.
            sleepers: (workers_from..workers_from + workers).rev().collect(),
            waking: 0,
            short: 0,
            look_at_ns: u64::MAX,
            workers_from,
        }
    }

    /// Takes a client in: its place.
    pub(crate) fn join(&mut self, weight: f64) -> u32 {
        self.queue.add(Seat { head: NONE, turn: Turn::default(), weight }) as u32
    }
}

impl Worker {
    pub(crate) fn new(node: u32) -> Worker {
        Worker {
            node,
            batch: Vec::new(),
            is_busy: false,
            is_short: false,
            late_ns: 0,
            taken_until_ns: 0,
            has_waited: false,
        }
    }
}
