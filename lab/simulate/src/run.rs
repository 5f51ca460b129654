//! The simulation: clients ask, workers look, run batches and answer, as those of the service do.

use std::time::Duration;

use ciphermill_channel::{REQUEST_NS_MAX, SLOTS};
use ciphermill_router::queue::LONG_NS;
use ciphermill_router::{Next, Times, Waiting};

use crate::SimulationError;
use crate::cores::{Cores, Turn};
use crate::engines::{DEVICES_FROM, Engines};
use crate::events::{Event, Events, NONE, Request, Requests};
use crate::node::{Client, ClientStage, Node, Stage, Task, Worker};
use crate::outcome::{Counts, Outcome};
use crate::random::Random;
use crate::scenario::{Arrivals, Scenario, Work};

/// A client looks for an answer that should be there within so many nanoseconds, for half as much again and some more; then it sleeps. For
/// later ones it sleeps at once, and in a crowd.
const LOOK_MAX_NS: f64 = 500_000.0;
const LOOK_MORE_NS: f64 = 60_000.0;

/// The turns on a core that the service's workers ask for, in nanoseconds: the shortest there are.
const WORKER_SLICE_NS: u64 = 100_000;

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
        simulation.cores.settle(&mut simulation.events, at_ns);
    }
    let (left, events) = (simulation.requests.len() as u64, simulation.events.count());
    Ok(simulation.counts.outcome(scenario, simulation.cores.busy_ns, (left, events)))
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
    cores: Cores,
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
        let mut cores = Cores::new(scenario);
        (0..scenario.cores).for_each(|core| _ = cores.add(core, WORKER_SLICE_NS));
        cores.begin_clients();
        if scenario.shares_cores {
            for (number, client) in clients.iter().enumerate() {
                let core = client.node * per_node + number as u32 / scenario.nodes % per_node;
                cores.add(core, scenario.slice_ns);
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
            cores,
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
            Event::Submitted(request) => _ = self.submitted(request, None),
            Event::Received(request) => self.received(request),
            Event::Core(core, era) => {
                if let Some(thread) = self.cores.happens(core, era, self.now_ns) {
                    let turn = self.goes_on(thread);
                    self.cores.turn_to(thread, turn, self.now_ns);
                }
            }
            Event::Device(worker) => _ = self.cores.wake(worker, self.half_switch(0), self.now_ns, None),
        }
    }

    /// What a thread does that has done what it should.
    fn goes_on(&mut self, thread: u32) -> Turn {
        match thread.checked_sub(self.scenario.cores) {
            None => self.worker(thread),
            Some(client) => self.client(client),
        }
    }

    /// Going to sleep, or being woken, and so many nanoseconds more.
    fn half_switch(&self, more_ns: u64) -> Turn {
        Turn::Work((self.scenario.overheads.switch_ns / 2.0) as u64 + more_ns)
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
        if self.scenario.shares_cores {
            let _ = self.give(client, Task::Make(request), None);
        } else {
            self.events.at(self.now_ns + self.half_client_ns(), Event::Submitted(request));
        }
    }

    fn half_client_ns(&self) -> u64 {
        (self.scenario.overheads.client_ns / 2.0) as u64
    }

    /// Has a client's thread do something; `by` is the core of who gives it that. What waking it takes, in nanoseconds.
    fn give(&mut self, number: u32, task: Task, by: Option<u32>) -> u64 {
        let (thread, ns) = (self.scenario.cores + number, self.half_client_ns());
        let woken = self.half_switch(ns);
        let client = &mut self.clients[number as usize];
        let mut wake_ns = 0;
        match client.stage {
            ClientStage::Asleep => {
                wake_ns = self.scenario.overheads.wake_ns as u64 + self.cores.wake(thread, woken, self.now_ns, by);
            }
            ClientStage::Looks => {
                client.spin.paid();
                self.cores.turn_to(thread, Turn::Work(ns), self.now_ns);
            }
            ClientStage::Does(_) | ClientStage::Dozes => {
                client.tasks.push_back(task);
                return 0;
            }
        }
        client.stage = ClientStage::Does(task);
        wake_ns
    }

    /// What a client's thread does next.
    fn client(&mut self, number: u32) -> Turn {
        let mut more_ns = 0;
        let mut waits = false;
        let core = self.cores.core_of(self.scenario.cores + number);
        match self.clients[number as usize].stage {
            ClientStage::Does(Task::Make(request)) => {
                more_ns = self.submitted(request, Some(core));
                waits = true;
            }
            ClientStage::Does(Task::Take(request)) => self.received(request),
            ClientStage::Looks => self.clients[number as usize].spin.did_not_pay(),
            ClientStage::Dozes | ClientStage::Asleep => {
                if self.clients[number as usize].tasks.is_empty() {
                    self.clients[number as usize].stage = ClientStage::Asleep;
                    return Turn::Sleep;
                }
            }
        }
        let ns = self.half_client_ns();
        let look_ns = if waits { self.look_ns(number) } else { 0 };
        let dozes = self.half_switch(more_ns);
        let client = &mut self.clients[number as usize];
        if let Some(task) = client.tasks.pop_front() {
            client.stage = ClientStage::Does(task);
            return Turn::Work(ns + more_ns);
        }
        let time = client.spin.time(Duration::from_nanos(look_ns)).as_nanos() as u64;
        if look_ns > 0 && time > 0 {
            client.stage = ClientStage::Looks;
            return Turn::Look { until_ns: self.now_ns + more_ns + time, yields: true };
        }
        client.stage = ClientStage::Dozes;
        dozes
    }

    /// For how long a client that waits for its last request may look for the answer.
    fn look_ns(&self, number: u32) -> u64 {
        let client = &self.clients[number as usize];
        let closed = matches!(self.scenario.clients[client.group as usize].arrivals, Arrivals::Closed { .. });
        if client.is_crowded || !closed || client.last == NONE {
            return 0;
        }
        let expected_ns = self.alone_ns(self.requests.get(client.last).work);
        if expected_ns < LOOK_MAX_NS { (LOOK_MORE_NS + 1.5 * expected_ns) as u64 } else { 0 }
    }

    /// What a request of a work is predicted to take by itself.
    fn alone_ns(&self, work: u32) -> f64 {
        let one = &self.scenario.works[work as usize];
        let time = self.engines.time(self.engines.kind(work), one.ops.into(), one.bytes.into());
        time.map_or(0.0, |time| time.ns)
    }

    /// A request has reached the service. What that costs who sends it beyond the usual, in nanoseconds.
    fn submitted(&mut self, request: u32, by: Option<u32>) -> u64 {
        let number = self.requests.get(request).client;
        let client = &mut self.clients[number as usize];
        let node = client.node;
        if client.first == NONE {
            client.first = request;
        } else {
            self.requests.get_mut(client.last).behind = request;
        }
        client.last = request;
        let was_awake = core::mem::replace(&mut client.is_awake, true);
        let own = &mut self.nodes[node as usize];
        own.fresh.push(number);
        if !was_awake {
            own.awake.push(number);
            if let Some(wake_ns) = self.wake_worker(node, by) {
                return wake_ns;
            }
        }
        // Who looks sees it.
        let now_ns = self.now_ns;
        for worker in self.nodes[node as usize].lookers.drain(..) {
            self.cores.turn_to(worker, Turn::Work(0), now_ns);
        }
        0
    }

    /// Wakes a worker, if one sleeps: what that takes, in nanoseconds.
    fn wake_worker(&mut self, node: u32, by: Option<u32>) -> Option<u64> {
        let worker = self.nodes[node as usize].sleepers.pop()?;
        self.workers[worker as usize].stage = Stage::Wakes;
        let interrupt_ns = self.cores.wake(worker, self.half_switch(0), self.now_ns, by);
        Some(self.scenario.overheads.wake_ns as u64 + interrupt_ns)
    }

    /// Puts a client's next request into the queue, if there is one and its place is free.
    fn put_in_line(&mut self, number: u32) {
        let Client { node, place, first, .. } = self.clients[number as usize];
        let queue = &self.nodes[node as usize].queue;
        let place = place as usize;
        if first == NONE || queue.waits(place) || queue.in_flight(place) >= SLOTS {
            return;
        }
        self.clients[number as usize].first = self.requests.get(first).behind;
        let (work, kind) = (self.work(first), self.engines.kind(self.requests.get(first).work));
        let (ops, bytes) = (work.ops, work.bytes);
        let predicted = self.engines.time(kind, ops.into(), bytes.into());
        let slow = predicted.is_some_and(|time| time.ns > REQUEST_NS_MAX);
        let queue = &mut self.nodes[node as usize].queue;
        if let Some(seat) = queue.owner_mut(place) {
            seat.head = first;
        }
        // None waits there.
        let _ = queue.arrive(place, Waiting { kind, variant: 0, ops, bytes, slow }, self.now_ns);
    }

    /// What a worker does next.
    fn worker(&mut self, number: u32) -> Turn {
        let worker = &mut self.workers[number as usize];
        let own = &mut self.nodes[worker.node as usize];
        match worker.stage {
            Stage::Asleep => Turn::Sleep,
            Stage::Wakes => {
                own.on_watch += 1;
                self.look(number)
            }
            Stage::Looks => self.look(number),
            Stage::Dozes => {
                let node = worker.node;
                let is_last = own.on_watch == 1;
                if is_last && !self.channels_sleep(node) {
                    return self.look(number);
                }
                let own = &mut self.nodes[node as usize];
                own.on_watch -= 1;
                own.sleepers.push(number);
                self.workers[number as usize].stage = Stage::Asleep;
                Turn::Sleep
            }
            Stage::Runs if worker.device_until_ns > self.now_ns => {
                worker.stage = Stage::Waits;
                self.events.at(worker.device_until_ns, Event::Device(number));
                Turn::Sleep
            }
            Stage::Runs | Stage::Waits => self.answers(number, 0, 0),
            Stage::Answers(index) => {
                let wake_ns = self.answer(number, index);
                self.answers(number, index + 1, wake_ns)
            }
            Stage::Ends => {
                self.ends(number);
                self.look(number)
            }
        }
    }

    /// Every channel that is awake rings from now on. False if one has asked meanwhile, or if something waits that may be given out.
    fn channels_sleep(&mut self, node: u32) -> bool {
        let Node { queue, awake, .. } = &mut self.nodes[node as usize];
        let clients = &mut self.clients;
        let mut sleeps = true;
        awake.retain(|number| {
            let client = &mut clients[*number as usize];
            let place = client.place as usize;
            let waits = queue.waits(place);
            let stays = waits || client.first != NONE;
            sleeps &= !stays || (waits && !queue.is_ready(place));
            client.is_awake = stays;
            stays
        });
        sleeps
    }

    /// A worker looks for something to run.
    fn look(&mut self, number: u32) -> Turn {
        let node = self.workers[number as usize].node;
        self.nodes[node as usize].lookers.retain(|looker| *looker != number);
        let mut fresh = core::mem::take(&mut self.nodes[node as usize].fresh);
        fresh.drain(..).for_each(|client| self.put_in_line(client));
        let own = &mut self.nodes[node as usize];
        own.fresh = fresh;
        let worker = &mut self.workers[number as usize];
        worker.stage = Stage::Looks;
        let batch = &mut worker.batch;
        let next = own.queue.next(&self.engines, self.now_ns, |seat, _, ticket| batch.push((ticket, seat.head)));
        match next {
            Next::Batch { predicted_ns } => {
                if worker.looks.take().is_some_and(|(time, _)| time > 0) {
                    worker.spin.paid();
                }
                self.start(number, predicted_ns)
            }
            Next::Held { until_ns } => {
                own.lookers.push(number);
                Turn::Look { until_ns: until_ns.max(self.now_ns + 1), yields: true }
            }
            Next::Nothing => {
                let spin = &mut worker.spin;
                let spin_ns = Duration::from_nanos(self.scenario.spin_ns);
                let (time, until_ns) = *worker.looks.get_or_insert_with(|| {
                    let time = spin.time(spin_ns).as_nanos() as u64;
                    (time, self.now_ns.saturating_add(time))
                });
                let late = self.now_ns >= until_ns;
                if !late && own.on_watch <= 1 {
                    own.lookers.push(number);
                    return Turn::Look { until_ns, yields: false };
                }
                if late && time > 0 {
                    worker.spin.did_not_pay();
                }
                worker.looks = None;
                worker.stage = Stage::Dozes;
                self.half_switch(0)
            }
        }
    }

    /// A worker runs the batch that it has.
    fn start(&mut self, number: u32, predicted_ns: f64) -> Turn {
        let batch = core::mem::take(&mut self.workers[number as usize].batch);
        let (mut ops, mut bytes, mut factor, mut kind, mut by_chance) = (0, 0, 1.0, 0, false);
        for (_, request) in &batch {
            let work = self.work(*request);
            ops += u64::from(work.ops);
            bytes += u64::from(work.bytes);
            by_chance |= work.by_chance;
            kind = self.engines.kind(self.requests.get(*request).work);
            let client = self.requests.get(*request).client;
            if self.clients[client as usize].first != NONE {
                self.nodes[self.workers[number as usize].node as usize].fresh.push(client);
            }
        }
        if by_chance {
            factor = self.random.exponential(1.0);
        }
        let requests = batch.len() as u64;
        let worker = &mut self.workers[number as usize];
        (worker.batch, worker.stage, worker.is_long) = (batch, Stage::Runs, predicted_ns > LONG_NS);
        let (node, is_long) = (worker.node, worker.is_long);
        let own = &mut self.nodes[node as usize];
        worker.is_crowded = own.awake.len() as u32 >= self.scenario.cores_of_node();
        let is_last = is_long && own.on_watch == 1;
        own.on_watch -= u32::from(is_long);
        let mut more = is_last && !self.channels_sleep(node);
        more |= self.nodes[node as usize].queue.wants_another(predicted_ns);
        let core = self.cores.core_of(number);
        let overheads = &self.scenario.overheads;
        let around = overheads.batch_ns
            + overheads.request_ns / 2.0 * requests as f64
            + overheads.op_ns * ops as f64
            + overheads.byte_ns * bytes as f64;
        let woken_ns = if more { self.wake_worker(node, Some(core)) } else { None };
        let around_ns = around.round() as u64 + woken_ns.unwrap_or(0);
        let Some(ran) = self.engines.run(kind, (ops, bytes), self.now_ns + around_ns, factor) else {
            return Turn::Sleep;
        };
        self.counts.ran(&ran, (requests, ops), self.now_ns);
        if ran.engine >= DEVICES_FROM {
            self.workers[number as usize].device_until_ns = self.now_ns + around_ns + ran.ns;
            return Turn::Work(around_ns);
        }
        Turn::Work(around_ns + ran.ns)
    }

    /// A worker goes on with the answer of this number, if there is one.
    fn answers(&mut self, number: u32, index: usize, wake_ns: u64) -> Turn {
        let worker = &mut self.workers[number as usize];
        let is_one = index < worker.batch.len();
        worker.stage = if is_one { Stage::Answers(index) } else { Stage::Ends };
        let request_ns = if is_one { self.scenario.overheads.request_ns / 2.0 } else { 0.0 };
        Turn::Work(wake_ns + request_ns as u64)
    }

    /// A request has its answer; its client sees it a little later. What waking that takes.
    fn answer(&mut self, number: u32, index: usize) -> u64 {
        let Worker { is_crowded, ref batch, .. } = self.workers[number as usize];
        let (_, request) = batch[index];
        let Request { client, work, born_ns, .. } = *self.requests.get(request);
        if self.scenario.shares_cores {
            self.clients[client as usize].is_crowded = is_crowded;
            return self.give(client, Task::Take(request), Some(self.cores.core_of(number)));
        }
        let overheads = &self.scenario.overheads;
        let expected_ns = self.alone_ns(work);
        let looks = !self.clients[client as usize].is_crowded && expected_ns < LOOK_MAX_NS;
        let look_ns = if looks { LOOK_MORE_NS + 1.5 * expected_ns } else { 0.0 };
        let sleeps = (self.now_ns - born_ns) as f64 > look_ns;
        let (wake_ns, wakeup_ns) = if sleeps { (overheads.wake_ns, overheads.client_wakeup_ns) } else { (0.0, 0.0) };
        self.clients[client as usize].is_crowded = is_crowded;
        self.events.at(self.now_ns + self.half_client_ns() + wakeup_ns as u64, Event::Received(request));
        wake_ns as u64
    }

    /// All requests of a worker's batch are answered.
    fn ends(&mut self, number: u32) {
        let worker = &mut self.workers[number as usize];
        let own = &mut self.nodes[worker.node as usize];
        own.on_watch += u32::from(worker.is_long);
        worker.batch.drain(..).for_each(|(ticket, _)| own.queue.done(ticket));
    }

    /// A client has its answer, and perhaps asks again.
    fn received(&mut self, number: u32) {
        let Request { client, work, born_ns, .. } = self.requests.remove(number);
        let group = self.clients[client as usize].group;
        self.counts.answered((work, group), born_ns, self.now_ns, self.alone_ns(work));
        if let Arrivals::Closed { think_ns } = self.scenario.clients[group as usize].arrivals {
            if self.scenario.shares_cores && think_ns == 0.0 {
                let work = self.groups[group as usize].work(&mut self.random);
                return self.ask(client, work);
            }
            let think_ns = self.random.exponential(think_ns) as u64;
            self.events.at(self.now_ns + think_ns, Event::Ask(client));
        }
    }
}

#[cfg(test)]
mod tests;
