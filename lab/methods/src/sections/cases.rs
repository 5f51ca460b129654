//! `lab cases` as a section.

use ciphermill_report::{Better, Section, Table};

use crate::LabError;
use crate::cases::{self, Figure, Outcome, Verdict};
use crate::method::{Options, Progress};
use crate::short::Row;
use crate::shown::{self, interval, ratio_cell, verdict_cell};

/// The method in the lab's common frame. Engines that are asked for choose kernels only; suites choose cases.
///
/// # Errors
/// [`LabError`]: an engine whose output is wrong, a user who asked for an end.
pub(crate) fn run(options: &Options, progress: Progress<'_>) -> Result<Section, LabError> {
    let mut chosen = Vec::new();
    for case in cases::all()? {
        let suite = case.suite()?;
        if options.suites.is_empty() || options.suites.contains(&suite) {
            chosen.push(case);
        }
    }
    cases::section(&chosen, &[], options, progress)
}

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "A claim of speed is a ratio against somebody, measured in the same loop: times drift with the machine, ratios of \
     rounds that lie next to each other hold. Each case names operations, whom our vector kernels are compared with on \
     one core (a peer, or themselves on other operations), what has to be reached and what is hoped for. The cases are \
     data, written down before the kernels were. A peer is used in every way that there is, also as a loop written for \
     its library alone, and what counts is the fastest.",
];

/// The section, with what is known before anything is measured.
pub(crate) fn section() -> Section {
    shown::section("cases", "What the lanes engine has to reach", "", LESSON)
}

/// Fills the section from what was measured.
pub(crate) fn fill(section: &mut Section, outcomes: &[Outcome<'_>]) {
    let of = |wanted: Verdict| outcomes.iter().filter(|outcome| outcome.verdict == wanted).count();
    let (aim, must, missed) = (of(Verdict::Aim), of(Verdict::Must), of(Verdict::Missed));
    section.conclusions.push(format!(
        "Of {} goals {} are reached, {aim} of them with what was hoped for; {missed} are missed.",
        outcomes.len(),
        aim + must
    ));
    section.conclusions.extend(farthest(outcomes));
    section.tables.extend([table(outcomes), ways(outcomes)]);
    for outcome in outcomes {
        let better = if outcome.case.figure == Figure::Latency { Better::Less } else { Better::More };
        let name = format!("{}/{}", outcome.case.name, outcome.own.direction);
        let name = outcome.second.map_or(name.clone(), |peer| format!("{name}/{peer}"));
        section.ratio(name, outcome.ratio(), better);
    }
}

/// The goal that is missed by most.
fn farthest(outcomes: &[Outcome<'_>]) -> Option<String> {
    let distance = |outcome: &Outcome<'_>| (outcome.ratio().value / outcome.must).ln().abs();
    let missed = outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Missed);
    let worst = missed.max_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    Some(format!(
        "The farthest from its goal is {} {}{}: {:.2} × where {} has to be reached.",
        worst.case.name,
        worst.own.direction,
        worst.second.map_or_else(String::new, |peer| format!(" beside {peer}")),
        worst.ratio().value,
        worst.must
    ))
}

fn table(outcomes: &[Outcome<'_>]) -> Table {
    let heads = ["case", "against", "ratio", "95 %", "must", "verdict"];
    let mut table = Table::new("Cases and goals", &heads, 2);
    for outcome in outcomes {
        let (case, own, ratio) = (outcome.case, &outcome.own, outcome.ratio());
        let sign = if outcome.aim < outcome.must { "≤" } else { "≥" };
        table.row([
            format!("{} {}", case.name, own.direction).into(),
            outcome.others.first().map_or_else(String::new, |(other, _)| way(own, other)).into(),
            ratio_cell(ratio),
            interval(ratio).into(),
            format!("{sign} {}", outcome.must).into(),
            verdict_cell(outcome.verdict == Verdict::Must, outcome.verdict == Verdict::Aim),
        ]);
    }
    table.note = "The ratio is our rate in bytes by the other's, for public keys in operations, or, where the goal is an upper one, our time by the \
                  other's: the median over rounds, with the 95 % interval of that median (bootstrap). The other is its \
                  fastest way."
        .to_owned();
    table
}

/// Every way in which a peer was used, beside our own time.
fn ways(outcomes: &[Outcome<'_>]) -> Table {
    let mut table = Table::new("What was compared", &["case", "in this way", "ns/op", "ratio", "95 %"], 2);
    for (place, outcome) in outcomes.iter().enumerate() {
        let (own, case) = (&outcome.own, format!("{} {}", outcome.case.name, outcome.own.direction));
        // A second goal of the same contest has the same row of ours.
        let before = place.checked_sub(1).map(|before| &outcomes[before]);
        if before.is_none_or(|it| (&it.case.name, &it.own.direction) != (&outcome.case.name, &own.direction)) {
            table.row([
                case.clone().into(),
                format!("{}, {}", own.engine, own.kernel).into(),
                format!("{:.1}", own.ns_per_op).into(),
                "".into(),
                "".into(),
            ]);
        }
        for (other, ratio) in &outcome.others {
            table.row([
                case.clone().into(),
                way(own, other).into(),
                format!("{:.1}", other.ns_per_op).into(),
                ratio_cell(*ratio),
                interval(*ratio).into(),
            ]);
        }
    }
    table
}

/// Whom ours is compared with, and how that one is used.
fn way(own: &Row, other: &Row) -> String {
    match other.engine == own.engine {
        true => format!("itself, {} ops", other.ops),
        false => format!("{}, {}", other.engine, other.kernel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ciphermill_report::{Emphasis, Estimate};

    fn row(engine: &str, ns_per_op: f64) -> Row {
        Row {
            suite: "des-cbc".to_owned(),
            direction: "encrypt".to_owned(),
            engine: engine.to_owned(),
            kernel: "avx512".to_owned(),
            ops: 10,
            bytes: 640,
            ns_per_op,
            mb_per_s: 64_000.0 / ns_per_op,
            cycles_per_byte: 1.0,
            spread: 0.01,
            of_fastest: Estimate::default(),
            idle_lanes: None,
        }
    }

    #[test]
    fn a_second_goal_has_a_line_and_a_measurement_of_its_own() {
        let all = cases::all().expect("the definitions parse");
        let case = all.iter().find(|case| case.name == "x25519-shared").expect("a case");
        let outcome = |second, must, ratio: f64, peer: &str| Outcome {
            case,
            must,
            aim: 2.0 * must,
            second,
            own: row("lanes", 10.0),
            others: vec![(row(peer, 10.0 * ratio), Estimate { value: ratio, interval: [ratio - 0.01, ratio + 0.01] })],
            verdict: if ratio >= must { Verdict::Must } else { Verdict::Missed },
        };
        let outcomes = [outcome(None, 5.0, 6.0, "openssl-public"), outcome(Some("crypto-mb"), 1.0, 0.9, "crypto-mb")];
        let mut section = section();
        fill(&mut section, &outcomes);
        assert!(
            section.conclusions[1].contains("encrypt beside crypto-mb: 0.90 × where 1"),
            "{:?}",
            section.conclusions
        );
        let names: Vec<&str> = section.measurements.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["x25519-shared/encrypt", "x25519-shared/encrypt/crypto-mb"]);
        let of = |table: usize, column: usize| -> Vec<&str> {
            section.tables[table].rows.iter().map(|row| row[column].text.as_str()).collect()
        };
        assert_eq!(of(0, 4), ["≥ 5", "≥ 1"]);
        assert_eq!(of(1, 1), ["lanes, avx512", "openssl-public, avx512", "crypto-mb, avx512"], "our own row once");
        section.check().expect("sound");
    }

    #[test]
    fn verdicts_and_the_farthest_goal_come_from_the_figures() {
        let all = cases::all().expect("the definitions parse");
        let mut case = all.into_iter().find(|case| case.figure == Figure::Rate).expect("a rate");
        (case.must, case.aim) = (4.0, 8.0);
        let outcome = |ratio: f64| Outcome {
            case: &case,
            must: case.must,
            aim: case.aim,
            second: None,
            own: row("lanes", 10.0),
            others: vec![
                (row("ipsec-mb", 10.0 * ratio), Estimate { value: ratio, interval: [ratio - 0.5, ratio + 0.04] }),
                (row("ipsec-mb", 20.0 * ratio), Estimate { value: 2.0 * ratio, interval: [ratio, 3.0 * ratio] }),
            ],
            verdict: if ratio >= 8.0 {
                Verdict::Aim
            } else if ratio >= 4.0 {
                Verdict::Must
            } else {
                Verdict::Missed
            },
        };
        let mut decrypting = outcome(2.0);
        decrypting.own.direction = "decrypt".to_owned();
        let mut section = section();
        fill(&mut section, &[outcome(9.0), decrypting]);
        assert_eq!(
            section.conclusions[0],
            "Of 2 goals 1 are reached, 1 of them with what was hoped for; 1 are missed."
        );
        assert!(section.conclusions[1].contains("decrypt: 2.00 × where 4"), "{:?}", section.conclusions);
        let moods: Vec<Emphasis> = section.tables[0].rows.iter().map(|row| row[5].emphasis).collect();
        assert_eq!(moods, [Emphasis::Good, Emphasis::Bad]);
        let cells: Vec<&str> = section.tables[0].rows[0].iter().map(|cell| cell.text.as_str()).collect();
        assert_eq!(cells[1..], ["ipsec-mb, avx512", "9.00 ×", "8.50–9.04", "≥ 4", "aim reached"]);
        assert_eq!(section.tables[1].rows.len(), 2 * 3);
        // The slower way counts nowhere; the second ratio's interval is too wide to be quoted.
        assert_eq!(section.measurements[0].interval, Some([8.5, 9.04]));
        assert_eq!(section.measurements.iter().map(|one| one.is_noisy()).collect::<Vec<_>>(), [false, true]);
        section.check().expect("sound");
        let shown = ciphermill_report::terminal(&section, 80, false);
        assert!(shown.contains("─────") && !shown.contains("ratio:"), "80 columns show the table whole: {shown}");
    }
}
