//! One pair's measurement.

use std::time::{Duration, Instant};

use ciphermill::MeasuredCost;
use ciphermill_contract::{EngineQueue, PreparedKey, QueueHint};
use ciphermill_router::{Fit, Point, SIZE_CLASSES, class_factors, fit};

use crate::Pair;
use crate::material::{Load, Material};
use crate::shapes::shapes;

/// A shape that would take more than this share of a pair's time is not begun …
const SHAPE_SHARE: f64 = 0.15;

/// … except for the first two.
const SHAPES_MIN: usize = 2;

/// Runs of a shape in a row take this long together at least, in nanoseconds …
const TURN_NS: f64 = 8000.0;

/// … but are at most so many. A turn's time is their mean: the clock's steps are as long as a short operation.
const TURN_MAX: usize = 64;

/// A shape that took so many times as long as the others let expect was probably disturbed, and is run again …
const DISTURBED: f64 = 1.3;

/// … this often at most, so that a shape that is just slow stays so.
const REPEATS: usize = 3;

/// What reading the clock twice costs, which every measured time contains.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    overhead_ns: f64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let mut times: Vec<f64> = (0..1001).map(|_| Instant::now().elapsed().as_nanos() as f64).collect();
        times.sort_unstable_by(f64::total_cmp);
        Clock { overhead_ns: times[times.len() / 2] }
    }

    fn since(self, start: Instant) -> f64 {
        (start.elapsed().as_nanos() as f64 - self.overhead_ns).max(1.0)
    }
}

/// A shape of the design with what it took.
struct Spot<'k> {
    load: Load,
    keys: Vec<Option<&'k PreparedKey>>,
    /// The first run, in cold caches.
    first_ns: f64,
    times_ns: Vec<f64>,
}

/// Measures a pair within about `time`, or says why it cannot be. `makers` may encrypt what the pair decrypts.
pub(crate) fn measure(
    pair: &Pair,
    makers: &[Pair],
    clock: Clock,
    time: Duration,
    rounds: usize,
) -> Result<MeasuredCost, String> {
    let start = Instant::now();
    let (suite, direction, info) = (pair.suite, pair.direction, pair.engine.info());
    let capability = pair.capability().ok_or("the engine does not claim it")?;
    let makers = makers.iter().map(|pair| &pair.engine);
    let material = Material::new(&pair.engine, suite, direction, makers)?;
    let mut queue = pair.engine.queue(QueueHint::default()).map_err(|error| error.to_string())?;
    let mut spots: Vec<Spot<'_>> = Vec::new();
    let mut per_weight: f64 = 0.0;
    let slow_ns = time.as_nanos() as f64 * SHAPE_SHARE;
    for shape in shapes(suite, capability.input_len_max) {
        if spots.len() >= SHAPES_MIN && (per_weight * shape.weight() > slow_ns || start.elapsed() > time)
            || per_weight * shape.weight() > slow_ns * 4.0
        {
            break;
        }
        let mut load = material.load(shape)?;
        let keys = load.keys(&material.prepared);
        let first_ns = load.run(queue.as_mut(), &keys, Instant::now, |start| clock.since(start))?;
        per_weight = first_ns / shape.weight();
        let mut spot = Spot { load, keys, first_ns, times_ns: Vec::new() };
        // However little time there is, what counts has run in warm caches.
        spot.turn(queue.as_mut(), clock)?;
        spots.push(spot);
    }
    for _ in 0..rounds {
        for spot in &mut spots {
            if start.elapsed() < time {
                spot.turn(queue.as_mut(), clock)?;
            }
        }
    }
    let mut fitted = fit_to(&mut spots, capability.step)?;
    for _ in 0..REPEATS {
        let mut disturbed = 0;
        for spot in &mut spots {
            let point = spot.point(capability.step);
            let is_slow = point.ns > DISTURBED * fitted.cost.predict_ns(point.ops, point.bytes);
            if is_slow && start.elapsed() < time * 2 {
                spot.turn(queue.as_mut(), clock)?;
                disturbed += 1;
            }
        }
        if disturbed == 0 {
            break;
        }
        fitted = fit_to(&mut spots, capability.step)?;
    }
    // Public-key operations go one after the other, or in step: there is nothing for classes to tell but disturbances.
    let points: Vec<Point> = spots.iter_mut().map(|spot| spot.point(capability.step)).collect();
    let is_straight = suite.is_public_key();
    let factors = if is_straight { [1.0; SIZE_CLASSES] } else { class_factors(&fitted.cost, &points) };
    Ok(MeasuredCost {
        engine: info.name.to_owned(),
        version: info.version.clone(),
        kernel: info.kernel_for(suite).to_owned(),
        suite,
        direction,
        cost: fitted.cost,
        step: capability.step,
        spread: fitted.spread,
        factors,
    })
}

fn fit_to(spots: &mut [Spot<'_>], step: u16) -> Result<Fit, String> {
    let points: Vec<Point> = spots.iter_mut().map(|spot| spot.point(step)).collect();
    fit(&points).ok_or_else(|| "there was no time to measure it".to_owned())
}

impl Spot<'_> {
    /// Some runs in a row, more of short ones.
    fn turn(&mut self, queue: &mut dyn EngineQueue, clock: Clock) -> Result<(), String> {
        // A queue's first run of all takes many times as long as the next.
        let run_ns = self.times_ns.iter().copied().fold(self.first_ns, f64::min);
        let runs = ((TURN_NS / run_ns) as usize).clamp(1, TURN_MAX);
        let mut sum_ns = 0.0;
        for _ in 0..runs {
            sum_ns += self.load.run(queue, &self.keys, Instant::now, |start| clock.since(start))?;
        }
        self.times_ns.push(sum_ns / runs as f64);
        Ok(())
    }

    /// What a tenth of the times lie below, which of few is the least: the system's interruptions only ever lengthen a
    /// run, but the very least of many is often a fluke. Operations and bytes are those that are paid for, in steps of so many.
    fn point(&mut self, step: u16) -> Point {
        self.times_ns.sort_unstable_by(f64::total_cmp);
        let ns = self.times_ns.get(self.times_ns.len() / 10).copied().unwrap_or(self.first_ns);
        let count = (self.load.key_of.len() as u64).max(1);
        let ops = count.next_multiple_of(step.into());
        Point { ops, bytes: self.load.bytes * ops / count, ns }
    }
}
