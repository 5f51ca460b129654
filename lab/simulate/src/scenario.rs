//! What is simulated: a machine, its clients, what they ask for, and what everything costs.

use ciphermill_channel::REQUEST_NS_MAX;
use ciphermill_contract::{Cost, Direction, EngineKind, Suite};
use ciphermill_router::Prediction;

use crate::{SimulationError, rule};

/// Cores that are simulated at most.
pub(crate) const CORES_MAX: u32 = 256;

/// Devices at most.
const DEVICES_MAX: usize = 8;

/// Clients at most.
const CLIENTS_MAX: u64 = 100_000;

/// Operations of a request at most, as the service has it.
const OPS_MAX: u32 = 65_536;

/// Bytes of a request at most.
const BYTES_MAX: u32 = 16 << 20;

/// Seconds that are simulated at most.
pub(crate) const SECONDS_MAX: f64 = 3600.0;

/// The highest rate of arrivals, a second.
const RATE_MAX: f64 = 1e9;

/// A machine with its service, and who asks it for what.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Cores of all nodes, a worker each.
    pub cores: u32,
    /// NUMA nodes: each has a service of its own with its share of the cores and clients. Devices serve all of them.
    pub nodes: u32,
    /// Whether clients run on these cores too. Else each has a core of its own elsewhere.
    pub shares_cores: bool,
    /// Devices.
    pub devices: Vec<Device>,
    /// What clients may ask for.
    pub works: Vec<Work>,
    /// The clients, in groups.
    pub clients: Vec<Clients>,
    /// What the service costs around engines.
    pub overheads: Overheads,
    /// How long a worker that has nothing to do looks for requests at most before it sleeps, in nanoseconds.
    pub spin_ns: u64,
    /// The turn of a thread that has not asked for another, in nanoseconds: the kernel's base slice.
    pub slice_ns: u64,
    /// Nanoseconds between two looks of the kernel at whose turn it is.
    pub tick_ns: u64,
    /// The longest window in nanoseconds; with zero there are none.
    pub window_max_ns: u64,
    /// Seconds that are simulated.
    pub seconds: f64,
    /// The share of them after which counting begins.
    pub warm_up: f64,
    /// Where chance begins. The same scenario has the same outcome.
    pub seed: u64,
}

/// Requests of one form.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// What it is called in the outcome.
    pub name: String,
    /// The suite.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
    /// Operations of a request.
    pub ops: u32,
    /// Bytes of input of all of them.
    pub bytes: u32,
    /// The devices that alone have the keys, by their kind; `None` where any engine may run it.
    pub keys_in: Option<EngineKind>,
    /// What it costs on a core.
    pub cost: Prediction,
    /// Whether batches take an exponentially distributed time with the predicted one as its mean, as a search by chance does.
    pub by_chance: bool,
}

/// Clients that do the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Clients {
    /// How many.
    pub count: u32,
    /// The share of each beside others.
    pub weight: f64,
    /// When they ask.
    pub arrivals: Arrivals,
    /// What for: works by their place in [`Scenario::works`], with shares of requests.
    pub mix: Vec<(usize, f64)>,
}

/// When clients ask.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Each waits for its answer, and then thinks for an exponentially distributed time.
    Closed {
        /// The mean of that time in nanoseconds; zero for none.
        think_ns: f64,
    },
    /// Whether answers come or not, at independent times.
    Poisson {
        /// Requests a second of all clients of the group together.
        rate: f64,
    },
    /// The same, in turns of requests and none.
    Bursts {
        /// Requests a second of all clients of the group, over both.
        rate: f64,
        /// How long requests come, in nanoseconds.
        on_ns: f64,
        /// How long none do.
        off_ns: f64,
    },
    /// As it was recorded, in the order of times.
    Trace(Vec<Ask>),
}

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Nanoseconds from the beginning.
    pub at_ns: u64,
    /// The client, from zero on.
    pub client: u32,
    /// What for, by its place in [`Scenario::works`].
    pub work: usize,
}

/// An engine that is none of the cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// What it is called in the outcome.
    pub name: String,
    /// Its kind.
    pub kind: EngineKind,
    /// Nanoseconds on the way there and back, in which it may work on something else.
    pub latency_ns: f64,
    /// Batches that it works on at a time; of a token, operations.
    pub at_once: u32,
    /// What it runs.
    pub costs: Vec<DeviceCost>,
}

/// What a suite costs on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceCost {
    /// The suite.
    pub suite: Suite,
    /// Which way.
    pub direction: Direction,
    /// What a batch costs; of a token, `op_ns` is an operation on one of those that it does at a time.
    pub cost: Cost,
    /// Operations that are paid for together.
    pub step: u16,
}

/// What the service and its clients cost around engines, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overheads {
    /// A worker's, for a batch.
    pub batch_ns: f64,
    /// A worker's, for a request: found, copied, checked, answered.
    pub request_ns: f64,
    /// A worker's, for an operation.
    pub op_ns: f64,
    /// A worker's, for a byte.
    pub byte_ns: f64,
    /// Until a core that sleeps runs a thread that was woken.
    pub wakeup_ns: f64,
    /// A client's, for a request: made, and its answer taken.
    pub client_ns: f64,
    /// Until a client that sleeps elsewhere has seen its answer.
    pub client_wakeup_ns: f64,
    /// Waking a thread, for the one that does.
    pub wake_ns: f64,
    /// Interrupting another core for that, for each of the two.
    pub interrupt_ns: f64,
    /// Going to sleep and being woken, with the changes of threads.
    pub switch_ns: f64,
}

/// Of the order of what was measured on two cores of Zen 5 under a hypervisor.
impl Default for Overheads {
    fn default() -> Overheads {
        Overheads {
            batch_ns: 250.0,
            request_ns: 350.0,
            op_ns: 25.0,
            byte_ns: 0.06,
            wakeup_ns: 30_000.0,
            client_ns: 250.0,
            client_wakeup_ns: 30_000.0,
            wake_ns: 2_000.0,
            interrupt_ns: 5_000.0,
            switch_ns: 4_000.0,
        }
    }
}

impl Work {
    /// Whether an engine of this kind may run it: the cores and devices that take keys, or those that have its key.
    pub(crate) fn allows(&self, kind: EngineKind) -> bool {
        match self.keys_in {
            Some(keeper) => kind == keeper,
            None => kind != EngineKind::Token,
        }
    }
}

impl Device {
    /// Units that a batch is spread over.
    fn units(&self) -> f64 {
        if self.kind == EngineKind::Token { f64::from(self.at_once) } else { 1.0 }
    }

    /// What a suite costs on it.
    pub(crate) fn cost(&self, suite: Suite, direction: Direction) -> Option<&DeviceCost> {
        self.costs.iter().find(|cost| cost.suite == suite.canonical() && cost.direction == direction)
    }
}

impl Arrivals {
    /// Requests a second that are asked for whether answers come or not; `None` where clients wait for answers.
    pub fn rate(&self) -> Option<f64> {
        match self {
            Arrivals::Closed { .. } => None,
            Arrivals::Poisson { rate } | Arrivals::Bursts { rate, .. } => Some(*rate),
            Arrivals::Trace(asks) => {
                let end = asks.last().map_or(0, |ask| ask.at_ns);
                Some(asks.len() as f64 * 1e9 / end.max(1) as f64)
            }
        }
    }
}

impl Scenario {
    /// Cores of each node.
    pub(crate) fn cores_of_node(&self) -> u32 {
        self.cores / self.nodes
    }

    /// When counting begins, and when the simulation ends, in nanoseconds.
    pub(crate) fn window(&self) -> (u64, u64) {
        let end = self.seconds * 1e9;
        ((end * self.warm_up) as u64, end as u64)
    }

    /// Requests a second of all clients; `None` if some wait for answers.
    pub fn rate(&self) -> Option<f64> {
        self.clients.iter().map(|group| group.arrivals.rate()).sum()
    }

    /// Whether everything in it can be simulated.
    ///
    /// # Errors
    /// [`SimulationError::Rule`], which names the value, the rule and its bound.
    pub fn check(&self) -> Result<(), SimulationError> {
        let clients: u64 = self.clients.iter().map(|group| u64::from(group.count)).sum();
        within("cores", f64::from(self.cores), 1.0, f64::from(CORES_MAX))?;
        within("nodes", f64::from(self.nodes), 1.0, f64::from(self.cores))?;
        if !self.cores.is_multiple_of(self.nodes) {
            return Err(rule(format!("{} cores", self.cores), format!("each of {} nodes has as many", self.nodes)));
        }
        within("devices", self.devices.len() as f64, 0.0, DEVICES_MAX as f64)?;
        within("clients", clients as f64, 1.0, CLIENTS_MAX as f64)?;
        above("seconds", self.seconds, SECONDS_MAX)?;
        within("warm-up, as a share of the time", self.warm_up, 0.0, 0.9)?;
        within("window in nanoseconds", self.window_max_ns as f64, 0.0, 1e9)?;
        within("slice in nanoseconds", self.slice_ns as f64, 1e5, 1e9)?;
        within("tick in nanoseconds", self.tick_ns as f64, 1e5, 1e9)?;
        self.overheads.check()?;
        self.works.iter().try_for_each(|work| self.check_work(work))?;
        self.devices.iter().try_for_each(check_device)?;
        self.clients.iter().try_for_each(|group| self.check_clients(group))
    }

    fn check_work(&self, work: &Work) -> Result<(), SimulationError> {
        let name = &work.name;
        within(&format!("{name}: operations of a request"), f64::from(work.ops), 1.0, f64::from(OPS_MAX))?;
        within(&format!("{name}: bytes of a request"), f64::from(work.bytes), 0.0, f64::from(BYTES_MAX))?;
        for cost in [work.cost.many, work.cost.few, work.cost.alone] {
            check_cost(name, &cost)?;
        }
        if let Some(kind) = work.keys_in {
            let has = |device: &Device| device.kind == kind && device.cost(work.suite, work.direction).is_some();
            if !self.devices.iter().any(has) {
                return Err(rule(name.clone(), format!("there is no device of kind {kind} that runs it")));
            }
        }
        let least_ms = self.least_ns(work) / 1e6;
        if work.ops > 1 && least_ms > REQUEST_NS_MAX / 1e6 {
            let what = format!("{name}: {least_ms:.0} ms");
            return Err(rule(what, "the service takes requests of several operations that take 50 ms at most"));
        }
        Ok(())
    }

    /// What a request of a work is predicted to take on the engine that is best for it.
    fn least_ns(&self, work: &Work) -> f64 {
        let (ops, bytes) = (u64::from(work.ops), u64::from(work.bytes));
        let devices = self.devices.iter().filter(|device| work.allows(device.kind)).filter_map(|device| {
            let DeviceCost { cost, step, .. } = device.cost(work.suite, work.direction)?;
            Some(cost.in_steps(ops, *step).predict_ns(ops, bytes) / device.units())
        });
        let core_ns = work.keys_in.map_or_else(|| work.cost.time(ops, bytes).ns, |_| f64::INFINITY);
        devices.fold(core_ns, f64::min)
    }

    fn check_clients(&self, group: &Clients) -> Result<(), SimulationError> {
        above("weight", group.weight, 1e6)?;
        if group.count == 0 {
            return Err(rule("clients", "a group has one at least"));
        }
        if group.mix.is_empty() && !matches!(group.arrivals, Arrivals::Trace(_)) {
            return Err(rule("mix", "it names one work at least"));
        }
        for (work, share) in &group.mix {
            let Some(work) = self.works.get(*work) else {
                return Err(rule("mix", "each work is one of the scenario's"));
            };
            above(&format!("share of {}", work.name), *share, 1e6)?;
        }
        match &group.arrivals {
            Arrivals::Closed { think_ns } => within("thinking in seconds", think_ns / 1e9, 0.0, SECONDS_MAX),
            Arrivals::Poisson { rate } => above("rate", *rate, RATE_MAX),
            Arrivals::Bursts { rate, on_ns, off_ns } => {
                above("rate", *rate, RATE_MAX)?;
                above("length of a burst in seconds", on_ns / 1e9, SECONDS_MAX)?;
                within("pause between bursts in seconds", off_ns / 1e9, 0.0, SECONDS_MAX)
            }
            Arrivals::Trace(asks) => {
                let known = |ask: &Ask| ask.client < group.count && ask.work < self.works.len();
                let ordered = asks.is_sorted_by_key(|ask| ask.at_ns);
                if asks.is_empty() || !ordered || !asks.iter().all(known) {
                    return Err(rule("trace", "it has requests of known clients and works, in the order of times"));
                }
                Ok(())
            }
        }
    }
}

impl Overheads {
    fn check(&self) -> Result<(), SimulationError> {
        let all = [
            ("batch_ns", self.batch_ns),
            ("request_ns", self.request_ns),
            ("op_ns", self.op_ns),
            ("byte_ns", self.byte_ns),
            ("wakeup_ns", self.wakeup_ns),
            ("client_ns", self.client_ns),
            ("client_wakeup_ns", self.client_wakeup_ns),
            ("wake_ns", self.wake_ns),
            ("interrupt_ns", self.interrupt_ns),
            ("switch_ns", self.switch_ns),
        ];
        all.into_iter().try_for_each(|(name, value)| within(name, value, 0.0, 1e9))
    }
}

fn check_device(device: &Device) -> Result<(), SimulationError> {
    let name = &device.name;
    within(&format!("{name}: at once"), f64::from(device.at_once), 1.0, 4096.0)?;
    within(&format!("{name}: latency in nanoseconds"), device.latency_ns, 0.0, 60e9)?;
    device.costs.iter().try_for_each(|cost| check_cost(name, &cost.cost))
}

fn check_cost(name: &str, cost: &Cost) -> Result<(), SimulationError> {
    let Cost { batch_ns, op_ns, byte_ns } = *cost;
    for (term, value) in [("batch_ns", batch_ns), ("op_ns", op_ns), ("byte_ns", byte_ns)] {
        within(&format!("{name}: {term}"), value, 0.0, 60e9)?;
    }
    above(&format!("{name}: nanoseconds of an operation"), cost.predict_ns(1, 64), 60e9)
}

fn within(what: &str, value: f64, least: f64, most: f64) -> Result<(), SimulationError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(rule(format!("{what}: {value}"), format!("must be {least} to {most}")))
}

fn above(what: &str, value: f64, most: f64) -> Result<(), SimulationError> {
    if value > 0.0 && value <= most {
        return Ok(());
    }
    Err(rule(format!("{what}: {value}"), format!("must be above zero and at most {most}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::build::Sources;

    /// Knows of no costs, and of empty devices.
    pub(crate) struct Nothing;

    impl Sources for Nothing {
        fn cost(&self, suite: Suite, direction: Direction) -> Option<Prediction> {
            let rsa = rsa();
            ((suite, direction) == (rsa.suite, rsa.direction)).then_some(rsa.cost)
        }

        fn device(&self, kind: EngineKind) -> Option<Device> {
            let name = if kind == EngineKind::Token { "hsm" } else { "gpu" };
            Some(Device { name: name.to_owned(), kind, latency_ns: 0.0, at_once: 1, costs: Vec::new() })
        }

        fn device_cost(&self, kind: EngineKind, suite: Suite, direction: Direction) -> Option<DeviceCost> {
            let known = kind == EngineKind::Token && suite.to_string() == "ecdsa-p256";
            known.then_some(DeviceCost { suite, direction, cost: Cost::new(0.0, 500_000.0, 0.0), step: 1 })
        }

        fn trace(&self, path: &str) -> Result<String, String> {
            Err(format!("there is no {path}"))
        }
    }

    /// A signature of 400 µs alone, and 60 µs in a full step of eight.
    pub(crate) fn rsa() -> Work {
        Work {
            name: "rsa".to_owned(),
            suite: "rsa-2048-sign-pkcs1-sha256".parse().expect("a suite"),
            direction: Direction::Encrypt,
            ops: 1,
            bytes: 64,
            keys_in: None,
            cost: Prediction::new(Cost::new(0.0, 60_000.0, 0.0), 8, Cost::new(0.0, 400_000.0, 0.0)),
            by_chance: false,
        }
    }

    /// One core, no overheads, one client that asks for the works evenly.
    pub(crate) fn scenario(works: Vec<Work>) -> Scenario {
        let mix = (0..works.len()).map(|work| (work, 1.0)).collect();
        let none = Overheads {
            batch_ns: 0.0,
            request_ns: 0.0,
            op_ns: 0.0,
            byte_ns: 0.0,
            wakeup_ns: 0.0,
            client_ns: 0.0,
            client_wakeup_ns: 0.0,
            wake_ns: 0.0,
            interrupt_ns: 0.0,
            switch_ns: 0.0,
        };
        let clients = vec![Clients { count: 1, weight: 1.0, arrivals: Arrivals::Closed { think_ns: 0.0 }, mix }];
        Scenario { works, clients, overheads: none, ..Scenario::default() }
    }

    #[test]
    fn what_cannot_be_simulated_names_the_rule_and_its_bound() {
        type Change = fn(&mut Scenario);
        let changes: [(Change, &str); 15] = [
            (|scenario| scenario.works[0].ops = 1000, "rsa: 60 ms: the service takes requests of several operations"),
            (|scenario| scenario.cores = 257, "cores: 257: must be 1 to 256"),
            (|scenario| scenario.cores = 0, "cores: 0"),
            (|scenario| scenario.nodes = 2, "nodes: 2: must be 1 to 1"),
            (|scenario| (scenario.cores, scenario.nodes) = (3, 2), "3 cores: each of 2 nodes has as many"),
            (|scenario| scenario.clients[0].count = 100_001, "clients: 100001: must be 1 to 100000"),
            (|scenario| scenario.clients[0].count = 0, "clients"),
            (|scenario| scenario.clients[0].weight = 0.0, "weight: 0"),
            (|scenario| scenario.seconds = f64::NAN, "seconds"),
            (|scenario| scenario.clients[0].mix.clear(), "mix"),
            (|scenario| scenario.clients[0].mix[0].1 = -1.0, "share of rsa: -1"),
            (|scenario| scenario.clients[0].arrivals = Arrivals::Poisson { rate: 0.0 }, "rate: 0"),
            (|scenario| scenario.works[0].keys_in = Some(EngineKind::Token), "there is no device of kind token"),
            (|scenario| scenario.works[0].cost.alone = Cost::new(0.0, 0.0, 0.0), "must be above zero"),
            (|scenario| scenario.overheads.op_ns = f64::INFINITY, "op_ns: inf"),
        ];
        for (change, word) in changes {
            let mut scenario = scenario(vec![rsa()]);
            change(&mut scenario);
            let said = scenario.check().expect_err(word).to_string();
            assert!(said.contains(word), "{said}");
        }
        scenario(vec![rsa()]).check().expect("sound");
    }
}
