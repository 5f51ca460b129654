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
    pub step: u16,
    /// On the engine that is best for one.
    pub alone: Cost,
}

impl Prediction {
    /// The same cost for one operation as for many.
    pub fn even(cost: Cost) -> Prediction {
        Prediction { many: cost, step: 1, alone: cost }
    }

    /// What a batch takes.
    pub fn time(&self, ops: u64, bytes: u64) -> BatchTime {
        let many = self.many.in_steps(ops, self.step).predict_ns(ops, bytes);
        let alone = self.alone.predict_ns(ops, bytes);
        if alone < many { BatchTime { ns: alone, step: 1 } } else { BatchTime { ns: many, step: self.step } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_operation_goes_alone_and_many_in_steps() {
        let (many, alone) = (Cost::new(0.0, 100.0, 1.0), Cost::new(10.0, 300.0, 2.0));
        let prediction = Prediction { many, step: 8, alone };
        assert_eq!(prediction.time(1, 0), BatchTime { ns: 310.0, step: 1 });
        assert_eq!(prediction.time(4, 0), BatchTime { ns: 800.0, step: 8 });
        assert_eq!(prediction.time(16, 0), BatchTime { ns: 1600.0, step: 8 });
        let even = Prediction::even(alone);
        assert_eq!(even.time(9, 10), BatchTime { ns: 2730.0, step: 1 });
    }
}
