//! How far an engine is off its own figures, as batches have shown.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ciphermill_contract::Cost;
use ciphermill_router::{Correction, SHAPE_CLASSES, SIZE_CLASSES, Sample};

use crate::cell::{CostCell, SuiteCell};

/// Corrections of one engine's costs.
pub(crate) struct Learned {
    corrections: Box<[OnceLock<Box<[AtomicU64; SHAPE_CLASSES]>>]>,
    /// What was measured or estimated before: how a class of sizes differs from the cost's straight line.
    factors: Box<[OnceLock<Box<[f64; SIZE_CLASSES]>>]>,
}

impl Learned {
    pub(super) fn new() -> Learned {
        Learned {
            corrections: (0..SuiteCell::COUNT).map(|_| OnceLock::new()).collect(),
            factors: (0..SuiteCell::COUNT).map(|_| OnceLock::new()).collect(),
        }
    }

    /// Takes in how classes of sizes differ from the straight line; the mill's costs never change, so once is enough.
    pub(super) fn know(&self, suite: SuiteCell, factors: &[f64; SIZE_CLASSES]) {
        self.factors[suite.index()].get_or_init(|| Box::new(*factors));
    }

    /// `cost`, that of a candidate, as it was measured or estimated for a class of sizes.
    #[inline]
    pub(super) fn of_class(&self, cost: Cost, cell: CostCell) -> Cost {
        let factors = self.factors[cell.suite.index()].get();
        factors.map_or(cost, |factors| cost.scaled(factors[cell.class % SIZE_CLASSES]))
    }

    /// How far a class of sizes was measured or estimated to be off the straight line.
    pub(crate) fn class_factor(&self, cell: CostCell) -> f64 {
        self.factors[cell.suite.index()].get().map_or(1.0, |factors| factors[cell.class % SIZE_CLASSES])
    }

    #[inline]
    pub(crate) fn correction(&self, cell: CostCell) -> Correction {
        let known = self.corrections[cell.suite.index()].get();
        known.map_or_else(Correction::default, |all| Correction::from_bits(all[cell.class].load(Ordering::Relaxed)))
    }

    /// Takes in what a batch took. Of two threads that do so at the same moment one may be forgotten.
    pub(crate) fn observe(&self, cell: CostCell, predicted_ns: f64, actual_ns: f64, sample: Sample) {
        let all =
            self.corrections[cell.suite.index()].get_or_init(|| Box::new([const { AtomicU64::new(0) }; SHAPE_CLASSES]));
        let before = Correction::from_bits(all[cell.class].load(Ordering::Relaxed));
        let after = before.observe(predicted_ns, actual_ns, sample);
        all[cell.class].store(after.to_bits(), Ordering::Relaxed);
    }
}
