//! What happens to which batch.

use core::time::Duration;

/// How long a run stalls at most, unless its script says otherwise.
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// What an engine does to one batch.
///
/// Operations are counted among those that are pending when the engine gets the batch; the others are never touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Runs the batch as it should.
    #[default]
    None,
    /// Waits this long, then runs the batch as it should.
    Delay(Duration),
    /// Blocks until [`crate::FaultHandle::release`] or for as long as [`Script::stall_max`] says, then goes on as
    /// [`Script::after_stall`] says.
    Stall,
    /// Every operation ends as `EngineFault`, its output zeroed.
    Errors,
    /// The operation of this index, modulo their number, ends as `EngineFault`, its output zeroed; the others run.
    ErrorAt(usize),
    /// Runs the batch, then turns over one bit of what one operation answered. Its status stays `Done`.
    ///
    /// The bit lies in the output or, where there is none, in the tag or digest that was written. An operation that only
    /// verifies answers nothing but a verdict, so that is turned over: `Done` and `AuthFailed` change places. An
    /// operation that has nothing to be turned over passes the fault on to the next one.
    WrongBit {
        /// Index of the operation, modulo their number.
        op: usize,
        /// The bit, counted from the lowest of the first byte, modulo their number.
        bit: usize,
    },
    /// Stops in the middle: runs the first half of the operations and leaves the others pending, of which the first
    /// has already written over the first half of its output.
    Unfinished,
    /// Every operation of this batch and of all that follow ends as `EngineFault`, keys are not prepared and queues not
    /// opened, until [`crate::FaultHandle::revive`].
    Death,
    /// Stops in the middle, as [`Fault::Unfinished`], and unwinds. The panic hook is not called, so that thousands of
    /// scripted panics do not hide a real one.
    Panic,
}

/// What becomes of a batch whose stall ends, unless the engine has been killed meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterStall {
    /// It runs as it should, late.
    #[default]
    Complete,
    /// It fails as with [`Fault::Errors`].
    Fail,
}

/// How often a random script chooses what, in shares of the sum; all zero is healthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// [`Fault::None`].
    pub healthy: u32,
    /// [`Fault::Delay`] of up to [`Weights::delay_max`].
    pub delay: u32,
    /// [`Fault::Stall`].
    pub stall: u32,
    /// [`Fault::Errors`].
    pub errors: u32,
    /// [`Fault::ErrorAt`] any operation.
    pub error_at: u32,
    /// [`Fault::WrongBit`], any bit of any operation.
    pub wrong_bit: u32,
    /// [`Fault::Unfinished`].
    pub unfinished: u32,
    /// [`Fault::Death`].
    pub death: u32,
    /// [`Fault::Panic`].
    pub panic: u32,
    /// The longest delay.
    pub delay_max: Duration,
}

impl Weights {
    /// Nothing is ever chosen: the base of `Weights { healthy: 9, errors: 1, ..Weights::NONE }`.
    pub const NONE: Weights = Weights {
        healthy: 0,
        delay: 0,
        stall: 0,
        errors: 0,
        error_at: 0,
        wrong_bit: 0,
        unfinished: 0,
        death: 0,
        panic: 0,
        delay_max: Duration::from_micros(200),
    };
}

impl Default for Weights {
    /// Two thirds healthy, every fault as likely as any other.
    fn default() -> Weights {
        Weights {
            healthy: 16,
            delay: 1,
            stall: 1,
            errors: 1,
            error_at: 1,
            wrong_bit: 1,
            unfinished: 1,
            death: 1,
            panic: 1,
            ..Weights::NONE
        }
    }
}

/// What happens to each batch that an engine runs, counted from zero over all its queues. Known-answer tests are
/// batches like any other.
#[derive(Clone, Debug)]
pub struct Script {
    plan: Plan,
    stall_max: Duration,
    after_stall: AfterStall,
}

#[derive(Clone, Debug)]
enum Plan {
    Always(Fault),
    At(u64, Fault),
    Sequence(Vec<Fault>),
    Cycle(Vec<Fault>),
    Random(u64, Weights),
}

impl Script {
    fn new(plan: Plan) -> Script {
        Script { plan, stall_max: STALL_MAX, after_stall: AfterStall::Complete }
    }

    /// Every batch runs as it should.
    pub fn healthy() -> Script {
        Script::always(Fault::None)
    }

    /// The same happens to every batch.
    pub fn always(fault: Fault) -> Script {
        Script::new(Plan::Always(fault))
    }

    /// Batch `n` meets the fault, no other does.
    pub fn at(n: u64, fault: Fault) -> Script {
        Script::new(Plan::At(n, fault))
    }

    /// The batches meet these faults one by one; those that follow run as they should.
    pub fn sequence(faults: Vec<Fault>) -> Script {
        Script::new(Plan::Sequence(faults))
    }

    /// The batches meet these faults one by one, over and over.
    pub fn cycle(faults: Vec<Fault>) -> Script {
        Script::new(Plan::Cycle(faults))
    }

    /// Each batch meets what is drawn for its number; the same seed and weights draw the same.
    pub fn random(seed: u64, weights: Weights) -> Script {
        Script::new(Plan::Random(seed, weights))
    }

    /// The same, where a stall ends by itself after this long; [`STALL_MAX`] unless set.
    #[must_use]
    pub fn stall_max(mut self, limit: Duration) -> Script {
        self.stall_max = limit;
        self
    }

    /// The same, where batches go on like this after a stall.
    #[must_use]
    pub fn after_stall(mut self, after: AfterStall) -> Script {
        self.after_stall = after;
        self
    }

    /// What happens to batch `n`, for a test that wants to say what it did.
    pub fn fault(&self, n: u64) -> Fault {
        let nth = |faults: &[Fault], n: u64| {
            let index = usize::try_from(n).ok();
            index.and_then(|index| faults.get(index)).copied().unwrap_or_default()
        };
        match &self.plan {
            Plan::Always(fault) => *fault,
            Plan::At(at, fault) if *at == n => *fault,
            Plan::At(..) => Fault::None,
            Plan::Sequence(faults) => nth(faults, n),
            Plan::Cycle(faults) => nth(faults, n % (faults.len() as u64).max(1)),
            Plan::Random(seed, weights) => draw(*seed, weights, n),
        }
    }

    pub(crate) fn stall(&self) -> (Duration, AfterStall) {
        (self.stall_max, self.after_stall)
    }
}

/// What a random script draws for batch `n`. Every batch has a generator of its own, so that what it meets does not
/// depend on which batches have been asked about before.
fn draw(seed: u64, weights: &Weights, n: u64) -> Fault {
    let start = SplitMix64(SplitMix64(seed).next() ^ n).next();
    let mut random = SplitMix64(start);
    let mut left = random.next();
    let (op, bit) = (random.next() as usize, random.next() as usize);
    let delay_ns = u64::try_from(weights.delay_max.as_nanos()).unwrap_or(u64::MAX);
    let delay = Duration::from_nanos(random.next() % delay_ns.saturating_add(1).max(1));
    let choices = [
        (weights.healthy, Fault::None),
        (weights.delay, Fault::Delay(delay)),
        (weights.stall, Fault::Stall),
        (weights.errors, Fault::Errors),
        (weights.error_at, Fault::ErrorAt(op)),
        (weights.wrong_bit, Fault::WrongBit { op, bit }),
        (weights.unfinished, Fault::Unfinished),
        (weights.death, Fault::Death),
        (weights.panic, Fault::Panic),
    ];
    let all: u64 = choices.iter().map(|(weight, _)| u64::from(*weight)).sum();
    left %= all.max(1);
    for (weight, fault) in choices {
        match left.checked_sub(u64::from(weight)) {
            Some(rest) => left = rest,
            None => return fault,
        }
    }
    Fault::None
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(script: &Script, count: u64) -> Vec<Fault> {
        (0..count).map(|n| script.fault(n)).collect()
    }

    /// The generator's published first outputs for seed 1234567.
    #[test]
    fn the_generator_is_split_mix_64() {
        let mut random = SplitMix64(1_234_567);
        let outputs = [random.next(), random.next(), random.next()];
        assert_eq!(outputs, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn each_plan_counts_as_it_says() {
        let (none, errors, death) = (Fault::None, Fault::Errors, Fault::Death);
        assert_eq!(first(&Script::healthy(), 3), [none; 3]);
        assert_eq!(first(&Script::always(errors), 3), [errors; 3]);
        assert_eq!(first(&Script::at(1, death), 4), [none, death, none, none]);
        assert_eq!(first(&Script::sequence(vec![errors, death]), 4), [errors, death, none, none]);
        assert_eq!(first(&Script::cycle(vec![errors, none, death]), 5), [errors, none, death, errors, none]);
        assert_eq!(first(&Script::cycle(Vec::new()), 2), [none; 2]);
        assert_eq!(first(&Script::random(7, Weights::NONE), 100), [none; 100]);
    }

    #[test]
    fn random_scripts_follow_from_their_seed() {
        let script = |seed| Script::random(seed, Weights::default());
        assert_eq!(first(&script(1), 500), first(&script(1), 500));
        let backwards: Vec<Fault> = (0..500).rev().map(|n| script(1).fault(n)).collect();
        assert_eq!(first(&script(1), 500), backwards.into_iter().rev().collect::<Vec<_>>());
        assert_ne!(first(&script(1), 500), first(&script(2), 500));
        // Neighbouring seeds are not the same sequence moved on.
        assert_ne!(first(&script(1), 501)[1..], first(&script(2), 500));
    }

    #[test]
    fn random_scripts_keep_to_their_weights() {
        let only = Weights { death: 3, ..Weights::NONE };
        assert_eq!(first(&Script::random(1, only), 100), [Fault::Death; 100]);

        let weights = Weights { delay_max: Duration::from_micros(5), ..Weights::default() };
        let mut seen = std::collections::HashMap::new();
        for fault in first(&Script::random(3, weights), 24_000) {
            if let Fault::Delay(delay) = fault {
                assert!(delay <= weights.delay_max);
            }
            *seen.entry(core::mem::discriminant(&fault)).or_insert(0u32) += 1;
        }
        assert_eq!(seen.len(), 9);
        for (fault, count) in seen {
            let expected = if fault == core::mem::discriminant(&Fault::None) { 16_000 } else { 1_000 };
            // Six standard deviations of the binomial distribution.
            assert!(count.abs_diff(expected) < 450, "{fault:?}: {count}, {expected} expected");
        }
    }
}
