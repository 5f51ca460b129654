//! One stack in one case: how much it carries, how long packets take, and what it spends.

use std::time::Duration;

use ciphermill_search::mlr::{GoalResult, Standing, search_within};
use ciphermill_search::rfc2544::{BackToBack, LossRate, back_to_back, loss_rate};
use ciphermill_search::{Burst, Outcome, Range, SearchError, Trial, Tried};

use super::frame::Frame;
use super::ground::Side;
use super::pace::{LAG_MAX, Missed, Rate};
use super::plan::{BURST_S, Case, Plan};
use super::running::{Running, Spending};
use super::tally::{GRACE, time_at};
use super::tester::{Counted, Direction, Offer, RESIDUE_MAX, Tester};
use crate::LabError;
use crate::method::Progress;

/// How long packets may take to pass for the first time.
const PASS_TRIES: u32 = 60;
/// The greatest rate that is tried, as a share of what a flood has offered: the first at which the generator keeps its distances. What comes
/// back costs it time too.
const RANGE_MAX: [f64; 4] = [0.9, 0.7, 0.5, 0.35];
/// The least rate that is tried, as a share of the greatest one.
const RANGE_MIN: f64 = 1e-4;

/// What was found for a stack in a case.
#[derive(Clone, Debug)]
pub struct Live {
    /// The stack's name.
    pub stack: String,
    /// The suite; `none` without cryptography.
    pub suite: String,
    /// How long frames were.
    pub frame: Frame,
    /// Which ways they went.
    pub direction: Direction,
    /// The greatest rate that the generator has offered at constant distances, both ways together.
    pub greatest_pps: f64,
    /// The rate without loss, both ways together.
    pub ndr: GoalResult,
    /// The rate with the plan's loss.
    pub pdr: GoalResult,
    /// Latency at shares of PDR; empty where there is no PDR.
    pub latencies: Vec<Latency>,
    /// What the gateways spend at the last of these shares.
    pub cost: Option<Cost>,
    /// What becomes of as many packets as the generator can send.
    pub flood: Flood,
    /// Rates that were offered, and the share that was lost.
    pub curve: Vec<[f64; 2]>,
    /// Packets of the longest burst without a loss; none where that was not measured.
    pub burst: Option<f64>,
    /// The search's trials, in their order.
    pub trials: Vec<Tried>,
    /// Packets that came in another order, in all trials.
    pub reordered: u64,
    /// Trials that were made again since the generator was late.
    pub repeated: u32,
    /// Trials that count although it was, and by how much at most.
    pub late: (u32, Duration),
}

/// How long packets take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The share of PDR.
    pub share: f64,
    /// Half of them take less, in microseconds.
    pub p50_us: f64,
    /// And 99 of 100.
    pub p99_us: f64,
    /// The share of packets that were not sent since the generator's core was taken when they were due.
    pub left_out: f64,
}

/// Core seconds for a gigabit of packets that come out, counted from their IP headers on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// The share of PDR that it was measured at.
    pub share: f64,
    /// By kind and side, and on their core.
    pub(super) spending: Spending,
}

/// The loss at 100 % offered load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flood {
    /// Packets a second that were sent, both ways together.
    pub offered_pps: f64,
    /// Packets a second that came while they were sent.
    pub carried_pps: f64,
}

impl Flood {
    /// The share that was lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        (1.0 - self.carried_pps / self.offered_pps.max(1.0)).clamp(0.0, 1.0)
    }
}

/// Two gateways and a generator, which make trials.
pub(super) struct Bench<'a, 'p> {
    pub(super) running: Running,
    pub(super) tester: Tester,
    pub(super) plan: &'a Plan,
    pub(super) progress: Progress<'p>,
    pub(super) title: String,
    pub(super) reordered: u64,
    pub(super) repeated: u32,
    pub(super) late: u32,
    pub(super) lag_max: Duration,
}

impl Bench<'_, '_> {
    /// Waits until packets pass both ways, and looks whether they can be read between the gateways.
    ///
    /// # Errors
    /// They do not pass; or they can be read where they should not, or the other way round.
    pub(super) fn settle(&mut self, is_clear: bool) -> Result<(), LabError> {
        let mut looked = false;
        for _ in 0..PASS_TRIES {
            (self.progress)(&format!("{}: waiting for the first packets", self.title))?;
            self.running.check()?;
            let probe = self.tester.probe().map_err(failed)?;
            if probe.is_clear && !is_clear {
                return Err(LabError::Parameters("packets can be read between the gateways".to_owned()));
            }
            looked |= probe.seen > 0 && probe.is_clear == is_clear;
            if probe.passes && looked {
                self.tester.stop_looking();
                return Ok(());
            }
        }
        Err(self.running.said(Side::West, "no packet passes both ways"))
    }

    /// Measures everything of a case.
    ///
    /// # Errors
    /// [`LabError::Interrupted`]; a gateway has ended.
    pub(super) fn measure(&mut self, stack: &str, suite: &str, case: &Case) -> Result<Live, LabError> {
        let flood = self.flood()?;
        let max_pps = self.greatest(&flood)?;
        let range = Range::new(max_pps * RANGE_MIN, max_pps);
        let range = range.ok_or_else(|| LabError::Parameters("the generator sent nothing".to_owned()))?;
        let plan = self.plan;
        let found = search_within(self, range, &plan.goals, plan.trials_max).map_err(of_search)?;
        let [ndr, pdr] = found.goals.as_slice() else {
            return Err(LabError::Parameters("a search answers each of its goals".to_owned()));
        };
        let (mut latencies, mut cost) = (Vec::new(), None);
        if let Some(rate_pps) = pdr.throughput_pps {
            for &share in plan.shares {
                // Half of a stream goes by before latency counts (RFC 2544, section 26.2). Rates are shares of what is carried: a gateway
                // at its limit shows how long its queues are and not how fast it is.
                let offer = Offer {
                    rate: Rate::PerSecond(rate_pps * share),
                    missed: Missed::LeftOut,
                    duration: plan.stream,
                    after: plan.stream / 2,
                    grace: GRACE,
                };
                let (counted, spending) = self.spend(offer)?;
                latencies.extend(latency(&counted, share));
                cost = (counted.counts.octets > 0).then(|| {
                    let gigabits = counted.counts.octets as f64 * 8.0 / 1e9;
                    Cost { share, spending: spending.times(1.0 / gigabits) }
                });
            }
        }
        let curve = if case.has_curve { self.curve(max_pps)? } else { Vec::new() };
        let burst = if case.has_curve { Some(self.longest_burst(flood.offered_pps)?) } else { None };
        Ok(Live {
            stack: stack.to_owned(),
            suite: suite.to_owned(),
            frame: case.frame,
            direction: case.direction,
            greatest_pps: max_pps,
            ndr: *ndr,
            pdr: *pdr,
            latencies,
            cost,
            flood,
            curve,
            burst,
            trials: found.trials,
            reordered: self.reordered,
            repeated: self.repeated,
            late: (self.late, self.lag_max),
        })
    }

    fn flood(&mut self) -> Result<Flood, LabError> {
        let (duration, zero) = (self.plan.trial, Duration::ZERO);
        let counted =
            self.offer(Offer { rate: Rate::Flood, missed: Missed::MadeUpFor, duration, after: zero, grace: zero })?;
        let per_second = |packets: u64| packets as f64 / counted.duration.as_secs_f64();
        Ok(Flood { offered_pps: per_second(counted.offered), carried_pps: per_second(counted.counts.in_time) })
    }

    /// The greatest rate that the generator can offer.
    fn greatest(&mut self, flood: &Flood) -> Result<f64, LabError> {
        let mut best = (Duration::MAX, flood.offered_pps);
        for share in RANGE_MAX {
            let rate_pps = flood.offered_pps * share;
            for _ in 0..self.plan.tries.div_ceil(2) {
                let duration = self.plan.trial;
                let (rate, missed) = (Rate::PerSecond(rate_pps), Missed::MadeUpFor);
                let counted = self.offer(Offer { rate, missed, duration, after: duration, grace: GRACE })?;
                if counted.lag_max <= LAG_MAX {
                    return Ok(rate_pps);
                }
                if counted.lag_max < best.0 {
                    best = (counted.lag_max, rate_pps);
                }
                self.repeated += 1;
            }
        }
        Ok(best.1)
    }

    /// The loss at other rates (RFC 2544, section 26.3).
    fn curve(&mut self, max_pps: f64) -> Result<Vec<[f64; 2]>, LabError> {
        let plan = LossRate { trial: self.plan.trial, ..LossRate::new(max_pps) };
        let rates = loss_rate(self, &plan).map_err(of_search)?;
        Ok(rates.trials.iter().rev().map(|tried| [tried.rate_pps, tried.outcome.loss_ratio()]).collect())
    }

    /// Packets of the longest burst without a loss (RFC 2544, section 26.4).
    fn longest_burst(&mut self, flood_pps: f64) -> Result<f64, LabError> {
        let max_packets = (flood_pps * BURST_S) as u64;
        let plan = BackToBack { max_packets, repeats: self.plan.bursts, ..BackToBack::new(flood_pps) };
        Ok(back_to_back(self, &plan).map_err(of_search)?.mean_packets())
    }

    fn spend(&mut self, offer: Offer) -> Result<(Counted, Spending), LabError> {
        let before = self.running.spending().map_err(failed)?;
        let counted = self.offer(offer)?;
        Ok((counted, self.running.spending().map_err(failed)?.minus(&before)))
    }

    fn offer(&mut self, offer: Offer) -> Result<Counted, LabError> {
        let what = match offer.rate {
            Rate::PerSecond(pps) => format!("{:.1} kpps", pps / 1e3),
            Rate::Flood => "as many as can be sent".to_owned(),
            Rate::Burst(packets) => format!("{packets} packets at once"),
        };
        (self.progress)(&format!("{}: {what}", self.title))?;
        self.running.check()?;
        let counted = self.tester.offer(offer).map_err(failed)?;
        self.reordered += counted.counts.reordered;
        Ok(counted)
    }

    /// Makes a trial again in which the generator was late. Where it always is, the time at which it was least late counts: what it makes up
    /// for comes in a burst, which a gateway does not carry better than packets at constant distances.
    fn keeping_up<T>(
        &mut self,
        mut trial: impl FnMut(&mut Self) -> Result<(Duration, T), LabError>,
    ) -> Result<T, LabError> {
        let mut best = trial(self)?;
        for _ in 1..self.plan.tries {
            if best.0 <= LAG_MAX {
                return Ok(best.1);
            }
            self.repeated += 1;
            let again = trial(self)?;
            if again.0 < best.0 {
                best = again;
            }
        }
        if best.0 > LAG_MAX {
            self.late += 1;
            self.lag_max = self.lag_max.max(best.0);
        }
        Ok(best.1)
    }
}

impl Trial for Bench<'_, '_> {
    type Error = LabError;

    fn run(&mut self, rate_pps: f64, duration: Duration) -> Result<Outcome, LabError> {
        let (rate, missed) = (Rate::PerSecond(rate_pps), Missed::MadeUpFor);
        let offer = Offer { rate, missed, duration, after: Duration::ZERO, grace: GRACE };
        self.keeping_up(|bench| {
            let counted = bench.offer(offer)?;
            Ok((counted.lag_max, outcome(&counted)))
        })
    }
}

impl Burst for Bench<'_, '_> {
    type Error = LabError;

    fn burst(&mut self, packets: u64) -> Result<Outcome, LabError> {
        let (rate, missed, duration) = (Rate::Burst(packets), Missed::MadeUpFor, Duration::from_secs_f64(BURST_S));
        // Nothing is lost that comes at all: queues are what is measured.
        let counted = self.offer(Offer { rate, missed, duration, after: duration, grace: RESIDUE_MAX })?;
        Ok(outcome(&counted))
    }
}

/// What is too late has not been received; what came twice has, and counts against it.
fn outcome(counted: &Counted) -> Outcome {
    let counts = &counted.counts;
    Outcome {
        offered: counted.offered,
        received: counts.in_time + counts.duplicates,
        duplicates: counts.duplicates,
        duration: counted.duration,
    }
}

fn latency(counted: &Counted, share: f64) -> Option<Latency> {
    let us = |quantile: f64| Some(time_at(&counted.times, quantile)? as f64 / 1e3);
    let left_out = counted.left_out as f64 / (counted.left_out + counted.offered) as f64;
    Some(Latency { share, p50_us: us(0.5)?, p99_us: us(0.99)?, left_out })
}

fn failed(error: std::io::Error) -> LabError {
    LabError::Parameters(format!("the generator: {error}"))
}

fn of_search(error: SearchError<LabError>) -> LabError {
    match error {
        SearchError::Trial(error) => error,
        other => LabError::Parameters(other.to_string()),
    }
}

/// Whether the generator's greatest rate was carried, so that the figure is a lower bound.
pub(super) fn is_bound(goal: &GoalResult) -> bool {
    goal.standing == Standing::AtMaximum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::live::tally::{Counts, times};

    #[test]
    fn late_packets_and_duplicates_are_losses() {
        let counts = Counts { in_time: 90, late: 5, duplicates: 2, reordered: 1, octets: 9000, strays: 7 };
        let mut times = times();
        (1..=100).for_each(|us| times.saturating_record(us * 1000));
        let duration = Duration::from_secs(1);
        let counted = Counted { offered: 100, left_out: 25, duration, lag_max: Duration::ZERO, counts, times };
        // Ten did not come in time, and two came again.
        assert_eq!(outcome(&counted).lost(), 12);
        let found = latency(&counted, 0.5).expect("times");
        assert!((50.0..52.0).contains(&found.p50_us) && (99.0..103.0).contains(&found.p99_us), "{found:?}");
        assert!((found.left_out - 0.2).abs() < 1e-9);
        let flood = Flood { offered_pps: 1000.0, carried_pps: 250.0 };
        assert!((flood.loss() - 0.75).abs() < 1e-9);
    }
}
