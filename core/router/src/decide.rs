//! `decide`: from a batch's shape and the candidates' costs to a [`Route`] with its reason.
//!
//! The cost model is `C1 + C2 · ops + C3 · bytes + wake-up + backlog` (Lindemann and Smith 2001, section 4.1).
//! Break-even sizes follow from it; there are no thresholds. It is linear in operations and bytes, so of a batch's
//! lengths only their sum and the longest matter here; how far an engine is off for short or long ones, or for one long
//! one among many short ones, is measured and learnt live ([`crate::shape_class`]) and is part of a candidate's cost.

use core::fmt;

use ciphermill_contract::{Cost, EngineKind, EngineKinds};

/// What is to be routed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Pending operations.
    pub ops: u64,
    /// Bytes of input of all of them together.
    pub bytes: u64,
    /// Bytes of the longest input; an upper bound will do.
    pub input_len_max: u64,
    /// Kinds of engines that policy and keys allow.
    pub kinds: EngineKinds,
    /// The engine that the caller insists on, as an index into the mill's engines.
    pub pinned: Option<usize>,
    /// Nanoseconds from now in which the batch should be done.
    pub deadline_ns: Option<f64>,
}

/// An engine that can run the suite in the direction asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its index among the mill's engines.
    pub engine: usize,
    /// Its name, for reasons that people read.
    pub name: &'static str,
    /// Its kind.
    pub kind: EngineKind,
    /// What a batch costs on it, corrected by what was measured of late.
    pub cost: Cost,
    /// Nanoseconds until a thread or device that sleeps begins; zero for engines on the caller's own thread.
    pub wakeup_ns: f64,
    /// Nanoseconds of work that it still has to do first.
    pub backlog_ns: f64,
    /// Operations that are paid for together ([`Cost::in_steps`]).
    pub step: u16,
    /// The longest input in bytes that it takes.
    pub input_len_max: u64,
    /// Whether it has passed its known-answer test and is not in quarantine.
    pub trusted: bool,
}

/// The router's decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Route {
    /// The engine's index among the mill's engines.
    pub engine: usize,
    /// The engine's name.
    pub name: &'static str,
    /// How long it will probably take, in nanoseconds, backlog included.
    pub predicted_ns: f64,
    /// Why this one.
    pub reason: RouteReason,
}

/// Why an engine was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RouteReason {
    /// The caller insisted.
    Pinned,
    /// No other engine may or can run it.
    Only,
    /// It is predicted to be the fastest; the next best is named.
    Fastest {
        /// The next best engine.
        runner_up: &'static str,
        /// What that one would probably take, in nanoseconds.
        runner_up_ns: f64,
    },
    /// No engine is predicted to meet the deadline; this one is the least late.
    LeastLate,
    /// It was slower than its own figures of late and is tried again, to see whether it still is.
    Probe,
    /// It works on its share of a batch that several engines work on ([`crate::share()`]).
    Share,
}

/// Why there is no route: each candidate was ruled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoute;

/// What became of one candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// It could run the batch in this many nanoseconds.
    Predicted(f64),
    /// The caller insists on another engine.
    NotPinned,
    /// Policy or a key forbids its kind.
    KindForbidden,
    /// An input is longer than it takes.
    InputTooLong,
    /// It failed a known-answer test or is in quarantine.
    NotTrusted,
}

/// Chooses the candidate with the smallest predicted time among those that may run the batch.
///
/// # Errors
/// [`NoRoute`] when every candidate is ruled out; [`explain`] says why.
#[inline]
pub fn decide(request: &Request, candidates: impl IntoIterator<Item = Candidate>) -> Result<Route, NoRoute> {
    let mut best: Option<(usize, &'static str, f64)> = None;
    let mut second: Option<(&'static str, f64)> = None;
    for candidate in candidates {
        let Verdict::Predicted(predicted_ns) = judge(request, &candidate) else { continue };
        if best.is_none_or(|(_, _, best_ns)| predicted_ns < best_ns) {
            second = best.map(|(_, name, ns)| (name, ns));
            best = Some((candidate.engine, candidate.name, predicted_ns));
        } else if second.is_none_or(|(_, second_ns)| predicted_ns < second_ns) {
            second = Some((candidate.name, predicted_ns));
        }
    }
    let (engine, name, predicted_ns) = best.ok_or(NoRoute)?;
    let reason = match (request.pinned, second) {
        (Some(_), _) => RouteReason::Pinned,
        _ if request.deadline_ns.is_some_and(|deadline_ns| predicted_ns > deadline_ns) => RouteReason::LeastLate,
        (None, Some((runner_up, runner_up_ns))) => RouteReason::Fastest { runner_up, runner_up_ns },
        (None, None) => RouteReason::Only,
    };
    Ok(Route { engine, name, predicted_ns, reason })
}

/// What [`decide`] thinks of each candidate, in their order.
pub fn explain(
    request: &Request,
    candidates: impl IntoIterator<Item = Candidate>,
) -> impl Iterator<Item = (Candidate, Verdict)> {
    candidates.into_iter().map(|candidate| (candidate, judge(request, &candidate)))
}

#[inline]
pub(crate) fn judge(request: &Request, candidate: &Candidate) -> Verdict {
    if request.pinned.is_some_and(|pinned| pinned != candidate.engine) {
        Verdict::NotPinned
    } else if !request.kinds.contains(candidate.kind) {
        Verdict::KindForbidden
    } else if request.input_len_max > candidate.input_len_max {
        Verdict::InputTooLong
    } else if !candidate.trusted {
        Verdict::NotTrusted
    } else {
        let work_ns = candidate.cost.predict_ns(request.ops, request.bytes);
        Verdict::Predicted(work_ns + candidate.wakeup_ns + candidate.backlog_ns)
    }
}

impl fmt::Display for RouteReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteReason::Pinned => f.write_str("pinned by the caller"),
            RouteReason::Only => f.write_str("the only engine that may run it"),
            RouteReason::Fastest { runner_up, runner_up_ns } => {
                write!(f, "predicted fastest; {runner_up} would take {:.1} µs", runner_up_ns / 1000.0)
            }
            RouteReason::LeastLate => f.write_str("no engine is predicted to meet the deadline; the least late"),
            RouteReason::Probe => f.write_str("was slow of late and is tried again"),
            RouteReason::Share => f.write_str("its share of a batch that several engines work on"),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:.1} µs: {}", self.name, self.predicted_ns / 1000.0, self.reason)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Predicted(ns) => write!(f, "{:.1} µs", ns / 1000.0),
            Verdict::NotPinned => f.write_str("another engine is pinned"),
            Verdict::KindForbidden => f.write_str("its kind is forbidden by policy or key"),
            Verdict::InputTooLong => f.write_str("an input is longer than it takes"),
            Verdict::NotTrusted => f.write_str("failed its known-answer test or is in quarantine"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    fn candidate() -> impl Strategy<Value = Candidate> {
        (0usize..8, 0.0..1e6f64, 0.0..1e4f64, 0.0..10f64, 0.0..1e6f64, 0u64..4096, any::<bool>()).prop_map(
            |(kind, batch_ns, op_ns, byte_ns, backlog_ns, input_len_max, trusted)| Candidate {
                engine: 0,
                name: "",
                kind: EngineKind::ALL[kind],
                cost: Cost::new(batch_ns, op_ns, byte_ns),
                wakeup_ns: backlog_ns / 7.0,
                backlog_ns,
                step: 1,
                input_len_max,
                trusted,
            },
        )
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        prop::collection::vec(candidate(), 0..6).prop_map(|mut all| {
            for (index, candidate) in all.iter_mut().enumerate() {
                candidate.engine = index;
                candidate.name = NAMES[index];
            }
            all
        })
    }

    fn request() -> impl Strategy<Value = Request> {
        (0u64..100_000, 0u64..10_000_000, 0u64..4096, any::<u8>(), prop::option::of(0usize..6)).prop_map(
            |(ops, bytes, input_len_max, kinds, pinned)| Request {
                ops,
                bytes,
                input_len_max,
                kinds: EngineKinds::from_bits(kinds),
                pinned,
                deadline_ns: (bytes % 3 == 0).then_some(ops as f64 * 20.0),
            },
        )
    }

    proptest! {
        #[test]
        fn the_choice_is_allowed_and_none_is_faster(request in request(), candidates in candidates()) {
            let predicted: Vec<(usize, f64)> = explain(&request, candidates.clone())
                .filter_map(|(candidate, verdict)| match verdict {
                    Verdict::Predicted(ns) => Some((candidate.engine, ns)),
                    _ => None,
                })
                .collect();
            match decide(&request, candidates.clone()) {
                Err(NoRoute) => prop_assert!(predicted.is_empty()),
                Ok(route) => {
                    let chosen = candidates[route.engine];
                    prop_assert!(request.kinds.contains(chosen.kind) && chosen.trusted);
                    prop_assert!(request.input_len_max <= chosen.input_len_max);
                    prop_assert!(request.pinned.is_none_or(|pinned| pinned == route.engine));
                    prop_assert!(predicted.iter().all(|(_, ns)| *ns >= route.predicted_ns));
                    if let RouteReason::Fastest { runner_up_ns, .. } = route.reason {
                        prop_assert!(runner_up_ns >= route.predicted_ns && predicted.len() > 1);
                    }
                    let late = request.deadline_ns.is_some_and(|deadline_ns| route.predicted_ns > deadline_ns);
                    let free = request.pinned.is_none();
                    prop_assert_eq!(route.reason == RouteReason::LeastLate, free && late);
                    prop_assert_eq!(route.reason == RouteReason::Only, free && !late && predicted.len() == 1);
                }
            }
        }

        #[test]
        fn more_backlog_never_attracts_work(request in request(), candidates in candidates(), more in 1.0..1e6f64) {
            let Ok(before) = decide(&request, candidates.clone()) else { return Ok(()) };
            for index in (0..candidates.len()).filter(|index| *index != before.engine) {
                let mut busier = candidates.clone();
                busier[index].backlog_ns += more;
                let after = decide(&request, busier).expect("nothing was ruled out");
                prop_assert_eq!(after.engine, before.engine);
            }
        }
    }
}
