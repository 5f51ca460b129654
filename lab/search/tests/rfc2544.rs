//! The tests of RFC 2544 on devices that are formulas.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_search::rfc2544::{BackToBack, Longest, LossRate, back_to_back, loss_rate};
use ciphermill_search::{Burst, Outcome, SearchError, Trial};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Carries so many packets a second, or so many in a burst, and loses the rest.
struct Limit(f64);

fn outcome(offered: u64, received: u64, duration: Duration) -> Outcome {
    Outcome { offered, received, duplicates: 0, duration }
}

impl Trial for Limit {
    type Error = &'static str;

    fn run(&mut self, rate_pps: f64, duration: Duration) -> Result<Outcome, Self::Error> {
        let count = |rate: f64| (rate * duration.as_secs_f64()) as u64;
        Ok(outcome(count(rate_pps), count(rate_pps.min(self.0)), duration))
    }
}

impl Burst for Limit {
    type Error = &'static str;

    fn burst(&mut self, packets: u64) -> Result<Outcome, Self::Error> {
        Ok(outcome(packets, packets.min(self.0 as u64), Duration::ZERO))
    }
}

/// Says the same whatever it is asked.
struct Says(Result<Outcome, &'static str>);

impl Trial for Says {
    type Error = &'static str;

    fn run(&mut self, _: f64, _: Duration) -> Result<Outcome, Self::Error> {
        self.0
    }
}

impl Burst for Says {
    type Error = &'static str;

    fn burst(&mut self, _: u64) -> Result<Outcome, Self::Error> {
        self.0
    }
}

fn percents(limit: f64, step_percent: u8) -> (Vec<f64>, bool) {
    let plan = LossRate { trial: SECOND, step_percent, ..LossRate::new(1e6) };
    let rates = loss_rate(&mut Limit(limit), &plan).unwrap();
    (rates.trials.iter().map(|trial| (trial.rate_pps / 1e4).round()).collect(), rates.ended_lossless)
}

#[test]
fn loss_rates_go_down_to_two_trials_without_loss() {
    assert_eq!(percents(2e6, 10), (vec![100.0, 90.0], true));
    assert_eq!(percents(750e3, 10), (vec![100.0, 90.0, 80.0, 70.0, 60.0], true));
    assert!(!percents(150e3, 10).1);
    assert_eq!(percents(150e3, 10).0.last(), Some(&10.0));
    assert_eq!(percents(150e3, 5).0.last(), Some(&10.0));
    assert_eq!(percents(1.0, 1).0.len(), 100);
    let rates = loss_rate(&mut Limit(750e3), &LossRate { trial: SECOND, ..LossRate::new(1e6) }).unwrap();
    assert!((rates.trials.first().unwrap().outcome.loss_ratio() - 0.25).abs() < 1e-9);
}

#[test]
fn loss_rates_say_what_they_cannot_do() {
    for plan in [
        LossRate { step_percent: 0, ..LossRate::new(1e6) },
        LossRate { step_percent: 11, ..LossRate::new(1e6) },
        LossRate::new(0.0),
        LossRate::new(f64::NAN),
    ] {
        assert!(matches!(loss_rate(&mut Limit(1e3), &plan), Err(SearchError::Asked(_))), "{plan:?}");
    }
    assert_eq!(loss_rate(&mut Says(Err("unplugged")), &LossRate::new(1e5)), Err(SearchError::Trial("unplugged")));
    let nothing = loss_rate(&mut Says(Ok(outcome(0, 0, SECOND))), &LossRate::new(1e5));
    assert_eq!(nothing, Err(SearchError::NothingOffered { rate_pps: 1e5 }));
    assert_eq!(LossRate::new(1e5).trial, Duration::from_secs(60));
}

#[test]
fn bursts_are_found_to_the_packet() {
    let plan = BackToBack { repeats: 3, ..BackToBack::new(5e4) };
    assert_eq!(plan.max_packets, 100_000);
    for longest in [1, 2, 31_999, 99_999] {
        let found = back_to_back(&mut Limit(longest as f64), &plan).unwrap();
        assert_eq!(found.repeats.len(), 3);
        assert!(found.repeats.iter().all(|repeat| repeat.longest == Longest::Packets(longest)));
        assert_eq!(found.mean_packets(), longest as f64);
    }
    let found = back_to_back(&mut Limit(1e9), &plan).unwrap();
    assert!(found.repeats.iter().all(|repeat| repeat.longest == Longest::AtLeast(100_000) && repeat.bursts.len() == 1));
    let found = back_to_back(&mut Limit(0.0), &plan).unwrap();
    assert!(found.repeats.iter().all(|repeat| repeat.longest == Longest::None));
    assert_eq!(found.mean_packets(), 0.0);
}

#[test]
fn bursts_say_what_they_cannot_do() {
    for plan in [
        BackToBack::new(0.0),
        BackToBack { repeats: 0, ..BackToBack::new(1e3) },
        BackToBack { min_packets: 0, ..BackToBack::new(1e3) },
    ] {
        assert!(matches!(back_to_back(&mut Limit(1e3), &plan), Err(SearchError::Asked(_))), "{plan:?}");
    }
    assert_eq!(back_to_back(&mut Says(Err("unplugged")), &BackToBack::new(1e3)), Err(SearchError::Trial("unplugged")));
    // A burst of which nothing was sent has not passed.
    let found = back_to_back(&mut Says(Ok(outcome(0, 0, SECOND))), &BackToBack::new(1e3)).unwrap();
    assert_eq!(found.mean_packets(), 0.0);
}
