//! What a mill's engines take for one operation and for many: what a service tells its clients and weighs requests with.

use ciphermill_contract::{Direction, Suite};
use ciphermill_router::{MANY, Prediction, Verdict};

use crate::mill::Mill;
use crate::policy::RunOptions;

/// Bytes of input of an operation, or as near to it as the suite takes.
const LEN: usize = 64;

/// What a suite takes in one direction, on the engines that are predicted to be best for one operation, for a few and for many, of those that
/// `options` allow. `None` if none runs it.
pub fn prediction(mill: &Mill, suite: Suite, direction: Direction, options: &RunOptions<'_>) -> Option<Prediction> {
    let len = suite.input_len(direction).round_up(LEN) as u64;
    let best = |ops| {
        let explained = mill.explain(suite, direction, ops, len, options).ok()?;
        let possible = explained.candidates.iter().filter_map(|candidate| match candidate.verdict {
            Verdict::Predicted(ns) => Some((ns, candidate)),
            _ => None,
        });
        let (_, best) = possible.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let steps: Vec<u16> = explained.candidates.iter().map(|candidate| candidate.step).collect();
        Some((best.cost.scaled(best.class_factor * best.correction), best.step, steps))
    };
    let ((many, many_step, mut steps), (alone, ..)) = (best(MANY)?, best(1)?);
    steps.retain(|step| *step > 1);
    steps.sort_unstable();
    // The shortest step that the engine whose step it is does best.
    let full = steps.into_iter().find_map(|step| best(step.into()).filter(|(_, own, _)| *own == step));
    let (few, step) = full.map_or((many, many_step), |(few, step, _)| (few, step));
    Some(Prediction { many, many_step, few, step, alone })
}
