//! `Prediction`: what batches of one suite and direction take, on whichever engine is best for so many.

use ciphermill_contract::Cost;

use crate::window::BatchTime;

/// A number of operations at which lanes are full on every engine: what `many` of a [`Prediction`] is found with.
pub const MANY: u64 = 256;

/// What a suite costs in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// On the engine that is best for many operations, …
    pub many: Cost,
    /// … which pays for so many of them together.
    pub many_step: u16,
    /// On the engine that is best for a few, as single operations are that are collected, …
    pub few: Cost,
    /// … which pays for so many of them together: what is waited for.
    pub step: u16,
    /// On the engine that is best for one.
    pub alone: Cost,
}

impl Prediction {
    /// One engine for few and for many, which pays for `step` operations together, and perhaps another for one alone.
    pub fn new(many: Cost, step: u16, alone: Cost) -> Prediction {
        Prediction { many, many_step: step, few: many, step, alone }
    }

    /// The same cost for one operation as for many.
    pub fn even(cost: Cost) -> Prediction {
        Prediction::new(cost, 1, cost)
    }

    /// What a batch takes.
    pub fn time(&self, ops: u64, bytes: u64) -> BatchTime {
        let engines = [(self.many, self.many_step), (self.few, self.step), (self.alone, 1)];
        let times = engines.map(|(cost, step)| BatchTime { ns: cost.in_steps(ops, step).predict_ns(ops, bytes), step });
        let [many, others @ ..] = times;
        others.into_iter().fold(many, |best, other| if other.ns < best.ns { other } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_goes_alone_and_many_in_steps() {
        let (many, alone) = (Cost::new(0.0, 100.0, 1.0), Cost::new(10.0, 300.0, 2.0));
        let prediction = Prediction::new(many, 8, alone);
        assert_eq!(prediction.time(1, 0), BatchTime { ns: 310.0, step: 1 });
        assert_eq!(prediction.time(4, 0), BatchTime { ns: 800.0, step: 8 });
        assert_eq!(prediction.time(16, 0), BatchTime { ns: 1600.0, step: 8 });
        let even = Prediction::even(alone);
        assert_eq!(even.time(9, 10), BatchTime { ns: 2730.0, step: 1 });
    }

    /// Far away an engine for thousands, here lanes for a few.
    #[test]
    fn few_operations_have_an_engine_of_their_own() {
        let many = Cost::new(10_000.0, 1.0, 0.0);
        let lanes = Prediction::new(Cost::new(0.0, 100.0, 0.0), 8, Cost::new(0.0, 300.0, 0.0));
        let prediction = Prediction { many, many_step: 1, ..lanes };
        assert_eq!(prediction.time(1, 0), BatchTime { ns: 300.0, step: 1 });
        assert_eq!(prediction.time(8, 0), BatchTime { ns: 800.0, step: 8 });
        assert_eq!(prediction.time(1000, 0), BatchTime { ns: 11_000.0, step: 1 });
    }
}
