//! Works and devices of a scenario, from their names and what is known of their costs.

use ciphermill_contract::{Direction, EngineKind, Suite};
use ciphermill_router::Prediction;

use crate::parse::{DeviceText, MixText, parse_arrivals, parse_mix, parse_trace};
use crate::scenario::{Arrivals, Clients, Device, DeviceCost, Overheads, Scenario, Work};
use crate::{SimulationError, rule};

/// Bytes of an operation where nothing is said and its suite takes any number.
const LEN: usize = 64;

/// What a scenario is made of besides its text.
pub trait Sources {
    /// What a suite costs on a core; `None` if that is not known.
    fn cost(&self, suite: Suite, direction: Direction) -> Option<Prediction>;

    /// A device of this kind, without costs.
    fn device(&self, kind: EngineKind) -> Option<Device>;

    /// What a suite costs on such a device; `None` if it does not run it.
    fn device_cost(&self, kind: EngineKind, suite: Suite, direction: Direction) -> Option<DeviceCost>;

    /// The text of a trace's file.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn trace(&self, path: &str) -> Result<String, String>;
}

/// One core, no clients, 2 seconds.
impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            cores: 1,
            nodes: 1,
            shares_cores: false,
            devices: Vec::new(),
            works: Vec::new(),
            clients: Vec::new(),
            overheads: Overheads::default(),
            spin_ns: 50_000,
            // Of Linux 6.18 with eight cores or more, and with 250 ticks a second.
            slice_ns: 2_800_000,
            tick_ns: 4_000_000,
            window_max_ns: 300_000,
            seconds: 2.0,
            warm_up: 0.2,
            seed: 1,
        }
    }
}

impl Scenario {
    /// Adds clients with their mix and their arrivals, both in text. What are no arrivals is the name of a trace's file, which has the mix and
    /// the number of clients itself.
    ///
    /// # Errors
    /// [`SimulationError`], which names what is wrong.
    pub fn add_clients(
        &mut self,
        (count, weight): (u32, f64),
        arrivals: &str,
        mix: &str,
        sources: &dyn Sources,
    ) -> Result<(), SimulationError> {
        let is_file = arrivals.contains(['.', '/']) && parse_arrivals(arrivals).is_err();
        if !is_file {
            let arrivals = parse_arrivals(arrivals)?;
            let texts = parse_mix(mix)?;
            let works = texts.iter().map(|work| Ok((self.add_work(work, sources)?, work.share)));
            let mix = works.collect::<Result<_, SimulationError>>()?;
            self.clients.push(Clients { count, weight, arrivals, mix });
            return Ok(());
        }
        let text = sources.trace(arrivals).map_err(|why| rule(arrivals, why))?;
        let (works, mut asks, count) = parse_trace(&text)?;
        let works = works.iter().map(|work| self.add_work(work, sources)).collect::<Result<Vec<_>, _>>()?;
        asks.iter_mut().for_each(|ask| ask.work = works[ask.work]);
        self.clients.push(Clients { count, weight, arrivals: Arrivals::Trace(asks), mix: Vec::new() });
        Ok(())
    }

    /// The place of a work among those of the scenario, where it is put if it is not there.
    fn add_work(&mut self, text: &MixText, sources: &dyn Sources) -> Result<usize, SimulationError> {
        if let Some(known) = self.works.iter().position(|work| work.name == text.name) {
            return Ok(known);
        }
        let MixText { suite, direction, ops, keys_in, .. } = *text;
        let lengths = suite.input_len(direction);
        let len = text.len.map_or(lengths.round_up(LEN).min(lengths.max), |len| len as usize);
        if len < lengths.min || len > lengths.max {
            let rule = format!("an operation has {} to {} bytes", lengths.min, lengths.max);
            return Err(crate::rule(text.name.clone(), rule));
        }
        let bytes = u32::try_from(len).ok().and_then(|len| len.checked_mul(ops));
        let bytes = bytes.ok_or_else(|| rule(text.name.clone(), "a request has at most 16 MiB"))?;
        let known = sources.cost(suite, direction);
        // What only a device runs has no cost on a core.
        let on_device = || sources.device_cost(keys_in?, suite, direction).map(|known| Prediction::even(known.cost));
        let cost = known.or_else(on_device);
        let cost =
            cost.ok_or_else(|| rule(text.name.clone(), format!("no engine is known to run {suite} {direction}")))?;
        let name = text.name.clone();
        self.works.push(Work { name, suite, direction, ops, bytes, keys_in, cost, by_chance: false });
        Ok(self.works.len() - 1)
    }

    /// Adds devices with what is known of their costs for the works that are there.
    ///
    /// # Errors
    /// [`SimulationError::Rule`] if there is no device of the kind.
    pub fn add_devices(&mut self, texts: &[DeviceText], sources: &dyn Sources) -> Result<(), SimulationError> {
        for DeviceText { kind, count } in texts {
            let missing = || rule(kind.to_string(), "there is no such device");
            let mut device = sources.device(*kind).ok_or_else(missing)?;
            self.add_costs(&mut device, sources);
            self.add_many(&device, *count)?;
        }
        Ok(())
    }

    /// Adds devices that differ in their numbers alone.
    pub(crate) fn add_many(&mut self, device: &Device, count: u32) -> Result<(), SimulationError> {
        if !(1..=8).contains(&count) {
            return Err(rule(format!("{}: {count} devices", device.name), "must be 1 to 8"));
        }
        for number in 1..=count {
            self.devices.push(Device { name: format!("{} {number}", device.name), ..device.clone() });
        }
        Ok(())
    }

    /// Gives a device the costs of the scenario's works that are known of its kind.
    pub(crate) fn add_costs(&self, device: &mut Device, sources: &dyn Sources) {
        for work in &self.works {
            if device.cost(work.suite, work.direction).is_none() {
                device.costs.extend(sources.device_cost(device.kind, work.suite, work.direction));
            }
        }
    }
}
