//! `share`: a large batch over several engines, those of this processor and offload engines.

use ciphermill_contract::EngineKind;
use smallvec::SmallVec;

use crate::decide::{Candidate, Request, Verdict, judge};
use crate::split::{Line, Split, split};

/// Offload engines that one batch goes to at most.
pub const OFFLOAD_MAX: usize = 8;

/// What there is to work with beside the engines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleWorkers {
    /// Cores that have nothing to do, the caller's not counted.
    pub count: usize,
    /// Nanoseconds until a thread begins, on such a core or to wait for an offload engine.
    pub wakeup_ns: f64,
}

/// What one engine gets of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The engine's index among the mill's engines.
    pub engine: usize,
    /// The engine's name.
    pub name: &'static str,
    /// How many of the operations, in their order.
    pub ops: u64,
    /// Cores that work on them; one for an offload engine.
    pub cores: usize,
}

/// A batch in shares. The first is worked on by the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// The shares; together they hold every operation.
    pub shares: SmallVec<[Share; 4]>,
    /// When the last will probably end, in nanoseconds.
    pub predicted_ns: f64,
}

/// Whether an engine works while the caller's core does something else.
fn is_offload(kind: EngineKind) -> bool {
    kind.can_fail()
}

/// Shares a batch out over this processor's fastest engine, on all idle `workers`, and every offload engine, so that all
/// end together. `None` when that is not predicted to end at least `gain_ns` sooner than the best single engine does,
/// split over the cores where it can be.
pub fn share(
    request: &Request,
    candidates: impl IntoIterator<Item = Candidate>,
    workers: IdleWorkers,
    gain_ns: f64,
) -> Option<Shares> {
    if request.pinned.is_some() || request.ops < 2 {
        return None;
    }
    let alone_ns = |candidate: &Candidate| match judge(request, candidate) {
        Verdict::Predicted(ns) => Some(ns),
        _ => None,
    };
    let mut here: Option<(Candidate, f64)> = None;
    let mut offload: SmallVec<[(Candidate, f64); 4]> = SmallVec::new();
    for candidate in candidates {
        let Some(ns) = alone_ns(&candidate) else { continue };
        if is_offload(candidate.kind) {
            offload.push((candidate, ns));
        } else if here.is_none_or(|(_, best_ns)| ns < best_ns) {
            here = Some((candidate, ns));
        }
    }
    offload.sort_by(|a, b| a.1.total_cmp(&b.1));
    offload.truncate(OFFLOAD_MAX);
    if offload.len() + usize::from(here.is_some()) < 2 {
        return None;
    }
    let own = here.map(|(candidate, _)| candidate);
    let together = lines(own.as_ref(), &offload, workers.count, workers.wakeup_ns);
    let shared = split(request.ops, request.bytes, &together, 0.0)?;
    let apart = lines(own.as_ref(), &[], workers.count, workers.wakeup_ns);
    let over_cores = split(request.ops, request.bytes, &apart, 0.0);
    let singles = here.iter().chain(&offload).map(|(_, ns)| *ns);
    let best_ns = singles.chain(over_cores.map(|split| split.predicted_ns)).fold(f64::MAX, f64::min);
    let shares = gather(&together, &shared, own.iter().chain(offload.iter().map(|(candidate, _)| candidate)));
    (shares.len() > 1 && shared.predicted_ns + gain_ns <= best_ns)
        .then_some(Shares { shares, predicted_ns: shared.predicted_ns })
}

/// The caller's core and `idle` others on the same engine, then the offload engines.
fn lines(own: Option<&Candidate>, offload: &[(Candidate, f64)], idle: usize, wakeup_ns: f64) -> Vec<Line> {
    let on_core = |candidate: &Candidate, core: usize| Line {
        engine: candidate.engine,
        cost: candidate.cost,
        start_ns: if core == 0 { 0.0 } else { wakeup_ns },
        step: candidate.step,
    };
    let device = |(candidate, _): &(Candidate, f64)| Line {
        engine: candidate.engine,
        cost: candidate.cost,
        start_ns: wakeup_ns + candidate.wakeup_ns + candidate.backlog_ns,
        step: candidate.step,
    };
    own.iter().flat_map(|own| (0..=idle).map(|core| on_core(own, core))).chain(offload.iter().map(device)).collect()
}

/// The parts of a split by engine, the caller's first.
fn gather<'c>(lines: &[Line], split: &Split, engines: impl Iterator<Item = &'c Candidate>) -> SmallVec<[Share; 4]> {
    let share = |candidate: &Candidate| {
        let own = split.parts.iter().filter(|part| lines[part.line].engine == candidate.engine);
        let (ops, cores) = own.fold((0, 0), |(ops, cores), part| (ops + part.ops, cores + 1));
        Share { engine: candidate.engine, name: candidate.name, ops, cores }
    };
    engines.map(share).filter(|share| share.ops != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_contract::{Cost, EngineKinds};
    use proptest::prelude::*;

    fn request(ops: u64) -> Request {
        let (kinds, pinned, deadline_ns) = (EngineKinds::ALL, None, None);
        Request { ops, bytes: 64 * ops, input_len_max: 64, kinds, pinned, deadline_ns }
    }

    fn candidate(engine: usize, kind: EngineKind, batch_ns: f64, op_ns: f64) -> Candidate {
        let (name, cost) = (["a", "b", "c", "d"][engine], Cost::new(batch_ns, op_ns, 0.0));
        let (wakeup_ns, backlog_ns, input_len_max, trusted) = (0.0, 0.0, 1 << 20, true);
        Candidate { engine, name, kind, cost, wakeup_ns, backlog_ns, step: 1, input_len_max, trusted }
    }

    const IDLE_WORKERS: IdleWorkers = IdleWorkers { count: 0, wakeup_ns: 0.0 };

    #[test]
    fn a_device_as_fast_as_the_core_gets_half() {
        let both = [candidate(0, EngineKind::Lanes, 0.0, 10.0), candidate(1, EngineKind::Gpu, 0.0, 10.0)];
        let shares = share(&request(1000), both, IDLE_WORKERS, 100.0).expect("it pays");
        assert_eq!(
            shares.shares.iter().map(|share| (share.name, share.ops)).collect::<Vec<_>>(),
            [("a", 500), ("b", 500)]
        );
        assert_eq!(shares.predicted_ns, 5000.0);
        let workers = IdleWorkers { count: 2, ..IDLE_WORKERS };
        let shares = share(&request(1000), both, workers, 100.0).expect("it pays");
        assert_eq!(
            shares.shares.iter().map(|share| (share.ops, share.cores)).collect::<Vec<_>>(),
            [(750, 3), (250, 1)]
        );
    }

    #[test]
    fn a_device_that_is_far_away_gets_nothing_of_a_small_batch() {
        let both = [candidate(0, EngineKind::Lanes, 0.0, 10.0), candidate(1, EngineKind::Gpu, 50_000.0, 1.0)];
        assert_eq!(share(&request(1000), both, IDLE_WORKERS, 0.0), None);
        let shares = share(&request(20_000), both, IDLE_WORKERS, 0.0).expect("it pays");
        assert!(shares.shares[1].ops > shares.shares[0].ops && shares.predicted_ns < 70_000.0, "{shares:?}");
    }

    #[test]
    fn what_forbids_an_engine_forbids_its_share() {
        let lanes = candidate(0, EngineKind::Lanes, 0.0, 10.0);
        let gpu = candidate(1, EngineKind::Gpu, 0.0, 10.0);
        let untrusted = Candidate { trusted: false, ..gpu };
        let short_only = Candidate { input_len_max: 32, ..gpu };
        assert_eq!(share(&request(1000), [lanes, untrusted], IDLE_WORKERS, 0.0), None);
        assert_eq!(share(&request(1000), [lanes, short_only], IDLE_WORKERS, 0.0), None);
        let pinned = Request { pinned: Some(1), ..request(1000) };
        assert_eq!(share(&pinned, [lanes, gpu], IDLE_WORKERS, 0.0), None);
        let here_only = Request { kinds: EngineKinds::NONE.with(EngineKind::Lanes), ..request(1000) };
        assert_eq!(share(&here_only, [lanes, gpu], IDLE_WORKERS, 0.0), None);
    }

    fn any_candidate() -> impl Strategy<Value = Candidate> {
        (0usize..8, 0.0..1e5f64, 0.0..1e3f64, 0.0..1e5f64, any::<bool>()).prop_map(
            |(kind, batch_ns, op_ns, backlog_ns, trusted)| Candidate {
                backlog_ns,
                trusted,
                ..candidate(0, EngineKind::ALL[kind], batch_ns, op_ns)
            },
        )
    }

    proptest! {
        #[test]
        fn shares_hold_every_operation_and_end_before_the_best_engine_alone(
            ops in 0u64..100_000,
            mut candidates in prop::collection::vec(any_candidate(), 0..4),
            idle in 0usize..6,
            gain_ns in 0.0..1e4f64,
        ) {
            candidates.iter_mut().enumerate().for_each(|(index, candidate)| candidate.engine = index);
            let workers = IdleWorkers { count: idle, wakeup_ns: 500.0 };
            let Some(shares) = share(&request(ops), candidates.clone(), workers, gain_ns) else { return Ok(()) };
            prop_assert_eq!(shares.shares.iter().map(|share| share.ops).sum::<u64>(), ops);
            prop_assert!(shares.shares.iter().all(|share| share.ops > 0 && candidates[share.engine].trusted));
            let offload = shares.shares.iter().filter(|share| is_offload(candidates[share.engine].kind)).count();
            prop_assert!(offload >= shares.shares.len() - 1);
            let single = crate::decide(&request(ops), candidates).expect("a candidate");
            prop_assert!(shares.predicted_ns + gain_ns <= single.predicted_ns * (1.0 + 1e-9));
        }
    }
}
