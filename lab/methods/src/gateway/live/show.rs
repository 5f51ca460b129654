//! What was measured, as numbers, tables and plots.

use ciphermill_report::{Axis, Better, Cell, Emphasis, Look, Plot, Scale, Section, Series, Table};
use ciphermill_search::mlr::{GoalResult, Standing};

use super::Live;
use super::bench::is_bound;
use super::frame::Frame;
use super::plan::Plan;
use super::tester::Direction;
use crate::shown::{best_cell, digits, distinct, path_part};

/// Names of the goals, in their order.
const GOALS: [&str; 2] = ["ndr", "pdr"];
/// A stack that carries more than this share of what the generator offers may be held up by it.
const NEAR_GENERATOR: f64 = 0.8;
/// The forwarder's name.
const FORWARDER: &str = "forwarder";

/// What there is to learn, in paragraphs.
pub(super) const LESSON: &[&str] = &[
    "Two gateways stand between the ends of a generator, as in the article's figure 3 (RFC 2544's figure 3): packets leave one end in clear, \
     the first gateway protects them, the second one opens them, and they are counted at the other end. So what is measured is the \
     slower of both, or here, where both share one core, their sum. Rates are those of packets in clear; one way, or both ways together.",
    "The article's figure 2, a generator that speaks IPsec to one gateway, is what the section in memory measures: one half alone. \
     The article draws what gateways carry over the length of packets, with a flood of packets or without loss, and warns that \
     an accepted loss moves the figure; both are drawn here, and how much of a flood is lost.",
    "Everything runs on one machine, over veth pairs: generator and counter on one core, both gateways on another one. A pair hands packets over \
     on the core of who sends them: what the kernel does for packets between the gateways and from the second one is on the \
     gateways' core, and what it does for those that the generator sends is on the generator's, for every stack alike. The plain forwarder \
     comes first, and does all of its work there: it shows what the path costs without gateways, and that packets need not be lost on it. \
     Generator and gateways are more urgent than other programs of the machine (niceness -20).",
];

/// Adds all that was measured to a section.
pub(super) fn fill(section: &mut Section, plan: &Plan, lives: &[Live]) {
    section.lesson.extend(LESSON.iter().map(|text| (*text).to_owned()));
    section.lesson.extend(plan.told());
    lives.iter().for_each(|live| measured(section, live));
    section.conclusions.extend(conclusions(lives));
    if lives.is_empty() {
        return;
    }
    section.tables.extend([rates(lives), latencies(plan, lives), costs(lives)]);
    let kinds = distinct(lives.iter().filter(|live| live.stack != FORWARDER).map(|live| (&live.suite, live.direction)));
    for (suite, direction) in kinds {
        section.plots.extend(by_length(lives, suite, direction));
    }
    let curves = distinct(lives.iter().filter(|live| !live.curve.is_empty()).map(|live| live.frame));
    section.plots.extend(curves.into_iter().map(|frame| curve(lives, frame)));
}

/// The beginning of a measurement's name.
fn path(live: &Live) -> String {
    let frame = live.frame.to_string().to_lowercase();
    path_part(&format!("live/{}/{}/{}/{frame}", live.stack, live.suite, live.direction.name()))
}

fn measured(section: &mut Section, live: &Live) {
    let name = |rest: &str| format!("{}/{rest}", path(live));
    for (goal, found) in GOALS.iter().zip([&live.ndr, &live.pdr]) {
        match (found.throughput_pps, found.standing) {
            (Some(pps), Standing::Regular) => {
                section.measured(name(goal), pps, "packet/s", spread(found), Better::More)
            }
            (Some(pps), Standing::AtMaximum) => {
                section.measured(name(&format!("{goal}-at-least")), pps, "packet/s", spread(found), Better::Neither);
            }
            (_, standing) => section.lacks(name(goal), word(standing)),
        }
    }
    for latency in &live.latencies {
        let share = (latency.share * 100.0).round();
        section.measured(name(&format!("p50-at-{share}")), latency.p50_us, "us", 0.0, Better::Less);
        section.measured(name(&format!("p99-at-{share}")), latency.p99_us, "us", 0.0, Better::Less);
    }
    if let Some(cost) = &live.cost {
        section.measured(name("cpu"), cost.spending.core.all_s(), "s/Gb", 0.0, Better::Less);
    }
    if let Some(packets) = live.burst {
        section.measured(name("longest-burst"), packets, "packets", 0.0, Better::More);
    }
    section.measured(name("flood-carried"), live.flood.carried_pps, "packet/s", 0.0, Better::More);
    section.measured(name("flood-lost"), live.flood.loss() * 100.0, "%", 0.0, Better::Less);
}

/// Half of what lies between the bounds, as a share.
fn spread(found: &GoalResult) -> f64 {
    match (found.lower_pps, found.upper_pps) {
        (Some(lower), Some(upper)) if upper > 0.0 => (upper - lower) / upper / 2.0,
        _ => 0.0,
    }
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Regular => "found",
        Standing::AtMaximum => "all that the generator can offer is carried",
        Standing::BelowMinimum => "packets are lost at the least rate too",
        Standing::Unfinished => "the trials were used up before its bounds were close enough",
    }
}

fn conclusions(lives: &[Live]) -> Vec<String> {
    let mut said = Vec::new();
    for live in lives.iter().filter(|live| live.stack != FORWARDER) {
        let own = live.ndr.throughput_pps.unwrap_or(0.0);
        if own > NEAR_GENERATOR * live.greatest_pps {
            said.push(format!(
                "{}, {}, {} octets, {}: its {} kpps are near the {} that the generator can offer, which may hold it up.",
                live.stack,
                live.suite,
                live.frame,
                live.direction.name(),
                digits(own / 1e3),
                digits(live.greatest_pps / 1e3)
            ));
        }
    }
    said.extend(lives.iter().filter_map(|live| against(lives, live)));
    let repeated = lives.iter().map(|live| live.repeated).sum::<u32>();
    let trials = lives.iter().map(|live| live.trials.len()).sum::<usize>();
    said.push(format!("{trials} trials of searches; {repeated} trials were made again since the generator was late."));
    let late = lives.iter().map(|live| live.late.0).sum::<u32>();
    if late > 0 {
        let most = lives.iter().map(|live| live.late.1).max().unwrap_or_default();
        said.push(format!(
            "In {late} trials that count the generator was late all the same, by {} ms at most: other programs took its core. What it made up \
             for came in bursts, so that rates are lower than they would be on a quiet machine.",
            digits(most.as_secs_f64() * 1e3)
        ));
    }
    let left_out = lives.iter().flat_map(|live| &live.latencies).map(|latency| latency.left_out).fold(0.0, f64::max);
    if left_out > 0.0 {
        said.push(format!(
            "While latency was measured, up to {} % of the packets were left out: other programs had the generator's core when they were due.",
            digits(100.0 * left_out)
        ));
    }
    said
}

/// Our own gateway beside another one in the same case.
fn against(lives: &[Live], other: &Live) -> Option<String> {
    if other.stack == FORWARDER || other.stack.starts_with("ciphermill") {
        return None;
    }
    let is_same = |live: &&Live| {
        live.stack == "ciphermill"
            && (&live.suite, live.frame, live.direction) == (&other.suite, other.frame, other.direction)
    };
    let own = lives.iter().find(is_same)?;
    let rates = own.ndr.throughput_pps? / other.ndr.throughput_pps.filter(|pps| *pps > 0.0)?;
    let cost = |live: &Live| live.cost.map(|cost| cost.spending.core.all_s()).filter(|cost| *cost > 0.0);
    let costs = match (cost(own), cost(other)) {
        (Some(own), Some(other)) => format!(", at {} of its core time a gigabit", digits(own / other)),
        _ => String::new(),
    };
    Some(format!(
        "ciphermill carries {} times what {} does without loss ({}, {} octets, {}){costs}.",
        digits(rates),
        other.stack,
        other.suite,
        other.frame,
        other.direction.name()
    ))
}

/// The columns that say which case a row is of.
fn heads(live: &Live) -> [Cell; 4] {
    [
        live.stack.as_str().into(),
        live.suite.as_str().into(),
        live.frame.to_string().into(),
        live.direction.name().into(),
    ]
}

fn rate_cell(found: &GoalResult) -> Cell {
    let Some(pps) = found.throughput_pps else { return Cell::from("none").emphasis(Emphasis::Bad) };
    let text = digits(pps / 1e3);
    match found.standing {
        Standing::Regular => text.into(),
        _ if is_bound(found) => Cell::from(format!("≥ {text}")).emphasis(Emphasis::Doubtful),
        _ => Cell::from(text).emphasis(Emphasis::Doubtful),
    }
}

fn rates(lives: &[Live]) -> Table {
    let heads_of = [
        "stack",
        "suite",
        "frame",
        "ways",
        "NDR, kpps",
        "PDR, kpps",
        "NDR, Mb/s",
        "flood, kpps",
        "carried, kpps",
        "lost, %",
        "longest burst",
        "out of order",
        "trials",
    ];
    let mut table = Table::new("What is carried", &heads_of, 4);
    for live in lives {
        let best = lives.iter().filter(|other| {
            other.stack != FORWARDER
                && (&other.suite, other.frame, other.direction) == (&live.suite, live.frame, live.direction)
        });
        let best = best.filter_map(|other| other.ndr.throughput_pps).fold(0.0, f64::max);
        let ndr = rate_cell(&live.ndr);
        let is_best = ndr.emphasis == Emphasis::Plain && live.ndr.throughput_pps == Some(best);
        let ndr = if is_best { best_cell(ndr.text, true) } else { ndr };
        table.row(heads(live).into_iter().chain([
            ndr,
            rate_cell(&live.pdr),
            live.ndr.throughput_pps.map_or_else(|| "–".to_owned(), |pps| digits(megabits(live.frame, pps))).into(),
            digits(live.flood.offered_pps / 1e3).into(),
            digits(live.flood.carried_pps / 1e3).into(),
            format!("{:.1}", live.flood.loss() * 100.0).into(),
            live.burst.map_or_else(|| "–".to_owned(), digits).into(),
            live.reordered.to_string().into(),
            live.trials.len().to_string().into(),
        ]));
    }
    table.note = "Packets in clear, both ways together; Mb/s from their IP headers on. ≥: all that the generator can offer was carried. A duplicate \
                  is a loss. The flood is 100 % offered load: as many packets as the generator can send, how many \
                  of them are carried, and how many lost. Bursts are in packets."
        .to_owned();
    table
}

/// Megabits of packets a second.
fn megabits(frame: Frame, pps: f64) -> f64 {
    pps * frame.packet_len_mean() * 8.0 / 1e6
}

fn latencies(plan: &Plan, lives: &[Live]) -> Table {
    let shares = plan.shares.iter().map(|share| (share * 100.0).round());
    let names: Vec<String> = shares.flat_map(|share| [50, 99].map(|part| format!("p{part} at {share} %"))).collect();
    let first = ["stack", "suite", "frame", "ways"];
    let all: Vec<&str> = first.into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut table = Table::new("How long packets take, in microseconds", &all, 4);
    for live in lives {
        let cells = plan.shares.iter().flat_map(|share| {
            let found = live.latencies.iter().find(|latency| latency.share == *share);
            let text = |time: Option<f64>| Cell::from(time.map_or_else(|| "–".to_owned(), digits));
            [text(found.map(|latency| latency.p50_us)), text(found.map(|latency| latency.p99_us))]
        });
        table.row(heads(live).into_iter().chain(cells));
    }
    table.note =
        "At shares of PDR, from before a packet is sent until the kernel has it at the far end, through both gateways."
            .to_owned();
    table
}

fn costs(lives: &[Live]) -> Table {
    let heads_of = [
        "stack",
        "suite",
        "frame",
        "ways",
        "west, user",
        "west, system",
        "east, user",
        "east, system",
        "core, user",
        "core, system",
        "core, soft interrupt",
        "core, all",
    ];
    let mut table = Table::new("Core seconds a gigabit", &heads_of, 4);
    for (live, cost) in lives.iter().filter_map(|live| Some((live, live.cost?))) {
        let [west, east] = cost.spending.sides;
        let core = cost.spending.core;
        let times = [west.user_s, west.system_s, east.user_s, east.system_s, core.user_s, core.system_s, core.soft_s];
        let cells = times.into_iter().chain([core.all_s()]).map(|time| Cell::from(format!("{time:.3}")));
        table.row(heads(live).into_iter().chain(cells));
    }
    table.note = "At the greatest share of PDR that latency is measured at; of packets that came out, from their IP headers on. Cores a Gb/s is the \
                  same number. The core's are what it did altogether, both gateways and kernels; the kernel counts soft interrupts \
                  that come while a program runs as that program's system time too, so that sides and core do not add up."
        .to_owned();
    table
}

/// What is carried over the length of frames, without loss and of a flood.
fn by_length(lives: &[Live], suite: &str, direction: Direction) -> Option<Plot> {
    let length = |frame: Frame| match frame {
        Frame::Octets(len) => Some(len as f64),
        Frame::Imix => None,
    };
    let is_shown = |live: &&Live| live.direction == direction && (live.suite == suite || live.stack == FORWARDER);
    let shown: Vec<&Live> = lives.iter().filter(is_shown).collect();
    if distinct(shown.iter().filter_map(|live| length(live.frame))).len() < 2 {
        return None;
    }
    let mut plot = Plot::new(
        &format!("{suite}, {}: what is carried, by length", direction.name()),
        Axis::new("octets a frame", Scale::Log2),
        Axis::new("Mb/s of packets", Scale::Log10),
    );
    plot.caption =
        "As the article's figures 4 to 11, with today's stacks: without loss, and what comes through of a flood."
            .to_owned();
    for stack in distinct(shown.iter().map(|live| live.stack.as_str())) {
        let own = || shown.iter().filter(|live| live.stack == stack);
        let line = |rate: fn(&Live) -> Option<f64>| {
            let point = |live: &&Live| Some([length(live.frame)?, megabits(live.frame, rate(live)?)]);
            let mut points: Vec<[f64; 2]> = own().filter_map(point).collect();
            points.sort_by(|a, b| a[0].total_cmp(&b[0]));
            points
        };
        plot.series.push(Series::new(stack, Look::Measured, line(|live| live.ndr.throughput_pps)));
        let flood = line(|live| Some(live.flood.carried_pps));
        plot.series.push(Series::new(format!("{stack}, flood"), Look::Fitted, flood));
    }
    Some(plot)
}

/// What is lost at which rate.
fn curve(lives: &[Live], frame: Frame) -> Plot {
    let mut plot = Plot::new(
        &format!("{frame} octets: loss by rate"),
        Axis::new("kpps offered", Scale::Log10),
        Axis::new("% lost", Scale::Linear),
    );
    plot.caption =
        "RFC 2544, section 26.3: from the generator's greatest rate downwards until nothing is lost twice.".to_owned();
    for live in lives.iter().filter(|live| live.frame == frame && !live.curve.is_empty()) {
        let points = live.curve.iter().map(|[pps, loss]| [pps / 1e3, loss * 100.0]).collect();
        plot.series.push(Series::new(live.stack.as_str(), Look::Measured, points));
    }
    plot
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::gateway::Choice;
    use crate::gateway::live::bench::{Cost, Flood, Latency};
    use crate::gateway::live::load::Spent;
    use crate::gateway::live::running::Spending;
    use ciphermill_search::mlr::Goal;

    fn live(stack: &str, frame: Frame, kpps: f64, standing: Standing) -> Live {
        let goal = |goal: Goal, pps: f64| GoalResult {
            goal,
            standing,
            lower_pps: Some(pps),
            upper_pps: (standing == Standing::Regular).then_some(pps * 1.004),
            throughput_pps: Some(pps),
        };
        let core = Spent { user_s: 100.0 / kpps, system_s: 0.0, soft_s: 0.0 };
        Live {
            stack: stack.to_owned(),
            suite: if stack == FORWARDER { "none" } else { "aes-128-gcm" }.to_owned(),
            frame,
            direction: Direction::OneWay,
            greatest_pps: 900e3,
            ndr: goal(Goal::ndr(), kpps * 1e3),
            pdr: goal(Goal::pdr(), kpps * 1.1e3),
            latencies: vec![Latency { share: 0.5, p50_us: 20.0, p99_us: 90.0, left_out: 0.025 }],
            cost: Some(Cost { share: 0.9, spending: Spending { core, ..Spending::default() } }),
            flood: Flood { offered_pps: 1e6, carried_pps: kpps * 500.0 },
            curve: vec![[kpps * 1e3, 0.0], [kpps * 2e3, 0.5]],
            burst: Some(12_300.0),
            trials: Vec::new(),
            reordered: 3,
            repeated: 1,
            late: (2, Duration::from_micros(3500)),
        }
    }

    #[test]
    fn a_section_has_every_figure_under_its_name() {
        let mut lives = Vec::new();
        for frame in [Frame::Octets(64), Frame::Octets(1418), Frame::Imix] {
            lives.push(live(FORWARDER, frame, 900.0, Standing::AtMaximum));
            lives.push(live("ciphermill", frame, 300.0, Standing::Regular));
            lives.push(live("strongswan-libipsec", frame, 100.0, Standing::Regular));
        }
        let mut section = Section::new("gateway", "Gateways", "nobody");
        fill(&mut section, &Plan::new(false, &Choice::default()), &lives);
        section.check().expect("sound");
        let value = |name: &str| section.measurements.iter().find(|one| one.name == name).map(|one| one.value);
        assert_eq!(value("live/ciphermill/aes-128-gcm/one-way/64/ndr"), Some(300e3));
        assert_eq!(value("live/forwarder/none/one-way/imix/ndr-at-least"), Some(900e3));
        assert_eq!(value("live/forwarder/none/one-way/imix/ndr"), None);
        assert_eq!(value("live/strongswan-libipsec/aes-128-gcm/one-way/1418/flood-lost"), Some(95.0));
        assert_eq!(value("live/ciphermill/aes-128-gcm/one-way/64/p99-at-50"), Some(90.0));
        assert_eq!(value("live/ciphermill/aes-128-gcm/one-way/64/longest-burst"), Some(12_300.0));
        let said = section.conclusions.join(" ");
        assert!(said.contains("3.00 times what strongswan-libipsec does"), "{said}");
        assert!(said.contains("at 0.333 of its core time"), "{said}");
        assert!(!said.contains("hold it up") && said.contains("9 trials were made again"), "{said}");
        assert!(
            said.contains("In 18 trials that count the generator was late all the same, by 3.50 ms at most"),
            "{said}"
        );
        assert!(said.contains("up to 2.50 % of the packets were left out"), "{said}");
        assert_eq!((section.tables.len(), section.tables[0].rows.len()), (3, 9));
        // What is carried by length, and two lengths with a mix of losses by rate.
        assert_eq!(section.plots.len(), 4);
    }

    #[test]
    fn a_stack_that_takes_nearly_all_that_is_offered_is_told_of() {
        let near = live("ciphermill", Frame::Octets(64), 800.0, Standing::Regular);
        assert!(conclusions(&[near]).join(" ").contains("800 kpps are near the 900 that the generator can offer"));
    }

    #[test]
    fn a_rate_that_was_not_found_is_missing_and_not_a_figure() {
        let mut section = Section::new("gateway", "Gateways", "nobody");
        let unfinished = live("ciphermill", Frame::Octets(64), 10.0, Standing::Unfinished);
        measured(&mut section, &unfinished);
        assert!(section.measurements.iter().all(|one| !one.name.ends_with("ndr")));
        assert_eq!(section.missing.len(), 2);
        assert_eq!(rate_cell(&unfinished.ndr).emphasis, Emphasis::Doubtful);
    }
}
