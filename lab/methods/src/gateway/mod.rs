//! `lab gateway`: ESP where it is used.
//!
//! In memory: packets into a burst, through the mill and out, beside DPDK's ipsec-secgw in the same run, with few and many associations, on one
//! core and on two. Over veth pairs: [`live`].

pub mod live;
pub mod memory;
mod secgw;
mod show;

use std::sync::Mutex;
use std::time::{Duration, Instant};

use ciphermill::Mill;
use ciphermill_contract::Direction;
use ciphermill_esp::Turns;
use ciphermill_report::{Estimate, Section};

use crate::LabError;
use crate::engines::names;
use crate::estimate::estimate;
use crate::lineup;
use crate::method::{Options, Progress};
use crate::timing::Contestant;
use memory::{Load, Memory};
use secgw::Secgw;

/// What is measured beside the peer: transform, and what the peer's script calls it.
const SUITES: &[(&str, &str)] =
    &[("aes-128-gcm", "gcm"), ("aes-128-cbc+hmac-sha1-96", "cbc"), ("3des-cbc+hmac-sha1-96", "3des")];

/// What is measured by itself.
const OTHERS: &[&str] = &["chacha20-poly1305", "aes-256-gcm", "aes-128-cbc+hmac-sha256-128", "aes-128-ccm"];

/// Bytes of inner packets.
const LENS: &[usize] = &[64, 512, 1424];

/// Associations, measured beside one.
const ASSOCIATIONS: &[usize] = &[10, 100, 1000, 10_000];

/// Packets of a burst; triple DES has lanes for more.
const BURST: usize = 256;
const BURST_3DES: usize = 2048;

/// One half of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// ESP in memory.
    Memory,
    /// Gateways over veth pairs.
    Live,
}

/// What of the method is measured. Stacks, suites and frames are those of the half over veth pairs.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// One half alone.
    pub half: Option<Half>,
    /// Stacks by name, of those that are defined; empty for all, in a quick run for some.
    pub stacks: Vec<String>,
    /// Suites, as the definitions call them.
    pub suites: Vec<String>,
    /// Frames.
    pub frames: Vec<live::Frame>,
}

impl Choice {
    /// Refuses what the definitions do not have.
    ///
    /// # Errors
    /// [`LabError::Parameters`], naming what there is.
    pub fn check(&self) -> Result<(), LabError> {
        let definitions = live::Definitions::read()?;
        let stacks: Vec<&str> = definitions.gateway.iter().map(|stack| stack.name.as_str()).collect();
        let mut suites: Vec<&str> =
            definitions.gateway.iter().flat_map(|stack| stack.suites.keys().map(String::as_str)).collect();
        suites.sort_unstable();
        suites.dedup();
        for (what, asked, known) in [("stack", &self.stacks, &stacks), ("suite", &self.suites, &suites)] {
            if let Some(unknown) = asked.iter().find(|name| !known.contains(&name.as_str())) {
                let known = known.join(", ");
                return Err(LabError::Parameters(format!("there is no {what} {unknown}; there are {known}")));
            }
        }
        Ok(())
    }
}

/// Measures everything.
///
/// # Errors
/// [`LabError`]: an engine that is not there, packets that did not leave.
pub fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    section(options, &Choice::default(), progress)
}

/// Measures what is chosen.
///
/// # Errors
/// As [`run`]; what the definitions do not have.
pub fn section(options: &Options, choice: &Choice, progress: Progress<'_>) -> Result<Section, LabError> {
    choice.check()?;
    let mut section = show::section();
    if choice.half != Some(Half::Live) {
        in_memory(options, &mut section, progress)?;
    }
    if choice.half != Some(Half::Memory) {
        live::run(options, choice, &mut section, progress)?;
    }
    Ok(section)
}

fn in_memory(options: &Options, section: &mut Section, progress: Progress<'_>) -> Result<(), LabError> {
    let found = lineup::engines(options, &names(), section)?;
    let own = found.into_iter().filter(|engine| ciphermill_engines::names().any(|name| name == engine.info().name));
    let mill =
        Mill::builder().engines(own).legacy(true).open().map_err(|error| LabError::Parameters(error.to_string()))?;
    if let Some(core) = options.core {
        core_affinity::set_for_current(core_affinity::CoreId { id: core });
    }
    let mut results = Results::default();
    beside_the_peer(options, &mill, &mut results, section, progress)?;
    alone(options, &mill, &mut results, progress)?;
    by_engine(options, &mut results, section, progress)?;
    by_associations(options, &mill, &mut results, progress)?;
    on_two_cores(options, &mill, &mut results, section, progress)?;
    show::fill(section, &results);
    Ok(())
}

/// Everything that was measured in memory.
#[derive(Default)]
struct Results {
    /// One for each load, beside the peer where there is one.
    rates: Vec<Rate>,
    by_engine: Vec<(&'static str, Rate)>,
    /// Beside one.
    by_associations: Vec<(usize, Rate)>,
    /// By what is spread over them: how many times the rate of one core.
    two_cores: Vec<(&'static str, Estimate)>,
}

/// What came of a load.
struct Rate {
    load: Load,
    /// Nanoseconds a packet, a round each.
    ns: Vec<f64>,
    /// Of which receiving, headers and numbers, cryptography, and committing took so many, on average.
    steps: [f64; 4],
    /// The packets a second of what it is measured beside, in millions, a round each: the peer, or one association.
    peer_mpps: Vec<f64>,
}

impl Rate {
    fn mpps(&self) -> f64 {
        1e3 / estimate(&self.ns).value
    }

    /// How many times the peer's rate ours is.
    fn factor(&self) -> Option<Estimate> {
        let ratios: Vec<f64> = self.ns.iter().zip(&self.peer_mpps).map(|(ns, peer)| 1e3 / ns / peer).collect();
        (!ratios.is_empty()).then(|| estimate(&ratios))
    }

    fn name(&self) -> String {
        let Load { transform, direction, len, associations, .. } = self.load;
        format!("{transform}/{direction}/{len}/{associations}")
    }
}

fn load(transform: &str, direction: Direction, len: usize, associations: usize) -> Result<Load, LabError> {
    let burst = if transform.starts_with("3des") { BURST_3DES } else { BURST };
    let transform = transform.parse().map_err(|error| LabError::Parameters(format!("{error}")))?;
    Ok(Load { transform, direction, len, associations, burst, replay_window: 0 })
}

/// Rounds of a load, between which `between` is called.
fn rounds(
    options: &Options,
    mill: &Mill,
    load: Load,
    mut between: impl FnMut() -> Option<f64>,
) -> Result<Rate, LabError> {
    let mut memory = Memory::new(mill, load)?;
    // Caches, predictors, self-tests.
    memory.run();
    (memory.left, memory.steps) = (0, [Duration::ZERO; 4]);
    let mut rate = Rate { load, ns: Vec::new(), steps: [0.0; 4], peer_mpps: Vec::new() };
    for _ in 0..if options.quick { 2 } else { 7 } {
        rate.ns.push(round(options, &mut memory)?);
        rate.peer_mpps.extend(between());
    }
    rate.steps = memory.steps.map(|step| step.as_nanos() as f64 / memory.left as f64);
    Ok(rate)
}

/// Nanoseconds a packet.
fn round(options: &Options, memory: &mut Memory) -> Result<f64, LabError> {
    let time = Duration::from_millis(if options.quick { 20 } else { 200 });
    let (start, before) = (Instant::now(), memory.left);
    while start.elapsed() < time {
        memory.run();
    }
    let packets = memory.left - before;
    if packets == 0 || memory.lost() > 0 {
        let what = memory.load.transform;
        return Err(LabError::Parameters(format!("{what}: {} packets were lost in memory", memory.lost())));
    }
    Ok(start.elapsed().as_nanos() as f64 / packets as f64)
}

fn beside_the_peer(
    options: &Options,
    mill: &Mill,
    results: &mut Results,
    section: &mut Section,
    progress: Progress<'_>,
) -> Result<(), LabError> {
    let mut peer = Secgw::find(options.core);
    for (transform, short) in SUITES {
        for (direction, way) in [(Direction::Encrypt, "out"), (Direction::Decrypt, "in")] {
            for len in LENS.iter().filter(|len| !options.quick || **len == 64) {
                progress(&format!("{transform} {way}, {len} bytes"))?;
                let name = format!("{short}-{way}-{len}");
                let load = load(transform, direction, *len, 1)?;
                let mut why = None;
                let rate = rounds(options, mill, load, || {
                    peer.as_ref().ok().and_then(|peer| peer.mpps(&name).map_err(|error| why = Some(error)).ok())
                })?;
                if let Some(why) = why {
                    // What does not run once is not asked again.
                    peer = Err(why);
                }
                results.rates.push(rate);
            }
        }
    }
    if let Err(why) = peer {
        section.lacks("ipsec-secgw", why);
    }
    Ok(())
}

fn alone(options: &Options, mill: &Mill, results: &mut Results, progress: Progress<'_>) -> Result<(), LabError> {
    for transform in OTHERS.iter().filter(|_| !options.quick) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            for len in LENS {
                progress(&format!("{transform} {direction}, {len} bytes"))?;
                results.rates.push(rounds(options, mill, load(transform, direction, *len, 1)?, || None)?);
            }
        }
    }
    Ok(())
}

/// The same packets with one engine alone.
fn by_engine(
    options: &Options,
    results: &mut Results,
    section: &mut Section,
    progress: Progress<'_>,
) -> Result<(), LabError> {
    for name in ["lanes", "library", "reference"] {
        let Some(engine) = lineup::open_or_lack(name, section)? else { continue };
        let mill = Mill::builder()
            .engine(engine)
            .legacy(true)
            .open()
            .map_err(|error| LabError::Parameters(error.to_string()))?;
        for (transform, _) in SUITES {
            for len in LENS.iter().filter(|len| !options.quick || **len == 64) {
                progress(&format!("{transform} on {name}, {len} bytes"))?;
                match rounds(options, &mill, load(transform, Direction::Encrypt, *len, 1)?, || None) {
                    Ok(rate) => results.by_engine.push((name, rate)),
                    Err(_) => section.lacks(format!("{transform} on {name}"), "the engine does not run it by itself"),
                }
            }
        }
    }
    Ok(())
}

fn by_associations(
    options: &Options,
    mill: &Mill,
    results: &mut Results,
    progress: Progress<'_>,
) -> Result<(), LabError> {
    for count in ASSOCIATIONS.iter().filter(|count| !options.quick || **count <= 10) {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            progress(&format!("{count} associations"))?;
            let mut one = Memory::new(mill, load("aes-128-gcm", direction, 64, 1)?)?;
            one.run();
            let load = load("aes-128-gcm", direction, 64, *count)?;
            let mut failed = None;
            let rate = rounds(options, mill, load, || {
                let ns = round(options, &mut one).map_err(|error| failed = Some(error)).ok()?;
                Some(1e3 / ns)
            })?;
            if let Some(error) = failed {
                return Err(error);
            }
            results.by_associations.push((*count, rate));
        }
    }
    Ok(())
}

fn on_two_cores(
    options: &Options,
    mill: &Mill,
    results: &mut Results,
    section: &mut Section,
    progress: Progress<'_>,
) -> Result<(), LabError> {
    let cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    let Some(cores) =
        cores.first_chunk::<2>().copied().or_else(|| (ciphermill_tuning::Host::here().cores >= 2).then_some([0, 1]))
    else {
        section.lacks("two cores", "this thread may use one alone");
        return Ok(());
    };
    let time = Duration::from_millis(if options.quick { 30 } else { 300 });
    for (what, is_hot) in [("many associations", false), ("one hot association", true)] {
        let mut ratios = Vec::new();
        for _ in 0..if options.quick { 2 } else { 7 } {
            progress(&format!("two cores, {what}"))?;
            let rate = |cores: &[usize]| if is_hot { hot(mill, cores, time) } else { many(mill, cores, time) };
            ratios.push(rate(&cores)? / rate(&cores[..1])?);
        }
        results.two_cores.push((what, estimate(&ratios)));
    }
    Ok(())
}

/// Packets a second of cores that have associations of their own.
fn many(mill: &Mill, cores: &[usize], time: Duration) -> Result<f64, LabError> {
    let load = load("aes-128-gcm", Direction::Encrypt, 64, 16)?;
    let workers: Vec<Memory> = cores.iter().map(|_| Memory::new(mill, load)).collect::<Result<_, _>>()?;
    let start = Instant::now();
    let left: u64 = std::thread::scope(|scope| {
        let work = |(mut memory, core): (Memory, usize)| {
            scope.spawn(move || {
                core_affinity::set_for_current(core_affinity::CoreId { id: core });
                memory.per_run = BURST;
                while start.elapsed() < time {
                    memory.run();
                }
                memory.left
            })
        };
        let threads: Vec<_> = workers.into_iter().zip(cores.iter().copied()).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    Ok(left as f64 / start.elapsed().as_secs_f64())
}

/// Packets a second of cores that take turns with one association.
fn hot(mill: &Mill, cores: &[usize], time: Duration) -> Result<f64, LabError> {
    let load = load("aes-128-gcm", Direction::Encrypt, 64, 1)?;
    let shared = Memory::new(mill, load)?;
    let workers: Vec<memory::Worker> = cores.iter().map(|_| shared.worker(mill)).collect();
    let (turns, tunnels) = (Turns::new(0), Mutex::new(shared));
    let start = Instant::now();
    let left: u64 = std::thread::scope(|scope| {
        let work = |(mut worker, core): (memory::Worker, usize)| {
            let (turns, tunnels) = (&turns, &tunnels);
            scope.spawn(move || {
                core_affinity::set_for_current(core_affinity::CoreId { id: core });
                let mut left = 0;
                while start.elapsed() < time {
                    left += worker.turn(turns, tunnels);
                }
                left
            })
        };
        let threads: Vec<_> = workers.into_iter().zip(cores.iter().copied()).map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    Ok(left as f64 / start.elapsed().as_secs_f64())
}

/// The engine of a name, for tests of what is measured.
#[cfg(test)]
fn mill_of(name: &str) -> Mill {
    let engine = crate::engines::open(name);
    Mill::builder().engines(engine).legacy(true).open().unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_a_load_leaves_in_both_directions() {
        let mill = mill_of("reference");
        for (transform, _) in SUITES {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                for window in [0, 64] {
                    let load =
                        load(transform, direction, 64, 3).map(|load| Load { burst: 32, replay_window: window, ..load });
                    let mut memory =
                        load.and_then(|load| Memory::new(&mill, load)).unwrap_or_else(|error| panic!("{error}"));
                    memory.per_run = 320;
                    memory.run();
                    assert!(memory.left >= 320, "{transform} {direction}: {}", memory.left);
                    assert_eq!(memory.lost(), 0);
                }
            }
        }
    }

    #[test]
    fn what_is_not_defined_is_not_chosen() {
        let choice = |stack: &str, suite: &str| Choice {
            stacks: vec![stack.to_owned()],
            suites: vec![suite.to_owned()],
            ..Choice::default()
        };
        assert!(choice("ciphermill", "aes-128-gcm").check().is_ok());
        for (stack, suite, wrong) in [("nobody", "aes-128-gcm", "stack nobody"), ("ciphermill", "rot13", "suite rot13")]
        {
            let error = choice(stack, suite).check().expect_err(wrong).to_string();
            assert!(error.contains(wrong) && error.contains("there are"), "{error}");
        }
    }

    #[test]
    fn workers_that_take_turns_lose_no_packet() {
        let rate =
            hot(&mill_of("reference"), &[0], Duration::from_millis(20)).unwrap_or_else(|error| panic!("{error}"));
        assert!(rate > 0.0);
    }
}
