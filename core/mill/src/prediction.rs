//! What a mill's engines take for one operation and for many: what a service tells its clients and weighs requests with.

use ciphermill_contract::{Direction, Suite};
use ciphermill_router::{MANY, Prediction, Verdict};

use crate::mill::Mill;
use crate::policy::RunOptions;

/// Bytes of input of an operation, or as near to it as the suite takes.
const LEN: usize = 64;

/// What a suite takes in one direction, on the engine that is predicted to be best for one operation, and on the one that is best for many, of
/// those that `options` allow. `None` if none runs it.
pub fn prediction(mill: &Mill, suite: Suite, direction: Direction, options: &RunOptions<'_>) -> Option<Prediction> {
    let len = suite.input_len(direction).round_up(LEN) as u64;
    let best = |ops| {
        let explained = mill.explain(suite, direction, ops, len, options).ok()?;
        let possible = explained.candidates.iter().filter_map(|candidate| match candidate.verdict {
            Verdict::Predicted(ns) => Some((ns, candidate)),
            _ => None,
        });
        let (_, best) = possible.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((best.cost.scaled(best.class_factor * best.correction), best.step))
    };
    let ((many, step), (alone, _)) = (best(MANY)?, best(1)?);
    Some(Prediction { many, step, alone })
}
