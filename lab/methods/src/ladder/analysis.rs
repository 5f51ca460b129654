//! What the figures say: terms of the cost model, steps between rungs, and sentences.
//!
//! The model is the paper's (section 4.1): a batch takes C1, plus C2 an operation, plus C3 a byte.

use ciphermill_contract::Cost;
use ciphermill_router::{Fit, Point, fit};

use super::definitions::{PAPER, PAPER_BEFORE, PAPER_BULK, paper_of};
use super::measure::Taken;
use super::rungs::Rung;

/// Steps that change less than this are called none, however quiet the machine was.
const CHANGE_MIN: f64 = 0.03;

/// Our step and the paper's differ when one is so many times the other.
const DIFFERS: f64 = 3.0;

/// A rung with what was measured on it.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    pub(crate) rung: &'static Rung,
    /// Batches of the workload, by operations.
    pub(crate) points: Vec<Taken>,
    /// What its costs are, from these batches and others of one length.
    pub(crate) fit: Option<Fit>,
}

/// A term of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Term {
    Batch,
    Op,
    Byte,
}

impl Term {
    /// What it is, for sentences.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Term::Batch => "the overhead of the batch (C1)",
            Term::Op => "the overhead of each operation (C2)",
            Term::Byte => "the bytes themselves (C3)",
        }
    }

    /// What it is, for tables.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Term::Batch => "batch",
            Term::Op => "operation",
            Term::Byte => "byte",
        }
    }
}

impl Reached {
    /// A rung with its batches; `others` are batches for the fit alone.
    pub(crate) fn new(rung: &'static Rung, points: Vec<Taken>, others: &[Taken]) -> Reached {
        let point = |taken: &Taken| Point { ops: taken.ops as u64, bytes: taken.bytes.round() as u64, ns: taken.ns };
        let all: Vec<Point> = points.iter().chain(others).map(point).collect();
        Reached { rung, points, fit: fit(&all) }
    }

    /// The batch with the highest rate.
    pub(crate) fn best(&self) -> Option<&Taken> {
        self.points.iter().max_by(|a, b| a.kb_per_s().total_cmp(&b.kb_per_s()))
    }

    fn best_rate(&self) -> f64 {
        self.best().map_or(0.0, Taken::kb_per_s)
    }

    /// Mean bytes of an operation.
    pub(crate) fn mean_len(&self) -> f64 {
        let (ops, bytes) =
            self.points.iter().fold((0.0, 0.0), |(ops, bytes), taken| (ops + taken.ops as f64, bytes + taken.bytes));
        if ops > 0.0 { bytes / ops } else { 0.0 }
    }
}

/// The shares of the three terms in a batch's time.
pub(crate) fn shares(cost: &Cost, ops: f64, len: f64) -> [f64; 3] {
    let terms = [cost.batch_ns, cost.op_ns * ops, cost.byte_ns * ops * len];
    let all: f64 = terms.iter().sum();
    if all > 0.0 { terms.map(|term| term / all) } else { [0.0; 3] }
}

/// The term that takes most of a batch's time, and its share.
pub(crate) fn dominating(cost: &Cost, ops: f64, len: f64) -> (Term, f64) {
    let shares = shares(cost, ops, len);
    let terms = [Term::Batch, Term::Op, Term::Byte];
    terms.into_iter().zip(shares).fold((Term::Batch, 0.0), |best, next| if next.1 > best.1 { next } else { best })
}

/// Operations of a batch at which its own overhead is as much as all that it holds; `None` when nothing else costs.
pub(crate) fn batch_is_half(cost: &Cost, len: f64) -> Option<f64> {
    let op_ns = cost.op_ns + cost.byte_ns * len;
    (op_ns > 0.0).then(|| cost.batch_ns / op_ns)
}

/// What a rung brought over the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// The rungs' places.
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// How many times the rate it is.
    pub(crate) ours: f64,
    /// The same in the paper, over the experiment before.
    pub(crate) theirs: Option<f64>,
    /// The larger spread of both sides, or what counts as no change at all.
    pub(crate) doubt: f64,
}

impl Step {
    /// Whether the rung made it worse, beyond doubt.
    pub(crate) fn is_worse(&self) -> bool {
        self.ours < 1.0 - self.doubt
    }

    /// Whether the rung made it better, beyond doubt.
    pub(crate) fn is_better(&self) -> bool {
        self.ours > 1.0 + self.doubt
    }

    /// Whether ours leads elsewhere than the paper's, or much further, or not nearly as far.
    pub(crate) fn differs(&self) -> bool {
        self.theirs.is_some_and(|theirs| {
            let other_way = (theirs > 1.0 && self.is_worse()) || (theirs < 1.0 && self.is_better());
            other_way || self.ours / theirs > DIFFERS || theirs / self.ours > DIFFERS
        })
    }
}

/// The steps from each rung to the next.
pub(crate) fn steps(climb: &[Reached]) -> Vec<Step> {
    let rates: Vec<f64> = climb.iter().map(Reached::best_rate).collect();
    let spread = |reached: &Reached| reached.best().map_or(0.0, |taken| taken.spread);
    (1..climb.len())
        .filter(|to| rates[to - 1] > 0.0 && rates[*to] > 0.0)
        .map(|to| Step {
            from: to - 1,
            to,
            ours: rates[to] / rates[to - 1],
            theirs: paper_of(climb[to].rung.id).and_then(|(_, factor)| factor),
            doubt: spread(&climb[to]).max(spread(&climb[to - 1])).max(CHANGE_MIN),
        })
        .collect()
}

/// A rate in kilobytes or megabytes a second, three figures.
pub(crate) fn rate(kb_per_s: f64) -> String {
    match kb_per_s {
        rate if rate >= 1e6 => format!("{:.2} GB/s", rate / 1e6),
        rate if rate >= 1e5 => format!("{:.0} MB/s", rate / 1e3),
        rate if rate >= 1e4 => format!("{:.1} MB/s", rate / 1e3),
        rate if rate >= 1e3 => format!("{:.2} MB/s", rate / 1e3),
        rate if rate >= 1e2 => format!("{rate:.0} KB/s"),
        rate => format!("{rate:.1} KB/s"),
    }
}

/// A factor: `×1.24`, `×250`.
pub(crate) fn times(factor: f64) -> String {
    match factor {
        factor if factor >= 99.5 => format!("×{factor:.0}"),
        factor if factor >= 9.95 => format!("×{factor:.1}"),
        factor => format!("×{factor:.2}"),
    }
}

fn percent(share: f64) -> String {
    let digits = if share < 0.001 { 3 } else { usize::from(share < 0.1) };
    format!("{:.digits$} %", share * 100.0)
}

/// What the climb says, in sentences.
pub(crate) fn conclusions(climb: &[Reached], bulk_kb_per_s: Option<f64>) -> Vec<String> {
    let steps = steps(climb);
    let mut sentences = Vec::new();
    sentences.extend(whole_way(climb));
    sentences.extend(largest_step(climb, &steps));
    sentences.extend(worse(climb, &steps));
    sentences.extend(steps.iter().filter(|step| step.differs()).map(|step| differs(climb, step)));
    sentences.extend(climb.iter().filter_map(dominance));
    sentences.extend(bulk_kb_per_s.and_then(|bulk| of_bulk(climb, bulk)));
    sentences
}

fn highest(climb: &[Reached]) -> Option<&Reached> {
    climb.iter().max_by(|a, b| a.best_rate().total_cmp(&b.best_rate()))
}

fn whole_way(climb: &[Reached]) -> Option<String> {
    let (first, top) = (climb.first()?, highest(climb)?);
    let (low, high) = (first.best_rate(), top.best_rate());
    let right: Vec<f64> = PAPER.iter().filter(|step| !step.wrong).map(|step| step.range[1]).collect();
    let (from, to) = (*right.first()?, right.iter().copied().fold(0.0, f64::max));
    (low > 0.0).then(|| {
        format!(
            "From rung {} ({}) to rung {} ({}) short operations became {} faster; the paper's way, from {} to {} with \
             right results, was {}.",
            first.rung.id,
            rate(low),
            top.rung.id,
            rate(high),
            times(high / low),
            rate(from),
            rate(to),
            times(to / from),
        )
    })
}

fn largest_step(climb: &[Reached], steps: &[Step]) -> Option<String> {
    let ours = steps.iter().max_by(|a, b| a.ours.total_cmp(&b.ours))?;
    let known = steps.iter().filter_map(|step| Some((step, step.theirs?)));
    let theirs = known.max_by(|a, b| a.1.total_cmp(&b.1));
    let named = |step: &Step| {
        let rung = climb[step.to].rung;
        format!("rung {} ({})", rung.id, rung.name)
    };
    let mut text = format!("The largest step was to {}: {}", named(ours), times(ours.ours));
    match theirs {
        Some((step, factor)) if step.to == ours.to => text += &format!("; so it was in the paper ({})", times(factor)),
        Some((step, factor)) => {
            text += &format!(
                "; in the paper it was that to {}, {}, which is {} here",
                named(step),
                times(factor),
                times(step.ours)
            );
        }
        None => {}
    }
    Some(text + ".")
}

fn worse(climb: &[Reached], steps: &[Step]) -> Option<String> {
    let of = |step: &Step| format!("{} ({}, {})", climb[step.to].rung.id, climb[step.to].rung.name, times(step.ours));
    let worse: Vec<String> = steps.iter().filter(|step| step.is_worse()).map(of).collect();
    let idle: Vec<String> = steps.iter().filter(|step| !step.is_worse() && !step.is_better()).map(of).collect();
    let mut text = match worse.len() {
        0 => "No rung made the best rate worse than the one before".to_owned(),
        _ => format!("Worse than the one before: rung {}", worse.join(", rung ")),
    };
    if !idle.is_empty() {
        text += &format!("; no change beyond the measuring's doubt: rung {}", idle.join(", rung "));
    }
    (!steps.is_empty()).then(|| text + ".")
}

fn differs(climb: &[Reached], step: &Step) -> String {
    let (from, to) = (climb[step.from].rung, climb[step.to].rung);
    format!(
        "The step from rung {} to rung {} ({}) is {} here and {} in the paper.",
        from.id,
        to.id,
        to.name,
        times(step.ours),
        times(step.theirs.unwrap_or(1.0)),
    )
}

/// What dominates a rung's batches, from the smallest to the largest.
fn dominance(reached: &Reached) -> Option<String> {
    let fit = reached.fit?;
    let (first, last) = (reached.points.first()?, reached.points.last()?);
    let len = reached.mean_len();
    let (small, small_share) = dominating(&fit.cost, first.ops as f64, len);
    let (large, large_share) = dominating(&fit.cost, last.ops as f64, len);
    let start = format!("Rung {} ({}): ", reached.rung.id, reached.rung.name);
    let middle = if small == large {
        let shares = [percent(small_share), percent(large_share)];
        let shares = if shares[0] == shares[1] { shares[0].clone() } else { shares.join(" to ") };
        let words = small.words();
        format!("{words} dominates from {} to {} operations a batch ({shares} of the time)", first.ops, last.ops)
    } else {
        format!(
            "with {} operation{} a batch {} dominates ({} of the time), with {} {} ({})",
            first.ops,
            if first.ops == 1 { "" } else { "s" },
            small.words(),
            percent(small_share),
            last.ops,
            large.words(),
            percent(large_share)
        )
    };
    let half = batch_is_half(&fit.cost, len).filter(|half| *half >= 1.0 && *half <= last.ops as f64);
    let end = half.map_or(String::new(), |half| format!("; below {half:.0} operations C1 is more than half of it"));
    Some(start + &middle + &end + ".")
}

fn of_bulk(climb: &[Reached], bulk_kb_per_s: f64) -> Option<String> {
    let right = PAPER.iter().filter(|step| !step.wrong);
    let best = right.map(|step| step.range[1]).fold(0.0, f64::max);
    let (first, top) = (climb.first()?, highest(climb)?);
    let share = |rate: f64| percent(rate / bulk_kb_per_s);
    (bulk_kb_per_s > 0.0).then(|| {
        format!(
            "One long operation on the single-message engine runs at {}. Short operations reach {} of that on rung {} and {} on \
             rung {}; the paper's went from {} to {} of {}.",
            rate(bulk_kb_per_s),
            share(first.best_rate()),
            first.rung.id,
            share(top.best_rate()),
            top.rung.id,
            percent(PAPER_BEFORE / PAPER_BULK),
            percent(best / PAPER_BULK),
            rate(PAPER_BULK),
        )
    })
}

#[cfg(test)]
mod tests;
