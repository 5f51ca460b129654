//! What is measured, for how long, and how often.

use std::time::Duration;

use ciphermill_search::mlr::Goal;

use super::frame::Frame;
use super::stack::Stack;
use super::tester::Direction;
use crate::gateway::Choice;

/// What every stack that has it is measured with.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) suite: String,
    pub(super) frame: Frame,
    pub(super) direction: Direction,
    /// Whether the loss at other rates is measured too, and the longest burst without one.
    pub(super) has_curve: bool,
}

impl Case {
    fn one_way(suite: &str, frame: Frame) -> Case {
        let has_curve = suite == GCM && [Frame::Octets(64), Frame::Octets(COMMON)].contains(&frame);
        Case { suite: suite.to_owned(), frame, direction: Direction::OneWay, has_curve }
    }
}

/// The whole of it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cases: Vec<Case>,
    /// How long a trial takes.
    pub(super) trial: Duration,
    /// Without loss, and with some.
    pub(super) goals: [Goal; 2],
    /// Trials of a search at most.
    pub(super) trials_max: usize,
    /// Shares of the rate with some loss, at which latency is measured.
    pub(super) shares: &'static [f64],
    /// How long each of these streams takes; its second half counts.
    pub(super) stream: Duration,
    /// How often a trial is made at most in which the generator was late.
    pub(super) tries: u32,
    /// Searches for the longest burst without a loss.
    pub(super) bursts: u32,
    /// Stacks by name; empty for all.
    stacks: Vec<String>,
}

/// What is measured at a share of the rate with some loss: the last one tells what the gateways spend.
pub(super) const SHARES: &[f64] = &[0.1, 0.5, 0.9];

/// How long the longest burst takes, in seconds (RFC 2544, 26.4: two at the least).
pub(super) const BURST_S: f64 = 2.0;

/// RFC 2544 wants fifty (26.4), which would take longer than everything else.
const BURSTS: u32 = 10;

const GCM: &str = "aes-128-gcm";
const CBC: &str = "aes-128-cbc+hmac-sha1-96";
const TRIPLE: &str = "3des-cbc+hmac-sha1-96";
const CHACHA: &str = "chacha20-poly1305";

/// The frames of RFC 2544, section 9.1, for Ethernet.
const RFC2544: [usize; 7] = [64, 128, 256, 512, 1024, 1280, 1518];
/// The longest that every stack takes: packets of 1,400 octets.
const COMMON: usize = 1418;

impl Plan {
    pub(super) fn new(is_quick: bool, choice: &Choice) -> Plan {
        let plan = if is_quick { Plan::quick() } else { Plan::full() };
        plan.of(choice)
    }

    fn quick() -> Plan {
        let trial = Duration::from_millis(300);
        let goal = |goal: Goal| Goal { width: 0.1, ..goal.shortened(trial, 1) };
        Plan {
            cases: vec![Case { has_curve: false, ..Case::one_way(GCM, Frame::Octets(64)) }],
            trial,
            goals: [goal(Goal::ndr()), goal(Goal::pdr())],
            trials_max: 20,
            shares: SHARES,
            stream: trial,
            tries: 3,
            bursts: BURSTS,
            stacks: ["forwarder", "ciphermill", "strongswan-libipsec"].map(str::to_owned).to_vec(),
        }
    }

    fn full() -> Plan {
        let mut cases: Vec<Case> = RFC2544.map(|len| Case::one_way(GCM, Frame::Octets(len))).to_vec();
        cases.extend([Frame::Octets(COMMON), Frame::Imix].map(|frame| Case::one_way(GCM, frame)));
        for suite in [CBC, TRIPLE, CHACHA] {
            let frames = [Frame::Octets(64), Frame::Octets(COMMON), Frame::Imix];
            cases.extend(frames.map(|frame| Case::one_way(suite, frame)));
        }
        let both = [Frame::Octets(64), Frame::Octets(COMMON), Frame::Imix];
        cases.extend(both.map(|frame| Case { direction: Direction::BothWays, ..Case::one_way(GCM, frame) }));
        Plan {
            cases,
            trial: Duration::from_secs(1),
            goals: [Goal::ndr(), Goal::pdr()],
            trials_max: 400,
            shares: SHARES,
            stream: Duration::from_secs(10),
            tries: 3,
            bursts: BURSTS,
            stacks: Vec::new(),
        }
    }

    /// What is asked for instead: suites and frames are measured one way, each suite with each frame.
    fn of(mut self, choice: &Choice) -> Plan {
        if !choice.stacks.is_empty() {
            self.stacks.clone_from(&choice.stacks);
        }
        if choice.suites.is_empty() && choice.frames.is_empty() {
            return self;
        }
        let or = |own: &[String]| if own.is_empty() { vec![GCM.to_owned()] } else { own.to_vec() };
        let frames =
            if choice.frames.is_empty() { &[Frame::Octets(64), Frame::Octets(COMMON)] } else { &*choice.frames };
        let cases = or(&choice.suites).into_iter();
        self.cases = cases.flat_map(|suite| frames.iter().map(move |frame| Case::one_way(&suite, *frame))).collect();
        self
    }

    pub(super) fn wants(&self, stack: &Stack) -> bool {
        self.stacks.is_empty() || self.stacks.contains(&stack.name)
    }

    /// Trials, durations and tolerances, in sentences.
    pub(super) fn told(&self) -> Vec<String> {
        let [ndr, pdr] = &self.goals;
        let s = Duration::as_secs_f64;
        vec![
            format!(
                "MLRsearch with trials of {} s, {} s of them at a rate, of which a share of {} may exceed the loss; the bounds are {} % apart. \
                 Losses: none (NDR) and {} % (PDR). At most {} trials a search.",
                s(&self.trial),
                s(&ndr.duration_sum),
                ndr.exceed_ratio,
                100.0 * ndr.width,
                100.0 * pdr.loss_ratio,
                self.trials_max
            ),
            format!(
                "A trial of a search in which the generator was late by more than {} ms is repeated, up to {} times in all; then the one in \
                 which it was least late counts, and is told of.",
                super::pace::LAG_MAX.as_millis(),
                self.tries
            ),
            format!(
                "Latency at {} % of PDR in streams of {} s, whose second half counts, by the kernel's stamps. What the generator cannot send \
                 when it is due is left out of them, and not made up for in bursts.",
                self.shares.iter().map(|share| (share * 100.0).to_string()).collect::<Vec<_>>().join(", "),
                s(&self.stream),
            ),
            format!(
                "Bursts of packets without a gap, up to {} s of a flood: the mean of the longest ones without a loss that {} searches found.",
                BURST_S, self.bursts
            ),
            format!(
                "Lost is what has not come {} ms after a trial's last packet, and what comes twice. A rate that is too high by {} % \
                 may pass for one that is carried: so much waits in queues.",
                super::tally::GRACE.as_millis(),
                (100.0 * s(&super::tally::GRACE) / s(&self.trial)).round()
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::live::stack::Definitions;

    #[test]
    fn a_full_run_has_every_frame_and_both_directions() {
        let plan = Plan::new(false, &Choice::default());
        for len in RFC2544 {
            assert!(plan.cases.iter().any(|case| case.frame == Frame::Octets(len)), "{len}");
        }
        assert!(plan.cases.iter().any(|case| case.frame == Frame::Imix));
        assert!(plan.cases.iter().any(|case| case.direction == Direction::BothWays));
        let definitions = Definitions::read().expect("sound");
        let has = |suite: &str| definitions.gateway.iter().any(|stack| stack.suites.contains_key(suite));
        plan.cases.iter().for_each(|case| assert!(has(&case.suite), "{}", case.suite));
        definitions.gateway.iter().for_each(|stack| assert!(plan.wants(stack), "{}", stack.name));
        let told = plan.told().join(" ");
        for needle in [
            "trials of 1 s, 21 s",
            "0.5 % apart",
            "0.5 % (PDR)",
            "10, 50, 90 % of PDR",
            "by 2 %",
            "that 10 searches found",
        ] {
            assert!(told.contains(needle), "{needle} in {told}");
        }
    }

    #[test]
    fn a_quick_run_has_one_case_and_a_user_chooses_stacks_suites_and_frames() {
        let quick = Plan::new(true, &Choice::default());
        assert_eq!((quick.cases.len(), quick.trial), (1, Duration::from_millis(300)));
        let strings = |all: [&str; 2]| all.map(str::to_owned).to_vec();
        let frames = vec![Frame::Octets(512), Frame::Imix];
        let choice =
            Choice { stacks: strings(["forwarder", "boringtun"]), suites: strings([GCM, CBC]), frames, half: None };
        let chosen = Plan::new(false, &choice);
        let definitions = Definitions::read().expect("sound");
        let names: Vec<&str> =
            definitions.gateway.iter().filter(|stack| chosen.wants(stack)).map(|stack| stack.name.as_str()).collect();
        assert_eq!(names, ["forwarder", "boringtun"]);
        let cases: Vec<_> = chosen.cases.iter().map(|case| (case.suite.as_str(), case.frame)).collect();
        let [five, mix] = [Frame::Octets(512), Frame::Imix];
        assert_eq!(cases, [(GCM, five), (GCM, mix), (CBC, five), (CBC, mix)]);
        let stacks_alone =
            Plan::new(false, &Choice { stacks: strings(["boringtun", "forwarder"]), ..Choice::default() });
        assert_eq!(stacks_alone.cases, Plan::full().cases);
    }
}
