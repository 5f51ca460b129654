//! The service of one node with its queue and its workers, and its clients.

use std::collections::VecDeque;

use ciphermill_channel::{REQUEST_NS_MAX, Spin};
use ciphermill_router::{Owner, Queue, QueueOptions, Ticket, Turn};

use crate::events::NONE;
use crate::scenario::Scenario;

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
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) node: u32,
    /// Its place in the node's queue.
    pub(crate) place: u32,
    pub(crate) group: u32,
    /// Requests that have come and stand in no queue yet.
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Whether its channel is looked at; else it has to ring.
    pub(crate) is_awake: bool,
    /// Whether so many asked when it was answered last that it does not look for the next answer.
    pub(crate) is_crowded: bool,
    pub(crate) spin: Spin,
    pub(crate) stage: ClientStage,
    /// What it has to do after that.
    pub(crate) tasks: VecDeque<Task>,
}

/// Something that a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Makes a request.
    Make(u32),
    /// Takes the answer of one.
    Take(u32),
}

/// What a client's thread is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientStage {
    Asleep,
    Does(Task),
    /// It looks for an answer.
    Looks,
    /// It goes to sleep.
    Dozes,
}

impl Client {
    pub(crate) fn new(node: u32, place: u32, group: u32) -> Client {
        Client {
            node,
            place,
            group,
            first: NONE,
            last: NONE,
            is_awake: false,
            is_crowded: false,
            spin: Spin::new(),
            stage: ClientStage::Asleep,
            tasks: VecDeque::new(),
        }
    }
}

/// A service.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) queue: Queue<Seat>,
    /// Clients whose channels are looked at, …
    pub(crate) awake: Vec<u32>,
    /// … and those of them that have asked, or have room for what they asked before, since somebody looked last.
    pub(crate) fresh: Vec<u32>,
    /// Workers that look, or will soon: they are at a batch that is short.
    pub(crate) on_watch: u32,
    /// Workers that look for requests now.
    pub(crate) lookers: Vec<u32>,
    /// Workers that sleep, the last of which is woken first.
    pub(crate) sleepers: Vec<u32>,
}

/// A worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) node: u32,
    pub(crate) stage: Stage,
    pub(crate) batch: Vec<(Ticket, u32)>,
    /// Whether it has left the watch for the batch.
    pub(crate) is_long: bool,
    pub(crate) is_crowded: bool,
    pub(crate) spin: Spin,
    /// How long it looks this time, and until when; `None` while it has found something.
    pub(crate) looks: Option<(u64, u64)>,
    /// Until when a device has its batch.
    pub(crate) device_until_ns: u64,
}

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Asleep,
    /// It is woken, and not on watch yet.
    Wakes,
    /// It looks what is next.
    Looks,
    /// It goes to sleep.
    Dozes,
    /// It copies requests and runs them.
    Runs,
    /// It waits for a device.
    Waits,
    /// It answers the request of this number in its batch.
    Answers(usize),
    /// It has answered all.
    Ends,
}

impl Node {
    /// With workers of these numbers.
    pub(crate) fn new(scenario: &Scenario, kinds: usize, workers_from: u32) -> Node {
        let workers = scenario.cores_of_node();
        let options = QueueOptions {
            kinds,
            workers: workers as usize,
            window_max_ns: scenario.window_max_ns,
            batch_ns_max: REQUEST_NS_MAX,
        };
        Node {
            queue: Queue::new(options),
            awake: Vec::new(),
            fresh: Vec::new(),
            on_watch: 0,
            lookers: Vec::new(),
            sleepers: (workers_from..workers_from + workers).rev().collect(),
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
            stage: Stage::Asleep,
            batch: Vec::new(),
            is_long: false,
            is_crowded: false,
            spin: Spin::new(),
            looks: None,
            device_until_ns: 0,
        }
    }
}
