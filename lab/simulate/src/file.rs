//! A scenario as a TOML file, which says everything that the command line does, and more.

use ciphermill_contract::{Cost, Direction, EngineKind, Suite};
use ciphermill_router::Prediction;
use serde::Deserialize;

use crate::SimulationError;
use crate::build::Sources;
use crate::scenario::{Device, DeviceCost, Overheads, Scenario};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    cores: u32,
    nodes: u32,
    shares_cores: bool,
    seconds: f64,
    warm_up: f64,
    seed: u64,
    spin_us: f64,
    window_us: f64,
    slice_us: f64,
    tick_us: f64,
    overheads: OverheadsFile,
    device: Vec<DeviceFile>,
    cost: Vec<CostFile>,
    clients: Vec<ClientsFile>,
}

impl Default for File {
    fn default() -> File {
        let usual = Scenario::default();
        File {
            cores: usual.cores,
            nodes: usual.nodes,
            shares_cores: usual.shares_cores,
            seconds: usual.seconds,
            warm_up: usual.warm_up,
            seed: usual.seed,
            spin_us: usual.spin_ns as f64 / 1e3,
            window_us: usual.window_max_ns as f64 / 1e3,
            slice_us: usual.slice_ns as f64 / 1e3,
            tick_us: usual.tick_ns as f64 / 1e3,
            overheads: OverheadsFile::default(),
            device: Vec::new(),
            cost: Vec::new(),
            clients: Vec::new(),
        }
    }
}

/// What is left out is as usual.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OverheadsFile {
    batch_ns: Option<f64>,
    request_ns: Option<f64>,
    op_ns: Option<f64>,
    byte_ns: Option<f64>,
    wakeup_ns: Option<f64>,
    client_ns: Option<f64>,
    client_wakeup_ns: Option<f64>,
    wake_ns: Option<f64>,
    interrupt_ns: Option<f64>,
    switch_ns: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceFile {
    kind: KindFile,
    #[serde(default = "one")]
    count: u32,
    latency_us: Option<f64>,
    at_once: Option<u32>,
    #[serde(default)]
    cost: Vec<DeviceCostFile>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KindFile {
    Hsm,
    Gpu,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeviceCostFile {
    suite: String,
    direction: Option<String>,
    #[serde(default)]
    batch_us: f64,
    op_us: f64,
    #[serde(default)]
    byte_ns: f64,
    #[serde(default = "one_step")]
    step: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostFile {
    suite: String,
    direction: Option<String>,
    /// Nanoseconds for a batch, an operation and a byte.
    alone: [f64; 3],
    many: Option<[f64; 3]>,
    #[serde(default = "one_step")]
    step: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientsFile {
    #[serde(default = "one")]
    count: u32,
    #[serde(default = "even")]
    weight: f64,
    arrivals: String,
    #[serde(default)]
    mix: Vec<String>,
}

fn one() -> u32 {
    1
}

fn one_step() -> u16 {
    1
}

fn even() -> f64 {
    1.0
}

/// A scenario from TOML. What costs are not in it come from `sources`.
///
/// # Errors
/// [`SimulationError`], which names what is wrong; the scenario is not yet checked as a whole.
pub fn read(text: &str, sources: &dyn Sources) -> Result<Scenario, SimulationError> {
    let file: File = toml::from_str(text).map_err(|error| SimulationError::File(error.to_string()))?;
    let mut own = WithCosts { costs: costs(&file.cost)?, devices: Vec::new(), sources };
    for device in &file.device {
        for cost in &device.cost {
            own.devices.push((device.kind.kind(), cost.cost()?));
        }
    }
    let mut scenario = Scenario {
        cores: file.cores,
        nodes: file.nodes,
        shares_cores: file.shares_cores,
        overheads: file.overheads.overheads(),
        spin_ns: nanoseconds("spin_us", file.spin_us)?,
        window_max_ns: nanoseconds("window_us", file.window_us)?,
        slice_ns: nanoseconds("slice_us", file.slice_us)?,
        tick_ns: nanoseconds("tick_us", file.tick_us)?,
        seconds: file.seconds,
        warm_up: file.warm_up,
        seed: file.seed,
        ..Scenario::default()
    };
    for clients in &file.clients {
        let mix = clients.mix.join(",");
        scenario.add_clients((clients.count, clients.weight), &clients.arrivals, &mix, &own)?;
    }
    for device in &file.device {
        let kind = device.kind.kind();
        let known = own.device(kind).ok_or_else(|| crate::rule(kind.to_string(), "there is no such device"))?;
        let mut made = Device {
            latency_ns: device.latency_us.map_or(known.latency_ns, |us| us * 1e3),
            at_once: device.at_once.unwrap_or(known.at_once),
            costs: device.cost.iter().map(DeviceCostFile::cost).collect::<Result<_, _>>()?,
            ..known
        };
        scenario.add_costs(&mut made, &own);
        scenario.add_many(&made, device.count)?;
    }
    Ok(scenario)
}

fn nanoseconds(name: &str, us: f64) -> Result<u64, SimulationError> {
    if (0.0..=1e9).contains(&us) {
        return Ok((us * 1e3) as u64);
    }
    Err(crate::rule(format!("{name}: {us}"), "must be 0 to 1,000,000,000 µs"))
}

/// The file's costs before those of others.
struct WithCosts<'s> {
    costs: Vec<(Suite, Direction, Prediction)>,
    devices: Vec<(EngineKind, DeviceCost)>,
    sources: &'s dyn Sources,
}

impl Sources for WithCosts<'_> {
    fn cost(&self, suite: Suite, direction: Direction) -> Option<Prediction> {
        let own = self.costs.iter().find(|(known, way, _)| (*known, *way) == (suite.canonical(), direction));
        own.map(|(_, _, cost)| *cost).or_else(|| self.sources.cost(suite, direction))
    }

    fn device(&self, kind: EngineKind) -> Option<Device> {
        self.sources.device(kind)
    }

    fn device_cost(&self, kind: EngineKind, suite: Suite, direction: Direction) -> Option<DeviceCost> {
        let of = |(known, cost): &&(EngineKind, DeviceCost)| {
            (*known, cost.suite, cost.direction) == (kind, suite.canonical(), direction)
        };
        let own = self.devices.iter().find(of).map(|(_, cost)| *cost);
        own.or_else(|| self.sources.device_cost(kind, suite, direction))
    }

    fn trace(&self, path: &str) -> Result<String, String> {
        self.sources.trace(path)
    }
}

fn costs(files: &[CostFile]) -> Result<Vec<(Suite, Direction, Prediction)>, SimulationError> {
    let one = |file: &CostFile| {
        let (suite, direction) = named(&file.suite, file.direction.as_deref())?;
        let cost = |[batch_ns, op_ns, byte_ns]: [f64; 3]| Cost::new(batch_ns, op_ns, byte_ns);
        let (alone, many) = (cost(file.alone), cost(file.many.unwrap_or(file.alone)));
        Ok((suite, direction, Prediction::new(many, file.step.max(1), alone)))
    };
    files.iter().map(one).collect()
}

fn named(suite: &str, direction: Option<&str>) -> Result<(Suite, Direction), SimulationError> {
    let wrong = |text: &str, why: String| crate::rule(text, why);
    let parsed = suite.parse::<Suite>().map_err(|error| wrong(suite, error.to_string()))?;
    let direction = direction.unwrap_or("encrypt");
    let way = direction.parse::<Direction>().map_err(|_| wrong(direction, "is no direction".to_owned()))?;
    Ok((parsed.canonical(), way))
}

impl KindFile {
    fn kind(self) -> EngineKind {
        match self {
            KindFile::Hsm => EngineKind::Token,
            KindFile::Gpu => EngineKind::Gpu,
        }
    }
}

impl DeviceCostFile {
    fn cost(&self) -> Result<DeviceCost, SimulationError> {
        let (suite, direction) = named(&self.suite, self.direction.as_deref())?;
        let cost = Cost::new(self.batch_us * 1e3, self.op_us * 1e3, self.byte_ns);
        Ok(DeviceCost { suite, direction, cost, step: self.step.max(1) })
    }
}

impl OverheadsFile {
    fn overheads(&self) -> Overheads {
        let usual = Overheads::default();
        Overheads {
            batch_ns: self.batch_ns.unwrap_or(usual.batch_ns),
            request_ns: self.request_ns.unwrap_or(usual.request_ns),
            op_ns: self.op_ns.unwrap_or(usual.op_ns),
            byte_ns: self.byte_ns.unwrap_or(usual.byte_ns),
            wakeup_ns: self.wakeup_ns.unwrap_or(usual.wakeup_ns),
            client_ns: self.client_ns.unwrap_or(usual.client_ns),
            client_wakeup_ns: self.client_wakeup_ns.unwrap_or(usual.client_wakeup_ns),
            wake_ns: self.wake_ns.unwrap_or(usual.wake_ns),
            interrupt_ns: self.interrupt_ns.unwrap_or(usual.interrupt_ns),
            switch_ns: self.switch_ns.unwrap_or(usual.switch_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::Nothing;

    const WHOLE: &str = r#"
cores = 16
nodes = 2
seconds = 0.5
window_us = 100
[overheads]
request_ns = 500
[[device]]
kind = "hsm"
count = 2
latency_us = 1000
at_once = 4
[[device.cost]]
suite = "ecdsa-p256"
op_us = 500
[[cost]]
suite = "x25519"
alone = [0, 30000, 0]
many = [0, 8000, 0]
step = 8
[[clients]]
count = 100
weight = 2
arrivals = "poisson:50000"
mix = ["x25519:0.9", "ecdsa-p256@hsm:0.1"]
[[clients]]
arrivals = "closed:1ms"
mix = ["x25519"]
"#;

    #[test]
    fn a_file_says_all_of_it() {
        let scenario = read(WHOLE, &Nothing).expect("a scenario");
        scenario.check().expect("sound");
        assert_eq!((scenario.cores, scenario.nodes, scenario.window_max_ns), (16, 2, 100_000));
        assert_eq!((scenario.overheads.request_ns, scenario.overheads.op_ns), (500.0, Overheads::default().op_ns));
        let names: Vec<&str> = scenario.devices.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["hsm 1", "hsm 2"]);
        assert_eq!((scenario.devices[1].at_once, scenario.devices[1].latency_ns), (4, 1e6));
        assert_eq!(scenario.works.len(), 2, "a work that two groups ask for is one");
        assert_eq!((scenario.works[0].cost.step, scenario.works[0].bytes), (8, 32));
        assert_eq!((scenario.clients[0].weight, scenario.clients[1].count), (2.0, 1));
        assert_eq!(scenario.rate(), None);
    }

    #[test]
    fn the_manuals_example_is_one() {
        let page = include_str!("../../../docs/lab.md");
        let (_, rest) = page.split_once("```toml\n").expect("an example");
        let (example, _) = rest.split_once("```").expect("it ends");
        let scenario = read(example, &Nothing).expect("a scenario");
        scenario.check().expect("sound");
        assert_eq!((scenario.devices.len(), scenario.works.len(), scenario.clients[0].count), (2, 2, 5000));
        let outcome = crate::run(&scenario).expect("sound");
        assert!(outcome.works.iter().all(|work| work.answered > 0));
    }

    #[test]
    fn a_file_that_is_wrong_says_where() {
        for (from, to, word) in [
            ("cores = 16", "core = 16", "core"),
            ("step = 8", "step = \"x\"", "step"),
            ("suite = \"x25519\"", "suite = \"x25518\"", "x25519"),
            ("poisson:50000", "poisson", "poisson"),
            ("kind = \"hsm\"", "kind = \"tpm\"", "hsm"),
            ("window_us = 100", "window_us = -1", "window_us"),
            ("count = 2\n", "count = 9\n", "1 to 8"),
            ("x25519:0.9", "aes-128-gcm:0.9", "no engine is known"),
        ] {
            let said = read(&WHOLE.replacen(from, to, 1), &Nothing).map(|_| ()).expect_err(to).to_string();
            assert!(said.contains(word), "{to}: {said}");
        }
    }
}
