//! The simulation: clients ask, workers look, run batches and answer, as those of the service do.

use ciphermill_router::queue::LONG_NS;
use ciphermill_router::{Next, Times, Waiting};

use crate::SimulationError;
use crate::engines::{DEVICES_FROM, Engines};
use crate::events::{Event, Events, NONE, Request, Requests};
use crate::node::{Client, Node, SLOTS, Watcher, Worker};
use crate::outcome::{Counts, Outcome};
use crate::random::Random;
use crate::scenario::{Arrivals, BATCH_NS_MAX, Scenario, Work};

/// A client looks for an answer that should be there within so many nanoseconds, for half as much again and some more; then it sleeps. For
/// later ones it sleeps at once.
const LOOK_MAX_NS: f64 = 500_000.0;
const LOOK_MORE_NS: f64 = 60_000.0;

/// A core that nobody has had for so many nanoseconds has gone to sleep.
const IDLE_NS: u64 = 1_000;

/// Simulates a scenario.
///
/// # Errors
/// [`SimulationError::Rule`] if the scenario breaks one ([`Scenario::check`]).
pub fn run(scenario: &Scenario) -> Result<Outcome, SimulationError> {
    scenario.check()?;
    let mut simulation = Simulation::new(scenario);
    let (_, end_ns) = scenario.window();
    while let Some((at_ns, event)) = simulation.events.next() {
        if at_ns >= end_ns {
            break;
        }
        simulation.now_ns = at_ns;
        simulation.happens(event);
    }
    let (left, events) = (simulation.requests.len() as u64, simulation.events.count());
    Ok(simulation.counts.outcome(scenario, left, events))
}

struct Simulation<'s> {
    scenario: &'s Scenario,
    now_ns: u64,
    events: Events,
    requests: Requests,
    clients: Vec<Client>,
    groups: Vec<Group>,
    nodes: Vec<Node>,
    workers: Vec<Worker>,
    engines: Engines,
    random: Random,
    counts: Counts,
}

/// A group of clients.
struct Group {
    /// The number of the first.
    clients_from: u32,
    /// Sums of the mix's shares, the last of which is all.
    shares: Vec<(usize, f64)>,
    /// Time in which requests come so far, in nanoseconds: without pauses between bursts.
    open_ns: f64,
    /// Where a trace stands.
    asks: usize,
}

impl Group {
    fn new(clients_from: u32, mix: &[(usize, f64)]) -> Group {
        let mut sum = 0.0;
        let shares = mix.iter().map(|(work, share)| {
            sum += share;
            (*work, sum)
        });
        Group { clients_from, shares: shares.collect(), open_ns: 0.0, asks: 0 }
    }

    /// A work by chance.
    fn work(&self, random: &mut Random) -> u32 {
        let [.., (last, all)] = self.shares[..] else { return 0 };
        let drawn = random.uniform() * all;
        self.shares.iter().find(|(_, sum)| drawn < *sum).map_or(last, |(work, _)| *work) as u32
    }
}

impl Simulation<'_> {
    fn new(scenario: &Scenario) -> Simulation<'_> {
        let engines = Engines::new(scenario);
        let per_node = scenario.cores_of_node();
        let mut nodes: Vec<Node> =
            (0..scenario.nodes).map(|node| Node::new(scenario, engines.kinds(), node * per_node)).collect();
        let (mut clients, mut groups) = (Vec::new(), Vec::new());
        for (index, group) in scenario.clients.iter().enumerate() {
            groups.push(Group::new(clients.len() as u32, &group.mix));
            for _ in 0..group.count {
                let node = clients.len() as u32 % scenario.nodes;
                let place = nodes[node as usize].join(group.weight);
                clients.push(Client::new(node, place, index as u32));
            }
        }
        let mut simulation = Simulation {
            scenario,
            now_ns: 0,
            events: Events::default(),
            requests: Requests::default(),
            clients,
            groups,
            nodes,
            workers: (0..scenario.cores).map(|core| Worker::new(core / per_node)).collect(),
            engines,
            random: Random::new(scenario.seed),
            counts: Counts::new(scenario),
        };
        simulation.begin();
        simulation
    }

    /// Has all clients begin.
    fn begin(&mut self) {
        for (index, group) in self.scenario.clients.iter().enumerate() {
            match group.arrivals {
                Arrivals::Closed { think_ns } => {
                    let from = self.groups[index].clients_from;
                    for client in from..from + group.count {
                        let at_ns = self.random.exponential(think_ns) as u64;
                        self.events.at(at_ns, Event::Ask(client));
                    }
                }
                _ => self.next_arrival(index),
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Ask(client) => {
                let group = self.clients[client as usize].group as usize;
                let work = self.groups[group].work(&mut self.random);
                self.ask(client, work);
            }
            Event::Arrival(group) => self.arrival(group as usize),
            Event::Submitted(request) => self.submitted(request),
            Event::Look(node) => {
                let node = &mut self.nodes[node as usize];
                node.look_at_ns = u64::MAX;
                if node.watcher.is_some_and(|watcher| watcher.holds)
                    && let Some(watcher) = node.watcher.take()
                {
                    self.look(watcher.worker);
                }
            }
            Event::Awake(worker) => {
                let node = self.workers[worker as usize].node;
                self.nodes[node as usize].waking -= 1;
                self.look(worker);
            }
            Event::End(worker) => self.end(worker),
            Event::Received(request) => self.received(request),
        }
    }

    fn work(&self, request: u32) -> &Work {
        &self.scenario.works[self.requests.get(request).work as usize]
    }

    /// Puts the next request of an open group among the events.
    fn next_arrival(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let at_ns = match &self.scenario.clients[index].arrivals {
            Arrivals::Closed { .. } => return,
            Arrivals::Poisson { rate } => {
                group.open_ns += self.random.exponential(1e9 / rate);
                group.open_ns
            }
            Arrivals::Bursts { rate, on_ns, off_ns } => {
                let whole_ns = on_ns + off_ns;
                group.open_ns += self.random.exponential(1e9 / (rate * whole_ns / on_ns));
                (group.open_ns / on_ns).floor() * whole_ns + group.open_ns % on_ns
            }
            Arrivals::Trace(asks) => match asks.get(group.asks) {
                Some(ask) => ask.at_ns as f64,
                None => return,
            },
        };
        self.events.at(at_ns as u64, Event::Arrival(index as u32));
    }

    /// A request of an open group comes.
    fn arrival(&mut self, index: usize) {
        let group = &mut self.groups[index];
        let from = group.clients_from;
        let (client, work) = match &self.scenario.clients[index].arrivals {
            Arrivals::Trace(asks) => {
                let Some(ask) = asks.get(group.asks) else { return };
                group.asks += 1;
                (from + ask.client, ask.work as u32)
            }
            _ => {
                let client = self.random.below(self.scenario.clients[index].count.into()) as u32;
                (from + client, group.work(&mut self.random))
            }
        };
        self.ask(client, work);
        self.next_arrival(index);
    }

    /// A client makes a request.
    fn ask(&mut self, client: u32, work: u32) {
        self.counts.made(work, self.now_ns);
        let request = self.requests.add(Request { client, work, born_ns: self.now_ns, behind: NONE });
        let half_ns = (self.scenario.overheads.client_ns / 2.0) as u64;
        // Who asks again at once has its core still.
        let at_ns = match self.scenario.shares_cores && !self.asks_at_once(client) {
            true => self.burst(client, half_ns),
            false => self.now_ns + half_ns,
        };
        self.events.at(at_ns, Event::Submitted(request));
    }

    /// Whether a client asks again as soon as it has its answer.
    fn asks_at_once(&self, client: u32) -> bool {
        let group = self.clients[client as usize].group as usize;
        matches!(self.scenario.clients[group].arrivals, Arrivals::Closed { think_ns } if think_ns == 0.0)
    }

    /// A request has reached the service.
    fn submitted(&mut self, request: u32) {
        let number = self.requests.get(request).client;
        let client = &mut self.clients[number as usize];
        let node = client.node;
        if client.first == NONE {
            client.first = request;
        } else {
            self.requests.get_mut(client.last).behind = request;
        }
        client.last = request;
        if self.put_in_line(number) {
            self.poke(node);
        }
    }

    /// Puts a client's next request into the queue, if there is one and its place is free.
    fn put_in_line(&mut self, number: u32) -> bool {
        let Client { node, place, first, .. } = self.clients[number as usize];
        let queue = &self.nodes[node as usize].queue;
        let place = place as usize;
        if first == NONE || queue.waits(place) || queue.in_flight(place) >= SLOTS {
            return false;
        }
        self.clients[number as usize].first = self.requests.get(first).behind;
        let (work, kind) = (self.work(first), self.engines.kind(self.requests.get(first).work));
        let (ops, bytes) = (work.ops, work.bytes);
        let predicted = self.engines.time(kind, ops.into(), bytes.into());
        let slow = predicted.is_some_and(|time| time.ns > BATCH_NS_MAX);
        let queue = &mut self.nodes[node as usize].queue;
        if let Some(seat) = queue.owner_mut(place) {
            seat.head = first;
        }
        queue.arrive(place, Waiting { kind, variant: 0, ops, bytes, slow }, self.now_ns)
    }

    /// Has somebody see that a request has come: the worker on watch, or else one that sleeps. Who is at a short batch looks afterwards.
    fn poke(&mut self, node: u32) {
        let (now_ns, spin_ns) = (self.now_ns, self.scenario.spin_ns);
        let own = &mut self.nodes[node as usize];
        if let Some(watcher) = own.watcher.take() {
            if watcher.holds || now_ns - watcher.since_ns <= spin_ns {
                return self.look(watcher.worker);
            }
            own.sleepers.push(watcher.worker);
        }
        if own.short == 0 && own.waking == 0 {
            self.wake(node);
        }
    }

    /// Wakes a worker that sleeps, if there is one.
    fn wake(&mut self, node: u32) {
        let own = &mut self.nodes[node as usize];
        let Some(worker) = own.sleepers.pop() else { return };
        own.waking += 1;
        // Where clients have run just now, no core has to be woken.
        let taken_until = self.workers[worker as usize].taken_until_ns;
        let sleeps = !self.scenario.shares_cores || taken_until + IDLE_NS < self.now_ns;
        let wakeup_ns = if sleeps { self.scenario.overheads.wakeup_ns as u64 } else { 0 };
        self.events.at(self.now_ns + wakeup_ns, Event::Awake(worker));
    }

    /// A worker looks for something to run.
    fn look(&mut self, number: u32) {
        let worker = &mut self.workers[number as usize];
        let node = worker.node;
        let own = &mut self.nodes[node as usize];
        if worker.taken_until_ns > self.now_ns && !worker.has_waited {
            // Clients have its core; those that come then take it from the worker again.
            worker.has_waited = true;
            own.waking += 1;
            let at_ns = worker.taken_until_ns;
            self.events.at(at_ns, Event::Awake(number));
            return;
        }
        worker.has_waited = false;
        let mut batch = core::mem::take(&mut worker.batch);
        let next = own.queue.next(&self.engines, self.now_ns, |seat, _, ticket| batch.push((ticket, seat.head)));
        self.workers[number as usize].batch = batch;
        match next {
            Next::Batch { predicted_ns } => {
                self.start(number, predicted_ns);
                for index in 0..self.workers[number as usize].batch.len() {
                    let (_, request) = self.workers[number as usize].batch[index];
                    self.put_in_line(self.requests.get(request).client);
                }
                if self.nodes[node as usize].queue.wants_another(predicted_ns) {
                    self.nudge(node);
                }
            }
            Next::Held { until_ns } => {
                self.watch(node, Watcher { worker: number, since_ns: self.now_ns, holds: true });
                let own = &mut self.nodes[node as usize];
                if until_ns < own.look_at_ns {
                    own.look_at_ns = until_ns;
                    self.events.at(until_ns.max(self.now_ns + 1), Event::Look(node));
                }
            }
            Next::Nothing => self.watch(node, Watcher { worker: number, since_ns: self.now_ns, holds: false }),
        }
    }

    /// A worker that has found nothing is on watch; of two, one sleeps.
    fn watch(&mut self, node: u32, watcher: Watcher) {
        let own = &mut self.nodes[node as usize];
        if let Some(other) = own.watcher.replace(watcher) {
            own.sleepers.push(other.worker);
        }
    }

    /// More requests are there: somebody else looks, too.
    fn nudge(&mut self, node: u32) {
        let own = &mut self.nodes[node as usize];
        match own.watcher {
            Some(watcher) if !watcher.holds => {
                own.watcher = None;
                if self.now_ns - watcher.since_ns <= self.scenario.spin_ns {
                    return self.look(watcher.worker);
                }
                own.sleepers.push(watcher.worker);
                self.wake(node);
            }
            // It looks as soon as they may go.
            Some(_) => {}
            None => self.wake(node),
        }
    }

    /// A worker runs the batch that it has.
    fn start(&mut self, number: u32, predicted_ns: f64) {
        let (mut ops, mut bytes, mut factor) = (0, 0, 1.0);
        let mut kind = 0;
        for (_, request) in &self.workers[number as usize].batch {
            let work = self.work(*request);
            ops += u64::from(work.ops);
            bytes += u64::from(work.bytes);
            kind = self.engines.kind(self.requests.get(*request).work);
        }
        let requests = self.workers[number as usize].batch.len() as u64;
        let by_chance = self.workers[number as usize].batch.iter().any(|(_, request)| self.work(*request).by_chance);
        if by_chance {
            factor = self.random.exponential(1.0);
        }
        let overheads = &self.scenario.overheads;
        let around = overheads.batch_ns
            + overheads.request_ns * requests as f64
            + overheads.op_ns * ops as f64
            + overheads.byte_ns * bytes as f64
            + if self.scenario.shares_cores { overheads.switch_ns } else { 0.0 };
        let around_ns = around.round() as u64;
        let Some(ran) = self.engines.run(kind, (ops, bytes), self.now_ns + around_ns, factor) else { return };
        let core_ns = if ran.engine < DEVICES_FROM { around_ns + ran.ns } else { around_ns };
        self.counts.ran(&ran, (requests, ops), self.now_ns, core_ns);
        let worker = &mut self.workers[number as usize];
        worker.is_busy = ran.engine < DEVICES_FROM;
        worker.is_short = predicted_ns <= LONG_NS;
        worker.late_ns = worker.taken_until_ns.saturating_sub(self.now_ns);
        self.nodes[worker.node as usize].short += u32::from(worker.is_short);
        self.events.at(self.now_ns + around_ns + ran.ns, Event::End(number));
    }

    /// A worker has run its batch, unless clients have taken time from it.
    fn end(&mut self, number: u32) {
        let worker = &mut self.workers[number as usize];
        let late_ns = core::mem::take(&mut worker.late_ns);
        if late_ns > 0 && worker.is_busy {
            self.events.at(self.now_ns + late_ns, Event::End(number));
            return;
        }
        worker.is_busy = false;
        let mut batch = core::mem::take(&mut worker.batch);
        let node = &mut self.nodes[worker.node as usize];
        node.short -= u32::from(worker.is_short);
        batch.iter().for_each(|(ticket, _)| node.queue.done(*ticket));
        for (_, request) in batch.drain(..) {
            self.put_in_line(self.requests.get(request).client);
            self.answer(request);
        }
        self.workers[number as usize].batch = batch;
        self.look(number);
    }

    /// A request has its answer; its client sees it a little later.
    fn answer(&mut self, request: u32) {
        let Request { client, work, born_ns, .. } = *self.requests.get(request);
        let overheads = &self.scenario.overheads;
        let half_ns = (overheads.client_ns / 2.0) as u64;
        let at_ns = if self.scenario.shares_cores {
            let again_ns = if self.asks_at_once(client) { half_ns } else { 0 };
            self.burst(client, half_ns + again_ns) - again_ns
        } else {
            let one = &self.scenario.works[work as usize];
            let time = self.engines.time(self.engines.kind(work), one.ops.into(), one.bytes.into());
            let expected_ns = time.map_or(0.0, |time| time.ns);
            let look_ns = if expected_ns < LOOK_MAX_NS { LOOK_MORE_NS + 1.5 * expected_ns } else { 0.0 };
            let sleeps = (self.now_ns - born_ns) as f64 > look_ns;
            self.now_ns + half_ns + if sleeps { overheads.client_wakeup_ns as u64 } else { 0 }
        };
        self.events.at(at_ns, Event::Received(request));
    }

    /// A client has its answer, and perhaps asks again.
    fn received(&mut self, number: u32) {
        let Request { client, work, born_ns, .. } = self.requests.remove(number);
        let one = &self.scenario.works[work as usize];
        let time = self.engines.time(self.engines.kind(work), one.ops.into(), one.bytes.into());
        let group = self.clients[client as usize].group;
        self.counts.answered((work, group), born_ns, self.now_ns, time.map_or(0.0, |time| time.ns));
        if let Arrivals::Closed { think_ns } = self.scenario.clients[group as usize].arrivals {
            let think_ns = self.random.exponential(think_ns) as u64;
            self.events.at(self.now_ns + think_ns, Event::Ask(client));
        }
    }

    /// A client has one of its node's cores for a while: one that is free, or else the one that others have for the shortest time; a batch
    /// that runs there ends later. When it is done.
    fn burst(&mut self, client: u32, ns: u64) -> u64 {
        let overheads = &self.scenario.overheads;
        let from = self.nodes[self.clients[client as usize].node as usize].workers_from;
        let to = from + self.scenario.cores_of_node();
        let key = |number: &u32| {
            let worker = &self.workers[*number as usize];
            (worker.taken_until_ns.max(self.now_ns), worker.is_busy)
        };
        let Some(number) = (from..to).min_by_key(key) else { return self.now_ns };
        let worker = &mut self.workers[number as usize];
        let sleeps = !worker.is_busy && worker.taken_until_ns + IDLE_NS < self.now_ns;
        let wakeup_ns = if sleeps { overheads.client_wakeup_ns as u64 } else { 0 };
        let ns = ns + overheads.switch_ns as u64;
        let start_ns = worker.taken_until_ns.max(self.now_ns + wakeup_ns);
        worker.taken_until_ns = start_ns + ns;
        if worker.is_busy {
            worker.late_ns += ns;
        }
        self.counts.client_ran(start_ns, ns);
        start_ns + ns
    }
}

#[cfg(test)]
mod tests;
