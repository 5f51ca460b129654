//! What the mill runs and what that costs, as the router predicts it: told to clients, and by which requests are weighed against each other.

use ciphermill::{Mill, RunOptions, prediction};
use ciphermill_channel::Offer;
use ciphermill_contract::limits::SUITE_ORDINALS_MAX;
use ciphermill_contract::{Direction, Directions, Suite};
use ciphermill_router::{BatchTime, Prediction, Times};

/// Predictions for all suites.
pub(crate) struct Offers {
    by_suite: Vec<[Option<Prediction>; 2]>,
}

impl Offers {
    /// Asks the mill for each suite. What depends on a radix is taken as with the canonical one.
    pub(crate) fn of(mill: &Mill) -> Offers {
        let mut by_suite = vec![[None; 2]; SUITE_ORDINALS_MAX];
        // Random bytes need no service, and what policy forbids is not offered.
        let offered = |suite: &Suite| !matches!(suite, Suite::Random) && (mill.policy().legacy || !suite.is_legacy());
        for suite in Suite::all().filter(offered) {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                by_suite[suite.ordinal()][direction as usize] =
                    prediction(mill, suite, direction, &RunOptions::default());
            }
        }
        Offers { by_suite }
    }

    pub(crate) fn get(&self, suite: Suite, direction: Direction) -> Option<&Prediction> {
        self.by_suite[suite.ordinal()][direction as usize].as_ref()
    }

    /// The list for clients.
    pub(crate) fn list(&self) -> Vec<Offer> {
        let offer = |(ordinal, both): (usize, &[Option<Prediction>; 2])| {
            let bits = u8::from(both[0].is_some()) | u8::from(both[1].is_some()) << 1;
            // A client's mill reckons with one engine for more than one.
            let Prediction { many, many_step: step, alone, .. } = *(both[0].as_ref()).or(both[1].as_ref())?;
            let (suite, directions) = (Suite::of_ordinal(ordinal)?, Directions::from_bits(bits)?);
            Some(Offer { suite, directions, step, many, alone })
        };
        self.by_suite.iter().enumerate().filter_map(offer).collect()
    }
}

/// By the queue's kinds: twice the suite's ordinal, and the direction.
impl Times for Offers {
    #[inline]
    fn time(&self, kind: usize, ops: u64, bytes: u64) -> Option<BatchTime> {
        let prediction = self.by_suite.get(kind / 2)?[kind % 2].as_ref()?;
        Some(prediction.time(ops, bytes))
    }

    #[inline]
    fn step(&self, kind: usize) -> u16 {
        self.by_suite.get(kind / 2).and_then(|both| both[kind % 2].as_ref()).map_or(1, |prediction| prediction.step)
    }
}
