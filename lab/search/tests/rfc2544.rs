//! The tests of RFC 2544 on devices that are formulas.
#![allow(clippy::unwrap_used, reason = "helpers of tests may stop at once, as tests do")]

use ciphermill_search::rfc2544::{
    BackToBack, Longest, LossRate, Throughput, back_to_back, latency_at, latency_shares, loss_rate, throughput,
};
use ciphermill_search::{Burst, Outcome, Range, SearchError, Trial};
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

fn plan(min: f64, max: f64) -> Throughput {
    Throughput { trial: SECOND, ..Throughput::new(Range::new(min, max).unwrap(), 10.0) }
}

#[test]
fn throughput_is_found_within_the_resolution() {
    for limit in [1_000.0, 1_001.0, 5_555.5, 77_777.0, 99_999.0] {
        let found = throughput(&mut Limit(limit), &plan(1_000.0, 100_000.0)).unwrap();
        let (lossless, lossy) = (found.lossless_pps.unwrap(), found.lossy_pps.unwrap());
        assert!(lossy - lossless <= 10.0, "{limit}: {lossless}..{lossy}");
        // One packet a trial is what counting whole ones may hide.
        assert!((lossless - 1.0..lossy + 1.0).contains(&limit), "{limit}: {lossless}..{lossy}");
        for trial in &found.trials {
            assert_eq!(trial.duration, SECOND);
            assert_eq!(trial.outcome.lost() > 0, trial.rate_pps >= lossy, "{trial:?}");
        }
    }
}

#[test]
fn throughput_beyond_the_range_has_one_bound() {
    let found = throughput(&mut Limit(2e5), &plan(1e3, 1e5)).unwrap();
    assert_eq!((found.lossless_pps, found.lossy_pps, found.trials.len()), (Some(1e5), None, 1));
    let found = throughput(&mut Limit(10.0), &plan(1e3, 1e5)).unwrap();
    assert_eq!((found.lossless_pps, found.lossy_pps, found.trials.len()), (None, Some(1e3), 2));
}

#[test]
fn throughput_ends_at_the_finest_resolution_there_is() {
    let fine = Throughput { resolution_pps: f64::MIN_POSITIVE, ..plan(1e3, 1e5) };
    assert!(throughput(&mut Limit(33_333.3), &fine).unwrap().trials.len() < 80);
}

#[test]
fn throughput_says_what_it_cannot_do() {
    for resolution_pps in [0.0, -1.0, f64::NAN] {
        let wrong = Throughput { resolution_pps, ..plan(1e3, 1e5) };
        assert!(matches!(throughput(&mut Limit(5e3), &wrong), Err(SearchError::Asked(_))));
    }
    assert_eq!(throughput(&mut Says(Err("unplugged")), &plan(1e3, 1e5)), Err(SearchError::Trial("unplugged")));
    let nothing = Ok(outcome(0, 0, SECOND));
    assert_eq!(throughput(&mut Says(nothing), &plan(1e3, 1e5)), Err(SearchError::NothingOffered { rate_pps: 1e5 }));
    assert_eq!(Throughput::new(Range::new(1.0, 2.0).unwrap(), 1.0).trial, Duration::from_secs(60));
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

#[test]
fn latency_is_measured_where_the_rfc_says() {
    let point = latency_at(1e6);
    assert_eq!((point.stream.as_secs(), point.after.as_secs(), point.repeats), (120, 60, 20));
    let rates: Vec<f64> = latency_shares(1e6, &[0.1, 0.5, 0.9], SECOND).iter().map(|point| point.rate_pps).collect();
    assert_eq!(rates, [1e5, 5e5, 9e5]);
}
