//! The gateway's section.

use ciphermill_contract::Direction;
use ciphermill_report::{Better, Section, Table};

use super::{Rate, Results};
use crate::estimate::estimate;
use crate::shown::{self, digits, ratio_cell};

const SOURCE: &str = "Freescale Semiconductor, Encryption in security gateways: measuring methods, part 2; RFC 2544; gateways' own figures";

/// What there is to learn, in paragraphs.
const LESSON: &[&str] = &[
    "A gateway does more to a packet than to encrypt it: it looks at headers, finds policy and association, gives out numbers, pads, and \
     writes headers. In memory all of that is measured, and what interfaces cost is not: packets are copied from a set of 256 into a burst, and \
     counted where they would leave. DPDK's ipsec-secgw gets as many from its ring in memory, and its rates are its port's own counters; both \
     take turns on one core, and factors are medians over rounds. Sizes are those of inner IP packets. There is one association, without a \
     replay window, unless it says otherwise.",
    "Steps say where the time goes: the copy that receiving is, headers with policy and numbers, cryptography with the mill around it, and \
     committing. Bursts have 256 packets, those of triple DES 2,048, whose lanes want 512; the peer's have 32.",
];

pub(super) fn section() -> Section {
    shown::section("gateway", "Gateway: ESP where it is used", SOURCE, LESSON)
}

fn way(direction: Direction) -> &'static str {
    if direction == Direction::Encrypt { "out" } else { "in" }
}

pub(super) fn fill(section: &mut Section, results: &Results) {
    for rate in &results.rates {
        section.measured(
            format!("{}/mpps", rate.name()),
            rate.mpps(),
            "Mpps",
            estimate(&rate.ns).spread(),
            Better::More,
        );
        if let Some(factor) = rate.factor() {
            section.ratio(format!("{}/by ipsec-secgw", rate.name()), factor, Better::More);
        }
    }
    for (count, rate) in &results.by_associations {
        let name = format!("associations/{}/{count}/mpps", way(rate.load.direction));
        section.measured(name, rate.mpps(), "Mpps", estimate(&rate.ns).spread(), Better::More);
        if let Some(factor) = rate.factor() {
            section.ratio(format!("associations/{}/{count}/by one", way(rate.load.direction)), factor, Better::More);
        }
    }
    for (what, ratio) in &results.two_cores {
        section.ratio(format!("two cores by one/{what}"), *ratio, Better::More);
    }
    section.tables.push(rate_table(&results.rates));
    section.tables.push(engine_table(results));
    section.tables.push(association_table(results));
    section.tables.push(core_table(results));
}

fn rate_table(rates: &[Rate]) -> Table {
    let heads =
        ["transform", "way", "bytes", "Mpps", "peer, Mpps", "by peer", "receive", "headers", "cryptography", "commit"];
    let mut table = Table::new("ESP in memory on one core; steps in ns a packet", &heads, 2);
    for rate in rates {
        let peer = (!rate.peer_mpps.is_empty()).then(|| digits(estimate(&rate.peer_mpps).value));
        let mut cells = vec![
            rate.load.transform.to_string().into(),
            way(rate.load.direction).into(),
            rate.load.len.to_string().into(),
            digits(rate.mpps()).into(),
            peer.unwrap_or_default().into(),
            rate.factor().map_or("".into(), ratio_cell),
        ];
        cells.extend(rate.steps.map(|step| digits(step).into()));
        table.row(cells);
    }
    table
}

fn engine_table(results: &Results) -> Table {
    let mut table = Table::new("Out, with one engine alone", &["transform", "bytes", "engine", "Mpps"], 1);
    for (engine, rate) in &results.by_engine {
        table.row(vec![
            rate.load.transform.to_string().into(),
            rate.load.len.to_string().into(),
            (*engine).into(),
            digits(rate.mpps()).into(),
        ]);
    }
    table
}

fn association_table(results: &Results) -> Table {
    let mut table = Table::new(
        "AES-128-GCM of 64 bytes, each packet with the next association",
        &["associations", "way", "Mpps", "by one"],
        0,
    );
    for (count, rate) in &results.by_associations {
        table.row(vec![
            count.to_string().into(),
            way(rate.load.direction).into(),
            digits(rate.mpps()).into(),
            rate.factor().map_or("".into(), ratio_cell),
        ]);
    }
    table
}

fn core_table(results: &Results) -> Table {
    let mut table = Table::new("Two cores by one, AES-128-GCM of 64 bytes out", &["what is spread", "times"], 1);
    for (what, ratio) in &results.two_cores {
        table.row(vec![(*what).into(), ratio_cell(*ratio)]);
    }
    table
}
