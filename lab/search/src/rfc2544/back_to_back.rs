//! Section 26.4: the longest burst without loss.

use crate::trial::{Burst, Outcome, SearchError};

/// How bursts are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackToBack {
    /// The shortest burst, in packets; at least 1.
    pub min_packets: u64,
    /// The longest burst, in packets.
    pub max_packets: u64,
    /// How many times the search is repeated.
    pub repeats: u32,
}

impl BackToBack {
    /// Bursts of up to 2 s at the greatest rate of the medium, 50 times.
    #[must_use]
    pub fn new(max_pps: f64) -> Self {
        // Casts of floating-point numbers saturate, and what is not a number becomes 0, which is refused later.
        Self { min_packets: 1, max_packets: (max_pps * 2.0) as u64, repeats: 50 }
    }
}

/// The longest burst of one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Longest {
    /// So many packets pass and one more is lost.
    Packets(u64),
    /// The longest burst that was tried passes.
    AtLeast(u64),
    /// Not even the shortest passes.
    None,
}

impl Longest {
    fn packets(self) -> u64 {
        match self {
            Self::Packets(packets) | Self::AtLeast(packets) => packets,
            Self::None => 0,
        }
    }
}

/// One repetition.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// What was found.
    pub longest: Longest,
    /// The lengths of the bursts that were sent, in packets, and what became of them, in their order.
    pub bursts: Vec<(u64, Outcome)>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Bursts {
    /// The repetitions, in their order.
    pub repeats: Vec<Repeat>,
}

impl Bursts {
    /// The mean of the longest bursts, in packets, which is what the RFC has reported; one that found none counts as 0.
    #[must_use]
    pub fn mean_packets(&self) -> f64 {
        let sum: f64 = self.repeats.iter().map(|repeat| repeat.longest.packets() as f64).sum();
        if self.repeats.is_empty() { 0.0 } else { sum / self.repeats.len() as f64 }
    }
}

/// Searches by bisection for the longest burst that is forwarded without loss (26.4), several times.
///
/// # Errors
/// If a burst cannot be sent, or if there is nothing to repeat or no length between the bounds.
pub fn back_to_back<B: Burst>(device: &mut B, plan: &BackToBack) -> Result<Bursts, SearchError<B::Error>> {
    if plan.min_packets == 0 || plan.min_packets > plan.max_packets || plan.repeats == 0 {
        return Err(SearchError::Asked("bursts have at least one packet, and are tried at least once"));
    }
    let repeats = (0..plan.repeats).map(|_| repeat(device, plan)).collect::<Result<_, _>>()?;
    Ok(Bursts { repeats })
}

fn repeat<B: Burst>(device: &mut B, plan: &BackToBack) -> Result<Repeat, SearchError<B::Error>> {
    let mut bursts = Vec::new();
    let mut passes = |packets: u64| {
        let outcome = device.burst(packets).map_err(SearchError::Trial)?;
        bursts.push((packets, outcome));
        Ok(outcome.offered > 0 && outcome.lost() == 0)
    };
    let longest = if passes(plan.max_packets)? {
        Longest::AtLeast(plan.max_packets)
    } else if plan.min_packets == plan.max_packets || !passes(plan.min_packets)? {
        Longest::None
    } else {
        let (mut passed, mut lost) = (plan.min_packets, plan.max_packets);
        while lost - passed > 1 {
            let middle = passed + (lost - passed) / 2;
            if passes(middle)? { passed = middle } else { lost = middle }
        }
        Longest::Packets(passed)
    };
    Ok(Repeat { longest, bursts })
}
